"""Bootstrap intervals against scipy's."""

import numpy as np
import pytest
import torch
from scipy import stats

from adacsl import CostMatrix, cost_interval
from adacsl.metrics import cost_difference_interval

COSTS = CostMatrix(fp=1, fn=8, tp=-0.5)


def case(seed=0, n=300):
    rng = np.random.default_rng(seed)
    true = (rng.random(n) < 0.3).astype(int)
    pred, other = (np.where(rng.random(n) < rate, true, 1 - true) for rate in (0.85, 0.75))
    return true, pred, other


def by_hand(true, pred, fp=1.0, fn=8.0, tp=-0.5):
    return np.where(true == 1, np.where(pred == 1, tp, fn), np.where(pred == 1, fp, 0.0))


def scipy_interval(values, level=0.95):
    result = stats.bootstrap(
        (values,), np.mean, confidence_level=level, n_resamples=9000, method="percentile", rng=np.random.default_rng(1)
    )
    return result.confidence_interval


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_cost_interval_equals_scipy(level):
    true, pred, _ = case()
    result = cost_interval(COSTS, true, pred, level=level, resamples=9000)
    expected = scipy_interval(by_hand(true, pred), level)
    width = expected.high - expected.low
    assert result.estimate == pytest.approx(by_hand(true, pred).mean())
    assert result.low == pytest.approx(expected.low, abs=0.06 * width)
    assert result.high == pytest.approx(expected.high, abs=0.06 * width)


def test_paired_difference_equals_scipy():
    true, pred, other = case(1)
    result = cost_difference_interval(COSTS, true, pred, other, resamples=9000)
    extra = by_hand(true, pred) - by_hand(true, other)
    expected = scipy_interval(extra)
    width = expected.high - expected.low
    assert result.estimate == pytest.approx(extra.mean())
    assert result.low == pytest.approx(expected.low, abs=0.06 * width)
    assert result.high == pytest.approx(expected.high, abs=0.06 * width)
    mirrored = cost_difference_interval(COSTS, true, other, pred, resamples=9000)
    assert mirrored.estimate == pytest.approx(-result.estimate)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_instance_costs_with_many_values_equal_scipy(share):
    """More than a thousand different costs are drawn one by one, those of nothing together."""
    rng = np.random.default_rng(3)
    n = 1500
    amounts = rng.gamma(2, 3, n)
    true = np.ones(n, dtype=int)
    pred = (rng.random(n) >= share).astype(int)
    result = cost_interval(CostMatrix(fp=1, fn=amounts), true, pred, resamples=4000)
    expected = scipy_interval(np.where(pred == 1, 0.0, amounts))
    width = expected.high - expected.low
    assert result.low == pytest.approx(expected.low, abs=0.08 * width)
    assert result.high == pytest.approx(expected.high, abs=0.08 * width)


def test_groups_are_drawn_whole():
    true, pred, _ = case(4, n=200)
    repeated_true, repeated_pred = np.repeat(true, 5), np.repeat(pred, 5)
    groups = np.repeat([f"patient {k}" for k in range(200)], 5)
    single = cost_interval(COSTS, true, pred, resamples=6000)
    grouped = cost_interval(COSTS, repeated_true, repeated_pred, groups=groups, resamples=6000)
    naive = cost_interval(COSTS, repeated_true, repeated_pred, resamples=6000)
    assert grouped.estimate == pytest.approx(single.estimate)
    assert grouped.high - grouped.low == pytest.approx(single.high - single.low, rel=0.08)
    assert naive.high - naive.low < 0.6 * (grouped.high - grouped.low)


def test_groups_of_unequal_size_weigh_by_their_samples():
    true, pred = np.array([0, 0, 0, 1]), np.array([1, 1, 1, 1])
    result = cost_interval(COSTS, true, pred, groups=[7, 7, 7, 9])
    assert result.estimate == pytest.approx((3 - 0.5) / 4)
    assert (result.low, result.high) == (-0.5, 1.0)


def test_intervals_repeat_with_their_seed_and_take_any_library(library):
    true, pred, other = case(5)
    y, p, o = (library.asarray(a) for a in (true, pred, other))
    assert cost_interval(COSTS, y, p) == cost_interval(COSTS, true, pred)
    assert cost_interval(COSTS, true, pred) != cost_interval(COSTS, true, pred, random_state=1)
    assert cost_difference_interval(COSTS, y, p, o) == cost_difference_interval(COSTS, true, pred, other)
    assert cost_interval(COSTS, y, p, groups=torch.arange(300)).estimate == pytest.approx(
        cost_interval(COSTS, true, pred).estimate
    )


def test_interval_covers_the_truth_as_often_as_its_level():
    rng = np.random.default_rng(0)
    truth, covered = 0.2 * 8, 0
    for seed in range(200):
        true = np.ones(150, dtype=int)
        pred = (rng.random(150) >= 0.2).astype(int)
        interval = cost_interval(CostMatrix(fp=1, fn=8), true, pred, level=0.9, resamples=400, random_state=seed)
        covered += interval.low <= truth <= interval.high
    assert 0.82 <= covered / 200 <= 0.96


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 1.0}, "level must lie between 0 and 1, got 1.0"),
        ({"level": 95}, "level must lie between 0 and 1, got 95"),
        ({"resamples": 10}, "resamples must be at least 100"),
        ({"groups": [1]}, r"groups has shape \(1,\), expected \(2,\)"),
    ],
)
def test_interval_refuses(settings, message):
    with pytest.raises(ValueError, match=message):
        cost_interval(COSTS, [0, 1], [1, 1], **settings)
    with pytest.raises(ValueError, match="y_pred has 1 entries, expected 2: one for each sample"):
        cost_interval(COSTS, [0, 1], [1])
