"""Rename what is public: classes, methods by name, parameters, options; ``names.toml`` says what becomes what.

``python scripts/rename.py`` rewrites the working tree: Python files by their syntax (an argument is renamed by the
function that is called, a parameter with its uses in that function), doctests, code in strings, code blocks of
Markdown and notebooks likewise, prose where it names code. It can be run again on any branch.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import libcst as cst
from rename_calls import Calls

ROOT = Path(__file__).resolve().parent.parent
UNTOUCHED = ("CHANGELOG.md", "scripts/rename.py", "scripts/names.toml", "scripts/rename_calls.py", "scripts/golden_master.py")
TEXTS = (".py", ".md", ".toml", ".rst", ".ipynb", ".json", ".csv", ".yaml", ".yml", ".html", ".js", ".j2")


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Tell whether a path is one of these, given as globs or as folders that end with a slash."""
    return any(path.startswith(p) if p.endswith("/") else fnmatch.fnmatch(path, p) for p in patterns)


@dataclass(frozen=True)
class Rule:
    """Where one word is renamed: in which files, and as what."""

    word: str
    to: str
    paths: tuple[str, ...]
    kinds: frozenset[str]
    skip: tuple[str, ...] = ()
    callees: tuple[str, ...] = ()
    skip_callees: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    skip_bases: tuple[str, ...] = ()
    skip_functions: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Tell whether it speaks of a file."""
        return matches(path, self.paths) and not matches(path, self.skip)


@dataclass
class Names:
    """All of ``names.toml``."""

    given: Mapping[str, Any]

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules for words that mean several things."""
        lists = ("paths", "skip", "callees", "skip_callees", "bases", "skip_bases", "skip_functions", "classes")
        return [
            Rule(
                each["word"], each["to"], kinds=frozenset(each["kinds"]),
                **{name: tuple(each.get(name, ())) for name in lists},
            )
            for each in self.given["rule"]
        ]  # fmt: skip

    @cached_property
    def plain(self) -> dict[str, str]:
        """Classes and functions whose names mean nothing else."""
        return dict(self.given["symbols"])

    @cached_property
    def bound(self) -> dict[str, str]:
        """Classes and functions that are renamed where they come from the package."""
        return dict(self.given["bound"])

    @cached_property
    def words(self) -> dict[str, str]:
        """Identifiers that mean one thing wherever they stand."""
        return dict(self.given["words"])

    @cached_property
    def everywhere(self) -> re.Pattern[str]:
        """What finds names that mean one thing."""
        return re.compile(rf"(?<![\w-])({'|'.join(sorted(self.plain | self.words, key=len, reverse=True))})(?!\w)")

    def one_meaning(self, text: str) -> str:
        """Rename what means one thing, in any text."""
        return self.everywhere.sub(lambda found: (self.plain | self.words)[found[1]], text)

    @cached_property
    def texts(self) -> list[tuple[re.Pattern[str], str, tuple[str, ...], tuple[str, ...]]]:
        """Patterns for texts, with what they become, and in which files."""
        return [
            (re.compile(each["find"]), each["to"], tuple(each.get("paths", ["*"])), tuple(each.get("skip", ())))
            for each in self.given.get("text", [])
        ]

    def in_text(self, text: str, path: str) -> str:
        """Apply the patterns."""
        for pattern, to, paths, skip in self.texts:
            if matches(path, paths) and not matches(path, skip):
                text = pattern.sub(to, text)
        return text

    def method(self, name: str, *, text: bool = False) -> str:
        """Return the new name of a method; of text only names that mean nothing else."""
        if name in self.given["methods"] and not (text and name in self.given["careful_methods"]):
            return str(self.given["methods"][name])
        for pattern, to in self.given["method_patterns"]:
            if re.fullmatch(pattern, name):
                return re.sub(pattern, to, name)
        return name

    def method_text(self, text: str) -> str:
        """Rename methods in a text."""
        text = re.sub(
            r"(?<![\w./{<>:#-])[a-z]\w*(?:-[a-z0-9]+)*(?![\w/-]|\.\w)",
            lambda found: self.method(found[0], text=True), text,
        )  # fmt: skip
        text = re.sub(
            r"(--methods[ =]|--method[ =]|methods=\")([\w,-]+)",
            lambda f: f[1] + ",".join(map(self.method, f[2].split(","))), text,
        )  # fmt: skip
        return re.sub(r"`([\w-]+)`", lambda f: f"`{self.method(f[1]) if f[1] != 'focal' else f[1]}`", text)

    @cached_property
    def spans(self) -> re.Pattern[str]:
        """What finds classes of several meanings where a text shows code."""
        return re.compile(rf"(?<![\w.-])((?:~?adacsl\.[\w.]*)?)({'|'.join(self.bound)})(?![\w-])")

    def in_span(self, text: str, path: str) -> str:
        """Rename in a piece of code that stands in prose."""
        text = self.spans.sub(lambda found: found[1] + self.bound[found[2]], text)
        for rule in self.rules:
            if "span" in rule.kinds and rule.holds(path):
                text = re.sub(rf"(?<![\w.-]){rule.word}(?=(__\w+)?(=|`|$|,|\)| ))", rule.to, text)
        return text

    def prose(self, text: str, path: str) -> str:
        """Rename in prose: what stands between backticks, and what means one thing."""
        text = re.sub(r"(``?)([^`\n]+)(\1)", lambda found: found[1] + self.in_span(found[2], path) + found[3], text)
        text = re.sub(
            rf"(?<!\w)(adacsl[\w.]*[:.])({'|'.join(self.bound)})(?!\w)", lambda found: found[1] + self.bound[found[2]], text
        )
        text = self.moved_paths(self.one_meaning(text))
        return self.in_text(self.method_text(text), path)

    @cached_property
    def places(self) -> dict[str, str]:
        """Where names live that leave the top level."""
        return {name: place for place, names in self.given["places"].items() for name in names}

    def moved_paths(self, text: str) -> str:
        """Rewrite dotted names of the top level that live in packages now."""
        return re.sub(
            rf"(?<![\w.])adacsl\.({'|'.join(self.places)})(?!\w)",
            lambda found: f"{self.places[found[1]]}.{found[1]}", text,
        )  # fmt: skip


