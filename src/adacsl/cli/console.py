"""Console output: one answer on stdout, progress and notes on stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
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
INFO = "info"
"""Severity of findings that are neither errors nor warnings."""
CODES_HELP = "what each [code] means: docs/guide/diagnose/checks.md; to skip a check: --ignore CODE"
PATIENCE = 5.0
"""Seconds after which a step that has not ended is named."""
LONGEST = 2000
"""Characters of a line of output: a value of the data may have millions."""
UNLIMITED = 10_000
"""Width of tables for a file or a pipe, where nothing is wrapped."""
COLOURS = {"error": "1;31", "warning": "1;33", "stopped": "1;33", "failed": "1;31", "note": "2", "info": "2"}
"""Terminal styles of the first word of a line on stderr."""
TO_COPY = re.compile(r"(next|model|report|written|markdown): ")
"""Start of a line with a command or a path: a terminal shows it as one line, so that it can be copied."""


def next_command(command: str) -> str:
    """Return the last line of an answer: the command to run next."""
    return f"next: {command}"


@dataclass(frozen=True)
class Answer:
    """Result of a command.

    Parameters
    ----------
    document : dict
        The result as JSON values (numpy numbers, paths and NaN are turned into such).
    shown : sequence
        The same as text: lines and rich tables.
    code : int
        Exit code: 1 where the command ran but its result is bad; 130 where Ctrl-C ended it early.
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
    """Print no progress and no notes; warnings and errors stay."""

    debug: bool = False
    """Print the traceback of an error (also: ADACSL_DEBUG=1)."""

    def note(self, text: str) -> None:
        """Print information that is neither an error nor a warning."""
        if not self.quiet:
            write_error(f"note: {one_line(text)}")

    def warn(self, text: str) -> None:
        """Print a warning, also with ``--quiet``."""
        write_error(f"warning: {one_line(text)}")

    @contextmanager
    def doing(self, text: str) -> Iterator[None]:
        """Print what the command is doing once it takes longer than :data:`PATIENCE`."""
        timer = threading.Timer(PATIENCE, write_error, [one_line(text)])
        timer.daemon = True
        if not self.quiet:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def findings(self, checks: Iterable[object], name: str = "") -> None:
        """Print the findings of checks, one line each with its code; ``name`` is that of one of several data sets.

        With ``--quiet`` only errors and warnings.
        """
        shown = [each for each in checks if not (self.quiet and getattr(each, "severity", "") == INFO)]
        lines = [f"{name}: {each}" if name else str(each) for each in shown]
        if lines and not self.quiet:
            lines.append(CODES_HELP)
        if lines:
            write_error("\n".join(map(one_line, lines)))

    def answer(self, answer: Answer) -> None:
        """Print the answer on stdout."""
        if sys.stdout is None:
            raise BrokenPipeError("stdout is closed")
        if self.json:
            ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
            text = json.dumps(plain(answer.document), ensure_ascii=ascii_only, allow_nan=False)
            sys.stdout.write(f"{visible_json(text)}\n")
            return
        from rich.console import Console  # noqa: PLC0415  a help text needs none of this
        from rich.text import Text  # noqa: PLC0415

        console = Console(highlight=False, markup=False, emoji=False)
        if not (terminal := console.is_terminal) and "COLUMNS" not in os.environ:
            console.width = UNLIMITED
        for item in answer.shown:
            if not isinstance(item, str):
                _print_table(console, item)
                continue
            words = visible(item)
            head = TO_COPY.match(words)
            line = Text(words if head or not terminal else wrapped(words, console.width))
            if head:
                line.stylize("bold", 0, head.end())
            console.print(line, soft_wrap=True)

    @contextmanager
    def progress(self, title: str, *, total: float | None = None, unit: str = "rows") -> Iterator[Callable[..., None]]:
        """Show what is running, how far it is and the time spent, on stderr, where that is a terminal.

        Yields ``advance(completed=, note=, total=)``.
        """
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        class Left(TimeRemainingColumn):
            def render(self, task: Any) -> Any:
                left = super().render(task)
                return left if task.total is None else left.__class__(f"+ {left} left", left.style)

        console = Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(10),
            *((MofNCompleteColumn(), TextColumn(unit)) if unit else ()),
            TextColumn("{task.fields[note]}", markup=False), TimeElapsedColumn(), Left(),
        )  # fmt: skip
        hidden = self.quiet or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
            yield partial(bar.update, bar.add_task(title, total=total, note=""))


