"""What is known of more rows than fit into memory: a mean and its interval, calibration, a threshold, how sure it is.

All of it from sums over batches. Of so many rows, a mean is normal, and how often a bucket's rows are drawn is Poisson.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import as_host
from adacsl.core.costs import CostMatrix, unchecked_costs
from adacsl.core.histogram import CostHistogram
from adacsl.core.intervals import Interval
from adacsl.core.thresholds import TIE_TOLERANCE, CostCurve
from adacsl.core.tuning import TunedThreshold, costs_of_cuts

RESAMPLES = 500
AT_ONCE = 20
"""Resamples that are held in memory."""


class Batch(NamedTuple):
    """Some rows: probabilities of the positive class, labels 0 and 1, what errors cost, and how much rows count."""

    scores: NDArray[Any]
    labels: NDArray[Any]
    costs: CostMatrix
    weight: NDArray[Any] | None = None

    @property
    def counted(self) -> bool:
        """Whether rows are counted: all have the same prices and count alike."""
        return self.costs.n_instances is None and self.weight is None

    def rows(self, index: NDArray[Any]) -> Batch:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[index]
        return Batch(self.scores[index], self.labels[index], self.costs.rows(index), weight)

    @classmethod
    def joined(cls, batches: Iterable[Batch]) -> Batch:
        """Return all rows of batches."""
        scores, labels, costs, weights = zip(*batches, strict=True)
        weight = None if weights[0] is None else np.concatenate(weights)
        whole: CostMatrix = costs[0]
        if whole.n_instances is not None:
            prices = np.concatenate([own.to_array() for own in costs])
            whole = unchecked_costs(tuple(tuple(prices[:, i, j] for j in (0, 1)) for i in (0, 1)))
        return cls(np.concatenate(scores), np.concatenate(labels), whole, weight)

    def given(self) -> dict[str, Any]:
        """Return what a histogram has to be told besides scores and labels."""
        return {} if self.counted else {"costs": self.costs, "sample_weight": self.weight}

    def squares(self) -> CostMatrix:
        """Return the squares of what errors about each row cost more than being right."""
        weight = 1.0 if self.weight is None else self.weight
        fp, fn = ((self.costs.fp - self.costs.tn) * weight) ** 2, ((self.costs.fn - self.costs.tp) * weight) ** 2
        return unchecked_costs(((0.0, fn), (fp, 0.0)))


class RunningMean:
    """The mean of values per unit of weight, with its normal interval; rows of a group are one observation."""

    def __init__(self) -> None:
        self._shift: float | None = None
        self._sums, self._squares = np.zeros(3), np.zeros((2, 2))
        self._groups: dict[Hashable, NDArray[np.float64]] = {}

    def update(self, values: NDArray[Any], weight: NDArray[Any] | None = None, groups: Any = None) -> None:
        """Add rows."""
        if len(values) == 0:
            return
        self._shift = float(values[0]) if self._shift is None else self._shift  # squares of small numbers lose least
        sizes = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=float)
        each = np.stack((sizes * (np.asarray(values, dtype=float) - self._shift), sizes))
        if groups is None:
            self._add(each)
            return
        names, number = np.unique(groups, return_inverse=True)
        for name, sums in zip(names.tolist(), np.stack([np.bincount(number, row) for row in each], 1), strict=True):
            self._groups[name] = self._groups.get(name, 0.0) + sums

    def _add(self, each: NDArray[np.float64]) -> None:
        self._sums += (*each.sum(axis=1), each.shape[1])
        self._squares += each @ each.T

    def interval(self, *, level: float = 0.95) -> Interval:
        """Return the mean and its interval."""
        whole = RunningMean()
        whole._sums, whole._squares = self._sums.copy(), self._squares.copy()
        if self._groups:
            whole._add(np.stack(list(self._groups.values()), axis=1))
        (total, size, n), squares = whole._sums, whole._squares
        mean = total / size
        spread = squares[0, 0] - 2.0 * mean * squares[0, 1] + mean**2 * squares[1, 1]
        error = math.sqrt(max(spread, 0.0) * n / max(n - 1.0, 1.0)) / size
        reach, mean = NormalDist().inv_cdf((1.0 + level) / 2.0) * error, mean + (self._shift or 0.0)
        return Interval(float(mean), float(mean - reach), float(mean + reach))


class RunningCalibration:
    """The calibration error of scores in bins of about equally many, cut between buckets."""

    def __init__(self) -> None:
        self._rows, self._sums = CostHistogram(), CostHistogram()

    def update(self, scores: NDArray[Any], labels: NDArray[Any]) -> None:
        """Add rows."""
        wide = np.asarray(scores, dtype=float)
        self._rows.update(wide, labels)
        self._sums.update(wide, labels, costs=unchecked_costs(((0.0, wide), (wide, 0.0))))

    def error(self, bins: int = 15) -> float:
        """Return the mean distance between mean score and share of positives."""
        positives, n = self._rows.positives, self._rows.rows
        sizes = positives + self._rows.negatives
        # the bucket that holds the row a bin starts with belongs to that bin, as equal scores do
        starts = np.searchsorted(np.cumsum(sizes), [n * m // bins for m in range(1, bins)], side="right")
        number = np.searchsorted(starts, np.arange(len(sizes)), side="right")
        apart = np.bincount(number, self._sums.positives + self._sums.negatives - positives)
        return float(np.abs(apart).sum() / n)


def tune_batches(
    batches: Callable[[], Iterable[Batch]], *, level: float = 0.95, random_state: int = 0
) -> tuple[TunedThreshold, CostCurve]:
    """Return the exact cheapest threshold with its interval and expected cost, and the curve, in two passes.

    As :func:`tune_threshold` of all rows, but: the curve has the cuts between buckets; the interval of the optimum
    comes from resampled buckets; the cost to expect from one halving, with thresholds between buckets.
    """
    halves, squares, costs, counts = (CostHistogram(), CostHistogram()), CostHistogram(), None, np.zeros(2, int)
    for batch, parts in _halved(batches(), random_state):
        costs = batch.costs if batch.counted else None
        counts += np.bincount(batch.labels == 1, minlength=2)
        for half, part in zip(halves, parts, strict=True):
            if len(part):
                rows = batch.rows(part)
                half.update(rows.scores, rows.labels, **rows.given())
        if not batch.counted:
            squares.update(batch.scores, batch.labels, costs=batch.squares())
    whole = CostHistogram().merge(halves[0]).merge(halves[1])
    curve, second, paid = whole.curve(costs), whole.second_pass(costs), RunningMean()
    enough = all(half.filled.any() for half in halves) and counts.min() > 1
    cuts = [_cheapest_cut(half.curve(costs)) for half in halves[::-1]] if enough else []
    for batch, parts in _halved(batches(), random_state):
        second.update(batch.scores, batch.labels, **batch.given())
        for cut, part in zip(cuts, parts, strict=False):
            rows = batch.rows(part)
            paid.update(as_host(rows.costs.incurred(rows.labels, (rows.scores > cut).astype(int))), rows.weight)
    best = second.threshold()
    lows, highs = _resampled(whole, costs, squares, curve, random_state)
    low, high = np.quantile(lows, (1.0 - level) / 2.0), np.quantile(highs, (1.0 + level) / 2.0)
    sure = Interval(best.value, min(float(low), best.value), max(float(high), best.value))
    return TunedThreshold(best, sure, paid.interval(level=level) if enough else None), curve


def _halved(batches: Iterable[Batch], seed: int) -> Iterator[tuple[Batch, tuple[NDArray[Any], NDArray[Any]]]]:
    """Yield batches with the rows of either half, in every pass the same."""
    rng = np.random.default_rng((seed, 2))  # data drawn with that very seed are not to know their half
    for batch in batches:
        drawn = rng.random(len(batch.scores)) < 0.5
        yield batch, (np.flatnonzero(drawn), np.flatnonzero(~drawn))


def _cheapest_cut(curve: CostCurve) -> float:
    return float(curve.thresholds[int(np.argmin(curve.costs))])


def _resampled(
    whole: CostHistogram, costs: CostMatrix | None, squares: CostHistogram, curve: CostCurve, seed: int
) -> NDArray[np.float64]:
    """Return the lowest and the highest of the cheapest cuts between buckets, of each resample.

    A bucket whose rows have the sum S and the squares Q is drawn as S * Poisson(m) / m with m = S**2 / Q: what is drawn
    has the mean S and the variance Q of a bootstrap. Of equal prices m is the number of rows.
    """
    filled, rng, found = whole.filled, np.random.default_rng(seed), []
    stakes = (1.0, 1.0) if costs is None else (costs.fn - costs.tp, costs.fp - costs.tn)
    kinds = []
    for name, stake in zip(("positives", "negatives"), stakes, strict=True):
        sums = stake * getattr(whole, name)[filled]
        own = stake * sums if costs is not None else getattr(squares, name)[filled]
        often = np.divide(sums**2, own, out=np.zeros(len(sums)), where=own > 0)
        kinds.append((often, np.divide(sums, often, out=np.zeros(len(sums)), where=often > 0)))
    for _ in range(RESAMPLES // AT_ONCE):
        missed, alarmed = (rng.poisson(often, (AT_ONCE, len(often))) * each for often, each in kinds)
        total = costs_of_cuts(missed, alarmed, np.arange(missed.shape[1]))
        cheapest = total <= total.min(axis=1, keepdims=True) + TIE_TOLERANCE * total.max(axis=1, keepdims=True)
        found.append((cheapest.argmax(axis=1), cheapest.shape[1] - 1 - cheapest[:, ::-1].argmax(axis=1)))
    return np.asarray(curve.thresholds)[np.concatenate(found, axis=1)]
