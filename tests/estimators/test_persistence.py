"""Saved classifiers come back the same, without pickle; damaged ones are refused."""

import copy
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import lightning.pytorch  # noqa: F401  it derives a class from pickle's, which may be gone later
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from torch import nn

import adacsl
from adacsl import AdaCSLClassifier, AdaCSLController, CostMatrix, CostSensitiveClassifier, load
from adacsl.adaptive import UniformBins
from adacsl.estimators.artefact import ArtefactError, read_artefact, write_artefact
from adacsl.neural import NeuralLearner
from tests.made import logistic

COSTS = CostMatrix(fp=1, fn=6, tp=0.25)


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    frame = pd.DataFrame(
        {
            "amount": rng.lognormal(size=n) + y,
            "shop": np.where(rng.random(n) < 0.3 + 0.5 * y, "web", "city"),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**7, n), unit="s"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "amount"] = np.nan
    return frame, y


def images(n=24):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3 == 0
    X = rng.integers(0, 120, (n, 16, 16, 3)).astype(np.uint8)
    X[y] += 100
    return X, y.astype(int)


class Net(nn.Module):
    def __init__(self, features, hidden=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x):
        return self.layers(x)


def image_network():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1)
    )


def fit(X, y, *, net=None, **settings):
    learner = NeuralLearner(**{"epochs": 2} | (net or {}))
    return AdaCSLClassifier(COSTS, **({"learner": learner, "random_state": 0} | settings)).fit(X, y)


def check_same(clf, back, X):
    assert np.array_equal(clf.decision_scores(X), back.decision_scores(X))
    assert np.array_equal(clf.predict_proba(X), back.predict_proba(X))
    decided = back.predict(X)
    assert np.array_equal(clf.predict(X), decided)
    assert decided.dtype == clf.predict(X).dtype
    for name in ["threshold", "target_threshold", "adapted", "costs", "target_costs", "estimated_cost", "pos_label"]:
        assert getattr(clf, f"{name}_") == getattr(back, f"{name}_"), name
    assert clf.decision_.to_dict() == back.decision_.to_dict()
    assert clf.calibration_error_ == back.calibration_error_
    assert back.history_.equals(clf.history_)
    assert np.array_equal(clf.oof_scores_, back.oof_scores_, equal_nan=True)
    assert np.array_equal(clf.classes_, back.classes_)
    assert clf.classes_.dtype == back.classes_.dtype
    assert clf.n_features_in_ == back.n_features_in_


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cv": 3},
        {"target_threshold": "auto", "decide": "unweighted", "cv": 2},
        {"decide": "tuned", "controller": None},
        {"decide": "calibrated", "controller": {"damping": 0.3, "partition": UniformBins(2), "bounds": (0.5, 2.0)}},
        {"decide": "half", "controller": AdaCSLController(COSTS, n_standard_errors=1.0)},
    ],
    ids=repr,
)
def test_tables(tmp_path, settings):
    X, y = table()
    clf = fit(X, y, **settings)
    assert clf.save(tmp_path / "model") == tmp_path / "model"
    back = adacsl.load(tmp_path / "model")
    check_same(clf, back, X)
    assert back.feature_names_in_.tolist() == ["amount", "shop", "when"]
    amounts = np.linspace(1, 50, len(y))
    assert np.array_equal(clf.predict(X, fn=amounts), back.predict(X, fn=amounts))
    assert back.score(X, y) == clf.score(X, y)
    params = back.get_params()
    for name in ("learner__epochs", "random_state", "decide", "cv", "target_threshold"):
        assert params[name] == clf.get_params()[name]
    for name, value in clf.get_params().items():
        if name.startswith("controller__"):
            assert params[name] == (list(value) if isinstance(value, tuple) else value), name
    assert (params["controller"] is None) == (clf.controller is None)
    again = tmp_path / "again"
    back.save(again)
    assert read_artefact(again)[1] == read_artefact(tmp_path / "model")[1]


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [
        (np.array(["no", "yes"]), "yes"),
        (np.array(["no", "yes"], dtype=object), "no"),
        (np.array([False, True]), True),
        (np.array([False, True]), False),
        (np.array([3, 8], dtype=np.int32), 3),
        (np.array([1.0, 2.0]), 2.0),
    ],
)
def test_class_names(tmp_path, labels, pos_label):
    X, y = table()
    clf = fit(X, labels[y], pos_label=pos_label)
    back = adacsl.load(clf.save(tmp_path / "model"))
    check_same(clf, back, X)
    assert type(back.classes_[0]) is type(clf.classes_[0])
    assert back.score(X, labels[y]) == clf.score(X, labels[y])


