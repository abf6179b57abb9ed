"""Costs: by name, by matrix with its orientation, per sample; decisions and totals by hand."""

import copy
import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adacsl import CostMatrix

COST = st.sampled_from([1e-9, 0.5, 1.0, 3.0, 8.0, 1e9])
PROBABILITY = st.floats(0, 1)
K3 = np.array([[0.0, 5.0, 9.0], [1.0, 0.0, 4.0], [2.0, 3.0, 0.0]])  # rows = predicted


def by_definition(matrix, p):
    """Expected cost of predicting each class: a loop over the definition."""
    return [sum(p[j] * matrix[i][j] for j in range(len(p))) for i in range(len(p))]


# what it holds


def test_costs_by_name_and_by_matrix_agree():
    named = CostMatrix(fp=1, fn=8, tp=-2, tn=0.5)
    assert named == CostMatrix.from_array([[0.5, 8], [1, -2]], rows="predicted")
    assert named == CostMatrix.from_array([[0.5, 1], [8, -2]], rows="actual")
    assert (named.fp, named.fn, named.tp, named.tn) == (1.0, 8.0, -2.0, 0.5)


def test_transposed_matrix_is_another_one():
    matrix = [[0, 8], [1, 0]]
    right, transposed = (CostMatrix.from_array(matrix, rows=rows) for rows in ("predicted", "actual"))
    assert right != transposed
    assert right.threshold == pytest.approx(1 / 9)
    assert transposed.threshold == pytest.approx(8 / 9)
    assert right.decide([0.5]).tolist() != transposed.decide([0.5]).tolist()
    assert right.total([1, 0, 0], [0, 1, 0]) == 9
    assert CostMatrix.from_array(K3, rows="predicted").total([2, 2], [0, 0]) == 18
    assert CostMatrix.from_array(K3, rows="actual").total([2, 2], [0, 0]) == 4


@given(COST, COST, st.sampled_from([-1.0, 0.0, 2.0]), st.sampled_from([-3.0, 0.0, 1.0]))
def test_threshold_is_where_both_decisions_cost_the_same(fp, fn, tp, tn):
    costs = CostMatrix(fp=fp + tn, fn=fn + tp, tp=tp, tn=tn)
    t = costs.threshold
    positive, negative = by_definition([[tn, fn + tp], [fp + tn, tp]], [1 - t, t])[::-1]
    assert positive == pytest.approx(negative, rel=1e-6, abs=1e-6 * max(fp, fn))
    assert 0 <= t <= 1


def test_threshold_and_ratio_of_equation_1():
    assert CostMatrix(fp=1, fn=8).threshold == 1 / 9
    assert CostMatrix(fp=1, fn=8).ratio == 8
    assert CostMatrix(fp=3, fn=2, tp=1, tn=2).ratio == 1
    assert CostMatrix(fp=1e-9, fn=1e9).threshold == pytest.approx(1e-18)


def test_balanced_costs_are_inverse_priors(library):
    y = library.asarray(np.array([1] * 3 + [0] * 9))
    costs = CostMatrix.balanced(y, factor=5)
    assert (costs.fp, costs.fn) == (12 / 9, 5 * 12 / 3)
    assert costs.total(y, library.asarray(np.ones(12, dtype=int))) == pytest.approx(12)


def test_reduced_has_a_zero_diagonal_and_decides_alike():
    costs = CostMatrix(fp=1, fn=8, tp=-2, tn=0.5)
    assert costs.reduced() == CostMatrix(fp=0.5, fn=10)
    p = np.linspace(0, 1, 201)
    assert costs.decide(p).tolist() == costs.reduced().decide(p).tolist()
    full = K3 + np.array([1.0, -2.0, 0.5])  # a constant on each true class
    assert CostMatrix.from_array(full, rows="predicted").reduced() == CostMatrix.from_array(K3, rows="predicted")


