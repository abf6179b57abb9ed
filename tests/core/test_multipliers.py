"""Multipliers of K classes against brute force, the threshold search, and their own promises."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix, find_threshold
from adacsl.core.multipliers import find_multipliers

# an oracle that shares no line with adacsl: every place tried, in exact fractions


def decided(q, costs, values, weights):
    """The cheapest action of each row, the first of equal ones, in fractions."""
    scaled = [[Fraction(float(p)) * m / w for p, m, w in zip(row, values, weights, strict=True)] for row in q]
    expected = [
        [sum(c * s for c, s in zip(line, row, strict=True)) for line in matrix]
        for row, matrix in zip(scaled, costs, strict=True)
    ]
    return [row.index(min(row)) for row in expected]


def cost_of(q, labels, costs, values, weights, counts):
    actions = decided(q, costs, values, weights)
    return sum(n * matrix[i][y] for i, y, matrix, n in zip(actions, labels, costs, counts, strict=True))


def places_between(q, costs, values, weights, j):
    """One multiplier inside every interval between two neighbouring points where any two lines of any row meet."""
    meets = set()
    for row, matrix in zip(q, costs, strict=True):
        scaled = [Fraction(float(p)) * m / w for p, m, w in zip(row, values, weights, strict=True)]
        slope = Fraction(float(row[j])) / weights[j]
        for one, other in itertools.combinations(matrix, 2):
            fall = (one[j] - other[j]) * slope
            above = sum((b - a) * s for k, (a, b, s) in enumerate(zip(one, other, scaled, strict=True)) if k != j)
            if fall and above / fall > 0:
                meets.add(above / fall)
    meets = sorted(meets)
    if not meets:
        return [Fraction(1)]
    return [meets[0] / 2, *((a + b) / 2 for a, b in itertools.pairwise(meets)), meets[-1] * 2]


def check_against_brute_force(q, labels, matrix, weights, counts, found):
    """Nothing is cheaper than the start, and no single multiplier can make it cheaper."""
    n, k = len(q), len(q[0])
    single = np.ndim(matrix[0]) == 2
    costs = [[[Fraction(float(c)) for c in line] for line in (matrix[r] if single else matrix)] for r in range(n)]
    weights = [Fraction(float(w)) for w in (np.ones(k) if weights is None else weights)]
    counts = [Fraction(float(c)) for c in (np.ones(n) if counts is None else counts)]
    values = [Fraction(float(v)) for v in found.values]
    reached = cost_of(q, labels, costs, values, weights, counts)
    start = cost_of(q, labels, costs, [Fraction(1)] * k, weights, counts)
    assert found.cost == pytest.approx(float(reached), abs=1e-9)
    assert found.start_cost == pytest.approx(float(start), abs=1e-9)
    assert reached <= start
    assert np.log(found.values).sum() == pytest.approx(0.0, abs=1e-9)
    for j in range(k):
        for place in places_between(q, costs, values, weights, j):
            other = cost_of(q, labels, costs, values[:j] + [place] + values[j + 1 :], weights, counts)
            assert reached <= other


@st.composite
def tasks(draw, k=None, rows=9):
    """Scores on a grid (many ties and zeros), labels, prices, with more actions than classes at times."""
    k = draw(st.sampled_from([2, 3, 4])) if k is None else k
    n = draw(st.integers(1, rows))
    cuts = [sorted(draw(st.lists(st.integers(0, 16), min_size=k - 1, max_size=k - 1))) for _ in range(n)]
    q = np.array([np.diff([0, *row, 16]) / 16 for row in cuts])
    labels = np.array(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    price = st.sampled_from([1, 1, 2, 3, 5, 8])
    matrix = [[0 if i == j else draw(price) for j in range(k)] for i in range(k)]
    return q, labels, matrix


@settings(max_examples=150, deadline=None)
@given(tasks())
def test_no_single_multiplier_is_cheaper_elsewhere(data):
    q, labels, matrix = data
    found = find_multipliers(q, labels, CostMatrix.from_array(matrix, rows="predicted"))
    check_against_brute_force(q, labels, matrix, None, None, found)


@pytest.mark.parametrize("seed", range(60))
def test_weights_rows_of_costs_and_sample_weights_equal_brute_force(seed):
    rng = np.random.default_rng(seed)
    k, n = 3 + seed % 2, 12
    q = rng.dirichlet(np.full(k, 0.5 + seed % 3), n)
    labels = rng.integers(0, k, n)
    matrix = rng.integers(1, 9, (n, k, k) if seed % 3 == 0 else (k, k)) * (1 - np.eye(k))
    weights = rng.uniform(0.2, 5.0, k) if seed % 5 < 3 else None
    counts = rng.integers(0, 4, n) / 2.0 if seed % 4 < 2 else None
    if counts is not None:
        counts[0] += 1
    start = rng.uniform(0.5, 2.0, k) if seed % 7 == 0 else None
    costs = CostMatrix.from_array(matrix, rows="predicted")
    found = find_multipliers(q, labels, costs, weights=weights, start=start, sample_weight=counts)
    check_against_brute_force(q, labels, matrix, weights, counts, found)
    again = find_multipliers(
        torch.tensor(q), torch.tensor(labels), costs, weights=weights, start=start, sample_weight=counts
    )
    np.testing.assert_allclose(again.values, found.values, rtol=1e-9)


# two classes are a threshold


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(10, 990).map(lambda s: s / 1000), st.booleans()), min_size=1, max_size=14),
    st.sampled_from([1, 2, 5]), st.sampled_from([1, 3, 8]), st.sampled_from([0.0, 0.0, 1.0]),
)  # fmt: skip
def test_two_classes_are_the_threshold_search(rows, fp, fn, caution):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    costs = CostMatrix(fp=fp, fn=fn)
    found = find_multipliers(scores, labels, costs, caution=caution)
    threshold = find_threshold(scores, labels, costs, target=costs.threshold, caution=caution)
    odds = threshold.value / (1 - threshold.value) * (1 - costs.threshold) / costs.threshold
    ratio = found.values[0] / found.values[1]
    if (ratio < 1) == (odds < 1):
        assert ratio == pytest.approx(odds, rel=1e-9)
    else:  # as cheap on either side of the target: ours is the nearer one in log-odds
        assert abs(np.log(ratio)) <= abs(np.log(odds)) + 1e-9
    assert found.cost == pytest.approx(threshold.cost)
