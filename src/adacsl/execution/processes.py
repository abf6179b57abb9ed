"""Executor of tasks in processes of this machine."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import connection as pipes
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

from adacsl.base.extras import requires
from adacsl.execution.executors import Report, WorkerDiedError
from adacsl.execution.threads import cores, memory_settings, thread_settings
from adacsl.execution.worker import Parcel, Work, identity_of, restored, serve

with requires("sklearn"):
    import cloudpickle
    from joblib.externals.loky.backend import get_context
    from joblib.externals.loky.backend.utils import kill_process_tree

ALIGNMENT = 64
"""Bytes; where arrays begin in the file that workers map into memory."""
NAMELESS = Path("/proc/self/fd")
"""Where it exists, other processes can open a file that has no name. Elsewhere each worker is sent all data."""
PATIENCE = 10.0
"""Seconds to wait for a worker to end."""
LOOK_SECONDS = 1.0
"""Seconds between two looks whether the workers are alive: a process that one has left behind may hold its pipe."""


class _Process(NamedTuple):
    """A worker process, and this end of its pipe."""

    process: Any
    connection: Connection


class Processes:
    """Worker processes of this machine; each runs one task after another, and one that has died is replaced.

    A worker has a pipe of its own. So the death of one ends no other, and it is known which task was its last.

    Parameters
    ----------
    work : callable
        ``work(shared, task)`` yields the results of a task.
    shared : object
        Sent to each worker once. Large arrays are written once, to a nameless file that all workers map into memory.
    n_workers : int
        How many processes.
    threads : int
        How many threads each may use.
    """

    def __init__(self, work: Work, shared: Any, *, n_workers: int, threads: int) -> None:
        self.n_workers, self._environment = n_workers, environment_of(threads)
        self._idle: list[_Process] = []
        self._busy: dict[Connection, tuple[_Process, int]] = {}
        self._unsent: list[Report] = []
        self._file: IO[bytes] | None = None
        try:
            if NAMELESS.exists():
                self._file = tempfile.TemporaryFile(prefix=".adacsl-")  # noqa: SIM115  closed with the executor
            self._parcel = pickle.dumps(pack((work, shared), self._file))
        except OSError as error:
            self.close(kill=True)
            raise OSError(
                f"could not write the data for the workers to {tempfile.gettempdir()}: {error.strerror or error}; free "
                "some space there, or name another folder in the variable TMPDIR"
            ) from error

    def submit(self, number: int, task: Any) -> None:
        """Send a task to an idle worker, or to a new one."""
        try:
            message = cloudpickle.dumps(task, protocol=5)
        except Exception as error:
            self._unsent.append(Report(number, "raised", error))
            return
        worker = self._idle.pop() if self._idle else self._start()
        self._busy[worker.connection] = worker, number
        with contextlib.suppress(OSError):  # it has died: wait() finds the end of its pipe
            worker.connection.send_bytes(message)

    def wait(self, timeout: float | None = None) -> Iterator[Report]:
        """Yield what has happened to tasks; nothing where that took longer than ``timeout`` seconds."""
        unsent, self._unsent = self._unsent, []
        yield from unsent
        end = None if timeout is None else time.monotonic() + timeout
        while self._busy and not unsent:
            left = LOOK_SECONDS if end is None else min(LOOK_SECONDS, max(0.0, end - time.monotonic()))
            ready = [pipe for pipe in pipes.wait(list(self._busy), left) if isinstance(pipe, Connection)]
            ready = ready or [pipe for pipe, (own, _) in self._busy.items() if own.process.exitcode is not None]
            for pipe in ready:
                yield self._receive(pipe)
            if ready or (end is not None and time.monotonic() >= end):
                return

    def _receive(self, pipe: Connection) -> Report:
        worker, number = self._busy[pipe]
        try:
            if not pipe.poll():
                raise EOFError
            kind, value = pickle.loads(pipe.recv_bytes())  # noqa: S301  from our worker
        except (EOFError, OSError):
            del self._busy[pipe]
            return Report(number, "died", _death(worker))
        if kind != "result":
            del self._busy[pipe]
            self._idle.append(worker)
        return Report(number, kind, restored(value) if kind == "raised" else value)

    def close(self, *, kill: bool) -> None:
        """End the workers; ``kill`` does not wait for what they do."""
        if not kill and _Ahead.open:  # the next executor takes them
            _Ahead.waiting += [(self._environment, worker) for worker in self._idle]
            self._idle = []
        n_jobs = [*self._idle, *(worker for worker, _ in self._busy.values())]
        self._idle, self._busy = [], {}
        for worker in n_jobs:
            worker.connection.close()
            if kill and worker.process.is_alive():
                kill_process_tree(worker.process)
        for worker in n_jobs:
            _end(worker)
        if self._file is not None:
            self._file.close()

    def _start(self) -> _Process:
        worker = _Ahead.take(self._environment) or start_worker(self._environment)
        with contextlib.suppress(OSError):  # it has died: wait() finds the end of its pipe
            worker.connection.send_bytes(self._parcel)
        return worker


def environment_of(threads: int) -> dict[str, str]:
    """Return the environment of a worker that may use so many threads."""
    return thread_settings(threads) | memory_settings()


def start_worker(environment: dict[str, str], modules: tuple[str, ...] = ()) -> _Process:
    """Start a worker that imports some modules and waits for its parcel."""
    here, there = pipes.Pipe()
    context: Any = get_context("loky")
    process = context.Process(target=serve, args=(there, os.getpid(), modules), env=environment)
    process.start()
    there.close()
    return _Process(process, here)


class _Ahead:
    """Workers that were started before there is work for them, or that have done the work of one executor."""

    open: ClassVar[bool] = False
    waiting: ClassVar[list[tuple[dict[str, str], _Process]]] = []

    @classmethod
    def take(cls, environment: dict[str, str]) -> _Process | None:
        """Return one that waits and has this environment, None where there is none."""
        for place, (own, worker) in enumerate(cls.waiting):
            if own == environment and worker.process.is_alive():
                del cls.waiting[place]
                return worker
        return None


@contextlib.contextmanager
def started_ahead(n_workers: int, modules: tuple[str, ...]) -> Iterator[None]:
    """Start workers that import some modules while this process prepares their work.

    Executors take them, one after another, as long as this lasts. With fewer than two, or within another of these,
    nothing happens.
    """
    if n_workers < 2 or _Ahead.open:
        yield
        return
    environment = environment_of(cores() // n_workers)
    _Ahead.open = True
    try:
        for _ in range(n_workers):
            _Ahead.waiting.append((environment, start_worker(environment, modules)))
        yield
    finally:
        left, _Ahead.waiting, _Ahead.open = _Ahead.waiting, [], False
        for _, worker in left:
            worker.connection.close()
            kill_process_tree(worker.process)  # it may still import
        for _, worker in left:
            _end(worker)


def _death(worker: _Process) -> WorkerDiedError:
    """Return the error of a worker whose pipe has ended."""
    _end(worker)
    worker.connection.close()
    code = worker.process.exitcode
    name = signal.Signals(-code).name if code is not None and code < 0 else "EXIT"
    return WorkerDiedError(f"the worker process died with exit code {name}({code}) (out of memory?)")


def _end(worker: _Process) -> None:
    worker.process.join(PATIENCE)
    if worker.process.is_alive():
        kill_process_tree(worker.process)
        worker.process.join(PATIENCE)


def pack(content: Any, file: IO[bytes] | None) -> Parcel:
    """Return what is sent to workers; large buffers go to the file, where there is one."""
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
    identity = identity_of(file)
    reached = f"/proc/{os.getpid()}/fd/{file.fileno()}" if identity[-1] else ""  # an empty file cannot be mapped
    return Parcel(head, tuple(places), reached, identity)
