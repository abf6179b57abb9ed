"""Racing: significantly worse methods are not run further, whatever the order of events; equal ones are."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin

from adacsl import CostMatrix, Task, compare, load_comparison
from adacsl.cli.app import run
from adacsl.comparison.compare import compare_tasks
from adacsl.comparison.fits import FitKey, FitResult, Stopped
from adacsl.comparison.memory_store import MemoryStore
from adacsl.comparison.racing import ERROR, Race
from adacsl.comparison.recommendation import recommendation
from adacsl.comparison.runner import RunInterrupted
from adacsl.comparison.statistics import RowCosts, summarise
from adacsl.comparison.store import StoredSplit

COSTS, VIEW = CostMatrix(fp=1, fn=4), ("mine", 4.0)


class Rule(ClassifierMixin, BaseEstimator):
    """Knows how the classes come about, and forgets it for a share of the samples."""

    def __init__(self, forgets=0.0):
        self.forgets = forgets

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        x = np.asarray(X, dtype=float)  # uniform, of mean 0 and standard deviation 1
        known = np.where(x[:, 1] > np.sqrt(12) * (self.forgets - 0.5), x[:, 0] > 0, x[:, 2] > 0)
        scores = np.full((len(x), len(self.classes_)), 0.04 / len(self.classes_))
        scores[np.arange(len(x)), np.where(known, len(self.classes_) - 1, 0)] += 1 - 0.04
        return scores


METHODS = [("exact", Rule()), ("close", Rule(0.003)), ("poor", Rule(0.6)), ("worse", Rule(0.95))]
QUICK = {"n_jobs": 1, "progress": False, "repeats": 1, "folds": 6, "racing": True}


def data(n=2400, k=2, seed=0):
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.random((n, 3)), columns=list("abc"))
    y = np.where(x["a"] > 0.5, k - 1, rng.integers(0, k - 1, n) if k > 2 else 0)
    return x, np.where(rng.random(n) < 0.1, rng.integers(0, k, n), y)


def raced(**changes):
    x, y = data()
    return compare(x, y, COSTS, methods=METHODS, **(QUICK | changes))


def race_on(costs, seeds, *, planned=None):
    """Return a race on costs, methods x samples, of splits; every error costs one unit and is a false positive."""
    methods = [f"m{number}" for number in range(len(costs))]
    store = MemoryStore({})
    for seed in np.unique(seeds).tolist():
        rows = np.flatnonzero(seeds == seed)
        labels = np.zeros(len(rows), dtype=np.int64)
        store.write_split("mine", seed, StoredSplit(rows, labels, COSTS, rows))
        for name, own in zip(methods, costs, strict=True):
            decided = own[rows].astype(bool)
            store.write(FitResult(FitKey(*VIEW, name, seed), {}, decided.astype(np.float32), decided))
    fits = [FitKey(*VIEW, name, seed) for name in methods for seed in np.unique(seeds).tolist()]
    return Race(store, fits if planned is None else planned, lambda data, ratio, own: own), fits


def brute_force(costs, seeds):
    """Return who is stopped after how many folds: the documented rule, sample by sample."""
    alive, stopped = list(range(len(costs))), {}
    folds = np.unique(seeds).tolist()
    level = ERROR / (len(folds) - 2) / (len(costs) * (len(costs) - 1) / 2)
    for count in range(2, len(folds)):
        seen = np.isin(seeds, folds[:count])
        best = min(alive, key=lambda i: costs[i][seen].mean())
        for i in [i for i in alive if i != best]:
            d = (costs[i] - costs[best])[seen]
            e, n = d - d.mean(), len(d)
            sampling = 1.25 * sum(value**2 for value in e) / n**2
            by_fold = [e[seeds[seen] == fold].sum() for fold in folds[:count]]
            training = max(0.0, count / (count - 1) * sum(s**2 for s in by_fold) - sum(value**2 for value in e)) / n**2
            freedom = (sampling + training) ** 2 / (sampling**2 / (n - 1) + training**2 / (count - 1))
            p = 2 * stats.t.sf(abs(d.mean()) / np.sqrt(sampling + training), freedom)
            if d.mean() > 0 and p < level:
                stopped[f"m{i}"] = count
                alive.remove(i)
    return stopped


def drawn(shares, n, folds, seed, spread=0.0):
    """Return costs of methods that err on so many samples; hard samples are hard for all, trainings differ."""
    rng = np.random.default_rng(seed)
    seeds, hard = rng.permutation(n) % folds, rng.random(n)
    luck = rng.normal(0, spread, (len(shares), folds))[:, seeds]
    return 1.0 * (hard + rng.normal(0, 0.1, (len(shares), n)) < np.asarray(shares)[:, None] + luck), seeds


@given(seed=st.integers(0, 10**6), folds=st.integers(3, 7), spread=st.sampled_from([0.0, 0.01]))
@settings(max_examples=25)
def test_methods_are_stopped_as_the_rule_written_out_does_in_any_order_of_results(seed, folds, spread):
    costs, seeds = drawn([0.2, 0.21, 0.3, 0.45], 420, folds, seed, spread)
    race, fits = race_on(costs, seeds)
    assert {each.method: len(each.seeds) for each, _ in race.looks(set(fits), ())} == brute_force(costs, seeds)
    later, _ = race_on(costs, seeds)
    order, done = np.random.default_rng(seed).permutation(len(fits)), set()
    for place in order:  # as results come from several workers
        done.add(fits[place])
        for stopped, out in later.looks(done, ()):
            assert all(fit.method == stopped.method and fit.seed not in stopped.seeds for fit in out)
            done -= set(out)
    assert sorted(later.stopped) == sorted(race.stopped)


def test_equal_methods_are_hardly_ever_stopped():
    """Under H0 at most 1 % of races may stop a method, whatever the number of looks and methods."""
    stops = 0
    for seed in range(300):
        costs, seeds = drawn([0.25] * 6, 300, 6, seed, spread=0.02)
        race, fits = race_on(costs, seeds)
        stops += bool(list(race.looks(set(fits), ())))
    assert stops <= 8  # of 300: the probability of more at 1 % is 0.4 %


def test_failed_fits_do_not_hold_up_the_race_and_their_methods_take_no_part():
    costs, seeds = drawn([0.05, 0.2, 0.6], 600, 5, 0)
    race, fits = race_on(costs, seeds)
    failed = FitKey(*VIEW, "m0", 1)
    (stopped, _), *more = race.looks(set(fits) - {failed}, {failed})
    assert (stopped.method, stopped.best, more) == ("m2", "m1", [])  # m0, which is best, lacks a fold


def test_the_table_says_on_how_many_folds_a_row_rests_and_the_others_are_as_without_racing():
    result, every = raced(), raced(racing=False)
    early = {each.method: len(each.seeds) for each in result.stopped}
    assert set(early) == {"poor", "worse"}
    assert max(early.values()) < 6
    assert not every.stopped
    table, whole = (one.table.set_index("method") for one in (result, every))
    assert table["n"].to_dict() == {"exact": 6, "close": 6, **early}
    pd.testing.assert_series_equal(table["mean"][["exact", "close"]], whole["mean"][["exact", "close"]])
    (poor,) = (each for each in result.stopped if each.method == "poor")
    own = every.results[(every.results["method"] == "poor") & every.results["seed"].isin(poor.seeds)]
    assert table.loc["poor", "mean"] == pytest.approx(np.average(own["cost"], weights=own["n_test"]))
    assert table.loc["poor", "low"] < table.loc["poor", "mean"] < table.loc["poor", "high"]
    assert set(table["significance"][["poor", "worse"]]) == {"significantly higher"}
    assert result.best == every.best
    assert "poor and worse cost significantly more" in str(result)
    assert result.missing == []
    assert result.progress == ""
    assert all(f"{name} ({folds} of 6 folds)" in result.intervals for name, folds in early.items())
    assert "Stopped early" in result.to_markdown()


def test_default_races_on_large_tables_with_folds_to_save(monkeypatch):
    assert not raced(racing="auto").stopped
    monkeypatch.setattr("adacsl.comparison.first_look.LARGE", 500)
    assert raced(racing="auto").stopped
    assert not raced(racing="auto", folds=3).stopped
    with pytest.raises(ValueError, match="racing must be True, False or \"auto\", got 'on'"):
        raced(racing="on")


def test_an_interrupted_run_a_later_one_and_its_folder_tell_the_same(tmp_path, monkeypatch):
    whole = raced(folder=tmp_path / "whole")
    results = []

    def interrupted(event):
        results.append(event)
        if len([one for one in results if one.kind == "done"]) == 4:
            results.clear()
            raise KeyboardInterrupt

    monkeypatch.setattr("adacsl.comparison.progress.Progress.__call__", lambda self, event: interrupted(event))
    for _ in range(3):
        with pytest.raises(RunInterrupted):
            raced(folder=tmp_path / "run")
    monkeypatch.undo()
    again = raced(folder=tmp_path / "run")
    for other in (again, load_comparison(tmp_path / "run"), load_comparison(tmp_path / "whole"), raced(n_jobs=2)):
        assert other.stopped == whole.stopped
        pd.testing.assert_frame_equal(other.table, whole.table)
        assert str(other) == str(whole)
    every = raced(folder=tmp_path / "run", racing=False)  # the folds that are missing are run
    assert set(every.table["n"]) == {6}
    assert not load_comparison(tmp_path / "run").stopped


def test_methods_can_be_added_later(tmp_path):
    x, y = data()
    raced(folder=tmp_path)
    added = compare(x, y, COSTS, methods=[("new", Rule(0.01))], folder=tmp_path, **QUICK)
    assert added.table["n"].tolist() == [6]
    both = load_comparison(tmp_path)
    assert {each.method for each in both.stopped} == {"poor", "worse"}  # of the run before
    assert both.recommendation.startswith("Recommended")
    assert set(both.table["method"]) == {"exact", "close", "poor", "worse", "new"}


@pytest.mark.parametrize("kind", ["classes", "samples", "groups", "time", "ratios", "tasks", "baseline"])
def test_any_data_can_race(kind):
    x, y = data(k=3 if kind == "classes" else 2)
    rng = np.random.default_rng(1)
    given = {
        "classes": {"costs": CostMatrix.from_array(4.0 * (1 - np.eye(3)), rows="predicted")},
        "samples": {"fn": rng.uniform(2, 8, len(y)), "fp": 1.0},
        "groups": {"groups": np.arange(len(y)) // 3},
        "time": {"time": np.arange(len(y)), "test": 0.6},
        "ratios": {"ratios": [2, 4]},
        "baseline": {"baseline": 1 - y},
    }.get(kind, {})
    if kind == "tasks":
        tasks = [Task.from_data(*data(seed=seed), COSTS, name=str(seed)) for seed in range(2)]
        result = compare_tasks(tasks, methods=METHODS, **QUICK)
    else:
        costs = given.pop("costs", None if kind == "samples" else COSTS)
        result = compare(x, y, costs, methods=METHODS, **(QUICK | given))
    assert {each.method for each in result.stopped} >= {"worse"}
    assert {each[:2] for each in result.stopped} == set(result.recommendations)
    assert not {one.recommended for one in result.recommendations.values()} & {"poor", "worse"}
    assert result.report_data().summary["n"].nunique() > 1


def test_a_method_that_was_stopped_is_never_the_lowest_nor_recommended():
    """Its early folds may have been easy, or the best of today hard on them."""
    fits = np.repeat(np.arange(4), 50)
    rng = np.random.default_rng(0)
    costs = rng.uniform(0.9, 1.1, (2, 200)) + np.repeat([0.0, 0.0, 0.5, 0.5], 50)
    costs[1, fits > 1] = np.nan  # the simpler one, of lower mean
    rows = RowCosts(("a", "b"), costs, np.arange(200), fits, np.arange(200))
    stopped = [Stopped("d", 4.0, "b", (0, 1), 4, "c")]
    table = summarise(pd.DataFrame(columns=["data", "ratio", "method"]), {("d", 4.0): rows}, stopped=stopped)
    assert table.set_index("method")["significance"].to_dict() == {"a": "lowest cost", "b": "significantly higher"}
    result = recommendation(table, simplest_first=["b", "a"], stopped=["b"])
    assert (result.recommended, result.worse) == ("a", ("b",))


def test_the_command_line_shows_folds(tmp_path, capsys, monkeypatch):
    x, y = data()
    x.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rules.py").write_text(
        "from sklearn.dummy import DummyClassifier\nfrom sklearn.tree import DecisionTreeClassifier\n"
        "def tree():\n    return DecisionTreeClassifier(max_depth=2)\n"
        "def chance():\n    return DummyClassifier(strategy='uniform', random_state=0)\n"
    )
    words = ["compare", "t.csv", "--target", "y", "--fn", "4", "--fp", "1", "--methods", "logistic", "--out", "out"]
    words += ["--method", "rules:tree", "--method", "rules:chance", "--folds", "6", "--repeats", "1", "--n-jobs", "1"]
    assert run([*words, "--racing", "on", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "folds" in shown
    assert "chance (" in shown
    assert run([*words, "--racing", "on", "--quiet", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    folds = {one["method"]: one["n"] for one in document["table"]}
    assert {one["method"]: len(one["seeds"]) for one in document["stopped"]} == {
        name: count for name, count in folds.items() if count < 6
    }
    assert folds["chance"] < 6
