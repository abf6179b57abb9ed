"""Boosters and scikit-learn estimators as learners of K classes: fitted, decided, saved; classes that are not there."""

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from adacsl import CostMatrix, CostSensitiveClassifier, load
from adacsl.learners.arrays import from_numbers, to_numbers
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.estimator_model import raw_logits
from adacsl.learners.histogram_boosting import HistogramBoosting
from tests.made import adapted_estimator, boosting_classifier, logistic

ONE_THREAD = {"xgboost": {"nthread": 1}, "lightgbm": {"num_threads": 1}, "catboost": {"thread_count": 1}}
NAMES = np.asarray(["benign", "doubtful", "malign"])


def matrix(k=3, last=20.0, classes=None):
    costs = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(float)
    costs[:, -1] *= last
    return CostMatrix.from_array(costs, rows="predicted", classes=classes)


def made_up(n=240, seed=0, k=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.digitize(X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=n), np.linspace(-0.8, 0.9, k - 1))


def booster(library="xgboost", costs=None, **settings):
    usual = {"n_estimators": 8, "random_state": 0, "params": ONE_THREAD[library]}
    return boosting_classifier(costs or matrix(), library=library, **(usual | settings))


@pytest.fixture(params=ONE_THREAD)
def library(request):
    return request.param


def check_saved(made, X, folder):
    read = load(made.save(folder / "model"))
    np.testing.assert_array_equal(read.predict_proba(X), made.predict_proba(X))
    np.testing.assert_array_equal(read.predict(X), made.predict(X))
    return read


# boosters


@pytest.mark.parametrize(
    ("k", "settings"), [(3, {}), (10, {"target_threshold": "half"}), (10, {"controller": {"damping": 0.1}, "cv": 2})]
)
def test_boosters_decide_by_the_expected_cost(library, k, settings, tmp_path):
    X, y = made_up(k=k)
    costs = matrix(k, last=3.0)
    made = booster(library, costs, learning_rate=0.5, **settings).fit(X, y)
    proba = made.predict_proba(X)
    assert proba.shape == (240, k)
    assert proba.sum(1) == pytest.approx(1.0)
    assert np.array_equal(made.predict(X), np.asarray(costs.decide(proba)))
    assert made.model_.logits(X).mean(1) == pytest.approx(0.0, abs=1e-9)
    assert -made.score(X, y) < min(costs.mean(y, np.full(240, i)) for i in range(k))
    check_saved(made, X, tmp_path)


def test_without_adaptation_it_is_the_plain_booster():
    (X, y), separate = made_up(), made_up(150, 3)
    made = booster(validation=separate, select="last", patience=None).fit(X, y)
    params = {"objective": "multi:softprob", "num_class": 3, "eta": 0.05, "seed": 0, "nthread": 1}
    plain = xgb.train(params, xgb.DMatrix(X, y), 8).predict(xgb.DMatrix(X))
    assert made.predict_proba(X) == pytest.approx(plain, abs=1e-6)
    assert not made.adapted_
    assert made.history_["lambdas"].map(lambda own: own == [1.0, 1.0, 1.0]).all()
    learner = BoostingLearner("xgboost", n_estimators=8, patience=None, params=ONE_THREAD["xgboost"])
    unweighted = CostSensitiveClassifier(matrix(), learner=learner, validation=separate, select="last", random_state=0)
    assert unweighted.fit(X, y).predict_proba(X) == pytest.approx(plain, abs=1e-6)


def test_the_history_holds_the_weights_of_every_class(library):
    X, y = made_up()
    made = booster(library, controller={"damping": 0.2}, cv=2, patience=None).fit(X, y)
    history = made.history_
    assert made.adapted_
    assert len(history) == 16
    for column in ("lambdas", "weights"):
        assert history[column].map(len).eq(3).all()
    lambdas = np.stack(history["lambdas"])
    np.testing.assert_allclose(np.exp(np.log(lambdas).mean(1)), 1.0)
    np.testing.assert_allclose(lambdas, np.stack(history["weights"]))  # w = 1
    assert (lambdas[0] == 1.0).all()
    assert np.ptp(lambdas[7]) > 0.0


def test_out_of_fold_scores_and_rounds(library):
    X, y = made_up()
    made = booster(library, cv=3).fit(X, y)
    assert made.oof_scores_.shape == (240, 3)
    assert made.oof_scores_.sum(1) == pytest.approx(1.0)
    costs = made.history_.groupby("fold")["val_cost"]
    assert [int(np.argmin(own)) + 1 for _, own in costs] == list(made.rounds_)
    decided = np.asarray(matrix().decide(made.oof_scores_))
    assert min(made.target_costs_.values()) == pytest.approx(matrix().mean(y, decided))
    assert made.estimated_cost_.low < made.estimated_cost_.estimate < made.estimated_cost_.high


