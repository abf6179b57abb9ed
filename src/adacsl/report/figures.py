"""Plotly figures of the frames, in one quiet house style for light and dark surroundings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.report import style
from adacsl.report.data import TODAY
from adacsl.report.frames import rows_with
from adacsl.report.style import COLORED, PALETTES, Palette, plain

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go

SHOWN = 15
"""So many columns of a table are drawn."""


def cost_figure(
    summary: pd.DataFrame, *, recommended: str | None = None, unit: str = "", theme: str = "light"
) -> go.Figure:
    """Draw the mean cost of each method with its interval, cheapest on top."""
    colors = PALETTES[theme]
    rows = summary.sort_values("cost", kind="stable")
    kinds = np.where(rows["method"] == TODAY, TODAY, rows.get("standing", ""))
    kinds = np.where(rows["method"] == recommended, "recommended", kinds)
    looks = {
        "recommended": ("recommended", colors.first, "diamond", 13),
        "cheapest": ("cheapest", colors.third, "circle", 11),
        "not told apart": ("not told apart from the cheapest", colors.ink, "circle", 9),
        "probably worse": ("probably dearer", colors.ink, "circle-open", 9),
        TODAY: ("your current decisions", colors.second, "square", 10),
        "clearly worse": ("clearly dearer", colors.muted, "circle-open", 9),
        "": ("mean", colors.ink, "circle", 9),
    }
    title = f"Cost per case, {plain(unit)}" if unit else "Cost per case"
    figure = style.new_figure(theme, title, height=96 + 30 * len(rows))
    for kind, (label, color, symbol, size) in looks.items():
        part = rows[kinds == kind]
        if part.empty:
            continue
        figure.add_scatter(
            x=part["cost"], y=[plain(name) for name in part["method"]], mode="markers", name=label,
            marker={"color": color, "symbol": symbol, "size": size, "line": {"color": color, "width": 1.6}},
            **_interval(part, color),
        )  # fmt: skip
    figure.update_xaxes(title_text=style.axis_title("mean cost per case", unit), rangemode="tozero")
    _cut_far_ones(figure, rows, colors)
    return style.list_names(figure, [plain(name) for name in rows["method"]], colors)


def _interval(part: pd.DataFrame, color: str) -> dict[str, Any]:
    """Return how a cost shows its interval: as a line, and under the pointer."""
    return {
        "error_x": {"type": "data", "symmetric": False, "array": part["high"] - part["cost"],
                    "arrayminus": part["cost"] - part["low"], "color": color, "thickness": 1.6, "width": 0},
        "customdata": np.stack((part["low"], part["high"]), axis=1),
        "hovertemplate": "%{y}<br>%{x:.4g} (%{customdata[0]:.4g} to %{customdata[1]:.4g})<extra></extra>",
    }  # fmt: skip


def _cut_far_ones(figure: go.Figure, rows: pd.DataFrame, colors: Palette) -> None:
    """Let the axis end before methods many times as dear as most, and say at its end what they cost."""
    ends = rows["high"].where(rows["high"].notna(), rows["cost"])
    far = rows["cost"] > 3 * ends.median()
    if not far.any() or rows["cost"].min() < 0:
        return
    end = 1.25 * float(ends[~far].max())
    figure.update_xaxes(range=[0, end], rangemode="normal")
    look = {"xanchor": "right", "showarrow": False, "font": {"color": colors.muted}}
    for name, cost in zip(rows.loc[far, "method"], rows.loc[far, "cost"], strict=True):
        figure.add_annotation(text=f"{cost:.4g} \u2192", x=end, y=plain(name), **look)


def ratio_figure(
    ran: pd.DataFrame,
    redecided: pd.DataFrame | None = None,
    *,
    highlight: Sequence[str] | None = None,
    theme: str = "light",
) -> go.Figure:
    """Draw the normalised cost against the cost ratio: what ran as points, the same scores decided anew as lines."""
    figure = style.new_figure(theme, "Cost against cost ratio", height=420)
    redecided = ran.iloc[:0] if redecided is None else redecided
    both = pd.concat([frame[["method", "ratio", "normalized_cost"]] for frame in (ran, redecided)])
    if highlight is None:
        highlight = ran.groupby("method")["normalized_cost"].mean().sort_values().index[:COLORED].tolist()
    names = style.highlighted_first(both["method"], highlight)
    colors = style.colors_of(names, highlight, theme)
    ends = []
    for name in names:
        anew, points = (frame[frame["method"] == name].sort_values("ratio") for frame in (redecided, ran))
        line = anew if len(anew) else points
        if len(line) > 1 and name in highlight:
            figure.add_scatter(
                x=line["ratio"], y=line["normalized_cost"], mode="lines", name=plain(name),
                line={"color": colors[name], "width": 2.2},
                legendgroup=plain(name), hovertemplate=style.hover("ratio", "normalised cost"),
            )  # fmt: skip
        figure.add_scatter(
            x=points["ratio"], y=points["normalized_cost"], mode="markers", name=plain(name),
            legendgroup=plain(name),
            marker={"color": colors[name], "size": 8 if name in highlight else 5},
            showlegend=name in highlight and len(line) <= 1, hovertemplate=style.hover("ratio", "normalised cost"),
        )  # fmt: skip
        if name in highlight and len(line):
            ends.append((name, float(line["ratio"].iloc[-1]), float(line["normalized_cost"].iloc[-1]), colors[name]))
    top = style.top_of(both["normalized_cost"], least=1.05, most=1.6)
    figure.add_hline(y=1, line=style.dotted(theme))
    figure.add_annotation(
        text="best constant decision", x=0, xref="x domain", y=1, xanchor="left", yanchor="bottom", showarrow=False,
        font={"size": 12, "color": PALETTES[theme].muted},
    )  # fmt: skip
    few = both.empty or np.log10(both["ratio"].max() / both["ratio"].min()) < 2.5
    ticks = {"tickformat": "~g", "dtick": "D2" if few else None}
    figure.update_xaxes(type="log", title_text="false alarms that one miss is worth", **ticks)
    figure.update_yaxes(title_text="normalised cost", range=[0, top])
    return style.add_line_ends(figure, ends, (0.0, top))


def threshold_figure(curve: pd.DataFrame, points: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the cost of every threshold, with the chosen, the cheapest and the Bayes threshold marked."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Cost of every threshold", height=400)
    figure.add_scatter(
        x=[*curve["threshold"], 1.0], y=[*curve["cost"], curve["cost"].iloc[-1]], mode="lines", name="cost",
        line={"color": colors.muted, "width": 2, "shape": "hv"},
        hovertemplate="threshold %{x:.4f}<br>cost %{y:.4g}<extra></extra>",
    )  # fmt: skip
    looks = {
        "chosen": ("diamond", colors.first, "chosen"),
        "cheapest": ("circle", colors.third, "cheapest with hindsight"),
        "Bayes": ("line-ns-open", colors.fourth, "Bayes"),
    }
    for point, (symbol, color, label) in looks.items():
        row = points[points["point"] == point]
        figure.add_scatter(
            x=row["threshold"], y=row["cost"], mode="markers", name=label,
            marker={"symbol": symbol, "size": 13, "color": color, "line": {"color": color, "width": 2.5}},
            hovertemplate=f"{label}: threshold %{{x:.4f}}<br>cost %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    top = style.top_of(curve["cost"], least=0.0, most=float(points["cost"].min()) * 6 or 1.0)
    figure.update_xaxes(title_text="threshold", range=[-0.01, 1.01])
    figure.update_yaxes(title_text=style.axis_title("cost per case", unit), range=[0, top])
    return figure.update_layout(showlegend=True)


def lambda_figure(epochs: pd.DataFrame, *, highlight: Sequence[str] | None = None, theme: str = "light") -> go.Figure:
    """Draw T_actual and lambda by epoch (the paper's Figure 1a): means over splits and folds, with their range."""
    figure = style.new_figure(theme, "How the loss adapted itself", height=480, rows=2)
    known = rows_with(rows_with(epochs, "lambda"), "threshold")
    names = style.highlighted_first(known["method"], highlight or ())[:COLORED]
    colors = dict(zip(names, PALETTES[theme].lines, strict=False))
    for name in names:
        part = known[known["method"] == name].sort_values("epoch")
        for row, column in ((1, "threshold"), (2, "lambda")):
            style.add_band(figure, part, column, colors[name], row=row)
            figure.add_scatter(
                x=part["epoch"], y=part[column], mode="lines", name=plain(name), line={"color": colors[name]},
                legendgroup=plain(name), showlegend=row == 1, row=row, col=1,
                hovertemplate=style.hover("epoch", column),
            )  # fmt: skip
    figure.add_hline(y=0.5, row=1, col=1, line=style.dotted(theme))
    figure.add_hline(y=1.0, row=2, col=1, line=style.dotted(theme))
    figure.update_yaxes(title_text="cheapest threshold", range=[0, 1], row=1, col=1)
    # it is multiplied by a factor every epoch: equal factors, equal steps
    figure.update_yaxes(title_text="lambda", type="log", nticks=6, tickformat="~g", row=2, col=1)
    figure.update_xaxes(title_text="epoch", row=2, col=1)
    return figure.update_layout(showlegend=True)


def history_figure(
    epochs: pd.DataFrame, *, highlight: Sequence[str] | None = None, unit: str = "", theme: str = "light"
) -> go.Figure:
    """Draw training and validation cost by epoch (the paper's Figure 1b)."""
    figure = style.new_figure(theme, "Cost while training", height=400)
    names = style.highlighted_first(epochs["method"], highlight or ())
    names = [name for name in names if name in (highlight or ())][:COLORED] or names[:2]
    colors = dict(zip(names, PALETTES[theme].lines, strict=False))
    for name in names:
        part = epochs[epochs["method"] == name].sort_values("epoch")
        for column, label, dash in (("val_cost", "validation", "solid"), ("train_cost", "training", "dot")):
            if column not in part.columns or part[column].isna().all():
                continue
            if name == names[0]:  # several bands on top of each other say nothing
                style.add_band(figure, part, column, colors[name])
            figure.add_scatter(
                x=part["epoch"], y=part[column], mode="lines", name=f"{plain(name)}, {label}",
                line={"color": colors[name], "dash": dash, "width": 2.2},
                hovertemplate=style.hover("epoch", "cost"),
            )  # fmt: skip
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text=style.axis_title("cost per case", unit), rangemode="tozero")
    return figure.update_layout(showlegend=True)


