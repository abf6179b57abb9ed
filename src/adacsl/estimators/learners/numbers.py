"""Estimators as numbers, and back: linear models, scalers before them, trees and forests; nothing is pickled."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.heldout import sigmoid
from adacsl.estimators.learners.forests import FORESTS, forest_from_numbers, forest_numbers
from adacsl.estimators.learners.histogram import HistogramBoosting, boosting_from_numbers, boosting_numbers
from adacsl.estimators.learners.metacost import MetaCost
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

OURS: dict[str, Any] = {"HistogramBoosting": HistogramBoosting, "MetaCost": MetaCost}


class LinearModel:
    """A linear model of two classes that was read from numbers: a weighted sum, scaled before and squashed after."""

    classes_ = np.asarray([0, 1])

    def __init__(
        self, kind: str, intercept: float, weights: NDArray[Any], center: Any = None, scale: Any = None
    ) -> None:
        self.kind, self.weights, self.intercept, self.center, self.scale = kind, weights, intercept, center, scale
        if kind == "logistic":  # sums are log-odds; others have no probabilities to give
            self.predict_proba = self._probabilities

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the weighted sums."""
        x = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        x = x if self.center is None else x - self.center
        x = x if self.scale is None else x / self.scale
        return np.asarray(x @ self.weights + self.intercept)

    def _probabilities(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        positive = sigmoid(self.decision_function(X))
        return np.stack((1.0 - positive, positive), axis=1)


def to_numbers(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a fitted estimator as arrays and plain values, or say that it cannot be written so."""
    if type(model).__name__ in OURS:
        arrays, about = model.numbers()
        return arrays, {"kind": type(model).__name__, **about}
    if type(model) in FORESTS.values():
        return forest_numbers(model)
    if type(model) is HistGradientBoostingClassifier:
        return boosting_numbers(model)
    if isinstance(model, LinearModel):
        found: dict[str, Any] = {"weights": model.weights, "center": model.center, "scale": model.scale}
        return {k: v for k, v in found.items() if v is not None}, {"kind": model.kind, "intercept": model.intercept}
    scaler = model.steps[0][1] if isinstance(model, Pipeline) and len(model.steps) == 2 else None
    last = model if scaler is None else model.steps[-1][1]
    coefficients = np.asarray(getattr(last, "coef_", np.empty(0)), dtype=np.float64)
    scaled = scaler is None or isinstance(scaler, StandardScaler)
    if coefficients.shape[:1] != (1,) or not scaled or not _is_linear(last):
        raise ValueError(
            f"{type(last).__name__} cannot be saved without pickle: nets, boosters, forests, linear models (alone or "
            "behind a StandardScaler) and adacsl's own can; keep such an estimator with joblib, at your own risk"
        )
    arrays = {"weights": coefficients[0]}
    for name, value in (("center", getattr(scaler, "mean_", None)), ("scale", getattr(scaler, "scale_", None))):
        if value is not None:
            arrays[name] = np.asarray(value, dtype=np.float64)
    kind = "logistic" if hasattr(last, "predict_proba") else "linear"
    return arrays, {"kind": kind, "intercept": float(np.ravel(last.intercept_)[0])}


def from_numbers(arrays: dict[str, Any], about: dict[str, Any]) -> Any:
    """Return the estimator of what :func:`to_numbers` gave."""
    plain = {name: np.asarray(value) for name, value in arrays.items()}
    if about["kind"] in OURS:
        return OURS[about["kind"]].from_numbers(plain, about)
    if about["kind"] in FORESTS:
        return forest_from_numbers(plain, about)
    if about["kind"] == HistGradientBoostingClassifier.__name__:
        return boosting_from_numbers(plain, about)
    if about["kind"] not in ("linear", "logistic"):
        raise ValueError(f"unknown kind of estimator {about['kind']!r}")
    return LinearModel(about["kind"], float(about["intercept"]), **plain)


def as_saved(model: Any) -> Any:
    """Return a linear model as the sum that is saved of it, which rounds differently; others as they are."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not hasattr(last, "coef_"):
        return model
    try:
        return from_numbers(*to_numbers(model))
    except ValueError:
        return model


def joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the arrays of several as those of one, named by their number.

    Examples
    --------
    >>> joined([{"a": 1}, {"a": 2, "b": 3}])
    {'0.a': 1, '1.a': 2, '1.b': 3}
    """
    return {f"{i}.{name}": value for i, own in enumerate(parts) for name, value in own.items()}


def part_of(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the arrays whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _is_linear(model: Any) -> bool:
    """Tell whether the scores are the sums, or the probabilities their sigmoid: others have more to them."""
    if not hasattr(model, "predict_proba"):
        return True
    n = np.asarray(model.coef_).shape[1]
    points = np.stack([np.linspace(-1.0, 1.0, n), np.linspace(2.0, -3.0, n), np.full(n, 0.5)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these points have no names
        chances, sums = model.predict_proba(points)[:, 1], points @ model.coef_[0] + np.ravel(model.intercept_)[0]
    return bool(np.allclose(chances, sigmoid(sums), atol=1e-9))
