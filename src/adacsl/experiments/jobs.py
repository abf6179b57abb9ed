"""What a comparison has to do: cells gathered into jobs, so that nothing is trained twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adacsl.core.curves import calibration_error
from adacsl.core.partitions import Quantile
from adacsl.datasets.task import Task
from adacsl.estimators.training import choose_device
from adacsl.experiments.cells import Cell, CellResult, Split
from adacsl.experiments.deciding import Finished, Scored, Use, at_ratio, measure
from adacsl.experiments.learners import Fit, run_constants, run_estimator
from adacsl.experiments.nets import Training, run_nets
from adacsl.experiments.parts import Parts
from adacsl.experiments.protocol import Protocol, make_split
from adacsl.experiments.recipes import Recipe
from adacsl.experiments.runner import Job

ROWS_AT_ONCE = {"cpu": 400_000, "gpu": 20_000_000}
"""Rows times nets of one job: enough to train many small nets at once, few enough to lose little when killed."""


@dataclass(frozen=True)
class Work:
    """The payload of a job: which recipes, under which conditions."""

    recipes: tuple[Recipe, ...]
    protocol: Protocol


def plan_jobs(
    tasks: Sequence[Task],
    recipes: Mapping[str, Mapping[str, Recipe]],
    ratios: Mapping[str, Sequence[float]],
    seeds: Sequence[int],
    protocol: Protocol,
) -> list[Job]:
    """Gather all cells into jobs: nets that train together, estimators one by one; seeds in turns over all data."""
    jobs = []
    for seed in seeds:
        for task in tasks:
            cells = [
                (Cell(task.name, ratio, recipe.name, seed), recipe)
                for recipe in recipes[task.name].values()
                for ratio in ratios[task.name]
            ]
            for group in _groups(task, cells, protocol):
                chosen = tuple({recipe.name: recipe for _, recipe in group}.values())
                jobs.append(Job(tuple(cell for cell, _ in group), Work(chosen, protocol)))
    return jobs


def _groups(
    task: Task, cells: Iterable[tuple[Cell, Recipe]], protocol: Protocol
) -> Iterator[list[tuple[Cell, Recipe]]]:
    """Yield cells that are one job, the dearest first."""
    nets: dict[Training, list[tuple[Cell, Recipe]]] = {}
    fits: dict[Any, list[tuple[Cell, Recipe]]] = {}
    for cell, recipe in cells:
        if recipe.learner == "net":
            nets.setdefault(Training.of(recipe, cell.ratio), []).append((cell, recipe))
        else:
            key = "constant" if recipe.learner == "constant" else Fit.of(recipe, cell.ratio).key
            fits.setdefault(key, []).append((cell, recipe))
    device = "cpu" if choose_device(protocol.device, warn=False) == "cpu" else "gpu"
    room = max(1, ROWS_AT_ONCE[device] // len(task.y)) if not task.images else 1
    batch: list[tuple[Cell, Recipe]] = []
    members = 0
    for training in sorted(nets, key=lambda t: -t.members):
        if batch and members + training.members > room:
            yield batch
            batch, members = [], 0
        batch, members = batch + nets[training], members + training.members
    if batch:
        yield batch
    yield from fits.values()


def run_work(
    tasks: Mapping[str, Task], work: Work, cells: Sequence[Cell], *, parts: Parts | None = None
) -> Iterator[CellResult]:
    """Do a job (or what is left of it): train what these cells need and yield their results."""
    if not cells:
        return
    task, seed = tasks[cells[0].data], cells[0].seed
    split = make_split(task, work.protocol, seed)
    recipes = {recipe.name: recipe for recipe in work.recipes}
    plan: dict[Training, list[Use]] = {}
    fits: dict[Any, tuple[Fit, list[Use]]] = {}
    constants: list[Use] = []
    for cell in cells:
        recipe = recipes[cell.method]
        use = Use.of(recipe, cell)
        if recipe.learner == "net":
            plan.setdefault(Training.of(recipe, cell.ratio), []).append(use)
        elif recipe.learner == "constant":
            constants.append(use)
        else:
            fit = Fit.of(recipe, cell.ratio)
            fits.setdefault(fit.key, (fit, []))[1].append(use)
    finished: list[Iterator[Finished]] = [run_constants(task, split, constants)]
    if plan:
        finished.append(run_nets(task, split, seed, plan, work.protocol, parts))
    finished += [run_estimator(task, split, seed, fit, uses) for fit, uses in fits.values()]
    for results in finished:
        for one in results:
            yield _result(one, task, split)


def _result(finished: Finished, task: Task, split: Split) -> CellResult:
    cell, decided = finished.use.cell, finished.decided
    costs = at_ratio(task.costs, cell.ratio).rows(split.test)
    labels = task.y[split.test]
    metrics = measure(decided, Scored(decided.scores.astype(np.float64), labels, costs)) | finished.extra
    metrics["n_train"] = len(split.train) + len(split.validation)
    metrics["calibration_error"] = calibration_error(decided.scores, labels, partition=Quantile(15)).error
    return CellResult(
        cell, metrics, decided.scores, decided.decisions, decided.threshold, finished.history, finished.seconds
    )
