"""Decision: from scores to probabilities and decisions, fitted on held-out rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.core.control import AdaptiveWeight
from adacsl.core.costs import CostMatrix
from adacsl.core.heldout import bayes_log_odds, log_odds, sigmoid, tune_cut
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

DECIDE = ("bayes", "tuned", "calibrated", "unweighted", "half", "raw", "negative", "positive")
THRESHOLD_LIMITS = (1e-7, 1.0 - 1e-7)
"""Costs as unequal as 1e9 to 1e-9 have a threshold that rounds to 0 or 1."""

RENAMED = {"target": "bayes"}


class Decision:
    """What is decided with a model's scores, and which probabilities they stand for.

    Parameters
    ----------
    costs : CostMatrix
        Class-wide costs of two classes.
    decide : str
        ``"bayes"``: at the Bayes threshold of the probability. ``"tuned"``: at the cheapest threshold of the held-out
        scores; the probabilities are moved so that it becomes the Bayes threshold. ``"calibrated"``: at the Bayes
        threshold, after temperature, Platt or isotonic scaling, whichever predicts held-out rows best.
        ``"unweighted"``: as "bayes", of scores whose weighting was undone, lambda included. ``"half"``: where the
        positive class is the likelier one, whatever the costs. ``"raw"``: where the score itself is above 0.5.
        ``"negative"``, ``"positive"``: always the same.
    target : float, optional
        T', the score that means the Bayes threshold; default: the Bayes threshold, that is, scores are probabilities.

    Attributes
    ----------
    threshold_ : float
        The score above which a row is called positive (class-wide costs).
    mapped : float
        The score that means the Bayes threshold: the target, or what tuning has found.
    calibration_ : dict or None
        The calibration that was chosen, as numbers.

    Examples
    --------
    >>> scores, labels = np.asarray([0.05, 0.2, 0.3, 0.7]), np.asarray([0, 0, 1, 1])
    >>> Decision(CostMatrix(fp=1, fn=8)).fit(scores, labels).predict(scores).tolist()
    [0, 1, 1, 1]
    >>> Decision(CostMatrix(fp=1, fn=8), "tuned").fit(scores, labels).predict(scores).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, costs: CostMatrix, decide: str = "bayes", *, target: float | None = None) -> None:
        self.costs, self.decide = costs, check_decide(decide)
        self.target = float(np.clip(costs.threshold if target is None else target, *THRESHOLD_LIMITS))
        self.calibration_: dict[str, Any] | None = None
        self.mapped = self.target

    def fit(
        self,
        scores: NDArray[Any],
        labels: NDArray[Any],
        *,
        sample_weight: NDArray[Any] | None = None,
        costs: CostMatrix | None = None,
    ) -> Self:
        """Tune or calibrate on scores and 0/1 labels of rows that nobody trained on; ``costs`` are those of the rows.

        The other ways to decide need nothing of it.
        """
        scores = np.asarray(scores, dtype=np.float64)
        if self.decide == "tuned":
            logits = np.clip(log_odds(scores), -700.0, 700.0) + self._shift
            _, cut = tune_cut(logits, labels, self.costs if costs is None else costs, sample_weight)
            moved = float(bayes_log_odds(self.costs)) + cut - self._shift
            self.mapped = float(np.clip(sigmoid(np.asarray(moved)), *THRESHOLD_LIMITS))
        elif self.decide == "calibrated":
            self.calibration_ = fit_calibration(self._corrected(scores), np.asarray(labels), sample_weight)
        return self

    @property
    def threshold_(self) -> float:
        """The score above which a row is called positive."""
        if self.calibration_ is not None:
            probability = uncalibrate(self.calibration_, float(self.costs.threshold))
            moved = log_odds(probability) - bayes_log_odds(self.costs) + log_odds(self.mapped)
            return float(sigmoid(moved))
        return {"raw": 0.5, "half": float(sigmoid(np.asarray(-self._shift)))}.get(self.decide, self.mapped)

    @property
    def probability_threshold(self) -> float:
        """The probability above which a row is called positive."""
        if self.decide == "raw":
            return float(self._corrected(np.asarray([0.5]))[0])
        return 0.5 if self.decide in ("half", "negative", "positive") else float(self.costs.threshold)

    def threshold_for(self, costs: CostMatrix) -> float | None:
        """Return the probability above which rows with these costs are called positive; None: each row has its own."""
        if self.decide in ("half", "raw", "negative", "positive"):
            return self.probability_threshold
        return float(costs.threshold) if costs.n_instances is None else None

    def probabilities(self, scores: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of the positive class for each score."""
        if self.decide in ("negative", "positive"):
            return np.full(len(scores), float(self.decide == "positive"))
        proba = self._corrected(np.asarray(scores, dtype=np.float64))
        return proba if self.calibration_ is None else calibrate(self.calibration_, proba)

    def predict(self, scores: NDArray[Any], *, costs: CostMatrix | None = None) -> NDArray[np.int64]:
        """Return the decision about each score, 1 or 0; rows with ``costs`` of their own are decided by these."""
        return self.of_probabilities(self.probabilities(scores), costs=costs)

    def of_probabilities(self, proba: NDArray[Any], *, costs: CostMatrix | None = None) -> NDArray[np.int64]:
        """Return the decision about each probability, 1 or 0."""
        if self.decide in ("half", "raw", "negative", "positive"):
            return np.asarray(np.asarray(proba, np.float64) > self.probability_threshold, dtype=np.int64)
        return np.asarray((self.costs if costs is None else costs).decide(proba), dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {"decide": self.decide, "target": self.target, "mapped": self.mapped, "calibration": self.calibration_}

    @classmethod
    def from_dict(cls, data: dict[str, Any], costs: CostMatrix) -> Decision:
        """Read what :meth:`to_dict` wrote."""
        decision = cls(costs, data["decide"], target=float(data["target"]))
        decision.mapped, decision.calibration_ = float(data["mapped"]), data["calibration"]
        return decision

    @property
    def _shift(self) -> float:
        """What turns the log-odds of a score into those of the probability."""
        return float(np.clip(bayes_log_odds(self.costs), -700.0, 700.0) - log_odds(self.target))

    def _corrected(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(AdaptiveWeight(self.costs, target=self.mapped).correct(scores))


def check_decide(decide: str) -> str:
    """Return a known way to decide, or say which there are."""
    if decide in RENAMED:
        raise ValueError(f"decide={decide!r} is called decide={RENAMED[decide]!r} now")
    if decide not in DECIDE:
        raise ValueError(f"decide must be one of {', '.join(map(repr, DECIDE))}, got {decide!r}")
    return decide


# calibration


def fit_calibration(
    scores: NDArray[np.float64], labels: NDArray[Any], weight: NDArray[Any] | None = None
) -> dict[str, Any] | None:
    """Return temperature, Platt or isotonic scaling as numbers: whichever predicts held-out folds of these rows best.

    None where the scores are best left alone; with fewer than ten rows of a class there is nothing to choose by.
    """
    labels = np.asarray(labels, dtype=np.int64)
    if np.bincount(labels, minlength=2).min() < 10:
        return None
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(scores, labels))
    best = min(FITS, key=lambda fit: _held_out_loss(fit, scores, labels, weight, folds))
    return best(scores, labels, weight)


def calibrate(calibration: dict[str, Any] | None, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply a calibration to probabilities."""
    if calibration is None:
        return scores
    if calibration["kind"] == "isotonic":
        return np.asarray(np.interp(scores, calibration["scores"], calibration["probabilities"]))
    return sigmoid(calibration["slope"] * _inside(scores) + calibration["intercept"])


def uncalibrate(calibration: dict[str, Any], probability: float) -> float:
    """Return the largest score that is calibrated to at most this probability; NaN where scores fall."""
    if calibration["kind"] == "isotonic":
        x, y = calibration["scores"], calibration["probabilities"]
        at = int(np.searchsorted(y, probability, side="right"))
        if at in (0, len(y)):
            return float(at > 0)
        return float(x[at - 1] + (probability - y[at - 1]) * (x[at] - x[at - 1]) / (y[at] - y[at - 1]))
    if not calibration["slope"] > 0.0:
        return float("nan")
    return float(sigmoid((log_odds(probability) - calibration["intercept"]) / calibration["slope"]))


def _held_out_loss(
    fit: Any, scores: NDArray[np.float64], labels: NDArray[np.int64], weight: NDArray[Any] | None, folds: Sequence[Any]
) -> float:
    predicted = np.empty(len(scores))
    for train, test in folds:
        fitted = fit(scores[train], labels[train], None if weight is None else weight[train])
        predicted[test] = calibrate(fitted, scores[test])
    # isotonic steps reach 0 and 1: one surprise must not decide alone
    return float(log_loss(labels, predicted.clip(1e-4, 1.0 - 1e-4), sample_weight=weight))


def _leave(scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None) -> None:
    return None


def _logistic(
    scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None, *, fit_intercept: bool
) -> dict[str, Any]:
    model = LogisticRegression(C=1e6, fit_intercept=fit_intercept, max_iter=1000)
    model.fit(_inside(scores)[:, None], labels, sample_weight=weight)
    return {"kind": "logistic", "slope": float(model.coef_[0, 0]), "intercept": float(np.ravel(model.intercept_)[0])}


def _isotonic(scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None) -> dict[str, Any]:
    model = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0).fit(scores, labels, sample_weight=weight)
    steps = (model.X_thresholds_.tolist(), model.y_thresholds_.tolist())
    return {"kind": "isotonic", "scores": steps[0], "probabilities": steps[1]}


def _inside(scores: NDArray[Any]) -> NDArray[np.float64]:
    return log_odds(np.clip(scores, 1e-12, 1.0 - 1e-12))


FITS: tuple[Callable[..., dict[str, Any] | None], ...] = (
    _leave,
    functools.partial(_logistic, fit_intercept=False),  # temperature
    functools.partial(_logistic, fit_intercept=True),  # Platt
    _isotonic,
)

__all__ = ["DECIDE", "THRESHOLD_LIMITS", "Decision", "calibrate", "check_decide", "fit_calibration"]
