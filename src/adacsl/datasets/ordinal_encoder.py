"""Tables for boosted trees: one column each, missing values kept, categories as codes.

Numbers, booleans and durations stay as they are; dates become seconds; text and categories become the position of their
level among those seen in training, declared categorical to the booster. Text that is all numbers (or all ISO dates)
counts as such, unless its column was declared a category. Missing values and levels never seen in training are NaN;
infinite numbers are refused.
"""

from __future__ import annotations

import functools
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.columns import (
    Column,
    ParsedTable,
    as_kind,
    as_levels,
    finite,
    places_of,
    positions_among,
    read_columns,
    recognised,
    spellings,
)

FORMAT = 1
"""Version of the layout that :meth:`ColumnEncoder.to_dict` writes."""


class ColumnEncoder:
    """Encode a numpy, pandas, polars or pyarrow table as a float64 matrix of the same columns.

    Parameters
    ----------
    max_levels : int, optional
        Keep the most frequent levels of a category only, for learners that take so many; others are NaN.

    Attributes
    ----------
    columns : list of dict
        For each column its name, its kind ("number", "date" or "category") and the sorted levels of a category.

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

    columns: list[dict[str, Any]]

    def __init__(self, *, max_levels: int | None = None) -> None:
        self.max_levels = max_levels

    def fit(self, X: Any) -> ColumnEncoder:  # noqa: N803
        """Learn kinds and levels."""
        _, (_, n_columns), column = read_columns(X)
        declared = _declared_categories(X)
        self.columns = [_fit(column(i), i in declared, self.max_levels) for i in range(n_columns)]
        vars(self).pop("_places", None)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the matrix of a table with the columns of :meth:`fit`, in their order."""
        _, (_, n_columns), column = read_columns(X)
        if n_columns != len(self.columns):
            raise ValueError(f"X has {n_columns} features, but {len(self.columns)} were expected")
        rules = zip(self.columns, self._places, strict=True)
        return np.stack([_encode(rule, places, column(i)) for i, (rule, places) in enumerate(rules)], axis=1)

    @functools.cached_property
    def _places(self) -> list[dict[str, int]]:
        """The positions of each column's levels."""
        return [places_of(rule["levels"]) for rule in self.columns]

    @property
    def categories(self) -> tuple[int, ...]:
        """Positions of the categorical columns."""
        return tuple(i for i, rule in enumerate(self.columns) if rule["kind"] == "category")

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted state as plain JSON values."""
        return {"format": FORMAT, "columns": [dict(rule) for rule in self.columns]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ColumnEncoder:
        """Read what :meth:`to_dict` wrote."""
        if data.get("format") != FORMAT:
            raise ValueError(f"these columns have format {data.get('format')!r}; this version of adacsl reads {FORMAT}")
        encoder = cls()
        encoder.columns = [{key: rule[key] for key in ("name", "kind", "levels")} for rule in data["columns"]]
        for rule in encoder.columns:  # before 0.3 numbers among text were spelled as they came
            rule["levels"] = [*map(spellings(rule["levels"]).get, rule["levels"])]
        return encoder


def _fit(column: Column, category: bool, max_levels: int | None) -> dict[str, Any]:
    kind = "text" if category else finite(recognised(column)).kind
    if kind != "text":
        return {"name": column.name, "kind": kind, "levels": []}
    return {"name": column.name, "kind": "category", "levels": _levels(column, max_levels)}


def _levels(column: Column, most: int | None) -> list[str]:
    text = as_levels(column)
    levels, counts = np.unique(text[text != ""], return_counts=True)
    return [str(level) for level in levels[np.sort(np.argsort(-counts, kind="stable")[:most])]]


def _encode(rule: dict[str, Any], places: dict[str, int], column: Column) -> NDArray[np.float64]:
    if rule["kind"] != "category":
        return as_kind(column, rule["kind"])
    position = positions_among(places, as_levels(column))
    return np.where(position < 0, np.nan, position)


def _declared_categories(X: Any) -> set[int]:  # noqa: N803
    if isinstance(X, ParsedTable):
        return X.categories
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return set()
    return {i for i, kind in enumerate(frame.schema.dtypes()) if kind in (nw.Categorical, nw.Enum)}
