"""Training: threshold and lambda by epoch, cost by epoch, and how optimistic validation was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.report import style
from adacsl.report.content import Card, Section, Table, listed, section
from adacsl.report.formatting import show, show_percent
from adacsl.report.style import COLORED, PALETTES, plain
from adacsl.report.tables import records, rows_with, wide_table

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


Histories = Mapping[tuple[str, int], Sequence[Mapping[str, Any]]]
"""Steps of each training by method and split."""

EPOCHS_SHOWN = 20
"""About so many epochs of a training stand in a table; the figure has all of them."""


@dataclass(frozen=True)
class Training:
    """What is known of the trainings of a view.

    Parameters
    ----------
    histories : mapping from (method, split) to list of dict
        By epoch: epoch, fold, lambda (or lambdas of K classes), threshold, val_cost, train_cost.
    results : DataFrame
        The fits: method, cost; where it is known validation_cost.
    methods : sequence of str
        The methods to colour, the recommended one first.
    class_names : sequence of str
        Names of more than two classes.
    unit : str
        Unit of costs.
    """

    histories: Histories
    results: pd.DataFrame
    methods: Sequence[str]
    class_names: Sequence[str] = ()
    unit: str = ""


def training_section(training: Training) -> Section | None:
    """Return how the training went."""
    epochs = epoch_table(training.histories)
    adapted = _class_lambda_card(training) if training.class_names else _lambda_card(training, epochs)
    costs = listed(adapted, _history_card(training, epochs))
    return section("training", "Training", costs, listed(_optimism_card(training)))


def _lambda_card(training: Training, epochs: pd.DataFrame) -> Card | None:
    known = rows_with(epochs, "lambda")
    if known.empty:
        return None
    return Card(
        "lambda",
        title="AdaCSL: threshold and lambda by epoch",
        guide=(
            "Above: the cost-optimal threshold of the validation samples, which the loss moves towards 0.5. Below: "
            "lambda, the class weight. Bands span all splits and folds (Figure 1a of the AdaCSL paper)."
        ),
        alt=f"Cost-optimal validation threshold and lambda by epoch for {', '.join(dict.fromkeys(known['method']))}.",
        figure=lambda_figure(known, highlight=training.methods),
        folded=[_epoch_rows("Threshold and lambda by epoch", known, ["threshold", "lambda"])],
    )


def _class_lambda_card(training: Training) -> Card | None:
    for name in dict.fromkeys((*training.methods, *(method for method, _ in training.histories))):
        lambdas = class_lambdas(training.histories, training.class_names, name)
        if len(lambdas):
            break
    else:
        return None
    wide = lambdas.pivot_table(index="epoch", columns="class", values="lambda", sort=False).sort_index()
    last = wide.iloc[[-1]].T.set_axis(["lambda"], axis=1)
    return Card(
        "class-lambda",
        title="AdaCSL: lambda of each class by epoch",
        guide=f"Geometric means over splits and folds of {name}. Above 1 a class weighs more than by its costs alone.",
        alt=f"Lambda of each class by epoch for {name}.",
        figure=class_lambda_figure(lambdas),
        folded=[wide_table(f"Lambda of each class in the last epoch, {name}", "class", last)],
    )


def _history_card(training: Training, epochs: pd.DataFrame) -> Card | None:
    known = rows_with(epochs, "val_cost")
    if known.empty:
        return None
    names = [name for name in training.methods if name in set(known["method"])][:2] or list(known["method"][:1])
    known = known[known["method"].isin(names)]
    return Card(
        "history",
        title="Cost by epoch",
        guide=(
            "A training cost that falls while the validation cost rises is overfitting; the epoch with the lowest "
            "validation cost is kept (Figure 1b)."
        ),
        alt=f"Training and validation cost by epoch for {', '.join(names)}.",
        figure=history_figure(known, highlight=names, unit=training.unit),
        folded=[_epoch_rows("Cost by epoch", known, ["val_cost", "train_cost"])],
    )


def _optimism_card(training: Training) -> Card | None:
    table = optimism_table(training.results)
    if table.empty:
        return None
    return Card(
        "optimism",
        title="Validation cost and test cost",
        guide=(
            "Epoch, weight and threshold are chosen on the validation samples, so their cost is optimistic; the test "
            "cost is not."
        ),
        alt="Validation and test cost of each method; the table has the numbers.",
        figure=optimism_figure(table, unit=training.unit),
        folded=[_optimism_rows(table, training.methods[0] if training.methods else "")],
    )


def _epoch_rows(caption: str, table: pd.DataFrame, columns: list[str]) -> Table:
    names = {"threshold": "optimal threshold", "val_cost": "validation cost", "train_cost": "training cost"}
    known = [column for column in columns if column in table.columns]
    last = table["epoch"].max()
    some = table[(table["epoch"] % max(1, round(last / EPOCHS_SHOWN)) == 0) | (table["epoch"] == last)]
    rows = [[r["method"], show(r["epoch"]), *(show(r[c]) for c in known)] for r in some.to_dict("records")]
    return Table(caption, ["method", "epoch", *(names.get(c, c) for c in known)], rows)


def _optimism_rows(table: pd.DataFrame, marked: str) -> Table:
    result = records(table)
    rows = [[r.method, show(r.validation_cost), show(r.cost), show(r.gap), show_percent(r.gap_share)] for r in result]
    heads = ["method", "validation cost", "test cost", "difference", "of the test cost"]
    return Table("Validation cost and test cost per sample", heads, rows, marked)


# numbers


def epoch_table(histories: Histories) -> pd.DataFrame:
    """Return each method's lambda, threshold and costs by epoch: means over splits and folds, with lowest and highest.

    Boosting rounds are no epochs, and left out.
    """
    result = [{**step, "method": name, "split": split} for (name, split), own in histories.items() for step in own]
    steps = [step for step in result if "epoch" in step]
    names = [name for name in ("lambda", "threshold", "val_cost", "train_cost") if any(name in s for s in steps)]
    if not steps or not names:
        return pd.DataFrame(columns=["method", "epoch", "n"])
    frame = pd.DataFrame(steps)
    frame[names] = frame[names].astype(float)
    parts = {"n": ("split", "size")}
    for name in names:
        parts |= {name: (name, "mean"), f"{name}_low": (name, "min"), f"{name}_high": (name, "max")}
    return frame.groupby(["method", "epoch"], sort=False).agg(**parts).reset_index()


def class_lambdas(histories: Histories, names: Sequence[str], method: str | None = None) -> pd.DataFrame:
    """Return the lambda of each class by epoch (geometric means over splits and folds): method, class, epoch, lambda.

    Of the method named, else of the first that has lambdas.
    """
    steps = [
        (name, step["epoch"], np.log(step["lambdas"]))
        for (name, _), own in histories.items()
        for step in own
        if "epoch" in step and step.get("lambdas") is not None
    ]
    wanted = method or next((name for name, _, _ in steps), None)
    rows = [(names[j], e, value) for name, e, logs in steps if name == wanted for j, value in enumerate(logs)]
    frame = pd.DataFrame(rows, columns=["class", "epoch", "lambda"]).assign(method=wanted)
    result = frame.groupby(["method", "class", "epoch"], sort=False, dropna=False)["lambda"].mean().reset_index()
    return result.assign(**{"lambda": np.exp(result["lambda"].astype(float))})


def optimism_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return how much higher the test cost was than the cost of the validation samples that epoch and threshold use.

    Columns: method, n, validation_cost, cost, gap (cost - validation_cost), gap_share (of the test cost).
    """
    columns = ["method", "n", "validation_cost", "cost", "gap", "gap_share"]
    known = rows_with(results, "validation_cost")
    if known.empty:
        return pd.DataFrame(columns=columns)
    groups = known.groupby("method", sort=False)
    frame = groups.agg(n=("cost", "size"), validation_cost=("validation_cost", "mean"), cost=("cost", "mean"))
    frame["gap"] = frame["cost"] - frame["validation_cost"]
    frame["gap_share"] = frame["gap"] / frame["cost"].where(frame["cost"] != 0)
    return frame.reset_index().sort_values("cost", kind="stable", ignore_index=True)[columns]


