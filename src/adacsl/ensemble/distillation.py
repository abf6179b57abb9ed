"""Distillation of an ensemble into one model."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.held_out import pooled
from adacsl.base.arrays import as_host
from adacsl.base.scores import to_probabilities
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.rows import Rows, take
from adacsl.metrics.intervals import cost_interval, saving_over_constant

if TYPE_CHECKING:
    from adacsl.estimators.classifier import Method


STUDENTS = (False, True, "boosting", "net")
SEEN = ("classes_", "positive_", "images_", "image_shape_", "n_features_in_", "feature_names_in_", "said_costs_",
        "sample_costs_", "left_out_")  # fmt: skip
"""What the portfolio remembers of its data, and its student has to know as well."""
UNLIKELY = 0.01
"""Of K classes those less likely than this share of 1 / K are not taught: they would only take time."""


def distil(candidate: Candidate, rows: Rows, seen: NDArray[np.int64], logits: NDArray[np.float64]) -> Method:
    """Return a student of the stack's log-odds of the rows it was not fitted on; its cost is against the labels.

    Each row is there once with each label, and counts as much as the stack believes in it: that is the cross-entropy
    against the stack's probabilities, for learners of every kind.
    """
    from adacsl.estimators.fit import fit_methods  # noqa: PLC0415  it imports this module

    start, source = time.perf_counter(), candidate.method
    own = dataclasses.replace(rows, use=seen)
    train, test = (np.searchsorted(seen, part) for part in own.folds(None, 0.2, candidate.seed)[0])
    labels, place, chances = taught(to_probabilities(logits))
    split = tuple(np.flatnonzero(np.isin(place, part)) for part in (train, test))
    student = _student(source, rows, candidate, [split])
    costs = candidate.costs if candidate.row_costs is None else candidate.costs.rows(seen[place])
    for _ in fit_methods([(student, costs)], _copies(rows, seen[place], labels, chances)):
        pass
    first = np.unique(place, return_index=True)[1]  # all copies of a row have the same scores
    scores = to_probabilities(pooled(len(place), student.candidate_.held)[first][test])
    prices, weight = candidate.costs.rows(seen[test]), rows.weights(seen[test])
    decided = student.decision_.predict(scores, costs=prices)
    groups = None if rows.groups is None else rows.groups[seen[test]]
    student.estimated_cost_ = cost_interval(prices, rows.y[seen[test]], decided, groups=groups, sample_weight=weight)
    paid = as_host(prices.incurred(rows.y[seen[test]], decided))
    student.saving_ = saving_over_constant(prices, rows.y[seen[test]], paid, sample_weight=weight, groups=groups)
    student.oof_scores_ = np.full((len(rows.y), *scores.shape[1:]), np.nan)
    student.oof_scores_[seen[test]] = scores
    student.seconds_ = time.perf_counter() - start
    del student.candidate_
    return student


def _student(source: Method, rows: Rows, candidate: Candidate, split: Any) -> Method:
    from adacsl.estimators.classifier import Method  # noqa: PLC0415  it imports the learners

    wished = source.learner_.distil
    learner = wished if isinstance(wished, str) else "net" if rows.images else "boosting"
    if learner == "net" and source.learner_.net is not None:
        learner = source.learner_.net
    student: Method = Method(
        candidate.class_costs, learner=learner, select="log-loss", cv=split, device=source.device,
        random_state=candidate.seed,
    )  # fmt: skip
    for name in SEEN:
        if hasattr(source, name):
            setattr(student, name, getattr(source, name))
    student.check_settings()
    return student


def taught(
    proba: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return which label goes with which row, and how likely it is: both of two classes, of K the likely ones.

    Examples
    --------
    >>> [part.tolist() for part in taught(np.asarray([0.75, 0.5]))]
    [[1, 1, 0, 0], [0, 1, 0, 1], [0.75, 0.5, 0.25, 0.5]]
    """
    if proba.ndim == 1:
        n = len(proba)
        return np.repeat([1, 0], n), np.tile(np.arange(n), 2), np.concatenate((proba, 1.0 - proba))
    likely = proba * proba.shape[1] >= UNLIKELY
    labels, place = np.nonzero(likely.T)
    return labels, place, proba[place, labels]


def _copies(rows: Rows, which: NDArray[np.int64], labels: NDArray[np.int64], chances: NDArray[np.float64]) -> Rows:
    weight = chances * (1.0 if rows.weight is None else rows.weight[which])
    return Rows(
        take(rows.x, which), labels.astype(rows.y.dtype), np.arange(len(which)), np.maximum(weight, 1e-12),
        images=rows.images, n_classes=rows.n_classes,
    )  # fmt: skip
