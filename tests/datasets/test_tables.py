"""Tables from files: the same columns whole and in pieces, and one line for everything that can be wrong."""

import datetime
import decimal
import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.datasets import DataError, count_rows, read_table, stream_table
from adacsl.datasets.encoder import TableEncoder
from adacsl.datasets.readers.formats import open_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def sample(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "whole": rng.integers(-5, 1000, n),
        "real": rng.normal(size=n),
        "partial": np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 9, n)),
        "truth": rng.random(n) < 0.5,
        "word": rng.choice(["web", "city", "north west"], n),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        # numbers at first, text later: what a column is must not depend on the first rows
        "code": [f"0{i % 4}" for i in range(n - 3)] + ["A", "A", "B"],
    })  # fmt: skip
    frame["day"] = frame["day"].dt.strftime("%Y-%m-%d")
    return frame


def test_a_folder_of_parquet_parts_is_one_table(tmp_path):
    frame = sample()
    for i, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"part-{i}.parquet", index=False)
    (tmp_path / "_SUCCESS").touch()
    pd.testing.assert_frame_equal(read_table(tmp_path), frame)
    assert count_rows(tmp_path) == len(frame)
    pieces = list(stream_table(tmp_path, rows=50))
    assert [piece.index[0] for piece in pieces[:3]] == [0, 50, 67]
    pd.testing.assert_frame_equal(pd.concat(pieces), frame)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_columns_are_picked_in_the_order_asked_for(tmp_path, name):
    frame = sample()
    path = tmp_path / name
    frame.to_csv(path, index=False) if name == "t.csv" else frame.to_parquet(path)
    assert list(read_table(path, columns=["word", "whole"]).columns) == ["word", "whole"]
    assert list(next(stream_table(path, columns=["word", "whole"])).columns) == ["word", "whole"]
    assert open_table(path).columns == list(frame.columns)
    for read in (read_table, stream_table):
        with pytest.raises(DataError, match="has no column 'Word'; did you mean 'word'"):
            read(path, columns=["Word"])


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("t.csv", 1),
        ("T.CSV", 7),
        ("t.tsv", 64),
        ("t.csv.gz", 1000),
        ("t.tsv.gz", 7),
        ("t.parquet", 1),
        ("t.parquet", 7),
    ],
)
def test_pieces_are_encoded_as_the_whole_table_is(tmp_path, name, rows):
    frame, path = sample(64), tmp_path / name
    frame.to_parquet(path) if "parquet" in name else frame.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    whole = read_table(path)
    assert count_rows(path) == (64 if "parquet" in name else None)  # text is not counted
    for column in ("whole", "real", "partial", "word", "day", "code"):
        np.testing.assert_array_equal(whole[column], frame[column])  # to the last bit
    encoder = TableEncoder().fit(whole)
    pieces = list(stream_table(path, rows=rows))
    assert [len(piece) for piece in pieces[:-1]] == [rows] * (len(pieces) - 1)
    np.testing.assert_array_equal(np.concatenate([piece.index for piece in pieces]), np.arange(64))
    encoded = np.concatenate([encoder.transform(piece) for piece in pieces])
    np.testing.assert_array_equal(encoded, encoder.transform(whole))


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.one_of(st.none(), st.integers(-(10**6), 10**6)),
            st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=8),
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 5),
)
def test_any_values_survive(tmp_path_factory, values, rows):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    frame = pd.DataFrame(values, columns=["real", "gap", "text"])
    frame["text"] = "x" + frame["text"]  # words like NA are missing values
    frame.to_csv(path, index=False)
    came = read_table(path)
    np.testing.assert_array_equal(came["real"].to_numpy(float), frame["real"])
    np.testing.assert_array_equal(came["gap"].to_numpy(float), frame["gap"].to_numpy(float))
    assert came["text"].tolist() == frame["text"].tolist()
    streamed = pd.concat(stream_table(path, rows=rows))
    np.testing.assert_array_equal(pd.to_numeric(streamed["real"]).to_numpy(float), frame["real"])
    assert streamed["text"].tolist() == frame["text"].tolist()


def test_truth_values_stay_text_where_some_are_missing(tmp_path):
    came = read_table(write(tmp_path, "a,b\n1,TRUE\n2,\n3,false\n"))
    assert came["b"].tolist()[::2] == ["TRUE", "false"]
    assert came["b"].isna().tolist() == [False, True, False]


