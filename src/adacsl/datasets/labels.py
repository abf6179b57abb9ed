"""Labels of any kind as 0 and 1, and which class is the positive one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.errors import DataError, did_you_mean, listed
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

POSITIVE_BY_CUSTOM = ({"0": False, "1": True}, {"-1": False, "1": True}, {"false": False, "true": True})


class Labels(NamedTuple):
    """1 = positive, and the names of the negative and the positive class."""

    y: NDArray[np.int64]
    classes: tuple[str, str]


def binary_labels(values: Any, positive: object = None, *, what: str = "the labels") -> Labels:
    """Return labels of two classes as 0 and 1.

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
    counts = _counts(names, np.bincount(codes, minlength=len(names)))
    if len(names) > 2:
        raise DataError(f"{what} has {len(names)} classes ({counts}), expected two: merge or drop classes first")
    if len(names) == 1:
        raise DataError(f"{what} has one class only ({counts}): both are needed to learn from")
    where = _custom(names, what, counts) if positive is None else _named(names, positive, what, counts)
    return Labels((codes == where).astype(np.int64), (names[1 - where], names[where]))


def label_name(label: Any) -> str:
    """Return a label as text; whole numbers without a point.

    >>> label_name(1.0), label_name(True), label_name(" yes")
    ('1', 'True', 'yes')
    """
    if isinstance(label, bytes):
        return label.decode(errors="replace").strip()
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label).strip()


def same_label(name: str, said: object) -> bool:
    """Tell whether what somebody said means the class of this name.

    >>> same_label("1", "1.0"), same_label("True", 1), same_label("True", "true"), same_label("yes", "Yes")
    (True, True, True, False)
    """
    other = label_name(said)
    if name == other:
        return True
    number, wanted = _number(name), _number(other)
    return number is not None and number == wanted


def _number(name: str) -> float | None:
    truth = {"true": 1.0, "false": 0.0}.get(name.casefold())
    if truth is not None:
        return truth
    try:
        return float(name)
    except ValueError:
        return None


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


def _counts(names: Sequence[str], counts: NDArray[Any]) -> str:
    order = np.argsort(-counts, kind="stable")
    return listed(f"{names[i]}: {counts[i]}" for i in order)


def _custom(names: list[str], what: str, counts: str) -> int:
    """Return which of two labels is the positive one where custom leaves no doubt."""
    folded = [name.casefold() for name in names]
    for custom in POSITIVE_BY_CUSTOM:
        if set(folded) == set(custom):
            return [custom[name] for name in folded].index(True)
    raise DataError(
        f"which class of {what} is positive ({counts})? Name the one whose misses are costly: "
        f"positive={names[0]!r} or positive={names[1]!r}"
    )


def _named(names: list[str], positive: object, what: str, counts: str) -> int:
    fitting = [i for i, name in enumerate(names) if same_label(name, positive)]
    exact = [i for i in fitting if names[i] == label_name(positive)]
    if len(exact or fitting) != 1:
        raise DataError(f"{what} has no class {positive!r}{did_you_mean(positive, names)} (it has {counts})")
    return (exact or fitting)[0]


__all__ = ["Labels", "binary_labels", "label_name", "same_label"]
