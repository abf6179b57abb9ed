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

    from adacsl.datasets.columns import Column, parse_dates  # noqa: PLC0415

    series = nw.from_native(values, series_only=True, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        if getattr(series.dtype, "time_zone", None):
            series = series.dt.replace_time_zone(None)
        values = series.to_numpy()
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{what} must be one date for each row, got shape {array.shape}")
    if array.dtype.kind in "OUST":
        text = np.strings.strip(array.astype(str))
        missing = np.isin(text, ("", "None", "nan", "NaN", "NaT", "<NA>"))
        seconds = parse_dates(Column(what, "text", np.where(missing, "", text)))
        if seconds is None:
            raise ValueError(f"{what} must be dates, or text such as 2026-03-01 or 2026-03-01 14:30, got {text[0]!r}")
        array = np.where(missing, np.nan, seconds * 1e6).astype("datetime64[us]")
    if array.dtype.kind != "M":
        raise ValueError(f"{what} must be dates, got {array.dtype} such as {array[:1].tolist()}")
    if (missing := np.isnat(array)).any():
        raise ValueError(
            f"{what} is missing in {int(missing.sum())} rows, first in row {int(missing.argmax())}: a row without a "
            "time belongs to no period"
        )
    return array


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
