"""Which method to take, in plain words: for one data set and cost ratio, and over many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from adacsl.experiments.statistics.differences import enough_splits
from adacsl.experiments.statistics.ranking import Ranks, block_word
from adacsl.experiments.statistics.wording import names_are, names_of, span
from adacsl.extras import requires

with requires("compare"):
    import pandas as pd

CONSTANTS = {"always-negative": "calling everything negative", "always-positive": "calling everything positive"}

MUCH = 20.0
"""Percent: so much cheaper, however unsure, is worth more seeds."""


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
    lead = table.loc[table["standing"] == "cheapest", "rank"].iloc[0]
    judged = table[enough_splits(table["n"].to_numpy(dtype=int))]
    cheapest = _simplest(judged.index[judged["rank"] == lead], simplest_first)  # of equal costs, the simplest
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
    recommended = cheapest if cheapest in CONSTANTS else _simplest((cheapest, *tied), simplest_first)
    rows = {str(name): row for name, row in table.to_dict("index").items()}
    found = Verdict(recommended, cheapest, tied, worse, "", doubtful)
    return replace(found, text=_text(found, rows, tolerance))


def _simplest(methods: Iterable[str], simplest_first: Sequence[str]) -> str:
    """Return the simplest of some methods; among those not listed, the first by name."""
    places = {name: place for place, name in enumerate(simplest_first)}
    return str(min(methods, key=lambda name: (places.get(name, len(places)), name)))


# the text of a verdict on one data set and ratio; ``rows`` are those of the summary, by method


def _text(found: Verdict, rows: Mapping[str, Mapping[Any, Any]], tolerance: float) -> str:
    if found.recommended != found.cheapest:
        body = _take_the_simplest(found, rows, tolerance)
    else:
        body = _cheapest_and_simplest(found, tolerance) if found.tied else _cheapest_alone(found, rows)
    return " ".join(part for part in (body, _gaps(found, rows)) if part)


def _cheapest_alone(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    beaten = sorted((*found.doubtful, *found.worse), key=lambda name: rows[name]["rank"])
    if not beaten:
        return f"{_capital(_deed(found.cheapest))} is the only one with enough finished splits."
    following, opening = beaten[0], _opening(found)
    body = f"{opening} is cheapest{',' if ':' in opening else ':'} {_lead_over(following, found, rows)}"
    if following in found.doubtful:
        doubt = f" (too little to be sure when {len(rows)} methods are compared)"
        return f"{body} the next, {_deed(following)}{doubt}{_and_worse(found)}."
    rest = [name for name in found.worse if name != following]
    if not rest:
        return f"{body} {_deed(following)}."
    return f"{body} the next, {_deed(following)}; {names_are(rest)} clearly worse too."


def _cheapest_and_simplest(found: Verdict, tolerance: float) -> str:
    told = "cannot be told from it" + (f" to within {100 * tolerance:g} %" if tolerance else "")
    if found.cheapest in CONSTANTS:
        return f"{_opening(found)} has the lowest cost; {names_of(found.tied)} {told}{_and_worse(found)}."
    ties = f"the simplest of those that {told} ({names_of(found.tied)})"
    return f"{_opening(found)} is cheapest, and {ties}{_and_worse(found)}."


def _take_the_simplest(found: Verdict, rows: Mapping[str, Mapping[Any, Any]], tolerance: float) -> str:
    taken = str(found.recommended)
    margin = f" by more than {100 * tolerance:g} %" if tolerance else ""
    unsure = "it is not shown that predicting is worth it at these costs"
    advice = unsure if taken in CONSTANTS else "take the simplest"
    first = f"No method is clearly cheaper than {_deed(taken)}{margin}: {advice}."
    row = rows[taken]
    lead = f", {_lead_over(taken, found, rows)} {_deed(taken)}" if row["difference"] > 0 else ""
    more = " That may be much: more seeds would tell." if lead and row["below"] > MUCH else ""
    return f"{first} {found.cheapest} has the lowest mean{lead}{_and_worse(found)}.{more}"


def _opening(found: Verdict) -> str:
    deed = _deed(found.cheapest)
    if found.cheapest in CONSTANTS and not CONSTANTS.keys() >= {*found.tied, *found.doubtful, *found.worse}:
        return f"Predicting is not worth it at these costs: {deed}"
    return _capital(deed)


def _and_worse(found: Verdict) -> str:
    clearly = f"{names_are(found.worse)} clearly worse" if found.worse else ""
    # where the next best is doubtful its name has been said
    others = [name for name in found.doubtful if found.tied or name != found.doubtful[0]]
    probably = f"{names_are(others)} probably worse" if others else ""
    return "".join(f"; {part}" for part in (clearly, probably) if part)


def _lead_over(method: str, found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """``12 % (5-19 %) below``, or in units of cost where a percentage has no meaning."""
    row = rows[method]
    if math.isfinite(row["below"]):
        return f"{span(row['below'], row['below_low'], row['below_high'], ' %')} below"
    lead = span(row["difference"], row["difference_low"], row["difference_high"], "")
    return f"its cost is {lead} below" if found.recommended == found.cheapest else f"{lead} below"


def _gaps(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Name those with too few splits to be judged, and say when a leading method lacks some."""
    most = max(row["n"] for row in rows.values())
    unjudged = [name for name in rows if name not in {found.cheapest, *found.tied, *found.doubtful, *found.worse}]
    if unjudged:
        return f"Too few splits to judge: {names_of(unjudged)}."
    leading = dict.fromkeys(str(name) for name in (found.recommended, found.cheapest))
    short = [name for name in leading if rows[name]["n"] < most]
    return f"{names_of(short)} finished fewer than all {most} splits." if short else ""


