"""Weights of the stack, fitted on out-of-fold scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.scores import losses_of, to_probabilities
from adacsl.fitting.splits import cross_splits
from adacsl.fitting.time_splits import Timeline, possible_folds
from adacsl.learners.stack import Stack, limited

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""How far weights may leave equality: scikit-learn's C, of which inner folds choose one."""

FREE = 100.0
"""Factor of the base estimators' mean: its weight, a temperature, is hardly held back (by the square of this less)."""

FOLDS = 5
FIRST = 1 / 3
"""Of samples with a time so many, the oldest, are scored by no nested stack."""
MOST_STEPS, ENOUGH = 100, 1e-12
"""Newton's method ends when another step would gain less than this share of the loss."""
PLENTY = 50_000
"""With so many samples "auto" holds nothing back: they outnumber the weights too far for that to matter.

Of K classes a sample counts K / 2 times: the weights are shared, and the time to choose a strength grows with K."""


def fit_stack(
    columns: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None, strength: float,
    offset: NDArray[Any] | None = None,
) -> Stack:  # fmt: skip
    """Fit the weights: the scale of the mean is free, deviations from equal weights are penalised by the strength.

    Shrinking towards the mean of the base estimators, not towards nothing, is what few samples need: a mean of good
    base estimators is good, and none is dropped because of sampling variance. ``offset``, n x K, is what weights by the
    per-sample costs add to the logits: it is taken as known, so that what is found speaks of probabilities.
    """
    limit = float(np.log(2.0 * len(labels)))
    clipped = limited(columns, limit)
    if columns.ndim == 3:
        return Stack(*_fit_classes(clipped, labels, weight, strength, offset), limit, strength)
    mean = clipped.mean(axis=1, keepdims=True)
    design = np.hstack((FREE * mean, clipped - mean))
    counted = np.full(len(design), strength) if weight is None else strength * np.asarray(weight) / np.mean(weight)
    known = None if offset is None else offset[:, 1] - offset[:, 0]
    result, intercept = _fit_logistic(design, np.asarray(labels, np.float64), counted, known)
    own = result[1:]
    return Stack((FREE * result[0]) / columns.shape[1] + own - own.mean(), intercept, limit, strength)


