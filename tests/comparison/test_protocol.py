"""Repeated folds: every row once in each repeat, groups and copies together, more repeats later."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, Task, compare, load_comparison
from adacsl.comparison.protocol import Protocol, describe_protocol
from adacsl.comparison.store import StoreError
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=5)
QUICK = {"n_jobs": 1, "progress": False, "methods": {"plain": CostSensitiveClassifier(learner=LogisticRegression())}}


def table(n=200, seed=0, copied=0):
    """Rows with labels; the first ones come again at the end."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = (x[:, 0] + rng.normal(size=n) > 0.8).astype(int)
    if copied:
        x[-copied:], y[-copied:] = x[:copied], y[:copied]
    return pd.DataFrame(x, columns=["a", "b", "c"]), y


@st.composite
def tasks(draw):
    """Tables of few values, so that many rows are copies; perhaps with groups."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, levels = draw(st.integers(60, 120)), draw(st.sampled_from([3, 30, 10_000]))
    x = pd.DataFrame({"a": rng.integers(0, levels, n), "b": rng.choice(["x", "y", None], n)})
    y = (rng.random(n) < 0.4).astype(int)
    groups = rng.integers(0, draw(st.sampled_from([25, 10_000])), n) if draw(st.booleans()) else None
    return Task.from_data(x, y, COSTS, groups=groups)


@settings(max_examples=10)
@given(tasks(), st.integers(2, 4))
def test_every_row_is_tested_once_in_each_repeat_and_nothing_is_torn_apart(task, folds):
    protocol = Protocol(folds=folds)
    units = protocol.together(task).units
    looks = task.X["a"].astype(str) + task.X["b"].fillna("-") + task.y.astype(str)
    of_look = looks.groupby(looks).transform("size").to_numpy()
    tested = []
    for seed in protocol.numbers(task, 2):
        rest, test = protocol.split(task, seed)
        tested.append(test)
        parts = [(rest, test), *protocol.rows(task, rest).folds(None, 0.2, seed)]
        for left, right in parts:
            assert not set(units[left]) & set(units[right])
            if task.groups is not None:
                assert not set(task.groups[left]) & set(task.groups[right])
            else:  # copies, unless there are more than a fold holds
                few = of_look <= len(looks) / folds
                torn = set(looks[left][few[left]]) & set(looks[right][few[right]])
                assert not torn or protocol.together(task).apart
    for repeat in range(2):
        own = np.concatenate(tested[repeat * folds : (repeat + 1) * folds])
        assert sorted(own) == list(range(len(task.y)))


def test_folds_are_stratified_and_worked_out_once(monkeypatch):
    task = Task.from_data(*table(1000), COSTS)
    protocol = Protocol(folds=5)
    splits = [protocol.split(task, seed) for seed in range(10)]
    assert [len(test) for _, test in splits] == [200] * 10
    assert [task.y[test].mean() for _, test in splits] == pytest.approx([task.y.mean()] * 10, abs=0.004)
    assert not any(np.array_equal(splits[i][1], splits[j][1]) for i in range(5) for j in range(5, 10))
    monkeypatch.setattr("adacsl.comparison.protocol.folds_of", None)
    monkeypatch.setattr("adacsl.comparison.protocol.keep_together", None)
    for seed, (rest, test) in enumerate(splits):
        again = protocol.split(task, seed)
        assert np.array_equal(again[0], rest)
        assert np.array_equal(again[1], test)


def test_groups_and_copies_that_touch_are_one_piece():
    x, y = table(120, copied=2)  # 118 is 0 again, 119 is 1
    groups = np.arange(120)
    groups[[0, 5]] = 7  # with 7, so 0, 5, 7 and 118 are connected
    task = Task.from_data(x, y, COSTS, groups=groups)
    protocol = Protocol(folds=4)
    assert protocol.together(task).units[[0, 5, 7, 118]].tolist() == [0, 0, 0, 0]
    assert protocol.together(task).units[119] == 1
    for seed in range(8):
        _, test = protocol.split(task, seed)
        assert len({0, 5, 7, 118} & set(test.tolist())) in (0, 4)


def test_the_random_split_of_the_paper_knows_no_copies():
    task = Task.from_data(*table(200, copied=80), COSTS)
    rest, test = Protocol().split(task, 0)
    assert len(test) == 40
    assert Protocol().rows(task, rest).groups is None
    assert Protocol(folds=5).rows(task, rest).groups is not None
    assert "folds" not in Protocol().identity()


def test_copies_are_counted_kept_together_and_said(tmp_path):
    result = compare(*table(300, copied=31), COSTS, repeats=2, folds=3, folder=tmp_path / "run", **QUICK)
    facts = result.report_data().facts
    assert "31 samples are duplicates of others; duplicates stay in one fold." in facts["data: data"]
    assert facts["protocol"].startswith("52 % training, 15 % validation, 33 % test; 2 repeats of 3 folds, stratified: ")
    expected = "95 % intervals: Student's t on paired costs of 2 x 3 folds, with the variance of samples and fits"
    assert facts["intervals"] == expected
    (rows,) = result.paired.values()
    assert len(np.unique(rows.units)) == 300 - 31
    assert sorted(rows.rows) == sorted([*range(300)] * 2)
    of_copies = rows.units[rows.rows == 299]
    assert set(of_copies) == {30}
    (again,) = load_comparison(tmp_path / "run").paired.values()
    assert np.array_equal(again.costs, rows.costs)
    assert np.array_equal(again.units, rows.units)
    none = compare(*table(60), COSTS, repeats=1, folds=2, **QUICK)
    assert "duplicates" not in none.report_data().facts["data: data"]


def test_sets_larger_than_a_fold_are_said():
    x, y = table(200)
    x.loc[:79], y[:80] = 1.0, 0
    result = compare(x, y, COSTS, repeats=1, folds=4, **QUICK)
    assert (
        "79 samples are duplicates of others; duplicates stay in one fold, except 80 samples of sets larger than a fold"
        in result.report_data().facts["data: data"]
    )
    assert len(np.unique(result.paired["data", 5.0].units)) == 200


def test_more_repeats_go_on_from_what_is_there(tmp_path):
    data = (*table(), COSTS)
    first = compare(*data, repeats=1, folds=3, folder=tmp_path / "run", **QUICK)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("fits/*/*/*.json")}
    more = compare(*data, repeats=3, folds=3, folder=tmp_path / "run", **QUICK)
    assert len(kept) == 3
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert more.results["seed"].tolist() == list(range(9))
    (one,), (three,) = first.paired.values(), more.paired.values()
    assert np.array_equal(three.costs[:, three.fits < 3], one.costs)
    assert more.table["high"].iloc[0] - more.table["low"].iloc[0] < first.table["high"].iloc[0]
    again = compare(*data, repeats=1, folds=3, folder=tmp_path / "run", **QUICK)
    pd.testing.assert_frame_equal(again.table, first.table)
    with pytest.raises(StoreError, match=r"protocol\.folds"):
        compare(*data, repeats=1, folds=4, folder=tmp_path / "run", **QUICK)


@pytest.mark.parametrize("methods", [["always-negative", "always-positive", "net-bayes"], QUICK["methods"]])
def test_a_fold_without_positives_is_tested_all_the_same(methods):
    x, y = table(90)
    y[:] = 0
    y[[1, 30, 60]] = 1  # fewer than folds
    result = compare(
        x,
        y,
        COSTS,
        repeats=1,
        folds=4,
        **QUICK | {"methods": methods, "neural": NeuralLearner(epochs=1), "ignore": ["few-positives"]},
    )
    assert len(result.failures) == 0
    (rows,) = result.paired.values()
    assert len(rows.rows) == 90
    if "always-negative" in rows.methods:
        row = result.table.set_index("method").loc["always-negative"]
        assert row["mean"] == pytest.approx(15 / 90)
        assert row["low"] < 15 / 90 < row["high"]


def test_costs_at_other_ratios_are_those_of_the_fits():
    x, y = table(150)
    own = np.random.default_rng(1).uniform(1, 9, 150)
    for costs in (COSTS, CostMatrix(fp=2, fn=own, tp=-0.5)):
        result = compare(x, y, costs, repeats=1, folds=2, ratios=["1x", "3x"], **QUICK)
        for (_, ratio), rows in result.paired.items():
            fits = result.results[result.results["ratio"] == ratio]
            sums = [rows.costs[0, rows.fits == seed].sum() for seed in fits["seed"]]
            assert sums == pytest.approx(fits["total_cost"].tolist())


def test_protocols_as_text():
    about = Protocol(folds=5).identity()
    assert describe_protocol(about, list(range(10))) == (
        "65 % training, 15 % validation, 20 % test; 2 repeats of 5 folds, stratified: every sample is tested once in "
        "each repeat"
    )
    assert describe_protocol(about, [0, 1]).endswith("1 repeat of 5 folds, stratified: every sample is tested once")
    assert "2 random splits (seeds 0, 3)" in describe_protocol(Protocol().identity(), [0, 3])
