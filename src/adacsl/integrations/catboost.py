"""AdaCSL in CatBoost: one object in three places.

.. code-block:: python

    cost = AdaptiveCost(AdaptiveWeight(CostMatrix(fp=1, fn=8)))
    model = CatBoost({"loss_function": cost, "eval_metric": cost, "iterations": 200})
    model.fit(train, eval_set=validation, callbacks=[cost])

CatBoost's callbacks see no scores and cannot change weights. Its objectives in Python can: with a weight of 1 this one
grows exactly the trees of the native Logloss, and a fit takes about half as long again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.control import AdaptiveWeight
from adacsl.extras import requires
from adacsl.integrations.boosting import Feedback, Matrix, sigmoid

with requires("catboost"):
    import pandas as pd
    from catboost import CatBoost, Pool


class AdaptiveCost(Feedback):
    """Objective, evaluation metric and callback of one CatBoost run.

    ``eval_metric`` is the cost at T', so that ``early_stopping_rounds`` and ``use_best_model`` go by it.
    ``model.predict(X, prediction_type="RawFormulaVal")`` gives margins: ``sigmoid(margin)`` are the raw scores, to be
    compared with T', and ``controller.correct`` makes them probabilities.

    Parameters
    ----------
    controller : AdaptiveWeight
        What to steer with.
    every : int, default 1
        Adapt after every so many rounds; the cost is measured after each.
    costs : CostMatrix, optional
        Costs of each row of the (last) evaluation set, where they differ.
    patience : int, optional
        Stop after so many rounds without a cheaper one; ``best_round`` names the cheapest.
    """

    no_jit = True  # methods that look at their object cannot be compiled: CatBoost shall not try, nor warn
    _seen: tuple[tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None], ...] = ()

    # loss_function

    def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> NDArray[np.float64]:
        """Return the first and second derivatives of the log-likelihood (CatBoost climbs) of some rows."""
        weight = None if weights is None else np.asarray(weights)
        gradient, hessian = self.derivatives(np.asarray(approxes), np.asarray(targets), weight)
        return np.stack((-gradient, -hessian), axis=1)

    # eval_metric

    def is_max_optimal(self) -> bool:
        """Costs are to be small."""
        return False

    def evaluate(self, approxes: Any, targets: Any, weights: Any) -> tuple[float, float]:
        """Return the cost of the decisions at T', and remember what was seen: the evaluation set comes last."""
        margins, labels = np.array(approxes[0], dtype=np.float64), np.array(targets)
        weight = None if weights is None else np.array(weights)
        self._seen = (*self._seen[-1:], (margins, labels, weight))
        costs = self.controller.costs
        if self.costs is not None and self.costs.n_instances == len(labels):
            costs = self.costs
        return costs.mean(labels, sigmoid(margins) > self.controller.target, sample_weight=weight), 1.0

    def get_final_error(self, error: float, weight: float) -> float:
        """Return the metric from what :meth:`evaluate` returned."""
        return error / weight

    # callback

    def after_iteration(self, info: Any) -> bool:
        """Measure and adapt after a round; False ends the training."""
        if info.iteration == 1:
            self.begin()
        if not self._seen:
            raise RuntimeError("AdaptiveCost saw no scores: give it as eval_metric too, and metric_period=1")
        if len(self._seen) < 2:
            raise RuntimeError("there is nothing to adapt to: give fit(..., eval_set=validation)")
        margins, labels, weight = self._seen[-1]
        self._seen = ()
        self.look(margins, labels, weight)
        return not self.exhausted


# what AdaCSLBoostingClassifier calls


def boost(
    train: Matrix, validation: Matrix, controller: AdaptiveWeight, *, rounds: int, lr: float, seed: int,
    params: dict[str, Any], verbose: bool = False, **settings: Any,
) -> tuple[Any, AdaptiveCost]:  # fmt: skip
    """Boost with objective, metric and callback; settings are those of :class:`AdaptiveCost`."""
    cost = AdaptiveCost(controller, **settings)
    usual = {
        "loss_function": cost, "eval_metric": cost, "iterations": rounds, "learning_rate": lr,
        "random_seed": seed, "verbose": 10 if verbose else False, "allow_writing_files": False,
    }  # fmt: skip
    model = CatBoost(usual | params)
    model.fit(_pool(train), eval_set=_pool(validation), use_best_model=False, callbacks=[cost])
    return model, cost


def boost_plainly(
    train: Matrix, validation: Matrix, look: Callable[[NDArray[Any]], object], *, rounds: int, lr: float, seed: int,
    params: dict[str, Any], patience: int | None, verbose: bool = False,
) -> Any:  # fmt: skip
    """Boost with CatBoost's own cross-entropy and early stopping; ``look`` sees the margins after each round."""
    usual = {
        "loss_function": "Logloss", "iterations": rounds, "learning_rate": lr, "od_type": "Iter", "od_wait": patience,
        "random_seed": seed, "verbose": 10 if verbose else False, "allow_writing_files": False,
    }  # fmt: skip
    model, other = CatBoost(usual | params), _pool(validation)
    model.fit(_pool(train), eval_set=other, use_best_model=False)
    for seen in model.staged_predict(other, prediction_type="RawFormulaVal"):
        look(seen)
    return model


def margins(model: Any, data: Matrix) -> NDArray[np.float64]:
    """Return margins of rows."""
    return np.asarray(model.predict(_pool(data), prediction_type="RawFormulaVal"), dtype=np.float64)


def to_bytes(model: Any, rounds: int) -> bytes:
    """Return the first rounds of a model in CatBoost's own format."""
    model = model.copy()
    model.shrink(min(rounds, model.tree_count_))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.cbm"
        model.save_model(str(path))
        return path.read_bytes()


def from_bytes(content: bytes) -> Any:
    """Read what :func:`to_bytes` wrote."""
    return CatBoost().load_model(blob=content)


def _pool(data: Matrix) -> Any:
    frame = pd.DataFrame(data.x)
    for column in data.categories:
        # a missing or unknown level is a level of its own
        frame[column] = np.nan_to_num(data.x[:, column], nan=-1.0).astype(np.int64)
    return Pool(frame, data.y, weight=data.weight, cat_features=list(data.categories))


__all__ = ["AdaptiveCost"]
