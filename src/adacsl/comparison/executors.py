"""Executors of a comparison's jobs in joblib processes.

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
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import IO, Any, NamedTuple

from adacsl.base.extras import requires
from adacsl.comparison.fits import Cell, CellResult
from adacsl.comparison.store import Failure, Store, StoreError, as_store_error, now, stamped
from adacsl.execution import executors
from adacsl.execution.threads import cores, thread_settings

with requires("compare"):
    import cloudpickle
    from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor, process_executor


@dataclass
class Job:
    """Cells that one training serves; in a run, those it still owes, and how often it has broken."""

    cells: tuple[Cell, ...]
    payload: Any = None  # small; the data travel as ``shared``
    errors: int = 0  # it raised, or its worker died
    losses: int = 0  # its machine went away, which says nothing about the job
    failure: Failure | None = None  # of the present attempt


@dataclass(frozen=True)
class Report:
    """What a pool has to say about a job."""

    job: Job
    saved: dict[Cell, dict[str, float]] = field(default_factory=dict)  # cells now in the store, with their metrics
    failure: Failure | None = None
    over: bool = True  # nothing more will come
    lost: bool = False  # the machine went away


def outcomes(
    work: Callable[..., Iterator[CellResult]],
    shared: Any,
    payload: Any,
    cells: tuple[Cell, ...],
    *,
    save: Callable[[CellResult], object] | None = None,
) -> Iterator[CellResult | Failure]:
    """Do a job: yield its results, saved, as they come, and at the end a failure if there was one.

    ``work(shared, payload, cells)`` yields the result of each of these cells, in any order. Only a StoreError is
    raised: a full disk is not the job's fault and ends the run.
    """
    started, owed = now(), set(cells)
    try:
        for plain in work(shared, payload, cells):
            if plain.cell not in cells:
                raise RuntimeError(f"the work yielded a result it was not asked for: {plain.cell}")
            result = stamped(plain, started=started)
            if save is not None:
                save(result)
            owed.discard(result.cell)
            yield result
        if owed:
            raise RuntimeError(f"the work ended without a result for {len(owed)} of its cells, such as {min(owed)}")
    except StoreError:
        raise
    except (Exception, SystemExit) as error:
        yield Failure.of(error)


class Pool:
    """Where jobs run: here, one after another, unless a subclass has other places.

    Parameters
    ----------
    work : callable
        ``work(shared, payload, cells)`` yields the result of each of these cells.
    shared : object
        The data, for all jobs.
    store : Store
        Where results go.
    """

    def __init__(self, work: Callable[..., Iterator[CellResult]], shared: Any, store: Store) -> None:
        self._work, self._shared, self._store = work, shared, store
        self._waiting: list[Job] = []

    def has_room(self) -> bool:
        """Tell whether one more job is welcome."""
        return not self._waiting

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._waiting.append(job)

    def wait(self, seconds: float | None = None) -> Iterator[Report]:
        """Wait until something has happened, and tell it; after so many seconds that may be nothing.

        Here the job is done, however long it takes, and each cell is told at once.
        """
        job, failure = self._waiting.pop(), None
        for outcome in outcomes(self._work, self._shared, job.payload, job.cells, save=self._store.write):
            if isinstance(outcome, Failure):
                failure = outcome
            else:
                yield Report(job, {outcome.cell: outcome.metrics}, over=False)
        yield Report(job, failure=failure)

    def close(self, *, kill: bool) -> None:
        """End the workers, if there are any; ``kill`` does not wait for what they do."""


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
        self._started.append(ProcessPoolExecutor(1, initializer=executors.begin, initargs=given, env=env))
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
    parcel = Parcel(*executors.received[0])
    mapped = memoryview(b"")
    if parcel.file:
        with Path(parcel.file).open("rb") as file:
            if _identity(file) != parcel.identity:
                raise RuntimeError(f"{parcel.file} holds other data than this worker was sent")
            # copy on write: workers share the pages until one of them changes its own copy
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    buffers = [mapped[start : start + length] for start, length in parcel.places]
    content = pickle.loads(parcel.head, buffers=buffers)  # noqa: S301  from our parent, through a pipe
    executors.received.clear()
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
