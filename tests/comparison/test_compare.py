"""From data to recommendation, table and report."""

import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from adacsl import AdaCSLController, CostMatrix, CostSensitiveClassifier, Task, compare, load, load_comparison, method
from adacsl.cli.app import run
from adacsl.comparison import jobs as jobs_of_comparisons
from adacsl.comparison.compare import compare_tasks
from adacsl.comparison.jobs import Parts, plan_jobs
from adacsl.comparison.model_card import model_card
from adacsl.comparison.protocol import Protocol, choose_ratios, split_rows
from adacsl.comparison.result import Comparison
from adacsl.comparison.store import Store, StoreError
from adacsl.estimators.registry import choose_methods, needs_network
from adacsl.fitting.rows import Rows
from adacsl.neural.learner import NeuralLearner
from adacsl.report.comparison import report_page
from adacsl.torch.augmentation import Augment

QUICK = {"n_jobs": 1, "progress": False, "neural": NeuralLearner(epochs=2), "device": "cpu"}


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = np.where(x[:, 0] + rng.normal(size=n) > 0.8, "sick", "well")
    return pd.DataFrame(x, columns=["a", "b", "c"]).assign(city=rng.choice(["Ulm", "Ems"], n)), y


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    x, y = table()
    folder = tmp_path_factory.mktemp("runs") / "one"
    methods = [
        "always-positive",
        "net",
        "net-bayes",
        "gbm-bayes",
        "adacsl",
        ("mine", CostSensitiveClassifier(learner=LogisticRegression())),
    ]
    return compare(
        x,
        y,
        CostMatrix(fp=1, fn=5),
        pos_label="sick",
        methods=methods,
        ratios=["1x", 20],
        repeats=1,
        folds=3,
        folder=folder,
        **QUICK,
    )


@pytest.mark.parametrize(("backend", "kept"), [("processes", True), ("ray", False)])
def test_nets_of_unfinished_jobs_are_kept_where_all_workers_reach_the_folder(tmp_path, monkeypatch, backend, kept):
    class SeenError(Exception):
        pass

    def run(jobs, work, store, **_):
        raise SeenError(work.keywords["parts"])

    monkeypatch.setattr(jobs_of_comparisons, "run", run)
    with pytest.raises(SeenError) as seen:
        compare(*table(), CostMatrix(fp=1, fn=5), pos_label="sick", backend=backend, folder=tmp_path / "run", **QUICK)
    (parts,) = seen.value.args
    origins = Store.read_only(tmp_path / "run").origins(["data"])
    assert parts == (Parts(tmp_path / "run" / "parts", origins=origins) if kept else None)


def test_every_fit_has_a_result(found):
    assert len(found.results) == 6 * 2 * 3
    assert len(found.failures) == 0
    assert set(found.results["ratio"]) == {5.0, 20.0}


def test_the_table_holds_means_of_the_fits(found):
    row = found.table.query("method == 'net-bayes' and ratio == 20").iloc[0]
    fits = found.results.query("method == 'net-bayes' and ratio == 20")
    assert row["mean"] == pytest.approx(fits["total_cost"].sum() / fits["n_test"].sum())
    assert row["n"] == 3


def test_all_methods_were_tested_on_the_same_rows(found):
    sizes = found.results.groupby("seed")[["n_test", "n_train"]].nunique()
    assert (sizes == 1).all().all()
    positives = found.results.assign(positives=found.results["tp"] + found.results["fn"])
    assert (positives.groupby("seed")["positives"].nunique() == 1).all()


def test_outcomes_reproduce_the_costs_of_the_fits(found):
    for name, ratio in (("adacsl", 20.0), ("mine", 5.0), ("always-positive", 20.0)):
        outcome = found.outcome(name, ratio=ratio)
        fits = found.results.query("method == @name and ratio == @ratio")
        assert outcome.costs.total(outcome.labels, outcome.decisions) == pytest.approx(fits["total_cost"].sum())


