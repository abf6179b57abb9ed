"""Move modules and symbols of the package as ``moves.toml`` says, and rewrite everything that names them.

``python scripts/move.py [--check]``: several old modules may become one, one may be divided, names may change. Imports
in all Python files, dotted names in text and paths of files follow. It can be run again, on any branch: what has moved
already is left alone. ``--check`` only reports names that would be defined twice and imports that would be circular.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import libcst as cst
from libcst import matchers
from libcst.metadata import GlobalScope, MetadataWrapper, ScopeProvider

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PLACES = ("src", "tests", "benchmarks", "examples", "paper", "docs", "scripts")
TEXTS = {".py", ".md", ".toml", ".rst", ".j2", ".ipynb", ".cfg", ".yaml", ".yml"}
UNTOUCHED = {"CHANGELOG.md", "scripts/move.py", "scripts/moves.toml"}


def module_of(path: Path) -> str:
    """Return the dotted name of a source file."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def path_of(module: str) -> Path:
    """Return the file of a module that is no package."""
    return SRC.joinpath(*module.split(".")).with_suffix(".py")


def bound_names(node: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.TypeAlias) if hasattr(ast, "TypeAlias") else False:
        return [node.name.id]
    if isinstance(node, ast.If | ast.With | ast.Try):
        blocks = [*node.body, *getattr(node, "orelse", []), *(s for h in getattr(node, "handlers", []) for s in h.body)]
        return [name for inner in blocks for name in bound_names(inner)]
    return []


