"""Costs of ordered classes."""

import numpy as np
import pytest

from adacsl import CostMatrix


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_costs_are_distances(k, power):
    costs = CostMatrix.ordinal(k, power=power, low=3, high=2)
    for i in range(k):
        for j in range(k):
            expected = abs(i - j) ** power * (3 if i < j else 2 if i > j else 0)
            assert costs.to_array()[i, j] == pytest.approx(expected)
    assert costs.n_classes == k


def test_the_cheapest_class_of_absolute_distances_is_the_median():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), size=200)
    median = (p.cumsum(1) < 0.5).sum(1)
    assert (CostMatrix.ordinal(5).decide(p) == median).all()


def test_names_and_wrong_settings():
    assert CostMatrix.ordinal(3, classes=["low", "mid", "high"]).classes == ("low", "mid", "high")
    with pytest.raises(ValueError, match="n_classes must be a whole number of at least 2"):
        CostMatrix.ordinal(1)
    with pytest.raises(ValueError, match="power must be a positive number, got 0"):
        CostMatrix.ordinal(3, power=0)
