"""Intervals over repeated cross-validation, against the formula written out entry by entry and on drawn data."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adacsl.comparison.statistics import fold_interval


def by_hand(d, fits, units, weight=None):
    """The formula, sum by sum."""
    n = len(d)
    weight = [1.0] * n if weight is None else list(weight)
    total = sum(weight)
    mean = sum(d[i] * weight[i] for i in range(n)) / total
    e = [(d[i] - mean) * weight[i] for i in range(n)]
    of_unit = [sum(e[i] for i in range(n) if units[i] == u) for u in set(units)]
    of_fit = [sum(e[i] for i in range(n) if fits[i] == f) for f in set(fits)]
    of_both = [sum(e[i] for i in range(n) if fits[i] == f and units[i] == u) for f in set(fits) for u in set(units)]
    k = len(of_fit)
    rows = 1.25 * sum(v**2 for v in of_unit) / total**2
    more = max(0.0, (k / (k - 1) * sum(v**2 for v in of_fit) - sum(v**2 for v in of_both)) / total**2)
    freedom = (rows + more) ** 2 / (rows**2 / (len(of_unit) - 1) + more**2 / (k - 1))
    half = stats.t.ppf(0.975, freedom) * math.sqrt(rows + more)
    return mean, mean - half, mean + half


def by_repeats(d, folds, groups):
    """The formula for repeats x rows, where every row is tested once in every repeat."""
    repeats, n = d.shape
    e = d - d.mean()
    of_group = np.stack([np.bincount(groups, row) for row in e])
    of_fit = np.concatenate([np.bincount(own, row) for own, row in zip(folds, e, strict=True)])
    kr = len(of_fit)
    rows = 1.25 * (of_group.sum(axis=0) ** 2).sum() / (repeats * n) ** 2
    more = max(0.0, kr / (kr - 1) * (of_fit**2).sum() - (of_group**2).sum()) / (repeats * n) ** 2
    freedom = (rows + more) ** 2 / (rows**2 / groups.max() + more**2 / (kr - 1))
    half = stats.t.ppf(0.975, freedom) * np.sqrt(rows + more)
    return d.mean(), d.mean() - half, d.mean() + half


def cut(rng, units, repeats, folds):
    """Every unit in one fold of each repeat: fits of all entries, repeat after repeat."""
    return np.stack([(rng.permutation(units.max() + 1) % folds)[units] + folds * r for r in range(repeats)])


@st.composite
def entries(draw):
    """Differences, fits and units of entries, with luck of the fits; some entries missing, units torn or not."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    repeats, size, folds = draw(st.integers(1, 3)), draw(st.sampled_from([1, 3])), draw(st.integers(2, 4))
    units = np.arange(24) // size
    fits = cut(rng, units if draw(st.booleans()) else np.arange(24), repeats, folds).ravel()
    units = np.tile(units, repeats)
    d = rng.normal(size=len(fits)) + draw(st.sampled_from([0.0, 2.0])) * rng.normal(size=fits.max() + 1)[fits]
    kept = rng.random(len(d)) < draw(st.sampled_from([0.7, 1.0]))
    kept[[fits.argmin(), fits.argmax()]] = True
    return d[kept], fits[kept], units[kept]


