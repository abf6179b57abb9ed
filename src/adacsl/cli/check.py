"""``adacsl check``: faults of data; and data that are read and checked in one step, before a command trains on them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from adacsl.cli.console import PLAIN, Answer, Screen
from adacsl.cli.options import ALL, ANY, FREE, NEVER, Checking, Prices, Source, Times, task_text

if TYPE_CHECKING:
    from adacsl.datasets.findings import Checks
    from adacsl.datasets.task import Task


def load_checked(
    source: Source, data: str | None, prices: Prices, checking: Checking, *, refuse: bool = False, **known: Any
) -> tuple[Task, Checks]:
    """Return data and the findings of their checks, strange costs among them.

    ``refuse``: data with an error are no data to train on.
    """
    from adacsl.datasets.checks import check_task  # noqa: PLC0415  pandas
    from adacsl.datasets.costs import CostWarning  # noqa: PLC0415
    from adacsl.datasets.errors import DataError  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CostWarning)
        task = source.load(data, prices, **known)
    checks = check_task(task, checking.codes)
    if refuse and checks.has_errors:
        errors = [each for each in checks if each.severity == "error"]
        codes = ",".join(dict.fromkeys(each.code for each in errors))
        text = "; ".join(f"{each.text} [{each.code}]" for each in errors)
        raise DataError(f"{text}; nothing was trained: repair the data, or, if they are right, --ignore {codes}")
    return task, checks


def check(
    data: str | None = None,
    *,
    source: Source = ANY,
    prices: Prices = FREE,
    times: Times = NEVER,
    checking: Checking = ALL,
    screen: Screen = PLAIN,
) -> Answer:
    """Look for what is wrong with data: copies, columns that give the label away, too few rows, and the like.

    Nothing is trained. Exit code 1 if something is found that makes results worthless until it is repaired (stop).
    docs/checks.md says of each code what it means, and what to do. `train` and `compare` check too.

    Parameters
    ----------
    data
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of pictures per class, .npz archive, or a name
        (`adacsl data`); or --sql.

    Examples
    --------
    adacsl check loans.csv --target default --pos-label yes --fn 8 --fp 1
    adacsl check loans.csv --target default --pos-label yes --fn 8 --fp 1 --ignore duplicate-rows,looks-like-id
    adacsl check german-credit --json
    """
    task, checks = load_checked(source, data, prices, checking, time_column=times.time_column)
    silenced = f"; silenced: {', '.join(checks.ignored)}" if checks.ignored else ""
    count = "nothing was found" if not checks else f"{len(checks)} finding{'s' if len(checks) > 1 else ''}"
    shown = [f"{task.name}: {task_text(task)}; {count}{silenced}"]
    if checks:
        shown += ["", *map(str, checks), "", "what each [code] means: docs/checks.md; to silence one: --ignore CODE"]
    document = {"data": task.name, "rows": len(task.y), "findings": checks.to_list(), "ignored": list(checks.ignored)}
    document |= task.reading.facts()
    return Answer(document, tuple(shown), code=1 if checks.has_errors else 0)
