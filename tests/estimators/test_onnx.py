"""ONNX files: the same scores, probabilities and decisions as the classifier, and what a reader must know."""

import functools
import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import polars
import pyarrow
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier, load, method
from adacsl.datasets.encoder import SCALINGS, TableEncoder
from adacsl.estimators.onnx import PARTS, Columns, date_parts, graph_inputs, input_columns, matrix_of
from adacsl.neural import NeuralLearner

COSTS = CostMatrix(fp=1, fn=6)
NAMES = np.asarray(["boat", "car", "tram"])
THREE = CostMatrix.from_array([[0, 9, 1], [2, 0, 20], [1, 4, 0]], rows="predicted", classes=["tram", "boat", "car"])


def numbers(n=150, seed=0, k=2):
    rng = np.random.default_rng(seed)
    y = rng.choice(k, n, p=[0.7, 0.3] if k == 2 else [0.5, 0.3, 0.2])
    X = np.column_stack([rng.normal(size=n) + y, rng.lognormal(2, 2, n), rng.integers(0, 3, n), np.full(n, 4.0)])
    X[rng.random(n) < 0.2, 1] = np.nan
    return X, y if k == 2 else NAMES[y]


def fit(X, y, costs=None, **settings):
    costs = (COSTS if len(np.unique(y)) == 2 else THREE) if costs is None else costs
    settings = {"learner": NeuralLearner(epochs=2), "random_state": 0} | settings
    return AdaCSLClassifier(costs, **settings).fit(X, y)


def run(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    taken = inputs if isinstance(inputs, dict) else {"inputs": inputs}
    return session.run(["score", "probability", "decision"], taken)


def check(clf, path, X, inputs):
    score, probability, decision = run(path, inputs)
    assert np.abs(score - clf.decision_scores(X)).max() < 1e-5
    if len(clf.classes_) > 2:
        assert score.shape == probability.shape == (len(X), len(clf.classes_))
        assert np.abs(probability - clf.predict_proba(X)).max() < 1e-5
        assert decision.dtype == np.int64
        assert np.mean(clf.classes_[decision] == clf.predict(X)) > 0.98  # but for ties
        if clf.decision_.decide not in ("half", "raw"):
            expected = probability @ clf.costs_.to_array().T
            own = np.take_along_axis(expected, decision[:, None], axis=1)[:, 0]
            assert np.all(own <= expected.min(1) + 1e-9)
        return
    column = clf.classes_.tolist().index(clf.pos_label_)
    assert np.abs(probability - clf.predict_proba(X)[:, column]).max() < 1e-5
    far = np.abs(score - clf.threshold_) > 1e-5
    assert far.any()
    assert np.array_equal((decision == 1)[far], (clf.predict(X) == clf.pos_label_)[far])


def metadata(path):
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {"cv": 3},
        {"decide": "tuned"},
        {"decide": "calibrated"},
        {"decide": "half"},
        pytest.param({"decide": "unweighted", "target_threshold": "middle"}, marks=pytest.mark.weekly),
        pytest.param({"decide": "raw", "target_threshold": "middle"}, marks=pytest.mark.weekly),
    ],
    ids=repr,
)
def test_numbers_with_missing_values(tmp_path, settings, k):
    X, y = numbers(k=k)
    settings = {
        name: 0.5 if (value, k) == ("half", 2) and name != "decide" else value for name, value in settings.items()
    }
    clf = fit(X, y, **settings)
    path = clf.export_onnx(tmp_path / "model.onnx", X[:20])
    more, _ = numbers(77, seed=5)
    more[0] = [1e9, -1e9, np.nan, np.nan]
    check(clf, path, more, more)
    check(clf, path, more[:1], more[:1])
    document = metadata(path)
    assert document["inputs"] == "numbers"
    assert CostMatrix.from_json(document["costs"]) == clf.costs_
    assert json.loads(document["classes"]) == clf.classes_.tolist()
    assert ("threshold" in document) == (k == 2)
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_ensembles_of_three_classes(tmp_path):
    X, y = numbers(200, k=3)
    settings = {"neural": NeuralLearner(epochs=2), "cv": 3, "n_jobs": 1, "random_state": 0}
    clf = EnsembleClassifier(THREE, estimators=["logistic", "net", "net-bins"], **settings).fit(X, y)
    more, _ = numbers(77, seed=5)
    check(clf, clf.export_onnx(tmp_path / "model.onnx", X[:20]), more, more)
    y[y == "tram"] = "car"
    y[3] = "tram"  # the models of one fold have never seen one
    with pytest.warns(UserWarning, match="fewer rows"):
        clf = EnsembleClassifier(THREE, estimators=["logistic"], **settings).fit(X, y)
    check(clf, clf.export_onnx(tmp_path / "model.onnx", X[:20]), X, X)


