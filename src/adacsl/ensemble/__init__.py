"""The stacked ensemble."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.ensemble.classifier import EnsembleClassifier

_PLACES = {
    "EnsembleClassifier": "adacsl.ensemble.classifier",
}

__all__ = [
    "EnsembleClassifier",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "sklearn")
