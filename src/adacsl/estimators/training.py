"""The training engine: one or many nets, their cost weights steered together, on Lightning.

A *member* is one net with the rows that train it, the rows that adapt it, and its controller. The members of a
:class:`~adacsl.torch.tablenet.TableNet` (folds, targets, cost ratios) run as one batched computation, each on rows of
its own. Members may share a controller, which then looks at the validation rows of all of them. Other nets train one by
one.
"""

from __future__ import annotations

import copy
import logging
import math
import shutil
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from adacsl.core.control import AdaptiveWeight, Adjustment
from adacsl.core.costs import CostMatrix, as_host
from adacsl.extras import requires
from adacsl.integrations.lightning import pl

with requires("train"):
    from adacsl.torch.augment import Augment, ChannelsFirst, FlipAverage
    from adacsl.torch.functional import positive_logit, summed_cross_entropy
    from adacsl.torch.graphs import RecordedPass
    from adacsl.torch.resnet import Normalise, ResNet
    from adacsl.torch.tablenet import TableNet

CHECKPOINT = "last.ckpt"

STEPS_PER_CALL = 8
"""Optimiser steps per training step of Lightning, whose bookkeeping would cost more than a small net's own work."""


MEASURED_ON_HOST = 2**20
"""Up to so many validation scores are measured on the host: a GPU would spend its time on launches."""


@dataclass(frozen=True)
class Data:
    """Everything the members learn from; ``x`` moves to the training device once and stays there."""

    x: Tensor
    y: Tensor
    sample_weight: Tensor | None = None
    costs: CostMatrix | None = None  # of each row, for measuring

    def labels_on(self, device: torch.device) -> Data:
        """Return the same with labels and weights on a device; ``x`` stays where it is."""
        weight = None if self.sample_weight is None else self.sample_weight.to(device, torch.float32)
        return Data(self.x, self.y.to(device, torch.float32), weight, self.costs)


@dataclass(frozen=True)
class Member:
    """One net: which rows train it, which rows (never seen in training) adapt it, and how."""

    train: np.ndarray[Any, Any]
    validation: np.ndarray[Any, Any]
    controller: AdaptiveWeight
    fold: int = 0


@dataclass(frozen=True)
class Settings:
    """How to train."""

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float = 0.0
    optimizer: str | Callable[..., torch.optim.Optimizer] = "adamw"
    patience: int | None = None
    select: str = "best"
    adapt: bool = True
    device: str = "auto"
    precision: str | int = "auto"
    seed: int = 0
    verbose: bool = False
    trainer: dict[str, Any] = field(default_factory=dict)
    evaluation_batch_size: int = 8192
    gradient_clip: float | None = 1.0


@dataclass
class Trained:
    """What training leaves: the net, one history row per member and epoch, and validation logits of each member."""

    net: nn.Module
    history: list[dict[str, Any]]
    logits: Tensor  # rows x members, NaN where a row did not belong to the member's validation set; see HonestScores
    log_weights: Tensor  # likewise: log of the negatives' weight in the epoch that a logit is of
    weights: list[float]  # the weight of the negatives each member's kept epoch was trained with


class IndexBatches:
    """Blocks of batches of row numbers: the rows themselves stay on the device.

    The order of an epoch depends on the seed and the epoch alone, so that a resumed run sees the same batches. Batches
    are of nearly equal size, at most ``batch_size``: a last batch of one row would be noise, and an error to batch
    norms. Every process gets the batches of the whole group, and takes its share of each (:func:`share_of_batch`): they
    do not depend on the number of processes.
    """

    def __init__(
        self, rows: Tensor, batch_size: int, seed_of_pass: Callable[[], int] | None = None, *, block: int = 1
    ) -> None:
        self.rows, self.seed_of_pass, self.block = rows, seed_of_pass, block
        self.batches = math.ceil(len(rows) / batch_size)

    def __len__(self) -> int:
        return math.ceil(self.batches / self.block)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        rows = self.rows
        if self.seed_of_pass is not None:
            order = torch.Generator().manual_seed(self.seed_of_pass())
            rows = rows[torch.randperm(len(rows), generator=order).to(rows.device)]
        batches = torch.tensor_split(rows, self.batches)
        for start in range(0, self.batches, self.block):
            yield batches[start : start + self.block]


