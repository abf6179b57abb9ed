"""Turns raw tables into what boosters eat: every column stays one column, gaps stay gaps, categories become codes.

Numbers, booleans and durations stay as they are; dates become seconds; text and categories become the position of their
level among those seen in training, declared categorical to the booster. Text that is all numbers (or all ISO dates)
counts as such, unless its column was declared a category. Missing values and levels never seen in training are NaN.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from adacsl.estimators.tables import (
    _check_size,
    _Column,
    _dates,
    _levels,
    _lookup,
    _numbers,
    _parse_dates,
    _parse_numbers,
    _read,
)

FORMAT = 1
"""Version of the layout that :meth:`ColumnEncoder.to_dict` writes."""


@dataclass(frozen=True)
class Column:
    """What a column is, and the levels of a category, sorted."""

    name: str
    kind: str
    levels: list[str]

    def encode(self, column: _Column) -> NDArray[np.float64]:
        """Return the column as floats."""
        if self.kind == "number":
            return _numbers(column)
        if self.kind == "date":
            return _dates(column)
        position = _lookup(self.levels, _levels(column))
        return np.where(position < 0, np.nan, position)


class ColumnEncoder:
    """Encode a numpy, pandas, polars or pyarrow table as a float64 matrix of the same columns.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"amount": [1.0, None, 30.0], "shop": ["web", "city", None]})
    >>> encoder = ColumnEncoder().fit(table)
    >>> encoder.transform(table).tolist()
    [[1.0, 1.0], [nan, 0.0], [30.0, nan]]
    >>> encoder.categories
    (1,)
    """

    columns: list[Column]

    def fit(self, X: Any) -> ColumnEncoder:  # noqa: N803
        """Learn kinds and levels."""
        table = _read(X)
        _check_size(table)
        declared = _declared_categories(X)
        self.columns = [_fit(table.column(i), category=i in declared) for i in range(table.n_columns)]
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the matrix of a table with the columns of :meth:`fit`, in their order."""
        table = _read(X)
        _check_size(table)
        if table.n_columns != len(self.columns):
            raise ValueError(f"X has {table.n_columns} features, but {len(self.columns)} were expected")
        return np.stack([rule.encode(table.column(i)) for i, rule in enumerate(self.columns)], axis=1)

    @property
    def categories(self) -> tuple[int, ...]:
        """Positions of the categorical columns."""
        return tuple(i for i, rule in enumerate(self.columns) if rule.kind == "category")

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted state as plain JSON values."""
        return {"format": FORMAT, "columns": [asdict(rule) for rule in self.columns]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ColumnEncoder:
        """Read what :meth:`to_dict` wrote."""
        if data.get("format") != FORMAT:
            raise ValueError(f"these columns have format {data.get('format')!r}; this version of adacsl reads {FORMAT}")
        encoder = cls()
        encoder.columns = [Column(**rule) for rule in data["columns"]]
        return encoder


def _fit(column: _Column, *, category: bool) -> Column:
    if column.kind != "text":
        return Column(column.name, "category" if category else column.kind, _found(column) if category else [])
    if not category and _parse_numbers(column) is not None:
        return Column(column.name, "number", [])
    if not category and _parse_dates(column) is not None:
        return Column(column.name, "date", [])
    return Column(column.name, "category", _found(column))


def _found(column: _Column) -> list[str]:
    levels = np.unique(_levels(column))
    return [str(level) for level in levels if level != ""]


def _declared_categories(X: Any) -> set[int]:  # noqa: N803
    if isinstance(X, np.ndarray | list | tuple):
        return set()
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return set()
    return {i for i, kind in enumerate(frame.schema.dtypes()) if kind in (nw.Categorical, nw.Enum)}


__all__ = ["Column", "ColumnEncoder"]
