"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a file beside ``path`` to write to; it takes the name at the end, and is gone if anything goes wrong."""
    check_file(path)
    draft = path.with_name(f".{path.name}-{os.getpid()}.draft")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        # reading may fail too while the draft is open: only what belongs to this file is said to
        if error.filename not in (None, str(draft), draft, os.fsencode(draft)):
            raise
        reason = error.strerror or str(error)
        raise OSError(f"could not write {path}: {reason}; nothing was left there") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def check_file(path: Path) -> None:
    """Refuse, before any work is done, a file that cannot be written in the end."""
    folder = path.parent
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no ordinary file: give the name of one")
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to write {path.name} to: make it first")
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no file can be made."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"no permission to write to {folder}: choose another place")


__all__ = ["check_file", "check_writable", "draft_of"]