class HonestScores:
    """Validation scores that do not flatter the choice of the epoch.

    The epoch that is cheapest on some rows looks cheaper on them than it is. So each member's validation rows are
    halved, stratified, and a row's score is taken from the epoch that was cheapest on the *other* half.
    """

    def __init__(self, data: Data, members: Sequence[Member], device: torch.device) -> None:
        n, m = len(data.y), len(members)
        stakes, inside = np.zeros((2, n, m), dtype=np.float32), np.zeros((2, n, m), dtype=bool)
        y = data.y.cpu().numpy() > 0.5
        for number, member in enumerate(members):
            stake = _stakes(y, member.controller.costs if data.costs is None else data.costs)
            if data.sample_weight is not None:
                stake = stake * data.sample_weight.cpu().numpy()
            for label in (False, True):
                rows = member.validation[y[member.validation] == label]
                for half in (0, 1):
                    stakes[half, rows[half::2], number] = stake[rows[half::2]]
                    inside[half, rows[half::2], number] = True
        odds = [math.log(member.controller.target / (1.0 - member.controller.target)) for member in members]
        self.cuts = torch.tensor(odds, dtype=torch.float32, device=device)
        self.stakes, self.inside = torch.from_numpy(stakes).to(device), torch.from_numpy(inside).to(device)
        self.cheapest = torch.full((2, m), float("inf"), device=device)
        self.logits = torch.full((n, m), float("nan"), device=device)
        self.log_weights = torch.zeros((n, m), device=device)

    def look(self, logits: Tensor, log_weights: Tensor, *, always: bool) -> None:
        """Take the scores of an epoch wherever it is the cheapest so far on the other half (or always)."""
        # what the decisions cost, up to a constant
        costs = (self.stakes * (logits > self.cuts)).sum(1)
        better = torch.ones_like(costs, dtype=torch.bool) if always else costs < self.cheapest
        self.cheapest = torch.where(better, costs, self.cheapest)
        taken = (self.inside & better.flip(0)[:, None, :]).any(0)
        self.logits = torch.where(taken, logits, self.logits)
        self.log_weights = torch.where(taken, log_weights, self.log_weights)

    def state_dict(self) -> dict[str, Tensor]:
        """Return what has been found so far."""
        return {"cheapest": self.cheapest, "logits": self.logits, "log_weights": self.log_weights}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from there."""
        device = self.cuts.device
        self.cheapest, self.logits = state["cheapest"].to(device), state["logits"].to(device)
        self.log_weights = state["log_weights"].to(device)


def _stakes(y: np.ndarray[Any, Any], costs: CostMatrix) -> np.ndarray[Any, Any]:
    """Return what calling each row positive costs more than calling it negative."""
    fp, fn, tp, tn = (np.asarray(as_host(cell), dtype=np.float64) for cell in (costs.fp, costs.fn, costs.tp, costs.tn))
    return np.where(y, tp - fn, fp - tn)


class Steered(NamedTuple):
    """A controller, the members it steers, and all their validation rows: where their scores and labels are."""

    controller: AdaptiveWeight
    members: list[int]
    rows: Tensor
    columns: Tensor
    known: dict[str, Any]  # labels, costs, sample_weight


class MemberTraining(pl.LightningModule):
    """Trains all members of a net at once and steers each one's weight."""

    negative_weight: Tensor
    _one: Tensor

    def __init__(
        self, net: nn.Module, data: Data, members: Sequence[Member], settings: Settings, prepare: nn.Module | None
    ) -> None:
        super().__init__()
        self.automatic_optimization = False  # training_step takes several steps
        self.net, self.prepare = net, prepare
        self._data, self._members, self._settings = data, list(members), settings
        self.register_buffer("negative_weight", self._weights_now(), persistent=False)
        self.register_buffer("_one", torch.ones(()), persistent=False)
        self._train_rows = side_by_side([m.train for m in members])
        self._validation_rows = side_by_side([m.validation for m in members])
        self.history: list[dict[str, Any]] = []
        self.best_cost = np.full(len(members), np.inf)
        self.best_epoch = np.full(len(members), -1)
        self.best_weight = [m.controller.weight for m in members]
        self.best_state: dict[str, Tensor] = {}
        self.honest: HonestScores | None = None
        self._saved_honest: dict[str, Tensor] | None = None
        self._losses: list[Tensor] = []
        self._recorded: RecordedPass | None = None

    # data

    def on_fit_start(self) -> None:
        """Move the data to the device, once."""
        self._move_data()
        self._steered = self._all_steered()
        self.honest = HonestScores(self._known, self._members, self._known.y.device)
        if self._saved_honest is not None:
            self.honest.load_state_dict(self._saved_honest)
        self.best_state = {name: value.to(self.device) for name, value in self.best_state.items()}

    def _move_data(self) -> None:
        self._data = replace(self._data.labels_on(self.device), x=self._data.x.to(self.device))
        few = len(self._data.y) * len(self._members) <= MEASURED_ON_HOST
        self._known = self._data.labels_on(torch.device("cpu") if few else self.device)
        self._train_rows = self._train_rows.to(self.device)
        self._validation_rows = self._validation_rows.to(self.device)

    def train_dataloader(self) -> Any:
        """Return shuffled batches of row numbers."""
        return IndexBatches(
            self._train_rows,
            self._settings.batch_size,
            lambda: mix(self._settings.seed, self.current_epoch),
            block=STEPS_PER_CALL,
        )

    def val_dataloader(self) -> Any:
        """Return all validation rows, in order."""
        return IndexBatches(self._validation_rows, self._settings.evaluation_batch_size)

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Row numbers go where the rows are."""
        return tuple(rows.to(self._data.y.device) for rows in batch)

    # steps

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, batch x members x heads."""
        return member_logits(self.net, x if self.prepare is None else self.prepare(x))

    def on_train_start(self) -> None:
        """End at once where the interrupted run had already lost its patience."""
        self._stop_when_patience_ends()
        if self._can_record():
            self._recorded = RecordedPass(self._pass, [p for p in self.net.parameters() if p.requires_grad])

    def on_train_end(self) -> None:
        """Give back the memory of recordings and gradients."""
        self._recorded = None
        self.net.zero_grad()

    def on_train_epoch_start(self) -> None:
        """Draw the epoch's random numbers (dropout, augmentation) from its own seed: a resumed run repeats them."""
        torch.manual_seed(mix(self._settings.seed + 1, self.current_epoch, self.global_rank))

    def training_step(self, block: tuple[Tensor, ...], batch_idx: int) -> None:
        """Take one optimiser step per batch of the block."""
        optimizer, schedule = self.optimizers(), self.lr_schedulers()
        with _uncached_autocast(), nullcontext() if self._recorded is None else self._recorded.stream():
            for batch in block:
                self._before_batch()
                if self._recorded is None:
                    optimizer.zero_grad()  # type: ignore[union-attr]
                    loss = self._pass(batch)
                    if self._settings.gradient_clip is not None and len(self._members) == 1:
                        self.clip_gradients(optimizer, self._settings.gradient_clip, "norm")  # type: ignore[arg-type]
                else:
                    loss = self._recorded(batch)
                optimizer.step()  # type: ignore[union-attr]
                schedule.step()  # type: ignore[union-attr]
                self._losses.append(loss)

    def _before_batch(self) -> None:
        """Do what has to be done between batches: nothing, here."""

    def _pass(self, batch: Tensor) -> Tensor:
        """Leave the gradients with the parameters and return the loss."""
        loss = self._loss(batch)
        self.manual_backward(loss)
        limit = self._settings.gradient_clip
        if limit is not None and len(self._members) > 1:
            clip_each_member(self.net, limit)
        elif limit is not None and self._recorded is not None:
            nn.utils.clip_grad_norm_(self.net.parameters(), limit)
        return loss.detach()

    def _can_record(self) -> bool:
        """Tell whether passes may be recorded: one GPU, and parts known to do the same work for every batch."""
        net = self.net.net if isinstance(self.net, FlipAverage) else self.net
        parts = [] if self.prepare is None else list(self.prepare.children())
        return (
            self.device.type == "cuda"
            and type(net) in (ResNet, TableNet)
            and all(type(part) in (ChannelsFirst, Augment, Normalise) for part in parts)
            and all(part.generator is None for part in parts if isinstance(part, Augment))
            and self.trainer.world_size == 1
            and getattr(self.trainer.precision_plugin, "scaler", None) is None
            and not self._settings.trainer.keys() & {"strategy", "plugins", "detect_anomaly", "profiler"}
            and not any(map(_looks_at_gradients, self.trainer.callbacks))  # type: ignore[attr-defined]
        )

    def _loss(self, batch: Tensor) -> Tensor:
        """Return the sum of the members' mean losses over the batch of the whole group of processes."""
        data = self._data
        rows, share = share_of_batch(batch)
        logits = self._logits(rows)
        y = data.y[rows]
        # y + (1 - y) w, the weight of each sample in each member's loss (eq. 9)
        weight = torch.lerp(self.negative_weight, self._one, y)
        if data.sample_weight is not None:
            weight = weight * data.sample_weight[rows]
        weight = weight * (share / (len(batch) * logits.shape[2]))
        return summed_cross_entropy(logits, y[:, :, None], weight[:, :, None])

    def _logits(self, rows: Tensor) -> Tensor:
        """Return the logits of each member's own rows: batch x members x heads, in float32."""
        logits: Tensor = self(self._data.x[rows if len(self._members) > 1 else rows[:, 0]])
        return logits.float()

    def on_validation_epoch_start(self) -> None:
        """Start anew."""
        self._collected: list[tuple[Tensor, Tensor]] = []

    def validation_step(self, block: tuple[Tensor, ...], batch_idx: int) -> None:
        """Keep each member's logits, averaged over its heads."""
        rows, _ = share_of_batch(block[0])
        self._collected.append((rows, self._logits(rows).mean(2)))

    def on_validation_epoch_end(self) -> None:
        """Measure every member, keep the best, steer the weights."""
        if self.trainer.sanity_checking:
            return
        losses = self._mean_training_loss()
        logits = self._gathered_logits()  # a GPU is waited for here, and here only
        loss = float(losses)
        improved = []
        if self.honest is not None:
            weights = self._weights_now().to(logits.device)
            self.honest.look(logits, weights.log(), always=self._settings.select == "last")
        rows = self._measure(torch.sigmoid(logits))
        for number, row in enumerate(rows):
            self.history.append(row | {"epoch": self.current_epoch, "train_loss": loss})
            improved.append(row["val_cost"] < self.best_cost[number])
        self._keep(np.asarray(improved))
        self.negative_weight.copy_(self._weights_now())
        if self._settings.verbose or self._settings.trainer:  # somebody may listen
            # a tensor of the host stays there: Lightning would move a number to the GPU and wait for it to come back
            self.log("val_cost", torch.tensor(float(np.mean([row["val_cost"] for row in rows]))), prog_bar=True)
        self._stop_when_patience_ends()

    def configure_optimizers(self) -> Any:
        """AdamW or SGD with a one-cycle schedule per step, or the user's own optimiser."""
        settings = self._settings
        # Lightning does not clip for fused optimisers, which might have to unscale the gradients first
        fused = self.device.type == "cuda" and (settings.gradient_clip is None or self._can_record())
        optimizer = make_optimizer(self.net, settings, fused=fused)
        steps = self.train_dataloader().batches * settings.epochs
        warm = min(0.15, 500 / steps) if steps > 10 else 0.0
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _warm_cosine(step / steps, warm))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    # resuming

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what the weights alone do not tell."""
        checkpoint["adacsl"] = {
            "controllers": [m.controller.state_dict() for m in self._members],
            "history": self.history,
            "best_cost": self.best_cost.tolist(),
            "best_epoch": self.best_epoch.tolist(),
            "best_weight": list(self.best_weight),
            "best_state": self.best_state,
            "honest": None if self.honest is None else self.honest.state_dict(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there."""
        state = checkpoint["adacsl"]
        for member, saved in zip(self._members, state["controllers"], strict=True):
            member.controller.load_state_dict(saved)
        self.history = state["history"]
        self.best_cost, self.best_epoch = np.asarray(state["best_cost"]), np.asarray(state["best_epoch"])
        self.best_weight, self.best_state = state["best_weight"], state["best_state"]
        self._saved_honest = state["honest"]
        if self.honest is not None and self._saved_honest is not None:
            self.honest.load_state_dict(self._saved_honest)
        self.negative_weight.copy_(self._weights_now())

    # parts

    def _weights_now(self) -> Tensor:
        return torch.tensor([m.controller.weight for m in self._members], dtype=torch.float32)

    def _gathered_logits(self) -> Tensor:
        """Return rows x members; the processes hold different rows, which a sum brings together."""
        rows = torch.cat([r for r, _ in self._collected])
        values = torch.cat([v for _, v in self._collected])
        self._collected.clear()
        logits = torch.zeros(len(self._data.y), len(self._members), device=values.device)
        logits.scatter_(0, rows, values)
        if self.trainer.world_size > 1:
            self._check_finite(logits)  # before a maximum hides it
            # a row repeated to fill a last batch holds the same value everywhere: the largest magnitude is that value
            low, high = logits.clone(), logits
            torch.distributed.all_reduce(low, torch.distributed.ReduceOp.MIN)
            torch.distributed.all_reduce(high, torch.distributed.ReduceOp.MAX)
            logits = torch.where(high > 0, high, low)
        logits = logits.to(self._known.y.device)
        self._check_finite(logits)
        return logits

    def _check_finite(self, logits: Tensor) -> None:
        if not bool(torch.isfinite(logits).all()):
            raise FloatingPointError(
                f"the net's output became NaN or infinite in epoch {self.current_epoch}: "
                "lower lr, or check the features for extreme values"
            )

    def _mean_training_loss(self) -> Tensor:
        if not self._losses:
            return torch.tensor(math.nan)
        loss = torch.stack(self._losses).mean() / len(self._members)
        self._losses.clear()
        if self.trainer.world_size > 1:
            torch.distributed.all_reduce(loss)
            loss /= self.trainer.world_size
        return loss

    def _measure(self, scores: Tensor) -> list[dict[str, Any]]:
        """Step every controller once, with the scores of all members it steers, and describe each member."""
        rows: dict[int, dict[str, Any]] = {}
        for steered in self._steered:
            controller = steered.controller
            used = controller.weight
            step, costs = self._step(steered, scores)
            total = sum(step.sizes)
            shared = {
                "threshold": sum(t * n for t, n in zip(step.thresholds, step.sizes, strict=True)) / total,
                "lambda": step.lambda_ if self._settings.adapt else 1.0,
                "weight": used,
                "target": controller.target,
            }
            for number, cost in zip(steered.members, costs, strict=True):
                own = {"val_cost": cost, "member": number, "fold": self._members[number].fold}
                rows[number] = own | shared
        return [rows[number] for number in range(len(self._members))]

    def _step(self, steered: Steered, scores: Tensor) -> tuple[Adjustment, list[float]]:
        """Return what the controller did, and the validation cost of each member it steers."""
        controller = steered.controller if self._settings.adapt else copy.deepcopy(steered.controller)
        step = controller.step(_light(scores[steered.rows, steered.columns]), **steered.known)
        if len(steered.members) == 1:
            return step, [step.cost]
        decided = scores > controller.target
        own = [(self._members[i].validation, decided[:, i]) for i in steered.members]
        return step, [self._cost_of(controller, rows, column) for rows, column in own]

    def _all_steered(self) -> list[Steered]:
        found = []
        for controller in {id(m.controller): m.controller for m in self._members}.values():
            members = [i for i, m in enumerate(self._members) if m.controller is controller]
            parts = [self._members[i].validation for i in members]
            rows, columns = np.concatenate(parts), np.repeat(members, [len(part) for part in parts])
            where = (torch.as_tensor(rows), torch.as_tensor(columns))
            row, column = (numbers.to(self._known.y.device) for numbers in where)
            found.append(Steered(controller, members, row, column, self._labels_of(rows)))
        return found

    def _labels_of(self, every: np.ndarray[Any, Any]) -> dict[str, Any]:
        data, rows = self._known, torch.as_tensor(every, device=self._known.y.device)
        return {
            "labels": _light(data.y[rows] > 0.5),
            "costs": None if data.costs is None else data.costs.rows(every),
            "sample_weight": None if data.sample_weight is None else _light(data.sample_weight[rows]),
        }

    def _cost_of(self, controller: AdaptiveWeight, own: np.ndarray[Any, Any], decided: Tensor) -> float:
        known = self._labels_of(own)
        costs = controller.costs if known["costs"] is None else known["costs"]
        rows = torch.as_tensor(own, device=decided.device)
        return costs.mean(known["labels"], _light(decided[rows]), sample_weight=known["sample_weight"])

    def _keep(self, improved: np.ndarray[Any, Any]) -> None:
        if self._settings.select == "last":
            improved = np.ones_like(improved)
        chosen = np.flatnonzero(improved)
        if not len(chosen):
            return
        latest = self.history[-len(self._members) :]
        for number in chosen:
            self.best_cost[number] = latest[number]["val_cost"]
            self.best_epoch[number] = self.current_epoch
            self.best_weight[number] = latest[number]["weight"]
        self._keep_state(chosen)

    def _keep_state(self, chosen: np.ndarray[Any, Any]) -> None:
        # sharded strategies gather the whole net here; elsewhere these are the net's own tensors
        prefix = "net."
        state = self.trainer.strategy.lightning_module_state_dict()
        now = {name.removeprefix(prefix): value.detach() for name, value in state.items() if name.startswith(prefix)}
        if not self.best_state:
            self.best_state = {key: value.clone() for key, value in now.items()}
        elif len(chosen) == len(self._members):
            copy_all(self.best_state, now)
        else:
            # every parameter of a net of many members has them in front
            own, picked = {name for name, _ in self.net.named_parameters()}, torch.as_tensor(chosen)
            for key, value in now.items():
                if key in own:
                    self.best_state[key][picked] = value[picked]
                else:
                    self.best_state[key].copy_(value)

    def _stop_when_patience_ends(self) -> None:
        patience = self._settings.patience
        measured = self.history[-1]["epoch"] if self.history else 0
        if patience is not None and measured - int(self.best_epoch.max()) >= patience:
            self.trainer.should_stop = True


