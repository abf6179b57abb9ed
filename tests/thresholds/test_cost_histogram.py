"""Thresholds from counts over the bits of scores: those of the exact search over all samples, merged in any way."""

import json
import math
import pickle

import duckdb
import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from adacsl import CostHistogram, CostMatrix, cost_curve, find_threshold
from adacsl.thresholds.search import TIE_TOLERANCE
from adacsl.thresholds.streaming import BUCKETS, bucket_numbers

ODD = [0.0, -0.0, 1e-45, 1e-40, 0.25, np.nextafter(0.5, 0), 0.5, 0.5 + 1e-9, 0.5 + 2**-24, 1 - 2**-25, 1.0]
COSTS = CostMatrix(fp=1, fn=5, tp=0.5, tn=0.25)
unit = st.one_of(st.floats(0, 1), st.sampled_from(ODD))
rows = st.lists(st.tuples(unit, st.booleans(), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=60)


def columns(drawn, kind):
    scores, labels, fp, fn = (np.asarray(column) for column in zip(*drawn, strict=True))
    return scores.astype(kind), labels.astype(int), fp.astype(float), fn.astype(float)


@given(rows, st.sampled_from(["float16", "float32", "float64"]), st.integers(0, 60), st.floats(0.01, 0.99))
def test_two_parts_have_the_threshold_of_all_samples(drawn, kind, cut, target_threshold):
    scores, labels, *_ = columns(drawn, kind)
    parts = [(scores[:cut], labels[:cut]), (scores[cut:], labels[cut:])]
    parts = [part for part in parts if len(part[0])]
    whole, other = CostHistogram(), CostHistogram()
    for histogram, part in zip((whole, other), parts, strict=False):
        histogram.update(*part)
    result = whole.merge(other).threshold(COSTS, parts, target_threshold=target_threshold)
    assert result == find_threshold(scores, labels, COSTS, target_threshold=target_threshold)


@given(rows, st.sampled_from(["float32", "float64"]), st.booleans())
def test_costs_of_each_sample_and_weights(drawn, kind, weighted):
    scores, labels, fp, fn = columns(drawn, kind)
    costs = CostMatrix(fp=fp, fn=fn, tn=0.5)
    weight = np.arange(1.0, len(scores) + 1) if weighted else None
    histogram = CostHistogram()
    histogram.update(scores, labels, costs=costs, sample_weight=weight)
    second = histogram.second_pass()
    second.update(scores, labels, costs=costs, sample_weight=weight)
    assert_allclose(second.threshold(), find_threshold(scores, labels, costs, sample_weight=weight), rtol=1e-12)


@given(rows, st.sampled_from(["float16", "float32", "float64"]))
def test_the_curve_is_exact_at_its_thresholds(drawn, kind):
    scores, labels, *_ = columns(drawn, kind)
    histogram = CostHistogram()
    histogram.update(scores, labels)
    curve = histogram.curve(COSTS)
    assert_allclose(curve.total_costs, [COSTS.total(labels, (scores > t).astype(int)) for t in curve.thresholds])
    assert_allclose(curve.costs, [COSTS.mean(labels, (scores > t).astype(int)) for t in curve.thresholds])
    assert set(np.round(curve.total_costs, 9)) <= set(np.round(cost_curve(scores, labels, COSTS).total_costs, 9))


far = st.integers(-12, 12).map(lambda power: 10.0**power)
wide = st.lists(st.tuples(unit, st.booleans(), far, far), min_size=1, max_size=30)


@given(wide, st.sampled_from(["float16", "float32", "float64"]), st.permutations(range(3)))
@example([(0.5, False, 1e12, 1.0), (0.5005, False, 1e-12, 1.0), (0.501, True, 1.0, 1e-3)], "float32", (0, 1, 2))
@example([(0.5, True, 1.0, 1e-12), (0.5005, True, 1.0, 1e12), (0.501, False, 1e-3, 1.0)], "float64", (2, 1, 0))
@example([(0.5, True, 1.0, 1.0)] * 3 + [(0.5, False, 2.0, 1.0)], "float16", (1, 0, 2))
@example([(1.0, False, 1e-12, 1e12), (0.0, True, 1e-12, 1e12)], "float64", (0, 1, 2))
def test_no_threshold_costs_less_by_brute_force_whatever_errors_cost(drawn, kind, order):
    scores, labels, fp, fn = columns(drawn, kind)
    costs = CostMatrix(fp=fp, fn=fn)
    parts = [CostHistogram() for _ in range(3)]
    seconds = []
    for number, histogram in enumerate(parts):
        if len(scores[number::3]):
            mine = costs.rows(np.arange(len(scores))[number::3])
            histogram.update(scores[number::3], labels[number::3], costs=mine)
            seconds.append((scores[number::3], labels[number::3], mine))
    whole = CostHistogram()
    for number in order:
        whole.merge(parts[number])
    result = whole.threshold(None, seconds)

    def cost_at(threshold):  # exactly, whatever the order
        decided = scores > threshold
        return math.fsum(np.where(labels == 1, np.where(decided, 0, fn), np.where(decided, fp, 0)))

    least = min(map(cost_at, (-1.0, *scores.astype(float))))
    for total in (result.total_cost, cost_at(result.value), cost_at(result.low)):
        assert total == pytest.approx(least, rel=2 * TIE_TOLERANCE, abs=0)


@given(rows, st.sampled_from(["float16", "float32", "float64"]), st.booleans())
def test_counts_travel_and_merge(drawn, kind, summed):
    scores, labels, fp, fn = columns(drawn, kind)
    given_ = {"costs": CostMatrix(fp=fp, fn=fn, tp=0.5)} if summed else {}
    histogram = CostHistogram()
    histogram.update(scores, labels, **given_)
    known = json.loads(json.dumps({name: np.asarray(v).tolist() for name, v in histogram.to_counts().items()}))
    again = CostHistogram.from_counts(**known).merge(CostHistogram.from_counts([], [], np.empty(0, int)))
    for other in (again, pickle.loads(pickle.dumps(histogram)), CostHistogram().merge(histogram)):  # noqa: S301
        assert (other.rows, other.base, other.kind, other.summed) == (len(scores), histogram.base, kind, summed)
        assert (other.positives == histogram.positives).all()
        assert (other.negatives == histogram.negatives).all()
    batch = (scores, labels, given_["costs"]) if summed else (scores, labels)
    costs = None if summed else COSTS
    assert again.threshold(costs, [batch]) == histogram.threshold(costs, [batch])


SQL = "floor(512 * (126 + e + s / pow(2, e)))::INTEGER"
"""The bucket of s, a float32, by arithmetic that every engine has; e is floor(log2(s)), or -126 below 2**-126."""


def test_other_engines_find_the_same_buckets():
    rng = np.random.default_rng(0)
    powers = np.float32(2.0) ** np.arange(-149, 1, dtype=np.float32)
    beside = [np.nextafter(powers, np.float32(way)) for way in (0, 1)]
    starts = (np.arange(BUCKETS, dtype=np.int32) << 14).view(np.float32)
    ends = np.nextafter(starts[1:], np.float32(0))
    scores = np.concatenate([powers, *beside, starts, ends, rng.random(1000, dtype=np.float32) ** 9])
    scores = np.concatenate([scores.astype(np.float64), rng.random(50_000) ** 3, [0.0, -0.0, 0.1, 1 - 1e-9]])
    expected = bucket_numbers(scores)
    frame = pl.DataFrame({"score": scores})
    rounded = duckdb.sql("SELECT score::FLOAT::DOUBLE AS s FROM frame")
    raised = rounded.project("s, floor(log2(greatest(s, pow(2, -126)))) AS e")
    result = raised.project(f"{SQL} AS arithmetic, (s::FLOAT + 0)::BIT::INTEGER >> 14 AS bits").fetchnumpy()
    assert (result["arithmetic"] == expected).all()
    assert (result["bits"] == expected).all()
    s = pl.col("score").cast(pl.Float32).cast(pl.Float64)
    e = pl.max_horizontal(s, pl.lit(2.0**-126)).log(2).floor()
    bucket = (512 * (126 + e + s / pl.lit(2.0).pow(e))).floor().cast(pl.Int32)
    assert (frame.select(bucket).to_series().to_numpy() == expected).all()


@given(st.lists(unit, min_size=2, max_size=60))
def test_a_higher_score_is_in_no_lower_bucket(scores):
    numbers = bucket_numbers(np.sort(np.asarray(scores)))
    assert (np.diff(numbers) >= 0).all()
    assert 0 <= numbers.min() <= numbers.max() < BUCKETS


def test_of_many_samples_few_are_read_again():
    rng = np.random.default_rng(0)
    scores = rng.random(1_000_000, dtype=np.float32) ** 2
    labels = rng.random(len(scores)) < scores
    histogram, costs = CostHistogram(), CostMatrix(fp=1, fn=20)
    for part in np.array_split(np.arange(len(scores)), 7):
        histogram.update(scores[part], torch.from_numpy(labels[part]))
    assert histogram.positives.nbytes + histogram.negatives.nbytes < 1.1e6
    second = histogram.second_pass(costs)
    assert second.share < 0.2
    halves = [histogram.second_pass(costs) for _ in range(2)]
    for half, part in zip(halves, (slice(None, 400_000), slice(400_000, None)), strict=True):
        half.update(torch.from_numpy(scores[part]), labels[part])
    assert halves[0].merge(halves[1]).threshold() == find_threshold(scores, labels, costs)


def test_samples_of_equal_scores_are_held_as_one(monkeypatch):
    monkeypatch.setattr("adacsl.thresholds.streaming.KEPT", 30)
    rng = np.random.default_rng(2)
    scores, fn = (rng.integers(400, 440, 3000) / 1000).astype(np.float32), rng.lognormal(size=3000)
    labels = rng.random(3000) < scores
    parts = np.array_split(np.arange(3000), 20)
    for costs in (COSTS, CostMatrix(fp=1, fn=fn)):
        own, histogram = costs.n_instances is not None, CostHistogram()
        for part in parts:
            histogram.update(scores[part], labels[part], costs=costs.rows(part) if own else None)
        seconds = [histogram.second_pass(None if own else costs) for _ in range(2)]
        for turn, part in enumerate(parts):
            seconds[turn % 2].update(scores[part], labels[part], costs=costs.rows(part) if own else None)
        whole = seconds[0].merge(seconds[1])
        assert_allclose(whole.threshold(), find_threshold(scores, labels, costs), rtol=1e-12)
        whole_size = len(pickle.dumps(whole))
        monkeypatch.undo()
        loose = histogram.second_pass(None if own else costs)
        loose.update(scores, labels, costs=costs if own else None)
        assert len(pickle.dumps(loose)) > whole_size
        monkeypatch.setattr("adacsl.thresholds.streaming.KEPT", 30)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda h: h.update([0.5], [1]), "so far are float32"),
        (lambda h: h.update(np.float32([0.5]), [1], costs=COSTS), "to all updates, or to none"),
        (lambda h: h.update(np.float32([0.5]), [1], sample_weight=[1.0]), "sample_weight needs costs"),
        (lambda h: h.update(np.float32([1.5]), [1]), "probabilities in"),
        (lambda h: h.curve(), "costs are missing"),
        (lambda h: h.curve(CostMatrix(fp=[1, 2], fn=[1, 2])), "row by row"),
        (lambda h: CostHistogram().curve(COSTS), "nothing was counted"),
        (lambda h: h.second_pass(COSTS).threshold(), "the very same"),
        (lambda h: h.threshold(COSTS, [(np.float32([0.2, 0.2, 0.8]), [0, 0, 1])]), "the very same"),
        (lambda h: h.merge(CostHistogram.from_counts([5], [1], [2])), "so far are float32"),
        (lambda h: CostHistogram.from_counts([5, 6], [1], [2]), "equally long"),
        (lambda h: CostHistogram.from_counts([5.5], [1], [2]), "whole numbers"),
        (lambda h: CostHistogram.from_counts([BUCKETS], [1], [2]), "from 0 to 65024"),
        (lambda h: CostHistogram.from_counts([5], [2], [2]), "labels 0 or 1"),
        (lambda h: CostHistogram.from_counts([5], [1], [2.5]), "the number of rows, rows="),
        (lambda h: CostHistogram.from_counts([5], [1], [-2]), "not negative"),
        (lambda h: CostHistogram.from_counts([5], [1], [np.nan], rows=1), "finite"),
    ],
)
def test_wrong_use(wrong, match):
    histogram = CostHistogram()
    histogram.update(np.float32([0.2, 0.8]), [0, 1])
    with pytest.raises(ValueError, match=match):
        wrong(histogram)
    assert histogram.rows == 2
