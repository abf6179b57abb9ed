"""Numbers formatted for people."""

from __future__ import annotations

import math
from collections.abc import Iterable

DASH = "\u2013"
MINUS = "\u2212"


def show(value: float | None, digits: int = 4) -> str:
    """Return a few digits, without exponents where they can be avoided; the page's scripts write numbers alike.

    Examples
    --------
    >>> [show(v) for v in (0.263333, 1234567.0, 3, 2e-7)]
    ['0.2633', '1,234,567', '3', '2.00e-7']
    """
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    size = abs(float(value))
    sign = MINUS if value < 0 else ""
    if size >= 999.5:
        return f"{sign}{size:,.0f}"
    if size < 1e-4:
        mantissa, exponent = f"{size:.2e}".split("e")
        return f"{sign}{mantissa}e{int(exponent)}"
    return f"{sign}{float(f'{size:.{digits}g}'):.12g}"


def show_column(values: Iterable[float]) -> list[str]:
    """Return numbers with equally many decimals, so that one in the middle has three digits.

    Examples
    --------
    >>> show_column([1.5, 0.25, 0.1234567])
    ['1.500', '0.250', '0.123']
    """
    numbers = [float(value) for value in values]
    sizes = [abs(value) for value in numbers if math.isfinite(value) and value != 0]
    if not sizes or max(sizes) < 1e-4:
        return [show(value) for value in numbers]
    decimals = max(2 - math.floor(math.log10(sorted(sizes)[len(sizes) // 2])), 0)
    texts = (f"{MINUS if value < 0 else ''}{abs(value):,.{decimals}f}" for value in numbers)
    return [text if math.isfinite(value) else DASH for value, text in zip(numbers, texts, strict=True)]


def show_count(value: float) -> str:
    """Return a number of cases; a mean of repeats may have a fraction.

    Examples
    --------
    >>> [show_count(v) for v in (1234, 12.0, 0.5)]
    ['1,234', '12', '0.5']
    """
    return f"{value:,.1f}".removesuffix(".0")


def show_percent(share: float | None) -> str:
    """Return a share as a percentage with one digit at most."""
    return DASH if share is None or not math.isfinite(share) else f"{show(round(share * 100, 1))} %"


def with_unit(value: float | None, unit: str, digits: int = 4) -> str:
    """Return a number with its unit, if it has one."""
    text = show(value, digits)
    return f"{text} {unit}" if unit and text != DASH else text
