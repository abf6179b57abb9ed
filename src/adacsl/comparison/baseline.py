"""Baselines: the user's own decisions, and predicting at threshold 0.5."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from adacsl.comparison.fits import FitKey, FitResult, measure, scale_misses
from adacsl.comparison.protocol import at_ratio, mean_ratio
from adacsl.comparison.statistics import CONSTANTS, TODAY, Practice, RowCosts, row_costs
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.task import Task

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison


HALF = 0.5


def decided_at_half(scores: NDArray[Any]) -> NDArray[Any]:
    """Return whether rows are positive, by their probability, or the likeliest class; costs are not looked at."""
    return np.asarray(scores > HALF if scores.ndim == 1 else scores.argmax(axis=1))


def results_of_today(
    task: Task, ratios: Iterable[float], seed: int, tested: NDArray[np.int64], costs: CostMatrix
) -> Iterator[FitResult]:
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
        fit = FitKey(task.name, ratio, TODAY, seed)
        yield FitResult(fit, metrics, scores, decided, threshold, provenance={"decide": "half"})


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
    """Return the baseline that a method's saving is measured against, with what each row costs under both.

    The user's own decisions, if they were given. Otherwise the better of two simple rules: threshold 0.5 (of more than
    two classes: the likeliest class), on the probabilities that cost least so, and the best constant decision. A
    constant decision that is itself ``taken`` is no baseline.
    """
    about = found.facts["data"].get(view[0], {})
    own = {fit: result for fit, result in found.fits.items() if (fit.data, fit.ratio) == view}
    if TODAY in found.paired[view].methods:
        scores = about.get("today", {}).get("kind") == "scores"
        words = f"your current decisions{' (your scores at threshold 0.5)' if scores else ''}"
        given = {fit: result for fit, result in own.items() if fit.method == TODAY}
        best = None if taken in CONSTANTS else _best_constant(found, view, given)
        known = Practice(words, found.paired[view])
        return known if best is None else known._replace(other=best.words, other_cost=best.cost)
    halves = {
        fit: replace(result, decisions=decided_at_half(result.scores))
        for fit, result in own.items()
        if fit.method not in CONSTANTS
    }
    if not halves:
        return None
    decided = _paid(found, view, halves)
    means = np.nanmean(decided.costs, axis=1)
    source, cost = decided.methods[int(means.argmin())], float(means.min())
    half = {fit: result for fit, result in halves.items() if fit.method == source}
    made = {fit: result for fit, result in own.items() if fit.method == taken}
    words = "predicting the likeliest class" if len(about["classes"]) > 2 else "predicting at threshold 0.5"
    best = None if taken in CONSTANTS else _best_constant(found, view, half)
    if best is not None and best.cost < cost:
        costs = _paid(found, view, made | _as_today(best.results))
        return Practice(best.words, costs, words, cost, source, best.label)
    known = Practice(words, _paid(found, view, made | _as_today(half)), source=source)
    return known if best is None else known._replace(other=best.words, other_cost=best.cost)


class _Constant(NamedTuple):
    """A constant decision: the class, what it costs per row, in words, and as results."""

    label: int
    cost: float
    words: str
    results: dict[FitKey, FitResult]


def _paid(found: Comparison, view: tuple[str, float], results: Mapping[FitKey, FitResult]) -> RowCosts:
    """Return what each row of a view costs under some results."""
    own = found.facts["data"][view[0]]["ratio"]
    return row_costs(results, found.splits, lambda _, ratio, costs: scale_misses(costs, ratio / own))[view]


def _as_today(results: Mapping[FitKey, FitResult]) -> dict[FitKey, FitResult]:
    return {fit._replace(method=TODAY): result for fit, result in results.items()}


def _best_constant(found: Comparison, view: tuple[str, float], results: Mapping[FitKey, FitResult]) -> _Constant:
    """Return the constant decision that costs least on the rows of some results."""
    names = _spoken(found.facts["data"][view[0]])
    each = []
    for label, name in enumerate(names):
        always = {
            fit: replace(result, decisions=np.full(len(result.decisions), label)) for fit, result in results.items()
        }
        cost = float(np.nanmean(_paid(found, view, always).costs))
        each.append(_Constant(label, cost, f"always predicting {name}", always))
    return min(each, key=lambda constant: constant.cost)


def _spoken(about: Mapping[str, Any]) -> list[str]:
    """Return names of classes for a sentence: their own; of two that are only numbers or signs, negative, positive."""
    names = [str(name) for name in about.get("classes", ("", ""))]
    words = all(any(letter.isalpha() for letter in name) for name in names)
    return names if words or len(names) > 2 else ["negative", "positive"]


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
        f"current decisions: {name}": f"{'scores at threshold 0.5' if said['kind'] == 'scores' else 'decisions'}, "
        + (f"from the column {said['column']!r}" if said["column"] else "as they were given")
        for name, said in told.items()
    }
