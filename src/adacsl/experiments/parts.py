"""Nets of unfinished jobs: what an interrupt, a time limit or a crash must not cost.

A job's result is written when its last net is trained. Where a net takes minutes and a job has five, each is kept as
soon as it is trained, and thrown away when the results of all have been written.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from adacsl.durable import DamagedError
from adacsl.experiments.documents import StoreError, document, pack, put, read_document, unpack
from adacsl.experiments.run_folder import file_name, inside

ARRAY, SHAPE = "$array", "shape"


@dataclass(frozen=True)
class Parts:
    """A folder for the parts of unfinished jobs on one split of some data.

    Parameters
    ----------
    folder : Path
        Inside the folder of a run, whose data and conditions the parts depend on.
    data, seed
        Which split.
    origins : mapping
        Digest of the data and the settings of the run, by the name of the data: other parts are not taken.
    """

    folder: Path
    data: str = "data"
    seed: int = 0
    origins: Mapping[str, str] = field(default_factory=dict)

    def read(self, training: str, fold: int) -> dict[str, Any] | None:
        """Return what was kept of a net, or None where there is nothing that can be used."""
        try:
            body = read_document(self._folder(training) / f"{fold}.json", "part")
            return dict(_restored(body["kept"])) if body.items() >= self._place(training, fold).items() else None
        except (DamagedError, StoreError, KeyError, TypeError, ValueError):
            return None

    def write(self, training: str, fold: int, kept: Mapping[str, Any]) -> None:
        """Keep what a net is needed for: numbers, lists and arrays by name."""
        body = self._place(training, fold) | {"kept": _plain(kept)}
        put(self._folder(training) / f"{fold}.json", document("part", body), replace=True)

    def forget(self, training: str) -> None:
        """Remove all parts of a training, and folders that are empty then."""
        own = self._folder(training)
        shutil.rmtree(own, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are at work there
            own.parent.rmdir()
            self.folder.rmdir()

    def _folder(self, training: str) -> Path:
        own = self.folder / file_name(self.data) / f"seed-{int(self.seed)}_{_digest(training)[:16]}"
        return inside(self.folder.parent, own / "part").parent

    def _place(self, training: str, fold: int) -> dict[str, Any]:
        return {"origin": self.origins.get(self.data), "training": _digest(training), "fold": fold}


def _digest(training: str) -> str:
    return hashlib.sha256(training.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if hasattr(value, "numpy") or isinstance(value, np.ndarray):
        array = np.asarray(value)
        return {ARRAY: pack(array)} | ({} if array.ndim == 1 else {SHAPE: list(array.shape)})
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        if ARRAY in value:
            return unpack(value[ARRAY]).reshape(value.get(SHAPE, -1))
        return {key: _restored(item) for key, item in value.items()}
    return [_restored(item) for item in value] if isinstance(value, list) else value