def top_imports(nodes: Iterable[ast.stmt]) -> Iterator[ast.ImportFrom | ast.Import]:
    """Yield the imports at the top of a module, also those under a condition."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield node
        elif isinstance(node, ast.If | ast.With | ast.Try):
            yield from top_imports(node.body)
            yield from top_imports(getattr(node, "orelse", []))


@dataclass
class Source:
    """One module as it is before the move."""

    name: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed source."""
        return ast.parse(self.path.read_text())

    @cached_property
    def defined(self) -> list[str]:
        """Names defined at the top."""
        return [name for node in self.tree.body for name in bound_names(node)]

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Local name of what is imported from the package, with its module and name there."""
        found = {}
        for node in top_imports(self.tree.body):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "adacsl":
                found |= {a.asname or a.name: (str(node.module), a.name) for a in node.names}
        return found


@dataclass
class Moves:
    """What ``moves.toml`` says, in full names, with the modules that exist now."""

    sources: dict[str, Source]
    home: dict[str, str] = field(default_factory=dict)
    symbols: dict[tuple[str, str], str] = field(default_factory=dict)
    rename: dict[tuple[str, str], str] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=dict)
    docstrings: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Moves:
        """Read the file."""
        said = tomllib.loads(path.read_text())
        sources = {module_of(p): Source(module_of(p), p) for p in sorted((SRC / "adacsl").rglob("*.py"))}
        moves = cls(sources)
        for new, olds in said["into"].items():
            moves.order[f"adacsl.{new}"] = [f"adacsl.{old}" for old in olds]
            moves.home |= {f"adacsl.{old}": f"adacsl.{new}" for old in olds}
        for key, new in said.get("symbols", {}).items():
            module, name = key.split(":")
            moves.symbols[f"adacsl.{module}", name] = f"adacsl.{new}"
        for key, new in said.get("rename", {}).items():
            module, name = key.split(":")
            moves.rename[f"adacsl.{module}", name] = new
        moves.docstrings = {f"adacsl.{k}": v for k, v in said.get("docstrings", {}).items()}
        moves.packages = {f"adacsl.{k}": v for k, v in said.get("packages", {}).items()}
        moves.files = said.get("files", {})
        return moves

    def moved(self, module: str) -> str:
        """Return where a module goes."""
        return self.home.get(module, module)

    def kept_package(self, module: str) -> bool:
        """Return whether names are imported from this package as before."""
        source = self.sources.get(module)
        return source is not None and source.path.name == "__init__.py" and self.stays(module)

    def stays(self, module: str) -> bool:
        """Return whether a package has modules or its own code after the move."""
        return module == "adacsl" or any(self.moved(m).startswith(module + ".") for m in self.sources if m != module)

    def is_module(self, package: str, name: str) -> bool:
        """Return whether ``from package import name`` gives a module."""
        source = self.sources.get(package)
        hidden = source is not None and (name in source.imported or name in source.defined)
        return f"{package}.{name}" in self.sources and not hidden

    def place(self, module: str, name: str) -> tuple[str, str]:
        """Return the new module and the new name of what a module calls ``name``."""
        if self.is_module(module, name):
            return self.moved(f"{module}.{name}"), ""
        if self.kept_package(module):
            return module, name
        source = self.sources.get(module)
        if source is None:
            return self.moved(module), name
        if name in source.defined:
            return self.symbols.get((module, name), self.moved(module)), self.rename.get((module, name), name)
        if name in source.imported:
            return self.place(*source.imported[name])
        return self.moved(module), name


class Rewriter(cst.CSTTransformer):
    """Rewrites the imports of one file, and the names that change with them."""

    METADATA_DEPENDENCIES = (ScopeProvider,)

    def __init__(self, moves: Moves, module: str | None, homes: dict[str, str] | None = None) -> None:
        self.moves = moves
        self.module = module  # the old module, if the file is one
        self.home = moves.moved(module) if module else None
        self.names: dict[int, str] = {}  # id of a name -> the new name
        self.attributes: dict[int, tuple[str, str]] = {}  # id of module.name -> new module, new name
        self.module_names: dict[int, tuple[str, str]] = {}  # id of a name -> local name, old module it stands for
        self.modules: dict[str, set[str]] = defaultdict(set)  # local name of a module -> new modules it stands for
        self.aliases: dict[str, str] = {}  # new module -> what the file calls it by an alias of its own
        self.lasts: dict[str, str] = {}
        self.ambiguous: set[str] = set()  # last names of modules that stand for several modules in this file
        self.emitted: set[tuple[str, str, str]] = set()
        self.taken: set[str] = set()  # names that the file uses for something else

    def is_home(self, module: str) -> bool:
        """Return whether a new module is the one this file becomes."""
        return self.home is not None and module == self.home

    def visit_Module(self, node: cst.Module) -> None:
        scopes = {s for s in self.metadata[ScopeProvider].values() if s is not None}
        for scope in scopes:
            self.taken |= {
                a.name for a in scope.assignments if not isinstance(getattr(a, "node", None), cst.ImportFrom)
            }
            for assignment in scope.assignments:
                if isinstance(origin := getattr(assignment, "node", None), cst.ImportFrom):
                    self._note_alias(origin, assignment.name)
        for scope in scopes:
            for assignment in scope.assignments:
                origin = getattr(assignment, "node", None)
                local = assignment.name
                if isinstance(origin, cst.ImportFrom):
                    self._imported(origin, local, assignment)
                elif isinstance(scope, GlobalScope) and self.module and (self.module, local) in self.moves.rename:
                    self._renamed(assignment, self.moves.rename[self.module, local])
        self._follow_modules(node)

    def _note_alias(self, node: cst.ImportFrom, local: str) -> None:
        module = cst.helpers.get_full_name_for_node(node.module) if node.module else ""
        for alias in node.names if not isinstance(node.names, cst.ImportStar) else ():
            old = f"{module}.{alias.name.value}"
            is_module = self.moves.is_module(module, alias.name.value)
            if alias.asname and alias.asname.name.value == local and is_module:
                self.aliases[self.moves.moved(old)] = local
            elif alias.name.value == local and not is_module:
                self.taken.add(local)
            elif is_module:
                new = self.moves.moved(old)
                last = new.rsplit(".", 1)[1]
                if self.lasts.setdefault(last, new) != new:
                    self.ambiguous.add(last)

    def _renamed(self, assignment: Any, new: str) -> None:
        for access in assignment.references:
            if isinstance(access.node, cst.Name):
                self.names[id(access.node)] = new
            elif isinstance(access.node, cst.Attribute):
                base = access.node
                while isinstance(base, cst.Attribute):
                    base = base.value
                self.names[id(base)] = new
        node = assignment.node
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.names[id(node.name)] = new
        elif isinstance(node, cst.Name):
            self.names[id(node)] = new

    def _imported(self, node: cst.ImportFrom, local: str, assignment: Any) -> None:
        module = cst.helpers.get_full_name_for_node(node.module) if node.module else ""
        if not module or module.split(".")[0] != "adacsl" or isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            name = alias.name.value
            shown = alias.asname.name.value if alias.asname else name
            if shown != local:
                continue
            if self.moves.is_module(module, name):
                self._module_object(f"{module}.{name}", assignment)
                return
            new_module, new_name = self.moves.place(module, name)
            wanted = self._local_name(local, alias.asname is not None, new_module, new_name, name)
            if wanted != local:
                self._renamed(assignment, wanted)

    def _local_name(self, local: str, aliased: bool, new_module: str, new_name: str, name: str) -> str:
        if self.module and (self.module, local) in self.moves.rename:
            if self.is_home(new_module):
                return new_name
            return self.moves.rename[self.module, local]
        if self.is_home(new_module):
            return new_name
        return local if aliased or new_name == name else new_name

    def _module_object(self, old: str, assignment: Any) -> None:
        """Note the names that stand for a module."""
        for access in assignment.references:
            base = access.node
            while isinstance(base, cst.Attribute):
                base = base.value
            self.module_names[id(base)] = (assignment.name, old)

    def _follow_modules(self, tree: cst.Module) -> None:
        """Find out what becomes of ``module.name``, and of ``module`` itself."""
        followed = set()
        for chain in matchers.findall(tree, matchers.Attribute(value=matchers.Name())):
            if id(chain.value) not in self.module_names:
                continue
            followed.add(id(chain.value))
            local, old = self.module_names[id(chain.value)]
            new_module, new_name = self.moves.place(old, chain.attr.value)
            if chain.attr.value not in self.moves.sources[old].defined:
                new_module, new_name = self.moves.moved(old), chain.attr.value
            self.attributes[id(chain)] = ("" if self.is_home(new_module) else new_module, new_name)
            if not self.is_home(new_module):
                self.modules[local].add(new_module)
        for number, (local, old) in self.module_names.items():
            if number not in followed:
                self.modules[local].add(self.moves.moved(old))
                self.names[number] = self._module_name(self.moves.moved(old))

    def _module_name(self, new_module: str) -> str:
        """Return what a module is called in this file."""
        if new_module in self.aliases:
            return self.aliases[new_module]
        package, last = new_module.split(".")[-2:]
        return f"{package}_{last}" if last in self.taken or last in self.ambiguous else last

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if new := self.names.get(id(original_node)):
            return updated_node.with_changes(value=new)
        return updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        found = self.attributes.get(id(original_node))
        if found is None:
            return updated_node
        module, name = found
        if not module:
            return cst.Name(name, lpar=updated_node.lpar, rpar=updated_node.rpar)
        return updated_node.with_changes(value=cst.Name(self._module_name(module)), attr=cst.Name(name))

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        if len(original_node.body) != 1 or not isinstance(original_node.body[0], cst.ImportFrom):
            return updated_node
        node = original_node.body[0]
        module = cst.helpers.get_full_name_for_node(node.module) if node.module else ""
        if not module or module.split(".")[0] != "adacsl" or isinstance(node.names, cst.ImportStar):
            return updated_node
        groups: dict[tuple[str, str, str], None] = {}
        for alias in node.names:
            name = alias.name.value
            local = alias.asname.name.value if alias.asname else name
            if self.moves.is_module(module, name):
                new_modules = self.modules.get(local) or {self.moves.moved(f"{module}.{name}")}
                for new in sorted(new_modules):
                    if not self.is_home(new):
                        package, _, last = new.rpartition(".")
                        groups[package, last, self._module_name(new)] = None
                continue
            new_module, new_name = self.moves.place(module, name)
            if self.is_home(new_module):
                continue
            groups[
                new_module, new_name, self._local_name(local, alias.asname is not None, new_module, new_name, name)
            ] = None
        if [(m, n, loc) for m, n, loc in groups] == [
            (module, a.name.value, a.asname.name.value if a.asname else a.name.value) for a in node.names
        ]:
            return updated_node
        if not groups:
            return cst.RemovalSentinel.REMOVE
        if isinstance(self.get_metadata(ScopeProvider, original_node, None), GlobalScope):
            groups = {key: None for key in groups if key not in self.emitted}
            self.emitted |= set(groups)
            if not groups:
                return cst.RemovalSentinel.REMOVE
        by_module: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for new_module, new_name, local in groups:
            by_module[new_module].append((new_name, local))
        lines = []
        for new_module, names in by_module.items():
            words = ", ".join(n if n == loc else f"{n} as {loc}" for n, loc in names)
            line = cst.parse_statement(f"from {new_module} import {words}")
            lines.append(line.with_changes(trailing_whitespace=updated_node.trailing_whitespace))
        lines[0] = lines[0].with_changes(leading_lines=updated_node.leading_lines)
        return cst.FlattenSentinel(lines)

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        if not updated_node.body:
            return updated_node.with_changes(body=[cst.parse_statement("pass")])
        return updated_node

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        names = []
        for alias in updated_node.names:
            full = cst.helpers.get_full_name_for_node(alias.name)
            new = self.moves.moved(full) if full else full
            names.append(alias if new == full else alias.with_changes(name=cst.parse_expression(new)))
        return updated_node.with_changes(names=names)


DOTTED = re.compile(r"\badacsl((?:\.[A-Za-z_]\w*)+)((?::[A-Za-z_]\w*)?)")
FILE = re.compile(r"\badacsl/([a-z_/]+)\.py\b")


def rewrite_text(text: str, moves: Moves) -> str:
    """Return text in which dotted names and paths of files are the new ones."""

    def dotted(match: re.Match[str]) -> str:
        parts = ["adacsl", *match[1].lstrip(".").split(".")]
        colon = match[2]
        for n in range(len(parts), 1, -1):
            module = ".".join(parts[:n])
            if module not in moves.sources or moves.kept_package(module):
                continue
            rest = parts[n:] or ([colon[1:]] if colon else [])
            defined = rest and rest[0] in moves.sources[module].defined
            new, name = moves.place(module, rest[0]) if defined else (moves.moved(module), rest[0] if rest else "")
            if new == module and (not rest or name == rest[0]):
                return match[0]
            tail = [name, *rest[1:]] if rest else []
            if colon and not parts[n:]:
                return f"{new}:{name}"
            return ".".join([new, *tail]) + colon
        return match[0]

    def file(match: re.Match[str]) -> str:
        module = "adacsl." + match[1].replace("/", ".")
        return f"adacsl/{moves.moved(module)[7:].replace('.', '/')}.py"

    return FILE.sub(file, DOTTED.sub(dotted, text))


def is_type_checking(node: cst.BaseStatement | cst.SimpleStatementLine) -> bool:
    """Return whether a statement is ``if TYPE_CHECKING:``."""
    return isinstance(node, cst.If) and isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING"


def is_import(node: Any) -> bool:
    """Return whether a statement imports, and nothing else."""
    return isinstance(node, cst.SimpleStatementLine) and all(
        isinstance(n, cst.Import | cst.ImportFrom) for n in node.body
    )


def is_import_block(node: Any) -> bool:
    """Return whether a statement is ``with requires(...):`` and imports."""
    return isinstance(node, cst.With) and all(is_import(inner) for inner in node.body.body)


def is_text(node: Any) -> bool:
    """Return whether a statement is a string by itself."""
    return (
        isinstance(node, cst.SimpleStatementLine)
        and len(node.body) == 1
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def names_bound(node: Any) -> list[str]:
    """Return the names that a statement at the top defines."""
    return bound_names(ast.parse(cst.Module([node]).code).body[0]) if not is_import(node) else []


@dataclass
class Parts:
    """Statements of one new module."""

    docstrings: list[str] = field(default_factory=list)
    olds: list[str] = field(default_factory=list)
    imports: list[Any] = field(default_factory=list)
    checking: list[Any] = field(default_factory=list)
    blocks: list[Any] = field(default_factory=list)
    body: list[Any] = field(default_factory=list)
    exported: list[str] = field(default_factory=list)


def exported_names(node: Any) -> list[str] | None:
    """Return the names in ``__all__ = [...]``."""
    tree = ast.parse(cst.Module([node]).code).body
    if tree and isinstance(tree[0], ast.Assign) and getattr(tree[0].targets[0], "id", "") == "__all__":
        return [str(e.value) for e in tree[0].value.elts]  # type: ignore[attr-defined]
    return None


def divide(module: cst.Module, old: str, moves: Moves, parts: dict[str, Parts]) -> None:
    """Give each statement of a rewritten module to the new module it belongs to."""
    home = moves.moved(old)
    renamed = {new: name for (m, name), new in moves.rename.items() if m == old}
    imports, checking, blocks, target, homes = [], [], [], home, {home}
    for position, node in enumerate(module.body):
        if position == 0 and is_text(node):
            parts[home].docstrings.append(ast.get_docstring(moves.sources[old].tree) or "")
        elif is_import(node):
            if "__future__" not in cst.Module([node]).code:
                imports.append(node)
        elif is_type_checking(node):
            checking.extend(node.body.body)
        elif is_import_block(node):
            blocks.append(node)
        elif (names := exported_names(node)) is not None:
            here = [moves.place(old, name) for name in names if name in moves.sources[old].defined]
            for new, name in here:
                parts[new].exported.append(name)
        else:
            if not is_text(node):
                bound = [renamed.get(n, n) for n in names_bound(node)]
                found = {moves.symbols.get((old, n), home) for n in bound} or {home}
                if len(found) > 1:
                    raise SystemExit(f"{old}: one statement defines names that go to {found}")
                target = found.pop()
            parts[target].body.append(node)
            homes.add(target)
    for new in homes:
        parts[new].olds.append(old)
        parts[new].imports += imports
        parts[new].blocks += blocks
        parts[new].checking += [n for n in checking if cst.Module([n]).code.strip() != "pass"]


def assemble(new: str, parts: Parts, moves: Moves) -> str:
    """Return the source of a new module."""
    first = moves.docstrings.get(new) or next((d.split("\n")[0] for d in parts.docstrings), "")
    rest = [d.split("\n", 1)[1].strip("\n") for d in parts.docstrings if "\n" in d]
    quote = 'r"""' if any("\\" in d for d in rest) else '"""'
    lines = [quote + "\n\n".join([first, *rest]) + ("\n" if rest else "") + '"""\n\n']
    lines.append("from __future__ import annotations\n\n")
    seen: dict[str, None] = {}
    for node in parts.imports:
        seen[cst.Module([node]).code.strip("\n")] = None
    lines += [text + "\n" for text in seen]
    if parts.checking:
        inner: dict[str, None] = {}
        for node in parts.checking:
            inner[cst.Module([node]).code.strip("\n")] = None
        lines.append("\nif TYPE_CHECKING:\n" + "".join(f"    {text}\n" for text in inner))
    written: dict[str, dict[str, None]] = {}
    for node in parts.blocks:
        header, *inner = cst.Module([node]).code.strip("\n").split("\n")
        written.setdefault(header, {}).update(dict.fromkeys(inner))
    lines += ["\n" + "\n".join([header, *inner]) + "\n" for header, inner in written.items()]
    if parts.exported:
        lines.append(f"\n__all__ = {sorted(set(parts.exported))!r}\n")
    lines.append("\n\n" + cst.Module(parts.body).code)
    text = "".join(lines)
    missing = "".join(f"from {module} import {name}\n" for module, name in needed(new, text, parts.olds, moves))
    return text.replace("from __future__ import annotations\n\n", f"from __future__ import annotations\n\n{missing}", 1)


