"""What the page says about one data set at one cost ratio: tiles, pictures, tables, and how to read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from adacsl.extras import requires
from adacsl.report import figures as draw
from adacsl.report import frames
from adacsl.report.data import Outcome, ReportData, View
from adacsl.report.numbers import DASH, show, show_column, show_percent, with_unit

with requires("compare"):
    import pandas as pd

EPOCHS_SHOWN = 20
"""About so many epochs of a training stand in a table; the picture has all of them."""

Figures = dict[str, Any]

GUIDES = {
    "cost": (
        "Mean cost per case (one row of the test data) over all repetitions; the line is the 95 % interval. Where "
        "a method is not told apart from the cheapest, the difference may be chance."
    ),
    "ratio": (
        "Points: what ran. Lines: the probabilities of this view, decided anew at the Bayes threshold of each "
        "ratio, without new training. A point below its line owes that to training for its own ratio, or to a "
        "tuned threshold. Grey: the other methods."
    ),
    "groups": (
        "The threshold that would have been cheapest for each group alone (Table 1 of the AdaCSL paper). Where it "
        "differs from the rest, probabilities are off in that range, or cases are few."
    ),
    "thresholds": (
        "What each method decided at, and what the cheapest threshold, found on the test cases themselves, would "
        "have cost: a limit that no honest choice can be sure to reach."
    ),
    "lambda": (
        "Above: the cheapest threshold of the validation cases after each epoch; the loss steers it towards 0.5. "
        "Below: lambda, the weight it steers with. Bands span all seeds and folds (Figure 1a of the AdaCSL paper)."
    ),
    "history": (
        "Cost of training and validation cases after each epoch. A training cost that falls while the validation "
        "cost rises is overfitting; the cheapest validation epoch is kept (Figure 1b)."
    ),
    "optimism": (
        "The validation cases choose epoch, weight and threshold, so their cost flatters. The test cost is what "
        "counts; the distance is how much too good the promise was."
    ),
    "calibration": (
        "Of the cases that got a score of 0.3, three in ten should be positive. On the dotted line they are; "
        "larger points hold more cases."
    ),
    "brier": (
        "What trusting the scores costs, for every cost proportion at once; lower is better and the area is the "
        "Brier score. Dotted: the best constant decision."
    ),
    "decision": (
        "Net benefit of acting above a threshold, in true positives per case; higher is better. Dashed: acting on "
        "all cases; zero: on none. A method is useful where it lies above both."
    ),
    "ranks": (
        "Average rank of each method. Inside the shaded band (Nemenyi's critical difference) a method is not told "
        "apart from the first."
    ),
}
"""How to read each picture, for people who have never seen one like it."""


class Tile(NamedTuple):
    """One number of the headline."""

    name: str
    value: str
    aside: str


class Table(NamedTuple):
    """Rows of text under headers; ``text`` are the columns that hold words, ``marked`` the row that stands out."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: str | None = None
    text: Sequence[int] = ()


class MatrixCell(NamedTuple):
    """A cell of the confusion matrix: its money, its rows, and its share of the dearest cell."""

    name: str
    money: str
    cases: str
    share: float


class MatrixRow(NamedTuple):
    """The cells of one true class."""

    actual: str
    cells: Sequence[MatrixCell]


class Matrix(NamedTuple):
    """A confusion matrix in money."""

    caption: str
    rows: Sequence[MatrixRow]


@dataclass(frozen=True)
class Card:
    """A picture with its guide, text alternative and tables."""

    id: str
    title: str = ""
    guide: str = ""
    alt: str = ""
    figure: str | None = None
    matrix: Matrix | None = None
    tables: Sequence[Table] = field(default_factory=tuple)
    folded: Sequence[Table] = field(default_factory=tuple)


@dataclass(frozen=True)
class Part:
    """Cards under one heading, in rows of one or several."""

    id: str
    title: str
    guide: str
    rows: Sequence[Sequence[Card | None]]


