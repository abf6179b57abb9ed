"""Monitoring of deployed models: cost, drift, and re-tuning."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.monitoring.monitor import monitor
    from adacsl.monitoring.report import MonitoringReport

_PLACES = {
    "MonitoringReport": "adacsl.monitoring.report",
    "monitor": "adacsl.monitoring.monitor",
}

__all__ = [
    "MonitoringReport",
    "monitor",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "train")