def needed(new: str, text: str, olds: list[str], moves: Moves) -> Iterator[tuple[str, str]]:
    """Yield the imports that statements need which have left the module of what they use."""
    tree = ast.parse(text)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    bound = {name for node in tree.body for name in bound_names(node)}
    for node in top_imports(tree.body):
        bound |= {(a.asname or a.name).split(".")[0] for a in node.names}
    for name in sorted(used - bound):
        for old in olds:
            source = moves.sources[old]
            original = next((n for (m, n), now in moves.rename.items() if m == old and now == name), name)
            if original in source.defined or original in source.imported:
                module, now = moves.place(old, original)
                if module != new and now == name:
                    yield module, name
                break


def in_order(olds: list[str], moves: Moves) -> list[str]:
    """Return old modules so that what defines a name comes before what imports it."""
    done: list[str] = []

    def visit(old: str, above: tuple[str, ...] = ()) -> None:
        if old in done or old in above or old not in moves.sources:
            return
        for module, name in moves.sources[old].imported.values():
            for other in olds:
                if other != old and other in (module, f"{module}.{name}"):
                    visit(other, (*above, old))
        done.append(old)

    for old in olds:
        visit(old)
    return done


def collisions(moves: Moves) -> Iterator[str]:
    """Yield names that two modules which become one both use, for different things."""
    for new, olds in moves.order.items():
        seen: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for old in olds:
            source = moves.sources.get(old)
            if source is None:
                continue
            for name in source.defined:
                if name != "__all__" and moves.symbols.get((old, name), new) == new:
                    seen[moves.rename.get((old, name), name)].add(("defined", old))
            for node in top_imports(source.tree.body):
                if isinstance(node, ast.ImportFrom) and not str(node.module).startswith("adacsl"):
                    for alias in node.names:
                        seen[alias.asname or alias.name].add((f"imported {node.module}.{alias.name}", ""))
            for local, (module, name) in source.imported.items():
                place = moves.place(module, name)
                if place[0] == new or (place[1] == "" and place[0] == new):
                    continue
                local_now = moves.rename.get((old, local), local)
                if place[1] and local == name:
                    local_now = moves.rename.get((old, local), place[1])
                if not place[1]:
                    local_now = place[0].rsplit(".", 1)[1]
                seen[local_now].add(("imported " + ".".join(place), ""))
        for name, origins in seen.items():
            if len(origins) > 1:
                yield f"{new}: {name}: " + "; ".join(sorted(" ".join(o).strip() for o in origins))


