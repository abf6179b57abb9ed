"""Evaluation batch by batch: what arrays of all rows give, however the rows are divided."""

import numpy as np
import pandas as pd
import pytest

from adacsl import CostMatrix, Policy, find_threshold
from adacsl.estimators.evaluation import Evaluator, evaluate, labelled_batch
from adacsl.metrics.calibration import expected_calibration_error
from adacsl.metrics.intervals import cost_interval
from tests.made import logistic

MATRIX = CostMatrix.from_array([[0, 4, 9], [1, -1, 2], [3, 1, 0]], rows="predicted", classes=["a", "b", "c"])
REFER = Policy(refer=0.4, errors=0.02)
PRIOR = Policy(prior=0.4)
ACTIONS = Policy(actions=CostMatrix.from_frame(
    pd.DataFrame([[0, 8], [1, 0], [0.5, 3]], index=["no", "yes", "call"], columns=["no", "yes"]), rows="predicted"
))  # fmt: skip


def rows_of(seed, n, classes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    score = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n)
    return X, np.asarray(classes)[np.digitize(score, np.linspace(-0.5, 1.5, len(classes) - 1))]


def fitted(costs, classes, pos_label=None):
    model = logistic(costs, pos_label=pos_label)
    return model.fit(*rows_of(0, 300, classes))


@pytest.fixture(scope="module")
def binary():
    return fitted(CostMatrix(fp=1, fn=8, tn=-0.25), ["no", "yes"], "yes")


@pytest.fixture(scope="module")
def ternary():
    return fitted(MATRIX, ["a", "b", "c"])


def evaluated(model, X, y, parts, *, costs=None, groups=None, policy=None, **held):
    evaluator = Evaluator(model, policy, **held)
    for rows in np.array_split(np.arange(len(y)), parts):
        own = None if costs is None else costs.rows(rows)
        some = None if groups is None else groups[rows]
        evaluator.update(labelled_batch(model, X[rows], y[rows], own, groups=some))
    return evaluator.result()


def assert_same(result, whole):
    exact = ("n_samples", "classes", "actions", "threshold", "notes", "prior")
    assert [getattr(result, name) for name in exact] == [getattr(whole, name) for name in exact]
    np.testing.assert_array_equal(result.counts, whole.counts)
    for name in ("costs", "cost", "total_cost", "constant_costs", "normalized_cost", "savings", "calibration_error"):
        np.testing.assert_allclose(getattr(result, name), getattr(whole, name), rtol=1e-9, atol=1e-12, err_msg=name)
    assert (result.best_threshold is None) == (whole.best_threshold is None)
    if whole.best_threshold is not None:
        np.testing.assert_allclose(result.best_threshold, whole.best_threshold, rtol=1e-12)


@pytest.mark.parametrize("policy", [None, REFER, PRIOR, ACTIONS])
@pytest.mark.parametrize(
    ("own", "grouped", "held", "seed"), [(False, False, {}, 1), (True, False, {"held": 0}, 2), (True, True, {}, 3)]
)
def test_an_evaluation_does_not_depend_on_the_batches(binary, seed, own, grouped, policy, held):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 300))
    X, y = rows_of(seed, n, ["no", "yes"])
    costs = CostMatrix(fp=rng.lognormal(size=n), fn=3 + rng.lognormal(size=n)) if own else None
    if own and policy is ACTIONS:
        costs = costs.named(["no", "yes"])
    groups = rng.integers(0, 12, n) if grouped else None
    whole = evaluated(binary, X, y, 1, costs=costs, groups=groups, policy=policy, **held)
    assert whole.binary == (policy in (None, PRIOR))
    for parts in (2, 5, 17):
        assert_same(evaluated(binary, X, y, parts, costs=costs, groups=groups, policy=policy, **held), whole)


