"""Statistics of a comparison: paired costs, intervals over repeated cross-validation, differences, savings."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.comparison.fits import BASELINE, FitKey, FitResult, Stopped
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.intervals import Interval

if TYPE_CHECKING:
    from adacsl.comparison.store import StoredSplit

with requires("compare"):
    import pandas as pd
    from scipy import stats

__all__ = [
    "BASELINE",
    "PAIRWISE_COLUMNS",
    "SUMMARY_COLUMNS",
    "RowCosts",
    "View",
    "holm",
    "pairwise",
    "row_costs",
    "summarise",
    "summary_of",
]


CONSTANTS = {"always-negative": "always predicting negative", "always-positive": "always predicting positive"}

NAMES_SHOWN = 5
"""The number of methods that a sentence names; the others are counted."""


def names_of(methods: Sequence[str]) -> str:
    """Join names: ``a``, ``a and b``, ``a, b and c``, ``a, b, c, d, e and 3 others``.

    >>> names_of(["net-smote", "net-focal", "net"])
    'net-smote, net-focal and net'
    """
    shown = list(methods[:NAMES_SHOWN])
    more = len(methods) - len(shown)
    if more:
        shown.append("one other" if more == 1 else f"{more} others")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def sentence_name(method: str | None) -> str:
    """Return a method's name in a sentence: constant baselines and the current decisions are described."""
    return "your current decisions" if method == BASELINE else CONSTANTS.get(str(method), str(method))


def capital(words: str) -> str:
    """Return the words with a capital first letter; names of methods stay as they are."""
    return words[0].upper() + words[1:] if words.startswith(("always predicting ", "your ")) else words


def span(value: float, low: float, high: float, unit: str) -> str:
    """Return ``12 % (95 % CI 5-19 %)``; a hyphen would read as a minus beside a negative end."""
    middle = f"{number(value)}{unit}"
    if not math.isfinite(low):
        return middle
    # an end that is tiny relative to the width is 0 but for rounding
    low, high = (0.0 if abs(end) < 1e-9 * (high - low) else end for end in (low, high))
    between = "-" if low >= 0 else " to "
    return f"{middle} (95 % CI {number(low)}{between}{number(high)}{unit})"


