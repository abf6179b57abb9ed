"""Estimators in skops' format: they predict the same when read, and what is forged is refused in one line."""

import contextlib
import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from adacsl.learners import skops_models
from adacsl.learners.arrays import from_numbers, to_numbers

pytest.importorskip("skops", reason="needs adacsl[train]")

rng = np.random.default_rng(0)
X = rng.normal(size=(150, 4))
Y = (X[:, 0] + rng.normal(size=150) > 0).astype(int)
TABLE = pd.DataFrame(X, columns=list("abcd")).assign(shop=np.where(X[:, 1] > 0, "web", "city"))
TEXTS = [f"good {'day' if label else 'night'} number {i % 7}" for i, label in enumerate(Y)]


def columns(numbers=tuple("abcd"), text=("shop",)):
    numbers, text = (list(some) if isinstance(some, tuple) else some for some in (numbers, text))
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers), (OneHotEncoder(handle_unknown="ignore"), text)
    )


SELECTED = columns(make_column_selector(dtype_include=np.number), make_column_selector(dtype_exclude=np.number))
SAVED = {
    "neighbours": (KNeighborsClassifier(algorithm="brute"), X),
    "perceptron": (MLPClassifier((4,), max_iter=5), X),
    "perceptron by sgd": (MLPClassifier((4,), max_iter=5, solver="sgd"), X),
    "calibrated": (CalibratedClassifierCV(LinearSVC(), cv=3), X),
    "calibrated forests": (CalibratedClassifierCV(RandomForestClassifier(3), cv=3, method="isotonic"), X),
    "voting": (VotingClassifier([("a", GaussianNB()), ("b", RandomForestClassifier(3))], voting="soft"), X),
    "stacking": (StackingClassifier([("a", GaussianNB()), ("b", RandomForestClassifier(3))], cv=3), X),
    "bagging": (BaggingClassifier(n_estimators=3), X),
    "ada": (AdaBoostClassifier(n_estimators=3), X),
    "support vectors of words": (make_pipeline(TfidfVectorizer(), SVC()), TEXTS),
    "words": (make_pipeline(CountVectorizer(), MultinomialNB()), TEXTS),
    "columns and a line": (make_pipeline(columns(), LogisticRegression()), TABLE),
    "columns and a forest": (make_pipeline(columns(), RandomForestClassifier(3)), TABLE),
    "selected columns": (make_pipeline(SELECTED, HistGradientBoostingClassifier(max_iter=3)), TABLE),
    "splines": (make_pipeline(SplineTransformer(), LogisticRegression()), X),
    "best columns": (make_pipeline(SelectKBest(k=2), LogisticRegression()), X),
    "a function of numpy": (make_pipeline(FunctionTransformer(np.tanh), LogisticRegression()), X),
}


def answers(model, rows):
    return model.predict_proba(rows) if hasattr(model, "predict_proba") else model.decision_function(rows)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer:UserWarning")
@pytest.mark.parametrize("name", SAVED)
def test_what_is_read_predicts_the_same(name):
    estimator, rows = SAVED[name]
    fitted = estimator.fit(rows, Y)
    arrays, about = to_numbers(fitted)
    assert about["kind"] == "skops"
    again = from_numbers({name: np.array(value) for name, value in arrays.items()}, json.loads(json.dumps(about)))
    assert np.array_equal(answers(fitted, rows), answers(again, rows))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosters_of_libraries_are_saved_by_them(library):
    made = pytest.importorskip(library)
    booster = made.LGBMClassifier(n_estimators=3, verbose=-1) if library == "lightgbm" else made.XGBClassifier()
    fitted = make_pipeline(columns(), booster).fit(TABLE, Y)
    arrays, about = to_numbers(fitted)
    assert [part["kind"] for part in about["parts"]] == ["LibraryBooster"]
    again = from_numbers(arrays, about)
    np.testing.assert_allclose(again.predict_proba(TABLE), fitted.predict_proba(TABLE), atol=1e-6)
    assert np.array_equal(again.predict(TABLE), fitted.predict(TABLE))
    with pytest.raises(TypeError, match="fit a new one"):
        again.steps[-1][1].fit(X, Y)


