"""Terminals and readers of all kinds: closed, narrow, without an alphabet, fed with escape codes from data."""

import contextlib
import io
import json
import os
import re
import signal
import sys

import pandas as pd
import pytest

from adacsl import cli
from adacsl.cli import app
from adacsl.cli.console import WINNER, Answer, Screen, Terminated, listing, next_command, one_line, stoppable
from adacsl.datasets.costs import read_costs

ESCAPES = "a\x1b[31mred\x9b0m\x07\u202eb"
SHOWN = r"a\x1b[31mred\x9b0m\x07\u202eb"


@pytest.fixture
def command(monkeypatch):
    """Put a command in the place of all others; it ends with an answer, or does what is asked."""

    def put(work):
        def command(*, screen: Screen = Screen()) -> Answer:  # noqa: B008
            """Try."""
            return work(screen)

        monkeypatch.setattr(app, "COMMANDS", (command,))

    return put


@pytest.fixture(params=["closed", "left"])
def reader(request):
    """A stream that no one reads: closed from the start, or a pipe whose reader has left."""
    if request.param == "closed":
        yield None
        return
    far, near = os.pipe()
    os.close(far)
    stream = os.fdopen(near, "w", encoding="utf-8")
    yield stream
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def answer(_):
    table = listing("größe", right=(ESCAPES,), then=("",))
    table.add_row(ESCAPES, "1", "")
    return Answer({ESCAPES: ESCAPES}, (f"line of {ESCAPES}", table))


@pytest.mark.parametrize("words", [["command"], ["command", "--json"], ["command", "--help"], ["--version"]])
def test_unread_output_exits_with_141(command, monkeypatch, words, reader):
    command(answer)
    monkeypatch.setattr(sys, "stdout", reader)
    assert app.run(words) == 141


def test_errors_and_notes_may_go_unread(command, monkeypatch, capsys, reader):
    def work(screen):
        screen.note("one")
        screen.findings(["two"])
        return Answer({}, ("done",))

    command(work)
    monkeypatch.setattr(sys, "stderr", reader)
    assert app.run(["command"]) == 0
    assert capsys.readouterr().out == "done\n"
    assert app.run(["nonsense"]) == 2
    assert app.run(["nonsense", "--debug"]) == 2


def test_a_command_that_ends_the_program_itself_still_does(command):
    def work(_):
        sys.exit(5)

    command(work)
    with pytest.raises(SystemExit) as ended:
        app.run(["command"])
    assert ended.value.code == 5


def test_escape_codes_from_data_are_shown_and_not_obeyed(command, adacsl):
    command(answer)
    output = adacsl("command")
    assert output.out.count(SHOWN) == 3
    assert "\x1b" not in output.out
    output = adacsl("command", "--json")
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e" for c in output.out.rstrip("\n"))
    assert output.json == {ESCAPES: ESCAPES}  # and it still states the same


def test_escape_codes_in_errors_and_notes_are_shown(command, adacsl):
    def work(screen):
        screen.note(ESCAPES)
        screen.findings([ESCAPES])
        raise ValueError(ESCAPES)

    command(work)
    for words in (["command"], ["command", "--debug"]):
        output = adacsl(*words)
        assert output.err.count(SHOWN) >= 3
        assert not any(c in output.err for c in "\x1b\x9b\x07\u202e")


def test_a_long_cell_makes_no_long_line():
    assert len(one_line("w" * 10**6)) == 2003


@pytest.mark.parametrize("alphabet", ["ascii", "latin-1", "utf-8"])
def test_any_alphabet_will_do(command, monkeypatch, alphabet):
    command(answer)
    out = io.TextIOWrapper(io.BytesIO(), encoding=alphabet)
    monkeypatch.setattr(sys, "stdout", out)
    assert app.run(["command"]) == 0
    assert app.run(["command", "--json"]) == 0
    assert json.loads(out.buffer.getvalue().decode(alphabet).splitlines()[-1]) == {ESCAPES: ESCAPES}


