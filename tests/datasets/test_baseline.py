"""The baseline (current decisions) as a column or an array: valid and refused values."""

import numpy as np
import pandas as pd
import pytest

from adacsl.datasets.baseline import Baseline
from adacsl.datasets.errors import DataError
from adacsl.datasets.loading import load_task
from adacsl.datasets.task import Task

TWO, THREE = ("no", "yes"), ("ash", "elm", "oak")


@pytest.mark.parametrize(
    ("given", "classes", "values", "kind"),
    [
        (["yes", "no"], TWO, [1.0, 0.0], "decisions"),
        ([1, 0], TWO, [1.0, 0.0], "decisions"),
        ([True, False], TWO, [1.0, 0.0], "decisions"),
        (["1", "0"], TWO, [1.0, 0.0], "decisions"),
        ([0.2, 1.0], TWO, [0.2, 1.0], "scores"),
        ([1, -1], ("-1", "1"), [1.0, 0.0], "decisions"),
        ([2, 1], ("1", "2"), [1.0, 0.0], "decisions"),  # labels as in the target come before 0 and 1
        (["oak", "ash", "elm"], THREE, [2, 0, 1], "decisions"),
    ],
)
def test_labels_zeros_and_ones_and_scores_are_understood(given, classes, values, kind):
    for values_given in (given, np.asarray(given), pd.Series(given, index=range(5, 5 + len(given)))):
        result = Baseline.read(values_given, None, classes)
        assert result.values.tolist() == values
        assert (result.kind, result.column) == (kind, None)


@pytest.mark.parametrize(
    ("given", "classes", "match"),
    [
        (["yes", None], TWO, "baseline is missing in 1 of 2 rows, first in row 2: give every row a decision"),
        ([0.1, float("nan")], TWO, "baseline is missing in 1 of 2 rows"),
        (
            ["yes", "maybe"],
            TWO,
            r"decisions \('no' and 'yes', or 0 and 1\) or scores from 0 to 1, got 'maybe' in row 2",
        ),
        ([0.1, 1.5], TWO, "scores from 0 to 1, got '1.5' in row 2"),
        ([-0.1, 0.5], TWO, "scores from 0 to 1, got '-0.1' in row 1"),
        (["ash", "fir"], THREE, "must hold one of the classes 'ash', 'elm', 'oak', got 'fir' in row 2"),
        ([0.5, 0.1], THREE, "must hold one of the classes"),
    ],
)
def test_anything_else_is_refused(given, classes, match):
    with pytest.raises(DataError, match=match):
        Baseline.read(given, None, classes)


FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "now": ["yes", "no", "no", "yes"], "y": ["yes", "yes", "no", "no"]})


def test_a_column_is_not_a_feature_and_travels_with_its_rows(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    words = {"target": "y", "pos_label": "yes", "costs": {"fp": 1, "fn": 8}}
    task = load_task(tmp_path / "t.csv", baseline_column="now", **words)
    assert list(task.X.columns) == ["a"]
    assert task.baseline.column == "now"
    assert task.rows([0, 2]).baseline.values.tolist() == [1.0, 0.0]
    other = FRAME.assign(now=["no"] * 4)
    other.to_csv(tmp_path / "t.csv", index=False)
    assert load_task(tmp_path / "t.csv", baseline_column="now", **words).digest != task.digest
    with pytest.raises(DataError, match="has no column 'noww'; did you mean 'now'"):
        load_task(tmp_path / "t.csv", baseline_column="noww", **words)
    with pytest.raises(DataError, match=r"'y' of .* holds the labels: name the column of the current decisions"):
        load_task(tmp_path / "t.csv", baseline_column="y", **words)


def test_in_python_it_is_an_array_or_a_column_of_x():
    X, y = FRAME[["a", "now"]], FRAME["y"]
    task = Task.from_data(X, y, pos_label="yes", baseline="now")
    given = Task.from_data(X[["a"]], y, pos_label="yes", baseline=FRAME["now"].to_list())
    assert list(task.X.columns) == ["a"]
    assert task.digest == given.digest
    with pytest.raises(ValueError, match=r"baseline must hold one decision for each of 4 samples, got shape \(2,\)"):
        Task.from_data(X, y, pos_label="yes", baseline=[0, 1])
    images = np.zeros((4, 8, 8, 3), np.uint8)
    assert Task.from_data(images, y, pos_label="yes", baseline=[0.1, 0.2, 0.3, 0.4]).baseline.kind == "scores"
    with pytest.raises(DataError, match="baseline='now' names a column, but X is not a table"):
        Task.from_data(images, y, pos_label="yes", baseline="now")