def circles(moves: Moves) -> Iterator[str]:
    """Yield circles of imports at the top of the new modules."""
    graph: dict[str, set[str]] = defaultdict(set)
    for old, source in moves.sources.items():
        if source.path.name == "__init__.py":
            continue
        for node in source.tree.body:
            if isinstance(node, ast.If):
                continue
            for statement in top_imports([node]):
                if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("adacsl."):
                    for alias in statement.names:
                        place = moves.place(str(statement.module), alias.name)[0]
                        if place != moves.moved(old):
                            graph[moves.moved(old)].add(place)
    state: dict[str, int] = {}

    def visit(node: str, path: list[str]) -> Iterator[str]:
        state[node] = 1
        for other in sorted(graph[node]):
            if state.get(other) == 1:
                yield " -> ".join([*path[path.index(other) :], other] if other in path else [node, other])
            elif other not in state:
                yield from visit(other, [*path, other])
        state[node] = 2

    for node in sorted(graph):
        if node not in state:
            yield from visit(node, [node])


def rewritten(path: Path, moves: Moves, module: str | None) -> cst.Module:
    """Return a file with its imports rewritten."""
    wrapper = MetadataWrapper(cst.parse_module(path.read_text()), unsafe_skip_copy=True)
    return wrapper.visit(Rewriter(moves, module))