def _deed(method: str | None) -> str:
    return CONSTANTS.get(str(method), str(method))


def _capital(words: str) -> str:
    """Begin a sentence; names of methods stay as they are typed."""
    return words[0].upper() + words[1:] if words.startswith("calling ") else words


# over many data sets


def overall(over: Ranks, *, simplest_first: Sequence[str]) -> Verdict:
    """Say in plain words which method to take over many data sets, from their average ranks.

    A constant decision is recommended only where it ranks best: which one is right differs between data sets.
    """
    names = over.table["method"].tolist()
    average = dict(zip(names, over.table["average_rank"].tolist(), strict=True))
    lowest_ranked = [name for name in names if average[name] <= min(average.values()) + 1e-9]
    cheapest = _simplest(lowest_ranked, simplest_first) if names else None
    where = f"{over.n_blocks} {block_word(over.blocks, over.n_blocks)}"
    lowest = f" Lowest average rank: {cheapest} ({average[cheapest]:.1f})." if cheapest and len(names) > 1 else ""
    if cheapest is None or over.critical_difference is None:
        return Verdict(None, cheapest, (), (), f"No verdict over data sets: {over.reason}.{lowest}")
    close = next((group for group in over.groups if cheapest in group), (cheapest,))
    tied = tuple(name for name in close if name != cheapest)
    worse = tuple(name for name in names if name not in close and name != cheapest)
    if over.critical_difference >= len(names) - 1:
        text = f"{where} are too few to tell {len(names)} methods apart by rank."
        return Verdict(None, cheapest, tied, worse, text + lowest + _left_out(over))
    predicting = [name for name in (cheapest, *tied) if name == cheapest or name not in CONSTANTS]
    recommended = _simplest(predicting, simplest_first)
    and_worse = f"; {names_of(worse)} {'ranks' if len(worse) == 1 else 'rank'} clearly worse" if worse else ""
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
        ties = f"the simplest of those that cannot be told from it ({names_of(tied)})"
        return f"Over {where} {cheapest} ranks best ({place}), and is {ties}"
    return f"Over {where} {cheapest} ranks clearly best ({place})"


def _left_out(over: Ranks) -> str:
    return f" Not measured everywhere and left out: {names_of(over.left_out)}." if over.left_out else ""