def tiles(data: ReportData, view: View) -> list[Tile]:
    """Return the headline's numbers."""
    rows = data.summary_of(view)
    name = data.recommended_of(view)
    row = rows[rows["method"] == name].iloc[0]
    found = [
        Tile("Recommended", name, data.titles.get(name, "")),
        Tile("Cost per case", with_unit(row["cost"], data.unit, 3), _interval(row, "one repetition: no interval", 3)),
    ]
    if "savings" in rows.columns:
        found.append(Tile("Saved", show_percent(row["savings"]), "of what the best constant decision costs"))
    if "standing" in rows.columns:
        worse = int((rows["standing"] == "clearly worse").sum())
        apart = int((rows["standing"] == "not told apart").sum())
        doubtful = int((rows["standing"] == "probably worse").sum())
        others = ["other methods"]
        others += [f"{doubtful} probably"] if doubtful else []
        others += [f"{apart} not told apart from the cheapest"] if apart else []
        found.append(Tile("Clearly dearer", f"{worse} of {len(rows) - 1}", "; ".join(others)))
    return found


def parts(data: ReportData, view: View, key: str, figures: Figures) -> list[Part]:
    """Return all sections of a view; their pictures are added to ``figures``."""
    found = [
        Part(f"{key}-costs", "What each method costs", "", [[_cost_card(data, view, key, figures)]]),
        Part(f"{key}-ratios", "If the costs were different", "", [[_ratio_card(data, view, key, figures)]]),
        _error_part(data, view, key),
        _training_part(data, view, key, figures),
        _probability_part(data, view, key, figures),
    ]
    filled = ((part, [[card for card in row if card] for row in part.rows]) for part in found)
    return [Part(part.id, part.title, part.guide, [row for row in rows if row]) for part, rows in filled if any(rows)]


def highlighted(data: ReportData, view: View, *, scores: bool = False) -> list[str]:
    """Return the methods to colour: the recommended and the next cheapest; with ``scores``, of different scores."""
    outcomes = data.outcomes_of(view)
    first = data.recommended_of(view)
    names = [first, *(name for name in data.summary_of(view)["method"] if name != first)]
    if not scores:
        return names[: draw.COLORED]
    seen: dict[bytes, str] = {}
    for name in names:
        if name in outcomes and np.ptp(outcomes[name].scores) > 0:
            seen.setdefault(outcomes[name].scores.tobytes(), name)
    return list(seen.values())[: draw.COLORED]


# cards


def _cost_card(data: ReportData, view: View, key: str, figures: Figures) -> Card:
    rows, name = data.summary_of(view), data.recommended_of(view)
    figures[f"{key}-cost"] = draw.cost_figure(rows, recommended=name, unit=data.unit)
    first, last = rows.iloc[0], rows.iloc[-1]
    return Card(
        f"{key}-cost",
        guide=GUIDES["cost"],
        alt=f"Mean cost of {len(rows)} methods, from {show(first['cost'])} ({first['method']}) to {show(last['cost'])} "
        f"({last['method']}). Recommended: {name}. The table below has all numbers.",
        figure=f"{key}-cost",
        tables=[_cost_table(data, rows, name)],
    )


def _cost_table(data: ReportData, rows: pd.DataFrame, marked: str) -> Table:
    unit = f", {data.unit}" if data.unit else ""
    texts = show_column([*rows["cost"], *rows["low"], *rows["high"]])
    cost, low, high = (texts[len(rows) * k : len(rows) * (k + 1)] for k in range(3))
    columns = {
        "method": rows["method"].astype(str).tolist(),
        f"cost{unit}": cost,
        "95 % interval": [f"{a} to {b}" if a != DASH else DASH for a, b in zip(low, high, strict=True)],
    }
    for head, column, write in (
        ("normalised", "normalized_cost", show_column),
        ("saved", "savings", lambda values: [show_percent(value) for value in values]),
        ("dearer than the cheapest", "percent", lambda values: [_show_more(value) for value in values]),
        ("p", "p", lambda values: [_show_p(value) for value in values]),
        ("repetitions", "n", lambda values: [show(value) for value in values]),
        ("against the cheapest", "standing", lambda values: values.astype(str).tolist()),
    ):
        if column in rows.columns:
            columns[head] = write(rows[column])
    words = [len(columns) - 1] if "standing" in rows.columns else []
    body = [list(row) for row in zip(*columns.values(), strict=True)]
    return Table("Cost of each method, cheapest first", list(columns), body, marked, words)


