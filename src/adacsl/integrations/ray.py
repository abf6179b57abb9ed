"""Ray: tasks on a cluster, and Ray Data sets."""

from __future__ import annotations

import builtins
import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.execution.executors import Placement, Report, WorkerDiedError
from adacsl.execution.threads import limited
from adacsl.execution.worker import Work, messages, portable, restored
from adacsl.thresholds.search import Threshold
from adacsl.thresholds.streaming import CostHistogram, bucket_numbers

with requires("ray"):
    import ray
    from ray import exceptions as errors
    from ray.data import Dataset

__all__ = ["RayExecutor", "check_gpus", "connect", "room"]


os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no calls to the outside
# Ray prints lost workers to stdout, which belongs to the results; the caller reports them
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "(?i)(worker|node).*(died|dead|killed)")

# Ray ends some job when memory runs out, not the one that took it
LOST = (errors.NodeDiedError, errors.LocalRayletDiedError, errors.ObjectLostError, errors.OutOfMemoryError)
QUEUE = 1000
"""How many tasks wait in the cluster at most: enough to let an autoscaler see what is needed."""


class RayExecutor:
    """Tasks on a Ray cluster, which yield one result after another: an :class:`~adacsl.execution.executors.Executor`.

    Parameters
    ----------
    work : callable
        ``work(shared, task)`` yields the results of a task.
    shared : object
        Put into Ray's object store once, and sent to each machine once.
    placement : Placement
        The cluster, and the GPUs of each task.
    n_workers : int, optional
        How many tasks at once; default: as many as the cluster has room for.
    threads : int, optional
        How many threads each task may use.
    ahead : bool
        Whether more tasks are sent than there is room for now.

    Notes
    -----
    Ray's own retries are off: they would repeat a task from its start, and ``run_tasks`` knows what is left of it.
    """

    def __init__(
        self, work: Work, shared: Any, *, placement: Placement, n_workers: int | None = None,
        threads: int | None = None, ahead: bool = True,
    ) -> None:  # fmt: skip
        n_workers = n_workers or placement.n_jobs
        self._print = builtins.print
        self._ours = connect(placement.address, n_jobs=n_workers, gpus=placement.gpus)
        self.n_workers = n_workers or (QUEUE if ahead else room(placement.gpus))
        self._task: Any = ray.remote(num_returns="streaming", num_cpus=1, num_gpus=placement.gpus, max_retries=0)(_run)
        self._sent = threads, not placement.gpus, ray.put(work), ray.put(shared)
        self._running: dict[Any, int] = {}
        self._unsent: list[Report] = []

    def submit(self, number: int, task: Any) -> None:
        """Send a task to the cluster."""
        try:
            stream = self._task.remote(*self._sent, task)
        except Exception as error:  # it cannot be pickled
            self._unsent.append(Report(number, "raised", error))
            return
        self._running[stream] = number

    def wait(self, timeout: float | None = None) -> Iterator[Report]:
        """Yield what has happened to tasks; nothing where that took longer than ``timeout`` seconds."""
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            yield from unsent
            return
        for stream in ray.wait(list(self._running), num_returns=1, timeout=timeout)[0]:
            report = self._next(stream)
            if report.kind != "result":
                del self._running[stream]
            yield report

    def _next(self, stream: Any) -> Report:
        number = self._running[stream]
        try:
            kind, value = ray.get(next(stream))
        except StopIteration:
            return Report(number, "raised", RuntimeError("the task ended without a result"))
        except LOST as error:
            return Report(number, "lost", WorkerDiedError(f"its machine was lost: {_line(error)}"))
        except errors.WorkerCrashedError as error:
            return Report(number, "died", WorkerDiedError(f"the worker process died (out of memory?): {_line(error)}"))
        except errors.RayError as error:  # a result that cannot be pickled
            return Report(number, "raised", getattr(error, "cause", None) or RuntimeError(_line(error)))
        return Report(number, kind, restored(value) if kind == "raised" else value)

    def close(self, *, kill: bool) -> None:
        """Cancel what still runs, and end the cluster if it is ours."""
        for stream in self._running if kill else ():
            with contextlib.suppress(errors.RayError):
                ray.cancel(stream, force=True)
        self._running = {}
        if self._ours:
            ray.shutdown()
            builtins.print = self._print  # Ray puts its own there, which breaks pickles of objects that hold it


def _run(threads: int | None, without_gpus: bool, work: Work, shared: Any, task: Any) -> Iterator[Any]:
    if without_gpus:  # new versions of Ray show all GPUs to a task that asked for none
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with limited(threads) if threads else contextlib.nullcontext():
        for kind, value in messages(work, shared, task):
            yield kind, portable(value) if kind == "raised" else value


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def room(gpus: float = 0.0) -> int:
    """Return how many tasks the cluster can run at once."""
    known: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return max(1, int(min(known.get("CPU", 1.0), known.get("GPU", 0.0) / gpus if gpus else float("inf"))))


