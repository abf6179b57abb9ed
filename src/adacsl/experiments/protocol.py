"""The same conditions for every method: splits, epochs, device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.task import Task
from adacsl.estimators.splits import cross_splits, one_split
from adacsl.experiments.cells import Split


@dataclass(frozen=True)
class Protocol:
    """How every method of a comparison is trained and tested.

    Parameters
    ----------
    test, validation : float
        Shares of the rows; the rest trains. 65 / 15 / 20 as in the paper.
    epochs, batch_size, lr : number or "auto"
        Of the nets; "auto" is what ``AdaCSLClassifier`` takes for that many rows.
    weights : str, optional
        Local weights of the image net's backbone.
    rotate : bool
        Turn training images by quarter turns too, where they have no up and down.
    device : str
        Where nets train.
    """

    test: float = 0.20
    validation: float = 0.15
    epochs: int | str = "auto"
    batch_size: int | str = "auto"
    lr: float | str = "auto"
    weights: str | None = None
    rotate: bool = False
    device: str = "auto"

    def identity(self) -> dict[str, Any]:
        """Return what decides about results: everything but the device."""
        return {key: value for key, value in asdict(self).items() if key != "device"}


def make_split(task: Task, protocol: Protocol, seed: int) -> Split:
    """Cut rows into training, validation and test: stratified, groups never torn apart."""
    groups = task.groups
    rest, test = one_split(task.y, groups, protocol.test, seed)[0]
    inner = protocol.validation / (1.0 - protocol.test)
    train, validation = one_split(task.y[rest], None if groups is None else groups[rest], inner, seed + 1)[0]
    return Split(np.sort(rest[train]), np.sort(rest[validation]), np.sort(test))


def make_folds(task: Task, rows: NDArray[np.int64], folds: int, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return (training rows, held-out rows) of a cross-fit over some rows of the task."""
    groups = None if task.groups is None else task.groups[rows]
    return [(rows[train], rows[test]) for train, test in cross_splits(task.y[rows], groups, folds, seed)]
