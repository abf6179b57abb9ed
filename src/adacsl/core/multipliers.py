"""Multipliers of class scores that make the decision among K classes cheapest on labelled rows.

One multiplier at a time, exactly: as it grows, a row's decision walks along the lower envelope of one line for each
action. Where the lines meet, the decision changes and with it the cost: one sort and prefix sums give the cost of all
positions at once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from adacsl.core.arrays import (
    Array,
    as_array,
    as_classes,
    as_column,
    as_host,
    as_probabilities,
    as_weights,
    count_true,
    move,
    widest,
)
from adacsl.core.costs import CostMatrix
from adacsl.core.cuts import rising_order, sums_before
from adacsl.core.prices import check_samples, price_like
from adacsl.core.thresholds import TIE_TOLERANCE, check_caution

LIMITS = (1e-30, 1e30)
"""Where a decision changes beyond these multipliers only, it never changes."""

WIDTH = 1e-12
"""Intervals narrower than this (relative) are none: rounding has torn apart what is one point."""

EDGE = 1e-10
"""How far (relative) a multiplier keeps from where a decision changes: rounding must not carry one across."""

MOST_SWEEPS = 100
"""Each sweep makes the decisions cheaper, so there is an end; this is a limit for the time it takes to get there."""


class Multipliers(NamedTuple):
    """Multipliers of the K classes, and what deciding with them costs in total.

    ``values`` have a geometric mean of 1. ``start_cost`` is the cost with all of them 1, ``sweeps`` tells how often
    all classes were looked at.
    """

    values: np.ndarray[Any, np.dtype[np.float64]]
    cost: float
    start_cost: float
    sweeps: int


def find_multipliers(
    probabilities: Array,
    labels: Array,
    costs: CostMatrix,
    *,
    weights: Array | None = None,
    start: Array | None = None,
    caution: float = 0.0,
    sample_weight: Array | None = None,
) -> Multipliers:
    r"""Return the multipliers of the classes that make deciding cheapest, one class after the other.

    A row is decided by

    .. math:: \arg\min_i \sum_j \frac{C(i, j)}{w_j} \mu_j q_j

    Each :math:`\mu_j` in turn moves to its cheapest position (the nearest, on a log scale, of several), given all
    others, as long as that makes the decisions cheaper; the result cannot be improved by changing one multiplier. For
    two classes this is the cheapest threshold. All multipliers at once are an NP-hard problem.

    Parameters
    ----------
    probabilities : array of shape (n, K)
        Scores of the classes, on any device; for two classes also (n,).
    labels : array of shape (n,)
        Class numbers.
    costs : CostMatrix
        Class-wide or of each row; it may have more actions than classes.
    weights : array of shape (K,), optional
        The w the scores were trained with; default all 1.
    start : array of shape (K,), optional
        Where to begin; default all 1.
    caution : float, default 0
        A multiplier moves only as far as the rows prove: to the nearest position that costs at most this many standard
        errors more than the cheapest. 0 believes every row.
    sample_weight : array of shape (n,), optional
        How much each row counts.

    Examples
    --------
    >>> costs = CostMatrix.from_array([[0, 1, 4], [1, 0, 4], [1, 1, 0]], rows="predicted")
    >>> scores = np.asarray([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.4, 0.3, 0.3], [0.2, 0.3, 0.5]])
    >>> found = find_multipliers(scores, [0, 1, 0, 2], costs)
    >>> found.start_cost, found.cost
    (1.0, 0.0)
    """
    task = _Task.of(probabilities, labels, costs, weights, sample_weight)
    k, caution = costs.n_classes, check_caution(caution)
    ones = np.ones(k)
    values = ones if start is None else _as_factors(start, k, "start")
    start_cost = task.cost(ones)
    cost, sweeps, unchanged, j = task.cost(values), 0, 0, 0
    while unchanged < k and sweeps < MOST_SWEEPS:
        place = task.cheapest_place(values, j, cost, caution)
        moved = values.copy()
        moved[j] = place
        found = cost if place == values[j] else task.cost(moved)
        unchanged += 1
        if found < cost - TIE_TOLERANCE * abs(cost):
            # nothing else is cheaper along this class: only the others have to be looked at again
            values, cost, unchanged = moved, found, 1
        j = (j + 1) % k
        sweeps += j == 0
    if not np.array_equal(values, ones):
        values = np.exp(np.log(values) - np.log(values).mean())
        cost = task.cost(values)
    if cost > start_cost:  # a start that was worse than none
        values, cost = ones, start_cost
    return Multipliers(values, cost + task.base, start_cost + task.base, sweeps)


class _Task(NamedTuple):
    """Checked input; costs count from the cheapest action of each class, so that none is negative."""

    scores: Array  # K x n
    labels: Array
    prices: Array  # A x K, or A x K x n
    stakes: Array  # prices over w: what decides
    weight: Array | None
    base: float  # what the cheapest actions cost

    @classmethod
    def of(
        cls, probabilities: Array, labels: Array, costs: CostMatrix, weights: Array | None, counts: Array | None
    ) -> _Task:
        if not isinstance(costs, CostMatrix):
            raise TypeError(f"costs must be a CostMatrix, got {costs!r}")
        scores = as_probabilities(probabilities, costs.n_classes)
        check_samples(costs.n_instances, scores.shape[0])
        classes = as_column(as_classes(labels, costs.n_classes, "labels"), scores, "labels")
        xp = array_namespace(scores)
        wide = widest(scores)
        wide = xp.stack((1.0 - wide, wide)) if wide.ndim == 1 else xp.asarray(wide.T, copy=True)
        prices = _prices(costs, wide)
        least = xp.min(prices, axis=0, keepdims=True)
        factors = np.ones(costs.n_classes) if weights is None else _as_factors(weights, costs.n_classes, "weights")
        shape = (1, -1) if prices.ndim == 2 else (1, -1, 1)
        stakes = (prices - least) / xp.reshape(move(factors, wide), shape)
        task = cls(wide, classes, least, stakes, as_weights(counts, scores), 0.0)
        base = task._sum(task._paid(xp.zeros_like(classes)))
        return task._replace(prices=prices - least, base=base)

    def cost(self, values: Any) -> float:
        """Return what deciding with these multipliers costs."""
        xp = array_namespace(self.scores)
        return self._sum(self._paid(xp.argmin(self._expected(values), axis=0)))

    def _expected(self, values: Any) -> Array:
        """Return what each action is expected to cost, A x n."""
        xp = array_namespace(self.scores)
        factors = move(np.asarray(values, dtype=np.float64), self.scores)
        if self.stakes.ndim == 2:
            return (self.stakes * factors) @ self.scores
        return xp.sum(self.stakes * (self.scores * factors[:, None]), axis=1)

    def _paid(self, actions: Array) -> Array:
        """Return what an action has cost each row."""
        xp = array_namespace(self.scores)
        n, cells = self.labels.shape[0], actions * self.prices.shape[1] + self.labels
        if self.prices.ndim == 3:
            cells = cells * n + xp.arange(n, device=device(cells))
        return xp.take(xp.reshape(self.prices, (-1,)), cells)

    def _sum(self, paid: Array) -> float:
        return float(array_namespace(paid).sum(paid if self.weight is None else paid * self.weight))

    def cheapest_place(self, values: Any, j: int, cost: float, caution: float) -> float:
        """Return where multiplier j makes the decisions cheapest: where it is unless that is cheaper."""
        places, changes, base = self._walk(values, j)
        if places.shape[0] == 0:
            return float(values[j])
        xp = array_namespace(places)
        order = rising_order(places)
        places, changes = xp.take(places, order), xp.take(changes, order)
        totals = base + sums_before(changes)
        ends = xp.asarray([LIMITS[0], LIMITS[1]], dtype=places.dtype, device=device(places))
        low, high = xp.concat((ends[:1], places)), xp.concat((places, ends[1:]))
        totals = xp.where(high > low * (1.0 + WIDTH), totals, xp.inf)
        least = float(xp.min(totals))
        if not least < cost - TIE_TOLERANCE * cost:
            return float(values[j])
        fair = xp.nonzero(totals <= least + TIE_TOLERANCE * cost)[0]
        own = count_true(places <= float(values[j]))
        if caution:
            fair = _not_proven_dearer(totals, sums_before(changes * changes), fair, own, cost, caution)
        return _nearest_place(xp.take(low, fair), xp.take(high, fair), float(values[j]))

    def _rows(self, index: Array) -> _Task:
        """Return the task of some rows."""
        xp = array_namespace(self.scores)
        weight = None if self.weight is None else xp.take(self.weight, index)
        prices, stakes = (
            cells if cells.ndim == 2 else xp.take(cells, index, axis=2) for cells in (self.prices, self.stakes)
        )
        return _Task(xp.take(self.scores, index, axis=1), xp.take(self.labels, index), prices, stakes, weight, 0.0)

    def _walk(self, values: Any, j: int) -> tuple[Array, Array, float]:
        """Return where along multiplier j decisions change, by how much the cost does, and the cost near 0."""
        xp = array_namespace(self.scores)
        score = self.scores[j, :]
        if count_true(score == 0.0):  # such a row's decision does not change
            places, changes, base = self._rows(xp.nonzero(score > 0.0)[0])._walk(values, j)
            return places, changes, base + self._rows(xp.nonzero(score == 0.0)[0]).cost(values)
        order, enter, leave = self._envelope(values, j)
        places, changes, base, paid = [], [], xp.zeros_like(score), xp.zeros_like(score)
        for line in range(enter.shape[0]):
            price = self._paid(order[line, :])
            if self.weight is not None:
                price = price * self.weight
            place, stays = enter[line, :] / score, enter[line, :] < leave[line, :]
            early = stays & (place <= LIMITS[0])
            base = xp.where(early, price, base)
            later = stays & ~early & (place < LIMITS[1]) & (price != paid)
            places.append(place[later])
            changes.append((price - paid)[later])
            paid = xp.where(stays, price, paid)
        return xp.concat(places), xp.concat(changes), float(xp.sum(base))

    def _envelope(self, values: Any, j: int) -> tuple[Array, Array, Array]:
        """Return the actions in the order of falling slope, and between which mu_j q_j each is a row's cheapest."""
        xp = array_namespace(self.scores)
        others = np.array(values, dtype=np.float64)
        others[j] = 0.0
        fixed, slopes = self._expected(others), self.stakes[:, j, ...]
        order = xp.argsort(slopes, axis=0, descending=True, stable=True)
        if slopes.ndim == 1:
            fixed, slopes = xp.take(fixed, order, axis=0), xp.take(slopes, order)[:, None]
            order = xp.broadcast_to(order[:, None], fixed.shape)
        else:
            slopes, fixed = (xp.take_along_axis(lines, order, axis=0) for lines in (slopes, fixed))
        enter, leave = xp.zeros_like(fixed), xp.full_like(fixed, xp.inf)
        for line in range(1, fixed.shape[0]):
            above = fixed[line, :] - fixed[:line, :]
            fall = slopes[:line, :] - slopes[line, :]
            meet = xp.where(above >= 0.0, xp.inf, -xp.inf)  # parallel lines: the earlier one of two that are the same
            meet = xp.where(fall > 0.0, above / xp.where(fall > 0.0, fall, 1.0), meet)
            enter[line, :] = xp.maximum(enter[line, :], xp.max(meet, axis=0))
            leave[:line, :] = xp.minimum(leave[:line, :], meet)
        return order, enter, leave


