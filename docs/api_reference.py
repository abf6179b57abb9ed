"""The objects of the API reference: which names docs/api/index.md lists, and which members of a class are public."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

INDEX = Path(__file__).with_name("api") / "index.md"
TABLE = re.compile(r"^\.\. autosummary::\n(?:   :.*\n)*\n((?:   \S+\n)+)", re.MULTILINE)
FRAMEWORKS = ("sklearn", "torch", "lightning", "pytorch_lightning", "keras", "xgboost", "skorch", "transformers", "mlflow")
INTERNAL = {
    "check_settings", "decided_by", "get_extra_state", "make_learner", "set_extra_state", "extra_repr",
}  # fmt: skip
"""Members that other modules of the package call and users do not."""


def listed_names() -> list[str]:
    """Return the dotted names of the objects that have a page."""
    tables: list[str] = TABLE.findall(INDEX.read_text(encoding="utf-8"))
    return [name for table in tables for name in table.split()]


def listed_constants() -> list[str]:
    """Return the dotted names of the constants, which are described on the index itself."""
    return re.findall(r"^\.\. py:data:: (\S+)$", INDEX.read_text(encoding="utf-8"), re.MULTILINE)


def find_object(name: str) -> Any:
    """Return the object of a dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def is_function(member: Any) -> bool:
    """Tell whether a class attribute, as it stands in the class, is a method of any kind."""
    return inspect.isfunction(member) or isinstance(member, classmethod | staticmethod) or hasattr(member, "fn")


def public_members(kind: type) -> dict[str, Any]:
    """Return what adacsl itself defines on a class: methods and properties, base classes first."""
    hooks = {
        name
        for base in kind.__mro__
        if base.__module__.partition(".")[0] in set(FRAMEWORKS) - {"sklearn"}
        for name in vars(base)
        if name != "forward"
    }
    result: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("adacsl."):
            result |= {
                name: member
                for name, member in vars(owner).items()
                if not name.startswith("_")
                and name not in INTERNAL | hooks
                and (is_function(member) or isinstance(member, property | functools.cached_property))
            }
    return result


def methods_of(name: str) -> list[str]:
    """Return the public methods of a class, in the order of the source."""
    return [key for key, member in public_members(find_object(name)).items() if is_function(member)]


def properties_of(name: str) -> list[str]:
    """Return the public properties of a class, in the order of the source."""
    return [key for key, member in public_members(find_object(name)).items() if not is_function(member)]


def pages() -> dict[str, dict[str, list[str]]]:
    """Return the methods and the properties of every listed class, for the templates."""
    classes = [name for name in listed_names() if inspect.isclass(find_object(name))]
    return {name: {"methods": methods_of(name), "properties": properties_of(name)} for name in classes}
