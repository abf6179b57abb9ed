"""The interface of a table reader, its limits, and the summary of what was read."""

from __future__ import annotations

import csv
import datetime
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from adacsl.base.extras import requires
from adacsl.datasets.columns import spelling
from adacsl.datasets.errors import DataError, DataWarning, check_column, listed, one_line, repeated

with requires("train"):
    import pandas as pd


OnError = Literal["skip", "stop"]
"""What happens to rows without a label and images that cannot be read: they are left out, or an error."""


class Reading(NamedTuple):
    """What was left out of the data, and how they were read where that had to be found out."""

    unlabelled: int = 0
    """So many rows have no label."""
    broken: tuple[str, ...] = ()
    """Images that could not be read, each with the reason."""
    read_as: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return what there is to say as JSON values, for the facts of a run; often nothing."""
        told = {"unlabelled": self.unlabelled, "broken": list(self.broken), "read_as": list(self.read_as)}
        return {name: value for name, value in told.items() if value}

    def warn(self, name: str, rows: int) -> None:
        """Warn of everything, once each."""
        lines = [f"{name} {line}" for line in self.read_as]
        lines += [f"{name}: {line}" for line in describe_left_out(self.facts() | {"rows": rows})]
        for line in lines:
            warnings.warn(line, DataWarning, stacklevel=3)


NOTHING = Reading()


def describe_left_out(about: Mapping[str, Any]) -> list[str]:
    """Return how many rows and images were left out, by the facts of a run.

    >>> describe_left_out({"rows": 90, "unlabelled": 10})
    ['10 rows have no label and are excluded, 90 are used']
    """
    lines, used = [], f"{about['rows']:,} are used"
    if unlabelled := about.get("unlabelled"):
        lines.append(f"{unlabelled:,} rows have no label and are excluded, {used}")
    if broken := about.get("broken"):
        names = listed(line.partition(": ")[0] for line in broken)
        lines.append(f"{len(broken):,} images cannot be read and are excluded ({names}), {used}")
    return lines


def check_on_error(on_error: str) -> None:
    """Refuse another word."""
    if on_error not in ("skip", "stop"):
        raise DataError(f"on_error must be 'skip' or 'stop', got {on_error!r}")


AT_ONCE = 1 << 20
"""Rows that are read at a time where all are wanted."""
MOST_COLUMNS = 50_000
"""Columns of a table; each takes a name, a check and a place in every message and model."""
MOST_CELLS, CELLS_PER_BYTE = 1 << 22, 32
"""Values of a table that its file does not hold one by one (cells between others, names that a line lacks): so many,
or so many for each byte of the file."""


def batch_name(name: str, start: int) -> str:
    """Return what messages call the batch of a table that begins after so many rows."""
    return name if start == 0 else f"{name}, from row {start + 1} on"


def first_warnings_only(start: int) -> warnings.catch_warnings[Any]:
    """Return a context that drops warnings about the data of later batches: they would repeat those of the first."""
    return warnings.catch_warnings(action=None if start == 0 else "ignore", category=DataWarning)


class Table(ABC):
    """A table as it was opened; each kind of file has a class of its own.

    Parameters
    ----------
    name : str
        What messages call it.
    columns : sequence of str
        Names of all columns, no two alike.
    n_rows : int, optional
        How many rows there are, where the file says so.
    """

    def __init__(self, name: str, columns: Sequence[str], n_rows: int | None = None) -> None:
        if len(columns) > MOST_COLUMNS:
            raise DataError(
                f"{name} has {len(columns):,} columns, at most {MOST_COLUMNS:,} are read: keep fewer of them"
            )
        if doubled := repeated(columns):
            raise DataError(f"{name} has several columns called {listed(map(repr, doubled))}: rename or remove them")
        self.name, self.columns, self.n_rows = name, list(columns), n_rows
        self.read_as: list[str] = []
        """How it was read, where that had to be found out."""
        self.kinds: dict[str, str] = {}
        """What columns hold, where all rows were looked at."""

    def wanted(self, columns: Sequence[str] | None) -> list[str]:
        """Return the columns to read, all of which are there."""
        known = dict.fromkeys(self.columns)
        for column in columns or ():
            check_column(column, known, self.name)
        return list(self.columns if columns is None else columns)

    def kind(self, column: str) -> Any:
        """Return the pyarrow type of a column; text, where the file has no types."""
        with requires("cli"):
            import pyarrow as pa  # noqa: PLC0415
        kind = self.kinds.get(column, "text")
        return pa.string() if kind in ("text", "object") else pa.from_numpy_dtype(np.dtype(kind))

    def read(self, columns: list[str]) -> pd.DataFrame:
        """Return some columns of all rows."""
        pieces = list(self.pieces(columns, AT_ONCE))
        if not pieces:
            return pd.DataFrame(columns=columns)
        return pieces[0] if len(pieces) == 1 else pd.concat(pieces)

    def exceeds(self, rows: int) -> bool:
        """Return whether there are more rows than so many, which are read where the file does not say."""
        if self.n_rows is not None:
            return self.n_rows > rows
        return any(seen > rows for seen in accumulate(map(len, self.pieces(self.columns[:1], rows))))

    @abstractmethod
    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield some columns in pieces of at most so many rows, whose index counts the rows of the whole table."""

    def typed(self, pieces: Iterable[Mapping[str, Sequence[Any]]]) -> Iterator[pd.DataFrame]:
        """Yield values by column as tables, each column as what all rows together hold."""
        start = 0
        for values in pieces:
            frame = pd.DataFrame(values, dtype=object)
            frame.index = pd.RangeIndex(start, start + len(frame))
            start += len(frame)
            yield pd.DataFrame({name: as_kind(frame[name], self.kinds[name]) for name in values}, index=frame.index)


