"""Ray: tasks on a cluster, and Ray Data sets."""

from __future__ import annotations

import builtins
import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeAlias

import numpy as np

from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.execution.executors import Where
from adacsl.execution.threads import limited
from adacsl.thresholds.search import Threshold
from adacsl.thresholds.streaming import CostHistogram, bucket_numbers

with requires("ray"):
    import ray
    from ray import exceptions as errors
    from ray.data import Dataset

__all__ = ["LOST", "RayCrew", "check_gpus", "connect", "joining", "room"]


os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no calls to the outside
# Ray prints deaths to stdout, which belongs to the results; who sent the work tells them
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "(?i)(worker|node).*(died|dead|killed)")

# Ray ends some job when memory runs out, not the one that took it
LOST = (errors.NodeDiedError, errors.LocalRayletDiedError, errors.ObjectLostError, errors.OutOfMemoryError)


class RayCrew:
    """Tasks on a Ray cluster; :class:`~adacsl.execution.executors.Crew` tells what is asked of them.

    Parameters
    ----------
    workers, threads, shared
        Tasks at once, 0: as many as the cluster has room for; threads of each; what is sent to each machine once.
    where : Where
        The cluster, and the GPUs of each task.

    Notes
    -----
    Ray's own retries are off: who sends the tasks knows which to send again, and how often.
    """

    def __init__(self, workers: int, threads: int, shared: Any, *, where: Where) -> None:
        with contextlib.ExitStack() as joined:
            joined.enter_context(joining(where, workers))
            self.workers = workers or room(where.gpus)
            self._joined = joined.pop_all()
        self._task: Any = ray.remote(num_cpus=1, num_gpus=where.gpus, max_retries=0)(_do)
        self._sent = threads, not where.gpus, ray.put(shared)
        self._refs: dict[Future[Any], Any] = {}

    def submit(self, work: Callable[[Any, Any], Any], task: Any) -> Future[Any]:
        """Send a task to the cluster."""
        ref = self._task.remote(*self._sent, work, task)
        future: Future[Any] = ref.future()
        self._refs[future] = ref
        return future

    def died(self, running: Mapping[Future[Any], Any]) -> set[Any]:
        """Return the tasks whose process died; others go on."""
        crashed = errors.WorkerCrashedError
        return {name for future, name in running.items() if future.done() and isinstance(future.exception(), crashed)}

    def lost(self, future: Future[Any]) -> bool:
        """Tell whether the machine went away, or Ray took the memory back."""
        return isinstance(future.exception(), LOST)

    def outcome(self, future: Future[Any]) -> Any:
        """Return what came out, or the error."""
        error = future.exception()
        if isinstance(error, errors.WorkerCrashedError):
            return RuntimeError("the worker process died (out of memory?)")
        if isinstance(error, LOST):
            return RuntimeError(f"its machine went away again and again ({type(error).__name__})")
        if isinstance(error, errors.RayTaskError):
            return error.cause if isinstance(error.cause, Exception) else RuntimeError(str(error.cause))
        if error is None:
            return future.result()
        return error if isinstance(error, Exception) else RuntimeError(repr(error))

    def end(self) -> None:
        """Cancel what still runs, and leave the cluster, if nobody was there before."""
        for future, ref in self._refs.items():
            if not future.done():
                with contextlib.suppress(errors.RayError):
                    ray.cancel(ref, force=True)
        self._refs = {}
        self._joined.close()


@contextlib.contextmanager
def joining(where: Where, workers: int) -> Iterator[None]:
    """Be part of a cluster for a while."""
    printing = builtins.print
    ours = connect(where.address, workers=workers or None, gpus=where.gpus)
    try:
        yield
    finally:
        if ours:
            ray.shutdown()
            builtins.print = printing  # Ray puts its own there, which breaks pickles of objects that hold it


def _do(threads: int, without_gpus: bool, shared: Any, work: Callable[[Any, Any], Any], task: Any) -> Any:
    if without_gpus:  # new versions of Ray show all GPUs to a task that asked for none
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with limited(threads):
        return work(shared, task)


def room(gpus: float = 0.0) -> int:
    """Return how many tasks the cluster can run at once."""
    known: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return max(1, int(min(known.get("CPU", 1.0), known.get("GPU", 0.0) / gpus if gpus else float("inf"))))


def connect(address: str | None, *, workers: int | None, gpus: float) -> bool:
    """Join or start a cluster; tell whether it is ours to shut down."""
    if ray.is_initialized():  # by the caller, who shuts it down
        return False
    address = None if address == "local" else address
    if address is not None:
        _check_reachable(address)
    alone: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
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
    """Knock at host:port first: Ray itself tries for minutes."""
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
    advice = "start one with  ray start --head , or leave --address out"
    return ConnectionError(f"no Ray cluster at {address or 'this machine'!r} ({reason}): {advice}")


def check_gpus(gpus: float, *, local: bool) -> None:
    """Refuse to wait for ever."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    most = max((node["Resources"].get("GPU", 0) for node in nodes if node["Alive"]), default=0)
    if gpus <= most:
        return
    if local:
        raise ValueError(f"each job wants {gpus:g} GPUs, but this machine offers {most:g}: give fewer --gpus")
    warnings.warn(
        f"each job wants {gpus:g} GPUs, but no machine of the cluster offers more than {most:g} now: jobs wait "
        "until one joins",
        stacklevel=5,
    )


os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no calls to the outside

Columns: TypeAlias = Mapping[str, Any]
RowCosts: TypeAlias = Callable[[Columns], CostMatrix]
"""Makes the costs of rows from their columns."""
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
    score: str, label: str, target: float = 0.5, batch_rows: int = ROWS,
) -> Threshold:  # fmt: skip
    """Return the exact cheapest threshold, as :func:`~adacsl.find_threshold` of all rows.

    The data set is read twice; of the second time, only rows that could change the answer come here.

    Parameters
    ----------
    dataset, score, label, batch_rows
        As in :func:`histogram`.
    costs : CostMatrix or callable
        Class-wide costs, or what makes those of rows from their columns.
    target : float
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
    return second.threshold(target=target)
