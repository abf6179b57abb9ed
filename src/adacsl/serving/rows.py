"""Rows of a request, from JSON, Arrow or images, checked value by value."""

from __future__ import annotations

import base64
import binascii
import io
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image
from pydantic_core import from_json

from adacsl.datasets.columns import Column, parse_dates, read_number
from adacsl.datasets.errors import did_you_mean, one_line, shortened
from adacsl.datasets.readers.arrow import ColumnError, check_types, checked
from adacsl.serving.errors import MOST, Fault, Refused, named, shown
from adacsl.serving.schema import PICTURE, SAID, Contract, Field

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""Others have decoders that few have looked at, or start other programs."""
PIXELS = 50_000_000
"""So many may the images of a request have, all together: a small file can hold a very large image."""


def read_pictures(values: Sequence[Any], shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return pictures as bytes, N x H x W x C, of the size of the training."""
    height, width, channels = shape
    streams, total = [], 0
    for row, value in enumerate(values):
        stream, size = _checked(value, row)
        total += max(size, height * width)  # decoded, and as the model takes it
        if total > PIXELS:
            fault = f"the images up to this one have {total:,} pixels, at most {PIXELS:,} are taken in one request"
            raise Refused([Fault(f"{fault}: send fewer or smaller ones", row, PICTURE)])
        streams.append(stream)
    from adacsl.datasets.images import decode_files  # noqa: PLC0415  torch

    names = [f"row {row}" for row in range(len(streams))]
    try:
        pixels = decode_files(streams, names, image_size=(height, width))
    except ValueError as error:
        raise Refused([Fault(f"{error} (rows are counted from 0)", column=PICTURE)]) from None
    if channels == 3:
        return pixels
    coloured = np.flatnonzero((pixels != pixels[..., :1]).any(axis=(1, 2, 3)))
    if len(coloured):
        raise Refused([Fault("the model takes grey pictures, this one has colours", int(coloured[0]), PICTURE)])
    return pixels[..., :1]


def _checked(value: Any, row: int) -> tuple[io.BytesIO, int]:
    """Return the file of an image, and how many pixels it says it has."""
    try:
        content = value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Refused([Fault(f"expected {SAID['picture']}, got {shown(value)}", row, PICTURE)]) from None
    stream = io.BytesIO(content)
    try:
        with Image.open(stream, formats=FORMATS) as picture:
            size = picture.width * picture.height
    except Exception:  # decoders raise OSError, SyntaxError, struct.error, ...
        said = f"these {len(content):,} bytes are no picture that can be read ({', '.join(FORMATS)})"
        raise Refused([Fault(said, row, PICTURE)]) from None
    stream.seek(0)
    return stream, size


LONGEST = 1_000
"""So many characters may a text have: numpy gives every row of a column the room of its longest text."""
SHORT = 64
"""Longer texts are no numbers and no dates."""
NUMBERS = {int, float, bool}
ABSENT = type(None)


def read_values(field: Field, values: Sequence[Any]) -> NDArray[Any]:
    """Return the values of a column as an array: numbers as float64 with NaN for null, others as objects.

    A value of another kind is refused; the fault names its row.
    """
    kinds = set(map(type, values))
    if field.needed and ABSENT in kinds:
        raise _refused(field, list(values).index(None), None)
    if field.kind == "number" or (field.kind == "any" and kinds <= NUMBERS | {ABSENT}):
        return _numbers(field, values, kinds)
    texts = kinds <= {str, ABSENT}
    if field.kind == "date":
        return _objects(values) if texts and _are_dates(values) else _each(field, values, _date)
    return _objects(values) if texts and _longest(values) <= LONGEST else _each(field, values, _text)


def _numbers(field: Field, values: Sequence[Any], kinds: set[type]) -> NDArray[Any]:
    if kinds <= NUMBERS:
        try:
            quick = np.array(values, dtype=np.float64)
        except OverflowError:  # a whole number of 400 digits
            quick = np.full(1, np.nan)
        if np.isfinite(quick).all():
            return quick
    return _each(field, values, _number).astype(np.float64)


def _each(field: Field, values: Sequence[Any], read: Callable[[Any], Any]) -> NDArray[Any]:
    """Return what ``read`` makes of each value; null stays (as NaN among numbers)."""
    absent = math.nan if read is _number else None
    found = []
    for row, value in enumerate(values):
        try:
            found.append(absent if value is None else read(value))
        except (ValueError, OverflowError, TypeError):
            raise _refused(field, row, value) from None
    return _objects(found)


def _refused(field: Field, row: int, value: Any) -> Refused:
    if isinstance(value, str) and len(value) > LONGEST:
        return Refused(
            [Fault(f"the text has {len(value):,} characters, at most {LONGEST:,} are taken", row, field.name)]
        )
    if isinstance(value, float) and not math.isfinite(value):
        return Refused([Fault(f"expected {field.wanted}, got {value}, which is no number", row, field.name)])
    return Refused([Fault(f"expected {field.wanted}, got {shown(value)}", row, field.name)])


