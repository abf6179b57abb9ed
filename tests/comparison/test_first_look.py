"""The first look at large data: few samples, shown before the folds, kept for a run that goes on, used for nothing."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from adacsl import CostMatrix, Task, compare, load_comparison
from adacsl.comparison import first_look, progress
from adacsl.comparison.first_look import few_samples, is_large
from adacsl.comparison.fits import FitKey
from adacsl.comparison.progress import FitTimes
from adacsl.comparison.protocol import Protocol, usual_splits
from adacsl.comparison.runner import Event

COSTS = CostMatrix(fp=1, fn=4)
METHODS = ["always-negative", "always-positive", "logistic"]


def data(n=4000, seed=0, share=0.3):
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    return x, (x["a"] + rng.normal(size=n) > np.quantile(x["a"], 1 - share) * 1.4).astype(int)


@pytest.fixture
def shown(monkeypatch):
    """What a comparison writes to stderr; a table is large from 3,500 samples."""
    out, own = io.StringIO(), progress.Console
    monkeypatch.setattr(first_look, "LARGE", 3500)
    monkeypatch.setattr(progress, "Console", lambda **given: own(file=out, width=200, quiet=given.get("quiet", False)))
    return out


def compared(data, **changes):
    given = {"methods": METHODS, "repeats": 1, "folds": 2, "n_jobs": 1} | changes
    return compare(*data, COSTS, **given)


def test_a_table_of_a_few_samples_comes_first_and_says_that_it_decides_nothing(shown, tmp_path):
    result = compared(data(), folder=tmp_path)
    text = shown.getvalue()
    head, *rest = text[text.index("first look") :].splitlines()
    assert head == (
        "first look at data: mean cost on 1,000 of 4,000 samples, after training on 2,000; it decides nothing, "
        "the folds of all samples follow"
    )
    assert text.index("first look") < text.index(" / 6 fits")
    costs = {name: float(cost) for name, cost in (line.split() for line in rest[:2])}
    assert set(costs) < set(METHODS)
    assert min(costs, key=costs.get) == next(iter(costs))  # lowest first
    quiet = compared(data(), progress=False)
    pd.testing.assert_frame_equal(result.table, quiet.table)  # it takes no part
    assert set(result.results["seed"]) == {0, 1}
    pd.testing.assert_frame_equal(load_comparison(tmp_path).table, result.table)


def test_a_run_that_goes_on_does_not_repeat_it(shown, tmp_path, monkeypatch):
    compared(data(), folder=tmp_path, methods=["logistic", "always-positive"])
    kept = sorted((tmp_path / "first-look").rglob("fits/*/*/*.json"))
    assert len(kept) == 2
    before = [path.stat().st_mtime_ns for path in kept]
    shown.truncate(0)
    compared(data(), folder=tmp_path)  # one method more
    assert shown.getvalue().count("first look at data:") == 1
    assert [path.stat().st_mtime_ns for path in kept] == before
    shown.truncate(0)
    compared(data(), folder=tmp_path)  # nothing is left to do
    assert "first look" not in shown.getvalue()


@pytest.mark.parametrize("quiet", [True, False])
def test_small_data_and_quiet_runs_have_none(shown, quiet):
    compared(data(4000 if quiet else 3000), progress=not quiet)
    assert "first look" not in shown.getvalue()


def test_failures_of_few_samples_do_not_end_the_run(shown):
    x, y = data()
    y = np.zeros(len(y), dtype=int)
    y[:4] = 1
    assert len(compared((x, y), methods=["always-positive", "logistic"], ignore=["few-positives"]).results) == 4


@pytest.mark.parametrize("kind", ["plain", "rare", "groups", "time", "classes"])
def test_few_samples_are_stratified_whole_groups_and_spread_over_time(kind):
    n, rng = 40_000, np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    y = (rng.random(n) < (0.0101 if kind == "rare" else 0.25)).astype(int)
    y = y + (rng.random(n) < 0.1) * 2 if kind == "classes" else y
    y = np.minimum(y, 2)
    groups = np.arange(n) // 5 if kind == "groups" else None
    time = rng.permutation(n) if kind == "time" else None
    costs = CostMatrix.from_array(1.0 - np.eye(3), rows="predicted") if kind == "classes" else COSTS
    task = Task.from_data(x, y, costs, groups=groups, time=time)
    protocol = Protocol(folds=5, windows=5 if kind == "time" else 0)
    chosen = few_samples(task, protocol)
    assert is_large(task)
    assert len(np.unique(chosen)) == len(chosen)
    assert len(chosen) == pytest.approx(6000 if kind == "rare" else 3000, rel=0.1)
    if kind == "time":
        assert np.diff(np.sort(time[chosen])).max() < 2 * n / len(chosen)
    else:
        shares = [np.bincount(some) / len(some) for some in (task.y, task.y[chosen])]
        np.testing.assert_allclose(*shares, atol=0.01 if kind == "groups" else 1e-3)
    if kind == "groups":
        assert set(np.bincount(groups[chosen], minlength=n // 5)) == {0, 5}
    assert (few_samples(task, protocol) == chosen).all()


@pytest.mark.parametrize(("n", "splits"), [(19_999, (2, 5)), (20_000, (1, 5)), (49_999, (1, 5)), (50_000, (1, 3))])
def test_large_data_have_fewer_folds_by_default(n, splits):
    assert usual_splits(n) == splits


def test_the_default_folds_are_those_of_the_largest_task(monkeypatch):
    monkeypatch.setattr("adacsl.comparison.protocol.VERY_LARGE", 300)
    monkeypatch.setattr("adacsl.comparison.protocol.LARGE", 200)
    given = {"repeats": None, "folds": None, "progress": False, "methods": ["always-positive"]}
    counts = {n: len(compared(data(n), **given).results) for n in (150, 250, 350)}
    assert counts == {150: 10, 250: 5, 350: 3}
    assert len(compared(data(350), **(given | {"repeats": 2})).results) == 6


def test_the_time_left_is_that_of_the_methods_that_are_left(monkeypatch):
    """By hand: two workers, measured times where there are some, the first look's else."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    fits = {(name, seed): FitKey("d", 4.0, name, seed) for name in ("slow", "quick") for seed in range(3)}
    times = FitTimes(fits.values())
    assert times.left() is None
    times.note(Event("start", 0, 6, workers=2))
    times.expect(fits["slow", 0], 50.0)
    times.expect(fits["quick", 0], 10.0)
    assert times.left() == pytest.approx((3 * 50 + 3 * 10) / 2)
    times.note(Event("running", 0, 6, (fits["slow", 0],)))
    now[0] = 20.0
    assert times.left() == pytest.approx((3 * 50 + 3 * 10 - 20) / 2)
    times.note(Event("done", 1, 6, (fits["slow", 0],), seconds=30.0))
    assert times.left() == pytest.approx((2 * 30 + 3 * 10) / 2)
    times.note(Event("stopped", 1, 4, (fits["quick", 1], fits["quick", 2]), message="quick"))
    assert times.left() == pytest.approx((2 * 30 + 10) / 2)
    times.note(Event("done", 2, 4, (fits["slow", 1],), seconds=30.0))
    times.note(Event("done", 3, 4, (fits["quick", 0],), seconds=1.0))
    assert times.left() == pytest.approx(30.0)  # one job alone is no quicker on two


def test_the_bar_names_what_a_first_look_fits_and_the_stopped(capsys):
    out = io.StringIO()
    with progress.Progress(4, console=Console(file=out, width=120), fits=[FitKey("d", 4.0, "net", 0)]) as bar:
        bar(Event("start", 0, 4, workers=2))
        bar.expect(FitKey("d", 4.0, "net", 0), 60.0, 1000, 1000)
        bar(Event("running", 0, 4, (FitKey("d", 4.0, "net", 0),)))
        bar(Event("stopped", 0, 2, (FitKey("d", 4.0, "net", 1),), message="net, after 2 of 4 folds"))
    text = out.getvalue()
    assert "not run further, as its cost is significantly higher: net, after 2 of 4 folds" in text
    assert re.search(r"about (1 min|60 s) left", text)
