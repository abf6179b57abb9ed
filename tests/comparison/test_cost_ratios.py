"""Costs at other ratios, and what decisions cost: counted by scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from adacsl import CostMatrix
from adacsl.comparison.fits import measure, scale_fn
from adacsl.comparison.protocol import at_ratio, mean_ratio

COSTS = CostMatrix(fp=1, fn=8)


@given(ratio=st.floats(1e-6, 1e6), fp=st.floats(1e-6, 1e6), fn=st.floats(1e-6, 1e6))
def test_a_ratio_is_met_by_moving_the_cost_of_a_false_negative(ratio, fp, fn):
    costs = at_ratio(CostMatrix(fp=fp, fn=fn), ratio)
    assert costs.fp == fp
    assert mean_ratio(costs) == pytest.approx(ratio, rel=2e-5)


def test_a_ratio_of_sample_costs_is_that_of_the_means():
    costs = at_ratio(CostMatrix(fp=2.0, fn=np.asarray([1.0, 3.0]), tp=0.5), 4.0)
    assert mean_ratio(costs) == pytest.approx(4.0)
    assert costs.fn == pytest.approx(0.5 + np.asarray([0.5, 2.5]) * 8 / 1.5)


def test_ratio_none_and_factor_one_change_nothing():
    assert at_ratio(COSTS, None) is COSTS
    assert scale_fn(COSTS, 1.0) is COSTS


def test_a_ratio_near_the_own_one_counts():
    assert at_ratio(COSTS, 8.2).fn == pytest.approx(8.2)


def test_measures_agree_with_scikit_learn():
    rng = np.random.default_rng(7)
    labels, decided = rng.integers(0, 2, 400), rng.random(400) > 0.4
    result = measure(decided, labels, COSTS)
    tn, fp, fn, tp = confusion_matrix(labels, decided).ravel()
    assert (result["tn"], result["fp"], result["fn"], result["tp"]) == (tn, fp, fn, tp)
    assert result["cost"] == pytest.approx((fp + 8 * fn) / 400)
    best = min(8 * (tp + fn), tn + fp)
    assert result["normalized_cost"] == pytest.approx((fp + 8 * fn) / best)
    assert result["savings"] == pytest.approx(1 - (fp + 8 * fn) / best)


def test_one_class_among_the_test_samples_is_no_accident():
    result = measure(np.ones(40, dtype=bool), np.zeros(40, dtype=np.int64), COSTS)
    assert math.isnan(result["normalized_cost"])
    assert result["fn"] == 0
