"""The controller of K classes: two classes are K = 2 of the same rule; three against the definition."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import ControllerStep
from adacsl.thresholds import find_multipliers

THREE = CostMatrix.from_array([[0, 5, 2], [1, 0, 3], [4, 1, 0]], rows="predicted")


def recorded(k, n=400, seed=0):
    """Return scores of a network with a wrong class prior, and labels."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(k), n)
    p = q * np.exp(rng.normal(size=k))
    cumulated = np.cumsum(p / p.sum(1, keepdims=True), axis=1)
    return q, (rng.random((n, 1)) > cumulated[:, :-1]).sum(1)


def decided(costs, weights, multipliers, q):
    return np.argmin((q * multipliers / weights) @ costs.reduced().to_array().T, axis=1)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6), fn=st.floats(0.3, 20.0), target_threshold=st.sampled_from([0.5, 0.2, "bayes",
    "middle"]),
    damping=st.sampled_from([1.0, 0.5]),
)  # fmt: skip
def test_two_classes_are_the_same_rule_with_one_lambda(seed, fn, target_threshold, damping):
    # an irrational cost: thresholds on both sides of T' never cost the same
    costs = CostMatrix(fp=1.0, fn=fn * np.sqrt(2.0))
    controller = AdaCSLController(
        costs, target_threshold=target_threshold, update="odds", damping=damping, bounds=(1e-9, 1e9)
    )
    lambdas = np.ones(2)
    for epoch in range(3):
        q, y = recorded(2, seed=seed + epoch)
        q[:, 0] = 1.0 - q[:, 1]
        result = find_multipliers(q, y, costs, weights=controller.base_weights)
        lambdas = lambdas * result.values**damping
        step = controller.step(q[:, 1], y)
        assert step.factor == pytest.approx((result.values[0] / result.values[1]) ** damping, rel=1e-9)
        assert step.cost == pytest.approx(result.start_cost, rel=1e-12)
    np.testing.assert_allclose(controller.lambdas, lambdas, rtol=1e-9)
    assert controller.lambda_ == pytest.approx(lambdas[0] / lambdas[1], rel=1e-9)
    np.testing.assert_allclose(controller.weights, [controller.weight, 1.0])


@pytest.mark.parametrize("target_threshold", ["bayes", "middle", "half"])
def test_a_step_multiplies_by_the_optimal_multipliers(target_threshold):
    q, y = recorded(3)
    controller = AdaCSLController(THREE, target_threshold=target_threshold, damping=0.5)
    w = controller.base_weights
    step = controller.step(q, y)
    assert isinstance(step, ControllerStep)
    mu = np.asarray(step.multipliers)
    assert THREE.mean(y, decided(THREE, w, mu, q)) < step.cost
    assert step.cost == pytest.approx(THREE.mean(y, decided(THREE, w, np.ones(3), q)))
    np.testing.assert_allclose(step.lambdas, mu**0.5 / np.prod(mu**0.5) ** (1 / 3), rtol=1e-12)
    np.testing.assert_allclose(controller.weights, step.lambdas * w, rtol=1e-12)
    again = controller.step(q, y)
    np.testing.assert_allclose(again.lambdas, mu / np.prod(mu) ** (1 / 3), rtol=1e-9)


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10**6), k=st.integers(3, 6), n_standard_errors=st.sampled_from([0.0, 1.0]))
def test_lambdas_have_a_geometric_mean_of_one_and_keep_their_bounds(seed, k, n_standard_errors):
    q, y = recorded(k, 120, seed)
    matrix = np.random.default_rng(seed).lognormal(0, 1.5, (k, k)) * (1 - np.eye(k))
    costs = CostMatrix.from_array(matrix, rows="predicted")
    free, bound, usual = (
        AdaCSLController(costs, n_standard_errors=n_standard_errors, bounds=b)
        for b in ((1e-30, 1e30), (0.5, 2.0), None)
    )
    for _ in range(3):
        assert np.prod(free.step(q, y).lambdas) == pytest.approx(1.0, rel=1e-6)
        bound.step(q, y)
        usual.step(q, y)
        inside = np.asarray(free.lambdas)
        if np.all((inside > 1e-3) & (inside < 1e3)):
            np.testing.assert_array_equal(usual.lambdas, inside)
        assert np.all((usual.lambdas >= 1e-3) & (usual.lambdas <= 1e3))
    assert np.all(np.isfinite(free.weights))
    assert free.lambdas.shape == free.base_weights.shape == (k,)
    assert np.all((bound.lambdas >= 0.5) & (bound.lambdas <= 2.0))
    before = bound.lambdas
    assert bound.step(q, y, adapt=False).lambdas == tuple(before)  # measuring adapts nothing, at a bound neither
    np.testing.assert_array_equal(bound.lambdas, before)
    still = AdaCSLController(costs, bounds=(1.0, 1.0))
    still.step(q, y)
    np.testing.assert_array_equal(still.weights, still.base_weights)


