"""Stacks of K classes: against finite differences, scipy, the stack of two classes and temperature scaling."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from sklearn.metrics import log_loss

from adacsl.base.scores import losses_of, sigmoid, to_logits, to_probabilities
from adacsl.decision.calibration import calibrate, temperature
from adacsl.ensemble import stacking
from adacsl.ensemble.stacking import FREE, STRENGTHS, fit_stack, stack_estimators, stack_folds
from adacsl.learners import stack as learners_stack
from adacsl.learners.stack import limited


def drawn(n=300, members=3, k=4, seed=0, rare=1.0):
    """Logits of members that know the truth with noise of their own, and labels; the last class may be rare."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(scale=1.5, size=(n, k)) + np.log([*[1.0] * (k - 1), rare])
    y = (to_probabilities(truth).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    noise = rng.normal(size=(n, members, k)) * (0.5 + np.arange(members))[:, None]
    return truth[:, None] + noise, y


def penalised(at, columns, y, weight, strength):
    """The loss that fit_stack states in words, row by row."""
    m = columns.shape[1]
    weights, intercepts = at[:m], at[m:]
    total = 0.0
    for row, label, counted in zip(columns, y, weight, strict=True):
        logits = weights @ row + intercepts
        total += counted * (np.log(np.exp(logits).sum()) - logits[label])
    held = (weights.sum() / FREE) ** 2 + np.sum((weights - weights.mean()) ** 2) + np.sum((intercepts / FREE) ** 2)
    return strength * total + held / 2


@pytest.mark.parametrize("strength", [0.001, 0.1, 10.0])
@pytest.mark.parametrize(("members", "k"), [(1, 3), (3, 3), (2, 5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_nearby_is_better_and_scipy_finds_the_same(strength, members, k, weighted):
    columns, y = drawn(80, members, k)
    weight = np.random.default_rng(1).uniform(0.5, 3.0, len(y)) if weighted else None
    stack = fit_stack(columns, y, weight, strength)
    scale = np.ones(len(y)) if weight is None else weight / weight.mean()
    given = (limited(columns, np.log(2 * len(y))), y, scale, strength)
    at = np.append(stack.weights, stack.intercept)
    np.testing.assert_allclose(approx_fprime(at, penalised, 1e-6, *given), 0.0, atol=2e-4 * (1 + strength))
    result = minimize(penalised, at + 0.3, args=given, method="BFGS", options={"gtol": 1e-6})
    assert penalised(at, *given) <= result.fun + 1e-8
    assert abs(stack.intercept.sum()) < 1e-6


def test_the_curvature_is_that_of_finite_differences():
    columns, y = drawn(40, 2, 3)
    z = np.ascontiguousarray(columns.transpose(1, 0, 2))
    counted = np.random.default_rng(0).uniform(0.5, 2.0, 40)

    def slope(at):
        proba = to_probabilities(np.tensordot(at[:2], z, axes=1) + at[2:])
        pull = counted[:, None] * (proba - np.eye(3)[y])
        return np.append(np.tensordot(z, pull, axes=2), pull.sum(axis=0))

    at = np.asarray([0.7, 0.2, 0.1, -0.3, 0.2])
    proba = to_probabilities(np.tensordot(at[:2], z, axes=1) + at[2:])
    expected = np.stack([(slope(at + step) - slope(at - step)) / 2e-5 for step in 1e-5 * np.eye(5)])
    np.testing.assert_allclose(stacking.curvature(z, proba, counted[:, None] * proba), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("strength", [0.001, 0.1, 1.0])
@pytest.mark.parametrize("cut", [0.0, -2.0])
def test_two_classes_in_two_columns_are_the_stack_of_log_odds(strength, cut):
    columns, y = drawn(400, 3, 2, seed=3)
    odds = columns[:, :, 1] - columns[:, :, 0]
    one, nested = stack_estimators(odds, y, strength=strength, cut=cut)
    two, also = stack_estimators(columns, y, strength=strength, cut=np.asarray([-cut / 2, cut / 2]))
    np.testing.assert_allclose(two.weights, one.weights, atol=2e-4)
    np.testing.assert_allclose(two.intercept, [-one.intercept / 2, one.intercept / 2], atol=2e-3)
    np.testing.assert_allclose(to_probabilities(also)[:, 1], sigmoid(nested), atol=2e-3)
    np.testing.assert_allclose(two.logits(columns)[:, 1] - two.logits(columns)[:, 0], one.logits(odds), atol=5e-3)


def test_one_member_is_temperature_scaling_with_intercepts():
    columns, y = drawn(3000, 1, 3, seed=2)
    columns -= columns.mean(axis=0)  # nothing for intercepts to do but chance
    stack = fit_stack(columns, y, None, 1e4)
    proba = to_probabilities(columns[:, 0])
    slope = temperature(proba, y, None)["matrix"][0][0]
    assert stack.weights[0] == pytest.approx(slope, rel=0.02)
    scaled = calibrate(temperature(proba, y, None), proba)
    better = log_loss(y, to_probabilities(stack.logits(columns)))
    assert log_loss(y, scaled) - 0.003 < better <= log_loss(y, scaled) + 1e-9
    without = minimize(lambda w: losses_of(w * limited(columns, stack.limit)[:, 0] + stack.intercept, y).sum(), 1.0)
    assert stack.weights[0] == pytest.approx(without.x[0], rel=1e-4)


@given(seed=st.integers(0, 999), k=st.integers(3, 6), order=st.permutations(range(3)))
@settings(max_examples=15)
def test_the_order_of_members_and_of_classes_does_not_matter(seed, k, order):
    columns, y = drawn(150, 3, k, seed)
    classes = np.random.default_rng(seed).permutation(k)
    one, nested = stack_estimators(columns, y, strength=0.1)
    other = fit_stack(columns[:, order][:, :, classes], np.argsort(classes)[y], None, 0.1)
    np.testing.assert_allclose(one.weights[order], other.weights, atol=1e-6)
    np.testing.assert_allclose(one.intercept[classes], other.intercept, atol=1e-6)
    assert np.isfinite(nested).all()


@given(seed=st.integers(0, 999), shift=st.floats(-50, 50))
@settings(max_examples=10)
def test_what_is_added_to_all_classes_does_not_matter(seed, shift):
    columns, y = drawn(100, 2, 3, seed)
    moved = columns + shift * np.random.default_rng(seed).normal(size=(100, 2, 1))
    one, other = (fit_stack(given, y, None, 0.1) for given in (columns, moved))
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
    np.testing.assert_allclose(one.logits(columns), other.logits(moved), atol=1e-6)


@given(seed=st.integers(0, 999), row=st.integers(0, 79), strength=st.sampled_from(["auto", 0.01]))
@settings(max_examples=6)
def test_a_rows_label_and_weight_do_not_reach_its_own_nested_score(seed, row, strength):
    columns, y = drawn(80, 2, 3, seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
    folds = [(np.setdiff1d(np.arange(80), part), part) for part in np.array_split(np.arange(80), 4)]
    changed, heavier = y.copy(), weight.copy()
    changed[row], heavier[row] = (y[row] + 1) % 3, 50.0
    cut = np.asarray([-1.0, 0.0, 1.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacking, "stack_folds", lambda *_: folds)
        before = stack_estimators(columns, y, weight=weight, strength=strength, cut=cut)[1]
        after = stack_estimators(columns, changed, weight=heavier, strength=strength, cut=cut)[1]
    own = folds[row // 20][1]
    np.testing.assert_array_equal(before[own], after[own])
    assert not np.array_equal(np.delete(before, own, 0), np.delete(after, own, 0))


def test_little_strength_leaves_equal_weights_and_much_finds_the_better_member():
    columns, y = drawn(2000, 2)
    tied, free = (fit_stack(columns, y, None, strength).weights for strength in (1e-7, 10.0))
    assert tied[0] == pytest.approx(tied[1], rel=0.02)
    assert free[0] > 2 * free[1] > 0


@pytest.mark.parametrize("cut", [[-2.0, 0.0, 2.0], [0.5, 0.5, -1.0]])
def test_with_costs_it_is_halfway_between_log_loss_and_cost(cut):
    columns, y = drawn(400, 3, 3)
    cut = np.asarray(cut)
    plain, _ = stack_estimators(columns, y, strength=0.1)
    tilted, _ = stack_estimators(columns, y, weight=np.exp(-cut)[y], strength=0.1)
    stack, _ = stack_estimators(columns, y, strength=0.1, cut=cut)
    expected = (plain.logits(columns) + tilted.logits(columns) + cut) / 2
    np.testing.assert_allclose(stack.logits(columns), expected, rtol=1e-6, atol=1e-6)


def test_costs_as_unequal_as_can_be_give_numbers():
    columns, y = drawn(100, 2, 3)
    for cut in ([-400.0, 0.0, 400.0], [-np.inf, np.inf, 0.0]):
        stack, nested = stack_estimators(columns, y, cut=np.asarray(cut))
        assert np.isfinite(nested).all()
        assert np.isfinite(stack.logits(columns)).all()


@pytest.mark.parametrize("rare", [0, 1, 2, 40])
def test_a_class_of_few_rows_or_none_does_not_hinder_the_stack(rare):
    columns, y = drawn(200, 2, 3)
    y = np.where(np.arange(200) < rare, 2, y % 2)
    stack, nested = stack_estimators(columns, y)
    assert len(stack_folds(y, None, 0)) == 5
    assert np.isfinite(nested).all()
    share = to_probabilities(stack.logits(columns)).mean(axis=0)
    np.testing.assert_allclose(share, np.bincount(y, minlength=3) / 200, atol=0.02)


def test_labels_that_are_told_fully_and_columns_that_tell_nothing_are_no_trouble():
    _, y = drawn(120, 1, 3)
    sure = 80.0 * np.eye(3)[y]
    stack, nested = stack_estimators(np.stack([sure, sure], axis=1), y)
    np.testing.assert_array_equal(nested.argmax(axis=1), y)
    assert np.isfinite(stack.weights).all()
    nothing, _ = stack_estimators(np.zeros((120, 2, 3)), y)
    np.testing.assert_allclose(
        to_probabilities(nothing.logits(np.zeros((1, 2, 3))))[0], np.bincount(y) / 120, atol=1e-2
    )


def test_with_all_classes_but_one_too_rare_the_weights_are_equal():
    columns, _ = drawn(60, 2, 3)
    stack, nested = stack_estimators(columns, np.asarray([1, 2] + [0] * 58))
    np.testing.assert_array_equal(stack.weights, [0.5, 0.5])
    np.testing.assert_allclose(to_probabilities(nested), to_probabilities(columns.mean(axis=1)), rtol=1e-12)


def test_a_hundred_classes_are_stacked_and_better_than_any_member():
    columns, y = drawn(4000, 3, 100)
    _, nested = stack_estimators(columns, y, strength=0.1)
    assert losses_of(nested, y).mean() < min(losses_of(columns[:, i], y).mean() for i in range(3))


def test_the_strength_is_the_one_that_predicts_parts_best():
    columns, y = drawn(150, 3, 3, seed=3)
    stack, _ = stack_estimators(columns, y, seed=7)
    parts = [test for _, test in stack_folds(y, None, 7)]
    every = np.arange(150)
    losses = []
    for strength in STRENGTHS:
        fits = [fit_stack(columns[np.setdiff1d(every, p)], y[np.setdiff1d(every, p)], None, strength) for p in parts]
        losses.append(sum(losses_of(f.logits(columns[p]), y[p]).sum() for f, p in zip(fits, parts, strict=True)))
    assert stack.strength == STRENGTHS[int(np.argmin(losses))]


def test_losses_are_scikit_learns_and_stay_finite():
    columns, y = drawn(100, 1, 3)
    assert losses_of(columns[:, 0], y).mean() == pytest.approx(log_loss(y, to_probabilities(columns[:, 0])))
    odds = to_logits(to_probabilities(columns[:, 0, 0]))
    assert losses_of(odds, y == 0).mean() == pytest.approx(log_loss(y == 0, sigmoid(odds)))
    np.testing.assert_array_equal(losses_of(np.array([1e308, -1e308]), np.array([1, 0])), [0.0, 0.0])
    assert losses_of(np.array([800.0]), np.array([0]))[0] == 800.0


@pytest.mark.parametrize("shape", [(50,), (50, 3)])
def test_members_that_predict_at_the_same_time_keep_their_places(monkeypatch, shape):
    class Slow:
        def __init__(self, number):
            self.number = number

        def logits(self, X):
            time.sleep(0.02 * (3 - self.number))  # the first is done last
            return np.full(shape, float(self.number))

    model = learners_stack.StackModel(None, list("abc"), [Slow(i) for i in range(3)], [0.0, 0.5, 0.0])
    alone = model.columns(np.zeros((50, 2)))
    monkeypatch.setattr(learners_stack, "MANY_ROWS", 10)
    monkeypatch.setattr(learners_stack, "cores", lambda: 3)
    together = model.columns(np.zeros((50, 2)))
    np.testing.assert_array_equal(together, alone)
    assert [float(together[0, member].max()) for member in range(3)] == [0.0, 1.5, 2.0]
