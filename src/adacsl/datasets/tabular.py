"""A table as a task: which column is the label, which ones are prices and groups, and what is left as features."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.datasets.errors import DataError, did_you_mean, listed, one_line
from adacsl.datasets.labels import binary_labels
from adacsl.datasets.prices import Costs, price_column, settle_costs
from adacsl.datasets.task import Task
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

PRICE_NAMES = re.compile(r"c_(fp|fn|tp|tn)", re.IGNORECASE)

OwnCosts = Callable[[pd.DataFrame, NDArray[np.int64]], CostMatrix]


def table_task(
    frame: pd.DataFrame,
    *,
    name: str,
    target: str | None = None,
    positive: object = None,
    costs: Costs = None,
    fn_column: str | None = None,
    fp_column: str | None = None,
    group_column: str | None = None,
    drop: Sequence[str] = (),
    own_costs: OwnCosts | None = None,
    classes: tuple[str, str] | None = None,
    source: str = "",
) -> Task:
    """Return a table as a task.

    Columns of prices stay features, as an amount often is one: name them in ``drop`` where they are not known when a
    decision is made. No features are: the target, the groups, what is in ``drop``, columns called ``C_FP``, ``C_FN``,
    ``C_TP`` or ``C_TN``, and an unnamed column that counts the rows.
    """
    target = _target(frame, target, name)
    for column in (*drop, *((group_column,) if group_column else ())):
        _check_column(frame, column, name)
    y, found = binary_labels(frame[target], positive, what=f"column {target!r} of {name}")
    fn, fp = (price_column(frame, c, what=name) if c else None for c in (fn_column, fp_column))
    settled = settle_costs(costs, y, fn=fn, fp=fp, own=own_costs(frame, y) if own_costs else None)
    left_out = {target, *drop, *((group_column,) if group_column else ())}
    features = _features(frame, left_out, name)
    groups = _groups(frame, group_column, name) if group_column else None
    try:
        return Task(name, features, y, settled, groups, classes or found, source)
    except ValueError as error:
        raise DataError(one_line(error)) from error


def _target(frame: pd.DataFrame, target: str | None, name: str) -> str:
    if target is None:
        if "target" in frame.columns:
            return "target"
        raise DataError(f"which column of {name} holds the labels? Say target=...; it has {listed(frame.columns)}")
    _check_column(frame, target, name)
    return target


def _check_column(frame: pd.DataFrame, column: str, name: str) -> None:
    if column not in frame.columns:
        near = did_you_mean(column, frame.columns)
        raise DataError(f"{name} has no column {column!r}{near} (it has {listed(frame.columns)})")


def _features(frame: pd.DataFrame, left_out: Iterable[str], name: str) -> pd.DataFrame:
    out = set(left_out) | {column for column in frame.columns if PRICE_NAMES.fullmatch(str(column))}
    out |= {column for column in frame.columns if str(column).startswith("Unnamed: ") and _counts_rows(frame[column])}
    kept = [column for column in frame.columns if column not in out]
    if not kept:
        raise DataError(f"{name} has no column left to learn from: {listed(sorted(map(str, out)))} are no features")
    for column in kept:
        _check_plain(frame[column], column, name)
    features = frame[kept].reset_index(drop=True)
    features.columns = pd.Index([str(column) for column in kept])
    return features


def _counts_rows(column: pd.Series[Any]) -> bool:
    if not pd.api.types.is_integer_dtype(column.dtype):
        return False
    numbers = column.to_numpy()
    return bool((np.diff(numbers) == 1).all()) and int(numbers[0]) in (0, 1)


def _check_plain(column: pd.Series[Any], name: str, table: str) -> None:
    if column.dtype != object:
        return
    kinds = sorted({type(value).__name__ for value in column.dropna()} & {"list", "dict", "ndarray", "bytes", "set"})
    if kinds:
        raise DataError(
            f"column {name!r} of {table} holds values of type {kinds[0]}, expected numbers, text or dates: "
            "turn their parts into columns, or drop it"
        )


def _groups(frame: pd.DataFrame, column: str, name: str) -> NDArray[Any]:
    groups = frame[column].reset_index(drop=True)
    missing = groups.isna()
    if missing.any():
        raise DataError(
            f"the group column {column!r} of {name} is missing in {int(missing.sum())} rows, first in row "
            f"{int(missing.to_numpy().argmax()) + 1}: give every row a group"
        )
    return groups.to_numpy()


__all__ = ["OwnCosts", "table_task"]
