"""From validation scores to decisions: the threshold, or the calibration, that a recipe ends with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.core.thresholds import find_threshold
from adacsl.experiments.cells import Cell
from adacsl.experiments.recipes import Decide, Recipe, Select
from adacsl.extras import requires

with requires("compare"):
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

Floats = NDArray[np.float64]
Calibrator = Callable[[Floats], Floats]


class Decided(NamedTuple):
    """Decisions about the test rows, the scores they rest on, and what the same rule cost on validation data."""

    scores: NDArray[np.float32]
    decisions: NDArray[np.bool_]
    threshold: float | None
    validation_cost: float


class Scored(NamedTuple):
    """Probabilities of some rows, their labels and their costs."""

    scores: Floats
    labels: NDArray[np.int64]
    costs: CostMatrix


class Use(NamedTuple):
    """A cell that a training serves, and how it decides."""

    cell: Cell
    decide: Decide
    select: Select = "best"

    @staticmethod
    def of(recipe: Recipe, cell: Cell) -> Use:
        """Return how a recipe uses a training for this cell."""
        return Use(cell, recipe.decide, recipe.select)


class Finished(NamedTuple):
    """What came out of one use: decisions about the test rows, the epochs on the way, further figures."""

    use: Use
    decided: Decided
    history: list[dict[str, Any]]
    extra: dict[str, float]
    seconds: float


def at_ratio(costs: CostMatrix, ratio: float | None) -> CostMatrix:
    """Return the costs with misses made dearer or cheaper until one is worth ``ratio`` false alarms (in the mean).

    Examples
    --------
    >>> at_ratio(CostMatrix(fp=2, fn=8), 5.0)
    CostMatrix(fp=2, fn=10)
    """
    return costs if ratio is None else scale_misses(costs, ratio / mean_ratio(costs))


def scale_misses(costs: CostMatrix, factor: float) -> CostMatrix:
    """Return the costs with the price of a miss, above that of a hit, multiplied by ``factor``."""
    if math.isclose(factor, 1.0, rel_tol=1e-5):  # ratios are written with six digits
        return costs
    return CostMatrix(fp=costs.fp, fn=costs.tp + (costs.fn - costs.tp) * factor, tp=costs.tp, tn=costs.tn)


def mean_ratio(costs: CostMatrix) -> float:
    """Return how many false alarms one miss is worth, in the mean over the rows."""
    return float(costs.averaged().ratio)


def bayes_logit(costs: CostMatrix) -> float:
    """Return the log-odds of the (mean) Bayes threshold."""
    threshold = float(costs.averaged().threshold)
    return math.log(threshold) - math.log1p(-threshold)


def decide(rule: Decide, test: Scored, validation: Scored | None) -> Decided:
    """Decide about the test rows; ``validation`` (rows nobody trained on) tunes and calibrates.

    Examples
    --------
    >>> some = Scored(np.asarray([0.05, 0.2]), np.asarray([0, 1]), CostMatrix(fp=1, fn=8))
    >>> decide("bayes", some, None).decisions.tolist()
    [False, True]
    """
    if rule in ("negative", "positive"):
        return _constant(test, positive=rule == "positive")
    if rule in ("tuned", "calibrated") and validation is None:
        raise ValueError(f"decide={rule!r} needs validation rows")
    calibrate: Calibrator = _identity
    threshold: float | None = None
    if rule in ("half", "raw"):
        threshold = 0.5
    elif rule == "tuned" and validation is not None:
        bayes = float(validation.costs.averaged().threshold)
        found = find_threshold(validation.scores, validation.labels, validation.costs, target=bayes)
        threshold = float(found.value)
    elif rule == "calibrated" and validation is not None:
        calibrate = fit_calibrator(validation.scores, validation.labels)
    if threshold is None and test.costs.n_instances is None:
        threshold = float(test.costs.threshold)
    # stored scores are float32, and decisions must follow from what is stored
    scores = calibrate(test.scores).astype(np.float32)
    before = math.nan
    if validation is not None:
        watched = calibrate(validation.scores).astype(np.float32)
        before = validation.costs.mean(validation.labels, _cut(watched, threshold, validation.costs))
    return Decided(scores, _cut(scores, threshold, test.costs), threshold, before)


def measure(decided: Decided, test: Scored) -> dict[str, float]:
    """Return what the decisions about the test rows cost, and the counts behind it."""
    truth, positive = test.labels == 1, decided.decisions
    total = test.costs.total(truth, positive)
    return {
        "cost": total / len(truth),
        "total_cost": total,
        "normalized_cost": _or_nan(test.costs.normalized, truth, positive),
        "savings": _or_nan(test.costs.savings, truth, positive),
        "accuracy": float(np.mean(truth == positive)),
        "tp": int(np.sum(truth & positive)),
        "fp": int(np.sum(~truth & positive)),
        "fn": int(np.sum(truth & ~positive)),
        "tn": int(np.sum(~truth & ~positive)),
        "n_test": len(truth),
        "validation_cost": decided.validation_cost,
    }


# calibration


def fit_calibrator(scores: Floats, labels: NDArray[np.int64], *, seed: int = 0) -> Calibrator:
    """Return temperature, Platt or isotonic scaling: whichever predicts held-out folds of these rows best.

    With fewer than ten rows of a class there is nothing to choose by: the scores stay as they are.
    """
    if np.bincount(labels, minlength=2).min() < 10:
        return _identity
    folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(scores, labels))
    fits = (_leave, _temperature, _platt, _isotonic)
    best = min(fits, key=lambda fit: _held_out_loss(fit, scores, labels, folds))
    return best(scores, labels)


def _held_out_loss(
    fit: Callable[[Floats, NDArray[np.int64]], Calibrator],
    scores: Floats,
    labels: NDArray[np.int64],
    folds: Sequence[Any],
) -> float:
    predicted = np.empty(len(scores))
    for train, test in folds:
        predicted[test] = fit(scores[train], labels[train])(scores[test])
    # isotonic steps reach 0 and 1: one surprise must not decide alone
    return float(log_loss(labels, predicted.clip(1e-4, 1.0 - 1e-4)))


def _leave(scores: Floats, labels: NDArray[np.int64]) -> Calibrator:
    return _identity


def _temperature(scores: Floats, labels: NDArray[np.int64]) -> Calibrator:
    return _logistic(scores, labels, fit_intercept=False)


def _platt(scores: Floats, labels: NDArray[np.int64]) -> Calibrator:
    return _logistic(scores, labels, fit_intercept=True)


def _logistic(scores: Floats, labels: NDArray[np.int64], *, fit_intercept: bool) -> Calibrator:
    model = LogisticRegression(C=1e6, fit_intercept=fit_intercept, max_iter=1000)
    model.fit(_logits(scores)[:, None], labels)
    return lambda other: np.asarray(model.predict_proba(_logits(other)[:, None])[:, 1])


def _isotonic(scores: Floats, labels: NDArray[np.int64]) -> Calibrator:
    model = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0).fit(scores, labels)
    return lambda other: np.asarray(model.predict(other))


def _identity(scores: Floats) -> Floats:
    return np.asarray(scores)


def _logits(scores: Floats) -> Floats:
    clipped = np.clip(scores, 1e-12, 1.0 - 1e-12)
    return np.log(clipped) - np.log1p(-clipped)


# parts


def _cut(scores: NDArray[np.float32], threshold: float | None, costs: CostMatrix) -> NDArray[np.bool_]:
    if threshold is None:
        return np.asarray(costs.decide(scores.astype(np.float64)) == 1, dtype=np.bool_)
    return np.asarray(scores.astype(np.float64) > threshold, dtype=np.bool_)


def _constant(test: Scored, *, positive: bool) -> Decided:
    n = len(test.labels)
    scores = np.full(n, float(positive), dtype=np.float32)
    return Decided(scores, np.full(n, positive), 0.5, math.nan)


def _or_nan(metric: Callable[..., float], truth: NDArray[np.bool_], positive: NDArray[np.bool_]) -> float:
    try:
        return metric(truth, positive)
    except ValueError:  # one class only among the test rows: nothing to compare with
        return math.nan