def test_rows_and_averaged():
    costs = CostMatrix(fp=[1.0, 2.0, 6.0], fn=4)
    assert costs.n_instances == 3
    assert costs.rows([0, 2]) == CostMatrix(fp=[1.0, 6.0], fn=4)
    assert costs.rows(np.array([False, True, True])) == CostMatrix(fp=[2.0, 6.0], fn=4)
    assert costs.rows(torch.tensor([2, 0])) == CostMatrix(fp=[6.0, 1.0], fn=4)
    assert costs.rows(slice(1, None)).n_instances == 2
    assert costs.averaged() == CostMatrix(fp=3, fn=4)
    wide = CostMatrix(fp=1, fn=4)
    assert wide.rows([0]) is wide
    assert wide.averaged() == wide
    assert wide.n_instances is None


# decisions


def test_positive_needs_strictly_more_than_the_threshold(library):
    costs = CostMatrix(fp=1, fn=3)
    p = library.asarray(np.array([0.25, np.nextafter(0.25, 1), 0.0, 1.0]))
    assert library.to_numpy(costs.decide(p)).tolist() == [0, 1, 0, 1]


def test_two_columns_equal_one(library):
    rng = np.random.default_rng(1)
    p = rng.random(50)
    costs = CostMatrix(fp=1, fn=3, tp=-1)
    one, two = library.asarray(p), library.asarray(np.stack((1 - p, p), axis=1))
    np.testing.assert_array_equal(library.to_numpy(costs.decide(one)), library.to_numpy(costs.decide(two)))
    np.testing.assert_allclose(library.to_numpy(costs.expected(one)), library.to_numpy(costs.expected(two)))
    by_hand = np.minimum(3 * p, (1 - p) * 1 + p * -1)
    np.testing.assert_allclose(library.to_numpy(costs.expected(one)), by_hand)


def test_instance_costs_decide_each_with_its_own_threshold(library):
    fp, fn = np.array([1.0, 9.0, 0.0, 2.0, 0.0]), np.array([9.0, 1.0, 3.0, 0.0, 0.0])
    costs = CostMatrix(fp=library.asarray(fp), fn=library.asarray(fn))
    p = library.asarray(np.full(5, 0.4))
    np.testing.assert_allclose(library.to_numpy(costs.threshold), [0.1, 0.9, 0.0, 1.0, 1.0])
    assert library.to_numpy(costs.decide(p)).tolist() == [1, 0, 1, 0, 0]
    np.testing.assert_allclose(library.to_numpy(costs.expected(p)), [0.6, 0.4, 0.0, 0.0, 0.0], atol=1e-15)


@given(
    st.lists(PROBABILITY, min_size=1, max_size=10), COST, COST, st.sampled_from([0.25, 4.0, 1024.0]),
    st.sampled_from([-4.0, 2.0, 64.0]), st.sampled_from([-2.0, 16.0]),
)  # fmt: skip
def test_scaling_or_a_constant_on_one_true_class_changes_no_decision(p, fp, fn, scale, tp, tn):
    decided = CostMatrix(fp=fp, fn=fn).decide(p).tolist()
    assert CostMatrix(fp=fp * scale, fn=fn * scale).decide(p).tolist() == decided
    moved = CostMatrix(fp=1 + tn, tn=tn, fn=4 + tp, tp=tp)
    assert moved.decide(p).tolist() == CostMatrix(fp=1, fn=4).decide(p).tolist()


@given(st.lists(st.integers(0, 64), min_size=1, max_size=10), st.sampled_from([(1, 2), (3, 1), (5, 7)]))
def test_swapping_the_classes_mirrors_every_decision(p, costs):
    p, (fp, fn) = np.array(p) / 64, costs
    plain, swapped = CostMatrix(fp=fp, fn=fn), CostMatrix(fp=fn, fn=fp)
    apart = np.abs(p - plain.threshold) > 1e-9  # on the threshold itself the rule is strict on one side
    assert (1 - swapped.decide(1 - p))[apart].tolist() == plain.decide(p)[apart].tolist()


