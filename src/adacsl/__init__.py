"""adacsl: classifiers that minimise cost, not error.

Costs, thresholds, the controller and the metrics need numpy only. The classifiers, ``load`` and ``compare`` are
imported when first asked for: ``import adacsl`` loads no torch.
"""

from typing import TYPE_CHECKING, Any

from adacsl.core.control import AdaptiveWeight, Adjustment, step_factor
from adacsl.core.costs import CostMatrix
from adacsl.core.curves import brier_curve, calibration_error, decision_curve, optimal_cost_curve
from adacsl.core.intervals import Interval, cost_difference_interval, cost_interval
from adacsl.core.partitions import EqualWidth, Partition, Quantile, Whole
from adacsl.core.thresholds import CostCurve, Threshold, cost_curve, find_threshold, paper_grid
from adacsl.extras import requires

if TYPE_CHECKING:
    from adacsl.estimators.adaptive import AdaptiveCostClassifier
    from adacsl.estimators.boosting import AdaCSLBoostingClassifier
    from adacsl.estimators.classifier import AdaCSLClassifier
    from adacsl.estimators.persistence import load
    from adacsl.experiments.comparison import Comparison, compare, load_comparison
    from adacsl.experiments.recipes import RECIPES, Recipe

__version__ = "0.1.0"

# where a name lives that needs a framework, and the extra that brings the framework
_LAZY = {
    "AdaCSLBoostingClassifier": ("adacsl.estimators.boosting", "boosting"),
    "AdaCSLClassifier": ("adacsl.estimators.classifier", "train"),
    "AdaptiveCostClassifier": ("adacsl.estimators.adaptive", "sklearn"),
    "Comparison": ("adacsl.experiments.comparison", "compare"),
    "RECIPES": ("adacsl.experiments.recipes", "compare"),
    "Recipe": ("adacsl.experiments.recipes", "compare"),
    "compare": ("adacsl.experiments.comparison", "compare"),
    "load_comparison": ("adacsl.experiments.comparison", "compare"),
    "load": ("adacsl.estimators.persistence", "train"),
}

__all__ = [
    "RECIPES",
    "AdaCSLBoostingClassifier",
    "AdaCSLClassifier",
    "AdaptiveCostClassifier",
    "AdaptiveWeight",
    "Adjustment",
    "Comparison",
    "CostCurve",
    "CostMatrix",
    "EqualWidth",
    "Interval",
    "Partition",
    "Quantile",
    "Recipe",
    "Threshold",
    "Whole",
    "__version__",
    "brier_curve",
    "calibration_error",
    "compare",
    "cost_curve",
    "cost_difference_interval",
    "cost_interval",
    "decision_curve",
    "find_threshold",
    "load",
    "load_comparison",
    "optimal_cost_curve",
    "paper_grid",
    "step_factor",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'adacsl' has no attribute {name!r}")
    import importlib  # noqa: PLC0415

    module, extra = _LAZY[name]
    with requires(extra):
        return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
