"""How much of what a model has learned lies in each column of the table: ``feature_importances_``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.estimators.learners.boosters import BoosterModel
from adacsl.estimators.learners.models import EstimatorModel
from adacsl.estimators.learners.stackmodel import StackModel
from adacsl.estimators.learners.together import load_engine


def importances(model: Any, columns: int) -> NDArray[np.float64] | None:
    """Return the share of each column, 1 in all; None where nothing in the model knows it.

    Boosters have gains; estimators have ``feature_importances_``, of which an encoded table has several for one column.
    In a portfolio those members count that have some, by their weights.
    """
    if isinstance(model, StackModel):
        parts = [(float(abs(w)), importances(own, columns)) for w, own in _weighed(model)]
        found = [weight * part for weight, part in parts if part is not None]
    elif isinstance(model, BoosterModel):
        engine = load_engine(model.engine)
        found = [_shares(engine.importances(booster, columns)) for booster in model.boosters]
    else:
        found = list(_of_estimators(model, columns)) if isinstance(model, EstimatorModel) else []
    return _shares(np.sum(found, axis=0)) if found else None


def _weighed(model: StackModel) -> zip[tuple[Any, Any]]:
    return zip(np.asarray(model.stack.weights), model.models, strict=True)


def _of_estimators(model: EstimatorModel, columns: int) -> Any:
    for estimator in model.estimators:
        own = getattr(estimator, "feature_importances_", None)
        if own is None:
            continue
        places = np.arange(len(own)) if model.encoder is None else np.asarray(model.encoder.sources)
        if len(places) == len(own) and (not len(places) or places.max() < columns):
            yield _shares(np.bincount(places, weights=np.asarray(own, np.float64), minlength=columns))


def _shares(found: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(found / (found.sum() or 1.0), dtype=np.float64)
