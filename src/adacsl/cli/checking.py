"""Data that are read and checked in one step, before a command learns from them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from adacsl.cli.options import Checking, Prices, Source

if TYPE_CHECKING:
    from adacsl.datasets.checks import Checks
    from adacsl.datasets.task import Task


def load_checked(
    source: Source, data: str | None, prices: Prices, checking: Checking, *, refuse: bool = False, **known: Any
) -> tuple[Task, Checks]:
    """Return data, and what looks wrong about them; strange prices are among it, and nothing else is said of them.

    ``refuse``: data with an error are no data to train on.
    """
    from adacsl.datasets.checks.checking import check_task  # noqa: PLC0415  pandas
    from adacsl.datasets.errors import DataError  # noqa: PLC0415
    from adacsl.datasets.price_checks import PriceWarning  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriceWarning)
        task = source.load(data, prices, **known)
    checks = check_task(task, checking.codes)
    if refuse and checks.stop:
        errors = [each for each in checks if each.severity == "stop"]
        codes = ",".join(dict.fromkeys(each.code for each in errors))
        told = "; ".join(f"{each.text} [{each.code}]" for each in errors)
        raise DataError(f"{told}; nothing was trained: repair the data, or, if they are right, --ignore {codes}")
    return task, checks
