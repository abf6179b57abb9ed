"""Stacking: one log-odds from those of several members, weighted by rows that the members did not train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.estimators.splits import cross_splits
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.linear_model import LogisticRegression

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""How far weights may leave equality: scikit-learn's C, of which inner folds choose one."""

FREE = 100.0
"""Factor of the members' mean: its weight, a temperature, is hardly held back (by the square of this less)."""

FOLDS = 5
PLENTY = 50_000
"""With so many rows "auto" holds nothing back: they outnumber the weights too far for that to matter."""


@dataclass(frozen=True)
class Stack:
    """A weighted sum of the members' log-odds.

    Parameters
    ----------
    weights : array of shape (m,)
        One per member.
    intercept : float
        What is added.
    limit : float
        Log-odds beyond it are taken as it: so many rows cannot prove more.
    strength : float
        How far the weights were allowed to leave equality.
    """

    weights: NDArray[np.float64]
    intercept: float
    limit: float
    strength: float

    def logits(self, columns: NDArray[Any]) -> NDArray[np.float64]:
        """Return the log-odds of rows from those of each member, rows x members."""
        return np.asarray(np.clip(columns, -self.limit, self.limit) @ self.weights + self.intercept)


def fit_stack(columns: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None, strength: float) -> Stack:
    """Fit the weights: the members' mean is free to be scaled, and equal weights are left as the strength allows.

    Shrinking towards the mean of the members, not towards nothing, is what few rows need: a mean of good members is
    good, and no member is left out by chance.
    """
    limit = float(np.log(2.0 * len(labels)))
    clipped = np.clip(columns, -limit, limit)
    mean = clipped.mean(axis=1, keepdims=True)
    model = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=100)
    scale = None if weight is None else np.asarray(weight) / np.mean(weight)
    model.fit(np.hstack((FREE * mean, clipped - mean)), labels, sample_weight=scale)
    own = model.coef_[0, 1:]
    weights = (FREE * model.coef_[0, 0]) / columns.shape[1] + own - own.mean()
    return Stack(weights, float(model.intercept_[0]), limit, strength)


def stack_members(
    columns: NDArray[Any], labels: NDArray[Any], *, weight: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None, strength: float | str = "auto", cut: float = 0.0, seed: int = 0,
) -> tuple[Stack, NDArray[np.float64]]:  # fmt: skip
    """Return the stack of all rows, and log-odds of each row from stacks that were not fitted on it.

    Parameters
    ----------
    columns : array of shape (n, m)
        Log-odds of each member, from models that did not train on the row.
    labels : array of shape (n,)
        1 = positive.
    weight, groups : arrays of shape (n,), optional
        How much each row counts; rows of one group are never on both sides.
    strength : float or "auto"
        "auto": the one with the least log loss in inner folds, chosen anew for each of the nested stacks.
    cut : float
        Log-odds of the Bayes threshold. The stack is halfway between one of plain log loss and one whose errors weigh
        as much as they cost: it is right about all probabilities, and more so about those that decide.
    seed : int
        Of the folds.
    """
    folds = stack_folds(labels, groups, seed)
    if not folds:  # too few rows of a class to weigh anything
        equal = Stack(np.full(columns.shape[1], 1.0 / columns.shape[1]), 0.0, np.inf, 0.0)
        return equal, equal.logits(columns)
    plain = Fits(columns, labels, weight)
    # few rows cannot tell apart what differs by more than they are many
    cut = float(np.clip(cut, -np.log(2.0 * len(labels)), np.log(2.0 * len(labels))))
    stakes = np.exp(np.where(np.asarray(labels) == 1, -cut, cut) / 2.0)
    tilted = Fits(columns, labels, stakes if weight is None else stakes * weight)

    def stack(parts: Sequence[NDArray[Any]]) -> Stack:
        first = plain.best(parts, strength)
        return first if cut == 0.0 else halfway(first, tilted.best(parts, strength), cut)

    nested = np.empty(len(labels))
    for number, (_, test) in enumerate(folds):
        nested[test] = stack([other for i, (_, other) in enumerate(folds) if i != number]).logits(columns[test])
    return stack([test for _, test in folds]), nested


def halfway(plain: Stack, tilted: Stack, cut: float) -> Stack:
    """Return the mean of two stacks; in the second errors weigh as much as they cost, so its even odds are the cut."""
    weights, intercept = plain.weights + tilted.weights, plain.intercept + tilted.intercept + cut
    return replace(plain, weights=weights / 2.0, intercept=intercept / 2.0)


def stack_folds(
    labels: NDArray[Any], groups: NDArray[Any] | None, seed: int
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return folds for the stack, at most five; none where a class is too rare for three."""
    if groups is None:
        most = int(np.bincount(np.asarray(labels).astype(int), minlength=2).min())
    else:
        most = min(len(np.unique(groups[labels == kind])) for kind in (0, 1))
    for count in range(min(FOLDS, most), 2, -1):
        try:
            return cross_splits(labels, groups, count, seed)
        except ValueError:  # groups that leave a fold without a class
            continue
    return []


class Fits:
    """Stacks of some parts of the rows, each fitted once."""

    def __init__(self, columns: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None) -> None:
        self.columns, self.labels, self.weight = columns, labels, weight
        self.known: dict[tuple[bytes, float], Stack] = {}

    def fit(self, parts: Sequence[NDArray[Any]], strength: float) -> Stack:
        """Return the stack of some parts."""
        rows = np.sort(np.concatenate(parts))
        key = (rows.tobytes(), strength)
        if key not in self.known:
            weight = None if self.weight is None else self.weight[rows]
            self.known[key] = fit_stack(self.columns[rows], self.labels[rows], weight, strength)
        return self.known[key]

    def best(self, parts: Sequence[NDArray[Any]], strength: float | str) -> Stack:
        """Return the stack of some parts, of the strength that predicts each part best from the others."""
        if strength == "auto" and len(self.labels) >= PLENTY:
            strength = STRENGTHS[-1]
        if not isinstance(strength, str):
            return self.fit(parts, float(strength))
        return self.fit(parts, min(STRENGTHS, key=lambda tried: self._loss(parts, tried)))

    def _loss(self, parts: Sequence[NDArray[Any]], strength: float) -> float:
        total = 0.0
        for number, test in enumerate(parts):
            stack = self.fit([part for i, part in enumerate(parts) if i != number], strength)
            total += float(np.sum(log_losses(stack.logits(self.columns[test]), self.labels[test]) * self._counts(test)))
        return total

    def _counts(self, rows: NDArray[Any]) -> Any:
        return 1.0 if self.weight is None else self.weight[rows]


def log_losses(logits: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log loss of each row."""
    return np.asarray(np.logaddexp(0.0, np.where(np.asarray(labels) == 1, -logits, logits)))
