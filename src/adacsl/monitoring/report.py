"""Results of monitoring a deployed model: statistics, recommendation and text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.html import html_lines
from adacsl.metrics.intervals import Interval
from adacsl.monitoring.drift import PriorShift, ScoreShift
from adacsl.storage.documents import plain
from adacsl.thresholds.constraints import MEASURES

FEW_ROWS = 30
"""The fewest samples for a recommendation, unless there are enough labels of each class."""


class Constant(NamedTuple):
    """The best constant decision about the labelled samples; costs are means per sample.

    Parameters
    ----------
    decision : str
        The name of the class or action.
    cost : float
        Its mean cost.
    saving : Interval
        By how much it costs less than the model's decisions.
    saving_retuned : Interval or None
        By how much it costs less than the decisions of a re-tuned rule; None where none can be fitted.
    """

    decision: str
    cost: float
    saving: Interval
    saving_retuned: Interval | None


class ConstraintCheck(NamedTuple):
    """A constraint of the model on labelled samples.

    Parameters
    ----------
    name : str
        ``min_recall``, ``min_precision``, ``max_fpr``, ``max_positive_rate``, or of a segment ``min_recall of NAME``.
    required : float
        The constraint.
    now : Interval
        The measure on the samples, with its interval.
    samples : int
        The samples that count: positives for recall, negatives for FPR, predicted positives for precision.
    """

    name: str
    required: float
    now: Interval
    samples: int

    @property
    def violated(self) -> bool:
        """Whether the interval excludes what is required."""
        return self.now.high < self.required if self.name.startswith("min") else self.now.low > self.required

    def describe(self, level: float) -> str:
        """Return the constraint as text."""
        low = self.name.startswith("min")
        side = ("below" if low else "above") if self.violated else "not significantly " + ("below" if low else "above")
        if not self.violated and (self.now.estimate >= self.required if low else self.now.estimate <= self.required):
            side = "within"
        name, of, segment = self.name.partition(" of ")
        now = f"{self.now.estimate:.4g} ({_between(self.now, level)})"
        return f"{MEASURES[name]}{of}{segment} {now} is {side} the required {self.required:g}"


class Labelled(NamedTuple):
    """Results on the samples with labels; costs are means per sample.

    Attributes
    ----------
    cost : Interval
        Cost of the model's decisions.
    estimated : Interval or None
        The model's ``estimated_cost_``; None where it is of other costs or of another policy.
    excess : Interval or None
        By how much ``cost`` exceeds ``estimated``.
    calibration_error : float
        Calibration error on these samples.
    calibration_error_training : float or None
        Calibration error on held-out samples in training.
    saving : Interval or None
        What a re-tuned decision rule would save; None where a class has fewer than ten samples.
    threshold : Interval or None
        The cost-optimal threshold on these samples; None where there is not one threshold for all samples.
    current_threshold : float or None
        The threshold that the model applies; None where there is not one threshold for all samples.
    prior : tuple of Interval
        The share of each class.
    prior_shifted : bool or None
        Whether the class prior differs significantly from that in training; None: not known.
    constant : Constant or None
        The best constant decision; None where a class has fewer than ten samples, and under constraints.
    constraints : tuple of ConstraintCheck
        The constraints of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier, monitor
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(1000) < 0.3).astype(int)
    >>> X = rng.normal(size=(1000, 1)) + 1.5 * y[:, None]
    >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
    >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X[:500], y[:500])
    >>> result = monitor(model, X[500:], y[500:])
    >>> result.labels.prior[1].estimate
    0.296
    """

    cost: Interval
    estimated: Interval | None
    excess: Interval | None
    calibration_error: float
    calibration_error_training: float | None
    saving: Interval | None
    threshold: Interval | None
    current_threshold: float | None
    prior: tuple[Interval, ...]
    prior_shifted: bool | None
    constant: Constant | None
    constraints: tuple[ConstraintCheck, ...] = ()


class ShiftedCosts(NamedTuple):
    """Expected mean costs per sample under the estimated class prior.

    Attributes
    ----------
    cost : float
        Cost of the model's decisions.
    adapted : float
        Cost of decisions under the estimated prior.

    Examples
    --------
    >>> from adacsl.monitoring.report import ShiftedCosts
    >>> ShiftedCosts(cost=0.5, adapted=0.4).saving
    0.09999999999999998
    """

    cost: float
    adapted: float

    @property
    def saving(self) -> float:
        """What decisions under the estimated prior are expected to save per sample."""
        return self.cost - self.adapted


class Window(NamedTuple):
    """Results on the samples of one time window.

    Attributes
    ----------
    name : str
        The window, such as ``2026-03``.
    rows : int
        The number of samples.
    labelled : int
        The number of samples with labels.
    cost : Interval or None
        Mean cost of the samples with labels; None where there are none.
    expected : float
        Expected mean cost by the model's probabilities.
    decided : array of shape (A,)
        The share of each decision.
    psi : float or None
        Population stability index of the scores; None for models without held-out scores.
    constraints : tuple of ConstraintCheck
        The constraints of the model, on the samples with labels.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier, monitor
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(1000) < 0.3).astype(int)
    >>> X = rng.normal(size=(1000, 1)) + 1.5 * y[:, None]
    >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
    >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X[:500], y[:500])
    >>> result = monitor(model, X[500:], y[500:], time=np.arange(500.0))
    >>> result.windows[0].rows
    50
    """

    name: str
    rows: int
    labelled: int
    cost: Interval | None
    expected: float
    decided: NDArray[np.float64]
    psi: float | None
    constraints: tuple[ConstraintCheck, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class MonitoringReport:
    """The result of :func:`adacsl.monitor`: statistics on new samples, and a recommendation.

    Attributes
    ----------
    rows : int
        The number of samples.
    labelled : int
        The number of samples with labels.
    classes : tuple of str
        Names in the order of the numbers; of two classes, the positive one is second.
    actions : tuple of str
        Names of the actions. Without a policy they are the classes.
    level : float
        Coverage of the intervals.
    tolerance : float
        The share of the cost that matters.
    expected : Interval
        Mean cost per sample by the model's own probabilities.
    decided : (array or None, array)
        The share of each decision: among the held-out samples of the training, and now.
    scores : ScoreShift or None
        Drift of the scores; None for models without held-out scores.
    prior : PriorShift or None
        The class prior in training and as estimated from the probabilities; None for models without held-out scores.
    shifted_costs : ShiftedCosts or None
        The expected costs under the estimated prior.
    labels : Labelled or None
        Results on the samples with labels.
    windows : tuple of Window
        Results by time window, where times were given.

    See Also
    --------
    adacsl.monitor : Returns it.
    adacsl.monitoring.page.write_monitoring : Writes it as a page.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier, monitor
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(1000) < 0.3).astype(int)
    >>> X = rng.normal(size=(1000, 1)) + 1.5 * y[:, None]
    >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
    >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X[:500], y[:500])
    >>> result = monitor(model, X[500:], y[500:])
    >>> result.rows, result.labelled, len(result.windows)
    (500, 500, 0)
    """

    rows: int
    labelled: int
    classes: tuple[str, ...]
    actions: tuple[str, ...]
    level: float
    tolerance: float
    expected: Interval
    decided: tuple[NDArray[np.float64] | None, NDArray[np.float64]]
    scores: ScoreShift | None
    prior: PriorShift | None
    shifted_costs: ShiftedCosts | None
    labels: Labelled | None
    windows: tuple[Window, ...]

    def __repr__(self) -> str:
        return f"MonitoringReport({self.rows} rows, {self.labelled} labelled, recommendation={self.recommendation!r})"

    @property
    def retune(self) -> bool:
        """Whether to re-tune the decision rule: not doing so costs more than the tolerance."""
        if not self.enough:
            return False
        if self.constraints_violated:
            return True
        if self.labels is not None and self.labels.saving is not None:
            return self.labels.saving.low > self.tolerance * abs(self.labels.cost.estimate)
        if self.prior is None or self.shifted_costs is None:
            return False
        return self.prior.excluded and self.shifted_costs.saving > self.tolerance * abs(self.shifted_costs.cost)

    @property
    def constraints_violated(self) -> bool:
        """Whether a constraint of the model is significantly violated on the labelled samples."""
        return self.labels is not None and any(check.violated for check in self.labels.constraints)

    @property
    def by_labels(self) -> bool:
        """Whether the recommendation is based on labels: there are at least ten of each class."""
        return self.labels is not None and self.labels.saving is not None

    @property
    def enough(self) -> bool:
        """Whether there are enough samples or labels for a recommendation."""
        return self.by_labels or self.rows >= FEW_ROWS

    @property
    def constant_costs_less(self) -> bool:
        """Whether a constant decision costs significantly less than the model, and by more than the tolerance."""
        result = self.labels
        if result is None or result.constant is None:
            return False
        return result.constant.saving.low > self.tolerance * abs(result.cost.estimate)

    @property
    def cost_increased(self) -> bool:
        """Whether the cost is significantly above the estimate, and by more than the tolerance."""
        result = self.labels
        if result is None or result.excess is None or result.estimated is None:
            return False
        if not self.by_labels and self.labelled < FEW_ROWS:
            return False
        return result.excess.low > self.tolerance * abs(result.estimated.estimate)

    @property
    def prior_shifted(self) -> bool:
        """Whether the class prior has changed significantly, and by more than the tolerance."""
        if self.prior is None or not self.enough:
            return False
        now, excluded = self.prior.now, self.prior.excluded
        then = self.prior.then if self.prior.assumed is None else self.prior.assumed
        if self.labels is not None and self.by_labels and self.labels.prior_shifted is not None:
            now, excluded = np.asarray([share.estimate for share in self.labels.prior]), self.labels.prior_shifted
        return excluded and bool((np.abs(now - then) > self.tolerance * then).any())

    @property
    def shifted(self) -> bool:
        """Whether there is drift: of scores, class prior, or cost."""
        return self.prior_shifted or self.cost_increased or self._scores_shifted

    @property
    def _scores_shifted(self) -> bool:
        return self.enough and self.scores is not None and self.scores.shifted

    @property
    def recommendation(self) -> str:
        """``"retune"``, ``"review"`` (drift, or a constant decision costs less), ``"keep"`` or ``"unresolved"``.

        ``"unresolved"`` where there are too few samples for a recommendation.
        """
        if not self.enough:
            return "unresolved"
        return "retune" if self.retune else "review" if self.shifted or self.constant_costs_less else "keep"

    @property
    def loss(self) -> Interval | None:
        """What not re-tuning costs per sample: by labels with its interval, else as expected; None where unknown."""
        if self.labels is not None and self.labels.saving is not None:
            return self.labels.saving
        return None if self.shifted_costs is None else Interval(self.shifted_costs.saving, np.nan, np.nan)

    @property
    def headline(self) -> str:
        """The recommendation as a sentence, with what not re-tuning costs per 1,000 samples."""
        if not self.enough:
            least = f"below {FEW_ROWS} at least ten labels of each class are needed"
            return f"No recommendation: {self.rows} samples are too few ({least}); see the intervals."
        if self.labels is not None and self.constraints_violated:
            broken = " and ".join(check.describe(self.level) for check in self.labels.constraints if check.violated)
            return f"Re-tune the decision rule: {broken}."
        if self.retune and self.loss is not None:
            loss = f"{_thousand(self.loss, self.level)} per 1,000 samples"
            return f"Re-tune the decision rule: not doing so costs {loss}{_constant_below_retuned(self)}."
        if self.constant_costs_less or self.shifted:
            return f"Review the model: {' and '.join(_reasons_to_review(self))}."
        return _nothing_changed(self)

    @property
    def tolerance_text(self) -> str:
        """The tolerance as a share of the cost, for sentences."""
        small = self.tolerance < 0.001
        return f"{self.tolerance:.3g} of the cost" if small else f"{100 * self.tolerance:.1f} % of the cost"

    @property
    def sentences(self) -> list[str]:
        """The recommendation and the findings as sentences."""
        about = (_about_samples, _about_labels, _about_constraints, _about_constant, _about_prior, _about_scores)
        return [self.headline, *(sentence for part in about for sentence in part(self))]

    def _repr_html_(self) -> str:
        return html_lines(*self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values.

        Returns
        -------
        dict
            The statistics and the recommendation.
        """
        names = (
            "rows",
            "labelled",
            "classes",
            "actions",
            "level",
            "tolerance",
            "recommendation",
            "retune",
            "shifted",
            "sentences",
        )
        (then, now), again = self.decided, self.shifted_costs
        result = {name: getattr(self, name) for name in names} | {
            "expected": _interval(self.expected),
            "decided": {"then": then, "now": now},
            "scores": None if self.scores is None else self.scores._asdict() | {"shifted": self.scores.shifted},
            "prior": None if self.prior is None else self.prior._asdict(),
            "shifted_costs": None if again is None else again._asdict() | {"saving": again.saving},
            "labels": None if self.labels is None else _plain_tuple(self.labels),
            "windows": [_plain_tuple(window) for window in self.windows],
        }
        document: dict[str, Any] = plain(result)
        return document