# figures


def lambda_figure(epochs: pd.DataFrame, *, highlight: Sequence[str] | None = None, theme: str = "light") -> go.Figure:
    """Draw threshold and lambda by epoch (the paper's Figure 1a): means over splits and folds, with their range."""
    figure = style.new_figure(theme, "AdaCSL: threshold and lambda by epoch", height=480, rows=2)
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
    figure.update_yaxes(title_text="optimal threshold", range=[0, 1], row=1, col=1)
    # it is multiplied by a factor every epoch: equal factors, equal steps
    figure.update_yaxes(title_text="lambda", type="log", nticks=6, tickformat="~g", row=2, col=1)
    figure.update_xaxes(title_text="epoch", row=2, col=1)
    return figure.update_layout(showlegend=True)


def class_lambda_figure(lambdas: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw the lambda of each class by epoch; coloured are those that moved most."""
    if lambdas.empty:
        raise ValueError("there is no lambda to draw: no method adapted itself")
    figure = style.new_figure(theme, "AdaCSL: lambda of each class by epoch", height=400)
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


def history_figure(
    epochs: pd.DataFrame, *, highlight: Sequence[str] | None = None, unit: str = "", theme: str = "light"
) -> go.Figure:
    """Draw training and validation cost by epoch (the paper's Figure 1b)."""
    figure = style.new_figure(theme, "Cost by epoch", height=400)
    names = style.highlighted_first(epochs["method"], highlight or ())
    names = [name for name in names if name in (highlight or ())][:COLORED] or names[:2]
    colors = dict(zip(names, PALETTES[theme].lines, strict=False))
    for name in names:
        part = epochs[epochs["method"] == name].sort_values("epoch")
        for column, label, dash in (("val_cost", "validation", "solid"), ("train_cost", "training", "dot")):
            if column not in part.columns or part[column].isna().all():
                continue
            if name == names[0]:  # several bands on top of each other cannot be read
                style.add_band(figure, part, column, colors[name])
            figure.add_scatter(
                x=part["epoch"], y=part[column], mode="lines", name=f"{plain(name)}, {label}",
                line={"color": colors[name], "dash": dash, "width": 2.2},
                hovertemplate=style.hover("epoch", "cost"),
            )  # fmt: skip
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text=style.axis_title("mean cost per sample", unit), rangemode="tozero")
    return figure.update_layout(showlegend=True)


def optimism_figure(table: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw validation cost and test cost of each method."""
    colors = PALETTES[theme]
    names = [plain(name) for name in table["method"]]
    figure = style.new_figure(theme, "Validation cost and test cost", height=110 + 28 * len(table))
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
    figure.update_xaxes(title_text=style.axis_title("mean cost per sample", unit), rangemode="tozero")
    return style.list_names(figure, names, colors)
