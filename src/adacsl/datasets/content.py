"""What a file or folder holds, before anybody says what it means."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

Size: TypeAlias = int | tuple[int, int] | None
"""The side of square pictures, their height and width, or None: as they are."""


class Content(NamedTuple):
    """Pictures (N x H x W x C) with labels as they came, or a table, whose labels still are a column of it."""

    X: Any
    labels: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None


__all__ = ["Content", "Size"]
