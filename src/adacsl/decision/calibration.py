"""Temperature, Platt, isotonic and matrix scaling of held-out scores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.scores import log_odds, losses_of, sigmoid, to_logits, to_probabilities

__all__ = ["calibrate", "fit_calibration", "fit_stretch", "uncalibrate"]


FEWEST = 10
"""With fewer samples of a class there is nothing to choose a calibration by."""

STRETCHES = (-4.0, 2.0)
"""Logarithms of the slopes that log-odds may be stretched by: never to nothing, their order is worth something."""


def fit_calibration(
    scores: NDArray[np.float64], labels: NDArray[Any], weight: NDArray[Any] | None = None
) -> dict[str, Any] | None:
    """Return temperature, Platt or isotonic scaling as numbers: whichever predicts held-out folds of these rows best.

    Of K classes: temperature or matrix scaling. None where the scores are best left alone, or of the classes that are
    there one has fewer than ten samples.
    """
    labels = np.asarray(labels, dtype=np.int64)
    counts = np.bincount(labels, minlength=2)
    if (counts if scores.ndim == 1 else counts[counts > 0]).min() < FEWEST or np.count_nonzero(counts) < 2:
        return None
    with requires("sklearn"):
        from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415  applying a calibration needs numpy alone
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(scores, labels))
    fits = FITS if scores.ndim == 1 else CLASS_FITS
    best = min(fits, key=lambda fit: _held_out_loss(fit, scores, labels, weight, folds))
    return best(scores, labels, weight)


def calibrate(calibration: dict[str, Any] | None, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply a calibration to probabilities."""
    if calibration is None:
        return scores
    if calibration["kind"] == "isotonic":
        return np.asarray(np.interp(scores, calibration["scores"], calibration["probabilities"]))
    if calibration["kind"] == "matrix":
        moved = to_logits(scores) @ np.asarray(calibration["matrix"]).T + np.asarray(calibration["intercept"])
        return to_probabilities(moved)
    return sigmoid(calibration["slope"] * _inside(scores) + calibration["intercept"])


def fit_stretch(
    scores: NDArray[np.float64], labels: NDArray[Any], centre: float, weight: NDArray[Any] | None = None
) -> dict[str, Any] | None:
    """Return a logistic calibration that leaves the log-odds ``centre`` in place, with the least log loss.

    Log-odds are stretched about the centre: what is decided there stays decided. None with fewer than ten rows of a
    class.
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  only here

    labels = np.asarray(labels, dtype=np.int64)
    if np.bincount(labels, minlength=2).min() < FEWEST:
        return None
    distances = _inside(scores) - centre
    counted = np.ones(len(labels)) if weight is None else weight

    def loss(log_slope: float) -> float:
        return float(counted @ losses_of(centre + np.exp(log_slope) * distances, labels))

    slope = float(np.exp(minimize_scalar(loss, bounds=STRETCHES, method="bounded").x))
    return {"kind": "logistic", "slope": slope, "intercept": (1.0 - slope) * centre}


def uncalibrate(calibration: dict[str, Any], probability: float) -> float:
    """Return the largest score that is calibrated to at most this probability; NaN where scores fall."""
    if calibration["kind"] == "isotonic":
        x, y = calibration["scores"], calibration["probabilities"]
        at = int(np.searchsorted(y, probability, side="right"))
        if at in (0, len(y)):
            return float(at > 0)
        return float(x[at - 1] + (probability - y[at - 1]) * (x[at] - x[at - 1]) / (y[at] - y[at - 1]))
    if not calibration["slope"] > 0.0:
        return float("nan")
    return float(sigmoid((log_odds(probability) - calibration["intercept"]) / calibration["slope"]))


def _held_out_loss(
    fit: Any, scores: NDArray[np.float64], labels: NDArray[np.int64], weight: NDArray[Any] | None, folds: Sequence[Any]
) -> float:
    from sklearn.metrics import log_loss  # noqa: PLC0415

    predicted = np.empty(scores.shape)
    for train, test in folds:
        fitted = fit(scores[train], labels[train], None if weight is None else weight[train])
        predicted[test] = calibrate(fitted, scores[test])
    # isotonic steps reach 0 and 1: one surprise must not decide alone
    clipped = predicted.clip(1e-4, 1.0 - 1e-4)
    if scores.ndim > 1:
        clipped /= clipped.sum(axis=1, keepdims=True)
    known = None if scores.ndim == 1 else np.arange(scores.shape[1])
    return float(log_loss(labels, clipped, sample_weight=weight, labels=known))


def _leave(scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None) -> None:
    return None


def _logistic(
    scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None, *, fit_intercept: bool
) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    model = LogisticRegression(C=1e6, fit_intercept=fit_intercept, max_iter=1000)
    model.fit(_inside(scores)[:, None], labels, sample_weight=weight)
    return {"kind": "logistic", "slope": float(model.coef_[0, 0]), "intercept": float(np.ravel(model.intercept_)[0])}


def _isotonic(scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None) -> dict[str, Any]:
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

    model = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0).fit(scores, labels, sample_weight=weight)
    steps = (model.X_thresholds_.tolist(), model.y_thresholds_.tolist())
    return {"kind": "isotonic", "scores": steps[0], "probabilities": steps[1]}


def temperature(scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None) -> dict[str, Any]:
    """Return one slope of all K logits."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  only here

    logits, counted = to_logits(scores), np.ones(len(labels)) if weight is None else weight

    def loss(log_slope: float) -> float:
        return float(counted @ losses_of(np.exp(log_slope) * logits, labels))

    slope = float(np.exp(minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded").x))
    k = scores.shape[1]
    return {"kind": "matrix", "matrix": (slope * np.eye(k)).tolist(), "intercept": [0.0] * k}


def _matrix(
    scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None, *, strength: float
) -> dict[str, Any]:
    """Return a linear map of the K logits; classes that are not there keep what they had."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    k, present = scores.shape[1], np.unique(labels)
    model = LogisticRegression(C=strength, max_iter=1000).fit(to_logits(scores), labels, sample_weight=weight)
    coefficients, intercepts = model.coef_, model.intercept_
    if len(present) == 2:  # scikit-learn returns one of two classes only
        coefficients, intercepts = np.vstack((-coefficients, coefficients)) / 2, np.append(-intercepts, intercepts) / 2
    matrix, intercept = np.eye(k), np.zeros(k)
    matrix[present], intercept[present] = coefficients, intercepts
    return {"kind": "matrix", "matrix": matrix.tolist(), "intercept": intercept.tolist()}


def _inside(scores: NDArray[Any]) -> NDArray[np.float64]:
    return log_odds(np.clip(scores, 1e-12, 1.0 - 1e-12))


FITS: tuple[Callable[..., dict[str, Any] | None], ...] = (
    _leave,
    functools.partial(_logistic, fit_intercept=False),  # temperature
    functools.partial(_logistic, fit_intercept=True),  # Platt
    _isotonic,
)
CLASS_FITS: tuple[Callable[..., dict[str, Any] | None], ...] = (
    _leave,
    temperature,
    functools.partial(_matrix, strength=0.01),
    functools.partial(_matrix, strength=1.0),
)
