"""The losses as functions of logits, targets and the weights of the classes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from adacsl.base.arrays import number_or_nan

Reduction = Literal["mean", "sum", "none"]

IGNORED = -100
"""torch's number for samples that count nothing."""

SMALLEST_WEIGHT = 1e-25
"""Weights of the negative class below this one count as this one: the difference is none in float32."""


def weighted_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    negative_weight: Tensor | float = 1.0,
    *,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Return the cross-entropy whose negative part is weighted (paper, eq. 4, 5 and 9), or each of K > 2 classes.

    .. math:: L = -y \log p - w \, (1 - y) \log(1 - p), \qquad p = \sigma(z); \qquad L = -w_y \log p_y

    Parameters
    ----------
    logits : Tensor of shape (n,), (n, 1) or (n, 2), of maps (n, 1, ...), (n, 2, ...) or that of ``targets``
        One logit z per sample, or the two outputs of a softmax head (then :math:`z = z_1 - z_0`). K classes: (n, K), or
        (n, K, ...) for maps.
    targets : Tensor of shape (n,) or (n, 1), of maps (n, ...)
        0 or 1, in any dtype (bool, int, float), or soft labels in [0, 1]; others are refused. K classes: class numbers.
    negative_weight : Tensor or float, default 1.0
        w >= 0, the weight of the negative class. K classes: their K weights.
    sample_weight : Tensor of shape (n,), optional
        Multiplies each sample's loss.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides the sum by the **number of samples**, never by a sum of weights as
        ``torch.nn.CrossEntropyLoss(weight=...)`` does: gradients then add up alike over accumulated batches and over
        processes.

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
    weight = torch.as_tensor(negative_weight, dtype=torch.float32, device=logits.device)
    if _is_of_classes(logits, weight):
        return cross_entropy_of_classes(logits, targets, weight, sample_weight, reduction)
    # weight and inverse stay finite, even for w = 0
    return cross_entropy_of_weight(logits, targets, weight.clamp(min=SMALLEST_WEIGHT), sample_weight, reduction)


def cross_entropy_of_weight(
    logits: Tensor, targets: Tensor, weight: Tensor, sample_weight: Tensor | None, reduction: Reduction
) -> Tensor:
    """Return :func:`weighted_cross_entropy` for a weight that is known to be a positive tensor."""
    z, y, scale = logits, targets, None
    if sample_weight is not None or not _is_plain(logits, targets):
        z, y, scale = align(logits, targets, sample_weight)
    check_labels(targets)
    weight = weight.to(z.dtype)
    # w * BCE with pos_weight = 1 / w is the same number from torch's fused kernels, forward and backward
    weights = weight if scale is None else weight * scale
    return F.binary_cross_entropy_with_logits(z, y, weight=weights, pos_weight=weight.reciprocal(), reduction=reduction)


