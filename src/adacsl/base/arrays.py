"""Arrays of any library, checked and converted once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_torch_array

from adacsl.base import floats


def joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the arrays of several as those of one, named by their number.

    Examples
    --------
    >>> joined([{"a": 1}, {"a": 2, "b": 3}])
    {'0.a': 1, '1.a': 2, '1.b': 3}
    """
    return {f"{i}.{name}": value for i, own in enumerate(parts) for name, value in own.items()}


def part_of(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the arrays whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


LARGEST = 1e100
"""Costs and weights are no larger, costs of errors no smaller than its inverse: they are added up and squared."""

Array = Any
"""An array of any library that follows the array API standard: the core never asks which."""


def check_whole(name: str, value: Any, least: int = 1, *, other: Sequence[str | None] = ()) -> None:
    """Raise unless a setting is a whole number, and large enough, or one of some other values.

    >>> check_whole("patience", True, other=[None])
    Traceback (most recent call last):
        ...
    ValueError: patience must be None or a whole number of at least 1, got True
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
        return
    if not any(value is one or (isinstance(value, str) and value == one) for one in other):
        choice = "".join(f"{one!r} or " for one in other)
        raise ValueError(f"{name} must be {choice}a whole number of at least {least}, got {value!r}")


def number_or_nan(value: Any) -> float:
    """Return a setting that is to be a number as a float; NaN, which lies within no limits, where it is none.

    >>> number_or_nan(np.float32(0.5)), number_or_nan("0.5"), number_or_nan([0.5])
    (0.5, nan, nan)
    """
    try:
        return math.nan if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def refuse_masked(values: Any, name: str) -> None:
    """Raise where some values are masked: what lies beneath a mask is not meant."""
    if np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise ValueError(f"{name} has {count} masked value{'s' if count > 1 else ''}: fill them in, or remove them")


def refuse_reordered(reference: Any, *, of: str = "X", **given: Any) -> None:
    """Raise where something of each sample has the index of the reference (pandas) in another order.

    Samples are matched by position. Another index, or none, has no known order and is used as it is.

    Parameters
    ----------
    reference : table, array or None
        What has the order; without an index of its own, the first of the others that has one.
    of : str
        How messages call it.
    **given
        What goes with each sample, by name; None and texts are passed over.
    """
    for name, values in given.items():
        if not hasattr(values, "iloc"):
            continue
        if not hasattr(reference, "iloc"):
            reference, of = values, name
        elif not values.index.equals(reference.index) and _same_entries(values.index, reference.index):
            raise ValueError(
                f"the index of {name} is that of {of} in another order, but samples are matched by position: reorder "
                f"it, {name}.loc[{of}.index], or give {name}.to_numpy() if the positions are right"
            )


def _same_entries(one: Any, other: Any) -> bool:
    """Return whether two indices of pandas hold the same entries, each as often."""
    if len(one) != len(other) or one.nlevels != other.nlevels:
        return False
    mine, theirs = (index.value_counts(sort=False, dropna=False) for index in (one, other))
    places = mine.index.get_indexer(theirs.index)
    return len(mine) == len(theirs) and bool((places >= 0).all() and (mine.to_numpy()[places] == theirs).all())


def as_array(values: Array, name: str) -> Array:
    """Pass arrays through untouched; turn lists, pandas and polars columns into numpy arrays."""
    if is_torch_array(values):
        return values.detach()
    if is_array_api_obj(values) and not isinstance(values, np.generic | np.ndarray):
        return values
    refuse_masked(values, name)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be numbers in rows of one length, got rows of several lengths") from None
    if array.dtype.kind not in "fiub":
        such = " ".join(repr(array.ravel()[:1].tolist()).split())[:80]
        raise TypeError(
            f"{name} must be numbers, got an array of {array.dtype} such as {such}; "
            "encode text and objects as numbers first"
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


MATRIX = "CostMatrix.from_array(K x K, rows='predicted')"
"""How costs of more than two classes are written."""


class OutsideError(ValueError):
    """Scores are numbers, but no probabilities."""


def as_vector(values: Array, name: str) -> Array:
    """Return ``values`` as a one-dimensional, non-empty array; never flatten silently."""
    array = as_array(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {tuple(array.shape)}; {_how_to_flatten(array)}")
    if array.shape[0] == 0:
        raise ValueError(f"{name} is empty: at least one sample is needed")
    return array


def _how_to_flatten(array: Array) -> str:
    """Return what to do with an array that is no vector; columns of classes are no longer vector."""
    columns = array.shape[1] if array.ndim == 2 else 1
    if columns == 2:
        return "of two columns take the positive class's, such as [:, 1]"
    if columns > 2:
        return f"with {columns} classes give costs of {columns} classes, {MATRIX}"
    return "flatten it first, for instance with .reshape(-1)"


def as_column(values: Array, like: Array, name: str) -> Array:
    """Return a vector with one entry for each sample of ``like``, in its library and on its device."""
    array = as_vector(values, name)
    if array.shape[0] != like.shape[0]:
        raise ValueError(f"{name} has {array.shape[0]} entries, expected {like.shape[0]}: one for each sample")
    return move(array, like)


def as_scores(values: Array, name: str = "scores") -> Array:
    """Return probabilities of the positive class as a checked float vector."""
    return checked_probabilities(as_vector(values, name), name)


def checked_probabilities(array: Array, name: str = "probabilities") -> Array:
    """Return an array as floats, or raise unless it has entries, every one finite and in [0, 1]."""
    if 0 in array.shape:
        raise ValueError(f"{name} are empty: at least one sample is needed")
    xp = array_namespace(array)
    if not xp.isdtype(array.dtype, "real floating"):
        array = widest(array)
    # min and max carry NaN and inf out of the array: two passes and no temporary on the good path
    low, high = float(xp.min(array)), float(xp.max(array))
    if low >= 0.0 and high <= 1.0:
        return array
    check_finite(array, name)
    raise OutsideError(
        f"{name} must be probabilities in [0, 1], got values from {low:.6g} to {high:.6g}; "
        "apply a sigmoid to logits first"
    )


def check_finite(array: Array, name: str) -> None:
    """Raise, naming the first offender, unless every entry is finite."""
    xp = array_namespace(array)
    if math.isfinite(float(xp.min(array))) and math.isfinite(float(xp.max(array))):
        return
    bad = xp.reshape(~xp.isfinite(array), (-1,))
    first, count = int(xp.argmax(xp.astype(bad, xp.int32))), count_true(bad)
    raise ValueError(
        f"{name} must be finite, got {float(xp.reshape(array, (-1,))[first])} at position {first} "
        f"({count} such value{'s' if count > 1 else ''}); remove or repair these rows"
    )


def as_binary_labels(values: Array, like: Array, name: str = "labels") -> Array:
    """Return 0/1 labels as a boolean vector (True = positive), in the library and on the device of ``like``."""
    array = as_column(values, like, name)
    if array.dtype == array_namespace(array).bool:
        return array
    positive = array == 1
    known = count_true(positive) + count_true(array == 0)
    if known != array.shape[0]:
        other = array[~(positive | (array == 0))][0]
        raise ValueError(
            f"{name} must be 0 or 1, got {other.item() if hasattr(other, 'item') else other!r} "
            f"among others ({array.shape[0] - known} of {array.shape[0]}); "
            f"encode the positive class as 1 and the other as 0, or, of more classes, give costs of as many, {MATRIX}"
        )
    return positive


def as_classes(values: Array, n_classes: int, name: str) -> Array:
    """Return class numbers 0 .. K-1 as an integer vector."""
    array = as_vector(values, name)
    xp = array_namespace(array)
    if array.dtype == xp.bool:
        return xp.astype(array, xp.int64)
    if xp.isdtype(array.dtype, "real floating"):
        check_finite(array, name)
        if not bool(xp.all(array == xp.round(array))):
            raise ValueError(f"{name} must be class numbers, got fractional values; decide first")
    classes = xp.astype(array, xp.int64)
    low, high = int(xp.min(classes)), int(xp.max(classes))
    if low < 0 or high >= n_classes:
        more = "" if low < 0 else f": costs are of {n_classes} classes, those of {high + 1} are a matrix, {MATRIX}"
        raise ValueError(
            f"{name} must be class numbers from 0 to {n_classes - 1}, got values from {low} to {high}{more}"
        )
    return classes


def as_probabilities(values: Array, n_classes: int) -> Array:
    """Return checked probabilities: those of the positive class, (n,), or of every class, (n, K)."""
    array = as_array(values, "probabilities")
    wanted = f"(n, {n_classes})" if n_classes > 2 else "(n,) or (n, 2)"
    if not ((array.ndim == 1 and n_classes == 2) or (array.ndim == 2 and array.shape[1] == n_classes)):
        raise ValueError(f"probabilities must have shape {wanted}, got {tuple(array.shape)}")
    array = checked_probabilities(array)
    xp = array_namespace(array)
    if array.ndim == 1:
        return array
    wide = xp.astype(array, default_float(xp, array), copy=False)
    sums = wide @ xp.ones(n_classes, dtype=wide.dtype, device=device(wide))  # faster than a sum over a short axis
    off = float(xp.max(xp.abs(sums - 1.0)))
    if off > 1e-2:
        raise ValueError(f"each row of probabilities must sum to 1, one is off by {off:.3g}; apply a softmax first")
    return array


def as_weights(values: Array | None, like: Array, name: str = "sample_weight") -> Array | None:
    """Return non-negative weights in wide floats, in the library and on the device of ``like``; None stays None."""
    if values is None:
        return None
    array = widest(as_column(values, like, name))
    xp = array_namespace(array)
    check_finite(array, name)
    if float(xp.min(array)) < 0:
        raise ValueError(f"{name} must not be negative, got {float(xp.min(array)):g}")
    if float(xp.max(array)) == 0:
        raise ValueError(f"{name} is zero everywhere: give some samples a positive weight")
    if float(xp.max(array)) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g}, got {float(xp.max(array)):g}: divide all by their mean")
    return array


def move(array: Array, like: Array) -> Array:
    """Bring ``array`` into the library and onto the device of ``like`` (no copy if it is there)."""
    if type(array) is type(like) and device(array) == device(like):
        return array
    if is_array_api_obj(array) and not isinstance(array, np.ndarray):
        array = np.from_dlpack(array.cpu()) if is_torch_array(array) else np.asarray(array)
    if is_torch_array(like) and isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.copy()  # torch has no read-only tensors and warns of them
    return array_namespace(like).asarray(array, device=device(like))


def as_host(values: Array) -> Any:
    """Return a float or array of any library and device as numpy."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


def default_float(xp: Any, array: Array) -> Any:
    """Return the widest float of the array's device: float64, except where it does not exist (Apple's MPS)."""
    return xp.float32 if str(device(array)).startswith("mps") else xp.float64


def widest(array: Array) -> Array:
    """Return a copy in the widest float of the array's device."""
    xp = array_namespace(array)
    return xp.astype(array, default_float(xp, array))


def widen(array: Array) -> Array:
    """Half precision becomes float32 (exactly); everything else stays as it is."""
    xp = array_namespace(array)
    return xp.astype(array, xp.float32) if floats.kind_of(array) in ("float16", "bfloat16") else array


def count_true(mask: Array) -> int:
    """Count exactly, in 64-bit integers."""
    return int(array_namespace(mask).count_nonzero(mask))


def count_outcomes(true: Array, pred: Array, n_classes: int, n_actions: int = 2) -> list[tuple[int, int, int]]:
    """Return how often each class was called for each: (predicted, actual, count)."""
    if max(n_classes, n_actions) > 2:
        result = array_namespace(true).unique_counts(pred * n_classes + true)
        pairs = ((int(value), int(count)) for value, count in zip(result[0], result[1], strict=True))
        return [(value // n_classes, value % n_classes, count) for value, count in pairs]
    actual, called = true == 1, pred == 1
    tp, positives, alarms = count_true(actual & called), count_true(actual), count_true(called)
    return [(0, 0, true.shape[0] - positives - alarms + tp), (0, 1, positives - tp), (1, 0, alarms - tp), (1, 1, tp)]