def _light(values: Tensor) -> Any:
    """Return host values as a NumPy array, whose operations on few of them take half as long."""
    return values.numpy() if values.device.type == "cpu" else values


def copy_all(kept: dict[str, Tensor], now: dict[str, Tensor]) -> None:
    """Copy tensors over others of the same names: a launch per dtype, where a launch each would take milliseconds."""
    for dtype in {value.dtype for value in now.values()}:
        names = [name for name, value in now.items() if value.dtype == dtype]
        torch._foreach_copy_([kept[name] for name in names], [now[name] for name in names])


def clip_each_member(net: nn.Module, limit: float) -> None:
    """Shorten each member's gradient to the limit: a common norm would let members feel rows they must not see."""
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]).norm(dim=0)
    scale = (limit / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))


class KeepLast(pl.callbacks.Checkpoint):
    """Keeps the state after each epoch, and only the last one: a process killed while writing leaves the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write beside the checkpoint, then put it in its place."""
        draft, path = self.folder / f"draft-{CHECKPOINT}", self.folder / CHECKPOINT
        trainer.save_checkpoint(draft)
        if trainer.is_global_zero:
            if path.is_dir():  # sharded strategies write folders
                shutil.rmtree(path)
            draft.replace(path)
        trainer.strategy.barrier()


