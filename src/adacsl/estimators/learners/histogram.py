"""scikit-learn's histogram boosting: trained there, kept as numbers, walked with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.heldout import sigmoid
from adacsl.datasets.codes import ColumnEncoder
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.ensemble import HistGradientBoostingClassifier

MAX_LEVELS = 254
"""Histogram boosting takes at most 255 categories."""

ROWS_AT_ONCE = 4096

FIELDS = ("value", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "is_leaf", "is_categorical",
          "bitset_idx")  # fmt: skip


class HistogramBoosting(ClassifierMixin, BaseEstimator):
    """Histogram boosting of raw tables: categories and gaps go to the trees as they are.

    Parameters
    ----------
    random_state : int, optional
        Seed.
    """

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> HistogramBoosting:  # noqa: N803
        """Train, and keep the trees as arrays."""
        self.classes_ = np.unique(y)
        self.encoder_ = ColumnEncoder().fit(X)
        x = self.encoder_.transform(X)
        self.levels_ = {i: _frequent(x[:, i]) for i in self.encoder_.categories}
        model = HistGradientBoostingClassifier(
            random_state=self.random_state, categorical_features=list(self.levels_) or None, early_stopping="auto"
        ).fit(self._coded(x), y, sample_weight=sample_weight)
        self.arrays_ = tree_arrays(model, list(self.levels_))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return probabilities, columns in the order of ``classes_``."""
        positive = sigmoid(walk(self.arrays_, self._coded(self.encoder_.transform(X))))
        return np.stack((1.0 - positive, positive), axis=1)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the likelier class."""
        return np.asarray(self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)])

    def _coded(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the table with categories as positions among the frequent ones; others are missing values."""
        x = x.copy()
        for column, levels in self.levels_.items():
            place = np.searchsorted(levels, x[:, column]).clip(max=max(len(levels) - 1, 0))
            known = (levels[place] == x[:, column]) if len(levels) else np.zeros(len(x), dtype=bool)
            x[:, column] = np.where(known, place, np.nan)
        return x

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fitted state as arrays and plain values."""
        levels = [[column, values.tolist()] for column, values in self.levels_.items()]
        return self.arrays_, {"encoder": self.encoder_.to_dict(), "levels": levels, "classes": self.classes_.tolist()}

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], document: dict[str, Any]) -> HistogramBoosting:
        """Return the model of what :meth:`numbers` gave."""
        model = cls()
        model.arrays_ = {name: np.asarray(value) for name, value in arrays.items()}
        model.encoder_ = ColumnEncoder.from_dict(document["encoder"])
        model.levels_ = {int(column): np.asarray(values, dtype=np.float64) for column, values in document["levels"]}
        model.classes_ = np.asarray(document["classes"])
        return model


def _frequent(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the most frequent codes of a category, sorted."""
    found, counts = np.unique(codes[~np.isnan(codes)], return_counts=True)
    return np.sort(found[np.argsort(-counts, kind="stable")[:MAX_LEVELS]])


def tree_arrays(model: Any, categorical: list[int]) -> dict[str, NDArray[Any]]:
    """Return the trees of a fitted HistGradientBoostingClassifier of two classes as arrays.

    scikit-learn puts categorical features in front; ``order`` says which column each feature is.
    """
    trees = [predictors[0] for predictors in model._predictors]
    others = [i for i in range(model.n_features_in_) if i not in categorical]
    starts = np.cumsum([0] + [len(tree.nodes) for tree in trees])
    sets = np.cumsum([0] + [len(tree.raw_left_cat_bitsets) for tree in trees])
    known, places = model._bin_mapper.make_known_categories_bitsets()
    arrays = {name: np.concatenate([tree.nodes[name] for tree in trees]) for name in FIELDS}
    sizes = [len(tree.nodes) for tree in trees]
    for name, offset in (("left", starts), ("right", starts), ("bitset_idx", sets)):
        arrays[name] = arrays[name].astype(np.int64) + np.repeat(offset[:-1], sizes)
    arrays["bitsets"] = np.concatenate([tree.raw_left_cat_bitsets for tree in trees]).astype(np.int64)
    return arrays | {
        "roots": starts[:-1], "order": np.asarray([*categorical, *others]), "known": known.astype(np.int64),
        "places": places.astype(np.int64), "start": np.asarray(model._baseline_prediction, np.float64).reshape(-1)[:1],
    }  # fmt: skip


def walk(trees: dict[str, NDArray[Any]], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the margin of each row: the start and one leaf of each tree, added in the trees' order."""
    total = np.full(len(x), trees["start"][0])
    for begin in range(0, len(x), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        for values in trees["value"][_leaves(trees, x[part][:, trees["order"]])]:
            total[part] += values
    return total


def _leaves(trees: dict[str, NDArray[Any]], x: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the leaf of each row in every tree, trees x rows."""
    node = np.repeat(trees["roots"], len(x))
    row = np.tile(np.arange(len(x)), len(trees["roots"]))
    going = np.flatnonzero(trees["is_leaf"][node] != 1)
    while len(going):
        at = node[going]
        left = _go_left(trees, at, x[row[going], trees["feature_idx"][at]])
        node[going] = np.where(left, trees["left"][at], trees["right"][at])
        going = going[trees["is_leaf"][node[going]] != 1]
    return node.reshape(-1, len(x))


def _go_left(trees: dict[str, NDArray[Any]], at: NDArray[np.int64], value: NDArray[np.float64]) -> NDArray[np.bool_]:
    left, missing = value <= trees["num_threshold"][at], np.isnan(value)
    category = trees["is_categorical"][at] == 1
    if category.any():
        code = np.where(missing | ~category, 0, value).astype(np.int64)
        left = np.where(category, _in_set(trees["bitsets"], np.where(category, trees["bitset_idx"][at], 0), code), left)
        place = np.where(category, trees["places"][trees["feature_idx"][at]], 0)
        missing |= category & ~_in_set(trees["known"], place, code)
    return np.where(missing, trees["missing_go_to_left"][at] == 1, left)


def _in_set(sets: NDArray[np.int64], which: NDArray[np.int64], code: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell whether a code's bit is set in the set of 256 bits of each row."""
    return np.asarray((sets[which, code // 32] >> (code % 32)) & 1 == 1)
