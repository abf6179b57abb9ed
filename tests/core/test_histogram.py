"""Thresholds from counts over the bits of scores: those of the exact search over all rows, merged in any way."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from adacsl import CostHistogram, CostMatrix, cost_curve, find_threshold
from adacsl.core.histogram import BUCKETS, bucket_numbers

ODD = [0.0, -0.0, 1e-45, 1e-40, 0.25, np.nextafter(0.5, 0), 0.5, 0.5 + 1e-9, 0.5 + 2**-24, 1 - 2**-25, 1.0]
COSTS = CostMatrix(fp=1, fn=5, tp=0.5, tn=0.25)
unit = st.one_of(st.floats(0, 1), st.sampled_from(ODD))
rows = st.lists(st.tuples(unit, st.booleans(), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=60)


def columns(drawn, kind):
    scores, labels, fp, fn = (np.asarray(column) for column in zip(*drawn, strict=True))
    return scores.astype(kind), labels.astype(int), fp.astype(float), fn.astype(float)


@given(rows, st.sampled_from(["float16", "float32", "float64"]), st.integers(0, 60), st.floats(0.01, 0.99))
def test_two_parts_have_the_threshold_of_all_rows(drawn, kind, cut, target):
    scores, labels, *_ = columns(drawn, kind)
    parts = [(scores[:cut], labels[:cut]), (scores[cut:], labels[cut:])]
    parts = [part for part in parts if len(part[0])]
    whole, other = CostHistogram(), CostHistogram()
    for histogram, part in zip((whole, other), parts, strict=False):
        histogram.update(*part)
    found = whole.merge(other).threshold(COSTS, parts, target=target)
    assert found == find_threshold(scores, labels, COSTS, target=target)


@given(rows, st.sampled_from(["float32", "float64"]), st.booleans())
def test_costs_of_each_row_and_weights(drawn, kind, weighted):
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
    assert_allclose(curve.costs, [COSTS.total(labels, (scores > t).astype(int)) for t in curve.thresholds])
    assert set(np.round(curve.costs, 9)) <= set(np.round(cost_curve(scores, labels, COSTS).costs, 9))


@given(st.lists(unit, min_size=2, max_size=60))
def test_a_higher_score_is_in_no_lower_bucket(scores):
    numbers = bucket_numbers(np.sort(np.asarray(scores)))
    assert (np.diff(numbers) >= 0).all()
    assert numbers.min() >= 0
    assert numbers.max() < BUCKETS


def test_many_rows_and_few_looked_at_again():
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
    ],
)
def test_wrong_use_is_said(wrong, match):
    histogram = CostHistogram()
    histogram.update(np.float32([0.2, 0.8]), [0, 1])
    with pytest.raises(ValueError, match=match):
        wrong(histogram)
    assert histogram.rows == 2
