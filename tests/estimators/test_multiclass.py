"""Classifiers of K classes at their edges: text labels, absent classes, very many, costly ones, one alone."""

import warnings

import numpy as np
import pytest
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, Decision, EnsembleClassifier, load
from adacsl.base.scores import to_probabilities
from adacsl.learners.metacost import MetaCost, out_of_bag
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural import NeuralLearner
from tests.made import adapted_estimator, boosting_classifier, logistic

NAMES = np.asarray(["ash", "elm", "oak"])
TABLE = np.asarray([[0.0, 1.0, 12.0], [2.0, 0.0, 5.0], [1.0, 3.0, 0.0]])
COSTS = CostMatrix.from_array(TABLE, rows="predicted", classes=NAMES)

EVERY = {
    "net": lambda **own: AdaCSLClassifier(learner=NeuralLearner(epochs=3), random_state=0, **own),
    "boosting": lambda **own: boosting_classifier(library="lightgbm", n_estimators=8, random_state=0, **own),
    "adaptive": lambda **own: adapted_estimator(
        make_pipeline(StandardScaler(), LogisticRegression()), random_state=0, **own
    ),
    "tree": lambda **own: CostSensitiveClassifier(learner=DecisionTreeClassifier(max_depth=3), random_state=0, **own),
    "ensemble": lambda **own: EnsembleClassifier(estimators=["logistic"], n_jobs=1, random_state=0, **own),
}


