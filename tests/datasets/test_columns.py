"""Plain arrays by name: the same raw columns as those of a data frame."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import dok_array
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacsl import CostMatrix, CostSensitiveClassifier, method
from adacsl.datasets.columns import Columns, read_columns
from adacsl.datasets.encoder import TableEncoder

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_infinity=False), st.text(max_size=5),
    st.dates().map(str), st.sampled_from([" 1.0 ", "NA", "web\0"]),
)  # fmt: skip


@settings(max_examples=30)
@given(st.lists(VALUES, min_size=1, max_size=6))
def test_a_column_is_read_as_that_of_a_frame(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    one, other = Columns({"code": array}), pd.DataFrame({"code": pd.Series(array, dtype=object)})
    assert read_columns(one)[:2] == read_columns(other)[:2] == (["code"], (len(values), 1))
    result, wanted = read_columns(one)[2](0), read_columns(other)[2](0)
    assert result[:2] == wanted[:2]
    np.testing.assert_array_equal(result.values, wanted.values)


def test_columns_are_taken_by_name_and_others_ignored():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", None, "y"]})
    encoder = TableEncoder().fit(frame)
    mixed = {"other": [0, 0, 0], "b": ["x", None, "y"], "a": frame["a"]}
    np.testing.assert_array_equal(encoder.transform(mixed), encoder.transform(frame))
    with pytest.raises(ValueError, match="lacks columns of the fit: 'b'"):
        encoder.transform({"a": [1.0]})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "the columns must be equally long, got {'a': 2, 'b': 1}"),
        ({"a": [[1, 2]]}, r"column 'a' must hold one value for each sample, got shape \(1, 2\)"),
        ({"a": np.ma.masked_equal([1, 2], 2)}, "column 'a' has 1 masked value"),
        ({"a": [1j]}, "column 'a' holds complex numbers"),
    ],
)
def test_what_is_no_column_is_refused(arrays, message):
    with pytest.raises(ValueError, match=message):
        Columns(arrays)


def test_joined_columns_are_one_below_the_other():
    joined = Columns.concatenate([Columns({"a": [1.0], "b": ["x"]}), Columns({"b": ["y"], "a": [2.0]})])
    assert joined.shape == (2, 2)
    assert (joined["a"].tolist(), joined["b"].tolist()) == ([1.0, 2.0], ["x", "y"])


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("learner", ["linear", "pipeline", "boosting"])
def test_a_model_predicts_a_dict_of_arrays(learner, named):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x0": rng.normal(size=200), "x1": rng.normal(size=200)})
    X, y = frame if named else frame.to_numpy(), (frame["x0"] + rng.normal(size=200) > 0.5).to_numpy()
    costs = CostMatrix(fp=1, fn=4)
    if learner == "boosting":
        model = method("gbm-bayes", costs, random_state=0)
    else:
        inner = LogisticRegression() if learner == "linear" else make_pipeline(StandardScaler(), LogisticRegression())
        model = CostSensitiveClassifier(costs, learner=inner, random_state=0)
    model.fit(X, y)
    arrays = {"x1": frame["x1"].to_numpy(), "x0": frame["x0"].tolist()}
    np.testing.assert_array_equal(model.predict_proba(arrays), model.predict_proba(X))
    np.testing.assert_array_equal(model.predict(arrays), model.predict(X))
    assert model.score(arrays, y) == model.score(X, y)


def test_a_sparse_matrix_that_is_a_dict_stays_a_matrix():
    dense = np.arange(12.0).reshape(4, 3)
    names, shape, column = read_columns(dok_array(dense))
    assert (names, shape, column(1).values.tolist()) == (None, (4, 3), dense[:, 1].tolist())
