"""What a worker process does: it ends with its parent, and runs the tasks that come through its pipe.

Only the standard library is imported here, as a worker has to watch its parent before it imports what takes seconds.
A pickle, which runs code when it is read, travels from process to process through a pipe and is never written to disk.
Only the bytes of large arrays are, in a file that has no name and vanishes with the parent.
"""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

WATCH_SECONDS = 0.1
"""Seconds between two looks of a worker whether its parent is still alive."""

Work = Callable[[Any, Any], Iterator[Any]]
"""``work(shared, task)`` yields the results of a task. It must be importable in a worker, or picklable by value."""
Kind = Literal["result", "done", "raised", "died", "lost"]


class WorkerTraceback(Exception):  # noqa: N818  not an error: the text of a traceback, shown as the cause of one
    """The traceback of an error that was raised in another process."""


class Parcel(NamedTuple):
    """What every worker needs."""

    head: bytes
    """The pickle, without its large buffers."""
    places: tuple[tuple[int, int], ...] = ()
    """Start and length of each buffer in the file."""
    file: str = ""
    """Path of the nameless file of the parent; empty where the pickle holds everything."""
    identity: tuple[int, ...] = ()
    """Device, inode and size of the file."""


def watch_parent(parent: int) -> None:
    """End this process with its parent, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)


def serve(connection: Connection, parent: int, modules: tuple[str, ...] = ()) -> None:
    """Run the tasks that the parent sends, until it closes the pipe.

    ``modules`` are imported at once, as far as they are installed. First comes a parcel with the work and its shared
    data, then task after task, each answered by its results and one last message; or another parcel.
    """
    watch_parent(parent)
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    try:
        parcel, content = Parcel(b""), None
        while True:
            task = pickle.loads(connection.recv_bytes())  # noqa: S301  from the parent
            if isinstance(task, Parcel):
                parcel, content = task, None
                continue
            try:
                content = unpack(parcel) if content is None else content
                work, shared = content
                for kind, value in messages(work, shared, task):
                    _send(connection, kind, value)
            except (Exception, SystemExit) as error:  # the parcel cannot be read here, or a result cannot be sent
                _send(connection, "raised", error)
    except (EOFError, OSError):  # the parent has closed the pipe
        return


def _send(connection: Connection, kind: Kind, value: Any) -> None:
    import cloudpickle  # noqa: PLC0415  not before the parent is watched

    sent = portable(value) if kind == "raised" else value
    connection.send_bytes(cloudpickle.dumps((kind, sent), protocol=5))


def messages(work: Work, shared: Any, task: Any) -> Iterator[tuple[Kind, Any]]:
    """Yield the results of a task, and at last that it is done or what it raised."""
    try:
        for result in work(shared, task):
            yield "result", result
    except (Exception, SystemExit) as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise  # Lightning answers Ctrl-C by itself, and ends the program
        yield "raised", error
    else:
        yield "done", None


def portable(error: BaseException) -> tuple[BaseException, str]:
    """Return an error that can be sent to another process, and its traceback as text."""
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  ours
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}"), trace
    return error, trace


def restored(sent: tuple[BaseException, str]) -> BaseException:
    """Return what :func:`portable` was given, with the traceback as its cause."""
    error, trace = sent
    error.__cause__ = WorkerTraceback(f"\n{trace}")
    return error


def unpack(parcel: Parcel) -> Any:
    """Return what the parent packed; large arrays are mapped into memory, and copied where they are written to."""
    mapped = memoryview(b"")
    if parcel.file:
        with Path(parcel.file).open("rb") as file:
            if identity_of(file) != parcel.identity:
                raise RuntimeError(f"{parcel.file} holds other data than this worker was sent")
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    buffers = [mapped[start : start + length] for start, length in parcel.places]
    return pickle.loads(parcel.head, buffers=buffers)  # noqa: S301  from the parent, through a pipe


def identity_of(file: IO[bytes]) -> tuple[int, ...]:
    """Return device, inode and size of an open file."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size
