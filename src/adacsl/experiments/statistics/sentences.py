"""A verdict in words that are read once: what to use, what it costs, what it saves, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adacsl.experiments.statistics.enough import Luck, enough
from adacsl.experiments.statistics.wording import CONSTANTS, TODAY, deed, names_are, names_of, span

if TYPE_CHECKING:
    from adacsl.experiments.statistics.verdicts import Verdict

FEW = 2
"""So many clearly worse methods are named, more are counted."""


def told(
    found: Verdict, rows: Mapping[str, Mapping[Any, Any]], base: str | None, tolerance: float, outlook: str = ""
) -> str:
    """Return a verdict in a few sentences.

    Parameters
    ----------
    found : Verdict
        Without its text.
    rows : mapping
        The rows of the summary by method, cheapest first.
    base : str or None
        The cheapest method that predicts.
    tolerance : float
        What simplicity may cost.
    outlook : str
        How many repeats or rows would tell more.
    """
    if found.recommended is None:
        return f"{_nothing(found, rows)} {_gaps(found, rows)}".strip()
    parts = [_what(found, rows, base, tolerance), _cost(found, rows), _sure(found, rows), outlook, _gaps(found, rows)]
    return " ".join(part for part in parts if part)


def _nothing(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    if max(row["n"] for row in rows.values()) > 1:
        return "Nothing but what you do today has enough finished splits."
    return (
        "One split only: nothing can be said about how sure this is; give more folds or repeats. "
        f"On it {deed(found.cheapest)} cost least."
    )


def _what(found: Verdict, rows: Mapping[str, Mapping[Any, Any]], base: str | None, tolerance: float) -> str:
    """Say what to use, in one sentence."""
    taken = str(found.recommended)
    if len(rows) == 1:
        return f"Only {deed(taken)} was measured: there is nothing to compare it with."
    if found.cheapest == TODAY:
        unsure = found.tied or found.doubtful
        return f"Keep what you do today: {'no method is shown to be cheaper' if unsure else 'every method is dearer'}."
    if TODAY in found.tied:
        return f"Use {deed(taken)} or keep what you do today: no method is shown to be cheaper than that."
    if taken in CONSTANTS:
        call = deed(taken).removeprefix("calling ")
        beaten = f"Do not predict, call {call}: every method that predicts is clearly dearer."
        return beaten if base else f"Call {call}: that has the lowest cost."
    return f"Use {taken}{_reason(found, rows, base, tolerance)}."


def _reason(found: Verdict, rows: Mapping[str, Mapping[Any, Any]], base: str | None, tolerance: float) -> str:
    if found.recommended != base:
        lowest = f"the cheapest{' that predicts' if found.cheapest in CONSTANTS else ''}, {base}"
        return f": the simplest method that is at most {100 * tolerance:g} % dearer than {lowest}"
    if found.recommended != found.cheapest:
        return " if you predict: of the methods that do it has the lowest cost"
    if not {*found.tied, *found.doubtful, *found.worse}:
        return ": it is the only one with enough finished splits"
    alone, count = not (found.tied or found.doubtful), len(rows) - (TODAY in rows)
    if count == 1:
        return ": it clearly costs less than what you do today"
    return f": it {'is clearly the cheapest' if alone else 'has the lowest cost'} of {count} methods"


def _cost(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Say what it costs per row, and what it saves."""
    taken = str(found.recommended)
    mean, low, high = (rows[taken][name] for name in ("mean", "low", "high"))
    who = _capital(deed(taken)) if TODAY in found.tied else "It"
    who = f"Of the methods {taken} is the one to take: it" if found.cheapest == TODAY else who
    amount = f"costs {span(mean, low, high, '')}" if mean >= 0 else f"earns {span(-mean, -high, -low, '')}"
    saved = f", {found.saving.words}" if found.saving else ""
    return f"{who} {amount} per row{saved}."


def _sure(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Say against whom it is sure, and against whom it is not."""
    taken, first = str(found.recommended), found.cheapest
    it = "it" if taken == first else deed(first)
    parts = []
    if first not in (taken, TODAY):
        unsure = ": it is not shown that predicting is worth it" if first in CONSTANTS else ""
        parts.append(f"{deed(first)} lies {_below(rows[taken])} below it{unsure}")
    tied, doubtful, worse = (
        [name for name in some if name not in (taken, TODAY)] for some in (found.tied, found.doubtful, found.worse)
    )
    parts += [f"{names_of(tied)} cannot be told from {it}"] if tied else []
    parts += [f"{names_are(doubtful)} probably worse"] if doubtful else []
    if worse:
        counted = len(worse) > FEW
        parts.append(f"{f'{len(worse)} others are' if counted else names_are(worse)} clearly worse")
    return _capital("; ".join(parts)) + "." if parts else ""


def _below(row: Mapping[Any, Any]) -> str:
    """``12 % (5-19 %)``, or in units of cost where a percentage has no meaning."""
    if math.isfinite(row["below"]):
        return span(row["below"], row["below_low"], row["below_high"], " %")
    return span(row["difference"], row["difference_low"], row["difference_high"], "")


def _gaps(found: Verdict, rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Name those with too few splits to be judged, and say when a leading method lacks some."""
    most = max(row["n"] for row in rows.values())
    unjudged = [name for name in rows if name not in {found.cheapest, *found.tied, *found.doubtful, *found.worse}]
    if unjudged:
        return f"Too few splits to judge: {names_of(unjudged)}."
    leading = dict.fromkeys(str(name) for name in (found.recommended, found.cheapest) if name)
    short = [name for name in leading if rows[name]["n"] < most]
    return f"{names_of(short)} finished fewer than all {most} splits." if short else ""


def _capital(words: str) -> str:
    """Begin a sentence; names of methods stay as they are typed."""
    return words[0].upper() + words[1:] if words.startswith(("calling ", "what ")) else words


def what_would_tell(found: Luck, border: float, question: str) -> str:
    """Say how many repeats, or rows, would tell; nothing where hardly any number would."""
    repeats, rows = enough(found, border)
    if repeats is not None:
        return f"About {repeats} repeats (now {found.n_repeats:.0f}) would tell {question}."
    if rows is None:
        return ""
    more = f"bout {rows:,} rows (now {found.n_rows:,})"
    if found.n_repeats > 1:
        return f"More repeats would not tell {question}: that takes a{more}."
    return f"A{more} would tell {question}."
