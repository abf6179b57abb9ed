"""Baselines: the user's own decisions, and predicting at threshold 0.5."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from adacsl.comparison.fits import FitKey, FitResult, measure, scale_fn
from adacsl.comparison.protocol import at_ratio, mean_ratio
from adacsl.comparison.statistics import BASELINE, CONSTANTS, BaselineCosts, RowCosts, row_costs
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.task import Task

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison


HALF = 0.5


def decided_at_half(scores: NDArray[Any]) -> NDArray[Any]:
    """Return whether samples are predicted positive, or their likeliest class, whatever the costs."""
    return np.asarray(scores > HALF if scores.ndim == 1 else scores.argmax(axis=1))


def baseline_results(
    task: Task, ratios: Iterable[float], seed: int, tested: NDArray[np.int64], costs: CostMatrix
) -> Iterator[FitResult]:
    """Yield the results of the current decisions on the test samples of a split, at each ratio; nothing without them.

    ``costs`` are those of all samples of the task, as resolved for this split.
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
        fit = FitKey(task.name, ratio, BASELINE, seed)
        yield FitResult(fit, metrics, scores, decided, threshold, provenance={"decide": "half"})


def refuse_baseline_name(tasks: Iterable[Task], methods: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise if a method has the name that the current decisions have in the table."""
    if any(task.baseline is not None and BASELINE in methods[task.name] for task in tasks):
        raise ValueError(
            f"the name {BASELINE!r} is that of the current decisions in the table: give the method another name"
        )


def baseline_facts(task: Task) -> dict[str, Any]:
    """Return the facts of a run about the current decisions."""
    if task.baseline is None:
        return {}
    return {"baseline": {"column": task.baseline.column, "kind": task.baseline.kind}}


def baseline_costs(comparison: Comparison, view: tuple[str, float], method: str) -> BaselineCosts | None:
    """Return the baseline that a method's saving is measured against, with the costs of samples under both.

    The current decisions, if they were given. Otherwise the better of two simple rules: threshold 0.5 (of more than two
    classes: the likeliest class), on the probabilities that cost least so, and the best constant baseline. A constant
    baseline that is itself the ``method`` is not used.
    """
    about = comparison.facts["data"].get(view[0], {})
    own = {fit: result for fit, result in comparison.fits.items() if (fit.data, fit.ratio) == view}
    if BASELINE in comparison.paired[view].methods:
        scores = about.get("baseline", {}).get("kind") == "scores"
        text = f"your current decisions{' (your scores at threshold 0.5)' if scores else ''}"
        given = {fit: result for fit, result in own.items() if fit.method == BASELINE}
        best = None if method in CONSTANTS else _best_constant(comparison, view, given)
        known = BaselineCosts(text, comparison.paired[view])
        return known if best is None else known._replace(other=best.text, other_cost=best.cost)
    stopped = {each.method for each in comparison.stopped if each[:2] == view}
    halves = {
        fit: replace(result, decisions=decided_at_half(result.scores))
        for fit, result in own.items()
        if fit.method not in CONSTANTS and (fit.method not in stopped or method in stopped)
    }
    if not halves:
        return None
    decided = _paid(comparison, view, halves)
    means = np.nanmean(decided.costs, axis=1)
    source, cost = decided.methods[int(means.argmin())], float(means.min())
    half = {fit: result for fit, result in halves.items() if fit.method == source}
    made = {fit: result for fit, result in own.items() if fit.method == method}
    text = "predicting the likeliest class" if len(about["classes"]) > 2 else "predicting at threshold 0.5"
    best = None if method in CONSTANTS else _best_constant(comparison, view, half)
    if best is not None and best.cost < cost:
        costs = _paid(comparison, view, made | _as_baseline(best.results))
        return BaselineCosts(best.text, costs, text, cost, source, best.label)
    known = BaselineCosts(text, _paid(comparison, view, made | _as_baseline(half)), source=source)
    return known if best is None else known._replace(other=best.text, other_cost=best.cost)


class _Constant(NamedTuple):
    """A constant baseline: the class, its mean cost per sample, its description, and its results."""

    label: int
    cost: float
    text: str
    results: dict[FitKey, FitResult]


def _paid(result: Comparison, view: tuple[str, float], results: Mapping[FitKey, FitResult]) -> RowCosts:
    """Return the costs of the samples of a view under some results."""
    own = result.facts["data"][view[0]]["ratio"]
    return row_costs(results, result.splits, lambda _, ratio, costs: scale_fn(costs, ratio / own))[view]


def _as_baseline(results: Mapping[FitKey, FitResult]) -> dict[FitKey, FitResult]:
    return {fit._replace(method=BASELINE): result for fit, result in results.items()}


def _best_constant(comparison: Comparison, view: tuple[str, float], results: Mapping[FitKey, FitResult]) -> _Constant:
    """Return the constant baseline that costs least on the samples of some results."""
    names = _class_names(comparison.facts["data"][view[0]])
    each = []
    for label, name in enumerate(names):
        always = {
            fit: replace(result, decisions=np.full(len(result.decisions), label)) for fit, result in results.items()
        }
        cost = float(np.nanmean(_paid(comparison, view, always).costs))
        each.append(_Constant(label, cost, f"always predicting {name}", always))
    return min(each, key=lambda constant: constant.cost)


def _class_names(about: Mapping[str, Any]) -> list[str]:
    """Return the names of classes for a sentence; two that have no letters are called negative and positive."""
    names = [str(name) for name in about.get("classes", ("", ""))]
    readable = all(any(letter.isalpha() for letter in name) for name in names)
    return names if readable or len(names) > 2 else ["negative", "positive"]


def without_baseline_column(result: Comparison, data: str, table: Any) -> Any:
    """Return the features without the column of the current decisions."""
    column = result.facts["data"][data].get("baseline", {}).get("column")
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if column is None or not isinstance(frame, nw.DataFrame) or column not in frame.columns:
        return table
    return frame.drop(column).to_native()


def describe_baselines(result: Comparison) -> dict[str, str]:
    """Return a description of where the current decisions come from, by data set."""
    given = {name: about["baseline"] for name, about in result.facts["data"].items() if "baseline" in about}
    return {
        f"current decisions: {name}": f"{'scores at threshold 0.5' if each['kind'] == 'scores' else 'decisions'}, "
        + (f"from the column {each['column']!r}" if each["column"] else "as they were given")
        for name, each in given.items()
    }
