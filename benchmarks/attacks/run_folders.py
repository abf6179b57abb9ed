"""Run folders: killed at any moment, filled up, shared, damaged, forged, and full of traps.

``python -m benchmarks.attacks.run_folders FOLDER`` is the comparison that is killed, with two workers.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from adacsl import CostMatrix, compare, load_comparison
from adacsl.comparison.result import Comparison, NoResultError
from adacsl.comparison.store import Store, StoreError, pack, unpack
from benchmarks.attacks.scoreboard import Attack, Attempt

ROOT = Path(__file__).resolve().parents[2]
PATIENCE, MEMORY = 120, 512 * 2**20
"""Seconds after which a try hangs, and bytes by which it may grow."""
ALL = ("always-positive", "always-negative", "logistic", "logistic-weighted")


def compared(folder: Path, *, seed: int = 0, **changes: Any) -> Comparison:
    """Return the smallest comparison that means something, kept in a folder."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 2))
    y = (x[:, 0] + rng.normal(size=60) > 0.5).astype(int)
    options: dict[str, Any] = {"methods": ["always-positive", "logistic"], "repeats": 1, "folds": 2}
    options |= {"n_jobs": 1, "progress": False, "segments": {"half": np.arange(60) < 30}}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".* was damaged \(")  # what these attacks do, and what it shall say
        return compare(x, y, CostMatrix(fp=1, fn=5), folder=folder, **(options | changes))


def difference(result: Comparison, whole: Comparison) -> str:
    """Say where results differ, to the bit, from those of a run that nobody disturbed; time and place do not count."""
    if set(result.fits) != set(whole.fits):
        return f"{len(set(whole.fits) ^ set(result.fits))} fits too few or too many"
    for fit, mine in result.fits.items():
        theirs = whole.fits[fit]
        one, other = (
            (each.scores.tobytes(), each.decisions.tobytes(), repr(sorted(each.metrics.items())), each.threshold)
            for each in (mine, theirs)
        )
        if one != other:
            return f"{fit} differs"
    return "" if result.recommendation == whole.recommendation else "the recommendation differs"


# traps: each changes a finished folder and returns how it must be met: "same" results, or "refused" in one line


def _file(folder: Path, rng: random.Random, *kinds: str) -> Path:
    names = {"fits": "fits/*/*/*.json", "splits": "splits/*.json", "run": "run.json"}
    return rng.choice(sorted(path for kind in kinds for path in folder.glob(names[kind])))


def _met(path: Path) -> str:
    return "refused" if path.name == "run.json" else "same"


def flip(folder: Path, rng: random.Random, _: Path) -> str:
    path = _file(folder, rng, "fits", "splits", "run")
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return _met(path)


def truncate(folder: Path, rng: random.Random, _: Path) -> str:
    path = _file(folder, rng, "fits", "splits", "run")
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])
    return _met(path)


def delete(folder: Path, rng: random.Random, _: Path) -> str:
    path = _file(folder, rng, "fits", "splits", "run")
    path.unlink()
    return _met(path)


def foreign(folder: Path, rng: random.Random, other: Path) -> str:
    path = _file(folder, rng, "fits", "splits", "run")
    shutil.copy(other / "foreign" / path.relative_to(folder), path)
    return _met(path)


def other_settings(folder: Path, rng: random.Random, other: Path) -> str:
    path = _file(folder, rng, "fits", "splits")
    shutil.copy(other / "settings" / path.relative_to(folder), path)
    return "same"


def doubled(folder: Path, rng: random.Random, _: Path) -> str:
    kind = rng.choice(["fits", "splits"])
    one, two = _file(folder, rng, kind), _file(folder, rng, kind)
    shutil.copy(one, one.with_name("copy.json") if one == two else two)
    return "same"


def forged(folder: Path, rng: random.Random, _: Path) -> str:
    """Change a result and make its digest fit."""
    path = _file(folder, rng, "fits")
    body = json.loads(path.read_bytes())
    what = rng.choice(["cost", "savings", "tp", "fn", "n_test", "accuracy", "decisions", "fit", "scores"])
    if what == "decisions":
        body[what] = pack(~unpack(body[what]))
    elif what == "scores":
        body[what] = pack(unpack(body[what])[:-1])
    elif what == "fit":
        body[what] |= rng.choice([{"data": 5}, {"seed": "0"}, {"method": "adacsl"}, {"ratio": {"$float": "inf"}}])
    else:
        body["metrics"][what] = rng.choice([rng.random() * 7 + 90, None, "0", {"$float": "nan"}, [1]])
    del body["sha256"]
    text = "{\n" + "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in body.items())
    path.write_text(text + f'"sha256": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n')
    return "same"


