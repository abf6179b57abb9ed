"""What a method costs in each segment of the rows, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.errors import check_column
from adacsl.experiments.statistics.differences import holm
from adacsl.experiments.statistics.folds import Evidence
from adacsl.experiments.statistics.segments import segment_costs
from adacsl.experiments.statistics.wording import CONSTANTS, TODAY
from adacsl.experiments.today import practice
from adacsl.extras import requires

if TYPE_CHECKING:
    from adacsl.experiments.comparison import Comparison
    from adacsl.report.data import Outcome

with requires("compare"):
    import pandas as pd

LEVEL = 0.05

Measured = tuple[str, NDArray[np.float64], NDArray[Any], Evidence]
"""What is measured, its values, the entries (or rows) it is measured of, and their evidence."""


def segment_table(
    found: Comparison, view: tuple[str, float], method: str, columns: tuple[str, ...] = ()
) -> pd.DataFrame:
    """Return one row for each segment of each segment column (or of some), as :meth:`Comparison.by_segment` does."""
    known = found.segments.get(view[0], {})
    for column in columns:
        check_column(column, known, f"what {view[0]} is shown by")
    if not known:
        raise ValueError(f"no segments of {view[0]!r} were kept: compare with segments=[column], or --segment COLUMN")
    paired = found.paired[view]
    place = paired.methods.index(method)
    kept = paired.entries(place)
    rows, costs = paired.rows[kept], paired.costs[place][kept]
    evidence, outcome = paired.evidence.only(kept), found.outcome(method, data=view[0], ratio=view[1])
    saved, errors = _saved(found, view, method), _errors(outcome, evidence)
    records = []
    for column in columns or known:
        cut = known[column]
        for number, name in enumerate(cut.names):
            inside = cut.numbers[rows] == number
            if inside.any():
                record = {"column": column, "segment": name, **_counted(outcome, rows, inside, errors)}
                record |= segment_costs(costs, inside, evidence)._asdict()
                if saved is not None:
                    record |= _mean_of(*saved[:2], cut.numbers[saved[2]] == number, saved[3])
                records.append(record)
    return _judged(pd.DataFrame(records), floor=not (costs < 0).any())


def _errors(outcome: Outcome, evidence: Evidence) -> list[Measured]:
    """Return kinds of errors: which of the entries that they can happen to have them, those entries, their evidence."""
    labels, decided = outcome.labels, outcome.decisions
    kinds = {"misses": (decided == 0, labels == 1), "alarms": (decided == 1, labels == 0)}
    if outcome.n_classes > 2:
        kinds = {"wrong": (labels != decided, labels >= 0)}
    return [
        (name, wrong[among].astype(np.float64), among, evidence.only(among)) for name, (wrong, among) in kinds.items()
    ]


def _counted(
    outcome: Outcome, rows: NDArray[np.int64], inside: NDArray[np.bool_], errors: list[Measured]
) -> dict[str, Any]:
    """Return rows, shares of decisions (of two classes), and shares of errors with their intervals."""
    found: dict[str, Any] = {"rows": len(np.unique(rows[inside])), "share": float(inside.mean())}
    if outcome.n_classes == 2:
        found |= {"positive": outcome.labels[inside].mean(), "decided": outcome.decisions[inside].mean()}
    for name, wrong, among, evidence in errors:
        ends = _mean_of(name, wrong, inside[among], evidence)
        found |= {end: min(max(value, 0.0), 1.0) for end, value in ends.items()}
    return found


def _mean_of(name: str, values: NDArray[np.float64], inside: NDArray[np.bool_], evidence: Evidence) -> dict[str, float]:
    """Return the mean of a segment with its interval; NaN where nothing is in it."""
    ends = segment_costs(values, inside, evidence)[:3] if inside.any() else (np.nan,) * 3
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def _saved(found: Comparison, view: tuple[str, float], method: str) -> Measured | None:
    """Return what each entry costs less than under the baseline, and its row; None: no baseline."""
    if method == TODAY or method in CONSTANTS:
        return None
    told = practice(found, view, method)
    if told is None:
        return None
    costs = told.costs
    mine, today = costs.methods.index(method), costs.methods.index(TODAY)
    kept = costs.entries(mine, today)
    less = (costs.costs[today] - costs.costs[mine])[kept]
    return "saved", less, costs.rows[kept], costs.evidence.only(kept)


def _judged(table: pd.DataFrame, *, floor: bool) -> pd.DataFrame:
    """Adjust the tests of all columns together; where a column has two segments they ask the same question."""
    if floor:
        table["low"] = table["low"].clip(lower=0.0)  # nothing is cheaper than free
    pairs = table.groupby("column", sort=False)["segment"].transform("size") == 2
    repeated = pairs & table.duplicated("column")
    p = pd.Series(holm(table["p"].mask(repeated).to_numpy()), index=table.index)
    table["p"] = p.where(~repeated, p.shift())
    table["standing"] = np.where(table["p"] < LEVEL, "told apart", "not told apart")
    return table


def tables_of(found: Comparison, views: Any) -> Iterator[tuple[tuple[str, float], pd.DataFrame]]:
    """Yield the table of the method to take for each data set and ratio that has segments."""
    for view in views:
        if found.segments.get(view[0]):
            yield view, found.by_segment(data=view[0], ratio=view[1])
