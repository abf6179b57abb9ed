"""A cell of a comparison: one data set, cost ratio, method and seed; and what came out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Cell(NamedTuple):
    """What one result is a result of."""

    data: str
    # how many false positives one false negative is worth (means, where rows have their own costs); 1 with more than
    # two classes, whose costs stay as they are
    ratio: float
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.data}, ratio {self.ratio:g}, {self.method}, seed {self.seed}"


@dataclass(frozen=True)
class CellResult:
    """What a method did on the test rows of one split.

    ``metrics`` always has: cost (mean per test row), total_cost, normalized_cost, savings, accuracy,
    n_train (rows that were not test), n_test; of two classes tp, fp, fn, tn; where they make sense also
    validation_cost (of the chosen epoch: how optimistic was it?), epoch, lambda, calibration_error.
    """

    cell: Cell
    metrics: dict[str, float]
    # probability of the positive class for each test row (n,), or of each class (n, K), corrected for any weighting
    scores: NDArray[np.float32]
    decisions: NDArray[Any]  # whether each test row was called positive, or the number of the class it was called
    threshold: float | None = None  # decided positive where scores > threshold; None: rows have thresholds of their own
    # by epoch: epoch, fold, lambda, threshold, val_cost, train_cost
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0  # training and deciding; a training that serves several cells is divided among them
    provenance: dict[str, Any] = field(default_factory=dict)  # versions, device, commit, when
