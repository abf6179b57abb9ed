"""Every public object has a page in the API reference, and a docstring that states all of it."""

from __future__ import annotations

import ast
import builtins
import doctest
import functools
import importlib.util
import inspect
import os
import re
import textwrap
import typing
from pathlib import Path

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("api_reference", ROOT / "docs/api_reference.py")
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)

PACKAGES = (
    "adacsl", "adacsl.adaptive", "adacsl.comparison", "adacsl.costs", "adacsl.datasets", "adacsl.decision",
    "adacsl.ensemble", "adacsl.estimators", "adacsl.learners", "adacsl.metrics", "adacsl.monitoring", "adacsl.neural",
    "adacsl.report", "adacsl.thresholds", "adacsl.torch", "adacsl.integrations.catboost", "adacsl.integrations.keras",
    "adacsl.integrations.lightgbm", "adacsl.integrations.lightning", "adacsl.integrations.mlflow",
    "adacsl.integrations.sklearn", "adacsl.integrations.skorch", "adacsl.integrations.torchmetrics",
    "adacsl.integrations.transformers", "adacsl.integrations.xgboost",
)  # fmt: skip
SECTIONS = (
    "Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "See Also", "Notes", "References", "Examples",
)  # fmt: skip
HEADING = re.compile(rf"^({'|'.join(SECTIONS)})\n-+$", re.MULTILINE)
ENTRY = re.compile(r"^([*\w][^:\n]*?)(?: : (.+))?$", re.MULTILINE)
NOTHING = (None, "None", type(None), inspect.Signature.empty)
CODE_WIDTH = 88


# reading docstrings


def doc_of(thing) -> str:
    """Return an own docstring, not that of a base class from elsewhere."""
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def sections_of(text: str) -> dict[str, str]:
    """Return the parts of a numpydoc docstring by heading; "" is what precedes them."""
    parts = HEADING.split(text)
    return {"": parts[0].strip(), **dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))}


def entries_of(section: str) -> list[tuple[str, str, str]]:
    """Return (name, type, description) of the entries of a section; ``a, b : int`` are two."""
    found = [m for m in ENTRY.finditer(section) if not m[0].startswith(" ")]
    ends = [*(m.start() for m in found[1:]), len(section)]
    return [
        (name.strip(), (m[2] or "").strip(), textwrap.dedent(section[m.end() : end]).strip())
        for m, end in zip(found, ends, strict=False)
        for name in m[1].split(",")
    ]


# what a docstring must say


def parameters_of(function) -> list[str]:
    """Return the names of a signature, without self and cls; none of a constructor that is a framework's."""
    if inspect.isclass(function) and not any(
        "__init__" in vars(base) or hasattr(base, "_fields") for base in function.__mro__ if "adacsl" in base.__module__
    ):
        return []
    return [
        name
        for i, (name, parameter) in enumerate(inspect.signature(function).parameters.items())
        if not (i == 0 and name in {"self", "cls"}) and not name.startswith("_")
    ]


def default_faults(function, section: str) -> list[str]:
    """Return which types do not name the default of the signature: ``int, default 1``, or ``optional`` for None."""
    types = {name.lstrip("*"): kind for name, kind, _ in entries_of(section)}
    faults = []
    for name, parameter in inspect.signature(function).parameters.items():
        default, kind = parameter.default, types.get(name, "")
        if default is parameter.empty or name not in types or name.startswith("_"):
            continue
        named = re.search(r"(?:^|, )default:? (.+)$", kind)
        if default is None:
            right = "optional" in kind or (named is not None and named[1] == "None")
        elif type(default) in {str, bool, int, float, tuple}:
            try:
                right = named is not None and eval(named[1], {}) == default  # noqa: S307
            except (NameError, SyntaxError):
                right = False
        else:
            right = "optional" in kind or named is not None
        if not right:
            faults.append(f"the type of {name} does not say the default {default!r}: {kind!r}")
    return faults


