import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, log_loss

from adacsl import CostMatrix
from adacsl.experiments.deciding import Scored, at_ratio, decide, fit_calibrator, mean_ratio, measure, scale_misses

COSTS = CostMatrix(fp=1, fn=8)


def scored(n=400, seed=0, costs=COSTS, sharpen=1.0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 2.0, n)
    y = (rng.random(n) < p).astype(np.int64)
    y[:2] = 0, 1
    odds = (p / (1 - p)) ** sharpen
    return Scored(odds / (1 + odds), y, costs)


@pytest.mark.parametrize("rule", ["half", "bayes", "tuned", "calibrated"])
def test_decisions_follow_from_the_stored_scores(rule):
    decided = decide(rule, scored(seed=1), scored(seed=2))
    assert decided.scores.dtype == np.float32
    assert np.array_equal(decided.decisions, decided.scores.astype(float) > decided.threshold)


def test_half_is_blind_and_bayes_is_not():
    test = scored()
    assert decide("half", test, None).threshold == 0.5
    assert decide("bayes", test, None).threshold == COSTS.threshold


def test_tuned_is_the_cheapest_of_all_cuts():
    validation = scored(seed=3, sharpen=2.0)
    found = decide("tuned", scored(seed=4), validation)
    cuts = [-1.0, *validation.scores]
    cheapest = min(COSTS.mean(validation.labels, validation.scores > cut) for cut in cuts)
    assert found.validation_cost == pytest.approx(cheapest)


def test_the_test_labels_decide_nothing():
    test, validation = scored(seed=5), scored(seed=6)
    flipped = test._replace(labels=1 - test.labels)
    for rule in ("half", "bayes", "tuned", "calibrated"):
        first, second = decide(rule, test, validation), decide(rule, flipped, validation)
        assert np.array_equal(first.decisions, second.decisions)


def test_rows_with_costs_have_thresholds_of_their_own():
    amounts = np.linspace(0.5, 50, 400)
    test = scored(costs=CostMatrix(fp=1.0, fn=amounts))
    decided = decide("bayes", test, None)
    assert decided.threshold is None
    # one by one: positive where it is expected to be cheaper
    expected = [s * amount > (1 - s) for s, amount in zip(decided.scores.astype(float), amounts, strict=True)]
    assert decided.decisions.tolist() == expected


@pytest.mark.parametrize("rule", ["tuned", "calibrated"])
def test_tuning_needs_validation_rows(rule):
    with pytest.raises(ValueError, match="needs validation rows"):
        decide(rule, scored(), None)


@pytest.mark.parametrize("rule", ["negative", "positive"])
def test_constants_decide_the_same_about_all(rule):
    decided = decide(rule, scored(), None)
    assert set(decided.decisions.tolist()) == {rule == "positive"}
    assert np.array_equal(decided.decisions, decided.scores > decided.threshold)


def test_measures_agree_with_scikit_learn():
    test = scored(seed=7)
    decided = decide("bayes", test, None)
    found = measure(decided, test)
    tn, fp, fn, tp = confusion_matrix(test.labels, decided.decisions).ravel()
    assert (found["tn"], found["fp"], found["fn"], found["tp"]) == (tn, fp, fn, tp)
    assert found["cost"] == pytest.approx((fp + 8 * fn) / 400)
    best = min(8 * (tp + fn), tn + fp)
    assert found["normalized_cost"] == pytest.approx((fp + 8 * fn) / best)
    assert found["savings"] == pytest.approx(1 - (fp + 8 * fn) / best)


def test_one_class_among_the_test_rows_is_no_accident():
    test = scored()._replace(labels=np.zeros(400, np.int64))
    found = measure(decide("bayes", test, None), test)
    assert math.isnan(found["normalized_cost"])
    assert found["fn"] == 0


@pytest.mark.parametrize("sharpen", [0.3, 3.0])
def test_calibration_mends_scores_that_are_too_sure_or_too_shy(sharpen):
    validation, fresh = scored(3000, 1, sharpen=sharpen), scored(3000, 2, sharpen=sharpen)
    calibrate = fit_calibrator(validation.scores, validation.labels)
    assert log_loss(fresh.labels, calibrate(fresh.scores)) < log_loss(fresh.labels, fresh.scores) - 0.01


def test_calibration_leaves_good_scores_nearly_alone():
    validation, fresh = scored(3000, 1), scored(3000, 2)
    calibrate = fit_calibrator(validation.scores, validation.labels)
    assert np.abs(calibrate(fresh.scores) - fresh.scores).max() < 0.1


def test_too_few_rows_to_calibrate_leave_the_scores_as_they_are():
    validation = scored(12)
    assert np.array_equal(fit_calibrator(validation.scores, validation.labels)(validation.scores), validation.scores)


def test_saturated_scores_can_be_calibrated():
    y = np.tile([0, 1], 50)
    calibrate = fit_calibrator(y.astype(float), y)
    assert np.isfinite(calibrate(np.asarray([0.0, 0.5, 1.0]))).all()


@given(ratio=st.floats(1e-6, 1e6), fp=st.floats(1e-6, 1e6), fn=st.floats(1e-6, 1e6))
def test_a_ratio_is_met_by_moving_the_price_of_a_miss(ratio, fp, fn):
    costs = at_ratio(CostMatrix(fp=fp, fn=fn), ratio)
    assert costs.fp == fp
    assert mean_ratio(costs) == pytest.approx(ratio, rel=2e-5)


def test_a_ratio_of_row_costs_is_that_of_the_means():
    costs = at_ratio(CostMatrix(fp=2.0, fn=np.asarray([1.0, 3.0]), tp=0.5), 4.0)
    assert mean_ratio(costs) == pytest.approx(4.0)
    assert costs.fn == pytest.approx(0.5 + np.asarray([0.5, 2.5]) * 8 / 1.5)


def test_ratio_none_and_factor_one_change_nothing():
    assert at_ratio(COSTS, None) is COSTS
    assert scale_misses(COSTS, 1.0) is COSTS


def test_a_ratio_near_the_own_one_counts():
    assert at_ratio(COSTS, 8.2).fn == pytest.approx(8.2)


def test_calibrated_scores_are_those_of_the_calibrator():
    validation, test = scored(3000, 1, sharpen=3.0), scored(500, 2, sharpen=3.0)
    decided = decide("calibrated", test, validation)
    expected = fit_calibrator(validation.scores, validation.labels)(test.scores)
    assert decided.scores == pytest.approx(expected, abs=1e-6)
    assert np.abs(decided.scores - test.scores).max() > 0.05
