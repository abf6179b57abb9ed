"""Data files that are damaged or forged: Arrow, Parquet, workbooks, packed text, JSON lines, databases.

Each is read by ``adacsl check`` in another process, as what a library written in C++ makes of it may be the end of that
process; Arrow streams are also sent to a served model there.

python -m benchmarks.attacks.data_files     that process: a job a line comes in, what came of it goes out
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import gzip
import json
import os
import random
import resource
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.attacks.command_lines import Answer, call
from benchmarks.attacks.scoreboard import Attack, Attempt

ROOT = Path(__file__).resolve().parents[2]
SECONDS, MEGABYTES = 30, 1_000
"""So long, and so much more memory, may a file take."""
ADDRESSES = 8 << 30
"""Bytes of addresses of the process that reads: the machine is not to suffer."""
LONGEST_LINE = 2_000
ALL_FROM = 100
"""From so many tries on, every forged file is one of them."""
ARROW = "application/vnd.apache.arrow.stream"
COSTS = ("--target", "y", "--pos-label", "yes", "--fn", "8", "--fp", "1")


class Case(NamedTuple):
    """A file, and whether it must be refused; where not, refusing it in one line is as good as reading it."""

    name: str
    path: Path
    refused: bool = False
    words: tuple[str, ...] = ()
    """In place of the path: a query and its database."""


# tables


def rows(n: int = 60) -> pd.DataFrame:
    """Return a small table with numbers, text, dates and labels."""
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.4
    return pd.DataFrame(
        {
            "amount": np.round(rng.lognormal(size=n) + y, 2),
            "age": rng.integers(18, 80, n),
            "shop": np.where(rng.random(n) < 0.3 + 0.3 * y, "web", "city"),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
            "y": np.where(y, "yes", "no"),
        }
    )


def plain() -> pa.Table:
    """Return the table as Arrow has it."""
    return pa.Table.from_pandas(rows(), preserve_index=False)


def stream(table: Any) -> bytes:
    """Return an Arrow IPC stream; nothing of the table is checked."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue())


# forged Arrow


