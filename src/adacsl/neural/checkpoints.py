"""Checkpoints of an unfinished training, bound to their fit by a digest."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from adacsl.datasets.encoder import TableEncoder
from adacsl.integrations.lightning import pl
from adacsl.neural.members import Data, Member
from adacsl.storage.digests import DigestedFile, bind_folder, digest_of, text_digest

CHECKPOINT = "last.ckpt"


class Checkpoints(NamedTuple):
    """Where a training keeps its last checkpoint, and the digest of the fit it belongs to."""

    folder: Path
    fit: str

    def part(self, name: str) -> Checkpoints:
        """Return where one of the trainings of a fit keeps its own."""
        return Checkpoints(self.folder / name, f"{self.fit} {name}")

    def of(self, net: nn.Module) -> Checkpoints:
        """Return the checkpoints of this network: the code that makes it may have changed since."""
        shapes = repr([(name, tuple(tensor.shape)) for name, tensor in net.state_dict().items()])
        return self._replace(fit=f"{self.fit} {text_digest(shapes)}")

    def last(self) -> str | None:
        """Return the checkpoint to resume from, if there is one, after verifying its digest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / CHECKPOINT
        if not os.path.lexists(path):
            return None
        try:
            belongs = self._owner(path) == self.fit
        except Exception as error:  # whatever a damaged file leads to
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            raise ValueError(
                f"the checkpoint {path} is damaged ({reason}): delete its folder, and training starts again"
            ) from None
        if not belongs:
            raise ValueError(
                f"the checkpoint {path} belongs to other data or settings: delete its folder, and training starts again"
            )
        return str(path)

    @staticmethod
    def _owner(path: Path) -> Any:
        """Return the digest of the fit that a checkpoint belongs to, once the checkpoint's own digest is verified."""
        with DigestedFile.open(path) as file:
            return torch.load(file, map_location="cpu", weights_only=True)["fit"]


class KeepLast(pl.callbacks.Checkpoint):
    """Keeps the state after each epoch, and only the last one: a process killed while writing leaves the one before."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.file, self.fit = DigestedFile(checkpoints.folder / CHECKPOINT), checkpoints.fit

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Name the fit that it belongs to."""
        checkpoint["fit"] = self.fit

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write beside the checkpoint, list the digest of what comes, then put it in its place."""
        first = trainer.is_global_zero
        beside: AbstractContextManager[Path] = self.file.draft() if first else nullcontext(self.file.path)
        with beside as draft:
            trainer.save_checkpoint(draft)
        trainer.strategy.barrier()


def claim_folder(folder: Path, identity: Mapping[str, str]) -> Checkpoints:
    """Return where a fit keeps its checkpoints, after making sure that the folder belongs to this very fit."""
    fit = digest_of([], identity)
    bind_folder(folder, fit)
    return Checkpoints(folder, fit)


def describe(value: Any) -> str:
    """Return a description of a network or function that is the same in every run of a program."""
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, nn.Module):
        shapes = [(name, list(tensor.shape)) for name, tensor in value.state_dict().items()]
        return f"{value!r} {shapes}"
    return str(getattr(value, "__qualname__", type(value).__qualname__)) if callable(value) else repr(value)


def identity_of(data: Data, members: Sequence[Member], training: Any, encoder: TableEncoder | None) -> dict[str, str]:
    """Return digests of everything that decides what a fit ends with: its samples, and its settings."""
    arrays = [t.numpy() for t in (data.x, data.y, data.sample_weight) if t is not None]
    arrays += [part for m in members for part in (m.train, m.validation, *(m.pools or ()))]
    arrays += [m.row_weights for m in members if m.row_weights is not None]
    # the device and the output may change
    settings = vars(training.settings)
    plain = {k: v for k, v in settings.items() if k not in ("verbose", "device", "trainer", "optimizer")}
    keepers = [
        [k.held.decide, k.held.last, k.held.by_loss, k.held.costs.to_dict(), k.shift, k.patience]
        for own in training.keepers.values() for k in own
    ]  # fmt: skip
    own: list[list[Any]] = [
        [m.seed, m.weight, m.every, m.gamma, m.offset, m.smote, describe(m.loss),
         m.controller and m.controller.state_dict()] for m in members
    ]  # fmt: skip
    # numbers are scaled by rank, so that other samples may be encoded alike
    about: list[Any] = [None if m.costs is None else m.costs.to_dict() for m in members[:1]]
    about.append(None if encoder is None else encoder.to_dict())
    net = training.net
    others = [describe(value) for value in (settings["optimizer"], net.module, net.augment, net.views, net.weights)]
    return {"rows": digest_of(arrays, about), "settings": digest_of([], [plain, own, keepers, others])}
