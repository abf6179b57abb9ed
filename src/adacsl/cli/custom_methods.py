"""Custom methods of the user, named ``module:factory``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adacsl.cli.console import one_line

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier


FORM = "a module of the working directory (or an installed one) and a function in it, such as mine:forest"


def own_method(word: str) -> tuple[str, CostSensitiveClassifier]:
    """Return the name of the factory in ``module:factory`` and the method it makes."""
    from adacsl.estimators.registry import METHODS, as_method  # noqa: PLC0415  scikit-learn

    module, _, name = word.partition(":")
    if not module or not name.isidentifier():
        raise ValueError(f"--method {word}: expected {FORM}")
    if name in METHODS:
        raise ValueError(f"--method {word}: {name} is a built-in method: rename the function")
    factory = _factory(word, module, name)
    try:
        estimator = factory()
    except Exception as error:
        raise ValueError(f"--method {word}: {name}() failed with {_message(error)}") from error
    try:
        return name, as_method(estimator, name)
    except TypeError as error:
        raise TypeError(f"--method {word}: it must return a scikit-learn classifier: {error}") from None


def own_module(word: str | None) -> Callable[..., Any] | None:
    """Return the factory of a network in ``module:factory``, as ``NeuralLearner(module=...)`` takes it."""
    if word is None:
        return None
    module, _, name = word.partition(":")
    if not module or not name.isidentifier():
        raise ValueError(f"--module {word}: expected {FORM.replace('forest', 'net')}")
    return _factory(word, module, name, option="--module")


def module_word(learner: Any) -> str | None:
    """Return ``module:factory`` of a learner's custom network; None where there is none, or it has no such name."""
    factory = getattr(learner, "module", None)
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    return f"{module}:{name}" if name and getattr(sys.modules.get(module), name, None) is factory else None


def _factory(word: str, module: str, name: str, *, option: str = "--method") -> Callable[..., Any]:
    here = str(Path.cwd())
    if here not in sys.path:  # stays there: worker processes import the module too
        sys.path.insert(0, here)
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):  # one that the module imports
            raise ValueError(f"{option} {word}: {module} cannot be imported: {_message(error)}") from error
        raise ValueError(
            f"{option} {word}: there is no module {error.name} in {here}, nor is one installed: expected {FORM}"
        ) from None
    except Exception as error:
        raise ValueError(f"{option} {word}: {module} cannot be imported: {_message(error)}") from error
    factory = getattr(loaded, name, None)
    if factory is None:
        raise ValueError(f"{option} {word}: {module} ({loaded.__file__}) has no {name}")
    if not callable(factory):
        raise TypeError(f"{option} {word}: {name} is not a function but {one_line(repr(factory))}")
    checked: Callable[..., Any] = factory
    return checked


def _message(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")
