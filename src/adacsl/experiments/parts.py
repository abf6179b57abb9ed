"""Nets of unfinished jobs: what an interrupt, a time limit or a crash must not cost.

A job's result is written when its last net is trained. Where a net takes minutes and a job has five, each is kept as
soon as it is trained, and thrown away when the results of all have been written.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adacsl.experiments.documents import DamagedError, StoreError, document, put, read_document
from adacsl.experiments.store import file_name


@dataclass(frozen=True)
class Parts:
    """A folder for the parts of unfinished jobs.

    Parameters
    ----------
    folder : Path
        Inside the folder of a run, whose data and conditions the parts depend on.
    """

    folder: Path

    def read(self, data: str, seed: int, training: str, number: int) -> dict[str, Any] | None:
        """Return a part, or None where there is none that can be used."""
        path = self._path(data, seed, training) / f"{number}.json"
        if not path.is_file():
            return None
        try:
            return read_document(path, "part")
        except (DamagedError, StoreError):
            return None

    def write(self, data: str, seed: int, training: str, number: int, body: dict[str, Any]) -> None:
        """Keep a part: JSON values by name."""
        put(self._path(data, seed, training) / f"{number}.json", document("part", body), replace=True)

    def forget(self, data: str, seed: int, training: str) -> None:
        """Remove the parts of one training, and folders that are empty then."""
        path = self._path(data, seed, training)
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are at work there
            path.parent.rmdir()
            self.folder.rmdir()

    def _path(self, data: str, seed: int, training: str) -> Path:
        digest = hashlib.sha256(training.encode()).hexdigest()[:16]
        return self.folder / file_name(data) / f"seed-{int(seed)}_{digest}"


__all__ = ["Parts"]
