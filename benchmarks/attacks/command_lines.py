"""Wrong command lines: written by hand over all commands, and every number of every option wrong in every way.

The second list is made from the commands' own signatures, so that a new option is attacked as soon as it is there.
"""

from __future__ import annotations

import contextlib
import io
import random
import resource
import shlex
import time
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adacsl.cli.app import build, run
from benchmarks.attacks.scoreboard import Attack, Attempt

SECONDS = 20
"""A refusal may take so long, the first import of a library included."""
MEGABYTES = 500
"""So much more memory, at most, for a line that is refused."""

NUMBERS = (
    "nan", "NaN", "inf", "-inf", "-1", "0", "1e308", "2.9", "1000000000", "1" + "0" * 30, "", " ",
    "\uff11\uff12", "\u0663", "1_000",
    "0x10", "1e3", "1,5", "true", "None", "1e-400", "9" * 5000, "-0", "+", "1 2", "½", "\x00", "\x1b[31m",
)  # fmt: skip
NEVER = {"nan", "NaN", "inf", "-inf", "1" + "0" * 30, "1e308", "", " ", "1,5", "+", "1 2", "½", "\x00", "\x1b[31m"}
"""No option that is a number takes these,"""
NOT_WHOLE = NEVER | {"2.9", "1e3", "0x10", "true", "1e-400", "9" * 5000}
"""and no whole one these."""

