"""Fitted scikit-learn estimators as plain arrays, and back."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires, resolve
from adacsl.base.scores import sigmoid, to_probabilities, weighted_sums
from adacsl.integrations.boosting import Matrix
from adacsl.learners.boosting_libraries import load_library

BOOSTERS = {"LGBMClassifier": "lightgbm", "XGBClassifier": "xgboost", "CatBoostClassifier": "catboost"}
"""Classifiers of libraries that have a format of their own for boosters."""


class LinearModel:
    """A linear model that was read from numbers: weighted sums, scaled before and squashed after.

    Two classes have one sum (``weights`` of shape (d,)), more have one each (K x d).
    """

    def __init__(
        self, kind: str, intercept: Any, weights: NDArray[Any], center: Any = None, scale: Any = None,
        classes: Sequence[int] = (0, 1),
    ) -> None:  # fmt: skip
        self.kind, self.intercept, self.center, self.scale = kind, intercept, center, scale
        self.weights = np.ascontiguousarray(weights)  # rounding of sums depends on the layout
        self.classes_ = np.asarray(classes)
        if kind in LINKS:  # others have no probabilities to give
            self.predict_proba = self._probabilities

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the weighted sums."""
        x = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        if np.isnan(x).any():
            raise ValueError("X contains NaN, and a linear model takes no missing values: fill them in before it")
        x = x if self.center is None else x - self.center
        x = x if self.scale is None else x / self.scale
        return np.asarray(weighted_sums(x, self.weights) + self.intercept)

    def _probabilities(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        return np.asarray(LINKS[self.kind](self.decision_function(X)))


class Prefit:
    """A model that was fitted before, whose classes are numbers here instead of its labels.

    ``classes_`` are the numbers of its columns, in their order.
    """

    def __init__(self, estimator: Any, classes: Sequence[int]) -> None:
        self.estimator, self.classes_ = estimator, np.asarray(classes)

    def __getattr__(self, name: str) -> Any:
        if name in ("predict_proba", "decision_function"):
            return functools.partial(self._asked, getattr(self.estimator, name))
        if name == "estimator" or name.startswith("__"):  # copies and pickles ask before there is an estimator
            raise AttributeError(name)
        return getattr(self.estimator, name)

    def _asked(self, answer: Any, X: Any) -> Any:  # noqa: N803
        unnamed = hasattr(self.estimator, "n_features_in_") and not hasattr(self.estimator, "feature_names_in_")
        unnamed = unnamed and not _names_of(self.estimator)
        return answer(np.asarray(X) if unnamed and hasattr(X, "columns") else X)


def _two(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    positive = sigmoid(sums)
    return np.stack((1.0 - positive, positive), axis=1)


def _one_versus_rest(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    each = sigmoid(sums)
    return np.asarray(each / each.sum(axis=1, keepdims=True))


LINKS: dict[str, Any] = {"logistic": _two, "softmax": to_probabilities, "one-vs-rest": _one_versus_rest}
"""How sums become probabilities: of two classes, and of more."""


def _names_of(model: Any) -> list[str]:
    """Return the names of the columns that a booster was fitted on; none where it was fitted on an array."""
    own: Any = "feature_names_in_" if hasattr(model, "feature_names_in_") else "feature_names_"  # CatBoost's
    named = [str(name) for name in getattr(model, own, ())]
    return [] if named == [str(i) for i in range(len(named))] else named


class LibraryBooster:
    """A booster of LightGBM, XGBoost or CatBoost in their library's own format, of numeric columns.

    ``margins`` returns whether its class has a ``decision_function``: a calibration around it was fitted to that.
    """

    def __init__(self, library: str, content: bytes, classes: Sequence[int], *, margins: bool = False) -> None:
        self.library, self.content, self.classes_, self.margins = library, content, np.asarray(classes), margins
        self.booster = load_library(library).from_bytes(content)

    @classmethod
    def of(cls, model: Any) -> LibraryBooster:
        """Return a fitted classifier of one of the libraries; an error where there is more to it than its trees."""
        library = BOOSTERS[type(model).__name__]
        names = _names_of(model)
        if library == "catboost":
            made, rounds = model, model.tree_count_
            other = model.get_cat_feature_indices() or model.get_text_feature_indices()
            if names and not other:
                made = model.copy()
                made.set_feature_names([str(i) for i in range(len(names))])
        elif library == "lightgbm":
            made = model.booster_
            rounds, other = model.best_iteration_ or made.current_iteration(), made.pandas_categorical
        else:
            made = model.get_booster()
            best = getattr(model, "best_iteration", None) if model.early_stopping_rounds else None
            rounds = made.num_boosted_rounds() if best is None else best + 1
            other = "c" in (made.feature_types or ())
            if made.feature_names:  # columns are known by their position
                made = made.copy()
                made.feature_names = made.feature_types = None
        refusal = (
            f"{type(model).__name__} cannot be saved without pickle with categories or an objective of its own: encode "
            f"categories as numbers in its pipeline, or take learner={library!r}, which does"
        )
        if other:
            raise ValueError(refusal)
        content = load_library(library).to_bytes(made, rounds)
        result = cls(library, content, model.classes_, margins=hasattr(model, "decision_function"))
        points = np.stack([np.linspace(low, high, model.n_features_in_) for low, high in ((-1, 1), (2, -3))])
        given: Any = points
        if names:
            import pandas as pd  # noqa: PLC0415  named columns came from frames

            given = pd.DataFrame(points, columns=names)
        if not np.allclose(result.predict_proba(points), model.predict_proba(given), atol=1e-6):
            raise ValueError(refusal)
        return result

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the booster's margins."""
        rows = Matrix(X if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64), None)
        return np.asarray(load_library(self.library).margins(self.booster, rows), dtype=np.float64)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return probabilities, columns in the order of ``classes_``."""
        scores = to_probabilities(self.decision_function(X))
        return scores if scores.ndim == 2 else np.stack((1.0 - scores, scores), axis=1)

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the library's bytes and plain values."""
        about = {"library": self.library, "classes": self.classes_.tolist(), "margins": self.margins}
        return {"booster": np.frombuffer(self.content, dtype=np.uint8)}, about

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], document: dict[str, Any]) -> LibraryBooster:
        """Return the model of what :meth:`numbers` gave."""
        content = np.asarray(arrays["booster"]).tobytes()
        return cls(document["library"], content, document["classes"], margins=bool(document["margins"]))


