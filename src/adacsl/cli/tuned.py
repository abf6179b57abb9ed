"""How sure a cheapest threshold is, and what it will cost on new rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix, as_host
from adacsl.core.intervals import Interval, drawn_means
from adacsl.core.thresholds import TIE_TOLERANCE, Threshold, find_threshold

Floats = NDArray[np.float64]

CELLS = 4096
"""Where there are more distinct scores, resamples are cut at so many of them."""

BLOCK = 2**22
"""How many numbers one block of resamples may hold."""

MANY = 200_000
"""With more rows, chance plays a small part: fewer draws measure it."""


class TunedThreshold(NamedTuple):
    """The cheapest threshold of some rows, and what is known of it beyond these rows.

    ``threshold`` has the interval of the optimum. ``cost`` is the mean cost to expect on new rows, None where a class
    has a single row: the cost of thresholds tuned on one half of the rows and paid on the other. It is above
    ``best.cost`` because a threshold flatters the rows that chose it.
    """

    best: Threshold
    threshold: Interval
    cost: Interval | None


class _Rows(NamedTuple):
    """What a decision about each row costs beyond the unavoidable, and the cell its score lies in."""

    cell: NDArray[np.int64]
    missed: Floats  # if called negative
    alarmed: Floats  # if called positive

    def take(self, index: NDArray[np.int64]) -> _Rows:
        return _Rows(self.cell[index], self.missed[index], self.alarmed[index])


class _Cuts(NamedTuple):
    """The equally cheap thresholds of each cut: from ``low`` to ``high``."""

    low: Floats
    high: Floats


def tune_threshold(
    scores: Floats,
    labels: NDArray[np.int64],
    costs: CostMatrix,
    *,
    sample_weight: Floats | None = None,
    level: float = 0.95,
    random_state: int = 0,
) -> TunedThreshold:
    """Return the cheapest threshold of binary scores with its interval, and what it can be expected to cost."""
    best = find_threshold(scores, labels, costs, sample_weight=sample_weight)
    resamples, halvings = (1000, 25) if len(scores) <= MANY else (200, 5)
    tails = ((1.0 - level) / 2.0, (1.0 + level) / 2.0)
    lows, highs = _bootstrap(scores, labels, costs, sample_weight, resamples, random_state)
    low, high = float(np.quantile(lows, tails[0])), float(np.quantile(highs, tails[1]))
    each = _costs_of_halves(scores, labels, costs, sample_weight, halvings, random_state)
    cost = None if each is None else mean_cost(each, sample_weight, level=level, random_state=random_state)
    return TunedThreshold(best, Interval(best.value, min(low, best.value), max(high, best.value)), cost)


# the optimum: a bootstrap of find_threshold


def _bootstrap(
    scores: Floats, labels: NDArray[Any], costs: CostMatrix, weight: Floats | None, resamples: int, seed: int
) -> tuple[Floats, Floats]:
    """Return where the equally cheap thresholds of each resample begin and end."""
    rows, cuts = _cells(np.asarray(scores, np.float64), np.asarray(labels) == 1, costs, weight)
    lows, highs = [], []
    for block in _resampled(rows, len(cuts.low) - 1, resamples, np.random.default_rng(seed)):
        cheapest = block <= block.min(axis=1, keepdims=True) + TIE_TOLERANCE * block.max(axis=1, keepdims=True)
        lows.append(cuts.low[cheapest.argmax(axis=1)])
        highs.append(cuts.high[cheapest.shape[1] - 1 - cheapest[:, ::-1].argmax(axis=1)])
    return np.concatenate(lows), np.concatenate(highs)


def _cells(
    scores: Floats, positive: NDArray[np.bool_], costs: CostMatrix, weight: Floats | None
) -> tuple[_Rows, _Cuts]:
    """Sort the rows into cells of neighbouring scores; between two cells lies a cut."""
    tops = np.unique(scores)
    if len(tops) > CELLS:
        tops = tops[np.linspace(0, len(tops) - 1, CELLS + 1).round().astype(np.int64)[1:]]
    cell = np.searchsorted(tops, scores)
    bottoms = np.full(len(tops), np.inf)
    np.minimum.at(bottoms, cell, scores)
    low, high = np.concatenate(([0.0], tops)), np.concatenate((bottoms, [1.0]))
    stakes = [np.where(positive, costs.fn - costs.tp, 0.0), np.where(positive, 0.0, costs.fp - costs.tn)]
    return _Rows(cell, *(stake if weight is None else stake * weight for stake in stakes)), _Cuts(low, high)


def _resampled(rows: _Rows, cells: int, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield the avoidable costs of all cuts, resamples x cuts, a block of resamples at a time."""
    # rows that share cell and price are one kind: how often each kind is drawn is all that matters
    first, counts = _kinds(rows)
    n = len(rows.cell)
    few = len(first) * 4 < n
    kinds = rows.take(first) if few else rows
    order = np.argsort(kinds.cell, kind="stable")
    kinds, counts = kinds.take(order), counts[order] if few else counts
    starts = np.searchsorted(kinds.cell, np.arange(cells))
    size = max(BLOCK // len(order), 1)
    for done in range(0, resamples, size):
        times = min(size, resamples - done)
        drawn = rng.multinomial(n, counts / n, size=times) if few else _drawn(n, times, rng)
        yield _costs_of_cuts(kinds, drawn, starts)


def _kinds(rows: _Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return one row of each kind, and how many rows there are of it."""
    order = np.lexsort(rows)
    changed = [column[order][1:] != column[order][:-1] for column in rows]
    starts = np.flatnonzero(np.concatenate(([True], np.any(changed, axis=0))))
    return order[starts], np.diff(np.concatenate((starts, [len(order)])))


def _drawn(n: int, resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.stack([np.bincount(rng.integers(0, n, size=n), minlength=n) for _ in range(resamples)])


def _costs_of_cuts(rows: _Rows, times: NDArray[np.int64], starts: NDArray[np.int64]) -> Floats:
    """Return what it costs to call the lowest k cells negative, each row counted so many times."""
    missed = np.cumsum(np.add.reduceat(times * rows.missed, starts, axis=1), axis=1)
    alarmed = np.cumsum(np.add.reduceat(times * rows.alarmed, starts, axis=1)[:, ::-1], axis=1)[:, ::-1]
    total: Floats = np.pad(missed, ((0, 0), (1, 0))) + np.pad(alarmed, ((0, 0), (0, 1)))
    return total


# the cost: tuned on one half, paid on the other


def _costs_of_halves(
    scores: Floats, labels: NDArray[np.int64], costs: CostMatrix, weight: Floats | None, halvings: int, seed: int
) -> Floats | None:
    """Return what each row costs, as a mean over random halvings, with thresholds that its own half did not choose."""
    members = [np.flatnonzero(labels == label) for label in (0, 1)]
    if min(map(len, members)) < 2:
        return None
    rng, total = np.random.default_rng(seed), np.zeros(len(scores))
    for _ in range(halvings):
        half = np.zeros(len(scores), dtype=bool)
        for rows in members:
            half[rng.permutation(rows)[: len(rows) // 2]] = True
        for tuned, paid in ((half, ~half), (~half, half)):
            cut = _threshold_of(scores, labels, costs, weight, tuned)
            total[paid] += as_host(costs.rows(paid).incurred(labels[paid], scores[paid] > cut))
    return total / halvings


def _threshold_of(
    scores: Floats, labels: NDArray[np.int64], costs: CostMatrix, weight: Floats | None, rows: NDArray[np.bool_]
) -> float:
    if weight is None:
        return find_threshold(scores[rows], labels[rows], costs.rows(rows)).value
    counted = rows & (weight > 0)
    if not counted.any():
        return 0.5
    return find_threshold(scores[counted], labels[counted], costs.rows(counted), sample_weight=weight[counted]).value


def mean_cost(each: Floats, weight: Floats | None, *, level: float = 0.95, random_state: int = 0) -> Interval:
    """Return the mean cost per row (per unit of weight) with its percentile bootstrap interval."""
    sums = each if weight is None else each * weight
    resamples = 1000 if len(each) <= MANY else 200
    means = drawn_means(sums, weight, resamples, np.random.default_rng(random_state))
    low, high = np.quantile(means, ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
    return Interval(float(np.average(each, weights=weight)), float(low), float(high))


__all__ = ["TunedThreshold", "mean_cost", "tune_threshold"]
