"""Boosters, any scikit-learn classifier, MetaCost and constants as learners of methods."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from adacsl import CostMatrix, CostSensitiveClassifier, Task, method
from adacsl.base.scores import log_odds
from adacsl.comparison.fits import FitKey
from adacsl.comparison.jobs import run_work
from adacsl.comparison.protocol import Protocol, split_rows
from adacsl.datasets.encoder import TableEncoder
from adacsl.fitting.splits import one_split
from adacsl.learners import boosting_libraries
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.boosting_libraries import installed_library
from adacsl.learners.histogram_boosting import HistogramBoosting
from adacsl.learners.metacost import MetaCost, out_of_bag
from adacsl.learners.sklearn import SklearnLearner

COSTS = CostMatrix(fp=1, fn=8)
QUICK_METACOST = SklearnLearner(MetaCost(2), encode=False)


def made_task(n=300, costs=COSTS):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    kind = rng.choice(["u", "v", "w"], n)
    y = (x[:, 0] + (kind == "u") + rng.normal(size=n) > 1.4).astype(np.int64)
    frame = pd.DataFrame(x, columns=list("abc")).assign(
        kind=kind, when=pd.date_range("2020-01-01", periods=n), flag=rng.random(n) < 0.5
    )
    frame.loc[::7, "a"] = np.nan
    frame.loc[::11, "kind"] = None
    return Task("made", frame, y, costs)


@pytest.fixture(params=["installed", "scikit-learn"])
def library(request, monkeypatch):
    """The booster of gbm-*: the installed library, and what is taken where there is none."""
    if request.param == "scikit-learn":
        monkeypatch.setattr(boosting_libraries, "installed_library", lambda: None)
    elif installed_library() is None:
        pytest.skip("needs xgboost, lightgbm or catboost")
    return request.param


def result(made, task, *, ratio=8.0, seed=0):
    """What a comparison finds out about one method."""
    (one,) = run_work({task.name: task}, ({"mine": made}, Protocol()), [FitKey(task.name, ratio, "mine", seed)])
    return one


@pytest.mark.parametrize("name", ["gbm-bayes", "gbm-tuned", "gbm-weighted", "metacost"])
def test_a_comparison_scores_as_a_fit_that_never_saw_the_test_samples(name, library):
    task = made_task(80 if name == "metacost" else 300)
    own = {"learner": QUICK_METACOST} if name == "metacost" else {}
    rest, tested = split_rows(task, 0.2, 0)
    frame = task.X.copy()
    frame.loc[tested[:3], "kind"] = "never seen"
    one = result(method(name, **own), Task(task.name, frame, task.y, task.costs))
    own = Protocol().prepare(method(name, task.costs, pos_label=1, **own), 0).fit(frame.iloc[rest], task.y[rest])
    assert np.array_equal(one.scores, own.predict_proba(frame.iloc[tested])[:, 1].astype(np.float32))
    assert np.array_equal(one.decisions, own.predict(frame.iloc[tested]) == 1)
    assert one.threshold == own.decision_.probability_threshold


def test_gbm_is_our_booster_where_one_is_installed():
    if installed_library() is None:
        pytest.skip("needs xgboost, lightgbm or catboost")
    task = made_task()
    ours = CostSensitiveClassifier(COSTS, learner="boosting", select="log-loss", random_state=0).fit(task.X, task.y)
    named = method("gbm-bayes", COSTS, random_state=0).fit(task.X, task.y)
    assert np.array_equal(named.predict_proba(task.X), ours.predict_proba(task.X))
    assert named.model_.kind == "boosters"


def test_gbm_is_scikit_learns_elsewhere_stopped_early_with_categories_and_missing_values_as_they_are(monkeypatch):
    monkeypatch.setattr(boosting_libraries, "installed_library", lambda: None)
    task, groups = made_task(), np.arange(300) // 3
    named = method("gbm-bayes", COSTS, random_state=0, cv=[(np.arange(300), np.arange(300))])
    named.fit(task.X, task.y, groups=groups)
    when = task.X["when"].astype("int64").astype(float)
    frame = task.X.assign(kind=task.X["kind"].astype("category"), when=when, flag=task.X["flag"].astype(float))
    usual = {"learning_rate": 0.05, "random_state": 0, "categorical_features": "from_dtype"}
    ((train, held),) = one_split(task.y, groups, 0.2, 0)
    first = HistGradientBoostingClassifier(max_iter=400, early_stopping=False, **usual)
    first.fit(frame.iloc[train], task.y[train])
    losses = [log_loss(task.y[held], p) for p in first.staged_predict_proba(frame.iloc[held])]
    rounds = round((1 + int(np.argmin(losses))) * 300 / len(train))
    model = HistGradientBoostingClassifier(max_iter=rounds, early_stopping=False, **usual).fit(frame, task.y)
    assert named.predict_proba(task.X) == pytest.approx(model.predict_proba(frame), abs=1e-6)
    assert named.model_.kind == "estimators"


def test_early_stopping_weighs_samples_and_copes_with_too_few():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    weight = rng.integers(1, 4, 80).astype(float)
    plain, weighted, scaled = (
        HistogramBoosting(0).fit(X, y, w).predict_proba(X) for w in (None, weight, 1000 * weight)
    )
    np.testing.assert_allclose(scaled, weighted, atol=1e-3)
    assert np.abs(plain - weighted).max() > 1e-3
    few = HistogramBoosting(0, max_iter=7).fit(X[:8], np.asarray([1, 0, 0, 0, 0, 0, 0, 0]))
    assert np.isfinite(few.predict_proba(X)).all()


def boosted_by_hand(xgb, X, y, weight, rounds, seed=0):
    """Rounds by five folds of log loss, then all rows again, with XGBoost itself."""
    usual = {"objective": "binary:logistic", "eval_metric": "logloss", "eta": 0.3, "seed": seed, "nthread": 1}
    best = []
    for train, held in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
        parts = [xgb.DMatrix(X[i], y[i], weight=weight[i] / weight[i].mean()) for i in map(np.sort, (train, held))]
        watched = {"evals": [(parts[1], "held")], "early_stopping_rounds": 5, "verbose_eval": False}
        model = xgb.train(usual, parts[0], rounds, **watched)
        best.append(model.best_iteration + 1)
    rounds = min(rounds, round(np.mean(best) / 0.8))
    return xgb.train(usual, xgb.DMatrix(X, y, weight=weight / weight.mean()), rounds), rounds


@pytest.mark.parametrize("loss", ["plain", "weighted"])
def test_boosters_that_no_controller_adapts_find_their_rounds_in_folds_and_learn_all_samples(loss):
    xgb = pytest.importorskip("xgboost")
    X, y = np.asarray(made_task().X[["b", "c"]]), made_task().y
    learner = BoostingLearner("xgboost", n_estimators=40, learning_rate=0.3, patience=5, params={"nthread": 1})
    made = CostSensitiveClassifier(COSTS, learner=learner, loss=loss, select="log-loss", random_state=0).fit(X, y)
    weight = np.where(y == 1, 8.0, 1.0) if loss == "weighted" else np.ones(len(y))
    by_hand, rounds = boosted_by_hand(xgb, X, y, weight, 40)
    assert made.model_.rounds == [rounds]
    margins = by_hand.predict(xgb.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(made.model_.logits(X), margins, atol=1e-5)
    assert not np.isnan(made.oof_scores_).any()  # every row was held out once
    separate = clone(made).set_params(validation=(X[:99], y[:99])).fit(X, y)
    assert np.isnan(separate.oof_scores_[: len(y)]).all()  # separate validation data are all that is held out
    assert separate.model_.rounds == [40]  # samples it has learned never stop it


@settings(max_examples=4, deadline=None)
@given(st.floats(1e-3, 1e3))
def test_what_matters_in_weighted_boosting_is_the_ratio_of_costs(unit):
    task = made_task(120)
    learner = BoostingLearner("lightgbm", n_estimators=5)
    one, other = (
        CostSensitiveClassifier(costs, learner=learner, loss="weighted", random_state=0).fit(task.X, task.y)
        for costs in (COSTS, CostMatrix(fp=unit, fn=8 * unit))
    )
    np.testing.assert_allclose(one.predict_proba(task.X), other.predict_proba(task.X), atol=1e-6)


def test_weighted_scores_are_corrected_to_the_bayes_threshold():
    task = made_task()
    made = CostSensitiveClassifier(COSTS, learner=LogisticRegression(max_iter=500), loss="weighted", random_state=0)
    made.fit(task.X, task.y)
    x = TableEncoder().fit(task.X).transform(task.X).astype(np.float64)
    weight = np.where(task.y == 1, 8.0, 1.0)
    model = LogisticRegression(max_iter=500).fit(x, task.y, sample_weight=weight / weight.mean())
    assert made.decision_.probability_threshold == pytest.approx(1 / 9)
    assert np.array_equal(made.predict(task.X), model.predict(x))
    odds = model.predict_proba(x)[:, 1] / model.predict_proba(x)[:, 0] / 8
    stretch = log_odds(made.predict_proba(task.X)[:, 1] + 0.0) - log_odds(1 / 9)
    stretch /= np.log(odds) - log_odds(1 / 9)  # about the threshold, by held-out rows
    np.testing.assert_allclose(stretch, stretch[0], rtol=1e-6)


def test_a_category_that_only_new_rows_have_is_a_missing_value(library):
    task = made_task()
    made = method("gbm-bayes", COSTS, random_state=0).fit(task.X, task.y)
    strange, missing = (task.X.assign(kind=kind) for kind in ("never seen", None))
    assert np.array_equal(made.predict_proba(strange), made.predict_proba(missing))
    assert not np.array_equal(made.predict_proba(strange), made.predict_proba(task.X))


def test_more_categories_than_boosting_can_take(library):
    n = 900
    frame = pd.DataFrame({"id": [f"c{i}" for i in range(n)], "x": np.arange(n) % 7})
    y = (np.arange(n) % 3 == 0).astype(np.int64)
    made = method("gbm-bayes", CostMatrix(fp=1, fn=2), random_state=0).fit(frame, y)
    assert np.isfinite(made.predict_proba(frame)).all()


# MetaCost


def test_metacost_learns_the_labels_of_lowest_cost():
    task = made_task(150)
    few, many = (result(method("metacost", learner=QUICK_METACOST), task, ratio=ratio) for ratio in (1.0, 30.0))
    assert many.decisions.mean() > few.decisions.mean()
    assert many.threshold == 0.5


def test_metacost_asks_only_bags_without_the_sample():
    """On labels that are pure noise a booster fits the samples it learned, and not others."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.4).astype(np.int64)
    X = pd.DataFrame(rng.normal(size=(400, 5)))
    labels = CostMatrix(fp=1, fn=1.2).decide(out_of_bag(X, y, bags=5, seed=0))
    assert np.mean(labels == y) < 0.7
    known = HistogramBoosting(0, max_iter=200, early_stopping=False).fit(X, y).predict(X)
    assert np.mean(known == y) > 0.9  # on samples it learned


# others


class Recorder(ClassifierMixin, BaseEstimator):
    """Notes the weights it is given."""

    seen = []

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.seen.append(sample_weight)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


@pytest.mark.parametrize("loss", ["weighted", "instance-weighted"])
def test_weights_are_the_stakes_of_each_sample(loss):
    rng = np.random.default_rng(0)
    y, fn = np.arange(60) % 2, rng.uniform(3.0, 9.0, 60)
    Recorder.seen.clear()
    made = CostSensitiveClassifier(CostMatrix(fp=1.0, fn=2.0, tp=1.0), learner=Recorder(), loss=loss, random_state=0)
    made.fit(rng.normal(size=(60, 2)), y, fn=fn)
    weight = Recorder.seen[0]  # the first fit is that on all rows
    assert weight.mean() == pytest.approx(1.0)
    # what a sample can lose: a false negative instead of a true positive, a false positive instead of a true negative
    stakes = fn - 1.0 if loss == "instance-weighted" else np.mean(fn[y == 1] - 1.0)  # of those who can pay it
    assert weight / weight[0] == pytest.approx(np.where(y == 1, stakes, 1.0))
