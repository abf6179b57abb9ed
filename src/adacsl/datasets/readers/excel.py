"""Sheets of Excel and OpenDocument workbooks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from adacsl.base.extras import requires
from adacsl.datasets.errors import DataError, did_you_mean, listed, one_line, shortened
from adacsl.datasets.readers.base import InMemory, as_kind, check_cells, common_kind

with requires("train"):
    import pandas as pd


SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
MEMORY, MEMORY_PER_BYTE = 1 << 30, 256
"""Bytes of memory that measuring a workbook may take: so many, and so many for each byte of the file."""
MEASURE = """
import json, sys
path, sheet, memory, sys.path = json.loads(sys.argv[1])
from python_calamine import CalamineWorkbook
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
except ImportError:
    pass
book = CalamineWorkbook.from_path(path)
names = book.sheet_names
number = int(sheet) - 1 if sheet.isdecimal() else 0
name = sheet if sheet in names else names[number if number < len(names) else 0]
cells = book.get_sheet_by_name(name)
print(cells.total_height, cells.total_width)
"""
"""What the process runs that measures a workbook."""


def open_workbook(path: Path, sheet: str | None) -> InMemory:
    """Read a sheet of a workbook: the one named (or numbered, from 1), else the first.

    Rows without any value are left out, as blank lines of a CSV file are.
    """
    with requires("excel"):
        import python_calamine  # noqa: F401, PLC0415  pandas reads with it
    _check_range(path, str(sheet or ""))
    try:
        with pd.ExcelFile(path, engine="calamine") as book:
            names = [str(name) for name in book.sheet_names]
            chosen = _chosen(names, sheet, path)
            cells = pd.read_excel(book, sheet_name=chosen, header=None, dtype=object)
    except DataError:
        raise
    except Exception as error:  # calamine has errors of its own for every format
        raise DataError(f"cannot read {path} as a workbook: {one_line(error)}; save it again, or as CSV") from error
    if cells.empty:
        raise DataError(f"sheet {chosen!r} of {path} is empty: expected a row of names and rows below it")
    header = [str(name) if pd.notna(name) else f"Unnamed: {i}" for i, name in enumerate(cells.iloc[0])]
    below = cells.iloc[1:].dropna(how="all")
    columns = {place: as_kind(column, common_kind(_types(column))) for place, column in below.items()}
    result = InMemory(str(path), pd.DataFrame(columns).set_axis(header, axis=1))
    if sheet is None and len(names) > 1:
        result.read_as.append(f"has the sheets {listed(names)}: {chosen!r} was read (name the sheet for another)")
    return result


def _check_range(path: Path, sheet: str) -> None:
    """Refuse a sheet whose used range, from the first cell to the last, would take far more memory than its cells.

    The reader allocates the whole range, and ends the process where it cannot: another process tries first, with
    little memory (where the system can limit it: not on Windows).
    """
    size = path.stat().st_size
    memory = MEMORY + MEMORY_PER_BYTE * size
    asked = json.dumps([str(path), sheet, memory, sys.path])
    done = subprocess.run(  # noqa: S603  this Python
        [sys.executable, "-I", "-c", MEASURE, asked], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode < 0 or "MemoryError" in done.stderr:
        raise DataError(
            f"the used range of {path} takes more than {memory / 2**30:.1f} GiB of memory for {size:,} bytes: remove "
            "the cells that stand apart, or save it as CSV"
        )
    if done.returncode > 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1].partition(": ")[2]
        raise DataError(f"cannot read {path} as a workbook: {shortened(one_line(why))}; save it again, or as CSV")
    rows, columns = map(int, done.stdout.split())
    check_cells(f"the used range of {path}", rows, columns, size)


def _types(column: pd.Series[Any]) -> set[type]:
    return {type(None) if pd.isna(value) else type(value) for value in column}


def _chosen(names: list[str], sheet: Any, path: Path) -> str:
    if sheet is None:
        return names[0]
    if str(sheet) in names:
        return str(sheet)
    if str(sheet).isdecimal() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]
    raise DataError(f"{path} has no sheet {sheet!r}{did_you_mean(sheet, names)} (it has {listed(names)})")
