"""Permutation importance in cost: scikit-learn's shuffles, a loop over samples, distributions with a known answer."""

import copy
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from adacsl import CostMatrix, CostSensitiveClassifier, Policy, method
from adacsl.estimators import importance
from adacsl.estimators.importance import shuffles, worth_interval
from tests.made import adapted_estimator, logistic

COSTS = CostMatrix(fp=1, fn=8)


def draw(n, seed=0):
    """Return three columns, the third of no use, and labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, (x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=n) > 1).astype(int)


@pytest.fixture(scope="module")
def linear():
    return logistic(COSTS).fit(*draw(400))


@pytest.fixture(scope="module")
def mixed():
    """A model of numbers and text with costs of each row, rows to explain it with, and their costs."""
    x, y = draw(300)
    frame = pd.DataFrame({"age": x[:, 0], "shop": np.where(x[:, 1] > 0, "web", "mall"), "noise": x[:, 2]})
    labels = np.where(y == 1, "bad", "good")
    model = logistic(COSTS, pos_label="bad").fit(frame, labels, fn=1 + np.arange(300) % 2)
    return model, frame[:40].set_index(np.arange(40) // 2), labels[:40], np.linspace(1, 9, 40)


# against what is trusted


@pytest.mark.parametrize("weighted", [False, True])
def test_costs_are_scikit_learns_with_the_same_shuffles(linear, weighted):
    x, y = draw(150, seed=1)
    weight = np.linspace(0.2, 3.0, 150) if weighted else None
    if weighted:  # samples of weight zero are not used
        use = np.arange(150) % 3 > 0
        some = linear.permutation_cost(x[use], y[use], sample_weight=weight[use], random_state=0)
        zero = linear.permutation_cost(x, y, sample_weight=weight * use, random_state=0)
        pd.testing.assert_frame_equal(zero, some)
    result = linear.permutation_cost(x, y, sample_weight=weight, random_state=3)
    trusted = permutation_importance(linear, x, y, sample_weight=weight, random_state=3, n_repeats=5)
    np.testing.assert_allclose(result["cost"], trusted.importances_mean[result["column"]], atol=1e-12)
    assert result["cost"].is_monotonic_decreasing
    assert result.attrs["base_cost"] == pytest.approx(-linear.score(x, y, weight))


def test_a_loop_over_samples_gives_the_same_with_per_sample_costs(mixed):
    model, frame, y, amount = mixed
    sets = {"both": ["age", "shop"], "noise": ["noise"]}
    result = model.permutation_cost(frame, y, columns=sets, fn=amount, fp=2.0, random_state=0).set_index("column")
    donors = shuffles(40, 5, 0)

    def paid(table):
        decided = model.predict(table, fn=amount, fp=2.0)
        return np.asarray([0 if d == t else amount[i] if t == "bad" else 2.0
                           for i, (d, t) in enumerate(zip(decided, y, strict=True))])  # fmt: skip

    for name, columns in sets.items():
        extra = np.zeros((5, 40))
        for repeat in range(5):
            shuffled = frame.copy()
            for column in columns:
                shuffled[column] = [frame[column].iloc[donors[repeat, i]] for i in range(40)]
            extra[repeat] = paid(shuffled) - paid(frame)
        low, high = dyadic(extra, donors, np.ones(40), np.arange(40))
        np.testing.assert_allclose(result.loc[name, ["cost", "low", "high"]].astype(float), [extra.mean(), low, high])


def dyadic(extra, donors, weight, groups):
    """The interval by its definition: all pairs of differences that share a group, whichever part it plays."""
    from scipy.stats import t

    mean = np.average(extra.mean(0), weights=weight)
    pairs = [(groups[i], groups[donors[r, i]], weight[i] * (extra[r, i] - mean)) for r, i in np.ndindex(extra.shape)]
    alone = sum(off**2 for *_, off in pairs)
    total = sum(
        one[2] * other[2] * sum(a == b for a in one[:2] for b in other[:2])
        for one, other in itertools.product(pairs, pairs)
    )
    size = len(set(groups))
    variance = max(total - alone, alone) * size / (size - 1) / (len(extra) * weight.sum()) ** 2
    half = t.ppf(0.975, size - 1) * np.sqrt(variance)
    return mean - half, mean + half


def test_known_worth_and_columns_the_model_never_uses():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    y = (x[:, 1] > 0).astype(int)
    model = CostSensitiveClassifier(CostMatrix(fp=3, fn=3), learner=DecisionTreeClassifier(max_depth=1)).fit(x, y)
    result = model.permutation_cost(x, y, random_state=0)
    assert result["column"].tolist() == [1, 0, 2]
    # a shuffled coin is wrong half of the time; the better constant is too
    assert result["low"][0] < 1.5 < result["high"][0]
    assert result["high"][0] - result["low"][0] < 0.15
    assert result["share"][0] == pytest.approx(1, abs=0.06)
    assert result.loc[1:, ["cost", "low", "high", "share"]].to_numpy().tolist() == [[0.0] * 4] * 2


def test_a_model_that_saves_nothing_has_no_share():
    x, y = draw(60)
    result = method("always-negative", COSTS).fit(x, y).permutation_cost(x, y)
    assert result["share"].isna().all()
    assert (result[["cost", "low", "high"]] == 0).all(axis=None)


def test_about_95_of_100_intervals_hold_the_truth():
    rng = np.random.default_rng(0)

    def costs_of(x, lent, y):
        return np.where(y, 8.0, 1.0) * ((x[:, 0] + lent > 0.5) != y)

    def measured(n, repeats):
        x = rng.normal(size=(n, 2))
        x[:, 1] += x[:, 0]
        y = x.sum(axis=1) + rng.normal(size=n) > 0.5
        donors = np.stack([rng.permutation(n) for _ in range(repeats)])
        extra = np.stack([costs_of(x, x[d, 1], y) for d in donors]) - costs_of(x, x[:, 1], y)
        return worth_interval(extra, donors, None, None)

    truth = measured(400_000, 3).estimate
    result = [measured(200, 5) for _ in range(500)]
    assert 0.92 < np.mean([low < truth < high for _, low, high in result]) < 0.975


# laws


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 2**16))
def test_properties_of_the_interval(n, repeats, seed):
    rng = np.random.default_rng(seed)
    extra, weight = rng.integers(-3, 9, (repeats, n)).astype(float), rng.uniform(0.5, 2.0, n)
    donors, groups = shuffles(n, repeats, seed), np.append(np.arange(n - 1), 0)
    result = np.asarray(worth_interval(extra, donors, weight, groups))
    if n > 2:  # of two samples there is one group
        np.testing.assert_allclose(result[1:], dyadic(extra, donors, weight, groups), atol=1e-9)
        assert result[1] <= result[0] <= result[2]
    order = rng.permutation(n)
    moved = np.argsort(order)[donors[:, order]]  # the same shuffles of the same rows, written in another order
    same = worth_interval(extra[:, order], moved, weight[order], groups[order])
    np.testing.assert_allclose(same, result, atol=1e-9)
    np.testing.assert_allclose(worth_interval(2.5 * extra, donors, weight, groups), 2.5 * result, atol=1e-9)
    np.testing.assert_allclose(worth_interval(extra, donors, 7 * weight, groups), result, atol=1e-9)
    alone = worth_interval(extra, donors, np.ones(n), np.arange(n))
    np.testing.assert_allclose(worth_interval(extra, donors, None, None), alone)
    assert worth_interval(0 * extra, donors, weight, None) == (0, 0, 0)


# what comes in


def test_all_tables_are_alike_and_names_or_numbers_choose(mixed):
    model, frame, y, fn = mixed
    result = model.permutation_cost(frame, y, random_state=0, fn=fn)
    for table in (pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)):
        pd.testing.assert_frame_equal(model.permutation_cost(table, y, random_state=0, fn=fn), result)
    some = model.permutation_cost(frame, y, random_state=0, fn=fn, columns=["noise", 0])
    assert set(some["column"]) == {"age", "noise"}
    pd.testing.assert_frame_equal(some, result[result["column"].isin(["age", "noise"])].reset_index(drop=True))


def test_arrays_lists_and_other_peoples_models_are_explained():
    x, y = draw(100)
    model = adapted_estimator(LogisticRegression(), COSTS, max_iter=2, random_state=0).fit(x, y)
    result = model.permutation_cost(x, y, random_state=0)
    pd.testing.assert_frame_equal(model.permutation_cost(x.tolist(), y.tolist(), random_state=0), result)
    with pytest.raises(ValueError, match=r"dense table"):
        model.permutation_cost(sparse.csr_array(x), y)


def test_predictions_are_few_and_what_does_not_fit_is_predicted_in_parts(linear, monkeypatch):
    x, y = draw(90, seed=2)
    calls = []
    score = type(linear).decision_scores
    monkeypatch.setattr(
        type(linear), "decision_scores", lambda self, X, **given: calls.append(len(X)) or score(self, X, **given)
    )
    result = linear.permutation_cost(x, y, random_state=0)
    assert calls == [90, 450, 450, 450]
    monkeypatch.setattr(importance, "CELLS", 2 * 90 * 3)
    pd.testing.assert_frame_equal(linear.permutation_cost(x, y, random_state=0), result)
    assert calls[4:] == [90, *[180, 180, 90] * 3]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"columns": ["nothing"]}, "no column 'nothing'"),
        ({"columns": [3]}, "no column 3"),
        ({"columns": []}, "nothing to shuffle"),
        ({"columns": {"both": []}}, "nothing to shuffle"),
        ({"repeats": 0}, "at least 1"),
        ({"repeats": 2.5}, "whole number"),
        ({"y": np.full(40, 7)}, "not in training"),
        ({"y": np.zeros(39)}, "inconsistent"),
        ({"groups": np.zeros(3)}, "inconsistent"),
        ({"fn": np.ones(7)}, "as many as rows"),
        ({"sample_weight": -np.ones(40)}, "negative"),
        ({"X": np.zeros(40)}, "Reshape"),
    ],
)
def test_wrong_questions_are_refused(linear, given, match):
    x, y = draw(40)
    with pytest.raises(ValueError, match=match):
        linear.permutation_cost(**{"X": x, "y": y, **given})


def test_one_group_has_no_interval_and_images_have_no_columns(linear):
    x, y = draw(40)
    result = linear.permutation_cost(x, y, groups=np.zeros(40))
    assert result[["low", "high"]].isna().all(axis=None)
    images = np.zeros((20, 8, 8, 3), dtype=np.uint8)
    model = method("always-negative", COSTS).fit(images, y[:20])
    with pytest.raises(ValueError, match="trained on images"):
        model.permutation_cost(images, y[:20])


# policies


def by_hand_under(model, x, y, policy, donors, column):
    """Return by how much the cost rises, each shuffle decided by itself."""
    base = -model.score(x, y, policy=policy)
    rises = []
    for donor in donors:
        changed = x.copy()
        changed[:, column] = x[donor, column]
        rises.append(-model.score(changed, y, policy=policy) - base)
    return base, np.mean(rises)


@pytest.mark.parametrize(
    ("policy", "at_once"),
    [
        (Policy(refer=0.2), 1),
        (Policy(refer=0.2, errors=0.1, capacity=30), 2**24),
        (Policy(capacity=25), 1),
        (Policy(prior=0.5), 2**24),
        (Policy(refer=0.2, capacity=3, per="day", time=np.datetime64("2026-01-01T00") + np.arange(200)), 1),
    ],
)
def test_the_policy_decides_about_shuffled_samples(linear, policy, at_once, monkeypatch):
    monkeypatch.setattr(importance, "CELLS", at_once)
    x, y = draw(200, seed=1)
    donors = shuffles(200, 3, 0)
    own = copy.copy(linear).set_params(policy=policy)
    for result in (
        linear.permutation_cost(x, y, policy=policy, repeats=3, random_state=0),
        own.permutation_cost(x, y, repeats=3, random_state=0),
    ):
        worth = result.set_index("column")["cost"]
        for column in range(3):
            base, rise = by_hand_under(linear, x, y, policy, donors, column)
            assert result.attrs["base_cost"] == pytest.approx(base)
            assert worth[column] == pytest.approx(rise, abs=1e-12)
    plain = own.permutation_cost(x, y, policy=Policy(), repeats=3, random_state=0)
    pd.testing.assert_frame_equal(plain, linear.permutation_cost(x, y, repeats=3, random_state=0))


def test_where_everything_is_referred_no_column_is_worth_anything(linear):
    x, y = draw(200, seed=1)
    result = linear.permutation_cost(x, y, policy=Policy(refer=0.0001), random_state=0)
    assert (result["cost"] == 0).all()
    assert result.attrs["base_cost"] == result.attrs["constant_cost"] == pytest.approx(0.0001)  # always refer
    limited = linear.permutation_cost(x, y, policy=Policy(refer=0.0001, capacity=3), random_state=0)
    assert limited.attrs["constant_cost"] > 0.1  # not everybody can be referred


def test_times_of_a_policy_come_from_the_table():
    x, y = draw(400)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = logistic(COSTS).fit(frame, y)
    when = pd.Series(pd.date_range("2026-01-01", periods=400, freq="h"), name="when")
    named, given = (Policy(capacity=2, per="day", time=time) for time in ("when", when.to_numpy()))
    by_name = model.permutation_cost(frame.assign(when=when), y, policy=named, random_state=0)
    pd.testing.assert_frame_equal(by_name, model.permutation_cost(frame, y, policy=given, random_state=0))
    weight = (np.arange(400) % 7 > 0).astype(float)
    some = model.permutation_cost(frame, y, policy=given, sample_weight=weight, random_state=0)
    assert some.attrs["rows"] == int(weight.sum())
