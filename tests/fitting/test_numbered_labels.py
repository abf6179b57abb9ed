"""Labels that scikit-learn numbers before it fits: positions in the sorted class names of the costs."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacsl import CostMatrix
from tests.made import adapted_estimator

X, CODES = make_classification(200, 4, random_state=1)
TEXT = np.where(CODES == 1, "bad", "good")
NAMED = CostMatrix.from_array([[0, 1], [9, 0]], rows="predicted", classes=["bad", "good"])
TURNED = CostMatrix.from_array([[0, 9], [1, 0]], rows="predicted", classes=["good", "bad"])
"""The same costs: a bad one that is called good costs 9."""


def adapted(costs=NAMED, pos_label="bad"):
    """Return a classifier whose very training depends on which class is positive."""
    return adapted_estimator(LogisticRegression(), costs, max_iter=2, pos_label=pos_label, random_state=0)


def test_cross_val_predict_gives_the_probabilities_of_fits_with_text():
    folds = list(StratifiedKFold(2).split(X, TEXT))
    expected = np.empty((len(X), 2))
    for train, test in folds:
        expected[test] = clone(adapted()).fit(X[train], TEXT[train]).predict_proba(X[test])
    result = cross_val_predict(adapted(), X, TEXT, cv=folds, method="predict_proba")
    np.testing.assert_array_equal(result, expected)


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
def test_ensembles_fit_their_estimators_as_with_text(wrap):
    alone = adapted().fit(X, TEXT)
    ensemble = wrap(adapted()).fit(X, TEXT)
    inner = ensemble.estimators_[0]
    inner = inner.estimators_[0] if isinstance(inner, VotingClassifier) else inner
    inner = inner[-1] if hasattr(inner, "steps") else inner
    assert inner.classes_[inner.classes_ == inner.pos_label_].tolist() == [0]  # the position of "bad"
    if not hasattr(ensemble.estimators_[0], "steps") and not isinstance(ensemble, BaggingClassifier):
        np.testing.assert_array_equal(inner.predict_proba(X), alone.predict_proba(X))
    assert np.mean(ensemble.predict(X) == TEXT) > 0.8


def test_the_result_is_that_of_the_text_labels_whatever_the_caller_is():
    """Nothing is read from the callers: a fit with the numbers is the fit of scikit-learn."""
    text, numbers = adapted().fit(X, TEXT), adapted().fit(X, (TEXT == "good").astype(int))
    assert numbers.pos_label_ == 0
    np.testing.assert_array_equal(text.predict_proba(X), numbers.predict_proba(X))
    assert numbers.costs_ == text.costs_


def test_without_names_the_positive_class_of_numbers_is_asked_for():
    plain = CostMatrix(fp=1, fn=9)
    for fit in (
        lambda: adapted(plain).fit(X, CODES),
        lambda: VotingClassifier([("one", adapted(plain))], voting="soft").fit(X, TEXT),
    ):
        with pytest.raises(ValueError, match=r"y has no class 'bad' .*pass 0 or 1 as pos_label"):
            fit()
    voting = VotingClassifier([("one", adapted(plain, 0))], voting="soft").fit(X, TEXT)
    np.testing.assert_array_equal(voting.estimators_[0].predict_proba(X), adapted().fit(X, TEXT).predict_proba(X))


def test_names_in_another_order_leave_open_which_number_is_which():
    numbers = (TEXT == "bad").astype(int)  # positions among the names as the costs list them, not as they are sorted
    message = r"labels 0 to 1.*'good', 'bad': their order is not known.*pass 0 or 1 as pos_label"
    for positive in (None, "bad"):
        with pytest.raises(ValueError, match=message):
            adapted(TURNED, positive).fit(X, numbers)
    text = adapted(TURNED, None).fit(X, TEXT)
    meant, sorted_names = adapted(TURNED, 1).fit(X, numbers), adapted(TURNED, 0).fit(X, 1 - numbers)
    np.testing.assert_array_equal(meant.predict_proba(X)[:, 1], text.predict_proba(X)[:, 0])
    np.testing.assert_array_equal(sorted_names.predict_proba(X), text.predict_proba(X))
    assert meant.costs_ == sorted_names.costs_ == text.costs_


@pytest.mark.parametrize(("names", "pos_label"), [(["0", "1"], 1), (["1", "0"], 0), ([0, 1], 1)])
def test_costs_may_name_two_classes_that_are_numbers(names, pos_label):
    costs = CostMatrix.from_array([[0, 9], [1, 0]], rows="predicted", classes=names)
    made = adapted(costs, None).fit(X, CODES)
    assert made.pos_label_ == pos_label
    assert (made.costs_.fn, made.costs_.fp) == (9, 1)
