"""adacsl: classifiers that minimise cost, not error.

Costs, thresholds, the controller and the metrics need numpy only. The classifiers, ``load`` and ``compare`` are
imported when first asked for: ``import adacsl`` loads no torch.
"""

from typing import TYPE_CHECKING, Any

from adacsl.adaptive.controller import AdaCSLController
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.intervals import cost_interval
from adacsl.thresholds.search import cost_curve, find_threshold
from adacsl.thresholds.streaming import CostHistogram

if TYPE_CHECKING:
    from adacsl.comparison.compare import compare, load_comparison
    from adacsl.comparison.result import Comparison
    from adacsl.datasets.checks import check
    from adacsl.datasets.task import Task
    from adacsl.decision.policy import Policy
    from adacsl.decision.rule import Decision
    from adacsl.ensemble.classifier import EnsembleClassifier
    from adacsl.estimators.adacsl import AdaCSLClassifier
    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.estimators.cost_model import CostModel
    from adacsl.estimators.persistence import load
    from adacsl.estimators.registry import METHODS, method
    from adacsl.monitoring.monitor import monitor
    from adacsl.report.scores import report_scores

__version__ = "0.2.0"

# the module of a name that needs a framework, and the extra that installs it
_LAZY = {
    "AdaCSLClassifier": ("adacsl.estimators.adacsl", "sklearn"),
    "Comparison": ("adacsl.comparison.result", "compare"),
    "CostModel": ("adacsl.estimators.cost_model", "sklearn"),
    "CostSensitiveClassifier": ("adacsl.estimators.classifier", "sklearn"),
    "Decision": ("adacsl.decision.rule", "sklearn"),
    "EnsembleClassifier": ("adacsl.ensemble.classifier", "sklearn"),
    "METHODS": ("adacsl.estimators.registry", "sklearn"),
    "Policy": ("adacsl.decision.policy", "sklearn"),
    "Task": ("adacsl.datasets.task", "train"),
    "check": ("adacsl.datasets.checks", "train"),
    "compare": ("adacsl.comparison.compare", "compare"),
    "load": ("adacsl.estimators.persistence", "train"),
    "load_comparison": ("adacsl.comparison.compare", "compare"),
    "method": ("adacsl.estimators.registry", "sklearn"),
    "monitor": ("adacsl.monitoring.monitor", "train"),
    "report_scores": ("adacsl.report.scores", "compare"),
}

_PACKAGES = (
    "adaptive",
    "comparison",
    "costs",
    "datasets",
    "decision",
    "ensemble",
    "estimators",
    "learners",
    "metrics",
    "monitoring",
    "neural",
    "report",
    "serving",
    "thresholds",
    "torch",
)

__all__ = [
    "METHODS",
    "AdaCSLClassifier",
    "AdaCSLController",
    "Comparison",
    "CostHistogram",
    "CostMatrix",
    "CostModel",
    "CostSensitiveClassifier",
    "Decision",
    "EnsembleClassifier",
    "Policy",
    "Task",
    "__version__",
    "check",
    "compare",
    "cost_curve",
    "cost_interval",
    "find_threshold",
    "load",
    "load_comparison",
    "method",
    "monitor",
    "report_scores",
]


def __getattr__(name: str) -> Any:
    import importlib  # noqa: PLC0415

    if name in _PACKAGES:
        return importlib.import_module(f"adacsl.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'adacsl' has no attribute {name!r}")
    module, extra = _LAZY[name]
    with requires(extra):
        return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_PACKAGES})
