"""Learners of every kind on rows with a time: what they train on lies before what judges them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import adacsl
from adacsl import CostMatrix, EnsembleClassifier
from adacsl.base.scores import known, to_logits
from adacsl.ensemble.stacking import stack_estimators
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.fitting.time_splits import Timeline, expanding_folds
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.histogram_boosting import HistogramBoosting
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural.learner import NeuralLearner
from tests.made import logistic

COSTS = CostMatrix(fp=1, fn=5)
DAY = np.timedelta64(1, "D")


def drifting(n=600, seed=0, n_classes=2):
    """Rows in no order whose distribution drifts: features, labels and dates, three rows a day."""
    rng = np.random.default_rng(seed)
    day = rng.permutation(n) // 3
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + (2.0 * day / day.max() - 1.0) * X[:, 1] + rng.normal(size=n)
    y = (score > 0.8).astype(int) if n_classes == 2 else np.digitize(score, np.linspace(-1, 1, n_classes - 1))
    return X, y, np.datetime64("2024-01-01") + day * DAY


class Witness(ClassifierMixin, BaseEstimator):
    """Notes the rows (their first column) of each fit, and of the predictions that follow it."""

    seen: list = []

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.number_ = len(Witness.seen)
        Witness.seen.append((np.asarray(X)[:, 0].copy(), []))
        return self

    def predict_proba(self, X):
        Witness.seen[self.number_][1].append(np.asarray(X)[:, 0].copy())
        p = 1 / (1 + np.exp(-np.asarray(X)[:, 1]))
        return np.stack((1 - p, p), axis=1)


@pytest.fixture
def witnessed():
    Witness.seen = []
    return Witness.seen


def numbered(n=300):
    """Rows whose first column is their time, in days."""
    rng = np.random.default_rng(1)
    day = rng.integers(0, 100, n).astype(float)
    X = np.stack((day, rng.normal(size=n)), axis=1)
    return X, (X[:, 1] + rng.normal(size=n) > 0).astype(int), day


@pytest.mark.parametrize("settings", [
    {"cv": 4}, {"cv": None, "decide": "tuned"}, {"cv": 3, "loss": "weighted", "controller": "auto"},
    {"cv": None, "loss": "weighted", "controller": "auto"}, {"cv": 3, "loss": "weighted", "target_threshold": "auto"},
])  # fmt: skip
def test_no_model_scores_samples_that_are_not_later_than_what_it_learned_from(witnessed, settings):
    X, y, day = numbered()
    clf = CostSensitiveClassifier(
        COSTS, learner=SklearnLearner(Witness(), encode=False), random_state=0, **settings
    ).fit(X, y, time=day, gap=5, label_delay=2)
    judged = [(trained, scored) for trained, scores in witnessed for scored in scores]
    assert judged
    for trained, scored in judged:
        assert trained.max() + 5 < scored.min()
    held = ~np.isnan(clf.oof_scores_)
    assert held.any()
    assert day[held].min() > day[~held].max()
    assert clf.estimated_cost_.low <= clf.estimated_cost_.high
    assert clf.times_.startswith("trained on rows until")


def test_an_ensemble_is_stacked_on_samples_that_were_never_trained_on(witnessed):
    X, y, day = numbered()
    estimators = [("witness", SklearnLearner(Witness(), encode=False)), ("line", LogisticRegression())]
    clf = EnsembleClassifier(COSTS, estimators=estimators, n_jobs=1, random_state=0).fit(X, y, time=day, gap=3)
    judged = [(trained, scored) for trained, scores in witnessed for scored in scores]
    assert len(judged) >= 5
    for trained, scored in judged:
        assert trained.max() + 3 < scored.min()
    held = ~np.isnan(clf.oof_scores_)
    assert day[held].min() > day[~held].max()
    assert clf.predict(X[:5]).shape == (5,)
    assert clf.leaderboard_["cost"].notna().all()


ADAPTED = {"loss": "weighted", "controller": "auto"}
LEARNERS = {
    "networks": {"learner": NeuralLearner(epochs=2)},
    "networks, cross-fitted": {"learner": NeuralLearner(epochs=2), "cv": 3, **ADAPTED},
    "net-smote": {"learner": NeuralLearner(epochs=2), "resample": "smote"},
    "boosters": {"learner": BoostingLearner(n_estimators=15), "cv": 3},
    "adapted boosters": {"learner": BoostingLearner(n_estimators=15), "decide": "tuned", **ADAPTED},
    "histogram": {"learner": SklearnLearner(HistogramBoosting(max_iter=5), encode=False)},
    "line": {"learner": LogisticRegression(), "decide": "calibrated"},
}


@pytest.mark.parametrize("kind", LEARNERS)
def test_every_learner_holds_out_the_latest_samples(kind):
    if "boosters" in kind:
        pytest.importorskip("xgboost")
    X, y, when = drifting()
    clf = CostSensitiveClassifier(COSTS, random_state=0, device="cpu", **LEARNERS[kind])
    clf.fit(X, y, time=when, gap="2d", label_delay="3d")
    held = ~np.isnan(clf.oof_scores_)
    assert when[held].min() > when[~held].max()
    share = held.mean()
    assert share == pytest.approx(0.5 if "cv" in LEARNERS[kind] or kind in ("histogram", "line") else 0.2, abs=0.02)
    assert np.isfinite(clf.predict_proba(X)).all()
    assert "excluded for gap and label_delay" in clf.times_ or share > 0.4


def test_the_models_of_the_two_latest_windows_decide():
    X, y, when = drifting()
    settings = {"learner": LogisticRegression(), "random_state": 0}
    clf = CostSensitiveClassifier(COSTS, cv=4, **settings).fit(X, y, time=when)
    pairs = expanding_folds(Timeline.of(when), y, None, 4)
    latest = CostSensitiveClassifier(COSTS, cv=pairs[2:], **settings).fit(X, y)
    assert np.allclose(clf.decision_scores(X), latest.decision_scores(X))
    for learner in (BoostingLearner(n_estimators=5), NeuralLearner(epochs=1)):
        made = CostSensitiveClassifier(COSTS, learner=learner, cv=4, random_state=0, device="cpu").fit(X, y, time=when)
        latest = CostSensitiveClassifier(COSTS, learner=learner, cv=4, random_state=0, device="cpu").fit(X, y)
        assert len(made.model_.numbers()[0]) <= len(latest.model_.numbers()[0])
        assert np.isfinite(made.predict_proba(X)).all()


def test_samples_in_another_order_give_the_same_splits():
    X, y, when = drifting()
    order = np.random.default_rng(3).permutation(len(y))
    settings = {"learner": LogisticRegression(), "cv": 4, "random_state": 0}
    one = CostSensitiveClassifier(COSTS, **settings).fit(X, y, time=when)
    two = CostSensitiveClassifier(COSTS, **settings).fit(X[order], y[order], time=when[order])
    assert np.allclose(one.oof_scores_[order], two.oof_scores_, equal_nan=True)
    assert one.times_ == two.times_


def test_three_classes():
    X, y, when = drifting(n_classes=3)
    costs = CostMatrix.from_array(1.0 - np.eye(3), rows="predicted")
    clf = EnsembleClassifier(
        costs, estimators=["logistic", "histogram"], cv=3, n_jobs=1, random_state=0
    ).fit(X, y, time=when, label_delay="5d")  # fmt: skip
    held = ~np.isnan(clf.oof_scores_).any(axis=1)
    assert when[held].min() > when[~held].max()
    assert set(clf.predict(X)) <= {0, 1, 2}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_times_is_left_out_and_may_be_there_or_not_when_deciding(library, tmp_path):
    X, y, when = drifting()
    table = library({"a": X[:, 0], "b": X[:, 1], "when": when.astype("datetime64[us]")})
    made = logistic(COSTS)
    other = clone(made).fit(table[["a", "b"]], y, time=when)
    clf = made.fit(table, y, time="when")
    assert list(clf.feature_names_in_) == ["a", "b"]
    assert np.array_equal(clf.predict_proba(table), other.predict_proba(table[["a", "b"]]))
    loaded = adacsl.load(clf.save(tmp_path / "model"))
    assert np.array_equal(loaded.predict_proba(table), loaded.predict_proba(table[["a", "b"]]))
    assert loaded.times_ == clf.times_ != ""


def test_per_sample_costs_from_a_column_beside_the_times():
    X, y, when = drifting()
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "amount": np.exp(X[:, 2]), "when": when})
    costs = CostMatrix(fp=1, fn="2 + amount")
    for made in (
        logistic(costs, loss="instance-weighted", cv=3),
        EnsembleClassifier(costs, estimators=["logistic", "histogram"], cv=3, n_jobs=1, random_state=0),
    ):
        clf = made.fit(table, y, time="when", gap="1d")
        held = known(clf.oof_scores_)
        assert when[held].min() > when[~held].max()
        assert np.array_equal(clf.predict(table), clf.predict(table.drop(columns="when")))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"gap": "7d"}, "for samples with a time"),
        ({"time": [1, 2]}, "one time for each of 600 rows, got 2"),
        ({"time": "when"}, "X is not a table"),
        ({"time": np.arange(600), "gap": "7d"}, "gap='7d' is for dates, and the times are numbers"),
        ({"time": np.arange(600), "label_delay": 600}, "none may train"),
        ({"time": np.zeros(600)}, "there are 1 different times"),
    ],
)
def test_times_that_make_no_sense_are_refused(given, match):
    X, y, _ = drifting()
    with pytest.raises(ValueError, match=match):
        CostSensitiveClassifier(COSTS, learner=BoostingLearner(n_estimators=3)).fit(X, y, **given)


def test_shuffled_folds_and_separate_validation_data_are_refused():
    X, y, when = drifting()
    shuffled = StratifiedKFold(3, shuffle=True, random_state=0)
    for made, match in (
        (CostSensitiveClassifier(COSTS, learner=LogisticRegression(), cv=shuffled), "with a time are not shuffled"),
        (EnsembleClassifier(COSTS, estimators=["logistic"], cv=shuffled, n_jobs=1), "with a time are not shuffled"),
        (CostSensitiveClassifier(COSTS, learner=LogisticRegression(), validation=(X, y)), "separately have no time"),
    ):
        with pytest.raises(ValueError, match=match):
            made.fit(X, y, time=when)


def test_an_ensemble_takes_as_many_windows_as_have_both_classes():
    X, y, when = drifting()
    place = np.argsort(np.argsort(when, kind="stable"), kind="stable") / len(y)
    y[(place > 0.5) & ~((place % 0.25 > 0.2) & (X[:, 0] > 0))] = 0  # positives at the end of each quarter only
    clf = EnsembleClassifier(COSTS, estimators=["logistic"], cv=5, n_jobs=1, random_state=0)
    with pytest.warns(UserWarning, match="5 windows of time lack samples of a class: [234] folds instead of 5"):
        clf.fit(X, y, time=when)


def test_a_nested_stack_knows_nothing_later():
    """Labels of later rows may change as they like: the scores of earlier rows stay."""
    rng = np.random.default_rng(0)
    time = np.arange(400.0)
    columns, labels = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    _, nested = stack_estimators(columns, labels, line=Timeline.of(time), cut=-1.0)
    assert np.isnan(nested[:133]).all()
    assert np.isfinite(nested[134:]).all()
    windows = [(133, 187), (187, 240), (240, 293), (293, 347), (347, 400)]
    for start, stop in windows:
        changed = labels.copy()
        changed[start:] = 1 - changed[start:]
        _, other = stack_estimators(columns, changed, line=Timeline.of(time), cut=-1.0)
        assert np.array_equal(other[:stop], nested[:stop], equal_nan=True)
    assert not np.array_equal(other, stack_estimators(columns, 1 - labels, line=Timeline.of(time), cut=-1.0)[1])
    # a stack that nobody can fit weighs all alike
    few = stack_estimators(columns, (time == 0).astype(int), line=Timeline.of(time))
    assert np.allclose(few[0].weights, 1 / 3)
    assert np.allclose(few[1], to_logits(1 / (1 + np.exp(-columns.mean(axis=1)))))
