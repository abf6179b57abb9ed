"""Average ranks of methods over many data sets (Friedman, then Nemenyi; Demsar 2006), and the method they recommend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from adacsl.comparison.recommendation import TOLERANCE, Prefer, Recommendation
from adacsl.comparison.statistics import (
    BASELINE,
    CONSTANTS,
    FIT_COLUMNS,
    capital,
    enough_splits,
    names_of,
    sentence_name,
)

MORE_IS_BETTER = ("savings", "accuracy", "tp", "tn")


class Block(NamedTuple):
    """The costs of one data set and ratio."""

    data: str
    ratio: float
    methods: list[str]
    costs: NDArray[np.float64]  # seeds x methods, NaN where there is no such cell
    overlap: NDArray[np.float64]  # n_test / n_train of each seed


def blocks_of(results: pd.DataFrame, measure: str) -> Iterator[Block]:
    """Go through the data sets and ratios of checked results."""
    for (data, ratio), frame in cast("Any", results.groupby(["data", "ratio"])):
        methods, column = np.unique(frame["method"].to_numpy(dtype=str), return_inverse=True)
        seeds, row = np.unique(frame["seed"].to_numpy(), return_inverse=True)
        costs, tested, overlap = (np.full((len(seeds), len(methods)), np.nan) for _ in range(3))
        costs[row, column] = frame[measure]
        tested[row, column] = frame["n_test"]
        overlap[row, column] = frame["n_test"] / frame["n_train"]
        low, high = np.nanmin(tested, axis=1), np.nanmax(tested, axis=1)
        if (low != high).any():
            at = int(np.argmax(low != high))
            raise ValueError(
                f"methods of {data}, seed {seeds[at]} were tested on {low[at]:g} and on {high[at]:g} rows: "
                "only methods on the same splits can be compared; repeat the older ones"
            )
        yield Block(data, ratio, methods.tolist(), costs, np.nanmean(overlap, axis=1))


def checked(results: pd.DataFrame, measure: str, confidence: float) -> pd.DataFrame:
    """Return results in which every cell stands once, with a finite measure and its sizes; or raise."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    if measure in MORE_IS_BETTER:
        raise ValueError(f"measure must be a column where less is better, such as 'cost'; got {measure!r}")
    needed = dict.fromkeys([*FIT_COLUMNS, "n_train", "n_test", measure])
    missing = [name for name in needed if name not in results.columns]
    if missing:
        raise ValueError(f"results lack the columns {missing}; got {list(results.columns)}")
    if results[FIT_COLUMNS].isna().any(axis=None):
        raise ValueError(f"every row of results must name its {', '.join(FIT_COLUMNS)}; some are missing")
    _check_rows(results, results.duplicated(FIT_COLUMNS), "twice: keep one row for each fit")
    finite = np.isfinite(results[measure].to_numpy(dtype=float))
    _check_rows(results, ~finite, f"with a {measure} that is no finite number: drop or repeat that fit")
    _check_rows(results, ~((results["n_train"] > 0) & (results["n_test"] > 0)), "without n_train and n_test above 0")
    return results.astype({"data": str, "ratio": float, "method": str})


def _check_rows(results: pd.DataFrame, wrong: Any, what: str) -> None:
    if np.any(wrong):
        data, ratio, method, seed = results.loc[np.asarray(wrong), FIT_COLUMNS].iloc[0]
        raise ValueError(f"results hold {data}, ratio {ratio:g}, {method}, seed {seed} {what}")


