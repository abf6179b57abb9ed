"""The summary of a view: the saving as a headline, the recommendation, and a few numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from adacsl.base.extras import requires
from adacsl.metrics.intervals import Interval
from adacsl.report.apportionment import money_texts
from adacsl.report.content import Tile
from adacsl.report.data import Saved, Terms
from adacsl.report.formatting import show_ci, show_percent, show_short

with requires("compare"):
    import pandas as pd


SERIOUS = ("error", "warning")
"""Severities of findings that the summary points to."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)")


@dataclass(frozen=True)
class Summary:
    """What the summary is made from.

    Parameters
    ----------
    text : str
        The recommendation in a few sentences.
    rows : DataFrame
        The costs of all methods, lowest first: method, cost, low, high; where known significance and savings.
    method : str
        The recommended method, else the one with the lowest cost.
    recommends : bool
        Whether the method is recommended.
    title : str
        One line about the method.
    saved : Saved, optional
        Its saving against a baseline.
    terms : Terms
        Words and units.
    """

    text: str
    rows: pd.DataFrame
    method: str
    recommends: bool = True
    title: str = ""
    saved: Saved | None = None
    terms: Terms = field(default_factory=Terms)


def headline_and_lead(summary: Summary) -> tuple[str, str]:
    """Return the saving as a headline and the recommendation; without a saving, its first sentence and the rest."""
    known = summary.saved
    if known is not None and summary.recommends:
        if known.nothing:
            return f"The same cost as {known.against}", summary.text
        percent = math.isfinite(known.percent.estimate)
        if math.isfinite(known.each.estimate) and (summary.terms.unit or not percent):
            return _money_headline(summary, known), summary.text
        if percent:
            return _percent_headline(known), summary.text
    first, _, rest = _SENTENCE_END.sub("\0", summary.text, count=1).partition("\0")
    return first, rest


def _money_headline(summary: Summary, known: Saved) -> str:
    terms, loss = summary.terms, known.each.estimate < 0
    row = summary.rows[summary.rows["method"] == summary.method].iloc[0]
    paid = Interval(float(row["cost"]), float(row["low"]), float(row["high"]))
    text, between = saved_texts(amounts_of(paid, known), terms.volume or 1)
    per = "per sample" if terms.volume is None else "a year"
    interval = f" (95 % CI {between})" if between else ""
    verb, more = ("Costs", " more than") if loss else ("Saves", " against")
    return f"{verb} {terms.amount(text)} {per}{interval}{more} {known.against}{_unsure(known.each)}"


def _percent_headline(known: Saved) -> str:
    estimate, low, high = turned(known.percent)
    interval = f" ({ci})" if (ci := show_ci(low, high, " %")) else ""
    word = "higher" if known.percent.estimate < 0 else "lower"
    return f"{show_short(estimate)} % {word} cost{interval} than {known.against}{_unsure(known.percent)}"


def _unsure(interval: Interval) -> str:
    return ": no significant difference" if interval.low <= 0 <= interval.high else ""


def turned(saving: Interval) -> Interval:
    """Return a saving, or the loss where it is negative, as a positive amount."""
    return Interval(-saving.estimate, -saving.high, -saving.low) if saving.estimate < 0 else saving


def amounts_of(paid: Interval, saved: Saved | None) -> dict[str, Interval]:
    """Return costs per sample of the baseline and the recommended method, and the saving; what is known."""
    each = {"recommended": paid}
    if saved is not None:
        each = {"baseline": saved.baseline, **each, "saved": saved.each}
    return {what: amount for what, amount in each.items() if math.isfinite(amount.estimate)}


def saved_texts(each: Mapping[str, Interval], count: float) -> tuple[str, str]:
    """Return the saving (or loss) for so many samples and the ends of its interval, rounded as beside the costs."""
    return money_texts({**each, "saved": turned(each["saved"])}, count)["saved"]


def tiles(summary: Summary) -> list[Tile]:
    """Return the numbers of the summary."""
    rows, terms = summary.rows, summary.terms
    row = rows[rows["method"] == summary.method].iloc[0]
    cost = terms.amount(show_short(row["cost"]))
    interval = show_ci(row["low"], row["high"])
    if not summary.recommends:
        return [Tile("Lowest mean cost per sample", cost, "; ".join(filter(None, (summary.method, interval))))]
    result = [
        Tile("Recommended" if len(rows) > 1 else "Method", summary.method, summary.title),
        Tile("Mean cost per sample", cost, interval),
    ]
    if summary.saved is not None and math.isfinite(summary.saved.percent.estimate):
        result.append(_saving_tile(summary.saved))
    elif "savings" in rows.columns and math.isfinite(row["savings"]):
        result.append(Tile("Saved", show_percent(row["savings"]), "against the best constant baseline"))
    if "significance" in rows.columns and len(rows) > 1:
        counts = rows["significance"].value_counts()
        known = (
            ("no significant difference", "no significant difference"),
            ("not significant (corrected)", "not after correction"),
        )
        others = [f"{counts[kind]} {words}" for kind, words in known if kind in counts]
        result.append(
            Tile(
                "Significantly higher cost",
                f"{counts.get('significantly higher', 0)} of {len(rows) - 1}",
                "; ".join(others),
            )
        )
    return result


def _saving_tile(known: Saved) -> Tile:
    estimate, low, high = turned(known.percent)
    loss = known.percent.estimate < 0
    interval = "" if known.nothing else show_ci(low, high, " %")
    remarks = [f"{'than' if loss else 'against'} {known.against}", interval]
    return Tile("Costs more" if loss else "Saved", f"{show_short(estimate)} %", "; ".join(filter(None, remarks)))


def notice(checks: Sequence[Mapping[str, str]]) -> str:
    """Return how many findings need a look before the result is used; nothing where none is serious."""
    counts = [sum(one["severity"] == kind for one in checks) for kind in SERIOUS]
    if not sum(counts):
        return ""
    findings = f"{sum(counts)} {'finding' if sum(counts) == 1 else 'findings'} of the data checks to review"
    return f"{findings} before using these results{'; at least one may invalidate them' if counts[0] else ''}."
