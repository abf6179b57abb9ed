"""The frame: help, errors as one line, exit codes, notes."""

import functools
import importlib.metadata
import os
import platform
import signal
import subprocess
import sys
import warnings

import pytest

from adacsl import __version__
from adacsl.cli import app
from adacsl.cli.console import Answer, Screen, stoppable

COMMANDS = (
    "compare", "check", "train", "predict", "serve", "evaluate", "monitor", "explain", "threshold", "report", "export",
    "data",
)  # fmt: skip
PROGRAM = [sys.executable, "-m", "adacsl.cli"]


def make_command(monkeypatch, work):
    """Put a command ``try`` in the place of all others."""

    def command(*, screen: Screen = Screen()) -> Answer:  # noqa: B008
        """Try."""
        return work() or Answer({"done": True}, ("done",))

    monkeypatch.setattr(app, "COMMANDS", (command,))


def test_help_names_every_command(adacsl):
    output = adacsl("--help")
    assert output.code == 0
    assert all(command in output.out for command in COMMANDS)
    assert output.err == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_examples_and_the_common_options(adacsl, command):
    output = adacsl(command, "--help")
    assert output.code == 0
    assert f"adacsl {command}" in output.out.split("Examples:")[1]
    assert all(option in output.out for option in ("--json", "--quiet", "--debug"))


@functools.cache
def panels(command):
    """Return the options of a command by the panel of its help."""
    result = {}
    for option in app.build()[command].assemble_argument_collection(parse_docstring=True):
        if option.show:
            (panel,) = {group.name for group in option.parameter.group}
            result.setdefault(panel, []).append(option.name)
    return result


def test_there_are_twelve_commands_and_all_are_tested_here():
    assert tuple(command.__name__ for command in app.COMMANDS) == COMMANDS
    assert len(COMMANDS) <= 12


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_at_most_twenty_basic_options_and_the_others_below(adacsl, command):
    basic = {panel: names for panel, names in panels(command).items() if not panel.startswith("Advanced")}
    assert 1 <= sum(map(len, basic.values())) <= 20
    text = adacsl(command, "--help").out
    heads = [line.split("╭─ ")[1].split(" ─")[0] for line in text.splitlines() if "╭─ " in line]
    assert set(heads) == set(panels(command))
    assert heads == sorted(heads, key=lambda head: head.startswith("Advanced"))


def test_options_are_spelt_the_same_in_all_commands():
    every = {name for command in COMMANDS for names in panels(command).values() for name in names}
    assert not every & {"--jobs", "--positive", "--budget", "--maturity", "--engine", "--rows", "--caution"}
    assert [command for command in COMMANDS if "--workers" in str(panels(command))] == ["serve"]
    advanced, basic = set(), set()  # an option that is basic in one command is not advanced in another
    for command in COMMANDS:
        for panel, names in panels(command).items():
            (advanced if panel.startswith("Advanced") else basic).update(names)
    assert not advanced & basic


def test_version(adacsl):
    lines = adacsl("--version").out.splitlines()
    assert lines[0] == f"adacsl {__version__}"
    assert lines[1].startswith(f"Python {platform.python_version()}")
    assert f"numpy {importlib.metadata.version('numpy')}" in lines
    assert not any(line.startswith("pytest") for line in lines)


def test_help_is_light_and_quick():
    code = (
        "import sys, time; start = time.process_time(); from adacsl.cli.app import run; run(['--help']);"
        "heavy = {'torch', 'pandas', 'sklearn', 'lightning', 'pyarrow', 'scipy', 'plotly'} & set(sys.modules);"
        "print(sorted(heavy), time.process_time() - start, file=sys.stderr)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    last = [run.stderr.strip().rsplit(" ", 1) for run in runs]
    assert {heavy for heavy, _ in last} == {"[]"}
    assert min(float(seconds) for _, seconds in last) < 0.5


@pytest.mark.parametrize("package", ["cyclopts", "rich"])
def test_missing_extra_is_one_line(package):
    code = f"import sys; sys.modules[{package!r}] = None; from adacsl.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: the command adacsl needs {package!r}: run  pip install 'adacsl[cli]'\n"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["evaluat"], 'Did you mean "evaluate"'),
        (["threshold"], "--scores requires an argument"),
        (["evaluate", "m", "x.csv", "--at-most", "much"], "--at-most must be a number, got 'much'"),
        (["threshold", "x.csv", "--fnn", "8"], "Did you mean --fn"),
        (["compare", "--backend", "dask"], '"processes", "ray"'),
    ],
)
def test_wrong_words_are_one_line(refused, words, match):
    assert match in refused(*words)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n  lines"), "error: two lines"),
        (TypeError("costs must be a CostMatrix"), "error: costs must be a CostMatrix"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), "error: x.csv: No such file or directory"),
        (ImportError("this part of adacsl needs 'onnx': run  pip install 'adacsl[onnx]'"), "adacsl[onnx]"),
        (MemoryError(), "error: not enough memory"),
        (ValueError("name the target, not fn=0"), "error: name the target, not fn=0"),
        (ValueError(), "error: ValueError"),
    ],
)
def test_errors_of_the_user_are_one_line(monkeypatch, refused, error, line):
    def work():
        raise error

    make_command(monkeypatch, work)
    assert line in refused("command")


