"""Rows of class scores, and where their cheapest action changes as one class is multiplied.

The expected cost of each action is a line in the multiplier of one class: a row's decision walks along the lower
envelope of these lines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array

from adacsl.core.arrays import (
    Array,
    as_array,
    as_classes,
    as_column,
    as_host,
    as_probabilities,
    as_weights,
    count_true,
    default_float,
    move,
    widest,
)
from adacsl.core.costs import CostMatrix
from adacsl.core.prices import check_samples, price_like

ROWS_AT_ONCE = 2**13
"""On a CPU: what belongs to so many rows stays in its cache."""


class Changes(NamedTuple):
    """Where along one multiplier the decisions change (in no order), by how much the cost does, and the cost before."""

    places: Array
    changes: Array
    base: float


class Rows(NamedTuple):
    """Checked rows. Costs count from the cheapest action, so that none is negative."""

    scores: Array  # K x n
    paid: Array  # A x n: what each action has cost a row, times its weight
    stakes: Array  # what decides, prices over w: A x K, or A x K x n
    xp: Any  # their array library

    @classmethod
    def of(
        cls, probabilities: Array, labels: Array, costs: CostMatrix, weights: Array | None, counts: Array | None
    ) -> tuple[Rows, float]:
        """Check everything; return the rows and what their cheapest actions cost. On a CPU all is numpy from here."""
        if not isinstance(costs, CostMatrix):
            raise TypeError(f"costs must be a CostMatrix, got {costs!r}")
        k = costs.n_classes
        given = as_probabilities(probabilities, k)
        check_samples(costs.n_instances, given.shape[0])
        classes = as_column(as_classes(labels, k, "labels"), given, "labels")
        weight = as_weights(counts, given)
        if str(device(given)) == "cpu":
            given, classes, weight = as_host(given), as_host(classes), None if weight is None else as_host(weight)
        xp = array_namespace(given)
        kind = default_float(xp, given)
        columns = (1.0 - widest(given), given) if given.ndim == 1 else [given[:, j] for j in range(k)]
        scores = xp.stack([xp.astype(column, kind) for column in columns])
        prices = _prices(costs, scores)
        least = xp.min(prices, axis=0)
        factors = move(np.ones(k) if weights is None else as_factors(weights, k, "weights"), scores)
        stakes = (prices - least) / (factors if prices.ndim == 2 else factors[:, None])
        base, paid = (_of_class(cells, classes, weight) for cells in (least[None, ...], prices - least))
        return cls(scores, paid, stakes, xp), float(xp.sum(base))

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.scores.shape[1])

    def part(self, index: slice) -> Rows:
        """Return some rows, without a copy."""
        stakes = self.stakes[..., index] if self._own_costs else self.stakes
        return Rows(self.scores[:, index], self.paid[:, index], stakes, self.xp)

    def take(self, mask: Array) -> Rows:
        """Return the rows of a mask."""
        return self._at(self.xp.nonzero(mask)[0])

    def _at(self, index: Array) -> Rows:
        xp = self.xp
        stakes = xp.take(self.stakes, index, axis=2) if self._own_costs else self.stakes
        return Rows(xp.take(self.scores, index, axis=1), xp.take(self.paid, index, axis=1), stakes, xp)

    def cost(self, values: Any) -> float:
        """Return what deciding with these multipliers costs."""
        return sum(float(rows.xp.sum(rows._paid(values))) for rows in self._pieces())

    def _paid(self, values: Any) -> Array:
        expected, xp = self.expected(values), self.xp
        least, paid = expected[0, :], self.paid[0, :]
        for action in range(1, expected.shape[0]):  # numpy takes several times longer for an argmin
            paid = xp.where(expected[action, :] < least, self.paid[action, :], paid)
            least = xp.minimum(expected[action, :], least)
        return paid

    def near(self, values: Any, ratio: float) -> Array:
        """Return a mask of the rows that may be decided otherwise if multipliers change by up to this ratio."""
        return self.xp.concat([rows._unsure(values, ratio) for rows in self._pieces()])

    def _unsure(self, values: Any, ratio: float) -> Array:
        xp, expected = self.xp, self.expected(values)
        least = xp.min(expected, axis=0)
        unsure = xp.zeros(self.n, dtype=xp.bool, device=device(least))
        for action in range(expected.shape[0]):
            index = xp.nonzero(expected[action, :] == least)[0]
            rows = self._at(index)
            # by how much more each action costs at least: what speaks for it grows, what speaks against it shrinks
            dearer = rows.stakes - rows.stakes[action, ...]
            margin = rows._replace(stakes=xp.where(dearer > 0.0, dearer / ratio, dearer * ratio)).expected(values)
            margin[action, :] = xp.inf
            unsure[index] = xp.min(margin, axis=0) <= 0.0
        return unsure

    def expected(self, values: Any) -> Array:
        """Return what each action is expected to cost, A x n."""
        xp = self.xp
        factors = move(np.asarray(values, dtype=np.float64), self.scores)
        if not self._own_costs:
            return (self.stakes * factors) @ self.scores
        return xp.sum(self.stakes * (self.scores * factors[:, None]), axis=1)

    def along(self, values: Any, j: int, limits: tuple[float, float]) -> Changes:
        """Return where the decisions change as multiplier j goes through the limits."""
        xp = self.xp
        found = [rows._changes(values, j, limits) for rows in self._pieces()]
        places, changes = (xp.concat([part[k] for part in found]) for k in (0, 1))
        return Changes(places, changes, sum(part.base for part in found))

    @property
    def _own_costs(self) -> bool:
        return bool(self.stakes.ndim == 3)

    def _pieces(self) -> list[Rows]:
        size = ROWS_AT_ONCE if is_numpy_array(self.scores) else self.n
        return [self.part(slice(k, k + size)) for k in range(0, self.n, size)]

    def _changes(self, values: Any, j: int, limits: tuple[float, float]) -> Changes:
        xp = self.xp
        score = self.scores[j, :]
        if count_true(score == 0.0):  # such rows are decided alike everywhere
            still = self.take(score == 0.0).cost(values)
            places, changes, base = self.take(score > 0.0)._changes(values, j, limits)
            return Changes(places, changes, base + still)
        paid, enter, leave = self._envelope(values, j)
        stays, early = enter < leave, enter <= limits[0] * score
        changes, base, now = xp.zeros_like(paid), paid[0, :], paid[0, :]
        for line in range(1, paid.shape[0]):
            changes[line, :] = paid[line, :] - now
            now = xp.where(stays[line, :], paid[line, :], now)
            base = xp.where(stays[line, :] & early[line, :], paid[line, :], base)
        within = stays & ~early & (enter < limits[1] * score) & (changes != 0.0)
        here = xp.nonzero(xp.reshape(within, (-1,)))[0]  # much faster than taking by a mask
        places = xp.take(xp.reshape(enter, (-1,)), here) / xp.take(score, here % self.n)
        return Changes(places, xp.take(xp.reshape(changes, (-1,)), here), float(xp.sum(base)))

    def _envelope(self, values: Any, j: int) -> tuple[Array, Array, Array]:
        """Return the lines in the order of falling slope: their cost, and the mu_j q_j between which each is lowest."""
        xp = self.xp
        others = np.array(values, dtype=np.float64)
        others[j] = 0.0
        fixed, paid, slopes = self.expected(others), self.paid, self.stakes[:, j, ...]
        order = xp.argsort(slopes, axis=0, descending=True, stable=True)
        if self._own_costs:
            fixed, paid, slopes = (xp.take_along_axis(lines, order, axis=0) for lines in (fixed, paid, slopes))
        else:
            fixed, paid, slopes = (xp.take(lines, order, axis=0) for lines in (fixed, paid, slopes[:, None]))
        enter, leave = xp.zeros_like(fixed), xp.full_like(fixed, xp.inf)
        for line in range(1, fixed.shape[0]):
            fall = slopes[:line, :] - slopes[line, :]
            above = fixed[line, :] - fixed[:line, :]
            meet = above * (1.0 / xp.where(fall > 0.0, fall, 1.0))
            if count_true(fall == 0.0):
                # of parallel lines the lower one counts, the earlier one of two that are the same
                meet = xp.where(fall > 0.0, meet, xp.where(above >= 0.0, xp.inf, -xp.inf))
            enter[line, :] = xp.maximum(enter[line, :], xp.max(meet, axis=0))
            leave[:line, :] = xp.minimum(leave[:line, :], meet)
        return paid, enter, leave


def _pick(table: Array, line: Array) -> Array:
    """Return one entry of each column of an A x n table."""
    xp = array_namespace(table)
    n = table.shape[1]
    return xp.take(xp.reshape(table, (-1,)), line * n + xp.arange(n, device=device(line)))


def _of_class(prices: Array, classes: Array, weight: Array | None) -> Array:
    """Return the prices A x n of each row's class out of A x K or A x K x n, times its weight."""
    xp = array_namespace(prices)
    if prices.ndim == 2:
        own = xp.take(prices, classes, axis=1)
    else:
        own = xp.stack([_pick(prices[i, :, :], classes) for i in range(prices.shape[0])])
    return own if weight is None else own * weight


def _prices(costs: CostMatrix, like: Array) -> Array:
    """Return the prices as an array, A x K or A x K x n, where ``like`` lives."""
    xp = array_namespace(like)
    if costs.n_instances is None:
        return move(np.asarray(costs._cells, dtype=np.float64), like)
    ones = xp.ones_like(like[0, :])
    return xp.stack([xp.stack([price_like(cell, ones) * ones for cell in row]) for row in costs._cells])


def as_factors(values: Array, k: int, name: str) -> Any:
    """Return K positive numbers on the host."""
    array = np.asarray(as_host(as_array(values, name)), dtype=np.float64)
    if array.shape != (k,) or not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"{name} must be {k} positive numbers, one for each class, got {values!r}")
    return array
