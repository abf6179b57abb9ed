"""Labels as they stand in files, as 0 and 1; the rules are those of :mod:`adacsl.core.labels`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.labels import customary_positive, label_name, same_label
from adacsl.datasets.errors import DataError, did_you_mean, listed
from adacsl.extras import requires

with requires("train"):
    import pandas as pd


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
    _check_present(series, what)
    codes, found = pd.factorize(series)
    names = [label_name(label) for label in found]
    sizes = np.bincount(codes, minlength=len(names))
    counts = listed(f"{names[i]}: {sizes[i]}" for i in np.argsort(-sizes, kind="stable"))
    if len(names) > 2:
        raise DataError(f"{what} has {len(names)} classes ({counts}), expected two: merge or drop classes first")
    if len(names) == 1:
        raise DataError(f"{what} has one class only ({counts}): both are needed to learn from")
    where = _position(names, positive, what, counts)
    return (codes == where).astype(np.int64), (names[1 - where], names[where])


def _check_present(series: pd.Series[Any], what: str) -> None:
    missing = series.isna()
    if series.dtype == object or pd.api.types.is_string_dtype(series.dtype):
        missing |= series.map(lambda label: isinstance(label, str) and not label.strip()).astype(bool)
    if len(series) == 0:
        raise DataError(f"{what} has no rows: at least one of each class is needed")
    if missing.any():
        first = int(missing.to_numpy().argmax()) + 1
        raise DataError(
            f"{what} is missing in {int(missing.sum())} of {len(series)} rows, first in row {first}: "
            "fill in these labels or leave such rows out"
        )


def _position(names: list[str], positive: object, what: str, counts: str) -> int:
    """Return which of two labels is the positive one: as named, or where custom leaves no doubt."""
    if positive is None:
        customary = customary_positive(names)
        if customary is not None:
            return names.index(customary)
        raise DataError(
            f"which class of {what} is positive ({counts})? Name the one whose misses are costly: "
            f"positive={names[0]!r} or positive={names[1]!r}"
        )
    fitting = [i for i, name in enumerate(names) if same_label(name, positive)]
    exact = [i for i in fitting if names[i] == label_name(positive)]
    if len(exact or fitting) != 1:
        raise DataError(f"{what} has no class {positive!r}{did_you_mean(positive, names)} (it has {counts})")
    return (exact or fitting)[0]
