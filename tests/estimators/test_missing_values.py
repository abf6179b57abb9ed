"""Columns without values, which every method takes; infinite numbers, which every method refuses."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix, method
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.boosting_libraries import LIBRARIES
from adacsl.learners.histogram_boosting import HistogramBoosting, without_missing
from adacsl.learners.metacost import MetaCost
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural.learner import NeuralLearner

N = 80
KINDS = ("always-negative", "logistic", "net", "net-smote", "xgboost", "lightgbm", "catboost", "metacost")


def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"]).assign(shop=rng.choice(["u", "v"], N))
    return frame, (frame["a"] + rng.normal(size=N) > 0.5).to_numpy().astype(int)


def made(name):
    chosen = method(name).set_params(costs=CostMatrix(fp=1, fn=5), random_state=0)
    quick = {
        "net": NeuralLearner(epochs=1),
        "net-smote": NeuralLearner(epochs=1),
        "metacost": SklearnLearner(MetaCost(bags=2), encode=False),
    }
    if name in LIBRARIES:
        quick[name] = BoostingLearner(name, n_estimators=2)
    return chosen.set_params(learner=quick.get(name, chosen.learner))


COLUMNS = {
    "empty": lambda frame: np.full(N, np.nan),
    "no words": lambda frame: pd.Series([None] * N, dtype=object),
}
INFINITE = {
    "all": lambda frame: np.full(N, np.inf),
    "some": lambda frame: np.where(np.arange(N) % 5 == 0, -np.inf, frame["b"]),
    "text": lambda frame: np.where(np.arange(N) % 5 == 0, "-inf", frame["b"].map(repr)),
    "whole text": lambda frame: np.where(np.arange(N) % 5 == 0, "1e999", "1"),
}


@pytest.mark.parametrize(
    ("name", "column"), [(name, "empty") for name in KINDS] + [(name, "no words") for name in ("logistic", "metacost")]
)
def test_every_method_takes_columns_without_values(name, column):
    frame, y = table()
    odd = frame.assign(odd=COLUMNS[column](frame))
    assert np.isfinite(made(name).fit(odd, y).predict_proba(odd)).all()


@pytest.mark.parametrize(
    ("name", "column"), [(name, "some") for name in KINDS[2:]] + [("logistic", column) for column in INFINITE]
)
def test_every_method_refuses_infinite_numbers(name, column):
    frame, y = table()
    odd = frame.assign(odd=INFINITE[column](frame))
    with pytest.raises(ValueError, match=r"column 'odd' holds infinite numbers \(\d+ of \d+ rows.*replace them"):
        made(name).fit(odd, y)
    fitted = made(name).fit(frame.assign(odd=frame["b"]), y)
    with pytest.raises(ValueError, match=r"column 'odd' holds infinite numbers .*first in row 1.*replace them"):
        fitted.predict_proba(odd)


def test_infinity_among_text_is_a_category():
    frame, y = table()
    values = np.where(frame["b"] > 0, "inf", np.where(frame["a"] > 0, "A", "B"))
    fitted = made("logistic").fit(frame.assign(odd=values), y)
    alone = frame[:1].assign(odd="inf")
    for value in (np.inf, "Infinity", "+inf", "1e999"):
        np.testing.assert_array_equal(
            fitted.predict_proba(alone.assign(odd=value)), fitted.predict_proba(alone), err_msg=str(value)
        )


@settings(max_examples=20)
@given(st.lists(st.booleans(), min_size=2, max_size=4), st.integers(0, 9))
def test_columns_without_a_value_change_no_tree(empty, seed):
    """Histogram boosting with empty columns is the boosting without them."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(40, len(empty))), rng.integers(0, 2, 40)
    y[:2] = 0, 1
    incomplete = np.where(empty, np.nan, x)
    assert np.array_equal(np.isnan(without_missing(incomplete)).any(axis=0), np.zeros(len(empty), bool))
    made = HistogramBoosting(0, max_iter=3, early_stopping=False)
    result = made.fit(incomplete, y).predict_proba(incomplete)
    if not all(empty):
        rest = x[:, ~np.asarray(empty)]
        np.testing.assert_allclose(result, made.fit(rest, y).predict_proba(rest), rtol=0, atol=1e-12)
    else:
        np.testing.assert_allclose(result[:, 1], y.mean(), rtol=0, atol=1e-12)
