"""Multipliers of class scores that make the decision among K classes cheapest on labelled rows.

One multiplier at a time, exactly: as it grows, a row's decision walks along the lower envelope of one line for each
action. Where the lines meet, the decision changes and with it the cost: one sort and prefix sums give the cost of all
positions at once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array

from adacsl.core.arrays import Array, count_true, widest
from adacsl.core.costs import CostMatrix
from adacsl.core.cuts import sums_before
from adacsl.core.envelopes import Rows, as_factors
from adacsl.core.html import html_record
from adacsl.core.thresholds import ROUNDING, TIE_TOLERANCE, check_caution

LIMITS = 1e30
"""A decision that changes beyond this multiplier or its inverse only never changes."""

WIDTH = 1e-12
"""Intervals narrower than this (relative) are none: rounding has torn apart what is one point."""

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
    """Multipliers of the K classes, and what deciding with them costs in total.

    ``values`` have a geometric mean of 1. ``start_cost`` is the cost with all of them 1, ``sweeps`` tells how often
    all classes were looked at.
    """

    values: Values
    cost: float
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
    caution: float = 0.0,
    sample_weight: Array | None = None,
) -> Multipliers:
    r"""Return the multipliers of the classes that make deciding cheapest, one class after the other.

    A row is decided by

    .. math:: \arg\min_i \sum_j \frac{C(i, j)}{w_j} \mu_j q_j

    Each :math:`\mu_j` in turn moves to its cheapest position (the nearest, on a log scale, of several), given all
    others, as long as that makes the decisions cheaper; the result cannot be improved by changing one multiplier. For
    two classes this is the cheapest threshold. All multipliers at once are an NP-hard problem. Of more than 4,096 rows
    every one is looked at too, but in float32, and gains below a tenth of the cost's standard error are left alone.

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
    rows, base = Rows.of(probabilities, labels, costs, weights, sample_weight)
    k, caution = costs.n_classes, check_caution(caution)
    ones = np.ones(k)
    values = ones if start is None else as_factors(start, k, "start")
    start_cost = rows.cost(ones)
    few = rows.n <= FEW_ROWS or k == 2
    rule = Rule(caution, (TIE_TOLERANCE if few else LEAST_GAIN / rows.n**0.5) * start_cost, few)
    values, sweeps = descend(rows, values, rule) if few else descend_by_parts(rows.narrow(), values, rule)
    if not np.array_equal(values, ones):
        values = np.exp(np.log(values) - np.log(values).mean())
    cost = rows.cost(values)
    if cost > start_cost:  # a start that was worse than none
        values, cost = ones, start_cost
    return Multipliers(values, cost + base, start_cost + base, sweeps)


class Rule(NamedTuple):
    """When a multiplier moves."""

    caution: float
    gain: float  # what it has to save at least
    exact: bool  # whether every row counts


class Changes(NamedTuple):
    """The cost along a multiplier: where it changes (in no order), by how much, and what it is before."""

    places: Array
    changes: Array
    base: float


def descend(rows: Rows, values: Values, rule: Rule) -> tuple[Values, int]:
    """Return multipliers none of which is cheaper elsewhere, and how many sweeps over all rows it took."""
    for sweep in range(1, MOST_SWEEPS + 1):  # noqa: B007
        found = _sweep(rows, values, rule, LIMITS)
        if found is values:
            break
        values = found
    return values, sweep


def descend_by_parts(rows: Rows, values: Values, rule: Rule) -> tuple[Values, int]:
    """Do the same for many rows: some show the way, then those that are undecided around the place these have found.

    In the end, all rows confirm it.
    """
    fine = rule._replace(gain=rule.gain / 4.0)  # so that all rows find nothing that is worth it in the box
    values = _approach(rows, values, fine)
    for sweep in range(1, MOST_SWEEPS + 1):  # noqa: B007
        found = _sweep(rows, values, rule, LIMITS, first=True)
        if found is values:
            break
        values = _settle(rows, found, fine, BOX)
    return values, sweep


