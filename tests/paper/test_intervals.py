"""Means of random splits with corrected intervals, against hand-worked cases, scipy's tests and simulations."""

import math
import statistics as stdlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adacsl.comparison.statistics import PAIRWISE_COLUMNS, SUMMARY_COLUMNS
from paper.intervals import pairwise, summarise


def made(costs, *, data="d", ratio=8.0, n_train=400, n_test=100):
    """Results of methods by seed; None is a fit that failed."""
    rows = [
        (data, ratio, method, seed, cost, 2 * cost, 1 - 2 * cost, n_train, n_test)
        for method, by_seed in costs.items()
        for seed, cost in enumerate(by_seed)
        if cost is not None
    ]
    columns = ["data", "ratio", "method", "seed", "cost", "normalized_cost", "savings", "n_train", "n_test"]
    return pd.DataFrame(rows, columns=columns)


def by_method(table):
    return table.set_index("method")


def around(mean, *noise):
    return [mean + e for e in noise]


A = around(0.20, -0.02, 0.01, 0.02, -0.01, 0.0)
B = around(0.25, -0.03, 0.02, 0.02, 0.0, -0.01)
C = around(0.60, -0.02, 0.03, 0.0, -0.02, 0.01)


# intervals and differences


def corrected(values, share, confidence=0.95):
    """The corrected resampled t of Nadeau and Bengio, written out; returns mean, low, high, p."""
    n = len(values)
    mean, error = stdlib.mean(values), stdlib.stdev(values) * math.sqrt(1 / n + share)
    half = stats.t(n - 1).ppf(0.5 + confidence / 2) * error
    return mean, mean - half, mean + half, 2 * (1 - stats.t(n - 1).cdf(abs(mean) / error))


def test_interval_is_the_hand_computed_corrected_t():
    # A: squares of the deviations sum to .001, so s^2 = .00025; 1/5 + 100/400 = .45; t(4) at 97.5 % is 2.776445
    half = 2.776445 * math.sqrt(0.45 * 0.00025)
    row = by_method(summarise(made({"a": A, "b": B}))).loc["a"]
    assert row["mean"] == pytest.approx(0.2)
    assert (row["low"], row["high"]) == pytest.approx((0.2 - half, 0.2 + half), abs=1e-7)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_differences_are_paired_corrected_and_adjusted(confidence):
    table = by_method(summarise(made({"a": A, "b": B, "c": C}), confidence=confidence))
    raw = {}
    for name, costs in (("b", B), ("c", C)):
        mean, low, high, raw[name] = corrected([y - x for x, y in zip(A, costs, strict=True)], 0.25, confidence)
        row = table.loc[name]
        assert tuple(row[["difference", "difference_low", "difference_high"]]) == pytest.approx((mean, low, high))
        assert tuple(row[["percent", "percent_low", "percent_high"]]) == pytest.approx(
            [100 * end / 0.2 for end in (mean, low, high)]
        )
        below = [100 * end / stdlib.mean(costs) for end in (mean, low, high)]
        assert tuple(row[["below", "below_low", "below_high"]]) == pytest.approx(below)
    assert raw["c"] < raw["b"]
    assert table.loc["c", "p"] == pytest.approx(2 * raw["c"])
    assert table.loc["b", "p"] == pytest.approx(raw["b"])
    assert math.isnan(table.loc["a", "p"])
    assert table.loc["a", "difference"] == 0
    assert table["rank"].to_dict() == {"a": 1, "b": 2, "c": 3}
    assert table["normalized_cost"].to_dict() == pytest.approx({"a": 0.4, "b": 0.5, "c": 1.2})
    assert table["savings"].to_dict() == pytest.approx({"a": 0.6, "b": 0.5, "c": -0.2})


def test_without_shared_rows_it_is_the_paired_t_test():
    results = made({"a": A, "c": C}, n_train=10**12, n_test=1)
    row = by_method(summarise(results)).loc["c"]
    expected = stats.ttest_rel(C, A)
    interval = expected.confidence_interval()
    assert row["p"] == pytest.approx(expected.pvalue)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx(tuple(interval))


def test_holm_equals_a_hand_worked_case():
    """p of .01, .04, .03, .005 become .03, .06, .06, .02."""
    # deviations of +-1 in ten splits: s^2 = 10/9; the mean follows from the p that is wanted
    signs = [1, -1] * 5
    error = math.sqrt(10 / 9 * (1 / 10 + 0.25))
    wanted = {"w": 0.01, "x": 0.04, "y": 0.03, "z": 0.005}
    costs = {name: [100 + s + error * stats.t(9).isf(p / 2) for s in signs] for name, p in wanted.items()}
    result = by_method(summarise(made({"best": [100.0] * 10, **costs})))
    assert result["p"].drop("best").to_dict() == pytest.approx({"w": 0.03, "x": 0.06, "y": 0.06, "z": 0.02})
    assert result["significance"].to_dict() == {
        "best": "lowest cost",
        "z": "significantly higher",
        "w": "significantly higher",
        "y": "not significant (corrected)",
        "x": "not significant (corrected)",
    }