def test_the_verdict_of_each_ratio_is_a_line(found):
    lines = found.recommendation.splitlines()
    assert lines == [f"data, ratio {ratio:g}: {found.recommendations['data', ratio]}" for ratio in (5.0, 20.0)]
    assert str(found) == found.recommendation
    for ratio in (5.0, 20.0):
        block = found.table.query("ratio == @ratio").set_index("method")
        assert found.recommendations["data", ratio].cheapest == block["mean"].idxmin()


def made(costs, *, ratio=8.0, data="d"):
    """Results of five splits: method to mean cost, which varies a little in the same way for all."""
    noise = (0.01, -0.01, 0.02, -0.02, 0.0)
    return pd.DataFrame(
        [
            {"data": data, "ratio": ratio, "method": name, "seed": seed, "cost": cost + noise[seed] * (1 + 0.1 * i),
             "normalized_cost": cost, "savings": 1 - cost, "n_train": 80, "n_test": 20}
            for i, (name, cost) in enumerate(costs.items()) for seed in range(5)
        ]
    )  # fmt: skip


@pytest.fixture
def compared(paired_of):
    def of(*parts):
        results = pd.concat(parts, ignore_index=True)
        failures = pd.DataFrame(columns=["data", "ratio", "method", "seed", "type", "message"])
        facts = {"data": {str(data): {"ratio": 8.0} for data in results["data"]}}
        found = Comparison(results, failures, facts, {}, {})
        vars(found)["paired"] = paired_of(results)  # computed from fits, which there are none of
        return found

    return of


def test_the_best_is_the_cheapest_or_the_simplest_that_is_hardly_dearer(compared):
    clear = compared(made({"net-bayes": 0.5, "adacsl": 0.3, "always-negative": 0.9}))
    assert clear.best == "adacsl"
    assert clear.recommendation.startswith("Recommended: adacsl, significantly the lowest cost of 3 methods. ")
    tied = compared(made({"adacsl-cv": 0.3, "net-bayes": 0.301, "always-negative": 0.9}))
    assert tied.best == "net-bayes"
    assert tied.recommendation.startswith(
        "Recommended: net-bayes, the simplest method with no significant difference from "
    )


def test_there_is_no_best_of_one_split(compared):
    alone = compared(made({"net-bayes": 0.5, "adacsl": 0.3}).query("seed == 0"))
    assert alone.best is None
    assert alone.recommendation.startswith("No recommendation: one split shows no variance")


def test_the_best_of_several_ratios_is_that_of_the_own_ratio_which_fit_fits(compared):
    first, second = ({"net-bayes": a, "adacsl": b} for a, b in ((0.5, 0.3), (0.3, 0.5)))
    assert compared(made(first), made(first, ratio=2.0)).best == "adacsl"
    found = compared(made(first), made(second, ratio=2.0))
    assert {recommendation.recommended for recommendation in found.recommendations.values()} == {"adacsl", "net-bayes"}
    assert found.best == "adacsl"


class Squares(ClassifierMixin, BaseEstimator):
    """Logistic regression of the features and their squares."""

    def fit(self, x, y):
        self.model_ = LogisticRegression().fit(self._wide(x), y)
        self.classes_ = self.model_.classes_
        return self

    def _wide(self, x):
        return np.hstack([np.asarray(x), np.asarray(x) ** 2])

    def predict_proba(self, x):
        return self.model_.predict_proba(self._wide(x))


