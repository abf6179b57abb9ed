"""Errors of requests, with row, column and the expected values."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from adacsl.datasets.errors import listed

MOST = 10
"""The most errors that an answer lists."""
SHOWN = 40
"""The most characters of a wrong value that a message shows."""
LONGEST_NAME = 80
"""The most characters of a name from the request that a message shows."""
LONGEST_MESSAGE = 1_000
"""The most characters of a message, whatever it repeats."""
LIMITED = reprlib.Repr()
LIMITED.maxstring = LIMITED.maxother = LIMITED.maxlong = 2 * SHOWN


class ErrorDetail(NamedTuple):
    """One error of a request.

    Parameters
    ----------
    message : str
        What was expected and what came.
    row : int or None
        The row of the request, counted from 0.
    column : str or None
        The name of the column.
    """

    message: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = [] if self.row is None else [f"row {self.row} (the first is 0)"]
        place = ", ".join(row + ([] if self.column is None else [f"column {self.column!r}"]))
        return f"{place}: {self.message}" if place else self.message


class RequestError(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    errors : sequence of ErrorDetail or str
        What is wrong; of many errors the first ten are kept.
    status : int, default 422
        The HTTP status of the answer.
    """

    def __init__(self, errors: Sequence[ErrorDetail] | str, status: int = 422) -> None:
        details = [ErrorDetail(errors)] if isinstance(errors, str) else list(errors)
        self.errors = [error._replace(message=shortened(error.message, LONGEST_MESSAGE)) for error in details[:MOST]]
        self.status = status
        super().__init__(str(self.errors[0]))

    @property
    def document(self) -> dict[str, Any]:
        """The body of the answer: the first error as a sentence, and the first error of each column."""
        return {"detail": str(self), "errors": [error._asdict() for error in self.errors]}


def shown(value: Any) -> str:
    """Return a wrong value and its type, for a message."""
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
