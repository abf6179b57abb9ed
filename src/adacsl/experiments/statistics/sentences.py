"""Recommendations in words: the method, its cost, the saving, and the significance of differences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adacsl.experiments.statistics.enough import Luck, enough
from adacsl.experiments.statistics.wording import CONSTANTS, TODAY, deed, names_of, span

if TYPE_CHECKING:
    from adacsl.experiments.statistics.verdicts import Verdict

FEW = 2
"""So many methods that cost significantly more are named, more are counted."""


def told(
    found: Verdict,
    rows: Mapping[str, Mapping[Any, Any]],
    base: str | None,
    tolerance: float,
    outlook: str = "",
    *,
    prefer: str = "cost",
) -> str:
    """Return a recommendation in a few sentences.

    Parameters
    ----------
    found : Verdict
        Without its text.
    rows : mapping
        The rows of the summary by method, lowest cost first.
    base : str or None
        The lowest-cost method that predicts.
    tolerance : float
        The share of the lowest cost that a simpler method may cost more.
    outlook : str
        How many repeats or rows would resolve what is open.
    prefer : str
        "cost" or "simple".
    """
    if found.recommended is None:
        return f"{_nothing(found, rows)} {_gaps(found, rows)}".strip()
    parts = [
        _what(found, rows, base, tolerance, prefer),
        _cost(found, rows),
        _sure(found, rows),
        _simpler(found, rows),
        outlook,
        _gaps(found, rows),
    ]
    return " ".join(part for part in parts if part)


def _nothing(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Say why no method is recommended."""
    if max(row["n"] for row in rows.values()) == 1:
        lowest = f"The lowest cost on it: {deed(found.cheapest)}."
        return f"No recommendation: one split shows no variance; give more folds or repeats. {lowest}"
    methods = [name for name in (*found.tied, *found.doubtful, *found.worse) if name not in CONSTANTS]
    if found.cheapest != TODAY or not methods:
        return "No recommendation: no method has enough finished folds."
    lowest = min(methods, key=lambda name: rows[name]["rank"])
    return (
        "Keep your current decisions: every method costs significantly more. The lowest-cost method, "
        f"{lowest}, costs {_more(rows[lowest])}."
    )


def _what(
    found: Verdict, rows: Mapping[str, Mapping[Any, Any]], base: str | None, tolerance: float, prefer: str
) -> str:
    """Name the recommended method and the reason, in one sentence."""
    taken = str(found.recommended)
    if len(rows) == 1:
        return f"Only {deed(taken)} was evaluated: there is nothing to compare it with."
    if found.cheapest == TODAY:
        return f"Keep your current decisions: no method costs significantly less. Of the methods, recommended: {taken}."
    if TODAY in found.tied:
        return f"Recommended: {deed(taken)}, or your current decisions: no method costs significantly less than these."
    if taken in CONSTANTS:
        beaten = ": the methods that predict cost significantly more" if base else ", the lowest cost"
        return f"Recommended: {deed(taken)}{beaten}."
    return f"Recommended: {taken}{_reason(found, rows, base, tolerance, prefer)}."


def _reason(
    found: Verdict, rows: Mapping[str, Mapping[Any, Any]], base: str | None, tolerance: float, prefer: str
) -> str:
    if found.recommended != base:
        limit = f"at most {100 * tolerance:g} % above"
        if prefer == "simple":
            return f", the simplest method {limit} the lowest cost ({base})"
        return f", the simplest method with no significant difference from the lowest cost ({base}) and {limit} it"
    if found.recommended != found.cheapest:
        return ", the lowest cost of the methods that predict"
    if not {*found.tied, *found.doubtful, *found.worse}:
        return ", the only method with enough finished folds"
    count = len(rows) - (TODAY in rows)
    return ", which costs significantly less than your current decisions" if count == 1 else _lowest_of(found, count)


def _lowest_of(found: Verdict, count: int) -> str:
    alone = not (found.tied or found.doubtful)
    return f", {'significantly ' if alone else ''}the lowest cost of {count} methods"


def _cost(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Say what it costs per row, and what it saves."""
    mean, low, high = (rows[str(found.recommended)][name] for name in ("mean", "low", "high"))
    amount = f"cost {span(mean, low, high, '')}" if mean >= 0 else f"benefit {span(-mean, -high, -low, '')}"
    saved = f", {found.saving.words}" if found.saving else ""
    return f"Mean {amount} per row{saved}."


def _sure(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Say from which methods the cost differs significantly."""
    taken, first = str(found.recommended), found.cheapest
    parts = []
    if first not in (taken, TODAY):
        judged = "a significant difference" if taken in found.worse else "no significant difference"
        unsure = ": predicting is not shown to cost less" if first in CONSTANTS else ""
        parts.append(f"It costs {_more(rows[taken])} than {deed(first)}, {judged}{unsure}")
    tied, doubtful, worse = (
        [name for name in some if name not in (taken, TODAY)] for some in (found.tied, found.doubtful, found.worse)
    )
    it = "it" if taken == first else deed(first)
    parts += [f"no significant difference between {it} and {names_of(tied)}"] if tied else []
    if doubtful:
        verb = "costs" if len(doubtful) == 1 else "cost"
        parts.append(f"{names_of(doubtful)} probably {verb} more (not significant after correction for multiple tests)")
    if worse:
        named = f"{len(worse)} others" if len(worse) > FEW else names_of(worse)
        parts.append(f"{named} {'costs' if len(worse) == 1 else 'cost'} significantly more")
    text = "; ".join(parts)
    return f"{'N' + text[1:] if text.startswith('no ') else text}." if parts else ""


def _simpler(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Name the simpler method that costs significantly more, and the cost of its simplicity."""
    if found.simpler is None:
        return ""
    name, percent, low, high = found.simpler
    amount = span(percent, low, high, " %")
    more = f"earns {amount} less" if rows[str(found.recommended)]["mean"] < 0 else f"costs {amount} more"
    return f'{name} is simpler and {more}: --prefer simple (prefer="simple" in Python) recommends it.'


def _more(row: Mapping[Any, Any]) -> str:
    """``12 % (95 % CI 5-19 %) more``, or in units of cost where a percentage has no meaning."""
    if math.isfinite(row["percent"]):
        return f"{span(row['percent'], row['percent_low'], row['percent_high'], ' %')} more"
    return f"{span(row['difference'], row['difference_low'], row['difference_high'], '')} more"


def _gaps(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Name the methods with too few folds to be judged, and say when a leading method lacks some."""
    most = max(row["n"] for row in rows.values())
    unjudged = [name for name in rows if name not in {found.cheapest, *found.tied, *found.doubtful, *found.worse}]
    if unjudged:
        return f"Too few folds to judge: {names_of(unjudged)}."
    leading = dict.fromkeys(str(name) for name in (found.recommended, found.cheapest) if name)
    short = [name for name in leading if rows[name]["n"] < most]
    return f"{names_of(short)} finished fewer than all {most} folds." if short else ""


def what_would_tell(found: Luck, border: float, question: str) -> str:
    """Say how many repeats, or rows, would show it; nothing where hardly any number would."""
    repeats, rows = enough(found, border)
    if repeats is not None:
        return f"About {repeats} repeats (now {found.n_repeats:.0f}) would show {question}."
    if rows is None:
        return ""
    more = f"bout {rows:,} rows (now {found.n_rows:,})"
    if found.n_repeats > 1:
        return f"More repeats would not show {question}: that takes a{more}."
    return f"A{more} would show {question}."
