"""A model that was fitted before: its columns are matched by its ``classes_``, never by their position."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from adacsl import CostMatrix, CostSensitiveClassifier, compare, load
from adacsl.learners.sklearn import SklearnLearner

COSTS = CostMatrix(fp=1, fn=3)
LABELS = {"1, 2": (1, 2), "text": ("bad", "good"), "bool": (False, True), "0, 1": (0, 1), "-1, 1": (-1, 1)}


def data(labels=(0, 1), n=400, seed=0):
    """Return rows and labels; the second label is the likelier the larger the sum of the columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    cuts = np.quantile(X.sum(axis=1), np.arange(1, len(labels)) / len(labels))
    return X, np.asarray(labels)[np.searchsorted(cuts, X.sum(axis=1) + 0.3 * rng.normal(size=n))]


def frozen(estimator, X, y):
    """Return a method of a model that was fitted before, as it came."""
    return SklearnLearner(FrozenEstimator(estimator.fit(X, y)), encode=False)


class Trained(ClassifierMixin, BaseEstimator):
    """A custom model that was trained before: ``fit`` does nothing, and a clone is as good."""

    def __init__(self, model):
        self.model, self.classes_ = model, model.classes_

    def __sklearn_clone__(self):
        return Trained(self.model)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("kind", LABELS)
def test_probabilities_are_those_of_the_same_class(kind, which):
    X, y = data(LABELS[kind])
    own = LogisticRegression().fit(X, y)
    for learner in (frozen(own, X, y), SklearnLearner(Trained(own), encode=False)):
        model = CostSensitiveClassifier(COSTS, learner=learner, pos_label=LABELS[kind][which]).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X), own.predict_proba(X), atol=1e-9)
    positive = own.predict_proba(X)[:, which] > COSTS.threshold
    assert (model.predict(X) == np.where(positive, LABELS[kind][which], LABELS[kind][1 - which])).all()


@pytest.mark.parametrize("which", [0, 1])
def test_sign_of_a_decision_function(which):
    X, y = data(("bad", "good"))
    own = LinearSVC().fit(X, y)
    learner, pos_label = frozen(own, X, y), ("bad", "good")[which]
    model = CostSensitiveClassifier(COSTS, learner=learner, pos_label=pos_label, decide="tuned").fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.75
    assert np.corrcoef(model.decision_scores(X), own.decision_function(X))[0, 1] * (2 * which - 1) > 0.9


@pytest.mark.parametrize("labels", [(1, 2, 3), ("a", "b", "c"), (10, -5, 7)])
@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC()])
def test_more_than_two_classes(labels, estimator):
    X, y = data(labels)
    names = list(map(str, labels[::-1]))
    costs = CostMatrix.from_array([[0, 1, 4], [1, 0, 1], [2, 1, 0]], rows="predicted", classes=names)
    own = estimator.fit(X, y)
    model = CostSensitiveClassifier(costs, learner=frozen(own, X, y)).fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.6
    if hasattr(own, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(X), own.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("pos_label", [0, 1])
@pytest.mark.parametrize("form", ["pipeline", "calibrated", "voting", "isotonic"])
def test_a_prefit_part_of_another_estimator(form, pos_label):
    X, y = data((0, 1))
    own = FrozenEstimator(LogisticRegression().fit(X, y))
    made = {
        "pipeline": make_pipeline(FunctionTransformer(), own),
        "calibrated": CalibratedClassifierCV(own),
        "isotonic": CalibratedClassifierCV(own, method="isotonic"),
        "voting": VotingClassifier([("a", own), ("b", LogisticRegression())], voting="soft"),
    }[form]
    model = CostSensitiveClassifier(COSTS, learner=SklearnLearner(made, encode=False), pos_label=pos_label).fit(X, y)
    near = np.abs(model.predict_proba(X)[:, 1] - own.predict_proba(X)[:, 1])
    assert near.mean() < 0.1
    text = np.asarray(["no", "yes"])
    other = FrozenEstimator(LogisticRegression().fit(X, text[y]))
    again = made.set_params(**{{"pipeline": "frozenestimator", "voting": "a"}.get(form, "estimator"): other})
    named = CostSensitiveClassifier(COSTS, learner=SklearnLearner(again, encode=False), pos_label=text[pos_label])
    np.testing.assert_allclose(named.fit(X, text[y]).predict_proba(X), model.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("known", "given"), [((1, 2), (0, 1)), (("bad", "good"), ("no", "yes")), ((0, 1, 2), (0, 1)), (("b", "g"), (0, 1))]
)
def test_classes_that_are_not_those_of_the_task(known, given):
    X, y = data(known)
    learner = frozen(LogisticRegression(), X, y)
    Z, labels = data(given)
    message = r"prefit .*was fitted on the classes .*, but .* labels .*: fit it on the same labels"
    with pytest.raises(ValueError, match=message):
        CostSensitiveClassifier(COSTS, learner=learner, pos_label=given[1]).fit(Z, labels)


def test_prefit_models_are_compared_and_similar_ones_not_confused():
    X, y = data((0, 1))
    right, wrong = LogisticRegression().fit(X, y), LogisticRegression().fit(X, 1 - y)
    learners = {"right": FrozenEstimator(right), "wrong": FrozenEstimator(wrong), "flat": LogisticRegression(C=1e-6)}
    learners["flat"] = frozen(learners["flat"], X, y)
    methods = {name: CostSensitiveClassifier(learner=learner) for name, learner in learners.items()}
    result = compare(X, y, COSTS, methods=methods, repeats=1, folds=2, n_jobs=1, progress=False)
    costs = result.table.set_index("method")["mean"]
    assert costs["right"] < 0.4 < min(costs["flat"], costs["wrong"])


@pytest.mark.parametrize(
    ("estimator", "labels", "pos_label"),
    [
        (LogisticRegression(), ("bad", "good"), "bad"),
        (LogisticRegression(), (1, 2, 3), None),
        (LinearSVC(), (1, 2, 3), None),
        (LinearSVC(), (0, 1), 0),
        (RandomForestClassifier(5, random_state=0), ("bad", "good"), "bad"),
        (RandomForestClassifier(5, random_state=0), (0, 1), 0),
    ],
)
def test_a_prefit_model_is_saved_with_its_classes(tmp_path, estimator, labels, pos_label):
    X, y = data(labels)
    costs = COSTS if len(labels) == 2 else CostMatrix.from_array(1.0 - np.eye(3), rows="predicted")
    model = CostSensitiveClassifier(costs, learner=frozen(estimator, X, y), pos_label=pos_label).fit(X, y)
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-9)
    assert (again.predict(X) == model.predict(X)).all()
    assert np.mean(again.predict(X) == y) > 0.6


def test_labels_that_scikit_learn_has_numbered_are_positions_in_the_names_of_the_costs():
    X, y = data(("bad", "good"))
    own = LogisticRegression().fit(X, y)
    named = CostMatrix.from_array([[0, 1], [3, 0]], rows="predicted", classes=["bad", "good"])
    model = CostSensitiveClassifier(named, learner=frozen(own, X, y), pos_label="bad")
    proba = cross_val_predict(model, X, y, cv=3, method="predict_proba")
    np.testing.assert_allclose(proba, own.predict_proba(X), atol=1e-9)
    message = r"was fitted on the classes .*'good'\], but the labels given to fit are \[0, 1"
    with pytest.raises(ValueError, match=message):
        CostSensitiveClassifier(COSTS, learner=frozen(own, X, y), pos_label=0).fit(X, (y == "good").astype(int))
