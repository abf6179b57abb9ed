"""The LightGBM pair: the objective is the native one's where the weight is 1, and follows the weight elsewhere."""

import json
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from adacsl import AdaCSLController, CostMatrix
from adacsl.integrations.lightgbm import AdaCSLCallback

COSTS = CostMatrix(fp=1, fn=6)
PARAMS = {"verbosity": -1, "num_threads": 1, "seed": 0, "learning_rate": 0.2, "deterministic": True}


@pytest.fixture(scope="module")
def adapters(load_module):
    return load_module(Path(__file__).with_name("boosting_adapters.py"))


def made_up(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n) > 1.2).astype(int)


TEST = made_up(300, seed=7)[0]


def boost(cost, rounds=12, weight=None, validation_weight=None, **more):
    train = lgb.Dataset(*made_up(), weight=weight, free_raw_data=False)
    validation = lgb.Dataset(*made_up(400, seed=1), weight=validation_weight, reference=train, free_raw_data=False)
    params = PARAMS | {"objective": cost.objective}
    return lgb.train(params, train, rounds, valid_sets=[validation], callbacks=[cost], **more)


def frozen_weight(target_threshold=None):
    """A controller whose weight never moves."""
    return AdaCSLController(
        COSTS, target_threshold=COSTS.threshold if target_threshold is None else target_threshold, bounds=(1.0, 1.0)
    )


def test_set_weight_between_rounds_is_ignored_by_lightgbm():
    # why there is an objective of our own; where this changes, the native one could be kept
    train = lgb.Dataset(*made_up(), free_raw_data=False)
    booster, plain = (lgb.Booster(PARAMS | {"objective": "binary"}, train) for _ in range(2))
    for _ in range(3):
        plain.update()
    for weight in (0.5, 0.2, 0.1):
        train.set_weight(np.where(made_up()[1] == 1, 1.0, weight))
        booster.update()
    assert np.array_equal(booster.predict(TEST), plain.predict(TEST))


@pytest.mark.parametrize("weight", [None, "random"])
def test_with_a_weight_of_one_it_is_the_native_objective(weight):
    own = None if weight is None else np.random.default_rng(3).uniform(0.5, 2.0, 600)
    ours = boost(AdaCSLCallback(frozen_weight()), weight=own)
    native = lgb.train(PARAMS | {"objective": "binary"}, lgb.Dataset(*made_up(), weight=own), 12)
    assert ours.predict(TEST) == pytest.approx(native.predict(TEST, raw_score=True), abs=1e-6)


def test_with_a_fixed_weight_it_is_native_boosting_on_weighted_rows():
    ours = boost(AdaCSLCallback(frozen_weight(0.5)))
    weight = np.where(made_up()[1] == 1, 1.0, 1 / 6)
    native = lgb.train(PARAMS | {"objective": "binary"}, lgb.Dataset(*made_up(), weight=weight), 12)
    assert ours.predict(TEST) == pytest.approx(native.predict(TEST, raw_score=True), abs=1e-6)


def test_margins_of_the_callback_are_those_of_the_model():
    cost = AdaCSLCallback(AdaCSLController(COSTS))
    booster = boost(cost)
    X, y = made_up(400, seed=1)
    core = AdaCSLController(COSTS)
    for number, row in enumerate(cost.history):
        margins = booster.predict(X, num_iteration=number + 1)
        assert cost.margins[number] == pytest.approx(margins, abs=1e-9)
        step = core.step(1.0 / (1.0 + np.exp(-margins)), y)
        assert row.lambda_ == pytest.approx(step.lambda_, rel=1e-6)
        assert row.cost == pytest.approx(step.cost)
    assert len({row.weight for row in cost.history}) > 5


def test_patience_and_lightgbms_own_early_stopping_on_cost():
    cost = AdaCSLCallback(AdaCSLController(COSTS), patience=3)
    booster = boost(cost, 300)
    assert booster.best_iteration == cost.best_round + 1
    assert len(cost.history) == cost.best_round + 4
    other = AdaCSLCallback(AdaCSLController(COSTS))
    train = lgb.Dataset(*made_up())
    validation = lgb.Dataset(*made_up(400, seed=1), reference=train)
    stopped = lgb.train(
        PARAMS | {"objective": other.objective}, train, 300, valid_sets=[validation], feval=other.metric,
        callbacks=[other, lgb.early_stopping(3, verbose=False)],
    )  # fmt: skip
    assert stopped.best_iteration == booster.best_iteration


