"""Rows of a DuckDB or SQLite query, read only."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from adacsl.base.extras import requires
from adacsl.datasets.errors import DataError, one_line
from adacsl.datasets.readers.arrow import ArrowTable
from adacsl.datasets.readers.base import Table, common_kind
from adacsl.storage.atomic import at_home

with requires("train"):
    import pandas as pd


CLOSED: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # a name in a query is never a variable of this program
}
FROM_OUTSIDE: dict[str, Any] = {**CLOSED, "enable_external_access": False}
"""A database may come from anywhere: its views and macros read no other file."""
LONGEST = 200
"""Characters of a database's own words that are told."""
SQLITE = b"SQLite format 3\0"
TYPES = {"integer": int, "real": float, "text": str, "null": type(None), "blob": bytes}
LONGEST_VALUE = 1 << 26
"""Bytes of one value of SQLite: a view may compute one of any length."""
COMMENTS = re.compile(
    r"""('(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^]]*\]) | --[^\n]* | /\*.*?(?:\*/|\Z)""",
    re.DOTALL | re.VERBOSE,
)
"""Comments of a query; what is quoted (the group) is none."""
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


def open_query(sql: str, db: str | os.PathLike[str] | None) -> Table:
    """Open the rows of one SELECT.

    Parameters
    ----------
    sql : str
        One statement that only reads.
    db : path, optional
        A DuckDB or SQLite file; without it DuckDB reads the files that the query names.
    """
    if db is None:
        return _duckdb(sql, ":memory:")
    path = at_home(db)
    if not path.is_file():
        raise DataError(f"there is no database {path}: expected a DuckDB or SQLite file")
    with path.open("rb") as file:
        start = file.read(16)
    if start == SQLITE:
        return SqliteTable(path, sql)
    if start[8:12] != b"DUCK":
        raise DataError(
            f"{path} is not a DuckDB or SQLite file: if it is a table, name it in the query, and no database"
        )
    return _duckdb(sql, str(path))


@contextmanager
def _asking(error: type[Exception], where: str, sql: str) -> Iterator[None]:
    try:
        yield
    except error as problem:
        why = one_line(str(problem).split("\n\n")[0])[:LONGEST]  # DuckDB then shows the query and all its settings
        raise DataError(f"the query {one_line(sql)!r} over {where} failed: {why}") from problem


# DuckDB


def _duckdb(sql: str, database: str) -> ArrowTable:
    with requires("sql"):
        import duckdb  # noqa: PLC0415
        import pyarrow  # noqa: F401, PLC0415  DuckDB hands its rows over through it
    where = "files" if database == ":memory:" else database
    with _asking(duckdb.Error, where, sql):
        memory = database == ":memory:"
        connection = duckdb.connect(database, read_only=not memory, config=CLOSED if memory else FROM_OUTSIDE)
        said = connection.extract_statements(sql)
        if [statement.type for statement in said] != [duckdb.StatementType.SELECT]:
            raise DataError(f"the query {one_line(sql)!r} must be one SELECT: data are only read here")
        schema = connection.sql(sql).limit(0).to_arrow_table().schema

    def batches(columns: list[str], rows: int) -> Iterator[Any]:
        with _asking(duckdb.Error, where, sql):
            yield from (batch.select(columns) for batch in _reader(connection, sql, rows))

    return ArrowTable(f"the query over {where}", schema, batches)


def _reader(connection: Any, sql: str, rows: int) -> Any:
    result = connection.sql(sql)
    # named otherwise before DuckDB 1.4
    return result.to_arrow_reader(rows) if hasattr(result, "to_arrow_reader") else result.fetch_arrow_reader(rows)


# SQLite


class SqliteTable(Table):
    """Rows of a query over SQLite, whose columns hold what all of their values are: whole numbers, numbers or text."""

    def __init__(self, path: Path, sql: str) -> None:
        # the query becomes a part of another, which a comment or semicolon at its end would cut
        self.path, self.sql = path, COMMENTS.sub(lambda result: result[1] or " ", sql).strip().rstrip("; \n\t\r")
        with self._open() as connection:
            with closing(connection.execute(self.sql)) as result:
                super().__init__(f"the query over {path}", [name for name, *_ in result.description or ()])
            # SQLite allows anything in each row: what a column holds is asked of all of them
            asked = ", ".join(f"group_concat(distinct typeof({_quoted(name)}))" for name in self.columns)
            (result,) = connection.execute(f"select {asked} from ({self.sql})")  # noqa: S608  the user's own query
        types = [{TYPES[word] for word in (words or "null").split(",")} for words in result]
        self.kinds = dict(zip(self.columns, map(common_kind, types), strict=True))

    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield the rows, so many at a time."""
        with self._open() as connection:
            result = connection.execute(self.sql)
            some = iter(lambda: result.fetchmany(rows), [])
            place = {name: i for i, name in enumerate(self.columns)}
            places = {name: place[name] for name in columns}
            yield from self.typed({name: [row[i] for row in part] for name, i in places.items()} for part in some)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        address = f"{self.path.resolve().as_uri()}?mode=ro"
        with (
            _asking(sqlite3.Error, str(self.path), self.sql),
            closing(sqlite3.connect(address, uri=True)) as connection,
        ):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
            connection.execute("pragma trusted_schema = off")  # its views call no function with effects
            connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY
            )
            yield connection


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
