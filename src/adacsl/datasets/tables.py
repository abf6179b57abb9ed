"""Tables from files: whole, or piece by piece when they are larger than memory.

What a column is must not depend on which rows were looked at, or a model would meet other columns than it was trained
on. From CSV, :func:`read_table` makes columns of numbers numbers and leaves all others text (``True`` and dates too);
:func:`stream_table` leaves everything text, which the classifier reads as it read the training data. Parquet knows its
own types.
"""

from __future__ import annotations

import csv
import gzip
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from adacsl.datasets.errors import DataError, check_column, listed, one_line
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = (".parquet", ".pq")
SUFFIXES = (*SEPARATORS, *PARQUET)
ROWS = 65_536
READ_BYTES = 65_536


def read_table(path: str | os.PathLike[str], *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a table into memory.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv`` (both also ``.gz``), ``.parquet``, or a folder of Parquet parts, which are put together in
        the order of their names. Text is UTF-8; the first line names the columns.
    columns : sequence of str, optional
        Only these, in this order.

    Raises
    ------
    DataError
        If there is no such file, it is no table, it is damaged, or it has no rows.
    """
    path = _existing(path)
    frame = _read_parquet(path, columns) if _is_parquet(path) else _read_text(path, columns)
    if len(frame) == 0:
        raise DataError(f"{path} has a header ({listed(frame.columns, 5)}) but no rows: at least one is needed")
    return frame


def stream_table(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None, rows: int = ROWS
) -> Iterator[pd.DataFrame]:
    """Yield a table in pieces of at most ``rows`` rows, holding one piece in memory.

    The index counts the rows of the whole file. Columns of CSV files are text throughout (see above); a file without
    rows yields nothing. What is wrong with the file at large is said before the first piece is asked for.
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows!r}")
    path = _existing(path)
    if _is_parquet(path):
        return _stream_parquet(_parts(path), _wanted(_parquet_columns(path), columns, path), rows)
    return _stream_text(path, _wanted(_header(path), columns, path), rows)


def count_rows(path: str | os.PathLike[str]) -> int | None:
    """Return how many rows a table has, where the file says so (Parquet); None where they would have to be counted."""
    path = _existing(path)
    return sum(int(_parquet_file(part).metadata.num_rows) for part in _parts(path)) if _is_parquet(path) else None


