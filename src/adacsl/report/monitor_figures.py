"""Pictures of a model in use: costs, time, class shares, scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from adacsl.core.intervals import Interval
from adacsl.estimators.findings import Monitoring
from adacsl.extras import requires
from adacsl.report import style
from adacsl.report.numbers import show
from adacsl.report.style import PALETTES, plain

with requires("compare"):
    import plotly.graph_objects as go


def costs_figure(rows: Sequence[tuple[str, Interval]], *, theme: str = "light") -> go.Figure:
    """Draw costs per row with their intervals, one below the other."""
    colors, names = PALETTES[theme], [plain(name) for name, _ in rows]
    figure = style.new_figure(theme, "What a row costs", height=96 + 34 * len(rows))
    costs = [cost for _, cost in rows]
    first = [colors.first if place == 0 else colors.ink for place in range(len(rows))]
    figure.add_scatter(
        x=[cost.estimate for cost in costs], y=names, mode="markers", showlegend=False,
        marker={"color": first, "size": 10}, error_x=_error(costs, colors.muted),
        hovertemplate="%{y}<br>%{x:.4g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text="cost per row", rangemode="tozero")
    return style.list_names(figure, names, colors)


def _error(costs: Sequence[Interval], color: str) -> dict[str, Any]:
    return {
        "type": "data", "symmetric": False, "array": [cost.high - cost.estimate for cost in costs],
        "arrayminus": [cost.estimate - cost.low for cost in costs], "color": color, "thickness": 1.6, "width": 0,
    }  # fmt: skip


def windows_figure(found: Monitoring, *, theme: str = "light") -> go.Figure:
    """Draw the cost of each window of time: measured with its interval, expected, and promised."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Cost over time", height=380)
    known = [window for window in found.windows if window.cost is not None]
    names = [plain(window.name) for window in found.windows]
    if known:
        costs = [window.cost for window in known if window.cost is not None]
        figure.add_scatter(
            x=[plain(window.name) for window in known], y=[cost.estimate for cost in costs], mode="markers",
            name="has cost", marker={"color": colors.first, "size": 9}, error_y=_error(costs, colors.first),
            hovertemplate="%{x}<br>%{y:.4g}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=names, y=[window.expected for window in found.windows], mode="lines+markers", name="expected",
        line={"color": colors.second, "dash": "dash", "width": 1.6}, marker={"size": 5},
        hovertemplate="%{x}<br>expected %{y:.4g}<extra></extra>",
    )  # fmt: skip
    if found.labels is not None and found.labels.promised is not None:
        promised = [found.labels.promised.estimate] * len(names)
        figure.add_scatter(
            x=names, y=promised, mode="lines", name="promised", line=style.dotted(theme), hoverinfo="skip"
        )
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names, nticks=8)
    figure.update_yaxes(title_text="cost per row", rangemode="tozero")
    return figure.update_layout(showlegend=True)


def prior_figure(found: Monitoring, *, theme: str = "light") -> go.Figure:
    """Draw the share of each class: in training, estimated now with its interval, and among rows with labels."""
    colors, prior = PALETTES[theme], found.prior
    assert prior is not None  # noqa: S101
    shown = [1] if len(prior.then) == 2 else list(range(len(prior.then)))
    names = (
        ["in training", "estimated now", "with labels"] if len(shown) == 1 else [plain(found.classes[k]) for k in shown]
    )
    figure = style.new_figure(theme, "The classes", height=110 + 44 * len(names))
    now = [Interval(*(100 * float(end[k]) for end in (prior.now, prior.low, prior.high))) for k in shown]
    parts: list[tuple[str, list[Interval], str, str]] = [
        ("in training", [Interval(*[100 * float(prior.then[k])] * 3) for k in shown], colors.muted, "line-ns-open"),
        ("estimated now", now, colors.first, "circle"),
    ]
    if found.labels is not None:
        shares = [Interval(*(100 * end for end in found.labels.shares[k])) for k in shown]
        parts.append(("with labels", shares, colors.second, "diamond-open"))
    names = names[: len(parts)] if len(shown) == 1 else names
    for label, values, color, symbol in parts:
        figure.add_scatter(
            x=[value.estimate for value in values], y=[label] if len(shown) == 1 else names, mode="markers", name=label,
            marker={"color": color, "size": 12, "symbol": symbol, "line": {"color": color, "width": 2}},
            error_x=_error(values, color), hovertemplate=f"%{{y}}<br>{label} %{{x:.3g}} %<extra></extra>",
        )  # fmt: skip
    whose = f"share of {names_of(found, shown)}, %"
    figure.update_xaxes(title_text=whose, rangemode="tozero")
    return style.list_names(figure, names, colors).update_layout(showlegend=len(shown) > 1)


def names_of(found: Monitoring, shown: Sequence[int]) -> str:
    """Return whose shares an axis is about."""
    return plain(found.classes[shown[0]]) if len(shown) == 1 else "the classes"


def scores_figure(found: Monitoring, *, theme: str = "light") -> go.Figure:
    """Draw the shares of the bins of probabilities, then and now."""
    colors, scores = PALETTES[theme], found.scores
    assert scores is not None  # noqa: S101
    ends = [0.0, *scores.edges.tolist(), 1.0]
    # bins of one name would be drawn as one
    digits = next((d for d in range(2, 17) if len({show(end, d) for end in ends}) == len(ends)), 17)
    names = [f"{show(low, digits)} to {show(high, digits)}" for low, high in pairwise(ends)]
    figure = style.new_figure(theme, "The scores", height=360)
    for label, shares, color in (("in training", scores.then, colors.quiet), ("now", scores.now, colors.first)):
        figure.add_bar(
            x=names, y=100 * np.asarray(shares), name=label, marker_color=color,
            hovertemplate=f"%{{x}}<br>{label} %{{y:.3g}} %<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(type="category", title_text="probability")
    figure.update_yaxes(title_text="share of the rows, %", rangemode="tozero")
    return figure.update_layout(barmode="group", bargap=0.25, showlegend=True)
