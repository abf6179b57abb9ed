"""Brier curve, cost curve and decision curve over all cost ratios."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from adacsl.base.arrays import Array, as_scores, as_vector, count_true
from adacsl.base.html import html_record
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.calibration import checked_scores
from adacsl.thresholds.search import cost_curve


class Curve(NamedTuple):
    """Points of a curve over [0, 1], and the exact area under it.

    Attributes
    ----------
    x : array of shape (m,)
        Cost proportions, in rising order.
    y : array of shape (m,)
        Losses.
    area : float
        The area under the curve.

    Examples
    --------
    >>> from adacsl.thresholds import optimal_cost_curve
    >>> optimal_cost_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).x.tolist()
    [0.0, 0.0, 0.5, 1.0, 1.0]
    """

    x: Array
    y: Array
    area: float

    def _repr_html_(self) -> str:
        return html_record(self, "Curve")


class DecisionCurve(NamedTuple):
    """Net benefit per sample at each threshold; that of treating none is 0.

    Attributes
    ----------
    thresholds : array of shape (m,)
        The thresholds.
    net_benefit : array of shape (m,)
        Net benefit of acting on the scores.
    treat_all : array of shape (m,)
        Net benefit of calling all samples positive.

    Examples
    --------
    >>> from adacsl.thresholds import decision_curve
    >>> decision_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], [0.5]).treat_all.tolist()
    [0.0]
    """

    thresholds: Array
    net_benefit: Array
    treat_all: Array

    def _repr_html_(self) -> str:
        return html_record(self, "Net benefit at each threshold")


def brier_curve(scores: Array, labels: Array) -> Curve:
    r"""Return the cost of trusting the scores, over all cost ratios (Hernandez-Orallo, Flach & Ferri).

    At cost proportion :math:`c = C(1,0) / (C(1,0) + C(0,1))` (which is also the Bayes threshold) the scores are cut at
    *c* itself, and the mean cost, with :math:`C(1,0) + C(0,1) = 2`, is

    .. math:: L(c) = 2 \left[ c \cdot \mathrm{FP}(c) + (1 - c) \cdot \mathrm{FN}(c) \right] / n .

    The area under the curve is the Brier score.

    Parameters
    ----------
    scores : array of shape (n,)
        Probabilities of the positive class.
    labels : array of shape (n,)
        0 or 1.

    Returns
    -------
    Curve
        ``x`` contains each distinct score twice, as the curve jumps there.

    See Also
    --------
    optimal_cost_curve : The cost at the best threshold for each cost ratio.
    adacsl.report.BrierCurveDisplay : Both curves as a plot.

    Examples
    --------
    >>> from adacsl.thresholds import brier_curve
    >>> round(brier_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).area, 6)
    0.158125
    """
    fn, fp, cuts, n = _error_counts(scores, labels)
    xp = array_namespace(cuts)
    borders = _with_ends(cuts)
    left, right = borders[:-1], borders[1:]  # cut k holds for c from left to right
    x = xp.reshape(xp.stack((left, right), axis=1), (-1,))
    y = xp.reshape(xp.stack((_loss(left, fn, fp, n), _loss(right, fn, fp, n)), axis=1), (-1,))
    wide, positive = checked_scores(scores, labels)
    return Curve(x, y, float(xp.mean((wide - xp.astype(positive, wide.dtype)) ** 2)))


def optimal_cost_curve(scores: Array, labels: Array) -> Curve:
    """Return the cost at the best threshold for each cost ratio: the lower envelope in cost space (Drummond & Holte).

    Parameters
    ----------
    scores : array of shape (n,)
        Probabilities of the positive class.
    labels : array of shape (n,)
        0 or 1.

    Returns
    -------
    Curve
        ``x`` contains the corners, found from the convex hull of the ROC points.

    See Also
    --------
    brier_curve : The cost of trusting the scores.

    Examples
    --------
    >>> from adacsl.thresholds import optimal_cost_curve
    >>> round(optimal_cost_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]).area, 6)
    0.125
    """
    fn, fp, _, n = _error_counts(scores, labels)
    xp = array_namespace(fn)
    fn, fp = _convex_hull(fn, fp)
    # neighbouring cuts cost the same where c * (false positives lost) = (1 - c) * (false negatives gained)
    gained, lost = fn[1:] - fn[:-1], fp[:-1] - fp[1:]
    corners = _with_ends(gained / (gained + lost))
    y = _loss(corners, xp.concat((fn, fn[-1:])), xp.concat((fp, fp[-1:])), n)
    return Curve(corners, y, float(xp.sum((corners[1:] - corners[:-1]) * (y[1:] + y[:-1]) / 2)))


def decision_curve(scores: Array, labels: Array, thresholds: Array | None = None) -> DecisionCurve:
    r"""Return the net benefit of acting on the scores at each threshold (Vickers & Elkin).

    .. math:: \mathrm{NB}(t) = \frac{\mathrm{TP}(t)}{n} - \frac{\mathrm{FP}(t)}{n} \cdot \frac{t}{1 - t}

    Positive is ``score > t``, as everywhere.

    Parameters
    ----------
    scores : array of shape (n,)
        Probabilities of the positive class.
    labels : array of shape (n,)
        0 or 1.
    thresholds : array, optional
        In [0, 1). Default: 0.01, 0.02, ..., 0.99.

    Returns
    -------
    DecisionCurve
        Net benefit of the scores, and of treating all.

    Raises
    ------
    ValueError
        Where a threshold is not in [0, 1).

    See Also
    --------
    adacsl.report.DecisionCurveDisplay : The same as a plot.

    Examples
    --------
    >>> from adacsl.thresholds import decision_curve
    >>> curve = decision_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], [0.3, 0.5])
    >>> curve.net_benefit.round(3).tolist()
    [0.393, 0.25]
    """
    wide, positive = checked_scores(scores, labels)
    xp, kind = array_namespace(wide), wide.dtype
    given = np.arange(1, 100) / 100.0 if thresholds is None else as_vector(thresholds, "thresholds")
    at = xp.asarray(given, dtype=kind, device=device(wide))
    if not (float(xp.min(at)) >= 0 and float(xp.max(at)) < 1):
        raise ValueError("thresholds of a decision curve must lie in [0, 1): the odds of 1 are infinite")
    n, positives = wide.shape[0], count_true(positive)
    over_positive = positives - xp.searchsorted(xp.sort(wide[positive]), at, side="right")
    over_negative = (n - positives) - xp.searchsorted(xp.sort(wide[~positive]), at, side="right")
    odds = at / (1.0 - at)
    benefit = xp.astype(over_positive, kind) / n - xp.astype(over_negative, kind) / n * odds
    return DecisionCurve(at, benefit, positives / n - (n - positives) / n * odds)


def _error_counts(scores: Array, labels: Array) -> tuple[Array, Array, Array, int]:
    """Return false negatives and false positives of each cut, the distinct scores, and n."""
    curve = cost_curve(as_scores(scores), labels, CostMatrix(fp=1, fn=1))
    cuts = array_namespace(curve.thresholds).astype(curve.thresholds[1:], curve.costs.dtype)
    return curve.false_negatives, curve.false_positives, cuts, as_vector(scores, "scores").shape[0]


def _loss(c: Array, fn: Array, fp: Array, n: int) -> Array:
    return 2.0 * (c * fp + (1.0 - c) * fn) / n


def _with_ends(values: Array) -> Array:
    """Put 0 before and 1 behind the values."""
    xp = array_namespace(values)
    ends = xp.asarray([0.0, 1.0], dtype=values.dtype, device=device(values))
    return xp.concat((ends[:1], values, ends[1:]))


def _convex_hull(fn: Array, fp: Array) -> tuple[Array, Array]:
    """Keep the cuts on the lower convex hull; false positives fall and false negatives rise along them."""
    xp = array_namespace(fn)
    while fn.shape[0] > 2:
        step_fn, step_fp = fn[1:] - fn[:-1], fp[1:] - fp[:-1]
        # a point on or above the line between its neighbours is no corner, whatever else is removed
        corner = step_fp[:-1] * step_fn[1:] - step_fp[1:] * step_fn[:-1] < 0
        if bool(xp.all(corner)):
            break
        end = xp.ones((1,), dtype=xp.bool, device=device(fn))
        keep = xp.concat((end, corner, end))
        fn, fp = fn[keep], fp[keep]
    return fn, fp
