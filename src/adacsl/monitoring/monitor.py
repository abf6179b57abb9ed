"""Monitoring of a deployed model: current cost, drift, and whether to re-tune the decision rule."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.base.labels import label_name
from adacsl.base.scores import known
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.time import take_times
from adacsl.decision.policy import decide, limited_action, ordered_labels, read_prior
from adacsl.decision.priors import shift_prior
from adacsl.decision.rule import Decision
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.fitting.rows import costs_for
from adacsl.metrics.calibration import expected_calibration_error
from adacsl.metrics.intervals import Interval, independent_difference, mean_interval
from adacsl.monitoring.drift import PriorShift, prior_shift, score_shift, time_windows
from adacsl.monitoring.report import Constant, ConstraintCheck, Labelled, MonitoringReport, ShiftedCosts, Window
from adacsl.monitoring.retune import FEWEST, costs_retuned, retuning_method
from adacsl.monitoring.scored_rows import ScoredRows, score_rows
from adacsl.thresholds.constraints import Constraints, upper_bound
from adacsl.thresholds.uncertainty import tune_threshold

with requires("sklearn"):
    from sklearn.utils.validation import check_consistent_length, check_is_fitted


def monitor(
    model: Any,
    X: Any,  # noqa: N803
    y: Any = None,
    *,
    fp: Any = None,
    fn: Any = None,
    tp: Any = None,
    tn: Any = None,
    groups: Any = None,
    time: Any = None,
    level: float = 0.95,
    tolerance: float = 0.05,
) -> MonitoringReport:
    """Monitor a deployed model: what new samples cost, whether they have drifted, and whether to re-tune the decision.

    Parameters
    ----------
    model : CostSensitiveClassifier
        Fitted, or loaded by :func:`adacsl.load`.
    X : table or images
        New samples, in the form that ``predict`` expects.
    y : array of shape (n,), optional
        Their labels, as far as they are known: None or NaN for the others.
    fp, fn, tp, tn : float or arrays of shape (n,), optional
        Costs of each sample, as in ``predict``.
    groups : array of shape (n,), optional
        Samples of one group (patient, customer) are not independent: intervals count groups.
    time : str or array of shape (n,), optional
        The observation times, dates or numbers, or the column of X with them: costs are also given by time window.
    level : float, default 0.95
        Coverage of the intervals.
    tolerance : float, default 0.05
        The share of the cost that matters: smaller changes are no reason to act.

    Returns
    -------
    MonitoringReport
        All statistics; ``recommendation``, ``sentences`` and ``to_dict()``.

    Raises
    ------
    TypeError
        Where the model is no classifier of this package.
    ValueError
        Where samples, labels, costs and times do not match, or a parameter is out of its range.

    Notes
    -----
    With at least ten labelled samples of each class the labels decide: a decision rule is fitted on one half of the
    samples and its cost measured on the other (many random halves). Re-tuning is recommended where the interval of
    the saving lies above ``tolerance`` times the present cost. Without labels the class prior is estimated from the
    probabilities by expectation maximisation: re-tuning is recommended where its interval excludes the prior of the
    training, and decisions under the new prior would save more than ``tolerance`` of the expected cost. The cost of
    labelled samples, now and after re-tuning, is also compared with the best constant decision. Fewer than 30 samples
    without ten labels of each class give intervals, and no recommendation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier, monitor
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(4000) < 0.2).astype(int)
    >>> X = rng.normal(size=(4000, 1)) + 1.5 * y[:, None]
    >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
    >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X[:2000], y[:2000])
    >>> result = monitor(model, X[2000:], y[2000:])
    >>> result.recommendation, result.retune
    ('keep', False)
    """
    if not isinstance(model, CostSensitiveClassifier):
        raise TypeError(f"model must be a fitted classifier of adacsl, got {model!r}")
    check_is_fitted(model)
    given = {"fp": fp, "fn": fn, "tp": tp, "tn": tn}
    costs = costs_for(model, X, **given)
    policy = getattr(model, "policy", None)
    needed = (*getattr(model, "feature_names_in_", ()), None if policy is None else policy.time)
    X, times, _ = take_times(X, time, keep=needed)  # noqa: N806
    return monitor_samples(
        model, X, y, costs, groups=groups, times=times, level=level, tolerance=tolerance,
        as_estimated=_as_estimated(model, given),
    )  # fmt: skip


def monitor_samples(
    model: Any, X: Any, y: Any, costs: CostMatrix | None, *,  # noqa: N803
    groups: Any = None, times: NDArray[Any] | None = None, level: float = 0.95, tolerance: float = 0.05,
    as_estimated: bool = True,
) -> MonitoringReport:  # fmt: skip
    """Return the result of :func:`monitor`, with the costs of the samples in one matrix.

    Parameters
    ----------
    model, X, y, groups, level, tolerance
        As in :func:`monitor`.
    costs : CostMatrix or None
        Costs of the samples; None: the class-wide costs of the model.
    times : array of shape (n,), optional
        Observation times.
    as_estimated : bool, default True
        Whether these are the costs behind the model's ``estimated_cost_``.

    Returns
    -------
    MonitoringReport
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    if not (tolerance >= 0 and math.isfinite(tolerance)):
        raise ValueError(f"tolerance must be a share of the cost such as 0.05, got {tolerance!r}")
    rows = score_rows(model, X, y, costs, groups)
    check_consistent_length(rows.scores, times)
    names = tuple(label_name(label) for label in ordered_labels(model))
    reference = _reference_probabilities(model)
    prior = None if reference is None else _prior_shift(model, rows, reference, level)
    return MonitoringReport(
        rows=len(rows.scores),
        labelled=int(rows.has_label.sum()),
        classes=names,
        actions=names if rows.action_costs.square else tuple(map(str, rows.action_costs.actions or ())),
        level=level,
        tolerance=tolerance,
        expected=mean_interval(rows.expected_costs(rows.shifted), groups=rows.groups, level=level),
        decided=_decision_shares(model, rows, reference),
        scores=None if reference is None else score_shift(reference, rows.probabilities, level=level),
        prior=prior,
        shifted_costs=None if prior is None else _shifted_costs(model, rows, prior),
        labels=_labelled(model, rows, prior, level, names, as_estimated=as_estimated),
        windows=_windows(rows, times, reference, level, model.decision_.constraints),
    )


