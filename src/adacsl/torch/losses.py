"""The losses as modules: they hold the weight of the negative class in a buffer and change it in place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from adacsl.core.control import AdaptiveWeight, Adjustment, as_controller
from adacsl.core.costs import CostMatrix
from adacsl.torch.functional import Reduction, align, cross_entropy_of_weight, weighted_focal_loss


class _WeightedLoss(nn.Module):
    """Holds ``negative_weight``: a float32 scalar buffer that moves, saves and compiles with the model.

    It is cross-entropy, or with ``gamma`` a focal loss.
    """

    negative_weight: Tensor

    def __init__(self, weight: float, reduction: Reduction, gamma: float | None = None) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self.reduction: Reduction = reduction
        self.gamma, self._given_weight = gamma, weight
        self.register_buffer("negative_weight", torch.tensor(weight, dtype=torch.float32))

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        weight, reduction = self.negative_weight, self.reduction
        if self.gamma is None:
            return cross_entropy_of_weight(logits, targets, weight, sample_weight, reduction)
        return weighted_focal_loss(
            logits, targets, weight, gamma=self.gamma, sample_weight=sample_weight, reduction=reduction
        )

    def extra_repr(self) -> str:
        weight = self._given_weight if self.negative_weight.is_meta else float(self.negative_weight)
        return f"negative_weight={weight:.6g}, reduction={self.reduction!r}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        weight = self.negative_weight
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # model.half() must not round the weight (1e-9 would become 0): follow the device, keep the number
        if weight.is_meta:  # a model made on the meta device gets its numbers only now
            weight = torch.tensor(self._given_weight, dtype=torch.float32, device=self.negative_weight.device)
        self.negative_weight = weight.to(device=self.negative_weight.device)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # checkpoints made before this loss was added stay loadable, strictly
        missing: list[str] = args[2]
        ours = [prefix + name for name in ("negative_weight", "_extra_state")]
        absent = not any(name in state_dict for name in ours)
        saved = state_dict.get(ours[0])
        if isinstance(saved, Tensor) and not (saved.numel() == 1 and 0.0 < float(saved) < float("inf")):
            errors: list[str] = args[4]
            errors.append(f"{ours[0]} must be one positive number, got {saved}: the checkpoint is damaged")
            return
        super()._load_from_state_dict(state_dict, prefix, *args)
        if absent:
            missing[:] = [name for name in missing if name not in ours]


class WeightedCrossEntropy(_WeightedLoss):
    """Cross-entropy with the fixed weight ``C(1,0)/C(0,1) * (1 - T')/T'``; see :func:`weighted_cross_entropy`.

    Parameters
    ----------
    costs : CostMatrix
        Class-wide costs of two classes.
    target : float, default 0.5
        T', the threshold the classifier is to decide with: ``costs.threshold`` gives plain cross-entropy.
    reduction : {"mean", "sum", "none"}
        "mean" divides by the number of samples.
    """

    def __init__(self, costs: CostMatrix, *, target: float = 0.5, reduction: Reduction = "mean") -> None:
        super().__init__(AdaptiveWeight(costs, target=target).weight, reduction)


class FocalLoss(_WeightedLoss):
    """Focal loss with the same fixed weight; see :func:`weighted_focal_loss`."""

    def __init__(
        self, costs: CostMatrix, *, target: float = 0.5, gamma: float = 2.0, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(AdaptiveWeight(costs, target=target).weight, reduction, gamma)


class AdaptiveLoss(_WeightedLoss):
    """A loss steered by an :class:`~adacsl.AdaptiveWeight`, through :meth:`adapt`."""

    def __init__(self, costs: CostMatrix | AdaptiveWeight, *, reduction: Reduction = "mean", **settings: Any) -> None:
        controller = as_controller(costs, settings)
        super().__init__(controller.weight, reduction)
        self.controller = controller

    @torch.no_grad()
    def adapt(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Adjustment:
        """Step the controller with the logits and targets of the whole validation set, and take over its weight."""
        z, _, _ = align(logits.detach(), targets, sample_weight)
        scores, labels = torch.sigmoid(z).reshape(-1), targets.detach().reshape(-1)
        weight = None if sample_weight is None else sample_weight.detach().reshape(-1)
        adjustment = self.controller.step(scores, labels, sample_weight=weight)
        self.refresh()
        return adjustment

    def refresh(self) -> None:
        """Copy the controller's weight into the buffer, in place: compiled code and replicas see it at once."""
        self.negative_weight.fill_(self.controller.weight)

    def get_extra_state(self) -> Tensor:
        """Return the controller's state as JSON in a byte tensor, which every checkpoint format can hold."""
        return torch.frombuffer(bytearray(json.dumps(self.controller.state_dict()).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Go on from a saved controller."""
        try:
            saved = json.loads(bytes(state.cpu().tolist()))
        except (TypeError, ValueError) as error:
            raise ValueError("the controller's saved state cannot be read: the checkpoint is damaged") from error
        self.controller.load_state_dict(saved)
        self.refresh()


class AdaptiveCrossEntropy(AdaptiveLoss):
    """Cross-entropy that follows the validation cost: a plain PyTorch loop needs two changed lines.

    Parameters
    ----------
    costs : CostMatrix or AdaptiveWeight
        Prices, or a controller of your own.
    reduction : {"mean", "sum", "none"}
        "mean" divides by the number of samples.
    **settings
        Passed to :class:`~adacsl.AdaptiveWeight`: ``target``, ``partition``, ``damping``, ...

    Examples
    --------
    >>> loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))           # instead of BCEWithLogitsLoss()
    >>> value = loss(torch.tensor([0.3, -1.2]), torch.tensor([1, 0]))
    >>> step = loss.adapt(torch.tensor([0.3, -1.2]), torch.tensor([1, 0]))   # once per epoch, validation logits
    >>> step.cost
    0.0
    """


class AdaptiveFocalLoss(AdaptiveLoss):
    """Focal loss that follows the validation cost; parameters as in :class:`AdaptiveCrossEntropy`, and ``gamma``."""

    def __init__(
        self, costs: CostMatrix | AdaptiveWeight, *, gamma: float = 2.0, reduction: Reduction = "mean", **settings: Any
    ) -> None:
        super().__init__(costs, reduction=reduction, **settings)
        self.gamma = gamma