@pytest.mark.parametrize(("held", "seed"), [({}, 1), ({"held": 0}, 2)])
def test_an_evaluation_of_more_classes_does_not_depend_on_the_batches(ternary, seed, held):
    X, y = rows_of(seed, 200 + seed, ["a", "b", "c"])
    order = np.argsort(y)  # the first batches hold one class
    whole = evaluated(ternary, X[order], y[order], 1, **held)
    assert whole.best_threshold is None
    for parts in (3, 11):
        assert_same(evaluated(ternary, X[order], y[order], parts, **held), whole)


@pytest.mark.parametrize("own", [False, True])
def test_two_classes_are_measured_as_arrays_are(binary, own):
    rng = np.random.default_rng(5)
    X, y = rows_of(7, 500, ["no", "yes"])
    costs = CostMatrix(fp=rng.lognormal(size=500), fn=5.0, tp=0.5) if own else binary.costs_
    parts = np.arange(200), np.arange(200, 500)
    result = evaluate(binary, [(X[part], y[part], costs.rows(part)) for part in parts])
    number, scores = (y == "yes").astype(int), binary.predict_proba(X)[:, 1]
    decided = costs.decide(scores)
    assert result.cost == cost_interval(costs, number, decided)
    np.testing.assert_array_equal(
        result.counts, [[((decided == i) & (number == j)).sum() for j in (0, 1)] for i in (0, 1)]
    )
    np.testing.assert_allclose(result.costs, costs.confusion(number, decided))
    assert result.total_cost == pytest.approx(costs.total(number, decided))
    for label, cost in enumerate(result.constant_costs):
        assert cost == pytest.approx(costs.mean(number, np.full(500, label)))
    assert result.calibration_error == pytest.approx(expected_calibration_error(scores, number), rel=1e-9)
    np.testing.assert_allclose(result.best_threshold, find_threshold(scores, number, costs), rtol=1e-12)
    assert result.threshold == (None if own else pytest.approx(float(costs.threshold)))


def test_the_positive_class_may_be_the_first():
    X, y = rows_of(8, 200, ["no", "yes"])
    model = fitted(CostMatrix(fp=2, fn=3), ["no", "yes"], "no")
    result, decided = evaluate(model, [(X, y)]), model.predict(X)
    assert result.classes == ("yes", "no")
    assert result.counts[1, 1] == ((decided == "no") & (y == "no")).sum()
    assert result.counts[1, 0] == ((decided == "no") & (y == "yes")).sum()
    assert result.total_cost == pytest.approx(-200 * model.score(X, y))


def test_more_classes_are_measured_as_arrays_are(ternary):
    X, y = rows_of(9, 300, ["a", "b", "c"])
    result, number = evaluate(ternary, [(X, y)]), np.searchsorted(["a", "b", "c"], y)
    proba = ternary.predict_proba(X)
    decided = MATRIX.decide(proba)
    assert result.cost == cost_interval(MATRIX, number, decided)
    np.testing.assert_allclose(result.costs, MATRIX.confusion(number, decided))
    assert result.calibration_error == pytest.approx(expected_calibration_error(proba, number), rel=1e-9)
    assert result.to_dict()["cheapest_constant"]["mean"] == pytest.approx(result.constant_costs.min())


def test_a_capacity_needs_all_samples_in_one_batch(binary):
    X, y = rows_of(3, 100, ["no", "yes"])
    policy = Policy(capacity=5)
    result = evaluate(binary, [(X, y)], policy=policy)
    assert result.counts[1].sum() == 5
    assert result.threshold is None
    assert "5 in all were there" in result.notes[0]
    with pytest.raises(ValueError, match="look at all rows at once: give them as one batch"):
        evaluate(binary, [(X[:50], y[:50]), (X[50:], y[50:])], policy=policy)


def test_no_samples_unknown_labels_and_a_notebook(binary):
    with pytest.raises(ValueError, match="no rows were given"):
        evaluate(binary, [])
    with pytest.raises(ValueError, match="labels that were not in training"):
        evaluate(binary, [rows_of(3, 100, ["no", "maybe"])])
    page = evaluate(binary, [rows_of(3, 100, ["no", "yes"])])._repr_html_()
    assert "Evaluation of 100 rows" in page
    assert "calibration error" in page
