"""Checks of fitted models: planted faults are found, a sound model raises nothing, saved models are looked at alike."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from adacsl import AdaCSLClassifier, AdaCSLController, CostMatrix, CostSensitiveClassifier, load, method
from adacsl.estimators.model_checks import chance_error, still_falling
from adacsl.metrics import Interval, calibration_error
from adacsl.metrics.bins import QuantileBins
from adacsl.metrics.intervals import saving_over_constant
from adacsl.neural import NeuralLearner

COSTS = CostMatrix(fp=1, fn=8)


def drawn(n=600, signal=1.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (signal * X[:, 0] + rng.logistic(size=n) > 1).astype(int)


def logistic(costs=COSTS, **settings):
    return CostSensitiveClassifier(costs, learner=LogisticRegression(), random_state=0, **settings)


def test_sound_models_raise_nothing():
    X, y = load_breast_cancer(return_X_y=True)
    assert str(logistic().fit(X, 1 - y).check()) == "no findings"
    made = logistic().fit(*drawn())
    assert made.estimated_cost_.high > 0.68  # the constant's cost: pair by pair the difference is clear all the same
    assert not made.check()
    assert not method("always-positive", COSTS).fit(*drawn()).check()  # no model, as was asked for


def test_features_that_carry_no_information():
    X, y = drawn(signal=0.0)
    made = logistic(CostMatrix(fp=1, fn=3), pos_label="bad").fit(X, np.where(y == 1, "bad", "good"))
    (result,) = made.check(ignore=["threshold-at-border"])
    assert result.code == "no-better-than-constant"
    made.saving_ = Interval(0.1, -0.01, 0.21)  # that may be chance
    assert "no-better-than-constant" in made.check().codes
    made.saving_ = Interval(0.1, 0.01, 0.19)
    assert "no-better-than-constant" not in made.check().codes
    share = np.mean(y)
    always, cost = ("good", 3 * share) if 3 * share < 1 - share else ("bad", 1 - share)
    assert f"and about {cost:.4g} if {always!r} is decided for every sample" in result.text


def test_costs_that_leave_no_choice():
    X, y = drawn(signal=0.3)
    result = logistic(CostMatrix(fp=1, fn=5000)).fit(X, y).check()
    assert "threshold-at-border" in result.codes
    assert "all 600 held-out samples are predicted 1 (the threshold" in str(result)
    three = logistic(CostMatrix.from_array([[0, 1, 1], [900, 0, 900], [900, 900, 0]], rows="predicted"))
    assert "threshold-at-border" in three.fit(X, np.arange(600) % 3).check().codes


def test_probabilities_that_are_too_sure():
    X, y = drawn()
    tree = CostSensitiveClassifier(COSTS, learner=DecisionTreeClassifier(random_state=0), random_state=0).fit(X, y)
    result = tree.check(ignore=["no-better-than-constant"])
    assert result.codes == ("badly-calibrated",)
    assert f"off by {tree.calibration_error_:.3f}" in str(result)


def net(epochs, **settings):
    learner = NeuralLearner(epochs=epochs, patience=None)
    return AdaCSLClassifier(COSTS, learner=learner, **({"random_state": 0} | settings))


@pytest.mark.parametrize("controller", [{"bounds": (0.95, 1.05)}, AdaCSLController(COSTS, bounds=(0.95, 1.05))])
def test_a_lambda_at_its_bound_also_after_loading(controller, tmp_path):
    made = net(4, controller=controller).fit(*drawn(300))
    assert "lambda-at-bound" in made.check().codes
    made.save(tmp_path / "model")
    assert load(tmp_path / "model").check() == made.check()
    assert "lambda-at-bound" not in made.set_params(controller={"bounds": (0.001, 1000)}).check().codes


def test_training_that_ended_too_soon():
    X, y = drawn(signal=4.0)
    slow = {"epochs": 3, "patience": None, "learning_rate": 2e-3, "schedule": "constant"}
    made = AdaCSLClassifier(
        COSTS, learner=NeuralLearner(**slow), controller={"bounds": (1.0, 1.0)}, random_state=0
    ).fit(X, y)
    result = made.check()
    assert "stopped-early" in result.codes
    assert "still falling after 3 epochs" in str(result)
    made.leaderboard_ = pd.DataFrame({"estimator": ["a", "b", "c"], "left_out": ["", "out of time", "no package"]})
    assert "1 base estimators of the ensemble were not done in time (b)" in str(made.check())


@given(st.integers(0, 10**6), st.integers(5, 60), st.floats(0.001, 0.3))
def test_costs_that_go_up_and_down_are_not_falling(seed, epochs, noise):
    rng = np.random.default_rng(seed)
    flat = 1 + noise * rng.normal(size=epochs)
    flat[-(epochs // 5) - 1] = flat.min() - noise  # the best one was before
    assert not still_falling(flat)
    assert not still_falling(np.sort(flat))
    assert still_falling(np.linspace(1, 0.1, epochs))


@pytest.mark.parametrize("n", [150, 2000])
@pytest.mark.parametrize("shape", [(2, 2), (1, 12)])
def test_what_chance_makes_of_right_probabilities(n, shape):
    rng = np.random.default_rng(0)
    proba = rng.beta(*shape, n)
    seen = [calibration_error(proba, rng.random(n) < proba, partition=QuantileBins(15)).error for _ in range(60)]
    assert np.mean(seen) == pytest.approx(chance_error(proba), rel=0.1)
    assert max(seen) < 2 * chance_error(proba)


@given(st.integers(0, 10**6), st.integers(4, 80), st.integers(2, 4), st.booleans(), st.booleans())
def test_what_is_saved_over_a_constant_equals_counting(seed, n, k, own_costs, grouped):
    rng = np.random.default_rng(seed)
    matrices = rng.integers(1, 9, (n, k, k) if own_costs else (k, k)) * (1.0 - np.eye(k))
    costs = CostMatrix.from_array(matrices, rows="predicted")
    y, decided, groups = rng.integers(0, k, n), rng.integers(0, k, n), rng.integers(0, 1 + n // 3, n)
    table = np.broadcast_to(matrices, (n, k, k))
    paid = np.asarray([table[row, decided[row], y[row]] for row in range(n)])
    always = min(([table[row, a, y[row]] for row in range(n)] for a in range(k)), key=sum)
    saved = np.asarray(always) - paid
    units = groups if grouped else np.arange(n)
    sums = pd.Series(saved - saved.mean()).groupby(units).sum()
    error = np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / n
    result = saving_over_constant(costs, y, paid, groups=groups if grouped else None)
    np.testing.assert_allclose(result, saved.mean() + error * 1.959964 * np.asarray([0, -1, 1]), atol=1e-6)
    if not grouped:
        assert error == pytest.approx(np.std(saved, ddof=1) / np.sqrt(n))
        twice = saving_over_constant(costs, y, paid, sample_weight=np.full(n, 2.0))
        np.testing.assert_allclose(twice, result)
