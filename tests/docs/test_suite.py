"""The suite, what it keeps of every row, and what following the recommendation costs: scripts of benchmarks/."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from adacsl import CostMatrix
from adacsl.comparison.statistics import RowCosts
from adacsl.datasets import Task
from benchmarks import publish
from benchmarks.quality import old_protocol, recommendation_regret, suite, suite_rows

ROOT = Path(__file__).resolve().parents[2]


def drawn_task(name, *, own_prices):
    rng = np.random.default_rng(len(name))
    X = pd.DataFrame(rng.standard_normal((90, 3)), columns=["a", "b", "c"])
    y = (X["a"] + rng.standard_normal(90) > 0.7).astype(int).to_numpy()
    costs = CostMatrix(fp=1, fn=rng.uniform(2, 9, 90), tp=0.5) if own_prices else CostMatrix(fp=1, fn=4)
    return Task.from_data(X, y, costs, name=name)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A checkout with what suite.py wrote about two small tables."""
    root = tmp_path_factory.mktemp("checkout")
    folder = root / "benchmarks/results"
    folder.mkdir(parents=True)
    (root / "docs").mkdir()
    words = "--tables german-credit telco-churn --repeats 2 --folds 2 --n-jobs 1"
    words += " --methods always-negative always-positive logistic"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "load_dataset", lambda name, folder: drawn_task(name, own_prices="telco" in name))
        patch.setattr(suite, "data_folder", lambda: root)
        patch.setattr(sys, "argv", ["suite.py", *words.split(), "--csv", str(folder / "suite.csv")])
        suite.main()
    return root


def test_the_suite_writes_what_is_published(written):
    publish.main(written)
    page = (written / "benchmarks/results/tables.md").read_text()
    assert "72 fits (2 tables, 3 ratios, 3 methods, 2 x 2 folds)" in page
    assert "| logistic |" in page
    about = json.loads((written / "benchmarks/results/suite.meta.json").read_text())
    assert (about["repeats"], about["folds"], about["failed"]) == (2, 2, 0)


def test_stored_decisions_give_the_costs_of_the_fits(written):
    results = pd.read_csv(written / "benchmarks/results/suite.csv")
    stored = dict(suite_rows.load_rows(written / "benchmarks/results/suite.npz"))
    assert len(stored) == 6
    for (data, ratio), paired in stored.items():
        cells = results[(results["data"] == data) & np.isclose(results["ratio"], ratio)]
        for cell in cells.itertuples():
            own = paired.costs[paired.methods.index(cell.method), paired.fits == cell.seed]
            assert len(own) == cell.n_test
            assert own.mean() == pytest.approx(cell.cost, abs=2e-5)
        assert (np.bincount(paired.rows) == 2).all()  # every row in every repeat


def paired_costs(factor, n=400, seed=0):
    """Row costs of two methods; the simpler one costs ``factor`` times as much on every row."""
    base = np.tile(np.random.default_rng(seed).uniform(0.5, 1.5, n), 2)
    fits = np.concatenate([np.random.default_rng(1 + repeat).permutation(n) % 5 + 5 * repeat for repeat in range(2)])
    rows = np.tile(np.arange(n), 2)
    return RowCosts(("net-bayes", "adacsl"), np.stack([factor * base, base]), rows, fits, rows)


@pytest.mark.parametrize(("factor", "taken", "paid"), [(1.02, "adacsl", 1.0), (1.5, "adacsl", 1.0)])
def test_regret_is_what_the_pick_of_other_rows_costs(monkeypatch, factor, taken, paid):
    regret = recommendation_regret
    monkeypatch.setattr(regret, "load_rows", lambda path: [(("made", 5.0), paired_costs(factor))])
    (block,) = regret.new_blocks(Path("unused"), 2)
    assert block["picks"] == {taken: 10}
    assert (block["recommendation"], block["lowest"], block["best"]) == (paid, 1.0, "adacsl")
    result = regret.overall([block, block | {"recommendation": 2.0}])
    assert result["recommendation, %"] == pytest.approx(100 * (np.sqrt(paid * 2.0) - 1), abs=0.06)
    assert result["recommendation, worst"] == 2.0


def test_the_old_protocols_regret_is_the_one_an_audit_found():
    regret = recommendation_regret
    result = regret.overall(list(regret.old_blocks(ROOT / "benchmarks/results/suite_random_splits.csv")))
    assert (result["blocks"], round(result["recommendation, %"]), round(result["lowest, %"])) == (27, 27, 9)


def test_the_old_interval_and_recommendation():
    old = old_protocol
    costs = np.asarray([[1.0, 1.1, 0.9], [1.1, 1.4, 1.0], [0.9, 1.2, 1.1], [1.0, 1.6, 0.8], [1.2, 1.3, 1.0]])
    d = costs[:, 1] - costs[:, 2]
    mean, low, high, p = (part[0] for part in old.corrected(d[:, None], 0.25))
    plain = stats.ttest_1samp(d, 0.0)
    stretch = np.sqrt((1 / 5 + 0.25) * 5)
    ends = plain.confidence_interval()
    assert (low, high) == pytest.approx((mean + stretch * (ends.low - mean), mean + stretch * (ends.high - mean)))
    assert p == pytest.approx(2 * stats.t.sf(plain.statistic / stretch, 4))
    assert old.holm(np.asarray([0.04, 0.01, 0.03])).tolist() == pytest.approx([0.06, 0.03, 0.06])
    assert old.old_pick(costs, ["a", "b", "c"], 0.25) == "a"  # not told from c, and simpler
    assert old.old_pick(costs + np.asarray([9.0, 0.0, 0.0]), ["a", "b", "c"], 0.0) == "c"
    assert old.old_pick(costs, ["a", "b", "always-positive"], 0.25) == "always-positive"
