"""Ensembles of K classes: what is stacked, what it costs, what is left out, kept and resumed."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from torch import nn

from adacsl import CostMatrix, EnsembleClassifier, load
from adacsl.base.scores import losses_of, to_logits, to_probabilities
from adacsl.ensemble.base_estimators import default_estimators
from adacsl.ensemble.classifier import EnsembleSettings
from adacsl.ensemble.stacking import stack_estimators
from adacsl.fitting.rows import Rows
from adacsl.neural.learner import NeuralLearner

NAMES = np.asarray(["ash", "elm", "oak"])
PRICES = np.asarray([[0.0, 1.0, 12.0], [2.0, 0.0, 5.0], [1.0, 3.0, 0.0]])
COSTS = CostMatrix.from_array(PRICES, rows="predicted", classes=NAMES)
QUICK = [LogisticRegression(), GaussianNB()]
ONE = {"n_jobs": 1, "random_state": 0}


def drawn(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    chances = to_probabilities(np.stack((X[:, 0], X[:, 1] * X[:, 2], X[:, 3] - 1.0), axis=1))
    y = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return X, NAMES[y]


X, Y = drawn()
CODES = np.searchsorted(NAMES, Y)


def fitted(members=QUICK, **settings):
    return EnsembleClassifier(**({"costs": COSTS, "estimators": members} | ONE | settings)).fit(X, Y)


def test_the_stack_is_that_of_scikit_learns_held_out_probabilities():
    folds = list(StratifiedKFold(4, shuffle=True, random_state=1).split(X, Y))
    clf = fitted([("nb", GaussianNB())], cv=folds, strength=0.1)
    assert clf.model_.models[0].encoder is not None
    scaled = clf.model_.models[0].encoder.transform(X).astype(np.float64)
    proba = cross_val_predict(GaussianNB(), scaled, Y, cv=folds, method="predict_proba")
    columns = to_logits(proba.clip(1e-15, 1 - 1e-15))[:, None]
    cut = -np.log(COSTS.class_weights())
    stack, nested = stack_estimators(columns, CODES, strength=0.1, cut=cut)
    np.testing.assert_allclose(clf.model_.stack.weights, stack.weights, rtol=1e-6)
    np.testing.assert_allclose(clf.model_.stack.intercept, stack.intercept, atol=1e-6)
    np.testing.assert_allclose(clf.oof_scores_, to_probabilities(nested), atol=1e-7)
    decided = (to_probabilities(nested) @ PRICES.T).argmin(axis=1)
    assert clf.estimated_cost_.estimate == pytest.approx(PRICES[decided, CODES].mean())
    board = clf.leaderboard_.iloc[0]
    assert board["log_loss"] == pytest.approx(losses_of(columns[:, 0], CODES).mean())
    assert board["cost"] == pytest.approx(PRICES[(proba @ PRICES.T).argmin(axis=1), CODES].mean())


def test_probabilities_decisions_and_scores_agree():
    clf = fitted()
    proba = clf.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert clf.classes_.tolist() == NAMES.tolist()
    assert np.array_equal(clf.predict(X), NAMES[(proba @ PRICES.T).argmin(axis=1)])
    assert clf.score(X, Y) == pytest.approx(-PRICES[np.searchsorted(NAMES, clf.predict(X)), CODES].mean())
    assert list(clf.estimators_) == ["logisticregression", "gaussiannb"]
    assert clf.pos_label_ is None
    with pytest.raises(ValueError, match="3 classes have no threshold"):
        clf.threshold_  # noqa: B018


def test_the_order_of_names_in_the_costs_does_not_matter():
    turned = COSTS.aligned(["oak", "ash", "elm"])
    one, other = fitted(), fitted(costs=turned)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.estimated_cost_ == other.estimated_cost_


def test_a_failing_member_is_left_out_and_said():
    class Failing(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("it knows two classes only")

    with pytest.warns(UserWarning, match="base estimator 'failing' is skipped: it knows two classes only"):
        clf = fitted([*QUICK, Failing()])
    assert clf.leaderboard_["left_out"].tolist() == ["", "", "it knows two classes only"]


@pytest.mark.parametrize("settings", [{}, {"cv": None}, {"decide": "tuned"}, {"decide": "calibrated"}], ids=repr)
def test_what_is_saved_predicts_the_same_bits(tmp_path, settings):
    clf = fitted(["logistic", "histogram"], **settings)
    back = load(clf.save(tmp_path / "model"))
    assert np.array_equal(back.predict_proba(X), clf.predict_proba(X))
    assert np.array_equal(back.predict(X), clf.predict(X))
    assert back.costs_ == clf.costs_
    assert back.costs_.classes == tuple(NAMES)
    assert np.array_equal(back.oof_scores_, clf.oof_scores_, equal_nan=True)
    assert back.leaderboard_.equals(clf.leaderboard_)
    assert (back.target_threshold_, back.target_costs_, back.pos_label_) == (
        clf.target_threshold_,
        clf.target_costs_,
        None,
    )


def test_members_of_an_unfinished_fit_are_taken_up(tmp_path, monkeypatch):
    whole = fitted(["logistic", "histogram"])
    fitted(["logistic"], resume=tmp_path / "run")
    monkeypatch.setattr(LogisticRegression, "fit", None)  # it must not be fitted again
    clf = fitted(["logistic", "histogram"], resume=tmp_path / "run")
    assert np.array_equal(clf.predict_proba(X), whole.predict_proba(X))
    assert clf.estimated_cost_ == whole.estimated_cost_


def test_members_fitted_in_processes_are_the_same():
    assert np.array_equal(
        fitted(["logistic", "histogram"], n_jobs=2).predict_proba(X), fitted(["logistic", "histogram"]).predict_proba(X)
    )


def test_weights_and_groups_of_rows():
    weight = np.where(np.arange(len(Y)) % 7 == 0, 0.0, 1.0)
    made = EnsembleClassifier(COSTS, estimators=QUICK, **ONE)
    clf = made.fit(X, Y, sample_weight=weight, groups=np.arange(len(Y)) // 3)
    assert np.array_equal(np.isnan(clf.oof_scores_).all(axis=1), weight == 0)


def test_a_class_of_one_row_is_stacked_though_a_fold_lacks_it():
    labels = np.where(Y == "oak", "elm", Y)
    labels[7] = "oak"
    with pytest.warns(UserWarning, match="fewer rows than 5 folds"):
        clf = EnsembleClassifier(COSTS, estimators=QUICK, **ONE).fit(X, labels)
    assert np.isfinite(clf.predict_proba(X)).all()
    assert clf.predict_proba(X).shape == (len(X), 3)


def test_of_two_common_classes_the_rarer_sets_the_folds():
    learner = EnsembleSettings()
    y = np.repeat([0, 1, 2], [50, 4, 1])
    rows = Rows(np.zeros((55, 1)), y, np.arange(55), n_classes=3)
    with pytest.warns(UserWarning, match="all classes but one have at most 4 samples: 4 folds instead of 5"):
        assert learner.folds_for(5, rows) == 4
    assert learner.folds_for(3, rows) == 3


def test_pictures_have_three_members_by_default():
    assert list(default_estimators(images=True, n_classes=3)) == ["net", "adacsl", "adacsl-middle"]
    assert len(default_estimators(images=True)) == 4
    assert list(default_estimators(images=False, n_classes=3)) == list(default_estimators(images=False))


def picture_net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def test_pictures_are_stacked(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.choice(3, 90)
    pixels = (rng.integers(0, 120, (90, 12, 12, 1)) + 40 * y[:, None, None, None]).astype(np.uint8)
    clf = EnsembleClassifier(COSTS, neural=NeuralLearner(module=picture_net, epochs=1), cv=2, **ONE).fit(
        pixels, NAMES[y]
    )
    assert len(clf.estimators_) == 3
    back = load(clf.save(tmp_path / "model"), module=picture_net)
    assert np.array_equal(back.predict_proba(pixels), clf.predict_proba(pixels))


@pytest.mark.slow
def test_all_members_that_are_installed_know_three_classes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left out
        clf = EnsembleClassifier(COSTS, cv=2, **ONE).fit(X, Y)
    assert (clf.leaderboard_["left_out"] == "").all()
