"""Corrected intervals of random splits, against hand-worked cases, SciPy's tests and a simulation."""

import math
import statistics

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from paper.intervals import against, estimate, holm

A = [0.18, 0.21, 0.22, 0.19, 0.20]
B = [0.22, 0.27, 0.27, 0.25, 0.24]
C = [0.58, 0.63, 0.60, 0.58, 0.61]


def table(**costs):
    """Costs of methods by seed; None is a fit that failed."""
    rows = [(method, seed, cost) for method, by_seed in costs.items() for seed, cost in enumerate(by_seed)]
    return pd.DataFrame(rows, columns=["method", "seed", "normalized_cost"]).dropna()


def corrected(values, overlap=0.25):
    """The corrected resampled t of Nadeau and Bengio, written out; returns mean, low, high, p."""
    n = len(values)
    mean, error = statistics.mean(values), statistics.stdev(values) * math.sqrt(1 / n + overlap)
    half = stats.t(n - 1).ppf(0.975) * error
    return mean, mean - half, mean + half, 2 * (1 - stats.t(n - 1).cdf(abs(mean) / error))


def test_interval_is_the_hand_computed_corrected_t():
    # A: squares of the deviations sum to .001, so s^2 = .00025; 1/5 + 1/4 = .45; t(4) at 97.5 % is 2.776445
    half = 2.776445 * math.sqrt(0.45 * 0.00025)
    n, mean, low, high, _ = estimate(A)
    assert (n, mean, low, high) == pytest.approx((5, 0.2, 0.2 - half, 0.2 + half), abs=1e-7)


@settings(max_examples=20)
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=9).filter(lambda values: np.std(values) > 1e-6))
def test_without_shared_samples_it_is_the_t_test(values):
    expected = stats.ttest_1samp(values, 0.0)
    interval = expected.confidence_interval()
    result = estimate(values, overlap=0.0)
    assert (result.low, result.high, result.p) == pytest.approx((*interval, expected.pvalue), rel=1e-9, abs=1e-12)


def test_what_does_not_vary_is_certain_and_one_run_tells_nothing():
    assert estimate([0.0, 0.0, 0.0]).p == 1
    assert estimate([0.5, 0.5]) == (2, 0.5, 0.5, 0.5, 0.0)
    assert np.isnan(estimate([0.5])[2:]).all()


def test_holm_equals_a_hand_worked_case():
    assert holm(np.asarray([0.01, 0.04, np.nan, 0.03, 0.005])) == pytest.approx(
        [0.03, 0.06, np.nan, 0.06, 0.02], nan_ok=True
    )


def test_differences_are_paired_corrected_and_adjusted():
    result = against(table(a=A, b=B, c=C), "b").set_index("method")
    raw = {}
    for name, costs in (("a", A), ("c", C)):
        mean, low, high, raw[name] = corrected([x - y for x, y in zip(costs, B, strict=True)])
        row = result.loc[name]
        assert row["difference"] == pytest.approx(mean)
        assert tuple(row[["percent", "percent_low", "percent_high"]]) == pytest.approx(
            [100 * end / 0.25 for end in (mean, low, high)]
        )
    assert result["p"].to_dict() == pytest.approx({"a": raw["a"], "c": 2 * raw["c"]})
    assert result["significance"].to_dict() == {"a": "significantly lower", "c": "significantly higher"}


def test_missing_fits_pair_by_seed():
    costs = table(a=A, b=[B[0], None, B[2], None, B[4]], c=[None] * 4 + [0.5], d=[None] * 5 + [0.1])
    result = against(costs, "a").set_index("method")
    mean, low, _, p = corrected([B[i] - A[i] for i in (0, 2, 4)])
    base = statistics.mean(A[i] for i in (0, 2, 4))  # the reference on the same seeds
    row = result.loc["b"]
    assert (row["pairs"], row["difference"], row["p"]) == pytest.approx((3, mean, p))
    assert (row["percent"], row["percent_low"]) == pytest.approx((100 * mean / base, 100 * low / base))
    assert result["pairs"].to_dict() == {"b": 3, "c": 1}  # d shares no seed
    assert math.isnan(result.loc["c", "p"])
    assert result.loc["c", "significance"] == "no significant difference"


def test_intervals_cover_the_truth_where_plain_ones_do_not():
    """Costs of 200 samples are drawn once for each task; ten splits measure 40 of the same again and again."""
    rng = np.random.default_rng(0)
    costs = rng.exponential(1.0, (400, 200))
    means = np.asarray([[rng.choice(task, 40, replace=False).mean() for _ in range(10)] for task in costs])
    for overlap, least, most in ((0.25, 0.92, 0.98), (0.0, 0, 0.82)):
        results = [estimate(values, overlap) for values in means]
        covered = np.mean([result.low <= 1 <= result.high for result in results])
        assert least <= covered < most
