"""Runs the missing fits of a comparison and keeps every finished one."""

from __future__ import annotations

import functools
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from adacsl.comparison.executors import Job, Pool, Report
from adacsl.comparison.fits import Cell, CellResult
from adacsl.comparison.store import Failure, Store

__all__ = ["Event", "RunInterrupted", "Tally", "run"]


LOSSES = 5
"""How often a job is sent again because its machine went away: that says nothing about the job."""
BEAT = 30.0
"""Seconds after which a run says that it is alive, when nothing else has happened."""


class Tally(NamedTuple):
    """How a run ended."""

    done: int  # cells of these jobs that have a result, earlier runs included
    failed: int
    seconds: float
    ran: int = 0  # cells that this run finished


class Event(NamedTuple):
    """What a run tells while it goes on."""

    kind: Literal["start", "kept", "running", "done", "failed", "corrupt", "alive", "end"]
    done: int  # cells that have a result so far, earlier runs included
    total: int
    cells: tuple[Cell, ...] = ()
    cost: float | None = None  # per row, as tables have it; of the one cell that is done
    normalized: float | None = None  # the same by what the better constant decision costs
    message: str = ""
    again: bool = False  # what failed is tried once more


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C: the workers have ended and what was finished is stored."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"interrupted: {done} of {total} cells are done; start it again to go on from there")
        self.done, self.total = done, total


def run(
    jobs: Iterable[Job],
    work: Callable[..., Iterator[CellResult]],
    store: Store,
    *,
    shared: Any = None,
    engine: str = "joblib",
    workers: int | None = None,
    address: str | None = None,
    gpus: float = 0.0,
    retries: int = 1,
    seconds: float | None = None,
    on_event: Callable[[Event], object] | None = None,
) -> Tally:
    """Run the cells that the store lacks; every result is written as soon as it is there.

    Parameters
    ----------
    jobs : iterable of Job
        Each gets those of its cells that are missing; one that misses none is not run.
    work : function
        ``work(shared, payload, cells)`` yields a CellResult for each of ``cells``. It must be importable in a worker.
    store : Store
        Opened for writing.
    shared : object, optional
        The data, for all jobs; sent once. Its arrays may be read-only in a worker.
    engine : "joblib" or "ray"
        Processes on this machine, or tasks on a Ray cluster (needs ``adacsl[ray]``).
    workers : int, optional
        Jobs at a time; default: the cores of this machine, or what the cluster has room for. With joblib, 1 means in
        this process.
    address : str, optional
        Of a Ray cluster: ``"auto"`` or ``host:port``. Default: a local one for this run.
    gpus : float, default 0
        GPUs that each job needs on a Ray cluster; 0.25 lets four share one.
    retries : int, default 1
        How often the cells that a job still owes are tried again in this run when it raises or its worker dies.
        Afterwards they are failed, which the next run tries again.
    seconds : float, optional
        End the run as Ctrl-C would after this long, whatever the workers do. In this process (``workers=1``) the cell
        at hand is finished first.
    on_event : callable, optional
        Gets an Event for everything that happens; :class:`adacsl.comparison.progress.Progress` is one.

    Raises
    ------
    RunInterrupted
        A KeyboardInterrupt that says how many cells are done; also when the time is over.
    StoreError
        Results cannot be written (full disk): the run ends, what was finished stays.
    """
    begin = time.monotonic()
    jobs = _check_jobs(jobs)
    _check_settings(engine, workers=workers, address=address, gpus=gpus, retries=retries)
    course = _Course(jobs, store, retries=retries, tell=on_event or (lambda event: None))
    if course.queue:
        where: dict[str, Any] = {"workers": workers, "address": address, "gpus": gpus}
        open_pool = functools.partial(_open_pool, engine, len(course.queue), work, shared, store, **where)
        _drive(course, open_pool, math.inf if seconds is None else begin + seconds)
    course.say("end")
    return Tally(len(course.done), len(course.failed), time.monotonic() - begin, course.ran)


