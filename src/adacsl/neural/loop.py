"""The training loop on Lightning: losses, optimisers, controllers, epoch selection, devices, checkpoints, interrupts.

The members of a :class:`~adacsl.torch.tabular.MemberNet` run as one batched computation; other networks train
one by one. A member's result depends on its own samples, seed and settings alone: its batches, dropout, gradient
clipping and patience are its own, and no number of it is computed in an order that depends on who stands beside it.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from adacsl.adaptive.controller import AdaCSLController
from adacsl.integrations.lightning import ShardedNet, pl
from adacsl.neural.batches import MemberBatches, RowBatches, share_of_batch, side_by_side, smote_batch
from adacsl.neural.checkpoints import Checkpoints, KeepLast
from adacsl.neural.cuda_graphs import RecordedPass, can_record, uncached_autocast
from adacsl.neural.device import alone, choose_device
from adacsl.neural.epoch_selection import Keeper
from adacsl.neural.members import Data, Member, Settings, mix
from adacsl.torch.functional import summed_cross_entropy, weighted_focal_loss
from adacsl.torch.tabular import MemberNet, member_logits


def member_losses(
    members: Sequence[Member], logits: Tensor, y: Tensor, weight: Tensor, offset: Tensor | None
) -> Tensor:
    """Return each member's weighted loss, mean over its heads: cross-entropy, focal or its own.

    Parameters
    ----------
    members : sequence of Member
        Whose losses.
    logits : Tensor of shape (samples, members, heads), or (samples, members, heads, classes) for more than two classes
    y, weight : Tensors of shape (samples, members)
        Labels, and how much each sample counts.
    offset : Tensor of shape (members, 1) or (members, 1, classes), optional
        Added to the logits.
    """
    heads = logits.shape[2]
    # members first, samples contiguous: an element's position in its vector is the same alone and jointly
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
        # stacked, not indexed by a list: that would be a copy to the GPU, which cannot be recorded
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


def make_optimizer(net: nn.Module, settings: Settings, *, fused: bool) -> torch.optim.Optimizer:
    """Return the optimiser; biases and norms are not decayed, and some networks have rates of their own."""
    if callable(settings.optimizer):
        return settings.optimizer(net.parameters(), lr=settings.learning_rate)
    trainable = [(n, p) for n, p in net.named_parameters() if p.requires_grad]
    plain = {n for n, p in trainable if n.endswith("bias") or "norm" in n or "bn" in n}
    rates = net.rates if isinstance(net, MemberNet) else {}
    plain |= set(rates)
    groups: list[dict[str, Any]] = [
        {"params": [p for n, p in trainable if n not in plain], "weight_decay": settings.weight_decay},
        {"params": [p for n, p in trainable if n in plain and n not in rates], "weight_decay": 0.0},
    ]
    groups += [
        {"params": [p], "weight_decay": 0.0, "lr": settings.learning_rate * rates[n]}
        for n, p in trainable
        if n in rates
    ]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=fused)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=0.9, nesterov=True, fused=fused)
    raise ValueError(f"optimizer must be 'adamw', 'sgd' or a callable, got {settings.optimizer!r}")


def make_schedule(
    optimizer: torch.optim.Optimizer, settings: Settings, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """Return the schedule of the learning rate: warm up and fall along a cosine, warm up and stay, or stay."""
    if settings.schedule == "constant":
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    if settings.schedule == "warm-constant":
        rise = min(WARM_STEPS, max(steps // 10, 1))
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / rise))
    warm = min(0.15, 500 / steps) if steps > 10 else 0.0
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm_cosine(step / steps, warm))


def warm_cosine(progress: float, warm: float) -> float:
    """Rise linearly over the first ``warm`` of training, then fall along a cosine to zero."""
    if progress < warm:
        return (progress + 1e-3) / (warm + 1e-3)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, (progress - warm) / (1.0 - warm))))


def clip_each_member(net: nn.Module, limit: float) -> None:
    """Shorten each member's gradient to the limit: a common norm would leak information between members."""
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    # each member's norms lie side by side: added up along the other axis, their order would depend on the other members
    norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients], dim=1)
    norms = torch.linalg.vector_norm(norms, dim=1)
    scale = (limit / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))


