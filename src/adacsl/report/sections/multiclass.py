"""Errors of K classes: the confusion matrix in cost, and the cost of each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.report import style
from adacsl.report.apportionment import whole_confusion
from adacsl.report.content import Card, Heat, HeatCell, Section, Table, section
from adacsl.report.data import Outcome, Terms
from adacsl.report.formatting import DASH, show, show_column, show_count, show_percent, with_unit
from adacsl.report.sections.errors import Errors
from adacsl.report.style import PALETTES, plain
from adacsl.report.tables import records, show_whole, wide_table

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


LISTED = 10
"""So many kinds of error are listed."""

SIZES = ((5, "few", 99), (10, "some", 6), (20, "many", 4), (10**9, "most", 2))
"""Up to so many classes a cell of the confusion matrix has that much room, and so many letters stand above it; where a
name is longer, classes are numbered."""


def class_errors_section(errors: Errors) -> Section | None:
    """Return the confusion matrix in cost, and the cost of each class."""
    if not errors.outcomes:
        return None
    name, outcome = errors.shown
    cells = confusion_cells(outcome)
    heat = Card(
        "heat",
        title=f"Errors of {name}, by cost",
        guide=(
            f"{outcome.counted} Orange: errors, darker for a higher total cost. Green: correct predictions, darker for "
            "a larger share of the class (recall)."
        ),
        heat=heat_map(outcome, cells, errors.terms),
        tables=[_largest_table(outcome, cells, errors.terms)],
    )
    by_method = costs_by_method(errors.outcomes)
    by_method.index = pd.Index(outcome.class_names)
    classes = Card(
        "classes",
        title="Cost of each class",
        guide="“Most costly as”: the prediction that its most costly errors have.",
        tables=[_class_table(outcome, name, errors.terms)],
        folded=[wide_table("Mean cost of each class, by method", "actual", by_method)],
    )
    return section("errors", "Errors by class", [heat], [classes])


# numbers


def confusion_cells(outcome: Outcome) -> pd.DataFrame:
    """Return the confusion matrix in counts and costs, a row for each pair of classes; of one repeat.

    Columns: actual and decided (class numbers), count, mean_cost, total_cost, share (of all costs).
    """
    k = outcome.n_classes
    cell = outcome.decisions * k + outcome.labels
    count = np.bincount(cell, minlength=k * k).reshape(k, k)
    total = outcome.costs.confusion(outcome.labels, outcome.decisions)
    listed = outcome.costs.averaged().to_array()
    cost = np.where(count > 0, total / np.maximum(count, 1), listed)
    paid = float(total.sum())
    decided, actual = np.indices((k, k)).reshape(2, -1)
    columns = {"actual": actual, "decided": decided, "count": outcome.per_repeat(count.ravel())}
    columns |= {"mean_cost": cost.ravel(), "total_cost": outcome.per_repeat(total.ravel())}
    columns["share"] = total.ravel() / paid if paid else np.zeros(k * k)
    return pd.DataFrame(columns).sort_values(["actual", "decided"], ignore_index=True)


def class_costs(outcome: Outcome) -> pd.DataFrame:
    """Return the cost of each class, a row for each actual class; counts and totals are of one repeat.

    Columns: class (its number), n, called (samples predicted as it), found (recall), cost (per sample of it),
    total_cost, share (of all costs), worst (the prediction of its most costly errors, -1 where there are none),
    worst_cost.
    """
    k = outcome.n_classes
    table = outcome.costs.reduced().confusion(outcome.labels, outcome.decisions)
    np.fill_diagonal(table, 0.0)
    total = outcome.costs.confusion(outcome.labels, outcome.decisions).sum(axis=0)
    n = np.bincount(outcome.labels, minlength=k)
    right = np.bincount(outcome.labels[outcome.labels == outcome.decisions], minlength=k)
    paid = float(total.sum())
    return pd.DataFrame(
        {
            "class": np.arange(k),
            "n": outcome.per_repeat(n),
            "called": outcome.per_repeat(np.bincount(outcome.decisions, minlength=k)),
            "found": _over(right, n),
            "cost": _over(total, n),
            "total_cost": outcome.per_repeat(total),
            "share": total / paid if paid else np.zeros(k),
            "worst": np.where(table.max(axis=0) > 0, table.argmax(axis=0), -1),
            "worst_cost": outcome.per_repeat(table.max(axis=0)),
        }
    )


def costs_by_method(outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
    """Return the mean cost of each actual class, a row for each class and a column for each method."""
    return pd.DataFrame({name: class_costs(outcome)["cost"] for name, outcome in outcomes.items()})


def _over(amount: NDArray[Any], n: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.divide(amount, n, out=np.full(len(n), np.nan), where=n > 0))


# what is shown


def heat_map(outcome: Outcome, cells: pd.DataFrame, terms: Terms) -> Heat:
    """Return the confusion matrix of a method as a heat map."""
    names, k = outcome.class_names, outcome.n_classes
    size, letters = next((word, letters) for most, word, letters in SIZES if k <= most)
    numbered = max(map(len, names)) > letters
    wrong = cells[cells["actual"] != cells["decided"]]
    largest = float(wrong["total_cost"].max()) or 1.0
    recall, people = class_costs(outcome)["found"].fillna(0.0), whole_confusion(outcome)
    heads = [str(j + 1) if numbered else "" for j in range(k)]
    rows: list[tuple[str, str, list[HeatCell]]] = [(head, name, []) for head, name in zip(heads, names, strict=True)]
    for cell in records(cells):
        right = cell.actual == cell.decided
        # the root, as a few costly errors would leave all others white
        shade = recall[cell.actual] if right else max(cell.total_cost / largest, 0.0) ** 0.5
        money = with_unit(cell.total_cost, terms.unit)
        count = show_whole(int(people[cell.actual, cell.decided]), cell.count)
        share = show_percent(cell.share)
        words = (
            f"actual {names[cell.actual]}, predicted {names[cell.decided]}: {count} samples, cost {money}, "
            f"{share} of all; {show(cell.mean_cost)} each"
        )
        money, share = ("", "") if right and cell.total_cost == 0 else (money, share)
        kind = "right" if right else "wrong"
        rows[cell.actual][2].append(
            HeatCell(kind, cell.decided, cell.actual, money, count, share, round(shade, 3), words)
        )
    columns = [(head or name, name) for head, name in zip(heads, names, strict=True)]
    return Heat("Samples (and cost) of each actual class, by predicted class", size, columns, rows)


def _largest_table(outcome: Outcome, cells: pd.DataFrame, terms: Terms) -> Table:
    names = outcome.class_names
    wrong = cells[(cells["actual"] != cells["decided"]) & (cells["total_cost"] > 0)]
    rows = wrong.sort_values("total_cost", ascending=False, kind="stable")[:LISTED]
    body = [
        [
            names[r.actual], names[r.decided], show(r.total_cost), show_percent(r.share), show_count(r.count),
            show(r.mean_cost),
        ]
        for r in records(rows)
    ]  # fmt: skip
    heads = ["actual", "predicted", terms.head("total cost"), "of all costs", "samples", terms.head("cost of each")]
    more = f" (of {len(wrong)} that occurred)" if len(wrong) > len(rows) else ""
    return Table(f"Most costly kinds of error{more}", heads, body, text=(1,))


def _class_table(outcome: Outcome, name: str, terms: Terms) -> Table:
    names = outcome.class_names
    result = class_costs(outcome).sort_values("total_cost", ascending=False, kind="stable")
    each = show_column(result["cost"])
    body = [
        [
            names[r.__dict__["class"]], show_count(r.n), show_percent(r.found), show_count(r.called), cost,
            show(r.total_cost), show_percent(r.share), names[r.worst] if r.worst >= 0 else DASH,
        ]
        for r, cost in zip(records(result), each, strict=True)
    ]  # fmt: skip
    heads = ["class", "samples", "recall", "predicted", terms.head("mean cost"), "total cost", "of all costs"]
    return Table(f"Cost of each class, {name}", [*heads, "most costly as"], body, text=(7,))


def confusion_figure(
    cells: pd.DataFrame, names: Sequence[str], method: str = "", *, unit: str = "", theme: str = "light"
) -> go.Figure:
    """Draw the confusion matrix in cost: darker errors cost more in total; numbers are samples."""
    colors, k = PALETTES[theme], len(names)
    shown = [plain(name) for name in names]
    title = f"Errors of {plain(method)}, by cost" if method else "Errors by cost"
    figure = style.new_figure(theme, title, height=min(900, 160 + 34 * k))
    count, total, share = (
        cells.pivot_table(index="actual", columns="decided", values=column).to_numpy()
        for column in ("count", "total_cost", "share")
    )
    figure.add_heatmap(
        z=total, x=shown, y=shown, colorscale=[[0.0, colors.paper], [1.0, colors.second]], xgap=1, ygap=1,
        zmin=0.0, zmax=float(total.max()) or 1.0,
        colorbar={"title": {"text": style.axis_title("total cost", unit)}, "outlinewidth": 0, "thickness": 12},
        customdata=np.stack((count, 100 * share), axis=-1),
        text=[[show_count(each) if each else "" for each in row] for row in count],
        texttemplate="%{text}" if k <= 20 else "",
        hovertemplate="actual %{y}, predicted %{x}<br>%{customdata[0]:.1~f} samples, cost %{z:.4g} "
                      "(%{customdata[1]:.1f} %)<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text="predicted", type="category", showgrid=False)
    return figure.update_yaxes(title_text="actual", type="category", autorange="reversed", showgrid=False)
