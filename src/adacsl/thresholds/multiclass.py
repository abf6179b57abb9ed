"""Class multipliers that minimise the cost of decisions among K classes on labelled samples.

The expected cost of each action is a line in the multiplier of one class: a row's decision walks along the lower
envelope of these lines.

One multiplier at a time, exactly: as it grows, a row's decision walks along the lower envelope of one line for each
action. Where the lines meet, the decision changes and with it the cost: one sort and prefix sums give the cost of all
positions at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array

from adacsl.base.arrays import (
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
from adacsl.base.html import html_record
from adacsl.costs.cells import check_samples, cost_like
from adacsl.costs.matrix import CostMatrix
from adacsl.thresholds.search import ROUNDING, TIE_TOLERANCE, check_standard_errors
from adacsl.thresholds.sorted_scores import sums_before

ROWS_AT_ONCE = 2**16
"""On a CPU: what belongs to so many samples stays in its cache, and Python has little part in the time."""

FEW_LINES = 64
"""Up to so many lines, all pairs of them are looked at."""


class Rows(NamedTuple):
    """Checked samples. Costs are counted from the action of lowest cost, so that none is negative."""

    scores: Array  # K x n
    paid: Array  # A x n: what each action has cost a row, times its weight
    stakes: Array  # what decides, costs over w: A x K, or A x K x n
    xp: Any  # their array library
    wide: Any  # its widest float, for sums

    @classmethod
    def of(
        cls, probabilities: Array, labels: Array, costs: CostMatrix, weights: Array | None, counts: Array | None
    ) -> tuple[Rows, float]:
        """Check everything; return the samples and the cost of their best actions. On a CPU all is numpy from here."""
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
        unit_costs = _prices(costs, scores)
        least = xp.min(unit_costs, axis=0)
        factors = move(np.ones(k) if weights is None else as_factors(weights, k, "weights"), scores)
        known = (
            unit_costs if costs.deciding is costs else _prices(costs.deciding, scores)
        )  # what decides, before it is paid
        stakes = (known - xp.min(known, axis=0)) / (factors if known.ndim == 2 else factors[:, None])
        base, paid = (_of_class(cells, classes, weight) for cells in (least[None, ...], unit_costs - least))
        return cls(scores, paid, stakes, xp, kind), float(xp.sum(base))

    @property
    def n(self) -> int:
        """How many samples there are."""
        return int(self.scores.shape[1])

    def narrow(self) -> Rows:
        """Return the samples in float32, enough for a first approximation."""
        scores, paid, stakes = (self.xp.astype(cells, self.xp.float32) for cells in self[:3])
        return Rows(scores, paid, stakes, self.xp, self.wide)

    def part(self, index: slice) -> Rows:
        """Return some samples, without a copy."""
        stakes = self.stakes[..., index] if self._own_costs else self.stakes
        return Rows(self.scores[:, index], self.paid[:, index], stakes, self.xp, self.wide)

    def take(self, mask: Array) -> Rows:
        """Return the samples of a mask."""
        return self._at(self.xp.nonzero(mask)[0])

    def every(self, step: int) -> Rows:
        """Return every ``step``-th sample."""
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
        """Return a mask of the samples that may be decided otherwise if multipliers change by up to this ratio."""
        return self.xp.concat([rows._unsure(values, ratio) for rows in self._pieces()])

    def _unsure(self, values: Any, ratio: float) -> Array:
        xp, expected = self.xp, self.expected(values)
        least = xp.min(expected, axis=0)
        unsure = xp.zeros(self.n, dtype=xp.bool, device=device(least))
        for action in range(expected.shape[0]):
            index = xp.nonzero(expected[action, :] == least)[0]
            rows = self._replace(paid=self.paid[:0, :])._at(index)
            # a lower bound of the excess of each action, with multipliers in its favour raised and the others lowered
            excess = rows.stakes - rows.stakes[action, ...]
            margin = rows._replace(stakes=xp.where(excess > 0.0, excess / ratio, excess * ratio)).expected(values)
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
        result = [part for rows in self._pieces() for part in rows._changes(values, j, limits)]
        empty = self.scores[j, :0]
        places, changes = (self.xp.concat([empty, *parts]) for parts in zip(*result, (empty, empty), strict=True))
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
        """Yield the first changes of all samples, the second ones, and so on: better where there are many lines."""
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
    """Return the line of least slope among some of each sample."""
    xp = array_namespace(slope)
    return xp.argmin(xp.where(mask, slope, xp.inf), axis=0)


def _pick(table: Array, line: Array) -> Array:
    """Return one entry of each column of an A x n table."""
    xp = array_namespace(table)
    n = table.shape[1]
    return xp.take(xp.reshape(table, (-1,)), line * n + xp.arange(n, device=device(line)))


def _of_class(costs: Array, classes: Array, weight: Array | None) -> Array:
    """Return the costs A x n of each sample's class out of A x K or A x K x n, times its weight."""
    xp = array_namespace(costs)
    if costs.ndim == 2:
        own = xp.take(costs, classes, axis=1)
    else:
        own = xp.stack([_pick(costs[i, :, :], classes) for i in range(costs.shape[0])])
    return own if weight is None else own * weight


