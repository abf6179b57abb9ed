"""What the boosting integrations share: measure validation margins after a round, step the controller, remember.

For our own booster the module of each library has the functions ``boost``, which returns the model with all its rounds
and the callback that watched them, ``margins``, ``to_bytes`` and ``from_bytes``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import check_whole
from adacsl.core.control import AdaptiveWeight, Adjustment, check_settings
from adacsl.core.costs import CostMatrix
from adacsl.core.heldout import sigmoid


class Feedback:
    """The controller's side of one boosting run, whatever the library: one :meth:`look` per round.

    Parameters
    ----------
    controller : AdaptiveWeight
        What to steer with.
    every : int, default 1
        Adapt after every so many rounds; the cost is measured after each.
    costs : CostMatrix, optional
        Costs of each validation row, where they differ.
    patience : int, optional
        Stop after so many rounds without a cheaper one; ``best_round`` names the cheapest.

    Attributes
    ----------
    history : list of Adjustment
        One per round: what was measured after it, and the weight the next round trains with.
    margins : list of array
        What the model said about the validation rows after each round.
    """

    def __init__(
        self,
        controller: AdaptiveWeight,
        every: int = 1,
        *,
        costs: CostMatrix | None = None,
        patience: int | None = None,
    ) -> None:
        check_settings(controller, every, optional=False)
        if patience is not None:
            check_whole("patience", patience)
        self.controller, self.every = controller, every
        self.costs, self.patience = costs, patience
        self.history: list[Adjustment] = []
        self.margins: list[NDArray[Any]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # libraries copy their parameters, but objective, metric and callback of a run must share one controller
        return self

    def begin(self) -> None:
        """Make sure that this is the first training."""
        if self.history:
            raise RuntimeError(
                "this AdaptiveCost has served a training already: make a new one, with the same controller to go on"
            )

    @property
    def best_round(self) -> int:
        """The first of the cheapest rounds so far, counted from 0."""
        if not self.history:
            raise RuntimeError("no round has been measured yet")
        return min(range(len(self.history)), key=lambda i: self.history[i].cost)

    @property
    def exhausted(self) -> bool:
        """Whether the patience has ended."""
        return self.patience is not None and len(self.history) - 1 - self.best_round >= self.patience

    def look(
        self, margins: NDArray[Any], labels: NDArray[Any], sample_weight: NDArray[Any] | None = None
    ) -> Adjustment:
        """Measure the whole validation set after a round; every so often step the controller."""
        scores, adapt = sigmoid(margins), (len(self.history) + 1) % self.every == 0
        step = self.controller.step(scores, labels, costs=self.costs, sample_weight=sample_weight, adapt=adapt)
        self.history.append(step)
        self.margins.append(margins)
        return step

    def row_weights(self, labels: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the weight of each training row: 1 for positives, the controller's for negatives (eq. 9)."""
        weight = np.where(np.asarray(labels) == 1, 1.0, self.controller.weight)
        return weight if sample_weight is None else weight * sample_weight

    def derivatives(
        self, margins: NDArray[Any], labels: NDArray[Any], sample_weight: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return gradient and hessian of the weighted cross-entropy by the margins, for libraries that ask for them."""
        scores, weight = sigmoid(margins), self.row_weights(labels, sample_weight)
        return (scores - labels) * weight, np.maximum(scores * (1.0 - scores), 1e-16) * weight

    def start(self, labels: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> float:
        """Return the margin of the best constant score under the weighted loss, where boosting starts."""
        weight = self.row_weights(labels, sample_weight)
        positive = float(weight[np.asarray(labels) == 1].sum())
        share = min(max(positive / float(weight.sum()), 1e-15), 1.0 - 1e-15)
        return float(np.log(share / (1.0 - share)))


class Matrix(NamedTuple):
    """Rows for a booster: numbers with NaN where they are missing; ``categories`` are columns of whole codes."""

    x: NDArray[np.float64]
    y: Any  # labels; None where there is nothing to learn
    weight: NDArray[Any] | None = None
    categories: tuple[int, ...] = ()


__all__ = ["Feedback", "Matrix", "sigmoid"]
