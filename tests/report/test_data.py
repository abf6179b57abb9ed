"""The data of a report are checked."""

import pandas as pd
import pytest

from adacsl.costs.matrix import CostMatrix
from adacsl.report.data import Outcome, ReportData

VIEW = ("lesions", 1.0)


def test_outcome_needs_columns_of_one_length():
    with pytest.raises(ValueError, match=r"label, decision and split for each of its 3 scores, got \{'labels': 2\}"):
        Outcome([0.1, 0.2, 0.3], [0, 1], [0, 0, 0], [0, 0, 0], fp=1.0, fn=2.0)
    with pytest.raises(ValueError, match="each of its 0 scores"):
        Outcome([], [], [], [], fp=1.0, fn=2.0)


def test_report_data_shows_what_is_missing():
    summary = pd.DataFrame(
        {"data": ["a"], "ratio": [1.0], "method": ["net"], "n": [1], "cost": [1.0], "low": [0.0], "high": [2.0]}
    )
    with pytest.raises(ValueError, match=r"needs the columns \['low'\]"):
        ReportData("t", {("a", 1.0): "v"}, {}, summary, summary.drop(columns="low"))
    with pytest.raises(ValueError, match="at least one recommendation"):
        ReportData("t", {}, {}, summary, summary)
    with pytest.raises(ValueError, match=r"no rows for \('b', 1.0\)"):
        ReportData("t", {("b", 1.0): "v"}, {}, summary, summary)


@pytest.fixture(scope="module")
def report(made_classes):
    return made_classes.made_class_report()


@pytest.fixture(scope="module")
def outcome(report):
    return report.outcomes[(*VIEW, "net-bayes")]


def test_scores_of_another_shape_are_refused(outcome):
    columns = {name: getattr(outcome, name) for name in ("labels", "decisions", "seeds", "matrix")}
    with pytest.raises(ValueError, match=r"scores must have shape \(n,\), or \(n, K\) beside a matrix of K classes"):
        Outcome(outcome.scores[:, :3], **columns)
    assert outcome.class_names == ["akiec", "bcc", "bkl", "df", "mel", "nv", "vasc"]
    unnamed = columns | {"matrix": CostMatrix.from_array(outcome.costs.to_array(), rows="predicted")}
    assert Outcome(outcome.scores, **unnamed).class_names == ["0", "1", "2", "3", "4", "5", "6"]
