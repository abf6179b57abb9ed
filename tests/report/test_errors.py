"""Thresholds and errors of two classes, against brute force and by hand."""

import numpy as np
import pytest
from hypothesis import given

from adacsl.report.sections import errors
from tests.report.two_classes import cases, outcome, total_at

VIEW = ("breast-cancer", 8.0)


@given(cases())
def test_threshold_curve_is_the_cost_of_every_threshold(case):
    scores, labels, fp, fn = case
    curve = errors.threshold_curve(outcome(scores, labels, fp=fp, fn=fn))
    for row in curve.itertuples():
        # the first cut lies below all scores, also below a score of 0
        at = row.threshold if row.Index else -1.0
        assert row.total_cost == pytest.approx(total_at(at, scores, labels, fp=fp, fn=fn))
        assert row.cost == pytest.approx(row.total_cost / len(labels))
        assert row.missed + row.alarmed == pytest.approx(row.cost)
    assert set(curve["threshold"].iloc[1:]) == set(scores)


@given(cases())
def test_lowest_cost_point_is_never_costlier_than_any_threshold(case):
    scores, labels, fp, fn = case
    points = errors.threshold_points(outcome(scores, labels, fp=fp, fn=fn)).set_index("point")
    tried = [total_at(at, scores, labels, fp=fp, fn=fn) for at in (-1.0, *np.unique(scores))]
    assert points.loc["cheapest", "total_cost"] == pytest.approx(min(tried))
    assert points.loc["chosen", "total_cost"] == pytest.approx(total_at(0.3, scores, labels, fp=fp, fn=fn))
    assert points.loc["Bayes", "threshold"] == pytest.approx(fp / (fp + fn))
    assert points.loc["Bayes", "total_cost"] == pytest.approx(total_at(fp / (fp + fn), scores, labels, fp=fp, fn=fn))


def test_points_without_a_common_threshold_leave_out_what_does_not_exist():
    several = outcome(threshold=None, fn=np.linspace(1, 7, 7))
    assert errors.threshold_points(several)["point"].tolist() == ["cheapest"]


def test_float32_scores_are_compared_with_the_threshold_as_it_is():
    # the float32 nearest 0.1 is above 0.1; compared in single precision it would not be
    single = outcome(np.array([0.1, 0.9], dtype=np.float32), np.array([0, 1]), threshold=0.1)
    chosen = errors.threshold_points(single).set_index("point").loc["chosen"]
    assert chosen["total_cost"] == 1.0


def test_thinned_curve_keeps_ends_and_minimum():
    rng = np.random.default_rng(0)
    scores = rng.random(5000)
    curve = errors.threshold_curve(outcome(scores, (rng.random(5000) < scores).astype(int)))
    thin = errors.thinned(curve, 200)
    assert len(thin) <= 201
    assert thin["cost"].min() == curve["cost"].min()
    assert thin["threshold"].iloc[[0, -1]].tolist() == curve["threshold"].iloc[[0, -1]].tolist()
    assert thin["threshold"].is_monotonic_increasing
    short = errors.threshold_curve(outcome())
    assert errors.thinned(short) is short


def test_subgroup_table_by_hand():
    table = errors.subgroup_table(outcome())
    assert table["low"].tolist() == [0.0, 0.1, 0.3, 0.6, 0.9]
    assert table["high"].tolist() == [0.1, 0.2, 0.4, 0.7, 1.0]
    assert table["n"].tolist() == [1, 2, 1, 2, 1]
    assert table["positives"].tolist() == [0, 1, 0, 1, 1]
    # decided at 0.3: one missed at 0.15, false positives at 0.35 and 0.68
    assert table["cost"].tolist() == [0.0, 4.0, 1.0, 1.0, 0.0]
    # 0.15 twice: both positive costs 1; 0.35: negative; of 0.62 and 0.68 the positive comes first
    assert table["lowest_cost"].tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]
    assert table["threshold"].tolist() == pytest.approx([0.3, 0.15, 0.35, 0.3, 0.3], abs=1e-12)


@given(cases())
def test_subgroups_add_up(case):
    scores, labels, fp, fn = case
    result = outcome(scores, labels, fp=fp, fn=fn)
    table = errors.subgroup_table(result)
    assert table["n"].sum() == len(labels)
    assert table["positives"].sum() == labels.sum()
    assert table["cost"].sum() == pytest.approx(result.costs.total(labels, result.decisions))
    for row in table.itertuples():
        inside = (scores >= row.low) & ((scores < row.high) | (row.high == 1.0))
        tried = [total_at(at, scores[inside], labels[inside], fp=fp, fn=fn) for at in (-1.0, *scores[inside])]
        assert row.lowest_cost == pytest.approx(min(tried))


def test_confusion_table_by_hand():
    table = errors.confusion_table(outcome(tp=-2.0, tn=0.5)).set_index("outcome")
    assert table["count"].to_dict() == {"tp": 2, "fn": 1, "fp": 2, "tn": 2}
    assert table["total_cost"].to_dict() == {"tp": -4.0, "fn": 4.0, "fp": 2.0, "tn": 1.0}
    assert table["mean_cost"].to_dict() == {"tp": -2.0, "fn": 4.0, "fp": 1.0, "tn": 0.5}


def test_confusion_table_sums_per_sample_costs():
    amounts = np.array([9.0, 9.0, 100.0, 9.0, 9.0, 9.0, 9.0])
    table = errors.confusion_table(outcome(fn=amounts)).set_index("outcome")
    assert table.loc["fn", "total_cost"] == 100.0
    assert table.loc["fn", "mean_cost"] == 100.0
    nothing_missed = errors.confusion_table(outcome(fn=amounts, threshold=0.01)).set_index("outcome")
    assert nothing_missed.loc["fn", "count"] == 0
    assert nothing_missed.loc["fn", "mean_cost"] == pytest.approx(amounts.mean())


def test_threshold_figure_marks_the_points(report):
    outcome = report.outcomes_of(VIEW)["adacsl-cv"]
    points = errors.threshold_points(outcome)
    figure = errors.threshold_figure(errors.threshold_curve(outcome), points)
    assert figure.data[0].line.shape == "hv"
    assert figure.data[0].x[-1] == 1.0
    marks = {trace.name: (trace.x[0], trace.y[0]) for trace in figure.data[1:]}
    expected = points.set_index("point")[["threshold", "cost"]]
    assert marks["chosen"] == pytest.approx(tuple(expected.loc["chosen"]))
    assert marks["oracle (chosen on test data)"] == pytest.approx(tuple(expected.loc["cheapest"]))
