"""Constraints with confidence against scipy, brute force over all thresholds, and drawn data with a known law."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import beta, binom, norm

from adacsl import CostMatrix, find_threshold
from adacsl.thresholds.constraints import (
    GRID,
    Constraints,
    Counts,
    InfeasibleError,
    binomial_tail,
    holm,
    most_errors,
    upper_bound,
)

COSTS = CostMatrix(fp=1, fn=3)
SHARES = st.sampled_from([0.02, 0.1, 0.3, 0.5, 0.8, 0.95])


def draw(n=400, seed=0, digits=None, prior=0.3):
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < prior).astype(int)
    scores = expit(rng.normal(2.0 * labels - 1.5, 1.0))
    return (scores if digits is None else np.round(scores, digits)), labels


def counts_at(scores, labels, threshold):
    """False negatives, false positives, predicted positives of one threshold."""
    decided = scores > threshold
    return int((~decided & (labels == 1)).sum()), int((decided & (labels == 0)).sum()), int(decided.sum())


def cost_at(scores, labels, threshold, fn=3.0, weight=1.0):
    decided = scores > threshold
    return float((weight * np.where(labels == 1, fn * ~decided, 1.0 * decided)).sum())


def certified(scores, labels, threshold, limits, confidence=0.95):
    """Whether one threshold meets monotone constraints, by scipy's distribution."""
    negative, positive, above = counts_at(scores, labels, threshold)
    positives, error = int(labels.sum()), (1.0 - confidence) / len(limits)
    tests = {
        "min_recall": lambda v: binom.cdf(negative, positives, 1.0 - v),
        "max_fpr": lambda v: binom.cdf(positive, len(labels) - positives, v),
        "max_positive_rate": lambda v: binom.cdf(above, len(labels), v),
    }
    return all(tests[name](value) <= error for name, value in limits.items())


def allowed_thresholds(scores, meets):
    return [t for t in np.append(np.unique(scores), -1.0) if meets(t)]


def check(find, scores, labels, meets, **costs):
    """Compare a search with the least cost among the thresholds that meet constraints; return what it found."""
    allowed = allowed_thresholds(scores, meets)
    if not allowed:
        with pytest.raises(InfeasibleError):
            find()
        return None
    result = find()
    least = min(cost_at(scores, labels, t, **costs) for t in allowed)
    assert result.total_cost == pytest.approx(least) == cost_at(scores, labels, result.value, **costs)
    assert meets(result.value)
    return result


# the binomial distribution


