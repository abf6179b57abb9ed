"""Sensitivity of the recommendation to the costs: regret over a range of cost ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.comparison.protocol import at_ratio
from adacsl.comparison.statistics import RowCosts, summary_of
from adacsl.costs.ranges import factors_of, flip_factors, rows_at_factors, share_undecided
from adacsl.report.data import Outcome, Regret
from adacsl.report.formatting import show

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison

with requires("compare"):
    import pandas as pd

__all__ = [
    "better_elsewhere",
    "costs_at",
    "describe",
    "find_regret",
    "is_cost_aware",
    "lowest_cost_of",
    "ratio_grid",
    "ratio_text",
    "regret_of",
    "worst_of",
]


BLIND = ("half", "raw", "negative", "positive")
"""Decision rules that do not depend on costs."""

INSIDE, OUTSIDE = 41, 10
"""Numbers of ratios in the grid: within the range, and on each side of it."""

NEGLIGIBLE = 1.0
"""Percent; a smaller excess cost is not worth a change of method."""

NONE_LOWER = "No other method costs significantly less at any ratio in or near this range."


def is_cost_aware(outcome: Outcome) -> bool:
    """Return whether a method's decisions follow from its probabilities and the costs."""
    if outcome.rule in BLIND:
        return False
    return np.array_equal(as_host(outcome.costs.decide(outcome.scores.astype(np.float64))), outcome.decisions)


def ratio_grid(low: float, high: float, *, with_: float = 1.0) -> NDArray[np.float64]:
    """Return a logarithmic grid around a range that contains its ends and ``with_``."""
    beyond = float(np.clip(np.sqrt(high / low), 1.5, 4.0))
    inside = np.geomspace(low, high, INSIDE)
    below, above = np.geomspace(low / beyond, low, OUTSIDE + 1)[:-1], np.geomspace(high, high * beyond, OUTSIDE + 1)[1:]
    inside[0], inside[-1] = low, high
    return np.unique(np.concatenate((below, inside, above, [with_])))


def costs_at(outcomes: Mapping[str, Outcome], factors: NDArray[np.float64], entries: RowCosts) -> Iterator[RowCosts]:
    """Yield the cost of each sample under each method, for each factor on the costs of false negatives.

    Cost-aware methods decide again at each factor, from the same probabilities; the decisions of others stay.
    ``entries`` has the samples and splits; outcomes have theirs in the same order.
    """
    names = sorted(outcomes)
    chosen = [outcomes[name] for name in names]
    places = [np.isin(entries.fits, one.seeds) for one in chosen]
    paid = [rows_at_factors(_flips(one), one.labels, one.costs, factors) for one in chosen]
    for _ in factors:
        costs = np.full((len(names), len(entries.fits)), np.nan)
        for own, place, rows in zip(costs, places, paid, strict=True):
            own[place] = next(rows)
        yield entries.with_costs(names, costs)


def _flips(outcome: Outcome) -> NDArray[np.float64]:
    """Return the factor on the costs of false negatives above which each sample is predicted positive."""
    if is_cost_aware(outcome):
        return flip_factors(outcome.scores.astype(np.float64), outcome.costs)
    return np.where(outcome.decisions == 1, -np.inf, np.inf)


def regret_of(blocks: Iterable[tuple[float, RowCosts]], low: float, high: float) -> pd.DataFrame:
    """Return how much each method costs above the lowest cost, at each ratio.

    Parameters
    ----------
    blocks : pairs of ratio and RowCosts
        Costs of samples at each ratio.
    low, high : float
        Ends of the range.

    Returns
    -------
    DataFrame
        method, ratio, cost, regret, percent (of the lowest cost; infinity where that is zero or negative), significance
        (as in :func:`summarise`), within (whether the ratio lies in the range).
    """
    table = pd.concat([summary_of(rows, floor=None).assign(ratio=ratio) for ratio, rows in blocks], ignore_index=True)
    regret = table["difference"].clip(lower=0.0)
    percent = np.where(regret > 0, table["percent"].fillna(np.inf), 0.0)
    within = (table["ratio"] >= low) & (table["ratio"] <= high)
    columns: dict[str, Any] = {
        "method": table["method"],
        "ratio": table["ratio"],
        "cost": table["mean"],
        "regret": regret,
    }
    columns |= {"percent": percent, "significance": table["significance"], "within": within}
    return pd.DataFrame(columns)


