"""Learners by name, imported when they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from adacsl.base.extras import requires, resolve

BOOSTING = ("xgboost", "lightgbm", "catboost")


def _made(path: str) -> Any:
    return resolve(path)()


def _network() -> Any:
    with requires("train"):
        return _made("adacsl.neural.learner:NeuralLearner")


def _boosting(library: str = "auto") -> Any:
    if library == "auto" and not resolve("adacsl.learners.boosting_libraries:installed_library")():
        return _sklearn("adacsl.learners.histogram_boosting:HistogramBoosting", encode=False)
    return resolve("adacsl.learners.boosting:BoostingLearner")(library)


def _sklearn(path: str, *, encode: bool = True, **settings: Any) -> Any:
    return resolve("adacsl.learners.sklearn:SklearnLearner")(resolve(path)(**settings), encode=encode)


LEARNERS: dict[str, Callable[[], Any]] = {
    "net": _network,
    "boosting": _boosting,
    **{library: functools.partial(_boosting, library) for library in BOOSTING},
    "constant": functools.partial(_made, "adacsl.learners.constant:Constant"),
    "metacost": functools.partial(_sklearn, "adacsl.learners.metacost:MetaCost", encode=False),
    "logistic": functools.partial(_sklearn, "sklearn.linear_model:LogisticRegression", max_iter=1000),
}
"""What makes a learner, by its name."""


def as_learner(learner: Any) -> Any:
    """Return a learner from its name, from a scikit-learn classifier, or as it is."""
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise ValueError(f"learner must be one of {', '.join(map(repr, LEARNERS))}, got {learner!r}")
        return LEARNERS[learner]()
    if isinstance(learner, type):
        raise TypeError(f"learner must be an instance, {learner.__name__}(...), not the class")
    if hasattr(learner, "trained_by"):
        return learner
    if not hasattr(learner, "fit") or not (hasattr(learner, "predict_proba") or hasattr(learner, "decision_function")):
        raise TypeError(f"learner {learner!r} has no predict_proba, which costs need, nor a decision_function")
    return resolve("adacsl.learners.sklearn:SklearnLearner")(learner)
