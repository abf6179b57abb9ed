import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from adacsl import EqualWidth, Whole
from adacsl.experiments.recipes import RECIPES, Recipe, choose_recipes

NAMED = [
    *("always-negative", "always-positive", "ce-bayes", "ce", "ce-tuned", "ce-calibrated"),
    *("oversample", "undersample", "smote", "wce", "wce-tuned", "focal", "logit-adjusted"),
    *("gbm-bayes", "gbm-tuned", "gbm-weighted", "metacost", "adacsl", "adacsl-bins", "adacsl-cv"),
]


def test_all_methods_are_there_simplest_first():
    assert list(RECIPES) == NAMED
    assert all(recipe.name == name and recipe.title for name, recipe in RECIPES.items())


def test_the_adaptive_ones_differ_only_in_subgroups_and_folds():
    assert RECIPES["adacsl"].adapt == Whole()
    assert RECIPES["adacsl-bins"].adapt == EqualWidth(10)
    assert RECIPES["adacsl-cv"].crossfit == 5


def test_a_recipe_of_ones_own_takes_one_line():
    mine = Recipe("forest", learner=LogisticRegression(), decide="tuned")
    assert list(choose_recipes(["ce", mine])) == ["ce", "forest"]


def test_methods_that_need_columns_are_left_out_for_images():
    chosen = choose_recipes(images=True)
    assert "adacsl-cv" in chosen
    assert "always-positive" in chosen
    assert not {"gbm-bayes", "gbm-tuned", "gbm-weighted", "metacost"} & set(chosen)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "a,b"}, "without commas"),
        ({"loss": "hinge"}, "loss must be one of plain, weighted"),
        ({"decide": "maybe"}, "decide must be one of half, bayes"),
        ({"resample": "twice"}, "resample must be None or one of oversample"),
        ({"learner": "svm"}, "learner must be one of net, boosting"),
        ({"adapt": Whole()}, "needs loss='weighted'"),
        ({"resample": "smote", "loss": "weighted"}, "goes with loss='plain'"),
        ({"learner": "boosting", "crossfit": 5}, "are for learner='net'"),
        ({"decide": "positive"}, "go with learner='constant'"),
        ({"learner": "constant"}, "go with learner='constant'"),
        ({"resample": "smote", "crossfit": 5}, "SMOTE mixes training rows, some of which a cross-fit holds out"),
        ({"crossfit": 1}, "0 or at least 2 folds"),
        ({"target": 1.0, "loss": "weighted"}, "target must be 'bayes', 'middle' or a number between 0 and 1, got 1.0"),
        ({"target": "half", "loss": "weighted"}, "target must be 'bayes'"),
        ({"target": "bayes"}, "target is for losses with a weight"),
        ({"caution": -1.0, "loss": "weighted", "adapt": Whole()}, "caution must be a finite number"),
        ({"select": "first"}, "select must be one of best, last"),
        ({"update": "log"}, "update must be one of auto, exponential, odds"),
        ({"damping": 0.0}, "damping must be 'auto' or a positive number"),
        ({"damping": "slow"}, "damping must be 'auto' or a positive number"),
        ({"every": 0}, "every must be None or a number of batches from 1"),
        ({"every": 5, "loss": "weighted"}, "but adapt is None"),
        ({"learner": "boosting", "select": "last"}, "select and decide='raw' are for learner='net'"),
        ({"learner": "boosting", "loss": "shifted"}, "shifted are for learner='net'"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**({"name": "mine"} | settings))


def test_an_estimator_needs_probabilities():
    with pytest.raises(TypeError, match="no predict_proba"):
        Recipe("svm", learner=LinearSVC())


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
        choose_recipes(methods, images=images)


def test_one_name_needs_no_list():
    assert list(choose_recipes("wce")) == ["wce"]
