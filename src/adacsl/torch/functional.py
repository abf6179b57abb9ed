"""The losses as functions of logits, targets and the weights of the classes."""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from adacsl.base.arrays import number_or_nan
from adacsl.torch.samples import Batch, as_shares, check_labels, read_batch, smoothed

Reduction = Literal["mean", "sum", "none"]

SMALLEST_WEIGHT = 1e-25
"""Weights of the negative class below this one count as this one: the difference is none in float32."""


def weighted_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    negative_weight: Tensor | float = 1.0,
    *,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Return the cross-entropy whose negative part is weighted (paper, eq. 4, 5 and 9), or each of K > 2 classes.

    .. math:: L = -y \log p - w \, (1 - y) \log(1 - p), \qquad p = \sigma(z); \qquad L = -\sum_k w_k y_k \log p_k

    Parameters
    ----------
    logits : Tensor of shape (n,), (n, 1) or (n, 2), of maps (n, 1, ...), (n, 2, ...) or that of ``targets``
        One logit z per sample, or the two outputs of a softmax head (then :math:`z = z_1 - z_0`). K classes: (n, K),
        (n, K, ...) for maps, or (n, tokens, K).
    targets : Tensor of shape (n,) or (n, 1), of maps (n, ...)
        0 or 1, in any dtype (bool, int, float), or soft labels in [0, 1]; others are refused. K classes: class numbers.
        One-hot or soft rows have the shape of the logits.
    negative_weight : Tensor or float, default 1.0
        w >= 0, the weight of the negative class. K classes: their K weights.
    sample_weight : Tensor of shape (n,), optional
        Multiplies each sample's loss.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides the sum by the **number of samples** that are not ignored, never by a sum of weights as
        ``torch.nn.CrossEntropyLoss(weight=...)`` does: gradients then add up alike over accumulated batches and over
        processes.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.

    Returns
    -------
    Tensor
        A scalar; one value per sample with ``reduction="none"``.

    Raises
    ------
    ValueError
        Where shapes do not fit together, or targets are no labels.

    See Also
    --------
    adacsl.torch.WeightedCrossEntropy : The same as a module.
    adacsl.torch.AdaptiveCrossEntropy : A weight that a controller adapts.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch import weighted_cross_entropy
    >>> logits, targets = torch.tensor([2.0, -1.0]), torch.tensor([1, 0])
    >>> round(weighted_cross_entropy(logits, targets, 0.25).item(), 4)
    0.1026
    """
    check_smoothing(label_smoothing)
    weight = torch.as_tensor(negative_weight, dtype=torch.float32, device=logits.device)
    k = weight.shape[0] if _is_of_classes(logits, weight) else 2
    if k == 2:
        weight = weight.clamp(min=SMALLEST_WEIGHT)  # weight and inverse stay finite, even for w = 0
        if ignore_index is None and label_smoothing == 0.0 and sample_weight is None and is_plain(logits, targets):
            return plain_cross_entropy(logits, targets, weight, reduction)
    batch = read_batch(logits, targets, k, sample_weight=sample_weight, ignore_index=ignore_index)
    return cross_entropy_of(batch, weight, reduction, label_smoothing)


def plain_cross_entropy(logits: Tensor, targets: Tensor, weight: Tensor, reduction: Reduction) -> Tensor:
    """Return :func:`weighted_cross_entropy` of float32 logits and labels (n,), for a positive weight."""
    check_labels(targets)
    # w * BCE with pos_weight = 1 / w is the same number from torch's fused kernels, forward and backward
    losses = F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weight.reciprocal(), reduction=reduction)
    return losses * weight


def is_plain(logits: Tensor, targets: Tensor) -> bool:
    """Return whether there is nothing to align: on a GPU the checks would take longer than the loss."""
    return logits.ndim == 1 and logits.dtype == targets.dtype == torch.float32 and logits.shape == targets.shape


def cross_entropy_of(batch: Batch, weight: Tensor, reduction: Reduction, label_smoothing: float = 0.0) -> Tensor:
    """Return the weighted cross-entropy of a batch.

    Parameters
    ----------
    batch : Batch
        Of two classes, K classes or L labels.
    weight : Tensor
        Of the negatives, positive; of labels (L,); of K classes (K,).
    reduction, label_smoothing
        See :func:`weighted_cross_entropy`.
    """
    weight = weight.to(batch.logits.dtype)
    if batch.n_classes > 2:
        return _cross_entropy_of_classes(batch, weight, reduction, label_smoothing)
    labels = smoothed(batch.labels, label_smoothing, 2)
    weight = _along_labels(weight, batch)
    # w * BCE with pos_weight = 1 / w is the same number from torch's fused kernels, forward and backward
    positive, scale = weight.reciprocal(), weight if batch.weight is None else weight * batch.weight
    if batch.counted is None and scale.ndim == 0:
        losses = F.binary_cross_entropy_with_logits(batch.logits, labels, pos_weight=positive, reduction=reduction)
        return (losses.reshape(batch.shape) if reduction == "none" else losses) * weight
    if batch.counted is None:
        losses = F.binary_cross_entropy_with_logits(
            batch.logits, labels, weight=scale, pos_weight=positive, reduction=reduction
        )
        return losses.reshape(batch.shape) if reduction == "none" else losses
    losses = F.binary_cross_entropy_with_logits(
        batch.logits, labels, weight=scale * batch.counted, pos_weight=positive,
        reduction="none" if reduction == "none" else "sum",
    )  # fmt: skip
    return _divided(losses, batch, reduction)


def _along_labels(weight: Tensor, batch: Batch) -> Tensor:
    """Return weights of labels in a shape that broadcasts along axis 1 of the logits; a scalar as it is."""
    return weight if weight.ndim == 0 else weight.view(-1, *[1] * (batch.logits.ndim - 2))


def _cross_entropy_of_classes(batch: Batch, weights: Tensor, reduction: Reduction, smoothing: float) -> Tensor:
    z, y = batch.logits, batch.labels
    if batch.weight is None and reduction != "none":
        total = F.cross_entropy(z, y, weight=weights, reduction="sum", label_smoothing=smoothing)
        return _divided(total, batch, reduction)
    losses = F.cross_entropy(z, y, weight=weights, reduction="none", label_smoothing=smoothing)
    return reduced(losses, batch, reduction)


def reduced(losses: Tensor, batch: Batch, reduction: Reduction) -> Tensor:
    """Return the losses of the samples of a batch, weighted, without ignored ones, summed or averaged."""
    if batch.weight is not None:
        losses = losses * batch.weight
    if batch.counted is not None:
        losses = torch.where(batch.counted, losses, torch.zeros((), dtype=losses.dtype, device=losses.device))
    return _divided(losses if reduction == "none" else losses.sum(), batch, reduction)


def _divided(losses: Tensor, batch: Batch, reduction: Reduction) -> Tensor:
    """Return a sum of losses, over the number of samples that count; where none does it is 0."""
    if reduction == "none":
        return losses.reshape(batch.shape)
    if reduction == "sum":
        return losses
    if batch.counted is None:
        return losses / batch.shape.numel()
    return losses / batch.counted.sum().clamp(min=1)


def check_smoothing(label_smoothing: float) -> float:
    """Return a share of label smoothing, or raise."""
    if not 0.0 <= number_or_nan(label_smoothing) < 1.0:
        raise ValueError(f"label_smoothing must be a share from 0 to less than 1, got {label_smoothing!r}")
    return label_smoothing


class _SummedCrossEntropy(torch.autograd.Function):
    """Sums of w log(1 + exp(+-z)) over the last axis; the gradient is w (sigmoid(z) - y)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(z, y, w)
        return (F.softplus(torch.addcmul(z, z, y, value=-2.0)) * w).sum(-1)  # softplus of z or -z, exactly

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        z, y, w = ctx.saved_tensors
        return torch.sigmoid(z).sub_(y).mul_(w).mul_(gradients[0].unsqueeze(-1)), None, None