def wild_columns() -> Iterator[tuple[str, Any]]:
    """Yield columns, 60 rows each, that no writer would make."""
    n = len(rows())
    zeros = pa.py_buffer(bytes(64 * n))

    def made(kind: Any, *buffers: Any) -> Any:
        return pa.Array.from_buffers(kind, n, [None, *buffers])

    for width, precision in ((pa.decimal256, 70), (pa.decimal128, 30)):
        for scale in (67_108_869, -67_108_869, 2**31 - 1, -(2**31), precision + 1, -1):
            ones = pa.py_buffer(struct.pack("<q", 7) * 4 * n)
            yield f"{width.__name__}({precision}, {scale})", made(width(precision, scale), ones)
    for zone in ("Nowhere/City", "../../etc/passwd", "+99:99", "x" * 100_000, "\x00", "/etc/localtime", "Europe"):
        yield f"time zone {zone[:20]!r}", pa.array(np.arange(n), pa.timestamp("us", zone))
    for unit in ("s", "us", "ns"):
        for value in (2**63 - 1, -(2**60)):
            yield f"timestamp {unit} {value}", pa.array([value] * n, pa.timestamp(unit))
            yield f"timestamp {unit} {value} with a zone", pa.array([value] * n, pa.timestamp(unit, "Asia/Tokyo"))
    for value in (2**31 - 1, -(2**31)):
        yield f"date32 {value}", pa.array([value] * n, pa.int32()).view(pa.date32())
    for value in (2**63 - 1, -(2**63), 1):
        yield f"date64 {value}", pa.array([value] * n, pa.int64()).view(pa.date64())
    yield "time64 beyond a day", pa.array([2**62] * n, pa.int64()).view(pa.time64("us"))
    yield "durations", pa.array([2**62] * n, pa.int64()).view(pa.duration("s"))
    yield "intervals", made(pa.month_day_nano_interval(), pa.py_buffer(b"\x7f" * 16 * n))
    offsets = np.r_[0, np.full(n - 1, 2**30), 3].astype(np.int32)
    yield "offsets outside", made(pa.string(), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"web"))
    back = np.r_[0, np.full(n - 1, 3), 0].astype(np.int32)
    yield "offsets backwards", made(pa.string(), pa.py_buffer(back.tobytes()), pa.py_buffer(b"web"))
    steps = np.arange(0, 4 * n + 1, 4).astype(np.int32)
    yield "bad UTF-8", made(pa.string(), pa.py_buffer(steps.tobytes()), pa.py_buffer(b"a\xff\xfe\xed" * n))
    words = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 2, 4], np.int32)), pa.py_buffer(b"\xff\xfeab"))
    yield "bad UTF-8 in a dictionary", pa.DictionaryArray.from_arrays(pa.array([0, 1] * (n // 2), pa.int8()), words)
    codes = pa.Array.from_buffers(pa.int32(), n, [None, pa.py_buffer(np.full(n, 2**30, np.int32).tobytes())])
    yield "codes outside", pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)
    inner = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["a", "b"])
    yield "a dictionary of dictionaries", pa.DictionaryArray.from_arrays(pa.array([0, 1] * (n // 2), pa.int8()), inner)
    lists = pa.array([[1, 2], [3]], pa.list_(pa.int64()))
    yield "a dictionary of lists", pa.DictionaryArray.from_arrays(pa.array([0, 1] * (n // 2), pa.int8()), lists)
    far = pa.ListArray.from_arrays(pa.array(np.arange(n + 1), pa.int32()), pa.nulls(n))
    yield "lists of nothing", far
    bad = pa.Array.from_buffers(
        pa.list_(pa.int64()), n, [None, pa.py_buffer(offsets.tobytes())], children=[pa.array([1, 2, 3])]
    )
    yield "lists that end outside", bad
    yield "structs", pa.array([{"a": 1, "b": "x"}] * n)
    yield "a wild decimal in a struct", pa.StructArray.from_arrays([made(pa.decimal256(70, 67_108_869), zeros)], ["d"])
    yield "runs", pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array(["x"]))
    views = b"".join(struct.pack("<i4sii", 2**20, b"abcd", 7, 2**20) for _ in range(n))
    yield "views outside", made(pa.string_view(), pa.py_buffer(views), pa.py_buffer(b"abc"))
    union = pa.UnionArray.from_sparse(pa.array([0] * n, pa.int8()), [pa.array(["x"] * n)])
    yield "a union", union
    yield (
        "a tensor",
        pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), [2]), pa.array([[1.0, 2.0]] * n, pa.list_(pa.float32(), 2))
        ),
    )
    yield "a uuid", pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"] * n, pa.binary(16)))
    yield "JSON", pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}'] * n))
    yield "binary", pa.array([b"\xff\x00"] * n)
    yield "half floats", pa.array(np.zeros(n, np.float16))
    yield "long text of all rows", pa.DictionaryArray.from_arrays(np.zeros(n, np.int8), ["w" * 1_000_000])


UNSOUND = (
    "decimal", "time zone", "timestamp", "date", "offsets", "bad UTF-8", "codes", "views", "lists that end",
    "a wild decimal",
)  # fmt: skip
"""Columns that begin so mean nothing, and are never read."""
SOUND = ("timestamp ns",)
"""Nanoseconds reach from 1677 to 2262: all are dates."""


def _unsound(name: str) -> bool:
    return name.startswith(UNSOUND) and not name.startswith(SOUND)


def forged_arrow(folder: Path) -> Iterator[Case]:
    """Yield Arrow streams and files with one column that is wild."""
    for number, (name, column) in enumerate(wild_columns()):
        table = plain()
        batch = pa.RecordBatch.from_arrays(
            [*(one.combine_chunks() for one in table.columns), column], [*table.column_names, "wild"]
        )
        path = folder / f"wild-{number}.arrow"
        path.write_bytes(stream(batch))
        yield Case(f"Arrow, {name}", path, _unsound(name))
        label = pa.RecordBatch.from_arrays([table["age"].combine_chunks(), column], ["age", "y"])
        path = folder / f"label-{number}.feather"
        with contextlib.suppress(pa.ArrowException), pa.OSFile(str(path), "wb") as sink:
            with pa.ipc.new_file(sink, label.schema) as writer:
                writer.write(label)
            yield Case(f"Feather, labels: {name}", path, _unsound(name))
    nothing = pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])
    many = pa.RecordBatch.from_arrays([nothing, nothing], ["age", "y"])
    (folder / "nulls.arrow").write_bytes(stream(many))
    yield Case("Arrow, 2 billion rows of nothing", folder / "nulls.arrow", True)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int64()), pa.array([1.5]))
    (folder / "runs.arrow").write_bytes(stream(pa.RecordBatch.from_arrays([runs, runs], ["age", "y"])))
    shared = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int8), ["w" * 1_000_000])
    (folder / "text.arrow").write_bytes(stream(pa.RecordBatch.from_arrays([shared, shared], ["age", "y"])))
    yield Case("Arrow, 100 GB of one text", folder / "text.arrow", True)
    yield Case("Arrow, one run of 2 billion rows", folder / "runs.arrow", True)
    named = stream(plain()).replace(b"amount", b"a\xffou\xfet")
    (folder / "names.arrow").write_bytes(named)
    yield Case("Arrow, a name that is no UTF-8", folder / "names.arrow", True)
    zone = plain().append_column("wild", pa.array(np.arange(len(rows())), pa.timestamp("us", "Europe/Oslo")))
    (folder / "zone.arrow").write_bytes(stream(zone).replace(b"Europe/Oslo", b"Eur\xffpe/\xfeslo"))
    yield Case("Arrow, a time zone that is no UTF-8", folder / "zone.arrow", True)


