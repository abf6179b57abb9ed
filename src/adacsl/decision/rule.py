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
from adacsl.thresholds.constraints import MEASURES, PLURALS, Certified, Constraints, Counts, InfeasibleError
from adacsl.thresholds.search import check_target

__all__ = ["DECIDE", "Decision", "check_decide"]


DECIDE = ("bayes", "tuned", "calibrated", "unweighted", "half", "raw", "negative", "positive")

NEAREST = 1e6
"""So many standard errors make any certified threshold as good as another: the one nearest the Bayes threshold."""

ABOVE = 1e-9
"""So far, in log-odds, a threshold is placed above the score that precision was tested at: it stays below, whatever
rounding does."""

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
    constraints : dict or Constraints, optional
        ``min_recall``, ``min_precision``, ``max_fpr``, ``max_positive_rate`` and ``confidence`` (default 0.95) of
        :func:`~adacsl.find_threshold`, for two classes, and ``segments``, the column of X within whose values
        ``min_recall`` holds. Probabilities stay; decisions are made at the certified threshold nearest to the Bayes
        threshold, with "tuned" at the cost-optimal one of the certified thresholds. Where samples have costs of their
        own, one factor on the odds of each sample's own Bayes threshold is certified.

    Attributes
    ----------
    threshold_ : float
        The score above which a sample is predicted positive (class-wide costs).
    constraints_ : dict of Certified or None
        The guarantee of each constraint, once it is certified.
    factor_ : float or None
        The factor on the odds of the Bayes threshold that the constraints ask for.
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

    Under a constraint:

    >>> floor = {"min_recall": 1.0, "confidence": None}
    >>> decision = Decision(CostMatrix(fp=8, fn=1), constraints=floor)
    >>> decision.fit(scores, labels).predict(scores).tolist()
    [0, 0, 1, 1]
    """

    def __init__(
        self, costs: CostMatrix, decide: str = "bayes", *, target_threshold: Any = None,
        instance_weighted: bool = False, weighted: bool = False, constraints: Any = None,
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
        self.constraints = Constraints.of(constraints)
        if self.constraints is not None and costs.n_classes > 2:
            raise ValueError(f"constraints are for two classes, the costs have {costs.n_classes}")
        self.constraints_: dict[str, Certified] | None = None
        self.offset_: float | None = None

    def _repr_html_(self) -> str:
        scaled = self.calibration_ and self.calibration_.get("kind")
        rows = [("decide", self.decide), ("a score of this means the Bayes threshold", self.mapped)]
        if self.costs.n_classes == 2:
            rows += [("called positive above the score", self.threshold_)]
        rows += [("calibration", scaled), ("class prior in training", self.prior)]
        rows += [(name, describe_certified(name, each)) for name, each in (self.constraints_ or {}).items()]
        return html_table([row for row in rows if row[1] is not None], title="Decision") + self.costs._repr_html_()

    def __repr__(self) -> str:
        cut = f", threshold={self.threshold_:.4g}" if self.costs.n_classes == 2 else ""
        limits = "" if self.constraints is None else f", constraints={self.constraints.to_dict()}"
        return f"Decision({self.costs}, {self.decide!r}{cut}{limits})"

    def fit(
        self,
        scores: NDArray[Any],
        labels: NDArray[Any],
        *,
        sample_weight: NDArray[Any] | None = None,
        costs: CostMatrix | None = None,
        segments: Any = None,
    ) -> Self:
        """Tune or calibrate on held-out scores; decision rules other than "tuned" and "calibrated" need no fit.

        Constraints are certified on the same samples; with "calibrated" and a confidence they have to be certified on
        others, by :meth:`certify`.

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
        segments : array of shape (n,), optional
            Their values of the column that the constraints name as ``segments``.

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
        limits = self.constraints
        if limits is not None and (self.decide != "calibrated" or limits.confidence is None):
            self.certify(scores, labels, sample_weight=sample_weight, costs=costs, segments=segments)
        return self

    def certify(
        self,
        scores: NDArray[Any],
        labels: NDArray[Any],
        *,
        sample_weight: NDArray[Any] | None = None,
        costs: CostMatrix | None = None,
        segments: Any = None,
    ) -> Self:
        """Move the threshold such that the constraints hold; with confidence, on samples that chose nothing else.

        Parameters
        ----------
        scores : array of shape (n,)
            Scores of the model, of independent samples.
        labels : array of shape (n,)
            Class numbers.
        sample_weight : array of shape (n,), optional
            How much each sample counts, for constraints without confidence.
        costs : CostMatrix, optional
            Per-sample costs of these samples.
        segments : array of shape (n,), optional
            Their values of the column that the constraints name as ``segments``.

        Returns
        -------
        Decision
            Itself.

        Raises
        ------
        InfeasibleError
            Where no threshold meets the constraints.
        """
        limits = self.constraints
        if limits is None:
            raise ValueError('there is nothing to certify: give constraints, such as {"min_recall": 0.9}')
        if (limits.segments is None) != (segments is None):
            raise ValueError(f"segments are the values of the column that the constraints name: {limits.segments!r}")
        self.offset_, labels = None, np.asarray(labels)
        own = self.costs if costs is None else costs
        proba = self.probabilities(scores, costs=costs)
        if self.decide not in ("negative", "positive"):
            near = 0.0 if self.decide == "tuned" else NEAREST
            logits = np.clip(log_odds(proba), -700.0, 700.0)
            _, offset = tune_cut(
                logits, labels, own, sample_weight, n_standard_errors=near, segments=segments, **limits.limits
            )
            self.offset_ = offset + (ABOVE if limits.needs_grid else 0.0)
        decided, positive = self.of_probabilities(proba, costs=costs), labels == 1
        if segments is not None:
            limits = limits.within_segments(log_odds(proba) - bayes_log_odds(own), positive, segments)
        counts = count_errors(labels, decided, sample_weight)
        if not bool(limits.allowed(counts)):  # a constant decision, or samples that no factor moves
            wanted = " and ".join(f"{name}={value:g}" for name, value in limits.given.items())
            if self.offset_ is None:
                raise InfeasibleError(f"predicting {self.decide} for every sample violates {wanted}")
            raise InfeasibleError(
                f"no factor on the odds meets {wanted}: {counts.false_negatives:g} of {counts.positives:g} positives "
                f"and {counts.false_positives:g} of {counts.negatives:g} negatives are decided wrongly by their costs"
            )
        self.constraints_ = limits.certified(counts)
        if segments is not None:
            self.constraints_ |= limits.certified_segments(decided == 0, positive, segments)
        return self

    @property
    def factor_(self) -> float | None:
        """The factor on the odds of the Bayes threshold that the constraints ask for; None without constraints."""
        return None if self.offset_ is None else float(np.exp(self.offset_))

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
        if self.offset_ is not None:
            return float(self._scores_at(self.probability_threshold))
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
        if self.offset_ is not None:
            return float(sigmoid(np.asarray(bayes_log_odds(self.costs) + self.offset_)))
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
        if self.offset_ is not None:  # what is certified is one threshold, whatever other costs would ask for
            return self.probability_threshold if costs.n_instances is None else None
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
        if self.constraints is not None and self.offset_ is None and self.decide not in ("negative", "positive"):
            raise ValueError("the constraints are not certified yet: call certify(scores, labels) with other samples")
        if self.offset_ is not None:
            if costs is None or costs.n_instances is None:
                return np.asarray(proba > self.probability_threshold, dtype=np.int64)
            return np.asarray(proba > sigmoid(bayes_log_odds(costs) + self.offset_), dtype=np.int64)
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
        rows: dict[str, Any] = {"instance_weighted": True} if self.instance_weighted else {}
        known = {"calibration": self.calibration_, "prior": self.prior}
        if self.constraints is not None:
            certified = {name: list(each) for name, each in (self.constraints_ or {}).items()}
            rows["constraints"] = {"limits": self.constraints.to_dict(), "offset": self.offset_, "certified": certified}
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
        if (limits := data.get("constraints")) is not None:
            decision.constraints = Constraints.of(limits["limits"])
            decision.offset_ = None if limits["offset"] is None else float(limits["offset"])
            if decision.constraints is None or not np.isfinite(decision.offset_ or 0.0) or costs.n_classes > 2:
                raise ValueError(f"a decision of two classes holds constraints and a finite offset, got {limits!r}")
            decision.constraints_ = {
                str(name): Certified(float(a), None if b is None else float(b), float(c), float(d))
                for name, (a, b, c, d) in limits["certified"].items()
            }
        return decision

    def _scores_at(self, probability: float) -> float:
        """Return the score that means a probability, of class-wide costs."""
        if self.calibration_ is not None:
            probability = uncalibrate(self.calibration_, probability)
        return float(sigmoid(log_odds(probability) - bayes_log_odds(self.costs) + log_odds(self.mapped)))

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


