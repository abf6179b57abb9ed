"""Hours, days, weeks and months of rows: from dates in an array, or in a column of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PER = ("hour", "day", "week", "month")


def number_periods(times: Any, per: str, what: str = "time") -> NDArray[np.int64]:
    """Return the number of the hour, day, week (Monday to Sunday) or month that each time lies in.

    Times with a zone keep their own clock: a day ends at midnight there.

    Examples
    --------
    >>> number_periods(["2026-02-28", "2026-03-01", "2026-03-02"], "week").tolist()
    [2930, 2930, 2931]
    """
    if per not in PER:
        raise ValueError(f"per must be one of {', '.join(map(repr, PER))}, got {per!r}")
    instants = read_dates(times, what)
    if per == "week":  # the first of January 1970 was a Thursday
        return (instants.astype("datetime64[D]").astype(np.int64) + 3) // 7
    unit = {"hour": "h", "day": "D", "month": "M"}[per]
    return instants.astype(f"datetime64[{unit}]").astype(np.int64)


def read_dates(values: Any, what: str) -> NDArray[Any]:
    """Return dates of any kind (arrays, columns, ISO text) as datetime64 by their own clock; none may be missing."""
    import narwhals as nw  # noqa: PLC0415  scikit-learn alone needs none

    from adacsl.datasets.times import read_times  # noqa: PLC0415

    series = nw.from_native(values, series_only=True, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series) and getattr(series.dtype, "time_zone", None):
        values = series.dt.replace_time_zone(None).to_native()
    found = read_times(values, what)
    if found.dtype.kind != "M":
        raise ValueError(f"{what} must be dates, got numbers such as {found[:1].tolist()}")
    return found


def split_time(X: Any, name: str, features: Any) -> tuple[Any, Any]:  # noqa: N803
    """Return a table and one of its columns, the times; a column that is no feature of the model is taken out."""
    import narwhals as nw  # noqa: PLC0415

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(
            f"time={name!r} names a column, but X has no names: give the times themselves, one for each row"
        )
    if name not in frame.columns:
        raise ValueError(
            f"X has no column {name!r} to take the time from; it has {', '.join(map(repr, frame.columns))}"
        )
    times = frame.get_column(name).to_native()
    return (X if features is None or name in features else frame.drop(name).to_native()), times