def drawn(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    chances = to_probabilities(2 * np.stack((X[:, 0], X[:, 1], X[:, 2] - 0.5), axis=1))
    return X, NAMES[(chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)]


X, Y = drawn()


def check_lowest_cost(decided, proba):
    """Of several that are equal cost any will do: leaves of trees have them."""
    expected = proba @ TABLE.T
    own = np.take_along_axis(expected, np.searchsorted(NAMES, decided)[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(own, expected.min(axis=1), atol=1e-9)


@pytest.fixture(params=EVERY, scope="module")
def make(request):
    return EVERY[request.param]


def test_text_labels_probabilities_and_decisions(make, tmp_path):
    clf = make(costs=COSTS).fit(X, Y)
    proba = clf.predict_proba(X)
    assert clf.classes_.tolist() == NAMES.tolist()
    assert proba.shape == (len(X), 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    check_lowest_cost(clf.predict(X), proba)
    back = load(clf.save(tmp_path / "model"))
    assert np.array_equal(back.predict_proba(X), proba)
    assert np.array_equal(back.predict(X), clf.predict(X))
    assert (back.classes_.tolist(), back.pos_label_) == (NAMES.tolist(), None)
    assert back.history_.equals(clf.history_)
    assert back.target_costs_ == clf.target_costs_


def test_labels_of_any_kind_are_the_same_classes(make):
    numbers = np.asarray([10, 20, 30])[np.searchsorted(NAMES, Y)]
    unnamed = CostMatrix.from_array(TABLE, rows="predicted")
    one, other = make(costs=COSTS).fit(X, Y), make(costs=unnamed).fit(X, numbers)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert np.array_equal(np.searchsorted(NAMES, one.predict(X)), np.searchsorted([10, 20, 30], other.predict(X)))


def test_cross_validation_and_searches(make):
    folds = StratifiedKFold(2)
    proba = cross_val_predict(make(costs=COSTS), X, Y, cv=folds, method="predict_proba")
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    decided = cross_val_predict(make(costs=COSTS), X, Y, cv=folds)
    check_lowest_cost(decided, proba)
    scores = cross_val_score(make(costs=COSTS), X, Y, cv=folds)
    expected = [TABLE[np.searchsorted(NAMES, decided[t]), np.searchsorted(NAMES, Y[t])].mean()
                for _, t in folds.split(X, Y)]  # fmt: skip
    np.testing.assert_allclose(-scores, expected)


# absent classes


def test_a_class_of_one_sample_may_be_absent_from_a_fold(make):
    labels = np.where(Y == "oak", "elm", Y)
    labels[5] = "oak"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fewer rows than")
        clf = make(costs=COSTS, cv=3).fit(X, labels)
    proba = clf.predict_proba(X)
    assert proba.shape == (len(X), 3)
    assert np.isfinite(proba).all()
    assert np.isfinite(clf.estimated_cost_.estimate)


def test_a_class_may_be_absent_from_the_validation_data(make):
    clf = make(costs=COSTS, cv=None, validation=(X[Y != "oak"][:60], Y[Y != "oak"][:60])).fit(X, Y)
    assert np.isfinite(clf.predict_proba(X)).all()
    assert clf.predict_proba(X)[Y == "oak", 2].mean() > clf.predict_proba(X)[Y != "oak", 2].mean()


def test_classes_that_are_not_there_are_named(make):
    some = Y != "oak"
    with pytest.raises(ValueError, match=r"validation labels \['fir'\] do not occur"):
        make(costs=COSTS, cv=None, validation=(X[:9], np.append(Y[:8], "fir"))).fit(X, Y)
    with pytest.raises(ValueError, match=r"labels have 2 classes, the costs 3, of which \['oak'\] have no rows"):
        make(costs=COSTS, pos_label="elm").fit(X[some], Y[some])
    with pytest.raises(ValueError, match=r"'fir'.*'oak'"):
        make(costs=COSTS).fit(X, np.where(Y == "oak", "fir", Y))
    with pytest.raises(ValueError, match="one class only: 'ash'"):
        make().fit(X, np.full(len(X), "ash"))
    with pytest.raises(ValueError, match="one class only"):
        make(costs=COSTS).fit(X, Y, sample_weight=(Y == "elm").astype(float))


# costly classes

NEVER_OAK = CostMatrix.from_array([[0, 4, 100], [1, 0, 0], [50, 50, 0]], rows="predicted", classes=NAMES)
"""Whatever is true, predicting "elm" costs no more than predicting "oak"."""


def test_a_costly_class_is_predicted_though_it_is_unlikely(make):
    costly = TABLE.copy()
    costly[:2, 2] = 300.0
    clf = make(costs=CostMatrix.from_array(costly, rows="predicted", classes=NAMES)).fit(X, Y)
    proba = clf.predict_proba(X)
    assert (clf.predict(X)[proba.argmax(axis=1) != 2] == "oak").any()


def test_a_costly_class_may_never_be_predicted(make):
    decided = make(costs=NEVER_OAK).fit(X, Y).predict(X)
    assert "oak" not in set(decided)
    numbered = np.searchsorted(NAMES, Y), np.searchsorted(NAMES, decided)
    expected = confusion_matrix(*numbered).T * NEVER_OAK.to_array()
    np.testing.assert_allclose(NEVER_OAK.confusion(*numbered), expected, rtol=1e-12)
    assert NEVER_OAK.savings(*numbered) > -1.0


@pytest.mark.parametrize("decide", ["tuned", "calibrated"])
def test_a_class_that_is_never_predicted_is_tuned_and_calibrated(decide):
    clf = logistic(NEVER_OAK, decide=decide).fit(X, Y)
    assert np.isfinite(clf.predict_proba(X)).all()
    assert np.isfinite(clf.decision_.mapped).all()


# very many classes


def test_a_hundred_classes(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 100
    centers = rng.normal(size=(100, 6)) * 3
    X = centers[y] + rng.normal(size=(600, 6)) * 0.3
    labels = np.asarray([f"kind {i:02d}" for i in y])
    costs = CostMatrix.from_array(rng.uniform(1, 9, (100, 100)) * (1 - np.eye(100)), rows="predicted")
    for clf in (
        CostSensitiveClassifier(costs, learner=GaussianNB(), random_state=0),
        EnsembleClassifier(costs, estimators=[DecisionTreeClassifier()], cv=3, n_jobs=1, random_state=0),
        AdaCSLClassifier(costs, learner=NeuralLearner(epochs=3), random_state=0),
    ):
        clf.fit(X, labels)
        assert clf.predict_proba(X).shape == (600, 100)
        assert clf.estimated_cost_.estimate < 5.0  # a guess costs 5
    back = load(clf.save(tmp_path / "model"))
    assert np.array_equal(back.predict(X), clf.predict(X))


# columns


def test_permutation_costs_equal_scikit_learns():
    clf = logistic(COSTS).fit(X, Y)
    more, labels = drawn(150, seed=1)
    result = clf.permutation_cost(more, labels, random_state=3)
    trusted = permutation_importance(clf, more, labels, random_state=3, n_repeats=5)
    np.testing.assert_allclose(result["cost"], trusted.importances_mean[result["column"]], atol=1e-12)
    assert result["column"].iloc[-1] == 3  # the one of no use
    codes = np.searchsorted(NAMES, labels)
    constant = min(TABLE[i, codes].mean() for i in range(3))
    assert result.attrs["constant_cost"] == pytest.approx(constant)
    np.testing.assert_allclose(result["share"], result["cost"] / (constant + clf.score(more, labels)))


# MetaCost


def test_samples_get_their_label_of_lowest_cost_and_are_learned(tmp_path):
    codes = np.searchsorted(NAMES, Y)
    chances = out_of_bag(X, codes, bags=3, seed=0, n_classes=3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    two = (codes == 2).astype(int)  # two classes are two of K
    of_three, of_two = (out_of_bag(X, two, bags=3, seed=0, **k) for k in ({"n_classes": 3}, {}))
    np.testing.assert_allclose(of_three[:, 1], of_two, rtol=1e-12)
    assert (of_three[:, 2] == 0.0).all()
    labels = (chances @ TABLE.T).argmin(axis=1)
    model = MetaCost(3, random_state=0).fit(X, codes, COSTS)
    assert np.mean(model.predict(X) == labels) > 0.9
    back = MetaCost.from_numbers(*model.numbers())
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    learner = SklearnLearner(MetaCost(2), encode=False)
    clf = CostSensitiveClassifier(COSTS, learner=learner, decide="half", random_state=0).fit(X, Y)
    assert np.array_equal(load(clf.save(tmp_path / "model")).predict(X), clf.predict(X))


def test_labels_nobody_gets_have_no_chance():
    codes = np.searchsorted(NAMES, Y)
    assert MetaCost(2, random_state=0).fit(X, codes, NEVER_OAK).predict_proba(X)[:, 2].max() == 0.0
    always = CostMatrix.from_array([[0, 1, 1], [1, 0, 1], [1e-9, 1e-9, 0]], rows="predicted")
    model = MetaCost(2, random_state=0).fit(X, codes, always)
    assert model.predict(X).tolist() == [2] * len(X)
    assert np.array_equal(MetaCost.from_numbers(*model.numbers()).predict_proba(X), model.predict_proba(X))


# advice for three classes

TWO, THREE, RARE = CostMatrix(fp=1, fn=8), 1.0 - np.eye(3), {"fp": 1.0, "fn": np.ones(len(Y))}


def fitted(costs, labels=Y, **given):
    return CostSensitiveClassifier(costs, learner=GaussianNB(), random_state=0).fit(X, labels, **given)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (lambda: fitted(THREE), r"an array of 3 x 3: state what its rows are, CostMatrix\.from_array"),
        (lambda: fitted(None, **RARE), r"those of 3 are a matrix, CostMatrix\.from_array"),
        (lambda: fitted(COSTS, (Y == "oak").astype(int)), r"2 classes, the costs 3.*: CostMatrix\(fp=1, fn=8\)"),
        (lambda: fitted(TWO), r"3 classes, the costs 2.*: CostMatrix\.from_array\(K x K"),
        (lambda: fitted(COSTS).predict(X, fn=8.0), "omit them, or give another matrix"),
        (lambda: TWO.mean([0, 1, 2], [0, 1, 2]), "costs are of 2 classes, those of 3 are a matrix"),
        (lambda: Decision(COSTS, "tuned").fit(np.full(9, 0.5), np.arange(9) % 3), r"shape \('n', 3\), as the costs"),
    ],
)
def test_three_classes_get_advice_for_three(wrong, advice):
    with pytest.raises((TypeError, ValueError), match=advice):
        wrong()
