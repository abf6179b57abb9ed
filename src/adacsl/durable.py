"""What lasts: values as plain JSON, documents that end with their own digest, files that are whole or not there."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import math
import operator
import os
import re
import stat
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

MARK = "$float"
"""NaN and infinities, which JSON lacks, are written as {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}."""
TAIL = re.compile(rb'"sha256": "([0-9a-f]{64})"\n}\n')
TAIL_LENGTH = 79
SPECIAL_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
CAREFULLY = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
"""How a stranger's file is opened, as far as the system knows it: no link is followed, no pipe waited for."""


def encode(value: Any, where: str) -> Any:
    """Return plain JSON values; NaN and infinities are marked.

    Examples
    --------
    >>> encode({"cost": float("nan"), "k": (1, 2)}, "result")
    {'cost': {'$float': 'nan'}, 'k': [1, 2]}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {MARK: str(value)}
    if isinstance(value, list | tuple):
        return [encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        if bad := [key for key in value if not isinstance(key, str) or key == MARK]:
            raise TypeError(f"{where}: keys must be str other than {MARK!r}, got {bad[0]!r}")
        return {key: encode(item, f"{where}.{key}") for key, item in value.items()}
    raise TypeError(f"{where} must be a JSON value (str, number, bool, None, list or dict), got {type(value).__name__}")


def decode(value: Any) -> Any:
    """Return what was encoded: lists for tuples, Python numbers for numpy's."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if MARK in value:
        if len(value) != 1 or str(value[MARK]) not in SPECIAL_FLOATS:
            raise ValueError(f"unknown number {str(value)[:40]}")
        return SPECIAL_FLOATS[str(value[MARK])]
    return {key: decode(item) for key, item in value.items()}


def plain(value: Any, digits: int = 17) -> Any:
    """Return values that any reader of JSON takes: what is not finite is null, paths are text.

    Floats are rounded to so many digits; 17 are all of them.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, digits) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


# documents


class DamagedError(Exception):
    """A file is not what was written."""


def sealed(values: Mapping[str, Any]) -> bytes:
    """Return encoded values as JSON, one key a line, that ends with the digest of all before."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)},\n" for key, value in values.items()]
    text = ("{\n" + "".join(lines)).encode("ascii")
    return text + f'"sha256": "{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode("ascii")


def is_whole(content: bytes) -> bool:
    """Tell whether a document is what was written."""
    tail = TAIL.fullmatch(content[-TAIL_LENGTH:])
    return tail is not None and hashlib.sha256(content[:-TAIL_LENGTH]).hexdigest().encode() == tail[1]


def unsealed(content: bytes, form: str) -> dict[str, Any]:
    """Return the checked values of a document, which name their ``format`` and their ``schema_version``."""
    if not is_whole(content):
        raise DamagedError("its digest does not fit its content")
    try:
        values = decode(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"no JSON: {str(error)[:60]}") from error
    if not isinstance(values, dict) or values.get("format") != form:
        raise DamagedError(f"its format is not {form}")
    version = values.get("schema_version")
    if not isinstance(version, int) or version < 1:
        raise DamagedError(f"schema_version is {str(version)[:20]}")
    return values


# files


def open_regular(path: Path) -> BinaryIO:
    """Open an ordinary file to be read; what else may lie there under its name is neither followed nor waited for.

    Folders on the way may be links, the file itself not.

    Raises
    ------
    DamagedError
        It is a link, a folder, a pipe, a device.
    OSError
        It is missing, or cannot be opened.
    """
    try:
        handle = os.open(path, functools.reduce(operator.or_, (getattr(os, flag, 0) for flag in CAREFULLY)))
    except OSError as error:
        if path.is_symlink():
            raise DamagedError("it is a link, which is not followed") from error
        if error.errno == errno.ENXIO:  # a socket
            raise DamagedError("it is no ordinary file") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DamagedError("it is no ordinary file")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, *, at_most: int) -> bytes:
    """Return the content of an ordinary file of at most so many bytes; its size is known before anything is read.

    Raises
    ------
    DamagedError
        It is no ordinary file (see :func:`open_regular`), too large, or changes while it is read.
    OSError
        It is missing, or cannot be read.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > at_most:
            raise DamagedError(f"it has {size:,} bytes, and at most {at_most:,} are read")
        content = file.read(size + 1)
    if len(content) != size:
        raise DamagedError("it changes while it is read")
    return content


@contextlib.contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a file beside ``path`` to write to; at the end it is flushed and takes the name.

    If anything goes wrong, the draft is gone and what was there is untouched.

    Examples
    --------
    >>> with draft_of(Path("numbers.txt")) as draft:  # doctest: +SKIP
    ...     draft.write_text("1, 2, 3")
    """
    with _beside(path) as draft:
        yield draft
        with draft.open("r+b") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    sync_folder(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, in the place of what was there; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft_of(path) as draft:
        draft.write_bytes(content)


def place_file(path: Path, content: bytes) -> bool:
    """Write a new file whole or not at all; one that is there stays. Tell whether it is ours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _beside(path) as draft:
        write_file(draft, content)
        placed = _place(draft, path)
    sync_folder(path.parent)
    return placed


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    # on the same file system, as renames do not cross them; hidden, and with a suffix by which killed ones are found
    draft = path.parent / f".{uuid.uuid4().hex}.draft"
    try:
        yield draft
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _place(draft: Path, path: Path) -> bool:
    """Give a finished draft its name unless the name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if path.exists():  # a file system without hard links: nearly as good, as one process writes a file
            return False
        draft.rename(path)
    return True


def write_file(path: Path, content: bytes) -> None:
    """Write a new file and wait until the disk has it."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make new names in a folder last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_file(path: Path) -> None:
    """Refuse, before any work is done, a file that cannot be written in the end."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no ordinary file: give the name of one")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to: make it first")
    _check_writable(path.parent)


def check_folder(folder: Path, advice: str) -> None:
    """Refuse, before any work is done, a folder that cannot be made or written to; ``advice`` says what to give."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir():
        raise NotADirectoryError(f"{above} is a file: {advice}")
    _check_writable(above)


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"no permission to write to {folder}: choose another place")
