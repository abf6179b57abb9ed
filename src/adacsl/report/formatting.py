"""Numbers formatted for readers."""

from __future__ import annotations

import math
from collections.abc import Iterable

from adacsl.metrics.intervals import Interval

DASH = "\u2013"
MINUS = "\u2212"


def show(value: float | None, digits: int = 4) -> str:
    """Return a few digits, without exponents where they can be avoided; the page's script writes numbers alike.

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


def show_intervals(intervals: Iterable[Interval]) -> list[str]:
    """Return estimates with the ends of their intervals, all with equally many decimals.

    Examples
    --------
    >>> show_intervals([Interval(0.5, 0.4, 0.6), Interval(0.25, float("nan"), float("nan"))])
    ['0.500 (0.400 to 0.600)', '0.250']
    """
    rows = list(intervals)
    texts = show_column(value for row in rows for value in row)
    cells = zip(texts[0::3], texts[1::3], texts[2::3], strict=True)
    return [middle if low == DASH else f"{middle} ({low} to {high})" for middle, low, high in cells]


def show_count(value: float) -> str:
    """Return a number of samples; a mean of repeats may have a fraction.

    Examples
    --------
    >>> [show_count(v) for v in (1234, 12.0, 0.5)]
    ['1,234', '12', '0.5']
    """
    return f"{value:,.1f}".removesuffix(".0")


def show_percent(share: float | None) -> str:
    """Return a share as a percentage with one digit at most."""
    return DASH if share is None or not math.isfinite(share) else f"{show(round(share * 100, 1))} %"


def show_short(value: float) -> str:
    """Return two significant digits, whole numbers from 10 on: as recommendations write them.

    Examples
    --------
    >>> [show_short(v) for v in (0.5283, 37.6, 9.96, -0.04)]
    ['0.53', '38', '10', '\u22120.04']
    """
    size = abs(value)
    text = f"{size:,.0f}" if size >= 10 else f"{float(f'{size:.2g}'):g}"
    return f"{MINUS}{text}" if value < 0 and text != "0" else text


def show_ci(low: float, high: float, unit: str = "") -> str:
    """Return an interval as recommendations write it; nothing where it is not known.

    Examples
    --------
    >>> show_ci(0.46, 0.593), show_ci(-3.0, 8.0, " %")
    ('95 % CI 0.46-0.59', '95 % CI \u22123 to 8 %')
    """
    if not math.isfinite(low):
        return ""
    return f"95 % CI {show_short(low)}{'-' if low >= 0 else ' to '}{show_short(high)}{unit}"


def with_unit(value: float | None, unit: str, digits: int = 4) -> str:
    """Return a number with its unit, if it has one."""
    text = show(value, digits)
    return f"{text} {unit}" if unit and text != DASH else text


def unbroken(text: str) -> str:
    """Return a text in which no line ends within a ratio or a percentage."""
    return text.replace(" : ", "\u00a0:\u00a0").replace(" %", "\u00a0%")
