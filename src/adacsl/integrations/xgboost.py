"""AdaCSL in XGBoost: one callback; the native objective is kept.

.. code-block:: python

    cost = AdaCSLCallback(CostMatrix(fp=1, fn=8), train=dtrain, validation=dval)
    xgb.train({"objective": "binary:logistic"}, dtrain, 200, callbacks=[cost])

XGBoost reads a DMatrix's weights again in every round, so the callback changes them in place. With the costs of K
classes the objective is ``{"objective": "multi:softprob", "num_class": K}``; of the scores ``controller.correct`` makes
probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import AdaCSLController
from adacsl.base.extras import requires
from adacsl.base.scores import sigmoid
from adacsl.costs.matrix import CostMatrix
from adacsl.integrations.boosting import Feedback, Matrix

with requires("xgboost"):
    import xgboost as xgb

LARGEST = float(np.finfo(np.float32).max)
OBJECTIVES = ("binary:logistic", "binary:logitraw")
MANY = ("multi:softprob", "multi:softmax")


class AdaCSLCallback(Feedback, xgb.callback.TrainingCallback):
    """XGBoost callback that adapts the weights of the training matrix between boosting rounds.

    The cost of the validation decisions is added to the evaluation log as ``<name>-cost``, so that
    ``xgb.callback.EarlyStopping(rounds=50, metric_name="cost", data_name=name)`` behind this callback works on it.

    Parameters
    ----------
    controller : AdaCSLController or CostMatrix
        Adapts the class weights; costs stand for ``AdaCSLController(costs)``.
    every : int, default 1
        Adapt after every so many rounds; the cost is measured after each.
    train : xgboost.DMatrix, optional
        The matrix given to ``xgb.train``, with its labels. Its weights are changed in place (weights it has are sample
        weights, multiplied) and put back when training ends. Needed by ``xgb.train``.
    validation : xgboost.DMatrix, optional
        The samples to measure on, with their labels.
    costs : CostMatrix, optional
        Per-sample costs of the validation samples.
    patience : int, optional
        Stop after so many rounds without a lower cost; ``booster[: cost.best_round + 1]`` is the model up to the round
        with the lowest. Default: no early stopping.
    name : str, default "validation"
        Name of the logged cost.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost as xgb
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.xgboost import AdaCSLCallback
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> train, validation = xgb.DMatrix(X[:150], y[:150]), xgb.DMatrix(X[150:], y[150:])
    >>> cost = AdaCSLCallback(CostMatrix(fp=1, fn=8), train=train, validation=validation)
    >>> params = {"objective": "binary:logistic", "nthread": 1}
    >>> booster = xgb.train(params, train, 5, callbacks=[cost], verbose_eval=False)
    >>> len(cost.history)
    5
    """

    def __init__(
        self,
        controller: AdaCSLController | CostMatrix,
        every: int = 1,
        *,
        train: xgb.DMatrix | None = None,
        validation: xgb.DMatrix | None = None,
        costs: CostMatrix | None = None,
        patience: int | None = None,
        name: str = "validation",
    ) -> None:
        super().__init__(controller, every, costs=costs, patience=patience)
        self.train: Any = train  # checked before training
        self.validation, self.name = validation, name

    def before_training(self, model: Any) -> Any:
        """Set the first weights."""
        self.begin()
        for name, matrix in (("train", self.train), ("validation", self.validation)):
            if not isinstance(matrix, xgb.DMatrix):
                raise TypeError(
                    f"AdaCSLCallback needs {name}=DMatrix, as given to xgb.train, got {matrix!r}; XGBClassifier does "
                    "not expose its matrices: use adacsl.AdaCSLClassifier(learner='xgboost') in its place"
                )
        objective = json.loads(model.save_config())["learner"]["objective"]["name"]
        expected = OBJECTIVES if self.n_classes == 2 else MANY
        if objective not in expected:
            raise ValueError(
                f"with costs of {self.n_classes} classes the objective must be one of "
                f"{', '.join(map(repr, expected))}, got {objective!r}"
            )
        self._labels, self._own = _labels_and_weights(self.train)
        self._measured = _labels_and_weights(self.validation)
        self._put_weights()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Measure, adapt, log; True ends the training."""
        before = self.controller.weights
        step = self.look(model.predict(self.validation, output_margin=True), *self._measured)
        evals_log.setdefault(self.name, {}).setdefault("cost", []).append(step.cost)
        if np.any(self.controller.weights != before):
            self._put_weights()
        return self.exhausted

    def after_training(self, model: Any) -> Any:
        """Give the matrix its own weights back."""
        self.train.set_weight(np.ones(len(self._labels)) if self._own is None else self._own)
        return model

    def _put_weights(self) -> None:
        self.train.set_weight(self.row_weights(self._labels, self._own))


