"""Samples sorted by score, and the cost of every candidate threshold between them.

One sort and prefix sums: calling the k lowest scores negative costs the positives among them plus the
negatives among the others, for all k at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array, is_torch_array

from adacsl.base import floats
from adacsl.base.arrays import Array, as_binary_labels, as_scores, as_vector, as_weights, default_float, widen, widest
from adacsl.costs.cells import check_samples, cost_like, is_free
from adacsl.costs.matrix import CostMatrix, check_binary


class Samples(NamedTuple):
    """Checked input."""

    scores: Array
    positive: Array
    costs: CostMatrix
    weight: Array | None
    kind: str  # the name of the float type that the scores came in

    @classmethod
    def of(cls, scores: Array, labels: Array, costs: CostMatrix, weight: Array | None, name: str = "scores") -> Samples:
        """Check scores, labels, costs and weights of one set of samples."""
        check_binary(costs)
        checked = as_scores(scores, name)
        positive = as_binary_labels(labels, checked)
        check_samples(costs.n_instances, checked.shape[0])
        return cls(widen(checked), positive, costs, as_weights(weight, checked), floats.kind_of(checked))


class Cuts(NamedTuple):
    """Sorted samples and what it costs to call the first k = 0 .. n of them negative."""

    scores: Array  # n, rising
    missed: Array  # n + 1: false negatives, rising from 0
    alarmed: Array  # n + 1: false positives, falling to 0
    base: float  # what the samples cost even when every decision is correct
    size: float  # the sum of the weights; the number of samples without them
    squares: Array | None = None  # n + 1: sums of the squared stakes below each cut, where they are asked for


# sorting


def _sorted(samples: Samples) -> tuple[Array, Array, Array | None]:
    """Return sorted scores, their labels, and the order (None where nothing else has to be brought along)."""
    if can_pack(samples):
        keys = sorted_keys(samples.scores, samples.positive)
        xp = array_namespace(keys)
        return scores_of(keys, samples.scores), xp.astype(keys & 1, xp.bool), None
    order = rising_order(samples.scores)
    xp = array_namespace(order)
    return xp.take(samples.scores, order), xp.take(samples.positive, order), order


def can_pack(samples: Samples) -> bool:
    """Return whether score and label are all there is to a sample, and fit into one integer."""
    known = is_numpy_array(samples.scores) or is_torch_array(samples.scores)
    plain = samples.weight is None and samples.costs.n_instances is None
    xp = array_namespace(samples.scores)
    return known and plain and samples.scores.dtype in (xp.float32, xp.float64)


def sorted_keys(scores: Array, positive: Array) -> Array:
    """Sort scores with their labels as plain integers, far faster than an argsort.

    The bits of a float in [0, 1] read as an integer rise with it and leave the two top bits free. Doubled, less one for
    a positive, they hold both; among equal scores the positives come first.
    """
    xp = array_namespace(scores)
    keys = scores.view(xp.int32 if scores.dtype == xp.float32 else xp.int64) << 1  # drops the sign of -0.0
    keys -= positive.view(xp.uint8)
    if is_numpy_array(keys):
        keys.sort()
        return keys
    return xp.sort(keys)


def scores_of(keys: Array, like: Array) -> Array:
    """Return the scores behind sorted keys."""
    return ((keys + 1) >> 1).view(like.dtype)


def rising_order(scores: Array) -> Array:
    """Return the positions of the scores in rising order."""
    n = scores.shape[0]
    if is_numpy_array(scores) and scores.dtype == np.float32 and n < 2**32:
        # score and position in one 64-bit integer: numpy sorts those several times faster than it argsorts
        keys = (scores + np.float32(0)).view(np.int32).astype(np.int64)
        keys <<= 32
        keys |= np.arange(n)
        keys.sort()
        keys &= 0xFFFFFFFF
        return keys
    return array_namespace(scores).argsort(scores, stable=False)


# costs of all cuts


def cut_costs(samples: Samples, *, rising: bool = False, squares: bool = False) -> Cuts:
    """Return what every cut of samples (``rising``: sorted already) costs; the squares are what errors of it need."""
    scores, positive, order = (samples.scores, samples.positive, None) if rising else _sorted(samples)
    fp, fn = samples.costs.fp - samples.costs.tn, samples.costs.fn - samples.costs.tp
    if samples.weight is None and isinstance(fp, float) and isinstance(fn, float):
        return _running_counts(scores, positive, samples.costs, squares=squares)
    xp = array_namespace(scores)
    zero = xp.zeros((1,), dtype=default_float(xp, scores), device=device(scores))
    # one signed number per sample, so that one gather brings everything into order
    stake = xp.where(samples.positive, cost_like(fn, zero), zero - cost_like(fp, zero))
    if samples.weight is not None:
        stake = stake * samples.weight
    if order is not None:
        stake = xp.take(stake, order)
    missed = sums_before(xp.maximum(stake, zero))
    # summed from the other end rather than subtracted from the total: no digits cancel
    alarmed = xp.flip(sums_before(xp.flip(xp.maximum(-stake, zero))))
    free = is_free(samples.costs.tp) and is_free(samples.costs.tn)
    base = 0.0 if free else samples.costs.total(samples.positive, samples.positive, sample_weight=samples.weight)
    size = float(scores.shape[0] if samples.weight is None else xp.sum(samples.weight))
    return Cuts(scores, missed, alarmed, base, size, sums_before(stake * stake) if squares else None)


def _running_counts(scores: Array, positive: Array, costs: CostMatrix, *, squares: bool = False) -> Cuts:
    xp = array_namespace(scores)
    kind = default_float(xp, scores)
    n = scores.shape[0]
    counter = xp.int32 if n < 2**31 - 1 else xp.int64
    fn_counts = sums_before(xp.astype(positive, counter))
    positives = int(fn_counts[-1])
    # of the n - k samples above cut k, all but the remaining positives are false positives
    fp_counts = fn_counts + xp.arange(n - positives, -positives - 1, -1, dtype=counter, device=device(scores))
    missed, alarmed = xp.astype(fn_counts, kind), xp.astype(fp_counts, kind)
    missed *= costs.fn - costs.tp
    alarmed *= costs.fp - costs.tn
    base = costs.tp * positives + costs.tn * (n - positives)
    if not squares:
        return Cuts(scores, missed, alarmed, base, float(n))
    sums = missed * (costs.fn - costs.tp) + (alarmed[0] - alarmed) * (costs.fp - costs.tn)
    return Cuts(scores, missed, alarmed, base, float(n), sums)


def sums_before(values: Array) -> Array:
    """Return the sums of the first 0, 1, ..., n values, in the values' own type."""
    if is_numpy_array(values):
        sums = np.empty(values.shape[0] + 1, dtype=values.dtype)
        sums[0] = 0
        np.cumsum(values, out=sums[1:])
        return sums
    if is_torch_array(values):
        out = values.new_zeros(values.shape[0] + 1)
        array_namespace(values).cumsum(values, 0, dtype=values.dtype, out=out[1:])
        return out
    return array_namespace(values).cumulative_sum(values, dtype=values.dtype, include_initial=True)