@cache
def names() -> Names:
    """Return what the file says."""
    return Names(tomllib.loads((ROOT / "scripts" / "names.toml").read_text()))


def last_name(node: cst.BaseExpression) -> str:
    """Return the last part of what is called."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return last_name(node.func) if isinstance(node, cst.Call) else ""


def code_of(node: cst.CSTNode) -> str:
    """Return the source of a node."""
    return cst.Module([]).code_for_node(node)


@dataclass
class Frame:
    """A function that is being read."""

    name: str
    params: set[str]


class Renamer(cst.CSTTransformer):
    """Renames in one file."""

    def __init__(self, path: str, bound: set[str] | None = None, package: set[str] | None = None) -> None:
        super().__init__()
        self.path, self.names = path, names()
        self.rules = [rule for rule in self.names.rules if rule.holds(path)]
        self.by_word: dict[str, list[Rule]] = {}
        for rule in self.rules:
            self.by_word.setdefault(rule.word, []).append(rule)
        self.role: dict[int, tuple[str, str]] = {}
        self.frames: list[Frame] = []
        self.bound = set() if bound is None else bound
        self.package = {"adacsl"} if package is None else package
        self.classes: list[str] = []

    # what a name is

    def visit_Module(self, node: cst.Module) -> None:
        if node.body and isinstance(node.body[0], cst.SimpleStatementLine):
            first = node.body[0].body[0]
            if isinstance(first, cst.Expr):
                self.role[id(first.value)] = ("doc", "")
        finder = _Bindings(self.names.bound, inside=self.path.startswith("src/adacsl/"))
        node.visit(finder)
        self.bound |= finder.bound
        self.package |= finder.package

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.role[id(node.attr)] = ("attr", code_of(node.value))

    def visit_Call(self, node: cst.Call) -> None:
        called = last_name(node.func)
        for arg in node.args:
            if arg.keyword is not None and arg.keyword.value in ("loss", "resample"):
                self._other(arg.value)
            if arg.keyword is not None:
                self.role[id(arg.keyword)] = ("kw", called)

        if called == "parametrize" and node.args:
            first = node.args[0].value
            if isinstance(first, cst.SimpleString) and first.raw_value in ("loss", "resample") and len(node.args) > 1:
                self._other(node.args[1].value)
            for each in [first, *(e.value for e in getattr(first, "elements", ()))]:
                if isinstance(each, cst.SimpleString):
                    self.role[id(each)] = ("argnames", "")
        elif called == "get" and node.args and isinstance(node.args[0].value, cst.SimpleString):
            self.role[id(node.args[0].value)] = ("key", "")

    def visit_SubscriptElement(self, node: cst.SubscriptElement) -> None:
        if isinstance(node.slice, cst.Index) and isinstance(node.slice.value, cst.SimpleString):
            self.role[id(node.slice.value)] = ("key", "")

    def visit_DictElement(self, node: cst.DictElement) -> None:
        if isinstance(node.key, cst.SimpleString):
            self.role[id(node.key)] = ("key", "")
        if isinstance(node.key, cst.SimpleString) and node.key.raw_value in ("loss", "resample"):
            self._other(node.value)

    def visit_Comparison(self, node: cst.Comparison) -> None:
        if re.search(r"(loss|resample)$", code_of(node.left)):
            for target in node.comparisons:
                self._other(target.comparator)

    def _other(self, node: cst.CSTNode) -> None:
        """Remember strings that are losses, not methods."""
        for found in [node, *getattr(node, "elements", ())]:
            inner = getattr(found, "value", found)
            for each in (found, inner):
                if isinstance(each, cst.SimpleString):
                    self.role[id(each)] = ("other", "")

    def visit_Param(self, node: cst.Param) -> None:
        self.role[id(node.name)] = ("param", self.frames[-1].name if self.frames else "")

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.role[id(node.name)] = ("def", "")
        self.frames.append(Frame(node.name.value, {p.name.value for p in _params(node.params)}))
        self._docstring(node.body)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.frames.pop()
        return updated_node

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.frames.append(Frame("<lambda>", {p.name.value for p in _params(node.params)}))

    def leave_Lambda(self, original_node: cst.Lambda, updated_node: cst.Lambda) -> cst.Lambda:
        self.frames.pop()
        return updated_node

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.role[id(node.name)] = ("class", "")
        self.classes.append(node.name.value)
        self._docstring(node.body)
        for statement in node.body.body:
            for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
                    self.role[id(small.target)] = ("field", "")
                elif isinstance(small, cst.Assign):
                    for target in small.targets:
                        if isinstance(target.target, cst.Name):
                            self.role[id(target.target)] = ("field", "")

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self.classes.pop()
        return updated_node

    def _docstring(self, body: cst.BaseSuite) -> None:
        first = body.body[0] if body.body else None
        inner = first.body[0] if isinstance(first, cst.SimpleStatementLine) else None
        if isinstance(inner, cst.Expr):
            self.role[id(inner.value)] = ("doc", "")

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    # names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        word = original_node.value
        if word in self.names.plain:
            return updated_node.with_changes(value=self.names.plain[word])
        if word in self.names.words:
            return updated_node.with_changes(value=self.names.words[word])
        role, about = self.role.get(id(original_node), ("name", ""))
        if word in self.names.bound:
            of_package = role == "attr" and about.split(".")[0] in self.package
            if of_package or (word in self.bound and role != "attr" and role != "kw"):
                return updated_node.with_changes(value=self.names.bound[word])
            return updated_node
        for rule in self.by_word.get(word, ()):
            if self._holds(rule, role, about, word):
                return updated_node.with_changes(value=rule.to)
        for rule in self.rules if role == "kw" and "__" in word else ():
            if word.startswith(f"{rule.word}__") and role == "kw" and "kw" in rule.kinds:
                return updated_node.with_changes(value=rule.to + word[len(rule.word) :])
            if role == "kw" and word.endswith(f"__{rule.word}") and "nested" in rule.kinds:
                return updated_node.with_changes(value=word[: -len(rule.word)] + rule.to)
        return updated_node

    def _in_class(self, rule: Rule) -> bool:
        return not rule.classes or bool(set(rule.classes) & set(self.classes))

    def _holds(self, rule: Rule, role: str, about: str, word: str) -> bool:
        if not self._in_class(rule):
            return False
        if role == "kw":
            if rule.skip_callees and about in rule.skip_callees:
                return False
            return "kw" in rule.kinds and (not rule.callees or about in rule.callees)
        if role == "attr":
            if rule.skip_bases and any(re.fullmatch(base, about) for base in rule.skip_bases):
                return False
            return "attr" in rule.kinds and (not rule.bases or any(re.fullmatch(base, about) for base in rule.bases))
        if any(frame.name in rule.skip_functions for frame in self.frames):
            return False
        if role == "param":
            return "param" in rule.kinds
        if role in ("field", "def"):
            return role in rule.kinds
        if role == "name":
            taken = any(word in frame.params for frame in self.frames)
            return "name" in rule.kinds or (taken and "param" in rule.kinds)
        return False

    # imports

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.FlattenSentinel[Any]:
        module = code_of(original_node.module) if original_node.module is not None else ""
        if isinstance(original_node.names, cst.ImportStar) or module.split(".")[0] not in ("adacsl", "tests", "benchmarks", "paper"):
            if not isinstance(original_node.names, cst.ImportStar):
                return updated_node.with_changes(
                    names=[a.with_changes(name=self._plain_name(a.name)) for a in original_node.names]
                )
            return updated_node
        places: dict[str, list[cst.ImportAlias]] = {}
        for alias in original_node.names:
            name = code_of(alias.name)
            bound = self.names.bound.get(name) if module.split(".")[0] in ("adacsl", "paper") else None
            new = self.names.plain.get(name) or self.names.words.get(name) or bound or name
            place = self.names.places.get(new, module) if module == "adacsl" else module
            if new in [code_of(a.name) for a in places.get(place, [])]:
                continue
            places.setdefault(place, []).append(
                cst.ImportAlias(name=cst.Name(new), asname=alias.asname)
            )
        made = []
        for number, (place, aliases) in enumerate(places.items()):
            parens = original_node.lpar, original_node.rpar
            if place == module:
                made.append(updated_node.with_changes(names=_listed(original_node, aliases)))
            else:
                made.append(cst.ImportFrom(module=cst.parse_expression(place), names=aliases))  # type: ignore[arg-type]
            del parens, number
        return made[0] if len(made) == 1 else cst.FlattenSentinel(made)

    def _plain_name(self, node: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(node, cst.Name) and node.value in self.names.plain:
            return node.with_changes(value=self.names.plain[node.value])
        return node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        if isinstance(original_node.value, cst.Name) and original_node.value.value in self.package:
            place = self.names.places.get(updated_node.attr.value)
            if place is not None:
                alias = original_node.value.value
                inner = cst.parse_expression(place.replace("adacsl", alias, 1))
                return updated_node.with_changes(value=inner)
        return updated_node

    # strings

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        kind = self.role.get(id(original_node), ("str", ""))[0]
        raw, quote, prefix = original_node.raw_value, original_node.quote, original_node.prefix
        new = self.docstring(raw) if kind == "doc" else self.string(raw, kind)
        return updated_node.with_changes(value=f"{prefix}{quote}{new}{quote}") if new != raw else updated_node

    def leave_FormattedStringText(
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        return updated_node.with_changes(value=self.text(original_node.value))

    def leave_Comment(self, original_node: cst.Comment, updated_node: cst.Comment) -> cst.Comment:
        return updated_node.with_changes(value=self.names.prose(original_node.value, self.path))

    def string(self, raw: str, kind: str = "str") -> str:
        """Rename in a string that is no docstring."""
        if kind == "argnames":
            return ", ".join(self._argname(word.strip()) for word in raw.split(","))
        if raw in self.names.words:
            return self.names.words[raw]
        if kind != "other" and self.names.method(raw) != raw:
            careful = raw in self.names.given["careful_strings"] and matches(self.path, self.names.given["careful_in"])
            return raw if careful else self.names.method(raw)
        if raw in self.names.bound and matches(self.path, self.names.given["bound_strings"]):
            return self.names.bound[raw]
        for rule in self.rules:
            if not self._in_class(rule):
                continue
            if raw == rule.word and ("str" in rule.kinds or (kind == "key" and "key" in rule.kinds)):
                return rule.to
            if "str" in rule.kinds and raw.startswith(f"{rule.word}__"):
                return rule.to + raw[len(rule.word) :]
            if "nested" in rule.kinds and raw.endswith(f"__{rule.word}"):
                return raw[: -len(rule.word)] + rule.to
        if re.search(r"\badacsl\b", raw) and re.search(r"(^|[\n; ])(import|from) adacsl", raw):
            new = as_code(raw, self.path)
            if new is not None:
                return self.names.method_text(new)
        return self.text(raw)

    def _argname(self, word: str) -> str:
        if word in self.names.words:
            return self.names.words[word]
        found = [rule.to for rule in self.rules if rule.word == word and {"argnames", "param"} & rule.kinds]
        return found[0] if found and not self.classes else word

    def text(self, raw: str) -> str:
        """Rename in text that is shown or searched for."""
        raw = re.sub(
            rf"(adacsl[\w.]*[:.])({'|'.join(self.names.bound)})(?!\w)",
            lambda found: found[1] + self.names.bound[found[2]], raw,
        )  # fmt: skip
        raw = re.sub(rf"(?<![\w.])({'|'.join(self.names.bound)})(?=\()", lambda f: self.names.bound[f[1]], raw)
        for rule in self.rules:
            if "text" in rule.kinds and self._in_class(rule):
                raw = re.sub(rf"(?<![\w.-]){rule.word}(?=__\w|=| must\b)", rule.to, raw)
        return self.names.prose(raw, self.path)

    def docstring(self, raw: str) -> str:
        """Rename in a docstring: parameters, code, doctests."""
        lines = raw.split("\n")
        parameters = {rule.word: rule.to for rule in self.rules if "doc" in rule.kinds and self._in_class(rule)}
        if parameters:
            word = re.compile(rf"(?<![\w.-])({'|'.join(parameters)})(?!\w)")
            for number, line in enumerate(lines):
                header = re.match(r"^(\s+)((?:\*{0,2}\w+_?)(?:, \*{0,2}\w+_?)*)( : .*)?$", line)
                if header and number + 1 < len(lines) and _deeper(line, lines[number + 1]):
                    changed = word.sub(lambda f: parameters[f[1]], header[2])
                    lines[number] = header[1] + changed + (header[3] or "")
        blocks = _doctests(lines)
        text, last = [], 0
        for first, end in blocks:
            text.append(self._doc_prose("\n".join(lines[last:first])))
            text.append(doctest("\n".join(lines[first:end]), self.path, self.bound))
            last = end
        text.append(self._doc_prose("\n".join(lines[last:])))
        return "\n".join(text)

    def _doc_prose(self, text: str) -> str:
        for rule in self.rules:
            if "doc" in rule.kinds and self._in_class(rule):
                text = re.sub(
                    r"``([^`\n]+)``",
                    lambda found, rule=rule: re.sub(rf"(?<![\w.-]){rule.word}(?!\w)", rule.to, found[0]), text,
                )  # fmt: skip
        return self.names.prose(text, self.path)


def _listed(node: cst.ImportFrom, aliases: list[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """Return names for an import, one line; a formatter breaks what is too long."""
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [a.with_changes(comma=comma) for a in aliases[:-1]] + [aliases[-1]]


def _params(params: cst.Parameters) -> list[cst.Param]:
    some = [*params.posonly_params, *params.params, *params.kwonly_params]
    some += [params.star_kwarg] if params.star_kwarg is not None else []
    return [*some, *([params.star_arg] if isinstance(params.star_arg, cst.Param) else [])]


def _deeper(line: str, other: str) -> bool:
    return bool(other.strip()) and len(other) - len(other.lstrip()) > len(line) - len(line.lstrip())


class _Bindings(cst.CSTVisitor):
    """Finds names that come from the package."""

    def __init__(self, wanted: Iterable[str], *, inside: bool) -> None:
        super().__init__()
        self.wanted, self.inside = set(wanted), inside
        self.bound: set[str] = set()
        self.package: set[str] = {"adacsl"}

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar) or node.module is None:
            return
        if code_of(node.module).split(".")[0] in ("adacsl", "paper"):
            self.bound |= {code_of(a.name) for a in node.names} & self.wanted

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            if code_of(alias.name) == "adacsl" and alias.asname is not None:
                self.package.add(code_of(alias.asname.name))

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        if self.inside and node.name.value in self.wanted:
            self.bound.add(node.name.value)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            if self.inside and isinstance(target.target, cst.Name) and target.target.value in self.wanted:
                self.bound.add(target.target.value)


def _doctests(lines: list[str]) -> list[tuple[int, int]]:
    """Return where doctests are, as first line and the line after."""
    found, number = [], 0
    while number < len(lines):
        if lines[number].lstrip().startswith(">>>"):
            first = number
            while number < len(lines) and lines[number].lstrip().startswith((">>>", "...")):
                number += 1
            found.append((first, number))
        else:
            number += 1
    return found


def doctest(block: str, path: str, bound: set[str]) -> str:
    """Rename in the lines of a doctest."""
    lines = block.split("\n")
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    marks = [line.lstrip()[:3] for line in lines]
    code = "\n".join(line.lstrip()[4:] for line in lines)
    new = as_code(code, path, bound | set(names().bound))
    if new is None or new == code:
        return block
    changed = new.rstrip("\n").split("\n")
    if len(changed) != len(marks):
        marks = ["..." if line.startswith((" ", ")")) else ">>>" for line in changed]
    return "\n".join(f"{indent}{mark} {line}".rstrip() for mark, line in zip(marks, changed, strict=True))


def as_code(text: str, path: str, bound: set[str] | None = None) -> str | None:
    """Return a text with its names changed, if it is Python; else None."""
    indent = re.match(r"\n?([ \t]*)", text)
    shift = indent[1] if indent else ""
    lines = text.split("\n")
    cut = "\n".join(line[len(shift) :] if line.startswith(shift) else line for line in lines)
    try:
        module = cst.parse_module(cut)
    except Exception:  # noqa: BLE001  not Python
        return None
    new = transform(module, path, bound)
    if new == cut:
        return text
    return "\n".join(shift + line if line.strip() else line for line in new.split("\n")) if shift else new


def transform(module: cst.Module, path: str, bound: set[str] | None = None) -> str:
    """Return the source of a module with its names changed."""
    if re.search(r"AdaptiveCostClassifier|AdaCSLBoostingClassifier|\b(net|trainer)=", module.code):
        module = module.visit(Calls(path, names().given))
    return module.visit(Renamer(path, set(bound or ()))).code


# texts


FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<ticks>```+|:::+)(?P<about>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks)[ \t]*$", re.M | re.S)


def markdown(text: str, path: str) -> str:
    """Rename in Markdown: code blocks as Python where they are, the rest as prose."""
    parts, last = [], 0
    for found in FENCE.finditer(text):
        parts.append(names().prose(text[last : found.start()], path))
        about, body = found["about"].strip(), found["body"]
        if "python" in about or about.startswith("{code-cell"):
            body = python_block(body, path)
        else:
            body = names().prose(body, path)
        start = text[found.start() : found.start("body")]
        parts.append(start + body + text[found.end("body") : found.end()])
        last = found.end()
    parts.append(names().prose(text[last:], path))
    return "".join(parts)


def python_block(body: str, path: str) -> str:
    """Rename in a code block: Python, or a session with prompts."""
    if ">>>" in body:
        lines = body.split("\n")
        blocks, last, out = _doctests(lines), 0, []
        for first, end in blocks:
            out += [names().prose("\n".join(lines[last:first]), path)] if first > last else []
            out.append(doctest("\n".join(lines[first:end]), path, set()))
            last = end
        out += ["\n".join(lines[last:])]
        return "\n".join(out)
    new = as_code(body, path, set(names().bound))
    return names().prose(body, path) if new is None else names().in_text(names().method_text(new), path)


def notebook(text: str, path: str) -> str:
    """Rename in a notebook."""
    book = json.loads(text)
    for cell in book["cells"]:
        source = "".join(cell["source"]) if isinstance(cell["source"], list) else cell["source"]
        new = python_block(source, path) if cell["cell_type"] == "code" else markdown(source, path)
        if new != source:
            cell["source"] = new.splitlines(keepends=True) if isinstance(cell["source"], list) else new
        for output in cell.get("outputs", []):
            _each_text(output, lambda value: names().prose(value, path))
    return json.dumps(book, indent=1, ensure_ascii=False) + ("\n" if text.endswith("\n") else "")


def _each_text(value: Any, change: Callable[[str], str]) -> None:
    """Change the texts inside lists and dicts, but no pictures."""
    items: Iterator[tuple[Any, Any]] = iter(value.items() if isinstance(value, dict) else enumerate(value))
    for key, inner in list(items):
        if isinstance(inner, str):
            if not str(key).startswith("image/"):
                value[key] = change(inner)
        elif isinstance(inner, dict | list):
            _each_text(inner, change)


def renamed(path: str, text: str) -> str:
    """Return a file's text with its names changed."""
    if path == "src/adacsl/__init__.py":
        return text  # it is written anew
    if path.endswith(".py"):
        return transform(cst.parse_module(text), path)
    if path.endswith(".ipynb"):
        return notebook(text, path)
    if path.endswith(".md"):
        return markdown(text, path)
    if matches(path, names().given["results"]):
        return results(path, text)
    return names().prose(text, path)


