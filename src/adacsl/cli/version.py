"""``adacsl --version``: the version, and those of the libraries found."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from adacsl import __version__

NAME = re.compile(r"[A-Za-z0-9._-]+")
OTHERWISE = {"xgboost": "xgboost-cpu", "mlflow-skinny": "mlflow"}
"""The same package under another name."""


def versions() -> str:
    """Return a line for adacsl, then one each for Python and the packages that adacsl can use and that are here."""
    packages = {name: _found(name) for name in _usable()}
    here = [f"{name} {result}" for name, result in packages.items() if result]
    missing = [name for name, result in packages.items() if not result]
    lines = [f"adacsl {__version__}", f"Python {platform.python_version()}, {platform.platform(terse=True)}", *here]
    return "\n".join([*lines, f"not found: {', '.join(missing)}"] if missing else lines)


def _usable() -> Iterator[str]:
    """Yield the packages that adacsl's own metadata name, but those of its developers."""
    seen = {"adacsl"}
    for line in requires("adacsl") or ():
        name = NAME.match(line)
        if name and name[0] not in seen and not re.search(r"extra == ['\"]dev['\"]", line):
            seen.add(name[0])
            yield name[0]


def _found(name: str) -> str:
    for candidate in (name, OTHERWISE.get(name, name)):
        try:
            return version(candidate)
        except PackageNotFoundError:
            continue
    return ""