@settings(max_examples=100)
@given(st.integers(1, 5000), SHARES, st.floats(-4.0, 4.0))
def test_binomial_tail_equals_scipy(n, q, z):
    x = int(np.clip(n * q + z * math.sqrt(n * q * (1 - q)), -1, n))
    assert binomial_tail(x, n, q) == pytest.approx(binom.cdf(x, n, q), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("n", [10**5, 10**7])
def test_binomial_tail_of_many_samples(n):
    for q in (1e-5, 0.01, 0.3):
        x = int(n * q - 2 * math.sqrt(n * q))
        assert binomial_tail(x, n, q) == pytest.approx(binom.cdf(x, n, q), rel=1e-8)


@given(st.integers(0, 400), SHARES, st.sampled_from([0.001, 0.05, 0.2]))
def test_most_errors_is_the_largest_that_is_certified(n, q, error):
    x = most_errors(n, q, error)
    assert x == -1 or binom.cdf(x, n, q) <= error * (1 + 1e-9)
    assert binom.cdf(x + 1, n, q) > error * (1 - 1e-9)


@given(st.integers(1, 400), st.data())
def test_upper_bound_equals_the_beta_quantile(n, data):
    x = data.draw(st.integers(0, n - 1))
    assert upper_bound(x, n, 0.05) == pytest.approx(beta.ppf(0.95, x + 1, n - x), abs=1e-9)
    assert upper_bound(n, n, 0.05) == 1.0  # errors everywhere


def test_holm_rejects_at_least_what_bonferroni_does():
    rng = np.random.default_rng(0)
    for _ in range(50):
        tails = (rng.random(12) ** 3).tolist()
        rejected = holm(tails, 12, 0.05)
        assert all(r for r, p in zip(rejected, tails, strict=True) if p <= 0.05 / 12)
        cut = max((p for r, p in zip(rejected, tails, strict=True) if r), default=-1.0)
        assert all(r == (p <= cut) for r, p in zip(rejected, tails, strict=True))


# the search, against brute force over all thresholds


LIMITS = st.fixed_dictionaries(
    {}, optional={"min_recall": st.sampled_from([0.5, 0.8, 0.9]), "max_fpr": st.sampled_from([0.1, 0.4, 0.7]),
                  "max_positive_rate": st.sampled_from([0.2, 0.5, 0.8])}
).filter(bool)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(LIMITS, st.integers(0, 10_000), st.sampled_from([40, 150, 400]), st.sampled_from([1, 2, None]), st.booleans())
def test_monotone_constraints_equal_brute_force(limits, seed, n, digits, by_sample):
    scores, labels = draw(n, seed, digits)
    # costs of each sample take another path through the search
    fn = np.random.default_rng(seed).lognormal(1.0, 1.0, n) if by_sample else 3.0
    result = check(
        lambda: find_threshold(scores, labels, CostMatrix(fp=1, fn=fn), **limits), scores, labels,
        lambda t: certified(scores, labels, t, limits), fn=fn,
    )  # fmt: skip
    if result is not None:
        assert result.low <= result.value <= result.high
        assert certified(scores, labels, result.low, limits)


def empirical(scores, labels, threshold, limits, weight):
    decided = scores > threshold
    positive = labels == 1
    every = np.ones_like(decided)
    sums = {"min_recall": (decided & positive, positive), "min_precision": (decided & positive, decided),
            "max_fpr": (decided & ~positive, ~positive), "max_positive_rate": (decided, every)}  # fmt: skip
    for name, value in limits.items():
        over, under = (weight[which].sum() for which in sums[name])
        if under == 0 and name == "min_precision":
            return False
        share = over / under if under else 1.0 if name.startswith("min") else 0.0
        if (share < value - 1e-9) if name.startswith("min") else (share > value + 1e-9):
            return False
    return True


@settings(max_examples=80, deadline=None)
@given(
    st.fixed_dictionaries({}, optional={
        "min_recall": st.sampled_from([0.5, 0.9, 1.0]), "min_precision": st.sampled_from([0.3, 0.7, 1.0]),
        "max_fpr": st.sampled_from([0.0, 0.1, 0.4]), "max_positive_rate": st.sampled_from([0.2, 0.5])}).filter(bool),
    st.integers(0, 10_000), st.sampled_from([5, 20, 60]), st.sampled_from([1, 2, None]), st.booleans(),
)  # fmt: skip
def test_without_confidence_it_is_the_plain_floor(limits, seed, n, digits, weighted):
    scores, labels = draw(n, seed, digits)
    weight = np.random.default_rng(seed).integers(1, 4, n).astype(float) if weighted else np.ones(n)
    settings_ = limits | {"confidence": None, "sample_weight": weight if weighted else None}
    check(
        lambda: find_threshold(scores, labels, COSTS, **settings_), scores, labels,
        lambda t: empirical(scores, labels, t, limits, weight), weight=weight,
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([150, 600]), st.sampled_from([2, None]), st.sampled_from([0.4, 0.6]))
def test_precision_is_certified_at_fixed_numbers_of_predicted_positives(seed, n, digits, floor):
    scores, labels = draw(n, seed, digits)
    grid = Constraints(min_precision=floor).grid(n)
    fixed = np.unique(np.sort(scores)[n - grid - 1] if len(grid) else np.zeros(0))
    tails = []
    for t in fixed:
        _, positive, above = counts_at(scores, labels, t)
        tails.append(binom.cdf(positive, above, 1.0 - floor) if above else 1.0)
    # Bonferroni and Holm over the size of the grid, whatever ties leave of it
    allowed = []
    for done, place in enumerate(np.argsort(tails)):
        if tails[place] > 0.05 / (GRID - done):
            break
        allowed.append(fixed[place])
    check(lambda: find_threshold(scores, labels, COSTS, min_precision=floor), scores, labels, lambda t: t in allowed)


# one answer for every form of the same samples


@pytest.mark.parametrize(
    "limits", [{"min_recall": 0.9}, {"min_precision": 0.5}, {"min_recall": 0.7, "max_fpr": 0.4},
               {"min_precision": 0.4, "min_recall": 0.6}, {"min_precision": 0.6, "confidence": None}]
)  # fmt: skip
def test_same_decisions_for_torch_float32_logits_and_permuted_samples(limits):
    scores, labels = draw(800, 3)
    scores = scores.astype(np.float32)
    first = find_threshold(scores, labels, COSTS, **limits)
    order = np.random.default_rng(0).permutation(len(labels))
    assert find_threshold(scores[order], labels[order], COSTS, **limits) == first
    assert find_threshold(torch.tensor(scores), torch.tensor(labels), COSTS, **limits) == first
    logits = np.log(scores.astype(np.float64)) - np.log1p(-scores.astype(np.float64))
    outer = find_threshold(logits, labels, COSTS, **limits)
    assert ((logits > outer.value) == (scores > first.value)).all()
    scaled = find_threshold(scores, labels, CostMatrix(fp=10, fn=30), **limits)
    assert scaled.value == first.value


@given(st.sampled_from([0.6, 0.8, 0.9]), st.sampled_from([0.5, 0.9, 0.99]))
def test_more_confidence_and_a_higher_floor_never_cost_less(floor, confidence):
    scores, labels = draw(1500, 2)
    free = find_threshold(scores, labels, COSTS)
    plain = find_threshold(scores, labels, COSTS, min_recall=floor, confidence=None)
    sure = find_threshold(scores, labels, COSTS, min_recall=floor, confidence=confidence)
    assert free.total_cost <= plain.total_cost <= sure.total_cost
    assert find_threshold(scores, labels, COSTS, min_recall=0.4) == free  # does not bind


def test_candidates_are_the_only_thresholds_tried():
    scores, labels = draw(1500, 2)
    grid = np.linspace(0.01, 0.9, 20)
    result = find_threshold(scores, labels, COSTS, candidates=grid, min_recall=0.9)
    assert result.value in grid
    assert certified(scores, labels, result.value, {"min_recall": 0.9})
    assert find_threshold(scores, labels, COSTS, candidates=grid, min_precision=0.5).value in grid
    with pytest.raises(InfeasibleError, match=r"no threshold meets min_recall=0\.9"):
        find_threshold(scores, labels, COSTS, candidates=[0.8, 0.9], min_recall=0.9)


def test_near_the_target_within_the_noise_and_the_constraint():
    scores, labels = draw(1500, 2)
    near = find_threshold(scores, labels, COSTS, min_recall=0.9, n_standard_errors=2, target_threshold=0.9)
    assert certified(scores, labels, near.value, {"min_recall": 0.9})
    assert near.total_cost >= find_threshold(scores, labels, COSTS, min_recall=0.9).total_cost


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, None]), st.booleans(), st.booleans())
def test_recall_within_each_segment_equals_brute_force(seed, digits, other, sure):
    scores, labels = draw(600, seed, digits)
    segments = np.random.default_rng(seed + 20_000).choice(["north", "south", "east"], 600, p=[0.5, 0.3, 0.2])
    limits = {"min_recall": 0.8} | ({"max_positive_rate": 0.9} if other else {})
    error = 0.05 / (3 + other)

    def meets(t):
        for name in ("north", "south", "east"):
            own = (segments == name) & (labels == 1)
            negative, m = int((scores[own] <= t).sum()), int(own.sum())
            if binom.cdf(negative, m, 0.2) > error if sure else negative > 0.2 * m + 1e-9:
                return False
        above = int((scores > t).sum())
        return not other or (binom.cdf(above, 600, 0.9) <= error if sure else above <= 540)

    options = limits | {"segments": segments, "confidence": 0.95 if sure else None}
    check(lambda: find_threshold(scores, labels, COSTS, **options), scores, labels, meets)


