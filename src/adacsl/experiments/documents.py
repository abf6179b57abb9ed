"""The documents of a run: JSON that ends with its own digest, arrays as text; what is said when they fail; locks."""

from __future__ import annotations

import base64
import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl import __version__
from adacsl.durable import encode, place_file, read_regular, replace_file, sealed, unsealed

SCHEMA_VERSION = 4
LARGEST = 2**30
"""Bytes of the largest document that is read: scores of a hundred million test rows fit into it."""
DTYPES = ("<f4", "<f8", "<i8", "|i1", "|u1")


class StoreError(Exception):
    """A run folder cannot be used; the message is one line that says what to do."""


# content


def document(kind: str, body: Mapping[str, Any]) -> bytes:
    """Return the content of a document of that kind."""
    head = {"format": f"adacsl-{kind}", "schema_version": SCHEMA_VERSION}
    return sealed(encode(head | {key: value for key, value in body.items() if key not in (*head, "sha256")}, kind))


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """Return the checked content of a document.

    Raises
    ------
    DamagedError
        It is not what was written, not of this kind, no ordinary file, or too large.
    StoreError
        It cannot be read, or was written by an older or newer adacsl.
    """
    try:
        content = read_regular(path, at_most=LARGEST)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}; check its permissions") from error
    body = unsealed(content, f"adacsl-{kind}")
    version = body["schema_version"]
    if version != SCHEMA_VERSION:
        remedy = "update adacsl" if version > SCHEMA_VERSION else "choose another --out"
        raise StoreError(
            f"{path} has schema version {version}; adacsl {__version__} reads version {SCHEMA_VERSION}: {remedy}"
        )
    return body


def pack(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array as JSON: base64 of its little-endian bytes."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {"dtype": little.dtype.str, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def unpack(packed: Mapping[str, Any]) -> NDArray[Any]:
    """Return what :func:`pack` was given."""
    if packed["dtype"] not in DTYPES:
        raise ValueError(f"unknown dtype {packed['dtype']}")
    return np.frombuffer(base64.b64decode(packed["base64"], validate=True), dtype=packed["dtype"]).copy()


# files


@contextlib.contextmanager
def as_store_error(path: Path) -> Iterator[None]:
    """Say a full disk, missing permission and the like in one line."""
    try:
        yield
    except OSError as error:
        what = f"could not write {path}: {error.strerror or error}"
        raise StoreError(f"{what}; free some space, check permissions, or choose another --out") from error


def put(path: Path, content: bytes, *, replace: bool) -> bool:
    """Write a file whole or not at all; tell whether it has this content because of us.

    A file that is there already stays, unless ``replace``.
    """
    with as_store_error(path):
        if replace:
            replace_file(path, content)
            return True
        # what is there needs no room on a full disk
        return not path.exists() and place_file(path, content)


# locks


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock that the kernel releases when the process ends, however it ends.

    Raises
    ------
    BlockingIOError
        Another process holds it.
    """
    import fcntl  # noqa: PLC0415  - systems without it can still read results

    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise StoreError(f"{path} is a link or no ordinary file: remove it, or choose another --out")
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)) as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise StoreError(f"the file system of {path.parent} cannot lock files: choose another --out") from error
            raise
        yield
