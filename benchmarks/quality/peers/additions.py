"""Contestants and tables of other people: a Python file with ``CONTESTANTS`` or ``TABLES``, or both."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from benchmarks.quality.peers.methods import CONTESTANTS
from benchmarks.quality.peers.tables import TABLES


def add_file(path: Path) -> None:
    """Read a file and let its contestants and tables take part."""
    spec = importlib.util.spec_from_file_location(f"arena_{path.stem}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"--add {path}: expected a Python file with CONTESTANTS = {{...}} or TABLES = {{...}}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = [getattr(module, name, {}) for name in ("CONTESTANTS", "TABLES")]
    if not any(result):
        raise SystemExit(f"--add {path}: it defines neither CONTESTANTS nor TABLES; README.md shows both")
    for given, known in zip(result, (CONTESTANTS, TABLES), strict=True):
        if taken := sorted(set(given) & set(known)):
            raise SystemExit(f"--add {path}: the name {taken[0]!r} is taken; choose another")
        known.update(given)
