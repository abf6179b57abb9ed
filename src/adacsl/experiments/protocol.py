"""The same conditions for every method: splits, epochs, device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.task import Task
from adacsl.estimators.splits import cross_splits, one_split
from adacsl.experiments.cells import Split

OPTIMIZERS = ("auto", "adamw", "sgd", "plain-sgd")
SCHEDULES = ("cosine", "constant")


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
    augment : bool
        Flip, shift (and turn) training images.
    views : {1, 4}
        4 averages the four flips of each image when predicting.
    image_size : int, optional
        Side to which images are resized; default: they stay as they are.
    optimizer : {"auto", "adamw", "sgd", "plain-sgd"}
        "sgd" has Nesterov momentum and spares biases and norms from decay; "plain-sgd" has none and decays everything.
    weight_decay : float or "auto"
        Of the nets.
    schedule : {"cosine", "constant"}
        Warm up and fall along a cosine, or leave the learning rate as it is.
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
    augment: bool = True
    views: int = 1
    image_size: int | None = None
    optimizer: str = "auto"
    weight_decay: float | str = "auto"
    schedule: str = "cosine"
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if self.views not in (1, 4):
            raise ValueError(f"views must be 1 or 4, got {self.views!r}")
        if self.image_size is not None and self.image_size < 8:
            raise ValueError(f"image_size must be None or a side of at least 8 pixels, got {self.image_size!r}")

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
