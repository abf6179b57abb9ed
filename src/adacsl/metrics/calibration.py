"""Calibration error of scores in bins."""

from __future__ import annotations

from typing import NamedTuple

from array_api_compat import array_namespace

from adacsl.base.arrays import Array, as_binary_labels, as_scores, widen, widest
from adacsl.base.html import html_record
from adacsl.base.scores import likeliest
from adacsl.metrics.bins import Partition, QuantileBins, UniformBins

ECE_BINS = 15
"""Quantile bins of :func:`expected_calibration_error`."""


class Calibration(NamedTuple):
    """Scores compared with frequencies, bin by bin: the result of :func:`~adacsl.metrics.calibration_error`.

    Attributes
    ----------
    mean_score : array of shape (M,)
        Mean score of each bin that is not empty.
    positive_share : array of shape (M,)
        Share of positives of each bin.
    sizes : array of shape (M,)
        Number of samples of each bin.
    error : float
        Expected calibration error.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.metrics import calibration_error
    >>> scores, labels = np.asarray([0.25, 0.25, 0.75, 0.75]), np.asarray([0, 0, 1, 1])
    >>> calibration_error(scores, labels).mean_score.tolist()
    [0.25, 0.75]
    """

    mean_score: Array
    positive_share: Array
    sizes: Array
    error: float

    def _repr_html_(self) -> str:
        return html_record(self, "Calibration")


def calibration_error(
    scores: Array, labels: Array, *, partition: Partition | None = None, norm: int = 1
) -> Calibration:
    r"""Return the expected calibration error, with mean score and share of positives in bins of similar score.

    .. math:: \mathrm{ECE}_q = \Big( \sum_m \frac{|D_m|}{n} \,
        \big| \overline{p}_m - \overline{y}_m \big|^q \Big)^{1/q}

    Parameters
    ----------
    scores : array of shape (n,)
        Probabilities of the positive class.
    labels : array of shape (n,)
        0 or 1.
    partition : Partition, optional
        The bins. Default: ``UniformBins(15)``; ``QuantileBins(15)`` is steadier on skewed scores.
    norm : {1, 2}, default 1
        The exponent q.

    Returns
    -------
    Calibration
        The error and the bins.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.metrics import calibration_error
    >>> scores, labels = np.asarray([0.25, 0.25, 0.75, 0.75]), np.asarray([0, 0, 1, 1])
    >>> calibration_error(scores, labels).error
    0.25
    """
    if norm not in (1, 2):
        raise ValueError(f"norm must be 1 or 2, got {norm!r}")
    wide, positive = checked_scores(scores, labels)
    xp, kind = array_namespace(wide), wide.dtype
    bins = (UniformBins(15) if partition is None else partition)(widen(as_scores(scores)))
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


def expected_calibration_error(scores: Array, labels: Array) -> float:
    """Return the expected calibration error in 15 quantile bins, as fits, comparisons and monitoring report it.

    Of K classes, what is compared is the probability of the likeliest class with how often it is the true one.

    Parameters
    ----------
    scores : array of shape (n,) or (n, K)
        Probabilities of the positive class, or of each class.
    labels : array of shape (n,)
        Class numbers.

    Examples
    --------
    >>> import numpy as np
    >>> expected_calibration_error(np.repeat([0.25, 0.75], 4), np.asarray([0, 0, 1, 1, 1, 1, 1, 1]))
    0.25
    """
    return calibration_error(*likeliest(scores, labels), partition=QuantileBins(ECE_BINS)).error


def checked_scores(scores: Array, labels: Array) -> tuple[Array, Array]:
    """Return checked scores in wide floats, and which are those of positives."""
    wide = widest(as_scores(scores))
    return wide, as_binary_labels(labels, wide)
