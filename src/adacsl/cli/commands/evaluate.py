"""``adacsl evaluate``: what a model's decisions cost on labelled rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adacsl.cli.commands.predict import labels_of, positive_probability
from adacsl.cli.models import Trained, load_model, takes_pictures
from adacsl.cli.options import ANY, FREE, Prices, Source, interval_text
from adacsl.cli.rows import feature_columns
from adacsl.cli.screen import PLAIN, Answer, Screen
from adacsl.cli.writing import check_table_file, label_type, writing_table
from adacsl.core.costs import as_host
from adacsl.core.curves import calibration_error
from adacsl.core.intervals import Interval, cost_interval
from adacsl.core.labels import plain_labels
from adacsl.core.partitions import Quantile
from adacsl.core.thresholds import Threshold, find_threshold

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.estimators.binary import CostClassifier


def evaluate(
    model: Path,
    data: str,
    *,
    source: Source = ANY,
    prices: Prices = FREE,
    at_most: float | None = None,
    rows: Path | None = None,
    device: str = "auto",
    screen: Screen = PLAIN,
) -> Answer:
    """Measure what a model's decisions cost on rows whose labels are known.

    Costs and target column are those of the training, unless others are given; with other costs, the model decides by
    them.

    Parameters
    ----------
    model
        Folder that `adacsl train` wrote.
    data
        CSV or Parquet file, folder with one subfolder of pictures per class, .npz archive, or a name (`adacsl data`).
    at_most
        Exit with 1 if the mean cost per row is above this.
    rows
        Write label, probability, decision and cost of each row to this file (.parquet, .csv).
    device
        auto, cpu, cuda, cuda:1 or mps.
    """
    if rows is not None:
        check_table_file(rows)
    trained = load_model(model, device=device)
    task = _task(trained, data, source, prices)
    found = _measure(trained.classifier, task)
    if rows is not None:
        _write_rows(rows, trained.classifier, task, found)
    bad = at_most is not None and found.cost.estimate > at_most
    return Answer(_document(found, task, at_most, rows), tuple(_shown(found, task, at_most)), code=1 if bad else 0)


class _Found(NamedTuple):
    probability: np.ndarray[Any, Any]
    decided: np.ndarray[Any, Any]
    cost: Interval
    total: float
    normalized: float
    savings: float
    counts: dict[str, int]
    money: dict[str, float]
    calibration: float
    deployed: float | None  # None: each row has its own
    cheapest: Threshold
    constants: tuple[float, float]  # always negative, always positive


def _task(trained: Trained, data: str, source: Source, prices: Prices) -> Task:
    """Read the data as the model understands them."""
    from adacsl.datasets.builtin import DATASETS  # noqa: PLC0415  pandas
    from adacsl.datasets.errors import DataError, listed  # noqa: PLC0415

    classifier = trained.classifier
    spoken = prices if prices.given else trained.prices
    own = {name: float(getattr(classifier.costs_, name)) for name in ("fn", "fp", "tp", "tn")}
    taken = {name for name in ("fn", "fp") if getattr(spoken, f"{name}_column") is not None}
    rest: dict[str, Any] = {n: v for n, v in own.items() if getattr(spoken, n) is None and n not in taken}
    if data.lower().replace("_", "-") not in DATASETS:
        source = replace(
            source, target=source.target or trained.target, positive=source.positive or str(classifier.positive_)
        )
    if takes_pictures(classifier) and source.image_size is None:
        source = replace(source, image_size=classifier.image_shape_[0])
    task = source.load(data, replace(spoken, **rest))
    if task.images != takes_pictures(classifier):
        kinds = ("pictures", "a table") if takes_pictures(classifier) else ("a table", "pictures")
        raise DataError(f"the model was trained on {kinds[0]}, but {data} holds {kinds[1]}")
    known = {str(label) for label in classifier.classes_.tolist()}
    if {str(label) for label in plain_labels(task.classes)} != known:
        raise DataError(
            f"the classes of {data} are {listed(task.classes)}, but the model was trained on {listed(sorted(known))}"
        )
    return task


def _measure(classifier: CostClassifier, task: Task) -> _Found:
    from adacsl.datasets.errors import DataError  # noqa: PLC0415

    table = task.X
    if not task.images:
        columns = feature_columns(classifier, list(table.columns), task.name)
        if columns is None and table.shape[1] != classifier.n_features_in_:
            raise DataError(
                f"the model was trained on {classifier.n_features_in_} columns, but {task.name} has {table.shape[1]}"
            )
        table = table.to_numpy() if columns is None else table[columns]
    probability = positive_probability(classifier, table)
    costs, y = task.costs, task.y
    decided = np.asarray(costs.decide(probability))
    each = as_host(costs.incurred(y, decided))
    masks = _masks(y, decided)
    constants = [costs.mean(y, np.full(len(y), label)) for label in (0, 1)]
    return _Found(
        probability, decided,
        cost=cost_interval(costs, y, decided, groups=task.groups),
        total=costs.total(y, decided),
        normalized=_or_nan(costs.normalized, y, decided),
        savings=_or_nan(costs.savings, y, decided),
        counts={name: int(mask.sum()) for name, mask in masks.items()},
        money={name: float(each[mask].sum()) for name, mask in masks.items()},
        calibration=calibration_error(probability, y, partition=Quantile(15)).error,
        deployed=float(costs.threshold) if costs.n_instances is None else None,
        cheapest=find_threshold(probability, y, costs),
        constants=(constants[0], constants[1]),
    )  # fmt: skip


def _masks(y: np.ndarray[Any, Any], decided: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    positive, called = y == 1, decided == 1
    return {"tp": positive & called, "fp": ~positive & called, "fn": positive & ~called, "tn": ~positive & ~called}


def _or_nan(measure: Any, y: Any, decided: Any) -> float:
    try:
        return float(measure(y, decided))
    except ValueError:  # a constant decision is free
        return float("nan")


def _write_rows(path: Path, classifier: CostClassifier, task: Task, found: _Found) -> None:
    import pyarrow as pa  # noqa: PLC0415

    kind = label_type(classifier.classes_)
    columns = {"label": kind, "probability": pa.float64(), "decision": kind, "cost": pa.float64()}
    with writing_table(path, columns) as write:
        write(
            {
                "label": labels_of(classifier, task.y == 1), "probability": found.probability,
                "decision": labels_of(classifier, found.decided == 1),
                "cost": as_host(task.costs.incurred(task.y, found.decided)),
            }
        )  # fmt: skip


def _document(found: _Found, task: Task, at_most: float | None, rows: Path | None) -> dict[str, Any]:
    return {
        "rows": len(task.y),
        "positives": int(task.y.sum()),
        "classes": plain_labels(task.classes),
        "cost": {"mean": found.cost.estimate, "interval": [found.cost.low, found.cost.high], "total": found.total},
        "normalized_cost": found.normalized,
        "savings": found.savings,
        "counts": found.counts,
        "money": found.money,
        "calibration_error": found.calibration,
        "threshold": found.deployed,
        "cheapest_threshold": {"value": found.cheapest.value, "mean": found.cheapest.cost / len(task.y)},
        "always_negative": found.constants[0],
        "always_positive": found.constants[1],
        "at_most": at_most,
        "passed": None if at_most is None else found.cost.estimate <= at_most,
        "written": rows,
    }


def _shown(found: _Found, task: Task, at_most: float | None) -> list[Any]:
    cheapest = found.cheapest.cost / len(task.y)
    where = "each row's own threshold" if found.deployed is None else f"{found.deployed:.4g}"
    lines = [
        f"{len(task.y)} rows, {int(task.y.sum())} of them positive ({task.classes[1]})",
        f"cost per row {found.cost.estimate:.4g}, 95 % interval {interval_text(found.cost)}; {found.total:.6g} in all",
        f"normalised cost {found.normalized:.4g} (1 is the better constant decision), savings {found.savings:.1%}",
        f"calibration error {found.calibration:.3f}",
        f"decided at probability {where}; cheapest on these rows: {found.cheapest.value:.4g}, {cheapest:.4g} per row",
        "",
        _confusion(found, task),
    ]
    if at_most is not None:
        verdict = "above" if found.cost.estimate > at_most else "not above"
        lines += ["", f"the cost per row, {found.cost.estimate:.4g}, is {verdict} the limit of {at_most:g}"]
    return lines


def _confusion(found: _Found, task: Task) -> Any:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table("", box=None, pad_edge=False)
    for name in task.classes[::-1]:
        table.add_column(Text(f"decided {name}"), justify="right")
    for name, cells in zip(task.classes[::-1], (("tp", "fn"), ("fp", "tn")), strict=True):
        table.add_row(Text(f"is {name}"), *(f"{found.counts[c]:,}  (cost {found.money[c]:.6g})" for c in cells))
    return table


__all__ = ["evaluate"]
