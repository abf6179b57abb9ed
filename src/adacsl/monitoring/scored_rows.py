"""Samples with the scores and decisions of a deployed model, and their labels as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host, refuse_reordered
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import Policy, choose_policy, decide, ordered_labels, take_time
from adacsl.estimators.certification import column_of
from adacsl.fitting.rows import read_known_labels

with requires("sklearn"):
    import pandas as pd
    from sklearn.utils.validation import check_consistent_length, column_or_1d


UNKNOWN = -1
"""The class number of a sample without a label."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """New samples, scored and decided by a model.

    Parameters
    ----------
    scores : array of shape (n,) or (n, K)
        Of the model.
    probabilities, shifted : arrays of shape (n,) or (n, K)
        Under the class prior of the training, and under that of the policy.
    decided : array of shape (n,)
        The number of each decision, a row of ``action_costs``.
    action_costs, class_costs : CostMatrix
        Of all actions, and of the classes alone.
    labels : array of shape (n,)
        Class numbers; -1 where the label is unknown.
    groups : array of shape (n,), optional
        Numbers of groups.
    policy : Policy
        With the times of these samples.
    segments : array of shape (n,), optional
        The segment of each sample, within which the recall is constrained.
    """

    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    shifted: NDArray[np.float64]
    decided: NDArray[np.int64]
    action_costs: CostMatrix
    class_costs: CostMatrix
    labels: NDArray[np.int64]
    groups: NDArray[np.int64] | None
    policy: Policy
    segments: NDArray[Any] | None = None

    def take(self, rows: NDArray[np.bool_]) -> ScoredRows:
        """Return some of the samples."""
        groups = None if self.groups is None else np.unique(self.groups[rows], return_inverse=True)[1]
        own = (self.scores[rows], self.probabilities[rows], self.shifted[rows], self.decided[rows])
        costs = (self.action_costs.rows(rows), self.class_costs.rows(rows))
        segments = None if self.segments is None else self.segments[rows]
        return ScoredRows(*own, *costs, self.labels[rows], groups, self.policy, segments)

    @property
    def has_label(self) -> NDArray[np.bool_]:
        """Whether the label of each sample is known."""
        return np.asarray(self.labels != UNKNOWN)

    def expected_costs(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected cost of each decision under these probabilities."""
        return np.asarray(as_host(self.action_costs.expected(probabilities, self.decided)), dtype=np.float64)

    @property
    def incurred_costs(self) -> NDArray[np.float64]:
        """The cost of each decision; all samples have labels."""
        return self.costs_of(self.decided)

    def costs_of(self, actions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cost of other decisions about these samples; all have labels."""
        return np.asarray(as_host(self.action_costs.incurred(self.labels, actions)), dtype=np.float64)


def score_rows(model: Any, X: Any, y: Any, costs: CostMatrix | None, groups: Any) -> ScoredRows:  # noqa: N803
    """Return checked samples, scored and decided by a model under its policy.

    Parameters
    ----------
    model : CostSensitiveClassifier
        Fitted.
    X : table or images
        Samples, in the form that ``predict`` expects.
    y : array of shape (n,) or None
        Labels, None or NaN where unknown.
    costs : CostMatrix or None
        Costs of the samples; None: the class-wide costs of the model.
    groups : array of shape (n,) or None
        Groups of samples that are not independent.

    Returns
    -------
    ScoredRows
    """
    refuse_reordered(X, y=y, groups=groups)
    X, policy = take_time(model, X, choose_policy(getattr(model, "policy", None), None, {}))  # noqa: N806
    scores = model.decision_scores(X, costs=costs)
    class_costs = costs or model.costs_
    if len(scores) == 0:
        raise ValueError("monitoring needs at least one sample, got none")
    if class_costs.n_instances not in (None, len(scores)):
        raise ValueError(
            f"per-sample costs must be one for each sample: got {class_costs.n_instances} for {len(scores)} samples"
        )
    numbers = None if groups is None else np.unique(column_or_1d(groups), return_inverse=True)[1]
    labels = read_partial_labels(model, y, len(scores))
    check_consistent_length(scores, labels, numbers)
    probabilities = model.decision_.probabilities(scores, costs=costs)
    made = decide(probabilities, model.decision_, ordered_labels(model), costs=costs, policy=policy)
    limits = model.decision_.constraints
    segments = None if limits is None or limits.segments is None else column_of(X, limits.segments)
    return ScoredRows(
        scores, probabilities, made.probabilities, made.actions, made.costs, class_costs, labels, numbers, policy,
        segments,
    )  # fmt: skip


def read_partial_labels(model: Any, y: Any, n: int) -> NDArray[np.int64]:
    """Return the class numbers of labels, -1 where there is none (None, NaN)."""
    numbers = np.full(n, UNKNOWN, dtype=np.int64)
    if y is None:
        return numbers
    given = np.asarray(y, dtype=object)
    if given.shape != (n,):
        raise ValueError(
            f"y has shape {given.shape}, expected ({n},): one label for each sample, None where it is unknown"
        )
    there = ~np.asarray(pd.isna(given), dtype=bool)
    if there.any():
        numbers[there] = read_known_labels(model, np.asarray(given[there].tolist()))
    return numbers
