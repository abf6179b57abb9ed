"""Every kind of table, against pandas, pyarrow and the databases themselves: whole, in pieces, and what is refused."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from adacsl.datasets import DataError, DataWarning, count_rows, load_task, read_table, stream_table
from adacsl.datasets.loading import data_classes
from adacsl.datasets.readers.formats import is_table, open_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
dataset = pytest.importorskip("pyarrow.dataset")
duckdb = pytest.importorskip("duckdb")
pytest.importorskip("python_calamine")


def sample(n=40):
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "whole": rng.integers(-5, 1000, n), "real": rng.normal(size=n),
        "partial": np.where(rng.random(n) < 0.3, np.nan, rng.integers(0, 9, n)),
        "word": rng.choice(["web", "Café", "a;b, c|d", 'say "no"'], n),
        "day": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")).strftime("%Y-%m-%d"),
    })  # fmt: skip


def same(came, expected):
    pd.testing.assert_frame_equal(came, expected, check_dtype=False, check_index_type=False)


# text: separators, encodings, decimal commas

WORDS = st.text(st.sampled_from("abcé ü€;,|\t\"'1."), min_size=1, max_size=6).map(lambda text: f"x{text}")


@settings(max_examples=15)
@given(
    st.lists(st.tuples(WORDS, st.integers(-999, 999), st.floats(-1e6, 1e6)), min_size=1, max_size=8),
    st.sampled_from(",;\t|"),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"]),
    st.booleans(),
)
def test_separator_and_encoding_are_found(tmp_path_factory, values, separator, encoding, packed):
    path = tmp_path_factory.mktemp("any") / ("t.csv.gz" if packed else "t.csv")
    frame = pd.DataFrame(values, columns=["word", "größe", "real"])
    frame.to_csv(path, sep=separator, encoding=encoding, index=False)
    named = pd.read_csv(path, sep=separator, encoding=encoding)
    same(read_table(path), named)
    same(pd.concat(stream_table(path, rows=3)), pd.read_csv(path, sep=separator, encoding=encoding, dtype=str))
    same(read_table(path, separator=separator, encoding=encoding), named)


@settings(max_examples=15)
@given(st.lists(st.tuples(st.one_of(st.none(), st.floats(-1e7, 1e7)), WORDS), min_size=1, max_size=8))
def test_decimal_commas_where_semicolons_separate(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    pd.DataFrame(values, columns=["real", "word"]).assign(n=3).to_csv(path, sep=";", decimal=",", index=False)
    expected = pd.read_csv(path, sep=";", decimal=",")
    came = read_table(path)
    np.testing.assert_allclose(came["real"].to_numpy(float), expected["real"].to_numpy(float), rtol=1e-15)
    streamed = pd.concat(stream_table(path, rows=2))
    np.testing.assert_array_equal(pd.to_numeric(streamed["real"]).to_numpy(float), came["real"].to_numpy(float))
    assert came["word"].tolist() == expected["word"].tolist() == streamed["word"].tolist()


def test_thousands_and_words_with_commas(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;c\n1.234,50;1,5;7\n-12,5e1;north, 3;8\n;2,5;9\n")
    came = read_table(tmp_path / "t.csv")
    assert came["a"].tolist()[:2] == [1234.5, -125.0]
    assert came["b"].tolist() == ["1.5", "north, 3", "2.5"]  # the same in pieces
    assert pd.concat(stream_table(tmp_path / "t.csv", rows=1))["b"].tolist() == came["b"].tolist()
    (tmp_path / "t.csv").write_text('a,b\n"1,5",2\n')
    assert read_table(tmp_path / "t.csv")["a"].tolist() == ["1,5"]  # a comma separates: it is no decimal one


def test_separators_that_are_hard_to_find(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n2\n")  # none
    assert read_table(path)["x"].tolist() == [1, 2]
    path.write_text('"a;b"\n1\n2\n')
    assert list(read_table(path).columns) == ["a;b"]
    path.write_text("a;b\n1;2\n")
    with pytest.raises(DataError, match="seem to be separated by ';', not by ','"):
        read_table(path, separator="comma")
    path.write_text("x\n1,5\n2,5\n")
    assert read_table(path, separator="semicolon")["x"].tolist() == [1.5, 2.5]
    path.write_bytes("\ufeffa,b\n1,2\n".encode())  # a byte order mark
    assert list(read_table(path).columns) == list(next(stream_table(path)).columns) == ["a", "b"]
    # what separates every line alike
    path.write_text("Betrag (EUR, netto, 2024);Laden\n1,5;Bonn\n2,5;Ulm\n")
    came = read_table(path)
    assert (list(came.columns), came["Laden"].tolist()) == (["Betrag (EUR, netto, 2024)", "Laden"], ["Bonn", "Ulm"])
    path.write_text('a,b\n"1;2",3\n"4;5",6\n')
    assert list(read_table(path).columns) == ["a", "b"]


def test_an_accent_far_from_the_beginning_is_found(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 400_000 + "2,é\n".encode("latin-1"))
    pieces = list(stream_table(path, rows=300_000))
    assert pieces[-1]["b"].iloc[-1] == "é"
    assert open_table(path).read_as == ["is not UTF-8 text and was read as cp1252 (name the encoding for another)"]


@pytest.mark.parametrize(
    ("content", "how", "message"),
    [
        (b"a,b\n1,\x81\n", {}, "neither UTF-8 nor cp1252"),
        ("a,b\n1,é\n".encode("cp1252"), {"encoding": "utf-8"}, "is not utf-8-sig text .*name its encoding"),
        (b"a,b\n1,2\n", {"encoding": "utf-88"}, "encoding 'utf-88' is not known"),
        (b"a,b\n1,2\n", {"encoding": "base64"}, "encoding 'base64' is not known"),
        (b"a,b\n1,2\n", {"separator": ";;"}, "separator ';;' must be one character, or one of comma"),
        (b"a,b\n1,2\n", {"sheet": "1"}, "sheet is for .xlsx.* and .*t.csv is none of these"),
        (b"a;b;a\n1;2;3\n", {}, "several columns called 'a'"),
        (b"a;b\n1;2\n1;2;3\n", {}, "Expected 2 fields in line 3, saw 3"),
    ],
)
def test_bad_text_is_explained(tmp_path, content, how, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_table(path, **how)
    assert "\n" not in str(caught.value)


# workbooks


@pytest.fixture
def book(tmp_path):
    frame = sample().assign(
        truth=lambda f: f["whole"] > 500, when=lambda f: pd.to_datetime(f["day"]).where(f.index % 5 > 0)
    )
    with pd.ExcelWriter(tmp_path / "t.xlsx", engine="openpyxl") as writer:
        frame.to_excel(writer, sheet_name="loans", index=False)
        pd.DataFrame({"a": [1, "two", None, None, 4.5], "b": [True, None, None, True, False]}).to_excel(
            writer, sheet_name="odd", index=False
        )
        pd.DataFrame().to_excel(writer, sheet_name="empty", index=False)
        pd.DataFrame([[1, 2]], columns=["a", "a"]).to_excel(writer, sheet_name="doubled", index=False)
    return tmp_path / "t.xlsx"


def test_workbooks_come_back(book):
    expected = pd.read_excel(book, engine="openpyxl")
    came = read_table(book)
    same(came, expected)
    assert came["when"].dtype.kind == "M"
    assert came["truth"].dtype == bool
    same(pd.concat(stream_table(book, rows=7)), expected)
    same(read_table(book, columns=["word", "whole"]), expected[["word", "whole"]])
    assert count_rows(book) == len(expected)
    (note,) = open_table(book).read_as
    assert note == "has the sheets loans, odd, empty, doubled: 'loans' was read (name the sheet for another)"


def test_sheets_are_named_or_numbered(book):
    for sheet in ("odd", "2"):
        came = read_table(book, sheet=sheet)
        assert came["a"].dropna().tolist() == ["1", "two", "4.5"]  # numbers among text are text
        assert came["b"].isna().tolist() == [False, True, False, False]
        assert came["b"].dropna().tolist() == [1.0, 1.0, 0.0]
    for sheet, message in (
        ("od", "has no sheet 'od'; did you mean 'odd'"),
        ("9", r"has no sheet '9' \(it has loans, odd"),
        ("empty", "sheet 'empty' of .* is empty"),
        ("doubled", "several columns called 'a'"),
    ):
        with pytest.raises(DataError, match=message):
            read_table(book, sheet=sheet)


# Feather and Arrow


@pytest.mark.parametrize("name", ["t.feather", "t.arrow", "stream.arrow"])
def test_arrow_files_come_back(tmp_path, name):
    frame, path = sample(), tmp_path / name
    table = pa.Table.from_pandas(frame, preserve_index=False)
    if name == "t.feather":
        frame.to_feather(path, compression="zstd")
    else:
        opened = pa.ipc.new_stream if "stream" in name else pa.ipc.new_file
        with opened(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=9)
    same(read_table(path), frame)
    pieces = list(stream_table(path, columns=["word", "whole"], rows=5))
    assert max(map(len, pieces)) <= 5
    same(pd.concat(pieces), frame[["word", "whole"]])
    assert open_table(path).kind("whole") == pa.int64()
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"arrow|feather.* (is not a Feather or Arrow file|is damaged)"):
        read_table(path)


# JSON lines


def test_json_lines_come_back(tmp_path):
    frame = sample()
    frame.to_json(tmp_path / "t.jsonl.gz", orient="records", lines=True, compression="gzip", double_precision=15)
    expected = pd.read_json(tmp_path / "t.jsonl.gz", lines=True, dtype=False, precise_float=True)
    for came in (read_table(tmp_path / "t.jsonl.gz"), pd.concat(stream_table(tmp_path / "t.jsonl.gz", rows=7))):
        same(came, expected)
    assert count_rows(tmp_path / "t.jsonl.gz") == len(frame)


def test_json_lines_may_differ(tmp_path):
    path = tmp_path / "t.ndjson"
    rows = [{"a": 1, "n": 1}, {"a": "x", "b": True, "n": 2}, {}, {"b": False, "c": [1], "n": 2.5}]
    path.write_text("\n\n".join(map(json.dumps, rows)) + "\n", encoding="utf-16")
    came = read_table(path)
    assert list(came.columns) == ["a", "n", "b", "c"]
    assert came["a"].dropna().tolist() == ["1", "x"]
    assert came["b"].isna().tolist() == [True, False, True, False]
    assert came["n"].tolist()[:2] == [1.0, 2.0]
    first = next(stream_table(path, columns=["n", "a"], rows=1))
    assert (first["n"].dtype, first["a"].tolist()) == (np.float64, ["1"])  # as of all lines
    assert [str(open_table(path).kind(name)) for name in ("a", "n", "b")] == ["string", "double", "double"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": \n', "line 2 of .*t.jsonl is not JSON: .*expected one object a line"),
        ("[1]\n", "line 1 of .*t.jsonl holds list, expected one object a line"),
        ('{"a": 1, "a": 2}\n', "line 1 of .*: a is given twice"),
        ("\n \n", "no rows"),
    ],
)
def test_bad_json_lines_are_explained(tmp_path, text, message):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.jsonl")


# folders of Parquet files


def test_partitions_are_columns(tmp_path):
    frame = sample().assign(year=np.tile([2023, 2024], 20), shop=np.resize(["north west", "süd", None], 40))
    pq.write_to_dataset(
        pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "t", partition_cols=["year", "shop"]
    )
    (tmp_path / "t" / "_SUCCESS").touch()
    (tmp_path / "t" / ".hidden").mkdir()
    (tmp_path / "t" / ".hidden" / "x.parquet").write_bytes(b"no table")
    expected = dataset.dataset(tmp_path / "t", partitioning="hive").to_table().to_pandas()
    order = ["year", "whole", "real"]
    for came in (read_table(tmp_path / "t"), pd.concat(stream_table(tmp_path / "t", rows=7))):
        assert came["year"].dtype == np.int64
        same(*(some.sort_values(order).reset_index(drop=True)[list(frame.columns)] for some in (came, expected)))
    assert count_rows(tmp_path / "t") == 40
    assert set(read_table(tmp_path / "t", columns=["year"])["year"]) == {2023, 2024}
    assert open_table(tmp_path / "t").kind("shop") == pa.string()


def test_bad_folders_are_explained(tmp_path):
    for folder, columns in (("y=1", {"a": [1]}), ("y=2", {"b": [1]})):
        (tmp_path / folder).mkdir()
        pd.DataFrame(columns).to_parquet(tmp_path / folder / "0.parquet")
    with pytest.raises(DataError, match=r"y=2.0\.parquet and 0\.parquet differ in columns \(a, b\)"):
        read_table(tmp_path)
    pd.DataFrame({"a": [1], "y": [2]}).to_parquet(tmp_path / "y=1" / "0.parquet")
    pd.DataFrame({"a": [1], "y": [2]}).to_parquet(tmp_path / "y=2" / "0.parquet")
    with pytest.raises(DataError, match="several columns called 'y'"):
        read_table(tmp_path)


def test_a_folder_of_images_is_not_a_table(tmp_path):
    for kind in ("cat", "dog"):
        (tmp_path / kind).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / kind / "a.png")
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "dog" / "notes.parquet")
    assert not is_table(tmp_path)
    assert load_task(tmp_path, pos_label="cat").images


# queries


@pytest.fixture
def bank(tmp_path):
    frame = sample()
    with sqlite3.connect(tmp_path / "bank.sqlite") as connection:
        frame.to_sql("loans", connection, index=False)
        connection.execute("create table odd (a, b blob)")
        connection.executemany("insert into odd values (?, ?)", [(1, b"x"), ("two", b"y"), (None, None), (4.5, b"z")])
    connection.close()
    with duckdb.connect(str(tmp_path / "bank.duckdb")) as connection:
        connection.register("frame", frame)
        connection.execute("create table loans as select * from frame")
    frame.to_parquet(tmp_path / "loans.parquet")
    return tmp_path


QUERY = "select word, whole * 2 as twice, partial from loans where whole > 100 order by real"


@pytest.mark.parametrize("name", ["bank.sqlite", "bank.duckdb", None])
def test_queries_are_read_whole_and_in_pieces(bank, name):
    if name == "bank.sqlite":
        yes = {"sql": "select word, real, iif(whole > 500, 'yes', 'no') as bad from loans", "db": bank / name}
        task = load_task(**yes, target="bad", pos_label="yes")
        assert (task.name, list(task.X.columns)) == ("bank", ["word", "real"])
        assert task.y.tolist() == (sample()["whole"] > 500).tolist()
        assert data_classes(**yes, target="bad") == ("no", "yes")
    sql = QUERY if name else QUERY.replace("loans", f"'{bank / 'loans.parquet'}'")
    with sqlite3.connect(bank / "bank.sqlite") as connection:
        expected = pd.read_sql(QUERY, connection)
    connection.close()
    how = {"sql": f"{sql};", "db": name and bank / name}
    before = {path: path.read_bytes() for path in bank.iterdir()}
    same(read_table(**how), expected)
    pieces = list(stream_table(**how, rows=4))
    assert len(pieces) > 3
    same(pd.concat(pieces), expected)
    same(read_table(**how, columns=["partial", "word"]), expected[["partial", "word"]])
    assert [str(open_table(**how).kind(c)) for c in ("word", "twice")] == ["string", "int64"]
    assert {path: path.read_bytes() for path in bank.iterdir()} == before


def test_sqlite_columns_are_what_all_their_rows_are(bank):
    how = {"sql": "select a, a as c from odd", "db": bank / "bank.sqlite"}
    assert read_table(**how)["a"].dropna().tolist() == ["1", "two", "4.5"]
    assert next(stream_table(**how, rows=1))["a"].tolist() == ["1"]
    with pytest.raises(DataError, match=r"column 'b' of .* holds values of type bytes, expected numbers"):
        load_task(sql="select b, a is null as y from odd", db=bank / "bank.sqlite", target="y")


def test_a_long_query_keeps_its_order(tmp_path):
    pd.DataFrame({"a": np.arange(300_000)}).to_parquet(tmp_path / "t.parquet", row_group_size=20_000)
    pieces = list(stream_table(sql=f"from '{tmp_path / 't.parquet'}'", rows=50_000))
    assert len(pieces) > 3
    np.testing.assert_array_equal(np.concatenate([piece["a"] for piece in pieces]), np.arange(300_000))


@pytest.mark.parametrize(
    ("sql", "db", "message"),
    [
        ("select 1; select 2", "bank.duckdb", "must be one SELECT"),
        ("drop table loans", "bank.duckdb", "must be one SELECT"),
        ("copy (select 1) to 'x.csv'", None, "must be one SELECT"),
        ("install httpfs", None, "must be one SELECT"),
        ("load httpfs", None, "must be one SELECT"),
        ("select * from 'https://localhost:1/x.parquet'", None, "failed: .*httpfs"),
        ("select * from pd", None, "failed: .*does not exist"),  # a variable of the program
        ("select * frm loans", "bank.duckdb", "failed: Parser Error"),
        ("select a, a from (select 1 a)", "bank.sqlite", "several columns called 'a'"),
        ("select * from lones", "bank.sqlite", "failed: no such table: lones"),
        ("delete from loans", "bank.sqlite", "failed: not authorized"),
        ("attach 'other.sqlite' as o", "bank.sqlite", "failed: not authorized"),
        ("pragma journal_mode = delete", "bank.sqlite", "failed: not authorized"),
        ("select 1; select 2", "bank.sqlite", "failed: .*one statement"),
        ("select 1", "nowhere.db", "there is no database .*nowhere.db"),
        ("select 1", "loans.parquet", "is not a DuckDB or SQLite file"),
        ("select * from loans where false", "bank.duckdb", "no rows"),
        ("select * from loans where 0", "bank.sqlite", "no rows"),
    ],
)
def test_queries_only_read_and_name_what_failed(bank, sql, db, message):
    with pytest.raises(DataError, match=message) as caught:
        read_table(sql=sql, db=db and bank / db)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_words_that_do_not_belong_together(bank):
    for words, message in (
        ({"db": bank / "bank.duckdb"}, "no data are given"),
        ({"path": bank / "loans.parquet", "db": bank / "bank.duckdb"}, "db is the database of an SQL query"),
        ({"path": bank / "loans.parquet", "sql": "select 1"}, "omit .*loans.parquet"),
        ({"sql": "select 1", "separator": ";"}, "separator is for .csv, .tsv, and a query is none of these"),
    ):
        with pytest.raises(DataError, match=message):
            read_table(**words)
    with pytest.raises(DataError, match=r"encoding is for .csv.*breast-cancer is none of these"):
        load_task("breast-cancer", encoding="utf-8")


# excluded samples


def test_rows_without_a_label_are_excluded_and_counted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,fee,y\n1,2,yes\n2,2,\n3,2,no\n4,2, \n5,2,no\n")
    with pytest.warns(DataWarning, match=r"t\.csv: 2 rows have no label and are excluded, 3 are used"):
        task = load_task(path, target="y", pos_label="yes")
    assert (task.X["x"].tolist(), task.y.tolist()) == ([1, 3, 5], [1, 0, 0])
    assert task.reading.facts() == {"unlabelled": 2}
    assert data_classes(path, target="y") == ("no", "yes")
    with pytest.raises(DataError, match="missing in 2 of 5 rows, first in row 2"):
        load_task(path, target="y", pos_label="yes", on_error="stop")
    with pytest.raises(DataError, match="on_error must be 'skip' or 'stop', got 'ignore'"):
        load_task(path, target="y", pos_label="yes", on_error="ignore")
    path.write_text("x,fee,y\n1,2,yes\n2,2,\n3,inf,no\n")
    with pytest.raises(DataError, match=r"row 2.*\(rows are counted without the 1 that have no label\)"):
        load_task(path, target="y", pos_label="yes", costs={"fp": 1, "fn": "fee"})
    path.write_text("x,y\n1,\n2,\n")
    with pytest.raises(DataError, match="missing in 2 of 2 rows"):
        load_task(path, target="y", pos_label="yes")


def test_broken_images_are_excluded_and_listed(tmp_path):
    for kind in ("cat", "dog"):
        (tmp_path / kind).mkdir()
        for i in range(3):
            Image.new("RGB", (6, 6), (40 * i, 9, 9)).save(tmp_path / kind / f"{i}.png")
    whole = load_task(tmp_path, pos_label="cat", image_size=6)
    (tmp_path / "cat" / "1.png").write_bytes(b"no image")
    cut = (tmp_path / "dog" / "2.png").read_bytes()
    (tmp_path / "dog" / "2.png").write_bytes(cut[:-30])
    with pytest.warns(DataWarning, match=r"2 images cannot be read and are excluded \(cat/1.png, dog/2.png\), 4 are"):
        task = load_task(tmp_path, pos_label="cat", image_size=6)
    np.testing.assert_array_equal(task.X, whole.X[[0, 2, 3, 4]])
    assert task.y.tolist() == [1, 1, 0, 0]
    assert [line.partition(": ")[0] for line in task.reading.broken] == ["cat/1.png", "dog/2.png"]
    with pytest.raises(DataError, match=r"cannot read image .*1\.png"):
        load_task(tmp_path, pos_label="cat", on_error="stop")
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(DataError, match=r"none of 6 images can be read, the first, .*0\.png: no image"):
        load_task(tmp_path, pos_label="cat")
