"""Results do not depend on the number of processes or threads, nor on failures of some of them."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier
from adacsl.execution.threads import MANY_ROWS, limited
from adacsl.integrations.lightning import by_name
from adacsl.learners.histogram_boosting import HistogramBoosting
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural.learner import NeuralLearner
from adacsl.neural.loop import MemberTraining, check_alike, difference
from benchmarks.attacks.processes import STARTED

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


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize("number", range(len(STARTED)))
def test_failures_of_processes_are_handled(tmp_path, number):
    attempt = STARTED[number](tmp_path)
    assert not attempt.fault, attempt


def fit(**trainer):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3 == 0
    return AdaCSLClassifier(
        CostMatrix(fp=1, fn=5), learner=NeuralLearner(epochs=1, trainer=trainer), random_state=0
    ).fit(X, y)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "[third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1\nGLHF!"
        ),
        torch.distributed.DistNetworkError("the client socket has timed out"),
        RuntimeError("Application timeout caused pair closure"),  # Gloo's too, in the backward pass
    ],
)
def test_a_process_that_is_gone_is_one_line(monkeypatch, error):
    def lost(*args, **kwargs):
        raise error

    monkeypatch.setattr(pl.Trainer, "fit", lost)
    with pytest.raises(RuntimeError, match=r"^another process of this fit has ended.*with resume=.*$"):
        fit()


def test_other_errors_stay_as_they_are(monkeypatch):
    def wrong(*args, **kwargs):
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(pl.Trainer, "fit", wrong)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        fit()


def test_processes_that_differ_are_named_by_rank_and_kind():
    same, other = torch.zeros(2, 32, dtype=torch.uint8), torch.zeros(2, 32, dtype=torch.uint8)
    other[0, 31], other[1, 0] = 1, 1
    names = ["rows", "settings"]
    assert difference(names, torch.stack([same, same])) == ""
    result = difference(names, torch.stack([same, other, same, other]))
    assert result.startswith("other rows and settings in process 1, 3 than in process 0: every process")
    other[0] = 0
    assert difference(names, torch.stack([same, other])).startswith("other settings in process 1 than")


def test_all_processes_compare_what_they_fit(monkeypatch):
    """One of two processes, with another's answer in place of the network."""

    def answer(result, own):
        for place, change in zip(result, (0, 1), strict=True):
            place.copy_(own ^ change)

    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_gather", answer)
    with pytest.raises(ValueError, match="other rows in process 1 than in process 0"):
        check_alike({"rows": "ab" * 32}, torch.device("cpu"))


def test_the_identity_of_a_fit_is_its_rows_and_its_settings(monkeypatch):
    seen = []
    monkeypatch.setattr(MemberTraining, "setup", lambda self, stage: seen.append(self._identity()))
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3 == 0
    for rows, lr in ((X, 0.1), (X, 0.1), (X + 1, 0.1), (X, 0.2)):
        net = {"epochs": 1, "learning_rate": lr}
        AdaCSLClassifier(CostMatrix(fp=1, fn=5), learner=NeuralLearner(**net), random_state=0, controller=None).fit(
            rows, y
        )
    first, again, moved, faster = seen
    assert first == again
    assert (moved["rows"] != first["rows"], moved["settings"] == first["settings"]) == (True, True)
    assert (faster["rows"] == first["rows"], faster["settings"] != first["settings"]) == (True, True)


def test_what_cannot_be_sharded_is_refused():
    with pytest.raises(ValueError, match=r"'fsdp' is for large networks, module=.*use 'ddp'"):
        fit(strategy="fsdp", accelerator="cpu", devices=2)
    with pytest.raises(
        ValueError, match=r"strategy='ModelParallelStrategy' shows the whole network to one.*use 'fsdp'"
    ):
        fit(strategy=pl.strategies.ModelParallelStrategy(), devices=2)


