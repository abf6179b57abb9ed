"""Decision: from scores to probabilities and decisions, fitted on held-out samples."""

from __future__ import annotations

import functools
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import TARGET_LIMITS, weight_before_adaptation
from adacsl.adaptive.held_out import tune_cut, tune_multipliers
from adacsl.base.arrays import checked_probabilities
from adacsl.base.html import html_table
from adacsl.base.scores import log_odds, sigmoid, to_logits
from adacsl.costs.instance import bayes_log_odds, corrected, corrected_rows, row_offsets
from adacsl.costs.matrix import CostMatrix, no_costs
from adacsl.decision.calibration import calibrate, fit_calibration, fit_stretch, uncalibrate
from adacsl.thresholds.search import check_target

__all__ = ["DECIDE", "Decision", "check_decide"]


DECIDE = ("bayes", "tuned", "calibrated", "unweighted", "half", "raw", "negative", "positive")

CENTRES = (-25.0, 25.0)
"""Log-odds about which scores may be stretched: beyond them no probability differs from 0 or 1."""


class Decision:
    """A decision rule: from the scores of a model to probabilities and decisions, fitted on held-out samples.

    Scores are those of the positive class, (n,), or of each of K classes, (n, K).

    Parameters
    ----------
    costs : CostMatrix
        Class-wide costs.
    decide : str, default "bayes"
        ``"bayes"``: at the Bayes threshold of the probability. ``"tuned"``: at the cost-optimal threshold of the
        held-out scores; the probabilities are moved so that it becomes the Bayes threshold. ``"calibrated"``: at the
        Bayes threshold, after temperature, Platt or isotonic scaling, whichever predicts held-out samples best.
        ``"unweighted"``: as "bayes", of scores whose weighting was undone, lambda included. ``"half"``: where the
        positive class is the likelier one, whatever the costs. ``"raw"``: where the score itself is above 0.5.
        ``"negative"``, ``"positive"``: always the same. Of more than two classes, "tuned" multiplies the scores of each
        class so that the decisions cost least, "calibrated" has temperature and matrix scaling, "half" and "raw" take
        the likeliest class.
    target_threshold : float or array of shape (K,), optional
        T', the score that means the Bayes threshold. Default: the Bayes threshold, that is, scores are probabilities.
        Of K classes: what each score is divided by.
    instance_weighted : bool, default False
        Whether the scores are of a loss that weighs each sample by its own cost: the target then means each sample's
        own Bayes threshold, and probabilities need the costs of the samples.
    weighted : bool, default False
        Whether the scores are of a weighted loss. Such scores, and tuned ones, are right at the threshold, and often
        overconfident elsewhere: their log-odds are stretched about the Bayes threshold so that held-out samples have
        the least log loss. Decisions stay; of more than two classes, and where samples have costs of their own, nothing
        is stretched.

    Attributes
    ----------
    threshold_ : float
        The score above which a sample is predicted positive (class-wide costs).
    mapped : float or array of shape (K,)
        The score that means the Bayes threshold, or what scores are divided by: the target, or the result of tuning.
    calibration_ : dict or None
        The calibration (or stretching) that was chosen, as numbers.
    prior : float, list of K numbers or None
        The share of the positive class (of each class) in training, by weight, in a fitted classifier.

    Raises
    ------
    TypeError
        Where the costs are no :class:`~adacsl.CostMatrix`.
    ValueError
        Where ``decide`` is unknown.

    See Also
    --------
    find_threshold : The cost-optimal threshold alone.
    Policy : Reject option, capacity and prior shift.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, Decision
    >>> scores, labels = np.asarray([0.05, 0.2, 0.3, 0.7]), np.asarray([0, 0, 1, 1])
    >>> costs = CostMatrix(fp=1, fn=8)
    >>> Decision(costs).fit(scores, labels).predict(scores).tolist()
    [0, 1, 1, 1]
    >>> Decision(costs, "tuned").fit(scores, labels).predict(scores).tolist()
    [0, 0, 1, 1]
    """

    def __init__(
        self, costs: CostMatrix, decide: str = "bayes", *, target_threshold: Any = None,
        instance_weighted: bool = False, weighted: bool = False,
    ) -> None:  # fmt: skip
        if not isinstance(costs, CostMatrix):
            raise no_costs(costs)
        self.costs, self.decide = costs, check_decide(decide)
        self.instance_weighted, self.weighted = instance_weighted, weighted
        if costs.n_classes > 2:
            self.target_threshold: Any = (
                np.ones(costs.n_classes) if target_threshold is None else np.asarray(target_threshold, dtype=np.float64)
            )
        else:
            self.target_threshold = float(
                np.clip(costs.threshold if target_threshold is None else target_threshold, *TARGET_LIMITS)
            )
        self.calibration_: dict[str, Any] | None = None
        self.mapped = self.target_threshold
        self.prior: Any = None

    def _repr_html_(self) -> str:
        scaled = self.calibration_ and self.calibration_.get("kind")
        rows = [("decide", self.decide), ("a score of this means the Bayes threshold", self.mapped)]
        if self.costs.n_classes == 2:
            rows += [("called positive above the score", self.threshold_)]
        rows += [("calibration", scaled), ("class prior in training", self.prior)]
        return html_table([row for row in rows if row[1] is not None], title="Decision") + self.costs._repr_html_()

    def __repr__(self) -> str:
        cut = f", threshold={self.threshold_:.4g}" if self.costs.n_classes == 2 else ""
        return f"Decision({self.costs}, {self.decide!r}{cut})"

    def fit(
        self,
        scores: NDArray[Any],
        labels: NDArray[Any],
        *,
        sample_weight: NDArray[Any] | None = None,
        costs: CostMatrix | None = None,
    ) -> Self:
        """Tune or calibrate on held-out scores; decision rules other than "tuned" and "calibrated" need no fit.

        Parameters
        ----------
        scores : array of shape (n,) or (n, K)
            Scores of samples that did not train the model.
        labels : array of shape (n,)
            Class numbers.
        sample_weight : array of shape (n,), optional
            How much each sample counts.
        costs : CostMatrix, optional
            Per-sample costs of these samples.

        Returns
        -------
        Decision
            Itself.

        Raises
        ------
        ValueError
            Where the shape of the scores is not that of the costs.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostMatrix, Decision
        >>> scores, labels = np.asarray([0.1, 0.2, 0.3, 0.7]), np.asarray([0, 0, 1, 1])
        >>> Decision(CostMatrix(fp=1, fn=8), "tuned").fit(scores, labels).threshold_ > 0.2
        True
        """
        scores = np.asarray(scores, dtype=np.float64)
        wanted = (self.costs.n_classes,) if self.costs.n_classes > 2 else ()
        if scores.shape[1:] != wanted:
            raise ValueError(f"scores must have shape {('n', *wanted)}, as the costs have, got {scores.shape}")
        if self.decide == "tuned" and self.costs.n_classes > 2:
            logits = to_logits(scores) - np.log(self.target_threshold) + self._offsets(costs)
            _, cut = tune_multipliers(logits, labels, self.costs if costs is None else costs, sample_weight)
            self.mapped = self.target_threshold * np.exp(cut)
        elif self.decide == "tuned":
            logits = np.clip(log_odds(scores), -700.0, 700.0) + self._shift + self._offsets(costs)
            _, offset = tune_cut(logits, labels, self.costs if costs is None else costs, sample_weight)
            moved = float(bayes_log_odds(self.costs)) + offset - self._shift
            self.mapped = float(np.clip(sigmoid(np.asarray(moved)), *TARGET_LIMITS))
            self._stretch(scores, labels, sample_weight, costs)
        elif self.decide == "calibrated":
            self.calibration_ = fit_calibration(self._corrected(scores, costs), np.asarray(labels), sample_weight)
        elif self.decide == "bayes" and self.weighted:
            self._stretch(scores, labels, sample_weight, costs)
        return self

    def _stretch(self, scores: NDArray[np.float64], labels: Any, weight: Any, costs: CostMatrix | None) -> None:
        """Stretch log-odds about the Bayes threshold; not where samples have their own, which it would move across."""
        if self.costs.n_classes == 2 and (costs is None or costs.n_instances is None):
            centre = float(np.clip(bayes_log_odds(self.costs), *CENTRES))
            self.calibration_ = fit_stretch(self._corrected(scores), np.asarray(labels), centre, weight)

    @property
    def threshold_(self) -> float:
        """The score above which a sample is called positive; of two classes only."""
        if self.costs.n_classes > 2:
            raise ValueError(
                f"{self.costs.n_classes} classes have no threshold: predict() takes the class of least expected cost"
            )
        if self.decide == "calibrated" and self.calibration_ is not None:
            probability = uncalibrate(self.calibration_, float(self.costs.threshold))
            moved = log_odds(probability) - bayes_log_odds(self.costs) + log_odds(self.mapped)
            return float(sigmoid(moved))
        return float({"raw": 0.5, "half": float(sigmoid(np.asarray(-self._shift)))}.get(self.decide, self.mapped))

    @property
    def needs_costs(self) -> bool:
        """Whether a decision depends on the costs of its sample: not where the scores were trained with them."""
        blind = self.decide in ("half", "raw", "negative", "positive")
        return not blind and not (self.instance_weighted and self.decide != "calibrated")

    @property
    def probability_threshold(self) -> float:
        """The probability above which a sample is called positive."""
        if self.decide == "raw":
            return float(self._corrected(np.asarray([0.5]))[0])
        return 0.5 if self.decide in ("half", "negative", "positive") else float(self.costs.threshold)

    def threshold_for(self, costs: CostMatrix) -> float | None:
        """Return the probability above which samples with these costs are predicted positive.

        Parameters
        ----------
        costs : CostMatrix
            The costs of the samples.

        Returns
        -------
        float or None
            None where each sample has its own, or with more than two classes.

        Examples
        --------
        >>> from adacsl import CostMatrix, Decision
        >>> Decision(CostMatrix(fp=1, fn=8)).threshold_for(CostMatrix(fp=1, fn=3))
        0.25
        """
        if costs.n_classes > 2:
            return None
        if self.decide in ("half", "raw", "negative", "positive"):
            return self.probability_threshold
        return float(costs.threshold) if costs.n_instances is None else None

    def probabilities(self, scores: NDArray[Any], *, costs: CostMatrix | None = None) -> NDArray[np.float64]:
        """Return the probability of the positive class for each score, or of each of K classes.

        Parameters
        ----------
        scores : array of shape (n,) or (n, K)
            Scores of the model.
        costs : CostMatrix, optional
            Per-sample costs, which scores of an ``instance_weighted`` loss need. Default: class-wide costs.

        Returns
        -------
        array of shape (n,) or (n, K)
            Probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostMatrix, Decision
        >>> decision = Decision(CostMatrix(fp=1, fn=8))
        >>> decision.probabilities(np.asarray([0.05, 0.2])).round(2).tolist()
        [0.05, 0.2]
        """
        if self.decide in ("negative", "positive"):
            return np.full(len(scores), float(self.decide == "positive"))
        proba = self._corrected(np.asarray(scores, dtype=np.float64), costs)
        moved = calibrate(self.calibration_, proba)
        if self.calibration_ is None or self.decide == "calibrated":
            return moved
        # what is stretched stays on its side of the threshold, also as float32, in which scores are stored
        bayes = float(self.costs.threshold)
        near = np.float32(bayes)
        low, high = (
            (np.nextafter(near, np.float32(0.0)), near)
            if float(near) > bayes
            else (near, np.nextafter(near, np.float32(1.0)))
        )
        return np.where(proba > bayes, np.maximum(moved, float(high)), np.minimum(moved, float(low)))

    def predict(self, scores: NDArray[Any], *, costs: CostMatrix | None = None) -> NDArray[np.int64]:
        """Return the decision for each score, a class number.

        Parameters
        ----------
        scores : array of shape (n,) or (n, K)
            Scores of the model.
        costs : CostMatrix, optional
            Per-sample costs: each sample is decided by its own.

        Returns
        -------
        array of shape (n,)
            Class numbers.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostMatrix, Decision
        >>> Decision(CostMatrix(fp=1, fn=8)).predict(np.asarray([0.05, 0.2])).tolist()
        [0, 1]
        """
        return self.of_probabilities(self.probabilities(scores, costs=costs), costs=costs)

    def of_probabilities(self, proba: NDArray[Any], *, costs: CostMatrix | None = None) -> NDArray[np.int64]:
        """Return the decision for each probability, a class number.

        Parameters
        ----------
        proba : array of shape (n,) or (n, K)
            What :meth:`probabilities` returns.
        costs : CostMatrix, optional
            Per-sample costs: each sample is decided by its own.

        Returns
        -------
        array of shape (n,)
            Class numbers.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostMatrix, Decision
        >>> Decision(CostMatrix(fp=1, fn=8)).of_probabilities(np.asarray([0.05, 0.2])).tolist()
        [0, 1]
        """
        proba = np.asarray(proba, dtype=np.float64)
        if proba.ndim > 1 and self.decide in ("half", "raw"):
            return np.asarray(np.argmax(proba * (self.mapped if self.decide == "raw" else 1.0), axis=1))
        if self.decide in ("half", "raw", "negative", "positive"):
            return np.asarray(proba > self.probability_threshold, dtype=np.int64)
        return np.asarray((self.costs if costs is None else costs).decide(proba), dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision rule as plain JSON values, without its costs.

        Returns
        -------
        dict
            What :meth:`from_dict` reads.

        Examples
        --------
        >>> from adacsl import CostMatrix, Decision
        >>> Decision(CostMatrix(fp=1, fn=8), "half").to_dict()["decide"]
        'half'
        """
        numbers = {name: np.asarray(getattr(self, name)).tolist() for name in ("target_threshold", "mapped")}
        rows = {"instance_weighted": True} if self.instance_weighted else {}
        known = {"calibration": self.calibration_, "prior": self.prior}
        return {"decide": self.decide, **numbers, **known} | rows

    @classmethod
    def from_dict(cls, data: dict[str, Any], costs: CostMatrix) -> Decision:
        """Return the decision rule that :meth:`to_dict` wrote.

        Parameters
        ----------
        data : dict
            The document.
        costs : CostMatrix
            Class-wide costs.

        Returns
        -------
        Decision
            The decision rule.

        Examples
        --------
        >>> from adacsl import CostMatrix, Decision
        >>> costs = CostMatrix(fp=1, fn=8)
        >>> Decision.from_dict(Decision(costs, "half").to_dict(), costs).decide
        'half'
        """
        of = float if costs.n_classes == 2 else functools.partial(_positive, costs.n_classes)
        rows = bool(data.get("instance_weighted", False))
        decision = cls(costs, data["decide"], target_threshold=of(data["target_threshold"]), instance_weighted=rows)
        decision.mapped, decision.calibration_ = of(data["mapped"]), data["calibration"]
        decision.prior = data.get("prior")
        return decision

    @property
    def _shift(self) -> float:
        """What turns the log-odds of a score into those of the probability."""
        return float(np.clip(bayes_log_odds(self.costs), -700.0, 700.0) - log_odds(self.target_threshold))

    def _offsets(self, costs: CostMatrix | None) -> Any:
        """Return what the log-odds of samples with these costs lack, as their own costs have weighed them."""
        if not self.instance_weighted or costs is None or costs.n_instances is None:
            return 0.0
        return row_offsets(costs, self.costs)

    def _corrected(self, scores: NDArray[np.float64], costs: CostMatrix | None = None) -> NDArray[np.float64]:
        """Return the probabilities that scores of a weighted loss stand for: ``mapped`` becomes the Bayes threshold."""
        if self.costs.n_classes > 2:
            freed = scores * np.exp(self._offsets(costs)) / self.mapped
            return np.asarray(freed / freed.sum(axis=1, keepdims=True))
        target_threshold, raw = check_target(self.mapped), checked_probabilities(scores)
        weight = weight_before_adaptation(self.costs, target_threshold)
        if self.instance_weighted and costs is not None and costs.n_instances is not None:
            return np.asarray(corrected_rows(raw, target_threshold, weight, costs, self.costs))
        return np.asarray(corrected(raw, target_threshold, weight, float(self.costs.threshold)))


def _positive(n: int, values: Any) -> NDArray[np.float64]:
    """Return n positive numbers of a document."""
    result = np.asarray(values, dtype=np.float64)
    if result.shape != (n,) or not (result > 0).all() or not np.isfinite(result).all():
        raise ValueError(f"a decision of {n} classes holds {n} positive numbers, got {values!r}")
    return result


def check_decide(decide: str) -> str:
    """Return a known way to decide, or say which there are."""
    if decide not in DECIDE:
        raise ValueError(f"decide must be one of {', '.join(map(repr, DECIDE))}, got {decide!r}")
    return decide
