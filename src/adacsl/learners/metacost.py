"""MetaCost (Domingos, 1999): relabel by out-of-bag probabilities, then learn."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.fitting.rows import take
from adacsl.learners.histogram_boosting import HistogramBoosting

with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin


BAGS = 10
grown = functools.partial(HistogramBoosting, learning_rate=0.1, max_iter=100, early_stopping=False)
"""Boosters of bags: their mean does not overfit, and copies of a sample in a bag would be on both sides of a split."""


class MetaCost(ClassifierMixin, BaseEstimator):
    """Histogram boosting of relabelled samples; the likeliest label is then the one of least expected cost.

    Parameters
    ----------
    bags : int, default 10
        Bootstrap samples that judge the samples they do not hold.
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
        """Relabel and learn; ``costs`` are class-wide or of these samples."""
        seed = self.random_state or 0
        chances = out_of_bag(
            X, y, bags=self.bags, seed=seed, sample_weight=sample_weight, n_classes=costs.n_classes
        )  # fmt: skip
        labels = np.asarray(costs.decide(chances))
        self.classes_ = np.arange(costs.n_classes)
        self.constant_ = float(labels[0]) if len(np.unique(labels)) < 2 else None
        self.model_ = None if self.constant_ is not None else grown(seed).fit(X, labels, sample_weight)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability that each label is the one of least cost."""
        result = np.zeros((len(X), len(self.classes_)))
        if self.model_ is None:
            result[:, int(self.constant_ or 0.0)] = 1.0
        else:  # a label may never be the one of least cost
            result[:, self.model_.classes_] = self.model_.predict_proba(X)
        return result

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the label that is most likely the one of least cost."""
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
        model.classes_, model.constant_ = np.arange(int(document.get("n_classes", 2))), document["constant"]
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
    """Return out-of-bag probabilities of the positive class (or of each of K); the class prior where there are none."""
    n = len(y)
    rng = np.random.default_rng(seed)
    sums, counts = np.zeros((n, n_classes)), np.zeros((n, 1))
    for bag in range(bags):
        drawn = rng.choice(n, n)
        if len(np.unique(y[drawn])) < 2:
            continue
        left = np.setdiff1d(np.arange(n), drawn)
        weight = None if sample_weight is None else sample_weight[drawn]
        model = grown(seed + bag).fit(take(X, drawn), y[drawn], weight)
        sums[np.ix_(left, model.classes_)] += model.predict_proba(take(X, left))
        counts[left] += 1
    share = np.tile(np.bincount(y, minlength=n_classes) / n, (n, 1))
    chances = np.divide(sums, counts, out=share, where=counts > 0)
    return np.asarray(chances[:, 1] if n_classes == 2 else chances)
