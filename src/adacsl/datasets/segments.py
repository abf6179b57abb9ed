"""Segments of the samples by which results are shown, such as regions or ages; models do not use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.datasets.errors import DataError, check_column

with requires("train"):
    import pandas as pd

BINS = 5
"""Number of quantile bins of a numeric column."""

MOST = 10
"""The largest number of values of a text that are segments of their own, the most frequent ones."""

FEWEST = 20
"""The smallest number of samples of such a segment."""

LONGEST = 40
"""The largest number of characters of a name; longer ones are cut, where they still differ."""

MISSING = "(missing)"


class Segments(NamedTuple):
    """Segments of the samples by one column."""

    names: tuple[str, ...]
    numbers: NDArray[np.int64]
    """For each sample, the position of its segment in ``names``."""


def read_segments(given: Any, frame: Any) -> dict[str, NDArray[Any]]:
    """Return the values of segment columns.

    Parameters
    ----------
    given : str, sequence of str, mapping from str to array, or None
        Columns of ``frame``, or values of each sample by name.
    frame : DataFrame or array
        The data.
    """
    if isinstance(given, Mapping):
        return {str(name): np.asarray(values) for name, values in given.items()}
    names: Sequence[str] = [given] if isinstance(given, str) else list(given or ())
    if names and not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"segments={names} names columns, but X is not a table: give {{name: one value for each sample}}"
        )
    for name in names:
        check_column(name, frame.columns, "the table")
    return {str(name): _plain(frame[name]) for name in names}


def _plain(column: pd.Series[Any]) -> NDArray[Any]:
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)  # pandas' own integers may be missing
    return column.to_numpy()


def cut(values: Any) -> Segments:
    """Return the segments of values: quantile bins of numbers and times, one segment for each other value.

    Few different numbers are segments of their own too. Rare texts are joined as "others".

    Examples
    --------
    >>> cut([3, 18, 25, 31, 44, 52, None]).names
    ('3 to 18', '25', '31', '44', '52', '(missing)')
    >>> cut(["north", "south", "north"]).names
    ('north', 'south')
    """
    column = pd.Series(values).reset_index(drop=True).infer_objects()
    there = column.notna().to_numpy()
    known, numbers = column[there], np.zeros(len(column), dtype=np.int64)
    dates, kind = pd.api.types.is_datetime64_any_dtype(column), column.dtype
    ordered = dates or (pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind))
    names: list[str] = []
    if len(known):
        names, numbers[there] = _quantiles(known, dates=dates) if ordered else _values(known.astype(str))
    numbers[~there] = len(names)
    return Segments((*names, *([] if there.all() else [MISSING])), numbers)


def _quantiles(known: pd.Series[Any], *, dates: bool) -> tuple[list[str], NDArray[np.int64]]:
    plain = known.dt.tz_localize(None).to_numpy() if dates else known.to_numpy(dtype=np.float64)
    different = np.unique(plain)
    edges = different[:-1]
    if len(different) > BINS:
        edges = np.unique(np.quantile(plain, np.arange(1, BINS) / BINS, method="inverted_cdf"))
    # ties stay together: a bin includes all values that equal its edge
    codes = np.unique(np.searchsorted(edges, plain, side="left"), return_inverse=True)[1]
    ends = [(plain[codes == code].min(), plain[codes == code].max()) for code in range(codes.max() + 1)]
    for digits in (4, 6, 9, 17):
        names = [_span(low, high, digits) for low, high in ends]
        if len(set(names)) == len(names):
            break
    return names, codes


def _span(low: Any, high: Any, digits: int) -> str:
    first, last = (_written(end, digits) for end in (low, high))
    return first if first == last else f"{first} to {last}"


def _written(value: Any, digits: int) -> str:
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[D]" if digits < 9 else "datetime64[us]"))
    if not np.isfinite(value) or float(value).is_integer():
        return f"{value:.0f}"
    return np.format_float_positional(value, precision=digits, fractional=False, trim="-")


def _values(known: pd.Series[Any]) -> tuple[list[str], NDArray[np.int64]]:
    counts = known.value_counts()
    by_size = sorted(counts.index, key=lambda name: (-counts[name], name))
    kept = [name for name in by_size[:MOST] if counts[name] >= FEWEST]
    rare = by_size[len(kept) :]
    if len(rare) <= 1 or not kept:
        kept, rare = by_size[:MOST], by_size[MOST:]
    places = {name: place for place, name in enumerate(kept)} | dict.fromkeys(rare, len(kept))
    numbers = known.map(places).to_numpy(dtype=np.int64)
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..." for name in kept]
    kept = short if len(set(short)) == len(kept) else kept
    return [*kept, *(["others" if "others" not in kept else "others (rare)"] if rare else [])], numbers
