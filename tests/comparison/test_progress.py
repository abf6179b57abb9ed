"""Progress: a bar in a terminal, lines elsewhere, nothing on stdout."""

import io
import re

import numpy as np
import pytest
from rich.console import Console
from sklearn.dummy import DummyClassifier

from adacsl import CostMatrix, CostSensitiveClassifier, compare
from adacsl.comparison import progress as module
from adacsl.comparison.fits import FitKey
from adacsl.comparison.progress import Progress, find_leader
from adacsl.comparison.runner import Event


def fit(method="net", seed=0, data="toy", ratio=8.0):
    return FitKey(data, ratio, method, seed)


def console(terminal=False):
    return Console(file=io.StringIO(), force_terminal=terminal, width=150, color_system=None)


def written(out):
    return out.file.getvalue()


# the cheapest so far


def test_the_leader_has_the_lowest_mean_where_all_were_measured():
    assert find_leader({}) is None
    costs = {"net": {0: 0.4, 1: 0.1}, "adacsl": {0: 0.3}}  # the second an easy split, which the other has not seen
    assert find_leader(costs) == ("adacsl", 0.3)
    costs["adacsl"][1] = 0.5
    assert find_leader(costs) == ("net", 0.25)


def test_the_leader_waits_for_a_common_split_and_ignores_what_is_no_number():
    assert find_leader({"net": {0: 0.4}, "net-weighted": {1: 0.3}}) is None
    out = console()
    with Progress(3, console=out) as bar:
        for done, (method, cost) in enumerate(
            [("net", 0.4), ("net-weighted", float("nan")), ("net-weighted", None)], start=1
        ):
            bar(Event("done", done, 3, (fit(method),), cost=cost))
    assert written(out).splitlines()[-1] == "3 / 3 fits, lowest cost so far: net 0.4 per sample"


def test_the_unit_is_that_of_the_table():
    """One table: its cost per row. Several: what can be added up, the share of the better constant decision."""
    out = console()
    with Progress(2, console=out) as bar:
        bar(Event("done", 1, 2, (fit(),), cost=30.5, normalized=0.25))
        bar(Event("done", 2, 2, (fit(data="other"),), cost=0.5, normalized=0.75))
    assert written(out).splitlines() == [
        "1 / 2 fits, about 0 s left, lowest cost so far: net 30.5 per sample",
        "2 / 2 fits, lowest cost so far: net 0.5 normalised",
    ]


# without a terminal


def test_lines_are_few_and_say_how_far_it_is(monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    out = console()
    with Progress(200, console=out) as bar:
        bar(Event("start", 0, 200))
        for done in range(1, 201):
            bar(Event("done", done, 200, (fit(seed=done),), cost=0.142))
        bar(Event("end", 200, 200))
    lines = written(out).splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("20 / 200 fits, ")
    assert lines[0].endswith(" left, lowest cost so far: net 0.142 per sample")
    assert lines[-1] == "200 / 200 fits, lowest cost so far: net 0.142 per sample"


def test_the_first_line_says_what_is_running_before_there_is_a_result(tmp_path, capfd):
    x, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    seen = []

    class Slow(DummyClassifier):
        def fit(self, x, y):
            seen.append(capfd.readouterr().err)
            return super().fit(x, y)

    methods = [("slow", CostSensitiveClassifier(learner=Slow(strategy="prior"))), "always-negative"]
    compare(x, y, CostMatrix(fp=1, fn=2), methods=methods, repeats=1, folds=2, n_jobs=1)
    first, *_ = seen[0].splitlines()
    assert first == "data: 60 samples, 2 methods, 2 folds; checking and splitting the data"
    assert re.search(r"^0 / 4 fits, running: (slow|always-negative).*fold 1", seen[0], re.MULTILINE)


def test_every_minute_there_is_a_line_with_what_is_running(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    out = console()
    with Progress(20, console=out) as bar:
        bar(Event("start", 0, 20))
        bar(Event("running", 0, 20, (fit("net"), fit("net-weighted"))))
        bar(Event("running", 0, 20, (fit("adacsl", 1),)))
        for now[0] in (30.0, 60.0, 90.0, 120.0):
            bar(Event("alive", 0, 20))
        bar(Event("done", 1, 20, (fit("net"),), cost=0.5))
        bar(Event("failed", 1, 20, (fit("adacsl", 1),), message="E: x"))
        now[0] = 200.0
        bar(Event("alive", 1, 20))
    assert written(out).splitlines() == [
        "0 / 20 fits, running: net and net-weighted (fold 1)",
        "0 / 20 fits, 1 min spent, running: net and net-weighted (fold 1); adacsl (fold 2)",
        "0 / 20 fits, 2 min spent, running: net and net-weighted (fold 1); adacsl (fold 2)",
        "failed: toy, ratio 8, adacsl, seed 1: E: x",
        "1 / 20 fits, about 1 h 03 min left, lowest cost so far: net 0.5 per sample, running: net-weighted (fold 1)",
    ]


def test_a_resumed_run_says_what_is_there_and_counts_from_it():
    out = console()
    with Progress(10, console=out) as bar:
        bar(Event("start", 9, 10))
        for seed in range(9):
            bar(Event("kept", 9, 10, (fit(seed=seed),), cost=0.5))
        bar(Event("corrupt", 9, 10, message="x.json was damaged: it is kept there, and its fit runs again"))
        bar(Event("done", 10, 10, (fit(seed=9),), cost=0.5))
        bar(Event("end", 10, 10))
    assert written(out).splitlines() == [
        "9 of 10 fits are done already",
        "warning: x.json was damaged: it is kept there, and its fit runs again",
        "10 / 10 fits, lowest cost so far: net 0.5 per sample",
    ]


def test_a_failure_is_one_line_whatever_it_says():
    out = console()
    with Progress(4, console=out) as bar:
        bar(Event("start", 0, 4))
        bar(
            Event("failed", 0, 4, (fit(), fit("[red]net-weighted")), message="ValueError: no\n  [bold]luck", again=True)
        )
        bar(Event("failed", 0, 4, (fit("[red]net-weighted"),), message="ValueError: " + "long " * 99))
        bar(Event("end", 0, 4))
    first, second = written(out).splitlines()
    assert first == "failed, tried again: toy, ratio 8, net, seed 0 and 1 more: ValueError: no [bold]luck"
    assert second.startswith("failed: toy, ratio 8, [red]net-weighted, seed 0: ValueError: long long")
    assert second.endswith("...")
    assert len(second) < 260


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (61, "1 min"), (3540, "59 min"), (3661, "1 h 01 min")]
)
def test_durations_are_short(seconds, text):
    assert module.duration(seconds) == text


