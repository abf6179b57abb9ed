"""Labels as they stand in files, as class numbers; the rules are those of :mod:`adacsl.base.labels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.labels import customary_positive, label_name, plain_labels, same_label
from adacsl.costs.matrix import CostMatrix, no_costs
from adacsl.datasets.errors import DataError, did_you_mean, listed, one_line, repeated

with requires("train"):
    import pandas as pd


MOST_CLASSES = 1000
"""With more labels a column is rather a number to predict, or names the rows."""
LONGEST = 1000
"""A label of more characters is rather a text; arrays of labels hold all of them at the width of the longest."""


def class_labels(
    values: Any,
    positive: object = None,
    *,
    costs: Any = None,
    classes: Sequence[str] | None = None,
    known: Sequence[str] | None = None,
    what: str = "the labels",
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return labels as class numbers, and the names of the classes in their order.

    Two classes are told apart by :func:`binary_labels`; of a cost matrix that names them, the second one is positive.
    More classes need costs of as many, or "balanced", and are numbered in sorted order.

    Parameters
    ----------
    values, positive, what
        As in :func:`binary_labels`.
    costs : optional
        What errors cost, as a user may give it.
    classes : sequence of str, optional
        What labels 0, 1, 2, ... are called.
    known : sequence of str, optional
        All classes there may be, in their order, more than two; not all of them need be there.
    """
    series = pd.Series(values).reset_index(drop=True)
    check_present(series, what)
    codes, found = pd.factorize(series)
    if known is not None and classes is None:
        return _places(found, known, what)[codes], tuple(known)
    matrix = costs if isinstance(costs, CostMatrix) else None
    if len(found) < 2 or (len(found) == 2 and (matrix is None or matrix.n_classes == 2)):
        named = [name for name in (matrix and matrix.classes) or () if positive is None]
        y, pair = binary_labels(series, named[1] if len(named) == 2 else positive, what=what)
        called = pair if classes is None else tuple(classes)
        check_classes(called, costs, what=what)
        return y, called
    names, order = _sorted(found)
    called = tuple(classes or (names[i] for i in order))
    check_classes(called, costs, what=what, counts=_counts(codes, names))
    if positive is not None:
        raise DataError(f"positive {positive!r} is for two classes, but {what} has {len(called)}: leave it out")
    return np.argsort(order)[codes].astype(np.int64), called


def label_names(values: Any, *, what: str = "the labels") -> tuple[str, ...]:
    """Return the names of the classes in sorted order; at least two."""
    series = pd.Series(values).reset_index(drop=True)
    check_present(series, what)
    codes, found = pd.factorize(series)
    names, order = _sorted(found)
    if len(names) == 1:
        raise DataError(f"{what} has one class only ({_counts(codes, names)}): at least two are needed")
    check_classes(names, "balanced", what=what, counts=_counts(codes, names))
    return tuple(names[i] for i in order)


def _sorted(found: Any) -> tuple[list[str], list[int]]:
    """Return the names of labels, and their order: numbers by size, others as text."""
    names = [label_name(label) for label in found]
    return names, sorted(range(len(names)), key=plain_labels(names).__getitem__)


def _places(found: Any, known: Sequence[str], what: str) -> NDArray[np.int64]:
    """Return where each label is among the known classes."""
    fitting = [[i for i, name in enumerate(known) if same_label(name, label)] for label in found]
    strange = [label_name(label) for label, where in zip(found, fitting, strict=True) if not where]
    if strange:
        raise DataError(f"{what} has the classes {listed(map(repr, strange))}, known are {listed(map(repr, known))}")
    return np.asarray([where[0] for where in fitting], np.int64)


