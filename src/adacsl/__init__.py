"""adacsl: classifiers that minimise cost, not error.

Costs, thresholds, the controller and the metrics need numpy only. The classifiers, ``load`` and ``compare`` are
imported when first asked for: ``import adacsl`` loads no torch.
"""

from typing import TYPE_CHECKING, Any

from adacsl.adaptive.controller import AdaptiveWeight, ControllerStep, step_factor
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import limit_action
from adacsl.decision.priors import estimate_prior, shift_prior
from adacsl.metrics.bins import EqualWidth, Partition, Quantile, Whole
from adacsl.metrics.calibration import calibration_error
from adacsl.metrics.intervals import Interval, cost_difference_interval, cost_interval
from adacsl.thresholds.curves import brier_curve, decision_curve, optimal_cost_curve
from adacsl.thresholds.multiclass import Multipliers, find_multipliers
from adacsl.thresholds.search import CostCurve, Threshold, cost_curve, find_threshold, paper_grid
from adacsl.thresholds.streaming import CostHistogram

if TYPE_CHECKING:
    from adacsl.comparison.compare import compare, load_comparison
    from adacsl.comparison.result import Comparison
    from adacsl.datasets.checks import check
    from adacsl.datasets.findings import Checks, Finding
    from adacsl.datasets.task import Task
    from adacsl.decision.policy import Policy
    from adacsl.decision.rule import Decision
    from adacsl.ensemble.classifier import PortfolioClassifier
    from adacsl.estimators.adacsl import AdaCSLBoostingClassifier, AdaCSLClassifier, AdaptiveCostClassifier
    from adacsl.estimators.classifier import Method
    from adacsl.estimators.cost_model import CostModel
    from adacsl.estimators.persistence import load
    from adacsl.estimators.registry import METHODS, method
    from adacsl.monitoring.monitor import monitor
    from adacsl.monitoring.report import Monitoring
    from adacsl.report.displays import BrierCurveDisplay, CostCurveDisplay, DecisionCurveDisplay

__version__ = "0.2.0"

# where a name lives that needs a framework, and the extra that brings the framework
_LAZY = {
    "METHODS": ("adacsl.estimators.registry", "sklearn"),
    "AdaCSLBoostingClassifier": ("adacsl.estimators.adacsl", "boosting"),
    "AdaCSLClassifier": ("adacsl.estimators.adacsl", "train"),
    "AdaptiveCostClassifier": ("adacsl.estimators.adacsl", "sklearn"),
    "BrierCurveDisplay": ("adacsl.report.displays", "cli"),
    "Checks": ("adacsl.datasets.findings", "train"),
    "Comparison": ("adacsl.comparison.result", "compare"),
    "CostCurveDisplay": ("adacsl.report.displays", "cli"),
    "CostModel": ("adacsl.estimators.cost_model", "sklearn"),
    "Decision": ("adacsl.decision.rule", "sklearn"),
    "DecisionCurveDisplay": ("adacsl.report.displays", "cli"),
    "Finding": ("adacsl.datasets.findings", "train"),
    "Method": ("adacsl.estimators.classifier", "sklearn"),
    "Monitoring": ("adacsl.monitoring.report", "train"),
    "Policy": ("adacsl.decision.policy", "sklearn"),
    "PortfolioClassifier": ("adacsl.ensemble.classifier", "sklearn"),
    "Task": ("adacsl.datasets.task", "train"),
    "check": ("adacsl.datasets.checks", "train"),
    "compare": ("adacsl.comparison.compare", "compare"),
    "load": ("adacsl.estimators.persistence", "train"),
    "load_comparison": ("adacsl.comparison.compare", "compare"),
    "monitor": ("adacsl.monitoring.monitor", "train"),
    "method": ("adacsl.estimators.registry", "sklearn"),
}

__all__ = [
    "METHODS",
    "AdaCSLBoostingClassifier",
    "AdaCSLClassifier",
    "AdaptiveCostClassifier",
    "AdaptiveWeight",
    "BrierCurveDisplay",
    "Checks",
    "Comparison",
    "ControllerStep",
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