def test_uneven_splits_use_their_mean_share():
    results = made({"a": A, "b": B})
    results.loc[results["seed"] == 0, ["n_train", "n_test"]] = (100, 100)  # 1.0 beside four times .25
    row = by_method(summarise(results)).loc["b"]
    _, low, high, _ = corrected([y - x for x, y in zip(A, B, strict=True)], 0.4)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((low, high))


def test_blocks_are_apart_and_sorted():
    parts = [made({"a": A, "b": B}, ratio=3), made({"b": A, "a": B}, ratio=1), made({"a": A, "b": B}, data="c")]
    table = summarise(pd.concat(parts))
    assert list(table.columns) == SUMMARY_COLUMNS
    assert list(zip(table["data"], table["ratio"], table["method"], strict=True)) == [
        ("c", 8.0, "a"),
        ("c", 8.0, "b"),
        ("d", 1.0, "b"),
        ("d", 1.0, "a"),
        ("d", 3.0, "a"),
        ("d", 3.0, "b"),
    ]


def test_another_measure():
    results = made({"a": A, "b": B})
    results["seconds"] = np.where(results["method"] == "a", 9.0, 4.0)
    table = by_method(summarise(results, measure="seconds"))
    assert table.loc["b", "significance"] == "lowest cost"
    assert table.loc["a", "difference"] == 5.0
    assert by_method(summarise(results.drop(columns=["savings"])))["savings"].isna().all()


def test_low_end_stops_at_the_floor_unless_benefits_were_seen():
    wide = {"a": [0.0, 0.0, 0.0, 0.1], "b": [1.0, 1.1, 1.2, 1.3]}
    assert by_method(summarise(made(wide))).loc["a", "low"] == 0.0
    assert by_method(summarise(made(wide), floor=None)).loc["a", "low"] < 0
    assert by_method(summarise(made({**wide, "c": [-0.1, 0.3, 0.2, 0.1]}))).loc["a", "low"] < 0
    assert by_method(summarise(made(wide)))["below_high"].max() == 100.0


# what is missing or does not vary


def test_one_seed_has_no_intervals_and_tells_nothing_apart():
    table = by_method(summarise(made({"a": [0.1], "b": [0.2]})))
    assert table[["low", "high", "difference_low", "difference_high", "p"]].isna().all(axis=None)
    assert table["significance"].to_dict() == {"a": "lowest cost", "b": "no significant difference"}
    assert table.loc["b", "difference"] == pytest.approx(0.1)


def test_missing_fits_pair_by_seed():
    b = [B[0], None, B[2], None, B[4]]
    row = by_method(summarise(made({"a": A, "b": b}))).loc["b"]
    mean, low, high, p = corrected([B[i] - A[i] for i in (0, 2, 4)], 0.25)
    assert (row["n"], row["pairs"]) == (3, 3)
    assert tuple(row[["difference", "difference_low", "difference_high", "p"]]) == pytest.approx((mean, low, high, p))
    # percent of what the others cost on the same seeds
    assert row["percent"] == pytest.approx(100 * mean / stdlib.mean(A[i] for i in (0, 2, 4)))


def test_failing_on_the_hard_split_does_not_make_a_method_cheapest():
    a = [0.1, 0.1, 0.1, 0.9]  # mean .3
    b = [0.12, 0.13, 0.12, None]  # mean .123, but dearer wherever both were measured
    table = by_method(summarise(made({"a": a, "b": b})))
    assert table.loc["a", "significance"] == "lowest cost"
    assert table["rank"].to_dict() == {"a": 1, "b": 2}
    assert table.loc["b", "mean"] < table.loc["a", "mean"]


def test_one_lucky_split_does_not_make_a_method_cheapest():
    table = by_method(summarise(made({"a": A, "b": B, "lucky": [0.01, None, None, None, None]})))
    assert table.loc["a", "significance"] == "lowest cost"
    assert table.loc["lucky", "significance"] == "no significant difference"
    assert table.loc["lucky", "difference"] < 0
    twice = by_method(summarise(made({"a": A, "lucky": [A[0] - 0.1, A[1] - 0.1, None, None, None]})))
    assert twice.loc["lucky", "p"] == 0  # surely different, but not worse
    assert twice.loc["lucky", "significance"] == "no significant difference"