def folds_without(y, absent):
    """The first fold trains without a class, the second is held out without it."""
    own, even = y == absent, np.arange(len(y)) % 2 == 0
    first, second = np.flatnonzero(~own & even), np.flatnonzero(own | ~even)
    return [(first, second), (second, first)]


@pytest.mark.parametrize("settings", [{}, {"controller": {"damping": 0.1}}, {"target_threshold": "half"}], ids=str)
def test_a_class_that_a_training_fold_lacks(library, settings, tmp_path):
    X, y = made_up()
    made = booster(library, cv=folds_without(y, 0), **settings).fit(X, y)
    assert np.isfinite(made.predict_proba(X)).all()
    check_saved(made, X, tmp_path)
    boosters, rounds = made.model_.boosters, made.model_.rounds
    result = []
    for fold in (0, 1):
        made.model_.boosters, made.model_.rounds = boosters[fold : fold + 1], rounds[fold : fold + 1]
        result.append(made.predict_proba(X)[:, 0].mean())
        check_saved(made, X, tmp_path)
    assert result[0] < 1e-4
    assert result[1] > 0.1


def test_categories_missing_values_weights_and_groups(library, tmp_path):
    X, y = made_up()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.random.default_rng(0).choice([*"uvw"], 240))
    frame.loc[::7, "a"] = np.nan
    weight = np.where(np.arange(240) < 200, 1.0, 0.0)
    nonsense = np.where(weight > 0, y, (y + 1) % 3)
    groups = np.arange(240) // 4
    first, second = (
        booster(library, cv=2).fit(frame, labels, sample_weight=weight, groups=groups) for labels in (y, nonsense)
    )
    assert np.array_equal(first.predict_proba(frame), second.predict_proba(frame))
    check_saved(first, frame, tmp_path)


# estimators

ESTIMATORS = [
    LogisticRegression(max_iter=500),
    make_pipeline(StandardScaler(), LogisticRegression()),
    SGDClassifier(loss="log_loss"),
    RandomForestClassifier(7),
    ExtraTreesClassifier(7),
    HistGradientBoostingClassifier(max_iter=5),
    HistogramBoosting(max_iter=5),
]


@pytest.mark.parametrize(("estimator", "k"), [(each, (3, 10)[i % 2]) for i, each in enumerate(ESTIMATORS)], ids=str)
def test_estimators_decide_by_the_expected_cost_and_are_saved(estimator, k, tmp_path):
    X, y = made_up(k=k)
    made = CostSensitiveClassifier(matrix(k), learner=estimator, random_state=0).fit(X, y)
    assert np.array_equal(made.predict(X), np.asarray(matrix(k).decide(made.predict_proba(X))))
    read = load(made.save(tmp_path / "model"))
    # sums of sigmoids are rounded in another order
    tolerance = 1e-14 if isinstance(estimator, SGDClassifier) else 0.0
    np.testing.assert_allclose(read.predict_proba(X), made.predict_proba(X), rtol=tolerance, atol=tolerance)
    x = X if made.model_.encoder is None else made.model_.encoder.transform(X)
    assert made.predict_proba(X) == pytest.approx(made.model_.estimators[0].predict_proba(x), abs=1e-6)


def test_weighted_scores_are_corrected():
    X, y = made_up(600)
    weights = matrix().class_weights()
    made = logistic(matrix(), loss="weighted", target_threshold="half").fit(X, y)
    x = made.model_.encoder.transform(X).astype(np.float64)
    own = weights[y] / weights[y].mean()
    raw = LogisticRegression().fit(x, y, sample_weight=own).predict_proba(x)
    expected = raw / weights / (raw / weights).sum(1, keepdims=True)
    np.testing.assert_allclose(made.predict_proba(X), expected, rtol=1e-6)
    np.testing.assert_allclose(made.predict_proba(X).mean(0), np.bincount(y) / 600, atol=0.05)


