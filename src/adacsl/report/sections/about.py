"""Report sections on checks and the model card."""

from __future__ import annotations

from typing import Any

from adacsl.report.card import Card, Finding, card
from adacsl.report.data import ReportData
from adacsl.report.sections.segments import overview_card

SERIOUS = ("stop", "warn")
WORDS = {"stop": "stop", "warn": "look at this", "note": "note"}


def about_sections(data: ReportData, view: Any, key: str) -> dict[str, list[list[Card | None]]]:
    """Return what stands below all other sections of a view."""
    about = [[overview_card(data, view[0], key)], [checks_card(data, view[0], key)]]
    return {"data": about, "model": [[model_card(data, view, key)]]}


def checks_card(data: ReportData, name: str, key: str) -> Card | None:
    """Return what the checks saw in a data set; None where it was not checked."""
    found = data.checks.get(name)
    if found is None:
        return None
    if not found:
        return card(key, "checks", say="Nothing was found that should keep anybody from relying on the data.")
    order = [*SERIOUS, "note"]
    rows = [
        Finding(one["severity"], WORDS[one["severity"]], one["text"], one["code"], one.get("page", ""))
        for one in sorted(found, key=lambda one: order.index(one["severity"]))
    ]
    return card(key, "checks", say=alarm(data, name), findings=rows)


def alarm(data: ReportData, name: str) -> str:
    """Say how many findings should be looked at before anybody relies on the result; nothing where none is serious."""
    counts = [sum(one["severity"] == kind for one in data.checks.get(name, ())) for kind in SERIOUS]
    if not sum(counts):
        return ""
    things = f"{sum(counts)} {'thing' if sum(counts) == 1 else 'things'} to look at"
    return (
        f"{things} before anybody relies on these numbers{'; at least one may make them wrong' if counts[0] else ''}."
    )


def model_card(data: ReportData, view: Any, key: str) -> Card | None:
    """Return the model card of the recommended method."""
    lines = data.model.get(view)
    if not lines:
        return None
    return card(key, "card", facts=dict(lines))
