"""What the average of a cross-fit's models costs, though each row was held out by one of them alone.

One model of a fold is dearer than the average of all that decides later. A second cross-fit, on other folds, gives rows
a second held-out score. With the cost of one score and that of the mean of two, and a cost that falls as 1 / k with the
number of models k, the cost of k is ``c(k) = c(1) - 2 (1 - 1 / k) (c(1) - c(2))``.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.heldout import pooled
from adacsl.core.scores import known
from adacsl.estimators.candidates import Candidate
from adacsl.estimators.rows import Rows

SCORED_TWICE = 5_000
"""So many rows, or all, get a second held-out score: they tell what averaging saves, and more would only take time."""
CROSS_FITTED = 0.9716
"""Level of the rows' bootstrap for a 95 % interval of a cross-fit: wider by the root of 1.25, 2 Phi(1.118 * 1.96) - 1.

Drawing rows again says nothing of the luck of the training rows, which the models share: the same 1.25 of the variance
as in :mod:`adacsl.experiments.statistics.folds`. On drawn data estimates missed the truth by 1.04 to 1.2 of what the
bootstrap told (``benchmarks/estimate.py``, ``benchmarks/portfolio_estimate.py``).
"""


def add_seconds(candidates: Sequence[Candidate], rows: Rows, cv: Any) -> list[Candidate]:
    """Return the candidates of a cross-fit, and behind them what fits each once more on other folds.

    Nothing is added where folds are given as such, follow one another in time, or only tell of watched rows; nor for
    images, whose nets take long.
    """
    first = candidates[0]
    once = rows.images or rows.line is not None or rows.validation is not None or first.watch is not None
    if once or not isinstance(cv, Integral) or not first.folds:
        return list(candidates)
    seed = first.seed + len(first.folds)  # as further folds would have
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said of the first folds
        folds = rows.folds(cv, None, seed)
    sizes = np.cumsum([len(held_out) for _, held_out in folds])
    folds = folds[: int(np.searchsorted(sizes, min(SCORED_TWICE, sizes[-1]))) + 1]
    for candidate in candidates:
        candidate.second = dataclasses.replace(candidate, folds=folds, seed=seed, held=[], history=[], extra={})
    return [*candidates, *(candidate.second for candidate in candidates if candidate.second is not None)]


def averaged_costs(
    candidate: Candidate, rows: Rows, pay: Callable[[NDArray[Any], NDArray[np.bool_]], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return what rows cost under the average of a candidate's models, right in the mean only, and which rows.

    ``pay(logits, rows)`` says what decisions by held-out log-odds (or K logits) cost. Without a second cross-fit these
    are the costs of single models.
    """
    one = pooled(len(rows.y), candidate.held, costs=candidate.costs)
    seen = known(one)
    costs = pay(one[seen], seen)
    if candidate.second is None or not candidate.second.held:
        return costs, seen
    two = pooled(len(rows.y), candidate.second.held, costs=candidate.costs)
    both = seen & known(two)
    twice = both[seen]
    single = (costs[twice] + pay(two[both], both)) / 2.0
    gain = single - pay((one[both] + two[both]) / 2.0, both)
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    costs[twice] = single - 2.0 * (1.0 - 1.0 / len(candidate.folds)) * gain * weight[seen].sum() / weight[both].sum()
    return costs, seen


__all__ = ["CROSS_FITTED", "add_seconds", "averaged_costs"]