@pytest.mark.parametrize("estimator", [LogisticRegression(), SGDClassifier(loss="log_loss")], ids=str)
@pytest.mark.parametrize("settings", [{}, {"target_threshold": "half", "cv": 3}, {"decide": "unweighted"}], ids=str)
def test_estimators_in_rounds(estimator, settings, tmp_path):
    X, y = made_up()
    made = adapted_estimator(estimator, matrix(), max_iter=3, random_state=0, **settings).fit(X, NAMES[y])
    assert len(made.history_) >= 1
    weights = np.stack(made.history_["weights"])
    assert weights.shape[1] == 3
    assert len(weights) == 1 or np.ptp(weights[1]) > 0.0
    assert set(made.predict(X)) <= set(NAMES)
    proba = made.predict_proba(X)
    read = load(made.save(tmp_path / "model"))
    np.testing.assert_allclose(read.predict_proba(X), proba, rtol=0, atol=1e-14)
    if settings.get("decide") == "unweighted":  # the weights of the chosen round are taken out again
        own = weights[int(made.history_["val_cost"].argmin())]
        raw = np.mean([raw_logits(one, X, 3) for one in made.estimators_], axis=0)
        np.testing.assert_allclose(proba, softmax(raw - np.log(own), axis=1), rtol=1e-9)


@pytest.mark.parametrize("decide", ["bayes", "tuned", "calibrated"])
def test_estimators_without_a_class_in_a_fold(decide, tmp_path):
    X, y = made_up()
    last = np.flatnonzero(y == 2)
    for estimator in (LogisticRegression(), RandomForestClassifier(5), HistGradientBoostingClassifier(max_iter=3)):
        made = CostSensitiveClassifier(
            matrix(), learner=estimator, cv=folds_without(y, 2), decide=decide, random_state=0
        ).fit(X, y)
        assert made.oof_scores_[last, 2].max() < 1e-12
        read = load(made.save(tmp_path / "model"))
        np.testing.assert_allclose(read.predict_proba(X), made.predict_proba(X), rtol=1e-12)


def test_estimators_that_know_no_probabilities(tmp_path):
    X, y = made_up()
    made = CostSensitiveClassifier(matrix(), learner=LinearSVC(random_state=0), random_state=0).fit(X, y)
    x = made.model_.encoder.transform(X).astype(np.float64)
    known = softmax(made.model_.estimators[0].decision_function(x), axis=1)
    np.testing.assert_allclose(made.predict_proba(X), known, rtol=1e-9)
    check_saved(made, X, tmp_path)


# logits


class Given(ClassifierMixin, BaseEstimator):
    """Predicts given probabilities."""

    def __init__(self, proba, classes):
        self.proba, self.classes_ = proba, np.asarray(classes)

    def predict_proba(self, X):
        return self.proba


@given(
    hnp.arrays(np.float64, (5, 3), elements=st.floats(0.01, 1.0)),
    st.permutations(range(6)).map(lambda codes: sorted(codes[:3])),
)
def test_logits_of_the_classes_that_a_model_knows(proba, classes):
    proba = proba / proba.sum(1, keepdims=True)
    logits = raw_logits(Given(proba, classes), np.zeros((5, 1)), 6)
    assert logits.shape == (5, 6)
    np.testing.assert_allclose(logits.mean(1), 0.0, atol=1e-9)
    again = softmax(logits, axis=1)
    np.testing.assert_allclose(again[:, classes], proba, rtol=1e-9)
    assert np.delete(again, classes, axis=1).max() < 1e-12


@given(hnp.arrays(np.float64, 5, elements=st.floats(0.0, 1.0)))
def test_two_of_three_classes(share):
    logits = raw_logits(Given(np.stack((1 - share, share), axis=1), [0, 2]), np.zeros((5, 1)), 3)
    np.testing.assert_allclose(softmax(logits, axis=1)[:, 2], share, atol=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS[:6], ids=str)
def test_numbers_of_models_that_know_some_classes(estimator):
    X, y = made_up(k=4)
    estimator.fit(X[y != 1], y[y != 1])
    read = from_numbers(*to_numbers(estimator))
    assert read.classes_.tolist() == [0, 2, 3]
    np.testing.assert_allclose(raw_logits(read, X, 4), raw_logits(estimator, X, 4), rtol=1e-12)


def test_histogram_boosting_is_scikit_learns():
    X, y = made_up(k=5)
    ours = HistogramBoosting(0, max_iter=7, early_stopping=False).fit(X, y)
    theirs = HistGradientBoostingClassifier(random_state=0, learning_rate=0.05, max_iter=7).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-12)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    arrays, about = ours.numbers()
    for change in ({"start": arrays["start"][:1]}, {"start": arrays["start"][:4]}, {"start": np.zeros(2)}):
        with pytest.raises(ValueError, match="the trees are not valid"):
            HistogramBoosting.from_numbers(arrays | change, about)
