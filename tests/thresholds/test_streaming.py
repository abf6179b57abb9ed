"""Measured batch by batch: what all rows in memory say."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from adacsl import CostMatrix, cost_curve
from adacsl.metrics.bins import Quantile
from adacsl.metrics.calibration import calibration_error
from adacsl.metrics.intervals import mean_interval
from adacsl.thresholds.streaming import Batch, RunningCalibration, RunningMean, tune_batches
from adacsl.thresholds.uncertainty import tune_threshold

N = 20_000


def drawn(kind="float64"):
    rng = np.random.default_rng(0)
    labels = (rng.random(N) < 0.3).astype(int)
    scores = 1 / (1 + np.exp(-(rng.normal(size=N) * 1.3 + 2 * labels - 1.5)))
    return scores.astype(kind), labels, rng


def cut_into(parts, batch):
    return [batch.rows(rows) for rows in np.array_split(np.arange(len(batch.scores)), parts)]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("class-wide", "float32"),
        pytest.param("rows", "float64", marks=pytest.mark.weekly),
        pytest.param("weights", "float64", marks=pytest.mark.weekly),
        ("rows and weights", "float32"),
    ],
)
def test_a_threshold_of_batches_is_that_of_all_rows(given, kind):
    scores, labels, rng = drawn(kind)
    each = {"fp": rng.lognormal(size=N), "fn": 3 + rng.lognormal(size=N), "tp": 0.5}
    costs = CostMatrix(**each) if "rows" in given else CostMatrix(fp=1, fn=4, tn=0.25)
    weight = rng.integers(0, 4, N).astype(float) if "weights" in given else None
    found, curve = tune_batches(partial(cut_into, 7, Batch(scores, labels, costs, weight)))
    known = tune_threshold(scores, labels, costs, sample_weight=weight)
    assert_allclose(found.best, known.best, rtol=1e-12)
    width = known.threshold.high - known.threshold.low
    assert_allclose(found.threshold[1:], known.threshold[1:], atol=0.35 * width)
    # one halving for many: chance moves the estimate by a part of its own interval
    assert_allclose(found.cost, known.cost, atol=0.25 * (known.cost.high - known.cost.low), rtol=0)
    exact = cost_curve(scores, labels, costs, sample_weight=weight)
    at = np.searchsorted(exact.thresholds, curve.thresholds, side="right") - 1
    assert_allclose(curve.costs, exact.costs[np.maximum(at, 0)], rtol=1e-9)


@pytest.mark.parametrize("labels", [[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
def test_without_two_rows_of_each_class_no_cost_is_expected(labels):
    batch = Batch(np.full(4, 0.5), np.asarray(labels), CostMatrix(fp=1, fn=4))
    found, _ = tune_batches(lambda: [batch])
    assert found.cost is None
    assert found.best == tune_threshold(batch.scores, batch.labels, batch.costs).best


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_running_mean_has_the_bootstraps_interval(weighted, grouped):
    rng = np.random.default_rng(5)
    groups = rng.integers(0, 900, 20_000) if grouped else None
    values = 1e6 + rng.exponential(size=20_000) + (0 if groups is None else groups % 7)
    weight = rng.random(20_000) if weighted else None
    known = mean_interval(values, weight, groups=groups, resamples=2000)
    running = RunningMean()
    for rows in np.array_split(np.arange(len(values)), 9):
        running.update(values[rows], *(None if column is None else column[rows] for column in (weight, groups)))
        running.interval()  # asking changes nothing
    found = running.interval()
    assert found.estimate == pytest.approx(known.estimate, rel=1e-12)
    assert_allclose(found[1:], known[1:], atol=0.06 * (known.high - known.low), rtol=0)


def test_a_running_mean_of_equal_values_is_sure():
    running = RunningMean()
    running.update(np.full(1000, 0.1))
    running.update(np.empty(0))
    assert running.interval() == pytest.approx((0.1, 0.1, 0.1))


@pytest.mark.parametrize("skewed", [1, 6])
def test_calibration_of_batches(skewed):
    scores, labels, _ = drawn()
    scores = scores**skewed
    running = RunningCalibration()
    for rows in np.array_split(np.arange(N), 5):
        running.update(scores[rows], labels[rows])
    known = calibration_error(scores, labels, partition=Quantile(15)).error
    assert running.error() == pytest.approx(known, abs=1e-3)


def test_calibration_of_few_distinct_scores_is_exact():
    scores, labels = np.repeat([0.0, 0.25, 0.5, 1.0], 25), np.tile([0, 0, 1, 1, 1], 20)
    running = RunningCalibration()
    running.update(scores, labels)
    assert running.error() == pytest.approx(calibration_error(scores, labels, partition=Quantile(15)).error)