def _as_estimated(model: Any, given: dict[str, Any]) -> bool:
    """Return whether costs are those behind ``estimated_cost_``; per-sample costs are assumed to be."""
    numbers = {name: cost for name, cost in given.items() if isinstance(cost, int | float)}
    return all(float(cost) == getattr(model.costs_, name) for name, cost in numbers.items())


# drift of scores, decisions and class prior


def reference_scores(model: Any) -> NDArray[np.float64] | None:
    """Return scores of samples that were held out in training; None where the model has none."""
    result: NDArray[np.float64] | None = getattr(model, "reference_scores_", getattr(model, "oof_scores_", None))
    return result


def _reference_probabilities(model: Any) -> NDArray[np.float64] | None:
    """Return the probabilities of held-out samples in training."""
    scores = reference_scores(model)
    if scores is None or model.decision_.decide in ("negative", "positive") or not known(scores).any():
        return None
    result: NDArray[np.float64] = model.decision_.probabilities(scores[known(scores)])
    return result


def _prior_shift(model: Any, rows: ScoredRows, reference: NDArray[np.float64], level: float) -> PriorShift:
    """Estimate the class prior, and whether it differs from the one behind the decisions."""
    shares = _all_shares(getattr(model.decision_, "prior", None))
    shift = prior_shift(reference, rows.probabilities, prior=shares, groups=rows.groups, level=level)
    if rows.policy.prior is None:
        return shift
    if isinstance(rows.policy.prior, str):  # estimated on each set of samples
        return shift._replace(excluded=False, assumed=shift.now)
    assumed = np.asarray(_all_shares(read_prior(rows.policy.prior, ordered_labels(model))))
    excluded = bool(((shift.low > assumed) | (shift.high < assumed)).any())
    return shift._replace(excluded=excluded, assumed=assumed)


def _all_shares(prior: Any) -> NDArray[np.float64] | None:
    """Return the shares of all classes; of two, one number is that of the positive one."""
    if prior is None:
        return None
    return np.asarray(prior if np.ndim(prior) else (1.0 - prior, prior), dtype=np.float64)


