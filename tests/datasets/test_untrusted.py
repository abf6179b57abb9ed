"""Untrusted data files: forged types, offsets and sizes end in one line, and a database reads no other file."""

import contextlib
import gzip
import sqlite3
import struct
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest

from adacsl.cli.app import run
from adacsl.datasets import DataError, read_table, stream_table
from adacsl.datasets.errors import check_column, did_you_mean, listed
from adacsl.datasets.readers import arrow

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 6


def column(kind, *buffers):
    return pa.Array.from_buffers(kind, N, [None, *buffers])


def wild():
    ones = pa.py_buffer(struct.pack("<q", 7) * 4 * N)
    numbers = np.arange(N)
    steps = pa.py_buffer(np.arange(0, 4 * N + 1, 4).astype(np.int32))
    words = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 2, 4], np.int32)), pa.py_buffer(b"\xff\xfeab"))
    inner = pa.array([[1, 2], [3]])
    codes = pa.array([0, 1] * (N // 2), pa.int8())
    return {
        "scale above precision": (column(pa.decimal128(30, 31), ones), "a scale from 0 to its precision"),
        "negative scale": (column(pa.decimal256(70, -1), ones), "a scale from 0 to its precision"),
        "unknown zone": (pa.array(numbers, pa.timestamp("us", "Nowhere/City")), "time zone 'Nowhere/City'"),
        "far timestamp": (pa.array([2**60] * N, pa.timestamp("s")), "from year 1 to 9999"),
        "far zoned timestamp": (pa.array([2**60] * N, pa.timestamp("us", "Asia/Tokyo")), "from year 1 to 9999"),
        "far date": (pa.array([2**31 - 1] * N, pa.int32()).view(pa.date32()), "from year 1 to 9999"),
        "bad UTF-8": (column(pa.string(), steps, pa.py_buffer(b"a\xff\xfe\xed" * N)), "UTF8"),
        "bad UTF-8 in a dictionary": (pa.DictionaryArray.from_arrays(codes, words), "UTF8"),
        "nested dictionary": (pa.DictionaryArray.from_arrays(codes, inner), "dictionary"),
    }


def refused(path, gigabytes=8):
    """Return the one line that ``check`` ends with, in another process with so much memory."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({gigabytes} << 30,) * 2)"
    code = f"import sys; {limit}; from adacsl.cli.app import run; sys.exit(run())"
    words = [sys.executable, "-c", code, "check", str(path), "--target", "y"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2, done.stderr[-500:]
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def arrow_file(path, columns):
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write(batch)
    return path


@pytest.mark.parametrize("name", list(wild()))
@pytest.mark.parametrize("read", [read_table, lambda path: list(stream_table(path, rows=4))])
def test_forged_arrow_columns_are_named_in_one_line(tmp_path, name, read):
    values, expected = wild()[name]
    path = arrow_file(tmp_path / "t.feather", {"age": pa.array(range(N)), "x": values})
    with pytest.raises(DataError) as caught:
        read(path)
    message = str(caught.value)
    assert "column 'x'" in message
    assert expected in message
    assert str(path) in message
    assert "\n" not in message


def test_offsets_that_point_elsewhere_end_no_process(tmp_path):
    offsets = pa.py_buffer(np.r_[0, np.full(N - 1, 2**30), 3].astype(np.int32))
    path = arrow_file(
        tmp_path / "t.feather", {"age": pa.array(range(N)), "y": column(pa.string(), offsets, pa.py_buffer(b"web"))}
    )
    assert "column 'y'" in refused(path)


def test_names_of_columns_are_utf8(tmp_path):
    path = arrow_file(tmp_path / "t.feather", {"amount": pa.array(range(N))})
    path.write_bytes(path.read_bytes().replace(b"amount", b"a\xffou\xfet"))
    with pytest.raises(DataError, match="UTF-8"):
        read_table(path)


def test_rows_without_any_value_are_not_made(tmp_path):
    nothing = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])
    path = arrow_file(tmp_path / "t.arrow", {"age": nothing, "y": nothing})
    assert "2,147,483,647 rows" in refused(path)


def test_one_text_of_all_rows_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow, "MOST_TEXT", 1_000)
    shared = pa.DictionaryArray.from_arrays(np.zeros(N, np.int8), ["w" * 500])
    path = arrow_file(tmp_path / "t.feather", {"x": shared})
    with pytest.raises(DataError, match="3,000 bytes of text that rows share"):
        read_table(path)
    seldom = pa.DictionaryArray.from_arrays(np.zeros(N, np.int8), ["w", "w" * 500])
    assert len(read_table(arrow_file(tmp_path / "t.feather", {"x": seldom}))) == N
    views = arrow_file(tmp_path / "t.feather", {"x": pa.array(["w" * 300] * N, pa.string_view())})
    with pytest.raises(DataError, match="1,800 bytes of text"):
        read_table(views)
    monkeypatch.undo()
    assert read_table(views)["x"].tolist() == ["w" * 300] * N


def test_a_table_that_no_memory_holds_is_not_read(tmp_path, monkeypatch):
    pq.write_table(pa.table({"age": np.arange(50_000.0), "y": np.arange(50_000.0)}), tmp_path / "t.parquet")
    monkeypatch.setattr(arrow, "available_memory", lambda: 500_000)
    with pytest.raises(DataError, match=r"50,000 rows x 2 columns .* GiB of memory are free"):
        read_table(tmp_path / "t.parquet")
    assert len(read_table(tmp_path / "t.parquet", columns=["y"])) == 50_000
    assert sum(map(len, stream_table(tmp_path / "t.parquet"))) == 50_000


# sizes


def workbook(path, cells):
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    pd.DataFrame({"age": [1], "y": ["no"]}).to_excel(path, index=False)
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    parts["xl/worksheets/sheet1.xml"] = f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in parts.items():
            book.writestr(name, content)
    return path


@pytest.mark.parametrize("last", ["XFD65536", "XFD1048576"])
def test_a_cell_far_away_takes_no_memory(tmp_path, last):
    pytest.importorskip("python_calamine")
    row = last.removeprefix("XFD")
    path = workbook(
        tmp_path / "t.xlsx",
        f'<row r="1"><c r="A1"><v>1</v></c></row><row r="{row}"><c r="{last}"><v>1</v></c></row>',
    )
    assert "the used range" in refused(path)


def packed(path, block, times, begin=b""):
    with gzip.open(path, "wb") as file:
        file.write(begin)
        for _ in range(times):
            file.write(block)
    return path


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz"])
@pytest.mark.parametrize("encoding", [None, "utf-8"])
def test_text_packed_far_too_well_is_refused_before_it_is_read(tmp_path, name, encoding):
    block = b'{"age": 1, "y": "no"}\n' if "json" in name else b"1,no\n"
    path = packed(tmp_path / name, block * 50_000, 700 if "csv" in name else 150, b"age,y\n" if "csv" in name else b"")
    with pytest.raises(DataError, match=r"unpacks to more than .* unpack it first"):
        read_table(path, encoding=encoding)


def test_a_header_without_an_end_is_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"y," + b"x" * 40_000_000)
    with pytest.raises(DataError, match=r"the header of .* is longer than"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.feather"])
def test_so_many_columns_are_refused(tmp_path, name):
    frame = pd.DataFrame(np.ones((1, 50_001)), columns=[f"c{i}" for i in range(50_001)])
    if name == "t.csv":
        frame.to_csv(tmp_path / name, index=False)
    elif name == "t.jsonl":
        frame.to_json(tmp_path / name, orient="records", lines=True)
    else:
        arrow_file(tmp_path / name, {str(column): pa.array([1.0]) for column in frame})
    with pytest.raises(DataError, match="50,001 columns"):
        read_table(tmp_path / name)


def test_lines_that_each_name_another_column_fill_no_memory(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"c{i}": 1}}\n' for i in range(4_000)) + '{"y": 1}\n' * 50_000)
    with pytest.raises(DataError, match="54,000 rows x 4,001 columns"):
        read_table(path)


# databases


@pytest.mark.parametrize(
    "view",
    [
        "create view t as select * from read_csv('{path}')",
        "create view t as select * from '{path}'",
        "create view t as select content from read_text('{path}')",
        "create macro s() as table select * from read_csv('{path}'); create view t as from s()",
    ],
)
def test_a_database_reads_no_other_file(tmp_path, view):
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "secret.csv").write_text("age,y\n1,no\n2,yes\n")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(view.format(path=tmp_path / "secret.csv"))
    with pytest.raises(DataError, match=r"over .*t.duckdb failed") as caught:
        read_table(sql="select * from t", db=tmp_path / "t.duckdb")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from t -- all of it",
        "select * from t; -- all of it",
        "select * from t /* all */ ; /* of it",
        "select * from t where word <> '-- ; /*' -- not these",
        'select a, word as "--" from t',
    ],
)
def test_a_query_may_end_in_a_comment(tmp_path, sql):
    with contextlib.closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection:
        connection.executescript("create table t (a, word); insert into t values (1, 'x'), (2, 'y')")
    assert read_table(sql=sql, db=tmp_path / "t.sqlite").iloc[:, 0].tolist() == [1, 2]


def test_a_view_makes_no_giant_values(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection:
        connection.executescript("create view t as select hex(zeroblob(100000000)) as a")
    with pytest.raises(DataError, match="too big"):
        read_table(sql="select * from t", db=tmp_path / "t.sqlite")


# JSON lines


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"age": 9223372036854775808, "y": "no"}', "'age' is an integer beyond 64 bits"),
        (f'{{"age": -{"9" * 400}, "y": "no"}}', "'age' is an integer beyond 64 bits"),
        (f'{{"age": 1.5, "y": {"9" * 400}}}', "'y' is an integer beyond 64 bits"),
        (f'{{"age": {"[" * 200_000}{"]" * 200_000}, "y": "no"}}', "nested too deeply"),
        ('{"age": 1, "y": "\\uD800"}', "half of a surrogate"),
    ],
)
def test_json_that_no_table_can_hold_is_refused_with_its_line(tmp_path, capsys, line, message):
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"age": 1.5, "y": "yes"}}\n\n{line}\n')
    assert run(["check", str(path), "--target", "y"]) == 2
    error = capsys.readouterr().err
    assert f"line 3 of {path}" in error
    assert message in error
    assert len(error.splitlines()) == 1


# names in messages


def test_the_nearest_name_is_found_soon_and_shown_short():
    names = [f"{i:x<90}" for i in range(90_000)]
    start = time.monotonic()
    assert did_you_mean("q" * 90, names) == ""
    assert did_you_mean("Agee", [*names[:400], "age"]) == "; did you mean 'age'?"
    assert time.monotonic() - start < 5  # 27 s before
    assert did_you_mean("x" * 1_000_000, ["x" * 1_000_000 + "y"]) == ""


def test_long_names_are_cut_in_messages():
    assert listed(["x" * 1_000_000 + "end", "age"]) == f"{'x' * 64}...{'x' * 30}end, age"
    with pytest.raises(DataError) as caught:
        check_column("y" * 1_000_000, ["x" * 1_000_000], "t.csv")
    assert len(str(caught.value)) < 400
