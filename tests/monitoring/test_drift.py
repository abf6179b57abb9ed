"""Drift of scores and of class priors: against loops, and against the distribution of the data."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl.monitoring.drift import prior_shift, score_shift, time_windows


def drawn(n, share, rng, distance=1.5):
    """Return calibrated probabilities (for a share of 0.1) and labels of normal data."""
    y = rng.random(n) < share
    x = rng.normal(size=n) + distance * y
    odds = math.log(0.1 / 0.9) + distance * x - distance**2 / 2
    return 1 / (1 + np.exp(-odds)), y


def psi_by_loops(edges, then, now):
    total = 0.0
    ends = [-math.inf, *edges, math.inf]
    for low, high in itertools.pairwise(ends):
        a, b = (
            (sum(low < p <= high for p in sample) + 0.5) / (len(sample) + 0.5 * (len(edges) + 1))
            for sample in (then, now)
        )
        total += (b - a) * math.log(b / a)
    return total


def ks_by_loops(then, now):
    return max(abs(np.mean(then <= p) - np.mean(now <= p)) for p in np.concatenate((then, now)))


scores = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.999, 1.0]), min_size=1, max_size=40).map(np.asarray)


@given(scores, scores)
@settings(max_examples=60, deadline=None)
def test_psi_and_ks_are_those_of_loops(then, now):
    result = score_shift(then, now)
    assert result.psi == pytest.approx(psi_by_loops(result.edges, then, now))
    assert result.ks == pytest.approx(ks_by_loops(then, now))
    assert result.then.sum() == pytest.approx(1)
    assert result.now.sum() == pytest.approx(1)


def test_bins_hold_equally_many_samples():
    result = score_shift(np.random.default_rng(0).random(1000), np.full(5, 0.5))
    assert len(result.edges) == 9
    assert np.allclose(result.then, 0.1, atol=0.001)


def test_rounding_of_tied_scores_is_no_shift():
    rng = np.random.default_rng(0)
    tied = rng.choice([0.01, 0.2, 0.7], 2000)
    result = score_shift(tied, tied * (1 + 1e-9 * rng.normal(size=2000)))
    assert result.psi == pytest.approx(0, abs=1e-9)


def test_sampling_variance_of_small_samples_is_no_shift():
    rng = np.random.default_rng(0)
    result = [score_shift(rng.random(1000), rng.random(30)) for _ in range(50)]
    assert sum(shift.psi > 0.1 for shift in result) > 20  # the rule of thumb alone has many false positives
    assert sum(shift.shifted for shift in result) <= 6


def test_of_classes_the_one_that_shifted_most_is_named():
    rng = np.random.default_rng(0)
    then, now = rng.dirichlet([2, 2, 2], 2000), rng.dirichlet([2, 2, 8], 2000)
    result = score_shift(then, now)
    assert result.place == 2
    assert result.shifted


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_em_estimates_the_prior_of_the_data(share):
    rng = np.random.default_rng(1)
    then, now = drawn(20_000, 0.1, rng)[0], drawn(20_000, share, rng)[0]
    result = prior_shift(then, now, prior=np.asarray([0.9, 0.1]))
    assert result.low[1] <= share <= result.high[1]
    assert result.now[1] == pytest.approx(share, abs=0.012)
    assert result.excluded == (share != 0.1)


def test_intervals_cover_and_sampling_variance_excludes_rarely():
    rng = np.random.default_rng(2)
    covered = excluded = 0
    for _ in range(6):
        then = drawn(500, 0.1, rng)[0]
        same, other = (prior_shift(then, drawn(500, q, rng)[0], prior=np.asarray([0.9, 0.1])) for q in (0.1, 0.3))
        excluded += same.excluded
        covered += bool(other.low[1] <= 0.3 <= other.high[1])
    assert excluded <= 1
    assert covered >= 5


def test_equal_samples_have_not_shifted_even_if_the_probabilities_are_wrong():
    then = drawn(5000, 0.1, np.random.default_rng(3))[0]
    odds = 4 * then / (1 - then)  # weighted and not corrected
    result = prior_shift(odds / (1 + odds), odds / (1 + odds), prior=np.asarray([0.9, 0.1]))
    assert result.now == pytest.approx([0.9, 0.1], abs=1e-6)
    assert not result.excluded


def test_priors_of_three_classes():
    rng = np.random.default_rng(4)

    def made(shares, n=6000):
        y = rng.choice(3, n, p=shares)
        x = rng.normal(size=(n, 3)) + 2 * np.eye(3)[y]
        odds = np.asarray([0.6, 0.3, 0.1]) * np.exp(2 * x)
        return odds / odds.sum(axis=1, keepdims=True)

    result = prior_shift(made([0.6, 0.3, 0.1]), made([0.3, 0.3, 0.4]))
    assert (result.low <= [0.3, 0.3, 0.4]).all()
    assert (result.high >= [0.3, 0.3, 0.4]).all()
    assert result.excluded
    assert not prior_shift(made([0.6, 0.3, 0.1]), made([0.6, 0.3, 0.1])).excluded


def test_samples_of_a_group_are_no_independent_evidence():
    rng = np.random.default_rng(5)
    then, now = drawn(2000, 0.1, rng)[0], np.repeat(drawn(100, 0.1, rng)[0], 20)
    alone, grouped = (prior_shift(then, now, groups=groups) for groups in (None, np.repeat(np.arange(100), 20)))
    assert grouped.high[1] - grouped.low[1] > 2 * (alone.high[1] - alone.low[1])


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_scores_that_are_all_equal(value):
    then = now = np.full(50, value)
    assert score_shift(then, now).psi == 0
    result = prior_shift(then, now)
    assert np.isfinite(result.now).all()
    assert not result.excluded


def test_windows_follow_the_calendar():
    day = np.timedelta64(1, "D")
    start = np.datetime64("2026-01-01T00:00", "us")
    assert time_windows(start + day * np.arange(10))[1][:2] == ["2026-01-01", "2026-01-02"]
    number, names = time_windows(start + day * np.arange(90))
    assert names[:2] == ["2025-12-29", "2026-01-05"]  # Mondays
    assert np.bincount(number)[1] == 7
    assert time_windows(start + day * np.arange(0, 700, 7))[1][0] == "2026-01"
    assert time_windows(start + 365 * day * np.arange(0, 40, 10))[1] == ["2026", "2035", "2045", "2055"]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=200))
@settings(max_examples=50, deadline=None)
def test_windows_of_numbers_keep_equal_times_together(values):
    times = np.asarray(values, dtype=float)
    number, names = time_windows(times)
    assert set(number) == set(range(len(names)))
    assert len(names) <= 26
    order = np.argsort(times, kind="stable")
    assert (np.diff(number[order]) >= 0).all()
    for value in set(values):
        assert len(set(number[times == value])) == 1