def number(value: float) -> str:
    """Return a number with two significant digits, from 10 on as a whole number."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{float(f'{value:.2g}') + 0.0:g}"


SHARED_TRAINING = 1.25
"""Factor on the sampling variance: models of different folds share most of their training samples, so repeated
predictions of a sample are correlated."""


def fold_interval(differences: Any, fits: Any, units: Any, *, weight: Any = None, level: float = 0.95) -> Interval:
    r"""Return the mean paired difference in cost of two methods, with its Student t interval.

    An entry is one sample in one repeat of the folds. With :math:`e` the deviation of an entry from the mean, N
    entries, F fits, and units (samples, or groups of samples) that are independent of each other,

    .. math:: V = 1.25 \sum_\mathrm{units} \Big(\sum e\Big)^2 / N^2
              + \max\Big(0, \frac{F}{F - 1} \sum_\mathrm{fits} \Big(\sum e\Big)^2
              - \sum_\mathrm{unit, fit} \Big(\sum e\Big)^2\Big) / N^2

    The first part is the sampling variance, the second the training variance beyond it; the degrees of freedom are
    Satterthwaite's. With the costs of one method as differences, it is the interval of its mean cost.

    Parameters
    ----------
    differences : array of shape (m,)
        Cost of each entry under one method minus that under the other.
    fits : array of shape (m,)
        Which fit (repeat and fold) predicted the entry.
    units : array of shape (m,)
        Which independent unit the entry belongs to: its sample, or the sample's group (patient, customer).
    weight : array of shape (m,), optional
        Weight of each entry.
    level : float, default 0.95
        Coverage.

    Returns
    -------
    Interval
        The mean difference with the ends of its interval.

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
        raise ValueError("differences must be finite: exclude methods that have no result for some samples")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    if min(evidence.n_fits, evidence.n_units) < 2:
        raise ValueError(
            f"an interval needs at least two fits and two samples or groups, got {evidence.n_fits} and "
            f"{evidence.n_units}"
        )
    result = estimate(d, evidence, weight=None if weight is None else np.asarray(weight, dtype=np.float64), level=level)
    return Interval(result.mean, result.low, result.high)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Which entries share a fit, a unit, or both: numbers from 0."""

    fits: NDArray[np.int64]
    units: NDArray[np.int64]
    pairs: NDArray[np.int64] | None
    """Numbers of the pairs of unit and fit; None where every entry is a pair of its own."""
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
    """A mean, its interval and the p-value of "the mean is 0"; NaN where they cannot be computed."""

    mean: float
    low: float
    high: float
    p: float


NOISE = 1e-12
"""Costs that differ by less than this share of themselves are equal but for rounding."""


def estimate(
    values: NDArray[np.float64],
    evidence: Evidence,
    *,
    weight: NDArray[np.float64] | None = None,
    level: float = 0.95,
    size: float = 0.0,
) -> Estimate:
    """Return mean, interval and p of values by :func:`fold_interval`'s formula.

    ``size`` is the magnitude of the costs behind them: values that are tiny relative to it are rounding. One fit, or
    one unit, allows no estimate of the variance.
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
        return Estimate(mean, mean, mean, 0.0 if mean else 1.0)  # no variance: certain, or no difference at all
    half = float(stats.t.ppf(0.5 + level / 2.0, freedom)) * error
    return Estimate(mean, mean - half, mean + half, float(2 * stats.t.sf(abs(mean) / error, freedom)))


def _variance(e: NDArray[np.float64], evidence: Evidence, total: float) -> tuple[float, float]:
    """Return the variance of the mean, and its degrees of freedom."""
    by_unit, by_fit = np.bincount(evidence.units, e), np.bincount(evidence.fits, e)
    by_pair = e if evidence.pairs is None else np.bincount(evidence.pairs, e)
    sampling = SHARED_TRAINING * float(by_unit @ by_unit) / total**2
    n_fits, n_units = evidence.n_fits, evidence.n_units
    training = max(0.0, n_fits / (n_fits - 1) * float(by_fit @ by_fit) - float(by_pair @ by_pair)) / total**2
    variance = sampling + training
    if not variance:
        return 0.0, 1.0
    return variance, variance**2 / (sampling**2 / (n_units - 1) + training**2 / (n_fits - 1))


LEFT_BY_A_RACE = 0.8
"""Share of the level of the tests that a race leaves: it spends a probability of error of 1 % of the 5 %."""

View = tuple[str, float]