def own_function(rows):
    return rows


@pytest.mark.parametrize(
    ("estimator", "rows", "match"),
    [
        (KNeighborsClassifier(), X, r"holds sklearn\.neighbors\._kd_tree\.KDTree and .*: take algorithm='brute'"),
        (GaussianProcessClassifier(), X, "holds sklearn.gaussian_process.*: Gaussian processes are not saved"),
        (GradientBoostingClassifier(n_estimators=2), X, "holds sklearn.tree._tree.Tree, .*: take RandomForest"),
        (make_pipeline(FunctionTransformer(own_function), GaussianNB()), X, "own_function, .*: functions and classes"),
        (make_pipeline(HashingVectorizer(input="filename"), GaussianNB()), None, "reads files: use input='content'"),
        (Pipeline([("nb", GaussianNB())], memory="cache"), X, r"Pipeline\(memory=\.\.\.\) reads and writes files"),
        (make_pipeline(SelectFromModel(RandomForestClassifier(2)), GaussianNB()), X, "importances .*: use RFE"),
    ],
)
def test_what_cannot_be_saved_names_the_remedy(estimator, rows, match):
    fitted = estimator if rows is None else estimator.fit(rows, Y)
    with pytest.raises(ValueError, match=f"cannot be saved without pickle: .*{match}") as caught:
        to_numbers(fitted)
    assert "\n" not in str(caught.value)


def test_another_release_of_scikit_learn_is_refused_and_processes_are_not_stored():
    fitted = VotingClassifier([("a", GaussianNB()), ("b", GaussianNB())], n_jobs=2).fit(X, Y)
    assert from_numbers(*to_numbers(fitted)).n_jobs is None
    arrays, about = to_numbers(GaussianNB().fit(X, Y))
    with pytest.raises(ValueError, match=r"saved with scikit-learn 1\.2, and this is 1.*: install that version"):
        from_numbers(arrays, about | {"sklearn": "1.2"})


