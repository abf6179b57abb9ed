"""Prediction without training: loading and predicting import the learner that a model needs, and nothing else."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier
from adacsl.estimators.persistence import save_method
from adacsl.learners import BoostingLearner, SklearnLearner
from adacsl.neural import NeuralLearner

COSTS = CostMatrix(fp=1, fn=5)

NEVER = {
    "lightning", "pytorch_lightning", "torchmetrics", "ray", "onnx", "imblearn", "fastapi",
    "adacsl.comparison", "adacsl.report", "adacsl.monitoring", "adacsl.neural.fit", "adacsl.neural.loop",
    "adacsl.neural.batches", "adacsl.neural.checkpoints", "adacsl.neural.epoch_selection",
}  # fmt: skip
"""What no prediction needs, whatever predicts."""
PLOTS = {"plotly", "matplotlib"}
NETWORKS = {"torch", "adacsl.neural", "safetensors.torch"}
TRAINS = {"adacsl.estimators.fit", "adacsl.ensemble", "adacsl.learners.sklearn", "adacsl.learners.boosting_fit"}
TREES = {"sklearn.ensemble", "adacsl.learners.trees", "adacsl.learners.histogram_boosting"}
LIBRARIES = {"xgboost", "lightgbm", "catboost"}
SETTINGS = "adacsl.learners.boosting"
"""BoostingLearner: settings alone, which are saved with a booster."""


def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120), "c": [1, 2, 3] * 40})
    return X, ((X["a"] + rng.normal(size=120)) > 0.5).astype(int).to_numpy()


def boosted(library):
    pytest.importorskip(library)
    return CostSensitiveClassifier(COSTS, learner=BoostingLearner(library=library, n_estimators=3), random_state=0)


def plain(learner):
    return CostSensitiveClassifier(COSTS, learner=learner, random_state=0)


MODELS = {
    "logistic": (lambda: plain(LogisticRegression()), NETWORKS | TRAINS | TREES | LIBRARIES | PLOTS),
    "trees": (lambda: plain(ExtraTreesClassifier(5)), NETWORKS | TRAINS | LIBRARIES | PLOTS),
    "histogram": (lambda: plain(HistGradientBoostingClassifier(max_iter=3)), NETWORKS | TRAINS | LIBRARIES | PLOTS),
    "constant": (
        lambda: CostSensitiveClassifier(COSTS, learner="constant", decide="positive"),
        NETWORKS | TRAINS | TREES | LIBRARIES | PLOTS
    ),
    "adaptive": (
        lambda: AdaCSLClassifier(COSTS, learner=SklearnLearner(LogisticRegression(), encode=False), decide="bayes"),
        NETWORKS | TRAINS | TREES | LIBRARIES | PLOTS
    ),
    "xgboost": (lambda: boosted("xgboost"), NETWORKS | TRAINS | LIBRARIES - {"xgboost"}),
    "lightgbm": (lambda: boosted("lightgbm"), NETWORKS | TRAINS | LIBRARIES - {"lightgbm"}),
    "catboost": (lambda: boosted("catboost"), NETWORKS | TRAINS | LIBRARIES - {"catboost"}),
    "stack": (
        lambda: EnsembleClassifier(COSTS, estimators=["logistic", "extra-trees"], cv=2, random_state=0),
        NETWORKS | PLOTS
    ),
    "net": (lambda: AdaCSLClassifier(COSTS, learner=NeuralLearner(epochs=1), random_state=0),
    TRAINS | LIBRARIES | PLOTS),
}  # fmt: skip


def modules_after(code, *words):
    """Return what a fresh interpreter has imported after some code."""
    code = f"import sys\n{code}\nprint('\\n', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    X, y = table()
    X.assign(target=y, score=0.3).to_csv(folder / "rows.csv", index=False)
    return folder


def saved(folder, name):
    """Train and save a model once; return its folder."""
    model = folder / name
    if not model.exists():
        save_method(
            MODELS[name][0]().fit(*table()), model, notes={"target": "target", "prices": {"fn": 5.0, "fp": 1.0}}
        )
    return model


PREDICT = """
import adacsl, pandas as pd
rows, *models = sys.argv[1:]
for model in models:
    assert len(adacsl.load(model).predict(pd.read_csv(rows)[["a", "b", "c"]])) == 120
