"""A cell of a comparison: one data set, cost ratio, method and seed; and what came out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Cell(NamedTuple):
    """What one result is a result of."""

    data: str
    ratio: float  # how many false positives one false negative is worth (means, where rows have their own costs)
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.data}, ratio {self.ratio:g}, {self.method}, seed {self.seed}"


@dataclass(frozen=True)
class CellResult:
    """What a method did on the test rows of one split.

    ``metrics`` always has: cost (mean per test row), total_cost, normalized_cost, savings, accuracy, tp, fp, fn, tn,
    n_train (rows that were not test), n_test; where they make sense also validation_cost (of the chosen epoch: how
    optimistic was it?), epoch, lambda, calibration_error.
    """

    cell: Cell
    metrics: dict[str, float]
    scores: NDArray[np.float32]  # probability of the positive class for each test row, corrected for any weighting
    decisions: NDArray[np.bool_]  # what was decided about each test row
    threshold: float | None = None  # decided positive where scores > threshold; None: rows have thresholds of their own
    # by epoch: epoch, fold, lambda, threshold, val_cost, train_cost
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0  # training and deciding; a training that serves several cells is divided among them
    provenance: dict[str, Any] = field(default_factory=dict)  # versions, device, commit, when