def test_methods_without_a_common_split_are_not_told_apart():
    table = by_method(summarise(made({"a": [0.1, 0.2, None, None], "b": [None, None, 0.5, 0.6]})))
    assert table.loc["b", ["difference", "difference_low", "p"]].isna().all()
    assert table["pairs"].to_dict() == {"a": 2, "b": 0}
    assert table["rank"].to_dict() == {"a": 1, "b": 2}
    assert table.loc["b", "significance"] == "no significant difference"


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_differences_that_do_not_vary(scale):
    a = [scale * x for x in (0.1, 0.7, 0.4)]
    table = by_method(summarise(made({"a": a, "same": a, "dearer": [x + 0.3 * scale for x in a]})))
    assert table.loc["same", ["difference", "difference_low", "difference_high", "p"]].tolist() == [0, 0, 0, 1]
    assert table.loc["dearer", "p"] == 0
    assert table["significance"].to_dict() == {
        "a": "lowest cost",
        "same": "no significant difference",
        "dearer": "significantly higher",
    }
    assert table["rank"].to_dict() == {"a": 1, "same": 1, "dearer": 3}


def test_costs_below_nothing_have_no_percentages():
    table = by_method(summarise(made({"a": [-x for x in C], "b": [-x for x in A]})))
    assert table.loc["a", "significance"] == "lowest cost"
    assert table.loc["b", "difference"] == pytest.approx(0.4)
    assert table.loc["b", ["percent", "percent_low", "below", "below_high"]].isna().all()
    assert table.loc["a", "low"] < -0.6


def test_nothing_finished_gives_empty_tables():
    assert list(summarise(made({})).columns) == SUMMARY_COLUMNS


def test_input_is_left_alone_and_categories_are_welcome():
    results = made({"a": A, "b": B})
    before = results.copy()
    plain = summarise(results)
    pd.testing.assert_frame_equal(results, before)
    both = pd.concat([results, made({"c": A}, data="other")])
    both = both.astype({"data": "category", "method": "category"})
    pd.testing.assert_frame_equal(summarise(both[both["data"] == "d"]), plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: pd.concat([r, r.iloc[[3]]]), r"results hold d, ratio 8, a, seed 3 twice: keep one row"),
        (lambda r: r.drop(columns=["n_test", "seed"]), r"results lack the columns \['seed', 'n_test'\]; got \['data'"),
        (lambda r: r.assign(cost=r["cost"].where(r.index != 6)), "d, ratio 8, b, seed 1 with a cost that is no finite"),
        (lambda r: r.assign(cost=np.inf), "no finite number: drop or repeat that fit"),
        (lambda r: r.assign(n_train=0), "a, seed 0 without n_train and n_test above 0"),
        (lambda r: r.assign(method=None), "must name its data, ratio, method, seed; some are missing"),
        (lambda r: r.assign(n_test=np.where(r.index == 7, 90, 100)), "d, seed 2 were tested on 90 and on 100 rows"),
    ],
)
def test_wrong_results_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        summarise(change(made({"a": A, "b": B})))


def test_wrong_settings_are_refused():
    results = made({"a": A, "b": B})
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, got 95"):
        summarise(results, confidence=95)
    with pytest.raises(
        ValueError, match="measure must be a column where less is better, such as 'cost'; got 'savings'"
    ):
        summarise(results, measure="savings")
    with pytest.raises(ValueError, match=r"lack the columns \['gain'\]"):
        summarise(results, measure="gain")


# against a named method


def test_pairwise_is_against_the_reference():
    table = pairwise(made({"a": A, "b": B, "c": C}), "b")
    assert list(table.columns) == PAIRWISE_COLUMNS
    assert table["method"].tolist() == ["a", "c"]
    assert set(table["reference"]) == {"b"}
    rows = by_method(table)
    raw = {}
    for name, costs in (("a", A), ("c", C)):
        mean, low, high, raw[name] = corrected([x - y for x, y in zip(costs, B, strict=True)], 0.25)
        row = rows.loc[name]
        assert tuple(row[["difference", "difference_low", "difference_high"]]) == pytest.approx((mean, low, high))
        assert row["percent"] == pytest.approx(100 * mean / 0.25)
    assert rows.loc["a", "p"] == pytest.approx(raw["a"])
    assert rows.loc["c", "p"] == pytest.approx(2 * raw["c"])
    assert rows["significance"].to_dict() == {"a": "significantly lower", "c": "significantly higher"}


