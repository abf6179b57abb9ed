"""Actions beyond the classes: their costs against the definition, one class and one decision at a time."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl import CostMatrix

K3 = np.asarray([[-1.0, 5.0, 9.0], [1.0, 0.0, 4.0], [2.0, 3.0, 0.5]])  # rows = predicted
THREE = CostMatrix.from_array(K3, rows="predicted", classes=["ant", "bee", "cat"])


@given(st.floats(0, 50), st.sampled_from([1e-9, 1.0, 8.0, 1e9]), st.floats(0, 1), st.floats(0, 1))
def test_a_referral_costs_its_review_and_the_reviewed_decision(review, fn, fn_rate, fp_rate):
    costs = CostMatrix(fp=1, fn=fn - 2, tp=-2, tn=0.25)
    if review > 0.01:
        row = costs.with_referral(review).to_array()[2]
        np.testing.assert_allclose(row, [review + 0.25, review - 2])
        row = costs.with_referral(review, errors={"fp": fp_rate, "fn": fn_rate}).to_array()[2]
        by_hand = [review + (1 - fp_rate) * 0.25 + fp_rate * 1, review + (1 - fn_rate) * -2 + fn_rate * (fn - 2)]
        np.testing.assert_allclose(row, by_hand, rtol=1e-9, atol=1e-12)


def test_errors_of_three_classes_in_every_form():
    by_rate = THREE.with_referral(1.5, errors=0.1).to_array()[3]
    wrong = [[(0.9 if i == j else 0.05) * K3[i, j] for i in range(3)] for j in range(3)]
    np.testing.assert_allclose(by_rate, [1.5 + sum(column) for column in wrong])
    by_name = THREE.with_referral(1.5, errors={"bee": 0.1}).to_array()[3]
    np.testing.assert_allclose(by_name, [0.5, by_rate[1], 2.0])
    shares = np.asarray([[1, 0.1, 0], [0, 0.9, 0.2], [0, 0, 0.8]])
    by_matrix = THREE.with_referral(1.5, errors=shares).to_array()[3]
    np.testing.assert_allclose(by_matrix, 1.5 + (shares * K3).sum(axis=0))


def test_names_and_costs_of_samples_remain():
    costs = THREE.with_referral(1.5, name="ask")
    assert costs.actions == ("ant", "bee", "cat", "ask")
    assert costs.classes == ("ant", "bee", "cat")
    amounts = np.asarray([3.0, 0.0, 50.0])
    rows = CostMatrix(fp=1, fn=amounts).with_referral(np.asarray([1.0, 2.0, 3.0]), errors={"fn": 0.5})
    np.testing.assert_allclose(rows.to_array()[:, 2], [[1, 2.5], [2, 2], [3, 28]])
    assert rows.rows([1]).decide([0.9]).tolist() == [0]
    free = CostMatrix(fp=1, fn=amounts).rows([1]).with_referral(1.0)  # one sample, whose false negative is free
    assert free.decide([0.9]).tolist() == [0]
    assert CostMatrix.from_json(json.dumps(costs.to_dict())) == costs


def test_one_action_after_another():
    costs = THREE.with_action("wait", 2.5).with_action("test", {"cat": 0.75, "ant": 1, "bee": 1})
    assert costs.actions == ("ant", "bee", "cat", "wait", "test")
    assert costs.to_array()[3:].tolist() == [[2.5] * 3, [1, 1, 0.75]]
    # the reviewer then takes the action of least cost: predicting, or another one
    assert costs.with_referral(1.0).to_array()[5].tolist() == [0.0, 1.0, 1.5]
    assert costs.with_referral(1.0, errors=np.eye(3)).to_array()[5].tolist() == [0.0, 1.0, 1.5]


def test_the_expected_cost_of_each_action():
    costs = CostMatrix(fp=1, fn=8).with_referral(0.5)
    np.testing.assert_allclose(costs.expected_of_each([0.25]), [[2.0, 0.75, 0.5]])
    np.testing.assert_allclose(costs.expected_of_each([[0.75, 0.25]]), [[2.0, 0.75, 0.5]])
    p = np.random.default_rng(0).dirichlet(np.ones(3), 9)
    np.testing.assert_allclose(THREE.expected_of_each(p), [[row @ x for row in K3] for x in p])
    with pytest.raises(ValueError, match="finite"):
        costs.expected_of_each([np.nan])


def test_the_same_in_every_library(library):
    costs = CostMatrix(fp=1.0, fn=library.asarray([3.0, 40.0])).with_referral(library.asarray([1.0, 2.0]), errors=0.25)
    each = library.to_numpy(costs.expected_of_each(library.asarray([0.5, 0.5])))
    np.testing.assert_allclose(each, [[1.5, 0.5, 1.5], [20.0, 0.5, 7.125]])


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (1.5, "between 0 and 1"),
        (float("nan"), "between 0 and 1"),
        ({"cow": 0.1}, "expected 'ant', 'bee', 'cat'"),
        (np.ones((3, 3)), "columns sum to 1"),
        (np.eye(2), "3 x 3 shares"),
    ],
)
def test_invalid_errors_are_refused(errors, message):
    with pytest.raises(ValueError, match=message):
        THREE.with_referral(1, errors=errors)


def test_invalid_actions_are_refused():
    with pytest.raises(ValueError, match="already"):
        THREE.with_action("bee", 1)
    with pytest.raises(ValueError, match="one for each of 3 classes, got 2"):
        THREE.with_action("wait", [1, 2])
    with pytest.raises(ValueError, match="has no column for 'cat'"):
        THREE.with_action("wait", {"ant": 1, "bee": 2})
    with pytest.raises(ValueError, match="must not be negative"):
        THREE.with_referral(-1)
    with pytest.raises(ValueError, match="'refer' has the lowest cost for every class"):
        THREE.with_referral(0)
    with pytest.raises(ValueError, match="predict no class"):
        CostMatrix.from_array(
            [[1, 2], [2, 1], [3, 3]], rows="predicted", classes=["a", "b"], actions=["x", "y", "z"]
        ).with_referral(0.1, errors=0.1)