# what decisions cost


@pytest.mark.parametrize("dtype", [int, float, bool, np.uint8, np.float32])
def test_label_dtypes_agree(dtype):
    true, pred = np.array([0, 1, 1, 0, 1], dtype=dtype), np.array([1, 0, 1, 0, 0], dtype=dtype)
    assert CostMatrix(fp=2, fn=7, tp=-1, tn=1.5).total(true, pred) == 2 + 14 - 1 + 1.5


def test_instance_totals_and_savings():
    costs = CostMatrix(fp=[1.0, 2.0, 0.0, 4.0], fn=[5.0, 6.0, 7.0, 8.0], tn=-1)
    true, pred = [0, 1, 1, 0], [1, 0, 1, 0]
    assert costs.incurred(true, pred).tolist() == [1, 6, 0, -1]
    assert costs.total(true, pred) == 6
    # constants: all negative -1 + 6 + 7 - 1 = 11, all positive 1 + 0 + 0 + 4 = 5
    assert costs.savings(true, pred) == pytest.approx((5 - 6) / 5)
    # reduced: 2 + 6 of min(13, 2 + 5)
    assert costs.normalized(true, pred) == pytest.approx(8 / 7)


def test_normalized_is_one_for_the_best_constant_and_zero_for_no_error():
    y = np.array([0] * 90 + [1] * 10)
    for costs in (CostMatrix(fp=1, fn=8), CostMatrix(fp=1, fn=8, tp=-3, tn=-1)):
        assert costs.normalized(y, np.zeros(100, dtype=int)) == 1
        assert costs.normalized(y, y) == 0
    assert CostMatrix(fp=1, fn=8).savings(y, y) == 1
    # a benefit is no division by a negative number: better stays better
    gains = CostMatrix(fp=0, fn=1, tp=-9, tn=-2)
    assert gains.savings(y, y) > 0 > gains.savings(y, 1 - y)


def test_weight_two_equals_a_repeated_sample_and_zero_a_missing_one():
    costs = CostMatrix(fp=1, fn=8, tp=-1)
    true, pred, twice = np.array([0, 1, 1, 0]), np.array([1, 0, 1, 0]), [0, 1, 2, 3, 1, 2]
    for measure in (costs.total, costs.mean, costs.normalized, costs.savings):
        assert measure(true, pred, sample_weight=[1, 2, 2, 1]) == pytest.approx(measure(true[twice], pred[twice]))
        assert measure(true, pred, sample_weight=[1, 1, 1, 0]) == pytest.approx(measure(true[:3], pred[:3]))


def test_class_wide_total_counts_exactly():
    n = 1_000_001
    assert CostMatrix(fp=0.1, fn=1).total(np.zeros(n, dtype=int), np.ones(n, dtype=int)) == 0.1 * n


# value semantics


def test_scalar_costs_hash_and_compare():
    assert len({CostMatrix(fp=1, fn=8), CostMatrix(fn=8.0, fp=1.0), CostMatrix(fp=8, fn=1)}) == 2
    assert CostMatrix(fp=1, fn=8) != CostMatrix(fp=[1.0, 1.0], fn=8)
    assert CostMatrix(fp=1, fn=8) != "CostMatrix(fp=1, fn=8)"
    with pytest.raises(TypeError, match="not hashable"):
        hash(CostMatrix(fp=[1.0, 2.0], fn=8))


def test_costs_do_not_change():
    source = np.array([1.0, 2.0])
    costs = CostMatrix(fp=source, fn=8)
    source[0] = 99
    assert costs.fp.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        costs.fp[0] = 5
    with pytest.raises(AttributeError, match="is immutable"):
        costs.fn = 3
    with pytest.raises(AttributeError, match="is immutable"):
        del costs._cells


