"""Parquet, Feather and Arrow files, folders of them, and record batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from adacsl.base.extras import requires
from adacsl.datasets.errors import DataError, listed, one_line, shortened
from adacsl.datasets.readers.base import AT_ONCE, Table, available_memory

with requires("train"):
    import pandas as pd


PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow", ".ipc")
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
READ_BYTES = 65_536
EMPTY_ROWS = 1 << 20
"""So many rows may a file have that holds no value at all: they take none of its bytes."""
DEEPEST = 16
"""Levels of lists and structs inside one another."""
MOST_TEXT = 1 << 30
"""Bytes of text in one column of a batch, where rows may share it."""
YEARS = (-62_135_596_800, 253_402_300_800)
"""The years 1 to 9999 in seconds, as Python's calendar has them."""
DAY = 86_400
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class ArrowTable(Table):
    """Record batches that come one after another.

    Parameters
    ----------
    name : str
        What messages call it.
    schema : pyarrow.Schema
    batches : callable
        Given the names of columns and a number of rows, yields batches of at most so many.
    n_rows : int, optional
    """

    def __init__(
        self, name: str, schema: Any, batches: Callable[[list[str], int], Iterable[Any]], n_rows: int | None = None
    ) -> None:
        super().__init__(name, [column for column in schema.names if not column.startswith("__index_level_")], n_rows)
        self.schema, self.batches = schema, batches

    def read(self, columns: list[str]) -> pd.DataFrame:
        """Return some columns of all rows, if there is memory for them."""
        self._check_memory(columns, self.n_rows or 0, free := available_memory())
        frames, n_rows = [], 0
        for frame in self.pieces(columns, AT_ONCE):
            frames.append(frame)
            n_rows += len(frame)
            self._check_memory(columns, n_rows, free)
        if not frames:
            return pd.DataFrame(columns=columns)
        return frames[0] if len(frames) == 1 else pd.concat(frames)

    def _check_memory(self, columns: list[str], n_rows: int, free: int | None) -> None:
        needed = n_rows * sum(_width(self.kind(column)) for column in columns)
        if free is not None and needed > free:
            raise DataError(
                f"{self.name} has {n_rows:,} rows x {len(columns):,} columns or more, which take "
                f"{needed / 2**30:,.1f} GiB, but {free / 2**30:,.1f} GiB of memory are free: read fewer columns, or a "
                "part of it"
            )

    def kind(self, column: str) -> Any:
        """Return the pyarrow type of a column."""
        import pyarrow as pa  # noqa: PLC0415

        kind = self.schema.field(column).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def pieces(self, columns: list[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield the batches as tables."""
        check_types(self.schema, columns, self.name)
        start = 0
        for batch in self.batches(columns, rows):
            if batch.num_rows:
                frame = _as_frame(batch, self.name)[columns]
                frame.index = pd.RangeIndex(start, start + len(frame))
                start += len(frame)
                yield frame


@contextmanager
def whole(path: object, otherwise: str) -> Iterator[None]:
    """Turn what pyarrow says of a file into one line."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield
    except UnicodeDecodeError as error:
        raise DataError(f"{path} {otherwise}: a name in it is not UTF-8 text; write it again") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} {otherwise}: {one_line(error)}; write it again") from error


# untrusted batches


class ColumnError(DataError):
    """A column of an untrusted batch that cannot be used: its name, and what is wrong with it."""

    def __init__(self, column: str, problem: str, what: str) -> None:
        self.column, self.problem = column, problem
        super().__init__(f"column {shortened(column)!r} of {what} {problem}")


def checked(batch: Any, what: str) -> Any:
    """Return an untrusted record batch, checked: every reader of Arrow data, from a file or a request, calls this.

    Types are checked before values, and values before anything is converted: offsets or codes that point elsewhere, or
    the scale of a decimal, would crash the process in C++. Extension types are replaced by what they store, and
    string views by text.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    what : str
        What messages call the file or request.

    Raises
    ------
    ColumnError
        If a column has a type that is not supported, or values that its type does not allow.
    """
    import pyarrow as pa  # noqa: PLC0415

    check_types(batch.schema, batch.schema.names, what)
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if problem := _value_problem(column):
            raise ColumnError(name, problem, what)
        columns[name] = _stored(column)
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns)) if columns else batch


