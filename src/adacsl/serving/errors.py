"""Request errors that name row, column and what was expected."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from adacsl.datasets.errors import listed

MOST = 10
"""The most faults that an answer lists."""
SHOWN = 40
"""The most characters of a wrong value that a message shows."""
LONGEST_NAME = 80
"""The most characters of a name from the request that a message shows."""
LONGEST_MESSAGE = 1_000
"""The most characters of a message, whatever it repeats."""
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


class RequestError(Exception):
    """A request that cannot be answered: its faults and the HTTP status."""

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
    """Return a wrong value for a message, and its kind."""
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
