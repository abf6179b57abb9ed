"""What outcomes cost: cost matrices, expressions, per-sample costs and ranges."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.costs.matrix import CostMatrix

_PLACES = {
    "CostMatrix": "adacsl.costs.matrix",
}

__all__ = [
    "CostMatrix",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "sklearn")