def train(
    net: nn.Module,
    data: Data,
    members: Sequence[Member],
    settings: Settings,
    *,
    prepare: nn.Module | None = None,
    resume: Path | None = None,
) -> Trained:
    """Train the members of one net and return it with its best (or last) weights."""
    module = MemberTraining(net, data, members, settings, prepare)
    trainer = run_training(module, settings, resume)
    if module.honest is None or not module.best_state:
        raise RuntimeError(
            f"training ended ({trainer.state.status.value}) without a measured epoch in this process: use at least one "
            "epoch, and strategies that run the script in every process ('ddp', not 'ddp_spawn' or 'ddp_notebook')"
        )
    net.load_state_dict(module.best_state)
    net.to("cpu")
    honest = module.honest
    return Trained(net, module.history, honest.logits.cpu(), honest.log_weights.cpu(), list(module.best_weight))


def run_training(module: MemberTraining, settings: Settings, resume: Path | None = None) -> pl.Trainer:
    """Run Lightning's loop, from the last checkpoint if there is one, and leave the caller's random numbers alone."""
    with _quiet(settings.verbose), torch.random.fork_rng(devices=_cuda_devices()):
        trainer = _make_trainer(settings, resume)
        path = None if resume is None else _last_checkpoint(resume)
        with _plain_interrupt():
            trainer.fit(module, ckpt_path=path, weights_only=True if path else None)
    return trainer


