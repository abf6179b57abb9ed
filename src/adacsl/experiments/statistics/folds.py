"""Means over repeated cross-validation with their intervals: rows and fits both count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.core.intervals import Interval
from adacsl.extras import requires

with requires("compare"):
    from scipy import stats

SHARED_TRAINING = 1.25
"""Rows are no fresh evidence in every fold: the models that decide about them share most of their training rows."""


def fold_interval(differences: Any, fits: Any, units: Any, *, weight: Any = None, level: float = 0.95) -> Interval:
    r"""Return the mean of what rows cost more under one method than another, with its Student t interval.

    An entry is one row in one repeat of the folds. With :math:`e` what an entry differs from the mean, N entries, F
    fits, and units (rows, or groups of rows) as pieces of evidence,

    .. math:: V = 1.25 \sum_\mathrm{units} \Big(\sum e\Big)^2 / N^2
              + \max\Big(0, \frac{F}{F - 1} \sum_\mathrm{fits} \Big(\sum e\Big)^2
              - \sum_\mathrm{unit, fit} \Big(\sum e\Big)^2\Big) / N^2

    The first part is the luck of the rows, the second that of the fits beyond it; the degrees of freedom are
    Satterthwaite's. With the costs of one method as differences, it is the interval of its mean cost.

    Parameters
    ----------
    differences : array of shape (m,)
        Cost of each entry under one method less that under the other.
    fits : array of shape (m,)
        Which fit (repeat and fold) decided about the entry.
    units : array of shape (m,)
        Which piece of evidence the entry belongs to: its row, or the row's group (patient, customer).
    weight : array of shape (m,), optional
        How much each entry counts.
    level : float, default 0.95
        Coverage.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.tile(np.arange(100), 2)
    >>> fits = np.concatenate([rng.permutation(100) % 5 + 5 * repeat for repeat in range(2)])
    >>> estimate, low, high = fold_interval(rng.normal(0.5, 1.0, 200), fits, rows)
    >>> low < 0.5 < high
    True
    """
    d = np.asarray(differences, dtype=np.float64)
    evidence = Evidence.of(fits, units)
    if d.ndim != 1 or d.shape != evidence.fits.shape:
        raise ValueError(
            f"differences, fits and units must be vectors of one length, got {d.shape}, {evidence.fits.shape}"
        )
    if not d.size or not np.isfinite(d).all():
        raise ValueError("differences must be finite: leave out methods that have no result for some rows")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    if min(evidence.n_fits, evidence.n_units) < 2:
        raise ValueError(
            f"an interval needs at least two fits and two rows or groups, got {evidence.n_fits} and {evidence.n_units}"
        )
    found = estimate(d, evidence, weight=None if weight is None else np.asarray(weight, dtype=np.float64), level=level)
    return Interval(found.mean, found.low, found.high)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Which entries share a fit, a unit, or both: numbers from 0."""

    fits: NDArray[np.int64]
    units: NDArray[np.int64]
    pairs: NDArray[np.int64] | None
    """Of unit and fit together; None where every entry is one of its own."""
    n_fits: int
    n_units: int

    @classmethod
    def of(cls, fits: Any, units: Any) -> Evidence:
        """Return the evidence of entries, from any numbers or names of fits and units."""
        fits, units = np.asarray(fits), np.asarray(units)
        if fits.ndim != 1 or fits.shape != units.shape:
            raise ValueError(f"fits and units must be vectors of one length, got shapes {fits.shape} and {units.shape}")
        (every, fit), (each, unit) = (np.unique(part, return_inverse=True) for part in (fits, units))
        both, pair = np.unique(unit * len(every) + fit, return_inverse=True)
        return cls(fit, unit, None if len(both) == len(pair) else pair, len(every), len(each))

    def only(self, kept: NDArray[np.bool_]) -> Evidence:
        """Return the evidence of some entries."""
        return self if kept.all() else Evidence.of(self.fits[kept], self.units[kept])


class Estimate(NamedTuple):
    """A mean, its interval and how likely so much is where there is nothing; NaN where that cannot be said."""

    mean: float
    low: float
    high: float
    p: float


NOISE = 1e-12
"""Costs that differ by less than this share of themselves are equal: the rest is rounding."""


def estimate(
    values: NDArray[np.float64],
    evidence: Evidence,
    *,
    weight: NDArray[np.float64] | None = None,
    level: float = 0.95,
    size: float = 0.0,
) -> Estimate:
    """Return mean, interval and p of values by :func:`fold_interval`'s formula.

    ``size`` is that of the costs behind them: what is small beside it is rounding. One fit, or one unit, is no evidence
    about luck.
    """
    total = float(len(values) if weight is None else weight.sum())
    if not total:
        return Estimate(*[math.nan] * 4)
    mean = float((values if weight is None else values * weight).sum() / total)
    mean = 0.0 if abs(mean) <= NOISE * size else mean
    if min(evidence.n_fits, evidence.n_units) < 2:
        return Estimate(mean, math.nan, math.nan, math.nan)
    e = values - mean if weight is None else (values - mean) * weight
    variance, freedom = _variance(e, evidence, total)
    error = math.sqrt(variance)
    if error <= NOISE * max(size, abs(mean)):
        return Estimate(mean, mean, mean, 0.0 if mean else 1.0)  # no spread: sure, or no difference at all
    half = float(stats.t.ppf(0.5 + level / 2.0, freedom)) * error
    return Estimate(mean, mean - half, mean + half, float(2 * stats.t.sf(abs(mean) / error, freedom)))


def _variance(e: NDArray[np.float64], evidence: Evidence, total: float) -> tuple[float, float]:
    """Return the variance of the mean, and its degrees of freedom."""
    by_unit, by_fit = np.bincount(evidence.units, e), np.bincount(evidence.fits, e)
    by_pair = e if evidence.pairs is None else np.bincount(evidence.pairs, e)
    of_rows = SHARED_TRAINING * float(by_unit @ by_unit) / total**2
    n_fits, n_units = evidence.n_fits, evidence.n_units
    of_fits = max(0.0, n_fits / (n_fits - 1) * float(by_fit @ by_fit) - float(by_pair @ by_pair)) / total**2
    variance = of_rows + of_fits
    if not variance:
        return 0.0, 1.0
    return variance, variance**2 / (of_rows**2 / (n_units - 1) + of_fits**2 / (n_fits - 1))
