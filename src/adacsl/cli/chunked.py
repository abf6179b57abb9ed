"""Evaluation of labelled tables in chunks."""

from __future__ import annotations

import math
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.base.arrays import as_host
from adacsl.base.labels import plain_labels, same_label
from adacsl.cli.model_folder import check_kind, class_names, feature_columns, matrix_of, model_input
from adacsl.cli.options import Prices, Source
from adacsl.costs.matrix import CostMatrix, unchecked_costs
from adacsl.metrics.bins import Quantile
from adacsl.metrics.calibration import calibration_error
from adacsl.metrics.intervals import Interval, cost_interval
from adacsl.thresholds.search import Threshold, find_threshold
from adacsl.thresholds.streaming import Batch, CostHistogram, RunningCalibration, RunningMean

if TYPE_CHECKING:
    from adacsl.datasets.readers.base import Reading, Table
    from adacsl.datasets.task import Task
    from adacsl.decision.policy import Decisions
    from adacsl.estimators.classifier import CostClassifier


ROWS = 1_000_000
"""A table with more rows is read in pieces."""


class Kept:
    """Scores, labels, prices and weights of rows in a temporary file, called for them as often as one likes."""

    def __init__(self) -> None:
        self._file: Any = tempfile.TemporaryFile()  # noqa: SIM115  never seen by name, and gone with this object
        weakref.finalize(self, self._file.close)
        self._parts = 0
        self._costs: CostMatrix | None = None

    def add(self, batch: Batch) -> None:
        """Keep some rows."""
        own, nothing = batch.costs.n_instances is not None, np.empty(0)
        self._costs, self._parts = None if own else batch.costs, self._parts + 1
        prices, weight = batch.costs.to_array() if own else nothing, nothing if batch.weight is None else batch.weight
        for column in (batch.scores, np.asarray(batch.labels, np.int8), prices, weight):
            np.save(self._file, column, allow_pickle=False)

    def __call__(self) -> Iterator[Batch]:
        """Yield the rows as they were added."""
        self._file.seek(0)
        for _ in range(self._parts):
            scores, labels, prices, weight = (np.load(self._file, allow_pickle=False) for _ in range(4))
            costs = self._costs
            if costs is None:
                costs = unchecked_costs(tuple(tuple(prices[:, i, j] for j in (0, 1)) for i in (0, 1)))
            yield Batch(scores, labels.astype(np.int64), costs, weight if len(weight) else None)


def said_once(first: bool) -> warnings.catch_warnings[Any]:
    """Return a context that says warnings about the first piece only; the others would repeat them."""
    from adacsl.datasets.errors import DataWarning  # noqa: PLC0415  pandas

    return warnings.catch_warnings(action=None if first else "ignore", category=DataWarning)


def from_row(name: str, done: int) -> str:
    """Return what messages call a piece of a table."""
    return name if done == 0 else f"{name}, from row {done + 1} on"


def large_table(classifier: CostClassifier, data: str | None, source: Source, said: Prices, rows: int) -> Table | None:
    """Return a table with more than so many rows; None: the data are another thing, or have to be seen whole."""
    from pathlib import Path  # noqa: PLC0415

    from adacsl.datasets.builtin import is_builtin  # noqa: PLC0415  pandas
    from adacsl.datasets.readers.formats import check_words, is_table, open_table  # noqa: PLC0415

    if rows < 1:
        raise ValueError(f"--batch-rows must be at least 1, got {rows}")
    other = source.positive is not None and not same_label(source.positive, getattr(classifier, "positive_", None))
    if said.costs == "balanced" or other or (data is not None and is_builtin(data)):
        return None
    how: Any = source.files.how
    check_words(data, how)
    path = Path(data or "").expanduser()
    if data is not None and not (path.exists() and is_table(path)):
        return None
    table = open_table(None if data is None else path, **how)
    check_kind(classifier, table.name, pictures=False)
    return table if table.exceeds(rows) else None


class LabelledPieces:
    """The rows of a table as tasks, with their features as a model takes them; counts what has no label.

    Parameters
    ----------
    classifier : CostClassifier
        Knows its columns and its classes.
    table : Table
    source, said : Source, Prices
        What the columns mean and what errors cost, as said on the command line.
    target : str, optional
        The column of the labels in training.
    when : str, optional
        The column with the time of each row, where that is wanted.
    """

    def __init__(
        self, classifier: CostClassifier, table: Table, source: Source, said: Prices, target: str | None,
        *, when: str | None = None,
    ) -> None:  # fmt: skip
        from adacsl.datasets.task import target_column  # noqa: PLC0415  pandas

        self.classifier, self.table, self.source, self.unlabelled = classifier, table, source, 0
        self.target = target_column(table.columns, source.target or target, table.name)
        self.costs: Any = matrix_of(classifier, said)
        apart = [self.target, *filter(None, (source.group_column,))]
        others = [*apart, *filter(None, (when,)), *self.costs.columns]
        known = [column for column in table.columns if column not in apart]
        self.features = feature_columns(classifier, known, table.name, others)
        self.columns = table.wanted(list(dict.fromkeys((*self.features, *others))))

    @property
    def reading(self) -> Reading:
        """What was left out so far."""
        from adacsl.datasets.readers.base import Reading  # noqa: PLC0415  pandas

        return Reading(self.unlabelled, read_as=tuple(self.table.read_as))

    def read(self, rows: int) -> Iterator[tuple[Task, Any]]:
        """Yield so many rows at a time."""
        from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas
        from adacsl.datasets.labels import missing_labels  # noqa: PLC0415
        from adacsl.datasets.task import table_task  # noqa: PLC0415

        done = 0
        for frame in self.table.pieces(self.columns, rows):
            missing = missing_labels(frame[self.target]).to_numpy()
            gone = int(missing.sum()) if self.source.files.on_error == "skip" else 0
            if gone < len(frame):
                with said_once(done == 0):
                    task = table_task(
                        frame[~missing] if gone else frame, name=from_row(self.table.name, done), target=self.target,
                        costs=self.costs, group_column=self.source.group_column, source=self.table.name,
                        known_classes=class_names(self.classifier),
                    )  # fmt: skip
                yield task, model_input(self.classifier, task.X, self.features)
            done, self.unlabelled = done + len(frame), self.unlabelled + gone
        if done == self.unlabelled:
            raise DataError(f"no row of {self.table.name} has a label: fill in column {self.target!r}")
        self.reading.warn(self.table.name, done - self.unlabelled)


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
