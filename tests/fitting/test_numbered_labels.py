"""Text labels inside scikit-learn's own estimators, which number them before they fit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, StandardScaler

from adacsl import AdaptiveCostClassifier, CostMatrix
from adacsl.fitting.rows import spoken_labels

X, CODES = make_classification(200, 4, random_state=1)
TEXT = np.where(CODES == 1, "bad", "good")
COSTS = CostMatrix(fp=1, fn=9)
NAMED = CostMatrix.from_array([[0, 9], [1, 0]], rows="predicted", classes=["good", "bad"])


def steered(costs=COSTS, positive="bad"):
    """Return a classifier whose very training depends on which class is positive."""
    return AdaptiveCostClassifier(LogisticRegression(), costs, positive=positive, rounds=2, random_state=0)


KINDS = pytest.mark.parametrize("made", [steered(), steered(NAMED, None)], ids=["positive", "names"])


@KINDS
def test_cross_val_predict_gives_the_probabilities_of_fits_with_text(made):
    folds = list(StratifiedKFold(2).split(X, TEXT))
    expected = np.empty((len(X), 2))
    for train, test in folds:
        expected[test] = clone(made).fit(X[train], TEXT[train]).predict_proba(X[test])
    found = cross_val_predict(made, X, TEXT, cv=folds, method="predict_proba")
    np.testing.assert_array_equal(found, expected)


@KINDS
@pytest.mark.parametrize(
    "wrap",
    [
        lambda made: VotingClassifier([("one", made)], voting="soft"),
        lambda made: StackingClassifier([("one", made)], cv=2),
        lambda made: BaggingClassifier(made, n_estimators=1, bootstrap=False, random_state=0),
        lambda made: VotingClassifier([("one", VotingClassifier([("two", made)], voting="soft"))], voting="soft"),
        lambda made: VotingClassifier([("one", make_pipeline(StandardScaler(with_mean=False), made))], voting="soft"),
    ],
    ids=["voting", "stacking", "bagging", "voting of voting", "pipeline"],
)
def test_ensembles_fit_their_members_as_with_text(made, wrap):
    alone = clone(made).fit(X, TEXT)
    together = wrap(clone(made)).fit(X, TEXT)
    inner = together.estimators_[0]
    inner = inner.estimators_[0] if isinstance(inner, VotingClassifier) else inner
    inner = inner[-1] if hasattr(inner, "steps") else inner
    assert inner.classes_[inner.classes_ == inner.positive_].tolist() == [0]  # the place of "bad"
    if not hasattr(together.estimators_[0], "steps") and not isinstance(together, BaggingClassifier):
        np.testing.assert_array_equal(inner.predict_proba(X), alone.predict_proba(X))
    assert np.mean(together.predict(X) == TEXT) > 0.8


def test_a_number_that_is_a_label_and_a_place_means_the_label():
    numbers = np.where(CODES == 1, 1, 2)  # numbered, 1 would be the other class
    voting = VotingClassifier([("one", steered(positive=1))], voting="soft")
    found = cross_val_predict(voting, X, numbers, cv=2, method="predict_proba")
    meant, swapped = (
        cross_val_predict(steered(positive=positive), X, TEXT == "good", cv=2, method="predict_proba")
        for positive in (False, True)
    )
    np.testing.assert_array_equal(found, meant)
    assert not np.array_equal(found, swapped)


def test_numbers_of_ones_own_are_not_guessed():
    earlier = steered().fit(X, TEXT)  # knows the words, but has not numbered these
    with pytest.raises(ValueError, match=r"positive 'bad' is no label of y; the labels are \[0, 1\]; if these are"):
        steered().fit(X, CODES)
    with pytest.raises(ValueError, match="is no label of y"):
        earlier.fit(X, CODES)


@pytest.mark.parametrize(("names", "positive"), [(["0", "1"], 1), (["1", "0"], 0), ([0, 1], 1)])
def test_costs_may_name_two_classes_that_are_numbers(names, positive):
    costs = CostMatrix.from_array([[0, 9], [1, 0]], rows="predicted", classes=names)
    made = steered(costs, None).fit(X, CODES)
    assert made.positive_ == positive
    assert (made.costs_.fn, made.costs_.fp) == (9, 1)


@settings(max_examples=25)
@given(st.lists(st.text("abc", min_size=1), min_size=2, max_size=5, unique=True), st.randoms())
def test_places_get_their_names_back(names, random):
    """Whatever the order of the names: scikit-learn's encoder knows who is who."""
    asked, numbered = random.sample(names, len(names)), LabelEncoder().fit(names)
    places = numbered.transform(asked).tolist()
    assert spoken_labels(places, names) == (asked if names == sorted(names) else places)
    found = []

    class Asking(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            found.append(spoken_labels(places, names))
            return self

    VotingClassifier([("one", Asking())]).fit(np.zeros((len(names), 1)), names)
    assert found[-1] == asked
