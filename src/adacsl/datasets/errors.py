"""Errors and warnings about data, in one line: what was expected, what came, what to do."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice


class DataError(ValueError):
    """Data that cannot be used as they are; the message is one line with the remedy."""


class DataWarning(UserWarning):
    """Data that can be used in part, or with care."""


LONGEST_NAME = 100
"""Characters of a name that a message shows."""
MOST_COMPARED = 500
"""Names among which the nearest is searched for: comparing takes time for each, and data may have any number."""


def shortened(name: object) -> str:
    """Return a name for a message, cut in the middle where it is long.

    >>> shortened("age"), len(shortened("x" * 1_000_000))
    ('age', 100)
    """
    text = str(name)
    if len(text) <= LONGEST_NAME:
        return text
    end = LONGEST_NAME // 3  # the end of a path is informative
    return f"{text[: LONGEST_NAME - end - 3]}...{text[-end:]}"


def listed(names: Iterable[object], most: int = 8) -> str:
    """Return names for a message, the first ``most`` of them, long ones cut.

    >>> listed(["age", "job", "y"], most=2)
    'age, job, ... (3 in all)'
    """
    known = list(names)
    return ", ".join(map(shortened, known[:most])) + (f", ... ({len(known)} in all)" if len(known) > most else "")


def did_you_mean(name: object, names: Iterable[object]) -> str:
    """Return a question that names the nearest of ``names``, or nothing where none is near.

    Long names are not compared, and of very many only the first.

    >>> did_you_mean("Target", ["age", "target"])
    "; did you mean 'target'?"
    """
    asked = str(name)
    if len(asked) > LONGEST_NAME:
        return ""
    compared = (str(known) for known in islice(names, MOST_COMPARED))
    known = {known.casefold(): known for known in compared if len(known) <= LONGEST_NAME}
    near = difflib.get_close_matches(asked.casefold(), known, n=1, cutoff=0.6)
    return f"; did you mean {known[near[0]]!r}?" if near else ""


def check_column(column: object, known: Collection[object], what: str) -> None:
    """Raise unless a column is there.

    >>> check_column("agee", ["age", "job"], "people.csv")
    Traceback (most recent call last):
        ...
    adacsl.datasets.errors.DataError: people.csv has no column 'agee'; did you mean 'age'? (it has age, job)
    """
    if column not in known:
        names = list(known)
        name = repr(column if not isinstance(column, str) else shortened(column))
        raise DataError(f"{what} has no column {name}{did_you_mean(column, names)} (it has {listed(names)})")


def repeated(names: Iterable[object]) -> list[str]:
    """Return the names that are there more than once, sorted.

    >>> repeated(["age", "job", "age"])
    ['age']
    """
    return sorted(str(name) for name, count in Counter(names).items() if count > 1)


def one_line(error: object) -> str:
    """Return the text of an error without line breaks."""
    return " ".join(str(error).split()).rstrip(".")
