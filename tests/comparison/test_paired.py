"""Summaries from the costs of rows, against fold_interval on rows picked by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.comparison.fits import FitKey, FitResult, scale_fn
from adacsl.comparison.statistics import (
    PAIRWISE_COLUMNS,
    SUMMARY_COLUMNS,
    RowCosts,
    fold_interval,
    pairwise,
    row_costs,
    summarise,
    summary_of,
)
from adacsl.comparison.store import StoredSplit

N, REPEATS, FOLDS = 60, 2, 3
RNG = np.random.default_rng(5)
FITS = np.concatenate([RNG.permutation(N) % FOLDS + FOLDS * r for r in range(REPEATS)])
ROWS = np.tile(np.arange(N), REPEATS)


def drawn(seed=0, **means):
    """Costs of two repeats of three folds, alike from repeat to repeat but for a little luck."""
    rng = np.random.default_rng(seed)
    return {
        name: np.tile(rng.random(N) < mean, REPEATS) * 1.0 + 0.1 * (rng.random(N * REPEATS) < 0.05)
        for name, mean in means.items()
    }


def made(costs, missing=(), units=None):
    """Row costs; ``missing`` are pairs of method and fit."""
    table = np.stack(list(costs.values())).astype(float)
    for name, fit in missing:
        table[list(costs).index(name), fit == FITS] = np.nan
    return RowCosts(tuple(costs), table, ROWS, FITS, ROWS if units is None else units)


def summed(rows, **options):
    return summary_of(rows, **options).set_index("method")


def at(costs, name, other=None, fits=range(REPEATS * FOLDS)):
    """The interval of a cost, or of a difference, on some fits."""
    kept = np.isin(FITS, list(fits))
    d = costs[name] if other is None else costs[name] - costs[other]
    return fold_interval(d[kept], FITS[kept], ROWS[kept])


def test_intervals_are_those_of_the_samples():
    costs = drawn(a=0.2, b=0.4, c=0.8)
    table = summed(made(costs))
    assert table["significance"].iloc[0] == "lowest cost"
    assert table["rank"].to_dict() == {"a": 1, "b": 2, "c": 3}
    for name in costs:
        assert tuple(table.loc[name, ["mean", "low", "high"]]) == pytest.approx(at(costs, name))
        result = at(costs, name, "a")
        row = table.loc[name]
        assert tuple(row[["difference", "difference_low", "difference_high"]]) == pytest.approx(result)
        base, own = costs["a"].mean(), costs[name].mean()
        assert tuple(row[["percent", "percent_low", "percent_high"]]) == pytest.approx([100 * v / base for v in result])
        below = [100 * result[0] / own, 100 * result[1] / own, min(100.0, 100 * result[2] / own)]
        assert tuple(row[["below", "below_low", "below_high"]]) == pytest.approx(below)
    assert table.loc["c", "significance"] == "significantly higher"
    assert math.isnan(table.loc["a", "p"])


def test_p_is_below_the_level_just_where_the_interval_leaves_out_zero():
    costs = drawn(3, a=0.2, b=0.42)
    p = summed(made(costs)).loc["b", "p"]
    for confidence in (1 - 1.001 * p, 1 - 0.999 * p):
        row = summed(made(costs), confidence=confidence).loc["b"]
        assert (row["difference_low"] > 0) == (p < 1 - confidence)
        assert (row["significance"] == "significantly higher") == (p < 1 - confidence)


def test_many_methods_make_p_larger():
    two = summed(made(drawn(3, a=0.2, b=0.4)))
    many = summed(made(drawn(3, a=0.2, b=0.4) | {f"x{i}": drawn(3, a=0.2, b=0.4)["b"] for i in range(4)}))
    assert many.loc["b", "p"] == pytest.approx(min(1.0, 5 * two.loc["b", "p"]))
    assert two.loc["b", "difference_low"] == many.loc["b", "difference_low"]


def test_groups_widen_what_their_samples_share():
    groups = ROWS // 6
    costs = {name: np.tile(np.repeat(own[:10], 6), REPEATS) for name, own in drawn(a=0.3, b=0.6).items()}
    apart, together = summed(made(costs)), summed(made(costs, units=groups))
    for name in ("a", "b"):
        assert together.loc[name, "high"] > apart.loc[name, "high"]
        assert together.loc[name, "mean"] == apart.loc[name, "mean"]


def test_a_method_without_some_splits_is_paired_on_those_it_has():
    costs = drawn(a=0.2, b=0.6)
    row = summed(made(costs, [("b", 0), ("b", 4)])).loc["b"]
    there = [1, 2, 3, 5]
    assert (row["n"], row["pairs"]) == (4, 4)
    assert tuple(row[["mean", "low", "high"]]) == pytest.approx(at(costs, "b", fits=there))
    result = at(costs, "b", "a", fits=there)
    assert tuple(row[["difference", "difference_low", "difference_high"]]) == pytest.approx(result)
    assert row["percent"] == pytest.approx(100 * result[0] / costs["a"][np.isin(FITS, there)].mean())


def test_failing_on_the_hard_split_does_not_make_a_method_lowest_cost():
    hard = np.where(FITS == 0, 1.0, 0.1)
    costs = {"a": hard, "b": hard + 0.02}
    table = summed(made(costs, [("b", 0)]))
    assert table.loc["a", "significance"] == "lowest cost"
    assert table.loc["b", "mean"] < table.loc["a", "mean"]
    assert table["rank"].to_dict() == {"a": 1, "b": 2}


def test_one_favourable_split_does_not_make_a_method_lowest_cost():
    costs = drawn(a=0.3, b=0.5) | {"lucky": np.full(N * REPEATS, 0.01)}
    table = summed(made(costs, [("lucky", fit) for fit in range(1, 6)]))
    assert table.loc["a", "significance"] == "lowest cost"
    assert table.loc["lucky", "significance"] == "no significant difference"
    assert table.loc["lucky", ["low", "difference_low", "p"]].isna().all()


def test_methods_without_a_common_split_are_not_significantly_different():
    costs = drawn(a=0.3, b=0.5)
    table = summed(made(costs, [("a", fit) for fit in (0, 1, 2)] + [("b", fit) for fit in (3, 4, 5)]))
    assert table.loc["b", ["difference", "difference_low", "p"]].isna().all()
    assert table["pairs"].to_dict() == {"a": 3, "b": 0}
    assert table["rank"].to_dict() == {"a": 1, "b": 2}


def test_one_split_has_no_intervals_and_has_no_significance():
    costs = drawn(a=0.2, b=0.6)
    table = summed(made(costs, [(name, fit) for name in costs for fit in range(1, 6)]))
    assert table[["low", "high", "difference_low", "difference_high", "p"]].isna().all(axis=None)
    assert table["significance"].to_dict() == {"a": "lowest cost", "b": "no significant difference"}
    assert table["n"].tolist() == [1, 1]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_differences_that_do_not_vary(scale):
    a = scale * drawn(a=0.4)["a"]
    table = summed(made({"a": a, "same": a, "dearer": a + 0.3 * scale}))
    assert table.loc["same", ["difference", "difference_low", "difference_high", "p"]].tolist() == [0, 0, 0, 1]
    assert table.loc["dearer", "p"] == 0
    assert table["significance"].to_dict() == {
        "a": "lowest cost",
        "same": "no significant difference",
        "dearer": "significantly higher",
    }
    assert table["rank"].to_dict() == {"a": 1, "same": 1, "dearer": 3}


def test_costs_below_nothing_have_no_percentages_and_no_floor():
    costs = drawn(a=0.2, b=0.7)
    paid = {name: 0.1 * own - 1 for name, own in costs.items()}
    table = summed(made(paid))
    assert table.loc["b", ["percent", "percent_low", "below", "below_high"]].isna().all()
    assert table.loc["a", "low"] < -0.9
    few = np.zeros(N * REPEATS)
    few[[3, N + 3]] = 1.0
    assert summed(made({"a": few})).loc["a", "low"] == 0.0
    assert summed(made({"a": few}), floor=None).loc["a", "low"] < 0


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.floats(1e-6, 1e6), st.randoms(use_true_random=False))
def test_scale_and_order_change_no_certainty(seed, factor, random):
    costs = drawn(seed, a=0.3, b=0.35, c=0.6)
    plain = made(costs, [("c", 2)])
    order = list(range(N * REPEATS))
    random.shuffle(order)
    other = RowCosts(plain.methods, factor * plain.costs[:, order], ROWS[order], FITS[order], ROWS[order])
    one, two = summed(plain), summed(other)
    assert one[["rank", "significance", "n", "pairs"]].equals(two[["rank", "significance", "n", "pairs"]])
    for name in ("p", "percent", "percent_low", "below_high"):
        np.testing.assert_allclose(one[name], two[name], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(factor * one["low"], two["low"], rtol=1e-6, atol=1e-9 * factor)


# all data sets and ratios


def results(**costs):
    rows = [
        {"data": "d", "ratio": 8.0, "method": name, "seed": seed, "normalized_cost": value + seed, "savings": -value}
        for name, value in costs.items() for seed in range(2)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_summary_has_a_block_for_each_view():
    views = {("e", 1.0): made(drawn(a=0.2, b=0.5)), ("d", 8.0): made(drawn(a=0.6, b=0.3))}
    table = summarise(results(a=0.2, b=0.4).astype({"method": "category"}), views)
    assert list(table.columns) == SUMMARY_COLUMNS
    keys = list(zip(table["data"], table["ratio"], table["method"], strict=True))
    assert keys == [("d", 8.0, "b"), ("d", 8.0, "a"), ("e", 1.0, "a"), ("e", 1.0, "b")]
    assert table["normalized_cost"].tolist()[:2] == pytest.approx([0.9, 0.7])
    assert table["savings"].tolist()[:2] == pytest.approx([-0.4, -0.2])
    assert table["savings"].isna().tolist() == [False, False, True, True]
    assert list(summarise(results(), {}).columns) == SUMMARY_COLUMNS
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, got 95"):
        summarise(results(a=0.2), views, confidence=95)


def test_pairwise_is_against_the_reference():
    costs = drawn(a=0.2, b=0.5, c=0.9)
    views = {("d", 8.0): made(costs), ("e", 8.0): made(drawn(a=0.2, c=0.4))}
    table = pairwise(views, "b")
    assert list(table.columns) == PAIRWISE_COLUMNS
    assert table["method"].tolist() == ["a", "c"]
    assert set(table["reference"]) == {"b"}
    assert set(table["data"]) == {"d"}
    for name, row in table.set_index("method").iterrows():
        assert tuple(row[["difference", "difference_low", "difference_high"]]) == pytest.approx(at(costs, name, "b"))
        assert row["percent"] == pytest.approx(100 * row["difference"] / costs["b"].mean())
    assert table["significance"].tolist() == ["significantly lower", "significantly higher"]
    with pytest.raises(ValueError, match="reference must be a method with results, got 'x'; there are: a, b, c"):
        pairwise(views, "x")


# from what is stored


def test_sample_costs_are_the_costs_of_stored_decisions():
    fn = np.asarray([5.0, 7.0, 9.0, 11.0])
    costs = CostMatrix(fp=1, fn=fn)
    tested = {0: np.asarray([0, 2]), 1: np.asarray([1, 3])}
    labels = np.asarray([1, 0, 1, 1])
    splits = {
        ("d", seed): StoredSplit(rows, labels[rows], costs.rows(rows), rows // 3) for seed, rows in tested.items()
    }

    def fit(method, seed, *decided):
        result = FitResult(FitKey("d", 8.0, method, seed), {}, np.zeros(2, np.float32), np.asarray(decided, bool))
        return {result.fit: result}

    fits = fit("b", 0, False, True) | fit("b", 1, True, False) | fit("a", 1, True, True)
    dearer = row_costs(fits, splits, lambda _data, ratio, prices: scale_fn(prices, ratio / 4.0))["d", 8.0]
    np.testing.assert_array_equal(dearer.costs, [[np.nan, np.nan, 1.0, 0.0], [10.0, 0.0, 1.0, 22.0]])
    found = row_costs(fits, splits, lambda _data, _ratio, prices: prices)["d", 8.0]
    assert found.methods == ("a", "b")
    assert found.rows.tolist() == [0, 2, 1, 3]
    assert found.fits.tolist() == [0, 0, 1, 1]
    assert found.units.tolist() == [0, 0, 0, 1]
    np.testing.assert_array_equal(found.costs, [[np.nan, np.nan, 1.0, 0.0], [5.0, 0.0, 1.0, 11.0]])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"costs": np.zeros((2, 4))}, "methods x entries"),
        ({"costs": np.zeros((1, 3))}, "methods x entries"),
        ({"fits": np.arange(3)}, "3 fits"),
        ({"costs": np.full((1, 4), np.inf)}, "finite"),
        ({"methods": ("a", "a"), "costs": np.zeros((2, 4))}, "different names"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, says):
    given = {"methods": ("a",), "costs": np.zeros((1, 4))} | dict.fromkeys(("rows", "fits", "units"), np.arange(4))
    with pytest.raises(ValueError, match=says):
        RowCosts(**(given | change))