def tracked() -> list[Path]:
    """Return the files of the project that name modules."""
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / line for line in done.stdout.splitlines()]
    return [p for p in files if p.suffix in TEXTS and p.is_file() and str(p.relative_to(ROOT)) not in UNTOUCHED]


def move(moves: Moves) -> None:
    """Move everything."""
    parts: dict[str, Parts] = defaultdict(Parts)
    old_files, new_text = [], {}
    for new, olds in moves.order.items():
        for old in in_order(olds, moves):
            source = moves.sources[old]
            if source.path.name == "__init__.py":
                continue
            divide(rewritten(source.path, moves, old), old, moves, parts)
            old_files.append(source.path)
        del new
    for new, found in parts.items():
        new_text[path_of(new)] = assemble(new, found, moves)
    others = [p for p in tracked() if p.suffix == ".py" and p not in old_files]
    for path in others:
        code = path.read_text()
        if "adacsl" in code:
            module = module_of(path) if path.is_relative_to(SRC) else None
            new_text[path] = new_text.get(path) or rewritten(path, moves, module).code
    for path in old_files:
        path.unlink()
    for path, text in new_text.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for package, docstring in moves.packages.items():
        init = SRC.joinpath(*package.split("."), "__init__.py")
        if not init.parent.is_dir() or (init.exists() and len(init.read_text().splitlines()) > 1):
            continue
        init.write_text(f'"""{docstring}"""\n')
    for old, new in moves.files.items():
        if (ROOT / old).exists():
            (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / old).rename(ROOT / new)
    for path in tracked():
        text = path.read_text()
        changed = rewrite_text(text, moves)
        for old, new in moves.files.items():
            changed = changed.replace(old, new)
        if changed != text:
            path.write_text(changed)
    remove_empty(moves)


