"""Cost at other ratios, and its figure."""

import numpy as np
import pandas as pd
import pytest

from adacsl.report import style
from adacsl.report.sections import sensitivity
from tests.report.two_classes import LABELS, SCORES, cost_of, outcome, total_at


def test_ratio_table_means_over_seeds():
    results = pd.DataFrame(
        {
            "method": ["a", "a", "b"],
            "ratio": [2.0, 2.0, 4.0],
            "cost": [1.0, 3.0, 5.0],
            "normalized_cost": [0.2, 0.4, 0.9],
        }
    )
    table = sensitivity.ratio_table(results).set_index("method")
    assert table.loc["a", ["n", "cost", "normalized_cost"]].tolist() == pytest.approx([2, 2.0, 0.3])
    assert sensitivity.ratio_table(results.drop(columns="normalized_cost"))["normalized_cost"].isna().all()
    assert sensitivity.ratio_table(results.iloc[:0]).empty


def test_redecided_table_decides_at_the_bayes_threshold():
    table = sensitivity.redecided_table({"a": outcome()}, [1.0, 9.0]).set_index("ratio")
    assert table.loc[1.0, "cost"] == pytest.approx(total_at(0.5, fn=1.0) / 7)
    assert table.loc[9.0, "cost"] == pytest.approx(total_at(0.1, fn=9.0) / 7)
    assert table.loc[9.0, "normalized_cost"] == pytest.approx(total_at(0.1, fn=9.0) / min(4.0, 27.0))


def test_redecided_table_of_per_sample_costs_multiplies_false_negatives():
    amounts = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    table = sensitivity.redecided_table({"a": outcome(fn=amounts, threshold=None)}, [3.0])
    decided = 1 / (1 + 3 * amounts) < SCORES
    expected = sum(cost_of(y, d, fn=3 * a) for y, d, a in zip(LABELS, decided, amounts, strict=True)) / 7
    assert table["cost"].iloc[0] == pytest.approx(expected)


def test_redecided_table_of_one_class_has_no_normalised_cost():
    table = sensitivity.redecided_table({"a": outcome(labels=np.zeros(7, dtype=int))}, [3.0])
    assert table["normalized_cost"].isna().all()


def test_other_ratio_keeps_what_being_right_costs():
    costs = sensitivity.with_ratio(outcome(tp=-2.0, tn=0.5, fp=1.5), 10.0)
    assert (costs.fp, costs.fn, costs.tp, costs.tn) == (1.5, 8.0, -2.0, 0.5)
    assert costs.ratio == 10.0


def test_ratio_figure_has_points_where_fits_ran(report):
    ran = sensitivity.ratio_table(report.results)
    figure = sensitivity.ratio_figure(ran, highlight=["net", "adacsl-cv"])
    points = [trace for trace in figure.data if trace.mode == "markers"]
    assert sum(len(trace.x) for trace in points) == len(ran)
    assert {trace.name for trace in figure.data if trace.mode == "lines"} == {"net", "adacsl-cv"}
    ends = [note for note in figure.layout.annotations if note.name == style.LINE_END]
    assert {note.text for note in ends} == {"net", "adacsl-cv"}


def test_labels_at_line_ends_do_not_overlap(report):
    figure = sensitivity.ratio_figure(sensitivity.ratio_table(report.results))
    heights = sorted(note.y for note in figure.layout.annotations if note.name == style.LINE_END)
    low, high = figure.layout.yaxis.range
    assert len(heights) == style.COLORED
    assert np.diff(heights).min() >= 0.05 * (high - low)


def test_labels_of_lines_that_leave_the_figure_stay_in_it(report):
    ran = sensitivity.ratio_table(report.results)
    figure = sensitivity.ratio_figure(ran.assign(normalized_cost=ran["normalized_cost"] + 5))
    heights = sorted(note.y for note in figure.layout.annotations if note.name == style.LINE_END)
    low, high = figure.layout.yaxis.range
    assert len(heights) == style.COLORED
    assert heights[-1] <= high
    assert np.diff(heights).min() >= 0.05 * (high - low)
