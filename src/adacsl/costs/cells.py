"""One entry of a cost matrix: a number, a range, an expression over columns or a predicted cost."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from array_api_compat import array_namespace

from adacsl.base.arrays import LARGEST, Array, as_array, as_host, as_vector, check_finite, count_true, move, widest
from adacsl.base.extras import requires, resolve
from adacsl.costs.expressions import Expression


def as_cost(value: Any, name: str) -> Any:
    """Check one cost: return a float, or a read-only vector of floats."""
    if isinstance(value, str | bytes) or value is None:
        raise TypeError(f"{name} must be a number or a vector of numbers, got {value!r}")
    plain = isinstance(value, int | float) and abs(value) < 2**63  # concerns no array library, which may be missing
    array = np.asarray(value) if plain else as_array(value, name)
    if array.ndim == 0:
        number = float(array)
        if not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {number}")
        _check_size(abs(number), name)
        return number
    if array.ndim != 1:
        raise ValueError(f"{name} must be one number or one for each sample, got shape {tuple(array.shape)}")
    vector = widest(as_vector(array, name))
    check_finite(vector, name)
    _check_size(float(array_namespace(vector).max(abs(vector))), name)
    if isinstance(vector, np.ndarray):
        vector.flags.writeable = False
    return vector


def _check_size(size: float, name: str) -> None:
    if size > LARGEST:
        raise ValueError(f"{name} is too large to be added up, {size:g}: give all costs in a larger unit")


def cost_like(cell: Any, like: Array) -> Any:
    """Return a cost in the library and on the device of ``like``, in its own type; a float stays a float."""
    return cell if isinstance(cell, float) else array_namespace(like).astype(move(cell, like), like.dtype, copy=False)


def is_free(cell: Any) -> bool:
    """Return whether a cost is zero for all samples."""
    return isinstance(cell, float) and cell == 0.0


def show_cost(cell: Any) -> str:
    """Return a number, or how many there are and their mean."""
    if isinstance(cell, float):
        return f"{cell:.12g}"
    return f"<{cell.shape[0]} values, mean {float(array_namespace(cell).mean(cell)):.6g}>"


def check_cell_costs(
    cells: tuple[tuple[Any, ...], ...], classes: Sequence[str] | None = None, actions: Sequence[str] | None = None
) -> None:
    """Raise unless errors cost more than being right, and costs of single samples belong to the same samples."""
    vectors = [cell for row in cells for cell in row if not isinstance(cell, float)]
    lengths, kinds = {vector.shape[0] for vector in vectors}, {type(vector).__name__ for vector in vectors}
    if len(lengths) > 1:
        raise ValueError(f"costs of single samples must all have one length, got {sorted(lengths)}")
    if len(kinds) > 1:
        raise TypeError(f"costs of single samples must be arrays of one library, got {' and '.join(sorted(kinds))}")
    if len(cells) == len(cells[0]) == 2 and actions is None:
        (tn, fn), (fp, tp) = cells
        check_above(fn, tp, "fn", "tp")
        check_above(fp, tn, "fp", "tn")
    else:
        _check_many(cells, classes, actions)


def check_above(error: Any, right: Any, error_name: str, right_name: str) -> None:
    """Raise unless an error costs more than being right: for samples, more for one and less for none."""
    extra = error - right
    if isinstance(extra, float):
        if not extra > 0:
            raise ValueError(
                f"{error_name} must cost more than {right_name}, got {error_name}={error:g} and "
                f"{right_name}={right:g}: where an error costs no more than a correct prediction, "
                "a constant prediction is optimal and there is nothing to learn"
            )
        if extra < 1.0 / LARGEST:
            raise ValueError(f"{error_name} is too small to compute with, {error:g}: give all costs in a smaller unit")
        return
    xp = array_namespace(extra)
    lowest = int(xp.argmin(extra))
    if float(extra[lowest]) < 0:
        raise ValueError(
            f"{error_name} must not cost less than {right_name}, but for sample {lowest} it does, by "
            f"{-float(extra[lowest]):g}; clip {error_name} at {right_name} or exclude such samples"
        )
    if float(xp.max(extra)) == 0:
        raise ValueError(f"{error_name} costs no more than {right_name} for any sample: there is nothing to learn")


def _check_many(
    cells: tuple[tuple[Any, ...], ...], classes: Sequence[str] | None, actions: Sequence[str] | None
) -> None:
    """Raise where an error pays, where a class is all the same, or where one action is best whatever is true."""
    square = actions is None and len(cells) == len(cells[0])
    named = actions or (classes if square else None) or range(len(cells))
    best = [True] * len(cells)
    free = []
    for j, true in enumerate(classes or range(len(cells[0]))):
        extra = [as_host(cell) for cell in column_of_errors(cells, j, square=square)]
        least = min(range(len(cells)), key=lambda i: extra[i].min())
        if extra[least].min() < 0:
            raise ValueError(
                f"predicting {named[least]!r} when {true!r} is true costs less than being right "
                f"(by {-extra[least].min():g}); an error must not pay: check the matrix and its orientation"
            )
        best = [so_far and not cost.any() for so_far, cost in zip(best, extra, strict=True)]
        free += [] if any(cost.any() for cost in extra) else [true]
    if len(free) == len(cells[0]):
        raise ValueError("every decision costs the same: there is nothing to learn")
    if free:
        raise ValueError(
            f"every decision costs the same when {free[0]!r} is true: give the errors about this class a cost, "
            "or remove it from the data and the matrix"
        )
    if any(best):
        raise ValueError(f"{named[best.index(True)]!r} has the lowest cost for every class: there is nothing to learn")


def clip_errors(cells: tuple[tuple[Any, ...], ...], *, square: bool) -> tuple[tuple[Any, ...], ...]:
    """Return the costs with errors that cost less than being right, for some samples, raised to that."""
    if not square:
        return cells

    def clip(cell: Any, right: Any) -> Any:
        numbers = isinstance(cell, float) and isinstance(right, float)
        return cell if numbers else as_cost(_higher(cell, right), "a cost")

    return tuple(tuple(clip(cell, cells[j][j]) for j, cell in enumerate(row)) for row in cells)


def mean_over(cell: Any, classes: Array | None, j: int) -> float:
    """Return the mean of a cost over all samples, or over those of class j, if there are any."""
    if isinstance(cell, float):
        return cell
    xp = array_namespace(cell)
    own = None if classes is None else move(classes, cell) == j
    n = 0 if own is None else count_true(own)
    return float(xp.sum(xp.where(own, cell, 0.0)) / n if n else xp.mean(cell))


def row_stakes(cells: tuple[tuple[Any, ...], ...], classes: Array) -> Array:
    """Return what errors about each sample cost (of a reduced matrix), relative to the mean of its class."""
    xp = array_namespace(classes)
    out = xp.ones_like(widest(classes))
    for j in range(len(cells[0])):
        stake = sum(cost_like(row[j], out) for row in cells)
        if isinstance(stake, float):
            continue
        own = classes == j
        n = count_true(own)
        mean = float(xp.sum(xp.where(own, stake, 0.0))) / n if n else 0.0
        out = xp.where(own, stake / mean, out) if mean > 0 else out
    return out


def column_of_errors(cells: tuple[tuple[Any, ...], ...], j: int, *, square: bool) -> list[Any]:
    """Return what each action costs more than the right one when class j is true: than predicting it, or the least."""
    column = [row[j] for row in cells]
    if square:
        return [0.0 if i == j else cell - column[j] for i, cell in enumerate(column)]
    least = functools.reduce(_lower, column)
    return [cell - least for cell in column]


def _lower(one: Any, other: Any) -> Any:
    return -_higher(-one, -other)


def _higher(one: Any, other: Any) -> Any:
    if isinstance(one, float) and isinstance(other, float):
        return max(one, other)
    xp = array_namespace(*(cell for cell in (one, other) if not isinstance(cell, float)))
    return xp.where(one > other, one, other)


def check_samples(n_instances: int | None, n: int) -> None:
    """Raise where costs of single samples belong to other than ``n`` samples."""
    if n_instances not in (None, n):
        raise ValueError(f"these costs belong to {n_instances} samples, got {n}: select their costs with .rows(index)")


Range: TypeAlias = tuple[str, float, float]
"""The name of a cost, and what it lies between."""
Ranges: TypeAlias = tuple[Range, ...]


@runtime_checkable
class Recipe(Protocol):
    """How the costs of rows are made: from which columns, and how it is written down (with its ``kind``)."""

    kind: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it needs."""

    def of(self, table: Any) -> Array:
        """Return the cost of each row of a table."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description that holds its ``kind``."""


