"""Checks of rows and labels: too few, too rare, copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.datasets.checks.codes import Finding, finding
from adacsl.datasets.copies import look_of
from adacsl.datasets.errors import listed
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
COMMON = 0.6
"""A class is called common where it clearly is: of two alike, either may be the dear one."""
COPIES = 0.01
"""From this share of the rows on, copies weigh enough to be more than a note."""
ALONE = 0.5
"""Rows are taken for copies where so many of them share a value with nobody but their copies: in coarse columns
different cases are equal by chance."""
LOOKED_AT = 2000
"""So many rows with equal ones tell whether they are copies."""


def row_findings(task: Task, names: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield what looks wrong about the number of rows, the classes, and copies; ``names`` are columns that name rows.

    Rows that differ in nothing but their names are copies.
    """
    n = len(task.y)
    counts = np.bincount(task.y, minlength=len(task.classes))
    if n < ROWS:
        yield finding("few-rows", f"{n} rows: methods can hardly be told apart by fewer than {ROWS}; gather more rows")
    yield from _few_of_a_class(task, counts)
    if len(task.classes) == 2:
        yield from _shares(task, counts)
    yield from _copies(task, list(names))


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
            f"{share:.2%} of the rows are {label!r}: accuracy says nothing here, as a rule that finds none is right "
            f"about {1 - share:.2%}; look at costs, and at the number of positives rather than of rows",
        )
    ratio = float(task.costs.averaged().ratio)
    given = not any(found.code == "costs-not-given" for found in task.findings)
    if share > COMMON and ratio > 1 and given:
        yield finding(
            "positive-is-common",
            f"{share:.0%} of the rows are {label!r}, and missing one costs {ratio:.3g} false alarms: is it the class "
            f"whose misses are dear? Otherwise name the other one (--positive {task.classes[0]})",
        )


def _copies(task: Task, names: list[str]) -> Iterator[Finding]:
    table = task.X.drop(columns=names) if names and len(names) < task.X.shape[1] else task.X
    # equal in the label too, or they would not be copies; and at the same time
    keys = pd.DataFrame({"look": look_of(table), "y": task.y, "time": 0 if task.time is None else task.time})
    same, n = keys.duplicated().to_numpy(), len(task.y)
    copies = int(same.sum())
    if not copies or (isinstance(table, pd.DataFrame) and _share_alone(table, keys) < ALONE):
        return
    kind = "pictures" if task.images else "rows"
    but = f" but for {listed(map(repr, names))}" if names else ""
    kept = "" if names else "; comparisons keep copies on one side of a split"
    yield finding(
        "duplicate-rows",
        f"{copies:,} of {n:,} {kind} ({copies / n:.1%}) are copies of others{but}, label included (row "
        f"{same.argmax() + 1} is the first): remove them, unless they are cases of their own{kept}",
        None if copies >= COPIES * n else "note",
    )


def _share_alone(table: pd.DataFrame, keys: pd.DataFrame) -> float:
    """Return the share of rows with equal ones that have some value in common with these and nobody else."""
    equal = np.flatnonzero(keys.duplicated(keep=False).to_numpy())
    sizes = keys.iloc[equal].groupby(list(keys), sort=False)["y"].transform("size").to_numpy()[:LOOKED_AT]
    alone = np.zeros(len(sizes), dtype=bool)
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        own = column.iloc[equal[:LOOKED_AT]]
        counts = column[column.isin(own.unique())].value_counts()  # of values that are there: no gaps
        alone |= own.map(counts).to_numpy(dtype=np.float64, na_value=np.nan) == sizes
    return float(alone.mean())
