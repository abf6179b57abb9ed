"""The losses as modules: they hold the weights of the classes in a buffer and change it in place."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from adacsl.adaptive.controller import AdaCSLController, MultiLabelController, as_controller
from adacsl.adaptive.streamed import StreamedScores
from adacsl.costs.matrix import CostMatrix
from adacsl.torch.functional import (
    Reduction,
    check_gamma,
    check_smoothing,
    cross_entropy_of,
    focal_loss_of,
    is_plain,
    plain_cross_entropy,
)
from adacsl.torch.samples import Samples, flat_samples, output_scores, read_batch

Costs = CostMatrix | Sequence[CostMatrix]
Controller = AdaCSLController | MultiLabelController


class _WeightedLoss(nn.Module):
    """Holds weights in a float32 buffer that moves, saves and compiles with the model.

    It is ``negative_weight``, a scalar, for two classes (of L labels L numbers), and ``class_weights`` for more. The
    loss is cross-entropy, or with ``gamma`` a focal loss.
    """

    negative_weight: Tensor
    class_weights: Tensor
    _held = "negative_weight"  # the name of the buffer

    def __init__(
        self,
        controller: Controller,
        reduction: Reduction,
        gamma: float | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self.reduction: Reduction = reduction
        self.n_classes, self.n_labels = controller.n_classes, controller.n_labels
        self.ignore_index = check_ignored(ignore_index)
        self.label_smoothing = check_smoothing(label_smoothing)
        self.gamma, self._given_weight = gamma, given_weight(controller)
        self._held = "negative_weight" if controller.n_classes == 2 else "class_weights"
        self._plain = gamma is None and ignore_index is None and not label_smoothing and self._held == "negative_weight"
        self._plain = self._plain and self.n_labels is None
        self.register_buffer(self._held, torch.tensor(self._given_weight, dtype=torch.float32))

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n,), (n, 1), (n, 2), (n, K) or (n, L)
            One logit per sample, the two outputs of a softmax head, one per class or one per label; maps and tokens
            have further axes.
        targets : Tensor of shape (n,), (n, 1) or that of ``logits``
            0 or 1, or soft labels in [0, 1]; of K classes class numbers, one-hot or soft rows.
        sample_weight : Tensor of shape (n,), optional
            Multiplies each sample's loss.

        Returns
        -------
        Tensor
            A scalar; one value per sample with ``reduction="none"``.
        """
        if self._plain and sample_weight is None and is_plain(logits, targets):
            return plain_cross_entropy(logits, targets, self.negative_weight, self.reduction)
        batch = read_batch(
            logits, targets, self.n_classes, n_labels=self.n_labels, sample_weight=sample_weight,
            ignore_index=self.ignore_index,
        )  # fmt: skip
        weight = self.negative_weight if self._held == "negative_weight" else self.class_weights
        if self.gamma is None:
            return cross_entropy_of(batch, weight, self.reduction, self.label_smoothing)
        return focal_loss_of(batch, weight, self.gamma, self.reduction, self.label_smoothing)

    def extra_repr(self) -> str:
        held: Tensor = getattr(self, self._held)
        given = self._given_weight if held.is_meta else held.tolist()
        shown = f"[{', '.join(f'{w:.6g}' for w in given)}]" if isinstance(given, list) else f"{given:.6g}"
        more = "" if self.ignore_index is None else f", ignore_index={self.ignore_index}"
        more += f", label_smoothing={self.label_smoothing:g}" if self.label_smoothing else ""
        return f"{self._held}={shown}, reduction={self.reduction!r}{more}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        weight: Tensor = getattr(self, self._held)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # model.half() must not round the weight (1e-9 would become 0): follow the device, keep the number
        device = getattr(self, self._held).device
        if weight.is_meta:  # a model made on the meta device gets its numbers only now
            weight = torch.tensor(self._given_weight, dtype=torch.float32, device=device)
        setattr(self, self._held, weight.to(device=device))
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # checkpoints made before this loss was added stay loadable, strictly
        missing: list[str] = args[2]
        ours = [prefix + name for name in (self._held, "_extra_state")]
        absent = not any(name in state_dict for name in ours)
        saved = state_dict.get(ours[0])
        own: Tensor = getattr(self, self._held)
        if isinstance(saved, Tensor) and not (
            saved.numel() == own.numel() and bool(((saved > 0.0) & (saved < torch.inf)).all())
        ):
            errors: list[str] = args[4]
            wanted = "one positive number" if own.ndim == 0 else f"{own.numel()} positive numbers"
            errors.append(f"{ours[0]} must be {wanted}, got {saved}: the checkpoint is damaged")
            return
        super()._load_from_state_dict(state_dict, prefix, *args)
        if absent:
            missing[:] = [name for name in missing if name not in ours]