def forged_parquet(folder: Path) -> Iterator[Case]:
    """Yield Parquet files with one column that is wild, as far as they can be written."""
    for number, (name, column) in enumerate(wild_columns()):
        try:
            column.validate(full=True)  # the writer, in this process, trusts its columns
        except pa.ArrowException:
            continue
        if "decimal" in name:
            continue
        path = folder / f"wild-{number}.parquet"
        table = plain().append_column("wild", pa.chunked_array([column]))
        try:
            pq.write_table(table, path)
        except Exception:  # most are refused by the writer
            path.unlink(missing_ok=True)
            continue
        yield Case(f"Parquet, {name}", path, _unsound(name) and not name.startswith("date"))


# packed, wide, nested


def _workbook(path: Path, cells: str, *, more: dict[str, bytes] | None = None) -> None:
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rel = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packages = "http://schemas.openxmlformats.org/package/2006"
    form = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{packages}/content-types"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType='
        f'"{form}.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType='
        f'"{form}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{packages}/relationships"><Relationship Id="rId1" Type='
        f'"{rel}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{rel}"><sheets><sheet name="a" sheetId="1" r:id="rId1"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{packages}/relationships"><Relationship Id="rId1" Type='
        f'"{rel}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, text in parts.items():
            book.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
        for name, content in (more or {}).items():
            book.writestr(name, content)