# results that were measured


def results(path: str, text: str) -> str:
    """Rename methods and fields of results; their commands are history."""
    del path
    if text.lstrip().startswith(("{", "[")):
        lines = [line if '"command"' in line else json_line(line) for line in text.split("\n")]
        return "\n".join(lines)
    return re.sub(r"(?m)(?<![^,\n])[\w-]+(?=[,\n]|$)", lambda found: names().method(found[0]), text)


def json_line(line: str) -> str:
    """Rename in one line of JSON: strings that are a method, or keys."""
    known = dict(names().given["fields"])
    return re.sub(r'"([\w-]+)"', lambda found: f'"{known.get(found[1]) or names().method(found[1])}"', line)


def arrays(path: Path) -> None:
    """Rename methods in the arrays of texts of an .npz file."""
    import numpy as np  # noqa: PLC0415

    with np.load(path, allow_pickle=False) as file:
        held = {name: file[name] for name in file.files}
    new: dict[str, Any] = {}
    for name, value in held.items():
        if value.dtype.kind == "U":
            value = np.array([names().method(str(v)) for v in value.ravel()]).reshape(value.shape)
        parts = [names().method(part) for part in re.split(r"(\|)", name)]
        new["".join(parts)] = value
    if list(new) != list(held) or any(not np.array_equal(a, b) for a, b in zip(new.values(), held.values(), strict=True)):
        np.savez_compressed(path, **new)


