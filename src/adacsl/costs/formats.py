"""Cost matrices as arrays, data frames, JSON and HTML.

A matrix is held as ``cells[action][class]``. Where each action is the prediction of a class (a *square* matrix), the
actions need no names of their own; where there are others too (refer to a person), ``actions`` names all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from adacsl.base.arrays import Array, as_array, as_host
from adacsl.base.html import html_table
from adacsl.base.labels import is_number, label_name, same_label
from adacsl.costs.cells import Ranges, as_cell, as_range, is_free, is_recipe, read_cell, show_cost
from adacsl.costs.expressions import Expression

Cells: TypeAlias = tuple[tuple[Any, ...], ...]
Names: TypeAlias = tuple[str, ...] | None

MANY = 10
"""Matrices of more classes are not printed in full."""


def cells_from_array(matrix: Array, rows: str, classes: Names, actions: Names) -> Cells:
    """Return the costs of a K x K, A x K (or n x A x K) array whose rows are ``rows``."""
    if rows not in ("predicted", "actual"):
        raise ValueError(
            f"rows must be 'predicted' or 'actual', got {rows!r}: it states what the rows of the matrix are"
        )
    array = _as_objects(matrix) if _has_recipes(matrix) else as_array(matrix, "the cost matrix")
    shape = tuple(array.shape)
    if array.ndim not in (2, 3) or min(shape[-2:]) < 2:
        raise ValueError(
            f"the cost matrix must be square, K x K or n x K x K with K >= 2 classes, or have more actions than "
            f"classes, got shape {shape}"
        )
    n_actions, n_classes = shape[-2:] if rows == "predicted" else shape[:-3:-1]
    if n_actions < n_classes and actions is None:
        raise ValueError(
            f"the cost matrix must be square or have more actions than classes, got shape {shape}, which with "
            f"rows={rows!r} is {n_actions} actions for {n_classes} classes: transpose it, or name its actions"
        )

    def entry(i: int, j: int) -> Any:
        cell = array[..., *((i, j) if rows == "predicted" else (j, i))]
        return as_cell(cell.item() if array.dtype == object else cell, _outcome(i, j, classes, actions))

    return tuple(tuple(entry(i, j) for j in range(n_classes)) for i in range(n_actions))


def _has_recipes(matrix: Any) -> bool:
    rows = matrix if isinstance(matrix, list | tuple) else ()
    return any(
        isinstance(cell, str) or is_recipe(cell) for row in rows if isinstance(row, list | tuple) for cell in row
    )


def _as_objects(matrix: Sequence[Sequence[Any]]) -> Any:
    """Return lists of texts and numbers as an array of objects."""
    array = np.empty((len(matrix), len(matrix[0])), dtype=object)
    for i, row in enumerate(matrix):
        if len(row) != array.shape[1]:
            raise ValueError(f"the rows of the cost matrix must be equally long, got {len(row)} in row {i + 1}")
        array[i] = row
    return array


def _outcome(i: int, j: int, classes: Names, actions: Names) -> str:
    named = actions or classes
    action = repr(named[i]) if named and i < len(named) else i
    true = repr(classes[j]) if classes and j < len(classes) else j
    return (
        f"the cost of {action} when {true} is true"
        if actions
        else f"the cost of predicting {action} when {true} is true"
    )


# names


def as_names(names: Iterable[object] | None, what: str) -> Names:
    """Return labels as text, none of them empty or there twice."""
    if names is None:
        return None
    if isinstance(names, str):
        raise TypeError(f"the {what} must be a list of names, got the text {names!r}")
    result = tuple(label_name(name) for name in names)
    twice = sorted({name for name in result if result.count(name) > 1})
    if twice:
        raise ValueError(f"the {what} of a cost matrix must differ, but {shown(twice)} is there more than once")
    if "" in result:
        raise ValueError(f"the {what} of a cost matrix must have names, but number {result.index('') + 1} has none")
    return result


def named(cells: Cells, classes: Names, actions: Names) -> tuple[Cells, Names, Names]:
    """Return costs and names that fit them; actions that are just the classes are put in their order and left out."""
    for names, count, what in ((classes, len(cells[0]), "classes"), (actions, len(cells), "actions")):
        if names is not None and len(names) != count:
            raise ValueError(f"the cost matrix has {count} {what}, got {len(names)} names: {shown(names)}")
    if actions is None:
        return cells, classes, None
    if classes is None:
        raise ValueError("the actions of a cost matrix have names, but its classes have none: name both")
    places = [_position(actions, name) for name in classes]
    missing = [name for name, place in zip(classes, places, strict=True) if place is None]
    if (missing and len(missing) < len(classes)) or (not missing and len(set(places)) < len(places)):
        raise ValueError(
            f"the actions of a cost matrix must name all classes or none, but {shown(missing or classes)} "
            f"{'is' if len(missing) == 1 else 'are'} missing among {shown(actions)}: check the spelling"
        )
    if missing or len(actions) > len(classes):
        return cells, classes, actions
    return tuple(cells[place] for place in places if place is not None), classes, None


def positions(names: Sequence[str], wanted: Sequence[object]) -> list[int]:
    """Return where each of the wanted labels is among the names of the matrix: all of them, and no others."""
    labels = [label_name(label) for label in wanted]
    result = [_position(names, label) for label in labels]
    missing = [label for label, where in zip(labels, result, strict=True) if where is None]
    unknown = [name for i, name in enumerate(names) if i not in result]
    if missing or unknown:
        parts = [f"has no column for {shown(missing)}"] * bool(missing) + [f"names {shown(unknown)}"] * bool(unknown)
        raise ValueError(
            f"the cost matrix {' and '.join(parts)}: its classes are {shown(names)}, those of the data {shown(labels)}"
        )
    if len(set(result)) < len(result):
        raise ValueError(f"the classes {shown(labels)} do not differ: each must mean one class of {shown(names)}")
    return [where for where in result if where is not None]


def _position(names: Sequence[str], label: str) -> int | None:
    if label in names:
        return names.index(label)
    fitting = [i for i, name in enumerate(names) if same_label(name, label)]
    return fitting[0] if len(fitting) == 1 else None


def shown(names: Iterable[object], most: int = 8) -> str:
    """Return names for a message, the first ``most`` of them."""
    words = [repr(str(name)) for name in names]
    return ", ".join(words[:most]) + (f", ... ({len(words)} in all)" if len(words) > most else "")


# frames


def read_frame(frame: Any) -> tuple[Array, Names, Names]:
    """Return the costs of a frame (pandas, polars), the names of its rows, and those of its columns.

    Rows are named by the index, or, as in a table read from a file, by the first column.
    """
    columns = list(getattr(frame, "columns", ()))
    if len(columns) < 2:
        raise ValueError(f"a cost matrix is a frame with a column for each class, got {type(frame).__name__} {columns}")
    as_names(columns, "columns")
    labels: list[Any] = list(getattr(frame, "index", range(len(frame))))
    if labels == list(range(len(labels))) and {*map(label_name, labels)} != {*map(label_name, columns)}:
        first, *columns = columns
        labels = np.asarray(frame[first]).tolist()
        rows = [label_name(label) for label in labels]
        if all(map(is_number, rows)) and not all(_position(rows, label_name(name)) is not None for name in columns):
            raise ValueError(
                "the rows of the cost matrix have no names: set the index of the frame, or let the first column name "
                f"them (it is {first!r}, and holds {shown(labels, 3)})"
            )
    values = [[_entry(v, r, c) for v, r in zip(np.asarray(frame[c]), labels, strict=True)] for c in columns]
    texts = any(isinstance(value, str) for column in values for value in column)
    table = [list(row) for row in zip(*values, strict=True)] if texts else np.asarray(values).T
    return table, as_names(labels, "rows"), as_names(columns, "columns")


def _entry(value: Any, row: object, column: object) -> float | str:
    """Return a number, or a text that is an expression over columns."""
    place = f"row {row!r}, column {column!r} of the cost matrix"
    try:
        number = float(value)
    except (TypeError, ValueError):
        try:
            result = Expression(value)
        except (TypeError, ValueError):
            raise ValueError(f"{place} is {value!r}, expected a number, or an expression over columns") from None
        return result.text if result.columns else float(result.of({}))
    if math.isnan(number):
        raise ValueError(f"{place} is empty, expected a number")
    return number


# JSON and display


def to_document(
    cells: Cells, classes: Names, actions: Names, ranges: Ranges = (), deciding: Cells | None = None
) -> dict[str, Any]:
    """Return a JSON-ready description."""
    names = {"classes": classes, "actions": actions}
    result: dict[str, Any] = {what: list(given) for what, given in names.items() if given is not None}
    if ranges:
        result["ranges"] = {name: [low, high] for name, low, high in ranges}
    if deciding is not None:
        result["deciding"] = [[as_host(cell).tolist() for cell in row] for row in deciding]
    costs = [[cell.to_dict() if is_recipe(cell) else as_host(cell).tolist() for cell in row] for row in cells]
    return {"rows": "predicted", "costs": costs, **result}


def read_document(data: Any) -> tuple[Any, ...]:
    """Read what :func:`to_document` wrote."""
    keys = {"rows", "costs"}
    if (
        not isinstance(data, dict)
        or not keys <= set(data) <= keys | {"classes", "actions", "ranges", "deciding"}
        or data["rows"] != "predicted"
    ):
        raise ValueError(
            f'a cost matrix is written as {{"rows": "predicted", "costs": [[...], ...]}}, got {str(data)[:80]}'
        )
    classes, actions = (as_names(data.get(what), what) for what in ("classes", "actions"))
    rows = data["costs"]
    k = len(rows[0]) if isinstance(rows, list) and rows and isinstance(rows[0], list) else 0
    least = 2 if actions else max(k, 2)
    if k < 2 or len(rows) < least or any(not isinstance(row, list) or len(row) != k for row in rows):
        raise ValueError(
            f"the costs must be a square list of lists (or one with more actions than classes), got {str(rows)[:80]}"
        )
    cells, deciding = (
        tuple(tuple(read_cell(c, _outcome(i, j, classes, actions)) for j, c in enumerate(row)) for i, row in part)
        for part in (enumerate(rows), enumerate(data.get("deciding", ())))
    )
    if deciding and [len(row) for row in deciding] != [k] * len(rows):
        raise ValueError(f"the costs to decide by must be as many as the costs, got {str(data['deciding'])[:80]}")
    ranges = _read_ranges(data.get("ranges", {}), two=k == len(rows) == 2 and not actions)
    return cells, classes, actions, ranges, deciding or None


def _read_ranges(result: Any, *, two: bool) -> Ranges:
    known = isinstance(result, dict) and set(result) <= {"fp", "fn", "tp", "tn"}
    ranges = [as_range(tuple(ends), name) for name, ends in result.items()] if known else [None]
    if None in ranges or (ranges and not two):
        raise ValueError(f'ranges of costs are written as {{"fn": [5, 20]}}, for two classes, got {str(result)[:80]}')
    return tuple(ends for ends in ranges if ends is not None)


def same_cell(one: Any, other: Any) -> bool:
    """Return whether two cells hold the same costs, or the same rule for them."""
    if is_recipe(one) or is_recipe(other):
        return bool(one == other) if is_recipe(one) and is_recipe(other) else False
    return np.array_equal(as_host(one), as_host(other))


def show(cells: Cells, classes: Names, actions: Names, ranges: Ranges = ()) -> str:
    """Return a matrix as it could be typed; a large one by its size."""
    n_actions, n_classes = len(cells), len(cells[0])
    if (n_actions, n_classes) == (2, 2) and classes is None:
        (tn, fn), (fp, tp) = cells
        costs = {"fp": fp, "fn": fn, "tp": tp, "tn": tn}
        ends = {name: f"({low:.12g}, {high:.12g})" for name, low, high in ranges}
        costs = {name: cell for name, cell in costs.items() if name[0] == "f" or name in ends or not is_free(cell)}
        parts = (f"{name}={ends.get(name) or _show_cell(cell)}" for name, cell in costs.items())
        return f"CostMatrix({', '.join(parts)})"
    if n_classes > MANY:
        return f"<CostMatrix of {n_classes} classes{f': {shown(classes, 3)}' if classes else ''}>"
    body = ", ".join("[" + ", ".join(map(_show_cell, row)) + "]" for row in cells)
    names = {"classes": classes, "actions": actions}
    parts = (f", {what}={list(given)}" for what, given in names.items() if given is not None)
    return f"CostMatrix.from_array([{body}], rows='predicted'{''.join(parts)})"


def as_html(cells: Cells, classes: Names, actions: Names, ranges: Ranges = ()) -> str:
    """Return a matrix as a table for a notebook, decided x true; a large one by its first classes."""
    default = ("negative", "positive") if len(cells[0]) == 2 else range(len(cells[0]))
    names = [str(name) for name in classes or default]
    done = [str(name) for name in actions or names]
    places = {"tn": (0, 0), "fn": (0, 1), "fp": (1, 0), "tp": (1, 1)}
    ends = {places[name]: f"{low:g} to {high:g}" for name, low, high in ranges}
    rows = [
        (f"decided {what}", *(ends.get((i, j)) or _show_cell(cell) for j, cell in enumerate(row[:MANY])))
        for i, (what, row) in enumerate(zip(done, cells, strict=True))
    ]
    title = "What each decision costs" + (f", first {MANY} classes of {len(names)}" if len(names) > MANY else "")
    return html_table(rows[: MANY + 1], ["", *(f"true {name}" for name in names[:MANY])], title)


def _show_cell(cell: Any) -> str:
    if is_recipe(cell):
        return repr(cell.text) if isinstance(cell, Expression) else repr(cell)
    return show_cost(cell)
