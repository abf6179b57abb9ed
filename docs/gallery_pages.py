"""Make a page of every example of the gallery: run its cells, keep what they print and the figure of the last one.

python docs/gallery_pages.py                 # examples/gallery/*.py -> docs/gallery/*.md and two images each
python docs/gallery_pages.py fraud           # some

An example is a script in the style of sphinx-gallery: its docstring is the title and the introduction, ``# %%`` begins
a cell, whose comment is a heading and text, and the last cell draws a figure.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

DOCS = Path(__file__).resolve().parent
PAGES, SCRIPTS = DOCS / "gallery", DOCS.parent / "examples" / "gallery"
WIDTH = 88
"""Code of a page is formatted to so many characters, as longer lines are cut off on a laptop."""


class Cell(NamedTuple):
    """A cell of an example: heading, text, and code."""

    title: str
    text: str
    code: str


class Example(NamedTuple):
    """An example: its name, title, introduction, and cells; the first holds the imports and has no heading."""

    name: str
    title: str
    text: str
    cells: tuple[Cell, ...]


def examples() -> list[Example]:
    """Return the examples by name."""
    return [read(path) for path in sorted(SCRIPTS.glob("*.py"))]


def read(path: Path) -> Example:
    """Return an example from its script."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n\n")
    lines = source.splitlines()[tree.body[0].end_lineno :]
    first, *parts = re.split(r"^# %%\n", "\n".join(lines), flags=re.MULTILINE)
    return Example(path.stem, title.rstrip("."), text, (Cell("", "", first.strip()), *map(_cell, parts)))


def _cell(part: str) -> Cell:
    comment, code = re.match(r"((?:#[^\n]*\n)+)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
    title, *text = [line.removeprefix("#").strip() for line in comment.splitlines()]
    return Cell(title, "\n".join(text).strip(), code.strip())


def run(example: Example) -> Iterator[tuple[Cell, str]]:
    """Yield the cells with what they print; figures are drawn on no screen."""
    names: dict[str, Any] = {"__name__": "example"}
    with mpl.rc_context({"backend": "agg"}):
        for cell in example.cells:
            heard = io.StringIO()
            with redirect_stdout(heard):
                exec(compile(cell.code, f"{example.name}.py: {cell.title}", "exec"), names)  # noqa: S102
            yield cell, heard.getvalue()


def page(example: Example, outputs: list[str]) -> str:
    """Return the page of an example."""
    parts = [
        f"<!-- made by docs/gallery_pages.py from examples/gallery/{example.name}.py: do not edit -->",
        f"# {example.title}",
        example.text,
    ]
    for cell, heard in zip(example.cells, outputs, strict=True):
        parts += [f"## {cell.title}", cell.text] if cell.title else []
        parts.append(f"```python\n{wrapped(cell.code)}```")
        parts += [f"```text\n{filled(heard)}\n```"] if heard.strip() else []
    parts += [
        f"```{{image}} {example.name}-{look}.png\n:class: only-{look}\n:alt: {example.cells[-1].title}\n```"
        for look in ("light", "dark")
    ]
    parts.append(f"*`examples/gallery/{example.name}.py`: runs on one core in less than half a minute.*")
    parts.append("**Next:** [gallery](../gallery.md), [tutorials](../tutorials/index.md)")
    return "\n\n".join(part for part in parts if part) + "\n"


def wrapped(code: str) -> str:
    """Return code in lines of at most ``WIDTH`` characters."""
    command = [sys.executable, "-m", "ruff", "format", "--isolated", f"--line-length={WIDTH}", "-"]
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout  # noqa: S603


def filled(output: str) -> str:
    """Return what an example prints in lines of at most ``WIDTH`` characters."""
    return "\n".join(textwrap.fill(line, WIDTH) if len(line) > WIDTH else line for line in output.rstrip().split("\n"))


def make(example: Example, styles: dict[str, dict[str, Any]]) -> None:
    """Run an example and write its page and images: the last cell is drawn once in each style."""
    from matplotlib import pyplot as plt  # noqa: PLC0415  takes long to import, and reading examples needs none

    names: dict[str, Any] = {"__name__": "example"}
    outputs = []
    for cell in example.cells[:-1]:
        heard = io.StringIO()
        with redirect_stdout(heard):
            exec(compile(cell.code, example.name, "exec"), names)  # noqa: S102
        outputs.append(heard.getvalue())
    for look, style in styles.items():
        heard = io.StringIO()
        with mpl.rc_context(style), redirect_stdout(heard):
            exec(compile(example.cells[-1].code, example.name, "exec"), names)  # noqa: S102
            ground = {"light": "#ffffff", "dark": "#131416"}[look]
            plt.gcf().savefig(
                PAGES / f"{example.name}-{look}.png", dpi=110, facecolor=ground, metadata={"Software": None}
            )
            plt.close("all")
    (PAGES / f"{example.name}.md").write_text(page(example, [*outputs, heard.getvalue()]), encoding="utf-8")


def main() -> None:
    mpl.use("agg")
    sys.path.insert(0, str(DOCS))
    from figures import LOOKS, settings  # noqa: PLC0415

    PAGES.mkdir(exist_ok=True)
    for example in examples():
        if len(sys.argv) == 1 or example.name in sys.argv:
            make(example, {look: settings(style) for look, style in LOOKS.items()})


if __name__ == "__main__":
    main()