def no_file(folder: Path, rng: random.Random, other: Path) -> str:
    """Put a pipe, a giant, a device, a folder or a socket in the place of a file."""
    path = _file(folder, rng, "fits", "splits", "run")
    path.unlink()
    what = rng.choice(["pipe", "giant", "device", "link", "socket", "folder"])
    if what == "pipe":
        os.mkfifo(path)
    elif what == "giant":
        with path.open("wb") as file:
            file.truncate(2**40)
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as door, contextlib.chdir(path.parent):
            door.bind(path.name)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if what == "device" else other / "outside" / "made.json")
    return "refused" if what == "folder" and path.parent.name == "splits" else _met(path)


def link(folder: Path, rng: random.Random, other: Path) -> str:
    """Let a folder lead outside, beside a result that has to be set aside and run again."""
    name = rng.choice(["fits", "fits/data", "fits/data/logistic", "splits", "corrupt", ".lock"])
    _file(folder, rng, "fits").write_text("{")
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(other / "outside" / ("made" if name.startswith(".") else ""))
    return "refused"


def draft(folder: Path, rng: random.Random, other: Path) -> str:
    """Leave behind what a killed process leaves, or a link called so."""
    path = rng.choice([folder, folder / "fits/data/logistic"]) / ".0a.draft"
    if rng.random() < 0.3:
        path.symlink_to(other / "outside")
    elif rng.random() < 0.5:
        path.mkdir()
    else:
        path.write_text("{")
    return "same"


TRAPS = (flip, truncate, delete, foreign, other_settings, doubled, forged, no_file, link, draft)


# conditions: each goes on with a run that lacks a fit, under conditions that do not allow it, or do


