"""Streaming estimates of mean cost, calibration and the exact cost-optimal threshold.

The bits of a float32 in [0, 1], read as an integer, rise with it: their upper part numbers 65,025 buckets, finer than
one part in 500 of any score. The cost of a threshold between two buckets follows exactly from the counts. A threshold
inside a bucket can at best save what the bucket's false positives cost: only the samples of buckets where that could be
enough are looked at again.

Everything is computed from sums over batches, and does not depend on how the samples are divided into batches.
Statistics that no sums give are computed of samples in memory while these are few (:data:`HELD`).
"""

from __future__ import annotations

import math
import tempfile
import weakref
from collections.abc import Hashable, Iterable, Iterator, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.base import floats
from adacsl.base.arrays import Array, as_host
from adacsl.costs.matrix import CostMatrix, check_binary, unchecked_costs
from adacsl.metrics.calibration import ECE_BINS
from adacsl.metrics.intervals import MANY, Interval, mean_interval
from adacsl.thresholds.search import TIE_TOLERANCE, CostCurve, Threshold, best_cut, check_target, cost_curve
from adacsl.thresholds.sorted_scores import Cuts, Samples
from adacsl.thresholds.uncertainty import TunedThreshold, costs_of_cuts, tune_threshold

SHIFT = 14
"""So many of the lower bits of a float32 do not count."""
BUCKETS = (0x3F800000 >> SHIFT) + 1
"""0x3F800000 are the bits of 1.0."""
CHUNK = 1 << 18
"""Samples that are counted at a time: their numbers stay in the cache."""
KEPT = 1 << 22
"""So many samples are kept by a second pass before those of equal scores are summed."""
FREE = CostMatrix(fp=1, fn=1)
ROUNDING = 1e-12
"""Sums of floats may be off by so much of the largest: buckets that near to the best are looked at too."""


class Edges(NamedTuple):
    """The sums of positives below and of negatives above each border of a bucket, and what turns them into costs."""

    missed: NDArray[Any]
    alarmed: NDArray[Any]
    fn: float
    fp: float
    base: float
    size: float
    """The sum of the weights; the number of samples without them."""


