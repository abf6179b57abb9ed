"""The raw columns of any table: numbers, dates (as seconds) and text, with one sign for missing values.

A category is identified by the spelling of its value, which is a function of that value alone (:func:`spelling`): not
of the column's other rows, its dtype or the file it came from.
"""

from __future__ import annotations

import itertools
import math
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import refuse_masked
from adacsl.datasets.errors import listed, repeated

LARGEST = 2**27
"""So many cells of a sparse matrix are written out."""
MISSING_TEXT = (
    "", "None", "nan", "NaN", "NaT", "<NA>", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null", "-NaN",
    "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
)  # fmt: skip
"""Text for a missing value: what pandas reads as missing in a CSV file, and str() of missing values."""
_MISSING = frozenset(MISSING_TEXT)
TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
"""Text for a boolean, as Python, R and SQL write it."""
BLANK = "".join(character for character in map(chr, range(0x3001)) if character.isspace()) + "\0"
"""White space, and NUL, which arrays of a fixed width drop at the end of a text."""
NARROW = 64
"""Text of at most so many characters is held at one width, which is fastest; one long cell would widen all rows."""


@dataclass
class ParsedText:
    """A whole column of text, cleaned: its different values, and which of them stands in each row.

    Its values are parsed once, and looked up for any rows.
    """

    name: str
    codes: NDArray[np.int32]
    distinct: NDArray[Any]

    @classmethod
    def of(cls, name: str, codes: NDArray[Any], distinct: Any) -> ParsedText:
        """Return the text of a column by the number of its value in each row."""
        return cls(name, codes.astype(np.int32), as_text(distinct.tolist()))

    def of_rows(self, rows: NDArray[np.int64] | None, values: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the text (or other values in its place) of some rows, or of all."""
        codes = self.codes if rows is None else self.codes[rows]
        return np.asarray((self.distinct if values is None else values)[codes])

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The different values as numbers; None where some value is no number."""
        return _parsed(Column(self.name, "text", self.distinct), _as_numbers)

    @cached_property
    def seconds(self) -> NDArray[np.float64] | None:
        """The different values as seconds; None where some value is no ISO date."""
        return _parsed(Column(self.name, "text", self.distinct), _as_seconds)

    @cached_property
    def levels(self) -> NDArray[Any]:
        """The different values, each in its one spelling."""
        return as_levels(Column(self.name, "text", self.distinct))


class Column(NamedTuple):
    """One raw column: numbers and dates (seconds) as float64 with NaN for missing, text with ``""`` for missing.

    Infinite numbers stay: :func:`finite` refuses them where numbers are needed.
    """

    name: str
    kind: Literal["number", "date", "text"]
    values: NDArray[Any]
    parsed: ParsedText | None = None
    """The whole column of text that these are rows of, where it was parsed before."""
    rows: NDArray[np.int64] | None = None
    """Which of its rows; None: all."""


class ReadTable:
    """A table of any kind each of whose columns is read once, however many encoders take it.

    Examples
    --------
    >>> ReadTable([["web", 1.0], [None, 2.0]]).column(0).values.tolist()
    ['web', '']
    """

    def __init__(self, X: Any) -> None:  # noqa: N803
        self.names, self.shape, self._read = read_columns(X)
        self._columns: dict[int, Column] = {}

    def column(self, place: int) -> Column:
        """Return a column."""
        if place not in self._columns:
            column = self._read(place)
            if column.kind == "text" and column.parsed is None:  # what it means is worked out once, too
                codes = np.arange(len(column.values), dtype=np.int32)
                column = column._replace(parsed=ParsedText(column.name, codes, column.values))
            self._columns[place] = column
        return self._columns[place]


def read_once(X: Any) -> Any:  # noqa: N803
    """Return a table whose columns are read once."""
    return X if isinstance(X, ParsedTable | ReadTable) else ReadTable(X)


MOST_DISTINCT = 0.5
"""Text that differs in more than this share of the rows is parsed again each time: holding it would take more room."""


class ParsedTable:
    """Columns of a frame of any library; numbers are read where they lie, text is parsed once.

    Parameters
    ----------
    X : frame
        pandas, polars, pyarrow or another library that narwhals knows.

    Examples
    --------
    >>> import pandas as pd
    >>> table = ParsedTable(pd.DataFrame({"shop": ["web", "city", None], "amount": [1, 2, 3]}))
    >>> table.rows(np.array([2, 0])).column(0).values.tolist()
    ['', 'web']
    """

    def __init__(self, X: Any) -> None:  # noqa: N803
        self._frame, self._texts = X, dict[int, ParsedText | None]()
        self._rows: NDArray[np.int64] | None = None
        self.names, self._shape, _ = read_columns(X)

    @staticmethod
    def knows(X: Any) -> bool:  # noqa: N803
        """Return whether X is a frame."""
        return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns."""
        return (self._shape[0] if self._rows is None else len(self._rows)), self._shape[1]

    @cached_property
    def categories(self) -> set[int]:
        """Positions of the columns that were declared a category."""
        kinds = nw.from_native(self._frame, eager_only=True).schema.dtypes()
        return {i for i, kind in enumerate(kinds) if kind in (nw.Categorical, nw.Enum)}

    def rows(self, rows: NDArray[np.int64]) -> ParsedTable:
        """Return some rows, which share what is parsed."""
        part = ParsedTable(self._frame)
        part._texts = self._texts
        part._rows = rows if self._rows is None else self._rows[rows]
        return part

    def parse(self) -> ParsedTable:
        """Parse all text now, and return the table."""
        for place in range(self.shape[1]):
            self._whole(place)
        return self

    def column(self, place: int) -> Column:
        """Return a column of these rows."""
        column, rows = self._whole(place), self._rows
        text = self._texts.get(place)
        if text is not None:
            return Column(column.name, "text", text.of_rows(rows), text, rows)
        return column if rows is None else column._replace(values=column.values[rows])

    def _whole(self, place: int) -> Column:
        """Return a column of all rows; of text that is parsed already only its name."""
        if (text := self._texts.get(place)) is not None:
            return Column(text.name, "text", text.distinct)
        column = read_columns(self._frame)[2](place)
        if column.kind == "text" and place not in self._texts:
            import pandas as pd  # noqa: PLC0415  what predicts from arrays needs none

            codes, distinct = pd.factorize(column.values.astype(object))
            few = len(distinct) <= MOST_DISTINCT * len(codes)
            self._texts[place] = ParsedText.of(column.name, codes, distinct) if few else None
        return column


class Columns(Mapping[str, NDArray[Any]]):
    """A table as plain arrays by name, without a table library; each column is read once, however often it is encoded.

    Parameters
    ----------
    arrays : mapping of str to array of shape (n,)
        Numbers, dates, or text and other objects.
    named : bool, default True
        Whether the names mean anything; otherwise columns are known by their order, as those of a numpy array.

    Examples
    --------
    >>> table = Columns({"amount": [1.0, 2.5], "code": ["A ", None]})
    >>> table.shape, table.column(1).values.tolist()
    ((2, 2), ['A', ''])
    """

    def __init__(self, arrays: Mapping[str, Any], *, named: bool = True) -> None:
        self.named = named
        self._arrays = {name: _vector(name, values) for name, values in arrays.items()}
        self._columns: dict[str, Column] = {}
        lengths = {name: len(values) for name, values in self._arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns must be equally long, got {lengths}")
        self.shape = (next(iter(lengths.values()), 0), len(lengths))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        """Return the number of columns; that of the samples is ``shape[0]``."""
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"Columns({self.shape[0]:,} samples of {listed(map(repr, self))})"

    def column(self, place: int) -> Column:
        """Return a column in its raw form."""
        name = next(itertools.islice(self._arrays, place, None))
        if name not in self._columns:
            self._columns[name] = _from_array(name, self._arrays[name])
        return self._columns[name]

    def select(self, names: Sequence[str], *, named: bool = True) -> Columns:
        """Return some columns, in this order."""
        if missing := [name for name in names if name not in self._arrays]:
            raise ValueError(
                f"X lacks columns of the fit: {listed(map(repr, missing))}; it has {listed(map(repr, self))}"
            )
        chosen = Columns({name: self._arrays[name] for name in names}, named=named)
        chosen._columns = self._columns
        return chosen

    def to_table(self) -> Any:
        """Return a data frame, or an array where names mean nothing, for estimators that read tables themselves."""
        import pandas as pd  # noqa: PLC0415  only these need it

        frame = pd.DataFrame(self._arrays)
        return frame if self.named else frame.to_numpy()

    @classmethod
    def concatenate(cls, parts: Sequence[Columns]) -> Columns:
        """Return tables of the same columns, one below the other."""
        first = parts[0]
        if len(parts) == 1:
            return first
        return cls({name: np.concatenate([part[name] for part in parts]) for name in first}, named=first.named)


def _vector(name: str, values: Any) -> NDArray[Any]:
    if not isinstance(name, str):
        raise TypeError(f"the names of columns must be text, got {name!r}")
    refuse_masked(values, f"column {name!r}")
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"column {name!r} must hold one value for each sample, got shape {array.shape}")
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: column {name!r} holds complex numbers")
    return array


def read_columns(X: Any) -> tuple[list[str] | None, tuple[int, int], Callable[[int], Column]]:  # noqa: N803
    """Return names, shape and a reader of single columns of a table: an array, a frame, or a mapping of arrays.

    Arrays and frames with odd names have no names. A table without rows or columns is refused, in scikit-learn's words.
    """
    ready = isinstance(X, ParsedTable | ReadTable)
    names, shape, column = (X.names, X.shape, X.column) if ready else _read(X)
    if 0 in shape:
        what = "sample" if shape[0] == 0 else "feature"
        raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")
    return names, shape, column


def _read(X: Any) -> tuple[list[str] | None, tuple[int, int], Callable[[int], Column]]:  # noqa: N803
    X = dense(X)  # noqa: N806  some sparse matrices are mappings
    if isinstance(X, Mapping):
        columns = X if isinstance(X, Columns) else Columns(X)
        return list(columns) if columns.named else None, columns.shape, columns.column
    if isinstance(X, np.ndarray | list | tuple):
        return _read_array(np.asarray(X))
    try:
        frame = nw.from_native(X)
    except TypeError:
        return _read_array(np.asarray(X))  # torch tensors, memory maps and everything else with __array__
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"the table has two columns of the same name: {error}") from None
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("X is a lazy table: collect it first, for instance X.collect()")
    return _read_frame(frame)


def dense(X: Any) -> Any:  # noqa: N803
    """Return a sparse matrix (scipy) as an array, unless that would be very large; anything else as it is.

    >>> from scipy.sparse import csr_array
    >>> dense(csr_array([[0, 2], [1, 0]])).tolist()
    [[0, 2], [1, 0]]
    """
    if not hasattr(X, "toarray"):
        return X
    cells = math.prod(X.shape)
    if cells > LARGEST:
        raise ValueError(
            f"a sparse matrix of {X.shape[0]:,} x {X.shape[1]:,} would be a table of {cells / 2**27:.1f} GiB, 1 GiB "
            "is the most: use fewer columns (TruncatedSVD, SelectKBest), or an estimator that takes sparse matrices, "
            "AdaCSLClassifier(estimator)"
        )
    return X.toarray()


def _read_array(array: NDArray[Any]) -> tuple[None, tuple[int, int], Callable[[int], Column]]:
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead: a table has rows and columns. Reshape your data"
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X holds complex numbers")
    return None, (array.shape[0], array.shape[1]), lambda i: _from_array(f"x{i}", array[:, i])


def _read_frame(frame: nw.DataFrame[Any]) -> tuple[list[str] | None, tuple[int, int], Callable[[int], Column]]:
    columns = list(frame.columns)
    if doubled := repeated(columns):
        raise ValueError(f"the table has two columns of the same name: {listed(map(repr, doubled))}")
    names = columns if all(isinstance(c, str) for c in columns) else None
    pandas = frame.to_native() if names is not None and frame.implementation.is_pandas() else None

    def column(i: int) -> Column:
        ready = None if pandas is None else _from_pandas(columns[i], pandas[columns[i]])
        return _from_series(str(columns[i]), frame.get_column(columns[i])) if ready is None else ready

    return names, frame.shape, column


def _from_pandas(name: str, series: Any) -> Column | None:
    """Return a column of pandas as :func:`_from_series` does, but faster and for the usual types only."""
    dtype = series.dtype
    if type(dtype).__name__ == "StringDtype" or (isinstance(dtype, np.dtype) and dtype.kind == "O"):
        return _from_array(name, series.to_numpy().astype(object))
    if isinstance(dtype, np.dtype) and (dtype.kind in "biu" or dtype in (np.float32, np.float64)):
        return _from_array(name, series.to_numpy())
    return None


def _from_array(name: str, values: NDArray[Any]) -> Column:
    if values.dtype.kind == "M":
        return Column(name, "date", _seconds(values))
    if values.dtype.kind == "m":
        return Column(name, "number", np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "s")))
    if values.dtype.kind in "OUST":
        return Column(name, "text", clean_text(values))
    return Column(name, "number", values.astype(np.float64))


def _from_series(name: str, series: nw.Series[Any]) -> Column:
    dtype = series.dtype
    if dtype.is_nested():
        raise ValueError(f"column {name!r} holds lists or structs ({dtype}): turn their parts into columns first")
    if dtype.is_numeric() or dtype == nw.Boolean:
        return _from_array(name, _floats(series))
    if dtype in (nw.Date, nw.Datetime):
        return _from_array(name, _instants(series))
    if dtype == nw.Duration:
        return _from_array(name, series.to_numpy().astype("timedelta64[us]"))
    if dtype in (nw.Categorical, nw.Enum):
        series = series.cast(nw.String)
    return _from_array(name, series.to_numpy().astype(object))


def _floats(series: nw.Series[Any]) -> NDArray[np.float64]:
    """Return numbers with NaN for null, whatever the library's own integer and boolean nulls are."""
    try:
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    except ValueError:  # Arrow refuses whole numbers that float64 would round
        numbers = np.asarray(series.fill_null(0).to_numpy()).astype(np.float64)
        return np.where(np.asarray(series.is_null().to_numpy()), np.nan, numbers)


def _instants(series: nw.Series[Any]) -> NDArray[Any]:
    if series.dtype == nw.Datetime and getattr(series.dtype, "time_zone", None):
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return np.asarray(series.to_numpy(), dtype="datetime64[us]")


def _seconds(values: NDArray[Any]) -> NDArray[np.float64]:
    instants = values.astype("datetime64[us]")
    return np.where(np.isnat(instants), np.nan, instants.astype(np.int64) / 1e6)


def clean_text(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values as text without blanks (and NUL) at its ends, ``""`` where they are missing."""
    # str() of every kind of missing value is one of a few words
    plain = (values.astype(str) if values.dtype.kind == "S" else values).tolist()
    texts = [str(value).strip(BLANK) for value in plain]  # numpy's own strip is no faster, and wrong about NUL
    return as_text(["" if text in _MISSING else text for text in texts])


def as_text(texts: Sequence[str]) -> NDArray[Any]:
    """Return texts, none of which ends in NUL, as an array: at one width, or each at its own length where one is long.

    >>> as_text(["a", "ab"]).dtype, as_text(["a", "b" * 99]).dtype
    (dtype('<U2'), StringDType())
    """
    longest = max(map(len, texts), default=1)
    if longest <= NARROW and all(map(str.isascii, texts)):
        return np.array(texts, dtype=f"<U{longest or 1}")
    try:
        text = np.array(texts, dtype=np.dtypes.StringDType())
    except UnicodeEncodeError:  # halves of a character, which JSON may hold
        return as_text([text.encode(errors="replace").decode() for text in texts])
    return text if longest > NARROW else text.astype(f"<U{longest or 1}")


# text that is something else


def parse_numbers(column: Column) -> NDArray[np.float64] | None:
    """Return text as numbers, None where some value is no number."""
    if column.parsed is not None and column.parsed.numbers is not None:
        return column.parsed.of_rows(column.rows, column.parsed.numbers)
    return _parsed(column, _as_numbers)


def parse_dates(column: Column) -> NDArray[np.float64] | None:
    """Return ISO text as seconds, None where some value is no ISO date."""
    if column.parsed is not None and column.parsed.seconds is not None:
        return column.parsed.of_rows(column.rows, column.parsed.seconds)
    return _parsed(column, _as_seconds)


def _parsed(column: Column, parse: Callable[[NDArray[Any]], NDArray[np.float64]]) -> NDArray[np.float64] | None:
    present = column.values != ""
    out = np.full(len(present), np.nan)
    try:
        out[present] = parse(column.values[present])
    except ValueError:
        return None
    return out


def _as_numbers(text: NDArray[Any]) -> NDArray[np.float64]:
    if (np.strings.find(text, "_") >= 0).any():
        raise ValueError("an underscore cannot be part of a number")
    try:
        return text.astype(np.float64)
    except ValueError:  # booleans are numbers too
        words = np.isin(text, tuple(TRUTHS))
        if not words.any():
            raise
        out = np.empty(len(text))
        out[words] = [TRUTHS[word] for word in text[words].tolist()]
        out[~words] = text[~words].astype(np.float64)
        return out


def _as_seconds(text: NDArray[Any]) -> NDArray[np.float64]:
    # numpy would also read "now" and "2012" as dates
    long = (np.strings.str_len(text) >= 10).all()
    if not long or (text.astype("<U10").view("<U1").reshape(-1, 10)[:, [4, 7]] != "-").any():
        raise ValueError("no ISO dates")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # numpy converts zones to UTC, which is right, but warns
        return _seconds(text.astype("datetime64[us]"))


def recognised(column: Column) -> Column:
    """Return a column as what it is: text that is all numbers, or all ISO dates, counts as such."""
    if column.kind != "text":
        return column
    if (numbers := parse_numbers(column)) is not None:
        return Column(column.name, "number", numbers)
    dates = parse_dates(column)
    return column if dates is None else Column(column.name, "date", dates)


def _first_bad(column: Column, parse: Callable[[Column], NDArray[np.float64] | None]) -> str:
    """Return the first text that ``parse`` refuses, by bisection: each step halves the candidates."""
    values = column.values
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] if parse(Column(column.name, "text", values[:half])) is None else values[half:]
    return str(values[0])


def as_kind(column: Column, kind: str) -> NDArray[np.float64]:
    """Return the column as finite numbers ("number") or as seconds ("date"), or say which value is none."""
    if column.kind == kind or (column.kind != "text" and np.isnan(column.values).all()):
        return finite(column).values
    parse = parse_numbers if kind == "number" else parse_dates
    values = parse(column) if column.kind == "text" else None
    if values is None:
        now = repr(_first_bad(column, parse)) if column.kind == "text" else f"{column.kind}s"
        raise ValueError(f"column {column.name!r} held {kind}s when the encoder was fitted, now it holds {now}")
    return finite(Column(column.name, "number", values)).values


def finite(column: Column) -> Column:
    """Return the column, or refuse infinite numbers: which column, how many, and what to do."""
    infinite = np.isinf(column.values) if column.kind == "number" else np.zeros(0, dtype=bool)
    if infinite.any():
        where = f"{int(infinite.sum())} of {len(infinite)} rows, first in row {int(infinite.argmax()) + 1}"
        raise ValueError(
            f"column {column.name!r} holds infinite numbers ({where}): expected finite numbers or missing values; "
            "correct them, or replace them with NaN"
        )
    return column


# categories


def as_levels(column: Column) -> NDArray[Any]:
    """Return the column as text, each value in its one spelling; ``""`` where it is missing.

    >>> as_levels(Column("code", "number", np.array([1.0, 2.5, np.nan]))).tolist()
    ['1', '2.5', '']
    >>> as_levels(Column("code", "text", np.array(["1.0", "2.50", "A", ""]))).tolist()
    ['1', '2.5', 'A', '']
    """
    if column.parsed is not None and column.kind == "text":
        return column.parsed.of_rows(column.rows, column.parsed.levels)
    if column.kind == "text":
        values = column.values.tolist()
        spelt = spellings(values)
        return as_text([spelt[value] for value in values])
    result, places = np.unique(column.values, return_inverse=True)
    texts = _spelt_dates(result) if column.kind == "date" else [_spelt_number(number) for number in result.tolist()]
    return as_text(texts)[places]


def spelling(text: str) -> str:
    """Return the one spelling of a value that came as text: numbers, booleans and ISO dates have one each.

    A number is spelled as the shortest text that is read as this number, whole numbers without a point; booleans are 1
    and 0; dates at midnight have no time, and times with a zone are in UTC.

    >>> [spelling(text) for text in ("1.0", "01", "1e0", "True", "-0.0", "2.50", "100000000000000000000", "A 1")]
    ['1', '1', '1', '1', '0', '2.5', '1e+20', 'A 1']
    >>> [spelling(text) for text in ("2024-03-31 00:00:00", "2024-03-31T14:30+02:00", "2024-03-32")]
    ['2024-03-31', '2024-03-31T12:30:00', '2024-03-32']
    """
    return spellings([text])[text]


def spellings(texts: Iterable[str]) -> dict[str, str]:
    """Return the :func:`spelling` of each different text."""
    spelt = {}
    for text in dict.fromkeys(texts):
        number = read_number(text)
        spelt[text] = text if number is None else _spelt_number(number)
    dates = [text for text in spelt if _may_be_date(text)]
    if not dates:
        return spelt
    return spelt | dict(zip(dates, _spelt_date_texts(dates), strict=True))


def read_number(text: str) -> float | None:
    """Return the number in a text, of a boolean 1 or 0; None where it is neither.

    >>> read_number("2.50"), read_number("true"), read_number("A"), read_number("10_20")
    (2.5, 1.0, None, None)
    """
    if "_" in text:  # Python's own separator of thousands: in data it is a name such as 10_20
        return None
    try:
        return TRUTHS.get(text) if text in TRUTHS else float(text)
    except ValueError:
        return None


def _spelt_number(number: float) -> str:
    if number != number:  # noqa: PLR0124  NaN
        return ""
    if not number.is_integer() and abs(number) < 1e38:
        # six digits survive single precision: 0.1 in float32 is the 0.1 of a text file
        short = float(f"{number:.6g}")
        number = short if struct.unpack("f", struct.pack("f", short))[0] == number else number
    return repr(number + 0.0).removesuffix(".0")  # -0.0 is 0


def _may_be_date(text: str) -> bool:
    return len(text) >= 10 and text[4] == text[7] == "-"


def _spelt_date_texts(texts: list[str]) -> list[str]:
    seconds = parse_dates(Column("", "text", np.array(texts, dtype=str)))
    if seconds is not None:
        return _spelt_dates(seconds)
    return texts if len(texts) == 1 else [one for text in texts for one in _spelt_date_texts([text])]


def _spelt_dates(seconds: NDArray[np.float64]) -> list[str]:
    known = np.nan_to_num(seconds)
    instants = np.datetime_as_string(np.rint(known * 1e6).astype("datetime64[us]")).tolist()
    texts = (text.removesuffix(".000000").removesuffix("T00:00:00") for text in instants)
    return ["" if gap else text for text, gap in zip(texts, np.isnan(seconds).tolist(), strict=True)]


def places_of(levels: Iterable[str]) -> dict[str, int]:
    """Return the position of each level, by which :func:`positions_among` looks them up."""
    return {level: place for place, level in enumerate(levels)}


def positions_among(places: Mapping[str, int], text: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each text among the levels, -1 where it is none of them."""
    return np.fromiter((places.get(each, -1) for each in text.tolist()), np.int64, len(text))


def names_of(X: Any) -> tuple[str, ...] | None:  # noqa: N803
    """Return the names of a table's columns; None where it has none, or odd ones."""
    if isinstance(X, Columns):
        return tuple(X) if X.named else None
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    named = isinstance(frame, nw.DataFrame) and all(isinstance(name, str) for name in frame.columns)
    return tuple(frame.columns) if named else None


def without_columns(X: Any, names: Sequence[str]) -> Any:  # noqa: N803
    """Return a table without some columns, where it has them; arrays have no names and stay as they are."""
    frame = nw.from_native(X, eager_only=True, pass_through=True) if names else X
    if not isinstance(frame, nw.DataFrame):
        return X
    known = set(frame.columns)
    gone = [name for name in names if name in known]
    return frame.drop(gone).to_native() if gone else X


def with_columns(X: Any, names: Sequence[str]) -> Any:  # noqa: N803
    """Return some columns of a table."""
    if isinstance(X, Mapping):
        return (X if isinstance(X, Columns) else Columns(X)).select(names)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"columns with names ({listed(names)}) need a table, got {type(X).__name__}")
    known = set(frame.columns)
    if missing := [name for name in names if name not in known]:
        raise ValueError(f"the table has no column {missing[0]!r}; it has {listed(map(str, frame.columns))}")
    return frame.select(list(names)).to_native()
