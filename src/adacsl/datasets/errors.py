"""What is said when data cannot be used: expected, came, what to do; in one line."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable


class DataError(ValueError):
    """Data that cannot be used as they are; the message is one line that says what to do."""


class DataWarning(UserWarning):
    """Data that can be used, but not all of them, or not as they seem: the message says which."""


def listed(names: Iterable[object], most: int = 8) -> str:
    """Return names for a message, the first ``most`` of them.

    >>> listed(["age", "job", "y"], most=2)
    'age, job, ... (3 in all)'
    """
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (f", ... ({len(shown)} in all)" if len(shown) > most else "")


def did_you_mean(name: object, names: Iterable[object]) -> str:
    """Return a question that names the nearest of ``names``, or nothing where none is near.

    >>> did_you_mean("Target", ["age", "target"])
    "; did you mean 'target'?"
    """
    known = {str(known).casefold(): str(known) for known in names}
    near = difflib.get_close_matches(str(name).casefold(), known, n=1, cutoff=0.6)
    return f"; did you mean {known[near[0]]!r}?" if near else ""


def check_column(column: object, known: Collection[object], what: str) -> None:
    """Refuse a column that is not there.

    >>> check_column("agee", ["age", "job"], "people.csv")
    Traceback (most recent call last):
        ...
    adacsl.datasets.errors.DataError: people.csv has no column 'agee'; did you mean 'age'? (it has age, job)
    """
    if column not in known:
        names = list(known)
        raise DataError(f"{what} has no column {column!r}{did_you_mean(column, names)} (it has {listed(names)})")


def repeated(names: Iterable[object]) -> list[str]:
    """Return the names that are there more than once, sorted.

    >>> repeated(["age", "job", "age"])
    ['age']
    """
    return sorted(str(name) for name, count in Counter(names).items() if count > 1)


def one_line(error: object) -> str:
    """Return the text of an error without line breaks."""
    return " ".join(str(error).split()).rstrip(".")
