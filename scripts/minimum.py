"""Print the lowest version of everything that adacsl says it works with, as pins for pip.

Usage: ``python scripts/minimum.py > minimum.txt``; the weekly tests install and run adacsl with them.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOWEST = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?>=(?P<version>[0-9.a-z]+)$")
TOOLS = "dev"
"""The extra of developers' tools: nobody's users have them."""


def lowest(project: dict[str, object]) -> dict[str, str]:
    """Return the lowest version of each package that a project's metadata name."""
    extras = project.get("optional-dependencies", {})
    assert isinstance(extras, dict)  # noqa: S101
    named = [project["dependencies"], *(lines for extra, lines in extras.items() if extra != TOOLS)]
    result = (LOWEST.match(line) for lines in named for line in lines if not line.startswith("adacsl["))  # type: ignore[attr-defined]
    return {match["name"]: match["version"] for match in result if match}


if __name__ == "__main__":
    for package, version in sorted(lowest(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]).items()):
        print(f"{package}=={version}")  # noqa: T201
