"""Permutation importance, in cost, of the recommended method."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.base.labels import plain_labels
from adacsl.comparison.protocol import mean_ratio
from adacsl.comparison.statistics import CONSTANTS
from adacsl.datasets.task import Task
from adacsl.estimators.classifier import CostSensitiveClassifier

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison

with requires("compare"):
    import pandas as pd


FEWEST = 200
"""The smallest number of samples to shuffle where time is short."""


def drivers(
    result: Comparison, task: Task, *, seconds: float = 10.0, repeats: int = 5, random_state: int = 0
) -> pd.DataFrame | None:
    """Return the permutation importance of each column for the recommended method; see ``permutation_cost``.

    The method is fitted again without the test samples of the first split, whose columns are then shuffled. None
    where there is nothing to shuffle (images, constant baselines), costs are learned, or fitting would take longer
    than ``seconds``; where predicting would, fewer samples and repeats are used.

    Parameters
    ----------
    result : Comparison
        With a recommended method.
    task : Task
        The data that were compared on.
    seconds : float, default 10
        Limit on the time of fitting, and of predicting.
    repeats : int, default 5
        How often each column is shuffled.
    random_state : int, default 0
        Seed of the fit and of shuffling.

    Returns
    -------
    DataFrame or None
        As of :meth:`CostSensitiveClassifier.permutation_cost`.
    """
    view = next(
        (v for v in result.recommendations if v[0] == task.name and math.isclose(v[1], mean_ratio(task.costs))), None
    )
    name = None if view is None else result.recommendations[view].recommended
    if view is None or name is None or not _is_explainable(result, task, name, seconds):
        return None
    tested = result.splits[min(key for key in result.splits if key[0] == task.name)].test_rows
    model = result.method(name, data=view[0], ratio=view[1]).set_params(random_state=random_state)
    names = np.asarray(plain_labels(task.classes))
    _fit(model, task.rows(_before(task, tested)), names)
    held, repeats = _affordable(model, task.rows(tested), seconds, repeats)
    settings = {"groups": held.groups, "repeats": repeats, "random_state": random_state, **_costs(held)}
    return model.permutation_cost(held.X, names[held.y], **settings)


def _is_explainable(result: Comparison, task: Task, name: str, seconds: float) -> bool:
    took = result.results.loc[result.results["method"] == name, "seconds"].mean()
    learned = task.cost_spec is not None and task.cost_spec.learns
    many = task.costs.n_classes > 2 and task.costs.n_instances is not None
    return isinstance(task.X, pd.DataFrame) and name not in CONSTANTS and not (learned or many) and took <= seconds


def _before(task: Task, tested: Any) -> Any:
    """Return the training samples: all others, or with a time those before."""
    inside = np.isin(np.arange(len(task.y)), tested)
    return ~inside if task.time is None else task.time < task.time[tested].min()


def _fit(model: CostSensitiveClassifier, training: Task, names: Any) -> None:
    given = {"groups": training.groups, "sample_weight": training.sample_weight, "time": training.time}
    model.fit(training.X, names[training.y], **given, **_costs(training))


def _costs(task: Task) -> dict[str, Any]:
    """Return per-sample costs by name; empty where costs are class-wide."""
    if task.costs.n_instances is None:
        return {}
    return {name: getattr(task.costs, name) for name in ("fp", "fn", "tp", "tn")}


def _affordable(model: CostSensitiveClassifier, held: Task, seconds: float, repeats: int) -> tuple[Task, int]:
    """Return samples and repeats reduced so that shuffling every column takes about ``seconds`` at most."""
    started = perf_counter()
    model.predict_proba(held.X, **_costs(held))
    share = seconds / max((perf_counter() - started) * repeats * held.X.shape[1], 1e-9)
    if share >= 1:
        return held, repeats
    rows = min(max(FEWEST, math.floor(share * len(held.y))), len(held.y))
    return held.rows(slice(rows)), max(1, min(repeats, round(repeats * share * len(held.y) / rows)))
