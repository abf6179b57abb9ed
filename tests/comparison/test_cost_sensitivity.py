"""Prices as ranges in a comparison: said with the costs, kept in its folder, asked for anew."""

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, compare, load_comparison
from adacsl.comparison.fits import scale_fn

METHODS = {
    "always-positive": CostSensitiveClassifier(learner="constant", decide="positive"),
    "logistic": CostSensitiveClassifier(learner=LogisticRegression()),
    "blind": CostSensitiveClassifier(learner=LogisticRegression(), decide="half"),
    "prior": CostSensitiveClassifier(learner=DummyClassifier()),
}


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return pd.DataFrame(x, columns=["a", "b"]), (x[:, 0] + rng.normal(size=n) > 0.8).astype(int)


def compared(costs, folder=None, **options):
    x, y = rows()
    given = {"methods": METHODS, "repeats": 1, "folds": 3, "n_jobs": 1, "progress": False, "folder": folder} | options
    return compare(x, y, costs, **given)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    return compared(CostMatrix(fp=(1, 2), fn=(5, 20)), tmp_path_factory.mktemp("runs") / "one")


def test_ranges_that_were_given_are_evaluated(said):
    result = next(iter(said.regrets.values()))
    assert (result.low, result.high) == (pytest.approx(2.5, rel=1e-4), pytest.approx(20, rel=1e-4))
    assert result.given
    assert said.cost_range == result.words
    assert said.cost_range.startswith("If a false negative costs 2.5 to 20 false positives,")
    table = said.regret()
    assert set(table["method"]) == set(METHODS)
    assert table["percent"].is_monotonic_increasing
    assert table.set_index("method").loc["blind", "undecided"] == 0.0  # stored as blind, not only by chance
    assert "5 to 20" in said.facts["data"]["data"]["costs"]


def test_regret_is_that_of_the_stored_scores(said):
    result = next(iter(said.regrets.values()))
    ratio = result.ratio
    for at in (result.low, ratio, result.high):
        costs = {}
        for name in METHODS:
            outcome = said.outcome(name)
            there = scale_fn(outcome.costs, at / ratio)
            anew = there.decide(outcome.scores.astype(float))
            decided = anew if name in ("logistic", "prior") else outcome.decisions
            paid = there.incurred(outcome.labels, decided)
            costs[name] = paid.mean()
        listed = result.curve[np.isclose(result.curve["ratio"], at, rtol=1e-9)].set_index("method")
        for name, cost in costs.items():
            assert listed.loc[name, "regret"] == pytest.approx(cost - min(costs.values()), abs=1e-9)


def test_a_folder_keeps_the_ranges(said):
    again = load_comparison(said.folder)
    assert again.cost_range == said.cost_range
    pd.testing.assert_frame_equal(again.regret(), said.regret())


def test_other_ranges_can_be_asked_for(said):
    wide = said.regret(fn=(1, 1000), fp=1)
    assert wide.set_index("method").loc["logistic", "undecided"] > 0.7
    narrow = said.regret(fp=(1, 1.01), fn=(10, 10.1))
    assert narrow["undecided"].max() < 0.1
    with pytest.raises(ValueError, match="the lower first"):
        said.regret(fn=(9, 3))


def test_without_ranges_half_to_double():
    result = compared(CostMatrix(fp=1, fn=8), ratios=["1x", "4x"])
    one, four = result.regrets.values()
    assert (one.low, one.high, one.given) == (4.0, 16.0, False)
    assert (four.low, four.high) == (16.0, 64.0)
    assert "data, ratio 8: If a false negative costs 4 to 16 false positives (half to double" in result.cost_range


def test_costs_of_samples_are_multiplied():
    x, y = rows()
    amount = np.random.default_rng(1).lognormal(2, 1, len(y))
    result = compare(
        x.assign(amount=amount), y, CostMatrix(fp=(1, 4), fn="amount"), methods=METHODS, repeats=1, folds=2, n_jobs=1,
        progress=False,
    )  # fmt: skip
    (one,) = result.regrets.values()
    assert one.high / one.low == pytest.approx(4.0)
    assert "on average" in result.cost_range


def test_more_than_two_classes_have_no_ranges(tmp_path):
    x, y = rows()
    matrix = CostMatrix.from_array([[0, 2, 9], [1, 0, 3], [4, 1, 0]], rows="predicted", classes=["0", "1", "2"])
    y = y + (x["b"] > 0.5)
    methods = {name: METHODS[name] for name in ("logistic", "prior")}
    result = compare(x, y.to_numpy(), matrix, methods=methods, repeats=1, folds=2, n_jobs=1, progress=False)
    assert result.cost_range == ""
    assert result.regrets == {}
    with pytest.raises(ValueError, match="for two classes"):
        result.regret()
    page = result.report(tmp_path / "page.html").read_text()
    assert "Reject option" in page
    assert "Extra cost if the costs are different" not in page


def test_the_figure_has_all_methods(said):
    assert {trace.name for trace in said.plot_regret().data} == set(METHODS)
