"""Console output: one answer on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from cyclopts import Group, Parameter

from adacsl.base.escape import visible, visible_json
from adacsl.storage.documents import plain

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes of what Ctrl-C and SIGTERM ended."""
PATIENCE = 5.0
"""Seconds after which a step that has not ended is named: a wrong command is refused before, in one line."""
LONGEST = 2000
"""Characters of a line that is told: a cell of data may hold millions."""


@dataclass(frozen=True)
class Answer:
    """What a command ends with.

    Parameters
    ----------
    document : dict
        The result as JSON values (numpy numbers, paths and NaN are turned into such).
    shown : sequence
        The same for people: lines of plain text and rich tables.
    code : int
        Exit code: 1 where the command ran but its result is bad news; 130 where Ctrl-C ended it early.
    """

    document: dict[str, Any]
    shown: tuple[Any, ...] = ()
    code: int = 0


@Parameter(name="*", group=Group("Output", sort_key=90, default_parameter=Parameter(negative=(), show_default=False)))
@dataclass(frozen=True)
class Screen:
    """The options every command has."""

    json: bool = False
    """Print one JSON object instead of text."""

    quiet: bool = False
    """No progress and no notes."""

    debug: bool = False
    """Show the traceback of an error (also: ADACSL_DEBUG=1)."""

    def note(self, text: str) -> None:
        """Tell the user something that is no error."""
        if not self.quiet:
            tell(f"note: {one_line(text)}")

    @contextmanager
    def doing(self, text: str) -> Iterator[None]:
        """Write what the command is doing as soon as it takes longer than :data:`PATIENCE`."""
        timer = threading.Timer(PATIENCE, tell, [one_line(text)])
        timer.daemon = True
        if not self.quiet:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def found(self, checks: Iterable[object], about: str = "") -> None:
        """Tell what checks have found, one line each with its code; ``about`` names one of several data sets."""
        lines = [f"{about}: {each}" if about else str(each) for each in checks]
        if lines and not self.quiet:
            lines.append("what each [code] means: docs/checks.md; to say nothing about one: --ignore CODE")
            tell("\n".join(map(one_line, lines)))

    def answer(self, answer: Answer) -> None:
        """Print the one thing that belongs on stdout."""
        if sys.stdout is None:
            raise BrokenPipeError("stdout is closed")
        if self.json:
            ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
            text = json.dumps(plain(answer.document), ensure_ascii=ascii_only, allow_nan=False)
            sys.stdout.write(f"{visible_json(text)}\n")
            return
        from rich.console import Console  # noqa: PLC0415  a help text needs none of this

        console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        for item in answer.shown:
            console.print(visible(item) if isinstance(item, str) else item)

    @contextmanager
    def progress(self, title: str, *, total: float | None = None, unit: str = "rows") -> Iterator[Callable[..., None]]:
        """Show a progress bar on stderr, where that is a terminal; yield ``advance(completed=, note=, total=)``."""
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
            TextColumn("{task.fields[note]}", markup=False), TimeRemainingColumn(),
        )  # fmt: skip
        hidden = self.quiet or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
            yield partial(bar.update, bar.add_task(title, total=total, note=""))


class Terminated(SystemExit):
    """SIGTERM came; ``advice`` says what is left and how to go on."""

    def __init__(self, advice: str = "") -> None:
        super().__init__(TERMINATED)
        self.advice = advice


@contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """Give Ctrl-C and SIGTERM a line that says what is left and how to go on."""
    try:
        yield
    except Terminated:
        raise Terminated(advice) from None
    except (KeyboardInterrupt, SystemExit) as error:
        # Lightning answers Ctrl-C by itself, and ends the program
        if isinstance(error, SystemExit) and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        raise KeyboardInterrupt(advice) from None


PLAIN = Screen()


def listing(*left: str, right: Iterable[str], then: Iterable[str] = ()) -> Any:
    """Return an empty table without lines: columns of words, of numbers, and of words again."""
    from rich.table import Table  # noqa: PLC0415

    class Listing(Table):
        def add_row(self, *cells: Any, **style: Any) -> None:
            super().add_row(*(visible(cell) for cell in cells), **style)

    table = Listing(*map(visible, left), box=None, pad_edge=False)
    for heading in right:
        table.add_column(visible(heading), justify="right", no_wrap=True)
    for heading in then:
        table.add_column(visible(heading))
    return table


def one_line(text: object) -> str:
    """Return a text without line breaks, nor anything else that a terminal obeys; not all of a very long one."""
    line = visible(" ".join(str(text).split()))
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def tell(text: str) -> None:
    """Write lines to stderr, where somebody may read them: it may be closed."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
