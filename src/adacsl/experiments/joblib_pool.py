"""Jobs on the cores of this machine: joblib's worker processes, each in a pool of its own.

A worker that dies breaks its pool. With a pool for each, the others go on, and it is known which job was its last.

What runs code when it is read, a pickle, goes from process to process through a pipe and never lies on the disk. Only
the bytes of large arrays lie there, in a file that has no name and vanishes with this process.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from threading import Thread
from typing import IO, Any, NamedTuple

from adacsl import heartbeat
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.documents import StoreError, as_store_error
from adacsl.experiments.pools import Job, Pool, Report, outcomes
from adacsl.experiments.store import Failure, Store
from adacsl.extras import requires
from adacsl.workers import cores, thread_settings

with requires("compare"):
    import cloudpickle
    from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor, process_executor

ALIGNMENT = 64
PATIENCE = 10.0
"""Seconds to wait for workers that were killed."""
NAMELESS = Path("/proc/self/fd")
"""Where it is, other processes can open a file that has no name. Elsewhere each worker is sent all data."""
GROWTH = 4 * 2**30
"""Bytes by which a worker may grow before loky restarts it. Its own limit of 300 MB is reached after a net or two on a
GPU, and a fresh worker needs some 20 seconds there: imports, a context, convolutions to be tuned anew."""


class Parcel(NamedTuple):
    """What every worker needs, as it is sent through a pipe."""

    head: bytes  # the pickle
    places: tuple[tuple[int, int], ...] = ()  # start and length of each buffer in the file
    file: str = ""  # the nameless file of the parent, as other processes reach it
    identity: tuple[int, ...] = ()  # of the file


class JoblibPool(Pool):
    """Worker processes that write their results themselves.

    Parameters
    ----------
    work, shared
        Sent to each worker; large arrays are written once, to a nameless file on the disk of the run folder, and mapped
        into the memory of all workers instead of being copied.
    workers : int
        How many processes; each gets its share of the cores for its threads.
    """

    def __init__(self, work: Callable[..., Iterator[CellResult]], shared: Any, store: Store, *, workers: int) -> None:
        super().__init__(work, shared, store)
        self._workers = workers
        self._started: list[ProcessPoolExecutor] = []
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[Any], tuple[ProcessPoolExecutor, Job]] = {}
        with as_store_error(store.folder), contextlib.ExitStack() as opened:
            file: IO[bytes] | None = None
            if NAMELESS.exists():  # on some file systems it has a name for a moment
                file = opened.enter_context(tempfile.TemporaryFile(dir=store.folder, prefix=".", suffix=".draft"))
            self._parcel = pack_parcel((work, shared), file)
            self._opened = opened.pop_all()

    def has_room(self) -> bool:
        """Tell whether a worker is free."""
        return len(self._busy) < self._workers

    def submit(self, job: Job) -> None:
        """Give a job to a free worker, or to a new one."""
        executor = self._idle.pop() if self._idle else self._start()
        future = executor.submit(_do, str(self._store.folder), job.payload, job.cells)
        self._busy[future] = executor, job

    def wait(self, seconds: float | None = None) -> Iterator[Report]:
        """Wait until a worker is through, or dead, or the time is over."""
        for future in wait(self._busy, seconds, return_when=FIRST_COMPLETED).done:
            executor, job = self._busy.pop(future)
            error = future.exception()
            if isinstance(error, StoreError):
                raise error
            broken = isinstance(error, BrokenProcessPool)
            if broken:
                executor.shutdown(wait=True, kill_workers=True)
                self._started.remove(executor)
            else:
                self._idle.append(executor)
            if error is None:
                yield Report(job, *future.result())
            else:  # the worker died, or the job could not even be sent
                saved = {cell: self._store.read(cell).metrics for cell in job.cells if self._store.has(cell)}
                yield Report(job, saved, _obituary(error) if broken else Failure.of(error))

    def close(self, *, kill: bool) -> None:
        """End the workers."""
        for executor in self._started:  # all at once, then one by one
            executor.shutdown(wait=False, kill_workers=kill)
        waiting = [Thread(target=one.shutdown, args=(True, kill), daemon=True) for one in self._started]
        for thread in waiting:
            thread.start()
        for thread in waiting:  # a pool that a signal has caught while it was made may never say that it has ended
            thread.join(PATIENCE if kill else None)
        self._started, self._idle, self._busy = [], [], {}
        self._opened.close()

    def _start(self) -> ProcessPoolExecutor:
        env = thread_settings(cores() // self._workers)
        # a tuple: to read a Parcel, this module would be imported before the worker looks after its parent
        given = os.getpid(), tuple(self._parcel)
        self._started.append(ProcessPoolExecutor(1, initializer=heartbeat.begin, initargs=given, env=env))
        return self._started[-1]


def _obituary(error: BaseException) -> Failure:
    text = " ".join(str(error).split())
    codes = re.search(r"exit codes of the workers are \{(.+?)\}", text)
    if codes is None:
        return Failure("WorkerDied", f"the worker process died: {text[:300]}")
    return Failure("WorkerDied", f"the worker process died with exit code {codes[1]} (out of memory?)")


# in the worker


@functools.cache
def _attached(folder: str) -> Store:
    process_executor._MAX_MEMORY_LEAK_SIZE = GROWTH
    return Store.attach(folder)


def _do(folder: str, *job: Any) -> tuple[dict[Cell, dict[str, float]], Failure | None]:
    """Return the metrics of what is now on the disk, and why there is no more."""
    store, (work, shared) = _attached(folder), unpacked()
    saved: dict[Cell, dict[str, float]] = {}
    for outcome in outcomes(work, shared, *job, save=store.write):
        if isinstance(outcome, Failure):
            return saved, outcome
        saved[outcome.cell] = outcome.metrics
    return saved, None


@functools.cache
def unpacked() -> Any:
    """Return what the parent packed."""
    parcel = Parcel(*heartbeat.received[0])
    mapped = memoryview(b"")
    if parcel.file:
        with Path(parcel.file).open("rb") as file:
            if _identity(file) != parcel.identity:
                raise RuntimeError(f"{parcel.file} holds other data than this worker was sent")
            # copy on write: workers share the pages until one of them changes its own copy
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    buffers = [mapped[start : start + length] for start, length in parcel.places]
    content = pickle.loads(parcel.head, buffers=buffers)  # noqa: S301  from our parent, through a pipe
    heartbeat.received.clear()
    return content


# parcels: a pickle without its large buffers, and where these lie


def pack_parcel(content: Any, file: IO[bytes] | None) -> Parcel:
    """Return what is to be sent; large buffers go to the file, where there is one."""
    if file is None:
        return Parcel(cloudpickle.dumps(content, protocol=5))
    buffers: list[pickle.PickleBuffer] = []
    head = cloudpickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    places = []
    for buffer in buffers:
        file.seek(-file.tell() % ALIGNMENT, os.SEEK_CUR)
        with buffer.raw() as raw:
            places.append((file.tell(), raw.nbytes))
            file.write(raw)
    file.flush()
    identity = _identity(file)
    reached = f"/proc/{os.getpid()}/fd/{file.fileno()}" if identity[-1] else ""  # what is empty cannot be mapped
    return Parcel(head, tuple(places), reached, identity)


def _identity(file: IO[bytes]) -> tuple[int, ...]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size
