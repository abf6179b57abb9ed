"""Costs of each sample that were given to ``fit`` as arrays have to be given again: no mean stands in for them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, EnsembleClassifier, load, monitor
from adacsl.serving.schema import InputSchema
from tests.made import adapted_estimator, logistic

N = 300
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=list("abc"))
Y = (X["a"] + 0.5 * RNG.normal(size=N) > 0.8).to_numpy().astype(int)
AMOUNT = RNG.lognormal(1, 1, N)
COSTS = CostMatrix(fp=2, fn=1)
HOW = r"fitted with fn of each sample.*pass fn of these samples, as in predict\(X, fn=\.\.\.\)"


def fitted(rows=X, *, loss="plain", **given):
    """Return a model whose false negatives cost an amount each."""
    model = logistic(COSTS, loss=loss)
    return model.fit(rows, Y, **({"fn": AMOUNT} | given))


CALLS = {
    "predict": lambda model, **given: model.predict(X, **given),
    "decisions": lambda model, **given: model.decisions(X, **given),
    "predict with a policy": lambda model, **given: model.predict(X, refer=0.5, **given),
    "score": lambda model, **given: model.score(X, Y, **given),
    "permutation_cost": lambda model, **given: model.permutation_cost(X, Y, repeats=1, **given),
    "retune": lambda model, **given: model.retune(X, Y, **given),
    "monitor": lambda model, **given: monitor(model, X, Y, **given),
}


@pytest.mark.parametrize("call", CALLS)
def test_costs_that_are_not_given_are_asked_for(call):
    model = fitted()
    with pytest.raises(ValueError, match=HOW):
        CALLS[call](model)
    CALLS[call](model, fn=AMOUNT)
    CALLS[call](model, fn=5.0)  # one cost for all samples, given explicitly


def test_every_cost_that_differed_is_asked_for():
    model = fitted(fp=AMOUNT[::-1] + 1)
    with pytest.raises(ValueError, match=r"fitted with fp of each sample.*predict\(X, fp=\.\.\.\)"):
        model.predict(X, fn=AMOUNT)
    with pytest.raises(ValueError, match=r"fitted with fp and fn of each sample.*predict\(X, fp=\.\.\., fn=\.\.\.\)"):
        model.predict(X)
    model.predict(X, fn=AMOUNT, fp=1.0)
    constant = fitted(fp=np.full(N, 2.0))  # the same for all samples
    assert (constant.predict(X, fn=AMOUNT) == fitted().predict(X, fn=AMOUNT)).all()
    assert model.fit(X, Y).predict(X).shape == (N,)  # another fit, without per-sample costs


def test_columns_and_class_wide_costs_need_not_be_given_again():
    table = X.assign(amount=AMOUNT)
    assert 0 < fitted(table, fn="amount").predict(table).sum() < N
    assert 0 < fitted(fn=3.0).predict(X).sum() < N
    model = fitted(table, fn="amount", fp=AMOUNT[::-1] + 1)
    with pytest.raises(ValueError, match="fitted with fp of each sample"):
        model.predict(table)
    assert 0 < model.predict(table, fp=AMOUNT[::-1] + 1).sum() < N


def test_probabilities_that_depend_on_costs():
    model = fitted(loss="instance-weighted")
    with pytest.raises(ValueError, match=HOW):
        model.predict_proba(X)
    assert model.predict_proba(X, fn=AMOUNT).shape == (N, 2)
    assert (model.predict(X) == model.predict(X, fn=AMOUNT)).all()  # the score itself has the costs in it
    with pytest.raises(ValueError, match=HOW):
        model.decisions(X)
    assert fitted().predict_proba(X).shape == (N, 2)  # others do not


def test_other_classifiers(tmp_path):
    adapted = adapted_estimator(LogisticRegression(), COSTS, random_state=0).fit(X, Y, fn=AMOUNT)
    stack = EnsembleClassifier(COSTS, estimators=["logistic", "histogram"], n_jobs=1, random_state=0)
    stack.fit(X, Y, fn=AMOUNT)
    for model in (adapted, stack, load(stack.save(tmp_path / "stack"))):
        with pytest.raises(ValueError, match=HOW):
            model.predict(X)
        assert model.predict(X, fn=AMOUNT).shape == (N,)


def test_a_loaded_model_asks_for_them_too(tmp_path):
    again = load(fitted().save(tmp_path / "model"))
    with pytest.raises(ValueError, match=HOW):
        again.predict(X)
    assert (again.predict(X, fn=AMOUNT) == fitted().predict(X, fn=AMOUNT)).all()
    assert load(fitted(fn=3.0).save(tmp_path / "other")).predict(X).shape == (N,)


def test_such_a_model_is_not_served():
    with pytest.raises(ValueError, match=r"fn of each sample, which a request cannot give.*fit\(X, y, fn='amount'\)"):
        InputSchema.of(fitted())
