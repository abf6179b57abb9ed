"""Costs that are known as ranges: where decisions change, and what they cost in between.

Two classes. What a decision depends on is one number, the ratio (fn - tp) : (fp - tn); ranges move it by a factor on
the cost of a false negative above that of a true positive. Per-sample costs keep their proportions: all rise by the
same factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base import arrays
from adacsl.base.arrays import Array, as_host
from adacsl.costs.matrix import CostMatrix, check_binary

__all__ = [
    "WIDTH",
    "cost_at_factors",
    "cost_of_kept",
    "factors_of",
    "flip_factors",
    "flip_ratios",
    "rows_at_factors",
    "share_undecided",
]


WIDTH = 2.0
"""Where no range was said: from half to double the ratio."""

FREE = 100.0
"""A range from nothing is looked at from this part of its high end."""


def flip_ratios(probabilities: Array) -> NDArray[np.float64]:
    """Return the cost ratio at which each decision changes: above it, positive costs less.

    A ratio of 9 means: as soon as a false negative costs more than nine false positives, the sample is called positive.
    0 for samples that are positive at any ratio, infinity for those that never are.

    Examples
    --------
    >>> flip_ratios([0.0, 0.1, 0.5, 1.0]).tolist()
    [inf, 9.0, 1.0, 0.0]
    """
    positive = _positive(probabilities)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray((1.0 - positive) / positive)


def flip_factors(probabilities: Array, costs: CostMatrix) -> NDArray[np.float64]:
    """Return the factor on the cost of false negatives above which each sample is called positive.

    Samples with a factor above 1 are called negative now, the others positive; those near 1 depend on the costs.
    Infinity where no cost of a false negative changes the decision: a probability of 0, or a false negative that costs
    no more than a true positive.

    Examples
    --------
    >>> flip_factors([0.25, 0.25], CostMatrix(fp=1, fn=[1, 6])).tolist()
    [3.0, 0.5]
    """
    positive = _positive(probabilities)
    alarm, miss = _stakes(costs.deciding, len(positive))
    with np.errstate(divide="ignore", over="ignore"):
        gain, loss = positive * miss, (1.0 - positive) * alarm
        return np.where(gain > 0, loss / np.where(gain > 0, gain, 1.0), np.inf)


def share_undecided(probabilities: Array, costs: CostMatrix, low: float, high: float) -> float:
    """Return the share of samples whose least-cost decision changes between a low and a high cost of false negatives.

    Parameters
    ----------
    probabilities : array of shape (n,) or (n, 2)
        Of the positive class, or of both.
    costs : CostMatrix
        Of two classes; class-wide or of each row.
    low, high : float
        Factors on the cost of a false negative (above that of a true positive): 0.5 and 2 mean from half to double.

    Examples
    --------
    >>> share_undecided([0.01, 0.1, 0.2, 0.9], CostMatrix(fp=1, fn=8), 0.5, 2)
    0.5
    """
    _check_factors(low, high)
    flips = flip_factors(probabilities, costs)
    # positive needs more than the factor at which both decisions cost the same
    return float(np.mean((flips >= low) & (flips < high)))


def cost_at_factors(probabilities: Array, labels: Array, costs: CostMatrix, factors: Array) -> NDArray[np.float64]:
    """Return the mean cost at each factor on the false negatives, every row decided again at each cost.

    One sort serves all factors.

    Examples
    --------
    >>> cost_at_factors([0.05, 0.2, 0.9], [0, 1, 1], CostMatrix(fp=1, fn=8), [0.25, 1, 4]).tolist()
    [0.6666666666666666, 0.0, 0.3333333333333333]
    """
    flips = flip_factors(probabilities, costs)
    at = _factors(factors)
    alarmed, missed, right = _paid(labels, costs, len(flips))
    order = np.argsort(flips, kind="stable")
    # so many rows, those that flip first, are positive at each factor
    positive = np.searchsorted(flips[order], at, side="left")
    fp_sums, fn_sums = (np.concatenate(([0.0], np.cumsum(part[order]))) for part in (alarmed, missed))
    paid = right.sum() + fp_sums[positive] + at * (fn_sums[-1] - fn_sums[positive])
    return np.asarray(paid / len(flips))


def cost_of_kept(decisions: Array, labels: Array, costs: CostMatrix, factors: Array) -> NDArray[np.float64]:
    """Return the mean cost of decisions that stay as they are, at each factor on the false negatives.

    Examples
    --------
    >>> cost_of_kept([0, 1, 0], [0, 0, 1], CostMatrix(fp=1, fn=8), [0.5, 1, 2]).tolist()
    [1.6666666666666667, 3.0, 5.666666666666667]
    """
    positive = as_host(arrays.as_classes(decisions, 2, "decisions")) == 1
    at = _factors(factors)
    alarmed, missed, right = _paid(labels, costs, len(positive))
    return np.asarray((right.sum() + alarmed[positive].sum() + at * missed[~positive].sum()) / len(positive))


def rows_at_factors(flips: Array, labels: Array, costs: CostMatrix, factors: Array) -> Iterator[NDArray[np.float64]]:
    """Yield the cost of each sample at each factor on false negatives; samples above their flip factor are positive.

    Parameters
    ----------
    flips : array of shape (n,)
        From :func:`flip_factors`; of decisions that stay, -infinity where they are positive and infinity elsewhere.
    labels : array of shape (n,)
        0 or 1.
    costs : CostMatrix
        Of two classes; class-wide or of each row.
    factors : array of shape (f,)
        On the cost of a false negative (above that of a true positive).

    Examples
    --------
    >>> costs = CostMatrix(fp=1, fn=8)
    >>> flips = flip_factors([0.05, 0.2, 0.9], costs)
    >>> [rows.tolist() for rows in rows_at_factors(flips, [0, 1, 1], costs, [0.25, 4])]
    [[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]
    """
    flips = np.asarray(as_host(flips), dtype=np.float64)
    alarmed, missed, right = _paid(labels, costs, len(flips))
    for factor in _factors(factors).tolist():
        yield right + np.where(flips < factor, alarmed, factor * missed)


def factors_of(costs: CostMatrix, ranges: Mapping[str, Any] | None = None) -> tuple[float, float]:
    """Return the lowest and the highest factor on the false negatives that ranges of costs come to.

    Parameters
    ----------
    costs : CostMatrix
        Of two classes, with the costs that stand for the ranges; those of rows by their means.
    ranges : mapping from fp, fn, tp, tn to (low, high), optional
        Default: from half to double the ratio.

    Notes
    -----
    The ratio of an error that may cost nothing has no end: such a range is looked at from a hundredth of its high end.

    Examples
    --------
    >>> factors_of(CostMatrix(fp=2, fn=10), {"fp": (1, 2), "fn": (5, 20)})
    (0.5, 4.0)
    >>> factors_of(CostMatrix(fp=2, fn=10))
    (0.5, 2.0)
    """
    check_binary(costs)
    if not ranges:
        return 1 / WIDTH, WIDTH
    if unknown := sorted(set(ranges) - {"fp", "fn", "tp", "tn"}):
        raise ValueError(f"ranges are those of fp, fn, tp and tn, got {unknown[0]!r}")
    mean = costs.averaged()
    ends = {name: _ends(ranges.get(name, getattr(mean, name)), name) for name in ("fp", "fn", "tp", "tn")}
    alarm, miss = (_stake(ends[error], ends[right], error, right) for error, right in (("fp", "tn"), ("fn", "tp")))
    ratio = float(mean.ratio)
    return miss[0] / alarm[1] / ratio, miss[1] / alarm[0] / ratio


def _stake(error: tuple[float, float], right: tuple[float, float], name: str, other: str) -> tuple[float, float]:
    """Return the least and the most that an error may cost above being right."""
    low, high = error[0] - right[1], error[1] - right[0]
    if low < 0 or high <= 0:
        raise ValueError(
            f"an error must cost more than being right all over the range, but {name} may be {error[0]:g} and "
            f"{other} {right[1]:g}: raise the low end of {name}"
        )
    return low or high / FREE, high


def _ends(cost: Any, name: str) -> tuple[float, float]:
    low, high = cost if isinstance(cost, tuple | list) else (cost, cost)
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError(f"the range of {name} must be two numbers, the lower first, got {cost!r}")
    return float(low), float(high)


def _check_factors(low: float, high: float) -> None:
    if not 0 < low <= high < np.inf:
        raise ValueError(f"a range of factors must be positive, the lower first, got {low!r} to {high!r}")


def _factors(factors: Array) -> NDArray[np.float64]:
    result = np.asarray(as_host(factors), dtype=np.float64)
    if result.ndim != 1 or not (np.isfinite(result) & (result > 0)).all():
        raise ValueError("factors must be a vector of positive numbers")
    return result


def _positive(probabilities: Array) -> NDArray[np.float64]:
    result = np.asarray(as_host(arrays.as_probabilities(probabilities, 2)), dtype=np.float64)
    return result if result.ndim == 1 else result[:, 1]


def _stakes(costs: CostMatrix, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a false positive and a false negative cost more than being right, of each row."""
    check_binary(costs)
    if costs.n_instances not in (None, n):
        raise ValueError(f"these costs belong to {costs.n_instances} samples, got {n}: select their costs with .rows()")
    alarm, miss = (np.broadcast_to(as_host(part), (n,)) for part in (costs.fp - costs.tn, costs.fn - costs.tp))
    return alarm, miss


def _paid(labels: Array, costs: CostMatrix, n: int) -> tuple[NDArray[np.float64], ...]:
    """Return what each row costs if it is called positive, and if negative, and what it costs anyway."""
    true = as_host(arrays.as_classes(labels, 2, "labels")) == 1
    if len(true) != n:
        raise ValueError(f"there must be one label for each of {n} rows, got {len(true)}")
    alarm, miss = _stakes(costs, n)
    right = np.where(true, as_host(costs.tp), as_host(costs.tn))
    return np.where(true, 0.0, alarm), np.where(true, miss, 0.0), right
