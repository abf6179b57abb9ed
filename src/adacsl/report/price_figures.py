"""Plotly figures about other prices, a third way out and a limited number of checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adacsl.extras import requires
from adacsl.report import style
from adacsl.report.data import Regret
from adacsl.report.style import COLORED, PALETTES, plain

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


def rivals(found: Regret, recommended: str) -> list[str]:
    """Return the methods to colour: the recommended, and those that cost least somewhere, or are the least bad."""
    longest = found.cheapest.assign(length=np.log(found.cheapest["high"] / found.cheapest["low"]))
    firsts = longest.groupby("method")["length"].sum().sort_values(ascending=False).index.tolist()
    return list(dict.fromkeys([recommended, *firsts, *found.table["method"]]))[:COLORED]


def regret_figure(found: Regret, recommended: str, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw how much dearer than the cheapest each method is at each ratio; shaded is the range of prices."""
    colors, names = PALETTES[theme], rivals(found, recommended)
    figure = style.new_figure(theme, "If the prices are not what you think", height=420)
    figure.add_vrect(x0=found.low, x1=found.high, fillcolor=colors.grid, line_width=0, layer="below", opacity=0.6)
    figure.add_vline(x=found.ratio, line=style.dotted(theme))
    column, words = _measure(found, unit)
    looks = style.colors_of(found.table["method"].tolist(), names, theme)
    ends = []
    for name in [*(other for other in found.table["method"] if other not in names), *reversed(names)]:
        part, big = found.curve[found.curve["method"] == name].sort_values("ratio"), name in names
        figure.add_scatter(
            x=part["ratio"], y=part[column], mode="lines", name=plain(name), showlegend=big,
            line={"color": looks[name], "width": 2.4 if name == recommended else 2 if big else 1},
            hovertemplate=style.hover("ratio", words),
        )  # fmt: skip
        if big:
            ends.append((name, float(part["ratio"].iloc[-1]), float(part[column].iloc[-1]), looks[name]))
    top = _top(found, names, column)
    figure.add_annotation(
        text="as it was run", x=float(np.log10(found.ratio)), y=0.99, yref="paper", xanchor="left", yanchor="top",
        xshift=3, showarrow=False, font={"size": 12, "color": colors.muted},
    )  # fmt: skip
    ratios = found.curve["ratio"]
    few = ratios.max() / ratios.min() < 300
    figure.update_xaxes(
        type="log", title_text="false alarms that one miss is worth", tickformat="~g", dtick="D2" if few else None,
        range=[float(np.log10(ratios.min())), float(np.log10(ratios.max()))],
    )  # fmt: skip
    figure.update_yaxes(title_text=words, range=[-0.02 * top, top], ticksuffix=" %" if column == "percent" else "")
    return style.add_line_ends(figure, ends, (0.0, top))


def _measure(found: Regret, unit: str) -> tuple[str, str]:
    """Return what to draw: percent, or money where the cheapest costs nothing somewhere."""
    if np.isfinite(found.curve["percent"]).all():
        return "percent", "dearer than the cheapest"
    return "regret", style.axis_title("dearer than the cheapest, per case", unit)


def _top(found: Regret, names: Sequence[str], column: str) -> float:
    """Return where the axis ends: above the coloured lines within the range, whatever the others do."""
    shown = found.curve[found.curve["method"].isin(names) & found.curve["within"]]
    least = 10.0 if column == "percent" else 1e-9
    near = float(found.curve.loc[found.curve["method"].eq(names[0]) & found.curve["within"], column].max())
    return style.top_of(
        shown[column], least=max(least, 1.15 * near), most=max(100.0 if least == 10.0 else np.inf, least)
    )


def capacity_figure(table: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the cost per case against the share of cases that can be checked."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "A limited number of checks", height=400)
    lines = [("by what a check saves", "cost", colors.first, "solid")]
    if not np.allclose(table["cost"], table["by_probability"]):
        lines.insert(0, ("by probability alone", "by_probability", colors.second, "dot"))
    for label, column, color, dash in lines:
        figure.add_scatter(
            x=100 * table["checked"], y=table[column], mode="lines", name=label,
            line={"color": color, "width": 2.4, "dash": dash},
            hovertemplate=f"{label}<br>%{{x:.3g}} % checked<br>cost %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text="cases that can be checked", ticksuffix=" %", rangemode="tozero")
    figure.update_yaxes(title_text=style.axis_title("cost per case", unit), rangemode="tozero")
    return figure.update_layout(showlegend=len(lines) > 1)


def referral_figure(table: pd.DataFrame, *, even: float, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the cost per case, and the share of cases that go to a person, against what that costs."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "A third way out", height=480, rows=2)
    looks = (
        ("cost", "cost per case", table["cost"], colors.first, "%{y:.4g}"),
        ("referred", "referred", 100 * table["referred"], colors.third, "%{y:.3g} %"),
    )
    for row, (name, words, values, color, form) in enumerate(looks, start=1):
        figure.add_scatter(
            x=table["price"], y=values, mode="lines", name=name, showlegend=False,
            line={"color": color, "width": 2.4}, row=row, col=1,
            hovertemplate=f"price %{{x:.4g}}<br>{words} {form}<extra></extra>",
        )  # fmt: skip
        if np.isfinite(even):
            figure.add_vline(x=even, row=row, col=1, line=style.dotted(theme))
    if np.isfinite(even):
        figure.add_annotation(
            text="break-even", x=even, y=1, yref="paper", xanchor="center", yanchor="bottom", showarrow=False,
            font={"size": 12, "color": colors.muted},
        )  # fmt: skip
    figure.update_yaxes(title_text=style.axis_title("cost per case", unit), rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="cases referred", ticksuffix=" %", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title_text=style.axis_title("what a referral costs", unit), row=2, col=1)
    return figure
