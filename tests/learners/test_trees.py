"""Trees and forests of scikit-learn come back from arrays with the same bits; arrays that are no trees are refused."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from threadpoolctl import threadpool_limits

from adacsl import CostMatrix, CostSensitiveClassifier, load
from adacsl.estimators.artefact import ArtefactError
from adacsl.learners.arrays import from_numbers, to_numbers
from adacsl.learners.histogram_boosting import HistogramBoosting
from tests.made import adapted_estimator

COSTS = CostMatrix(fp=1, fn=5)


@pytest.fixture(autouse=True, scope="module")
def one_openmp_thread():
    """Threads that wait for each other on a busy machine are slower than one."""
    with threadpool_limits(1):
        yield


def rows(n=250, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n) > 0.4).astype(np.int64)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def with_kinds(n=300):
    X, y = rows(n, missing=0.1)
    kind = np.random.default_rng(1).choice([*"uvwxyz", None], n)
    return pd.DataFrame(X, columns=list("abcd")).assign(kind=kind), y ^ (kind == "u")


def again(model):
    """The model, written and read; the document goes through JSON elsewhere."""
    arrays, about = to_numbers(model)
    return from_numbers({name: value.copy() for name, value in arrays.items()}, copy.deepcopy(about))


MODELS = [
    ExtraTreesClassifier(7, random_state=0),
    ExtraTreesClassifier(5, max_depth=1, random_state=0),
    RandomForestClassifier(7, random_state=0, class_weight="balanced"),
    RandomForestClassifier(5, max_leaf_nodes=9, criterion="entropy", random_state=0),  # nodes in another order
    RandomForestClassifier(4, ccp_alpha=0.01, random_state=0),
    RandomForestClassifier(3, min_samples_leaf=200, random_state=0),  # nothing but leaves
    DecisionTreeClassifier(random_state=0),
    DecisionTreeClassifier(max_depth=1),
    ExtraTreeClassifier(random_state=0),
    HistGradientBoostingClassifier(max_iter=9, random_state=0),
    HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=200, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize(("missing", "n_classes"), [(0.0, 2), (0.2, 2), (0.2, 3), (0.0, 7)])
def test_the_same_bits_as_scikit_learn(model, missing, n_classes):
    X, y = rows(missing=missing)
    y = y if n_classes == 2 else (y + np.arange(len(y)) % (n_classes - 1)) * 2  # codes that are not consecutive
    model.fit(X, y)
    read = again(model)
    assert type(read) is type(model)
    for dtype in (np.float64, np.float32):
        X = rows(400, 1, missing=0.1)[0].astype(dtype)
        np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(read.predict(X), model.predict(X))


@pytest.mark.parametrize("model", MODELS[:9], ids=str)
def test_other_questions_are_answered_as_before(model):
    X, y = rows()
    read = again(model.fit(X, y))
    np.testing.assert_array_equal(read.apply(X), model.apply(X))
    np.testing.assert_array_equal(read.predict_proba(sparse.csr_array(X)), model.predict_proba(sparse.csr_array(X)))
    with pytest.raises(ValueError, match="3 features"):
        read.predict(X[:, :3])
    paths = [of.decision_path(X) for of in (read, model)]  # written into memory that the depth reserves
    paths = [path[0] if isinstance(path, tuple) else path for path in paths]
    np.testing.assert_array_equal(paths[0].toarray(), paths[1].toarray())


def test_a_split_on_missing_values_alone_has_an_infinite_threshold():
    X = np.where(np.arange(40) % 2, np.nan, 1.0)[:, None]
    model = DecisionTreeClassifier().fit(X, np.isnan(X[:, 0]))
    assert np.isinf(to_numbers(model)[0]["threshold"]).all()
    np.testing.assert_array_equal(again(model).predict(X), np.isnan(X[:, 0]))


@pytest.mark.parametrize("model", [MODELS[0], MODELS[6], MODELS[9]], ids=str)
def test_a_model_that_was_read_is_written_pickled_and_fitted_again_and_has_its_names_and_classes(model):
    X, y = rows()
    frame, words = pd.DataFrame(X, columns=list("abcd")), np.where(y, "bad", "good")
    read = again(model.fit(frame, words))
    for other in (read, again(read), pickle.loads(pickle.dumps(read)), copy.deepcopy(read)):  # noqa: S301
        np.testing.assert_array_equal(other.predict_proba(frame), model.predict_proba(frame))
        np.testing.assert_array_equal(other.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        read.predict(frame[["b", "a", "c", "d"]])
    assert read.fit(X, 1 - y).predict(X).shape == y.shape


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (RandomForestClassifier(2), np.zeros(250), "RandomForestClassifier cannot be saved without pickle unless"),
        (DecisionTreeClassifier(), np.ones((250, 2), dtype=int), "unless it has one output of two or more classes"),
        (HistGradientBoostingClassifier(max_iter=2, categorical_features=[0]), None, "has categorical features"),
        (ExtraTreesClassifier(), "unfitted", "not fitted"),
    ],
)
def test_what_cannot_be_saved_is_an_error(model, y, message):
    X, two = rows()
    X[:, 0] = np.arange(250) % 5
    if not isinstance(y, str):
        model.fit(X, two if y is None else y)
    with pytest.raises(ValueError, match=message):
        to_numbers(model)


@pytest.mark.parametrize("learner", [MODELS[0], MODELS[6], MODELS[9]], ids=str)
def test_methods_with_forests_are_saved(learner, tmp_path):
    frame, y = with_kinds(150)
    for made, X in (
        (CostSensitiveClassifier(COSTS, learner=learner, decide="tuned", random_state=0), frame),
        (adapted_estimator(learner, COSTS, max_iter=2, random_state=0), frame[list("abcd")]),
    ):
        made.fit(X, y)
        read = load(made.save(tmp_path / "model"))
        np.testing.assert_array_equal(read.predict_proba(X), made.predict_proba(X))


# tampering


def put(name, place, value):
    """Return a change of one number."""

    def change(arrays, about):
        arrays[name][place] = value

    return change


def swap(name, to):
    """Return a change of a whole array."""

    def change(arrays, about):
        arrays[name] = to(arrays[name])

    return change


def about_of(**other):
    """Return a change of the document."""

    def change(arrays, about):
        about.update(other)

    return change


ANY_TREES = {
    "a child beyond the end": put("left", 0, 10**6),
    "a child of another tree": swap("right", lambda a: np.where(a == a.max(), a.max() + 40, a).astype(np.int32)),
    "a child below -1": put("right", 0, -2),
    "only one child": put("right", 0, -1),
    "a leaf with one child": put("right", -1, 0),
    "the root as child": put("left", 0, 0),
    "two parents": put("left", 0, 2),
    "a wrong leaf": put("left", 0, -1),
    "a feature beyond the last": put("feature", 0, 4),
    "a negative feature": put("feature", 0, -1),
    "a threshold that is no number": put("threshold", 0, np.nan),
    "an endless value": put("value", 0, np.inf),
    "sizes beyond memory": put("sizes", 0, 2**62),
    "sizes that wrap around": swap("sizes", lambda a: np.asarray([2**62] * 4 + [a.sum()])),
    "an empty tree": swap("sizes", lambda a: np.asarray([0, *a])),
    "no tree": swap("sizes", lambda a: a[:0]),
    "floats as children": swap("left", lambda a: a.astype(np.float64)),
    "features of 64 bits": swap("feature", lambda a: a.astype(np.int64) + 2**40),
    "an array gone": lambda arrays, about: arrays.pop("threshold"),
    "long thresholds": swap("threshold", lambda a: np.append(a, 1.0)),
} | {
    f"{damage} {name}": swap(name, how)
    for name in ("left", "right", "feature", "threshold", "missing", "value", "sizes")
    for damage, how in {"short": lambda a: a[:-1], "a table of": lambda a: a[None], "single": lambda a: a[0]}.items()
}
OTHER_CLASSES = {f"classes {classes}": about_of(classes=classes) for classes in ([0, 1], [0, 1, 2, 3], [0], 3)}
FOREST = ANY_TREES | {
    "values of three classes": swap("value", lambda a: np.repeat(a, 2, axis=1)[:, :3]),
    "values of one class": swap("value", lambda a: a[:, 0]),
    "fewer features": about_of(features=1),
    "no features": about_of(features=0),
    "endless features": about_of(features=10**30),
    "features in words": about_of(features="4"),
    "three classes": about_of(classes=[0, 1, 2]),
    "a single tree": about_of(kind="DecisionTreeClassifier"),
}
PLAIN_BOOSTING = ANY_TREES | {
    "more features": about_of(features=5),
    "a category": swap("categorical", np.ones_like),
    "a category with a set": lambda arrays, about: arrays.update(
        categorical=np.ones_like(arrays["categorical"]), known=np.zeros((1, 8), np.int64),
        category_sets=np.zeros((1, 8), np.int64),
    ),
}  # fmt: skip
BOOSTING = {name: change for name, change in ANY_TREES.items() if name != "a feature beyond the last"} | {
    "a feature beyond the fifth": put("feature", 0, 5),
    "a set beyond the last": swap("category_set", lambda a: np.full_like(a, 10**6)),
    "a negative set": swap("category_set", lambda a: np.full_like(a, -1)),
    "no sets": swap("category_sets", lambda a: a[:0]),
    "narrow sets": swap("category_sets", lambda a: np.ascontiguousarray(a[:, :4])),
    "narrow known categories": swap("known", lambda a: np.ascontiguousarray(a[:, :1])),
    "a place beyond the last": swap("places", lambda a: a + 7),
    "a negative place": swap("places", lambda a: a - 1),
    "short places": swap("places", lambda a: a[:1]),
    "all nodes with categories": swap("category_set", lambda a: np.full_like(a, 2**30)),
    "a column twice": put("order", 0, 1),
    "a column beyond the last": put("order", 0, 99),
    "columns in a table": swap("order", lambda a: a[None]),
    "half columns": swap("order", lambda a: a.astype(np.float64)),
    "an endless start": put("start", 0, np.nan),
    "no start": lambda arrays, about: arrays.pop("start"),
}


FOREST_OF_THREE = OTHER_CLASSES | {
    "values of two": swap("value", lambda a: np.ascontiguousarray(a[:, :2])),
    "flat values": swap("value", lambda a: a[:, 0].copy()),
}
BOOSTING_OF_THREE = OTHER_CLASSES | {
    "a start of two": swap("start", lambda a: a[:2]),
    "a start of one": swap("start", lambda a: a[:1]),
    "no start": swap("start", lambda a: a[:0]),
    "a start in a table": swap("start", lambda a: a[None]),
    "a round of two trees": lambda arrays, about: arrays.update(last_tree_gone(arrays)),
}


@pytest.fixture(scope="module")
def numbers_of():
    """Numbers of a forest, of boosting, and of boosting with categories."""
    X, y = rows(missing=0.1)
    models = {
        "forest": RandomForestClassifier(5, random_state=0).fit(X, y),
        "plain": HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(X, y),
        "boosting": HistogramBoosting(0).fit(*with_kinds()),
        "forest of three": RandomForestClassifier(5, random_state=0).fit(X, y + np.arange(len(y)) % 2),
        "plain of three": HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(X, y + np.arange(len(y)) % 2),
    }
    return {name: to_numbers(model) for name, model in models.items()}


def last_tree_gone(arrays):
    """All arrays of trees without the last of them."""
    nodes = int(arrays["sizes"][-1])
    leaves = int((arrays["left"][-nodes:] == -1).sum())
    shorter = {"left": nodes, "right": nodes, "sizes": 1, "value": leaves}
    splits = dict.fromkeys(("feature", "threshold", "missing", "categorical", "category_set"), nodes - leaves)
    return {name: arrays[name][: len(arrays[name]) - less] for name, less in (shorter | splits).items()}


def copy_of(numbers):
    return {name: value.copy() for name, value in numbers[0].items()}, copy.deepcopy(numbers[1])


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param(kind, change, id=f"{kind}: {name}")
        for kind, table in (
            ("forest", FOREST),
            ("plain", PLAIN_BOOSTING),
            ("boosting", BOOSTING),
            ("forest of three", FOREST_OF_THREE),
            ("plain of three", BOOSTING_OF_THREE),
        )
        for name, change in table.items()
    ],
)
def test_what_is_no_tree_is_refused(kind, change, numbers_of):
    arrays, about = copy_of(numbers_of[kind])
    change(arrays, about)
    with pytest.raises(ValueError, match="the trees are not valid"):
        from_numbers(arrays, about)


@given(
    st.sampled_from(["forest", "plain", "boosting", "forest of three", "plain of three"]),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10**6), st.integers(-3, 300)), min_size=1, max_size=4),
)
def test_changed_numbers_are_refused_or_predict(numbers_of, kind, changes):
    arrays, about = copy_of(numbers_of[kind])
    for which, place, value in changes:
        changed = arrays[sorted(arrays)[which % len(arrays)]].reshape(-1)
        if changed.size:
            changed[place % changed.size] = np.asarray(value).astype(changed.dtype)
    X = with_kinds(60)[0]
    try:
        model = from_numbers(arrays, about)
    except ValueError:
        return
    assert np.isfinite(model.predict_proba(X if kind == "boosting" else X.to_numpy()[:, :4].astype(float))).all()


def test_a_forged_folder_is_an_error_of_artefacts(tmp_path):
    made = CostSensitiveClassifier(COSTS, learner=RandomForestClassifier(2, random_state=0), random_state=0)
    arrays, about = to_numbers(made.fit(*rows(80)).model_.estimators[0])
    made.model_.numbers = lambda: (
        {f"0.{name}": value for name, value in (arrays | {"right": arrays["right"] * 9}).items()},
        {"encoder": None, "undone": 0.0, "estimators": [about]},
    )
    with pytest.raises(ArtefactError, match="the trees are not valid: children cannot be right"):
        load(made.save(tmp_path / "model"))
