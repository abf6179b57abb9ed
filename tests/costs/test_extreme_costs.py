"""Extreme numbers: costs so unequal, large or small, and targets so near 0 and 1, that rounding would decide."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adacsl import AdaCSLController, CostMatrix, find_threshold
from adacsl.adaptive import step_factor
from adacsl.adaptive.held_out import tune_cut
from adacsl.base.scores import sigmoid
from adacsl.thresholds import find_multipliers
from adacsl.torch.losses import AdaptiveCrossEntropy

COST = st.floats(-12, 12).map(lambda power: 10.0**power)
BINARY = st.integers(-40, 40).map(lambda power: 2.0**power)
ROWS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=12).filter(
    lambda rows: len({label for _, label in rows}) == 2
)


def columns(rows):
    scores, labels = zip(*rows, strict=True)
    return np.asarray(scores), np.asarray(labels)


@given(ROWS, COST, COST, BINARY, st.sampled_from(["half", "bayes", "middle"]), st.sampled_from([0.0, 2.0]))
def test_the_unit_of_money_moves_no_lambda(rows, fp, fn, scale, target_threshold, n_standard_errors):
    """Exactly, as a power of two rounds nothing."""
    scores, labels = columns(rows)
    one, other = (
        AdaCSLController(
            CostMatrix(fp=fp * by, fn=fn * by), target_threshold=target_threshold, n_standard_errors=n_standard_errors
        )
        for by in (1.0, scale)
    )
    for _ in range(3):
        steps = [controller.step(scores, labels) for controller in (one, other)]
        assert steps[0].thresholds == steps[1].thresholds
        assert (one.lambda_, one.weight) == (other.lambda_, other.weight)
        assert steps[1].cost == steps[0].cost * scale
        assert 1e-3 <= one.lambda_ <= 1e3


@given(ROWS, COST, COST, st.floats(-9, 9))
def test_the_unit_of_money_changes_no_decision(rows, fp, fn, power):
    scores, labels = columns(rows)
    costs, scaled = CostMatrix(fp=fp, fn=fn), CostMatrix(fp=fp * 10**power, fn=fn * 10**power)
    apart = np.abs(scores - costs.threshold) > 1e-12  # on the threshold itself rounding decides
    assert np.array_equal(costs.decide(scores)[apart], scaled.decide(scores)[apart])
    one, other = (find_threshold(scores, labels, each) for each in (costs, scaled))
    assert other.cost == pytest.approx(one.cost * 10**power, rel=1e-9)


@given(BINARY, st.integers(0, 99))
def test_the_unit_of_money_moves_no_multiplier(scale, seed):
    rng = np.random.default_rng(seed)
    table = 10.0 ** rng.uniform(-12, 12, (3, 3)) * (1 - np.eye(3))
    scores, labels = rng.dirichlet(np.ones(3), 20), rng.integers(0, 3, 20)
    one, other = (
        find_multipliers(scores, labels, CostMatrix.from_array(table * by, rows="predicted")) for by in (1.0, scale)
    )
    assert np.array_equal(one.values, other.values)
    assert np.isfinite(one.values).all()


@pytest.mark.parametrize(("fp", "fn"), [(1e12, 1e-12), (1e9, 1e-9), (1e100, 1e-100), (1e16, 1)])
def test_certain_positives_are_predicted_positive(fp, fn):
    costs = CostMatrix(fp=fp, fn=fn)
    assert costs.threshold < 1.0
    assert costs.decide([0.0, 0.5, 1.0]).tolist() == [0, 0, 1]
    rows = CostMatrix(fp=np.full(3, fp), fn=np.asarray([fn, fn, 0.0]))
    assert rows.decide([0.5, 1.0, 1.0]).tolist() == [0, 1, 0]  # the last one's false negative is free


@pytest.mark.parametrize(("fp", "fn"), [(1e-12, 1e12), (1e12, 1e-12), (1, 1e9), (1e9, 1)])
def test_bayes_is_plain_however_unequal_the_costs(fp, fn):
    controller = AdaCSLController(CostMatrix(fp=fp, fn=fn), target_threshold="bayes")
    assert controller.base_weight == 1.0
    assert 0.0 < controller.target_threshold < 1.0
    assert np.float32(controller.target_threshold) < 1.0


def test_a_small_probability_of_a_costly_false_negative_counts():
    costs = CostMatrix(fp=1e-12, fn=1e12)
    assert costs.decide([1e-20, 1e-26]).tolist() == [1, 0]
    assert AdaCSLController(costs, target_threshold="bayes").correct(np.asarray([1e-20, 1e-26])) == pytest.approx(
        [1e-20, 1e-26]
    )
    logits = np.asarray([-46.0, -44.0])
    _, cut = tune_cut(logits, np.asarray([0, 1]), costs, None)
    assert (sigmoid(logits - cut) > costs.threshold).tolist() == [True, True]  # false negatives are all that counts


@pytest.mark.parametrize("target_threshold", [1e-9, 1e-20])
def test_the_exact_update_has_the_right_direction_beyond_its_limits(target_threshold):
    assert step_factor(target_threshold / 2, target_threshold, update="odds") <= 1.0
    assert step_factor(target_threshold * 2, target_threshold, update="odds") >= 1.0
    assert step_factor(1 - target_threshold / 2, 1 - 1e-9, update="odds") >= 1.0


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("target_threshold", [1e-9, 1e-30, 1 - 1e-9])
def test_a_target_that_the_scores_type_cannot_hold(dtype, target_threshold):
    controller = AdaCSLController(CostMatrix(fp=1, fn=8), target_threshold=target_threshold)
    for _ in range(3):
        controller.step(np.asarray([0.0, 0.2, 0.9, 1.0], dtype=dtype), [0, 1, 0, 1])
        assert 1e-3 <= controller.lambda_ <= 1e3
        assert math.isfinite(controller.weight)


@pytest.mark.parametrize("target_threshold", [1e-9, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("update", ["exponential", "odds"])
def test_the_fastest_steps_stay_numbers(target_threshold, update):
    controller = AdaCSLController(
        CostMatrix(fp=1, fn=8), target_threshold=target_threshold, update=update, damping=2.0, bounds=(1e-30, 1e30)
    )
    for labels in ([0, 1, 1, 0], [1, 0, 0, 1]) * 3:
        controller.step([0.0, 1e-9, 1 - 1e-9, 1.0], labels)
        assert 0.0 < controller.weight < math.inf


@pytest.mark.parametrize("damping", [2.1, 10, 1e9, math.inf])
def test_steps_that_only_overshoot_are_refused(damping):
    with pytest.raises(ValueError, match="damping must be a positive number of at most 2"):
        AdaCSLController(CostMatrix(fp=1, fn=8), damping=damping)


def test_costs_beyond_all_sums_are_refused():
    rows = np.asarray([1.0, 1e101])
    for costs in ({"fp": 1e308, "fn": 1e308}, {"fp": 1, "fn": rows}, {"fp": 1, "fn": 2, "tn": -1e200}):
        with pytest.raises(ValueError, match="is too large to be added up"):
            CostMatrix(**costs)
    with pytest.raises(ValueError, match="is too large to be added up"):
        CostMatrix.from_array([[0, 1, 1], [1, 0, 1], [1e200, 1, 0]], rows="predicted")
    with pytest.raises(ValueError, match="fn is too small to compute with"):
        CostMatrix(fp=1, fn=5e-324)
    with pytest.raises(ValueError, match=r"sample_weight must be at most 1e\+100"):
        find_threshold([0.1, 0.9], [0, 1], CostMatrix(fp=1, fn=8), sample_weight=[1e308, 1e308])


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_the_largest_and_smallest_costs_add_up(size):
    costs = CostMatrix(fp=size, fn=3 * size) if size < 1 else CostMatrix(fp=size / 3, fn=size)
    labels, decided = [0, 1, 1, 0] * 25, [1, 0, 1, 0] * 25
    exact = 25 * (Fraction(costs.fp) + Fraction(costs.fn))
    assert costs.total(labels, decided) == pytest.approx(float(exact))
    assert costs.normalized(labels, decided) == pytest.approx(float(exact / 50 / Fraction(costs.fp)))
    within = find_threshold([0.2, 0.4, 0.6, 0.8] * 25, labels, costs, n_standard_errors=2.0)
    same = find_threshold([0.2, 0.4, 0.6, 0.8] * 25, labels, CostMatrix(fp=1, fn=3), n_standard_errors=2.0)
    assert within.value == same.value


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("fp", "fn"), [(1e-12, 1e12), (1e12, 1e-12)])
def test_the_loss_and_its_gradient_stay_numbers(kind, fp, fn):
    loss = AdaptiveCrossEntropy(CostMatrix(fp=fp, fn=fn))
    logits, labels = torch.tensor([-90.0, 0.0, 90.0, 90.0], dtype=kind, requires_grad=True), torch.tensor([0, 1, 0, 1])
    for _ in range(4):
        value = loss(logits, labels)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(logits.grad).all()
        assert 1e-3 <= loss.adapt(logits.detach(), labels).lambda_ <= 1e3
