"""Samples of a batch: from logits and targets of any shape to flat logits, flat labels and weights.

:func:`read_batch` brings logits, targets and weights of every supported shape to one layout; losses compute on it
without leaving the device. :meth:`Batch.rows` makes one row per sample of it, for measuring: `adapt`, callbacks and the
metric.

==============  ===========================================================  ========================================
problem         logits                                                       targets
==============  ===========================================================  ========================================
two classes     (B,), (B, 1), (B, 2), (B, H, W), (B, 1, H, W), (B, 2, H, W)  (B,), (B, 1), (B, H, W), (B, 1, H, W)
two classes     tokens (B, T, 1), (B, T, 2)                                  (B, T)
K classes       (B, K), (B, K, H, W)                                         (B,), (B, 1), (B, H, W), (B, 1, H, W)
K classes       tokens (B, T, K)                                             (B, T)
one-hot, soft   (B, 2), (B, 2, H, W), (B, K), (B, K, H, W), (B, T, K)        the shape of the logits
L labels        (B, L), (B, L, H, W), tokens (B, T, L)                       the shape of the logits
==============  ===========================================================  ========================================
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100
"""torch's number for samples that do not count."""

HALF = (torch.float16, torch.bfloat16)


class Samples(NamedTuple):
    """Samples, one row each: logits (n,), (n, K) or (n, L), labels (n,) or (n, L), weights, and place in the batch."""

    logits: Tensor
    labels: Tensor
    weight: Tensor | None
    place: Tensor
    n_labels: int | None = None

    @property
    def scores(self) -> Tensor:
        """The probabilities: a softmax over K classes, else a sigmoid."""
        if self.logits.ndim == 1 or self.n_labels is not None:
            return torch.sigmoid(self.logits)
        return torch.softmax(self.logits, dim=1)

    @property
    def weights(self) -> Tensor:
        """How much each sample counts, of labels (n, L); 1 where no weights are given."""
        if self.weight is not None:
            return self.weight
        return torch.ones_like(self.logits if self.n_labels is not None or self.logits.ndim == 1 else self.logits[:, 0])


