"""TableEncoder: tables as float32 matrices for neural networks and linear models.

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

import functools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.columns import (
    Column,
    as_kind,
    as_levels,
    finite,
    places_of,
    positions_among,
    read_columns,
    recognised,
    spellings,
)
from adacsl.datasets.errors import listed

_KNOTS = 101
_REACH = 3.5  # normal scores beyond this are a few samples in ten thousand
FAR = 1e6  # linear scales end here, so that float32 and products with weights stay finite


@dataclass(frozen=True)
class Scale:
    """A monotone map: linear between knots (flat outside), or (x - center) / width, squashed into (-limit, limit)."""

    knots: list[float]
    scores: list[float]
    center: float = 0.0
    width: float = 1.0
    limit: float | None = None

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values on this scale."""
        if self.knots:
            # neighbouring knots may be so close that their slope overflows
            return np.minimum(np.maximum(np.interp(values, *self._line), self.scores[0]), self.scores[-1])
        with np.errstate(over="ignore"):
            z = np.minimum(np.maximum((values - self.center) / self.width, -FAR), FAR)
        return z if self.limit is None else z / np.sqrt(1.0 + np.square(z / self.limit))

    @functools.cached_property
    def _line(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.asarray(self.knots), np.asarray(self.scores)


@dataclass(frozen=True)
class Number:
    """A number on one or two scales, or the parts of a date: scaled numbers and points on circles.

    Parts that were constant in training are left out; an indicator is added where training data had missing values.
    """

    kind: str  # "number" or "date"
    name: str
    scales: dict[str, Scale]
    cycles: list[str]
    fill: float
    missing: bool

    def encode(self, column: Column) -> NDArray[np.float64]:
        """Return the features of a column."""
        values = as_kind(column, self.kind)
        gaps = np.isnan(values)
        filled = np.where(gaps, self.fill, values)
        parts = _date_parts(filled) if self.kind == "date" else dict.fromkeys(self.scales, filled)
        features = [scale(parts[part]) for part, scale in self.scales.items()]
        for part in self.cycles:
            angle = parts[part] * (2.0 * math.pi / PERIODS[part])
            features += [np.sin(angle), np.cos(angle)]
        if self.missing:
            features.append(gaps)
        out = np.empty((len(values), self.width))
        for place, feature in enumerate(features):
            out[:, place] = feature
        return out

    @functools.cached_property
    def width(self) -> int:
        """The number of features."""
        return len(self.features())

    def features(self) -> list[tuple[str, bool]]:
        """Return what each feature says, and whether it is a scaled number."""
        out = [(f"{part} of {self.name}" if part else self.name, True) for part in self.scales]
        out += [(f"{wave} of {part} of {self.name}", False) for part in self.cycles for wave in ("sine", "cosine")]
        return out + [(f"{self.name} is missing", False)] * self.missing


@dataclass(frozen=True)
class Category:
    """One-hot levels, then "other", "missing" and the log frequency where training data give them a meaning."""

    kind: ClassVar[str] = "category"
    name: str
    levels: list[str]
    other: bool
    missing: bool
    frequencies: dict[str, float] | None
    scale: Scale | None

    def encode(self, column: Column) -> NDArray[np.float64]:
        """Return the features of a column."""
        text = as_levels(column)
        position = positions_among(self._places, text)
        out = np.zeros((len(text), self.width))
        known = np.flatnonzero(position >= 0)
        out[known, position[known]] = 1.0
        gaps, place = text == "", len(self.levels)
        if self.other:
            out[:, place] = (position < 0) & ~(gaps & self.missing)
            place += 1
        if self.missing:
            out[:, place] = gaps
            place += 1
        if self.frequencies is not None and self.scale is not None:
            out[:, place] = self.scale(_frequency(self.frequencies, text))
        return out

    @functools.cached_property
    def width(self) -> int:
        """The number of features."""
        return len(self.features())

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return places_of(self.levels)

    def features(self) -> list[tuple[str, bool]]:
        """Return what each feature says, and whether it is a scaled number."""
        out = [(f"{self.name} = {level}", False) for level in self.levels]
        out += [(f"{self.name} is other", False)] * self.other + [(f"{self.name} is missing", False)] * self.missing
        return out + [(f"frequency of {self.name}", True)] * (self.scale is not None)


def fit_rule(column: Column, scaling: str, max_levels: int) -> Number | Category | None:
    """Decide what a column is and learn its encoding; None where it is constant or missing altogether."""
    column = finite(recognised(column))
    if column.kind == "text":
        return _fit_category(column, max_levels)
    known = np.sort(column.values[~np.isnan(column.values)])
    gaps = known.size < column.values.size
    if known.size == 0 or (not gaps and known[0] == known[-1]):
        return None
    scales, cycles = _fit_date(known, scaling) if column.kind == "date" else (_fit_scales(known, scaling), [])
    return Number(column.kind, column.name, scales, cycles, _median(known), gaps)


def _fit_scales(ordered: NDArray[np.float64], scaling: str) -> dict[str, Scale]:
    """Return the scales of a sorted column, by what their features say of the number."""
    if scaling != "both":
        return {"": _fit_scale(ordered, scaling)}
    ranks = _normal_scores(ordered)
    # yes and no have one scale only
    return {"": ranks} if len(ranks.knots) <= 2 else {"": _fit_scale(ordered, "robust"), "rank": ranks}


def _fit_scale(ordered: NDArray[np.float64], scaling: str) -> Scale:
    if scaling == "quantile":
        return _normal_scores(ordered)
    if scaling == "standard":
        # huge values overflow in a sum of squares: bring them near 1 first
        unit = max(abs(float(ordered[0])), abs(float(ordered[-1]))) or 1.0
        width = float((ordered / unit).std()) * unit
        return Scale([], [], float((ordered / unit).mean()) * unit, width or 1.0)
    last = len(ordered) - 1
    low, high = float(ordered[round(0.25 * last)]), float(ordered[round(0.75 * last)])
    width = (high - low) or float(ordered[-1]) / 2.0 - float(ordered[0]) / 2.0
    return Scale([], [], _median(ordered), min(width, 1e308) or 1.0, 3.0)


def _median(ordered: NDArray[np.float64]) -> float:
    # halves first: the sum of two huge values overflows
    last = len(ordered) - 1
    return float(ordered[last // 2]) / 2.0 + float(ordered[(last + 1) // 2]) / 2.0


def _normal_scores(ordered: NDArray[np.float64]) -> Scale:
    """Map each training value to the normal quantile of its middle rank; at most 101 knots are kept."""
    normal = NormalDist()
    values = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]
    if len(values) > _KNOTS:
        # levels evenly spaced in normal scores resolve the tails, where heavy-tailed data have their spread
        levels = np.asarray([normal.cdf(z) for z in np.linspace(-_REACH, _REACH, _KNOTS - 2)])
        picked = np.round(levels * (len(ordered) - 1)).astype(np.int64)
        values = np.unique(np.concatenate((ordered[:1], ordered[picked], ordered[-1:])))
    middle = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2.0
    scores = [min(max(normal.inv_cdf(r), -_REACH), _REACH) for r in middle / len(ordered)]
    return Scale([float(v) for v in values], scores)


_SCALE_NAMES = ("", "rank", "seconds", "year", "day")
PERIODS = {"month": 12.0, "weekday": 7.0, "hour": 24.0}


def _date_parts(seconds: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    instants = np.floor(seconds).astype(np.int64).astype("datetime64[s]")
    days, months = instants.astype("datetime64[D]"), instants.astype("datetime64[M]")
    since = {
        "year": instants.astype("datetime64[Y]").astype(np.int64) + 1970,
        "day": (days - months.astype("datetime64[D]")).astype(np.int64) + 1,
        "month": months.astype(np.int64) % 12,
        "weekday": (days.astype(np.int64) + 3) % 7,
        "hour": (instants - days).astype(np.int64) // 3600,
    }
    return {"seconds": seconds} | {part: numbers.astype(np.float64) for part, numbers in since.items()}


def _fit_date(known: NDArray[np.float64], scaling: str) -> tuple[dict[str, Scale], list[str]]:
    """Return the scales and the cycles of the parts that differ."""
    parts = {part: values for part, values in _date_parts(known).items() if values.min() < values.max()}
    one = "quantile" if scaling == "both" else scaling
    scales = {part: _fit_scale(np.sort(parts[part]), one) for part in parts if part not in PERIODS}
    return scales, [part for part in PERIODS if part in parts]


def _fit_category(column: Column, max_levels: int) -> Category | None:
    text = as_levels(column)
    result, counts = np.unique(text[text != ""], return_counts=True)
    gaps = bool((text == "").any())
    if len(result) == 1 and not gaps:
        return None
    many = len(result) > max_levels
    kept = _frequent(result, counts, len(text), max_levels)
    frequencies = {str(level): math.log(count) for level, count in zip(result, counts, strict=True)}
    scale = _frequency_scale(frequencies, text) if many else None
    if scale is None and not kept and not gaps:
        return None  # an identifier: every level is rare and equally so
    return Category(column.name, kept, len(kept) < len(result), gaps, frequencies if scale else None, scale)


def _frequent(result: NDArray[Any], counts: NDArray[Any], n: int, max_levels: int) -> list[str]:
    """Return the levels worth a column of their own, sorted: seen often enough, and no more than ``max_levels``."""
    # a level seen in 0.2 % of the rows, or 20 times, has a weight that can be learnt; tiny tables keep every level
    enough = min(max(n // 500, 1), 20)
    order = np.argsort(-counts, kind="stable")[:max_levels]
    if len(result) > max_levels and counts.max() == 1:
        return []
    return sorted(str(result[i]) for i in order if counts[i] >= enough)


def _frequency_scale(frequencies: dict[str, float], text: NDArray[Any]) -> Scale | None:
    values = _frequency(frequencies, text)
    return None if values.min() == values.max() else Scale([], [], float(values.mean()), float(values.std()))


def _frequency(frequencies: dict[str, float], text: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log of how often each level was seen in training; 0, as if seen once, for missing and new ones."""
    return np.fromiter((frequencies.get(each, 0.0) for each in text.tolist()), np.float64, len(text))


_RULES: dict[str, type[Number | Category]] = {"number": Number, "date": Number, "category": Category}


def rule_to_dict(rule: Number | Category) -> dict[str, Any]:
    """Return what was learnt as plain JSON values."""
    return {"kind": rule.kind, **asdict(rule)}


def rule_from_dict(data: dict[str, Any]) -> Number | Category:
    """Read what :func:`rule_to_dict` wrote."""
    rule = _RULES.get(data.get("kind", ""))
    if rule is None:
        raise ValueError(f"a column must be of kind {', '.join(_RULES)}, got {data.get('kind')!r}")
    values = {field.name: data[field.name] for field in fields(rule)}
    for name in {"missing", "other"} & set(values):
        if not isinstance(values[name], bool):  # a number would be so many features
            raise TypeError(f"{name} of a column must be true or false, got {str(values[name])[:20]}")
    if "levels" in values:  # before 0.3 numbers among text were spelled as they came
        values["levels"] = list(map(spellings(values["levels"]).get, values["levels"]))
        frequencies = values["frequencies"]
        if frequencies is not None:
            values["frequencies"] = dict(zip(spellings(frequencies).values(), frequencies.values(), strict=True))
    if values.get("scale") is not None:
        values["scale"] = Scale(**values["scale"])
    if "scales" in values:
        # JSON writers may sort keys, but the features have an order
        names = [name for name in _SCALE_NAMES if name in values["scales"]]
        values["scales"] = {name: Scale(**values["scales"][name]) for name in names}
    return rule(**values)


SCALINGS = ("both", "robust", "quantile", "standard")

MAX_LEVELS = 30
"""Categories with more levels keep the most frequent ones and get a frequency feature."""

FORMAT = 1
"""Version of the layout that :meth:`TableEncoder.to_dict` writes."""


class TableEncoder:
    """Encoder of tables: a float32 matrix of shape (n, d).

    Parameters
    ----------
    scaling : {"both", "robust", "quantile", "standard"}, default "both"
        "robust": (x - median) / interquartile range, squashed smoothly into (-3, 3). "quantile": normal scores of the
        rank in the training data (stored as at most 101 knots, linear between). "both": these two side by side,
        since each of them alone is far behind on some table. "standard": (x - mean) / standard deviation.
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
    >>> from adacsl.datasets.encoder import TableEncoder
    >>> shops = ["web", "web", "city", None]
    >>> table = pl.DataFrame({"amount": [1.0, None, 30.0, 4.0], "shop": shops})
    >>> encoder = TableEncoder().fit(table)
    >>> for feature in encoder.describe():
    ...     print(feature)
    amount
    rank of amount
    amount is missing
    shop = city
    shop = web
    shop is missing
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
        """Learn the kind, scale and levels of every column of a table.

        Parameters
        ----------
        X : table of shape (n, p)
            numpy, pandas, polars or pyarrow.

        Returns
        -------
        TableEncoder
            Itself.

        Raises
        ------
        ValueError
            Where a column has values of no known kind.
        """
        names, (_, n_columns), column = read_columns(X)
        self._remember(names, n_columns)
        self._rules = [fit_rule(column(i), self.scaling, self.max_levels) for i in range(n_columns)]
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Return the encoded table.

        Parameters
        ----------
        X : table of shape (n, p)
            numpy, pandas, polars or pyarrow; frames may have the training columns in any order.

        Returns
        -------
        array of shape (n, n_features_out_), float32
            Encoded features.

        Raises
        ------
        ValueError
            Where a training column is missing.
        """
        self._check_fitted()
        n_rows, columns = self._training_columns(X)
        out = np.zeros((n_rows, self.n_features_out_), dtype=np.float32)
        end = 0
        for rule, column in zip(self._rules, columns, strict=True):
            if rule is not None:
                start, end = end, end + rule.width
                out[:, start:end] = rule.encode(column)
        return out

    def fit_transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Fit, then return the encoded training table.

        Parameters
        ----------
        X : table of shape (n, p)
            numpy, pandas, polars or pyarrow.

        Returns
        -------
        array of shape (n, n_features_out_), float32
            Encoded features.
        """
        return self.fit(X).transform(X)

    @property
    def n_features_out_(self) -> int:
        """Columns of the encoded matrix; 1 (all zeros) where every training column was constant or missing."""
        self._check_fitted()
        return sum(rule.width for rule in self._rules if rule is not None) or 1

    def describe(self) -> list[str]:
        """Return the meaning of each output feature, in order.

        Returns
        -------
        list of str
            One text per feature.
        """
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
        """Return the fitted state as plain JSON values; floats survive the round trip exactly.

        Returns
        -------
        dict
            What :meth:`from_dict` reads.
        """
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
        """Return the encoder that :meth:`to_dict` wrote.

        Parameters
        ----------
        data : dict
            The document.

        Returns
        -------
        TableEncoder
            Fitted.
        """
        if not isinstance(data, dict) or "columns" not in data or "format" not in data:
            raise ValueError(
                f"the document is not a table encoder: expected a dict with format and columns, got {str(data)[:80]}"
            )
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
                raise ValueError(f"X lacks columns of the fit: {listed(map(repr, missing))}; it has {has}")
            return n_rows, (column(where[name]) for name in self._names)
        if n_columns != self.n_features_in_:
            expected = f"TableEncoder is expecting {self.n_features_in_} features as input"
            raise ValueError(f"X has {n_columns} features, but {expected}")
        return n_rows, map(column, range(n_columns))
