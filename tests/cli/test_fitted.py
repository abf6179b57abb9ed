"""Models that were fitted elsewhere on the command line: networks of one's own, scores alone, pipelines of text."""

import shlex
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adacsl import CostMatrix, CostSensitiveClassifier, find_threshold
from adacsl.neural import NeuralLearner

COSTS = CostMatrix(fp=1, fn=8)


def scored(n=400, seed=0, power=1.0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    scores = 1 / (1 + np.exp(-(rng.normal(size=n) + 1.5 * y - 1.2)))
    table = {"score": scores**power, "label": np.where(y, "bad", "good"), "amount": rng.lognormal(1, 1, n)}
    return pd.DataFrame(table)


@pytest.fixture
def written(tmp_path):
    for name, frame in (("may", scored()), ("june", scored(seed=1)), ("july", scored(seed=2, power=3.0))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    scored(seed=1).drop(columns="label").to_csv(tmp_path / "unknown.csv", index=False)
    return tmp_path


WORDS = ("--fn", 8, "--fp", 1, "--pos-label", "bad")
COLUMNS = ("--score-column", "score", "--label-column", "label")


def test_scores_are_monitored_against_reference_scores(adacsl, written):
    well = adacsl("monitor", written / "may.csv", written / "june.csv", *WORDS, *COLUMNS)
    assert (well.code, "No change needed" in well.out) == (0, True), well.err
    again = adacsl(
        "monitor", written / "may.csv", written / "july.csv", *WORDS, "--html", written / "page.html", "--json"
    )
    assert again.code == 4
    assert (written / "page.html").exists()
    unknown = adacsl("monitor", written / "may.csv", written / "unknown.csv", *WORDS, "--json")
    assert unknown.json["labelled"] == 0
    own = adacsl("monitor", written / "may.csv", written / "june.csv", "--fn", "amount", *WORDS[2:], "--json")
    table = pd.read_csv(written / "june.csv")
    assert own.json["labelled"] == len(table)
    best = find_threshold(scored()["score"].to_numpy(), (scored()["label"] == "bad").to_numpy().astype(int), COSTS)
    decided = np.mean(scored(seed=1)["score"] > best.value)
    now = adacsl("monitor", written / "may.csv", written / "june.csv", *WORDS, "--json").json["decided"]["now"]
    assert now[1] == pytest.approx(decided, abs=0.1)


def test_the_advice_to_retune_is_a_command_that_works(adacsl, written):
    words = ("monitor", written / "may.csv", written / "july.csv", *WORDS, *COLUMNS)
    advice = next(line for line in adacsl(*words).out.splitlines() if "--retuned model2/" in line)
    for word in ("--fn 8", "--fp 1", "--pos-label bad", "--score-column score", "--retuned model2/"):
        assert word in advice
    assert adacsl(*words, "--retuned", written / "model2").code == 4
    assert adacsl("predict", written / "model2", written / "unknown.csv", "--out", written / "out.csv").code == 0


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("monitor", "may.csv", "june.csv"), "--fn 8 .* and --fp 1 .* are missing"),
        (("monitor", "may.csv", "june.csv", "--costs", "balanced", "--pos-label", "bad"), "known costs: give --fn"),
        (("monitor", "may.csv", "june.csv", "--fn", 8, "--fp", 1), "positive"),
        (("monitor", "may.csv", "june.csv", *WORDS, "--score-column", "p"), "'p'"),
        (("threshold", "may.csv", *WORDS, "--html", "a.html", "--weight-column", "amount"), "takes no --weight-column"),
    ],
)
def test_refusals(refused, written, words, match):
    import re

    files = {name: str(written / name) for name in ("may.csv", "june.csv")}
    assert re.search(match, refused(*[files.get(word, word) for word in words]))


@pytest.mark.parametrize("fn", [8, "amount"])
def test_the_report_of_scores(adacsl, written, fn):
    page = written / "scores.html"
    words = ("--fn", fn, *WORDS[2:], *COLUMNS, "--html", page)
    result = adacsl("threshold", written / "may.csv", *words, "--batch-rows", 37)
    assert result.code == 0, result.err
    assert result.out.rstrip().endswith(f"written: {page}")
    text = page.read_text()
    assert "always bad" in text
    assert ("of each sample" in text) == (fn == "amount")


def test_margins_have_no_report(refused, written, tmp_path):
    scored().assign(score=lambda frame: frame["score"] * 9).to_csv(tmp_path / "margins.csv", index=False)
    line = refused("threshold", tmp_path / "margins.csv", *WORDS, *COLUMNS, "--html", tmp_path / "page.html")
    assert "the report needs probabilities" in line


