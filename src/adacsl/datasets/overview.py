"""Overview of a data set: its columns and classes, for runs and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.datasets.task import Task

with requires("train"):
    import pandas as pd

MOST = 100
"""Number of columns that are described, the first ones."""

MOST_FREQUENT = 3
"""Number of frequent values of a text that are named."""

LONGEST = 40
"""The largest number of characters of a value; longer ones are cut."""


def overview(task: Task) -> dict[str, Any]:
    """Return rows, columns and classes as JSON values.

    ``columns`` are dicts of column, kind, missing, distinct and values (their range, or the most frequent ones);
    ``n_columns`` includes those that are not described. ``classes`` are dicts of name, rows, and at_stake: the excess
    cost if all their samples were predicted wrongly (with K classes the mean over the K - 1 wrong ones).
    """
    table = task.X if isinstance(task.X, pd.DataFrame) else pd.DataFrame()
    columns = [{"column": str(name), **_described(table[name])} for name in table.columns[:MOST]]
    return {"rows": len(task.y), "n_columns": table.shape[1], "columns": columns, "classes": _classes(task)}


def overview_frame(about: Mapping[str, Any], costs: str = "") -> pd.DataFrame:
    """Return an :func:`overview` as a table with one row per column; the rest, and ``costs``, is in ``attrs``."""
    frame = pd.DataFrame(about["columns"], columns=["column", "kind", "missing", "distinct", "values"])
    frame.attrs.update({name: about[name] for name in ("rows", "n_columns", "classes")}, costs=costs)
    return frame


def _described(column: pd.Series[Any]) -> dict[str, Any]:
    known = column.dropna()
    kind, values = _kind_and_values(known)
    distinct = (known.astype(str) if known.dtype == object else known).nunique()
    return {"kind": kind, "missing": int(column.isna().sum()), "distinct": int(distinct), "values": values}


def _kind_and_values(known: pd.Series[Any]) -> tuple[str, str]:
    dtype = known.dtype
    if pd.api.types.is_bool_dtype(dtype):
        return "yes or no", _most_frequent(known)
    if pd.api.types.is_numeric_dtype(dtype):
        numbers = known.to_numpy(dtype=np.float64)
        if not len(numbers):
            return "number", ""
        ends = (numbers.min(), np.median(numbers), numbers.max())
        low, middle, high = (f"{end:.4g}" if abs(end) < 1e4 else f"{end:,.0f}" for end in ends)
        return "number", f"{low} to {high}, half below {middle}"
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date", f"{known.min():%Y-%m-%d} to {known.max():%Y-%m-%d}" if len(known) else ""
    return "text", _most_frequent(known)


def _most_frequent(known: pd.Series[Any]) -> str:
    """Return the most frequent values with their shares; none of texts that all differ, which may be names."""
    counts = known.astype(str).value_counts()
    often = counts[counts > 1]
    if len(counts) and often.empty:
        return "all different"
    shares = [f"{_short(name)} {100 * count / len(known):.0f} %" for name, count in often[:MOST_FREQUENT].items()]
    return ", ".join([*shares, *(["..."] if len(counts) > MOST_FREQUENT else [])])


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _classes(task: Task) -> list[dict[str, Any]]:
    """Return the number of samples of each class, and their cost at stake."""
    k, y = len(task.classes), task.y
    wrong = sum(as_host(task.costs.incurred(y, (y + step) % k)) for step in range(1, k)) / (k - 1)
    stakes = np.bincount(y, wrong - as_host(task.costs.incurred(y, y)), minlength=k)
    rows = np.bincount(y, minlength=k)
    return [
        {"name": name, "rows": int(n), "at_stake": float(stake)}
        for name, n, stake in zip(task.classes, rows, stakes, strict=True)
    ]
