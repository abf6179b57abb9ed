"""Plotly figures about segments of the rows, and about the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adacsl.extras import requires
from adacsl.report import style
from adacsl.report.style import PALETTES, plain

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


def segment_figure(rows: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the cost per case of each segment with its interval; a dotted line is the mean of all."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, f"Cost per case by {plain(rows['column'].iloc[0])}", height=130 + 32 * len(rows))
    told = (rows["standing"] == "told apart").to_numpy()
    dearer = (rows["difference"] > 0).to_numpy()
    looks = {
        "dearer than all others": (told & dearer, colors.second, "circle"),
        "cheaper than all others": (told & ~dearer, colors.third, "circle"),
        "not told apart": (~told, colors.ink, "circle-open"),
    }
    figure.add_vline(x=float(np.average(rows["cost"], weights=rows["share"])), line=style.dotted(theme))
    for label, (which, color, symbol) in looks.items():
        if which.any():
            _points(figure, rows[which], ("cost", "low", "high"), label, color, symbol)
    figure.update_xaxes(title_text=style.axis_title("mean cost per case", unit), rangemode="tozero")
    return style.list_names(figure, [plain(name) for name in rows["segment"]], colors)


def rates_figure(rows: pd.DataFrame, names: Mapping[str, str], *, theme: str = "light") -> go.Figure:
    """Draw shares of errors by segment, in percent; ``names`` says which columns, and what they are called."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, f"Errors by {plain(rows['column'].iloc[0])}", height=130 + 32 * len(rows))
    ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    shares = rows.assign(**{end: 100 * rows[end] for end in ends})
    for (column, label), color, symbol in zip(
        names.items(), (colors.second, colors.first), ("circle", "diamond"), strict=False
    ):
        known = shares[shares[column].notna()]
        _points(figure, known, (column, f"{column}_low", f"{column}_high"), label, color, symbol)
    figure.update_xaxes(title_text="share of these cases", ticksuffix=" %", rangemode="tozero")
    return style.list_names(figure, [plain(name) for name in rows["segment"]], colors)


def _points(
    figure: go.Figure, rows: pd.DataFrame, columns: tuple[str, str, str], label: str, color: str, symbol: str
) -> None:
    middle, low, high = (rows[column] for column in columns)
    ends = {"type": "data", "array": high - middle, "arrayminus": middle - low, "color": color, "thickness": 1.6}
    figure.add_scatter(
        x=middle, y=[plain(name) for name in rows["segment"]], mode="markers", name=plain(label), showlegend=True,
        marker={"color": color, "symbol": symbol, "size": 10, "line": {"color": color, "width": 1.6}},
        error_x={**ends, "width": 0}, customdata=np.column_stack((low, high, rows["rows"])),
        hovertemplate="%{y}: %{x:.4g}<br>95 % interval %{customdata[0]:.4g} to %{customdata[1]:.4g}"
        "<br>%{customdata[2]:,} cases<extra></extra>",
    )  # fmt: skip


def stakes_figure(classes: Sequence[Mapping[str, Any]], *, theme: str = "light") -> go.Figure:
    """Draw the share of each class of the rows, and of what is at stake in them."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Classes: of the rows, and of the money at stake", height=210)
    parts = {"rows": "rows", "money at stake": "at_stake"}
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
