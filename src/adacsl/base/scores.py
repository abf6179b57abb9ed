"""Scores, probabilities and logits: one number per sample for two classes, K numbers for K."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sigmoid(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return probabilities from log-odds, in float64 and without overflow."""
    logits = np.asarray(logits, dtype=np.float64)
    small = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, 1.0, small) / (1.0 + small))


def log_odds(probabilities: NDArray[Any] | float) -> NDArray[np.float64]:
    """Return log-odds; of 0 and 1 (and beyond) they are infinite."""
    inside = np.clip(np.asarray(probabilities, dtype=np.float64), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.log(inside) - np.log1p(-inside)


def to_probabilities(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return probabilities: of the positive class from log-odds, or of every class from K logits a row.

    Examples
    --------
    >>> to_probabilities(np.asarray([0.0])).tolist(), to_probabilities(np.asarray([[0.0, 0.0, 0.0, 0.0]])).tolist()
    ([0.5], [[0.25, 0.25, 0.25, 0.25]])
    """
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim < 2:
        return sigmoid(logits)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def to_logits(probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """Return log-odds of the positive class, or K logits a row, whose mean is 0; never infinite where K > 2.

    Examples
    --------
    >>> to_logits(np.asarray([[0.5, 0.25, 0.25]])).round(3).tolist()
    [[0.462, -0.231, -0.231]]
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if probabilities.ndim < 2:
        return log_odds(probabilities)
    logs = np.log(np.clip(probabilities, LEAST, None))
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def weighted_sums(x: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one weighted sum of each row, or K for weights of shape (K, d).

    A row's sum depends on that row alone: a matrix product rounds one row otherwise than the same row among others.

    Examples
    --------
    >>> weighted_sums(np.asarray([[1.0, 2.0]]), np.asarray([3.0, 0.5])).tolist()
    [4.0]
    """
    return np.asarray(np.einsum("nd,kd->nk" if weights.ndim == 2 else "nd,d->n", np.ascontiguousarray(x), weights))


LEAST = 1e-30
"""The probability of a class that a model has never seen: its logit stays a number."""


def losses_of(logits: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log loss of each row."""
    logits, labels = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    with np.errstate(invalid="ignore"):  # the loss of NaN is NaN
        if logits.ndim < 2:
            return np.asarray(np.logaddexp(0.0, np.where(labels == 1, -logits, logits)))
        top = logits.max(axis=1, keepdims=True)
        own = np.take_along_axis(logits, labels[:, None].astype(np.int64), axis=1)
        return np.asarray((top + np.log(np.exp(logits - top).sum(axis=1, keepdims=True)) - own)[:, 0])


def likeliest(scores: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what calibration is measured by: of K classes how sure the likeliest is, and whether it is the true one.

    Scores and labels of two classes stay as they are.

    >>> likeliest(np.asarray([[0.2, 0.7, 0.1]]), np.asarray([2]))
    (array([0.7]), array([0]))
    """
    if np.ndim(scores) < 2:
        return scores, labels
    return scores.max(axis=1), (scores.argmax(axis=1) == labels).astype(np.int64)


def n_classes_of(scores: NDArray[Any]) -> int:
    """Return the number of classes of scores or logits."""
    return 2 if np.ndim(scores) < 2 else int(np.shape(scores)[1])


def known(logits: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which samples have scores: the others are NaN."""
    return np.asarray(~np.isnan(logits.reshape(len(logits), -1)).any(axis=1))
