"""What a comparison has to do: cells gathered into jobs, so that nothing is trained twice."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.core.curves import calibration_error
from adacsl.core.partitions import Quantile
from adacsl.core.scores import likeliest, to_probabilities
from adacsl.datasets.task import Task
from adacsl.estimators.fitting import fit_methods
from adacsl.estimators.method import Method
from adacsl.estimators.methods import is_portfolio, needs_net
from adacsl.estimators.pricing import learn_prices
from adacsl.estimators.rows import Rows
from adacsl.estimators.settings import in_full
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.measures import measure
from adacsl.experiments.parts import Parts
from adacsl.experiments.pools import Job
from adacsl.experiments.protocol import Protocol
from adacsl.experiments.ratios import at_ratio, mean_ratio
from adacsl.experiments.runner import Tally, run
from adacsl.experiments.store import Store
from adacsl.training.running import choose_device

ROWS_AT_ONCE = {"cpu": 400_000, "gpu": 20_000_000}
"""Rows times nets of one job: enough to train many small nets at once, few enough to lose little when killed."""


def plan_jobs(
    tasks: Sequence[Task],
    methods: Mapping[str, Mapping[str, Method]],
    ratios: Mapping[str, Sequence[float]],
    seeds: Sequence[int],
    protocol: Protocol,
) -> list[Job]:
    """Gather all cells into jobs: nets that train together, estimators one by one; seeds in turns over all data.

    Parameters
    ----------
    tasks : sequence of Task
        Data of different names.
    methods, ratios : mappings
        By the name of the data: methods by name, and cost ratios.
    seeds : sequence of int
        Numbers of the splits; those with a time have no more than the protocol has windows.
    protocol : Protocol
        The conditions. Jobs of several plans, each under its own, may be put together: :func:`run_jobs` takes any.
    """
    jobs = []
    for seed in seeds:
        for task in (task for task in tasks if task.time is None or seed < protocol.windows):
            own = methods[task.name]
            cells = [Cell(task.name, ratio, name, seed) for name in own for ratio in ratios[task.name]]
            groups = _groups(task, cells, own, protocol)
            jobs += [Job(tuple(some), ({cell.method: own[cell.method] for cell in some}, protocol)) for some in groups]
    return jobs


def _groups(
    task: Task, cells: Iterable[Cell], methods: Mapping[str, Method], protocol: Protocol
) -> Iterator[list[Cell]]:
    """Yield cells that are one job, the dearest first."""
    works: dict[str, list[Cell]] = {}
    for cell in cells:
        works.setdefault(_work(methods[cell.method], cell.ratio), []).append(cell)
    nets = {key: some for key, some in works.items() if needs_net(methods[some[0].method])}
    device = "cpu" if choose_device(protocol.device, warn=False) == "cpu" else "gpu"
    room = max(1, ROWS_AT_ONCE[device] // len(task.y)) if not task.images else 1
    batch: list[Cell] = []
    members = 0
    for some in sorted(nets.values(), key=lambda some: -_members(methods[some[0].method])):
        count = _members(methods[some[0].method])
        if batch and members + count > room:
            yield batch
            batch, members = [], 0
        batch, members = batch + some, members + count
    if batch:
        yield batch
    others = [some for key, some in works.items() if key not in nets]
    yield from sorted(others, key=lambda some: not is_portfolio(methods[some[0].method]))


def _work(method: Method, ratio: float) -> str:
    """Return what one training (or one fit) serves: equal for cells that share it."""
    own = [in_full(method.learner), method.resample, repr(method.loss), repr(method.cv)]
    # plain cross-entropy, and what knows no costs, serve all ratios
    costs = [] if method.loss == "plain" else [ratio, repr(method.controller), method.target]
    return repr(own + costs)


def _members(method: Method) -> int:
    return method.cv if isinstance(method.cv, int) else 1


def count_nets(job: Job) -> int:
    """Return how many nets a job trains: cells that differ only in how they decide share theirs."""
    methods, _ = job.payload
    nets = [cell for cell in job.cells if needs_net(methods[cell.method])]
    return sum({_work(methods[cell.method], cell.ratio): _members(methods[cell.method]) for cell in nets}.values())


def run_jobs(
    jobs: Iterable[Job], store: Store, tasks: Mapping[str, Task], *, engine: str = "joblib", **options: Any
) -> Tally:
    """Run what a store lacks of the jobs of :func:`plan_jobs`, on tasks by name.

    ``options`` are those of :func:`adacsl.experiments.runner.run`: ``workers``, ``seconds``, ``on_event``, ...
    """
    # on a cluster the run's folder may be out of reach
    parts = Parts(store.folder / "parts", origins=store.origins(tasks)) if engine == "joblib" else None
    return run(jobs, functools.partial(run_work, parts=parts), store, shared=tasks, engine=engine, **options)


def run_work(
    tasks: Mapping[str, Task],
    payload: tuple[Mapping[str, Method], Protocol],
    cells: Sequence[Cell],
    *,
    parts: Parts | None = None,
) -> Iterator[CellResult]:
    """Do a job (or what is left of it): fit what these cells need and yield their results.

    The payload of a job says which methods, under which conditions.
    """
    if not cells:
        return
    task, seed = tasks[cells[0].data], cells[0].seed
    methods, protocol = payload
    rest, test = protocol.split(task, seed)
    rows = protocol.rows(task, rest)
    at = functools.partial(at_ratio, costs_of_split(task, rows, seed), own=mean_ratio(task.costs))
    chosen = [(protocol.prepare(methods[cell.method], seed), at(cell.ratio)) for cell in cells]
    own = None if parts is None else replace(parts, data=task.name, seed=seed)
    for number in fit_methods(chosen, rows, watch=test, parts=own):
        method, costs = chosen[number]
        yield _result(cells[number], method, costs.rows(test), task.y[test], len(rest))


def costs_of_split(task: Task, rows: Rows, seed: int) -> CostMatrix:
    """Return what the rows of a task cost; prices to be predicted are learned from the rows that are learned from."""
    if task.said is None or not task.said.learns:
        return task.costs
    key = (rows.use.tobytes(), seed)
    if key not in task.learned:
        task.learned[key] = learn_prices(task.said, task.costs, rows, task.X, seed).costs
    return task.learned[key]


def _result(cell: Cell, method: Method, costs: CostMatrix, labels: NDArray[np.int64], n_train: int) -> CellResult:
    candidate, decision = method.candidate_, method.decision_
    # stored scores are float32, and decisions must follow from what is stored
    raw = to_probabilities(np.asarray(candidate.watched))
    scores = decision.probabilities(raw, costs=costs).astype(np.float32)
    decided = decision.of_probabilities(scores.astype(np.float64), costs=costs)
    about = {"decide": decision.decide}  # the page decides anew at other prices
    if costs.n_classes == 2:
        decided = decided == 1
    metrics = measure(decided, labels, costs) | {"validation_cost": math.nan} | candidate.extra
    metrics["n_train"] = n_train
    metrics["calibration_error"] = calibration_error(*likeliest(scores, labels), partition=Quantile(15)).error
    threshold = decision.threshold_for(costs)
    return CellResult(cell, metrics, scores, decided, threshold, candidate.history, candidate.seconds, about)
