"""Labels of tables and image folders as class indices, by the rule of :mod:`adacsl.base.labels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.labels import find_classes, label_name, order_classes, plain_labels
from adacsl.costs.matrix import CostMatrix, no_costs
from adacsl.datasets.errors import DataError, did_you_mean, listed, one_line, repeated

with requires("train"):
    import pandas as pd


MOST_CLASSES = 1000
"""With more labels a column is rather a number to predict, or an identifier."""
LONGEST = 1000
"""A label of more characters is rather a text; arrays of labels have the width of the longest."""


def class_labels(
    values: Any,
    pos_label: object = None,
    *,
    costs: Any = None,
    classes: Sequence[str] | None = None,
    known: Sequence[str] | None = None,
    what: str = "the labels",
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return labels as class indices, and the names of the classes in their order.

    Parameters
    ----------
    values : array or Series
        Numbers, truth values or text; none missing.
    pos_label : optional
        The label whose false negatives cost ``fn``. Not needed where the labels are 0 and 1, -1 and 1, or false and
        true, and where the costs name two classes, of which the second one is positive.
    costs : optional
        Costs in any form that users may give. More than two classes need costs of as many, or "balanced".
    classes : sequence of str, optional
        Names of the labels 0, 1, 2, ...
    known : sequence of str, optional
        All possible classes, in their order; some may be absent.
    what : str
        Name of the labels in messages.

    Returns
    -------
    tuple
        Class indices, and names of the classes.
    """
    series = pd.Series(values).reset_index(drop=True)
    check_present(series, what)
    codes, result = pd.factorize(series)
    if known is not None and classes is None:
        return _indices(result, known, what)[codes], tuple(known)
    matrix = costs if isinstance(costs, CostMatrix) else None
    names, order = _sorted(result)
    counts = _counts(codes, names)
    if len(names) == 1:
        raise DataError(f"{what} has one class only ({counts}): both are needed to learn from")
    if len(names) > MOST_CLASSES or (matrix is not None and matrix.n_classes != len(names)):
        check_classes(names, costs, what=what, counts=counts)
    labels = [label.item() if isinstance(label, np.generic) else label for label in (result[i] for i in order)]
    try:
        ordered = order_classes(
            labels,
            pos_label,
            None if matrix is None or classes is not None else matrix.classes,
            what=what,
            counts=counts,
            hint=did_you_mean(pos_label, names),
        )
    except ValueError as error:
        raise DataError(str(error)) from None
    called = tuple(classes or map(label_name, ordered.names))
    check_classes(called, costs, what=what, counts=counts)
    index = np.empty(len(names), dtype=np.int64)
    index[order] = np.arange(len(names)) if ordered.labels[0] is labels[0] else (1, 0)
    return index[codes], called


def label_names(values: Any, *, what: str = "the labels") -> tuple[str, ...]:
    """Return the names of the classes in sorted order; at least two."""
    series = pd.Series(values).reset_index(drop=True)
    check_present(series, what)
    codes, result = pd.factorize(series)
    names, order = _sorted(result)
    if len(names) == 1:
        raise DataError(f"{what} has one class only ({_counts(codes, names)}): at least two are needed")
    check_classes(names, "balanced", what=what, counts=_counts(codes, names))
    return tuple(names[i] for i in order)


def _sorted(result: Any) -> tuple[list[str], list[int]]:
    """Return the names of labels, and their order: numbers by size, others as text."""
    names = [label_name(label) for label in result]
    return names, sorted(range(len(names)), key=plain_labels(names).__getitem__)


def _indices(result: Any, known: Sequence[str], what: str) -> NDArray[np.int64]:
    """Return the index of each label among the known classes."""
    fitting = find_classes(known, result)
    unknown = [label_name(label) for label, index in zip(result, fitting, strict=True) if index is None]
    if unknown:
        raise DataError(f"{what} has the classes {listed(map(repr, unknown))}, known are {listed(map(repr, known))}")
    return np.asarray(fitting, np.int64)


def check_classes(names: Sequence[str], costs: Any, *, what: str, counts: str = "", kind: str = "classes") -> None:
    """Raise for more than two classes unless the costs are those of these classes, or balanced."""
    result = f"{what} has {len(names)} {kind} ({counts or listed(names)})"
    if len(np.shape(costs)) == 2:
        raise DataError(str(no_costs(costs)))
    if isinstance(costs, CostMatrix) and (costs.n_classes > 2 or costs.classes is not None):
        try:
            costs.aligned(names)
        except ValueError as error:
            raise DataError(f"{result}: {one_line(error)}") from error
    elif len(names) > 2 and not (isinstance(costs, str) and costs == "balanced"):
        two = ", but fp and fn are costs of two" if costs is not None else ""
        raise DataError(
            f"{result}{two}: state the costs, costs=... (a matrix with these {len(names)} classes, as 'adacsl check "
            "--write-costs' writes one, or 'balanced'), or merge or drop classes first"
        )
    if len(names) > MOST_CLASSES:
        raise DataError(
            f"{result}, expected {MOST_CLASSES} at most: numbers to predict and identifiers are not classes"
        )
    if (longest := max(map(len, names), default=0)) > LONGEST:
        raise DataError(f"{what} has a label of {longest:,} characters, expected {LONGEST} at most: check the column")
    if doubled := repeated(names):
        raise DataError(
            f"{what} has different labels that all read {listed(map(repr, doubled))}: spell each class one way"
        )


def _counts(codes: NDArray[Any], names: list[str]) -> str:
    sizes = np.bincount(codes, minlength=len(names))
    return listed(f"{names[i]}: {sizes[i]}" for i in np.argsort(-sizes, kind="stable"))


def check_present(series: pd.Series[Any], what: str, advice: str = "fill in these labels or remove these rows") -> None:
    """Raise if labels are missing, or there are none."""
    missing = missing_labels(series)
    if len(series) == 0:
        raise DataError(f"{what} has no rows: at least one of each class is needed")
    if missing.any():
        first = int(missing.to_numpy().argmax()) + 1
        raise DataError(
            f"{what} is missing in {int(missing.sum())} of {len(series)} rows, first in row {first}: {advice}"
        )


def missing_labels(series: pd.Series[Any]) -> pd.Series[bool]:
    """Return which labels are missing or blank."""
    missing = series.isna()
    if series.dtype == object or pd.api.types.is_string_dtype(series.dtype):
        missing |= series.map(lambda label: isinstance(label, str) and not label.strip()).astype(bool)
    return missing