class _Course:
    """The state of a run: what waits, what is done, what has failed."""

    def __init__(self, jobs: list[Job], store: Store, *, retries: int, tell: Callable[[Event], object]) -> None:
        self.store, self.retries, self.tell = store, retries, tell
        scan = store.scan()
        wanted = {cell for job in jobs for cell in job.cells}
        self.total, self.ran = len(wanted), 0
        self.done = wanted & scan.done
        self.failed: set[Cell] = set()
        self.queue: deque[Job] = deque()
        self.running = 0
        for job in jobs:
            if missing := tuple(cell for cell in job.cells if cell not in scan.done):
                self.queue.append(replace(job, cells=missing))
        self.say("start")
        for path, why in scan.corrupt.items():
            self.say("corrupt", message=f"{path} was damaged ({why}): it is kept there, and its cell runs again")
        for cell in sorted(self.done):
            self.say("kept", (cell,), **scan.costs[cell])

    def say(self, kind: Any, cells: tuple[Cell, ...] = (), **more: Any) -> None:
        self.tell(Event(kind, len(self.done), self.total, cells, **more))

    def take(self, report: Report) -> None:
        """Note what a pool reports; a job that owes cells is recorded, and queued again if it may."""
        job = report.job
        for cell, metrics in report.saved.items():
            if cell not in self.done:
                self.done.add(cell)
                self.ran += 1
                self.say("done", (cell,), cost=metrics.get("cost"), normalized=metrics.get("normalized_cost"))
        job.failure = report.failure or job.failure
        if not report.over:
            return
        self.running -= 1
        owed = tuple(cell for cell in job.cells if cell not in self.done)
        if owed:
            self._fail(job, owed, lost=report.lost)

    def _fail(self, job: Job, owed: tuple[Cell, ...], *, lost: bool) -> None:
        failure = job.failure or Failure("RuntimeError", "the job ended without saying why")
        job.losses += lost
        job.errors += not lost
        again = job.errors <= self.retries and job.losses <= LOSSES
        for cell in owed:
            self.store.fail(cell, failure)
        self.say("failed", owed, message=f"{failure.type}: {failure.message}", again=again)
        if again:
            job.cells, job.failure = owed, None
            self.queue.append(job)
        else:
            self.failed.update(owed)


def _drive(course: _Course, open_pool: Callable[[], Pool], end: float) -> None:
    pool, finished = None, False
    try:
        pool = open_pool()
        while course.queue or course.running:
            while course.queue and pool.has_room():
                job = course.queue.popleft()
                course.say("running", job.cells)
                pool.submit(job)
                course.running += 1
            quiet = True
            for report in pool.wait(min(BEAT, max(0.0, end - time.monotonic()))):
                quiet = False
                course.take(report)
                if not report.over and time.monotonic() >= end:
                    raise KeyboardInterrupt
            if quiet:
                course.say("alive")
            if (course.queue or course.running) and time.monotonic() >= end:
                raise KeyboardInterrupt
        finished = True
    except KeyboardInterrupt:
        raise RunInterrupted(len(course.done), course.total) from None
    finally:
        if pool is not None:
            pool.close(kill=not finished)


def _open_pool(engine: str, jobs: int, *base: Any, workers: int | None, **cluster: Any) -> Pool:
    if engine == "ray":
        from adacsl.comparison.ray_executor import RayPool  # noqa: PLC0415  - Ray only for those who ask for it

        return RayPool(*base, workers=workers, **cluster)
    from adacsl.comparison import executors  # noqa: PLC0415
    from adacsl.execution.threads import cores  # noqa: PLC0415

    # one job alone needs no process of its own, unless the user asked for more than one worker
    workers = min(jobs, cores()) if workers is None else min(workers, max(jobs, 2))
    return Pool(*base) if workers == 1 else executors.JoblibPool(*base, workers=workers)


def _check_jobs(jobs: Iterable[Job]) -> list[Job]:
    jobs = list(jobs)
    twice = [cell for cell, count in Counter(cell for job in jobs for cell in job.cells).items() if count > 1]
    if twice:
        raise ValueError(f"every cell must belong to one job, but {len(twice)} belong to several, such as {twice[0]}")
    return jobs


def _check_settings(engine: str, *, workers: int | None, address: str | None, gpus: float, retries: int) -> None:
    if engine not in ("joblib", "ray"):
        raise ValueError(f"engine must be 'joblib' (this machine) or 'ray' (a cluster), got {engine!r}")
    if engine == "joblib" and (address is not None or gpus):
        raise ValueError("address and gpus are for engine='ray'; the workers of joblib see all GPUs of this machine")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if retries < 0 or gpus < 0:
        raise ValueError(f"retries and gpus must not be negative, got {retries} and {gpus:g}")
