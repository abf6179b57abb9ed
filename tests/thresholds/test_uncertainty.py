"""The uncertainty of an optimal threshold, and its cost on new samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix, cost_curve, find_threshold
from adacsl.metrics.intervals import mean_interval
from adacsl.thresholds import uncertainty
from adacsl.thresholds.uncertainty import resampled_optima, tune_threshold

COSTS = CostMatrix(fp=1, fn=8)


def draw(n, seed=0, shift=1.5):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.25).astype(np.int64)
    return 1 / (1 + np.exp(-(rng.normal(size=n) + shift * y - 1.5))), y


@pytest.mark.parametrize("own", [False, True])
def test_bootstrap_is_find_threshold_on_resamples(own):
    scores, y = draw(60, seed=3)
    scores = scores.round(1) if not own else scores
    costs = CostMatrix(fp=1, fn=np.random.default_rng(0).lognormal(2, 1, 60)) if own else COSTS
    lows, highs = resampled_optima(scores, y, costs, None, 2000, 0)
    rng = np.random.default_rng(1)
    slow = []
    for _ in range(1500):
        rows = rng.integers(0, 60, 60)
        curve = cost_curve(scores[rows], y[rows], costs.rows(rows))
        optimal = np.flatnonzero(curve.costs <= curve.costs.min() * (1 + 1e-9))
        # in terms of all scores: the first cut that is optimal begins at the highest score below it
        slow.append(max(float(curve.thresholds[optimal[0]]), 0.0) if optimal[0] else 0.0)
    for q in (0.1, 0.5, 0.9):
        assert np.quantile(lows, q) == pytest.approx(np.quantile(slow, q), abs=0.08)
    assert (lows <= highs).all()


def test_of_many_scores_some_are_candidate_thresholds(monkeypatch):
    scores, y = draw(3000)
    fine = tune_threshold(scores, y, COSTS)
    monkeypatch.setattr(uncertainty, "CELLS", 100)
    coarse = tune_threshold(scores, y, COSTS)
    assert coarse.best == fine.best
    np.testing.assert_allclose(coarse.threshold, fine.threshold, atol=0.03)


def test_distinct_samples_are_drawn_as_samples_are():
    # few distinct scores: samples are drawn by score; distinct weights of one: sample by sample
    scores, y = draw(500)
    scores = scores.round(1)
    kinds = resampled_optima(scores, y, COSTS, None, 3000, 0)
    weight = 1 + 1e-12 * np.arange(500)
    rows = resampled_optima(scores, y, COSTS, weight, 3000, 1)
    for a, b in zip(kinds, rows, strict=True):
        assert np.mean(a) == pytest.approx(np.mean(b), abs=0.01)


def test_expected_cost_is_unbiased_and_its_interval_covers():
    reference, truth = draw(100_000, seed=99)
    covered, covered_threshold, apparent, expected, actual = 0, 0, [], [], []
    optimum = find_threshold(reference, truth, COSTS).value
    for seed in range(60):
        scores, y = draw(150, seed=seed)
        result = tune_threshold(scores, y, COSTS, random_state=seed)
        cost = COSTS.mean(truth, (reference > result.best.value).astype(int))
        covered += result.cost.low <= cost <= result.cost.high
        covered_threshold += result.threshold.low <= optimum <= result.threshold.high
        apparent.append(result.best.cost)
        expected.append(result.cost.estimate)
        actual.append(cost)
    assert np.mean(apparent) < 0.93 * np.mean(actual)  # optimistic on the samples that tuned it
    assert np.mean(expected) == pytest.approx(np.mean(actual), rel=0.06)
    assert covered >= 52
    assert covered_threshold >= 48


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=30), st.floats(1e-9, 1e9))
def test_any_samples_give_ordered_intervals(pairs, fn):
    scores, y = np.array([p for p, _ in pairs]), np.array([b for _, b in pairs]).astype(np.int64)
    result = tune_threshold(scores, y, CostMatrix(fp=1, fn=fn))
    assert result.threshold.low <= result.best.value <= result.threshold.high
    if min(y.sum(), len(y) - y.sum()) < 2:
        assert result.cost is None
    else:
        assert result.cost.low <= result.cost.high
        assert result.cost.estimate >= 0


def test_the_mean_is_the_weighted_mean():
    each, weight = np.array([0.0, 1.0, 8.0]), np.array([1.0, 2.0, 1.0])
    result = mean_interval(each, weight)
    assert result.estimate == pytest.approx(10 / 4)
    assert result.low <= result.estimate <= result.high
