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
    saved = _saved(found, view, method)
    records = []
    for column in columns or known:
        cut = known[column]
        for number, name in enumerate(cut.names):
            inside = cut.numbers[rows] == number
            if inside.any():
                record = {"column": column, "segment": name, **_counted(outcome, rows, inside)}
                record |= segment_costs(costs, inside, evidence)._asdict()
                records.append(record | _saving(saved, cut.numbers, number))
    return _judged(pd.DataFrame(records), floor=not (costs < 0).any())


def _counted(outcome: Outcome, rows: NDArray[np.int64], inside: NDArray[np.bool_]) -> dict[str, Any]:
    """Return rows, and shares of decisions and errors among them; of more than two classes errors only."""
    labels, decided = outcome.labels[inside], outcome.decisions[inside]
    many = {"rows": len(np.unique(rows[inside])), "share": float(inside.mean())}
    if outcome.n_classes > 2:
        return many | {"wrong": float((labels != decided).mean())}
    positives, alarms = labels == 1, decided == 1
    return many | {
        "positive": float(positives.mean()),
        "decided": float(alarms.mean()),
        "misses": float((~alarms[positives]).mean()) if positives.any() else np.nan,
        "alarms": float(alarms[~positives].mean()) if not positives.all() else np.nan,
    }


Saved = tuple[NDArray[np.float64], NDArray[np.int64], Evidence]


def _saved(found: Comparison, view: tuple[str, float], method: str) -> Saved | None:
    """Return what each entry costs less than under today's practice, its row, and the evidence; None: no practice."""
    if method == TODAY or method in CONSTANTS:
        return None
    told = practice(found, view, method, method)
    if told is None:
        return None
    costs = told[1]
    mine, today = costs.methods.index(method), costs.methods.index(TODAY)
    kept = costs.entries(mine, today)
    return (costs.costs[today] - costs.costs[mine])[kept], costs.rows[kept], costs.evidence.only(kept)


def _saving(saved: Saved | None, numbers: NDArray[np.int64], number: int) -> dict[str, float]:
    if saved is None or not (inside := numbers[saved[1]] == number).any():
        return {}
    part = segment_costs(saved[0], inside, saved[2])
    return {"saved": part.cost, "saved_low": part.low, "saved_high": part.high}


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
