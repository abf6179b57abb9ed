"""What every tested row cost under each method: what intervals and tests are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix, as_host
from adacsl.experiments.statistics.folds import Evidence

if TYPE_CHECKING:
    from adacsl.experiments.cell_documents import StoredSplit
    from adacsl.experiments.cells import Cell, CellResult

View = tuple[str, float]


@dataclass(frozen=True, eq=False)
class RowCosts:
    """What every tested row cost under each method, on one data set at one ratio.

    An entry is one row in one split; with repeats a row has several.

    Parameters
    ----------
    methods : tuple of str
        Names, in order.
    costs : array of shape (methods, m)
        NaN where a method has no result of that split.
    rows : array of shape (m,)
        Number of the row in the data.
    fits : array of shape (m,)
        Number of the split.
    units : array of shape (m,)
        One piece of evidence: the row, its group, its copies.
    """

    methods: tuple[str, ...]
    costs: NDArray[np.float64]
    rows: NDArray[np.int64]
    fits: NDArray[np.int64]
    units: NDArray[np.int64]

    def __post_init__(self) -> None:
        shape = (len(self.methods), len(self.rows))
        if self.costs.shape != shape or {len(self.fits), len(self.units)} != {shape[1]} or not self.costs.size:
            raise ValueError(
                f"costs must be methods x entries, with a row, fit and unit for each entry; got {self.costs.shape} for "
                f"{shape[0]} methods, {shape[1]} rows, {len(self.fits)} fits and {len(self.units)} units"
            )
        if len(set(self.methods)) != len(self.methods):
            raise ValueError(f"methods must have different names, got {list(self.methods)}")
        if np.isinf(self.costs).any():
            raise ValueError("costs must be finite numbers, or NaN where a method has no result")

    @cached_property
    def evidence(self) -> Evidence:
        """Which entries share a fit or a unit."""
        return Evidence.of(self.fits, self.units)

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """What each method cost in each fit, methods x fits in the order of their numbers; NaN: no result."""
        return np.stack([np.bincount(self.evidence.fits, own) for own in self.costs])

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """How many rows each fit was tested on."""
        return np.bincount(self.evidence.fits).astype(np.float64)

    def entries(self, *methods: int) -> NDArray[np.bool_]:
        """Return which entries belong to splits that all of some methods have."""
        return np.asarray(~np.isnan(self.sums[list(methods)]).any(axis=0))[self.evidence.fits]

    def paying(self, methods: Sequence[str], costs: NDArray[np.float64]) -> RowCosts:
        """Return the same entries with other methods or costs."""
        other = replace(self, methods=tuple(methods), costs=costs)
        other.__dict__["evidence"] = self.evidence  # numbering a million entries takes longer than adding them up
        return other


def row_costs(
    cells: Mapping[Cell, CellResult],
    splits: Mapping[tuple[str, int], StoredSplit],
    prices: Callable[[str, float, CostMatrix], CostMatrix],
) -> dict[View, RowCosts]:
    """Return the costs of all rows by data set and ratio, from stored decisions.

    Parameters
    ----------
    cells : mapping
        Results with their decisions.
    splits : mapping from (data, seed)
        Test rows of each split, with labels and costs.
    prices : function of data, ratio and the costs of a split
        Returns the costs of its rows at that ratio.
    """
    views: dict[View, dict[tuple[str, int], CellResult]] = {}
    for cell, result in cells.items():
        views.setdefault((cell.data, float(cell.ratio)), {})[cell.method, cell.seed] = result
    return {view: _of_view(view, own, splits, prices) for view, own in sorted(views.items())}


def _of_view(
    view: View,
    results: Mapping[tuple[str, int], CellResult],
    splits: Mapping[tuple[str, int], StoredSplit],
    prices: Callable[[str, float, CostMatrix], CostMatrix],
) -> RowCosts:
    methods, seeds = sorted({name for name, _ in results}), sorted({seed for _, seed in results})
    chosen = [splits[view[0], seed] for seed in seeds]
    sizes = [len(split.labels) for split in chosen]
    costs = np.full((len(methods), sum(sizes)), np.nan)
    for split, seed, end, size in zip(chosen, seeds, np.cumsum(sizes).tolist(), sizes, strict=True):
        own = prices(*view, split.costs)
        for place, name in enumerate(methods):
            if (name, seed) in results:
                decided = np.asarray(results[name, seed].decisions).astype(np.int64)
                costs[place, end - size : end] = as_host(own.incurred(split.labels, decided))
    return RowCosts(
        tuple(methods),
        costs,
        np.concatenate([split.test_rows for split in chosen]),
        np.repeat(np.asarray(seeds, dtype=np.int64), sizes),
        np.concatenate([split.units for split in chosen]),
    )


__all__ = ["RowCosts", "View", "row_costs"]