class Batch(NamedTuple):
    """A batch in one layout; classes or labels are axis 1 of the logits.

    Attributes
    ----------
    logits : Tensor
        Of two classes the logit of each sample, (n, ...); of K classes (n, K, ...); of L labels (n, L, ...). In float32
        or wider.
    labels : Tensor
        Of two classes and of labels: numbers in [0, 1], in the shape and type of the logits. Of K classes: class
        numbers, int64, (n, ...), or probabilities in the shape of the logits.
    weight : Tensor or None
        How much each sample counts, in the shape of the losses.
    counted : Tensor of bool, or None
        Which samples are not ignored, in the shape of the losses; None: all. Labels of the others are 0, and of K
        classes -100, which torch's cross-entropy leaves out.
    n_classes : int
        How many classes there are.
    size : int
        The number of samples along the first axis of the batch.
    n_labels : int, optional
        How many labels there are.
    shape : torch.Size
        The shape of the losses, as the targets have it.
    """

    logits: Tensor
    labels: Tensor
    weight: Tensor | None
    counted: Tensor | None
    n_classes: int
    size: int
    n_labels: int | None
    shape: torch.Size

    @property
    def soft(self) -> bool:
        """Whether labels of K classes are probabilities."""
        return self.labels.is_floating_point()

    def rows(self) -> Samples:
        """Return one row per sample (of maps: per pixel) without those that are ignored.

        A soft label becomes one row per class, weighted by its probability: the mean cost is then the expected cost.
        """
        if self.n_labels is not None:
            return self._label_rows()
        per_sample = max(self.size, 1)
        binary = self.n_classes == 2
        if binary:
            z, y = self.logits.reshape(-1), self.labels.reshape(-1)
        else:
            z = self.logits.movedim(1, -1).reshape(-1, self.logits.shape[1])
            y = self.labels.movedim(1, -1).reshape(z.shape) if self.soft else self.labels.reshape(-1)
        place = torch.arange(self.size, device=z.device).repeat_interleave(len(z) // per_sample)
        weight = None if self.weight is None else self.weight.reshape(-1)
        if self.counted is not None and not bool(self.counted.all()):
            kept = self.counted.reshape(-1)
            z, y, place = z[kept], y[kept], place[kept]
            weight = None if weight is None else weight[kept]
        if not self.soft:
            return Samples(z, y, weight, place)
        shares = torch.stack((1.0 - y, y), dim=1) if binary else y
        hard = bool(((y == 0.0) | (y == 1.0)).all())
        if binary and (hard or bool(((y < 0.0) | (y > 1.0)).any())):  # what is no label is refused where it is counted
            return Samples(z, y, weight, place)
        if hard:
            return Samples(z, shares.argmax(1), weight, place)
        k, n = shares.shape[1], len(z)
        weight = shares.reshape(-1) if weight is None else (shares * weight[:, None]).reshape(-1)
        labels = torch.arange(k, device=z.device).repeat(n)
        there = weight > 0.0
        each = torch.arange(n, device=z.device).repeat_interleave(k)[there]
        return Samples(z[each], labels[there], weight[there], place[each])

    def _label_rows(self) -> Samples:
        """Return rows of L labels; ignored labels have weight 0."""
        count = self.logits.shape[1]

        def flat(values: Tensor) -> Tensor:
            return values.movedim(1, -1).reshape(-1, count)

        z, y = flat(self.logits), flat(self.labels)
        weight = None if self.weight is None else flat(self.weight)
        if self.counted is not None and not bool(self.counted.all()):
            there = flat(self.counted)
            weight = there.to(z.dtype) if weight is None else weight * there
        place = torch.arange(self.size, device=z.device).repeat_interleave(len(z) // max(self.size, 1))
        if not bool(((y == 0.0) | (y == 1.0)).all()):
            raise ValueError("targets of several labels must be 0 or 1 where costs are measured: soft ones only train")
        return Samples(z, y, weight, place, count)


def read_batch(
    logits: Tensor,
    targets: Tensor,
    n_classes: int = 2,
    *,
    n_labels: int | None = None,
    sample_weight: Tensor | None = None,
    ignore_index: int | None = None,
    check: bool = True,
) -> Batch:
    """Return a batch in one layout, whatever the shapes of logits and targets; raise rather than broadcast.

    Parameters
    ----------
    logits, targets : Tensor
        Of the shapes in the table above; see :mod:`adacsl.torch.samples`.
    n_classes : int, default 2
        How many classes there are.
    n_labels : int, optional
        Of multi-label problems, the number of labels: each is a problem of two classes.
    sample_weight : Tensor, optional
        Multiplies the loss of each sample; in the shape of the losses, of several labels also (B,).
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    check : bool, default True
        Whether labels are looked at.
    """
    wide = logits.float() if logits.dtype in HALF else logits
    if n_labels is not None:
        return _several_labels(wide, targets, n_labels, sample_weight, ignore_index, check=check)
    if n_classes == 2:
        return _two_classes(wide, targets, sample_weight, ignore_index, check=check)
    return _many_classes(wide, targets, n_classes, sample_weight, ignore_index, check=check)


def flat_samples(
    logits: Tensor,
    targets: Tensor,
    n_classes: int = 2,
    *,
    n_labels: int | None = None,
    sample_weight: Tensor | None = None,
    ignore_index: int | None = None,
) -> Samples:
    """Return the samples of a batch that count, one row each, detached.

    Parameters
    ----------
    logits : Tensor
        Of any shape that a loss takes.
    targets : Tensor
        Labels.
    n_classes : int, default 2
        The number of classes.
    n_labels : int, optional
        The number of labels, of multi-label problems.
    sample_weight : Tensor, optional
        How much each sample counts.
    ignore_index : int, optional
        Samples with this label are left out. Default: -100 of K classes; none of two.

    Returns
    -------
    Samples
        Flat logits, labels and weights, and the place of each in the batch.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch import flat_samples
    >>> logits, targets = torch.zeros(2, 1, 4, 4), torch.zeros(2, 4, 4)
    >>> targets[0, 0, 0] = 255
    >>> rows = flat_samples(logits, targets, ignore_index=255)
    >>> rows.logits.shape, rows.labels.shape
    (torch.Size([31]), torch.Size([31]))
    """
    weight = None if sample_weight is None else sample_weight.detach()
    batch = read_batch(
        logits.detach(), targets.detach(), n_classes, n_labels=n_labels, sample_weight=weight,
        ignore_index=ignore_index, check=False,
    )  # fmt: skip
    return batch.rows()


# two classes


def _two_classes(
    logits: Tensor, targets: Tensor, sample_weight: Tensor | None, ignore_index: int | None, *, check: bool
) -> Batch:
    z, y, shape = _binary(logits, targets)
    counted = None
    if ignore_index is not None:
        counted = y != ignore_index
        y = torch.where(counted, y, torch.zeros((), dtype=y.dtype, device=y.device))
    if check:
        check_labels(y)
    weight = _weight(sample_weight, z.shape, shape, z.dtype)
    return Batch(z, y.to(z.dtype), weight, counted, 2, logits.shape[0], None, shape)


def _binary(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, torch.Size]:
    """Return one logit and one label per sample, in one shape, and the shape of the losses."""
    if logits.ndim > 1 and logits.shape == targets.shape:
        if logits.shape[1] == 1:
            z = logits[:, 0]
            return z, targets[:, 0], z.shape
        if logits.shape[1] == 2 and logits.ndim != 3:  # one-hot or soft labels of a softmax head
            z = logits[:, 1] - logits[:, 0]
            check_shares(targets)
            return z, targets[:, 1], z.shape
        if logits.ndim > 2:  # one logit per pixel
            return logits, targets, logits.shape
    if logits.ndim == 3 and _is_of_tokens(logits, targets):
        z = logits[..., 0] if logits.shape[2] == 1 else logits[..., 1] - logits[..., 0]
        return z, targets, z.shape
    z = positive_logit(logits)
    if targets.ndim == z.ndim + 1 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.shape != z.shape:
        raise ValueError(
            f"targets must have shape {tuple(z.shape)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(targets.shape)}; give class numbers 0 and 1, or one-hot rows for two outputs"
        )
    return z, targets, z.shape


def _is_of_tokens(logits: Tensor, targets: Tensor) -> bool:
    """Return whether logits of three axes are tokens with one or two outputs; raise where they may be maps as well."""
    if logits.shape[2] > 2 or targets.shape != logits.shape[:2]:
        return False
    of_maps = targets.shape == (logits.shape[0], logits.shape[2]) and logits.shape[1] <= 2
    if of_maps and logits.shape[1] == logits.shape[2] == 2:
        raise ambiguous(logits)
    return not of_maps


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

    Raises
    ------
    ValueError
        Where the shape is another.

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
        f"logits must have shape (n,), (n, 1) or (n, 2), got {tuple(logits.shape)}; K classes need K x K costs, and "
        "several labels a list of costs"
    )


# K classes


def _many_classes(
    logits: Tensor, targets: Tensor, k: int, sample_weight: Tensor | None, ignore_index: int | None, *, check: bool
) -> Batch:
    squeezed = targets.ndim == logits.ndim > 1 and targets.shape[1] == 1
    own = targets[:, 0] if squeezed else targets
    size, axis = logits.shape[0] if logits.ndim else 0, _class_axis(logits, own, k)
    shape = torch.Size([*logits.shape[:axis], *logits.shape[axis + 1 :]])
    soft = targets.shape == logits.shape
    if not soft and own.shape != shape:
        raise ValueError(
            f"targets must have shape {tuple(shape)} for logits of shape {tuple(logits.shape)}, "
            f"got {tuple(targets.shape)}; give class numbers from 0 to {k - 1}, or one-hot rows of the logits' shape"
        )
    if axis > 1:  # tokens: one row each, without a copy
        logits, own = logits.reshape(-1, k), own.reshape(-1, k) if soft else own.reshape(-1)
        flat = torch.Size([own.shape[0]])
    else:
        flat = shape
    weight = _weight(sample_weight, flat, shape, logits.dtype)
    if soft:
        check_shares(own)
        return Batch(logits, own.to(logits.dtype), weight, None, k, size, None, shape)
    ignored = IGNORED if ignore_index is None else ignore_index
    classes = own.long()
    counted = own != ignored
    # elsewhere torch's own kernels assert that classes exist
    if _is_readable(targets):
        strange = ((classes < 0) | (classes >= k) | (classes != own)) & counted
        if bool(strange.any()):
            number = own[strange][0].item()
            raise ValueError(f"targets must be class numbers from 0 to {k - 1}, got {number:g}")
    if ignored != IGNORED:
        classes = torch.where(counted, classes, torch.full((), IGNORED, dtype=classes.dtype, device=classes.device))
    return Batch(logits, classes, weight, counted, k, size, None, shape)


def _class_axis(logits: Tensor, targets: Tensor, k: int) -> int:
    """Return which axis of the logits holds the classes: 1, or of tokens the last."""
    first, last = logits.ndim > 1 and logits.shape[1] == k, logits.ndim == 3 and logits.shape[-1] == k
    if not (first or last):
        raise ValueError(f"logits must have shape (n, {k}), one for each class, got {tuple(logits.shape)}")
    if not last:
        return 1
    if targets.shape != logits.shape:  # decided by the labels, unless both fit
        first = first and targets.shape == (logits.shape[0], *logits.shape[2:])
        last = targets.shape == logits.shape[:-1]
    if first and last:
        raise ambiguous(logits)
    return 1 if first else logits.ndim - 1


def ambiguous(logits: Tensor) -> ValueError:
    """Return the error about logits whose classes may be on either axis."""
    return ValueError(
        f"logits of shape {tuple(logits.shape)} may be tokens x classes or classes x positions: give one row per "
        "sample; of tokens, logits.flatten(0, 1) and targets.flatten(0, 1)"
    )


# several labels


def _several_labels(
    logits: Tensor, targets: Tensor, count: int, sample_weight: Tensor | None, ignore_index: int | None, *, check: bool
) -> Batch:
    if targets.shape != logits.shape:
        raise ValueError(
            f"targets of {count} labels must have the shape of the logits, {tuple(logits.shape)}, got "
            f"{tuple(targets.shape)}: 0 or 1 for each label"
        )
    size, shape = logits.shape[0], logits.shape
    if _label_axis(logits, count) == 2:  # tokens
        logits, targets = logits.reshape(-1, count), targets.reshape(-1, count)
        if sample_weight is not None and sample_weight.shape == shape:
            sample_weight = sample_weight.reshape(-1, count)
    counted = None
    if ignore_index is not None:
        counted = targets != ignore_index
        targets = torch.where(counted, targets, torch.zeros((), dtype=targets.dtype, device=targets.device))
    if check:
        check_labels(targets)
    if sample_weight is not None and sample_weight.shape == (logits.shape[0],):
        sample_weight = sample_weight.view(-1, *[1] * (logits.ndim - 1)).expand(logits.shape)
    weight = _weight(sample_weight, logits.shape, logits.shape, logits.dtype)
    return Batch(logits, targets.to(logits.dtype), weight, counted, 2, size, count, shape)


def _label_axis(logits: Tensor, count: int) -> int:
    """Return which axis of the logits holds the labels: 1, or of tokens 2."""
    first, last = logits.ndim > 1 and logits.shape[1] == count, logits.ndim == 3 and logits.shape[2] == count
    if not (first or last):
        raise ValueError(f"logits must have shape (n, {count}), one for each label, got {tuple(logits.shape)}")
    if first and last:
        raise ambiguous(logits)
    return 1 if first else 2


# checks


def _weight(sample_weight: Tensor | None, shape: torch.Size, given: torch.Size, dtype: torch.dtype) -> Tensor | None:
    if sample_weight is None:
        return None
    if sample_weight.shape not in (shape, given):
        raise ValueError(f"sample_weight must have shape {tuple(given)}, got {tuple(sample_weight.shape)}")
    return sample_weight.to(dtype).reshape(shape)


def check_labels(targets: Tensor) -> None:
    """Raise where a label of two classes lies outside [0, 1].

    Compiled code and CUDA devices assert on their own, so that nothing waits for them.
    """
    # under vmap there are no values to read
    if targets.dtype == torch.bool or torch._C._are_functorch_transforms_active():
        return
    if _is_readable(targets):
        if targets.numel() == 0:
            return
        low, high = torch.aminmax(targets)  # one pass; NaN is neither
        if not (low.item() >= 0.0 and high.item() <= 1.0):
            inside = targets == targets.clamp(0, 1)
            raise ValueError(
                f"targets must lie in [0, 1], got {targets[~inside][0].item():g}; give 0 for the negative class and 1 "
                "for the positive one, and name the label of samples that do not count: ignore_index=-100"
            )
    elif targets.device.type in ("cpu", "cuda"):
        inside = targets == targets.clamp(0, 1)
        torch._assert_async(inside.all(), "targets must lie in [0, 1]")


def check_shares(targets: Tensor) -> None:
    """Raise where one-hot or soft rows, classes on axis 1, are no probabilities."""
    if not _is_readable(targets):
        return
    total = targets.sum(1, dtype=torch.float32 if targets.dtype in HALF or not targets.is_floating_point() else None)
    wrong = ((total - 1.0).abs() > 1e-2) | (targets < 0).any(1)
    if bool(wrong.any()):
        raise ValueError(
            "targets of the shape of the logits must be one-hot or soft rows that sum to 1, "
            f"got a row with the sum {total[wrong][0].item():g}; several labels need a list of costs"
        )


def _is_readable(targets: Tensor) -> bool:
    """Return whether labels can be read: no device synchronisation, no compiled code."""
    hidden = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return targets.device.type == "cpu" and not hidden


# scores without targets


def output_scores(logits: Tensor, n_classes: int, n_labels: int | None = None) -> tuple[Tensor, torch.Size]:
    """Return the scores of any logits that a loss takes, one row per sample, and the shape of their decisions."""
    wide = logits.detach().float() if logits.dtype in HALF else logits.detach()
    if n_labels is not None:
        z = wide.movedim(_label_axis(wide, n_labels), -1)
        return torch.sigmoid(z.reshape(-1, n_labels)), z.shape
    if n_classes == 2:
        if wide.ndim == 3 and wide.shape[2] == 2:  # tokens of two outputs
            if wide.shape[1] == 2:
                raise ambiguous(logits)
            z = wide[..., 1] - wide[..., 0]
        else:
            z = positive_logit(wide)
        return torch.sigmoid(z.reshape(-1)), z.shape
    axis = _class_axis(wide, wide, n_classes)
    z = wide.movedim(axis, -1)
    return torch.softmax(z.reshape(-1, n_classes), dim=1), z.shape[:-1]


def smoothed(labels: Tensor, smoothing: float, n_classes: int) -> Tensor:
    """Return labels of two classes, or probabilities of K, moved towards the uniform distribution."""
    return labels * (1.0 - smoothing) + smoothing / n_classes if smoothing else labels


def as_shares(labels: Tensor, n_classes: int, dtype: torch.dtype) -> Tensor:
    """Return class numbers (n, ...) as one-hot rows (n, K, ...)."""
    return F.one_hot(labels, n_classes).movedim(-1, 1).to(dtype)
