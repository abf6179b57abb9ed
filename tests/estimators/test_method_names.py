"""The table of methods: names build estimators; combinations that make no sense are refused."""

import importlib.util

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from adacsl import METHODS, AdaCSLController, CostMatrix, CostSensitiveClassifier, Task, method
from adacsl.adaptive import UniformBins
from adacsl.comparison.jobs import count_networks, plan_jobs
from adacsl.comparison.protocol import Protocol
from adacsl.datasets.encoder import TableEncoder
from adacsl.estimators.registry import choose_methods, title_of
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.boosting_libraries import LIBRARIES, installed_library
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=8)
NAMED = [
    *("always-negative", "always-positive", "logistic", "logistic-weighted"),
    *("net-bayes", "net", "net-tuned", "net-tuned-last", "net-calibrated", "net-calibrated-last"),
    *("oversample", "undersample", "net-smote", "net-weighted", "net-weighted-instance", "net-weighted-tuned"),
    *(
        "net-weighted-calibrated-last",
        "net-focal",
        "logit-adjusted",
        "gbm-bayes",
        "gbm-tuned",
        "gbm-weighted",
        "gbm-instance",
    ),
    *("xgboost", "lightgbm", "catboost", "metacost", "adacsl", "adacsl-instance", "adacsl-bins"),
    *("net-bayes-cv", "net-calibrated-cv", "net-weighted-cv", "gbm-bayes-cv", "adacsl-cv", "ensemble"),
]
USUAL = ["logistic", "net-bayes", "net-weighted", "gbm-bayes", "adacsl", "adacsl-cv", "ensemble"]
CONSTANT = ["always-negative", "always-positive"]


def made_rows(n=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.6, "ill", "well")


def test_all_methods_are_there_simplest_first():
    assert list(METHODS) == NAMED
    assert all(title_of(name) == METHODS[name][0] != name for name in NAMED)
    assert title_of("mine") == "mine"
    assert method("net-weighted-tuned", decide="bayes").decide == "bayes"
    assert METHODS["net-weighted-tuned"][1]["decide"] == "tuned"


def test_the_adaptive_ones_differ_only_in_subgroups_and_folds():
    plain, bins, folds = (method(name).get_params(deep=False) for name in ("adacsl", "adacsl-bins", "adacsl-cv"))
    assert plain["controller"] == {}  # as "auto", also where that would rather not adapt
    assert {name for name in plain if repr(plain[name]) != repr(bins[name])} == {"controller"}
    assert bins["controller"] == {"partition": UniformBins(10)}
    assert {name for name in plain if repr(plain[name]) != repr(folds[name])} == {"cv"}
    assert folds["cv"] == 5


def test_methods_are_named_in_several_ways():
    mine = CostSensitiveClassifier(learner=LogisticRegression(), decide="tuned")
    chosen = choose_methods(["net", ("forest", mine)])
    assert list(chosen) == ["net", "forest"]
    assert chosen["forest"] is mine
    assert choose_methods({"forest": mine}) == {"forest": mine}
    assert list(choose_methods("net-weighted")) == ["net-weighted"]
    assert list(choose_methods(["default", "net", ("mine", mine)])) == [*CONSTANT, *USUAL, "net", "mine"]
    assert sorted(choose_methods(["net-bayes", "default"])) == sorted(CONSTANT + USUAL)
    with pytest.raises(ValueError, match="'net' is named twice"):
        choose_methods(["default", "net", "net"])


def test_few_that_differ_are_the_default():
    assert list(choose_methods()) == list(choose_methods("default")) == CONSTANT + USUAL
    assert list(choose_methods(n_classes=3)) == USUAL
    instance = choose_methods(row_costs=True)
    assert [name for name in instance if name not in CONSTANT + USUAL] == ["gbm-instance", "adacsl-instance"]
    images = ["net-bayes", "net-calibrated", "net-weighted", "adacsl", "adacsl-cv", "ensemble"]
    assert list(choose_methods(images=True)) == CONSTANT + images


