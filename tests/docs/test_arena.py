"""The cost arena: toy tables and quick methods through run and page, in two folds."""

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.quality.peers import methods, page, run, store, worker
from benchmarks.quality.peers import problem as problem_files

ROOT = Path(__file__).resolve().parents[2]
ARENA = ROOT / "benchmarks/quality/peers"
OWN = """
import numpy as np
import pandas as pd
from benchmarks.quality.peers.methods import ROWS, TWO, PeerMethod
from benchmarks.quality.savings_data import Prices
from benchmarks.quality.peers.tables import Table, data_of

RNG = np.random.default_rng(0)
FITS = []


def drawn(max_rows):
    n = min(120, max_rows)
    X = pd.DataFrame({"x": RNG.normal(size=n), "level": np.where(np.arange(n) % 3, "a", None)})
    return X, (np.arange(n) % 4 == 0).astype(int)


def load(max_rows):
    global RNG
    RNG = np.random.default_rng(0)
    X, y = drawn(max_rows)
    return data_of(X, y, {"own": np.asarray([[0.0, 1.0], [4.0, 0.0]]), "other": np.asarray([[0.0, 1.0], [9.0, 0.0]])})


def load_priced(max_rows):
    global RNG
    RNG = np.random.default_rng(1)
    X, y = drawn(max_rows)
    price, nothing = RNG.uniform(1, 5, len(y)), np.zeros(len(y))
    return data_of(X, y, {"rows": Prices(np.ones(len(y)), price, nothing, nothing)}, groups=np.arange(len(y)) // 2)


def shares(problem):
    FITS.append(problem.costs is None and problem.test_prices is None)
    positive = np.full(len(problem.X_test), problem.y_train.mean())
    return np.column_stack([1 - positive, positive])


def negative(problem):
    return np.zeros(len(problem.X_test), int)


def broken(problem):
    raise RuntimeError("no\\nluck")


def odd(problem):
    return np.full(len(problem.X_test), 7)


TABLES = {"toy": Table(TWO, load, "drawn"), "priced": Table(ROWS, load_priced, "drawn prices")}
PEER_METHODS = {
    "shares": PeerMethod(shares, "the share of positives", blind=True),
    "negative": PeerMethod(negative, "always negative", ours=True),
    "broken": PeerMethod(broken, "fails"),
    "odd": PeerMethod(odd, "decides for a class there is not", kinds=(TWO,)),
    "elsewhere": PeerMethod(negative, "in another Python", venv="other"),
}
"""


