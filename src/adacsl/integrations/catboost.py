"""AdaCSL in CatBoost: one object in three places.

.. code-block:: python

    cost = AdaCSLCallback(CostMatrix(fp=1, fn=8))
    model = CatBoost({"loss_function": cost, "eval_metric": cost, "iterations": 200})
    model.fit(train, eval_set=validation, callbacks=[cost])

CatBoost's callbacks see no scores and cannot change weights. Its objectives in Python can: with a weight of 1 this one
grows exactly the trees of the native Logloss, and a fit takes about half as long again. With the costs of K classes
``"classes_count": K`` goes beside it, and ``"bootstrap_type": "Bayesian"``, the default of the native MultiClass: with
weights of 1 the trees are its trees. CatBoost then asks for one row at a time, about 10 microseconds each.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import AdaCSLController
from adacsl.base.extras import requires
from adacsl.integrations.boosting import Feedback, Matrix

with requires("catboost"):
    import pandas as pd
    from catboost import CatBoost, Pool


FAR_BELOW = 35.0
"""Margin of an impossible class below the others: a probability of 1e-15."""

FEW_ROWS = 500
"""With fewer rows to predict a data frame takes longer than all trees."""

TOLD_APART = "adacsl.classes"
"""Metadata of a model with its classes and their number, which CatBoost omits after an objective in Python."""


class AdaCSLCallback(Feedback):
    """CatBoost objective, evaluation metric and callback of one run, whose class weights a controller adapts.

    ``eval_metric`` is the cost at T', so that ``early_stopping_rounds`` and ``use_best_model`` follow it.
    ``model.predict(X, prediction_type="RawFormulaVal")`` gives margins: ``sigmoid(margin)`` are the raw scores, to be
    compared with T', and ``controller.correct`` makes them probabilities (of more than two classes, the softmax of n x
    K margins).

    Parameters
    ----------
    controller : AdaCSLController or CostMatrix
        Adapts the class weights; costs stand for ``AdaCSLController(costs)``.
    every : int, default 1
        Adapt after every so many rounds; the cost is measured after each.
    costs : CostMatrix, optional
        Per-sample costs of the (last) evaluation set.
    patience : int, optional
        Stop after so many rounds without a lower cost; ``best_round`` is the round with the lowest. Default: no early
        stopping.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.catboost import AdaCSLCallback
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> from catboost import CatBoost
    >>> cost = AdaCSLCallback(CostMatrix(fp=1, fn=8))
    >>> params = {"loss_function": cost, "eval_metric": cost, "iterations": 5, "verbose": 0}
    >>> model = CatBoost(params | {"thread_count": 1, "allow_writing_files": False})
    >>> model = model.fit(X[:150], y[:150], eval_set=(X[150:], y[150:]), callbacks=[cost])
    >>> len(cost.history)
    5
    """

    present: NDArray[np.int64] | None = None
    """The classes with training rows, where not all have some: CatBoost counts these alone."""
    truth: NDArray[np.int64] | None = None
    """Labels of the evaluation set: CatBoost takes a class that it does not know for another."""
    _known: list[float] | None = None
    _rows: tuple[Any, Any] | None = None  # labels and weights of the training set, which CatBoost shows after a round
    no_jit = True  # methods that use self cannot be compiled: CatBoost must neither try nor warn
    _seen: tuple[tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None], ...] = ()

    # loss_function

    def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> NDArray[np.float64]:
        """Return the first and second derivatives of the log-likelihood (CatBoost climbs) of some rows."""
        weight = None if weights is None else np.asarray(weights)
        gradient, hessian = self.derivatives(np.asarray(approxes), np.asarray(targets), weight)
        return np.stack((-gradient, -hessian), axis=1)

    def calc_ders_multi(self, approxes: Any, target: float, weight: float) -> tuple[list[float], list[list[float]]]:
        """Return gradient and hessian of the log-likelihood of one row of more than two classes."""
        # plain numbers: a row is too short for arrays to be faster
        approxes = [float(margin) for margin in approxes]
        top, own = max(approxes), int(target)
        powers = [math.exp(margin - top) for margin in approxes]
        weight *= self._weights[own]
        share = weight / sum(powers)
        scores = [power * share for power in powers]
        gradient = [-score for score in scores]
        gradient[own] += weight
        parts = [score / weight for score in scores]
        hessian = [[score * part for part in parts] for score in scores]
        for i, score in enumerate(scores):
            hessian[i][i] -= score
        return gradient, hessian

    @property
    def _weights(self) -> list[float]:
        """The weights of the classes that CatBoost knows, as they are since the last step."""
        if self._known is None:
            self._known = self.class_weights(*(self._rows or ()))[self._codes].tolist()
        return self._known

    @property
    def _codes(self) -> NDArray[np.int64]:
        return np.arange(self.n_classes) if self.present is None else self.present

    # eval_metric

    def is_max_optimal(self) -> bool:
        """Return False: lower costs are better."""
        return False

    def evaluate(self, approxes: Any, targets: Any, weights: Any) -> tuple[float, float]:
        """Return the cost at the target threshold, and keep the margins: the evaluation set comes last."""
        margins, labels = np.array(approxes, dtype=np.float64).T, np.array(targets)
        if self.n_classes == 2:
            margins = margins[:, 0].copy()
        elif margins.shape[1] != len(self._codes):
            raise ValueError(
                f"the costs are those of {self.n_classes} classes, but CatBoost has {margins.shape[1]}: give "
                "classes_count, and at least one training row of every class"
            )
        else:
            labels = self._codes[labels.astype(np.int64)]
            margins = _spread(margins, self._codes, self.n_classes)
        weight = None if weights is None else np.array(weights)
        self._seen = (*self._seen[-1:], (margins, labels, weight))
        own = self.costs is not None and self.costs.n_instances == len(labels)
        return self.cost_of(margins, labels, weight, self.costs if own else None), 1.0

    def get_final_error(self, error: float, weight: float) -> float:
        """Return the metric from what :meth:`evaluate` returned."""
        return error / weight

    # callback

    def after_iteration(self, info: Any) -> bool:
        """Measure and adapt after a round; False ends the training."""
        if info.iteration == 1:
            self.begin()
        if not self._seen:
            raise RuntimeError("AdaCSLCallback received no scores: give it as eval_metric too, and metric_period=1")
        if len(self._seen) < 2:
            raise RuntimeError("there is nothing to adapt to: give fit(..., eval_set=validation)")
        margins, labels, weight = self._seen[-1]
        labels = labels if self.truth is None else self.truth
        self._rows, self._seen = self._seen[0][1:], ()
        self.look(margins, labels, weight)
        self._known = None
        return not self.exhausted


# what AdaCSLClassifier calls


def boost(
    train: Matrix, validation: Matrix, controller: AdaCSLController, *, rounds: int, learning_rate: float, seed: int,
    params: dict[str, Any], verbose: bool = False, **settings: Any,
) -> tuple[Any, AdaCSLCallback]:  # fmt: skip
    """Boost with objective, metric and callback; settings are those of :class:`AdaCSLCallback`."""
    cost = AdaCSLCallback(controller, **settings)
    usual = {
        "loss_function": cost, "eval_metric": cost, "iterations": rounds, "learning_rate": learning_rate,
        "random_seed": seed, "verbose": 10 if verbose else False, "allow_writing_files": False,
    }  # fmt: skip
    usual |= {} if train.n_classes == 2 else {"classes_count": train.n_classes, "bootstrap_type": "Bayesian"}
    if train.n_classes > 2 and controller.bounds == (1.0, 1.0):  # the weights are fixed: the native objective is faster
        usual |= {"loss_function": "MultiClass", "eval_metric": "MultiClass"}
        model = CatBoost(usual | params).fit(_pool(train._replace(weight=cost.row_weights(train.y, train.weight))))
        for seen in _staged(model, _pool(validation)):
            cost.look(seen, validation.y, validation.weight)
            if cost.exhausted:
                break
        return model, cost
    if train.n_classes > 2:
        cost.present, cost.truth = np.unique(train.y), validation.y
    model = CatBoost(usual | params)
    model.fit(_pool(train), eval_set=_pool(validation), use_best_model=False, callbacks=[cost])
    if cost.present is not None and len(cost.present) < train.n_classes:
        model.get_metadata()[TOLD_APART] = json.dumps([cost.present.tolist(), train.n_classes])
    return model, cost


def boost_plainly(
    train: Matrix, validation: Matrix, look: Callable[[NDArray[Any]], object], *, rounds: int, learning_rate: float,
    seed: int,
    params: dict[str, Any], patience: int | None, verbose: bool = False,
) -> Any:  # fmt: skip
    """Boost with CatBoost's own cross-entropy and early stopping; ``look`` sees the margins after each round."""
    usual = {
        "loss_function": "Logloss", "iterations": rounds, "learning_rate": learning_rate, "od_type": "Iter",
        "od_wait": patience,
        "random_seed": seed, "verbose": 10 if verbose else False, "allow_writing_files": False,
    }  # fmt: skip
    if train.n_classes > 2:
        usual |= {"loss_function": "MultiClass", "classes_count": train.n_classes}
    model, other = CatBoost(usual | params), _pool(validation)
    model.fit(_pool(train), eval_set=other, use_best_model=False)
    staged = model.staged_predict(other, prediction_type="RawFormulaVal")
    for seen in staged if train.n_classes == 2 else _staged(model, other):
        look(seen)
    return model


