"""The decision rule re-tuned on later samples, and its cost."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.held_out import halves
from adacsl.base.arrays import as_host
from adacsl.base.scores import log_odds, sigmoid
from adacsl.costs.instance import row_offsets
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import training_prior
from adacsl.decision.rule import Decision, check_decide
from adacsl.metrics.calibration import expected_calibration_error
from adacsl.metrics.intervals import mean_interval, saving_over_constant
from adacsl.monitoring.scored_rows import score_rows
from adacsl.thresholds.constraints import InfeasibleError

FEWEST = 10
"""The fewest samples of each class for re-tuning."""

HALVINGS = {"tuned": 20, "calibrated": 3}
"""How often the samples are halved for each kind of decision rule; calibration takes longer."""


def retuning_method(decision: Decision, decide: str | None = None) -> str:
    """Return the ``decide`` of a re-tuned rule: as the rule was fitted, else "tuned".

    Parameters
    ----------
    decision : Decision
        The rule of the deployed model.
    decide : {"tuned", "calibrated"}, optional
        What the caller asks for.

    Raises
    ------
    ValueError
        Where a constant baseline has nothing to re-tune, or ``decide`` fits nothing.
    """
    if decision.decide in ("negative", "positive"):
        raise ValueError(f"this method always predicts {decision.decide}: there is nothing to re-tune")
    if decide is None:
        return decision.decide if decision.decide in HALVINGS else "tuned"
    if check_decide(decide) not in HALVINGS:
        raise ValueError(f"decide={decide!r} fits nothing to the samples; use {' or '.join(map(repr, HALVINGS))}")
    return decide


def refit_decision(
    decision: Decision, scores: NDArray[Any], labels: NDArray[Any], costs: CostMatrix, decide: str,
    segments: NDArray[Any] | None = None,
) -> Decision:  # fmt: skip
    """Return a decision rule for the same scores, fitted on these samples.

    Parameters
    ----------
    decision : Decision
        The rule of the deployed model.
    scores, labels : arrays
        Scores of the model and class numbers.
    costs : CostMatrix
        Costs of these samples.
    decide : {"tuned", "calibrated"}
        What is fitted.
    segments : array of shape (n,), optional
        Within which the recall is constrained.
    """
    fresh = copy.copy(decision)
    sample_costs = None if costs.n_instances is None else costs
    if decision.constraints is not None:  # scores stay calibrated as they are: these samples certify
        fresh.prior = training_prior(labels, costs.n_classes, None)
        return fresh.certify(scores, labels, costs=sample_costs, segments=segments)
    fresh.decide, fresh.mapped, fresh.calibration_ = decide, decision.target_threshold, None
    fresh.prior = training_prior(labels, costs.n_classes, None)
    return fresh.fit(scores, labels, costs=sample_costs)


def decision_confidence(decision: Decision) -> float | None:
    """Return the confidence of a rule's constraints; None without one."""
    return None if decision.constraints is None else decision.constraints.confidence


def costs_retuned(
    decision: Decision, scores: NDArray[Any], labels: NDArray[Any], costs: CostMatrix, *, decide: str,
    groups: NDArray[Any] | None = None, incurred: Callable[[Decision, NDArray[np.bool_]], Any] | None = None,
    seed: int = 0, segments: NDArray[Any] | None = None,
) -> NDArray[np.float64] | None:  # fmt: skip
    """Return the cost of each sample under rules that were fitted on the other half, the mean over random halves.

    Parameters
    ----------
    decision : Decision
        The rule of the deployed model.
    scores, labels : arrays
        Scores of the model and class numbers.
    costs : CostMatrix
        Costs of these samples.
    decide : {"tuned", "calibrated"}
        What is fitted.
    groups : array of shape (n,), optional
        Numbers of groups; no group is in both halves.
    incurred : callable, optional
        ``incurred(rule, samples)`` returns the costs of some samples under a policy; default: those of predicted
        classes.
    seed : int, default 0
        Seed of the halves.
    segments : array of shape (n,), optional
        Within which the recall is constrained.

    Returns
    -------
    array of shape (n,) or None
        None where a class has too few samples, or half of them do not certify the constraints.
    """

    def among_classes(fresh: Decision, some: NDArray[np.bool_]) -> Any:
        own = costs.rows(some)
        return own.incurred(labels[some], fresh.predict(scores[some], costs=own))

    incurred = among_classes if incurred is None else incurred
    if np.bincount(labels, minlength=costs.n_classes).min() < FEWEST:
        return None
    rng, total, times = np.random.default_rng(seed), np.zeros(len(labels)), HALVINGS[decide]
    for _ in range(times):
        order = rng.permutation(len(labels))
        second = np.empty(len(labels), dtype=bool)
        second[order] = halves(labels[order], None if groups is None else groups[order])
        for fitted, judged in ((second, ~second), (~second, second)):
            if not fitted.any() or not judged.any():
                return None  # a single group
            try:
                own = None if segments is None else segments[fitted]
                fresh = refit_decision(decision, scores[fitted], labels[fitted], costs.rows(fitted), decide, own)
            except InfeasibleError:  # on half of the samples
                return None
            total[judged] += as_host(incurred(fresh, judged))
    return total / times


