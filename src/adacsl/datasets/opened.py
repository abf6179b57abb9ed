"""A table that was opened, whatever it is kept in: its columns, and its rows whole or in pieces."""

from __future__ import annotations

import csv
import datetime
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adacsl.datasets.errors import DataError, check_column, listed, one_line
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

AT_ONCE = 1 << 20
"""Rows that are read at a time where all are wanted."""


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
        doubled = sorted({column for column in columns if list(columns).count(column) > 1})
        if doubled:
            raise DataError(f"{name} has several columns called {listed(map(repr, doubled))}: rename or remove them")
        self.name, self.columns, self.n_rows = name, list(columns), n_rows
        self.read_as: list[str] = []
        """How it was read, where that had to be found out."""

    def wanted(self, columns: Sequence[str] | None) -> list[str]:
        """Return the columns to read, all of which are there."""
        for column in columns or ():
            check_column(column, self.columns, self.name)
        return list(self.columns if columns is None else columns)

    def kind(self, column: str) -> Any:
        """Return the pyarrow type of a column; text, where the file has no types."""
        with requires("cli"):
            import pyarrow as pa  # noqa: PLC0415
        return pa.string()

    def read(self, columns: list[str]) -> pd.DataFrame:
        """Return some columns of all rows."""
        pieces = list(self.pieces(columns, AT_ONCE))
        if not pieces:
            return pd.DataFrame(columns=columns)
        return pieces[0] if len(pieces) == 1 else pd.concat(pieces)

    @abstractmethod
    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield some columns in pieces of at most so many rows, whose index counts the rows of the whole table."""


class InMemory(Table):
    """A table that is read whole, as its file cannot be read otherwise."""

    def __init__(self, name: str, frame: pd.DataFrame) -> None:
        super().__init__(name, [str(column) for column in frame.columns], len(frame))
        self.frame = frame.set_axis(self.columns, axis=1).reset_index(drop=True)

    def kind(self, column: str) -> Any:
        """Return the pyarrow type of a column."""
        with requires("cli"):
            import pyarrow as pa  # noqa: PLC0415
        return pa.Array.from_pandas(self.frame[column]).type

    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield the table cut into pieces."""
        for start in range(0, len(self.frame), rows):
            yield self.frame[columns].iloc[start : start + rows]


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
            f"{path} is no {encoding} text ({one_line(error)}): name its encoding, encoding=..., or save it as UTF-8"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {one_line(error)}; the file may be damaged or cut off") from error


def plain_objects(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns hold numbers, truth values, dates or text, never a mixture.

    Numbers among text become text, as they would be in a CSV file; truth values with gaps become numbers with gaps.
    """
    columns = {name: _plain(column.infer_objects()) for name, column in frame.items()}
    return pd.DataFrame(columns, index=frame.index)


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    kinds = {type(value) for value in column.dropna()}
    if column.dtype != object:
        return column
    if kinds <= {int, float, bool} and (bool not in kinds or len(kinds) == 1):
        return column.astype(float)
    return pd.to_datetime(column) if kinds <= {datetime.datetime, pd.Timestamp} else as_text(column)


def as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return what a column holds as text, whole numbers without a decimal point; gaps stay."""
    text = [None if pd.isna(value) else _text(value) for value in column]
    return pd.Series(text, index=column.index, name=column.name)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
