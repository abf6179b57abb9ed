"""What is said about a request that cannot be answered: which row, which column, what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

MOST = 10
"""So many faults are listed."""
SHOWN = 40
"""So many characters of a wrong value are shown."""


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
        self.faults = [Fault(faults)] if isinstance(faults, str) else list(faults)
        self.status = status
        super().__init__(str(self.faults[0]))

    @property
    def document(self) -> dict[str, Any]:
        """The answer: the first fault as a sentence, and the first of each column."""
        return {"detail": str(self), "errors": [fault._asdict() for fault in self.faults[:MOST]]}


def shown(value: Any) -> str:
    """Return a wrong value for a message, and what it is."""
    kinds = {str: "text", bool: "true or false", list: "a list", dict: "an object", type(None): "null"}
    text = repr(value)
    return f"{text[:SHOWN]}{'...' if len(text) > SHOWN else ''} ({kinds.get(type(value), 'a number')})"