def test_skops_is_imported_for_what_it_keeps_only():
    code = (
        "import sys; import numpy as np; from sklearn.linear_model import LogisticRegression;"
        "from adacsl.learners.arrays import from_numbers, to_numbers;"
        "from_numbers(*to_numbers(LogisticRegression().fit(np.eye(4), [0, 1, 0, 1])));"
        "sys.exit('skops' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# forged


def content_of(estimator, rows=X):
    return bytes(to_numbers(estimator.fit(rows, Y))[0]["skops"])


def parts_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forged(content, change=lambda schema: schema, *, files=None, compression=zipfile.ZIP_STORED):
    parts = parts_of(content)
    schema = json.loads(parts["schema.json"])
    parts["schema.json"] = json.dumps(change(schema) or schema).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, part in (parts | (files or {})).items():
            archive.writestr(name, part)
    return out.getvalue()


def read(content):
    return from_numbers({"skops": np.frombuffer(content, np.uint8)}, dict(ABOUT))


def attribute(schema, name, value):
    schema["content"]["content"][name] = value


def node(loader, kind="object", module="builtins", **more):
    return {"__loader__": f"{loader}Node", "__class__": kind, "__module__": module, **more}


def text(value):
    return node("Json", "str", content=json.dumps(value), is_json=True)


PLAIN, ABOUT = content_of(GaussianNB()), to_numbers(GaussianNB().fit(X, Y))[1]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (node("Function", "system", "os"), r"holds os\.system, which is not read from files"),
        (node("Function", "eval"), r"holds builtins\.eval"),
        (node("Type", "Popen", "subprocess"), r"holds subprocess\.Popen"),
        (node("Object", "Tree", "sklearn.tree._tree"), "holds sklearn.tree._tree.Tree.*RandomForest"),
        (node("Object", "KDTree", "sklearn.neighbors._kd_tree"), "take algorithm='brute'"),
        (node("Method", "str", content={"func": "format", "obj": text("x")}), "holds a MethodNode, which is not read"),
        (node("Partial", content={}), "holds a PartialNode"),
        (node("OperatorFunc", "methodcaller", "operator", attrs=text([])), "holds a OperatorFuncNode"),
        (node("ConstructorFromReduce", content=text([])), "holds a ConstructorFromReduceNode"),
        (node("Tree"), "holds a TreeNode"),
        (node("List", "mutual_info_classif", "sklearn.feature_selection._mutual_info", content=[]), "holds a ListNode"),
        (node("Loss", "BSpline", "scipy.interpolate._bsplines", __reduce__={"args": text([])}), "holds a LossNode of"),
        (node("Cached", __id__=1), "holds a CachedNode"),
        ({"__loader__": ["JsonNode"], "__class__": "x", "__module__": "y"}, "holds a "),
        (node("Json", 5, content="1"), "holds a JsonNode"),
        (node("NdArray", "ndarray", "numpy", type="numpy", file="../../etc/passwd"), "lacks '../../etc/passwd'"),
        (node("NdArray", "ndarray", "numpy", type="numpy", file=3), "a file without a name"),
    ],
)
def test_forged_nodes_are_refused_by_name(value, match):
    with pytest.raises(ValueError, match=match) as caught:
        read(forged(PLAIN, lambda schema: attribute(schema, "priors", value)))
    assert "\n" not in str(caught.value)


def test_a_vectorizer_that_would_read_files_is_refused(tmp_path):
    words = content_of(make_pipeline(TfidfVectorizer(), MultinomialNB()), TEXTS)

    def change(schema):
        steps = schema["content"]["content"]["steps"]["content"]
        attribute(steps[0]["content"][1], "input", text("filename"))

    with pytest.raises(ValueError, match=r"TfidfVectorizer\(input='filename'\) reads files"):
        read(forged(words, change))


def nested(levels):
    value = text(1)
    for _ in range(levels):
        value = node("List", "list", content=[value])
    return value


def array(shape, dtype="<f8", content=b""):
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"1.npy": array((10**15,))}, "another size than stated"),
        ({"1.npy": array((-1,))}, "another size than stated"),
        ({"1.npy": array((1,), "|O", b"\x80\x04N.")}, "holds objects"),
        ({"1.npy": b"\x93NUMPY\x03\x00" + b"\x00" * 20}, "not an array that adacsl writes"),
        ({"1.npy": b"\x80\x04N."}, "magic string"),
        ({"1.pkl": b"\x80\x04N."}, "a file '1.pkl', which is not read"),
        ({"1.npz": b"PK"}, "zip"),
    ],
)
def test_forged_files_are_refused(files, match):
    with pytest.raises((ValueError, zipfile.BadZipFile), match=match):
        read(forged(PLAIN, files=files))


def test_sparse_matrices_may_not_point_outside_nor_swell():
    words = content_of(make_pipeline(TfidfVectorizer(), SVC()), TEXTS)
    sizes = {name: len(part) for name, part in parts_of(words).items() if name.endswith(".npz")}
    name = max(sizes, key=sizes.__getitem__)
    with zipfile.ZipFile(io.BytesIO(parts_of(words)[name])) as archive:
        inner = {part: archive.read(part) for part in archive.namelist()}

    def rewritten(changed, **how):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", **how) as archive:
            for part, content in (inner | changed).items():
                archive.writestr(part, content)
        return forged(words, files={name: out.getvalue()})

    indices = np.load(io.BytesIO(inner["indices.npy"]))
    indices[0] = 10**6
    outside = io.BytesIO()
    np.save(outside, indices)
    with pytest.raises(ValueError, match="indices must be"):
        read(rewritten({"indices.npy": outside.getvalue()}))
    with pytest.raises(ValueError, match="is not a sparse matrix"):
        read(rewritten({"more.npy": b""}))
    with pytest.raises(ValueError, match="compressed or encrypted"):
        read(rewritten({"data.npy": bytes(10**6)}, compression=zipfile.ZIP_DEFLATED))