@dataclass(frozen=True, eq=False)
class RowCosts:
    """Cost of every test sample under each method, on one data set at one ratio.

    An entry is one sample in one split; with repeats a sample has several.

    Parameters
    ----------
    methods : tuple of str
        Names, in order.
    costs : array of shape (methods, m)
        NaN where a method has no result of that split.
    rows : array of shape (m,)
        Number of the sample in the data.
    fits : array of shape (m,)
        Number of the split.
    units : array of shape (m,)
        Number of the independent unit: the sample, its group or its duplicates.
    """

    methods: tuple[str, ...]
    costs: NDArray[np.float64]
    rows: NDArray[np.int64]
    fits: NDArray[np.int64]
    units: NDArray[np.int64]

    def __post_init__(self) -> None:
        shape = (len(self.methods), len(self.rows))
        if self.costs.shape != shape or {len(self.fits), len(self.units)} != {shape[1]} or not self.costs.size:
            raise ValueError(
                f"costs must be methods x entries, with a sample, fit and unit for each entry; got {self.costs.shape} "
                f"for {shape[0]} methods, {shape[1]} samples, {len(self.fits)} fits and {len(self.units)} units"
            )
        if len(set(self.methods)) != len(self.methods):
            raise ValueError(f"methods must have different names, got {list(self.methods)}")
        if np.isinf(self.costs).any():
            raise ValueError("costs must be finite numbers, or NaN where a method has no result")

    @cached_property
    def evidence(self) -> Evidence:
        """Which entries share a fit or a unit."""
        return Evidence.of(self.fits, self.units)

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """Total cost of each method in each fit, methods x fits in the order of their numbers; NaN: no result."""
        return np.stack([np.bincount(self.evidence.fits, own) for own in self.costs])

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """Number of test samples of each fit."""
        return np.bincount(self.evidence.fits).astype(np.float64)

    def entries(self, *methods: int) -> NDArray[np.bool_]:
        """Return which entries belong to splits for which all given methods have results."""
        return np.asarray(~np.isnan(self.sums[list(methods)]).any(axis=0))[self.evidence.fits]

    def with_costs(self, methods: Sequence[str], costs: NDArray[np.float64]) -> RowCosts:
        """Return the same entries with other methods or costs."""
        other = replace(self, methods=tuple(methods), costs=costs)
        other.__dict__["evidence"] = self.evidence  # numbering a million entries takes longer than summing them
        return other


def row_costs(
    fits: Mapping[FitKey, FitResult],
    splits: Mapping[tuple[str, int], StoredSplit],
    costs_of: Callable[[str, float, CostMatrix], CostMatrix],
) -> dict[View, RowCosts]:
    """Return the costs of all test samples by data set and ratio, from stored decisions.

    Parameters
    ----------
    fits : mapping
        Results with their decisions.
    splits : mapping from (data, seed)
        Test samples of each split, with labels and costs.
    costs_of : function of data, ratio and the costs of a split
        Returns the costs of its samples at that ratio.
    """
    views: dict[View, dict[tuple[str, int], FitResult]] = {}
    for fit, result in fits.items():
        views.setdefault((fit.data, float(fit.ratio)), {})[fit.method, fit.seed] = result
    return {view: _of_view(view, own, splits, costs_of) for view, own in sorted(views.items())}


def _of_view(
    view: View,
    results: Mapping[tuple[str, int], FitResult],
    splits: Mapping[tuple[str, int], StoredSplit],
    costs_of: Callable[[str, float, CostMatrix], CostMatrix],
) -> RowCosts:
    methods, seeds = sorted({name for name, _ in results}), sorted({seed for _, seed in results})
    chosen = [splits[view[0], seed] for seed in seeds]
    sizes = [len(split.labels) for split in chosen]
    costs = np.full((len(methods), sum(sizes)), np.nan)
    for split, seed, end, size in zip(chosen, seeds, np.cumsum(sizes).tolist(), sizes, strict=True):
        own = costs_of(*view, split.costs)
        for place, name in enumerate(methods):
            if (name, seed) in results:
                decided = np.asarray(results[name, seed].decisions).astype(np.int64)
                costs[place, end - size : end] = as_host(own.incurred(split.labels, decided))
    return RowCosts(
        tuple(methods),
        costs,
        np.concatenate([split.test_rows for split in chosen]),
        np.repeat(np.asarray(seeds, dtype=np.int64), sizes),
        np.concatenate([split.units for split in chosen]),
    )


FIT_COLUMNS = ["data", "ratio", "method", "seed"]


