"""What every fitted classifier of adacsl does: score, decide, judge, be saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.core.heldout import sigmoid
from adacsl.estimators.decision import Decision
from adacsl.estimators.reading import read_features
from adacsl.estimators.settings import inside
from adacsl.extras import requires
from adacsl.integrations.sklearn import row_costs

with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted, column_or_1d


class CostClassifier(ClassifierMixin, BaseEstimator):
    """The side of a method that is turned to its users once it is fitted."""

    classes_: NDArray[Any]
    positive_: Any
    costs_: CostMatrix
    decision_: Decision
    model_: Any

    NESTED: tuple[str, ...] = ("controller", "net")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings; those inside dicts as ``name__key``."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for name in self.NESTED if deep else ():
            value = params.get(name)
            params |= {f"{name}__{key}": setting for key, setting in inside(value).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings; ``controller__damping=0.5`` changes one inside."""
        nested = [name for name in params if name.partition("__")[0] in self.NESTED and "__" in name]
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        for name in nested:
            outer, _, key = name.partition("__")
            held = getattr(self, outer)
            if hasattr(held, "set_params"):
                held.set_params(**{key: params[name]})
            else:
                setattr(self, outer, inside(held) | {key: params[name]})
        return self

    def decision_scores(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the scores: what the learner says, to be compared with ``threshold_``."""
        check_is_fitted(self)
        return sigmoid(self.model_.logits(read_features(self, X, reset=False)))

    @property
    def threshold_(self) -> float:
        """The score above which a row is called positive."""
        check_is_fitted(self, "decision_")
        return self.decision_.threshold_

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return probabilities, corrected for the cost weighting; columns in the order of ``classes_``."""
        scores = self.decision_scores(X)
        positive = self.decision_.probabilities(scores)
        columns = (1.0 - positive, positive)
        return np.stack(columns if self.positive_ == self.classes_[1] else columns[::-1], axis=1)

    def predict(
        self,
        X: Any,  # noqa: N803
        *,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> NDArray[Any]:
        """Return the cheapest label of each row; with costs of each row, by each row's own Bayes threshold."""
        scores = self.decision_scores(X)
        costs = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, self.costs_)
        positive = self.decision_.predict(scores, costs=costs) == 1
        negative = self.classes_[0] if self.positive_ == self.classes_[1] else self.classes_[1]
        kind = self.classes_.dtype
        return np.where(positive, np.asarray(self.positive_, kind), np.asarray(negative, kind))

    def score(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        *,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> float:
        """Return minus the mean cost, so that a search for the best score finds the cheapest model."""
        labels = column_or_1d(y)
        unknown = set(np.unique(labels).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"y holds labels that were not in training: {sorted(unknown, key=str)}")
        costs = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, self.costs_) or self.costs_
        decided = self.predict(X, fp=fp, fn=fn, tp=tp, tn=tn) == self.positive_
        return -costs.mean(labels == self.positive_, decided, sample_weight=sample_weight)

    # keeping

    def save(self, folder: str | Path) -> Path:
        """Write the fitted method as safetensors and JSON with digests, atomically; ``adacsl.load`` reads it.

        No pickle: nets, linear models and forests are numbers, boosters are in their libraries' own formats. An
        estimator of another kind cannot be written so; an error says it.
        """
        from adacsl.estimators.persistence import save_method  # noqa: PLC0415  safetensors stays optional

        check_is_fitted(self)
        return save_method(self, folder)

    def export_onnx(self, path: str | Path, sample: Any) -> Path:
        """Write an ONNX graph with the outputs ``score``, ``probability`` and ``decision``; for nets.

        The graph takes raw numbers (float64, NaN = missing) where all columns are numeric, bytes (N x H x W x C) for
        images, and the features of ``model_.encoder.transform`` for tables with categories or dates. Threshold, class
        names and costs are in its metadata. Before the file is put in place it is run on ``sample``, some rows of X,
        and must agree with :meth:`decision_scores` to 1e-5.
        """
        from adacsl.estimators.export import export_onnx  # noqa: PLC0415  onnx stays optional

        check_is_fitted(self)
        return export_onnx(self, path, sample)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