@contextlib.contextmanager
def full_disk(_: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (rng.randrange(600), hard))
    try:
        yield {}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def failing_disk(_: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    code = rng.choice([errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
    with mock.patch(f"os.{rng.choice(['fsync', 'link'])}", side_effect=OSError(code, os.strerror(code))):
        yield {}


@contextlib.contextmanager
def read_only(folder: Path, _: random.Random) -> Iterator[dict[str, Any]]:
    """Take the right to write to the folder away; from root by being somebody else for a while."""
    places = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    nobody = os.geteuid() == 0
    for path in places:
        path.chmod(0o555)
    try:
        if nobody:
            os.seteuid(65534)
        yield {}
    finally:
        if nobody:
            os.seteuid(0)
        for path in places:
            path.chmod(0o755)


@contextlib.contextmanager
def second_run(folder: Path, _: random.Random) -> Iterator[dict[str, Any]]:
    with Store.open(folder, Store.read_only(folder).identity):
        yield {}


@contextlib.contextmanager
def changed(_: Path, rng: random.Random) -> Iterator[dict[str, Any]]:
    yield rng.choice([{"seed": 1}, {"validation": 0.2}, {"folds": 3}, {"neural": {"epochs": 3}}, {"ratios": [9]}])


CONDITIONS = (full_disk, failing_disk, read_only, second_run, changed)


# tries


def run_folders(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Traps and conditions in turn."""
    folder.chmod(0o755)
    whole = compared(folder / "whole")
    compared(folder / "foreign", seed=1)
    compared(folder / "settings", validation=0.2)
    (folder / "outside").mkdir()
    kinds: list[Callable[..., Any]] = [*TRAPS, *CONDITIONS]
    for number in range(tries):
        kind, rng = kinds[number % len(kinds)], random.Random(f"{seed} {number}")  # noqa: S311  draws, no secrets
        place = folder / f"run-{number}"
        shutil.copytree(folder / "whole", place)
        attack = _under if kind in CONDITIONS else _trapped
        yield Attempt(f"{kind.__name__} {number}", _bounded(attack, kind, place, rng, whole, folder))
        shutil.rmtree(place)


def _bounded(attack: Callable[..., str], *given: Any) -> str:
    """Return what went wrong, also where it hangs, grows, or raises what nobody expects."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(PATIENCE)
    try:
        fault = attack(*given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return fault or ("" if grown < MEMORY else f"{grown:,} bytes of memory")


def _late(*_: Any) -> None:
    raise TimeoutError("it hangs")


def _met_with(folder: Path, **changes: Any) -> tuple[Comparison | None, str]:
    """Go on with a run; return what it found, or the line that refuses it."""
    try:
        return compared(folder, **changes), ""
    except (StoreError, ValueError) as error:
        return None, str(error)


def _trapped(trap: Callable[..., str], folder: Path, rng: random.Random, whole: Comparison, other: Path) -> str:
    expected = trap(folder, rng, other)
    if fault := _read(folder, whole):
        return f"read: {fault}"
    result, line = _met_with(folder)
    if expected == "refused":
        fault = "it was taken" if result is not None else _one_line(line, folder)
    else:
        fault = f"refused: {line}" if result is None else difference(result, whole) or _left(folder)
    written = [path.name for path in (other / "outside").iterdir()]
    return fault or (f"wrote outside: {written}" if written else "")


def _read(folder: Path, whole: Comparison) -> str:
    """Read a folder without going on: what is shown is right, and what is missing is named."""
    with warnings.catch_warnings(record=True) as answer:
        warnings.simplefilter("always")
        try:
            result = load_comparison(folder)
        except NoResultError:
            return "" if answer else "no fit is there, without a warning"
        except StoreError as error:
            return "" if answer else _one_line(str(error), folder)
    for fit, mine in result.fits.items():
        if fit not in whole.fits or repr(mine.metrics) != repr(whole.fits[fit].metrics):
            return f"{fit} is shown with other numbers"
    missing = len(whole.fits) - len(result.fits)
    gone = len(whole.fits) - len([*folder.glob("fits/*/*/*.json")])
    return f"{missing} fits are left out, without a warning" if missing > gone and not answer else ""


def _under(condition: Callable[..., Any], folder: Path, rng: random.Random, whole: Comparison, _: Path) -> str:
    gone = _file(folder, rng, "fits")
    gone.unlink()
    before = {path: path.read_bytes() for path in folder.rglob("*.json")}
    with condition(folder, rng) as changes:
        result, line = _met_with(folder, **changes)
    if changes == {"ratios": [9]}:  # allowed: more fits
        return "refused" if result is None else ""
    if result is not None:
        return "it went on"
    lost = [path.name for path, content in before.items() if not path.exists() or path.read_bytes() != content]
    if fault := _one_line(line, folder) or (f"lost or changed: {lost}" if lost else ""):
        return fault
    result, line = _met_with(folder)
    return f"afterwards refused: {line}" if result is None else difference(result, whole) or _left(folder)


def _one_line(line: str, folder: Path) -> str:
    """Say what is wrong with a refusal: it is one line that names the folder."""
    return "" if line and "\n" not in line and folder.name in line else f"refused with {line!r}"


def _left(folder: Path) -> str:
    drafts = [path.name for path in folder.rglob("*.draft")]
    return f"left behind: {drafts}" if drafts else ""


# kills


def run_kills(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Kill at a random moment, go on, compare; one in ten with workers, of which the parent alone is killed."""
    options: dict[str, Any] = {"methods": list(ALL), "repeats": 2}
    compared(folder / "warm", **options)
    begin = time.monotonic()
    whole = compared(folder / "whole", **options)
    took = time.monotonic() - begin
    for number in range(tries):
        rng, place = random.Random(f"{seed} {number}"), folder / f"run-{number}"  # noqa: S311  draws, no secrets
        if number % 10 == 9:
            _kill_workers(place, rng)
        else:
            _kill_here(place, took * rng.uniform(0.0, 1.1), options)
        known = {path: (path.stat().st_ino, path.read_bytes()) for path in place.glob("fits/*/*/*.json")}
        yield Attempt(f"after {len(known)} fits, {number}", _bounded(_go_on, place, options, known, whole))
        shutil.rmtree(place)


def _go_on(folder: Path, options: dict[str, Any], known: dict[Path, Any], whole: Comparison) -> str:
    result = compared(folder, **options)
    changed_fits = [path.name for path, was in known.items() if (path.stat().st_ino, path.read_bytes()) != was]
    if changed_fits or (folder / "corrupt").exists():
        return f"finished fits were run again: {changed_fits}"
    return difference(result, whole) or _left(folder)


def _kill_here(folder: Path, after: float, options: dict[str, Any]) -> None:
    """Kill a copy of this process: all is imported, so that the moment falls into the run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, none of which is at work
        child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            compared(folder, **options)
        os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _kill_workers(folder: Path, rng: random.Random) -> None:
    command = [sys.executable, "-m", "benchmarks.attacks.run_folders", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True) as process:  # noqa: S603
        enough, deadline = rng.choice([0, 1, 3, 7]), time.monotonic() + 5 * PATIENCE
        while len([*folder.glob("fits/*/*/*.json")]) < enough and process.poll() is None:
            time.sleep(0.005)
            if time.monotonic() > deadline:
                raise TimeoutError("the run that is to be killed does not begin")
        time.sleep(rng.uniform(0.0, 0.3 if enough else 5.0))
        process.kill()
        if process.wait() > 0:
            raise RuntimeError("the run that was to be killed ended by itself")


ATTACKS = (
    Attack(
        "run-folders",
        "other results than of an undisturbed run, a hang, memory, a write outside the folder, or no single line that "
        "says why: damaged, foreign, doubled and forged fits, splits and run files, pipes, devices, giants and links "
        "in their place, a full, failing or read-only disk, two runs at once, other data or settings at resume",
        run_folders,
        long=600,
        short=15,
    ),
    Attack(
        "run-kills",
        "a finished fit lost or run again, another result, or anything left behind: SIGKILL at a random moment, then "
        "the same comparison again",
        run_kills,
        long=50,
        short=2,
    ),
)


if __name__ == "__main__":
    compared(Path(sys.argv[1]), methods=list(ALL), repeats=2, workers=2)
