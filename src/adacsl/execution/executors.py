"""Executors that run tasks in processes, on this machine or elsewhere, and survive lost workers.

It imports next to nothing, as a worker has to look after its parent before it imports what takes seconds.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Protocol

from adacsl.base.extras import requires, resolve
from adacsl.execution.threads import limited, thread_settings

with requires("sklearn"):
    from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor


HEARTBEAT = 0.1
"""Seconds between two looks of a worker whether its parent still lives."""

received: list[Any] = []
"""What the parent gave this worker at its start, for all it will do."""


def begin(parent: int, *given: Any) -> None:
    """Let a worker leave Ctrl-C to its parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    received[:] = given


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(HEARTBEAT)
    os._exit(1)


LOSSES = 5
"""How often work is sent again because its machine went away: that says nothing about the work."""


@dataclass(frozen=True)
class Where:
    """Where something trains, and on how many: what ``trainer=`` says to portfolios.

    ``engine`` is "joblib" (processes on this machine) or "ray"; ``address`` that of a Ray cluster (default: a local one
    of its own); ``gpus`` are those of each worker, on Ray.
    """

    engine: str = "joblib"
    address: str | None = None
    workers: int | None = None
    gpus: float = 0.0


def read_trainer(given: Any) -> Where:
    """Return where something trains, of a dict of settings or None; refuse what makes no sense.

    Examples
    --------
    >>> read_trainer({"workers": 4})
    Where(engine='joblib', address=None, workers=4, gpus=0.0)
    """
    if not isinstance(given, dict | None):
        raise TypeError(f"trainer must be a dict such as {{'engine': 'ray', 'workers': 4}}, got {given!r}")
    known = [field.name for field in fields(Where)]
    if unknown := [name for name in given or () if name not in known]:
        raise ValueError(
            f"trainer has no setting {unknown[0]!r} here; it has {', '.join(known)}. "
            "Lightning's are for nets: net={'trainer': {'devices': 2}}"
        )
    where = Where(**(given or {}))
    check_where(where)
    return where


def check_where(where: Where) -> None:
    """Refuse places that make no sense."""
    engine, address, workers, gpus = where.engine, where.address, where.workers, where.gpus
    if engine not in ("joblib", "ray"):
        raise ValueError(f"engine must be 'joblib' (this machine) or 'ray' (a cluster), got {engine!r}")
    if not isinstance(address, str | None) or address == "":
        raise ValueError(f"address must be a text such as 'auto' or 'host:port', got {address!r}")
    if workers is not None and (not isinstance(workers, Integral) or isinstance(workers, bool) or workers < 1):
        raise ValueError(f"workers must be a whole number of at least 1, got {workers!r}")
    if not isinstance(gpus, Real) or not 0.0 <= float(gpus) < float("inf"):
        raise ValueError(f"gpus must be a number of at least 0, got {gpus!r}")
    if engine == "joblib" and (address is not None or gpus):
        raise ValueError("address and gpus are for engine='ray'; processes of this machine see all its GPUs")


class Crew(Protocol):
    """Workers that hold some shared data: processes of this machine, or tasks on a cluster.

    It is opened with the number of workers (0: as many as there is room for), their threads and the shared data.
    """

    workers: int
    """How many tasks run at once."""

    def submit(self, work: Callable[[Any, Any], Any], task: Any) -> Future[Any]:
        """Begin ``work(shared, task)``."""

    def died(self, running: Mapping[Future[Any], Any]) -> set[Any]:
        """Return the tasks whose process died, or went with one that did."""

    def lost(self, future: Future[Any]) -> bool:
        """Tell whether the machine went away, which says nothing about the task."""

    def outcome(self, future: Future[Any]) -> Any:
        """Return what came out, or the error."""

    def end(self) -> None:
        """End what still runs."""


OpenCrew = Callable[[int, int, Any], Crew]
"""What opens a crew, by the number of workers, their threads and what they share."""