def summary_faults(text: str) -> list[str]:
    first, _, rest = text.partition("\n")
    if not first:
        return ["has no docstring"]
    faults = []
    if not first.endswith("."):
        faults.append("the summary is not one line that ends with a full stop")
    if rest and not rest.startswith("\n"):
        faults.append("no empty line follows the summary")
    return faults


def entry_faults(names: list[str], section: str, heading: str = "Parameters") -> list[str]:
    entries = entries_of(section)
    documented = [name.lstrip("*") for name, *_ in entries]
    if documented != names:
        return [f"{heading} are {documented}, the signature has {names}"]
    empty = [name for name, _, description in entries if not description]
    untyped = [name for name, kind, _ in entries if not kind and not name.startswith("*")]
    return [f"{name} has no description" for name in empty] + [f"{name} has no type" for name in untyped]


def example_faults(section: str) -> list[str]:
    """Return what an example lacks to be copied from the page, and its lines that are wider than a box of code."""
    wide = [line for line in section.splitlines() if len(line) > CODE_WIDTH]
    runs = [each.source for each in doctest.DocTestParser().get_examples(section) if doctest.SKIP not in each.options]
    known, used = set(dir(builtins)), []
    for node in ast.walk(ast.parse("".join(runs))):
        match node:
            case ast.Name(name, ast.Load()):
                used.append(name)
            case ast.Name(name):
                known.add(name)
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.arg(name):
                known.add(name)
            case ast.Import(names) | ast.ImportFrom(names=names):
                known |= {(each.asname or each.name).partition(".")[0] for each in names}
    unknown = [name for name in dict.fromkeys(used) if name not in known]
    faults = [f"its example does not import {', '.join(unknown)}"] if unknown else []
    return faults + [f"its example is wider than {CODE_WIDTH} characters: {line}" for line in wide]


def returns_something(function) -> bool:
    kind = inspect.signature(function).return_annotation
    return kind not in NOTHING


def function_faults(function, *, example: bool) -> list[str]:
    text = doc_of(function)
    sections = sections_of(text)
    faults = summary_faults(text) + entry_faults(parameters_of(function), sections.get("Parameters", ""))
    faults += default_faults(function, sections.get("Parameters", ""))
    if returns_something(function) and not {"Returns", "Yields"} & set(sections):
        faults.append("no Returns section")
    if example and ">>>" not in sections.get("Examples", ""):
        faults.append("no example")
    return faults + example_faults(sections.get("Examples", ""))


def fields_of(kind: type) -> list[str]:
    """Return the fields of a value class that users are given: of a dataclass or a named tuple."""
    if hasattr(kind, "_fields"):
        return list(kind._fields)
    own = getattr(kind, "__dataclass_fields__", {})
    return [name for name, field in own.items() if not name.startswith("_") and field.repr]


def attribute_faults(kind: type, section: str) -> list[str]:
    """Return the faults of the attributes of a value class: all fields, and what else there is."""
    known = {*dir(kind), *getattr(kind, "__dataclass_fields__", {})}
    fields, documented = fields_of(kind), [name for name, *_ in entries_of(section)]
    faults = entry_faults(documented, section, "Attributes")
    faults += [f"there is no attribute {name}" for name in documented if name not in known]
    missing = [name for name in fields if name not in documented]
    return faults + ([f"attributes {missing} are not documented"] if missing else [])


def class_faults(kind: type) -> list[str]:
    text = doc_of(kind)
    sections = sections_of(text)
    faults = summary_faults(text)
    if issubclass(kind, BaseException):
        return faults
    if not typing.is_protocol(kind) if hasattr(typing, "is_protocol") else not getattr(kind, "_is_protocol", False):
        if fields_of(kind) and "Parameters" not in sections:  # a result: what it holds, instead of how it is made
            faults += attribute_faults(kind, sections.get("Attributes", ""))
        else:
            faults += entry_faults(parameters_of(kind), sections.get("Parameters", ""))
            faults += default_faults(kind, sections.get("Parameters", ""))
    if ">>>" not in sections.get("Examples", ""):
        faults.append("no example")
    return faults + example_faults(sections.get("Examples", ""))


