"""Cost of each method with its interval: the figure of the summary, and the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.report import style
from adacsl.report.content import Card, Section, Table
from adacsl.report.data import BASELINE, Terms
from adacsl.report.formatting import DASH, show, show_column, show_short
from adacsl.report.style import PALETTES, Palette, plain
from adacsl.report.tables import intervals_of, table_of

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Costs:
    """The costs of all methods of a view.

    Parameters
    ----------
    rows : DataFrame
        method, cost, low, high; where known also significance, percent and its ends, p, normalized_cost, savings, n.
    recommended : str
        The recommended method, or an empty string.
    seconds : mapping from str to float
        Mean time of a fit by method.
    terms : Terms
        Words and units.
    """

    rows: pd.DataFrame
    recommended: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    terms: Terms = field(default_factory=Terms)


def fit_seconds(results: pd.DataFrame) -> dict[str, float]:
    """Return the mean time of a fit of each method, of results with their seconds."""
    if "seconds" not in results.columns:
        return {}
    means = results[results["method"] != BASELINE].groupby("method", sort=False)["seconds"].mean()
    return {str(name): float(value) for name, value in means.items() if np.isfinite(value)}


def costs_card(costs: Costs) -> Card:
    """Return the figure of all methods, which stands in the summary."""
    rows, name = costs.rows, costs.recommended
    first, last = rows.iloc[0], rows.iloc[-1]
    chosen = f" Recommended: {name}." if name else ""
    alt = (
        f"Mean cost of {len(rows)} methods, from {show(first['cost'])} ({first['method']}) to {show(last['cost'])} "
        f"({last['method']}).{chosen} The table below has all numbers."
    )
    figure = cost_figure(rows, recommended=name, unit=costs.terms.unit)
    return Card("cost", title="Mean cost per sample, with 95 % intervals", alt=alt, figure=figure)


def costs_section(costs: Costs) -> Section:
    """Return the table of all methods."""
    guide = (
        "“Above the lowest” compares each method with the lowest-cost one on the same samples. Normalised cost: 0 is "
        "free of errors, 1 the best constant baseline."
    )
    card = Card("methods", guide=guide, tables=[cost_table(costs)])
    return Section("costs", "Cost of each method", [[card]], open=True)


def cost_table(costs: Costs) -> Table:
    """Return the cost of each method, lowest first."""
    rows = costs.rows
    columns = {
        "method": rows["method"].astype(str).tolist(),
        f"{costs.terms.head('mean cost per sample')} (95 % interval)": intervals_of(rows, "cost", "low", "high"),
    }
    if "percent" in rows.columns:
        columns["above the lowest"] = _above(rows)
    if "significance" in rows.columns:
        columns["difference"] = list(rows["significance"])
    for head, column, write in (
        ("p", "p", _show_p),
        ("normalised cost", "normalized_cost", None),
    ):
        if column in rows.columns:
            columns[head] = show_column(rows[column]) if write is None else [write(value) for value in rows[column]]
    if "n" in rows.columns and rows["n"].nunique() > 1:  # some lack results of some splits
        columns["splits"] = [show(value) for value in rows["n"]]
    if costs.seconds:
        columns["fit time"] = [_show_seconds(costs.seconds.get(name)) for name in columns["method"]]
    words = [list(columns).index("difference")] if "difference" in columns else []
    badges = {BASELINE: "current decisions"}
    if len(rows) > 1 and costs.recommended:
        badges[costs.recommended] = "recommended"
    return table_of("Cost of each method, lowest first", columns, marked=costs.recommended, text=words, badges=badges)


def _above(rows: pd.DataFrame) -> list[str]:
    """Return by how many percent each method costs more than the lowest-cost one, with the interval."""
    texts = [f"{show_short(value)} %" if np.isfinite(value) else DASH for value in rows["percent"]]
    if not {"percent_low", "percent_high"} <= set(rows.columns):
        return texts
    ends = zip(texts, rows["percent_low"], rows["percent_high"], strict=True)
    return [
        text if not np.isfinite(low) or low == high == 0 else f"{text} ({show_short(low)} to {show_short(high)} %)"
        for text, low, high in ends
    ]


def _show_p(value: float) -> str:
    return DASH if not np.isfinite(value) else "<\u00a00.001" if value < 0.001 else f"{value:.3f}"


def _show_seconds(value: float | None) -> str:
    """Return a time of a fit."""
    if value is None:
        return DASH
    return f"{value / 60:,.1f} min" if value >= 120 else f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def cost_figure(
    summary: pd.DataFrame, *, recommended: str | None = None, unit: str = "", theme: str = "light"
) -> go.Figure:
    """Draw the mean cost of each method with its interval, lowest on top."""
    colors = PALETTES[theme]
    rows = summary.sort_values("cost", kind="stable")
    kinds = np.where(rows["method"] == BASELINE, BASELINE, rows.get("significance", ""))
    kinds = np.where(rows["method"] == recommended, "recommended", kinds)
    looks = {
        "recommended": ("recommended", colors.first, "diamond", 13),
        "lowest cost": ("lowest cost", colors.third, "circle", 11),
        "no significant difference": ("no significant difference from the lowest", colors.ink, "circle", 9),
        "not significant (corrected)": ("not significant after correction", colors.ink, "circle-open", 9),
        BASELINE: ("your current decisions", colors.second, "square", 10),
        "significantly higher": ("significantly higher", colors.muted, "circle-open", 9),
        "": ("mean", colors.ink, "circle", 9),
    }
    title = f"Mean cost per sample, {plain(unit)}" if unit else "Mean cost per sample"
    figure = style.new_figure(theme, title, height=96 + 26 * len(rows))
    for kind, (label, color, symbol, size) in looks.items():
        part = rows[kinds == kind]
        if part.empty:
            continue
        figure.add_scatter(
            x=part["cost"], y=[plain(name) for name in part["method"]], mode="markers", name=label,
            marker={"color": color, "symbol": symbol, "size": size, "line": {"color": color, "width": 1.6}},
            **style.interval_bars(part, color),
        )  # fmt: skip
    figure.update_xaxes(title_text=style.axis_title("mean cost per sample", unit), rangemode="tozero")
    _cut_far_ones(figure, rows, colors)
    return style.list_names(figure, [plain(name) for name in rows["method"]], colors)


def _cut_far_ones(figure: go.Figure, rows: pd.DataFrame, colors: Palette) -> None:
    """Let the axis end before methods that cost many times as much as most, and write their cost at its end."""
    ends = rows["high"].where(rows["high"].notna(), rows["cost"])
    far = rows["cost"] > 3 * ends.median()
    if not far.any() or rows["cost"].min() < 0:
        return
    end = 1.25 * float(ends[~far].max())
    figure.update_xaxes(range=[0, end], rangemode="normal")
    look: dict[str, Any] = {"xanchor": "right", "showarrow": False, "font": {"color": colors.muted}}
    for name, cost in zip(rows.loc[far, "method"], rows.loc[far, "cost"], strict=True):
        figure.add_annotation(text=f"{cost:.4g} \u2192", x=end, y=plain(name), **look)
