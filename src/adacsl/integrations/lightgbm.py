"""AdaCSL in LightGBM: an objective that reads the controller's weight, and a callback that steps it.

.. code-block:: python

    cost = AdaCSLCallback(CostMatrix(fp=1, fn=8))
    lgb.train({"objective": cost.objective}, train, 200, valid_sets=[validation], callbacks=[cost])

LightGBM looks at a Dataset's weights when training starts; what ``set_weight`` says between rounds is ignored without a
word (unless there were weights before), hence an objective of our own. It starts where the native one does, at the best
constant score, and with a weight of 1 it grows the native one's trees. With the costs of K classes ``"num_class": K``
goes beside the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import AdaCSLController
from adacsl.base.extras import requires
from adacsl.base.scores import to_logits
from adacsl.integrations.boosting import Feedback, Matrix

with requires("lightgbm"):
    import lightgbm as lgb

INSIDE = (1e-15, 1.0 - 1e-15)
ALL_ROUNDS: dict[str, Any] = {"keep_training_booster": True}
"""Keeps the rounds after the best one of a model that was stopped early; another number of rounds may be kept here."""


class AdaCSLCallback(Feedback):
    """LightGBM callback that adapts the class weights of its ``objective`` after boosting rounds.

    ``booster.predict`` gives margins, as with every custom objective: ``sigmoid(margin)`` are the raw scores, to be
    compared with T', and ``controller.correct`` makes them probabilities (of more than two classes, the softmax of n x
    K margins).

    Parameters
    ----------
    controller : AdaCSLController or CostMatrix
        Adapts the class weights; costs stand for ``AdaCSLController(costs)``.
    every : int, default 1
        Adapt after every so many rounds; the cost is measured after each.
    costs : CostMatrix, optional
        Per-sample costs of the first validation set.
    patience : int, optional
        Stop after so many rounds without a lower cost; ``booster.best_iteration`` is then the round with the lowest.
        Default: no early stopping.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import numpy as np
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.lightgbm import AdaCSLCallback
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> cost = AdaCSLCallback(CostMatrix(fp=1, fn=8))
    >>> train = lgb.Dataset(X[:150], y[:150])
    >>> params = {"objective": cost.objective, "verbose": -1, "num_threads": 1}
    >>> validation = lgb.Dataset(X[150:], y[150:], reference=train)
    >>> booster = lgb.train(params, train, 5, valid_sets=[validation], callbacks=[cost])
    >>> len(cost.history)
    5
    """

    order = 5  # before LightGBM's own logging and early stopping
    before_iteration = False
    _start: Any = None
    _asked = 0  # how often LightGBM has asked for gradients: once a round

    def objective(self, margins: Any, train: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return gradient and hessian, for ``params["objective"]`` of ``lightgbm.train``.

        Parameters
        ----------
        margins : array of shape (n,) or (n, K)
            Raw predictions.
        train : lightgbm.Dataset
            The training data.

        Returns
        -------
        tuple of arrays
            Gradient and hessian.
        """
        if self._start is None and train.get_init_score() is not None:
            self._start = 0.0
        return self.sklearn_objective(train.get_label(), margins, train.get_weight())

    def sklearn_objective(self, labels: Any, margins: Any, weight: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return gradient and hessian, for ``LGBMClassifier(objective=...)``.

        Parameters
        ----------
        labels : array of shape (n,)
            Class numbers.
        margins : array of shape (n,) or (n, K)
            Raw predictions.
        weight : array of shape (n,) or None
            How much each sample counts.

        Returns
        -------
        tuple of arrays
            Gradient and hessian.
        """
        self._asked += 1
        if self._asked > len(self.history) + 1:
            raise RuntimeError("the objective is used without its callback: give callbacks=[cost] too")
        if self._start is None:
            self._start = self.start(labels, weight)
        gradient, hessian = self.derivatives(np.asarray(margins) + self._start, labels, weight)
        k = self.n_classes  # LightGBM's own step is shorter where there are more classes
        return gradient, hessian if k == 2 else hessian * (k / (k - 1))

    def metric(self, margins: Any, data: Any) -> tuple[str, float, bool]:
        """Return the cost at the target threshold, for ``feval`` of ``lightgbm.train``, its log and early stopping.

        Parameters
        ----------
        margins : array of shape (n,) or (n, K)
            Raw predictions.
        data : lightgbm.Dataset
            The validation data.

        Returns
        -------
        tuple
            Name, value, and whether greater values are better: ("cost", value, False).
        """
        moved = np.asarray(margins) + (0.0 if self._start is None else self._start)
        return "cost", self.cost_of(moved, data.get_label(), data.get_weight()), False

    def __call__(self, env: Any) -> None:
        """Measure and adapt after a round."""
        if self._start is None:
            raise RuntimeError(
                "AdaCSLCallback is a callback and an objective: give params={'objective': cost.objective} too "
                "(LGBMClassifier: objective=cost.sklearn_objective)"
            )
        if env.iteration == env.begin_iteration:
            self.begin()
            _add_to_last_trees(env.model, np.atleast_1d(self._start))
        seen = _validation_margins(env.model)
        if not seen:
            raise RuntimeError(
                "validation data is missing: give valid_sets=[validation] (LGBMClassifier: eval_X and eval_y)"
            )
        margins, data = seen[0]
        self.look(margins + self._start, data.get_label(), data.get_weight())
        if self.exhausted:
            raise lgb.EarlyStopException(self.best_round, [])


def _validation_margins(model: Any) -> list[tuple[NDArray[np.float64], Any]]:
    """Return margins and data of each validation set: what LightGBM keeps of them is shown to metrics only."""
    seen: list[tuple[NDArray[np.float64], Any]] = []

    def look(margins: NDArray[np.float64], data: Any) -> tuple[str, float, bool]:
        seen.append((np.array(margins), data))
        return "cost", 0.0, False

    model.eval_valid(feval=look)
    return seen


def _add_to_last_trees(model: Any, amounts: NDArray[np.float64]) -> None:
    """Put the start into the leaves of the first round's trees, where the native objective keeps it."""
    first = model.num_trees() - len(amounts)
    for tree, amount in enumerate(amounts.tolist(), first):
        leaves = model.dump_model(start_iteration=first // len(amounts), num_iteration=1)
        for leaf in range(leaves["tree_info"][tree - first]["num_leaves"]):
            model.set_leaf_output(tree, leaf, model.get_leaf_output(tree, leaf) + amount)


# what AdaCSLClassifier calls


def boost(
    train: Matrix, validation: Matrix, controller: AdaCSLController, *, rounds: int, learning_rate: float, seed: int,
    params: dict[str, Any], verbose: bool = False, **settings: Any,
) -> tuple[Any, AdaCSLCallback]:  # fmt: skip
    """Boost with objective and callback; settings are those of :class:`AdaCSLCallback`."""
    cost = AdaCSLCallback(controller, **settings)
    usual, own, other = _prepared(train, validation, learning_rate, seed, verbose=verbose)
    callbacks: list[Any] = [cost, *([lgb.log_evaluation(10)] if verbose else [])]
    feval, objective = cost.metric if verbose else None, {"objective": cost.objective} | _many(train)
    model = lgb.train(
        usual | objective | params, own, rounds, valid_sets=[other], feval=feval, callbacks=callbacks, **ALL_ROUNDS
    )
    return model, cost


def boost_plainly(
    train: Matrix, validation: Matrix, look: Callable[[NDArray[Any]], object], *, rounds: int, learning_rate: float,
    seed: int,
    params: dict[str, Any], patience: int | None, verbose: bool = False,
) -> Any:  # fmt: skip
    """Boost with LightGBM's own cross-entropy and early stopping; ``look`` sees the margins after each round."""
    usual, own, other = _prepared(train, validation, learning_rate, seed, verbose=verbose)
    # of its own objectives LightGBM shows probabilities, which may round to 1
    callbacks: list[Any] = [lambda env: look(to_logits(_validation_margins(env.model)[0][0].clip(*INSIDE)))]
    callbacks += [lgb.early_stopping(patience, verbose=verbose)] if patience else []
    native = {"objective": "binary", "metric": "binary_logloss"}
    if train.n_classes > 2:
        native = {"objective": "multiclass", "metric": "multi_logloss"} | _many(train)
    return lgb.train(usual | native | params, own, rounds, valid_sets=[other], callbacks=callbacks, **ALL_ROUNDS)


def _least_rows(rows: int) -> int:
    """Return how many rows a leaf has at least: LightGBM's 20 leave nothing to split on small tables."""
    return min(20, max(1, rows // 10))


def _many(data: Matrix) -> dict[str, Any]:
    return {} if data.n_classes == 2 else {"num_class": data.n_classes}


def _prepared(
    train: Matrix, validation: Matrix, learning_rate: float, seed: int, *, verbose: bool
) -> tuple[dict[str, Any], Any, Any]:
    """Return parameters and both data sets; the validation rows have the bins of the training rows."""
    usual = {
        "learning_rate": learning_rate, "seed": seed, "deterministic": True, "verbosity": 1 if verbose else -1,
        "min_data_in_leaf": _least_rows(len(train.y)), "feature_pre_filter": False,
    }  # fmt: skip
    about = {key: usual[key] for key in ("verbosity", "feature_pre_filter")}
    own = lgb.Dataset(
        train.x, train.y, weight=train.weight, params=about, categorical_feature=list(train.categories) or "auto"
    )
    return usual, own, lgb.Dataset(validation.x, validation.y, weight=validation.weight, reference=own)


def margins(model: Any, data: Matrix) -> NDArray[np.float64]:
    """Return margins of rows."""
    return margins_of_each([model], data)[0]


def margins_of_each(models: Sequence[Any], data: Matrix) -> list[NDArray[np.float64]]:
    """Return each model's margins of the same rows."""
    return [np.asarray(model.predict(data.x, raw_score=True), dtype=np.float64) for model in models]


def importances(model: Any, columns: int) -> NDArray[np.float64]:
    """Return what each of so many columns has gained, in the library's own unit."""
    return np.asarray(model.feature_importance("gain"), dtype=np.float64)[:columns]


def to_bytes(model: Any, rounds: int) -> bytes:
    """Return the first rounds of a model as LightGBM's text."""
    return str(model.model_to_string(num_iteration=rounds)).encode()


def from_bytes(content: bytes) -> Any:
    """Read what :func:`to_bytes` wrote."""
    return lgb.Booster(model_str=content.decode())


__all__ = ["AdaCSLCallback"]