def _prices(costs: CostMatrix, like: Array) -> Array:
    """Return the costs as an array, A x K or A x K x n, in the library and on the device of ``like``."""
    xp = array_namespace(like)
    if costs.n_instances is None:
        return move(np.asarray(costs._cells, dtype=np.float64), like)
    ones = xp.ones_like(like[0, :])
    return xp.stack([xp.stack([cost_like(cell, ones) * ones for cell in row]) for row in costs._cells])


def as_factors(values: Array, k: int, name: str) -> Any:
    """Return K positive numbers on the host."""
    array = np.asarray(as_host(as_array(values, name)), dtype=np.float64)
    if array.shape != (k,) or not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"{name} must be {k} positive numbers, one for each class, got {values!r}")
    return array


LIMITS = 1e30
"""A decision that changes beyond this multiplier or its inverse only never changes."""

WIDTH = 1e-12
"""Intervals narrower than this (relative) are none: rounding has split what is one point."""

EDGE = 1e-10
"""How far (relative) a multiplier keeps from where a decision changes: rounding must not carry one across."""

MOST_SWEEPS = 100
"""Each sweep makes the decisions cheaper, so there is an end; this is a limit for the time it takes to get there."""

FEW_ROWS, FEW_SWEEPS, SHARE, BOX = 2**12, 3, 4, 1.1
"""More rows than these are first asked for the way by every fourth of them, then by those only whose decision can
change as multipliers change by up to 10 %."""

BIN_BITS, OFF_GRID = {"i4": 16, "i8": 45}, 1.2345678901
"""Bins of places: 128 to each power of two, whose borders are no round numbers."""

LEAST_GAIN = 0.1
"""Many rows do not move for gains below this share of the cost's standard error (about: cost over root of n)."""

Values = np.ndarray[Any, np.dtype[np.float64]]


class Multipliers(NamedTuple):
    """Multipliers of the scores of K classes, and the cost of the decisions made with them.

    Attributes
    ----------
    values : array of shape (K,)
        The multipliers; their geometric mean is 1.
    cost : float
        The mean cost per sample, weighted by ``sample_weight``.
    total_cost : float
        The (weighted) sum of the costs of all samples.
    start_cost : float
        The mean cost with all multipliers 1.
    sweeps : int
        How many times the search went over all classes.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.thresholds import find_multipliers
    >>> find_multipliers([[0.6, 0.4], [0.8, 0.2]], [1, 0], CostMatrix(fp=1, fn=1)).cost
    0.0
    """

    values: Values
    cost: float
    total_cost: float
    start_cost: float
    sweeps: int

    def _repr_html_(self) -> str:
        return html_record(self, "Multipliers of the classes")


