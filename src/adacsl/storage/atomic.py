"""Files and folders that are written completely or not at all, locks, and bounded reading of untrusted files."""

from __future__ import annotations

import contextlib
import errno
import functools
import operator
import os
import re
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path

from adacsl.storage.documents import DamagedError

CAREFULLY = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")
"""How an untrusted file is opened, as far as the system knows it: no link is followed, no pipe waited for."""

STAGE = re.compile(r"\.adacsl-[0-9a-f]{12}\.tmp")
"""Names of the folders in which files of a folder are completed."""


# files


def open_regular(path: Path) -> BufferedReader:
    """Open an ordinary file to be read; links are not followed, pipes and devices not waited for.

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
            raise DamagedError("it is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DamagedError("it is not a regular file")
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
    """Write a new file whole or not at all; one that is there stays. Return whether it was written."""
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
    """Flush a folder's entries to disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# folders


def switch_files(folder: Path, files: Mapping[str, bytes], *, last: str, stale: Callable[[str], bool]) -> None:
    """Bring files into a folder so that a process killed at any moment leaves the old ones or the new ones.

    They are completed and flushed in a temporary folder. A new folder is that one, renamed. In an existing one the
    switch is the one renaming of ``last``, which names the others by content.

    Parameters
    ----------
    folder : Path
        New, or one that may be written to; other files in it are left alone. Hold :func:`alone_in` its parent.
    files : mapping of str to bytes
        Contents by name.
    last : str
        The file that names the others.
    stale : callable
        Tells by its name what is removed afterwards: files that ``last`` named before.
    """
    # inside a folder that exists: it may be a mount point, and renames do not cross file systems
    stage = (folder if folder.exists() else folder.parent) / f".adacsl-{uuid.uuid4().hex[:12]}.tmp"
    try:
        stage.mkdir()
        for name, content in files.items():
            write_file(stage / name, content)
        sync_folder(stage)
        if not folder.exists():
            stage.rename(folder)
            sync_folder(folder.parent)
            return
        _switch(stage, folder, [name for name in files if name != last], last)
        remove_stale(folder, lambda name: name not in files and stale(name))
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _switch(stage: Path, folder: Path, others: Sequence[str], last: str) -> None:
    new = [name for name in others if not (folder / name).exists()]
    try:
        for name in others:
            (stage / name).replace(folder / name)
        (stage / last).replace(folder / last)
    except OSError:
        for name in new:
            (folder / name).unlink(missing_ok=True)
        raise
    sync_folder(folder)


def remove_stale(folder: Path, stale: Callable[[str], bool]) -> None:
    """Remove what killed processes left in a folder, and files of which ``stale`` says so by their name."""
    for path in list(folder.iterdir()):
        if STAGE.fullmatch(path.name) is None and not stale(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def remove_drafts(folder: Path) -> None:
    """Remove what killed processes had not finished."""
    for draft in list(folder.rglob(".*.draft")):
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


# locks


class NoLocksError(OSError):
    """The file system cannot lock files."""


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder; where the file system has no locks, continue without.

    The lock is the kernel's and ends with the process, however that ends.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ImportError, OSError):
            import fcntl  # noqa: PLC0415  not every system has it

            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock file that the kernel releases when the process ends, however it ends.

    Raises
    ------
    BlockingIOError
        Another process holds it.
    DamagedError
        It is a link, or no ordinary file.
    NoLocksError
        The file system cannot lock files.
    """
    import fcntl  # noqa: PLC0415  systems without it can still read

    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise DamagedError("it is a link or not a regular file")
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)) as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise NoLocksError(error.errno, "the file system cannot lock files", str(path)) from error
            raise
        yield


# checks before any work is done


def at_home(path: str | os.PathLike[str]) -> Path:
    """Return a path with ``~`` and ``~user`` written out."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise FileNotFoundError(f"{path}: there is no such user here, or no home folder: write the path out") from None


def check_file(path: Path) -> None:
    """Raise, before any work is done, where a file could not be written in the end."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file")
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file: give the name of one")
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
