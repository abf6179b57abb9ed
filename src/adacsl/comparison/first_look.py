"""First look at large data: all methods on one split of a few samples, shown before the folds; it decides nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.comparison.fits import FitKey
from adacsl.comparison.jobs import costs_of_split, plan_jobs, run_jobs, scheduled
from adacsl.comparison.memory_store import MemoryStore
from adacsl.comparison.protocol import LARGE, Protocol, mean_ratio
from adacsl.comparison.runner import Event
from adacsl.comparison.store import ResultStore, Store, StoredSplit, StoreError
from adacsl.datasets.task import Task
from adacsl.fitting.splits import one_split

if TYPE_CHECKING:
    from adacsl.comparison.progress import Progress
    from adacsl.estimators.classifier import CostSensitiveClassifier

FOLDER = "first-look"
"""Where its results lie in the folder of a run."""
FEW, MOST = 3_000, 9_000
"""Samples of a first look: more of them where a class is rare."""
RARE = 60
"""Wanted samples of the rarest class."""
PARTS = 3
"""One of so many parts is tested on."""


def is_large(task: Task) -> bool:
    """Return whether a task is a table of so many samples that a comparison takes minutes."""
    return not task.images and len(task.y) >= LARGE


def few_samples(task: Task, protocol: Protocol) -> NDArray[np.int64]:
    """Return the samples of the first look, in order: stratified, groups whole; with times, evenly over time."""
    counts = np.bincount(task.y)
    rarest = counts[counts > 0].min() / len(task.y)
    count = int(np.clip(np.ceil(RARE / rarest), FEW, MOST))
    if count >= len(task.y):
        return np.arange(len(task.y))
    if task.time is not None:
        order = np.argsort(task.time, kind="stable")
        return np.sort(order[np.linspace(0, len(order) - 1, count).round().astype(np.int64)])
    chosen = one_split(task.y, protocol.units(task), count / len(task.y), 0)[0][1]
    return np.sort(chosen).astype(np.int64)


def take_first_look(
    store: ResultStore,
    tasks: Mapping[str, Task],
    methods: Mapping[str, Mapping[str, CostSensitiveClassifier]],
    ratios: Mapping[str, Sequence[float]],
    conditions: Protocol,
    planned: Iterable[FitKey],
    bar: Progress,
    running: Mapping[str, Any],
) -> None:
    """Fit all methods on few samples of the large tasks, and show what they cost; the quickest first.

    The results lie in a folder of their own in that of the run, so that a run which goes on does not repeat them, and
    take no part in its statistics. Nothing is shown, and nothing run, where the run has little left to do.

    Parameters
    ----------
    store : ResultStore
        That of the run.
    tasks : mapping from str to Task
        The data by name.
    methods, ratios : mapping
        By the name of the data, as in :func:`~adacsl.comparison.jobs.plan_jobs`.
    conditions : Protocol
        Those of the run.
    planned : iterable of FitKey
        All fits of the run.
    bar : Progress
        Shows it.
    running : mapping
        Options of :func:`~adacsl.comparison.jobs.run_jobs`.
    """
    done = store.scan().done
    owed = {fit.data for fit in planned if fit not in done}
    large = {name: task for name, task in tasks.items() if name in owed and is_large(task)}
    if not large or bar.quiet:
        return
    protocol = replace(conditions, folds=PARTS, constraints={})
    small = {name: task.rows(few_samples(task, conditions)) for name, task in large.items()}
    identity = {
        "data": {name: {"digest": task.digest, "ratio": mean_ratio(task.costs)} for name, task in small.items()},
        "protocol": protocol.identity(),
    }
    with contextlib.ExitStack() as opened:
        own: ResultStore = MemoryStore(identity)
        if isinstance(store, Store):
            with contextlib.suppress(StoreError):  # it can be repeated
                own = opened.enter_context(Store.open(store.folder / FOLDER, identity))
        try:
            splits = {name: _write_split(own, task, protocol) for name, task in small.items()}
        except ValueError:  # too few samples of a class, or too short a time
            return
        jobs = scheduled(
            plan_jobs(list(small.values()), methods, ratios, [0], protocol),
            {name: len(task.y) for name, task in small.items()},
        )[::-1]
        look = FirstLook(small, {name: len(task.y) for name, task in large.items()}, splits, ratios, methods, bar)
        run_jobs(jobs, own, small, on_event=look, **running)
        look.end()


def _write_split(store: ResultStore, task: Task, protocol: Protocol) -> tuple[int, int]:
    """Keep the test samples of the one split; return how many train and test."""
    rest, tested = protocol.split(task, 0)
    costs = costs_of_split(task, protocol.rows(task, rest), 0)
    store.write_split(
        task.name, 0, StoredSplit(tested, task.y[tested], costs.rows(tested), protocol.together(task).units[tested])
    )
    return len(rest), len(tested)


class FirstLook:
    """Shows the costs of a first look: of most methods once they have one, of the slowest at the end."""

    def __init__(
        self,
        tasks: Mapping[str, Task],
        samples: Mapping[str, int],
        splits: Mapping[str, tuple[int, int]],
        ratios: Mapping[str, Sequence[float]],
        methods: Mapping[str, Collection[str]],
        bar: Progress,
    ) -> None:
        self._tasks, self._samples, self._splits, self._bar = tasks, samples, splits, bar
        self._wanted = [
            FitKey(name, ratio, own, 0) for name in tasks for ratio in ratios[name] for own in methods[name]
        ]
        self._events: dict[FitKey, Event] = {}
        self._shown: set[FitKey] = set()

    def __call__(self, event: Event) -> None:
        """Take an event of its run."""
        if event.kind == "running":
            self._bar.working("first look", event.fits)
        if event.kind in ("kept", "done"):
            self._events[event.fits[0]] = event
            if not self._shown and 2 * len(self._events) > len(self._wanted):
                self._show()

    def end(self) -> None:
        """Show what came after the table, and tell the bar how long fits take."""
        if len(self._events) > len(self._shown):
            self._show()
        for fit, event in self._events.items():
            if event.seconds is not None:
                self._bar.expect(fit, event.seconds, len(self._tasks[fit.data].y), self._samples[fit.data])

    def _show(self) -> None:
        for name in self._tasks:
            train, test = self._splits[name]
            text = (
                f"mean cost on {test:,} of {self._samples[name]:,} samples, after training on {train:,}; it decides "
                "nothing, the folds of all samples follow"
            )
            self._bar.say(f"first look at {name}, the others:" if self._shown else f"first look at {name}: {text}")
            for ratio in sorted({fit.ratio for fit in self._wanted if fit.data == name}):
                self._show_view(name, ratio)
        self._shown = set(self._events)

    def _show_view(self, name: str, ratio: float) -> None:
        own = [fit for fit in self._wanted if fit[:2] == (name, ratio) and fit not in self._shown]
        known = [(event.cost, fit.method) for fit in own if (event := self._events.get(fit)) and event.cost is not None]
        several = len({fit.ratio for fit in self._wanted if fit.data == name}) > 1
        if several:
            self._bar.say(f"  ratio {ratio:g}")
        width = max((len(fit.method) for fit in own), default=0)
        for cost, method in sorted(known):
            self._bar.say(f"  {method:<{width}}  {cost:.4g}")
        if rest := [fit.method for fit in own if fit not in self._events]:
            self._bar.say(f"  not yet: {', '.join(rest)}")