def test_a_simpler_method_that_costs_significantly_more_is_recommended_only_if_simplicity_is_preferred(
    tmp_path, capsys
):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12_000, 2))
    y = (x[:, 0] + 0.25 * x[:, 1] ** 2 + rng.normal(size=len(x)) > 0.5).astype(int)
    given = {
        "methods": ["logistic", ("squares", CostSensitiveClassifier(learner=Squares()))],
        "folder": tmp_path / "run",
    }
    found = compare(x, y, CostMatrix(fp=1, fn=3), repeats=1, folds=3, **given, **QUICK)
    table = found.table.set_index("method")
    assert table.loc["logistic", "significance"] == "significantly higher"
    assert 0 < table.loc["logistic", "percent_low"] < table.loc["logistic", "percent_high"] < 10
    (recommendation,) = found.recommendations.values()
    assert (found.best, recommendation.recommended, recommendation.simpler.method) == ("squares", "squares", "logistic")
    assert isinstance(found.fit(x, y).learner, Squares)
    simple = load_comparison(found.folder, prefer="simple")
    assert (simple.best, simple.method().learner) == ("logistic", method("logistic").learner)
    assert "logistic" in simple.report_data().recommended.values()
    for prefer, name in (("cost", "squares"), ("simple", "logistic")):
        words = ["report", str(found.folder), "--prefer", prefer, "--markdown", str(tmp_path / "page.md"), "--json"]
        assert run(words) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["best"], said["prefer"]) == (name, prefer)
        assert f"Recommended: {name}" in said["recommendation"]
        assert f"**{name} (recommended)**" in (tmp_path / "page.md").read_text()
        assert f"Recommended: {name}" in (found.folder / "report.html").read_text()
    with pytest.raises(ValueError, match="prefer must be 'cost' or 'simple', got 'price'"):
        load_comparison(found.folder, prefer="price")


# the method to take


def own_task():
    x, y = table()
    return Task.from_data(x, y, CostMatrix(fp=1, fn=5), pos_label="sick")


@pytest.mark.parametrize("name", ["net", "net-bayes", "gbm-bayes", "adacsl", "mine", "always-positive"])
@pytest.mark.parametrize("ratio", [5.0, 20.0])
def test_a_method_fitted_on_the_rows_of_a_split_decides_as_in_the_comparison(found, name, ratio):
    x, y = table()
    rest, tested = Protocol(folds=3).split(own_task(), 1)
    unfitted = found.method(name, ratio=ratio)
    assert not hasattr(unfitted, "model_")
    assert (unfitted.costs.fp, unfitted.costs.fn, unfitted.pos_label) == (1.0, ratio, "sick")
    unfitted.set_params(random_state=1, validation=0.15 / (1 - 1 / 3), device="cpu").fit(x.iloc[rest], y[rest])
    fit = next(c for c in found.fits if (c.method, c.seed, c.ratio) == (name, 1, ratio))
    proba = unfitted.predict_proba(x.iloc[tested])[:, list(unfitted.classes_).index("sick")]
    np.testing.assert_allclose(proba, found.fits[fit].scores, atol=1e-6)
    clear = np.abs(proba - unfitted.decision_.probability_threshold) > 1e-6
    assert np.array_equal((unfitted.predict(x.iloc[tested]) == "sick")[clear], found.fits[fit].decisions[clear])


def test_the_recommended_method_is_fitted_on_all_rows_and_can_be_kept(found, tmp_path):
    x, y = table()
    chosen = found.recommendations["data", 5.0].recommended or found.recommendations["data", 5.0].cheapest
    fitted = found.fit(x, y)
    expected = found.method(chosen).set_params(random_state=0).fit(x, y)
    assert np.array_equal(fitted.predict_proba(x), expected.predict_proba(x))
    assert len(fitted.oof_scores_) == len(x)
    assert set(fitted.predict(x)) <= {"sick", "well"}
    again = load(fitted.save(tmp_path / "model"))
    assert np.array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert again.predict(x).tolist() == fitted.predict(x).tolist()
    assert (again.pos_label_, again.costs_.fn) == ("sick", 5.0)


@pytest.mark.parametrize("name", ["always-positive", "net", "gbm-bayes", "adacsl", "mine"])
def test_any_method_of_the_comparison_is_fitted_saved_and_loaded(found, name, tmp_path):
    x, y = table()
    fitted = found.fit(x, y, name=name, random_state=3)
    again = load(fitted.save(tmp_path / "model"))
    np.testing.assert_allclose(again.predict_proba(x), fitted.predict_proba(x), rtol=0, atol=1e-12)
    assert again.predict(x).tolist() == fitted.predict(x).tolist()


