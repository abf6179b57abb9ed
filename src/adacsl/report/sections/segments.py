"""Cost and errors of the recommended method by segment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from adacsl.base.extras import requires
from adacsl.metrics.intervals import Interval
from adacsl.report import style
from adacsl.report.apportionment import money_texts
from adacsl.report.content import Card, Section, Table, section
from adacsl.report.data import Terms
from adacsl.report.formatting import show_percent, unbroken
from adacsl.report.style import PALETTES, plain
from adacsl.report.tables import intervals_of, records, table_of

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


SIGNIFICANT = "significant difference"
"""The significance of a segment whose difference to all others is significant."""


@dataclass(frozen=True)
class Segments:
    """The table of ``Comparison.by_segment``, and words and units."""

    table: pd.DataFrame | None
    terms: Terms = field(default_factory=Terms)

    @property
    def by_column(self) -> list[pd.DataFrame]:
        """The segments of each column."""
        if self.table is None:
            return []
        return [self.table[self.table["column"] == column] for column in dict.fromkeys(self.table["column"])]


def segments_section(segments: Segments) -> Section | None:
    """Return costs and errors by segment, two rows of cards for each column."""
    terms = segments.terms
    rows = []
    for number, part in enumerate(segments.by_column):
        figures = [_cost_card(part, terms, f"segment-{number}"), _rates_card(part, terms, f"rates-{number}")]
        rows += [figures, [Card(f"by-{number}", tables=segment_tables(part, terms))]]
    guide = (
        "Lines are 95 % intervals, the dotted line is the mean of all. Significant: after correction for the number of "
        "segments (Holm). Segments may differ because their samples do, or because the method knows less about them."
    )
    return section("segments", "Segments", *rows, guide=guide)


def _cost_card(rows: pd.DataFrame, terms: Terms, key: str) -> Card:
    column = str(rows["column"].iloc[0])
    alt = f"Mean cost per sample of {len(rows)} segments of {column}, with intervals. The table has all numbers."
    figure, words = segment_figure(rows, unit=terms.unit), segment_words(rows, terms)
    return Card(key, title=f"Cost by {column}", alt=alt, figure=figure, result=words)


def _rates_card(rows: pd.DataFrame, terms: Terms, key: str) -> Card:
    names = {name: head for name, head in _shares(rows, terms).items() if name in ("wrong", "fnr", "fpr")}
    alt = f"Error rates by {rows['column'].iloc[0]}: {', '.join(names.values())}. The table has all numbers."
    title = f"Errors by {rows['column'].iloc[0]}"
    words = unbroken(" ".join(_rates_words(rows, names)))
    return Card(key, title=title, alt=alt, figure=rates_figure(rows, names), result=words)


def segment_words(rows: pd.DataFrame, terms: Terms) -> str:
    """Return the segments that differ significantly from all others, in a sentence."""
    column = rows["column"].iloc[0]
    result = rows[rows["significance"] == SIGNIFICANT].sort_values("difference", ascending=False)
    if result.empty:
        return f"By “{column}”, no segment differs significantly from all others."
    named = []
    for row in records(result.head(1) if len(rows) == 2 else result.head(3)):
        word, low, high = ("more", row.difference_low, row.difference_high)
        if row.difference < 0:
            word, low, high = ("less", -row.difference_high, -row.difference_low)
        text, between = money_texts({"": Interval(abs(row.difference), low, high)}, 1)[""]
        named.append(
            f"a sample of “{row.segment}” costs {terms.amount(text)} ({between}) {word} than one of all others"
        )
    return unbroken(f"By “{column}”, {'; '.join(named)}.")


def segment_tables(rows: pd.DataFrame, terms: Terms) -> list[Table]:
    """Return the costs of the segments of a column, and their errors."""
    column = str(rows["column"].iloc[0])
    counts = {"samples": [f"{n:,}" for n in rows["rows"]]}
    costs = counts | {terms.head("mean cost"): intervals_of(rows, "cost", "low", "high")}
    costs["than all others"] = intervals_of(rows, "difference", "difference_low", "difference_high")
    if "saved" in rows:
        costs["saved against the baseline"] = intervals_of(rows, "saved", "saved_low", "saved_high")
    shares = {head: [show_percent(share) for share in rows[name]] for name, head in _shares(rows, terms).items()}
    badges = dict.fromkeys(rows.loc[rows["significance"] == SIGNIFICANT, "segment"], "significant")
    return [
        _with_segments(f"Cost by {column}, per sample (95 % interval)", column, rows, costs)._replace(badges=badges),
        _with_segments(f"Predictions and errors by {column}", column, rows, counts | shares),
    ]


def _with_segments(caption: str, column: str, rows: pd.DataFrame, columns: dict[str, list[str]]) -> Table:
    table = table_of(caption, columns)  # the column may be called as one of them
    lines = [[segment, *line] for segment, line in zip(rows["segment"], table.rows, strict=True)]
    return table._replace(headers=[column, *table.headers], rows=lines)


def _shares(rows: pd.DataFrame, terms: Terms) -> dict[str, str]:
    if "wrong" in rows:
        return {"wrong": "error rate"}
    positive = terms.classes[1]
    return {
        "positive": f"“{positive}”",
        "decided": f"predicted “{positive}”",
        "fnr": "false negative rate",
        "fpr": "false positive rate",
    }


def _rates_words(rows: pd.DataFrame, names: dict[str, str]) -> Iterator[str]:
    for name, label in names.items():
        known = rows[rows[name].notna()].sort_values(name, kind="stable")
        if len(known) > 1:
            low, high = known.iloc[0], known.iloc[-1]
            ends = f"from {show_percent(low[name])} in “{low['segment']}” to {show_percent(high[name])}"
            yield f"{label[0].upper()}{label[1:]}: {ends} in “{high['segment']}”."


# figures


def segment_figure(rows: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the mean cost of each segment with its interval; a dotted line is the mean of all."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, f"Cost by {plain(rows['column'].iloc[0])}", height=130 + 32 * len(rows))
    sure = (rows["significance"] == SIGNIFICANT).to_numpy()
    more = (rows["difference"] > 0).to_numpy()
    looks = {
        "costs more than all others": (sure & more, colors.second, "circle"),
        "costs less than all others": (sure & ~more, colors.third, "circle"),
        "no significant difference": (~sure, colors.ink, "circle-open"),
    }
    figure.add_vline(x=float(np.average(rows["cost"], weights=rows["share"])), line=style.dotted(theme))
    for label, (which, color, symbol) in looks.items():
        if which.any():
            _points(figure, rows[which], ("cost", "low", "high"), label, color, symbol)
    figure.update_xaxes(title_text=style.axis_title("mean cost per sample", unit), rangemode="tozero")
    return style.list_names(figure, [plain(name) for name in rows["segment"]], colors)


def rates_figure(rows: pd.DataFrame, names: Mapping[str, str], *, theme: str = "light") -> go.Figure:
    """Draw error rates by segment, in percent; ``names`` are the columns and their labels."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, f"Errors by {plain(rows['column'].iloc[0])}", height=130 + 32 * len(rows))
    ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    shares = rows.assign(**{end: 100 * rows[end] for end in ends})
    for (column, label), color, symbol in zip(
        names.items(), (colors.second, colors.first), ("circle", "diamond"), strict=False
    ):
        known = shares[shares[column].notna()]
        _points(figure, known, (column, f"{column}_low", f"{column}_high"), label, color, symbol)
    figure.update_xaxes(title_text="error rate", ticksuffix=" %", rangemode="tozero")
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
        "<br>%{customdata[2]:,} samples<extra></extra>",
    )  # fmt: skip