def worst_of(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the largest regret of each method within the range, the smallest (minimax) first.

    Columns: method, percent and regret (the largest), at (the ratio of it), cheapest (the share of ratios at which the
    method has the lowest cost).
    """
    inside = curve[curve["within"]]
    rows = []
    for name, own in inside.groupby("method", sort=False):
        worst = own.sort_values(["percent", "regret"], kind="stable").iloc[-1]
        share = float((own["regret"] == 0).mean())
        rows.append((name, worst["percent"], worst["regret"], worst["ratio"], share))
    table = pd.DataFrame(rows, columns=["method", "percent", "regret", "at", "cheapest"])
    return table.sort_values(["percent", "regret"], kind="stable", ignore_index=True)


def lowest_cost_of(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the lowest-cost method by interval of ratios: low, high, method; borders lie between two ratios."""
    firsts = curve[curve["significance"] == "lowest cost"].sort_values("ratio")
    ratios, names = firsts["ratio"].to_numpy(dtype=float), firsts["method"].to_numpy(dtype=str)
    turns = np.flatnonzero(names[1:] != names[:-1]) + 1
    borders = np.concatenate((ratios[:1], np.sqrt(ratios[turns] * ratios[turns - 1]), ratios[-1:]))
    return pd.DataFrame({"low": borders[:-1], "high": borders[1:], "method": names[np.concatenate(([0], turns))]})


def find_regret(
    outcomes: Mapping[str, Outcome],
    factors: tuple[float, float],
    *,
    ratio: float,
    entries: RowCosts,
    recommended: str,
    given: bool = True,
) -> Regret:
    """Return the regret of all methods over a range, with sentences about the recommended one.

    Parameters
    ----------
    outcomes : mapping from str to Outcome
        Test samples of each method, at the costs of the comparison.
    factors : (float, float)
        The range, as factors on the cost of a false negative.
    ratio : float
        The cost ratio fn : fp of the comparison.
    entries : RowCosts
        Samples and splits of all outcomes, in the same order.
    recommended : str
        The method that the sentences are about.
    given : bool, default True
        Whether the user gave the range; otherwise the sentences mention that it is a default.

    Returns
    -------
    Regret
        Curve, table and text.

    See Also
    --------
    adacsl.Comparison.regret : The same of a comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, compare
    >>> from adacsl.comparison.cost_sensitivity import find_regret
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> methods = ["always-positive", "logistic"]
    >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
    ...                  folds=2, n_jobs=1, progress=False)
    >>> view = ("data", 8.0)
    >>> outcomes = {name: result.outcome(name) for name in ["always-positive", "logistic"]}
    >>> regret = find_regret(outcomes, (0.5, 2.0), ratio=8.0, entries=result.paired[view],
    ...                      recommended="logistic")
    >>> float(regret.low), float(regret.high)
    (4.0, 16.0)
    """
    at = ratio_grid(*factors)
    low, high = (at[np.argmin(np.abs(at - end))] * ratio for end in factors)
    curve = regret_of(zip((at * ratio).tolist(), costs_at(outcomes, at, entries), strict=True), low, high)
    table = worst_of(curve)
    changed = {name: _undecided(outcomes[name], factors) for name in table["method"]}
    table = table.assign(undecided=table["method"].map(changed))
    result = Regret(curve, table, lowest_cost_of(curve), low, high, ratio, given, "")
    own = any(outcome.own_costs for outcome in outcomes.values())
    splits = len(np.unique(entries.fits))
    return result._replace(words=describe(result, recommended, own_costs=own, splits=splits))


def _undecided(outcome: Outcome, factors: tuple[float, float]) -> float:
    return (
        share_undecided(outcome.scores.astype(np.float64), outcome.costs, *factors) if is_cost_aware(outcome) else 0.0
    )


# text


def describe(result: Regret, recommended: str, *, own_costs: bool = False, splits: int = 2) -> str:
    """Return the worst case of the recommended method, where others cost less, and which predictions change."""
    row = result.table[result.table["method"] == recommended]
    if row.empty:
        return ""
    worst, least = row.iloc[0], result.table.iloc[0]
    sentences = [_opening(result, worst, own_costs=own_costs)]
    if least["method"] == recommended and worst["regret"] > 0:
        sentences.append("No other method has a smaller worst case.")
    elif least["method"] != recommended and not worst["percent"] - least["percent"] <= NEGLIGIBLE:
        worst_case = _at_most(least) if least["regret"] else "the lowest cost at every ratio"
        sentences.append(f"The smallest worst case has {least['method']}: {worst_case}.")
    others = _when_others(result, recommended, splits)
    if others or worst["regret"] > 0:
        sentences.append(others or NONE_LOWER if splits > 1 else others)
    if worst["undecided"]:
        share = worst["undecided"]
        few = "Less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"
        sentences.append(f"{few} of its predictions depend on the ratio within this range.")
    else:
        sentences.append("Its predictions are the same in the whole range.")
    return " ".join(filter(None, sentences))


def _opening(result: Regret, worst: Any, *, own_costs: bool) -> str:
    span = f"{show(result.low, 2)} to {show(result.high, 2)} false positives"
    asides = ["on average" if own_costs else "", "" if result.given else "half to double, as no range was given"]
    asides = [aside for aside in asides if aside]
    span = f"{span} ({'; '.join(asides)})" if asides else span
    start = f"If a false negative costs {span}, {worst['method']} costs"
    if worst["regret"] == 0:
        return f"{start} least at every ratio."
    return f"{start} {_at_most(worst)} more than the lowest-cost method (most at {ratio_text(worst['at'])})."


def _at_most(row: Any) -> str:
    percent = row["percent"]
    if not np.isfinite(percent):
        return f"at most {show(row['regret'], 2)} per sample"
    return f"at most {percent:,.0f} %" if percent >= 9.5 else f"at most {max(percent, 0.1):.1f} %"


def _when_others(result: Regret, recommended: str, splits: int) -> str:
    pieces = list(better_elsewhere(result.curve, recommended, own=result.ratio, splits=splits))
    if not pieces:
        return ""
    nearest = sorted(pieces, key=lambda piece: abs(np.log(piece[0] * piece[1] / result.ratio**2)))[:2]
    places: dict[str, list[str]] = {}
    for low, high, name in sorted(nearest):
        places.setdefault(name, []).append(_stretch(result.curve["ratio"], low, high))
    (name, where), *more = places.items()
    first = f"{' and '.join(where)} {name} costs significantly less"
    text = "; ".join([first, *(f"{at[0]} {one}" for one, at in more)])
    doubt = " (one split: no test)" if splits == 1 else ""
    return f"{text[0].upper()}{text[1:]}{doubt}."


def _stretch(ratios: pd.Series[float], low: float, high: float) -> str:
    if low <= ratios.min():
        return "at all of these ratios" if high >= ratios.max() else f"below {ratio_text(high)}"
    if high >= ratios.max():
        return f"above {ratio_text(low)}"
    return f"between {ratio_text(low)} and {ratio_text(high)}"


def better_elsewhere(
    curve: pd.DataFrame, method: str, *, own: float, splits: int = 2
) -> Iterator[tuple[float, float, str]]:
    """Yield the intervals of ratios where another method costs significantly less: ends, and the most frequent method.

    An interval ends halfway (of logarithms) to the next ratio of the grid. Tests at single ratios flicker: gaps of
    a few ratios without a significant difference are filled, intervals of one or two ratios are dropped.
    """
    mine = curve[curve["method"] == method].sort_values("ratio")
    ratios = mine["ratio"].to_numpy(dtype=float)
    higher = (mine["percent"] > NEGLIGIBLE).to_numpy()
    kinds = ["significantly higher", "not significant (corrected)"]
    apart = mine["significance"].isin(kinds).to_numpy() if splits > 1 else higher
    beaten = _steady(apart & higher, higher & (ratios != ratios[np.argmin(np.abs(ratios - own))]))
    firsts = curve[curve["significance"] == "lowest cost"].set_index("ratio")["method"]
    edges = np.concatenate((ratios[:1], np.sqrt(ratios[1:] * ratios[:-1]), ratios[-1:]))
    for start, stop in _runs(beaten):
        name = firsts.loc[ratios[start:stop]].mode().iloc[0]
        yield float(edges[start]), float(edges[stop]), str(name)


def _steady(sure: NDArray[np.bool_], likely: NDArray[np.bool_], gap: int = 6, least: int = 3) -> NDArray[np.bool_]:
    """Fill short gaps between what is significant where it is at least likely, and drop short runs."""
    result = sure.copy()
    for start, stop in _runs(~sure):
        if start > 0 and stop < len(sure) and stop - start <= gap and likely[start:stop].all():
            result[start:stop] = True
    for start, stop in _runs(result):
        if stop - start < least:
            result[start:stop] = False
    return result


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the runs of true values: start and stop."""
    turns = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(int), [0]))))
    return list(zip(turns[::2].tolist(), turns[1::2].tolist(), strict=True))


def ratio_text(ratio: float) -> str:
    """Return a ratio as text.

    >>> ratio_text(6.0), ratio_text(0.2)
    ('6 : 1', '1 : 5')
    """
    return f"{show(ratio, 2)} : 1" if ratio >= 1 else f"1 : {show(1 / ratio, 2)}"


def regret_in(result: Comparison, view: tuple[str, float], given: Mapping[str, Any] | None = None) -> Regret:
    """Return the regret of all methods of a view, over the ranges that are given here or with the costs."""
    data, ratio = view
    about = result.facts["data"][data]
    ranges = {name: tuple(ends) for name, ends in about.get("ranges", {}).items()} | dict(given or {})
    names = result.table.query("data == @data and ratio == @ratio")["method"]
    outcomes = {name: result.outcome(name, data=data, ratio=ratio) for name in names}
    # ranges refer to the costs as they were given; this view may have another ratio
    costs = next(iter(outcomes.values())).costs.averaged()
    factors = factors_of(at_ratio(costs, ratio), ranges or None)
    name = str(result.recommendations[view].recommended)  # without a recommendation there are no words about it
    known = bool(ranges)
    return find_regret(outcomes, factors, ratio=ratio, entries=result.paired[view], recommended=name, given=known)


def words_of(regrets: Mapping[tuple[str, float], Regret], place: Callable[[str, float], str] | None) -> str:
    """Return the text of all regrets, a line for each, that begins with ``place`` where there are several."""
    lines = {view: result.words for view, result in regrets.items() if result.words}
    return "\n".join(f"{place(*view)}: {words}" if place else words for view, words in lines.items())
