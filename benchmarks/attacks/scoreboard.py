"""What an attack is, and how its tries are counted."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple

SHOWN = 20
"""Faults that are listed one by one; all are counted."""


class Attempt(NamedTuple):
    """One try, and what went wrong: nothing where the test passed."""

    name: str
    fault: str = ""


class Attack(NamedTuple):
    """A class of tries, one row of the scoreboard.

    ``run(folder, tries, seed)`` yields an Attempt for each try; ``folder`` is empty, its own, and removed afterwards.
    A broken harness raises; what adacsl does wrong is a fault.
    """

    name: str
    what: str
    run: Callable[[Path, int, int], Iterator[Attempt]]
    long: int
    short: int


def attacks() -> dict[str, Attack]:
    """Return the attacks of all modules beside this one, by name."""
    result: dict[str, Attack] = {}
    for module in sorted(iter_modules([str(Path(__file__).parent)]), key=lambda module: module.name):
        if not module.name.startswith("__"):
            for attack in getattr(import_module(f"benchmarks.attacks.{module.name}"), "ATTACKS", ()):
                if attack.name in result:
                    raise ValueError(f"two attacks are called {attack.name!r}")
                result[attack.name] = attack
    return result


def score(attack: Attack, *, short: bool, seed: int = 0) -> dict[str, Any]:
    """Run an attack and return its row."""
    tried, faults, start = 0, list[str](), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="adacsl-attack-") as folder, contextlib.closing(
        attack.run(Path(folder), attack.short if short else attack.long, seed)
    ) as tries:  # fmt: skip
        for attempt in tries:
            tried += 1
            if attempt.fault:
                faults.append(f"{attempt.name}: {attempt.fault}")
    return {
        "name": attack.name, "what": attack.what, "tried": tried, "failed": len(faults), "faults": faults[:SHOWN],
        "seconds": round(time.monotonic() - start, 1), "seed": seed,
    }  # fmt: skip
