"""Trained scikit-learn estimators: from a table to logits, and to arrays that can be stored."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import joined, part_of
from adacsl.base.scores import to_logits, to_probabilities
from adacsl.datasets.columns import Columns
from adacsl.datasets.encoder import TableEncoder
from adacsl.fitting.candidates import mean_logits
from adacsl.learners.arrays import as_saved, from_numbers, to_numbers

LOGIT_LIMITS = (1e-15, 1.0 - 1e-15)


class EstimatorModel:
    """Estimators whose logits are averaged; they know the classes by their numbers, 0 and 1 (positive), or 0 to K - 1.

    ``undone`` is what is added to the mean: a number, or one of each class.
    """

    kind = "estimators"

    def __init__(
        self, estimators: list[Any], encoder: TableEncoder | None, undone: Any = 0.0, n_classes: int = 2
    ) -> None:
        self.estimators, self.encoder, self.undone, self.n_classes = estimators, encoder, undone, n_classes

    def logits(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the mean logits of each sample."""
        return self._logits(encoded(self.encoder, X))

    def encoded_logits(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the logits of samples that the encoder has read."""
        return self._logits(in_double(x))

    def _logits(self, x: Any) -> NDArray[np.float64]:
        raw = hasattr(x, "toarray") or (self.n_classes == 2 and self.encoder is None)
        models = self.estimators if raw else self._saved  # raw gaps are the estimator's own to refuse
        return np.asarray(mean_logits([raw_logits(model, x, self.n_classes) for model in models]) + self.undone)

    @functools.cached_property
    def _saved(self) -> list[Any]:
        """The estimators as they would be read: what is saved of sums rounds differently."""
        return [as_saved(model) for model in self.estimators]

    def as_read(self) -> EstimatorModel:
        """Return the model as it would be read from a folder."""
        return EstimatorModel(self._saved, self.encoder, self.undone, self.n_classes)

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return everything as arrays and plain values; an error where an estimator is more than numbers."""
        parts = [to_numbers(model) for model in self.estimators]
        document = {
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "undone": np.asarray(self.undone).tolist(), "estimators": [about for _, about in parts],
        }  # fmt: skip
        many = {"n_classes": self.n_classes} if self.n_classes > 2 else {}
        return joined(arrays for arrays, _ in parts), document | many

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], document: dict[str, Any]) -> EstimatorModel:
        """Return the model of what :meth:`numbers` gave."""
        models = [from_numbers(part_of(arrays, f"{i}."), about) for i, about in enumerate(document["estimators"])]
        encoder = None if document["encoder"] is None else TableEncoder.from_dict(document["encoder"])
        undone = np.asarray(document["undone"], dtype=np.float64)
        return cls(models, encoder, undone if undone.ndim else float(undone), int(document.get("n_classes", 2)))


def raw_logits(model: Any, x: Any, n_classes: int = 2) -> NDArray[np.float64]:
    """Return the log-odds of the positive class 1; of more classes centred log probabilities, n x K.

    They come from the probabilities or from the decision function. A class that the model has never seen is as good as
    impossible.
    """
    if not hasattr(model, "predict_proba") and not hasattr(model, "decision_function"):
        raise TypeError(f"{model!r} has neither predict_proba nor decision_function: there are no scores to adapt to")
    classes = [int(code) for code in getattr(model, "classes_", range(n_classes))]
    if hasattr(model, "predict_proba"):
        known = np.asarray(model.predict_proba(x), dtype=np.float64)
    else:
        known = to_probabilities(model.decision_function(x))
        known = known if known.ndim == 2 else np.stack((1.0 - known, known), axis=1)
    if n_classes == 2:
        scores = known[:, classes.index(1)] if 1 in classes else np.zeros(len(known))
    else:
        scores = np.zeros((len(known), n_classes))
        scores[:, classes] = known
    return to_logits(scores.clip(*LOGIT_LIMITS))


def encoded(features: TableEncoder | None, x: Any) -> Any:
    """Return samples as estimators take them; without an encoder as they came."""
    if features is not None:
        return in_double(features.transform(x))
    return x.to_table() if isinstance(x, Columns) else x


def in_double(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return encoded samples as what is read from a folder computes: float32 would differ in the seventh digit."""
    return x.astype(np.float64)
