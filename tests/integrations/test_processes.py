"""Two processes measure and train what one does; tests of Lightning and the Trainer have more, in the weekly run."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "scripts" / "processes.py"
TORCHRUN = Path(__file__).parents[2] / "examples" / "torchrun.py"


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_two_processes_compute_what_one_computes(tmp_path):
    """CostMetric; and under DDP maps with ignored pixels and several labels: the same weights, lambdas and costs."""
    run(sys.executable, str(SCRIPT), str(tmp_path))
    one, *two = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("1-0", "2-0", "2-1"))
    for result in two:
        for name, values in one["measured"].items():
            columns = ("cost", "cost_half", "cost_bayes") if name == "folded" else values
            for column in columns:
                assert result["measured"][name][column] == pytest.approx(values[column], rel=1e-6), (name, column)
        for name, columns in one["trained"].items():
            for column, values in columns.items():
                assert result["trained"][name][column] == pytest.approx(values, rel=1e-4), (name, column)


@pytest.mark.slow
def test_torchrun_has_the_lambdas_of_one_process(capsys, monkeypatch):
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    runpy.run_path(str(TORCHRUN))
    printed = capsys.readouterr().out
    monkeypatch.undo()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(TORCHRUN)]
    one, two = ([float(value) for value in re.findall(r"lambda (\d+\.\d+)", text)] for text in (printed, run(*command)))
    assert len(one) == len(set(one)) == 6
    # gradients are summed in another order; the measured scores are the same to a few digits of float32
    assert two == pytest.approx(one, rel=1e-4)
