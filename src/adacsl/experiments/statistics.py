"""Which method is cheapest, and how sure is that: intervals, paired differences, ranks and a verdict in words.

All functions read the results frame (one row for each finished cell) or a summary of it, and change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adacsl.extras import requires

with requires("compare"):
    import pandas as pd
    from scipy import stats

CELL = ["data", "ratio", "method", "seed"]
MORE_IS_BETTER = ("savings", "accuracy", "tp", "tn")
CONSTANTS = {"always-negative": "calling everything negative", "always-positive": "calling everything positive"}
MUCH = 20.0
"""Percent: so much cheaper, however unsure, is worth more seeds."""
NAMES_SHOWN = 5
"""A sentence lists so many methods; the others are counted."""

NOISE = 1e-12
"""Costs that differ by less than this share of themselves are equal: the rest is rounding."""

_DIFFERENCE = ["difference", "difference_low", "difference_high", "percent", "percent_low", "percent_high", "p"]
_SUMMARY = ["n", "mean", "low", "high", "normalized_cost", "savings", "rank", "pairs", *_DIFFERENCE]
SUMMARY_COLUMNS = ["data", "ratio", "method", *_SUMMARY, "below", "below_low", "below_high", "standing"]
PAIRWISE_COLUMNS = ["data", "ratio", "method", "reference", "pairs", *_DIFFERENCE, "standing"]


# per data set and ratio


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
        Columns data, ratio, method, seed, n_train, n_test and ``measure``; one row for each finished cell.
    confidence : float, default 0.95
        Coverage of the intervals; ``1 - confidence`` is the level of the tests.
    measure : str, default "cost"
        The column to compare; less must be better.
    floor : float or None, default 0.0
        Intervals of a mean end here, unless a smaller one was seen in that data set and ratio (benefits). None: never.

    Returns
    -------
    DataFrame
        Sorted by data, ratio and rank, with the columns

        - n: splits of this method; mean, low, high: its cost; normalized_cost, savings: means;
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
    checked = _checked(results, measure, confidence)
    frames = [_summary_of(block, confidence, floor) for block in _blocks(checked, measure)]
    if not frames:
        return pd.DataFrame(columns=SUMMARY_COLUMNS)
    means = checked.reindex(columns=[*CELL, "normalized_cost", "savings"]).groupby(CELL[:3])
    table = pd.concat(frames, ignore_index=True).join(means[["normalized_cost", "savings"]].mean(), on=CELL[:3])
    return table.reindex(columns=SUMMARY_COLUMNS)


def pairwise(results: pd.DataFrame, reference: str, *, confidence: float = 0.95, measure: str = "cost") -> pd.DataFrame:
    """Return how much dearer each method is than ``reference``, on the splits both have.

    Columns as in :func:`summarise`: pairs, difference and percent (of the reference's mean) with their intervals, p
    (Holm), and a standing of "clearly cheaper", "not told apart" or "clearly worse". A data set and ratio without the
    reference has no rows.
    """
    checked = _checked(results, measure, confidence)
    known = sorted(checked["method"].unique())
    if reference not in known:
        raise ValueError(f"reference must be a method with results, got {reference!r}; there are: {', '.join(known)}")
    frames = []
    for block in _blocks(checked, measure):
        if reference in block.methods:
            rows = pd.DataFrame(_against(block, block.methods.index(reference), confidence))
            standing = np.where(rows["difference"] < 0, "clearly cheaper", "clearly worse")
            rows["standing"] = np.where(rows["p"] < 1 - confidence, standing, "not told apart")
            rows = rows[rows["method"] != reference].sort_values("difference", kind="stable")
            frames.append(rows.assign(reference=reference))
    return pd.concat(frames, ignore_index=True).reindex(columns=PAIRWISE_COLUMNS)


class _Block(NamedTuple):
    """The costs of one data set and ratio."""

    data: str
    ratio: float
    methods: list[str]
    costs: NDArray[np.float64]  # seeds x methods, NaN where there is no such cell
    overlap: NDArray[np.float64]  # n_test / n_train of each seed


def _blocks(results: pd.DataFrame, measure: str) -> Iterator[_Block]:
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
        yield _Block(data, ratio, methods.tolist(), costs, np.nanmean(overlap, axis=1))


def _checked(results: pd.DataFrame, measure: str, confidence: float) -> pd.DataFrame:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    if measure in MORE_IS_BETTER:
        raise ValueError(f"measure must be a column where less is better, such as 'cost'; got {measure!r}")
    missing = [name for name in dict.fromkeys([*CELL, "n_train", "n_test", measure]) if name not in results.columns]
    if missing:
        raise ValueError(f"results lack the columns {missing}; got {list(results.columns)}")
    if results[CELL].isna().any(axis=None):
        raise ValueError(f"every row of results must name its {', '.join(CELL)}; some are missing")
    _check_rows(results, results.duplicated(CELL), "twice: keep one row for each cell")
    finite = np.isfinite(results[measure].to_numpy(dtype=float))
    _check_rows(results, ~finite, f"with a {measure} that is no finite number: drop or repeat that cell")
    _check_rows(results, ~((results["n_train"] > 0) & (results["n_test"] > 0)), "without n_train and n_test above 0")
    return results.astype({"data": str, "ratio": float, "method": str})


def _check_rows(results: pd.DataFrame, wrong: Any, what: str) -> None:
    if np.any(wrong):
        data, ratio, method, seed = results.loc[np.asarray(wrong), CELL].iloc[0]
        raise ValueError(f"results hold {data}, ratio {ratio:g}, {method}, seed {seed} {what}")


def _summary_of(block: _Block, confidence: float, floor: float | None) -> pd.DataFrame:
    own = _estimate(block.costs, np.nanmax(np.abs(block.costs), axis=0), block.overlap, confidence)
    best = _cheapest(block.costs)
    table = _against(block, best, confidence)
    low = own.low
    if floor is not None and np.nanmin(block.costs) >= floor:
        low = np.maximum(low, floor)
        if floor == 0:
            table["below_high"] = np.minimum(table["below_high"], 100.0)  # nothing is cheaper than free
    worse = (table["p"] < 1 - confidence) & (table["difference"] > 0)
    standing = np.where(table["difference_low"] > 0, "probably worse", "not told apart").astype(object)
    standing[worse] = "clearly worse"
    standing[best] = "cheapest"
    rank = _rank(table, own.mean, best)
    table |= {"n": own.n, "mean": own.mean, "low": low, "high": own.high, "rank": rank, "standing": standing}
    # of equal costs the one called cheapest comes first, the others by name
    order = np.lexsort((np.arange(len(rank)) != best, rank))
    return pd.DataFrame(table).iloc[order]


def _enough(splits: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a method has enough splits to be called the cheapest: half of them, and two where there are two."""
    most = int(splits.max())
    return np.asarray(splits >= max(min(2, most), most / 2))


def _cheapest(costs: NDArray[np.float64]) -> int:
    """Return the method that no other undercuts on the seeds they share; of equals, the first."""
    candidates = np.flatnonzero(_enough((~np.isnan(costs)).sum(axis=0)))
    costs = costs[:, candidates]
    noise = NOISE * np.nanmax(np.abs(costs), axis=0)
    means = np.nanmean(costs, axis=0)
    best = int(np.argmax(means <= means.min() + noise))
    seen = {best}
    while True:
        # with all cells present nothing can be below the smallest mean and the loop ends at once
        extra = _mean(costs - costs[:, [best]])
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


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the columns over what is there; NaN where nothing is."""
    n = (~np.isnan(values)).sum(axis=0)
    return np.asarray(np.nansum(values, axis=0) / np.where(n > 0, n, np.nan))


class _Estimate(NamedTuple):
    n: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p: NDArray[np.float64]


def _estimate(
    values: NDArray[np.float64], size: NDArray[np.float64], overlap: NDArray[np.float64], confidence: float
) -> _Estimate:
    """Corrected resampled t for each column of seeds x methods (NaN: no such cell); ``size`` says what rounding is."""
    n = (~np.isnan(values)).sum(axis=0)
    some, several = np.where(n > 0, n, np.nan), np.where(n > 1, n - 1.0, np.nan)
    mean = _mean(values)
    spread = np.sqrt(np.nansum(np.square(values - mean), axis=0) / several)
    mean, spread = (np.where(np.abs(part) <= NOISE * size, 0.0, part) for part in (mean, spread))
    error = spread * np.sqrt(1 / some + _mean(np.where(np.isnan(values), np.nan, overlap[:, None])))
    half = stats.t.ppf((1 + confidence) / 2, several) * error
    with np.errstate(divide="ignore", invalid="ignore"):  # no spread: sure (p = 0), or no difference at all (p = 1)
        statistic = np.where((error == 0) & (mean == 0), 0.0, np.abs(mean) / error)
    p = np.asarray(2 * stats.t.sf(statistic, several))
    return _Estimate(n, mean, mean - half, mean + half, p)


def _against(block: _Block, reference: int, confidence: float) -> dict[str, Any]:
    """Return the paired differences to one method, as columns with a row for each method."""
    base = block.costs[:, [reference]]
    difference = block.costs - base
    ours, theirs = (np.where(np.isnan(difference), np.nan, part) for part in (block.costs, base))
    size = np.fmax(np.abs(ours), np.abs(theirs)).max(axis=0, initial=0.0, where=~np.isnan(difference))
    extra = _estimate(difference, size, block.overlap, confidence)
    ours, theirs = _mean(ours), _mean(theirs)
    others = np.arange(len(block.methods)) != reference
    table: dict[str, Any] = {"data": block.data, "ratio": block.ratio, "method": block.methods, "pairs": extra.n}
    table["p"] = _holm(np.where(others, extra.p, np.nan))
    for suffix, end in {"": extra.mean, "_low": extra.low, "_high": extra.high}.items():
        table[f"difference{suffix}"] = end
        table[f"percent{suffix}"] = 100 * end / np.where(theirs > 0, theirs, np.nan)
        table[f"below{suffix}"] = 100 * end / np.where((theirs > 0) & (ours > 0), ours, np.nan)
    return table


def _holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values adjusted after Holm (1979); NaN stay NaN and are not counted."""
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


# over many data sets


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
        As in :func:`summarise`.
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
    means, left_out = _block_means(_checked(defined, measure, confidence), measure)
    means = means.groupby(level=list(range(len(blocks)))).mean()
    n_blocks, k = means.shape
    # equal but for rounding is equal
    steps = means.div(means.abs().max(axis=1).replace(0.0, 1.0), axis=0).round(12)
    ranked = steps.rank(axis=1)
    table = pd.DataFrame({"average_rank": ranked.mean(), "mean": means.mean()})
    table = table.rename_axis("method").reset_index().sort_values(["average_rank", "method"], ignore_index=True)
    reason = _no_test(n_blocks, k, tuple(blocks), left_out)
    if reason:
        return Ranks(table, n_blocks, None, None, (), left_out, reason, tuple(blocks))
    p = _friedman(ranked)
    q = float(stats.studentized_range.ppf(confidence, k, np.inf)) / math.sqrt(2)
    critical = q * math.sqrt(k * (k + 1) / (6 * n_blocks))
    within = critical if p < 1 - confidence else math.inf
    return Ranks(table, n_blocks, p, critical, _groups(table, within), left_out, "", tuple(blocks))


def _block_means(results: pd.DataFrame, measure: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return means over seeds by (data, ratio) of the methods that all of them have, and the other methods."""
    blocks = list(_blocks(results, measure))
    known = sorted(set(results["method"]))
    present = {name: sum(name in _well_measured(block) for block in blocks) for name in known}
    kept = [name for name in known if present[name] == len(blocks)]
    rows = []
    for block in blocks:
        costs = block.costs[:, [block.methods.index(name) for name in kept]]
        shared = costs[~np.isnan(costs).any(axis=1)]
        rows.append(_mean(shared if len(shared) else costs))
    index = pd.MultiIndex.from_arrays([[b.data for b in blocks], [b.ratio for b in blocks]], names=["data", "ratio"])
    left_out = tuple(name for name in known if name not in kept)
    return pd.DataFrame(rows, index=index, columns=kept, dtype=float), left_out


def _well_measured(block: _Block) -> list[str]:
    enough = _enough((~np.isnan(block.costs)).sum(axis=0))
    return [name for name, good in zip(block.methods, enough, strict=True) if good]


def _no_test(n_blocks: int, k: int, blocks: tuple[str, ...], left_out: tuple[str, ...]) -> str:
    if n_blocks < 2:
        return f"ranks need at least 2 {_block_word(blocks, 2)} to be tested, got {n_blocks}"
    if k < 3:
        lacking = f" ({_names(left_out)} {'lacks' if len(left_out) == 1 else 'lack'} some)" if left_out else ""
        return f"ranks need at least 3 methods measured everywhere to be tested, got {k}{lacking}"
    return ""


def _friedman(ranked: pd.DataFrame) -> float:
    if (ranked.nunique(axis=1) == 1).all():
        return 1.0  # all alike everywhere; the statistic would be 0 / 0
    return float(stats.friedmanchisquare(*ranked.to_numpy().T).pvalue)


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


def _block_word(blocks: tuple[str, ...], n: int) -> str:
    if blocks == ("data",):
        return "data set" if n == 1 else "data sets"
    return "pair of data set and ratio" if n == 1 else "pairs of data set and ratio"


# in words


@dataclass(frozen=True)
class Verdict:
    """What to take, and why; ``str(verdict)`` is the text."""

    recommended: str | None
    """The simplest method that cannot be told from the cheapest; None where nothing can be said."""
    cheapest: str | None
    """The method with the lowest mean cost (or average rank)."""
    tied: tuple[str, ...]
    """The others that cannot be told from it, cheapest first."""
    worse: tuple[str, ...]
    """Those that are clearly worse, cheapest first."""
    text: str
    """One to three sentences."""
    doubtful: tuple[str, ...] = ()
    """Those that are probably worse: alone they would count as worse, among so many it may be chance."""

    def __str__(self) -> str:
        return self.text


def verdicts(
    summary: pd.DataFrame, *, simplest_first: Sequence[str], tolerance: float = 0.0
) -> dict[tuple[str, float], Verdict]:
    """Return a verdict for each data set and ratio of a summary; parameters as in :func:`verdict`."""
    return {
        (str(data), float(ratio)): verdict(block, simplest_first=simplest_first, tolerance=tolerance)
        for (data, ratio), block in cast("Any", summary.groupby(["data", "ratio"]))
    }


def verdict(summary: pd.DataFrame, *, simplest_first: Sequence[str], tolerance: float = 0.0) -> Verdict:
    """Say in plain words which method to take for one data set and ratio.

    Of the methods that cannot be told from the cheapest, the simplest is recommended. One that is probably worse is not
    recommended, nor is it called clearly worse.

    Parameters
    ----------
    summary : DataFrame
        Rows of one data set and ratio, from :func:`summarise`.
    simplest_first : sequence of str
        Methods by simplicity; one that is not named counts as less simple than all that are.
    tolerance : float, default 0.0
        A method from which the cheapest saves at most this share (0.02: 2 %) counts as good enough, however certain.
    """
    blocks = summary[["data", "ratio"]].drop_duplicates()
    if len(blocks) != 1:
        raise ValueError(f"verdict needs a summary of one data set and ratio, got {len(blocks)}: use verdicts")
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance is a share of the cost from 0 to below 1, got {tolerance!r}")
    table = summary.sort_values(["rank", "method"]).set_index("method")
    simplest = _Simplicity(simplest_first)
    lead = table.loc[table["standing"] == "cheapest", "rank"].iloc[0]
    judged = table[_enough(table["n"].to_numpy(dtype=int))]
    cheapest = simplest.of(judged.index[judged["rank"] == lead])  # of equal costs, the simplest
    others = judged.drop(index=cheapest)
    # of equal costs another may be called cheapest
    standing = others["standing"].replace("cheapest", "not told apart")
    standing = standing.where(~(others["below"] <= 100 * tolerance), "not told apart")
    tied, doubtful, worse = (
        tuple(others.index[standing == kind]) for kind in ("not told apart", "probably worse", "clearly worse")
    )
    if len(table) == 1:
        text = f"Only {cheapest} was measured: there is nothing to compare it with."
        return Verdict(cheapest, cheapest, (), (), text)
    if table["n"].max() == 1:
        text = "One split only: nothing can be said about certainty; run more seeds. "
        return Verdict(None, cheapest, tied, worse, f"{text}On it {_deed(cheapest)} cost least.", doubtful)
    # neither constant is simpler than the other
    recommended = cheapest if cheapest in CONSTANTS else simplest.of((cheapest, *tied))
    rows = {str(name): row for name, row in table.to_dict("index").items()}
    words = _Words(rows, cheapest, recommended, tied, doubtful, worse, tolerance)
    return Verdict(recommended, cheapest, tied, worse, words.text(), doubtful)


class _Simplicity:
    def __init__(self, simplest_first: Sequence[str]) -> None:
        self.places = {name: place for place, name in enumerate(simplest_first)}

    def of(self, methods: Any) -> str:
        """Return the simplest of some methods; among those not listed, the first by name."""
        return str(min(methods, key=lambda name: (self.places.get(name, len(self.places)), name)))


@dataclass(frozen=True)
class _Words:
    rows: dict[str, dict[Any, Any]]
    cheapest: str
    recommended: str
    tied: tuple[str, ...]
    doubtful: tuple[str, ...]
    worse: tuple[str, ...]
    tolerance: float

    def text(self) -> str:
        if self.recommended != self.cheapest:
            body = self.take_the_simplest()
        elif self.tied:
            body = self.cheapest_and_simplest()
        else:
            body = self.cheapest_alone()
        return " ".join(part for part in (body, self.gaps()) if part)

    def cheapest_alone(self) -> str:
        beaten = sorted((*self.doubtful, *self.worse), key=lambda name: self.rows[name]["rank"])
        if not beaten:
            return f"{_capital(_deed(self.cheapest))} is the only one with enough finished splits."
        following = beaten[0]
        opening = self.opening()
        body = f"{opening} is cheapest{',' if ':' in opening else ':'} {self.lead_over(following)}"
        if following in self.doubtful:
            doubt = f" (too little to be sure when {len(self.rows)} methods are compared)"
            return f"{body} the next, {_deed(following)}{doubt}{self.and_worse()}."
        rest = [name for name in self.worse if name != following]
        if not rest:
            return f"{body} {_deed(following)}."
        return f"{body} the next, {_deed(following)}; {_are(rest)} clearly worse too."

    def cheapest_and_simplest(self) -> str:
        told = "cannot be told from it" + (f" to within {100 * self.tolerance:g} %" if self.tolerance else "")
        if self.cheapest in CONSTANTS:
            return f"{self.opening()} has the lowest cost; {_names(self.tied)} {told}{self.and_worse()}."
        ties = f"the simplest of those that {told} ({_names(self.tied)})"
        return f"{self.opening()} is cheapest, and {ties}{self.and_worse()}."

    def take_the_simplest(self) -> str:
        margin = f" by more than {100 * self.tolerance:g} %" if self.tolerance else ""
        advice = "take the simplest"
        if self.recommended in CONSTANTS:
            advice = "it is not shown that predicting is worth it at these costs"
        first = f"No method is clearly cheaper than {_deed(self.recommended)}{margin}: {advice}."
        row = self.rows[self.recommended]
        lead = f", {self.lead_over(self.recommended)} {_deed(self.recommended)}" if row["difference"] > 0 else ""
        more = " That may be much: more seeds would tell." if lead and row["below"] > MUCH else ""
        return f"{first} {self.cheapest} has the lowest mean{lead}{self.and_worse()}.{more}"

    def opening(self) -> str:
        deed = _deed(self.cheapest)
        if self.cheapest in CONSTANTS and not CONSTANTS.keys() >= {*self.tied, *self.doubtful, *self.worse}:
            return f"Predicting is not worth it at these costs: {deed}"
        return _capital(deed)

    def and_worse(self) -> str:
        clearly = f"{_are(self.worse)} clearly worse" if self.worse else ""
        # where the next best is doubtful its name has been said
        others = [name for name in self.doubtful if self.tied or name != self.doubtful[0]]
        probably = f"{_are(others)} probably worse" if others else ""
        return "".join(f"; {part}" for part in (clearly, probably) if part)

    def lead_over(self, method: str) -> str:
        """``12 % (5-19 %) below``, or in units of cost where a percentage has no meaning."""
        row = self.rows[method]
        if np.isfinite(row["below"]):
            return f"{_span(row['below'], row['below_low'], row['below_high'], ' %')} below"
        span = _span(row["difference"], row["difference_low"], row["difference_high"], "")
        return f"its cost is {span} below" if self.recommended == self.cheapest else f"{span} below"

    def gaps(self) -> str:
        """Name those with too few splits to be judged, and say when a leading method lacks some."""
        most = max(row["n"] for row in self.rows.values())
        unjudged = [name for name in self.rows if name not in {self.cheapest, *self.tied, *self.doubtful, *self.worse}]
        if unjudged:
            return f"Too few splits to judge: {_names(unjudged)}."
        short = [name for name in dict.fromkeys((self.recommended, self.cheapest)) if self.rows[name]["n"] < most]
        return f"{_names(short)} finished fewer than all {most} splits." if short else ""


def overall(over: Ranks, *, simplest_first: Sequence[str]) -> Verdict:
    """Say in plain words which method to take over many data sets, from their average ranks.

    A constant decision is recommended only where it ranks best: which one is right differs between data sets.
    """
    names = over.table["method"].tolist()
    average = dict(zip(names, over.table["average_rank"].tolist(), strict=True))
    simplest = _Simplicity(simplest_first)
    cheapest = simplest.of([name for name in names if average[name] <= min(average.values()) + 1e-9]) if names else None
    where = f"{over.n_blocks} {_block_word(over.blocks, over.n_blocks)}"
    if cheapest is None or over.critical_difference is None:
        lowest = f" Lowest average rank: {cheapest} ({average[cheapest]:.1f})." if cheapest and len(names) > 1 else ""
        return Verdict(None, cheapest, (), (), f"No verdict over data sets: {over.reason}.{lowest}")
    close = next((group for group in over.groups if cheapest in group), (cheapest,))
    tied = tuple(name for name in close if name != cheapest)
    worse = tuple(name for name in names if name not in close and name != cheapest)
    if over.critical_difference >= len(names) - 1:
        text = f"{where} are too few to tell {len(names)} methods apart by rank."
        lowest = f" Lowest average rank: {cheapest} ({average[cheapest]:.1f})."
        return Verdict(None, cheapest, tied, worse, text + lowest + _left_out(over))
    predicting = [name for name in (cheapest, *tied) if name == cheapest or name not in CONSTANTS]
    recommended = simplest.of(predicting)
    and_worse = f"; {_names(worse)} {'ranks' if len(worse) == 1 else 'rank'} clearly worse" if worse else ""
    text = _overall_words(over, average, cheapest, recommended, tied, where) + and_worse + "."
    return Verdict(recommended, cheapest, tied, worse, text + _left_out(over))


def _overall_words(
    over: Ranks, average: dict[str, float], cheapest: str, recommended: str, tied: tuple[str, ...], where: str
) -> str:
    place = f"average rank {average[cheapest]:.1f} of {len(average)}"
    if recommended != cheapest:
        return (
            f"Over {where} no method ranks clearly better than {recommended}: take the simplest. {cheapest} has "
            f"the lowest average rank ({average[cheapest]:.1f}; {recommended}: {average[recommended]:.1f}; "
            f"differences up to {over.critical_difference:.1f} may be chance)"
        )
    if tied:
        ties = f"the simplest of those that cannot be told from it ({_names(tied)})"
        return f"Over {where} {cheapest} ranks best ({place}), and is {ties}"
    return f"Over {where} {cheapest} ranks clearly best ({place})"


def _left_out(over: Ranks) -> str:
    return f" Not measured everywhere and left out: {_names(over.left_out)}." if over.left_out else ""


def _deed(method: str) -> str:
    return CONSTANTS.get(method, method)


def _capital(words: str) -> str:
    """Begin a sentence; names of methods stay as they are typed."""
    return words[0].upper() + words[1:] if words.startswith("calling ") else words


def _names(methods: Sequence[str]) -> str:
    """Join names: ``a``, ``a and b``, ``a, b and c``, ``a, b, c, d, e and 3 others``.

    >>> _names(["smote", "focal", "ce"])
    'smote, focal and ce'
    """
    shown = list(methods[:NAMES_SHOWN])
    more = len(methods) - len(shown)
    if more:
        shown.append("one other" if more == 1 else f"{more} others")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _are(methods: Sequence[str]) -> str:
    return f"{_names(methods)} {'is' if len(methods) == 1 else 'are'}"


def _span(value: float, low: float, high: float, unit: str) -> str:
    """Return ``12 % (5-19 %)``; a hyphen would read as a minus beside a negative end."""
    middle = f"{_number(value)}{unit}"
    if not np.isfinite(low):
        return middle
    between = "-" if low >= 0 else " to "
    return f"{middle} ({_number(low)}{between}{_number(high)}{unit})"


def _number(value: float) -> str:
    """Two digits that count; whole numbers from 10 on."""
    if abs(value) >= 10:
        return f"{value:,.0f}"
    return f"{float(f'{value:.2g}') + 0.0:g}"