@pytest.mark.parametrize(
    ("costs", "text"),
    [
        (CostMatrix(fp=1, fn=8), "CostMatrix(fp=1, fn=8)"),
        (CostMatrix(fp=1, fn=0.5, tp=-2, tn=0.25), "CostMatrix(fp=1, fn=0.5, tp=-2, tn=0.25)"),
        (CostMatrix(fp=[1.0, 3.0], fn=8), "CostMatrix(fp=<2 values, mean 2>, fn=8)"),
        (
            CostMatrix.from_array(K3, rows="predicted"),
            "CostMatrix.from_array([[0, 5, 9], [1, 0, 4], [2, 3, 0]], rows='predicted')",
        ),
    ],
)
def test_repr_is_readable(costs, text):
    assert repr(costs) == text


@pytest.mark.parametrize(
    "costs",
    [
        CostMatrix(fp=0.1, fn=1 / 3, tp=-1e-9, tn=-1e9),
        CostMatrix(fp=[0.1, 0.2], fn=[1 / 3, 0.0]),
        CostMatrix.from_array(K3, rows="predicted"),
    ],
)
def test_round_trips_are_exact(costs):
    assert CostMatrix.from_json(costs.to_json()) == costs
    assert CostMatrix.from_dict(json.loads(json.dumps(costs.to_dict()))) == costs
    assert pickle.loads(pickle.dumps(costs)) == costs  # noqa: S301
    assert copy.deepcopy(costs) == costs


# what is refused


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CostMatrix(fp=1, fn=0), ValueError, "fn must cost more than tp, got fn=0 and tp=0"),
        (lambda: CostMatrix(fp=-1, fn=2), ValueError, "fp must cost more than tn, got fp=-1 and tn=0"),
        (lambda: CostMatrix(fp=1, fn=2, tp=2), ValueError, "fn must cost more than tp"),
        (lambda: CostMatrix(fp=1, fn=2, tn=3), ValueError, "where an error costs no more"),
        (lambda: CostMatrix(fp=np.nan, fn=2), ValueError, "fp must be finite, got nan"),
        (lambda: CostMatrix(fp=1, fn=np.inf), ValueError, "fn must be finite, got inf"),
        (lambda: CostMatrix(fp=[1, np.nan], fn=2), ValueError, "fp must be finite, got nan at position 1"),
        (lambda: CostMatrix(fp="1", fn=2), TypeError, "fp must be a number or a vector of numbers, got '1'"),
        (lambda: CostMatrix(fp=["a"], fn=2), TypeError, "fp must be numbers"),
        (lambda: CostMatrix(fp=None, fn=2), TypeError, "fp must be a number"),
        (lambda: CostMatrix(fp=[], fn=2), ValueError, "fp is empty"),
        (lambda: CostMatrix(fp=[[1.0], [2.0]], fn=2), ValueError, r"fp must be one number or one for each.*\(2, 1\)"),
        (lambda: CostMatrix(fp=[1, 2], fn=[1, 2, 3]), ValueError, r"one length, got \[2, 3\]"),
        (lambda: CostMatrix(fp=[1, -2], fn=2), ValueError, "fp must not cost less than tn, but for sample 1 it does"),
        (lambda: CostMatrix(fp=[0, 0], fn=2), ValueError, "fp costs no more than tn for any sample"),
        (lambda: CostMatrix(fp=torch.ones(2), fn=np.ones(2)), TypeError, "of one library, got Tensor and ndarray"),
        (lambda: CostMatrix.from_array(K3), TypeError, "rows"),
        (lambda: CostMatrix.from_array(K3[:2], rows="predicted"), ValueError, r"must be square.*got shape \(2, 3\)"),
        (lambda: CostMatrix.from_array([[1.0]], rows="actual"), ValueError, "must be square"),
        (lambda: CostMatrix.from_array(K3, rows="columns"), ValueError, "rows must be 'predicted' or 'actual'"),
        (lambda: CostMatrix.from_array(K3 * np.nan, rows="actual"), ValueError, "must be finite"),
        (lambda: CostMatrix.from_array(-K3, rows="actual"), ValueError, "costs less than being right"),
        (lambda: CostMatrix.from_array(np.ones((3, 3)), rows="actual"), ValueError, "every decision costs the same"),
        (lambda: CostMatrix.balanced([1, 1]), ValueError, "balanced costs need both classes, but all 2 labels are 1"),
        (lambda: CostMatrix.balanced([0, 0, 0]), ValueError, "all 3 labels are 0"),
        (lambda: CostMatrix.from_dict({"costs": 1}), ValueError, "a cost matrix is written as"),
        (lambda: CostMatrix.from_dict({"rows": "actual", "costs": []}), ValueError, "a cost matrix is written as"),
        (lambda: CostMatrix.from_dict({"rows": "predicted", "costs": [[0, 1]]}), ValueError, "square list of lists"),
        (lambda: CostMatrix.from_json('{"rows": "predicted", "costs": [[0, NaN], [1, 0]]}'), ValueError, "finite"),
    ],
)  # fmt: skip
def test_cost_matrix_refuses(make, error, message):
    with pytest.raises(error, match=message):
        make()


