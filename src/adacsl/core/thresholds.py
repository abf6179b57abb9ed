"""The exact cheapest threshold of a set of scores, and the whole curve it is read from.

One sort and prefix sums: calling the k lowest scores negative costs the misses among them plus the false alarms
among the others. Every cut between two distinct scores is looked at, in O(n log n), on the device of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array, is_torch_array

from adacsl.core.arrays import (
    Array,
    FloatGrid,
    as_binary_labels,
    as_scores,
    as_vector,
    as_weights,
    check_finite,
    count_true,
    default_float,
    dtype_name,
    move,
    widen,
)
from adacsl.core.costs import CostMatrix
from adacsl.core.prices import check_samples

Ties = Literal["nearest", "lowest"]

TIE_TOLERANCE = 1e-12
"""Costs this close (relative) count as equal: sums of floats differ in the last digits with the order of addition."""


class Threshold(NamedTuple):
    """A cheapest threshold: deciding ``score > value`` costs exactly ``cost``.

    ``[low, high)`` is the interval of equally cheap thresholds that ``value`` was taken from (closed where it
    ends at 1, and where candidates were given: then ``low`` and ``high`` are candidates too).
    """

    value: float
    cost: float
    low: float
    high: float


class CostCurve(NamedTuple):
    """The cost of every distinct cut: deciding ``score > thresholds[k]`` costs ``costs[k]``.

    The first threshold lies below all scores (everything is positive), the others are the distinct scores in rising
    order. ``false_negatives`` and ``false_positives`` split the avoidable part of the cost.
    """

    thresholds: Array
    costs: Array
    false_negatives: Array
    false_positives: Array


class _Cuts(NamedTuple):
    """Sorted samples and what it costs to call the first k = 0 .. n of them negative."""

    scores: Array  # n, rising
    missed: Array  # n + 1: false negatives, rising from 0
    alarmed: Array  # n + 1: false positives, falling to 0
    base: float  # what the samples cost even when every decision is right
    squares: Array | None = None  # n + 1: sums of the squared stakes below each cut, where they are asked for


class _Optima(NamedTuple):
    """All equally cheap cuts: their numbers, costs, and the scores next to them."""

    cut: Array
    costs: Array
    below: Array
    above: Array


class _Samples(NamedTuple):
    """Checked input."""

    scores: Array
    positive: Array
    costs: CostMatrix
    weight: Array | None
    grid: FloatGrid


def find_threshold(
    scores: Array,
    labels: Array,
    costs: CostMatrix,
    *,
    target: float = 0.5,
    candidates: Array | None = None,
    sample_weight: Array | None = None,
    caution: float = 0.0,
) -> Threshold:
    """Return the cheapest threshold; among equally cheap ones, the point nearest ``target``.

    Parameters
    ----------
    scores : array of shape (n,)
        Probabilities of the positive class, on any device.
    labels : array of shape (n,)
        0 or 1.
    costs : CostMatrix
        For two classes; class-wide or with costs of each sample.
    target : float, default 0.5
        Where to stay when several thresholds are equally cheap (the paper's T').
    candidates : array, optional
        Look at these thresholds only, as the paper does (0, 0.005, ..., 0.9). Default: every cut.
    sample_weight : array of shape (n,), optional
        How much each sample counts.
    caution : float, default 0
        Take the point nearest ``target`` that costs at most this many standard errors more than the cheapest threshold:
        what a few samples say may be chance. 0 believes every sample.

    Examples
    --------
    >>> find_threshold([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1], CostMatrix(fp=1, fn=8))
    Threshold(value=0.29999999999999993, cost=1.0, low=0.1, high=0.3)
    """
    samples = _check(scores, labels, costs, sample_weight)
    target, caution = check_target(target), check_caution(caution)
    if candidates is None and not caution and _can_pack(samples):
        return _best_packed_cut(samples, samples.grid.round(target))
    cuts = _running_costs(samples, *_sort(samples), squares=caution > 0.0)
    allowed = _as_candidates(candidates, samples.scores, samples.grid)
    return _search(cuts, samples.grid, target, allowed, caution=caution)


def cost_curve(scores: Array, labels: Array, costs: CostMatrix, *, sample_weight: Array | None = None) -> CostCurve:
    """Return the cost of every distinct cut.

    Examples
    --------
    >>> curve = cost_curve([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1], CostMatrix(fp=1, fn=8))
    >>> curve.costs.tolist()
    [2.0, 1.0, 9.0, 8.0, 16.0]
    """
    samples = _check(scores, labels, costs, sample_weight)
    cuts = _running_costs(samples, *_sort(samples))
    xp = array_namespace(cuts.scores)
    distinct = _distinct(cuts.scores)
    first = xp.asarray([samples.grid.below(float(cuts.scores[0]))], dtype=cuts.scores.dtype, device=device(cuts.scores))
    missed, alarmed = cuts.missed[distinct], cuts.alarmed[distinct]
    return CostCurve(xp.concat((first, cuts.scores))[distinct], missed + alarmed + cuts.base, missed, alarmed)


def subgroup_thresholds(
    scores: Array,
    labels: Array,
    costs: CostMatrix,
    subgroups: Array,
    *,
    target: float,
    candidates: Array | None = None,
    edges: Sequence[float] | None = None,
    ties: Ties = "nearest",
    sample_weight: Array | None = None,
    caution: float = 0.0,
) -> tuple[list[Threshold], list[float]]:
    """Return the cheapest threshold and the size (or weight) of each non-empty subgroup, from one sort.

    ``edges`` confines the search of subgroup m to ``[edges[m], edges[m + 1]]``.
    """
    samples = _check(scores, labels, costs, sample_weight)
    xp = array_namespace(samples.scores)
    numbers = move(as_vector(subgroups, "subgroups"), samples.scores)
    if numbers.shape[0] != samples.scores.shape[0]:
        raise ValueError(f"the partition numbered {numbers.shape[0]} of {samples.scores.shape[0]} samples")
    order = _order(samples.scores)
    order = xp.take(order, xp.argsort(xp.take(numbers, order), stable=True))
    found = xp.unique_counts(numbers)
    rank = [int(v) for v in found.values]
    results, sizes, start = [], [], 0
    for number, size in sorted(zip(rank, (int(c) for c in found.counts), strict=True)):
        members = order[start : start + size]
        start += size
        part = _Samples(
            xp.take(samples.scores, members),
            xp.take(samples.positive, members),
            samples.costs.rows(members),
            None if samples.weight is None else xp.take(samples.weight, members),
            samples.grid,
        )
        span = (0.0, 1.0) if edges is None else (float(edges[number]), float(edges[number + 1]))
        cuts = _running_costs(part, part.scores, part.positive, None, squares=caution > 0.0)
        allowed = _as_candidates(candidates, part.scores, part.grid)
        results.append(_search(cuts, samples.grid, target, allowed, span=span, ties=ties, caution=caution))
        sizes.append(float(size) if part.weight is None else float(xp.sum(part.weight)))
    return results, sizes


def check_target(target: float) -> float:
    """Return a threshold strictly between 0 and 1, or raise."""
    if not 0.0 < float(target) < 1.0:
        raise ValueError(f"target must lie strictly between 0 and 1, got {target!r}")
    return float(target)


def check_caution(caution: float) -> float:
    """Return a number of standard errors, 0 or more, or raise."""
    if not 0.0 <= float(caution) < math.inf:
        raise ValueError(f"caution must be a finite number of standard errors from 0, got {caution!r}")
    return float(caution)


def _check(scores: Array, labels: Array, costs: CostMatrix, sample_weight: Array | None) -> _Samples:
    if not isinstance(costs, CostMatrix):
        raise TypeError(f"costs must be a CostMatrix such as CostMatrix(fp=1, fn=8), got {costs!r}")
    if costs.n_classes != 2:
        raise ValueError(f"a threshold belongs to two classes, but the cost matrix has {costs.n_classes}")
    checked = as_scores(scores)
    positive = as_binary_labels(labels, checked)
    check_samples(costs.n_instances, checked.shape[0])
    return _Samples(widen(checked), positive, costs, as_weights(sample_weight, checked), FloatGrid.of(checked))


# sorting


def _sort(samples: _Samples) -> tuple[Array, Array, Array | None]:
    """Return sorted scores, their labels, and the order (None where nothing else has to be brought along)."""
    if _can_pack(samples):
        keys = _sorted_keys(samples.scores, samples.positive)
        xp = array_namespace(keys)
        return _scores_of(keys, samples.scores), xp.astype(keys & 1, xp.bool), None
    order = _order(samples.scores)
    xp = array_namespace(order)
    return xp.take(samples.scores, order), xp.take(samples.positive, order), order


def _can_pack(samples: _Samples) -> bool:
    """Tell whether score and label are all there is to a sample, and fit into one integer."""
    known = is_numpy_array(samples.scores) or is_torch_array(samples.scores)
    plain = samples.weight is None and samples.costs.n_instances is None
    return known and plain and dtype_name(samples.scores) in ("float32", "float64")


def _sorted_keys(scores: Array, positive: Array) -> Array:
    """Sort scores with their labels as plain integers, far faster than an argsort.

    The bits of a float in [0, 1] read as an integer rise with it and leave the two top bits free. Doubled, less one for
    a positive, they hold both; among equal scores the positives come first.
    """
    xp = array_namespace(scores)
    keys = scores.view(xp.int32 if dtype_name(scores) == "float32" else xp.int64) << 1  # drops the sign of -0.0
    keys -= positive.view(xp.uint8)
    if is_numpy_array(keys):
        keys.sort()
        return keys
    return xp.sort(keys)


def _scores_of(keys: Array, like: Array) -> Array:
    return ((keys + 1) >> 1).view(like.dtype)


def _order(scores: Array) -> Array:
    """Return the positions of the scores in rising order."""
    n = scores.shape[0]
    if is_numpy_array(scores) and scores.dtype == np.float32 and n < 2**32:
        # score and position in one 64-bit integer: numpy sorts those several times faster than it argsorts
        keys = (scores + np.float32(0)).view(np.int32).astype(np.int64)
        keys <<= 32
        keys |= np.arange(n)
        keys.sort()
        keys &= 0xFFFFFFFF
        return keys
    return array_namespace(scores).argsort(scores, stable=False)


# costs of all cuts


def _running_costs(
    samples: _Samples, scores: Array, positive: Array, order: Array | None, *, squares: bool = False
) -> _Cuts:
    fp, fn = samples.costs.fp - samples.costs.tn, samples.costs.fn - samples.costs.tp
    if samples.weight is None and isinstance(fp, float) and isinstance(fn, float):
        return _running_counts(scores, positive, samples.costs, squares=squares)
    xp = array_namespace(scores)
    # one signed number per sample, so that one gather brings everything into order
    stake = xp.where(samples.positive, _price(fn, scores), -_price(fp, scores))
    if samples.weight is not None:
        stake = stake * samples.weight
    if order is not None:
        stake = xp.take(stake, order)
    zero = xp.zeros((1,), dtype=stake.dtype, device=device(stake))
    missed = _sums_before(xp.maximum(stake, zero))
    # summed from the other end rather than subtracted from the total: no digits cancel
    alarmed = xp.flip(_sums_before(xp.flip(xp.maximum(-stake, zero))))
    return _Cuts(scores, missed, alarmed, _unavoidable_cost(samples), _sums_before(stake * stake) if squares else None)


def _running_counts(scores: Array, positive: Array, costs: CostMatrix, *, squares: bool = False) -> _Cuts:
    xp = array_namespace(scores)
    kind = default_float(xp, scores)
    n = scores.shape[0]
    counter = xp.int32 if n < 2**31 - 1 else xp.int64
    misses = _sums_before(xp.astype(positive, counter))
    positives = int(misses[-1])
    # of the n - k samples above cut k, all but the remaining positives are false alarms
    alarms = misses + xp.arange(n - positives, -positives - 1, -1, dtype=counter, device=device(scores))
    missed, alarmed = xp.astype(misses, kind), xp.astype(alarms, kind)
    missed *= costs.fn - costs.tp
    alarmed *= costs.fp - costs.tn
    sums = None
    if squares:
        sums = missed * (costs.fn - costs.tp) + (alarmed[0] - alarmed) * (costs.fp - costs.tn)
    return _Cuts(scores, missed, alarmed, costs.tp * positives + costs.tn * (n - positives), sums)


def _sums_before(values: Array) -> Array:
    """Return the sums of the first 0, 1, ..., n values, in the values' own type."""
    if is_numpy_array(values):
        sums = np.empty(values.shape[0] + 1, dtype=values.dtype)
        sums[0] = 0
        np.cumsum(values, out=sums[1:])
        return sums
    if is_torch_array(values):
        out = values.new_zeros(values.shape[0] + 1)
        array_namespace(values).cumsum(values, 0, dtype=values.dtype, out=out[1:])
        return out
    return array_namespace(values).cumulative_sum(values, dtype=values.dtype, include_initial=True)