def find_multipliers(
    probabilities: Array,
    labels: Array,
    costs: CostMatrix,
    *,
    weights: Array | None = None,
    start: Array | None = None,
    n_standard_errors: float = 0.0,
    sample_weight: Array | None = None,
) -> Multipliers:
    """Return the class multipliers of least cost, found one class after the other.

    Parameters
    ----------
    probabilities : array of shape (n, K)
        Scores of the classes, on any device; for two classes also (n,).
    labels : array of shape (n,)
        Class numbers.
    costs : CostMatrix
        Class-wide or per sample; it may have more actions than classes.
    weights : array of shape (K,), optional
        The w the scores were trained with. Default: all 1.
    start : array of shape (K,), optional
        Where to begin. Default: all 1.
    n_standard_errors : float, default 0.0
        A multiplier moves only as far as the samples prove: to the nearest position that costs at most this many
        standard errors more than the optimum. 0 chooses the optimum itself.
    sample_weight : array of shape (n,), optional
        How much each sample counts.

    Returns
    -------
    Multipliers
        The multipliers, and mean costs with and without them.

    See Also
    --------
    adacsl.find_threshold : Two classes.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.thresholds import find_multipliers
    >>> costs = CostMatrix.from_array([[0, 1, 4], [1, 0, 4], [1, 1, 0]], rows="predicted")
    >>> scores = [[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.4, 0.3, 0.3], [0.2, 0.3, 0.5]]
    >>> result = find_multipliers(scores, [0, 1, 0, 2], costs)
    >>> result.start_cost, result.cost
    (0.25, 0.0)
    """
    rows, base = Rows.of(probabilities, labels, costs, weights, sample_weight)
    k, n_standard_errors = costs.n_classes, check_standard_errors(n_standard_errors)
    ones = np.ones(k)
    values = ones if start is None else as_factors(start, k, "start")
    start_cost = rows.cost(ones)
    few = rows.n <= FEW_ROWS or k == 2
    rule = Rule(n_standard_errors, (TIE_TOLERANCE if few else LEAST_GAIN / rows.n**0.5) * start_cost, few)
    values, sweeps = descend(rows, values, rule) if few else descend_by_parts(rows.narrow(), values, rule)
    if not np.array_equal(values, ones):
        values = np.exp(np.log(values) - np.log(values).mean())
    cost = rows.cost(values)
    if cost > start_cost:  # a start that was worse than none
        values, cost = ones, start_cost
    size = float(rows.n if sample_weight is None else as_host(as_array(sample_weight, "sample_weight")).sum())
    return Multipliers(values, (cost + base) / size, cost + base, (start_cost + base) / size, sweeps)


class Rule(NamedTuple):
    """When a multiplier moves."""

    n_standard_errors: float
    gain: float  # what it has to save at least
    exact: bool  # whether every row counts


class Changes(NamedTuple):
    """The cost along a multiplier: where it changes (in no order), by how much, and what it is before."""

    places: Array
    changes: Array
    base: float


def descend(rows: Rows, values: Values, rule: Rule) -> tuple[Values, int]:
    """Return multipliers that are optimal one by one, and how many sweeps over all samples it took."""
    for sweep in range(1, MOST_SWEEPS + 1):  # noqa: B007
        result = _sweep(rows, values, rule, LIMITS)
        if result is values:
            break
        values = result
    return values, sweep


def descend_by_parts(rows: Rows, values: Values, rule: Rule) -> tuple[Values, int]:
    """Descend with many samples: first a subset, then the samples near its optimum; all samples confirm the result."""
    fine = rule._replace(gain=rule.gain / 4.0)  # so that all rows find nothing that is worth it in the box
    values = _approach(rows, values, fine)
    for sweep in range(1, MOST_SWEEPS + 1):  # noqa: B007
        result = _sweep(rows, values, rule, LIMITS, first=True)
        if result is values:
            break
        values = _settle(rows, result, fine, BOX)
    return values, sweep


def _approach(rows: Rows, values: Values, rule: Rule) -> Values:
    """Return an approximation of the optimal multipliers of many samples."""
    if rows.n > FEW_ROWS:
        return _settle(rows, _approach(rows.every(SHARE), values, rule._replace(gain=rule.gain / SHARE)), rule, BOX)
    for _ in range(FEW_SWEEPS):
        values = _sweep(rows, values, rule, LIMITS)
    return values


def _settle(rows: Rows, values: Values, rule: Rule, box: float) -> Values:
    """Descend in a box around the multipliers that moves along and shrinks as they come to rest.

    Rows that are decided alike everywhere in the box play no part.
    """
    near, center = rows.take(rows.near(values, box)), values
    for _ in range(MOST_SWEEPS if near.n else 0):
        result = _sweep(near, values, rule, box, center=center)
        move = float(np.abs(np.log(result / values)).max())
        if not move:
            break
        values = result
        if float(np.abs(np.log(values / center)).max()) + 2.0 * move > math.log(box):
            near, center = rows.take(rows.near(values, box)), values
        elif 6.0 * move < math.log(box):
            return _settle(near, values, rule, math.exp(2.0 * move))
    return values


def _sweep(
    rows: Rows, values: Values, rule: Rule, box: float, *, center: Values | None = None, first: bool = False
) -> Values:
    """Set one multiplier after the other to its optimum in a box; with ``first``, only the first that moves."""
    cost = rows.cost(values)
    for j in range(len(values)):
        middle = 1.0 if center is None else float(center[j])
        limits = middle / box, middle * box
        moved = values.copy()
        moved[j] = _lowest_cost_place(_curve(rows, values, j, cost, limits, rule), float(values[j]), cost, limits, rule)
        result = cost if moved[j] == values[j] else rows.cost(moved)
        if result < cost - rule.gain:
            values, cost = moved, result
            if first:
                break
    return values