def table_columns(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the columns without reading the rows."""
    path = _existing(path)
    return _parquet_columns(path) if _is_parquet(path) else _header(path)


def column_type(path: Path, name: str) -> Any:
    """Return the pyarrow type of a column: that of a Parquet file, else text."""
    with requires("cli"):
        import pyarrow as pa  # noqa: PLC0415
    if not path.exists() or not _is_parquet(path):
        return pa.string()
    kind = _parquet_file(_parts(path)[0]).schema_arrow.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_table(path: Path) -> bool:
    """Tell whether this is a table by its name: a known suffix, or a folder that holds Parquet parts."""
    return any(path.glob("*.parquet")) if path.is_dir() else _suffix(path) is not None


def _existing(path: str | os.PathLike[str]) -> Path:
    """Return the path of something that can be read as a table."""
    found = Path(path).expanduser()
    if not found.exists():
        raise DataError(f"there is no file {found}: check the name and the folder ({Path.cwd()} is the current one)")
    if found.is_dir():
        if not any(found.glob("*.parquet")):
            raise DataError(f"{found} is a folder without Parquet parts (*.parquet): give a file, or fill it")
    elif _suffix(found) is None:
        raise DataError(f"cannot tell what {found} is: expected {', '.join(SUFFIXES)}; save the table as one of these")
    elif found.stat().st_size == 0:
        raise DataError(f"{found} is empty (0 bytes): write the table again")
    if not os.access(found, os.R_OK):
        raise DataError(f"{found} may not be read: you have no permission; ask its owner, or chmod +r")
    return found


def _suffix(path: Path) -> str | None:
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), None)


def _is_parquet(path: Path) -> bool:
    return path.is_dir() or _suffix(path) in PARQUET


def _wanted(names: Sequence[str], columns: Sequence[str] | None, path: Path) -> list[str]:
    """Return the columns to read, all of which are there."""
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise DataError(f"{path} has several columns called {listed(map(repr, doubled))}: rename or remove them")
    for column in columns or ():
        check_column(column, names, str(path))
    return list(names if columns is None else columns)


# text


@contextmanager
def _reading(path: Path) -> Iterator[None]:
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
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is no UTF-8 text (byte {error.object[error.start]:#04x}): save it as UTF-8, or as Parquet"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {one_line(error)}; the file may be damaged or cut off") from error


def _open(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _header(path: Path) -> list[str]:
    """Return the names of the columns as pandas gives them."""
    separator = SEPARATORS[_suffix(path) or ""]
    with _reading(path), _open(path) as file:
        names = next((line for line in csv.reader(file, delimiter=separator) if line), None)
    if names is None:
        raise DataError(f"{path} is empty: expected a header line and rows")
    if any("\0" in name for name in names):
        raise DataError(f"{path} is no text, whatever its name says: expected a table in UTF-8")
    found = next((other for other in ";\t," if other in names[0]), None)
    if len(names) == 1 and found is not None:
        raise DataError(
            f"the columns of {path} seem to be separated by {found!r}, expected {separator!r}: save it with that"
            f"{', or call it .tsv' if found == chr(9) else ''}"
        )
    return [name or f"Unnamed: {i}" for i, name in enumerate(names)]


def _options(path: Path) -> dict[str, Any]:
    # index_col: pandas else makes an index of the first column where lines are longer than the header. All columns
    # are read and some then picked, because pandas counts the fields of a line only where it reads them all
    return {"sep": SEPARATORS[_suffix(path) or ""], "encoding": "utf-8-sig", "index_col": False}


def _read_text(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    wanted = _wanted(_header(path), columns, path)
    with _reading(path), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame: pd.DataFrame = pd.read_csv(path, low_memory=False, **_options(path))
        truths = [str(name) for name in frame.columns if _holds_truths(frame[name])]
        if truths:
            text = pd.read_csv(path, dtype=str, usecols=truths, **_options(path))
            frame = frame.assign(**{name: text[name] for name in truths})
    return frame[wanted]


def _holds_truths(column: pd.Series[Any]) -> bool:
    """Tell whether pandas made bools of text; with a gap among them it leaves a column of objects."""
    return column.dtype == bool or (column.dtype == object and any(isinstance(value, bool) for value in column))


def _stream_text(path: Path, wanted: list[str], rows: int) -> Iterator[pd.DataFrame]:
    with _reading(path):
        reader = pd.read_csv(path, dtype=str, chunksize=rows, **_options(path))
    with reader:
        while True:
            with _reading(path), warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                chunk = next(reader, None)
            if chunk is None or len(chunk) == 0:
                return
            yield chunk[wanted]


# Parquet


def _parts(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def _parquet_file(path: Path) -> Any:
    with requires("cli"):
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415  text tables need no pyarrow
    with _whole(path, "is no Parquet file, or a damaged one"):
        # by default a whole file is fetched at once; this way a piece of each column is in memory at a time
        return ParquetFile(path, pre_buffer=False, buffer_size=READ_BYTES)


@contextmanager
def _whole(path: Path, otherwise: str) -> Iterator[None]:
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} {otherwise}: {one_line(error)}; write it again") from error


def _parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns, which must be the same in every part; an unnamed pandas index is none."""
    first, *others = _parts(path)
    names = _parquet_names(first)
    for part in others:
        odd = sorted(set(names) ^ set(_parquet_names(part)))
        if odd:
            raise DataError(f"{part} and {first.name} differ in columns ({listed(odd)}): parts must have the same ones")
    return names


def _parquet_names(path: Path) -> list[str]:
    return [name for name in _parquet_file(path).schema_arrow.names if not name.startswith("__index_level_")]


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    wanted = _wanted(_parquet_columns(path), columns, path)
    pieces = list(_stream_parquet(_parts(path), wanted, rows=1 << 20))
    if not pieces:
        return pd.DataFrame(columns=wanted)
    return pieces[0] if len(pieces) == 1 else pd.concat(pieces)


def _stream_parquet(parts: list[Path], wanted: list[str], rows: int) -> Iterator[pd.DataFrame]:
    start = 0
    for part in parts:
        with _whole(part, "is damaged"):
            for batch in _parquet_file(part).iter_batches(batch_size=rows, columns=wanted):
                if batch.num_rows:
                    frame = _as_frame(batch)[wanted]
                    frame.index = pd.RangeIndex(start, start + len(frame))
                    start += len(frame)
                    yield frame


def _as_frame(batch: Any) -> pd.DataFrame:
    """Return a batch as pandas columns of numbers, dates and text; gaps do not make Python objects of numbers."""
    import pyarrow as pa  # noqa: PLC0415

    columns = zip(batch.schema.names, batch.columns, strict=True)
    plain = {name: column.cast(_plain_type(column), safe=False) for name, column in columns}
    frame: pd.DataFrame = pa.table(plain).to_pandas(ignore_metadata=True)
    return frame


def _plain_type(column: Any) -> Any:
    """Return the type of a column, or another where pandas would hold it as objects."""
    import pyarrow as pa  # noqa: PLC0415

    kind, gaps = column.type, column.null_count > 0
    if pa.types.is_decimal(kind) or pa.types.is_null(kind) or (gaps and pa.types.is_integer(kind)):
        return pa.float64()
    if gaps and pa.types.is_boolean(kind):
        return pa.float32()
    return pa.timestamp("us") if pa.types.is_date(kind) else kind
