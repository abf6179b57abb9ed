"""Parts that tables of several subjects share."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.metrics.intervals import Interval
from adacsl.report.content import Table
from adacsl.report.formatting import show, show_intervals

with requires("compare"):
    import pandas as pd


def records(table: pd.DataFrame) -> Iterable[Any]:
    """Return the rows of a frame, their columns as attributes."""
    return (SimpleNamespace(**{str(name): value for name, value in row.items()}) for row in table.to_dict("records"))


def rows_with(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows that have a value in a column; none where there is no such column."""
    return table.dropna(subset=[column]) if column in table.columns else table.iloc[:0]


def stacked(parts: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    """Return frames below each other; an empty one with these columns where there are none."""
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def intervals_of(rows: pd.DataFrame, middle: str, low: str, high: str) -> list[str]:
    """Return estimates of a frame with their intervals as text."""
    return show_intervals(Interval(*row) for row in rows[[middle, low, high]].itertuples(index=False))


def table_of(caption: str, columns: dict[str, list[str]], **more: Any) -> Table:
    """Return a table of columns of text by their headers."""
    return Table(caption, list(columns), [list(row) for row in zip(*columns.values(), strict=True)], **more)


def wide_table(caption: str, head: str, frame: pd.DataFrame, *, marked: str | None = None) -> Table:
    """Return a frame as it is, its index under ``head``."""
    rows = [[str(index), *map(show, row)] for index, row in zip(frame.index, frame.to_numpy(), strict=True)]
    return Table(caption, [head, *(show(c) if isinstance(c, float) else str(c) for c in frame.columns)], rows, marked)


def curve_table(caption: str, head: str, table: pd.DataFrame, x: str, y: str) -> Table:
    """Return every twentieth of a curve over [0, 1], a column for each method."""
    every = table[np.isclose((table[x] * 20).round() / 20, table[x])]
    wide = every.pivot_table(index=x, columns="method", values=y, sort=False).sort_index()
    wide.index = pd.Index([f"{value:.2f}" for value in wide.index])
    return wide_table(caption, head, wide)


def show_whole(people: int, exact: float) -> str:
    """Return a whole number of samples; fewer than one in a mean of repeats is written as such."""
    return "<1" if people == 0 < exact else f"{people:,}"
