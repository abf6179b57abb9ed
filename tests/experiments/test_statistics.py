"""Statistics of a comparison against hand-worked cases, scipy's tests, published tables and simulations."""

import math
import statistics as stdlib

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from adacsl.estimators.methods import METHODS
from adacsl.experiments.statistics import Ranks, Verdict, overall, ranks, verdict, verdicts
from adacsl.experiments.statistics.verdicts import CONSTANTS
from paper.statistics import summarise  # a verdict reads any summary

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
    row = by_method(summarise(made({"a": near(0.22), "b": near(0.25, 1)}))).loc["b"]
    mean, low, high = row[["difference", "difference_low", "difference_high"]]
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