def crew_of(where: Where) -> OpenCrew | None:
    """Return what opens the crew of a place; None: processes of this machine."""
    if where.engine != "ray":
        return None
    return functools.partial(resolve("adacsl.integrations.ray:RayCrew"), where=where)


def run_tasks(
    work: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any], *, workers: int, threads: int,
    skip: Callable[[Any], bool], deadline: float, open_crew: OpenCrew | None = None,
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
    open_crew : callable, optional
        Who the workers are; default: processes of this machine. Elsewhere ``workers=0`` means as many as have room.
    """
    if not workers and open_crew is None:
        with limited(threads):
            yield from _run_here(work, shared, tasks, skip, deadline)
        return
    crew = (open_crew or Processes)(workers, threads, shared)
    waiting, succeeded = list(range(len(tasks))), False
    running: dict[Future[Any], int] = {}
    suspects: set[int] = set()
    losses: Counter[int] = Counter()
    try:
        while waiting or running:
            while waiting and len(running) < _room(crew.workers, waiting[0], running, suspects):
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
            died = crew.died(running)
            if len(died) > 1:  # with one process all are lost, and nobody knows whose it was: each runs again, alone
                suspects |= died
            again = (died if len(died) > 1 else set()) | _lost(crew, done, running, losses)
            waiting[:0] = sorted(again)
            running = {future: number for future, number in running.items() if number not in again}
            for future in [future for future in done if future in running]:
                outcome = crew.outcome(future)
                succeeded = succeeded or not isinstance(outcome, Exception)
                yield running.pop(future), outcome
    finally:
        crew.end()


def _room(workers: int, number: int, running: Mapping[Any, int], suspects: Container[int]) -> int:
    """Return how many tasks may run at once: a suspect runs alone."""
    return 1 if any(other in suspects for other in (number, *running.values())) else workers


def _lost(crew: Crew, done: set[Future[Any]], running: Mapping[Future[Any], int], losses: Counter[int]) -> set[int]:
    """Return the tasks whose machine went away, unless that has happened to them too often."""
    gone = {running[future] for future in done if crew.lost(future)}
    losses.update(gone)
    return {number for number in gone if losses[number] <= LOSSES}


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


class Processes:
    """Processes of this machine that hold the shared data; when one has died, others take its place."""

    def __init__(self, workers: int, threads: int, shared: Any) -> None:
        self.workers, self._threads, self._shared = workers, threads, shared
        self._executor = self._start()

    def _start(self) -> Any:
        return ProcessPoolExecutor(
            self.workers,
            initializer=begin,
            initargs=(os.getpid(), self._shared),
            env=thread_settings(self._threads),
        )

    def submit(self, work: Callable[[Any, Any], Any], task: Any) -> Future[Any]:
        """Begin a task; where processes have died, with others."""
        try:
            future: Future[Any] = self._executor.submit(_do, work, task)
        except BrokenProcessPool:
            self.end()
            self._executor = self._start()
            future = self._executor.submit(_do, work, task)
        return future

    def died(self, running: Mapping[Future[Any], Any]) -> set[Any]:
        """Return all tasks that ended with the pool: the death of one process is that of all."""
        if not any(future.done() and isinstance(future.exception(), BrokenProcessPool) for future in running):
            return set()
        ended = wait(running).done  # the others follow at once
        return {running[future] for future in ended if isinstance(future.exception(), BrokenProcessPool)}

    def lost(self, future: Future[Any]) -> bool:
        """Tell that this machine is still there."""
        return False

    def outcome(self, future: Future[Any]) -> Any:
        """Return what came out, or the error."""
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            return RuntimeError("the worker process died (out of memory?)")
        if error is None:
            return future.result()
        return error if isinstance(error, Exception) else RuntimeError(repr(error))

    def end(self) -> None:
        """End the processes."""
        self._executor.shutdown(wait=True, kill_workers=True)


def _do(work: Callable[[Any, Any], Any], task: Any) -> Any:
    (shared,) = received
    return work(shared, task)