def _interval(interval: Interval) -> dict[str, Any]:
    return dict(interval._asdict())


def _plain_tuple(result: Any) -> dict[str, Any]:
    values = dict(result._asdict())
    if "prior" in values:
        values["prior"] = [_interval(share) for share in values["prior"]]
    if "constraints" in values:
        values["constraints"] = [_plain_tuple(own) | {"violated": own.violated} for own in values["constraints"]]
    if isinstance(values.get("constant"), Constant):
        values["constant"] = _plain_tuple(values["constant"])
    return {name: _interval(value) if isinstance(value, Interval) else value for name, value in values.items()}


# sentences


def _reasons_to_review(result: MonitoringReport) -> Iterator[str]:
    """Yield what calls for a review and is no reason to re-tune."""
    constant = result.labels.constant if result.labels is not None else None
    if result.constant_costs_less and constant is not None:
        less = f"{_thousand(constant.saving, result.level)} per 1,000 samples less than the model"
        yield f"always deciding {constant.decision} costs {less}; re-tuning would not save significantly more"
    if result.shifted:
        changed = {
            "the class prior": result.prior_shifted,
            "the cost": result.cost_increased,
            "the scores": result._scores_shifted,
        }
        names = [name for name, has in changed.items() if has]
        listed = " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)
        have = "have" if len(names) > 1 or names == ["the scores"] else "has"
        but = (
            ""
            if result.constant_costs_less
            else f", but re-tuning would not save significantly more than {result.tolerance_text}"
        )
        yield f"{listed} {have} changed{but}"


