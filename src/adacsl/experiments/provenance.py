"""Where a result came from: versions, device, commit and times."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import platform
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from adacsl import __version__
from adacsl.experiments.cells import CellResult


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions that a result depends on, of what is installed."""
    found = {"python": platform.python_version(), "adacsl": __version__}
    for package in ("numpy", "scikit-learn", "torch"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


@functools.cache
def commit() -> str | None:
    """Return the git commit of the working directory, if it has one."""
    try:
        command = ["git", "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def now() -> str:
    """Return the time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def stamped(result: CellResult, *, started: str | None = None) -> CellResult:
    """Return the result with versions, seed, device, host, commit and times; what it says already stays."""
    known: dict[str, Any] = {"versions": versions(), "seed": int(result.cell.seed)}
    known |= {"host": platform.node(), "started": started, "finished": now(), "device": _device()}
    if head := commit():
        known["commit"] = head
    return replace(result, provenance=known | result.provenance)


def _device() -> str:
    """Return where torch computes in this process; a GPU that was never touched does not count."""
    torch: Any = sys.modules.get("torch")
    cuda = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return str(torch.cuda.get_device_name()) if cuda else "cpu"
