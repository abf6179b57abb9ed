"""Held-out scores: the cheapest candidate is kept, honest scores come from the one that other rows chose."""

import numpy as np
import pytest

from adacsl import CostMatrix
from adacsl.core.heldout import HeldOut, bayes_log_odds, halves, log_odds, pooled, sigmoid

COSTS = CostMatrix(fp=1, fn=5)


def made_up(n=40, candidates=8, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(int)
    return y, rng.integers(1, 4, n).astype(float), rng.normal(size=(candidates, n))


@pytest.mark.parametrize("decide", ["bayes", "half", "tuned"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("own_costs", [False, True])
def test_honest_scores_come_from_the_candidate_that_other_rows_chose(own_costs, grouped, decide):
    y, weight, candidates = made_up()
    rng = np.random.default_rng(1)
    costs = CostMatrix(fp=1, fn=rng.integers(1, 9, 40).astype(float), tp=0.5) if own_costs else COSTS
    groups = np.arange(40) // 2 if grouped else None
    held = HeldOut(np.arange(40), y, costs, decide=decide, weight=weight, groups=groups)
    kept = [held.look(logits) for logits in candidates]
    bayes = np.broadcast_to(0.0 if decide == "half" else bayes_log_odds(costs), 40)

    def price(rows, logits, cut=0.0):
        decided = logits[rows] > bayes[rows] + cut
        return costs.rows(rows).total(y[rows], decided, sample_weight=weight[rows])

    def cheapest(rows):
        # just above each score, so that rounding moves none across
        cuts = [[-99.0, *(z[rows] - bayes[rows] + 1e-9)] if decide == "tuned" else [0.0] for z in candidates]
        prices = [min(price(rows, z, cut) for cut in own) for z, own in zip(candidates, cuts, strict=True)]
        return int(np.argmin(prices)), min(prices)

    best, total = cheapest(np.arange(40))
    assert held.best == best == np.flatnonzero(kept)[-1]
    assert held.seen == 8
    assert held.cost == pytest.approx(total / weight.sum())
    assert np.array_equal(held.logits, candidates[best])
    second = halves(y, groups)
    for own, other in ((second, ~second), (~second, second)):
        chosen = cheapest(np.flatnonzero(other))[0]
        moved = held.honest[own] - candidates[chosen][own]
        assert moved == pytest.approx(moved[0])  # of one candidate, tuned ones on the scale of the kept threshold
        if decide != "tuned":
            assert np.array_equal(held.honest[own], candidates[chosen][own])


def test_halves_spread_both_classes_and_tear_no_group_apart():
    rng = np.random.default_rng(0)
    y = (rng.random(101) < 0.2).astype(int)
    second = halves(y)
    for label in (0, 1):
        assert abs(second[y == label].sum() - (y == label).sum() / 2) <= 0.5
    groups = rng.integers(0, 30, 101)
    second = halves(y, groups)
    assert all(len(set(second[groups == group])) == 1 for group in groups)
    assert 0 < second.sum() < 101
    few = halves(np.asarray([0, 0, 1, 1]), np.asarray([0, 0, 1, 1]))
    assert few.any()
    assert not few.all()


def test_the_last_candidate_is_nobodys_choice():
    y, weight, candidates = made_up()
    held = HeldOut(np.arange(40), y, COSTS, weight=weight, last=True)
    assert all(held.look(logits) for logits in candidates)
    assert held.best == 7
    assert np.array_equal(held.logits, candidates[-1])
    assert np.array_equal(held.honest, candidates[-1])


@pytest.mark.parametrize("decide", ["bayes", "tuned"])
def test_it_goes_on_from_its_state(decide):
    y, weight, candidates = made_up()
    whole, broken, resumed = (HeldOut(np.arange(40), y, COSTS, decide=decide, weight=weight) for _ in range(3))
    for logits in candidates:
        whole.look(logits)
    for logits in candidates[:4]:
        broken.look(logits)
    resumed.load_state_dict(broken.state_dict())
    for logits in candidates[4:]:
        resumed.look(logits)
    assert (resumed.best, resumed.cost, resumed.seen) == (whole.best, whole.cost, whole.seen)
    assert np.array_equal(resumed.honest, whole.honest)


def test_the_choice_does_not_flatter_itself_where_rows_come_in_groups():
    # scores without meaning, two identical rows per group, 20 candidates: every decision costs 0.5
    rng = np.random.default_rng(0)
    even = CostMatrix(fp=1, fn=1)
    honest, torn, flattering = [], [], []
    for _ in range(150):
        y = np.repeat(rng.integers(0, 2, 30), 2)
        groups = np.repeat(np.arange(30), 2)
        held, blind = HeldOut(np.arange(60), y, even, groups=groups), HeldOut(np.arange(60), y, even)
        for _ in range(20):
            logits = np.repeat(rng.normal(size=30), 2)
            held.look(logits)
            blind.look(logits)
        honest.append(even.mean(y, held.honest > 0))
        torn.append(even.mean(y, blind.honest > 0))
        flattering.append(held.cost)
    assert np.mean(honest) == pytest.approx(0.5, abs=0.02)
    assert np.mean(torn) < 0.45  # what groups are for
    assert np.mean(flattering) < 0.4


def test_scores_of_several_are_pooled():
    one, two = (HeldOut(rows, np.asarray([0, 1]), COSTS) for rows in (np.asarray([0, 1]), np.asarray([1, 3])))
    one.look(np.asarray([1.0, 2.0]))
    two.look(np.asarray([4.0, 5.0]))
    assert pooled(5, [one, two]) == pytest.approx([1.0, 3.0, np.nan, 5.0, np.nan], nan_ok=True)


def test_log_odds_and_probabilities_are_inverse():
    values = np.asarray([-800.0, -3.0, 0.0, 2.0, 800.0])
    assert log_odds(sigmoid(values))[1:4] == pytest.approx(values[1:4])
    assert sigmoid(values)[[0, 4]].tolist() == [0.0, 1.0]
    assert log_odds(np.asarray([0.0, 1.0])).tolist() == [-np.inf, np.inf]
    assert float(bayes_log_odds(CostMatrix(fp=1, fn=8))) == pytest.approx(np.log(1 / 8))