OURS = {
    "HistogramBoosting": "adacsl.learners.histogram_boosting:HistogramBoosting",
    "MetaCost": "adacsl.learners.metacost:MetaCost",
    "LibraryBooster": "adacsl.learners.arrays:LibraryBooster",
    "OnnxClassifier": "adacsl.integrations.onnx:OnnxClassifier",
    "ScoreClassifier": "adacsl.learners.scores:ScoreClassifier",
}
"""Our own estimators, which write and read their arrays themselves."""
READERS = {
    "DecisionTreeClassifier": "adacsl.learners.trees:forest_from_numbers",
    "ExtraTreeClassifier": "adacsl.learners.trees:forest_from_numbers",
    "RandomForestClassifier": "adacsl.learners.trees:forest_from_numbers",
    "ExtraTreesClassifier": "adacsl.learners.trees:forest_from_numbers",
    "HistGradientBoostingClassifier": "adacsl.learners.histogram_boosting:boosting_from_numbers",
    "skops": "adacsl.learners.skops_models:load",
}
"""scikit-learn's estimators that are kept as arrays, and what reads each."""


def to_numbers(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a fitted estimator as arrays and plain values: of ours where it has such a form, else by skops."""
    with requires("sklearn"):  # what was read from a folder, and predicts, needs none of these
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415

        from adacsl.learners.histogram_boosting import boosting_numbers  # noqa: PLC0415
        from adacsl.learners.trees import FORESTS, forest_numbers  # noqa: PLC0415
    if isinstance(model, Prefit):
        return _prefit_numbers(model)
    model = _chosen(model)
    if type(model).__name__ in BOOSTERS:
        model = LibraryBooster.of(model)
    if type(model).__name__ in OURS:
        arrays, about = model.numbers()
        return arrays, {"kind": type(model).__name__, **about}
    if type(model) in FORESTS.values():
        return forest_numbers(model)
    if type(model) is HistGradientBoostingClassifier:
        return boosting_numbers(model)
    if isinstance(model, LinearModel):
        result: dict[str, Any] = {"weights": model.weights, "center": model.center, "scale": model.scale}
        return {k: v for k, v in result.items() if v is not None}, _about_sums(model.kind, model.intercept, model)
    numbers = _linear_numbers(model)
    return resolve("adacsl.learners.skops_models:dump")(model) if numbers is None else numbers


def _chosen(model: Any) -> Any:
    """Return what predicts probabilities for a frozen estimator, a search, or one whose threshold was moved."""
    from sklearn.frozen import FrozenEstimator  # noqa: PLC0415
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV  # noqa: PLC0415
    from sklearn.model_selection._search import BaseSearchCV  # noqa: PLC0415

    if isinstance(model, FrozenEstimator):
        return _chosen(model.estimator)
    if isinstance(model, BaseSearchCV) and hasattr(model, "best_estimator_"):
        return _chosen(model.best_estimator_)
    if isinstance(model, FixedThresholdClassifier | TunedThresholdClassifierCV) and hasattr(model, "estimator_"):
        return _chosen(model.estimator_)
    return model


def _linear_numbers(model: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return a linear model, alone or behind a StandardScaler, as the numbers of its sums; None of other models."""
    from sklearn.pipeline import Pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    scaler = model.steps[0][1] if isinstance(model, Pipeline) and len(model.steps) == 2 else None
    last = model if scaler is None else model.steps[-1][1]
    coefficients = np.asarray(getattr(last, "coef_", np.empty(0)), dtype=np.float64)
    scaled = scaler is None or isinstance(scaler, StandardScaler)
    kind = _kind_of_sums(last, coefficients) if scaled else None
    if kind is None:
        return None
    arrays = {"weights": coefficients[0] if len(coefficients) == 1 else coefficients}
    for name, value in (("center", getattr(scaler, "mean_", None)), ("scale", getattr(scaler, "scale_", None))):
        if value is not None:
            arrays[name] = np.asarray(value, dtype=np.float64)
    return arrays, _about_sums(kind, last.intercept_, last)


def _prefit_numbers(model: Prefit) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a prefit model as one of class numbers."""
    arrays, about = to_numbers(model.estimator)
    classes = model.classes_.tolist()
    if about["kind"] == "MetaCost" and classes != sorted(classes):
        raise ValueError("a prefit MetaCost cannot be saved with another positive class than its own")
    return arrays, about | {"classes": classes}


def from_numbers(arrays: dict[str, Any], about: dict[str, Any]) -> Any:
    """Return the estimator of what :func:`to_numbers` gave."""
    plain = {name: np.asarray(value) for name, value in arrays.items()}
    if about["kind"] in OURS:
        return resolve(OURS[about["kind"]]).from_numbers(plain, about)
    if about["kind"] in READERS:
        return resolve(READERS[about["kind"]])(plain, about)
    if about["kind"] not in ("linear", *LINKS):
        raise ValueError(f"unknown kind of estimator {about['kind']!r}")
    intercept = about["intercept"]
    intercept = np.asarray(intercept, dtype=np.float64) if isinstance(intercept, list) else float(intercept)
    return LinearModel(about["kind"], intercept, **plain, classes=about.get("classes", (0, 1)))


def as_saved(model: Any) -> Any:
    """Return a linear model as the sum that is saved of it, which rounds differently; others as they are."""
    if isinstance(model, LinearModel | LibraryBooster):
        return model
    try:
        numbers = _linear_numbers(model)
    except ValueError:  # coefficients that are no plain numbers
        return model
    return model if numbers is None else from_numbers(*numbers)


def _about_sums(kind: str, intercept: Any, model: Any) -> dict[str, Any]:
    values = np.ravel(intercept).astype(np.float64).tolist()
    classes = np.asarray(getattr(model, "classes_", (0, 1))).tolist()
    about = {"kind": kind, "intercept": values[0] if len(values) == 1 else values}
    return about if classes == [0, 1] else about | {"classes": classes}


def _kind_of_sums(model: Any, coefficients: NDArray[np.float64]) -> str | None:
    """Return how the model's answers come from weighted sums; None where there is more to them."""
    classes = len(getattr(model, "classes_", (0, 1)))
    if coefficients.ndim != 2 or len(coefficients) != (1 if classes == 2 else classes):
        return None
    n = coefficients.shape[1]
    points = np.stack([np.linspace(-1.0, 1.0, n), np.linspace(2.0, -3.0, n), np.full(n, 0.5)])
    sums = points @ coefficients.T + np.ravel(model.intercept_)
    if classes > 2:  # far out all links give 0 and 1
        model, scale = copy.copy(model), max(1.0, float(np.abs(sums).max()))
        try:
            model.coef_, model.intercept_, sums = model.coef_ / scale, model.intercept_ / scale, sums / scale
        except AttributeError:  # computed from something else
            return None
    kinds = ("logistic",) if classes == 2 else ("softmax", "one-vs-rest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these points have no names
        if not hasattr(model, "predict_proba"):
            # pairs of three classes have three sums too
            own = classes == 2 or np.allclose(model.decision_function(points), sums, atol=1e-9)
            return "linear" if own else None
        chances = model.predict_proba(points)
    shaped = sums[:, 0] if classes == 2 else sums
    return next((kind for kind in kinds if np.allclose(LINKS[kind](shaped), chances, atol=1e-9)), None)
