"""Checks of the settings that the callbacks of all frameworks share."""

from __future__ import annotations

from typing import Any

from adacsl.core.arrays import check_whole
from adacsl.core.control import AdaptiveWeight


def check_settings(controller: Any, every: Any, *, optional: bool = True) -> None:
    """Raise unless these are a controller (where it is optional, or None) and a whole number of at least 1."""
    if not isinstance(controller, AdaptiveWeight) and not (optional and controller is None):
        raise TypeError(
            f"controller must be an AdaptiveWeight such as AdaptiveWeight(CostMatrix(fp=1, fn=8)), got {controller!r}"
        )
    check_whole("every", every)
