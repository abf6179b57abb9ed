"""Stacks against scipy and brute force; nested scores never know their own row."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from adacsl.base.scores import sigmoid
from adacsl.ensemble import stacking
from adacsl.ensemble.stacking import FREE, STRENGTHS, fit_stack, stack_estimators, stack_folds


def drawn(n=300, members=3, seed=0, share=0.3):
    """Log-odds of members that know the truth with noise of their own, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(scale=1.5, size=n) + np.log(share / (1 - share))
    y = (rng.random(n) < sigmoid(truth)).astype(int)
    noise = rng.normal(size=(n, members)) * (0.5 + np.arange(members))
    return truth[:, None] + noise, y


def penalised(parameters, columns, y, weight, strength):
    """The loss that fit_stack states in words, in terms of the weights themselves."""
    weights, intercept = parameters[:-1], parameters[-1]
    losses = np.logaddexp(0.0, np.where(y == 1, -1.0, 1.0) * (columns @ weights + intercept))
    temperature = weights.sum() / FREE
    return strength * np.sum(weight * losses) + 0.5 * (temperature**2 + np.sum((weights - weights.mean()) ** 2))


def minimised(columns, y, weight, strength):
    start = np.append(np.full(columns.shape[1], 1.0 / columns.shape[1]), 0.0)
    return minimize(penalised, start, args=(columns, y, weight, strength), method="BFGS", options={"gtol": 1e-8}).x


