"""An ensemble on the command line: what adacsl train fits by default."""

import inspect

import numpy as np
import pytest

import adacsl as library
from adacsl import CostMatrix, EnsembleClassifier
from adacsl.cli import train as command
from adacsl.ensemble import base_estimators
from adacsl.neural.learner import NeuralLearner

SAID = ("--target", "churn", "--pos-label", "yes", "--fn", "8", "--fp", "1", "--drop", "id", "--ignore", "time-ignored")
QUICK = ("--estimators", "logistic,histogram", "--n-jobs", "1")


@pytest.fixture
def saved(monkeypatch):
    """Keep what would be saved."""
    stored = []
    monkeypatch.setattr(command, "save_model", lambda model, *_, **__: stored.append(model))
    return stored


@pytest.fixture
def trained(adacsl, saved, place, tmp_path):
    """Train on the table of ``place``; return what was given, and the model."""

    def train(*words):
        output = adacsl("train", place / "rows.csv", *SAID, *words, "--out", tmp_path / "m")
        return output, saved[-1] if saved else None

    return train


def test_it_is_the_default_and_the_same_as_in_python(trained, rows):
    output, model = trained(*QUICK, "--json", "--quiet")
    assert (output.code, output.err, output.json["method"]) == (0, "", "ensemble")
    assert output.json["estimated_cost"]["mean"] == model.estimated_cost_.estimate
    assert [row["estimator"] for row in output.json["leaderboard"]] == model.leaderboard_["estimator"].tolist()
    assert (output.json["estimators"], output.json["stopped"]) == (2, False)
    settings = {"estimators": ["logistic", "histogram"], "n_jobs": 1, "pos_label": "yes", "random_state": 0}
    mine = EnsembleClassifier(CostMatrix(fp=1, fn=8), **settings)
    X, y = rows.drop(columns=["id", "churn"]), rows["churn"].to_numpy()
    assert np.array_equal(mine.fit(X, y).predict_proba(X), model.predict_proba(X))
    assert inspect.signature(command.train).parameters["method"].default == "ensemble"


def test_text_shows_progress_cost_base_estimators_and_those_skipped(trained, monkeypatch):
    def fail(*_):
        raise OSError("no such\nlibrary")

    monkeypatch.setattr(base_estimators.HistogramBoosting, "fit", fail)
    output, _ = trained(*QUICK)
    assert output.err.splitlines()[0].startswith("ensemble: 1 of 2 base estimators, out-of-fold cost ")
    assert "note" not in output.err
    for words in ("1 estimator, ", "estimated mean cost per sample (out of fold): ", "own cost", "logistic"):
        assert words in output.out
    assert "skipped: histogram (no such library)" in output.out


def test_options_of_networks_reach_the_networks_of_the_ensemble(trained):
    words = ("--estimators", "net", "--n-jobs", "1", "--epochs", "2", "--cv", "0", "--device", "cpu", "--quiet")
    _, model = trained(*words)
    assert (model.neural.changed(), model.cv, model.device) == ({"epochs": 2}, None, "cpu")
    assert np.isnan(model.oof_scores_).any()
    chosen = base_estimators.choose_estimators(
        ["net", "net-bins", "logistic"], images=False, neural=NeuralLearner([8], epochs=2)
    )
    assert [made.learner.epochs for made in list(chosen.values())[:2]] == [2, 2]
    assert [made.learner.module for made in list(chosen.values())[:2]] == [[8], {"bins": 32}]


def test_ctrl_c_saves_what_is_done_and_shows_so(trained, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(base_estimators.HistogramBoosting, "fit", stop)
    output, model = trained(*QUICK, "--quiet")
    assert output.code == 130
    assert list(model.estimators_) == ["logistic"]
    assert "skipped: histogram (interrupted)" in output.out
    assert "stopped by Ctrl-C: the model consists of the base estimators that were finished" in output.out
    monkeypatch.setattr(base_estimators.LogisticRegression, "fit", stop)
    output, _ = trained(*QUICK, "--quiet")
    assert (output.code, output.out) == (130, "")
    assert output.err.startswith("stopped: nothing was saved")


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (
            ("--time-limit", "soon"),
            "time_limit must be seconds above 0, or a text such as '60s', '5min' or '1h', got 'soon'",
        ),
        (("--estimators", "logistic,magic"), "there is no base estimator 'magic' (known: logistic, lightgbm"),
        (("--n-jobs", "0"), "--n-jobs must be at least 1, got 0"),
        (("--address", "auto"), "--address is for --backend ray"),
        (("--gpus", "1"), "--gpus is for --backend ray"),
        (("--method", "gbm-bayes", "--n-jobs", "2"), "for the ensemble, but gbm-bayes is not an ensemble"),
        (("--backend", "ray", "--gpus", "nan"), "--gpus must be a number, got 'nan'"),
        (("--method", "net", "--time-limit", "9s"), "--time-limit is for the ensemble, but net is not an ensemble"),
        (("--rotate",), "--rotate is for image networks, but the data are a table"),
    ],
)
def test_wrong_words_are_one_line(refused, place, tmp_path, words, match):
    assert match in refused("train", place / "rows.csv", *SAID, *words, "--out", tmp_path / "m")


def test_a_saved_one_predicts_evaluates_and_explains(adacsl, refused, place, rows, tmp_path):
    model = tmp_path / "m"
    assert adacsl("train", place / "rows.csv", *SAID, *QUICK, "--out", model, "--quiet").code == 0
    loaded = library.load(model)
    X = rows[loaded.feature_names_in_]
    assert adacsl("predict", model, place / "rows.csv", "--out", tmp_path / "p.csv").code == 0
    output = adacsl("evaluate", model, place / "rows.csv", "--json")
    assert output.json["cost"]["mean"] == pytest.approx(-loaded.score(X, rows["churn"].to_numpy()))
    assert adacsl("explain", model, place / "rows.csv", "--repeats", 1, "--html", tmp_path / "page.html").code == 0
    assert "logistic (weight " in (tmp_path / "page.html").read_text()
    assert "only neural networks and logistic regressions" in refused("export", model, "--onnx", tmp_path / "m.onnx")
