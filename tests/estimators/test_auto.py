"""``target_threshold="auto"``: no adaptation is a candidate of every learner, chosen where nothing costs less."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, load, method
from adacsl.neural.learner import NeuralLearner
from tests.made import adapted_estimator, boosting_classifier

COSTS, EVEN = CostMatrix(fp=1, fn=8), CostMatrix(fp=1, fn=1)
BAYES, MIDDLE = 1 / 9, 1 / (1 + 8**0.5)
ONE_THREAD = {"xgboost": {"nthread": 1}, "lightgbm": {"num_threads": 1}}
STILL = {"bounds": (1.0, 1.0)}
BASE = {"cv": 2, "random_state": 0}
NET = {"epochs": 3}


def made(learner, costs=COSTS, **settings):
    given = BASE | {"target_threshold": "auto"} | settings
    if learner == "net":
        return AdaCSLClassifier(costs, learner=NeuralLearner(**NET), device="cpu", **given)
    if learner == "linear":
        return adapted_estimator(LogisticRegression(), costs, **given)
    return boosting_classifier(costs, library=learner, n_estimators=20, params=ONE_THREAD[learner], **given)


def overlapping(n=200):
    """Return a fifth of positives, half of them among the negatives."""
    y = (np.arange(n) % 5 == 0).astype(int)
    return (np.random.default_rng(0).normal(size=n) + 1.5 * y)[:, np.newaxis], y


def separated():
    """Return the same with a column that separates the classes."""
    x, y = overlapping()
    return np.column_stack((x, 20 * y)), y


@pytest.fixture(scope="module")
def data():
    return overlapping()


@pytest.mark.parametrize(
    ("learner", "settings", "keys", "even"),
    [
        ("net", {}, ["plain", 0.5, MIDDLE, BAYES], ["plain", 0.5]),
        ("linear", {}, ["plain", 0.5, MIDDLE, BAYES], ["plain", 0.5]),
        # there "auto" does not adapt at the Bayes threshold: that is the plain one
        ("xgboost", {}, ["plain", 0.5, MIDDLE], ["plain"]),
        ("lightgbm", {}, ["plain", 0.5, MIDDLE], ["plain"]),
        ("xgboost", {"controller": {"damping": 0.5}}, ["plain", 0.5, MIDDLE, BAYES], ["plain", 0.5]),
        # nothing adapts anyway
        ("net", {"controller": None}, [0.5, MIDDLE, BAYES], [0.5]),
        ("lightgbm", {"controller": None}, [0.5, MIDDLE, BAYES], [0.5]),
    ],
)
def test_what_is_tried(learner, settings, keys, even, data):
    for costs, expected in ((COSTS, keys), (EVEN, even)):
        clf = made(learner, costs, **settings).fit(*data)
        assert list(clf.target_costs_) == pytest.approx(expected)
        history = clf.history_
        assert len(history[["target_threshold", "adapted"]].drop_duplicates()) == len(expected)
        plain = history[~history["adapted"]]
        assert set(plain["lambda"]) == {1.0}
        if "plain" in expected:
            assert set(plain["weight"]) == {1.0}
            assert set(plain["target_threshold"]) == {float(costs.threshold)}
            assert not history["adapted"].iloc[0]
        best = min(clf.target_costs_, key=clf.target_costs_.get)
        assert clf.adapted_ == (best != "plain" and clf.controller is not None)
        assert clf.target_threshold_ == (float(costs.threshold) if best == "plain" else best)


def test_a_method_of_any_loss_without_a_controller_tries_targets_alone(data):
    focal = CostSensitiveClassifier(COSTS, learner=NeuralLearner(**NET), loss="focal", target_threshold="auto", **BASE)
    focal.fit(*data)
    assert list(focal.target_costs_) == pytest.approx([0.5, MIDDLE, BAYES])
    assert not focal.adapted_


@pytest.mark.parametrize(
    ("learner", "alone"),
    [
        ("net", lambda: method("net-bayes", COSTS, learner=NeuralLearner(**NET), device="cpu", **BASE)),
        ("xgboost", lambda: made("xgboost", target_threshold="bayes")),
        ("lightgbm", lambda: made("lightgbm", target_threshold="bayes", controller=None)),
        ("linear", lambda: made("linear", target_threshold="bayes", controller=STILL)),
    ],
)
def test_the_plain_candidate_is_the_method_without_adaptation(learner, alone, data):
    auto, alone = made(learner).fit(*data), alone().fit(*data)
    assert [auto.target_costs_["plain"]] == list(alone.target_costs_.values())
    mine = auto.history_[~auto.history_["adapted"]]
    for column in ("fold", "lambda", "weight", "threshold", "val_cost"):
        np.testing.assert_array_equal(mine[column], alone.history_[column], err_msg=column)


def test_overconfident_scores_are_adapted():
    x, y = overlapping(400)
    x = np.repeat(x, 8, axis=1)  # naive Bayes takes duplicates for evidence
    costs = CostMatrix(fp=1, fn=30)
    clf = adapted_estimator(GaussianNB(), costs, target_threshold="auto", **BASE).fit(x, y)
    assert clf.adapted_
    assert min(clf.target_costs_.values()) < 0.7 * clf.target_costs_["plain"]
    plain = adapted_estimator(GaussianNB(), costs, target_threshold="bayes", controller=STILL, **BASE).fit(x, y)
    assert costs.mean(y, clf.predict(x)) < 0.7 * costs.mean(y, plain.predict(x))


@pytest.mark.parametrize("learner", ["xgboost", "lightgbm", "linear"])
def test_separated_classes_are_not_adapted(learner):
    x, y = separated()
    clf = made(learner).fit(x, y)
    assert clf.target_costs_["plain"] == 0.0  # of equals the first, which is the simplest
    assert not clf.adapted_
    assert clf.target_threshold_ == COSTS.threshold == pytest.approx(clf.threshold_)
    np.testing.assert_array_equal(clf.predict(x), y)


@pytest.mark.parametrize(("learner", "draw"), [("xgboost", separated), ("net", overlapping)])
def test_saved_and_loaded(learner, draw, tmp_path):
    x, y = draw()
    clf = made(learner).fit(x, y)
    back = load(clf.save(tmp_path / "model"), device="cpu")
    assert back.target_costs_ == clf.target_costs_
    assert [type(key) for key in back.target_costs_] == [type(key) for key in clf.target_costs_]
    assert back.adapted_ is clf.adapted_ is (learner == "net")
    assert back.history_.equals(clf.history_)
    np.testing.assert_array_equal(back.predict_proba(x), clf.predict_proba(x))
