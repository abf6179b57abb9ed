"""Windows of time: hours, days, weeks, months, quarters or years, or equal parts of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.extras import requires

with requires("compare"):
    import pandas as pd

UNITS = ("h", "D", "W", "M", "Q", "Y")
MOST = 26
"""At most so many windows are told apart: half a year of weeks, a day of hours."""

PARTS = 10


def time_windows(times: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return the number of each row's window, from the earliest on, and the names of the windows.

    Dates go by the finest unit of the calendar that makes no more than 26 windows, weeks named by their Monday; numbers
    that are as few different ones stand for themselves, others are cut into ten windows of equally many rows.

    Examples
    --------
    >>> time_windows(np.asarray(["2026-01-30", "2026-03-02", "2027-01-05"], dtype="datetime64[us]"))[1]
    ['2026-01', '2026-03', '2027-01']
    >>> [found for found in time_windows(np.asarray([3.0, 1.0, 3.0]))]
    [array([1, 0, 1]), ['1', '3']]
    """
    if times.dtype.kind != "M":
        return _of_numbers(times)
    dates = pd.DatetimeIndex(times)
    for unit in UNITS:
        periods = dates.to_period(unit)
        if int(periods.asi8.max() - periods.asi8.min()) < MOST:
            break
    codes, kinds = pd.factorize(periods, sort=True)
    return codes.astype(np.int64), [str(kind).partition("/")[0] for kind in kinds]


def _of_numbers(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], list[str]]:
    kinds, place = np.unique(values, return_inverse=True)
    if len(kinds) <= MOST:
        return place.astype(np.int64), [f"{kind:g}" for kind in kinds]
    edges = np.unique(np.quantile(values, np.arange(1, PARTS) / PARTS, method="inverted_cdf"))
    number = np.searchsorted(edges, values)
    inside = (values[number == k] for k in range(number.max() + 1))
    return number, [f"{own.min():g} to {own.max():g}" for own in inside]
