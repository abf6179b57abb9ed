"""Jobs on the cores of this machine: joblib's worker processes, each in a pool of its own.

A worker that dies breaks its pool. With a pool for each, the others go on, and it is known which job was its last.
"""

from __future__ import annotations

import functools
import mmap
import os
import pickle
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.documents import StoreError, as_store_error
from adacsl.experiments.pools import Job, Pool, Report, outcomes
from adacsl.experiments.store import Failure, Store
from adacsl.extras import requires
from adacsl.workers import begin, cores, thread_settings

with requires("compare"):
    import cloudpickle
    from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor, process_executor

ALIGNMENT = 64
GROWTH = 4 * 2**30
"""Bytes by which a worker may grow before loky restarts it. Its own limit of 300 MB is reached after a net or two on a
GPU, and a fresh worker needs some 20 seconds there: imports, a context, convolutions to be tuned anew."""


class JoblibPool(Pool):
    """Worker processes that write their results themselves.

    Parameters
    ----------
    work, shared
        Written once, to the run folder; workers map large arrays from there into memory instead of copying them.
    workers : int
        How many processes; each gets its share of the cores for its threads.
    """

    def __init__(self, work: Callable[..., Iterator[CellResult]], shared: Any, store: Store, *, workers: int) -> None:
        super().__init__(work, shared, store)
        self._workers = workers
        self._parcel = store.folder / f".shared-{uuid.uuid4().hex}.draft"
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[Any], tuple[ProcessPoolExecutor, Job]] = {}
        try:
            with as_store_error(self._parcel):
                _pack(self._parcel, (work, shared))
        except BaseException:
            shutil.rmtree(self._parcel, ignore_errors=True)
            raise

    def has_room(self) -> bool:
        """Tell whether a worker is free."""
        return len(self._busy) < self._workers

    def submit(self, job: Job) -> None:
        """Give a job to a free worker, or to a new one."""
        executor = self._idle.pop() if self._idle else self._start()
        future = executor.submit(_do, str(self._store.folder), str(self._parcel), job.payload, job.cells)
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
            else:
                self._idle.append(executor)
            if error is None:
                yield Report(job, *future.result())
            else:  # the worker died, or the job could not even be sent
                saved = {cell: self._store.read(cell).metrics for cell in job.cells if self._store.has(cell)}
                yield Report(job, saved, _obituary(error) if broken else Failure.of(error))

    def close(self, *, kill: bool) -> None:
        """End the workers."""
        executors = [*self._idle, *(executor for executor, _ in self._busy.values())]
        for executor in executors:  # all at once, then one by one
            executor.shutdown(wait=False, kill_workers=kill)
        for executor in executors:
            executor.shutdown(wait=True, kill_workers=kill)
        self._idle, self._busy = [], {}
        shutil.rmtree(self._parcel, ignore_errors=True)

    def _start(self) -> ProcessPoolExecutor:
        env = thread_settings(cores() // self._workers)
        return ProcessPoolExecutor(1, initializer=_begin, initargs=(os.getpid(), str(self._store.folder)), env=env)


def _obituary(error: BaseException) -> Failure:
    text = " ".join(str(error).split())
    codes = re.search(r"exit codes of the workers are \{(.+?)\}", text)
    if codes is None:
        return Failure("WorkerDied", f"the worker process died: {text[:300]}")
    return Failure("WorkerDied", f"the worker process died with exit code {codes[1]} (out of memory?)")


# in the worker


def _begin(parent: int, folder: str) -> None:
    begin(parent)
    process_executor._MAX_MEMORY_LEAK_SIZE = GROWTH
    _attached(folder)


@functools.cache
def _attached(folder: str) -> Store:
    return Store.attach(folder)


def _do(folder: str, parcel: str, *job: Any) -> tuple[dict[Cell, dict[str, float]], Failure | None]:
    """Return the metrics of what is now on the disk, and why there is no more."""
    store, (work, shared) = _attached(folder), _unpack(parcel)
    saved: dict[Cell, dict[str, float]] = {}
    for outcome in outcomes(work, shared, *job, save=store.write):
        if isinstance(outcome, Failure):
            return saved, outcome
        saved[outcome.cell] = outcome.metrics
    return saved, None


# parcels: a pickle whose large buffers lie in a file beside it, to be mapped


def _pack(folder: Path, content: Any) -> None:
    buffers: list[pickle.PickleBuffer] = []
    head = cloudpickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    folder.mkdir()
    places = []
    with (folder / "buffers").open("xb") as file:
        for buffer in buffers:
            file.seek(-file.tell() % ALIGNMENT, os.SEEK_CUR)
            with buffer.raw() as raw:
                places.append((file.tell(), raw.nbytes))
                file.write(raw)
    (folder / "objects").write_bytes(pickle.dumps((head, places)))


@functools.cache
def _unpack(parcel: str) -> Any:
    folder = Path(parcel)
    # written by our parent, for us
    head, places = pickle.loads((folder / "objects").read_bytes())  # noqa: S301
    with (folder / "buffers").open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        # copy on write: workers share the pages until one of them changes its own copy
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)) if size else memoryview(b"")
    return pickle.loads(head, buffers=[mapped[start : start + length] for start, length in places])  # noqa: S301