@pytest.mark.parametrize("strength", [0.001, 0.1, 10.0])
@pytest.mark.parametrize("members", [1, 2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_those_scipy_finds(strength, members, weighted):
    columns, y = drawn(200, members)
    weight = np.random.default_rng(1).uniform(0.5, 3.0, len(y)) if weighted else None
    stack = fit_stack(columns, y, weight, strength)
    limit = np.log(2 * len(y))
    scale = np.ones(len(y)) if weight is None else weight / weight.mean()
    expected = minimised(columns.clip(-limit, limit), y, scale, strength)
    np.testing.assert_allclose(np.append(stack.weights, stack.intercept), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("share", [0.3, 0.02])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strength", STRENGTHS)
def test_weights_are_those_of_scikit_learn(share, weighted, strength):
    columns, y = drawn(400, 3, share=share)
    weight = np.random.default_rng(2).uniform(0.1, 3.0, len(y)) if weighted else None
    stack = fit_stack(columns, y, weight, strength)
    inside = columns.clip(-np.log(800), np.log(800))
    mean = inside.mean(axis=1, keepdims=True)
    model = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    scale = None if weight is None else weight / weight.mean()
    model.fit(np.hstack((FREE * mean, inside - mean)), y, sample_weight=scale)
    own = model.coef_[0, 1:]
    np.testing.assert_allclose(stack.weights, FREE * model.coef_[0, 0] / 3 + own - own.mean(), rtol=1e-6, atol=1e-8)
    assert stack.intercept == pytest.approx(model.intercept_[0], rel=1e-6)


def best_by_hand(columns, y, parts):
    """The strength whose stacks of the other parts predict each part best, and its stack."""
    every = np.sort(np.concatenate(parts))
    losses = []
    for strength in STRENGTHS:
        total = 0.0
        for part in parts:
            others = np.setdiff1d(every, part)
            logits = fit_stack(columns[others], y[others], None, strength).logits(columns[part])
            total += log_loss(y[part], sigmoid(logits), labels=[0, 1]) * len(part)
        losses.append(total)
    return fit_stack(columns[every], y[every], None, STRENGTHS[int(np.argmin(losses))])


def test_the_strength_and_nested_scores_are_those_of_loops_written_out():
    columns, y = drawn(150, 3, seed=3)
    stack, nested = stack_estimators(columns, y, seed=7)
    parts = [test for _, test in stack_folds(y, None, 7)]
    expected = best_by_hand(columns, y, parts)
    assert stack.strength == expected.strength
    np.testing.assert_array_equal(stack.weights, expected.weights)
    for number, part in enumerate(parts):
        others = [other for i, other in enumerate(parts) if i != number]
        np.testing.assert_array_equal(nested[part], best_by_hand(columns, y, others).logits(columns[part]))


@given(seed=st.integers(0, 999), row=st.integers(0, 79), strength=st.sampled_from(["auto", 0.01]))
@settings(max_examples=6)
def test_a_rows_label_and_weight_do_not_reach_its_own_nested_score(seed, row, strength):
    columns, y = drawn(80, 2, seed, share=0.4)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
    folds = [(np.setdiff1d(np.arange(80), part), part) for part in np.array_split(np.arange(80), 4)]
    changed, heavier = y.copy(), weight.copy()
    changed[row], heavier[row] = 1 - y[row], 50.0
    with pytest.MonkeyPatch.context() as patch:  # folds are stratified, so that labels would move rows between them
        patch.setattr(stacking, "stack_folds", lambda *_: folds)
        before = stack_estimators(columns, y, weight=weight, strength=strength)[1]
        after = stack_estimators(columns, changed, weight=heavier, strength=strength)[1]
    own = folds[row // 20][1]
    np.testing.assert_array_equal(before[own], after[own])
    assert not np.array_equal(np.delete(before, own), np.delete(after, own))


@given(seed=st.integers(0, 999), sizes=st.integers(2, 9))
@settings(max_examples=20)
def test_groups_are_never_torn(seed, sizes):
    _, y = drawn(120, 1, seed)
    groups = np.random.default_rng(seed).permutation(np.arange(120) // sizes)
    folds = stack_folds(y, groups, seed)
    for train, test in folds:
        assert not set(groups[train]) & set(groups[test])
    if folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(120))


def test_weights_of_rows_are_rows_repeated_where_nothing_is_held_back():
    columns, y = drawn(200, 2)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    columns = columns.clip(-4, 4)  # within the limit, which grows with the rows
    weighted = fit_stack(columns, y, times, 1e5)
    repeated = fit_stack(np.repeat(columns, times, axis=0), np.repeat(y, times), None, 1e5)
    np.testing.assert_allclose(weighted.weights, repeated.weights, atol=1e-4)
    assert weighted.intercept == pytest.approx(repeated.intercept, abs=1e-4)


def test_only_the_proportions_of_weights_count():
    columns, y = drawn(150, 2)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    one, other = (stack_estimators(columns, y, weight=factor * weight) for factor in (1.0, 1000.0))
    np.testing.assert_allclose(one[0].weights, other[0].weights, rtol=1e-9)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-9)


@given(seed=st.integers(0, 999), order=st.permutations(range(4)))
@settings(max_examples=8)
def test_the_order_of_members_does_not_matter(seed, order):
    columns, y = drawn(120, 4, seed)
    one, nested = stack_estimators(columns, y, strength=0.1)
    other, also = stack_estimators(columns[:, order], y, strength=0.1)
    np.testing.assert_allclose(one.weights[order], other.weights, atol=1e-6)
    np.testing.assert_allclose(nested, also, atol=1e-6)


def test_identical_members_share_the_weight_of_one():
    columns, y = drawn(200, 1)
    alone, nested = stack_estimators(columns, y, strength=0.1)
    tripled, also = stack_estimators(np.repeat(columns, 3, axis=1), y, strength=0.1)
    np.testing.assert_allclose(tripled.weights, alone.weights[0] / 3, atol=1e-6)
    np.testing.assert_allclose(nested, also, atol=1e-6)


def test_little_strength_leaves_equal_weights_and_much_finds_the_better_member():
    columns, y = drawn(2000, 2)
    tied, free = (fit_stack(columns, y, None, strength).weights for strength in (1e-7, 10.0))
    assert tied[0] == pytest.approx(tied[1], rel=0.02)
    assert free[0] > 2 * free[1] > 0


@pytest.mark.parametrize("factor", [1e3, 1e300, np.inf])
def test_huge_log_odds_end_at_the_limit(factor):
    columns, y = drawn(200, 2)
    huge = np.where(columns > 0, factor, -factor)
    limit = np.log(2 * 200)
    stack, nested = stack_estimators(huge, y)
    assert np.all(np.isfinite(nested))
    assert stack.limit == pytest.approx(limit)
    np.testing.assert_array_equal(stack.logits(huge), stack.logits(np.where(columns > 0, limit, -limit)))


def test_labels_that_are_told_fully_are_no_trouble():
    _, y = drawn(100, 1)
    sure = np.where(y == 1, 40.0, -40.0)
    stack, nested = stack_estimators(np.stack([sure, sure], axis=1), y)
    assert np.array_equal(nested > 0, y == 1)
    assert np.all(np.isfinite(stack.weights))


@pytest.mark.parametrize("columns", [np.zeros((120, 2)), np.full((120, 1), 1.3), np.tile([1.0, -2.0], (120, 1))])
def test_constant_columns_give_the_share_of_positives(columns):
    y = (np.arange(120) % 4 == 0).astype(int)
    stack, nested = stack_estimators(columns, y)
    np.testing.assert_allclose(sigmoid(stack.logits(columns)), 0.25, atol=1e-3)
    np.testing.assert_allclose(sigmoid(nested), 0.25, atol=1e-2)


@pytest.mark.parametrize(("rare", "folds"), [(1, 0), (2, 0), (3, 3), (4, 4), (7, 5)])
def test_a_rare_class_gets_fewer_folds_and_at_last_equal_weights(rare, folds):
    columns, _ = drawn(60, 2)
    y = (np.arange(60) < rare).astype(int)
    assert len(stack_folds(y, None, 0)) == folds
    stack, nested = stack_estimators(columns, y)
    assert np.all(np.isfinite(nested))
    if not folds:
        np.testing.assert_array_equal(stack.weights, [0.5, 0.5])
        np.testing.assert_allclose(nested, columns.mean(axis=1), rtol=1e-12)


def test_groups_of_one_class_each_leave_folds_with_both():
    y = np.repeat([0, 1, 0, 1, 0, 1], 10)
    for train, test in stack_folds(y, np.repeat(np.arange(6), 10), 0):
        assert set(y[train]) == set(y[test]) == {0, 1}
    assert stack_folds(y, y, 0) == []  # two groups


@pytest.mark.parametrize("n", [50_000, 100_000])
def test_many_rows_hold_nothing_back_and_end_quickly(n):
    columns, y = drawn(n, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stack, nested = stack_estimators(columns, y)
    assert stack.strength == STRENGTHS[-1]
    assert log_loss(y, sigmoid(nested)) < min(log_loss(y, sigmoid(column)) for column in columns.T)


@pytest.mark.parametrize("cut", [-3.0, 0.5])
def test_with_a_cut_it_is_halfway_between_log_loss_and_cost(cut):
    columns, y = drawn(400)
    stakes = np.where(y == 1, 1.0, np.exp(cut))  # what errors cost; in proportion is enough
    plain, _ = stack_estimators(columns, y, strength=0.1)
    tilted, _ = stack_estimators(columns, y, weight=stakes, strength=0.1)
    stack, nested = stack_estimators(columns, y, strength=0.1, cut=cut)
    expected = (plain.logits(columns) + tilted.logits(columns) + cut) / 2
    np.testing.assert_allclose(stack.logits(columns), expected, rtol=1e-6, atol=1e-6)
    assert np.corrcoef(nested, expected)[0, 1] > 0.99


@pytest.mark.parametrize("cut", [-40.0, 40.0, -np.inf, np.inf])
def test_costs_as_unequal_as_can_be_give_numbers(cut):
    columns, y = drawn(100)
    stack, nested = stack_estimators(columns, y, cut=cut)
    assert np.isfinite(nested).all()
    assert np.isfinite(stack.logits(columns)).all()
