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
    "cheapest_of",
    "costs_at",
    "decides_anew",
    "find_regret",
    "in_words",
    "price_grid",
    "ratio_text",
    "regret_of",
    "worst_of",
]


BLIND = ("half", "raw", "negative", "positive")
"""Ways to decide that do not look at prices."""

INSIDE, OUTSIDE = 41, 10
"""So many prices are looked at within a range, and on each side of it."""

TRIFLE = 1.0
"""Percent: who is dearer by less is not worth a change of method."""

NOBODY = "No other method costs significantly less at any ratio in or near this range."


def decides_anew(outcome: Outcome) -> bool:
    """Tell whether a method's decisions follow from its probabilities and the prices, so that others change them."""
    if outcome.rule in BLIND:
        return False
    return np.array_equal(as_host(outcome.costs.decide(outcome.scores.astype(np.float64))), outcome.decisions)


def price_grid(low: float, high: float, *, with_: float = 1.0) -> NDArray[np.float64]:
    """Return prices from below to above a range, its ends and another price among them, evenly by their logarithms."""
    beyond = float(np.clip(np.sqrt(high / low), 1.5, 4.0))
    inside = np.geomspace(low, high, INSIDE)
    below, above = np.geomspace(low / beyond, low, OUTSIDE + 1)[:-1], np.geomspace(high, high * beyond, OUTSIDE + 1)[1:]
    inside[0], inside[-1] = low, high
    return np.unique(np.concatenate((below, inside, above, [with_])))


def costs_at(outcomes: Mapping[str, Outcome], factors: NDArray[np.float64], entries: RowCosts) -> Iterator[RowCosts]:
    """Yield what each row costs under each method at each factor on the misses.

    Methods that look at prices decide anew at each, from the same probabilities; the decisions of others stay.
    ``entries`` says which rows and splits there are; outcomes have theirs in the same order.
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
    """Return above which factor on the misses each row is called positive."""
    if decides_anew(outcome):
        return flip_factors(outcome.scores.astype(np.float64), outcome.costs)
    return np.where(outcome.decisions == 1, -np.inf, np.inf)


def regret_of(blocks: Iterable[tuple[float, RowCosts]], low: float, high: float) -> pd.DataFrame:
    """Return how much dearer than the cheapest each method is at each ratio.

    Parameters
    ----------
    blocks : pairs of ratio and RowCosts
        What rows cost at each price.
    low, high : float
        Ends of the range.

    Returns
    -------
    DataFrame
        method, ratio, cost, regret, percent (of the cheapest's cost; infinity where that is nothing or less), standing
        (against the cheapest, as in :func:`summarise`), within (whether the ratio lies in the range).
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
    """Return the worst of each method within the range, the least bad (minimax) first.

    Columns: method, percent and regret (the worst), at (the ratio of it), cheapest (the share of prices at which the
    method costs least).
    """
    inside = curve[curve["within"]]
    rows = []
    for name, own in inside.groupby("method", sort=False):
        worst = own.sort_values(["percent", "regret"], kind="stable").iloc[-1]
        share = float((own["regret"] == 0).mean())
        rows.append((name, worst["percent"], worst["regret"], worst["ratio"], share))
    table = pd.DataFrame(rows, columns=["method", "percent", "regret", "at", "cheapest"])
    return table.sort_values(["percent", "regret"], kind="stable", ignore_index=True)


def cheapest_of(curve: pd.DataFrame) -> pd.DataFrame:
    """Return which method costs least from which ratio to which: low, high, method; borders lie between two prices."""
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
    said: bool = True,
) -> Regret:
    """Return the regret of all methods over a range, and what it means for the recommended one.

    Parameters
    ----------
    outcomes : mapping from str to Outcome
        Test rows of each method, at the prices that were run.
    factors : (float, float)
        The range, as factors on the price of a miss: :func:`adacsl.costs.ranges.factors_of`.
    ratio : float
        How many false alarms a miss is worth at the prices that were run.
    entries : RowCosts
        Rows and splits of all outcomes, in the same order.
    recommended : str
        The method to speak of.
    said : bool
        Whether somebody gave the range; else it is said to be a guess.
    """
    at = price_grid(*factors)
    low, high = (at[np.argmin(np.abs(at - end))] * ratio for end in factors)
    curve = regret_of(zip((at * ratio).tolist(), costs_at(outcomes, at, entries), strict=True), low, high)
    table = worst_of(curve)
    changed = {name: _undecided(outcomes[name], factors) for name in table["method"]}
    table = table.assign(undecided=table["method"].map(changed))
    found = Regret(curve, table, cheapest_of(curve), low, high, ratio, said, "")
    own = any(outcome.own_costs for outcome in outcomes.values())
    splits = len(np.unique(entries.fits))
    return found._replace(words=in_words(found, recommended, own_costs=own, splits=splits))


def _undecided(outcome: Outcome, factors: tuple[float, float]) -> float:
    return share_undecided(outcome.scores.astype(np.float64), outcome.costs, *factors) if decides_anew(outcome) else 0.0


# in words


def in_words(found: Regret, recommended: str, *, own_costs: bool = False, splits: int = 2) -> str:
    """Return a few plain sentences about the recommended method: its worst, when to take another, what is undecided."""
    row = found.table[found.table["method"] == recommended]
    if row.empty:
        return ""
    worst, least = row.iloc[0], found.table.iloc[0]
    sentences = [_opening(found, worst, own_costs=own_costs)]
    if least["method"] == recommended and worst["regret"] > 0:
        sentences.append("No other method has a smaller worst case.")
    elif least["method"] != recommended and not worst["percent"] - least["percent"] <= TRIFLE:
        worst_case = _at_most(least) if least["regret"] else "the lowest cost at every ratio"
        sentences.append(f"The smallest worst case has {least['method']}: {worst_case}.")
    others = _when_others(found, recommended, splits)
    if others or worst["regret"] > 0:
        sentences.append(others or NOBODY if splits > 1 else others)
    if worst["undecided"]:
        share = worst["undecided"]
        few = "Less than 1 %" if share < 0.01 else f"{share:.0%}".replace("%", " %")
        sentences.append(f"{few} of its predictions depend on the ratio within this range.")
    else:
        sentences.append("Its predictions are the same in the whole range.")
    return " ".join(filter(None, sentences))


