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
pandas' ``NA`` are missing. Times with a zone count in UTC. Levels that ``fit`` never saw fall into "other" (all zeros
where no training level was rare).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import NormalDist
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Scaling: TypeAlias = Literal["both", "robust", "quantile", "standard"]
SCALINGS: tuple[Scaling, ...] = ("both", "robust", "quantile", "standard")

MAX_LEVELS = 30
"""Categories with more levels keep the most frequent ones and get a frequency feature."""

FORMAT = 1
"""Version of the layout that :meth:`TableEncoder.to_dict` writes."""

_KNOTS = 101
_REACH = 3.5  # normal scores beyond this are a few samples in ten thousand
_MISSING_TEXT = ("", "None", "nan", "NaN", "NaT", "<NA>")
_FAR = 1e6  # linear scales end here, so that float32 and products with weights stay finite
_LISTED = 6  # names shown in an error message before "..."


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

    def __init__(self, *, scaling: Scaling = "both", max_levels: int = MAX_LEVELS) -> None:
        if scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {', '.join(map(repr, SCALINGS))}, got {scaling!r}")
        if max_levels < 2:
            raise ValueError(f"max_levels must be at least 2, got {max_levels!r}")
        self.scaling: Scaling = scaling
        self.max_levels = max_levels

    def fit(self, X: Any) -> TableEncoder:  # noqa: N803  scikit-learn's name
        """Learn the kind, scale and levels of every column of a numpy, pandas, polars or pyarrow table."""
        table = _read(X)
        _check_size(table)
        self._remember(table.names, table.n_columns)
        rules = (_fit_column(table.column(i), self.scaling, self.max_levels) for i in range(table.n_columns))
        self._rules = list(rules)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:  # noqa: N803
        """Return the float32 matrix of a table with the training columns; frames may bring them in any order."""
        self._check_fitted()
        table = _read(X)
        positions = self._positions(table)
        _check_size(table)
        out = np.zeros((table.n_rows, self.n_features_out_), dtype=np.float32)
        start = 0
        for rule, position in zip(self._rules, positions, strict=True):
            if rule is not None:
                start = _write(out, start, rule.encode(table.column(position)))
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
        self._check_fitted()
        return [name for rule in self._rules if rule is not None for name in rule.describe()] or ["nothing"]

    @property
    def numeric_features(self) -> list[int]:
        """Positions of the output features that are scaled numbers, as opposed to 0/1 indicators and cycles."""
        self._check_fitted()
        flags = [flag for rule in self._rules if rule is not None for flag in rule.scaled()]
        return [i for i, flag in enumerate(flags) if flag]

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted state as plain JSON values; floats survive the round trip exactly."""
        self._check_fitted()
        return {
            "format": FORMAT,
            "scaling": self.scaling,
            "max_levels": self.max_levels,
            "n_features_in": self.n_features_in_,
            "feature_names_in": self._names,
            "columns": [None if rule is None else _rule_to_dict(rule) for rule in self._rules],
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
        encoder._rules = [None if rule is None else _rule_from_dict(rule) for rule in data["columns"]]
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

    def _positions(self, table: _Table) -> Sequence[int]:
        """Return where each training column is in a new table: by name where both have names, else by position."""
        if self._names is not None and table.names is not None:
            where = {name: i for i, name in enumerate(table.names)}
            missing = [name for name in self._names if name not in where]
            if missing:
                raise ValueError(f"X lacks columns that fit saw: {_listed(missing)}; it has {_listed(table.names)}")
            return [where[name] for name in self._names]
        if table.n_columns != self.n_features_in_:
            raise ValueError(
                f"X has {table.n_columns} features, but TableEncoder is expecting {self.n_features_in_} features "
                "as input"
            )
        return range(table.n_columns)


# what the columns of any table library are reduced to


class _Column(NamedTuple):
    """One raw column: numbers and dates (seconds) as float64 with NaN for missing, text with ``""`` for missing."""

    name: str
    kind: Literal["number", "date", "text"]
    values: NDArray[Any]


class _Table(NamedTuple):
    names: list[str] | None
    n_rows: int
    n_columns: int
    column: Callable[[int], _Column]


def _read(X: Any) -> _Table:  # noqa: N803
    if isinstance(X, np.ndarray | list | tuple):
        return _read_array(np.asarray(X))
    if hasattr(X, "toarray"):
        raise TypeError("sparse data was passed, but dense data is required: use X.toarray()")
    try:
        frame = nw.from_native(X)
    except TypeError:
        return _read_array(np.asarray(X))  # torch tensors, memory maps and everything else with __array__
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"the table has two columns of the same name: {error}") from None
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("X is a lazy table: collect it first, for instance X.collect()")
    return _read_frame(frame)


def _read_array(array: NDArray[Any]) -> _Table:
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: a table has rows and columns. Reshape your data"
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X holds complex numbers")
    return _Table(None, array.shape[0], array.shape[1], lambda i: _from_array(f"x{i}", array[:, i]))


def _read_frame(frame: nw.DataFrame[Any]) -> _Table:
    columns = list(frame.columns)
    doubled = sorted({str(c) for c in columns if columns.count(c) > 1})
    if doubled:
        raise ValueError(f"the table has two columns of the same name: {_listed(doubled)}")
    names = columns if all(isinstance(c, str) for c in columns) else None
    return _Table(names, *frame.shape, lambda i: _from_series(str(columns[i]), frame.get_column(columns[i])))


def _from_array(name: str, values: NDArray[Any]) -> _Column:
    if values.dtype.kind == "M":
        return _Column(name, "date", _seconds(values))
    if values.dtype.kind == "m":
        return _Column(name, "number", np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "s")))
    if values.dtype.kind in "OUST":
        return _Column(name, "text", _clean_text(values))
    numbers = values.astype(np.float64)
    if np.isinf(numbers).any():
        raise ValueError(f"Input X contains infinity in column {name!r}")
    return _Column(name, "number", numbers)


def _from_series(name: str, series: nw.Series[Any]) -> _Column:
    dtype = series.dtype
    if dtype.is_nested():
        raise ValueError(f"column {name!r} holds lists or structs ({dtype}): turn their parts into columns first")
    if dtype.is_numeric() or dtype == nw.Boolean:
        return _from_array(name, _nulls_to_nan(series))
    if dtype in (nw.Date, nw.Datetime):
        return _from_array(name, _instants(series))
    if dtype == nw.Duration:
        return _from_array(name, series.to_numpy().astype("timedelta64[us]"))
    if dtype in (nw.Categorical, nw.Enum):
        series = series.cast(nw.String)
    return _from_array(name, series.to_numpy().astype(object))


def _nulls_to_nan(series: nw.Series[Any]) -> NDArray[Any]:
    """Return numbers as float64; null means NaN, whatever the library's own integer and boolean nulls are."""
    return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _instants(series: nw.Series[Any]) -> NDArray[Any]:
    if series.dtype == nw.Datetime and getattr(series.dtype, "time_zone", None):
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return np.asarray(series.to_numpy(), dtype="datetime64[us]")


