"""What reading left out or had to find out: said as warnings, and kept with the task. Nothing of it is silent."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from adacsl.datasets.errors import DataError, DataWarning, listed

OnError = Literal["skip", "stop"]
"""What happens to rows without a label and pictures that cannot be read: they are left out, or an error."""


class Reading(NamedTuple):
    """What was left out of the data, and how they were read where that had to be found out."""

    unlabelled: int = 0
    """So many rows have no label."""
    broken: tuple[str, ...] = ()
    """Pictures that could not be read, each with the reason."""
    read_as: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return what there is to say as JSON values, for the facts of a run; often nothing."""
        told = {"unlabelled": self.unlabelled, "broken": list(self.broken), "read_as": list(self.read_as)}
        return {name: value for name, value in told.items() if value}

    def warn(self, name: str, rows: int) -> None:
        """Warn of everything, once each."""
        lines = [f"{name} {line}" for line in self.read_as]
        lines += [f"{name}: {line}" for line in left_out_in_words(self.facts() | {"rows": rows})]
        for line in lines:
            warnings.warn(line, DataWarning, stacklevel=3)


NOTHING = Reading()


def left_out_in_words(about: Mapping[str, Any]) -> list[str]:
    """Return how many rows and pictures were left out, by the facts of a run.

    >>> left_out_in_words({"rows": 90, "unlabelled": 10})
    ['10 rows have no label and are left out, 90 are used']
    """
    lines, used = [], f"{about['rows']:,} are used"
    if unlabelled := about.get("unlabelled"):
        lines.append(f"{unlabelled:,} rows have no label and are left out, {used}")
    if broken := about.get("broken"):
        names = listed(line.partition(": ")[0] for line in broken)
        lines.append(f"{len(broken):,} pictures cannot be read and are left out ({names}), {used}")
    return lines


def check_on_error(on_error: str) -> None:
    """Refuse another word."""
    if on_error not in ("skip", "stop"):
        raise DataError(f"on_error={on_error!r} must be 'skip' or 'stop'")
