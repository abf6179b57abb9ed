"""``adacsl evaluate``: what a model's decisions cost on labelled rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.cli.models import labels_of, load_labelled, load_model, probability_columns
from adacsl.cli.options import ANY, FREE, Prices, Source, interval_text, task_text
from adacsl.cli.policies import NONE, Limits, decide, decided_labels, timed_by
from adacsl.cli.screen import PLAIN, Answer, Screen, listing
from adacsl.cli.writing import check_table_file, label_type, writing_table
from adacsl.core.costs import as_host, or_nan
from adacsl.core.curves import calibration_error
from adacsl.core.intervals import cost_interval
from adacsl.core.labels import plain_labels
from adacsl.core.partitions import Quantile
from adacsl.core.thresholds import find_threshold

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.estimators.policy import Decisions
    from adacsl.estimators.predicting import CostClassifier

SHOWN = 10
"""So many kinds of error are printed, the dearest first."""


def evaluate(
    model: Path,
    data: str | None = None,
    *,
    source: Source = ANY,
    prices: Prices = FREE,
    limits: Limits = NONE,
    time_column: str | None = None,
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
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of pictures per class, .npz archive, or a name
        (`adacsl data`); or --sql.
    time_column
        With --per: the column with the date of each row.
    at_most
        Exit with 1 if the mean cost per row is above this.
    rows
        Write label, probability, decision and cost of each row to this file (.parquet, .csv).
    device
        auto, cpu, cuda, cuda:1 or mps.

    Examples
    --------
    adacsl evaluate model/ test.csv --target default
    adacsl evaluate model/ test.csv --at-most 0.3 --json
    adacsl evaluate model/ test.csv --costs matrix.csv
    adacsl evaluate model/ test.csv --refer 3 --refer-errors 0.02 --capacity 200 --per day --time-column when
    """
    from adacsl.datasets.errors import check_column  # noqa: PLC0415  pandas

    if rows is not None:
        check_table_file(rows)
    classifier, target, prices = load_model(model, device=device, said=prices)
    task, inputs = load_labelled(classifier, data, source, target, prices)
    policy = limits.policy(classifier.policy, time_column)
    when = timed_by(policy)
    if when is not None:
        check_column(when, task.X.columns, task.source)
    probability = classifier.decision_probabilities(inputs, costs=task.costs)
    found = decide(classifier, probability, task.costs, policy, None if when is None else task.X[when])
    if rows is not None:
        _write_rows(rows, classifier, task, found)
    if len(task.classes) > 2 or not found.costs.square:
        document = _of_many(task, found)
        shown = _shown_many(document, task)
    else:
        document = _document(task, found.probabilities, found.actions)
        # None: each row has its own, or a row's decision depends on the others
        document["threshold"] = None if policy.needs_all_rows else classifier.decision_.threshold_for(task.costs)
        shown = _shown(document, task)
    if found.notes:
        document |= {"notes": list(found.notes), "prior": found.prior}
        shown += ["", *found.notes]
    passed = None if at_most is None else document["cost"]["mean"] <= at_most
    if at_most is not None:
        verdict = "not above" if passed else "above"
        shown += ["", f"the cost per row, {document['cost']['mean']:.4g}, is {verdict} the limit of {at_most:g}"]
    document |= {**task.reading.facts(), "at_most": at_most, "passed": passed, "written": rows}
    return Answer(document, tuple(shown), code=1 if passed is False else 0)


def _write_rows(path: Path, classifier: CostClassifier, task: Task, found: Decisions) -> None:
    import pyarrow as pa  # noqa: PLC0415

    kind = label_type(classifier.classes_)
    chances = probability_columns(classifier, found.probabilities)
    columns = {
        "label": (kind, labels_of(classifier, task.y)),
        **{name: (pa.float64(), column) for name, column in chances.items()},
        "decision": (kind if found.costs.square else pa.string(), decided_labels(found)),
        "cost": (pa.float64(), as_host(found.costs.incurred(task.y, found.actions))),
    }
    with writing_table(path, {name: kind for name, (kind, _) in columns.items()}) as write:
        write({name: values for name, (_, values) in columns.items()})


