"""What a comparison lacks: methods without all folds, and the recommendation that is withheld until they have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from adacsl.experiments.cells import Cell
from adacsl.extras import requires

if TYPE_CHECKING:
    from adacsl.experiments.statistics.verdicts import Verdict

with requires("compare"):
    import pandas as pd

LONGEST = 200
"""Characters of a reason that are shown."""


class Missing(NamedTuple):
    """A method that lacks folds on one data set at one ratio."""

    data: str
    ratio: float
    method: str
    folds: int
    """How many folds it is to have,"""
    done: int
    """how many have a result,"""
    failed: int
    """and how many failed."""
    reason: str
    """The error of the first fold that failed."""

    @property
    def withholds(self) -> bool:
        """Whether nothing can be recommended beside it; a method that failed everywhere is not in the table."""
        return self.failed < self.folds

    def __str__(self) -> str:
        if self.failed:
            rest = self.folds - self.done - self.failed
            unfinished = f", {rest} to do" if rest else ""
            return f"{self.method} failed in {self.failed} of {self.folds} folds ({self.reason}){unfinished}"
        return f"{self.method} ({f'{self.done} of {self.folds} folds' if self.done else 'not started'})"


def missing_of(planned: Iterable[Cell], done: Collection[Cell], failures: pd.DataFrame) -> list[Missing]:
    """Return the methods that lack folds, in the order of their names."""
    errors: dict[tuple[str, float, str], list[str]] = {}
    cells = set(planned)
    for row in failures.to_dict("records"):
        cell = Cell(*(row[name] for name in Cell._fields))
        cells.add(cell)
        errors.setdefault(cell[:3], []).append(_one_line(f"{row['type']}: {row['message']}"))
    folds = Counter(cell[:3] for cell in cells)
    lacking = Counter(cell[:3] for cell in cells if cell not in done)
    return [
        Missing(*view, folds[view], folds[view] - count, len(errors.get(view, ())), errors.get(view, [""])[0])
        for view, count in sorted(lacking.items())
    ]


def completed(verdict: Verdict, missing: Sequence[Missing], progress: str) -> Verdict:
    """Return a verdict that names the methods that lack folds, and recommends nothing while some may be finished.

    ``progress`` says how many fits of an unfinished comparison are done; empty where nothing is left to do.
    """
    if not missing:
        return verdict
    failed, unfinished = ([each for each in missing if bool(each.failed) == kind] for kind in (True, False))
    lines = [f"{'; '.join(map(str, failed))}."] if failed else []
    if not any(each.withholds for each in missing):
        return replace(verdict, text=" ".join([verdict.text, *lines]))
    until = "o recommendation until every method has every fold."
    head = f"{progress}: n{until}" if progress else f"N{until}"
    if any(each.withholds for each in failed):
        lines[0] = f"{lines[0].removesuffix('.')}: run it again, or compare without it."
    if unfinished:
        lines.insert(0, f"Missing: {', '.join(map(str, unfinished))}.")
    return replace(verdict, recommended=None, saving=None, simpler=None, text=" ".join([head, *lines]))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."
