"""The last checkpoint of a training: bound to its fit, with its digest beside it, and read without running code."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from adacsl.durable import draft_of, replace_file
from adacsl.integrations.lightning import pl

CHECKPOINT = "last.ckpt"
DIGESTS = "last.sha256"
"""Digest and size of the checkpoint that is there, and before it is replaced those of the next one as well: whenever a
process is killed, the one that is there is known."""
DIGESTS_LENGTH = 200


class Checkpoints(NamedTuple):
    """Where a training keeps its last checkpoint, and the digest of the fit it belongs to."""

    folder: Path
    fit: str

    def part(self, name: str) -> Checkpoints:
        """Return where one of the trainings of a fit keeps its own."""
        return Checkpoints(self.folder / name, f"{self.fit} {name}")

    def of(self, net: nn.Module) -> Checkpoints:
        """Return the same for this very net: the code that makes it may have changed since."""
        shapes = repr([(name, tuple(tensor.shape)) for name, tensor in net.state_dict().items()])
        return self._replace(fit=f"{self.fit} {hashlib.sha256(shapes.encode()).hexdigest()}")

    def last(self) -> str | None:
        """Return the checkpoint to go on from, if there is one, after looking at every byte of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / CHECKPOINT
        if not path.exists():
            return None
        try:
            belongs = self._owner(path) == self.fit
        except Exception as error:  # whatever a damaged file leads to
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            raise ValueError(
                f"the checkpoint {path} is damaged ({reason}): delete its folder, and training starts anew"
            ) from None
        if not belongs:
            raise ValueError(
                f"the checkpoint {path} belongs to other data or settings: delete its folder, and training starts anew"
            )
        return str(path)

    def _owner(self, path: Path) -> Any:
        """Return which fit a checkpoint says it belongs to; nothing in it is believed before its digest is."""
        known = _checked(self.folder / DIGESTS, DIGESTS_LENGTH).read_text("ascii").splitlines()
        longest = max(int(line.split()[1]) for line in known)
        if _line(_checked(path, longest)) not in known:
            raise ValueError(f"its digest is not the one in {DIGESTS}")
        return torch.load(path, map_location="cpu", weights_only=True)["fit"]


class KeepLast(pl.callbacks.Checkpoint):
    """Keeps the state after each epoch, and only the last one: a process killed while writing leaves the one before."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.path, self.fit = checkpoints.folder / CHECKPOINT, checkpoints.fit
        self._there = [_line(self.path)] if self.path.exists() else []

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Say inside whose it is."""
        checkpoint["fit"] = self.fit

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write beside the checkpoint, say what comes, then put it in its place."""
        first = trainer.is_global_zero
        beside: AbstractContextManager[Path] = draft_of(self.path) if first else nullcontext(self.path)
        with beside as draft:
            trainer.save_checkpoint(draft)
            if first:
                coming = _line(draft)
                replace_file(self.path.with_name(DIGESTS), "\n".join([*self._there, coming, ""]).encode())
                self._there = [coming]
        trainer.strategy.barrier()


def _line(path: Path) -> str:
    with path.open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()} {path.stat().st_size}"


def _checked(path: Path, most: int) -> Path:
    """Return an ordinary file of at most so many bytes."""
    if not path.is_file():
        raise ValueError(f"{path.name} is no ordinary file, or not there")
    if path.stat().st_size > most:
        raise ValueError(f"{path.name} is longer than it was")
    return path