def _approach(rows: Rows, values: Values, rule: Rule) -> Values:
    """Return about where the multipliers of many rows end."""
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
        found = _sweep(near, values, rule, box, center=center)
        move = float(np.abs(np.log(found / values)).max())
        if not move:
            break
        values = found
        if float(np.abs(np.log(values / center)).max()) + 2.0 * move > math.log(box):
            near, center = rows.take(rows.near(values, box)), values
        elif 6.0 * move < math.log(box):
            return _settle(near, values, rule, math.exp(2.0 * move))
    return values


def _sweep(
    rows: Rows, values: Values, rule: Rule, box: float, *, center: Values | None = None, first: bool = False
) -> Values:
    """Move one multiplier after the other to its cheapest place in a box; with ``first``, only the first that moves."""
    cost = rows.cost(values)
    for j in range(len(values)):
        middle = 1.0 if center is None else float(center[j])
        limits = middle / box, middle * box
        moved = values.copy()
        moved[j] = _cheapest_place(_curve(rows, values, j, cost, limits, rule), float(values[j]), cost, limits, rule)
        found = cost if moved[j] == values[j] else rows.cost(moved)
        if found < cost - rule.gain:
            values, cost = moved, found
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


def _cheapest_place(found: Changes, own: float, cost: float, limits: tuple[float, float], rule: Rule) -> float:
    """Return where the multiplier makes the decisions cheapest: where it is unless another place is cheaper."""
    places, changes, base = found
    if places.shape[0] == 0:
        return own
    xp = array_namespace(places)
    if is_numpy_array(places) and not rule.caution:
        places, changes, base = _worth_sorting(found, cost)
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
    if rule.caution:
        here = count_true(places <= own)
        fair = _not_proven_dearer(totals, sums_before(changes * changes), fair, here, cost, rule.caution)
    return _nearest_place(xp.take(low, fair), xp.take(high, fair), own)


def _worth_sorting(found: Changes, cost: float) -> Changes:
    """Return the same curve, exact wherever it may be cheapest: elsewhere, neighbouring changes are added up unsorted.

    Within a bin the cost falls at most by the sum of all falls in it.
    """
    places, grid = found.places * found.places.dtype.type(OFF_GRID), "i8" if found.places.dtype == np.float64 else "i4"
    bits = BIN_BITS[grid]
    bins = (places.view(grid) >> bits).astype(np.int64)  # exponent and first digits: as good as a logarithm
    first = bins.min()
    bins -= first
    rise, fall = (np.bincount(bins, part) for part in (np.maximum(found.changes, 0.0), np.minimum(found.changes, 0.0)))
    filled = np.flatnonzero(rise - fall)
    change, fall = (rise + fall)[filled], fall[filled]
    after = found.base + np.cumsum(change)
    bound = min(cost, found.base, after.min()) + 1e-9 * cost
    cheap = after - change + fall <= bound
    worth = cheap.copy()  # the ends of an interval may lie beside
    worth[1:] |= cheap[:-1]
    worth[:-1] |= cheap[1:]
    table = np.zeros(int(filled[-1]) + 1, dtype=bool)
    table[filled] = worth
    mask = table[bins]
    rest = ((filled[~worth] + first) << bits).astype(grid).view(places.dtype) / OFF_GRID
    places = np.concatenate((found.places[mask], rest))
    return Changes(places, np.concatenate((found.changes[mask], change[~worth])), found.base)


def _not_proven_dearer(totals: Array, squares: Array, cheapest: Array, own: int, cost: float, caution: float) -> Array:
    """Return the intervals from the nearest cheapest one towards ``own`` that may be as cheap, for all the rows tell.

    The standard error is the root of the sum of the squared changes in between.
    """
    xp = array_namespace(totals)
    best = int(cheapest[int(xp.argmin(xp.abs(cheapest - own)))])
    low, high = min(best, own), max(best, own)
    excess = totals[low : high + 1] - totals[best]
    error = xp.abs(squares[low : high + 1] - squares[best]) ** 0.5
    # one row apart, the excess is its standard error: at caution 1 that is a tie, which rounding must not break
    return low + xp.nonzero((excess <= caution * error * (1.0 + ROUNDING)) | (excess <= TIE_TOLERANCE * cost))[0]


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
