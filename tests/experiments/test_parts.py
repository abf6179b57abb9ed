"""Nets of unfinished jobs: kept one by one, taken up again, and gone when the results are there."""

import functools
import math

import numpy as np
import pytest

from adacsl import CostMatrix, Whole
from adacsl.datasets import Task
from adacsl.experiments import documents, nets
from adacsl.experiments.cells import Cell
from adacsl.experiments.deciding import Use
from adacsl.experiments.documents import StoreError
from adacsl.experiments.jobs import plan_jobs, run_work
from adacsl.experiments.nets import Training, run_nets
from adacsl.experiments.parts import Parts, Place
from adacsl.experiments.protocol import Protocol, make_split
from adacsl.experiments.recipes import Recipe
from adacsl.experiments.runner import RunInterrupted, run
from adacsl.experiments.store import Store

PROTOCOL = Protocol(epochs=2, batch_size=16, device="cpu", rotate=True)
BEST = Recipe("best", loss="weighted", adapt=Whole(), crossfit=3)
LAST = Recipe("last", loss="weighted", adapt=Whole(), crossfit=3, select="last")
TRAINING = Training.of(BEST, 4.0)
PLACE = Place("pictures", 0, repr(TRAINING))


def made_pictures():
    """Noise, with a bright spot in the positives."""
    y = (np.arange(48) % 4 == 0).astype(np.int64)
    pixels = np.random.default_rng(0).integers(40, 140, (48, 16, 16, 3))
    pixels[y == 1, 4:12, 4:12] += 110
    return Task("pictures", pixels.astype(np.uint8), y, CostMatrix.balanced(y), groups=np.arange(48) // 2)


class Spy:
    """Notes the folds whose nets are trained; an interrupt comes before the one to stop at."""

    def __init__(self, train):
        self.train, self.folds, self.stop_at = train, [], None

    def __call__(self, net, *rest):
        if net.member.fold == self.stop_at:
            raise KeyboardInterrupt
        self.folds.append(net.member.fold)
        self.train(net, *rest)


@pytest.fixture
def trained(monkeypatch):
    spy = Spy(nets._train_image_net)
    monkeypatch.setattr(nets, "_train_image_net", spy)
    return spy


def results(parts, *methods):
    task = made_pictures()
    uses = [Use.of(method, Cell("pictures", 4.0, method.name, 0)) for method in methods]
    return list(run_nets(task, make_split(task, PROTOCOL, 0), 0, {TRAINING: uses}, PROTOCOL, parts))


def test_an_interrupted_cross_fit_goes_on_with_the_nets_it_has_and_ends_the_same(tmp_path, trained):
    whole = results(None, BEST, LAST)
    trained.folds.clear()
    parts = Parts(tmp_path / "parts")
    trained.stop_at = 2
    with pytest.raises(KeyboardInterrupt):
        results(parts, BEST, LAST)
    assert trained.folds == [0, 1]
    trained.stop_at = None
    trained.folds.clear()
    again = results(parts, BEST, LAST)
    assert trained.folds == [2]
    for one, other in zip(whole, again, strict=True):
        assert one.use == other.use
        assert np.array_equal(one.decided.scores, other.decided.scores)
        assert one.decided.validation_cost == other.decided.validation_cost
        assert one.history == other.history
        assert one.extra == other.extra
    assert [row["fold"] for row in again[0].history] == [0, 0, 1, 1, 2, 2]
    assert not (tmp_path / "parts").exists()


def test_the_time_of_kept_nets_counts(tmp_path, trained):
    parts = Parts(tmp_path / "parts")
    trained.stop_at = 1
    with pytest.raises(KeyboardInterrupt):
        results(parts, BEST)
    parts.write(PLACE, 0, parts.read(PLACE, 0) | {"seconds": 1000.0})
    trained.stop_at = None
    (one,) = results(parts, BEST)
    assert 1000.0 < one.seconds < 1300.0


def test_a_use_that_was_not_watched_then_is_trained_again(tmp_path, trained):
    parts = Parts(tmp_path / "parts")
    trained.stop_at = 2
    with pytest.raises(KeyboardInterrupt):
        results(parts, BEST)
    trained.stop_at = None
    trained.folds.clear()
    results(parts, BEST, LAST)
    assert trained.folds == [0, 1, 2]
    # but fewer uses than were watched are no reason
    trained.stop_at = 2
    with pytest.raises(KeyboardInterrupt):
        results(parts, BEST, LAST)
    trained.stop_at = None
    trained.folds.clear()
    results(parts, LAST)
    assert trained.folds == [2]


def test_parts_stay_until_the_last_result_was_taken(tmp_path, trained):
    task, parts = made_pictures(), Parts(tmp_path / "parts")
    uses = [Use.of(method, Cell("pictures", 4.0, method.name, 0)) for method in (BEST, LAST)]
    going = run_nets(task, make_split(task, PROTOCOL, 0), 0, {TRAINING: uses}, PROTOCOL, parts)
    next(going)
    next(going)
    assert all(parts.read(PLACE, fold) is not None for fold in range(3))
    assert next(going, None) is None
    assert parts.read(PLACE, 0) is None


def test_a_single_net_leaves_no_parts(tmp_path, trained):
    single = Recipe("single", loss="weighted")
    task, parts = made_pictures(), Parts(tmp_path / "parts")
    plan = {Training.of(single, 4.0): [Use.of(single, Cell("pictures", 4.0, "single", 0))]}
    for _ in run_nets(task, make_split(task, PROTOCOL, 0), 0, plan, PROTOCOL, parts):
        assert not (tmp_path / "parts").exists()
    assert trained.folds == [0]


def test_what_is_damaged_or_newer_is_no_part(tmp_path, monkeypatch):
    parts = Parts(tmp_path)
    parts.write(PLACE, 0, {"seconds": 1.5, "watches": {"a": math.inf}})
    found = parts.read(PLACE, 0)
    assert (found["seconds"], found["watches"]) == (1.5, {"a": math.inf})
    assert parts.read(PLACE, 1) is None
    assert parts.read(PLACE._replace(seed=1), 0) is None
    assert parts.read(PLACE._replace(training=repr(Training.of(BEST, 5.0))), 0) is None
    (path,) = tmp_path.rglob("0.json")
    path.write_bytes(path.read_bytes()[:-40])
    assert parts.read(PLACE, 0) is None
    monkeypatch.setattr(documents, "SCHEMA_VERSION", documents.SCHEMA_VERSION + 1)
    parts.write(PLACE, 0, {"seconds": 1.5})
    assert parts.read(PLACE, 0) is not None
    monkeypatch.undo()
    assert parts.read(PLACE, 0) is None


def test_a_run_that_is_interrupted_keeps_its_nets_in_its_folder(tmp_path, trained):
    task = made_pictures()
    (job,) = plan_jobs([task], {"pictures": {"best": BEST}}, {"pictures": [4.0]}, [0], PROTOCOL)
    for stop_at, expected in ((1, [0]), (2, [1]), (None, [2])):
        trained.stop_at = stop_at
        trained.folds.clear()
        with Store.open(tmp_path / "run", {"data": {}}) as store:
            work = functools.partial(run_work, parts=Parts(store.folder / "parts"))
            if stop_at is None:
                assert run([job], work, store, shared={"pictures": task}, workers=1).done == 1
            else:
                with pytest.raises(RunInterrupted):
                    run([job], work, store, shared={"pictures": task}, workers=1)
        assert trained.folds == expected
    assert not (tmp_path / "run/parts").exists()


def test_a_full_disk_ends_the_run_in_one_line(tmp_path, trained, monkeypatch):
    def full(path, content, *, replace):
        raise StoreError(f"could not write {path}: No space left on device")

    monkeypatch.setattr("adacsl.experiments.parts.put", full)
    with pytest.raises(StoreError, match="No space left"):
        results(Parts(tmp_path / "parts"), BEST)
