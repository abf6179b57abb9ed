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

from adacsl.datasets.columns import (
    Column,
    as_dates,
    as_levels,
    as_numbers,
    check_size,
    parse_dates,
    parse_numbers,
    positions_among,
    read_columns,
)

FORMAT = 1
"""Version of the layout that :meth:`ColumnEncoder.to_dict` writes."""


@dataclass(frozen=True)
class CodedColumn:
    """What a column is, and the levels of a category, sorted."""

    name: str
    kind: str
    levels: list[str]

    def encode(self, column: Column) -> NDArray[np.float64]:
        """Return the column as floats."""
        if self.kind == "number":
            return as_numbers(column)
        if self.kind == "date":
            return as_dates(column)
        position = positions_among(self.levels, as_levels(column))
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

    columns: list[CodedColumn]

    def fit(self, X: Any) -> ColumnEncoder:  # noqa: N803
        """Learn kinds and levels."""
        table = read_columns(X)
        check_size(table)
        declared = _declared_categories(X)
        self.columns = [_fit(table.column(i), category=i in declared) for i in range(table.n_columns)]
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the matrix of a table with the columns of :meth:`fit`, in their order."""
        table = read_columns(X)
        check_size(table)
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
        encoder.columns = [CodedColumn(**rule) for rule in data["columns"]]
        return encoder


def _fit(column: Column, *, category: bool) -> CodedColumn:
    if column.kind != "text":
        return CodedColumn(column.name, "category" if category else column.kind, _found(column) if category else [])
    if not category and parse_numbers(column) is not None:
        return CodedColumn(column.name, "number", [])
    if not category and parse_dates(column) is not None:
        return CodedColumn(column.name, "date", [])
    return CodedColumn(column.name, "category", _found(column))


def _found(column: Column) -> list[str]:
    levels = np.unique(as_levels(column))
    return [str(level) for level in levels if level != ""]


def _declared_categories(X: Any) -> set[int]:  # noqa: N803
    if isinstance(X, np.ndarray | list | tuple):
        return set()
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return set()
    return {i for i, kind in enumerate(frame.schema.dtypes()) if kind in (nw.Categorical, nw.Enum)}


__all__ = ["CodedColumn", "ColumnEncoder"]
