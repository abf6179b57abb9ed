"""Everything a report shows, from a comparison: for people who were not there, and do not know statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.core.intervals import Interval
from adacsl.datasets.overview import overview_frame
from adacsl.estimators.methods import METHODS, title_of
from adacsl.experiments import today
from adacsl.experiments.facts import facts_in_words
from adacsl.experiments.model_card import model_card
from adacsl.experiments.segments import tables_of
from adacsl.experiments.statistics.folds import estimate
from adacsl.experiments.statistics.wording import TODAY
from adacsl.extras import requires
from adacsl.report.data import UNKNOWN, Outcome, ReportData, Saved

with requires("compare"):
    import pandas as pd

if TYPE_CHECKING:
    from adacsl.experiments.comparison import Comparison


def report_data(
    found: Comparison,
    *,
    command: str = "",
    explained: Mapping[tuple[str, float], pd.DataFrame] | None = None,
    models: Mapping[tuple[str, float], str | Path] | None = None,
    people: str = "rows",
    **shown: Any,
) -> ReportData:
    """Return everything the page shows; ``shown`` are other fields of :class:`ReportData`: unit, volume.

    By data set and ratio: ``explained`` is what each column is worth, ``models`` where the recommended method is saved.
    """
    views = list(found.verdicts)
    keys = found.table[["data", "ratio", "method"]].itertuples(index=False, name=None)
    names = [data for data, _ in views]
    classes = {name: classes_of(found, name) for name in names}
    pairs = {own for own in classes.values() if len(own) == 2}
    fewest = min(map(len, classes.values()))
    return ReportData(
        title=f"Which method is cheapest on {', '.join(dict.fromkeys(names))}?",
        verdicts={view: str(verdict) for view, verdict in found.verdicts.items()},
        facts=facts_in_words(found) | today.facts_of_today(found) | ({"command": command} if command else {}),
        results=found.results,
        summary=summary_of(found),
        ranks=rank_table(found),
        outcomes={key: found.outcome(key[2], data=key[0], ratio=key[1]) for key in keys},
        histories={cell: result.history for cell, result in found.cells.items() if result.history},
        classes=pairs.pop() if len(pairs) == 1 else ("negative", "positive"),
        recommended={view: verdict.recommended for view, verdict in found.verdicts.items()},
        banner=found.progress,
        overall=str(found.overall) if len(set(names)) > 1 else "",
        titles={name: title_of(name, fewest) for name in (*METHODS, *found.methods)}
        | {TODAY: "your current decisions"},
        explained=explained or {},
        regrets=found.regrets,
        savings={view: saved_of(found, view) for view, verdict in found.verdicts.items() if verdict.saving},
        checks={name: told["checks"] for name, told in found.facts["data"].items() if "checks" in told},
        model={
            view: model_card(found, view, verdict.recommended, people=people, model=(models or {}).get(view))
            for view, verdict in found.verdicts.items()
            if verdict.recommended
        },
        people=people,
        segments=dict(tables_of(found, views)),
        overview={
            name: overview_frame(told["overview"], told["costs"])
            for name, told in found.facts["data"].items()
            if "overview" in told
        },
        **shown,
    )


def classes_of(found: Comparison, data: str) -> tuple[str, ...]:
    """Return the names of the classes of a data set."""
    return tuple(found.facts["data"].get(data, {}).get("classes", ("0", "1")))


def recommended(found: Comparison, view: tuple[str, float]) -> str:
    """Return the recommended method, or the one with the lowest cost where none is: what figures show."""
    rows = found.table[(found.table["data"] == view[0]) & (found.table["ratio"] == view[1])]
    return str(found.verdicts[view].recommended or next(name for name in rows["method"] if name != TODAY))


def summary_of(found: Comparison) -> pd.DataFrame:
    """Return the table as pictures want it."""
    return found.table.rename(columns={"mean": "cost"})


def rank_table(found: Comparison) -> pd.DataFrame | None:
    """Return average ranks with the critical difference; None of one data set."""
    if found.results["data"].nunique() < 2:
        return None
    table = found.ranks.table.rename(columns={"average_rank": "rank"})
    return table.assign(critical_difference=found.ranks.critical_difference)


def saved_of(found: Comparison, view: tuple[str, float]) -> Saved:
    """Return what the recommended method of a view saves, in percent and in money, and the rows under the baseline."""
    saving, taken = found.verdicts[view].saving, recommended(found, view)
    if saving is None:
        raise ValueError(f"no baseline is known on {view[0]!r}")
    percent = Interval(saving.percent, saving.percent_low, saving.percent_high)
    each = Interval(saving.difference, saving.low, saving.high)
    cost, outcome = _under_baseline(found, view, taken)
    return Saved(saving.against, percent, each, cost, outcome, saving.other, saving.other_cost)


def _under_baseline(found: Comparison, view: tuple[str, float], taken: str) -> tuple[Interval, Outcome | None]:
    """Return what the baseline costs per row, and the rows so decided."""
    known = today.practice(found, view, taken)
    if known is None:
        return UNKNOWN, None
    costs = known.costs
    mine, kept = costs.methods.index(TODAY), costs.entries(costs.methods.index(taken), costs.methods.index(TODAY))
    cost = Interval(*estimate(costs.costs[mine][kept], costs.evidence.only(kept))[:3])
    outcome = found.outcome(known.source or TODAY, data=view[0], ratio=view[1])
    if not known.source:
        return cost, outcome
    if known.constant is not None:
        return cost, replace(outcome, decisions=np.full(outcome.n, known.constant), threshold=None, rule="constant")
    half = None if outcome.n_classes > 2 else today.HALF
    decided = today.decided_at_half(outcome.scores)
    return cost, replace(outcome, decisions=decided, threshold=half, rule="half")
