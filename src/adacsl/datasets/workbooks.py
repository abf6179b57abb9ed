"""Tables of workbooks: Excel and OpenDocument, one sheet with the names of its columns in the first row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adacsl.datasets.errors import DataError, did_you_mean, listed, one_line
from adacsl.datasets.opened import InMemory, as_kind, common_kind
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def open_workbook(path: Path, sheet: str | None) -> InMemory:
    """Read a sheet of a workbook: the one named (or numbered, from 1), else the first.

    Rows without any value are left out, as blank lines of a CSV file are.
    """
    with requires("excel"):
        import python_calamine  # noqa: F401, PLC0415  pandas reads with it
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
    found = InMemory(str(path), pd.DataFrame(columns).set_axis(header, axis=1))
    if sheet is None and len(names) > 1:
        found.read_as.append(f"has the sheets {listed(names)}: {chosen!r} was read (another: sheet=...)")
    return found


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
