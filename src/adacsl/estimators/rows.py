"""The rows of a fit, from the door to the learner: features, 0/1 labels, and what goes with each row."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.datasets.task import Task
from adacsl.estimators.splits import cross_splits, one_split
from adacsl.estimators.timesplits import Timeline, check_order, expanding_folds, latest_split, told
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.utils import _safe_indexing


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked training data.

    Parameters
    ----------
    x : table, array or images
        Features of all rows.
    y : array of shape (n,)
        1 = positive; of more than two classes their numbers, 0 to K - 1.
    use : array of row numbers
        The rows that may be learned from: not those of weight zero, nor those a comparison tests on.
    weight, groups : arrays of shape (n,), optional
        How much each row counts; rows of one group never stand on both sides of a split.
    costs : CostMatrix, optional
        Of each row, where they differ.
    extra : table, optional
        Validation rows given apart, which follow those of ``x``; ``validation`` are their numbers.
    images : bool
        Whether the rows are pictures, uint8 N x H x W x C.
    source : hashable, optional
        What the rows are part of: work done for it once (resizing pictures) serves other fits too.
    n_classes : int
        How many classes there are, also where some rows have none of one.
    line : Timeline, optional
        When each row was: what is held out is then later than what trains.
    labels : tuple, optional
        The label (or its name) of each class number.
    """

    x: Any
    y: NDArray[np.int64]
    use: NDArray[np.int64]
    weight: NDArray[np.float64] | None = None
    groups: NDArray[Any] | None = None
    costs: CostMatrix | None = None
    extra: Any = None
    validation: NDArray[np.int64] | None = None
    images: bool = False
    source: Hashable = None
    n_classes: int = 2
    line: Timeline | None = None
    labels: tuple[Any, ...] | None = None

    @staticmethod
    def of_task(
        task: Task, use: NDArray[np.int64], *, groups: NDArray[Any] | None = None, gap: Any = None, maturity: Any = None
    ) -> Rows:
        """Return some rows of a task to learn from; gap and maturity are for those with a time.

        ``groups`` take the place of the task's own, where more than these stays together.
        """
        weight = task.sample_weight
        use = use if weight is None else use[weight[use] > 0]
        costs = None if task.costs.n_instances is None else task.costs
        groups = task.groups if groups is None else groups
        return Rows(
            task.X, task.y, use, weight, groups, costs, images=task.images, source=task, n_classes=task.costs.n_classes,
            line=None if task.time is None else Timeline.of(task.time, gap, maturity), labels=task.classes,
        )  # fmt: skip

    def folds(self, cv: Any, validation: Any, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return (training rows, held-out rows): one pair, or one per fold; with a time, later rows are held out."""
        use = self.use
        if self.validation is not None:
            return [(np.arange(len(self.y) - len(self.validation)), self.validation)]
        if cv is not None and not isinstance(cv, Integral):
            # a splitter of the user's speaks of all rows
            pairs = cross_splits(self.y, self.groups, cv, seed)
            if self.line is not None:
                check_order(self.line, pairs, cv)
            return [(np.intersect1d(train, use), np.intersect1d(test, use)) for train, test in pairs]
        groups = None if self.groups is None else self.groups[use]
        if self.line is not None:
            line, y = self.line.rows(use), self.y[use]
            pairs = (
                latest_split(line, y, groups, float(validation))
                if cv is None
                else expanding_folds(line, y, groups, int(cv))
            )
        elif cv is None:
            # as a comparison has it, where the seed itself has cut off the test rows
            pairs = one_split(self.y[use], groups, float(validation), seed + 1)
        else:
            pairs = cross_splits(self.y[use], groups, cv, seed)
        return [(np.sort(use[train]), np.sort(use[test])) for train, test in pairs]

    def told(self, folds: list[tuple[NDArray[Any], NDArray[Any]]], tested: NDArray[Any] | None = None) -> str:
        """Return which times trained, adapted and were tested on; "" for rows without a time."""
        if self.line is None or not folds:
            return ""
        use = np.arange(len(self.y)) if self.weight is None else np.flatnonzero(self.weight > 0)
        return told(self.line, folds, tested, use=use, groups=self.groups is not None)

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows' features; those of validation data given apart are numbered behind the others."""
        if self.validation is not None and len(rows) and rows[0] >= self.validation[0]:
            return _safe_indexing(self.extra, rows - self.validation[0])
        return self.x if len(rows) == len(self.y) and self.extra is None else take(self.x, rows)

    def encoded(self, encoder: Any) -> NDArray[Any]:
        """Return all rows by an encoder that was fitted on those in use."""
        x = encoder.transform(self.x)
        return x if self.extra is None else np.concatenate((x, encoder.transform(self.extra)))

    def weights(self, rows: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return how much these rows count."""
        return None if self.weight is None else self.weight[rows]


def take(x: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of an array or a table of any library."""
    if isinstance(x, np.ndarray):
        return x[rows]
    if hasattr(x, "toarray") or isinstance(x, list):
        return _safe_indexing(x, rows)
    import narwhals as nw  # noqa: PLC0415  scikit-learn alone needs none

    frame = nw.from_native(x, eager_only=True, pass_through=True)
    return frame[rows.tolist()].to_native() if isinstance(frame, nw.DataFrame) else _safe_indexing(x, rows)


def leaks(rows: Rows) -> Iterator[str]:
    """Yield a line for each column of a table that alone tells every label (of two classes)."""
    if rows.images or rows.n_classes > 2:
        return
    from adacsl.datasets.codes import ColumnEncoder  # noqa: PLC0415  images need none

    table = rows.take(rows.use)
    encoder = ColumnEncoder().fit(table)
    positive = rows.y[rows.use] == 1
    for rule, column in zip(encoder.columns, encoder.transform(table).T, strict=True):
        if np.isnan(column).any():
            continue
        low, high = column[positive], column[~positive]
        apart = low.max() < high.min() or high.max() < low.min()
        levels = np.unique(column)
        if rule["kind"] == "category" and len(levels) < len(column) / 10:
            apart = not np.intersect1d(low, high).size
        if apart and len(levels) > 1:
            yield f"column {rule['name']!r} alone tells every label: is it known before the decision?"
