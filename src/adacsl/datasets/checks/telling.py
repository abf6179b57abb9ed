"""Target leakage: how much of the labels one column alone tells, by its values or by where it is filled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.extras import requires

with requires("train"):
    import pandas as pd

TELLING = 0.99
"""A column that tells so much is looked at twice: of the tables at hand, no honest one comes near."""
SURE = 0.999
"""From here on it is the label under another name, but for errors in it."""
FEW = 30
"""Of classes with fewer rows, a column sorts all to their like by chance: of 30 and 30, three columns in a million."""
LARGE = 20
"""Rows that share a value speak for each other from so many on; below, they may be copies, or of one group."""
COVERED = 0.5
"""A column filled for one class only is an outcome where so much of the class has a value; below, maybe a rare fact."""
BY_CHANCE = 1e-6
"""The chance of so many rows of one class among those with a value, below which it is no chance."""
AT_FIRST = 60_000
"""So many rows are looked at before all are."""


def told_share(values: Any, y: NDArray[np.int64], n_classes: int) -> float:
    """Return the share of rows whose label one column alone tells, each class counted alike.

    A row's label is told where its value is that of many rows, most of the others of this very label; or, of numbers
    that few rows share, where the next smaller or the next larger value is mostly of its label, and rows of the same
    value do not object. Text that few rows share counts as one value, and so does what is missing. Rows never speak for
    themselves, and copies not for each other. 0 where a class has fewer than 30 rows.

    Parameters
    ----------
    values : Series or array of shape (n,)
        Numbers, dates or text.
    y : array of shape (n,)
        Class numbers.
    n_classes : int

    Examples
    --------
    >>> y = np.arange(200) % 2
    >>> told_share(pd.Series(np.where(y == 1, "refunded", None)), y, 2)
    1.0
    >>> told_share(np.arange(200.0), y, 2)
    0.0
    """
    counts = np.bincount(y, minlength=n_classes)
    column = pd.Series(values).reset_index(drop=True)
    if counts.min() < FEW:
        return 0.0
    some = _some_of_each(y, counts)
    if len(some) < len(y) and _told(column.iloc[some], y[some], n_classes) < TELLING:
        return 0.0  # too little, whatever it is exactly
    return _told(column, y, n_classes)


class Filled(NamedTuple):
    """The number of the only class with values, and the share of its rows that have one."""

    label: int
    share: float


def filled_for(present: NDArray[np.bool_], y: NDArray[np.int64], n_classes: int) -> Filled | None:
    """Return the class that alone has values in a column; None where other classes have some, or it may be chance.

    Parameters
    ----------
    present : array of shape (n,)
        Whether the column has a value.
    y : array of shape (n,)
        Class numbers.
    n_classes : int

    Examples
    --------
    >>> y = np.arange(200) % 2
    >>> filled_for(y == 1, y, 2), filled_for(np.arange(200) < 100, y, 2)
    (Filled(label=1, share=1.0), None)
    """
    filled, counts = np.bincount(y[present], minlength=n_classes), np.bincount(y, minlength=n_classes)
    n, label = int(filled.sum()), int(filled.argmax())
    if not FEW <= n < len(y) or filled[label] < SURE * n:
        return None
    if n * np.log(counts[label] / len(y)) > np.log(BY_CHANCE):
        return None
    return Filled(label, float(filled[label] / counts[label]))


def _some_of_each(y: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows of all classes, not more than enough of each."""
    most = max(AT_FIRST // len(counts), LARGE)
    if counts.max() <= most:
        return np.arange(len(y))
    rng = np.random.default_rng(0)
    own = (np.flatnonzero(y == k) for k in range(len(counts)))
    some = [rng.choice(rows, most, replace=False) if len(rows) > most else rows for rows in own]
    return np.sort(np.concatenate(some))


def _told(column: pd.Series[Any], y: NDArray[np.int64], n_classes: int) -> float:
    levels, ordered = _levels(column)
    table = np.bincount(levels * n_classes + y, minlength=n_classes * (int(levels.max()) + 1)).reshape(-1, n_classes)
    right = _by_their_value(table, ordered=ordered)
    # of each class, the share of its rows that is told
    return float(((right * table).sum(axis=0) / table.sum(axis=0)).mean())


def _levels(column: pd.Series[Any]) -> tuple[NDArray[np.int64], bool]:
    """Return the number of each row's value, and whether these numbers are in an order that means something."""
    kind = column.dtype
    if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan) if pd.api.types.is_numeric_dtype(kind) else column
        return np.asarray(np.unique(np.asarray(values), return_inverse=True)[1], dtype=np.int64), True
    places = np.asarray(pd.factorize(column, use_na_sentinel=False)[0], dtype=np.int64)
    rare = np.bincount(places) < LARGE
    return np.unique(np.where(rare[places], -1, places), return_inverse=True)[1], False


def _by_their_value(table: NDArray[np.int64], *, ordered: bool) -> NDArray[np.bool_]:
    """Return for each value and class whether the other rows of the value, or of its neighbours, tell the class."""
    sizes = table.sum(axis=1, keepdims=True)
    mostly = 2 * (table - 1) > sizes - 1
    if not ordered:
        return np.asarray((sizes >= LARGE) & mostly)
    beside = np.zeros(table.shape, dtype=bool)
    beside[1:] |= (2 * table > sizes)[:-1]
    beside[:-1] |= (2 * table > sizes)[1:]
    # few rows of one value may be copies: they do not speak for each other, but may object
    agree = (2 * (table - 1) >= sizes - 1) & beside
    return np.asarray(np.where(sizes >= LARGE, mostly, agree))
