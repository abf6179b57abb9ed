"""Reliability, Brier and decision curves, against brute force and by hand."""

import numpy as np
import pytest
from hypothesis import given

from adacsl.report.sections import calibration
from tests.report.two_classes import cases, outcome, total_at


def test_calibration_table_by_hand():
    table = calibration.calibration_table(
        {"a": outcome(np.array([0.1, 0.12, 0.85, 0.95]), np.array([0, 1, 1, 1]))}, bins=2
    )
    assert table["mean_score"].tolist() == pytest.approx([0.11, 0.9])
    assert table["positive_share"].tolist() == [0.5, 1.0]
    assert table["n"].tolist() == [2, 2]
    assert table["error"].tolist() == pytest.approx([0.245, 0.245])


@given(cases())
def test_brier_table_is_the_loss_of_cutting_at_the_proportion(case):
    scores, labels, _, _ = case
    table = calibration.brier_table({"a": outcome(scores, labels)}, points=21)
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
    table = calibration.decision_table({"a": outcome()})
    row = table[np.isclose(table["threshold"], 0.5)].iloc[0]
    assert row["net_benefit"] == pytest.approx(2 / 7 - 1 / 7)
    assert row["treat_all"] == pytest.approx(3 / 7 - 4 / 7)


def test_no_outcomes_give_empty_tables():
    for table in (calibration.calibration_table({}), calibration.brier_table({}), calibration.decision_table({})):
        assert table.empty
        assert "method" in table.columns
