"""The XGBoost callback: weights changed in place are followed exactly, and the native objective is kept."""

import json
from pathlib import Path

import numpy as np
import pytest
import xgboost as xgb

from adacsl import AdaCSLController, CostMatrix
from adacsl.integrations.xgboost import AdaCSLCallback, _far_start

COSTS = CostMatrix(fp=1, fn=6)
PARAMS = {"objective": "binary:logistic", "nthread": 1, "seed": 0, "eta": 0.3, "base_score": 0.5}


@pytest.fixture(scope="module")
def adapters(load_module):
    return load_module(Path(__file__).with_name("boosting_adapters.py"))


def made_up(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n) > 1.2).astype(int)


@pytest.fixture
def matrices():
    return xgb.DMatrix(*made_up()), xgb.DMatrix(*made_up(400, seed=1))


def boost(cost, rounds=12, params=PARAMS, **more):
    return xgb.train(params, cost.train, rounds, callbacks=[cost], verbose_eval=False, **more)


def by_hand(matrix, weights, own=None):
    """Boost with gradients of our own: XGBoost itself sees the first weights only, by which it places its bins."""
    y = matrix.get_label()
    matrix.set_weight(np.where(y == 1, 1.0, weights[0]) * (1.0 if own is None else own))
    booster = xgb.Booster(PARAMS, [matrix])
    for number, weight in enumerate(weights):
        p = 1.0 / (1.0 + np.exp(-booster.predict(matrix, output_margin=True).astype(np.float64)))
        each = np.where(y == 1, 1.0, weight) * (1.0 if own is None else own)
        booster.boost(matrix, number, grad=(p - y) * each, hess=p * (1 - p) * each)
    return booster


def test_weights_set_between_rounds_are_followed_exactly(matrices):
    train, validation = matrices
    cost = AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=validation)
    model = boost(cost)
    weights = [1 / 6, *(row.weight for row in cost.history[:-1])]
    assert len(set(weights)) > 5
    expected = by_hand(xgb.DMatrix(*made_up()), weights)
    assert model.predict(validation, output_margin=True) == pytest.approx(
        expected.predict(validation, output_margin=True), abs=2e-5
    )


def test_sample_weights_multiply_and_are_put_back(matrices):
    _, validation = matrices
    own = np.random.default_rng(2).uniform(0.5, 2.0, 600).astype(np.float32)
    train = xgb.DMatrix(*made_up(), weight=own)
    cost = AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=validation)
    model = boost(cost)
    assert train.get_weight() == pytest.approx(own)
    expected = by_hand(xgb.DMatrix(*made_up()), [1 / 6, *(row.weight for row in cost.history[:-1])], own)
    assert model.predict(validation) == pytest.approx(expected.predict(validation), abs=2e-5)


def test_without_adaptation_at_the_bayes_threshold_it_is_the_plain_booster(matrices):
    train, validation = matrices
    controller = AdaCSLController(COSTS, target_threshold=COSTS.threshold, bounds=(1.0, 1.0))
    adapted = boost(AdaCSLCallback(controller, train=train, validation=validation))
    plain = xgb.train(PARAMS, xgb.DMatrix(*made_up()), 12)
    assert np.array_equal(adapted.predict(validation), plain.predict(validation))


def test_lambda_follows_the_core_on_the_recorded_margins(matrices):
    train, validation = matrices
    cost = AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=validation)
    model = boost(cost)
    core = AdaCSLController(COSTS)
    for number, row in enumerate(cost.history):
        margins = model[: number + 1].predict(validation, output_margin=True)
        step = core.step(1.0 / (1.0 + np.exp(-margins.astype(np.float64))), validation.get_label())
        assert row.lambda_ == pytest.approx(step.lambda_, rel=1e-6)
        assert row.cost == pytest.approx(step.cost)
    assert len(cost.history) == 12


def test_every_adapts_less_often_and_measures_each_round(matrices):
    train, validation = matrices
    cost = AdaCSLCallback(AdaCSLController(COSTS), 4, train=train, validation=validation)
    boost(cost, 12)
    lambdas = [row.lambda_ for row in cost.history]
    assert lambdas[:3] == [1.0] * 3
    assert lambdas[3] != 1.0
    assert len(set(lambdas)) == 4
    assert len(cost.controller.history) == 3


def test_patience_ends_the_training(matrices):
    train, validation = matrices
    cost = AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=validation, patience=3)
    model = boost(cost, 300)
    assert len(cost.history) == cost.best_round + 4 == model.num_boosted_rounds()
    costs = [row.cost for row in cost.history]
    assert cost.best_round == int(np.argmin(costs))


def test_xgboosts_own_early_stopping_works_on_the_logged_cost(matrices):
    train, validation = matrices
    cost = AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=validation, name="val")
    stop = xgb.callback.EarlyStopping(rounds=3, metric_name="cost", data_name="val", maximize=False)
    log = {}
    model = xgb.train(PARAMS, train, 300, callbacks=[cost, stop], evals_result=log, verbose_eval=False)
    assert log["val"]["cost"] == pytest.approx([row.cost for row in cost.history])
    assert model.best_iteration == cost.best_round
    assert len(cost.history) == cost.best_round + 4


