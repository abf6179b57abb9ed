"""Checks of the settings that the callbacks of all frameworks share."""

from __future__ import annotations

from typing import Any

from adacsl.core.control import AdaptiveWeight


def check_settings(controller: AdaptiveWeight | None, every: int) -> None:
    """Raise unless these are a controller (or None) and a whole number of at least 1."""
    if controller is not None and not isinstance(controller, AdaptiveWeight):
        raise TypeError(f"controller must be an AdaptiveWeight, got {controller!r}")
    check_whole("every", every)


def check_whole(name: str, value: Any) -> None:
    """Raise unless a setting is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


__all__ = ["check_settings", "check_whole"]
