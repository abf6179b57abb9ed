"""Comparison of methods: protocol, execution, statistics, recommendation."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.comparison.compare import compare, compare_tasks, load_comparison
    from adacsl.comparison.result import Comparison

_PLACES = {
    "Comparison": "adacsl.comparison.result",
    "compare": "adacsl.comparison.compare",
    "compare_tasks": "adacsl.comparison.compare",
    "load_comparison": "adacsl.comparison.compare",
}

__all__ = [
    "Comparison",
    "compare",
    "compare_tasks",
    "load_comparison",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "compare")
