"""Scores with labels from a table, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.costs import Costs, cost_specification, number_column, resolve_costs
from adacsl.datasets.errors import DataError, check_column, listed
from adacsl.datasets.labels import class_labels, missing_labels
from adacsl.datasets.readers.base import batch_name, first_warnings_only
from adacsl.datasets.readers.formats import How, open_table, read_opened
from adacsl.thresholds.streaming import Batch

with requires("train"):
    import pandas as pd


class ScoredTable:
    """Scores of two classes, labels, costs and weights: the columns of a table, in batches.

    Parameters
    ----------
    path : path
        The table.
    costs : CostMatrix, mapping or "balanced"
        They may depend on columns. "balanced" reads the labels of all rows.
    score : str, optional
        Column of the scores. Default: ``score``, or the other of two columns.
    label : str, optional
        Column of the labels. Default: ``label``, or the other of two columns.
    weight : str, optional
        Column of the sample weights. Default: none.
    pos_label : str, optional
        The label of the positive class; not needed for 0/1, -1/1 and false/true.
    rows : int, default 1048576
        Rows to hold in memory.
    how : dict, optional
        How the table is read: parameters of :func:`~adacsl.datasets.read_table`.

    See Also
    --------
    adacsl.thresholds.streaming.summarize_thresholds : Takes the batches.

    Examples
    --------
    >>> table = ScoredTable("scores.csv", costs={"fp": 1, "fn": 8})  # doctest: +SKIP
    >>> summarize_thresholds(table.batches()).tuned.best.value  # doctest: +SKIP
    0.1283
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        costs: Costs,
        score: str | None = None,
        label: str | None = None,
        weight: str | None = None,
        pos_label: str | None = None,
        rows: int = 1 << 20,
        how: How | None = None,
    ) -> None:
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        if isinstance(costs, CostMatrix) and costs.n_classes > 2:
            raise ValueError(
                f"a threshold separates two classes, but the costs are of {costs.n_classes}: decide by expected costs, "
                "as adacsl train does"
            )
        self.table, self.costs, self.weight, self.rows = open_table(path, **(how or How())), costs, weight, rows
        first = next(self.table.pieces(self.table.columns, rows), None)
        if first is None:
            raise DataError(f"{self.table.name} has a header ({listed(self.table.columns, 5)}) but no rows")
        self.score, self.label = _guessed(first, self.table.name, score, label)
        self.classes = self._classes(first, pos_label)

    def batches(self) -> Iterator[Batch]:
        """Yield batches of ``rows`` rows; with balanced costs one batch of all.

        Returns
        -------
        iterator of Batch
            Labelled scores with their costs.
        """
        known = [self.score, self.label, *filter(None, (self.weight,))]
        needed = [*known, *cost_specification(self.costs, np.asarray([0, 1]), classes=self.classes).columns]
        columns = self.table.wanted(list(dict.fromkeys(needed)))
        if isinstance(self.costs, str):
            yield self._batch(read_opened(self.table, columns), self.table.name)
            return
        start = 0
        for frame in self.table.pieces(columns, self.rows):
            with first_warnings_only(start):
                batch = self._batch(frame, batch_name(self.table.name, start))
            yield batch
            start += len(frame)

    def _batch(self, frame: pd.DataFrame, name: str) -> Batch:
        scores = number_column(frame, self.score, what=name, holds="a score", least=-np.inf)
        what = f"column {self.label!r} of {name}"
        y, _ = class_labels(frame[self.label], costs=self.costs, known=self.classes, what=what)
        weight = None
        if self.weight is not None:
            weight = number_column(frame, self.weight, what=name, holds="a weight of 0 or more")
        costs = resolve_costs(self.costs, y, table=frame, what=name, classes=self.classes)
        return Batch(scores, y, costs, weight)

    def _classes(self, first: pd.DataFrame, pos_label: str | None) -> tuple[str, ...]:
        """Return the two classes, reading on until two labels occur: a table may be sorted by them."""
        values, what = _labels_of(first, self.label), f"column {self.label!r} of {self.table.name}"
        if values.nunique() < 2:
            for frame in self.table.pieces([self.label], self.rows):
                there = _labels_of(frame, self.label)
                values = pd.concat((pd.Series(values.unique(), dtype=there.dtype), there))
                if values.nunique() > 1:
                    break
        numbers = pd.to_numeric(values, errors="coerce")  # text in batches, a number where all is read
        classes = class_labels(
            values if numbers.isna().any() else numbers, pos_label, costs=self.costs, what=what
        )[1]  # fmt: skip
        if len(classes) > 2:
            raise DataError(f"a threshold separates two classes, but {what} has {len(classes)}")
        return classes


def _labels_of(frame: pd.DataFrame, label: str) -> pd.Series[Any]:
    return frame[label][~missing_labels(frame[label])]


def _guessed(frame: Any, name: str, score: str | None, label: str | None) -> tuple[str, str]:
    """Return the columns of scores and labels: those named, those with the conventional names, or the only two."""
    known = list(frame.columns)
    for column in (score, label):
        if column is not None:
            check_column(column, known, name)
    score = score or next((c for c in known if str(c).casefold() == "score" and c != label), None)
    label = label or next((c for c in known if str(c).casefold() == "label" and c != score), None)
    if len(known) == 2:
        if score is None and label is None:
            # scores have more different values than labels; where both have two, the scores come first
            score = max(known, key=lambda c: frame[c].nunique())
        score = score or next(c for c in known if c != label)
        label = label or next(c for c in known if c != score)
    if score is None or label is None:
        wanted = " and ".join(f"the {what} column" for what, c in (("score", score), ("label", label)) if c is None)
        raise DataError(
            f"the columns of scores and labels in {name} are not clear: name {wanted}; it has {listed(known)}"
        )
    return score, label
