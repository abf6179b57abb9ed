"""No public name, parameter or default vanishes or changes by accident.

``api_surface.json`` is a snapshot of the public names of the modules below and of their signatures. After an intended
change, write it again and read the difference in the review::

    python tests/test_api_surface.py --write
"""

import importlib
import inspect
import json
import os
import sys
from pathlib import Path

import pytest

MODULES = [
    "adacsl",
    "adacsl.torch",
    "adacsl.integrations.catboost",
    "adacsl.integrations.keras",
    "adacsl.integrations.lightgbm",
    "adacsl.integrations.lightning",
    "adacsl.integrations.onnx",
    "adacsl.integrations.sklearn",
    "adacsl.integrations.skorch",
    "adacsl.integrations.torchmetrics",
    "adacsl.integrations.transformers",
    "adacsl.integrations.xgboost",
]
"""Add a module here to guard it; each must declare ``__all__``."""

os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras would look for TensorFlow
SNAPSHOT = Path(__file__).with_name("api_surface.json")
HOW = "if this is intended: python tests/test_api_surface.py --write"


def signature_of(thing):
    if hasattr(thing, "_fields"):  # a NamedTuple: how its annotations print depends on the Python version
        return f"({', '.join(thing._fields)})"
    try:
        return str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "(...)"


def members_of(kind):
    """What adacsl itself defines on a class; inherited parts of frameworks are theirs to keep."""
    result = {}
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("adacsl"):
            continue
        for name, value in vars(owner).items():
            if name.startswith("_"):
                continue
            if isinstance(value, property):
                result[name] = "property"
            elif isinstance(value, classmethod | staticmethod):
                result[name] = f"{type(value).__name__}{signature_of(value.__func__)}"
            elif inspect.isfunction(value):
                result[name] = signature_of(value)
            else:
                result[name] = "attribute"
    return dict(sorted(result.items()))


def describe(thing):
    if inspect.isclass(thing):
        return {"signature": signature_of(thing), "members": members_of(thing)}
    if callable(thing):
        return signature_of(thing)
    return type(thing).__name__


def surface_of(name):
    module = importlib.import_module(name)
    return {public: describe(getattr(module, public)) for public in sorted(module.__all__)}


@pytest.mark.parametrize("name", MODULES)
def test_public_surface_is_the_snapshot(name):
    expected, result = json.loads(SNAPSHOT.read_text())[name], surface_of(name)
    assert sorted(result) == sorted(expected), HOW
    for public in expected:
        assert result[public] == expected[public], f"{name}.{public} changed; {HOW}"


def test_snapshot_holds_all_modules_and_no_others():
    assert sorted(json.loads(SNAPSHOT.read_text())) == sorted(MODULES), HOW


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: python {sys.argv[0]} --write")
    SNAPSHOT.write_text(json.dumps({name: surface_of(name) for name in MODULES}, indent=2) + "\n")
