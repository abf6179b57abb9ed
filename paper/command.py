"""``python -m paper``: the paper's tables and figures from raw data, and the pages made from them."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from adacsl.comparison.progress import Progress
from paper.options import PARTS, Options
from paper.planning import estimate, plan_lines
from paper.publish import PAGES, publish_pages
from paper.report import write_report
from paper.running import Reproduced, prepare, reproduce

NAME = "python -m paper"
DESCRIPTION = """\
Run the paper's experiments and set the results beside its figures: CSV files (one row per run), LaTeX tables, images of
Table 2 and Figure 1, and one HTML page. Every result is kept as soon as it is there: the same command, started again,
runs only what is missing."""
EXAMPLES = f"""\
examples:
  {NAME} table2 --quick
  {NAME} all --data data/ --seeds 5 --device cuda --n-jobs 10
  {NAME} table2 --data data/ --datasets ham10k --profile paper
  {NAME} publish                # docs/paper/results -> the documentation's pages of results"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser: each field of :class:`paper.options.Options` is an option."""
    parser = _Parser(
        prog=NAME, description=DESCRIPTION, epilog=EXAMPLES, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("what", choices=(*PARTS, "all", "publish"), help="what to run, or publish: make the pages")
    parser.add_argument("folder", nargs="?", type=Path, help="with publish: folder of the pages (default: docs/paper)")
    for name, kind in get_type_hints(Options, include_extras=True).items():
        if name != "what":
            (about,) = kind.__metadata__
            parser.add_argument(f"--{name.replace('_', '-')}", default=getattr(Options, name), **about)
    parser.add_argument("--plan", action="store_true", help="only print the number of networks")
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    parser.add_argument("--debug", action="store_true", help="print the traceback of an error")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; an error is one line on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _warnings_as_lines():
            given = vars(build_parser().parse_args(words))
            return _run(given, command_line(*NAME.split(), *words))
    except Exception as error:
        if "--debug" in words:
            raise
        _say(f"error: {error}")
        return 2


def command_line(*words: str) -> str:
    """Return a command as it can be shown to others: of absolute paths only the last part.

    Examples
    --------
    >>> command_line("python", "-m", "paper", "all", "--data", "/home/me/my data")
    "python -m paper all --data 'my data'"
    """
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in words)


def _run(given: dict[str, Any], command: str) -> int:
    pages, plan, quiet = given.pop("folder"), given.pop("plan"), given.pop("quiet")
    given.pop("debug")
    if given["what"] == "publish":
        _print(*publish_pages(pages or PAGES))
        return 0
    if pages is not None:
        raise ValueError(f"unrecognized argument {str(pages)!r}: only publish takes a folder; name it --out {pages}")
    options = Options(**given)
    if plan:
        _print(*plan_lines(estimate(prepare(options)[0])))
        return 0
    made = _make_folders(options.folder, options.results)
    try:
        with Progress(1, quiet=quiet) as bar:
            result = reproduce(options, on_event=bar, command=command)
        return _answer(result, write_report(options.results, options.folder))
    except (KeyboardInterrupt, SystemExit):  # Lightning turns Ctrl-C into the latter
        _say(f"stopped: what is finished is kept in {options.folder}; the same command goes on from there")
        return 130
    finally:
        for folder in made:  # where options were refused, nothing was written
            with contextlib.suppress(OSError):
                folder.rmdir()


def _make_folders(*folders: Path) -> list[Path]:
    """Make folders, before hours of training; return those that were not there, the innermost first."""
    made = {part for folder in folders for part in (folder, *folder.parents) if not part.exists()}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    return sorted(made, reverse=True)


def _answer(result: Reproduced, pages: list[Path]) -> int:
    _print(f"{result.done} of {result.total} missing results are new")
    if result.stopped:
        _print("the time limit was reached: the same command goes on from here")
    _print(*(f"failed: {line}" for line in result.failed[:5]))
    if len(result.failed) > 5:
        _print(f"... and {len(result.failed) - 5} more")
    _print("", *result.files, *pages)
    return 1 if result.failed else 0


def _print(*lines: object) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _say(text: str) -> None:
    sys.stderr.write(f"{' '.join(text.split())}\n")


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print each warning for users as one line, once."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            _say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