LINES = """
nonsense
Train
tra in
-x
--nope
--version=3
--help=3
train
train rows.csv
train rows.csv --out
train rows.csv --out m --target
train rows.csv --out m --target nope
train rows.csv --out m --target Y
train rows.csv --out m --target y --pos-label 7
train rows.csv --out m --target y --fn 8
train rows.csv --out m --target y --fp 8
train rows.csv --out m --target y --fn 8 --fp
train rows.csv --out m --target y --fn eight --fp 1
train rows.csv --out m --target y --fn "8 *" --fp 1
train rows.csv --out m --target y --fn "__import__('os')" --fp 1
train rows.csv --out m --target y --fn "age.real" --fp 1
train rows.csv --out m --target y --fn "8;1" --fp 1
train rows.csv --out m --target y --fn 5.. --fp 1
train rows.csv --out m --target y --fn 20..5 --fp 1
train rows.csv --out m --target y --fn nan --fp 1
train rows.csv --out m --target y --fn inf --fp 1
train rows.csv --out m --target y --fn 0 --fp 0
train rows.csv --out m --target y --fn -8 --fp 1
train rows.csv --out m --target y --fn age --fp 1
train rows.csv --out m --target y --fn nope --fp 1
train rows.csv --out m --target y --fn shop --fp 1
train rows.csv --out m --target y --fn 8 --fp 1 --costs matrix.csv
train rows.csv --out m --target y --costs nope.csv
train rows.csv --out m --target y --costs rows.csv
train rows.csv --out m --target y --costs empty.csv
train rows.csv --out m --target y --fn 8 --fp 1 --method nope
train rows.csv --out m --target y --fn 8 --fp 1 --method nope:nope
train rows.csv --out m --target y --fn 8 --fp 1 --method :
train rows.csv --out m --target y --fn 8 --fp 1 --method ../x:y
train rows.csv --out m --target y --fn 8 --fp 1 --estimators nope
train rows.csv --out m --target y --fn 8 --fp 1 --method logistic --estimators nets
train rows.csv --out m --target y --fn 8 --fp 1 --time-limit soon
train rows.csv --out m --target y --fn 8 --fp 1 --time-limit -5s
train rows.csv --out m --target y --fn 8 --fp 1 --method logistic --epochs 3
train rows.csv --out m --target y --fn 8 --fp 1 --method logistic --device tpu
train rows.csv --out m --target y --fn 8 --fp 1 --weights nope.pth
train rows.csv --out m --target y --fn 8 --fp 1 --rotate
train rows.csv --out m --target y --fn 8 --fp 1 --drop nope
train rows.csv --out m --target y --fn 8 --fp 1 --drop age,shop,amount,when,id
train rows.csv --out m --target y --fn 8 --fp 1 --group-column nope
train rows.csv --out m --target y --fn 8 --fp 1 --time-column shop
train rows.csv --out m --target y --fn 8 --fp 1 --gap 7d
train rows.csv --out m --target y --fn 8 --fp 1 --time-column when --gap soon
train rows.csv --out m --target y --fn 8 --fp 1 --time-column when --gap 1e300d
train rows.csv --out m --target y --fn 8 --fp 1 --time-column when --label-delay 1e300y
train rows.csv --out m --target y --fn 8 --fp 1 --time-column when --gap 7
train rows.csv --out m --target y --fn 8 --fp 1 --cv 1
train rows.csv --out m --target y --fn 8 --fp 1 --cv 2.9
train rows.csv --out m --target y --fn 8 --fp 1 --ignore nope
train rows.csv --out m --target y --fn 8 --fp 1 --separator ";;"
train rows.csv --out m --target y --fn 8 --fp 1 --encoding klingon
train rows.csv --out m --target y --fn 8 --fp 1 --sheet 2
train rows.csv --out m --target y --fn 8 --fp 1 --on-error ask
train rows.csv --out m --target y --fn 8 --fp 1 --db x.duckdb
train rows.csv --out m --target y --fn 8 --fp 1 --sql "select 1"
train rows.csv --out m --target y --fn 8 --fp 1 --refer -1
train rows.csv --out m --target y --fn 8 --fp 1 --refer-errors 7
train rows.csv --out m --target y --fn 8 --fp 1 --refer 1 --refer-errors lots
train rows.csv --out m --target y --fn 8 --fp 1 --capacity -1
train rows.csv --out m --target y --fn 8 --fp 1 --capacity 3 --per eon
train rows.csv --out m --target y --fn 8 --fp 1 --prior 2
train rows.csv --out m --target y --fn 8 --fp 1 --prior nan
train rows.csv --out m --target y --fn 8 --fp 1 --actions nope.csv
train rows.csv --out folder --target y --fn 8 --fp 1
train rows.csv --out notes.txt --target y --fn 8 --fp 1
train rows.csv --out notes.txt/m --target y --fn 8 --fp 1
train rows.csv --out ~nobody-of-that-name/m --target y --fn 8 --fp 1
train rows.csv --out m --out m2 --target y --fn 8 --fp 1
train rows.csv rows.csv --out m --target y --fn 8 --fp 1
train nope.csv --out m --target y
train notes.txt --out m --target y
train empty.csv --out m --target y
train header.csv --out m --target y
train damaged.parquet --out m --target y
train damaged.xlsx --out m --target y
train damaged.jsonl --out m --target y
train one-class.csv --out m --target y
train long-label.csv --out m --target y --pos-label a
train folder --out m --target y
train --sql "select * from 'nope.csv'" --out m --target y
train --sql "drop table x" --out m --target y
train --sql "select 1; select 2" --out m --target y
train --sql "select * from x" --db notes.txt --out m --target y
train ~nobody-of-that-name/rows.csv --out m --target y
check
check nope.csv
check rows.csv
check rows.csv --target y --ignore all
check rows.csv --target y --fn 8 --fp 1 --image-size 0
compare nope.csv
compare rows.csv --target nope
compare rows.csv --target y --fn 8 --fp 1 --seeds 1000000000
compare rows.csv --target y --fn 8 --fp 1 --repeats 1000000000
compare rows.csv --target y --fn 8 --fp 1 --folds 1
compare rows.csv --target y --fn 8 --fp 1 --folds 900 --quiet
compare rows.csv --target y --fn 8 --fp 1 --tolerance 7
compare rows.csv --target y --fn 8 --fp 1 --methods nope
compare rows.csv --target y --fn 8 --fp 1 --method mine
compare rows.csv --target y --fn 8 --fp 1 --ratios many
compare rows.csv --target y --fn 8 --fp 1 --ratios -1
compare rows.csv --target y --fn 8 --fp 1 --ratios nan
compare rows.csv --target y --fn 8 --fp 1 --backend dask
compare rows.csv --target y --fn 8 --fp 1 --address auto
compare rows.csv --target y --fn 8 --fp 1 --device tpu
compare rows.csv --target y --fn 8 --fp 1 --segments nope
compare rows.csv --target y --fn 8 --fp 1 --baseline-column y
compare rows.csv --target y --fn 8 --fp 1 --volume -1
compare rows.csv --target y --fn 8 --fp 1 --out notes.txt
compare rows.csv rows.csv --target y --fn 8 --fp 1 --save m
predict
predict model
predict nope rows.csv
predict folder rows.csv
predict notes.txt rows.csv
predict model nope.csv
predict model rows.csv --out p.txt
predict model rows.csv --out nope/p.csv
predict model rows.csv --out folder
predict model rows.csv --out rows.csv
predict model rows.csv --keep nope --out p.csv
predict model rows.csv --keep decision --out p.csv
predict model rows.csv --batch-rows 0 --out p.csv
predict model rows.csv --fn 8 --fp nan --out p.csv
predict model rows.csv --costs three.csv --out p.csv
predict model rows.csv --per day --capacity 3 --out p.csv
predict model rows.csv --prior 0 --out p.csv
predict model rows.csv --prior yes=1 --out p.csv
predict model rows.csv --no-policy --refer 3 --out p.csv
predict model short.csv --out p.csv
predict model header.csv --keep nope --out p.csv
predict model photos --out p.csv
evaluate
evaluate nope rows.csv
evaluate model rows.csv --at-most nan
evaluate model rows.csv --at-most inf
evaluate model rows.csv --at-most much
evaluate model short.csv
evaluate model one-class.csv
evaluate model rows.csv --target nope
monitor nope rows.csv
monitor model rows.csv --labels nope
monitor model rows.csv --level 1
monitor model rows.csv --level 0
monitor model rows.csv --tolerance -1
monitor model rows.csv --time-column nope
monitor model rows.csv --html folder
monitor model rows.csv --html nope/x.html
monitor model rows.csv --retuned folder
explain nope rows.csv
explain model rows.csv --repeats 0
explain model rows.csv --out x.txt
explain model rows.csv --seed -1
threshold
threshold rows.csv
threshold nope.csv --fn 8 --fp 1
threshold scores.csv
threshold scores.csv --fn 8
threshold scores.csv --fn 8 --fp 1 --score-column nope
threshold scores.csv --fn 8 --fp 1 --label-column nope
threshold scores.csv --fn 8 --fp 1 --weight-column nope
threshold scores.csv --fn 8 --fp 1 --pos-label 7
threshold scores.csv --fn 8 --fp 1 --curve nope/curve.csv
threshold scores.csv --costs three.csv
report
report nope
report folder
report notes.txt
export nope --out m.onnx
export model
export model --out nope/m.onnx
serve
serve nope
serve model --port 70000
serve model --port -1
serve model --workers 0
serve model --batch-limit 0
data nope
data --folder nope adultt
check --write-costs m.csv
check nope.csv --write-costs m.csv
check rows.csv --target nope --write-costs m.csv
check rows.csv --target y --write-costs matrix.csv
check rows.csv --target y --write-costs m.txt
"""


