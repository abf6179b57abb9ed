"""Measured batch by batch: equal to all samples in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from adacsl import CostMatrix, cost_curve
from adacsl.metrics.calibration import expected_calibration_error
from adacsl.metrics.intervals import mean_interval
from adacsl.thresholds.streaming import (
    Batch,
    RunningCalibration,
    RunningMean,
    Spool,
    summarize_thresholds,
    tune_batches,
)
from adacsl.thresholds.uncertainty import tune_threshold

N = 20_000


def drawn(kind="float64"):
    rng = np.random.default_rng(0)
    labels = (rng.random(N) < 0.3).astype(int)
    scores = 1 / (1 + np.exp(-(rng.normal(size=N) * 1.3 + 2 * labels - 1.5)))
    return scores.astype(kind), labels, rng


def split_into(parts, batch):
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
def test_a_threshold_of_batches_is_that_of_all_samples(given, kind):
    scores, labels, rng = drawn(kind)
    each = {"fp": rng.lognormal(size=N), "fn": 3 + rng.lognormal(size=N), "tp": 0.5}
    costs = CostMatrix(**each) if "rows" in given else CostMatrix(fp=1, fn=4, tn=0.25)
    weight = rng.integers(0, 4, N).astype(float) if "weights" in given else None
    result, curve = tune_batches(split_into(7, Batch(scores, labels, costs, weight)), held=0)
    known = tune_threshold(scores, labels, costs, sample_weight=weight)
    assert_allclose(result.best, known.best, rtol=1e-12)
    width = known.threshold.high - known.threshold.low
    assert_allclose(result.threshold[1:], known.threshold[1:], atol=0.35 * width)
    # one halving for many: sampling moves the estimate by a part of its own interval
    assert_allclose(result.cost, known.cost, atol=0.25 * (known.cost.high - known.cost.low), rtol=0)
    exact = cost_curve(scores, labels, costs, sample_weight=weight)
    at = np.searchsorted(exact.thresholds, curve.thresholds, side="right") - 1
    assert_allclose(curve.costs, exact.costs[np.maximum(at, 0)], rtol=1e-9)


@pytest.mark.parametrize("labels", [[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
def test_without_two_samples_of_each_class_no_cost_is_expected(labels):
    batch = Batch(np.full(4, 0.5), np.asarray(labels), CostMatrix(fp=1, fn=4))
    result, _ = tune_batches([batch], held=0)
    assert result.cost is None
    assert result.best == tune_threshold(batch.scores, batch.labels, batch.costs).best


@pytest.mark.parametrize(("weighted", "grouped"), [(False, False), (True, True)])
def test_a_running_mean_has_the_bootstraps_interval(weighted, grouped):
    rng = np.random.default_rng(5)
    groups = rng.integers(0, 900, 20_000) if grouped else None
    values = 1e6 + rng.exponential(size=20_000) + (0 if groups is None else groups % 7)
    weight = rng.random(20_000) if weighted else None
    known = mean_interval(values, weight, groups=groups, resamples=2000)
    running, held = RunningMean(held=0), RunningMean()
    for rows in np.array_split(np.arange(len(values)), 9):
        for mean in (running, held):
            mean.update(values[rows], *(None if column is None else column[rows] for column in (weight, groups)))
        running.interval()  # asking changes nothing
    assert held.interval(resamples=2000) == known
    result = running.interval()
    assert result.estimate == pytest.approx(known.estimate, rel=1e-12)
    assert_allclose(result[1:], known[1:], atol=0.06 * (known.high - known.low), rtol=0)


def test_a_running_mean_of_equal_values_is_sure():
    running = RunningMean(held=0)
    running.update(np.full(1000, 0.1))
    running.update(np.empty(0))
    assert running.interval() == pytest.approx((0.1, 0.1, 0.1))


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 7, 16, N])
@pytest.mark.parametrize("distinct", [4, 300, 0])
def test_calibration_of_batches_is_that_of_all_samples(kind, n, distinct):
    scores, labels, _ = drawn(kind)
    scores, labels = (np.ceil(scores * distinct) / distinct if distinct else scores**3)[:n].astype(kind), labels[:n]
    batches = split_into(min(n, 5), Batch(scores, labels, CostMatrix(fp=1, fn=1)))
    running = RunningCalibration()
    for batch in batches:
        running.update(batch.scores, batch.labels)
    assert running.error(batches) == pytest.approx(expected_calibration_error(scores, labels), rel=1e-9, abs=1e-15)


def test_a_spool_gives_batches_again_and_again_from_memory_and_from_a_file(monkeypatch):
    scores, labels, rng = drawn("float32")
    plain, own = CostMatrix(fp=1, fn=4, tn=0.5), CostMatrix(fp=1, fn=rng.lognormal(size=N))
    for limit in (1 << 25, 100):
        monkeypatch.setattr("adacsl.thresholds.streaming.IN_MEMORY", limit)
        for costs, weight in ((plain, None), (own, rng.random(N))):
            spool = Spool()
            for batch in split_into(3, Batch(scores, labels, costs, weight)):
                spool.add(batch)
            for _ in range(2):
                whole = Batch.joined(spool)
                assert whole.scores.dtype == np.float32
                np.testing.assert_array_equal(whole.scores, scores)
                np.testing.assert_array_equal(whole.labels, labels)
                np.testing.assert_array_equal(whole.costs.to_array(), costs.to_array())
                assert (whole.weight is None) == (weight is None)


def test_a_batch_without_weight_is_no_error():
    batch = summary_of(3)
    weight = np.where(np.arange(len(batch.labels)) < 10, 0.0, 1.0)[::-1]
    batch = batch._replace(weight=weight)
    parts = [batch.rows(rows) for rows in np.split(np.arange(len(weight)), [len(weight) - 8, len(weight) - 4])]
    assert parts[1].size == parts[2].size == 0
    for batches in (parts, parts[::-1], [parts[1], parts[0], parts[2]]):
        result, whole = summarize_thresholds(batches), summarize_thresholds([Batch.joined(batches)])
        assert result.tuned == whole.tuned


# the whole answer: it depends on the samples, and on nothing else


def summary_of(seed, *, outside=False):
    """Return random labelled scores with costs and weights of every kind, as one batch."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 400))
    labels = rng.permutation(np.arange(n) % int(rng.integers(2, 6)) == 0).astype(int)
    scores = 1 / (1 + np.exp(-(rng.normal(size=n) + labels)))
    scores = scores.round(int(rng.integers(1, 9))) * (20 if outside else 1)
    each = {"fp": rng.lognormal(size=n), "fn": 3 + rng.lognormal(size=n)}
    costs = CostMatrix(**each) if rng.random() < 0.5 else CostMatrix(fp=1, fn=float(rng.integers(1, 9)), tn=-0.25)
    weight = rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else None
    return Batch(scores, labels, costs, weight)


