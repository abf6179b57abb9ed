"""Losses and a sampler for imbalanced classes, with the interface of the cost-sensitive losses.

They take the number of training samples of each class, and know no costs: compare their decisions by cost, at a
threshold that is tuned (:class:`~adacsl.integrations.torchmetrics.CostMetric`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Sampler

from adacsl.base.arrays import as_host, check_whole, number_or_nan
from adacsl.costs.matrix import CostMatrix, no_costs
from adacsl.torch.functional import Reduction, check_smoothing, cross_entropy_of
from adacsl.torch.losses import check_ignored
from adacsl.torch.samples import Batch, read_batch

__all__ = [
    "BalancedSoftmax",
    "ClassBalancedCrossEntropy",
    "CostSampler",
    "LDAMLoss",
    "LogitAdjustedCrossEntropy",
]


class _CountsLoss(nn.Module):
    """Cross-entropy whose logits or weights depend on how many samples of each class there are.

    Logits of two classes with one output are those of a softmax with outputs 0 and z.
    """

    offsets: Tensor
    weights: Tensor

    def __init__(
        self, counts: Any, reduction: Reduction, ignore_index: int | None, label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self.counts = check_counts(counts)
        self.reduction: Reduction = reduction
        self.ignore_index = check_ignored(ignore_index)
        self.label_smoothing = check_smoothing(label_smoothing)
        self.n_classes = len(self.counts)
        self.register_buffer("offsets", torch.zeros(self.n_classes), persistent=False)
        self.register_buffer("weights", torch.ones(self.n_classes), persistent=False)

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
        batch = read_batch(logits, targets, self.n_classes, sample_weight=sample_weight, ignore_index=self.ignore_index)
        batch = batch._replace(logits=self.adjusted(batch))
        if self.n_classes > 2:
            return cross_entropy_of(batch, self.weights, self.reduction, self.label_smoothing)
        losses = cross_entropy_of(batch, self.weights[0] / self.weights[1], self.reduction, self.label_smoothing)
        return losses * self.weights[1]

    def adjusted(self, batch: Batch) -> Tensor:
        """Return the logits that enter cross-entropy."""
        if self.n_classes == 2:
            return batch.logits + (self.offsets[1] - self.offsets[0])
        return batch.logits + self.offsets.view(-1, *[1] * (batch.logits.ndim - 2)).to(batch.logits.dtype)

    def extra_repr(self) -> str:
        return f"counts={self.counts.tolist()}, reduction={self.reduction!r}"


class LogitAdjustedCrossEntropy(_CountsLoss):
    r"""Cross-entropy of logits that are shifted by the class prior (Menon et al., ICLR 2021).

    .. math:: L = -\log \frac{\pi_y^\tau e^{z_y}}{\sum_k \pi_k^\tau e^{z_k}}

    Use it where the most probable class shall be that of a balanced population: with ``tau=1`` the argmax minimises the
    balanced error.

    Parameters
    ----------
    counts : sequence of K numbers
        Training samples of each class, or their shares.
    tau : float, default 1.0
        How far logits are shifted; 0 is cross-entropy.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch import LogitAdjustedCrossEntropy
    >>> loss = LogitAdjustedCrossEntropy([900, 100])
    >>> round(loss(torch.tensor([0.0, 0.0]), torch.tensor([1, 0])).item(), 4)
    1.204
    """

    def __init__(
        self,
        counts: Any,
        *,
        tau: float = 1.0,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(counts, reduction, ignore_index, label_smoothing)
        if not 0.0 <= number_or_nan(tau) < math.inf:
            raise ValueError(f"tau must not be negative, got {tau!r}: 1 is the usual choice")
        self.tau = float(tau)
        prior = self.counts / self.counts.sum()
        self.offsets.copy_(torch.from_numpy(self.tau * np.log(prior)))


class BalancedSoftmax(LogitAdjustedCrossEntropy):
    """Cross-entropy of a softmax whose terms are multiplied by the class counts (Ren et al., NeurIPS 2020).

    The logit adjustment with ``tau=1``: shares and counts differ by a constant, which a softmax does not see. Use it as
    the parameter-free choice for long-tailed classes.

    Parameters
    ----------
    counts : sequence of K numbers
        Training samples of each class, or their shares.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch import BalancedSoftmax
    >>> loss = BalancedSoftmax([900, 100])
    >>> round(loss(torch.tensor([0.0, 0.0]), torch.tensor([1, 0])).item(), 4)
    1.204
    """

    def __init__(
        self,
        counts: Any,
        *,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(counts, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)


class LDAMLoss(_CountsLoss):
    r"""Label-distribution-aware margin loss: rare classes get larger margins (Cao et al., NeurIPS 2019).

    .. math:: L = -\log \frac{e^{s (z_y - \Delta_y)}}{e^{s (z_y - \Delta_y)} + \sum_{k \neq y} e^{s z_k}}, \qquad
       \Delta_k = m \, \frac{n_k^{-1/4}}{\max_j n_j^{-1/4}}

    Use it with normalised features and classifier weights, for which its margins and scale are made, where rare classes
    overfit.

    Parameters
    ----------
    counts : sequence of K numbers
        Training samples of each class.
    max_margin : float, default 0.5
        The margin m of the rarest class.
    scale : float, default 30.0
        The scale s of the logits.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count; labels are class numbers: a margin has no soft label. Default: -100 of K
        classes, as torch's CrossEntropyLoss; none of two.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch import LDAMLoss
    >>> loss = LDAMLoss([900, 100])
    >>> loss(torch.tensor([2.0, -1.0]), torch.tensor([1, 0])).item() >= 0
    True
    """

    margins: Tensor

    def __init__(
        self,
        counts: Any,
        *,
        max_margin: float = 0.5,
        scale: float = 30.0,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
    ) -> None:
        super().__init__(counts, reduction, ignore_index)
        for name, value in (("max_margin", max_margin), ("scale", scale)):
            if not 0.0 < number_or_nan(value) < math.inf:
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        self.max_margin, self.scale = float(max_margin), float(scale)
        margins = self.counts**-0.25
        margins = margins * (self.max_margin / margins.max())
        self.register_buffer("margins", torch.from_numpy(margins).float(), persistent=False)

    def adjusted(self, batch: Batch) -> Tensor:
        """Return the logits less the margin of the true class, scaled."""
        z, y = batch.logits, batch.labels
        if self.n_classes == 2:
            # of two outputs: the margin of the positive class lowers z, that of the negative one raises it
            moved = z - torch.where(y > 0.5, self.margins[1], -self.margins[0]).to(z.dtype)
            return self.scale * moved
        if batch.soft:
            raise ValueError("LDAMLoss needs class numbers: a margin has no soft label; give targets.argmax(1)")
        own = y.clamp(min=0)
        margin = torch.zeros_like(z).scatter(1, own.unsqueeze(1), self.margins[own].unsqueeze(1).to(z.dtype))
        return self.scale * (z - margin)


class ClassBalancedCrossEntropy(_CountsLoss):
    r"""Cross-entropy with classes weighted by their inverse effective number of samples (Cui et al., CVPR 2019).

    .. math:: w_k \propto \frac{1 - \beta}{1 - \beta^{n_k}}, \qquad \sum_k w_k = K

    Use it where inverse frequencies are too extreme: ``beta`` near 1 comes close to these, 0 is cross-entropy.

    Parameters
    ----------
    counts : sequence of K numbers
        Training samples of each class.
    beta : float, default 0.999
        From 0 to less than 1.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch import ClassBalancedCrossEntropy
    >>> loss = ClassBalancedCrossEntropy([900, 100])
    >>> loss(torch.tensor([2.0, -1.0]), torch.tensor([1, 0])).item() > 0
    True
    """

    def __init__(
        self,
        counts: Any,
        *,
        beta: float = 0.999,
        reduction: Reduction = "mean",
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(counts, reduction, ignore_index, label_smoothing)
        if not 0.0 <= number_or_nan(beta) < 1.0:
            raise ValueError(f"beta must be from 0 to less than 1, got {beta!r}")
        self.beta = float(beta)
        # 1 - beta^n without loss of digits
        effective = -np.expm1(self.counts * math.log(self.beta)) if self.beta else np.ones(self.n_classes)
        weights = 1.0 / effective
        self.weights.copy_(torch.from_numpy(weights * (self.n_classes / weights.sum())))


class CostSampler(Sampler[int]):
    """Sampler that draws in proportion to the cost of errors, for a ``DataLoader(sampler=...)``.

    Parameters
    ----------
    labels : array of shape (n,)
        Class numbers of the training samples.
    costs : CostMatrix
        Class-wide or per sample. Of K classes a sample counts by the mean cost of errors about its class.
    num_samples : int, optional
        How many are drawn in an epoch. Default: n.
    seed : int, default 0
        Seed of the draws; each epoch continues the same stream (see :meth:`set_epoch`).

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.torch import CostSampler
    >>> sampler = CostSampler([0, 0, 0, 1], CostMatrix(fp=1, fn=9))
    >>> [round(float(share), 3) for share in sampler.shares]
    [0.083, 0.083, 0.083, 0.75]
    >>> len(list(sampler))
    4
    """

    def __init__(self, labels: Any, costs: CostMatrix, *, num_samples: int | None = None, seed: int = 0) -> None:
        if not isinstance(costs, CostMatrix):
            raise no_costs(costs)
        y = np.asarray(
            as_host(labels) if hasattr(labels, "__array_namespace__") or isinstance(labels, Tensor) else labels
        )
        if y.ndim != 1 or len(y) == 0 or (y != np.round(y)).any() or y.min() < 0 or y.max() >= costs.n_classes:
            raise ValueError(f"labels must be class numbers from 0 to {costs.n_classes - 1}, one for each sample")
        if num_samples is not None:
            check_whole("num_samples", num_samples)
        stakes = sample_stakes(y.astype(np.int64), costs)
        if not stakes.sum() > 0:
            raise ValueError("errors about these samples cost nothing: there is nothing to draw by")
        self.shares = stakes / stakes.sum()
        self.num_samples, self.seed, self.epoch = num_samples or len(y), int(seed), 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch whose draws are repeated, for a resumed run; otherwise each pass is a new epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch.
        """
        self.epoch = int(epoch)

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng((self.seed, self.epoch))
        self.epoch += 1
        return iter(rng.choice(len(self.shares), size=self.num_samples, p=self.shares).tolist())


def sample_stakes(labels: Any, costs: CostMatrix) -> Any:
    """Return what an error about each sample costs more than being right; of K classes the mean of all errors."""
    if costs.n_classes == 2:
        stakes = np.where(labels == 1, as_host(costs.fn - costs.tp), as_host(costs.fp - costs.tn))
        return np.broadcast_to(stakes, labels.shape).astype(np.float64)
    return np.asarray(costs.class_weights())[labels]


def check_counts(counts: Sequence[float] | Any) -> Any:
    """Return class counts as an array, or raise."""
    values = np.asarray(as_host(counts) if isinstance(counts, Tensor) else counts, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not bool((values > 0).all() and np.isfinite(values).all()):
        raise ValueError(f"counts must be the positive numbers of samples of two or more classes, got {counts!r}")
    return values