BINARY, THREE = CostMatrix(fp=1, fn=8), CostMatrix.from_array(K3, rows="predicted")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BINARY.decide([[0.2], [0.3]]), r"shape \(n,\) or \(n, 2\), got \(2, 1\)"),
        (lambda: BINARY.decide([]), "probabilities are empty"),
        (lambda: BINARY.decide([0.1, 1.2]), r"probabilities in \[0, 1\]"),
        (lambda: BINARY.decide([0.1, np.nan]), "probabilities must be finite"),
        (lambda: BINARY.decide([[0.2, 0.3]]), "each row of probabilities must sum to 1"),
        (lambda: THREE.decide([0.1, 0.2]), r"shape \(n, 3\), got \(2,\)"),
        (lambda: THREE.threshold, "two classes, but this matrix has 3"),
        (lambda: BINARY.expected([0.1, 0.2], [1]), "decisions has 1 entries, expected 2: one for each sample"),
        (lambda: BINARY.total([0, 1], [0]), "y_pred has 1 entries, expected 2: one for each sample"),
        (lambda: BINARY.total([0, 1], [[0], [1]]), "y_pred must be one-dimensional"),
        (lambda: BINARY.total([], []), "y_true is empty"),
        (lambda: BINARY.total([0, 2], [0, 1]), "y_true must be class numbers from 0 to 1, got values from 0 to 2"),
        (lambda: BINARY.total([0, -1], [0, 1]), "got values from -1 to 0"),
        (lambda: BINARY.total([0, 0.5], [0, 1]), "y_true must be class numbers, got fractional values"),
        (lambda: BINARY.total([0, np.nan], [0, 1]), "y_true must be finite, got nan at position 1"),
        (lambda: BINARY.total([0, 1], [0.1, 0.9]), "y_pred must be class numbers"),
        (lambda: BINARY.total(["a", "b"], [0, 1]), "y_true must be numbers"),
        (lambda: CostMatrix(fp=[1, 2], fn=1).total([0], [1]), "select their costs with .rows"),
        (lambda: CostMatrix(fp=[1, 2], fn=1).decide([0.5]), "belong to 2 samples, got 1"),
        (lambda: BINARY.normalized([1, 1], [1, 0]), "normalised cost is undefined here"),
        (lambda: BINARY.savings([0, 0], [0, 1]), "savings are undefined here"),
        (lambda: BINARY.total([0, 1], [0, 1], sample_weight=[1]), "sample_weight has 1 entries"),
    ],
)  # fmt: skip
def test_measuring_refuses(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
