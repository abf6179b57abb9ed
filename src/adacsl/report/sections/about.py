"""The data, the findings of the data checks, the model card, and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adacsl.base.extras import requires
from adacsl.report import style
from adacsl.report.content import Card, Finding, Section, Table, listed, section
from adacsl.report.data import Terms
from adacsl.report.formatting import show_percent, unbroken
from adacsl.report.sections.summary import notice
from adacsl.report.style import PALETTES, plain
from adacsl.report.tables import records

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


SEVERITIES = ("error", "warning", "info")
"""Severities of findings, the most severe first."""

OPEN = 12
"""A table of more columns than these is folded."""


@dataclass(frozen=True)
class Data:
    """A data set.

    Parameters
    ----------
    overview : DataFrame, optional
        Its columns: column, kind, missing, distinct, values; attrs has rows, n_columns, classes and costs.
    checks : sequence of dict, optional
        The findings of its checks: code, severity, text, page. None: not checked.
    terms : Terms
        Words and units.
    """

    overview: pd.DataFrame | None = None
    checks: Sequence[Mapping[str, str]] | None = None
    terms: Terms = field(default_factory=Terms)


def data_section(data: Data) -> Section | None:
    """Return what the data look like, and the findings of their checks."""
    checks = None if data.checks is None else checks_card(data.checks)
    return section("data", "Data and checks", listed(_overview_card(data)), listed(checks))


def checks_card(checks: Sequence[Mapping[str, str]]) -> Card:
    """Return the findings of data checks, the most severe first."""
    if not checks:
        return Card("checks", title="Data checks", result="No findings.")
    rows = [
        Finding(one["severity"], one["text"], one["code"], one.get("page", ""))
        for one in sorted(checks, key=lambda one: SEVERITIES.index(one["severity"]))
    ]
    return Card("checks", title="Data checks", result=notice(checks), findings=rows)


def model_section(card: Mapping[str, str] | None) -> Section | None:
    """Return the model card of the recommended method."""
    return section("model", "Model card", [Card("card", facts=dict(card))]) if card else None


def provenance_section(facts: Mapping[str, str]) -> Section | None:
    """Return the provenance of the numbers."""
    return section("provenance", "Provenance", [Card("facts", facts=dict(facts))]) if facts else None


def _overview_card(data: Data) -> Card | None:
    frame = data.overview
    if frame is None:
        return None
    about = frame.attrs
    more = about["n_columns"] - len(frame)
    rows = [
        [r.column, r.kind, show_percent(r.missing / about["rows"]), f"{r.distinct:,}", r.values] for r in records(frame)
    ]
    caption = f"{about['n_columns']:,} columns{f', the first {len(frame)} of them' if more else ''}"
    table = [Table(caption, ["column", "kind", "missing", "different values", "values"], rows, text=(1, 4))]
    return Card(
        "overview",
        title="Classes and columns",
        guide="At stake: the cost of predicting all samples of a class wrongly, above predicting them correctly.",
        result=unbroken(overview_words(about, data.terms)),
        alt="Share of each class of the samples, and of the cost at stake in them.",
        figure=stakes_figure(about["classes"]),
        tables=table if 0 < len(rows) <= OPEN else (),
        folded=table if len(rows) > OPEN else (),
    )


def overview_words(about: Mapping[Any, Any], terms: Terms) -> str:
    """Return the number of samples, the rarest class, and the costs, in a sentence."""
    classes, rows = about["classes"], about["rows"]
    total = sum(one["at_stake"] for one in classes)
    rarest = min(classes, key=lambda one: one["rows"])
    share = show_percent(rarest["rows"] / rows)
    words = f"{rows:,} {terms.people}, {rarest['rows']:,} of them ({share}) “{rarest['name']}”"
    if total > 0:
        words += f", with {show_percent(rarest['at_stake'] / total)} of the cost at stake"
    return f"{words}. {about['costs']}.".replace("..", ".").replace(". .", ".")


def stakes_figure(classes: Sequence[Mapping[str, Any]], *, theme: str = "light") -> go.Figure:
    """Draw the share of each class of the samples, and of the cost at stake in them."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Classes", height=210)
    parts = {"samples": "rows", "cost at stake": "at_stake"}
    totals = {key: sum(one[key] for one in classes) or 1.0 for key in parts.values()}
    palette = (colors.quiet, colors.second) if len(classes) == 2 else (*colors.lines, colors.quiet)
    for number, one in enumerate(classes):
        shares = [100 * one[key] / totals[key] for key in parts.values()]
        figure.add_bar(
            x=shares, y=list(parts), orientation="h", name=plain(one["name"]), width=0.6,
            marker={"color": palette[min(number, len(palette) - 1)], "line": {"color": colors.paper, "width": 1}},
            hovertemplate="%{fullData.name}<br>%{x:.1f} % of the %{y}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(ticksuffix=" %", range=[0, 101])
    figure.update_layout(barmode="stack", showlegend=True, legend_traceorder="normal")
    return style.list_names(figure, list(parts), colors)