def forged_workbooks(folder: Path) -> Iterator[Case]:
    """Yield workbooks of a few kB whose cells lie far apart, or that hold one giant text."""
    first = (
        '<row r="1"><c r="A1" t="inlineStr"><is><t>age</t></is></c><c r="B1" t="inlineStr"><is><t>y</t></is></c></row>'
    )
    last = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    cells = {
        "a cell at XFD1048576": first + last,
        "cells at the edges": first
        + '<row r="2"><c r="XFD2"><v>1</v></c></row><row r="1048576"><c r="A1048576"/></row>',
        "a row beyond all": first + '<row r="4294967295"><c r="A4294967295"><v>1</v></c></row>',
        "a column beyond all": first + '<row r="2"><c r="ZZZZZZ2"><v>1</v></c></row>',
        "a cell nowhere": first + '<row r="2"><c r="2A"><v>1</v></c></row>',
        "a number that is none": first + '<row r="2"><c r="A2"><v>1e999999</v></c><c r="B2"><v>x</v></c></row>',
        "a shared text that is not there": first + '<row r="2"><c r="A2" t="s"><v>99</v></c></row>',
        "one giant text": first + f'<row r="2"><c r="A2" t="str"><v>{"x" * 400_000_000}</v></c></row>',
    }
    for number, (name, text) in enumerate(cells.items()):
        path = folder / f"book-{number}.xlsx"
        _workbook(path, text)
        yield Case(f"workbook, {name}", path, True)
    path = folder / "sheet.ods"
    office = "urn:oasis:names:tc:opendocument:xmlns"
    cell = '<table:table-cell office:value-type="string"><text:p>y</text:p></table:table-cell>'
    repeated = (
        '<table:table-row table:number-rows-repeated="1048576"><table:table-cell table:number-columns-repeated="16384" '
        'office:value-type="float" office:value="1"/></table:table-row>'
    )
    content = (
        f'<?xml version="1.0"?><office:document-content xmlns:office="{office}:office:1.0" xmlns:table='
        f'"{office}:table:1.0" xmlns:text="{office}:text:1.0"><office:body><office:spreadsheet><table:table '
        f'table:name="a"><table:table-row>{cell}</table:table-row>{repeated}</table:table></office:spreadsheet>'
        "</office:body></office:document-content>"
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        book.writestr("META-INF/manifest.xml", "<manifest/>")
        book.writestr("content.xml", content)
    yield Case("workbook, an OpenDocument cell repeated over the sheet", path, True)


def _packed(path: Path, block: bytes, times: int, begin: bytes = b"") -> None:
    """Write the beginning and the block so many times, each packed by itself: gzip reads them as one."""
    path.write_bytes(gzip.compress(begin) + gzip.compress(block) * times)


def forged_text(folder: Path) -> Iterator[Case]:
    """Yield text that is small packed and large unpacked, and headers without an end."""
    mega = 1 << 20
    for name, block, begin in (
        ("rows", b"1,no\n" * (mega // 5), b"age,y\n"), ("one line", b"a" * mega, b""),
        ("names", b"abc," * (mega // 4), b"y,"), ("blank lines", b"\n" * mega, b"age,y\n1,no\n"),
        ("one cell", b"x" * mega, b"age,y\n1,"), ("an open quote", b"x\n" * (mega // 2), b'age,y\n1,"'),
        ("zeros", bytes(mega), b""), ("blanks", b" " * mega, b""), ("separators", b"," * mega, b"y,"),
        ("quotes", b'"' * mega, b"age,y\n"),
    ):  # fmt: skip
        path = folder / f"{name.replace(' ', '-')}.csv.gz"
        _packed(path, block, 1_000, begin)
        yield Case(f"packed CSV, 1 GB of {name}", path, True)
    for name, block, begin in (
        ("rows", b'{"age": 1, "y": "no"}\n' * (mega // 22), b""), ("one text", b"x" * mega, b'{"y": "'),
        ("lists", b"[" * mega, b'{"y": '), ("names", b"x" * mega, b'{"'),
    ):  # fmt: skip
        path = folder / f"{name.replace(' ', '-')}.jsonl.gz"
        _packed(path, block, 1_000, begin)
        yield Case(f"packed JSON lines, 1 GB of {name}", path, True)
    for number in (20_000, 100_000, 1_000_000):
        names = ",".join(f"c{i}" for i in range(number))
        path = folder / f"wide-{number}.csv"
        path.write_text(f"y,{names}\n" + f"no{',1' * number}\n" * 3, encoding="utf-8")
        yield Case(f"CSV with {number:,} columns", path, number > 20_000)
    path = folder / "long.csv"
    path.write_text("y," + "x" * 50_000_000)
    yield Case("CSV, a name of 50 MB", path, True)
    path = folder / "doubled.csv"
    path.write_text(f"{'x' * 100_000},{'x' * 100_000}\n1,2\n")
    yield Case("CSV, two long names alike", path, True)
    path = folder / "names.csv"
    path.write_text(",".join(f"{i:x<170}" for i in range(49_000)) + "\n1\n")
    yield Case("CSV, 8 MB of names, none is the target", path, True)


def forged_json(folder: Path) -> Iterator[Case]:
    """Yield JSON lines that Python reads, and a table cannot hold."""
    good = '{"age": 41, "y": "no"}\n{"age": 42, "y": "yes"}\n'
    lines = {
        "an integer beyond int64": '{"age": 9223372036854775808, "y": "no"}',
        "an integer of 400 digits": f'{{"age": {"9" * 400}, "y": "no"}}',
        "an integer of 400 digits among floats": f'{{"age": 1.5, "y": "no"}}\n{{"age": -{"9" * 400}, "y": "no"}}',
        "an integer of 10,000 digits": f'{{"age": {"9" * 10_000}, "y": "no"}}',
        "200,000 lists": f'{{"age": {"[" * 200_000}{"]" * 200_000}, "y": "no"}}',
        "200,000 objects": f"{'{' + chr(34) + 'a' + chr(34) + ':'}" * 200_000 + "1" + "}" * 200_000,
        "half a character": '{"age": "\\ud800", "y": "no"}',
        "half a character as a name": '{"age\\udfff": 1, "y": "no"}',
        "half a character as a label": '{"age": 1, "y": "\\ud800"}',
        "lists and numbers": '{"age": [1, {"b": 2}], "y": "no"}',
        "a label that is an object": '{"age": 1, "y": {"a": 1}}',
        "an empty name": '{"": 1, "y": "no"}',
        "NaN and Infinity": '{"age": NaN, "y": "no"}\n{"age": -Infinity, "y": "no"}',
        "a name of 5 MB": f'{{"{"x" * 5_000_000}": 1, "y": "no"}}',
        "null": "null",
    }
    allowed = ("lists and", "an empty", "NaN", "a name of")
    for number, (name, line) in enumerate(lines.items()):
        path = folder / f"lines-{number}.jsonl"
        path.write_text(f"{good}{line}\n", encoding="utf-8")
        yield Case(f"JSON lines, {name}", path, not name.startswith(allowed))
    path = folder / "sparse.jsonl"
    path.write_text("".join(f'{{"c{i}": 1}}\n' for i in range(9_000)) + '{"y": 1}\n' * 300_000, encoding="utf-8")
    yield Case("JSON lines, 9,000 names in 300,000 lines", path, True)
    path = folder / "names.jsonl"
    path.write_text("".join(f'{{"c{i}": 1}}\n' for i in range(100_000)), encoding="utf-8")
    yield Case("JSON lines, another name in each of 100,000", path, True)


# databases

SECRET = "the-secret-of-another-file"  # noqa: S105


def forged_databases(folder: Path) -> Iterator[Case]:
    """Yield databases whose views read other files, or hold much."""
    import duckdb  # noqa: PLC0415

    (folder / "secret.csv").write_text(f"age,y\n{SECRET},no\n{SECRET},yes\n")
    views = {
        "a view of a file": "create view t as select * from read_csv('FOLDER/secret.csv')",
        "a view of a file's name": "create view t as select * from 'FOLDER/secret.csv'",
        "a view of a text": "create view t as select content as age, 'no' as y from read_text('FOLDER/secret.csv')",
        "a macro": "create macro s() as table select * from read_csv('FOLDER/secret.csv'); create view t as from s()",
        "a scalar macro": "create macro s() as (select content from read_text('FOLDER/secret.csv')); "
        "create view t as select s() as age, 'no' as y",
        "a list of files": "create view t as select file as age, 'no' as y from glob('FOLDER/*')",
    }
    for number, (name, sql) in enumerate(views.items()):
        path = folder / f"view-{number}.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(sql.replace("FOLDER", str(folder)))
        yield Case(f"DuckDB, {name}", path, True, ("--sql", "select * from t", "--db", str(path)))
    path = folder / "giant.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("create view t as select hex(zeroblob(900000000)) as age, 'no' as y")
    yield Case("SQLite, a view of a giant text", path, True, ("--sql", "select * from t", "--db", str(path)))


CHEAP: tuple[Callable[[Path], Iterator[Case]], ...] = (forged_arrow, forged_json, forged_databases)
COSTLY: tuple[Callable[[Path], Iterator[Case]], ...] = (forged_parquet, forged_workbooks, forged_text)
"""These make large files, and take seconds each."""


# damage


def originals(folder: Path) -> dict[str, bytes]:
    """Return sound files by the names of their kinds."""
    import duckdb  # noqa: PLC0415

    frame, table = rows(), plain()
    rich = table.append_column("code", table["shop"].dictionary_encode())
    rich = rich.append_column("price", pa.array([decimal.Decimal("1.25")] * len(frame)))
    rich = rich.append_column("day", pa.array([datetime.date(2024, 2, 29)] * len(frame)))
    rich = rich.append_column("zoned", pa.array([1] * len(frame), pa.timestamp("ms", "Europe/Oslo")))
    paths = {name: folder / f"original{name}" for name in (
        ".arrow", ".feather", ".parquet", ".snappy.parquet", ".xlsx", ".csv.gz", ".csv", ".jsonl", ".duckdb", ".sqlite",
    )}  # fmt: skip
    paths[".arrow"].write_bytes(stream(rich))
    rich.to_pandas().to_feather(paths[".feather"])
    pq.write_table(rich, paths[".parquet"], compression="none", row_group_size=25)
    pq.write_table(rich, paths[".snappy.parquet"], version="2.6", data_page_version="2.0")
    frame.to_excel(paths[".xlsx"], index=False)
    for name in (".csv", ".csv.gz"):
        frame.to_csv(paths[name], index=False)
    frame.astype({"when": str}).to_json(paths[".jsonl"], orient="records", lines=True)
    with duckdb.connect(str(paths[".duckdb"])) as connection:
        connection.execute("create table t as select * from frame")
    with contextlib.closing(sqlite3.connect(paths[".sqlite"])) as connection:
        frame.astype(str).to_sql("t", connection, index=False)
    return {name: path.read_bytes() for name, path in paths.items()}


EXTREMES = tuple(
    struct.pack("<q", value)[:width]
    for value in (0, 1, -1, 2**31 - 1, -(2**31), 2**62, -(2**62), 67_108_869, 255)
    for width in (1, 2, 4, 8)
)


def damaged(content: bytes, drawn: random.Random) -> bytes:
    """Return a file with a few bytes changed, numbers made extreme, pieces cut, doubled or moved."""
    new = bytearray(content)
    for _ in range(drawn.choice((1, 1, 1, 2, 4))):
        at = drawn.randrange(len(new))
        match drawn.randrange(6):
            case 0:
                new[at] ^= 1 << drawn.randrange(8)
            case 1 | 2:
                number = drawn.choice(EXTREMES)
                at -= at % len(number) if drawn.random() < 0.7 else 0
                new[at : at + len(number)] = number
            case 3:
                del new[at : at + drawn.choice((1, 8, len(new) // 3))]
            case 4:
                new[at:at] = new[at : at + drawn.choice((1, 8, 64, 512))]
            case _:
                other, size = drawn.randrange(len(new)), drawn.choice((4, 8, 64))
                new[at : at + size] = new[other : other + size]
        if not new:
            break
    return bytes(new)


def damages(folder: Path, tries: int, drawn: random.Random) -> Iterator[Case]:
    """Yield damaged files of every kind in turn."""
    known = originals(folder)
    for number in range(tries):
        kind = list(known)[number % len(known)]
        path = folder / f"damaged-{number}{kind}"
        path.write_bytes(damaged(known[kind], drawn))
        query = ("--sql", "select * from t", "--db", str(path)) if kind in (".duckdb", ".sqlite") else ()
        yield Case(f"damaged {kind} {number}", path, False, query)


# the process that reads


class Reader:
    """A process that reads files, started again where one was its end."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return what came of a job, or how the process ended."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(job)}\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], 2 * SECONDS)[0]:
            self.close()
            return {"ended": f"no answer within {2 * SECONDS} s"}
        line = process.stdout.readline()
        if line:
            return dict(json.loads(line))
        process.communicate()
        code, self.process = process.returncode, None
        return {"ended": signal.Signals(-code).name if code < 0 else f"exit code {code}"}

    def _running(self) -> subprocess.Popen[str]:
        if self.process is None:
            words = [sys.executable, "-m", "benchmarks.attacks.data_files"]
            self.process = subprocess.Popen(  # noqa: S603
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
            )
            self.ask({"words": ["data"]})  # imports are no part of what a file takes
        return self.process

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def main() -> None:
    """Read jobs from the standard input, and answer each in one line."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    client: Any = None
    for line in sys.stdin:
        job = json.loads(line)
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak of memory is that of this job
        if "words" in job:
            reply = call(job["words"])
        else:
            client = client or _client()
            reply = _sent(client, Path(job["arrow"]).read_bytes())
        answers.write(f"{json.dumps(reply._asdict() | {'code': reply.code})}\n")
        answers.flush()


def _client() -> Any:
    """Return a client of a model of the same columns, without a network."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from starlette.testclient import TestClient  # noqa: PLC0415

    from adacsl import CostMatrix, CostSensitiveClassifier  # noqa: PLC0415
    from adacsl.serving.app import make_app  # noqa: PLC0415

    frame = rows().assign(wild="a")
    frame.loc[::2, "wild"] = "b"
    model = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=6), learner=LogisticRegression(), pos_label="yes", random_state=0
    )
    model.fit(frame.drop(columns="y"), frame["y"].to_numpy())
    return TestClient(make_app(model, device="cpu", threads=1), raise_server_exceptions=False)


def _sent(client: Any, body: bytes) -> Answer:
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = client.post("/predict", content=body, headers={"content-type": ARROW})
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    text = "" if answer.status_code == 200 else answer.text[: 2 * LONGEST_LINE]
    return Answer(answer.status_code, "", text, time.monotonic() - start, more)


def _fault(reply: dict[str, Any], fine: tuple[int, ...], refusal: int) -> str:
    """Return why this is neither an answer nor a refusal in one line, or ""."""
    if "ended" in reply:
        return f"ended the process: {reply['ended']}"
    lines = [line for line in reply["err"].splitlines() if not line.startswith("note: ")]
    wrong = {
        f"answered {reply['code']}: {reply['err'][:300]!r}": reply["code"] not in fine,
        f"{len(lines)} lines: {reply['err'][:200]!r}": reply["code"] == refusal and len(lines) != 1,
        f"a line of {len(reply['err']):,} characters": len(reply["err"]) > LONGEST_LINE,
        f"{reply['seconds']:.0f} s": reply["seconds"] > SECONDS,
        f"{reply['megabytes']:,.0f} MB": reply["megabytes"] > MEGABYTES,
        "the text of another file": SECRET in reply["out"] + reply["err"],
    }
    return "; ".join(text for text, holds in wrong.items() if holds)


def attack(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Yield what came of forged and damaged files."""
    drawn = random.Random(seed)  # noqa: S311  no secrets
    reader = Reader()
    try:
        for case in _cases(folder, tries, drawn):
            reply = reader.ask({"words": ["check", *(case.words or (str(case.path),)), *COSTS]})
            yield Attempt(case.name, _fault(reply, (2,) if case.refused else (0, 1, 2), 2))
            if case.path.suffix == ".arrow":
                reply = reader.ask({"arrow": str(case.path)})
                yield Attempt(f"{case.name}, sent", _fault(reply, (422,) if case.refused else (200, 422), 422))
            case.path.unlink()
    finally:
        reader.close()


def _cases(folder: Path, tries: int, drawn: random.Random) -> Iterator[Case]:
    """Yield forged files, all or a few of the cheap ones, and so many damaged ones."""
    few = tries < ALL_FROM
    for number, forge in enumerate(CHEAP if few else CHEAP + COSTLY):
        place = folder / str(number)
        place.mkdir()
        for case in forge(place):
            if few and drawn.random() > tries / ALL_FROM:
                case.path.unlink()
            else:
                yield case
    yield from damages(folder, tries, drawn)


ATTACKS = (
    Attack(
        "data-files",
        "Arrow, Feather, Parquet, Excel, OpenDocument, DuckDB, SQLite, CSV and JSON lines files, damaged at random "
        "places or forged (scales, offsets, dates, time zones, nesting, names, sizes, views), read by `check`, Arrow "
        "streams also sent to a served model: failed is a process that ends, anything but an answer or one line "
        f"(exit code 2, 422), over {MEGABYTES:,} MB or {SECONDS} s, and the text of another file",
        attack,
        long=1_500,
        short=5,
    ),
)

if __name__ == "__main__":
    main()
