"""What is the same in every framework: the arguments of AdaCSLCallback, invalid labels, and decisions."""

import catboost
import keras
import lightgbm as lgb
import numpy as np
import pytest
import torch
import xgboost as xgb
from torch import nn

from adacsl import AdaCSLController, CostMatrix
from adacsl.integrations import catboost as in_catboost
from adacsl.integrations import keras as in_keras
from adacsl.integrations import lightgbm as in_lightgbm
from adacsl.integrations import lightning as in_lightning
from adacsl.integrations import skorch as in_skorch
from adacsl.integrations import transformers as in_transformers
from adacsl.integrations import xgboost as in_xgboost
from adacsl.integrations.boosting import Feedback

COSTS = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
FRAMEWORKS = [in_lightning, in_skorch, in_transformers, in_keras, in_xgboost, in_lightgbm, in_catboost]

# Keras itself, with new versions of numpy
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")


def rows(n=300, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + 0.5 * rng.normal(size=n)
    return X, np.digitize(score, [0.8] if k == 2 else [-0.5, 0.8])


# what it is given


def made(framework, *given, **settings):
    settings |= {"validation_data": rows()} if framework is in_keras else {}
    cost = framework.AdaCSLCallback(*given, **settings)
    return cost.initialize() if framework is in_skorch else cost


def controller_of(cost):
    return cost.controller_ if hasattr(cost, "controller_") else cost.controller


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda module: module.__name__.split(".")[-1])
def test_a_controller_or_costs(framework):
    assert controller_of(made(framework, COSTS)).weight == AdaCSLController(COSTS).weight
    assert controller_of(made(framework, AdaCSLController(COSTS, target_threshold=0.3))).target_threshold == 0.3
    with pytest.raises(TypeError, match=r"controller must be an AdaCSLController or a CostMatrix, .*, got 8"):
        made(framework, 8)
    with pytest.raises(ValueError, match="class-wide costs"):
        made(framework, CostMatrix(fp=1, fn=[1.0, 2.0]))


# labels


def fit_xgboost(X, y, costs):
    k = costs.n_classes
    train, objective = xgb.DMatrix(X, y), {"objective": "binary:logistic"}
    objective = objective if k == 2 else {"objective": "multi:softprob", "num_class": k}
    cost = in_xgboost.AdaCSLCallback(AdaCSLController(costs), train=train, validation=xgb.DMatrix(*rows(k=k, seed=1)))
    return cost, xgb.train(objective | {"nthread": 1}, train, 8, callbacks=[cost], verbose_eval=False)


def fit_lightgbm(X, y, costs):
    k = costs.n_classes
    cost = in_lightgbm.AdaCSLCallback(AdaCSLController(costs))
    params = {"objective": cost.objective, "num_threads": 1, "verbosity": -1} | ({} if k == 2 else {"num_class": k})
    train, validation = lgb.Dataset(X, y), lgb.Dataset(*rows(k=k, seed=1))
    return cost, lgb.train(params, train, 8, valid_sets=[validation], callbacks=[cost])


def fit_catboost(X, y, costs):
    k = costs.n_classes
    cost = in_catboost.AdaCSLCallback(AdaCSLController(costs))
    params = {"loss_function": cost, "eval_metric": cost, "iterations": 8, "verbose": False, "thread_count": 1}
    params |= {} if k == 2 else {"classes_count": k, "bootstrap_type": "Bayesian"}
    model = catboost.CatBoost(params | {"allow_writing_files": False})
    train, validation = catboost.Pool(X, y), catboost.Pool(*rows(k=k, seed=1))
    return cost, model.fit(train, eval_set=validation, callbacks=[cost])


def fit_keras(X, y, costs):
    keras.utils.set_random_seed(0)
    k = costs.n_classes
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1 if k == 2 else k)])
    model.compile("adam", loss=in_keras.AdaptiveCrossEntropy(costs))
    cost = in_keras.AdaCSLCallback(validation_data=rows(k=k, seed=1))
    model.fit(X, y, epochs=2, verbose=0, callbacks=[cost])
    return cost, model


