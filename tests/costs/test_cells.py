"""Cost matrices from columns of a table and from ranges; mean costs of errors; weights of samples."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl import CostMatrix

COSTS = st.lists(st.sampled_from([0.0, 1e-9, 0.5, 3.0, 1e9]), min_size=2, max_size=8).filter(any)
UNRESOLVED = CostMatrix(fp=5, fn="0.8 * amount + 12", tp="fee")


# costs that depend on columns


def test_of_a_table_gives_the_costs_of_its_samples():
    table = pd.DataFrame({"amount": [10.0, 100.0], "fee": [1, 2]})
    assert UNRESOLVED.of(table) == CostMatrix(fp=5, fn=[20.0, 92.0], tp=[1.0, 2.0])
    assert UNRESOLVED.columns == ("amount", "fee")
    assert not UNRESOLVED.resolved
    plain = CostMatrix(fp=1, fn=8)
    assert (plain.columns, plain.resolved, plain.of(table)) == ((), True, plain)


def test_more_classes_have_expressions_too():
    costs = CostMatrix.from_array(
        [[0, "amount", 1], [2, 0, "2 * amount"], [1, 1, 0]], rows="predicted", classes=["a", "b", "c"]
    )
    first, second = np.zeros((2, 3, 3))
    first[:] = [[0, 3, 1], [2, 0, 6], [1, 1, 0]]
    second[:] = [[0, 5, 1], [2, 0, 10], [1, 1, 0]]
    np.testing.assert_array_equal(costs.of({"amount": [3, 5]}).to_array(), [first, second])
    turned = CostMatrix.from_array([[0, 2, 1], ["amount", 0, 1], [1, "2 * amount", 0]], rows="actual",
                                   classes=["a", "b", "c"])  # fmt: skip
    assert turned == costs
    assert costs.aligned(["c", "b", "a"]).of({"amount": [3]}).to_array()[0].tolist() == first[::-1, ::-1].tolist()
    with pytest.raises(ValueError, match="equally long"):
        CostMatrix.from_array([[0, "a"], [1]], rows="predicted")


def test_frames_hold_expressions_too():
    frame = pd.DataFrame({"a": ["0", "2"], "b": ["0.5 * amount", "3 - 3"]}, index=["a", "b"])
    costs = CostMatrix.from_frame(frame, rows="predicted")
    table = [[0, "0.5 * amount"], [2, 0]]
    assert costs == CostMatrix.from_array(table, rows="predicted", classes=["a", "b"])
    assert CostMatrix.from_frame(frame.T, rows="actual") == costs


@pytest.mark.parametrize(
    "use",
    [
        lambda c: c.threshold,
        lambda c: c.fn,
        lambda c: c.ratio,
        lambda c: c.n_instances,
        lambda c: c.decide([0.3]),
        lambda c: c.expected([0.3]),
        lambda c: c.total([1], [0]),
        lambda c: c.reduced(),
        lambda c: c.averaged(),
        lambda c: c.rows([0]),
        lambda c: c.to_array(),
        lambda c: c.row_weights([1]),
        lambda c: c.class_weights(),
    ],
)
def test_measures_need_resolved_costs(use):
    with pytest.raises(ValueError, match=r"depend on the columns 'amount', 'fee': costs\.of\(table\) gives those of"):
        use(UNRESOLVED)


@pytest.mark.parametrize("costs", [UNRESOLVED, CostMatrix(fp=(1, 2), fn=(0, 20), tn=-1), CostMatrix(fp=(1, 2), fn="a")])
def test_unresolved_and_ranged_costs_are_values(costs):
    assert CostMatrix.from_json(costs.to_json()) == costs
    assert CostMatrix.from_dict(json.loads(json.dumps(costs.to_dict()))).ranges == costs.ranges
    assert pickle.loads(pickle.dumps(costs)) == costs  # noqa: S301
    assert copy.deepcopy(costs) == costs
    assert eval(repr(costs), {"CostMatrix": CostMatrix}) == costs  # noqa: S307
    assert hash(costs) == hash(CostMatrix.from_json(costs.to_json()))
    assert costs != CostMatrix(fp=1, fn=8)


def test_errors_that_cost_less_than_being_right_are_free():
    resolved = CostMatrix(fp=1, fn="amount - 10", tp="fee").of({"amount": [5.0, 30.0], "fee": [2.0, 3.0]})
    assert resolved.fn.tolist() == [2.0, 20.0]
    assert resolved.reduced().fn.tolist() == [0.0, 17.0]
    assert CostMatrix(fp=1, fn="amount").of({"amount": [0.0]}).decide([0.9]).tolist() == [0]  # a free false negative
    with pytest.raises(ValueError, match="fn costs no more than tp for any sample"):
        CostMatrix(fp=1, fn="amount").of({"amount": [-1.0, 0.0]}).checked()
    three = CostMatrix.from_array([[0, "a", 1], [1, 0, 2], [1, 1, 0]], rows="predicted").of({"a": [-4.0, 4.0]})
    assert three.to_array()[:, 0, 1].tolist() == [0.0, 4.0]


def test_any_recipe_is_a_cell():
    class Twice:
        kind = "twice"
        columns = ("amount",)

        def of(self, table):
            return 2 * np.asarray(table["amount"])

        def to_dict(self):
            return {"kind": self.kind}

    costs = CostMatrix(fp=1, fn=Twice())
    assert costs.columns == ("amount",)
    assert costs.of({"amount": [1, 2]}).fn.tolist() == [2.0, 4.0]
    assert costs.to_dict()["costs"][0][1] == {"kind": "twice"}
    with pytest.raises(ValueError, match="a cost is written as a number, a list, or"):
        CostMatrix.from_dict(costs.to_dict())


# ranges


def test_a_range_stands_for_its_geometric_middle():
    costs = CostMatrix(fp=(1, 4), fn=(5, 20))
    assert (costs.fp, costs.fn) == (2.0, 10.0)
    assert costs.ranges == {"fp": (1.0, 4.0), "fn": (5.0, 20.0)}
    assert CostMatrix(fp=(0, 4), fn=8, tn=(-6, -2)).fp == 2.0
    assert CostMatrix(fp=(0, 4), fn=8, tn=(-6, -2)).tn == -4.0
    assert CostMatrix(fp=1, fn=8).ranges == {}
    assert CostMatrix(fp=[1, 2], fn=8).ranges == {}  # a list holds the costs of samples
    assert costs != CostMatrix(fp=2, fn=10)
    assert costs.decide([0.1, 0.2]).tolist() == CostMatrix(fp=2, fn=10).decide([0.1, 0.2]).tolist()


@given(st.sampled_from([1e-9, 1.0, 1e9]), st.floats(1, 1e9))
def test_the_middle_is_geometric(low, factor):
    costs = CostMatrix(fp=1, fn=(low, low * factor))
    assert costs.fn / low == pytest.approx(low * factor / costs.fn, rel=1e-9)


def test_ranges_remain():
    costs = CostMatrix(fp=(2, 8), fn="amount", tn=1)
    resolved = costs.of({"amount": [5.0, 7.0, 9.0]})
    for other in (resolved, resolved.rows([0, 1]), resolved.averaged(), resolved.aligned(["n", "y"])):
        assert other.ranges == {"fp": (2.0, 8.0)}
    assert resolved.reduced().ranges == {"fp": (1.0, 7.0)}
    assert resolved.reduced().fp == 3.0
    benefits = CostMatrix(fp=2, fn=(3, 9), tp=(-5, -1))
    assert benefits.reduced().ranges == {"fn": (4.0, 14.0)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CostMatrix(fp=1, fn=(20, 5)), "a range of fn goes from a low cost to a high one"),
        (lambda: CostMatrix(fp=1, fn=(1, np.inf)), "both finite"),
        (lambda: CostMatrix(fp=1, fn=(1, 9), tp=2), "fn must not cost less than tp anywhere in its range, got fn from"),
        (lambda: CostMatrix(fp=3, fn=9, tn=(1, 4)), "fp must not cost less than tn anywhere"),
        (lambda: CostMatrix(fp=[3, 5], fn=9, tn=(1, 4)), "got fp from 3 and tn up to 4"),
        (lambda: CostMatrix(fp=1, fn=(-3, 3)), "fn must cost more than tp"),
        (
            lambda: CostMatrix.from_dict({"rows": "predicted", "costs": [[0, 1], [1, 0]], "ranges": {"up": [1, 2]}}),
            "ranges of costs are written as",
        ),
    ],
)
def test_bad_ranges_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# mean costs of errors, and weights of samples


@given(COSTS, st.data())
def test_means_and_weights_over_the_samples_that_can_pay(library, fn, data):
    n = len(fn)
    fp = data.draw(st.lists(st.sampled_from([0.0, 1.0, 7.0]), min_size=n, max_size=n).filter(any))
    y = data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    costs = CostMatrix(fp=library.asarray(np.array(fp)), fn=library.asarray(np.array(fn)))
    of_fn = [cost for cost, label in zip(fn, y, strict=True) if label == 1] or fn
    of_fp = [cost for cost, label in zip(fp, y, strict=True) if label == 0] or fp
    labels = library.asarray(np.array(y))
    if sum(of_fn) > 0 and sum(of_fp) > 0:
        mean = costs.averaged(labels)
        assert mean.fn == pytest.approx(sum(of_fn) / len(of_fn))
        assert mean.fp == pytest.approx(sum(of_fp) / len(of_fp))
    else:
        with pytest.raises(ValueError, match="must cost more"):
            costs.averaged(labels)
    own = [(fn[i], of_fn) if y[i] else (fp[i], of_fp) for i in range(n)]
    by_hand = [cost * len(all_) / sum(all_) if sum(all_) > 0 else 1.0 for cost, all_ in own]
    np.testing.assert_allclose(library.to_numpy(costs.row_weights(labels)), by_hand)


def test_weights_use_reduced_costs_and_are_one_for_class_wide_ones():
    costs = CostMatrix(fp=[2.0, 3.0, 9.0], fn=8, tn=[1.0, 1.0, 8.0])
    assert costs.row_weights([0, 0, 1]).tolist() == pytest.approx([1 / 1.5, 2 / 1.5, 1])
    assert CostMatrix(fp=1, fn=8).row_weights([0, 1, 1]).tolist() == [1, 1, 1]
    assert CostMatrix(fp=1, fn=8).averaged([0, 1]) == CostMatrix(fp=1, fn=8)
    with pytest.raises(ValueError, match="belong to 3 samples, got 2"):
        costs.averaged([0, 1])
    with pytest.raises(ValueError, match="class numbers from 0 to 1"):
        costs.row_weights([0, 1, 2])


def test_means_and_weights_of_three_classes(library):
    rng = np.random.default_rng(0)
    table = rng.lognormal(size=(40, 3, 3)) + 1
    table[:, range(3), range(3)] = rng.random((40, 3))
    y = rng.integers(0, 3, 40)
    costs = CostMatrix.from_array(library.asarray(table), rows="predicted")
    mean = costs.averaged(library.asarray(y)).to_array()
    np.testing.assert_allclose(mean, np.stack([table[y == j][:, :, j].mean(0) for j in range(3)], axis=1))
    stake = np.array([(table[i, :, y[i]] - table[i, y[i], y[i]]).sum() for i in range(40)])
    by_hand = stake / np.array([stake[y == j].mean() for j in range(3)])[y]
    np.testing.assert_allclose(library.to_numpy(costs.row_weights(library.asarray(y))), by_hand)
