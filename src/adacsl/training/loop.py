"""The loop, on Lightning: one or many nets side by side, each with its own loss, controller and keepers.

The members of a :class:`~adacsl.torch.tablenet.TableNet` run as one batched computation; other nets train one by one.
A member's result depends on its own rows, seed and settings alone: its batches, dropout, gradient clipping and patience
are its own, and no number of it is computed in an order that depends on who stands beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adacsl.extras import requires
from adacsl.integrations.lightning import ShardedNet, pl
from adacsl.training.batches import MemberBatches, RowBatches, share_of_batch, side_by_side, smote_batch
from adacsl.training.gathering import check_alike, gather_logits, spread_out
from adacsl.training.keepers import Keeper
from adacsl.training.losses import member_losses
from adacsl.training.members import Data, Member, Settings, mix
from adacsl.training.optimizers import clip_each_member, make_optimizer, make_schedule
from adacsl.training.recording import can_record, uncached_autocast
from adacsl.training.steering import offsets_of, row_weights_of, step_controller, trained_with, weights_now

with requires("train"):
    from adacsl.torch.graphs import RecordedPass
    from adacsl.torch.tablenet import TableNet, member_logits

STEPS_PER_CALL = 8
"""Optimiser steps per training step of Lightning, whose bookkeeping would cost more than a small net's own work."""

MEASURED_ON_HOST = 2**20
"""Up to so many validation scores are measured on the host: a GPU would spend its time on launches."""


