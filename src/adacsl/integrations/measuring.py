"""What the callbacks of all frameworks share: their settings, and one validation's numbers."""

from __future__ import annotations

import copy
from typing import NamedTuple

from adacsl.core.arrays import Array
from adacsl.core.control import AdaptiveWeight
from adacsl.core.costs import CostMatrix


class Measurement(NamedTuple):
    """What is logged after a validation: cost at T', lambda, and the cheapest threshold (mean over subgroups)."""

    cost: float
    lambda_: float
    threshold: float


def check_settings(controller: AdaptiveWeight | None, every: int) -> None:
    """Raise unless these are a controller (or None) and a whole number of at least 1."""
    if controller is not None and not isinstance(controller, AdaptiveWeight):
        raise TypeError(f"controller must be an AdaptiveWeight, got {controller!r}")
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every must be a whole number of at least 1, got {every!r}")


def measure(
    controller: AdaptiveWeight,
    scores: Array,
    labels: Array,
    *,
    adapt: bool = True,
    costs: CostMatrix | None = None,
    sample_weight: Array | None = None,
) -> Measurement:
    """Measure the validation set; with ``adapt`` the controller steps, else lambda stays as it is."""
    # measured by a copy, which is thrown away: the same numbers
    stepped = controller if adapt else copy.deepcopy(controller)
    step = stepped.step(scores, labels, costs=costs, sample_weight=sample_weight)
    threshold = sum(t * n for t, n in zip(step.thresholds, step.sizes, strict=True)) / sum(step.sizes)
    return Measurement(step.cost, controller.lambda_, threshold)


__all__ = ["Measurement", "check_settings", "measure"]