@pytest.mark.parametrize("width", ["0", "1", "-5", "abc", "1000000000", "9" * 5000, "\u0663\u0663"])
def test_widths_that_no_terminal_has_are_not_believed(adacsl, monkeypatch, width):
    usual = adacsl("data", "--help").out
    monkeypatch.setenv("COLUMNS", width)
    assert adacsl("data", "--help").out == usual
    assert os.environ["COLUMNS"] == width
    monkeypatch.setenv("COLUMNS", "120")
    assert adacsl("data", "--help").out != usual


def test_sigterm_shows_what_is_stored(command, adacsl):
    def work(_):
        with stoppable("what is finished is kept"):
            raise Terminated

    command(work)
    output = adacsl("command")
    assert (output.code, output.out, output.err) == (143, "", "stopped: what is finished is kept\n")


@pytest.mark.parametrize(
    "words",
    [
        ["check", "~nobody-here/x.csv"],
        ["evaluate", "~nobody-here/model", "x.csv"],
        ["train", "x.csv", "--out", "~nobody-here/model"],
        ["check", "--sql", "select 1", "--db", "~nobody-here/x.db"],
        ["threshold", "~nobody-here/x.csv", "--fn", "8", "--fp", "1"],
    ],
)
def test_users_that_are_not_here_are_one_line(refused, words):
    assert "there is no such user here, or no home folder: write the path out" in refused(*words)


def test_a_folder_that_is_gone_is_one_line(refused, monkeypatch, tmp_path):
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    assert refused("data") == "error: the folder you are in is no longer there: go to another one"


