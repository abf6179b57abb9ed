"""Opens a table by its format: text, Arrow, Parquet, JSON lines, spreadsheets, SQL.

What a column is must not depend on which rows were looked at, or a model would meet other columns than it was trained
on. From CSV, :func:`read_table` makes columns of numbers numbers and leaves all others text (``True`` and dates too);
:func:`stream_table` leaves everything text, which the classifier reads as it read the training data. All others know
their own types, or are looked at whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from adacsl.base.extras import requires
from adacsl.datasets.errors import DataError, listed
from adacsl.datasets.readers import excel
from adacsl.datasets.readers import text as readers_text
from adacsl.datasets.readers.arrow import FEATHER, PARQUET, holds_parquet, open_feather, open_parquet, visible_files
from adacsl.datasets.readers.base import Table
from adacsl.datasets.readers.text import SEPARATORS, TextTable
from adacsl.storage.atomic import at_home

with requires("train"):
    import pandas as pd


PACKED = (*SEPARATORS, *readers_text.SUFFIXES)
SUFFIXES = (
    *(f"{suffix}{packed}" for suffix in PACKED for packed in ("", ".gz")), *PARQUET, *FEATHER, *excel.SUFFIXES,
)  # fmt: skip
ROWS = 65_536


class How(TypedDict, total=False):
    """How a table is read, where that is not to be found out: words that all readers take."""

    separator: str | None
    """Of CSV files: one character, or comma, semicolon, tab, pipe, space."""
    encoding: str | None
    """Of CSV files and JSON lines, such as utf-8, utf-16, cp1252 or latin-1."""
    sheet: str | None
    """Of workbooks: its name, or its number from 1."""
    sql: str | None
    """A SELECT in place of a file."""
    db: str | os.PathLike[str] | None
    """The DuckDB or SQLite file the query is asked of; without it, DuckDB reads the files it names."""


def read_table(
    path: str | os.PathLike[str] | None = None, *, columns: Sequence[str] | None = None, **how: Unpack[How]
) -> pd.DataFrame:
    r"""Return a table of a file, in memory.

    Parameters
    ----------
    path : path, optional
        ``.csv``, ``.tsv``, ``.jsonl``, ``.ndjson`` (all also ``.gz``), ``.parquet``, ``.feather``, ``.arrow``,
        ``.xlsx`` and other workbooks, or a folder of Parquet files, which are put together in the order of their names;
        folders called ``year=2024`` are a column. The first line of text, or row of a sheet, names the columns. None
        with ``sql``.
    columns : sequence of str, optional
        Only these, in this order.
    **how : Any
        ``separator``: one character, or comma, semicolon, tab, pipe, space; ``encoding``, such as utf-8, utf-16, cp1252
        or latin-1; ``sheet`` of a workbook, its name or number from 1; or, in place of a path, ``sql``, a SELECT, and
        ``db``, the DuckDB or SQLite file that it is asked of.

    Returns
    -------
    pandas.DataFrame
        The table; columns of CSV files are text.

    Raises
    ------
    DataError
        If there is no such file, it is no table, it is damaged, or it has no rows.

    See Also
    --------
    stream_table : Tables larger than memory.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from adacsl.datasets import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.csv"
    ...     size = path.write_text("age,label\n31,no\n52,yes\n")
    ...     list(read_table(path))
    ['age', 'label']
    """
    return read_opened(open_table(path, **how), columns)


def read_opened(table: Table, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a table that was opened into memory; at least one row."""
    frame = table.read(table.wanted(columns))
    if len(frame) == 0:
        raise DataError(f"{table.name} has a header ({listed(frame.columns, 5)}) but no rows: at least one is needed")
    return frame


