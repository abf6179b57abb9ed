"""Logits of an epoch, collected in batches and processes: one place per row and member; and processes compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def check_alike(identity: Mapping[str, str], device: torch.device) -> None:
    """Refuse, in every process alike, what is not the same in all of them; ``identity`` holds digests by name."""
    own = torch.tensor(list(bytes.fromhex("".join(identity.values()))), dtype=torch.uint8, device=device)
    all_of_them = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(all_of_them, own)
    digests = torch.stack(all_of_them).cpu().view(len(all_of_them), len(identity), -1)
    if fault := difference(list(identity), digests):
        raise ValueError(fault)


def difference(names: Sequence[str], digests: Tensor) -> str:
    """Return in one line which processes have something else than the first one, and what; nothing where none has.

    Parameters
    ----------
    names : sequence of str
        Of what is compared.
    digests : Tensor of shape (processes, names, bytes)

    Examples
    --------
    >>> difference(["rows"], torch.tensor([[[7]], [[7]], [[8]]]))
    'other rows in process 2 than in process 0: every process of a fit needs the same data, settings and random_state'
    """
    other = (digests != digests[0]).any(2)
    if not other.any():
        return ""
    what = " and ".join(name for name, differs in zip(names, other.any(0), strict=True) if differs)
    which = ", ".join(str(rank) for rank, differs in enumerate(other.any(1)) if differs)
    return (
        f"other {what} in process {which} than in process 0: "
        "every process of a fit needs the same data, settings and random_state"
    )