@pytest.mark.parametrize("seed", range(10))
def test_a_summary_does_not_depend_on_the_batches(seed):
    held = 10_000 * (seed % 2)
    batch = summary_of(seed, outside=seed % 5 == 4)
    whole = summarize_thresholds([batch], held=held)
    for parts in (2, 7):
        result = summarize_thresholds(split_into(parts, batch), held=held)
        assert (result.n_samples, result.n_positives) == (len(batch.labels), int(batch.labels.sum()))
        assert_allclose(result.tuned.best, whole.tuned.best, rtol=1e-12)
        assert_allclose(result.tuned.threshold, whole.tuned.threshold, rtol=1e-12)
        assert_allclose(result.tuned.cost, whole.tuned.cost, rtol=1e-9)
        assert result.bayes_threshold == whole.bayes_threshold
        assert (result.bayes_cost is None) == (seed % 5 == 4)
        if result.bayes_cost is not None:
            assert_allclose(result.bayes_cost, whole.bayes_cost, rtol=1e-9)
        assert_allclose(
            (result.best_cost, *result.constant_costs), (whole.best_cost, *whole.constant_costs), rtol=1e-12
        )
        assert_allclose(result.curve.thresholds, whole.curve.thresholds)
        assert_allclose(result.curve.costs, whole.curve.costs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_summary_of_few_samples_is_that_of_arrays(seed):
    batch = summary_of(seed)
    result, own = summarize_thresholds(split_into(3, batch)), {"sample_weight": batch.weight}
    assert result.tuned == tune_threshold(batch.scores, batch.labels, batch.costs, **own)
    decided = batch.costs.decide(batch.scores)
    assert result.bayes_cost == mean_interval(batch.costs.incurred(batch.labels, decided), batch.weight)
    for label, cost in enumerate(result.constant_costs):
        constant = np.full(len(decided), label)
        assert cost == pytest.approx(batch.costs.mean(batch.labels, constant, **own), rel=1e-12)


@pytest.mark.parametrize("batches", [[], [Batch(np.ones(2), np.asarray([0, 1]), CostMatrix(fp=1, fn=1), np.zeros(2))]])
def test_nothing_to_tune_on_is_one_line(batches):
    with pytest.raises(ValueError, match="no samples, or all weights are 0"):
        summarize_thresholds(batches)
