"""Selection of the epoch whose weights, or logits, are kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adacsl.adaptive.held_out import BLIND, HeldOut
from adacsl.costs.matrix import CostMatrix
from adacsl.neural.members import Member

NONE = np.empty(0, dtype=np.int64)


class Keeper:
    """Keeps one epoch of one member: that of least held-out cost under one decision rule, or the last.

    Parameters
    ----------
    member : Member
        Whose epochs it looks at.
    held : HeldOut
        Judges them.
    shift : float, default 0, or array of shape (K,), or that of each of its samples
        What turns the network's logits into log-odds (for K > 2 logarithms, up to a constant) of the probability.
    unweighted : bool
        Undo the weights of each epoch as well, lambda included.
    patience : int, optional
        It stops looking after so many epochs without one of lower cost; training ends when all keepers have.
    watch : array of row numbers, optional
        Keep the logits of these samples instead of weights.
    sample : array of row numbers, optional
        Training samples whose cost is shown in the history; ``costs`` are those of all samples.

    Attributes
    ----------
    history : list of dict
        One row per epoch: lambda and weight it was trained with, threshold and costs that were measured after it; for
        K > 2 lists of lambdas, weights and multipliers.
    undone : float, or list of K float
        What was added to the logits of the kept epoch to undo its weights; 0 unless ``unweighted``.
    weights : dict of tensors, or None
        Of the kept epoch, without ``watch``.
    watched : array, or None
        Logits of the ``watch`` samples in the kept epoch.
    """

    def __init__(
        self,
        member: Member,
        held: HeldOut,
        *,
        shift: float | NDArray[np.float64] = 0.0,
        unweighted: bool = False,
        patience: int | None = None,
        watch: NDArray[Any] | None = None,
        sample: NDArray[Any] | None = None,
        costs: CostMatrix | None = None,
        labels: NDArray[Any] | None = None,
    ) -> None:
        self.member, self.held, self.shift, self.unweighted, self.patience = member, held, shift, unweighted, patience
        self.watch, self.sample = watch, NONE if sample is None else sample
        self.history: list[dict[str, Any]] = []
        self.undone: float | list[float] = 0.0
        self.tired = False
        self.weights: dict[str, Tensor] | None = None
        self.watched: NDArray[np.float64] | None = None
        self.seconds = 0.0
        if len(self.sample) and costs is not None and labels is not None:
            decide = held.decide if held.decide in BLIND else "bayes"
            drawn, own = np.asarray(labels)[self.sample], costs.rows(self.sample)
            self._sampled = HeldOut(self.sample, drawn, own, decide=decide)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The samples whose logits are needed after each epoch."""
        return np.concatenate((self.held.rows, self.sample)).astype(np.int64)

    def look(self, logits: NDArray[Any], epoch: int, trained: Mapping[str, Any]) -> bool:
        """Judge an epoch by the logits of :attr:`rows`; return whether it is to be kept."""
        if self.tired:
            return False
        undone = _undoing(trained) if self.unweighted else 0.0
        moved = np.asarray(logits, dtype=np.float64) + (self.shift + np.asarray(undone))
        n = len(self.held.rows)
        better = self.held.look(moved[:n])
        cost, cut = self.held.latest
        row = {"epoch": epoch, "fold": self.member.fold} | dict(trained) | {"val_cost": cost}
        if len(self.sample):
            self._sampled.look(moved[n:] - cut)
            row["train_cost"] = self._sampled.latest[0]
        self.history.append(row)
        if better:
            self.undone = undone
        lost = not self.held.last and self.patience is not None and epoch - self.held.best >= self.patience
        self.tired = bool(lost)
        return better

    def keep_weights(self, net: nn.Module, state: dict[str, Tensor], column: int | None) -> None:
        """Keep a copy of the network's state, or of one member's part of it; into the tensors of an earlier copy."""
        if column is not None:
            own = {name for name, _ in net.named_parameters()}  # every parameter has the members in front
            state = {name: value[column] if name in own else value for name, value in state.items()}
        if self.weights is None:
            self.weights = {name: value.clone() for name, value in state.items()}
            return
        # a launch per dtype, where a launch each would take milliseconds
        for dtype in {value.dtype for value in state.values()}:
            names = [name for name, value in state.items() if value.dtype == dtype]
            torch._foreach_copy_([self.weights[name] for name in names], [state[name] for name in names])

    def keep_watched(self, logits: NDArray[Any]) -> None:
        """Keep the logits of the watched samples in the kept epoch."""
        self.watched = np.asarray(logits, dtype=np.float64) + np.asarray(self.undone)

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on later: numbers, lists and tensors."""
        held = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in self.held.state_dict().items()}
        watched = None if self.watched is None else torch.from_numpy(self.watched)
        return {
            "held": held, "history": self.history, "undone": self.undone, "tired": self.tired,
            "weights": self.weights, "watched": watched, "seconds": self.seconds,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        held = {k: v.numpy() if isinstance(v, Tensor) else v for k, v in state["held"].items()}
        self.held.load_state_dict(held)
        self.history, self.undone, self.tired = list(state["history"]), state["undone"], state["tired"]
        self.weights, watched = state["weights"], state["watched"]
        self.watched = watched.numpy() if isinstance(watched, Tensor) else watched
        self.seconds = float(state["seconds"])


def _undoing(trained: Mapping[str, Any]) -> float | list[float]:
    """Return what added to logits undoes the weights they were trained with: q ~ W p, so log p is log q - log W."""
    if "weight" in trained:  # of the negatives: the odds of two classes are those of the positives
        return math.log(trained["weight"])
    return [-math.log(weight) for weight in trained["weights"]]
