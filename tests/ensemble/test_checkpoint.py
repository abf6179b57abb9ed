"""An ensemble is kept: saved and read, resumed, pickled, exported, and at home in scikit-learn."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import joblib
import lightning.pytorch as pl
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import adacsl
from adacsl import CostMatrix, CostSensitiveClassifier, EnsembleClassifier
from adacsl.estimators.artefact import ArtefactError
from adacsl.estimators.onnx import graph_inputs
from adacsl.learners.boosting import BoostingLearner
from adacsl.learners.histogram_boosting import HistogramBoosting
from adacsl.learners.sklearn import SklearnLearner
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=6)
NET = CostSensitiveClassifier(learner=NeuralLearner({"width": 4, "depth": 1}, epochs=2), select="log-loss")
BENT = CostSensitiveClassifier(learner=NeuralLearner({"bins": 4, "width": 4, "depth": 1}, epochs=2), select="log-loss")
STEERED = CostSensitiveClassifier(learner=NeuralLearner({"width": 4}, epochs=2), loss="weighted", controller="auto")
TREES = CostSensitiveClassifier(learner=SklearnLearner(HistogramBoosting(max_iter=5), encode=False))


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    frame = pd.DataFrame(
        {"amount": rng.lognormal(size=n) + y, "shop": np.where(rng.random(n) < 0.3 + 0.5 * y, "web", "city")}
    )
    frame.loc[rng.random(n) < 0.1, "amount"] = np.nan
    return frame, y


def numbers(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    X = rng.normal(size=(n, 4))
    X[:, 0] += y
    return X, y


def images(n=24):
    y = np.arange(n) % 3 == 0
    X = np.random.default_rng(0).integers(0, 120, (n, 16, 16, 3)).astype(np.uint8)
    X[y] += 100
    return X, y.astype(int)


def quick(members=("logistic", ("trees", TREES), ("net", NET)), **settings):
    return EnsembleClassifier(COSTS, estimators=members, **{"cv": 3, "n_jobs": 1, "random_state": 0} | settings)


def check_same(one, other, X, seconds=True):
    assert np.array_equal(one.decision_scores(X), other.decision_scores(X))
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert np.array_equal(one.predict(X), other.predict(X))
    assert np.array_equal(one.oof_scores_, other.oof_scores_)
    for name in ("threshold_", "costs_", "estimated_cost_", "calibration_error_", "target_costs_"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.history_.equals(other.history_)
    drop = [] if seconds else ["seconds"]
    pd.testing.assert_frame_equal(one.leaderboard_.drop(columns=drop), other.leaderboard_.drop(columns=drop))


# saving


def test_every_kind_of_member_comes_back_the_same(tmp_path):
    X, y = table()
    libraries = [(name, BoostingLearner(name, n_estimators=5)) for name in ("xgboost", "lightgbm", "catboost")]
    forest = ("forest", SklearnLearner(ExtraTreesClassifier(3)))
    members = ["logistic", ("trees", TREES), ("net", NET), ("bent", BENT), ("steered", STEERED)]
    clf = quick([*members, *libraries, forest]).fit(X, y)
    back = adacsl.load(clf.save(tmp_path / "model"))
    check_same(clf, back, table(500, seed=1)[0])
    assert list(back.estimators_) == list(clf.estimators_)
    assert len(back.estimators_) == 9
    assert isinstance(back, EnsembleClassifier)
    assert (back.estimators, back.cv, back.n_jobs, back.random_state) == (None, 3, 1, 0)
    # what was read is written again
    check_same(back, adacsl.load(back.save(tmp_path / "again")), X)


def test_settings_that_are_plain_values_come_back(tmp_path):
    X, y = numbers()
    clf = quick(["logistic", ("again", "logistic")], strength=0.1, time_limit=None, decide="tuned").fit(X, y)
    back = adacsl.load(clf.save(tmp_path / "model"))
    check_same(clf, back, X)
    assert (back.strength, back.decide) == (0.1, "tuned")
    again = back.fit(X, y)
    assert np.array_equal(clf.decision_scores(X), again.decision_scores(X))


def test_a_ensemble_by_its_name(tmp_path):
    X, y = numbers()
    made = adacsl.method("ensemble", COSTS, estimators=["logistic", "histogram"], n_jobs=1, cv=3, random_state=0)
    assert type(made) is EnsembleClassifier
    back = adacsl.load(made.fit(X, y).save(tmp_path / "model"))
    check_same(made, back, X)
    assert (type(back), back.estimators, back.n_jobs) == (EnsembleClassifier, ["logistic", "histogram"], 1)


def picture_net():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1)
    )


def test_images(tmp_path):
    X, y = images()
    net = {"module": picture_net, "epochs": 1, "image_size": 12, "views": 4}
    clf = quick(["net", "adacsl"], neural=NeuralLearner(**net), cv=2).fit(X, y)
    folder = clf.save(tmp_path / "model")
    check_same(clf, adacsl.load(folder, module=picture_net), X)
    with pytest.raises(ArtefactError, match=r"load\(folder, module="):
        adacsl.load(folder)


def test_a_member_that_is_more_than_numbers_is_named(tmp_path):
    clf = quick(["logistic", ("nearest", KNeighborsClassifier())]).fit(*numbers())
    with pytest.raises(
        ArtefactError, match="base estimator 'nearest': KNeighborsClassifier cannot be saved without pickle"
    ):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# going on


class Flawed(LogisticRegression):
    """Ends the program while it is fitted, until told otherwise."""

    fits = 0
    ends = True

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        if type(self).ends:
            raise SystemExit(7)
        return super().fit(X, y, sample_weight)


@pytest.fixture
def flawed(monkeypatch):
    monkeypatch.setattr(Flawed, "ends", True)
    monkeypatch.setattr(Flawed, "fits", 0)
    return Flawed


class Watch(pl.Callback):
    """Notes epochs, and ends the program in one of them."""

    def __init__(self, seen, last=None):
        self.seen, self.last = seen, last

    def __deepcopy__(self, memo):
        return self

    def on_train_epoch_start(self, trainer, pl_module):
        self.seen.append(trainer.current_epoch)
        if trainer.current_epoch == self.last:
            raise SystemExit(7)


def test_a_fit_that_was_broken_off_goes_on(tmp_path, flawed):
    X, y = table()
    members = ["logistic", ("trees", TREES), ("net", NET), ("flawed", flawed())]
    with pytest.raises(SystemExit):
        quick(members, resume=tmp_path / "run").fit(X, y)
    assert sorted(path.name.rpartition("-")[0] for path in tmp_path.glob("run/*-*")) == ["logistic", "net", "trees"]
    flawed.ends = False
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("run/*/model.json")}
    resumed = quick(members, resume=tmp_path / "run").fit(X, y)
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.glob("run/*/model.json")}.items()
    check_same(resumed, quick(members).fit(X, y), table(500, seed=1)[0], seconds=False)
    # what was resumed is saved as anything else, and a finished fit is there at once
    check_same(resumed, adacsl.load(resumed.save(tmp_path / "model")), X)
    before = flawed.fits
    check_same(resumed, quick(members, resume=tmp_path / "run").fit(X, y), X)
    assert flawed.fits == before


def test_more_members_another_stack_and_more_time_are_the_same_fit(tmp_path, flawed):
    X, y = numbers()
    flawed.ends = False
    quick([("flawed", flawed())], resume=tmp_path).fit(X, y)
    assert flawed.fits == 3
    more = quick(["logistic", ("flawed", flawed())], resume=tmp_path, strength=0.1, decide="tuned").fit(X, y)
    assert flawed.fits == 3
    assert list(more.estimators_) == ["logistic", "flawed"]
    quick([("flawed", flawed(C=0.1))], resume=tmp_path).fit(X, y)  # the same name, another member
    assert flawed.fits == 6
    quick([("flawed", LogisticRegression())], resume=tmp_path).fit(X, y)
    assert len(list(tmp_path.glob("flawed-*/model.json"))) == 3


def test_nets_go_on_within(tmp_path):
    X, y = numbers()

    def fit(seen, last=None, resume=None):
        net = NeuralLearner({"width": 4}, epochs=4, trainer={"callbacks": [Watch(seen, last)]})
        return quick(["logistic", ("net", CostSensitiveClassifier(learner=net))], resume=resume).fit(X, y)

    with pytest.raises(SystemExit):
        fit([], 3, tmp_path / "run")
    assert list(tmp_path.glob("run/net-*.unfinished/together/last.ckpt"))
    seen = []
    resumed = fit(seen, resume=tmp_path / "run")
    assert seen == [3]
    assert not list(tmp_path.glob("run/*.unfinished"))
    check_same(resumed, fit([]), X, seconds=False)


def test_images_and_nets_of_ones_own_go_on(tmp_path):
    X, y = images()
    net = {"module": picture_net, "epochs": 1}
    first = quick(["net", "adacsl"], neural=NeuralLearner(**net), cv=2, resume=tmp_path).fit(X, y)
    again = quick(["net", "adacsl"], neural=NeuralLearner(**net), cv=2, resume=tmp_path).fit(X, y)
    check_same(first, again, X)
    with pytest.raises(ValueError, match="belong to other data"):
        quick(["net"], neural=NeuralLearner(**net), cv=2, resume=tmp_path).fit(255 - X, y)


OTHERS = {
    "seed": ({"random_state": 1}, {}, {}),
    "folds": ({"cv": 4}, {}, {}),
    "costs": ({"costs": CostMatrix(fp=1, fn=7)}, {}, {}),
    "levels": ({}, {"shop": lambda X: X["shop"].replace("web", "net")}, {}),
    "values": ({}, {"amount": lambda X: X["amount"] * 1.001}, {}),
    "weights": ({}, {}, {"sample_weight": np.linspace(1, 2, 200)}),
    "groups": ({}, {}, {"groups": np.arange(200) // 2}),
    "prices": ({}, {}, {"fn": np.linspace(5, 7, 200)}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_folder_belongs_to_one_fit(tmp_path, what):
    X, y = table()
    clf = quick(["logistic"], resume=tmp_path).fit(X, y)
    settings, columns, extra = OTHERS[what]
    with pytest.raises(ValueError, match="belong to other data or settings; give an empty folder"):
        clf.set_params(**settings).fit(X.assign(**columns), y, **extra)


def test_resume_needs_a_seed(tmp_path):
    with pytest.raises(ValueError, match="resume needs random_state"):
        quick(["logistic"], resume=tmp_path, random_state=None).fit(*numbers())


@pytest.mark.parametrize("damage", ["tensors", "document", "nothing"])
def test_what_is_damaged_is_fitted_again(tmp_path, damage):
    X, y = numbers()
    whole = quick(["logistic", ("trees", TREES)], resume=tmp_path).fit(X, y)
    (folder,) = tmp_path.glob("trees-*")
    if damage == "nothing":
        shutil.rmtree(folder)
        folder.mkdir()
    else:
        (path,) = folder.glob("model.json" if damage == "document" else "*.safetensors")
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.warns(UserWarning, match="base estimator 'trees' cannot be read and is fitted again"):
        again = quick(["logistic", ("trees", TREES)], resume=tmp_path).fit(X, y)
    check_same(whole, again, X, seconds=False)
    check_same(again, quick(["logistic", ("trees", TREES)], resume=tmp_path).fit(X, y), X)  # and kept again


class Own(GaussianNB):
    """No class of scikit-learn."""


def test_members_that_cannot_be_kept_are_fitted_again(tmp_path):
    X, y = numbers()
    members = ["logistic", ("bayes", Own())]
    first, again = (quick(members, resume=tmp_path).fit(X, y) for _ in range(2))
    check_same(first, again, X, seconds=False)
    assert not list(tmp_path.glob("bayes*"))


@pytest.mark.weekly  # of one that is broken off from within, every time
@pytest.mark.slow
def test_a_killed_fit_goes_on(tmp_path, load_module):
    path = Path(__file__).parent / "scripts" / "stack_slowly.py"
    command = [sys.executable, str(path), str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.strip() == "slow":
                break
        process.send_signal(signal.SIGKILL)
    script = load_module(path)
    kept = {path.name for path in tmp_path.glob("run/*/model.json")}
    assert kept
    X, y = script.made_up()
    resumed = script.classifier(tmp_path / "run", seconds=0).fit(X, y)
    check_same(resumed, script.classifier(None, seconds=0).fit(X, y), X, seconds=False)


# scikit-learn

EXPECTED_FAILURES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "splits differ once rows are repeated or removed"
    for kind in ("dense", "sparse")
} | {"check_classifiers_classes": "the positive class of text labels has to be named"}


@pytest.mark.filterwarnings("ignore:pos_label is not given")
@pytest.mark.filterwarnings("ignore:.*alone separates the classes")
@pytest.mark.filterwarnings("ignore:of the classes numbered")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(
    [
        EnsembleClassifier(
            estimators=["logistic", ("tree", DecisionTreeClassifier(max_depth=2))], cv=2, n_jobs=1, random_state=0
        )
    ],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_clone_keeps_every_setting():
    clf = quick(strength=0.1, neural=NeuralLearner(epochs=3), time_limit="60s", decide="tuned", pos_label="a")
    params, copied = clf.get_params(), clone(clf).get_params()
    assert set(params) == set(copied)
    assert params["neural__epochs"] == 3
    for name, value in params.items():
        assert copied[name] == value or repr(copied[name]) == repr(value), name


def test_pipelines_and_searches():
    X, y = numbers()
    pipeline = make_pipeline(StandardScaler(), quick(["logistic"]))
    grid = {
        "ensembleclassifier__strength": [0.01, "auto"],
        "ensembleclassifier__estimators": [["logistic"], ["logistic", ("tree", DecisionTreeClassifier(max_depth=2))]],
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert np.all(search.cv_results_["mean_test_score"] < 0)  # minus a cost
    assert set(search.predict(X)) <= {0, 1}
    proba = cross_val_predict(pipeline, X, y, cv=2, method="predict_proba")
    assert np.allclose(proba.sum(1), 1.0)


def test_costs_and_weights_are_routed():
    X, y = numbers()
    with sklearn.config_context(enable_metadata_routing=True):
        clf = quick(["logistic"]).set_fit_request(sample_weight=True, fn=True, groups=True)
        more = {"sample_weight": np.linspace(1, 2, 200), "fn": np.linspace(5, 9, 200), "groups": np.arange(200) // 2}
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), clf).fit(X, y, **more)
    scaled = StandardScaler().fit_transform(X)
    alone = quick(["logistic"]).fit(scaled, y, **more)
    assert np.array_equal(piped.predict_proba(X), alone.predict_proba(scaled))


def test_pickles(tmp_path):
    X, y = numbers()
    clf = quick(["logistic", ("trees", TREES), ("net", NET), ("bayes", GaussianNB())]).fit(X, y)
    joblib.dump(clf, tmp_path / "clf.joblib")
    check_same(clf, joblib.load(tmp_path / "clf.joblib"), X)


# ONNX


def exported(path, inputs):
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    return session.run(["score", "probability", "decision"], inputs)


def check_exported(clf, path, X):
    score, probability, decision = exported(path, graph_inputs(clf, X))
    assert np.allclose(score, clf.decision_scores(X), atol=1e-5)
    assert np.allclose(probability, clf.predict_proba(X)[:, 1], atol=1e-5)
    assert np.mean(decision == clf.predict(X)) > 0.99


def test_nets_and_sums_are_one_graph(tmp_path):
    X, y = numbers()
    scaled = SklearnLearner(make_pipeline(StandardScaler(), LogisticRegression()), encode=True)
    members = ["logistic", ("scaled", scaled), ("steered", STEERED)]
    clf = quick(members, cv=2, decide="tuned").fit(X, y)
    back = adacsl.load(clf.save(tmp_path / "model"))
    check_exported(clf, back.export_onnx(tmp_path / "clf.onnx", X), numbers(500, seed=1)[0])


@pytest.mark.weekly
@pytest.mark.slow
def test_graphs_of_encoded_tables_and_of_images(tmp_path):
    X, y = table()
    clf = quick(["logistic", ("net", NET), ("bent", BENT)]).fit(X, y)
    check_exported(clf, clf.export_onnx(tmp_path / "clf.onnx", X), table(500, seed=1)[0])
    X, y = images()
    clf = quick(["net", "adacsl"], neural=NeuralLearner(module=picture_net, epochs=1, image_size=12), cv=2).fit(X, y)
    check_exported(clf, clf.export_onnx(tmp_path / "clf.onnx", X), X)


def test_members_with_other_inputs_have_no_graph(tmp_path):
    X, y = images()
    nets = [(f"{size}", NeuralLearner(picture_net, epochs=1, image_size=size)) for size in (12, 14)]
    clf = quick(nets, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="base estimators '12' and '14' take different inputs"):
        clf.export_onnx(tmp_path / "clf.onnx", X)


def test_a_member_without_a_graph_is_named(tmp_path):
    clf = quick().fit(*numbers())
    with pytest.raises(
        ValueError, match=r"base estimator 'trees' is made of estimators: fit estimators=\['logistic', 'net'"
    ):
        clf.export_onnx(tmp_path / "clf.onnx", numbers()[0])
    assert not list(tmp_path.iterdir())


def test_members_of_another_fit_are_not_taken_though_the_mark_is_gone(tmp_path):
    X, y = numbers()
    quick(["logistic"], resume=tmp_path).fit(X, y)
    (mine,) = tmp_path.glob("logistic-*")
    (tmp_path / "fit.sha256").unlink()
    other = quick(["logistic"], resume=tmp_path)
    scores = quick(["logistic"]).fit(X, 1 - y).predict_proba(X)
    assert np.array_equal(other.fit(X, 1 - y).predict_proba(X), scores)
    (others,) = set(tmp_path.glob("logistic-*")) - {mine}
    shutil.rmtree(others)
    shutil.copytree(mine, others)
    with pytest.warns(UserWarning, match="cannot be read and is fitted again: it belongs to other data or settings"):
        other.fit(X, 1 - y)
    assert np.array_equal(other.predict_proba(X), scores)
