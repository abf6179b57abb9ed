"""Bootstrap confidence intervals of a mean cost and of a paired difference."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from adacsl.base.arrays import Array, as_host
from adacsl.base.html import html_record
from adacsl.costs.matrix import CostMatrix

MANY = 200_000
"""With more samples, chance plays a small part: fewer draws measure it."""

FEW_KINDS = 1000
"""Up to so many different costs are drawn by their counts."""


class Interval(NamedTuple):
    """An estimate and its confidence interval.

    Attributes
    ----------
    estimate : float
        The estimate.
    low : float
        Lower end of the interval.
    high : float
        Upper end of the interval.

    Examples
    --------
    >>> from adacsl.metrics import Interval
    >>> Interval(0.53, 0.46, 0.59).high
    0.59
    """

    estimate: float
    low: float
    high: float

    def _repr_html_(self) -> str:
        return html_record(self, "Estimate with its interval")


def cost_interval(
    costs: CostMatrix,
    y_true: Array,
    y_pred: Array,
    *,
    groups: Array | None = None,
    sample_weight: Array | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    random_state: int | None = 0,
) -> Interval:
    """Return the mean cost per sample with a percentile bootstrap interval.

    Parameters
    ----------
    costs : CostMatrix
        Class-wide or per-sample costs.
    y_true : array of shape (n,)
        True class numbers.
    y_pred : array of shape (n,)
        Decisions, as class numbers.
    groups : array of shape (n,), optional
        Draw whole groups (patients, customers) rather than single samples: samples of one group are no independent
        evidence.
    sample_weight : array of shape (n,), optional
        How much each sample counts in the mean.
    level : float, default 0.95
        Coverage.
    resamples : int, default 2000
        How often to draw.
    random_state : int or None, default 0
        Seed of the draws.

    Returns
    -------
    Interval
        The mean cost and the ends of its interval.

    See Also
    --------
    adacsl.metrics.cost_difference_interval : The difference of two rules on the same samples.
    adacsl.compare : Intervals over the splits of a comparison.

    Examples
    --------
    >>> from adacsl import CostMatrix, cost_interval
    >>> cost_interval(CostMatrix(fp=1, fn=8), [0, 1] * 50, [0, 1] * 49 + [0, 0])
    Interval(estimate=0.08, low=0.0, high=0.24)
    """
    paid = as_host(costs.incurred(y_true, y_pred))
    return mean_interval(
        paid, sample_weight, groups=groups, level=level, resamples=resamples, random_state=random_state
    )


def cost_difference_interval(
    costs: CostMatrix,
    y_true: Array,
    y_pred: Array,
    y_other: Array,
    *,
    groups: Array | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    random_state: int | None = 0,
) -> Interval:
    """Return the mean cost of ``y_pred`` minus that of ``y_other`` on the same samples (paired bootstrap).

    An interval below 0 means that ``y_pred`` costs less.

    Parameters
    ----------
    costs : CostMatrix
        Class-wide or per-sample costs.
    y_true : array of shape (n,)
        True class numbers.
    y_pred : array of shape (n,)
        Decisions, as class numbers.
    y_other : array of shape (n,)
        The decisions to compare them with.
    groups : array of shape (n,), optional
        Draw whole groups rather than single samples.
    level : float, default 0.95
        Coverage.
    resamples : int, default 2000
        How often to draw.
    random_state : int or None, default 0
        Seed of the draws.

    Returns
    -------
    Interval
        The difference of the mean costs and the ends of its interval.

    See Also
    --------
    adacsl.cost_interval : The mean cost of one rule.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.metrics import cost_difference_interval
    >>> y = [0, 1] * 50
    >>> cost_difference_interval(CostMatrix(fp=1, fn=8), y, [1] * 100, [0] * 100).estimate
    -3.5
    """
    extra = as_host(costs.incurred(y_true, y_pred)) - as_host(costs.incurred(y_true, y_other))
    return mean_interval(extra, groups=groups, level=level, resamples=resamples, random_state=random_state)


def independent_difference(now: Interval, then: Interval, *, level: float = 0.95) -> Interval:
    """Return how much more ``now`` is than ``then``, a 95 % interval of other samples.

    Notes
    -----
    The distances of the ends from the estimates are added as errors are, in squares (Zou and Donner 2008): no symmetry
    is assumed, and ends that a bootstrap found are put to use.

    Examples
    --------
    >>> independent_difference(Interval(5.0, 2.0, 9.0), Interval(1.0, 0.0, 5.0))
    Interval(estimate=4.0, low=-1.0, high=8.1...)
    """
    wider = NormalDist().inv_cdf((1.0 + level) / 2.0) / NormalDist().inv_cdf(0.975)
    middle = now.estimate - then.estimate
    below = math.hypot(now.estimate - now.low, wider * (then.high - then.estimate))
    above = math.hypot(now.high - now.estimate, wider * (then.estimate - then.low))
    return Interval(middle, middle - below, middle + above)


def mean_interval(
    values: Any, weight: Any = None, *,
    groups: Any = None, level: float = 0.95, resamples: int | None = None, random_state: int | None = 0,
) -> Interval:  # fmt: skip
    """Return the mean of single samples' costs (per unit of weight) with its percentile bootstrap interval."""
    if resamples is None:
        resamples = 1000 if len(values) <= MANY else 200
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    if resamples < 100:
        raise ValueError(f"resamples must be at least 100 for a stable interval, got {resamples!r}")
    sizes = None if weight is None else np.asarray(weight, dtype=float)
    sums = values if sizes is None else values * sizes  # a weighted sample is a group of its own
    if groups is not None:
        if np.shape(groups) != values.shape:
            raise ValueError(f"groups has shape {np.shape(groups)}, expected {values.shape}: one group for each sample")
        number = np.unique(groups, return_inverse=True)[1]
        sums, sizes = np.bincount(number, weights=sums), np.bincount(number, weights=sizes)
    means = _drawn_means(sums, sizes, resamples, np.random.default_rng(random_state))
    low, high = np.quantile(means, ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
    return Interval(float(np.average(values, weights=weight)), float(low), float(high))


def saving_over_constant(
    costs: CostMatrix, labels: Any, paid: Any, *, sample_weight: Any = None, groups: Any = None, level: float = 0.95
) -> Interval:
    """Return the paired saving of decisions per sample against the constant decision of lowest cost.

    Parameters
    ----------
    costs : CostMatrix
        Of the samples.
    labels : array of shape (n,)
        Class numbers.
    paid : array of shape (n,)
        What each sample cost as it was decided.
    sample_weight, groups : arrays of shape (n,), optional
        How much samples count; samples of one group are one observation.
    level : float
        Coverage of the interval, which is a normal one.

    Examples
    --------
    >>> costs, labels = CostMatrix(fp=1, fn=3), np.asarray([0, 0, 0, 1])
    >>> saving_over_constant(costs, labels, costs.incurred(labels, labels)).estimate
    0.75
    """
    labels, paid = np.asarray(labels), np.asarray(paid, dtype=float)
    weight = np.ones(len(paid)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    table = np.asarray(costs.to_array(), dtype=float)
    each = table[:, labels] if table.ndim == 2 else table[np.arange(len(labels)), :, labels].T
    saved = each[np.argmin(each @ weight)] - paid
    mean = float(np.average(saved, weights=weight))
    apart = weight * (saved - mean)
    if groups is not None:
        apart = np.bincount(np.unique(groups, return_inverse=True)[1], weights=apart)
    error = math.sqrt(float(apart @ apart) * len(apart) / max(len(apart) - 1, 1)) / float(weight.sum())
    reach = NormalDist().inv_cdf((1.0 + level) / 2.0) * error
    return Interval(mean, mean - reach, mean + reach)


def _drawn_means(sums: Any, sizes: Any | None, resamples: int, rng: np.random.Generator) -> Any:
    """Return the means of bootstrap draws of values, or of groups with their sums and sizes."""
    n = sums.shape[0]
    if sizes is not None:
        draws = (rng.integers(0, n, size=n) for _ in range(resamples))
        return np.asarray([sums[picked].sum() / sizes[picked].sum() for picked in draws])
    kinds, counts = np.unique(sums, return_counts=True)
    if kinds.shape[0] <= FEW_KINDS:
        # class-wide costs have a handful of outcomes: drawing how often each comes up is drawing the samples
        return rng.multinomial(n, counts / n, size=resamples) @ kinds / n
    # most decisions are right and cost nothing: only the others have to be drawn one by one
    paid = sums[sums != 0]
    drawn = rng.binomial(n, paid.shape[0] / n, size=resamples)
    return np.asarray([paid[rng.integers(0, paid.shape[0], size=k)].sum() for k in drawn]) / n
