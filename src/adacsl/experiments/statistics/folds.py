"""Paired differences over repeated cross-validation: rows and fits both count."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.intervals import Interval
from adacsl.extras import requires

with requires("compare"):
    from scipy import stats

SHARED_TRAINING = 1.25
"""Rows are no fresh evidence in every fold: the models that decide about them share most of their training rows."""


def fold_interval(
    differences: Any, folds: Any, *, groups: Any = None, weight: Any = None, level: float = 0.95
) -> Interval:
    r"""Return the mean of what rows cost more under one method than another, with its Student t interval.

    With R repeats of k folds over n rows, :math:`e_{ir}` what row i in repeat r differs from the mean, and N = R n,

    .. math:: V = 1.25 \sum_i \Big(\sum_r e_{ir}\Big)^2 / N^2
              + \max\Big(0, \frac{kR}{kR - 1} \sum_\mathrm{fits} \Big(\sum e\Big)^2 - \sum e^2\Big) / N^2

    The first part is the luck of the rows, the second that of the fits beyond it; the degrees of freedom are
    Satterthwaite's. Rows of one group are one piece of evidence: sums over groups take the place of rows.

    Parameters
    ----------
    differences : array of shape (R, n)
        Cost of each row under one method less that under the other; every row is tested once in each repeat.
    folds : array of shape (R, n)
        In which fold each row was tested.
    groups : array of shape (n,), optional
        Rows of one group (patient, customer).
    weight : array of shape (n,), optional
        How much each row counts.
    level : float, default 0.95
        Coverage.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> folds = np.stack([rng.permutation(100) % 5 for _ in range(2)])
    >>> estimate, low, high = fold_interval(rng.normal(0.5, 1.0, (2, 100)), folds)
    >>> low < 0.5 < high
    True
    """
    d, folds = np.atleast_2d(np.asarray(differences, dtype=np.float64)), np.atleast_2d(np.asarray(folds))
    if d.shape != folds.shape or not d.size:
        raise ValueError(f"differences and folds must have one shape, repeats x rows, got {d.shape} and {folds.shape}")
    if not np.isfinite(d).all():
        raise ValueError("differences must be finite: leave out methods that have no result for some rows")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    counted = np.ones(d.shape[1]) if weight is None else np.asarray(weight, dtype=np.float64)
    total = float(counted.sum()) * len(d)
    mean = float((d * counted).sum() / total)
    variance, freedom = _variance((d - mean) * counted, folds, groups, total)
    half = float(stats.t.ppf(0.5 + level / 2.0, freedom)) * math.sqrt(variance) if variance else 0.0
    return Interval(mean, mean - half, mean + half)


def _variance(e: NDArray[np.float64], folds: NDArray[Any], groups: Any, total: float) -> tuple[float, float]:
    """Return the variance of the mean, and its degrees of freedom."""
    units = np.arange(e.shape[1]) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    by_unit = np.stack([np.bincount(units, row) for row in e])
    fits = np.concatenate(
        [np.bincount(np.unique(own, return_inverse=True)[1], row) for own, row in zip(folds, e, strict=True)]
    )
    if len(fits) < 2 or by_unit.shape[1] < 2:
        raise ValueError(
            f"an interval needs at least two folds and two rows or groups, got {len(fits)} and {by_unit.shape[1]}"
        )
    of_rows = SHARED_TRAINING * float((by_unit.sum(axis=0) ** 2).sum()) / total**2
    of_fits = (len(fits) / (len(fits) - 1) * float((fits**2).sum()) - float((by_unit**2).sum())) / total**2
    of_fits = max(0.0, of_fits)
    variance = of_rows + of_fits
    if not variance:
        return 0.0, 1.0
    return variance, variance**2 / (of_rows**2 / (by_unit.shape[1] - 1) + of_fits**2 / (len(fits) - 1))
