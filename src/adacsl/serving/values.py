"""The values of a column as JSON has them, checked one by one only where the quick look finds something odd."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.columns import Column, parse_dates, read_number
from adacsl.serving.contract import Field
from adacsl.serving.refusing import Fault, Refused, shown

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
