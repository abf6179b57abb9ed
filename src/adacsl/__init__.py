"""adacsl: classifiers that minimise cost, not error.

Costs, thresholds, the controller and the metrics need numpy only. The classifiers, ``load`` and ``compare`` are
imported when first asked for: ``import adacsl`` loads no torch.
"""

from typing import TYPE_CHECKING, Any

from adacsl.core.capacity import limit_action
from adacsl.core.control import AdaptiveWeight, Adjustment, ClassAdjustment, step_factor
from adacsl.core.costs import CostMatrix
from adacsl.core.curves import brier_curve, calibration_error, decision_curve, optimal_cost_curve
from adacsl.core.histogram import CostHistogram
from adacsl.core.intervals import Interval, cost_difference_interval, cost_interval
from adacsl.core.multipliers import Multipliers, find_multipliers
from adacsl.core.partitions import EqualWidth, Partition, Quantile, Whole
from adacsl.core.priors import estimate_prior, shift_prior
from adacsl.core.thresholds import CostCurve, Threshold, cost_curve, find_threshold, paper_grid
from adacsl.extras import requires

if TYPE_CHECKING:
    from adacsl.datasets.checks.checking import check
    from adacsl.datasets.checks.codes import Checks, Finding
    from adacsl.datasets.task import Task
    from adacsl.estimators.classifiers import AdaCSLBoostingClassifier, AdaCSLClassifier, AdaptiveCostClassifier
    from adacsl.estimators.decision import Decision
    from adacsl.estimators.findings import Monitoring
    from adacsl.estimators.method import Method
    from adacsl.estimators.methods import METHODS, method
    from adacsl.estimators.monitoring import monitor
    from adacsl.estimators.persistence import load
    from adacsl.estimators.policy import Policy
    from adacsl.estimators.portfolio import PortfolioClassifier
    from adacsl.estimators.pricing import CostModel
    from adacsl.experiments.comparing import compare, load_comparison
    from adacsl.experiments.comparison import Comparison
    from adacsl.report.displays import BrierCurveDisplay, CostCurveDisplay, DecisionCurveDisplay

__version__ = "0.2.0"

# where a name lives that needs a framework, and the extra that brings the framework
_LAZY = {
    "METHODS": ("adacsl.estimators.methods", "sklearn"),
    "AdaCSLBoostingClassifier": ("adacsl.estimators.classifiers", "boosting"),
    "AdaCSLClassifier": ("adacsl.estimators.classifiers", "train"),
    "AdaptiveCostClassifier": ("adacsl.estimators.classifiers", "sklearn"),
    "BrierCurveDisplay": ("adacsl.report.displays", "cli"),
    "Checks": ("adacsl.datasets.checks.codes", "train"),
    "Comparison": ("adacsl.experiments.comparison", "compare"),
    "CostCurveDisplay": ("adacsl.report.displays", "cli"),
    "CostModel": ("adacsl.estimators.pricing", "sklearn"),
    "Decision": ("adacsl.estimators.decision", "sklearn"),
    "DecisionCurveDisplay": ("adacsl.report.displays", "cli"),
    "Finding": ("adacsl.datasets.checks.codes", "train"),
    "Method": ("adacsl.estimators.method", "sklearn"),
    "Monitoring": ("adacsl.estimators.findings", "train"),
    "Policy": ("adacsl.estimators.policy", "sklearn"),
    "PortfolioClassifier": ("adacsl.estimators.portfolio", "sklearn"),
    "Task": ("adacsl.datasets.task", "train"),
    "check": ("adacsl.datasets.checks.checking", "train"),
    "compare": ("adacsl.experiments.comparing", "compare"),
    "load": ("adacsl.estimators.persistence", "train"),
    "load_comparison": ("adacsl.experiments.comparing", "compare"),
    "monitor": ("adacsl.estimators.monitoring", "train"),
    "method": ("adacsl.estimators.methods", "sklearn"),
}

__all__ = [
    "METHODS",
    "AdaCSLBoostingClassifier",
    "AdaCSLClassifier",
    "AdaptiveCostClassifier",
    "AdaptiveWeight",
    "Adjustment",
    "BrierCurveDisplay",
    "Checks",
    "ClassAdjustment",
    "Comparison",
    "CostCurve",
    "CostCurveDisplay",
    "CostHistogram",
    "CostMatrix",
    "CostModel",
    "Decision",
    "DecisionCurveDisplay",
    "EqualWidth",
    "Finding",
    "Interval",
    "Method",
    "Monitoring",
    "Multipliers",
    "Partition",
    "Policy",
    "PortfolioClassifier",
    "Quantile",
    "Task",
    "Threshold",
    "Whole",
    "__version__",
    "brier_curve",
    "calibration_error",
    "check",
    "compare",
    "cost_curve",
    "cost_difference_interval",
    "cost_interval",
    "decision_curve",
    "estimate_prior",
    "find_multipliers",
    "find_threshold",
    "limit_action",
    "load",
    "load_comparison",
    "method",
    "monitor",
    "optimal_cost_curve",
    "paper_grid",
    "shift_prior",
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