def test_segments_that_are_too_small():
    scores, labels = draw(400, 0)
    segments = np.where(np.arange(400) < 20, "small", "large")
    with pytest.raises(InfeasibleError, match=r"segment 'small': min_recall=0\.9 cannot be certified"):
        find_threshold(scores, labels, COSTS, min_recall=0.9, segments=segments)
    with pytest.raises(ValueError, match="segments name the column"):
        Constraints(max_fpr=0.5, segments="region")


# what cannot be met


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"min_recall": 0.9}, r"on 25 positives: at least 29 positives are needed, 4 more; 25 certify at most 0\.887"),
        ({"max_fpr": 0.01}, "on 75 negatives: at least 299 negatives are needed, 224 more"),
        ({"max_positive_rate": 0.01}, "on 100 samples: at least 299 samples"),
        ({"min_precision": 0.99}, "on 100 samples: at least 712 predicted positive are needed"),  # 0.99^n <= 0.05 / 64
    ],
)
def test_too_few_samples_are_counted(limits, message):
    scores, labels = draw(100, 0)
    assert labels.sum() == 25
    with pytest.raises(InfeasibleError, match=message):
        find_threshold(scores, labels, COSTS, **limits)
    assert find_threshold(scores, labels, COSTS, min_recall=0.887)


