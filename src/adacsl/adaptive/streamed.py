"""Validation scores that come in batches: exact while they are few, in bounded memory when they are many.

Of two classes more than :data:`KEPT` scores are counted by :class:`~adacsl.thresholds.CostHistogram`, in buckets finer
than one part in 500 of any score. The costs at given thresholds (T', the Bayes threshold) stay exact, because the
bucket of such a threshold is divided there; the cost-optimal threshold is the best border between buckets. Of K classes
a uniform random sample is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import AdaCSLController, MultiLabelController, MultiLabelStep
from adacsl.base.arrays import Array, as_host
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.bins import SingleBin
from adacsl.thresholds.streaming import BUCKETS, SHIFT, CostHistogram, bucket_numbers

KEPT = 1 << 22
"""So many scores are held before they are counted in buckets."""

SAME = CostMatrix(fp=1, fn=1)


class Counted(NamedTuple):
    """Sums of weights by label and bucket, (2, buckets), and of samples beside a given threshold, (2, segments)."""

    buckets: NDArray[np.float64]
    divided: NDArray[np.float64]


class Divisions:
    """Buckets that are divided at given thresholds, so that costs at these stay exact.

    Parameters
    ----------
    thresholds : sequence of float
        From 0 to 1; the first one is the point nearest which thresholds are looked for.
    """

    def __init__(self, thresholds: Sequence[float]) -> None:
        self.pivot = np.float32(thresholds[0])
        self.cuts = np.unique(np.asarray(thresholds, dtype=np.float32))
        self.places = np.unique(bucket_numbers(np.clip(self.cuts, 0.0, 1.0)))
        self._row = np.full(BUCKETS, -1)
        self._row[self.places] = np.arange(len(self.places))

    @property
    def segments(self) -> int:
        """How many parts there are, of all divided buckets."""
        return len(self.places) * (len(self.cuts) + 1)

    def empty(self) -> Counted:
        """Return sums of nothing."""
        return Counted(np.zeros((2, BUCKETS)), np.zeros((2, self.segments)))

    def count(self, scores: NDArray[np.float32], labels: NDArray[Any], weight: NDArray[Any] | None) -> Counted:
        """Return the sums of some samples."""
        histogram = CostHistogram()
        if weight is None:
            histogram.update(scores, labels)
        else:
            histogram.update(scores, labels, costs=SAME, sample_weight=weight)
        row = self._row[bucket_numbers(scores)]
        near = row >= 0
        number = row[near] * (len(self.cuts) + 1) + np.searchsorted(self.cuts, scores[near], side="left")
        number += self.segments * (np.asarray(labels)[near] > 0)
        own = None if weight is None else weight[near]
        divided = np.bincount(number, own, minlength=2 * self.segments).reshape(2, -1).astype(np.float64)
        buckets = np.stack((histogram.negatives, histogram.positives)).astype(np.float64)
        buckets[:, self.places] = 0.0
        return Counted(buckets, divided)

    def represent(self, counted: Counted) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float64]]:
        """Return scores, labels and weights that stand for what was counted.

        A bucket above the first threshold is represented by its end, one below by its start: every threshold that is
        looked for nearest that point then lies between buckets.
        """
        start = (np.arange(BUCKETS, dtype=np.int32) << SHIFT).view(np.float32)
        end = np.minimum(np.nextafter(np.append(start[1:], np.float32(2)), np.float32(0)), np.float32(1))
        scores = np.where(start > self.pivot, end, start)
        highest = np.minimum(np.append(self.cuts, np.float32(2)), end[self.places, None])
        below = np.append(np.float32(0), np.nextafter(self.cuts, np.float32(2)))
        inside = np.where(below > self.pivot, highest, np.maximum(below, start[self.places, None]))
        every = np.concatenate((scores, inside.ravel()))
        sums = np.concatenate((counted.buckets, counted.divided), axis=1)
        label, place = np.nonzero(sums)
        return every[place], label.astype(np.int64), sums[label, place]


class StreamedScores:
    """Scores and labels of one problem, batch by batch, for one step of its controller.

    Parameters
    ----------
    n_classes : int
        The number of classes.
    thresholds : sequence of float, default (0.5,)
        Of two classes: where costs are to be exact; the first one is T'.
    n_labels : int, optional
        The number of labels, of multi-label problems; ``thresholds`` then has a sequence for each.
    kept : int, default 4194304
        So many scores are held; more are counted in buckets, or of K classes sampled.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import AdaCSLController, CostMatrix
    >>> from adacsl.adaptive import StreamedScores
    >>> stream = StreamedScores(2, [0.5])
    >>> stream.add(np.asarray([0.2, 0.9]), np.asarray([0, 1]))
    >>> stream.step(AdaCSLController(CostMatrix(fp=1, fn=4))).cost
    0.0
    """

    def __init__(
        self, n_classes: int, thresholds: Sequence[Any] = (0.5,), *, n_labels: int | None = None, kept: int = KEPT
    ) -> None:
        self.n_classes, self.n_labels, self.kept = n_classes, n_labels, kept
        each = thresholds if n_labels is not None else [thresholds] if n_classes == 2 else []
        self._divisions = [Divisions(own) for own in each]
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]] = []
        self._counted: list[Counted] | None = None
        self._keys: list[NDArray[np.float64]] = []
        self._random, self._weighted = np.random.default_rng(0), n_labels is not None
        self.rows, self._held, self._cut = 0, 0, 1.0

    @classmethod
    def of(cls, controller: AdaCSLController | MultiLabelController, *, kept: int = KEPT) -> StreamedScores:
        """Return an empty one for the steps of a controller.

        Parameters
        ----------
        controller : AdaCSLController or MultiLabelController
            The controller.
        kept : int, default 4194304
            So many scores are held.

        Returns
        -------
        StreamedScores
            Without samples.
        """
        if isinstance(controller, MultiLabelController):
            thresholds: Any = [[each.target_threshold] for each in controller.controllers]
            return cls(2, thresholds, n_labels=controller.n_labels, kept=kept)
        return cls(controller.n_classes, [controller.target_threshold] if controller.n_classes == 2 else (), kept=kept)

    @property
    def exact(self) -> bool:
        """Whether every score is still held."""
        return self._counted is None and self._held == self.rows

    def add(self, scores: Array, labels: Array, weight: Array | None = None) -> None:
        """Add samples.

        Parameters
        ----------
        scores : array of shape (n,), (n, K) or (n, L)
            Raw predicted probabilities.
        labels : array of shape (n,) or (n, L)
            Class numbers; of several labels 0 or 1.
        weight : array of shape (n,) or (n, L), optional
            How much each sample counts.
        """
        p = np.ascontiguousarray(as_host(scores), dtype=np.float32)
        y = np.asarray(as_host(labels))
        if len(p) == 0:
            return
        w = self._weights_of(p, weight)
        self.rows += len(p)
        if self.n_classes > 2:
            self._draw(p, y, w)
        elif self._counted is not None:
            self._count(p, y, w)
        else:
            self._parts.append((p, y.astype(np.float32), w))
            self._held += len(p)
            if self._held * (self.n_labels or 1) > self.kept:
                self._counted = [division.empty() for division in self._divisions]
                for part in self._parts:
                    self._count(*part)
                self._parts = []

    def _weights_of(self, p: NDArray[Any], weight: Array | None) -> NDArray[np.float64] | None:
        """Return how much samples count, (n,), of labels always (n, L); None: each is 1."""
        w = None if weight is None else np.asarray(as_host(weight), dtype=np.float64)
        if self.n_labels is not None:
            w = np.ones(p.shape) if w is None else np.broadcast_to(w[:, None], p.shape) if w.ndim == 1 else w
        self._weighted = self._weighted or w is not None
        return w

    def _draw(self, p: NDArray[Any], y: NDArray[Any], w: NDArray[Any] | None) -> None:
        """Hold samples of K classes: all, or those with low random keys."""
        keys = self._random.random(len(p))
        low = keys <= self._cut
        self._parts.append((p[low], y[low].astype(np.int64), None if w is None else w[low]))
        self._keys.append(keys[low])
        self._held += int(low.sum())
        if self._held * self.n_classes > self.kept:
            self._sample()

    def _count(self, p: NDArray[Any], y: NDArray[Any], w: NDArray[Any] | None) -> None:
        for number, (division, sums) in enumerate(zip(self._divisions, self._counted or (), strict=True)):
            if self.n_labels is None:
                more = division.count(p, y, w)
            else:
                there = w[:, number] > 0 if w is not None else slice(None)
                own = None if w is None else w[there, number]
                more = division.count(np.ascontiguousarray(p[there, number]), y[there, number], own)
            np.add(sums.buckets, more.buckets, out=sums.buckets)
            np.add(sums.divided, more.divided, out=sums.divided)

    def _sample(self) -> None:
        """Keep the samples with the lower half of the random keys, now and from now on: a uniform random sample."""
        p, y, w = self._joined()
        keys = np.concatenate(self._keys)
        self._cut = float(np.median(keys))
        low = keys <= self._cut
        self._parts, self._keys = [(p[low], y[low], None if w is None else w[low])], [keys[low]]
        self._held = len(self._keys[0])

    def _joined(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        if not self._parts:
            raise ValueError("there are no samples: at least one batch with labels that count is needed")
        p, y = (np.concatenate([part[i] for part in self._parts]) for i in (0, 1))
        weights = [np.ones(len(part[0])) if part[2] is None else part[2] for part in self._parts]
        return p, y, np.concatenate(weights) if self._weighted else None

    def samples(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """Return scores, labels and weights: those that are held, or those that stand for what was counted."""
        if self._counted is None:
            return self._joined()
        return self._divisions[0].represent(self._counted[0])

    def step(self, controller: Any, *, adapt: bool = True) -> Any:
        """Return the step of a controller on all samples.

        Parameters
        ----------
        controller : AdaCSLController or MultiLabelController
            The controller.
        adapt : bool, default True
            False only measures.

        Returns
        -------
        ControllerStep or MultiLabelStep
            What was measured.
        """
        if self._counted is None:
            p, y, w = self._joined()
            plain = w is None or (self.n_labels is not None and bool((w == 1.0).all()))
            return controller.step(p, y, sample_weight=None if plain else w, adapt=adapt)
        if self.n_labels is None:
            return _counted_step(controller, self._divisions[0], self._counted[0], adapt=adapt)
        return MultiLabelStep(
            tuple(
                _counted_step(own, division, sums, adapt=adapt)
                for own, division, sums in zip(controller.controllers, self._divisions, self._counted, strict=True)
            )
        )


def _counted_step(controller: AdaCSLController, division: Divisions, sums: Counted, *, adapt: bool) -> Any:
    if controller.n_standard_errors or type(controller.partition) is not SingleBin:
        raise ValueError(
            f"more than {KEPT:,} scores are counted in buckets, which n_standard_errors and partitions other than "
            "SingleBin() cannot use: leave them out, or give adapt fewer samples"
        )
    scores, labels, weight = division.represent(sums)
    return controller.step(scores, labels, sample_weight=weight, adapt=adapt)
