"""``python -m paper``: the paper's tables and figures from raw data, and the pages made from them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from adacsl import __version__
from adacsl.cli.app import run_app
from adacsl.cli.console import PLAIN, Answer, Screen, stoppable
from adacsl.storage.atomic import check_folder
from paper.planning import estimate, plan_lines
from paper.publish import PAGES, publish_pages
from paper.report import write_report
from paper.running import Reproduced, prepare
from paper.running import reproduce as run
from paper.wishes import Wishes

NAME = "python -m paper"
EXAMPLES = (
    f"{NAME} table2 --quick",
    f"{NAME} all --data data/ --seeds 5 --device cuda --n-jobs 10",
    f"{NAME} table2 --data data/ --datasets ham10k --profile paper",
    f"{NAME} publish",
)


def reproduce(
    wishes: Annotated[Wishes, Parameter(name="*")],
    *,
    plan: bool = False,
    screen: Screen = PLAIN,
) -> Answer:
    """Run the paper's experiments and set the results beside its figures.

    Writes CSV files (one row per run), LaTeX tables, images of Table 2 and Figure 1, and one HTML page. Every
    result is kept as soon as it is there: the same command, started again, runs only what is missing.

    Parameters
    ----------
    plan
        Only print the number of networks.
    """
    if plan:
        estimates = estimate(prepare(wishes)[0])
        return Answer({"plan": [each._asdict() for each in estimates]}, tuple(plan_lines(estimates)))
    for folder, option in ((wishes.folder, "--out"), (wishes.results, "--export")):
        check_folder(folder, f"choose another {option}")
    with stoppable(f"what is finished is kept in {wishes.folder}; the same command goes on from there"):
        result = _run(wishes, quiet=screen.quiet)
        pages = write_report(wishes.results, wishes.folder)
    return _answer(result, pages)


def publish(folder: Path = PAGES, *, screen: Screen = PLAIN) -> Answer:
    """Make the documentation's page of results, and its images, from the CSV files beside it.

    Parameters
    ----------
    folder
        Holds the page, and the CSV files below results/; default: docs/paper.
    """
    made = publish_pages(folder)
    return Answer({"files": made}, tuple(map(str, made)))


def build() -> App:
    """Return the application."""
    app = App(
        name=NAME,
        version=__version__,
        default_parameter=Parameter(negative=(), consume_multiple=True, show_default=False),
        help_format="markdown",
        help_epilogue="Examples:\n\n" + "\n".join(f"    {line}" for line in EXAMPLES),
    )
    app.default(reproduce)
    app.command(publish, help_epilogue="")
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; every error becomes one line on stderr."""
    return run_app(build(), arguments)


def command_line(*words: str) -> str:
    """Return a command as it can be shown to others: of absolute paths only the last part.

    Examples
    --------
    >>> command_line("python", "-m", "paper", "all", "--data", "/home/me/my data")
    "python -m paper all --data 'my data'"
    """
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in words)


def _run(wishes: Wishes, *, quiet: bool) -> Reproduced:
    from adacsl.comparison.progress import Progress  # noqa: PLC0415  a help text needs none

    with Progress(1, quiet=quiet) as bar:
        return run(wishes, tell=bar, command=command_line(*NAME.split(), *sys.argv[1:]))


def _answer(result: Reproduced, pages: list[Path]) -> Answer:
    files: list[Path] = [*result.files, *pages]
    document: dict[str, Any] = {
        "done": result.done, "total": result.total, "failed": list(result.failed), "stopped": result.stopped,
        "files": files,
    }  # fmt: skip
    shown = [f"{result.done} of {result.total} missing results are new"]
    if result.stopped:
        shown.append("the time limit was reached: the same command goes on from here")
    shown += [f"failed: {line}" for line in result.failed[:5]]
    if len(result.failed) > 5:
        shown.append(f"... and {len(result.failed) - 5} more")
    return Answer(document, (*shown, "", *map(str, files)), code=1 if result.failed else 0)


__all__ = ["build", "command_line", "main", "publish", "reproduce"]