def bucket_numbers(scores: NDArray[Any]) -> NDArray[np.int32]:
    """Return the bucket of each score in [0, 1]; of float64 scores, that of the nearest float32.

    Rounding keeps the order: a higher score is never in a lower bucket.
    """
    bits = (scores.astype(np.float32, copy=False) + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    bits >>= SHIFT
    return bits


class CostHistogram:
    """A histogram of scores and labels in a megabyte: mergeable, and enough for the exact cost-optimal threshold.

    Attributes
    ----------
    positives, negatives : arrays of shape (65025,)
        Of each bucket: the number of samples, int64; or the cost of its positives as false negatives, and of its
        negatives as false positives, float64.
    rows : int
        The number of samples.
    size : float
        The sum of the sample weights; the number of samples without weights.

    See Also
    --------
    adacsl.find_threshold : Scores that fit into memory.

    Examples
    --------
    >>> from adacsl import CostHistogram, CostMatrix
    >>> batches = [([0.1, 0.3], [0, 1]), ([0.6, 0.8], [0, 1])]
    >>> histogram = CostHistogram()
    >>> for scores, labels in batches:
    ...     histogram.update(scores, labels)
    >>> histogram.threshold(CostMatrix(fp=1, fn=8), batches)
    Threshold(value=0.29999999999999993, cost=0.25, total_cost=1.0, low=0.1, high=0.3)
    """

    def __init__(self) -> None:
        self.positives: NDArray[Any] = np.zeros(BUCKETS, dtype=np.int64)
        self.negatives: NDArray[Any] = np.zeros(BUCKETS, dtype=np.int64)
        self.rows, self.size, self.base, self.kind = 0, 0.0, 0.0, ""

    @property
    def summed(self) -> bool:
        """Whether costs were summed, and not samples counted."""
        return self.positives.dtype == np.float64

    def update(
        self, scores: Array, labels: Array, *, costs: CostMatrix | None = None, sample_weight: Array | None = None
    ) -> None:
        """Count more samples.

        Parameters
        ----------
        scores : array of shape (n,)
            Probabilities of the positive class, all of one float type.
        labels : array of shape (n,)
            0 or 1.
        costs : CostMatrix, optional
            Per sample or class-wide; then all updates need them.
        sample_weight : array of shape (n,), optional
            How much each sample counts; needs ``costs``.

        Raises
        ------
        ValueError
            Where the float type changes, or costs are given to some updates only.
        """
        if costs is None and sample_weight is not None:
            raise ValueError("sample_weight needs costs: give what errors cost, update(..., costs=CostMatrix(...))")
        result = Samples.of(scores, labels, FREE if costs is None else costs, sample_weight)
        self._agree(summed=costs is not None, kind=result.kind)
        if costs is not None:
            self.base += float(costs.total(result.positive, result.positive, sample_weight=sample_weight))
        for part, positive, stakes in _chunks(result, counted=costs is None):
            place = bucket_numbers(part).astype(np.intp)
            place += BUCKETS * positive
            sums = np.bincount(place, stakes, minlength=2 * BUCKETS)
            self.negatives += sums[:BUCKETS]
            self.positives += sums[BUCKETS:]
        n = int(result.scores.shape[0])
        self.rows, self.size = self.rows + n, self.size + (n if result.weight is None else float(result.weight.sum()))

    @classmethod
    def from_counts(
        cls, buckets: Array, labels: Array, counts: Array, *,
        rows: int | None = None, size: float | None = None, base: float = 0.0, kind: str = "float64",
    ) -> Self:  # fmt: skip
        """Return the histogram of samples that another engine has counted, grouped by bucket and label.

        Parameters
        ----------
        buckets : array of shape (g,)
            The number of the bucket of each group: of a score ``s``, rounded to float32, ``floor(512 * (126 + e + s /
            2**e))`` with ``e = floor(log2(max(s, 2**-126)))``.
        labels : array of shape (g,)
            0 or 1.
        counts : array of shape (g,)
            How many samples, whole numbers; or, as floats, the sums of what errors about them cost more than correct
            decisions, times their weights.
        rows : int, optional
            How many samples there were; needed with sums.
        size : float, optional
            The sum of the sample weights. Default: the number of samples.
        base : float, default 0.0
            With sums: what the samples cost even when every decision is correct.
        kind : str, default "float64"
            The float type of the scores.

        Returns
        -------
        CostHistogram
            The histogram.

        Examples
        --------
        >>> from adacsl import CostHistogram, CostMatrix
        >>> histogram = CostHistogram.from_counts([64511, 64512], [0, 1], [3, 2])
        >>> histogram.curve(CostMatrix(fp=1, fn=8)).total_costs.tolist()
        [3.0, 0.0, 16.0]
        """
        place, label, held = np.asarray(buckets), np.asarray(labels), np.asarray(counts)
        counted = held.dtype.kind in "iu"
        if not place.shape == label.shape == held.shape == (len(place),):
            raise ValueError(f"buckets, labels and counts must be equally long, got {place.shape}, {label.shape}, ...")
        if not (np.isin(place, range(BUCKETS)).all() and np.isin(label, (0, 1)).all()):
            raise ValueError(f"buckets must be whole numbers from 0 to {BUCKETS - 1}, and labels 0 or 1")
        if not counted and rows is None:
            raise ValueError("counts must be whole numbers; for sums of costs, give the number of rows, rows=")
        if not np.isfinite(held).all() or (held < 0).any():
            raise ValueError("counts must be finite and not negative")
        made = cls()
        made._agree(summed=not counted, kind=np.dtype(kind).name if kind != "bfloat16" else kind)
        for number, sums in enumerate((made.negatives, made.positives)):
            np.add.at(sums, place[label == number].astype(np.intp), held[label == number])
        made.rows, made.base = int(held.sum()) if rows is None else int(rows), float(base)
        made.size = float(made.rows if size is None else size)
        return made

    def to_counts(self) -> dict[str, Any]:
        """Return the histogram as a dict of arrays and numbers, for a table or a file.

        Returns
        -------
        dict
            The parameters of :meth:`from_counts`.

        Examples
        --------
        >>> from adacsl import CostHistogram
        >>> histogram = CostHistogram()
        >>> histogram.update([0.25, 0.5], [0, 1])
        >>> histogram.to_counts()["counts"].tolist()
        [1, 1]
        """
        negative, positive = np.flatnonzero(self.negatives), np.flatnonzero(self.positives)
        return {
            "buckets": np.concatenate((negative, positive)),
            "labels": np.repeat((0, 1), (len(negative), len(positive))),
            "counts": np.concatenate((self.negatives[negative], self.positives[positive])),
            "rows": self.rows, "size": self.size, "base": self.base, "kind": self.kind or "float64",
        }  # fmt: skip

    def merge(self, other: CostHistogram) -> Self:
        """Add what another histogram has counted.

        Parameters
        ----------
        other : CostHistogram
            Of other samples; it stays as it is.

        Returns
        -------
        CostHistogram
            Itself.

        Examples
        --------
        >>> from adacsl import CostHistogram
        >>> first, second = CostHistogram(), CostHistogram()
        >>> first.update([0.25, 0.5], [0, 1])
        >>> second.update([0.75], [1])
        >>> first.merge(second).rows
        3
        """
        if other.rows:
            self._agree(summed=other.summed, kind=other.kind)
            self.positives, self.negatives = self.positives + other.positives, self.negatives + other.negatives
            self.rows, self.size, self.base = self.rows + other.rows, self.size + other.size, self.base + other.base
        return self

    def _agree(self, *, summed: bool, kind: str) -> None:
        """Refuse to mix float types, or counts and sums."""
        if not self.rows:
            self.kind = kind
            if summed:
                self.positives, self.negatives = self.positives.astype(float), self.negatives.astype(float)
            return
        if kind != self.kind:
            raise ValueError(f"the scores so far are {self.kind}, now they are {kind}: give all as one float type")
        if summed != self.summed:
            raise ValueError("costs must be given to all updates, or to none")

    def curve(self, costs: CostMatrix | None = None) -> CostCurve:
        """Return the cost of every threshold between two buckets that hold samples, exactly.

        Parameters
        ----------
        costs : CostMatrix, optional
            Class-wide; left out where updates were given costs.

        Returns
        -------
        CostCurve
            Thresholds with their mean and total costs.

        Examples
        --------
        >>> from adacsl import CostHistogram, CostMatrix
        >>> histogram = CostHistogram()
        >>> histogram.update([0.25, 0.5], [0, 1])
        >>> histogram.curve(CostMatrix(fp=1, fn=8)).total_costs.tolist()
        [1.0, 0.0, 8.0]
        """
        result, filled = self.edges(costs), np.flatnonzero(self.filled)
        places = np.append(filled, filled[-1] + 1)  # below each of them, and above all
        thresholds = np.asarray([self._below(bucket) for bucket in places])
        missed, alarmed = result.fn * result.missed[places], result.fp * result.alarmed[places]
        total = missed + alarmed + result.base
        return CostCurve(thresholds, total / result.size, total, missed, alarmed)

    def second_pass(self, costs: CostMatrix | None = None) -> SecondPass:
        """Return the second pass, over the samples whose bucket could hold a better threshold.

        Parameters
        ----------
        costs : CostMatrix, optional
            Class-wide; left out where updates were given costs.

        Returns
        -------
        SecondPass
            It has the same ``update`` and ``merge``, and then ``threshold(target_threshold=...)``.

        Examples
        --------
        >>> from adacsl import CostHistogram, CostMatrix
        >>> histogram = CostHistogram()
        >>> histogram.update([0.25, 0.5], [0, 1])
        >>> second = histogram.second_pass(CostMatrix(fp=1, fn=8))
        >>> second.update([0.25, 0.5], [0, 1])
        >>> second.threshold().value
        0.49999999999999994
        """
        return SecondPass(self, costs)

    def threshold(
        self, costs: CostMatrix | None, batches: Iterable[tuple[Array, ...]], *, target_threshold: float = 0.5
    ) -> Threshold:
        """Return the exact cost-optimal threshold, as :func:`~adacsl.find_threshold` of all samples.

        Parameters
        ----------
        costs : CostMatrix or None
            Class-wide; None where updates were given costs.
        batches : iterable of tuples
            The samples again: (scores, labels), or (scores, labels, costs) where updates were given costs.
        target_threshold : float, default 0.5
            Among thresholds of equal cost, the one nearest to this is chosen.

        Returns
        -------
        Threshold
            The threshold and its cost.

        Raises
        ------
        ValueError
            Where ``batches`` are not the samples that were counted.
        """
        second = self.second_pass(costs)
        for scores, labels, *given in batches:
            second.update(scores, labels, costs=given[0] if given else None)
        return second.threshold(target_threshold=target_threshold)

    def edges(self, costs: CostMatrix | None = None) -> Edges:
        """Return the sums on both sides of each border of a bucket, and what they cost."""
        if not self.rows:
            raise ValueError("nothing was counted yet: call update(scores, labels) first")
        if self.summed == (costs is not None):
            problem = "were given to update: omit them" if self.summed else "are missing: give class-wide costs"
            raise ValueError(f"costs {problem}")
        missed, alarmed = _sums_below(self.positives), _sums_below(self.negatives[::-1])[::-1]
        if costs is None:
            return Edges(missed, alarmed, 1.0, 1.0, self.base, self.size)
        check_binary(costs)
        if costs.n_instances is not None:
            raise ValueError("costs of each row must be given to update(..., costs=...), row by row")
        base = costs.tp * int(missed[-1]) + costs.tn * int(alarmed[0])
        return Edges(missed, alarmed, costs.fn - costs.tp, costs.fp - costs.tn, base, self.size)

    @property
    def filled(self) -> NDArray[np.bool_]:
        """Which buckets hold samples."""
        return np.asarray((self.positives != 0) | (self.negatives != 0))

    def _below(self, bucket: int) -> float:
        """Return the highest threshold below all scores of a bucket, a number of the scores' own type."""
        if bucket == 0:
            return floats.below(self.kind, 0.0)
        start = float((np.asarray([bucket], dtype=np.int32) << SHIFT).view(np.float32)[0])
        if self.kind != "float64":
            near = floats.nearest(self.kind, start)  # a narrow type may not hold the bucket's start
            return min(near if near < start else floats.below(self.kind, near), 1.0)
        # half-way to the float32 before it, a float64 is rounded up: the lower bits of a bucket's start are even
        before = float(np.nextafter(np.float32(start), np.float32(0)))
        return min(floats.below(self.kind, (before + start) / 2.0), 1.0)


class SecondPass:
    """A second pass over the samples of those buckets that could hold a better threshold than all bucket borders.

    Attributes
    ----------
    share : float
        The share of all samples that will be kept.
    buckets : array
        The buckets whose samples are looked at; an engine may leave out all others.
    """

    def __init__(self, histogram: CostHistogram, costs: CostMatrix | None) -> None:
        self._edges = result = histogram.edges(costs)
        self._kind, self._filled = histogram.kind, histogram.filled
        total = result.fn * result.missed + result.fp * result.alarmed
        # at best all negatives of a bucket lie below its positives; ties count, as the nearest to the target is taken
        best = total[:-1] - result.fp * histogram.negatives
        self._open = best <= total.min() + ROUNDING * np.abs(total).max()
        self.buckets = np.flatnonzero(self._open & self._filled)
        held = histogram.positives + histogram.negatives
        self._held = float(held[self._open].sum())
        self.share = self._held / float(held.sum()) if held.any() else 1.0
        # scores, costs of false negatives, costs of false positives
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._limit = KEPT

    def update(
        self, scores: Array, labels: Array, *, costs: CostMatrix | None = None, sample_weight: Array | None = None
    ) -> None:
        """Look at samples again, with the costs and weights of the first time."""
        given = FREE if costs is None else costs
        result = Samples.of(scores, labels, given, sample_weight)
        for part, positive, stakes in _chunks(result, counted=costs is None):
            kept = self._open[bucket_numbers(part)]
            missed, own = positive[kept], 1.0 if stakes is None else stakes[kept]
            self._keep([(part[kept], np.where(missed, own, 0.0), np.where(missed, 0.0, own))])

    def merge(self, other: SecondPass) -> Self:
        """Add what another one has kept, and return itself."""
        self._keep(other._parts)
        return self

    def _keep(self, parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]) -> None:
        """Keep samples; many of them have equal scores, and are summed now and then."""
        self._parts += parts
        if sum(len(scores) for scores, *_ in self._parts) > self._limit:
            self._parts = [_by_score(self._parts)]
            self._limit = max(KEPT, 2 * len(self._parts[0][0]))

    def threshold(self, *, target_threshold: float = 0.5) -> Threshold:
        """Return the cost-optimal threshold; among equally good ones, the point nearest ``target_threshold``."""
        goal = floats.nearest(self._kind, check_target(target_threshold))
        held = float(sum(fn_costs.sum() + fp_costs.sum() for _, fn_costs, fp_costs in self._parts))
        if not any(len(scores) for scores, *_ in self._parts) or not math.isclose(held, self._held, rel_tol=1e-9):
            raise ValueError(
                f"the second pass kept {held:.9g} of {self._held:.9g} that the first counted: give it the very "
                "same rows, costs and weights, each once"
            )
        return best_cut(self._cuts(*_by_score(self._parts)), self._kind, goal, (0.0, 1.0))

    def _cuts(self, scores: NDArray[Any], fn_costs: NDArray[Any], fp_costs: NDArray[Any]) -> Cuts:
        """Return what each cut of the rows that were kept costs, all rows counted; inf where rows in between are not.

        A cut beside rows that were not kept is a border between buckets, and not among the cheapest: those have
        their neighbours on both sides open.
        """
        bucket, result = bucket_numbers(scores), self._edges
        below, above = _sums_within(fn_costs, bucket), _sums_within(fp_costs[::-1], bucket[::-1])[::-1] + fp_costs
        missed = np.append(result.missed[bucket] + below, result.missed[bucket[-1] + 1]) * result.fn
        # from above, as the borders are: where one false positive costs a million times another, no digits cancel
        alarmed = np.append(result.alarmed[bucket + 1] + above, result.alarmed[bucket[-1] + 1]) * result.fp
        closed = np.flatnonzero(self._filled & ~self._open)
        ends = np.concatenate(([-1], bucket, [BUCKETS]))
        torn = np.searchsorted(closed, ends[:-1], "right") != np.searchsorted(closed, ends[1:], "left")
        missed[torn] = np.inf
        return Cuts(scores, missed, alarmed, result.base, result.size)