def _nothing_changed(result: MonitoringReport) -> str:
    labels = result.labels
    if labels is not None and labels.constant is not None and labels.constant.saving.estimate > 0:
        but = f"but always deciding {labels.constant.decision} would have cost less on these samples"
        return f"No re-tuning needed, {but}."
    if labels is not None and not result.by_labels and result.labelled < FEW_ROWS:
        few = f"{result.labelled} labelled samples are too few to judge by their cost"
        return f"No drift: scores and class prior are as in training; {few}."
    return "No change needed: re-tuning would not save significantly more than the tolerance."


def _constant_below_retuned(result: MonitoringReport) -> str:
    """Return a clause on a constant decision that costs less than the re-tuned model, empty where none does."""
    constant = result.labels.constant if result.labels is not None else None
    if constant is None or constant.saving_retuned is None or constant.saving_retuned.estimate <= 0:
        return ""
    less = _against(constant.saving_retuned, result, "the re-tuned model")
    return f"; always deciding {constant.decision} costs {less}"


def _about_constant(result: MonitoringReport) -> Iterator[str]:
    constant = result.labels.constant if result.labels is not None else None
    if constant is None:
        return
    now = _against(constant.saving, result, "the model")
    again = (
        ""
        if constant.saving_retuned is None
        else f"; {_against(constant.saving_retuned, result, 'the re-tuned model')}"
    )
    yield f"The best constant baseline, always {constant.decision}, costs {constant.cost:.4g} per sample: {now}{again}."


