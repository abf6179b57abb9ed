"""JSON documents that end with their own digest."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

MARK = "$float"
"""NaN and infinities, which JSON lacks, are written as {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}."""
TAIL = re.compile(rb'"sha256": "([0-9a-f]{64})"\n}\n')
TAIL_LENGTH = 79
DEEPEST = 60
"""Levels of lists and dicts inside one another that are read."""
SPECIAL_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(value: Any, where: str) -> Any:
    """Return plain JSON values; NaN and infinities are marked.

    Examples
    --------
    >>> encode({"cost": float("nan"), "k": (1, 2)}, "result")
    {'cost': {'$float': 'nan'}, 'k': [1, 2]}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {MARK: str(value)}
    if isinstance(value, list | tuple):
        return [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        if bad := [key for key in value if not isinstance(key, str) or key == MARK]:
            raise TypeError(f"{where}: keys must be str other than {MARK!r}, got {bad[0]!r}")
        return {key: encode(item, f"{where}.{key}") for key, item in value.items()}
    raise TypeError(f"{where} must be a JSON value (str, number, bool, None, list or dict), got {type(value).__name__}")


def decode(value: Any, deeper: int = DEEPEST) -> Any:
    """Return what was encoded: lists for tuples, Python numbers for numpy's."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")  # 1e999: no writer of ours
    if not isinstance(value, list | dict):
        return value
    if deeper == 0:
        raise ValueError(f"lists are nested more than {DEEPEST} deep")
    if isinstance(value, list):
        return [decode(item, deeper - 1) for item in value]
    if MARK in value:
        if len(value) != 1 or not isinstance(value[MARK], str) or value[MARK] not in SPECIAL_FLOATS:
            raise ValueError("unknown number")
        return SPECIAL_FLOATS[value[MARK]]
    return {key: decode(item, deeper - 1) for key, item in value.items()}


def plain(value: Any, digits: int = 17) -> Any:
    """Return values that any reader of JSON takes: what is not finite is null, paths are text.

    Floats are rounded to so many digits; 17 are all of them.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, digits) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


# documents


class DamagedError(Exception):
    """A file does not match its digest."""


def sealed(values: Mapping[str, Any]) -> bytes:
    """Return encoded values as JSON, one key a line, that ends with the digest of all before."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)},\n" for key, value in values.items()]
    text = ("{\n" + "".join(lines)).encode("ascii")
    return text + f'"sha256": "{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode("ascii")


def is_whole(content: bytes) -> bool:
    """Return whether a document matches its digest."""
    tail = TAIL.fullmatch(content[-TAIL_LENGTH:])
    return tail is not None and hashlib.sha256(content[:-TAIL_LENGTH]).hexdigest().encode() == tail[1]


def unsealed(content: bytes, form: str) -> dict[str, Any]:
    """Return the checked values of a document, which name their ``format`` and their ``schema_version``."""
    if not is_whole(content):
        raise DamagedError("its digest does not fit its content")
    try:
        values = decode(json.loads(content, object_pairs_hook=_without_doubles))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"not JSON: {str(error)[:60]}") from error
    if not isinstance(values, dict) or values.get("format") != form:
        raise DamagedError(f"its format is not {form}")
    version = values.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DamagedError(f"schema_version is {str(version)[:20]}")
    return values


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a key comes twice")  # readers differ in which of two equal keys they take
    return result