def _curve(rows: Rows, values: Values, j: int, cost: float, limits: tuple[float, float], rule: Rule) -> Changes:
    """Return the cost along multiplier j."""
    places, changes = rows.along(values, j, limits)
    xp, here = rows.xp, float(values[j])
    if rule.exact and places.shape[0]:
        # a row may be undecided just here, as all its costs are the same: look in the middle of the next interval
        over = places > here * (1.0 + EDGE)
        start = max(here, float(xp.max(xp.where(over, 0.0, places))))
        here = math.sqrt(start * float(xp.min(xp.where(over, places, 4.0 * start))))
        cost = rows.cost(np.where(np.arange(len(values)) == j, here, values))
    # of many rows, one that is undecided makes no difference
    return Changes(places, changes, cost - float(xp.sum(xp.where(places < here, changes, 0.0), dtype=rows.wide)))


def _lowest_cost_place(result: Changes, own: float, cost: float, limits: tuple[float, float], rule: Rule) -> float:
    """Return the cost-optimal value of a multiplier: the present one unless another costs less."""
    places, changes, base = result
    if places.shape[0] == 0:
        return own
    xp = array_namespace(places)
    if is_numpy_array(places) and not rule.n_standard_errors:
        places, changes, base = _worth_sorting(result, cost)
    order = xp.argsort(places, stable=False)
    places, changes = widest(xp.take(places, order)), widest(xp.take(changes, order))
    totals = base + sums_before(changes)
    ends = xp.asarray(limits, dtype=places.dtype, device=device(places))
    low, high = xp.concat((ends[:1], places)), xp.concat((places, ends[1:]))
    totals = xp.where(high > low * (1.0 + WIDTH), totals, xp.inf)
    least = float(xp.min(totals))
    if not least < cost - rule.gain:
        return own
    fair = xp.nonzero(totals <= least + TIE_TOLERANCE * cost)[0]
    if rule.n_standard_errors:
        here = count_true(places <= own)
        fair = _not_proven_costlier(totals, sums_before(changes * changes), fair, here, cost, rule.n_standard_errors)
    return _nearest_place(xp.take(low, fair), xp.take(high, fair), own)


def _worth_sorting(result: Changes, cost: float) -> Changes:
    """Return the same curve, exact wherever its minimum may be: elsewhere, neighbouring changes are added up unsorted.

    Within a bin the cost falls at most by the sum of all falls in it.
    """
    places, grid = (
        result.places * result.places.dtype.type(OFF_GRID),
        "i8" if result.places.dtype == np.float64 else "i4",
    )
    bits = BIN_BITS[grid]
    bins = (places.view(grid) >> bits).astype(np.int64)  # exponent and first digits: as good as a logarithm
    first = bins.min()
    bins -= first
    rise, fall = (
        np.bincount(bins, part) for part in (np.maximum(result.changes, 0.0), np.minimum(result.changes, 0.0))
    )
    filled = np.flatnonzero(rise - fall)
    change, fall = (rise + fall)[filled], fall[filled]
    after = result.base + np.cumsum(change)
    bound = min(cost, result.base, after.min()) + 1e-9 * cost
    cheap = after - change + fall <= bound
    worth = cheap.copy()  # the ends of an interval may lie beside
    worth[1:] |= cheap[:-1]
    worth[:-1] |= cheap[1:]
    table = np.zeros(int(filled[-1]) + 1, dtype=bool)
    table[filled] = worth
    mask = table[bins]
    rest = ((filled[~worth] + first) << bits).astype(grid).view(places.dtype) / OFF_GRID
    places = np.concatenate((result.places[mask], rest))
    return Changes(places, np.concatenate((result.changes[mask], change[~worth])), result.base)


def _not_proven_costlier(
    totals: Array, squares: Array, cheapest: Array, own: int, cost: float, n_standard_errors: float
) -> Array:
    """Return the intervals from the nearest optimum towards ``own`` whose cost is not significantly higher.

    The standard error is the root of the sum of the squared changes in between.
    """
    xp = array_namespace(totals)
    best = int(cheapest[int(xp.argmin(xp.abs(cheapest - own)))])
    low, high = min(best, own), max(best, own)
    excess = totals[low : high + 1] - totals[best]
    error = xp.abs(squares[low : high + 1] - squares[best]) ** 0.5
    # one row apart, the excess is its standard error: at n_standard_errors 1 that is a tie, which rounding must not
    # break
    return (
        low + xp.nonzero((excess <= n_standard_errors * error * (1.0 + ROUNDING)) | (excess <= TIE_TOLERANCE * cost))[0]
    )


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