def test_all_are_those_that_fit_the_data():
    instance = {"net-weighted-instance", "gbm-instance", "adacsl-instance"}  # duplicates without per-sample costs
    twice = {installed_library()} - {None}
    absent = {name for name in LIBRARIES if importlib.util.find_spec(name) is None}
    assert set(choose_methods("all", row_costs=True)) == set(NAMED) - twice - absent
    assert set(choose_methods("all")) == set(NAMED) - instance - twice - absent
    images = set(choose_methods("all", images=True))
    assert {"net-calibrated-cv", "net-weighted-calibrated-last", "adacsl-cv", "always-positive", "net-smote"} <= images
    assert not {"logistic", "gbm-bayes", "gbm-bayes-cv", *LIBRARIES, "metacost"} & images


def test_a_library_that_is_missing_is_named_with_its_command(monkeypatch):
    result = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "catboost" else result(name))
    assert "catboost" not in choose_methods("all")
    with pytest.raises(ImportError, match=r"method 'catboost' needs 'catboost': run  pip install 'adacsl\[catboost\]'"):
        choose_methods(["net", "catboost"])
    with pytest.raises(ImportError, match="method 'mine' needs 'catboost'"):
        choose_methods([("mine", BoostingLearner("catboost"))])


def test_a_custom_classifier_decides_at_the_bayes_threshold():
    X, y = made_rows()
    mine = QuadraticDiscriminantAnalysis()
    (made,) = choose_methods([("mine", mine)]).values()
    assert (made.decide, made.loss, made.learner.estimator) == ("bayes", "plain", mine)
    made.set_params(costs=COSTS, pos_label="ill", random_state=0).fit(X, y)
    x = TableEncoder().fit(X).transform(X).astype(np.float64)
    np.testing.assert_allclose(made.predict_proba(X), mine.fit(x, y).predict_proba(x), atol=1e-6)
    assert np.array_equal(made.predict(X) == "ill", made.predict_proba(X)[:, 0] > 1 / 9)


def test_a_pipeline_gets_the_table_as_it_is_unless_asked_otherwise():
    X, y = made_rows()
    frame = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 0] > 0, "up", "down"))
    picks = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    (made,) = choose_methods([("mine", make_pipeline(picks, LogisticRegression()))]).values()
    assert not made.learner.encodes
    assert set(made.set_params(costs=COSTS, pos_label="ill").fit(frame, y).predict(frame)) <= {"ill", "well"}
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    usual = {"pos_label": "ill", "random_state": 0}
    with pytest.raises(ValueError, match=r"pipelines get the table as it is; encode its text with a ColumnTransformer"):
        CostSensitiveClassifier(COSTS, learner=pipeline, **usual).fit(frame, y)
    made = CostSensitiveClassifier(COSTS, learner=SklearnLearner(pipeline, encode=True), **usual).fit(frame, y)
    assert set(made.predict(frame)) <= {"ill", "well"}
    with pytest.raises(ValueError, match="encode must be 'auto', True or False, got 'no'"):
        CostSensitiveClassifier(COSTS, learner=SklearnLearner(pipeline, encode="no"), **usual).fit(frame, y)


