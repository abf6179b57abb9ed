"""Turns raw tables into the float32 matrix a neural net eats: numbers, dates, categories and missing values.

skrub's ``TableVectorizer`` was considered; a saved classifier has to be plain JSON without pickle and exportable to
ONNX, hence an encoder of our own, whose whole state is a few lists of numbers and strings.

What becomes of a column is decided by ``fit``:

==========  =============================================  =====================================================
kind        columns                                        output features
==========  =============================================  =====================================================
numeric     int, float, bool, decimal, duration; text      scaled number, and its rank; an indicator where training
            whose values all are numbers                   data had missing values (which become the median)
date        date, datetime; text whose values all are      seconds, year and day as scaled numbers; month, weekday
            ISO dates                                      and hour on the circle; an indicator as above
category    other text, category, enum, object             one-hot: frequent levels, "other" (rare levels), "missing";
                                                           with many levels also the level's log frequency
==========  =============================================  =====================================================

Constant and all-missing columns tell a net nothing: they are dropped. Blank text, ``None``, ``NaN``, ``NaT`` and
pandas' ``NA`` are missing; infinite numbers are refused. Times with a zone count in UTC. A category is known by the
one spelling of its value: 1, 1.0, "1.0" and True are one level. Levels that ``fit`` never saw fall into "other" (all
zeros where no training level was rare).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.columns import Column, as_kind, as_levels, read_columns
from adacsl.datasets.errors import listed
from adacsl.datasets.features import Category, Number, fit_rule, rule_from_dict, rule_to_dict

SCALINGS = ("both", "robust", "quantile", "standard")

MAX_LEVELS = 30
"""Categories with more levels keep the most frequent ones and get a frequency feature."""

FORMAT = 1
"""Version of the layout that :meth:`TableEncoder.to_dict` writes."""


class TableEncoder:
    """Encode a table as a float32 matrix of shape (n, d).

    Parameters
    ----------
    scaling : {"both", "robust", "quantile", "standard"}
        "robust": (x - median) / interquartile range, squashed smoothly into (-3, 3). "quantile": normal scores of the
        rank in the training data (stored as at most 101 knots, linear between). "both": these two side by side,
        a hedge: each of them alone is far behind on some table (``benchmarks/table_nets.py``). "standard": (x - mean) /
        standard deviation.
    max_levels : int, default 30
        One-hot columns per category at most.

    Attributes
    ----------
    n_features_in_ : int
        Columns of the training table.
    feature_names_in_ : array of str
        Their names, if all of them are strings (numpy arrays have none).
    n_features_out_ : int
        Columns of the encoded matrix.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"amount": [1.0, None, 30.0, 4.0], "shop": ["web", "web", "city", None]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.describe()
    ['amount', 'rank of amount', 'amount is missing', 'shop = city', 'shop = web', 'shop is missing']
    >>> encoder.transform(table).shape
    (4, 6)
    """

    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def __init__(self, *, scaling: str = "both", max_levels: int = MAX_LEVELS) -> None:
        if scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {', '.join(map(repr, SCALINGS))}, got {scaling!r}")
        if max_levels < 2:
            raise ValueError(f"max_levels must be at least 2, got {max_levels!r}")
        self.scaling, self.max_levels = scaling, max_levels

    def fit(self, X: Any) -> TableEncoder:  # noqa: N803  scikit-learn's name
        """Learn the kind, scale and levels of every column of a numpy, pandas, polars or pyarrow table."""
        names, (_, n_columns), column = read_columns(X)
        self._remember(names, n_columns)
        self._rules = [fit_rule(column(i), self.scaling, self.max_levels) for i in range(n_columns)]
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Return the float32 matrix of a table with the training columns; frames may bring them in any order."""
        self._check_fitted()
        n_rows, columns = self._training_columns(X)
        out = np.zeros((n_rows, self.n_features_out_), dtype=np.float32)
        pairs = zip(self._rules, columns, strict=True)
        features = (feature for rule, column in pairs if rule is not None for feature in rule.encode(column))
        for number, feature in enumerate(features):
            out[:, number] = feature
        return out

    def fit_transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Fit, then return the encoded training table."""
        return self.fit(X).transform(X)

    @property
    def n_features_out_(self) -> int:
        """Columns of the encoded matrix; 1 (all zeros) where every training column was constant or missing."""
        return len(self.describe())

    def describe(self) -> list[str]:
        """Return what each output feature says, in order."""
        return [name for name, _ in self._features()] or ["nothing"]

    @property
    def numeric_features(self) -> list[int]:
        """Positions of the output features that are scaled numbers, as opposed to 0/1 indicators and cycles."""
        return [i for i, (_, scaled) in enumerate(self._features()) if scaled]

    @property
    def sources(self) -> list[int]:
        """Which column of the table each output feature comes from."""
        self._check_fitted()
        return [i for i, rule in enumerate(self._rules) if rule is not None for _ in rule.features()] or [0]

    def _features(self) -> list[tuple[str, bool]]:
        self._check_fitted()
        return [feature for rule in self._rules if rule is not None for feature in rule.features()]

    @property
    def only_numbers(self) -> bool:
        """Whether every column that says something is a number."""
        self._check_fitted()
        return all(rule is None or rule.kind == "number" for rule in self._rules)

    def raw_numbers(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the training columns as they are, NaN = missing; columns that say nothing may hold anything."""
        n_rows, columns = self._training_columns(X)
        out = np.full((n_rows, self.n_features_in_), np.nan)
        for number, (rule, column) in enumerate(zip(self._rules, columns, strict=True)):
            if rule is not None:
                out[:, number] = as_kind(column, "number")
            elif column.kind == "number":
                out[:, number] = column.values
        return out

    def rules(self) -> list[Number | Category | None]:
        """Return what was learnt about each training column; None where it says nothing."""
        self._check_fitted()
        return list(self._rules)

    def raw_columns(self, X: Any) -> dict[str, NDArray[Any]]:  # noqa: N803
        """Return the training columns that say something, by name: numbers, seconds, or text ("" = missing)."""
        _, columns = self._training_columns(X)
        pairs = [(rule, column) for rule, column in zip(self._rules, columns, strict=True) if rule is not None]
        return {
            rule.name: as_levels(column) if rule.kind == "category" else as_kind(column, rule.kind)
            for rule, column in pairs
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted state as plain JSON values; floats survive the round trip exactly."""
        self._check_fitted()
        return {
            "format": FORMAT,
            "scaling": self.scaling,
            "max_levels": self.max_levels,
            "n_features_in": self.n_features_in_,
            "feature_names_in": self._names,
            "columns": [None if rule is None else rule_to_dict(rule) for rule in self._rules],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TableEncoder:
        """Read what :meth:`to_dict` wrote."""
        if not isinstance(data, dict) or "columns" not in data or "format" not in data:
            raise ValueError(f"this is no table encoder: expected a dict with format and columns, got {str(data)[:80]}")
        if data["format"] != FORMAT:
            raise ValueError(f"this table encoder has format {data['format']!r}; this version of adacsl reads {FORMAT}")
        encoder = cls(scaling=data["scaling"], max_levels=data["max_levels"])
        encoder._remember(data["feature_names_in"], data["n_features_in"])
        encoder._rules = [None if rule is None else rule_from_dict(rule) for rule in data["columns"]]
        if len(encoder._rules) != encoder.n_features_in_:
            raise ValueError(f"{encoder.n_features_in_} columns announced, {len(encoder._rules)} described")
        return encoder

    def _remember(self, names: list[str] | None, n_columns: int) -> None:
        self._names = None if names is None else list(names)
        self.n_features_in_ = n_columns
        if self._names is not None:
            self.feature_names_in_ = np.asarray(self._names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_fitted(self) -> None:
        if not hasattr(self, "_rules"):
            raise ValueError("this TableEncoder is not fitted yet: call fit(X) first")

    def _training_columns(self, X: Any) -> tuple[int, Iterator[Column]]:  # noqa: N803
        """Return how many rows, and the training columns: by name where both tables have names, else by position."""
        names, (n_rows, n_columns), column = read_columns(X)
        if self._names is not None and names is not None:
            where = {name: i for i, name in enumerate(names)}
            missing = [name for name in self._names if name not in where]
            if missing:
                has = listed(map(repr, names))
                raise ValueError(f"X lacks columns that fit saw: {listed(map(repr, missing))}; it has {has}")
            return n_rows, (column(where[name]) for name in self._names)
        if n_columns != self.n_features_in_:
            expected = f"TableEncoder is expecting {self.n_features_in_} features as input"
            raise ValueError(f"X has {n_columns} features, but {expected}")
        return n_rows, map(column, range(n_columns))
