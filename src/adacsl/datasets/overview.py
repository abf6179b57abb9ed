"""What the data look like: columns and classes in a few words and numbers, as a run and its report remember them."""

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
"""So many columns are described, the first ones."""

COMMONEST = 3
"""So many values of a text are named."""

LONGEST = 40
"""Longer values are cut."""


def overview(task: Task) -> dict[str, Any]:
    """Return rows, columns and classes as JSON values.

    ``columns`` are dicts of column, kind, missing, distinct and values (their range, or the commonest ones);
    ``n_columns`` counts those that are not described too. ``classes`` are dicts of name, rows, and at_stake: what
    deciding wrongly about all of them would cost above deciding rightly (about one in K - 1 wrong ways, of K classes).
    """
    table = task.X if isinstance(task.X, pd.DataFrame) else pd.DataFrame()
    columns = [{"column": str(name), **_described(table[name])} for name in table.columns[:MOST]]
    return {"rows": len(task.y), "n_columns": table.shape[1], "columns": columns, "classes": _classes(task)}


def overview_frame(told: Mapping[str, Any], costs: str = "") -> pd.DataFrame:
    """Return what :func:`overview` told as one row per column; the rest, and the costs in words, is in ``attrs``."""
    frame = pd.DataFrame(told["columns"], columns=["column", "kind", "missing", "distinct", "values"])
    frame.attrs.update({name: told[name] for name in ("rows", "n_columns", "classes")}, costs=costs)
    return frame


def _described(column: pd.Series[Any]) -> dict[str, Any]:
    known = column.dropna()
    kind, values = _kind_and_values(known)
    distinct = (known.astype(str) if known.dtype == object else known).nunique()
    return {"kind": kind, "missing": int(column.isna().sum()), "distinct": int(distinct), "values": values}


def _kind_and_values(known: pd.Series[Any]) -> tuple[str, str]:
    dtype = known.dtype
    if pd.api.types.is_bool_dtype(dtype):
        return "yes or no", _commonest(known)
    if pd.api.types.is_numeric_dtype(dtype):
        numbers = known.to_numpy(dtype=np.float64)
        if not len(numbers):
            return "number", ""
        ends = (numbers.min(), np.median(numbers), numbers.max())
        low, middle, high = (f"{end:.4g}" if abs(end) < 1e4 else f"{end:,.0f}" for end in ends)
        return "number", f"{low} to {high}, half below {middle}"
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date", f"{known.min():%Y-%m-%d} to {known.max():%Y-%m-%d}" if len(known) else ""
    return "text", _commonest(known)


def _commonest(known: pd.Series[Any]) -> str:
    """Return the commonest values with their shares; of texts that all differ nothing: they may be names."""
    counts = known.astype(str).value_counts()
    often = counts[counts > 1]
    if len(counts) and often.empty:
        return "all different"
    shares = [f"{_short(name)} {count / len(known):.0%}" for name, count in often[:COMMONEST].items()]
    return ", ".join([*shares, *(["..."] if len(counts) > COMMONEST else [])])


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _classes(task: Task) -> list[dict[str, Any]]:
    """Return how many rows each class has, and what is at stake in them."""
    k, y = len(task.classes), task.y
    wrong = sum(as_host(task.costs.incurred(y, (y + step) % k)) for step in range(1, k)) / (k - 1)
    stakes = np.bincount(y, wrong - as_host(task.costs.incurred(y, y)), minlength=k)
    rows = np.bincount(y, minlength=k)
    return [
        {"name": name, "rows": int(n), "at_stake": float(stake)}
        for name, n, stake in zip(task.classes, rows, stakes, strict=True)
    ]
