"""The rows of a request, from JSON: records or columns, with faults that name row and column."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pandas as pd
from numpy.typing import NDArray
from pydantic_core import from_json

from adacsl.datasets.errors import did_you_mean
from adacsl.serving.contract import Contract, Field
from adacsl.serving.pictures import read_pictures
from adacsl.serving.refusing import MOST, Fault, Refused, named, shown
from adacsl.serving.values import read_values

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
