"""Executors run tasks in this process, in others, or on a cluster; one loop sends tasks again whose worker was lost."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Protocol

from adacsl.base.extras import resolve
from adacsl.execution.threads import limited
from adacsl.execution.worker import Kind, Work, messages

DEATHS = 1
"""How often a task is run again because its worker process died: the task may be the cause."""
LOSSES = 5
"""How often a task is run again because its machine was lost: the task is not the cause."""


class WorkerDiedError(RuntimeError):
    """The process of a task has died, or its machine was lost again and again."""


class OutOfTimeError(TimeoutError):
    """A task was not begun, or not finished, before the deadline."""

    def __init__(self) -> None:
        super().__init__("out of time")


@dataclass(frozen=True)
class Placement:
    """Where tasks run, and how many at once.

    ``backend`` is "processes" (processes of this machine) or "ray"; ``address`` that of a Ray cluster (default: a local
    one for this run); ``gpus`` are those of each task, on Ray.
    """

    backend: str = "processes"
    address: str | None = None
    n_jobs: int | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        backend, address, n_jobs, gpus = self.backend, self.address, self.n_jobs, self.gpus
        if backend not in ("processes", "ray"):
            raise ValueError(f"backend must be 'processes' (this machine) or 'ray' (a cluster), got {backend!r}")
        if not isinstance(address, str | None) or address == "":
            raise ValueError(f"address must be a text such as 'auto' or 'host:port', got {address!r}")
        if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs < 1):
            raise ValueError(f"n_jobs must be a whole number of at least 1, got {n_jobs!r}")
        if not isinstance(gpus, Real) or not 0.0 <= float(gpus) < float("inf"):
            raise ValueError(f"gpus must be a number of at least 0, got {gpus!r}")
        if backend == "processes" and (address is not None or gpus):
            raise ValueError("address and gpus are for backend='ray'; processes of this machine see all its GPUs")


class Report(NamedTuple):
    """What an executor reports about a task."""

    number: int
    kind: Kind
    """A result (others may follow), "done", or why it ended: it raised, its process died, its machine was lost."""
    value: Any = None
    """The result, or the error."""


class Executor(Protocol):
    """Workers that share some data, opened with ``work(shared, task)``, which yields the results of a task."""

    n_workers: int
    """How many tasks run at once."""

    def submit(self, number: int, task: Any) -> None:
        """Begin a task."""

    def wait(self, timeout: float | None = None) -> Iterator[Report]:
        """Yield what has happened to tasks; nothing where that took longer than ``timeout`` seconds."""

    def close(self, *, kill: bool) -> None:
        """End the workers; ``kill`` does not wait for what they do."""


def open_executor(
    work: Work, shared: Any, placement: Placement, *, n_workers: int | None = None, threads: int | None = None,
    ahead: bool = True,
) -> Executor:  # fmt: skip
    """Return an executor.

    Parameters
    ----------
    work : callable
        ``work(shared, task)`` yields the results of a task.
    shared : object
        Sent to each worker, or machine, once. Its arrays may be read-only there.
    placement : Placement
    n_workers : int, optional
        How many tasks run at once; 0: one, in this process. None: as many as the cluster has room for.
    threads : int, optional
        How many threads each task may use; None: what the libraries use by themselves.
    ahead : bool
        Whether a cluster is sent tasks before it has room for them, which lets it grow.
    """
    if placement.backend == "ray":
        ray: Callable[..., Executor] = resolve("adacsl.integrations.ray:RayExecutor")
        return ray(work, shared, placement=placement, n_workers=n_workers, threads=threads, ahead=ahead)
    if not n_workers:
        return InProcess(work, shared, threads=threads)
    processes: Callable[..., Executor] = resolve("adacsl.execution.processes:Processes")
    return processes(work, shared, n_workers=n_workers, threads=threads or 1)


class InProcess:
    """Runs one task after another in this process."""

    n_workers = 1

    def __init__(self, work: Work, shared: Any, *, threads: int | None = None) -> None:
        self._work, self._shared, self._threads = work, shared, threads
        self._waiting: list[tuple[int, Any]] = []

    def submit(self, number: int, task: Any) -> None:
        """Keep a task."""
        self._waiting.append((number, task))

    def wait(self, timeout: float | None = None) -> Iterator[Report]:
        """Run a task to its end, and yield each result as soon as it is there."""
        number, task = self._waiting.pop()
        with limited(self._threads) if self._threads else contextlib.nullcontext():
            for kind, value in messages(self._work, self._shared, task):
                yield Report(number, kind, value)

    def close(self, *, kill: bool) -> None:
        """Do nothing: there are no workers."""


class Update(NamedTuple):
    """What happens while tasks run."""

    kind: Literal["started", "result", "done", "failed", "idle"]
    """"failed": the task raised, or lost its worker. "idle": nothing else has happened for a while."""
    number: int = -1
    """Of the task."""
    value: Any = None
    """The result, or the error."""
    again: bool = False
    """Whether the task that failed is run again."""


def run_tasks(
    executor: Executor,
    tasks: Sequence[Any],
    *,
    retries: int = 0,
    remaining: Callable[[Any], Any] = lambda task: task,
    choose: Callable[[Sequence[Any]], int | None] | None = None,
    deadline: Callable[[], float] = lambda: math.inf,
    beat: float = math.inf,
) -> Generator[Update]:
    """Run tasks, and yield what happens; the executor is closed at the end, whatever the reason.

    A task whose worker process died is run again once (``DEATHS``), one whose machine was lost five times (``LOSSES``),
    and one that raised ``retries`` times. Then it has failed, with the last error.

    Parameters
    ----------
    executor : Executor
    tasks : sequence
        Begun in this order, unless ``choose`` says otherwise; what is run again comes last.
    retries : int
        How often a task that raised is run again.
    remaining : callable
        Returns what is left of a task that is about to begin or was interrupted, or None where nothing is.
    choose : callable, optional
        Asked before a task is begun, with all that wait: the place of the next one, or None where there is too little
        time left for each of them. It is asked again when a running task ends; if none is running, all that wait are
        out of time.
    deadline : callable
        Returns when (``time.monotonic()``) all that runs or waits is out of time. In this process, a task that was
        begun is finished.
    beat : float
        Seconds without news after which an update is yielded.
    """
    tasks = list(tasks)
    waiting, running = deque(range(len(tasks))), set[int]()
    failures: Counter[tuple[int, str]] = Counter()
    allowed = {"raised": retries, "died": DEATHS, "lost": LOSSES}
    finished = False
    try:
        while waiting or running:
            yield from _begin(executor, tasks, waiting, running, remaining, choose)
            if not running:
                continue
            left, idle = min(beat, max(0.0, deadline() - time.monotonic())), True
            for number, kind, value in executor.wait(None if math.isinf(left) else left):
                idle = False
                if kind == "result":
                    yield Update("result", number, value)
                    continue
                running.discard(number)
                rest = None if kind == "done" else remaining(tasks[number])
                if rest is None:
                    yield Update("done", number)
                    continue
                failures[number, kind] += 1
                again = failures[number, kind] <= allowed[kind]
                yield Update("failed", number, value, again)
                if again:
                    tasks[number] = rest
                    waiting.append(number)
            if time.monotonic() >= deadline():
                late = [number for number in sorted({*waiting, *running}) if remaining(tasks[number]) is not None]
                yield from (Update("failed", number, OutOfTimeError()) for number in late)
                return
            if idle:
                yield Update("idle")
        finished = True
    finally:
        executor.close(kill=not finished)


def _begin(
    executor: Executor,
    tasks: list[Any],
    waiting: deque[int],
    running: set[int],
    remaining: Callable[[Any], Any],
    choose: Callable[[Sequence[Any]], int | None] | None,
) -> Iterator[Update]:
    """Begin as many of the tasks that wait as there is room for."""
    while waiting and len(running) < executor.n_workers:
        if choose is not None:  # among those of which something is left
            for number in [number for number in waiting if remaining(tasks[number]) is None]:
                waiting.remove(number)
                yield Update("done", number)
            if not waiting:
                return
        place = 0 if choose is None else choose([tasks[number] for number in waiting])
        if place is None:
            if not running:
                yield from (Update("failed", number, OutOfTimeError()) for number in waiting)
                waiting.clear()
            return
        number = waiting[place]
        del waiting[place]
        rest = remaining(tasks[number])
        if rest is None:
            yield Update("done", number)
            continue
        tasks[number] = rest
        yield Update("started", number)
        executor.submit(number, tasks[number])
        running.add(number)