def check_classes(names: Sequence[str], costs: Any, *, what: str, counts: str = "", kind: str = "classes") -> None:
    """Refuse more than two classes unless the costs speak of just these, or of all alike."""
    said = f"{what} has {len(names)} {kind} ({counts or listed(names)})"
    if len(np.shape(costs)) == 2:
        raise DataError(str(no_costs(costs)))
    if isinstance(costs, CostMatrix) and (costs.n_classes > 2 or costs.classes is not None):
        try:
            costs.aligned(names)
        except ValueError as error:
            raise DataError(f"{said}: {one_line(error)}") from error
    elif len(names) > 2 and not (isinstance(costs, str) and costs == "balanced"):
        two = ", but fp and fn are prices of two" if costs is not None else ""
        raise DataError(
            f"{said}{two}: say what errors cost, by a matrix with these {len(names)} classes (as 'adacsl costs "
            "template' writes one) or by 'balanced', or merge or drop classes first"
        )
    if len(names) > MOST_CLASSES:
        raise DataError(f"{said}, expected {MOST_CLASSES} at most: are these numbers to predict, or names of the rows?")
    if (longest := max(map(len, names), default=0)) > LONGEST:
        raise DataError(
            f"{what} has a label of {longest:,} characters, expected {LONGEST} at most: is it the right one?"
        )
    if doubled := repeated(names):
        raise DataError(
            f"{what} has different labels that all read {listed(map(repr, doubled))}: spell each class one way"
        )


def binary_labels(
    values: Any, positive: object = None, *, what: str = "the labels"
) -> tuple[NDArray[np.int64], tuple[str, str]]:
    """Return labels of two classes as 0 and 1 (positive), and the names of the negative and the positive class.

    Parameters
    ----------
    values : array or Series
        Numbers, truth values or text; none missing.
    positive : optional
        The label whose misses cost ``fn``. Text matches numbers and truth values ("1" means 1, 1.0 and True). May be
        left out where the labels are 0 and 1, -1 and 1, or false and true.
    what : str
        How messages call the labels.
    """
    series = pd.Series(values).reset_index(drop=True)
    check_present(series, what)
    codes, found = pd.factorize(series)
    names = [label_name(label) for label in found]
    counts = _counts(codes, names)
    if len(names) > 2:
        raise DataError(f"{what} has {len(names)} classes ({counts}), expected two: merge or drop classes first")
    if len(names) == 1:
        raise DataError(f"{what} has one class only ({counts}): both are needed to learn from")
    where = _position(names, positive, what, counts)
    return (codes == where).astype(np.int64), (names[1 - where], names[where])


def _counts(codes: NDArray[Any], names: list[str]) -> str:
    sizes = np.bincount(codes, minlength=len(names))
    return listed(f"{names[i]}: {sizes[i]}" for i in np.argsort(-sizes, kind="stable"))


def check_present(
    series: pd.Series[Any], what: str, advice: str = "fill in these labels or leave such rows out"
) -> None:
    """Refuse labels that are missing, or none at all."""
    missing = missing_labels(series)
    if len(series) == 0:
        raise DataError(f"{what} has no rows: at least one of each class is needed")
    if missing.any():
        first = int(missing.to_numpy().argmax()) + 1
        raise DataError(
            f"{what} is missing in {int(missing.sum())} of {len(series)} rows, first in row {first}: {advice}"
        )


def missing_labels(series: pd.Series[Any]) -> pd.Series[bool]:
    """Tell which labels are missing: gaps, and blank text."""
    missing = series.isna()
    if series.dtype == object or pd.api.types.is_string_dtype(series.dtype):
        missing |= series.map(lambda label: isinstance(label, str) and not label.strip()).astype(bool)
    return missing


def _position(names: list[str], positive: object, what: str, counts: str) -> int:
    """Return which of two labels is the positive one: as named, or where custom leaves no doubt."""
    if positive is None:
        customary = customary_positive(names)
        if customary is not None:
            return names.index(customary)
        raise DataError(
            f"which class of {what} is positive ({counts})? Name the one whose misses are costly as "
            f"positive: {names[0]!r} or {names[1]!r}"
        )
    fitting = [i for i, name in enumerate(names) if same_label(name, positive)]
    exact = [i for i in fitting if names[i] == label_name(positive)]
    if len(exact or fitting) != 1:
        raise DataError(f"{what} has no class {positive!r}{did_you_mean(positive, names)} (it has {counts})")
    return (exact or fitting)[0]