def test_the_nets_of_a_comparison_keep_their_settings(found):
    assert found.method("adacsl").learner.epochs == 2
    assert found.method("gbm-bayes").learner == "boosting"
    again = load_comparison(found.folder)
    assert again.method("adacsl").learner.epochs == 2
    x, y = table()
    one, two = (which.fit(x, y, name="net-bayes") for which in (found, again))
    assert np.array_equal(one.predict_proba(x), two.predict_proba(x))
    with pytest.raises(ValueError, match="'mine' is a custom method, and code is not saved"):
        again.method("mine")  # code is not kept


def test_settings_of_nets_that_are_code_resume_and_are_asked_for_where_they_are_lost(tmp_path):
    x, y = table(120)
    options = QUICK | {
        "neural": NeuralLearner(epochs=1, augment=Augment(rotate=True)),
        "methods": ["net"],
        "repeats": 1,
        "folds": 2,
    }
    found = compare(x, y, pos_label="sick", folder=tmp_path / "run", **options)
    compare(x, y, pos_label="sick", folder=tmp_path / "run", **options)  # the same code is told to be the same
    assert found.method("net").learner.augment.rotate is True
    with pytest.raises(ValueError, match=r"its networks had augment='Augment\(.*code is not saved"):
        load_comparison(tmp_path / "run").method("net")


def test_rows_with_costs_of_their_own_are_fitted_with_them():
    x, y = table()
    amounts = np.random.default_rng(0).uniform(1, 30, len(x))
    options = QUICK | {"methods": ["gbm-bayes", "always-negative"], "repeats": 1, "folds": 2}
    found = compare(x, y, CostMatrix(fp=2.0, fn=amounts), pos_label="sick", **options)
    with pytest.raises(ValueError, match="the comparison had per-sample costs: give them"):
        found.fit(x, y)
    fitted = found.fit(x, y, name="gbm-bayes", fn=amounts)  # a false alarm costs 2 in every row: known
    direct = method("gbm-bayes", pos_label="sick", random_state=0).fit(x, y, fn=amounts, fp=np.full(len(x), 2.0))
    usual = CostMatrix(fp=2.0, fn=amounts).averaged(np.asarray(y) == "sick")
    assert fitted.costs_ == direct.costs_ == usual
    assert np.array_equal(fitted.predict_proba(x), direct.predict_proba(x))
    dear, cheap = (fitted.predict(x, fn=np.full(len(x), price)) == "sick" for price in (30.0, 1.0))
    assert dear.sum() > cheap.sum()


def test_prices_over_columns_are_remembered(tmp_path):
    x, y = table()
    x = pd.DataFrame(x).rename(columns=str).assign(amount=np.random.default_rng(0).uniform(1, 30, len(x)))
    options = QUICK | {
        "methods": ["gbm-bayes", "always-negative"],
        "repeats": 1,
        "folds": 2,
        "folder": tmp_path / "run",
    }
    found = compare(x, y, CostMatrix(fp=2, fn="amount / 2"), pos_label="sick", **options)
    same = compare(
        x, y, CostMatrix(fp=2, fn=x["amount"].to_numpy() / 2), pos_label="sick", **options | {"folder": None}
    )
    assert found.table["mean"].tolist() == same.table["mean"].tolist()
    for again in (found, load_comparison(tmp_path / "run")):
        fitted = again.fit(x, y, name="gbm-bayes")
        assert fitted.cost_spec_ == CostMatrix(fp=2, fn="amount / 2")
    direct = same.fit(x, y, name="gbm-bayes", fn=x["amount"] / 2)
    assert np.array_equal(fitted.predict(x), direct.predict(x, fn=x["amount"] / 2))


