"""ONNX graphs as fitted classifiers: what they answer, what is saved, what is refused."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

from adacsl import CostMatrix, CostSensitiveClassifier, EnsembleClassifier, find_threshold, load  # noqa: E402
from adacsl.integrations import onnx as module  # noqa: E402
from adacsl.integrations.onnx import OnnxClassifier  # noqa: E402

COSTS = CostMatrix(fp=1, fn=6)
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
W = np.asarray([[1.5, -0.5], [-1.0, 0.5], [0.3, 0.0]], dtype=np.float32)
Y = (X @ (W[:, 1] - W[:, 0]) + rng.normal(size=300) > 0).astype(int)
FLOAT, INT, BYTES, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8, TensorProto.STRING


def graph(nodes, inputs=(("x", FLOAT, ["n", 3]),), outputs=(("scores", FLOAT, ["n", 2]),), weights=(), **more):
    """Return the bytes of a graph."""
    made = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs], list(weights),
    )  # fmt: skip
    versions = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(made, opset_imports=versions, ir_version=10, **more).SerializeToString()


def node(kind, inputs, outputs, **more):
    return helper.make_node(kind, inputs, outputs, **more)


WEIGHTS = [helper.make_tensor("w", FLOAT, [3, 2], W.ravel())]
LOGITS = graph([node("MatMul", ["x", "w"], ["scores"])], weights=WEIGHTS)
SOFTMAX = graph([node("MatMul", ["x", "w"], ["z"]), node("Softmax", ["z"], ["scores"], axis=1)], weights=WEIGHTS)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


PROBA = softmax(X @ W.astype(np.float64))


@pytest.mark.parametrize("content", [LOGITS, SOFTMAX], ids=["logits", "softmax"])
@pytest.mark.parametrize("form", ["array", "frame", "dict", "file"])
def test_probabilities_are_those_of_the_graph(tmp_path, content, form):
    (tmp_path / "model.onnx").write_bytes(content)
    own = OnnxClassifier(tmp_path / "model.onnx" if form == "file" else content, labels=["bad", "good"])
    rows = {"frame": pd.DataFrame(X, columns=list("abc")), "dict": {"x": X}}.get(form, X)
    np.testing.assert_allclose(own.predict_proba(rows), PROBA, atol=1e-6)
    assert own.predict(rows).tolist() == np.asarray(["bad", "good"])[PROBA.argmax(axis=1)].tolist()


def test_one_column_of_scores_is_about_the_second_label():
    weights = [helper.make_tensor("w", FLOAT, [3, 1], W[:, 1] - W[:, 0])]
    for shape, nodes in (
        (["n", 1], [node("MatMul", ["x", "w"], ["scores"])]),
        (["n"], [node("MatMul", ["x", "w"], ["z"]), node("Flatten", ["z"], ["f"], axis=1),
                 node("Squeeze", ["f", "one"], ["scores"])]),
    ):  # fmt: skip
        one = [helper.make_tensor("one", INT, [1], [1])] if len(shape) == 1 else []
        own = OnnxClassifier(graph(nodes, outputs=(("scores", FLOAT, shape),), weights=[*weights, *one]))
        np.testing.assert_allclose(own.predict_proba(X), PROBA, atol=1e-6)


@pytest.mark.parametrize("pos_label", ["bad", "good"])
def test_the_decision_alone_is_fitted(tmp_path, pos_label):
    labels = np.asarray(["bad", "good"])
    own = OnnxClassifier(LOGITS, labels=labels.tolist())
    model = CostSensitiveClassifier(COSTS, learner=own, decide="tuned", pos_label=pos_label).fit(X, labels[Y])
    place = labels.tolist().index(pos_label)
    best = find_threshold(PROBA[:, place], (place == Y).astype(int), COSTS)
    np.testing.assert_allclose(model.decision_scores(X), PROBA[:, place], atol=1e-6)
    assert COSTS.mean((place == Y).astype(int), model.decision_scores(X) > model.threshold_) == pytest.approx(best.cost)
    again = load(model.save(tmp_path / "model"))
    assert (again.predict(X) == model.predict(X)).all()
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert load(again.save(tmp_path / "second")).predict(X).tolist() == model.predict(X).tolist()


def test_what_is_read_needs_no_torch(tmp_path):
    model = CostSensitiveClassifier(COSTS, learner=OnnxClassifier(LOGITS), decide="tuned").fit(X, Y)
    model.save(tmp_path / "model")
    code = (
        "import sys, json, numpy as np, adacsl; m = adacsl.load(sys.argv[1]); "
        "print(json.dumps([m.predict(np.ones((2, 3))).tolist(), 'torch' in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [model.predict(np.ones((2, 3))).tolist(), False]


def test_more_than_two_classes_and_a_member_of_an_ensemble(tmp_path):
    weights = rng.normal(size=(3, 3)).astype(np.float32)
    content = graph(
        [node("MatMul", ["x", "w"], ["scores"])], outputs=(("scores", FLOAT, ["n", 3]),),
        weights=[helper.make_tensor("w", FLOAT, [3, 3], weights.ravel())],
    )  # fmt: skip
    y = np.asarray(["a", "b", "c"])[np.argmax(X @ weights + rng.gumbel(size=(300, 3)), axis=1)]
    costs = CostMatrix.from_array([[0, 1, 4], [1, 0, 1], [2, 1, 0]], rows="predicted", classes=list("abc"))
    model = CostSensitiveClassifier(costs, learner=OnnxClassifier(content, labels=list("abc"))).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), softmax(X @ weights), atol=1e-6)
    assert (load(model.save(tmp_path / "model")).predict(X) == model.predict(X)).all()
    from sklearn.linear_model import LogisticRegression

    ensemble = EnsembleClassifier(
        COSTS, estimators=[("graph", OnnxClassifier(LOGITS)), ("line", LogisticRegression())], random_state=0
    ).fit(X, Y)
    assert (load(ensemble.save(tmp_path / "ensemble")).predict(X) == ensemble.predict(X)).all()


def test_copies_share_the_graph():
    own = OnnxClassifier(LOGITS)
    own.predict_proba(X)
    for copied in (clone(own), copy.deepcopy(own), pickle.loads(pickle.dumps(own))):  # noqa: S301  our own
        assert np.array_equal(copied.predict_proba(X), own.predict_proba(X))


def tokens(length=4):
    """Return a graph of two inputs of tokens."""
    table = rng.normal(size=(10, 2)).astype(np.float32)
    return table, graph(
        [node("Gather", ["table", "ids"], ["each"]), node("Unsqueeze", ["mask", "two"], ["m"]),
         node("Cast", ["m"], ["mf"], to=FLOAT), node("Mul", ["each", "mf"], ["kept"]),
         node("ReduceSum", ["kept", "one"], ["scores"], keepdims=0)],
        inputs=(("ids", INT, ["n", length]), ("mask", INT, ["n", length])),
        weights=[helper.make_tensor("table", FLOAT, [10, 2], table.ravel()), helper.make_tensor("two", INT, [1], [2]),
                 helper.make_tensor("one", INT, [1], [1])],
    )  # fmt: skip


def test_tokens_by_name(tmp_path):
    table, content = tokens()
    ids, mask = rng.integers(0, 10, (200, 4)), np.ones((200, 4), dtype=np.int64)
    mask[:, 2:] = rng.integers(0, 2, (200, 1))
    wanted = softmax((table[ids] * mask[:, :, None]).sum(axis=1))
    y = (rng.random(200) < wanted[:, 1]).astype(int)
    given = {"ids": ids, "mask": mask, "other": ids}
    own = OnnxClassifier(content)
    np.testing.assert_allclose(own.predict_proba(given), wanted, atol=1e-6)
    model = CostSensitiveClassifier(COSTS, learner=own, decide="tuned").fit(given, y)
    again = load(model.save(tmp_path / "model"))
    assert (again.predict(given) == model.predict(given)).all()
    short = {"ids": ids[:, :2], "mask": mask[:, :2]}
    padded = {name: np.pad(each, ((0, 0), (0, 2))) for name, each in short.items()}
    assert np.array_equal(again.predict_proba(short), again.predict_proba(padded))
    with pytest.raises(ValueError, match="the graph takes ids, mask, and X lacks mask"):
        again.predict({"ids": ids})
    with pytest.raises(ValueError, match=r"'ids' takes samples of shape \(4,\), got \(5,\)"):
        again.predict({"ids": np.zeros((1, 5), int), "mask": np.zeros((1, 5), int)})
    with pytest.raises(ValueError, match="takes whole numbers"):
        own.predict_proba({"ids": ids + 0.5, "mask": mask})
    with pytest.raises(ValueError, match="onnxruntime cannot evaluate the graph"):
        own.predict_proba({"ids": ids + 100, "mask": mask})


def test_tokens_are_served_as_lists(tmp_path):
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from adacsl.serving.app import make_app

    _, content = tokens()
    ids, mask = rng.integers(0, 10, (60, 4)), np.ones((60, 4), dtype=np.int64)
    y = np.arange(60) % 2
    model = CostSensitiveClassifier(COSTS, learner=OnnxClassifier(content), decide="tuned").fit(
        {"ids": ids, "mask": mask}, y
    )
    client = TestClient(make_app(model, device="cpu", threads=1))
    rows = [{"ids": a, "mask": b} for a, b in zip(ids.tolist(), mask.tolist(), strict=True)]
    answer = client.post("/predict", json={"rows": rows}).json()
    wanted = model.predict({"ids": ids, "mask": mask}).tolist()
    assert [str(each["decision"]) for each in answer["rows"]] == list(map(str, wanted))
    by_column = client.post("/predict", json={"columns": {"ids": ids.tolist(), "mask": mask.tolist()}}).json()
    assert [str(each) for each in by_column["columns"]["decision"]] == list(map(str, wanted))
    assert client.get("/model").json()["columns"][0]["kind"] == "list"
    for wrong, match in (
        ([1, 2, 3, 4, 5], "the list has 5 numbers, the model takes 4"),
        ("1 2 3", "expected a list of numbers"),
        ([1, "a"], "expected a list of numbers"),
        ([[1], [2]], "expected a list of numbers"),
        (None, "expected a list of numbers"),
        ([10**400], "expected a list of numbers"),
    ):
        refused = client.post("/predict", json={"rows": [{"ids": wrong, "mask": [1, 1, 1, 1]}]})
        assert refused.status_code == 422
        assert match in refused.text


def images_graph(kind, shape):
    """Return a graph whose logit is the mean of the first channel."""
    first = helper.make_tensor("first", INT, [1], [0])
    axes = helper.make_tensor("axes", INT, [3], [1, 2, 3])
    channel = 1 if shape[0] in (1, 3) else 3
    nodes = [
        node("Cast", ["x"], ["f"], to=FLOAT), node("Gather", ["f", "first"], ["c"], axis=channel),
        node("ReduceMean", ["c", "axes"], ["m"], keepdims=0), node("Mul", ["m", "scale"], ["scores"]),
    ]  # fmt: skip
    scale = helper.make_tensor("scale", FLOAT, [], [0.01 if kind == BYTES else 1.0])
    inputs, outputs = (("x", kind, ["n", *shape]),), (("scores", FLOAT, ["n"]),)
    return graph(nodes, inputs, outputs, [first, axes, scale])


@pytest.mark.parametrize(
    ("kind", "shape"), [(BYTES, (6, 5, 3)), (BYTES, (3, 6, 5)), (FLOAT, (3, 6, 5)), (FLOAT, (1, 6, 5))]
)
def test_images_in_the_layout_and_normalisation_of_the_graph(tmp_path, kind, shape):
    channels = min(shape)
    pixels = rng.integers(0, 256, (40, 6, 5, channels), dtype=np.uint8)
    y = (pixels[..., 0].mean(axis=(1, 2)) > 127).astype(int)
    own = OnnxClassifier(images_graph(kind, shape), mean=[0.4] * channels, std=[0.2] * channels)
    first = pixels[..., 0].mean(axis=(1, 2))
    logits = 0.01 * first if kind == BYTES else (first / 255 - 0.4) / 0.2
    np.testing.assert_allclose(own.predict_proba(pixels)[:, 1], 1 / (1 + np.exp(-logits)), atol=1e-5)
    model = CostSensitiveClassifier(COSTS, learner=own, decide="tuned").fit(pixels, y)
    assert model.image_shape_ == (6, 5, channels)
    again = load(model.save(tmp_path / "model"))
    assert (again.predict(pixels) == model.predict(pixels)).all()
    with pytest.raises(ValueError, match="images of 6 x 5 pixels"):
        own.predict_proba(pixels[:, :5])


def test_columns_by_name_with_text():
    nodes = [
        node("Equal", ["city", "bern"], ["is"]), node("Cast", ["is"], ["f"], to=FLOAT),
        node("Add", ["f", "amount"], ["scores"]),
    ]  # fmt: skip
    content = graph(
        nodes, (("city", TEXT, ["n", 1]), ("amount", FLOAT, ["n", 1])), (("scores", FLOAT, ["n", 1]),),
        [helper.make_tensor("bern", TEXT, [1], [b"Bern"])],
    )  # fmt: skip
    own = OnnxClassifier(content)
    table = pd.DataFrame({"amount": [1.0, 2.0, -1.0], "city": ["Bern", "Rome", None]})
    wanted = 1 / (1 + np.exp(-np.asarray([2.0, 2.0, -1.0])))
    np.testing.assert_allclose(own.predict_proba(table)[:, 1], wanted, atol=1e-6)
    model = CostSensitiveClassifier(COSTS, learner=own, decide="bayes").fit(
        pd.concat([table] * 10), np.tile([1, 0, 0], 10)
    )
    assert model.predict(table).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="lacks the column 'amount'"):
        own.predict_proba(table[["city"]])
    with pytest.raises(ValueError, match="takes numbers, got text"):
        own.predict_proba(table.assign(amount="much"))


# what is refused


def with_tensor(change):
    model = onnx.ModelProto.FromString(LOGITS)
    change(model)
    return model.SerializeToString()


def external(model):
    weight = model.graph.initializer[0]
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="/etc/passwd")


def own_function(model):
    made = helper.make_function("mine", "F", ["a"], ["b"], [node("Identity", ["a"], ["b"])],
                                [helper.make_opsetid("", 18)])  # fmt: skip
    model.functions.append(made)


def body():
    value = helper.make_tensor_value_info
    return helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Add", ["v", "v"], ["u"])], "b",
        [value("i", INT, []), value("c", TensorProto.BOOL, []), value("v", FLOAT, None)],
        [value("d", TensorProto.BOOL, []), value("u", FLOAT, None)],
    )  # fmt: skip


def branch(deep):
    inner = [node("MatMul", ["x", "w"], ["s"])] if deep == 0 else [node("If", ["c"], ["s"], **branch(deep - 1))]
    if deep == 1:
        inner = [node("RandomNormal", [], ["s"], shape=[1, 2])]
    made = helper.make_graph(inner, "g", [], [helper.make_tensor_value_info("s", FLOAT, None)])
    return {"then_branch": made, "else_branch": made}


YES = [helper.make_tensor("c", TensorProto.BOOL, [], [True])]
REFUSED = {
    "external": (with_tensor(external), "weights in another file"),
    "function": (with_tensor(own_function), "inline them"),
    "custom": (
        graph([node("Open", ["x"], ["scores"], domain="evil.ops")]),
        r"operation evil\.ops\.Open, .*not of the standard",
    ),
    "optimised": (graph([node("EPContext", ["x"], ["scores"], domain="com.microsoft")]), "not of the standard"),
    "loop": (
        graph([node("Loop", ["k", "c", "x"], ["scores"], body=body())],
              weights=[helper.make_tensor("k", INT, [], [2**60]), *YES]),
        "operation Loop, which may never end",
    ),
    "random": (graph([node("RandomNormalLike", ["x"], ["scores"])]), "answers would differ"),
    "hidden": (graph([node("If", ["c"], ["scores"], **branch(2))], weights=[*WEIGHTS, *YES]), "answers would differ"),
    "no graph": (b"\x08\x0a", "empty"),
    "damaged": (LOGITS[:-20], "not an ONNX graph, or it is damaged"),
    "nothing": (b"", "empty"),
    "fixed": (graph([node("MatMul", ["x", "w"], ["scores"])], (("x", FLOAT, [7, 3]),), weights=WEIGHTS), "7 samples"),
    "zip": (
        graph([node("ZipMap", ["x"], ["scores"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])]),
        "onnxruntime does not take the graph",
    ),
    "shape": (
        graph([node("ReduceSum", ["x"], ["scores"], keepdims=0)], outputs=(("scores", FLOAT, []),)),
        "not scores of each",
    ),
    "memory": (
        graph([node("ConstantOfShape", ["s"], ["big"]), node("ReduceSum", ["big"], ["t"], keepdims=0),
               node("MatMul", ["x", "w"], ["z"]), node("Add", ["z", "t"], ["scores"])],
              weights=[*WEIGHTS, helper.make_tensor("s", INT, [2], [10**6, 10**6])]),
        "more than 2 GiB of memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name):
    content, match = REFUSED[name]
    with pytest.raises(ValueError, match=match) as caught:
        CostSensitiveClassifier(COSTS, learner=OnnxClassifier(content)).fit(X, Y)
    assert "\n" not in str(caught.value)


def test_a_graph_without_end_is_ended(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.2)
    size = helper.make_tensor("s", INT, [2], [1500, 1500])
    nodes = [node("ConstantOfShape", ["s"], ["m0"])]
    nodes += [node("MatMul", [f"m{i}", "m0"], [f"m{i + 1}"]) for i in range(2000)]
    nodes += [node("ReduceMax", ["m2000"], ["t"], keepdims=0), node("MatMul", ["x", "w"], ["z"]),
              node("Add", ["z", "t"], ["scores"])]  # fmt: skip
    own = OnnxClassifier(graph(nodes, weights=[*WEIGHTS, size]))
    with pytest.raises(ValueError, match=r"took more than 0\.2 seconds for 300 samples"):
        own.predict_proba(X)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"labels": [1]}, "scores of 2 classes, and labels are"),
        ({"labels": [1, 1]}, "all different"),
        ({"labels": ["a", "b", "c"]}, "scores of 2 classes"),
        ({"output": "other"}, "no output 'other', but scores"),
        ({"scores": "margin"}, "scores must be one of"),
        ({"scores": "probabilities"}, "not probabilities: give OnnxClassifier"),
    ],
)
def test_settings_that_do_not_fit(settings, match):
    with pytest.raises(ValueError, match=match):
        OnnxClassifier(LOGITS, **settings).predict(X)


def test_samples_that_do_not_fit(tmp_path):
    own = OnnxClassifier(LOGITS)
    with pytest.raises(ValueError, match="takes 3 values a sample"):
        own.predict_proba(X[:, :2])
    with pytest.raises(ValueError, match="takes numbers, got text"):
        own.predict_proba(np.full((2, 3), "a"))
    with pytest.raises(ValueError, match="not finite"):
        own.predict_proba(np.full((2, 3), np.nan))
    with pytest.raises(FileNotFoundError, match="cannot read the ONNX graph"):
        _ = OnnxClassifier(tmp_path / "none.onnx").classes_
    with pytest.raises(ValueError, match="was fitted on the classes"):
        CostSensitiveClassifier(COSTS, learner=own, pos_label="b").fit(X, np.asarray(["a", "b"])[Y])
    assert own.predict_proba(X[:0]).shape == (0, 2)
