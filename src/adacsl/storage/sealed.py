"""Sealed documents of one kind: format, layout and owner are written with the content and checked when it is read.

Every JSON file of ours is one: ``format`` names its kind, ``schema_version`` its layout (one integer, raised when the
layout changes; anything else is refused), ``belongs_to`` what it depends on (a digest of data and settings), and
``sha256`` at the end is the digest of all before. Arrays are base64 of their little-endian bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.storage.atomic import place_file, read_regular, replace_file
from adacsl.storage.documents import DamagedError, encode, sealed, unsealed

LARGEST = 2**26
"""Bytes of a document that are read at most, unless its kind sets another limit."""
DTYPES = ("<f4", "<f8", "<i8", "|i1", "|u1")
"""Kinds of numbers that arrays in documents have."""


class SchemaError(DamagedError):
    """A document is whole, and of a layout that this version does not read."""

    def __init__(self, version: int, known: int) -> None:
        super().__init__(f"it has schema version {version}, and this adacsl reads version {known}")
        self.version = version


class ForeignError(DamagedError):
    """A document is whole, and belongs to other data or settings."""

    def __init__(self) -> None:
        super().__init__("it belongs to other data or settings")


@dataclass(frozen=True)
class SealedKind:
    """A kind of sealed document.

    Parameters
    ----------
    name : str
        What a document names as its format, such as ``"adacsl-run"``.
    schema : int
        Version of the layout that is written and read.
    largest : int
        Bytes that are read, and written, at most.

    Examples
    --------
    >>> import tempfile
    >>> kind = SealedKind("adacsl-example", schema=1)
    >>> path = Path(tempfile.mkdtemp()) / "example.json"
    >>> kind.write(path, {"cost": float("inf")}, belongs_to="a fit")
    True
    >>> kind.read(path, belongs_to="a fit")["cost"]
    inf
    >>> kind.read(path, belongs_to="another fit")
    Traceback (most recent call last):
        ...
    adacsl.storage.sealed.ForeignError: it belongs to other data or settings
    """

    name: str
    schema: int
    largest: int = LARGEST

    def content(self, values: Mapping[str, Any], *, belongs_to: str | None = None) -> bytes:
        """Return the content of a document; what it says of itself cannot be overwritten.

        Raises
        ------
        TypeError
            A value is no JSON value.
        ValueError
            It would be too large to be read again.
        """
        head: dict[str, Any] = {"format": self.name, "schema_version": self.schema}
        head |= {} if belongs_to is None else {"belongs_to": belongs_to}
        own = {key: value for key, value in values.items() if key not in (*head, "sha256")}
        content = sealed(encode(head | own, self.name.removeprefix("adacsl-")))
        if len(content) > self.largest:
            raise ValueError(f"it would have {len(content):,} bytes, and at most {self.largest:,} are read again")
        return content

    def write(
        self, path: Path, values: Mapping[str, Any], *, belongs_to: str | None = None, replace: bool = True
    ) -> bool:
        """Write a document whole or not at all; return whether it is this one (without ``replace`` the first stays)."""
        content = self.content(values, belongs_to=belongs_to)
        if replace:
            replace_file(path, content)
            return True
        return not path.exists() and place_file(path, content)  # what is there needs no room on a full disk

    def read(self, path: Path, *, belongs_to: str | None = None) -> dict[str, Any]:
        """Return the checked values of a document.

        Raises
        ------
        DamagedError
            It is no ordinary file, too large, not what was written, or of another kind.
        SchemaError, ForeignError
            It has another layout, or belongs to something else; both are DamagedErrors.
        OSError
            It is missing, or cannot be read.
        """
        return self.parse(read_regular(path, at_most=self.largest), belongs_to=belongs_to)

    def parse(self, content: bytes, *, belongs_to: str | None = None) -> dict[str, Any]:
        """Return the checked values of what was read."""
        values = unsealed(content, self.name)
        if values["schema_version"] != self.schema:
            raise SchemaError(values["schema_version"], self.schema)
        if belongs_to is not None and values.get("belongs_to") != belongs_to:
            raise ForeignError
        return values


# arrays


def pack(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array of one dimension as JSON: base64 of its little-endian bytes.

    >>> pack(np.array([1, 2], dtype=np.int8))
    {'dtype': '|i1', 'base64': 'AQI='}
    """
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {"dtype": little.dtype.str, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def unpack(packed: Mapping[str, Any]) -> NDArray[Any]:
    """Return what :func:`pack` was given."""
    if packed["dtype"] not in DTYPES:
        raise ValueError(f"unknown dtype {str(packed['dtype'])[:20]}")
    return np.frombuffer(base64.b64decode(packed["base64"], validate=True), dtype=packed["dtype"]).copy()
