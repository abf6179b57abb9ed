"""``adacsl report``: the HTML report of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from adacsl.base.extras import requires
from adacsl.cli.compare import failed_fits
from adacsl.cli.console import PLAIN, Answer, Screen
from adacsl.cli.options import (
    ADVANCED_RESULTS,
    EVALUATION_DEFAULTS,
    LARGEST,
    REPORT_DEFAULTS,
    ReportOptions,
    within,
)
from adacsl.storage.atomic import check_file


def report(
    run: Path,
    *,
    out: Path | None = None,
    markdown: Path | None = None,
    explain: Path | None = None,
    model: Path | None = None,
    tolerance: Annotated[float, Parameter(group=ADVANCED_RESULTS), within(-LARGEST)] = EVALUATION_DEFAULTS.tolerance,
    prefer: Annotated[Literal["cost", "simple"], Parameter(group=ADVANCED_RESULTS)] = EVALUATION_DEFAULTS.prefer,
    report_options: ReportOptions = REPORT_DEFAULTS,
    screen: Screen = PLAIN,
) -> Answer:
    """Write the HTML report of a comparison, and on request a Markdown summary.

    The comparison need not be finished.

    Parameters
    ----------
    run
        Folder of the comparison (`adacsl compare --out`).
    out
        HTML file; default: report.html in that folder.
    markdown
        Markdown file of a summary, such as report.md, for a pull request.
    explain
        Table that `adacsl explain --out` wrote: the report shows the permutation importance of each column.
    model
        Folder of the recommended method, fitted (`adacsl train --out`), for the model card.
    tolerance
        The share of the lowest cost that a simpler method may cost more to be recommended; 0.1: 10 %.
    prefer
        cost: a simpler method is recommended only without a significant difference from the lowest cost. simple: the
        simplest method within the tolerance, even where it costs significantly more.

    Examples
    --------
    adacsl report runs/loans --out report.html
    adacsl report runs/loans --unit EUR --volume 50000 --people customers
    adacsl report runs/loans --explain columns.csv --model model/
    adacsl report runs/loans --unit EUR --markdown report.md
    """
    if not run.is_dir():
        raise FileNotFoundError(f"there is no folder {run}: give the one that  adacsl compare --out  wrote")
    path = run / "report.html" if out is None else out
    for file in filter(None, (path, markdown)):
        check_file(file)
    with requires("compare"):
        from adacsl.comparison.compare import load_comparison  # noqa: PLC0415  torch
        from adacsl.datasets.readers.formats import read_table  # noqa: PLC0415  pandas
    worth = None if explain is None else read_table(explain)
    comparison = load_comparison(run, tolerance=tolerance, prefer=prefer)
    shown = {"explain": worth, "model": model, **vars(report_options)}
    page = comparison.report(path, **shown)
    failed = failed_fits(comparison)
    document = {
        "report": page, "recommendation": comparison.recommendation, "best": comparison.best,
        "tolerance": tolerance, "prefer": prefer,
        "failed": failed, "progress": comparison.progress, "missing": [each._asdict() for each in comparison.missing],
    }  # fmt: skip
    lines = [comparison.recommendation, f"report: {page}"]
    if markdown is not None:
        comparison.to_markdown(markdown, **shown)
        document["markdown"] = markdown
        lines.append(f"markdown: {markdown}")
    return Answer(document, tuple(lines), code=1 if failed or comparison.progress else 0)
