"""Methods of the user's own on the command line: ``--method module:factory``."""

import json
import shlex
import sys

import numpy as np
import pytest

import adacsl as library
from adacsl.cli.app import run

WORDS = ("--target", "churn", "--pos-label", "yes", "--drop", "id,since", "--fn", 8, "--fp", 1)
CODE = """
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
import adacsl

class Odd(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        return self

def forest():
    return RandomForestClassifier(20, min_samples_leaf=5, random_state=0)

def tuned_forest():
    return adacsl.CostSensitiveClassifier(learner=forest(), decide="tuned")

def odd():
    return Odd()

def classes():
    return RandomForestClassifier

def unlucky():
    raise RuntimeError("no luck today")

logistic = forest
thing = 5
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A working directory with modules of the user's own."""
    (tmp_path / "rivals.py").write_text(CODE)
    (tmp_path / "broken_rivals.py").write_text("import a_package_nobody_has\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("rivals", None)


def test_a_factory_is_compared_named_recommended_and_trained(adacsl, place, mine):
    words = ("--methods", "always-positive", "--method", "rivals:forest", "--method", "rivals:tuned_forest")
    quick = ("--n-jobs", 1, "--repeats", 1, "--folds", 2, "--tolerance", 0.5, "--quiet")
    output = adacsl("compare", place / "rows.csv", *WORDS, *words, *quick, "--out", "run", "--json")
    assert (output.code, output.err) == (0, "")
    assert {row["method"] for row in output.json["table"]} == {"always-positive", "forest", "tuned_forest"}
    command = shlex.split(output.json["train"][0])
    assert (output.json["best"], command[command.index("--method") + 1]) == ("forest", "rivals:forest")
    assert run(command[1:]) == 0
    model = library.load(mine / "model")
    rows = place / "rows.csv"
    assert adacsl("predict", "model", rows, "--out", "decided.csv").code == 0
    assert json.loads((mine / "model" / "model.json").read_text())
    assert type(model.model_.estimators[0]).__name__ == "RandomForestClassifier"
    # a folder keeps no code: the figures are there, the classifier is the user's
    again = library.load_comparison(mine / "run")
    assert np.isfinite(again.table["mean"]).all()
    with pytest.raises(ValueError, match="'forest' is a custom method, and code is not saved"):
        again.method("forest")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("rivals", "expected a module of the working directory (or an installed one) and a function in it, such as"),
        (":forest", "expected a module of the working directory"),
        ("rivals:", "expected a module of the working directory"),
        ("nowhere:forest", "there is no module nowhere in "),
        ("rivals.deeper:forest", "there is no module rivals.deeper in "),
        (
            "broken_rivals:forest",
            "broken_rivals cannot be imported: ModuleNotFoundError: No module named 'a_package_nob",
        ),
        ("rivals:woods", "rivals.py) has no woods"),
        ("rivals:thing", "thing is not a function but 5"),
        ("rivals:unlucky", "unlucky() failed with RuntimeError: no luck today"),
        (
            "rivals:odd",
            "it must return a scikit-learn classifier: method 'odd': learner Odd() has no predict_proba",
        ),
        ("rivals:classes", "method 'classes' is a class: give an instance, RandomForestClassifier(...)"),
        ("rivals:logistic", "logistic is a built-in method: rename the function"),
    ],
)
def test_wrong_factories_are_one_line(refused, mine, word, line):
    output = refused("compare", "breast-cancer", "--method", word, "--out", "run")
    assert f"--method {word}: " in output
    assert line in output


def test_training_reports_a_wrong_factory_too(refused, place, mine):
    words = ("train", place / "rows.csv", *WORDS, "--out", "model", "--method")
    assert "--method rivals:woods: rivals (" in refused(*words, "rivals:woods")
    assert "--epochs is for neural networks, but rivals:forest trains no network" in refused(
        *words, "rivals:forest", "--epochs", 3
    )


def test_all_are_asked_for_in_one_word(adacsl, monkeypatch, tmp_path):
    from adacsl.comparison import compare

    asked = []

    def stop(tasks, methods, **_):
        asked.append(methods)
        raise ValueError("enough")

    monkeypatch.setattr(compare, "compare_tasks", stop)
    for words in ((), ("--all",), ("--methods", "net,net-weighted")):
        adacsl("compare", "breast-cancer", *words, "--out", tmp_path / "run")
    assert asked == [["default"], ["all"], ["net", "net-weighted"]]