class MemberTraining(pl.LightningModule):
    """Trains all members of a net at once, steers each one's weights, and lets the keepers look at each epoch."""

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
        self._side_by_side = isinstance(net, TableNet)
        # images take long: their watched rows are scored in the epochs that are kept, and no others
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
        self._between: dict[int, dict[str, Any]] = {}  # what controllers found that step between batches

    # data

    def setup(self, stage: str) -> None:
        """Make sure that all processes fit the same, before they wait for each other."""
        if self.trainer.world_size > 1 and self._identity is not None:
            check_alike(self._identity(), self.device)

    def configure_model(self) -> None:
        """Share out the weights, where the strategy says so."""
        if isinstance(self.trainer.strategy, ShardedNet):
            self.trainer.strategy.shard(self.net)

    def on_fit_start(self) -> None:
        """Move the data to the device, once."""
        self._data = replace(self._data.labels_on(self.device), x=self._data.x.to(self.device))
        few = len(self._data.y) * len(self._members) <= MEASURED_ON_HOST
        self._known = self._data.labels_on(torch.device("cpu") if few else self.device)
        self._looked_at = side_by_side([self._rows_of(i) for i in range(len(self._members))]).to(self.device)
        for keeper in self.keepers:
            if keeper.weights is not None:
                keeper.weights = {name: value.to(self.device) for name, value in keeper.weights.items()}

    def _rows_of(self, column: int) -> np.ndarray[Any, Any]:
        """Return all rows of a member that somebody wants to see after each epoch."""
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
        """Return all rows to look at, in order."""
        return RowBatches(self._looked_at, self._settings.evaluation_batch_size)

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Row numbers go where the rows are."""
        return tuple(rows.to(self._data.y.device) for rows in batch)

    # steps

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, batch x members x heads (x classes, for more than two)."""
        return member_logits(self.net, x if self.prepare is None else self.prepare(x), self._data.n_classes)

    def on_train_start(self) -> None:
        """End at once where the interrupted run had already lost its patience."""
        self._stop_when_all_are_tired()
        if self._can_record():
            self._recorded = RecordedPass(self._pass, [p for p in self.net.parameters() if p.requires_grad])

    def on_train_end(self) -> None:
        """Score what is watched with the last epoch's net, for those who want it; give memory back."""
        if self._scores_later:
            self._keep_watched([k for k in self.keepers if k.watch is not None and k.held.last])
        self._recorded = None
        self.net.zero_grad()
        if isinstance(self.net, TableNet):
            self.net.noise = None

    def on_train_epoch_start(self) -> None:
        """Draw the epoch's random numbers (dropout, augmentation) from its own seeds: a resumed run repeats them."""
        torch.manual_seed(mix(self._members[0].seed + 1, self.current_epoch, self.global_rank))
        if isinstance(self.net, TableNet):
            seeds = [mix(member.seed + 1, self.current_epoch) for member in self._members]
            self._noise = [torch.Generator(self.device).manual_seed(seed) for seed in seeds]

    def training_step(self, block: tuple[Tensor, ...], batch_idx: int) -> None:
        """Take one optimiser step per batch of the block."""
        optimizer, schedule = self.optimizers(), self.lr_schedulers()
        noise = self.net.draw_noise(self._noise, len(block), len(block[0])) if isinstance(self.net, TableNet) else None
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
                self._losses.append(loss)

    def _use_noise(self, noise: Tensor) -> None:
        """Give the net its dropout; a recorded pass reads it from one place."""
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
        """Tell whether passes may be recorded: one GPU, and parts known to do the same work for every batch."""
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
        """Return the logits of each member's own rows, in float32."""
        logits: Tensor = self(self._data.x[rows if self._side_by_side else rows[:, 0]])
        return logits.float()

    # after each epoch

    def on_validation_epoch_start(self) -> None:
        """Start anew."""
        self._collected: list[tuple[Tensor, Tensor]] = []

    def validation_step(self, block: tuple[Tensor, ...], batch_idx: int) -> None:
        """Keep each member's logits, averaged over its heads."""
        rows, _ = share_of_batch(block[0])
        self._collected.append((rows, self._logits(rows).mean(2)))

    def on_validation_epoch_end(self) -> None:
        """Let every keeper look at the epoch, then steer the weights."""
        if self.trainer.sanity_checking:
            return
        losses = self._mean_training_losses()
        # a GPU is waited for here, and here only
        alone = self.trainer.world_size == 1
        logits = gather_logits(self._collected, len(self._data.y), self.current_epoch, alone=alone)
        logits = logits.to(self._known.y.device)
        self._collected.clear()
        trained = [trained_with(member, self._data.n_classes) for member in self._members]
        found = self._steer([m for m in self._members if m.every is None], logits)
        host = logits.cpu().numpy()
        kept = []
        for keeper, column in zip(self.keepers, self._columns, strict=True):
            about = trained[column] | {"train_loss": float(losses[column])}
            if keeper.member.controller is not None:
                about |= (self._between | found).get(id(keeper.member.controller), self._unknown)
            if keeper.look(host[keeper.rows, column], self.current_epoch, about):
                kept.append((keeper, column))
        self._keep(kept, host)
        self._take_weights()
        if self._settings.verbose or self._settings.trainer:  # somebody may listen
            # a tensor of the host stays there: Lightning would move a number to the GPU and wait for it to come back
            cost = float(np.mean([keeper.history[-1]["val_cost"] for keeper in self.keepers]))
            self.log("val_cost", torch.tensor(cost), prog_bar=True)
        self._stop_when_all_are_tired()

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
        """Keep what the weights alone do not tell."""
        checkpoint["adacsl"] = {
            "controllers": [None if m.controller is None else m.controller.state_dict() for m in self._members],
            "keepers": [keeper.state_dict() for keeper in self.keepers],
            "batches_seen": self._batches_seen,
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

    def _steer(self, members: Sequence[Member], logits: Tensor) -> dict[int, dict[str, Any]]:
        """Step every controller of these members, once, on the scores of all members it steers; return findings."""
        found = {}
        for controller in {id(m.controller): m.controller for m in members if m.controller is not None}.values():
            own = [(i, m) for i, m in enumerate(self._members) if m.controller is controller]
            if all(k.tired for k in self.keepers if k.member.controller is controller):
                continue  # nobody looks any more; in company of others it must end where it ends alone
            rows = np.concatenate([m.validation for _, m in own])
            columns = np.repeat([i for i, _ in own], [len(m.validation) for _, m in own])
            found[id(controller)] = step_controller(controller, own[0][1], self._known, logits, rows, columns)
        return found

    def _adapt_between_batches(self) -> None:
        """Step the controllers whose turn it is after so many batches."""
        seen = self._batches_seen
        due = [m for m in self._members if m.every is not None and seen and not seen % m.every]
        self._batches_seen += 1
        if not due:
            return
        self.eval()
        with torch.no_grad():
            rows = side_by_side([m.validation for m in self._members]).to(self._data.y.device)
            parts = torch.split(rows, self._settings.evaluation_batch_size)
            values = torch.cat([self._logits(part).mean(2) for part in parts])
            logits = spread_out(rows, values, len(self._data.y))
            self._between |= self._steer(due, logits.to(self._known.y.device))
        self.train()
        self._take_weights()

    def _keep(self, kept: list[tuple[Keeper, int]], host: Any) -> None:
        """Keep this epoch for the keepers that want it: weights, or logits of the rows they watch."""
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
        """Let these keepers, of one net, keep what the net as it is says about their rows."""
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
        # sharded strategies gather the whole net here; elsewhere these are the net's own tensors
        prefix = "net."
        state = self.trainer.strategy.lightning_module_state_dict()
        return {name.removeprefix(prefix): value.detach() for name, value in state.items() if name.startswith(prefix)}

    def _stop_when_all_are_tired(self) -> None:
        if all(keeper.tired for keeper in self.keepers):
            self.trainer.should_stop = True
