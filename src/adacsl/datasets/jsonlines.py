"""JSON lines: one object a line, its names are columns; what a line does not name is missing there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from adacsl.datasets.errors import DataError, listed, one_line, repeated, shortened
from adacsl.datasets.opened import MOST_COLUMNS, Table, check_cells, common_kind, reading_text
from adacsl.datasets.textfiles import found_encoding, open_text
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

SUFFIXES = (".jsonl", ".ndjson")
INTEGERS = range(-(2**63), 2**63)
"""What a column of integers holds."""


class JsonTable(Table):
    """JSON lines. All of them are looked at first: which columns there are, and what they hold."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self.path, self.encoding = path, found_encoding(path, encoding)
        types: dict[str, set[type]] = {}
        counts: Counter[str] = Counter()
        n_rows = 0
        for row in self._rows():
            n_rows += 1
            counts.update(row.keys())
            for name, value in row.items():
                types.setdefault(name, set()).add(type(value))
            if len(types) > MOST_COLUMNS:
                break
        super().__init__(str(path), list(types), n_rows)
        check_cells(str(path), n_rows, len(types), path.stat().st_size)
        gaps = {name: {type(None)} if counts[name] < n_rows else set() for name in types}
        self.kinds = {name: common_kind(found | gaps[name]) for name, found in types.items()}

    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield the lines, so many at a time."""
        lines = self._rows()
        some = iter(lambda: list(islice(lines, rows)), [])
        return self.typed({name: [row.get(name) for row in part] for name in columns} for part in some)

    def _rows(self) -> Iterator[dict[str, Any]]:
        with reading_text(self.path, self.encoding), open_text(self.path, self.encoding) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _row(line, f"line {number} of {self.path}")


def _row(line: str, what: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=_pairs)
    except RecursionError:
        raise DataError(f"{what} is nested too deeply: expected one object a line, with numbers and text") from None
    except ValueError as error:
        raise DataError(f"{what} is no JSON: {one_line(error)}; expected one object a line") from None
    if not isinstance(row, dict):
        raise DataError(f'{what} holds {type(row).__name__}, expected one object a line, such as {{"age": 41}}')
    if "\\u" in line and not _is_text(row):
        raise DataError(f"{what} holds half a character, such as \\\\ud800: write text that UTF-8 can hold")
    for name, value in row.items():
        if type(value) is int and value not in INTEGERS:
            raise DataError(
                f"{what}: {shortened(name)!r} is an integer beyond 64 bits: write it as text, or with a decimal point"
            )
    return row


def _is_text(row: dict[str, Any]) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError(f"{listed(repeated(name for name, _ in pairs))} is said twice")
    return row