def connect(address: str | None, *, n_jobs: int | None, gpus: float) -> bool:
    """Join or start a cluster; return whether it must be shut down here."""
    if ray.is_initialized():  # by the caller, who shuts it down
        return False
    address = None if address == "local" else address
    if address is not None:
        _check_reachable(address)
    alone: dict[str, Any] = {"num_cpus": n_jobs, "include_dashboard": False} if address is None else {}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **alone)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, " ".join(str(error).split())[:200]) from error
    try:
        check_gpus(gpus, local=address is None)
    except ValueError:
        ray.shutdown()
        raise
    return True


def _check_reachable(address: str) -> None:
    """Connect to host:port first: Ray itself retries for minutes."""
    if address.startswith("ray://"):
        raise ValueError(
            f"{address!r} is an address of Ray Client, which cannot stream results: run on a machine of the cluster "
            "with --address auto, or give host:port of its head"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except OSError as error:
        raise _no_cluster(address, error.strerror or error) from error


def _no_cluster(address: str | None, reason: object) -> ConnectionError:
    advice = "start one with  ray start --head , or omit --address"
    return ConnectionError(f"no Ray cluster at {address or 'this machine'!r} ({reason}): {advice}")


def check_gpus(gpus: float, *, local: bool) -> None:
    """Raise or warn where no machine has the GPUs of a job."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    most = max((node["Resources"].get("GPU", 0) for node in nodes if node["Alive"]), default=0)
    if gpus <= most:
        return
    if local:
        raise ValueError(f"each job needs {gpus:g} GPUs, but this machine offers {most:g}: give fewer --gpus")
    warnings.warn(
        f"each job needs {gpus:g} GPUs, but no machine of the cluster offers more than {most:g} now: jobs wait "
        "until one joins",
        stacklevel=5,
    )


os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no calls to the outside

Columns: TypeAlias = Mapping[str, Any]
RowCosts: TypeAlias = Callable[[Columns], CostMatrix]
"""Function from the columns of samples to their costs."""
ROWS = 1 << 18


def histogram(
    dataset: Dataset, *, score: str, label: str, costs: RowCosts | None = None, batch_rows: int = ROWS
) -> CostHistogram:
    """Return the :class:`~adacsl.CostHistogram` of a data set: counted where the rows lie, and merged here.

    Parameters
    ----------
    dataset : ray.data.Dataset
    score, label : str
        The columns with the probability of the positive class and with 0 or 1.
    costs : callable, optional
        ``costs(columns)`` returns the CostMatrix of some rows, where each has its own; class-wide costs are asked for
        afterwards.
    batch_rows : int
        How many rows are counted at a time.
    """

    def count(rows: Any) -> Any:
        part = CostHistogram()
        if len(rows[score]):
            part.update(rows[score], rows[label], costs=None if costs is None else costs(rows))
        return {name: [value] for name, value in part.to_counts().items()}

    whole = CostHistogram()
    for part in dataset.map_batches(count, batch_size=batch_rows, batch_format="numpy").iter_rows():
        whole.merge(CostHistogram.from_counts(**part))
    return whole


def threshold(
    dataset: Dataset, costs: CostMatrix | RowCosts, *,
    score: str, label: str, target_threshold: float = 0.5, batch_rows: int = ROWS,
) -> Threshold:  # fmt: skip
    """Return the exact cost-optimal threshold, as :func:`~adacsl.find_threshold` of all rows.

    The data set is read twice; of the second time, only rows that could change the answer come here.

    Parameters
    ----------
    dataset, score, label, batch_rows
        As in :func:`histogram`.
    costs : CostMatrix or callable
        Class-wide costs, or what makes those of rows from their columns.
    target_threshold : float
        Where to stay when several thresholds are equally cheap.
    """
    whole = costs if isinstance(costs, CostMatrix) else None
    each = None if isinstance(costs, CostMatrix) else costs
    counted = histogram(dataset, score=score, label=label, costs=each, batch_rows=batch_rows)
    second = counted.second_pass(whole)
    wanted = second.buckets

    def pick(rows: Any) -> Any:
        kept = np.isin(bucket_numbers(rows[score]), wanted)
        return {name: column[kept] for name, column in rows.items()}

    picked = dataset.map_batches(pick, batch_size=batch_rows, batch_format="numpy")
    rows: Any
    for rows in picked.iter_batches(batch_size=batch_rows, batch_format="numpy"):
        if len(rows[score]):
            second.update(rows[score], rows[label], costs=None if each is None else each(rows))
    return second.threshold(target_threshold=target_threshold)