def check_types(schema: Any, columns: Iterable[str], what: str) -> None:
    """Refuse columns of types that cannot be read, before a batch of them is."""
    for name in columns:
        if problem := _type_problem(schema.field(name).type):
            raise ColumnError(name, problem, what)


def _stored(column: Any) -> Any:
    """Return a column of an extension type as what it stores, and string views as text."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(column.type, pa.BaseExtensionType):
        return _stored(column.storage)
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return column.cast(views[column.type]) if column.type in views else column


def _type_problem(kind: Any, deeper: int = DEEPEST) -> str:
    """Return what is wrong with a type, "" if nothing is."""
    import pyarrow as pa  # noqa: PLC0415

    types = pa.types
    if types.is_decimal(kind):
        sound = 0 <= kind.scale <= kind.precision
        return "" if sound else f"is {kind}: a decimal needs a scale from 0 to its precision"
    if types.is_timestamp(kind):
        return _zone_problem(kind)
    inner = _inner_types(kind)
    if inner is None:
        return ""
    runs = (types.is_run_end_encoded, types.is_union, types.is_list_view, types.is_large_list_view)
    nested = types.is_dictionary(kind) and any(types.is_nested(one) or types.is_dictionary(one) for one in inner)
    if nested or deeper == 0 or not inner or any(is_one(kind) for is_one in runs) or any(map(types.is_null, inner)):
        return f"has the Arrow type {shortened(kind)}, which is not supported: write numbers, text or dates"
    return next(filter(None, (_type_problem(one, deeper - 1) for one in inner)), "")


def _inner_types(kind: Any) -> list[Any] | None:
    """Return the types that a type is made of; None if it is made of no others."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    if pa.types.is_dictionary(kind):
        return [kind.value_type]
    return [kind.field(i).type for i in range(kind.num_fields)] if pa.types.is_nested(kind) else None


def _zone_problem(kind: Any) -> str:
    import pyarrow as pa  # noqa: PLC0415

    try:
        zone = kind.tz
        pa.scalar(0, kind).as_py()
    except UnicodeDecodeError:
        return "has a time zone that is not UTF-8 text"
    except Exception:  # zoneinfo, pytz and pyarrow have errors of their own
        return f"has the time zone {shortened(zone)!r}, which is not known here: convert it to UTC"
    return ""


def _value_problem(column: Any) -> str:
    """Return what is wrong with the values of a column whose type is sound, "" if nothing is."""
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    try:
        column.validate(full=True)
        size = _shared_text(column)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        return f"is damaged: {one_line(error)[:200]}"
    if size > MOST_TEXT:
        return f"holds {size:,} bytes of text that rows share, at most {MOST_TEXT:,} are read: shorten it"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _date_problem(column)
    return next(filter(None, map(_value_problem, _inner_columns(column))), "")


