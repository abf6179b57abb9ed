"""The folder of a run: names of its files, one process at a time, and what its results depend on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from adacsl.durable import DamagedError, encode
from adacsl.experiments.documents import StoreError, as_store_error, locked, read_document

PLAIN_NAME = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,59}")

PATIENCE = 10.0
"""Seconds to wait for the workers of a killed run; they end by themselves within a fraction of one."""


def file_name(name: str) -> str:
    """Return a name that any file system takes; different names stay different, also where case does not count.

    Examples
    --------
    >>> file_name("breast-cancer")
    'breast-cancer'
    >>> file_name("../Größe")
    'gr-e~f6d077af062c'
    """
    if PLAIN_NAME.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return f"{readable}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def ratio_name(ratio: float) -> str:
    """Return a cost ratio as a part of a file name, exactly.

    Examples
    --------
    >>> ratio_name(8.0), ratio_name(0.1 + 0.2)
    ('8', '0.30000000000000004')
    """
    ratio = float(ratio)
    if not math.isfinite(ratio):
        raise ValueError(f"a cost ratio must be finite, got {ratio}")
    return f"{ratio:g}" if float(f"{ratio:g}") == ratio else repr(ratio)


def take_lock(folder: Path, locks: contextlib.ExitStack) -> None:
    """Be the one process that writes to a folder."""
    try:
        locks.enter_context(locked(folder / ".lock"))
    except BlockingIOError:
        raise StoreError(
            f"another process writes to {folder}: wait until it has ended, or choose another --out"
        ) from None


def await_workers(folder: Path) -> None:
    """Wait for the workers of a run that was killed: what they write last is whole and counts."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with locked(folder / ".workers"):
                return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"workers of an earlier run still write to {folder}: end them, or choose another --out"
                ) from None
            time.sleep(0.02)


def check_folder(path: Path) -> None:
    """Raise unless a folder is new, empty, or a run."""
    with as_store_error(path):
        if not path.exists() or (path / "run.json").exists():
            return
        if not path.is_dir():
            raise StoreError(f"{path} is a file: choose a folder for --out")
        other = next((other for other in path.iterdir() if not other.name.startswith(".")), None)
    if other is not None:
        raise StoreError(f"{path} holds other files ({other.name}, ...) and no run: choose a new or empty --out")


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes had not finished."""
    for draft in list(folder.rglob(".*.draft")):
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def remove_traces(folder: Path) -> None:
    """Undo a folder that could not become a run."""
    with contextlib.suppress(OSError):
        for name in (".lock", ".workers"):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def read_run(folder: Path) -> dict[str, Any]:
    """Return what run.json says."""
    path = folder / "run.json"
    if not path.exists():
        raise StoreError(f"there is no run in {folder} (it has no run.json): give the --out of a comparison")
    try:
        run = read_document(path, "run")
        identity = run.get("identity")
        if not isinstance(identity, dict) or not isinstance(identity.get("data", {}), dict):
            raise DamagedError("it does not say what the results depend on")
    except DamagedError as error:
        raise StoreError(f"{path} is damaged ({error}): restore it, or choose another --out") from error
    return run


def origin_of(identity: Mapping[str, Any], data: str) -> str:
    """Return a digest of what results on a data set depend on: its rows, and the settings of the run."""
    about = identity.get("data", {}).get(data)
    digest = about.get("digest", about) if isinstance(about, dict) else about
    settings = {key: value for key, value in identity.items() if key != "data"}
    text = json.dumps(encode([data, digest, settings], "identity"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def inside(folder: Path, path: Path) -> Path:
    """Return a path in a run folder, unless a link on the way would lead out of it."""
    for above in path.relative_to(folder).parents:
        if (folder / above).is_symlink() and above != Path():
            raise StoreError(f"{folder / above} is a link, which may lead anywhere: remove it, or choose another --out")
    return path


def differences(known: Any, asked: Any, where: str = "") -> Iterator[str]:
    """Say what differs; data are compared by their digests, and those that only one side has do not differ."""
    if where.startswith("data."):
        known, asked = (side.get("digest", side) if isinstance(side, dict) else side for side in (known, asked))
        if known != asked:
            yield f"digest of {where.removeprefix('data.')!r} differs"
        return
    if not isinstance(known, dict) or not isinstance(asked, dict):
        if known != asked:
            yield f"{where} was {_short(known)}, is {_short(asked)}"
        return
    for key in known | asked:
        place = f"{where}.{key}" if where else key
        if key in known and key in asked:
            yield from differences(known[key], asked[key], place)
        elif where != "data":
            yield f"{place} is {'new' if key in asked else 'missing'}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
