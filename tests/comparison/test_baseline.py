"""Baselines of a comparison: the user's own decisions as a method, threshold 0.5, and the best constant."""

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

from adacsl import CostMatrix, CostSensitiveClassifier, compare, load_comparison
from adacsl.comparison.baseline import baseline_costs
from adacsl.comparison.statistics import fold_interval

BAYES = ("bayes", CostSensitiveClassifier(learner=GaussianNB()))
QUICK = {"repeats": 1, "folds": 3, "n_jobs": 1, "progress": False}


def table(n=150, classes=2, seed=0):
    """Samples of classes that overlap, and a baseline that is often wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    X = pd.DataFrame({"a": y + rng.normal(0, 0.7, n), "b": rng.normal(size=n)})
    X["now"] = np.where(rng.random(n) < 0.4, rng.integers(0, classes, n), y)
    return X, y


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A comparison with a baseline, groups and prices of each row, kept in a folder."""
    X, y = table()
    amount = np.linspace(2, 10, len(y))
    result = compare(
        X, y, CostMatrix(fp=1, fn=amount), groups=np.arange(len(y)) // 3, baseline="now", ratios=["1x", "2x"],
        methods=["always-positive", BAYES], folder=tmp_path_factory.mktemp("runs") / "one", **QUICK,
    )  # fmt: skip
    return result, X, y, amount


def test_the_users_decisions_are_a_row_of_the_table(kept):
    result, X, y, amount = kept
    for ratio, factor in zip(sorted(result.table["ratio"].unique()), (1, 2), strict=True):
        rows = result.table[result.table["ratio"] == ratio].set_index("method")
        assert set(rows.index) == {"always-positive", "bayes", "baseline"}
        paid = np.where(X["now"] > y, 1.0, np.where(X["now"] < y, factor * amount, 0.0))  # every row is tested once
        assert rows.loc["baseline", "mean"] == pytest.approx(paid.mean())
    assert "now" not in result.fit(X, y, fn=amount).feature_names_in_


def test_the_saving_is_that_against_the_users_decisions(kept):
    result = kept[0]
    view, recommendation = next(iter(result.recommendations.items()))
    rows = result.paired[view]
    baseline, taken = (rows.costs[rows.methods.index(name)] for name in ("baseline", recommendation.recommended))
    expected = fold_interval(baseline - taken, rows.fits, rows.units)
    assert recommendation.recommended == "bayes"
    assert recommendation.saving[1:4] == pytest.approx(tuple(expected))
    assert recommendation.saving.percent == pytest.approx(100 * expected.estimate / baseline.mean())
    assert recommendation.saving.against == "your current decisions"


def test_a_folder_keeps_the_users_decisions(kept):
    result, X, y, _ = kept
    again = load_comparison(result.folder)
    assert again.recommendation == result.recommendation
    assert again.report_data().facts["current decisions: data"] == "decisions, from the column 'now'"
    assert again.report_data().titles["baseline"] == "your current decisions"
    strict = load_comparison(result.folder, tolerance=0.02)
    assert (result.tolerance, strict.tolerance) == (0.1, 0.02)
    with pytest.raises(ValueError, match="'baseline' is the current decisions, there is nothing to fit"):
        result.method("baseline")
    with pytest.raises(ValueError, match="is that of the current decisions"):
        compare(X, y, CostMatrix(fp=1, fn=8), baseline="now", methods=[("baseline", BAYES[1])], **QUICK)


def test_without_a_baseline_threshold_half_is_one():
    X, y = table()
    result = compare(X[["a", "b"]], y, CostMatrix(fp=1, fn=2), methods=["always-negative", BAYES], **QUICK)
    (recommendation,) = result.recommendations.values()
    outcome = result.outcome("bayes")
    half = outcome.costs.incurred(outcome.labels, (outcome.scores > 0.5).astype(int))
    assert set(result.table["method"]) == {"always-negative", "bayes"}
    saved = half.mean() - outcome.costs.mean(outcome.labels, outcome.decisions)
    assert recommendation.saving.difference == pytest.approx(saved)
    assert recommendation.saving.against == "predicting at threshold 0.5"
    assert f", {recommendation.saving.words}." in result.recommendation
    # a constant that is recommended is no baseline of itself
    known = baseline_costs(result, next(iter(result.recommendations)), "always-negative")
    assert (known.against, known.source, known.other) == ("predicting at threshold 0.5", "bayes", "")
    assert set(known.costs.methods) == {"always-negative", "baseline"}
    assert known.costs.costs[known.costs.methods.index("baseline")].mean() == pytest.approx(half.mean())


