"""Probabilities that were made elsewhere, as a fitted classifier of one column: no model is needed to decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires

with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["ScoreClassifier"]


class ScoreClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose one feature is the probability of the second label; it is never fitted.

    With it ``CostSensitiveClassifier(costs, learner=ScoreClassifier(), decide="tuned").fit(table[["score"]], y)`` fits,
    saves, serves and monitors the decision of any model, from its scores alone.

    Parameters
    ----------
    labels : sequence of two labels, default (0, 1)
        As they are written in ``y``; scores are the probabilities of the second.

    Examples
    --------
    >>> ScoreClassifier().predict_proba([[0.25], [0.5]]).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """

    def __init__(self, labels: Sequence[Any] = (0, 1)) -> None:
        self.labels = labels

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels."""
        if len(set(self.labels)) != 2 or len(self.labels) != 2:
            raise ValueError(f"labels must be two different ones, got {list(self.labels)}")
        return np.asarray(list(self.labels))

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Return itself."""
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the scores as probabilities of both classes."""
        try:
            scores = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("scores must be numbers, the probabilities of the positive class") from None
        if scores.ndim != 2 or scores.shape[1] != 1:
            raise ValueError(f"scores must be one column, of shape (n, 1), got an array of shape {scores.shape}")
        if not ((scores >= 0.0) & (scores <= 1.0)).all():
            raise ValueError("scores must be probabilities from 0 to 1, none missing; log-odds: 1 / (1 + exp(-score))")
        return np.hstack((1.0 - scores, scores))

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the likelier label of each score."""
        return np.asarray(self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)])

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the labels as plain values."""
        return {}, {"classes": self.classes_.tolist()}

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], document: dict[str, Any]) -> ScoreClassifier:
        """Return the classifier of what :meth:`numbers` gave."""
        return cls(document["classes"])