def predict_logits(
    net: nn.Module, x: Tensor, *, device: torch.device, batch_size: int, prepare: nn.Module | None = None
) -> Tensor:
    """Return logits, rows x members, averaged over heads, in batches."""
    net = net.to(device).eval()
    out = []
    with torch.inference_mode():
        for start in range(0, len(x), batch_size):
            part = x[start : start + batch_size].to(device)
            out.append(member_logits(net, part if prepare is None else prepare.eval()(part)).float().mean(2).cpu())
    return torch.cat(out)


def select_members(net: TableNet, numbers: Sequence[int]) -> TableNet:
    """Return a net of some of the members."""
    chosen = TableNet(
        net.n_features, len(numbers), numeric=net.numeric.tolist(), bins=net.bins, heads=net.heads,
        width=net.width, depth=net.depth, dropout=net.dropout, seeds=list(range(len(numbers))),
    )  # fmt: skip
    own = {name for name, _ in net.named_parameters()}
    picked = torch.as_tensor(numbers)
    chosen.load_state_dict({key: value[picked] if key in own else value for key, value in net.state_dict().items()})
    return chosen


def member_logits(net: nn.Module, x: Tensor) -> Tensor:
    """Return batch x members x heads from any net: ordinary ones have one member and one head."""
    out: Tensor = net(x)
    if out.ndim == 3:
        return out
    return positive_logit(out)[:, None, None]