def _staged(model: Any, pool: Any) -> Iterator[NDArray[np.float64]]:
    """Yield the margins after each round; CatBoost's own way fails where a class had no training rows."""
    total: Any = 0.0
    for tree in range(model.tree_count_):
        total = total + model.predict(pool, prediction_type="RawFormulaVal", ntree_start=tree, ntree_end=tree + 1)
        yield _finite(total)


def _spread(margins: NDArray[Any], codes: Any, n_classes: int) -> NDArray[np.float64]:
    """Return margins of all classes, from those of some."""
    every = np.full((len(margins), n_classes), -np.inf)
    every[:, codes] = margins
    return _finite(every)


def _finite(margins: NDArray[Any]) -> NDArray[np.float64]:
    """Return margins with a low number for minus infinity: a class without training rows."""
    least = np.min(margins, axis=-1, where=np.isfinite(margins), initial=np.inf, keepdims=True)
    return np.asarray(np.where(np.isneginf(margins), least - FAR_BELOW, margins), dtype=np.float64)


def margins(model: Any, data: Matrix) -> NDArray[np.float64]:
    """Return margins of rows."""
    return margins_of_each([model], data)[0]


def margins_of_each(models: Sequence[Any], data: Matrix) -> list[NDArray[np.float64]]:
    """Return each model's margins of the same rows."""
    pool = _pool(data)
    return [_margins(model, pool) for model in models]


