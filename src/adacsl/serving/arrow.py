"""Rows and answers as Arrow IPC streams; what comes is not trusted."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from adacsl.datasets.arrowfiles import ColumnError, check_types, checked
from adacsl.datasets.errors import one_line, shortened
from adacsl.serving.contract import Contract, Field
from adacsl.serving.refusing import Fault, Refused
from adacsl.serving.rows import Rows, as_table, check_columns, check_number, read_inputs
from adacsl.serving.values import LONGEST, read_values

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
