"""Scores in batches: equal to all at once, exactly while they are held and nearly so in buckets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import QuantileBins, UniformBins
from adacsl.adaptive.controller import MultiLabelController
from adacsl.adaptive.streamed import Divisions, StreamedScores

TWO = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n).astype(np.float32) * 2
    p = 1 / (1 + np.exp(-z))
    return p.astype(np.float32), (rng.random(n) < p**1.5).astype(np.int64), rng.random(n)


def streamed(controller, columns, size, kept):
    stream = StreamedScores.of(controller, kept=kept)
    for start in range(0, len(columns[0]), size):
        stream.add(*(None if c is None else c[start : start + size] for c in columns))
    return stream


TARGETS = pytest.mark.parametrize(
    ("weighted", "target_threshold"), [(False, 0.5), (True, 0.2), (False, "bayes"), (True, 0.9)]
)


@TARGETS
def test_few_scores_are_measured_as_all_at_once(weighted, target_threshold):
    p, y, w = rows(5000)
    whole, batches = (AdaCSLController(TWO, target_threshold=target_threshold) for _ in range(2))
    expected = whole.step(p, y, sample_weight=w if weighted else None)
    assert streamed(batches, (p, y, w if weighted else None), 700, 1 << 20).step(batches) == expected


@TARGETS
def test_many_scores_are_counted_in_buckets(weighted, target_threshold):
    p, y, w = rows(60_000)
    whole, batches = (AdaCSLController(TWO, target_threshold=target_threshold) for _ in range(2))
    given = w if weighted else None
    expected = whole.step(p, y, sample_weight=given)
    stream = streamed(batches, (p, y, given), 7000, 1000)
    assert not stream.exact
    result = stream.step(batches)
    assert result.cost == pytest.approx(expected.cost, rel=1e-9)  # at T' exactly
    # the threshold is a border of buckets: its own cost is nearly the least one
    cut = np.float32(result.threshold)
    least = TWO.mean(y, p > np.float32(expected.threshold), sample_weight=given)
    assert TWO.mean(y, p > cut, sample_weight=given) <= 1.001 * least
    assert result.sizes == pytest.approx(expected.sizes)


def test_an_optimal_target_is_found_to_be_so_in_buckets():
    """Scores that are separated at T': a factor of exactly 1, wherever in its bucket T' lies."""
    for target in (0.5, 0.3001, 0.7777, TWO.threshold):
        cut = np.float32(target)
        near = np.asarray([np.nextafter(cut, np.float32(0)), cut, np.nextafter(cut, np.float32(1))])
        p = np.concatenate((np.repeat(near, 500), np.linspace(0, 1, 1001, dtype=np.float32)))
        y = (p > cut).astype(np.int64)
        controller = AdaCSLController(TWO, target_threshold=target)
        result = streamed(controller, (p, y), 300, 100).step(controller)
        assert result.factor == 1.0
        assert result.cost == 0.0


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.lists(st.floats(0, 1, width=32), min_size=1, max_size=3), st.integers(1, 60))
def test_what_stands_for_counted_scores_costs_the_same_at_the_given_thresholds(seed, thresholds, n):
    rng = np.random.default_rng(seed)
    near = np.asarray(thresholds, dtype=np.float32)
    p = np.clip(rng.choice(near, n) + rng.choice([0, 0, 1e-4, -1e-4, 0.3], n), 0, 1).astype(np.float32)
    y = rng.integers(0, 2, n)
    divisions = Divisions(thresholds)
    scores, labels, weight = divisions.represent(divisions.count(p, y, None))
    assert weight.sum() == n
    for cut in near:
        for label in (0, 1):
            assert weight[(labels == label) & (scores > cut)].sum() == ((y == label) & (p > cut)).sum()


def test_k_classes_are_sampled():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), size=20_000)
    y = (q.cumsum(1) < rng.random((20_000, 1))).sum(1)
    whole, batches = AdaCSLController(THREE), AdaCSLController(THREE)
    expected = whole.step(q, y)
    stream = streamed(batches, (q, y), 700, 9000)
    result = stream.step(batches)
    assert len(stream.samples()[0]) <= 6000
    assert result.cost == pytest.approx(expected.cost, rel=0.05)
    assert result.lambdas == pytest.approx(expected.lambdas, rel=0.4)
    exact = streamed(other := AdaCSLController(THREE), (q, y), 700, 1 << 20).step(other)
    assert exact.cost == pytest.approx(expected.cost, rel=1e-6)


@pytest.mark.parametrize("kept", [300, 1 << 20])
def test_labels_are_independent_problems(kept):
    (p, y, _), (q, u, _) = rows(4000), rows(4000, 1)
    known = np.arange(4000) % 3 > 0
    scores, labels = np.stack((p, q), 1), np.stack((y, u), 1)
    weight = np.stack((np.ones(4000), known), 1)
    costs = [TWO, CostMatrix(fp=3, fn=1)]
    controller, alone = MultiLabelController(costs), [AdaCSLController(c) for c in costs]
    result = streamed(controller, (scores, labels, weight), 600, kept).step(controller)
    expected = [alone[0].step(p, y), alone[1].step(q[known], u[known])]
    assert [step.cost for step in result.steps] == pytest.approx([step.cost for step in expected])
    assert result.thresholds == pytest.approx([step.threshold for step in expected], abs=0.02)
    assert result.cost == pytest.approx(sum(step.cost for step in expected))


def test_what_buckets_cannot_do_is_one_line():
    p, y, _w = rows(3000)
    for settings_ in ({"partition": QuantileBins(4)}, {"partition": UniformBins(4)}, {"n_standard_errors": 1}):
        controller = AdaCSLController(TWO, **settings_)
        with pytest.raises(ValueError, match="counted in buckets, which n_standard_errors and partitions"):
            streamed(controller, (p, y), 500, 100).step(controller)
    stream = StreamedScores(2, [0.5])
    with pytest.raises(ValueError, match="there are no samples"):
        stream.step(AdaCSLController(TWO))


@pytest.mark.parametrize("kept", [300, 1 << 20])
def test_batches_without_weights_count_as_ones(kept):
    p, y, w = rows(3000)
    whole, controller = AdaCSLController(TWO), AdaCSLController(TWO)
    expected = whole.step(p, y, sample_weight=np.where(np.arange(3000) < 1000, 1.0, w))
    stream = StreamedScores.of(controller, kept=kept)
    for start in range(0, 3000, 250):
        part = slice(start, start + 250)
        stream.add(p[part], y[part], None if start < 1000 else w[part])
    result = stream.step(controller)
    assert result.cost == pytest.approx(expected.cost)
    assert result.threshold == pytest.approx(expected.threshold, abs=0.01)