def _number(value: Any) -> float:
    if isinstance(value, str) and len(value) > SHORT:
        raise ValueError
    number = read_number(value.strip()) if isinstance(value, str) else float(value)
    if number is None or not math.isfinite(number):
        raise ValueError
    return number


def _date(value: Any) -> str:
    if not isinstance(value, str) or not _are_dates([value]):
        raise ValueError
    return value


def _are_dates(values: Sequence[str | None]) -> bool:
    if _longest(values) > SHORT:
        return False
    return parse_dates(Column("", "text", np.asarray([value or "" for value in values]))) is not None


def _longest(values: Sequence[str | None]) -> int:
    return max(map(len, filter(None, values)), default=0)


def _text(value: Any) -> Any:
    """Return text, or a number, whose spelling is the encoder's business."""
    if isinstance(value, str):
        if len(value) > LONGEST:
            raise ValueError
        return value
    if type(value) not in NUMBERS | {Decimal} or not math.isfinite(value):
        raise TypeError
    return value


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


HOW = 'send {"rows": [{"column": value, ...}, ...]} or {"columns": {"column": [values], ...}}'
Form = Literal["rows", "columns"]


class Rows(NamedTuple):
    """Checked rows: a table with the columns of the contract, or pixels; and how they were written."""

    inputs: Any
    form: Form = "columns"


def read_json(body: bytes, contract: Contract, limit: int) -> Rows:
    """Return the rows of a JSON body."""
    try:
        document = from_json(body)
    except ValueError as error:
        raise Refused(f"the body is no JSON ({error}): {HOW}") from None
    if not isinstance(document, dict) or len(document.keys() & {"rows", "columns"}) != 1:
        got = f"an object with {named(document) or 'nothing'}" if isinstance(document, dict) else shown(document)
        raise Refused(f"expected an object with either rows or columns, got {got}: {HOW}")
    form: Form = "rows" if "rows" in document else "columns"
    values = (_of_records if form == "rows" else _of_columns)(document[form], contract, limit)
    return Rows(read_inputs(contract, values), form)


def check_number(n: int, limit: int) -> None:
    """Refuse no rows, and too many."""
    if n == 0:
        raise Refused("there are no rows: send one at least")
    if n > limit:
        raise Refused(f"there are more than {limit:,} rows, the most that one request may have: send them in parts")


def read_inputs(contract: Contract, values: Mapping[str, Sequence[Any]]) -> Any:
    """Return checked values as a table, or as pixels; all columns with a fault are named."""
    if contract.picture is not None:
        return read_pictures(values[contract.fields[0].name], contract.picture)
    return as_table(contract, lambda field: read_values(field, values[field.name]))


def as_table(contract: Contract, read: Callable[[Field], NDArray[Any]]) -> pd.DataFrame:
    """Return the columns of the contract as a table; all that are refused are named."""
    columns, faults = {}, list[Fault]()
    for field in contract.fields:
        try:
            columns[field.name] = read(field)
        except Refused as refused:
            faults += refused.faults
    if faults:
        raise Refused(faults)
    return pd.DataFrame(columns)


def check_columns(contract: Contract, known: Sequence[str], row: int | None = None) -> None:
    """Refuse rows that lack columns."""
    there = set(known)
    missing = [field for field in contract.fields if field.name not in there]
    if missing:
        got = named(known)
        raise Refused([Fault(_lacks(field, known, got), row, field.name) for field in missing[:MOST]])


def _lacks(field: Field, known: Sequence[str], got: str) -> str:
    return f"this column is missing{did_you_mean(field.name, known)} (expected {field.wanted}; got {got})"


def _of_records(records: Any, contract: Contract, limit: int) -> dict[str, list[Any]]:
    if not isinstance(records, list):
        raise Refused(f"rows must be a list of objects, got {shown(records)}")
    check_number(len(records), limit)
    for row, record in enumerate(records):
        if not isinstance(record, dict):
            raise Refused([Fault(f"expected an object, column by column, got {shown(record)}", row)])
    try:
        return {f.name: list(map(operator.itemgetter(f.name), records)) for f in contract.fields}
    except KeyError:
        for row, record in enumerate(records):
            check_columns(contract, list(record), row)
        raise


def _of_columns(columns: Any, contract: Contract, limit: int) -> dict[str, list[Any]]:
    if not isinstance(columns, dict):
        raise Refused(f"columns must be an object of lists, got {shown(columns)}")
    check_columns(contract, list(columns))
    lengths = {}
    for field in contract.fields:
        values = columns[field.name]
        if not isinstance(values, list):
            raise Refused([Fault(f"expected a list of values, got {shown(values)}", column=field.name)])
        lengths[field.name] = len(values)
    first, n = next(iter(lengths.items()))
    for name, length in lengths.items():
        if length != n:
            raise Refused([Fault(f"it has {length:,} values, but column {first!r} has {n:,}", column=name)])
    check_number(n, limit)
    return {field.name: columns[field.name] for field in contract.fields}