BOOSTERS = {"xgboost": fit_xgboost, "lightgbm": fit_lightgbm, "catboost": fit_catboost}


@pytest.mark.parametrize("invalid", [-100, -1, 2, 0.5])
@pytest.mark.parametrize("library", ["lightgbm", "catboost"])
def test_boosters_refuse_labels_other_than_0_and_1(library, invalid):
    X, y = rows()
    y = np.where(np.arange(len(y)) == 7, invalid, y)
    with pytest.raises(Exception, match=r"labels must be the whole numbers 0 to 1") as caught:
        BOOSTERS[library](X, y, COSTS)
    assert isinstance(caught.value, ValueError | catboost.CatBoostError)


@pytest.mark.parametrize("invalid", [-100, -1, 2])
def test_xgboost_refuses_them_itself(invalid):
    X, y = rows()
    with pytest.raises((ValueError, xgb.core.XGBoostError), match="label"):
        fit_xgboost(X, np.where(np.arange(len(y)) == 7, invalid, y), COSTS)


@pytest.mark.parametrize("invalid", [-100, -1, 3])
@pytest.mark.parametrize("costs", [COSTS, THREE], ids=["two", "three"])
def test_keras_refuses_labels(costs, invalid):
    X, y = rows(k=costs.n_classes)
    y = np.where(np.arange(len(y)) == 7, invalid, y)
    with pytest.raises(ValueError, match=r"labels must (lie in \[0, 1\]|be class numbers from 0 to 2)"):
        fit_keras(X, y, costs)


# decisions


@pytest.mark.parametrize("costs", [COSTS, THREE], ids=["two", "three"])
@pytest.mark.parametrize("library", BOOSTERS)
def test_boosters_decide_by_their_margins(library, costs):
    X, y = rows(k=costs.n_classes, seed=1)
    cost, model = BOOSTERS[library](*rows(k=costs.n_classes), costs)
    margins = {
        "xgboost": lambda: model.predict(xgb.DMatrix(X), output_margin=True),
        "lightgbm": lambda: model.predict(X),
        "catboost": lambda: model.predict(X, prediction_type="RawFormulaVal"),
    }[library]()
    last = model.tree_count_ - 1 if library == "catboost" else -1  # CatBoost keeps the rounds up to the best one
    assert costs.mean(y, cost.decide(margins)) == pytest.approx(cost.history[last].cost)


@pytest.mark.parametrize("costs", [COSTS, THREE], ids=["two", "three"])
def test_keras_decides_by_its_predictions(costs):
    X, y = rows(k=costs.n_classes, seed=1)
    cost, model = fit_keras(*rows(k=costs.n_classes), costs)
    decided = model.loss.decide(model.predict(X, verbose=0))
    assert costs.mean(y, decided) == pytest.approx(cost.controller.history[-1].cost)


@pytest.mark.parametrize("costs", [COSTS, THREE], ids=["two", "three"])
def test_the_trainer_decides_by_its_predictions(costs):
    k, cost = costs.n_classes, in_transformers.AdaCSLCallback(AdaCSLController(costs))
    logits, y = np.random.default_rng(0).normal(size=(50, k)).astype(np.float32), np.arange(50) % k
    expected = cost.controller.step(nn.functional.softmax(torch.from_numpy(logits), 1)[:, 1 if k == 2 else slice(k)], y)
    decided = cost.decide(logits)
    assert isinstance(decided, np.ndarray)
    assert costs.mean(y, decided) == pytest.approx(expected.cost)
    assert (cost.decide((logits, None)) == decided).all()  # models with several outputs


def test_margins_of_samples_with_costs_of_their_own():
    own = CostMatrix(fp=1.0, fn=np.linspace(1, 30, 40))
    cost = Feedback(AdaCSLController(COSTS), costs=own)
    margins, y = np.random.default_rng(0).normal(size=40), np.arange(40) % 2
    assert own.mean(y, cost.decide(margins, own)) == pytest.approx(cost.look(margins, y).cost)