def make_optimizer(net: nn.Module, settings: Settings, *, fused: bool) -> torch.optim.Optimizer:
    """Return the optimiser; biases and norms are not decayed."""
    if callable(settings.optimizer):
        return settings.optimizer(net.parameters(), lr=settings.lr)
    trainable = [(n, p) for n, p in net.named_parameters() if p.requires_grad]
    plain = {n for n, p in trainable if n.endswith("bias") or "norm" in n or "bn" in n}
    groups = [
        {"params": [p for n, p in trainable if n not in plain], "weight_decay": settings.weight_decay},
        {"params": [p for n, p in trainable if n in plain], "weight_decay": 0.0},
    ]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr, fused=fused)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=0.9, nesterov=True, fused=fused)
    raise ValueError(f"optimizer must be 'adamw', 'sgd' or a callable, got {settings.optimizer!r}")


def choose_device(device: str, *, warn: bool = True) -> str:
    """Return 'cpu', 'cuda', 'cuda:1' or 'mps'; a wish that cannot be met falls back to the CPU with one line."""
    count, mps = torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.backends.mps.is_available()
    if device == "auto":
        return "cuda" if count else "mps" if mps else "cpu"
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda", "mps") or not (number.isdigit() or number == ""):
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps', got {device!r}")
    if kind == "cpu" or (kind == "mps" and mps) or (kind == "cuda" and int(number or 0) < count):
        return "cpu" if kind == "cpu" else device
    if warn:
        there = "no such device" if count else "no GPU"
        warnings.warn(f"device={device!r} asked for, but {there} is available: using the CPU", stacklevel=4)
    return "cpu"


