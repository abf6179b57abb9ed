r"""Intervals of repeated random splits: the corrected resampled t-test.

Test sets of random splits share samples, so their costs vary too little. Every interval and p-value uses the corrected
variance of Nadeau and Bengio (2003) over J splits, with t of J - 1 degrees of freedom:

.. math:: \left(\frac{1}{J} + \frac{n_\mathrm{test}}{n_\mathrm{train}}\right) s^2
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

OVERLAP = 0.20 / 0.80
"""Share of the samples that are tested on, divided by that of the others."""
LEVEL = 0.05
LOWER, EQUAL, HIGHER = "significantly lower", "no significant difference", "significantly higher"


class Estimate(NamedTuple):
    """A mean over splits, its 95 % interval, and the p-value of "it is 0"; NaN where there is one split only."""

    n: int
    mean: float
    low: float
    high: float
    p: float


def estimate(values: ArrayLike, overlap: float = OVERLAP) -> Estimate:
    """Return the mean of one number per split, with its corrected interval and p-value."""
    values = np.asarray(values, dtype=float)
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Estimate(n, mean, math.nan, math.nan, math.nan)
    error = float(values.std(ddof=1)) * math.sqrt(1 / n + overlap)
    half = float(stdtrit(n - 1, 1 - LEVEL / 2)) * error
    p = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error > 0 else float(mean == 0)
    return Estimate(n, mean, mean - half, mean + half, p)


def against(costs: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return how much more each other method costs than one, on the splits that both have.

    Parameters
    ----------
    costs : DataFrame
        Columns method, seed and normalized_cost, one row for each fit.
    reference : str
        The method with which the others are compared.

    Returns
    -------
    DataFrame
        Columns method, pairs, difference, percent (of the reference's mean) with percent_low and percent_high, p
        (adjusted after Holm) and significance.
    """
    wide = costs.pivot(index="seed", columns="method", values="normalized_cost")
    theirs, rows = wide[reference].to_numpy(), []
    for method in wide.columns.drop(reference):
        ours = wide[method].to_numpy()
        both = ~np.isnan(ours + theirs)
        if not both.any():
            continue
        extra = estimate((ours - theirs)[both])
        percent = (100 * end / float(theirs[both].mean()) for end in extra[1:4])
        rows.append((method, extra.n, extra.mean, *percent, extra.p))
    names = ["method", "pairs", "difference", "percent", "percent_low", "percent_high", "p"]
    table = pd.DataFrame(rows, columns=names)
    table["p"] = holm(table["p"].to_numpy(dtype=float))
    significant = np.where(table["difference"] < 0, LOWER, HIGHER)
    return table.assign(significance=np.where(table["p"] < LEVEL, significant, EQUAL))


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return p-values adjusted after Holm (1979); NaN stay NaN and are not counted."""
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1.0)
    return adjusted
