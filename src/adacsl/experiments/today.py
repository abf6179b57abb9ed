"""Today's practice: the user's own decisions as if they were a method, or what deciding at 0.5 would cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.datasets.task import Task
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.measures import measure
from adacsl.experiments.ratios import at_ratio, mean_ratio, scale_misses
from adacsl.experiments.statistics.paired import row_costs
from adacsl.experiments.statistics.savings import Practice
from adacsl.experiments.statistics.wording import CONSTANTS, TODAY

if TYPE_CHECKING:
    from adacsl.experiments.comparison import Comparison

HALF = 0.5


def decided_at_half(scores: NDArray[Any]) -> NDArray[Any]:
    """Return whether rows are positive, by their probability, or the likeliest class; costs are not looked at."""
    return np.asarray(scores > HALF if scores.ndim == 1 else scores.argmax(axis=1))


def results_of_today(
    task: Task, ratios: Iterable[float], seed: int, tested: NDArray[np.int64], costs: CostMatrix
) -> Iterator[CellResult]:
    """Yield what the user's own decisions cost on the test rows of a split, at each ratio; nothing without them.

    ``costs`` are those of all rows of the task, as they were settled for this split.
    """
    if task.baseline is None:
        return
    values, n_classes = task.baseline.values[tested], costs.n_classes
    scores = values.astype(np.float32) if n_classes == 2 else np.eye(n_classes, dtype=np.float32)[values]
    decided = decided_at_half(scores)
    threshold = HALF if n_classes == 2 else None
    for ratio in ratios:
        paid = at_ratio(costs, ratio, own=mean_ratio(task.costs)).rows(tested)
        metrics = measure(decided, task.y[tested], paid) | {"validation_cost": math.nan}
        metrics["n_train"] = len(task.y) - len(tested)
        cell = Cell(task.name, ratio, TODAY, seed)
        yield CellResult(cell, metrics, scores, decided, threshold, provenance={"decide": "half"})


def refuse_today(tasks: Iterable[Task], methods: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a method that is called as the user's own decisions are."""
    if any(task.baseline is not None and TODAY in methods[task.name] for task in tasks):
        raise ValueError(f"the name {TODAY!r} stands for the decisions of the baseline: call the method otherwise")


def about_today(task: Task) -> dict[str, Any]:
    """Return what a run remembers of the user's own decisions."""
    if task.baseline is None:
        return {}
    return {"today": {"column": task.baseline.column, "kind": task.baseline.kind}}


def practice(found: Comparison, view: tuple[str, float], taken: str) -> Practice | None:
    """Return today's practice in words, with what each row costs under it, the method that is taken and constants.

    It is the user's own decisions, or else probabilities decided at 0.5 (of more than two classes: the likeliest):
    those of the method that is cheapest when decided so, as nobody would be content with worse ones.
    """
    about = found.facts["data"].get(view[0], {})
    if TODAY in found.paired[view].methods:
        scores = about.get("today", {}).get("kind") == "scores"
        words = f"what you do today{' (your scores decided at 0.5)' if scores else ''}"
        return Practice(words, found.paired[view], _spoken(about))
    own = {cell: result for cell, result in found.cells.items() if (cell.data, cell.ratio) == view}
    halves = {
        cell: replace(result, decisions=decided_at_half(result.scores))
        for cell, result in own.items()
        if cell.method not in CONSTANTS
    }
    if not halves:
        return None
    paid = partial(
        row_costs, splits=found.splits, prices=lambda _, ratio, costs: scale_misses(costs, ratio / about["ratio"])
    )
    decided = paid(halves)[view]
    source = decided.methods[int(np.nanmean(decided.costs, axis=1).argmin())]
    made = {cell: result for cell, result in own.items() if cell.method in {taken, *CONSTANTS}}
    made |= {cell._replace(method=TODAY): result for cell, result in halves.items() if cell.method == source}
    words = "taking the likeliest class" if len(about["classes"]) > 2 else "deciding at 0.5"
    return Practice(words, paid(made)[view], _spoken(about), source)


def _spoken(about: Mapping[str, Any]) -> tuple[str, str]:
    """Return names of two classes for a sentence: their own, unless they are only numbers or signs."""
    negative, positive = about.get("classes", ("", ""))[:2]
    words = all(any(letter.isalpha() for letter in str(name)) for name in (negative, positive))
    return (str(negative), str(positive)) if words else ("negative", "positive")


def without_today(found: Comparison, data: str, table: Any) -> Any:
    """Return features without the column of today's decisions, which is none."""
    column = found.facts["data"][data].get("today", {}).get("column")
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if column is None or not isinstance(frame, nw.DataFrame) or column not in frame.columns:
        return table
    return frame.drop(column).to_native()


def facts_of_today(found: Comparison) -> dict[str, str]:
    """Return where today's decisions come from, in words, by data set."""
    told = {name: about["today"] for name, about in found.facts["data"].items() if "today" in about}
    return {
        f"today: {name}": f"{'scores decided at 0.5' if said['kind'] == 'scores' else 'decisions'}, "
        + (f"from the column {said['column']!r}" if said["column"] else "as they were given")
        for name, said in told.items()
    }
