"""Samples of requests in JSON or Arrow, checked value by value."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError
from pydantic_core import SchemaValidator

from adacsl.base.extras import resolve
from adacsl.datasets.columns import BLANK, Column, Columns, parse_dates, read_number
from adacsl.datasets.errors import did_you_mean, one_line, shortened
from adacsl.datasets.readers.arrow import ColumnError, check_types, checked
from adacsl.serving.errors import MOST, ErrorDetail, RequestError, named, shown
from adacsl.serving.schema import Field, InputSchema

Orientation = Literal["rows", "columns"]
USAGE = 'send {"rows": [{"column": value, ...}, ...]} or {"columns": {"column": [values], ...}}'


class Samples(NamedTuple):
    """The checked samples of a request.

    Parameters
    ----------
    inputs : Columns or array
        Columns of a table, or pixels.
    orientation : {"rows", "columns"}
        How the request was written; the answer is written alike.
    """

    inputs: Any
    orientation: Orientation = "columns"


def read_samples(schema: InputSchema, values: Mapping[str, Sequence[Any]]) -> Any:
    """Return checked values as columns, or as pixels."""
    if schema.image is not None:
        pixels = resolve("adacsl.serving.images:read_images")  # imports torch
        return pixels(values[schema.fields[0].name], schema.image)
    if schema.graph is not None:
        return read_arrays(schema, values)
    return read_each(schema, lambda field: read_values(field, values[field.name]))


def read_arrays(schema: InputSchema, values: Mapping[str, Sequence[Any]]) -> NDArray[np.float64]:
    """Return lists of numbers as one matrix; shorter lists end in zeros, as a tokenizer pads them."""
    arrays = {}
    for field, given in zip(schema.fields, schema.graph.inputs_, strict=True):
        rows = np.zeros((len(values[field.name]), given.size))
        for row, value in enumerate(values[field.name]):
            if not isinstance(value, list) or not set(map(type, value)) <= NUMBERS:
                raise _refused(field, row, value)
            if len(value) > given.size:
                problem = f"the list has {len(value):,} numbers, the model takes {given.size:,}: shorten it"
                raise RequestError([ErrorDetail(problem, row, field.name)])
            try:
                rows[row, : len(value)] = value
            except OverflowError:
                raise _refused(field, row, value) from None
            if not np.isfinite(rows[row]).all():
                raise _refused(field, row, value)
        arrays[field.name] = rows.reshape(len(rows), *given.shape)
    return np.asarray(schema.graph.to_rows(arrays))


def read_each(schema: InputSchema, read: Callable[[Field], NDArray[Any]]) -> Columns:
    """Return all columns; the exception lists an error of each wrong column."""
    columns, errors = {}, list[ErrorDetail]()
    for field in schema.fields:
        try:
            columns[field.name] = read(field)
        except RequestError as error:
            errors += error.errors
    if errors:
        raise RequestError(errors)
    return Columns(columns)


# JSON


def read_json(body: bytes, schema: InputSchema, envelope: SchemaValidator) -> Samples:
    """Return the samples of a JSON body; ``envelope`` is that of the schema."""
    try:
        document = envelope.validate_json(body)
    except ValidationError as error:
        raise _envelope_error(error, schema) from None
    given = document.keys() & {"rows", "columns"}
    if len(given) != 1:
        got = f"an object with {named(document) or 'nothing'}"
        raise RequestError(f"expected an object with either rows or columns, got {got}: {USAGE}")
    if "columns" in given:
        columns = document["columns"]
        first, n = next((name, len(values)) for name, values in columns.items())
        for name, values in columns.items():
            if len(values) != n:
                problem = f"it has {len(values):,} values, but column {first!r} has {n:,}"
                raise RequestError([ErrorDetail(problem, column=name)])
        return Samples(read_samples(schema, columns), "columns")
    records = document["rows"]
    values = {field.name: [record[field.name] for record in records] for field in schema.fields}
    return Samples(read_samples(schema, values), "rows")


def _envelope_error(error: ValidationError, schema: InputSchema) -> RequestError:
    """Return the error of a body of the wrong form."""
    problems = error.errors(include_url=False)
    problem = problems[0]
    place, given, context = problem["loc"], problem["input"], problem.get("ctx", {})
    row = place[1] if len(place) > 1 and isinstance(place[1], int) else None
    if problem["type"] == "missing":
        absent = {str(each["loc"][-1]) for each in problems if each["type"] == "missing"}
        return missing_columns(schema, absent, list(given), row)
    if problem["type"] == "too_long":
        return too_many_rows(context["max_length"])
    column = None
    if problem["type"] == "json_invalid":
        message = f"the body is not valid JSON ({context['error']}): {USAGE}"
    elif problem["type"] == "too_short":
        message = "there are no rows: send at least one"
    elif not place:
        message = f"expected an object with either rows or columns, got {shown(given)}: {USAGE}"
    elif row is not None:
        message = f"expected an object, column by column, got {shown(given)}"
    elif len(place) > 1:
        message, column = f"expected a list of values, got {shown(given)}", str(place[1])
    else:
        form = {"rows": "a list of objects", "columns": "an object of lists"}[str(place[0])]
        message = f"{place[0]} must be {form}, got {shown(given)}"
    return RequestError([ErrorDetail(message, row, column)])


def too_many_rows(limit: int) -> RequestError:
    """Return the error of a request with too many rows."""
    return RequestError(f"there are more than {limit:,} rows, the limit of a request: send them in several requests")


def missing_columns(
    schema: InputSchema, absent: set[str], present: Sequence[str], row: int | None = None
) -> RequestError:
    """Return the error of a request without some columns."""
    got = named(present)
    return RequestError(
        [
            ErrorDetail(
                f"this column is missing{did_you_mean(field.name, present)} (expected {field.wanted}; got {got})", row,
                field.name,
            )
            for field in [field for field in schema.fields if field.name in absent][:MOST]
        ]
    )  # fmt: skip


# values

SHORT = 64
"""Longer texts are neither numbers nor dates."""
NUMBERS = {int, float, bool}
ABSENT = type(None)


def read_values(field: Field, values: Sequence[Any]) -> NDArray[Any]:
    """Return the values of a column: numbers as float64, dates as datetime64 (NaN or NaT for null), others as objects.

    The error of a wrong value names its row.
    """
    kinds = set(map(type, values))
    if field.needed and ABSENT in kinds:
        raise _refused(field, list(values).index(None), None)
    if field.kind == "number" or (field.kind == "any" and kinds <= NUMBERS | {ABSENT}):
        return _numbers(field, values, kinds)
    if field.kind == "date":
        dates = _dates(values) if kinds <= {str, ABSENT} else None
        if dates is None:  # some value is no date: the error names it
            dates = np.asarray(
                [None if each is None else each[0] for each in _each(field, values, _date)], "datetime64[us]"
            )
        return dates
    short = kinds <= {str, ABSENT} and max(map(len, filter(None, values)), default=0) <= field.longest
    return _objects(values) if short else _objects(_each(field, values, functools.partial(_text, field)))


def _numbers(field: Field, values: Sequence[Any], kinds: set[type]) -> NDArray[np.float64]:
    if kinds <= NUMBERS:
        try:
            quick = np.array(values, dtype=np.float64)
        except OverflowError:  # a whole number of 400 digits
            quick = np.full(1, np.nan)
        if np.isfinite(quick).all():
            return quick
    return np.array([math.nan if number is None else number for number in _each(field, values, _number)], np.float64)


def _each(field: Field, values: Sequence[Any], read: Callable[[Any], Any]) -> list[Any]:
    """Return what ``read`` makes of each value; null stays."""
    result = []
    for row, value in enumerate(values):
        try:
            result.append(None if value is None else read(value))
        except (ValueError, OverflowError, TypeError):
            raise _refused(field, row, value) from None
    return result


def _refused(field: Field, row: int, value: Any) -> RequestError:
    if isinstance(value, str) and len(value) > field.longest:
        problem = f"the text has {len(value):,} characters, the limit is {field.longest:,}"
    elif isinstance(value, float) and not math.isfinite(value):
        problem = f"expected {field.wanted}, got {value}, which is not a number"
    else:
        problem = f"expected {field.wanted}, got {shown(value)}"
    return RequestError([ErrorDetail(problem, row, field.name)])


def _number(value: Any) -> float:
    if isinstance(value, str) and len(value) > SHORT:
        raise ValueError
    number = read_number(value.strip(BLANK)) if isinstance(value, str) else float(value)
    if number is None or not math.isfinite(number):
        raise ValueError
    return number


def _date(value: Any) -> NDArray[Any]:
    dates = _dates([value]) if isinstance(value, str) else None
    if dates is None:
        raise ValueError
    return dates


def _dates(values: Sequence[str | None]) -> NDArray[Any] | None:
    """Return ISO dates in UTC; None where some text is no date."""
    texts = ["" if value is None else value.strip(BLANK) for value in values]
    if max(map(len, texts), default=0) > SHORT:
        return None
    try:
        seconds = parse_dates(Column("", "text", np.asarray(texts, dtype=str)))
    except UnicodeEncodeError:  # half a character
        return None
    if seconds is None:
        return None
    missing = np.isnan(seconds)
    instants = np.round(np.where(missing, 0.0, seconds) * 1e6).astype(np.int64).astype("datetime64[us]")
    return np.where(missing, np.datetime64("NaT", "us"), instants)


def _text(field: Field, value: Any) -> Any:
    """Return text, or a number, which the encoder formats."""
    if isinstance(value, str):
        if len(value) > field.longest:
            raise ValueError
        return value
    if type(value) not in NUMBERS | {Decimal} or not math.isfinite(value):
        raise TypeError
    return value


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


# Arrow

DICTIONARY_BATCH, RECORD_BATCH = 2, 3
"""Kinds of messages, as Arrow's format numbers them."""