@pytest.mark.parametrize("kind", ["pairs", "mapping"])
def test_methods_of_ones_own_are_given_by_name(kind):
    x, y = table()
    steered = CostSensitiveClassifier(
        loss="weighted",
        controller=AdaCSLController(CostMatrix(fp=1, fn=1), n_standard_errors=2.0),
        learner=NeuralLearner(epochs=3),
    )
    own = {"steered": steered, "tuned": CostSensitiveClassifier(learner=LogisticRegression(), decide="tuned")}
    methods = own if kind == "mapping" else ["always-positive", *own.items()]
    found = compare(x, y, CostMatrix(fp=1, fn=5), pos_label="sick", methods=methods, repeats=1, folds=2, **QUICK)
    assert len(found.failures) == 0
    assert set(found.table["method"]) == set(own) | ({"always-positive"} if kind == "pairs" else set())
    # its own settings win over those of the comparison's nets
    assert found.history("steered")["epoch"].max() == 2
    fitted = found.fit(x, y, name="steered")
    assert fitted.learner.epochs == 3
    assert fitted.controller.n_standard_errors == 2.0
    assert steered.costs is None  # the given one is left alone
    assert not hasattr(steered, "model_")


def test_histories_tell_lambda_by_epoch(found):
    history = found.history("adacsl", ratio=5)
    assert len(history) == 3 * 2
    assert {"seed", "epoch", "lambda", "threshold", "val_cost", "train_cost"} <= set(history)


def test_pictures_are_figures(found):
    for figure in (
        found.plot_costs(), found.plot_ratios(), found.plot_threshold(), found.plot_lambda(), found.plot_history(),
        found.plot_calibration("net", "adacsl"),
    ):  # fmt: skip
        assert len(figure.data) > 0


def test_the_report_is_one_page(found, tmp_path):
    path = found.report(tmp_path / "report.html")
    text = path.read_text()
    assert "<html" in text
    assert "net-bayes" in text
    assert f"{found.intervals}." in text.replace("&#39;", "'")


def test_a_report_counts_rows_once_and_says_what_is_saved(found):
    made = found.report_data()
    folds, splits = found.facts["protocol"]["folds"], found.results["seed"].nunique()
    for outcome in made.outcomes.values():
        assert outcome.repeats == splits // folds
        assert outcome.per_repeat(outcome.n) == found.facts["data"]["data"]["rows"]
    for view, saved in made.savings.items():
        told = found.recommendations[view].saving
        assert (saved.against, *saved.percent) == (told.against, told.percent, told.percent_low, told.percent_high)
        assert saved.each == (told.difference, told.low, told.high)
        paid = made.summary_of(view).set_index("method")["cost"][made.recommended_of(view)]
        assert saved.baseline.estimate == pytest.approx(paid + told.difference)
        assert saved.baseline.low < saved.baseline.estimate < saved.baseline.high
        decided = saved.outcome
        assert decided.costs.mean(decided.labels, decided.decisions) == pytest.approx(saved.baseline.estimate)
    assert set(made.savings) == set(found.recommendations)


def test_a_report_speaks_of_money_and_people_and_has_a_model_card(found, tmp_path):
    x, y = table()
    folder = found.fit(x, y, name="gbm-bayes").save(tmp_path / "model")
    made = found.report_data(unit="EUR", volume=900, people="patients", model=folder)
    assert (made.unit, made.volume, made.people) == ("EUR", 900, "patients")
    card = made.model["data", 5.0]
    assert card["intended use"].startswith("Predicting which patients are 'sick', among patients like those")
    assert card["training data"].startswith(f"240 samples, {(y == 'sick').sum()} of them 'sick'")
    assert card["costs"] == "A false negative costs 5, a false positive 1."
    assert f"Only {(y == 'sick').sum()} patients are 'sick'" in card["limitations"]
    assert "Splits are random" in card["limitations"]
    assert card["digest of the data"] == found.facts["data"]["data"]["digest"]
    digest = hashlib.sha256((folder / "model.json").read_bytes()).hexdigest()
    assert card["digest of model.json"] == f"sha256 {digest}"
    assert card["saved in"] == f"{folder}, fitted on all samples; threshold {1 / 6:.3g}"
    dearer = made.model["data", 20.0]
    assert dearer["costs"] == (
        "A false negative costs 5, a false positive 1. In this comparison a false negative costs 20 times a false "
        "positive."
    )
    assert "saved in" not in dearer