@given(entries(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_it_is_the_formula(case, weighted):
    d, fits, units = case
    weight = np.random.default_rng(0).random(len(d)) + 0.1 if weighted else None
    assert fold_interval(d, fits, units, weight=weight) == pytest.approx(by_hand(d, fits, units, weight))


@given(seed=st.integers(0, 10**6), repeats=st.integers(1, 4), size=st.sampled_from([1, 4]))
@settings(max_examples=25, deadline=None)
def test_with_whole_repeats_it_is_the_formula_of_repeats_times_samples(seed, repeats, size):
    rng = np.random.default_rng(seed)
    groups = np.arange(40) // size
    fits = cut(rng, groups, repeats, 5)
    d = rng.normal(size=fits.shape) + rng.normal(size=5 * repeats)[fits]
    result = fold_interval(d.ravel(), fits.ravel(), np.tile(groups, repeats))
    assert result == pytest.approx(by_repeats(d, fits - 5 * np.arange(repeats)[:, None], groups))


@given(entries(), st.floats(1e-6, 1e6), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_scale_order_and_names_change_nothing(case, factor, random):
    d, fits, units = case
    plain = np.asarray(fold_interval(d, fits, units))
    order = list(range(len(d)))
    random.shuffle(order)
    names = np.asarray([f"fit {fit}" for fit in fits])
    result = fold_interval(factor * d[order], names[order], -7 * units[order])
    np.testing.assert_allclose(result, factor * plain, rtol=1e-9, atol=1e-9 * factor)
    np.testing.assert_allclose(fold_interval(-d, fits, units), -plain[[0, 2, 1]], rtol=1e-9, atol=1e-12)


@given(st.integers(2, 98), st.floats(0.5, 20.0))
@settings(max_examples=30, deadline=None)
def test_a_constant_decision_is_as_uncertain_as_the_prevalence(positives, price):
    """All positive costs the price of an alarm for each negative: with 1.25 times the variance of that share."""
    n = 100
    labels = np.arange(n) < positives
    folds = np.zeros((2, n), int)
    for r in range(2):  # stratified: each class is dealt out in turns
        for label in (False, True):
            own = np.flatnonzero(labels == label)
            folds[r, own] = (np.arange(len(own)) + r) % 5 + 5 * r
    result = fold_interval(np.tile(np.where(labels, 0.0, price), 2), folds.ravel(), np.tile(np.arange(n), 2))
    share = 1 - positives / n
    half = stats.t.ppf(0.975, n - 1) * price * math.sqrt(1.25 * share * (1 - share) / n)
    assert result == pytest.approx((price * share, price * share - half, price * share + half))


def test_training_variance_widens_it():
    rng = np.random.default_rng(0)
    fits, units = cut(rng, np.arange(500), 2, 5), np.tile(np.arange(500), 2)
    quiet = np.tile(rng.normal(size=500), 2)
    lucky = quiet + rng.normal(size=10)[fits].ravel()
    widths = [high - low for _, low, high in (fold_interval(d, fits.ravel(), units) for d in (quiet, lucky))]
    assert widths[1] > 2 * widths[0]


def test_it_covers_the_mean_of_drawn_samples_and_fits():
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        fits = cut(rng, np.arange(200), 2, 5)
        d = rng.normal(size=200)[None] + 0.2 * rng.normal(size=10)[fits] + 0.3 * rng.normal(size=(2, 200))
        _, low, high = fold_interval(d.ravel(), fits.ravel(), np.tile(np.arange(200), 2))
        covered += low <= 0.0 <= high
    assert 0.92 <= covered / 300 <= 0.995


def test_samples_of_a_group_are_one_piece_of_evidence():
    rng = np.random.default_rng(2)
    groups = np.arange(400) // 4
    fits = rng.permutation(400) % 5
    d = rng.normal(size=100)[groups]
    apart, together = fold_interval(d, fits, np.arange(400)), fold_interval(d, fits, groups)
    assert together.high - together.low > 1.7 * (apart.high - apart.low)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7])
def test_what_does_not_vary_has_an_interval_of_no_width(value):
    result = fold_interval(np.full(20, value), np.arange(20) % 10, np.arange(20) % 7)
    assert result == (pytest.approx(value),) * 3
    assert result.low == result.high


@pytest.mark.parametrize(
    ("d", "fits", "units", "options", "says"),
    [
        (np.zeros(5), np.zeros(4), np.zeros(4), {}, "one length"),
        (np.zeros(5), np.zeros(5), np.zeros(4), {}, "one length"),
        (np.zeros((1, 4)), np.zeros((1, 4)), np.zeros((1, 4)), {}, "vectors"),
        (np.full(4, np.nan), np.arange(4), np.arange(4), {}, "finite"),
        (np.ones(4), np.zeros(4), np.arange(4), {}, "two fits"),
        (np.ones(4), np.arange(4), np.ones(4), {}, "two samples or groups"),
        (np.ones(4), np.arange(4), np.arange(4), {"level": 1.0}, "level"),
    ],
)
def test_bad_input_is_named(d, fits, units, options, says):
    with pytest.raises(ValueError, match=says):
        fold_interval(d, fits, units, **options)