def cross_entropy_of_classes(
    logits: Tensor, targets: Tensor, weights: Tensor, sample_weight: Tensor | None, reduction: Reduction
) -> Tensor:
    """Return :func:`weighted_cross_entropy` for the weights of K classes."""
    z, y, scale = align_classes(logits, targets, weights.shape[0], sample_weight)
    weights = weights.to(z.dtype)
    if scale is None and reduction != "none":
        total = F.cross_entropy(z, y, weight=weights, reduction="sum")
        return total / y.numel() if reduction == "mean" else total
    return _reduced(F.cross_entropy(z, y, weight=weights, reduction="none"), scale, reduction)


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
) -> Tensor:
    r"""Return the focal loss whose negative part is weighted, or each of K > 2 classes.

    .. math:: L = -y \, (1 - p)^\gamma \log p - w \, (1 - y) \, p^\gamma \log(1 - p)

    Of K classes it is :math:`-w_y (1 - p_y)^\gamma \log p_y`. ``gamma=0`` is :func:`weighted_cross_entropy`.

    Parameters
    ----------
    logits : Tensor of shape (n,), (n, 1) or (n, 2), of maps (n, 1, ...), (n, 2, ...) or that of ``targets``
        One logit z per sample, or the two outputs of a softmax head (then :math:`z = z_1 - z_0`). K classes: (n, K), or
        (n, K, ...) for maps.
    targets : Tensor of shape (n,) or (n, 1), of maps (n, ...)
        0 or 1, in any dtype (bool, int, float), or soft labels in [0, 1]; others are refused. K classes: class numbers.
    negative_weight : Tensor or float, default 1.0
        w >= 0, the weight of the negative class. K classes: their K weights.
    gamma : float, default 2.0
        Exponent that reduces the loss of samples that are classified well already.
    sample_weight : Tensor of shape (n,), optional
        Multiplies each sample's loss.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides the sum by the **number of samples**, never by a sum of weights as
        ``torch.nn.CrossEntropyLoss(weight=...)`` does: gradients then add up alike over accumulated batches and over
        processes.

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
    if isinstance(negative_weight, Tensor) and _is_of_classes(logits, negative_weight):
        return focal_loss_of_classes(logits, targets, negative_weight, gamma, sample_weight, reduction)
    z, y, scale = align(logits, targets, sample_weight)
    check_labels(targets)
    # in logarithms: (1 - p)^gamma = exp(gamma * logsigmoid(-z)) has a finite gradient everywhere
    log_p, log_q = F.logsigmoid(z), F.logsigmoid(-z)
    losses = -y * torch.exp(gamma * log_q) * log_p - negative_weight * (1.0 - y) * torch.exp(gamma * log_p) * log_q
    return _reduced(losses, scale, reduction)


def check_gamma(gamma: float) -> float:
    """Return the exponent of a focal loss, or raise."""
    if not 0.0 <= number_or_nan(gamma) < float("inf"):
        raise ValueError(f"gamma must not be negative, got {gamma!r}: 0 is cross-entropy, 2 the usual choice")
    return gamma


def focal_loss_of_classes(
    logits: Tensor, targets: Tensor, weights: Tensor, gamma: float, sample_weight: Tensor | None, reduction: Reduction
) -> Tensor:
    """Return :func:`weighted_focal_loss` for the weights of K classes."""
    z, y, scale = align_classes(logits, targets, weights.shape[0], sample_weight)
    own = y.unsqueeze(1)
    norm = torch.logsumexp(z, dim=1)
    log_p = z.gather(1, own)[:, 0] - norm
    # the logarithm of 1 - p from the other logits: finite, and so is its gradient
    log_q = torch.logsumexp(z.scatter(1, own, -torch.inf), dim=1) - norm
    return _reduced(-weights.to(z.dtype)[y] * torch.exp(gamma * log_q) * log_p, scale, reduction)


def _reduced(losses: Tensor, scale: Tensor | None, reduction: Reduction) -> Tensor:
    if scale is not None:
        losses = losses * scale
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def _is_of_classes(logits: Tensor, weight: Tensor) -> bool:
    return weight.ndim == 1 and weight.shape[0] > 2 and logits.ndim > 1


def positive_logit(logits: Tensor) -> Tensor:
    """Return one logit per sample from a head with one or two outputs.

    Maps of one logit per pixel, (n, height, width), are returned as they are.

    Parameters
    ----------
    logits : Tensor of shape (n,), (n, 1, ...) or (n, 2, ...)
        The outputs.

    Returns
    -------
    Tensor of shape (n, ...)
        Logits of the positive class.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch import positive_logit
    >>> positive_logit(torch.tensor([[0.5, 2.0], [1.0, 0.0]])).tolist()
    [1.5, -1.0]
    """
    if logits.ndim == 1:
        return logits
    if logits.ndim > 1 and logits.shape[1] == 1:
        return logits[:, 0]
    if logits.ndim > 1 and logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    if logits.ndim > 2:
        return logits
    raise ValueError(
        f"logits must have shape (n,), (n, 1) or (n, 2), got {tuple(logits.shape)}; K classes need K x K costs"
    )


class Samples(NamedTuple):
    """Samples of a batch, one row each: logits (n,) or (n, K), labels, weights, and their place in the batch."""

    logits: Tensor
    labels: Tensor
    weight: Tensor | None
    place: Tensor


def flat_samples(logits: Tensor, targets: Tensor, n_classes: int, sample_weight: Tensor | None = None) -> Samples:
    """Return the samples (of maps: the pixels) of a batch that a loss takes; samples to be ignored are left out."""
    logits, targets = logits.detach(), targets.detach()
    if n_classes == 2:
        z, _, weight = align(logits, targets, sample_weight)
        rows = z.reshape(-1)
    else:
        z, _, weight = align_classes(logits, targets, n_classes, sample_weight)
        rows = z.movedim(1, -1).reshape(-1, n_classes)
    labels = targets.reshape(-1)
    place = torch.arange(len(logits), device=rows.device).repeat_interleave(len(rows) // max(len(logits), 1))
    weight = None if weight is None else weight.detach().reshape(-1)
    if n_classes > 2 and bool((ignored := labels == IGNORED).any()):
        counted = ~ignored
        rows, labels, place = rows[counted], labels[counted], place[counted]
        weight = None if weight is None else weight[counted]
    return Samples(rows, labels, weight, place)


def class_scores(logits: Tensor) -> Tensor:
    """Return the scores of logits: a sigmoid of (n,), a softmax of (n, K)."""
    return torch.sigmoid(logits) if logits.ndim == 1 else torch.softmax(logits, dim=1)


def output_scores(logits: Tensor, n_classes: int) -> tuple[Tensor, torch.Size]:
    """Return the scores of any logits that a loss takes, one row per sample, and the shape of their decisions."""
    wide = logits.detach().float() if logits.dtype in (torch.float16, torch.bfloat16) else logits.detach()
    if n_classes == 2:
        z = positive_logit(wide)
        return torch.sigmoid(z.reshape(-1)), z.shape
    if wide.ndim < 2 or wide.shape[1] != n_classes:
        raise ValueError(f"logits must have shape (n, {n_classes}), one for each class, got {tuple(wide.shape)}")
    z = wide.movedim(1, -1)
    return torch.softmax(z.reshape(-1, n_classes), dim=1), z.shape[:-1]


def _is_plain(logits: Tensor, targets: Tensor) -> bool:
    """Tell whether there is nothing to align: on a GPU the checks would take longer than the loss."""
    return logits.ndim == 1 and logits.dtype == targets.dtype == torch.float32 and logits.shape == targets.shape


def check_labels(targets: Tensor) -> None:
    """Raise where a label of two classes lies outside [0, 1].

    Compiled code and CUDA devices assert on their own, so that nothing waits for them.
    """
    if targets.dtype == torch.bool or torch._C._are_functorch_transforms_active():  # vmap has no values to look at
        return
    inside = targets == targets.clamp(0, 1)
    if _is_readable(targets):
        if not bool(inside.all()):
            raise ValueError(
                f"targets must lie in [0, 1], got {targets[~inside][0].item():g}; give 0 for the negative class and 1 "
                "for the positive one, and samples that are to count nothing a sample_weight of 0"
            )
    elif targets.device.type in ("cpu", "cuda"):
        torch._assert_async(inside.all(), "targets must lie in [0, 1]")


def _is_readable(targets: Tensor) -> bool:
    """Tell whether labels can be looked at without waiting for a device, and outside of compiled code."""
    hidden = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return targets.device.type == "cpu" and not hidden


def align(logits: Tensor, targets: Tensor, sample_weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Bring logits, targets and weights to one shape, in float32 or wider; raise rather than broadcast."""
    # half-precision logits of a two-output head are subtracted in float32, or their difference loses digits
    wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    dense = logits.ndim > 2 and logits.shape == targets.shape  # one logit per pixel
    z = wide if dense else positive_logit(wide)
    if targets.ndim == z.ndim + 1 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.shape != z.shape:
        raise ValueError(
            f"targets must have shape {tuple(z.shape)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(targets.shape)}; give class numbers 0 and 1, not one-hot rows"
        )
    if sample_weight is not None and sample_weight.shape != z.shape:
        raise ValueError(f"sample_weight must have shape {tuple(z.shape)}, got {tuple(sample_weight.shape)}")
    return z, targets.to(z.dtype), None if sample_weight is None else sample_weight.to(z.dtype)


