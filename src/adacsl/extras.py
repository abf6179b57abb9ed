"""Optional dependencies: a missing one is named together with the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
