"""What each method costs, and how much dearer than another it is: intervals and paired differences of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.experiments.statistics.blocks import CELL, enough_splits
from adacsl.experiments.statistics.folds import NOISE, Estimate, estimate
from adacsl.experiments.statistics.paired import RowCosts, View
from adacsl.extras import requires

with requires("compare"):
    import pandas as pd

_DIFFERENCE = ["difference", "difference_low", "difference_high", "percent", "percent_low", "percent_high", "p"]

_SUMMARY = ["n", "mean", "low", "high", "normalized_cost", "savings", "rank", "pairs", *_DIFFERENCE]

SUMMARY_COLUMNS = ["data", "ratio", "method", *_SUMMARY, "below", "below_low", "below_high", "standing"]

PAIRWISE_COLUMNS = ["data", "ratio", "method", "reference", "pairs", *_DIFFERENCE, "standing"]


def summarise(
    results: pd.DataFrame, paired: Mapping[View, RowCosts], *, confidence: float = 0.95, floor: float | None = 0.0
) -> pd.DataFrame:
    """Return one row for each data set, ratio and method: its cost, and how it stands against the cheapest.

    Every interval and p-value is that of :func:`~adacsl.experiments.statistics.folds.fold_interval`: Student's t on
    costs of rows, paired where two methods are compared; rows (or groups) and fits both count.

    Parameters
    ----------
    results : DataFrame
        One row for each finished cell: data, ratio, method, seed, normalized_cost and savings.
    paired : mapping from (data, ratio) to RowCosts
        What each row cost: ``comparison.paired``.
    confidence : float, default 0.95
        Coverage of the intervals; ``1 - confidence`` is the level of the tests.
    floor : float or None, default 0.0
        Intervals of a mean end here, unless a row of that data set and ratio cost less (benefits). None: never.

    Returns
    -------
    DataFrame
        Sorted by data, ratio and rank, with the columns

        - n: splits of this method; mean, low, high: its cost per row; normalized_cost, savings: means over splits;
        - rank: 1 for the cheapest, the same for equal costs;
        - pairs: splits shared with the cheapest; difference, difference_low, difference_high: how much dearer than the
          cheapest on those; percent...: the same in percent of the cheapest's mean; below...: by how many percent of
          this method's mean the cheapest lies below it (both NaN where the cheapest costs nothing or less);
        - p: two-sided, adjusted after Holm over the methods of that data set and ratio;
        - standing: "cheapest"; "clearly worse" (p below the level); "probably worse" (its own interval leaves out 0,
          but among so many methods that may be chance); or "not told apart".

    Notes
    -----
    The cheapest is chosen on the data that measure it, so its mean and its lead are optimistic. Where splits are
    missing, it is the method that no other undercuts on the splits they share, among those with at least half of them.
    """
    _check_level(confidence)
    frames = [
        summary_of(rows, confidence=confidence, floor=floor).assign(data=data, ratio=ratio)
        for (data, ratio), rows in sorted(paired.items())
    ]
    if not frames:
        return pd.DataFrame(columns=SUMMARY_COLUMNS)
    cells = results.reindex(columns=[*CELL[:3], "normalized_cost", "savings"])
    means = cells.astype({"data": str, "ratio": float, "method": str}).groupby(CELL[:3]).mean()
    return pd.concat(frames, ignore_index=True).join(means, on=CELL[:3]).reindex(columns=SUMMARY_COLUMNS)


def pairwise(paired: Mapping[View, RowCosts], reference: str, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how much dearer each method is than ``reference``, on the splits both have.

    Columns as in :func:`summarise`: pairs, difference and percent (of the reference's mean) with their intervals, p
    (Holm), and a standing of "clearly cheaper", "not told apart" or "clearly worse". A data set and ratio without the
    reference has no rows.
    """
    _check_level(confidence)
    known = sorted({name for rows in paired.values() for name in rows.methods})
    if reference not in known:
        raise ValueError(f"reference must be a method with results, got {reference!r}; there are: {', '.join(known)}")
    frames = []
    for (data, ratio), rows in sorted(paired.items()):
        if reference in rows.methods:
            table = pd.DataFrame(_against(rows, rows.methods.index(reference), confidence))
            standing = np.where(table["difference"] < 0, "clearly cheaper", "clearly worse")
            table["standing"] = np.where(table["p"] < 1 - confidence, standing, "not told apart")
            table = table[table["method"] != reference].sort_values("difference", kind="stable")
            frames.append(table.assign(data=data, ratio=ratio, reference=reference))
    return pd.concat(frames, ignore_index=True).reindex(columns=PAIRWISE_COLUMNS)


