"""Observation times as dates or numbers, and durations such as 7d and 3mo."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import refuse_reordered
from adacsl.datasets.columns import Column, read_columns, recognised
from adacsl.datasets.errors import DataError, check_column

SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
MONTHS = {"mo": 1, "y": 12}
MONTH = 2_629_746
LONGEST = 12_000 * MONTH
"""Seconds of 1000 years, the longest duration."""
DETECTION_ROWS = 1000
"""Number of rows by which a column is recognised as dates."""


@dataclass(frozen=True)
class Duration:
    """Duration: an amount of a unit, or of the unit of numeric times."""

    amount: float = 0.0
    unit: str = ""

    @classmethod
    def read(cls, value: Any, name: str = "gap") -> Duration:
        """Return a duration from a number, a text or a timedelta.

        Parameters
        ----------
        value : number, str, timedelta or None
            A number in the unit of the times, or "90s", "30min", "12h", "7d", "2w", "3mo", "1y".
        name : str
            Name in messages.

        Examples
        --------
        >>> Duration.read("7d"), Duration.read(30), Duration.read(None)
        (Duration(amount=7.0, unit='d'), Duration(amount=30.0, unit=''), Duration(amount=0.0, unit=''))
        """
        if value is None or isinstance(value, Duration):
            return value or cls()
        if isinstance(value, np.timedelta64 | datetime.timedelta):
            value = f"{float(np.timedelta64(value) / np.timedelta64(1, 's'))!r}s"
        units = "|".join((*SECONDS, *MONTHS))
        result = re.fullmatch(rf"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*({units}|)\s*", str(value))
        if isinstance(value, bool) or not isinstance(value, str | Real) or result is None:
            raise ValueError(
                f"{name} must be a number in the unit of the times, or such as '7d' or '3mo', got {value!r}"
            )
        made = cls(float(result[1]), result[2])
        unit = SECONDS.get(made.unit, 0) or MONTHS.get(made.unit, 0) * MONTH
        if not math.isfinite(made.amount) or made.amount * unit > LONGEST or (made.unit in MONTHS and made.amount % 1):
            raise ValueError(f"{name} must be 1000 years at most, months and years whole numbers, got {value!r}")
        return made

    def __str__(self) -> str:
        return f"{time_text(self.amount)}{self.unit}"

    def after(self, times: NDArray[Any], name: str = "gap") -> NDArray[Any]:
        """Return the times later by this duration; a month after the 31st is the end of a shorter month."""
        if not self.amount:
            return times
        dates = times.dtype.kind == "M"
        if dates and not self.unit:
            raise ValueError(f"{name}={self} has no unit, and the times are dates: give '{self}d', or '{self}h'")
        if self.unit and not dates:
            raise ValueError(f"{name}='{self}' is for dates, and the times are numbers: give a number in their unit")
        if self.unit in MONTHS:
            return _months_after(times, int(self.amount) * MONTHS[self.unit])
        if not dates:
            return np.asarray(times + self.amount)
        return np.asarray(times + np.timedelta64(round(self.amount * SECONDS[self.unit] * 1e6), "us"))


def _months_after(times: NDArray[Any], months: int) -> NDArray[Any]:
    first = times.astype("datetime64[M]")
    moved = first + np.timedelta64(months, "M")
    length = (moved + np.timedelta64(1, "M")).astype("datetime64[us]") - moved.astype("datetime64[us]")
    # one microsecond less, so that the order of times is kept
    within = np.minimum(times - first.astype("datetime64[us]"), length - np.timedelta64(1, "us"))
    return np.asarray(moved.astype("datetime64[us]") + within)


def read_times(values: Any, what: str = "time") -> NDArray[Any]:
    """Return times as datetime64 (UTC, microseconds) or as float64, one for each row, none missing.

    Parameters
    ----------
    values : array, list or column of any table library
        Dates, ISO text ("2024-03-31", "2024-03-31T08:00"), or numbers.
    what : str
        What it is called in messages.

    Examples
    --------
    >>> read_times(["2024-03-31", "2024-04-01"]).astype(str).tolist()
    ['2024-03-31T00:00:00.000000', '2024-04-01T00:00:00.000000']
    >>> read_times([3, 1]).tolist()
    [3.0, 1.0]
    """
    column = recognised(_as_column(values, what))
    if column.kind == "text":
        raise DataError(f"{what} must hold dates such as 2024-03-31, or numbers, got {_odd(column)}")
    missing = ~np.isfinite(column.values)
    if missing.any():
        raise DataError(
            f"{what} is missing in {int(missing.sum())} rows, first in row {int(missing.argmax()) + 1}: "
            "give every row a time, or remove these rows"
        )
    if column.kind == "number":
        return column.values
    return np.asarray(np.round(column.values * 1e6).astype(np.int64).astype("datetime64[us]"))


def _as_column(values: Any, what: str) -> Column:
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        table: Any = series.alias("time").to_frame().to_native()
    else:
        table = np.asarray(values)
        if table.ndim != 1:
            raise DataError(f"{what} must hold one time for each sample, got shape {table.shape}")
        table = table[:, None]
    try:
        return read_columns(table)[2](0)
    except ValueError as error:
        raise DataError(f"{what} must hold dates such as 2024-03-31, or finite numbers: {error}") from None


def _odd(column: Column) -> str:
    """Return the first text that is no date."""
    for row, value in enumerate(column.values[:DETECTION_ROWS]):
        if value != "" and recognised(column._replace(values=column.values[row : row + 1])).kind != "date":
            return f"{str(value)!r} in row {row + 1}"
    return "other text"


def take_times(
    X: Any,  # noqa: N803  scikit-learn's name
    time: Any,
    *,
    keep: Collection[str] = (),
) -> tuple[Any, NDArray[Any] | None, str | None]:
    """Return the features without the column of times, the times, and the name of that column.

    Parameters
    ----------
    X : table
        numpy, pandas, polars or pyarrow, or a mapping of arrays by name.
    time : str, array of shape (n,) or None
        The name of a column of X, or one time for each sample.
    keep : collection of str
        Columns that stay in X although they are times: the features of a fitted model, the time of its policy.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"when": [1, 2], "amount": [5, 6]})
    >>> features, times, name = take_times(table, "when")
    >>> list(features), times.tolist(), name
    (['amount'], [1.0, 2.0], 'when')
    >>> list(take_times(table, "when", keep=["when", "amount"])[0])
    ['when', 'amount']
    """
    refuse_reordered(X, time=time)
    if time is None:
        return X, None, None
    if not isinstance(time, str):
        return X, read_times(time), None
    what = f"column {time!r}"
    if isinstance(X, Mapping):  # whose readers choose columns by name
        check_column(time, X, "X")
        return X, read_times(X[time], what), time
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise DataError(f"time={time!r} names a column, but X is not a table: give one time for each sample")
    check_column(time, frame.columns, "X")
    features = X if time in keep else frame.drop(time).to_native()
    return features, read_times(frame[time].to_native(), what), time


def date_columns(X: Any) -> list[str]:  # noqa: N803
    """Return the columns of a table that hold dates.

    Examples
    --------
    >>> import pandas as pd
    >>> date_columns(pd.DataFrame({"when": ["2024-03-31", "2024-04-01"], "amount": [1, 2]}))
    ['when']
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return []
    if 0 in frame.shape:
        return []
    _, _, column = read_columns(frame.head(DETECTION_ROWS).to_native())
    kinds = enumerate(frame.schema.dtypes())
    looked_at = [i for i, kind in kinds if not kind.is_numeric() and _holds_dates(column, i)]
    names = frame.columns
    return [str(names[i]) for i in looked_at]


def _holds_dates(read: Callable[[int], Column], place: int) -> bool:
    try:
        column = recognised(read(place))
    except ValueError:  # unusable columns raise errors elsewhere
        return False
    return column.kind == "date" and not bool(np.isnan(column.values).all())


def time_text(time: Any) -> str:
    """Return a time as text: a date without the time of day where it is midnight.

    Examples
    --------
    >>> time_text(np.datetime64("2024-03-31T00:00")), time_text(np.datetime64("2024-03-31T08:30")), time_text(12.0)
    ('2024-03-31', '2024-03-31 08:30', '12')
    """
    if not isinstance(time, np.datetime64):
        return f"{time:g}" if float(f"{time:g}") == float(time) else repr(float(time))
    day, second = time.astype("datetime64[D]"), time.astype("datetime64[s]")
    if day == time:
        return str(day)
    minute = time.astype("datetime64[m]")
    return str(minute if minute == time else second).replace("T", " ")
