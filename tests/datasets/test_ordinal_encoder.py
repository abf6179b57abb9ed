"""ColumnEncoder: what boosters get to see of a table."""

import json

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.datasets.ordinal_encoder import ColumnEncoder


def test_kinds_of_columns():
    table = pd.DataFrame(
        {
            "number": [1.5, None, -2.0],
            "whole": [1, 2, 3],
            "truth": [True, False, True],
            "text": ["b", "a", None],
            "text of numbers": ["3", "", "1"],
            "category of numbers": pd.Categorical([10, 9, 10]),
            "date": pd.to_datetime(["2024-01-01", None, "2024-01-02"]),
            "text of dates": ["2024-01-01", "2024-01-03", None],
            "nothing": [None, None, None],
        }
    )
    encoder = ColumnEncoder().fit(table)
    result = encoder.transform(table)
    assert [c["kind"] for c in encoder.columns] == [
        "number", "number", "number", "category", "number", "category", "date", "date", "number",
    ]  # fmt: skip
    assert encoder.categories == (3, 5)
    day = 86400.0
    assert result[:, 0].tolist()[::2] == [1.5, -2.0]
    assert np.isnan(result[1, 0])
    assert result[:2, 3].tolist() == [1.0, 0.0]
    assert np.isnan(result[2, 3])
    assert result[:, 5].tolist() == [0.0, 1.0, 0.0]  # levels are text: "10" comes before "9"
    assert result[2, 6] - result[0, 6] == day
    assert result[1, 7] - result[0, 7] == 2 * day
    assert np.isnan(result[:, 8]).all()


@pytest.mark.parametrize("make", [pd.DataFrame, polars.DataFrame, pyarrow.table], ids=["pandas", "polars", "pyarrow"])
def test_libraries_agree(make):
    columns = {"a": [1.0, 2.5, 3.0], "b": ["x", "y", "x"]}
    assert ColumnEncoder().fit(make(columns)).transform(make(columns)).tolist() == [[1, 0], [2.5, 1], [3, 0]]
    X = np.array([["a", 1], ["b", None], ["a", 3.5]], dtype=object)
    np.testing.assert_array_equal(ColumnEncoder().fit(X).transform(X), [[0, 1], [1, np.nan], [0, 3.5]])


@given(st.lists(st.text(alphabet="abc é", max_size=3).map(str.strip), min_size=1, max_size=30))
def test_codes_name_the_levels(values):
    X = pd.DataFrame({"v": pd.Series(["z", *values], dtype=object)})
    encoder = ColumnEncoder().fit(X)
    codes = encoder.transform(X)[:, 0]
    levels = encoder.columns[0]["levels"]
    assert levels == sorted(set(levels))
    for value, code in zip(["z", *values], codes, strict=True):
        assert np.isnan(code) if value == "" else levels[int(code)] == value


def test_json_and_back():
    X = pd.DataFrame({"a": [1.0, None], "b": ["x", "ü"]})
    encoder = ColumnEncoder().fit(X)
    again = ColumnEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert np.array_equal(again.transform(X), encoder.transform(X), equal_nan=True)
    assert again.categories == (1,)
    with pytest.raises(ValueError, match="have format 9; this version of adacsl reads 1"):
        ColumnEncoder.from_dict({"format": 9, "columns": []})


def test_wrong_tables_are_refused():
    encoder = ColumnEncoder().fit(np.ones((3, 2)))
    with pytest.raises(ValueError, match="X has 3 features, but 2 were expected"):
        encoder.transform(np.ones((3, 3)))
    with pytest.raises(ValueError, match="0 sample"):
        encoder.transform(np.ones((0, 2)))
    x = np.array([[1.0, 2.0], [3.0, np.inf]])
    for read in (encoder.transform, ColumnEncoder().fit):
        with pytest.raises(ValueError, match=r"column 'x1' holds infinite numbers \(1 of 2 rows, first in row 2\)"):
            read(x)


def test_only_the_most_frequent_levels():
    table = pd.DataFrame({"shop": ["b", "a", "b", "c", "c", "b"], "n": range(6)})
    encoder = ColumnEncoder(max_levels=2).fit(table)
    assert [column["levels"] for column in encoder.columns] == [["b", "c"], []]
    codes = encoder.transform(table)[:, 0]
    np.testing.assert_array_equal(codes, [0, np.nan, 0, 1, 1, 0])
    assert np.isnan(encoder.transform(table.assign(shop="new"))[:, 0]).all()
