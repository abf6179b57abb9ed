"""Statistics of a comparison against hand-worked cases, scipy's tests, published tables and simulations."""

import math
import statistics as stdlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adacsl.estimators.methods import METHODS
from adacsl.experiments.statistics import Ranks, Verdict, overall, pairwise, ranks, summarise, verdict, verdicts
from adacsl.experiments.statistics.differences import PAIRWISE_COLUMNS, SUMMARY_COLUMNS
from adacsl.experiments.statistics.verdicts import CONSTANTS

ORDER = ["always-negative", "always-positive", "ce", "ce-bayes", "smote", "focal", "metacost", "adacsl", "adacsl-cv"]


def made(costs, *, data="d", ratio=8.0, n_train=400, n_test=100):
    """Results of methods by seed; None is a cell that failed."""
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
    found = by_method(summarise(made({"best": [100.0] * 10, **costs})))
    assert found["p"].drop("best").to_dict() == pytest.approx({"w": 0.03, "x": 0.06, "y": 0.06, "z": 0.02})
    assert found["standing"].to_dict() == {
        "best": "cheapest",
        "z": "clearly worse",
        "w": "clearly worse",
        "y": "probably worse",
        "x": "probably worse",
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
    assert table.loc["b", "standing"] == "cheapest"
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
    assert table["standing"].to_dict() == {"a": "cheapest", "b": "not told apart"}
    assert table.loc["b", "difference"] == pytest.approx(0.1)


def test_missing_cells_pair_by_seed():
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
    assert table.loc["a", "standing"] == "cheapest"
    assert table["rank"].to_dict() == {"a": 1, "b": 2}
    assert table.loc["b", "mean"] < table.loc["a", "mean"]


def test_one_lucky_split_does_not_make_a_method_cheapest():
    table = by_method(summarise(made({"a": A, "b": B, "lucky": [0.01, None, None, None, None]})))
    assert table.loc["a", "standing"] == "cheapest"
    assert table.loc["lucky", "standing"] == "not told apart"
    assert table.loc["lucky", "difference"] < 0
    twice = by_method(summarise(made({"a": A, "lucky": [A[0] - 0.1, A[1] - 0.1, None, None, None]})))
    assert twice.loc["lucky", "p"] == 0  # surely different, but not worse
    assert twice.loc["lucky", "standing"] == "not told apart"


def test_methods_without_a_common_split_are_not_told_apart():
    table = by_method(summarise(made({"a": [0.1, 0.2, None, None], "b": [None, None, 0.5, 0.6]})))
    assert table.loc["b", ["difference", "difference_low", "p"]].isna().all()
    assert table["pairs"].to_dict() == {"a": 2, "b": 0}
    assert table["rank"].to_dict() == {"a": 1, "b": 2}
    assert table.loc["b", "standing"] == "not told apart"


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_differences_that_do_not_vary(scale):
    a = [scale * x for x in (0.1, 0.7, 0.4)]
    table = by_method(summarise(made({"a": a, "same": a, "dearer": [x + 0.3 * scale for x in a]})))
    assert table.loc["same", ["difference", "difference_low", "difference_high", "p"]].tolist() == [0, 0, 0, 1]
    assert table.loc["dearer", "p"] == 0
    assert table["standing"].to_dict() == {"a": "cheapest", "same": "not told apart", "dearer": "clearly worse"}
    assert table["rank"].to_dict() == {"a": 1, "same": 1, "dearer": 3}


def test_costs_below_nothing_have_no_percentages():
    table = by_method(summarise(made({"a": [-x for x in C], "b": [-x for x in A]})))
    assert table.loc["a", "standing"] == "cheapest"
    assert table.loc["b", "difference"] == pytest.approx(0.4)
    assert table.loc["b", ["percent", "percent_low", "below", "below_high"]].isna().all()
    assert table.loc["a", "low"] < -0.6


def test_nothing_finished_gives_empty_tables():
    none = made({})
    assert list(summarise(none).columns) == SUMMARY_COLUMNS
    assert verdicts(summarise(none), simplest_first=ORDER) == {}
    assert overall(ranks(none), simplest_first=ORDER).text == (
        "No verdict over data sets: ranks need at least 2 data sets to be tested, got 0."
    )


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
        (lambda r: r.assign(cost=np.inf), "no finite number: drop or repeat that cell"),
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
    assert rows["standing"].to_dict() == {"a": "clearly cheaper", "c": "clearly worse"}


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


@given(matrices, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows, random):
    results = from_counts(rows)
    shuffled = list(range(len(results)))
    random.shuffle(shuffled)
    pd.testing.assert_frame_equal(summarise(results.iloc[shuffled]), summarise(results))


@given(matrices, st.floats(1e-9, 1e9))
def test_scaling_all_costs_changes_no_certainty(rows, factor):
    plain, scaled = summarise(from_counts(rows)), summarise(from_counts(rows, factor))
    assert plain[["method", "rank", "standing"]].equals(scaled[["method", "rank", "standing"]])
    for name in ("p", "percent", "percent_low", "below_low", "below_high"):
        np.testing.assert_allclose(scaled[name], plain[name], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scaled["difference"], plain["difference"] * factor, rtol=1e-9, atol=1e-12 * factor)


@given(matrices, st.integers(-100, 1000))
def test_a_constant_added_to_all_costs_changes_no_difference(rows, shift):
    plain, moved = by_method(summarise(from_counts(rows))), by_method(summarise(from_counts(rows, shift=shift)))
    assert plain[["rank", "standing"]].equals(moved[["rank", "standing"]])
    for name in ("difference", "difference_low", "difference_high", "p"):
        np.testing.assert_allclose(moved[name], plain[name], rtol=1e-6, atol=1e-9)


@given(matrices)
def test_standing_follows_p_and_every_text_is_short(rows):
    table = summarise(from_counts(rows))
    assert (table["standing"] == "cheapest").sum() == 1
    worse = table["standing"] == "clearly worse"
    assert (table.loc[worse, "p"] < 0.05).all()
    assert (table.loc[worse, "difference_low"] >= 0).all()
    doubtful = table["standing"] == "probably worse"
    assert (table.loc[doubtful, "difference_low"] > 0).all()
    assert not (table.loc[doubtful, "p"] < 0.05).any()
    assert (table["difference"] >= 0).all()
    found = verdict(table, simplest_first=["r1", "r0"])
    assert {found.cheapest, *found.tied, *found.doubtful, *found.worse} == set(table["method"])
    assert found.recommended in {found.cheapest, *found.tied}
    assert found.text.endswith(".")
    assert found.text.count(". ") <= 2
    assert "nan" not in found.text


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
    beaten = (table["standing"] == "clearly worse").groupby(table["method"]).mean()
    assert beaten["r0"] + beaten["r1"] < 0.08
    assert min(beaten["r2"], beaten["r3"]) > 0.9


# ranks

# Demsar (2006), table 6: AUC of C4.5 with parameters m and cf tuned or not. The paper prints .975 twice in the last row
# but one and ranks them 2 and 3: hence .9751
DEMSAR = """
.763 .768 .771 .798
.599 .591 .590 .569
.954 .971 .968 .967
.628 .661 .654 .657
.882 .888 .886 .898
.936 .931 .916 .931
.661 .668 .609 .685
.583 .583 .563 .625
.775 .838 .866 .875
1.00 1.00 1.00 1.00
.940 .962 .965 .962
.619 .666 .614 .669
.972 .981 .9751 .975
.957 .978 .946 .970
"""


def over_tasks(matrix, names=None):
    names = names or [f"r{i}" for i in range(len(matrix[0]))]
    frames = [
        made({name: [cost / 2] for name, cost in zip(names, row, strict=True)}, data=f"t{i:03d}")
        for i, row in enumerate(matrix)
    ]
    return pd.concat(frames, ignore_index=True)


def test_ranks_equal_a_published_example():
    auc = [[float(x) for x in line.split()] for line in DEMSAR.split("\n") if line]
    found = ranks(over_tasks([[1 - x for x in row] for row in auc], ["plain", "m", "cf", "m+cf"]))
    average = found.table.set_index("method")["average_rank"].to_dict()
    assert average == pytest.approx({"plain": 3.143, "m": 2.0, "cf": 2.893, "m+cf": 1.964}, abs=5e-4)
    assert found.table["method"].tolist() == ["m+cf", "m", "cf", "plain"]
    assert found.n_blocks == 14
    assert found.critical_difference == pytest.approx(1.25, abs=5e-3)  # at 95 %, as published
    assert ranks(over_tasks(auc), confidence=0.9).critical_difference == pytest.approx(1.12, abs=5e-3)
    # at 95 % the experiment is not powerful enough for any pair, says the paper
    assert found.groups == (("m+cf", "m", "cf", "plain"),)
    assert found.friedman_p == pytest.approx(stats.friedmanchisquare(*np.transpose(auc)).pvalue)
    assert found.friedman_p < 0.05


@pytest.mark.parametrize(
    ("k", "q"), [(3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)]
)
def test_critical_difference_uses_the_published_q(k, q):
    rng = np.random.default_rng(k)
    found = ranks(over_tasks(rng.random((7, k)).tolist()))
    assert found.critical_difference == pytest.approx(q * math.sqrt(k * (k + 1) / (6 * 7)), rel=3e-4)


@pytest.mark.parametrize("seed", range(3))
def test_friedman_without_ties_follows_its_formula(seed):
    rng = np.random.default_rng(seed)
    n, k = 9, 5
    matrix = rng.random((n, k)) + 0.2 * np.arange(k)
    average = (matrix.argsort(axis=1).argsort(axis=1) + 1).mean(axis=0)
    chi2 = 12 * n / (k * (k + 1)) * (np.sum(average**2) - k * (k + 1) ** 2 / 4)
    found = ranks(over_tasks(matrix.tolist()))
    assert found.friedman_p == pytest.approx(stats.chi2(k - 1).sf(chi2))
    assert found.table.set_index("method")["average_rank"].sort_index().tolist() == pytest.approx(average.tolist())


def test_groups_are_the_largest_sets_within_the_critical_difference():
    # 20 tasks, always the order r0 .. r5; swaps bring neighbours together
    matrix = [[0, 1, 2, 3, 4, 5] if i % 2 else [1, 0, 2, 4, 3, 5] for i in range(20)]
    found = ranks(over_tasks([[x + 1 for x in row] for row in matrix]))
    average = {"r0": 1.5, "r1": 1.5, "r2": 3.0, "r3": 4.5, "r4": 4.5, "r5": 6.0}
    assert found.table.set_index("method")["average_rank"].to_dict() == average
    assert found.critical_difference == pytest.approx(2.850 * math.sqrt(42 / 120), rel=1e-3)  # 1.686
    assert found.groups == (("r0", "r1", "r2"), ("r2", "r3", "r4"), ("r3", "r4", "r5"))


def test_a_method_far_from_all_is_in_no_group():
    matrix = [[1, 5 + i % 2, 5 + (i + 1) % 2] for i in range(40)]
    found = ranks(over_tasks(matrix))
    assert found.groups == (("r1", "r2"),)
    assert overall(found, simplest_first=["r2", "r1", "r0"]).recommended == "r0"


def test_without_friedmans_consent_nobody_is_told_apart():
    """First and last are further apart than the critical difference, all others are mixed."""
    middle = [[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1], [5, 3, 7, 1, 8, 2, 6, 4]]
    found = ranks(over_tasks([[0.5, *row, 9] for row in middle]))
    average = found.table["average_rank"]
    assert average.max() - average.min() > found.critical_difference
    assert found.friedman_p > 0.05
    assert len(found.groups) == 1
    assert len(found.groups[0]) == 10


def test_all_alike_everywhere():
    found = ranks(over_tasks([[0.3] * 4] * 5))
    assert found.friedman_p == 1.0
    assert found.groups == (("r0", "r1", "r2", "r3"),)
    rounding = ranks(over_tasks([[0.3, 0.1 + 0.2, 0.3]] * 5))  # 0.30000000000000004
    assert rounding.table["average_rank"].tolist() == [2.0, 2.0, 2.0]


def test_a_data_set_is_one_block_however_many_ratios():
    rng = np.random.default_rng(3)
    frames, means = [], {}
    for data in "xyz":
        for ratio in (1.0, 3.0, 9.0):
            costs = {name: rng.random(4).tolist() for name in "abcd"}
            frames.append(made(costs, data=data, ratio=ratio))
            for name, values in costs.items():
                means.setdefault((data, name), []).append(stdlib.mean(values))
    results = pd.concat(frames)
    found = ranks(results)
    assert (found.n_blocks, found.blocks) == (3, ("data",))
    matrix = np.array([[stdlib.mean(means[data, name]) for name in "abcd"] for data in "xyz"])
    average = stats.rankdata(matrix, axis=1).mean(axis=0)
    assert found.table.set_index("method")["average_rank"].sort_index().tolist() == pytest.approx(average.tolist())
    assert found.friedman_p == pytest.approx(stats.friedmanchisquare(*matrix.T).pvalue)
    assert ranks(results, blocks=("data", "ratio")).n_blocks == 9
    with pytest.raises(ValueError, match=r"blocks must be \('data',\) or \('data', 'ratio'\), got \('seed',\)"):
        ranks(results, blocks=("seed",))


def test_only_methods_measured_everywhere_are_ranked():
    results = over_tasks(np.random.default_rng(0).random((5, 4)).tolist())
    lacking = results[~((results["method"] == "r2") & (results["data"] == "t001"))]
    found = ranks(lacking)
    assert found.left_out == ("r2",)
    assert sorted(found.table["method"]) == ["r0", "r1", "r3"]
    text = overall(found, simplest_first=[]).text
    assert text.endswith(" Not measured everywhere and left out: r2.")
    two = ranks(lacking[lacking["method"] != "r0"])
    assert two.reason == "ranks need at least 3 methods measured everywhere to be tested, got 2 (r2 lacks some)"
    assert (two.friedman_p, two.critical_difference, two.groups) == (None, None, ())


def test_blocks_compare_the_same_splits():
    """A method without the hard split must not rank first for it."""
    costs = {"a": [0.1, 0.1, 0.9], "b": [0.2, 0.2, None], "c": [0.3, 0.3, 0.95]}
    results = pd.concat([made(costs, data=data) for data in "xy"])
    assert ranks(results).table["method"].tolist() == ["a", "b", "c"]
    apart = {"a": [0.1, 0.1, None, None], "b": [None, None, 0.2, 0.2], "c": [0.3, 0.3, 0.3, 0.3]}
    assert ranks(pd.concat([made(apart, data=data) for data in "xy"])).table["method"].tolist() == ["a", "b", "c"]


def test_splits_without_a_normalised_cost_are_left_out_of_ranks():
    results = over_tasks([[1, 2, 3]] * 4)
    results.loc[results["data"] == "t002", "normalized_cost"] = np.nan
    assert ranks(results).n_blocks == 3
    with pytest.raises(ValueError, match=r"lack the columns \['normalized_cost'\]"):
        ranks(results.drop(columns=["normalized_cost"]))


# verdicts


def said(costs, **settings):
    return verdict(summarise(made(costs)), simplest_first=ORDER, **settings)


NOISE = [(-2, 1, 0, 2, -1), (1, 2, -1, -2, 0), (0, -1, 2, 1, -2), (2, 0, -2, -1, 1), (-1, -2, 1, 0, 2)]


def near(mean, which=0, size=0.002):
    return around(mean, *(size * x for x in NOISE[which]))


def test_the_cheapest_alone():
    found = said({"adacsl-cv": near(0.22), "ce-bayes": near(0.25, 1), "smote": near(0.4), "focal": near(0.5)})
    assert found == Verdict(
        "adacsl-cv",
        "adacsl-cv",
        (),
        ("ce-bayes", "smote", "focal"),
        "adacsl-cv is cheapest: 12 % (8.1-16 %) below the next, ce-bayes; smote and focal are clearly worse too.",
    )
    assert str(found) == f"{found}" == found.text


def test_percentages_of_the_text_are_those_of_the_dearer_method():
    difference = [b - a for a, b in zip(near(0.22), near(0.25, 1), strict=True)]
    mean, low, high, _ = corrected(difference, 0.25)
    # as written in the test above
    assert [round(100 * end / 0.25, 1) for end in (mean, low, high)] == [12.0, 8.1, 15.9]


def test_two_methods_and_one_worse():
    assert said({"ce": near(0.3), "ce-bayes": near(0.2)}).text == "ce-bayes is cheapest: 33 % (33-33 %) below ce."
    three = said({"ce": near(0.3), "ce-bayes": near(0.2), "smote": near(0.4)})
    assert three.text == "ce-bayes is cheapest: 33 % (33-33 %) below the next, ce; smote is clearly worse too."


def test_the_simplest_of_the_tied_is_recommended():
    found = said({"adacsl": near(0.249), "ce-bayes": near(0.25, 1), "smote": near(0.4, 2), "focal": near(0.5, 3)})
    assert (found.recommended, found.cheapest, found.tied) == ("ce-bayes", "adacsl", ("ce-bayes",))
    assert found.text == (
        "No method is clearly cheaper than ce-bayes: take the simplest. "
        "adacsl has the lowest mean, 0.4 % (-3.5 to 4.3 %) below ce-bayes; smote and focal are clearly worse."
    )


def test_the_cheapest_may_be_the_simplest():
    found = said({"adacsl": near(0.251), "ce-bayes": near(0.25, 1), "focal": near(0.252, 2), "ce": near(0.4, 3)})
    assert (found.recommended, found.cheapest, found.tied) == ("ce-bayes", "ce-bayes", ("adacsl", "focal"))
    assert found.text == (
        "ce-bayes is cheapest, and the simplest of those that cannot be told from it (adacsl and focal); "
        "ce is clearly worse."
    )


def test_of_equal_costs_the_simplest_is_the_cheapest():
    found = said({"adacsl": near(0.25), "ce-bayes": near(0.25), "ce": near(0.4)})
    assert (found.recommended, found.cheapest, found.tied) == ("ce-bayes", "ce-bayes", ("adacsl",))


def test_a_difference_lost_among_many_says_so():
    costs = {"adacsl": near(0.25, 0, 0.01), "ce-bayes": near(0.275, 0, 0.017)}
    alone = said(costs)
    assert alone.recommended == "adacsl"  # told apart when nothing else is compared
    more = {name: near(0.25, i, 0.01) for i, name in enumerate(["metacost", "focal", "smote"], start=1)}
    found = said({**costs, **more})
    assert found.doubtful == ("ce-bayes",)
    assert found.recommended != "ce-bayes"  # nobody would take what looks dearer in its own interval
    assert found.text.endswith("; ce-bayes is probably worse.")


def test_a_lead_that_is_lost_among_many_is_named_with_its_doubt():
    costs = {"adacsl": near(0.25, 0, 0.01), "ce-bayes": near(0.275, 0, 0.018), "ce": near(0.276, 0, 0.0185)}
    found = said(costs)
    assert found.recommended == found.cheapest == "adacsl"
    assert set(found.doubtful) == {"ce-bayes", "ce"}
    assert (
        "below the next, ce-bayes (too little to be sure when 3 methods are compared); ce is probably worse."
        in found.text
    )


def test_a_large_lead_that_is_unsure_asks_for_more_seeds():
    found = said({"adacsl": [0.1, 0.2, 0.1, 0.2, 0.1], "ce-bayes": [0.1, 0.6, 0.1, 0.1, 0.5]})
    assert found.recommended == "ce-bayes"
    assert found.text.endswith("That may be much: more seeds would tell.")


def test_long_lists_are_cut():
    names = [name for name in ORDER if name != "adacsl-cv"]
    costs = {"adacsl-cv": near(0.1)} | {name: near(0.3 + 0.1 * i) for i, name in enumerate(reversed(names))}
    assert said(costs).text.endswith("; metacost, focal, smote, ce-bayes, ce and 2 others are clearly worse too.")
    del costs["always-negative"]
    assert said(costs).text.endswith("; metacost, focal, smote, ce-bayes, ce and one other are clearly worse too.")


def test_a_winning_constant_says_that_predicting_does_not_pay():
    alone = said({"always-positive": near(0.1), "ce-bayes": near(0.2), "ce": near(0.3)})
    assert alone.text == (
        "Predicting is not worth it at these costs: calling everything positive is cheapest, "
        "50 % (50-50 %) below the next, ce-bayes; ce is clearly worse too."
    )
    tied = said({"always-positive": near(0.1), "ce-bayes": near(0.1, 1), "always-negative": near(0.1005, 2)})
    assert tied.recommended == tied.cheapest == "always-positive"
    assert tied.text == (
        "Predicting is not worth it at these costs: calling everything positive has the lowest cost; "
        "ce-bayes and always-negative cannot be told from it."
    )


def test_constants_alone_say_nothing_about_predicting():
    assert said({"always-positive": near(0.1), "always-negative": near(0.2)}).text == (
        "Calling everything positive is cheapest: 50 % (50-50 %) below calling everything negative."
    )
    assert said({"always-positive": near(0.1), "always-negative": near(0.1, 1)}).text == (
        "Calling everything negative has the lowest cost; always-positive cannot be told from it."
    )
    assert said({"always-positive": near(0.1), "ce": [0.2]}).text == (
        "Calling everything positive is the only one with enough finished splits. Too few splits to judge: ce."
    )


def test_constants_are_the_methods_of_that_name():
    assert list(METHODS)[:2] == list(CONSTANTS)


def test_a_constant_among_the_tied():
    found = said({"always-negative": near(0.101, 1), "adacsl": near(0.1), "ce": near(0.2)})
    assert found.recommended == "always-negative"
    assert found.text == (
        "No method is clearly cheaper than calling everything negative: it is not shown that predicting is worth it at "
        "these costs. adacsl has the lowest mean, 0.99 % (-8.8 to 11 %) below calling everything negative; "
        "ce is clearly worse."
    )


def test_one_split_is_no_evidence():
    found = said({"always-negative": [0.5], "ce": [0.3], "adacsl": [0.2]})
    assert (found.recommended, found.cheapest) == (None, "adacsl")
    assert found.text == (
        "One split only: nothing can be said about certainty; run more seeds. On it adacsl cost least."
    )


def test_one_method_is_no_comparison():
    assert said({"ce": A}).text == "Only ce was measured: there is nothing to compare it with."


@pytest.mark.parametrize("base", [0.0, -0.5])
def test_without_a_positive_cost_differences_are_in_units_of_cost(base):
    cheapest = [base] * 5
    found = said({"adacsl": cheapest, "ce": near(base + 0.03, 1), "smote": near(base + 0.3)})
    assert found.text == (
        "adacsl is cheapest: its cost is 0.03 (0.024-0.036) below the next, ce; smote is clearly worse too."
    )
    tied = said({"adacsl": cheapest, "ce": near(base + 0.001, 1)})
    assert tied.text == (
        "No method is clearly cheaper than ce: take the simplest. "
        "adacsl has the lowest mean, 0.001 (-0.0049 to 0.0069) below ce."
    )


def test_large_costs_are_written_out():
    found = said({"adacsl": [0.0] * 5, "ce": near(1234567.0, 1, 1000.0)})
    assert "its cost is 1,234,567 (1,231,622-1,237,512) below ce." in found.text


def test_tolerance_takes_the_simpler_for_a_small_price():
    costs = {"adacsl": near(0.25), "ce-bayes": near(0.254), "smote": near(0.4)}
    assert said(costs).recommended == "adacsl"
    found = said(costs, tolerance=0.02)
    assert (found.recommended, found.tied, found.worse) == ("ce-bayes", ("ce-bayes",), ("smote",))
    assert found.text == (
        "No method is clearly cheaper than ce-bayes by more than 2 %: take the simplest. "
        "adacsl has the lowest mean, 1.6 % (1.6-1.6 %) below ce-bayes; smote is clearly worse."
    )
    assert said({"ce": near(0.25), "focal": near(0.254)}, tolerance=0.02).text == (
        "ce is cheapest, and the simplest of those that cannot be told from it to within 2 % (focal)."
    )
    with pytest.raises(ValueError, match="tolerance is a share of the cost from 0 to below 1, got 2"):
        said(costs, tolerance=2)


def test_missing_splits_are_mentioned():
    found = said({"adacsl": [*near(0.1)[:4], None], "ce": near(0.2), "smote": near(0.3)})
    assert found.text.endswith("smote is clearly worse too. adacsl finished fewer than all 5 splits.")
    found = said({"adacsl": near(0.1), "ce": near(0.2), "smote": [0.3, None, None, None, None]})
    assert (found.tied, found.worse) == ((), ("ce",))
    assert found.text.endswith("below ce. Too few splits to judge: smote.")
    alone = said({"adacsl": near(0.1), "smote": [0.3, None, None, None, None]})
    assert alone.text == "adacsl is the only one with enough finished splits. Too few splits to judge: smote."
    apart = said({"ce": [0.1, 0.2, None, None], "adacsl": [None, None, 0.05, 0.06]})
    assert apart.text == ("No method is clearly cheaper than ce: take the simplest. adacsl has the lowest mean.")


def test_names_nobody_ordered_are_the_least_simple():
    found = said({"mine": near(0.25), "focal": near(0.25, 1), "another": near(0.2505, 2)})
    assert found.recommended == "focal"
    found = verdict(summarise(made({"mine": near(0.25), "another": near(0.25, 1)})), simplest_first=ORDER)
    assert found.recommended == "another"


def test_verdicts_has_one_for_each_data_set_and_ratio():
    results = pd.concat(
        [made({"ce": A, "adacsl": C}), made({"ce": C, "adacsl": A}, ratio=2), made({"ce": A}, data="x")]
    )
    table = summarise(results)
    found = verdicts(table, simplest_first=ORDER)
    assert {key: value.recommended for key, value in found.items()} == {
        ("d", 2.0): "adacsl",
        ("d", 8.0): "ce",
        ("x", 8.0): "ce",
    }
    with pytest.raises(ValueError, match="verdict needs a summary of one data set and ratio, got 3: use verdicts"):
        verdict(table, simplest_first=ORDER)


# over many data sets


def test_overall_names_the_best_rank():
    found = overall(ranks(over_tasks([[1, 5, 6], [1, 6, 5]] * 10, ["ce", "focal", "adacsl"])), simplest_first=ORDER)
    assert found == Verdict(
        "ce",
        "ce",
        (),
        ("adacsl", "focal"),
        "Over 20 data sets ce ranks clearly best (average rank 1.0 of 3); adacsl and focal rank clearly worse.",
    )


def test_overall_takes_the_simplest_that_predicts():
    matrix = [[3, 2, 1, 4], [2, 3, 1, 4], [1, 2, 3, 4]] * 7
    results = over_tasks(matrix, ["always-negative", "ce-bayes", "adacsl", "smote"])
    found = overall(ranks(results), simplest_first=ORDER)
    assert (found.recommended, found.cheapest, found.worse) == ("ce-bayes", "adacsl", ("smote",))
    assert found.text == (
        "Over 21 data sets no method ranks clearly better than ce-bayes: take the simplest. "
        "adacsl has the lowest average rank (1.7; ce-bayes: 2.3; differences up to 1.0 may be chance); "
        "smote ranks clearly worse."
    )
    assert overall(ranks(results, blocks=("data", "ratio")), simplest_first=ORDER).text.startswith(
        "Over 21 pairs of data set and ratio no method"
    )
    best = overall(ranks(results), simplest_first=["adacsl"])
    assert best.text == (
        "Over 21 data sets adacsl ranks best (average rank 1.7 of 4), and is the simplest of those that cannot be told "
        "from it (always-negative and ce-bayes); smote ranks clearly worse."
    )


def test_overall_without_evidence():
    few = overall(ranks(over_tasks([[1, 2, 3, 4, 5]] * 2)), simplest_first=ORDER)
    assert few.recommended is None
    assert few.text == "2 data sets are too few to tell 5 methods apart by rank. Lowest average rank: r0 (1.0)."
    one = overall(ranks(over_tasks([[1, 2, 3]])), simplest_first=ORDER)
    assert isinstance(ranks(over_tasks([[1, 2, 3]])), Ranks)
    assert one.text == (
        "No verdict over data sets: ranks need at least 2 data sets to be tested, got 1. Lowest average rank: r0 (1.0)."
    )