def change(path: str) -> str | None:
    """Rewrite one file; return why not, where that fails."""
    place = ROOT / path
    try:
        if path.endswith(".npz"):
            arrays(place)
            return None
        text = place.read_text()
        new = renamed(path, text)
        for each in names().given.get("literal", []):
            if matches(path, [each["path"]]):
                new = new.replace(each["old"], each["new"])
        for each in names().given.get("pattern", []):
            if matches(path, [each["path"]]):
                new = re.sub(each["find"], each["to"], new)
        if new != text:
            place.write_text(new)
    except Exception as error:  # noqa: BLE001  the others go on
        return f"{path}: {type(error).__name__}: {str(error)[:300]}"
    return None


# what packages export


def defined(package: str) -> dict[str, str]:
    """Return where each name at the top of the modules of a package is defined."""
    import ast  # noqa: PLC0415

    folder, found = ROOT / "src" / Path(*package.split(".")), {}
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        if path.name == "__init__.py":
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = module
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    found |= {target.id: module} if isinstance(target, ast.Name) else {}
    return found


def by_module(places: Mapping[str, str], indent: str = "") -> list[str]:
    """Return imports of names from where they are defined."""
    modules = sorted(set(places.values()))
    return [
        f"{indent}from {module} import {', '.join(sorted(n for n, m in places.items() if m == module))}"
        for module in modules
    ]


