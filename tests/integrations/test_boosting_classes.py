"""Boosters with costs of K classes: derivatives, the native booster where nothing moves, histories, errors."""

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import torch
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from adacsl import AdaCSLController, CostMatrix
from adacsl.base.scores import to_probabilities
from adacsl.integrations import catboost as for_catboost
from adacsl.integrations import lightgbm as for_lightgbm
from adacsl.integrations import xgboost as for_xgboost
from adacsl.integrations.boosting import Feedback, Matrix

LIBRARIES = {"xgboost": for_xgboost, "lightgbm": for_lightgbm, "catboost": for_catboost}
ONE_THREAD = {"xgboost": {"nthread": 1}, "lightgbm": {"num_threads": 1}, "catboost": {"thread_count": 1}}


def matrix(k=3, dear=20.0):
    """Errors cost 1 to k - 1 by their distance; to miss the last class is dear."""
    costs = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(float)
    costs[:, -1] *= dear
    return CostMatrix.from_array(costs, rows="predicted")


COSTS = matrix()


def made_up(n=400, seed=0, k=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n), np.linspace(-0.6, 1.2, k - 1))


def rows(n=400, seed=0, k=3, without=(), weight=None):
    X, y = made_up(n, seed, k)
    kept = ~np.isin(y, without)
    return Matrix(X[kept], y[kept], weight, (), k)


def still(costs=COSTS, target_threshold="bayes"):
    return AdaCSLController(costs, target_threshold=target_threshold, bounds=(1.0, 1.0))


def boost(library, controller, train=None, validation=None, rounds=8, **settings):
    k = controller.n_classes
    options = {"rounds": rounds, "learning_rate": 0.2, "seed": 0, "params": ONE_THREAD[library]}
    train, validation = train or rows(k=k), validation or rows(300, 1, k)
    return LIBRARIES[library].boost(train, validation, controller, **options, **settings)


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


# derivatives


def tilted(k, lambdas, target_threshold="half"):
    """A controller that has moved so far."""
    controller = AdaCSLController(matrix(k), target_threshold=target_threshold)
    moved = np.asarray(lambdas) / np.exp(np.mean(np.log(lambdas)))
    controller.load_state_dict(controller.state_dict() | {"lambda": moved.tolist()})
    return controller


