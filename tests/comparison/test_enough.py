"""How many repeats or rows would tell: against simulations whose luck is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl.comparison.statistics import Luck, enough, fold_interval, luck


def drawn(rng, *, n=200, folds=5, repeats=2, mean=0.1, rows=1.0, again=0.5, fits=0.1, group=1):
    """Draw paired differences: what a row (or group) is worth, what it differs by repeat, what each fit adds."""
    units = np.arange(n) // group
    own = rng.normal(0.0, rows, n)[units]
    values, numbers = [], []
    for repeat in range(repeats):
        fold = rng.permutation(n)[units] % folds
        values.append(mean + own + rng.normal(0.0, fits, folds)[fold] + rng.normal(0.0, again, n)[units])
        numbers.append(fold + folds * repeat)
    return np.concatenate(values), np.concatenate(numbers), np.tile(units, repeats)


def half_width(interval):
    return (interval.high - interval.low) / 2


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5), st.sampled_from([1, 3]))
def test_at_what_was_run_the_width_is_that_of_the_interval(seed, rows, again, fits, group):
    values, numbers, units = drawn(np.random.default_rng(seed), rows=rows, again=again, fits=fits, group=group)
    found = luck(values, numbers, units)
    assert found.half_width(2) == pytest.approx(half_width(fold_interval(values, numbers, units)), abs=1e-12)
    assert (found.n_rows, found.n_repeats, found.folds) == (200, 2, 5)
    widths = [found.half_width(repeats) for repeats in (2, 3, 5, 20)]
    assert widths == sorted(widths, reverse=True)


def test_the_luck_of_rows_repeats_and_fits_is_told_apart():
    rng = np.random.default_rng(0)
    found = np.mean([luck(*drawn(rng))[1:4] for _ in range(200)], axis=0)
    # variances of the mean of one repeat; a row meets another fit in every repeat
    known = [1.0 / 200, (0.5**2 + 0.1**2) / 200, 0.1**2 / 5]
    assert found == pytest.approx(known, rel=0.2)


@pytest.mark.parametrize("kind", [{"rows": 1.0, "again": 0.5}, {"rows": 0.2, "again": 1.0}, {"rows": 0.3, "fits": 0.3}])
def test_the_width_that_more_repeats_would_have_is_the_one_they_have(kind):
    rng = np.random.default_rng(1)
    foreseen = np.mean([luck(*drawn(rng, **kind)).half_width(8) for _ in range(150)])
    had = np.mean([half_width(fold_interval(*drawn(rng, repeats=8, **kind))) for _ in range(150)])
    assert foreseen == pytest.approx(had, rel=0.05)


def test_the_width_that_more_rows_would_have_is_the_one_they_have():
    rng = np.random.default_rng(2)
    foreseen = np.mean([luck(*drawn(rng, fits=0.0)).half_width(2, growth=4.0) for _ in range(100)])
    had = np.mean([half_width(fold_interval(*drawn(rng, n=800, fits=0.0))) for _ in range(100)])
    assert foreseen == pytest.approx(had, rel=0.05)


def test_repeats_that_are_enough_are_the_fewest():
    found = Luck(0.2, rows=0.001, again=0.01, fits=0.04, n_rows=500, n_units=500, n_repeats=2, folds=5)
    repeats, rows = enough(found)
    assert rows is None
    assert found.half_width(repeats) < 0.2 <= found.half_width(repeats - 1)


def test_where_rows_are_too_few_they_are_counted():
    found = Luck(0.2, rows=0.04, again=0.0, fits=0.0, n_rows=500, n_units=500, n_repeats=2, folds=5)
    repeats, rows = enough(found)
    assert repeats is None
    assert found.half_width(2, growth=rows / 500) < 0.2 < found.half_width(2, growth=0.9 * rows / 500)
    assert enough(found._replace(n_repeats=1, fits=0.01), 0.1)[0] is None  # nothing is known about more repeats


@pytest.mark.parametrize(("mean", "border"), [(0.2, 0.2), (0.2, 0.2001), (5.0, 0.0)])
def test_nothing_is_said_where_nothing_is_open_or_hardly_any_number_would_do(mean, border):
    found = Luck(mean, rows=0.04, again=0.0, fits=0.0, n_rows=500, n_units=500, n_repeats=2, folds=5)
    assert enough(found, border) == (None, None)


def test_no_luck_at_all():
    found = luck(np.full(20, 0.1), np.arange(20) % 4, np.arange(20) % 10)
    assert found.half_width(3) == pytest.approx(0.0, abs=1e-12)
    assert enough(found) == (None, None)
    assert math.isclose(found.mean, 0.1)
