"""Classifiers under constraints: who certifies, what is saved, and what goes together."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from adacsl import (
    AdaCSLClassifier,
    CostMatrix,
    CostModel,
    CostSensitiveClassifier,
    EnsembleClassifier,
    Policy,
    load,
    monitor,
)
from adacsl.estimators.evaluation import evaluate
from adacsl.learners import SklearnLearner
from adacsl.thresholds.constraints import InfeasibleError

COSTS = CostMatrix(fp=1, fn=2)
FLOOR = {"min_recall": 0.9}
EMPIRICAL = FLOOR | {"confidence": None}


def drawn(n=2000, seed=0, frame=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X @ [1.5, -1.0, 0.5] + rng.logistic(size=n) > 1.0).astype(int)
    return (pd.DataFrame(X, columns=["a", "b", "c"]) if frame else X), y


def most_false_negatives(positives, floor=0.9, error=0.05):
    return max((x for x in range(positives) if binom.cdf(x, positives, 1.0 - floor) <= error), default=-1)


def recall(model, X, y, **costs):
    return float((model.predict(X, **costs) == 1)[y == 1].mean())


def logistic(constraints=FLOOR, costs=COSTS, **settings):
    settings = {"learner": LogisticRegression(max_iter=500), "random_state": 0} | settings
    return CostSensitiveClassifier(costs, constraints=constraints, **settings)


CLASSIFIERS = {
    "logistic": (CostSensitiveClassifier, {"learner": LogisticRegression()}),
    "tuned": (CostSensitiveClassifier, {"learner": LogisticRegression(), "decide": "tuned"}),
    "calibrated": (CostSensitiveClassifier, {"learner": GaussianNB(), "decide": "calibrated"}),
    "cross-fitted": (CostSensitiveClassifier, {"learner": LogisticRegression(), "cv": 3}),
    "adapted": (AdaCSLClassifier, {"learner": LogisticRegression()}),
    "histogram": (AdaCSLClassifier, {"learner": HistGradientBoostingClassifier(max_iter=20)}),
    "ensemble": (EnsembleClassifier, {"estimators": ["logistic", GaussianNB()], "n_jobs": 1, "cv": 3}),
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_the_floor_holds_on_samples_that_trained_nothing(kind, tmp_path):
    X, y = drawn()
    made, settings = CLASSIFIERS[kind]
    model = made(COSTS, constraints=FLOOR, random_state=0, **settings).fit(X, y)
    known = model.constraints_["min_recall"]
    assert known.samples == pytest.approx(0.2 * y.sum(), abs=2)
    false_negatives = round((1.0 - known.estimate) * known.samples)
    # a fifth of the samples were set aside, and as few positives are false_negatives as the confidence asks for
    assert false_negatives <= most_false_negatives(int(known.samples))
    assert known.guaranteed >= 0.9
    assert recall(model, *drawn(5000, 1)) > 0.88
    assert model.decision_.constraints.min_recall == 0.9
    again = load(model.save(tmp_path / "model"))
    new = drawn(300, 2)[0]
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert again.constraints == FLOOR
    assert again.constraints_ == model.constraints_
    assert again.decision_.factor_ == model.decision_.factor_


@pytest.mark.parametrize("timed", [False, True])
def test_certifying_samples_train_nothing_and_are_the_latest(timed):
    X, y = drawn()
    when = np.random.default_rng(0).permutation(len(y)) if timed else None
    seen = []

    class Recorder(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append(np.asarray(X)[:, 0].tolist())
            return super().fit(X, y, sample_weight)

    model = logistic(learner=SklearnLearner(Recorder(), encode=False), certify=0.3).fit(X, y, time=when)
    assert max(map(len, seen)) <= 1400
    assert model.constraints_["min_recall"].samples == pytest.approx(0.3 * y.sum(), abs=40 if timed else 2)
    if timed:
        assert not set(X[when >= 1400, 0]) & set(itertools.chain(*seen))
    else:
        assert np.isnan(model.oof_scores_).sum() == 600


def test_a_frozen_estimator_certifies_on_all_samples():
    own = LogisticRegression().fit(*drawn(seed=5))
    X, y = drawn()
    model = logistic(learner=FrozenEstimator(own), decide="tuned").fit(X, y)
    assert model.constraints_["min_recall"].samples == y.sum()
    false_negatives = ((model.predict(X) == 0) & (y == 1)).sum()
    assert false_negatives <= most_false_negatives(y.sum())
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    calibrated = logistic(learner=FrozenEstimator(own), decide="calibrated").fit(X, y)
    assert calibrated.constraints_["min_recall"].samples == pytest.approx(0.2 * y.sum(), abs=2)


def test_without_confidence_out_of_fold_scores_meet_the_floor(tmp_path):
    X, y = drawn()
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    groups = np.arange(len(y)) // 4
    model = logistic(EMPIRICAL).fit(X, y, sample_weight=weight, groups=groups)
    caught = (model.decision_.predict(model.oof_scores_) == 1) & (y == 1)
    assert weight[caught].sum() >= 0.9 * weight[y == 1].sum()
    assert model.constraints_["min_recall"].guaranteed is None
    again = load(model.save(tmp_path / "model"))
    assert again.constraints_ == model.constraints_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_what_a_confidence_does_not_go_with():
    X, y = drawn(400)
    model = logistic()
    with pytest.raises(ValueError, match="leave out sample_weight"):
        model.fit(X, y, sample_weight=np.ones(400) + (np.arange(400) == 0))
    with pytest.raises(ValueError, match="leave out groups"):
        model.fit(X, y, groups=np.arange(400) // 2)
    with pytest.raises(ValueError, match="constraints are for two classes, the labels have 3"):
        logistic(costs=None).fit(X, np.arange(400) % 3)
    three = CostMatrix.from_array(1 - np.eye(3), rows="predicted")
    with pytest.raises(ValueError, match="constraints are for two classes, the costs have 3"):
        logistic(costs=three).fit(X, np.arange(400) % 3)
    with pytest.raises(ValueError, match="a policy would move the threshold"):
        clone(model).set_params(policy=Policy(refer=0.2)).fit(X, y)
    with pytest.raises(ValueError, match="certify must be a share"):
        clone(model).set_params(certify=1.0).fit(X, y)
    with pytest.raises(TypeError, match="constraints must be a dict"):
        clone(model).set_params(constraints=0.9).fit(X, y)
    with pytest.raises(InfeasibleError, match=r"positives are needed, .* more"):
        model.fit(X[:100], y[:100])
    fitted = clone(model).set_params(certify=0.5).fit(X, y)
    with pytest.raises(ValueError, match=r"a policy .* would move the threshold"):
        fitted.predict(X, refer=0.1)


def test_the_estimated_cost_is_that_of_the_constrained_decisions():
    X, y = drawn(6000)
    free, model = logistic(None).fit(X, y), logistic().fit(X, y)
    new, labels = drawn(20_000, 3)
    assert -model.score(new, labels) > -free.score(new, labels)
    assert model.estimated_cost_.low < -model.score(new, labels) < model.estimated_cost_.high
    assert model.estimated_cost_.estimate > free.estimated_cost_.estimate
    # probabilities are those of the learner
    assert model.calibration_error_ < 0.05


@pytest.mark.parametrize("form", ["array", "expression", "model"])
@pytest.mark.parametrize("loss", ["plain", "instance-weighted"])
def test_costs_of_each_sample(form, loss):
    X, y = drawn(3000, frame=True)
    rng = np.random.default_rng(0)
    X["amount"] = rng.lognormal(0.5, 0.7, len(X))
    fn = {"array": None, "expression": "amount", "model": CostModel("amount")}[form]
    costs = COSTS if form == "array" else CostMatrix(fp=1, fn=fn)
    given = {"fn": X["amount"].to_numpy()} if form == "array" else {}
    model = logistic(costs=costs, loss=loss).fit(X, y, **given)
    assert model.constraints_["min_recall"].guaranteed >= 0.9
    other, labels = drawn(3000, 4, frame=True)
    other["amount"] = rng.lognormal(0.5, 0.7, len(other))
    given = {"fn": other["amount"].to_numpy()} if form == "array" else {}
    assert recall(model, other, labels, **given) > 0.88
    decided = model.predict(other, **given)
    alone = [model.predict(other.iloc[[i]], **{k: v[[i]] for k, v in given.items()})[0] for i in range(10)]
    np.testing.assert_array_equal(decided[:10], alone)


def test_recall_within_each_segment(tmp_path):
    X, y = drawn(6000, frame=True)
    X["region"] = np.where(np.arange(6000) % 3 == 0, "north", "south")
    X.loc[X["region"] == "north", "a"] -= 0.7  # where recall is lower
    model = logistic(FLOOR | {"segments": "region"}).fit(X, y)
    assert set(model.constraints_) == {"min_recall of north", "min_recall of south"}
    assert all(each.guaranteed >= 0.9 for each in model.constraints_.values())
    model = load(model.save(tmp_path / "model"))
    assert model.constraints["segments"] == "region"
    new, labels = drawn(9000, 1, frame=True)
    new["region"] = np.where(np.arange(9000) % 3 == 0, "north", "south")
    new.loc[new["region"] == "north", "a"] -= 0.7
    caught = pd.Series(model.predict(new) == 1)[labels == 1].groupby(new["region"][labels == 1]).mean()
    assert caught.min() > 0.88
    result = monitor(model, new, labels)
    assert [check.name for check in result.labels.constraints] == [
        "min_recall", "min_recall of north", "min_recall of south"
    ]  # fmt: skip
    assert any("Recall of north 0." in sentence for sentence in result.sentences)
    assert set(model.retune(new, labels).constraints_) == set(model.constraints_)
    with pytest.raises(ValueError, match="X has no column 'county'"):
        logistic(FLOOR | {"segments": "county"}).fit(X, y)


def test_separate_validation_data():
    X, y = drawn()
    model = logistic(decide="tuned", validation=drawn(500, 8)).fit(X, y)
    assert model.constraints_["min_recall"].samples == pytest.approx(0.2 * y.sum(), abs=2)


def test_searches_and_clones():
    X, y = drawn()
    model = logistic()
    assert clone(model).get_params()["constraints__min_recall"] == 0.9
    search = GridSearchCV(model, {"constraints__min_recall": [0.85, 0.95]}, cv=2).fit(X, y)
    assert search.best_params_ == {"constraints__min_recall": 0.85}
    assert model.constraints == FLOOR
    assert repr(search.best_estimator_.decision_).count("min_recall") == 1


def test_evaluated_monitored_and_tuned_again(tmp_path):
    model = load(logistic().fit(*drawn(4000)).save(tmp_path / "model"))
    new, labels = drawn(4000, 1)
    result = evaluate(model, [(new, labels)])
    assert result.threshold == model.decision_.probability_threshold
    assert result.counts[1, 1] / labels.sum() == recall(model, new, labels)
    assert not monitor(model, new, labels).constraints_violated
    moved = new - 0.5 * np.asarray([1.0, 0.0, 0.0])
    when = np.arange(4000) // 1000
    worse = monitor(model, moved, labels, time=when)
    check = worse.labels.constraints[0]
    assert check.name == "min_recall"
    assert check.violated
    assert check.now.estimate == pytest.approx(recall(model, moved, labels))
    assert worse.constraints_violated
    assert worse.recommendation == "retune"
    assert "recall" in worse.headline
    assert "below the required 0.9" in worse.headline
    assert sum(window.constraints[0].violated for window in worse.windows) >= 3
    assert worse.to_dict()["labels"]["constraints"][0]["violated"] is True
    fresh = model.retune(moved, labels)
    assert recall(fresh, moved, labels) >= 0.9
    assert fresh.constraints_["min_recall"].samples == labels.sum()
    assert not monitor(fresh, moved, labels).constraints_violated


def test_exported_graph_decides_alike(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    import onnxruntime

    X, y = drawn(3000)
    model = logistic(learner="logistic").fit(X, y)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.export_onnx(path, X[:50])
    session = onnxruntime.InferenceSession(path)
    outputs = session.run(None, {session.get_inputs()[0].name: X})
    clear = np.abs(outputs[1] - model.decision_.probability_threshold) > 1e-5
    np.testing.assert_array_equal(outputs[2][clear], model.predict(X)[clear])