@given(
    margins=hnp.arrays(np.float64, (6, 4), elements=st.floats(-8, 8)),
    labels=hnp.arrays(np.int64, 6, elements=st.integers(0, 3)),
    lambdas=hnp.arrays(np.float64, 4, elements=st.floats(0.1, 10)),
    sample_weight=hnp.arrays(np.float64, 6, elements=st.floats(0.1, 3)),
)
def test_gradient_and_hessian_are_those_of_the_weighted_cross_entropy(margins, labels, lambdas, sample_weight):
    cost = for_catboost.AdaCSLCallback(tilted(4, lambdas))
    weight = torch.from_numpy(cost.row_weights(labels, sample_weight))

    def loss(z):
        return (weight * torch.nn.functional.cross_entropy(z, torch.from_numpy(labels), reduction="none")).sum()

    z = torch.from_numpy(margins).requires_grad_()
    expected = torch.autograd.grad(loss(z), z)[0].numpy()
    whole = torch.autograd.functional.hessian(loss, z).numpy()
    gradient, hessian = cost.derivatives(margins, labels, sample_weight)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)
    diagonal = np.stack([np.diag(whole[i, :, i]) for i in range(6)])
    np.testing.assert_allclose(hessian, diagonal, rtol=1e-7, atol=1e-12)
    # CatBoost climbs, row by row, and wants the whole hessian
    scale = cost.class_weights(labels, sample_weight)[0] / cost.controller.weights[0]
    for i in range(6):
        up, bent = cost.calc_ders_multi(margins[i].tolist(), float(labels[i]), sample_weight[i])
        np.testing.assert_allclose(np.asarray(up) * scale, -expected[i], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(np.asarray(bent) * scale, -whole[i, :, i], rtol=1e-7, atol=1e-12)


@given(
    labels=hnp.arrays(np.int64, 30, elements=st.integers(0, 3)),
    lambdas=hnp.arrays(np.float64, 4, elements=st.floats(0.01, 100)),
)
def test_row_weights_have_a_mean_of_one_and_the_ratios_of_the_classes(labels, lambdas):
    cost = Feedback(tilted(4, lambdas))
    weight = cost.row_weights(labels)
    assert weight.mean() == pytest.approx(1.0)
    expected = cost.controller.weights[labels]
    np.testing.assert_allclose(weight / weight[0], expected / expected[0])
    # where boosting starts no single class can be moved to make the loss smaller: the gradient is 0
    start = np.tile(cost.start(labels), (30, 1))
    np.testing.assert_allclose(cost.derivatives(start, labels)[0].sum(0), 0.0, atol=1e-9)


# nothing moves


@pytest.mark.parametrize("k", [3, 10])
def test_without_weights_it_is_the_native_booster(library, k):
    seen = []
    options = {"rounds": 8, "learning_rate": 0.2, "seed": 0, "params": ONE_THREAD[library], "patience": None}
    train, validation = rows(k=k), rows(300, 1, k)
    native = LIBRARIES[library].boost_plainly(train, validation, seen.append, **options)
    model, cost = boost(library, still(matrix(k)), train, validation)
    expected = to_probabilities(LIBRARIES[library].margins(native, validation))
    assert to_probabilities(LIBRARIES[library].margins(model, validation)) == pytest.approx(expected, abs=1e-6)
    assert to_probabilities(cost.margins[-1]) == pytest.approx(expected, abs=1e-6)
    assert to_probabilities(seen[-1]) == pytest.approx(expected, abs=1e-6)


def test_catboosts_objective_in_python_grows_the_native_trees():
    params = {"verbose": False, "thread_count": 1, "random_seed": 0, "allow_writing_files": False, "iterations": 8}
    params |= {"learning_rate": 0.2}
    cost = for_catboost.AdaCSLCallback(still())
    many = {"classes_count": 3, "bootstrap_type": "Bayesian"}
    ours = catboost.CatBoost(params | {"loss_function": cost, "eval_metric": cost} | many)
    train, validation = catboost.Pool(*made_up()), catboost.Pool(*made_up(300, 1))
    ours.fit(train, eval_set=validation, callbacks=[cost], use_best_model=False)
    native = catboost.CatBoost(params | {"loss_function": "MultiClass"}).fit(train)
    first, second = (model.predict(validation, prediction_type="RawFormulaVal") for model in (ours, native))
    assert first == pytest.approx(second, abs=1e-9)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_with_fixed_weights_it_is_native_boosting_of_weighted_rows(name):
    train, validation = rows(), rows(300, 1)
    weight = COSTS.class_weights()[train.y]
    model, _ = boost(name, still(target_threshold="half"), train, validation)
    options = {"rounds": 8, "learning_rate": 0.2, "seed": 0, "params": ONE_THREAD[name], "patience": None}
    weighted = Matrix(train.x, train.y, weight / weight.mean(), (), 3)
    native = LIBRARIES[name].boost_plainly(weighted, validation, lambda _: None, **options)
    expected = LIBRARIES[name].margins(native, validation)
    assert LIBRARIES[name].margins(model, validation) == pytest.approx(expected, abs=1e-5)


# steered


@pytest.mark.parametrize("target_threshold", ["bayes", "middle"])
def test_the_history_is_the_controllers(library, target_threshold):
    controller, alone = (AdaCSLController(COSTS, target_threshold=target_threshold, damping=0.2) for _ in range(2))
    validation = rows(300, 1)
    model, cost = boost(library, controller, validation=validation, every=2)
    for number, (step, margins) in enumerate(zip(cost.history, cost.margins, strict=True)):
        result = alone.step(to_probabilities(margins), validation.y, adapt=number % 2 == 1)
        for name in ("lambdas", "weights", "cost"):
            assert getattr(step, name) == pytest.approx(getattr(result, name), rel=1e-12)
        unmeasured = (np.nan,) * 3  # nothing moves after this round
        expected = result.multipliers if number % 2 else unmeasured
        assert step.multipliers == pytest.approx(expected, rel=1e-12, nan_ok=True)
        kept = LIBRARIES[library].from_bytes(LIBRARIES[library].to_bytes(model, number + 1))
        assert LIBRARIES[library].margins(kept, validation) == pytest.approx(margins, abs=1e-5)
    assert len(controller.history) == 4
    assert np.ptp(controller.lambdas) > 0.0
    decided = COSTS.decide(controller.correct(to_probabilities(cost.margins[-1])))
    assert cost.history[-1].cost == pytest.approx(COSTS.mean(validation.y, decided))


def test_patience(library):
    _, cost = boost(library, AdaCSLController(COSTS, damping=0.1), rounds=200, patience=3)
    assert len(cost.history) == cost.best_round + 4 < 200


def test_the_very_next_round_trains_with_the_new_weights(library):
    """Where the lambdas of a class are far up, it gains."""
    up = tilted(3, [1.0, 1.0, 50.0], "bayes")
    before, after = (
        to_probabilities(boost(library, made, rounds=3, every=100)[1].margins[-1])[:, 2].mean()
        for made in (AdaCSLController(COSTS), up)
    )
    assert after > before + 0.1


def test_sample_weights_and_costs_of_each_validation_row(library):
    rng = np.random.default_rng(0)
    validation = rows(300, 1, weight=rng.uniform(0.1, 3.0, 300))
    prices = rng.uniform(1.0, 9.0, (300, 1, 1)) * np.asarray(1.0 - np.eye(3))
    costs = CostMatrix.from_array(prices, rows="predicted")
    _, cost = boost(library, AdaCSLController(costs.averaged(), damping=0.1), validation=validation, costs=costs)
    decided = costs.decide(to_probabilities(cost.margins[-1]))
    expected = costs.mean(validation.y, decided, sample_weight=validation.weight)
    assert cost.history[-1].cost == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("absent", [0, 1, 2])
@pytest.mark.parametrize("target_threshold", ["bayes", "half"])
def test_a_class_that_no_training_row_has(library, absent, target_threshold):
    """It is unlikely, the others are told apart, and what is saved says the same."""
    validation = rows(300, 1)
    for controller in (
        still(target_threshold=target_threshold),
        AdaCSLController(COSTS, target_threshold=target_threshold, damping=0.1),
    ):
        model, cost = boost(library, controller, rows(without=(absent,)), validation, rounds=30)
        margins = LIBRARIES[library].margins(model, validation)
        assert np.isfinite(margins).all()
        assert margins == pytest.approx(cost.margins[-1], abs=1e-5)
        again = LIBRARIES[library].from_bytes(LIBRARIES[library].to_bytes(model, 30))
        assert np.array_equal(LIBRARIES[library].margins(again, validation), margins)
        assert to_probabilities(margins)[:, absent].mean() < 1e-4
        known = validation.y != absent
        if target_threshold == "bayes" and controller.bounds == (1.0, 1.0):
            assert (margins[known].argmax(1) == validation.y[known]).mean() > 0.7


def test_a_class_that_no_validation_row_has(library):
    model, cost = boost(library, AdaCSLController(COSTS, damping=0.1), validation=rows(300, 1, without=(2,)))
    assert np.isfinite(LIBRARIES[library].margins(model, rows())).all()
    assert all(np.isfinite(step.lambdas).all() for step in cost.history)


def test_a_dear_class_is_predicted_though_it_is_never_the_likeliest(library):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = np.where(rng.random(900) < 0.04, 2, (X[:, 0] > 0).astype(int))
    train, validation = (Matrix(X[part], y[part], None, (), 3) for part in (slice(500), slice(500, None)))
    costs = matrix(dear=80.0)
    params = {"xgboost": {"max_depth": 1}, "lightgbm": {"num_leaves": 2}, "catboost": {"depth": 1}}[library]
    options = {"rounds": 10, "learning_rate": 0.1, "seed": 0, "params": ONE_THREAD[library] | params}
    _, cost = LIBRARIES[library].boost(train, validation, AdaCSLController(costs, damping=0.1), **options)
    scores = to_probabilities(cost.margins[0])
    assert (scores.argmax(1) != 2).all()
    assert (np.asarray(costs.decide(scores)) == 2).mean() > 0.5


# the users' own loops


def test_xgboosts_callback_logs_and_gives_the_weights_back():
    own = np.random.default_rng(0).uniform(0.5, 2.0, 400)
    train, validation = xgb.DMatrix(*made_up(), weight=own), xgb.DMatrix(*made_up(300, 1))
    cost = for_xgboost.AdaCSLCallback(AdaCSLController(COSTS, damping=0.2), train=train, validation=validation)
    params, log = {"objective": "multi:softprob", "num_class": 3, "nthread": 1}, {}
    xgb.train(params, train, 5, callbacks=[cost], evals=[(validation, "v")], evals_result=log, verbose_eval=False)
    assert log["validation"]["cost"] == [step.cost for step in cost.history]
    assert train.get_weight() == pytest.approx(own)


def test_lightgbms_objective_metric_and_early_stopping():
    cost = for_lightgbm.AdaCSLCallback(AdaCSLController(COSTS, damping=0.2))
    train = lgb.Dataset(*made_up(), free_raw_data=False)
    validation = lgb.Dataset(*made_up(300, 1), reference=train)
    params = {"verbosity": -1, "num_threads": 1, "objective": cost.objective, "num_class": 3}
    log = {}
    model = lgb.train(
        params, train, 200, valid_sets=[validation], feval=cost.metric,
        callbacks=[cost, lgb.record_evaluation(log), lgb.early_stopping(3, verbose=False)],
    )  # fmt: skip
    assert log["valid_0"]["cost"] == pytest.approx([step.cost for step in cost.history])
    assert model.best_iteration == cost.best_round + 1
    X, _ = made_up(300, 1)
    assert model.predict(X) == pytest.approx(cost.margins[cost.best_round], abs=1e-9)


def test_lightgbms_sklearn_wrapper():
    cost = for_lightgbm.AdaCSLCallback(AdaCSLController(COSTS, damping=0.2))
    model = lgb.LGBMClassifier(objective=cost.sklearn_objective, n_estimators=5, verbosity=-1, n_jobs=1)
    X, y = made_up(300, 1)
    model.fit(*made_up(), eval_X=X, eval_y=y, callbacks=[cost])
    assert cost.margins[-1] == pytest.approx(model.predict(X, raw_score=True), abs=1e-9)


@pytest.mark.parametrize("every", [1, 3])
def test_catboosts_metric_is_the_cost(every):
    cost = for_catboost.AdaCSLCallback(AdaCSLController(COSTS, damping=0.2), every)
    params = {"verbose": False, "thread_count": 1, "allow_writing_files": False, "iterations": 6}
    model = catboost.CatBoost(params | {"loss_function": cost, "eval_metric": cost, "classes_count": 3})
    validation = catboost.Pool(*made_up(300, 1))
    model.fit(catboost.Pool(*made_up()), eval_set=validation, callbacks=[cost], use_best_model=False)
    (logged,) = model.evals_result_["validation"].values()
    assert logged == pytest.approx([step.cost for step in cost.history])
    assert model.predict(validation, prediction_type="RawFormulaVal") == pytest.approx(cost.margins[-1], abs=1e-9)


def test_what_goes_wrong_is_said():
    train, validation = xgb.DMatrix(*made_up()), xgb.DMatrix(*made_up(300, 1))
    cost = for_xgboost.AdaCSLCallback(AdaCSLController(COSTS), train=train, validation=validation)
    with pytest.raises(ValueError, match="of 3 classes the objective must be one of 'multi:softprob'"):
        xgb.train({"objective": "binary:logistic"}, xgb.DMatrix(*made_up(k=2)), 2, callbacks=[cost])
    X, y = made_up()
    labels = xgb.DMatrix(X, y + 1)
    cost = for_xgboost.AdaCSLCallback(AdaCSLController(COSTS), train=labels, validation=validation)
    with pytest.raises(ValueError, match="labels must be the whole numbers 0 to 2, in the order of the matrix"):
        xgb.train({"objective": "multi:softprob", "num_class": 4}, labels, 2, callbacks=[cost])
    cost = for_catboost.AdaCSLCallback(AdaCSLController(COSTS))
    few = catboost.CatBoost({"loss_function": cost, "eval_metric": cost, "classes_count": 3, "iterations": 2,
                             "allow_writing_files": False, "verbose": False})  # fmt: skip
    with pytest.raises(catboost.CatBoostError, match="at least one training row of every class"):
        few.fit(X[y < 2], y[y < 2], eval_set=(X, y), callbacks=[cost])
