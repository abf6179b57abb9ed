"""``adacsl evaluate``: what a model's decisions cost on labelled rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from adacsl.base.arrays import as_host
from adacsl.cli.console import PLAIN, Answer, Screen, listing
from adacsl.cli.model_folder import (
    TrainingOverlap,
    check_positive,
    decision_costs,
    load_labelled,
    load_with_notes,
    noted_options,
)
from adacsl.cli.options import ANY, BATCH_ROWS, FREE, Prices, Source, interval_text, rows_text, split_words, within
from adacsl.cli.policy import NONE, Limits, timed_by
from adacsl.storage.atomic import at_home
from adacsl.storage.tables import check_table_file, label_type, writing_table

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.decision.policy import Decisions, Policy
    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.estimators.evaluation import Evaluation
    from adacsl.estimators.inputs import LabelledBatch, LabelledTable


SHOWN = 10
"""So many kinds of error are printed, the most costly first."""


def evaluate(
    model: Path,
    data: str | None = None,
    *,
    source: Source = ANY,
    prices: Prices = FREE,
    limits: Limits = NONE,
    time_column: str | None = None,
    at_most: Annotated[float | None, within(-1e15, 1e15)] = None,
    rows: Path | None = None,
    batch_rows: Annotated[int, within(1)] = BATCH_ROWS,
    device: str = "auto",
    screen: Screen = PLAIN,
) -> Answer:
    """Measure what a model's decisions cost on rows whose labels are known.

    Take rows that did not train the model: rows that did are recognised by their digests, and a note says so.
    Costs and target column are those of the training, unless others are given; with other costs, the model decides by
    them. Tables may be larger than memory, and the answer does not depend on --batch-rows. A capacity, --prior em and
    --costs balanced look at all rows at once, and hold them in memory.

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
    batch_rows
        How many rows to hold in memory.
    device
        auto, cpu, cuda, cuda:1 or mps.

    Examples
    --------
    adacsl evaluate model/ test.csv --target default
    adacsl evaluate model/ test.csv --at-most 0.3 --json
    adacsl evaluate model/ test.csv --costs matrix.csv
    adacsl evaluate model/ test.csv --refer 3 --refer-errors 0.02 --capacity 200 --per day --time-column when
    """
    if rows is not None:
        check_table_file(rows)
    classifier, notes = load_with_notes(model, device=device)
    target, prices = noted_options(model, notes, prices)
    policy = limits.policy(classifier.policy, time_column)
    from adacsl.estimators.evaluation import Evaluator  # noqa: PLC0415  scikit-learn

    batches, labelled = _labelled(classifier, data, source, prices, target, policy, batch_rows)
    evaluator, overlap = Evaluator(classifier, policy), TrainingOverlap(notes.get("training_rows"))
    with nullcontext() if rows is None else writing_table(rows, _column_types(classifier, policy)) as write:
        for batch in batches:
            decisions = evaluator.update(batch)
            overlap.update(batch.X, batch.y)
            if write is not None:
                write(_columns(classifier, batch, decisions))
    result = evaluator.result()
    shown = [*_shown(result), *(["", *result.notes] if result.notes else [])]
    if overlap.share:
        screen.note(
            f"{overlap.share:.0%} of these rows trained the model: their cost is too low to be expected of new rows; "
            "take rows that did not train it, or the estimated cost of the training"
        )
    passed = None if at_most is None else result.cost.estimate <= at_most
    if at_most is not None:
        recommendation = "not above" if passed else "above"
        shown += ["", f"the cost per row, {result.cost.estimate:.4g}, is {recommendation} the limit of {at_most:g}"]
    document = result.to_dict() | {"training_share": overlap.share, **labelled.reading.facts()}
    document |= {"at_most": at_most, "passed": passed, "written": rows}
    return Answer(document, tuple(shown), code=1 if passed is False else 0)


def _labelled(
    classifier: CostSensitiveClassifier, data: str | None, source: Source, prices: Prices, target: str | None,
    policy: Policy, rows: int,
) -> tuple[Iterator[LabelledBatch], LabelledTable | Task]:  # fmt: skip
    """Return the labelled rows of any data in batches, and their source: images and built-in data are one batch."""
    from adacsl.datasets.errors import check_column  # noqa: PLC0415  pandas
    from adacsl.datasets.readers.formats import check_words, open_table  # noqa: PLC0415
    from adacsl.estimators.inputs import LabelledBatch, LabelledTable, n_classes, opens_as_table  # noqa: PLC0415

    how: Any = source.files.how
    check_words(data, how)
    time_column = timed_by(policy)
    if not opens_as_table(data):
        task, inputs = load_labelled(classifier, data, source, target, prices)
        if time_column is not None:
            check_column(time_column, task.X.columns, task.source)
        times = None if time_column is None else task.X[time_column]
        return iter([LabelledBatch(inputs, task.y, task.costs, task.groups, times)]), task
    balanced = prices.costs == "balanced" and n_classes(classifier) == 2
    table = LabelledTable(
        classifier, open_table(None if data is None else at_home(data), **how), target=source.target or target,
        costs="balanced" if balanced else decision_costs(classifier, prices), group_column=source.group_column,
        time_column=time_column, drop=split_words(source.drop), on_error=source.files.on_error,
    )  # fmt: skip
    check_positive(classifier, source.pos_label)
    return table.batches(None if balanced or policy.needs_all_rows else rows), table


def _column_types(classifier: CostSensitiveClassifier, policy: Policy) -> dict[str, Any]:
    """Return the columns of --rows and their pyarrow types."""
    import pyarrow as pa  # noqa: PLC0415

    from adacsl.estimators.inputs import probability_columns  # noqa: PLC0415
    from adacsl.estimators.partitioned_predict import decision_type  # noqa: PLC0415

    probabilities = dict.fromkeys(probability_columns(classifier), pa.float64())
    decision = decision_type(classifier, policy)
    return {"label": label_type(classifier.classes_), **probabilities, **decision, "cost": pa.float64()}


def _columns(classifier: CostSensitiveClassifier, batch: LabelledBatch, decisions: Decisions) -> dict[str, Any]:
    from adacsl.estimators.inputs import labels_of, probability_columns  # noqa: PLC0415  scikit-learn
    from adacsl.estimators.partitioned_predict import decision_column  # noqa: PLC0415

    return {
        "label": labels_of(classifier, batch.y),
        **probability_columns(classifier, decisions.probabilities),
        "decision": decision_column(decisions),
        "cost": as_host(decisions.costs.incurred(batch.y, decisions.actions)),
    }


def _shown(result: Evaluation) -> list[Any]:
    cost, best = result.cost, "better" if len(result.actions) == 2 else "best"
    head = [
        rows_text(result.counts.sum(axis=0), result.classes),
        f"cost per row {cost.estimate:.4g}, 95 % interval {interval_text(*cost[1:])}; {result.total_cost:.6g} in all",
        f"normalised cost {result.normalized_cost:.4g} (1 is the {best} constant decision), "
        f"savings {result.savings:.1%}",
        f"calibration error {result.calibration_error:.3f}",
    ]
    if result.best_threshold is None:
        return [*head, *_shown_actions(result)]
    optimum = result.best_threshold
    where = "each row's own threshold" if result.threshold is None else f"{result.threshold:.4g}"
    return [
        *head,
        f"decided at probability {where}; cheapest on these rows: {optimum.value:.4g}, {optimum.cost:.4g} per row",
        "",
        _confusion(result),
    ]


def _shown_actions(result: Evaluation) -> list[Any]:
    """Return the best constant decision, and where the cost comes from."""
    costs, counts, classes = result.costs, result.counts, result.classes
    least = int(np.argmin(result.constant_costs))
    table = listing("is", "decided", right=("rows", "cost", "share"))
    largest = [place for place in np.argsort(-costs, axis=None, kind="stable")[:SHOWN] if costs.flat[place] > 0]
    for i, j in (divmod(int(place), len(classes)) for place in largest):
        share = costs[i, j] / costs[costs > 0].sum()
        table.add_row(classes[j], result.actions[i], f"{counts[i, j]:,}", f"{costs[i, j]:.6g}", f"{share:.0%}")
    return [
        f"always {result.actions[least]} would cost {result.constant_costs[least]:.4g} per row",
        *(["", "where the cost comes from:", "", table] if largest else []),
    ]


def _confusion(result: Evaluation) -> Any:
    table = listing("", right=(f"decided {name}" for name in result.classes[::-1]))
    for label in (1, 0):
        cells = (f"{result.counts[action, label]:,}  (cost {result.costs[action, label]:.6g})" for action in (1, 0))
        table.add_row(f"is {result.classes[label]}", *cells)
    return table
