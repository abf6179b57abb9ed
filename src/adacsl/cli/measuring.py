"""What decisions about labelled rows cost: of rows in memory, or summed piece by piece."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.cli.pieces import Kept
from adacsl.core.costs import CostMatrix, as_host
from adacsl.core.curves import calibration_error
from adacsl.core.histogram import CostHistogram
from adacsl.core.intervals import Interval, cost_interval
from adacsl.core.labels import plain_labels
from adacsl.core.partitions import Quantile
from adacsl.core.streaming import Batch, RunningCalibration, RunningMean
from adacsl.core.thresholds import Threshold, find_threshold

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.estimators.policy import Decisions


class Measured:
    """Sums over decided rows; matrices are decided x actual.

    Parameters
    ----------
    in_pieces : bool
        Whether rows come in pieces, and none is held; or all at once.
    """

    def __init__(self, *, in_pieces: bool) -> None:
        self.in_pieces, self.rows = in_pieces, 0
        self.notes: dict[str, None] = {}
        self._mean, self._calibration, self._histogram = RunningMean(), RunningCalibration(), CostHistogram()
        self._kept = Kept() if in_pieces else None

    def add(self, task: Task, found: Decisions) -> None:
        """Measure some rows."""
        y, decided, proba, self.binary = task.y, found.actions, found.probabilities, _binary(task, found)
        costs = task.costs if self.binary else found.costs
        if not self.rows:
            self.classes, self.actions = task.classes, task.classes if found.costs.square else tuple(found.counts)
            self.square, self.total, self.lossless = found.costs.square, 0.0, 0.0
            self.counts = np.zeros((len(self.actions), len(self.classes)), int)
            self.money = np.zeros(self.counts.shape)
            self.constant, self.reduced = np.zeros(len(self.actions)), np.zeros(len(self.actions))
        self.rows, self.prior = self.rows + len(y), found.prior
        self.notes |= dict.fromkeys(found.notes)
        self.counts += np.bincount(
            decided.astype(int) * self.counts.shape[1] + y, minlength=self.counts.size
        ).reshape(self.counts.shape)  # fmt: skip
        self.money += costs.confusion(y, decided)
        self.total += costs.total(y, decided)
        self.lossless += costs.reduced().total(y, decided)
        self.constant += _constants(costs, y, len(self.actions))
        self.reduced += _constants(costs.reduced(), y, len(self.actions))
        sure, right = (proba, y) if proba.ndim == 1 else (proba.max(axis=1), proba.argmax(axis=1) == y)
        if not self.in_pieces:
            self._whole(task, costs, decided, sure, right)
            return
        self._mean.update(as_host(costs.incurred(y, decided)), groups=task.groups)
        self._calibration.update(sure, right)
        if self.binary and self._kept is not None:
            batch = Batch(proba, y, costs)
            self._histogram.update(proba, y, **batch.given())
            self._costs = costs if batch.counted else None
            self._kept.add(batch)

    def _whole(self, task: Task, costs: CostMatrix, decided: Any, sure: Any, right: Any) -> None:
        self._interval = cost_interval(costs, task.y, decided, groups=task.groups)
        self._error = calibration_error(sure, right, partition=Quantile(15)).error
        self._cheapest = find_threshold(sure, task.y, costs) if self.binary else None

    def _summed(self) -> tuple[Interval, float, Threshold | None]:
        """Return the mean cost, the calibration error and, of two classes, the cheapest threshold."""
        if self._kept is None:
            return self._interval, self._error, self._cheapest
        cheapest = None
        if self.binary:
            second = self._histogram.second_pass(self._costs)
            for batch in self._kept():
                second.update(batch.scores, batch.labels, **batch.given())
            cheapest = second.threshold()
        return self._mean.interval(), self._calibration.error(), cheapest

    def document(self) -> dict[str, Any]:
        """Return what was measured."""
        cost, error, cheapest = self._summed()
        best, free = self.constant.min(), self.reduced.min()
        mean = self.constant / self.rows
        common = {
            "rows": self.rows,
            "classes": plain_labels(self.classes),
            "cost": {"mean": cost.estimate, "interval": [cost.low, cost.high], "total": self.total},
            "normalized_cost": float(self.lossless / free) if free else math.nan,
            "savings": float((best - self.total) / abs(best)) if best else math.nan,
            "calibration_error": error,
            "in_pieces": self.in_pieces,
        }
        if cheapest is not None:
            (tn, fn), (fp, tp) = ((0, 0), (0, 1)), ((1, 0), (1, 1))
            cells = {"tp": tp, "fp": fp, "fn": fn, "tn": tn}
            return common | {
                "positives": int(self.counts[:, 1].sum()),
                "counts": {name: int(self.counts[cell]) for name, cell in cells.items()},
                "money": {name: float(self.money[cell]) for name, cell in cells.items()},
                "cheapest_threshold": {"value": cheapest.value, "mean": cheapest.cost / self.rows},
                "always_negative": float(mean[0]),
                "always_positive": float(mean[1]),
            }
        names, least = plain_labels(self.classes) if self.square else list(self.actions), int(np.argmin(mean))
        return common | {
            **({} if self.square else {"actions": names}),
            "counts": self.counts.tolist(),
            "money": self.money.tolist(),
            "cheapest_constant": {"decision": names[least], "mean": float(mean[least])},
        }


def _binary(task: Task, found: Decisions) -> bool:
    return len(task.classes) == 2 and found.costs.square


def _constants(costs: CostMatrix, y: Any, actions: int) -> list[float]:
    return [costs.total(y, np.full(len(y), action)) for action in range(actions)]