def test_constraints_that_exclude_each_other_say_what_each_could_be():
    scores, labels = draw(400, 0)
    with pytest.raises(InfeasibleError) as error:
        find_threshold(scores, labels, COSTS, min_recall=0.95, max_fpr=0.05)
    text = str(error.value)
    assert "with max_fpr=0.05, recall is at most 0." in text
    assert "with min_recall=0.95, FPR is no less than 0." in text
    assert "more samples alone do not help" in text


def test_the_number_of_samples_that_would_be_enough():
    scores, labels = draw(400, 0)
    limits = {"min_recall": 0.8, "max_fpr": 0.22}
    find_threshold(scores, labels, COSTS, confidence=None, **limits)
    with pytest.raises(InfeasibleError, match=r"about [\d,]+ more positives and [\d,]+ more negatives") as error:
        find_threshold(scores, labels, COSTS, **limits)
    more = [int(word.replace(",", "")) for word in str(error.value).split() if word[:1].isdigit() and "." not in word]
    factor = 1.0 + more[-2] / labels.sum()
    # so many samples of the same kind: the same ones, repeated
    times = math.ceil(factor)
    find_threshold(np.tile(scores, times), np.tile(labels, times), COSTS, **limits)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"min_recall": 1.0}, "min_recall must be a share strictly between 0 and 1; confidence=None allows"),
        ({"max_fpr": 2, "confidence": None}, "max_fpr must be a share from 0 to 1, got 2"),
        ({"min_recall": 0.5, "confidence": 95}, "confidence must lie strictly between 0 and 1, or be None, got 95"),
        ({"min_recall": 0.5, "sample_weight": np.ones(50)}, "leave out sample_weight, or pass confidence=None"),
        ({"costs": CostMatrix.from_array(1 - np.eye(3), rows="predicted"), "min_recall": 0.5}, "two classes"),
        ({"max_fpr": 0.5, "segments": np.arange(50)}, "segments are those within which min_recall holds"),
        ({"min_recall": 0.5, "segments": [1]}, "segments must have one value for each of 50 samples"),
    ],
)
def test_bad_input(settings_, message):
    with pytest.raises(ValueError, match=message):
        find_threshold(*draw(50, 0), **({"costs": COSTS} | settings_))


def test_bad_constraints():
    with pytest.raises(ValueError, match=r"constraints are min_recall, .*; got 'recall'"):
        Constraints.of({"recall": 0.9})
    with pytest.raises(TypeError, match="constraints must be a dict"):
        Constraints.of(0.9)


def test_constraints_as_values():
    assert Constraints.of(None) is None
    assert Constraints.of({}) is None
    own = Constraints.of({"min_recall": 0.9, "max_fpr": 0.2})
    assert Constraints.of(own.to_dict()) == own
    assert own.error == pytest.approx(0.025)
    known = own.certified(Counts(3.0, 20.0, 100.0, 300.0))
    assert known["min_recall"].estimate == pytest.approx(0.97)
    # what is guaranteed follows from the numbers of samples alone, and is at least what was asked for
    most = max(x for x in range(100) if binom.cdf(x, 100, 0.1) <= 0.025)
    assert known["min_recall"].guaranteed == pytest.approx(1.0 - beta.ppf(0.975, most + 1, 100 - most), abs=1e-9)
    assert known["min_recall"].guaranteed >= 0.9
    assert known["max_fpr"].guaranteed <= 0.2


# the guarantee on new data


@pytest.mark.parametrize("limits", [{"min_recall": 0.8}, {"max_fpr": 0.3}, {"min_precision": 0.5},
                                    {"min_recall": 0.75, "max_positive_rate": 0.6}])  # fmt: skip
def test_violated_in_at_most_the_share_that_the_confidence_allows(limits):
    draws, confidence, violated = 300, 0.8, 0
    for seed in range(draws):
        scores, labels = draw(150, 100 + seed)
        try:
            t = find_threshold(scores, labels, COSTS, confidence=confidence, **limits).value
        except InfeasibleError:
            continue
        z = math.log(t) - math.log1p(-t) if t > 0 else -math.inf
        recall, fpr = norm.sf(z - 0.5), norm.sf(z + 1.5)
        rate = 0.3 * recall + 0.7 * fpr
        true = {"min_recall": recall, "min_precision": 0.3 * recall / rate, "max_fpr": fpr, "max_positive_rate": rate}
        violated += any(true[k] < v if k.startswith("min") else true[k] > v for k, v in limits.items())
    limit = 1.0 - confidence
    assert violated / draws <= limit + 2.0 * math.sqrt(limit * (1.0 - limit) / draws)