def test_bombs_are_refused_before_they_are_read():
    with pytest.raises(ValueError, match="compressed or encrypted"):
        read(forged(PLAIN, files={"1.bin": bytes(10**6)}, compression=zipfile.ZIP_DEFLATED))
    with pytest.raises(ValueError, match="nested in more than 150 levels"):
        read(forged(PLAIN, lambda schema: attribute(schema, "priors", nested(200))))
    with pytest.raises((ValueError, RecursionError)):
        read(forged(PLAIN, files={"schema.json": b"[" * 10**6}))
    big = node("Bytes", "bytes", file="1.bin")
    many = node("List", "list", content=[big] * 10_000)
    with pytest.raises(ValueError, match="names its parts again and again"):
        read(forged(PLAIN, lambda schema: attribute(schema, "priors", many), files={"1.bin": bytes(10**5)}))


def test_a_large_description_and_many_files_are_refused(monkeypatch):
    monkeypatch.setattr(skops_models, "LARGEST_DESCRIPTION", 1000)
    with pytest.raises(ValueError, match="described in more than 1000 bytes, or not at all"):
        read(PLAIN)
    monkeypatch.setattr(skops_models, "MOST_FILES", 2)
    with pytest.raises(ValueError, match="has more than 2 parts"):
        read(PLAIN)


def test_references_lead_nowhere():
    """A node that names its own number would be built for ever; one that is named again, twice as often each level."""

    def circle(schema):
        own = schema["content"]["content"]["priors"]
        schema["__id__"] = own["__id__"] = 7

    assert read(forged(PLAIN, circle)).predict(X).shape == (150,)
    twice = node("List", "list", __id__=1, content=[])
    for number in range(2, 60):
        twice = node("List", "list", __id__=number, content=[twice, {"__id__": number - 1}])
    with pytest.raises((ValueError, KeyError, TypeError)):
        read(forged(PLAIN, lambda schema: attribute(schema, "priors", twice)))


@pytest.mark.parametrize("protocol", [0, 1, 3, True, None])
def test_other_protocols_are_refused(protocol):
    with pytest.raises(ValueError, match="not in skops' protocol 2"):
        read(forged(PLAIN, lambda schema: schema.update(protocol=protocol)))


def test_placeholders_of_no_part_and_forests_that_are_forged_are_refused():
    arrays, about = to_numbers(make_pipeline(columns(), RandomForestClassifier(3)).fit(TABLE, Y))
    with pytest.raises(IndexError):
        from_numbers(arrays, about | {"parts": []})
    feature = arrays["0.feature"].copy()
    feature[0] = 10**6
    with pytest.raises(ValueError, match="the trees are not valid: feature"):
        from_numbers(arrays | {"0.feature": feature}, about)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_descriptions_are_read_or_refused(data):
    """Values that stand where others should make errors, which a caller can catch, and nothing else."""
    schema = json.loads(parts_of(PLAIN)["schema.json"])
    at = schema
    for _ in range(data.draw(st.integers(0, 6))):
        keys = [key for key in at if isinstance(at[key], dict)]
        if not keys:
            break
        at = at[data.draw(st.sampled_from(keys))]
    key = data.draw(st.sampled_from(sorted(at)))
    at[key] = data.draw(st.sampled_from([None, 5, "x", [], {}, "CachedNode", "builtins", "eval", [{}], {"a": 1}]))
    with contextlib.suppress(Exception):
        read(forged(PLAIN, lambda _: schema))