def _shared_text(column: Any) -> int:
    """Return the bytes that the text of a column takes once each row has its own, where rows may share it."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    texts = (pa.string_view(), pa.binary_view(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    if column.type in texts[:2]:
        # a view takes 16 bytes and begins with its length, which pyarrow has no function for
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)[column.offset :][: len(column), 0]
        return int(views.sum(where=column.is_valid().to_numpy(zero_copy_only=False), dtype=np.int64))
    if not pa.types.is_dictionary(column.type) or column.type.value_type not in texts:
        return 0
    lengths = compute.binary_length(column.dictionary)
    if (compute.max(lengths).as_py() or 0) * len(column) <= MOST_TEXT:
        return 0
    return int(compute.sum(compute.take(lengths, column.indices)).as_py() or 0)


def _inner_columns(column: Any) -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(column.type, pa.BaseExtensionType):
        return [column.storage]
    if pa.types.is_dictionary(column.type):
        return [column.dictionary]
    inner = column.flatten() if pa.types.is_nested(column.type) else []
    return inner if isinstance(inner, list) else [inner]


def _date_problem(column: Any) -> str:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import compute  # noqa: PLC0415

    days, zone = pa.types.is_date32(column.type), getattr(column.type, "tz", None)
    result = compute.min_max(column.view(pa.int32() if days else pa.int64())).as_py()
    if result["min"] is None:
        return ""
    margin = DAY if zone else 0  # where it is another day than in UTC
    scale = 1 / DAY if days else UNITS[getattr(column.type, "unit", "ms")]
    if (YEARS[0] + margin) * scale <= result["min"] and result["max"] < (YEARS[1] - margin) * scale:
        return ""
    return "holds dates outside the calendar: expected dates from year 1 to 9999, null where there is none"


def _width(kind: Any) -> int:
    """Return how many bytes a value of a type takes at least."""
    try:
        return int(kind.bit_width) // 8 or 1
    except ValueError:  # text: where it begins
        return 8


def _as_frame(batch: Any, name: str) -> pd.DataFrame:
    """Return a batch as pandas columns of numbers, dates and text; gaps do not make Python objects of numbers."""
    import pyarrow as pa  # noqa: PLC0415

    batch = checked(batch, name)
    columns = zip(batch.schema.names, batch.columns, strict=True)
    try:
        plain = {name: column.cast(_plain_type(column), safe=False) for name, column in columns}
        frame: pd.DataFrame = pa.table(plain).to_pandas(ignore_metadata=True)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError, NotImplementedError) as error:
        raise DataError(f"{name} holds values that cannot be read: {one_line(error)[:200]}") from error
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


# Parquet


class Part(NamedTuple):
    """A file, and what the names of its folders say of all its rows (``year=2024/region=north``)."""

    path: Path
    said: dict[str, Any]
    groups: tuple[int, int] | None = None
    """Of a Parquet file: its row groups from one number up to another; None: all of them."""


def holds_parquet(folder: Path) -> bool:
    """Return whether a folder, or one below it, holds Parquet files, and no image comes before them."""
    for path in visible_files(folder):
        if path.suffix.lower() in PARQUET:
            return True
        if (guess_type(path.name)[0] or "").startswith("image/"):
            return False
    return False


def visible_files(folder: Path) -> Iterator[Path]:
    """Yield the visible files of a folder and then those below it, in the order of their names."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from (Path(root, name) for name in sorted(files) if not name.startswith((".", "_")))


def open_parquet(path: Path) -> ArrowTable:
    """Open a Parquet file, or a folder of them, as one table."""
    parts = _parts(path)
    footers = [_footer(part.path) for part in parts]
    schema = _schema_of(parts, [schema for schema, _ in footers])
    return open_parts(str(path), parts, schema, sum(sum(groups) for _, groups in footers))


def open_parts(name: str, parts: list[Part], schema: Any, n_rows: int | None = None) -> ArrowTable:
    """Return Parquet files, or row groups of them, as one table."""
    return ArrowTable(name, schema, lambda columns, rows: _batches(parts, schema, columns, rows), n_rows)


def split_parquet(path: Path, rows: int) -> tuple[Any, list[tuple[Part, int | None]]]:
    """Return the schema of a Parquet file or folder, and its parts, each with its number of rows.

    A file is one part, unless it has more than ``rows``: then runs of its row groups are. A file that cannot be read is
    a part of unknown length: its reader raises with the reason.
    """
    parts, readable, schemas, cut = _parts(path), list[Part](), list[Any](), list[tuple[Part, int | None]]()
    for part in parts:
        try:
            schema, groups = _footer(part.path)
        except DataError:
            if len(parts) == 1:
                raise
            cut.append((part, None))
            continue
        readable.append(part)
        schemas.append(schema)
        *runs, last = _runs(groups, rows)
        cut += [(part._replace(groups=run[:2]), run[2]) for run in (*runs, last)] if runs else [(part, last[2])]
    if not readable:
        raise DataError(f"{path} holds no Parquet file that can be read: the first is {parts[0].path}")
    return _schema_of(readable, schemas), cut


def _runs(groups: list[int], rows: int) -> Iterator[tuple[int, int, int]]:
    """Yield row groups from, up to, and their rows: at most so many, unless one group has more."""
    start, count = 0, 0
    for number, length in enumerate(groups):
        if count and count + length > rows:
            yield start, number, count
            start, count = number, 0
        count += length
    yield start, len(groups), count


def _footer(path: Path) -> tuple[Any, list[int]]:
    """Return what a Parquet file says of itself: its columns, and the rows of each of its groups."""
    file = _parquet_file(path)
    with whole(path, "is not a Parquet file, or is damaged"):
        about, schema = file.metadata, file.schema_arrow
        schema.names  # noqa: B018  refuses what is not UTF-8
        return schema, [int(about.row_group(i).num_rows) for i in range(about.num_row_groups)]


