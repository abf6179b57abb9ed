"""Write constraints.lock: the versions of constraints.txt with the SHA-256 of every file that pip may take for them.

Usage: ``python scripts/lock.py`` (Linux, x86-64; needs the package index). Of each version the wheel for each Python in
``PYTHONS`` is listed, as pip chooses it: of torch the build without CUDA where pip knows of one (``PIP_FIND_LINKS``,
``PIP_EXTRA_INDEX_URL``). CI installs nothing else: ``pip install --no-deps --require-hashes -r constraints.lock``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
HEAD = "# made by scripts/lock.py from constraints.txt: do not edit\n"


def pins(text: str) -> dict[str, str]:
    """Return the version of each package that a file of pins names."""
    lines = (line.split("#")[0].split(" ")[0].strip() for line in text.splitlines())
    return dict(line.split("==") for line in lines if "==" in line)


def chosen(python: str, wanted: Iterable[str]) -> dict[str, str]:
    """Return the hash of the file that pip takes of each package."""
    with tempfile.TemporaryDirectory() as empty:
        where = ["--python-version", python, "--only-binary=:all:", "--target", empty]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-", "--no-deps"]
        done = subprocess.run(  # noqa: S603
            [*command, "--ignore-installed", *where, *wanted], capture_output=True, text=True, check=False
        )
    if done.returncode:
        sys.exit(done.stderr)
    taken = json.loads(done.stdout)["install"]
    return {
        canonical(one["metadata"]["name"]): one["download_info"]["archive_info"]["hashes"]["sha256"] for one in taken
    }


def canonical(name: str) -> str:
    """Return the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Write the file."""
    known = pins((ROOT / "constraints.txt").read_text())
    all_of_them = [f"{name}=={version}" for name, version in known.items()]
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for python in PYTHONS:
        for name, digest in chosen(python, all_of_them).items():
            hashes[name].add(digest)
    lines = []
    for pin, name in zip(all_of_them, known, strict=True):
        digests = sorted(hashes[canonical(name)])
        lines.append(pin + "".join(f" \\\n    --hash=sha256:{digest}" for digest in digests) + "\n")
    (ROOT / "constraints.lock").write_text(HEAD + "".join(lines))


if __name__ == "__main__":
    main()
