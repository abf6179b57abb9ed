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
from typing import Any, NamedTuple

from adacsl.experiments.documents import DamagedError, StoreError, document, put, read_document
from adacsl.experiments.run_folder import file_name


class Place(NamedTuple):
    """Whose parts: the nets of one training, on one split of some data."""

    data: str
    seed: int
    training: str


@dataclass(frozen=True)
class Parts:
    """A folder for the parts of unfinished jobs.

    Parameters
    ----------
    folder : Path
        Inside the folder of a run, whose data and conditions the parts depend on.
    """

    folder: Path

    def read(self, place: Place, fold: int) -> dict[str, Any] | None:
        """Return a part, or None where there is none that can be used."""
        path = self._folder(place) / f"{fold}.json"
        if not path.is_file():
            return None
        try:
            return read_document(path, "part")
        except (DamagedError, StoreError):
            return None

    def write(self, place: Place, fold: int, body: dict[str, Any]) -> None:
        """Keep a part: JSON values by name."""
        put(self._folder(place) / f"{fold}.json", document("part", body), replace=True)

    def forget(self, place: Place) -> None:
        """Remove all parts of a place, and folders that are empty then."""
        own = self._folder(place)
        shutil.rmtree(own, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are at work there
            own.parent.rmdir()
            self.folder.rmdir()

    def _folder(self, place: Place) -> Path:
        digest = hashlib.sha256(place.training.encode()).hexdigest()[:16]
        return self.folder / file_name(place.data) / f"seed-{int(place.seed)}_{digest}"


__all__ = ["Parts", "Place"]
