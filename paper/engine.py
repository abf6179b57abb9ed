"""Jobs of the paper on the runner of adacsl: the one module that knows how networks are trained jointly and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from adacsl.comparison.fits import FitKey, FitResult
from adacsl.comparison.jobs import count_networks, plan_jobs, run_jobs
from adacsl.comparison.runner import Event, Job, RunInterrupted
from adacsl.comparison.store import Store, commit, now, versions
from adacsl.datasets import Task
from adacsl.neural.device import choose_device
from paper.methods import Methods, Protocol, under

Tell = Callable[[Event], object]
"""Gets what happens in a run, for a progress bar."""


class Ended(NamedTuple):
    """How the jobs ended."""

    failed: tuple[str, ...]  # a line for each fit without a result
    stopped: bool  # the time was over


def jobs_of(task: Task, methods: Methods, ratios: Sequence[float], seed: int, protocol: Protocol) -> list[Job]:
    """Return what methods need at some cost ratios on one split: fits that share a net are one job."""
    own = {name: under(method, protocol) for name, method in methods.items()}
    return plan_jobs([task], {task.name: own}, {task.name: ratios}, [seed], protocol)


def run_missing(
    jobs: Sequence[Job],
    tasks: Mapping[str, Task],
    folder: Path,
    identity: Mapping[str, Any],
    *,
    n_jobs: int | None,
    seconds: float | None,
    take: Callable[[FitResult], object],
    tell: Tell | None = None,
) -> Ended:
    """Run what a folder lacks; ``take`` gets every result as soon as it is there, those of earlier runs too."""
    begin, stopped = time.monotonic(), False
    fits = [fit for job in jobs for fit in job.fits]
    with Store.open(folder, dict(identity)) as store:

        def note(event: Event) -> None:
            if event.kind in ("kept", "done"):
                take(store.read(event.fits[0]))
            if tell is not None:
                tell(event)

        try:
            run_jobs(jobs, store, tasks, n_jobs=n_jobs, seconds=seconds, on_event=note)
        except RunInterrupted:
            stopped = seconds is not None and time.monotonic() - begin >= seconds
            if not stopped:
                raise
            for fit in filter(store.has, fits):  # what jobs that were cut off had done already
                take(store.read(fit))
        failures = store.failures().to_numpy().tolist()  # the columns of FitKey, then those of Failure
    failed = (f"{FitKey(*row[:4])}: {row[4]}: {row[5]}" for row in failures if FitKey(*row[:4]) in set(fits))
    return Ended(tuple(failed), stopped)


def about_now() -> dict[str, Any]:
    """Return date, commit and versions."""
    return {"date": now()[:10], "commit": commit(), "versions": versions()}


__all__ = [
    "Ended",
    "Event",
    "FitKey",
    "FitResult",
    "Job",
    "RunInterrupted",
    "Tell",
    "about_now",
    "choose_device",
    "count_networks",
    "jobs_of",
    "run_missing",
]