def test_threshold_half_has_the_best_probabilities_for_it():
    X, y = table()
    worse = ("worse", CostSensitiveClassifier(learner=GaussianNB(var_smoothing=10.0)))
    result = compare(X[["a", "b"]], y, CostMatrix(fp=1, fn=2), methods=[worse, BAYES], **QUICK)
    outcomes = {name: result.outcome(name) for name in ("worse", "bayes")}
    halves = {name: own.costs.mean(own.labels, (own.scores > 0.5).astype(int)) for name, own in outcomes.items()}
    best = min(halves, key=halves.get)
    assert halves["worse"] != halves["bayes"]
    for taken in halves:
        known = baseline_costs(result, next(iter(result.recommendations)), taken)
        assert known.source == best
        assert known.costs.costs[known.costs.methods.index("baseline")].mean() == pytest.approx(halves[best])


def test_classes_without_a_name_are_negative_and_positive():
    X, y = table(n=300)
    given = {
        "methods": ["always-negative", "always-positive", ("bayes", CostSensitiveClassifier(learner=GaussianNB()))],
        **QUICK,
    }
    result = compare(X[["b"]].assign(a=X["a"] + 3 * X["b"]), y, CostMatrix(fp=1, fn=30), **given)
    assert "more than always predicting positive" in result.recommendation


@pytest.mark.parametrize("fn", [2, 30])
def test_the_saving_is_against_the_better_of_threshold_half_and_the_best_constant(fn):
    X, y = table(n=300)
    X = X[["b"]].assign(a=X["a"] + 3 * X["b"])
    names, costs = np.array(["good", "bad"])[y], CostMatrix(fp=1, fn=fn)
    result = compare(X, names, costs, pos_label="bad", methods=[BAYES, "logistic"], **QUICK)  # no constant was run
    (recommendation,) = result.recommendations.values()
    outcomes = [result.outcome(name) for name in ("bayes", "logistic")]
    half = min(own.costs.mean(own.labels, (own.scores > 0.5).astype(int)) for own in outcomes)
    constant = min(costs.mean(y, np.full(len(y), label)) for label in (0, 1))
    better, other = sorted([(half, "predicting at threshold 0.5"), (constant, "always predicting bad")])
    assert (better[1], other[1])[fn == 2] == "always predicting bad"
    saving = recommendation.saving
    assert (saving.against, saving.other) == (better[1], other[1])
    assert (saving.cost, saving.other_cost) == pytest.approx((better[0], other[0]))
    paid = result.table.set_index("method").loc[recommendation.recommended, "mean"]
    assert saving.percent == pytest.approx(100 * (better[0] - paid) / better[0])
    assert better[1] in recommendation.text
    assert other[1] in recommendation.text
    shown = result.report_data()
    assert shown.savings[next(iter(result.recommendations))].against == better[1]
    for page in (result.to_markdown(), result.report_data().recommendations[next(iter(result.recommendations))]):
        assert better[1] in page
        assert other[1] in page


def test_baseline_scores_are_thresholded_at_half_and_the_facts_state_it():
    X, y = table()
    scores = np.where(X["now"] == 1, 0.51, 0.5)
    given = {"methods": ["always-positive", BAYES], **QUICK}
    result = compare(X[["a", "b"]], y, CostMatrix(fp=1, fn=8), baseline=scores, **given)
    decided = compare(X, y, CostMatrix(fp=1, fn=8), baseline="now", **given)
    means = [one.table.set_index("method").loc["baseline", "mean"] for one in (result, decided)]
    assert means[0] == means[1]
    assert "your current decisions (your scores at threshold 0.5)" in result.recommendation


def test_more_than_two_classes():
    X, y = table(classes=3)
    names = np.array(["ash", "elm", "oak"])
    costs = CostMatrix.from_array([[0, 1, 9], [2, 0, 3], [1, 20, 0]], rows="predicted", classes=names.tolist())
    X["now"] = names[X["now"]]
    result = compare(X, names[y], costs, baseline="now", methods=[BAYES], **QUICK)
    rows = result.table.set_index("method")
    numbers = np.searchsorted(names, X["now"])
    assert rows.loc["baseline", "mean"] == pytest.approx(costs.mean(y, numbers))
    assert "your current decisions" in result.recommendation
    plain = compare(X[["a", "b"]], names[y], costs, methods=[BAYES], **QUICK)
    assert "more than always predicting elm (" in plain.recommendation
    assert "; predicting the likeliest class costs 2.1." in plain.recommendation
    assert plain.recommendation.startswith("Only bayes was evaluated: there is nothing to compare it with. Mean cost ")
