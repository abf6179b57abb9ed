"""Cells of a cost matrix that are more than a number: recipes that make prices from a table, and ranges."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from adacsl.core.arrays import Array
from adacsl.core.expressions import Expression
from adacsl.core.prices import as_price
from adacsl.extras import requires

Range: TypeAlias = tuple[str, float, float]
"""The name of a price, and what it lies between."""
Ranges: TypeAlias = tuple[Range, ...]


@runtime_checkable
class Recipe(Protocol):
    """How the prices of rows are made: from which columns, and how it is written down (with its ``kind``)."""

    kind: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it needs."""

    def of(self, table: Any) -> Array:
        """Return the price of each row of a table."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description that holds its ``kind``."""


def _read_model(data: dict[str, Any]) -> Recipe:
    # what learns needs scikit-learn, and comes from above: looked for only when asked for
    with requires("sklearn"):
        model: Recipe = importlib.import_module("adacsl.estimators.pricing").CostModel.from_dict(data)
    return model


READERS: dict[str, Callable[[dict[str, Any]], Recipe]] = {
    "expression": lambda data: Expression(data["text"]),
    "model": _read_model,
}
"""What reads each kind of recipe from its description; who brings another kind adds its reader."""

LEARNED = re.compile(r"\s*model\((.+)\)\s*", re.DOTALL)
"""A price that is to be predicted from the row, as text."""


def is_recipe(cell: Any) -> bool:
    """Tell whether a cell is a recipe: no number, and no array."""
    return not isinstance(cell, float) and isinstance(getattr(cell, "kind", None), str) and hasattr(cell, "columns")


def as_cell(value: Any, name: str) -> Any:
    """Check what a cell may hold: a price, those of samples, or a recipe (a text is an expression over columns)."""
    if isinstance(value, str) and (learned := LEARNED.fullmatch(value)):
        value = read_recipe({"kind": "model", "price": learned[1]})
    elif isinstance(value, str):
        value = Expression(value)
        if not value.columns:
            raise TypeError(
                f"{name} must be a number or a vector of numbers, got {value.text!r}; a text is a column or an "
                "expression over columns, such as '0.8 * amount + 12'"
            )
    return value if is_recipe(value) else as_price(value, name)


def read_cell(value: Any, name: str) -> Any:
    """Return a cell from its description in JSON."""
    return read_recipe(value) if isinstance(value, dict) else as_price(value, name)


def read_recipe(data: dict[str, Any]) -> Recipe:
    """Return a recipe from what its ``to_dict`` gave."""
    if data.get("kind") not in READERS:
        raise ValueError(f"a price is written as a number, a list, or {{'kind': 'expression', ...}}; got {data!r:.80}")
    return READERS[data["kind"]](data)


def unsettled(columns: Sequence[str]) -> ValueError:
    """Return the error of all who need numbers."""
    named = ", ".join(map(repr, columns))
    return ValueError(
        f"these prices depend on the column{'s' if len(columns) > 1 else ''} {named}: costs.of(table) gives those of "
        "its rows"
    )


# ranges


def read_prices(given: Mapping[str, Any]) -> tuple[tuple[tuple[Any, ...], ...], Ranges]:
    """Return the cells of two classes from prices by name, and which of them are ranges."""
    ranges = tuple(ends for name, value in given.items() if (ends := as_range(value, name)) is not None)
    middles = {name: middle(low, high) for name, low, high in ranges}
    tn, fn, fp, tp = (as_cell(middles.get(name, given[name]), name) for name in ("tn", "fn", "fp", "tp"))
    return ((tn, fn), (fp, tp)), ranges


def as_range(value: Any, name: str) -> Range | None:
    """Return a range, where a price is given as a tuple of two numbers."""
    if not (isinstance(value, tuple) and len(value) == 2 and all(map(_is_real, value))):
        return None
    low, high = map(float, value)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"a range of {name} goes from a low price to a high one, both finite, got {value!r}")
    return name, low, high


def middle(low: float, high: float) -> float:
    """Return the price that stands for a range: its geometric mean, or the arithmetic one where it reaches zero."""
    square = low * high  # exact for plain numbers; the mean of logs, where it leaves the range of floats, is not
    if low > 0 and 1e-300 < square < 1e300:
        return math.sqrt(square)
    return math.sqrt(low) * math.sqrt(high) if low > 0 else low / 2 + high / 2


def check_ranges(prices: Mapping[str, Any], ranges: Ranges) -> None:
    """Raise where an error may cost less than being right."""
    ends = {name: (low, high) for name, low, high in ranges}
    for error, right in (("fn", "tp"), ("fp", "tn")):
        if error not in ends and right not in ends:
            continue
        low = ends[error][0] if error in ends else prices[error]
        high = ends[right][1] if right in ends else prices[right]
        if not (is_recipe(low) or is_recipe(high)) and np.min(low - high) < 0:
            raise ValueError(
                f"{error} must not cost less than {right} anywhere in its range, got {error} from {np.min(low):g} and "
                f"{right} up to {np.max(high):g}"
            )


def reduced_ranges(prices: Mapping[str, Any], ranges: Ranges) -> Ranges:
    """Return the ranges of errors when what being right costs is taken off."""
    ends = {name: (low, high) for name, low, high in ranges}
    found = []
    for error, right in (("fp", "tn"), ("fn", "tp")):
        numbers = isinstance(prices[error], float) and isinstance(prices[right], float)
        if numbers and (error in ends or right in ends):
            (low, high), (least, most) = (ends.get(name, (prices[name],) * 2) for name in (error, right))
            found.append((error, low - most, high - least))
    return tuple(found)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)