def write_exports() -> list[str]:
    """Write what packages and the top level export; return names that were not found."""
    missing = []
    for package, about in names().given["exports"].items():
        init = ROOT / "src" / Path(*package.split(".")) / "__init__.py"
        known: dict[str, str] = {}
        for source in about.get("from", [package]):
            known = defined(source) | known
        places = {name: known[name] for name in about["names"] if name in known}
        missing += [f"{package}.{name} is defined nowhere" for name in about["names"] if name not in known]
        init.write_text(package_init(package, init.read_text(), places, about))
    return missing


def exported(text: str) -> dict[str, str]:
    """Return what an ``__init__`` exports already, and from where."""
    import ast  # noqa: PLC0415

    tree = ast.parse(text)
    nodes = [*tree.body, *(n for each in tree.body if isinstance(each, ast.If) for n in each.body)]
    found = [n for n in nodes if isinstance(n, ast.ImportFrom) and str(n.module).startswith("adacsl.")]
    return {a.name: str(n.module) for n in found for a in n.names if a.name not in ("requires", "lazy_exports")}


def package_init(package: str, old: str, places: Mapping[str, str], about: Mapping[str, Any]) -> str:
    """Return the source of a package's ``__init__``: names that are imported when first asked for."""
    if package != "adacsl":
        places = exported(old) | places
    docstring = cst.parse_module(old).get_docstring(clean=False) or package
    listed = "".join(f"    {name!r},\n" for name in sorted([*places, *about.get("also", [])]))
    if package != "adacsl":
        lines = [f'"""{docstring}"""', "", "from typing import TYPE_CHECKING", "", "from adacsl.base.extras import lazy_exports", ""]
        lines += ["if TYPE_CHECKING:", *by_module(places, "    "), "", "_PLACES = {"]
        lines += [f"    {name!r}: {module!r}," for name, module in sorted(places.items())]
        lines += ["}", "", f"__all__ = [\n{listed}]", ""]
        lines += [f"__getattr__, __dir__ = lazy_exports(__name__, _PLACES, {about['extra']!r})", ""]
        return "\n".join(lines)
    version = re.search(r'^__version__ = .*$', old, re.MULTILINE)
    eager = {name: place for name, place in places.items() if name in about["eager"]}
    lazy = {name: place for name, place in places.items() if name not in about["eager"]}
    extra = {name: extra for extra, some in about["extras"].items() for name in some}
    lines = [f'"""{docstring}"""', "", "from typing import TYPE_CHECKING, Any", "", *by_module(eager)]
    lines += ["from adacsl.base.extras import requires", "", "if TYPE_CHECKING:", *by_module(lazy, "    ")]
    lines += ["", version[0] if version else "", "", "# where a name lives that needs a framework, and the extra that brings it"]
    lines += ["_LAZY = {", *(f"    {n!r}: ({place!r}, {extra[n]!r})," for n, place in sorted(lazy.items())), "}", ""]
    lines += [f"_PACKAGES = {tuple(about['packages'])!r}", "", f"__all__ = [\n{listed}]", "", "", TOP_LEVEL]
    return "\n".join(lines)


