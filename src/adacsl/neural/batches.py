"""Batches of sample indices, one stream per network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adacsl.neural.members import Member, batch_shape, mix


class MemberBatches:
    """Blocks of training batches, batch x members; the samples themselves stay on the device.

    The order of an epoch depends on a member's seed and the epoch alone, so that a resumed run sees the same batches.
    Batches are of nearly equal size, at most ``batch_size``: a last batch of one sample would be noise, and batch norms
    would raise. Side by side, columns are filled up with -1, to a length that only depends on members of the same fit.
    Every process gets the batches of the whole group, and takes its share of each (:func:`share_of_batch`): they do not
    depend on the number of processes.
    """

    def __init__(
        self, members: Sequence[Member], batch_size: int, epoch: Callable[[], int], *, filled: bool, block: int
    ) -> None:
        self.members, self.epoch, self.filled, self.block = members, epoch, filled, block
        self.batches, self.width = batch_shape([len(m.train) for m in members], batch_size)
        self.device = torch.device("cpu")

    def __len__(self) -> int:
        return math.ceil(self.batches / self.block)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        epoch = self.epoch()
        if self.filled:
            columns = [_filled(_order(member, epoch), self.batches, self.width) for member in self.members]
            batches = list(torch.stack(columns, dim=2).to(self.device))
        else:
            rows = _order(self.members[0], epoch).to(self.device)
            batches = list(torch.tensor_split(rows[:, None], self.batches))
        for start in range(0, self.batches, self.block):
            yield tuple(batches[start : start + self.block])


class RowBatches:
    """Batches of samples that are looked at in order, one column of row numbers per member."""

    def __init__(self, rows: Tensor, batch_size: int) -> None:
        self.rows, self.batches = rows, math.ceil(len(rows) / batch_size)

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for batch in torch.tensor_split(self.rows, self.batches):
            yield (batch,)


def side_by_side(parts: Sequence[NDArray[Any]]) -> Tensor:
    """Return one column of sample numbers per member; shorter ones are repeated from their beginning."""
    longest = max(len(part) for part in parts)
    return torch.from_numpy(np.stack([np.resize(part, longest) for part in parts], axis=1).astype(np.int64))


def share_of_batch(batch: Tensor) -> tuple[Tensor, int]:
    """Return this process's samples of a batch, and the factor that makes the processes' mean loss the batch's."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return batch, 1
    world = torch.distributed.get_world_size()
    # every process needs at least one sample: a batch smaller than the group goes to all of them
    return (batch[torch.distributed.get_rank() :: world], world) if len(batch) >= world else (batch, 1)


def smote_batch(x: Tensor, y: Tensor, neighbours: int = 5) -> tuple[Tensor, Tensor]:
    """Fill up the rarer classes of a batch of images with mixtures of neighbours, in pixels: the paper's baseline."""
    counts = torch.bincount(y.long()).tolist()
    filled_x, filled_y = [x], [y]
    for label, count in enumerate(counts):
        if 2 <= count < max(counts):
            made = _mixtures(x[y == label], max(counts) - count, neighbours)
            filled_x.append(made)
            filled_y.append(torch.full((len(made),), label, dtype=y.dtype, device=y.device))
    return (torch.cat(filled_x), torch.cat(filled_y)) if len(filled_x) > 1 else (x, y)


def _mixtures(own: Tensor, missing: int, neighbours: int) -> Tensor:
    """Return ``count`` interpolations of the given images and their neighbours."""
    flat = own.flatten(1)
    distance = torch.cdist(flat, flat).fill_diagonal_(float("inf"))
    near = distance.topk(min(neighbours, len(own) - 1), largest=False).indices
    first = torch.randint(len(own), (missing,), device=own.device)
    second = near[first, torch.randint(near.shape[1], (missing,), device=own.device)]
    share = torch.rand(missing, 1, 1, 1, device=own.device)
    return own[first] + share * (own[second] - own[first])


def _order(member: Member, epoch: int) -> Tensor:
    """Return the samples of one epoch in the order they are trained on."""
    seed = mix(member.seed, epoch)
    rows = torch.from_numpy(np.asarray(member.train, dtype=np.int64))
    if member.pools is not None:
        drawing = torch.Generator().manual_seed(mix(seed, 1))
        pools = [torch.from_numpy(np.asarray(pool, dtype=np.int64)) for pool in member.pools]
        # the last class first; what cannot be shared out evenly goes to those before it
        counts = [(len(rows) + i) // len(pools) for i in range(len(pools))]
        rows = torch.cat([_draw(*each, drawing) for each in zip(reversed(pools), counts, strict=True)])
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]


def _draw(pool: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return samples of a pool in random order; each is taken again only after all others were."""
    rounds = math.ceil(max(count, 1) / len(pool))
    return torch.cat([pool[torch.randperm(len(pool), generator=generator)] for _ in range(rounds)])[:count]


def _filled(rows: Tensor, batches: int, width: int) -> Tensor:
    """Return samples as batches x width, each batch filled up with -1."""
    out = torch.full((batches, width), -1, dtype=torch.int64)
    for number, part in enumerate(torch.tensor_split(rows, batches)):
        out[number, : len(part)] = part
    return out