def enough_splits(splits: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which methods have enough splits to have the lowest cost: half of them, and two where there are two."""
    most = int(splits.max())
    return np.asarray(splits >= max(min(2, most), most / 2))


_DIFFERENCE = ["difference", "difference_low", "difference_high", "percent", "percent_low", "percent_high", "p"]

_SUMMARY = ["n", "mean", "low", "high", "normalized_cost", "savings", "rank", "pairs", *_DIFFERENCE]

SUMMARY_COLUMNS = ["data", "ratio", "method", *_SUMMARY, "below", "below_low", "below_high", "significance"]

PAIRWISE_COLUMNS = ["data", "ratio", "method", "reference", "pairs", *_DIFFERENCE, "significance"]


def summarise(
    results: pd.DataFrame,
    paired: Mapping[View, RowCosts],
    *,
    confidence: float = 0.95,
    floor: float | None = 0.0,
    stopped: Collection[Stopped] = (),
    raced: Collection[View] = (),
) -> pd.DataFrame:
    """Return the mean cost of each method, and its difference to the lowest cost, by data set and ratio.

    Intervals and p-values are Student's t on costs of samples, paired where two methods are compared; they account for
    the variance of samples (or groups) and of fits.

    Parameters
    ----------
    results : DataFrame
        One row for each finished fit: data, ratio, method, seed, normalized_cost and savings.
    paired : mapping from (data, ratio) to RowCosts
        Cost of each sample: ``comparison.paired``.
    confidence : float, default 0.95
        Coverage of the intervals; ``1 - confidence`` is the level of the tests.
    floor : float or None, default 0.0
        Intervals of a mean end here, unless a sample of that data set and ratio cost less (benefits). None: never.
    stopped : collection of Stopped, default ()
        Methods that were significantly worse after some splits and not run on the others: they never have the lowest
        cost, and stay "significantly higher".
    raced : collection of (data, ratio), default ()
        Where methods raced: p is adjusted for all pairs of methods there, and for what the race has spent of the level.

    Returns
    -------
    DataFrame
        Sorted by data, ratio and rank, with the columns

        - n: splits of this method; mean, low, high: its cost per sample; normalized_cost, savings: means over splits;
        - rank: 1 for the lowest cost, the same for equal costs;
        - pairs: splits shared with the lowest-cost method; difference, difference_low, difference_high: how much more
          this method costs on those; percent...: the same in percent of the lowest mean; below...: by how many percent
          of this method's mean the lowest mean is below it (both NaN where the lowest cost is zero or negative);
        - p: two-sided, adjusted after Holm over the methods of that data set and ratio; where they raced, after
          Bonferroni over their pairs, at four fifths of the level;
        - significance: "lowest cost"; "significantly higher" (p below the level); "not significant (corrected)" (its
          own interval excludes 0, but p, corrected for the number of methods, is above the level); or "no significant
          difference".

    See Also
    --------
    pairwise : Differences to one method.
    adacsl.Comparison : Its ``table`` is that of a comparison.

    Notes
    -----
    The lowest cost is chosen on the data that measure it, so its mean and its lead are optimistic. Where splits are
    missing, the lowest-cost method is the one that no other undercuts on the splits they share, among those with at
    least half of the splits.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, compare
    >>> from adacsl.comparison.statistics import summarise
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> methods = ["always-positive", "logistic"]
    >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
    ...                  folds=2, n_jobs=1, progress=False)
    >>> summarise(result.results, result.paired)["significance"].tolist()
    ['lowest cost', 'significantly higher']
    """
    _check_level(confidence)
    out = {view: {each.method for each in stopped if each[:2] == view} for view in paired}
    frames = [
        summary_of(
            rows, confidence=confidence, floor=floor, stopped=out[data, ratio], raced=(data, ratio) in raced
        ).assign(data=data, ratio=ratio)
        for (data, ratio), rows in sorted(paired.items())
    ]
    if not frames:
        return pd.DataFrame(columns=SUMMARY_COLUMNS)
    fits = results.reindex(columns=[*FIT_COLUMNS[:3], "normalized_cost", "savings"])
    means = fits.astype({"data": str, "ratio": float, "method": str}).groupby(FIT_COLUMNS[:3]).mean()
    return pd.concat(frames, ignore_index=True).join(means, on=FIT_COLUMNS[:3]).reindex(columns=SUMMARY_COLUMNS)


def pairwise(paired: Mapping[View, RowCosts], reference: str, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how much more each method costs than one of them, on the splits both have.

    Parameters
    ----------
    paired : mapping from (data, ratio) to RowCosts
        Cost of each sample: ``comparison.paired``.
    reference : str
        The method to compare with.
    confidence : float, default 0.95
        Coverage of the intervals; ``1 - confidence`` is the level of the tests.

    Returns
    -------
    pandas.DataFrame
        Columns as in :func:`summarise`: pairs, difference and percent (of the reference's mean) with their intervals, p
        (Holm), and a significance: "significantly lower", "no significant difference" or "significantly higher". A data
        set and ratio without the reference has no rows.

    See Also
    --------
    summarise : Differences to the lowest cost.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, compare
    >>> from adacsl.comparison.statistics import pairwise
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> methods = ["always-positive", "logistic"]
    >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
    ...                  folds=2, n_jobs=1, progress=False)
    >>> pairwise(result.paired, "always-positive")["significance"].tolist()
    ['significantly lower']
    """
    _check_level(confidence)
    known = sorted({name for rows in paired.values() for name in rows.methods})
    if reference not in known:
        raise ValueError(f"reference must be a method with results, got {reference!r}; there are: {', '.join(known)}")
    frames = []
    for (data, ratio), rows in sorted(paired.items()):
        if reference in rows.methods:
            table = pd.DataFrame(_against(rows, rows.methods.index(reference), confidence))
            significance = np.where(table["difference"] < 0, "significantly lower", "significantly higher")
            table["significance"] = np.where(table["p"] < 1 - confidence, significance, "no significant difference")
            table = table[table["method"] != reference].sort_values("difference", kind="stable")
            frames.append(table.assign(data=data, ratio=ratio, reference=reference))
    return pd.concat(frames, ignore_index=True).reindex(columns=PAIRWISE_COLUMNS)


