"""Logits of an epoch, collected in batches and processes: one place per row and member."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def spread_out(rows: Tensor, values: Tensor, n: int) -> Tensor:
    """Return n x members (x classes): each member's values at its own rows, zeros elsewhere.

    Examples
    --------
    >>> spread_out(torch.tensor([[2], [0]]), torch.tensor([[0.5], [0.7]]), 3)[:, 0].tolist()
    [0.699999988079071, 0.0, 0.5]
    """
    index = rows if values.ndim == 2 else rows[:, :, None].expand_as(values)
    return values.new_zeros(n, *values.shape[1:]).scatter_(0, index, values)


def gather_logits(parts: Sequence[tuple[Tensor, Tensor]], n: int, epoch: int, *, alone: bool) -> Tensor:
    """Return n x members (x classes) from (rows, logits) of several batches and, unless ``alone``, all processes."""
    rows, values = (torch.cat(own) for own in zip(*parts, strict=True))
    if not bool(torch.isfinite(values).all()):  # before a maximum over the processes hides it
        raise FloatingPointError(
            f"the net's output became NaN or infinite in epoch {epoch}: "
            "lower lr, or check the features for extreme values"
        )
    logits = spread_out(rows, values, n)
    if alone:
        return logits
    # a row repeated to fill a last batch holds the same value everywhere: the largest magnitude is that value
    low, high = logits.clone(), logits
    torch.distributed.all_reduce(low, torch.distributed.ReduceOp.MIN)
    torch.distributed.all_reduce(high, torch.distributed.ReduceOp.MAX)
    return torch.where(high > 0, high, low)
