"""Plots, and one page that shows a comparison, or a model in use, to others."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adacsl.report.sections.monitoring import write_monitoring

__all__ = ["write_monitoring"]


def __getattr__(name: str) -> Any:
    if name != "write_monitoring":
        raise AttributeError(f"module 'adacsl.report' has no attribute {name!r}")
    from adacsl.report.sections.monitoring import write_monitoring  # noqa: PLC0415  plotly only for those who look

    return write_monitoring
