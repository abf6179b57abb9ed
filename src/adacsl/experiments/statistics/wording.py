"""Parts of sentences: names, numbers, and numbers with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

CONSTANTS = {"always-negative": "always predicting negative", "always-positive": "always predicting positive"}

TODAY = "today"
"""What stands in the place of a method's name for the user's own decisions."""

NAMES_SHOWN = 5
"""A sentence lists so many methods; the others are counted."""


def names_of(methods: Sequence[str]) -> str:
    """Join names: ``a``, ``a and b``, ``a, b and c``, ``a, b, c, d, e and 3 others``.

    >>> names_of(["smote", "focal", "ce"])
    'smote, focal and ce'
    """
    shown = list(methods[:NAMES_SHOWN])
    more = len(methods) - len(shown)
    if more:
        shown.append("one other" if more == 1 else f"{more} others")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def deed(method: str | None) -> str:
    """Return a method's name in a sentence: constant baselines and today's decisions are described."""
    return "your current decisions" if method == TODAY else CONSTANTS.get(str(method), str(method))


def capital(words: str) -> str:
    """Begin a sentence; names of methods stay as they are typed."""
    return words[0].upper() + words[1:] if words.startswith(("always predicting ", "your ")) else words


def span(value: float, low: float, high: float, unit: str) -> str:
    """Return ``12 % (95 % CI 5-19 %)``; a hyphen would read as a minus beside a negative end."""
    middle = f"{number(value)}{unit}"
    if not math.isfinite(low):
        return middle
    # what is small beside the width is rounding
    low, high = (0.0 if abs(end) < 1e-9 * (high - low) else end for end in (low, high))
    between = "-" if low >= 0 else " to "
    return f"{middle} (95 % CI {number(low)}{between}{number(high)}{unit})"


def number(value: float) -> str:
    """Two digits that count; whole numbers from 10 on."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{float(f'{value:.2g}') + 0.0:g}"