class Terminated(SystemExit):
    """Raised on SIGTERM; ``advice`` is what remains and how to resume."""

    def __init__(self, advice: str = "") -> None:
        super().__init__(TERMINATED)
        self.advice = advice


@contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into one line on what is kept and how to resume."""
    try:
        yield
    except Terminated:
        raise Terminated(advice) from None
    except (KeyboardInterrupt, SystemExit) as error:
        # Lightning answers Ctrl-C by itself, and ends the program
        if isinstance(error, SystemExit) and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        raise KeyboardInterrupt(advice) from None


@dataclass(frozen=True)
class AlreadyShown(Screen):
    """Output options of a command inside another one that has shown findings and notes."""

    def findings(self, checks: Iterable[object], name: str = "") -> None:
        """Print nothing."""

    def note(self, text: str) -> None:
        """Print nothing."""


PLAIN = Screen()


WINNER = "bold green"
"""Style of the row of a table that is recommended."""


def listing(*left: str, right: Iterable[str], then: Iterable[str] = ()) -> Any:
    """Return an empty table without rules: columns of words, of numbers, and of words again.

    The last columns are never wrapped: in a narrow terminal they end in an ellipsis.
    """
    from rich.table import Table  # noqa: PLC0415

    class Listing(Table):
        def add_row(self, *cells: Any, **style: Any) -> None:
            super().add_row(*(visible(cell) for cell in cells), **style)

    table = Listing(*map(visible, left), box=None, pad_edge=False)
    for heading in right:
        table.add_column(visible(heading), justify="right", no_wrap=True)
    for heading in then:
        table.add_column(visible(heading), no_wrap=True)
    return table


def _print_table(console: Any, table: Any) -> None:
    """Print a table; for a file or a pipe without blanks at the ends of lines."""
    _narrow_last_column(console, table)
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def _narrow_last_column(console: Any, table: Any) -> None:
    """Let the last column of a table that is too wide end in an ellipsis: names and numbers stay as they are."""
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.measure import Measurement  # noqa: PLC0415

    natural = Measurement.get(console, console.options.update(max_width=UNLIMITED), table).maximum
    last = table.columns[-1]
    if natural > console.width and last.justify == "left":
        widest = max(cell_len(str(cell)) for cell in (last.header, *last.cells))
        last.max_width = max(widest - (natural - console.width), 8)


def wrapped(line: str, width: int) -> str:
    """Return a line broken between words; a number and its percent sign stay together."""
    if len(line) <= width:
        return line
    held = line.replace(" %", "\u00a0%")
    first = line[: len(line) - len(line.lstrip())]
    lines = textwrap.wrap(held, max(width, 20), break_long_words=False, break_on_hyphens=False, subsequent_indent=first)
    return "\n".join(lines).replace("\u00a0%", " %")


def one_line(text: object) -> str:
    """Return a text without line breaks and control characters, shortened if it is very long."""
    line = visible(" ".join(str(text).split()))
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def write_error(text: str) -> None:
    """Write lines to stderr, which may be closed; a terminal gets whole words in each line and colours."""
    with suppress(OSError, ValueError, AttributeError):
        lines = map(_for_terminal, text.splitlines()) if sys.stderr.isatty() else (text,)
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()


def _for_terminal(line: str) -> str:
    """Return a line in the width of the terminal, its first word in colour if it is a severity."""
    line = wrapped(line, shutil.get_terminal_size().columns)
    head, colon, rest = line.partition(":")
    plain_text = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or head not in COLOURS
    return line if plain_text else f"\x1b[{COLOURS[head]}m{head}{colon}\x1b[0m{rest}"
