"""Writes columns piece by piece as Parquet or CSV."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from adacsl.extras import requires

SUFFIXES = (".parquet", ".pq", ".csv")
EXACT = 2.0**53

Write = Callable[[Mapping[str, Any]], None]


def check_suffix(path: Path) -> None:
    """Refuse a name that does not say how to write."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"cannot tell how to write {path}: expected a name that ends in {', '.join(SUFFIXES)}")


@contextmanager
def table_writer(draft: Path, like: Path, columns: Mapping[str, Any]) -> Iterator[Write]:
    """Open a file and yield a function that appends rows.

    Parameters
    ----------
    draft : path
        The file to write.
    like : path
        Its name in the end, which says whether it is Parquet or CSV.
    columns : mapping of str to pyarrow type
        Names and kinds of the columns.
    """
    with requires("cli"):
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow.csv import CSVWriter  # noqa: PLC0415
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415
    schema = pa.schema(list(columns.items()))
    writer = CSVWriter(draft, schema) if like.suffix.lower() == ".csv" else ParquetWriter(draft, schema)

    def write(values: Mapping[str, Any]) -> None:
        arrays = [_arrow(values[field.name], field) for field in schema]
        writer.write_table(pa.table(arrays, schema=schema))

    try:
        yield write
        writer.close()
    except BaseException:
        # closing a file that could not be written fails as well
        with contextlib.suppress(Exception):
            writer.close()
        raise


def column_type(path: Path | None, name: str) -> Any:
    """Return the kind of a column that is to be kept as it is: that of the Parquet file, or text."""
    with requires("cli"):
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow.parquet import read_schema  # noqa: PLC0415
    if path is None:
        return pa.string()
    part = next(iter(sorted(path.glob("*.parquet")))) if path.is_dir() else path
    kind = read_schema(part).field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def label_type(labels: np.ndarray[Any, Any]) -> Any:
    """Return the kind of a column of labels."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.string() if labels.dtype.kind in "USO" else pa.from_numpy_dtype(labels.dtype)


def _arrow(values: Any, field: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if pa.types.is_integer(field.type) and array.dtype.kind == "f" and (np.abs(array) > EXACT).any():
        raise ValueError(
            f"column {field.name!r} has gaps and numbers above 2^53: it cannot be kept without rounding them"
        )
    if array.dtype.kind in "USO" and pa.types.is_string(field.type):
        array = array.astype(object)
    return pa.array(array, type=field.type, from_pandas=True)


__all__ = ["Write", "check_suffix", "column_type", "label_type", "table_writer"]
