"""scikit-learn's histogram gradient boosting as a learner that is stored as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.scores import to_probabilities
from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.fitting.splits import one_split
from adacsl.learners.trees import as_fitted, by_tree, count_classes, description, insist, pack, unpack

with requires("sklearn"):
    from sklearn._loss.loss import HalfBinomialLoss, HalfMultinomialLoss
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
    from sklearn.utils.validation import check_is_fitted


MAX_LEVELS = 254
"""Histogram boosting takes at most 255 categories."""

HELD, PATIENCE, FEW_ROUNDS = 0.2, 50, 100
"""Share of samples for early stopping; its patience in rounds; number of rounds without early stopping."""

ROWS_PER_THREAD = 20_000
"""Threads wait for each other after every tree; on a busy machine that takes longer than fewer samples do."""

FIELDS = {"left": "left", "right": "right", "feature": "feature_idx", "threshold": "num_threshold",
          "missing": "missing_go_to_left", "categorical": "is_categorical", "category_set": "bitset_idx"}  # fmt: skip
WHOLE = ("order", "known", "places", "category_sets")
"""What all trees share."""


class HistogramBoosting(ClassifierMixin, BaseEstimator):
    """Histogram boosting of raw tables: categories and gaps go to the trees as they are.

    Parameters
    ----------
    random_state : int, optional
        Seed.
    learning_rate, max_iter
        As scikit-learn has them.
    early_stopping : bool, default True
        Find the number of rounds on a part of the samples, groups kept whole (scikit-learn itself does so from 10,000
        samples on); then all samples are learned with as many for each.
    """

    def __init__(
        self, random_state: int | None = None, *, learning_rate: float = 0.05, max_iter: int = 1000,
        early_stopping: bool = True,
    ) -> None:  # fmt: skip
        self.random_state, self.learning_rate, self.max_iter = random_state, learning_rate, max_iter
        self.early_stopping = early_stopping

    def fit(
        self, X: Any, y: NDArray[Any], sample_weight: NDArray[Any] | None = None, groups: Any = None  # noqa: N803
    ) -> HistogramBoosting:  # fmt: skip
        """Train, and keep the trees as arrays; samples of one group stay together where rounds are looked for."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.encoder_ = ColumnEncoder().fit(X)
        x = self.encoder_.transform(X)
        self.levels_ = frequent_levels(self.encoder_, x)
        x = as_positions(x, self.levels_)
        rounds = self._best_rounds(x, codes, sample_weight, groups) if self.early_stopping else self.max_iter
        model = self._unfitted(max_iter=rounds).fit(without_missing(x), y, sample_weight=sample_weight)
        self.arrays_ = tree_arrays(model, list(self.levels_))
        return self

    def _unfitted(self, **settings: Any) -> Any:
        given = {"learning_rate": self.learning_rate, "random_state": self.random_state, "early_stopping": False}
        return HistGradientBoostingClassifier(**(given | settings), categorical_features=list(self.levels_) or None)

    def _best_rounds(self, x: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None, groups: Any) -> int:
        """Return the rounds of least log loss on a fifth of the samples, as many for each sample of all."""
        try:
            ((train, held),) = one_split(y, groups, HELD, self.random_state or 0)
        except ValueError:  # too few samples of a class, or groups
            return min(self.max_iter, FEW_ROUNDS)
        own, other = (None if weight is None else weight[some] for some in (train, held))
        validation = {"X_val": x[held], "y_val": y[held], "sample_weight_val": other}
        model = self._unfitted(max_iter=self.max_iter, early_stopping=True, n_iter_no_change=PATIENCE)
        scores = model.fit(without_missing(x[train]), y[train], sample_weight=own, **validation).validation_score_
        return int(np.clip(round(int(np.argmax(scores)) * len(y) / len(train)), 1, self.max_iter))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return probabilities, columns in the order of ``classes_``."""
        scores = to_probabilities(margins(self.arrays_, as_positions(self.encoder_.transform(X), self.levels_)))
        return scores if scores.ndim == 2 else np.stack((1.0 - scores, scores), axis=1)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest class."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted state as arrays and plain values."""
        levels = listed_levels(self.levels_)
        return self.arrays_, {"encoder": self.encoder_.to_dict(), "levels": levels, "classes": self.classes_.tolist()}

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], document: dict[str, Any]) -> HistogramBoosting:
        """Return the model of what :meth:`numbers` gave."""
        model = cls()
        model.arrays_ = {name: np.asarray(value) for name, value in arrays.items()}
        predictors(model.arrays_)  # raises where they are wrong
        model.encoder_ = ColumnEncoder.from_dict(document["encoder"])
        model.levels_ = levels_from_list(document["levels"], len(model.encoder_.columns))
        model.classes_ = np.asarray(document["classes"])
        insist(len(model.arrays_["start"]) == per_round(len(model.classes_)), "start")
        return model