def summary_of(
    rows: RowCosts,
    *,
    confidence: float = 0.95,
    floor: float | None = 0.0,
    stopped: Collection[str] = (),
    raced: bool = False,
) -> pd.DataFrame:
    """Return the summary of one data set and ratio, lowest cost first, without normalised costs and savings."""
    sizes = _sizes(rows)
    own = _columns([_estimate(rows, sizes, confidence, place) for place in range(len(rows.methods))])
    best = lowest_cost(rows, stopped)
    table = _against(rows, best, confidence, raced=raced)
    low = own["low"]
    if floor is not None and np.nanmin(rows.costs) >= floor:
        low = np.maximum(low, floor)
        if floor == 0:
            table["below_high"] = np.minimum(table["below_high"], 100.0)  # no cost is below zero
    worse = ((table["p"] < 1 - confidence) & (table["difference"] > 0)) | np.isin(rows.methods, list(stopped))
    significance = np.where(
        table["difference_low"] > 0, "not significant (corrected)", "no significant difference"
    ).astype(object)
    significance[worse] = "significantly higher"
    significance[best] = "lowest cost"
    rank = _rank(table, own["mean"], best)
    n = (~np.isnan(rows.sums)).sum(axis=1)
    table |= {"n": n, "mean": own["mean"], "low": low, "high": own["high"], "rank": rank, "significance": significance}
    # of equal costs the one with "lowest cost" comes first, the others by name
    return pd.DataFrame(table).iloc[np.lexsort((np.arange(len(rank)) != best, rank))]