def _margins(model: Any, pool: Any) -> NDArray[np.float64]:
    result = np.asarray(model.predict(pool, prediction_type="RawFormulaVal"), dtype=np.float64)
    told = model.get_metadata().get(TOLD_APART)
    return _finite(result) if told is None else _spread(result, *json.loads(told))


def importances(model: Any, columns: int) -> NDArray[np.float64]:
    """Return what each of so many columns has gained, in the library's own unit."""
    return np.asarray(model.get_feature_importance(type="PredictionValuesChange"), dtype=np.float64)[:columns]


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
    if hasattr(data.x, "toarray"):  # sparse, of a pipeline
        return Pool(data.x, data.y, weight=data.weight)
    categories = list(data.categories)
    # a missing or unknown level is a level of its own
    codes = np.nan_to_num(data.x[:, categories], nan=-1.0).astype(np.int64)
    if data.y is None and len(data.x) < FEW_ROWS:
        cells = data.x.astype(object)
        cells[:, categories] = codes
        return Pool(cells, cat_features=categories)
    frame = pd.DataFrame(data.x)
    for place, column in enumerate(categories):
        frame[column] = codes[:, place]
    return Pool(frame, data.y, weight=data.weight, cat_features=categories)


__all__ = ["AdaCSLCallback"]