def _read_model(data: dict[str, Any]) -> Recipe:
    # what learns needs scikit-learn, and comes from above: looked for only when asked for
    with requires("sklearn"):
        model: Recipe = resolve("adacsl.estimators.cost_model:CostModel").from_dict(data)
    return model


READERS: dict[str, Callable[[dict[str, Any]], Recipe]] = {
    "expression": lambda data: Expression(data["text"]),
    "model": _read_model,
}
"""What reads each kind of recipe from its description; who brings another kind adds its reader."""

LEARNED = re.compile(r"\s*model\((.+)\)\s*", re.DOTALL)
"""A cost that is to be predicted from the row, as text."""


def is_recipe(cell: Any) -> bool:
    """Return whether a cell is a recipe: no number, and no array."""
    return not isinstance(cell, float) and isinstance(getattr(cell, "kind", None), str) and hasattr(cell, "columns")


def as_cell(value: Any, name: str) -> Any:
    """Check what a cell may hold: a cost, those of samples, or a recipe (a text is an expression over columns)."""
    if isinstance(value, str) and (learned := LEARNED.fullmatch(value)):
        value = read_recipe({"kind": "model", "cost": learned[1]})
    elif isinstance(value, str):
        value = Expression(value)
        if not value.columns:
            raise TypeError(
                f"{name} must be a number or a vector of numbers, got {value.text!r}; a text is a column or an "
                "expression over columns, such as '0.8 * amount + 12'"
            )
    return value if is_recipe(value) else as_cost(value, name)


