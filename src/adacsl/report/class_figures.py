"""Plotly figures about more than two classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adacsl.extras import requires
from adacsl.report import style
from adacsl.report.numbers import show_count
from adacsl.report.style import COLORED, PALETTES, plain

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


def confusion_figure(
    cells: pd.DataFrame, names: Sequence[str], method: str = "", *, unit: str = "", theme: str = "light"
) -> go.Figure:
    """Draw the confusion matrix in money: the darker an error, the more it costs in total; numbers are cases."""
    colors, k = PALETTES[theme], len(names)
    shown = [plain(name) for name in names]
    title = f"Errors of {plain(method)}, in money" if method else "Errors in money"
    figure = style.new_figure(theme, title, height=min(900, 160 + 34 * k))
    count, total, share = (
        cells.pivot_table(index="actual", columns="decided", values=column).to_numpy()
        for column in ("count", "total_cost", "share")
    )
    figure.add_heatmap(
        z=total, x=shown, y=shown, colorscale=[[0.0, colors.paper], [1.0, colors.second]], xgap=1, ygap=1,
        zmin=0.0, zmax=float(total.max()) or 1.0,
        colorbar={"title": {"text": style.axis_title("total cost", unit)}, "outlinewidth": 0, "thickness": 12},
        customdata=np.stack((count, share), axis=-1),
        text=[[show_count(each) if each else "" for each in row] for row in count],
        texttemplate="%{text}" if k <= 20 else "",
        hovertemplate="really %{y}, decided %{x}<br>%{customdata[0]:.1~f} cases, cost %{z:.4g} "
                      "(%{customdata[1]:.1%})<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text="decided", type="category", showgrid=False)
    return figure.update_yaxes(title_text="really", type="category", autorange="reversed", showgrid=False)


def class_lambda_figure(lambdas: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw the lambda of each class by epoch; coloured are those that moved most."""
    if lambdas.empty:
        raise ValueError("there is no lambda to draw: no method adapted itself")
    figure = style.new_figure(theme, "How the loss adapted itself", height=400)
    last = lambdas.sort_values("epoch").drop_duplicates("class", keep="last")
    ends = {str(name): float(value) for name, value in zip(last["class"], last["lambda"], strict=True)}
    bright = sorted(ends, key=lambda name: -abs(np.log(ends[name])))[:COLORED]
    colors = style.colors_of(list(ends), bright, theme)
    for name in sorted(ends, key=lambda name: name in bright):
        part, big = lambdas[lambdas["class"] == name].sort_values("epoch"), name in bright
        figure.add_scatter(
            x=part["epoch"], y=part["lambda"], mode="lines", name=plain(name), showlegend=big,
            line={"color": colors[name], "width": 2.2 if big else 1}, hovertemplate=style.hover("epoch", "lambda"),
        )  # fmt: skip
    figure.add_hline(y=1.0, line=style.dotted(theme))
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="lambda", type="log", nticks=6, tickformat="~g")
    return figure.update_layout(showlegend=True)
