"""Optional dependencies and late imports."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def requires(extra: str) -> Iterator[None]:
    """Turn the ImportError of an optional package into one line that says what to install.

    Examples
    --------
    >>> with requires("torch"):
    ...     import a_package_nobody_has
    Traceback (most recent call last):
        ...
    ImportError: this part of adacsl needs 'a_package_nobody_has': run  pip install 'adacsl[torch]'
    """
    try:
        yield
    except ImportError as error:
        missing = error.name or str(error)
        raise ImportError(
            f"this part of adacsl needs {missing!r}: run  pip install 'adacsl[{extra}]'", name=error.name
        ) from None


def resolve(path: str) -> Any:
    """Return what ``module:name`` refers to, imported now: packages refer to those above them in no other way.

    Examples
    --------
    >>> resolve("math:floor")(2.5)
    2
    """
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def lazy_exports(
    package: str, places: Mapping[str, str], extra: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported when first asked for.

    Parameters
    ----------
    package : str
        Its dotted name.
    places : mapping from str to str
        The module of each name.
    extra : str
        What installs the optional dependencies of these modules.
    """

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with requires(extra):
            return getattr(importlib.import_module(places[name]), name)

    return load, lambda: sorted(places)
