"""Prior shift: moved probabilities against Bayes' rule by hand, estimated priors against the likelihood."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.decision.priors import estimate_prior, shift_prior

SHARE = st.floats(1e-6, 1 - 1e-6)


def drawn(k, n, seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(rng.uniform(0.3, 2.0, k), n), rng.dirichlet(np.ones(k) * 3), rng.dirichlet(np.ones(k) * 3)


# moving


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), SHARE, SHARE)
def test_odds_are_multiplied_by_the_ratio_of_prior_odds(probabilities, old, new):
    for p, moved in zip(probabilities, shift_prior(np.asarray(probabilities), old, new), strict=True):
        if p in (0, 1):
            assert moved == p
            continue
        odds = p / (1 - p) * (new / (1 - new)) / (old / (1 - old))
        assert moved == pytest.approx(odds / (1 + odds), rel=1e-9)


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_k_classes_equal_bayes_rule_by_hand(k, seed):
    p, old, new = drawn(k, 7, seed)
    moved = shift_prior(p, old, new)
    for row, result in zip(p, moved, strict=True):
        likelihood = [row[j] / old[j] for j in range(k)]
        total = sum(likelihood[j] * new[j] for j in range(k))
        np.testing.assert_allclose(result, [likelihood[j] * new[j] / total for j in range(k)], rtol=1e-9)
    np.testing.assert_allclose(shift_prior(moved, new, old), p, rtol=1e-7)
    if k == 2:
        np.testing.assert_allclose(shift_prior(p[:, 1], float(old[1]), float(new[1])), moved[:, 1], rtol=1e-9)


def test_the_same_in_every_library(library):
    p, old, new = drawn(3, 20, 0)
    result = shift_prior(library.asarray(p), library.asarray(old), library.asarray(new))
    np.testing.assert_allclose(library.to_numpy(result), shift_prior(p, old, new), rtol=1e-12)
    result = estimate_prior(library.asarray(p), library.asarray(old))
    np.testing.assert_allclose(library.to_numpy(result), estimate_prior(p, old), atol=1e-9)
    assert estimate_prior(library.asarray(p[:, 0]), 0.3) == pytest.approx(estimate_prior(p[:, 0], 0.3), abs=1e-9)


def test_moving_at_the_limits():
    p = np.asarray([[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])  # a class without samples is impossible, a sure sample stays
    np.testing.assert_allclose(shift_prior(p, [0.3, 0.3, 0.4], [0.5, 0.5, 0.0]), [[0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])
    moved = shift_prior(np.asarray([0.0, 1e-12, 0.5, 1.0]), 1e-9, 1 - 1e-9)
    assert np.isfinite(moved).all()
    assert moved[[0, -1]].tolist() == [0, 1]
    assert (np.diff(moved) >= 0).all()


# estimating


def likelihood(p, old, q):
    """The log-likelihood of a share of the positive class, by a loop."""
    return sum(math.log(x * q / old + (1 - x) * (1 - q) / (1 - old)) for x in p)


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=12), st.floats(0.05, 0.95))
def test_no_share_is_likelier_than_the_estimate(p, old):
    result = estimate_prior(np.asarray(p), old)
    grid = np.linspace(0.0005, 0.9995, 2000)
    best = max(likelihood(p, old, q) for q in grid)
    assert likelihood(p, old, min(max(result, 1e-12), 1 - 1e-12)) >= best - 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_no_priors_of_three_classes_are_likelier(seed):
    p, old, _ = drawn(3, 40, seed)
    result = estimate_prior(p, old)
    assert result.sum() == pytest.approx(1)
    steps = np.arange(1, 100) / 100
    grid = np.asarray([(a, b, 1 - a - b) for a in steps for b in steps if a + b < 1])
    values = np.log((p / old) @ grid.T).sum(axis=0)
    assert np.log((p / old) @ result).sum() >= values.max() - 1e-6


def test_priors_of_drawn_samples_are_estimated():
    rng = np.random.default_rng(1)
    y = rng.random(200_000) < 0.02
    x = rng.normal(size=len(y)) + 2.0 * y
    at_training = 1 / (1 + 0.9 / 0.1 * np.exp(2.0 - 2.0 * x))  # P(1 | x) of two normals, 10 % positive
    assert estimate_prior(at_training, 0.1) == pytest.approx(y.mean(), rel=0.08)


def test_weights_count_as_duplicates():
    p, old, _ = drawn(3, 12, 3)
    counts = np.random.default_rng(0).integers(0, 4, 12)
    weighted = estimate_prior(p, old, sample_weight=counts.astype(float))
    np.testing.assert_allclose(weighted, estimate_prior(np.repeat(p, counts, axis=0), old), atol=1e-8)


def test_estimates_at_the_limits():
    assert estimate_prior(np.full(50, 0.2), 0.2) == pytest.approx(0.2)  # scores without information
    np.testing.assert_allclose(estimate_prior(np.tile([0.2, 0.3, 0.5], (9, 1)), [0.2, 0.3, 0.5]), [0.2, 0.3, 0.5])
    assert estimate_prior(np.asarray([0.0, 0.0, 0.0, 1.0]), 0.5) == pytest.approx(0.25)
    assert estimate_prior(np.zeros(4), 0.5) == 0.0
    for settings in ({"tolerance": 0}, {"rounds": 0}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            estimate_prior(np.asarray([0.5]), 0.5, **settings)


def test_few_rounds_suffice_where_classes_overlap():
    p = 0.3 + 0.02 * np.random.default_rng(0).standard_normal(5000)
    one = estimate_prior(p, 0.3, rounds=200)
    assert one == pytest.approx(estimate_prior(p, 0.3, rounds=20_000), abs=1e-6)


# what is refused


@pytest.mark.parametrize(
    ("p", "old", "message"),
    [
        ([[0.2, 0.3, 0.5]], 0.3, "shares of all 3 classes"),
        ([0.2], 1.5, "between 0 and 1"),
        ([0.2], 0.0, "between 0 and 1"),
        ([[0.2, 0.3, 0.5]], [0.5, 0.5], "shares of 3 classes, got 2"),
        ([[0.2, 0.3, 0.5]], [0.5, 0.5, 0.5], "sum to 1"),
        ([[0.2, 0.3, 0.5]], [1.2, -0.1, -0.1], "sum to 1"),
        ([[0.2, 0.3, 0.5]], [0.5, 0.5, 0.0], "no share in training"),
        ([np.nan], 0.5, "finite"),
        ([1.5], 0.5, r"in \[0, 1\]"),
    ],
)
def test_what_makes_no_sense_is_refused(p, old, message):
    with pytest.raises(ValueError, match=message):
        shift_prior(np.asarray(p), old, old)
    with pytest.raises(ValueError, match=message):
        estimate_prior(np.asarray(p), old)