DICTIONARY_BATCH, RECORD_BATCH = 2, 3
"""Kinds of messages, as Arrow's format numbers them."""


def read_arrow(body: bytes, contract: Contract, limit: int) -> Rows:
    """Return the rows of an Arrow IPC stream."""
    try:
        return _read_rows(body, contract, limit)
    except ColumnError as error:
        raise Refused([Fault(f"it {error.problem}", column=error.column)]) from None
    except UnicodeDecodeError:
        raise Refused("the body is no Arrow IPC stream that can be read (a name in it is not UTF-8 text)") from None
    except (pa.ArrowException, OSError, struct.error, LookupError, MemoryError, ValueError, ArithmeticError) as error:
        raise Refused(f"the body is no Arrow IPC stream that can be read ({one_line(error)[:200]})") from None


def _read_rows(body: bytes, contract: Contract, limit: int) -> Rows:
    table = _read_table(body, contract, limit)
    check_number(table.num_rows, limit)
    if contract.picture is not None:
        name = contract.fields[0].name
        if not (pa.types.is_binary(kind := table.schema.field(name).type) or pa.types.is_large_binary(kind)):
            raise Refused([Fault(f"expected bytes (binary), got {shortened(kind)}", column=name)])
        return Rows(read_inputs(contract, {name: table.column(name).to_pylist()}))
    return Rows(as_table(contract, lambda field: _values(field, table.column(field.name))))


def write_arrow(columns: dict[str, Any], notes: list[str]) -> bytes:
    """Return an answer as an Arrow IPC stream; notes are metadata of its schema, a line each."""
    table = pa.table(columns).replace_schema_metadata({"notes": "\n".join(notes)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read_table(body: bytes, contract: Contract, limit: int) -> Any:
    for message in pa.ipc.MessageReader.open_stream(body):
        if _is_compressed(bytes(message.metadata)):
            raise Refused("batches are compressed, so that a small body may hold a large table: write them as they are")
    schema = pa.ipc.open_stream(body).schema
    check_columns(contract, schema.names)
    wanted = [schema.get_field_index(field.name) for field in contract.fields]
    if -1 in wanted:
        raise Refused([Fault("two columns have this name", column=contract.fields[wanted.index(-1)].name)])
    check_types(schema, [field.name for field in contract.fields], "the request")
    batches, rows = [], 0
    for batch in pa.ipc.open_stream(body, options=pa.ipc.IpcReadOptions(included_fields=wanted)):
        rows += batch.num_rows
        check_number(rows or 1, limit)
        batches.append(checked(batch, "the request"))
    return pa.Table.from_batches(batches) if batches else pa.schema([schema.field(i) for i in wanted]).empty_table()


def _values(field: Field, column: Any) -> NDArray[Any]:
    """Return one column, checked: numbers as a whole, where nothing is odd, and else as JSON would have it."""
    kind, types = column.type, pa.types
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    if numeric and field.kind in ("number", "any"):
        numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        if not (~np.isfinite(numbers) if field.needed else np.isinf(numbers)).any():
            return numbers
    if types.is_timestamp(kind) or types.is_date(kind):
        dates = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).to_pylist()
        return read_values(field, [None if one is None else one.isoformat() for one in dates])
    if types.is_dictionary(kind):
        column = _decoded(field, column)
    if not (numeric or types.is_null(kind) or types.is_string(column.type) or types.is_large_string(column.type)):
        raise Refused([Fault(f"expected {field.wanted}, got the Arrow type {shortened(kind)}", column=field.name)])
    return read_values(field, [None if one != one else one for one in column.to_pylist()])  # noqa: PLR0124  NaN


def _decoded(field: Field, column: Any) -> Any:
    """Return a dictionary column as plain text; one long text that all rows point to would take all memory."""
    for chunk in column.chunks:
        if any(isinstance(text, str | bytes) and len(text) > LONGEST for text in chunk.dictionary.to_pylist()):
            raise Refused([Fault(f"a text has more than {LONGEST:,} characters", column=field.name)])
    return column.cast(column.type.value_type)


def _is_compressed(message: bytes) -> bool:
    """Tell whether a message says that its buffers are compressed, which pyarrow does not tell before it unpacks them.

    A message is a flatbuffer: tables whose fields lie where a table of offsets says, 0 for those that are not there.
    """

    def number(kind: str, at: int) -> int:
        return int(struct.unpack_from(kind, message, at)[0])

    def field(table: int, place: int) -> int:
        offsets = table - number("<i", table)
        there = 4 + 2 * place < number("<H", offsets) and number("<H", offsets + 4 + 2 * place)
        return table + there if there else 0

    def inner(table: int, place: int) -> int:
        at = field(table, place)
        return at + number("<I", at) if at else 0

    root = number("<I", 0)
    kind, header = field(root, 1), inner(root, 2)
    if not kind or not header or message[kind] not in (DICTIONARY_BATCH, RECORD_BATCH):
        return False
    batch = inner(header, 1) if message[kind] == DICTIONARY_BATCH else header
    return bool(batch and field(batch, 3))
