"""Intervals of repeated random splits: the corrected resampled t-test on means of splits.

The paper's splits are random ones, whose test sets overlap; row by row costs over folds do not apply to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from adacsl.comparison.statistics import FIT_COLUMNS, NOISE, PAIRWISE_COLUMNS, SUMMARY_COLUMNS, enough_splits, holm
from benchmarks.quality.ranks import Block, blocks_of, checked, mean_of


def summarise(
    results: pd.DataFrame, *, confidence: float = 0.95, measure: str = "cost", floor: float | None = 0.0
) -> pd.DataFrame:
    r"""Return one row for each data set, ratio and method: its cost, and how it stands against the cheapest.

    Test sets of repeated splits share rows, so their costs vary too little. Every interval and p-value uses the
    corrected variance of Nadeau and Bengio (2003) over J splits, with t of J - 1 degrees of freedom:

    .. math:: \left(\frac{1}{J} + \frac{n_\mathrm{test}}{n_\mathrm{train}}\right) s^2

    Parameters
    ----------
    results : DataFrame
        Columns data, ratio, method, seed, n_train, n_test and ``measure``; one row for each finished fit.
    confidence : float, default 0.95
        Coverage of the intervals; ``1 - confidence`` is the level of the tests.
    measure : str, default "cost"
        The column to compare; less must be better.
    floor : float or None, default 0.0
        Intervals of a mean end here, unless a smaller one was seen in that data set and ratio (benefits). None: never.

    Returns
    -------
    DataFrame
        As that of :func:`adacsl.comparison.statistics.summarise`, by means of splits in place of costs of rows.
    """
    fits = checked(results, measure, confidence)
    frames = [_summary_of(block, confidence, floor) for block in blocks_of(fits, measure)]
    if not frames:
        return pd.DataFrame(columns=SUMMARY_COLUMNS)
    means = fits.reindex(columns=[*FIT_COLUMNS, "normalized_cost", "savings"]).groupby(FIT_COLUMNS[:3])
    table = pd.concat(frames, ignore_index=True).join(means[["normalized_cost", "savings"]].mean(), on=FIT_COLUMNS[:3])
    return table.reindex(columns=SUMMARY_COLUMNS)


def pairwise(results: pd.DataFrame, reference: str, *, confidence: float = 0.95, measure: str = "cost") -> pd.DataFrame:
    """Return how much more each method costs than ``reference``, on the splits both have.

    Columns as in :func:`summarise`: pairs, difference and percent (of the reference's mean) with their intervals, p
    (Holm), and a significance: "significantly lower", "no significant difference" or "significantly higher". A data set
    and ratio without the reference has no rows.
    """
    fits = checked(results, measure, confidence)
    known = sorted(fits["method"].unique())
    if reference not in known:
        raise ValueError(f"reference must be a method with results, got {reference!r}; there are: {', '.join(known)}")
    frames = []
    for block in blocks_of(fits, measure):
        if reference in block.methods:
            rows = pd.DataFrame(_against(block, block.methods.index(reference), confidence))
            significance = np.where(rows["difference"] < 0, "significantly lower", "significantly higher")
            rows["significance"] = np.where(rows["p"] < 1 - confidence, significance, "no significant difference")
            rows = rows[rows["method"] != reference].sort_values("difference", kind="stable")
            frames.append(rows.assign(reference=reference))
    return pd.concat(frames, ignore_index=True).reindex(columns=PAIRWISE_COLUMNS)


def _summary_of(block: Block, confidence: float, floor: float | None) -> pd.DataFrame:
    own = _estimate(block.costs, np.nanmax(np.abs(block.costs), axis=0), block.overlap, confidence)
    best = _lowest_cost(block.costs)
    table = _against(block, best, confidence)
    low = own["low"]
    if floor is not None and np.nanmin(block.costs) >= floor:
        low = np.maximum(low, floor)
        if floor == 0:
            table["below_high"] = np.minimum(table["below_high"], 100.0)  # nothing is cheaper than free
    worse = (table["p"] < 1 - confidence) & (table["difference"] > 0)
    significance = np.where(
        table["difference_low"] > 0, "not significant (corrected)", "no significant difference"
    ).astype(object)
    significance[worse] = "significantly higher"
    significance[best] = "lowest cost"
    rank = _rank(table, own["mean"], best)
    table |= {
        "n": own["n"],
        "mean": own["mean"],
        "low": low,
        "high": own["high"],
        "rank": rank,
        "significance": significance,
    }
    # of equal costs the one called cheapest comes first, the others by name
    return pd.DataFrame(table).iloc[np.lexsort((np.arange(len(rank)) != best, rank))]


def _lowest_cost(costs: NDArray[np.float64]) -> int:
    """Return the method that no other undercuts on the seeds they share; of equals, the first."""
    candidates = np.flatnonzero(enough_splits((~np.isnan(costs)).sum(axis=0)))
    costs = costs[:, candidates]
    noise = NOISE * np.nanmax(np.abs(costs), axis=0)
    means = np.nanmean(costs, axis=0)
    best = int(np.argmax(means <= means.min() + noise))
    seen = {best}
    while True:
        # with all fits present nothing can be below the smallest mean and the loop ends at once
        extra = mean_of(costs - costs[:, [best]])
        below = [i for i in np.flatnonzero(extra < -noise).tolist() if i not in seen]
        if not below:
            return int(candidates[best])
        best = min(below, key=lambda i: (extra[i], i))
        seen.add(best)


def _rank(table: dict[str, Any], mean: NDArray[np.float64], best: int) -> NDArray[np.int64]:
    lead = np.where(table["pairs"] > 0, table["difference"], mean - mean[best])
    noise = NOISE * np.abs(mean)
    below = lead[None, :] < lead[:, None] - np.maximum(noise[None, :], noise[:, None])
    return np.asarray(1 + below.sum(axis=1), dtype=np.int64)


def _estimate(
    values: NDArray[np.float64], size: NDArray[np.float64], overlap: NDArray[np.float64], confidence: float
) -> dict[str, NDArray[Any]]:
    """Corrected resampled t for each column of seeds x methods (NaN: no such fit); ``size`` says what rounding is.

    Returns n, mean, low, high and p of each column.
    """
    n = (~np.isnan(values)).sum(axis=0)
    some, several = np.where(n > 0, n, np.nan), np.where(n > 1, n - 1.0, np.nan)
    mean = mean_of(values)
    spread = np.sqrt(np.nansum(np.square(values - mean), axis=0) / several)
    mean, spread = (np.where(np.abs(part) <= NOISE * size, 0.0, part) for part in (mean, spread))
    error = spread * np.sqrt(1 / some + mean_of(np.where(np.isnan(values), np.nan, overlap[:, None])))
    half = stats.t.ppf((1 + confidence) / 2, several) * error
    with np.errstate(divide="ignore", invalid="ignore"):  # no spread: sure (p = 0), or no difference at all (p = 1)
        statistic = np.where((error == 0) & (mean == 0), 0.0, np.abs(mean) / error)
    p = np.asarray(2 * stats.t.sf(statistic, several))
    return {"n": n, "mean": mean, "low": mean - half, "high": mean + half, "p": p}


def _against(block: Block, reference: int, confidence: float) -> dict[str, Any]:
    """Return the paired differences to one method, as columns with a row for each method."""
    base = block.costs[:, [reference]]
    difference = block.costs - base
    ours, theirs = (np.where(np.isnan(difference), np.nan, part) for part in (block.costs, base))
    size = np.fmax(np.abs(ours), np.abs(theirs)).max(axis=0, initial=0.0, where=~np.isnan(difference))
    extra = _estimate(difference, size, block.overlap, confidence)
    ours, theirs = mean_of(ours), mean_of(theirs)
    others = np.arange(len(block.methods)) != reference
    table: dict[str, Any] = {"data": block.data, "ratio": block.ratio, "method": block.methods, "pairs": extra["n"]}
    table["p"] = holm(np.where(others, extra["p"], np.nan))
    for suffix, end in {"": extra["mean"], "_low": extra["low"], "_high": extra["high"]}.items():
        table[f"difference{suffix}"] = end
        table[f"percent{suffix}"] = 100 * end / np.where(theirs > 0, theirs, np.nan)
        table[f"below{suffix}"] = 100 * end / np.where((theirs > 0) & (ours > 0), ours, np.nan)
    return table