def mean_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the columns over what is there; NaN where nothing is."""
    n = (~np.isnan(values)).sum(axis=0)
    return np.asarray(np.nansum(values, axis=0) / np.where(n > 0, n, np.nan))


class Ranks(NamedTuple):
    """Average ranks over blocks, and which differences are significant."""

    table: pd.DataFrame
    """Columns method, average_rank and mean (of the measure), best first."""
    n_blocks: int
    friedman_p: float | None
    """Are the methods alike in all blocks? None: not computed, see ``reason``."""
    critical_difference: float | None
    """Average ranks further apart than this differ (Nemenyi). None: not computed, see ``reason``."""
    groups: tuple[tuple[str, ...], ...]
    """Largest sets of methods without a significant difference, best first; they may overlap. One may be in none."""
    left_out: tuple[str, ...]
    """Methods that lack a data set or ratio."""
    reason: str
    """Why there is no test, or empty."""
    blocks: tuple[str, ...] = ("data",)


def ranks(
    results: pd.DataFrame,
    *,
    blocks: Sequence[str] = ("data",),
    confidence: float = 0.95,
    measure: str = "normalized_cost",
) -> Ranks:
    r"""Rank the methods in each block, average the ranks, and test them (Friedman, then Nemenyi).

    Average ranks of k methods over N blocks differ when they are further apart than

    .. math:: q_\alpha \sqrt{\frac{k (k + 1)}{6 N}}

    (Demsar, 2006), provided that Friedman's test rejects that all are alike.

    Parameters
    ----------
    results : DataFrame
        Columns data, ratio, method, seed, n_train, n_test and ``measure``; one row for each finished cell.
    blocks : ("data",) or ("data", "ratio"), default ("data",)
        What counts as one trial. The ratios of a data set share its rows and often its networks: they are not
        independent, hence by default a data set is one block with its mean over ratios. Blocks by ratio overstate the
        certainty.
    confidence : float, default 0.95
        ``1 - confidence`` is the level of both tests.
    measure : str, default "normalized_cost"
        The column to rank by; it must be comparable between ratios where these are averaged. Cells without it (a
        normalised cost is undefined where a constant decision is free) are left out.
    """
    if tuple(blocks) not in {("data",), ("data", "ratio")}:
        raise ValueError(f"blocks must be ('data',) or ('data', 'ratio'), got {tuple(blocks)!r}")
    defined = results[results[measure].notna()] if measure in results.columns else results
    means, left_out = _block_means(checked(defined, measure, confidence), measure)
    means = means.groupby(level=list(range(len(blocks)))).mean()
    n_blocks, k = means.shape
    # equal but for rounding is equal
    ranked = means.div(means.abs().max(axis=1).replace(0.0, 1.0), axis=0).round(12).rank(axis=1)
    table = pd.DataFrame({"average_rank": ranked.mean(), "mean": means.mean()})
    table = table.rename_axis("method").reset_index().sort_values(["average_rank", "method"], ignore_index=True)
    reason = _no_test(n_blocks, k, tuple(blocks), left_out)
    if reason:
        return Ranks(table, n_blocks, None, None, (), left_out, reason, tuple(blocks))
    # all alike everywhere: the statistic would be 0 / 0
    p = 1.0 if (ranked.nunique(axis=1) == 1).all() else float(stats.friedmanchisquare(*ranked.to_numpy().T).pvalue)
    q = float(stats.studentized_range.ppf(confidence, k, np.inf)) / math.sqrt(2)
    critical = q * math.sqrt(k * (k + 1) / (6 * n_blocks))
    within = critical if p < 1 - confidence else math.inf
    return Ranks(table, n_blocks, p, critical, _groups(table, within), left_out, "", tuple(blocks))


def _block_means(results: pd.DataFrame, measure: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return means over seeds by (data, ratio) of the methods that all of them have, and the other methods."""
    blocks = list(blocks_of(results, measure))
    known = sorted(set(results["method"]))
    measured = [np.asarray(b.methods)[enough_splits((~np.isnan(b.costs)).sum(axis=0))].tolist() for b in blocks]
    kept = [name for name in known if all(name in methods for methods in measured)]
    rows = []
    for block in blocks:
        costs = block.costs[:, [block.methods.index(name) for name in kept]]
        shared = costs[~np.isnan(costs).any(axis=1)]
        rows.append(mean_of(shared if len(shared) else costs))
    index = pd.MultiIndex.from_arrays([[b.data for b in blocks], [b.ratio for b in blocks]], names=["data", "ratio"])
    left_out = tuple(name for name in known if name not in kept)
    return pd.DataFrame(rows, index=index, columns=kept, dtype=float), left_out


def _no_test(n_blocks: int, k: int, blocks: tuple[str, ...], left_out: tuple[str, ...]) -> str:
    if n_blocks < 2:
        return f"ranks need at least 2 {block_word(blocks, 2)} to be tested, got {n_blocks}"
    if k < 3:
        lacking = f" ({names_of(left_out)} {'lacks' if len(left_out) == 1 else 'lack'} some)" if left_out else ""
        return f"ranks need at least 3 methods measured everywhere to be tested, got {k}{lacking}"
    return ""


