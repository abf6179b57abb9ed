"""Evaluation of a fitted classifier on labelled rows, batch by batch: cost, constants, calibration, best threshold."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.html import html_table
from adacsl.base.labels import plain_labels
from adacsl.base.scores import likeliest
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import Decisions, Policy, decide, ordered_labels, take_time
from adacsl.estimators.inputs import LabelledBatch, class_names
from adacsl.fitting.rows import costs_for, read_known_labels
from adacsl.metrics.intervals import Interval
from adacsl.thresholds.search import Threshold
from adacsl.thresholds.streaming import HELD, Batch, CostHistogram, RunningCalibration, RunningMean, Spool

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier

EVEN = CostMatrix(fp=1, fn=1)
OUTCOMES = {"tp": (1, 1), "fp": (1, 0), "fn": (0, 1), "tn": (0, 0)}
"""Action and class of each outcome."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The cost of decisions on labelled samples, beside those of constant decisions and of the best threshold.

    Attributes
    ----------
    n_samples : int
        The number of samples.
    classes : tuple of str
        The classes.
    actions : tuple of str
        The actions: the classes, unless a policy adds others.
    counts : array of shape (A, K)
        How many samples of each class got each action.
    costs : array of shape (A, K)
        Their total cost.
    cost : Interval
        Mean cost with its 95 % interval.
    total_cost : float
        Total cost.
    constant_costs : array of shape (A,)
        Mean cost if every sample got the same action.
    normalized_cost : float
        Avoidable cost over that of the best constant action; 1 is as good as a constant.
    savings : float
        Share of the cost of the best constant action that is saved.
    calibration_error : float
        Expected calibration error in quantile bins; of K classes, of the likeliest.
    best_threshold : Threshold or None
        The cost-optimal threshold of these samples; None of K classes or other actions.
    threshold : float or None
        The probability above which a sample is predicted positive; None where it differs between samples.
    notes : tuple of str
        Sentences about the policy.
    prior : float, array or None
        The class prior that was assumed; None: that of the training.

    See Also
    --------
    evaluate : Returns it.

    Examples
    --------
    >>> evaluate(model, [(X, y)]).cost.estimate  # doctest: +SKIP
    0.0875
    """

    n_samples: int
    classes: tuple[str, ...]
    actions: tuple[str, ...]
    counts: NDArray[np.int64]
    costs: NDArray[np.float64]
    cost: Interval
    total_cost: float
    constant_costs: NDArray[np.float64]
    normalized_cost: float
    savings: float
    calibration_error: float
    best_threshold: Threshold | None
    threshold: float | None
    notes: tuple[str, ...]
    prior: Any

    @property
    def binary(self) -> bool:
        """Whether two classes are decided between."""
        return self.best_threshold is not None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values, as ``adacsl evaluate --json`` prints it.

        Returns
        -------
        dict
            The statistics.
        """
        common: dict[str, Any] = {
            "rows": self.n_samples,
            "classes": plain_labels(self.classes),
            "cost": {"mean": self.cost.estimate, "interval": [self.cost.low, self.cost.high], "total": self.total_cost},
            "normalized_cost": self.normalized_cost,
            "savings": self.savings,
            "calibration_error": self.calibration_error,
        }
        if self.notes:
            common |= {"notes": list(self.notes), "prior": self.prior}
        if self.best_threshold is not None:
            best = self.best_threshold
            return common | {
                "positives": int(self.counts[:, 1].sum()),
                "counts": {name: int(self.counts[place]) for name, place in OUTCOMES.items()},
                "money": {name: float(self.costs[place]) for name, place in OUTCOMES.items()},
                "threshold": self.threshold,
                "cheapest_threshold": {"value": best.value, "mean": best.cost},
                "always_negative": float(self.constant_costs[0]),
                "always_positive": float(self.constant_costs[1]),
            }
        square, least = self.actions == self.classes, int(np.argmin(self.constant_costs))
        names = plain_labels(self.classes) if square else list(self.actions)
        return common | {
            **({} if square else {"actions": names}),
            "counts": self.counts.tolist(),
            "money": self.costs.tolist(),
            "cheapest_constant": {"decision": names[least], "mean": float(self.constant_costs[least])},
        }

    def _repr_html_(self) -> str:
        rows = {
            "mean cost": self.cost.estimate, "95 % interval": f"{self.cost.low:.4g} to {self.cost.high:.4g}",
            "normalised cost": self.normalized_cost, "savings": self.savings,
            "calibration error": self.calibration_error,
        }  # fmt: skip
        return html_table(list(rows.items()), title=f"Evaluation of {self.n_samples:,} rows")


