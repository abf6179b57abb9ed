"""Settings of controllers and learners that travel as one value."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

import numpy as np

from adacsl.adaptive.controller import POWERS, TARGET_LIMITS, AdaCSLController, check_targets, two_class_target
from adacsl.base.arrays import number_or_nan
from adacsl.base.extras import requires
from adacsl.base.scores import sigmoid
from adacsl.costs.instance import bayes_log_odds
from adacsl.costs.matrix import CostMatrix

with requires("sklearn"):
    from sklearn.base import BaseEstimator


TARGETS = (*POWERS, "auto")
CONTROLLER_SETTINGS = (
    "partition",
    "update",
    "damping",
    "bounds",
    "n_standard_errors",
    "candidates",
    "tolerance",
    "search",
    "ties",
    "until",
)
"""Settings of a controller besides costs and target threshold, which are those of the classifier."""


def inside(value: Any) -> dict[str, Any]:
    """Return the settings that a value holds."""
    if isinstance(value, AdaCSLController):
        return settings_of(value)
    return dict(value) if isinstance(value, dict) else {}


def settings_of(controller: AdaCSLController) -> dict[str, Any]:
    """Return the settings of a controller."""
    return {name: getattr(controller, name) for name in CONTROLLER_SETTINGS}


def make_controller(
    given: Any, costs: CostMatrix, target_threshold: float, usual: dict[str, Any], *, still: bool = False,
    instance_weighted: bool = False,
) -> AdaCSLController:  # fmt: skip
    """Return a fresh controller from what the user gave: ``"auto"``, a dict, or an AdaCSLController to be like.

    ``usual`` is what "auto" stands for; ``still`` keeps lambda at 1; ``instance_weighted`` is the method's loss.
    """
    if isinstance(given, AdaCSLController):
        chosen = settings_of(given)
    elif given in ("auto", None):
        chosen = dict(usual)
    elif isinstance(given, dict):
        if unknown := [name for name in given if name not in CONTROLLER_SETTINGS]:
            raise ValueError(f"a controller has no setting {unknown[0]!r}; it has {', '.join(CONTROLLER_SETTINGS)}")
        chosen = usual | given
    else:
        raise TypeError(f"controller must be None, 'auto', a dict of settings or an AdaCSLController, got {given!r}")
    chosen |= {"bounds": (1.0, 1.0)} if still else {}
    return AdaCSLController(costs, target_threshold=target_threshold, instance_weighted=instance_weighted, **chosen)


def find_targets(target_threshold: Any, costs: CostMatrix) -> list[Any]:
    """Return T' as numbers (of more than two classes: as words): one, or all that ``"auto"`` tries.

    None is 0.5 with two classes, and "bayes" with more: large weights harm training.

    Examples
    --------
    >>> find_targets("auto", CostMatrix(fp=1, fn=4))
    [0.5, 0.3333333333333333, 0.2]
    """
    several = ["half", "middle", "bayes"] if target_threshold == "auto" else [target_threshold]
    if costs.n_classes > 2:
        return [check_targets(one, costs) for one in several]
    given = 0.5 if target_threshold is None else target_threshold
    if target_threshold != "auto" and (isinstance(given, str) and given not in POWERS):
        raise ValueError(
            f"target_threshold must be a number or one of {', '.join(map(repr, TARGETS))}, got {target_threshold!r}"
        )
    if not isinstance(given, str) and not 0.0 < number_or_nan(given) < 1.0:
        known = ", ".join(map(repr, TARGETS))
        raise ValueError(
            f"target_threshold must be a number between 0 and 1 or one of {known}, got {target_threshold!r}"
        )
    return list(dict.fromkeys(two_class_target(0.5 if one is None else one, costs) for one in several))


def natural_threshold(costs: CostMatrix, shift: Any) -> Any:
    """Return the score that means the Bayes threshold, where ``shift`` turns its log-odds into the probability's.

    Of more than two classes: what each score is divided by.
    """
    if costs.n_classes > 2:
        return np.exp(-np.broadcast_to(shift, costs.n_classes))
    return float(np.clip(sigmoid(bayes_log_odds(costs) - shift), *TARGET_LIMITS))


def keeps_settings(init: Any) -> Any:
    """Decorate a constructor that stores its arguments unchanged, as scikit-learn requires."""
    own = {name: each.default for name, each in [*inspect.signature(init).parameters.items()][1:]}

    @functools.wraps(init)
    def keep(self: Any, *args: Any, **given: Any) -> None:
        init(self, *args, **given)  # raises where a name is no parameter
        for name, value in (own | dict(zip(own, args, strict=False)) | given).items():
            setattr(self, name, value)

    return keep


def in_full(value: Any) -> str:
    """Return the settings of an estimator as text that is not shortened."""
    return str(value.__repr__(N_CHAR_MAX=sys.maxsize)) if isinstance(value, BaseEstimator) else repr(value)


def trained_with(source: Any, n_classes: int) -> dict[str, Any]:
    """Return lambda and weight of a controller, or after one of its steps, for the history: K classes have K each."""
    if n_classes == 2:
        return {"lambda": source.lambda_, "weight": source.weight}
    return {name: [float(value) for value in getattr(source, name)] for name in ("lambdas", "weights")}


def measured(step: Any, n_classes: int) -> dict[str, Any]:
    """Return the optimum of a step for the history: a threshold, or the multipliers of K classes."""
    return {"threshold": step.threshold} if n_classes == 2 else {"multipliers": list(step.multipliers)}