def test_a_model_card_says_where_a_method_decides(found):
    said = {
        name: model_card(found, ("data", 5.0), name)["predicts"] for name in ("always-positive", "net", "net-bayes")
    }
    assert said == {
        "always-positive": "Always 'sick'.",
        "net": "'sick' where its probability is above 0.5.",
        "net-bayes": "'sick' where its probability is above 0.167.",
    }


def test_the_words_of_a_report_have_the_numbers_of_its_table(found):
    made = found.report_data()
    view = made.views[0]
    row = made.summary_of(view).set_index("method").loc[made.recommended_of(view)]
    texts = {tile.name: tile for tile in report_page(made).views[0].tiles}
    (cost,) = re.findall(r"Mean cost ([\d.,]+) \(95 % CI ([\d.,]+)-([\d.,]+)\) per sample", made.recommendations[view])
    assert texts["Mean cost per sample"].value == cost[0]
    assert texts["Mean cost per sample"].remark == f"95 % CI {cost[1]}-{cost[2]}"
    assert [float(end) for end in cost] == pytest.approx(row[["cost", "low", "high"]].tolist(), rel=0.05)
    saved = made.savings[view].percent
    headline = report_page(made).views[0].headline.replace("\u00a0", " ")
    assert headline.startswith(f"{float(f'{abs(saved.estimate):.2g}'):g} %")
    assert found.report_data().title == "Cost comparison: predicting “sick”"


def test_markdown_says_what_the_page_says(found, tmp_path):
    text = found.to_markdown(tmp_path / "report.md", unit="EUR", volume=900, people="patients")
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == text
    assert "a year, 900 patients, EUR" in text
    assert "<summary>Model card</summary>" in text


def test_a_notebook_shows_verdict_and_table_without_markup_of_the_users(found):
    import dataclasses

    odd = found.results.assign(method=found.results["method"].replace({"mine": "<script>alert(1)</script>"}))
    page = dataclasses.replace(found, results=odd)._repr_html_()
    assert "<table" in page
    assert "<script>" not in page


def test_a_comparison_is_read_again_from_its_folder(found):
    again = load_comparison(found.folder)
    assert again.recommendation == found.recommendation
    pd.testing.assert_frame_equal(again.table, found.table)


def test_started_again_nothing_runs_twice_and_more_can_be_added(found):
    x, y = table()
    options = {"pos_label": "sick", "ratios": ["1x", 20], "folder": found.folder} | QUICK
    before = {path: path.stat().st_mtime_ns for path in found.folder.glob("fits/*/*/*.json")}
    again = compare(x, y, CostMatrix(fp=1, fn=5), methods=["net", "always-negative"], repeats=1, folds=3, **options)
    assert set(again.results["method"]) == {"net", "always-negative"}
    after = {path: path.stat().st_mtime_ns for path in found.folder.glob("fits/*/*/*.json")}
    assert all(after[path] == when for path, when in before.items())
    assert len(after) == len(before) + 6


def test_a_folder_of_other_data_is_refused(found):
    x, y = table(seed=1)
    with pytest.raises(StoreError, match="other data or settings"):
        compare(
            x,
            y,
            CostMatrix(fp=1, fn=5),
            pos_label="sick",
            methods=["net"],
            repeats=1,
            folds=2,
            folder=found.folder,
            **QUICK,
        )


class Fails(ClassifierMixin, BaseEstimator):
    def fit(self, x, y):
        raise RuntimeError("no such luck")

    def predict_proba(self, x):
        raise NotImplementedError


