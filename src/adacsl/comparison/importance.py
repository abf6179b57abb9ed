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
"""So many rows, at least, are shuffled where time is short."""


def drivers(
    found: Comparison, task: Task, *, seconds: float = 10.0, repeats: int = 5, random_state: int = 0
) -> pd.DataFrame | None:
    """Return what each column is worth to the method to take; see ``permutation_cost``.

    The method is fitted once more, without the test rows of the first split; the columns of these are shuffled. None
    where there is nothing to shuffle (pictures, constant decisions), prices are learned, or fitting would take longer
    than so many ``seconds``; where predicting would, fewer rows and repeats are looked at.
    """
    view = next(
        (v for v in found.recommendations if v[0] == task.name and math.isclose(v[1], mean_ratio(task.costs))), None
    )
    name = None if view is None else found.recommendations[view].recommended
    if view is None or name is None or not _can_be_told(found, task, name, seconds):
        return None
    tested = found.splits[min(key for key in found.splits if key[0] == task.name)].test_rows
    model = found.method(name, data=view[0], ratio=view[1]).set_params(random_state=random_state)
    names = np.asarray(plain_labels(task.classes))
    _fit(model, task.rows(_before(task, tested)), names)
    held, repeats = _affordable(model, task.rows(tested), seconds, repeats)
    known = {"groups": held.groups, "repeats": repeats, "random_state": random_state, **_prices(held)}
    return model.permutation_cost(held.X, names[held.y], **known)


def _can_be_told(found: Comparison, task: Task, name: str, seconds: float) -> bool:
    took = found.results.loc[found.results["method"] == name, "seconds"].mean()
    learned = task.said is not None and task.said.learns
    many = task.costs.n_classes > 2 and task.costs.n_instances is not None
    return isinstance(task.X, pd.DataFrame) and name not in CONSTANTS and not (learned or many) and took <= seconds


def _before(task: Task, tested: Any) -> Any:
    """Return the rows that may train: all others, or with a time those before."""
    inside = np.isin(np.arange(len(task.y)), tested)
    return ~inside if task.time is None else task.time < task.time[tested].min()


def _fit(model: CostSensitiveClassifier, training: Task, names: Any) -> None:
    given = {"groups": training.groups, "sample_weight": training.sample_weight, "time": training.time}
    model.fit(training.X, names[training.y], **given, **_prices(training))


def _prices(task: Task) -> dict[str, Any]:
    """Return the prices of each row, where they have their own."""
    if task.costs.n_instances is None:
        return {}
    return {name: getattr(task.costs, name) for name in ("fp", "fn", "tp", "tn")}


def _affordable(model: CostSensitiveClassifier, held: Task, seconds: float, repeats: int) -> tuple[Task, int]:
    """Return so many of the rows and repeats that shuffling every column takes about so many seconds at most."""
    started = perf_counter()
    model.predict_proba(held.X, **_prices(held))
    share = seconds / max((perf_counter() - started) * repeats * held.X.shape[1], 1e-9)
    if share >= 1:
        return held, repeats
    rows = min(max(FEWEST, math.floor(share * len(held.y))), len(held.y))
    return held.rows(slice(rows)), max(1, min(repeats, round(repeats * share * len(held.y) / rows)))
