"""``adacsl predict``: probabilities, decisions and expected costs of new samples."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from adacsl.base.extras import resolve
from adacsl.base.labels import label_name
from adacsl.cli.console import PLAIN, Answer, Screen, stoppable
from adacsl.cli.model_folder import decision_costs, load_model
from adacsl.cli.options import (
    COST_DEFAULTS,
    EXECUTION_DEFAULTS,
    READING_DEFAULTS,
    BatchRows,
    CostOptions,
    Device,
    ExecutionOptions,
    Folder,
    Module,
    ReadingOptions,
    split_words,
)
from adacsl.cli.policy import POLICY_DEFAULTS, PolicyOptions, timed_by
from adacsl.storage.tables import TABLE_SUFFIXES, check_table_file, writing_table

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.estimators.partitioned_predict import PredictionSummary, Request


NAMED = 5
"""Number of failed files that are named; the others are counted."""


def predict(
    model: Path,
    data: str | None = None,
    *,
    out: Path = Path("predictions.parquet"),
    keep: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    cost_options: CostOptions = COST_DEFAULTS,
    policy_options: PolicyOptions = POLICY_DEFAULTS,
    time_column: str | None = None,
    batch_rows: BatchRows = 65_536,
    device: Device = "auto",
    module: Module = None,
    folder: Folder = None,
    files: ReadingOptions = READING_DEFAULTS,
    execution: ExecutionOptions = EXECUTION_DEFAULTS,
    screen: Screen = PLAIN,
) -> Answer:
    """Predict decisions for the rows of a table or the images of a folder.

    Writes one row for each, in order: the probability of the positive class (of each class, where there are more than
    two), the decision of least expected cost and that cost. Tables may be larger than memory; a capacity and --prior em
    use all samples at once, and keep their probabilities (and the columns of --keep) in memory. Columns that the model
    does not know are ignored.

    With a folder as --out each input file gives one output file, which appears when it is complete; the same command,
    started again, predicts only what is missing. With --backend ray files are predicted in parallel on a Ray cluster,
    whose machines must all see the model, the data and --out.

    Parameters
    ----------
    model
        Folder of a saved model (`adacsl train --out`).
    data
        Table (CSV, Parquet, Excel, ...), folder of tables or images, .npz archive, or the name of a built-in data set
        (`adacsl data`); or --sql.
    out
        File to write, .parquet or .csv, which appears when it is complete; or a folder for many.
    keep
        Columns to copy into the output, with commas between them.
    time_column
        Column with the time of each sample; needed by --per.
    batch_rows
        Number of rows held in memory.
    device
        Device: auto, cpu, cuda, cuda:1 or mps.
    module
        Factory of the model's network, where that is one of your own, module:factory: a function of a module in the
        working directory or an installed one.
    folder
        Folder of the files of built-in data sets; default: the folder that ADACSL_DATA names.

    Examples
    --------
    adacsl predict model/ new.parquet --out predictions.parquet
    adacsl predict model/ new.csv --fn "0.8 * amount" --fp 5 --keep id --out predictions.csv
    adacsl predict model/ new.csv --costs matrix.csv
    adacsl predict model/ new.csv --refer 3 --capacity 200 --per day --time-column when
    adacsl predict model/ new.csv --prior em
    adacsl predict model/ parts/ --keep id --out predictions/
    adacsl predict model/ /shared/parts --keep id --backend ray --address auto --out /shared/predictions
    adacsl predict model/ --sql "select * from loans where decided is null" --db bank.duckdb --keep id
    """
    on_ray = execution.backend == "ray"
    many = on_ray or (out.suffix.lower() not in TABLE_SUFFIXES and (not out.suffix or out.is_dir()))
    if batch_rows < 1:
        raise ValueError(f"--batch-rows must be at least 1, got {batch_rows}")
    if execution.address is not None and module is not None:
        raise ValueError("--module is for predictions on this machine: omit --address")
    _check_place(out, execution, many=many)
    if not many and out.exists() and data is not None and Path(data).exists() and out.samefile(data):
        raise ValueError(f"{out} is the data to predict: give another name with --out")
    classifier, _, cost_options = load_model(model, device=device, given=cost_options, module=module)
    from adacsl.estimators.partitioned_predict import Request, result_columns  # noqa: PLC0415  pandas

    kept, results = split_words(keep), result_columns(classifier)
    doubled = [name for name in kept if name in results]
    if doubled:
        raise ValueError(f"--keep {doubled[0]}: the output has a column of that name already")
    policy = policy_options.policy(classifier.policy, time_column)
    timed_by(policy)
    request = Request(decision_costs(classifier, cost_options), policy, kept, batch_rows)
    if not many:
        return _into_file(classifier, data, out, request, screen, folder=folder, files=files)
    cluster = execution if on_ray else None
    return _into_folder(classifier, model, data, out, request, screen, files=files, device=device, cluster=cluster)


def _check_place(out: Path, execution: ExecutionOptions, *, many: bool) -> None:
    if execution.backend != "ray" and execution.n_jobs is not None:
        raise ValueError("--n-jobs is for --backend ray: one process predicts the rest, with all cores")
    if not many:
        check_table_file(out)
    elif out.suffix.lower() in TABLE_SUFFIXES:
        raise ValueError(f"--backend ray writes a folder, and {out} is the name of a file: give --out predictions/")


def _into_file(
    classifier: CostSensitiveClassifier, data: str | None, out: Path, request: Request, screen: Screen, *,
    folder: Path | None, files: ReadingOptions,
) -> Answer:  # fmt: skip
    from adacsl.estimators.inputs import open_rows  # noqa: PLC0415  pandas
    from adacsl.estimators.partitioned_predict import output_columns, predict_rows  # noqa: PLC0415

    how: Any = files.how
    opened = open_rows(
        classifier, data, rows=request.rows, extra=request.extra, folder=folder, on_error=files.on_error, how=how
    )
    columns, unit, started = output_columns(classifier, opened, request), opened.unit, time.perf_counter()
    with (
        stoppable("nothing was written; start the command again"),
        screen.progress("predicting", total=opened.total, unit=unit) as advance,
        writing_table(out, columns) as write,
    ):

        def progress(rows: int) -> None:
            advance(completed=rows, note=f"{rows / (time.perf_counter() - started):,.0f} {unit}/s")

        summary = predict_rows(classifier, opened, request, write, progress)
    broken = {"broken": opened.broken} if opened.broken else {}
    return _answer(classifier, summary, out, time.perf_counter() - started, summary.rows, unit, **broken)


def _into_folder(
    classifier: CostSensitiveClassifier, model: Path, data: str | None, out: Path, request: Request, screen: Screen, *,
    files: ReadingOptions, device: str, cluster: ExecutionOptions | None,
) -> Answer:  # fmt: skip
    from adacsl.estimators.partitioned_predict import predict_folder  # noqa: PLC0415  pandas

    execute, started = None, time.perf_counter()
    how: Any = files.how
    if cluster is not None:
        from adacsl.estimators.distributed_predict import predict_on  # noqa: PLC0415
        from adacsl.execution.executors import Placement  # noqa: PLC0415

        resolve("adacsl.integrations.ray:RayExecutor")  # fails here where Ray is missing
        execute = partial(predict_on, placement=Placement(**vars(cluster)))
    with (
        stoppable(f"what is finished is kept in {out}; the same command resumes from there"),
        screen.progress("predicting") as advance,
    ):

        def progress(summary: PredictionSummary, rows: int, total: int | None) -> None:
            speed = rows / (time.perf_counter() - started)
            advance(completed=summary.rows, total=total, note=f"{speed:,.0f} rows/s")

        result = predict_folder(
            classifier,
            model,
            data,
            out,
            request,
            how=how,
            device=device,
            execute=execute,
            progress=progress,
        )
    counts: dict[str, Any] = {"files": result.files, "resumed": result.resumed, "failed": result.failed}
    return _answer(classifier, result.summary, out, result.seconds, result.rows_now, **counts)


def _answer(
    classifier: CostSensitiveClassifier, summary: PredictionSummary, out: Path, seconds: float, now: int,
    unit: str = "rows",
    **counts: Any,
) -> Answer:  # fmt: skip
    from adacsl.datasets.readers.base import describe_left_out  # noqa: PLC0415  pandas

    rows, cost = summary.rows, summary.cost
    decided, text = _decided(classifier, summary)
    speed, mean = now / max(seconds, 1e-9), cost / rows if rows else float("nan")
    return Answer(
        {
            "out": out, "rows": rows, **decided, **counts,
            "expected_cost": {"total": cost, "mean": mean}, "seconds": round(seconds, 3),
            "rows_per_second": round(speed),
        },
        (
            f"{rows:,} {unit}: {text}, expected cost {mean:.4g} each, {cost:.6g} in all",
            *summary.notes,
            *describe_left_out(counts | {"rows": rows}),
            *_files_text(counts),
            f"{seconds:.1f} s, {speed:,.0f} {unit}/s",
            f"written: {out}",
        ),
        code=1 if counts.get("failed") else 0,
    )  # fmt: skip


def _decided(classifier: CostSensitiveClassifier, summary: PredictionSummary) -> tuple[dict[str, Any], str]:
    """Return how often each action was decided, as JSON values and as text."""
    counts, decided = dict(summary.counts), dict[str, Any]()
    if classifier.costs_.n_classes == 2 and len(counts) <= 2:
        positives = counts.get(label_name(classifier.pos_label_), 0)
        decided = {"pos_label": classifier.pos_label_, "decided_positive": positives}
        text = f"{positives:,} decided {classifier.pos_label_}"
    else:
        from adacsl.datasets.errors import listed  # noqa: PLC0415  pandas

        decided = {"decided": counts}
        often = sorted(counts.items(), key=lambda pair: -pair[1])
        text = "decided " + listed((f"{name} {count:,}" for name, count in often if count), 5)
    if summary.notes:
        decided |= {"notes": list(summary.notes), "prior": summary.prior}
    return decided, text


def _files_text(counts: dict[str, Any]) -> list[str]:
    """Return lines on files: how many there are, and which have failed."""
    if "files" not in counts:
        return []
    failed, files = counts["failed"], counts["files"]
    done = f"{files - len(failed)} of {files} files, {counts['resumed']} of them before"
    if not failed:
        return [done]
    more = f"{len(failed) - NAMED} more have failed; " if len(failed) > NAMED else ""
    return [done, *(f"failed: {line}" for line in failed[:NAMED]), f"{more}the same command tries them again"]