def align_classes(
    logits: Tensor, targets: Tensor, n_classes: int, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Check logits (n, K, ...), class numbers (n, ...) and weights of them; all in float32 or wider, and int64."""
    if logits.ndim < 2 or logits.shape[1] != n_classes:
        raise ValueError(f"logits must have shape (n, {n_classes}), one for each class, got {tuple(logits.shape)}")
    shape = (logits.shape[0], *logits.shape[2:])
    if logits.ndim == 2 and targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.shape != shape:
        raise ValueError(
            f"targets must have shape {tuple(shape)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(targets.shape)}; give class numbers from 0 to {n_classes - 1}, not one-hot rows"
        )
    if sample_weight is not None and sample_weight.shape != shape:
        raise ValueError(f"sample_weight must have shape {tuple(shape)}, got {tuple(sample_weight.shape)}")
    classes = targets.long()
    # elsewhere torch's own kernels assert that classes exist
    if _is_readable(targets):
        strange = ((classes < 0) & (classes != IGNORED)) | (classes >= n_classes) | (classes != targets)
        if bool(strange.any()):
            number = targets[strange][0].item()
            raise ValueError(f"targets must be class numbers from 0 to {n_classes - 1}, got {number:g}")
    z = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return z, classes, None if sample_weight is None else sample_weight.to(z.dtype)
