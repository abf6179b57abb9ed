"""Make a notebook of every tutorial; or run a tutorial first and write what it prints into its page.

python docs/notebooks.py                     # docs/tutorials/*.md -> examples/notebooks/*.ipynb
python docs/notebooks.py --run table         # run its blocks, write their output into the page, then the notebooks

A block of Python is a cell of code, and a block of text right behind it is what the cell prints; all other text is a
cell of words.
"""

from __future__ import annotations

import io
import json
import posixpath
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent
TUTORIALS, NOTEBOOKS = DOCS / "tutorials", DOCS.parent / "examples" / "notebooks"
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n?```text\n(?P<said>.*?)^```\n)?", re.DOTALL | re.MULTILINE)
WIDTH = 88
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")


class Cell(NamedTuple):
    """A piece of a tutorial: words, or code and what it is said to print."""

    text: str
    code: bool = False
    said: str | None = None


def tutorials() -> list[Path]:
    """Return the pages that have a notebook."""
    return sorted(page for page in TUTORIALS.glob("*.md") if page.stem != "index")


def cells(text: str) -> Iterator[Cell]:
    """Yield the cells of a page."""
    end = 0
    for block in BLOCK.finditer(text):
        if words := text[end : block.start()].strip():
            yield Cell(words)
        yield Cell(block["code"].rstrip(), True, block["said"])
        end = block.end()
    if words := text[end:].strip():
        yield Cell(words)


def notebook(page: Path) -> str:
    """Return the notebook of a page as JSON."""
    parts = [as_cell(cell, f"{page.stem}-{n}") for n, cell in enumerate(cells(page.read_text(encoding="utf-8")))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": parts, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def as_cell(cell: Cell, name: str) -> dict[str, Any]:
    """Return a cell as notebooks have it."""
    source = (cell.text if cell.code else LINK.sub(moved, cell.text)).splitlines(keepends=True)
    if not cell.code:
        return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}
    said = [] if cell.said is None else [printed(cell.said)]
    return {"cell_type": "code", "execution_count": None, "id": name, "metadata": {}, "outputs": said, "source": source}


def printed(said: str) -> dict[str, Any]:
    return {"name": "stdout", "output_type": "stream", "text": said.splitlines(keepends=True)}


def moved(link: re.Match[str]) -> str:
    """Return a link of docs/tutorials as it is from examples/notebooks."""
    target = posixpath.normpath(posixpath.join("docs/tutorials", link[1]))
    return f"]({posixpath.relpath(target, 'examples/notebooks')}"


def run(page: Path) -> Iterator[tuple[Cell, str]]:
    """Yield the cells of code of a page with what they print, in a folder of their own."""
    names: dict[str, Any] = {"__name__": "tutorial"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for cell in cells(page.read_text(encoding="utf-8")):
            if cell.code:
                heard = io.StringIO()
                with redirect_stdout(heard):
                    exec(compile(cell.text, f"{page.name}: {cell.text.splitlines()[0]}", "exec"), names)  # noqa: S102
                yield cell, heard.getvalue()


def wrapped(text: str) -> str:
    """Return what a cell prints in lines that fit into the page."""
    lines = text.rstrip().split("\n")
    return "\n".join(textwrap.fill(line, WIDTH) if len(line) > WIDTH else line for line in lines)


def write_outputs(page: Path) -> None:
    """Run a page and write what it prints into it, wherever it shows an output."""
    text, end, parts = page.read_text(encoding="utf-8"), 0, []
    for block, (cell, heard) in zip(BLOCK.finditer(text), run(page), strict=True):
        parts.append(text[end : block.start()])
        shown = block[0] if cell.said is None else f"```python\n{block['code']}```\n\n```text\n{wrapped(heard)}\n```\n"
        parts.append(shown)
        end = block.end()
    page.write_text("".join([*parts, text[end:]]), encoding="utf-8")


def main() -> None:
    NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    for page in tutorials():
        if "--run" in sys.argv and page.stem in sys.argv:
            write_outputs(page)
        (NOTEBOOKS / f"{page.stem}.ipynb").write_text(notebook(page), encoding="utf-8")


if __name__ == "__main__":
    main()
