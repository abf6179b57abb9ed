"""Server processes: one, or several that share a port."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from adacsl.estimators.artefact import ArtefactError, artefact_digest
from adacsl.estimators.persistence import load_noted
from adacsl.execution.threads import cores, thread_settings
from adacsl.execution.worker import watch_parent
from adacsl.serving.app import RequestLimits, make_app
from adacsl.serving.connections import LAST_SECONDS, ON_THE_WAY, Server
from adacsl.serving.metrics import SHARED
from adacsl.serving.schema import InputSchema

SPAWN = multiprocessing.get_context("spawn")
NO_MODEL = 3
"""Exit code of a worker that cannot serve the model and has printed why."""
STARTS = 3
"""How often in a row a worker may die before it is ready."""


class Task(NamedTuple):
    """What a worker process serves: the model with this digest, or none."""

    model: Path
    digest: str
    limits: RequestLimits
    device: str
    threads: int | None = None
    module: Any = None


def serve(
    model: Path,
    host: str,
    port: int,
    *,
    limits: RequestLimits,
    workers: int,
    device: str,
    listening: Callable[[int], None],
    module: Any = None,
) -> None:
    """Serve a saved model until SIGTERM or Ctrl-C; requests sent before are answered.

    Parameters
    ----------
    model : path
        The folder that ``save`` wrote; an invalid one is refused at once. Its present content is served until the end,
        also by processes that replace others.
    host, port
        Where to listen; port 0 stands for any free one.
    limits : RequestLimits
        Limits of one request.
    workers : int
        The number of processes; each has its share of the cores.
    device : str
        Where to predict.
    listening : callable
        Called with the port before the first request is answered.
    module : callable, optional
        Factory of the model's network, where that is one of the user's own.
    """
    task = Task(model.resolve(), artefact_digest(model), limits, device, module=module)
    classifier, _ = load_noted(model, device=device, digest=task.digest, module=module)
    InputSchema.of(classifier)  # refuses a model that cannot be served, before anything listens
    with _bound(host, port) as own:
        own.listen()  # clients that connect now wait until the processes are ready
        listening(own.getsockname()[1])
        if workers == 1:
            app = make_app(classifier, limits=limits, device=device)
            _run(Server(app), own)
            return
        del classifier  # read as a check only; each worker loads its own
        share = max(1, cores() // workers)
        with tempfile.TemporaryDirectory(prefix="adacsl-metrics-") as shared:
            os.environ |= {SHARED: shared, **thread_settings(share)}
            Workers(task._replace(threads=share), own, workers).run()


class Worker(NamedTuple):
    """A process, the pipe through which it reports that it is ready, and how many before it died without."""

    process: Any
    ready: Connection
    failed: int


class Workers:
    """Processes that serve the same model at the same port.

    A process that dies is replaced, unless it found no model or a model other than the parent has read: the next would
    find the same. The others go on.

    Parameters
    ----------
    task : Task
        What the processes serve.
    own : socket
        The listening socket.
    number : int
        The number of processes.
    """

    def __init__(self, task: Task, own: socket.socket, number: int) -> None:
        self._task, self._own, self._number, self._stopping = task, own, number, False
        self._workers: list[Worker] = []

    def run(self) -> None:
        """Replace workers that die until stopped; then wait for their last answers."""
        before = {sign: signal.signal(sign, self._stop) for sign in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._workers += [self._start() for _ in range(self._number)]
            while self._workers and not self._stopping:
                wait([worker.process.sentinel for worker in self._workers], timeout=0.2)
                self._replace_dead()
        finally:
            self._end()
            for sign, handler in before.items():
                signal.signal(sign, handler)
        if not self._stopping:
            raise ValueError("no worker is left: solve the problem reported above, and start again")

    def _stop(self, *_: Any) -> None:
        self._stopping = True

    def _start(self, failed: int = 0) -> Worker:
        here, there = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(target=work, args=(self._task, self._own, os.getpid(), there))
        process.start()
        there.close()
        return Worker(process, here, failed)

    def _replace_dead(self) -> None:
        """Replace workers that have died, except those that cannot serve the model."""
        for place, worker in reversed(list(enumerate(self._workers))):
            code = worker.process.exitcode
            if code is None or self._stopping:
                continue
            failed = 0 if _has_served(worker.ready) else worker.failed + 1
            replaced = code != NO_MODEL and failed < STARTS
            if code != NO_MODEL:
                then = "another takes its place" if replaced else f"the {STARTS}rd in a row, it is not replaced"
                _log(f"error: worker {worker.process.pid} died with exit code {code}: {then}")
            self._workers[place : place + 1] = [self._start(failed)] if replaced else []
            worker.ready.close()

    def _end(self) -> None:
        self._own.close()
        for worker in self._workers:
            worker.process.terminate()
        end = time.monotonic() + LAST_SECONDS + ON_THE_WAY + 5
        for worker in self._workers:
            worker.process.join(max(0.0, end - time.monotonic()))
            worker.process.kill()
            worker.process.join()


def _has_served(ready: Connection) -> bool:
    try:
        return ready.poll() and bool(ready.recv())
    except EOFError:
        return False


def work(task: Task, own: socket.socket, parent: int, ready: Connection) -> None:
    """Serve in a worker process, until stopped or until the parent is gone."""
    watch_parent(parent)
    try:
        classifier, _ = load_noted(task.model, device=task.device, digest=task.digest, module=task.module)
        app = make_app(classifier, limits=task.limits, device=task.device, threads=task.threads)
    except (ArtefactError, MemoryError) as error:
        reason = str(error) or "not enough memory"
        _log(f"error: {reason}; this worker is not replaced: put the model back, or start the server again")
        sys.exit(NO_MODEL)
    _run(Server(app, ready=lambda: ready.send(True)), own)


def _log(line: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # stderr may be closed
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _run(server: Server, own: socket.socket) -> None:
    """Run a server until SIGTERM or Ctrl-C."""

    def stop(*_: Any) -> None:
        server.should_exit = True

    gc.freeze()  # modules and model stay: the collector need not look at them during requests
    before = signal.signal(signal.SIGTERM, stop)  # uvicorn raises the signal again at its end
    try:
        with suppress(KeyboardInterrupt):
            server.run(sockets=[own])
    finally:
        gc.unfreeze()
        signal.signal(signal.SIGTERM, before)


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address."""
    try:
        result = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, OverflowError) as error:
        raise ValueError(f"cannot listen at {host!r}: {error}; give an address of this machine, 127.0.0.1") from None
    own = socket.socket(result[0][0])
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # accepted sockets inherit it: without it an answer in two parts waits 40 ms for the client's acknowledgement
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        own.bind(result[0][4])
    except OSError as error:
        own.close()
        raise ValueError(
            f"cannot listen at {host} port {port}: {error.strerror}; give another port with --port, or --port 0 for any"
        ) from None
    return own
