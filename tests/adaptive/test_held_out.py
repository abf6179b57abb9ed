"""Held-out samples: halves, the choice among candidates, selection-corrected scores, tuned thresholds."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.adaptive.held_out import HeldOut, halves, pooled, tune_cut
from adacsl.base.scores import log_odds, sigmoid
from adacsl.costs.instance import bayes_log_odds

COSTS = CostMatrix(fp=1, fn=6)
COST = st.sampled_from([1e-9, 1e-3, 0.5, 1.0, 7.0, 1e4, 1e9])
DECIDE = st.sampled_from(["bayes", "tuned", "calibrated", "unweighted", "half", "raw"])


@st.composite
def cases(draw, most=14):
    """Labels, some candidates' log-odds (few distinct values: ties), groups or none, whole weights or none."""
    n = draw(st.integers(1, most))
    labels = np.asarray(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    values = st.sampled_from([-40.0, -3.0, -1.5, -0.25, 0.25, 0.5, 1.5, 4.0, 30.0])
    rounds = draw(st.integers(1, 4))
    logits = np.asarray(
        [draw(st.lists(values, min_size=n, max_size=n)) for _ in range(rounds)], dtype=np.float64
    ).reshape(rounds, n)
    groups = draw(st.none() | st.lists(st.integers(0, 3), min_size=n, max_size=n))
    weight = draw(st.none() | st.lists(st.integers(1, 3), min_size=n, max_size=n))
    return labels, logits, None if groups is None else np.asarray(groups), weight


def paid(labels, decided, fp, fn, weight):
    """Return the mean cost, counted sample by sample."""
    total = mass = 0.0
    for label, positive, cost_fp, cost_fn, times in zip(labels, decided, fp, fn, weight, strict=True):
        total += times * (cost_fp if positive and not label else cost_fn if label and not positive else 0.0)
        mass += times
    return total / mass if mass else 0.0


def least_cost(logits, labels, fp, fn, weight, decide):
    """Return the mean cost of a candidate on some samples; tuned: the least of all factors of the odds."""
    cuts = np.zeros(len(labels)) if decide in ("half", "raw") else np.log(fp) - np.log(fn)
    if decide != "tuned":
        return paid(labels, logits > cuts, fp, fn, weight)
    moves = [-1e3, *(logits - cuts)]
    return min(paid(labels, logits - cuts > move, fp, fn, weight) for move in moves)


# halves


@given(cases())
def test_halves_split_no_group_and_hold_both_classes(case):
    labels, _, groups, _ = case
    second = halves(labels, groups)
    if groups is None:
        for label in (0, 1):
            own = second[labels == label]
            assert 0 <= (~own).sum() - own.sum() <= 1
        return
    sides = {group: set(second[groups == group]) for group in set(groups.tolist())}
    assert all(len(side) == 1 for side in sides.values())
    count = Counter(next(iter(side)) for side in sides.values())
    assert abs(count[True] - count[False]) <= 1  # no half is empty where there are two groups
    ill = Counter(next(iter(sides[group])) for group in sides if labels[groups == group].any())
    assert abs(ill[True] - ill[False]) <= 1


def test_halves_do_not_depend_on_the_names_of_groups():
    labels, groups = np.tile([0, 1, 0], 10), np.repeat(np.arange(10), 3)
    names = np.asarray([f"g{i}" for i in range(10)])[groups]
    np.testing.assert_array_equal(halves(labels, groups), halves(labels, names))


# the choice


@given(cases(), DECIDE, COST, COST, st.booleans())
def test_the_candidate_of_least_cost_is_selected_and_corrected_scores_come_from_the_other_half(
    case, decide, fp, fn, last
):
    labels, candidates, groups, weight = case
    n = len(labels)
    each = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    held = HeldOut(
        np.arange(n), labels, CostMatrix(fp=fp, fn=fn), decide=decide, weight=weight, groups=groups, last=last
    )
    second, fixed = halves(labels, groups), (np.full(n, fp), np.full(n, fn))
    costs, by_half = [], []
    for logits in candidates:
        held.look(logits)
        costs.append(least_cost(logits, labels, *fixed, each, decide))
        assert held.latest[0] == pytest.approx(costs[-1], rel=1e-9, abs=1e-12 * max(fp, fn))
        by_half.append(
            [
                least_cost(logits[half], labels[half], fixed[0][half], fixed[1][half], each[half], decide)
                for half in (~second, second)
            ]
        )
    assert held.seen == len(candidates)
    np.testing.assert_array_equal(held.logits, candidates[held.best])
    if last:
        assert held.best == len(candidates) - 1
        if decide != "tuned":
            np.testing.assert_array_equal(held.corrected, candidates[-1])
        return
    close = 1e-9 * max(fp, fn)
    assert costs[held.best] <= min(costs) + close
    assert held.cost == pytest.approx(min(costs), rel=1e-9, abs=close)
    if decide == "tuned":
        return  # moved by the other half's threshold as well: see the estimate of noise
    for half, others in ((~second, 1), (second, 0)):
        least = min(row[others] for row in by_half)
        allowed = [i for i, row in enumerate(by_half) if row[others] <= least + close]
        assert any(np.array_equal(held.corrected[half], candidates[i][half]) for i in allowed)


@given(cases(), DECIDE, st.data())
def test_weight_zero_is_a_missing_sample_and_a_whole_weight_a_repeated_one(case, decide, data):
    labels, candidates, _, _ = case
    n = len(labels)
    times = np.asarray(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    assume(times.sum() > 0)
    groups = np.arange(n)  # a sample and its repetitions stay together, and the halves of the others do not change
    rows = np.repeat(np.arange(n), times)
    weighted = HeldOut(np.arange(n), labels, COSTS, decide=decide, weight=times, groups=groups)
    repeated = HeldOut(rows, labels[rows], COSTS, decide=decide, groups=groups[rows])
    for logits in candidates:
        weighted.look(logits)
        repeated.look(logits[rows])
        assert weighted.latest[0] == pytest.approx(repeated.latest[0])
    assert weighted.cost == pytest.approx(repeated.cost)
    if (times > 0).all():
        kept = weighted.logits[rows], weighted.corrected[rows]
        np.testing.assert_allclose(repeated.logits, kept[0])
        if decide != "tuned":
            np.testing.assert_allclose(repeated.corrected, kept[1])


@given(cases(), DECIDE)
def test_scaling_all_costs_and_stopping_on_the_way_change_nothing(case, decide):
    labels, candidates, groups, weight = case
    about = {"decide": decide, "weight": weight, "groups": groups}
    one, scaled, resumed = (
        HeldOut(np.arange(len(labels)), labels, CostMatrix(fp=f, fn=6 * f), **about) for f in (1.0, 1024.0, 1.0)
    )
    for logits in candidates:
        assert one.look(logits) == scaled.look(logits)
        again = HeldOut(np.arange(len(labels)), labels, CostMatrix(fp=1.0, fn=6.0), **about)
        again.load_state_dict(resumed.state_dict() if resumed.seen else again.state_dict())
        again.look(logits)
        resumed = again
    assert one.best == scaled.best == resumed.best
    np.testing.assert_allclose(one.corrected, scaled.corrected, rtol=1e-12)
    np.testing.assert_array_equal(one.corrected, resumed.corrected)


def test_samples_with_costs_are_measured_at_their_own_thresholds():
    rng = np.random.default_rng(0)
    labels, logits, fn = rng.integers(0, 2, 50), rng.normal(size=(5, 50)), rng.uniform(0.1, 9.0, 50)
    for decide, candidate in itertools.product(("bayes", "tuned", "half"), logits):
        held = HeldOut(np.arange(50), labels, CostMatrix(fp=np.ones(50), fn=fn), decide=decide)
        held.look(candidate)
        assert held.latest[0] == pytest.approx(least_cost(candidate, labels, np.ones(50), fn, np.ones(50), decide))


# several folds


def test_pooled_samples_are_means_over_their_folds():
    first = HeldOut(np.asarray([4, 0]), np.asarray([1, 0]), COSTS, last=True)
    second = HeldOut(np.asarray([2, 4]), np.asarray([0, 1]), COSTS, last=True)
    first.look(np.asarray([1.0, -2.0]))
    second.look(np.asarray([0.5, 3.0]))
    for corrected in (True, False):
        np.testing.assert_array_equal(pooled(5, [first, second], corrected=corrected), [-2.0, np.nan, 0.5, np.nan, 2.0])


def fold_parts(y, candidates, folds, costs=COSTS, **about):
    """Return the held-out samples of each fold, with all candidates measured."""
    parts = []
    for rows in folds:
        own = {name: value[rows] for name, value in about.items()}
        parts.append(HeldOut(rows, y[rows], costs.rows(rows), decide="tuned", **own))
        for logits in candidates:
            parts[-1].look(logits[rows])
    return parts


def test_a_threshold_tuned_on_all_folds_is_estimated_at_its_true_cost():
    """Scores are the true probabilities, so the threshold's true cost is known: the estimate is close in the mean."""
    n, result, true, optimistic = 400, [], [], []
    fresh = np.random.default_rng(10**6).normal(-1.0, 1.5, 40_000)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        logits = rng.normal(-1.0, 1.5, n)
        y = (rng.random(n) < sigmoid(logits)).astype(int)
        parts = fold_parts(y, [logits], np.array_split(rng.permutation(n), 5))
        threshold = float(bayes_log_odds(COSTS)) + tune_cut(logits, y, COSTS, None)[1]
        result.append(COSTS.mean(y, (pooled(n, parts) > threshold).astype(int)))
        optimistic.append(COSTS.mean(y, (logits > threshold).astype(int)))
        p = sigmoid(fresh)
        true.append(np.mean(np.where(fresh > threshold, 1.0 - p, 6.0 * p)))
    assert np.mean(optimistic) < 0.98 * np.mean(true)
    assert np.mean(result) == pytest.approx(np.mean(true), rel=0.02)


@pytest.mark.parametrize("by_sample", [False, True])
def test_half_a_fold_moves_neither_its_own_scores_nor_its_threshold(by_sample):
    """However much half a fold counts, its decisions stay; those of the other samples need not."""
    n, rng = 60, np.random.default_rng(0)
    y, candidates, fn = rng.integers(0, 2, n), rng.normal(size=(4, n)), rng.uniform(1.0, 9.0, n)
    costs = CostMatrix(fp=np.ones(n), fn=fn) if by_sample else COSTS
    folds, weight = np.split(np.arange(n), 3), rng.integers(1, 4, n).astype(float)

    def decided(weight):
        parts = fold_parts(y, candidates, folds, costs, weight=weight)
        _, cut = tune_cut(pooled(n, parts, corrected=False), y, costs, weight)
        return pooled(n, parts, costs=costs) - bayes_log_odds(costs) > cut

    changed = 0
    for rows, second in itertools.product(folds, (False, True)):
        own = rows[halves(y[rows]) == second]
        heavier = weight.copy()
        heavier[own[:3]] *= 100.0
        before, after = decided(weight), decided(heavier)
        np.testing.assert_array_equal(before[own], after[own])
        changed += (before != after).sum()
    assert changed


# tuned thresholds


@given(cases(), COST, COST)
def test_a_tuned_threshold_is_optimal_despite_rounding(case, fp, fn):
    labels, (logits, *_), _, weight = case
    logits = np.clip(logits, -30.0, 30.0)
    n, costs = len(labels), CostMatrix(fp=fp, fn=fn)
    each = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    total, cut = tune_cut(logits, labels, costs, None if weight is None else each)
    best = least_cost(logits, labels, np.full(n, fp), np.full(n, fn), each, "tuned") * each.sum()
    assert total == pytest.approx(best, rel=1e-9, abs=1e-12 * max(fp, fn))
    place = cut + float(np.clip(bayes_log_odds(costs), -50.0, 50.0))
    for there in (place, place + 4e-7, place - 4e-7, float(log_odds(sigmoid(np.asarray(place))))):
        result = paid(labels, logits > there, np.full(n, fp), np.full(n, fn), each) * each.sum()
        assert result == pytest.approx(best, rel=1e-9, abs=1e-9 * max(fp, fn))


def test_log_odds_and_sigmoid_are_inverse_and_do_not_overflow():
    z = np.linspace(-700.0, 30.0, 500)
    np.testing.assert_allclose(log_odds(sigmoid(z)), z, atol=2e-3)
    assert sigmoid(np.asarray([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]
    assert log_odds(np.asarray([0.0, 1.0])).tolist() == [-np.inf, np.inf]
    assert float(bayes_log_odds(COSTS)) == pytest.approx(-np.log(6.0))


# the estimate of noise


@pytest.mark.parametrize("decide", ["bayes", "tuned"])
def test_noise_is_estimated_at_its_true_cost(decide):
    """Scores are noise, twenty candidates are tried, samples come in pairs: decisions cost 0.5 whatever is selected."""
    result, optimistic = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        groups, y = np.repeat(np.arange(100), 2), np.repeat(rng.integers(0, 2, 100), 2)
        held = HeldOut(np.arange(200), y, CostMatrix(fp=1, fn=1), decide=decide, groups=groups)
        for _ in range(20):
            held.look(np.repeat(rng.normal(size=100), 2))
        cut = 0.0 if decide == "bayes" else tune_cut(held.logits, y, CostMatrix(fp=1, fn=1), None)[1]
        result.append(np.mean((held.corrected > cut) != y))
        optimistic.append(held.cost)
    assert np.mean(result) == pytest.approx(0.5, abs=0.01)
    assert np.mean(optimistic) < 0.42


def made_up(n=40, candidates=8, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.4).astype(int)
    return y, rng.integers(1, 4, n).astype(float), rng.normal(size=(candidates, n))


@pytest.mark.parametrize("decide", ["bayes", "tuned"])
def test_a_saved_state_continues(decide):
    y, weight, candidates = made_up()
    whole, broken, resumed = (HeldOut(np.arange(60), y, COSTS, decide=decide, weight=weight) for _ in range(3))
    for logits in candidates:
        whole.look(logits)
    for logits in candidates[:4]:
        broken.look(logits)
    resumed.load_state_dict(broken.state_dict())
    for logits in candidates[4:]:
        resumed.look(logits)
    assert (resumed.best, resumed.cost, resumed.seen) == (whole.best, whole.cost, whole.seen)
    assert np.array_equal(resumed.corrected, whole.corrected)
