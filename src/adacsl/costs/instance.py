"""Per-sample (instance-dependent) costs, and probabilities corrected for weighted training."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from adacsl.base import arrays, floats
from adacsl.base.arrays import Array, as_host
from adacsl.costs.cells import check_samples
from adacsl.costs.matrix import CostMatrix

__all__ = [
    "at_one_threshold",
    "bayes_log_odds",
    "corrected",
    "corrected_classes",
    "corrected_rows",
    "relative_costs",
    "row_offsets",
    "row_weights",
]


LEAST = 0.01
"""Share of the usual cost that each row weighs at least: where an error is free, odds could not be learned at all."""


def bayes_log_odds(costs: CostMatrix) -> NDArray[np.float64]:
    """Return the log-odds of the Bayes threshold, of each row where rows have costs of their own.

    Examples
    --------
    >>> float(bayes_log_odds(CostMatrix(fp=1, fn=1)))
    0.0
    """
    reduced = costs.deciding.reduced()
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(np.asarray(as_host(reduced.fp), np.float64)) - np.log(np.asarray(as_host(reduced.fn), np.float64))
    # a row without costs decides nothing
    return np.asarray(np.where(np.isnan(odds), 0.0, odds))


def relative_costs(costs: CostMatrix, usual: CostMatrix) -> NDArray[np.float64]:
    """Return the relative cost of errors about each class for each sample, n x K: 1 where it is the usual cost.

    Parameters
    ----------
    costs : CostMatrix
        Of each row.
    usual : CostMatrix
        One cost per outcome.

    Examples
    --------
    >>> relative_costs(CostMatrix(fp=1, fn=np.asarray([4.0, 12.0])), CostMatrix(fp=1, fn=8)).tolist()
    [[1.0, 0.5], [1.0, 1.5]]
    """
    own, mean = (np.asarray(unit_costs.reduced().to_array(), np.float64).sum(axis=-2) for unit_costs in (costs, usual))
    return np.asarray(np.divide(own, mean, out=np.ones_like(own), where=np.broadcast_to(mean > 0, own.shape)))


def row_weights(costs: CostMatrix, usual: CostMatrix, labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the cost of an error about each sample relative to the usual one of its class; at least :data:`LEAST`."""
    unit_costs = np.maximum(relative_costs(costs, usual), LEAST)
    return unit_costs[np.arange(len(labels)), np.asarray(labels, dtype=np.int64)]


def row_offsets(costs: CostMatrix, usual: CostMatrix) -> NDArray[np.float64]:
    r"""Return what a loss weighted by the rows' own costs leaves to add to the log-odds, or to K logits, of each row.

    Weighted by :func:`row_weights` the odds of a model are those of the probability times fn / fp of the row (over
    the usual fn / fp). So the row's own Bayes threshold is at the same score for all rows; what is added here gives
    the probability back.

    Examples
    --------
    >>> row_offsets(CostMatrix(fp=1, fn=np.asarray([8.0, 16.0])), CostMatrix(fp=1, fn=8)).round(3).tolist()
    [0.0, -0.693]
    """
    logs = np.log(np.maximum(relative_costs(costs.deciding, usual), LEAST))
    return np.asarray(logs[:, 0] - logs[:, 1] if logs.shape[1] == 2 else -logs)


def at_one_threshold(scores: Array, costs: CostMatrix, usual: CostMatrix, *, instance_weighted: bool = False) -> Array:
    """Return scores moved such that one threshold, that of the usual costs, is each row's own Bayes threshold.

    Samples whose false negatives are free get 0 (never positive), those whose false positives are free get 1. Where a
    sample has the usual costs, its score stays to the last bit; and where an ``instance_weighted`` loss has moved it.

    Examples
    --------
    >>> costs = CostMatrix(fp=1, fn=np.asarray([8.0, 16.0, 0.0]))
    >>> at_one_threshold(np.asarray([0.4, 0.4, 0.4]), costs, CostMatrix(fp=1, fn=8)).round(3).tolist()
    [0.4, 0.571, 0.0]
    """
    if costs.n_instances is None:
        return scores
    checked = arrays.as_scores(scores)
    check_samples(costs.n_instances, checked.shape[0])
    away = bayes_log_odds(costs) - bayes_log_odds(usual)
    if instance_weighted:
        away = np.where(_weighed_in_full(costs, usual), 0.0, away - row_offsets(costs, usual))
    if not away.any():
        return scores
    xp, wide = array_namespace(checked), arrays.widest(checked)
    odds = wide * _beside(np.exp(np.clip(-away, -700.0, 700.0)), wide)
    moved = odds / (odds + (1.0 - wide))
    free, sure = (_beside(which, wide, xp.bool) for which in (np.isposinf(away), np.isneginf(away)))
    moved = xp.where(free, xp.zeros_like(moved), xp.where(sure, xp.ones_like(moved), moved))
    return xp.where(_beside(away == 0.0, wide, xp.bool), wide, xp.clip(moved, 0.0, 1.0))