def _against(saving: Interval, result: MonitoringReport, what: str) -> str:
    worse = saving.estimate < 0
    gap = Interval(-saving.estimate, -saving.high, -saving.low) if worse else saving
    chance = ", no significant difference" if saving.low <= 0 <= saving.high else ""
    return f"{_thousand(gap, result.level)} per 1,000 samples {'more' if worse else 'less'} than {what}{chance}"


def _between(interval: Interval, level: float, scale: float = 1.0) -> str:
    return f"{level * 100:g} % interval {scale * interval.low:.4g} to {scale * interval.high:.4g}"


def _thousand(loss: Interval, level: float) -> str:
    sure = f" ({_between(loss, level, 1000)})" if np.isfinite(loss.low) else ""
    return f"{1000 * loss.estimate:.4g}{sure}"


def _about_samples(result: MonitoringReport) -> Iterator[str]:
    labels = "none of them labelled" if not result.labelled else f"{result.labelled:,} of them labelled"
    labels = "all of them labelled" if result.labelled == result.rows else labels
    then, now = result.decided
    names = result.actions
    shown = [1] if len(now) == 2 else np.argsort(-now, kind="stable")[:3].tolist()
    before = ["" if then is None else f" ({100 * then[k]:.1f} % in training)" for k in range(len(now))]
    shares = ", ".join(f"{100 * now[k]:.1f} % {names[k]}{before[k]}" for k in shown)
    yield f"{result.rows:,} samples, {labels}; decisions: {shares}."
    expected = f"{result.expected.estimate:.4g} ({_between(result.expected, result.level)})"
    yield f"Expected cost per sample, by the model's probabilities: {expected}."


