"""Multipliers of K classes against brute force, the threshold search, and their own promises."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from array_api_compat import array_namespace
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix, find_threshold
from adacsl.thresholds import multiclass
from adacsl.thresholds.multiclass import find_multipliers

# an oracle that shares no line with adacsl: every place tried, in exact fractions


def decided(q, costs, values, weights):
    """The action of least expected cost for each sample, the first of equal ones, in fractions."""
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


def check_against_brute_force(q, labels, matrix, weights, counts, result):
    """The result costs no more than the start, and no change of a single multiplier lowers it."""
    n, k = len(q), len(q[0])
    single = np.ndim(matrix[0]) == 2
    costs = [[[Fraction(float(c)) for c in line] for line in (matrix[r] if single else matrix)] for r in range(n)]
    weights = [Fraction(float(w)) for w in (np.ones(k) if weights is None else weights)]
    counts = [Fraction(float(c)) for c in (np.ones(n) if counts is None else counts)]
    values = [Fraction(float(v)) for v in result.values]
    reached = cost_of(q, labels, costs, values, weights, counts)
    start = cost_of(q, labels, costs, [Fraction(1)] * k, weights, counts)
    assert result.total_cost == pytest.approx(float(reached), abs=1e-9)
    assert result.start_cost == pytest.approx(float(start / sum(counts)), abs=1e-9)
    assert result.cost == pytest.approx(float(reached / sum(counts)), abs=1e-9)
    assert reached <= start
    assert np.log(result.values).sum() == pytest.approx(0.0, abs=1e-9)
    for j in range(k):
        for place in places_between(q, costs, values, weights, j):
            other = cost_of(q, labels, costs, [*values[:j], place, *values[j + 1 :]], weights, counts)
            assert reached <= other


@st.composite
def tasks(draw, k=None, rows=9):
    """Scores on a grid (many ties and zeros), labels, costs, with more actions than classes at times."""
    k = draw(st.sampled_from([2, 3, 4])) if k is None else k
    n = draw(st.integers(1, rows))
    cuts = [sorted(draw(st.lists(st.integers(0, 16), min_size=k - 1, max_size=k - 1))) for _ in range(n)]
    q = np.array([np.diff([0, *row, 16]) / 16 for row in cuts])
    labels = np.array(draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    cost = st.sampled_from([1, 1, 2, 3, 5, 8])
    matrix = [[0 if i == j else draw(cost) for j in range(k)] for i in range(k)]
    return q, labels, matrix


@settings(max_examples=60, deadline=None)
@given(tasks())
def test_no_single_multiplier_costs_less_elsewhere(data):
    q, labels, matrix = data
    result = find_multipliers(q, labels, CostMatrix.from_array(matrix, rows="predicted"))
    check_against_brute_force(q, labels, matrix, None, None, result)


def test_undecided_samples_do_not_hide_a_gain():
    """The first row costs the same under two actions whatever the third class is multiplied by, up to a point."""
    q = np.array([[0.25, 0.25, 0.5], [0.25, 0.25, 0.5], [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])
    matrix = [[0, 2, 1], [2, 0, 3], [1, 1, 0]]
    for labels in itertools.product(range(3), repeat=4):
        result = find_multipliers(q, labels, CostMatrix.from_array(matrix, rows="predicted"))
        check_against_brute_force(q, labels, matrix, None, None, result)


@pytest.mark.parametrize("seed", range(20))
def test_weights_costs_of_samples_and_sample_weights_equal_brute_force(seed):
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
    options = {"weights": weights, "start": start, "sample_weight": counts}
    result = find_multipliers(q, labels, costs, **options)
    check_against_brute_force(q, labels, matrix, weights, counts, result)
    again = find_multipliers(torch.tensor(q), torch.tensor(labels), costs, **options)
    np.testing.assert_allclose(again.values, result.values, rtol=1e-9)


# two classes are a threshold


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(10, 990).map(lambda s: s / 1000), st.booleans()), min_size=1, max_size=14),
    st.sampled_from([1, 2, 5]), st.sampled_from([1, 3, 8]), st.sampled_from([0.0, 0.0, 1.0]),
)  # fmt: skip
def test_two_classes_are_the_threshold_search(rows, fp, fn, n_standard_errors):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    costs = CostMatrix(fp=fp, fn=fn)
    result = find_multipliers(scores, labels, costs, n_standard_errors=n_standard_errors)
    threshold = find_threshold(
        scores, labels, costs, target_threshold=costs.threshold, n_standard_errors=n_standard_errors
    )
    odds = threshold.value / (1 - threshold.value) * (1 - costs.threshold) / costs.threshold
    ratio = result.values[0] / result.values[1]
    if (ratio < 1) == (odds < 1):
        assert ratio == pytest.approx(odds, rel=1e-9)
    else:  # equal costs on either side of the target: the result is the nearer one in log-odds
        assert abs(np.log(ratio)) <= abs(np.log(odds)) + 1e-9
    assert result.total_cost == pytest.approx(threshold.total_cost)


# many samples


def many_samples(n=20_000, k=4, seed=0, *, by_sample=False):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k)) + rng.normal(size=k)
    logits[np.arange(n), labels] += 1.5
    q = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    matrix = np.exp(rng.normal(size=(k, k))) * (1 - np.eye(k))
    if by_sample:
        matrix = matrix * rng.uniform(0.5, 2.0, (n, 1, 1))
    return q, labels, CostMatrix.from_array(matrix, rows="predicted")


@pytest.mark.parametrize(("library", "by_sample"), [("numpy", False), ("torch", True)])
def test_many_samples_end_where_no_multiplier_saves_a_noticeable_cost(library, by_sample):
    q, labels, costs = many_samples(by_sample=by_sample)
    given = (torch.tensor(q), torch.tensor(labels)) if library == "torch" else (q, labels)
    result = find_multipliers(*given, costs)
    assert result.start_cost == pytest.approx(costs.mean(labels, costs.decide(q)))
    scaled = q * result.values
    assert result.total_cost == pytest.approx(costs.total(labels, costs.decide(scaled / scaled.sum(1, keepdims=True))))
    assert result.cost < 0.95 * result.start_cost
    for j in range(4):
        for factor in np.exp(np.linspace(-1.0, 1.0, 21)):
            moved = scaled * np.where(np.arange(4) == j, factor, 1.0)
            other = costs.mean(labels, costs.decide(moved / moved.sum(1, keepdims=True)))
            assert result.cost <= other + 0.11 * result.start_cost / 20_000**0.5


@pytest.mark.parametrize(("n", "by_sample"), [(300, False), (20_000, True)])
def test_tensors_of_another_device_never_become_numpy(n, by_sample):
    """What a GPU does, on the CPU: the samples stay tensors."""
    rows, _ = multiclass.Rows.of(*many_samples(n, by_sample=by_sample), None, None)
    scores, paid, stakes = (torch.from_numpy(np.ascontiguousarray(cells)) for cells in rows[:3])
    tensors = multiclass.Rows(scores, paid, stakes, array_namespace(scores), torch.float64)
    few = n < 1000
    descend = multiclass.descend if few else multiclass.descend_by_parts
    for n_standard_errors in (0.0, 1.0):
        rule = multiclass.Rule(n_standard_errors, 1e-4 * rows.cost(np.ones(4)), few)
        ours, theirs = (descend(each if few else each.narrow(), np.ones(4), rule)[0] for each in (rows, tensors))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9 if few else 0.05)
        assert rows.cost(ours) == pytest.approx(rows.cost(theirs), rel=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_both_ways_along_the_lines_agree(seed, monkeypatch):
    q, labels, costs = many_samples(500, k=6, seed=seed)
    q[:50, seed] = 0.0
    q /= q.sum(1, keepdims=True)
    rows, _ = multiclass.Rows.of(q, labels, costs, None, None)
    values = np.random.default_rng(seed).uniform(0.5, 2.0, 6)
    for j in range(6):
        pairs = rows.along(values, j, (1e-3, 1e3))
        with monkeypatch.context() as patch:
            patch.setattr(multiclass, "FEW_LINES", 0)
            steps = rows.along(values, j, (1e-3, 1e3))
        (ours, changed), (theirs, other) = ((p[np.argsort(p)], c[np.argsort(p)]) for p, c in (pairs, steps))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
        np.testing.assert_allclose(changed, other, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_scores(dtype):
    q, labels, costs = many_samples(2000)
    narrow = q.astype(dtype)
    result = find_multipliers(narrow, labels, costs)
    assert result.values == pytest.approx(find_multipliers(narrow.astype(np.float64), labels, costs).values, rel=1e-12)
    assert find_multipliers(torch.tensor(narrow), labels, costs).values == pytest.approx(result.values, rel=1e-12)


# n_standard_errors, one class, more actions than classes, refusals


def test_standard_errors_move_less_and_many_of_them_not_at_all():
    q, labels, costs = many_samples(600)
    moves = [find_multipliers(q, labels, costs, n_standard_errors=c) for c in (0.0, 1.0, 1e6)]
    assert moves[0].cost <= moves[1].cost <= moves[2].cost == moves[2].start_cost
    assert moves[2].values.tolist() == [1.0] * 4
    assert np.abs(np.log(moves[1].values)).sum() < np.abs(np.log(moves[0].values)).sum()


def test_one_class_only_costs_nothing_in_the_end():
    q, _, costs = many_samples(200)
    result = find_multipliers(q, np.full(200, 2), costs)
    assert result.total_cost == 0.0
    assert np.isfinite(result.values).all()
    assert (result.values > 0).all()


def test_more_actions_than_classes():
    q, labels, costs = many_samples(300, k=3)
    wide = np.concatenate((costs.to_array(), [[0.3, 0.3, 0.3]]))
    rect = CostMatrix.from_array(wide, rows="predicted")
    result = find_multipliers(q, labels, rect)
    assert result.start_cost == pytest.approx(rect.mean(labels, rect.decide(q)))
    check_against_brute_force(q[:12], labels[:12], wide, None, None, find_multipliers(q[:12], labels[:12], rect))


def test_costs_of_being_right_count_in_the_total():
    q, labels, costs = many_samples(100)
    raised = CostMatrix.from_array(costs.to_array() + 0.5, rows="predicted")
    plain, result = (find_multipliers(q, labels, each) for each in (costs, raised))
    assert result.total_cost == pytest.approx(plain.total_cost + 50)
    np.testing.assert_allclose(result.values, plain.values, rtol=1e-9)


Q, Y, C3 = [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], [0, 2], CostMatrix.from_array(1 - np.eye(3), rows="actual")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"probabilities": [[0.5, np.nan, 0.2], [0.2, 0.2, 0.6]]}, ValueError, "must be finite, got nan"),
        ({"probabilities": [0.5, 0.2]}, ValueError, r"must have shape \(n, 3\), got \(2,\)"),
        ({"probabilities": [[0.5, 0.5, 0.5], [0.2, 0.2, 0.6]]}, ValueError, "must sum to 1"),
        ({"labels": [0, 3]}, ValueError, "class numbers from 0 to 2, got values from 0 to 3"),
        ({"labels": [0]}, ValueError, "labels has 1 entries, expected 2"),
        ({"costs": np.eye(3)}, TypeError, "costs must be a CostMatrix"),
        ({"weights": [1, 2]}, ValueError, "weights must be 3 positive numbers"),
        ({"start": [1, 2, 0]}, ValueError, "start must be 3 positive numbers"),
        ({"n_standard_errors": -1}, ValueError, "n_standard_errors must be a finite number"),
        ({"sample_weight": [1, -1]}, ValueError, "sample_weight must not be negative"),
    ],
)
def test_find_multipliers_refuses(change, error, message):
    with pytest.raises(error, match=message):
        find_multipliers(**({"probabilities": Q, "labels": Y, "costs": C3} | change))


@pytest.mark.parametrize("scale", [1 / 3, 0.7, 1e-7 / 9, 1e5 / 11])
def test_standard_errors_do_not_depend_on_the_unit_of_the_costs(scale):
    # one row apart, an excess equals its standard error: a tie that rounding must not break
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 4, 300)
    scores = 0.7 * rng.dirichlet(np.ones(4), 300) + 0.3 * np.eye(4)[labels]
    matrix = (1.0 + 9.0 * rng.random((4, 4))) * (1.0 - np.eye(4))
    own, other = (
        find_multipliers(
            scores, labels, CostMatrix.from_array(factor * matrix, rows="predicted"), n_standard_errors=1.0
        )
        for factor in (1.0, scale)
    )
    assert other.values == pytest.approx(own.values, rel=1e-9)
    assert other.total_cost == pytest.approx(own.total_cost * scale, rel=1e-9)