def furnish(folder: Path, seed: int = 0) -> None:
    """Write what the command lines speak of: good files and bad ones, and a model."""
    rng = np.random.default_rng(seed)
    n = 120
    frame = pd.DataFrame({"id": range(n), "age": rng.normal(40, 9, n).round(2), "shop": rng.choice(["a", "b"], n)})
    frame["amount"] = rng.lognormal(2, 1, n).round(2)
    frame["when"] = pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d")
    frame["y"] = (frame["age"] + rng.normal(0, 5, n) > 42).astype(int)
    frame.to_csv(folder / "rows.csv", index=False)
    frame[["age", "y"]].to_csv(folder / "short.csv", index=False)
    frame.assign(y=1).to_csv(folder / "one-class.csv", index=False)
    frame.assign(y=np.where(frame["y"] == 1, "a", "b" * 20_000)).to_csv(folder / "long-label.csv", index=False)
    frame[["age", "y"]].set_axis(["score", "label"], axis=1).to_csv(folder / "scores.csv", index=False)
    (folder / "header.csv").write_text("id,age,shop,amount,when,y\n")
    (folder / "empty.csv").write_text("")
    (folder / "matrix.csv").write_text(",0,1\n0,0,8\n1,1,0\n")
    (folder / "three.csv").write_text(",a,b,c\na,0,1,1\nb,1,0,1\nc,1,1,0\n")
    for name in ("notes.txt", "damaged.parquet", "damaged.xlsx", "damaged.jsonl"):
        (folder / name).write_bytes(b"\x89 no such thing \x00\xff")
    for name in ("folder", "photos"):
        (folder / name).mkdir()
        (folder / name / "other.txt").write_text("mine")
    words = "train rows.csv --target y --fn 8 --fp 1 --method logistic --drop id --out model --quiet"
    said = call(words.split())
    if said.code != 0:
        raise RuntimeError(said.err)