def _schema_of(parts: list[Part], schemas: list[Any]) -> Any:
    """Return the columns that all parts have, those that folders say last."""
    import pyarrow as pa  # noqa: PLC0415

    first, schema = parts[0], schemas[0]
    for part, own in zip(parts, schemas, strict=True):
        odd = sorted(set(_names(first, schema)) ^ set(_names(part, own)))
        if odd:
            raise DataError(
                f"{part.path} and {first.path.name} differ in columns ({listed(odd)}): parts must have the same ones"
            )
    for name in first.said:
        text = any(isinstance(part.said[name], str) for part in parts)
        schema = schema.append(pa.field(name, pa.string() if text else pa.int64()))
    return schema


def _names(part: Part, schema: Any) -> list[str]:
    return [*(name for name in schema.names if not name.startswith("__index_level_")), *part.said]


def _parts(folder: Path) -> list[Part]:
    """Return the Parquet files in and below a folder; values of folders are numbers where all are whole ones."""
    with requires("cli"):
        import pyarrow  # noqa: F401, PLC0415  text tables need no pyarrow
    if folder.is_file():
        return [Part(folder, {})]
    paths = [path for path in visible_files(folder) if path.suffix.lower() in PARQUET]
    said = [_said(path.relative_to(folder).parts[:-1]) for path in paths]
    for name in said[0]:
        values = [words.get(name) for words in said]
        if all(value is None or value.removeprefix("-").isdecimal() for value in values):
            said = [words | ({name: int(words[name])} if words.get(name) else {}) for words in said]
    return [Part(path, words) for path, words in zip(paths, said, strict=True)]


def _said(folders: Sequence[str]) -> dict[str, Any]:
    pairs = [folder.partition("=") for folder in folders]
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, sign, value in pairs if sign}


def _parquet_file(path: Path) -> Any:
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    with whole(path, "is not a Parquet file, or is damaged"):
        # by default a whole file is fetched at once; this way a piece of each column is in memory at a time
        return ParquetFile(path, pre_buffer=False, buffer_size=READ_BYTES)


def _batches(parts: list[Part], schema: Any, columns: list[str], rows: int) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415

    for part in parts:
        own = [name for name in columns if name not in part.said]
        with whole(part.path, "is damaged"):
            groups = None if part.groups is None else list(range(*part.groups))
            for batch in _parquet_file(part.path).iter_batches(batch_size=rows, row_groups=groups, columns=own):
                known = dict(zip(batch.schema.names, batch.columns, strict=True))
                for name in (name for name in columns if name in part.said):
                    known[name] = pa.repeat(pa.scalar(part.said[name], schema.field(name).type), batch.num_rows)
                yield pa.record_batch(known) if known.keys() != set(own) else batch


# Feather


def open_feather(path: Path) -> ArrowTable:
    """Open a Feather file, or an Arrow file or stream."""
    with whole(path, "is not a Feather or Arrow file, or is damaged"):
        schema = _ipc(path).schema
        return ArrowTable(str(path), schema, lambda columns, rows: _ipc_batches(path, schema, columns, rows))


def _ipc(path: Path, fields: Sequence[int] = ()) -> Any:
    """Return a reader of some fields of an Arrow file or stream; of all, where none is named."""
    with requires("cli"):
        import pyarrow as pa  # noqa: PLC0415
    with whole(path, "is not a Feather or Arrow file, or is damaged"):
        source = pa.memory_map(str(path))
        opened = pa.ipc.open_file if source.read_at(6, 0) == b"ARROW1" else pa.ipc.open_stream
        return opened(source, options=pa.ipc.IpcReadOptions(included_fields=list(fields)))


def _ipc_batches(path: Path, schema: Any, columns: list[str], rows: int) -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415

    places = {name: place for place, name in enumerate(schema.names)}
    empty = all(pa.types.is_null(schema.field(name).type) for name in columns)
    reader = _ipc(path, sorted(places[name] for name in columns))
    count, n_rows = getattr(reader, "num_record_batches", None), 0
    with whole(path, "is damaged"):
        for batch in reader if count is None else map(reader.get_batch, range(count)):
            n_rows += batch.num_rows
            if empty and n_rows > EMPTY_ROWS:
                raise DataError(f"{path} has {n_rows:,} rows without any value: write those that hold some")
            yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
