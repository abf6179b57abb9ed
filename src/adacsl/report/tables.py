"""Tables and confusion matrices of the page: frames as rows of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.report import frames
from adacsl.report.apportionment import whole_confusion
from adacsl.report.data import TODAY, Outcome, ReportData
from adacsl.report.formatting import DASH, show, show_column, show_count, show_percent, with_unit

with requires("compare"):
    import pandas as pd


EPOCHS_SHOWN = 20
"""About so many epochs of a training stand in a table; the picture has all of them."""


class Table(NamedTuple):
    """Rows of text under headers.

    ``text`` are the columns that hold words, ``marked`` the row that stands out, ``badges`` what stands beside names.
    """

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    marked: str | None = None
    text: Sequence[int] = ()
    badges: Mapping[str, str] = MappingProxyType({})


def cost_table(data: ReportData, rows: pd.DataFrame, marked: str) -> Table:
    """Return the cost of each method, cheapest first."""
    columns = {"method": rows["method"].astype(str).tolist()} | _with_interval(data, "cost", rows)
    if "percent" in rows.columns:
        columns["dearer than the cheapest"] = [show_more(value) for value in rows["percent"]]
    if {"percent_low", "percent_high"} <= set(rows.columns):
        ends = zip(rows["percent_low"], rows["percent_high"], strict=True)
        columns["95 % interval of that"] = [_show_span(low, high) for low, high in ends]
    for head, column, write in (
        ("against the cheapest", "standing", str),
        ("p", "p", _show_p),
        ("normalised", "normalized_cost", None),
        ("saved against a constant", "savings", show_percent),
        ("splits", "n", show),
    ):
        if column in rows.columns and (column != "n" or rows["n"].nunique() > 1):  # some have no result of some splits
            columns[head] = show_column(rows[column]) if write is None else [write(value) for value in rows[column]]
    words = [list(columns).index("against the cheapest")] if "standing" in rows.columns else []
    body = [list(row) for row in zip(*columns.values(), strict=True)]
    badges = {TODAY: "current decisions"} | ({marked: "recommended"} if len(rows) > 1 and marked else {})
    return Table("Cost of each method, cheapest first", list(columns), body, marked, words, badges)


def worth_table(data: ReportData, rows: pd.DataFrame) -> Table:
    """Return what each column is worth, dearest first."""
    columns = {"column": rows["column"].astype(str).tolist()} | _with_interval(data, "dearer per case", rows)
    if "share" in rows.columns:
        columns["of what the model saves"] = [show_percent(share) for share in rows["share"]]
    body = [list(row) for row in zip(*columns.values(), strict=True)]
    return Table("How much dearer a case gets when a column is shuffled", list(columns), body)


def _with_interval(data: ReportData, head: str, rows: pd.DataFrame) -> dict[str, list[str]]:
    texts = show_column([*rows["cost"], *rows["low"], *rows["high"]])
    cost, low, high = (texts[len(rows) * k : len(rows) * (k + 1)] for k in range(3))
    intervals = [f"{a} to {b}" if a != DASH else DASH for a, b in zip(low, high, strict=True)]
    return {f"{head}, {data.unit}" if data.unit else head: cost, "95 % interval": intervals}


def group_table(data: ReportData, name: str, table: pd.DataFrame) -> Table:
    """Return the cheapest threshold of groups of similar score."""
    rows = [
        [
            f"{row.low:.1f} to {row.high:.1f}", show_count(row.n), show_count(row.positives),
            f"{max(row.threshold, 0.0):.3f}", show(row.cheapest_cost), show(row.cost),
        ]
        for row in records(table)
    ]  # fmt: skip
    heads = ["score", "cases", data.classes[1], "cheapest threshold", "cost there", "cost as decided"]
    return Table(f"Groups of similar score, {name}", heads, rows)


def threshold_table(data: ReportData, outcomes: Mapping[str, Outcome], marked: str) -> Table:
    """Return what each method decided at, and what other thresholds would have cost."""
    rows: list[list[Any]] = []
    for name, outcome in outcomes.items():
        points = frames.threshold_points(outcome).set_index("point")
        best = points.loc["cheapest"]
        decided_at = "varies" if outcome.threshold is None else f"{outcome.threshold:.3f}"
        decided = outcome.costs.mean(outcome.labels, outcome.decisions)
        bayes = points.loc["Bayes", "cost"] if "Bayes" in points.index else float("nan")
        rows.append([name, decided_at, decided, f"{best['threshold']:.3f}", best["cost"], bayes])
    costs = iter(show_column([row[column] for row in rows for column in (2, 4, 5)]))
    rows = [[next(costs) if column in (2, 4, 5) else cell for column, cell in enumerate(row)] for row in rows]
    unit = f", {data.unit}" if data.unit else ""
    others = ("cheapest with hindsight", "cost there", "cost at the Bayes threshold")
    return Table("Thresholds and cost per case", ["method", "decided at", f"cost{unit}", *others], rows, marked)


def calibration_table(table: pd.DataFrame) -> Table:
    """Return mean score and share of positives of each bin."""
    found = records(table)
    rows = [[r.method, show(r.mean_score), show(r.positive_share), show_count(r.n), show(r.error)] for r in found]
    return Table("Calibration", ["method", "mean score", "share of positives", "cases", "calibration error"], rows)


def optimism_table(table: pd.DataFrame, marked: str) -> Table:
    """Return what validation promised and what the test cost."""
    found = records(table)
    rows = [[r.method, show(r.validation_cost), show(r.cost), show(r.gap), show_percent(r.gap_share)] for r in found]
    heads = ["method", "validation cost", "test cost", "difference", "of the test cost"]
    return Table("Validation cost and test cost", heads, rows, marked)


def curve_table(caption: str, head: str, table: pd.DataFrame, x: str, y: str) -> Table:
    """Return every twentieth of a curve over [0, 1], a column for each method."""
    every = table[np.isclose((table[x] * 20).round() / 20, table[x])]
    wide = every.pivot_table(index=x, columns="method", values=y, sort=False).sort_index()
    wide.index = pd.Index([f"{value:.2f}" for value in wide.index])
    return wide_table(caption, head, wide)


def epoch_table(caption: str, table: pd.DataFrame, columns: list[str]) -> Table:
    """Return some epochs of a training."""
    names = {"threshold": "cheapest threshold", "val_cost": "validation cost", "train_cost": "training cost"}
    known = [column for column in columns if column in table.columns]
    last = table["epoch"].max()
    some = table[(table["epoch"] % max(1, round(last / EPOCHS_SHOWN)) == 0) | (table["epoch"] == last)]
    rows = [[r["method"], show(r["epoch"]), *(show(r[c]) for c in known)] for r in some.to_dict("records")]
    return Table(caption, ["method", "epoch", *(names.get(c, c) for c in known)], rows)


def wide_table(caption: str, head: str, frame: pd.DataFrame, *, marked: str | None = None) -> Table:
    """Return a frame as it is, its index under ``head``."""
    rows = [[str(index), *map(show, row)] for index, row in zip(frame.index, frame.to_numpy(), strict=True)]
    return Table(caption, [head, *(show(c) if isinstance(c, float) else str(c) for c in frame.columns)], rows, marked)


def cost_matrix(data: ReportData, outcome: Outcome) -> Table:
    """Return a confusion matrix in money, and in whole people.

    A row has the name of its true class and its cells; a cell its outcome ("tp", ...), its money, its cases, and its
    share of the dearest cell.
    """
    table, people = frames.confusion_table(outcome), whole_confusion(outcome)
    dearest = float(table["total_cost"].abs().max()) or 1.0
    cells = {
        row.outcome: (
            row.outcome, with_unit(row.total_cost, data.unit),
            f"{show_whole(int(people[row.actual, row.decided]), row.count)} cases", abs(row.total_cost) / dearest,
        )
        for row in records(table)
    }  # fmt: skip
    return _arranged(data.classes, cells, "Total cost of each outcome")


def show_whole(people: int, exact: float) -> str:
    """Return a number of people; fewer than one in a mean of repeats is said as such."""
    return "<1" if people == 0 < exact else f"{people:,}"


def people_matrix(data: ReportData, outcome: Outcome, people: int) -> Table:
    """Return a confusion matrix of so many people, with what each in a cell costs; totals stand beside."""
    cells = whole_confusion(outcome, people)
    prices = frames.confusion_table(outcome).set_index("outcome")["price"]
    dearest = float((prices * [cells[1, 1], cells[1, 0], cells[0, 1], cells[0, 0]]).abs().max()) or 1.0
    found = {}
    for name, actual, decided in (("tp", 1, 1), ("fn", 1, 0), ("fp", 0, 1), ("tn", 0, 0)):
        price, count = float(prices[name]), int(cells[actual, decided])
        mean = " on average" if np.ptp(as_host(getattr(outcome, name))) else ""
        each = f"{with_unit(price, data.unit, 3)} each{mean}" if price else "no cost"
        found[name] = (name, f"{count:,}", each, abs(price) * count / dearest)
    totals = [f"{data.classes[actual]}: {cells[actual].sum():,}" for actual in (0, 1)]
    heads = [f"decided {data.classes[decided]}: {cells[:, decided].sum():,}" for decided in (1, 0)]
    caption = f"Whole {data.people}, and what each costs"
    return _arranged((totals[0], totals[1]), found, caption)._replace(headers=heads)


def empty_matrix(classes: tuple[str, str]) -> Table:
    """Return the matrix that the explorer fills."""
    blank = {name: (name, "", "", 0.0) for name in ("tp", "fn", "fp", "tn")}
    return _arranged(classes, blank, "Total cost of each outcome at your threshold")


def _arranged(classes: tuple[str, str], cells: Mapping[str, tuple[str, str, str, float]], caption: str) -> Table:
    positive, negative = (classes[1], [cells["tp"], cells["fn"]]), (classes[0], [cells["fp"], cells["tn"]])
    return Table(caption, [f"decided {name}" for name in classes[::-1]], [positive, negative])


def records(table: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a frame, their columns as attributes."""
    records = table.to_dict("records")
    return (SimpleNamespace(**{str(name): value for name, value in record.items()}) for record in records)


def show_more(percent: float) -> str:
    """Return how many percent dearer something is, with as many digits as matter."""
    return f"{show(round(percent, 1 if percent < 10 else 0))} %" if np.isfinite(percent) else DASH


def _show_span(low: float, high: float) -> str:
    return DASH if not np.isfinite(low) or low == high == 0 else f"{show(round(low))} to {show(round(high))} %"


def _show_p(value: float) -> str:
    return DASH if not np.isfinite(value) else "<\u00a00.001" if value < 0.001 else f"{value:.3f}"
