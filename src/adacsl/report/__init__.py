"""Reports: one page engine with sections by subject, Markdown, and matplotlib displays."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.report.displays import BrierCurveDisplay, CostCurveDisplay, DecisionCurveDisplay
    from adacsl.report.scores import report_scores

_PLACES = {
    "BrierCurveDisplay": "adacsl.report.displays",
    "CostCurveDisplay": "adacsl.report.displays",
    "DecisionCurveDisplay": "adacsl.report.displays",
    "report_scores": "adacsl.report.scores",
}

__all__ = [
    "BrierCurveDisplay",
    "CostCurveDisplay",
    "DecisionCurveDisplay",
    "report_scores",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "cli")
