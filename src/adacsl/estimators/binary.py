"""What AdaCSL's classifiers of two classes share: labels, costs, splits, targets, decisions and estimates."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from adacsl.core.control import AdaptiveWeight
from adacsl.core.costs import CostMatrix
from adacsl.core.curves import calibration_error
from adacsl.core.intervals import Interval, cost_interval
from adacsl.core.partitions import Quantile
from adacsl.core.thresholds import find_threshold
from adacsl.estimators.splits import cross_splits, one_split
from adacsl.extras import requires
from adacsl.integrations.sklearn import PLAIN_LABELS, row_costs

with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import (
        _check_sample_weight,
        assert_all_finite,
        check_consistent_length,
        column_or_1d,
        validate_data,
    )

Array = Any

TARGETS = ("bayes", "middle", "auto")
THRESHOLD_LIMITS = (1e-7, 1.0 - 1e-7)


class Rows(NamedTuple):
    """Checked training data: 0/1 labels, and what goes with each row."""

    x: Any
    y: np.ndarray[Any, Any]
    weight: np.ndarray[Any, Any] | None
    groups: np.ndarray[Any, Any] | None
    costs: CostMatrix | None
    extra: Any = None  # validation rows given apart, which follow those of x
    validation: np.ndarray[Any, Any] | None = None

    @property
    def counting(self) -> np.ndarray[Any, Any]:
        """The rows that count: those of weight zero must not even stand in a split."""
        return np.arange(len(self.y)) if self.weight is None else np.flatnonzero(self.weight > 0)


class Judged(NamedTuple):
    """A threshold and what deciding at it costs."""

    threshold: float
    cost: float


class CostClassifier(ClassifierMixin, BaseEstimator):
    """Everything but the training: subclasses list the settings, fit, and give ``decision_scores``."""

    costs: CostMatrix | None
    positive: Any
    target: float | str
    cv: Any
    validation: Any
    decide: str
    select: str

    # before training

    def _check_common_settings(self) -> None:
        choices = {"decide": ("target", "tuned", "bayes"), "select": ("best", "last")}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {getattr(self, name)!r}")
        if self.costs is not None and not isinstance(self.costs, CostMatrix):
            raise TypeError(f"costs must be a CostMatrix such as CostMatrix(fp=1, fn=8), got {self.costs!r}")
        if self.costs is not None and (self.costs.n_classes != 2 or self.costs.n_instances is not None):
            raise ValueError(
                f"costs must hold one price per outcome of two classes, got {self.costs!r}; "
                "give costs of each row to fit and predict: fit(X, y, fn=amounts)"
            )
        if self.cv is None and self.validation is None:
            raise ValueError("validation must be a fraction between 0 and 1 or a pair (X, y), got None; or give cv=5")

    def _collect_rows(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Array | None,
        groups: Array | None,
        costs: CostMatrix | None,
    ) -> Rows:
        """Check labels and what goes with each row, append validation rows given apart."""
        if y is None:
            raise ValueError(f"this {type(self).__name__} estimator requires y to be passed, but the target y is None")
        y = self._encode_labels(y)
        check_consistent_length(X, y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, y, dtype=np.float64)
        groups = None if groups is None else column_or_1d(groups)
        check_consistent_length(X, y, groups)
        if costs is not None and costs.n_instances not in (None, len(y)):
            raise ValueError(f"costs of each row must be as many as rows: got {costs.n_instances} for {len(y)} rows")
        rows = Rows(X, y, weight, groups, costs)
        if self.validation is not None and not isinstance(self.validation, Real) and self.cv is None:
            rows = self._append_validation(rows)
        present = np.unique(rows.y[rows.counting])
        if len(present) < 2:
            raise ValueError(
                f"the training data hold one class only ({self.classes_[int(present[0])]!r}); "
                "a classifier needs samples of both classes"
            )
        return rows

    def _check_table(self, X: Any, *, reset: bool) -> Any:  # noqa: N803
        if hasattr(X, "columns") or hasattr(X, "schema") or hasattr(X, "column_names"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        if isinstance(X, list) and X and not np.isscalar(X[0]) and isinstance(np.asarray(X, dtype=object).flat[0], str):
            X = np.asarray(X, dtype=object)  # noqa: N806
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan", ensure_min_features=1)

    def _encode_labels(self, y: Any) -> np.ndarray[Any, Any]:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}: "
                f"{len(self.classes_)} classes came"
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs two classes, but y holds one class only: {self.classes_[0]!r}"
            )
        self.positive_ = self._positive_class()
        return np.asarray(numbers if self.positive_ == self.classes_[1] else 1 - numbers)

    def _positive_class(self) -> Any:
        if self.positive is not None:
            if self.positive not in self.classes_.tolist():
                raise ValueError(
                    f"positive={self.positive!r} is no label of y; the labels are {self.classes_.tolist()}"
                )
            return self.positive
        if set(self.classes_.tolist()) not in PLAIN_LABELS:
            warnings.warn(
                f"the positive class was not named: taking {self.classes_[1]!r} (the other is {self.classes_[0]!r}); "
                "say positive=... to choose",
                stacklevel=5,
            )
        return self.classes_[1]

    def _append_validation(self, rows: Rows) -> Rows:
        if rows.costs is not None or rows.weight is not None:
            raise ValueError("validation data of their own cannot be combined with sample_weight or costs of each row")
        try:
            other, labels = self.validation
        except (TypeError, ValueError):
            raise ValueError(
                f"validation must be a fraction between 0 and 1 or a pair (X, y), got {type(self.validation).__name__}"
            ) from None
        labels = column_or_1d(labels)
        unknown = set(np.unique(labels).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"the validation labels {sorted(unknown, key=str)} do not occur in y")
        added = np.asarray(labels == self.positive_, dtype=rows.y.dtype)
        other = self._more_rows(other)
        own = np.arange(len(added)) + len(rows.y)
        return rows._replace(x=rows.x, extra=other, y=np.concatenate((rows.y, added)), validation=own, groups=None)

    def _more_rows(self, X: Any) -> Any:  # noqa: N803
        """Check rows given apart, like those of the training."""
        return self._check_table(X, reset=False)

    def _splits(self, rows: Rows, seed: int) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        keep = rows.counting
        if rows.validation is not None:
            return [(np.arange(len(rows.y) - len(rows.validation)), rows.validation)]
        if self.cv is not None and not isinstance(self.cv, int):
            # a splitter of the user's speaks of all rows
            folds = cross_splits(rows.y, rows.groups, self.cv, seed)
            return [(np.intersect1d(train, keep), np.intersect1d(test, keep)) for train, test in folds]
        groups = None if rows.groups is None else rows.groups[keep]
        if self.cv is None:
            folds = one_split(rows.y[keep], groups, float(self.validation), seed)
        else:
            folds = cross_splits(rows.y[keep], groups, self.cv, seed)
        return [(keep[train], keep[test]) for train, test in folds]

    def _class_costs(self, rows: Rows) -> CostMatrix:
        if rows.costs is not None:
            return rows.costs.averaged()
        return CostMatrix.balanced(rows.y) if self.costs is None else self.costs

    def _targets(self) -> list[float]:
        # costs as unequal as 1e9 to 1e-9 have a threshold that rounds to 0 or 1
        bayes = float(np.clip(self.costs_.threshold, *THRESHOLD_LIMITS))
        middle = math.sqrt(bayes / (1.0 - bayes))
        named = {"bayes": bayes, "middle": middle / (1.0 + middle)}
        if self.target == "auto":
            return [0.5, named["middle"], bayes]
        if isinstance(self.target, str):
            if self.target not in named:
                raise ValueError(
                    f"target must be a number or one of {', '.join(map(repr, TARGETS))}, got {self.target!r}"
                )
            return [named[self.target]]
        return [float(self.target)]

    # after training

    def _judge(self, target: float, scores: np.ndarray[Any, Any], rows: Rows) -> Judged:
        """Return the threshold to decide at, and what it costs, by scores of rows that did not train (NaN: trained)."""
        seen = ~np.isnan(scores)
        costs = self.costs_ if rows.costs is None else rows.costs.rows(seen)
        weight = None if rows.weight is None else rows.weight[seen]
        threshold = {"target": target, "bayes": float(self.costs_.threshold)}.get(self.decide)
        if threshold is None:
            threshold = find_threshold(scores[seen], rows.y[seen], costs, target=target, sample_weight=weight).value
        threshold = float(np.clip(threshold, *THRESHOLD_LIMITS))
        decided = costs.decide(self._corrected(scores[seen], threshold))
        return Judged(threshold, costs.mean(rows.y[seen], decided, sample_weight=weight))

    def _estimate(self, scores: np.ndarray[Any, Any], rows: Rows) -> None:
        seen = ~np.isnan(scores)
        costs = self.costs_ if rows.costs is None else rows.costs.rows(seen)
        proba = self._corrected(scores[seen], self.threshold_)
        groups = None if rows.groups is None else rows.groups[seen]
        self.estimated_cost_: Interval = cost_interval(costs, rows.y[seen], costs.decide(proba), groups=groups)
        self.calibration_error_ = calibration_error(proba, rows.y[seen], partition=Quantile(15)).error

    # predicting

    def decision_scores(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """Return the raw scores, to be compared with ``threshold_``."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """Return probabilities, corrected for the cost weighting; columns in the order of ``classes_``."""
        positive = self._corrected(self.decision_scores(X), self.threshold_)
        columns = (1.0 - positive, positive)
        return np.stack(columns if self.positive_ == self.classes_[1] else columns[::-1], axis=1)

    def predict(
        self,
        X: Any,  # noqa: N803
        *,
        fp: Array | None = None,
        fn: Array | None = None,
        tp: Array | None = None,
        tn: Array | None = None,
    ) -> np.ndarray[Any, Any]:
        """Return the cheapest label of each row; with costs of each row, by each row's own Bayes threshold."""
        proba = self._corrected(self.decision_scores(X), self.threshold_)
        costs = as_costs(fp, fn, tp, tn, self.costs_) or self.costs_
        positive = costs.decide(proba) == 1
        negative = self.classes_[0] if self.positive_ == self.classes_[1] else self.classes_[1]
        return np.where(
            positive, np.asarray(self.positive_, self.classes_.dtype), np.asarray(negative, self.classes_.dtype)
        )

    def score(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Array | None = None,
        *,
        fp: Array | None = None,
        fn: Array | None = None,
        tp: Array | None = None,
        tn: Array | None = None,
    ) -> float:
        """Return minus the mean cost, so that a search for the best score finds the cheapest model."""
        labels = column_or_1d(y)
        unknown = set(np.unique(labels).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"y holds labels that were not in training: {sorted(unknown, key=str)}")
        costs = as_costs(fp, fn, tp, tn, self.costs_) or self.costs_
        decided = self.predict(X, fp=fp, fn=fn, tp=tp, tn=tn) == self.positive_
        return -costs.mean(labels == self.positive_, decided, sample_weight=sample_weight)

    def _corrected(self, scores: np.ndarray[Any, Any], threshold: float) -> np.ndarray[Any, Any]:
        """Map raw scores to probabilities so that the deciding threshold becomes the Bayes threshold."""
        return np.asarray(AdaptiveWeight(self.costs_, target=threshold).correct(scores))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def as_costs(fp: Any, fn: Any, tp: Any, tn: Any, default: CostMatrix | None) -> CostMatrix | None:
    """Return the costs of single rows, what was not given filled in from the class-wide ones; None if none was."""
    return row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, default)


def take(x: Any, rows: np.ndarray[Any, Any]) -> Any:
    """Return some rows of an array or a table of any library."""
    if isinstance(x, np.ndarray):
        return x[rows]
    import narwhals as nw  # noqa: PLC0415

    return nw.from_native(x, eager_only=True)[rows.tolist()].to_native()
