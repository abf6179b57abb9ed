"""Calibration error of scores in bins."""

from __future__ import annotations

from typing import NamedTuple

from array_api_compat import array_namespace

from adacsl.base.arrays import Array, as_binary_labels, as_scores, widen, widest
from adacsl.base.html import html_record
from adacsl.metrics.bins import EqualWidth, Partition


class Calibration(NamedTuple):
    """Mean score and share of positives of each non-empty bin, the bins' sizes, and the expected error."""

    mean_score: Array
    positive_share: Array
    sizes: Array
    error: float

    def _repr_html_(self) -> str:
        return html_record(self, "Calibration")


def calibration_error(
    scores: Array, labels: Array, *, partition: Partition | None = None, norm: int = 1
) -> Calibration:
    r"""Compare mean score and share of positives in bins of similar score.

    .. math:: \mathrm{ECE}_q = \Big( \sum_m \frac{|D_m|}{n} \,
        \big| \overline{p}_m - \overline{y}_m \big|^q \Big)^{1/q}

    The default partition is ``EqualWidth(15)``; ``Quantile(15)`` is steadier on skewed scores.
    """
    if norm not in (1, 2):
        raise ValueError(f"norm must be 1 or 2, got {norm!r}")
    wide, positive = checked_scores(scores, labels)
    xp, kind = array_namespace(wide), wide.dtype
    bins = (EqualWidth(15) if partition is None else partition)(widen(as_scores(scores)))
    order = xp.argsort(bins)
    sizes = xp.unique_counts(bins).counts
    ends = xp.cumulative_sum(sizes, include_initial=True)

    def bin_means(values: Array) -> Array:
        sums = xp.take(xp.cumulative_sum(xp.take(values, order), include_initial=True), ends)
        return (sums[1:] - sums[:-1]) / xp.astype(sizes, kind)

    mean_score, share = bin_means(wide), bin_means(xp.astype(positive, kind))
    weight = xp.astype(sizes, kind) / wide.shape[0]
    error = float(xp.sum(weight * xp.abs(mean_score - share) ** norm)) ** (1.0 / norm)
    return Calibration(mean_score, share, sizes, error)


def checked_scores(scores: Array, labels: Array) -> tuple[Array, Array]:
    """Return checked scores in wide floats, and which are those of positives."""
    wide = widest(as_scores(scores))
    return wide, as_binary_labels(labels, wide)