def calibration_figure(
    table: pd.DataFrame, *, highlight: Sequence[str] | None = None, theme: str = "light"
) -> go.Figure:
    """Draw the share of positives against the mean score of bins: on the diagonal scores are probabilities."""
    figure = style.new_figure(theme, "Can the probabilities be trusted?", height=440)
    style.add_guide(figure, [0, 1], [0, 1], style.dotted(theme))
    _curves(figure, table, "mean_score", "positive_share", highlight, theme)
    figure.update_xaxes(title_text="mean score of a bin", range=[-0.02, 1.04])
    return figure.update_yaxes(title_text="share that was positive", range=[-0.02, 1.04])


def brier_figure(table: pd.DataFrame, *, highlight: Sequence[str] | None = None, theme: str = "light") -> go.Figure:
    """Draw the loss of trusting the scores over all cost ratios; the area under a line is its Brier score."""
    figure = style.new_figure(theme, "Loss over all cost ratios", height=420)
    _curves(figure, table, "proportion", "loss", highlight, theme)
    at = np.unique(table["proportion"].to_numpy(dtype=float))
    share = float(table["positive_share"].iloc[0]) if len(table) else 0.0
    # what the best constant decision would lose
    style.add_guide(figure, at, 2 * np.minimum(at * (1 - share), (1 - at) * share), style.dotted(theme))
    figure.update_xaxes(title_text="cost proportion: fp / (fp + fn)", range=[0, 1])
    return figure.update_yaxes(title_text="loss per case", range=[0, style.top_of(table["loss"], 0, 1)])


