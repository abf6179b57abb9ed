"""Duplicates and groups of samples that must stay in one fold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.datasets.columns import read_columns, recognised

with requires("train"):
    import pandas as pd
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

__all__ = ["DuplicateGroups", "keep_together", "look_of"]


AT_ONCE = 2**26
"""Bytes of images that are hashed at once."""


class DuplicateGroups(NamedTuple):
    """Samples that stay together in splits."""

    units: NDArray[np.int64]
    """For each sample, the first of those it stays together with; its own number where it is alone."""
    copies: int
    """Number of samples that equal an earlier one in all features and the label."""
    apart: int
    """Number of samples with duplicates that are split, as more of them are connected than fit into a fold."""


def look_of(x: Any) -> NDArray[np.int64]:
    """Return for each sample the first with the same features: tables, also with text and missing values, or images.

    Examples
    --------
    >>> look_of(pd.DataFrame({"a": [1.0, None, 1.0, None], "b": ["x", "y", "x", "z"]})).tolist()
    [0, 1, 0, 3]
    """
    table = isinstance(x, pd.DataFrame)
    digest = pd.util.hash_pandas_object(x, index=False).to_numpy() if table else _image_digests(x)
    return _firsts(digest)


def row_digests(x: Any, y: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 bits for each sample, features and label, that are equal for equal samples in any table format.

    Examples
    --------
    >>> one = row_digests(pd.DataFrame({"a": [1, 2], "b": ["x", None]}), np.array([0, 1]))
    >>> (one == row_digests(pd.DataFrame({"a": ["1", "2.0"], "b": ["x", ""]}), np.array([0, 1]))).all()
    np.True_
    """
    if not isinstance(x, pd.DataFrame):
        own: Any = _image_digests(x)
    else:
        _, shape, column = read_columns(x)
        values = {place: recognised(column(place)).values for place in range(shape[1])}
        own = pd.util.hash_pandas_object(pd.DataFrame(values), index=False).to_numpy()
    labelled = pd.DataFrame({"row": own, "label": np.asarray(y, dtype=np.int64)})
    return np.asarray(pd.util.hash_pandas_object(labelled, index=False).to_numpy(), dtype=np.uint64)


def _image_digests(x: NDArray[Any]) -> NDArray[np.uint64]:
    """Return 64 bits for each image: the sum of its bytes times random factors."""
    flat = x.reshape(len(x), -1)
    factors = np.random.default_rng(0).integers(0, 2**64, flat.shape[1], dtype=np.uint64)
    step = max(1, AT_ONCE // max(1, 8 * flat.shape[1]))
    with np.errstate(over="ignore"):
        parts = [flat[at : at + step].astype(np.uint64) @ factors for at in range(0, len(flat), step)]
    return np.concatenate(parts)


def keep_together(
    x: Any, y: NDArray[np.int64], groups: NDArray[Any] | None, time: NDArray[Any] | None, largest: float
) -> DuplicateGroups:
    """Return the samples that have to stay together: groups, duplicates, and what is connected by them.

    Samples of equal features stay together whatever their labels: with all of one label in training, those of the other
    label would be tested against the opposite. With a time, only samples of the same time are duplicates.

    Parameters
    ----------
    x, y
        Features and labels.
    groups, time : arrays of shape (n,), optional
    largest : float
        Samples are not kept together by their features where more than this number would be connected.

    Returns
    -------
    DuplicateGroups
        Units of the samples, and the numbers of duplicates.
    """
    look = look_of(x)
    if time is not None:
        look = _firsts(_joined(look, time))
    copies = len(y) - len(np.unique(_joined(look, y)))
    if groups is None:
        units = look
        large = np.bincount(units, minlength=len(y))[units] > largest
        units = np.where(large, np.arange(len(y)), units)
    else:
        own = _firsts(groups)
        units = _connected(own, look)
        large = np.bincount(units, minlength=len(y))[units] > largest
        units = _firsts(np.where(large, own, units))
    return DuplicateGroups(units, copies, int((large & (np.bincount(look, minlength=len(y))[look] > 1)).sum()))


def _connected(*numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first sample of each set that is connected by equal numbers of either kind."""
    rows = np.arange(len(numbers[0]))
    ends = np.concatenate(numbers)
    ones = np.ones(len(ends), dtype=np.int8)
    graph = coo_array((ones, (np.tile(rows, len(numbers)), ends)), shape=(len(rows), len(rows)))
    return _firsts(connected_components(graph, directed=False)[1])


def _joined(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
    """Return one number for each pair of values."""
    codes = pd.factorize(right)[0]
    return np.asarray(pd.factorize(left)[0] * (codes.max(initial=0) + 1) + codes, dtype=np.int64)


def _firsts(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each value the position of its first occurrence."""
    codes, unique = pd.factorize(values)
    first = np.full(len(unique), -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first[codes]