class Evaluator:
    """Decides about labelled rows batch by batch, and sums what the decisions cost.

    The result does not depend on how the rows are divided into batches. Scores, labels and per-sample costs are spooled
    to a temporary file, for the second look that the best threshold and the calibration error need.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
    policy : Policy, optional
        Default: the classifier's own.
    held : int
        Up to so many rows, the interval of the mean cost is a bootstrap; see :data:`adacsl.thresholds.streaming.HELD`.

    Examples
    --------
    >>> from adacsl import CostMatrix, CostSensitiveClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = (X[:, 1] + X[:, 0] > 1).astype(int)
    >>> model = CostSensitiveClassifier(CostMatrix(fp=1, fn=8), learner=LogisticRegression(), random_state=0).fit(X, y)
    >>> evaluator = Evaluator(model)
    >>> for rows in (slice(0, 100), slice(100, 400)):
    ...     decisions = evaluator.update(labelled_batch(model, X[rows], y[rows]))
    >>> evaluator.result().n_samples
    400
    """

    def __init__(self, classifier: CostSensitiveClassifier, policy: Policy | None = None, *, held: int = HELD) -> None:
        own = Policy() if classifier.policy is None else classifier.policy
        self.classifier, self.policy = classifier, own if policy is None else policy
        self.classes = tuple(class_names(classifier))
        self._rows, self._total, self._reduced_total = 0, 0.0, 0.0
        self._notes: dict[str, None] = {}
        self._mean, self._calibration, self._histogram = RunningMean(held), RunningCalibration(), CostHistogram()
        self._spool = Spool()

    def update(self, batch: LabelledBatch) -> Decisions:
        """Decide about some rows and add what that costs; return the decisions."""
        if self._rows and self.policy.needs_all_rows:
            raise ValueError("a capacity and an estimated prior look at all rows at once: give them as one batch")
        probabilities = self.classifier.decision_probabilities(batch.X, costs=batch.costs)
        decisions = decide(
            probabilities, self.classifier.decision_, ordered_labels(self.classifier), costs=batch.costs,
            policy=self.policy, times=batch.times,
        )  # fmt: skip
        self._add(batch, decisions)
        return decisions

    def _add(self, batch: LabelledBatch, decisions: Decisions) -> None:
        y, actions, square = batch.y, decisions.actions, decisions.costs.square
        self._binary = binary = len(self.classes) == 2 and square
        costs = batch.costs if binary else decisions.costs
        reduced = costs.reduced()
        if not self._rows:
            self._actions = self.classes if square else tuple(decisions.counts)
            shape = len(self._actions), len(self.classes)
            self._counts, self._costs = np.zeros(shape, np.int64), np.zeros(shape)
            self._constants, self._reduced_constants = np.zeros(shape[0]), np.zeros(shape[0])
        self._rows, self._prior = self._rows + len(y), decisions.prior
        self._notes |= dict.fromkeys(decisions.notes)
        np.add.at(self._counts, (actions, y), 1)
        self._costs += costs.confusion(y, actions)
        self._total += costs.total(y, actions)
        self._reduced_total += reduced.total(y, actions)
        self._constants += _totals_of_constants(costs, y, len(self._actions))
        self._reduced_constants += _totals_of_constants(reduced, y, len(self._actions))
        self._mean.update(as_host(costs.incurred(y, actions)), groups=batch.groups)
        scored = Batch(*likeliest(decisions.probabilities, y), costs if binary else EVEN)
        self._calibration.update(scored.scores, scored.labels)
        self._spool.add(scored)
        if binary:
            self._histogram.update(scored.scores, scored.labels, **scored.given())
            self._class_costs = costs if scored.counted else None
            # None: decisions depend on other samples (capacity), or on per-sample costs
            rule = self.classifier.decision_
            self._threshold = None if self.policy.needs_all_rows else rule.threshold_for(batch.costs)

    def result(self) -> Evaluation:
        """Return what all decisions so far cost."""
        if not self._rows:
            raise ValueError("no rows were given: at least one row with a label is needed")
        best, least = self._constants.min(), self._reduced_constants.min()
        return Evaluation(
            n_samples=self._rows, classes=self.classes, actions=self._actions,
            counts=self._counts.copy(), costs=self._costs.copy(),
            cost=self._mean.interval(resamples=2000), total_cost=self._total,
            constant_costs=self._constants / self._rows,
            normalized_cost=float(self._reduced_total / least) if least else math.nan,
            savings=float((best - self._total) / abs(best)) if best else math.nan,
            calibration_error=self._calibration.error(self._spool),
            best_threshold=self._best_threshold() if self._binary else None,
            threshold=self._threshold if self._binary else None,
            notes=tuple(self._notes), prior=self._prior,
        )  # fmt: skip

    def _best_threshold(self) -> Threshold:
        second = self._histogram.second_pass(self._class_costs)
        for batch in self._spool:
            second.update(batch.scores, batch.labels, **batch.given())
        return second.threshold()


