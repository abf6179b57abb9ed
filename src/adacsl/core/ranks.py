"""Scores of any size (logits, points) as places between 0 and 1: the same cuts, at the same cost."""

from __future__ import annotations

import math
from typing import NamedTuple

from array_api_compat import array_namespace

from adacsl.core.arrays import Array, as_vector, widest


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
        found = array_namespace(wide).unique_inverse(wide)
        return cls(widest(found.inverse_indices + 1) / (found.values.shape[0] + 1), found.values)

    def outer(self, place: float) -> float:
        """Return the score that a place between 0 and 1 stands for: the highest that is not above it.

        Below all places that is a number below all scores.
        """
        k = min(math.floor(place * (self.distinct.shape[0] + 1) + 1e-9), self.distinct.shape[0])
        return float(self.distinct[k - 1]) if k > 0 else math.nextafter(float(self.distinct[0]), -math.inf)
