"""Labels of tables as class indices."""

import numpy as np
import pandas as pd
import pytest

from adacsl.datasets import DataError
from adacsl.datasets.labels import class_labels


@pytest.mark.parametrize(
    ("values", "pos_label", "y"),
    [
        ([-1, 1, 1], None, [0, 1, 1]),  # the customary positive class
        ([False, True, True], None, [0, 1, 1]),
        (["false", "true", "true"], None, [0, 1, 1]),
        (np.asarray([0, 1, 1], dtype=np.uint8), None, [0, 1, 1]),
        ([1, 2, 2], "1", [1, 0, 0]),
        ([1.0, 2.0, 2.0], "1", [1, 0, 0]),
        ([1, 2, 2], 2.0, [0, 1, 1]),
        ([True, False, False], "true", [1, 0, 0]),
        ([True, False, False], "1", [1, 0, 0]),
        ([True, False, False], False, [0, 1, 1]),
        (["yes", "no", "no"], "no", [0, 1, 1]),
        ([" yes", "no", "no"], "yes", [1, 0, 0]),
        ([0, 1, 1], 0, [1, 0, 0]),
        (["01", "1", "1"], "1", [0, 1, 1]),  # both are the number 1: the exact text wins
        (pd.Series(["b", "a", "a"], dtype="category"), "a", [0, 1, 1]),
    ],
)
def test_the_positive_class_is_named(values, pos_label, y):
    result, classes = class_labels(values, pos_label)
    assert result.tolist() == y
    assert result.dtype == np.int64
    if pos_label is None:
        assert classes == tuple(str(value) for value in values[:2])


@pytest.mark.parametrize(
    ("values", "pos_label", "message"),
    [
        (["yes", "no"], "Yes", "has no class 'Yes'; did you mean 'yes'.*yes: 1, no: 1"),
        (["yes", "no", "no"], "5", "has no class '5' \\(it has no: 2, yes: 1\\)"),
        (["yes", "no", "no"], None, "the positive class of y is not given .*cost fn: 'no' or 'yes'"),
        ([1, 2, 2], None, "cost fn: 1 or 2"),
        (["a", "b", "c", "a"], "a", "pos_label='a' is for two classes, but y has 3: omit it"),
        (np.arange(100) / 7, None, "has 100 classes .*\\(100 in all\\)\\): state the costs"),
        ([1, 1, 1], None, "one class only \\(1: 3\\): both are needed"),
        ([0, np.nan, 1, np.nan], None, "y is missing in 2 of 4 rows, first in row 2"),
        (["a", " ", "b"], "a", "missing in 1 of 3 rows, first in row 2"),
        ([None, None], None, "missing in 2 of 2 rows, first in row 1"),
        ([], None, "has no rows"),
        (["1.0", "01"], "1", "has no class '1'"),  # both would fit
    ],
)
def test_bad_labels_are_explained(values, pos_label, message):
    with pytest.raises(DataError, match=message):
        class_labels(values, pos_label, what="y")