def test_what_fails_is_named_and_the_others_are_compared():
    x, y = table()
    methods = ["always-positive", "always-negative", ("fails", CostSensitiveClassifier(learner=Fails()))]
    with pytest.warns(UserWarning, match=r"fails failed in 2 of 2 folds \(RuntimeError: no such luck\)"):
        found = compare(x, y, pos_label="sick", methods=methods, repeats=1, folds=2, **QUICK)
    assert set(found.failures["method"]) == {"fails"}
    assert "no such luck" in found.failures["message"].iloc[0]
    assert set(found.table["method"]) == {"always-positive", "always-negative"}


def test_when_all_fail_the_first_error_is_told():
    x, y = table()
    with pytest.raises(RuntimeError, match="every fit failed: no such luck"):
        compare(
            x,
            y,
            pos_label="sick",
            methods=[("fails", CostSensitiveClassifier(learner=Fails()))],
            repeats=1,
            folds=2,
            **QUICK,
        )


def test_rows_with_costs_of_their_own_at_two_ratios():
    x, y = table()
    amounts = np.random.default_rng(0).uniform(1, 30, len(x))
    costs = CostMatrix(fp=2.0, fn=amounts)
    found = compare(
        x,
        y,
        costs,
        pos_label="sick",
        methods=["net-bayes", "gbm-weighted"],
        ratios=["1x", "4x"],
        repeats=1,
        folds=2,
        **QUICK,
    )
    for name in ("net-bayes", "gbm-weighted"):
        for ratio in sorted(found.results["ratio"].unique()):
            outcome = found.outcome(name, ratio=ratio)
            fits = found.results.query("method == @name and ratio == @ratio")
            assert outcome.own_costs
            assert outcome.threshold is None
            assert outcome.costs.total(outcome.labels, outcome.decisions) == pytest.approx(fits["total_cost"].sum())


def three_parts(task, seed):
    """Training, validation and test rows of a net in a comparison."""
    rest, tested = split_rows(task, Protocol().test, seed)
    ready = Protocol().prepare(method("net"), seed)
    ((train, validation),) = Rows.of_task(task, rest).folds(ready.cv, ready.validation, seed)
    return train, validation, tested


def test_groups_never_stand_on_both_sides():
    x, y = table()
    groups = np.repeat(np.arange(60), 4)
    task = Task.from_data(x, y, pos_label="sick", groups=groups)
    for seed in range(3):
        split = three_parts(task, seed)
        parts = [set(groups[rows]) for rows in split]
        assert not parts[0] & parts[1]
        assert not parts[0] & parts[2]
        assert not parts[1] & parts[2]
        assert sorted(np.concatenate(split)) == list(range(240))


def test_splits_are_65_15_20_stratified_and_the_same_each_time():
    x, y = table(1000)
    task = Task.from_data(x, y, pos_label="sick")
    split = three_parts(task, 3)
    assert [len(rows) for rows in split] == pytest.approx([650, 150, 200], abs=2)
    assert [task.y[rows].mean() for rows in split] == pytest.approx([task.y.mean()] * 3, abs=0.01)
    again = three_parts(task, 3)
    assert all(np.array_equal(a, b) for a, b in zip(split, again, strict=True))


def test_several_data_sets_get_a_verdict_each():
    tasks = [Task.from_data(*table(seed=s), CostMatrix(fp=1, fn=5), pos_label="sick", name=f"made-{s}") for s in (1, 2)]
    found = compare_tasks(tasks, methods=["always-positive", "net-bayes", "gbm-bayes"], repeats=1, folds=2, **QUICK)
    assert len(found.recommendations) == 2
    assert [line.split(",")[0] for line in found.recommendation.splitlines()] == ["made-1", "made-2"]


@pytest.mark.parametrize("kind", ["numpy", "polars"])
def test_tables_of_any_kind(kind):
    x, y = table()
    if kind == "polars":
        polars = pytest.importorskip("polars")
        x = polars.from_pandas(x)
    else:
        x = x[["a", "b", "c"]].to_numpy()
    found = compare(x, y == "sick", CostMatrix(fp=1, fn=5), methods=["gbm-bayes", "net"], repeats=1, folds=2, **QUICK)
    assert set(found.table["method"]) == {"gbm-bayes", "net"}


