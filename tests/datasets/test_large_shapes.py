"""One long cell, very many columns: memory and time grow with the data, not with their square."""

import json
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from adacsl.datasets import DataError, load_task, read_table
from adacsl.datasets.checks import check
from adacsl.datasets.columns import positions_among, read_columns
from adacsl.datasets.encoder import TableEncoder
from adacsl.datasets.labels import class_labels
from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.datasets.readers.base import InMemory
from adacsl.datasets.time import Duration, date_columns

ROWS, LONG = 2000, 50_000  # at the width of the longest, one column would take 400 MB


def with_cell(cell):
    rng = np.random.default_rng(0)
    words = rng.choice(["red", "green", "blue", "2024-01-01", "12"], ROWS).astype(object)
    words[ROWS // 2] = cell
    return pd.DataFrame({"note": words, "x": rng.normal(size=ROWS)})


def megabytes(work):
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoder", [TableEncoder, ColumnEncoder])
def test_one_long_cell_widens_no_column(encoder):
    # sorted alike, so that all codes are alike
    usual, long = with_cell("z"), with_cell("z" * LONG)
    result, used = megabytes(lambda: encoder().fit(long).transform(long))
    assert used < 20
    np.testing.assert_array_equal(result, encoder().fit(usual).transform(usual))
    met, used = megabytes(lambda: encoder().fit(usual).transform(long))
    assert used < 20
    expected = encoder().fit(usual).transform(usual.assign(note=usual["note"].replace("z", "never seen")))
    np.testing.assert_array_equal(met, expected)


def test_checks_take_a_long_cell():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"text": [f"{i} words" for i in range(1000)], "x": rng.normal(size=1000)})
    table.loc[3, "text"] = "w" * 200_000
    result, used = megabytes(lambda: check(table, np.arange(1000) % 2, {"fp": 1, "fn": 8}))
    assert "unique-text" in result.codes
    assert used < 20


@pytest.mark.parametrize("long", ["", "w" * 99])
def test_long_text_is_read_as_short_text_is(long):
    texts = np.array([" a ", None, float("nan"), 1.5, True, long or "w", "é", pd.NA], dtype=object)
    _, _, column = read_columns(texts[:, None])
    assert column(0).values.tolist() == ["a", "", "", "1.5", "True", long or "w", "é", ""]


def test_numbers_and_dates_among_long_text_are_found():
    numbers = np.array(["1" + "0" * 99, "2.5", ""], dtype=object)[:, None]
    np.testing.assert_array_equal(ColumnEncoder().fit(numbers).transform(numbers)[:, 0], [1e99, 2.5, np.nan])
    encoder = ColumnEncoder().fit(np.array([["2024-01-01"], ["2024-01-02"]], dtype=object))
    with pytest.raises(ValueError, match="held dates when the encoder was fitted, now it holds 'wwww"):
        encoder.transform(np.array([["2024-01-01"], ["w" * 99]], dtype=object))


def test_limits_are_named():
    assert positions_among({"a": 0, "b": 1}, np.array(["b", "c", "a"])).tolist() == [1, -1, 0]
    assert positions_among({}, np.array(["b"])).tolist() == [-1]
    with pytest.raises(DataError, match=r"has a label of 20,000 characters, expected 1000 at most"):
        class_labels(["a" * 20_000, "b", "b"], "b")
    for long in ("1e300d", "2000y", "1e20s"):
        with pytest.raises(ValueError, match="gap must be 1000 years at most"):
            Duration.read(long)
    with pytest.raises(FileNotFoundError, match="there is no such user here"):
        load_task("~nobody-of-that-name/x.csv")


def test_halves_of_characters_are_read():
    half = json.loads('"\\ud83d"')
    encoder = TableEncoder().fit(np.array([[half], ["a"], ["a"]], dtype=object))
    assert encoder.transform(np.array([[half], ["a"]], dtype=object)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_header_may_be_longer_than_what_is_looked_at(tmp_path):
    names = [f"column number {i}" for i in range(6000)]
    path = tmp_path / "wide.csv"
    for separator in (",", ";"):
        path.write_text(f"{separator.join([*names, 'y'])}\n" + 4 * f"{separator.join(['1'] * 6000)}{separator}0\n")
        assert list(read_table(path).columns) == [*names, "y"]


def test_the_last_line_shows_the_separator_too(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",a;;b,no\na;;b,0,1\nno,1,0\n")
    assert list(read_table(path).columns) == ["Unnamed: 0", "a;;b", "no"]


def test_time_grows_with_the_columns():
    names = [f"c{i}" for i in range(40_000)]
    table = pd.DataFrame(np.zeros((2, len(names))), columns=names)
    start = time.process_time()
    opened = InMemory("wide", table)
    assert opened.wanted(names) == names
    read_columns(table)
    assert date_columns(table.assign(when=["2024-01-01", "2024-01-02"])) == ["when"]
    assert time.process_time() - start < 5  # their square took half a minute