def read_cell(value: Any, name: str) -> Any:
    """Return a cell from its description in JSON."""
    return read_recipe(value) if isinstance(value, dict) else as_cost(value, name)


def read_recipe(data: dict[str, Any]) -> Recipe:
    """Return a recipe from what its ``to_dict`` gave."""
    if data.get("kind") not in READERS:
        raise ValueError(f"a cost is written as a number, a list, or {{'kind': 'expression', ...}}; got {data!r:.80}")
    return READERS[data["kind"]](data)


def unresolved(columns: Sequence[str]) -> ValueError:
    """Return the error about a cost that is not a number yet."""
    named = ", ".join(map(repr, columns))
    return ValueError(
        f"these costs depend on the column{'s' if len(columns) > 1 else ''} {named}: costs.of(table) gives those of "
        "its rows"
    )


# ranges


def read_costs_of_cells(given: Mapping[str, Any]) -> tuple[tuple[tuple[Any, ...], ...], Ranges]:
    """Return the cells of two classes from costs by name, and which of them are ranges."""
    ranges = tuple(ends for name, value in given.items() if (ends := as_range(value, name)) is not None)
    middles = {name: middle(low, high) for name, low, high in ranges}
    tn, fn, fp, tp = (as_cell(middles.get(name, given[name]), name) for name in ("tn", "fn", "fp", "tp"))
    return ((tn, fn), (fp, tp)), ranges


def as_range(value: Any, name: str) -> Range | None:
    """Return a range, where a cost is given as a tuple of two numbers."""
    if not (isinstance(value, tuple) and len(value) == 2 and all(map(_is_real, value))):
        return None
    low, high = map(float, value)
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"a range of {name} goes from a low cost to a high one, both finite, got {value!r}")
    return name, low, high


def middle(low: float, high: float) -> float:
    """Return the cost that stands for a range: its geometric mean, or the arithmetic one where it reaches zero."""
    square = low * high  # exact for plain numbers; the mean of logs, where it leaves the range of floats, is not
    if low > 0 and 1e-300 < square < 1e300:
        return math.sqrt(square)
    return math.sqrt(low) * math.sqrt(high) if low > 0 else low / 2 + high / 2


def check_ranges(costs: Mapping[str, Any], ranges: Ranges) -> None:
    """Raise where an error may cost less than being right."""
    ends = {name: (low, high) for name, low, high in ranges}
    for error, right in (("fn", "tp"), ("fp", "tn")):
        if error not in ends and right not in ends:
            continue
        low = ends[error][0] if error in ends else costs[error]
        high = ends[right][1] if right in ends else costs[right]
        if not (is_recipe(low) or is_recipe(high)) and np.min(low - high) < 0:
            raise ValueError(
                f"{error} must not cost less than {right} anywhere in its range, got {error} from {np.min(low):g} and "
                f"{right} up to {np.max(high):g}"
            )


def reduced_ranges(costs: Mapping[str, Any], ranges: Ranges) -> Ranges:
    """Return the ranges of errors when what being right costs is taken off."""
    ends = {name: (low, high) for name, low, high in ranges}
    result = []
    for error, right in (("fp", "tn"), ("fn", "tp")):
        numbers = isinstance(costs[error], float) and isinstance(costs[right], float)
        if numbers and (error in ends or right in ends):
            (low, high), (least, most) = (ends.get(name, (costs[name],) * 2) for name in (error, right))
            result.append((error, low - most, high - least))
    return tuple(result)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)
