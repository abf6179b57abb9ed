"""Runner of a comparison: runs the missing fits and keeps every finished one."""

from __future__ import annotations

import functools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from adacsl.comparison.fits import FitKey, FitResult
from adacsl.comparison.store import Failure, ResultStore, costs_of, now, stamped
from adacsl.execution.executors import OutOfTimeError, Placement, Update, open_executor, run_tasks
from adacsl.execution.threads import cores

if TYPE_CHECKING:
    from adacsl.comparison.racing import Race

__all__ = ["Event", "Job", "RunInterrupted", "Tally", "run"]


BEAT = 30.0
"""Seconds without another event after which a run reports that it is alive."""


class FailedFit(NamedTuple):
    """A fit without a result, of a job whose other fits go on: trying it again would not help."""

    fit: FitKey
    error: Exception


Work = Callable[[Any, Any, tuple[FitKey, ...]], Iterator["FitResult | FailedFit"]]
"""``work(shared, payload, fits)`` yields the result of each of these fits, in any order."""


@dataclass(frozen=True)
class Job:
    """Fits that share one training.

    Parameters
    ----------
    fits : tuple of FitKey
        The fits.
    payload : Any, optional
        What the work needs beside them; the data are shared by all jobs.

    Examples
    --------
    >>> from adacsl.comparison.fits import FitKey
    >>> from adacsl.comparison.runner import Job
    >>> len(Job((FitKey("mine", 8.0, "logistic", 0),)).fits)
    1
    """

    fits: tuple[FitKey, ...]
    payload: Any = None


class Tally(NamedTuple):
    """Counts and duration of a finished run."""

    done: int  # fits of these jobs that have a result, earlier runs included
    failed: int
    seconds: float
    ran: int = 0  # fits that this run finished


class Event(NamedTuple):
    """Progress of a run: one event, and the counts so far.

    Attributes
    ----------
    kind : str
        "start", "kept", "running", "done", "failed", "stopped", "corrupt", "alive" or "end".
    done : int
        The number of finished fits.
    total : int
        The number of all fits.
    fits : tuple of FitKey
        The fits it is about.
    cost : float or None
        Of a finished fit: its mean cost.
    normalized : float or None
        Of a finished fit: its normalised cost.
    seconds : float
        Of a finished fit: how long it took.
    workers : int
        Of a start: the number of jobs at once.
    message : str
        Of a failure: the reason. Of "stopped": the method, and after how many folds it is not run further.
    again : bool
        Of a failure: whether the fit is tried again.

    Examples
    --------
    >>> from adacsl.comparison.runner import Event
    >>> Event("start", 0, 10).total
    10
    """

    kind: Literal["start", "kept", "running", "done", "failed", "stopped", "corrupt", "alive", "end"]
    done: int  # fits that have a result so far, earlier runs included
    total: int
    fits: tuple[FitKey, ...] = ()
    cost: float | None = None  # per sample, as in tables; of the one fit that is done
    normalized: float | None = None  # relative to the better constant baseline
    seconds: float | None = None
    workers: int = 1
    message: str = ""
    again: bool = False  # what failed is tried again


