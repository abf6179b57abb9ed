"""Comparisons on more than two classes: from data to recommendation, table and report."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, Task, compare, load, load_comparison
from adacsl.comparison import store
from adacsl.comparison.compare import compare_tasks
from adacsl.comparison.fits import FitKey, FitResult
from adacsl.comparison.protocol import Protocol, at_ratio, choose_ratios
from adacsl.estimators.registry import METHODS, choose_methods, title_of
from adacsl.neural.learner import NeuralLearner
from adacsl.report.explorer import rule_of

QUICK = {"n_jobs": 1, "progress": False, "neural": NeuralLearner(epochs=2), "device": "cpu"}
NAMES = np.asarray(["barolo", "barbera", "grignolino"])
PRICES = CostMatrix.from_array(
    [[0, 1, 9], [2, 0, 3], [1, 20, 0]], rows="predicted", classes=["barolo", "barbera", "grignolino"]
)
SORTED = ["barbera", "barolo", "grignolino"]  # as the data have them


def wine():
    x, y = load_wine(return_X_y=True, as_frame=True)
    rng = np.random.default_rng(0)
    return x + 2.0 * x.std().to_numpy() * rng.normal(size=x.shape), NAMES[y]  # or nobody errs


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    methods = [
        "net",
        "net-bayes",
        "gbm-bayes",
        "adacsl",
        ("mine", CostSensitiveClassifier(learner=LogisticRegression(), decide="tuned")),
    ]
    folder = tmp_path_factory.mktemp("runs") / "wine"
    return compare(*wine(), PRICES, methods=methods, repeats=1, folds=2, folder=folder, name="wine", **QUICK)


def test_every_fit_has_a_result_and_no_ratio_to_speak_of(found):
    assert len(found.results) == 5 * 2
    assert len(found.failures) == 0
    assert set(found.results["ratio"]) == {1.0}
    assert not {"tp", "fp", "fn", "tn"} & set(found.results)
    assert found.recommendation == str(found.recommendations["wine", 1.0])
    assert "ratio" not in found.recommendation


def test_outcomes_reproduce_the_costs_of_the_fits(found):
    for name in ("net", "gbm-bayes", "adacsl", "mine"):
        outcome = found.outcome(name)
        assert outcome.scores.shape == (outcome.n, 3)
        assert outcome.scores.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
        fits = found.results.query("method == @name")
        assert outcome.costs == PRICES.aligned(SORTED)
        assert outcome.costs.total(outcome.labels, outcome.decisions) == pytest.approx(fits["total_cost"].sum())
        assert fits["accuracy"].mean() == pytest.approx((outcome.labels == outcome.decisions).mean())
    rules = {name: rule_of(found.outcome(name)) for name in found.table["method"]}
    assert rules == dict.fromkeys(rules, "cheapest") | {"net": "likeliest"}
    assert np.array_equal(found.outcome("net").decisions, found.outcome("net").scores.argmax(axis=1))


@pytest.mark.parametrize("name", ["net", "gbm-bayes", "adacsl", "mine"])
def test_a_method_fitted_on_the_samples_of_a_split_decides_as_in_the_comparison(found, name):
    x, y = wine()
    rest, tested = Protocol(folds=2).split(Task.from_data(x, y, PRICES), 1)
    unfitted = found.method(name)
    assert unfitted.costs == PRICES.aligned(SORTED)
    assert unfitted.pos_label is None
    unfitted.set_params(random_state=1, validation=0.15 / 0.5, device="cpu").fit(x.iloc[rest], y[rest])
    assert unfitted.classes_.tolist() == SORTED
    result = next(r for c, r in found.fits.items() if (c.method, c.seed) == (name, 1))
    np.testing.assert_allclose(unfitted.predict_proba(x.iloc[tested]), result.scores, atol=1e-6)
    same = unfitted.predict(x.iloc[tested]) == unfitted.classes_[result.decisions]
    assert same.mean() > 0.97  # ties turn in float32


def test_the_recommended_method_is_fitted_on_all_samples_and_can_be_kept(found, tmp_path):
    x, y = wine()
    fitted = found.fit(x, y, name="net-bayes")
    again = load(fitted.save(tmp_path / "model"))
    assert again.predict(x).tolist() == fitted.predict(x).tolist()
    assert set(fitted.predict(x)) <= set(SORTED)


def test_a_comparison_is_read_again_and_goes_on(found):
    again = load_comparison(found.folder)
    assert again.recommendation == found.recommendation
    pd.testing.assert_frame_equal(again.table, found.table)
    assert np.array_equal(again.outcome("net").scores, found.outcome("net").scores)
    assert again.outcome("net").costs == found.outcome("net").costs
    before = {path: path.stat().st_mtime_ns for path in found.folder.glob("fits/*/*/*.json")}
    more = compare(
        *wine(), PRICES, methods=["net", "net-weighted"], repeats=1, folds=2, folder=found.folder, name="wine", **QUICK
    )
    assert set(more.results["method"]) == {"net", "net-weighted"}
    after = {path: path.stat().st_mtime_ns for path in found.folder.glob("fits/*/*/*.json")}
    assert all(after[path] == when for path, when in before.items())
    assert len(after) == len(before) + 2


def test_figures_that_speak_of_two_classes_say_so(found):
    for figure in (found.plot_costs(), found.plot_history(), found.plot_lambda(), found.plot_calibration("net")):
        assert len(figure.data) > 0
    outcome = found.outcome("net")
    (heat,) = found.plot_confusion("net").data
    assert heat.x == tuple(SORTED)
    assert np.allclose(np.asarray(heat.z).T, outcome.costs.confusion(outcome.labels, outcome.decisions))
    for plot, what in ((found.plot_threshold, "thresholds"), (found.plot_ratios, "cost ratios")):
        with pytest.raises(ValueError, match=f"{what} are for two classes, but 'wine' has 3: see plot_costs"):
            plot()


def test_the_report_is_one_page_that_names_the_classes(found, tmp_path):
    text = found.report(tmp_path / "report.html").read_text()
    assert "3 classes, a cost for each kind of error" in text
    assert "178 samples of 3 classes, from 71 &#39;barbera&#39; to 48 &#39;grignolino&#39;" in text
    assert "An error costs 1 to 20 by its kind" in text
    assert "Errors of" in text
    assert "cross-entropy, the likeliest class: ignores costs" in text


def test_two_and_more_classes_are_compared_together(tmp_path):
    x, y = wine()
    tasks = [
        Task.from_data(x, y, PRICES, name="wine"),
        Task.from_data(x, y == "barolo", CostMatrix(fp=1, fn=5), name="barolo"),
    ]
    both = compare_tasks(tasks, methods=["gbm-bayes", "net"], repeats=1, folds=2, **QUICK)
    first, second = both.recommendation.splitlines()
    assert first.startswith("barolo, ratio 5: ")
    assert second.startswith("wine: ")
    assert both.outcome("net", data="barolo").scores.ndim == 1
    assert both.results.query("data == 'wine'")["tp"].isna().all()
    text = both.report(tmp_path / "report.html").read_text()
    assert "costs 5 times a false positive" in text
    with pytest.raises(ValueError, match="ratios are fn : fp of two classes; a matrix of 3"):
        compare_tasks(tasks, methods=["net"], ratios=[2], **QUICK)


def test_costs_of_each_sample_are_kept_with_their_splits():
    x, y = wine()
    each = PRICES.aligned(SORTED).to_array() * np.random.default_rng(0).uniform(0.5, 2, (len(y), 1, 1))
    costs = CostMatrix.from_array(each, rows="predicted", classes=SORTED)
    own = compare(x, y, costs, methods=["gbm-bayes"], repeats=1, folds=2, **QUICK)
    outcome = own.outcome("gbm-bayes")
    assert outcome.costs.n_instances == outcome.n
    total = own.results["total_cost"].sum()
    assert outcome.costs.total(outcome.labels, outcome.decisions) == pytest.approx(total)
    assert np.array_equal(outcome.costs.decide(outcome.scores.astype(float)), outcome.decisions)


# which methods, which ratios


def test_methods_of_two_classes_are_left_out_and_refused_by_name():
    two = {"always-negative", "always-positive", "metacost", "adacsl-bins"}
    assert set(choose_methods("all")) - set(choose_methods("all", n_classes=3)) == two
    assert not two & set(choose_methods(n_classes=3))
    for name in two:
        with pytest.raises(ValueError, match=f"method '{name}' is for two classes, but the data have 7"):
            choose_methods(["net", name], n_classes=7)
    images = choose_methods(images=True, n_classes=3)
    assert "gbm-bayes" not in images
    assert "adacsl" in images


def test_titles_speak_of_decisions():
    assert not [name for name in choose_methods("all", n_classes=3) if "threshold" in title_of(name, 3)]
    assert title_of("logit-adjusted", 3) == "logits shifted by the costs"
    assert title_of("net-tuned") == METHODS["net-tuned"][0]


def test_there_is_one_ratio():
    assert choose_ratios(PRICES, None) == [1.0]
    assert at_ratio(PRICES, 1.0) is PRICES
    with pytest.raises(ValueError, match="give another matrix for other costs"):
        choose_ratios(PRICES, ["1x"])


# documents


@given(st.integers(3, 6), st.integers(1, 20), st.booleans(), st.integers(0, 2**32 - 1))
def test_results_and_splits_survive_being_written(k, n, own, seed):
    rng = np.random.default_rng(seed)
    scores, decisions = rng.random((n, k)).astype(np.float32), rng.integers(0, k, n)
    result = FitResult(FitKey("d", 1.0, "m", 3), {"cost": 0.5}, scores, decisions, provenance={"decide": "half"})
    again = store.result_from_json(store.result_to_json(result))
    assert np.array_equal(again.scores, scores)
    assert np.array_equal(again.decisions, decisions)
    assert (again.fit, again.threshold, again.provenance["decide"]) == (result.fit, None, "half")
    matrix = rng.uniform(1, 2, (n, k, k) if own else (k, k))
    matrix[..., np.arange(k), np.arange(k)] = 0.0
    costs = CostMatrix.from_array(matrix, rows="predicted", classes=[f"c{j}" for j in range(k)])
    labels = rng.integers(0, k, n)
    given = store.StoredSplit(np.arange(n), labels, costs, np.arange(n) // 2)
    split = store.stored_split(store.split_body(given))
    assert np.array_equal(split.units, given.units)
    assert split.costs == costs
    assert np.array_equal(split.labels, labels)


def test_decisions_of_another_length_are_refused():
    body = store.result_to_json(FitResult(FitKey("d", 1.0, "m", 3), {}, np.ones((4, 3)), np.zeros(4)))
    body["decisions"] = store.pack(np.zeros(3, dtype="<i8"))
    with pytest.raises(store.DamagedError, match="its form is wrong"):
        store.result_from_json(body)
    with pytest.raises(ValueError, match="scores and decisions must be vectors of one length"):
        store.result_to_json(FitResult(FitKey("d", 1.0, "m", 3), {}, np.ones((4, 3)), np.zeros(3)))
