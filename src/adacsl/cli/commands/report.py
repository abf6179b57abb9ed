"""``adacsl report``: the page of a comparison, once more."""

from __future__ import annotations

from pathlib import Path

from adacsl.cli.commands.compare import failed_cells
from adacsl.cli.options import USUAL
from adacsl.cli.screen import PLAIN, Answer, Screen
from adacsl.durable import check_file
from adacsl.extras import requires


def report(
    run: Path,
    *,
    out: Path | None = None,
    explain: Path | None = None,
    tolerance: float = USUAL.tolerance,
    screen: Screen = PLAIN,
) -> Answer:
    """Write the HTML page of a comparison, finished or not.

    Parameters
    ----------
    run
        Folder of the comparison (`adacsl compare --out`).
    out
        The page; default: report.html in that folder.
    explain
        Table that `adacsl explain --out` wrote: the page shows what each column is worth.

    tolerance
        How much dearer than the cheapest, at most, a method may be that is recommended as it is simpler; 0.1: 10 %.

    Examples
    --------
    adacsl report runs/loans --out report.html
    adacsl report runs/loans --explain columns.csv
    """
    if not run.is_dir():
        raise FileNotFoundError(f"there is no folder {run}: give the one that  adacsl compare --out  wrote")
    path = run / "report.html" if out is None else out
    check_file(path)
    with requires("compare"):
        from adacsl.datasets.tables import read_table  # noqa: PLC0415  pandas
        from adacsl.experiments.comparing import load_comparison  # noqa: PLC0415  torch
    worth = None if explain is None else read_table(explain)
    found = load_comparison(run, tolerance=tolerance)
    page = found.report(path, explain=worth)
    failed = failed_cells(found)
    document = {"report": page, "verdict": found.verdict, "best": found.best, "tolerance": tolerance, "failed": failed}
    return Answer(document, (found.verdict, f"report: {page}"), code=1 if failed else 0)