def _unavoidable_cost(samples: _Samples) -> float:
    xp = array_namespace(samples.scores)
    tp, tn = samples.costs.tp, samples.costs.tn
    if isinstance(tp, float) and tp == 0.0 and isinstance(tn, float) and tn == 0.0:
        return 0.0
    right = xp.where(samples.positive, _price(tp, samples.scores), _price(tn, samples.scores))
    return float(xp.sum(right if samples.weight is None else right * samples.weight))


def _price(cell: Any, like: Array) -> Array:
    """Return a price as a wide array (of one or of n numbers) where ``like`` lives."""
    xp = array_namespace(like)
    kind = default_float(xp, like)
    if isinstance(cell, float):
        return xp.asarray([cell], dtype=kind, device=device(like))
    return xp.astype(move(cell, like), kind, copy=False)


def _distinct(scores: Array) -> Array:
    """Return which of the n + 1 cuts fall between two different scores (or at an end)."""
    xp = array_namespace(scores)
    end = xp.ones((1,), dtype=xp.bool, device=device(scores))
    return xp.concat((end, scores[1:] != scores[:-1], end))


# choosing among the cuts


def _search(
    cuts: _Cuts,
    grid: FloatGrid,
    target: float,
    candidates: Array | None,
    *,
    span: tuple[float, float] = (0.0, 1.0),
    ties: Ties = "nearest",
    caution: float = 0.0,
) -> Threshold:
    goal = grid.round(target)
    span = (grid.round(span[0]), grid.round(span[1]))
    if candidates is not None:
        return _best_candidate(cuts, goal, candidates, span, ties, caution)
    goal = span[0] if ties == "lowest" else min(max(goal, span[0]), span[1])
    return _best_cut(cuts, grid, goal, span, caution)


