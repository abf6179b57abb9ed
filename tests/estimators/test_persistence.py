"""Saved classifiers come back the same, without pickle; damaged ones are refused."""

import json
import pickle
import warnings

import lightning.pytorch  # noqa: F401  it derives a class from pickle's, which may be gone later
import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import adacsl
from adacsl import AdaCSLClassifier, AdaptiveWeight, CostMatrix, EqualWidth
from adacsl.durable import sealed
from adacsl.estimators.artefacts import ArtefactError, read_artefact, write_artefact

COSTS = CostMatrix(fp=1, fn=6, tp=0.25)


@pytest.fixture
def no_pickle(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    for owner, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(owner, name, refuse)


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


def picture_net():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1)
    )


def fit(X, y, *, net=None, **settings):
    clf = AdaCSLClassifier(COSTS, net={"epochs": 2} | (net or {}), **({"random_state": 0} | settings))
    return clf.fit(X, y)


def check_same(clf, back, X):
    assert np.array_equal(clf.decision_scores(X), back.decision_scores(X))
    assert np.array_equal(clf.predict_proba(X), back.predict_proba(X))
    decided = back.predict(X)
    assert np.array_equal(clf.predict(X), decided)
    assert decided.dtype == clf.predict(X).dtype
    for name in ("threshold_", "target_", "adapted_", "costs_", "target_costs_", "estimated_cost_", "positive_"):
        assert getattr(clf, name) == getattr(back, name), name
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
        {"target": "auto", "decide": "unweighted", "cv": 2},
        {"decide": "tuned", "controller": None},
        {"decide": "calibrated", "controller": {"damping": 0.3, "partition": EqualWidth(2), "bounds": (0.5, 2.0)}},
        {"decide": "half", "controller": AdaptiveWeight(COSTS, caution=1.0)},
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
    kept = back.get_params()
    for name in ("net__epochs", "random_state", "decide", "cv", "target"):
        assert kept[name] == clf.get_params()[name]
    for name, value in clf.get_params().items():
        if name.startswith("controller__"):
            assert kept[name] == (list(value) if isinstance(value, tuple) else value), name
    assert (kept["controller"] is None) == (clf.controller is None)
    again = tmp_path / "again"
    back.save(again)
    assert read_artefact(again)[1] == read_artefact(tmp_path / "model")[1]


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (np.array(["no", "yes"]), "yes"),
        (np.array(["no", "yes"], dtype=object), "no"),
        (np.array([False, True]), True),
        (np.array([False, True]), False),
        (np.array([3, 8], dtype=np.int32), 3),
        (np.array([1.0, 2.0]), 2.0),
    ],
)
def test_class_names(tmp_path, labels, positive):
    X, y = table()
    clf = fit(X, labels[y], positive=positive)
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
def test_nets_of_ones_own_have_to_be_given_again(tmp_path):
    X, y = table()
    clf = fit(X, y, net={"module": Net}, cv=2)
    folder = clf.save(tmp_path / "model")
    check_same(clf, adacsl.load(folder, module=Net), X)
    check_same(clf, adacsl.load(folder, module=Net(clf.encoder_.n_features_out_)), X)
    with pytest.raises(ArtefactError, match=r"a net that is not adacsl's: give that net too, load\(folder, module="):
        adacsl.load(folder)
    with pytest.raises(ArtefactError, match=r"(?s)the saved weights do not fit .*give the net it was trained with"):
        adacsl.load(folder, module=lambda d: Net(d, hidden=5))


@pytest.mark.usefixtures("no_pickle")
@pytest.mark.parametrize("views", [1, 4])
def test_images(tmp_path, views):
    X, y = images()
    clf = fit(X, y, net={"module": picture_net, "views": views}, cv=2)
    back = adacsl.load(clf.save(tmp_path / "model"), module=picture_net)
    check_same(clf, back, X)
    assert back.image_shape_ == (16, 16, 3)


@pytest.mark.slow
@pytest.mark.usefixtures("no_pickle")
def test_the_default_image_net_needs_no_module(tmp_path):
    X, y = images()
    clf = fit(X, y, net={"epochs": 1})
    check_same(clf, adacsl.load(clf.save(tmp_path / "model")), X)


def test_a_loaded_model_can_be_fitted_again(tmp_path):
    X, y = table()
    # lambda moves, and would move otherwise without these
    clf = fit(X, y, cv=2, net={"lr": 0.02, "epochs": 4}, controller={"damping": 0.9, "partition": EqualWidth(2)})
    back = adacsl.load(clf.save(tmp_path / "model"))
    assert np.array_equal(back.fit(X, y).predict_proba(X), clf.predict_proba(X))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_an_absent_device_is_said_once(tmp_path):
    X, y = table()
    folder = fit(X, y).save(tmp_path / "model")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adacsl.load(folder, device="cuda").predict(X)
    assert [str(w.message) for w in caught] == ["device='cuda' asked for, but no GPU is available: using the CPU"]


# damage


@pytest.fixture
def saved(tmp_path):
    X, y = table()
    return fit(X, y, net={"epochs": 1}).save(tmp_path / "model")


def test_an_unfitted_classifier_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        AdaCSLClassifier().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("part", ["model.json", "tensors"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_damage_is_found(saved, part, damage):
    path = next(p for p in saved.iterdir() if p.name.startswith(part))
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        content[len(content) // 2] ^= 0x01
        path.write_bytes(content if damage == "flipped" else content[: len(content) // 2])
    with pytest.raises(ArtefactError):
        adacsl.load(saved)


def test_newer_and_foreign_artefacts_are_refused(saved, tmp_path):
    path = saved / "model.json"
    head = json.loads(path.read_text())
    head.pop("sha256")
    path.write_bytes(sealed(head | {"schema_version": 99}))
    with pytest.raises(ArtefactError, match=r"schema version 99 .*update adacsl"):
        adacsl.load(saved)
    write_artefact(tmp_path / "other", {}, {"kind": "Something"})
    with pytest.raises(ArtefactError, match=r"holds 'Something', not a classifier of adacsl"):
        adacsl.load(tmp_path / "other")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("decision"),
        lambda d: d.pop("model"),
        lambda d: d["model"].pop("net"),
        lambda d: d.update(costs={"rows": "predicted", "costs": [[0, -1], [1, 0]]}),
        lambda d: d.update(positive=7),
        lambda d: d["model"]["encoder"].update(columns=[]),
        lambda d: d["model"]["net"].update(width=3),
        lambda d: d["params"].update(nonsense=1),
        lambda d: d["nested"]["net"]["settings"].update(nonsense=1),
        lambda d: d["decision"].update(mapped="high"),
        lambda d: d["decision"].update(decide="elsewhere"),
        lambda d: d.update(target="high"),
    ],
)
def test_whole_artefacts_of_wrong_content_are_refused(saved, tmp_path, change):
    # right digests, wrong content: made by hand
    tensors, document = read_artefact(saved)
    change(document)
    write_artefact(tmp_path / "other", tensors, document)
    with pytest.raises(ArtefactError):
        adacsl.load(tmp_path / "other")


def test_saving_over_another_model_replaces_it(saved):
    X, y = table(seed=3)
    clf = fit(X, y, cv=2)
    clf.save(saved)
    check_same(clf, adacsl.load(saved), X)
    assert len(list(saved.iterdir())) == 2
