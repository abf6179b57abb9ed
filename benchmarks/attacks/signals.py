"""Programs that are stopped, whose reader leaves, or that run where little is as usual."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.attacks.scoreboard import Attack, Attempt

ROOT = Path(__file__).resolve().parents[2]
READY = "ready"
PROGRAM = f"""
import sys, adacsl.cli, adacsl.cli.app
sys.stderr.write('{READY}\\n'); sys.stderr.flush()
sys.exit(adacsl.cli.main())
"""
SECONDS = 240
"""A program that got a signal to stop is gone after so long, on a machine that does other things as well."""
COSTS = ("--target", "größe", "--pos-label", "groß", "--fn", "8", "--fp", "1")
LONG = {
    "train": ("train", "rows.csv", *COSTS, "--out", "new"),
    "compare": ("compare", "rows.csv", *COSTS, "--out", "run", "--repeats", "50", "--n-jobs", "2"),
    "predict": ("predict", "model", "large.csv", "--out", "p.csv", "--batch-rows", "50"),
    "monitor": ("monitor", "model", "large.csv", "--html", "m.html"),
    "explain": ("explain", "model", "large.csv", "--repeats", "1000", "--out", "e.csv"),
}
SHORT = {
    "data": ("data",),
    "data as JSON": ("data", "--json"),
    "help": ("train", "--help"),
    "check": ("check", "rows.csv", *COSTS),
    "evaluate": ("evaluate", "model", "rows.csv"),
}


def _furnish(folder: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"âge": rng.normal(40, 9, 300), "магазин": rng.choice(["a", "ü", "日本"], 300)})
    frame["größe"] = np.where(frame["âge"] + rng.normal(0, 5, 300) > 42, "groß", "klein")
    frame.to_csv(folder / "rows.csv", index=False)
    pd.concat([frame] * 300).to_csv(folder / "large.csv", index=False)
    words = ["train", "rows.csv", *COSTS, "--method", "logistic", "--out", "model"]
    done = subprocess.run(_line(words), cwd=folder, env=_environment(), capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr.decode())


def _line(words: Any) -> list[str]:
    return [sys.executable, "-m", "adacsl.cli", *words]


def _environment(**others: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "HOME", "LANG", "TERM")}
    return {**known, "PYTHONPATH": f"{ROOT / 'src'}", "OMP_NUM_THREADS": "1", "HOME": "/", **others}


# stopped by a signal


def _stopped(folder: Path, words: tuple[str, ...], number: int, wait: float) -> str:
    """Start a long command, tell it to stop some time after its start, and return what was wrong."""
    before = set(folder.iterdir())
    program = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", PROGRAM, *words], cwd=folder, env=_environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        start_new_session=True, encoding="utf-8",
    )  # fmt: skip
    assert program.stderr is not None
    program.stderr.readline()
    time.sleep(wait)
    if program.poll() is None:  # Ctrl-C reaches all processes of a terminal, kill the one that is named
        (os.killpg if number == signal.SIGINT else os.kill)(program.pid, number)
    start = time.monotonic()
    try:
        _, err = program.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        return f"still there after {SECONDS} s"
    seconds = time.monotonic() - start
    left = [path.name for path in set(folder.iterdir()) - before if path.name not in ("run", "new")]
    done = (0, 3, 4) if words[0] == "monitor" else (0,)  # it may have been through
    lines = [line for line in err.splitlines() if line.startswith("stopped")]
    orphans = _of_session(program.pid, patience=5.0)
    wrong = {
        f"exit code {program.returncode}": program.returncode not in (*done, 128 + number),
        f"says {err[-200:]!r}": program.returncode not in done and (len(lines) != 1 or "Traceback" in err),
        f"{seconds:.0f} s": seconds > SECONDS / 2,
        f"left {left}": program.returncode not in done and bool(left),
        f"{len(orphans)} processes go on": bool(orphans),
    }
    for orphan in orphans:
        os.kill(orphan, signal.SIGKILL)
    return "; ".join(text for text, holds in wrong.items() if holds)


def _of_session(leader: int, patience: float) -> list[int]:
    """Return the processes that a program has left behind, after some patience."""
    end = time.monotonic() + patience
    while True:
        result = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _led(entry, leader)]
        if not result or time.monotonic() > end:
            return result
        time.sleep(0.2)


def _led(entry: Path, leader: int) -> bool:
    try:
        state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
    except OSError:
        return False
    return int(session) == leader and state != "Z"


# nobody reads, and odd places


def _unread(folder: Path, words: tuple[str, ...], how: str) -> str:
    """Run a command whose output nobody reads, and return what was wrong."""
    closing = {
        "stdout": ">&-",
        "stderr": "2>&-",
        "both": ">&- 2>&-",
        "pipe": "| true",
        "errors": "2>&1 >/dev/null | true",
    }
    line = f"{shlex.join(_line(words))} {closing[how]}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", line], cwd=folder, env=_environment(), capture_output=True, text=True, timeout=SECONDS,  # noqa: S607
        check=False,
    )  # fmt: skip
    fine = done.returncode == (0 if how in ("stderr", "errors") else 141)
    return "" if fine and "Traceback" not in done.stderr else f"exit code {done.returncode}: {done.stderr[-200:]!r}"


def _odd(folder: Path, words: tuple[str, ...], environment: dict[str, str], usual: list[str]) -> str:
    """Run a command in an odd environment, and return what was wrong: it must do what it does elsewhere."""
    bare = "PATH" in environment
    env = environment | {"PYTHONPATH": f"{ROOT / 'src'}"} if bare else _environment(**environment)
    done = subprocess.run(_line(words), cwd=folder, env=env, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603
    if not usual:
        usual.append(str(done.returncode))
    many = len(done.stdout) + len(done.stderr)
    wrong = {
        f"exit code {done.returncode}, {usual[0]} elsewhere": str(done.returncode) != usual[0],
        "shows nothing": not done.stdout,
        f"says {done.stderr[-200:]!r}": b"Traceback" in done.stderr or b"error:" in done.stderr,
        f"{many:,} bytes": many > 1_000_000,
    }
    return "; ".join(text for text, holds in wrong.items() if holds)


def _gone(folder: Path, words: tuple[str, ...]) -> str:
    """Run a command in a folder that is deleted meanwhile, and return what was wrong."""
    place = folder / "gone"
    place.mkdir()
    line = 'rmdir "$PWD"; exec "$@"'
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", line, "bash", *_line(words)], cwd=place, env=_environment(), capture_output=True, text=True,  # noqa: S607
        timeout=SECONDS, check=False,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if "getcwd" not in line]
    shown = done.returncode == 2 and len(lines) == 1 and lines[0].startswith("error: ")
    return "" if done.returncode == 0 or shown else f"exit code {done.returncode}: {done.stderr[-200:]!r}"


ENVIRONMENTS: dict[str, dict[str, str]] = {
    "as usual": {},
    "no environment": {"PATH": os.defpath},
    "no such HOME": {"HOME": "/nowhere/at/all"},
    "HOME cannot be written": {"HOME": "/proc"},
    "dumb terminal": {"TERM": "dumb"},
    "no colour": {"NO_COLOR": "1"},
    "forced colour": {"FORCE_COLOR": "1"},
    **{f"COLUMNS={width[:12]}": {"COLUMNS": width} for width in ("0", "1", "-5", "abc", "1000000000", "", "9" * 5000)},
    "LANG=C": {"LANG": "C", "LC_ALL": "C"},
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "Latin-1": {"PYTHONIOENCODING": "latin-1"},
    "no temporary folder": {"TMPDIR": "/nowhere/at/all"},
}


def _cases(folder: Path, drawn: random.Random) -> dict[str, Callable[[], str]]:
    """Return all tries by name, the quick ones first."""
    made: dict[str, Callable[[], str]] = {}
    for how in ("pipe", "stdout", "stderr", "both", "errors"):
        made |= {f"{name}, {how} unread": partial(_unread, folder, words, how) for name, words in SHORT.items()}
    for name in ("data", "help", "check"):
        usual, words = list[str](), SHORT[name]
        made |= {f"{name}, {odd}": partial(_odd, folder, words, env, usual) for odd, env in ENVIRONMENTS.items()}
    made |= {f"{name}, deleted folder": partial(_gone, folder, words) for name, words in SHORT.items()}
    for turn in range(2):
        for name, words in LONG.items():
            for number in (signal.SIGTERM, signal.SIGINT):
                case = partial(_stopped, folder, words, number, drawn.uniform(0, 8))
                made[f"{name}, {number.name}, time {turn + 1}"] = case
    return made


def ended(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Yield tries: readers that leave, odd environments, signals at random moments."""
    cases = _cases(folder, random.Random(seed))  # noqa: S311  no secrets
    names = list(cases) if tries >= len(cases) else ["data as JSON, stdout unread", "data, pipe unread"][:tries]
    if tries >= len(cases):
        _furnish(folder)
    for name in names:
        try:
            yield Attempt(name, cases[name]())
        except subprocess.TimeoutExpired as error:
            yield Attempt(name, f"still there after {error.timeout:.0f} s")


ATTACKS = (
    Attack(
        "signals",
        "SIGINT and SIGTERM at random moments, closed and broken pipes, no HOME, dumb terminals, odd widths and "
        "alphabets, a deleted folder: another exit code than documented, no line or more than one, processes or files "
        "left behind",
        ended,
        long=1000,
        short=2,
    ),
)