def given_weight(controller: Controller) -> Any:
    """Return the weights of a controller as plain numbers: one of two classes, L of labels, K of classes."""
    if isinstance(controller, MultiLabelController):
        return controller.weight.tolist()
    return controller.weight if controller.n_classes == 2 else controller.weights.tolist()


def check_ignored(ignore_index: Any) -> int | None:
    """Return the label of samples that do not count, or raise."""
    if ignore_index is None or (isinstance(ignore_index, int) and not isinstance(ignore_index, bool)):
        return ignore_index
    raise TypeError(f"ignore_index must be a whole number such as -100 or 255, or None, got {ignore_index!r}")


class WeightedCrossEntropy(_WeightedLoss):
    """Cross-entropy with the fixed weight ``C(1,0)/C(0,1) * (1 - T')/T'``.

    More than two classes are weighted by their mean costs to the power that ``target_threshold`` stands for.

    Parameters
    ----------
    costs : CostMatrix or list of CostMatrix
        Class-wide costs, of several labels one matrix for each.
    target_threshold : float or {"bayes", "middle", "half"}, default 0.5
        T', the decision threshold of the finished classifier: ``costs.threshold`` gives plain cross-entropy. For K
        classes see :class:`~adacsl.AdaCSLController`.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.

    See Also
    --------
    weighted_cross_entropy : The same as a function, with the formula.
    AdaptiveCrossEntropy : A weight that a controller adapts.

    Examples
    --------
    >>> import torch
    >>> from adacsl import CostMatrix
    >>> from adacsl.torch import WeightedCrossEntropy
    >>> loss = WeightedCrossEntropy(CostMatrix(fp=1, fn=4))
    >>> round(loss(torch.tensor([2.0, -1.0]), torch.tensor([1, 0])).item(), 4)
    0.1026
    """

    def __init__(
        self,
        costs: Costs,
        *,
        target_threshold: float | str = 0.5,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        controller = as_controller(costs, {"target_threshold": target_threshold})
        super().__init__(controller, reduction, None, ignore_index, label_smoothing)


class FocalLoss(_WeightedLoss):
    """Focal loss with the fixed weight of :class:`~adacsl.torch.WeightedCrossEntropy`.

    Parameters
    ----------
    costs : CostMatrix or list of CostMatrix
        Class-wide costs, of several labels one matrix for each.
    target_threshold : float or {"bayes", "middle", "half"}, default 0.5
        T', the decision threshold of the finished classifier: ``costs.threshold`` gives plain cross-entropy. For K
        classes see :class:`~adacsl.AdaCSLController`.
    gamma : float, default 2.0
        Exponent that reduces the loss of samples that are classified well already; 0 is cross-entropy.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.

    See Also
    --------
    weighted_focal_loss : The same as a function, with the formula.

    Examples
    --------
    >>> import torch
    >>> from adacsl import CostMatrix
    >>> from adacsl.torch import FocalLoss
    >>> loss = FocalLoss(CostMatrix(fp=1, fn=4), gamma=1.0)
    >>> round(loss(torch.tensor([2.0, -1.0]), torch.tensor([1, 0])).item(), 4)
    0.0181
    """

    def __init__(
        self,
        costs: Costs,
        *,
        target_threshold: float | str = 0.5,
        gamma: float = 2.0,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        controller = as_controller(costs, {"target_threshold": target_threshold})
        super().__init__(controller, reduction, check_gamma(gamma), ignore_index, label_smoothing)


class AdaptiveLoss(_WeightedLoss):
    """Base class of the losses whose class weights a controller adapts, through ``adapt``.

    Parameters
    ----------
    costs : CostMatrix, list of CostMatrix, AdaCSLController or MultiLabelController
        Class-wide costs, of several labels one matrix for each; or a controller of your own.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.
    **settings : Any
        Passed to :class:`~adacsl.AdaCSLController`: ``target_threshold``, ``partition``, ``damping``, ...

    See Also
    --------
    AdaptiveCrossEntropy : Cross-entropy.
    AdaptiveFocalLoss : Focal loss.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.torch import AdaptiveCrossEntropy, AdaptiveLoss
    >>> isinstance(AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8)), AdaptiveLoss)
    True
    """

    watched = False  # whether a callback adapts it, which reports by itself that nothing was adapted
    _trained = False  # whether there was a training batch since the last validation
    _validations = 0  # validations after training batches and before the first step

    def __init__(
        self,
        costs: Costs | Controller,
        *,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        **settings: Any,
    ) -> None:
        controller = as_controller(costs, settings)
        super().__init__(controller, reduction, None, ignore_index, label_smoothing)
        self.controller: Any = controller

    def samples(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Samples:
        """Return the samples of a batch that count, one row each: what :meth:`adapt` and callbacks measure."""
        return flat_samples(
            logits, targets, self.n_classes, n_labels=self.n_labels, sample_weight=sample_weight,
            ignore_index=self.ignore_index,
        )  # fmt: skip

    @torch.no_grad()
    def adapt(
        self,
        logits: Tensor | Iterable[tuple[Tensor, ...]],
        targets: Tensor | None = None,
        sample_weight: Tensor | None = None,
        costs: CostMatrix | None = None,
    ) -> Any:
        """Step the controller on the whole validation set, and take over its weights.

        Parameters
        ----------
        logits : Tensor, or iterable of (logits, targets) or (logits, targets, sample_weight)
            All at once, or batches, such as a generator that runs the network; in evaluation mode: ``net.eval()`` and
            ``torch.no_grad()``. More than 4 million samples of two classes in batches are measured by a histogram, in
            bounded memory.
        targets : Tensor, optional
            Labels; soft ones count as both classes, by their share. Not with batches.
        sample_weight : Tensor, optional
            How much each sample counts.
        costs : CostMatrix, optional
            Per-sample costs of these samples.

        Returns
        -------
        ControllerStep or MultiLabelStep
            What was measured, and the weight to train with from now on; the latter of several labels.

        Raises
        ------
        ValueError
            Where the logits require gradients, or the samples hold one class only.
        """
        if targets is None:
            measured = self._stream(logits, costs)
        else:
            whole = cast("Tensor", logits)
            _warn_of_gradients(whole)
            rows = self.samples(whole, targets, sample_weight)
            measured = self.controller.step(rows.scores, rows.labels, sample_weight=rows.weight, costs=costs)
        self.refresh()
        return measured

    def _stream(self, batches: Any, costs: CostMatrix | None) -> Any:
        """Step the controller with batches."""
        if isinstance(batches, Tensor) or not isinstance(batches, Iterable):
            raise TypeError(
                "adapt needs targets, or an iterable of (logits, targets): "
                f"adapt((net(x), y) for x, y in loader), got {type(batches).__name__}"
            )
        if costs is not None:
            raise ValueError("costs of each sample need all samples at once: adapt(logits, targets, costs=costs)")
        stream = StreamedScores.of(self.controller)
        for given in batches:
            if not (isinstance(given, tuple | list) and len(given) in (2, 3)):
                raise TypeError("each batch must be (logits, targets) or (logits, targets, sample_weight)")
            _warn_of_gradients(given[0])
            rows = self.samples(*given)
            stream.add(rows.scores, rows.labels, rows.weight)
        return stream.step(self.controller)

    @torch.no_grad()
    def decide(self, logits: Tensor, costs: CostMatrix | None = None) -> Tensor:
        """Return the decision for each sample.

        Parameters
        ----------
        logits : Tensor
            Of any shape that the loss takes, from the network in evaluation mode.
        costs : CostMatrix, optional
            Per-sample costs of these samples.

        Returns
        -------
        Tensor of int64, of shape (n,), of maps (n, ...)
            0 or 1; of K classes the class of least expected cost, which often is not the most probable one.
        """
        scores, shape = output_scores(logits, self.n_classes, self.n_labels)
        decisions: Tensor = self.controller.decide(scores, costs)
        return decisions.reshape(shape)

    def forward(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        # compiled code shall not be compiled again because of the flag
        """Return the loss of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n,), (n, 1), (n, 2), (n, K) or (n, L)
            One logit per sample, the two outputs of a softmax head, one per class or one per label; maps and tokens
            have further axes.
        targets : Tensor of shape (n,), (n, 1) or that of ``logits``
            0 or 1, or soft labels in [0, 1]; of K classes class numbers, one-hot or soft rows.
        sample_weight : Tensor of shape (n,), optional
            Multiplies each sample's loss.

        Returns
        -------
        Tensor
            A scalar; one value per sample with ``reduction="none"``.
        """
        if not torch.compiler.is_compiling() and self.training and torch.is_grad_enabled():
            self._trained = True
        return super().forward(logits, targets, sample_weight)

    def train(self, mode: bool = True) -> Self:
        """Change the mode; warn, where a second validation begins and nothing was ever adapted."""
        if not mode and self._trained:
            self._trained = False
            self._validations += 1
            if self._validations == 2 and not self.watched and not self.controller.history:
                warnings.warn(
                    f"{type(self).__name__} has not been adapted: call adapt(logits, targets) with the validation set "
                    "after each epoch, or give your framework the callback AdaCSLCallback; so far its weights are "
                    "fixed",
                    stacklevel=2,
                )
        return super().train(mode)

    def refresh(self) -> None:
        """Copy the controller's weights into the buffer, in place: compiled code and replicas see them at once."""
        ours, theirs = (self.n_classes, self.n_labels), (self.controller.n_classes, self.controller.n_labels)
        if ours != theirs:
            kind = "classes" if ours[1] is theirs[1] is None else "classes and labels"
            shown = (each[0] if kind == "classes" else each for each in (ours, theirs))
            own, other = shown
            raise ValueError(f"the loss has {own} {kind}, its controller {other}: make both with the same costs")
        held: Tensor = getattr(self, self._held)
        held.copy_(torch.tensor(given_weight(self.controller), dtype=torch.float64))

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
    """Cross-entropy whose class weights a controller adapts: a plain PyTorch loop needs two changed lines.

    Parameters
    ----------
    costs : CostMatrix, list of CostMatrix, AdaCSLController or MultiLabelController
        Class-wide costs, of several labels one matrix for each; or a controller of your own.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.
    **settings : Any
        Passed to :class:`~adacsl.AdaCSLController`: ``target_threshold``, ``partition``, ``damping``, ...

    See Also
    --------
    AdaptiveFocalLoss : Focal loss.
    adacsl.integrations.lightning.AdaCSLCallback : Adapts it in Lightning; other frameworks have a callback, too.

    Examples
    --------
    >>> import torch
    >>> from adacsl import CostMatrix
    >>> from adacsl.torch import AdaptiveCrossEntropy
    >>> logits, targets = torch.tensor([0.3, -1.2]), torch.tensor([1, 0])
    >>> loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))  # not BCEWithLogitsLoss()
    >>> value = loss(logits, targets)

    Once per epoch, with the logits of the whole validation set:

    >>> step = loss.adapt(logits, targets)
    >>> step.cost, loss.decide(logits).tolist()
    (0.0, [1, 0])

    K classes have K logits:

    >>> table = [[0, 9, 1], [1, 0, 1], [1, 9, 0]]
    >>> costs = CostMatrix.from_array(table, rows="predicted")
    >>> loss = AdaptiveCrossEntropy(costs, damping=0.5)  # not CrossEntropyLoss()
    >>> value = loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]))
    """


class AdaptiveFocalLoss(AdaptiveLoss):
    """Focal loss whose class weights a controller adapts.

    Parameters
    ----------
    costs : CostMatrix, list of CostMatrix, AdaCSLController or MultiLabelController
        Class-wide costs, of several labels one matrix for each; or a controller of your own.
    gamma : float, default 2.0
        Exponent that reduces the loss of samples that are classified well already; 0 is cross-entropy.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.
    **settings : Any
        Passed to :class:`~adacsl.AdaCSLController`: ``target_threshold``, ``partition``, ``damping``, ...

    See Also
    --------
    AdaptiveCrossEntropy : Cross-entropy.

    Examples
    --------
    >>> import torch
    >>> from adacsl import CostMatrix
    >>> from adacsl.torch import AdaptiveFocalLoss
    >>> loss = AdaptiveFocalLoss(CostMatrix(fp=1, fn=8), gamma=1.0)
    >>> round(loss(torch.tensor([2.0, -1.0]), torch.tensor([1, 0])).item(), 4)
    0.0128
    """

    def __init__(
        self,
        costs: Costs | Controller,
        *,
        gamma: float = 2.0,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__(
            costs, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing, **settings
        )
        self.gamma, self._plain = check_gamma(gamma), False


def _warn_of_gradients(logits: Any) -> None:
    if isinstance(logits, Tensor) and logits.requires_grad:
        warnings.warn(
            "adapt was given logits that require gradients, as of a network in training mode: dropout and batch "
            "statistics then change what is measured. Compute them after net.eval() and torch.no_grad(), and call "
            "net.train() afterwards",
            stacklevel=4,  # above the decorator
        )
