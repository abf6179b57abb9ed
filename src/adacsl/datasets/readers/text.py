"""Delimited text and JSON lines; separator, encoding and decimal comma are detected.

Whether text is UTF-8 is asked of the whole file, not of its beginning: what is read must not depend on where the first
accent stands.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from adacsl.base.extras import requires
from adacsl.datasets.errors import DataError, listed, one_line, repeated, shortened
from adacsl.datasets.readers.base import MOST_COLUMNS, Table, check_cells, common_kind, reading_text

with requires("train"):
    import pandas as pd


SEPARATORS = {".csv": ",", ".tsv": "\t"}
NAMED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
TRIED = ",;\t|"
LOOKED_AT = 1 << 16
"""So much text tells the separator."""
BLOCK = 1 << 20
LONGEST_HEADER = 1 << 24
"""Characters of a header, several hundred for each column that may be read."""
UNPACKED, RATIO = 1 << 26, 100
"""A packed file may be so many bytes unpacked, or so many times its own; tables are seldom more than 20 times."""
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # begins as that of UTF-16 does
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
COMMA_NUMBER = r"\s*[-+]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d+(?:[eE][-+]?\d+)?\s*"
"""A number with a decimal comma; dots before it part thousands."""


class TextTable(Table):
    """A CSV file or the like: numbers are numbers where all is read, and everything is text in pieces.

    What a column is must not depend on which rows were looked at; a classifier reads text as it read the training data.
    Where semicolons separate, a comma between digits is a decimal one.
    """

    def __init__(self, path: Path, separator: str | None, encoding: str | None) -> None:
        self.path, self.encoding = path, detected_encoding(path, encoding)
        text, cut = _beginning(path, self.encoding)
        result = _detected_separator(text, cut, SEPARATORS[path.name.lower().removesuffix(".gz")[-4:]])
        self.separator = result if separator is None else _named_separator(separator)
        with reading_text(path, self.encoding):
            names = next((line for line in _lines(text, self.separator) if line), None)
        if names is None:
            raise DataError(f"{path} is empty: expected a header line and rows")
        if len(names) == 1 and result in names[0]:
            raise DataError(f"the columns of {path} seem to be separated by {result!r}, not by {self.separator!r}")
        super().__init__(str(path), [name or f"Unnamed: {i}" for i, name in enumerate(names)])
        if encoding is None and not self.encoding.startswith("utf"):
            self.read_as.append(f"is not UTF-8 text and was read as {self.encoding} (name the encoding for another)")

    def read(self, columns: list[str]) -> pd.DataFrame:
        """Return columns of numbers as numbers and all others as text."""
        with reading_text(self.path, self.encoding), warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame: pd.DataFrame = pd.read_csv(self.path, low_memory=False, **self._options())
            truths = [str(name) for name in frame.columns if _holds_truths(frame[name])]
            if truths:
                text = pd.read_csv(self.path, dtype=str, usecols=truths, **self._options())
                frame = frame.assign(**{name: text[name] for name in truths})
        return self._with_points(frame[columns], numbers=True)

    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield pieces of text."""
        with reading_text(self.path, self.encoding):
            reader = pd.read_csv(self.path, dtype=str, chunksize=rows, **self._options())
        with reader:
            while True:
                with reading_text(self.path, self.encoding), warnings.catch_warnings():
                    warnings.simplefilter("error", pd.errors.ParserWarning)
                    chunk = next(reader, None)
                if chunk is None or len(chunk) == 0:
                    return
                yield self._with_points(chunk[columns], numbers=False)

    def exceeds(self, rows: int) -> bool:
        """Return whether there are more rows than so many; each takes two bytes or more."""
        packed = self.path.name.lower().endswith(".gz")
        return (packed or self.path.stat().st_size > 2 * rows) and super().exceeds(rows)

    def _options(self) -> dict[str, Any]:
        # index_col: pandas else makes an index of the first column where lines are longer than the header. All columns
        # are read and some then picked, because pandas counts the fields of a line only where it reads them all
        return {"sep": self.separator, "encoding": self.encoding, "index_col": False}

    def _with_points(self, frame: pd.DataFrame, *, numbers: bool) -> pd.DataFrame:
        """Return a table with points in place of decimal commas, as numbers where a column has nothing else."""
        if self.separator != ";":
            return frame
        return frame.assign(
            **{
                str(name): _with_points(column, numbers=numbers)
                for name, column in frame.items()
                if pd.api.types.is_string_dtype(column.dtype)
            }
        )


def _with_points(column: pd.Series[Any], *, numbers: bool) -> pd.Series[Any]:
    commas = column.str.fullmatch(COMMA_NUMBER, na=False)
    if not commas.any():
        return column
    points = column.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    pointed = column.where(~commas, points)
    if numbers:
        result = pd.to_numeric(pointed, errors="coerce")
        return pointed if (result.isna() & column.notna()).any() else result
    return pointed


