"""Checks of a classifier's parameters before training."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from adacsl.base.arrays import number_or_nan
from adacsl.costs.matrix import CostMatrix, no_costs
from adacsl.decision.policy import Policy
from adacsl.decision.rule import check_decide
from adacsl.fitting.rows import example_costs
from adacsl.fitting.settings import find_targets, make_controller
from adacsl.thresholds.constraints import Constraints

RESAMPLE = (None, "oversample", "undersample", "smote")
WEIGHTED = ("weighted", "instance-weighted")
"""Losses with a weight for each class, which a controller can adapt."""
LOSSES = ("plain", *WEIGHTED, "focal", "logit-adjusted")
SELECT = ("best", "last", "log-loss")


def check_method(method: Any, learner: Any) -> None:
    """Raise where settings make no sense; the learner checks its own."""
    if method.decide != "auto":
        check_decide(method.decide)
    if method.select not in SELECT:
        raise ValueError(f"select must be one of {', '.join(map(repr, SELECT))}, got {method.select!r}")
    if method.costs is not None:
        _check_costs(method.costs, method.decide)
    if method.cv is None and method.validation is None:
        raise ValueError("validation must be a fraction between 0 and 1 or a pair (X, y), got None; or give cv=5")
    _check_loss(method)
    _check_parts(method, learner)
    like = example_costs(method.costs)
    targets = find_targets(method.target_threshold, like)
    if method.controller is not None:
        make_controller(method.controller, like, targets[0], {})
    if not (method.policy is None or isinstance(method.policy, Policy)):
        raise TypeError(f"policy must be a Policy such as Policy(refer=3, capacity=200), got {method.policy!r}")
    _check_constraints(method)
    _check_resume(method.resume)
    if isinstance(method.random_state, str | float | bool):
        raise TypeError(f"random_state must be a whole number, a RandomState or None, got {method.random_state!r}")
    if method.random_state is None and (method.resume is not None or _several_processes(learner)):
        what = "resume" if method.resume is not None else "training in several processes"
        raise ValueError(f"{what} needs random_state=a number: splits and weights must come out the same each time")


def _check_constraints(method: Any) -> None:
    if not (method.constraints is None or isinstance(method.constraints, dict)):
        raise TypeError(f'constraints must be a dict such as {{"min_recall": 0.9}}, got {method.constraints!r}')
    if Constraints.of(method.constraints) is None:
        return
    if not 0.0 < number_or_nan(method.certify) < 1.0:
        raise ValueError(f"certify must be a share of the samples between 0 and 1, got {method.certify!r}")
    if method.policy is not None and not method.policy.empty:
        raise ValueError(
            "a policy would move the threshold that the constraints certify: leave out policy, or constraints"
        )
    if method.costs is not None and method.costs.n_classes > 2:
        raise ValueError(f"constraints are for two classes, the costs have {method.costs.n_classes}")


def _check_resume(resume: Any) -> None:
    if not (resume is None or isinstance(resume, str | PathLike)):
        raise TypeError(f"resume must be the path of a folder, got {resume!r}")
    if resume is not None and Path(resume).exists() and not Path(resume).is_dir():
        raise ValueError(f"resume must be the path of a folder, and {resume} is a file")


def _check_costs(costs: Any, decide: str) -> None:
    if not isinstance(costs, CostMatrix):
        raise no_costs(costs)
    if costs.resolved and costs.n_instances is not None:
        raise ValueError(
            f"costs must hold one cost per outcome, got {costs!r}; "
            "give costs of each row to fit and predict: fit(X, y, fn=amounts)"
        )
    if not costs.square:
        raise ValueError(
            f"a classifier decides among the classes, the costs among {costs.n_actions} actions for "
            f"{costs.n_classes} classes: train with square costs, and give policy=Policy(actions=...) the others"
        )
    if costs.n_classes > 2 and decide in ("negative", "positive"):
        raise ValueError(f"decide={decide!r} is for two classes, the costs have {costs.n_classes}")


def _check_loss(method: Any) -> None:
    if method.resample not in RESAMPLE or not (callable(method.loss) or method.loss in LOSSES):
        raise ValueError(
            f"resample is one of {', '.join(map(str, RESAMPLE))}, loss one of {', '.join(LOSSES)} or a function; "
            f"got resample={method.resample!r}, loss={method.loss!r}"
        )
    if method.controller is not None and (method.loss not in WEIGHTED or method.resample is not None):
        raise ValueError(
            "a controller adapts a weight, so it needs loss='weighted' or 'instance-weighted' and no resample"
        )
    if method.resample is not None and method.loss != "plain":
        raise ValueError(f"resample={method.resample!r} goes with loss='plain'")
    if method.decide == "unweighted" and method.loss not in WEIGHTED:
        raise ValueError("decide='unweighted' undoes the weight of loss='weighted'")
    if method.target_threshold not in (None, 0.5) and method.loss not in (*WEIGHTED, "focal"):
        raise ValueError("target_threshold is for losses with a weight: 'weighted', 'instance-weighted' and 'focal'")


def _check_parts(method: Any, learner: Any) -> None:
    for_networks = method.resample is not None or method.loss not in ("plain", *WEIGHTED)
    if for_networks and not hasattr(learner, "module"):
        raise ValueError(
            "resample, focal, logit-adjusted and custom losses are for neural networks; "
            "put such steps inside the estimator"
        )
    if method.resample == "smote" and method.cv is not None:
        raise ValueError(
            "SMOTE mixes training rows, some of which a cross-fit holds out; use resample='oversample', or cv=None"
        )
    if (method.decide in ("negative", "positive")) != (not getattr(learner, "learns", True)):
        raise ValueError("decide='negative' and decide='positive' go with learner='constant'")


def _several_processes(learner: Any) -> bool:
    options = getattr(learner, "trainer", None) or {}
    return options.get("devices", 1) not in (1, "1", [0]) or options.get("num_nodes", 1) != 1