def _best_cut(cuts: _Cuts, grid: FloatGrid, goal: float, span: tuple[float, float], caution: float) -> Threshold:
    xp = array_namespace(cuts.scores)
    costs = cuts.missed + cuts.alarmed
    costs[~_distinct(cuts.scores)] = xp.inf
    optimal = xp.nonzero(costs <= xp.min(costs) * (1.0 + TIE_TOLERANCE))[0]
    if caution and cuts.squares is not None:
        own = count_true(cuts.scores <= goal)  # the cut that deciding at the goal makes
        optimal = _nearly_optimal(costs, cuts.squares, optimal, own, caution)
    below, above = _neighbours(cuts.scores, optimal)
    found = _Optima(optimal, xp.take(costs, optimal), below, above)
    return _choose(found, cuts.scores.shape[0], cuts.base, grid, goal, span)


def _nearly_optimal(costs: Array, squares: Array, optimal: Array, own: int, caution: float) -> Array:
    """Return the cuts from an optimal one towards ``own`` that may be as cheap, for all that the samples can tell.

    Two cuts differ by the samples between them, and so does their cost: its standard error is the root of the sum of
    these samples' squared stakes.
    """
    xp = array_namespace(costs)
    best = int(optimal[int(xp.argmin(xp.abs(optimal - own)))])
    low, high = min(best, own), max(best, own)
    excess = costs[low : high + 1] - costs[best]
    error = xp.abs(squares[low : high + 1] - squares[best]) ** 0.5
    return low + xp.nonzero((excess <= caution * error) | (excess <= 0.0))[0]