def _groups(table: pd.DataFrame, within: float) -> tuple[tuple[str, ...], ...]:
    names, average = table["method"].tolist(), table["average_rank"].to_numpy()
    groups, covered = [], 0
    for start in range(len(names)):
        # a critical difference is exceeded or not: rounding of the averages must not decide
        stop = int(np.searchsorted(average, average[start] + within + 1e-9, side="right"))
        if stop > max(covered, start + 1):
            groups.append(tuple(names[start:stop]))
            covered = stop
    return tuple(groups)


def block_word(blocks: tuple[str, ...], n: int) -> str:
    """Return what one block is called, or ``n`` of them."""
    if blocks == ("data",):
        return "data set" if n == 1 else "data sets"
    return "pair of data set and ratio" if n == 1 else "pairs of data set and ratio"


def overall(
    over: Ranks, *, simplest_first: Sequence[str], tolerance: float = TOLERANCE, prefer: Prefer = "cost"
) -> Recommendation:
    """Return the recommended method over many data sets, from average ranks, with the reasons in words.

    It is the simplest method whose rank does not differ significantly from the lowest (with ``prefer="simple"``: of
    any rank), and whose mean cost is at most ``tolerance`` above that of the lowest ranked. A constant decision is
    recommended only where it ranks significantly best, today's decisions never.
    """
    names = over.table["method"].tolist()
    average, mean = (dict(zip(names, over.table[column].tolist(), strict=True)) for column in ("average_rank", "mean"))
    lowest_ranked = [name for name in names if average[name] <= min(average.values()) + 1e-9]
    cheapest = _simplest(lowest_ranked, simplest_first) if names else None
    where = f"{over.n_blocks} {block_word(over.blocks, over.n_blocks)}"
    lowest = f" Lowest average rank: {cheapest} ({average[cheapest]:.1f})." if cheapest and len(names) > 1 else ""
    if cheapest is None or over.critical_difference is None:
        return Recommendation(None, cheapest, (), (), f"No recommendation over data sets: {over.reason}.{lowest}")
    close = next((group for group in over.groups if cheapest in group), (cheapest,))
    tied = tuple(name for name in close if name != cheapest)
    worse = tuple(name for name in names if name not in close and name != cheapest)
    if over.critical_difference >= len(names) - 1:
        text = f"{where} are too few to show a significant difference in rank between {len(names)} methods."
        return Recommendation(None, cheapest, tied, worse, text + lowest + _left_out(over))
    predicting = [name for name in (cheapest, *tied) if name not in CONSTANTS and name != BASELINE]
    base = min(predicting, key=lambda name: (average[name], name), default=cheapest)
    candidates = predicting
    if prefer == "simple" and predicting:
        candidates = [name for name in names if name not in CONSTANTS and name != BASELINE]
    near = [name for name in candidates if mean[name] <= mean[base] + tolerance * abs(mean[base])]
    recommended = _simplest(near, simplest_first) if near else None if cheapest == BASELINE else cheapest
    and_worse = f"; {names_of(worse)} {'ranks' if len(worse) == 1 else 'rank'} significantly worse" if worse else ""
    text = _overall_words(over, average, cheapest, recommended, tied, where) + and_worse + "."
    return Recommendation(recommended, cheapest, tied, worse, text + _left_out(over))


def _overall_words(
    over: Ranks, average: dict[str, float], cheapest: str, recommended: str | None, tied: tuple[str, ...], where: str
) -> str:
    place = f"average rank {average[cheapest]:.1f} of {len(average)}"
    if recommended is None:
        return f"Over {where}, keep your current decisions: they rank significantly best ({place})"
    if recommended != cheapest:
        return (
            f"Over {where}, recommended: {recommended}, the simplest method that predicts with a rank and a mean cost "
            f"close to the best. {capital(sentence_name(cheapest))} has the lowest average rank "
            f"({average[cheapest]:.1f}; {recommended}: {average[recommended]:.1f}; critical difference "
            f"{over.critical_difference:.1f})"
        )
    if tied:
        return f"Over {where}, {cheapest} ranks best ({place}); no significant difference from {names_of(tied)}"
    return f"Over {where}, {cheapest} ranks significantly best ({place})"


def _left_out(over: Ranks) -> str:
    return f" Excluded, as not evaluated everywhere: {names_of(over.left_out)}." if over.left_out else ""


def _simplest(methods: Sequence[str], simplest_first: Sequence[str]) -> str:
    """Return the simplest of some methods; of those not listed the first by name."""
    places = {name: place for place, name in enumerate(simplest_first)}
    return min(methods, key=lambda name: (places.get(name, len(places)), name))
