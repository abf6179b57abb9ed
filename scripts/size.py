"""Measure the house: code lines, module and function lengths, names, constructors, private names in tests.

Usage: ``python scripts/size.py [root]``; ``tests/test_size.py`` holds the limits.
"""

from __future__ import annotations

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines of the docstrings of modules, classes and functions."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                found |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code: no blanks, comments, docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SKIPPED:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(ast.parse(source))


def names(tree: ast.Module) -> Iterator[str]:
    """Yield classes and type aliases of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_alias(node.targets[0], node.value):
            yield ast.unparse(node.targets[0])


def _is_alias(target: ast.expr, value: ast.expr) -> bool:
    named = isinstance(target, ast.Name) and target.id.lstrip("_")[:1].isupper() and not target.id.isupper()
    return named and isinstance(value, ast.Subscript | ast.BinOp | ast.Name | ast.Attribute)


def constructors(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield how many parameters each constructor has, self left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, ast.FunctionDef) and child.name == "__init__":
                    yield node.name, len(child.args.args) + len(child.args.kwonlyargs) - 1


NOT_OURS = {"_replace", "_fields", "_asdict", "_exit", "_dynamo", "_repr_html_", "_forward_pre_hooks"}
"""Public names of others that begin with an underscore."""


def private_names(tree: ast.Module) -> int:
    """Count imports of private names and reads of private attributes of others."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            count += sum(alias.name.startswith("_") and not alias.name.startswith("__") for alias in node.names)
        elif isinstance(node, ast.Attribute) and node.attr[:1] == "_" != node.attr[1:2] and node.attr not in NOT_OURS:
            count += not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    return count


def measure(root: Path) -> dict[str, object]:
    """Return all figures of a checkout."""
    sources = {path: path.read_text() for path in sorted((root / "src" / "adacsl").rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    lines = {path: code_lines(source) for path, source in sources.items()}
    lengths = [
        len([n for n in lines[path] if node.lineno <= n <= (node.end_lineno or 0)])
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS)
    ]
    every = [name for tree in trees.values() for name in names(tree)]
    tests = {path: private_names(ast.parse(path.read_text())) for path in sorted((root / "tests").rglob("*.py"))}
    longest = Counter({str(path.relative_to(root)): sources[path].count("\n") for path in sources})
    return {
        "code lines": sum(map(len, lines.values())),
        "class and alias names": len(set(every)),
        "longest modules": longest.most_common(12),
        "function length, median": statistics.median(lengths),
        "function length, p95": sorted(lengths)[int(0.95 * len(lengths))],
        "longest constructors": Counter(dict(c for t in trees.values() for c in constructors(t))).most_common(4),
        "private names in tests": sum(tests.values()),
        "code lines by room": Counter(
            {room: sum(len(v) for k, v in lines.items() if k.relative_to(root / "src" / "adacsl").parts[0] == room)
             for room in {k.relative_to(root / "src" / "adacsl").parts[0] for k in lines}}
        ).most_common(),
    }  # fmt: skip


if __name__ == "__main__":
    for name, value in measure(Path(sys.argv[1] if len(sys.argv) > 1 else ".")).items():
        print(f"{name}: {value}")  # noqa: T201
