"""CSV files of results that are complete after every row, and can be merged."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from paper import subgroups

Row = dict[str, Any]

COLUMNS = (
    *("dataset", "profile", "split", "k", "method", "seed"),
    *("cost", "normalized_cost", "accuracy", "epoch", "seconds"),
)
KEY = COLUMNS[:6]
EPOCH_COLUMNS = (*KEY, "epoch", "fold", "lambda", "threshold", "train_cost", "val_cost")
SHEETS: dict[str, tuple[str, ...]] = {
    "table1": subgroups.COLUMNS,
    "table2": COLUMNS,
    "ablations": COLUMNS,
    "figure1": EPOCH_COLUMNS,
    "held_out": (*KEY, "validation_cost"),
}
SHEET_KEYS = {
    "table1": ("dataset", "seed", "bin"),
    "table2": KEY,
    "ablations": KEY,
    "figure1": (*KEY, "epoch", "fold"),
    "held_out": KEY,
}


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, in the place of what was there; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, encoding="utf-8", newline="")
    draft.replace(path)


class Sheet:
    """A CSV file that is complete after every row; rows with the same key are written once."""

    def __init__(self, path: Path, columns: Sequence[str], *, key: Sequence[str] = KEY) -> None:
        self.path, self.columns, self._key_names = path, tuple(columns), tuple(key)
        self.rows: dict[tuple[Any, ...], Row] = {}

    def start(self, rows: Iterable[Row]) -> None:
        """Take over rows of earlier runs."""
        for row in rows:
            self.rows.setdefault(self.key_of(row), row)
        if self.rows:
            self.write()

    def add(self, row: Row) -> None:
        """Append a row at once, unless it is there."""
        if self.key_of(row) in self.rows:
            return
        self.rows[self.key_of(row)] = row
        text = self._text([row], header=not self.path.exists())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            file.write(text)

    def write(self) -> None:
        """Write all rows, sorted, in the place of what was there."""
        replace_text(self.path, self._text((self.rows[key] for key in sorted(self.rows)), header=True))

    def _text(self, rows: Iterable[Row], *, header: bool) -> str:
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, extrasaction="ignore", lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """Return the identity of a row."""
        return tuple(_value(row[name]) for name in self._key_names)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a CSV file with numbers as numbers."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_results(*paths: Path) -> dict[str, list[Row]]:
    """Return the rows of CSV files, or of folders with them, by sheet; of equal rows the first counts.

    Raises
    ------
    ValueError
        A file is none of ours.
    """
    result: dict[str, Sheet] = {name: Sheet(Path(), SHEETS[name], key=SHEET_KEYS[name]) for name in SHEETS}
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {path} of earlier results")
        files = sorted(path.glob("*.csv")) if path.is_dir() else [path]
        for file in files:
            rows = read_rows(file)
            name = _sheet_name(file)
            for row in rows:
                result[name].rows.setdefault(result[name].key_of(row), row)
    return {name: [sheet.rows[key] for key in sorted(sheet.rows)] for name, sheet in result.items()}


def _sheet_name(file: Path) -> str:
    with file.open(newline="", encoding="utf-8") as lines:
        header = tuple(next(csv.reader(lines), ()))
    fitting = [name for name, columns in SHEETS.items() if set(columns) <= set(header)]
    if not fitting:
        raise ValueError(f"{file} holds no results of this command: its columns are {', '.join(header) or 'none'}")
    return next((name for name in fitting if file.stem.startswith(name)), fitting[0])
