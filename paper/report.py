"""Tables and images as files: LaTeX, HTML and Markdown, from CSV files alone."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from paper.claims import summary
from paper.plots import caption_of, draw_epochs, draw_methods
from paper.sheets import Row, read_results
from paper.tables import Grid, grids

LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": "$<$",
    ">": "$>$",
}


def to_latex(grid: Grid) -> str:
    """Return a table for ``booktabs``."""
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{_tex(grid.title)}. {_tex(grid.note)}}}".replace(". }", ".}"),
        rf"\label{{tab:{grid.name}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(grid.header) - 1)}}}",
        r"\toprule",
        " & ".join(map(_tex, grid.header)) + r" \\",
        r"\midrule",
        *(" & ".join(map(_tex, row)) + r" \\" for row in grid.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def to_markdown(grid: Grid) -> str:
    """Return a table for the documentation."""
    rows = [grid.header, ("---",) * len(grid.header), *grid.rows]
    lines = ["| " + " | ".join(text.replace("|", r"\|") for text in row) + " |" for row in rows]
    return "\n".join([f"**{grid.title}**", "", *lines, *(("", grid.note) if grid.note else ())]) + "\n"


def to_html(grids_: Iterable[Grid], images: Sequence[Path]) -> str:
    """Return one page that needs no other file."""
    parts = []
    for grid in grids_:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in grid.header)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in grid.rows)
        parts.append(
            f'<section id="{html.escape(grid.name)}"><h2>{html.escape(grid.title)}</h2><div class="wide"><table><thead>'
            f"<tr>{head}</tr></thead><tbody>{body}</tbody></table></div><p>{html.escape(grid.note)}</p></section>"
        )
    for path in images:
        content = base64.b64encode(path.read_bytes()).decode()
        words = html.escape(caption_of(path))
        image = f'<img src="data:image/png;base64,{content}" alt="{words}">'
        parts.append(f"<figure>{image}<figcaption>{words}</figcaption></figure>")
    return PAGE.replace("BODY", "\n".join(parts))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper, reproduced</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.3rem .8rem;border-bottom:1px solid #8886;text-align:left;white-space:nowrap}img{max-width:100%}
</style></head><body><h1>The paper, reproduced</h1>
BODY
</body></html>
"""


def write_plots(results: dict[str, list[Row]], folder: Path) -> list[Path]:
    """Draw Table 2 and Figure 1 as PNG files and return their paths; none where matplotlib is missing."""
    made = draw_methods(summary(results["table2"]), folder) if results["table2"] else []
    return made + (draw_epochs(results["figure1"], folder) if results["figure1"] else [])


def write_report(results: Path, folder: Path) -> list[Path]:
    """Write LaTeX tables, Figure 1 and one HTML page from the CSV files of a folder; return their paths."""
    result = read_results(results)
    tables = grids(result)
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for part in ("table1", "table2", "ablations"):
        own = [grid for grid in tables if _part(grid) == part]
        if own:
            path = folder / f"{part}.tex"
            path.write_text("\n".join(to_latex(grid) for grid in own), encoding="utf-8")
            made.append(path)
    images = write_plots(result, folder)
    page = folder / "paper.html"
    page.write_text(to_html(tables, images), encoding="utf-8")
    return [*made, *images, page]


def _part(grid: Grid) -> str:
    return next((part for part in ("table1", "ablations") if grid.name.startswith(part)), "table2")