def _check_level(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")


def _sizes(rows: RowCosts) -> NDArray[np.float64]:
    """Return the mean absolute cost of each method, relative to which rounding is judged."""
    return np.asarray([np.abs(own[~np.isnan(own)]).mean() for own in rows.costs])


def _estimate(
    rows: RowCosts, sizes: NDArray[np.float64], confidence: float, method: int, other: int | None = None
) -> Estimate:
    """Return the mean cost of a method, or its mean difference to another on the splits both have."""
    chosen = [method] if other is None else [method, other]
    kept = rows.entries(*chosen)
    values = rows.costs[method] if other is None else rows.costs[method] - rows.costs[other]
    whole = bool(kept.all())
    evidence = rows.evidence if whole else rows.evidence.only(kept)
    return estimate(values if whole else values[kept], evidence, level=confidence, size=float(sizes[chosen].max()))


def _columns(result: list[Estimate]) -> dict[str, NDArray[np.float64]]:
    return dict(zip(Estimate._fields, np.asarray(result, dtype=np.float64).T, strict=True))


def paired_estimate(rows: RowCosts, method: int, other: int, *, level: float = 0.95) -> Estimate:
    """Return how much more a method costs than another, on the splits both have; both by their place."""
    return _estimate(rows, _sizes(rows), level, method, other)


def lowest_cost(rows: RowCosts, stopped: Collection[str] = ()) -> int:
    """Return the place of the method that no other undercuts on the splits they share; of equals, the first.

    Methods that were ``stopped`` are not considered.
    """
    sizes = _sizes(rows)
    there = ~np.isnan(rows.sums)
    candidates = np.flatnonzero(enough_splits(there.sum(axis=1)) & ~np.isin(rows.methods, list(stopped)))
    sums, there, noise = rows.sums[candidates], there[candidates], NOISE * sizes[candidates]
    means = _mean_over(sums, there, rows.sizes)
    best = int(np.argmax(means <= means.min() + noise))
    seen = {best}
    while True:
        # with all fits present nothing can be below the smallest mean and the loop ends at once
        extra = _mean_over(sums - sums[best], there & there[best], rows.sizes)
        below = [i for i in np.flatnonzero(extra < -noise).tolist() if i not in seen]
        if not below:
            return int(candidates[best])
        best = min(below, key=lambda i: (extra[i], i))
        seen.add(best)


def _mean_over(sums: NDArray[np.float64], there: NDArray[np.bool_], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means over the samples of some splits, from sums by split; NaN where there is none."""
    counted = (there * sizes).sum(axis=1)
    return np.asarray(np.where(there, sums, 0.0).sum(axis=1) / np.where(counted > 0, counted, np.nan))


def _rank(table: dict[str, Any], mean: NDArray[np.float64], best: int) -> NDArray[np.int64]:
    lead = np.where(table["pairs"] > 0, table["difference"], mean - mean[best])
    noise = NOISE * np.abs(mean)
    below = lead[None, :] < lead[:, None] - np.maximum(noise[None, :], noise[:, None])
    return np.asarray(1 + below.sum(axis=1), dtype=np.int64)


def _against(rows: RowCosts, reference: int, confidence: float, *, raced: bool = False) -> dict[str, Any]:
    """Return the paired differences to one method, as columns with a row for each method."""
    sizes, count = _sizes(rows), len(rows.methods)
    extra = _columns([_estimate(rows, sizes, confidence, place, reference) for place in range(count)])
    shared = ~np.isnan(rows.sums) & ~np.isnan(rows.sums[reference])
    ours, theirs = (
        _mean_over(np.broadcast_to(part, shared.shape), shared, rows.sizes)
        for part in (rows.sums, rows.sums[reference])
    )
    table: dict[str, Any] = {"method": list(rows.methods), "pairs": shared.sum(axis=1)}
    p = np.where(np.arange(count) != reference, extra["p"], np.nan)
    table["p"] = np.minimum(p * (count * (count - 1) / 2) / LEFT_BY_A_RACE, 1.0) if raced else holm(p)
    for suffix, end in {"": extra["mean"], "_low": extra["low"], "_high": extra["high"]}.items():
        table[f"difference{suffix}"] = end
        table[f"percent{suffix}"] = 100 * end / np.where(theirs > 0, theirs, np.nan)
        table[f"below{suffix}"] = 100 * end / np.where((theirs > 0) & (ours > 0), ours, np.nan)
    return table


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values adjusted after Holm (1979); NaN stay NaN and are not counted."""
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


class BaselineCosts(NamedTuple):
    """The baseline that a saving is measured against: the current decisions, or the better of two simple rules."""

    against: str
    """Description of the baseline."""
    costs: RowCosts
    """Costs of samples under the baseline (:data:`BASELINE`) and under the recommended method."""
    other: str = ""
    """Description of the other simple rule: threshold 0.5 or the best constant baseline."""
    other_cost: float = math.nan
    """Its mean cost per sample."""
    source: str = ""
    """The method whose probabilities are thresholded at 0.5; "": the current decisions."""
    constant: int | None = None
    """The class that the baseline always predicts; None: it is not constant."""


class Saving(NamedTuple):
    """Saving of a method per sample against a baseline, with its 95 % CI; negative where the method costs more."""

    against: str
    """Description of the baseline."""
    difference: float
    low: float
    high: float
    percent: float
    """Saving in percent of the baseline's cost; NaN, as its ends, where that cost is zero or negative."""
    percent_low: float
    percent_high: float
    cost: float = math.nan
    """Mean cost of the baseline per sample."""
    other: str = ""
    """Description of the other baseline: of threshold 0.5 and the best constant baseline the one that costs more."""
    other_cost: float = math.nan

    @property
    def significant(self) -> bool:
        """Whether the saving, or the loss, is significant."""
        return self.low > 0 or self.high < 0

    @property
    def words(self) -> str:
        """``12 % (95 % CI 5-19 %) less than ... (0.7)``; in units of cost where a percentage has no meaning."""
        against = self.against + (f" ({number(self.cost)})" if math.isfinite(self.cost) else "")
        both = f"; {self.other} costs {number(self.other_cost)}" if self.other else ""
        if not self.difference and self.low == self.high == 0:
            return f"as much as {against}{both}"
        known = math.isfinite(self.percent)
        ends = (self.percent, self.percent_low, self.percent_high) if known else self[1:4]
        loss = self.difference < 0
        middle, low, high = (-ends[0], -ends[2], -ends[1]) if loss else ends
        doubt = "" if self.significant or math.isnan(self.low) else ", not significantly"
        amount = span(middle, low, high, " %" if known else "")
        return f"{amount} {'more' if loss else 'less'} than {against}{doubt}{both}"


def paired_differences(costs: RowCosts, method: str, other: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the cost of a method minus that of another on each sample both predicted, with its fit and unit."""
    mine, theirs = costs.methods.index(method), costs.methods.index(other)
    kept = costs.entries(mine, theirs)
    return (costs.costs[mine] - costs.costs[theirs])[kept], costs.fits[kept], costs.units[kept]


def excess_in(costs: RowCosts, method: str, other: str) -> Estimate:
    """Return how much more a method costs than another."""
    values, fits, units = paired_differences(costs, method, other)
    return estimate(values, Evidence.of(fits, units), size=float(np.nanmax(np.abs(costs.costs), initial=0.0)))


def saving_of(method: str, baseline: BaselineCosts | None) -> Saving | None:
    """Return the saving of a method against a baseline."""
    if baseline is None:
        return None
    costs = baseline.costs
    excess = excess_in(costs, method, BASELINE)
    if not math.isfinite(excess.mean):
        return None  # no sample that both predicted
    current = costs.costs[costs.methods.index(BASELINE)]
    cost = float(current[costs.entries(costs.methods.index(method), costs.methods.index(BASELINE))].mean())
    most = cost if np.nanmin(costs.costs) >= 0 else math.inf  # no cost is below zero
    ends = (-excess.mean, -excess.high, min(-excess.low, most))
    percents = [100 * end / cost if cost > 0 else math.nan for end in ends]
    mean, low, high, percent, percent_low, percent_high = (end + 0.0 for end in (*ends, *percents))
    own = Saving(baseline.against, mean, low, high, percent, percent_low, percent_high)
    return own._replace(cost=cost, other=baseline.other, other_cost=baseline.other_cost)
