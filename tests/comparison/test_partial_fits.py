"""Nets of unfinished jobs: kept one by one, taken up again, and gone when the results are there."""

import functools
import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.comparison import store as comparison_store
from adacsl.comparison.fits import FitKey
from adacsl.comparison.jobs import Parts, plan_jobs, run_work
from adacsl.comparison.runner import RunInterrupted, run
from adacsl.comparison.store import Store, StoreError
from adacsl.estimators.fit import fit_methods
from adacsl.fitting.rows import Rows
from adacsl.neural import fit
from adacsl.neural.learner import NeuralLearner

SCRIPT = Path(__file__).parent / "scripts" / "picture_run.py"
STEERED = {"loss": "weighted", "controller": "auto", "cv": 3}
BEST, LAST = CostSensitiveClassifier(**STEERED), CostSensitiveClassifier(**STEERED, select="last")
BOTH = {"best": BEST, "last": LAST}


@pytest.fixture(scope="module")
def pictures(load_module):
    return load_module(SCRIPT)


class Spy:
    """Notes the folds whose nets are trained; an interrupt comes before the one to stop at."""

    def __init__(self, train):
        self.train, self.folds, self.splits, self.stop_at = train, [], [], None

    def __call__(self, net, data, members, *rest, **options):
        (member,) = members
        if member.fold == self.stop_at:
            raise KeyboardInterrupt
        self.folds.append(member.fold)
        self.splits.append(member.seed - member.fold)  # the nets of split 3 have the seeds 3, 4, 5
        self.train(net, data, members, *rest, **options)


@pytest.fixture
def trained(monkeypatch):
    spy = Spy(fit.train)
    monkeypatch.setattr(fit, "train", spy)
    return spy


@pytest.fixture
def results(pictures):
    """What a comparison finds out about some methods; ``parts`` outlive an interrupt."""

    def find(parts, methods, ratio=3.0):
        task = pictures.made_pictures()
        fits = [FitKey(task.name, ratio, name, 0) for name in methods]
        return list(run_work({task.name: task}, (methods, pictures.PROTOCOL), fits, parts=parts))

    return find


def same(one, other):
    assert one.fit == other.fit
    assert np.array_equal(one.scores, other.scores)
    assert np.array_equal(one.decisions, other.decisions)
    assert one.metrics == other.metrics
    assert one.history == other.history


def kept(folder):
    return sorted(path.stem for path in folder.rglob("*.json"))


@pytest.mark.weekly
def test_an_interrupted_cross_fit_goes_on_with_the_networks_it_has_and_ends_the_same(tmp_path, trained, results):
    whole = results(None, BOTH)
    trained.folds.clear()
    parts = Parts(tmp_path / "parts")
    trained.stop_at = 2
    with pytest.raises(KeyboardInterrupt):
        results(parts, BOTH)
    assert trained.folds == [0, 1]
    assert kept(tmp_path / "parts") == ["0", "1"]
    trained.stop_at = None
    trained.folds.clear()
    again = results(parts, BOTH)
    assert trained.folds == [2]
    for one, other in zip(whole, again, strict=True):
        same(one, other)
    assert [row["fold"] for row in again[0].history] == [0, 0, 1, 1, 2, 2]
    assert not (tmp_path / "parts").exists()


def small_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(768, 3))


