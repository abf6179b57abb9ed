"""From X of a fitted classifier to decisions: what estimators, command line, server and monitoring call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import NO_POLICY, Decisions, Policy, decide, ordered_labels, take_time

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier


def decide_samples(
    classifier: CostSensitiveClassifier, X: Any, *, costs: CostMatrix | None = None, policy: Policy = NO_POLICY  # noqa: N803
) -> Decisions:  # fmt: skip
    """Return the decisions of a fitted classifier about the samples of X.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
        Fitted.
    X : table, mapping of arrays, or images
        As in training; with the column of the policy's ``time``, where it names one.
    costs : CostMatrix, optional
        Of these samples (:func:`adacsl.fitting.rows.prices_of`); None: the classifier's own.
    policy : Policy
        Default: the class of least expected cost.
    """
    X, policy = take_time(classifier, X, policy)  # noqa: N806
    return decide_probabilities(
        classifier, classifier.decision_probabilities(X, costs=costs), costs=costs, policy=policy
    )


def decide_probabilities(
    classifier: CostSensitiveClassifier,
    probabilities: NDArray[np.float64],
    *,
    costs: CostMatrix | None = None,
    policy: Policy = NO_POLICY,
) -> Decisions:
    """Return the decisions of a fitted classifier about samples with these probabilities.

    For probabilities that were computed before, chunk by chunk; ``policy`` has the times themselves.
    """
    return decide(probabilities, classifier.decision_, ordered_labels(classifier), costs=costs, policy=policy)
