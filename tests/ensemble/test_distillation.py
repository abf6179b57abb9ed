"""A student learns what the stack says: its probabilities are near the stack's, and its cost is its own."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from adacsl import CostMatrix, PortfolioClassifier, load

COSTS = CostMatrix(fp=1, fn=5)
QUICK = {"members": ["logistic", "histogram"], "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(900, 6, n_informative=4, weights=[0.8], flip_y=0.05, random_state=0)
    return X[:600], y[:600], X[600:]


@pytest.fixture(scope="module")
def taught(data):
    X, y, _ = data
    return PortfolioClassifier(COSTS, distil=True, **QUICK).fit(X, y)


def test_the_student_is_near_the_stack_and_nearer_than_to_a_constant(taught, data):
    _, _, other = data
    stack, student = (model.predict_proba(other)[:, 1] for model in (taught, taught.student_))
    assert np.corrcoef(stack, student)[0, 1] > 0.9
    assert np.mean(np.abs(stack - student)) < 0.5 * np.mean(np.abs(stack - stack.mean()))
    assert np.mean(student) == pytest.approx(np.mean(stack), abs=0.03)


def test_its_cost_is_measured_against_the_labels_of_rows_it_did_not_train_on(taught, data):
    _, y, _ = data
    student = taught.student_
    held_out = ~np.isnan(student.oof_scores_)
    assert 0.15 * len(y) < held_out.sum() < 0.25 * len(y)
    decided = student.oof_scores_[held_out] > COSTS.threshold
    assert student.estimated_cost_.estimate == pytest.approx(COSTS.mean(y[held_out], decided))


def test_it_is_saved_and_loaded_alone(taught, data, tmp_path):
    _, _, other = data
    found = load(taught.student_.save(tmp_path / "student"))
    assert np.array_equal(found.predict_proba(other), taught.student_.predict_proba(other))
    assert np.array_equal(found.predict(other), taught.student_.predict(other))


def test_groups_weights_and_costs_of_each_row(data):
    X, y, other = data
    groups, weight = np.arange(len(y)) // 3, np.where(np.arange(len(y)) % 7 == 0, 0.0, 1.0)
    taught = PortfolioClassifier(COSTS, distil="boosting", **QUICK)
    taught.fit(X, y, groups=groups, sample_weight=weight, fn=np.linspace(1, 9, len(y)))
    held_out = ~np.isnan(taught.student_.oof_scores_)
    assert not held_out[weight == 0].any()
    counted = held_out | (weight == 0)  # what has no weight is on neither side
    sides = [set(groups[counted & (weight > 0)]), set(groups[~counted])]
    assert not sides[0] & sides[1]
    assert taught.student_.predict(other, fn=np.full(len(other), 3.0)).shape == (len(other),)


def test_what_cannot_be_a_student_is_refused(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="distil must be one of False, True, 'boosting', 'net', got 'forest'"):
        PortfolioClassifier(COSTS, distil="forest", **QUICK).fit(X, y)


def test_without_it_there_is_none(data):
    X, y, _ = data
    assert not hasattr(PortfolioClassifier(COSTS, **QUICK).fit(X, y), "student_")
