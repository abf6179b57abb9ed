"""Labelled tables with more rows than are held in memory: read once in pieces, and kept in a file to be seen again."""

from __future__ import annotations

import tempfile
import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.cli.models import check_kind, class_names, feature_columns, matrix_of, model_input
from adacsl.cli.options import Prices, Source
from adacsl.core.costs import CostMatrix, unchecked_costs
from adacsl.core.labels import same_label
from adacsl.core.streaming import Batch

if TYPE_CHECKING:
    from adacsl.datasets.leftout import Reading
    from adacsl.datasets.opened import Table
    from adacsl.datasets.task import Task
    from adacsl.estimators.predicting import CostClassifier

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
    from adacsl.datasets.tables import check_words, is_table, open_table  # noqa: PLC0415

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
        from adacsl.datasets.leftout import Reading  # noqa: PLC0415  pandas

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
