"""An action of which there are only so many: who gets it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.core import arrays
from adacsl.core.arrays import Array


class Limited(NamedTuple):
    """Decisions under a limit, and how much it pinches."""

    actions: NDArray[np.int64]
    """The action of each row."""

    used: int
    """How many rows got the limited action."""

    wanted: int
    """For how many it would have been the cheapest."""

    margin: float
    """What one more place would have saved: the largest gain that went without; 0 where all were served."""

    forgone: float
    """What all rows that went without would have saved."""

    ties: int
    """How many of them gained as much as one that was served: row order decided."""

    groups: int
    """How many groups (days) there are; 1 without groups."""

    short: int
    """In how many of them more rows wanted the action than there were places."""


def limit_action(expected: Array, action: int, capacity: int, groups: Any = None) -> Limited:
    """Give an action to at most ``capacity`` rows (of each group): to those that gain most by it.

    A row's gain is what it is expected to cost under the best other action, less what under this one. Rows without a
    gain never get it; those that go without get the best other action. Of equal gains the first rows are served.

    Parameters
    ----------
    expected : array of shape (n, A)
        What each row is expected to cost under each action: :meth:`CostMatrix.expected_of_each`.
    action : int
        The number of the limited action.
    capacity : int
        How many rows may get it.
    groups : array of shape (n,), optional
        The day, the branch, the team of each row: each has this capacity.

    Examples
    --------
    >>> expected = np.asarray([[0.0, 1.0], [3.0, 1.0], [9.0, 1.0], [5.0, 1.0]])
    >>> limited = limit_action(expected, action=1, capacity=2)
    >>> limited.actions.tolist(), limited.wanted, limited.margin
    ([0, 0, 1, 1], 3, 2.0)
    """
    costs = _checked(expected, action)
    arrays.check_whole("capacity", capacity, least=0)
    n = len(costs)
    gains, others = _gains(costs, action)
    which, n_groups = _numbered(groups, n)
    wanted = np.flatnonzero(gains > 0)
    order = wanted[np.lexsort((-gains[wanted], which[wanted]))]  # stable: rows of equal gain stay in order
    counts = np.bincount(which[order], minlength=n_groups)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    served, left = order[place < capacity], order[place >= capacity]
    last = np.full(n_groups, np.inf)
    np.minimum.at(last, which[served], gains[served])
    actions = others
    actions[served] = action
    return Limited(
        actions=actions,
        used=len(served),
        wanted=len(order),
        margin=float(gains[left].max(initial=0.0)),
        forgone=float(gains[left].sum()),
        # sums of equal costs may differ by their rounding
        ties=int((gains[left] >= last[which[left]] * (1 - 1e-12)).sum()),
        groups=n_groups,
        short=int((counts > capacity).sum()),
    )


def _checked(expected: Array, action: int) -> NDArray[np.float64]:
    costs = np.asarray(arrays.as_host(arrays.as_array(expected, "expected")), dtype=np.float64)
    if costs.ndim != 2 or costs.shape[1] < 2 or not len(costs):
        raise ValueError(f"expected costs must be n rows of at least two actions, got shape {costs.shape}")
    arrays.check_finite(costs, "expected")
    if not 0 <= action < costs.shape[1]:
        raise ValueError(f"action must be a number from 0 to {costs.shape[1] - 1}, got {action!r}")
    return costs


def _gains(costs: NDArray[np.float64], action: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what each row gains by the action, and the best other one; what is only rounding is no gain."""
    slack = 8 * np.finfo(np.float64).eps * np.abs(costs).max(axis=1)
    others = costs.copy()
    others[:, action] = np.inf
    best = others.min(axis=1)
    gains = best - costs[:, action]
    gains[gains <= slack] = 0.0
    return gains, np.argmax(others <= (best + slack)[:, None], axis=1).astype(np.int64)


def _numbered(groups: Any, n: int) -> tuple[NDArray[np.int64], int]:
    if groups is None:
        return np.zeros(n, dtype=np.int64), 1
    found = np.asarray(groups)
    if found.shape != (n,):
        raise ValueError(f"groups must have one entry for each of {n} rows, got shape {found.shape}")
    names, which = np.unique(found, return_inverse=True)
    return which.astype(np.int64), len(names)


__all__ = ["Limited", "limit_action"]