# in a terminal


def test_the_bar_shows_fits_and_the_cheapest():
    out = console(terminal=True)
    with Progress(4, console=out) as bar:
        bar(Event("start", 1, 4))
        bar(Event("kept", 1, 4, (fit("[b]net", 0),), cost=0.25))
        bar(Event("done", 2, 4, (fit("[b]net", 1),), cost=0.75))
        bar(Event("failed", 2, 4, (fit("net-weighted"),), message="ValueError: x"))
        bar(Event("end", 2, 4))
        bar._bar.refresh()
    text = written(out)
    assert "2/4" in text
    assert re.search(r"2/4 fits 0:00:0\d \+ about .* left", text)  # spent, and to come
    assert "lowest cost so far: 0.5 per sample, [b]net" in text
    assert text.count("failed: toy, ratio 8, net-weighted, seed 0: ValueError: x") == 1
    assert "2 / 4 fits" not in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_shows_count_time_what_is_running_and_the_cost_however_narrow(width):
    out = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    with Progress(36, console=out) as bar:
        bar(Event("start", 0, 36))
        bar(Event("running", 0, 36, (fit("adacsl"), fit("net-weighted-calibrated-last"))))
        bar(Event("running", 0, 36, (fit("gbm-bayes", 2), fit("logistic", 3))))
        bar(Event("done", 12, 36, (fit("adacsl-cv-target-bayes-cautious"),), cost=0.4712))
        bar._bar.refresh()
        shown = written(out)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.replace("\r", "")).splitlines()
    counted, running, lowest = lines[-3:]
    assert re.search(r"12/36 fits 0:00:0\d \+ about .* left", counted)
    assert running.startswith("running: adacsl and net-weighted-calibrated-last (fold 1)"[: width - 1])
    assert "lowest cost so far: 0.4712 per sample, adacsl-cv-target" in lowest
    assert all(len(line) <= width for line in (running, lowest))


# where it writes


def play(bar):
    bar(Event("start", 0, 1))
    bar(Event("failed", 0, 1, (fit(),), message="E: x", again=True))
    bar(Event("done", 1, 1, (fit(),), cost=0.5))
    bar(Event("end", 1, 1))


def test_nothing_goes_to_stdout(capfd):
    with Progress(1) as bar:
        play(bar)
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_quiet(capfd, terminal):
    out = console(terminal)
    with Progress(1, quiet=True, console=out) as bar:
        play(bar)
    with Progress(1, quiet=True) as bar:
        play(bar)
    assert written(out) == ""
    assert capfd.readouterr() == ("", "")


def test_quiet_hides_no_warning(capfd):
    with Progress(1, quiet=True) as bar, pytest.warns(UserWarning, match="x.json was damaged"):
        bar(Event("corrupt", 0, 1, message="x.json was damaged: its fit runs again"))
    assert capfd.readouterr() == ("", "")
