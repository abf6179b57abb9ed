"""Columns of pandas that are read directly are those that narwhals would give."""

import decimal

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from adacsl.datasets.columns import _from_pandas, _from_series

SERIES = {
    "float64": pd.Series([1.5, np.nan, np.inf, -0.0, 5e-324]),
    "float32": pd.Series([0.1, np.nan], dtype="float32"),
    "float16": pd.Series([0.5, np.nan], dtype="float16"),
    "large": pd.Series([2**63 - 1, -(2**53) - 1]),
    "uint64": pd.Series([2**64 - 1, 0], dtype="uint64"),
    "int8": pd.Series([-1, 1], dtype="int8"),
    "bool": pd.Series([True, False]),
    "str": pd.Series(["a ", None, "NA", "1.0"]),
    "python": pd.Series(["a", None, pd.NA], dtype=pd.StringDtype("python")),
    "object": pd.Series([1, "1.0", None, True, 2.5, decimal.Decimal("0.1"), pd.NaT], dtype=object),
    "texts": pd.Series(["x", None], dtype=object),
    "numbers": pd.Series([1, 2.5], dtype=object),
    "masked": pd.Series([1, None], dtype="Int64"),
    "truths": pd.Series([True, None], dtype="boolean"),
    "category": pd.Series(["a", None, "b"], dtype="category"),
    "dates": pd.Series(pd.to_datetime(["2024-03-31", None])),
    "zone": pd.Series(pd.to_datetime(["2024-03-31T14:30+02:00"], utc=True)),
    "spans": pd.Series(pd.to_timedelta(["1 day", None])),
    "arrow": pd.Series([1, None], dtype="int64[pyarrow]"),
    "empty": pd.Series([None, None], dtype=object),
}


@pytest.mark.parametrize("name", SERIES)
def test_both_ways_read_the_same_column(name):
    ready, other = _from_pandas("c", SERIES[name]), _from_series("c", nw.from_native(SERIES[name], series_only=True))
    if ready is not None:
        assert (ready.name, ready.kind) == (other.name, other.kind)
        np.testing.assert_array_equal(ready.values, other.values)
        assert ready.values.dtype.kind == other.values.dtype.kind
    usual = {"float64", "float32", "large", "uint64", "int8", "bool", "str", "python", "object", "texts", "numbers"}
    assert (ready is not None) == (name in usual | {"empty"})