@pytest.fixture
def arena(monkeypatch, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    known = [(names, dict(names)) for names in (run.TABLES, run.PEER_METHODS)]
    yield run
    for names, before in known:
        names.clear()
        names.update(before)


WORDS = ["--folds", "2", "--venvs", "venvs", "--out", "results/arena.csv"]
TOY = ["--add", "own.py", "--tables", "toy", "priced", "--methods", "shares", "negative", "broken", "odd", "elsewhere"]


def test_a_part_of_the_benchmark_is_not_published_as_the_whole(arena):
    assert arena.parse(["--tables", "wine"]).out == Path("runs/arena/arena.csv")
    assert arena.parse([]).out == arena.RESULTS


def again(*more):
    """The same command in a fresh run: additions are read again."""
    for known in (run.TABLES, run.PEER_METHODS):
        for name in ("toy", "priced", "shares", "negative", "broken", "odd", "elsewhere"):
            known.pop(name, None)
    return run.main([*TOY, *WORDS, *more])


def lines():
    with Path("results/arena.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_table_and_a_method_of_ones_own_through_run_and_page(arena, capsys):
    assert again() == 0
    output = capsys.readouterr()
    assert "elsewhere is skipped: there is no virtual environment" in output.err
    result = {(row["table"], row["method"], row["split"]): row for row in lines()}
    assert len(result) == 2 * 4 + 2 * 3
    assert result["toy", "broken", "0"]["error"] == "RuntimeError: no luck"
    assert "expected decisions 0 to 1, got [7]" in result["toy", "odd", "1"]["error"]
    assert result["toy", "odd", "1"]["cost"] == ""
    assert float(result["toy", "negative", "0"]["cost"]) == pytest.approx(1.0, abs=0.1)  # a quarter, 4 each

    stored = store.read_results(Path("results/arena.csv"))
    toy, priced = stored[1]
    assert store.row_costs(toy, "broken") is None
    assert store.row_costs(toy, "nobody") is None
    costs = store.row_costs(priced, "negative")
    by_split = [costs[priced.fits == split].mean() for split in range(2)]
    assert by_split == pytest.approx([float(result["priced", "negative", str(split)]["cost"]) for split in range(2)])
    assert costs[priced.labels == 0].max() == 0
    for unit in np.unique(priced.units):  # never torn apart
        assert len(set(priced.fits[priced.units == unit])) == 1

    assert again("--page", "peers.md") == 0
    page, details = Path("peers.md").read_text(), Path("peers_details.md").read_text()
    # those who call all positive pay 3 / 4
    assert "| toy | own | shares | 1.000 | 1.333 | +33.3 % (" in page
    assert page.index("## Where negative loses") < page.index("## Ranks") < page.index("## Every table")
    assert "| toy (own) | 120 |" in page
    assert "failed" in page
    assert "Failed: broken on priced: RuntimeError: no luck." in details
    assert "Not run: elsewhere" in details


def test_the_page_of_the_docs_is_that_of_the_published_results():
    made = page.pages_of(*store.read_results(run.RESULTS))
    committed = (
        (ROOT / "benchmarks/results/peers.md").read_text(),
        (ROOT / "benchmarks/results/peers_details.md").read_text(),
    )
    assert made == committed, "python -m benchmarks.quality.peers.run --page benchmarks/results/peers.md"
    assert run.RESULTS.with_suffix(".npz").stat().st_size < 1e6


def test_the_readme_shows_how_to_add_both(arena):
    shown = re.findall(r"```python\n(.*?)```", (ARENA / "README.md").read_text(), flags=re.S)
    Path("mine.py").write_text("\n".join(shown))
    numbers = np.arange(60)
    late = (numbers % 3 == 0).astype(int)
    orders = np.column_stack([late, numbers // 2, late + 0.1 * np.sin(numbers)])
    np.savetxt("orders.csv", orders, delimiter=",", header="late,customer,distance", comments="")
    asked = ["--add", "mine.py", "--tables", "orders", "--methods", "forest", "constant"]
    assert arena.main([*asked, *WORDS]) == 0
    costs = {(row["method"], row["split"]): float(row["cost"]) for row in lines()}
    assert costs["forest", "0"] == costs["forest", "1"] == 0
    assert costs["constant", "0"] == pytest.approx(2 * 2 / 3, abs=0.2)  # all are called late


def test_a_run_goes_on_where_it_was_stopped(arena, monkeypatch):
    seen = []

    def stopping(entry, problem):
        seen.append(entry.about)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return attempt(entry, problem)

    attempt = run.attempt
    monkeypatch.setattr(run, "attempt", stopping)
    again()
    assert not Path("results/arena.csv").exists()  # no table is finished
    again()
    assert len(seen) == 3 + 6 + 6  # two of fourteen were kept
    before = Path("results/arena.csv").read_text()
    again()
    assert len(seen) == 15
    assert Path("results/arena.csv").read_text() == before
    again("--retry")
    assert seen[15:] == ["fails", "decides for a class there is not"] * 2 + ["fails"] * 2
    again("--again", "negative")
    assert seen[21:] == ["always negative"] * 4
    with pytest.raises(SystemExit, match="other settings"):
        again("--seconds", "3")
    published = Path("results/arena.csv").read_text()
    again("--work", "new")  # all is published: nothing is run
    assert len(seen) == 25
    assert Path("results/arena.csv").read_text() == published


def test_a_method_without_costs_is_fitted_once_for_all_costs(arena):
    again("--all-costs")
    module = run.PEER_METHODS["shares"].fit_predict.__globals__
    assert module["FITS"] == [True] * 4
    rows = [row for row in lines() if row["table"] == "toy" and row["method"] == "shares"]
    assert {row["costs"] for row in rows} == {"own", "other"}
    # at 9 to 1 all are called positive
    assert [float(row["cost"]) for row in rows if row["costs"] == "other"] == pytest.approx([0.75] * 2, abs=0.03)


def test_another_python_reads_files(arena, tmp_path):
    """The worker's side: the problem it reads is the one that was written."""
    again("--publish")
    data = run.TABLES["priced"].load(1000)
    rows = run.splits(data, 1, 2)[0]
    problem = run.problem_of(data, "rows", rows, 0, 1.0)
    problem_files.write_problem(problem, tmp_path)
    read = problem_files.read_problem(tmp_path)
    assert read.X_train.equals(problem.X_train)
    assert read.X_test["level"].isna().sum() == problem.X_test["level"].isna().sum() > 0
    np.testing.assert_array_equal(np.asarray(read.test_prices), np.asarray(problem.test_prices))
    assert (read.n_classes, read.seconds, read.costs) == (2, 1.0, None)
    for name, error in (("shares", ""), ("broken", "RuntimeError: no luck")):
        worker.answer(name, tmp_path)
        about = json.loads((tmp_path / "answer.json").read_text())
        assert about["error"] == error
    with np.load(tmp_path / "answer.npz") as file:
        assert file["found"].shape == (len(rows[1]), 2)


@pytest.mark.weekly
def test_a_contestant_in_another_python(arena):
    """One that ends its process fails, and the next fit finds a new one."""
    Path("venvs/other/bin").mkdir(parents=True)
    python = Path("venvs/other/bin/python")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    own = OWN.replace("def broken", "def dying(problem):\n    import os\n    os._exit(1)\n\n\ndef broken")
    own = own.replace("PEER_METHODS = {", 'PEER_METHODS = {"dying": PeerMethod(dying, "dies", venv="other"),')
    Path("own.py").write_text(own)
    chosen = ["--add", str(Path("own.py").resolve()), "--tables", "toy", "--methods", "dying", "elsewhere", "negative"]
    assert arena.main([*chosen, *WORDS]) == 0
    result = {(row["method"], row["split"]): row for row in lines()}
    assert "ended without an answer" in result["dying", "0"]["error"]
    assert result["elsewhere", "1"]["cost"] == result["negative", "1"]["cost"]
    python.unlink()  # who lacks the environment keeps what was published
    for known in (arena.TABLES, arena.PEER_METHODS):
        for name in ("toy", "priced", "shares", "negative", "broken", "odd", "elsewhere", "dying"):
            known.pop(name, None)
    assert arena.main([*chosen, *WORDS, "--work", "new"]) == 0
    assert {(row["method"], row["split"]): row for row in lines()} == result


def test_decisions_are_those_of_least_expected_cost(arena):
    rng = np.random.default_rng(0)
    costs, p = rng.uniform(0, 5, (3, 3)), rng.dirichlet(np.ones(3), 40)
    by_hand = [min(range(3), key=lambda action: sum(row[k] * costs[k, action] for k in range(3))) for row in p]
    assert problem_files.decide(p, costs).tolist() == by_hand
    y = rng.integers(0, 3, 40)
    assert problem_files.paid(y, np.asarray(by_hand), costs).tolist() == [
        costs[k, action] for k, action in zip(y, by_hand, strict=True)
    ]


def test_scores_and_excess_are_those_of_the_rows(arena, tmp_path):
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
    least = min(sum(costs[a, action] for a in y) / n for action in range(3))
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


def test_the_clock_counts_processor_seconds_and_is_put_back(arena):
    import time

    clock = time.monotonic
    with methods.processor_clock():
        start = time.monotonic()
        time.sleep(0.2)
        assert time.monotonic() - start < 0.1
    assert time.monotonic is clock


def test_additions_that_add_nothing_or_take_a_name_are_refused(arena, tmp_path):
    Path("empty.py").write_text("X = 1\n")
    Path("taken.py").write_text("from benchmarks.quality.peers.methods import PEER_METHODS\n")
    for file, match in (("empty.py", "neither PEER_METHODS nor"), ("taken.py", "is taken"), ("no.py", "expected")):
        with pytest.raises(SystemExit, match=match):
            arena.main(["--add", file])
    with pytest.raises(SystemExit):
        arena.main(["--tables", "nowhere"])
