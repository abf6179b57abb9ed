"""Uncertainty of a tuned threshold, and its cost on new samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from adacsl.base.arrays import Array, as_host
from adacsl.base.html import html_record
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.intervals import MANY, Interval, mean_interval
from adacsl.thresholds.search import TIE_TOLERANCE, Threshold, find_threshold, outer_threshold
from adacsl.thresholds.sorted_scores import Ranks

CELLS = 4096
"""Where there are more distinct scores, resamples are cut at so many of them."""

BLOCK = 2**22
"""How many numbers one block of resamples may hold."""


class TunedThreshold(NamedTuple):
    """The cost-optimal threshold of some samples, its interval, and its expected cost on new samples.

    Attributes
    ----------
    best : Threshold
        The optimum on the samples.
    threshold : Interval
        The optimum with its bootstrap interval.
    cost : Interval or None
        The mean cost to expect on new samples: that of thresholds tuned on one half of the samples and measured on the
        other. It exceeds ``best.cost``, which is optimistic, as the threshold was chosen on the same samples. None if a
        class has a single sample.
    """

    best: Threshold
    threshold: Interval
    cost: Interval | None

    def _repr_html_(self) -> str:
        return html_record(self, "Cost-optimal threshold and its uncertainty")


def tune_threshold(
    scores: Array, labels: Array, costs: CostMatrix, *,
    sample_weight: Array | None = None, level: float = 0.95, random_state: int = 0,
) -> TunedThreshold:  # fmt: skip
    """Return the cost-optimal threshold of binary scores with its interval, and what it can be expected to cost."""
    if scores.min() < 0.0 or scores.max() > 1.0:
        ranks = Ranks.of(scores)
        result = tune_threshold(
            ranks.scores, labels, costs, sample_weight=sample_weight, level=level, random_state=random_state
        )
        best, (_, low, high) = outer_threshold(result.best, ranks), (ranks.outer(end) for end in result.threshold)
        return TunedThreshold(best, Interval(best.value, min(low, best.value), max(high, best.value)), result.cost)
    best = find_threshold(scores, labels, costs, sample_weight=sample_weight)
    resamples, halvings = (1000, 25) if len(scores) <= MANY else (200, 5)
    lows, highs = resampled_optima(scores, labels, costs, sample_weight, resamples, random_state)
    low, high = float(np.quantile(lows, (1.0 - level) / 2.0)), float(np.quantile(highs, (1.0 + level) / 2.0))
    each = _costs_of_halves(scores, labels, costs, sample_weight, halvings, random_state)
    cost = None if each is None else mean_interval(each, sample_weight, level=level, random_state=random_state)
    return TunedThreshold(best, Interval(best.value, min(low, best.value), max(high, best.value)), cost)


# the optimum: a bootstrap of find_threshold


def resampled_optima(
    scores: Array, labels: Array, costs: CostMatrix, weight: Array | None, resamples: int, seed: int
) -> tuple[Array, Array]:
    """Return where the equally cheap thresholds of each resample begin and end."""
    rows, (low, high) = _cells(np.asarray(scores, np.float64), np.asarray(labels) == 1, costs, weight)
    lows, highs = [], []
    for block in _resampled(rows, len(low) - 1, resamples, np.random.default_rng(seed)):
        cheapest = block <= block.min(axis=1, keepdims=True) + TIE_TOLERANCE * block.max(axis=1, keepdims=True)
        lows.append(low[cheapest.argmax(axis=1)])
        highs.append(high[cheapest.shape[1] - 1 - cheapest[:, ::-1].argmax(axis=1)])
    return np.concatenate(lows), np.concatenate(highs)


def _cells(
    scores: Array, positive: Array, costs: CostMatrix, weight: Array | None
) -> tuple[tuple[Any, Any, Any], tuple[Array, Array]]:
    """Sort the samples into cells of neighbouring scores; between two cells lies a cut.

    Returns the cell of each row, what calling it negative and what calling it positive costs beyond the unavoidable;
    and the equally cheap thresholds of each cut, from low to high.
    """
    tops = np.unique(scores)
    if len(tops) > CELLS:
        tops = tops[np.linspace(0, len(tops) - 1, CELLS + 1).round().astype(np.int64)[1:]]
    cell = np.searchsorted(tops, scores)
    bottoms = np.full(len(tops), np.inf)
    np.minimum.at(bottoms, cell, scores)
    low, high = np.concatenate(([0.0], tops)), np.concatenate((bottoms, [1.0]))
    scale = 1.0 if weight is None else weight
    missed = np.where(positive, costs.fn - costs.tp, 0.0) * scale
    alarmed = np.where(positive, 0.0, costs.fp - costs.tn) * scale
    return (cell, missed, alarmed), (low, high)


def _resampled(rows: tuple[Any, Any, Any], cells: int, resamples: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield the avoidable costs of all cuts, resamples x cuts, a block of resamples at a time."""
    # rows that share cell and cost are one kind: how often each kind is drawn is all that matters
    first, counts = _kinds(rows)
    n = len(rows[0])
    few = len(first) * 4 < n
    picked = first if few else np.arange(n)
    order = np.argsort(rows[0][picked], kind="stable")
    counts = counts[order] if few else counts
    cell, missed, alarmed = (column[picked[order]] for column in rows)
    starts = np.searchsorted(cell, np.arange(cells))
    size = max(BLOCK // len(order), 1)
    for done in range(0, resamples, size):
        times = min(size, resamples - done)
        drawn = rng.multinomial(n, counts / n, size=times) if few else _drawn(n, times, rng)
        yield costs_of_cuts(drawn * missed, drawn * alarmed, starts)


def _kinds(rows: tuple[Any, Any, Any]) -> tuple[Array, Array]:
    """Return one sample of each kind, and how many samples there are of it."""
    order = np.lexsort(rows)
    changed = [column[order][1:] != column[order][:-1] for column in rows]
    starts = np.flatnonzero(np.concatenate(([True], np.any(changed, axis=0))))
    return order[starts], np.diff(np.concatenate((starts, [len(order)])))


def _drawn(n: int, resamples: int, rng: np.random.Generator) -> Array:
    return np.stack([np.bincount(rng.integers(0, n, size=n), minlength=n) for _ in range(resamples)])


def costs_of_cuts(missed: Array, alarmed: Array, starts: Array) -> Array:
    """Return what it costs to call the lowest k cells negative, for each resample."""
    below = np.cumsum(np.add.reduceat(missed, starts, axis=1), axis=1)
    above = np.cumsum(np.add.reduceat(alarmed, starts, axis=1)[:, ::-1], axis=1)[:, ::-1]
    return np.pad(below, ((0, 0), (1, 0))) + np.pad(above, ((0, 0), (0, 1)))


# the cost: tuned on one half, paid on the other


def _costs_of_halves(
    scores: Array, labels: Array, costs: CostMatrix, weight: Array | None, halvings: int, seed: int
) -> Array | None:
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


def _threshold_of(scores: Array, labels: Array, costs: CostMatrix, weight: Array | None, rows: Array) -> float:
    if weight is not None:
        rows = rows & (weight > 0)
        weight = weight[rows]
    if not rows.any():
        return 0.5
    return find_threshold(scores[rows], labels[rows], costs.rows(rows), sample_weight=weight).value
