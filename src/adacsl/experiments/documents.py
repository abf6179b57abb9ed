"""Files that are whole or not there: JSON that ends with its own digest, written beside its place; and locks."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl import __version__
from adacsl.durable import decode, encode, replace_file, sync_folder, write_file

SCHEMA_VERSION = 1
TAIL = re.compile(rb'"sha256": "([0-9a-f]{64})"\n}\n')
TAIL_LENGTH = 79
DTYPES = ("<f4", "<f8", "<i8", "|i1")


class StoreError(Exception):
    """A run folder cannot be used; the message is one line that says what to do."""


class DamagedError(Exception):
    """A file is not what was written."""


# content


def document(kind: str, body: Mapping[str, Any]) -> bytes:
    """Return JSON, one key a line, that ends with the digest of all before."""
    head = {"format": f"adacsl-{kind}", "schema_version": SCHEMA_VERSION}
    encoded = encode(head | {key: value for key, value in body.items() if key not in (*head, "sha256")}, kind)
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)},\n" for key, value in encoded.items()]
    text = ("{\n" + "".join(lines)).encode("ascii")
    return text + f'"sha256": "{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode("ascii")


def is_whole(content: bytes) -> bool:
    """Tell whether a document is what was written."""
    tail = TAIL.fullmatch(content[-TAIL_LENGTH:])
    return tail is not None and hashlib.sha256(content[:-TAIL_LENGTH]).hexdigest().encode() == tail[1]


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """Return the checked content of a document.

    Raises
    ------
    DamagedError
        It is not what was written, or not of this kind.
    StoreError
        It cannot be read, or was written by a newer adacsl.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}; check its permissions") from error
    if not is_whole(content):
        raise DamagedError("its digest does not fit its content")
    try:
        body = decode(json.loads(content))
    except (ValueError, KeyError, RecursionError) as error:
        raise DamagedError(f"no JSON: {str(error)[:60]}") from error
    if not isinstance(body, dict) or body.get("format") != f"adacsl-{kind}":
        raise DamagedError(f"it is no {kind} of a comparison")
    _check_version(path, body.get("schema_version"))
    return body


def _check_version(path: Path, version: Any) -> None:
    if not isinstance(version, int) or version < 1:
        raise DamagedError(f"schema_version is {str(version)[:20]}")
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}; adacsl {__version__} reads up to version {SCHEMA_VERSION}: "
            "update adacsl"
        )


def pack(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array as JSON: base64 of its little-endian bytes."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {"dtype": little.dtype.str, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def unpack(packed: Mapping[str, Any]) -> NDArray[Any]:
    """Return what :func:`pack` was given."""
    if packed["dtype"] not in DTYPES:
        raise ValueError(f"unknown dtype {packed['dtype']}")
    return np.frombuffer(base64.b64decode(packed["base64"], validate=True), dtype=packed["dtype"]).copy()


def pack_bits(array: NDArray[np.bool_]) -> dict[str, Any]:
    """Return truth values as JSON: base64, eight to a byte."""
    packed = np.packbits(array).tobytes()
    return {"bits": len(array), "base64": base64.b64encode(packed).decode("ascii")}


def unpack_bits(packed: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return what :func:`pack_bits` was given."""
    content = np.frombuffer(base64.b64decode(packed["base64"], validate=True), dtype=np.uint8)
    if len(content) != (packed["bits"] + 7) // 8:
        raise ValueError(f"{len(content)} bytes cannot hold {packed['bits']} bits")
    return np.unpackbits(content, count=packed["bits"]).astype(bool)


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
    draft = path.parent / f".{uuid.uuid4().hex}.draft"
    with as_store_error(path):
        if replace:
            replace_file(path, content)
            return True
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_file(draft, content)
            placed = _place(draft, path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        sync_folder(path.parent)
    return placed


def _place(draft: Path, path: Path) -> bool:
    """Give a finished draft its name unless the name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        if path.exists():  # a file system without hard links: nearly as good, as one process runs a cell
            return False
        draft.rename(path)
    return True


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

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _flock(path, handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _flock(path: Path, handle: int, mode: int) -> None:
    import fcntl  # noqa: PLC0415

    try:
        fcntl.flock(handle, mode)
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise StoreError(f"the file system of {path.parent} cannot lock files: choose another --out") from error
        raise


__all__ = [
    "SCHEMA_VERSION",
    "DamagedError",
    "StoreError",
    "as_store_error",
    "decode",
    "document",
    "encode",
    "is_whole",
    "locked",
    "pack",
    "pack_bits",
    "put",
    "read_document",
    "unpack",
    "unpack_bits",
]
