"""Exact cost-optimal thresholds, curves over thresholds, and their uncertainty."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.thresholds.constraints import Certified, Constraints, InfeasibleError
    from adacsl.thresholds.curves import brier_curve, decision_curve, optimal_cost_curve
    from adacsl.thresholds.multiclass import Multipliers, find_multipliers
    from adacsl.thresholds.search import CostCurve, Threshold, cost_curve, find_threshold, paper_grid
    from adacsl.thresholds.streaming import CostHistogram

_PLACES = {
    "Certified": "adacsl.thresholds.constraints",
    "Constraints": "adacsl.thresholds.constraints",
    "CostCurve": "adacsl.thresholds.search",
    "CostHistogram": "adacsl.thresholds.streaming",
    "InfeasibleError": "adacsl.thresholds.constraints",
    "Multipliers": "adacsl.thresholds.multiclass",
    "Threshold": "adacsl.thresholds.search",
    "brier_curve": "adacsl.thresholds.curves",
    "cost_curve": "adacsl.thresholds.search",
    "decision_curve": "adacsl.thresholds.curves",
    "find_multipliers": "adacsl.thresholds.multiclass",
    "find_threshold": "adacsl.thresholds.search",
    "optimal_cost_curve": "adacsl.thresholds.curves",
    "paper_grid": "adacsl.thresholds.search",
}

__all__ = [
    "Certified",
    "Constraints",
    "CostCurve",
    "CostHistogram",
    "InfeasibleError",
    "Multipliers",
    "Threshold",
    "brier_curve",
    "cost_curve",
    "decision_curve",
    "find_multipliers",
    "find_threshold",
    "optimal_cost_curve",
    "paper_grid",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "sklearn")
