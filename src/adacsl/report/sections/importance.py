"""Permutation importance in cost: what shuffling each column adds to the mean cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from adacsl.base.extras import requires
from adacsl.metrics.intervals import Interval
from adacsl.report import style
from adacsl.report.apportionment import money_texts
from adacsl.report.content import Card, Section, Table, section
from adacsl.report.data import Terms
from adacsl.report.formatting import show, show_percent, unbroken
from adacsl.report.style import PALETTES, plain
from adacsl.report.tables import intervals_of, records, table_of

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


SHOWN = 15
"""So many columns are drawn."""


@dataclass(frozen=True)
class Importance:
    """Permutation importance: column, cost, low, high, perhaps share; and words and units."""

    table: pd.DataFrame | None
    terms: Terms = field(default_factory=Terms)


def importance_section(given: Importance) -> Section | None:
    """Return permutation importance in cost, where it was measured."""
    if given.table is None:
        return None
    rows = given.table.sort_values("cost", ascending=False, kind="stable")
    first = rows.iloc[0]
    card = Card(
        "worth",
        guide=(
            "Increase of the mean cost when the values of a column are shuffled among the samples and the fitted model "
            "stays; lines are 95 % intervals. Columns with the same information stand in for each other: shuffled "
            "alone, each seems less important than it is."
        ),
        result=importance_words(rows, given.terms),
        alt=(
            f"Increase of the mean cost when a column is shuffled, for {len(rows)} columns; most for "
            f"{first['column']}, {show(first['cost'])}. The table has all numbers."
        ),
        figure=permutation_figure(rows, unit=given.terms.unit),
        folded=[importance_table(rows, given.terms)],
    )
    return section("columns", "Permutation importance, in cost", [card])


def importance_words(rows: pd.DataFrame, terms: Terms) -> str:
    """Return the importance of the first columns in a sentence, per sample or per year."""
    sure = rows[rows["low"] > 0].head(3)
    if sure.empty:
        return "No single column has an importance clearly above 0: others stand in for it, or samples are too few."
    named = []
    for row in records(sure):
        text, between = money_texts({"": Interval(row.cost, row.low, row.high)}, terms.volume or 1)[""]
        named.append(f"“{row.column}” {terms.amount(text)} ({between})")
    return unbroken(f"Most important, {'per sample' if terms.volume is None else 'a year'}: {', '.join(named)}.")


def importance_table(rows: pd.DataFrame, terms: Terms) -> Table:
    """Return the importance of each column, largest first."""
    columns = {
        "column": rows["column"].astype(str).tolist(),
        f"{terms.head('increase per sample')} (95 % interval)": intervals_of(rows, "cost", "low", "high"),
    }
    if "share" in rows.columns:
        columns["of the model's saving"] = [show_percent(share) for share in rows["share"]]
    return table_of("Increase of the mean cost when a column is shuffled", columns)


def permutation_figure(worth: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the result of ``permutation_cost``, the largest on top; those after the first 15 are summed up."""
    colors = PALETTES[theme]
    worth = worth.sort_values("cost", ascending=False, kind="stable")
    rows, rest = worth[:SHOWN], worth["cost"][SHOWN:]
    figure = style.new_figure(theme, "Permutation importance, in cost", height=120 + 26 * len(rows))
    sure = rows["low"] > 0
    looks = {"above 0": (sure, colors.first), "no significant difference from 0": (~sure, colors.quiet)}
    for label, (which, color) in looks.items():
        look = {"name": label, "orientation": "h", "width": 0.62, "marker_color": color}
        y = [plain(name) for name in rows["column"][which]]
        figure.add_bar(x=rows["cost"][which], y=y, **look, **style.interval_bars(rows[which], colors.ink))
    caption = f"<br>the other {len(rest)} in all: {rest.sum():.4g}" if len(rest) else ""
    figure.update_xaxes(title_text=style.axis_title("increase of the mean cost per sample", unit) + caption)
    figure.update_layout(barmode="overlay", showlegend=True)
    return style.list_names(figure, [plain(name) for name in rows["column"]], colors)
