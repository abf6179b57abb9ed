"""Neighbouring floats of every float type, so that a threshold decides alike in narrow and wide comparisons.

Comparing a float32 array with a Python float happens in float32: a threshold that is no float32 is rounded on the way
and may fall onto a score. Thresholds are therefore always numbers of the scores' own type, which is given by its name.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def kind_of(array: Any) -> str:
    """Return the bare name of an array's dtype: ``torch.float16`` and numpy's ``float16`` are both 'float16'."""
    return str(array.dtype).rsplit(".", maxsplit=1)[-1]


def nearest(kind: str, value: float) -> float:
    """Return the number of a float type nearest ``value``."""
    if kind != "bfloat16":
        return float(np.dtype(kind).type(value))
    return _bfloat16(value, 0x7FFF + ((int(np.float32(value).view(np.uint32)) >> 16) & 1))


def below(kind: str, value: float) -> float:
    """Return a number of a float type under ``value``: the next one, or for zero a small negative one."""
    if value <= 0:
        # the next number under zero is subnormal, which some devices flush to zero
        return -float(np.finfo(np.float16 if kind == "float16" else np.float32).smallest_normal)
    return _beside(kind, value, -1)


def above(kind: str, value: float) -> float:
    """Return the next number of a float type over ``value`` (``value`` >= 0, and of that type)."""
    return _beside(kind, value, 1)


def _beside(kind: str, value: float, side: int) -> float:
    if kind == "bfloat16":
        return _bfloat16(value, side * 0x10000)
    number = np.dtype(kind).type
    return float(np.nextafter(number(value), number(3 * side)))


def _bfloat16(value: float, step: int) -> float:
    """Return the bfloat16 (the upper half of a float32) that so many last digits of a float32 lead to."""
    return float(np.uint32((int(np.float32(value).view(np.uint32)) + step) & 0xFFFF0000).view(np.float32))