def _ratio_card(data: ReportData, view: View, key: str, figures: Figures) -> Card | None:
    ran = frames.ratio_table(data.results_of(view[0]))
    outcomes = data.outcomes_of(view)
    names = highlighted(data, view)
    anew = _redecided(view, {name: outcomes[name] for name in names if name in outcomes}, ran)
    if len(ran["ratio"].unique()) < 2 and anew.empty:
        return None
    figures[f"{key}-ratio"] = draw.ratio_figure(ran, anew, highlight=names)
    wide = ran.pivot_table(index="method", columns="ratio", values="normalized_cost", sort=False)
    wide = wide.reindex([name for name in data.summary_of(view)["method"] if name in wide.index])
    return Card(
        f"{key}-ratio",
        guide=GUIDES["ratio"],
        alt=f"Normalised cost of {', '.join(names)} against the cost ratio; 1 is the best constant decision. "
        "The table below has the ratios that ran.",
        figure=f"{key}-ratio",
        folded=[_wide_table("Normalised cost at each ratio that ran", "method", wide, marked=names[0])],
    )


def _redecided(view: View, outcomes: Mapping[str, Outcome], ran: pd.DataFrame) -> pd.DataFrame:
    known = [view[1], *ran["ratio"].tolist()]
    around = np.geomspace(min(known) / 4, max(known) * 4, 41)
    own = any(outcome.own_costs for outcome in outcomes.values())
    # with prices of each row the ratio is a mean: what can be moved is a factor on every miss
    frame = frames.redecided_table(outcomes, around / view[1] if own else around)
    return frame.assign(ratio=frame["ratio"] * view[1]) if own else frame


def _error_part(data: ReportData, view: View, key: str) -> Part:
    title = "Where the cost comes from"
    outcomes = data.outcomes_of(view)
    if not outcomes:
        return Part(f"{key}-errors", title, "", [])
    name = data.recommended_of(view)
    name = name if name in outcomes else next(iter(outcomes))
    outcome = outcomes[name]
    matrix = Card(
        f"{key}-matrix",
        title=f"Errors of {name}, in money",
        guide=f"All {show(outcome.n)} test cases of all repetitions. The darker an error, the more it costs in total.",
        matrix=_matrix(data, frames.confusion_table(outcome)),
    )
    groups = Card(
        f"{key}-groups",
        title="Cases of similar score",
        guide=GUIDES["groups"],
        tables=[_group_table(data, name, frames.subgroup_table(outcome))],
    )
    thresholds = Card(
        f"{key}-thresholds",
        title="Thresholds of all methods",
        guide=GUIDES["thresholds"],
        tables=[_threshold_table(data, outcomes, name)],
    )
    return Part(f"{key}-errors", title, "", [[matrix, groups], [thresholds]])


def _matrix(data: ReportData, table: pd.DataFrame) -> Matrix:
    dearest = float(table["total_cost"].abs().max()) or 1.0
    cells = {
        row.outcome: MatrixCell(
            str(row.outcome),
            with_unit(row.total_cost, data.unit),
            f"{row.count:,} cases",
            abs(row.total_cost) / dearest,
        )
        for row in _rows(table)
    }
    return _arranged(data.classes, cells, "Total cost of each outcome")


def empty_matrix(classes: tuple[str, str]) -> Matrix:
    """Return the matrix that the explorer fills."""
    blank = {name: MatrixCell(name, "", "", 0.0) for name in ("tp", "fn", "fp", "tn")}
    return _arranged(classes, blank, "Total cost of each outcome at your threshold")


def _arranged(classes: tuple[str, str], cells: Mapping[Any, MatrixCell], caption: str) -> Matrix:
    positive = MatrixRow(classes[1], [cells["tp"], cells["fn"]])
    return Matrix(caption, [positive, MatrixRow(classes[0], [cells["fp"], cells["tn"]])])


def _group_table(data: ReportData, name: str, table: pd.DataFrame) -> Table:
    rows = [
        [
            f"{row.low:.1f} to {row.high:.1f}", show(row.n), show(row.positives), f"{max(row.threshold, 0.0):.3f}",
            show(row.cheapest_cost), show(row.cost),
        ]
        for row in _rows(table)
    ]  # fmt: skip
    heads = ["score", "cases", data.classes[1], "cheapest threshold", "cost there", "cost as decided"]
    return Table(f"Groups of similar score, {name}", heads, rows)


