"""How scores split into subgroups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.adaptive import QuantileBins, SingleBin, UniformBins


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_width_bins_are_half_open_and_the_last_is_closed(library, dtype):
    borders = np.array([m / 10 for m in range(11)], dtype=dtype)
    numbers = library.to_numpy(UniformBins(10)(library.asarray(borders)))
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
    below = library.to_numpy(UniformBins(10)(library.asarray(np.nextafter(borders[1:], dtype(0)))))
    assert below.tolist() == list(range(10))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 12))
def test_equal_width_equals_a_loop(scores, bins):
    for score, number in zip(scores, UniformBins(bins)(np.array(scores)), strict=True):
        assert number == max([m for m in range(bins) if score >= m / bins], default=0)


def test_whole_is_one_subgroup(library):
    scores = library.asarray(np.array([0.0, 0.4, 1.0]))
    assert library.to_numpy(SingleBin()(scores)).tolist() == [0, 0, 0]
    assert library.to_numpy(SingleBin().edges(scores)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("bins", [1, 3, 10])
def test_quantile_bins_hold_equally_many(library, bins):
    scores = np.random.default_rng(0).beta(1, 30, 600)
    numbers = library.to_numpy(QuantileBins(bins)(library.asarray(scores)))
    assert np.bincount(numbers).tolist() == [600 // bins] * bins
    assert np.all(np.diff(numbers[np.argsort(scores)]) >= 0)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.1, 0.7, 1.0]), min_size=1, max_size=20), st.integers(1, 8))
def test_quantile_keeps_equal_scores_together_and_inside_its_edges(scores, bins):
    scores = np.array(scores)
    numbers, edges = QuantileBins(bins)(scores), QuantileBins(bins).edges(scores)
    assert len(edges) == bins + 1
    assert len(set(zip(scores.tolist(), numbers.tolist(), strict=True))) == len(set(scores.tolist()))
    assert np.all((edges[numbers] <= scores) & (scores <= edges[numbers + 1]))


@pytest.mark.parametrize("kind", [UniformBins, QuantileBins])
@pytest.mark.parametrize("bins", [0, -3, 2.5, "10", None])
def test_bins_must_be_a_whole_number(kind, bins):
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1"):
        kind(bins)


def test_partitions_are_values():
    assert UniformBins(10) == UniformBins()
    assert UniformBins(10) != QuantileBins(10)
    assert repr(QuantileBins(4)) == "QuantileBins(bins=4)"