def _weighed_in_full(costs: CostMatrix, usual: CostMatrix) -> NDArray[np.bool_]:
    """Return which samples' errors are costly enough to be weighted by their costs."""
    return np.asarray((relative_costs(costs.deciding, usual) >= LEAST).all(axis=1))


def corrected(raw: Array, target_threshold: float, base_weight: float, bayes: float) -> Array:
    """Return probabilities from raw scores of a loss that weighs the negatives: ``p b / (p b + 1 - p)``.

    What is above ``target_threshold`` comes out above the Bayes threshold, whatever rounding does.
    """
    xp = array_namespace(raw)
    positive = raw > floats.nearest(floats.kind_of(raw), target_threshold)
    raw = arrays.widen(raw)
    if floats.nearest(floats.kind_of(raw), bayes) == 1.0:  # no float32 lies between such a T and 1
        raw = arrays.widest(raw)
    odds = raw * base_weight
    proba = odds / (odds + (1.0 - raw))
    # rounding must not carry a score over T, in comparisons of either precision
    kind = floats.kind_of(raw)
    rounded = floats.nearest(kind, bayes)
    low, high = floats.below(kind, rounded) if rounded > bayes else rounded, min(floats.above(kind, rounded), 1.0)
    return xp.where(positive, xp.clip(proba, high, None), xp.clip(proba, None, low))


def corrected_rows(
    raw: Array, target_threshold: float, base_weight: float, costs: CostMatrix, usual: CostMatrix
) -> Array:
    """Return probabilities from raw scores of a loss weighted by the rows' own costs, in wide floats.

    What is above ``target_threshold`` comes out above the row's own Bayes threshold, whatever rounding does; rows whose
    errors are as good as free weighed more than they cost, and are decided by their probabilities.
    """
    xp, wide = array_namespace(raw), arrays.widest(raw)
    check_samples(costs.n_instances, wide.shape[0])
    odds = wide * _beside(base_weight * np.exp(np.clip(row_offsets(costs, usual), -700.0, 700.0)), wide)
    proba = odds / (odds + (1.0 - wide))
    priced = _weighed_in_full(costs, usual)  # only for these the target means their own threshold
    bayes = np.broadcast_to(np.asarray(as_host(costs.threshold), np.float64), priced.shape)
    low = _beside(np.where(priced, bayes, 1.0), wide)
    high = _beside(np.where(priced, np.minimum(np.nextafter(bayes, 1.0), 1.0), 0.0), wide)
    positive = raw > floats.nearest(floats.kind_of(raw), target_threshold)
    return xp.where(positive, xp.maximum(proba, high), xp.minimum(proba, low))


def corrected_classes(scores: Array, costs: CostMatrix, usual: CostMatrix) -> Array:
    """Return scores of K classes, n x K, without the weights of the rows' own costs; each row sums to 1."""
    wide = arrays.widest(scores)
    check_samples(costs.n_instances, wide.shape[0])
    freed = wide * _beside(np.exp(row_offsets(costs, usual)), wide)
    return freed / array_namespace(freed).sum(freed, axis=1, keepdims=True)


def _beside(values: NDArray[Any], like: Array, kind: Any = None) -> Array:
    """Return numpy values in the library, and on the device, of ``like``."""
    return array_namespace(like).asarray(values, dtype=like.dtype if kind is None else kind, device=device(like))
