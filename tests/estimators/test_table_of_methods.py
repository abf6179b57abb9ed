"""The table of methods: names build estimators; combinations that make no sense are refused."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from adacsl import METHODS, AdaptiveWeight, CostMatrix, EqualWidth, Method, method
from adacsl.estimators.learners.nets import Net
from adacsl.estimators.methods import choose_methods, title_of

COSTS = CostMatrix(fp=1, fn=8)
NAMED = [
    *("always-negative", "always-positive", "ce-bayes", "ce", "ce-tuned", "ce-calibrated"),
    *("oversample", "undersample", "smote", "wce", "wce-rows", "wce-tuned", "focal", "logit-adjusted"),
    *(
        "gbm-bayes",
        "gbm-tuned",
        "gbm-weighted",
        "gbm-rows",
        "metacost",
        "adacsl",
        "adacsl-rows",
        "adacsl-bins",
        "adacsl-cv",
        "portfolio",
    ),
]


def made_rows(n=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.6, "ill", "well")


def test_all_methods_are_there_simplest_first():
    assert list(METHODS) == NAMED
    assert all(title_of(name) == METHODS[name][0] != name for name in NAMED)
    assert title_of("mine") == "mine"


@pytest.mark.parametrize("name", NAMED)
def test_every_name_builds_an_estimator_that_clones(name):
    made = method(name, COSTS, random_state=3)
    assert isinstance(made, Method)
    made.check_settings()
    assert (made.costs, made.random_state) == (COSTS, 3)
    fresh = clone(method(name))
    assert {k: repr(v) for k, v in fresh.get_params().items()} == {
        k: repr(v) for k, v in method(name).get_params().items()
    }


def test_settings_win_over_the_tables():
    assert method("wce-tuned", decide="bayes").decide == "bayes"
    assert METHODS["wce-tuned"][1]["decide"] == "tuned"


def test_the_adaptive_ones_differ_only_in_subgroups_and_folds():
    plain, bins, folds = (method(name).get_params(deep=False) for name in ("adacsl", "adacsl-bins", "adacsl-cv"))
    assert plain["controller"] == {}  # as "auto", also where that would rather not adapt
    assert {name for name in plain if repr(plain[name]) != repr(bins[name])} == {"controller"}
    assert bins["controller"] == {"partition": EqualWidth(10)}
    assert {name for name in plain if repr(plain[name]) != repr(folds[name])} == {"cv"}
    assert folds["cv"] == 5


@pytest.mark.parametrize("name", [name for name in NAMED if name not in ("metacost", "always-negative", "portfolio")])
def test_the_threshold_is_the_score_that_is_decided_at(name):
    X, y = made_rows(200)
    made = method(name, COSTS, positive="ill", random_state=0, device="cpu")
    if made.learner == "net":
        made.set_params(learner=Net(epochs=2))
    made.fit(X, y)
    if name == "always-positive":
        assert (made.predict(X) == "ill").all()
        return
    scores = made.decision_scores(X)
    clear = np.abs(scores - made.threshold_) > 1e-9
    assert np.array_equal((made.predict(X) == "ill")[clear], (scores > made.threshold_)[clear])


def test_a_method_of_ones_own_takes_one_line():
    mine = Method(learner=LogisticRegression(), decide="tuned")
    chosen = choose_methods(["ce", ("forest", mine)])
    assert list(chosen) == ["ce", "forest"]
    assert chosen["forest"] is mine
    assert choose_methods({"forest": mine}) == {"forest": mine}


def test_methods_that_need_columns_are_left_out_for_images():
    chosen = choose_methods(images=True)
    assert "adacsl-cv" in chosen
    assert "always-positive" in chosen
    assert not {"gbm-bayes", "gbm-tuned", "gbm-weighted", "gbm-rows", "metacost"} & set(chosen)


def test_constants_take_images():
    X = np.zeros((20, 8, 8, 3), dtype=np.uint8)
    made = method("always-positive", COSTS).fit(X, np.arange(20) % 2)
    assert made.predict(X).tolist() == [1] * 20
    assert made.estimated_cost_.estimate == 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "loss one of plain, weighted, row-weighted, focal, logit-adjusted or a function"),
        ({"decide": "maybe"}, "decide must be one of 'bayes', 'tuned'"),
        ({"decide": "target"}, "decide='target' is called decide='bayes' now"),
        ({"resample": "twice"}, "resample is one of None, oversample, undersample, smote"),
        ({"learner": "svm"}, "learner must be 'net', 'boosting'"),
        ({"controller": "auto"}, "needs loss='weighted'"),
        ({"controller": "auto", "loss": "weighted", "resample": "oversample"}, "and no resample"),
        ({"controller": {"pace": 1}, "loss": "weighted"}, "a controller has no setting 'pace'; it has partition"),
        ({"resample": "smote", "loss": "weighted"}, "goes with loss='plain'"),
        ({"learner": "boosting", "resample": "smote"}, "are for nets"),
        ({"learner": "boosting", "loss": "focal"}, "are for nets"),
        ({"learner": "constant", "decide": "negative", "loss": "focal"}, "are for nets"),
        ({"decide": "positive"}, "go with learner='constant'"),
        ({"learner": "constant"}, "go with learner='constant'"),
        ({"resample": "smote", "cv": 5}, "SMOTE mixes training rows, some of which a cross-fit holds out"),
        ({"target": 1.0, "loss": "weighted"}, "target must be a number between 0 and 1 or one of 'bayes', 'middle'"),
        ({"target": "most", "loss": "weighted"}, "target must be a number or one of 'bayes'"),
        ({"target": "bayes"}, "target is for losses with a weight"),
        ({"decide": "unweighted"}, "undoes the weight of loss='weighted'"),
        ({"controller": {"caution": -1.0}, "loss": "weighted"}, "caution must be a finite number"),
        ({"controller": {"update": "log"}, "loss": "weighted"}, "update must be"),
        ({"controller": {"damping": 0.0}, "loss": "weighted"}, "damping must be"),
        ({"select": "first"}, "select must be one of 'best', 'last'"),
        ({"validation": None}, "validation must be a fraction"),
        ({"learner": Net(every=0)}, "every must be None or a number of batches from 1"),
    ],
)
def test_combinations_that_make_no_sense_are_refused(settings, message):
    X, y = made_rows()
    with pytest.raises(ValueError, match=message):
        Method(COSTS, positive="ill", **settings).fit(X, y)


@pytest.mark.parametrize(("cv", "message"), [(1, "at least 2 folds"), (0, "at least 2 folds")])
def test_a_cross_fit_has_two_folds_at_least(cv, message):
    X, y = made_rows()
    with pytest.raises(ValueError, match=message):
        Method(COSTS, positive="ill", cv=cv).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"controller": 3, "loss": "weighted"}, "controller must be None, 'auto', a dict of settings or an Adaptive"),
        ({"learner": object()}, "has no predict_proba, which costs need"),
        ({"costs": "dear"}, "costs must be a CostMatrix such as CostMatrix"),
    ],
)
def test_what_is_of_no_use_is_told(settings, message):
    with pytest.raises(TypeError, match=message):
        Method(**({"costs": COSTS} | settings)).check_settings()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("adapt", r"controller=None \(lambda stays 1\) or controller='auto'"),
        ("crossfit", "cv"),
        ("pos_label", "positive"),
        ("epochs", r"net=\{'epochs': ...\}"),
        ("damping", r"controller=\{'damping': ...\}"),
    ],
)
def test_old_spellings_name_the_new_one(old, new):
    with pytest.raises(TypeError, match=f"Method has no setting {old!r} any more: say {new}"):
        Method(COSTS, **{old: 1})


def test_a_decision_function_is_enough_to_learn():
    X, y = made_rows()
    made = Method(COSTS, learner=LinearSVC(), decide="tuned", positive="ill", random_state=0).fit(X, y)
    assert set(made.predict(X)) <= {"ill", "well"}


def test_a_controller_of_ones_own_is_copied():
    given = AdaptiveWeight(CostMatrix(fp=1, fn=1), caution=2.0)
    X, y = made_rows()
    made = Method(COSTS, loss="weighted", controller=given, learner=Net(epochs=2), positive="ill", random_state=0)
    made.fit(X, y)
    assert (given.lambda_, len(given.history)) == (1.0, 0)
    assert made.history_["weight"].iloc[0] == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("methods", "images", "message"),
    [
        (["smoke"], False, "no method 'smoke'; known: always-negative"),
        (["ce", "ce"], False, "named twice"),
        (["gbm-bayes"], True, "is for tables, but the data are images"),
        ([], False, "no methods"),
    ],
)
def test_unknown_methods_are_named(methods, images, message):
    with pytest.raises(ValueError, match=message):
        choose_methods(methods, images=images)


@pytest.mark.parametrize("given", [3, ("mine",), ("mine", LogisticRegression()), (Method(), "mine")])
def test_a_method_is_a_name_or_a_pair(given):
    with pytest.raises(TypeError, match="a method is a name, or a pair of a name and a Method"):
        choose_methods([given])


def test_one_name_needs_no_list():
    assert list(choose_methods("wce")) == ["wce"]
