"""What comparisons did before cross-validation, to stand beside what they do now: five random splits and their means.

Intervals and tests had the corrected variance of Nadeau and Bengio over the splits, p-values were adjusted after Holm,
and the recommendation was the simplest method without a significant difference from the lowest mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

CONSTANTS = ("always-negative", "always-positive")


def corrected(values: Any, overlap: float, level: float = 0.95) -> tuple[Any, Any, Any, Any]:
    """Return mean, low, high and p of each column of splits x methods; ``overlap``: test over training samples."""
    splits = len(values)
    mean, error = values.mean(axis=0), np.sqrt((1 / splits + overlap) * values.var(axis=0, ddof=1))
    half = stats.t.ppf((1 + level) / 2, splits - 1) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(mean == 0, 0.0, np.abs(mean) / error)
    return mean, mean - half, mean + half, 2 * stats.t.sf(size, splits - 1)


def holm(p: Any) -> Any:
    """Return p-values adjusted after Holm."""
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted


def old_pick(costs: Any, methods: Sequence[str], overlap: float) -> str:
    """Return the old recommendation: the simplest method without a significant difference from the lowest mean.

    ``costs`` are means, splits x methods; ``methods`` stand simplest first.
    """
    best = int(np.argmin(costs.mean(axis=0)))
    if methods[best] in CONSTANTS:
        return methods[best]
    others = np.delete(np.arange(len(methods)), best)
    _, low, _, p = corrected(costs[:, others] - costs[:, [best]], overlap)
    tied = others[(holm(p) >= 0.05) & ~(low > 0)]
    return methods[min([best, *tied.tolist()])]
