"""What rows of a segment cost, and how much more than all others: intervals that small segments do not flatter."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.experiments.statistics.folds import NOISE, SHARED_TRAINING, Evidence
from adacsl.extras import requires

with requires("compare"):
    from scipy import stats


class Segment(NamedTuple):
    """Mean cost of the rows inside, how much more that is than outside, and how likely so much is by chance."""

    cost: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    p: float


def segment_costs(
    costs: NDArray[np.float64], inside: NDArray[np.bool_], evidence: Evidence, *, level: float = 0.95
) -> Segment:
    r"""Return the mean cost inside a segment, how it differs from that of all other entries, and how sure that is.

    Parameters
    ----------
    costs : array of shape (m,)
        What each entry (a row in one repeat) cost.
    inside : array of shape (m,)
        Which entries belong to the segment.
    evidence : Evidence
        Which entries share a fit or a unit.
    level : float, default 0.95
        Coverage.

    Notes
    -----
    As :func:`~adacsl.experiments.statistics.folds.fold_interval`, with what an entry differs from the mean of its own
    side. But a segment of few rows, none of which happened to be an expensive error, has no spread of its own. So the
    luck of its rows is never taken to be less than that of as many rows drawn from all,
    :math:`\sum_\mathrm{units} (\sum r)^2 / (N n)` with :math:`r` what an entry of all N differs from the mean of all,
    and n entries in the segment. Degrees of freedom: Satterthwaite's, over rows inside, rows outside and fits.
    """
    if not inside.any():
        raise ValueError("a segment needs at least one row")
    mine, others = (_Side.of(costs, side, evidence) for side in (inside, ~inside))
    size = float(np.abs(costs).max(initial=0.0))
    low, high, _ = _student(mine.mean, [mine], evidence, size, level)
    if inside.all():
        return Segment(mine.mean, low, high, *[math.nan] * 4)
    difference = mine.mean - others.mean
    return Segment(mine.mean, low, high, difference, *_student(difference, [mine, others], evidence, size, level))


class _Side(NamedTuple):
    """The entries inside, or outside: what each adds to the error of their mean, and the luck of their rows."""

    mean: float
    errors: NDArray[np.float64]
    luck: float
    """Of the rows alone, in square."""
    missing: float
    """How much less than that their own spread is."""
    units: int

    @classmethod
    def of(cls, costs: NDArray[np.float64], side: NDArray[np.bool_], evidence: Evidence) -> _Side:
        n = int(side.sum())
        mean = float(costs[side].mean()) if n else math.nan
        errors = np.where(side, costs - mean, 0.0) / max(n, 1)
        own = _square(errors, evidence.units)
        least = _square(costs - costs.mean(), evidence.units) / (len(costs) * max(n, 1))
        return cls(mean, errors, max(own, least), max(least - own, 0.0), len(np.unique(evidence.units[side])))


def _square(errors: NDArray[np.float64], together: NDArray[np.int64]) -> float:
    sums = np.bincount(together, errors)
    return float(sums @ sums)


def _student(
    middle: float, sides: list[_Side], evidence: Evidence, size: float, level: float
) -> tuple[float, float, float]:
    """Return both ends of the interval, and p; NaN where a side or the fits are too few to say."""
    if min(evidence.n_fits, *(side.units for side in sides)) < 2:
        return math.nan, math.nan, math.nan
    errors = sides[0].errors - (sides[1].errors if len(sides) > 1 else 0.0)
    rows = SHARED_TRAINING * (_square(errors, evidence.units) + sum(side.missing for side in sides))
    alone = float(errors @ errors) if evidence.pairs is None else _square(errors, evidence.pairs)
    n_fits = evidence.n_fits
    fits = max(0.0, n_fits / (n_fits - 1) * _square(errors, evidence.fits) - alone)
    variance = rows + fits
    if math.sqrt(variance) <= NOISE * size:
        return middle, middle, 1.0
    doubt = sum((SHARED_TRAINING * side.luck) ** 2 / (side.units - 1) for side in sides) + fits**2 / (n_fits - 1)
    freedom, error = variance**2 / doubt, math.sqrt(variance)
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * error
    return middle - half, middle + half, float(2 * stats.t.sf(abs(middle) / error, freedom))