class Said(typing.NamedTuple):
    """What a command line ended with."""

    code: Any
    out: str
    err: str
    seconds: float
    megabytes: float


def call(words: list[str]) -> Said:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code: Any
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run(words)
        except BaseException as error:  # whatever comes out is a fault
            code = f"{type(error).__name__}: {error}"
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return Said(code, out.getvalue(), err.getvalue(), time.monotonic() - start, more)


def fault_of(said: Said, left: set[str], named: str = "") -> str:
    """Return why this is no good refusal: one line on stderr, exit code 2, nothing else, soon; "" where it is one."""
    lines = said.err.splitlines()
    wrong = {
        f"exit code {said.code}": said.code != 2,
        f"on stdout: {said.out[:60]!r}": said.out != "",
        f"{len(lines)} lines on stderr: {said.err[:200]!r}": len(lines) != 1 or "Traceback" in said.err,
        f"no error: {said.err[:60]!r}": not said.err.startswith("error: "),
        f"raw control characters: {said.err[:80]!r}": any(ord(c) < 32 and c != "\n" for c in said.err),
        f"does not name {named}: {said.err[:200]!r}": named not in said.err,
        f"{said.seconds:.0f} s": said.seconds > SECONDS,
        f"{said.megabytes:.0f} MB": said.megabytes > MEGABYTES,
        f"left behind: {sorted(left)[:3]}": bool(left),
    }
    return "; ".join(text for text, holds in wrong.items() if holds)


def numbers() -> Iterator[tuple[list[str], str, str, bool]]:
    """Yield command lines with one number that may be wrong: words, option, number, and whether it must be refused."""
    for words, command in _commands(build(), ()):
        for argument in command.assemble_argument_collection():
            kinds = {argument.hint, *typing.get_args(argument.hint)} & {int, float}
            option = argument.names[0]
            if not kinds or str in typing.get_args(
                argument.hint
            ):  # prices may be columns: they have lines of their own
                continue
            for number in NUMBERS:
                never = NOT_WHOLE if int in kinds else NEVER
                yield [*_begun(words), f"{option}={number}"], option, number, number in never


def _begun(words: tuple[str, ...]) -> list[str]:
    """Return a command line that would fail for its data alone, once its numbers are right."""
    needs = {"train": ["nope.csv", "--out", "m"], "serve": ["nope"], "export": ["nope"], "report": ["nope"]}
    two = [["nope", "nope.csv"], ["nope.csv"]][words[-1] in ("compare", "check", "threshold", "template")]
    return [*words, *needs.get(words[-1], two)]


def _commands(app: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in app:
        if not name.startswith("-"):
            inner = app[name]
            if inner.default_command is None:
                yield from _commands(inner, (*words, name))
            else:
                yield (*words, name), inner


def wrong_lines(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Yield tries of both lists, ``tries`` of each at most."""
    drawn = random.Random(seed)  # noqa: S311  no secrets
    by_hand, made = [(shlex.split(line), "") for line in LINES.strip().splitlines()], []
    for words, option, number, refused in numbers():
        made.append((words, option if refused and not number.startswith(("-", "\x00")) else ""))
    picked = [
        one for lines in (by_hand, made) for one in (lines if tries >= len(lines) else drawn.sample(lines, tries))
    ]
    with contextlib.chdir(folder):
        furnish(folder, seed)
        there = _files(folder)
        for words, named in picked:
            said = call(words)
            left, there = _files(folder) - there, _files(folder)
            yield Attempt(shlex.join(word[:40] for word in words), fault_of(said, left, named))


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


ATTACKS = (
    Attack(
        "command-lines",
        "wrong command lines, by hand and one for every number of every option: anything but exit code 2 and one line "
        "on stderr, soon, in little memory and with no file left behind",
        wrong_lines,
        long=10_000,
        short=25,
    ),
)
