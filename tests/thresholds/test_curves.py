"""Curves over all cost ratios against integration by hand, scikit-learn, scipy and torchmetrics."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from sklearn.metrics import brier_score_loss
from torchmetrics.functional.classification import binary_calibration_error

from adacsl.adaptive import QuantileBins, UniformBins
from adacsl.metrics import calibration_error
from adacsl.thresholds import brier_curve, decision_curve, optimal_cost_curve


def case(seed=0, n=200, digits=2):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(0.8, 1.4, n), digits)
    return scores, (rng.random(n) < 0.1 + 0.7 * scores).astype(int)


ROWS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.5, 0.9, 1.0]), st.booleans()), min_size=1, max_size=12)


def area_under(curve):
    x, y = np.asarray(curve.x), np.asarray(curve.y)
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def pooled_brier(scores, labels):
    """Brier score of the best monotone calibration: pool adjacent violators over distinct scores."""
    _, number = np.unique(scores, return_inverse=True)
    sizes = np.bincount(number)
    share = np.bincount(number, weights=labels) / sizes
    calibrated = isotonic_regression(share, weights=sizes).x[number]
    return float(np.mean((calibrated - labels) ** 2))


@given(ROWS)
def test_brier_curve_area_is_the_brier_score(rows):
    scores, labels = np.array([s for s, _ in rows]), np.array([int(y) for _, y in rows])
    curve = brier_curve(scores, labels)
    brier = np.mean((scores - labels) ** 2)
    assert curve.area == pytest.approx(brier)
    assert area_under(curve) == pytest.approx(brier, abs=1e-12)


def test_brier_curve_equals_sklearn_and_deciding_by_hand(library):
    scores, labels = case()
    curve = brier_curve(library.asarray(scores), library.asarray(labels))
    assert curve.area == pytest.approx(brier_score_loss(labels, scores))
    x, y = library.to_numpy(curve.x), library.to_numpy(curve.y)
    for c in (0.013, 0.2501, 0.777):
        k = np.searchsorted(x, c)
        on_curve = y[k - 1] + (y[k] - y[k - 1]) * (c - x[k - 1]) / (x[k] - x[k - 1])
        decided = scores > c
        by_hand = 2 * (c * np.sum(decided & (labels == 0)) + (1 - c) * np.sum(~decided & (labels == 1))) / len(scores)
        assert on_curve == pytest.approx(by_hand)


@given(ROWS)
def test_optimal_cost_curve_area_is_the_brier_score_after_isotonic_calibration(rows):
    scores, labels = np.array([s for s, _ in rows]), np.array([int(y) for _, y in rows])
    curve = optimal_cost_curve(scores, labels)
    assert curve.area == pytest.approx(pooled_brier(scores, labels), abs=1e-12)
    assert area_under(curve) == pytest.approx(curve.area, abs=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_optimal_cost_curve_is_the_minimum_over_all_thresholds(library, seed):
    scores, labels = case(seed)
    curve = optimal_cost_curve(library.asarray(scores), library.asarray(labels))
    assert curve.area == pytest.approx(pooled_brier(scores, labels))
    assert curve.area <= brier_curve(scores, labels).area
    decided = scores > np.append(np.unique(scores), -1.0)[:, None]
    fps, fns = (decided & (labels == 0)).mean(axis=1), (~decided & (labels == 1)).mean(axis=1)
    for c in np.linspace(0, 1, 23):
        by_hand = 2 * (c * fps + (1 - c) * fns).min()
        assert np.interp(c, library.to_numpy(curve.x), library.to_numpy(curve.y)) == pytest.approx(by_hand)


@pytest.mark.parametrize("label", [0, 1])
def test_curves_of_one_class_are_free_at_best(label):
    curve = optimal_cost_curve([0.2, 0.4, 0.4], [label] * 3)
    assert curve.area == 0
    assert np.all(np.asarray(curve.y) == 0)


def test_decision_curve_equals_the_definition(library):
    scores, labels = case(1)
    at = np.array([0.0, 0.05, 0.3, 0.3001, 0.9])
    curve = decision_curve(library.asarray(scores), library.asarray(labels), at)
    n, positives = len(scores), labels.sum()
    for t, benefit, everyone in zip(
        at, library.to_numpy(curve.net_benefit), library.to_numpy(curve.treat_all), strict=True
    ):
        treated = scores > t
        by_hand = (np.sum(treated & (labels == 1)) - np.sum(treated & (labels == 0)) * t / (1 - t)) / n
        assert benefit == pytest.approx(by_hand)
        assert everyone == pytest.approx((positives - (n - positives) * t / (1 - t)) / n)


def test_decision_curve_has_99_thresholds_by_default():
    curve = decision_curve(*case())
    np.testing.assert_allclose(curve.thresholds, np.arange(1, 100) / 100)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("bins", [10, 15])
def test_calibration_error_equals_torchmetrics(library, norm, bins):
    scores, labels = case(2, n=2000, digits=12)
    expected = binary_calibration_error(torch.tensor(scores), torch.tensor(labels), n_bins=bins, norm=f"l{norm}")
    result = calibration_error(library.asarray(scores), library.asarray(labels), partition=UniformBins(bins), norm=norm)
    assert result.error == pytest.approx(expected.item(), rel=1e-6)


def test_calibration_bins_equal_a_loop():
    scores, labels = case(3)
    result = calibration_error(scores, labels, partition=QuantileBins(7))
    numbers = QuantileBins(7)(scores)
    for k, m in enumerate(np.unique(numbers)):
        own = numbers == m
        assert result.sizes[k] == own.sum()
        assert result.mean_score[k] == pytest.approx(scores[own].mean())
        assert result.positive_share[k] == pytest.approx(labels[own].mean())


def test_calibrated_scores_have_no_error():
    scores = np.repeat(np.arange(11) / 10, 10)
    labels = np.concatenate([[1] * k + [0] * (10 - k) for k in range(11)])
    assert calibration_error(scores, labels, partition=UniformBins(10)).error == pytest.approx(0, abs=0.02)
    assert calibration_error(1 - scores, labels, partition=UniformBins(11)).error > 0.5


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_scores_are_measured_in_wide_floats(dtype):
    scores, labels = case(4)
    narrow = scores.astype(dtype)
    wide = narrow.astype(np.float64)
    assert brier_curve(narrow, labels).area == pytest.approx(brier_curve(wide, labels).area, rel=1e-12)
    assert optimal_cost_curve(narrow, labels).area == pytest.approx(optimal_cost_curve(wide, labels).area, rel=1e-12)
    assert calibration_error(narrow, labels).error == pytest.approx(calibration_error(wide, labels).error, rel=1e-3)


@pytest.mark.parametrize("function", [brier_curve, optimal_cost_curve, decision_curve, calibration_error])
@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([0.1, np.nan], [0, 1], "scores must be finite"),
        ([0.1, 2.0], [0, 1], r"probabilities in \[0, 1\]"),
        ([0.1, 0.2], [0, 3], "labels must be 0 or 1"),
        ([0.1, 0.2], [0], "labels has 1 entries"),
        ([], [], "scores is empty"),
        ([[0.1], [0.2]], [0, 1], "scores must be one-dimensional"),
    ],
)
def test_curves_refuse(function, scores, labels, message):
    with pytest.raises(ValueError, match=message):
        function(scores, labels)


@pytest.mark.parametrize("at", [[1.0], [-0.1, 0.5], [0.5, np.nan]])
def test_decision_curve_refuses_thresholds_outside(at):
    with pytest.raises(ValueError, match=r"thresholds of a decision curve must lie in \[0, 1\)"):
        decision_curve([0.1, 0.2], [0, 1], at)


def test_calibration_error_refuses_other_norms():
    with pytest.raises(ValueError, match="norm must be 1 or 2, got 3"):
        calibration_error([0.1, 0.2], [0, 1], norm=3)
