"""The application of the command line: commands, errors as one line, exit codes.

0: done. 1: done, but the result is bad (fits failed, the cost is above a limit). 2: the input is wrong, or a check
found an error in the data to train on.
3, 4: `monitor` found a change, or recommends to re-tune.
70: an error inside adacsl. 130: stopped by Ctrl-C. 141: nobody reads the output (any more). 143: stopped by SIGTERM.
"""

from __future__ import annotations

import inspect
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from textwrap import indent
from typing import Any, NoReturn

from adacsl.base.escape import visible
from adacsl.base.extras import requires
from adacsl.cli.check import check
from adacsl.cli.compare import compare
from adacsl.cli.console import INTERRUPTED, PLAIN, TERMINATED, Answer, Terminated, one_line, write_error
from adacsl.cli.data import data
from adacsl.cli.evaluate import evaluate
from adacsl.cli.explain import explain
from adacsl.cli.export import export
from adacsl.cli.monitor import monitor
from adacsl.cli.predict import predict
from adacsl.cli.report import report
from adacsl.cli.serve import serve
from adacsl.cli.threshold import threshold
from adacsl.cli.train import train
from adacsl.cli.version import versions
from adacsl.storage.atomic import at_home

with requires("cli"):
    import rich  # noqa: F401  cyclopts shows its help with it
    from cyclopts import App, CycloptsError, Parameter


BAD_RESULT, BAD_INPUT, INTERNAL, NO_READER = 1, 2, 70, 141
NARROWEST, WIDEST = 20, 1000
"""Accepted widths of a terminal."""

USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError, CycloptsError)
KNOWN_SOURCES = ("adacsl.", "pyarrow.")
"""Errors defined in these modules are about the user's input, whatever they inherit from."""

COMMANDS: tuple[Callable[..., Answer], ...] = (
    compare, check, train, predict, serve, evaluate, monitor, explain, threshold, report, export, data,
)  # fmt: skip


def build() -> App:
    """Return the application with all its commands."""
    app = App(
        name="adacsl",
        help="Cost-sensitive classification: compare, train, serve and monitor classifiers that minimise cost.",
        version=versions,
        version_format="plaintext",
        default_parameter=Parameter(negative=()),
        help_format="markdown",
        help_epilogue="Start with `adacsl compare`; `adacsl COMMAND --help` shows examples.",
    )
    for order, command in enumerate(COMMANDS):
        app.command(command, help_epilogue=_examples(command), sort_key=order)
    app.register_install_completion_command(help_epilogue="")
    return app


def _examples(command: Callable[..., Answer]) -> str:
    examples = inspect.cleandoc(command.__doc__ or "").partition("Examples\n--------\n")[2]
    return f"Examples:\n\n{indent(examples, '    ')}"


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error becomes one line on stderr."""
    return run_app(build(), arguments)


def run_app(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run one command of any application whose commands return an Answer, and return its exit code.

    Errors, warnings and Ctrl-C become one line each on stderr; ``--debug`` does here what it does for ``adacsl``. The
    default of ``arguments`` are those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words or os.environ.get("ADACSL_DEBUG", "") not in ("", "0")
    try:
        with _usable_place(), _warnings_as_lines(), _ended_by_sigterm():
            code = _dispatch(app, words)
            if sys.stdout is None:
                return NO_READER
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        return _nobody_reads()
    except Exception as error:
        if debug:
            write_error(visible(traceback.format_exc()))
        return _report_error(error)
    except (KeyboardInterrupt, SystemExit) as stop:
        return _stopped(stop)


def _dispatch(app: App, words: list[str]) -> int:
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    bound.arguments.update({name: _written_out(value) for name, value in bound.arguments.items()})
    answer: Any = command(*bound.args, **bound.kwargs)
    if isinstance(answer, Answer):
        bound.arguments.get("screen", PLAIN).answer(answer)
        return answer.code
    return 0  # help, version, completion


def _report_error(error: Exception) -> int:
    """Print one line about an error and return the exit code that belongs to it."""
    kind = type(error).__name__
    if isinstance(error, USER_ERRORS) or type(error).__module__.startswith(KNOWN_SOURCES):
        # by name, as importing its module loads torch
        return _end(f"error: {_describe(error)}", BAD_RESULT if kind == "NoResultError" else BAD_INPUT)
    if kind == "OutOfMemoryError":
        return _end("error: the GPU ran out of memory: try --device cpu, or smaller images", BAD_INPUT)
    internal = f"an internal error of adacsl ({one_line(f'{kind}: {error}')})"
    return _end(f"error: {internal}: please report it with the output of the same command with --debug", INTERNAL)


def _written_out(value: Any) -> Any:
    """Return paths, and options that hold some, with ``~`` written out."""
    if isinstance(value, Path):
        return at_home(value)
    if is_dataclass(value) and not isinstance(value, type):
        new = {field.name: _written_out(getattr(value, field.name)) for field in fields(value)}
        return value if all(new[name] is getattr(value, name) for name in new) else replace(value, **new)
    return value


def _stopped(stop: KeyboardInterrupt | SystemExit) -> int:
    """Print how to resume, and return the exit code that belongs to what ended the command."""
    if isinstance(stop, SystemExit) and not isinstance(stop, Terminated):
        if isinstance(stop.__context__, BrokenPipeError):
            return _nobody_reads()  # rich ends the program itself
        raise stop
    advice, code = (stop.advice, TERMINATED) if isinstance(stop, Terminated) else (stop, INTERRUPTED)
    return _end(f"stopped: {one_line(advice) or 'start the command again'}", code)


def _nobody_reads() -> int:
    """Let the interpreter flush into nowhere at its end: `adacsl data | head -1` is no error."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return NO_READER


def _end(line: str, code: int) -> int:
    write_error(line)
    return code


def _describe(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"not enough memory {one_line(error)}".strip()
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return one_line(f"{os.fsdecode(error.filename)}: {error.strerror}")
    return one_line(error) or type(error).__name__


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print each warning of the library as one line, once, also with ``--quiet``; deprecations are ignored."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = one_line(message)
        if text not in seen:
            seen.add(text)
            write_error(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def _usable_place() -> Iterator[None]:
    """Guard against closed streams, narrow encodings and terminals without width."""
    try:
        Path.cwd()
    except FileNotFoundError:  # libraries below would end the program themselves
        raise FileNotFoundError("the folder you are in is no longer there: go to another one") from None
    with suppress(OSError):
        while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass  # what was closed must not become the number of a file that is written
        os.close(opened)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # it writes what it still holds
                stream.reconfigure(errors="backslashreplace")
    width = os.environ.get("COLUMNS", "")
    believed = width.isascii() and width.isdecimal() and len(width) < 5 and NARROWEST <= int(width) <= WIDEST
    if width and not believed:
        del os.environ["COLUMNS"]
    try:
        yield
    finally:
        if width:
            os.environ["COLUMNS"] = width


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM clean up as Ctrl-C does."""

    def end(*_: object) -> NoReturn:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # signals belong to the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
