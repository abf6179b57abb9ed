"""One step of the controller: by how much the weight moves, what a step has measured, and steps read from a state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

ODDS_LIMITS = (1e-6, 1.0 - 1e-6)
"""The odds of thresholds at 0 and 1 are 0 and infinite: the exact odds update looks at thresholds inside these."""

CLASS_FIELDS = ("lambdas", "multipliers", "weights")


@dataclass(frozen=True)
class Adjustment:
    """What one step of the controller measured and decided.

    Attributes
    ----------
    lambda_ : float
        The accumulated correction, after this step.
    factor : float
        What lambda was multiplied by; exactly 1 where T' already is a cheapest threshold of every subgroup.
    weight : float
        Weight of the negative class in the loss, after this step.
    thresholds, sizes : tuple of float
        Cheapest threshold T_m and number of samples (or their weight) of each non-empty subgroup.
    cost : float
        Mean validation cost of deciding at T': what the classifier would cost if training stopped now.
    converged : bool
        Whether lambda moved by less than the tolerance.
    """

    lambda_: float
    factor: float
    weight: float
    thresholds: tuple[float, ...]
    sizes: tuple[float, ...]
    cost: float
    converged: bool

    @property
    def threshold(self) -> float:
        """The cheapest threshold: the mean over the subgroups, by their size."""
        return sum(t * n for t, n in zip(self.thresholds, self.sizes, strict=True)) / sum(self.sizes)

    @property
    def logged(self) -> dict[str, float]:
        """What callbacks log beside the cost."""
        return {"lambda": self.lambda_, "threshold": self.threshold}


@dataclass(frozen=True)
class ClassAdjustment:
    """What one step of the controller of more than two classes measured and decided.

    Attributes
    ----------
    lambdas : tuple of float
        The accumulated correction of each class, after this step; their geometric mean is 1 unless a bound cuts one.
    multipliers : tuple of float
        What the scores of each class must be multiplied by to be cheapest; all 1 where they already are.
    weights : tuple of float
        Weight of each class in the loss, after this step.
    cost : float
        Mean validation cost of the decisions: what the classifier would cost if training stopped now.
    converged : bool
        Whether no lambda moved by more than the tolerance.
    """

    lambdas: tuple[float, ...]
    multipliers: tuple[float, ...]
    weights: tuple[float, ...]
    cost: float
    converged: bool

    @property
    def logged(self) -> dict[str, float]:
        """What callbacks log beside the cost: how far apart the lambdas are."""
        return {"lambda_min": min(self.lambdas), "lambda_max": max(self.lambdas)}


def step_factor(
    threshold: float, target: float = 0.5, *, update: Literal["exponential", "odds"] = "exponential"
) -> float:
    r"""Return what the negatives' weight must be multiplied by for ``threshold`` to move to ``target``.

    .. math:: \exp\frac{T_m - T'}{T'(1 - T')} \quad\text{(eq. 7)}\qquad\text{or}\qquad
       \frac{T_m}{1 - T_m} \cdot \frac{1 - T'}{T'} \quad\text{(exact)}

    Examples
    --------
    >>> step_factor(0.5)
    1.0
    >>> round(step_factor(0.6), 4), round(step_factor(0.6, update="odds"), 4)
    (1.4918, 1.5)
    """
    if threshold == target:
        return 1.0
    if update == "odds":
        # T' itself may lie outside: then the limits reach as far
        inside = min(max(threshold, min(ODDS_LIMITS[0], target)), max(ODDS_LIMITS[1], target))
        return inside / (1.0 - inside) * (1.0 - target) / target
    # T' near 0 or 1 can ask for e^1000: the clip keeps the product with lambda finite
    return math.exp(min(max((threshold - target) / (target * (1.0 - target)), -300.0), 300.0))


def check_state(state: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raise unless a saved state is whole and comes from a controller with these settings."""
    if not isinstance(state, dict) or set(state) != {"version", "settings", "lambda", "history"}:
        raise ValueError(
            "this is no state of an AdaptiveWeight: expected the keys version, settings, lambda and history, "
            f"got {sorted(state) if isinstance(state, dict) else type(state).__name__}"
        )
    if state["version"] != 1:
        raise ValueError(f"the state has version {state['version']!r}, this adacsl reads version 1: update adacsl")
    if not isinstance(state["settings"], dict):
        raise ValueError(  # noqa: TRY004  the type is right, its content is not
            f"the saved settings must be a dict, got {state['settings']!r}: the state is damaged"
        )
    saved_settings = {"caution": 0.0, "row_weighted": False, "until": "end"} | state["settings"]  # later additions
    for name, value in settings.items():
        if saved_settings.get(name) != value:
            raise ValueError(
                f"the state was saved with {name}={saved_settings.get(name)!r}, this controller has "
                f"{name}={value!r}; make the controller with the saved settings"
            )
    saved, (low, high) = state["lambda"], settings["bounds"]
    k = len(settings["costs"]["costs"][0])
    # of two classes one number: what the negatives' weight was multiplied by
    numbers = saved if k > 2 and isinstance(saved, list) and len(saved) == k else [saved]
    if any(isinstance(v, bool) or not isinstance(v, float | int) or not low <= v <= high for v in numbers) or (
        k > 2 and len(numbers) != k
    ):
        wanted = "a number" if k == 2 else f"{k} numbers"
        raise ValueError(
            f"the saved lambda must be {wanted} from {low:g} to {high:g}, got {saved!r}: the state is damaged"
        )


def read_history(rows: Any, n_classes: int = 2) -> list[Any]:
    """Return the steps of a saved state."""
    kind, tuples = (Adjustment, ("thresholds", "sizes")) if n_classes == 2 else (ClassAdjustment, CLASS_FIELDS)
    try:
        return [kind(**(row | {name: tuple(map(float, row[name])) for name in tuples})) for row in rows]
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(f"the saved history cannot be read ({error!r}): the state is damaged") from error