def test_every_adapts_less_often():
    cost = AdaCSLCallback(AdaCSLController(COSTS), 5)
    boost(cost, 12)
    assert len(cost.controller.history) == 2
    assert len(cost.history) == 12


def test_training_in_two_parts_is_training_in_one():
    whole = boost(AdaCSLCallback(AdaCSLController(COSTS)), 10)
    controller = AdaCSLController(COSTS)
    first = boost(AdaCSLCallback(controller), 6)
    restored = AdaCSLController(COSTS)
    restored.load_state_dict(json.loads(json.dumps(controller.state_dict())))
    second = boost(AdaCSLCallback(restored), 4, init_model=first)
    assert second.num_trees() == 10
    assert second.predict(TEST) == pytest.approx(whole.predict(TEST), abs=1e-6)


def test_costs_and_weights_of_each_validation_row():
    _, y = made_up(400, seed=1)
    rng = np.random.default_rng(4)
    weight, fn = rng.uniform(0.1, 3.0, 400), rng.uniform(1.0, 9.0, 400)
    costs = CostMatrix(fp=1, fn=fn)
    cost = AdaCSLCallback(AdaCSLController(costs.averaged()), costs=costs)
    booster = boost(cost, 5, validation_weight=weight)
    # each row at its own threshold: the dearer a miss, the lower
    decided = booster.predict(made_up(400, seed=1)[0]) > np.log(fn.mean() / fn)
    each = np.where(y == 1, np.where(decided, 0.0, fn), np.where(decided, 1.0, 0.0))
    assert cost.history[-1].cost == pytest.approx(np.average(each, weights=weight), rel=1e-6)


def test_the_sklearn_wrapper():
    cost = AdaCSLCallback(AdaCSLController(COSTS))
    model = lgb.LGBMClassifier(objective=cost.sklearn_objective, n_estimators=8, verbosity=-1, n_jobs=1)
    X, y = made_up()
    eval_X, eval_y = made_up(400, seed=1)
    model.fit(X, y, eval_X=eval_X, eval_y=eval_y, callbacks=[cost])
    margins = model.predict(TEST, raw_score=True)
    assert len(cost.history) == 8
    assert np.isfinite(margins).all()
    assert cost.margins[-1] == pytest.approx(model.predict(made_up(400, seed=1)[0], raw_score=True), abs=1e-9)


def test_frozen_scores_and_the_toy_task(adapters):
    rng = np.random.default_rng(0)
    labels = (rng.random(103) < 0.3).astype(int)
    frozen = [np.clip(0.3 * labels + 0.5 * rng.random(103) + 0.05 * i, 0.0, 1.0) for i in range(5)]
    core = AdaCSLController(COSTS)
    expected = [core.step(scores, labels).lambda_ for scores in frozen]
    assert adapters.LightGBM.run(frozen, labels, AdaCSLController(COSTS)) == pytest.approx(expected, rel=1e-6)
    plain, adapted = adapters.LightGBM.toy(CostMatrix(fp=1, fn=20))
    assert adapted < plain


def test_what_goes_wrong_is_said():
    once = AdaCSLCallback(AdaCSLController(COSTS))
    boost(once, 2)
    with pytest.raises(RuntimeError, match="was used in a training already"):
        boost(once, 2)
    with pytest.raises(TypeError, match="controller must be an AdaCSLController"):
        AdaCSLCallback(8)
    train = lgb.Dataset(*made_up(100))
    with pytest.raises(RuntimeError, match="is a callback and an objective"):
        lgb.train(PARAMS | {"objective": "binary"}, train, 3, callbacks=[AdaCSLCallback(AdaCSLController(COSTS))])
    cost = AdaCSLCallback(AdaCSLController(COSTS))
    with pytest.raises(RuntimeError, match="validation data is missing: give valid_sets"):
        lgb.train(PARAMS | {"objective": cost.objective}, lgb.Dataset(*made_up(100)), 3, callbacks=[cost])


def test_an_objective_without_its_callback_is_an_error():
    cost = AdaCSLCallback(AdaCSLController(COSTS))
    with pytest.raises(RuntimeError, match=r"the objective is used without its callback: give callbacks=\[cost\] too"):
        lgb.train(PARAMS | {"objective": cost.objective}, lgb.Dataset(*made_up(100)), 3)
