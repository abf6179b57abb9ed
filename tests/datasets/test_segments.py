"""Segments: bins, their names, and that they are excluded from the model."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl import Task
from adacsl.datasets.errors import DataError
from adacsl.datasets.loading import load_task
from adacsl.datasets.segments import BINS, FEWEST, MISSING, MOST, cut

NUMBERS = st.lists(st.none() | st.integers(-5, 30) | st.floats(-1e6, 1e6), min_size=1, max_size=80)


@given(NUMBERS)
def test_numbers_are_cut_into_few_parts_that_do_not_overlap(values):
    column = pd.Series(values, dtype=float)
    names, numbers = cut(column)
    assert len(set(names)) == len(names) <= BINS + 1
    assert set(numbers) == set(range(len(names)))
    assert [names[k] == MISSING for k in numbers] == column.isna().tolist()
    parts = (column[numbers == k].dropna() for k in range(len(names)))
    ends = [(part.min(), part.max()) for part in parts if len(part)]
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(ends))


@given(st.integers(1, 400), st.integers(0, 3))
def test_different_numbers_have_parts_of_about_equal_size(n, seed):
    numbers = cut(np.random.default_rng(seed).permutation(n) + 0.5).numbers
    sizes = np.bincount(numbers)
    assert len(sizes) == min(n, BINS)
    assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.integers(1, 60), min_size=1, max_size=25), st.integers(0, 5))
def test_texts_stand_for_themselves_and_rare_ones_are_joined(sizes, missing):
    values = [f"v{k}" for k, n in enumerate(sizes) for _ in range(n)] + [None] * missing
    names, numbers = cut(np.asarray(values, dtype=object))
    called = np.asarray(names)[numbers]
    joined = {value for value, name in zip(values, called, strict=True) if name == "others"}
    assert all(name in (value, "others", MISSING) for value, name in zip(values, called, strict=True))
    assert len(names) <= MOST + 2
    assert len(joined) != 1 or len(set(values)) > MOST
    if joined and any(n >= FEWEST for n in sizes):
        separate = [name for name in names if name not in ("others", MISSING)]
        assert min(sizes[int(name[1:])] for name in separate) >= max(sizes[int(name[1:])] for name in joined)


def test_parts_have_names_that_people_read():
    assert cut([0.0] * 90 + [1.5, 2.25]).names == ("0", "1.5", "2.25")
    assert cut([0] * 80 + list(range(20))).names == ("0", "1 to 19")
    assert cut([True, False, True]).names == ("True", "False")
    assert cut(pd.date_range("2024-01-01", periods=10)).names[0] == "2024-01-01 to 2024-01-02"
    assert cut(pd.array([2019, 2020, None], dtype="Int64")).names == ("2019", "2020", MISSING)
    assert cut([1.00001, 1.00002, 1.00003, 1.00004, 1.00005, 1.00006]).names[1] == "1.00003"
    assert cut(["others"] * 30 + ["a"] * 3 + ["b"] * 3).names == ("others", "others (rare)")
    assert cut([None, None]).names == (MISSING,)
    assert cut(["x" * 99, "y"]).names == ("x" * 37 + "...", "y")
    assert cut(["x" * 99, "x" * 98]).names == ("x" * 98, "x" * 99)


@pytest.fixture
def frame():
    return pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "city": ["Ulm", "Ems", "Ulm", "Aue"], "y": [0, 1, 0, 1]})


def test_a_task_holds_them_and_its_rows_do(frame):
    task = Task.from_data(frame[["a", "city"]], frame["y"], {"fp": 1, "fn": 2}, segments="city")
    assert list(task.X.columns) == ["a", "city"]
    assert task.segments["city"].tolist() == ["Ulm", "Ems", "Ulm", "Aue"]
    assert task.rows([1, 3]).segments["city"].tolist() == ["Ems", "Aue"]
    plain = Task.from_data(frame[["a", "city"]], frame["y"], {"fp": 1, "fn": 2}, segments={"half": [0, 0, 1, 1]})
    assert plain.segments["half"].tolist() == [0, 0, 1, 1]
    assert plain.digest == task.digest  # results do not depend on it


def test_segments_of_files_and_wrong_ones(frame, tmp_path):
    costs = {"fp": 1, "fn": 2}
    frame.to_csv(tmp_path / "rows.csv", index=False)
    task = load_task(tmp_path / "rows.csv", target="y", segments=["city"], drop=["city"])  # dropped, and a segment
    assert list(task.X.columns) == ["a"]
    assert task.segments["city"].tolist()[:3] == ["Ulm", "Ems", "Ulm"]
    with pytest.raises(DataError, match="no column 'town'"):
        Task.from_data(frame[["a", "city"]], frame["y"], costs, segments=["town"])
    with pytest.raises(ValueError, match="one value for each of 4 samples"):
        Task.from_data(frame[["a"]], frame["y"], costs, segments={"half": [0, 1]})
    with pytest.raises(DataError, match="X is not a table"):
        Task.from_data(np.zeros((4, 2, 2, 3), dtype=np.uint8), frame["y"], costs, segments=["city"])
    with pytest.raises(DataError, match="has no column 'town'"):
        load_task(tmp_path / "rows.csv", target="y", segments=["town"])
