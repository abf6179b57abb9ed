"""How far a run is: a bar in a terminal, a few lines elsewhere; always on stderr."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Self

from adacsl.experiments.runner import Event
from adacsl.extras import requires
from adacsl.visible import visible

with requires("compare"):
    from rich import progress
    from rich.console import Console
    from rich.table import Column

STEPS = 10
"""Without a terminal a line is written each time one more of so many parts is done."""
SILENCE = 300.0
"""Seconds after which a line is written there anyway."""


class Progress:
    """Shows the events of a run: ``with Progress(total) as bar: run(..., on_event=bar)``.

    Parameters
    ----------
    total : int
        How many cells there are.
    quiet : bool, default False
        Show nothing at all.
    console : rich.console.Console, optional
        Where to write; default: stderr.
    """

    def __init__(self, total: int, *, quiet: bool = False, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, quiet=quiet)
        self._quiet = quiet
        self._costs: dict[str, dict[tuple[Any, ...], Event]] = defaultdict(dict)
        self._kept, self._part = 0, 0
        self._begin = self._said = time.monotonic()
        counted = (progress.BarColumn(), progress.MofNCompleteColumn(), "cells", progress.TimeElapsedColumn())
        room = Column(no_wrap=True, overflow="ellipsis", max_width=max(16, self._console.width - 50))
        leader = progress.TextColumn("{task.description}", markup=False, table_column=room)
        columns = (*counted, "+", progress.TimeRemainingColumn(), "left", leader)
        self._bar = progress.Progress(*columns, console=self._console, disable=quiet or not self._console.is_terminal)
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if event.kind == "start":
            self._start(event)
        elif event.kind in ("kept", "done"):
            (cell,) = event.cells
            self._costs[cell.method][cell.data, cell.ratio, cell.seed] = event
        elif event.kind == "failed":
            self._say(_failure_line(event))
        elif event.kind == "corrupt":
            self._say(event.message)
        self._bar.update(self._task, completed=event.done, total=event.total)
        if event.kind in ("done", "alive", "end"):
            self._step(event)

    def _start(self, event: Event) -> None:
        self._kept, self._begin = event.done, time.monotonic()
        self._said = self._begin
        self._part = event.done * STEPS // max(event.total, 1)
        # what earlier runs did took no time now
        self._bar.reset(self._task, total=event.total, completed=event.done)
        if event.done:
            self._say(f"{event.done} of {event.total} cells are done already")

    def _step(self, event: Event) -> None:
        """Say who leads: in the bar, or in a line now and then where there is no terminal for one."""
        leader, unit = self._leader()
        if leader is not None:
            # the cost before the name, which may be cut off where a terminal is narrow
            self._bar.update(self._task, description=f"cheapest: {leader[1]:.4g} {unit} {leader[0]}")
        now, part = time.monotonic(), event.done * STEPS // max(event.total, 1)
        if self._console.is_terminal or (part <= self._part and now - self._said < SILENCE):
            return
        self._part, self._said = part, now
        words = [f"{event.done} / {event.total} cells"]
        spent, ran = now - self._begin, event.done - self._kept
        if not ran:
            words.append(f"{duration(spent)} spent")
        elif event.done < event.total:
            words.append(f"{duration(spent / ran * (event.total - event.done))} left")
        if leader is not None:
            words.append(f"cheapest so far: {leader[0]} {leader[1]:.4g} {unit}")
        self._say(", ".join(words))

    def _leader(self) -> tuple[tuple[str, float] | None, str]:
        """Return who is cheapest, and in which unit: as the table has it, unless there will be several tables."""
        tables = {place[:2] for own in self._costs.values() for place in own}
        name, unit = ("cost", "per row") if len(tables) == 1 else ("normalized", "normalised")
        costs = {
            method: {place: float(cost) for place, event in own.items() if is_number(cost := getattr(event, name))}
            for method, own in self._costs.items()
        }
        return find_leader({method: own for method, own in costs.items() if own}), unit

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._console.print(visible(line), markup=False, highlight=False, soft_wrap=True)


def find_leader(costs: Mapping[str, Mapping[tuple[Any, ...], float]]) -> tuple[str, float] | None:
    """Return the method with the lowest mean cost so far and that mean, or None while nothing can be compared.

    ``costs`` are those of each method, by data set, ratio and seed. Methods are compared where all have been measured:
    the means of easy and of hard splits would say nothing.
    """
    common = set.intersection(*map(set, costs.values())) if costs else set()
    if not common:
        return None
    means = {name: statistics.fmean(own[place] for place in common) for name, own in costs.items()}
    return min(means.items(), key=lambda found: found[1])


def is_number(cost: float | None) -> bool:
    """Tell whether there is a cost to compare."""
    return cost is not None and math.isfinite(cost)


def _failure_line(event: Event) -> str:
    more = f" and {len(event.cells) - 1} more" if len(event.cells) > 1 else ""
    message = " ".join(event.message.split())
    message = message if len(message) <= 200 else f"{message[:197]}..."
    return f"{'failed, tried again' if event.again else 'failed'}: {event.cells[0]}{more}: {message}"


def duration(seconds: float) -> str:
    """Return a time for people."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
