"""Methods for tables that are not nets: histogram boosting, MetaCost, any scikit-learn classifier."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.datasets.encoding import TableEncoder
from adacsl.datasets.task import Task
from adacsl.experiments.cells import Split
from adacsl.experiments.deciding import Finished, Scored, Use, at_ratio, bayes_logit, decide
from adacsl.experiments.protocol import make_folds
from adacsl.experiments.recipes import Recipe
from adacsl.extras import requires

with requires("compare"):
    import pandas as pd
    from sklearn.base import clone
    from sklearn.ensemble import HistGradientBoostingClassifier

FOLDS = 5
BAGS = 10
MAX_LEVELS = 254
"""Histogram boosting takes at most 255 categories."""


class Fit(NamedTuple):
    """What a recipe needs fitted; recipes that differ only in how they decide share one."""

    recipe: Recipe
    ratio: float | None  # None: serves all cost ratios

    @staticmethod
    def of(recipe: Recipe, ratio: float) -> Fit:
        """Return the fit of a recipe."""
        # MetaCost's bags serve all ratios, its relabelled data one
        return Fit(recipe, ratio if recipe.needs_costs_to_train else None)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for fits that are the same work."""
        learner = self.recipe.learner
        return (learner if isinstance(learner, str) else id(learner), self.recipe.loss, self.ratio)


def run_estimator(task: Task, split: Split, seed: int, fit: Fit, uses: Sequence[Use]) -> Iterator[Finished]:
    """Fit on all rows that are not test (there is no epoch to choose) and yield the outcome of each use."""
    start = time.perf_counter()
    rest = np.sort(np.concatenate((split.train, split.validation)))
    features = _features(fit.recipe.learner, task, rest)
    if fit.recipe.learner == "metacost":
        yield from _metacost(task, split, seed, uses, features, rest)
        return
    costs = at_ratio(task.costs, fit.ratio)
    weight = _weights(costs, task.y) if fit.recipe.loss == "weighted" else None
    shift = bayes_logit(costs) if weight is not None else 0.0
    scores = _corrected(_fit_predict(fit.recipe, features, task.y, weight, seed, rest, split.test), shift)
    held_out = None
    if any(use.decide in ("tuned", "calibrated") for use in uses):
        held_out = np.full(len(task.y), np.nan)
        for train, test in make_folds(task, rest, FOLDS, seed):
            held_out[test] = _corrected(_fit_predict(fit.recipe, features, task.y, weight, seed, train, test), shift)
    seconds = (time.perf_counter() - start) / len(uses)
    for use in uses:
        at = at_ratio(task.costs, use.cell.ratio)
        validation = None if held_out is None else Scored(held_out[rest], task.y[rest], at.rows(rest))
        decided = decide(use.decide, Scored(scores, task.y[split.test], at.rows(split.test)), validation)
        yield Finished(use, decided, [], {}, seconds)


def run_constants(task: Task, split: Split, uses: Sequence[Use]) -> Iterator[Finished]:
    """Decide the same about all rows."""
    for use in uses:
        costs = at_ratio(task.costs, use.cell.ratio).rows(split.test)
        test = Scored(np.zeros(len(split.test)), task.y[split.test], costs)
        yield Finished(use, decide(use.decide, test, None), [], {}, 0.0)


def _metacost(
    task: Task, split: Split, seed: int, uses: Sequence[Use], features: Any, rest: NDArray[np.int64]
) -> Iterator[Finished]:
    """Give each training row its cheapest label, judged by bags that did not hold it, and learn these labels."""
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    sums, counts = np.zeros(len(task.y)), np.zeros(len(task.y))
    for bag in range(BAGS):
        drawn = rng.choice(rest, len(rest))
        if len(np.unique(task.y[drawn])) < 2:
            continue
        left = np.setdiff1d(rest, drawn)
        sums[left] += _predict(_boosting(seed + bag).fit(_rows(features, drawn), task.y[drawn]), _rows(features, left))
        counts[left] += 1
    share = float(task.y[rest].mean())
    chance = np.divide(sums, counts, out=np.full(len(sums), share), where=counts > 0)
    shared = (time.perf_counter() - start) / len(uses)
    for use in uses:
        start = time.perf_counter()
        costs = at_ratio(task.costs, use.cell.ratio)
        labels = np.asarray(costs.rows(rest).decide(chance[rest]))
        if len(np.unique(labels)) < 2:
            scores = np.full(len(split.test), float(labels[0]))
        else:
            scores = _predict(_boosting(seed).fit(_rows(features, rest), labels), _rows(features, split.test))
        decided = decide(use.decide, Scored(scores, task.y[split.test], costs.rows(split.test)), None)
        yield Finished(use, decided, [], {}, shared + time.perf_counter() - start)


def _boosting(seed: int) -> Any:
    return HistGradientBoostingClassifier(random_state=seed, categorical_features="from_dtype", early_stopping="auto")


def _fit_predict(
    recipe: Recipe, features: Any, y: NDArray[np.int64], weight: NDArray[Any] | None, seed: int,
    train: NDArray[np.int64], test: NDArray[np.int64],
) -> NDArray[np.float64]:  # fmt: skip
    model = _boosting(seed) if recipe.learner == "boosting" else clone(recipe.learner)
    if "random_state" in model.get_params() and model.get_params()["random_state"] is None:
        model.set_params(random_state=seed)
    options = {} if weight is None else {"sample_weight": weight[train] / weight[train].mean()}
    return _predict(model.fit(_rows(features, train), y[train], **options), _rows(features, test))


def _predict(model: Any, x: Any) -> NDArray[np.float64]:
    return np.asarray(model.predict_proba(x)[:, list(model.classes_).index(1)], dtype=np.float64)


def _weights(costs: CostMatrix, y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what an error on each row costs: weighted so, 0.5 is the threshold."""
    reduced = costs.reduced()
    return np.where(y == 1, np.asarray(reduced.fn), np.asarray(reduced.fp)).astype(np.float64)


def _corrected(scores: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
    """Undo a weighting: a factor on the odds."""
    if shift == 0.0:
        return scores
    odds = np.exp(shift)
    return np.asarray(scores * odds / (scores * odds + 1.0 - scores))


def _features(learner: Any, task: Task, rest: NDArray[np.int64]) -> Any:
    """Return a table boosting can read as it is; for other estimators, the encoding the nets get."""
    if not isinstance(learner, str):
        return TableEncoder().fit(task.take(rest)).transform(task.X)
    frame = task.X if isinstance(task.X, pd.DataFrame) else pd.DataFrame(task.X)
    columns: Mapping[Any, Any] = {str(name): _column(frame[name], rest) for name in frame.columns}
    return pd.DataFrame(columns, index=frame.index)


def _column(column: pd.Series[Any], rest: NDArray[np.int64]) -> Any:
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return (column - pd.Timestamp(0, tz=column.dt.tz)).dt.total_seconds()
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_numeric_dtype(column.dtype):
        return column.astype(float)
    # levels known from rows that are not test; a new one is a missing value
    text = column.astype("object").where(column.notna(), None).map(lambda value: None if value is None else str(value))
    levels = sorted(text.iloc[rest].value_counts().index[:MAX_LEVELS])
    return pd.Series(pd.Categorical(text.where(text.isin(levels), None), categories=levels), index=column.index)


def _rows(features: Any, rows: NDArray[np.int64]) -> Any:
    return features.iloc[rows] if isinstance(features, pd.DataFrame) else features[rows]