def _about_labels(result: MonitoringReport) -> Iterator[str]:
    labels = result.labels
    if labels is None:
        return
    text = f"Mean cost of the labelled samples: {labels.cost.estimate:.4g} ({_between(labels.cost, result.level)})"
    if labels.estimated is not None and labels.excess is not None:
        chance = "" if labels.excess.low > 0 or labels.excess.high < 0 else ", not significant"
        excess = f"difference {labels.excess.estimate:.4g}, {_between(labels.excess, result.level)}{chance}"
        text += f"; estimated in training: {labels.estimated.estimate:.4g} ({excess})"
    yield f"{text}."
    training = labels.calibration_error_training
    then = "" if training is None else f", {training:.3f} in training"
    yield f"Calibration error {labels.calibration_error:.3f}{then}."
    if labels.threshold is not None and labels.current_threshold is not None:
        best = labels.threshold
        yield (
            f"Threshold {labels.current_threshold:.4g}; cost-optimal on these samples: {best.estimate:.4g} "
            f"({_between(best, result.level)})."
        )
    if labels.saving is None:
        yield "Too few labels to estimate the saving by re-tuning: ten labelled samples of each class are needed."
    else:
        saving = labels.saving
        worse = saving.estimate < 0
        word, gain = ("lose", Interval(-saving.estimate, -saving.high, -saving.low)) if worse else ("save", saving)
        yield f"Re-tuning on these samples would {word} {_thousand(gain, result.level)} per 1,000 samples."


def _about_constraints(result: MonitoringReport) -> Iterator[str]:
    for check in () if result.labels is None else result.labels.constraints:
        text = check.describe(result.level)
        yield f"{text[0].upper()}{text[1:]}."
        measured = [own for window in result.windows for own in window.constraints if own.name == check.name]
        if broken := sum(own.violated for own in measured):
            yield f"It is violated in {broken} of {len(measured)} time windows."


def _about_prior(result: MonitoringReport) -> Iterator[str]:
    prior, again = result.prior, result.shifted_costs
    if prior is None or again is None:
        return
    # of many classes the one with the largest shift
    k = 1 if len(prior.then) == 2 else int(np.argmax(np.abs(np.log(np.maximum(prior.ratio, 1e-12)))))
    if result.labels is not None:
        share = result.labels.prior[k]
        interval = _percents(*share[1:], result)
        yield f"Share of {result.classes[k]} among labelled samples: {100 * share.estimate:.2f} % ({interval})."
    chance = "" if prior.excluded else ", no significant difference"
    if prior.assumed is not None:
        chance = f", {100 * prior.assumed[k]:.2f} % assumed by the policy"
    now = f"{100 * prior.now[k]:.2f} % ({_percents(prior.low[k], prior.high[k], result)})"
    yield (
        f"Share of {result.classes[k]}, estimated from the probabilities: {now}; "
        f"{100 * prior.then[k]:.2f} % in training{chance}."
    )
    if prior.excluded and result.enough:
        yield (
            f"Under this class prior a sample costs {again.cost:.4g}, and {again.adapted:.4g} if the decision "
            f"accounts for it: {1000 * again.saving:.4g} per 1,000 samples less."
        )


def _percents(low: float, high: float, result: MonitoringReport) -> str:
    return f"{result.level * 100:g} % interval {100 * low:.2f} % to {100 * high:.2f} %"


def _about_scores(result: MonitoringReport) -> Iterator[str]:
    scores = result.scores
    if scores is None:
        yield "The model has no held-out scores: drift of the scores cannot be tested."
        return
    whose = "" if len(result.classes) == 2 else f" (of {result.classes[scores.place]})"
    how = " have changed" if scores.shifted else " are distributed as in training"
    how = how if result.enough else ""
    yield f"The scores{whose}{how}: PSI {scores.psi:.3f} (drift above {scores.limit:.3g}), KS {scores.ks:.3f}."