def weights_now(members: Sequence[Member], n_classes: int) -> Tensor:
    """Return the weight of the negatives in each member's loss; for more than two classes members x classes.

    Examples
    --------
    >>> none = np.empty(0, dtype=np.int64)
    >>> weights_now([Member(none, none, weight=0.25)], 2), weights_now([Member(none, none)], 3)
    (tensor([0.2500]), tensor([[1., 1., 1.]]))
    """
    if n_classes == 2:
        return torch.tensor([m.negative_weight for m in members], dtype=torch.float32)
    return torch.from_numpy(np.stack([m.class_weights(n_classes) for m in members]).astype(np.float32))


def offsets_of(members: Sequence[Member], n_classes: int) -> Tensor:
    """Return what is added to each member's logits in its loss: members x 1 (x classes)."""
    if n_classes == 2:
        return torch.tensor([float(m.offset) for m in members])[:, None]
    rows = [np.broadcast_to(np.asarray(m.offset, dtype=np.float32), (n_classes,)) for m in members]
    return torch.from_numpy(np.stack(rows))[:, None]


def row_weights_of(members: Sequence[Member], n: int) -> Tensor | None:
    """Return the weight of each of n samples in each member's loss, n x members; None where they are equal.

    Samples beyond those of a member were synthesised for others.
    """
    if all(member.row_weights is None for member in members):
        return None
    weights = torch.ones(n, len(members))
    for column, member in enumerate(members):
        if member.row_weights is not None:
            weights[: len(member.row_weights), column] = torch.from_numpy(member.row_weights).float()
    return weights


def trained_with(member: Member, n_classes: int) -> dict[str, Any]:
    """Return the weights (and lambdas) of a member's loss now, for the history: one number for two classes."""
    controller = member.controller
    if n_classes == 2:
        about: dict[str, Any] = {"weight": member.negative_weight}
        return about if controller is None else about | {"lambda": controller.lambda_}
    about = {"weights": member.class_weights(n_classes).tolist()}
    return about if controller is None else about | {"lambdas": controller.lambdas.tolist()}


def step_controller(
    controller: AdaCSLController,
    member: Member,
    data: Data,
    logits: Tensor,
    rows: NDArray[Any],
    columns: NDArray[Any],
) -> dict[str, Any]:
    """Step a controller on the logits in these samples and columns.

    Return the cost-optimal threshold that it found, or for more than two classes the cost-optimal multipliers.
    ``member`` is one of those it adapts, for the costs of each sample.
    """
    device, two = data.y.device, data.n_classes == 2
    there = torch.as_tensor(rows, device=device)
    own, labels = logits[there, torch.as_tensor(columns, device=device)], data.y[there]
    step = controller.step(
        _light(torch.sigmoid(own) if two else torch.softmax(own, 1)),
        _light(labels > 0.5 if two else labels),
        costs=None if member.costs is None else member.costs.rows(rows),
        sample_weight=None if data.sample_weight is None else _light(data.sample_weight[there]),
    )
    return {"threshold": step.threshold} if two else {"multipliers": [float(m) for m in step.multipliers]}


def _light(values: Tensor) -> Any:
    """Return host values as a NumPy array, whose operations on few of them take half as long."""
    return values.numpy() if values.device.type == "cpu" else values


def spread_out(rows: Tensor, values: Tensor, n: int) -> Tensor:
    """Return n x members (x classes): each member's values at its own samples, zeros elsewhere.

    Examples
    --------
    >>> spread_out(torch.tensor([[2], [0]]), torch.tensor([[0.5], [0.7]]), 3)[:, 0].tolist()
    [0.699999988079071, 0.0, 0.5]
    """
    index = rows if values.ndim == 2 else rows[:, :, None].expand_as(values)
    return values.new_zeros(n, *values.shape[1:]).scatter_(0, index, values)