def _not_proven_dearer(totals: Array, squares: Array, cheapest: Array, own: int, cost: float, caution: float) -> Array:
    """Return the intervals from the nearest cheapest one towards ``own`` that may be as cheap, for all the rows tell.

    The standard error is the root of the sum of the squared changes in between.
    """
    xp = array_namespace(totals)
    best = int(cheapest[int(xp.argmin(xp.abs(cheapest - own)))])
    low, high = min(best, own), max(best, own)
    excess = totals[low : high + 1] - totals[best]
    error = xp.abs(squares[low : high + 1] - squares[best]) ** 0.5
    return low + xp.nonzero((excess <= caution * error) | (excess <= TIE_TOLERANCE * cost))[0]


def _nearest_place(low: Array, high: Array, goal: float) -> float:
    """Return the point of rising intervals that is nearest ``goal`` on a log scale, a little inside its interval."""
    below = count_true(high <= goal)
    if below == low.shape[0] or (below and goal / float(high[below - 1]) <= float(low[below]) / goal):
        below -= 1
    start, end = (math.log(float(bound[below])) for bound in (low, high))
    margin = min(EDGE, (end - start) / 2.0)
    if start + margin <= math.log(goal) <= end - margin:
        return goal
    return math.exp(start + margin if math.log(goal) < start + margin else end - margin)


def _prices(costs: CostMatrix, like: Array) -> Array:
    """Return the prices as an array, A x K or A x K x n, where ``like`` lives."""
    xp = array_namespace(like)
    cells = costs._cells
    if costs.n_instances is None:
        return move(np.asarray(cells, dtype=np.float64), like)
    ones = xp.ones_like(like[0, :])
    return xp.stack([xp.stack([price_like(cell, ones) * ones for cell in row]) for row in cells])


def _as_factors(values: Array, k: int, name: str) -> Any:
    """Return K positive numbers on the host."""
    array = np.asarray(as_host(as_array(values, name)), dtype=np.float64)
    if array.shape != (k,) or not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"{name} must be {k} positive numbers, one for each class, got {values!r}")
    return array