def summed_cross_entropy(z: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Return sums of weighted losses over the last axis, with half the kernels of torch, for small networks on a GPU.

    Parameters
    ----------
    z, y, w : float32 tensors that broadcast to the shape of ``z``
        Logits, labels 0 or 1, and weights, which get no gradient.

    Examples
    --------
    >>> z, y, w = torch.tensor([0.0, 2.0]), torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.5])
    >>> round(float(summed_cross_entropy(z, y, w)), 4)
    1.7566
    """
    return cast("Tensor", _SummedCrossEntropy.apply(z, y, w))  # type: ignore[no-untyped-call]


def weighted_focal_loss(
    logits: Tensor,
    targets: Tensor,
    negative_weight: Tensor | float = 1.0,
    *,
    gamma: float = 2.0,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Return the focal loss whose negative part is weighted, or each of K > 2 classes.

    .. math:: L = -y \, (1 - p)^\gamma \log p - w \, (1 - y) \, p^\gamma \log(1 - p)

    Of K classes it is :math:`-\sum_k w_k y_k (1 - p_k)^\gamma \log p_k`. ``gamma=0`` is :func:`weighted_cross_entropy`.

    Parameters
    ----------
    logits : Tensor of shape (n,), (n, 1) or (n, 2), of maps (n, 1, ...), (n, 2, ...) or that of ``targets``
        One logit z per sample, or the two outputs of a softmax head (then :math:`z = z_1 - z_0`). K classes: (n, K),
        (n, K, ...) for maps, or (n, tokens, K).
    targets : Tensor of shape (n,) or (n, 1), of maps (n, ...)
        0 or 1, in any dtype (bool, int, float), or soft labels in [0, 1]; others are refused. K classes: class numbers.
        One-hot or soft rows have the shape of the logits.
    negative_weight : Tensor or float, default 1.0
        w >= 0, the weight of the negative class. K classes: their K weights.
    gamma : float, default 2.0
        Exponent that reduces the loss of samples that are classified well already.
    sample_weight : Tensor of shape (n,), optional
        Multiplies each sample's loss.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides the sum by the **number of samples** that are not ignored, never by a sum of weights as
        ``torch.nn.CrossEntropyLoss(weight=...)`` does: gradients then add up alike over accumulated batches and over
        processes.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.

    Returns
    -------
    Tensor
        A scalar; one value per sample with ``reduction="none"``.

    Raises
    ------
    ValueError
        Where shapes do not fit together, or targets are no labels.

    See Also
    --------
    adacsl.torch.FocalLoss : The same as a module.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch import weighted_focal_loss
    >>> logits, targets = torch.tensor([2.0, -1.0]), torch.tensor([1, 0])
    >>> round(weighted_focal_loss(logits, targets, 0.25, gamma=1.0).item(), 4)
    0.0181
    """
    check_gamma(gamma)
    check_smoothing(label_smoothing)
    weight = torch.as_tensor(negative_weight, dtype=torch.float32, device=logits.device)
    k = weight.shape[0] if _is_of_classes(logits, weight) else 2
    batch = read_batch(logits, targets, k, sample_weight=sample_weight, ignore_index=ignore_index)
    return focal_loss_of(batch, weight, gamma, reduction, label_smoothing)


