"""What lasts: values as plain JSON, files that are on the disk before they are named."""

from __future__ import annotations

import contextlib
import math
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

MARK = "$float"
"""NaN and infinities, which JSON lacks, are written as {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}."""
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


def decode(value: Any) -> Any:
    """Return what was encoded: lists for tuples, Python numbers for numpy's."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if MARK in value:
        if len(value) != 1 or str(value[MARK]) not in SPECIAL_FLOATS:
            raise ValueError(f"unknown number {str(value)[:40]}")
        return SPECIAL_FLOATS[str(value[MARK])]
    return {key: decode(item) for key, item in value.items()}


def write_file(path: Path, content: bytes) -> None:
    """Write a new file and wait until the disk has it."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, in the place of what was there; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / f".{uuid.uuid4().hex}.draft"
    try:
        write_file(draft, content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