@pytest.mark.usefixtures("no_pickle")
def test_numbers_without_names(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    X[::7, 1] = np.nan
    clf = fit(X, y)
    back = adacsl.load(clf.save(tmp_path / "model"))
    check_same(clf, back, X)
    assert not hasattr(back, "feature_names_in_")


@pytest.mark.usefixtures("no_pickle")
def test_custom_networks_have_to_be_given_again(tmp_path):
    X, y = table()
    clf = fit(X, y, learner=NeuralLearner(module=Net), cv=2)
    folder = clf.save(tmp_path / "model")
    check_same(clf, adacsl.load(folder, module=Net), X)
    check_same(clf, adacsl.load(folder, module=Net(clf.encoder_.n_features_out_)), X)
    with pytest.raises(ArtefactError, match=r"a custom network: give it too, load\(folder, module="):
        adacsl.load(folder)
    with pytest.raises(ArtefactError, match=r"(?s)the saved weights do not fit .*give the network it was trained with"):
        adacsl.load(folder, module=lambda d: Net(d, hidden=5))


@pytest.mark.usefixtures("no_pickle")
def test_images(tmp_path):
    X, y = images()
    clf = fit(X, y, learner=NeuralLearner(module=image_network, views=4), cv=2)
    back = adacsl.load(clf.save(tmp_path / "model"), module=image_network)
    check_same(clf, back, X)
    assert back.image_shape_ == (16, 16, 3)


@pytest.mark.slow
@pytest.mark.usefixtures("no_pickle")
def test_the_default_image_network_needs_no_module(tmp_path):
    X, y = images()
    clf = fit(X, y, learner=NeuralLearner(epochs=1))
    check_same(clf, adacsl.load(clf.save(tmp_path / "model")), X)


def test_a_loaded_model_can_be_fitted_again(tmp_path):
    X, y = table()
    controller = {
        "damping": 0.9,
        "partition": UniformBins(2),
    }  # lambda changes, and would change otherwise without these
    clf = fit(X, y, cv=2, learner=NeuralLearner(learning_rate=0.02, epochs=4), controller=controller)
    back = adacsl.load(clf.save(tmp_path / "model"))
    assert np.array_equal(back.fit(X, y).predict_proba(X), clf.predict_proba(X))


# damage


@pytest.fixture(scope="module")
def saved_once(tmp_path_factory):
    X, y = table()
    return fit(X, y, learner=NeuralLearner(epochs=1)).save(tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture
def saved(saved_once, tmp_path):
    return Path(shutil.copytree(saved_once, tmp_path / "model"))


def test_an_unfitted_classifier_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        AdaCSLClassifier().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_artefacts_of_another_kind_are_refused_in_a_short_printable_line(tmp_path):
    write_artefact(tmp_path / "other", {}, {"kind": "Something"})
    with pytest.raises(ArtefactError, match=r"holds 'Something', not a classifier of adacsl"):
        adacsl.load(tmp_path / "other")
    write_artefact(tmp_path / "other", {}, {"kind": "\x1b[31m" + "x" * 10**4})
    with pytest.raises(ArtefactError) as caught:
        adacsl.load(tmp_path / "other")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


WRONG = [
    *((path, ...) for path in ("decision", "model", "model.net")),  # absent
    ("costs", {"rows": "predicted", "costs": [[0, -1], [1, 0]]}), ("pos_label", 7), ("pos_label", -1),
    ("model.encoder.columns", []), ("model.net.width", 3), ("target_threshold", "high"), ("params.nonsense", 1),
    ("nested.learner.settings.nonsense", 1), ("decision.mapped", "high"), ("decision.decide", "elsewhere"),
    ("decision.calibration", {"kind": "nonsense"}), ("learner", "stack"), ("kind", ["Method"]), ("notes", [1]),
    ("estimated_cost", ["a", "b", "c"]), ("n_features_in", 2), ("feature_names_in", ["amount", "shop", 3]),
    ("classes.dtype", "V8"), ("classes.values", [[0], [1]]), ("classes.values", [1, 1]),
    # what an untrusted file might want to be built, read or written
    *((f"model.net.{size}", 10**9) for size in ("width", "depth", "bins", "heads", "n_features", "outputs")),
    ("model.net.name", "tabm"), ("model.net.name", "resnet18"), ("model.undone", [0.0] * 10**4),
    ("model.n_classes", 10**9), ("model.settings.weights", "evil.pt"), ("model.settings.image_size", 10**6),
    ("nested.learner.settings.weights", "evil.pt"), ("params.resume", "elsewhere"), ("n_features_in", 10**12),
    ("params.trainer", {"default_root_dir": "elsewhere"}), ("model.encoder.columns.0.missing", 10**9),
    ("model.encoder.columns.1.levels", [{}]), ("model.encoder.columns.0.scales.rank.knots", ["a"]),
]  # fmt: skip
"""Paths in the document of a model with wrong values."""


@pytest.mark.parametrize(("path", "value"), WRONG, ids=[path for path, _ in WRONG])
def test_whole_artefacts_of_wrong_content_are_refused(saved, tmp_path, path, value):
    # right digests, wrong content: made by hand
    tensors, document = read_artefact(saved)
    *way, last = path.split(".")
    place = document
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    write_artefact(tmp_path / "other", tensors, document)
    tracemalloc.start()
    try:
        with pytest.raises(ArtefactError) as caught:
            adacsl.load(tmp_path / "other")
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_a_model_whose_numbers_are_nan_is_refused(saved, tmp_path):
    tensors, document = read_artefact(saved)
    name = next(name for name in tensors if name.endswith("output.bias"))
    write_artefact(tmp_path / "other", tensors | {name: np.full_like(tensors[name], np.nan)}, document)
    with pytest.raises(ArtefactError, match="probabilities must be finite, got nan"):
        adacsl.load(tmp_path / "other")


def test_labels_of_a_wide_kind_are_as_wide_as_they_are(saved, tmp_path):
    tensors, document = read_artefact(saved)
    document["classes"] = {"dtype": f"<U{2**29 - 1}", "values": ["no", "yes"]}  # of 2 GB each
    write_artefact(tmp_path / "other", tensors, document)
    assert adacsl.load(tmp_path / "other").classes_.dtype == np.dtype("<U3")


@pytest.mark.parametrize("size", ["k", "n_blocks", "d_block", "d_embedding", "n_features"])
def test_forged_sizes_of_tabm(tabm, tmp_path, size):
    tensors, document = read_artefact(tabm)
    document["model"]["net"][size] = 10**7
    write_artefact(tmp_path / "other", tensors, document)
    with pytest.raises(ArtefactError, match="the sizes of the network are not those of its weights"):
        adacsl.load(tmp_path / "other")


@pytest.fixture(scope="module")
def tabm(tmp_path_factory):
    pytest.importorskip("tabm")
    X, y = table(80)
    net = {"epochs": 1, "module": {"kind": "tabm", "k": 2, "d_block": 4, "n_bins": 3}}
    return fit(X, y, learner=NeuralLearner(**net)).save(tmp_path_factory.mktemp("tabm") / "model")


def test_a_named_network_is_not_built_unless_the_weights_are_its_own(tmp_path):
    """An image network that would take 2 TB, by a document of a few bytes."""
    X, y = images()
    folder = fit(X, y, learner=NeuralLearner(module=image_network)).save(tmp_path / "model")
    tensors, document = read_artefact(folder)
    document["model"] |= {"net": {"name": "resnet18", "outputs": 10**9}}
    document["costs"] = CostMatrix(fp=1, fn=6).to_dict()
    write_artefact(tmp_path / "other", tensors, document)
    with pytest.raises(ArtefactError, match="outputs is not 2, the number of classes"):
        adacsl.load(tmp_path / "other")
    document["model"]["net"] = {"name": "resnet34"}
    write_artefact(tmp_path / "other", tensors, document)
    with pytest.raises(ArtefactError, match="the shapes of the saved weights are not those of the network"):
        adacsl.load(tmp_path / "other")


LIMITED = """
import resource, sys
import adacsl
from adacsl.estimators.artefact import ArtefactError
adacsl.load(sys.argv[1], device="cpu")
used = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmSize"))) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
for folder in sys.argv[2:]:
    try:
        adacsl.load(folder, device="cpu")
    except ArtefactError as error:
        print(error)
"""


@pytest.mark.weekly
def test_forged_sizes_take_no_memory(saved, tmp_path):
    """In a process that may take 256 MiB more than a good model needs."""
    tensors, document = read_artefact(saved)
    forged = [("net", {"width": 10**8}), ("net", {"depth": 10**6}), ("net", {"heads": 10**8}), ("net", {"bins": 10**9})]
    folders = []
    for number, (part, change) in enumerate(forged):
        other = copy.deepcopy(document)
        other["model"][part] |= change
        folders.append(str(write_artefact(tmp_path / str(number), tensors, other)))
    command = [sys.executable, "-c", LIMITED, str(saved), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the sizes of the network are not those of its weights") == len(folders)


# boosters of scikit-learn's kind, and labels of other kinds


@pytest.mark.parametrize(
    ("package", "name", "settings"),
    [
        ("lightgbm", "LGBMClassifier", {"verbose": -1}),
        ("xgboost", "XGBClassifier", {}),
        ("catboost", "CatBoostClassifier", {"verbose": 0, "allow_writing_files": False}),
    ],
)
def test_boosters_of_three_classes_of_their_libraries_are_saved(tmp_path, package, name, settings):
    learner = getattr(pytest.importorskip(package), name)(n_estimators=10, **settings)
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "shop": rng.choice(["web", "city"], 300)})
    y = np.digitize(X["a"] + 0.3 * rng.normal(size=300), [-0.5, 0.5])
    costs = CostMatrix.from_array(1 - np.eye(3), rows="predicted")
    made = CostSensitiveClassifier(costs, learner=learner, random_state=0).fit(X, y)
    again = load(made.save(tmp_path / "model"))
    np.testing.assert_allclose(again.predict_proba(X), made.predict_proba(X), atol=1e-6)
    assert (again.predict(X) == made.predict(X)).all()


@pytest.mark.parametrize("kind", ["bool[pyarrow]", "boolean", "Int64", "int64[pyarrow]", "int8[pyarrow]"])
def test_labels_of_other_columns_come_back_as_what_they_are(tmp_path, kind):
    X, y = np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) % 2
    plain = y.astype(bool) if "bool" in kind else y
    made = logistic(CostMatrix(fp=1, fn=4)).fit(X, pd.Series(plain).astype(kind))
    for model in (made, load(made.save(tmp_path / "model"))):
        assert model.classes_.dtype.kind == model.predict(X).dtype.kind == plain.dtype.kind
        assert model.score(X, pd.Series(plain).astype(kind)) == model.score(X, plain)


@pytest.mark.parametrize("unit", ["datetime64[D]", "timedelta64[D]"])
def test_labels_that_are_dates_are_refused(unit):
    X, y = np.random.default_rng(0).normal(size=(80, 2)), (np.arange(80) % 2).astype(unit)
    with pytest.raises(ValueError, match=r"labels are numbers, truth values or text, got .* write them as text"):
        CostSensitiveClassifier(CostMatrix(fp=1, fn=4), learner=LogisticRegression(), pos_label=y[1]).fit(X, y)
