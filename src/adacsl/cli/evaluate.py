"""``adacsl evaluate``: what a model's decisions cost on labelled rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from adacsl.base.arrays import as_host
from adacsl.cli.chunked import ROWS, LabelledPieces, Measured, large_table
from adacsl.cli.console import PLAIN, Answer, Screen, listing
from adacsl.cli.model_folder import (
    labels_of,
    load_labelled,
    load_with_notes,
    probability_columns,
    said_in_training,
    training_share,
)
from adacsl.cli.options import ANY, FREE, Prices, Source, interval_text, rows_text, within
from adacsl.cli.output_files import check_table_file, label_type, writing_table
from adacsl.cli.policy import NONE, Limits, decide, decided_labels, timed_by

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.decision.policy import Decisions, Policy
    from adacsl.estimators.classifier import CostClassifier


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
    at_most: Annotated[float | None, within(-1e15, 1e15)] = None,
    rows: Path | None = None,
    batch_rows: Annotated[int, within(1)] = ROWS,
    device: str = "auto",
    screen: Screen = PLAIN,
) -> Answer:
    """Measure what a model's decisions cost on rows whose labels are known.

    Take rows that did not train the model: rows that did are told by their digests, and a note says so.
    Costs and target column are those of the training, unless others are given; with other costs, the model decides by
    them. Tables may be larger than memory: above --batch-rows rows they are read in pieces. A capacity, --prior em and
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
    target, prices = said_in_training(model, notes, prices)
    policy = limits.policy(classifier.policy, time_column)
    table = None if policy.needs_all_rows else large_table(classifier, data, source, prices, batch_rows)
    measured, seen = Measured(in_pieces=table is not None), 0.0
    pieces: Iterator[tuple[Task, Any]]
    if table is None:
        pieces = iter([load_labelled(classifier, data, source, target, prices)])
    else:
        read = LabelledPieces(classifier, table, source, prices, target, when=timed_by(policy))
        pieces = read.read(batch_rows)
    with nullcontext() if rows is None else writing_table(rows, _row_kinds(classifier, policy)) as write:
        for task, inputs in pieces:
            found = _decided(classifier, task, inputs, policy)
            if not seen:  # of a table in pieces, until some are met
                seen = training_share(notes.get("training_rows"), inputs, task.y)
            measured.add(task, found)
            if write is not None:
                write(_row_columns(classifier, task, found))
    reading = task.reading if table is None else read.reading
    document, rows_of = measured.document(), rows_text(measured.counts.sum(axis=0), measured.classes)
    if not measured.binary:
        shown = _shown_many(document, rows_of, measured.classes)
    else:
        # None: each row has its own, or a row's decision depends on the others
        document["threshold"] = None if policy.needs_all_rows else classifier.decision_.threshold_for(task.costs)
        shown = _shown(document, rows_of, measured.classes)
    if measured.notes:
        document |= {"notes": list(measured.notes), "prior": measured.prior}
        shown += ["", *measured.notes]
    if seen:
        screen.note(
            f"{seen:.0%} of these rows trained the model: their cost is too low to be expected of new rows; take rows "
            "that did not train it, or the estimated cost of the training"
        )
    document["training_share"] = seen
    passed = None if at_most is None else document["cost"]["mean"] <= at_most
    if at_most is not None:
        verdict = "not above" if passed else "above"
        shown += ["", f"the cost per row, {document['cost']['mean']:.4g}, is {verdict} the limit of {at_most:g}"]
    document |= {**reading.facts(), "at_most": at_most, "passed": passed, "written": rows}
    return Answer(document, tuple(shown), code=1 if passed is False else 0)


def _row_kinds(classifier: CostClassifier, policy: Policy) -> dict[str, Any]:
    """Return the columns of --rows and their kinds."""
    import pyarrow as pa  # noqa: PLC0415

    kind, plain = label_type(classifier.classes_), policy.refer is None and policy.actions is None
    chances = dict.fromkeys(probability_columns(classifier), pa.float64())
    return {"label": kind, **chances, "decision": kind if plain else pa.string(), "cost": pa.float64()}


def _row_columns(classifier: CostClassifier, task: Task, found: Decisions) -> dict[str, Any]:
    return {
        "label": labels_of(classifier, task.y),
        **probability_columns(classifier, found.probabilities),
        "decision": decided_labels(found),
        "cost": as_host(found.costs.incurred(task.y, found.actions)),
    }


def _decided(classifier: CostClassifier, task: Task, inputs: Any, policy: Policy) -> Decisions:
    from adacsl.datasets.errors import check_column  # noqa: PLC0415  pandas

    when = timed_by(policy)
    if when is not None:
        check_column(when, task.X.columns, task.source)
    probability = classifier.decision_probabilities(inputs, costs=task.costs)
    return decide(classifier, probability, task.costs, policy, None if when is None else task.X[when])


def _shown_many(found: dict[str, Any], rows_of: str, classes: tuple[str, ...]) -> list[Any]:
    constant = found["cheapest_constant"]
    actions = found.get("actions", classes)
    money, counts = np.asarray(found["money"]), np.asarray(found["counts"])
    table = listing("is", "decided", right=("rows", "cost", "share"))
    paid = [place for place in np.argsort(-money, axis=None, kind="stable")[:SHOWN] if money.flat[place] > 0]
    for i, j in (divmod(int(place), len(classes)) for place in paid):
        share = money[i, j] / money[money > 0].sum()
        table.add_row(classes[j], actions[i], f"{counts[i, j]:,}", f"{money[i, j]:.6g}", f"{share:.0%}")
    return [
        *_head(found, rows_of, classes),
        f"always {constant['decision']} would cost {constant['mean']:.4g} per row",
        *(["", "where the cost comes from:", "", table] if paid else []),
    ]


def _head(found: dict[str, Any], rows_of: str, classes: tuple[str, ...]) -> list[str]:
    cost, interval = found["cost"], interval_text(*found["cost"]["interval"])
    best = "better" if len(found.get("actions", classes)) == 2 else "best"
    return [
        rows_of + (", read in pieces: intervals are from sums" if found["in_pieces"] else ""),
        f"cost per row {cost['mean']:.4g}, 95 % interval {interval}; {cost['total']:.6g} in all",
        f"normalised cost {found['normalized_cost']:.4g} (1 is the {best} constant decision), "
        f"savings {found['savings']:.1%}",
        f"calibration error {found['calibration_error']:.3f}",
    ]


def _shown(found: dict[str, Any], rows_of: str, classes: tuple[str, ...]) -> list[Any]:
    cheapest = found["cheapest_threshold"]
    where = "each row's own threshold" if found["threshold"] is None else f"{found['threshold']:.4g}"
    return [
        *_head(found, rows_of, classes),
        f"decided at probability {where}; cheapest on these rows: {cheapest['value']:.4g}, "
        f"{cheapest['mean']:.4g} per row",
        "",
        _confusion(found, classes),
    ]


def _confusion(found: dict[str, Any], classes: tuple[str, ...]) -> Any:
    table = listing("", right=(f"decided {name}" for name in classes[::-1]))
    for name, cells in zip(classes[::-1], (("tp", "fn"), ("fp", "tn")), strict=True):
        table.add_row(f"is {name}", *(f"{found['counts'][c]:,}  (cost {found['money'][c]:.6g})" for c in cells))
    return table
