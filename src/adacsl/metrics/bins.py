"""Bins of samples with similar scores: one, of equal width, or by quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from array_api_compat import array_namespace, device

from adacsl.base.arrays import Array, check_whole


class Partition(Protocol):
    """Any callable that gives each score the number of its subgroup: 0, 1, 2, ...

    Subgroups may be empty.

    Examples
    --------
    >>> from adacsl import AdaCSLController, CostMatrix
    >>> def halves(scores):
    ...     return (scores > 0.5).astype(int)
    >>> controller = AdaCSLController(CostMatrix(fp=1, fn=8), partition=halves)
    >>> controller.step([0.2, 0.4, 0.6, 0.9], [0, 1, 0, 1]).sizes
    (2.0, 2.0)
    """

    def __call__(self, scores: Array, /) -> Array:
        """Return one integer for each score."""


@dataclass(frozen=True)
class SingleBin:
    """The whole set as one subgroup, as in the paper's main experiment.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.adaptive import SingleBin
    >>> SingleBin()(np.asarray([0.0, 0.1, 0.55, 1.0])).tolist()
    [0, 0, 0, 0]
    """

    def edges(self, scores: Array) -> Array:
        """Return the borders of the subgroups.

        Parameters
        ----------
        scores : array of shape (n,)
            Scores in [0, 1].

        Returns
        -------
        array of shape (2,)
            0 and 1.
        """
        return _even_edges(scores, 1)

    def __call__(self, scores: Array, /) -> Array:
        """Return 0 for each score."""
        xp = array_namespace(scores)
        return xp.zeros(scores.shape, dtype=xp.int64, device=device(scores))


@dataclass(frozen=True)
class UniformBins:
    """Bins of equal width, ``[0, 0.1), [0.1, 0.2), ..., [0.9, 1]``, as in the paper's illustration.

    The last bin is closed.

    Parameters
    ----------
    bins : int, default 10
        The number of bins.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.adaptive import UniformBins
    >>> UniformBins(10)(np.asarray([0.0, 0.1, 0.55, 1.0])).tolist()
    [0, 1, 5, 9]
    """

    bins: int = 10

    def __post_init__(self) -> None:
        check_whole("bins", self.bins)

    def edges(self, scores: Array) -> Array:
        """Return the borders of the subgroups, first and last included.

        Parameters
        ----------
        scores : array of shape (n,)
            Scores in [0, 1].

        Returns
        -------
        array of shape (bins + 1,)
            The borders.
        """
        return _even_edges(scores, self.bins)

    def __call__(self, scores: Array, /) -> Array:
        """Return the bin of each score."""
        # a score on an inner border belongs to the bin that starts there; 1.0 stays in the last bin
        return array_namespace(scores).searchsorted(self.edges(scores)[1:-1], scores, side="right")


class QuantileBins(UniformBins):
    """Bins with about equally many scores; equal scores always share a bin, so bins may stay empty.

    Parameters
    ----------
    bins : int, default 10
        The number of bins.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.adaptive import QuantileBins
    >>> QuantileBins(2)(np.asarray([0.0, 0.1, 0.2, 0.9])).tolist()
    [0, 0, 1, 1]
    """

    def edges(self, scores: Array) -> Array:
        """Return the borders of the subgroups, first and last included.

        Parameters
        ----------
        scores : array of shape (n,)
            Scores in [0, 1].

        Returns
        -------
        array of shape (bins + 1,)
            The borders.
        """
        xp = array_namespace(scores)
        n = scores.shape[0]
        inner = xp.asarray([(n * m) // self.bins for m in range(1, self.bins)], dtype=xp.int64, device=device(scores))
        outer = _even_edges(scores, 1)
        return xp.concat((outer[:1], xp.take(xp.sort(scores), inner), outer[1:]))


def _even_edges(scores: Array, bins: int) -> Array:
    xp = array_namespace(scores)
    return xp.asarray([m / bins for m in range(bins + 1)], dtype=scores.dtype, device=device(scores))
