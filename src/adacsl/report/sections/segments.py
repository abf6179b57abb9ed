"""Report sections on segments, columns and permutation importance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.metrics.intervals import Interval
from adacsl.report import style
from adacsl.report.apportionment import THOUSAND, money_texts
from adacsl.report.card import Card, card
from adacsl.report.data import ReportData
from adacsl.report.figures import permutation_figure
from adacsl.report.formatting import DASH, show, show_column, show_percent
from adacsl.report.sections.constraints import unbroken
from adacsl.report.style import PALETTES, plain
from adacsl.report.tables import Table, records, worth_table

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


OPEN = 12
"""A table of more columns than these is folded."""


# segments


def segment_cards(data: ReportData, view: Any, key: str) -> list[list[Card | None]]:
    """Return costs and errors by segment, two rows of cards for each column."""
    found: list[list[Card | None]] = []
    for number, rows in enumerate(segment_parts(data, view)):
        numbers = Card(f"{key}-by-{number}", tables=segment_tables(data, rows))
        pictures = _cost_card(data, rows, f"{key}-segment-{number}"), _rates_card(data, rows, f"{key}-rates-{number}")
        found += [[*pictures], [numbers]]
    return found


def segment_parts(data: ReportData, view: Any) -> list[pd.DataFrame]:
    """Return the segments of each column."""
    table = data.segments.get(view)
    if table is None:
        return []
    return [table[table["column"] == column] for column in dict.fromkeys(table["column"])]


def _cost_card(data: ReportData, rows: pd.DataFrame, key: str) -> Card:
    column = str(rows["column"].iloc[0])
    alt = f"Mean cost per case of {len(rows)} segments of {column}, with intervals. The table below has all numbers."
    figure, say = segment_figure(rows, unit=data.unit), segment_words(data, rows)
    return Card(key, title=f"Cost by {column}", alt=alt, figure=figure, say=say)


def segment_words(data: ReportData, rows: pd.DataFrame) -> str:
    """Say which segments are told apart from all others."""
    column = rows["column"].iloc[0]
    told = rows[rows["standing"] == "told apart"].sort_values("difference", ascending=False)
    if told.empty:
        return f"By “{column}”, no segment is told apart from all others: what differs may be chance."
    said = []
    for row in records(told.head(1) if len(rows) == 2 else told.head(3)):
        word, low, high = ("more", row.difference_low, row.difference_high)
        if row.difference < 0:
            word, low, high = ("less", -row.difference_high, -row.difference_low)
        amount = _amount(data, Interval(abs(row.difference), low, high), 1.0)
        said.append(f"a case of “{row.segment}” costs {amount} {word} than one of all others")
    return unbroken(f"By “{column}”, {'; '.join(said)}.")


def _amount(data: ReportData, each: Interval, people: float) -> str:
    """Return an amount of money with its unit and interval."""
    text, between = money_texts({"": each}, people)[""]
    return f"{f'{text} {data.unit}'.strip()} ({between})"


def segment_tables(data: ReportData, rows: pd.DataFrame) -> list[Table]:
    """Return the costs of the segments of a column, and their errors."""
    column = str(rows["column"].iloc[0])
    counts = {"rows": [f"{n:,}" for n in rows["rows"]]}
    costs = counts | _spans(rows, "cost", f"cost, {data.unit}" if data.unit else "cost")
    costs |= _spans(rows, "difference", "than all others")
    if "saved" in rows:
        costs |= _spans(rows, "saved", "saved against the baseline")
    shares = {head: [show_percent(share) for share in rows[name]] for name, head in _shares(data, rows).items()}
    told = dict.fromkeys(rows.loc[rows["standing"] == "told apart", "segment"], "told apart")
    return [
        Table(caption, [column, *columns], _lines(rows, columns), badges=badges)
        for caption, columns, badges in (
            (f"Costs by {column}, per case (95 % interval)", costs, told),
            (f"Decisions and errors by {column}", counts | shares, {}),
        )
    ]


def _lines(rows: pd.DataFrame, columns: Mapping[str, list[str]]) -> list[list[str]]:
    return [list(line) for line in zip(rows["segment"], *columns.values(), strict=True)]


def _shares(data: ReportData, rows: pd.DataFrame) -> dict[str, str]:
    if "wrong" in rows:
        return {"wrong": "decided wrongly"}
    positive = data.classes[1]
    called = {"positive": f"are “{positive}”", "decided": f"called “{positive}”"}
    return called | {"misses": f"“{positive}” missed", "alarms": f"“{data.classes[0]}” called “{positive}”"}


def _spans(rows: pd.DataFrame, name: str, head: str) -> dict[str, list[str]]:
    ends = (name, *(("low", "high") if name == "cost" else (f"{name}_low", f"{name}_high")))
    texts = show_column([value for end in ends for value in rows[end]])
    middle, low, high = (texts[len(rows) * k : len(rows) * (k + 1)] for k in range(3))
    return {head: [a if b == DASH else f"{a} ({b} to {c})" for a, b, c in zip(middle, low, high, strict=True)]}


def _rates_card(data: ReportData, rows: pd.DataFrame, key: str) -> Card:
    shares = _shares(data, rows)
    names = {name: head for name, head in shares.items() if name in ("wrong", "misses", "alarms")}
    alt = f"Shares of errors by {rows['column'].iloc[0]}: {', '.join(names.values())}. The table has all numbers."
    say = " ".join(_rates_words(rows, names))
    title = f"Errors by {rows['column'].iloc[0]}"
    return Card(key, title=title, alt=alt, figure=rates_figure(rows, names), say=unbroken(say))


def _rates_words(rows: pd.DataFrame, names: dict[str, str]) -> Iterator[str]:
    for name, label in names.items():
        known = rows[rows[name].notna()].sort_values(name, kind="stable")
        if len(known) > 1:
            low, high = known.iloc[0], known.iloc[-1]
            ends = f"from {show_percent(low[name])} in “{low['segment']}” to {show_percent(high[name])}"
            yield f"{label[0].upper()}{label[1:]}: {ends} in “{high['segment']}”."


# the data


def overview_card(data: ReportData, name: str, key: str) -> Card | None:
    """Return what the data look like: classes, what is at stake, and all columns."""
    frame = data.overview.get(name)
    if frame is None:
        return None
    about = frame.attrs
    more = about["n_columns"] - len(frame)
    rows = [
        [r.column, r.kind, show_percent(r.missing / about["rows"]), f"{r.distinct:,}", r.values] for r in records(frame)
    ]
    caption = f"{about['n_columns']:,} columns{f', the first {len(frame)} of them' if more else ''}"
    table = Table(caption, ["column", "kind", "missing", "different values", "values"], rows, text=(1, 4))
    place = "tables" if len(rows) <= OPEN else "folded"
    alt = "Share of each class of the rows, and of what is at stake in them."
    figure, shown = stakes_figure(about["classes"]), {place: [table] if rows else []}
    return card(key, "overview", say=unbroken(overview_words(data, about)), alt=alt, figure=figure, **shown)


def overview_words(data: ReportData, about: Any) -> str:
    """Say how many rows there are, of which classes, and what decisions about them cost."""
    classes, rows = about["classes"], about["rows"]
    total = sum(one["at_stake"] for one in classes)
    rarest = min(classes, key=lambda one: one["rows"])
    said = (
        f"{rows:,} {data.people}, {rarest['rows']:,} of them ({show_percent(rarest['rows'] / rows)}) “{rarest['name']}”"
    )
    if total > 0:
        said += f", with {show_percent(rarest['at_stake'] / total)} of the money that is at stake"
    return f"{said}. {about['costs']}.".replace("..", ".").replace(". .", ".")


# what columns are worth


def driver_card(data: ReportData, view: Any, key: str) -> Card | None:
    """Return what each column is worth, where that was measured."""
    worth = data.explained.get(view)
    if worth is None:
        return None
    rows = worth.sort_values("cost", ascending=False, kind="stable")
    first = rows.iloc[0]
    alt = (
        f"How much dearer a case gets when a column is shuffled, for {len(rows)} columns; most for {first['column']}, "
        f"{show(first['cost'])}. The table below has all numbers."
    )
    figure = permutation_figure(rows, unit=data.unit)
    return card(key, "worth", say=driver_words(data, rows), alt=alt, figure=figure, folded=[worth_table(data, rows)])


def driver_words(data: ReportData, rows: pd.DataFrame) -> str:
    """Say in money what the dearest columns are worth, per 1,000 or per year."""
    sure = rows[rows["low"] > 0].head(3)
    count = THOUSAND if data.volume is None else data.volume
    per = f"per 1,000 {data.people}" if data.volume is None else "a year"
    if sure.empty:
        return "No single column is clearly worth something: others stand in for it, or rows are too few to tell."
    said = [f"“{row.column}” {_amount(data, Interval(row.cost, row.low, row.high), count)}" for row in records(sure)]
    return unbroken(f"What columns are worth {per}: {', '.join(said)}.")
