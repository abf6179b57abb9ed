"""The paper's jobs on adacsl's runner: the one module here that knows how nets are trained side by side and kept."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from adacsl.datasets import Task
from adacsl.estimators.training import choose_device
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.jobs import plan_jobs, run_work
from adacsl.experiments.nets import Training, resize
from adacsl.experiments.parts import Parts
from adacsl.experiments.pools import Job
from adacsl.experiments.provenance import commit, now, versions
from adacsl.experiments.runner import Event, RunInterrupted, run
from adacsl.experiments.store import Store
from paper.methods import Protocol, Recipe

Tell = Callable[[Event], object]
"""Gets what happens in a run, for a progress bar."""


class Ended(NamedTuple):
    """How the jobs ended."""

    failed: tuple[str, ...]  # a line for each cell without a result
    stopped: bool  # the time was over


def jobs_of(task: Task, recipes: Sequence[Recipe], ratios: Sequence[float], seed: int, protocol: Protocol) -> list[Job]:
    """Return what methods need at some cost ratios on one split: cells that share a net are one job."""
    named = {recipe.name: recipe for recipe in recipes}
    return plan_jobs([task], {task.name: named}, {task.name: ratios}, [seed], protocol)


def count_nets(job: Job) -> int:
    """Return how many nets a job trains."""
    recipes = {recipe.name: recipe for recipe in job.payload.recipes}
    nets = [cell for cell in job.cells if recipes[cell.recipe].learner == "net"]
    return sum(training.members for training in {Training.of(recipes[c.recipe], c.ratio) for c in nets})


def run_jobs(
    jobs: Sequence[Job],
    tasks: Mapping[str, Task],
    folder: Path,
    identity: Mapping[str, Any],
    *,
    workers: int | None,
    seconds: float | None,
    take: Callable[[CellResult], object],
    tell: Tell | None = None,
) -> Ended:
    """Run what a folder lacks; ``take`` gets every result as soon as it is there, those of earlier runs too."""
    begin, stopped = time.monotonic(), False
    cells = [cell for job in jobs for cell in job.cells]
    with Store.open(folder, dict(identity)) as store:

        def note(event: Event) -> None:
            if event.kind in ("kept", "done"):
                take(store.read(event.cells[0]))
            if tell is not None:
                tell(event)

        try:
            work = functools.partial(run_work, parts=Parts(store.folder / "parts"))
            run(jobs, work, store, shared=tasks, workers=workers, seconds=seconds, on_event=note)
        except RunInterrupted:
            stopped = seconds is not None and time.monotonic() - begin >= seconds
            if not stopped:
                raise
            for cell in filter(store.has, cells):  # what jobs that were cut off had done already
                take(store.read(cell))
        failures = store.failures().to_numpy().tolist()  # the columns of Cell, then those of Failure
    failed = (f"{Cell(*row[:4])}: {row[4]}: {row[5]}" for row in failures if Cell(*row[:4]) in set(cells))
    return Ended(tuple(failed), stopped)


def about_now() -> dict[str, Any]:
    """Return date, commit and versions."""
    return {"date": now()[:10], "commit": commit(), "versions": versions()}


__all__ = [
    "Cell",
    "CellResult",
    "Ended",
    "Event",
    "Job",
    "RunInterrupted",
    "Tell",
    "about_now",
    "choose_device",
    "count_nets",
    "jobs_of",
    "resize",
    "run_jobs",
]
