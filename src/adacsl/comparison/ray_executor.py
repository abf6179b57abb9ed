"""Executor of a comparison's jobs on a Ray cluster."""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adacsl.base.extras import requires
from adacsl.comparison.executors import Job, Pool, Report, outcomes
from adacsl.comparison.fits import CellResult
from adacsl.comparison.store import Failure
from adacsl.integrations.ray import LOST, connect

with requires("ray"):
    import ray
    from ray import exceptions as errors

__all__ = ["RayPool"]


QUEUE = 1000
"""How many jobs wait in the cluster at most: enough to let an autoscaler see what is needed."""


class RayPool(Pool):
    """Jobs as Ray tasks that yield one result after another.

    Parameters
    ----------
    work, shared
        ``shared`` is put into Ray's object store once, and sent to each machine once.
    workers : int, optional
        How many jobs at a time; default: as many as the cluster has room for.
    address : str, optional
        ``"auto"`` or ``host:port`` of a running cluster; default: a local one, for this run only.
    gpus : float
        GPUs of each job; 0.25 lets four jobs share one.

    Notes
    -----
    Ray's own retries are off: they would repeat a job from its start, while the runner sends it again with only the
    cells that are still missing.
    """

    def __init__(self, *base: Any, workers: int | None = None, address: str | None = None, gpus: float = 0.0) -> None:
        super().__init__(*base)
        self._limit = workers or QUEUE
        self._print = builtins.print
        self._ours = connect(address, workers=workers, gpus=gpus)
        self._running: dict[Any, Job] = {}
        self._task: Any = ray.remote(num_returns="streaming", num_cpus=1, num_gpus=gpus, max_retries=0)(_do)
        self._sent = not gpus, ray.put(self._work), ray.put(self._shared)

    def has_room(self) -> bool:
        """Tell whether the cluster should hear of one more job."""
        return len(self._running) < self._limit

    def submit(self, job: Job) -> None:
        """Send a job to the cluster."""
        self._running[self._task.remote(*self._sent, job.payload, job.cells)] = job

    def wait(self, seconds: float | None = None) -> Iterator[Report]:
        """Wait for the next result of any job."""
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=seconds)
        for stream in ready:
            yield self._next(stream)

    def _next(self, stream: Any) -> Report:
        job = self._running[stream]
        try:
            outcome = ray.get(next(stream))
        except StopIteration:
            del self._running[stream]
            return Report(job)
        except errors.RayError as error:
            del self._running[stream]
            return Report(job, failure=_describe(error), lost=isinstance(error, LOST))
        return Report(job, failure=outcome, over=False) if isinstance(outcome, Failure) else self._save(job, outcome)

    def _save(self, job: Job, result: CellResult) -> Report:
        try:
            self._store.write(result)
        except (TypeError, ValueError) as error:  # JSON cannot hold it: the job's fault
            return Report(job, failure=Failure.of(error), over=False)
        return Report(job, {result.cell: result.metrics}, over=False)

    def close(self, *, kill: bool) -> None:
        """End the tasks, and the cluster if it is ours."""
        if kill:
            for stream in self._running:
                with contextlib.suppress(errors.RayError):
                    ray.cancel(stream, force=True)
        self._running = {}
        if self._ours:
            ray.shutdown()
            builtins.print = self._print  # Ray puts its own there, which breaks pickles of objects that hold it


def _do(without_gpus: bool, *job: Any) -> Iterator[CellResult | Failure]:
    if without_gpus:  # new versions of Ray show all GPUs to a job that asked for none
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    yield from outcomes(*job)


@contextlib.contextmanager
def joined(address: str, *, workers: int | None, gpus: float) -> Iterator[None]:
    """Join a cluster for a while; ``"local"`` starts one on this machine.

    What Ray prints of workers and machines that die goes nowhere: stdout belongs to the results.
    """
    printing = builtins.print
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its C++ parts write to stderr
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        with _without_stderr(nowhere.fileno()):
            ours = connect(address, workers=workers, gpus=gpus)
        try:
            yield
        finally:
            if ours:
                ray.shutdown()
                builtins.print = printing


@contextlib.contextmanager
def _without_stderr(nowhere: int) -> Iterator[None]:
    """Send what C++ writes elsewhere: Ray says even that it is to say nothing."""
    kept = os.dup(2)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _describe(error: errors.RayError) -> Failure:
    died = isinstance(error, (errors.WorkerCrashedError, *LOST))
    text = " ".join(str(error).split())[:300]
    return Failure("WorkerDied", f"the worker died: {text}") if died else Failure.of(error)
