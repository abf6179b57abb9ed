"""Each member's own loss, computed side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from adacsl.torch.functional import summed_cross_entropy, weighted_focal_loss
from adacsl.training.members import Member


def member_losses(
    members: Sequence[Member], logits: Tensor, y: Tensor, weight: Tensor, offset: Tensor | None
) -> Tensor:
    """Return each member's weighted loss, mean over its heads: cross-entropy, focal or its own.

    Parameters
    ----------
    members : sequence of Member
        Whose losses.
    logits : Tensor of shape (rows, members, heads), or (rows, members, heads, classes) for more than two classes
    y, weight : Tensors of shape (rows, members)
        Labels, and how much each row counts.
    offset : Tensor of shape (members, 1) or (members, 1, classes), optional
        Added to the logits.
    """
    heads = logits.shape[2]
    # members first, rows behind each other: an element's place in its vector is the same alone and in company
    z = logits.transpose(0, 1).flatten(1, 2)
    z = z if offset is None else z + offset
    y, weight = (
        v.T[:, :, None].expand(-1, -1, heads).flatten(1) if heads > 1 else v.T.contiguous() for v in (y, weight)
    )
    special = [i for i, member in enumerate(members) if member.gamma or member.loss is not None]
    if not special:
        return _summed(z, y, weight) / heads
    plain = [i for i in range(len(members)) if i not in special]
    parts = {i: _special(members[i], z[i], y[i], weight[i]) for i in special}
    if plain:
        parts |= dict(zip(plain, _summed(z[plain], y[plain], weight[plain]), strict=True))
    return torch.stack([parts[i] for i in range(len(members))]) / heads


def _summed(z: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sums of cross-entropies, of each member."""
    return summed_cross_entropy(z, y, weight) if z.ndim == 2 else (_softmax_losses(z, y) * weight).sum(-1)


def _softmax_losses(z: Tensor, y: Tensor) -> Tensor:
    """Return -log softmax(z)_y, with classes on the last axis of z."""
    return F.cross_entropy(z.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)


def _special(member: Member, z: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    if member.loss is not None:
        return (member.loss(z, y) * weight).sum()
    if z.ndim == 1:
        return weighted_focal_loss(z, y, gamma=member.gamma, sample_weight=weight, reduction="sum")
    losses = _softmax_losses(z, y)
    # 1 - q of the true class; the power's slope at 0 is infinite for gamma < 1
    others = -torch.expm1(-losses)
    return (others.clamp(min=1e-30) ** member.gamma * losses * weight).sum()