def evaluate(
    classifier: CostSensitiveClassifier, batches: Iterable[tuple[Any, ...]], *, policy: Policy | None = None
) -> Evaluation:
    """Return the cost of a classifier's decisions on labelled samples that come in batches.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
        A fitted one.
    batches : iterable of (X, y) or (X, y, costs)
        Features and labels as ``fit`` takes them, and the costs of these samples where they are other than in training.
        One batch with all samples is fine, and so are batches of a table larger than memory.
    policy : Policy, optional
        Default: the classifier's own. A capacity and an estimated prior need all samples in one batch.

    Returns
    -------
    Evaluation
        Costs with an interval, beside those of constant decisions.

    Raises
    ------
    ValueError
        Where there are no samples, or labels are unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier
    >>> from adacsl.estimators.evaluation import evaluate
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = (X[:, 1] + X[:, 0] > 1).astype(int)
    >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
    >>> model = CostSensitiveClassifier(costs, learner=learner, random_state=0).fit(X, y)
    >>> result = evaluate(model, [(X[:250], y[:250]), (X[250:], y[250:])])
    >>> result.cost == evaluate(model, [(X, y)]).cost
    True
    >>> result.counts.tolist()
    [[273, 0], [35, 92]]
    """
    evaluator = Evaluator(classifier, policy)
    for X, y, *costs in batches:  # noqa: N806
        evaluator.update(labelled_batch(classifier, X, y, *costs, policy=evaluator.policy))
    return evaluator.result()


def labelled_batch(
    classifier: CostSensitiveClassifier,
    X: Any,  # noqa: N803
    y: Any,
    costs: CostMatrix | None = None,
    *,
    groups: Any = None,
    policy: Policy | None = None,
) -> LabelledBatch:
    """Return rows and labels, as ``fit`` takes them, as an :class:`Evaluator` does.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
    X, y
        Features and labels.
    costs : CostMatrix, optional
        Of these rows, or of all; default: as in training, taken from the columns of X where they depend on some.
    groups : array of shape (n,), optional
        Rows of one group (patient, customer) are one observation of the mean cost.
    policy : Policy, optional
        Whose column of times is taken out of X; default: the classifier's own.
    """
    chosen = policy or classifier.policy or Policy()
    X, timed = take_time(classifier, X, chosen)  # noqa: N806
    own = costs_for(classifier, X) if costs is None else costs
    return LabelledBatch(
        X, read_known_labels(classifier, y), classifier.costs_ if own is None else own,
        None if groups is None else np.asarray(groups), timed.time,
    )  # fmt: skip


def _totals_of_constants(costs: CostMatrix, y: NDArray[np.int64], actions: int) -> list[float]:
    return [costs.total(y, np.full(len(y), action)) for action in range(actions)]
