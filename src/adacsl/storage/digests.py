"""Digests: of data and settings, of files, and of folders that belong to one fit."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.storage.atomic import draft_of, open_regular, place_file, read_regular, replace_file
from adacsl.storage.documents import DamagedError

LARGEST_LIST = 200
"""Bytes of a list of digests that are read at most: two lines."""


def digest_of(arrays: Iterable[NDArray[Any]], values: Any) -> str:
    """Return one SHA-256 of arrays, their shapes and dtypes, and of plain values.

    >>> digest_of([np.arange(3)], {"seed": 0})[:12] == digest_of([np.arange(3)], {"seed": 1})[:12]
    False
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    digest.update(json.dumps(values, sort_keys=True, default=repr).encode())
    return digest.hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text; halves of characters, which file names may hold, count too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of an ordinary file; links are not followed."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bind_folder(folder: Path, owner: str) -> None:
    """Make a folder the place of one fit, named by its digest; one that is bound to another fit is an error."""
    mark, content = folder / "fit.sha256", owner.encode()
    if not os.path.lexists(mark):  # what is there needs no room on a full disk
        place_file(mark, content)
    try:
        known = read_regular(mark, at_most=len(content))
    except DamagedError:
        known = b""
    if known != content:
        raise ValueError(
            f"the checkpoints in {folder} belong to other data or settings; give an empty folder, or the same fit"
        )


class DigestedFile:
    """A file that others write, with its digest and size in a second file beside it.

    Before a file is replaced, the second one lists both: whenever a process is killed, the file that is there is known.

    Parameters
    ----------
    path : Path
        The file; its digests lie beside it, with the suffix ``.sha256``.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.digests = path, path.with_suffix(".sha256")
        self._current = [_line_of(path)] if path.exists() else []

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Yield a file to write to; at the end its digest is listed, and it takes the name."""
        with draft_of(self.path) as draft:
            yield draft
            coming = _line_of(draft)
            replace_file(self.digests, "\n".join([*self._current, coming, ""]).encode())
            self._current = [coming]

    @staticmethod
    @contextmanager
    def open(path: Path) -> Iterator[BufferedReader]:
        """Yield a file, of which every byte has been compared with its digest.

        Raises
        ------
        DamagedError
            One of both is no ordinary file, not there or too long, or the digest is another.
        """
        digests = path.with_suffix(".sha256")
        try:
            known = read_regular(digests, at_most=LARGEST_LIST).decode("ascii").splitlines()
            longest = max(int(line.split()[1]) for line in known)
        except FileNotFoundError:
            raise DamagedError(f"{digests.name} is missing, or not a regular file") from None
        except (DamagedError, ValueError, IndexError) as error:
            raise DamagedError(f"{digests.name}: {error}") from None
        with open_regular(path) as file:
            if file.seek(0, 2) > longest:
                raise DamagedError(f"{path.name} is longer than it was")
            file.seek(0)
            if _line(file) not in known:
                raise DamagedError(f"its digest is not the one in {digests.name}")
            file.seek(0)
            yield file


def _line_of(path: Path) -> str:
    with path.open("rb") as file:
        return _line(file)


def _line(file: BufferedReader) -> str:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{digest} {file.tell()}"
