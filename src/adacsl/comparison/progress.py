"""Progress of a run: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Self

from adacsl.base.escape import visible
from adacsl.base.extras import requires
from adacsl.comparison.fits import FitKey
from adacsl.comparison.runner import Event
from adacsl.comparison.statistics import names_of

with requires("compare"):
    from rich import progress
    from rich.console import Console, RenderableType
    from rich.text import Text


SHOWN = 4
"""The largest number of running jobs that are named."""
STEPS = 10
"""Number of equal parts of a run; without a terminal a line is written after each."""
SILENCE = 60.0
"""Seconds without a terminal line after which one is written anyway."""


GROWTH = 0.8
"""Power of the number of samples by which a fit takes longer than a first look on few of them."""


class FitTimes:
    """Estimates the time left of a run, from the measured times of fits.

    A method takes what it took on other folds of the same data, else what a first look suggests, else the mean of the
    others.

    Parameters
    ----------
    planned : collection of FitKey
        The fits of the run.
    """

    def __init__(self, planned: Collection[FitKey] = ()) -> None:
        self.planned = frozenset(planned)
        self._owed = set(planned)
        self._measured: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        self._expected: dict[tuple[Any, ...], float] = {}
        self._began: dict[FitKey, tuple[float, int]] = {}  # when its job began, and with how many fits
        self._workers = 1

    def expect(self, fit: FitKey, seconds: float) -> None:
        """Take a first estimate of a fit's method."""
        self._expected[fit[:3]] = seconds

    def note(self, event: Event) -> None:
        """Take an event of the run."""
        if event.kind == "start":
            self._workers = event.workers
        elif event.kind == "running":
            self._began |= dict.fromkeys(event.fits, (time.monotonic(), len(event.fits)))
        elif event.kind in ("kept", "done", "stopped") or (event.kind == "failed" and not event.again):
            self._owed.difference_update(event.fits)
            for fit in event.fits:
                self._began.pop(fit, None)
                if event.seconds is not None:
                    self._measured[fit[:3]].append(event.seconds)

    def left(self) -> float | None:
        """Return the seconds left; None while nothing was measured."""
        known = {**self._expected, **{key: statistics.fmean(own) for key, own in self._measured.items()}}
        if not known:
            return None
        usual, now = statistics.fmean(known.values()), time.monotonic()
        begun = {fit: (now - began) / count for fit, (began, count) in self._began.items()}
        each = [max(0.0, known.get(fit[:3], usual) - begun.get(fit, 0.0)) for fit in self._owed]
        return max(sum(each) / self._workers, max(each, default=0.0))