def test_constants_take_images():
    X = np.zeros((20, 8, 8, 3), dtype=np.uint8)
    made = method("always-positive", COSTS).fit(X, np.arange(20) % 2)
    assert made.predict(X).tolist() == [1] * 20
    assert made.estimated_cost_.estimate == 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "loss one of plain, weighted, instance-weighted, focal, logit-adjusted or a function"),
        ({"decide": "maybe"}, "decide must be one of 'bayes', 'tuned'"),
        ({"resample": "twice"}, "resample is one of None, oversample, undersample, smote"),
        ({"learner": "svm"}, "learner must be one of 'net', 'boosting'"),
        ({"controller": "auto"}, "needs loss='weighted'"),
        ({"controller": "auto", "loss": "weighted", "resample": "oversample"}, "and no resample"),
        ({"controller": {"pace": 1}, "loss": "weighted"}, "a controller has no setting 'pace'; it has partition"),
        ({"resample": "smote", "loss": "weighted"}, "goes with loss='plain'"),
        ({"learner": "boosting", "resample": "smote"}, "are for neural networks"),
        ({"learner": "boosting", "loss": "focal"}, "are for neural networks"),
        ({"learner": "constant", "decide": "negative", "loss": "focal"}, "are for neural networks"),
        ({"decide": "positive"}, "go with learner='constant'"),
        ({"learner": "constant"}, "go with learner='constant'"),
        ({"resample": "smote", "cv": 5}, "SMOTE mixes training rows, some of which a cross-fit holds out"),
        ({"target_threshold": 1.0, "loss": "weighted"}, "must be a number between 0 and 1 or one of 'bayes', 'middle'"),
        ({"target_threshold": "most", "loss": "weighted"}, "target_threshold must be a number or one of 'bayes'"),
        ({"target_threshold": "bayes"}, "target_threshold is for losses with a weight"),
        ({"decide": "unweighted"}, "undoes the weight of loss='weighted'"),
        ({"controller": {"n_standard_errors": -1.0}, "loss": "weighted"}, "n_standard_errors must be a finite number"),
        ({"controller": {"update": "log"}, "loss": "weighted"}, "update must be"),
        ({"controller": {"damping": 0.0}, "loss": "weighted"}, "damping must be"),
        ({"select": "first"}, "select must be one of 'best', 'last'"),
        ({"validation": None}, "validation must be a fraction"),
        ({"learner": NeuralLearner(every=0)}, "every must be None or a number of batches from 1"),
        ({"cv": 1}, "at least 2 folds"),
        ({"cv": 0}, "at least 2 folds"),
        ({"controller": 3, "loss": "weighted"}, "controller must be None, 'auto', a dict of settings or an AdaCSL"),
        ({"learner": object()}, "has no predict_proba, which costs need"),
        ({"costs": "many"}, "costs must be a CostMatrix such as CostMatrix"),
        ({"epochs": 1}, "unexpected keyword argument 'epochs'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    X, y = made_rows()
    with pytest.raises((ValueError, TypeError), match=message):
        CostSensitiveClassifier(**({"costs": COSTS, "pos_label": "ill"} | settings)).fit(X, y)


def test_a_decision_function_is_enough_to_learn():
    X, y = made_rows()
    made = CostSensitiveClassifier(COSTS, learner=LinearSVC(), decide="tuned", pos_label="ill", random_state=0)
    assert set(made.fit(X, y).predict(X)) <= {"ill", "well"}


def test_a_given_controller_is_copied():
    given = AdaCSLController(CostMatrix(fp=1, fn=1), n_standard_errors=2.0)
    X, y = made_rows()
    made = CostSensitiveClassifier(
        COSTS, loss="weighted", controller=given, learner=NeuralLearner(epochs=2), pos_label="ill", random_state=0
    )
    made.fit(X, y)
    assert (given.lambda_, len(given.history)) == (1.0, 0)
    assert made.history_["weight"].iloc[0] == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("methods", "images", "message"),
    [
        (["net-smoke"], False, r"no method 'net-smoke'; did you mean 'net-smote'\? \(known: always-negative"),
        (["net", "net"], False, "named twice"),
        (["gbm-bayes"], True, "is for tables, but the data are images"),
        ([], False, "no methods"),
    ],
)
def test_unknown_methods_are_named(methods, images, message):
    with pytest.raises(ValueError, match=message):
        choose_methods(methods, images=images)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "a method is a name, or a pair of a name and a classifier; got 3"),
        (("mine",), "a method is a name, or a pair"),
        ((CostSensitiveClassifier(), "mine"), "a method is a name, or a pair"),
        (("mine", LogisticRegression), r"method 'mine' is a class: give an instance, LogisticRegression\(...\)"),
        (("mine", KMeans()), "method 'mine': learner KMeans.* has no predict_proba, which costs need"),
    ],
)
def test_a_method_is_a_name_or_a_pair(given, message):
    with pytest.raises(TypeError, match=message):
        choose_methods([given])


def test_methods_that_differ_in_the_decision_or_the_epoch_share_their_networks():
    task = Task.from_data(*made_rows(), COSTS, pos_label="ill")
    once = {"net-bayes": 1, "net-weighted": 1, "net-bayes-cv": 5, "net-weighted-cv": 5}
    alike = ["net", "net-tuned-last", "net-calibrated-last", "net-weighted-calibrated-last", "net-calibrated-cv"]

    def count(names):
        jobs = plan_jobs([task], {task.name: choose_methods(names)}, {task.name: [8.0]}, [0], Protocol(device="cpu"))
        return sum(count_networks(job) for job in jobs)

    assert count(list(once)) == count([*once, *alike]) == sum(once.values())
