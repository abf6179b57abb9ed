"""Costs of each sample that were given to ``fit`` as arrays have to be given again: no mean stands in for them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier, load, monitor
from adacsl.learners import SklearnLearner
from adacsl.serving.schema import InputSchema

N = 300
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=list("abc"))
Y = (X["a"] + 0.5 * RNG.normal(size=N) > 0.8).to_numpy().astype(int)
AMOUNT = RNG.lognormal(1, 1, N)
COSTS = CostMatrix(fp=2, fn=1)
HOW = r"fitted with fn of each sample.*pass fn of these samples, as in predict\(X, fn=\.\.\.\)"


def fitted(**given):
    """Return a model whose false negatives cost an amount each."""
    return CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(
        X, Y, **({"fn": AMOUNT} | given)
    )


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
    CALLS[call](model, fn=5.0)  # one cost for all samples, said so


def test_every_cost_that_differed_is_asked_for():
    model = fitted(fp=AMOUNT[::-1] + 1)
    with pytest.raises(ValueError, match=r"fitted with fp of each sample.*predict\(X, fp=\.\.\.\)"):
        model.predict(X, fn=AMOUNT)
    with pytest.raises(ValueError, match=r"fitted with fp and fn of each sample.*predict\(X, fp=\.\.\., fn=\.\.\.\)"):
        model.predict(X)
    model.predict(X, fn=AMOUNT, fp=1.0)


def test_costs_that_were_the_same_for_all_samples_are_known():
    model = fitted(fp=np.full(N, 2.0))
    assert (model.predict(X, fn=AMOUNT) == fitted().predict(X, fn=AMOUNT)).all()


def test_columns_and_class_wide_costs_need_no_words():
    table = X.assign(amount=AMOUNT)
    own = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(table, Y, fn="amount")
    assert 0 < own.predict(table).sum() < N
    assert 0 < fitted(fn=3.0).predict(X).sum() < N


def test_an_array_beside_a_column():
    table = X.assign(amount=AMOUNT)
    model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), random_state=0).fit(
        table, Y, fn="amount", fp=AMOUNT[::-1] + 1
    )
    with pytest.raises(ValueError, match="fitted with fp of each sample"):
        model.predict(table)
    assert 0 < model.predict(table, fp=AMOUNT[::-1] + 1).sum() < N


def test_probabilities_that_depend_on_costs():
    model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), loss="instance-weighted", random_state=0).fit(
        X, Y, fn=AMOUNT
    )
    with pytest.raises(ValueError, match=HOW):
        model.predict_proba(X)
    assert model.predict_proba(X, fn=AMOUNT).shape == (N, 2)
    assert (model.predict(X) == model.predict(X, fn=AMOUNT)).all()  # the score itself has the costs in it
    with pytest.raises(ValueError, match=HOW):
        model.decisions(X)
    assert fitted().predict_proba(X).shape == (N, 2)  # others do not


def test_other_classifiers(tmp_path):
    steered = AdaCSLClassifier(
        COSTS, learner=SklearnLearner(LogisticRegression(), encode=False), random_state=0, decide="bayes"
    ).fit(X, Y, fn=AMOUNT)
    stack = EnsembleClassifier(COSTS, estimators=["logistic", "histogram"], n_jobs=1, random_state=0)
    stack.fit(X, Y, fn=AMOUNT)
    for model in (steered, stack, load(stack.save(tmp_path / "stack"))):
        with pytest.raises(ValueError, match=HOW):
            model.predict(X)
        assert model.predict(X, fn=AMOUNT).shape == (N,)


def test_a_model_that_was_read_again_remembers(tmp_path):
    again = load(fitted().save(tmp_path / "model"))
    with pytest.raises(ValueError, match=HOW):
        again.predict(X)
    assert (again.predict(X, fn=AMOUNT) == fitted().predict(X, fn=AMOUNT)).all()
    assert load(fitted(fn=3.0).save(tmp_path / "other")).predict(X).shape == (N,)


def test_such_a_model_is_not_served():
    with pytest.raises(ValueError, match=r"fn of each sample, which a request cannot give.*fit\(X, y, fn='amount'\)"):
        InputSchema.of(fitted())


def test_another_fit_forgets_them():
    model = fitted()
    model.fit(X, Y)
    assert model.predict(X).shape == (N,)
