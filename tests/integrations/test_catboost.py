"""The CatBoost object: objective, metric and callback in one; the native trees where the weight is 1."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoost, CatBoostError, Pool

from adacsl import AdaCSLController, CostMatrix
from adacsl.integrations.catboost import AdaCSLCallback

COSTS = CostMatrix(fp=1, fn=6)
PARAMS = {
    "verbose": False, "thread_count": 1, "random_seed": 0, "learning_rate": 0.2, "allow_writing_files": False,
    "iterations": 12,
}  # fmt: skip


@pytest.fixture(scope="module")
def adapters(load_module):
    return load_module(Path(__file__).with_name("boosting_adapters.py"))


def made_up(n=600, seed=0, weight=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    level = rng.integers(0, 4, n)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + np.array([0.5, -1.0, 0.0, 1.0])[level] + rng.normal(size=n) > 1.2).astype(int)
    frame = pd.DataFrame(X).assign(level=pd.Series(level).map(dict(enumerate("abcd"))))
    return Pool(frame, y, weight=weight, cat_features=["level"])


def boost(cost, train=None, validation=None, callbacks=(), **params):
    model = CatBoost(PARAMS | {"loss_function": cost, "eval_metric": cost} | params)
    train = made_up() if train is None else train
    validation = made_up(400, seed=1) if validation is None else validation
    return model.fit(train, eval_set=validation, callbacks=[cost, *callbacks], use_best_model=False)


def margins_of(model, pool, **more):
    return model.predict(pool, prediction_type="RawFormulaVal", **more)


@pytest.mark.parametrize("weight", [None, "random"])
def test_with_a_weight_of_one_it_grows_the_native_trees(weight):
    own = None if weight is None else np.random.default_rng(3).uniform(0.5, 2.0, 600)
    controller = AdaCSLController(COSTS, target_threshold=COSTS.threshold, bounds=(1.0, 1.0))
    ours = boost(AdaCSLCallback(controller), made_up(weight=own))
    native = CatBoost(PARAMS | {"loss_function": "Logloss"}).fit(made_up(weight=own))
    test = made_up(300, seed=7)
    assert margins_of(ours, test) == pytest.approx(margins_of(native, test), abs=1e-9)


def test_with_a_fixed_weight_it_is_native_boosting_on_weighted_rows():
    ours = boost(AdaCSLCallback(AdaCSLController(COSTS, bounds=(1.0, 1.0))), bootstrap_type="No")
    labels = np.asarray(made_up().get_label(), dtype=float)
    weighted = made_up(weight=np.where(labels == 1, 1.0, 1 / 6))
    native = CatBoost(PARAMS | {"loss_function": "Logloss", "bootstrap_type": "No"}).fit(weighted)
    # weights in the pool also count in the leaves' regularisation and in the split scores: near, not equal
    ours_scores, native_scores = (margins_of(model, made_up(300, seed=7)) for model in (ours, native))
    assert np.corrcoef(ours_scores, native_scores)[0, 1] > 0.9


def test_margins_of_the_callback_are_those_of_the_model():
    cost = AdaCSLCallback(AdaCSLController(COSTS))
    validation = made_up(400, seed=1)
    model = boost(cost, validation=validation)
    labels = np.asarray(validation.get_label()).astype(int)
    core = AdaCSLController(COSTS)
    assert len(cost.history) == 12
    for number, row in enumerate(cost.history):
        margins = margins_of(model, validation, ntree_end=number + 1)
        assert cost.margins[number] == pytest.approx(margins, abs=1e-9)
        step = core.step(1.0 / (1.0 + np.exp(-margins)), labels)
        assert row.lambda_ == pytest.approx(step.lambda_, rel=1e-6)
        assert row.cost == pytest.approx(step.cost)
    assert len({row.weight for row in cost.history}) > 5


def test_derivatives_are_those_of_the_weighted_loss():
    cost = AdaCSLCallback(AdaCSLController(COSTS))
    rng = np.random.default_rng(0)
    z, y, own = rng.normal(size=20) * 4, rng.integers(0, 2, 20), rng.uniform(0.5, 2.0, 20)

    def likelihood(z):
        return -own * (y * np.logaddexp(0, -z) + (1 - y) / 6 * np.logaddexp(0, z))

    result = cost.calc_ders_range(z, y, own)
    step = 1e-4
    first = (likelihood(z + step) - likelihood(z - step)) / (2 * step)
    second = (likelihood(z + step) - 2 * likelihood(z) + likelihood(z - step)) / step**2
    assert result[:, 0] == pytest.approx(first, abs=1e-6)
    assert result[:, 1] == pytest.approx(second, abs=1e-5)


def test_patience_and_catboosts_own_early_stopping_on_cost():
    cost = AdaCSLCallback(AdaCSLController(COSTS), patience=3)
    model = boost(cost, iterations=300)
    assert model.tree_count_ == len(cost.history) == cost.best_round + 4
    other = AdaCSLCallback(AdaCSLController(COSTS))
    stopped = CatBoost(PARAMS | {"loss_function": other, "eval_metric": other, "iterations": 300})
    stopped.fit(made_up(), eval_set=made_up(400, seed=1), callbacks=[other], early_stopping_rounds=3)
    assert stopped.get_best_iteration() == cost.best_round
    assert stopped.tree_count_ == cost.best_round + 1


def test_every_adapts_less_often():
    cost = AdaCSLCallback(AdaCSLController(COSTS), 5)
    boost(cost)
    assert len(cost.controller.history) == 2
    assert len(cost.history) == 12


def test_costs_and_weights_of_each_validation_row():
    rng = np.random.default_rng(4)
    weight, fn = rng.uniform(0.1, 3.0, 400), rng.uniform(1.0, 9.0, 400)
    costs = CostMatrix(fp=1, fn=fn)
    cost = AdaCSLCallback(AdaCSLController(costs.averaged()), costs=costs)
    validation = made_up(400, seed=1, weight=weight)
    model = boost(cost, validation=validation)
    # each row at its own threshold: the dearer a miss, the lower
    y, decided = np.asarray(validation.get_label()), margins_of(model, validation) > np.log(fn.mean() / fn)
    each = np.where(y == 1, np.where(decided, 0.0, fn), np.where(decided, 1.0, 0.0))
    assert cost.history[-1].cost == pytest.approx(np.average(each, weights=weight), rel=1e-5)
    assert model.get_evals_result()["validation"]["AdaCSLCallback"][-1] == pytest.approx(cost.history[-1].cost)


def test_copies_share_the_controller_and_pickles_do_not():
    cost = AdaCSLCallback(AdaCSLController(COSTS), 3)
    assert copy.deepcopy(cost) is cost
    other = pickle.loads(pickle.dumps(cost))  # noqa: S301
    assert other.controller is not cost.controller
    assert other.every == 3


def test_frozen_scores_and_the_toy_task(adapters):
    rng = np.random.default_rng(0)
    labels = (rng.random(103) < 0.3).astype(int)
    frozen = [np.clip(0.3 * labels + 0.5 * rng.random(103) + 0.05 * i, 0.0, 1.0) for i in range(5)]
    core = AdaCSLController(COSTS)
    expected = [core.step(scores, labels).lambda_ for scores in frozen]
    assert adapters.CatBoost.run(frozen, labels, AdaCSLController(COSTS)) == pytest.approx(expected, rel=1e-6)
    plain, adapted = adapters.CatBoost.toy(CostMatrix(fp=1, fn=20))
    assert adapted < plain


def test_what_goes_wrong_is_said():
    once = AdaCSLCallback(AdaCSLController(COSTS))
    boost(once)
    with pytest.raises((RuntimeError, CatBoostError), match="was used in a training already"):
        boost(once)
    with pytest.raises(TypeError, match="controller must be an AdaCSLController"):
        AdaCSLCallback(8)
    cost = AdaCSLCallback(AdaCSLController(COSTS))
    model = CatBoost(PARAMS | {"loss_function": cost, "eval_metric": cost})
    with pytest.raises((RuntimeError, CatBoostError), match="nothing to adapt to: give fit"):
        model.fit(made_up(), callbacks=[cost])
    unseen = AdaCSLCallback(AdaCSLController(COSTS))
    with pytest.raises((RuntimeError, CatBoostError), match="give it as eval_metric too"):
        CatBoost(PARAMS | {"loss_function": unseen, "eval_metric": "Logloss"}).fit(made_up(), callbacks=[unseen])
