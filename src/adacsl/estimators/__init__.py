"""Cost-sensitive classifiers with the interface of scikit-learn."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.estimators.adacsl import AdaCSLClassifier
    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.estimators.cost_model import CostModel
    from adacsl.estimators.persistence import load
    from adacsl.estimators.registry import METHODS, method

_PLACES = {
    "AdaCSLClassifier": "adacsl.estimators.adacsl",
    "CostModel": "adacsl.estimators.cost_model",
    "CostSensitiveClassifier": "adacsl.estimators.classifier",
    "METHODS": "adacsl.estimators.registry",
    "load": "adacsl.estimators.persistence",
    "method": "adacsl.estimators.registry",
}

__all__ = [
    "METHODS",
    "AdaCSLClassifier",
    "CostModel",
    "CostSensitiveClassifier",
    "load",
    "method",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "sklearn")