def _document(task: Task, probability: np.ndarray[Any, Any], decided: np.ndarray[Any, Any]) -> dict[str, Any]:
    from adacsl.experiments.measures import measure  # noqa: PLC0415  torch

    costs, y = task.costs, task.y
    measured = measure(decided == 1, y, costs)
    each, is_, called = as_host(costs.incurred(y, decided)), y == 1, decided == 1
    masks = {"tp": is_ & called, "fp": ~is_ & called, "fn": is_ & ~called, "tn": ~is_ & ~called}
    cost = cost_interval(costs, y, decided, groups=task.groups)
    cheapest = find_threshold(probability, y, costs)
    return {
        "rows": len(y),
        "positives": int(y.sum()),
        "classes": plain_labels(task.classes),
        "cost": {"mean": cost.estimate, "interval": [cost.low, cost.high], "total": measured["total_cost"]},
        "normalized_cost": measured["normalized_cost"],
        "savings": measured["savings"],
        "counts": {name: int(mask.sum()) for name, mask in masks.items()},
        "money": {name: float(each[mask].sum()) for name, mask in masks.items()},
        "calibration_error": calibration_error(probability, y, partition=Quantile(15)).error,
        "cheapest_threshold": {"value": cheapest.value, "mean": cheapest.cost / len(y)},
        "always_negative": costs.mean(y, np.zeros(len(y), int)),
        "always_positive": costs.mean(y, np.ones(len(y), int)),
    }


def _of_many(task: Task, found: Decisions) -> dict[str, Any]:
    """Return the measurements of more than two classes, or of other actions; matrices are decided x actual."""
    costs, y, decided = found.costs, task.y, found.actions
    proba = found.probabilities
    cost = cost_interval(costs, y, decided, groups=task.groups)
    sure, right = (proba, y) if proba.ndim == 1 else (proba.max(axis=1), proba.argmax(axis=1) == y)
    names = plain_labels(task.classes) if costs.square else list(found.counts)
    constant = [costs.mean(y, np.full(len(y), i)) for i in range(len(names))]
    cheapest = int(np.argmin(constant))
    shape = (len(names), len(task.classes))
    return {
        "rows": len(y),
        "classes": plain_labels(task.classes),
        **({} if costs.square else {"actions": names}),
        "cost": {"mean": cost.estimate, "interval": [cost.low, cost.high], "total": costs.total(y, decided)},
        "normalized_cost": or_nan(costs.normalized, y, decided),
        "savings": or_nan(costs.savings, y, decided),
        "counts": np.bincount(decided * shape[1] + y, minlength=shape[0] * shape[1]).reshape(shape).tolist(),
        "money": costs.confusion(y, decided).tolist(),
        "calibration_error": calibration_error(sure, right, partition=Quantile(15)).error,
        "cheapest_constant": {"decision": names[cheapest], "mean": constant[cheapest]},
    }


def _shown_many(found: dict[str, Any], task: Task) -> list[Any]:
    constant, classes = found["cheapest_constant"], task.classes
    actions = found.get("actions", classes)
    money, counts = np.asarray(found["money"]), np.asarray(found["counts"])
    table = listing("is", "decided", right=("rows", "cost", "share"))
    paid = [place for place in np.argsort(-money, axis=None, kind="stable")[:SHOWN] if money.flat[place] > 0]
    for i, j in (divmod(int(place), len(classes)) for place in paid):
        share = money[i, j] / money[money > 0].sum()
        table.add_row(classes[j], actions[i], f"{counts[i, j]:,}", f"{money[i, j]:.6g}", f"{share:.0%}")
    return [
        *_head(found, task),
        f"always {constant['decision']} would cost {constant['mean']:.4g} per row",
        *(["", "where the cost comes from:", "", table] if paid else []),
    ]


def _head(found: dict[str, Any], task: Task) -> list[str]:
    cost, interval = found["cost"], interval_text(*found["cost"]["interval"])
    best = "better" if len(found.get("actions", task.classes)) == 2 else "best"
    return [
        task_text(task),
        f"cost per row {cost['mean']:.4g}, 95 % interval {interval}; {cost['total']:.6g} in all",
        f"normalised cost {found['normalized_cost']:.4g} (1 is the {best} constant decision), "
        f"savings {found['savings']:.1%}",
        f"calibration error {found['calibration_error']:.3f}",
    ]


def _shown(found: dict[str, Any], task: Task) -> list[Any]:
    cheapest = found["cheapest_threshold"]
    where = "each row's own threshold" if found["threshold"] is None else f"{found['threshold']:.4g}"
    return [
        *_head(found, task),
        f"decided at probability {where}; cheapest on these rows: {cheapest['value']:.4g}, "
        f"{cheapest['mean']:.4g} per row",
        "",
        _confusion(found, task.classes),
    ]


def _confusion(found: dict[str, Any], classes: tuple[str, ...]) -> Any:
    table = listing("", right=(f"decided {name}" for name in classes[::-1]))
    for name, cells in zip(classes[::-1], (("tp", "fn"), ("fp", "tn")), strict=True):
        table.add_row(f"is {name}", *(f"{found['counts'][c]:,}  (cost {found['money'][c]:.6g})" for c in cells))
    return table