def boosting_numbers(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a fitted HistGradientBoostingClassifier of numeric columns as arrays and plain values."""
    check_is_fitted(model)
    if len(model.classes_) < 2 or model.is_categorical_ is not None:
        raise ValueError(
            "HistGradientBoostingClassifier cannot be saved without pickle where it has categorical features or a "
            "single class"
        )
    return tree_arrays(model, []), description(model)


def boosting_from_numbers(arrays: dict[str, Any], about: dict[str, Any]) -> Any:
    """Return the classifier of what :func:`boosting_numbers` gave: it predicts; how it was trained is gone."""
    trees, k = predictors(arrays), per_round(count_classes(about))
    insist(len(arrays["order"]) == about["features"], "number of features")
    insist(len(arrays["start"]) == k, "start")
    insist(not arrays["categorical"].any(), "categorical")  # these need sets, which are not here
    bins = _BinMapper()
    bins.is_categorical_, bins.bin_thresholds_ = np.zeros(about["features"], dtype=np.uint8), []
    return as_fitted(
        HistGradientBoostingClassifier(), about, _predictors=[trees[i : i + k] for i in range(0, len(trees), k)],
        _baseline_prediction=arrays["start"].reshape(1, k), _bin_mapper=bins, _preprocessor=None,
        _loss=HalfBinomialLoss() if k == 1 else HalfMultinomialLoss(n_classes=k), n_trees_per_iteration_=k,
        is_categorical_=None,
    )  # fmt: skip


def per_round(n_classes: int) -> int:
    """Return how many trees a round grows: one for two classes, else one of each."""
    return n_classes if n_classes > 2 else 1


# categories

Levels = dict[int, NDArray[np.float64]]
"""The codes of each categorical column that the trees know, sorted."""


def frequent_levels(encoder: ColumnEncoder, x: NDArray[np.float64]) -> Levels:
    """Return the codes of each category that are frequent enough for histogram boosting."""
    return {i: _frequent(x[:, i]) for i in encoder.categories}


def as_positions(x: NDArray[np.float64], levels: Levels) -> NDArray[np.float64]:
    """Return the table with categories as positions among the frequent ones; others are missing values."""
    x = x.copy()
    for column, known_levels in levels.items():
        place = np.searchsorted(known_levels, x[:, column]).clip(max=max(len(known_levels) - 1, 0))
        known = (known_levels[place] == x[:, column]) if len(known_levels) else np.zeros(len(x), dtype=bool)
        x[:, column] = np.where(known, place, np.nan)
    return x


def without_missing(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return training samples; a column without any value, which scikit-learn cannot bin, becomes constant."""
    return np.where(np.isnan(x).all(axis=0), 0.0, x)


def listed_levels(levels: Levels) -> list[list[Any]]:
    """Return levels as plain values."""
    return [[column, values.tolist()] for column, values in levels.items()]


def levels_from_list(listed: list[list[Any]], n_columns: int) -> Levels:
    """Read what :func:`listed_levels` gave of a table of so many columns."""
    levels = {int(column): np.asarray(values, dtype=np.float64) for column, values in listed}
    insist(all(0 <= column < n_columns and own.ndim == 1 for column, own in levels.items()), "levels")
    return levels


def _frequent(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the most frequent codes of a category, sorted."""
    result, counts = np.unique(codes[~np.isnan(codes)], return_counts=True)
    return np.sort(result[np.argsort(-counts, kind="stable")[:MAX_LEVELS]])


def tree_arrays(model: Any, categorical: list[int]) -> dict[str, NDArray[Any]]:
    """Return the trees of a fitted histogram boosting model as arrays: round by round, one of each class.

    scikit-learn puts categorical features in front; ``order`` says which column each feature is.
    """
    trees = [tree for of_round in model._predictors for tree in of_round]
    sets = [tree.raw_left_cat_bitsets for tree in trees]
    nodes = [tree.nodes.copy() for tree in trees]
    for own, begin in zip(nodes, np.cumsum([0, *map(len, sets[:-1])]), strict=True):
        own["bitset_idx"] += np.uint32(begin)
    every = np.concatenate(nodes)
    known, places = model._bin_mapper.make_known_categories_bitsets()
    others = [i for i in range(model.n_features_in_) if i not in categorical]
    return pack(nodes, every["is_leaf"] == 1, every["value"], FIELDS) | {
        "category_sets": np.concatenate(sets).astype(np.int64), "order": np.asarray([*categorical, *others]),
        "known": known.astype(np.int64), "places": places.astype(np.int64),
        "start": np.asarray(model._baseline_prediction, np.float64).reshape(-1),
    }  # fmt: skip


def predictors(arrays: dict[str, NDArray[Any]]) -> list[TreePredictor]:
    """Return scikit-learn's predictors of what :func:`tree_arrays` gave."""
    for name in WHOLE:
        insist(name in arrays and arrays[name].dtype == np.int64, name)
    order, start = arrays["order"], arrays.get("start", np.empty(0))
    insist(order.ndim == 1 and np.array_equal(np.sort(order), np.arange(order.size)), "order")
    insist(start.dtype == np.float64 and start.ndim == 1 and start.size not in (0, 2), "start")
    insist(np.isfinite(start).all(), "start")
    nodes, leaves = unpack(arrays, FIELDS, PREDICTOR_RECORD_DTYPE, order.size)
    insist(arrays["value"].ndim == 1, "value")
    insist(len(arrays["sizes"]) % start.size == 0, "sizes")
    sets = _category_sets(arrays, nodes[nodes["is_categorical"] != 0])
    nodes["is_leaf"], nodes["value"][leaves] = leaves, arrays["value"]
    return [TreePredictor(own, sets, sets) for own in by_tree(arrays, nodes)]


def _category_sets(arrays: dict[str, NDArray[Any]], nodes: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the sets of categories that go to the left, of 256 bits each, once it is sure that nodes find theirs."""
    for name in ("category_sets", "known"):
        insist(arrays[name].ndim == 2 and arrays[name].shape[1] == 8, name)
    places = arrays["places"]
    insist(places.shape == arrays["order"].shape, "places")
    insist(np.all(nodes["bitset_idx"] < len(arrays["category_sets"])), "category_set")
    insist(np.all(places[nodes["feature_idx"]].astype(np.uint32) < len(arrays["known"])), "places")
    return arrays["category_sets"].astype(np.uint32)


def margins(arrays: dict[str, NDArray[Any]], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the margin of each sample, and class where there are more than two.

    It is the start and one leaf of each tree, added in the trees' order.
    """
    total = np.tile(arrays["start"], (len(x), 1))
    x = np.take(x, arrays["order"], axis=1)
    known, places = arrays["known"].astype(np.uint32), arrays["places"].astype(np.uint32)
    threads = min(_openmp_effective_n_threads(), 1 + len(x) // ROWS_PER_THREAD)
    for number, tree in enumerate(predictors(arrays)):
        total[:, number % total.shape[1]] += tree.predict(x, known, places, threads)
    return total if total.shape[1] > 1 else total[:, 0]