def test_a_costly_class_is_predicted_though_it_is_unlikely(tmp_path):
    X, y = numbers(200, k=3)
    costs = CostMatrix.from_array([[0, 1, 500], [1, 0, 500], [1, 1, 0]], rows="predicted", classes=NAMES)
    clf = CostSensitiveClassifier(costs, learner="net", random_state=0).fit(X, y)
    _, probability, decision = run(clf.export_onnx(tmp_path / "model.onnx", X[:20]), X)
    assert (decision[probability.argmax(axis=1) != 2] == 2).any()


def test_frames_of_numbers(tmp_path):
    X, y = numbers()
    frame = pd.DataFrame(X, columns=list("abcd")).astype({"c": int})
    clf = fit(frame, y)
    path = clf.export_onnx(tmp_path / "model.onnx", frame)
    for other in (frame, frame.convert_dtypes(), polars.from_pandas(frame), pyarrow.Table.from_pandas(frame)):
        assert np.allclose(graph_inputs(clf, other)["inputs"], X, equal_nan=True)
        assert np.array_equal(fit(other, y).decision_scores(other), clf.decision_scores(frame))
        check(clf, path, other, X)


def mixed(n=150, seed=0):
    """A table of all kinds of columns with missing values; one column has the name of an output."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    frame = pd.DataFrame(
        {
            "score": rng.normal(size=n) + y,
            "gap": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "shop": np.where(rng.random(n) < 0.5, "web", np.where(y == 1, "city", "")),
            "street": [f"street {int(v)}" for v in rng.exponential(20, n)],
            "always": "the same",
            "when": pd.Timestamp("2023-11-01") + pd.to_timedelta(rng.integers(0, 9000, n), unit="h"),
        }
    )
    return frame, y


def test_text_and_dates_are_encoded_by_the_graph(tmp_path):
    frame, y = mixed()
    clf = fit(frame, y, cv=2)
    path = clf.export_onnx(tmp_path / "model.onnx", frame)
    new, _ = mixed(60, seed=1)
    new.loc[:3, "shop"], new.loc[4:6, "street"], new.loc[7:9, "when"] = "never seen", "", pd.NaT
    new["gap"] = np.nan
    taken = {  # as somebody without adacsl would have it
        "column score": new["score"].to_numpy(),
        "gap": new["gap"].to_numpy(),
        "shop": new["shop"].to_numpy(object),
        "street": new["street"].to_numpy(object),
        "when": np.where(new["when"].isna(), np.nan, new["when"].astype("int64") // 10**6),
    }
    assert set(taken) == set(graph_inputs(clf, new))
    check(clf, path, new, taken)
    document = metadata(path)
    assert document["inputs"] == "columns"
    names = [(column["column"], column["input"]) for column in json.loads(document["columns"])]
    assert names == [("score", "column score"), *((name, name) for name in ("gap", "shop", "street", "when"))]


@given(st.lists(st.floats(-6e10, 2.5e11), min_size=1, max_size=40))
def test_the_graphs_calendar_is_numpys(seconds):
    values = np.asarray(seconds)
    days = np.floor(values).astype("datetime64[s]").astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    parts = dict(zip(PARTS, date_parts(torch.from_numpy(values)).numpy().T, strict=True))
    assert np.array_equal(parts["year"], days.astype("datetime64[Y]").astype(int) + 1970)
    assert np.array_equal(parts["month"], months.astype(int) % 12)
    assert np.array_equal(parts["day"], (days - months).astype(int) + 1)
    assert np.array_equal(parts["weekday"], (days.astype(int) + 3) % 7)
    assert np.array_equal(parts["hour"], np.floor(values).astype(int) % 86400 // 3600)


texts = st.sampled_from(["a", "b", "b b", "", "None", "é", "?", "??"])


@given(st.data(), st.sampled_from(SCALINGS), st.integers(2, 4))
def test_the_graphs_features_are_the_encoders(data, scaling, max_levels):
    n = data.draw(st.integers(2, 30))
    seconds = data.draw(st.lists(st.integers(-(10**10), 10**10), min_size=n, max_size=n))
    table = pd.DataFrame(
        {
            "text": data.draw(st.lists(texts, min_size=n, max_size=n)),
            "number": data.draw(st.lists(st.floats(-1e12, 1e12) | st.just(np.nan), min_size=n, max_size=n)),
            "date": pd.to_datetime(seconds, unit="s"),
        }
    )
    encoder = TableEncoder(scaling=scaling, max_levels=max_levels).fit(table)
    if not encoder.raw_columns(table):
        return
    new = table.sample(frac=1.0, random_state=0).assign(text="new").iloc[: n // 2 + 1]
    for rows in (table, new):
        made = Columns(encoder)(torch.from_numpy(matrix_of(encoder, input_columns(encoder, rows)))).numpy()
        assert np.allclose(made, encoder.transform(rows), rtol=1e-5, atol=1e-5)


def image_network(k=1):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, k)
    )


@pytest.mark.parametrize(("channels", "views", "k"), [(1, 4, 2), (3, 1, 2), (3, 1, 3)])
def test_images(tmp_path, views, channels, k):
    rng = np.random.default_rng(0)
    y = rng.choice(k, 60)
    X = (rng.integers(0, 120, (60, 16, 16, channels)) + 60 * y[:, None, None, None]).astype(np.uint8)
    module = functools.partial(image_network, 1 if k == 2 else 3)
    clf = fit(X, y if k == 2 else NAMES[y], learner=NeuralLearner(module=module, views=views, epochs=2), cv=2)
    back = load(clf.save(tmp_path / "model"), module=module)
    assert np.array_equal(back.predict_proba(X), clf.predict_proba(X))
    path = back.export_onnx(tmp_path / "model.onnx", X[:4])
    check(clf, path, X, X)
    assert metadata(path)["inputs"] == "images"


@pytest.mark.weekly
@pytest.mark.slow
def test_the_default_image_network(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 255, (16, 32, 32, 3)).astype(np.uint8), np.arange(16) % 2
    clf = fit(X, y, learner=NeuralLearner(epochs=1))
    check(clf, clf.export_onnx(tmp_path / "model.onnx", X), X, X)


@pytest.mark.parametrize("pos_label", ["sick", "well"])
def test_metadata_and_custom_networks(tmp_path, pos_label):
    X, y = numbers()
    module = lambda d: nn.Sequential(nn.Linear(d, 4), nn.ReLU(), nn.Linear(4, 2))  # noqa: E731
    learner = NeuralLearner(module=module, epochs=2)
    clf = fit(X, np.where(y == 1, "sick", "well"), learner=learner, cv=2, pos_label=pos_label, decide="tuned")
    path = clf.export_onnx(tmp_path / "model.onnx", X)
    document = metadata(path)
    assert float(document["threshold"]) == clf.threshold_
    assert float(document["bayes_threshold"]) == pytest.approx(1 / 7)
    assert json.loads(document["pos_label"]) == pos_label
    check(clf, path, X, X)


def test_nothing_is_written_when_the_check_fails(tmp_path, monkeypatch):
    X, y = numbers()
    clf = fit(X, y)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        clf.export_onnx(tmp_path / "nowhere" / "model.onnx", X)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"the one before")
    genuine = AdaCSLClassifier.decision_scores
    monkeypatch.setattr(AdaCSLClassifier, "decision_scores", lambda self, X: genuine(self, X) + 2e-5)
    with pytest.raises(RuntimeError, match=r"differs from the classifier by 2e-05: not written"):
        clf.export_onnx(path, X)
    assert path.read_bytes() == b"the one before"
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]
    monkeypatch.setattr(onnx.helper, "set_model_props", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clf.export_onnx(tmp_path / "other.onnx", X)
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_per_sample_costs_are_decided_outside(tmp_path):
    X, y = numbers()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(amount=np.linspace(1, 30, len(y)))
    costs = CostMatrix(fp=2, fn="amount")
    clf = fit(frame, y, costs)
    path = clf.export_onnx(tmp_path / "model.onnx", frame[:20])
    _, probability, decision = run(path, frame.to_numpy())
    far = np.abs(probability - clf.costs_.threshold) > 1e-5
    assert np.array_equal(decision[far], clf.costs_.decide(probability)[far])  # the mean costs
    document = metadata(path)
    assert CostMatrix.from_json(document["cost_spec"]) == costs
    assert "decided outside" in document["note"]
    own = costs.of(frame)
    far = np.abs(probability - own.threshold) > 1e-5
    assert np.array_equal(own.decide(probability)[far], clf.predict(frame)[far])


# logistic regressions


def customers(n=240, seed=0):
    """Numbers with missing values, text and dates, and text labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n)),
            "shop": rng.choice(["web", "city", "mall"], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    y = np.where(frame["age"].fillna(40) + 10 * (frame["shop"] == "web") + rng.normal(0, 8, n) > 48, "yes", "no")
    return frame, y


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("logistic", {"pos_label": "yes"}),
        ("logistic", {"pos_label": "no", "cv": 3, "decide": "tuned"}),
        ("logistic", {"pos_label": "yes", "decide": "calibrated"}),
        ("logistic-weighted", {"pos_label": "yes"}),
    ],
)
def test_a_logistic_regression_of_a_table(tmp_path, name, settings):
    X, y = customers()
    clf = method(name, COSTS, random_state=0, **settings).fit(X, y)
    path = clf.export_onnx(tmp_path / "model.onnx", X)
    check(clf, path, X, graph_inputs(clf, X))
    again = load(clf.save(tmp_path / "model"))
    check(again, again.export_onnx(tmp_path / "again.onnx", X), X, graph_inputs(again, X))


@pytest.mark.parametrize("k", [2, 3])
def test_a_logistic_regression_of_numbers(tmp_path, k):
    X, y = numbers(k=k)
    clf = method("logistic", COSTS if k == 2 else THREE, random_state=0).fit(X, y)
    check(clf, clf.export_onnx(tmp_path / "model.onnx", X), X, X)


def test_a_graph_reads_the_usual_spellings_of_numbers_and_dates_among_text():
    frame = pd.DataFrame({"code": ["1.0", "2.50", "A", "False", "2024-03-31 00:00:00", "NA"] * 4})
    encoder = TableEncoder().fit(frame)
    texts = ["1", "1.0", "True", "true", "2.5", "A", "0", "0.0", "FALSE", "2024-03-31", "2024-03-31T00:00:00", "null"]
    rows = pd.DataFrame({"code": texts})
    taken = matrix_of(encoder, {"code": rows["code"].to_numpy(object)})
    np.testing.assert_array_equal(taken, matrix_of(encoder, input_columns(encoder, rows)))
    np.testing.assert_array_equal(Columns(encoder)(torch.from_numpy(taken)).numpy(), encoder.transform(rows))
