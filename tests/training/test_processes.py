"""The number of processes does not matter, nor how Lightning's trainer is told to use one."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adacsl import AdaCSLClassifier, CostMatrix

SCRIPT = Path(__file__).parent / "scripts" / "two_processes.py"


@pytest.mark.slow
@pytest.mark.weekly
def test_two_processes_train_what_one_does(tmp_path, load_module):
    command = [sys.executable, str(SCRIPT), str(tmp_path), "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("2-0.json", "2-1.json"))
    assert first == second
    script = load_module(SCRIPT)
    one = {name: script.run(1, **settings) for name, settings in script.SCENARIOS.items()}
    # also with dropout, whose random numbers are those of the rows
    for name in ("plain", "folds", "default", "classes"):
        for column in ("lambdas" if name == "classes" else "lambda", "val_cost", "train_loss"):
            assert first[name][column] == pytest.approx(one[name][column], abs=1e-4, rel=1e-4), (name, column)
        assert first[name]["scores"] == pytest.approx(one[name]["scores"], abs=1e-3)
        assert first[name]["cost"] == pytest.approx(one[name]["cost"], abs=1e-4)


def test_the_same_classifier_from_settings_of_the_trainer():
    rng = np.random.default_rng(0)
    y = (rng.random(120) < 0.3).astype(int)
    X = rng.normal(size=(120, 4)) + y[:, None]

    def proba(**trainer):
        net = {"epochs": 2, "trainer": trainer or None}
        return AdaCSLClassifier(CostMatrix(fp=1, fn=5), net=net, random_state=0).fit(X, y).predict_proba(X)

    assert np.array_equal(proba(), proba(accelerator="cpu", devices=1))
