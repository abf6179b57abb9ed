"""Ray Data: the exact cheapest threshold of scores that lie on many machines."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from adacsl.core.costs import CostMatrix
from adacsl.core.histogram import CostHistogram, bucket_numbers
from adacsl.core.thresholds import Threshold
from adacsl.extras import requires

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no calls to the outside

with requires("ray"):
    from ray.data import Dataset

Columns: TypeAlias = Mapping[str, Any]
RowCosts: TypeAlias = Callable[[Columns], CostMatrix]
"""Makes the costs of rows from their columns."""
ROWS = 1 << 18


def histogram(
    dataset: Dataset, *, score: str, label: str, costs: RowCosts | None = None, batch_rows: int = ROWS
) -> CostHistogram:
    """Return the :class:`~adacsl.CostHistogram` of a data set: counted where the rows lie, and merged here.

    Parameters
    ----------
    dataset : ray.data.Dataset
    score, label : str
        The columns with the probability of the positive class and with 0 or 1.
    costs : callable, optional
        ``costs(columns)`` returns the CostMatrix of some rows, where each has its own; class-wide costs are asked for
        afterwards.
    batch_rows : int
        How many rows are counted at a time.
    """

    def count(rows: Any) -> Any:
        part = CostHistogram()
        if len(rows[score]):
            part.update(rows[score], rows[label], costs=None if costs is None else costs(rows))
        return {name: [value] for name, value in part.to_counts().items()}

    whole = CostHistogram()
    for part in dataset.map_batches(count, batch_size=batch_rows, batch_format="numpy").iter_rows():
        whole.merge(CostHistogram.from_counts(**part))
    return whole


def threshold(
    dataset: Dataset, costs: CostMatrix | RowCosts, *,
    score: str, label: str, target: float = 0.5, batch_rows: int = ROWS,
) -> Threshold:  # fmt: skip
    """Return the exact cheapest threshold, as :func:`~adacsl.find_threshold` of all rows.

    The data set is read twice; of the second time, only rows that could change the answer come here.

    Parameters
    ----------
    dataset, score, label, batch_rows
        As in :func:`histogram`.
    costs : CostMatrix or callable
        Class-wide costs, or what makes those of rows from their columns.
    target : float
        Where to stay when several thresholds are equally cheap.
    """
    whole = costs if isinstance(costs, CostMatrix) else None
    each = None if isinstance(costs, CostMatrix) else costs
    counted = histogram(dataset, score=score, label=label, costs=each, batch_rows=batch_rows)
    second = counted.second_pass(whole)
    wanted = second.buckets

    def pick(rows: Any) -> Any:
        kept = np.isin(bucket_numbers(rows[score]), wanted)
        return {name: column[kept] for name, column in rows.items()}

    picked = dataset.map_batches(pick, batch_size=batch_rows, batch_format="numpy")
    rows: Any
    for rows in picked.iter_batches(batch_size=batch_rows, batch_format="numpy"):
        if len(rows[score]):
            second.update(rows[score], rows[label], costs=None if each is None else each(rows))
    return second.threshold(target=target)