class RunInterrupted(KeyboardInterrupt):
    """A run ended early, by Ctrl-C or its deadline: the workers have ended and what was finished is stored."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"interrupted: {done} of {total} fits are done; start it again to go on from there")
        self.done, self.total = done, total


def run(
    jobs: Iterable[Job],
    work: Work,
    store: ResultStore,
    *,
    shared: Any = None,
    backend: str = "processes",
    n_jobs: int | None = None,
    address: str | None = None,
    gpus: float = 0.0,
    retries: int = 1,
    seconds: float | None = None,
    race: Race | None = None,
    on_event: Callable[[Event], object] | None = None,
) -> Tally:
    """Run the fits that the store lacks; every result is written as soon as it is finished.

    Parameters
    ----------
    jobs : iterable of Job
        Each runs those of its fits that have no result; one without such fits is not run.
    work : callable
        ``work(shared, payload, fits)`` yields a FitResult for each of ``fits``. It must be importable in a worker.
    store : Store or MemoryStore
        Opened for writing.
    shared : object, optional
        The data, for all jobs; sent once. Its arrays may be read-only in a worker.
    backend : {"processes", "ray"}, default "processes"
        Processes on this machine, or tasks on a Ray cluster (needs ``adacsl[ray]``).
    n_jobs : int, optional
        Jobs at a time. Default: the cores of this machine, or what the cluster has room for. 1 means in this process.
    address : str, optional
        Address of a Ray cluster: ``"auto"`` or ``host:port``. Default: a local one for this run.
    gpus : float, default 0.0
        GPUs that each job needs on a Ray cluster; 0.25 lets four share one.
    retries : int, default 1
        How often the fits that a job still owes are tried again in this run when it raises; when its worker dies, once.
        Afterwards they have failed; the next run tries them again.
    seconds : float, optional
        End the run as Ctrl-C would after this long, whatever the workers do. In this process (``n_jobs=1``) the current
        fit is finished first.
    race : Race, optional
        Decides which methods are not run on further folds. Default: all run on all.
    on_event : callable, optional
        Called with an :class:`Event` for everything that happens; :class:`~adacsl.comparison.progress.Progress` is one.

    Returns
    -------
    Tally
        How many fits have results, failed and ran.

    Raises
    ------
    RunInterrupted
        A KeyboardInterrupt that states how many fits are done; also after the deadline.
    StoreError
        Results cannot be written (full disk): the run ends, what was finished stays.

    See Also
    --------
    adacsl.comparison.jobs.run_jobs : Fits of methods on tasks.

    Examples
    --------
    >>> from adacsl.comparison.runner import Job, run
    >>> tally = run([Job(fits)], work, store, n_jobs=1)  # doctest: +SKIP
    """
    begin = time.monotonic()
    jobs = _check_jobs(jobs)
    placement = Placement(backend, address, n_jobs, gpus)
    if retries < 0:
        raise ValueError(f"retries must not be negative, got {retries}")
    end = math.inf if seconds is None else begin + seconds
    course = _Course(jobs, store, race=race, on_event=on_event or (lambda event: None), placement=placement)
    try:
        if course.missing:
            count = _processes(placement, len(course.missing))
            threads = cores() // count if count else None
            executor = open_executor(
                functools.partial(fit_job, work), shared, placement, n_workers=count, threads=threads
            )
            updates = run_tasks(
                executor, course.missing, retries=retries, remaining=course.remaining, deadline=lambda: end, beat=BEAT
            )
            with closing(updates):
                for update in updates:
                    course.handle(update)
                    if update.kind == "result" and time.monotonic() >= end:
                        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise RunInterrupted(len(course.done), course.total) from None
    course.report("end")
    return Tally(len(course.done), len(course.failed), time.monotonic() - begin, course.ran)


def fit_job(work: Work, shared: Any, job: Job) -> Iterator[FitResult | FailedFit]:
    """Run a job in its worker: yield the results of its fits, with their provenance, as they come."""
    started, owed = now(), set(job.fits)
    for result in work(shared, job.payload, job.fits):
        if result.fit not in job.fits:
            raise RuntimeError(f"the work yielded a result it was not asked for: {result.fit}")
        owed.discard(result.fit)
        yield result if isinstance(result, FailedFit) else stamped(result, started=started)
    if owed:
        raise RuntimeError(f"the work ended without a result for {len(owed)} of its fits, such as {min(owed)}")


class _Course:
    """The state of a run: what is missing, what is done, what has failed."""

    def __init__(
        self,
        jobs: list[Job],
        store: ResultStore,
        *,
        race: Race | None,
        on_event: Callable[[Event], object],
        placement: Placement,
    ) -> None:
        self.store, self.race, self.on_event = store, race, on_event
        scan = store.scan()
        wanted = {fit for job in jobs for fit in job.fits}
        self.wanted, self.ran = len(wanted), 0
        self.done, self.failed, self.stopped = wanted & scan.done, set[FitKey](), set[FitKey]()
        news = list(self._looks())
        self.missing = [left for job in jobs if (left := self.remaining(job)) is not None]
        self.report("start", workers=_processes(placement, len(self.missing)) or 1)
        for stopped, fits in news:
            self.report("stopped", tuple(fits), message=stopped)
        for path, why in scan.corrupt.items():
            self.report(
                "corrupt", message=f"{path} was damaged ({why}): the file was moved there, and its fit runs again"
            )
        for fit in sorted(self.done):
            self.report("kept", (fit,), **scan.costs[fit])

    @property
    def total(self) -> int:
        """How many fits are to have results."""
        return self.wanted - len(self.stopped)

    def _looks(self) -> Iterator[tuple[str, list[FitKey]]]:
        """Yield which methods are stopped now, as text, with the fits that are not run or not used."""
        for stopped, fits in () if self.race is None else self.race.looks(self.done, self.failed):
            self.stopped.update(fits)
            self.done.difference_update(fits)
            yield f"{stopped.method}, after {len(stopped.seeds)} of {stopped.planned} folds", fits

    def report(self, kind: Any, fits: tuple[FitKey, ...] = (), **more: Any) -> None:
        self.on_event(Event(kind, len(self.done), self.total, fits, **more))

    def remaining(self, job: Job) -> Job | None:
        """Return a job with the fits that have no result yet, None where all have."""
        over = (self.done, self.failed, self.stopped)
        owed = tuple(fit for fit in job.fits if not any(fit in some for some in over))
        return replace(job, fits=owed) if owed else None

    def handle(self, update: Update) -> None:
        """Record what has happened to a job."""
        job = self.remaining(self.missing[update.number]) if update.number >= 0 else None
        if update.kind == "idle":
            self.report("alive")
        elif update.kind == "result":
            self._keep(update.value)
        elif job is not None and update.kind == "started":
            self.report("running", job.fits)
        elif job is not None and update.kind == "failed":
            if isinstance(update.value, OutOfTimeError):
                raise KeyboardInterrupt
            self._fail(job.fits, update.value, again=update.again)

    def _keep(self, result: FitResult | FailedFit) -> None:
        if isinstance(result, FailedFit):
            self._fail((result.fit,), result.error, again=False)
            return
        if result.fit in self.stopped:  # it was running when its method was stopped
            return
        try:
            self.store.write(result)
        except (TypeError, ValueError) as error:  # JSON cannot hold it
            self._fail((result.fit,), error, again=False)
            return
        if result.fit not in self.done:
            self.done.add(result.fit)
            self.ran += 1
            self.report("done", (result.fit,), **costs_of(result))
            self._race()

    def _fail(self, fits: tuple[FitKey, ...], error: BaseException, *, again: bool) -> None:
        fits = tuple(fit for fit in fits if fit not in self.stopped)
        if not fits:
            return
        failure = Failure.of(error)
        for fit in fits:
            self.store.fail(fit, failure)
        self.report("failed", fits, message=f"{failure.type}: {failure.message}", again=again)
        if not again:
            self.failed.update(fits)
            self._race()

    def _race(self) -> None:
        for stopped, fits in self._looks():
            self.report("stopped", tuple(fits), message=stopped)


def _processes(placement: Placement, jobs: int) -> int | None:
    """Return how many processes run jobs, 0: none but this one; None: as many as a cluster has room for."""
    if placement.backend == "ray":
        return placement.n_jobs
    # one job alone needs no process of its own, unless the user asked for more than one worker
    asked = placement.n_jobs
    count = min(jobs, cores()) if asked is None else min(asked, max(jobs, 2))
    return count if count > 1 else 0


def _check_jobs(jobs: Iterable[Job]) -> list[Job]:
    jobs = list(jobs)
    twice = [fit for fit, count in Counter(fit for job in jobs for fit in job.fits).items() if count > 1]
    if twice:
        raise ValueError(f"every fit must belong to one job, but {len(twice)} belong to several, such as {twice[0]}")
    return jobs
