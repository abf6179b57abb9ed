"""adacsl: classifiers that minimise cost, not error.

The names below need numpy only. Losses for PyTorch are in :mod:`adacsl.torch`; a framework is imported only by the
module that bears its name.
"""

from adacsl.core.control import AdaptiveWeight, Adjustment, step_factor
from adacsl.core.costs import CostMatrix
from adacsl.core.curves import brier_curve, calibration_error, decision_curve, optimal_cost_curve
from adacsl.core.intervals import Interval, cost_difference_interval, cost_interval
from adacsl.core.partitions import EqualWidth, Partition, Quantile, Whole
from adacsl.core.thresholds import CostCurve, Threshold, cost_curve, find_threshold, paper_grid

__version__ = "0.1.0"

__all__ = [
    "AdaptiveWeight",
    "Adjustment",
    "CostCurve",
    "CostMatrix",
    "EqualWidth",
    "Interval",
    "Partition",
    "Quantile",
    "Threshold",
    "Whole",
    "__version__",
    "brier_curve",
    "calibration_error",
    "cost_curve",
    "cost_difference_interval",
    "cost_interval",
    "decision_curve",
    "find_threshold",
    "optimal_cost_curve",
    "paper_grid",
    "step_factor",
]