def read_arrow(body: bytes, schema: InputSchema, limit: int) -> Samples:
    """Return the samples of an Arrow IPC stream."""
    try:
        table = _read_table(body, schema, limit)
        if schema.image is not None or schema.graph is not None:
            columns = {field.name: table.column(field.name).to_pylist() for field in schema.fields}
            return Samples(read_samples(schema, columns))
        return Samples(read_each(schema, lambda field: read_arrow_values(field, table.column(field.name))))
    except ColumnError as error:
        raise RequestError([ErrorDetail(f"it {error.problem}", column=error.column)]) from None
    except UnicodeDecodeError:
        raise RequestError("the body is not a readable Arrow IPC stream (a name in it is not UTF-8 text)") from None
    except (pa.ArrowException, OSError, struct.error, LookupError, MemoryError, ValueError, ArithmeticError) as error:
        raise RequestError(f"the body is not a readable Arrow IPC stream ({one_line(error)[:200]})") from None


def write_arrow(columns: dict[str, Any], notes: list[str]) -> bytes:
    """Return an answer as an Arrow IPC stream; its notes are in the metadata of the schema, one a line."""
    table = pa.table(columns).replace_schema_metadata({"notes": "\n".join(notes)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read_table(body: bytes, schema: InputSchema, limit: int) -> Any:
    """Return the columns of the schema; every batch is checked before a value of it is converted."""
    for message in pa.ipc.MessageReader.open_stream(body):
        if _is_compressed(bytes(message.metadata)):
            raise RequestError(
                "batches are compressed, so that a small body may hold a large table: send them uncompressed"
            )
    stream = pa.ipc.open_stream(body).schema
    names = [field.name for field in schema.fields]
    if absent := set(names) - set(stream.names):
        raise missing_columns(schema, absent, stream.names)
    places = [stream.get_field_index(name) for name in names]
    if -1 in places:
        raise RequestError([ErrorDetail("two columns have this name", column=names[places.index(-1)])])
    check_types(stream, names, "the request")
    batches, rows = [], 0
    for batch in pa.ipc.open_stream(body, options=pa.ipc.IpcReadOptions(included_fields=places)):
        rows += batch.num_rows
        if rows > limit:
            raise too_many_rows(limit)
        batches.append(checked(batch, "the request"))
    if rows == 0:
        raise RequestError("there are no rows: send at least one")
    return pa.Table.from_batches(batches)


def read_arrow_values(field: Field, column: Any) -> NDArray[Any]:
    """Return the values of a checked Arrow column, as :func:`read_values` does; numbers and dates without a loop."""
    kind, types = column.type, pa.types
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    if numeric and field.kind in ("number", "any"):
        numbers = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        if not (~np.isfinite(numbers) if field.needed else np.isinf(numbers)).any():
            return numbers
    if types.is_timestamp(kind) or types.is_date(kind):
        dates = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        if field.kind in ("date", "text") and not (field.needed and dates.null_count):
            utc = dates.cast(pa.int64())
            instants = np.asarray(utc.fill_null(0).to_numpy(), dtype=np.int64).astype("datetime64[us]")
            return np.where(np.asarray(utc.is_null().to_numpy()), np.datetime64("NaT", "us"), instants)
        return read_values(field, [None if one is None else one.isoformat() for one in dates.to_pylist()])
    if types.is_dictionary(kind):
        column = _decoded(field, column)
    if not (numeric or types.is_null(kind) or types.is_string(column.type) or types.is_large_string(column.type)):
        raise RequestError(
            [ErrorDetail(f"expected {field.wanted}, got the Arrow type {shortened(kind)}", column=field.name)]
        )
    return read_values(field, [None if one != one else one for one in column.to_pylist()])  # noqa: PLR0124  NaN


def _decoded(field: Field, column: Any) -> Any:
    """Return a dictionary column as plain text; a long text that all rows refer to would exhaust the memory."""
    for chunk in column.chunks:
        if any(isinstance(text, str | bytes) and len(text) > field.longest for text in chunk.dictionary.to_pylist()):
            raise RequestError([ErrorDetail(f"a text has more than {field.longest:,} characters", column=field.name)])
    return column.cast(column.type.value_type)


def _is_compressed(message: bytes) -> bool:
    """Return whether the buffers of a message are compressed, which pyarrow reports only after unpacking them.

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
