"""ONNX files of K classes: scores, probabilities and the class of least expected cost, by the full matrix."""

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier, load
from adacsl.neural import NeuralLearner

NAMES = np.asarray(["boat", "car", "tram"])
COSTS = CostMatrix.from_array([[0, 9, 1], [2, 0, 20], [1, 4, 0]], rows="predicted", classes=["tram", "boat", "car"])


def numbers(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    X = np.column_stack(
        [rng.normal(size=n) + y, rng.lognormal(2, 2, n), rng.normal(size=n) - (y == 1), np.full(n, 4.0)]
    )
    X[rng.random(n) < 0.2, 1] = np.nan
    return X, NAMES[y]


def run(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    taken = inputs if isinstance(inputs, dict) else {"inputs": inputs}
    return session.run(["score", "probability", "decision"], taken)


def check(clf, path, X, inputs):
    score, probability, decision = run(path, inputs)
    assert score.shape == probability.shape == (len(X), 3)
    assert np.abs(score - clf.decision_scores(X)).max() < 1e-5
    assert np.abs(probability - clf.predict_proba(X)).max() < 1e-5
    assert decision.dtype == np.int64
    assert np.mean(clf.classes_[decision] == clf.predict(X)) > 0.98  # but for ties
    if clf.decision_.decide not in ("half", "raw"):
        own = np.asarray([clf.costs_.aligned(NAMES.tolist()).to_array()[i] for i in decision])
        assert np.all((own * probability).sum(1) <= (probability @ clf.costs_.to_array().T).min(1) + 1e-9)


def metadata(path):
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


@pytest.mark.parametrize(
    "settings",
    [
        {"cv": 3},
        pytest.param({"decide": "unweighted", "target_threshold": "half"}, marks=pytest.mark.weekly),
        pytest.param({"target_threshold": "middle"}, marks=pytest.mark.weekly),
        {"decide": "tuned"},
        {"decide": "calibrated"},
        {"decide": "half"},
        pytest.param({"decide": "raw", "target_threshold": "half"}, marks=pytest.mark.weekly),
    ],
    ids=repr,
)
def test_nets_of_every_decision(tmp_path, settings):
    X, y = numbers()
    clf = AdaCSLClassifier(COSTS, learner=NeuralLearner(epochs=2), random_state=0, **settings).fit(X, y)
    path = clf.export_onnx(tmp_path / "model.onnx", X[:20])
    more, _ = numbers(77, seed=5)
    more[0] = [1e9, -1e9, np.nan, np.nan]
    check(clf, path, more, more)
    check(clf, path, more[:1], more[:1])
    told = metadata(path)
    assert told["inputs"] == "numbers"
    assert json.loads(told["classes"]) == ["boat", "car", "tram"]
    assert CostMatrix.from_json(told["costs"]) == clf.costs_
    assert clf.costs_.classes == ("boat", "car", "tram")
    assert "threshold" not in told


def test_a_ensemble_of_logistic_regressions_and_nets(tmp_path):
    X, y = numbers()
    clf = EnsembleClassifier(
        COSTS,
        estimators=["logistic", "net", "net-bins"],
        neural=NeuralLearner(epochs=2),
        cv=3,
        n_jobs=1,
        random_state=0,
    ).fit(X, y)
    path = clf.export_onnx(tmp_path / "model.onnx", X[:20])
    more, _ = numbers(77, seed=5)
    check(clf, path, more, more)


def test_a_fold_without_a_class_is_exported_as_it_predicts(tmp_path):
    X, y = numbers(120)
    y[y == "tram"] = "car"
    y[3] = "tram"  # the models of one fold have never seen one
    with pytest.warns(UserWarning, match="fewer rows"):
        clf = EnsembleClassifier(COSTS, estimators=["logistic"], cv=3, n_jobs=1, random_state=0).fit(X, y)
    check(clf, clf.export_onnx(tmp_path / "model.onnx", X[:20]), X, X)


def test_text_is_encoded_by_the_graph(tmp_path):
    X, y = numbers()
    frame = pd.DataFrame({"a": X[:, 0], "c": X[:, 2], "shop": np.where(X[:, 1] > 7, "web", "city")})
    clf = AdaCSLClassifier(COSTS, learner=NeuralLearner(epochs=2), random_state=0).fit(frame, y)
    path = clf.export_onnx(tmp_path / "model.onnx", frame)
    check(clf, path, frame, {"a": X[:, 0], "c": X[:, 2], "shop": frame["shop"].to_numpy(object)})


def picture_net():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )


def test_images_and_what_is_read_from_a_folder(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.choice(3, 90)
    X = (rng.integers(0, 120, (90, 12, 12, 3)) + 40 * y[:, None, None, None]).astype(np.uint8)
    clf = AdaCSLClassifier(
        COSTS, learner=NeuralLearner(module=picture_net, epochs=2, image_size=12), cv=2, random_state=0
    ).fit(X, NAMES[y])
    back = load(clf.save(tmp_path / "model"), module=picture_net)
    assert np.array_equal(back.predict_proba(X), clf.predict_proba(X))
    path = back.export_onnx(tmp_path / "model.onnx", X[:8])
    check(clf, path, X, X)


def test_a_dear_class_is_decided_for_though_it_is_unlikely(tmp_path):
    X, y = numbers()
    costs = CostMatrix.from_array([[0, 1, 500], [1, 0, 500], [1, 1, 0]], rows="predicted", classes=NAMES)
    clf = CostSensitiveClassifier(costs, learner="net", random_state=0).fit(X, y)
    _, probability, decision = run(clf.export_onnx(tmp_path / "model.onnx", X[:20]), X)
    unlikely = probability.argmax(axis=1) != 2
    assert (decision[unlikely] == 2).any()
