"""The comparison report: which sections a page has, and what each of them gets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from adacsl.metrics.intervals import Interval
from adacsl.report.content import Card, Page, Section, Table, View, section
from adacsl.report.data import Outcome, ReportData
from adacsl.report.explorer import explorers_of, without_samples
from adacsl.report.formatting import show, unbroken
from adacsl.report.page import render_page, write_text
from adacsl.report.sections.about import Data, data_section, model_section, provenance_section
from adacsl.report.sections.calibration import Calibration, calibration_section, with_own_scores
from adacsl.report.sections.constraints import constrained, constraints_section
from adacsl.report.sections.costs import Costs, costs_card, costs_section, fit_seconds
from adacsl.report.sections.errors import (
    Errors,
    errors_section,
    thinned,
    threshold_curve,
    threshold_figure,
    threshold_points,
)
from adacsl.report.sections.importance import Importance, importance_section
from adacsl.report.sections.money import Money, money_section
from adacsl.report.sections.multiclass import class_errors_section
from adacsl.report.sections.segments import Segments, segments_section
from adacsl.report.sections.sensitivity import Sensitivity, sensitivity_section
from adacsl.report.sections.summary import Summary, headline_and_lead, notice, tiles
from adacsl.report.sections.training import Training, training_section
from adacsl.report.style import COLORED

PAGE_BYTES = 5_900_000
"""The whole page stays below this: with many data sets, fewer samples of each are embedded."""

Key = tuple[str, float]
"""A data set and a cost ratio."""


def write_report(data: ReportData, path: str | os.PathLike[str]) -> Path:
    """Write the page of a comparison and return its path; an existing page is replaced whole or not at all."""
    return write_text(render_report(data), path)


def render_report(data: ReportData) -> str:
    """Return the page of a comparison as text."""
    page, figures = report_page(data), {}
    for number, key in enumerate(data.views):
        shown = data.outcomes_of(key)
        if shown and not _many(shown):
            one = shown.get(data.recommended_of(key)) or next(iter(shown.values()))
            curve, points = thinned(threshold_curve(one), 2), threshold_points(one)
            figures[f"view-{number}-threshold"] = threshold_figure(curve, points, unit=data.unit)
    room = PAGE_BYTES - len(render_page(replace(page, explorers=without_samples(len(page.views))), figures).encode())
    explorers = explorers_of(
        [data.outcomes_of(key) for key in data.views], [data.recommended_of(key) for key in data.views], data.titles,
        data.classes, room,
    )  # fmt: skip
    return render_page(replace(page, explorers=explorers), figures)


def report_page(data: ReportData) -> Page:
    """Return what the page of a comparison shows."""
    first = [number for number, view in enumerate(data.views) if view[0] == data.views[0][0]]
    sections = (
        _recommendations(data),
        provenance_section(data.facts),
    )
    return Page(
        title=data.title,
        views=[_view(data, key) for key in data.views],
        sections=[one for one in sections if one is not None],
        banner=data.banner,
        unit=data.unit,
        classes=data.classes,
        start=first[len(first) // 2],  # the middle ratio of the first data set
    )


def _recommendations(data: ReportData) -> Section | None:
    """Return the recommendations of all views, where there are several."""
    if len(data.views) == 1:
        return None
    rows = [[key[0], _ratio(data, key), text] for key, text in data.recommendations.items()]
    table = Table(
        "Recommendation for each data set and cost ratio", ["data", "ratio", "recommendation"], rows, text=(2,)
    )
    return section("recommendations", "All recommendations", [Card("all-views", tables=[table])])


def _view(data: ReportData, key: Key) -> View:
    summary = summary_input(data, key)
    headline, lead = headline_and_lead(summary)
    return View(
        headline=unbroken(headline),
        lead=unbroken(lead),
        about=_about(data, key),
        data=key[0],
        ratio=_ratio(data, key),
        tiles=tiles(summary),
        notice=notice(data.checks.get(key[0], ())),
        footnote=f"{data.facts['intervals']}." if data.facts.get("intervals") else "",
        cards=[costs_card(costs_input(data, key))] if _several(data, key) else [],
        sections=[one for one in _sections(data, key) if one is not None],
    )


def _sections(data: ReportData, key: Key) -> list[Section | None]:
    """Return the sections below the summary; without a recommendation those that are about no single method."""
    outcomes, method, terms = data.outcomes_of(key), data.recommended_of(key), data.terms
    many, results = _many(outcomes), data.results_of(key[0])
    methods = coloured(data, key)
    own = results[results["ratio"] == key[1]] if "ratio" in results.columns else results
    names = next(iter(outcomes.values())).class_names if many else ()
    overview = data_section(Data(data.overview.get(key[0]), data.checks.get(key[0]), terms))
    costs = costs_section(costs_input(data, key))
    training = training_section(Training(data.histories_of(key), own, methods, names, data.unit))
    sensitivity = (
        None
        if many
        else sensitivity_section(Sensitivity(key[1], methods, outcomes, results, data.regrets.get(key), terms))
    )
    if not data.recommends(key):
        return [costs, sensitivity, training, overview]
    errors = Errors(outcomes, method, terms)
    importance = importance_section(Importance(data.explained.get(key), terms))
    if not _several(data, key) and importance is not None:  # a page about one model
        costs, importance = replace(importance, open=True), None
    return [
        costs,
        money_section(money_input(data, key)),
        segments_section(Segments(data.segments.get(key), terms)),
        importance,
        sensitivity,
        constraints_section(constrained(outcomes, method, data.unit)),
        class_errors_section(errors) if many else errors_section(errors),
        calibration_section(Calibration(with_own_scores(outcomes, _by_cost(data, key)))),
        training,
        overview,
        model_section(data.model.get(key)),
    ]


# inputs of sections that Markdown shows too


def summary_input(data: ReportData, key: Key) -> Summary:
    """Return the input of the summary of a view."""
    method = data.recommended_of(key)
    return Summary(
        data.recommendations[key], data.summary_of(key), method, data.recommends(key), data.titles.get(method, ""),
        data.savings.get(key), data.terms,
    )  # fmt: skip


def costs_input(data: ReportData, key: Key) -> Costs:
    """Return the input of the costs of a view."""
    results = data.results_of(key[0])
    own = results[results["ratio"] == key[1]] if "ratio" in results.columns else results
    recommended = data.recommended_of(key) if data.recommends(key) else ""
    return Costs(data.summary_of(key), recommended, fit_seconds(own), data.terms)


def money_input(data: ReportData, key: Key) -> Money:
    """Return the input of the money of a view."""
    rows, method = data.summary_of(key), data.recommended_of(key)
    row = rows[rows["method"] == method].iloc[0]
    paid = Interval(float(row["cost"]), float(row["low"]), float(row["high"]))
    return Money(method, paid, data.savings.get(key), data.outcomes_of(key).get(method), data.terms)


# words about a view


def _several(data: ReportData, key: Key) -> bool:
    """Return whether there are several methods, whose costs are compared."""
    return len(data.summary_of(key)) > 1 or key not in data.explained


def coloured(data: ReportData, key: Key) -> list[str]:
    """Return the methods to colour: the recommended and the next ones by cost."""
    return _by_cost(data, key)[:COLORED]


def _by_cost(data: ReportData, key: Key) -> list[str]:
    first = data.recommended_of(key)
    return [first, *(name for name in data.summary_of(key)["method"] if name != first)]


def _many(outcomes: dict[str, Outcome]) -> bool:
    return bool(outcomes) and next(iter(outcomes.values())).n_classes > 2


def _ratio(data: ReportData, key: Key) -> str:
    return "as given" if _many(data.outcomes_of(key)) else f"{key[1]:g}"


def _about(data: ReportData, key: Key) -> str:
    outcomes = data.outcomes_of(key)
    name = f"{key[0]}: " if len({view[0] for view in data.views}) > 1 else ""
    if _many(outcomes):
        return f"{name}{next(iter(outcomes.values())).n_classes} classes, a cost for each kind of error"
    mean = " on average" if any(outcome.own_costs for outcome in outcomes.values()) else ""
    text = f"a false negative (“{data.classes[1]}”) costs {show(key[1])} times a false positive{mean}"
    return f"{name}{text}" if name else f"{text[0].upper()}{text[1:]}"
