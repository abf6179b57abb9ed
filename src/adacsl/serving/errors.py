"""Request errors that name row, column and what was expected."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from adacsl.datasets.errors import listed

MOST = 10
"""So many faults are listed."""
SHOWN = 40
"""So many characters of a wrong value are shown."""
LONGEST_NAME = 80
"""So many characters of a name that came with the request are shown."""
LONGEST_MESSAGE = 1_000
"""So many characters has a message at most, whatever it repeats."""
LIMITED = reprlib.Repr()
LIMITED.maxstring = LIMITED.maxother = LIMITED.maxlong = 2 * SHOWN


class Fault(NamedTuple):
    """One thing that is wrong; rows are counted from 0."""

    message: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = [] if self.row is None else [f"row {self.row} (the first is 0)"]
        place = ", ".join(row + ([] if self.column is None else [f"column {self.column!r}"]))
        return f"{place}: {self.message}" if place else self.message


class Refused(Exception):  # noqa: N818  it is an answer
    """A request that is answered with its faults."""

    def __init__(self, faults: Sequence[Fault] | str, status: int = 422) -> None:
        found = [Fault(faults)] if isinstance(faults, str) else list(faults)
        self.faults = [fault._replace(message=shortened(fault.message, LONGEST_MESSAGE)) for fault in found[:MOST]]
        self.status = status
        super().__init__(str(self.faults[0]))

    @property
    def document(self) -> dict[str, Any]:
        """The answer: the first fault as a sentence, and the first of each column."""
        return {"detail": str(self), "errors": [fault._asdict() for fault in self.faults]}


def shown(value: Any) -> str:
    """Return a wrong value for a message, and what it is."""
    kinds = {str: "text", bool: "true or false", list: "a list", dict: "an object", type(None): "null"}
    text = repr(value[: 2 * SHOWN]) if isinstance(value, str) else LIMITED.repr(value)
    return f"{shortened(text, SHOWN)} ({kinds.get(type(value), 'a number')})"


def shortened(text: str, most: int) -> str:
    """Return a text for a message, cut where it is too long.

    >>> shortened("a long name", 6)
    'a long...'
    """
    return f"{text[:most]}..." if len(text) > most else text


def named(names: Iterable[object]) -> str:
    """Return the first names of a request for a message, each cut where it is too long."""
    return listed(shortened(str(name), LONGEST_NAME) for name in names)