def _holds_truths(column: pd.Series[Any]) -> bool:
    """Return whether pandas made bools of text; with a gap among them it leaves a column of objects."""
    return column.dtype == bool or (column.dtype == object and any(isinstance(value, bool) for value in column))


# encodings


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file that may be packed."""
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a text file that may be packed, with its line ends as they are."""
    return io.TextIOWrapper(open_bytes(path), encoding=encoding, newline="")


def detected_encoding(path: Path, named: str | None = None) -> str:
    """Return the encoding of a text file: the one named, else that of its mark, UTF-8, or that of Western Windows."""
    if named is not None:
        try:
            "".encode(named)  # refuses what is no encoding of text, too
        except LookupError:
            raise DataError(f"encoding {named!r} is not known: expected utf-8, utf-16, cp1252, latin-1, ...") from None
        _check_unpacked(path)
        return "utf-8-sig" if codecs.lookup(named).name == "utf-8" else named
    _check_unpacked(path)
    with reading_text(path, "utf-8"), open_bytes(path) as file:
        start = file.read(LOOKED_AT)
    marked = next((name for mark, name in MARKS.items() if start.startswith(mark)), None)
    if marked is not None:
        return marked
    if b"\0" in start:
        return _without_mark(start, path)
    for name in ("utf-8", "cp1252"):
        if _decodes(path, name):
            return name
    raise DataError(f"{path} is neither UTF-8 nor cp1252 (Latin-1) text: name its encoding")


def _check_unpacked(path: Path) -> None:
    """Refuse a packed file that is far larger than it looks; no more than that is unpacked."""
    if not path.name.lower().endswith(".gz"):
        return
    size = path.stat().st_size
    most, seen = max(UNPACKED, RATIO * size), 0
    with reading_text(path, "utf-8"), open_bytes(path) as file:
        while block := file.read(BLOCK):
            seen += len(block)
            if seen > most:
                raise DataError(
                    f"{path} has {size:,} bytes and unpacks to more than {most:,}, as a table hardly would: unpack it "
                    "first if it is meant to"
                )


def _decodes(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with reading_text(path, encoding), open_bytes(path) as file:
        try:
            while block := file.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _without_mark(start: bytes, path: Path) -> str:
    """Return which UTF-16 this is: every other byte of most text is zero."""
    zeros = [start[first::2].count(0) / len(start) for first in (0, 1)]
    for name, here, there in (("utf-16-le", 1, 0), ("utf-16-be", 0, 1)):
        if zeros[here] > 0.2 and zeros[there] < 0.1:
            return name
    raise DataError(f"{path} is not text, whatever its name: expected a table in UTF-8, or name its encoding")


# separators


def _named_separator(named: str) -> str:
    separator = NAMED.get(named.lower(), named)
    if len(separator) != 1 or separator in '"\r\n':
        raise DataError(f"separator {named!r} must be one character, or one of {', '.join(NAMED)}")
    return separator


def _beginning(path: Path, encoding: str) -> tuple[str, bool]:
    """Return the first lines, whole ones, and whether there are more; the header, however long it is."""
    with reading_text(path, encoding), open_text(path, encoding) as file:
        text = file.read(LOOKED_AT)
        if len(text) < LOOKED_AT:
            return text, False
        whole = text[: text.rfind("\n") + 1] or text + file.readline(LONGEST_HEADER)
    if len(whole) > LONGEST_HEADER:
        raise DataError(
            f"the header of {path} is longer than {LONGEST_HEADER:,} characters: it is probably not a table"
        )
    return whole, True


def _lines(text: str, separator: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator)


def _detected_separator(text: str, cut: bool, usual: str) -> str:
    """Return what parts the header, and every line, into most fields; where nothing does, what is usual."""

    def parted(separator: str) -> tuple[int, int, bool]:
        try:
            counts = [len(line) for line in _lines(text, separator) if line]
        except csv.Error:
            return 0, 0, False
        header = counts[0] if counts else 0
        # a line break within quotes may have cut the last line
        same = header > 1 and set(counts[: -1 if cut else None] or counts) == {header}
        return (header if same else 0), header, separator == usual

    return max(TRIED, key=parted)


SUFFIXES = (".jsonl", ".ndjson")
INTEGERS = range(-(2**63), 2**63)
"""What a column of integers holds."""


class JsonTable(Table):
    """JSON lines. All of them are looked at first: which columns there are, and what they hold."""

    def __init__(self, path: Path, encoding: str | None) -> None:
        self.path, self.encoding = path, detected_encoding(path, encoding)
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
        self.kinds = {name: common_kind(result | gaps[name]) for name, result in types.items()}

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
        raise DataError(f"{what} is not JSON: {one_line(error)}; expected one object a line") from None
    if not isinstance(row, dict):
        raise DataError(f'{what} holds {type(row).__name__}, expected one object a line, such as {{"age": 41}}')
    if "\\u" in line and not _is_text(row):
        raise DataError(f"{what} holds half of a surrogate pair, such as \\\\ud800: write text that UTF-8 can hold")
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
        raise ValueError(f"{listed(repeated(name for name, _ in pairs))} is given twice")
    return row