def _fit_logistic(
    design: NDArray[np.float64], labels: NDArray[np.float64], counted: NDArray[np.float64],
    known: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], float]:  # fmt: skip
    """Return coefficients and intercept of a logistic regression on top of known log-odds, by Newton's method.

    scikit-learn's minimises the same sum without known log-odds, and checks its arguments for longer than it computes:
    a stack of a thousand samples takes more than a hundred of these fits.
    """
    x = np.hstack((design, np.ones((len(design), 1))))
    held, given = np.append(np.ones(design.shape[1]), 0.0), 0.0 if known is None else known
    least = np.diag(np.maximum(held, ENOUGH))

    def loss(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = x @ at + given
        return float(counted @ (np.logaddexp(0.0, logits) - labels * logits) + held @ at**2 / 2.0), logits

    at = np.zeros(x.shape[1])
    at[0] = 1.0 / FREE
    value, logits = loss(at)
    for _ in range(MOST_STEPS):
        proba = to_probabilities(logits)
        slope = x.T @ (counted * (proba - labels)) + held * at
        step = np.linalg.solve((x.T * (counted * proba * (1.0 - proba))) @ x + least, slope)
        gain, size = float(slope @ step), 1.0
        if gain <= ENOUGH * max(1.0, value):
            return (at - step)[:-1], float((at - step)[-1])
        moved, logits = loss(at - step)
        while moved > value - 0.25 * size * gain and size > ENOUGH:
            size /= 2.0
            moved, logits = loss(at - size * step)
        at, value = at - size * step, moved
    return at[:-1], float(at[-1])


def _fit_classes(
    columns: NDArray[np.float64], labels: NDArray[Any], weight: NDArray[Any] | None, strength: float,
    offset: NDArray[Any] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:  # fmt: skip
    """Return one weight per base estimator and one intercept per class, fitted by Newton's method for K classes.

    The intercepts are hardly held back either: that of a class without samples stays a number, and their sum is 0.
    """
    n, m, k = columns.shape
    z, own = np.ascontiguousarray(columns.transpose(1, 0, 2)), np.eye(k)[labels]
    counted = np.full(n, strength) if weight is None else strength * np.asarray(weight) / np.mean(weight)
    given = 0.0 if offset is None else offset
    penalty = np.eye(m + k) / FREE**2
    penalty[:m, :m] = np.eye(m) - 1.0 / m + 1.0 / FREE**2

    def loss(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = np.tensordot(at[:m], z, axes=1) + at[m:] + given
        return float(counted @ losses_of(logits, labels) + at @ penalty @ at / 2.0), logits

    at = np.append(np.full(m, 1.0 / m), np.zeros(k))
    value, logits = loss(at)
    for _ in range(MOST_STEPS):
        proba = to_probabilities(logits)
        pull, mass = counted[:, None] * (proba - own), counted[:, None] * proba
        slope = np.append(np.tensordot(z, pull, axes=2), pull.sum(axis=0)) + penalty @ at
        step = np.linalg.solve(curvature(z, proba, mass) + penalty, slope)
        gain, size = float(slope @ step), 1.0
        if gain <= ENOUGH * max(1.0, value):
            break
        moved, logits = loss(at - step)
        while moved > value - 0.25 * size * gain and size > ENOUGH:
            size /= 2.0
            moved, logits = loss(at - size * step)
        at, value = at - size * step, moved
    return at[:m], at[m:]


def curvature(z: NDArray[np.float64], proba: NDArray[np.float64], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the second derivatives of the log loss by the base estimators' weights and the intercepts."""
    off = z - np.einsum("mnk,nk->mn", z, proba)[:, :, None]
    by_class = np.einsum("mnk,nk->mk", off, mass)
    off *= np.sqrt(mass)
    among = off.reshape(len(z), -1)
    return np.block([[among @ among.T, by_class], [by_class.T, np.diag(mass.sum(axis=0)) - mass.T @ proba]])


def stack_estimators(
    columns: NDArray[Any], labels: NDArray[Any], *, weight: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None, strength: float | str = "auto", cut: Any = 0.0,
    sample_costs: NDArray[Any] | None = None, seed: int = 0, line: Timeline | None = None,
) -> tuple[Stack, NDArray[np.float64]]:  # fmt: skip
    """Return the stack of all samples, and nested log-odds (or K logits) from stacks not fitted on the sample.

    Parameters
    ----------
    columns : array of shape (n, m) or (n, m, K)
        Log-odds (or logits) of each base estimator, from models that did not train on the sample.
    labels : array of shape (n,)
        1 = positive; of more than two classes their numbers.
    weight, groups : arrays of shape (n,), optional
        How much each sample counts; samples of one group are never on both sides.
    strength : float or "auto"
        "auto": the one with the least log loss in inner folds, chosen again for each of the nested stacks.
    cut : float or array of shape (K,)
        Log-odds of the Bayes threshold; of K classes minus the log of what an error about each weighs. The stack is
        halfway between one of plain log loss and one whose errors weigh as much as they cost: it is right about all
        probabilities, and more so about those that decide.
    sample_costs : array of shape (n, K), optional
        What an error about each class costs for each sample, where costs differ between samples; takes the place of
        ``cut``.
    seed : int
        Of the folds.
    line : Timeline, optional
        When each sample was: stacks are then fitted on what lies before the samples they score, and the oldest samples
        have NaN.
    """
    folds = stack_folds(labels, groups, seed, line)
    if not folds:  # too few samples of a class to weigh anything
        none = 0.0 if columns.ndim == 2 else np.zeros(columns.shape[2])
        equal = Stack(np.full(columns.shape[1], 1.0 / columns.shape[1]), none, np.inf, 0.0)
        return equal, equal.logits(columns)
    plain = Fits(columns, labels, weight)
    stakes, cut, offset = _stakes(columns, np.asarray(labels), cut, sample_costs)
    tilted = Fits(columns, labels, stakes if weight is None else stakes * weight, offset)

    def stack(parts: Sequence[NDArray[Any]], inner: Sequence[Inner]) -> Stack:
        first = plain.best(parts, inner, strength)
        same = not np.any(cut) and offset is None
        return first if same else halfway(first, tilted.best(parts, inner, strength), cut)

    nested = np.full((len(labels), *columns.shape[2:]), np.nan)
    for test, parts, inner in plan_stacks(folds, len(labels), ordered=line is not None):
        if test is None:
            return stack(parts, inner), nested
        nested[test] = stack(parts, inner).logits(columns[test])
    raise AssertionError("the last stack is of all rows")


Inner = tuple[Sequence[NDArray[Any]], NDArray[Any]]
"""Parts that a stack is fitted on to choose a strength, and the part that judges it."""


def plan_stacks(
    folds: Sequence[tuple[NDArray[Any], NDArray[Any]]], n: int, *, ordered: bool
) -> Iterator[tuple[NDArray[Any] | None, Sequence[NDArray[Any]], list[Inner]]]:
    """Yield for each nested stack its test samples, its training parts and its inner folds; last for all samples.

    ``ordered``: folds are windows of time, and nothing later is used.
    """

    def among(parts: Sequence[NDArray[Any]]) -> list[Inner]:
        return [([other for j, other in enumerate(parts) if j != i], part) for i, part in enumerate(parts)]

    tests = [test for _, test in folds]
    windows: list[Inner] = [([train], test) for train, test in folds]
    for number, (train, test) in enumerate(folds):
        others = [other for i, other in enumerate(tests) if i != number]
        yield (test, [train], windows[:number]) if ordered else (test, others, among(others))
    yield (None, [np.arange(n)], windows) if ordered else (None, tests, among(tests))


def _stakes(
    columns: NDArray[Any], labels: NDArray[Any], cut: Any, sample_costs: NDArray[Any] | None
) -> tuple[Any, Any, Any]:
    """Return what each sample weighs where errors weigh as much as they cost, and how that moves what is fitted.

    That is the cut, for all samples, or with per-sample costs an offset of each sample's logits.
    """
    # few samples cannot support larger differences
    far = np.log(2.0 * len(labels))
    if sample_costs is not None:
        # samples with a free error have no odds to weigh
        charged = np.asarray((sample_costs > 0).all(axis=1))
        logs = np.log(np.where(charged[:, None], sample_costs, 1.0))
        logs -= np.median(logs[charged], axis=0).mean() if charged.any() else 0.0
        offset = np.where(charged[:, None], np.clip(logs, -far / 2.0, far / 2.0), 0.0)
        return np.where(charged, np.exp(np.take_along_axis(offset, labels[:, None], axis=1)[:, 0]), 0.0), 0.0, offset
    if columns.ndim == 2:
        cut = float(np.clip(cut, -far, far))
        return np.exp(np.where(labels == 1, -cut, cut) / 2.0), cut, None
    cut = np.clip(np.broadcast_to(cut, columns.shape[2]), -far / 2.0, far / 2.0)
    return np.exp(-cut)[labels], cut, None


def halfway(plain: Stack, tilted: Stack, cut: Any) -> Stack:
    """Return the mean of two stacks; in the second errors weigh as much as they cost, so its even odds are the cut."""
    weights, intercept = plain.weights + tilted.weights, plain.intercept + tilted.intercept + cut
    return replace(plain, weights=weights / 2.0, intercept=intercept / 2.0)


def stack_folds(
    labels: NDArray[Any], groups: NDArray[Any] | None, seed: int, line: Timeline | None = None
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return folds for the stack, at most five; none where all classes but one are too rare for three."""
    if line is not None:
        return possible_folds(line, labels, groups, FOLDS, first=FIRST)
    kinds = range(max(2, int(np.max(labels)) + 1))
    units = np.arange(len(labels)) if groups is None else groups
    most = sorted(len(np.unique(units[labels == kind])) for kind in kinds)[-2]
    for count in range(min(FOLDS, most), 2, -1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of many classes rare ones may be absent from a fold
                return cross_splits(labels, groups, count, seed)
        except ValueError:  # groups that leave a fold without a class
            continue
    return []


class Fits:
    """Stacks of some parts of the samples, each fitted once."""

    def __init__(
        self, columns: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None,
        offset: NDArray[Any] | None = None,
    ) -> None:  # fmt: skip
        self.columns, self.labels, self.weight, self.offset = columns, labels, weight, offset
        self.known: dict[tuple[bytes, float], Stack] = {}

    def fit(self, parts: Sequence[NDArray[Any]], strength: float) -> Stack:
        """Return the stack of some parts."""
        rows = np.sort(np.concatenate(parts))
        key = (rows.tobytes(), strength)
        if key not in self.known:
            weight = None if self.weight is None else self.weight[rows]
            offset = None if self.offset is None else self.offset[rows]
            self.known[key] = fit_stack(self.columns[rows], self.labels[rows], weight, strength, offset)
        return self.known[key]

    def best(self, parts: Sequence[NDArray[Any]], inner: Sequence[Inner], strength: float | str) -> Stack:
        """Return the stack of some parts, of the strength that predicts best from some parts another."""
        if strength == "auto" and self.columns.size / self.columns.shape[1] >= PLENTY * (self.columns.ndim - 1):
            strength = STRENGTHS[-1]
        if not isinstance(strength, str):
            return self.fit(parts, float(strength))
        return self.fit(parts, min(STRENGTHS, key=lambda tried: self._loss(inner, tried)))

    def _loss(self, inner: Sequence[Inner], strength: float) -> float:
        total = 0.0
        for parts, test in inner:
            stack = self.fit(parts, strength)
            losses = losses_of(self._moved(stack.logits(self.columns[test]), test), self.labels[test])
            total += float(np.sum(losses * self._counts(test)))
        return total

    def _moved(self, logits: NDArray[np.float64], rows: NDArray[Any]) -> NDArray[np.float64]:
        if self.offset is None:
            return logits
        own = self.offset[rows]
        return np.asarray(logits + (own[:, 1] - own[:, 0] if logits.ndim == 1 else own))

    def _counts(self, rows: NDArray[Any]) -> Any:
        return 1.0 if self.weight is None else self.weight[rows]