def test_training_in_two_parts_is_training_in_one(matrices):
    train, validation = matrices
    whole = boost(AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=validation), 10)
    controller = AdaCSLController(COSTS)
    first = boost(AdaCSLCallback(controller, train=train, validation=validation), 6)
    restored = AdaCSLController(COSTS)
    restored.load_state_dict(json.loads(json.dumps(controller.state_dict())))
    second = boost(AdaCSLCallback(restored, train=train, validation=validation), 4, xgb_model=first)
    assert second.predict(validation) == pytest.approx(whole.predict(validation), abs=1e-5)


def test_costs_and_weights_of_each_validation_row(matrices):
    train, _ = matrices
    X, y = made_up(400, seed=1)
    rng = np.random.default_rng(4)
    weight, fn = rng.uniform(0.1, 3.0, 400).astype(np.float32), rng.uniform(1.0, 9.0, 400)
    costs = CostMatrix(fp=1, fn=fn)
    validation = xgb.DMatrix(X, y, weight=weight)
    cost = AdaCSLCallback(AdaCSLController(costs.averaged()), train=train, validation=validation, costs=costs)
    model = boost(cost, 5)
    # each row at its own threshold: the dearer a miss, the lower
    decided = model.predict(validation, output_margin=True) > np.log(fn.mean() / fn)
    each = np.where(y == 1, np.where(decided, 0.0, fn), np.where(decided, 1.0, 0.0))
    assert cost.history[-1].cost == pytest.approx(np.average(each, weights=weight), rel=1e-6)


def test_corrected_probabilities_decide_as_the_scores_do(matrices):
    train, validation = matrices
    cost = AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=validation)
    scores = boost(cost).predict(validation)
    assert np.array_equal(cost.controller.correct(scores) > COSTS.threshold, scores > 0.5)


def test_frozen_scores_and_the_toy_task(adapters):
    rng = np.random.default_rng(0)
    labels = (rng.random(103) < 0.3).astype(int)
    frozen = [np.clip(0.3 * labels + 0.5 * rng.random(103) + 0.05 * i, 0.0, 1.0) for i in range(5)]
    core = AdaCSLController(COSTS)
    expected = [core.step(scores, labels).lambda_ for scores in frozen]
    assert adapters.XGBoost.run(frozen, labels, AdaCSLController(COSTS)) == pytest.approx(expected, rel=1e-6)
    plain, adapted = adapters.XGBoost.toy(CostMatrix(fp=1, fn=20))
    assert adapted < plain


def test_what_goes_wrong_is_said(matrices):
    train, validation = matrices
    good = {"train": train, "validation": validation}
    once = AdaCSLCallback(AdaCSLController(COSTS), **good)
    boost(once, 2)
    with pytest.raises(RuntimeError, match="was used in a training already"):
        boost(once, 2)
    with pytest.raises(TypeError, match="controller must be an AdaCSLController"):
        AdaCSLCallback(8, **good)
    with pytest.raises(ValueError, match="every must be a whole number of at least 1, got 0"):
        AdaCSLCallback(AdaCSLController(COSTS), 0, **good)
    with pytest.raises(ValueError, match="patience must be a whole number of at least 1, got True"):
        AdaCSLCallback(AdaCSLController(COSTS), patience=True, **good)
    cost = AdaCSLCallback(AdaCSLController(COSTS), train=train)
    with pytest.raises(TypeError, match=r"AdaCSLCallback needs validation=DMatrix.*AdaCSLClassifier"):
        boost(cost)
    with pytest.raises(ValueError, match="objective must be one of 'binary:logistic'"):
        boost(AdaCSLCallback(AdaCSLController(COSTS), **good), params={"objective": "reg:squarederror", "nthread": 1})
    unlabelled = AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=xgb.DMatrix(made_up()[0]))
    with pytest.raises(ValueError, match="600 rows and 0 labels"):
        boost(unlabelled)
    with pytest.raises(RuntimeError, match="no round has been measured yet"):
        _ = AdaCSLCallback(AdaCSLController(COSTS), **good).best_round


def test_the_sklearn_wrapper_is_refused_with_advice():
    model = xgb.XGBClassifier(n_estimators=3, n_jobs=1, callbacks=[AdaCSLCallback(AdaCSLController(COSTS))])
    with pytest.raises(TypeError, match="XGBClassifier does not expose its matrices"):
        model.fit(*made_up(100))


@pytest.mark.parametrize(
    ("weight", "expected"), [(1.0, {}), (1e-12, {"base_score": 1 - 1e-6}), (1e12, {"base_score": 1e-6})]
)
def test_the_start_is_named_only_where_it_would_round_to_0_or_1(weight, expected):
    cost = AdaCSLCallback(AdaCSLController(CostMatrix(fp=weight, fn=1)))
    assert _far_start(cost.start(np.arange(10) % 2)) == pytest.approx(expected)
