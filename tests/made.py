"""Classifiers whose settings are partly their learner's: tests give both in one mapping."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier
from adacsl.learners import BoostingLearner, SklearnLearner

BOOSTING = ("library", "n_estimators", "learning_rate", "patience", "every", "params")
FITTING = ("training", "max_iter", "patience", "every", "weight_name")


def boosting_classifier(costs: CostMatrix | None = None, **settings: Any) -> CostSensitiveClassifier:
    """Return a booster: adapted where a target or a controller is given, else plain."""
    own = {name: settings.pop(name) for name in BOOSTING if name in settings}
    learner = BoostingLearner(**({"library": "xgboost"} | own))
    if not {"target_threshold", "controller"} & set(settings):
        return CostSensitiveClassifier(costs, learner=learner, **settings)
    return AdaCSLClassifier(costs, learner=learner, **({"target_threshold": "bayes", "decide": "bayes"} | settings))


def adapted_estimator(estimator: Any, costs: CostMatrix | None = None, **settings: Any) -> AdaCSLClassifier:
    """Return an adapted scikit-learn estimator that gets X as it is."""
    own = {name: settings.pop(name) for name in FITTING if name in settings}
    learner = SklearnLearner(estimator, **own, encode=False)
    return AdaCSLClassifier(costs, learner=learner, **({"decide": "bayes"} | settings))


def logistic(costs: CostMatrix | None = None, **settings: Any) -> CostSensitiveClassifier:
    """Return a logistic regression that decides at the least cost."""
    return CostSensitiveClassifier(costs, learner=LogisticRegression(), **({"random_state": 0} | settings))