def test_home_is_written_out(adacsl, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "rows.csv").write_text("a,y\n" + "1,0\n2,1\n" * 20)
    assert adacsl("check", "~/rows.csv", "--target", "y", "--write-costs=~/m.csv").code == 0
    assert (tmp_path / "m.csv").read_text() == "predicted,0,1\n0,0,1\n1,1,0\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["evaluate", "m", "x.csv", "--at-most", "nan"], "--at-most must be a number, got 'nan'"),
        (["evaluate", "m", "x.csv", "--at-most", "inf"], "--at-most must be a number, got 'inf'"),
        (["train", "x.csv", "--out", "m", "--cv", "2.9"], "--cv must be a whole number, got '2.9'"),
        (["train", "x.csv", "--out", "m", "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["train", "x.csv", "--out", "m", "--seed", str(2**32)], "--seed must be at most 4294967295, got 4294967296"),
        (["compare", "--repeats", "1000000000"], "--repeats must be at most 1000, got 1000000000"),
        (["compare", "--folds", "1000000000"], "--folds must be at most 1000, got 1000000000"),
        (["compare", "--gpus", "-inf"], "--gpus must be a number, got '-inf'"),
        (["train", "x.csv", "--out", "m", "--time-column", "t", "--gap", "soon"], "--gap must be a number in the unit"),
    ],
)
def test_numbers_are_refused_before_anything_is_read(refused, words, line):
    assert line in refused(*words)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train", "--prior", "2", "--out", "m"], "prior must be a share between 0 and 1, got 2.0"),
        (["train", "--time-limit", "soon", "--out", "m"], "time_limit must be seconds above 0"),
        (["train", "--estimators", "nobody", "--out", "m"], "there is no base estimator 'nobody'"),
        (
            ["train", "--time-column", "when", "--gap", "7", "--out", "m"],
            "--gap=7 has no unit, and the times are dates",
        ),
        (["compare", "--methods", "nothing"], "nothing"),
        (["compare", "--ratios", "nan"], "a ratio is a positive number"),
        (
            ["compare", "--folds", "90", "--ignore", "few-rows,few-positives,time-ignored"],
            "90 folds leave too little to learn from",
        ),
    ],
)
def test_wrong_words_are_refused_before_anything_is_printed_or_written(refused, monkeypatch, tmp_path, words, line):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},2024-01-{i + 1:02d},{i % 2}\n" for i in range(31))
    (tmp_path / "rows.csv").write_text(f"id,when,y\n{rows}")
    command, *others = words
    assert line in refused(command, "rows.csv", "--target", "y", "--fn", "8", "--fp", "1", *others)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_formulas_of_a_cost_matrix_come_back(adacsl, tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n" + "1,=x;;z\n2,'=x\n3,-1\n" * 40)
    matrix = tmp_path / "m.csv"
    assert adacsl("check", tmp_path / "rows.csv", "--target", "y", "--write-costs", matrix).code == 0
    assert matrix.read_text().splitlines()[0] == "predicted,''=x,-1,'=x;;z"
    assert adacsl("check", tmp_path / "rows.csv", "--target", "y", "--costs", matrix).code in (0, 1)


def test_a_cost_matrix_with_numbers_for_names_is_read(tmp_path):
    pd.DataFrame({"predicted": [0, 1], "0": [0.0, 1.0], "1": [8.0, 0.0]}).to_parquet(tmp_path / "m.parquet")
    costs = read_costs(tmp_path / "m.parquet")
    assert (costs.fn, costs.fp) == (8.0, 1.0)


def test_a_signal_after_the_answer_changes_nothing(monkeypatch):
    left = []
    monkeypatch.setattr(app, "run", lambda: 3)
    monkeypatch.setattr(os, "_exit", left.append)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert cli.main() == 3
        for number in before:
            os.kill(os.getpid(), number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert left == [3, 3]


@pytest.mark.parametrize("code", [130, 143])
def test_a_stopped_program_exits_at_once(monkeypatch, code):
    left = []
    monkeypatch.setattr(app, "run", lambda: code)
    monkeypatch.setattr(os, "_exit", left.append)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    cli.main()
    assert left == [code]


# terminals: whole words, colours, the next command


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def shown(command, monkeypatch, width, work=None, **environment):
    """Return what a command writes to a terminal of that width: stdout and stderr."""

    def long(screen):
        screen.warn("a word of warning " * 9)
        table = listing("  method", right=("cost", "95 % interval", "vs lowest"), then=("significant",))
        table.add_row("* net-weighted-bayes", "0.5455", "[0.4671, 0.6239]", "+188.5 %", "no (corrected)", style=WINNER)
        return Answer({}, ("1 % of " * 30, table, next_command("adacsl predict " + "x" * 90)))

    command(work or long)
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    for name, value in ({"COLUMNS": str(width), "TERM": "xterm-256color"} | environment).items():
        monkeypatch.setenv(name, value)
    assert app.run(["command", "--quiet"]) == 0
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_gets_whole_words_and_one_line_for_each_row_and_command(command, monkeypatch, width):
    out, err = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in shown(command, monkeypatch, width))
    *prose, head, row, following = out.splitlines()
    assert all(len(line) <= width for line in [*prose, head, row, *err.splitlines()])
    assert not any(line.lstrip().startswith("%") for line in prose)  # a number keeps its unit
    assert " ".join(prose).split() == ("1 % of " * 30).split()
    assert " ".join(row.split()) == "* net-weighted-bayes 0.5455 [0.4671, 0.6239] +188.5 % no (corrected)"
    assert following == "next: adacsl predict " + "x" * 90  # can be copied
    assert err.splitlines()[0].startswith("warning: a word of warning")
    assert len(err.splitlines()) > 1


def test_the_winner_and_warnings_have_colours_only_in_a_terminal_that_wants_them(command, monkeypatch, adacsl):
    out, err = shown(command, monkeypatch, 100)
    assert "\x1b[1;32m" in out
    assert err.startswith("\x1b[1;33mwarning:\x1b[0m a word")
    monkeypatch.undo()
    out, err = shown(command, monkeypatch, 100, NO_COLOR="1")
    assert "32m" not in out
    assert "\x1b" not in err


def test_a_pipe_gets_unbroken_lines_without_blanks_at_their_ends(command, adacsl, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)

    def work(_):
        table = listing("name", right=("rows",), then=("what",))
        table.add_row("a", "1", "w" * 150)
        table.add_row("b", "2", "short")
        return Answer({}, ("many words " * 30, table))

    command(work)
    lines = adacsl("command").out.splitlines()
    assert lines == ["many words " * 30, "name  rows  what", f"a        1  {'w' * 150}", "b        2  short"]
