"""Formulas from data stay text in CSV files, and numbers stay what they are."""

import csv

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adacsl.base.escape import guarded, guarded_column, unguarded
from adacsl.storage.tables import writing_table

pa = pytest.importorskip("pyarrow")

TEXTS = st.text(st.sampled_from("=@+-\uff1d'\t\r\n 05.eE(|!ax%,"), max_size=8)


@given(TEXTS)
@example("'=1")
@example("+1e5\n")
def test_what_is_guarded_begins_as_no_formula_and_comes_back(text):
    cell = guarded(text)
    assert unguarded(cell) == text
    if cell == text and text[:1] in ("=", "@", "\t", "\r", "\n", "\uff1d"):
        pytest.fail(f"{text!r} is left as it is")
    if cell == text and text[:1] in ("+", "-"):
        assert not any(c in "'|!ax\uff1d@\t\r\n" for c in text)  # nothing that could be called


@pytest.mark.parametrize(
    "number", ["-5", "+3.2", "-1.5e-05", "-1E9", "-", "+49 30 1234", "-inf", "-nan", "5", "-5 %", "-.5e3"]
)
def test_numbers_stay_as_they_are(number):
    assert guarded(number) == unguarded(number) == number


@given(st.lists(st.none() | TEXTS, max_size=6))
def test_a_column_is_guarded_as_its_cells_are(texts):
    for kind in (pa.string(), pa.large_string()):
        expected = [None if text is None else guarded(text) for text in texts]
        assert guarded_column(pa.array(texts, kind)).to_pylist() == expected


def test_csv_files_are_guarded_and_parquet_is_as_it_came(tmp_path):
    values = {"=name": ["=cmd|x", "-5", None], "n": np.array([-1.0, 2.0, 3.0])}
    for name in ("t.csv", "t.parquet"):
        with writing_table(tmp_path / name, {"=name": pa.string(), "n": pa.float64()}) as write:
            write(values)
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["'=name", "n"], ["'=cmd|x", "-1"], ["-5", "2"], ["", "3"]]
    came = pd.read_parquet(tmp_path / "t.parquet")
    assert came.columns.tolist() == ["=name", "n"]
    assert came["=name"].tolist()[:2] == ["=cmd|x", "-5"]