def _best_packed_cut(samples: _Samples, goal: float) -> Threshold:
    """Find the cheapest cut of class-wide costs in as few passes over the samples as possible.

    Calling one more negative negative always saves something, so a cheapest cut lies just below a positive or above
    everything: cut number j of these misses j positives, and only their positions are needed.
    """
    keys = _sorted_keys(samples.scores, samples.positive)
    xp = array_namespace(keys)
    costs, n = samples.costs, keys.shape[0]
    cut = xp.concat((xp.nonzero(keys & 1)[0], xp.full((1,), n, dtype=xp.int64, device=device(keys))))
    positives = cut.shape[0] - 1
    missed = xp.arange(positives + 1, dtype=default_float(xp, keys), device=device(keys))
    alarmed = missed + xp.astype((n - positives) - cut, missed.dtype)
    missed *= costs.fn - costs.tp
    alarmed *= costs.fp - costs.tn
    total = missed + alarmed
    optimal = xp.nonzero(total <= xp.min(total) * (1.0 + TIE_TOLERANCE))[0]
    cut, total = xp.take(cut, optimal), xp.take(total, optimal)
    below, above = _neighbours(keys, cut)
    below, above = _scores_of(below, samples.scores), _scores_of(above, samples.scores)
    # no cut divides equal scores (positives come first among them, so it is no cheaper, but may count as a tie)
    real = (cut == 0) | (cut == n) | (below != above)
    found = _Optima(cut[real], total[real], below[real], above[real])
    base = costs.tp * positives + costs.tn * (n - positives)
    return _choose(found, n, base, samples.grid, goal, (0.0, 1.0))