def test_networks_of_three_classes_are_taken_up_too(tmp_path, trained):
    rng = np.random.default_rng(0)
    y = np.arange(36) % 3
    rows = Rows(rng.integers(0, 90, (36, 16, 16, 3), np.uint8), y, np.arange(30), images=True, n_classes=3)
    costs = CostMatrix.from_array([[0, 2, 8], [1, 0, 6], [1, 3, 0]], rows="predicted")

    def watched(parts):
        made = CostSensitiveClassifier(
            costs, learner=NeuralLearner(small_net, epochs=2), random_state=0, device="cpu", decide="tuned", **STEERED
        )
        ((_, candidate),) = fit_methods([(made, costs)], rows, watch=np.arange(30, 36), parts=parts)
        return candidate.watched, made.oof_scores_, made.history_

    parts = Parts(tmp_path / "parts")
    trained.stop_at = 2
    with pytest.raises(KeyboardInterrupt):
        watched(parts)
    trained.stop_at = None
    trained.folds.clear()
    again, whole = watched(parts), watched(None)
    assert trained.folds == [2, 0, 1, 2]
    assert whole[0].shape == (6, 3)
    for one, other in zip(again[:2], whole[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    assert again[2].equals(whole[2])


def test_the_time_of_kept_networks_counts(tmp_path, trained, results, monkeypatch):
    parts = Parts(tmp_path / "parts")
    trained.stop_at = 1
    with pytest.raises(KeyboardInterrupt):
        results(parts, {"best": BEST})
    read = Parts.read

    def long_ago(self, training, fold):
        result = read(self, training, fold)
        states = {name: state for name, state in (result or {}).items() if isinstance(state, dict)}
        return {name: state | {"seconds": 1000.0} for name, state in states.items()} or None

    monkeypatch.setattr(Parts, "read", long_ago)
    trained.stop_at = None
    (one,) = results(parts, {"best": BEST})
    assert 1000.0 < one.seconds < 1300.0


@pytest.mark.weekly
def test_a_use_that_was_not_watched_then_is_trained_again(tmp_path, trained, results):
    parts = Parts(tmp_path / "parts")
    trained.stop_at = 1
    with pytest.raises(KeyboardInterrupt):
        results(parts, {"best": BEST})
    trained.folds.clear()
    trained.stop_at = 2
    with pytest.raises(KeyboardInterrupt):
        results(parts, BOTH)
    assert trained.folds == [0, 1]
    # but fewer uses than were watched are no reason
    trained.stop_at = None
    trained.folds.clear()
    (one,) = results(parts, {"last": LAST})
    assert trained.folds == [2]
    trained.folds.clear()
    (other,) = results(None, {"last": LAST})
    same(one, other)


def test_parts_stay_until_the_last_result_was_taken(tmp_path, trained, pictures):
    task = pictures.made_pictures()
    fits = [FitKey(task.name, 3.0, name, 0) for name in BOTH]
    going = run_work({task.name: task}, (BOTH, pictures.PROTOCOL), fits, parts=Parts(tmp_path / "parts"))
    next(going)
    next(going)
    assert kept(tmp_path / "parts") == ["0", "1", "2"]
    assert next(going, None) is None
    assert not (tmp_path / "parts").exists()


def test_a_single_network_leaves_no_parts(tmp_path, trained, pictures):
    task = pictures.made_pictures()
    work = ({"single": CostSensitiveClassifier(loss="weighted")}, pictures.PROTOCOL)
    going = run_work({task.name: task}, work, [FitKey(task.name, 3.0, "single", 0)], parts=Parts(tmp_path / "parts"))
    for _ in going:
        assert not (tmp_path / "parts").exists()
    assert trained.folds == [0]


def test_what_is_damaged_or_newer_is_no_part(tmp_path, monkeypatch):
    parts = Parts(tmp_path, "pictures", 0)
    parts.write("some training", 0, {"seconds": 1.5, "watches": {"a": math.inf}, "list": [np.arange(3.0), None]})
    result = parts.read("some training", 0)
    assert (result["seconds"], result["watches"]) == (1.5, {"a": math.inf})
    assert np.array_equal(result["list"][0], np.arange(3.0))
    assert parts.read("some training", 1) is None
    assert Parts(tmp_path, "pictures", 1).read("some training", 0) is None
    assert Parts(tmp_path, "others", 0).read("some training", 0) is None
    assert parts.read("another training", 0) is None
    (path,) = tmp_path.rglob("0.json")
    path.write_bytes(path.read_bytes()[:-40])
    assert parts.read("some training", 0) is None
    monkeypatch.setattr(comparison_store, "SCHEMA_VERSION", comparison_store.SCHEMA_VERSION + 1)
    parts.write("some training", 0, {"seconds": 1.5})
    assert parts.read("some training", 0) is not None
    monkeypatch.undo()
    assert parts.read("some training", 0) is None


def test_a_run_that_is_interrupted_keeps_its_networks_in_its_folder(tmp_path, trained, pictures):
    task = pictures.made_pictures()
    (job,) = plan_jobs([task], {task.name: {"best": BEST}}, {task.name: [3.0]}, [0], pictures.PROTOCOL)
    for stop_at, expected in ((1, [0]), (2, [1]), (None, [2])):
        trained.stop_at = stop_at
        trained.folds.clear()
        with Store.open(tmp_path / "run", {"data": {}}) as store:
            work = functools.partial(run_work, parts=Parts(store.folder / "parts"))
            if stop_at is None:
                assert run([job], work, store, shared={task.name: task}, n_jobs=1).done == 1
            else:
                with pytest.raises(RunInterrupted):
                    run([job], work, store, shared={task.name: task}, n_jobs=1)
        assert trained.folds == expected
    assert not (tmp_path / "run/parts").exists()


@pytest.mark.weekly
def test_a_comparison_killed_in_the_middle_of_a_cross_fit_ends_the_same(tmp_path, trained, pictures):
    """The power goes when two of three nets are there; the same call goes on, and every number is the same."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "run"), "2"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert kept(tmp_path / "run/parts") == ["0", "1"]
    assert not list((tmp_path / "run").rglob("fits/*/*/*.json"))
    again = pictures.compare(tmp_path / "run")
    # of the first split only the net that is missing, then the second split
    assert list(zip(trained.splits, trained.folds, strict=True)) == [(0, 2), (1, 0), (1, 1), (1, 2)]
    trained.folds.clear()
    whole = pictures.compare(tmp_path / "whole")
    assert trained.folds == [0, 1, 2] * 2
    assert list(whole.fits) == list(again.fits)
    for key in whole.fits:
        same(whole.fits[key], again.fits[key])
    assert not (tmp_path / "run/parts").exists()


def test_a_full_disk_ends_the_run_in_one_line(tmp_path, trained, results, monkeypatch):
    def full(path, content, *, replace):
        raise StoreError(f"could not write {path}: No space left on device")

    monkeypatch.setattr("adacsl.comparison.jobs.put", full)
    with pytest.raises(StoreError, match="No space left"):
        results(Parts(tmp_path / "parts"), {"best": BEST})
