"""The exact search against brute force, scikit-learn, and its own promises."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix_at_thresholds

from adacsl import CostMatrix, cost_curve, find_threshold
from adacsl.metrics.bins import UniformBins
from adacsl.thresholds import paper_grid
from adacsl.thresholds.search import subgroup_thresholds

TIED = st.sampled_from([0.0, -0.0, 5e-324, 1e-310, 0.1, 0.25, 0.3, 0.5, 0.5 + 2**-53, 0.75, 1.0 - 2**-53, 1.0])
SCORE = st.one_of(TIED, st.floats(0.0, 1.0))
COST = st.sampled_from([1, 2, 3, 5, 8, 13])
TARGET = st.sampled_from([0.05, 0.3, 0.5, 0.8])


@st.composite
def samples(draw, score=SCORE, min_size=1, max_size=14):
    """Scores and labels of a few samples, with many ties."""
    rows = draw(st.lists(st.tuples(score, st.booleans()), min_size=min_size, max_size=max_size))
    return np.array([s for s, _ in rows]), np.array([int(y) for _, y in rows])


def ulps(value):
    return 4 * np.spacing(abs(value) + 1e-300)


def random_case(seed, n=60):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(0.8, 1.2, n), rng.integers(1, 4))
    labels = (rng.random(n) < scores).astype(int)
    return scores, labels, rng


# the exact optimum


@given(samples(), COST, COST, TARGET)
def test_find_threshold_equals_brute_force(brute, data, fp, fn, target_threshold):
    scores, labels = data
    best = brute.optimum(scores, labels, fp=fp, fn=fn)
    result = find_threshold(scores, labels, CostMatrix(fp=fp, fn=fn), target_threshold=target_threshold)
    assert result.total_cost == best.cost
    assert brute.cost_at(result.value, scores, labels, fp, fn) == best.cost
    assert abs(result.value - target_threshold) <= brute.distance(target_threshold, best.intervals) + ulps(1.0)
    # the interval holds optimal thresholds only, and is no part of a larger one
    assert result.low <= result.value <= result.high
    inside = [result.low, *[s for s in scores if result.low <= s < result.high]]
    assert all(brute.cost_at(t, scores, labels, fp, fn) == best.cost for t in inside)
    below = [s for s in {0.0, *scores} if s < result.low]
    if below and result.low > 0:
        assert brute.cost_at(max(below), scores, labels, fp, fn) > best.cost
    if result.high in scores and result.high < 1:
        assert brute.cost_at(result.high, scores, labels, fp, fn) > best.cost


@given(st.data())
def test_find_threshold_with_instance_costs_benefits_and_weights_equals_brute_force(brute, data):
    scores, labels = data.draw(samples(max_size=8))
    n = len(scores)

    def vector(values):
        return np.array(data.draw(st.lists(st.sampled_from(values), min_size=n, max_size=n)), dtype=float)

    tp, tn = vector([-2, 0, 1]), vector([-1, 0])
    fp, fn = tn + vector([0, 1, 2, 7]), tp + vector([0, 1, 4, 9])
    fp[0], fn[-1] = tn[0] + 3, tp[-1] + 5
    weight = vector([0, 1, 2, 3])
    weight[0] += 1
    each = {"fp": fp, "fn": fn, "tp": tp, "tn": tn, "weight": weight}
    best = brute.optimum(scores, labels, **each)
    result = find_threshold(
        scores, labels, CostMatrix(fp=fp, fn=fn, tp=tp, tn=tn), sample_weight=weight, target_threshold=0.4
    )
    assert result.total_cost == pytest.approx(float(best.cost), abs=1e-9)
    assert brute.cost_at(result.value, scores, labels, **each) == best.cost
    assert abs(result.value - 0.4) <= brute.distance(0.4, best.intervals) + ulps(1.0)


@pytest.mark.parametrize("seed", range(40))
def test_all_libraries_and_sklearn_agree(seed, brute):
    strict = pytest.importorskip("array_api_strict")
    scores, labels, rng = random_case(seed)
    fp, fn = rng.integers(1, 6), rng.integers(6, 30)
    costs = CostMatrix(fp=fp, fn=fn)
    result = find_threshold(scores, labels, costs, target_threshold=0.35)
    for as_array in (torch.tensor, strict.asarray):
        assert result == find_threshold(as_array(scores), as_array(labels), costs, target_threshold=0.35)
    if len(set(labels)) == 2:
        _, false_positives, false_negatives, _, _ = confusion_matrix_at_thresholds(labels, scores)
        everything_negative = fn * labels.sum()
        assert result.total_cost == min((fp * false_positives + fn * false_negatives).min(), everything_negative)
    assert result.total_cost == brute.optimum(scores, labels, fp=int(fp), fn=int(fn)).cost


def test_cost_curve_equals_sklearn_at_every_threshold(library):
    scores, labels, _ = random_case(3, n=300)
    curve = cost_curve(library.asarray(scores), library.asarray(labels), CostMatrix(fp=2, fn=7))
    _, fps, fns, _, at = confusion_matrix_at_thresholds(labels, scores)
    thresholds, costs = library.to_numpy(curve.thresholds), library.to_numpy(curve.total_costs)
    # scikit-learn decides score >= t: its threshold at a score is ours at the next lower one
    fps, fns = (counts[np.argsort(at)][: len(costs) - 1] for counts in (fps, fns))
    np.testing.assert_array_equal(thresholds[1:], np.unique(scores))
    np.testing.assert_array_equal(costs[:-1], 2 * fps + 7 * fns)
    np.testing.assert_array_equal(library.to_numpy(curve.false_negatives)[:-1] / 7, fns)
    np.testing.assert_array_equal(library.to_numpy(curve.false_positives)[:-1] / 2, fps)
    assert costs[-1] == 7 * labels.sum()


@given(samples(), COST, COST)
def test_cost_curve_equals_brute_force(brute, data, fp, fn):
    scores, labels = data
    curve = cost_curve(scores, labels, CostMatrix(fp=fp, fn=fn, tp=-1, tn=0.5))
    assert len(curve.thresholds) == len(set(scores.tolist())) + 1
    for threshold, cost in zip(curve.thresholds, curve.total_costs, strict=True):
        assert cost == brute.cost_at(threshold, scores, labels, fp, fn, tp=-1, tn=0.5)
    assert np.all(np.diff(curve.thresholds) > 0)


# ties


@pytest.mark.parametrize(
    ("scores", "labels", "target_threshold", "value"),
    [
        ([0.2, 0.8], [0, 1], 0.5, 0.5),  # the optimum [0.2, 0.8) holds the target
        ([0.2, 0.8], [0, 1], 0.1, 0.2),  # nearest end from below
        ([0.2, 0.5], [0, 1], 0.9, np.nextafter(0.5, 0)),  # the upper end is open
        ([0.2, 0.5], [0, 1], 0.5, np.nextafter(0.5, 0)),
        ([0.1, 0.2], [0, 0], 0.5, 0.5),  # all negative: no change
        ([0.8, 0.9], [1, 1], 0.5, 0.5),  # all positive: no change
        ([0.1, 0.2], [1, 1], 0.5, np.nextafter(0.1, 0)),
        ([0.8, 0.9], [0, 0], 0.5, 0.9),
        ([0.5, 0.5], [0, 0], 0.5, 0.5),
        ([0.5, 0.5], [1, 1], 0.5, np.nextafter(0.5, 0)),
        ([1.0, 1.0], [0, 0], 0.5, 1.0),
    ],
)
def test_ties_go_to_the_point_nearest_the_target(scores, labels, target_threshold, value):
    result = find_threshold(scores, labels, CostMatrix(fp=1, fn=3), target_threshold=target_threshold)
    assert result.value == value
    assert result.total_cost == 0


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_score_of_zero_that_must_be_positive_gets_a_threshold_below_zero(zero):
    result = find_threshold([zero, 0.6], [1, 1], CostMatrix(fp=1, fn=3))
    assert result.total_cost == 0
    assert -1e-30 < result.value < 0
    assert result.low == result.value


def test_negative_zero_equals_zero():
    curve = cost_curve(np.array([0.0, -0.0, 0.5]), [1, 0, 1], CostMatrix(fp=1, fn=3))
    assert curve.total_costs.tolist() == [1.0, 3.0, 6.0]
    single = cost_curve(np.float32([0.0, -0.0, 0.5]), [1, 0, 1], CostMatrix(fp=np.ones(3), fn=np.full(3, 3.0)))
    assert single.total_costs.tolist() == [1.0, 3.0, 6.0]


def test_of_separate_optimal_intervals_the_nearest_is_returned():
    result = find_threshold([0.1, 0.2, 0.8, 0.9], [1, 0, 1, 0], CostMatrix(fp=1, fn=2), target_threshold=0.6)
    #  costs by threshold: 2 (below 0.1), 4, 3, 5, 4 -> only the lowest
    assert (result.total_cost, result.low, result.high) == (2.0, 0.0, 0.1)
    scores, labels = [0.1, 0.2, 0.5, 0.8], [0, 1, 0, 1]
    for target_threshold, low, high in ((0.15, 0.1, 0.2), (0.7, 0.5, 0.8)):
        result = find_threshold(scores, labels, CostMatrix(fp=1, fn=1), target_threshold=target_threshold)
        assert (result.value, result.total_cost, result.low, result.high) == (target_threshold, 1.0, low, high)


@pytest.mark.parametrize("fp", [0.1, np.full(4, 0.1)], ids=["class-wide", "per sample"])
def test_costs_equal_but_for_rounding_are_ties(fp):
    # three false positives of 0.1 (0.30000000000000004) or one false negative of 0.3
    low, high = (
        find_threshold([0.2, 0.4, 0.6, 0.8], [1, 0, 0, 0], CostMatrix(fp=fp, fn=0.3), target_threshold=target)
        for target in (0.1, 0.9)
    )
    assert (low.value, low.low, low.high, high.value) == (0.1, 0.0, 0.2, 0.9)


def test_sample_without_cost_at_the_target_moves_nothing():
    result = find_threshold([0.2, 0.5, 0.9], [0, 0, 1], CostMatrix(fp=[1, 0, 1], fn=1), target_threshold=0.5)
    assert result == (0.5, 0.0, 0.0, 0.2, 0.9)


# candidates


@given(samples(), COST, COST, TARGET)
def test_candidates_are_the_only_thresholds_tried(brute, data, fp, fn, target_threshold):
    scores, labels = data
    grid = [0.9, 0.0, 0.25, 0.5, 0.3]
    costs = CostMatrix(fp=fp, fn=fn)
    result = find_threshold(scores, labels, costs, target_threshold=target_threshold, candidates=grid)
    by_threshold = {t: brute.cost_at(t, scores, labels, fp, fn) for t in grid}
    assert result.value in grid
    assert result.total_cost == min(by_threshold.values()) == by_threshold[result.value]
    optimal = [t for t in grid if by_threshold[t] == result.total_cost]
    assert abs(result.value - target_threshold) == min(abs(t - target_threshold) for t in optimal)
    assert all(by_threshold[t] == result.total_cost for t in grid if result.low <= t <= result.high)


def test_paper_grid_is_the_papers():
    assert paper_grid().tolist() == [k / 200 for k in range(181)]


# the value is attained, in every precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["exact", "grid", "instances"])
def test_returned_value_is_attained_in_own_and_wide_comparisons(brute, dtype, kind):
    generator = torch.Generator().manual_seed(0)
    for seed, target_threshold in itertools.product(range(3), [0.5, 0.3, 1 / 3, 0.999]):
        n = 25
        scores = torch.rand(n, generator=generator, dtype=torch.float64) ** (1 + seed)
        if seed == 0:
            scores[:4] = torch.tensor([0.0, 1.0, target_threshold, 0.3])
        scores = scores.to(dtype)
        labels = torch.rand(n, generator=generator) < (0.1 + 0.8 * scores.float()) / (1 + seed % 2)
        fp, fn = 1 + seed, 4 + 3 * seed
        costs = CostMatrix(fp=fp, fn=fn) if kind != "instances" else CostMatrix(fp=torch.full((n,), fp), fn=fn)
        candidates = paper_grid() if kind == "grid" else None
        result = find_threshold(scores, labels, costs, target_threshold=target_threshold, candidates=candidates)
        for decisions in (scores > result.value, scores.double() > result.value):
            cost = fp * int((decisions & ~labels).sum()) + fn * int((~decisions & labels).sum())
            assert cost == result.total_cost
        if kind != "grid":
            assert result.total_cost == brute.optimum(scores.double().tolist(), labels.tolist(), fp=fp, fn=fn).cost


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_subnormal_scores_are_distinguished(dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    scores = np.array([0.0, tiny, 2 * tiny], dtype=dtype)
    result = find_threshold(scores, [0, 0, 1], CostMatrix(fp=1, fn=1), target_threshold=0.5)
    assert result.total_cost == 0
    assert (scores > dtype(result.value)).tolist() == [False, False, True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f4", ">f8", np.float16])
def test_numpy_dtypes_and_layouts_agree(dtype):
    scores, labels, _ = random_case(11)
    wide = find_threshold(np.asarray(scores, dtype=dtype).astype(np.float64), labels, CostMatrix(fp=1, fn=4))
    strided = np.zeros((len(scores), 3), dtype=dtype)
    strided[:, 1] = scores
    strided.flags.writeable = False
    result = find_threshold(strided[:, 1], labels, CostMatrix(fp=1, fn=4))
    assert result.total_cost == wide.total_cost
    assert result.value == pytest.approx(wide.value, abs=2e-3)


@pytest.mark.parametrize(("fp", "fn"), [(1e-9, 1e9), (1e9, 1e-9), (1e-9, 3e-9), (1e9, 3e9), (0.1, 0.3)])
def test_extreme_costs_are_exact_up_to_rounding(brute, fp, fn):
    scores, labels, _ = random_case(5)
    best = float(brute.optimum(scores, labels, fp=fp, fn=fn).cost)
    assert find_threshold(scores, labels, CostMatrix(fp=fp, fn=fn)).total_cost == pytest.approx(best, rel=1e-12)


@pytest.mark.slow
def test_ten_million_scores_keep_exact_counts():
    n = 10_000_000
    rng = np.random.default_rng(0)
    scores = rng.random(n, dtype=np.float32)
    labels = rng.random(n, dtype=np.float32) < scores
    result = find_threshold(scores, labels, CostMatrix(fp=1, fn=3))
    decided = scores > np.float32(result.value)
    counted = int(np.count_nonzero(decided & ~labels)) + 3 * int(np.count_nonzero(~decided & labels))
    assert result.total_cost == counted
    assert result.value == pytest.approx(0.25, abs=0.01)
    constant = find_threshold(np.full(n, 0.5, dtype=np.float16), labels, CostMatrix(fp=1, fn=3))
    assert constant.total_cost == min(n - np.count_nonzero(labels), 3 * np.count_nonzero(labels))


# metamorphic


@given(samples(), COST, COST, TARGET, st.data())
def test_what_changes_no_threshold(data, fp, fn, target_threshold, draw):
    """The order, repeated samples, costs per sample that are equal, the unit of costs, a constant per true class."""
    scores, labels = data
    n = len(scores)

    def search(scores=scores, labels=labels, **costs):
        costs = CostMatrix(**({"fp": fp, "fn": fn} | costs))
        return find_threshold(scores, labels, costs, target_threshold=target_threshold)

    plain, order = search(), draw.draw(st.permutations(range(n)))
    assert search(scores[order], labels[order]) == plain
    assert search(np.tile(scores, 2), np.tile(labels, 2)) == plain._replace(total_cost=2 * plain.total_cost)
    assert search(fp=np.full(n, fp), fn=np.full(n, fn)) == plain
    scale = draw.draw(st.sampled_from([2.0**-40, 0.125, 4.0, 2.0**30, 3.0, 0.1]))
    scaled = search(fp=fp * scale, fn=fn * scale)
    assert (scaled.value, scaled.low, scaled.high) == (plain.value, plain.low, plain.high)
    assert scaled.total_cost == pytest.approx(plain.total_cost * scale)
    tp, tn = draw.draw(st.sampled_from([-4, 3, 64])), draw.draw(st.sampled_from([-2, 5]))
    moved = search(fp=fp + tn, tn=tn, fn=fn + tp, tp=tp)
    assert (moved.value, moved.low, moved.high) == (plain.value, plain.low, plain.high)
    assert moved.total_cost == plain.total_cost + tp * labels.sum() + tn * (1 - labels).sum()


@given(samples(), samples(), COST, COST, st.data())
def test_repeated_samples_equal_weight_two_and_removed_ones_weight_zero(data, ghosts, fp, fn, draw):
    (scores, labels), (more_scores, more_labels) = data, ghosts
    costs = CostMatrix(fp=fp, fn=fn)
    twice = np.array(draw.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores))))
    weighted = find_threshold(scores, labels, costs, sample_weight=1 + twice)
    assert weighted == find_threshold(np.r_[scores, scores[twice]], np.r_[labels, labels[twice]], costs)
    weight = np.r_[np.ones(len(scores)), np.zeros(len(more_scores))]
    weighted = find_threshold(
        np.r_[scores, more_scores], np.r_[labels, more_labels], costs, sample_weight=weight, target_threshold=0.4
    )
    removed = find_threshold(scores, labels, costs, target_threshold=0.4)
    assert (weighted.total_cost, weighted.value, weighted.high) == (removed.total_cost, removed.value, removed.high)


@given(samples(score=st.sampled_from([k / 64 for k in range(65)])), COST, COST)
def test_swapping_the_classes_mirrors_the_interval(data, fp, fn):
    scores, labels = data
    plain = find_threshold(scores, labels, CostMatrix(fp=fp, fn=fn), target_threshold=0.5)
    mirrored = find_threshold(1 - scores, 1 - labels, CostMatrix(fp=fn, fn=fp), target_threshold=0.5)
    assert mirrored.total_cost == plain.total_cost
    assert abs(mirrored.value - 0.5) == pytest.approx(abs(plain.value - 0.5), abs=1e-12)


@given(samples(), COST, COST)
def test_monotone_transform_leaves_the_cost(data, fp, fn):
    scores, labels = data
    ranks = np.unique(scores, return_inverse=True)[1] / 20
    costs = CostMatrix(fp=fp, fn=fn)
    assert find_threshold(ranks, labels, costs).total_cost == find_threshold(scores, labels, costs).total_cost


# subgroups


@settings(max_examples=40)
@given(samples(min_size=2), COST, COST, TARGET, st.booleans())
def test_subgroups_in_one_pass_equal_one_search_each(data, fp, fn, target_threshold, weighted):
    scores, labels = data
    numbers = UniformBins(4)(scores)
    costs = CostMatrix(fp=np.full(len(scores), fp), fn=np.arange(len(scores)) + fn)
    weight = np.arange(len(scores)) % 3 + 1.0 if weighted else np.ones(len(scores))
    settings_ = {"target_threshold": target_threshold}
    result, sizes = subgroup_thresholds(scores, labels, costs, numbers, sample_weight=weight, **settings_)
    assert sizes == [float(weight[numbers == m].sum()) for m in np.unique(numbers)]
    for threshold, m in zip(result, np.unique(numbers), strict=True):
        own = numbers == m
        given_weight = weight[own] if weighted else None
        alone = find_threshold(scores[own], labels[own], costs.rows(own), sample_weight=given_weight, **settings_)
        assert threshold == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("target_threshold", [0.05, 0.5, 0.8])
def test_search_in_the_subgroups_own_interval_stays_there(brute, dtype, target_threshold):
    rng = np.random.default_rng(2)
    scores = np.r_[rng.random(80), np.arange(11) / 10].astype(dtype)
    labels = rng.random(91) < 0.4
    partition = UniformBins(10)
    wide = scores.astype(np.float32) if dtype == np.float16 else scores
    numbers, edges = partition(wide), [float(e) for e in partition.edges(wide)]
    result, _ = subgroup_thresholds(
        scores, labels, CostMatrix(fp=1, fn=2), numbers, target_threshold=target_threshold, edges=edges
    )
    for m, threshold in enumerate(result):
        member = numbers == m
        assert edges[m] - 1e-3 <= threshold.value <= edges[m + 1] + 1e-3
        assert threshold.low <= threshold.value <= threshold.high
        best = brute.optimum(scores[member].astype(float), labels[member], fp=1, fn=2)
        assert threshold.total_cost == best.cost
        for decided in (scores[member] > dtype(threshold.value), scores[member].astype(float) > threshold.value):
            assert np.sum(decided & ~labels[member]) + 2 * np.sum(~decided & labels[member]) == best.cost


def test_one_sided_subgroups_end_at_the_border_nearest_the_target():
    scores, labels = np.array([0.15, 0.16, 0.95, 0.96]), np.array([0, 0, 1, 1])
    edges = [m / 10 for m in range(11)]
    result, _ = subgroup_thresholds(
        scores, labels, CostMatrix(fp=1, fn=2), UniformBins(10)(scores), target_threshold=0.5, edges=edges
    )
    assert [t.value for t in result] == [0.2, 0.9]


# scores of any size

ANY = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@given(st.lists(st.tuples(ANY, st.booleans()), min_size=1, max_size=12), st.integers(1, 5), st.integers(1, 5))
def test_logits_and_points_have_their_optimal_threshold_too(kind, rows, fp, fn):
    scores, labels = np.asarray([score for score, _ in rows]), np.asarray([label for _, label in rows])

    def cost_at(threshold):
        return fn * labels[scores <= threshold].sum() + fp * (~labels)[scores > threshold].sum()

    result = find_threshold(kind(scores), kind(labels), CostMatrix(fp=fp, fn=fn))
    least = min(map(cost_at, [scores.min() - 1.0, *np.unique(scores)]))
    assert cost_at(result.value) == cost_at(result.low) == result.total_cost == least
    assert result.low <= result.value <= result.high
    curve = cost_curve(kind(scores), kind(labels), CostMatrix(fp=fp, fn=fn))
    assert [cost_at(float(t)) for t in curve.thresholds] == curve.total_costs.tolist()


# what is refused

SCORES, LABELS, COSTS = [0.2, 0.4, 0.9], [0, 1, 1], CostMatrix(fp=1, fn=2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"scores": [0.2, np.nan, 0.9]}, ValueError, "scores must be finite, got nan at position 1"),
        ({"scores": [np.inf, 0.4, np.inf]}, ValueError, r"scores must be finite, got inf at .* 0 \(2 such values\)"),
        ({"scores": [-3.0, 0.4, 2.5], "target_threshold": 0.2}, ValueError, r"got .* from -3 to 2.5; apply a sigmoid"),
        ({"scores": [-3.0, 0.4, 2.5], "candidates": [0.5]}, ValueError, "and n_standard_errors need probabilities"),
        ({"scores": [[0.2, 0.8]] * 3}, ValueError, r"of two columns take the positive class's, such as \[:, 1\]"),
        ({"scores": [[0.2, 0.3, 0.5]] * 3}, ValueError, "give costs of 3 classes, CostMatrix.from_array"),
        ({"scores": [], "labels": []}, ValueError, "scores is empty"),
        ({"scores": [[0.2], [0.4], [0.9]]}, ValueError, r"scores must be one-dimensional, got shape \(3, 1\)"),
        ({"scores": ["a", "b", "c"]}, TypeError, "scores must be numbers, got an array of <U1"),
        ({"labels": [0, 1, 2]}, ValueError, r"labels must be 0 or 1, got 2 among others \(1 of 3\)"),
        ({"labels": [-1, 1, 1]}, ValueError, "labels must be 0 or 1, got -1"),
        ({"labels": [0, 1, np.nan]}, ValueError, "labels must be 0 or 1, got nan"),
        ({"labels": [0, 0.5, 1]}, ValueError, "labels must be 0 or 1, got 0.5"),
        ({"labels": ["no", "yes", "yes"]}, TypeError, "labels must be numbers"),
        ({"labels": [0, 1]}, ValueError, "labels has 2 entries, expected 3"),
        ({"labels": [[0], [1], [1]]}, ValueError, "labels must be one-dimensional"),
        ({"costs": {"fp": 1}}, TypeError, r"a CostMatrix, got a mapping: CostMatrix\(\*\*"),
        ({"costs": 1 - np.eye(3)}, TypeError, r"an array of 3 x 3: state what its rows are, CostMatrix\.from_array"),
        ({"costs": CostMatrix.from_array(1 - np.eye(3), rows="actual")}, ValueError, "has 3: more than two have no"),
        ({"costs": CostMatrix(fp=[1, 2], fn=1)}, ValueError, "belong to 2 samples, got 3"),
        ({"sample_weight": [1, 1]}, ValueError, "sample_weight has 2 entries"),
        ({"sample_weight": [1, 1, -1]}, ValueError, "sample_weight must not be negative"),
        ({"sample_weight": [0, 0, 0]}, ValueError, "sample_weight is zero everywhere"),
        ({"sample_weight": [1, np.nan, 1]}, ValueError, "sample_weight must be finite"),
        ({"sample_weight": [[1], [1], [1]]}, ValueError, "sample_weight must be one-dimensional"),
        ({"target_threshold": 0.0}, ValueError, "target_threshold must lie strictly between 0 and 1"),
        ({"target_threshold": 1.0}, ValueError, "target_threshold must lie strictly between 0 and 1"),
        ({"target_threshold": np.nan}, ValueError, "target_threshold must lie strictly between 0 and 1"),
        ({"n_standard_errors": -1.0}, ValueError, "n_standard_errors must be a finite number of standard errors"),
        ({"n_standard_errors": np.inf}, ValueError, "n_standard_errors must be a finite number of standard errors"),
        ({"n_standard_errors": np.nan}, ValueError, "n_standard_errors must be a finite number of standard errors"),
        ({"candidates": []}, ValueError, "candidates is empty"),
        ({"candidates": [0.5, np.inf]}, ValueError, "candidates must be finite"),
        ({"candidates": [-0.5, 1.5]}, ValueError, "no candidate threshold lies between 0 and 1"),
    ],
)  # fmt: skip
def test_find_threshold_refuses(change, error, message):
    arguments = {"scores": SCORES, "labels": LABELS, "costs": COSTS} | change
    with pytest.raises(error, match=message):
        find_threshold(**arguments)


def test_partition_of_another_length_is_refused():
    with pytest.raises(ValueError, match="the partition numbered 2 of 3 samples"):
        subgroup_thresholds(np.array(SCORES), LABELS, COSTS, np.array([0, 1]), target_threshold=0.5)


# n_standard_errors


def threshold_by_definition(scores, stakes, own, n_standard_errors):
    """How many samples are predicted negative, by definition: exact stakes, every threshold tried."""
    order = np.argsort(scores, kind="stable")
    # > 0: a false negative more, < 0: a false positive less
    stakes = [Fraction(float(s)) for s in np.asarray(stakes)[order]]
    ranked = np.asarray(scores)[order]
    places = [k for k in range(len(stakes) + 1) if k in (0, len(stakes)) or ranked[k - 1] != ranked[k]]
    cost = {k: sum(stakes[:k]) for k in places}  # up to a constant
    least = min(cost.values())
    best = min((k for k in places if cost[k] == least), key=lambda k: (abs(k - own), k))

    def allowed(k):
        between = stakes[min(k, best) : max(k, best)]
        return (cost[k] - least) ** 2 <= Fraction(n_standard_errors) ** 2 * sum(s * s for s in between)

    return min((k for k in places if min(best, own) <= k <= max(best, own) and allowed(k)), key=lambda k: abs(k - own))


@given(samples(), COST, COST, TARGET, st.sampled_from([0.5, 1.0, 1.25, 2.0, 10.0]), st.booleans())
def test_threshold_within_standard_errors_equals_its_definition(
    data, fp, fn, target_threshold, n_standard_errors, weighted
):
    scores, labels = data
    weight = np.arange(1, len(labels) + 1) / 4.0 if weighted else None
    settings = {"target_threshold": target_threshold, "sample_weight": weight, "n_standard_errors": n_standard_errors}
    result = find_threshold(scores, labels, CostMatrix(fp=fp, fn=fn), **settings)
    stakes = np.where(labels == 1, fn, -fp) * (1.0 if weight is None else weight)
    expected = threshold_by_definition(scores, stakes, int(np.sum(scores <= target_threshold)), n_standard_errors)
    assert int(np.sum(scores <= result.value)) == expected


@given(samples(), COST, COST, TARGET)
def test_more_standard_errors_never_move_further_from_the_target(data, fp, fn, target_threshold):
    (scores, labels), costs = data, CostMatrix(fp=fp, fn=fn)
    thresholds = [
        find_threshold(scores, labels, costs, target_threshold=target_threshold, n_standard_errors=c).value
        for c in (0, 1, 2, 1e6)
    ]
    moves = [abs(value - target_threshold) for value in thresholds]
    assert moves == sorted(moves, reverse=True)
    assert moves[-1] == 0.0


@pytest.mark.parametrize(
    ("library", "kind"), [("numpy", "class-wide"), ("torch", "class-wide"), ("torch", "per sample"),
                          ("numpy", "candidates")]
)  # fmt: skip
def test_one_sample_does_not_move_a_threshold_beyond_its_standard_error_and_many_do(library, kind):
    negatives = np.linspace(0.01, 0.2, 50)
    for positives, moves in ((1, False), (9, True)):
        scores = np.concatenate((negatives, np.full(positives, 0.3), np.linspace(0.8, 0.99, 30))).astype(np.float32)
        labels = (np.arange(len(scores)) >= 50).astype(int)
        fn = np.full(len(scores), 7.0) if kind == "per sample" else 7.0
        given = {"candidates": paper_grid()} if kind == "candidates" else {}
        array = torch.from_numpy(scores) if library == "torch" else scores
        costs = CostMatrix(fp=1, fn=fn)
        assert find_threshold(array, labels, costs, **given).value < 0.3
        assert (find_threshold(array, labels, costs, n_standard_errors=1.0, **given).value < 0.5) == moves


@given(samples(), COST, COST, st.data())
def test_cost_is_the_mean_and_total_cost_the_sum(data, fp, fn, draw):
    scores, labels = data
    drawn = np.asarray(draw.draw(st.lists(st.integers(0, 3), min_size=len(scores), max_size=len(scores))), float)
    costs = CostMatrix(fp=fp, fn=fn, tp=0.5, tn=-0.25)
    for weight in (None, drawn if drawn.any() else drawn + 1):
        result = find_threshold(scores, labels, costs, sample_weight=weight)
        curve = cost_curve(scores, labels, costs, sample_weight=weight)
        rows = zip(curve.thresholds, curve.costs, curve.total_costs, strict=True)
        for threshold, mean, total in ((result.value, result.cost, result.total_cost), *rows):
            each = costs.incurred(labels, (np.asarray(scores) > threshold).astype(int))
            assert mean == pytest.approx(float(np.average(each, weights=weight)))
            assert total == pytest.approx(float(np.sum(each * (1.0 if weight is None else weight))))


def test_a_subgroup_without_weight_has_no_mean():
    numbers, weight = np.array([0, 0, 1, 1]), np.array([0.0, 0.0, 1.0, 3.0])
    result, sizes = subgroup_thresholds(
        np.array([0.2, 0.4, 0.6, 0.8]), [0, 1, 1, 0], CostMatrix(fp=1, fn=2), numbers,
        target_threshold=0.5, sample_weight=weight,
    )  # fmt: skip
    assert sizes == [0.0, 4.0]
    assert result[0].total_cost == 0.0
    assert np.isnan(result[0].cost)
    assert (result[1].cost, result[1].total_cost) == (0.5, 2.0)
