"""The numbers behind the pictures, against brute force and by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.report import frames
from adacsl.report.data import Outcome, ReportData

SCORES = np.array([0.05, 0.15, 0.15, 0.35, 0.62, 0.68, 0.95])
LABELS = np.array([0, 0, 1, 0, 1, 0, 1])


def outcome(scores=SCORES, labels=LABELS, threshold=0.3, fp=1.0, fn=4.0, **other):
    decisions = (np.asarray(scores) > (0.5 if threshold is None else threshold)).astype(int)
    return Outcome(scores, labels, decisions, np.zeros(len(labels)), fp=fp, fn=fn, threshold=threshold, **other)


def price(label, decision, fp=1.0, fn=4.0, tp=0.0, tn=0.0):
    return (tp if decision else fn) if label else (fp if decision else tn)


def total_at(threshold, scores=SCORES, labels=LABELS, **prices):
    return sum(price(label, score > threshold, **prices) for score, label in zip(scores, labels, strict=True))


@st.composite
def cases(draw):
    n = draw(st.integers(2, 25))
    scores = np.array(draw(st.lists(st.integers(0, 10), min_size=n, max_size=n))) / 10
    labels = np.array(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    return scores, labels, draw(st.sampled_from([0.25, 1.0, 7.0])), draw(st.sampled_from([0.5, 3.0, 1e6]))


# thresholds


@given(cases())
def test_threshold_curve_is_the_cost_of_every_cut(case):
    scores, labels, fp, fn = case
    curve = frames.threshold_curve(outcome(scores, labels, fp=fp, fn=fn))
    for row in curve.itertuples():
        # the first cut lies below all scores, also below a score of 0
        at = row.threshold if row.Index else -1.0
        assert row.total_cost == pytest.approx(total_at(at, scores, labels, fp=fp, fn=fn))
        assert row.cost == pytest.approx(row.total_cost / len(labels))
        assert row.missed + row.alarmed == pytest.approx(row.cost)
    assert set(curve["threshold"].iloc[1:]) == set(scores)


@given(cases())
def test_cheapest_point_is_never_dearer_than_any_threshold(case):
    scores, labels, fp, fn = case
    points = frames.threshold_points(outcome(scores, labels, fp=fp, fn=fn)).set_index("point")
    tried = [total_at(at, scores, labels, fp=fp, fn=fn) for at in (-1.0, *np.unique(scores))]
    assert points.loc["cheapest", "total_cost"] == pytest.approx(min(tried))
    assert points.loc["chosen", "total_cost"] == pytest.approx(total_at(0.3, scores, labels, fp=fp, fn=fn))
    assert points.loc["Bayes", "threshold"] == pytest.approx(fp / (fp + fn))
    assert points.loc["Bayes", "total_cost"] == pytest.approx(total_at(fp / (fp + fn), scores, labels, fp=fp, fn=fn))


def test_points_without_a_common_threshold_leave_out_what_does_not_exist():
    several = outcome(threshold=None, fn=np.linspace(1, 7, 7))
    assert frames.threshold_points(several)["point"].tolist() == ["cheapest"]


def test_float32_scores_are_compared_with_the_threshold_as_it_is():
    # the float32 nearest 0.1 is above 0.1; compared in single precision it would not be
    single = outcome(np.array([0.1, 0.9], dtype=np.float32), np.array([0, 1]), threshold=0.1)
    chosen = frames.threshold_points(single).set_index("point").loc["chosen"]
    assert chosen["total_cost"] == 1.0


def test_thinned_curve_keeps_ends_and_minimum():
    rng = np.random.default_rng(0)
    scores = rng.random(5000)
    curve = frames.threshold_curve(outcome(scores, (rng.random(5000) < scores).astype(int)))
    thin = frames.thinned(curve, 200)
    assert len(thin) <= 201
    assert thin["cost"].min() == curve["cost"].min()
    assert thin["threshold"].iloc[[0, -1]].tolist() == curve["threshold"].iloc[[0, -1]].tolist()
    assert thin["threshold"].is_monotonic_increasing
    short = frames.threshold_curve(outcome())
    assert frames.thinned(short) is short


# subgroups and errors


def test_subgroup_table_by_hand():
    table = frames.subgroup_table(outcome())
    assert table["low"].tolist() == [0.0, 0.1, 0.3, 0.6, 0.9]
    assert table["high"].tolist() == [0.1, 0.2, 0.4, 0.7, 1.0]
    assert table["n"].tolist() == [1, 2, 1, 2, 1]
    assert table["positives"].tolist() == [0, 1, 0, 1, 1]
    # decided at 0.3: one missed at 0.15, false alarms at 0.35 and 0.68
    assert table["cost"].tolist() == [0.0, 4.0, 1.0, 1.0, 0.0]
    # 0.15 twice: both positive costs 1; 0.35: negative; of 0.62 and 0.68 the positive comes first
    assert table["cheapest_cost"].tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]
    assert table["threshold"].tolist() == pytest.approx([0.3, 0.15, 0.35, 0.3, 0.3], abs=1e-12)


@given(cases())
def test_subgroups_add_up(case):
    scores, labels, fp, fn = case
    found = outcome(scores, labels, fp=fp, fn=fn)
    table = frames.subgroup_table(found)
    assert table["n"].sum() == len(labels)
    assert table["positives"].sum() == labels.sum()
    assert table["cost"].sum() == pytest.approx(found.costs.total(labels, found.decisions))
    for row in table.itertuples():
        inside = (scores >= row.low) & ((scores < row.high) | (row.high == 1.0))
        tried = [total_at(at, scores[inside], labels[inside], fp=fp, fn=fn) for at in (-1.0, *scores[inside])]
        assert row.cheapest_cost == pytest.approx(min(tried))


def test_confusion_table_by_hand():
    table = frames.confusion_table(outcome(tp=-2.0, tn=0.5)).set_index("outcome")
    assert table["count"].to_dict() == {"tp": 2, "fn": 1, "fp": 2, "tn": 2}
    assert table["total_cost"].to_dict() == {"tp": -4.0, "fn": 4.0, "fp": 2.0, "tn": 1.0}
    assert table["price"].to_dict() == {"tp": -2.0, "fn": 4.0, "fp": 1.0, "tn": 0.5}


def test_confusion_table_of_row_prices_sums_them():
    amounts = np.array([9.0, 9.0, 100.0, 9.0, 9.0, 9.0, 9.0])
    table = frames.confusion_table(outcome(fn=amounts)).set_index("outcome")
    assert table.loc["fn", "total_cost"] == 100.0
    assert table.loc["fn", "price"] == 100.0
    nothing_missed = frames.confusion_table(outcome(fn=amounts, threshold=0.01)).set_index("outcome")
    assert nothing_missed.loc["fn", "count"] == 0
    assert nothing_missed.loc["fn", "price"] == pytest.approx(amounts.mean())


# probabilities


def test_calibration_table_by_hand():
    table = frames.calibration_table({"a": outcome(np.array([0.1, 0.12, 0.85, 0.95]), np.array([0, 1, 1, 1]))}, bins=2)
    assert table["mean_score"].tolist() == pytest.approx([0.11, 0.9])
    assert table["positive_share"].tolist() == [0.5, 1.0]
    assert table["n"].tolist() == [2, 2]
    assert table["error"].tolist() == pytest.approx([0.245, 0.245])


@given(cases())
def test_brier_table_is_the_loss_of_cutting_at_the_proportion(case):
    scores, labels, _, _ = case
    table = frames.brier_table({"a": outcome(scores, labels)}, points=21)
    n = len(labels)
    for row in table.itertuples():
        c = row.proportion
        loss = 2 * total_at(c, scores, labels, fp=c, fn=1 - c) / n
        if not np.isclose(scores, c).any():  # at a score the curve jumps
            assert row.loss == pytest.approx(loss, abs=1e-12)
        best = min(2 * total_at(at, scores, labels, fp=c, fn=1 - c) / n for at in (-1.0, *scores))
        assert row.best_loss == pytest.approx(best, abs=1e-12)
    assert table["area"].iloc[0] == pytest.approx(((scores - labels) ** 2).mean())
    assert table["positive_share"].iloc[0] == labels.mean()


def test_decision_table_by_hand():
    table = frames.decision_table({"a": outcome()})
    row = table[np.isclose(table["threshold"], 0.5)].iloc[0]
    assert row["net_benefit"] == pytest.approx(2 / 7 - 1 / 7)
    assert row["treat_all"] == pytest.approx(3 / 7 - 4 / 7)


def test_no_outcomes_give_empty_tables():
    for table in (frames.calibration_table({}), frames.brier_table({}), frames.decision_table({})):
        assert table.empty
        assert "method" in table.columns


# other ratios


def test_ratio_table_means_over_seeds():
    results = pd.DataFrame(
        {
            "method": ["a", "a", "b"],
            "ratio": [2.0, 2.0, 4.0],
            "cost": [1.0, 3.0, 5.0],
            "normalized_cost": [0.2, 0.4, 0.9],
        }
    )
    table = frames.ratio_table(results).set_index("method")
    assert table.loc["a", ["n", "cost", "normalized_cost"]].tolist() == pytest.approx([2, 2.0, 0.3])
    assert frames.ratio_table(results.drop(columns="normalized_cost"))["normalized_cost"].isna().all()
    assert frames.ratio_table(results.iloc[:0]).empty


def test_redecided_table_decides_at_the_bayes_threshold():
    table = frames.redecided_table({"a": outcome()}, [1.0, 9.0]).set_index("ratio")
    assert table.loc[1.0, "cost"] == pytest.approx(total_at(0.5, fn=1.0) / 7)
    assert table.loc[9.0, "cost"] == pytest.approx(total_at(0.1, fn=9.0) / 7)
    assert table.loc[9.0, "normalized_cost"] == pytest.approx(total_at(0.1, fn=9.0) / min(4.0, 27.0))


def test_redecided_table_of_row_prices_multiplies_the_misses():
    amounts = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    table = frames.redecided_table({"a": outcome(fn=amounts, threshold=None)}, [3.0])
    decided = 1 / (1 + 3 * amounts) < SCORES
    expected = sum(price(y, d, fn=3 * a) for y, d, a in zip(LABELS, decided, amounts, strict=True)) / 7
    assert table["cost"].iloc[0] == pytest.approx(expected)


def test_redecided_table_of_one_class_has_no_normalised_cost():
    table = frames.redecided_table({"a": outcome(labels=np.zeros(7, dtype=int))}, [3.0])
    assert table["normalized_cost"].isna().all()


def test_other_ratio_keeps_what_being_right_costs():
    costs = frames.with_ratio(outcome(tp=-2.0, tn=0.5, fp=1.5), 10.0)
    assert (costs.fp, costs.fn, costs.tp, costs.tn) == (1.5, 8.0, -2.0, 0.5)
    assert costs.ratio == 10.0


# training


def test_epoch_table_means_over_seeds_and_folds():
    steps = [{"epoch": 1, "fold": f, "lambda": 1.0 + f, "threshold": 0.5, "val_cost": 2.0 * f} for f in (0, 1)]
    table = frames.epoch_table({("a", 0): steps, ("a", 1): [{"epoch": 1, "fold": 0, "lambda": 6.0, "val_cost": None}]})
    row = table.iloc[0]
    assert row[["n", "lambda", "lambda_low", "lambda_high"]].tolist() == [3, 3.0, 1.0, 6.0]
    assert row[["val_cost", "val_cost_high"]].tolist() == [1.0, 2.0]
    assert "train_cost" not in table.columns
    assert frames.epoch_table({}).empty
    assert frames.epoch_table({("a", 0): [{"epoch": 1}]}).empty


def test_optimism_table_is_test_minus_validation():
    results = pd.DataFrame(
        {"method": ["a", "a", "b", "c"], "cost": [2.0, 4.0, 1.0, 9.0], "validation_cost": [1.0, 3.0, 1.5, np.nan]}
    )
    table = frames.optimism_table(results)
    assert table["method"].tolist() == ["b", "a"]
    assert table["gap"].tolist() == [-0.5, 1.0]
    assert table["gap_share"].tolist() == pytest.approx([-0.5, 1 / 3])
    assert frames.optimism_table(results.drop(columns="validation_cost")).empty
    assert frames.optimism_table(results.iloc[3:]).empty


# values


def test_outcome_needs_columns_of_one_length():
    with pytest.raises(ValueError, match=r"label, decision and split for each of its 3 scores, got \{'labels': 2\}"):
        Outcome([0.1, 0.2, 0.3], [0, 1], [0, 0, 0], [0, 0, 0], fp=1.0, fn=2.0)
    with pytest.raises(ValueError, match="each of its 0 scores"):
        Outcome([], [], [], [], fp=1.0, fn=2.0)


def test_report_data_says_what_is_missing():
    summary = pd.DataFrame(
        {"data": ["a"], "ratio": [1.0], "method": ["ce"], "n": [1], "cost": [1.0], "low": [0.0], "high": [2.0]}
    )
    with pytest.raises(ValueError, match=r"needs the columns \['low'\]"):
        ReportData("t", {("a", 1.0): "v"}, {}, summary, summary.drop(columns="low"))
    with pytest.raises(ValueError, match="at least one verdict"):
        ReportData("t", {}, {}, summary, summary)
    with pytest.raises(ValueError, match=r"no rows for \('b', 1.0\)"):
        ReportData("t", {("b", 1.0): "v"}, {}, summary, summary)
