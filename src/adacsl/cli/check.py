"""``adacsl check``: errors in data, cost matrix templates, and reading and checking data in one step for training."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adacsl.cli.console import CODES_HELP, PLAIN, Answer, Screen, next_command
from adacsl.cli.options import (
    CHECK_DEFAULTS,
    COST_DEFAULTS,
    DATA_DEFAULTS,
    TIME_DEFAULTS,
    CheckOptions,
    CostOptions,
    DataOptions,
    TimeOptions,
    as_words,
    task_text,
)
from adacsl.storage.atomic import check_file
from adacsl.storage.tables import writing

if TYPE_CHECKING:
    from adacsl.datasets.findings import Checks
    from adacsl.datasets.task import Task


def load_checked(
    source: DataOptions,
    data: str | None,
    cost_options: CostOptions,
    check_options: CheckOptions,
    *,
    refuse: bool = False,
    **known: Any,
) -> tuple[Task, Checks]:
    """Return data and the findings of their checks, those about costs among them.

    ``refuse``: raise for data with an error.
    """
    from adacsl.datasets.checks import check_task  # noqa: PLC0415  pandas
    from adacsl.datasets.costs import CostWarning  # noqa: PLC0415
    from adacsl.datasets.errors import DataError  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CostWarning)
        task = source.load(data, cost_options, **known)
    checks = check_task(task, check_options.codes)
    if refuse and checks.has_errors:
        errors = [each for each in checks if each.severity == "error"]
        codes = ",".join(dict.fromkeys(each.code for each in errors))
        text = "; ".join(f"{each.text} [{each.code}]" for each in errors)
        raise DataError(f"{text}; nothing was trained: repair the data, or, if they are right, --ignore {codes}")
    return task, checks


def check(
    data: str | None = None,
    *,
    source: DataOptions = DATA_DEFAULTS,
    cost_options: CostOptions = COST_DEFAULTS,
    times: TimeOptions = TIME_DEFAULTS,
    check_options: CheckOptions = CHECK_DEFAULTS,
    write_costs: Path | None = None,
    screen: Screen = PLAIN,
) -> Answer:
    """Check data for errors: duplicates, target leakage, too few samples, and the like.

    Nothing is trained. Exit code 1 for an error that makes results worthless until it is repaired.
    docs/guide/diagnose/checks.md explains each code. `train` and `compare` run the same checks.

    Parameters
    ----------
    data
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of images per class, .npz archive, or the name of a
        built-in data set (`adacsl data`); or --sql.
    write_costs
        Write the template of a cost matrix with the classes of the data to this CSV file, which must not exist, and
        check nothing: 0 for correct predictions, 1 elsewhere, rows predicted, columns actual. Fill it in for --costs.

    Examples
    --------
    adacsl check loans.csv --target default --pos-label yes --fn 8 --fp 1
    adacsl check loans.csv --target default --pos-label yes --fn 8 --fp 1 --ignore duplicate-rows,looks-like-id
    adacsl check german-credit --json
    adacsl check flowers.csv --target kind --write-costs matrix.csv
    """
    if write_costs is not None:
        if cost_options.given:
            raise ValueError("--write-costs writes a template of costs: omit --fn, --fp, --tp, --tn and --costs")
        return _write_costs(data, source, write_costs)
    task, checks = load_checked(source, data, cost_options, check_options, time_column=times.time_column)
    skipped = f"; skipped: {', '.join(checks.ignored)}" if checks.ignored else ""
    count = "no findings" if not checks else f"{len(checks)} finding{'s' if len(checks) > 1 else ''}"
    shown: list[str] = [f"{task.name}: {task_text(task)}; {count}{skipped}"]
    if checks:
        shown += ["", *map(str, checks), "", CODES_HELP]
    if not checks.has_errors:
        shown.append(_compare_command(data, source, cost_options, times, check_options))
    document = {"data": task.name, "rows": len(task.y), "findings": checks.to_list(), "ignored": list(checks.ignored)}
    document |= task.reading.facts()
    return Answer(document, tuple(shown), code=1 if checks.has_errors else 0)


def _compare_command(data: str | None, *options: Any) -> str:
    """Return the line with the command that compares methods on the data."""
    words = [word for part in options for word in as_words(part)]
    return next_command(
        shlex.join(["adacsl", "compare", *([] if data is None else [data]), *words, "--save", "model/"])
    )


def _write_costs(data: str | None, source: DataOptions, out: Path) -> Answer:
    """Write a cost matrix with the classes of the data, 0 on the diagonal and 1 elsewhere."""
    from adacsl.base.escape import guarded  # noqa: PLC0415
    from adacsl.costs.matrix import CostMatrix  # noqa: PLC0415
    from adacsl.datasets.loading import data_classes  # noqa: PLC0415  pandas

    check_file(out)
    if out.suffix.lower() != ".csv":
        raise ValueError(f"a cost matrix is a CSV file: give --write-costs a name that ends in .csv, not {out}")
    if out.exists():
        raise FileExistsError(f"{out} exists and may hold your costs: give another name with --write-costs")
    classes = data_classes(data, target=source.target, **source.files.how)
    ones = [[float(i != j) for j in range(len(classes))] for i in range(len(classes))]
    costs = CostMatrix.from_array(ones, rows="predicted", classes=classes)
    frame = costs.to_frame().astype(int).rename(index=guarded, columns=guarded)
    with writing(out) as draft:
        draft.write_text(frame.to_csv(lineterminator="\n"), encoding="utf-8")
    document = {"classes": list(classes), "costs": ones, "rows": "predicted", "written": out}
    meaning = "row a, column b is the cost of predicting a where b is true"
    following = _compare_command(data, source, replace(COST_DEFAULTS, costs=str(out)))
    about = f"{len(classes)} classes; rows are predicted, columns are actual: {meaning}"
    return Answer(document, (about, f"written: {out}", following))