def stream_table(
    path: str | os.PathLike[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    rows: int = ROWS,
    **how: Unpack[How],
) -> Iterator[pd.DataFrame]:
    r"""Yield a table in chunks of at most ``rows`` rows, with one chunk in memory (of a workbook all of it).

    The index counts the rows of the whole file; a file without rows yields nothing. What is wrong with the file at
    large is raised before the first chunk is asked for.

    Parameters
    ----------
    path : path, optional
        As in :func:`read_table`.
    columns : sequence of str, optional
        Only these, in this order.
    rows : int, default 65536
        Rows of a chunk at most.
    **how : Any
        ``separator``: one character, or comma, semicolon, tab, pipe, space; ``encoding``, such as utf-8, utf-16, cp1252
        or latin-1; ``sheet`` of a workbook, its name or number from 1; or, in place of a path, ``sql``, a SELECT, and
        ``db``, the DuckDB or SQLite file that it is asked of.

    Returns
    -------
    iterator of pandas.DataFrame
        The chunks; columns of CSV files are text.

    Raises
    ------
    DataError
        If there is no such file, it is no table, or it is damaged.

    See Also
    --------
    read_table : The whole table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from adacsl.datasets import stream_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.csv"
    ...     size = path.write_text("age,label\n31,no\n52,yes\n")
    ...     [len(chunk) for chunk in stream_table(path, rows=1)]
    [1, 1]
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows!r}")
    table = open_table(path, **how)
    return table.pieces(table.wanted(columns), rows)


def count_rows(path: str | os.PathLike[str]) -> int | None:
    r"""Return the number of rows of a table, where the file states it.

    Parameters
    ----------
    path : path
        A table, or a folder of Parquet files.

    Returns
    -------
    int or None
        None where rows would have to be counted, as in CSV files.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from adacsl.datasets import count_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.csv"
    ...     size = path.write_text("age,label\n31,no\n52,yes\n")
    ...     count_rows(path) is None
    True
    """
    return open_table(path).n_rows


def open_table(path: str | os.PathLike[str] | None = None, **how: Unpack[How]) -> Table:
    """Open a table: its columns are known, its rows not yet read."""
    check_words(path, how)
    if (sql := how.get("sql")) is not None:
        from adacsl.datasets.readers.sql import open_query  # noqa: PLC0415  some builds of Python lack sqlite3

        return open_query(sql, how.get("db"))
    result = _existing(path or "")
    suffix = "" if result.is_dir() else str(_suffix(result))
    if result.is_dir() or suffix in PARQUET:
        return open_parquet(result)
    if suffix in FEATHER:
        return open_feather(result)
    if suffix in excel.SUFFIXES:
        return excel.open_workbook(result, how.get("sheet"))
    if suffix.removesuffix(".gz") in readers_text.SUFFIXES:
        return readers_text.JsonTable(result, how.get("encoding"))
    return TextTable(result, how.get("separator"), how.get("encoding"))


def is_table(path: Path) -> bool:
    """Return whether this is a table by its name: a known suffix, or a folder that holds Parquet files."""
    return holds_parquet(path) if path.is_dir() else _suffix(path) is not None


def table_files(folder: Path) -> list[Path]:
    """Return all tables in and below a folder, by the order of their names."""
    return [path for path in visible_files(folder) if _suffix(path) is not None]


def check_words(path: str | os.PathLike[str] | None, how: How) -> None:
    """Refuse words that have no meaning for what is read."""
    if how.get("sql") is None:
        if path is None:
            raise DataError("no data are given: name a file, or give an SQL query")
        if how.get("db") is not None:
            raise DataError('db is the database of an SQL query: give the query too, such as "select * from loans"')
    elif path is not None:
        raise DataError(f"an SQL query names what it reads: omit {path}, or name it in the query")
    text = path is not None and (_suffix(Path(path)) or "").removesuffix(".gz")
    meant = {"separator": tuple(SEPARATORS), "encoding": PACKED, "sheet": excel.SUFFIXES}
    for word, suffixes in meant.items():
        if how.get(word) is not None and text not in suffixes:
            raise DataError(f"{word} is for {', '.join(suffixes)}, and {path or 'a query'} is none of these")


def _existing(path: str | os.PathLike[str]) -> Path:
    """Return the path of something that can be read as a table."""
    result = at_home(path)
    if not result.exists():
        raise DataError(f"there is no file {result}: check the name and the folder ({Path.cwd()} is the current one)")
    if result.is_dir():
        if not holds_parquet(result):
            raise DataError(f"{result} is a folder without Parquet files (*.parquet): give a file, or fill it")
    elif _suffix(result) is None:
        raise DataError(f"cannot tell what {result} is: expected {', '.join(SUFFIXES)}; save the table as one of these")
    elif result.stat().st_size == 0:
        raise DataError(f"{result} is empty (0 bytes): write the table again")
    if not os.access(result, os.R_OK):
        raise DataError(f"{result} may not be read: you have no permission; ask its owner, or chmod +r")
    return result


def _suffix(path: Path) -> str | None:
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), None)
