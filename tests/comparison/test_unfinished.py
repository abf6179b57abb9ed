"""Comparisons that are not finished, or in which methods failed: what is missing is named, nothing is recommended."""

import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

from adacsl import CostMatrix, CostSensitiveClassifier, compare, load_comparison
from adacsl.cli.app import run
from adacsl.comparison.runner import RunInterrupted
from adacsl.report.comparison import render_report

QUICK = {"repeats": 1, "folds": 3, "n_jobs": 1, "progress": False}
METHODS = ["always-negative", "always-positive", "logistic"]


def table(n=150, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return pd.DataFrame({"a": y + rng.normal(0, 0.7, n), "b": rng.normal(size=n)}), y


class Failing(ClassifierMixin, BaseEstimator):
    """Fails on training rows with an even sum of labels, or always."""

    def __init__(self, always=True):
        self.always = always

    def fit(self, X, y):
        if self.always or int(np.sum(y)) % 2:
            raise ArithmeticError("no <solution> for these rows")
        self.model_ = GaussianNB().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return compare(*table(), CostMatrix(fp=1, fn=5), methods=METHODS, folder=folder, **QUICK)


@pytest.fixture
def unfinished(finished, tmp_path):
    """The folder of a run that ended after four of its nine fits; one method has not begun."""
    folder = shutil.copytree(finished.folder, tmp_path / "some")
    shutil.rmtree(folder / "fits/data/logistic")
    for seed in (1, 2):
        (folder / f"fits/data/always-positive/ratio-5_seed-{seed}.json").unlink()
    return folder


def test_an_unfinished_run_states_so_and_recommends_nothing(finished, unfinished):
    assert finished.progress == ""
    assert finished.best is not None
    result = load_comparison(unfinished)
    assert result.progress == "4 of 9 fits done"
    assert result.best is None
    (recommendation,) = result.recommendations.values()
    assert (recommendation.recommended, recommendation.saving) == (None, None)
    assert recommendation.text.startswith("4 of 9 fits done: no recommendation until every method has every fold.")
    assert "always-positive (1 of 3 folds)" in recommendation.text
    assert "logistic (not started)" in recommendation.text
    with pytest.raises(ValueError, match=r"no method is recommended: 4 of 9 fits done.*name=\.\.\."):
        result.fit(*table())
    assert result.method("always-positive") is not None


def test_the_report_of_an_unfinished_run_has_a_banner(finished, unfinished, tmp_path, capsys):
    assert "fits done" not in render_report(finished.report_data())
    page = render_report(load_comparison(unfinished).report_data())
    assert 'class="banner"' in page
    assert "4 of 9 fits done" in page
    assert "Recommended" not in page.split("<main", 1)[1].split("<script", 1)[0]
    text = load_comparison(unfinished).to_markdown()
    assert "**4 of 9 fits done" in text
    assert "(recommended)" not in text
    code = run(["report", str(unfinished), "--out", str(tmp_path / "page.html")])
    said = capsys.readouterr()
    assert code == 1
    assert "4 of 9 fits done" in said.out
    assert "logistic (not started)" in said.out


def test_an_interrupted_comparison_knows_what_was_planned(tmp_path, monkeypatch):
    from adacsl.comparison.progress import Progress

    seen = []

    def stop(self, event):
        seen.append(event.kind)
        if seen.count("done") == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "__call__", stop)
    with pytest.raises(RunInterrupted):
        compare(*table(), CostMatrix(fp=1, fn=5), methods=METHODS, folder=tmp_path / "run", **QUICK)
    result = load_comparison(tmp_path / "run")
    assert result.progress == "4 of 9 fits done"
    assert result.best is None


def test_a_run_of_other_methods_in_the_same_folder_is_complete_on_its_own(unfinished):
    result = compare(*table(), CostMatrix(fp=1, fn=5), methods=METHODS[:1], folder=unfinished, **QUICK)
    assert (result.progress, result.best) == ("", "always-negative")
    assert load_comparison(unfinished).progress == "4 of 6 fits done"  # what was begun belongs to the folder


def test_a_method_that_failed_everywhere_is_named_with_the_reason():
    methods = [*METHODS, ("mine", CostSensitiveClassifier(learner=Failing()))]
    with pytest.warns(UserWarning, match=r"mine failed in 3 of 3 folds \(ArithmeticError: no <solution> for these"):
        result = compare(*table(), CostMatrix(fp=1, fn=5), methods=methods, **QUICK)
    (recommendation,) = result.recommendations.values()
    assert recommendation.recommended in METHODS  # the others are complete
    assert "mine failed in 3 of 3 folds (ArithmeticError: no <solution> for these rows)" in recommendation.text
    page = render_report(result.report_data())
    assert "mine failed in 3 of 3 folds (ArithmeticError: no &lt;solution&gt; for these rows)" in page
    assert "mine failed in 3 of 3 folds" in result.to_markdown()


def test_a_method_that_failed_in_some_folds_withholds_the_recommendation():
    methods = [*METHODS, ("mine", CostSensitiveClassifier(learner=Failing(always=False)))]
    with pytest.warns(UserWarning, match=r"mine failed in \d of 5 folds"):
        result = compare(*table(), CostMatrix(fp=1, fn=5), methods=methods, **QUICK | {"folds": 5})
    assert set(result.table["method"]) == {*METHODS, "mine"}
    assert result.best is None
    assert result.recommendation.startswith("No recommendation until every method has every fold.")
    assert "mine failed in" in result.recommendation
    assert "run it again, or compare without it" in result.recommendation
