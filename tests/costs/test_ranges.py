"""Costs as ranges: where decisions change and what they cost between, against plain decisions at every cost."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.comparison.fits import scale_fn
from adacsl.costs.ranges import (
    cost_at_factors,
    cost_of_kept,
    factors_of,
    flip_factors,
    flip_ratios,
    rows_at_factors,
    share_undecided,
)

COST = st.sampled_from([1e-9, 0.5, 1.0, 3.0, 8.0, 1e9])
FACTORS = np.geomspace(0.01, 100, 13)


@st.composite
def cases(draw):
    """Samples with ties, probabilities of 0 and 1, costs of each sample or of all, and costs of being right."""
    n = draw(st.integers(1, 12))
    p = np.asarray(draw(st.lists(st.sampled_from([0.0, 0.03, 0.2, 0.2, 0.45, 0.77, 1.0]), min_size=n, max_size=n)))
    y = np.asarray(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    own = draw(st.booleans())
    fn = np.asarray(draw(st.lists(COST, min_size=n, max_size=n))) if own else draw(COST)
    tp, tn = draw(st.sampled_from([(0.0, 0.0), (-1.0, 0.5)]))
    return p, y, CostMatrix(fp=draw(COST) + tn, fn=fn + tp, tp=tp, tn=tn)


def away_from_ties(p, costs, factor):
    """Whether no sample costs the same either way at this factor, up to rounding."""
    threshold = np.asarray(scale_fn(costs, factor).threshold)
    return not np.isclose(p, threshold, rtol=1e-9, atol=1e-15).any()


@given(cases())
def test_costs_over_a_range_are_those_of_deciding_again_at_each_cost(case):
    p, y, costs = case
    at = [factor for factor in FACTORS if away_from_ties(p, costs, factor)] or [1.7]
    result = cost_at_factors(p, y, costs, at)
    for factor, cost in zip(at, result, strict=True):
        there = scale_fn(costs, factor)
        slow = there.mean(y, there.decide(p))
        assert cost == pytest.approx(slow, rel=1e-9, abs=1e-9 * float(np.max(np.abs(there.to_array()))))


@given(cases(), st.sampled_from([0.1, 1.0, 7.3]))
def test_fixed_decisions_are_measured_at_each_cost(case, factor):
    p, y, costs = case
    decisions = (p > 0.3).astype(int)
    there = scale_fn(costs, factor)
    scale = float(np.max(np.abs(there.to_array())))
    assert cost_of_kept(decisions, y, costs, [factor])[0] == pytest.approx(
        there.mean(y, decisions), rel=1e-9, abs=1e-9 * scale
    )


@given(cases(), st.booleans())
def test_costs_of_samples_over_a_range_are_those_of_deciding_again_or_not(case, fixed):
    p, y, costs = case
    at = [factor for factor in FACTORS if away_from_ties(p, costs, factor)] or [1.7]
    flips = np.where(p > 0.3, -np.inf, np.inf) if fixed else flip_factors(p, costs)
    for factor, rows in zip(at, rows_at_factors(flips, y, costs, at), strict=True):
        there = scale_fn(costs, factor)
        decided = (p > 0.3).astype(int) if fixed else there.decide(p)
        np.testing.assert_allclose(rows, there.incurred(y, decided), rtol=1e-9, atol=1e-12)


@given(cases())
def test_a_decision_changes_where_its_flip_factor_says(case):
    p, _, costs = case
    for row, flip in enumerate(flip_factors(p, costs)):
        mine, own = costs.rows([row]), p[[row]]
        if 1e-10 < flip < 1e10:
            assert scale_fn(mine, flip * 0.99).decide(own)[0] == 0
            assert scale_fn(mine, flip * 1.01).decide(own)[0] == 1
        elif flip == np.inf:
            assert scale_fn(mine, 1e12).decide(own)[0] == 0


@given(cases(), st.sampled_from([(0.5, 2.0), (0.013, 71.0), (1.1, 1.1)]))
def test_undecided_are_the_samples_whose_decisions_differ_at_the_ends(case, ends):
    p, _, costs = case
    if all(away_from_ties(p, costs, end) for end in ends):
        low, high = (scale_fn(costs, end).decide(p) for end in ends)
        assert share_undecided(p, costs, *ends) == pytest.approx(np.mean(low != high))


def test_flip_ratios_are_odds_against():
    p = np.asarray([0.0, 0.2, 0.5, 1.0])
    assert flip_ratios(p).tolist() == [np.inf, 4.0, 1.0, 0.0]
    np.testing.assert_allclose(flip_factors(p, CostMatrix(fp=2, fn=8))[1:], flip_ratios(p)[1:] / 4)
    np.testing.assert_allclose(flip_ratios(np.stack((1 - p, p), axis=1)), flip_ratios(p))
    np.testing.assert_allclose(flip_ratios(torch.tensor(p)), flip_ratios(p))


def test_a_false_negative_that_costs_nothing_is_never_avoided():
    costs = CostMatrix(fp=1, fn=np.asarray([0.0, 5.0, 0.0]))
    assert flip_factors([1.0, 1.0, 0.0], costs).tolist() == [np.inf, 0.0, np.inf]
    assert share_undecided([1.0, 1.0, 0.0], costs, 0.5, 2) == 0.0


def test_predicted_costs_may_differ_from_incurred_ones():
    paid, known = CostMatrix(fp=1, fn=np.asarray([2.0, 50.0])), CostMatrix(fp=1, fn=np.asarray([8.0, 8.0]))
    p, y = np.asarray([0.2, 0.05]), np.asarray([1, 1])
    result = cost_at_factors(p, y, paid.decided_by(known), [1.0, 3.0])
    assert result.tolist() == [25.0, 0.0]


@given(st.tuples(COST, COST), st.tuples(COST, COST))
def test_ranges_come_to_the_lowest_and_the_highest_ratio(fp, fn):
    ranges = {"fp": tuple(sorted(fp)), "fn": tuple(sorted(fn))}
    costs = CostMatrix(fp=float(np.sqrt(np.prod(fp))), fn=float(np.sqrt(np.prod(fn))))
    low, high = factors_of(costs, ranges)
    corners = [CostMatrix(fp=a, fn=b).ratio / costs.ratio for a in ranges["fp"] for b in ranges["fn"]]
    assert (low, high) == (pytest.approx(min(corners)), pytest.approx(max(corners)))


def test_ranges_of_being_right_and_costs_of_samples_count_too():
    costs = CostMatrix(fp=2, fn=9, tp=-1, tn=0.5)
    low, high = factors_of(costs, {"fn": (4, 9), "tp": (-2, 0), "tn": (0, 1)})
    corners = [
        CostMatrix(fp=2, fn=fn, tp=tp, tn=tn).ratio / costs.ratio for fn in (4, 9) for tp in (-2, 0) for tn in (0, 1)
    ]
    assert (low, high) == (pytest.approx(min(corners)), pytest.approx(max(corners)))
    rows = CostMatrix(fp=2, fn=np.asarray([1.0, 30.0]))
    assert factors_of(rows, {"fp": (1, 4)}) == (pytest.approx(0.5), pytest.approx(2.0))
    assert factors_of(rows) == (0.5, 2.0)
    free = CostMatrix(fp=1, fn=(0, 20))
    assert factors_of(free, free.ranges) == (pytest.approx(0.02), pytest.approx(2.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: factors_of(CostMatrix(fp=1, fn=8), {"fn": (9, 3)}), "the lower first"),
        (lambda: factors_of(CostMatrix(fp=1, fn=8), {"up": (3, 9)}), "fp, fn, tp and tn"),
        (lambda: factors_of(CostMatrix(fp=1, fn=8, tp=2), {"fn": (1, 8)}), "raise the low end of fn"),
        (lambda: factors_of(CostMatrix.balanced([0, 1, 2], classes=["a", "b", "c"])), "two classes"),
        (lambda: share_undecided([0.1], CostMatrix(fp=1, fn=8), 2, 1), "the lower first"),
        (lambda: cost_at_factors([0.1], [0], CostMatrix(fp=1, fn=8), [0.0]), "positive numbers"),
        (lambda: cost_at_factors([0.1], [0, 1], CostMatrix(fp=1, fn=8), [1.0]), "one label for each of 1 rows"),
        (lambda: flip_factors([0.1], CostMatrix(fp=1, fn=np.asarray([1.0, 2.0]))), "belong to 2 samples"),
        (lambda: flip_ratios([np.nan]), "probabilities"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "costs",
    [CostMatrix(fp=(1, 2), fn=5), CostMatrix(fp=1, fn=(4, 8), tp=0.1), CostMatrix(fp=(1, 2), fn=(4, 8), tn=0.2)],
)
def test_ranges_beside_a_referral(costs):
    referred = costs.with_referral(0.5, errors=0.1)
    plain = CostMatrix(fp=costs.fp, fn=costs.fn, tp=costs.tp, tn=costs.tn).with_referral(0.5, errors=0.1)
    np.testing.assert_allclose(referred.reduced().to_array(), plain.reduced().to_array())
    true, done = [0, 1, 1, 0, 1], [1, 2, 0, 0, 1]
    for measure in ("mean", "normalized", "savings"):
        assert getattr(referred, measure)(true, done) == pytest.approx(getattr(plain, measure)(true, done))
    assert referred.checked() == referred
    for other in (referred, referred.reduced(), costs.named(["well", "ill"]), costs.named(["well", "ill"]).reduced()):
        assert CostMatrix.from_dict(other.to_dict()) == other
        assert pickle.loads(pickle.dumps(other)) == other  # noqa: S301