def _seconds(values: NDArray[Any]) -> Floats:
    instants = values.astype("datetime64[us]")
    return np.where(np.isnat(instants), np.nan, instants.astype(np.int64) / 1e6)


def _clean_text(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values as text, ``""`` where they are missing."""
    # str() of every kind of missing value is one of a few words: this needs no loop and no pandas
    text = np.strings.strip(values.astype(str))
    return np.where(np.isin(text, _MISSING_TEXT), "", text)


# text that is something else


def _parse_numbers(column: _Column) -> Floats | None:
    """Return text as numbers, None where some value is no number."""
    present = column.values != ""
    numbers = np.full(len(present), np.nan)
    try:
        numbers[present] = _plain(column.values[present]).astype(np.float64)
    except ValueError:
        return None
    if np.isinf(numbers).any():
        raise ValueError(f"Input X contains infinity in column {column.name!r}")
    return numbers


def _plain(text: NDArray[Any]) -> NDArray[Any]:
    """Write truth values as numbers: object columns of bools are numeric too."""
    truth = np.isin(text, ("True", "False"))
    return np.where(text == "True", "1", "0") if truth.all() else text


def _parse_dates(column: _Column) -> Floats | None:
    """Return ISO text as seconds, None where some value is no ISO date."""
    present = column.values != ""
    text = column.values[present]
    if not (np.strings.str_len(text) >= 10).all() or not _dashes(text):
        return None
    seconds = np.full(len(present), np.nan)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # numpy converts zones to UTC as we want, but warns
            seconds[present] = _seconds(text.astype("datetime64[us]"))
    except ValueError:
        return None
    return seconds


def _dashes(text: NDArray[Any]) -> bool:
    # numpy would also read "now" and "2012" as dates
    letters = text.astype("<U10").view("<U1").reshape(-1, 10)
    return bool((letters[:, [4, 7]] == "-").all())


def _first_bad(column: _Column, parse: Callable[[_Column], Floats | None]) -> str:
    """Return the first text that ``parse`` refuses, by bisection: each step halves the candidates."""
    values = column.values
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] if parse(column._replace(values=values[:half])) is None else values[half:]
    return str(values[0])


def _numbers(column: _Column) -> Floats:
    """Return the column as numbers, or say which value is none."""
    if column.kind == "number":
        return column.values
    if column.kind == "date":
        raise ValueError(f"column {column.name!r} held numbers when the encoder was fitted, now it holds dates")
    numbers = _parse_numbers(column)
    if numbers is None:
        bad = _first_bad(column, _parse_numbers)
        raise ValueError(f"column {column.name!r} held numbers when the encoder was fitted, now it holds {bad!r}")
    return numbers


def _dates(column: _Column) -> Floats:
    """Return the column as seconds, or say which value is no date."""
    if column.kind == "date":
        return column.values
    if column.kind == "number" and not np.isnan(column.values).all():
        raise ValueError(f"column {column.name!r} held dates when the encoder was fitted, now it holds numbers")
    dates = column.values if column.kind == "number" else _parse_dates(column)
    if dates is None:
        bad = _first_bad(column, _parse_dates)
        raise ValueError(f"column {column.name!r} held dates when the encoder was fitted, now it holds {bad!r}")
    return dates


def _levels(column: _Column) -> NDArray[Any]:
    """Return the column as text; whole numbers are written without a point, so that 1 and 1.0 are one level."""
    if column.kind == "text":
        return column.values
    if column.kind == "date":
        return np.where(np.isnan(column.values), "", column.values.astype("datetime64[s]").astype(str))
    known = np.nan_to_num(column.values)
    whole = bool((known == np.trunc(known)).all()) and bool((np.abs(known) < 2**53).all())
    text = known.astype(np.int64).astype(str) if whole else column.values.astype(str)
    return np.where(np.isnan(column.values), "", text)


# what is learnt about a column


@dataclass(frozen=True)
class _Scale:
    """A monotone map: linear between knots (flat outside), or (x - center) / width, squashed into (-limit, limit)."""

    knots: list[float]
    scores: list[float]
    center: float = 0.0
    width: float = 1.0
    limit: float | None = None

    def __call__(self, values: Floats) -> Floats:
        if self.knots:
            # neighbouring knots may be so close that their slope overflows
            return np.clip(np.interp(values, self.knots, self.scores), self.scores[0], self.scores[-1])
        with np.errstate(over="ignore"):
            z = np.clip((values - self.center) / self.width, -_FAR, _FAR)
        return z if self.limit is None else z / np.sqrt(1.0 + np.square(z / self.limit))


@dataclass(frozen=True)
class _Number:
    """A number on one or two scales, and an indicator where training data had missing values."""

    kind: ClassVar[str] = "number"
    name: str
    scales: dict[str, _Scale]
    fill: float
    missing: bool

    def encode(self, column: _Column) -> list[Floats]:
        values = _numbers(column)
        gaps = np.isnan(values)
        filled = np.where(gaps, self.fill, values)
        out = [scale(filled) for scale in self.scales.values()]
        return [*out, gaps.astype(np.float64)] if self.missing else out

    def describe(self) -> list[str]:
        return [f"{scale}{self.name}" for scale in self.scales] + [f"{self.name} is missing"] * self.missing

    def scaled(self) -> list[bool]:
        return [True] * len(self.scales) + [False] * self.missing


@dataclass(frozen=True)
class _Date:
    """Parts of a date: scaled numbers and points on circles; those that were constant in training are left out."""

    kind: ClassVar[str] = "date"
    name: str
    scales: dict[str, _Scale]
    cycles: list[str]
    fill: float
    missing: bool

    def encode(self, column: _Column) -> list[Floats]:
        values = _dates(column)
        gaps = np.isnan(values)
        parts = _date_parts(np.where(gaps, self.fill, values))
        out = [scale(parts[part]) for part, scale in self.scales.items()]
        for part in self.cycles:
            angle = parts[part] * (2.0 * math.pi / _PERIODS[part])
            out += [np.sin(angle), np.cos(angle)]
        return [*out, gaps.astype(np.float64)] if self.missing else out

    def describe(self) -> list[str]:
        out = [f"{part} of {self.name}" for part in self.scales]
        out += [f"{wave} of {part} of {self.name}" for part in self.cycles for wave in ("sine", "cosine")]
        return [*out, f"{self.name} is missing"] if self.missing else out

    def scaled(self) -> list[bool]:
        return [i < len(self.scales) for i in range(len(self.describe()))]


@dataclass(frozen=True)
class _Category:
    """One-hot levels, then "other", "missing" and the log frequency where training data give them a meaning."""

    kind: ClassVar[str] = "category"
    name: str
    levels: list[str]
    other: bool
    missing: bool
    frequencies: dict[str, float] | None
    scale: _Scale | None

    def encode(self, column: _Column) -> list[Floats]:
        text = _levels(column)
        position = _lookup(self.levels, text)
        out = [(position == i).astype(np.float64) for i in range(len(self.levels))]
        gaps = text == ""
        if self.other:
            out.append(((position < 0) & ~(gaps & self.missing)).astype(np.float64))
        if self.missing:
            out.append(gaps.astype(np.float64))
        if self.frequencies is not None and self.scale is not None:
            out.append(self.scale(_frequency(self.frequencies, text)))
        return out

    def describe(self) -> list[str]:
        out = [f"{self.name} = {level}" for level in self.levels]
        out += [f"{self.name} is other"] * self.other + [f"{self.name} is missing"] * self.missing
        return out + [f"frequency of {self.name}"] * (self.scale is not None)

    def scaled(self) -> list[bool]:
        return [False] * (len(self.levels) + self.other + self.missing) + [True] * (self.scale is not None)


_Rule: TypeAlias = _Number | _Date | _Category


def _fit_column(column: _Column, scaling: Scaling, max_levels: int) -> _Rule | None:
    """Decide what a column is and learn its encoding; None where it is constant or missing altogether."""
    if column.kind == "text" and (column.values != "").any():
        numbers = _parse_numbers(column)
        if numbers is not None:
            return _fit_number(column.name, numbers, scaling)
        dates = _parse_dates(column)
        return _fit_category(column, max_levels) if dates is None else _fit_date(column.name, dates, scaling)
    if column.kind == "number":
        return _fit_number(column.name, column.values, scaling)
    return _fit_date(column.name, column.values, scaling) if column.kind == "date" else None


def _fit_number(name: str, values: Floats, scaling: Scaling) -> _Number | None:
    known = np.sort(values[~np.isnan(values)])
    if known.size == 0 or (known.size == values.size and known[0] == known[-1]):
        return None
    return _Number(name, _fit_scales(known, scaling), _median(known), bool(known.size < values.size))


def _fit_scales(ordered: Floats, scaling: Scaling) -> dict[str, _Scale]:
    """Return the scales of a sorted column, by what their features' names start with."""
    if scaling != "both":
        return {"": _fit_scale(ordered, scaling)}
    ranks = _normal_scores(ordered)
    if len(ranks.knots) <= 2:
        return {"": ranks}  # yes and no have one scale only
    return {"": _fit_scale(ordered, "robust"), "rank of ": ranks}


def _fit_scale(ordered: Floats, scaling: Scaling) -> _Scale:
    if scaling == "quantile":
        return _normal_scores(ordered)
    if scaling == "standard":
        # huge values overflow in a sum of squares: bring them near 1 first
        unit = max(abs(float(ordered[0])), abs(float(ordered[-1]))) or 1.0
        width = float((ordered / unit).std()) * unit
        return _Scale([], [], float((ordered / unit).mean()) * unit, width or 1.0)
    last = len(ordered) - 1
    low, high = float(ordered[round(0.25 * last)]), float(ordered[round(0.75 * last)])
    width = (high - low) or float(ordered[-1]) / 2.0 - float(ordered[0]) / 2.0
    return _Scale([], [], _median(ordered), min(width, 1e308) or 1.0, 3.0)


def _median(ordered: Floats) -> float:
    # halves first: the sum of two huge values overflows
    last = len(ordered) - 1
    return float(ordered[last // 2]) / 2.0 + float(ordered[(last + 1) // 2]) / 2.0


def _normal_scores(ordered: Floats) -> _Scale:
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
    return _Scale([float(v) for v in values], scores)


_SCALE_NAMES = ("", "rank of ", "seconds", "year", "day")
_PERIODS = {"month": 12.0, "weekday": 7.0, "hour": 24.0}


def _date_parts(seconds: Floats) -> dict[str, Floats]:
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


def _fit_date(name: str, seconds: Floats, scaling: Scaling) -> _Date | None:
    known = np.sort(seconds[~np.isnan(seconds)])
    if known.size == 0 or (known.size == seconds.size and known[0] == known[-1]):
        return None
    parts = {part: values for part, values in _date_parts(known).items() if values.min() < values.max()}
    one: Scaling = "quantile" if scaling == "both" else scaling
    scales = {part: _fit_scale(np.sort(parts[part]), one) for part in parts if part not in _PERIODS}
    cycles = [part for part in _PERIODS if part in parts]
    return _Date(name, scales, cycles, _median(known), bool(known.size < seconds.size))


def _fit_category(column: _Column, max_levels: int) -> _Category | None:
    text = column.values
    found, counts = np.unique(text[text != ""], return_counts=True)
    gaps = bool((text == "").any())
    if len(found) == 1 and not gaps:
        return None
    many = len(found) > max_levels
    kept = _frequent(found, counts, len(text), max_levels)
    frequencies = {str(level): math.log(count) for level, count in zip(found, counts, strict=True)} if many else None
    scale = None if frequencies is None else _frequency_scale(frequencies, text)
    if scale is None and not kept and not gaps:
        return None  # an identifier: every level is rare and equally so
    stored = frequencies if scale is not None else None
    return _Category(column.name, kept, len(kept) < len(found), gaps, stored, scale)


def _frequent(found: NDArray[Any], counts: NDArray[Any], n: int, max_levels: int) -> list[str]:
    """Return the levels worth a column of their own, sorted: seen often enough, and no more than ``max_levels``."""
    # a level seen in 0.2 % of the rows, or 20 times, has a weight that can be learnt; tiny tables keep every level
    enough = min(max(n // 500, 1), 20)
    order = np.argsort(-counts, kind="stable")[:max_levels]
    if len(found) > max_levels and counts.max() == 1:
        return []
    return sorted(str(found[i]) for i in order if counts[i] >= enough)


def _frequency_scale(frequencies: dict[str, float], text: NDArray[Any]) -> _Scale | None:
    values = _frequency(frequencies, text)
    if values.min() == values.max():
        return None
    return _Scale([], [], float(values.mean()), float(values.std()))


def _frequency(frequencies: dict[str, float], text: NDArray[Any]) -> Floats:
    """Return the log of how often each level was seen in training; 0, as if seen once, for missing and new ones."""
    position = _lookup(list(frequencies), text)
    return np.where(position < 0, 0.0, np.asarray([*frequencies.values(), 0.0])[position])


def _lookup(levels: list[str], text: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each text in the sorted levels, -1 where it is none of them."""
    if not levels:
        return np.full(len(text), -1, dtype=np.int64)
    table = np.asarray(levels)
    position = np.minimum(np.searchsorted(table, text), len(levels) - 1)
    return np.where(table[position] == text, position, -1).astype(np.int64)


# checks, JSON


def _write(out: NDArray[np.float32], start: int, features: list[Floats]) -> int:
    for offset, feature in enumerate(features):
        out[:, start + offset] = feature
    return start + len(features)


def _check_size(table: _Table) -> None:
    shape = (table.n_rows, table.n_columns)
    if table.n_rows == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required.")
    if table.n_columns == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required.")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_LISTED])
    return shown + (", ..." if len(names) > _LISTED else "")


_RULES: dict[str, type[_Rule]] = {rule.kind: rule for rule in (_Number, _Date, _Category)}


def _rule_to_dict(rule: _Rule) -> dict[str, Any]:
    return {"kind": rule.kind, **asdict(rule)}


def _rule_from_dict(data: dict[str, Any]) -> _Rule:
    rule = _RULES.get(data.get("kind", ""))
    if rule is None:
        raise ValueError(f"a column must be of kind {', '.join(_RULES)}, got {data.get('kind')!r}")
    values = {field.name: data[field.name] for field in fields(rule)}
    if values.get("scale") is not None:
        values["scale"] = _Scale(**values["scale"])
    if "scales" in values:
        # JSON writers may sort keys, but the features have an order
        names = [name for name in _SCALE_NAMES if name in values["scales"]]
        values["scales"] = {name: _Scale(**values["scales"][name]) for name in names}
    return rule(**values)
