"""Suspicious per-sample costs are named in a warning: outlying, negative, leaking the label; sound ones are not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from adacsl import CostMatrix, Task
from adacsl.datasets.costs import CostWarning, cost_findings

Y = np.arange(400) % 2


def notes_of(costs, y):
    return [result.text for result in cost_findings(costs, y)]


def amounts(seed=0, spread=1.0):
    return np.random.default_rng(seed).lognormal(3, spread, len(Y))


def test_sound_costs_are_not_named():
    rare = (np.arange(4000) % 100 == 0).astype(int)
    fn = np.random.default_rng(1).lognormal(3, 1.2, 4000)
    assert notes_of(CostMatrix(fp=1, fn=fn), rare) == []  # rare and costly false negatives are no outliers
    assert notes_of(CostMatrix(fp=1, fn=amounts() * (1 + 3 * Y)), Y) == []  # larger for a class, and no leakage
    assert notes_of(CostMatrix(fp=amounts(1), fn=amounts(2), tp=-amounts(3)), Y) == []
    assert notes_of(CostMatrix(fp=1, fn=8), Y) == []
    assert notes_of(CostMatrix(fp=1, fn="amount"), Y) == []
    assert notes_of(CostMatrix(fp=1, fn=[1.0, 500.0]), np.array([0, 1])) == []  # too few to tell


def test_one_outlying_row_is_named():
    fn = amounts()
    fn[7] = 50 * fn.sum()
    (text,) = notes_of(CostMatrix(fp=1, fn=fn), Y)
    assert text.startswith("row 8 alone carries 99 % of the possible cost of false negatives (fn = ") or "100 %" in text
    fn[7], fp = 1.0, amounts(1)
    fp[4] = 3 * fp[Y == 0].sum()
    (text,) = notes_of(CostMatrix(fp=fp, fn=fn), Y)
    assert text.startswith("row 5 alone carries 7")
    assert "of the possible cost of false positives (fp = " in text
    fp[5] = fp[4]  # of a positive, which can be no false positive
    assert len(notes_of(CostMatrix(fp=fp, fn=fn), Y)) == 1
    fn = amounts()
    fn[[1, 3]] = 0.7 * fn.sum()
    (text,) = notes_of(CostMatrix(fp=1, fn=fn), Y)
    assert text.startswith("the costliest 2 of 200 rows carry ")
    assert "costliest: row 2, fn = " in text


def test_outliers_of_three_classes():
    y = np.arange(90) % 3
    table = np.tile(1 - np.eye(3), (90, 1, 1))
    table[4, 2, 1] = 500.0
    costs = CostMatrix.from_array(table, rows="predicted", classes=["a", "b", "c"])
    (text,) = notes_of(costs, y)
    assert "row 5 alone carries" in text
    assert "the possible cost of errors on 'b' (up to 500)" in text
    table[4, 2, 1], table[:, 0, 2] = 1.0, np.where(y == 2, 3.0, 2 + np.arange(90) / 7)
    (text,) = notes_of(CostMatrix.from_array(table, rows="predicted", classes=["a", "b", "c"]), y)
    assert text.startswith("the cost of 'a' when 'c' is true leaks the label: it is 3 for all 30 rows of class 2")


def test_negative_costs_are_counted_and_taken_as_free():
    fn = 1 + amounts()
    fn[[2, 9, 11]] = [-4.0, -1.0, 0.5]
    frame = pd.DataFrame({"amount": fn, "x": 1.0})
    with pytest.warns(CostWarning, match=r"fn is below .* prediction in 3 rows, first in row 3 \(-4 against 1\)"):
        task = Task.from_data(frame, Y, {"fp": 1, "fn": "amount", "tp": 1})
    assert task.costs.fn[[2, 9, 11]].tolist() == [1.0, 1.0, 1.0]
    assert task.costs.fn[3] == fn[3]
    with pytest.warns(CostWarning, match="fp is below the cost of a correct prediction in 3 rows, first in row 3"):
        task = Task.from_data(frame, Y, {"fp": fn, "fn": 9, "tn": 1})
    assert task.costs.fp[2] == 1.0


@pytest.mark.parametrize(
    ("fn", "how"),
    [
        (np.where(Y == 1, amounts(), 0.0), "it is 0 for all 200 rows of class 0"),
        (np.where(Y == 1, 3.0, 1 + amounts()), "it is 3 for all 200 rows of class 1"),
        (np.where(Y == 1, 3.0, 4.0), "it is 4 for all 200 rows of class 0"),
        (amounts() + 1e4 * Y, "its ROC area against it is 1.0000"),
        (2e4 + amounts() - 1e4 * Y, "its ROC area against it is 1.0000"),
    ],
)
def test_costs_that_leak_the_label_are_named(fn, how):
    (text,) = notes_of(CostMatrix(fp=1, fn=fn), Y)
    assert text.startswith(f"fn leaks the label: {how}")
    assert "CostModel" in text


def test_warnings_come_once_for_each_thing():
    fn = np.where(Y == 1, amounts(), 0.0)
    fn[1] = 1e9
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Task.from_data(np.zeros((400, 1)), Y, {"fp": 1, "fn": fn})
    assert [str(each.message)[:8] for each in caught] == ["row 2 al", "fn leaks"]