def _make_trainer(settings: Settings, resume: Path | None) -> pl.Trainer:
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
    return pl.Trainer(**(options | settings.trainer | {"callbacks": callbacks}))


def _warm_cosine(progress: float, warm: float) -> float:
    """Rise linearly over the first ``warm`` of training, then fall along a cosine to zero."""
    if progress < warm:
        return (progress + 1e-3) / (warm + 1e-3)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, (progress - warm) / (1.0 - warm))))


def side_by_side(parts: Sequence[np.ndarray[Any, Any]]) -> Tensor:
    """Return one column of row numbers per member; shorter ones start again from their top."""
    longest = max(len(part) for part in parts)
    return torch.from_numpy(np.stack([np.resize(part, longest) for part in parts], axis=1).astype(np.int64))


def mix(*numbers: int) -> int:
    """Return one seed made of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def share_of_batch(batch: Tensor) -> tuple[Tensor, int]:
    """Return this process's rows of a batch, and by what its loss counts so that the processes' mean is the batch's."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return batch, 1
    world = torch.distributed.get_world_size()
    # every process needs at least one row: a batch smaller than the group is seen by all
    return (batch[torch.distributed.get_rank() :: world], world) if len(batch) >= world else (batch, 1)


def _last_checkpoint(folder: Path) -> str | None:
    """Return the checkpoint to go on from, if there is one, after looking at every byte of it."""
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    if path.is_dir():
        return str(path)
    try:
        with zipfile.ZipFile(path) as archive:  # torch writes zip archives with checksums, but does not read those
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile) as error:
        damaged = str(error)
    if damaged is not None:
        raise ValueError(f"the checkpoint {path} is damaged ({damaged}): delete its folder, and training starts anew")
    return str(path)


def _looks_at_gradients(callback: pl.Callback) -> bool:
    """Tell whether a callback has hooks in the middle of a pass, which a replay would leave out."""
    hooks = ("on_before_backward", "on_after_backward")
    return any(getattr(type(callback), hook) is not getattr(pl.Callback, hook) for hook in hooks)


@contextmanager
def _uncached_autocast() -> Iterator[None]:
    """Cast weights anew in each step: autocast would keep its copies of them over all steps of a training step."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


@contextmanager
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


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []


@contextmanager
def _quiet(verbose: bool) -> Iterator[None]:
    """Keep Lightning's advice (about workers we do not have, loggers we do not need) off the user's screen."""
    names = ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING if verbose else logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(lightning|pytorch_lightning|lightning_fabric)\..*")
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
