"""``adacsl evaluate``: the cost of a model's decisions on labelled samples."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from adacsl.base.arrays import as_host
from adacsl.cli.console import PLAIN, Answer, Screen, listing, next_command
from adacsl.cli.model_folder import (
    TrainingOverlap,
    check_positive,
    decision_costs,
    load_labelled,
    load_with_notes,
    noted_options,
)
from adacsl.cli.options import (
    BATCH_ROWS,
    COST_DEFAULTS,
    DATA_DEFAULTS,
    BatchRows,
    CostOptions,
    DataOptions,
    Device,
    Module,
    as_words,
    interval_text,
    rows_text,
    split_words,
    within,
)
from adacsl.cli.policy import POLICY_DEFAULTS, PolicyOptions, timed_by
from adacsl.storage.atomic import at_home
from adacsl.storage.tables import check_table_file, label_type, writing_table

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.decision.policy import Decisions, Policy
    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.estimators.evaluation import Evaluation
    from adacsl.estimators.inputs import LabelledBatch, LabelledTable


SHOWN = 10
"""Number of kinds of error that are printed, the most costly first."""


def evaluate(
    model: Path,
    data: str | None = None,
    *,
    source: DataOptions = DATA_DEFAULTS,
    cost_options: CostOptions = COST_DEFAULTS,
    policy_options: PolicyOptions = POLICY_DEFAULTS,
    time_column: str | None = None,
    at_most: Annotated[float | None, within(-1e15, 1e15)] = None,
    out: Path | None = None,
    batch_rows: BatchRows = BATCH_ROWS,
    device: Device = "auto",
    module: Module = None,
    screen: Screen = PLAIN,
) -> Answer:
    """Measure the cost of a model's decisions on labelled samples.

    Use samples that did not train the model: training samples are recognised by their digests, with a warning. Costs
    and target column are those of the training, unless others are given; with other costs, the model decides by them.
    Tables may be larger than memory, and the answer does not depend on --batch-rows. A capacity, --prior em and
    --costs balanced use all samples at once, and hold them in memory.

    Parameters
    ----------
    model
        Folder of a saved model (`adacsl train --out`).
    data
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of images per class, .npz archive, or the name of a
        built-in data set (`adacsl data`); or --sql.
    time_column
        Column with the time of each sample; needed by --per.
    at_most
        Exit with 1 if the mean cost per sample is above this.
    out
        Write label, probability, decision and cost of each sample to this file (.parquet, .csv).
    batch_rows
        Number of rows held in memory.
    device
        Device: auto, cpu, cuda, cuda:1 or mps.
    module
        Factory of the model's network, where that is one of your own, module:factory: a function of a module in the
        working directory or an installed one.

    Examples
    --------
    adacsl evaluate model/ test.csv --target default
    adacsl evaluate model/ test.csv --at-most 0.3 --json
    adacsl evaluate model/ test.csv --costs matrix.csv
    adacsl evaluate model/ test.csv --refer 3 --refer-errors 0.02 --capacity 200 --per day --time-column when
    """
    if out is not None:
        check_table_file(out)
    classifier, notes = load_with_notes(model, device=device, module=module)
    given = cost_options
    target, cost_options = noted_options(model, notes, cost_options)
    policy = policy_options.policy(classifier.policy, time_column)
    from adacsl.estimators.evaluation import Evaluator  # noqa: PLC0415  scikit-learn

    batches, labelled = _labelled(classifier, data, source, cost_options, target, policy, batch_rows)
    evaluator, overlap = Evaluator(classifier, policy), TrainingOverlap(notes.get("training_rows"))
    with nullcontext() if out is None else writing_table(out, _column_types(classifier, policy)) as write:
        for batch in batches:
            decisions = evaluator.update(batch)
            overlap.update(batch.X, batch.y)
            if write is not None:
                write(_columns(classifier, batch, decisions))
    result = evaluator.result()
    shown = [*_shown(result), *(["", *result.notes] if result.notes else [])]
    if overlap.share:
        screen.warn(
            f"{100 * overlap.share:.0f} % of these samples were used for training: their cost is lower than "
            f"that of new samples; "
            "use samples that were not, or the cost estimated in training"
        )
    passed = None if at_most is None else result.cost.estimate <= at_most
    if at_most is not None:
        how = "not above" if passed else "above"
        shown += ["", f"the mean cost per sample, {result.cost.estimate:.4g}, is {how} the limit of {at_most:g}"]
    words = [word for part in (source, given, policy_options) for word in as_words(part)]
    words += [] if time_column is None else ["--time-column", time_column]
    shown += ["", _next(classifier, model, data, words, [] if module is None else ["--module", module])]
    document = result.to_dict() | {"training_share": overlap.share, **labelled.reading.facts()}
    document |= {"at_most": at_most, "passed": passed, "written": out}
    return Answer(document, tuple(shown), code=1 if passed is False else 0)


def _next(
    classifier: CostSensitiveClassifier, model: Path, data: str | None, words: list[str], module: list[str]
) -> str:
    """Return the line with the command that explains the cost of a table, or serves a model of images."""
    from adacsl.estimators.inputs import n_classes, takes_images  # noqa: PLC0415  pandas

    if takes_images(classifier) or (n_classes(classifier) > 2 and "--costs" in words):
        return next_command(shlex.join(["adacsl", "serve", str(model), *module]))
    named = [] if data is None else [data]
    return next_command(shlex.join(["adacsl", "explain", str(model), *named, *words, *module]))


def _labelled(
    classifier: CostSensitiveClassifier, data: str | None, source: DataOptions, cost_options: CostOptions,
    target: str | None, policy: Policy, rows: int,
) -> tuple[Iterator[LabelledBatch], LabelledTable | Task]:  # fmt: skip
    """Return the labelled samples of any data in batches, and their source; images and built-in data are one batch."""
    from adacsl.datasets.errors import check_column  # noqa: PLC0415  pandas
    from adacsl.datasets.readers.formats import check_words, open_table  # noqa: PLC0415
    from adacsl.estimators.inputs import LabelledBatch, LabelledTable, n_classes, opens_as_table  # noqa: PLC0415

    how: Any = source.files.how
    check_words(data, how)
    time_column = timed_by(policy)
    if not opens_as_table(data):
        task, inputs = load_labelled(classifier, data, source, target, cost_options)
        if time_column is not None:
            check_column(time_column, task.X.columns, task.source)
        times = None if time_column is None else task.X[time_column]
        return iter([LabelledBatch(inputs, task.y, task.costs, task.groups, times)]), task
    balanced = cost_options.costs == "balanced" and n_classes(classifier) == 2
    table = LabelledTable(
        classifier, open_table(None if data is None else at_home(data), **how), target=source.target or target,
        costs="balanced" if balanced else decision_costs(classifier, cost_options), group_column=source.group_column,
        time_column=time_column, drop=split_words(source.drop), on_error=source.files.on_error,
    )  # fmt: skip
    check_positive(classifier, source.pos_label)
    return table.batches(None if balanced or policy.needs_all_rows else rows), table


def _column_types(classifier: CostSensitiveClassifier, policy: Policy) -> dict[str, Any]:
    """Return the columns of --out and their pyarrow types."""
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
        f"mean cost per sample {cost.estimate:.4g}, 95 % interval {interval_text(*cost[1:])}; "
        f"{result.total_cost:.6g} in all",
        f"normalised cost {result.normalized_cost:.4g} (1 is the {best} constant baseline), "
        f"savings {100 * result.savings:.1f} %",
        f"calibration error {result.calibration_error:.3f}",
    ]
    if result.best_threshold is None:
        return [*head, *_shown_actions(result)]
    optimum = result.best_threshold
    where = "each sample's own threshold" if result.threshold is None else f"{result.threshold:.4g}"
    return [
        *head,
        f"threshold of the probability: {where}; cost-optimal on these samples: {optimum.value:.4g}, "
        f"{optimum.cost:.4g} per sample",
        "",
        _confusion(result),
    ]


def _shown_actions(result: Evaluation) -> list[Any]:
    """Return the best constant baseline, and the errors that cost most."""
    costs, counts, classes = result.costs, result.counts, result.classes
    least = int(np.argmin(result.constant_costs))
    table = listing("actual", "decided", right=("samples", "cost", "share"))
    largest = [place for place in np.argsort(-costs, axis=None, kind="stable")[:SHOWN] if costs.flat[place] > 0]
    for i, j in (divmod(int(place), len(classes)) for place in largest):
        share = costs[i, j] / costs[costs > 0].sum()
        table.add_row(classes[j], result.actions[i], f"{counts[i, j]:,}", f"{costs[i, j]:.6g}", f"{100 * share:.0f} %")
    return [
        f"always {result.actions[least]} would cost {result.constant_costs[least]:.4g} per sample",
        *(["", "where the cost comes from:", "", table] if largest else []),
    ]


def _confusion(result: Evaluation) -> Any:
    table = listing("", right=(f"decided {name}" for name in result.classes[::-1]))
    for label in (1, 0):
        cells = (f"{result.counts[action, label]:,}  (cost {result.costs[action, label]:.6g})" for action in (1, 0))
        table.add_row(f"actual {result.classes[label]}", *cells)
    return table
