"""Run a slice of the weekly tests: all of them are run within some commits, none takes CI much longer.

Usage: ``python scripts/weekly.py`` runs the slice of the commit that is checked out, ``--slice 3`` another one, and
``--list`` prints what the slices hold. ``tests/weekly.toml`` has the seconds that each file takes, and which files are
in no slice, with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SLICE, LIMIT = 60.0, 120.0
"""Seconds that a slice is to take, and after which tests are stopped."""


class Target(NamedTuple):
    """Tests that are run by one call of pytest."""

    words: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        return f"{self.words[0]}{f' and {len(self.words) - 1} more' if len(self.words) > 1 else ''}"


def targets(root: Path = ROOT) -> list[Target]:
    """Return the files of tests/weekly.toml; one that takes longer than a slice in several parts, by its functions."""
    result = []
    for name, seconds in tomllib.loads((root / "tests/weekly.toml").read_text())["seconds"].items():
        text = (root / name).read_text()
        functions = [f"{name}::{function}" for function in re.findall(r"^def (test_\w+)", text, re.MULTILINE)]
        parts = min(math.ceil(seconds / SLICE), len(functions))
        for i in range(parts):
            words = tuple(functions[i::parts]) if parts > 1 else (name,)
            result.append(Target(words, seconds / parts))
    return result


def slices(root: Path = ROOT) -> list[list[Target]]:
    """Share the tests out among slices, the longest first: each to the first slice that has the time for it."""
    shared: list[list[Target]] = []
    for target in sorted(targets(root), key=lambda target: (-target.seconds, target.words)):
        for own in shared:
            if sum(each.seconds for each in own) + target.seconds <= SLICE:
                own.append(target)
                break
        else:
            shared.append([target])
    return shared


def chosen(commit: str, count: int) -> int:
    """Return the number of a commit's slice, from 1; without a commit the first.

    Examples
    --------
    >>> chosen("1f", 10), chosen("", 10)
    (2, 1)
    """
    return int(commit or "0", 16) % count + 1


def run(own: list[Target]) -> list[Target]:
    """Run tests and return what fails twice on a machine that is not busy: many wait for other processes."""
    begin, failed = time.monotonic(), []
    for target in own:
        code = 1
        for again in ((), ("--last-failed",)):
            left = LIMIT - (time.monotonic() - begin)
            code = _pytest(*again, *target.words, seconds=left) if left > 0 else OVER
            if code in (*PASSED, OVER):
                break
        if code == OVER:
            print(f"weekly tests: {LIMIT:.0f} s are over, not finished: {target}")  # noqa: T201
        elif code not in PASSED and _busy():
            print(f"weekly tests: failed on a busy machine, which may be why: {target}")  # noqa: T201
        elif code not in PASSED:
            failed.append(target)
    return failed


PASSED, OVER = (0, 5), -1
"""Codes of pytest: all passed, or none of these is weekly (as in a part of a file); and that the time was over."""


def _busy() -> bool:
    """Tell whether others keep the machine busy: in the last minutes more than three processes waited for each core."""
    return os.getloadavg()[1] > 3.0 * (os.cpu_count() or 1)


def _pytest(*words: str, seconds: float) -> int:
    command = [sys.executable, "-m", "pytest", "-m", "weekly", *words]
    env = {"OMP_NUM_THREADS": "1"} | os.environ
    with subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True) as process:  # noqa: S603
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # fixtures end their clusters and servers
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            return OVER
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Run a slice of the weekly tests.")
    parser.add_argument("--slice", type=int, help="its number, from 1; default: the one of this commit")
    parser.add_argument("--list", action="store_true", help="print what the slices hold, and run nothing")
    asked = parser.parse_args()
    shared = slices()
    git = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    number = chosen(commit, len(shared)) if asked.slice is None else asked.slice
    if not 1 <= number <= len(shared):
        parser.error(f"there are slices 1 to {len(shared)}, got {number}")
    for i, own in enumerate(shared, 1):
        if asked.list or i == number:
            why = f", chosen by commit {commit[:10]}" if asked.slice is None and i == number and commit else ""
            took = sum(target.seconds for target in own)
            print(f"weekly tests: slice {i} of {len(shared)}{why}, about {took:.0f} s", *own, sep="\n  ", flush=True)  # noqa: T201
    failed = [] if asked.list else run(shared[number - 1])
    for target in failed:
        print(f"weekly tests: failed twice: pytest -m weekly {' '.join(target.words)}")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