def gather_logits(parts: Sequence[tuple[Tensor, Tensor]], n: int, epoch: int, *, alone: bool) -> Tensor:
    """Return n x members (x classes) from (samples, logits) of several batches and, unless ``alone``, all processes."""
    rows, values = (torch.cat(own) for own in zip(*parts, strict=True))
    if not bool(torch.isfinite(values).all()):  # before a maximum over the processes hides it
        raise FloatingPointError(
            f"the output of the network became NaN or infinite in epoch {epoch}: "
            "lower learning_rate, or check the features for extreme values"
        )
    logits = spread_out(rows, values, n)
    if alone:
        return logits
    # a sample repeated to fill a last batch holds the same value everywhere: the largest magnitude is that value
    low, high = logits.clone(), logits
    torch.distributed.all_reduce(low, torch.distributed.ReduceOp.MIN)
    torch.distributed.all_reduce(high, torch.distributed.ReduceOp.MAX)
    return torch.where(high > 0, high, low)


def check_alike(identity: Mapping[str, str], device: torch.device) -> None:
    """Raise in every process where their data or settings differ; ``identity`` holds digests by name."""
    own = torch.tensor(list(bytes.fromhex("".join(identity.values()))), dtype=torch.uint8, device=device)
    all_of_them = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(all_of_them, own)
    digests = torch.stack(all_of_them).cpu().view(len(all_of_them), len(identity), -1)
    if error := difference(list(identity), digests):
        raise ValueError(error)


def difference(names: Sequence[str], digests: Tensor) -> str:
    """Return in one line which processes differ from the first one, and in what; "" where none does.

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


WARM_STEPS = 50
"""Steps at most over which the rate of the schedule "warm-constant" rises."""

STEPS_PER_CALL = 8
"""Optimiser steps per training step of Lightning, whose bookkeeping would cost more than a small network's own work."""

MEASURED_ON_HOST = 2**20
"""Up to so many validation scores are measured on the host: a GPU would spend its time on launches."""


