"""Matrices of K classes and of more actions than classes: names, order and costs against plain loops."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.metrics.intervals import cost_difference_interval, cost_interval

K3 = np.array([[0.0, 5.0, 9.0], [1.0, 0.0, 4.0], [2.0, 3.0, 0.0]])  # rows = predicted
NAMES = ("ant", "bee", "cat")
THREE = CostMatrix.from_array(K3, rows="predicted", classes=NAMES)
REFER = CostMatrix.from_array(
    np.vstack([K3, [1.5, 1.5, 1.5]]), rows="predicted", classes=NAMES, actions=(*NAMES, "refer")
)


@st.composite
def cases(draw):
    """Draw costs of A actions and K classes (class-wide or of each sample), samples and weights."""
    k, n = draw(st.integers(2, 5)), draw(st.integers(1, 12))
    extra = draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = ((n,) if draw(st.booleans()) else ()) + (k + extra, k)
    table = rng.integers(1, 9, shape).astype(float)
    for j in range(k):
        table[..., j, j] = -rng.integers(0, 3)
    p = rng.dirichlet(np.ones(k), n)
    weight = rng.integers(1, 4, n).astype(float)
    return table, p, rng.integers(0, k, n), rng.integers(0, k + extra, n), weight


def cost_of(table, row, i, j):
    return table[i, j] if table.ndim == 2 else table[row, i, j]


@given(cases())
def test_decisions_and_costs_equal_loops(case):
    table, p, true, pred, weight = case
    costs = CostMatrix.from_array(table, rows="predicted")
    n, (n_actions, k) = len(p), table.shape[-2:]
    assert (costs.n_actions, costs.n_classes) == (n_actions, k)
    expected = [[sum(p[r, j] * cost_of(table, r, i, j) for j in range(k)) for i in range(n_actions)] for r in range(n)]
    chosen = costs.decide(p)
    for r in range(n):
        assert expected[r][chosen[r]] == pytest.approx(min(expected[r]), abs=1e-12)
    np.testing.assert_allclose(costs.expected(p), np.min(expected, axis=1), atol=1e-12)
    np.testing.assert_allclose(costs.expected(p, pred), [expected[r][pred[r]] for r in range(n)], atol=1e-12)
    paid = [cost_of(table, r, pred[r], true[r]) for r in range(n)]
    assert costs.incurred(true, pred).tolist() == paid
    assert costs.total(true, pred) == pytest.approx(sum(paid))
    assert costs.mean(true, pred, sample_weight=weight) == pytest.approx(np.average(paid, weights=weight))
    cells = np.zeros((n_actions, k))
    for r in range(n):
        cells[pred[r], true[r]] += weight[r] * paid[r]
    np.testing.assert_allclose(costs.confusion(true, pred, sample_weight=weight), cells)
    constant = min(sum(cost_of(table, r, i, true[r]) for r in range(n)) for i in range(n_actions))
    if constant:
        assert costs.savings(true, pred) == pytest.approx(
            1 - sum(paid) / constant if constant > 0 else sum(paid) / constant - 1
        )


@given(cases())
def test_reducing_changes_no_decision_and_makes_the_right_one_free(case):
    table, p, true, pred, _ = case
    costs = CostMatrix.from_array(table, rows="predicted")
    reduced = costs.reduced()
    # the diagonal is the least of each column here, so square and rectangular matrices reduce alike
    np.testing.assert_array_equal(reduced.to_array(), table - table.min(axis=-2, keepdims=True))
    np.testing.assert_allclose(
        np.asarray(costs.expected(p) - reduced.expected(p)),
        [sum(p[r, j] * cost_of(table, r, j, j) for j in range(p.shape[1])) for r in range(len(p))],
        atol=1e-12,
    )
    extra = sum(cost_of(table, r, pred[r], true[r]) - cost_of(table, r, true[r], true[r]) for r in range(len(p)))
    best = min(
        sum(cost_of(table, r, i, true[r]) - cost_of(table, r, true[r], true[r]) for r in range(len(p)))
        for i in range(table.shape[-2])
    )
    if best:
        assert costs.normalized(true, pred) == pytest.approx(extra / best)


@given(cases(), st.sampled_from([0.0, 0.5, 1.0]))
def test_class_weights_are_mean_costs_of_errors(case, power):
    table, *_ = case
    mean = table if table.ndim == 2 else table.mean(axis=0)
    mean = mean - mean.min(axis=0)
    means = np.array([sum(mean[:, j]) / (len(mean) - 1) for j in range(mean.shape[1])]) ** power
    weights = CostMatrix.from_array(table, rows="predicted").class_weights(power)
    np.testing.assert_allclose(weights, means / np.prod(means) ** (1 / len(means)))


@given(cases(), st.randoms(use_true_random=False))
def test_renaming_the_classes_renames_the_decisions(case, random):
    table, p, true, _, _ = case
    n_actions, k = table.shape[-2:]
    names = [f"class {j}" for j in range(k)]
    actions = None if n_actions == k else [*names, *(f"other {i}" for i in range(n_actions - k))]
    costs = CostMatrix.from_array(table, rows="predicted", classes=names, actions=actions)
    order = random.sample(range(k), k)
    turned = costs.aligned([names[j] for j in order])
    assert turned.classes == tuple(names[j] for j in order)
    gap = np.abs(costs.expected(p) - turned.expected(p[:, order])).max()
    assert gap < 1e-12
    back = np.argsort(order)  # class j is now number back[j]
    where = back if n_actions == k else np.arange(n_actions)
    chosen = costs.decide(p)
    np.testing.assert_allclose(turned.incurred(back[true], where[chosen]), costs.incurred(true, chosen))
    assert turned.aligned(names) == costs


def test_ties_go_to_the_lower_class_whatever_the_other_samples(library):
    rng = np.random.default_rng(5)
    costs = CostMatrix.from_array(0.1 * (1 - np.eye(9)), rows="predicted")
    parts = rng.integers(1, 4, (3000, 9))  # many ties that rounding could turn
    p = parts / parts.sum(axis=1, keepdims=True)
    decided = library.to_numpy(costs.decide(library.asarray(p)))
    np.testing.assert_array_equal(decided, parts.argmax(axis=1))
    alone = [int(library.to_numpy(costs.decide(library.asarray(row[None])))[0]) for row in p[:100]]
    assert alone == decided[:100].tolist()


def test_libraries_agree(library):
    rng = np.random.default_rng(3)
    p, true, pred = rng.dirichlet([1, 1, 1], 40), rng.integers(0, 3, 40), rng.integers(0, 4, 40)
    weight = rng.integers(0, 4, 40).astype(float)
    own = CostMatrix.from_array(
        library.asarray(rng.random((40, 4, 3)) + np.vstack([1 - np.eye(3), [[1, 1, 1]]])), rows="predicted"
    )
    for costs in (REFER, own):
        q, y, d, w = (library.asarray(values) for values in (p, true, pred, weight))
        np.testing.assert_array_equal(library.to_numpy(costs.decide(q)), costs.decide(p))
        np.testing.assert_allclose(library.to_numpy(costs.expected(q)), costs.expected(p), rtol=1e-6)
        np.testing.assert_allclose(library.to_numpy(costs.expected(q, d)), costs.expected(p, pred), rtol=1e-6)
        np.testing.assert_allclose(library.to_numpy(costs.incurred(y, d)), costs.incurred(true, pred), rtol=1e-6)
        np.testing.assert_allclose(costs.confusion(y, d), costs.confusion(true, pred), rtol=1e-6)
        for measure in (costs.total, costs.mean, costs.normalized):
            assert measure(y, d, sample_weight=w) == pytest.approx(measure(true, pred, sample_weight=weight))
        assert costs.reduced().to_array(q).shape == costs.to_array().shape


def test_balanced_costs_of_many_classes(library):
    y = np.repeat([0, 1, 2], [6, 3, 1])
    costs = CostMatrix.balanced(library.asarray(y))
    np.testing.assert_allclose(costs.to_array(), (1 - np.eye(3)) * [10 / 6, 10 / 3, 10])
    assert costs.classes is None
    assert CostMatrix.balanced(y, classes=NAMES).classes == NAMES
    assert CostMatrix.balanced([0, 1, 1], classes=["no", "yes"]).fp == 3


def test_a_hundred_classes():
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 100, 2000), rng.dirichlet(np.ones(100), 2000)
    costs = CostMatrix.balanced(y)
    table, chosen = costs.to_array(), costs.decide(p)
    np.testing.assert_array_equal(chosen, (p @ table.T).argmin(1))
    assert costs.confusion(y, chosen).sum() == pytest.approx(table[chosen, y].sum())
    assert repr(costs) == "<CostMatrix of 100 classes>"


@pytest.mark.parametrize(
    "costs", [THREE, REFER, CostMatrix.from_array(K3[None] * [[[1.0]], [[3.0]]] * 1, rows="predicted")]
)
def test_intervals_hold_the_mean(costs):
    rng = np.random.default_rng(1)
    n = 2 if costs.n_instances else 300
    true, pred, other = (rng.integers(0, high, n) for high in (3, costs.n_actions, 3))
    result = cost_interval(costs, true, pred)
    assert result.low <= result.estimate <= result.high
    assert result.estimate == pytest.approx(costs.mean(true, pred))
    paired = cost_difference_interval(costs, true, pred, other)
    assert paired.estimate == pytest.approx(costs.mean(true, pred) - costs.mean(true, other))


# names


def test_frames_name_both_axes():
    frame = pd.DataFrame(K3, index=NAMES, columns=NAMES)
    assert CostMatrix.from_frame(frame, rows="predicted") == THREE
    assert CostMatrix.from_frame(frame.T, rows="actual") == THREE
    shuffled = frame.loc[["cat", "ant", "bee"], ["bee", "cat", "ant"]]
    assert CostMatrix.from_frame(shuffled, rows="predicted").aligned(NAMES) == THREE
    assert CostMatrix.from_frame(frame.reset_index(), rows="predicted") == THREE
    assert CostMatrix.from_frame(pl.DataFrame(frame.reset_index()), rows="predicted") == THREE
    assert CostMatrix.from_frame(THREE.to_frame(), rows="predicted") == THREE
    assert CostMatrix.from_frame(REFER.to_frame(), rows="predicted") == REFER
    assert CostMatrix.from_frame(REFER.to_frame().T, rows="actual") == REFER
    assert (THREE.to_frame().index.name, THREE.to_frame().columns.name) == ("predicted", "actual")


def test_frames_of_numbered_classes():
    frame = pd.DataFrame(K3, columns=[0, 1, 2])
    numbered = CostMatrix.from_array(K3, rows="predicted", classes=[0, 1, 2])
    assert CostMatrix.from_frame(frame, rows="predicted") == numbered
    assert CostMatrix.from_frame(frame.reset_index(names="predicted"), rows="predicted") == numbered
    assert numbered.classes == ("0", "1", "2")
    assert numbered.aligned([2.0, 0, "1"]).classes == ("2", "0", "1")


def test_actions_of_their_own():
    assert (THREE.square, THREE.actions, REFER.square, REFER.actions) == (True, NAMES, False, (*NAMES, "refer"))
    lanes = [[0, 4, 9], [2, 1, 0], [5, 5, 5]]
    sort = CostMatrix.from_array(lanes, rows="predicted", classes=NAMES, actions=["left", "middle", "right"])
    assert not sort.square
    np.testing.assert_array_equal(sort.reduced().to_array(), np.array(lanes) - [[0, 1, 0]])
    two = CostMatrix.from_array(lanes[:2], rows="predicted", classes=NAMES, actions=["left", "right"])
    assert two.decide([[1, 0, 0], [0, 0, 1]]).tolist() == [0, 1]
    with pytest.raises(ValueError, match="the matrix has other actions"):
        _ = CostMatrix.from_array([[0, 8], [1, 0], [0.5, 0.5]], rows="predicted").threshold


def test_two_classes_and_a_referral():
    costs = CostMatrix.from_array([[0, 8], [1, 0], [0.5, 0.5]], rows="predicted")
    p = np.array([0.01, 0.1, 0.7])
    np.testing.assert_array_equal(costs.decide(p), [0, 2, 1])
    np.testing.assert_array_equal(costs.decide(np.stack([1 - p, p], axis=1)), [0, 2, 1])
    assert costs.total([0, 1, 1, 0], [2, 2, 0, 1]) == 0.5 + 0.5 + 8 + 1


@pytest.mark.parametrize("costs", [THREE, REFER, REFER.reduced(), CostMatrix.balanced([0, 1, 2], classes=NAMES)])
def test_round_trips_include_names(costs):
    assert CostMatrix.from_json(costs.to_json()) == costs
    assert CostMatrix.from_dict(json.loads(json.dumps(costs.to_dict()))) == costs
    assert pickle.loads(pickle.dumps(costs)) == costs  # noqa: S301
    assert copy.deepcopy(costs) == costs
    assert eval(repr(costs)) == costs  # noqa: S307
    assert hash(eval(repr(costs))) == hash(costs)  # noqa: S307
    assert costs != CostMatrix.from_array(costs.to_array(), rows="predicted")


def given_array(values, **names):
    return lambda: CostMatrix.from_array(values, rows="predicted", **names)


def given_frame(values, index, columns):
    return lambda: CostMatrix.from_frame(pd.DataFrame(values, index=index, columns=columns), rows="predicted")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (given_array(K3, classes="abc"), "list of names, got the text 'abc'"),
        (given_array(K3, classes=["a", "b"]), "has 3 classes, got 2 names: 'a', 'b'"),
        (given_array(K3, classes=["a", "b", "a"]), "must differ, but 'a' is there more"),
        (given_array(K3, classes=["a", " ", "c"]), "number 2 has none"),
        (given_array(K3, actions=["a", "b", "c"]), "its classes have none: name both"),
        (given_array([[0.0], [1.0]]), "K >= 2 classes"),
        (given_array(K3[:2]), "2 actions for 3 classes: transpose it"),
        (given_array(K3 * [1, 0, 1], classes=NAMES), "same when 'bee' is true"),
        (given_array(K3 * [[0], [1], [1]]), "0 has the lowest cost for every class"),
        (given_array([[0, 5], [1, 6], [2, 7]]), "0 has the lowest cost for every class"),
        (given_array(K3 - [[0], [0], [3]], classes=NAMES), "predicting 'cat' when 'ant' is true costs less"),
        (given_array(K3 * np.nan, classes=NAMES), "predicting 'ant' when 'ant' is true must be finite"),
        (given_frame(K3, ["ant", "bee", "kat"], NAMES), "'cat' is missing among 'ant', 'bee', 'kat'"),
        (given_frame(K3, ["ant", "ant", "cat"], NAMES), "rows of a cost matrix must differ"),
        (given_frame(K3, NAMES, ["a", "b", "b"]), "columns of a cost matrix must differ"),
        (given_frame(K3, None, NAMES), "rows of the cost matrix have no names"),
        (
            given_frame([[0, "1 x"], [1, 0]], ["a", "b"], ["a", "b"]),
            "row 'a', column 'b' .* is '1 x', expected a number",
        ),
        (lambda: CostMatrix.from_frame(K3, rows="predicted"), "a frame with a column for each class"),
        (lambda: THREE.aligned(["ant", "bee", "dog"]), "no column for 'dog' and names 'cat': its classes are 'ant'"),
        (lambda: THREE.aligned(["ant", "bee"]), "the cost matrix names 'cat'"),
        (lambda: THREE.aligned(["ant", "bee", "cat", "cat"]), "do not differ"),
        (lambda: CostMatrix.from_array(K3, rows="actual").aligned("ab"), "has 3 classes, but the data have 2"),
        (lambda: CostMatrix.balanced([0, 2, 2, 2]), "but class 1 has none"),
        (lambda: CostMatrix.balanced([0, 1, 1], classes=NAMES), "but class 'cat' has none"),
        (lambda: CostMatrix.balanced([0, 1, 2], factor=3), "factor is for two classes"),
        (lambda: CostMatrix.balanced([0, 1, np.nan]), "y must be finite"),
        (lambda: CostMatrix.from_array([K3], rows="predicted").to_frame(), "averaged"),
        (lambda: REFER.total([0], [4]), "y_pred must be class numbers from 0 to 3"),
        (lambda: REFER.total([3], [0]), "y_true must be class numbers from 0 to 2"),
        (lambda: CostMatrix.from_dict(REFER.to_dict() | {"actions": None}).aligned("ab"), "has no column for 'a', 'b'"),
    ],
)
def test_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


# ordered classes


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_costs_are_distances(k, power):
    costs = CostMatrix.ordinal(k, power=power, low=3, high=2)
    for i in range(k):
        for j in range(k):
            expected = abs(i - j) ** power * (3 if i < j else 2 if i > j else 0)
            assert costs.to_array()[i, j] == pytest.approx(expected)
    assert costs.n_classes == k


def test_the_optimal_class_of_absolute_distances_is_the_median():
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=200)
    assert (CostMatrix.ordinal(5).decide(p) == (p.cumsum(1) < 0.5).sum(1)).all()


def test_names_and_wrong_settings_of_ordered_classes():
    assert CostMatrix.ordinal(3, classes=["low", "mid", "high"]).classes == ("low", "mid", "high")
    with pytest.raises(ValueError, match="n_classes must be a whole number of at least 2"):
        CostMatrix.ordinal(1)
    with pytest.raises(ValueError, match="power must be a positive number, got 0"):
        CostMatrix.ordinal(3, power=0)