def distinct_cuts(scores: Array) -> Array:
    """Return which of the n + 1 cuts fall between two different scores (or at an end)."""
    xp = array_namespace(scores)
    end = xp.ones((1,), dtype=xp.bool, device=device(scores))
    return xp.concat((end, scores[1:] != scores[:-1], end))


class Ranks(NamedTuple):
    """Scores by their place among the distinct ones.

    Parameters
    ----------
    scores : array of shape (n,)
        Places in (0, 1), k / (K + 1) for the k-th of K distinct scores.
    distinct : array of shape (K,)
        The scores themselves, rising.
    """

    scores: Array
    distinct: Array

    @classmethod
    def of(cls, scores: Array) -> Ranks:
        """Return the ranks of finite scores.

        Examples
        --------
        >>> Ranks.of([-2.0, 3.0, -2.0]).scores.tolist()
        [0.3333333333333333, 0.6666666666666666, 0.3333333333333333]
        """
        wide = widest(as_vector(scores, "scores"))
        result = array_namespace(wide).unique_inverse(wide)
        return cls(widest(result.inverse_indices + 1) / (result.values.shape[0] + 1), result.values)

    def outer(self, place: float) -> float:
        """Return the score that a place between 0 and 1 stands for: the highest that is not above it.

        Below all places that is a number below all scores.
        """
        k = min(math.floor(place * (self.distinct.shape[0] + 1) + 1e-9), self.distinct.shape[0])
        return float(self.distinct[k - 1]) if k > 0 else math.nextafter(float(self.distinct[0]), -math.inf)
