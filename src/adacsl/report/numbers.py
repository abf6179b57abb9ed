"""Numbers as people read them."""

from __future__ import annotations

import math


def show(value: float | None) -> str:
    """Return four digits, without exponents where they can be avoided; the page's scripts write numbers alike.

    Examples
    --------
    >>> [show(v) for v in (0.263333, 1234567.0, -0.5, 3, float("nan"), 2e-7)]
    ['0.2633', '1,234,567', '−0.5', '3', '–', '2.00e-7']
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(float(value))
    sign = "−" if value < 0 else ""
    if size >= 999.5:
        return f"{sign}{size:,.0f}"
    if size < 1e-4:
        digits, exponent = f"{size:.2e}".split("e")
        return f"{sign}{digits}e{int(exponent)}"
    return f"{sign}{float(f'{size:.4g}'):.12g}"


def show_percent(share: float | None) -> str:
    """Return a share as a percentage with one digit at most."""
    return "–" if share is None or not math.isfinite(share) else f"{show(round(share * 100, 1))} %"


def with_unit(value: float | None, unit: str) -> str:
    """Return a number with its unit, if it has one."""
    text = show(value)
    return f"{text} {unit}" if unit and text != "–" else text
