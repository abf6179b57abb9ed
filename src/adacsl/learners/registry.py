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
        return _made("adacsl.neural.learner:Net")


def _boosting(library: str = "auto") -> Any:
    if library == "auto" and not resolve("adacsl.learners.boosting:installed_engine")():
        return _sklearn("adacsl.learners.histogram_boosting:HistogramBoosting", encode=False)
    return resolve("adacsl.learners.boosting:Booster")(library)


def _sklearn(path: str, *, encode: bool = True, **settings: Any) -> Any:
    return resolve("adacsl.learners.sklearn:Model")(resolve(path)(**settings), encode=encode)


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
    from adacsl.learners.sklearn import Model  # noqa: PLC0415

    return Model(learner, encode=encodes_tables(learner))


def encodes_tables(learner: Any) -> bool:
    """Tell whether a learner gets encoded tables: pipelines and estimators that are fitted already get X as it is."""
    if isinstance(learner, str) or hasattr(learner, "trained_by"):
        own = type(getattr(learner, "estimator", None)).__module__.startswith("adacsl.")  # reads tables by itself
        return own or bool(getattr(learner, "encode", True))
    from sklearn.compose import ColumnTransformer  # noqa: PLC0415
    from sklearn.pipeline import Pipeline  # noqa: PLC0415

    from adacsl.learners.sklearn import prefit_parts  # noqa: PLC0415

    parts = [learner, *getattr(learner, "get_params", dict)().values()]
    return not any(isinstance(part, Pipeline | ColumnTransformer) for part in parts) and not prefit_parts(learner)
