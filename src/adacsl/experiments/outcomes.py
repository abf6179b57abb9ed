"""The test rows of a method with all that happened to them, from the results of its splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.core.costs import CostMatrix, unchecked_costs
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.ratios import joined_cells, named_costs, scale_misses
from adacsl.report.data import Outcome, repeats_of

if TYPE_CHECKING:
    from adacsl.experiments.comparison import Comparison


def outcome_of(found: Comparison, mine: Mapping[Cell, CellResult], place: tuple[str, float, str]) -> Outcome:
    """Return scores, decisions and prices of all splits together; ``mine`` are the results of that place."""
    data, ratio, name = place
    if not mine:
        raise ValueError(f"there is no result of {name!r} on {data!r} at ratio {ratio:g}")
    about = found.facts["data"][data]
    parts = [(result, found.splits[data, cell.seed]) for cell, result in mine.items()]
    costs = [scale_misses(split.costs, ratio / float(about["ratio"])) for _, split in parts]
    thresholds = {result.threshold for result, _ in parts}
    return Outcome(
        scores=np.concatenate([result.scores for result, _ in parts]),
        labels=np.concatenate([split.labels for _, split in parts]),
        decisions=np.concatenate([result.decisions for result, _ in parts]),
        seeds=np.repeat([cell.seed for cell in mine], [len(split.labels) for _, split in parts]),
        **_prices(costs, about["classes"] if costs[0].n_classes > 2 else ()),
        threshold=thresholds.pop() if len(thresholds) == 1 else None,
        rule=parts[0][0].provenance.get("decide", ""),
        repeats=repeats_of([split.test_rows for _, split in parts]),
    )


def _prices(costs: Sequence[CostMatrix], classes: Sequence[str]) -> dict[str, Any]:
    """Return the prices of all splits together."""
    if classes:
        return {"matrix": named_costs(costs, classes)}
    known = [each.deciding for each in costs]
    deciding = {} if known[0] is costs[0] else {"deciding": unchecked_costs(joined_cells(known))}
    (tn, fn), (fp, tp) = joined_cells(costs)
    return {"fp": fp, "fn": fn, "tp": tp, "tn": tn} | deciding
