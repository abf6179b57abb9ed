"""Worker processes on the cores of this machine, with their share of the threads."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, ClassVar

from adacsl import heartbeat
from adacsl.extras import requires

with requires("sklearn"):
    import joblib
    from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
    from threadpoolctl import ThreadpoolController

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
MANY_ROWS = 20_000
"""With fewer rows of a table a second thread waits longer than it works."""

HOME = os.getpid()
"""The process that has loaded this; what it forks has the same number here, and another one in truth."""


def cores() -> int:
    """Return how many cores this process may use."""
    return int(joblib.cpu_count())


def threads_in_use() -> int:
    """Return how many threads libraries may use now; for those that look at the number of cores only."""
    return int(_openmp_effective_n_threads())


def threads_for(name: str, share: int) -> int:
    """Return how many threads a worker may have: its share of the cores, less where the user said so."""
    asked = os.environ.get(name, "")
    return max(1, min(share, int(asked)) if asked.isdigit() else share)


def thread_settings(share: int) -> dict[str, str]:
    """Return the environment of a worker with its share of the cores: none is used twice."""
    return {name: str(threads_for(name, share)) for name in THREAD_VARIABLES}


class _Limit:
    """The limit of one thread of this process, and what it found before."""

    held: ClassVar[list[_Limit]] = []
    lock = threading.Lock()

    def __init__(self, threads: int) -> None:
        self.torch = sys.modules.get("torch")
        self.before = 0 if self.torch is None else self.torch.get_num_threads()
        libraries = ThreadpoolController()
        self.own = libraries.select(user_api="openmp").limit(limits=threads)  # of the thread that asks
        self.everybodys = libraries.select(user_api="blas").limit(limits=threads)
        if self.torch is not None:
            self.torch.set_num_threads(threads)

    def end(self) -> None:
        """Restore what was there; where others began meanwhile, the next of them does so when it ends."""
        following = _Limit.held[_Limit.held.index(self) + 1 :]
        _Limit.held.remove(self)
        self.own.restore_original_limits()
        if self.torch is not None:
            self.torch.set_num_threads(self.before)
        if following:
            following[0].everybodys, following[0].before = self.everybodys, self.before or following[0].before
        else:
            self.everybodys.restore_original_limits()


@contextlib.contextmanager
def limited(threads: int) -> Iterator[None]:
    """Let the libraries of this process use so many threads, for a while.

    Several threads on little data wait for each other longer than they work, on a busy machine very much longer.
    """
    with _Limit.lock:
        limit = _Limit(threads)
        _Limit.held.append(limit)
    try:
        yield
    finally:
        with _Limit.lock:
            limit.end()


def limited_for(rows: int) -> contextlib.AbstractContextManager[None]:
    """Let a fit on so many rows of a table use the threads that are worth it: one where there are few rows.

    With many rows nothing changes: the libraries' own settings, and the share of a worker, are what counts.
    """
    return limited(1) if rows < MANY_ROWS or os.getpid() != HOME else contextlib.nullcontext()


@contextlib.contextmanager
def one_thread_if_forked() -> Iterator[None]:
    """Let a process that was forked use one thread: OpenMP's stayed behind, and it would wait for them for ever."""
    with limited(1) if os.getpid() != HOME else contextlib.nullcontext():
        yield


def run_tasks(
    work: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any], *, workers: int, threads: int,
    skip: Callable[[Any], bool], deadline: float,
) -> Generator[tuple[int, Any]]:  # fmt: skip
    """Yield the number of each task and ``work(shared, task)``, or what it raised, as they come.

    Parameters
    ----------
    work : callable
        Done in worker processes; with ``workers=0`` here, one after another.
    shared : object
        Travels to each worker once.
    tasks : sequence
        Begun in this order.
    threads : int
        How many each may use.
    skip : callable
        Asked before a task is begun, once one has succeeded: whether there is too little time left for it.
    deadline : float
        ``time.monotonic()`` when workers are ended, or as soon afterwards as one task has succeeded. Here, where
        nobody can be ended, no task is begun after it.
    """
    if not workers:
        with limited(threads):
            yield from _run_here(work, shared, tasks, skip, deadline)
        return
    crew = _Crew(workers, threads, shared)
    waiting, succeeded = list(range(len(tasks))), False
    running: dict[Future[Any], int] = {}
    suspects: set[int] = set()
    try:
        while waiting or running:
            while waiting and len(running) < _room(workers, waiting[0], running, suspects):
                number = waiting.pop(0)
                if succeeded and (time.monotonic() > deadline or skip(tasks[number])):
                    yield number, TimeoutError("out of time")
                else:
                    running[crew.submit(work, tasks[number])] = number
            left = max(0.0, min(deadline - time.monotonic(), threading.TIMEOUT_MAX)) if succeeded else None
            done = wait(running, left, return_when=FIRST_COMPLETED).done
            if not done and running:
                yield from ((number, TimeoutError("out of time")) for number in [*running.values(), *waiting])
                return
            died = _died(running)
            if len(died) > 1:  # with one process all are lost, and nobody knows whose it was: each runs again, alone
                suspects |= died
                waiting[:0] = sorted(died)
                running = {future: number for future, number in running.items() if number not in died}
            for future in [future for future in done if future in running]:
                outcome = crew.outcome(future)
                succeeded = succeeded or not isinstance(outcome, Exception)
                yield running.pop(future), outcome
    finally:
        crew.end()


def _room(workers: int, number: int, running: Mapping[Any, int], suspects: Container[int]) -> int:
    """Return how many tasks may run at once: a suspect runs alone."""
    return 1 if any(other in suspects for other in (number, *running.values())) else workers


def _died(running: Mapping[Future[Any], int]) -> set[int]:
    """Return the tasks whose process died, or went with one that did."""
    if not any(future.done() and isinstance(future.exception(), BrokenProcessPool) for future in running):
        return set()
    ended = wait(running).done  # the others follow at once
    return {running[future] for future in ended if isinstance(future.exception(), BrokenProcessPool)}


def _run_here(
    work: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any], skip: Callable[[Any], bool], deadline: float
) -> Generator[tuple[int, Any]]:
    succeeded = False
    for number, task in enumerate(tasks):
        if succeeded and (time.monotonic() > deadline or skip(task)):
            yield number, TimeoutError("out of time")
            continue
        try:
            yield number, work(shared, task)
            succeeded = True
        except Exception as error:
            yield number, error


class _Crew:
    """Processes that hold the shared data; when one has died, others take its place."""

    def __init__(self, workers: int, threads: int, shared: Any) -> None:
        self._workers, self._threads, self._shared = workers, threads, shared
        self._executor = self._start()

    def _start(self) -> Any:
        return ProcessPoolExecutor(
            self._workers,
            initializer=heartbeat.begin,
            initargs=(os.getpid(), self._shared),
            env=thread_settings(self._threads),
        )

    def submit(self, work: Callable[[Any, Any], Any], task: Any) -> Future[Any]:
        try:
            future: Future[Any] = self._executor.submit(_do, work, task)
        except BrokenProcessPool:
            self.end()
            self._executor = self._start()
            future = self._executor.submit(_do, work, task)
        return future

    def outcome(self, future: Future[Any]) -> Any:
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            return RuntimeError("the worker process died (out of memory?)")
        if error is None:
            return future.result()
        return error if isinstance(error, Exception) else RuntimeError(repr(error))

    def end(self) -> None:
        self._executor.shutdown(wait=True, kill_workers=True)


def _do(work: Callable[[Any, Any], Any], task: Any) -> Any:
    (shared,) = heartbeat.received
    return work(shared, task)
