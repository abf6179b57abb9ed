"""The documentation's pages of results in docs/paper, and their figures, from docs/paper/results/*.csv."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paper.plots import caption_of
from paper.report import to_markdown, write_plots
from paper.running import ABOUT
from paper.sheets import SHEETS, read_results
from paper.tables import dataset_grid, grids

CLAIMS = "does-it-hold-up.md"
"""The page written by hand into which the tables of some data sets are filled."""
BLOCKS = {"rffd": "RFFD", "idc": "IDC"}
"""Names of the blocks of that page, and their data sets."""
PAGES = Path(__file__).resolve().parents[1] / "docs" / "paper"
HEAD = """\
<!-- made by python -m paper publish from docs/paper/results/*.csv: do not edit -->

# Results

Normalised cost: 0 is perfect, 1 is predicting everything positive. Means over random splits with 95 % intervals of the
corrected resampled t-test (Nadeau and Bengio 2003). How it was run: [Reproduction](reproduce.md).
Interpretation: [Does AdaCSL hold up?](does-it-hold-up.md). Table 2 in full: [method by method](table2.md).
"""
TABLE2 = """\
<!-- made by python -m paper publish from docs/paper/results/table2.csv: do not edit -->

# Table 2, method by method

Every method of the paper's Table 2, and further baselines. Summary and claims: [results](results.md).
"""
SECTIONS = {
    "table2": ("Table 2", ("overview", "claims")),
    "table1": ("Table 1", ("table1",)),
    "figure1": ("Figure 1", ()),
    "ablations": ("Ablations", ("ablations",)),
}


def publish_pages(folder: Path = PAGES) -> list[Path]:
    """Write the pages and their figures; return their paths."""
    page, methods, results = folder / "results.md", folder / "table2.md", folder / "results"
    result: dict[str, list[Any]] = read_results(results) if results.is_dir() else {name: [] for name in SHEETS}
    tables = grids(result)
    figures = write_plots(result, results)
    parts = [HEAD]
    for sheet, (title, names) in SECTIONS.items():
        parts.append(f"## {title}\n")
        if not result[sheet]:
            parts.append("Not run yet.\n")
            continue
        shown = [path for path in figures if path.stem.startswith(sheet)]
        parts += [f"![{caption_of(path)}](results/{path.name})\n" for path in shown]
        parts += [f"*{words}.*\n" for words in dict.fromkeys(caption_of(path) for path in shown)]
        parts += [to_markdown(grid) for name in names for grid in tables if grid.name.startswith(name)]
    parts.append(_calls(results / ABOUT))
    page.write_text("\n".join(parts), encoding="utf-8")
    whole = [to_markdown(grid) for grid in tables if grid.name.startswith("table2")]
    methods.write_text("\n".join([TABLE2, *(whole or ["Not run yet.\n"])]), encoding="utf-8")
    by_hand = folder / CLAIMS
    if by_hand.is_file():
        text = by_hand.read_text(encoding="utf-8")
        for name, dataset in BLOCKS.items():
            grid = dataset_grid(result["table2"], dataset)
            text = fill(text, name, "Not run yet.\n" if grid is None else to_markdown(grid))
        by_hand.write_text(text, encoding="utf-8")
    return [page, methods, *([by_hand] if by_hand.is_file() else []), *figures]


def fill(text: str, name: str, content: str) -> str:
    """Return a page with other content between the two marks of a block."""
    begin, end = f"<!-- {name}: begin (python -m paper publish) -->\n", f"<!-- {name}: end -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no block {name!r}: it needs the lines {begin.strip()} and {end}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def _calls(path: Path) -> str:
    """Return the commands behind the figures."""
    if not path.is_file():
        return "## How it was run\n\nNot run yet.\n"
    lines = ["## How it was run\n", "| date | device | seconds | commit | command |", "|---|---|---|---|---|"]
    for call in json.loads(path.read_text(encoding="utf-8")):
        commit = (call.get("commit") or "-")[:10]
        note = f" ({call['note']})" if "note" in call else ""
        lines.append(
            f"| {call['date']} | {call['device']} | {call['seconds']:.0f} | {commit} | `{call['command']}`{note} |"
        )
    return "\n".join(lines) + "\n"