def _neighbours(rising: Array, cut: Array) -> tuple[Array, Array]:
    """Return the values just below and just above each cut (at the ends, those of the nearest sample)."""
    xp = array_namespace(rising)
    lower, upper = cut > 0, cut == rising.shape[0]
    return xp.take(rising, cut - xp.astype(lower, cut.dtype)), xp.take(rising, cut - xp.astype(upper, cut.dtype))


def _choose(found: _Optima, n: int, base: float, grid: FloatGrid, goal: float, span: tuple[float, float]) -> Threshold:
    """Take the point nearest ``goal`` of all equally cheap thresholds."""
    xp = array_namespace(found.costs)
    kind = found.costs.dtype
    # thresholds from low up to (not including) high call the same samples negative
    low = xp.where(found.cut == 0, span[0], xp.astype(found.below, kind))
    high = xp.where(found.cut == n, xp.inf, xp.astype(found.above, kind))
    nearest = _nearest_interval(low, high, goal)
    first, last = _joined_interval(low, high, nearest)
    value = _point_of(float(low[nearest]), float(high[nearest]), goal, grid)
    return Threshold(
        value,
        float(found.costs[nearest]) + base,
        min(float(low[first]), value),
        min(float(high[last]), span[1]),
    )


def _nearest_interval(low: Array, high: Array, goal: float) -> int:
    """Return which of the rising intervals ``[low, high)`` holds ``goal``, or else is nearest (the lower of two)."""
    below = count_true(high <= goal)
    if below == low.shape[0]:
        return below - 1
    if below == 0 or float(low[below]) <= goal:
        return below
    return below if float(low[below]) - goal < goal - float(high[below - 1]) else below - 1


def _point_of(low: float, high: float, goal: float, grid: FloatGrid) -> float:
    if low >= high:  # only the cut below every score: a score of 0 (or on the span's border) has to be positive
        return grid.below(high)
    if goal >= high:
        return grid.below(high)
    return max(low, goal)


def _joined_interval(low: Array, high: Array, nearest: int) -> tuple[int, int]:
    """Return the first and last of the optimal cuts that touch each other around the nearest one."""
    xp = array_namespace(low)
    gaps = xp.nonzero(high[:-1] != low[1:])[0]  # a gap after cut g
    before, after = gaps[gaps < nearest], gaps[gaps >= nearest]
    first = int(before[-1]) + 1 if before.shape[0] else 0
    last = int(after[0]) if after.shape[0] else low.shape[0] - 1
    return first, last


def _best_candidate(
    cuts: _Cuts, goal: float, candidates: Array, span: tuple[float, float], ties: Ties, caution: float
) -> Threshold:
    xp = array_namespace(cuts.scores)
    allowed = candidates[(candidates >= span[0]) & (candidates <= span[1])]
    if allowed.shape[0] == 0:
        raise ValueError(f"no candidate threshold lies between {span[0]:g} and {span[1]:g}; give a finer grid")
    cut = xp.searchsorted(cuts.scores, allowed, side="right")
    costs = xp.take(cuts.missed + cuts.alarmed, cut)
    optimal = xp.nonzero(costs <= xp.min(costs) * (1.0 + TIE_TOLERANCE))[0]
    if caution and cuts.squares is not None:
        own = int(xp.argmin(xp.abs(allowed - goal)))
        optimal = _nearly_optimal(costs, xp.take(cuts.squares, cut), optimal, own, caution)
    distance = xp.abs(xp.take(allowed, optimal) - goal)
    chosen = 0 if ties == "lowest" else int(xp.argmin(distance))
    # neighbours on the grid that are as cheap belong to one interval
    first, last = _joined_interval(optimal, optimal + 1, chosen)
    value, low, high = (float(allowed[int(optimal[k])]) for k in (chosen, first, last))
    return Threshold(value, float(costs[int(optimal[chosen])]) + cuts.base, low, high)


def _as_candidates(candidates: Array | None, scores: Array, grid: FloatGrid) -> Array | None:
    """Return candidates in rising order, as numbers that the scores' own type can hold."""
    if candidates is None:
        return None
    xp: Any = array_namespace(scores)
    array = move(as_vector(candidates, "candidates"), scores)
    array = xp.sort(widen(xp.astype(array, getattr(xp, grid.name))))
    check_finite(array, "candidates")
    return array


def paper_grid() -> Array:
    """Return the thresholds the authors' code tries: 0, 0.005, ..., 0.9."""
    return np.arange(181) / 200.0


__all__ = [
    "CostCurve",
    "Threshold",
    "Ties",
    "check_caution",
    "check_target",
    "cost_curve",
    "find_threshold",
    "paper_grid",
    "subgroup_thresholds",
]