def _chunks(
    samples: Samples, *, counted: bool
) -> Iterator[tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any] | None]]:
    """Yield scores, labels and stakes of some samples at a time; without stakes where samples are counted."""
    scores, positive = np.asarray(as_host(samples.scores)), np.asarray(as_host(samples.positive))
    stakes = None if counted else _stakes(samples, positive)
    for start in range(0, len(scores), CHUNK):
        part = slice(start, start + CHUNK)
        yield scores[part], positive[part], None if stakes is None else stakes[part]


def _stakes(samples: Samples, positive: NDArray[np.bool_]) -> NDArray[Any]:
    """Return what an error about each sample costs more than being right."""
    costs = samples.costs
    stakes = np.where(positive, as_host(costs.fn - costs.tp), as_host(costs.fp - costs.tn))
    return stakes if samples.weight is None else np.asarray(stakes * as_host(samples.weight))


def _by_score(
    parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the distinct scores in rising order, with the sums of what missing and alarming their rows costs."""
    scores, fn_costs, fp_costs = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(scores)
    scores = scores[order]
    first = np.flatnonzero(np.append(True, scores[1:] != scores[:-1])) if len(scores) else order
    return scores[first], np.add.reduceat(fn_costs[order], first), np.add.reduceat(fp_costs[order], first)


def _sums_below(values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((np.zeros(1, values.dtype), np.cumsum(values)))


def _sums_within(values: NDArray[Any], bucket: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of the values before each one in its own bucket; those of a bucket are neighbours."""
    first = np.flatnonzero(bucket[1:] != bucket[:-1]) + 1
    return np.concatenate([_sums_below(part[:-1]) for part in np.split(values, first)])


RESAMPLES = 500
AT_ONCE = 20
"""Resamples that are held in memory."""
HELD = MANY
"""Up to so many samples are held in memory, for the statistics that no sums give: bootstrap intervals, and thresholds
tuned on many halves. Of more samples the mean is normal, and sums over buckets are resampled. The number of samples
alone decides which, never how they are divided into batches: nothing else here depends on it."""
IN_MEMORY = 1 << 25
"""Bytes of a :class:`Spool` before it becomes a file."""


class Batch(NamedTuple):
    """Labelled scores of some samples.

    Attributes
    ----------
    scores : array of shape (n,)
        Probabilities of the positive class.
    labels : array of shape (n,)
        0 or 1.
    costs : CostMatrix
        Class-wide or per sample.
    weight : array of shape (n,) or None
        How much each sample counts.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix
    >>> from adacsl.thresholds.streaming import Batch
    >>> Batch(np.asarray([0.1, 0.3]), np.asarray([0, 1]), CostMatrix(fp=1, fn=8)).size
    2.0
    """

    scores: NDArray[Any]
    labels: NDArray[Any]
    costs: CostMatrix
    weight: NDArray[Any] | None = None

    @property
    def counted(self) -> bool:
        """Whether samples are counted: all have the same costs and count alike."""
        return self.costs.n_instances is None and self.weight is None

    @property
    def size(self) -> float:
        """The sum of the weights, or the number of samples."""
        return float(len(self.labels) if self.weight is None else self.weight.sum())

    def rows(self, index: NDArray[Any]) -> Batch:
        """Return some of the samples."""
        weight = None if self.weight is None else self.weight[index]
        return Batch(self.scores[index], self.labels[index], self.costs.rows(index), weight)

    @classmethod
    def joined(cls, batches: Iterable[Batch]) -> Batch:
        """Return all samples of batches."""
        scores, labels, costs, weights = zip(*batches, strict=True)
        weight = None if weights[0] is None else np.concatenate(weights)
        whole: CostMatrix = costs[0]
        if whole.n_instances is not None:
            cells = np.concatenate([own.to_array() for own in costs])
            whole = unchecked_costs(tuple(tuple(cells[:, i, j] for j in (0, 1)) for i in (0, 1)))
        return cls(np.concatenate(scores), np.concatenate(labels), whole, weight)

    def given(self) -> dict[str, Any]:
        """Return what a histogram needs besides scores and labels."""
        return {} if self.counted else {"costs": self.costs, "sample_weight": self.weight}

    def squares(self) -> CostMatrix:
        """Return the squares of what errors about each sample cost more than being right."""
        weight = 1.0 if self.weight is None else self.weight
        fp, fn = ((self.costs.fp - self.costs.tn) * weight) ** 2, ((self.costs.fn - self.costs.tp) * weight) ** 2
        return unchecked_costs(((0.0, fn), (fp, 0.0)))


class Spool:
    """Batches that can be read again and again: in memory while they are few, else in a temporary file.

    Examples
    --------
    >>> spool = Spool()
    >>> spool.add(Batch(np.asarray([0.2, 0.7]), np.asarray([0, 1]), CostMatrix(fp=1, fn=8)))
    >>> [batch.scores.tolist() for batch in spool], [batch.labels.tolist() for batch in spool]
    ([[0.2, 0.7]], [[0, 1]])
    """

    def __init__(self) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  closed with this object
        weakref.finalize(self, self._file.close)
        self._batches = 0
        self._costs: CostMatrix | None = None

    def add(self, batch: Batch) -> None:
        """Append a batch."""
        own, nothing = batch.costs.n_instances is not None, np.empty(0)
        self._costs, self._batches = None if own else batch.costs, self._batches + 1
        costs, weight = batch.costs.to_array() if own else nothing, nothing if batch.weight is None else batch.weight
        for column in (batch.scores, np.asarray(batch.labels, np.int8), costs, weight):
            np.save(self._file, column, allow_pickle=False)

    def __iter__(self) -> Iterator[Batch]:
        self._file.seek(0)
        for _ in range(self._batches):
            scores, labels, cells, weight = (np.load(self._file, allow_pickle=False) for _ in range(4))
            costs = self._costs
            if costs is None:
                costs = unchecked_costs(tuple(tuple(cells[:, i, j] for j in (0, 1)) for i in (0, 1)))
            yield Batch(scores, labels.astype(np.int64), costs, weight if len(weight) else None)


class RunningMean:
    """The mean of values per unit of weight, with its interval; samples of a group are one observation.

    Parameters
    ----------
    held : int
        Up to so many values the interval is the bootstrap of :func:`~adacsl.metrics.intervals.mean_interval`; of more,
        the normal one, from sums and squares (see :data:`HELD`).
    """

    def __init__(self, held: int = HELD) -> None:
        self._shift: float | None = None
        self._sums, self._squares = np.zeros(3), np.zeros((2, 2))
        self._groups: dict[Hashable, NDArray[np.float64]] = {}
        self._held, self._rows = held, 0
        self._columns: list[tuple[NDArray[Any] | None, ...]] = []

    def update(self, values: NDArray[Any], weight: NDArray[Any] | None = None, groups: Any = None) -> None:
        """Add samples."""
        if len(values) == 0:
            return
        self._rows += len(values)
        if self._rows <= self._held:
            self._columns.append(tuple(None if c is None else np.array(c) for c in (values, weight, groups)))
        else:
            self._columns = []
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

    def interval(self, *, level: float = 0.95, resamples: int | None = None) -> Interval:
        """Return the mean and its interval; ``resamples`` are those of the bootstrap."""
        if self._columns:
            values, weight, groups = map(_concatenated, zip(*self._columns, strict=True))
            return mean_interval(values, weight, groups=groups, level=level, resamples=resamples)
        return self._normal(level)

    def _normal(self, level: float) -> Interval:
        sums, squares = self._sums, self._squares
        if self._groups:
            each = np.stack(list(self._groups.values()), axis=1)
            sums, squares = sums + np.append(each.sum(axis=1), each.shape[1]), squares + each @ each.T
        total, size, n = sums
        mean = total / size
        spread = squares[0, 0] - 2.0 * mean * squares[0, 1] + mean**2 * squares[1, 1]
        error = math.sqrt(max(spread, 0.0) * n / max(n - 1.0, 1.0)) / size
        reach, mean = NormalDist().inv_cdf((1.0 + level) / 2.0) * error, mean + (self._shift or 0.0)
        return Interval(float(mean), float(mean - reach), float(mean + reach))


def _concatenated(parts: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """Return one column; None where there is none."""
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


class RunningCalibration:
    """The expected calibration error, in two passes: equal to that of all samples in memory, but for rounding.

    The first pass counts scores in buckets, so that it is known in which buckets the quantile bins begin. The second
    looks at the samples of these buckets only.
    """

    def __init__(self) -> None:
        self._rows, self._sums = CostHistogram(), CostHistogram()

    def update(self, scores: NDArray[Any], labels: NDArray[Any]) -> None:
        """Add samples in the first pass."""
        wide = np.asarray(scores, dtype=float)
        self._rows.update(wide, labels)
        self._sums.update(wide, labels, costs=unchecked_costs(((0.0, wide), (wide, 0.0))))

    def error(self, batches: Iterable[Batch]) -> float:
        """Return :func:`~adacsl.metrics.calibration.expected_calibration_error`; ``batches`` are the samples, again."""
        positives, n = self._rows.positives, self._rows.rows
        sizes = positives + self._rows.negatives
        ranks = np.asarray([n * m // ECE_BINS for m in range(1, ECE_BINS)])  # of the score that each bin begins with
        first = np.searchsorted(np.cumsum(sizes), ranks, side="right")
        divided = np.zeros(len(sizes), dtype=bool)
        divided[first] = True
        scores, gaps = _looked_up(batches, divided)
        edges = scores[ranks - np.cumsum(np.where(divided, 0, sizes))[first]]
        whole = np.searchsorted(first, np.arange(len(sizes)), side="right")
        gap = np.where(divided, 0.0, self._sums.positives + self._sums.negatives - positives)
        total = np.bincount(whole, gap, minlength=ECE_BINS)
        total += np.bincount(np.searchsorted(edges, scores, side="right"), gaps, minlength=ECE_BINS)
        return float(np.abs(total).sum() / n)


def _looked_up(batches: Iterable[Batch], wanted: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the scores in some buckets, in rising order, and the difference of each from its label."""
    parts = []
    for batch in batches:
        wide = np.asarray(batch.scores, dtype=float)
        kept = wanted[bucket_numbers(wide)]
        parts.append((wide[kept], wide[kept] - np.asarray(batch.labels)[kept]))
    scores, gaps = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(scores)
    return scores[order], gaps[order]


def tune_batches(
    batches: Iterable[Batch], *, level: float = 0.95, random_state: int = 0, held: int = HELD
) -> tuple[TunedThreshold, CostCurve]:
    """Return the exact cost-optimal threshold with its interval and expected cost, and the cost curve.

    ``batches`` are iterated several times: a list, or a :class:`Spool`. Up to ``held`` samples, and where scores lie
    outside [0, 1], it is :func:`~adacsl.thresholds.uncertainty.tune_threshold` of all samples. Of more samples, the
    curve has the candidate thresholds between buckets; the interval of the optimum comes from resampled buckets; the
    expected cost comes from one halving, with thresholds between buckets.
    """
    if sum(len(batch.labels) for batch in batches) > held and all(are_probabilities(each.scores) for each in batches):
        return _tune_streamed(batches, level, random_state)
    whole = Batch.joined(batches)
    scores, labels, costs, weight = whole
    tuned = tune_threshold(scores, labels, costs, sample_weight=weight, level=level, random_state=random_state)
    return tuned, cost_curve(scores, labels, costs, sample_weight=weight)


def are_probabilities(scores: NDArray[Any]) -> bool:
    """Return whether scores may be probabilities."""
    return not len(scores) or bool(scores.min() >= 0.0 and scores.max() <= 1.0)


def _tune_streamed(batches: Iterable[Batch], level: float, seed: int) -> tuple[TunedThreshold, CostCurve]:
    halves, squares, costs, counts = (CostHistogram(), CostHistogram()), CostHistogram(), None, np.zeros(2, int)
    for batch, parts in _halved(batches, seed):
        costs = batch.costs if batch.counted else None
        counts += np.bincount(batch.labels == 1, minlength=2)
        for half, part in zip(halves, parts, strict=True):
            if len(part):
                rows = batch.rows(part)
                half.update(rows.scores, rows.labels, **rows.given())
        if not batch.counted:
            squares.update(batch.scores, batch.labels, costs=batch.squares())
    whole = CostHistogram().merge(halves[0]).merge(halves[1])
    curve, second, paid = whole.curve(costs), whole.second_pass(costs), RunningMean(held=0)
    enough = all(half.filled.any() for half in halves) and counts.min() > 1
    cuts = [_lowest_cost_cut(half.curve(costs)) for half in halves[::-1]] if enough else []
    for batch, parts in _halved(batches, seed):
        second.update(batch.scores, batch.labels, **batch.given())
        for cut, part in zip(cuts, parts, strict=False):
            rows = batch.rows(part)
            paid.update(as_host(rows.costs.incurred(rows.labels, (rows.scores > cut).astype(int))), rows.weight)
    best = second.threshold()
    lows, highs = _resampled(whole, costs, squares, curve, seed)
    low, high = np.quantile(lows, (1.0 - level) / 2.0), np.quantile(highs, (1.0 + level) / 2.0)
    sure = Interval(best.value, min(float(low), best.value), max(float(high), best.value))
    return TunedThreshold(best, sure, paid.interval(level=level) if enough else None), curve


def _halved(batches: Iterable[Batch], seed: int) -> Iterator[tuple[Batch, tuple[NDArray[Any], NDArray[Any]]]]:
    """Yield batches with the samples of either half, in every pass the same."""
    rng = np.random.default_rng((seed, 2))  # data drawn with that very seed are not to know their half
    for batch in batches:
        drawn = rng.random(len(batch.scores)) < 0.5
        yield batch, (np.flatnonzero(drawn), np.flatnonzero(~drawn))


def _lowest_cost_cut(curve: CostCurve) -> float:
    return float(curve.thresholds[int(np.argmin(curve.total_costs))])


def _resampled(
    whole: CostHistogram, costs: CostMatrix | None, squares: CostHistogram, curve: CostCurve, seed: int
) -> NDArray[np.float64]:
    """Return the lowest and the highest of the cheapest cuts between buckets, of each resample.

    A bucket whose rows have the sum S and the squares Q is drawn as S * Poisson(m) / m with m = S**2 / Q: what is drawn
    has the mean S and the variance Q of a bootstrap. Of equal costs m is the number of samples.
    """
    filled, rng, result = whole.filled, np.random.default_rng(seed), []
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
        result.append((cheapest.argmax(axis=1), cheapest.shape[1] - 1 - cheapest[:, ::-1].argmax(axis=1)))
    return np.asarray(curve.thresholds)[np.concatenate(result, axis=1)]


class ThresholdSummary(NamedTuple):
    """The thresholds of labelled scores, and the mean cost of deciding by them.

    Attributes
    ----------
    n_samples : int
        The number of samples.
    n_positives : int
        How many of them are positive.
    tuned : TunedThreshold
        The cost-optimal threshold, its interval, and the cost to expect on new samples.
    best_cost : float
        The mean cost at the optimum, on the samples that chose it.
    bayes_threshold : float or None
        The Bayes threshold; None where each sample has its own, or the scores are no probabilities.
    bayes_cost : Interval or None
        The mean cost at the Bayes threshold; None where the scores are no probabilities.
    constant_costs : tuple of float
        The mean costs of calling all samples negative, and all positive.
    curve : CostCurve
        The cost of each candidate threshold; of more samples than are held in memory, of those between buckets.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix
    >>> from adacsl.thresholds.streaming import Batch, summarize_thresholds
    >>> scores, labels = np.asarray([0.1, 0.3, 0.6, 0.8]), np.asarray([0, 1, 0, 1])
    >>> summarize_thresholds([Batch(scores, labels, CostMatrix(fp=1, fn=8))]).best_cost
    0.25
    """

    n_samples: int
    n_positives: int
    tuned: TunedThreshold
    """The cost-optimal threshold, its interval, and the cost to expect on new samples."""
    best_cost: float
    """The mean cost at the optimum, on the samples that chose it."""
    bayes_threshold: float | None
    """None: each sample has its own, or the scores are no probabilities."""
    bayes_cost: Interval | None
    """None: the scores are no probabilities."""
    constant_costs: tuple[float, float]
    """Of calling all samples negative, and all positive."""
    curve: CostCurve
    """The cost of each candidate threshold; of more than :data:`HELD` samples, of those between buckets."""


def summarize_thresholds(batches: Iterable[Batch], *, held: int = HELD) -> ThresholdSummary:
    """Return the cost-optimal threshold of scores that come batch by batch, beside the Bayes threshold and constants.

    The answer does not depend on how the samples are divided into batches.

    Parameters
    ----------
    batches : iterable of Batch
        The samples. Iterated once; what is needed again is kept in a temporary file.
    held : int, default 200000
        Up to so many samples are held in memory, for bootstrap intervals. Of more, sums over buckets are resampled.

    Returns
    -------
    ThresholdSummary
        The cost-optimal threshold beside the Bayes threshold and constant decisions.

    Raises
    ------
    ValueError
        Where there are no samples.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix
    >>> from adacsl.thresholds.streaming import Batch, summarize_thresholds
    >>> scores, labels = np.asarray([0.1, 0.3, 0.6, 0.8]), np.asarray([0, 1, 0, 1])
    >>> summary = summarize_thresholds([Batch(scores, labels, CostMatrix(fp=1, fn=8))])
    >>> summary.tuned.best.value, summary.best_cost, summary.constant_costs
    (0.29999999999999993, 0.25, (4.0, 0.5))
    """
    spool, bayes, probabilities = Spool(), RunningMean(held), True
    counts, size, constants, cut = np.zeros(2, int), 0.0, np.zeros(2), None
    for batch in _weighing(batches):
        spool.add(batch)
        y, costs, weight = batch.labels, batch.costs, batch.weight
        counts, size = counts + np.bincount(y, minlength=2), size + batch.size
        constants += [costs.total(y, np.full(len(y), label), sample_weight=weight) for label in (0, 1)]
        probabilities = probabilities and are_probabilities(batch.scores)
        if probabilities:
            bayes.update(as_host(costs.incurred(y, costs.decide(batch.scores))), weight)
            cut = float(costs.threshold) if costs.n_instances is None else None
    if not size:
        raise ValueError("there are no samples, or all weights are 0: at least one sample has to count")
    tuned, curve = tune_batches(spool, held=held)
    return ThresholdSummary(
        n_samples=int(counts.sum()), n_positives=int(counts[1]), tuned=tuned, best_cost=tuned.best.cost,
        bayes_threshold=cut if probabilities else None, bayes_cost=bayes.interval() if probabilities else None,
        constant_costs=(float(constants[0] / size), float(constants[1] / size)), curve=curve,
    )  # fmt: skip


def _weighing(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches, those whose weights are all 0 joined with a neighbour."""
    waiting: Batch | None = None
    for batch in batches:
        if waiting is None:
            waiting = batch
        elif waiting.size and batch.size:
            yield waiting
            waiting = batch
        else:
            waiting = Batch.joined((waiting, batch))
    if waiting is not None and waiting.size:
        yield waiting
