"""Which figures the documentation prints, and what they have to be.

``figures.toml`` holds claims: sentences of a page with a field in place of each figure, ``{{expression | format}}``. An
expression is arithmetic over the functions of ``figure_sources.py``, which read committed results; no other Python is
run. ``python tests/docs/figures.py`` runs the pages' own code and keeps what it gives (``ran(...)``) in
``benchmarks/results/examples.json``.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import operator
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import chdir
from datetime import date
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "benchmarks/results/examples.json"
TABLE = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))

FIELD = re.compile(r"\{\{(.+?)(?: \| (\S+?))?\}\}")
FENCE = re.compile(r"^ *(`{3,}|:{3,})[^\n]*\n.*?^ *\1 *$", re.MULTILINE | re.DOTALL)
MADE = re.compile(r"<!-- (\w+): (?:begin|made by).*?<!-- \1: end -->", re.DOTALL)
SILENT = re.compile(r"<!--.*?-->|\$\$.*?\$\$|\$[^$]+\$|`[^`]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)
UNIT = r"times|ms|s|seconds?|min|minutes?|hours?|GB|MB|kB"
FIGURE = re.compile(rf"(?<![\w.,])(?:\d[\d,]*)?\.\d+(?![\d.]*\.\d)|\b\d[\d,.]* ?%|\b\d[\d,.]* (?:{UNIT})\b")
"""What looks measured: decimals, percentages, and numbers of times, seconds or bytes."""


class Page(NamedTuple):
    """The words of a page: line by line, and with what states nothing (code, links, comments) blanked."""

    name: str
    lines: str
    text: str
    words: str

    def line(self, place: int) -> str:
        """Return the line around a place."""
        return self.lines[self.lines.rfind("\n", 0, place) + 1 :].split("\n", 1)[0]


def read(name: str) -> Page:
    """Return the words of a page of the documentation, without its code and what a generator writes into it."""
    raw = FENCE.sub("", MADE.sub("", (ROOT / name).read_text(encoding="utf-8")))
    lines = "\n".join(words for line in raw.split("\n") if (words := " ".join(line.removeprefix("> ").split())))
    text = lines.replace("\n", " ")
    return Page(name, lines, text, SILENT.sub(lambda result: " " * len(result[0]), text))


def pages() -> list[str]:
    """Return the pages whose figures are checked here."""
    result = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [path.relative_to(ROOT).as_posix() for path in result if "_build" not in path.parts]
    names += sorted({claim["page"] for claim in TABLE["claim"]} - set(names))
    return [name for name in names if not name.startswith(tuple(TABLE["elsewhere"]))]


class Part(NamedTuple):
    """A piece of a claim: as it must stand in the page, and whether it was computed."""

    text: str
    computed: bool


def render(claim: dict[str, str], names: dict[str, Any]) -> list[Part]:
    """Return a claim with its figures computed."""
    text, parts, end = " ".join(claim["says"].split()), [], 0
    for field in FIELD.finditer(text):
        parts.append(Part(text[end : field.start()], False))
        parts.append(Part(shown(evaluate(field[1], names), field[2] or ""), True))
        end = field.end()
    return [*parts, Part(text[end:], False)]


SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def evaluate(expression: str, names: dict[str, Any]) -> Any:
    """Return the value of arithmetic over numbers, texts, lists and named functions; nothing else is understood."""

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.List():
                return [value(item) for item in node.elts]
            case ast.UnaryOp(op=ast.USub()):
                return -value(node.operand)
            case ast.BinOp() if type(node.op) in SIGNS:
                return SIGNS[type(node.op)](value(node.left), value(node.right))
            case ast.Subscript():
                return value(node.value)[value(node.slice)]
            case ast.Call(func=ast.Name()) if node.func.id in names:
                return names[node.func.id](*map(value, node.args), **{k.arg: value(k.value) for k in node.keywords})
        raise ValueError(f"{expression!r}: {ast.unparse(node)} is no arithmetic over {', '.join(sorted(names))}")

    return value(ast.parse(expression.strip(), mode="eval").body)


def shown(value: Any, how: str) -> str:
    """Return figures as they are printed.

    ``bare3`` is .123, ``interval1`` is 1.2 % (0.3 to 4.5), ``cells2`` is 1.23 | 4.56; other lists have slashes.
    """
    if how.startswith("cells"):
        return " | ".join(f"{number:,.{how[5:]}f}" for number in value)
    if how.startswith("interval"):
        middle, low, high = (_plain(f"{number:.{how[8:]}f}") for number in value)
        return f"{middle} % ({low} to {high})"
    if isinstance(value, list | tuple):
        return " / ".join(shown(one, how) for one in value)
    if how.startswith("bare"):
        return re.sub(r"^(-?)0\.", r"\1.", _plain(f"{value:.{how[4:]}f}"))
    return _plain(format(value, how))


def _plain(number: str) -> str:
    return number.removeprefix("-") if re.fullmatch(r"-0(\.0*)?", number) else number


def unchecked(page: Page, names: dict[str, Any]) -> Iterator[str]:
    """Yield each line of a page with a figure that neither a claim computes nor the list of settings allows."""
    checked = bytearray(len(page.text))
    for claim in TABLE["claim"]:
        if claim["page"] == page.name:
            parts = render(claim, names)
            place = page.text.find("".join(part.text for part in parts))
            for part in parts if place >= 0 else ():
                checked[place : place + len(part.text)] = bytes([part.computed]) * len(part.text)
                place += len(part.text)
    for allowed in TABLE["setting"]:
        if page.name.startswith(allowed.get("page", "")):
            for result in re.finditer(allowed["like"], page.words if allowed.get("words", True) else page.text):
                checked[result.start() : result.end()] = b"\1" * len(result[0])
    for figure in FIGURE.finditer(page.words):
        if not all(checked[figure.start() : figure.start() + len(figure[0].split()[0].rstrip("%"))]):
            yield f"{figure[0]!r} in: {page.line(figure.start())}"


@cache
def load_sources() -> Any:
    """Return figure_sources.py, which keeps the files it has read."""
    spec = importlib.util.spec_from_file_location("figure_sources", Path(__file__).with_name("figure_sources.py"))
    if spec is None or spec.loader is None:
        raise ImportError("figure_sources.py is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources(page: str) -> dict[str, Callable[..., Any]]:
    """Return the functions that claims of a page may name."""
    ran = json.loads(EXAMPLES.read_text(encoding="utf-8"))["pages"] if EXAMPLES.exists() else {}
    named = {
        name: thing
        for name, thing in vars(load_sources()).items()
        if getattr(thing, "__module__", "") == "figure_sources"
    }
    return named | {"ran": lambda expression: ran[page][expression]}


def run_examples() -> dict[str, dict[str, Any]]:
    """Run the code of all pages whose claims say ``ran(...)``, and return what these expressions give."""
    wanted: dict[str, list[str]] = {}
    for claim in TABLE["claim"]:
        for field in FIELD.finditer(" ".join(claim["says"].split())):
            for call in ast.walk(ast.parse(field[1].strip(), mode="eval")):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "ran":
                    wanted.setdefault(claim["page"], []).append(ast.literal_eval(call.args[0]))
    block = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
    result: dict[str, dict[str, Any]] = {}
    for page, expressions in wanted.items():
        names: dict[str, Any] = {"__name__": "page"}
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            for code in block.findall((ROOT / page).read_text(encoding="utf-8")):
                exec(code, names)  # noqa: S102
            result[page] = {output: eval(output, names) for output in expressions}  # noqa: S307
    return result


def keep_examples() -> None:
    """Write what the pages' code gives, and what it was run with."""
    versions = {name: metadata.version(name) for name in ("numpy", "scikit-learn", "torch")}
    about = {
        "command": "python tests/docs/figures.py",
        "date": f"{date.today()}",
        "device": "cpu",
        "versions": versions,
    }
    EXAMPLES.write_text(json.dumps(about | {"pages": run_examples()}, indent=1, default=float) + "\n", encoding="utf-8")


if __name__ == "__main__":
    keep_examples()
