"""Intervals over repeated cross-validation, against the formula written out row by row and on drawn data."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adacsl.experiments.statistics.folds import fold_interval


def by_hand(d, folds, groups=None, weight=None):
    """The formula, sum by sum."""
    repeats, n = d.shape
    groups = list(range(n)) if groups is None else list(groups)
    weight = [1.0] * n if weight is None else list(weight)
    total = repeats * sum(weight)
    mean = sum(d[r, i] * weight[i] for r in range(repeats) for i in range(n)) / total
    e = [[(d[r, i] - mean) * weight[i] for i in range(n)] for r in range(repeats)]
    of_group = {g: [sum(e[r][i] for i in range(n) if groups[i] == g) for r in range(repeats)] for g in set(groups)}
    fits = [sum(e[r][i] for i in range(n) if folds[r, i] == f) for r in range(repeats) for f in set(folds[r])]
    rows = 1.25 * sum(sum(own) ** 2 for own in of_group.values()) / total**2
    k_r = len(fits)
    more = k_r / (k_r - 1) * sum(f**2 for f in fits) - sum(v**2 for own in of_group.values() for v in own)
    more = max(0.0, more / total**2)
    freedom = (rows + more) ** 2 / (rows**2 / (len(of_group) - 1) + more**2 / (k_r - 1))
    half = stats.t.ppf(0.975, freedom) * math.sqrt(rows + more)
    return mean, mean - half, mean + half


@given(seed=st.integers(0, 10**6), repeats=st.integers(1, 3), grouped=st.booleans(), weighted=st.booleans())
@settings(max_examples=40, deadline=None)
def test_it_is_the_formula(seed, repeats, grouped, weighted):
    rng = np.random.default_rng(seed)
    n = 24
    groups = np.arange(n) // 3 if grouped else None
    units = np.arange(n) if groups is None else groups
    folds = np.stack([(rng.permutation(units.max() + 1) % 4)[units] for _ in range(repeats)])
    d = rng.normal(size=(repeats, n)) + (rng.normal(size=(repeats, 4)) * 2)[np.arange(repeats)[:, None], folds]
    weight = rng.random(n) + 0.1 if weighted else None
    assert fold_interval(d, folds, groups=groups, weight=weight) == pytest.approx(by_hand(d, folds, groups, weight))


def test_luck_of_the_fits_widens_it():
    rng = np.random.default_rng(0)
    folds = np.stack([rng.permutation(500) % 5 for _ in range(2)])
    quiet = rng.normal(size=500)[None].repeat(2, axis=0)
    lucky = quiet + rng.normal(size=(2, 5))[np.arange(2)[:, None], folds]
    widths = [high - low for _, low, high in (fold_interval(d, folds) for d in (quiet, lucky))]
    assert widths[1] > 2 * widths[0]


def test_it_covers_the_mean_of_drawn_rows_and_fits():
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        folds = np.stack([rng.permutation(200) % 5 for _ in range(2)])
        luck = 0.2 * rng.normal(size=(2, 5))[np.arange(2)[:, None], folds]
        _, low, high = fold_interval(rng.normal(size=200)[None] + luck + 0.3 * rng.normal(size=(2, 200)), folds)
        covered += low <= 0.0 <= high
    assert 0.92 <= covered / 300 <= 0.995


def test_rows_of_a_group_are_one_piece_of_evidence():
    rng = np.random.default_rng(2)
    groups = np.arange(400) // 4
    folds = (rng.permutation(400) % 5)[None]
    d = rng.normal(size=100)[groups][None]
    apart, together = fold_interval(d, folds), fold_interval(d, folds, groups=groups)
    assert together.high - together.low > 1.7 * (apart.high - apart.low)


def test_equal_costs_have_an_interval_of_no_width():
    assert fold_interval(np.zeros((2, 10)), np.tile(np.arange(10) % 5, (2, 1))) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("d", "folds", "options", "says"),
    [
        (np.zeros((2, 5)), np.zeros((2, 4)), {}, "one shape"),
        (np.full((1, 4), np.nan), np.zeros((1, 4)), {}, "finite"),
        (np.ones((1, 4)), np.zeros((1, 4)), {}, "two folds"),
        (np.ones((1, 4)), np.arange(4)[None], {"groups": [1, 1, 1, 1]}, "two rows or groups"),
        (np.ones((1, 4)), np.arange(4)[None], {"level": 1.0}, "level"),
    ],
)
def test_bad_input_is_named(d, folds, options, says):
    with pytest.raises(ValueError, match=says):
        fold_interval(d, folds, **options)