def count_errors(labels: NDArray[Any], decided: NDArray[Any], weight: NDArray[Any] | None = None) -> Counts:
    """Return the errors of decisions, by weight."""
    weight = np.ones(len(labels)) if weight is None else np.asarray(weight, np.float64)
    positive, called = np.asarray(labels) == 1, np.asarray(decided) == 1
    sums = (weight[which].sum() for which in (positive & ~called, ~positive & called, positive, ~positive))
    return Counts(*map(float, sums))


def describe_certified(name: str, certified: Certified) -> str:
    """Return what is known of a constraint as text.

    >>> describe_certified("min_recall", Certified(0.9, 0.9021, 0.94, 150.0))
    'recall at least 0.9 (0.9021 certified; 0.94 on 150 positives)'
    """
    name, of, segment = name.partition(" of ")
    side = "at least" if name.startswith("min") else "at most"
    sure = "" if certified.guaranteed is None else f"{certified.guaranteed:.4g} certified; "
    samples = "predicted positive" if name == "min_precision" else PLURALS[name]
    known = f"{sure}{certified.estimate:.4g} on {certified.samples:,.0f} {samples}"
    return f"{MEASURES[name]}{of}{segment} {side} {certified.required:g} ({known})"


def check_decide(decide: str) -> str:
    """Return a known way to decide, or say which there are."""
    if decide not in DECIDE:
        raise ValueError(f"decide must be one of {', '.join(map(repr, DECIDE))}, got {decide!r}")
    return decide
