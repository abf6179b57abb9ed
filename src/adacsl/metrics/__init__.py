"""Confidence intervals, calibration error and bins of scores."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.metrics.calibration import calibration_error
    from adacsl.metrics.intervals import Interval, cost_difference_interval, cost_interval

_PLACES = {
    "Interval": "adacsl.metrics.intervals",
    "calibration_error": "adacsl.metrics.calibration",
    "cost_difference_interval": "adacsl.metrics.intervals",
    "cost_interval": "adacsl.metrics.intervals",
}

__all__ = [
    "Interval",
    "calibration_error",
    "cost_difference_interval",
    "cost_interval",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "sklearn")
