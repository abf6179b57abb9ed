"""Average ranks of methods over many data sets, and what can be told apart by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from adacsl.experiments.statistics.blocks import blocks_of, checked, enough_splits, mean_of
from adacsl.experiments.statistics.wording import names_of
from adacsl.extras import requires

with requires("compare"):
    import pandas as pd
    from scipy import stats


class Ranks(NamedTuple):
    """Average ranks over blocks, and what can be told apart by them."""

    table: pd.DataFrame
    """Columns method, average_rank and mean (of the measure), best first."""
    n_blocks: int
    friedman_p: float | None
    """Are the methods alike in all blocks? None: not computed, see ``reason``."""
    critical_difference: float | None
    """Average ranks further apart than this differ (Nemenyi). None: not computed, see ``reason``."""
    groups: tuple[tuple[str, ...], ...]
    """Largest sets of methods that are not told apart, best first; they may overlap. A method in none stands alone."""
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
        What counts as one trial. The ratios of a data set share its rows and often its nets: they are not independent,
        hence by default a data set is one block with its mean over ratios. Blocks by ratio overstate the certainty.
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
