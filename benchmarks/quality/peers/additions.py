"""Methods and tables of other people: a Python file with ``PEER_METHODS`` or ``TABLES``, or both."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from benchmarks.quality.peers.methods import PEER_METHODS
from benchmarks.quality.peers.tables import TABLES


def add_file(path: Path) -> None:
    """Read a file and let its methods and tables take part."""
    spec = importlib.util.spec_from_file_location(f"peers_{path.stem}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"--add {path}: expected a Python file with PEER_METHODS = {{...}} or TABLES = {{...}}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = [getattr(module, name, {}) for name in ("PEER_METHODS", "TABLES")]
    if not any(result):
        raise SystemExit(f"--add {path}: it defines neither PEER_METHODS nor TABLES; README.md shows both")
    for given, known in zip(result, (PEER_METHODS, TABLES), strict=True):
        if taken := sorted(set(given) & set(known)):
            raise SystemExit(f"--add {path}: the name {taken[0]!r} is taken; choose another")
        known.update(given)