TOP_LEVEL = '''def __getattr__(name: str) -> Any:
    import importlib  # noqa: PLC0415

    if name in _PACKAGES:
        return importlib.import_module(f"adacsl.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'adacsl' has no attribute {name!r}")
    module, extra = _LAZY[name]
    with requires(extra):
        return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_PACKAGES})
'''


def tracked() -> list[str]:
    """Return the files that may hold names."""
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [line for line in done.stdout.splitlines() if (ROOT / line).is_file() and not (ROOT / line).is_symlink()]
    chosen = [p for p in files if p.endswith(TEXTS) or matches(p, names().given["archives"])]
    return [p for p in chosen if not matches(p, UNTOUCHED) and not matches(p, names().given["untouched"])]


# long lines


def wrap(path: Path) -> None:
    """Break lines that have become too long: prose, doctests, and strings that stand alone."""
    lines = path.read_text().split("\n")
    prose = _string_lines(path)
    number = 0
    while number < len(lines):
        line = lines[number]
        if len(line) > WIDTH and number not in prose and line.endswith("# fmt: skip"):
            lines[number] = line.removesuffix("# fmt: skip").rstrip()
        elif len(line) > WIDTH:
            pieces = _broken(line, inside=number in prose) or _code_broken(lines, number)
            if pieces is not None:
                first, rest = pieces
                indent = line[: len(line) - len(line.lstrip())]
                after = lines[number + 1] if number + 1 < len(lines) else ""
                joins = number in prose and number + 1 in prose and _goes_on(after, indent) and not line.lstrip().startswith(">>>")
                lines[number] = first
                if joins:
                    lines[number + 1] = f"{indent}{rest.strip()} {after.strip()}"
                else:
                    lines.insert(number + 1, rest)
                    prose = {n + (n > number) for n in prose} | ({number + 1} if number in prose else set())
        number += 1
    path.write_text("\n".join(lines))