def test_a_frozen_pipeline_of_text_on_the_command_line(adacsl, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.4
    table = pd.DataFrame({
        "text": [" ".join(rng.choice(["late", "angry", "fine", "good"][: 2 if bad else 4], 5)) for bad in y],
        "amount": rng.normal(size=300), "target": np.where(y, "bad", "good"),
    })  # fmt: skip
    own = make_pipeline(
        make_column_transformer((TfidfVectorizer(), "text"), (StandardScaler(), ["amount"])), LogisticRegression()
    ).fit(table, table["target"])
    model = CostSensitiveClassifier(COSTS, learner=FrozenEstimator(own), decide="tuned", pos_label="bad")
    model.fit(table[["text", "amount"]], table["target"]).save(tmp_path / "model")
    table.to_csv(tmp_path / "new.csv", index=False)
    assert adacsl("predict", tmp_path / "model", tmp_path / "new.csv", "--out", tmp_path / "out.csv").code == 0
    decided = pd.read_csv(tmp_path / "out.csv")["decision"]
    assert (decided == model.predict(table[["text", "amount"]])).all()
    result = adacsl("evaluate", tmp_path / "model", tmp_path / "new.csv", "--json")
    mean = COSTS.mean((table["target"] == "bad").astype(int), (decided == "bad").astype(int))
    assert result.json["cost"]["mean"] == pytest.approx(mean) if "cost" in result.json else result.code == 0


NET = """
from torch import nn

def net(n_features):
    return nn.Sequential(nn.Linear(n_features, 4), nn.ReLU(), nn.Linear(4, 1))
"""


def test_a_network_of_ones_own_is_loaded_by_its_factory(adacsl, refused, tmp_path, monkeypatch):
    (tmp_path / "own_nets.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_nets

    table = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=["a", "b"])
    labels = (table["a"] > 0).astype(int)
    model = CostSensitiveClassifier(COSTS, learner=NeuralLearner(module=own_nets.net, epochs=1), random_state=0)
    model.fit(table, labels).save(tmp_path / "model")
    table.assign(target=labels).to_csv("new.csv", index=False)
    words = ("model", "new.csv", "--out", "out.csv")
    assert adacsl("predict", *words, "--module", "own_nets:net").code == 0
    assert (pd.read_csv("out.csv")["decision"] == model.predict(table)).all()
    for command in ("evaluate", "explain"):
        assert adacsl(command, "model", "new.csv", "--target", "target", "--module", "own_nets:net").code == 0
    assert adacsl("monitor", "model", "new.csv", "--module", "own_nets:net").code in (0, 3, 4)
    assert "module" in refused("predict", *words)
    assert "--module own_nets: expected" in refused("predict", *words, "--module", "own_nets")
    assert "there is no module none_such" in refused("predict", *words, "--module", "none_such:net")
    assert "has no other" in refused("predict", *words, "--module", "own_nets:other")


METHOD = """
def small():
    from adacsl import CostSensitiveClassifier
    from adacsl.neural import NeuralLearner

    return CostSensitiveClassifier(learner=NeuralLearner(net, epochs=2))
"""


def test_a_method_with_a_network_of_ones_own_is_trained_as_it_is_and_each_command_names_the_next(
    adacsl, refused, tmp_path, monkeypatch
):
    (tmp_path / "own_methods.py").write_text(NET + METHOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=["a", "b"])
    table.assign(target=(table["a"] + table["b"] > 0).astype(int)).to_csv("new.csv", index=False)
    data, quick = ("new.csv", "--target", "target", "--fn", 8, "--fp", 1, "--quiet"), ("--repeats", 1, "--folds", 2)
    train = ("train", *data, "--method", "own_methods:small", "--out", "model")
    trained = adacsl(*train)
    assert trained.code == 0, trained.err
    assert "; 2 epochs, " in trained.out  # the learner's own
    assert "; 3 epochs, " in adacsl(*train, "--epochs", 3).out
    assert "on the command line --module module:function" in refused("predict", "model", "new.csv")
    compared = adacsl("compare", *data, "--method", "own_methods:small", "--n-jobs", 1, *quick, "--save", "best",
                      "--methods", "always-negative", "--out", "run")  # fmt: skip
    assert compared.code == 0, compared.err
    for words in (("evaluate", "model", *data[:-1]), ("monitor", "model", "new.csv", "--fn", 8, "--fp", 1)):
        following = shlex.split(adacsl(*words, "--module", "own_methods:net").out.splitlines()[-1])
        assert following[following.index("--module") + 1] == "own_methods:net"
    for output in (trained, compared):
        assert "--module own_methods:net" in output.out.splitlines()[-1]
        assert adacsl(*shlex.split(output.out.splitlines()[-1])[2:]).code == 0
        assert (pd.read_csv("decisions.csv")["probability"].between(0, 1)).all()
