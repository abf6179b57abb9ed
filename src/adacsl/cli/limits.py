"""Numbers of options: how they are read, and how large they may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, TypeAlias

from cyclopts import CycloptsError, Parameter, Token

MOST_SPLITS, MOST_WORKERS, MOST_EPOCHS, LARGEST = 1000, 1024, 10**6, 2**31 - 1
"""Nobody means more of these; the last is the largest number of rows, or the like, that all libraries take."""


def within(least: float, most: float = LARGEST) -> Parameter:
    """Return how the number of an option is read: finite, whole where its type is, and within these ends."""

    def read(kind: type, tokens: Sequence[Token]) -> float:
        option, word = tokens[0].keyword, tokens[0].value
        try:
            value: float = int(word) if kind is int else float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise CycloptsError(msg=f"{option} must be a {'whole ' * (kind is int)}number, got {word!r}")
        if not least <= value <= most:
            end = f"at least {least:g}" if value < least else f"at most {most:.17g}"
            raise CycloptsError(msg=f"{option} must be {end}, got {word}")
        return value

    return Parameter(converter=read)


Seed: TypeAlias = Annotated[int, within(0, 2**32 - 1)]
Side: TypeAlias = Annotated[int | None, within(1, 10_000)]