WIDTH = 120


def _string_lines(path: Path) -> set[int]:
    """Return the lines that lie in strings of several lines."""
    import tokenize  # noqa: PLC0415

    with path.open("rb") as file:
        tokens = [t for t in tokenize.tokenize(file.readline) if t.type == tokenize.STRING and t.start[0] != t.end[0]]
    return {n - 1 for token in tokens for n in range(token.start[0], token.end[0] + 1)}


def _goes_on(line: str, indent: str) -> bool:
    """Tell whether a line of prose continues the one before."""
    text = line.strip()
    alike = line[: len(line) - len(line.lstrip())] == indent and bool(text)
    return alike and not re.match(r"(>>>|\.\.\. |[-*] |\"\"\"|\.\. |:\w|\w+(, \w+)* : )", text)


def _broken(line: str, *, inside: bool) -> tuple[str, str] | None:
    """Return a line in two, or None where it cannot be broken."""
    indent = line[: len(line) - len(line.lstrip())]
    text = line.lstrip()
    if inside and text.startswith((">>>", "...")):
        cut = line.rfind(", ", 0, WIDTH - 1)
        return None if cut < 0 else (line[: cut + 1], f"{indent}...     {line[cut + 2 :]}")
    if inside and not text.startswith('\"\"\"'):
        cut = line.rfind(" ", 0, WIDTH + 1)
        return None if cut <= len(indent) else (line[:cut], indent + line[cut + 1 :])
    if text.startswith("# "):
        cut = line.rfind(" ", 0, WIDTH + 1)
        return None if cut <= len(indent) + 2 else (line[:cut], f"{indent}# {line[cut + 1 :]}")
    alone = re.fullmatch(r"(\s*)([fr]?)\"((?:[^\"\\]|\\.)*)\"([,)\]]*)", line)
    if alone and not inside:
        cut = line.rfind(" ", 0, WIDTH - 2)
        if cut > len(indent) + 10 and line.count("{", 0, cut) == line.count("}", 0, cut):
            return f'{line[: cut + 1]}"', f'{indent}{alone[2]}"{line[cut + 1 :]}'
    return None