def decision_figure(table: pd.DataFrame, *, highlight: Sequence[str] | None = None, theme: str = "light") -> go.Figure:
    """Draw the net benefit of acting at each threshold, against acting on all and on none."""
    figure = style.new_figure(theme, "Net benefit", height=420)
    if len(table):
        one = table[table["method"] == table["method"].iloc[0]]  # acting on all is the same for every method
        dashed = {"color": PALETTES[theme].muted, "width": 1.2, "dash": "dash"}
        style.add_guide(figure, one["threshold"], one["treat_all"], dashed)
    figure.add_hline(y=0, line=style.dotted(theme))
    _curves(figure, table, "threshold", "net_benefit", highlight, theme)
    top = style.top_of(table["net_benefit"], 0.0, 1.0)
    figure.update_xaxes(title_text="threshold at which one would act", range=[0, 1])
    return figure.update_yaxes(title_text="net benefit per case", range=[-0.25 * top, top])


def permutation_figure(worth: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw what ``permutation_cost`` found, the dearest column on top; those after the first 15 are summed up."""
    colors = PALETTES[theme]
    worth = worth.sort_values("cost", ascending=False, kind="stable")
    rows, rest = worth[:SHOWN], worth["cost"][SHOWN:]
    figure = style.new_figure(theme, "What each column is worth", height=120 + 26 * len(rows))
    sure = rows["low"] > 0
    looks = {"clearly worth something": (sure, colors.first), "not told apart from nothing": (~sure, colors.quiet)}
    for label, (which, color) in looks.items():
        look = {"name": label, "orientation": "h", "width": 0.62, "marker_color": color}
        y = [plain(name) for name in rows["column"][which]]
        figure.add_bar(x=rows["cost"][which], y=y, **look, **_interval(rows[which], colors.ink))
    caption = f"<br>the other {len(rest)} in all: {rest.sum():.4g}" if len(rest) else ""
    figure.update_xaxes(title_text=style.axis_title("dearer per case when shuffled", unit) + caption)
    figure.update_layout(barmode="overlay", showlegend=True)
    return style.list_names(figure, [plain(name) for name in rows["column"]], colors)


def optimism_figure(table: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw validation cost and test cost of each method: how much the choice of epoch and threshold flattered."""
    colors = PALETTES[theme]
    names = [plain(name) for name in table["method"]]
    figure = style.new_figure(theme, "Promised and paid", height=110 + 28 * len(table))
    for name, low, high in zip(names, table["validation_cost"], table["cost"], strict=True):
        style.add_guide(figure, [low, high], [name, name], {"color": colors.quiet, "width": 2})
    for column, label, symbol, color in (
        ("validation_cost", "validation", "circle-open", colors.second),
        ("cost", "test", "circle", colors.first),
    ):
        figure.add_scatter(
            x=table[column], y=names, mode="markers", name=label,
            marker={"color": color, "size": 10, "symbol": symbol, "line": {"color": color, "width": 2}},
            hovertemplate=f"%{{y}}<br>{label} %{{x:.4g}}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text=style.axis_title("mean cost per case", unit), rangemode="tozero")
    return style.list_names(figure, names, colors)


def rank_figure(ranks: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw average ranks; methods inside the shaded critical difference are not told apart from the first."""
    colors = PALETTES[theme]
    rows = ranks.sort_values("rank", kind="stable")
    names = [plain(name) for name in rows["method"]]
    figure = style.new_figure(theme, "Average rank over all data", height=96 + 30 * len(rows))
    gap = critical_difference(ranks)
    if gap is not None and len(rows):
        first = float(rows["rank"].iloc[0])
        figure.add_vrect(x0=first, x1=first + gap, fillcolor=colors.grid, line_width=0, layer="below", opacity=0.7)
        figure.add_annotation(
            text=f"not told apart from the first: within {gap:.2f}", x=first, xanchor="left", y=1, yref="paper",
            yanchor="bottom", showarrow=False, font={"size": 12, "color": colors.muted},
        )  # fmt: skip
    told = rows["rank"] <= (rows["rank"].min() + (gap or 0.0))
    figure.add_scatter(
        x=rows["rank"], y=names, mode="markers", showlegend=False,
        marker={"size": 11, "color": [colors.first if near else colors.muted for near in told],
                "symbol": ["circle" if near else "circle-open" for near in told], "line": {"width": 1.6}},
        hovertemplate="%{y}<br>average rank %{x:.2f}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text="average rank (1 = cheapest on every data set)")
    return style.list_names(figure, names, colors)


def critical_difference(ranks: pd.DataFrame) -> float | None:
    """Return the critical difference that came with average ranks: in a column, or in ``attrs``."""
    known = rows_with(ranks, "critical_difference")
    found = ranks.attrs.get("critical_difference") if known.empty else known["critical_difference"].iloc[0]
    return None if found is None else float(found)


def _curves(
    figure: go.Figure, table: pd.DataFrame, x: str, y: str, highlight: Sequence[str] | None, theme: str
) -> go.Figure:
    names = style.highlighted_first(table["method"], highlight or ())
    highlight = names[:COLORED] if highlight is None else highlight
    colors = style.colors_of(names, highlight, theme)
    for name in reversed(names):
        part, big = table[table["method"] == name], name in highlight
        look: dict[str, Any] = {"mode": "lines", "line": {"color": colors[name], "width": 2.2 if big else 1}}
        cases = ""
        if "n" in part.columns:  # bins: larger points hold more cases
            look |= {"mode": "lines+markers" if big else "lines", "customdata": part["n"]}
            look |= {"marker": {"size": 5 + 11 * np.sqrt(part["n"] / part["n"].max()), "opacity": 0.85}}
            cases = "<br>%{customdata} cases"
        words = style.hover(x.replace("_", " "), y.replace("_", " "), cases)
        figure.add_scatter(x=part[x], y=part[y], name=plain(name), showlegend=big, hovertemplate=words, **look)
    return figure.update_layout(showlegend=True, legend_traceorder="reversed")
