"""Each booster for the tests that all integrations pass: frozen scores in, lambdas out; and a toy task.

``run`` trains for as many rounds as there are score arrays, with the real callback in the real loop; only the scores of
the validation samples are replaced. ``toy`` returns the test cost of the library's own default (unweighted, threshold
0.5) and of the adapted booster.
"""

from unittest import mock

import catboost
import lightgbm as lgb
import numpy as np
import xgboost as xgb

from adacsl import AdaCSLController
from adacsl.integrations import catboost as for_catboost
from adacsl.integrations import lightgbm as for_lightgbm
from adacsl.integrations import xgboost as for_xgboost

ROUNDS = 40


def logit(scores):
    scores = np.clip(np.asarray(scores, dtype=np.float64), 1e-300, 1 - 1e-16)
    return np.log(scores) - np.log1p(-scores)


def sigmoid(margins):
    return 1.0 / (1.0 + np.exp(-np.asarray(margins, dtype=np.float64)))


def training_samples(n=64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + rng.normal(size=n) > 0.5).astype(int)


def toy_data(n=3000, seed=1):
    """Rare positives that overlap with the negatives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n) > 2.2).astype(int)
    return np.split(X, 3), np.split(y, 3)


def lambdas(controller):
    return [step.lambda_ for step in controller.history]


class XGBoost:
    name = "xgboost"

    @staticmethod
    def run(frozen_scores, labels, controller):
        train, validation = xgb.DMatrix(*training_samples()), xgb.DMatrix(np.zeros((len(labels), 3)), labels)
        cost = for_xgboost.AdaCSLCallback(controller, train=train, validation=validation)
        with mock.patch.object(xgb.Booster, "predict", side_effect=[logit(scores) for scores in frozen_scores]):
            params = {"objective": "binary:logistic", "nthread": 1}
            xgb.train(params, train, len(frozen_scores), callbacks=[cost], verbose_eval=False)
        return lambdas(controller)

    @staticmethod
    def toy(costs):
        X, y = toy_data()
        train, validation, test = (xgb.DMatrix(*part) for part in zip(X, y, strict=True))
        params = {"objective": "binary:logistic", "nthread": 1, "seed": 0}
        plain = xgb.train(params, train, ROUNDS).predict(test)
        cost = for_xgboost.AdaCSLCallback(AdaCSLController(costs), train=train, validation=validation)
        adapted = xgb.train(params, train, ROUNDS, callbacks=[cost]).predict(test)
        return costs.mean(y[2], plain > 0.5), costs.mean(y[2], adapted > 0.5)


class LightGBM:
    name = "lightgbm"
    params = {"verbosity": -1, "num_threads": 1, "seed": 0, "min_data_in_leaf": 5}

    @classmethod
    def run(cls, frozen_scores, labels, controller):
        train = lgb.Dataset(*training_samples())
        validation = lgb.Dataset(np.zeros((len(labels), 3)), labels, reference=train)
        cost = for_lightgbm.AdaCSLCallback(controller)
        margins = iter([logit(scores) for scores in frozen_scores])

        def eval_valid(booster, feval=None):
            # LightGBM keeps margins without the start, which the objective adds
            return [] if feval is None else [feval(next(margins) - cost._start, validation)]

        with mock.patch.object(lgb.Booster, "eval_valid", eval_valid):
            params = cls.params | {"objective": cost.objective}
            lgb.train(params, train, len(frozen_scores), valid_sets=[validation], callbacks=[cost])
        return lambdas(controller)

    @classmethod
    def toy(cls, costs):
        X, y = toy_data()
        train = lgb.Dataset(X[0], y[0], free_raw_data=False)
        validation = lgb.Dataset(X[1], y[1], reference=train)
        plain = lgb.train(cls.params | {"objective": "binary"}, train, ROUNDS).predict(X[2])
        cost = for_lightgbm.AdaCSLCallback(AdaCSLController(costs))
        params = cls.params | {"objective": cost.objective}
        booster = lgb.train(params, train, ROUNDS, valid_sets=[validation], callbacks=[cost])
        return costs.mean(y[2], plain > 0.5), costs.mean(y[2], sigmoid(booster.predict(X[2])) > 0.5)


class FrozenCost(for_catboost.AdaCSLCallback):
    """Replaces the scores of the evaluation set, which is recognised by its length."""

    frozen = ()

    def evaluate(self, approxes, targets, weights):
        margins = self.frozen[min(len(self.history), len(self.frozen) - 1)]
        return super().evaluate([margins] if len(targets) == len(margins) else approxes, targets, weights)


class CatBoost:
    name = "catboost"
    params = {"verbose": False, "thread_count": 1, "random_seed": 0, "allow_writing_files": False}

    @classmethod
    def run(cls, frozen_scores, labels, controller):
        cost = FrozenCost(controller)
        cost.frozen = [logit(scores) for scores in frozen_scores]
        params = cls.params | {"loss_function": cost, "eval_metric": cost, "iterations": len(frozen_scores)}
        X, y = training_samples(n=len(labels) + 64)
        rng = np.random.default_rng(0)
        catboost.CatBoost(params).fit(
            catboost.Pool(X, y), eval_set=catboost.Pool(rng.normal(size=(len(labels), 3)), labels), callbacks=[cost]
        )
        return lambdas(controller)

    @classmethod
    def toy(cls, costs):
        X, y = toy_data()
        train, validation, test = (catboost.Pool(*part) for part in zip(X, y, strict=True))
        params = cls.params | {"iterations": ROUNDS, "learning_rate": 0.2}
        plain = catboost.CatBoost(params | {"loss_function": "Logloss"}).fit(train).predict(test)
        cost = for_catboost.AdaCSLCallback(AdaCSLController(costs))
        adapted = catboost.CatBoost(params | {"loss_function": cost, "eval_metric": cost})
        adapted.fit(train, eval_set=validation, callbacks=[cost], use_best_model=False)
        margins = adapted.predict(test, prediction_type="RawFormulaVal")
        return costs.mean(y[2], plain > 0), costs.mean(y[2], margins > 0)


ADAPTERS = (XGBoost, LightGBM, CatBoost)
