"""Shared by the boosting integrations: measure validation margins after a round, step the controller.

For our own booster the module of each library has the functions ``boost``, which returns the model with all its rounds
and the callback that watched them, ``margins``, ``margins_of_each``, ``to_bytes`` and ``from_bytes``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import AdaCSLController, ControllerStep, callback_controller
from adacsl.base.arrays import check_whole
from adacsl.base.scores import to_probabilities
from adacsl.costs.matrix import CostMatrix, no_costs

__all__ = ["Feedback", "Matrix", "class_codes"]


class Feedback:
    """Measurements and adaptation in one boosting run of any library: one call of :meth:`look` per round.

    Parameters
    ----------
    controller : AdaCSLController or CostMatrix
        Adapts the class weights; costs stand for the controller ``AdaCSLController(costs)``.
    every : int, default 1
        Adapt after every so many rounds; the cost is measured after each.
    costs : CostMatrix, optional
        Costs of each validation row, where they differ: each is decided at its own threshold.
    patience : int, optional
        Stop after so many rounds without a cheaper one; ``best_round`` names the cheapest.

    Attributes
    ----------
    history : list of ControllerStep
        One per round: what was measured after it, and the weight the next round trains with. Rounds of more than two
        classes after which nothing may move have no multipliers, but NaN.
    margins : list of array
        Margins of the validation samples after each round: one number per sample, or K of more than two classes.
    """

    def __init__(
        self,
        controller: AdaCSLController | CostMatrix,
        every: int = 1,
        *,
        costs: CostMatrix | None = None,
        patience: int | None = None,
    ) -> None:
        self.controller: AdaCSLController = callback_controller(controller, every, optional=False)
        if patience is not None:
            check_whole("patience", patience)
        if not (costs is None or isinstance(costs, CostMatrix)):
            raise no_costs(costs)
        self.every, self.costs, self.patience = every, costs, patience
        self.history: list[Any] = []
        self.margins: list[NDArray[Any]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # libraries copy their parameters, but objective, metric and callback of a run must share one controller
        return self

    def begin(self) -> None:
        """Make sure that this is the first training."""
        if self.history:
            raise RuntimeError(
                "this AdaCSLCallback was used in a training already: make a new one; the same controller continues"
            )

    @property
    def best_round(self) -> int:
        """The first round with the lowest cost so far, counted from 0."""
        if not self.history:
            raise RuntimeError("no round has been measured yet")
        return min(range(len(self.history)), key=lambda i: self.history[i].cost)

    @property
    def exhausted(self) -> bool:
        """Whether the patience has ended."""
        return self.patience is not None and len(self.history) - 1 - self.best_round >= self.patience

    def look(self, margins: NDArray[Any], labels: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> Any:
        """Measure the whole validation set after a round; every so often step the controller."""
        adapt = (len(self.history) + 1) % self.every == 0
        if self.n_classes > 2 and (not adapt or self.controller.bounds == (1.0, 1.0)):
            step: Any = self._unmoved(self.cost_of(margins, labels, sample_weight, self.costs))
        else:
            scores = to_probabilities(margins)
            step = self.controller.step(scores, labels, costs=self.costs, sample_weight=sample_weight, adapt=adapt)
        self.history.append(step)
        self.margins.append(margins)
        return step

    def _unmoved(self, cost: float) -> ControllerStep:
        """Return a step of more than two classes that changes no weight, without a search for multipliers."""
        lambdas, weights = (tuple(values.tolist()) for values in (self.controller.lambdas, self.controller.weights))
        unknown = (math.nan,) * self.n_classes
        return ControllerStep(cost, converged=True, lambdas=lambdas, multipliers=unknown, weights=weights)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.controller.costs.n_classes

    def class_weights(self, labels: Any = None, sample_weight: Any = None) -> NDArray[np.float64]:
        """Return the weights of more than two classes, such that those of the training rows have a mean of 1.

        How strongly a booster regularises depends on the sum of all weights.
        """
        weights = self.controller.weights
        if labels is None:
            return weights
        return np.asarray(weights / np.average(weights[class_codes(labels, self.n_classes)], weights=sample_weight))

    def row_weights(self, labels: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the weight of each training row: 1 for positives, the controller's for negatives (eq. 9).

        Rows of more classes have that of their class.
        """
        codes = class_codes(labels, self.n_classes)
        if self.n_classes == 2:
            weight = np.where(codes == 1, 1.0, self.controller.weight)
        else:
            weight = self.class_weights(codes, sample_weight)[codes]
        return weight if sample_weight is None else weight * sample_weight

    def cost_of(
        self, margins: NDArray[Any], labels: NDArray[Any], sample_weight: Any = None, costs: CostMatrix | None = None
    ) -> float:
        """Return the mean cost of decisions from raw scores: at the target threshold, or by expected cost.

        Rows with costs of their own are decided at their own thresholds.
        """
        own = self.controller.costs if costs is None else costs
        return own.mean(labels, self.decide(margins, costs), sample_weight=sample_weight)

    def decide(self, margins: NDArray[Any], costs: CostMatrix | None = None) -> NDArray[np.int64]:
        """Return the decision for each sample from its raw margins.

        Parameters
        ----------
        margins : array of shape (n,) or (n, K)
            The booster's raw output, before any sigmoid or softmax.
        costs : CostMatrix, optional
            Per-sample costs of these samples.

        Returns
        -------
        array of shape (n,)
            0 or 1; of K classes the class of least expected cost.
        """
        return np.asarray(self.controller.decide(to_probabilities(np.asarray(margins)), costs))

    def derivatives(
        self, margins: NDArray[Any], labels: NDArray[Any], sample_weight: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return gradient and hessian of the weighted cross-entropy by the margins, for libraries that ask for them.

        Of K classes, n x K, the hessian is its diagonal.
        """
        scores, weight = to_probabilities(margins), self.row_weights(labels, sample_weight)
        truth = np.asarray(labels)
        if scores.ndim == 2:
            weight, truth = weight[:, None], class_codes(truth, self.n_classes)[:, None] == np.arange(self.n_classes)
        return (scores - truth) * weight, np.maximum(scores * (1.0 - scores), 1e-16) * weight

    def start(self, labels: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> Any:
        """Return the margin (or K) of the best constant score under the weighted loss, where boosting starts."""
        weight, codes = self.row_weights(labels, sample_weight), np.asarray(labels)
        if self.n_classes > 2:
            sums = np.bincount(class_codes(codes, self.n_classes), weight, self.n_classes)
            return np.log(np.maximum(sums / sums.sum(), 1e-15))
        positive = float(weight[codes == 1].sum())
        share = min(max(positive / float(weight.sum()), 1e-15), 1.0 - 1e-15)
        return float(np.log(share / (1.0 - share)))


def class_codes(labels: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """Return labels as class numbers; raise where one is not a whole number from 0 to K - 1."""
    with np.errstate(invalid="ignore"):  # NaN is refused below
        codes = np.asarray(labels).astype(np.int64)
    if np.any(codes != labels) or np.any((codes < 0) | (codes >= n_classes)):
        raise ValueError(
            f"with costs of {n_classes} classes labels must be the whole numbers 0 to {n_classes - 1}, in the order of "
            f"the matrix; got {np.unique(labels)[:10].tolist()}"
        )
    return codes


class Matrix(NamedTuple):
    """Rows for a booster: numbers with NaN where they are missing; ``categories`` are columns of whole codes."""

    x: NDArray[np.float64]
    y: Any  # labels; None where there is nothing to learn
    weight: NDArray[Any] | None = None
    categories: tuple[int, ...] = ()
    n_classes: int = 2
