"""Costs over columns in classifiers: resolved in fit, predict, score and permutation_cost; saved."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import adacsl
from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.datasets.costs import CostWarning
from adacsl.integrations.sklearn import cost_scorer, mean_cost
from tests.made import logistic

COSTS = CostMatrix(fp=5, fn="0.5 * amount + 1")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"amount": rng.lognormal(3, 1, 300), "x": rng.normal(size=300)})
    return frame, (frame["x"] + rng.normal(size=300) > 0.8).to_numpy().astype(int)


def fitted(frame, y, costs=COSTS, **given):
    return logistic(costs).fit(frame, y, **given)


@pytest.fixture(scope="module")
def model(data):
    return fitted(*data)


def test_costs_over_columns_equal_arrays_of_them(data, model):
    frame, y = data
    amounts = 0.5 * frame["amount"].to_numpy() + 1
    by_array = fitted(frame, y, CostMatrix(fp=5, fn=1), fn=amounts)
    given_to_fit = fitted(frame, y, CostMatrix(fp=5, fn=1), fn="0.5 * amount + 1")
    expected = by_array.predict(frame, fn=amounts)
    polars = pl.from_pandas(frame)
    again = clone(model).fit(frame, y)
    for other, table in ((model, frame), (given_to_fit, frame), (again, frame), (fitted(polars, y), polars)):
        assert other.cost_spec_ == COSTS
        assert other.costs_ == by_array.costs_
        assert other.estimated_cost_ == by_array.estimated_cost_
        np.testing.assert_array_equal(other.predict(table), expected)
    assert (
        model.score(frame, y) == by_array.score(frame, y, fn=amounts) == -CostMatrix(fp=5, fn=amounts).mean(y, expected)
    )
    worth, other = (
        m.permutation_cost(frame, y, random_state=0, repeats=2, **g)
        for m, g in ((model, {}), (by_array, {"fn": amounts}))
    )
    pd.testing.assert_frame_equal(worth, other)
    assert by_array.cost_spec_ is None
    assert (by_array.predict(frame, fn=by_array.costs_.fn) != expected).any()  # by the mean cost


def test_costs_given_to_predict_take_precedence(data, model):
    frame, _ = data
    free = np.zeros(len(frame))
    assert not model.predict(frame, fn=free).any()
    assert model.predict(frame, fp=1e-6, fn="amount").all()
    some = frame.assign(amount=-1.0)  # an error that costs less than being right is free
    assert not model.predict(some, fn="amount").any()


def test_arrays_beside_columns_are_asked_for_at_other_rows(data):
    frame, y = data
    checks = np.linspace(1, 9, len(frame))
    model = fitted(frame, y, CostMatrix(fp=1, fn="amount"), fp=checks)
    assert model.cost_spec_ == CostMatrix(fp=5, fn="amount")
    other = CostMatrix(fp=5, fn=frame["amount"].to_numpy()[:7])
    with pytest.raises(ValueError, match="fitted with fp of each sample"):
        model.predict(frame[:7])
    np.testing.assert_array_equal(model.predict(frame[:7], fp=5), other.decide(model.predict_proba(frame[:7])))


def test_columns_that_are_not_there_are_named(data, model):
    frame, y = data
    with pytest.raises(ValueError, match=r"column names of X|feature names should match|columns"):
        model.predict(frame[["x"]])
    with pytest.raises(ValueError, match=r"have names.*trained with CostMatrix\(fp=5, fn='0.5 \* amount \+ 1'\)"):
        model.predict(frame.to_numpy())
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict_proba(frame.to_numpy())  # whatever rows cost
    with pytest.raises(ValueError, match="need the column 'sum', which is not there: there are 'amount', 'x'"):
        fitted(frame, y, CostMatrix(fp=1, fn="sum"))
    with pytest.raises(ValueError, match=r"validation data of their own cannot be combined with .* costs of each row"):
        CostSensitiveClassifier(COSTS, learner=LogisticRegression(), validation=(frame, y)).fit(frame, y)


def test_cost_specifications_are_saved(data, model, tmp_path):
    frame, y = data
    again = adacsl.load(model.save(tmp_path / "model"))
    assert again.cost_spec_ == again.costs == COSTS
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    plain = adacsl.load(fitted(frame, y, CostMatrix(fp=1, fn=(5, 20))).save(tmp_path / "ranged"))
    assert plain.cost_spec_ is None
    assert plain.costs_.ranges == {"fn": (5.0, 20.0)}


def test_names_of_classes_and_three_classes(data):
    frame, y = data
    named = CostMatrix.from_array([[0, "amount"], [5, 0]], rows="predicted", classes=["good", "bad"])
    labels = np.where(y == 1, "bad", "good")
    model = fitted(frame, labels, named)
    assert model.pos_label_ == "bad"
    same = fitted(frame, y, CostMatrix(fp=5, fn="amount"))
    np.testing.assert_array_equal(model.predict(frame) == "bad", same.predict(frame) == 1)
    three = np.where(frame["x"] < -0.5, 2, y)
    table = [[0, "amount", 3], [5, 0, 2], [4, 1, 0]]
    many = fitted(frame, three, CostMatrix.from_array(table, rows="predicted"))
    own = many.cost_spec_.of(frame)
    np.testing.assert_array_equal(many.predict(frame), own.decide(many.predict_proba(frame)))
    assert many.score(frame, three) == -own.mean(three, many.predict(frame))


def test_suspicious_costs_are_named_when_fitting(data):
    frame, y = data
    with pytest.warns(CostWarning, match="fn is below the cost of a correct prediction in 1 row, first in row 4"):
        model = fitted(frame.assign(amount=np.where(np.arange(300) == 3, -9.0, frame["amount"])), y)
    assert model.costs_.fn > 0
    with pytest.warns(CostWarning, match="fn leaks the label: it is 0 for all"):
        fitted(frame, y, CostMatrix(fp=1, fn=1), fn=frame["amount"].to_numpy() * y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(frame, y)


def test_scorers_and_metrics_take_costs_over_columns(data, model):
    frame, y = data
    assert cost_scorer(COSTS)(model, frame, y) == pytest.approx(model.score(frame, y))
    assert len(cross_val_score(model, frame, y, cv=2, scoring=cost_scorer(COSTS))) == 2
    with pytest.raises(ValueError, match="depend on the column 'amount'"):
        mean_cost(y, y, costs=COSTS)
