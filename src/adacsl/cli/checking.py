"""Data that are read and checked in one step, before a command learns from them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from adacsl.cli.options import Checking, Prices, Source

if TYPE_CHECKING:
    from adacsl.datasets.checks import Checks
    from adacsl.datasets.task import Task


def load_checked(
    source: Source, data: str | None, prices: Prices, checking: Checking, **known: Any
) -> tuple[Task, Checks]:
    """Return data, and what looks wrong about them; strange prices are among it, and nothing else is said of them."""
    from adacsl.datasets.checks.checking import check_task  # noqa: PLC0415  pandas
    from adacsl.datasets.price_checks import PriceWarning  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriceWarning)
        task = source.load(data, prices, **known)
    return task, check_task(task, checking.codes)
