"""Distilling: one small student that learns what a stack says, for people who must ship one net or one booster."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.heldout import pooled, sigmoid
from adacsl.core.intervals import cost_interval
from adacsl.estimators.candidates import Candidate
from adacsl.estimators.rows import Rows, take

if TYPE_CHECKING:
    from adacsl.estimators.method import Method

STUDENTS = (False, True, "boosting", "net")
SEEN = ("classes_", "positive_", "images_", "image_shape_", "n_features_in_", "feature_names_in_")
"""What the portfolio remembers of its data, and its student has to know as well."""


def distil(candidate: Candidate, rows: Rows, seen: NDArray[np.int64], logits: NDArray[np.float64]) -> Method:
    """Return a student of the stack's log-odds of the rows it was not fitted on; its cost is against the labels.

    Each row is there twice, as a positive and as a negative, and counts as much as the stack believes in either: that
    is the cross-entropy against the stack's probabilities, for learners of every kind.
    """
    from adacsl.estimators.fitting import fit_methods  # noqa: PLC0415  it imports this module

    start, n, source = time.perf_counter(), len(seen), candidate.method
    own = dataclasses.replace(rows, use=seen)
    train, test = (np.searchsorted(seen, part) for part in own.folds(None, 0.2, candidate.seed)[0])
    student = _student(source, rows, candidate, [tuple(np.concatenate((part, part + n)) for part in (train, test))])
    for _ in fit_methods([(student, _doubled(candidate.costs, seen))], _twice(rows, seen, sigmoid(logits))):
        pass
    held = student.candidate_
    scores = sigmoid(pooled(2 * n, held.held)[:n][test])
    prices, weight = candidate.costs.rows(seen[test]), rows.weights(seen[test])
    decided = student.decision_.predict(scores, costs=prices)
    groups = None if rows.groups is None else rows.groups[seen[test]]
    student.estimated_cost_ = cost_interval(prices, rows.y[seen[test]], decided, groups=groups, sample_weight=weight)
    student.oof_scores_ = np.full(len(rows.y), np.nan)
    student.oof_scores_[seen[test]] = scores
    student.seconds_ = time.perf_counter() - start
    del student.candidate_
    return student


def _student(source: Method, rows: Rows, candidate: Candidate, split: Any) -> Method:
    from adacsl.estimators.method import Method  # noqa: PLC0415  it imports the learners

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


def _twice(rows: Rows, seen: NDArray[np.int64], chances: NDArray[np.float64]) -> Rows:
    n, twice = len(seen), np.concatenate((seen, seen))
    weight = np.concatenate((chances, 1.0 - chances)) * (1.0 if rows.weight is None else rows.weight[twice])
    labels = np.repeat(np.asarray([1, 0], dtype=rows.y.dtype), n)
    return Rows(take(rows.x, twice), labels, np.arange(2 * n), np.maximum(weight, 1e-12), images=rows.images)


def _doubled(costs: Any, seen: NDArray[np.int64]) -> Any:
    return costs if costs.n_instances is None else costs.rows(np.concatenate((seen, seen)))
