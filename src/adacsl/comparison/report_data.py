"""The data of a report, from a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.comparison import baseline
from adacsl.comparison.fits import FitKey, FitResult, scale_fn
from adacsl.comparison.model_card import describe_facts, model_card
from adacsl.comparison.protocol import joined_cells, named_costs
from adacsl.comparison.segments import tables_of
from adacsl.comparison.statistics import BASELINE, estimate
from adacsl.costs.matrix import CostMatrix, unchecked_costs
from adacsl.datasets.overview import overview_frame
from adacsl.estimators.registry import METHODS, title_of
from adacsl.metrics.intervals import Interval
from adacsl.report.data import UNKNOWN, Outcome, ReportData, Saved, repeats_of

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison

with requires("compare"):
    import pandas as pd


UNNAMED = "data"
"""The name of data that were compared without one."""


def outcome_of(comparison: Comparison, mine: Mapping[FitKey, FitResult], place: tuple[str, float, str]) -> Outcome:
    """Return scores, decisions and costs of all splits together; ``mine`` are the results of one method."""
    data, ratio, name = place
    if not mine:
        raise ValueError(f"there is no result of {name!r} on {data!r} at ratio {ratio:g}")
    about = comparison.facts["data"][data]
    parts = [(result, comparison.splits[data, fit.seed]) for fit, result in mine.items()]
    costs = [scale_fn(split.costs, ratio / float(about["ratio"])) for _, split in parts]
    thresholds = {result.threshold for result, _ in parts}
    return Outcome(
        scores=np.concatenate([result.scores for result, _ in parts]),
        labels=np.concatenate([split.labels for _, split in parts]),
        decisions=np.concatenate([result.decisions for result, _ in parts]),
        seeds=np.repeat([fit.seed for fit in mine], [len(split.labels) for _, split in parts]),
        **_costs(costs, about["classes"] if costs[0].n_classes > 2 else ()),
        threshold=thresholds.pop() if len(thresholds) == 1 else None,
        rule=parts[0][0].provenance.get("decide", ""),
        repeats=repeats_of([split.test_rows for _, split in parts]),
    )


def _costs(costs: Sequence[CostMatrix], classes: Sequence[str]) -> dict[str, Any]:
    """Return the costs of all splits together."""
    if classes:
        return {"matrix": named_costs(costs, classes)}
    known = [each.deciding for each in costs]
    deciding = {} if known[0] is costs[0] else {"deciding": unchecked_costs(joined_cells(known))}
    (tn, fn), (fp, tp) = joined_cells(costs)
    return {"fp": fp, "fn": fn, "tp": tp, "tn": tn} | deciding


def report_data(
    comparison: Comparison,
    *,
    command: str = "",
    explained: Mapping[tuple[str, float], pd.DataFrame] | None = None,
    models: Mapping[tuple[str, float], str | Path] | None = None,
    people: str = "samples",
    **shown: Any,
) -> ReportData:
    """Return everything the page shows; ``shown`` are other fields of :class:`ReportData`: unit, volume.

    By data set and ratio: ``explained`` is permutation importance, ``models`` where the recommended method is saved.
    """
    views = list(comparison.recommendations)
    keys = comparison.table[["data", "ratio", "method"]].itertuples(index=False, name=None)
    names = [data for data, _ in views]
    classes = {name: classes_of(comparison, name) for name in names}
    pairs = {own for own in classes.values() if len(own) == 2}
    fewest = min(map(len, classes.values()))
    return ReportData(
        title=title_for(comparison, list(dict.fromkeys(names))),
        recommendations={view: recommendation.brief for view, recommendation in comparison.recommendations.items()},
        facts=describe_facts(comparison)
        | baseline.describe_baselines(comparison)
        | ({"command": command} if command else {}),
        results=comparison.results,
        summary=summary_of(comparison),
        outcomes={key: comparison.outcome(key[2], data=key[0], ratio=key[1]) for key in keys},
        histories={fit: result.history for fit, result in comparison.fits.items() if result.history},
        classes=pairs.pop() if len(pairs) == 1 else ("negative", "positive"),
        recommended={view: recommendation.recommended for view, recommendation in comparison.recommendations.items()},
        banner=comparison.progress,
        titles={name: title_of(name, fewest) for name in (*METHODS, *comparison.methods)}
        | {BASELINE: "your current decisions"},
        explained=explained or {},
        regrets=comparison.regrets,
        savings={
            view: saved_of(comparison, view)
            for view, recommendation in comparison.recommendations.items()
            if recommendation.saving
        },
        checks={name: about["checks"] for name, about in comparison.facts["data"].items() if "checks" in about},
        model={
            view: model_card(
                comparison, view, recommendation.recommended, people=people, model=(models or {}).get(view)
            )
            for view, recommendation in comparison.recommendations.items()
            if recommendation.recommended
        },
        people=people,
        segments=dict(tables_of(comparison, views)),
        overview={
            name: overview_frame(about["overview"], about["costs"])
            for name, about in comparison.facts["data"].items()
            if "overview" in about
        },
        **shown,
    )


def title_for(result: Comparison, names: Sequence[str]) -> str:
    """Return the title of a report: the names of the data sets, of unnamed data the class that is predicted."""
    if list(names) != [UNNAMED]:
        return f"Cost comparison: {', '.join(names)}"
    classes = classes_of(result, UNNAMED)
    subject = f"predicting “{classes[1]}”" if len(classes) == 2 else f"{len(classes)} classes"
    return f"Cost comparison: {subject}"


def classes_of(result: Comparison, data: str) -> tuple[str, ...]:
    """Return the names of the classes of a data set."""
    return tuple(result.facts["data"].get(data, {}).get("classes", ("0", "1")))


def recommended(result: Comparison, view: tuple[str, float]) -> str:
    """Return the recommended method, or the one with the lowest cost where none is."""
    rows = result.table[(result.table["data"] == view[0]) & (result.table["ratio"] == view[1])]
    return str(result.recommendations[view].recommended or next(name for name in rows["method"] if name != BASELINE))


def summary_of(result: Comparison) -> pd.DataFrame:
    """Return the table with the names of columns that the report has."""
    return result.table.rename(columns={"mean": "cost"})


def saved_of(result: Comparison, view: tuple[str, float]) -> Saved:
    """Return the saving of the recommended method of a view, and the samples under the baseline."""
    saving, method = result.recommendations[view].saving, recommended(result, view)
    if saving is None:
        raise ValueError(f"no baseline is known on {view[0]!r}")
    percent = Interval(saving.percent, saving.percent_low, saving.percent_high)
    each = Interval(saving.difference, saving.low, saving.high)
    cost, outcome = _under_baseline(result, view, method)
    return Saved(saving.against, percent, each, cost, outcome, saving.other, saving.other_cost)


def _under_baseline(result: Comparison, view: tuple[str, float], method: str) -> tuple[Interval, Outcome | None]:
    """Return the cost of the baseline per sample, and the samples with its predictions."""
    known = baseline.baseline_costs(result, view, method)
    if known is None:
        return UNKNOWN, None
    costs = known.costs
    mine, kept = (
        costs.methods.index(BASELINE),
        costs.entries(costs.methods.index(method), costs.methods.index(BASELINE)),
    )
    cost = Interval(*estimate(costs.costs[mine][kept], costs.evidence.only(kept))[:3])
    outcome = result.outcome(known.source or BASELINE, data=view[0], ratio=view[1])
    if not known.source:
        return cost, outcome
    if known.constant is not None:
        return cost, replace(outcome, decisions=np.full(outcome.n, known.constant), threshold=None, rule="constant")
    half = None if outcome.n_classes > 2 else baseline.HALF
    decided = baseline.decided_at_half(outcome.scores)
    return cost, replace(outcome, decisions=decided, threshold=half, rule="half")