def test_weights_of_an_optimizer_are_told_by_their_places_in_its_groups():
    """As torch itself reads a saved state; Lightning takes the numbers to be in the network's order."""

    def made():
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        groups = [{"params": [layer.weight for layer in net], "weight_decay": 0.1}]
        return net, torch.optim.AdamW([*groups, {"params": [layer.bias for layer in net], "weight_decay": 0.0}])

    (net, trained), (other, loaded) = made(), made()
    net(torch.ones(3, 2)).pow(2).sum().backward()
    trained.step()
    loaded.load_state_dict(trained.state_dict())
    result = by_name(trained.state_dict(), loaded, other)
    assert [group["params"] for group in result["param_groups"]] == [["0.weight", "1.weight"], ["0.bias", "1.bias"]]
    assert [group["weight_decay"] for group in result["param_groups"]] == [0.1, 0.0]
    for name, weight in other.named_parameters():
        assert torch.equal(result["state"][name]["exp_avg"], loaded.state[weight]["exp_avg"])


FITTED_ON_THREADS = {
    "logistic": lambda costs: CostSensitiveClassifier(costs, learner="logistic", random_state=0),
    "lightgbm": lambda costs: CostSensitiveClassifier(costs, learner="lightgbm", random_state=0),
    "xgboost": lambda costs: CostSensitiveClassifier(costs, learner="xgboost", random_state=0),
    "histogram": lambda costs: CostSensitiveClassifier(
        costs, learner=SklearnLearner(HistogramBoosting(max_iter=20), encode=False), random_state=0
    ),
    "net": lambda costs: CostSensitiveClassifier(costs, learner=NeuralLearner(epochs=1), random_state=0),
    "ensemble": lambda costs: EnsembleClassifier(
        costs, estimators=["logistic", "lightgbm", "histogram"], cv=2, n_jobs=1, random_state=0
    ),
}


@pytest.mark.weekly
@pytest.mark.parametrize("learner", FITTED_ON_THREADS)
def test_scores_do_not_depend_on_the_number_of_threads(learner):
    """So many rows that libraries use all available threads: sums are made in other orders."""
    rng = np.random.default_rng(0)
    y = (rng.random(MANY_ROWS + 1000) < 0.3).astype(int)
    X = rng.normal(size=(len(y), 4)) + y[:, None]

    def scores(threads):
        with limited(threads):
            return FITTED_ON_THREADS[learner](CostMatrix(fp=1, fn=5)).fit(X, y).predict_proba(X)

    one = scores(1)
    gaps = [float(np.abs(scores(threads) - one).max()) for threads in (2, 4)]
    assert max(gaps) < 1e-6, gaps  # 0 on all of three seeds; a few roundings of float32 are left to other machines


def own_net(features):
    return nn.Sequential(nn.Linear(features, 4), nn.Dropout(0.5), nn.Linear(4, 1))


def test_fits_in_threads_are_those_in_sequence():
    rng = np.random.default_rng(0)
    y = (rng.random(60) < 0.4).astype(int)
    X = rng.normal(size=(60, 3)) + y[:, None]

    def proba(_):
        clf = AdaCSLClassifier(CostMatrix(fp=1, fn=5), learner=NeuralLearner(module=own_net, epochs=2), random_state=0)
        return clf.fit(X, y).predict_proba(X)

    state = torch.get_rng_state()
    alone = proba(0)
    assert torch.equal(state, torch.get_rng_state())  # the caller's random numbers do not change
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(alone, result) for result in pool.map(proba, range(4)))


def test_the_same_classifier_from_settings_of_the_trainer():
    rng = np.random.default_rng(0)
    y = (rng.random(120) < 0.3).astype(int)
    X = rng.normal(size=(120, 4)) + y[:, None]

    def proba(**trainer):
        net = {"epochs": 2, "trainer": trainer or None}
        return (
            AdaCSLClassifier(CostMatrix(fp=1, fn=5), learner=NeuralLearner(**net), random_state=0)
            .fit(X, y)
            .predict_proba(X)
        )

    assert np.array_equal(proba(), proba(accelerator="cpu", devices=1))
