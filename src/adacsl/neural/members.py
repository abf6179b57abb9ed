"""What is trained jointly: data, networks with their samples, losses and controllers, settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adacsl.adaptive.controller import AdaCSLController
from adacsl.costs.matrix import CostMatrix

LANES = 32
"""Batches of networks trained side by side are padded to a multiple of this: no vector of a CPU or GPU is longer, so
that a number's bits do not depend on what stands beside it."""


@dataclass(frozen=True)
class Data:
    """The training data of all members; ``x`` moves to the training device once and stays there.

    ``y`` is 0 or 1, or for more than two classes the number of each sample's class.
    """

    x: Tensor
    y: Tensor
    sample_weight: Tensor | None = None
    n_classes: int = 2

    def labels_on(self, device: torch.device) -> Data:
        """Return the same with labels and weights on a device; ``x`` stays where it is."""
        weight = None if self.sample_weight is None else self.sample_weight.to(device, torch.float32)
        kind = torch.float32 if self.n_classes == 2 else torch.int64
        return Data(self.x, self.y.to(device, kind), weight, self.n_classes)


@dataclass(frozen=True, eq=False)
class Member:
    """One net: which samples train it, which samples (never seen in training) adapt it, and its loss.

    Parameters
    ----------
    train, validation : arrays of row numbers
        Its own; what others have does not matter to it.
    seed : int
        Of its weights, batches and dropout.
    fold : int
        Its number among the networks of one cross-fit.
    weight : float, or array of shape (K,)
        Of the negatives in the loss (eq. 9), for K > 2 of each class, where no controller adapts it.
    controller : AdaCSLController, optional
        Steers these weights; members of one cross-fit may share one, which then looks at the samples of all of them.
    costs : CostMatrix, optional
        Costs of each sample, for the controller, where they differ.
    every : int, optional
        Adapt after so many batches instead of once per epoch.
    gamma : float
        The focal loss's exponent.
    offset : float, or array of shape (K,)
        What is added to the logits in the loss.
    loss : callable, optional
        Another loss altogether: ``loss(logits, labels)``, element by element; for K > 2 of logits (n, K).
    pools : tuple of arrays, optional
        The samples of each class to draw from in equal numbers, again in each epoch, instead of ``train``.
    smote : bool
        Fill up the rarer classes of each batch of images with mixtures.
    row_weights : array, optional
        What each sample of the data weighs in the loss beside others of its class.
    """

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    seed: int = 0
    fold: int = 0
    weight: float | NDArray[np.float64] = 1.0
    controller: AdaCSLController | None = None
    costs: CostMatrix | None = None
    every: int | None = None
    gamma: float = 0.0
    offset: float | NDArray[np.float64] = 0.0
    loss: Callable[[Tensor, Tensor], Tensor] | None = None
    pools: tuple[NDArray[np.int64], ...] | None = None
    smote: bool = False
    row_weights: NDArray[np.float64] | None = None

    @property
    def negative_weight(self) -> float:
        """Weight of the negatives in the loss of two classes, now."""
        return float(self.weight) if self.controller is None else self.controller.weight

    def class_weights(self, n_classes: int) -> NDArray[np.float64]:
        """Return the weight of each class in the loss, now."""
        if n_classes == 2:
            return np.asarray([self.negative_weight, 1.0])
        own = self.weight if self.controller is None else self.controller.weights
        return np.broadcast_to(np.asarray(own, dtype=np.float64), (n_classes,))


@dataclass(frozen=True)
class Settings:
    """How to train.

    ``weight_average`` is how much of the moving average of the weights each step keeps: epochs are judged, and kept,
    with the averages. 0 averages nothing.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    optimizer: str | Callable[..., torch.optim.Optimizer] = "adamw"
    schedule: str = "cosine"
    device: str = "auto"
    precision: str | int = "auto"
    verbose: bool = False
    trainer: dict[str, Any] = field(default_factory=dict)
    evaluation_batch_size: int = 8192
    gradient_clip: float | None = 1.0
    weight_average: float = 0.0


def mix(*numbers: int) -> int:
    """Return one seed made of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def batch_shape(sizes: Sequence[int], batch_size: int) -> tuple[int, int]:
    """Return how many batches an epoch of these members has, and how many samples the batches are filled up to.

    Examples
    --------
    >>> batch_shape([364, 365], 32)
    (12, 32)
    """
    batches = math.ceil(max(sizes) / batch_size)
    return batches, math.ceil(math.ceil(max(sizes) / batches) / LANES) * LANES