def retune(
    model: Any, X: Any, y: Any, costs: CostMatrix | None, *, decide: str | None = None, groups: Any = None  # noqa: N803
) -> Any:  # fmt: skip
    """Return a copy of a model whose decision rule is re-tuned on labelled samples.

    Its estimates and reference scores are those of the samples, too.

    Parameters
    ----------
    model : CostSensitiveClassifier
        Fitted; it stays as it is.
    X : table or images
        Samples, in the form that ``predict`` expects.
    y : array of shape (n,)
        Labels, None or NaN where unknown.
    costs : CostMatrix or None
        Costs of the samples; None: the class-wide costs of the model.
    decide : {"tuned", "calibrated"}, optional
        What is fitted; default: as the model's rule, else "tuned".
    groups : array of shape (n,), optional
        Samples of one group are not independent.

    Returns
    -------
    CostSensitiveClassifier

    Raises
    ------
    ValueError
        Where a class has fewer than ten labelled samples, or all samples are of one group.
    """
    decide = retuning_method(model.decision_, decide)
    rows = score_rows(model, X, y, costs, groups)
    rows = rows.take(rows.has_label)
    scores, labels, costs, groups = rows.scores, rows.labels, rows.class_costs, rows.groups
    if np.bincount(labels, minlength=costs.n_classes).min() < FEWEST:
        raise ValueError(
            f"re-tuning needs at least {FEWEST} labelled samples of each class, got "
            f"{np.bincount(labels, minlength=costs.n_classes).tolist()}"
        )
    fresh = copy.copy(model)
    if groups is not None and decision_confidence(model.decision_) is not None:
        raise ValueError("constraints with confidence need independent samples: leave out groups")
    fresh.decision_ = refit_decision(model.decision_, scores, labels, costs, decide, rows.segments)
    each = costs_retuned(model.decision_, scores, labels, costs, decide=decide, groups=groups, segments=rows.segments)
    if each is None and model.decision_.constraints is not None:
        raise ValueError(
            "re-tuning needs so many samples that each half of them certifies the constraints: one half chooses the "
            "threshold, the other measures its cost"
        )
    if each is None:
        raise ValueError("re-tuning needs samples of at least two groups: one to fit the rule, one to measure its cost")
    fresh.estimated_cost_ = mean_interval(each, groups=groups)
    fresh.saving_ = saving_over_constant(costs, labels, each, groups=groups)
    fresh.oof_scores_, fresh.reference_scores_ = scores, class_wide_scores(model.decision_, scores, costs)
    probabilities = fresh.decision_.probabilities(fresh.reference_scores_)
    fresh.calibration_error_ = expected_calibration_error(probabilities, labels)
    return fresh


def class_wide_scores(decision: Decision, scores: NDArray[Any], costs: CostMatrix) -> NDArray[np.float64]:
    """Return the scores that the samples would have under the class-wide costs, from those under per-sample costs."""
    if not decision.instance_weighted or costs.n_instances is None:
        return scores
    offsets = row_offsets(costs, decision.costs)
    if scores.ndim == 1:
        return sigmoid(np.clip(log_odds(scores), -700.0, 700.0) + offsets)
    freed = scores * np.exp(offsets)
    return np.asarray(freed / freed.sum(axis=1, keepdims=True))
