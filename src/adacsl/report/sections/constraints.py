"""Report sections on cost ranges, reject option and capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.report import frames, style
from adacsl.report.card import Card, card
from adacsl.report.data import Outcome, Regret, ReportData
from adacsl.report.formatting import show, show_column, show_percent, with_unit
from adacsl.report.style import COLORED, PALETTES, plain
from adacsl.report.tables import Table, records, show_more

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


LISTED = 11
"""About so many points of a curve stand in a table."""


def regret_card(data: ReportData, view: Any, key: str) -> Card | None:
    """Return how much dearer than the cheapest each method is at other prices, where that was looked at."""
    found = data.regrets.get(view)
    if found is None:
        return None
    name = data.recommended_of(view)
    listed = ", ".join(rivals(found, name))
    alt = (
        f"How much dearer than the cheapest method {listed} are, from {show(found.low, 3)} to {show(found.high, 3)} "
        "false alarms that a miss is worth. The tables below have the worst of each, and the cheapest at each price."
    )
    figure = regret_figure(found, name, unit=data.unit)
    folded = [_worst_table(data, found, name), _cheapest_table(found)]
    return card(key, "regret", say=unbroken(found.words), alt=alt, figure=figure, folded=folded)


def _worst_table(data: ReportData, found: Regret, marked: str) -> Table:
    rows = [
        [r.method, show_more(r.percent), cost, show(r.at, 3), show_percent(r.cheapest), show_percent(r.undecided)]
        for r, cost in zip(records(found.table), show_column(found.table["regret"]), strict=True)
    ]
    unit = f", {data.unit}" if data.unit else ""
    heads = ["method", "at most dearer", f"per case{unit}", "at ratio", "cheapest in", "decisions that change"]
    return Table("The worst of each method within the range, least bad first", heads, rows, marked)


def _cheapest_table(found: Regret) -> Table:
    rows = [[f"{show(r.low, 3)} to {show(r.high, 3)}", r.method] for r in records(found.cheapest)]
    return Table("Which method costs least at which price", ["ratio", "method"], rows, text=(1,))


def way_cards(data: ReportData, view: Any, key: str) -> list[Card | None]:
    """Return what a limited number of checks and a person to refer to would mean, for the recommended method."""
    outcomes = data.outcomes_of(view)
    first = data.recommended_of(view)
    names = [name for name in dict.fromkeys((first, *outcomes)) if name in outcomes]
    name = next((name for name in names if np.ptp(outcomes[name].scores, axis=0).max() > 0), None)
    if name is None:
        return []
    outcome = outcomes[name]
    checks = _capacity_card(data, key, name, outcome) if outcome.n_classes == 2 else None
    return [checks, _referral_card(data, key, name, outcome)]


def _capacity_card(data: ReportData, key: str, name: str, outcome: Outcome) -> Card | None:
    table = frames.capacity_table(outcome)
    if len(table) < 3:
        return None
    figure = capacity_figure(table, unit=data.unit)
    alt = f"Cost per case of {name} against the share of cases that can be checked."
    columns = {"checked": [show_percent(share) for share in table["checked"]], "cost": show_column(table["cost"])}
    say = unbroken(_capacity_words(data, name, table))
    return card(key, "capacity", say=say, alt=alt, figure=figure, folded=[_listed(data, "Checks", columns)])


def _capacity_words(data: ReportData, name: str, table: pd.DataFrame) -> str:
    none, full = table.iloc[0], table.iloc[-1]
    half = table.iloc[(table["checked"] - full["checked"] / 2).abs().argmin()]
    start = f"By the probabilities of {name}, a check is worth it for {show_percent(full['checked'])} of the cases"
    if full["cost"] >= none["cost"]:
        return f"{start}; but they are off, and all these checks together save nothing."
    share = (none["cost"] - half["cost"]) / (none["cost"] - full["cost"])
    costs = f"a case costs {with_unit(full['cost'], data.unit, 3)}, and {show(none['cost'], 3)} without any check"
    few = f" Half as many, well chosen, save {show_percent(min(share, 1.0))} of that." if share > 0 else ""
    return f"{start}: with all of them {costs}.{few}"


def _referral_card(data: ReportData, key: str, name: str, outcome: Outcome) -> Card | None:
    table = frames.referral_table(outcome)
    even = frames.break_even(outcome, table)
    if not table["price"].iloc[-1] > 0:
        return None
    figure = referral_figure(table, even=even, unit=data.unit)
    alt = f"Cost per case of {name}, and the share of cases referred, against the price of a referral."
    columns = {"price of a referral": [show(price, 3) for price in table["price"]]}
    columns |= {"referred": [show_percent(share) for share in table["referred"]], "cost": show_column(table["cost"])}
    say = unbroken(_referral_words(data, name, outcome, table, even))
    return card(key, "referral", say=say, alt=alt, figure=figure, folded=[_listed(data, "Referrals", columns)])


def _referral_words(data: ReportData, name: str, outcome: Outcome, table: pd.DataFrame, even: float) -> str:
    alone = outcome.costs.mean(outcome.labels, outcome.decisions)
    if even <= 0:
        return f"Beside {name}, a person to ask would not be worth it at any price: its own decisions cost too little."
    highest = float(table["price"].iloc[-1])
    at = table.iloc[(table["price"] - min(even, highest) / 2).abs().argmin()]
    limit = f"up to about {with_unit(even, data.unit, 2)} a case"
    if even > highest:
        limit = f"even above {with_unit(highest, data.unit, 2)} a case, for a few dear ones"
    less = f" ({show_percent((alone - at['cost']) / alone)} less)" if alone > 0 else ""
    return (
        f"Beside {name}, a person who decides rightly is worth asking {limit}. "
        f"At {show(at['price'], 2)}, {show_percent(at['referred'])} of the cases would go to them, and a case "
        f"would cost {show(at['cost'], 3)} instead of {show(alone, 3)}{less}."
    )


def unbroken(text: str) -> str:
    """Return a text in which no line ends within a ratio or a percentage."""
    return text.replace(" : ", "\u00a0:\u00a0").replace(" %", "\u00a0%")


def _listed(data: ReportData, caption: str, columns: Mapping[str, Sequence[str]]) -> Table:
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    every = max(1, round(len(rows) / (LISTED - 1)))
    some = [*rows[:-1:every], rows[-1]]
    heads = [f"{head} per case, {data.unit}" if head == "cost" and data.unit else head for head in columns]
    return Table(f"{caption} and cost per case", heads, some)