def test_pairwise_leaves_out_blocks_without_the_reference():
    both = pd.concat([made({"a": A, "b": B}), made({"a": A, "c": C}, data="e")])
    assert pairwise(both, "b")["data"].unique().tolist() == ["d"]
    assert list(pairwise(both[both["method"] == "b"], "b").columns) == PAIRWISE_COLUMNS
    with pytest.raises(ValueError, match="reference must be a method with results, got 'x'; there are: a, b, c"):
        pairwise(both, "x")


# properties

matrices = st.integers(2, 6).flatmap(
    lambda j: st.lists(st.lists(st.integers(0, 60), min_size=j, max_size=j), min_size=2, max_size=5)
)


def from_counts(rows, factor=1.0, shift=0.0):
    return made({f"r{i}": [(x + shift) * factor / 100 for x in row] for i, row in enumerate(rows)})


@settings(max_examples=25)  # each is two tables
@given(matrices, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows, random):
    results = from_counts(rows)
    shuffled = list(range(len(results)))
    random.shuffle(shuffled)
    pd.testing.assert_frame_equal(summarise(results.iloc[shuffled]), summarise(results))


@settings(max_examples=25)  # each is two tables
@given(matrices, st.floats(1e-9, 1e9))
def test_scaling_all_costs_changes_no_certainty(rows, factor):
    plain, scaled = summarise(from_counts(rows)), summarise(from_counts(rows, factor))
    assert plain[["method", "rank", "significance"]].equals(scaled[["method", "rank", "significance"]])
    for name in ("p", "percent", "percent_low", "below_low", "below_high"):
        np.testing.assert_allclose(scaled[name], plain[name], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scaled["difference"], plain["difference"] * factor, rtol=1e-9, atol=1e-12 * factor)


@settings(max_examples=25)  # each is two tables
@given(matrices, st.integers(-100, 1000))
def test_a_constant_added_to_all_costs_changes_no_difference(rows, shift):
    plain, moved = by_method(summarise(from_counts(rows))), by_method(summarise(from_counts(rows, shift=shift)))
    assert plain[["rank", "significance"]].equals(moved[["rank", "significance"]])
    for name in ("difference", "difference_low", "difference_high", "p"):
        np.testing.assert_allclose(moved[name], plain[name], rtol=1e-6, atol=1e-9)


@settings(max_examples=25)
@given(matrices)
def test_significance_follows_p(rows):
    table = summarise(from_counts(rows))
    assert (table["significance"] == "lowest cost").sum() == 1
    worse = table["significance"] == "significantly higher"
    assert (table.loc[worse, "p"] < 0.05).all()
    assert (table.loc[worse, "difference_low"] >= 0).all()
    doubtful = table["significance"] == "not significant (corrected)"
    assert (table.loc[doubtful, "difference_low"] > 0).all()
    assert not (table.loc[doubtful, "p"] < 0.05).any()
    assert (table["difference"] >= 0).all()


# simulations: splits that share rows


def drawn(rng, tasks, effects, *, rows=200, test=40, splits=10):
    """Costs of each row are drawn once for each task; splits then measure some of the same rows again and again."""
    frames = []
    for task in range(tasks):
        costs = rng.exponential(1.0, size=(len(effects), rows)) + np.asarray(effects)[:, None]
        picked = [rng.choice(rows, test, replace=False) for _ in range(splits)]
        named = {f"r{i}": [float(row[pick].mean()) for pick in picked] for i, row in enumerate(costs)}
        frames.append(made(named, data=f"t{task:04d}", n_train=rows - test, n_test=test))
    return pd.concat(frames, ignore_index=True)


def test_intervals_cover_the_truth_where_plain_ones_do_not():
    results = drawn(np.random.default_rng(0), 400, [0.0])
    table = summarise(results)
    covered = ((table["low"] <= 1) & (table["high"] >= 1)).mean()
    assert 0.92 < covered < 0.98
    cost = results.groupby("data")["cost"]
    half = stats.t(9).ppf(0.975) * cost.std() / math.sqrt(10)
    assert ((cost.mean() - 1).abs() <= half).mean() < 0.82


def test_equal_methods_seldom_make_a_headline():
    """Two are equally cheap: one of them is rarely called cheapest alone, nor the truly cheapest clearly worse."""
    table = summarise(drawn(np.random.default_rng(1), 300, [0.0, 0.0, 1.5, 1.5]))
    beaten = (table["significance"] == "significantly higher").groupby(table["method"]).mean()
    assert beaten["r0"] + beaten["r1"] < 0.08
    assert min(beaten["r2"], beaten["r3"]) > 0.9