def test_missing_values_of_parquet_and_odd_types_become_plain_columns(tmp_path):
    table = pa.table({
        "whole": pa.array([1, None]), "truth": pa.array([True, None]),
        "money": pa.array([decimal.Decimal("1.5"), None]),
        "day": pa.array([datetime.date(2020, 1, 2), None]), "nothing": pa.nulls(2), "word": ["a", None],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    came = read_table(tmp_path / "t.parquet")
    assert [came[c].iloc[0] for c in ("whole", "truth", "money")] == [1.0, 1.0, 1.5]
    assert came["day"].iloc[0] == pd.Timestamp("2020-01-02")
    assert came.isna().iloc[1].all()
    assert not any(came[c].dtype == object for c in ("whole", "truth", "money", "day", "nothing"))


def test_a_pandas_index_is_a_column_only_if_it_has_a_name(tmp_path):
    frame = pd.DataFrame({"a": [1, 2]}, index=[5, 7])
    frame.to_parquet(tmp_path / "t.parquet")
    assert list(read_table(tmp_path / "t.parquet").columns) == ["a"]
    frame.rename_axis("patient").to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet")["patient"].tolist() == [5, 7]


def test_a_stream_holds_one_piece(tmp_path):
    table = pa.table({f"x{i}": np.arange(400_000, dtype=float) for i in range(10)})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=20_000)
    del table
    before = pa.total_allocated_bytes()
    peak = 0
    for piece in stream_table(tmp_path / "big.parquet", rows=10_000):
        assert len(piece) == 10_000
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < 8_000_000  # all of it is 32 MB


BAD = {
    "empty.csv": (b"", "is empty \\(0 bytes\\)"),
    "blank.csv": (b"\n\n", "is empty: expected a header line"),
    "header.csv": (b"a,b\n", "has a header \\(a, b\\) but no rows"),
    "doubled.csv": (b"a,b,a\n1,2,3\n", "several columns called 'a'"),
    "long.csv": (b"a,b\n1,2\n1,2,3\n", "is damaged: Expected 2 fields in line 3, saw 3; every line needs"),
    "longer.csv": (b"a,b\n1,2,3\n4,5,6\n", "more fields than its header"),
    "quote.csv": (b'a,b\n"1,2\n', "is damaged: EOF inside string"),
    "binary.csv": (b"\x00\x01,\x02\n", "is not text, whatever its name"),
    "image.csv": (b"\x89PNG\r\n\x1a\n\x00\x00", "is not text, whatever its name"),
    "plain.csv.gz": (b"a,b\n1,2\n", "cannot read .*Not a gzipped file"),
    "cut.csv.gz": (gzip.compress(b"a,b\n" + os.urandom(3000).hex().encode())[:2000], "cannot read .*damaged or cut"),
    "bad.parquet": (b"PAR1 but no more", "is not a Parquet file, or is damaged"),
    "text.xlsx": (b"1", "cannot read .*text.xlsx as a workbook: "),
    "text.docx": (b"1", "cannot tell what .*text.docx is: expected .csv"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named_in_one_line(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_table(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    if name != "header.csv":  # a stream without rows is no error: there is nothing to predict
        with pytest.raises(DataError, match=message):
            list(stream_table(tmp_path / name))


def test_a_stream_without_rows_yields_nothing(tmp_path):
    assert list(stream_table(write(tmp_path, "a,b\n"))) == []
    pq.write_table(pa.table({"a": pa.array([], pa.float64())}), tmp_path / "t.parquet")
    assert list(stream_table(tmp_path / "t.parquet")) == []
    with pytest.raises(DataError, match="no rows"):
        read_table(tmp_path / "t.parquet")


def test_a_bad_line_is_met_where_it_stands(tmp_path):
    path = write(tmp_path, "a,b\n" + "1,2\n" * 10 + "1,2,3\n")
    pieces = stream_table(path, rows=4)
    assert len(next(pieces)) == 4
    with pytest.raises(DataError, match="in line 12"):
        list(pieces)


def test_a_damaged_page_is_met_where_it_stands(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(0).normal(size=5000)}), path, compression="none")
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="is damaged"):
        read_table(path)


def test_missing_and_odd_paths(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*nowhere\.csv"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="folder without Parquet files"):
        read_table(tmp_path)
    with pytest.raises(ValueError, match="rows must be at least 1"):
        stream_table(tmp_path, rows=0)


def test_no_permission_is_explained(tmp_path, monkeypatch):
    path = write(tmp_path, "a\n1\n")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    with pytest.raises(DataError, match="may not be read: you have no permission"):
        read_table(path)