def function_of(member):
    """Return the plain function of a method of any kind."""
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return getattr(member, "fn", member)


def member_faults(member) -> list[str]:
    if isinstance(member, property | functools.cached_property):
        return summary_faults(doc_of(member))
    return function_faults(function_of(member), example=False)


def members() -> dict[str, object]:
    """Return the public methods and properties of all listed classes, each once, under the class that defines it."""
    result = {}
    for name in reference.listed_names():
        kind = reference.find_object(name)
        for key, member in reference.public_members(kind).items() if inspect.isclass(kind) else ():
            owner = next(base for base in kind.__mro__ if key in vars(base))
            result[f"{owner.__module__}.{owner.__qualname__}.{key}"] = member
    return result


# the tests


@pytest.mark.parametrize("package", PACKAGES)
def test_all_public_names_are_in_the_reference(package):
    module = importlib.import_module(package)
    listed = [reference.find_object(name) for name in reference.listed_names()]
    constants = {name.rpartition(".")[2] for name in reference.listed_constants()}
    missing = [
        name
        for name in module.__all__
        if name not in constants
        and not inspect.ismodule(getattr(module, name))
        and not any(getattr(module, name) is thing for thing in listed)
    ]
    assert not missing, f"add to docs/api/index.md: {missing}"


def test_all_packages_with_public_names_are_checked():
    declared = {
        ".".join(path.relative_to(ROOT / "src").parent.parts)
        for path in (ROOT / "src/adacsl").rglob("__init__.py")
        if "__all__" in path.read_text(encoding="utf-8")
    }
    assert declared <= set(PACKAGES)


def test_internal_members_exist():
    bases = [base for name in reference.listed_names() for base in getattr(reference.find_object(name), "__mro__", ())]
    for name, internal in reference.INTERNAL.items():
        owned = {member for base in bases if base.__name__ == name for member in vars(base)}
        assert not set(internal.split()) - owned, f"INTERNAL[{name!r}] of docs/api_reference.py"


@pytest.mark.parametrize("name", reference.listed_names())
def test_docstrings_are_complete(name):
    thing = reference.find_object(name)
    faults = class_faults(thing) if inspect.isclass(thing) else function_faults(thing, example=True)
    assert not faults, f"{name}: " + "; ".join(faults)


@pytest.mark.parametrize(("name", "member"), members().items(), ids=members())
def test_docstrings_of_members_are_complete(name, member):
    faults = member_faults(member)
    assert not faults, f"{name}: " + "; ".join(faults)


# the check itself


def documented(a, *, b=1):
    """Return the sum.

    Parameters
    ----------
    a : int
        One number.
    b : int, default 1
        Another: the second.

    Returns
    -------
    int
        The sum.

    Examples
    --------
    >>> from tests.docs.test_api_reference import documented
    >>> documented(1)
    2
    """
    return a + b


def test_a_complete_docstring_has_no_faults():
    documented.__annotations__["return"] = int
    assert function_faults(documented, example=True) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("Return the sum.", "Return the sum"), "full stop"),
        (("    b : int, default 1\n        Another: the second.\n", ""), r"signature has \['a', 'b'\]"),
        (("    a : int\n        One number.\n", "    a : int\n"), "a has no description"),
        (("a : int", "a"), "a has no type"),
        (("default 1", "default 2"), "does not say the default 1"),
        (("Returns\n    -------\n    int\n        The sum.", ""), "no Returns"),
        ((">>>", ""), "no example"),
        ((">>> from tests.docs.test_api_reference import documented", ""), "does not import documented"),
        ((">>> documented(1)", f">>> documented(1)  # {'long' * 20}"), "wider than 88"),
    ],
)
def test_incomplete_docstrings_are_found(change, fault):
    def function(a, *, b=1) -> int: ...

    function.__doc__ = documented.__doc__.replace(*change)
    assert any(re.search(fault, found) for found in function_faults(function, example=True))
