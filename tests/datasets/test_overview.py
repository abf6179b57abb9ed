"""What the data look like, in a few words and numbers."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl import CostMatrix, Task
from adacsl.datasets.overview import overview, overview_frame


@pytest.fixture
def task():
    n = 10
    frame = pd.DataFrame(
        {
            "amount": [10.5, *[1234.0] * 8, np.nan],
            "city": ["Ulm"] * 6 + ["Ems"] * 2 + ["Aue", None],
            "id": [f"c{i}" for i in range(n)],
            "since": pd.date_range("2024-01-30", periods=n),
            "member": [True] * 7 + [False] * 3,
            "empty": [np.nan] * n,
            "big": np.arange(n) * 1e6,
        }
    )
    return Task.from_data(frame, [1, 1, 1] + [0] * 7, {"fp": 1, "fn": np.arange(10.0)})


def test_columns_are_described_by_kind(task):
    result = overview(task)
    assert json.loads(json.dumps(result)) == result
    frame = overview_frame(result, "A false negative costs 8").set_index("column")
    assert frame["kind"].tolist() == ["number", "text", "text", "date", "yes or no", "number", "number"]
    assert frame["missing"].tolist() == [1, 1, 0, 0, 0, 10, 0]
    assert frame["distinct"].tolist() == [2, 3, 10, 10, 2, 0, 10]
    assert frame["values"].to_dict() == {
        "amount": "10.5 to 1234, half below 1234",
        "city": "Ulm 67 %, Ems 22 %",
        "id": "all different",
        "since": "2024-01-30 to 2024-02-08",
        "member": "True 70 %, False 30 %",
        "empty": "",
        "big": "0 to 9,000,000, half below 4,500,000",
    }
    assert frame.attrs["costs"] == "A false negative costs 8"
    assert frame.attrs["n_columns"] == 7


@given(st.lists(st.integers(0, 2), min_size=3, max_size=30), st.integers(0, 99))
def test_stakes_are_the_mean_of_all_wrong_ways(labels, seed):
    labels = [0, 1, 2, *labels]
    table = np.random.default_rng(seed).integers(0, 9, (3, 3)).astype(float)
    np.fill_diagonal(table, -1.0)  # being right earns something
    task = Task.from_data(np.zeros((len(labels), 1)), labels, CostMatrix.from_array(table, rows="predicted"))
    for j, result in enumerate(overview(task)["classes"]):
        each = np.mean([table[i, j] for i in range(3) if i != j]) + 1.0
        assert result["at_stake"] == pytest.approx(each * labels.count(j))


def test_wide_tables_are_cut_and_long_values_too():
    frame = pd.DataFrame({f"x{i}": [1.0, 2.0] for i in range(120)}).assign(x0=["very " * 20] * 2)
    result = overview(Task.from_data(frame, [0, 1], {"fp": 1, "fn": 2}))
    assert (len(result["columns"]), result["n_columns"]) == (100, 120)
    assert result["columns"][0]["values"] == f"{('very ' * 20)[:37]}... 100 %"
    result = overview(Task.from_data(np.zeros((2, 4, 4, 3), dtype=np.uint8), [0, 1], {"fp": 1, "fn": 2}))
    assert result["columns"] == []  # images have none
    assert result["classes"][1] == {"name": "1", "rows": 1, "at_stake": 2.0}