def remove_empty(moves: Moves) -> None:
    """Remove packages that hold nothing but their ``__init__``."""
    for init in sorted((SRC / "adacsl").rglob("__init__.py"), reverse=True):
        package = module_of(init)
        others = [p for p in init.parent.iterdir() if p.name not in {"__init__.py", "__pycache__"}]
        if not others and not moves.packages.get(package):
            init.unlink()
            for cached in (init.parent / "__pycache__").glob("*"):
                cached.unlink()
            (init.parent / "__pycache__").rmdir() if (init.parent / "__pycache__").exists() else None
            init.parent.rmdir()


def main() -> int:
    """Check, then move."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    moves = Moves.read(ROOT / "scripts" / "moves.toml")
    missing = [old for olds in moves.order.values() for old in olds if old not in moves.sources]
    problems = [*collisions(moves), *circles(moves)]
    sys.stdout.write("\n".join([f"{len(missing)} old modules are not here", *problems, ""]))
    if options.check or problems:
        return int(bool(problems))
    move(moves)
    ruff = str(Path(sys.executable).parent / "ruff")
    for words in (["check", "-q", "--fix", "--select", "I,F401,UP"], ["format", "-q"]):
        subprocess.run([ruff, *words, "."], cwd=ROOT, check=False)  # noqa: S603
    return 0


if __name__ == "__main__":
    sys.exit(main())
