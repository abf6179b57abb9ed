"""Cross-fits of the base estimators, and what each contributes to the stack."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.held_out import HeldOut, pooled
from adacsl.base.extras import requires
from adacsl.base.scores import known
from adacsl.costs.instance import bayes_log_odds, relative_costs
from adacsl.costs.matrix import CostMatrix
from adacsl.estimators.fit import fit_methods
from adacsl.fitting.candidates import Candidate, learned_share
from adacsl.fitting.rows import Rows
from adacsl.learners.booster_model import BoosterModel
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.estimator_model import EstimatorModel
from adacsl.learners.sklearn import SklearnLearner

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier

with requires("sklearn"):
    from sklearn.base import clone

__all__ = [
    "Fitted",
    "class_costs_of",
    "cut_of",
    "fit_estimators",
    "fit_task",
    "fold_tasks",
    "held_out_logits",
    "joined_folds",
]


@dataclass
class Fitted:
    """Result of a base estimator for one candidate: out-of-fold log-odds (or K logits), and its model.

    ``by_rows`` is the share of the samples' offsets that its log-odds lack: 0 unless its loss weighed samples by costs.
    """

    name: str
    held_out: NDArray[np.float64]
    shift: Any
    model: Any
    watched: NDArray[np.float64] | None
    seconds: float
    by_rows: float = 0.0

    def check(self, held: Sequence[HeldOut]) -> None:
        """Refuse scores that nothing can be built on."""
        if not held or not all(np.all(np.isfinite(self.held_out[part.rows])) for part in held):
            raise ValueError("its held-out scores are not finite")


def cut_of(costs: CostMatrix) -> Any:
    """Return the log-odds of the Bayes threshold; of K classes minus the log of what an error about each weighs."""
    return float(bayes_log_odds(costs)) if costs.n_classes == 2 else -np.log(costs.class_weights())


def class_costs_of(candidate: Candidate, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return what errors about each class cost for each sample, where costs differ between samples."""
    if candidate.row_costs is None:
        return None
    usual = candidate.class_costs.reduced().to_array().sum(axis=0)
    return np.asarray(relative_costs(candidate.costs.rows(rows), candidate.class_costs) * usual)


def fit_task(shared: Any, estimators: dict[Any, CostSensitiveClassifier]) -> Iterator[dict[Any, list[Fitted]]]:
    """Yield what :func:`fit_estimators` returns: the one result of a task."""
    yield fit_estimators(shared, estimators)


def fit_estimators(shared: Any, estimators: dict[Any, CostSensitiveClassifier]) -> dict[Any, list[Fitted]]:
    """Fit some base estimators (or folds of them), for each of the costs; what several need is trained once."""
    rows, costs_of_all, watch = shared
    asked = [(name, clone(made), costs) for name, made in estimators.items() for costs in costs_of_all]
    for _, made, _ in asked:
        made.check_settings()
    start = time.perf_counter()
    fitted = dict(fit_methods([(made, costs) for _, made, costs in asked], rows, watch=watch))
    seconds = (time.perf_counter() - start) / len(estimators)
    result: dict[Any, list[Fitted]] = {name: [] for name in estimators}
    for number, (name, _, _) in enumerate(asked):
        own = fitted[number]
        held_out, by_rows = held_out_logits(own, rows)
        watched = None
        if own.watched is not None and own.watch is not None:
            watched = own.watched + own.shifted + by_rows * own.offsets(own.watch)
        result[name].append(Fitted(name, held_out, own.shifted, own.model, watched, seconds, by_rows))
        result[name][-1].check(own.held)
    return result


# folds apart


def fold_tasks(name: str, made: CostSensitiveClassifier, rows: Rows) -> list[dict[Any, CostSensitiveClassifier]]:
    """Return one task for each fold of a base estimator whose folds are independent, else one for all its folds.

    A fold is called by the base estimator, its own number, and how many there are. Folds that share a controller,
    choose a target together or train side by side (networks) stay together, and so do windows of time, of which the
    latest decide.
    """
    folds = getattr(made, "cv", None)
    if not isinstance(folds, list) or len(folds) < 2 or rows.line is not None or not _folds_apart(made):
        return [{name: made}]
    return [{(name, i, len(folds)): clone(made).set_params(cv=[pair])} for i, pair in enumerate(folds)]


def _folds_apart(made: CostSensitiveClassifier) -> bool:
    fresh: CostSensitiveClassifier = clone(made)
    try:
        learner = fresh.check_settings()
    except (ImportError, TypeError, ValueError):  # raised where it is fitted
        return False
    alike = fresh.controller is None and fresh.loss in ("plain", "weighted") and fresh.target_threshold != "auto"
    return alike and isinstance(learner, BoostingLearner | SklearnLearner)


def joined_folds(parts: Sequence[Sequence[Fitted]]) -> list[Fitted]:
    """Return a base estimator, for each of the costs, of its folds in their order: as if one had fitted them all."""
    return [_joined(of_one) for of_one in zip(*parts, strict=True)]


def _joined(folds: Sequence[Fitted]) -> Fitted:
    total, count = np.zeros_like(folds[0].held_out), np.zeros(len(folds[0].held_out))
    for fold in folds:  # one after another: sums of floats depend on the order
        seen = known(fold.held_out)
        total[seen] += fold.held_out[seen]
        count[seen] += 1
    count = count if total.ndim == 1 else count[:, None]
    held_out = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    seconds = sum(fold.seconds for fold in folds)
    return replace(folds[0], held_out=held_out, model=_one_model([fold.model for fold in folds]), seconds=seconds)


def _one_model(models: Sequence[Any]) -> Any:
    first = models[0]
    if isinstance(first, BoosterModel):
        boosters, rounds = (
            [one for model in models for one in getattr(model, name)] for name in ("boosters", "rounds")
        )
        return BoosterModel(first.library, boosters, rounds, first.encoder)
    estimators = [one for model in models for one in model.estimators]
    return EstimatorModel(estimators, first.encoder, first.undone, first.n_classes)


def held_out_logits(candidate: Candidate, rows: Rows) -> tuple[NDArray[np.float64], float]:
    """Return the held-out log-odds (or K logits), and the share of the samples' offsets that is in them."""
    logits, share = pooled(len(rows.y), candidate.held, costs=candidate.costs), learned_share(candidate, rows)
    return logits + (share - 1.0) * candidate.offsets(np.arange(len(rows.y))), share