def test_images_leave_out_what_needs_columns():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (40, 12, 12, 3)).astype(np.uint8), np.arange(40) % 2
    found = compare(
        x,
        y,
        CostMatrix(fp=1, fn=2),
        methods=["net-bayes", "always-positive"],
        repeats=1,
        folds=2,
        **(QUICK | {"neural": NeuralLearner(epochs=1)}),
    )
    assert set(found.table["method"]) == {"net-bayes", "always-positive"}


@pytest.mark.parametrize("ratio", [0, -1, "x", "3y", float("nan"), "inf"])
def test_a_ratio_is_a_positive_number(ratio):
    with pytest.raises(ValueError, match="a ratio is a positive number"):
        choose_ratios(CostMatrix(fp=1, fn=8), [ratio])


def test_a_ratio_is_not_named_twice():
    with pytest.raises(ValueError, match="different numbers"):
        choose_ratios(CostMatrix(fp=1, fn=8), ["1x", 8])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 0}, "repeats must be a whole number from 1, got 0"),
        ({"repeats": 1.5}, "repeats must be a whole number from 1, got 1.5"),
        ({"folds": 1}, "folds must be a whole number from 2, got 1"),
        ({"folds": 300}, "300 folds leave too little to learn from or to test on: 240 rows"),
        ({"test": 0.3}, "test is the share of the test windows of data with a time"),
        ({"folds": 2, "validation": 0.5}, "below the 50 % that are not tested on, got 0.5"),
    ],
)
def test_repeats_and_folds_are_checked(options, message):
    x, y = table()
    with pytest.raises(ValueError, match=message):
        compare(x, y, pos_label="sick", methods=["net"], **options, **QUICK)


def test_tasks_need_names_of_their_own():
    task = Task.from_data(*table(), pos_label="sick")
    with pytest.raises(ValueError, match="different names"):
        compare_tasks([task, task], methods=["net"], **QUICK)
    with pytest.raises(ValueError, match="no data"):
        compare_tasks([], methods=["net"], **QUICK)


@pytest.mark.parametrize("n", [300, 60_000])
def test_small_nets_of_all_methods_are_one_job_and_large_ones_several(n):
    task = Task.from_data(*table(n), pos_label="sick")
    jobs = plan_jobs([task], {task.name: choose_methods()}, {task.name: [5.0, 9.0]}, [0], Protocol(device="cpu"))
    fits = [fit for job in jobs for fit in job.fits]
    assert len(fits) == len(set(fits)) == 2 * len(choose_methods())
    trainings = [{training_of(fit) for fit in job.fits if needs_network(method(fit.method))} for job in jobs]
    nets = [sum(5 if name == "adacsl-cv" else 1 for name, _ in group) for group in trainings if group]
    assert len(nets) == 1 if n == 300 else max(nets) == 6
    # no training in two jobs
    assert sum(len(group) for group in trainings) == len(set().union(*trainings))
    # nor a booster that serves several: plain ones know no costs
    others = [{training_of(fit) for fit in job.fits if not needs_network(method(fit.method))} for job in jobs]
    assert sum(len(group) for group in others) == len(set().union(*others))


def training_of(fit):
    """What is trained for a fit, by the first name that asks for it, and the ratio where that counts."""
    if fit.method in ("net", "net-bayes", "net-tuned", "net-calibrated"):
        return "net", None
    if fit.method in ("oversample", "undersample", "net-smote", "ensemble"):
        return fit.method, None
    return ("net-weighted" if fit.method == "net-weighted-tuned" else fit.method), fit.ratio


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("epoch", "compare has no parameter 'epoch'; options of the execution are backend, n_jobs, address, gpus"),
    ],
)
def test_unknown_parameters_are_named(option, message):
    x, y = table()
    with pytest.raises(TypeError, match=message):
        compare(x, y, pos_label="sick", methods=["net"], **{option: 3})
