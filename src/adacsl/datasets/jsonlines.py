"""JSON lines: one object a line, its names are columns; what a line does not name is missing there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from adacsl.datasets.errors import DataError, listed, one_line
from adacsl.datasets.opened import Table, as_text, reading_text
from adacsl.datasets.textfiles import found_encoding, open_text
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

SUFFIXES = (".jsonl", ".ndjson")


class JsonTable(Table):
    """JSON lines. All of them are looked at first: which columns there are, and what they hold."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self.path, self.encoding = path, found_encoding(path, encoding)
        self.kinds: dict[str, set[type]] = {}
        n_rows = 0
        for row in self._rows():
            n_rows += 1
            for name, value in row.items():
                self.kinds.setdefault(name, set()).add(type(value))
            if len(row) < len(self.kinds):
                for name in self.kinds.keys() - row.keys():
                    self.kinds[name].add(type(None))
        super().__init__(str(path), list(self.kinds), n_rows)

    def kind(self, column: str) -> Any:
        """Return the pyarrow type of a column."""
        with requires("cli"):
            import pyarrow as pa  # noqa: PLC0415
        kinds = {"i": pa.int64(), "f": pa.float64(), "b": pa.bool_()}
        return kinds.get(self._as_kind(pd.DataFrame({column: []}))[column].dtype.kind, pa.string())

    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield the lines, so many at a time."""
        start, lines = 0, self._rows()
        while some := list(islice(lines, rows)):
            values = {name: [row.get(name) for row in some] for name in columns}
            index = pd.RangeIndex(start, start + len(some))
            start += len(some)
            yield self._as_kind(pd.DataFrame(values, index=index, dtype=object))

    def _as_kind(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return columns as what all lines together hold: whole numbers, numbers, truth values or text."""
        found: dict[Any, Any] = {}
        for name, column in frame.items():
            kinds = self.kinds[str(name)]
            if kinds in ({int}, {bool}):
                found[name] = column.astype("int64" if kinds == {int} else bool)
            elif kinds <= {int, float, type(None)} or kinds == {bool, type(None)}:
                found[name] = column.astype(float)
            elif kinds & {list, dict}:
                found[name] = column
            else:
                found[name] = as_text(column)
        return pd.DataFrame(found, index=frame.index, columns=frame.columns)

    def _rows(self) -> Iterator[dict[str, Any]]:
        with reading_text(self.path, self.encoding), open_text(self.path, self.encoding) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _row(line, f"line {number} of {self.path}")


def _row(line: str, what: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=_pairs)
    except ValueError as error:
        raise DataError(f"{what} is no JSON: {one_line(error)}; expected one object a line") from None
    if not isinstance(row, dict):
        raise DataError(f'{what} holds {type(row).__name__}, expected one object a line, such as {{"age": 41}}')
    return row


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{listed(sorted({name for name in names if names.count(name) > 1}))} is said twice")
    return row
