"""Checks of rows and labels: too few, too rare, copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.datasets.checks.codes import Finding, finding
from adacsl.datasets.copies import look_of
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

if TYPE_CHECKING:
    from adacsl.datasets.task import Task

ROWS = 100
"""Of fewer rows, each of five folds tests on fewer than twenty: one row more or less moves a rate by over 5 points."""
OF_A_CLASS = 30
"""From fewer rows of a class, a rate of errors of one fifth is known to no better than a third of itself."""
LEAST = 10
"""Fewer rows of a class give some of five folds one row of it, or none: nothing can be said."""
RARE = 0.01
COPIES = 0.01
"""From this share of the rows on, copies weigh enough to be more than a note."""
CHANCE = 3.0
"""Copies are taken for such where there are so many times more than chance would make."""
LOOKED_AT = 20_000
"""So many rows tell how often two rows agree in a column."""


def row_findings(task: Task) -> Iterator[Finding]:
    """Yield what looks wrong about the number of rows, the classes, and copies."""
    n = len(task.y)
    counts = np.bincount(task.y, minlength=len(task.classes))
    if n < ROWS:
        yield finding("few-rows", f"{n} rows: methods can hardly be told apart by fewer than {ROWS}; gather more rows")
    yield from _few_of_a_class(task, counts)
    if len(task.classes) == 2:
        yield from _shares(task, counts)
    yield from _copies(task)


def _few_of_a_class(task: Task, counts: Any) -> Iterator[Finding]:
    for label, count in zip(task.classes, counts.tolist(), strict=True):
        if count < OF_A_CLASS:
            text = f"{count} rows are {label!r}: with fewer than {OF_A_CLASS}, what errors about them cost is a guess"
            yield finding("few-positives", f"{text}; gather more of them", "stop" if count < LEAST else None)


def _shares(task: Task, counts: Any) -> Iterator[Finding]:
    share, label = counts[1] / counts.sum(), task.classes[1]
    if share < RARE:
        yield finding(
            "rare-positive",
            f"{share:.2%} of the rows are {label!r}: accuracy says nothing here, and deciding at 0.5 finds hardly any; "
            "look at costs, and at the number of positives rather than of rows",
        )
    ratio = float(task.costs.averaged().ratio)
    given = not any(found.code == "costs-not-given" for found in task.findings)
    if share > 0.5 and ratio > 1 and given:
        yield finding(
            "positive-is-common",
            f"{share:.0%} of the rows are {label!r}, and missing one costs {ratio:.3g} false alarms: is it the class "
            f"whose misses are dear? Otherwise name the other one (--positive {task.classes[0]})",
        )


def _copies(task: Task) -> Iterator[Finding]:
    look, n = look_of(task.X), len(task.y)
    # equal in the label too, or they would not be copies; and at the same time
    same = pd.DataFrame({"look": look, "y": task.y, "time": 0 if task.time is None else task.time}).duplicated()
    copies = int(same.sum())
    if not copies or copies <= CHANCE * _by_chance(task):
        return
    row = int(same.to_numpy().argmax())
    kind = "pictures" if task.images else "rows"
    yield finding(
        "duplicate-rows",
        f"{copies:,} of {n:,} {kind} ({copies / n:.1%}) are copies of others, label included (row {row + 1} is the "
        f"first): remove them, unless they are cases of their own; comparisons keep copies on one side of each split",
        None if copies >= COPIES * n else "note",
    )


def _by_chance(task: Task) -> float:
    """Return how many pairs of rows would be equal if columns went in pairs that tell the same.

    Of columns that have nothing to do with each other, two rows agree in all with the product of the shares with which
    they agree in each; columns of real tables depend on each other, and its square root leaves room for that.
    """
    if not isinstance(task.X, pd.DataFrame):
        return 0.0
    n = len(task.X)
    rows = np.random.default_rng(0).choice(n, min(n, LOOKED_AT), replace=False)
    seen, m = task.X.iloc[rows], len(rows)
    agree = 0.0
    for place in range(seen.shape[1]):
        sizes = np.bincount(pd.factorize(seen.iloc[:, place], use_na_sentinel=False)[0]).astype(np.float64)
        agree += np.log(max((sizes * (sizes - 1)).sum(), 1.0) / max(m * (m - 1.0), 1.0))
    return float(n * (n - 1) / 2 * np.exp(agree / 2))
