"""A model that was fitted before: its columns are matched by its ``classes_``, never by their position."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, compare, load
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


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("kind", LABELS)
def test_probabilities_are_those_of_the_same_class(kind, which):
    X, y = data(LABELS[kind])
    own = LogisticRegression().fit(X, y)
    model = CostSensitiveClassifier(COSTS, learner=frozen(own, X, y), pos_label=LABELS[kind][which]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), own.predict_proba(X), atol=1e-9)
    positive = own.predict_proba(X)[:, which] > COSTS.threshold
    assert (model.predict(X) == np.where(positive, LABELS[kind][which], LABELS[kind][1 - which])).all()


@pytest.mark.parametrize("which", [0, 1])
def test_sign_of_a_decision_function(which):
    X, y = data(("bad", "good"))
    own = LinearSVC().fit(X, y)
    model = CostSensitiveClassifier(
        COSTS, learner=frozen(own, X, y), pos_label=("bad", "good")[which], decide="tuned"
    ).fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.75
    assert np.corrcoef(model.decision_scores(X), own.decision_function(X))[0, 1] * (2 * which - 1) > 0.9


@pytest.mark.parametrize("labels", [(1, 2, 3), ("a", "b", "c"), (10, -5, 7)])
@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC()])
def test_more_than_two_classes(labels, estimator):
    X, y = data(labels)
    costs = CostMatrix.from_array(
        [[0, 1, 4], [1, 0, 1], [2, 1, 0]], rows="predicted", classes=list(map(str, labels[::-1]))
    )
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
    named = CostSensitiveClassifier(COSTS, learner=SklearnLearner(again, encode=False), pos_label=text[pos_label]).fit(
        X, text[y]
    )
    np.testing.assert_allclose(named.predict_proba(X), model.predict_proba(X), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Since FrozenEstimator does not appear to accept sample_weight")
def test_adaptive_cost_classifier_around_a_calibrated_prefit_model():
    X, y = data(("bad", "good"))
    own = FrozenEstimator(LogisticRegression().fit(X, y))
    model = AdaCSLClassifier(
        COSTS,
        learner=SklearnLearner(CalibratedClassifierCV(own), encode=False),
        pos_label="bad",
        random_state=0,
        decide="bayes",
    ).fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.75


def test_a_prefit_model_gets_the_table_as_it_came():
    X, y = data((0, 1))
    table = pd.DataFrame({"a": 1000 + 50 * X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    own = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, y)
    model = CostSensitiveClassifier(COSTS, learner=FrozenEstimator(own)).fit(table, y)
    np.testing.assert_allclose(model.predict_proba(table), own.predict_proba(table), atol=1e-9)


class Remembers(ClassifierMixin, BaseEstimator):
    """A model of one's own that came trained: ``fit`` does nothing, and a copy is as good."""

    def __init__(self, model):
        self.model = model

    def __sklearn_clone__(self):
        return Remembers(self.model)

    @property
    def classes_(self):
        return self.model.classes_

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)


@pytest.mark.parametrize(("labels", "pos_label"), [(("bad", "good"), "bad"), ((1, 2), 2), ((0, 1), 0)])
def test_a_trained_model_of_ones_own(labels, pos_label):
    X, y = data(labels)
    own = LogisticRegression().fit(X, y)
    model = CostSensitiveClassifier(
        COSTS, learner=SklearnLearner(Remembers(own), encode=False), pos_label=pos_label
    ).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), own.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    ("known", "given"), [((1, 2), (0, 1)), (("bad", "good"), ("no", "yes")), ((0, 1, 2), (0, 1)), (("b", "g"), (0, 1))]
)
def test_classes_that_are_not_those_of_the_task(known, given):
    X, y = data(known)
    learner = frozen(LogisticRegression(), X, y)
    Z, labels = data(given)
    with pytest.raises(
        ValueError, match=r"prefit .*was fitted on the classes .*, but .* labels .*: fit it on the same labels"
    ):
        CostSensitiveClassifier(COSTS, learner=learner, pos_label=given[1]).fit(Z, labels)


def test_comparison_of_prefit_models():
    X, y = data(("bad", "good"))
    flat = LogisticRegression(C=1e-6)
    methods = {
        "sharp": CostSensitiveClassifier(learner=frozen(LogisticRegression(), X, y)),
        "flat": CostSensitiveClassifier(learner=frozen(flat, X, y)),
    }
    result = compare(
        X, y, COSTS, pos_label="bad", methods=methods, repeats=1, folds=2, n_jobs=1, progress=False,
    )  # fmt: skip
    costs = result.table.set_index("method")["mean"]
    assert costs["sharp"] < 0.4 < costs["flat"]


def test_two_prefit_models_that_look_alike_are_not_mixed_up():
    X, y = data((0, 1))
    right, wrong = LogisticRegression().fit(X, y), LogisticRegression().fit(X, 1 - y)
    methods = {
        name: CostSensitiveClassifier(learner=FrozenEstimator(own))
        for name, own in (("right", right), ("wrong", wrong))
    }
    result = compare(X, y, COSTS, methods=methods, repeats=1, folds=2, n_jobs=1, progress=False)
    costs = result.table.set_index("method")["mean"]
    assert costs["right"] < 0.5 < costs["wrong"]


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(), RandomForestClassifier(5, random_state=0)])
@pytest.mark.parametrize(("labels", "pos_label"), [(("bad", "good"), "bad"), ((1, 2, 3), None), ((0, 1), 0)])
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
    with pytest.raises(
        ValueError, match=r"was fitted on the classes .*'good'\], but the labels given to fit are \[0, 1"
    ):
        CostSensitiveClassifier(COSTS, learner=frozen(own, X, y), pos_label=0).fit(X, (y == "good").astype(int))


def test_a_model_that_is_fitted_still_gets_numbers():
    X, y = data(("bad", "good"))
    model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), pos_label="bad").fit(
        pd.DataFrame(X, columns=list("abc")), y
    )
    assert [own.classes_.tolist() for own in model.model_.estimators] == [[0, 1]]