def _threshold_table(data: ReportData, outcomes: Mapping[str, Outcome], marked: str) -> Table:
    rows: list[list[Any]] = []
    for name, outcome in outcomes.items():
        points = frames.threshold_points(outcome).set_index("point")
        decided = outcome.costs.mean(outcome.labels, outcome.decisions)
        best = points.loc["cheapest"]
        rows.append(
            [
                name,
                "varies" if outcome.threshold is None else f"{outcome.threshold:.3f}",
                decided,
                f"{best['threshold']:.3f}",
                best["cost"],
                points.loc["Bayes", "cost"] if "Bayes" in points.index else float("nan"),
            ]
        )
    costs = iter(show_column([row[column] for row in rows for column in (2, 4, 5)]))
    rows = [[next(costs) if column in (2, 4, 5) else cell for column, cell in enumerate(row)] for row in rows]
    unit = f", {data.unit}" if data.unit else ""
    heads = [
        "method",
        "decided at",
        f"cost{unit}",
        "cheapest with hindsight",
        "cost there",
        "cost at the Bayes threshold",
    ]
    return Table("Thresholds and cost per case", heads, rows, marked)


def _training_part(data: ReportData, view: View, key: str, figures: Figures) -> Part:
    epochs = frames.epoch_table(data.histories_of(view))
    row = [_lambda_card(data, view, key, epochs, figures), _history_card(data, view, key, epochs, figures)]
    return Part(
        f"{key}-training",
        "How the training went",
        "",
        [[c for c in row if c], [c for c in [_optimism_card(data, view, key, figures)] if c]],
    )


def _lambda_card(data: ReportData, view: View, key: str, epochs: pd.DataFrame, figures: Figures) -> Card | None:
    if "lambda" not in epochs.columns or epochs["lambda"].isna().all():
        return None
    known = epochs.dropna(subset=["lambda"])
    figures[f"{key}-lambda"] = draw.lambda_figure(known, highlight=highlighted(data, view))
    names = list(dict.fromkeys(known["method"]))
    return Card(
        f"{key}-lambda",
        title="How the loss adapted itself",
        guide=GUIDES["lambda"],
        alt=f"Cheapest validation threshold and lambda by epoch for {', '.join(names)}.",
        figure=f"{key}-lambda",
        folded=[_epoch_table("Threshold and lambda by epoch", known, ["threshold", "lambda"])],
    )


def _history_card(data: ReportData, view: View, key: str, epochs: pd.DataFrame, figures: Figures) -> Card | None:
    if "val_cost" not in epochs.columns or epochs["val_cost"].isna().all():
        return None
    known = epochs.dropna(subset=["val_cost"])
    names = [name for name in highlighted(data, view) if name in set(known["method"])][:2] or list(known["method"][:1])
    known = known[known["method"].isin(names)]
    figures[f"{key}-history"] = draw.history_figure(known, highlight=names, unit=data.unit)
    return Card(
        f"{key}-history",
        title="Cost while training",
        guide=GUIDES["history"],
        alt=f"Training and validation cost by epoch for {', '.join(names)}.",
        figure=f"{key}-history",
        folded=[_epoch_table("Cost by epoch", known, ["val_cost", "train_cost"])],
    )


def _optimism_card(data: ReportData, view: View, key: str, figures: Figures) -> Card | None:
    results = data.results_of(view[0])
    table = frames.optimism_table(results[results["ratio"] == view[1]] if "ratio" in results.columns else results)
    if table.empty:
        return None
    figures[f"{key}-optimism"] = draw.optimism_figure(table, unit=data.unit)
    rows = [
        [row.method, show(row.validation_cost), show(row.cost), show(row.gap), show_percent(row.gap_share)]
        for row in _rows(table)
    ]
    heads = ["method", "validation cost", "test cost", "difference", "of the test cost"]
    return Card(
        f"{key}-optimism",
        title="Promised and paid",
        guide=GUIDES["optimism"],
        alt="Validation and test cost of each method; the table has the numbers.",
        figure=f"{key}-optimism",
        folded=[Table("Validation cost and test cost", heads, rows, data.recommended_of(view))],
    )