class WeightAverage:
    """Exponential moving average of a network's weights, over the optimiser's steps.

    Early on it forgets faster, so that the weights of the start do not linger: step t keeps (1 + t) / (10 + t) of the
    average, and at most ``keep``.
    """

    def __init__(self, net: nn.Module, keep: float) -> None:
        self.keep, self.steps = keep, 0
        self._live: list[Tensor] = [p for p in net.parameters() if p.requires_grad]
        self._average: list[Tensor] = []

    def start(self) -> None:
        """Begin with the current weights, or continue with those that were loaded, on the device of the network."""
        begun = self._average or [p.detach().clone() for p in self._live]
        self._average = [own.to(p.device) for own, p in zip(begun, self._live, strict=True)]

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights after a step."""
        keep = min(self.keep, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        torch._foreach_mul_(self._average, keep)
        torch._foreach_add_(self._average, self._live, alpha=1.0 - keep)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the network's weights and their averages; a second call puts them back."""
        kept = [p.clone() for p in self._live]
        torch._foreach_copy_(self._live, self._average)
        torch._foreach_copy_(self._average, kept)

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on later."""
        return {"steps": self.steps, "average": self._average}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.steps, self._average = int(state["steps"]), list(state["average"])


class MemberTraining(pl.LightningModule):
    """Trains all members of a network jointly, adapts their class weights, and selects epochs with the keepers."""

    class_weight: Tensor
    _one: Tensor
    _offset: Tensor
    _row_weight: Tensor | None
    _places: Tensor

    def __init__(
        self,
        net: nn.Module,
        data: Data,
        members: Sequence[Member],
        keepers: Sequence[Keeper],
        settings: Settings,
        prepare: nn.Module | None = None,
        identity: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False  # training_step takes several steps
        self.net, self.prepare, self._identity = net, prepare, identity
        self._data, self._members, self._settings = data, list(members), settings
        self.keepers = list(keepers)
        self._columns = [next(i for i, m in enumerate(members) if m is k.member) for k in keepers]
        self._side_by_side = isinstance(net, MemberNet)
        # images take long: their watched samples are scored in the epochs that are kept, and no others
        self._scores_later = not self._side_by_side
        # of the negatives, or members x classes; a recorded pass reads it from one place
        self.register_buffer("class_weight", weights_now(members, data.n_classes), persistent=False)
        self.register_buffer("_one", torch.ones(()), persistent=False)
        self.register_buffer("_offset", offsets_of(members, data.n_classes), persistent=False)
        self.register_buffer("_row_weight", row_weights_of(members, len(data.y)), persistent=False)
        self.register_buffer("_places", torch.arange(len(members)), persistent=False)
        self._has_offsets = bool(self._offset.any())
        self._batches_seen = 0
        self._losses: list[Tensor] = []
        self._recorded: RecordedPass | None = None
        self._noise: list[torch.Generator] = []
        self._unknown = {"threshold": math.nan} if data.n_classes == 2 else {}  # before a controller's first step
        self._between: dict[int, dict[str, Any]] = {}  # optima that controllers stepping between batches found
        self._average = WeightAverage(net, settings.weight_average) if settings.weight_average else None

    # data

    def setup(self, stage: str) -> None:
        """Check that all processes fit the same data with the same settings, before they synchronise."""
        if self.trainer.world_size > 1 and self._identity is not None:
            check_alike(self._identity(), self.device)

    def configure_model(self) -> None:
        """Shard the weights, where the strategy does."""
        if isinstance(self.trainer.strategy, ShardedNet):
            self.trainer.strategy.shard(self.net)

    def on_fit_start(self) -> None:
        """Move the data to the device, once."""
        self._data = replace(self._data.labels_on(self.device), x=self._data.x.to(self.device))
        few = len(self._data.y) * len(self._members) <= MEASURED_ON_HOST
        self._known = self._data.labels_on(torch.device("cpu") if few else self.device)
        self._looked_at = side_by_side([self._rows_of(i) for i in range(len(self._members))]).to(self.device)
        if self._average is not None:
            self._average.start()
        for keeper in self.keepers:
            if keeper.weights is not None:
                keeper.weights = {name: value.to(self.device) for name, value in keeper.weights.items()}

    def _rows_of(self, column: int) -> np.ndarray[Any, Any]:
        """Return all samples of a member that are scored after each epoch."""
        parts: list[Any] = [self._members[column].validation]
        for keeper in (k for k, c in zip(self.keepers, self._columns, strict=True) if c == column):
            parts.append(keeper.rows)
            if keeper.watch is not None and not self._scores_later:
                parts.append(keeper.watch)
        return np.unique(np.concatenate(parts).astype(np.int64))

    def train_dataloader(self) -> Any:
        """Return shuffled batches of row numbers."""
        batches = MemberBatches(
            self._members, self._settings.batch_size, lambda: self.current_epoch, filled=self._side_by_side,
            block=STEPS_PER_CALL,
        )  # fmt: skip
        batches.device = self.device
        return batches

    def val_dataloader(self) -> Any:
        """Return all samples to score, in order."""
        return RowBatches(self._looked_at, self._settings.evaluation_batch_size)

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Row numbers go where the samples are."""
        return tuple(rows.to(self._data.y.device) for rows in batch)

    # steps

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, batch x members x heads (x classes, for more than two)."""
        return member_logits(self.net, x if self.prepare is None else self.prepare(x), self._data.n_classes)

    def on_train_start(self) -> None:
        """End at once where the interrupted run had already stopped early."""
        self._stop_when_all_are_tired()
        if self._can_record():
            self._recorded = RecordedPass(self._pass, [p for p in self.net.parameters() if p.requires_grad])

    def on_train_end(self) -> None:
        """Score watched samples with the last epoch's network, where that is kept; free memory."""
        if self._scores_later:
            self._keep_watched([k for k in self.keepers if k.watch is not None and k.held.last])
        self._recorded = None
        self.net.zero_grad()
        if isinstance(self.net, MemberNet):
            self.net.noise = None

    def on_train_epoch_start(self) -> None:
        """Draw the epoch's random numbers (dropout, augmentation) from its own seeds: a resumed run repeats them."""
        torch.manual_seed(mix(self._members[0].seed + 1, self.current_epoch, self.global_rank))
        if isinstance(self.net, MemberNet):
            seeds = [mix(member.seed + 1, self.current_epoch) for member in self._members]
            self._noise = [torch.Generator(self.device).manual_seed(seed) for seed in seeds]

    def training_step(self, block: tuple[Tensor, ...], batch_idx: int) -> None:
        """Take one optimiser step per batch of the block."""
        optimizer, schedule = self.optimizers(), self.lr_schedulers()
        noise = self.net.draw_noise(self._noise, len(block), len(block[0])) if isinstance(self.net, MemberNet) else None
        with uncached_autocast(), nullcontext() if self._recorded is None else self._recorded.stream():
            for number, batch in enumerate(block):
                self._adapt_between_batches()
                if noise is not None:
                    self._use_noise(share_of_batch(noise[:, number].movedim(3, 0))[0].movedim(0, 3))
                if self._recorded is None:
                    optimizer.zero_grad()  # type: ignore[union-attr]
                    loss = self._pass(batch)
                    if self._settings.gradient_clip is not None and not self._side_by_side:
                        self.clip_gradients(optimizer, self._settings.gradient_clip, "norm")  # type: ignore[arg-type]
                else:
                    loss = self._recorded(batch)
                optimizer.step()  # type: ignore[union-attr]
                schedule.step()  # type: ignore[union-attr]
                if self._average is not None:
                    self._average.update()
                self._losses.append(loss)

    def _use_noise(self, noise: Tensor) -> None:
        """Copy the dropout masks to the buffer that recorded passes read."""
        if self._recorded is not None and self.net.noise is not None:
            self.net.noise.copy_(noise)  # type: ignore[operator]
        else:
            self.net.noise = noise.contiguous()

    def _pass(self, batch: Tensor) -> Tensor:
        """Leave the gradients with the parameters and return each member's loss."""
        losses = self._member_losses(batch)
        self.manual_backward(losses.sum())
        limit = self._settings.gradient_clip
        if limit is not None and self._side_by_side:
            clip_each_member(self.net, limit)
        elif limit is not None and self._recorded is not None:
            nn.utils.clip_grad_norm_(self.net.parameters(), limit)
        return losses.detach()

    def _can_record(self) -> bool:
        """Return whether passes may be recorded: one GPU, and parts known to do the same work for every batch."""
        parts = [] if self.prepare is None else list(self.prepare.children())
        plain = not any(member.smote or member.loss for member in self._members)
        return plain and can_record(self.net, parts, self.trainer, self.device, self._settings.trainer)

    # the loss

    def _member_losses(self, batch: Tensor) -> Tensor:
        """Return each member's mean loss over the batch of the whole group of processes."""
        rows, share = share_of_batch(batch)
        there = None
        scale: Tensor | float = share / len(batch)
        if self._side_by_side:
            there, rows = rows >= 0, rows.clamp(min=0)
            scale = share / (batch >= 0).sum(0)
        logits, y = self._logits_and_labels(rows)
        weight = self._weight_of(y)
        if self._data.sample_weight is not None and len(y) == len(rows):
            weight = weight * self._data.sample_weight[rows]
        if self._row_weight is not None:
            weight = weight * self._row_weight[rows, self._places]
        weight = weight * (scale if len(y) == len(rows) else share / len(y))
        offset = self._offset if self._has_offsets else None
        return member_losses(self._members, logits, y, weight if there is None else weight * there, offset)

    def _weight_of(self, y: Tensor) -> Tensor:
        """Return the weight of each sample in each member's loss: of two classes y + (1 - y) w (eq. 9)."""
        own = self.class_weight
        return torch.lerp(own, self._one, y) if own.ndim == 1 else own.T.gather(0, y)

    def _logits_and_labels(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        if not self._members[0].smote:
            return self._logits(rows), self._data.y[rows]
        x = self._data.x[rows[:, 0]]
        x, y = smote_batch(x if self.prepare is None else self.prepare(x), self._data.y[rows[:, 0]])
        return member_logits(self.net, x, self._data.n_classes).float(), y[:, None]

    def _logits(self, rows: Tensor) -> Tensor:
        """Return the logits of each member's own samples, in float32."""
        logits: Tensor = self(self._data.x[rows if self._side_by_side else rows[:, 0]])
        return logits.float()

    # after each epoch

    def on_validation_epoch_start(self) -> None:
        """Start again; where weights are averaged, with the averages."""
        if self._average is not None:
            self._average.swap()
        self._collected: list[tuple[Tensor, Tensor]] = []

    def validation_step(self, block: tuple[Tensor, ...], batch_idx: int) -> None:
        """Keep each member's logits, averaged over its heads."""
        rows, _ = share_of_batch(block[0])
        self._collected.append((rows, self._logits(rows).mean(2)))

    def on_validation_epoch_end(self) -> None:
        """Judge the epoch with every keeper, then adapt the weights."""
        if self.trainer.sanity_checking:
            if self._average is not None:
                self._average.swap()
            return
        losses = self._mean_training_losses()
        # the only synchronisation with the GPU
        alone = self.trainer.world_size == 1
        logits = gather_logits(self._collected, len(self._data.y), self.current_epoch, alone=alone)
        logits = logits.to(self._known.y.device)
        self._collected.clear()
        trained = [trained_with(member, self._data.n_classes) for member in self._members]
        result = self._adapt([m for m in self._members if m.every is None], logits)
        host = logits.cpu().numpy()
        kept = []
        for keeper, column in zip(self.keepers, self._columns, strict=True):
            about = trained[column] | {"train_loss": float(losses[column])}
            if keeper.member.controller is not None:
                about |= (self._between | result).get(id(keeper.member.controller), self._unknown)
            if keeper.look(host[keeper.rows, column], self.current_epoch, about):
                kept.append((keeper, column))
        self._keep(kept, host)
        self._take_weights()
        if self._settings.verbose or self._settings.trainer:  # loggers and callbacks may read it
            # a tensor of the host stays there: Lightning would move a number to the GPU and wait for it to come back
            cost = float(np.mean([keeper.history[-1]["val_cost"] for keeper in self.keepers]))
            self.log("val_cost", torch.tensor(cost), prog_bar=True)
        self._stop_when_all_are_tired()
        if self._average is not None:
            self._average.swap()

    def configure_optimizers(self) -> Any:
        """AdamW or SGD with a one-cycle schedule per step, or the user's own optimiser."""
        settings = self._settings
        # Lightning does not clip for fused optimisers, which might have to unscale the gradients first
        fused = self.device.type == "cuda" and (settings.gradient_clip is None or self._can_record())
        optimizer = make_optimizer(self.net, settings, fused=fused)
        schedule = make_schedule(optimizer, settings, self.train_dataloader().batches * settings.epochs)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    # resuming

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the state beside the weights."""
        checkpoint["adacsl"] = {
            "controllers": [None if m.controller is None else m.controller.state_dict() for m in self._members],
            "keepers": [keeper.state_dict() for keeper in self.keepers],
            "batches_seen": self._batches_seen,
            "average": None if self._average is None else self._average.state_dict(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there."""
        state = checkpoint["adacsl"]
        for member, saved in zip(self._members, state["controllers"], strict=True):
            if member.controller is not None:
                member.controller.load_state_dict(saved)
        for keeper, saved in zip(self.keepers, state["keepers"], strict=True):
            keeper.load_state_dict(saved)
        self._batches_seen = state["batches_seen"]
        if self._average is not None:
            self._average.load_state_dict(state["average"])
        self._take_weights()

    # parts

    def _take_weights(self) -> None:
        self.class_weight.copy_(weights_now(self._members, self._data.n_classes))

    def _mean_training_losses(self) -> Tensor:
        """Return each member's mean loss over the epoch."""
        if not self._losses:
            return torch.full((len(self._members),), math.nan)
        losses = torch.stack(self._losses).T.contiguous().mean(1)
        self._losses.clear()
        if self.trainer.world_size > 1:
            torch.distributed.all_reduce(losses)
            losses /= self.trainer.world_size
        return losses.cpu()

    def _adapt(self, members: Sequence[Member], logits: Tensor) -> dict[int, dict[str, Any]]:
        """Step every controller of these members, once, on the scores of all members it adapts; return findings."""
        result = {}
        for controller in {id(m.controller): m.controller for m in members if m.controller is not None}.values():
            own = [(i, m) for i, m in enumerate(self._members) if m.controller is controller]
            if all(k.tired for k in self.keepers if k.member.controller is controller):
                continue  # no keeper needs it any more: trained jointly it must end where it ends alone
            rows = np.concatenate([m.validation for _, m in own])
            columns = np.repeat([i for i, _ in own], [len(m.validation) for _, m in own])
            result[id(controller)] = step_controller(controller, own[0][1], self._known, logits, rows, columns)
        return result

    def _adapt_between_batches(self) -> None:
        """Step the controllers whose turn it is after so many batches."""
        seen = self._batches_seen
        due = [m for m in self._members if m.every is not None and seen and not seen % m.every]
        self._batches_seen += 1
        if not due:
            return
        self.eval()
        if self._average is not None:
            self._average.swap()
        with torch.no_grad():
            rows = side_by_side([m.validation for m in self._members]).to(self._data.y.device)
            parts = torch.split(rows, self._settings.evaluation_batch_size)
            values = torch.cat([self._logits(part).mean(2) for part in parts])
            logits = spread_out(rows, values, len(self._data.y))
            self._between |= self._adapt(due, logits.to(self._known.y.device))
        if self._average is not None:
            self._average.swap()
        self.train()
        self._take_weights()

    def _keep(self, kept: list[tuple[Keeper, int]], host: Any) -> None:
        """Store this epoch for the keepers that select it: weights, or logits of the watched samples."""
        if any(keeper.watch is None for keeper, _ in kept):
            state = self._state()
            for keeper, column in kept:
                if keeper.watch is None:
                    keeper.keep_weights(self.net, state, column if self._side_by_side else None)
        watching = [(keeper, column) for keeper, column in kept if keeper.watch is not None]
        if self._scores_later:
            self._keep_watched([keeper for keeper, _ in watching if not keeper.held.last])
            return
        for keeper, column in watching:
            keeper.keep_watched(host[keeper.watch, column])

    def _keep_watched(self, keepers: Sequence[Keeper]) -> None:
        """Store the logits of the watched samples by the current network, for keepers of one network."""
        if not keepers:
            return
        rows = torch.as_tensor(keepers[0].watch).to(self._data.y.device)
        before = self.training
        self.eval()
        with torch.no_grad(), self.trainer.precision_plugin.forward_context():
            parts = torch.split(rows[:, None], self._settings.evaluation_batch_size)
            logits = torch.cat([self._logits(part).mean(2)[:, 0] for part in parts])
        self.train(before)
        for keeper in keepers:
            keeper.keep_watched(logits.cpu().numpy())

    def _state(self) -> dict[str, Tensor]:
        # sharded strategies gather the whole network here; elsewhere these are the network's own tensors
        prefix = "net."
        state = self.trainer.strategy.lightning_module_state_dict()
        return {name.removeprefix(prefix): value.detach() for name, value in state.items() if name.startswith(prefix)}

    def _stop_when_all_are_tired(self) -> None:
        if all(keeper.tired for keeper in self.keepers):
            self.trainer.should_stop = True


def train(
    net: nn.Module,
    data: Data,
    members: Sequence[Member],
    keepers: Sequence[Keeper],
    settings: Settings,
    *,
    prepare: nn.Module | None = None,
    resume: Checkpoints | None = None,
    identity: Callable[[], Mapping[str, str]] | None = None,
) -> None:
    """Train the members of one network; the keepers hold the selected epochs afterwards.

    From the last checkpoint in ``resume``, if there is one; the caller's random numbers are left alone. ``identity``
    returns digests of data and settings by name: several processes compare theirs.
    """
    if isinstance(net, MemberNet) and settings.trainer.get("strategy") == "fsdp":
        raise ValueError(
            "strategy='fsdp' is for large networks, module=...; the networks for tables are small: use 'ddp'"
        )
    module = MemberTraining(net, data, members, keepers, settings, prepare, identity)
    run(module, keepers, settings, resume=resume)


def run(
    module: MemberTraining, keepers: Sequence[Keeper], settings: Settings, *, resume: Checkpoints | None = None
) -> None:
    """Train a module from the last checkpoint in ``resume``, if there is one."""
    resume = resume and resume.of(module.net)
    path = resume and resume.last()
    with alone(), quiet(settings.verbose), _tuned_convolutions(module.prepare):
        trainer = _make_trainer(settings, resume)
        with _plain_interrupt(), _lost_processes():
            trainer.fit(module, ckpt_path=path, weights_only=True if path else None)
    if any(keeper.held.best < 0 for keeper in keepers):
        raise RuntimeError(
            f"training ended ({trainer.state.status.value}) without a measured epoch in this process: use at least one "
            "epoch, and strategies that run the script in every process ('ddp', not 'ddp_spawn' or 'ddp_notebook')"
        )
    for keeper in keepers:
        if keeper.weights is not None:
            keeper.weights = {name: value.cpu() for name, value in keeper.weights.items()}


def _make_trainer(settings: Settings, resume: Checkpoints | None) -> pl.Trainer:
    device = choose_device(settings.device)
    accelerator = settings.trainer.get("accelerator", device.split(":")[0])
    precision = settings.precision
    if precision == "auto":
        precision = "bf16-mixed" if accelerator in ("cuda", "gpu") else "32-true"
    callbacks = list(settings.trainer.get("callbacks") or [])
    keeping = resume is not None or any(isinstance(callback, pl.callbacks.Checkpoint) for callback in callbacks)
    options: dict[str, Any] = {
        "max_epochs": settings.epochs,
        "accelerator": accelerator,
        "devices": [int(device.split(":")[1])] if ":" in device else 1,
        "precision": precision,
        "logger": False,
        "enable_checkpointing": keeping,
        "enable_progress_bar": settings.verbose,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,
        "log_every_n_steps": 1000,
    }
    if resume is not None:
        callbacks.append(KeepLast(resume))
    options |= settings.trainer
    if options.get("strategy") == "fsdp":
        options["strategy"] = ShardedNet()
    return pl.Trainer(**(options | {"callbacks": callbacks}))


@contextlib.contextmanager
def _tuned_convolutions(prepare: nn.Module | None) -> Iterator[None]:
    """Let a GPU try which convolution of images is fastest: all batches are of (nearly) the same shape."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or prepare is not None
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextlib.contextmanager
def _plain_interrupt() -> Iterator[None]:
    """Turn Lightning's sys.exit(1) upon Ctrl-C, after which Ctrl-C would be ignored, back into KeyboardInterrupt."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None


@contextlib.contextmanager
def _lost_processes() -> Iterator[None]:
    """Raise a one-line error for a lost process instead of torch's errors about sockets."""
    try:
        yield
    except RuntimeError as error:
        gloo = any(words in str(error) for words in ("gloo", "timeout caused pair closure"))
        if gloo or isinstance(error, torch.distributed.DistError):
            raise RuntimeError(
                "another process of this fit has ended or does not respond: see its own output; start all of them "
                "again (with resume=, they go on from the last finished epoch)"
            ) from None
        raise


@contextlib.contextmanager
def quiet(verbose: bool) -> Iterator[None]:
    """Suppress Lightning's advice about workers and loggers."""
    names = ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING if verbose else logging.ERROR)
    logging.getLogger("lightning.fabric.strategies.launchers").setLevel(logging.INFO)  # reports lost processes
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(lightning|pytorch_lightning|lightning_fabric)\..*")
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
