"""MetaCost (Domingos, 1999): rows get their cheapest label, judged by bags that did not hold them, and are learned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.estimators.learners.histogram import HistogramBoosting
from adacsl.estimators.rows import take
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin

BAGS = 10


class MetaCost(ClassifierMixin, BaseEstimator):
    """Histogram boosting of relabelled rows; its decisions at 0.5 are the cheapest ones.

    Parameters
    ----------
    bags : int, default 10
        Bootstrap samples that judge the rows they do not hold.
    random_state : int, optional
        Seed.
    """

    def __init__(self, bags: int = BAGS, random_state: int | None = None) -> None:
        self.bags = bags
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803
        y: NDArray[Any],
        costs: CostMatrix,
        sample_weight: NDArray[Any] | None = None,
    ) -> MetaCost:
        """Relabel and learn; ``costs`` are class-wide or of these rows."""
        seed = self.random_state or 0
        k = costs.n_classes
        chance = out_of_bag(X, y, bags=self.bags, seed=seed, sample_weight=sample_weight, n_classes=k)
        labels = np.asarray(costs.decide(chance))
        self.classes_ = np.arange(k)
        self.constant_ = float(labels[0]) if len(np.unique(labels)) < 2 else None
        self.model_ = None if self.constant_ is not None else HistogramBoosting(seed).fit(X, labels, sample_weight)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return how likely each label is to be the cheapest."""
        if self.model_ is not None:
            return _of_all_classes(self.model_, X, len(self.classes_))
        return np.tile(self.classes_ == (self.constant_ or 0.0), (len(X), 1)).astype(np.float64)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the label that is likelier the cheapest."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted state as arrays and plain values."""
        arrays, document = ({}, {}) if self.model_ is None else self.model_.numbers()
        many = {"n_classes": len(self.classes_)} if len(self.classes_) > 2 else {}
        return arrays, {"constant": self.constant_, "model": document} | many

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], document: dict[str, Any]) -> MetaCost:
        """Return the model of what :meth:`numbers` gave."""
        model = cls()
        model.classes_, model.constant_ = np.arange(document.get("n_classes", 2)), document["constant"]
        own = None if model.constant_ is not None else HistogramBoosting.from_numbers(arrays, document["model"])
        model.model_ = own
        return model


def out_of_bag(
    X: Any,  # noqa: N803
    y: NDArray[Any],
    *,
    bags: int,
    seed: int,
    sample_weight: NDArray[Any] | None = None,
    n_classes: int = 2,
) -> NDArray[np.float64]:
    """Return the chance of the positive class by bags that did not hold the row; the share where all did.

    Of more than two classes, n x K.
    """
    n = len(y)
    rng = np.random.default_rng(seed)
    sums, counts = np.zeros((n, n_classes)), np.zeros((n, 1))
    for bag in range(bags):
        drawn = rng.choice(n, n)
        if len(np.unique(y[drawn])) < 2:
            continue
        left = np.setdiff1d(np.arange(n), drawn)
        weight = None if sample_weight is None else sample_weight[drawn]
        model = HistogramBoosting(seed + bag).fit(take(X, drawn), y[drawn], weight)
        sums[left] += _of_all_classes(model, take(X, left), n_classes)
        counts[left] += 1
    shares = np.tile(np.bincount(y, minlength=n_classes) / n, (n, 1))
    chances = np.asarray(np.divide(sums, counts, out=shares, where=counts > 0))
    return chances if n_classes > 2 else chances[:, 1]


def _of_all_classes(model: HistogramBoosting, X: Any, n_classes: int) -> NDArray[np.float64]:  # noqa: N803
    """Return the probabilities of all classes, 0 for those that the model has never seen."""
    known = model.predict_proba(X)
    every = np.zeros((len(known), n_classes))
    every[:, model.classes_] = known
    return every
