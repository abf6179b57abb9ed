"""Report sections for decision makers: money and people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.metrics.intervals import Interval
from adacsl.report.apportionment import THOUSAND, money_each, money_texts, people_spoken_of, whole_confusion
from adacsl.report.card import Card, card
from adacsl.report.data import Outcome, ReportData
from adacsl.report.tables import Table, people_matrix


def money_sections(data: ReportData, view: Any, key: str) -> dict[str, list[list[Card | None]]]:
    """Return what stands above all other sections."""
    return {"money": [[_money_card(data, view, key)], people_cards(data, view, key)]}


def _money_card(data: ReportData, view: Any, key: str) -> Card | None:
    if "saved" not in money_each(data, view):
        return None
    return card(key, "paid", say=money_words(data, view), tables=[money_rows(data, view)])


def money_rows(data: ReportData, view: Any) -> Table:
    """Return money paid and saved per row, per 1,000 and per year, as a table whose columns add up."""
    each, known = money_each(data, view), data.savings.get(view)
    against = known.against if known else ""
    heads = {"today": against if against.startswith("your ") else f"baseline: {against}", "saved": "saved"}
    heads["recommended"] = data.recommended_of(view)
    unit = f", {data.unit}" if data.unit else ""
    columns = {f"on average, each{unit}": money_texts(each, 1)}
    columns[f"per 1,000 {data.people}{unit}"] = money_texts(each, THOUSAND)
    if data.volume is not None:
        columns[f"a year, {data.volume:,.0f} {data.people}{unit}"] = money_texts(each, data.volume)
    rows = [[heads[what], *(_spanned(*texts[what]) for texts in columns.values())] for what in each]
    return Table("What is paid, and what is saved (95 % interval)", ["", *columns], rows, "saved")


def _spanned(text: str, between: str) -> str:
    return f"{text} ({between})" if between else text


def money_words(data: ReportData, view: Any) -> str:
    """Say what is saved, and how sure that is."""
    known = data.savings[view]
    people = THOUSAND if data.volume is None else data.volume
    dearer, text, between = _saved(known.each, people)
    unit = f" {data.unit}" if data.unit else ""
    when = f"per 1,000 {data.people}" if data.volume is None else f"in a year of {people:,.0f} {data.people}"
    verb, more = ("costs", " more") if dearer else ("saves", "")
    said = f"{data.recommended_of(view)} {verb} about {text}{unit}{more} {when}, against {known.against}."
    if known.other:
        paid = money_texts({"saved": Interval(known.other_cost, math.nan, math.nan)}, people)["saved"][0]
        said += f" {known.other[0].upper()}{known.other[1:]} would cost {paid}{unit}."
    if not between:
        return said
    chance = " The difference is not significant." if known.each.low <= 0 <= known.each.high else ""
    return f"{said} 95 % CI of the {'loss' if dearer else 'saving'}: {between}{unit}.{chance}"


def _saved(each: Interval, people: float) -> tuple[bool, str, str]:
    """Return whether it is a loss, how much for so many people, and the ends of its interval."""
    dearer = each.estimate < 0
    shown = Interval(-each.estimate, -each.high, -each.low) if dearer else each
    return dearer, *money_texts({"saved": shown}, people)["saved"]


def money_tile(data: ReportData, view: Any) -> tuple[str, str, str] | None:
    """Return what is saved per year, or per 1,000, as a number of the headline."""
    known = data.savings.get(view)
    if known is None or not math.isfinite(known.each.estimate):
        return None
    people, per = (THOUSAND, f"per 1,000 {data.people}") if data.volume is None else (data.volume, "per year")
    dearer, text, between = _saved(known.each, people)
    name = f"{'Costs more' if dearer else 'Saved'} {per}"
    return name, f"{text} {data.unit}".strip(), f"95 % CI {between}" if between else ""


def people_cards(data: ReportData, view: Any, key: str) -> list[Card | None]:
    """Return what happens to 1,000 people (more, where a class is rare), by the baseline and the recommended method."""
    return [
        Card(f"{key}-people-{when}", title=title, say=people_words(data, outcome, people), matrix=matrix)
        for when, title, outcome, people, matrix in people_told(data, view)
    ]


def people_told(data: ReportData, view: Any) -> list[tuple[str, str, Outcome, int, Table | None]]:
    """Return what the cards about people say: when, title, test rows, of how many people; of two classes the matrix."""
    outcomes, known = data.outcomes_of(view), data.savings.get(view)
    name = data.recommended_of(view)
    if name not in outcomes:
        return []
    people = people_spoken_of(outcomes[name])
    of = f"Of {people:,} {data.people},"
    shown = [("after", f"{of} with {name}", outcomes[name])]
    if known is not None and known.outcome is not None:
        shown = [("before", f"{of} with {known.against}", known.outcome), *shown]
    two = outcomes[name].n_classes == 2
    return [
        (when, title, outcome, people, people_matrix(data, outcome, people) if two else None)
        for when, title, outcome in shown
    ]


def people_words(data: ReportData, outcome: Outcome, people: int) -> str:
    """Say in natural frequencies what happens to so many people."""
    cells = whole_confusion(outcome, people)
    if outcome.n_classes > 2:
        return _wrong_words(outcome.class_names, cells)
    (passed, alarmed), (missed, caught) = cells.tolist()
    negative, positive = data.classes
    return (
        f"{missed + caught:,} of {people:,} are “{positive}”: {caught:,} of them are called so, {missed:,} are missed. "
        f"Of the {passed + alarmed:,} that are “{negative}”, {alarmed:,} are called “{positive}” wrongly."
    )


def _wrong_words(names: list[str], cells: NDArray[np.int64]) -> str:
    """Say how many are decided rightly, and which error is made most often."""
    errors = cells - np.diag(np.diag(cells))
    wrong = int(errors.sum())
    said = f"{cells.sum() - wrong:,} are decided rightly, {wrong:,} wrongly"
    if not wrong:
        return f"{said}."
    actual, decided = np.unravel_index(errors.argmax(), errors.shape)
    return f"{said}; most often “{names[actual]}” is called “{names[decided]}”: {errors.max():,} times."