def summary_of(rows: RowCosts, *, confidence: float = 0.95, floor: float | None = 0.0) -> pd.DataFrame:
    """Return the summary of one data set and ratio, the cheapest first, without normalised costs and savings."""
    sizes = _sizes(rows)
    own = _columns([_estimate(rows, sizes, confidence, place) for place in range(len(rows.methods))])
    best = _cheapest(rows, sizes)
    table = _against(rows, best, confidence)
    low = own["low"]
    if floor is not None and np.nanmin(rows.costs) >= floor:
        low = np.maximum(low, floor)
        if floor == 0:
            table["below_high"] = np.minimum(table["below_high"], 100.0)  # nothing is cheaper than free
    worse = (table["p"] < 1 - confidence) & (table["difference"] > 0)
    standing = np.where(table["difference_low"] > 0, "probably worse", "not told apart").astype(object)
    standing[worse] = "clearly worse"
    standing[best] = "cheapest"
    rank = _rank(table, own["mean"], best)
    n = (~np.isnan(rows.sums)).sum(axis=1)
    table |= {"n": n, "mean": own["mean"], "low": low, "high": own["high"], "rank": rank, "standing": standing}
    # of equal costs the one called cheapest comes first, the others by name
    return pd.DataFrame(table).iloc[np.lexsort((np.arange(len(rank)) != best, rank))]


def _check_level(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")


def _sizes(rows: RowCosts) -> NDArray[np.float64]:
    """Return how large the costs of each method are in the mean, whatever their sign: what rounding is measured by."""
    return np.asarray([np.abs(own[~np.isnan(own)]).mean() for own in rows.costs])


def _estimate(
    rows: RowCosts, sizes: NDArray[np.float64], confidence: float, method: int, other: int | None = None
) -> Estimate:
    """Return the mean cost of a method, or how much dearer than another it is on the splits both have."""
    chosen = [method] if other is None else [method, other]
    kept = rows.entries(*chosen)
    values = rows.costs[method] if other is None else rows.costs[method] - rows.costs[other]
    whole = bool(kept.all())
    evidence = rows.evidence if whole else rows.evidence.only(kept)
    return estimate(values if whole else values[kept], evidence, level=confidence, size=float(sizes[chosen].max()))


def _columns(found: list[Estimate]) -> dict[str, NDArray[np.float64]]:
    return dict(zip(Estimate._fields, np.asarray(found, dtype=np.float64).T, strict=True))


def _cheapest(rows: RowCosts, sizes: NDArray[np.float64]) -> int:
    """Return the method that no other undercuts on the splits they share; of equals, the first."""
    there = ~np.isnan(rows.sums)
    candidates = np.flatnonzero(enough_splits(there.sum(axis=1)))
    sums, there, noise = rows.sums[candidates], there[candidates], NOISE * sizes[candidates]
    means = _mean_over(sums, there, rows.sizes)
    best = int(np.argmax(means <= means.min() + noise))
    seen = {best}
    while True:
        # with all cells present nothing can be below the smallest mean and the loop ends at once
        extra = _mean_over(sums - sums[best], there & there[best], rows.sizes)
        below = [i for i in np.flatnonzero(extra < -noise).tolist() if i not in seen]
        if not below:
            return int(candidates[best])
        best = min(below, key=lambda i: (extra[i], i))
        seen.add(best)


def _mean_over(sums: NDArray[np.float64], there: NDArray[np.bool_], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the means over the rows of some splits, from sums by split; NaN where there is none."""
    counted = (there * sizes).sum(axis=1)
    return np.asarray(np.where(there, sums, 0.0).sum(axis=1) / np.where(counted > 0, counted, np.nan))


def _rank(table: dict[str, Any], mean: NDArray[np.float64], best: int) -> NDArray[np.int64]:
    lead = np.where(table["pairs"] > 0, table["difference"], mean - mean[best])
    noise = NOISE * np.abs(mean)
    below = lead[None, :] < lead[:, None] - np.maximum(noise[None, :], noise[:, None])
    return np.asarray(1 + below.sum(axis=1), dtype=np.int64)


def _against(rows: RowCosts, reference: int, confidence: float) -> dict[str, Any]:
    """Return the paired differences to one method, as columns with a row for each method."""
    sizes, count = _sizes(rows), len(rows.methods)
    extra = _columns([_estimate(rows, sizes, confidence, place, reference) for place in range(count)])
    shared = ~np.isnan(rows.sums) & ~np.isnan(rows.sums[reference])
    ours, theirs = (
        _mean_over(np.broadcast_to(part, shared.shape), shared, rows.sizes)
        for part in (rows.sums, rows.sums[reference])
    )
    table: dict[str, Any] = {"method": list(rows.methods), "pairs": shared.sum(axis=1)}
    table["p"] = holm(np.where(np.arange(count) != reference, extra["p"], np.nan))
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


__all__ = ["PAIRWISE_COLUMNS", "SUMMARY_COLUMNS", "enough_splits", "holm", "pairwise", "summarise", "summary_of"]