def _opening(found: Regret, worst: Any, *, own_costs: bool) -> str:
    span = f"{show(found.low, 2)} to {show(found.high, 2)} false positives"
    asides = ["on average" if own_costs else "", "" if found.said else "half to double, as no range was given"]
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


def _when_others(found: Regret, recommended: str, splits: int) -> str:
    pieces = list(better_elsewhere(found.curve, recommended, own=found.ratio, splits=splits))
    if not pieces:
        return ""
    nearest = sorted(pieces, key=lambda piece: abs(np.log(piece[0] * piece[1] / found.ratio**2)))[:2]
    places: dict[str, list[str]] = {}
    for low, high, name in sorted(nearest):
        places.setdefault(name, []).append(_stretch(found.curve["ratio"], low, high))
    (name, where), *more = places.items()
    first = f"{' and '.join(where)} {name} costs significantly less"
    said = "; ".join([first, *(f"{at[0]} {one}" for one, at in more)])
    doubt = " (one split: no test)" if splits == 1 else ""
    return f"{said[0].upper()}{said[1:]}{doubt}."


def _stretch(ratios: pd.Series[float], low: float, high: float) -> str:
    if low <= ratios.min():
        return "at all of these ratios" if high >= ratios.max() else f"below {ratio_text(high)}"
    if high >= ratios.max():
        return f"above {ratio_text(low)}"
    return f"between {ratio_text(low)} and {ratio_text(high)}"


def better_elsewhere(
    curve: pd.DataFrame, method: str, *, own: float, splits: int = 2
) -> Iterator[tuple[float, float, str]]:
    """Go through the stretches of ratios where another method is told apart as cheaper: from, to, and which most often.

    A stretch ends halfway (of logarithms) to the next ratio looked at. Tests at single prices flicker: gaps of a few
    prices at which the other is cheaper without being told apart are passed over, stretches of one or two left out.
    """
    mine = curve[curve["method"] == method].sort_values("ratio")
    ratios = mine["ratio"].to_numpy(dtype=float)
    dearer = (mine["percent"] > TRIFLE).to_numpy()
    told = (
        mine["significance"].isin(["significantly higher", "not significant (corrected)"]).to_numpy()
        if splits > 1
        else dearer
    )
    beaten = _steady(told & dearer, dearer & (ratios != ratios[np.argmin(np.abs(ratios - own))]))
    firsts = curve[curve["significance"] == "lowest cost"].set_index("ratio")["method"]
    edges = np.concatenate((ratios[:1], np.sqrt(ratios[1:] * ratios[:-1]), ratios[-1:]))
    for start, stop in _runs(beaten):
        name = firsts.loc[ratios[start:stop]].mode().iloc[0]
        yield float(edges[start]), float(edges[stop]), str(name)


def _steady(sure: NDArray[np.bool_], likely: NDArray[np.bool_], gap: int = 6, least: int = 3) -> NDArray[np.bool_]:
    """Fill short gaps between what is sure where it is at least likely, and leave out what is short."""
    found = sure.copy()
    for start, stop in _runs(~sure):
        if start > 0 and stop < len(sure) and stop - start <= gap and likely[start:stop].all():
            found[start:stop] = True
    for start, stop in _runs(found):
        if stop - start < least:
            found[start:stop] = False
    return found


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return where flags are up, from and to."""
    turns = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(int), [0]))))
    return list(zip(turns[::2].tolist(), turns[1::2].tolist(), strict=True))


def ratio_text(ratio: float) -> str:
    """Return a ratio as people say it.

    >>> ratio_text(6.0), ratio_text(0.2)
    ('6 : 1', '1 : 5')
    """
    return f"{show(ratio, 2)} : 1" if ratio >= 1 else f"1 : {show(1 / ratio, 2)}"


def regret_in(found: Comparison, view: tuple[str, float], given: Mapping[str, Any] | None = None) -> Regret:
    """Return the regret of all methods of a view, over the ranges that are given, or were said with the costs."""
    data, ratio = view
    about = found.facts["data"][data]
    ranges = {name: tuple(ends) for name, ends in about.get("ranges", {}).items()} | dict(given or {})
    names = found.table.query("data == @data and ratio == @ratio")["method"]
    outcomes = {name: found.outcome(name, data=data, ratio=ratio) for name in names}
    # ranges are about the costs as they were given; this view may have been run at another ratio
    costs = next(iter(outcomes.values())).costs.averaged()
    factors = factors_of(at_ratio(costs, ratio), ranges or None)
    name = str(found.recommendations[view].recommended)  # without a recommendation there are no words about it
    said = bool(ranges)
    return find_regret(outcomes, factors, ratio=ratio, entries=found.paired[view], recommended=name, said=said)


def words_of(regrets: Mapping[tuple[str, float], Regret], place: Callable[[str, float], str] | None) -> str:
    """Return what all regrets say, a line for each; ``place`` says of what, where there are several."""
    lines = {view: found.words for view, found in regrets.items() if found.words}
    return "\n".join(f"{place(*view)}: {words}" if place else words for view, words in lines.items())
