"""Every method of the table is an estimator: fitted, cloned, set, decided with, saved and loaded without pickle."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from adacsl import METHODS, CostMatrix, CostSensitiveClassifier, load, method
from adacsl.estimators.artefact import ArtefactError
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.metacost import MetaCost
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural.learner import NeuralLearner
from tests.made import adapted_estimator

COSTS = CostMatrix(fp=1, fn=6)
BLIND = ("half", "raw", "negative", "positive")
ALIKE = {"logistic-weighted", "net-tuned-last", "net-calibrated-last", "xgboost", "lightgbm", "catboost",
         "net-bayes-cv",
         "net-calibrated-cv", "net-weighted-cv"}  # fmt: skip
"""Composed of parts that others here have too."""
KINDS = [name for name in METHODS if name not in ALIKE]


def quick(name, **settings):
    """Return a method of the table with few epochs, bags or rounds."""
    if name == "ensemble":
        own = {"estimators": ["logistic", "histogram"], "n_jobs": 1, "random_state": 0, "device": "cpu"}
        return method(name, COSTS, **(own | settings))
    learner = METHODS[name][1].get("learner", "net")
    small = {
        "net": NeuralLearner(epochs=2),
        "boosting": BoostingLearner(n_estimators=15),
        "metacost": SklearnLearner(MetaCost(bags=2), encode=False),
    }.get(learner, learner)
    return method(name, COSTS, **({"learner": small, "random_state": 0, "device": "cpu"} | settings))


@pytest.fixture(scope="module")
def tables(load_module):
    return load_module(Path(__file__).parents[1] / "pins" / "tables.py").tables()


@pytest.fixture(scope="module")
def plain(tables):
    """Numbers and 0/1 labels."""
    X, y = tables["cancer"]
    return X[:200], y[:200]


@pytest.fixture(scope="module")
def rich(tables):
    """Missing values, categories, dates; text labels whose first is positive; groups, weights, per-sample costs."""
    X, y = tables["mixed"]
    rng = np.random.default_rng(0)
    n = 240
    about = {
        "groups": np.arange(n) // 2,
        "sample_weight": rng.uniform(0.5, 2.0, n).round(2) * (rng.random(n) > 0.05),
        "fn": rng.uniform(1.0, 12.0, n),
    }
    return X[:n], np.where(y[:n] == 1, "bad", "good"), about


@pytest.fixture(scope="module")
def made():
    return {}


@pytest.fixture
def on_plain(request, plain, made):
    name = request.param
    if name not in made:
        made[name] = quick(name).fit(*plain)
    return made[name]


@pytest.fixture
def on_rich(request, rich, made):
    name = request.param
    if ("rich", name) not in made:
        X, y, about = rich
        made["rich", name] = quick(name, pos_label="bad").fit(X, y, **about)
    return made["rich", name]


PLAIN = [*KINDS[::2], "metacost", "ensemble", "gbm-tuned"]
"""All methods are fitted on the rich data, half of them on the plain ones."""
every = pytest.mark.parametrize("on_plain", sorted(set(PLAIN)), indirect=True)
every_rich = pytest.mark.parametrize("on_rich", KINDS, indirect=True)


# scikit-learn's grammar


@pytest.mark.parametrize("name", METHODS)
def test_clones_and_settings(name):
    first = quick(name, cv=None if name == "net-smote" else 3)
    second = clone(first)
    assert first is not second
    mine, theirs = first.get_params(), second.get_params()
    assert mine.keys() == theirs.keys()
    for key, value in mine.items():
        assert repr(theirs[key]) == repr(value), key
    method(name).check_settings()
    third = type(first)().set_params(**first.get_params(deep=False))
    assert repr(third) == repr(first)
    assert third.set_params(decide="tuned", random_state=7).get_params()["random_state"] == 7
    with pytest.raises(NotFittedError):
        second.predict(np.zeros((2, 2)))


# decisions


def agree(clf, X, column=1, **given):
    proba = clf.predict_proba(X, **given)
    assert proba.shape == (len(X), 2)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(1), 1.0)
    decided = clf.predict(X, **given) == clf.pos_label_
    if clf.decide in ("negative", "positive"):
        assert decided.tolist() == [clf.decide == "positive"] * len(X)
    elif clf.decide in BLIND:
        np.testing.assert_array_equal(decided, proba[:, column] > 0.5)
    else:
        costs = CostMatrix(fp=np.ones(len(X)), **given) if given else clf.costs_
        np.testing.assert_array_equal(decided, np.asarray(costs.decide(proba[:, column])) == 1)
        if not given:
            clear = np.abs(proba[:, column] - clf.costs_.threshold) > 1e-9
            np.testing.assert_array_equal(decided[clear], (clf.decision_scores(X) > clf.threshold_)[clear])


@every
def test_probabilities_and_decisions_agree(on_plain, plain):
    agree(on_plain, plain[0])
    assert on_plain.costs_ == COSTS
    assert on_plain.score(*plain) == pytest.approx(-COSTS.mean(plain[1], on_plain.predict(plain[0])))


@every_rich
def test_probabilities_and_decisions_agree_for_per_sample_costs(on_rich, rich):
    X, _, about = rich
    assert set(on_rich.predict(X, fn=about["fn"])) <= {"bad", "good"}
    agree(on_rich, X, column=0, fn=about["fn"])
    seen = ~np.isnan(on_rich.oof_scores_)
    assert not (seen & (about["sample_weight"] == 0)).any()  # such samples are not used
    assert on_rich.estimated_cost_.low <= on_rich.estimated_cost_.estimate <= on_rich.estimated_cost_.high


@every_rich
def test_the_estimate_counts_the_weights(on_rich, rich):
    _, y, about = rich
    seen = ~np.isnan(on_rich.oof_scores_)
    truth, own = y[seen] == "bad", CostMatrix(fp=1.0, fn=about["fn"][seen])
    decided = on_rich.decision_.predict(on_rich.oof_scores_[seen], costs=own)
    expected = own.mean(truth, decided, sample_weight=about["sample_weight"][seen])
    if on_rich.cv is None:  # else it is of the average of all models
        assert on_rich.estimated_cost_.estimate == pytest.approx(expected)
    assert min(on_rich.target_costs_.values()) == pytest.approx(expected)


# saving


def same(mine, again, X, **given):
    assert type(again) is type(mine)
    np.testing.assert_array_equal(again.decision_scores(X), mine.decision_scores(X))
    np.testing.assert_array_equal(again.predict_proba(X, **given), mine.predict_proba(X, **given))
    np.testing.assert_array_equal(again.predict(X, **given), mine.predict(X, **given))
    np.testing.assert_array_equal(again.oof_scores_, mine.oof_scores_)
    assert again.classes_.tolist() == mine.classes_.tolist()
    assert again.threshold_ == mine.threshold_
    assert (again.target_threshold_, again.target_costs_) == (mine.target_threshold_, mine.target_costs_)
    assert again.estimated_cost_ == mine.estimated_cost_
    assert again.costs_ == mine.costs_
    assert again.history_.equals(mine.history_)


@every
def test_saved_and_loaded_bit_for_bit(on_plain, plain, tmp_path, no_pickle):
    on_plain.save(tmp_path / "model")
    assert {path.suffix for path in (tmp_path / "model").iterdir()} <= {".json", ".safetensors"}
    again = load(tmp_path / "model", device="cpu")
    same(on_plain, again, plain[0])
    again.save(tmp_path / "again")
    same(on_plain, load(tmp_path / "again", device="cpu"), plain[0])


@every_rich
def test_saved_with_text_labels_categories_and_per_sample_costs(on_rich, rich, tmp_path, no_pickle):
    X, _, about = rich
    on_rich.save(tmp_path / "model")
    for path in (tmp_path / "model").glob("*.json"):
        json.loads(path.read_text())
    again = load(tmp_path / "model", device="cpu")
    same(on_rich, again, X, fn=about["fn"])
    new = X[:5].assign(shop="fax", a=np.nan)  # a level never seen, a gap
    own = {"fn": about["fn"][:5]}
    np.testing.assert_array_equal(again.predict_proba(new, **own), on_rich.predict_proba(new, **own))


class Squashed(ClassifierMixin, BaseEstimator):
    """Has coefficients, and probabilities that are not theirs alone."""

    def fit(self, X, y, sample_weight=None):
        self.coef_, self.intercept_, self.classes_ = np.ones((1, X.shape[1])), np.zeros(1), np.unique(y)
        return self

    def predict_proba(self, X):
        p = 1.0 / (1.0 + np.exp(-0.5 * np.asarray(X).sum(1)))
        return np.stack((1.0 - p, p), axis=1)

    def decision_function(self, X):
        return np.asarray(X).sum(1)


@pytest.mark.parametrize("estimator", [Squashed(), make_pipeline(MinMaxScaler(), Squashed())], ids=["bare", "pipeline"])
def test_custom_classes_cannot_be_saved(estimator, plain, tmp_path):
    clf = adapted_estimator(estimator, COSTS, max_iter=1, random_state=0).fit(plain[0].to_numpy(), plain[1])
    with pytest.raises(ArtefactError, match="cannot be saved without pickle") as caught:
        clf.save(tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("on_plain", ["gbm-tuned", "metacost", "ensemble"], indirect=True)
def test_only_networks_and_logistic_regressions_become_onnx(on_plain, plain, tmp_path):
    pytest.importorskip("onnxscript")
    message = r"only neural networks and logistic regressions.*(with save\(\)|fit estimators=)"
    with pytest.raises(ValueError, match=message) as caught:
        on_plain.export_onnx(tmp_path / "model.onnx", plain[0])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize("pos_label", [None, "ill", "well"])
def test_costs_with_names_follow_their_classes(plain, pos_label):
    X, y = plain
    named = CostMatrix.from_array([[0, 6], [1, 0]], rows="predicted", classes=["well", "ill"])
    labels = np.where(y == 1, "ill", "well")
    made = CostSensitiveClassifier(
        named, learner=LogisticRegression(max_iter=50), pos_label=pos_label, random_state=0
    ).fit(X, labels)
    assert made.pos_label_ == (pos_label or "ill")
    assert made.costs_.to_frame().loc["well", "ill"] == 6
    assert made.costs_.fn == (1 if pos_label == "well" else 6)
