"""Duplicates, and what stays together, against comparing every row with every other."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl.datasets.duplicates import keep_together, look_of


def same(left, right):
    return all((a == b) or (pd.isna(a) and pd.isna(b)) for a, b in zip(left, right, strict=True))


def first_alike(rows):
    return [next(j for j, other in enumerate(rows) if same(own, other)) for own in rows]


@st.composite
def tables(draw):
    """Few different values, so that many rows are alike: numbers with missing values, text, dates, categories."""
    n = draw(st.integers(1, 25))

    def column(*values):
        return draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))

    table = pd.DataFrame({
        "number": column(0.0, 1.5, np.nan),
        "whole": column(3, 4),
        "text": pd.Series(column("a", "b", None), dtype=object),
        "day": pd.to_datetime(column("2024-01-01", "2024-01-02")),
        "kind": pd.Categorical(column("x", "y")),
    })  # fmt: skip
    return table, np.asarray(column(0, 1)), np.asarray(column(*range(8)))


@settings(max_examples=25)
@given(tables())
def test_alike_are_rows_that_are_equal_everywhere(drawn):
    table, _, _ = drawn
    assert look_of(table).tolist() == first_alike(table.to_numpy(dtype=object).tolist())


def connected(n, pairs):
    """The first row that can be reached from each row, step by step."""
    first = list(range(n))
    for _ in range(n):
        for i, j in pairs:
            first[i] = first[j] = min(first[i], first[j])
    return first


@settings(max_examples=25)
@given(tables(), st.booleans(), st.booleans(), st.sampled_from([2, 5, 100]))
def test_what_is_connected_stays_together(drawn, grouped, timed, largest):
    table, y, groups = drawn
    groups, time = groups if grouped else None, np.asarray(table["whole"]) if timed else None
    result = keep_together(table, y, groups, time, largest)
    rows, n = table.to_numpy(dtype=object).tolist(), len(y)
    alike = [(i, j) for i in range(n) for j in range(i) if same(rows[i], rows[j])]
    together = [(i, j) for i in range(n) for j in range(i) if grouped and groups[i] == groups[j]]
    whole = connected(n, alike + together)
    large = np.asarray([whole.count(first) > largest for first in whole])
    own = connected(n, together)
    expected = connected(n, [(i, f) for i, f in enumerate(np.where(large, own, whole).tolist())])
    assert result.units.tolist() == expected
    assert result.copies == sum(any(i == k and y[i] == y[j] for k, j in alike) for i in range(n))
    assert result.apart == sum(large[i] and any(i in pair for pair in alike) for i in range(n))


def test_images_are_compared_byte_by_byte():
    x = np.random.default_rng(0).integers(0, 255, (30, 5, 4, 3)).astype(np.uint8)
    x[7], x[20] = x[3], x[3]
    x[9] = x[8]
    x[9, 4, 3, 2] += 1  # one byte differs
    x[11] = x[10][::-1]
    assert look_of(x).tolist() == [3 if i in (7, 20) else i for i in range(30)]
    result = keep_together(x, np.arange(30) % 2, None, None, 10)
    assert (result.copies, result.apart) == (1, 0)  # 3 and 7 have one label, 20 another
    assert result.units[20] == 3  # and stays together with them all the same


@pytest.mark.parametrize("gap", [None, np.nan])
def test_missing_values_are_alike(gap):
    assert look_of(pd.DataFrame({"a": pd.Series(["x", gap, gap], dtype=object)})).tolist() == [0, 1, 1]


def test_samples_of_other_times_are_not_duplicates():
    table, y = pd.DataFrame({"a": [1, 1, 1, 2]}), np.ones(4, int)
    assert keep_together(table, y, None, None, 9).copies == 2
    result = keep_together(table, y, None, np.asarray([5, 5, 6, 6]), 9)
    assert (result.copies, result.units.tolist()) == (1, [0, 0, 2, 3])
