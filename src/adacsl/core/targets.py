"""Where the loop starts and how far it may go: T' as numbers and words, bounds of lambda, labels it can learn from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from adacsl.core.arrays import Array, count_true, number_or_nan
from adacsl.core.costs import CostMatrix, no_costs
from adacsl.core.thresholds import check_target

LAMBDA_BOUNDS = (1e-3, 1e3)
"""lambda stays within these unless told otherwise: a net that has stopped to react would let it run away."""

LAMBDA_LIMITS = (1e-30, 1e30)
"""lambda multiplies from epoch to epoch: no bounds may be wider than these."""

TARGET_LIMITS = (1e-30, 1.0 - 1e-7)
"""Costs as unequal as 1e9 to 1e-9 have a threshold that a float32 rounds to 1, and others to 0."""

POWERS = {"bayes": 0.0, "middle": 0.5, "half": 1.0}
"""How far the loss of K classes is weighted by their mean costs: not at all, in between, fully (T' = 0.5 of two)."""

MOST_DAMPING = 2.0
"""With a greater exponent each step overshoots by more than it corrects: lambda would swing ever wider."""

CHOICES = {
    "update": ("exponential", "odds"), "search": ("everywhere", "subgroup"), "ties": ("nearest", "lowest"),
    "until": ("end", "converged"),
}  # fmt: skip

TWO_CLASSES_ONLY = {"search": "everywhere", "ties": "nearest", "candidates": None, "partition": None}
"""Settings that speak of thresholds, and what they are where there are none."""


def check_class_wide(costs: CostMatrix) -> None:
    """Raise unless these are costs of classes, not of single samples."""
    if not isinstance(costs, CostMatrix):
        raise no_costs(costs)
    if costs.n_instances is not None:
        raise ValueError(
            "the controller holds one weight for all samples: give class-wide costs, for instance "
            "costs.averaged(), and pass the costs of the validation samples to step(..., costs=...)"
        )


def check_choice(name: str, value: Any) -> None:
    """Raise unless a setting is one of the words it can be."""
    if value not in CHOICES[name]:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, CHOICES[name]))}, got {value!r}")


def check_speed(damping: Any, tolerance: Any) -> None:
    """Raise unless these are numbers that a loop can settle with."""
    if not 0.0 < number_or_nan(damping) <= MOST_DAMPING:
        raise ValueError(f"damping must be a positive number of at most {MOST_DAMPING:g}, got {damping!r}")
    if not 0.0 < number_or_nan(tolerance) < math.inf:
        raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")


def check_targets(target: float | str | None, costs: CostMatrix) -> float | str:
    """Return T' of two classes as a number, of more as a word."""
    if costs.n_classes == 2:
        return two_class_target(0.5 if target is None else target, costs)
    target = "bayes" if target is None else "half" if target == 0.5 else target
    if not isinstance(target, str) or target not in POWERS:
        raise ValueError(
            f"with {costs.n_classes} classes target is one of {', '.join(map(repr, POWERS))} (0.5 is 'half'), "
            f"got {target!r}"
        )
    return target


def two_class_target(target: float | str, costs: CostMatrix) -> float:
    """Return T' as a number: one between 0 and 1, or what a word means for these costs.

    Examples
    --------
    >>> two_class_target("middle", CostMatrix(fp=1, fn=4))
    0.3333333333333333
    """
    if not isinstance(target, str):
        return check_target(target)
    bayes = min(max(float(costs.threshold), TARGET_LIMITS[0]), TARGET_LIMITS[1])
    middle = math.sqrt(bayes / (1.0 - bayes))
    named = {"bayes": bayes, "middle": middle / (1.0 + middle), "half": 0.5}
    if target not in named:
        raise ValueError(
            f"target must be a number between 0 and 1 or one of {', '.join(map(repr, POWERS))}, got {target!r}"
        )
    return named[target]


def refuse_thresholds(costs: CostMatrix, *settings: Any) -> None:
    """Raise where a setting speaks of thresholds, which more than two classes do not have."""
    for (name, usual), value in zip(TWO_CLASSES_ONLY.items(), settings, strict=True):
        if value is not None and (usual is None or value != usual):
            raise ValueError(f"{name} is for two classes, these costs have {costs.n_classes}: leave it out")


def check_both_classes(labels: Array, weight: Array | None) -> None:
    """Raise unless at least two classes have samples that count."""
    labels = labels if weight is None else labels[weight > 0]
    n, first = labels.shape[0], count_true(labels == labels[0]) if labels.shape[0] else 0
    if first == n:
        both = "both classes" if labels.dtype == array_namespace(labels).bool else "at least two classes"
        raise ValueError(
            f"adaptation needs {both} in the validation set, but all {n} labels are {int(labels[0])}; "
            "use a larger or stratified validation set"
        )


def check_bounds(bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return the limits of lambda, which enclose 1, or raise."""
    given = LAMBDA_BOUNDS if bounds is None else bounds
    low, high = map(number_or_nan, given) if np.shape(given) == (2,) else (math.nan, math.nan)
    if not (LAMBDA_LIMITS[0] <= low <= 1.0 <= high <= LAMBDA_LIMITS[1]):
        raise ValueError(f"bounds must enclose lambda's start, low <= 1 <= high within {LAMBDA_LIMITS}, got {bounds!r}")
    return low, high
