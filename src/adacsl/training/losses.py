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
        # stacked, not indexed by a list: that would be a copy to the GPU, which no recording can hold
        chosen = (torch.stack([values[i] for i in plain]) for values in (z, y, weight))
        parts |= dict(zip(plain, _summed(*chosen), strict=True))
    return torch.stack([parts[i] for i in range(len(members))]) / heads


def _summed(z: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sums of cross-entropies, of each member."""
    if z.ndim == 2:
        return summed_cross_entropy(z, y, weight)
    return (F.cross_entropy(z.flatten(0, 1), y.flatten(), reduction="none").view(y.shape) * weight).sum(-1)


def _special(member: Member, z: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    if member.loss is not None:
        return (member.loss(z, y) * weight).sum()
    one = 1.0 if z.ndim == 1 else z.new_ones(z.shape[1])
    return weighted_focal_loss(z, y, one, gamma=member.gamma, sample_weight=weight, reduction="sum")