def test_errors_of_our_own_kinds_are_the_users(monkeypatch, refused):
    from adacsl.comparison.store import StoreError

    def work():
        raise StoreError("the folder belongs to other data")

    make_command(monkeypatch, work)
    assert refused("command") == "error: the folder belongs to other data"


def test_an_internal_error_asks_for_a_report(monkeypatch, refused):
    make_command(monkeypatch, lambda: {}["nothing"])
    line = refused("command", code=70)
    assert "an internal error of adacsl (KeyError: 'nothing')" in line
    assert "--debug" in line


def test_debug_shows_the_traceback(monkeypatch, adacsl):
    make_command(monkeypatch, lambda: {}["nothing"])
    assert "Traceback" in adacsl("command", "--debug").err
    monkeypatch.setenv("ADACSL_DEBUG", "1")
    assert "Traceback" in adacsl("command").err
    monkeypatch.setenv("ADACSL_DEBUG", "0")
    assert "Traceback" not in adacsl("command").err


def test_ctrl_c_shows_how_to_go_on(monkeypatch, adacsl):
    def work():
        with stoppable("what is finished is kept"):
            raise KeyboardInterrupt

    make_command(monkeypatch, work)
    output = adacsl("command")
    assert (output.code, output.out, output.err) == (130, "", "stopped: what is finished is kept\n")


def test_ctrl_c_anywhere_is_no_traceback(monkeypatch, adacsl):
    def work():
        raise KeyboardInterrupt

    make_command(monkeypatch, work)
    output = adacsl("command")
    assert (output.code, output.err) == (130, "stopped: start the command again\n")


def test_lightnings_answer_to_ctrl_c_is_a_stop_too():
    def interrupted():
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)

    with pytest.raises(KeyboardInterrupt, match="go on"), stoppable("go on"):
        interrupted()
    with pytest.raises(SystemExit), stoppable("go on"):
        sys.exit(1)


def test_sigterm_unwinds_shows_so_and_its_handler_is_given_back(monkeypatch, adacsl):
    before = signal.getsignal(signal.SIGTERM)
    cleaned = []

    def work():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            cleaned.append(True)

    make_command(monkeypatch, work)
    output = adacsl("command")
    assert (output.code, output.out, output.err) == (143, "", "stopped: start the command again\n")
    assert cleaned
    assert signal.getsignal(signal.SIGTERM) is before


def test_warnings_are_one_line_each_also_with_quiet(monkeypatch, adacsl):
    def work():
        for _ in range(2):
            warnings.warn("no GPU is available:\nusing the CPU", stacklevel=1)
        warnings.warn("soon", DeprecationWarning, stacklevel=1)

    make_command(monkeypatch, work)
    output = adacsl("command", "--json")
    assert output.err == "warning: no GPU is available: using the CPU\n"
    assert output.json == {"done": True}
    assert adacsl("command", "--quiet").err == adacsl("command").err != ""


def test_reader_that_leaves_early_is_no_error():
    program = subprocess.Popen(
        [*PROGRAM, "data", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=()
    )
    program.stdout.close()
    assert program.stderr.read() == b""
    assert program.wait() == 141
    program.stderr.close()


def test_completion_is_installed(tmp_path):
    script = tmp_path / "adacsl.sh"
    words = ["--install-completion", "--shell", "bash", "--output", str(script)]
    home = os.environ | {"HOME": str(tmp_path)}
    subprocess.run([*PROGRAM, *words], check=True, capture_output=True, env=home)
    assert all(command in script.read_text() for command in COMMANDS)


def test_json_has_no_nan(monkeypatch, adacsl, tmp_path):
    import numpy as np

    answer = Answer({"a": float("nan"), "b": np.float32(0.5), "c": (np.int64(1), tmp_path), "d": np.arange(2.0)})
    make_command(monkeypatch, lambda: answer)
    assert adacsl("command", "--json").json == {"a": None, "b": 0.5, "c": [1, str(tmp_path)], "d": [0.0, 1.0]}


def test_progress_goes_to_stderr(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with Screen().progress("reading", total=10) as advance:
        advance(completed=5, note="cost 0.25")
    out, err = capsys.readouterr()
    assert out == ""
    assert "reading" in err
    assert "cost 0.25" in err
    with Screen(quiet=True).progress("reading", total=10) as advance:
        advance(completed=5)
    assert capsys.readouterr().err == ""