def test_weights_before_any_step():
    np.testing.assert_array_equal(AdaCSLController(THREE).weights, np.ones(3))
    half = np.asarray([2.5, 3.0, 2.5])  # what an error about each class costs in the mean
    np.testing.assert_allclose(AdaCSLController(THREE, target_threshold=0.5).weights, half / np.prod(half) ** (1 / 3))
    np.testing.assert_allclose(
        AdaCSLController(THREE, target_threshold="middle").weights ** 2,
        AdaCSLController(THREE, target_threshold="half").weights,
    )


def test_corrected_scores_lead_to_the_same_decisions():
    q, _ = recorded(3)
    for target_threshold in ("bayes", "middle", "half"):
        controller = AdaCSLController(THREE, target_threshold=target_threshold)
        proba = controller.correct(q)
        np.testing.assert_allclose(proba.sum(1), 1.0)
        np.testing.assert_array_equal(THREE.decide(proba), decided(THREE, controller.base_weights, np.ones(3), q))


def test_a_saved_state_continues():
    q, y = recorded(3)
    first = AdaCSLController(THREE, damping=0.5, n_standard_errors=0.5)
    first.step(q, y)
    state = json.loads(json.dumps(first.state_dict()))
    second = AdaCSLController(THREE, damping=0.5, n_standard_errors=0.5)
    second.load_state_dict(state)
    assert second.history == first.history
    assert second.step(q, y) == first.step(q, y)
    assert list(first.to_frame().columns) == ["lambdas", "multipliers", "weights", "cost", "converged"]
    for damage in (1.0, [1.0, 1.0], [1.0, True, 1.0], [1.0, -1.0, 1.0], "x"):
        with pytest.raises(ValueError, match="the saved lambda must be 3 numbers"):
            second.load_state_dict(state | {"lambda": damage})
    with pytest.raises(ValueError, match="the saved history cannot be read"):
        second.load_state_dict(state | {"history": [{"lambdas": [1.0]}]})
    with pytest.raises(ValueError, match="saved with costs"):
        AdaCSLController(
            CostMatrix.from_array(1 - np.eye(3), rows="actual"), damping=0.5, n_standard_errors=0.5
        ).load_state_dict(state)


def test_measuring_changes_nothing():
    q, y = recorded(3)
    controller = AdaCSLController(THREE)
    seen = controller.step(q, y, adapt=False)
    assert seen.lambdas == (1.0, 1.0, 1.0)
    assert max(seen.multipliers) > 1.0
    assert controller.history == ()


def test_a_class_may_be_absent_but_not_all_but_one():
    q, y = recorded(3)
    some = y != 1
    step = AdaCSLController(THREE).step(q[some], y[some])
    assert np.all(np.isfinite(step.lambdas))
    with pytest.raises(ValueError, match=r"at least two classes in the validation set, but all .* labels are 2"):
        AdaCSLController(THREE).step(q[y == 2], y[y == 2])
    with pytest.raises(ValueError, match="at least two classes"):
        AdaCSLController(THREE).step(q, y, sample_weight=(y == 0).astype(float))


@pytest.mark.parametrize(
    ("name", "instead"), [("lambda_", "lambdas"), ("weight", "weights"), ("base_weight", "base_weights")]
)
def test_numbers_of_two_classes_are_refused(name, instead):
    with pytest.raises(ValueError, match=f"{name} is for two classes, this controller has 3: read {instead}"):
        getattr(AdaCSLController(THREE), name)


def test_wrong_scores():
    q, y = recorded(3)
    with pytest.raises(ValueError, match=r"shape \(n, 3\), got \(400, 2\)"):
        AdaCSLController(THREE).step(q[:, :2], y)
    with pytest.raises(ValueError, match="from 0 to 2"):
        AdaCSLController(THREE).step(q, y + 1)
    assert "lambdas=[1, 1, 1]" in repr(AdaCSLController(THREE))
