"""Verdicts: which method is taken, and the words that say so."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl import METHODS
from adacsl.comparison.recommendation import Recommendation, recommendation, recommendations
from adacsl.comparison.statistics import (
    BASELINE,
    CONSTANTS,
    BaselineCosts,
    RowCosts,
    Saving,
    fold_interval,
    saving_of,
    summary_of,
)

ORDER = ["always-negative", "always-positive", "logistic", "net-bayes", "gbm-bayes", "adacsl", "ensemble"]


def frame(costs, *, data="d", ratio=8.0, n=10, splits=None):
    """Return a summary: of each method its mean cost and half the width of its paired interval to the cheapest."""
    best = min(costs, key=lambda name: costs[name][0])
    lowest = costs[best][0]
    rows = []
    for name, (mean, half) in costs.items():
        ends = [mean - lowest + side * (name != best) * half for side in (0, -1, 1)]
        dearer = "significantly higher" if ends[1] > 0 else "no significant difference"
        row = {"data": data, "ratio": ratio, "method": name, "n": (splits or {}).get(name, n), "mean": mean}
        row |= {"low": mean - 0.01, "high": mean + 0.01, "significance": "lowest cost" if name == best else dearer}
        for suffix, end in zip(("", "_low", "_high"), ends, strict=True):
            row[f"difference{suffix}"] = end
            row[f"percent{suffix}"] = 100 * end / lowest if lowest > 0 else math.nan
            row[f"below{suffix}"] = 100 * end / mean if lowest > 0 else math.nan
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.assign(rank=table["mean"].rank(method="min").astype(int)).sort_values("rank")


def said(costs, **options):
    made = {key: options.pop(key) for key in ("n", "splits") if key in options}
    return recommendation(frame(costs, **made), simplest_first=ORDER, **options)


# the rule


def test_the_simplest_within_the_tolerance_is_chosen():
    costs = {"ensemble": (1.0, 0.0), "adacsl": (1.02, 0.04), "net-bayes": (1.03, 0.06), "logistic": (1.05, 0.09)}
    assert said(costs).recommended == "net-bayes"  # 14 % at most is more than 10 % for logistic
    assert said(costs, tolerance=0.15).recommended == "logistic"
    assert said(costs, tolerance=0.07).recommended == "adacsl"
    assert said(costs, tolerance=0.0).recommended == "ensemble"


def test_a_method_that_is_not_significantly_different_is_not_taken_for_that():
    noisy = {"adacsl": (1.0, 0.0), "net-bayes": (1.27, 0.5)}
    assert said(noisy).tied == ("net-bayes",)
    assert said(noisy).recommended == "adacsl"


SIGNIFICANT = {"gbm-bayes": (0.388, 0.0), "logistic": (0.412, 0.008), "ensemble": (0.389, 0.002)}


def test_a_simpler_method_that_costs_significantly_more_is_an_alternative():
    result = said(SIGNIFICANT)
    assert (result.recommended, result.worse) == ("gbm-bayes", ("logistic",))
    assert result.simpler.method == "logistic"
    assert result.simpler[1:4] == pytest.approx((100 * 0.024 / 0.388, 100 * 0.016 / 0.388, 100 * 0.032 / 0.388))
    assert "logistic is simpler and costs 6.2 % (95 % CI 4.1-8.2 %) more" in result.text
    assert said(SIGNIFICANT, tolerance=0.05).simpler is None  # it costs more than simplicity may


def test_prefer_simple_takes_the_simplest_within_the_tolerance():
    result = said(SIGNIFICANT, prefer="simple")
    assert (result.recommended, result.cheapest, result.simpler) == ("logistic", "gbm-bayes", None)
    assert "costs 6.2 % (95 % CI 4.1-8.2 %) more than gbm-bayes" in result.text
    assert said(SIGNIFICANT, prefer="simple", tolerance=0.05).recommended == "gbm-bayes"
    with pytest.raises(ValueError, match="prefer must be 'cost' or 'simple', got 'quick'"):
        said(SIGNIFICANT, prefer="quick")


methods = st.sampled_from([name for name in ORDER if name not in CONSTANTS] + ["mine", "another"])
contests = st.dictionaries(
    st.one_of(methods, st.sampled_from([*CONSTANTS, BASELINE])),
    st.tuples(st.floats(0.1, 3.0), st.floats(0.0, 1.0)),
    min_size=2,
    max_size=7,
).filter(lambda costs: set(costs) - {BASELINE})


def place(name):
    return ORDER.index(name) if name in ORDER else len(ORDER)


@given(contests, st.floats(0.0, 0.5))
def test_the_recommended_method_is_never_significantly_worse_than_the_lowest(costs, tolerance):
    result = said(costs, tolerance=tolerance)
    assert result.recommended not in result.worse
    if result.simpler is not None:
        assert place(result.simpler.method) < place(result.recommended)
        assert result.simpler.method == said(costs, tolerance=tolerance, prefer="simple").recommended


@given(contests, st.floats(0.0, 0.5))
def test_constants_are_taken_only_where_the_lowest_cost_that_predicts_costs_significantly_more(costs, tolerance):
    result = said(costs, tolerance=tolerance)
    predicting = set(costs) - {*CONSTANTS, BASELINE}
    assert result.recommended != BASELINE
    if result.recommended in CONSTANTS and predicting:
        assert min(predicting, key=lambda name: (costs[name][0], place(name))) in result.worse
    elif result.cheapest in predicting:
        table = frame(costs).set_index("method")
        near = {name for name in predicting if table["percent_high"][name] <= 100 * tolerance}
        assert result.recommended in near - set(result.worse)
        assert all(place(name) >= place(result.recommended) for name in near - set(result.worse))


@given(contests, st.floats(0.0, 0.5), st.floats(0.0, 0.4))
def test_more_tolerance_never_takes_a_less_simple_method(costs, tolerance, more):
    first, second = said(costs, tolerance=tolerance), said(costs, tolerance=tolerance + more)
    if None not in (first.recommended, second.recommended):
        assert place(second.recommended) <= place(first.recommended)
    assert (first.cheapest, first.tied, first.worse) == (second.cheapest, second.tied, second.worse)


@given(contests, st.floats(0.0, 0.5))
def test_nobody_is_both_higher_cost_and_less_simple_than_another_that_qualifies(costs, tolerance):
    taken = said(costs, tolerance=tolerance).recommended
    predicting = set(costs) - {*CONSTANTS, BASELINE}
    if taken in predicting:
        cheapest = min(predicting, key=lambda name: costs[name][0])  # it always qualifies
        assert costs[cheapest][0] == costs[taken][0] or place(taken) < place(cheapest) or taken == cheapest


def test_of_methods_nobody_ordered_the_lower_cost_one_is_chosen():
    assert said({"mine": (1.0, 0.0), "another": (1.01, 0.02)}).recommended == "mine"
    assert said({"mine": (1.0, 0.0), "adacsl": (1.01, 0.02)}).recommended == "adacsl"


def test_a_share_is_needed_as_tolerance():
    with pytest.raises(ValueError, match="tolerance is a share of the cost from 0 to below 1, got 10"):
        said({"net-bayes": (1.0, 0.0)}, tolerance=10)


def test_there_is_one_recommendation_for_each_data_set_and_ratio():
    costs = {"net-bayes": (1.0, 0.0), "adacsl": (2.0, 0.1)}
    table = pd.concat([frame(costs), frame(costs, ratio=2.0), frame({"adacsl": (1.0, 0.0)}, data="x")])
    result = recommendations(table, simplest_first=ORDER)
    assert {key: one.recommended for key, one in result.items()} == {
        ("d", 2.0): "net-bayes", ("d", 8.0): "net-bayes", ("x", 8.0): "adacsl",
    }  # fmt: skip
    with pytest.raises(
        ValueError, match="recommendation needs a summary of one data set and ratio, got 3: use recommendations"
    ):
        recommendation(table, simplest_first=ORDER)


# the words


def test_the_lowest_cost_alone():
    result = said({"adacsl": (0.22, 0.0), "net-bayes": (0.25, 0.01), "gbm-bayes": (0.4, 0.01), "logistic": (0.5, 0.01)})
    assert result == Recommendation(
        "adacsl",
        "adacsl",
        (),
        ("net-bayes", "gbm-bayes", "logistic"),
        "Recommended: adacsl, significantly the lowest cost of 4 methods. Mean cost 0.22 (95 % CI 0.21-0.23) per "
        "sample. 3 others cost significantly more.",
    )
    assert str(result) == result.text


def test_a_simpler_one():
    result = said(
        {"adacsl": (0.25, 0.0), "net-bayes": (0.253, 0.01), "gbm-bayes": (0.26, 0.04), "logistic": (0.5, 0.1)}
    )
    assert (result.recommended, result.cheapest, result.tied) == ("net-bayes", "adacsl", ("net-bayes", "gbm-bayes"))
    assert result.text == (
        "Recommended: net-bayes, the simplest method with no significant difference from the lowest cost (adacsl) and "
        "at most 10 % above it. Mean cost 0.25 (95 % CI 0.24-0.26) per sample. It costs 1.2 % (95 % CI -2.8 to 5.2 %) "
        "more than adacsl, no significant difference. No significant difference between adacsl and gbm-bayes; logistic "
        "costs significantly more."
    )


def test_a_difference_that_may_be_chance_among_many_is_noted():
    table = frame({"adacsl": (0.25, 0.0), "net-bayes": (0.3, 0.02), "gbm-bayes": (0.4, 0.02)})
    table.loc[table["method"] == "net-bayes", "significance"] = "not significant (corrected)"
    result = recommendation(table, simplest_first=ORDER)
    assert (result.recommended, result.doubtful, result.worse) == ("adacsl", ("net-bayes",), ("gbm-bayes",))
    assert result.text.startswith("Recommended: adacsl, the lowest cost of 3 methods. ")
    assert result.text.endswith(
        " net-bayes probably costs more (not significant after correction for multiple tests); gbm-bayes costs "
        "significantly more."
    )


def test_of_equal_costs_the_simplest_is_the_lowest_cost():
    result = said({"adacsl": (0.25, 0.0), "net-bayes": (0.25, 0.0), "gbm-bayes": (0.4, 0.01)}, tolerance=0.0)
    assert (result.recommended, result.cheapest, result.tied) == ("net-bayes", "net-bayes", ("adacsl",))


def test_large_costs_are_written_out_and_long_lists_cut():
    many = {f"m{i}": (1234567.0 + i, 10.0) for i in range(8)}
    text = said(many, tolerance=0.0).text
    assert "Mean cost 1,234,567 (95 % CI 1,234,567-1,234,567) per sample." in text
    assert text.endswith("No significant difference between it and m1, m2, m3, m4, m5 and 2 others.")


def test_one_method_is_no_comparison():
    assert said({"net-bayes": (0.25, 0.0)}).text == (
        "Only net-bayes was evaluated: there is nothing to compare it with. Mean cost 0.25 (95 % CI 0.24-0.26) per "
        "sample."
    )


def test_a_place_with_the_table_shows_the_text_without_the_other_methods():
    result = said({"adacsl": (0.25, 0.0), "net-bayes": (0.253, 0.01), "logistic": (0.5, 0.1)})
    assert result.others.endswith("logistic costs significantly more.")
    assert result.text == f"{result.brief} {result.others}"
    assert "logistic" not in result.brief
    unfinished = replace(result, text="No recommendation until every method has every fold.")
    assert unfinished.brief == unfinished.text


def test_constants():
    best = said({"always-positive": (0.1, 0.0), "net-bayes": (0.2, 0.01), "adacsl": (0.3, 0.01)})
    assert best.recommended == "always-positive"
    assert best.text.startswith(
        "Recommended: always predicting positive: the methods that predict cost significantly more. Mean cost 0.1 "
    )
    unsure = said({"always-positive": (0.1, 0.0), "net-bayes": (0.11, 0.02), "adacsl": (0.3, 0.01)})
    assert (unsure.recommended, unsure.cheapest) == ("net-bayes", "always-positive")
    assert unsure.text == (
        "Recommended: net-bayes, the lowest cost of the methods that predict. Mean cost 0.11 (95 % CI 0.1-0.12) per "
        "sample. It costs 10 % (95 % CI -10 to 30 %) more than always predicting positive, no significant difference: "
        "predicting is not shown to cost less. adacsl costs significantly more."
    )
    alone = said({"always-positive": (0.1, 0.0), "always-negative": (0.2, 0.01)})
    assert alone.text.startswith("Recommended: always predicting positive, the lowest cost. ")


@pytest.mark.parametrize("base", [0.0, -0.5])
def test_without_a_positive_cost_differences_are_in_units_of_cost(base):
    result = said({"adacsl": (base, 0.0), "net-bayes": (base + 0.03, 0.04), "gbm-bayes": (base + 0.3, 0.01)})
    assert result.recommended == "adacsl"
    cost = "cost 0 (95 % CI -0.01 to 0.01)" if base == 0 else "benefit 0.5 (95 % CI 0.49-0.51)"
    assert result.text == (
        f"Recommended: adacsl, the lowest cost of 3 methods. Mean {cost} per sample. No significant difference between "
        "it and net-bayes; gbm-bayes costs significantly more."
    )


def test_tolerance_of_a_benefit_is_a_share_of_it():
    costs = {"adacsl": (-0.5, 0.0), "net-bayes": (-0.48, 0.025)}
    assert said(costs).recommended == "net-bayes"  # gives up 9 % at most
    assert said(costs, tolerance=0.07).recommended == "adacsl"
    assert "It costs 0.02 (95 % CI -0.005 to 0.045) more than adacsl" in said(costs).text
    dearer = said({"adacsl": (-0.5, 0.0), "net-bayes": (-0.48, 0.01)})
    assert dearer.recommended == "adacsl"
    assert "net-bayes is simpler and earns 4 % (95 % CI 2-6 %) less: --prefer simple" in dearer.text


def test_the_baseline_is_never_recommended_but_kept_where_it_is_lowest_cost():
    costs = {"baseline": (0.2, 0.0), "net-bayes": (0.21, 0.02), "adacsl": (0.3, 0.01)}
    result = said(costs)
    assert (result.recommended, result.cheapest) == ("net-bayes", "baseline")
    assert result.text == (
        "Keep your current decisions: no method costs significantly less. Of the methods, recommended: net-bayes. Mean "
        "cost 0.21 (95 % CI 0.2-0.22) per sample. adacsl costs significantly more."
    )
    better = said({"baseline": (0.2, 0.0), "net-bayes": (0.3, 0.02)})
    assert better.recommended is None
    assert better.text == (
        "Keep your current decisions: every method costs significantly more. The lowest-cost method, net-bayes, costs "
        "50 % (95 % CI 40-60 %) more."
    )
    none = said({"baseline": (0.2, 0.0), "net-bayes": (0.3, 0.02)}, splits={"net-bayes": 1})
    assert none.recommended is None
    assert none.text == "No recommendation: no method has enough finished folds. Too few folds to judge: net-bayes."


def test_one_split_is_no_evidence():
    result = said({"always-negative": (0.5, 0.1), "net-bayes": (0.3, 0.1), "adacsl": (0.2, 0.0)}, n=1)
    assert (result.recommended, result.cheapest) == (None, "adacsl")
    assert result.text == (
        "No recommendation: one split shows no variance; give more folds or repeats. The lowest cost on it: adacsl."
    )


def test_missing_splits_are_mentioned():
    costs = {"adacsl": (0.1, 0.0), "net-bayes": (0.2, 0.01), "logistic": (0.3, 0.01)}
    assert said(costs, splits={"adacsl": 8}).text.endswith("adacsl finished fewer than all 10 folds.")
    result = said(costs, splits={"logistic": 2})
    assert (result.worse, result.text.split(". ")[-1]) == (("net-bayes",), "Too few folds to judge: logistic.")
    alone = said({"adacsl": (0.1, 0.0), "logistic": (0.3, 0.0)}, splits={"logistic": 1})
    assert alone.text.startswith("Recommended: adacsl, the only method with enough finished folds. ")


def test_constants_are_the_methods_of_that_name():
    assert list(METHODS)[:2] == list(CONSTANTS)


# with the costs of rows: savings, and what would tell


def rows_of(means, *, n=400, repeats=2, folds=5, spread=0.5, fits=0.0, seed=0):
    """Return row costs with given means exactly, and luck of rows and of fits."""
    rng = np.random.default_rng(seed)
    numbers = np.concatenate([rng.permutation(n) % folds + folds * repeat for repeat in range(repeats)])
    rows = np.tile(np.arange(n), repeats)
    costs = []
    for mean in means.values():
        drawn = np.tile(spread * rng.normal(size=n), repeats) + fits * rng.normal(size=numbers.max() + 1)[numbers]
        costs.append(mean + drawn - drawn.mean())
    return RowCosts(tuple(means), np.stack(costs), rows, numbers, rows)


def judged(costs, **options):
    return recommendation(summary_of(costs).assign(data="d", ratio=8.0), simplest_first=ORDER, costs=costs, **options)


def test_a_saving_is_the_paired_difference_in_percent_of_the_baseline():
    costs = rows_of({"net-bayes": 0.6, BASELINE: 0.8})
    result = saving_of("net-bayes", BaselineCosts("threshold 0.5", costs))
    dearer = fold_interval(costs.costs[0] - costs.costs[1], costs.fits, costs.units)
    assert result.difference == pytest.approx(0.2)
    assert (result.low, result.high) == pytest.approx((-dearer.high, -dearer.low))
    assert (result.percent, result.percent_low) == pytest.approx((25.0, -100 * dearer.high / 0.8))
    ends = f"{result.percent_low:.0f}-{result.percent_high:.0f}"
    assert result.words == f"25 % (95 % CI {ends} %) less than threshold 0.5 (0.8)"


@pytest.mark.parametrize(
    ("saving", "words"),
    [
        (Saving("now", 0.2, 0.1, 0.3, 20, 10, 30), "20 % (95 % CI 10-30 %) less than now"),
        (Saving("now", 0.2, -0.1, 0.5, 20, -10, 50), "20 % (95 % CI -10 to 50 %) less than now, not significantly"),
        (Saving("now", -0.2, -0.3, -0.1, -20, -30, -10), "20 % (95 % CI 10-30 %) more than now"),
        (Saving("now", -0.2, -0.5, 0.1, -20, -50, 10), "20 % (95 % CI -10 to 50 %) more than now, not significantly"),
        (Saving("now", 0.2, 0.1, 0.3, *[math.nan] * 3), "0.2 (95 % CI 0.1-0.3) less than now"),
        (Saving("now", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), "as much as now"),
        (
            Saving("always predicting bad", 0.2, 0.1, 0.3, 20, 10, 30, 0.7, "threshold 0.5", 1.1),
            "20 % (95 % CI 10-30 %) less than always predicting bad (0.7); threshold 0.5 costs 1.1",
        ),
    ],
)
def test_savings_in_words(saving, words):
    assert saving.words == words


def test_the_words_say_what_is_saved():
    costs = rows_of({"net-bayes": 0.5, "ensemble": 0.9, BASELINE: 0.8})
    plain = RowCosts(costs.methods[:2], costs.costs[:2], costs.rows, costs.fits, costs.units)
    result = judged(plain, baseline=lambda taken: BaselineCosts("threshold 0.5", costs, "always predicting bad", 0.85))
    assert (result.saving.against, result.saving.other) == ("threshold 0.5", "always predicting bad")
    assert result.text.startswith("Recommended: net-bayes, significantly the lowest cost of 2 methods. Mean cost 0.5 (")
    assert f"per sample, {result.saving.words}. ensemble costs significantly more." in result.text


def test_nothing_is_below_free():
    costs = rows_of({"net-bayes": 0.0, BASELINE: 0.8})
    free = replace(costs, costs=np.stack([np.zeros(800), np.arange(800) % 5 * (costs.fits > 7)]))
    result = saving_of("net-bayes", BaselineCosts("now", free))
    assert result.percent == result.percent_high == 100.0
    assert result.high == result.difference
    assert (
        saving_of("net-bayes", BaselineCosts("now", replace(costs, costs=costs.costs - 0.1))).percent_high > 100
    )  # benefits


def test_without_a_common_sample_nothing_is_saved():
    costs = rows_of({"net-bayes": 0.6, BASELINE: 0.8})
    values = costs.costs.copy()
    values[0, costs.fits < 5], values[1, costs.fits >= 5] = np.nan, np.nan
    assert saving_of("net-bayes", BaselineCosts("now", replace(costs, costs=values))) is None
    assert saving_of("net-bayes", None) is None


def test_where_a_constant_or_the_baseline_leads_the_excess_is_over_the_lowest_cost_that_predicts():
    means = {"always-positive": 1.0, "ensemble": 1.001, "logistic": 1.003, "adacsl": 1.5}
    costs = rows_of(means, spread=0.2, n=2000)
    assert judged(costs).recommended == "logistic"
    assert judged(costs).text.startswith(
        "Recommended: logistic, the simplest method with no significant difference from the lowest cost (ensemble) and"
    )
    worse = rows_of(means | {"logistic": 1.06}, spread=0.2, n=2000)
    assert judged(worse).recommended == "ensemble"
    assert judged(worse, prefer="simple").recommended == "logistic"
    table = summary_of(costs).assign(data="d", ratio=8.0)
    assert recommendation(table, simplest_first=ORDER).recommended == "ensemble"  # nothing is known about the others
    with_baseline = {BASELINE: 0.9, "always-positive": 1.0, "ensemble": 1.4, "logistic": 1.5}
    assert judged(rows_of(with_baseline, spread=0.2)).recommended is None  # all cost significantly more than today
    assert judged(rows_of(with_baseline | {"always-positive": 0.91}, spread=0.2)).recommended == "always-positive"
    assert judged(rows_of(with_baseline | {"logistic": 0.91}, spread=0.2)).recommended == "logistic"