"""


@pytest.mark.parametrize(
    "names",
    [
        ["logistic", "constant", "adaptive"],
        ["trees", "histogram"],
        *([each] for each in (*sorted(LIBRARIES), "stack", "net")),
    ],
    ids=" ".join,
)
def test_load_and_predict(folder, names):
    """Models that may import the same are loaded by one interpreter."""
    loaded = modules_after(PREDICT, folder / "rows.csv", *(saved(folder, name) for name in names))
    for name in names:
        assert loaded & (NEVER | MODELS[name][1]) == set()
    assert {"adacsl.estimators.persistence", "pandas"} <= loaded
    assert ("torch" in loaded) == (names == ["net"])
    assert loaded & LIBRARIES == set(names) & LIBRARIES
    assert names == ["stack"] or (SETTINGS in loaded) == (names[0] in LIBRARIES)


RUN = """
import shlex
from adacsl.cli.app import run
for words in sys.argv[1:]:
    assert run(shlex.split(words)) in (0, 1), words
"""


@pytest.mark.parametrize("names", [["data", "check", "threshold"], ["predict"], ["evaluate", "explain"]], ids=" ".join)
def test_commands(folder, names):
    rows, model, costs = folder / "rows.csv", saved(folder, "logistic"), "--pos-label 1 --fn 5 --fp 1"
    commands = {
        "data": "data",
        "check": f"check {rows} --target target {costs}",
        "threshold": f"threshold {rows} --score-column score --label-column target {costs}",
        "predict": f"predict {model} {rows} --out {folder / 'decided.csv'}",
        "evaluate": f"evaluate {model} {rows}",
        "explain": f"explain {model} {rows} --repeats 1",
    }
    loaded = modules_after(RUN, *(commands[name] for name in names))
    assert loaded & (NEVER - {"adacsl.comparison", "adacsl.report"} | NETWORKS | TRAINS | PLOTS) == set()
    assert "evaluate" in names or "adacsl.comparison" not in loaded
    assert ("adacsl.estimators.persistence" in loaded) == ("data" not in names)


SERVE = """
import adacsl
from adacsl.serving.app import make_app
make_app(adacsl.load(sys.argv[1]))
"""


def test_serving_a_model_without_networks(folder):
    pytest.importorskip("fastapi")
    loaded = modules_after(SERVE, saved(folder, "logistic"))
    assert loaded & (NEVER - {"fastapi"} | NETWORKS | TRAINS | PLOTS) == set()


def test_what_only_informs_imports_no_library():
    heavy = {"torch", "lightning", "pandas", "sklearn", "scipy", "pyarrow", "narwhals", "plotly", "matplotlib"}
    assert modules_after(RUN, "--version", "--help", "predict --help", "compare --help") & heavy == set()


@pytest.mark.parametrize("part", ["kind", "learner"])
def test_a_document_names_nothing_to_import(folder, tmp_path, part):
    """What a forged document calls its parts is looked up in our tables, and never imported."""
    from adacsl.estimators.artefact import ArtefactError, read_artefact, write_artefact
    from adacsl.estimators.persistence import load

    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    tensors, document = read_artefact(saved(folder, "logistic"))
    for name in ("evil:load", "adacsl.learners.boosting:BoostingLearner", "builtins:eval"):
        write_artefact(tmp_path / "model", tensors, document | {part: name})
        before = set(sys.modules)
        with pytest.raises(ArtefactError):
            load(tmp_path / "model")
        assert set(sys.modules) == before
        assert json.loads((tmp_path / "model" / "model.json").read_text())["document"][part] == name


def test_a_model_without_networks_ignores_an_absent_device(folder, recwarn):
    from adacsl import load

    load(saved(folder, "logistic"), device="cuda:7")
    assert [str(warning.message) for warning in recwarn] == []
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps', got 'gpu'"):
        load(saved(folder, "logistic"), device="gpu")