def _labels_and_weights(matrix: Any) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    labels, weights = matrix.get_label(), matrix.get_weight()
    if labels.size != matrix.num_row():
        raise ValueError(f"the matrix has {matrix.num_row()} rows and {labels.size} labels: give DMatrix(X, label=y)")
    return labels, weights if weights.size else None


# what AdaCSLClassifier calls


def boost(
    train: Matrix, validation: Matrix, controller: AdaCSLController, *, rounds: int, learning_rate: float, seed: int,
    params: dict[str, Any], verbose: bool = False, **settings: Any,
) -> tuple[Any, AdaCSLCallback]:  # fmt: skip
    """Boost with the callback; settings are those of :class:`AdaCSLCallback`."""
    own, other = _matrix(train), _matrix(validation)
    cost = AdaCSLCallback(controller, train=own, validation=other, **settings)
    usual = _native(train) | {
        "eta": learning_rate,
        "seed": seed,
        "verbosity": int(verbose),
        "disable_default_eval_metric": True,
    }
    usual |= _far_start(cost.start(train.y, train.weight))
    callbacks: list[Any] = [cost, *([xgb.callback.EvaluationMonitor(period=10)] if verbose else [])]
    # among the evals the validation matrix's margins are cached: each round adds one tree
    seen: dict[str, Any] = {"evals": [(other, "validation")], "callbacks": callbacks, "verbose_eval": False}
    return xgb.train(usual | params, own, rounds, **seen), cost


def boost_plainly(
    train: Matrix, validation: Matrix, look: Callable[[NDArray[Any]], object], *, rounds: int, learning_rate: float,
    seed: int,
    params: dict[str, Any], patience: int | None, verbose: bool = False,
) -> Any:  # fmt: skip
    """Boost with XGBoost's own cross-entropy and early stopping; ``look`` sees the margins after each round."""
    own, other = _matrix(train), _matrix(validation)

    class Looking(xgb.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            look(model.predict(other, output_margin=True))
            return False

    metric = {"eval_metric": "logloss" if train.n_classes == 2 else "mlogloss"}
    usual = _native(train) | metric | {"eta": learning_rate, "seed": seed}
    return xgb.train(
        usual | {"verbosity": int(verbose)} | params, own, rounds, evals=[(other, "validation")],
        callbacks=[Looking()], early_stopping_rounds=patience, verbose_eval=10 if verbose else False,
    )  # fmt: skip


def _native(data: Matrix) -> dict[str, Any]:
    """Return XGBoost's own cross-entropy."""
    k = data.n_classes
    return {"objective": "binary:logistic"} if k == 2 else {"objective": "multi:softprob", "num_class": k}


def _far_start(margin: Any) -> dict[str, float]:
    """Return where to start if costs are so unequal that XGBoost's own estimate would round to 0 or 1."""
    if np.ndim(margin):  # of more than two classes a small share is a small number, not far from 1
        return {}
    share = float(sigmoid(np.asarray(margin)))
    inside = min(max(share, 1e-6), 1.0 - 1e-6)
    return {} if share == inside else {"base_score": inside}


def margins(model: Any, data: Matrix) -> NDArray[np.float64]:
    """Return margins of rows."""
    return margins_of_each([model], data)[0]


def margins_of_each(models: Sequence[Any], data: Matrix) -> list[NDArray[np.float64]]:
    """Return each model's margins of the same rows."""
    rows = _matrix(data)
    return [
        np.asarray(model.predict(rows, output_margin=True, validate_features=False), dtype=np.float64)
        for model in models
    ]


def importances(model: Any, columns: int) -> NDArray[np.float64]:
    """Return what each of so many columns has gained, in the library's own unit."""
    gained = model.get_score(importance_type="total_gain")
    return np.asarray([gained.get(f"f{i}", 0.0) for i in range(columns)])


def to_bytes(model: Any, rounds: int) -> bytes:
    """Return the first rounds of a model as UBJSON."""
    return bytes(model[:rounds].save_raw("ubj"))


def from_bytes(content: bytes) -> Any:
    """Read what :func:`to_bytes` wrote."""
    model = xgb.Booster()
    model.load_model(bytearray(content))
    return model


def _matrix(data: Matrix) -> Any:
    types = ["c" if i in data.categories else "q" for i in range(data.x.shape[1])]
    x = data.x
    if data.y is None and not hasattr(x, "toarray"):  # XGBoost refuses what is infinite in single precision
        x = np.clip(x, -LARGEST, LARGEST)
    return xgb.DMatrix(x, data.y, weight=data.weight, feature_types=types, enable_categorical=True)


__all__ = ["AdaCSLCallback"]
