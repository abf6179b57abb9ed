"""A limited action: who gets it, against every way to give it away."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.decision.policy import limit_action


@st.composite
def cases(draw):
    n, n_actions = draw(st.integers(1, 7)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scale = draw(st.sampled_from([1e-9, 1.0, 1e9]))
    costs = rng.integers(0, 5, (n, n_actions)) * scale  # few values, so that many are equal
    groups = rng.integers(0, draw(st.integers(1, 3)), n) if draw(st.booleans()) else None
    return costs, draw(st.integers(0, n_actions - 1)), draw(st.integers(0, n)), groups


def lowest_by_trying_all(costs, action, capacity, groups):
    """The least total of all ways to decide that keep the limit."""
    best = np.inf
    for chosen in itertools.product(range(costs.shape[1]), repeat=len(costs)):
        taken = np.asarray(chosen) == action
        counts = np.bincount(groups, weights=taken) if groups is not None else [taken.sum()]
        if max(counts) <= capacity:
            best = min(best, sum(costs[row, one] for row, one in enumerate(chosen)))
    return best


@given(cases())
def test_no_allocation_costs_less(case):
    costs, action, capacity, groups = case
    limited = limit_action(costs, action, capacity, groups)
    total = costs[np.arange(len(costs)), limited.actions].sum()
    assert total == pytest.approx(lowest_by_trying_all(costs, action, capacity, groups), rel=1e-12)
    taken = limited.actions == action
    assert taken.sum() == limited.used
    for group in set([0] if groups is None else groups.tolist()):
        assert taken[slice(None) if groups is None else groups == group].sum() <= capacity


@given(cases())
def test_notes_on_shortage_equals_loops(case):
    costs, action, capacity, groups = case
    limited = limit_action(costs, action, capacity, groups)
    groups = np.zeros(len(costs), int) if groups is None else groups
    gains = np.asarray([min(np.delete(row, action)) - row[action] for row in costs])
    out = [r for r in range(len(costs)) if gains[r] > 0 and limited.actions[r] != action]
    served = [r for r in range(len(costs)) if limited.actions[r] == action]
    assert limited.wanted == (gains > 0).sum()
    assert limited.margin == max([gains[r] for r in out], default=0)
    assert limited.forgone == pytest.approx(sum(gains[r] for r in out))
    alike = [r for r in out if any(groups[s] == groups[r] and gains[s] == gains[r] for s in served)]
    assert limited.ties == len(alike)
    # the first of equals are served
    assert all(s < r for r in out for s in served if groups[s] == groups[r] and gains[s] == gains[r])
    assert limited.short == sum((gains[groups == g] > 0).sum() > capacity for g in set(groups.tolist()))
    assert limited.groups == len(set(groups.tolist()))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.5, 3.0, 1e9]))
def test_with_room_for_all_it_is_the_decision_of_lowest_cost(p, fn):
    costs = CostMatrix(fp=1, fn=fn).with_referral(0.2)
    each = costs.expected_of_each(np.asarray(p))
    for action in range(3):
        free = limit_action(each, action, len(p))
        np.testing.assert_allclose(
            np.take_along_axis(each, free.actions[:, None], 1)[:, 0], costs.expected(np.asarray(p)), rtol=1e-9
        )
        assert (free.margin, free.forgone, free.ties, free.short) == (0, 0, 0, 0)


def test_samples_of_the_largest_gain_are_served(library):
    costs = CostMatrix(fp=1, fn=np.asarray([2.0, 100.0, 2.0]))  # not the likeliest positives
    assert limit_action(costs.expected_of_each(np.asarray([0.9, 0.2, 0.8])), 1, 1).actions.tolist() == [0, 1, 0]
    days = np.asarray(["2026-01-02", "2026-01-01", "2026-01-02"], "datetime64[D]")
    each = library.asarray(np.asarray([[5.0, 1.0], [4.0, 1.0], [3.0, 1.0]]))
    assert limit_action(each, 1, 1).actions.tolist() == [1, 0, 0]
    assert limit_action(each, 1, 1, days).actions.tolist() == [1, 1, 0]
    assert limit_action(each, 1, 1, ["b", "a", "b"]).actions.tolist() == [1, 1, 0]
    n, rng = 300_000, np.random.default_rng(0)
    many = limit_action(rng.random((n, 3)), 2, 100, rng.integers(0, 365, n))
    assert (many.used, many.short) == (36_500, 365)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": -1}, "capacity must be a whole number of at least 0"),
        ({"capacity": 1.5}, "capacity must be a whole number"),
        ({"action": 2}, "from 0 to 1, got 2"),
        ({"groups": [1]}, "one entry for each of 2 rows"),
        ({"expected": np.ones(3)}, "at least two actions"),
        ({"expected": np.asarray([[1.0, np.nan]])}, "finite"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    given = {"expected": np.asarray([[5.0, 1.0], [4.0, 1.0]]), "action": 1, "capacity": 1, "groups": None} | change
    with pytest.raises(ValueError, match=message):
        limit_action(**given)
