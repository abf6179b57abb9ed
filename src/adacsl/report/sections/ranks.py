"""Average ranks of the methods over many data sets."""

from __future__ import annotations

from dataclasses import dataclass

from adacsl.base.extras import requires
from adacsl.report import style
from adacsl.report.content import Card, Section, Table, section
from adacsl.report.formatting import show
from adacsl.report.style import PALETTES, plain
from adacsl.report.tables import records, rows_with

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


@dataclass(frozen=True)
class AverageRanks:
    """Average ranks (method, rank, critical_difference), and the recommendation over all data sets."""

    table: pd.DataFrame | None
    text: str = ""


def ranks_section(ranks: AverageRanks) -> Section | None:
    """Return average ranks over many data sets."""
    if ranks.table is None or ranks.table.empty:
        return None
    rows = ranks.table.sort_values("rank", kind="stable")
    first = rows.iloc[0]
    gap = show(critical_difference(rows))
    body = [[str(row.method), show(row.rank)] for row in records(rows)]
    card = Card(
        "ranks-card",
        guide="Shaded: no significant difference from the first (Nemenyi's critical difference).",
        result=ranks.text,
        alt=f"Average ranks, from {show(first['rank'])} ({first['method']}); critical difference {gap}.",
        figure=rank_figure(rows),
        tables=[Table("Average ranks", ["method", "rank"], body)],
    )
    return section("ranks", "All data sets: average ranks", [card])


def critical_difference(ranks: pd.DataFrame) -> float | None:
    """Return the critical difference that came with average ranks: in a column, or in ``attrs``."""
    known = rows_with(ranks, "critical_difference")
    found = ranks.attrs.get("critical_difference") if known.empty else known["critical_difference"].iloc[0]
    return None if found is None else float(found)


def rank_figure(ranks: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw average ranks; shaded is the critical difference from the first."""
    colors = PALETTES[theme]
    rows = ranks.sort_values("rank", kind="stable")
    names = [plain(name) for name in rows["method"]]
    figure = style.new_figure(theme, "Average rank over all data sets", height=96 + 30 * len(rows))
    gap = critical_difference(ranks)
    if gap is not None and len(rows):
        first = float(rows["rank"].iloc[0])
        figure.add_vrect(x0=first, x1=first + gap, fillcolor=colors.grid, line_width=0, layer="below", opacity=0.7)
        figure.add_annotation(
            text=f"no significant difference from the first: within {gap:.2f}", x=first, xanchor="left", y=1,
            yref="paper", yanchor="bottom", showarrow=False, font={"size": 12, "color": colors.muted},
        )  # fmt: skip
    near = rows["rank"] <= (rows["rank"].min() + (gap or 0.0))
    figure.add_scatter(
        x=rows["rank"], y=names, mode="markers", showlegend=False,
        marker={"size": 11, "color": [colors.first if one else colors.muted for one in near],
                "symbol": ["circle" if one else "circle-open" for one in near], "line": {"width": 1.6}},
        hovertemplate="%{y}<br>average rank %{x:.2f}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text="average rank (1 = lowest cost on every data set)")
    return style.list_names(figure, names, colors)