def _code_broken(lines: list[str], number: int) -> tuple[str, str] | None:
    """Return a line of code in two: inside a string that crosses the width, or behind a comma, within brackets."""
    import io  # noqa: PLC0415
    import tokenize  # noqa: PLC0415

    tokens, depth, comma = [], 0, -1
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            if token.start[0] == number + 1:
                tokens.append((token, depth))
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
    except tokenize.TokenError:
        return None
    line = lines[number]
    indent = line[: len(line) - len(line.lstrip())]
    for token, at in tokens:
        first, last = token.start[1], token.end[1]
        if token.type == tokenize.COMMENT and first <= WIDTH:
            return None
        if token.string == "," and last <= WIDTH and at > 0 and tokens[0][1] > 0:
            comma = last
        if token.type == tokenize.STRING and at > 0 and first < WIDTH - 12 and last > WIDTH and token.start[0] == token.end[0]:
            found = re.match(r"([a-zA-Z]*)(\"|')", token.string)
            cut = line.rfind(" ", first, WIDTH - 2)
            head = line[first : cut + 1]
            whole = found is not None and not token.string[len(found[1]) :].startswith(('\"\"\"', "\'\'\'"))
            if whole and cut > first + 8 and head.count("{") == head.count("}") and not head.endswith("\\"):
                mark = found[2] if found else '"'
                prefix = found[1] if found else ""
                return f"{line[: cut + 1]}{mark}", f"{indent}{prefix}{mark}{line[cut + 1 :]}"
    return (line[:comma], indent + line[comma:].lstrip()) if comma > len(indent) + 1 else None


def unmatched() -> list[str]:
    """Return literal replacements that found nothing, where what they should give is not there either."""
    return [
        f"no {each['old'][:60]!r} in {each['path']}"
        for each in names().given.get("literal", [])
        if not any(each["new"] in (ROOT / path).read_text() for path in tracked() if matches(path, [each["path"]]))
    ]


def main() -> int:
    """Rename everything, or the files that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    sys.setrecursionlimit(10_000)
    files = options.files or tracked()
    with ProcessPoolExecutor(options.jobs) as pool:
        problems = [why for why in pool.map(change, files, chunksize=8) if why]
    for file in names().given.get("moved_files", []):
        if (ROOT / file["old"]).exists():
            (ROOT / file["old"]).rename(ROOT / file["new"])
    renamed_files = ROOT / "scripts" / "renamed"
    for source in sorted(p for p in renamed_files.rglob("*") if p.is_file()):
        place = ROOT / source.relative_to(renamed_files)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(source.read_text())
    problems += write_exports() + unmatched()
    ruff = str(Path(sys.executable).parent / "ruff")
    for words in (["check", "-q", "--fix", "--select", "I,F401,UP,RUF022"], ["format", "-q"]):
        subprocess.run([ruff, *words, "."], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)  # noqa: S603
    for path in sorted({*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("paper/*.py")}):
        if any(len(line) > WIDTH for line in path.read_text().split("\n")):
            wrap(path)
    for each in names().given.get("after", []):
        for path in ROOT.glob(each["path"]):
            text = path.read_text()
            changed = re.sub(each["find"], each["to"], text)
            if changed != text:
                path.write_text(changed)
    for words in (["format", "-q"], ["check", "-q", "--fix", "--fixable", "RUF100,RUF022"]):
        subprocess.run([ruff, *words, "."], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)  # noqa: S603
    sys.stdout.write("\n".join([*problems, f"{len(files)} files, {len(problems)} problems", ""]))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
