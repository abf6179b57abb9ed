"""Folders of checkpoints, which belong to one fit and no other."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from adacsl.datasets.encoding import TableEncoder
from adacsl.durable import replace_file
from adacsl.training.checkpoints import Checkpoints
from adacsl.training.members import Data, Member


def claim_folder(folder: Path, identity: Mapping[str, str]) -> Checkpoints:
    """Return where a fit keeps its checkpoints, after making sure that the folder belongs to this very fit."""
    fit = digest_of([], identity)
    mark_folder(folder, fit)
    return Checkpoints(folder, fit)


def mark_folder(folder: Path, known: str) -> None:
    """Write the digest of a fit into its folder; one that is there must be the same."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / "fit.sha256"
    if not mark.exists():
        replace_file(mark, known.encode())
    elif not mark.is_file() or mark.stat().st_size != len(known) or mark.read_bytes() != known.encode():
        raise ValueError(
            f"the checkpoints in {folder} belong to other data or settings; give an empty folder, or the same fit"
        )


def describe(value: Any) -> str:
    """Return what can be told of a net or a function from one run of a program to the next."""
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, nn.Module):
        shapes = [(name, list(tensor.shape)) for name, tensor in value.state_dict().items()]
        return f"{value!r} {shapes}"
    return str(getattr(value, "__qualname__", type(value).__qualname__)) if callable(value) else repr(value)


def identity_of(data: Data, members: Sequence[Member], training: Any, encoder: TableEncoder | None) -> dict[str, str]:
    """Return digests of everything that decides what a fit ends with: its rows, and its settings."""
    arrays = [t.numpy() for t in (data.x, data.y, data.sample_weight) if t is not None]
    arrays += [part for m in members for part in (m.train, m.validation, *(m.pools or ()))]
    arrays += [m.row_weights for m in members if m.row_weights is not None]
    # where it trains, and what it shows, may change
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
    # numbers are scaled by rank, so that other rows may be encoded alike
    about: list[Any] = [None if m.costs is None else m.costs.to_dict() for m in members[:1]]
    about.append(None if encoder is None else encoder.to_dict())
    net = training.net
    others = [describe(value) for value in (settings["optimizer"], net.module, net.augment, net.views, net.weights)]
    return {"rows": digest_of(arrays, about), "settings": digest_of([], [plain, own, keepers, others])}


def digest_of(arrays: Iterable[NDArray[Any]], others: Any) -> str:
    """Return one digest of arrays and plain values."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    digest.update(json.dumps(others, sort_keys=True, default=repr).encode())
    return digest.hexdigest()
