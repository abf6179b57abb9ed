"""Rows of class scores, and where their cheapest action changes as one class is multiplied.

The expected cost of each action is a line in the multiplier of one class: a row's decision walks along the lower
envelope of these lines.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    default_float,
    move,
    widest,
)
from adacsl.core.costs import CostMatrix
from adacsl.core.prices import check_samples, price_like

ROWS_AT_ONCE = 2**16
"""On a CPU: what belongs to so many rows stays in its cache, and Python has little part in the time."""

FEW_LINES = 64
"""Up to so many lines, all pairs of them are looked at."""


class Rows(NamedTuple):
    """Checked rows. Costs count from the cheapest action, so that none is negative."""

    scores: Array  # K x n
    paid: Array  # A x n: what each action has cost a row, times its weight
    stakes: Array  # what decides, prices over w: A x K, or A x K x n
    xp: Any  # their array library
    wide: Any  # its widest float, for sums

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
        known = (
            prices if costs.deciding is costs else _prices(costs.deciding, scores)
        )  # what decides, before it is paid
        stakes = (known - xp.min(known, axis=0)) / (factors if known.ndim == 2 else factors[:, None])
        base, paid = (_of_class(cells, classes, weight) for cells in (least[None, ...], prices - least))
        return cls(scores, paid, stakes, xp, kind), float(xp.sum(base))

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.scores.shape[1])

    def narrow(self) -> Rows:
        """Return the rows in float32, which is enough to find the way."""
        scores, paid, stakes = (self.xp.astype(cells, self.xp.float32) for cells in self[:3])
        return Rows(scores, paid, stakes, self.xp, self.wide)

    def part(self, index: slice) -> Rows:
        """Return some rows, without a copy."""
        stakes = self.stakes[..., index] if self._own_costs else self.stakes
        return Rows(self.scores[:, index], self.paid[:, index], stakes, self.xp, self.wide)

    def take(self, mask: Array) -> Rows:
        """Return the rows of a mask."""
        return self._at(self.xp.nonzero(mask)[0])

    def every(self, step: int) -> Rows:
        """Return every so manieth row."""
        return self._at(self.xp.arange(0, self.n, step, device=device(self.scores)))

    def _at(self, index: Array) -> Rows:
        xp = self.xp
        stakes = xp.take(self.stakes, index, axis=2) if self._own_costs else self.stakes
        return Rows(xp.take(self.scores, index, axis=1), xp.take(self.paid, index, axis=1), stakes, xp, self.wide)

    def cost(self, values: Any) -> float:
        """Return what deciding with these multipliers costs."""
        return sum(rows._sum(rows._paid(values)) for rows in self._pieces())

    def _sum(self, paid: Array) -> float:
        return float(self.xp.sum(paid, dtype=self.wide))

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
            rows = self._replace(paid=self.paid[:0, :])._at(index)
            # by how much more each action costs at least: what speaks for it grows, what speaks against it shrinks
            dearer = rows.stakes - rows.stakes[action, ...]
            margin = rows._replace(stakes=xp.where(dearer > 0.0, dearer / ratio, dearer * ratio)).expected(values)
            margin[action, :] = xp.inf
            unsure[index] = xp.min(margin, axis=0) <= 0.0
        return unsure

    def expected(self, values: Any) -> Array:
        """Return what each action is expected to cost, A x n."""
        xp = self.xp
        factors = xp.astype(move(np.asarray(values, dtype=np.float64), self.scores), self.scores.dtype)
        if not self._own_costs:
            return (self.stakes * factors) @ self.scores
        return xp.sum(self.stakes * (self.scores * factors[:, None]), axis=1)

    def along(self, values: Any, j: int, limits: tuple[float, float]) -> tuple[Array, Array]:
        """Return where the decisions change as multiplier j goes through the limits, and by how much the cost does."""
        found = [part for rows in self._pieces() for part in rows._changes(values, j, limits)]
        empty = self.scores[j, :0]
        places, changes = (self.xp.concat([empty, *parts]) for parts in zip(*found, (empty, empty), strict=True))
        return places, changes

    @property
    def _own_costs(self) -> bool:
        return bool(self.stakes.ndim == 3)

    def _pieces(self) -> list[Rows]:
        size = ROWS_AT_ONCE if is_numpy_array(self.scores) else self.n
        return [self.part(slice(k, k + size)) for k in range(0, self.n, size)]

    def _changes(self, values: Any, j: int, limits: tuple[float, float]) -> Iterator[tuple[Array, Array]]:
        others = np.array(values, dtype=np.float64)
        others[j] = 0.0
        fixed, slopes, score = self.expected(others), self.stakes[:, j, ...], self.scores[j, :]
        span = _Span(score, limits[0] * score, limits[1] * score, self.xp)
        if self._own_costs:
            lines = [_Line(slopes[i, :], fixed[i, :], self.paid[i, :]) for i in range(fixed.shape[0])]
            return span.by_steps(lines)
        lines = _joined([_Line(s, fixed[i, :], self.paid[i, :]) for i, s in enumerate(slopes.tolist())], self.xp)
        return span.by_pairs(lines) if len(lines) <= FEW_LINES else span.by_steps(lines)


class _Line(NamedTuple):
    """What an action is expected to cost as a class is multiplied, and what it has cost."""

    slope: Any  # of all rows, or an array
    fixed: Array
    paid: Array


def _joined(lines: list[_Line], xp: Any) -> list[_Line]:
    """Return lines of falling slope, the lowest of parallel ones; of two that are the same it is the first."""
    joined: list[_Line] = []
    for line in sorted(lines, key=lambda line: -float(line.slope)):
        if joined and joined[-1].slope == line.slope:
            slope, fixed, paid = joined.pop()
            paid = xp.where(line.fixed < fixed, line.paid, paid)
            joined.append(_Line(slope, xp.minimum(line.fixed, fixed), paid))
        else:
            joined.append(line)
    return joined


class _Span(NamedTuple):
    """The stretch of mu_j q_j that is looked at: nothing where q_j is 0, as such a row is decided alike everywhere."""

    score: Array
    low: Array
    high: Array
    xp: Any

    def by_pairs(self, lines: list[_Line]) -> Iterator[tuple[Array, Array]]:
        """Yield the changes to each line, in arrays of one dimension, which stay in the cache.

        A line is the lowest from the last meeting with a steeper one to the first with a flatter one.
        """
        xp, nowhere = self.xp, self.xp.zeros_like(self.score)
        enter, leave = [nowhere for _ in lines], [nowhere + xp.inf for _ in lines]
        for k, line in enumerate(lines):
            for i, steeper in enumerate(lines[:k]):
                meet = line.fixed - steeper.fixed
                meet *= 1.0 / (steeper.slope - line.slope)
                enter[k], leave[i] = xp.maximum(enter[k], meet), xp.minimum(leave[i], meet)
        now = lines[0].paid
        for line, start, end in zip(lines[1:], enter[1:], leave[1:], strict=True):
            stays = start < end
            yield self._kept(start, line.paid - now, stays)
            now = xp.where(stays, line.paid, now)

    def by_steps(self, lines: list[_Line]) -> Iterator[tuple[Array, Array]]:
        """Yield the first changes of all rows, the second ones, and so on: better where there are many lines."""
        xp = self.xp
        slope, fixed, paid = (
            xp.stack([part + 0.0 * self.score for part in column]) for column in zip(*lines, strict=True)
        )
        now = _flattest(fixed == xp.min(fixed, axis=0), slope)
        for _ in lines[1:]:
            fall = _pick(slope, now) - slope
            flatter = fall > 0.0
            meet = xp.where(flatter, (fixed - _pick(fixed, now)) / xp.where(flatter, fall, 1.0), xp.inf)
            place = xp.min(meet, axis=0)
            moves = place < self.high
            if not bool(xp.any(moves)):
                return
            after = xp.where(moves, _flattest(flatter & (meet == place), slope), now)
            yield self._kept(place, _pick(paid, after) - _pick(paid, now), moves)
            now = after

    def _kept(self, place: Array, change: Array, mask: Array) -> tuple[Array, Array]:
        """Return the changes that count, at their multipliers."""
        xp = self.xp
        here = xp.nonzero(mask & (place > self.low) & (place < self.high) & (change != 0.0))[0]
        return xp.take(place, here) / xp.take(self.score, here), xp.take(change, here)


def _flattest(mask: Array, slope: Array) -> Array:
    """Return the line of least slope among some of each row."""
    xp = array_namespace(slope)
    return xp.argmin(xp.where(mask, slope, xp.inf), axis=0)


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