def check_gamma(gamma: float) -> float:
    """Return the exponent of a focal loss, or raise."""
    if not 0.0 <= number_or_nan(gamma) < float("inf"):
        raise ValueError(f"gamma must not be negative, got {gamma!r}: 0 is cross-entropy, 2 the usual choice")
    return gamma


def focal_loss_of(
    batch: Batch, weight: Tensor, gamma: float, reduction: Reduction, label_smoothing: float = 0.0
) -> Tensor:
    """Return the weighted focal loss of a batch; see :func:`cross_entropy_of`."""
    z, y = batch.logits, batch.labels
    weight = weight.to(z.dtype)
    if batch.n_classes > 2:
        return reduced(_focal_losses_of_classes(batch, weight, gamma, label_smoothing), batch, reduction)
    y, weight = smoothed(y, label_smoothing, 2), _along_labels(weight, batch)
    # in logarithms: (1 - p)^gamma = exp(gamma * logsigmoid(-z)) has a finite gradient everywhere
    log_p, log_q = F.logsigmoid(z), F.logsigmoid(-z)
    losses = -y * torch.exp(gamma * log_q) * log_p - weight * (1.0 - y) * torch.exp(gamma * log_p) * log_q
    return reduced(losses, batch, reduction)


def _focal_losses_of_classes(batch: Batch, weights: Tensor, gamma: float, smoothing: float) -> Tensor:
    z, y = batch.logits, batch.labels
    if not batch.soft and not smoothing:
        own = y.clamp(min=0).unsqueeze(1)  # ignored ones are negative
        norm = torch.logsumexp(z, dim=1)
        log_p = z.gather(1, own)[:, 0] - norm
        # the logarithm of 1 - p from the other logits: finite, and so is its gradient
        log_q = torch.logsumexp(z.scatter(1, own, -torch.inf), dim=1) - norm
        return -weights[own[:, 0]] * torch.exp(gamma * log_q) * log_p
    shares = smoothed(
        y if batch.soft else as_shares(y.clamp(min=0), batch.n_classes, z.dtype), smoothing, batch.n_classes
    )
    log_p = torch.log_softmax(z, dim=1)
    others = -torch.expm1(log_p)
    scale = torch.exp(gamma * torch.log(others.clamp(min=1e-12)))
    return -(weights.view(-1, *[1] * (z.ndim - 2)) * shares * scale * log_p).sum(1)


def _is_of_classes(logits: Tensor, weight: Tensor) -> bool:
    return weight.ndim == 1 and weight.shape[0] > 2 and logits.ndim > 1