class InMemory(Table):
    """A table that is in memory, as its file cannot be read otherwise."""

    def __init__(self, name: str, frame: pd.DataFrame) -> None:
        super().__init__(name, [str(column) for column in frame.columns], len(frame))
        self.frame = frame.set_axis(self.columns, axis=1).reset_index(drop=True)
        known = {str(name): kind for name, kind in self.frame.dtypes.items() if isinstance(kind, np.dtype)}
        self.kinds = {name: kind.name for name, kind in known.items() if kind.kind in "biufM"}

    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield the table cut into pieces."""
        for start in range(0, len(self.frame), rows):
            yield self.frame[columns].iloc[start : start + rows]


def check_cells(name: str, rows: int, columns: int, n_bytes: int) -> None:
    """Refuse a table that would take far more memory than its file has bytes."""
    if rows * columns > max(MOST_CELLS, CELLS_PER_BYTE * n_bytes):
        raise DataError(
            f"{name} has {rows:,} rows x {columns:,} columns in {n_bytes:,} bytes, almost all of them empty: remove "
            "the cells or names that stand apart, or save it as CSV or Parquet"
        )


def available_memory() -> int | None:
    """Return the bytes of memory that are free, where the system says so (Linux)."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


@contextmanager
def reading_text(path: Path, encoding: str) -> Iterator[None]:
    """Turn what goes wrong while a text file is read into one line."""
    try:
        yield
    except pd.errors.EmptyDataError:
        raise DataError(f"{path} is empty: expected a header line and rows") from None
    except pd.errors.ParserWarning:
        raise DataError(f"the lines of {path} have more fields than its header: name every column") from None
    except (pd.errors.ParserError, csv.Error) as error:
        what = one_line(error).removeprefix("Error tokenizing data. C error: ")
        raise DataError(f"{path} is damaged: {what}; every line needs as many fields as the header") from None
    except UnicodeError as error:
        raise DataError(
            f"{path} is not {encoding} text ({one_line(error)}): name its encoding, or save it as UTF-8"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {one_line(error)}; the file may be damaged or cut off") from error


# values that may be anything in each row


def common_kind(types: set[type]) -> str:
    """Return what a column holds whose values are of these types: a numpy dtype, "text" or "object".

    Numbers among text are text, as they would be in a CSV file; whole numbers and truth values with gaps are numbers.

    >>> common_kind({int}), common_kind({int, type(None)}), common_kind({int, str}), common_kind({list})
    ('int64', 'float64', 'text', 'object')
    """
    there = types - {type(None)}
    for only, kind in ((int, "int64"), (bool, "bool")):
        if there == {only}:
            return kind if there == types else "float64"
    if there <= {int, float}:
        return "float64"
    if there <= {datetime.datetime, pd.Timestamp}:
        return "datetime64[us]"
    return "object" if there & {list, dict, bytes} else "text"


def as_kind(column: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """Return a column of objects as what :func:`common_kind` found; gaps stay."""
    if kind != "text":
        try:
            return column.astype(kind)  # type: ignore[call-overload,no-any-return]
        except OverflowError:  # 1e20 in a workbook
            return column.astype("float64")
    text = [None if pd.isna(value) else _text(value) for value in column]
    return pd.Series(text, index=column.index, name=column.name)


def _text(value: Any) -> str:
    """Return a value as text, whole numbers without a decimal point."""
    return spelling(str(value)) if isinstance(value, float) else str(value)