class _Bar(progress.Progress):
    """A progress bar with lines below it, each cut at the width of the terminal."""

    lines: tuple[str, ...] = ()

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bar and the lines."""
        yield self.make_tasks_table(self.tasks)
        for line in self.lines:
            yield Text(line, no_wrap=True, overflow="ellipsis")


class Progress:
    """Progress bar of a run: ``with Progress(total) as bar: run(..., on_event=bar)``.

    In a terminal: a bar with the number of fits and the time spent, the methods and folds that are running, and the
    lowest cost so far. Elsewhere: a line now and then.

    Parameters
    ----------
    total : int
        Number of fits.
    quiet : bool, default False
        Show nothing but warnings.
    fits : collection of FitKey, optional
        The fits, by whose measured times the time left is estimated.
    console : rich.console.Console, optional
        Where to write. Default: stderr.

    Examples
    --------
    >>> from adacsl.comparison.progress import Progress
    >>> from adacsl.comparison.runner import Event
    >>> with Progress(10, quiet=True) as bar:
    ...     bar(Event("start", 0, 10))
    """

    def __init__(
        self, total: int, *, quiet: bool = False, console: Console | None = None, fits: Collection[FitKey] = ()
    ) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self.quiet = quiet
        self._times = FitTimes(fits)
        self._costs: dict[str, dict[tuple[Any, ...], Event]] = defaultdict(dict)
        self._kept, self._part = 0, 0
        self._running: list[set[FitKey]] = []
        self._announced = self._estimated = False
        self._begin = self._last_line = time.monotonic()
        counted = (progress.BarColumn(), progress.MofNCompleteColumn(), "fits", progress.TimeElapsedColumn())
        columns = (*counted, progress.TextColumn("{task.fields[left]}"))
        self._bar = _Bar(*columns, console=self._console, disable=quiet or not self._console.is_terminal)
        self._task = self._bar.add_task("", total=total, left="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.lines = ()
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self._times.note(event)
        if event.kind == "start":
            self._start(event)
        elif event.kind == "running":
            self._running.append(set(event.fits))
        elif event.kind in ("kept", "done"):
            (fit,) = event.fits
            self._costs[fit.method][fit.data, fit.ratio, fit.seed] = event
            self._ended(event)
        elif event.kind == "failed":
            self._ended(event)
            self.say(_failure_line(event))
        elif event.kind == "stopped":
            self._ended(event)
            self.say(f"not run further, as its cost is significantly higher: {event.message}")
        elif event.kind == "corrupt" and self.quiet:
            warnings.warn(event.message, stacklevel=2)  # warnings are never hidden
        elif event.kind == "corrupt":
            self.say(f"warning: {event.message}")
        left = self._left(event)
        self._bar.update(self._task, completed=event.done, total=event.total, left=f"+ {left} left" if left else "")
        if event.kind in ("running", "done", "alive", "end"):
            self._step(event, left)

    def working(self, on: str, fits: Collection[FitKey]) -> None:
        """Show, below the bar of a terminal, what runs before the fits themselves."""
        self._bar.lines = (f"{on}: {names_of(sorted({fit.method for fit in fits}))}",)

    def expect(self, fit: FitKey, seconds: float, samples: int, of: int) -> None:
        """Take the time of a fit on few samples as a first estimate for all."""
        self._times.expect(fit, seconds * (of / samples) ** GROWTH)

    def _left(self, event: Event) -> str:
        """Return the time left as text; empty where nothing was measured, or nothing is left."""
        if event.done >= event.total:
            return ""
        seconds = self._times.left()
        spent, ran = time.monotonic() - self._begin, event.done - self._kept
        if seconds is None and ran > 0 and not self._times.planned:
            seconds = spent / ran * (event.total - event.done)
        return "" if seconds is None else f"about {duration(seconds)}"

    def _ended(self, event: Event) -> None:
        """Note fits that no longer run."""
        left = (fits - set(event.fits) for fits in self._running)
        self._running = [fits for fits in left if fits]

    def _start(self, event: Event) -> None:
        self._kept, self._begin = event.done, time.monotonic()
        self._last_line = self._begin
        self._part = event.done * STEPS // max(event.total, 1)
        # results of earlier runs took no time in this one
        self._bar.reset(self._task, total=event.total, completed=event.done)
        if event.done:
            self.say(f"{event.done} of {event.total} fits are done already")

    def _step(self, event: Event, left: str) -> None:
        """Show what is running and the lowest cost: below the bar, or in a line now and then without a terminal."""
        leader, unit = self._leader()
        running = (f"running: {_listed(self._running)}",) if self._running else ()
        # the cost before the name, which a narrow terminal may cut off
        lowest = () if leader is None else (f"lowest cost so far: {leader[1]:.4g} {unit}, {leader[0]}",)
        self._bar.lines = (*running, *lowest)
        now, part = time.monotonic(), event.done * STEPS // max(event.total, 1)
        first = (event.kind == "running" and not self._announced) or (
            bool(left) and bool(self._times.planned) and not self._estimated
        )
        if self._console.is_terminal or not (first or part > self._part or now - self._last_line >= SILENCE):
            return
        self._part, self._last_line, self._announced = part, now, True
        self._estimated = self._estimated or bool(left)
        words = [f"{event.done} / {event.total} fits"]
        spent, ran = now - self._begin, event.done - self._kept
        if not ran and not first:
            words.append(f"{duration(spent)} spent")
        if left:
            words.append(f"{left} left")
        if leader is not None:
            words.append(f"lowest cost so far: {leader[0]} {leader[1]:.4g} {unit}")
        if self._running:
            words.append(f"running: {_listed(self._running)}")
        self.say(", ".join(words))

    def _leader(self) -> tuple[tuple[str, float] | None, str]:
        """Return the method with the lowest cost and the unit: as in the table, unless there will be several tables."""
        tables = {place[:2] for own in self._costs.values() for place in own}
        name, unit = ("cost", "per sample") if len(tables) == 1 else ("normalized", "normalised")
        costs = {
            method: {place: float(cost) for place, event in own.items() if is_number(cost := getattr(event, name))}
            for method, own in self._costs.items()
        }
        return find_leader({method: own for method, own in costs.items() if own}), unit

    def say(self, line: str) -> None:
        """Write a line above the bar.

        Parameters
        ----------
        line : str
            The line.
        """
        if not self.quiet:
            self._console.print(visible(line), markup=False, highlight=False, soft_wrap=not self._console.is_terminal)


def find_leader(costs: Mapping[str, Mapping[tuple[Any, ...], float]]) -> tuple[str, float] | None:
    """Return the method with the lowest mean cost so far and that mean, or None while nothing can be compared.

    ``costs`` are those of each method, by data set, ratio and seed. Methods are compared where all have been measured:
    means over different splits are not comparable.
    """
    common = set.intersection(*map(set, costs.values())) if costs else set()
    if not common:
        return None
    means = {name: statistics.fmean(own[place] for place in common) for name, own in costs.items()}
    return min(means.items(), key=lambda result: result[1])


def is_number(cost: float | None) -> bool:
    """Return whether there is a cost to compare."""
    return cost is not None and math.isfinite(cost)


def _listed(running: Sequence[Collection[FitKey]]) -> str:
    """Return the running methods with their folds, as text."""
    jobs = []
    for fits in running[:SHOWN]:
        folds = sorted({fit.seed + 1 for fit in fits})
        named = f"fold{'' if len(folds) == 1 else 's'} {', '.join(map(str, folds))}"
        jobs.append(f"{names_of(sorted({fit.method for fit in fits}))} ({named})")
    more = len(running) - len(jobs)
    return "; ".join([*jobs, *([f"{more} more"] if more else [])])


def _failure_line(event: Event) -> str:
    more = f" and {len(event.fits) - 1} more" if len(event.fits) > 1 else ""
    message = " ".join(event.message.split())
    unmet = message.startswith("InfeasibleError: ")
    message = message.removeprefix("InfeasibleError: ")
    message = message if len(message) <= 200 else f"{message[:197]}..."
    what = "not feasible" if unmet else "failed, tried again" if event.again else "failed"
    return f"{what}: {event.fits[0]}{more}: {message}"


def duration(seconds: float) -> str:
    """Return a duration as readable text."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
