"""The exact cost-optimal threshold of a set of scores, and the cost curve it is read from.

Every cut between two distinct scores is evaluated, in O(n log n), on the device of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from adacsl.base import floats
from adacsl.base.arrays import (
    Array,
    OutsideError,
    as_host,
    as_vector,
    check_finite,
    count_true,
    default_float,
    move,
    number_or_nan,
    widen,
)
from adacsl.base.html import html_record
from adacsl.costs.matrix import CostMatrix
from adacsl.thresholds.constraints import GRID, Constraints, Counts, counts_of
from adacsl.thresholds.sorted_scores import (
    Cuts,
    Ranks,
    Samples,
    can_pack,
    cut_costs,
    distinct_cuts,
    rising_order,
    scores_of,
    sorted_keys,
)

TIE_TOLERANCE = 1e-12
"""Costs this close (relative) count as equal: sums of floats differ in the last digits with the order of addition."""

ROUNDING = 1e-9
"""Standard errors this close (relative) count as equal: they come from differences of sums."""


class Threshold(NamedTuple):
    """A cost-optimal threshold: the decisions ``score > value`` have exactly this cost.

    Attributes
    ----------
    value : float
        The threshold.
    cost : float
        The mean cost per sample, weighted by ``sample_weight``; NaN for a subgroup without weight.
    total_cost : float
        The (weighted) sum of the costs of all samples.
    low : float
        Lower end of ``[low, high)``, the interval of thresholds with the same cost that contains ``value``.
    high : float
        Upper end of that interval. It is closed where it ends at 1 and where candidates were given (then both ends are
        candidates). For scores outside [0, 1], ``value`` is the middle of the interval, and its ends are scores, or
        just below the lowest.

    See Also
    --------
    adacsl.find_threshold : Returns it.

    Examples
    --------
    >>> from adacsl import CostMatrix, find_threshold
    >>> best = find_threshold([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1], CostMatrix(fp=1, fn=8))
    >>> best.cost, best.low, best.high
    (0.25, 0.1, 0.3)
    """

    value: float
    cost: float
    total_cost: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, total_cost: float, size: float, low: float, high: float) -> Threshold:
        """Return the threshold of samples whose weights sum to ``size``.

        Parameters
        ----------
        value : float
            The threshold.
        total_cost : float
            The sum of the costs of all samples.
        size : float
            The number of samples, or the sum of their weights.
        low : float
            Lower end of the interval of equal cost.
        high : float
            Upper end of the interval of equal cost.

        Returns
        -------
        Threshold
            With the mean cost, ``total_cost / size``.
        """
        return cls(value, total_cost / size if size else math.nan, total_cost, low, high)

    def _repr_html_(self) -> str:
        return html_record(self, "Cost-optimal threshold")


class CostCurve(NamedTuple):
    """The cost of every candidate threshold: of every distinct division of the samples.

    Attributes
    ----------
    thresholds : array of shape (m,)
        The first lies below all scores (every decision is positive), the others are the distinct scores in rising
        order.
    costs : array of shape (m,)
        The mean cost per sample of the decisions ``score > thresholds[k]``, weighted by ``sample_weight``.
    total_costs : array of shape (m,)
        The (weighted) sums of the costs of all samples.
    false_negatives : array of shape (m,)
        The avoidable part of ``total_costs`` that false negatives cause: their cost beyond that of correct decisions.
    false_positives : array of shape (m,)
        The same of false positives.

    See Also
    --------
    adacsl.cost_curve : Returns it.

    Examples
    --------
    >>> from adacsl import CostMatrix, cost_curve
    >>> cost_curve([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1], CostMatrix(fp=1, fn=8))
    CostCurve(5 thresholds, lowest mean cost 0.25 at 0.1)
    """

    thresholds: Array
    costs: Array
    total_costs: Array
    false_negatives: Array
    false_positives: Array

    def __repr__(self) -> str:
        xp = array_namespace(self.costs)
        best = int(xp.argmin(self.costs))
        cost, cut = float(self.costs[best]), float(self.thresholds[best])
        return f"CostCurve({self.costs.shape[0]} thresholds, lowest mean cost {cost:.4g} at {cut:.4g})"

    def _repr_html_(self) -> str:
        return html_record(self, "Cost of every threshold")


def find_threshold(
    scores: Array,
    labels: Array,
    costs: CostMatrix,
    *,
    target_threshold: float = 0.5,
    candidates: Array | None = None,
    sample_weight: Array | None = None,
    n_standard_errors: float = 0.0,
    min_recall: float | None = None,
    min_precision: float | None = None,
    max_fpr: float | None = None,
    max_positive_rate: float | None = None,
    confidence: float | None = 0.95,
    segments: Any = None,
) -> Threshold:
    """Return the cost-optimal threshold; among equally good ones, the point nearest ``target_threshold``.

    With constraints: the cost-optimal one of all thresholds whose constraints hold on new data with the ``confidence``.

    Parameters
    ----------
    scores : array of shape (n,)
        Probabilities of the positive class, on any device. Other scores (logits, points) are allowed too, but
        ``target_threshold``, ``candidates`` and ``n_standard_errors`` need probabilities.
    labels : array of shape (n,)
        0 or 1.
    costs : CostMatrix
        For two classes; class-wide or per sample.
    target_threshold : float, default 0.5
        Among thresholds of equal cost, the one nearest to this is chosen (the paper's T').
    candidates : array, optional
        The only thresholds to consider, as in the paper (0, 0.005, ..., 0.9). Default: one between any two distinct
        scores.
    sample_weight : array of shape (n,), optional
        The weight of each sample.
    n_standard_errors : float, default 0.0
        Choose the point nearest ``target_threshold`` whose cost is at most this many standard errors above the optimum:
        differences on a few samples may be random. 0 chooses the optimum itself.
    min_recall : float, optional
        Least share of the positives that are predicted positive.
    min_precision : float, optional
        Least share of positives among the samples predicted positive.
    max_fpr : float, optional
        Largest share of the negatives that are predicted positive.
    max_positive_rate : float, optional
        Largest share of all samples that are predicted positive.
    confidence : float or None, default 0.95
        Probability that all constraints hold on new data. It needs scores of a fixed model on independent samples that
        chose neither model nor calibration, and no ``sample_weight``. None: the constraints hold on these samples.
    segments : array of shape (n,), optional
        A value for each sample, such as its region: ``min_recall`` then holds within each of them.

    Returns
    -------
    Threshold
        The threshold, its mean and total cost, and the interval of thresholds with the same cost.

    Raises
    ------
    InfeasibleError
        Where no threshold meets the constraints: what is attainable, and how many more samples would be needed.
    ValueError
        Where the arrays do not fit together, or a setting needs probabilities and the scores are none.

    See Also
    --------
    adacsl.cost_curve : The cost of every threshold.
    adacsl.thresholds.find_multipliers : More than two classes.
    adacsl.Decision : Thresholds and calibration, fitted on held-out scores.

    Notes
    -----
    Recall, FPR and positive rate are certified by exact binomial bounds on order statistics, precision at 64 numbers
    of predicted positives that are fixed before, with Holm's form of Bonferroni's correction. Several constraints share
    the error ``1 - confidence``. Ties only make the test stricter. See :doc:`/guide/constraints/minimum-recall`.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, find_threshold
    >>> find_threshold([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1], CostMatrix(fp=1, fn=8))
    Threshold(value=0.29999999999999993, cost=0.25, total_cost=1.0, low=0.1, high=0.3)
    >>> find_threshold([-4.0, -1.0, 2.0, 3.0], [0, 1, 0, 1], CostMatrix(fp=1, fn=8))
    Threshold(value=-2.5, cost=0.25, total_cost=1.0, low=-4.0, high=-1.0)

    At least 90 % of the positives, with 95 % confidence on new data:

    >>> rng, costs = np.random.default_rng(0), CostMatrix(fp=1, fn=2)
    >>> labels = rng.random(2000) < 0.2
    >>> scores = 1 / (1 + np.exp(2 - rng.normal(2.5 * labels, 1.0)))
    >>> round(find_threshold(scores, labels, costs).value, 3)
    0.345
    >>> round(find_threshold(scores, labels, costs, min_recall=0.9).value, 3)
    0.274
    """
    target_threshold, n_standard_errors = check_target(target_threshold), check_standard_errors(n_standard_errors)
    constraints = Constraints.of(
        Constraints(min_recall, min_precision, max_fpr, max_positive_rate, confidence=confidence)
    )
    if constraints is not None and sample_weight is not None and confidence is not None:
        raise ValueError(
            "a constraint with confidence needs samples that count alike: leave out sample_weight, or pass "
            "confidence=None (the constraint then holds on these samples)"
        )
    try:
        samples = Samples.of(scores, labels, costs, sample_weight)
    except OutsideError as error:
        if target_threshold != 0.5 or n_standard_errors or candidates is not None:
            raise ValueError(f"{error}: target, candidates and n_standard_errors need probabilities") from None
        ranks = Ranks.of(scores)
        limits = {} if constraints is None else constraints.limits | {"segments": segments}
        result = find_threshold(ranks.scores, labels, costs, sample_weight=sample_weight, **limits)
        return outer_threshold(result, ranks)
    if segments is not None:
        if constraints is None or constraints.min_recall is None or sample_weight is not None:
            raise ValueError("segments are those within which min_recall holds: give it, and no sample_weight")
        own = (np.asarray(as_host(samples.scores)), np.asarray(as_host(samples.positive)))
        constraints = constraints.within_segments(*own, segments)
    if candidates is None and not n_standard_errors and can_pack(samples):
        return _best_packed_cut(samples, floats.nearest(samples.kind, target_threshold), constraints)
    cuts = cut_costs(samples, squares=n_standard_errors > 0.0)
    if constraints is not None:
        cuts, candidates = _constrained(cuts, samples, constraints, candidates)
    return _search(cuts, samples.kind, target_threshold, candidates, n_standard_errors=n_standard_errors)


def outer_threshold(result: Threshold, ranks: Ranks) -> Threshold:
    """Return a threshold of ranks as one of the scores behind them."""
    low, high = ranks.outer(result.low), ranks.outer(result.high)
    # nothing lies between a number and the next one below the lowest score
    value = low if high == math.nextafter(low, math.inf) else low / 2.0 + high / 2.0
    return result._replace(value=value, low=low, high=high)


def cost_curve(scores: Array, labels: Array, costs: CostMatrix, *, sample_weight: Array | None = None) -> CostCurve:
    """Return the cost of every candidate threshold.

    Parameters
    ----------
    scores : array of shape (n,)
        Probabilities of the positive class or any other scores, on any device.
    labels : array of shape (n,)
        0 or 1.
    costs : CostMatrix
        For two classes; class-wide or per sample.
    sample_weight : array of shape (n,), optional
        The weight of each sample.

    Returns
    -------
    CostCurve
        Thresholds with their mean and total costs.

    See Also
    --------
    adacsl.find_threshold : The lowest point.
    adacsl.report.CostCurveDisplay : The same as a plot.

    Examples
    --------
    >>> from adacsl import CostMatrix, cost_curve
    >>> curve = cost_curve([0.1, 0.3, 0.6, 0.8], [0, 1, 0, 1], CostMatrix(fp=1, fn=8))
    >>> curve.costs.tolist()
    [0.5, 0.25, 2.25, 2.0, 4.0]
    >>> curve.total_costs.tolist()
    [2.0, 1.0, 9.0, 8.0, 16.0]
    """
    try:
        samples = Samples.of(scores, labels, costs, sample_weight)
    except OutsideError:
        ranks = Ranks.of(scores)
        curve = cost_curve(ranks.scores, labels, costs, sample_weight=sample_weight)
        xp = array_namespace(ranks.distinct)
        first = xp.asarray([ranks.outer(0.0)], dtype=ranks.distinct.dtype, device=device(ranks.distinct))
        return curve._replace(thresholds=xp.concat((first, ranks.distinct)))
    cuts = cut_costs(samples)
    xp = array_namespace(cuts.scores)
    distinct = distinct_cuts(cuts.scores)
    below = floats.below(samples.kind, float(cuts.scores[0]))
    first = xp.asarray([below], dtype=cuts.scores.dtype, device=device(cuts.scores))
    missed, alarmed = cuts.missed[distinct], cuts.alarmed[distinct]
    total = missed + alarmed + cuts.base
    return CostCurve(xp.concat((first, cuts.scores))[distinct], total / cuts.size, total, missed, alarmed)


def subgroup_thresholds(
    scores: Array, labels: Array, costs: CostMatrix, subgroups: Array, *,
    target_threshold: float, candidates: Array | None = None, sample_weight: Array | None = None,
    n_standard_errors: float = 0.0,
    edges: Sequence[float] | None = None, ties: Literal["nearest", "lowest"] = "nearest",
) -> tuple[list[Threshold], list[float]]:  # fmt: skip
    """Return the cost-optimal threshold and the size (or weight) of each non-empty subgroup, from one sort.

    ``edges`` confines the search of subgroup m to ``[edges[m], edges[m + 1]]``.
    """
    samples = Samples.of(scores, labels, costs, sample_weight)
    xp = array_namespace(samples.scores)
    numbers = move(as_vector(subgroups, "subgroups"), samples.scores)
    if numbers.shape[0] != samples.scores.shape[0]:
        raise ValueError(f"the partition numbered {numbers.shape[0]} of {samples.scores.shape[0]} samples")
    order = rising_order(samples.scores)
    order = xp.take(order, xp.argsort(xp.take(numbers, order), stable=True))
    result = xp.unique_counts(numbers)
    results, sizes, start = [], [], 0
    for number, size in sorted((int(v), int(c)) for v, c in zip(result.values, result.counts, strict=True)):
        members = order[start : start + size]
        start += size
        own, positive = xp.take(samples.scores, members), xp.take(samples.positive, members)
        weight = None if samples.weight is None else xp.take(samples.weight, members)
        part = Samples(own, positive, samples.costs.rows(members), weight, samples.kind)
        span = (0.0, 1.0) if edges is None else (float(edges[number]), float(edges[number + 1]))
        cuts = cut_costs(part, rising=True, squares=n_standard_errors > 0.0)
        lowest = ties == "lowest"
        results.append(
            _search(
                cuts,
                samples.kind,
                target_threshold,
                candidates,
                span=span,
                lowest=lowest,
                n_standard_errors=n_standard_errors,
            )
        )
        sizes.append(float(size) if weight is None else float(xp.sum(weight)))
    return results, sizes


def check_target(target_threshold: float) -> float:
    """Return a threshold strictly between 0 and 1, or raise."""
    if not 0.0 < (number := number_or_nan(target_threshold)) < 1.0:
        raise ValueError(f"target_threshold must lie strictly between 0 and 1, got {target_threshold!r}")
    return number


def check_standard_errors(n_standard_errors: float) -> float:
    """Return a number of standard errors, 0 or more, or raise."""
    if not 0.0 <= (number := number_or_nan(n_standard_errors)) < math.inf:
        raise ValueError(
            f"n_standard_errors must be a finite number of standard errors from 0, got {n_standard_errors!r}"
        )
    return number


# choosing among the cuts


def _search(
    cuts: Cuts, kind: str, target_threshold: float, candidates: Array | None, *,
    span: tuple[float, float] = (0.0, 1.0), lowest: bool = False, n_standard_errors: float = 0.0,
) -> Threshold:  # fmt: skip
    goal = floats.nearest(kind, target_threshold)
    span = (floats.nearest(kind, span[0]), floats.nearest(kind, span[1]))
    if candidates is not None:
        return _best_candidate(
            cuts, goal, _as_candidates(candidates, cuts.scores, kind), span, n_standard_errors, lowest=lowest
        )
    goal = span[0] if lowest else min(max(goal, span[0]), span[1])
    return best_cut(cuts, kind, goal, span, n_standard_errors)


def best_cut(
    cuts: Cuts, kind: str, goal: float, span: tuple[float, float], n_standard_errors: float = 0.0
) -> Threshold:
    """Return the point nearest ``goal`` of the cost-optimal cuts, or of those not significantly more costly."""
    xp = array_namespace(cuts.scores)
    costs = cuts.missed + cuts.alarmed
    costs[~distinct_cuts(cuts.scores)] = xp.inf
    optimal = xp.nonzero(costs <= xp.min(costs) * (1.0 + TIE_TOLERANCE))[0]
    if n_standard_errors and cuts.squares is not None:
        own = count_true(cuts.scores <= goal)  # the cut that deciding at the goal makes
        optimal = _nearly_optimal(costs, cuts.squares, optimal, own, n_standard_errors)
    low, high = _intervals(optimal, *_neighbours(cuts.scores, optimal), cuts.scores.shape[0], costs.dtype, span[0])
    return _choose(xp.take(costs, optimal), low, high, (cuts.base, cuts.size), kind, goal, span)


def _nearly_optimal(costs: Array, squares: Array, optimal: Array, own: int, n_standard_errors: float) -> Array:
    """Return the cuts from an optimal one towards ``own`` whose cost is not significantly higher.

    Two cuts differ by the samples between them, and so does their cost: its standard error is the root of the sum of
    these samples' squared stakes.
    """
    xp = array_namespace(costs)
    best = int(optimal[int(xp.argmin(xp.abs(optimal - own)))])
    low, high = min(best, own), max(best, own)
    excess = costs[low : high + 1] - costs[best]
    error = xp.abs(squares[low : high + 1] - squares[best]) ** 0.5
    # one row apart, the excess is its standard error: at n_standard_errors 1 that is a tie, which rounding must not
    # break
    return low + xp.nonzero((excess <= n_standard_errors * error * (1.0 + ROUNDING)) | (excess <= 0.0))[0]


def _constrained(
    cuts: Cuts, samples: Samples, constraints: Constraints, candidates: Array | None
) -> tuple[Cuts, Array | None]:
    """Return the cuts, infinitely costly where they violate a constraint, and the candidates that are left to try."""
    xp = array_namespace(cuts.scores)
    rising = np.asarray(as_host(cuts.scores))
    weight = None if samples.weight is None else np.asarray(as_host(samples.weight))
    own = (np.asarray(as_host(samples.scores)), np.asarray(as_host(samples.positive)), weight)

    def of(thresholds: Any) -> Counts:
        return counts_of(*own, thresholds)

    if candidates is None and not constraints.needs_grid:
        thresholds = np.concatenate(([floats.below(samples.kind, float(rising[0]))], rising))
        counts = of(thresholds)
        allowed = np.asarray(constraints.allowed(counts))
        if not allowed.any():
            raise constraints.refuse(counts)
        costs = xp.where(xp.asarray(~allowed, device=device(cuts.scores)), xp.inf, cuts.missed)
        return cuts._replace(missed=costs), None
    if candidates is None:
        fixed = rising[len(rising) - constraints.grid(len(rising)) - 1]
    else:
        fixed = np.asarray(as_host(_as_candidates(candidates, cuts.scores, samples.kind)))
    counts = of(fixed)
    allowed = np.asarray(constraints.allowed(counts, len(fixed) if candidates is not None else GRID))
    if not allowed.any():
        raise constraints.refuse(of(np.unique(rising)) if candidates is None else counts)
    return cuts, xp.asarray(fixed[allowed], device=device(cuts.scores))


def _best_packed_cut(samples: Samples, goal: float, constraints: Constraints | None = None) -> Threshold:
    """Find the cost-optimal cut of class-wide costs in as few passes over the samples as possible.

    Calling one more negative negative always saves something, so a cheapest cut lies just below a positive or above
    everything: cut number j of these has j false negatives, and only their positions are needed. That is so among the
    cuts that meet constraints on recall, FPR and positive rate, too; precision is tested at cuts of its own.
    """
    keys = sorted_keys(samples.scores, samples.positive)
    xp = array_namespace(keys)
    costs, n = samples.costs, keys.shape[0]
    cut = xp.concat((xp.nonzero(keys & 1)[0], xp.full((1,), n, dtype=xp.int64, device=device(keys))))
    positives = cut.shape[0] - 1
    missed = xp.arange(positives + 1, dtype=default_float(xp, keys), device=device(keys))
    alarmed = missed + xp.astype((n - positives) - cut, missed.dtype)
    if constraints is not None:
        cut, missed, alarmed = _allowed_cuts(keys, (cut, missed, alarmed), constraints)
    missed *= costs.fn - costs.tp
    alarmed *= costs.fp - costs.tn
    total = missed + alarmed
    optimal = xp.nonzero(total <= xp.min(total) * (1.0 + TIE_TOLERANCE))[0]
    cut, total = xp.take(cut, optimal), xp.take(total, optimal)
    below, above = _neighbours(keys, cut)
    below, above = scores_of(below, samples.scores), scores_of(above, samples.scores)
    # no cut divides equal scores (positives come first among them, so it is no cheaper, but may count as a tie)
    real = (cut == 0) | (cut == n) | (below != above)
    low, high = _intervals(cut[real], below[real], above[real], n, total.dtype, 0.0)
    base = costs.tp * positives + costs.tn * (n - positives)
    if constraints is not None and constraints.needs_grid:  # only the score itself is certified
        chosen = int(xp.argmin(xp.abs(low - goal)))
        value = float(low[chosen])
        return Threshold.of(value, float(total[real][chosen]) + base, float(n), value, value)
    return _choose(total[real], low, high, (base, float(n)), samples.kind, goal, (0.0, 1.0))


def _allowed_cuts(
    keys: Array, cuts: tuple[Array, Array, Array], constraints: Constraints
) -> tuple[Array, Array, Array]:
    """Return the cuts that meet the constraints: their positions, false negatives and false positives."""
    xp = array_namespace(keys)
    cut, missed, alarmed = cuts
    n, positives = keys.shape[0], cut.shape[0] - 1

    def counts(missed: Array, alarmed: Array) -> Counts:
        return Counts(missed, alarmed, float(positives), float(n - positives))

    if constraints.needs_grid:
        # behind all samples with the score of the grid: the key of a negative is the largest of a score
        at = n - xp.asarray(np.ascontiguousarray(constraints.grid(n)), device=device(keys))
        cut = xp.unique_values(xp.searchsorted(keys, ((xp.take(keys, at - 1) + 1) >> 1) << 1, side="right"))
        missed = xp.astype(xp.searchsorted(cuts[0][:-1], cut), missed.dtype)
        alarmed = missed + xp.astype((n - positives) - cut, missed.dtype)
    allowed = constraints.allowed(counts(missed, alarmed), GRID)
    if not constraints.needs_grid:
        # a cut between equal scores is none, and must not stand for one that violates a constraint
        last = xp.clip(cut, None, n - 1)
        first = xp.clip(cut - 1, 0, None)
        allowed &= (cut == 0) | (cut == n) | ((xp.take(keys, first) + 1) >> 1 != (xp.take(keys, last) + 1) >> 1)
    if not bool(xp.any(allowed)):
        positive = np.asarray(as_host(keys & 1), dtype=bool)
        above = np.concatenate(([0], np.cumsum(positive)))[
            np.asarray(as_host(cuts[0] if constraints.needs_grid else cut))
        ]
        raise constraints.refuse(counts(above, np.asarray(as_host(cuts[2]))))
    return cut[allowed], missed[allowed], alarmed[allowed]


def _neighbours(rising: Array, cut: Array) -> tuple[Array, Array]:
    """Return the values just below and just above each cut (at the ends, those of the nearest sample)."""
    xp = array_namespace(rising)
    lower, upper = cut > 0, cut == rising.shape[0]
    return xp.take(rising, cut - xp.astype(lower, cut.dtype)), xp.take(rising, cut - xp.astype(upper, cut.dtype))


def _intervals(cut: Array, below: Array, above: Array, n: int, kind: Any, start: float) -> tuple[Array, Array]:
    """Return where the thresholds of each cut begin and end: from low up to (not including) high they decide alike."""
    xp = array_namespace(cut)
    return xp.where(cut == 0, start, xp.astype(below, kind)), xp.where(cut == n, xp.inf, xp.astype(above, kind))


def _choose(
    costs: Array, low: Array, high: Array, samples: tuple[float, float], kind: str, goal: float,
    span: tuple[float, float],
) -> Threshold:  # fmt: skip
    """Return the point nearest ``goal`` of all equally cheap thresholds: intervals ``[low, high)`` with their costs.

    ``samples`` is the cost that no decision avoids, and the sum of the weights.
    """
    base, size = samples
    nearest = _nearest_interval(low, high, goal)
    first, last = _joined_interval(low, high, nearest)
    start, end, total = float(low[nearest]), float(high[nearest]), float(costs[nearest]) + base
    # an interval without points is the cut below every score: a score of 0 (or on the span's border) has to be positive
    value = floats.below(kind, end) if start >= end or goal >= end else max(start, goal)
    return Threshold.of(value, total, size, min(float(low[first]), value), min(float(high[last]), span[1]))


def _nearest_interval(low: Array, high: Array, goal: float) -> int:
    """Return which of the rising intervals ``[low, high)`` holds ``goal``, or else is nearest (the lower of two)."""
    below = count_true(high <= goal)
    if below == low.shape[0]:
        return below - 1
    if below == 0 or float(low[below]) <= goal:
        return below
    return below if float(low[below]) - goal < goal - float(high[below - 1]) else below - 1


def _joined_interval(low: Array, high: Array, nearest: int) -> tuple[int, int]:
    """Return the first and last of the optimal cuts that touch each other around the nearest one."""
    gaps = array_namespace(low).nonzero(high[:-1] != low[1:])[0]  # a gap after cut g
    before, after = gaps[gaps < nearest], gaps[gaps >= nearest]
    first = int(before[-1]) + 1 if before.shape[0] else 0
    last = int(after[0]) if after.shape[0] else low.shape[0] - 1
    return first, last


def _best_candidate(
    cuts: Cuts, goal: float, candidates: Array, span: tuple[float, float], n_standard_errors: float, *, lowest: bool
) -> Threshold:
    xp = array_namespace(cuts.scores)
    allowed = candidates[(candidates >= span[0]) & (candidates <= span[1])]
    if allowed.shape[0] == 0:
        raise ValueError(f"no candidate threshold lies between {span[0]:g} and {span[1]:g}; give a finer grid")
    cut = xp.searchsorted(cuts.scores, allowed, side="right")
    costs = xp.take(cuts.missed + cuts.alarmed, cut)
    optimal = xp.nonzero(costs <= xp.min(costs) * (1.0 + TIE_TOLERANCE))[0]
    if n_standard_errors and cuts.squares is not None:
        own = int(xp.argmin(xp.abs(allowed - goal)))
        optimal = _nearly_optimal(costs, xp.take(cuts.squares, cut), optimal, own, n_standard_errors)
    chosen = 0 if lowest else int(xp.argmin(xp.abs(xp.take(allowed, optimal) - goal)))
    # neighbours on the grid that are as cheap belong to one interval
    first, last = _joined_interval(optimal, optimal + 1, chosen)
    value, low, high = (float(allowed[int(optimal[k])]) for k in (chosen, first, last))
    return Threshold.of(value, float(costs[int(optimal[chosen])]) + cuts.base, cuts.size, low, high)


def _as_candidates(candidates: Array, scores: Array, kind: str) -> Array:
    """Return candidates in rising order, as numbers that the scores' own type can hold."""
    xp: Any = array_namespace(scores)
    array = move(as_vector(candidates, "candidates"), scores)
    array = xp.sort(widen(xp.astype(array, getattr(xp, kind))))
    check_finite(array, "candidates")
    return array


def paper_grid() -> Array:
    """Return the thresholds that the authors' code tries: 0, 0.005, ..., 0.9.

    Returns
    -------
    array of shape (181,)
        The candidates.

    Examples
    --------
    >>> from adacsl.thresholds import paper_grid
    >>> paper_grid()[:3].tolist()
    [0.0, 0.005, 0.01]
    """
    return np.arange(181) / 200.0