def _probability_part(data: ReportData, view: View, key: str, figures: Figures) -> Part:
    outcomes = data.outcomes_of(view)
    names = highlighted(data, view, scores=True)
    if not names:
        return Part(f"{key}-probabilities", "Can the probabilities be trusted?", "", [])
    shown = {name: outcomes[name] for name in names}
    calibration, brier, decision = (
        frames.calibration_table(shown), frames.brier_table(shown), frames.decision_table(shown)
    )  # fmt: skip
    figures[f"{key}-calibration"] = draw.calibration_figure(calibration, highlight=names)
    figures[f"{key}-brier"] = draw.brier_figure(brier, highlight=names)
    figures[f"{key}-decision"] = draw.decision_figure(decision, highlight=names)
    listed = ", ".join(names)
    cards = [
        Card(
            f"{key}-calibration",
            title="Calibration",
            guide=GUIDES["calibration"],
            alt=f"Share of positives against mean score for {listed}.",
            figure=f"{key}-calibration",
            folded=[_calibration_table(calibration)],
        ),
        Card(
            f"{key}-brier",
            title="Brier curve",
            guide=GUIDES["brier"],
            alt=f"Loss over all cost proportions for {listed}.",
            figure=f"{key}-brier",
            folded=[_curve_table("Brier curve", "cost proportion", brier, "proportion", "loss")],
        ),
        Card(
            f"{key}-decision",
            title="Decision curve",
            guide=GUIDES["decision"],
            alt=f"Net benefit at thresholds from 0.01 to 0.99 for {listed}.",
            figure=f"{key}-decision",
            folded=[_curve_table("Decision curve", "threshold", decision, "threshold", "net_benefit")],
        ),
    ]  # fmt: skip
    guide = "The recommended method and the next cheapest that have scores of their own."
    return Part(f"{key}-probabilities", "Can the probabilities be trusted?", guide, [cards])


def rank_card(data: ReportData, figures: Figures) -> Card | None:
    """Return the card of average ranks over many data sets."""
    if data.ranks is None or data.ranks.empty:
        return None
    figures["ranks"] = draw.rank_figure(data.ranks)
    rows = data.ranks.sort_values("rank", kind="stable")
    gap = draw.critical_difference(data.ranks)
    first = rows.iloc[0]
    return Card(
        "ranks-card",
        guide=GUIDES["ranks"],
        alt=f"Average ranks, from {show(first['rank'])} ({first['method']}); critical difference {show(gap)}.",
        figure="ranks",
        tables=[
            Table(
                "Average ranks",
                ["method", "rank"],
                [[str(r.method), show(r.rank)] for r in _rows(rows[["method", "rank"]])],
            )
        ],
    )


# tables


def _rows(table: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a frame, their columns as attributes."""
    records = table.to_dict("records")
    return (SimpleNamespace(**{str(name): value for name, value in record.items()}) for record in records)


def _wide_table(caption: str, head: str, frame: pd.DataFrame, *, marked: str | None = None) -> Table:
    rows = [
        [str(index), *(show(value) for value in row)] for index, row in zip(frame.index, frame.to_numpy(), strict=True)
    ]
    return Table(caption, [head, *(show(c) if isinstance(c, float) else str(c) for c in frame.columns)], rows, marked)


def _curve_table(caption: str, head: str, table: pd.DataFrame, x: str, y: str) -> Table:
    every = table[np.isclose((table[x] * 20).round() / 20, table[x])]
    wide = every.pivot_table(index=x, columns="method", values=y, sort=False).sort_index()
    wide.index = pd.Index([f"{value:.2f}" for value in wide.index])
    return _wide_table(caption, head, wide)


def _calibration_table(table: pd.DataFrame) -> Table:
    rows = [
        [row.method, show(row.mean_score), show(row.positive_share), show(row.n), show(row.error)]
        for row in _rows(table)
    ]
    return Table("Calibration", ["method", "mean score", "share of positives", "cases", "calibration error"], rows)


def _epoch_table(caption: str, table: pd.DataFrame, columns: list[str]) -> Table:
    names = {
        "threshold": "cheapest threshold",
        "lambda": "lambda",
        "val_cost": "validation cost",
        "train_cost": "training cost",
    }
    known = [column for column in columns if column in table.columns]
    last = table["epoch"].max()
    some = table[(table["epoch"] % max(1, round(last / EPOCHS_SHOWN)) == 0) | (table["epoch"] == last)]
    rows = [[r["method"], show(r["epoch"]), *(show(r[c]) for c in known)] for r in some.to_dict("records")]
    return Table(caption, ["method", "epoch", *(names[c] for c in known)], rows)


def _interval(row: pd.Series[Any], otherwise: str, digits: int) -> str:
    if not np.isfinite(row["low"]):
        return otherwise
    return f"95 % interval {show(row['low'], digits)} to {show(row['high'], digits)}"


def _show_more(percent: float) -> str:
    return DASH if not np.isfinite(percent) or percent == 0 else f"{show(round(percent, 1 if percent < 10 else 0))} %"


def _show_p(value: float) -> str:
    return DASH if not np.isfinite(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"