def _decision_shares(
    model: Any, rows: ScoredRows, reference: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return the share of each decision in training and now; the former None where it depends on per-sample costs."""
    k = rows.action_costs.n_actions
    now = np.bincount(rows.decided, minlength=k) / len(rows.decided)
    if reference is None or rows.action_costs.n_instances is not None or rows.policy.needs_all_rows:
        return None, now
    rule, labels = model.decision_, ordered_labels(model)
    before = decide(reference, rule, labels, costs=rows.class_costs, policy=rows.policy).actions
    return np.bincount(before, minlength=k) / len(before), now


def _shifted_costs(model: Any, rows: ScoredRows, prior: PriorShift) -> ShiftedCosts:
    """Return the expected costs under the estimated prior: of the present decisions, and of decisions under it."""
    inside = np.clip(prior.now, 1e-12, 1.0)
    shares = (prior.then, inside / inside.sum())
    old, new = ((float(each[1]) if rows.probabilities.ndim == 1 else each.tolist()) for each in shares)
    moved = np.asarray(shift_prior(rows.probabilities, old, new))
    rule, labels = model.decision_, ordered_labels(model)
    if rows.policy.empty:  # also of rules that take no policy
        made = decide(moved, rule, labels, costs=rows.class_costs)
    else:
        policy = dataclasses.replace(rows.policy, prior=new)
        made = decide(rows.probabilities, rule, labels, costs=rows.class_costs, policy=policy)
    again = float(np.mean(as_host(rows.action_costs.expected(moved, made.actions))))
    return ShiftedCosts(float(rows.expected_costs(moved).mean()), again)


# samples with labels


def _labelled(
    model: Any, rows: ScoredRows, prior: PriorShift | None, level: float, names: tuple[str, ...], *, as_estimated: bool
) -> Labelled | None:
    if not rows.has_label.any():
        return None
    own = rows.take(rows.has_label)
    incurred = own.incurred_costs
    cost = mean_interval(incurred, groups=own.groups, level=level)
    # the estimate is of decisions among the classes
    estimated = getattr(model, "estimated_cost_", None) if as_estimated and rows.policy.empty else None
    one_threshold = own.probabilities.ndim == 1 and own.action_costs.n_instances is None and rows.policy.empty
    threshold = None
    if one_threshold and 0 < own.labels.sum() < len(own.labels):
        threshold = tune_threshold(own.probabilities, own.labels, own.action_costs, level=level).threshold
    retuned, limits = _retuned_costs(model, rows, own), model.decision_.constraints
    shares = tuple(
        mean_interval((own.labels == k).astype(np.float64), groups=own.groups, level=level)
        for k in range(own.action_costs.n_classes)
    )
    actions = names if own.action_costs.square else own.action_costs.actions or ()
    return Labelled(
        cost=cost,
        estimated=estimated,
        excess=None if estimated is None else independent_difference(cost, estimated, level=level),
        calibration_error=expected_calibration_error(own.shifted, own.labels),
        calibration_error_training=getattr(model, "calibration_error_", None),
        saving=None if retuned is None else mean_interval(incurred - retuned, groups=own.groups, level=level),
        threshold=threshold,
        current_threshold=model.decision_.threshold_for(own.action_costs) if one_threshold else None,
        prior=shares,
        prior_shifted=_prior_shifted_by_labels(model, prior, shares, level),
        constant=None if limits is not None else _constant(own, retuned, actions, level, model),
        constraints=_check_constraints(limits, own, level),
    )


def _check_constraints(limits: Constraints | None, own: ScoredRows, level: float) -> tuple[ConstraintCheck, ...]:
    """Return what the constraints of a model are on samples with labels."""
    if limits is None:
        return ()
    positive, called = own.labels == 1, own.decided == 1
    every = np.ones(len(positive), dtype=bool)
    measured = {
        "min_recall": (called, positive),
        "min_precision": (positive, called),
        "max_fpr": (called, ~positive),
        "max_positive_rate": (called, every),
    }
    checks = []
    for name, required in limits.given.items():
        hits, among = measured[name]
        if among.any():
            now = _share(hits[among], None if own.groups is None else own.groups[among], level)
            checks.append(ConstraintCheck(name, required, now, int(among.sum())))
    if own.segments is not None and limits.min_recall is not None:
        names = own.segments.astype(str)
        for name in np.unique(names[positive]).tolist():
            among = positive & (names == name)
            now = _share(called[among], None if own.groups is None else own.groups[among], level)
            checks.append(ConstraintCheck(f"min_recall of {name}", limits.min_recall, now, int(among.sum())))
    return tuple(checks)


def _share(hits: NDArray[np.bool_], groups: NDArray[np.int64] | None, level: float) -> Interval:
    """Return a share with its exact interval; of groups, with that of the bootstrap."""
    if groups is not None:
        return mean_interval(hits.astype(np.float64), groups=groups, level=level)
    x, n, error = int(hits.sum()), len(hits), (1.0 - level) / 2.0
    return Interval(x / n, 1.0 - upper_bound(n - x, n, error), upper_bound(x, n, error))


def _retuned_costs(model: Any, rows: ScoredRows, own: ScoredRows) -> NDArray[np.float64] | None:
    """Return the cost of each labelled sample under a decision rule that was fitted on the other half of them."""
    if model.decision_.decide in ("negative", "positive"):
        return None
    numbers = np.flatnonzero(rows.has_label)

    def incurred(fresh: Decision, some: NDArray[np.bool_]) -> Any:
        # under a capacity all samples compete
        sample_costs = None if rows.class_costs.n_instances is None else rows.class_costs
        probabilities = fresh.probabilities(rows.scores, costs=sample_costs)
        made = decide(probabilities, fresh, ordered_labels(model), costs=rows.class_costs, policy=rows.policy)
        return made.costs.rows(numbers[some]).incurred(rows.labels[numbers[some]], made.actions[numbers[some]])

    return costs_retuned(
        model.decision_, own.scores, own.labels, own.class_costs, decide=retuning_method(model.decision_),
        groups=own.groups, segments=own.segments, incurred=None if rows.policy.empty else incurred,
    )  # fmt: skip


def _prior_shifted_by_labels(
    model: Any, prior: PriorShift | None, shares: tuple[Interval, ...], level: float
) -> bool | None:
    """Return whether the prior among labelled samples differs significantly from that behind the decisions."""
    scores = reference_scores(model)
    if prior is None or scores is None or getattr(model.decision_, "prior", None) is None:
        return None
    if prior.assumed is prior.now:
        return False
    then = prior.then if prior.assumed is None else prior.assumed
    rows = known(scores).sum() if prior.assumed is None else np.inf
    half = 1.96 * np.sqrt(then * (1.0 - then) / rows)
    before = (Interval(float(p), float(p - h), float(p + h)) for p, h in zip(then, half, strict=True))
    differences = [independent_difference(now, then, level=level) for now, then in zip(shares, before, strict=True)]
    return any(each.low > 0 or each.high < 0 for each in differences)


def _constant(
    own: ScoredRows, retuned: NDArray[np.float64] | None, names: Sequence[str], level: float, model: Any
) -> Constant | None:
    """Return the best constant decision; an action with a capacity is none."""
    if np.bincount(own.labels, minlength=own.action_costs.n_classes).min() < FEWEST:
        return None
    possible = list(range(own.action_costs.n_actions))
    if own.policy.capacity is not None:
        possible.remove(limited_action(own.policy, own.action_costs, ordered_labels(model)))
    costs = [own.costs_of(np.full_like(own.labels, action)) for action in possible]
    best = int(np.argmin([each.mean() for each in costs]))
    saving = mean_interval(own.incurred_costs - costs[best], groups=own.groups, level=level)
    again = None if retuned is None else mean_interval(retuned - costs[best], groups=own.groups, level=level)
    return Constant(str(names[possible[best]]), float(costs[best].mean()), saving, again)


# time windows


def _windows(
    rows: ScoredRows, times: NDArray[Any] | None, reference: NDArray[np.float64] | None, level: float,
    limits: Constraints | None,
) -> tuple[Window, ...]:  # fmt: skip
    if times is None:
        return ()
    numbers, names = time_windows(times)
    return tuple(_window(name, rows.take(numbers == k), reference, level, limits) for k, name in enumerate(names))


def _window(
    name: str, own: ScoredRows, reference: NDArray[np.float64] | None, level: float, limits: Constraints | None
) -> Window:
    labelled = own.take(own.has_label)
    has_labels = len(labelled.labels) > 0
    return Window(
        name=name,
        rows=len(own.labels),
        labelled=len(labelled.labels),
        cost=mean_interval(labelled.incurred_costs, groups=labelled.groups, level=level) if has_labels else None,
        expected=float(own.expected_costs(own.shifted).mean()),
        decided=np.bincount(own.decided, minlength=own.action_costs.n_actions) / len(own.decided),
        psi=None if reference is None else score_shift(reference, own.probabilities, level=level).psi,
        constraints=_check_constraints(limits, labelled, level),
    )
