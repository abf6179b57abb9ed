"""Report sections for K classes: confusion matrix in cost, costs by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adacsl.base.extras import requires
from adacsl.report import figures as draw
from adacsl.report import frames, style, tables
from adacsl.report.apportionment import whole_confusion
from adacsl.report.card import Card, arranged, card
from adacsl.report.data import Outcome, ReportData
from adacsl.report.formatting import DASH, show, show_column, show_count, show_percent, with_unit
from adacsl.report.sections import constraints
from adacsl.report.sections.about import about_sections
from adacsl.report.sections.costs import cost_card, highlighted, history_card, optimism_card
from adacsl.report.sections.money import money_sections
from adacsl.report.sections.segments import driver_card, segment_cards
from adacsl.report.style import COLORED, PALETTES, plain
from adacsl.report.tables import Table, records

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


DEAREST = 10
"""So many kinds of error are listed."""
SIZES = ((5, "few", 99), (10, "some", 6), (20, "many", 4), (10**9, "most", 2))
"""Up to so many classes a cell of the confusion matrix has that much room, and so many letters stand above it; where a
name is longer, classes are numbered."""


class Heat(NamedTuple):
    """A confusion matrix as a picture.

    ``columns`` are heads, and names; a row has its head, its name and its cells; a cell its class ("right" or
    "wrong"), its decided and its actual class, money, cases, share of all costs, how dark it is (0 to 1), and all of it
    in words.
    """

    caption: str
    size: str
    columns: list[tuple[str, str]]
    rows: list[tuple[str, str, list[tuple[str, int, int, str, str, str, float, str]]]]


def parts(data: ReportData, view: Any, key: str) -> list[dict[str, Any]]:
    """Return all sections of a view, as :func:`adacsl.report.sections.costs.parts` does for two classes."""
    epochs = frames.epoch_table(data.histories_of(view))
    sections: dict[str, list[list[Card | None]]] = {
        **money_sections(data, view, key),
        "costs": [[cost_card(data, view, key)]],
        "columns": [[driver_card(data, view, key)]],
        "segments": segment_cards(data, view, key),
        "class-ways": [constraints.way_cards(data, view, key)],
        "errors": _error_rows(data, view, key),
        "training": [
            [_lambda_card(data, view, key), history_card(data, view, key, epochs)],
            [optimism_card(data, view, key)],
        ],
        "class-probabilities": [_probability_cards(data, view, key)],
        **about_sections(data, view, key),
    }
    return arranged(sections, key)


def _error_rows(data: ReportData, view: Any, key: str) -> list[list[Card | None]]:
    outcomes = data.outcomes_of(view)
    if not outcomes:
        return []
    name = data.recommended_of(view)
    name = name if name in outcomes else next(iter(outcomes))
    outcome, cells = outcomes[name], frames.confusion_cells(outcomes[name])
    heat = Card(
        f"{key}-heat",
        title=f"Errors of {name}, in money",
        guide=(
            f"{outcome.cases} Orange: errors; the stronger the colour, the more they cost in total. Green: right "
            "decisions; the stronger, the larger the share of the class that was found."
        ),
        heat=heat_map(data, outcome, cells),
        tables=[_dearest_table(data, outcome, cells)],
    )
    by_method = frames.costs_by_method(outcomes)
    by_method.index = pd.Index(outcome.class_names)
    folded = tables.wide_table("Cost per case of each class, by method", "really", by_method)
    classes = card(key, "classes", tables=[_class_table(data, outcome, name)], folded=[folded])
    return [[heat], [classes]]


def heat_map(data: ReportData, outcome: Outcome, cells: pd.DataFrame) -> Heat:
    """Return the confusion matrix of a method as a picture."""
    names, k = outcome.class_names, outcome.n_classes
    size, letters = next((word, letters) for most, word, letters in SIZES if k <= most)
    numbered = max(map(len, names)) > letters
    wrong = cells[cells["actual"] != cells["decided"]]
    dearest = float(wrong["total_cost"].max()) or 1.0
    found, people = frames.class_costs(outcome)["found"].fillna(0.0), whole_confusion(outcome)
    heads = [str(j + 1) if numbered else "" for j in range(k)]
    rows: list[tuple[str, str, list[Any]]] = [(head, name, []) for head, name in zip(heads, names, strict=True)]
    for cell in records(cells):
        right = cell.actual == cell.decided
        # the root, as a few dear errors would leave all others white
        dark = found[cell.actual] if right else max(cell.total_cost / dearest, 0.0) ** 0.5
        money = with_unit(cell.total_cost, data.unit)
        count = tables.show_whole(int(people[cell.actual, cell.decided]), cell.count)
        share = show_percent(cell.share)
        words = (
            f"really {names[cell.actual]}, decided {names[cell.decided]}: {count} cases, cost {money}, "
            f"{share} of all; {show(cell.price)} each"
        )
        money, share = ("", "") if right and cell.total_cost == 0 else (money, share)
        kind = "right" if right else "wrong"
        rows[cell.actual][2].append((kind, cell.decided, cell.actual, money, count, share, round(dark, 3), words))
    columns = [(head or name, name) for head, name in zip(heads, names, strict=True)]
    return Heat("Cases (and cost) of each true class, by what was decided", size, columns, rows)


def _dearest_table(data: ReportData, outcome: Outcome, cells: pd.DataFrame) -> Table:
    names = outcome.class_names
    wrong = cells[(cells["actual"] != cells["decided"]) & (cells["total_cost"] > 0)]
    rows = wrong.sort_values("total_cost", ascending=False, kind="stable")[:DEAREST]
    body = [
        [
            names[r.actual], names[r.decided], show(r.total_cost), show_percent(r.share), show_count(r.count),
            show(r.price),
        ]
        for r in records(rows)
    ]  # fmt: skip
    unit = f", {data.unit}" if data.unit else ""
    heads = ["really", "decided", f"in total{unit}", "of all costs", "cases", f"each costs{unit}"]
    left_out = len(wrong) - len(rows)
    more = f" (of {len(wrong)} that occurred)" if left_out else ""
    return Table(f"The dearest kinds of error{more}", heads, body, text=(1,))


def _class_table(data: ReportData, outcome: Outcome, name: str) -> Table:
    names = outcome.class_names
    found = frames.class_costs(outcome).sort_values("total_cost", ascending=False, kind="stable")
    each = show_column(found["cost"])
    body = [
        [
            names[r.__dict__["class"]], show_count(r.n), show_percent(r.found), show_count(r.called), cost,
            show(r.total_cost), show_percent(r.share), names[r.worst] if r.worst >= 0 else DASH,
        ]
        for r, cost in zip(records(found), each, strict=True)
    ]  # fmt: skip
    unit = f", {data.unit}" if data.unit else ""
    heads = ["class", "cases", "found", "called so", f"cost per case{unit}", "in total", "of all costs", "dearest as"]
    return Table(f"What each class costs, {name}", heads, body, text=(7,))


def _lambda_card(data: ReportData, view: Any, key: str) -> Card | None:
    outcomes, histories = data.outcomes_of(view), data.histories_of(view)
    found = {name: frames.class_lambdas(histories, outcome.class_names, name) for name, outcome in outcomes.items()}
    name, lambdas = next(((name, frame) for name, frame in found.items() if len(frame)), ("", None))
    if lambdas is None:
        return None
    wide = lambdas.pivot_table(index="epoch", columns="class", values="lambda", sort=False).sort_index()
    last = wide.iloc[[-1]].T.set_axis(["lambda"], axis=1)
    table = tables.wide_table(f"Lambda of each class in the last epoch, {name}", "class", last)
    alt = f"Lambda of each class by epoch for {name}."
    return card(key, "class-lambda", alt=alt, figure=class_lambda_figure(lambdas), folded=[table])


def _probability_cards(data: ReportData, view: Any, key: str) -> list[Card | None]:
    names, outcomes = highlighted(data, view, scores=True), data.outcomes_of(view)
    if not names:
        return []
    found = frames.calibration_table({name: outcomes[name] for name in names})
    figure = draw.calibration_figure(found, highlight=names)
    figure.update_xaxes(title_text="mean probability of the likeliest class")
    figure.update_yaxes(title_text="share in which it was true")
    table = tables.calibration_table(found)
    table = table._replace(headers=["method", "mean probability", "share that was true", *table.headers[3:]])
    alt = f"Share of right likeliest classes against their probability for {', '.join(names)}."
    return [card(key, "class-calibration", alt=alt, figure=figure, folded=[table])]
