"""Cost of each segment with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.comparison.baseline import baseline_costs
from adacsl.comparison.statistics import BASELINE, CONSTANTS, NOISE, SHARED_TRAINING, Evidence, holm
from adacsl.datasets.errors import check_column

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison
    from adacsl.report.data import Outcome

with requires("compare"):
    import pandas as pd
    from scipy import stats


class Segment(NamedTuple):
    """Mean cost of the samples inside, its difference to those outside, with intervals and the p-value."""

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
    r"""Return the mean cost inside a segment and its difference to that of all other entries, with intervals.

    Parameters
    ----------
    costs : array of shape (m,)
        Cost of each entry (a sample in one repeat).
    inside : array of shape (m,)
        Which entries belong to the segment.
    evidence : Evidence
        Which entries share a fit or a unit.
    level : float, default 0.95
        Coverage.

    Notes
    -----
    As :func:`~adacsl.comparison.statistics.fold_interval`, with the deviations of entries from the mean of their own
    side. A segment of few samples, none of which happened to be an expensive error, has almost no variance of its own.
    The sampling variance is therefore at least that of as many samples drawn from all,
    :math:`\sum_\mathrm{units} (\sum r)^2 / (N n)` with :math:`r` the deviation of an entry of all N from the mean of
    all, and n entries in the segment. Degrees of freedom: Satterthwaite's, over samples inside, outside and fits.
    """
    if not inside.any():
        raise ValueError("a segment needs at least one sample")
    mine, others = (_Side.of(costs, side, evidence) for side in (inside, ~inside))
    size = float(np.abs(costs).max(initial=0.0))
    low, high, _ = _student(mine.mean, [mine], evidence, size, level)
    if inside.all():
        return Segment(mine.mean, low, high, *[math.nan] * 4)
    difference = mine.mean - others.mean
    return Segment(mine.mean, low, high, difference, *_student(difference, [mine, others], evidence, size, level))


class _Side(NamedTuple):
    """The entries inside, or outside: the share of each in the error of their mean, and their sampling variance."""

    mean: float
    errors: NDArray[np.float64]
    sampling: float
    """Sampling variance."""
    missing: float
    """How much smaller the variance of their own is."""
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
    """Return both ends of the interval, and p; NaN where a side has one unit, or there is one fit."""
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
    doubt = sum((SHARED_TRAINING * side.sampling) ** 2 / (side.units - 1) for side in sides) + fits**2 / (n_fits - 1)
    freedom, error = variance**2 / doubt, math.sqrt(variance)
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * error
    return middle - half, middle + half, float(2 * stats.t.sf(abs(middle) / error, freedom))


LEVEL = 0.05

Measured = tuple[str, NDArray[np.float64], NDArray[Any], Evidence]
"""A name, values, the entries (or samples) that have them, and their evidence."""


def segment_table(
    result: Comparison, view: tuple[str, float], method: str, columns: tuple[str, ...] = ()
) -> pd.DataFrame:
    """Return one row for each segment of each segment column (or of some), as :meth:`Comparison.by_segment` does."""
    known = result.segments.get(view[0], {})
    for column in columns:
        check_column(column, known, f"what {view[0]} is shown by")
    if not known:
        raise ValueError(f"no segments of {view[0]!r} were kept: compare with segments=[column], or --segments COLUMN")
    paired = result.paired[view]
    place = paired.methods.index(method)
    kept = paired.entries(place)
    rows, costs = paired.rows[kept], paired.costs[place][kept]
    evidence, outcome = paired.evidence.only(kept), result.outcome(method, data=view[0], ratio=view[1])
    saved, errors = _saved(result, view, method), _errors(outcome, evidence)
    records = []
    for column in columns or known:
        cut = known[column]
        for number, name in enumerate(cut.names):
            inside = cut.numbers[rows] == number
            if inside.any():
                record = {"column": column, "segment": name, **_counted(outcome, rows, inside, errors)}
                record |= segment_costs(costs, inside, evidence)._asdict()
                if saved is not None:
                    record |= _mean_of(*saved[:2], cut.numbers[saved[2]] == number, saved[3])
                records.append(record)
    return _judged(pd.DataFrame(records), floor=not (costs < 0).any())


def _errors(outcome: Outcome, evidence: Evidence) -> list[Measured]:
    """Return the kinds of errors: whether each entry at risk has the error, those entries, and their evidence."""
    labels, decided = outcome.labels, outcome.decisions
    kinds = {"fnr": (decided == 0, labels == 1), "fpr": (decided == 1, labels == 0)}
    if outcome.n_classes > 2:
        kinds = {"wrong": (labels != decided, labels >= 0)}
    return [
        (name, wrong[among].astype(np.float64), among, evidence.only(among)) for name, (wrong, among) in kinds.items()
    ]


def _counted(
    outcome: Outcome, rows: NDArray[np.int64], inside: NDArray[np.bool_], errors: list[Measured]
) -> dict[str, Any]:
    """Return the number of samples, shares of decisions (of two classes), and error rates with their intervals."""
    result: dict[str, Any] = {"rows": len(np.unique(rows[inside])), "share": float(inside.mean())}
    if outcome.n_classes == 2:
        result |= {"positive": outcome.labels[inside].mean(), "decided": outcome.decisions[inside].mean()}
    for name, wrong, among, evidence in errors:
        ends = _mean_of(name, wrong, inside[among], evidence)
        result |= {end: min(max(value, 0.0), 1.0) for end, value in ends.items()}
    return result


def _mean_of(name: str, values: NDArray[np.float64], inside: NDArray[np.bool_], evidence: Evidence) -> dict[str, float]:
    """Return the mean of a segment with its interval; NaN where nothing is in it."""
    ends = segment_costs(values, inside, evidence)[:3] if inside.any() else (np.nan,) * 3
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def _saved(result: Comparison, view: tuple[str, float], method: str) -> Measured | None:
    """Return the saving of each entry against the baseline, and its sample; None: no baseline."""
    if method == BASELINE or method in CONSTANTS:
        return None
    known = baseline_costs(result, view, method)
    if known is None:
        return None
    costs = known.costs
    mine, base = costs.methods.index(method), costs.methods.index(BASELINE)
    kept = costs.entries(mine, base)
    less = (costs.costs[base] - costs.costs[mine])[kept]
    return "saved", less, costs.rows[kept], costs.evidence.only(kept)


def _judged(table: pd.DataFrame, *, floor: bool) -> pd.DataFrame:
    """Adjust the tests of all columns jointly; the two segments of a column with two are one test."""
    if floor:
        table["low"] = table["low"].clip(lower=0.0)  # no cost is below zero
    pairs = table.groupby("column", sort=False)["segment"].transform("size") == 2
    repeated = pairs & table.duplicated("column")
    p = pd.Series(holm(table["p"].mask(repeated).to_numpy()), index=table.index)
    table["p"] = p.where(~repeated, p.shift())
    table["significance"] = np.where(table["p"] < LEVEL, "significant difference", "no significant difference")
    return table


def tables_of(result: Comparison, views: Any) -> Iterator[tuple[tuple[str, float], pd.DataFrame]]:
    """Yield the table of the recommended method for each data set and ratio that has segments."""
    for view in views:
        if result.segments.get(view[0]):
            yield view, result.by_segment(data=view[0], ratio=view[1])
