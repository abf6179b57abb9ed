"""Tables written batch by batch: Parquet or CSV, complete or absent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.storage.atomic import check_file, draft_of

TABLE_SUFFIXES = (".parquet", ".pq", ".csv")
TEXTS = ("string", "large_string")
EXACT = 2.0**53


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a draft of a file; an error in writing it is one line that names the file."""
    try:
        with draft_of(path) as draft:
            yield draft
    except OSError as error:
        # reading may fail too while the draft is open: only errors about this file are reported as such
        if error.filename not in (None, str(draft), draft, os.fsencode(draft)):
            raise
        raise OSError(f"could not write {path}: {error.strerror or error}; nothing was left there") from error


def check_table_file(path: Path) -> None:
    """Refuse, before any work is done, a table that cannot be written in the end."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise ValueError(f"cannot tell how to write {path}: expected a name that ends in {', '.join(TABLE_SUFFIXES)}")
    check_file(path)


@contextmanager
def writing_table(
    path: Path, columns: Mapping[str, Any], about: Callable[[], Mapping[str, str]] = dict
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that appends rows to a table, Parquet or CSV by its name; it is there when it is complete.

    CSV files are opened in spreadsheets: text in them that begins as a formula gets an apostrophe. Parquet holds all
    values as they are.

    Parameters
    ----------
    path : path
        The file to write.
    columns : mapping of str to pyarrow type
        Names and types of the columns.
    about : callable
        Called when all rows are written; returns the metadata of a Parquet file.
    """
    with requires("cli"):
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow.csv import CSVWriter  # noqa: PLC0415
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415
    from adacsl.base.escape import guarded, guarded_column  # noqa: PLC0415  pandas

    schema, csv = pa.schema(list(columns.items())), path.suffix.lower() == ".csv"
    shown = pa.schema([field.with_name(guarded(field.name)) for field in schema]) if csv else schema

    def write(values: Mapping[str, Any]) -> None:
        cells = [_arrow(values[field.name], field) for field in schema]
        if csv:
            cells = [guarded_column(cell) if str(cell.type) in TEXTS else cell for cell in cells]
        writer.write_table(pa.table(cells, schema=shown))

    with writing(path) as draft:
        writer = CSVWriter(draft, shown) if csv else ParquetWriter(draft, shown)
        try:
            yield write
            if isinstance(writer, ParquetWriter):
                writer.add_key_value_metadata(dict(about()))
            writer.close()
        except BaseException:
            # closing a file that could not be written fails as well
            with contextlib.suppress(Exception):
                writer.close()
            raise


def label_type(labels: np.ndarray[Any, Any]) -> Any:
    """Return the pyarrow type of a column of labels."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.string() if labels.dtype.kind in "USO" else pa.from_numpy_dtype(labels.dtype)


def _arrow(values: Any, field: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if pa.types.is_integer(field.type) and array.dtype.kind == "f" and (np.abs(array) > EXACT).any():
        raise ValueError(
            f"column {field.name!r} has missing values and integers above 2^53, which floats would "
            f"round: store it as text"
        )
    if array.dtype.kind in "USO" and pa.types.is_string(field.type):
        array = array.astype(object)
    return pa.array(array, type=field.type, from_pandas=True)
