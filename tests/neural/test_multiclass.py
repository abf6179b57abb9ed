"""Neural networks of more than two classes: tables and images, cross-fits, losses, resampling."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from sklearn.datasets import load_digits, load_wine
from torch import nn

import adacsl
from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier
from adacsl.fitting.rows import Rows
from adacsl.neural import fit
from adacsl.neural.fit import Prepared
from adacsl.neural.learner import NeuralLearner
from adacsl.torch.resnet import resnet18

COSTS = CostMatrix.from_array([[0, 2, 8], [1, 0, 6], [1, 3, 0]], rows="predicted")
BENT = {"bins": 3, "heads": 3, "width": 12}
TABM = {"kind": "tabm", "k": 3, "d_block": 8, "n_bins": 5, "d_embedding": 3}
ADAPTED = {"loss": "weighted", "controller": {}}  # on tables of K classes "auto" does not adapt


def table(n=150, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame({
        "amount": rng.lognormal(size=n) + y, "count": rng.integers(0, 3, n) + (y == 1),
        "shop": np.where(rng.random(n) < 0.2 + 0.3 * y, "web", "city"),
    })  # fmt: skip
    return frame, y


def images(n=48):
    rng = np.random.default_rng(0)
    y = np.asarray([0, 0, 1, 2] * (n // 4))
    x = rng.integers(0, 90, (n, 32, 32, 3)).astype(np.uint8)
    x[y == 1, :8] += 90
    x[y == 2, :, :8] += 90
    return x, y


def fitted(module=None, *, data=None, net=None, **choices):
    learner = NeuralLearner(module, **({"epochs": 2} | (net or {})))
    made = CostSensitiveClassifier(COSTS, learner=learner, device="cpu", random_state=1, **(ADAPTED | choices))
    return made.fit(*(data or table()))


def tiny(outputs=3):
    return nn.Sequential(nn.Conv2d(3, 4, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(256, outputs))


# learning


@pytest.mark.parametrize("load", [load_wine, load_digits], ids=["wine", "digits"])
def test_the_default_net_learns(load):
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(0)
    parts = rng.permutation(len(y))
    train, test = parts[len(y) // 4 :][:600], parts[: len(y) // 4]
    k = len(np.unique(y))
    costs = CostMatrix.from_array(rng.uniform(1, 9, (k, k)) * (1 - np.eye(k)), rows="predicted")
    clf = AdaCSLClassifier(costs, random_state=0, device="cpu").fit(X[train], y[train])
    assert clf.predict_proba(X[test]).shape == (len(test), k)
    assert costs.normalized(y[test], clf.predict(X[test])) < 0.15


@pytest.mark.parametrize("module", [None, BENT, TABM], ids=["default", "heads", "tabm"])
def test_logits_of_the_folds_are_averaged(module):
    clf, (X, _) = fitted(module, cv=3), table(40, seed=7)
    logits = clf.model_.logits(X)
    assert logits.shape == (40, 3)
    x = torch.from_numpy(clf.model_.encoder.transform(X))
    own = clf.model_.net
    with torch.no_grad():
        parts = [net(x).mean(2) for net in own] if isinstance(own, nn.ModuleList) else [own(x).mean(2)]
    expected = torch.cat(parts, dim=1).mean(1)
    np.testing.assert_allclose(logits, expected.numpy(), atol=1e-5)
    # nothing weighs the classes but lambda, which stays in the scores
    np.testing.assert_allclose(clf.predict_proba(X), torch.softmax(expected, 1).numpy(), atol=1e-5)


def test_out_of_fold_scores_come_from_networks_that_did_not_see_the_sample():
    X, y = table()
    first = fitted(cv=3, data=(X, y)).oof_scores_
    changed = X.copy()
    changed.loc[5, "amount"] += 0.5
    second = fitted(cv=3, data=(changed, y)).oof_scores_
    assert first.shape == (150, 3)
    assert not np.array_equal(first[5], second[5])
    assert first.sum(1) == pytest.approx(1.0)


def test_targets_tried_jointly_are_those_fitted_separately():
    targets = fitted(target_threshold="auto", cv=3)
    for target_threshold in ("half", "bayes"):
        alone = fitted(target_threshold=target_threshold, cv=3)
        history = targets.history_.query("adapted and target_threshold == @target_threshold").reset_index(drop=True)
        assert history.equals(alone.history_)


def test_deciding_unweighted_undoes_the_whole_weighting():
    clf = fitted(cv=3, decide="unweighted", target_threshold="half")
    assert np.shape(clf.model_.undone) == (3, 3)
    for fold, undone in enumerate(clf.model_.undone):
        own = clf.history_.query(f"fold == {fold}")["weights"]
        assert any(np.allclose(undone, -np.log(weights)) for weights in own)


# losses and resampling: what the engine is asked for


class CaughtError(Exception):
    """Holds what would have been trained."""


def members_of(monkeypatch, data=None, **choices):
    def catch(net, tensors, members, keepers, *_, **__):
        raise CaughtError(tensors, members, keepers)

    monkeypatch.setattr(fit, "train", catch)
    with pytest.raises(CaughtError) as caught:
        fitted(**({"controller": None} | choices), data=data)
    return caught.value.args


def test_weights_of_losses_are_those_of_the_costs(monkeypatch):
    means = COSTS.class_weights()
    for choices, weight, offset in [
        ({"loss": "plain"}, 1.0, 0.0),
        ({"loss": "weighted"}, 1.0, 0.0),
        ({"loss": "weighted", "target_threshold": "half"}, means, 0.0),
        ({"loss": "focal", "target_threshold": "middle"}, np.sqrt(means), 0.0),
        ({"loss": "logit-adjusted"}, 1.0, -np.log(means)),
    ]:
        data, (member,), (keeper,) = members_of(monkeypatch, **choices)
        assert data.n_classes == 3
        assert member.class_weights(3) == pytest.approx(np.broadcast_to(weight, 3))
        assert member.offset == pytest.approx(offset)
        # scores of a shifted loss are shifted back
        shift = offset if np.any(offset) else -np.log(np.broadcast_to(weight, 3))
        assert keeper.shift == pytest.approx(shift)


@pytest.mark.parametrize("resample", ["oversample", "undersample", "smote"])
def test_resampling_draws_every_class_alike(monkeypatch, resample):
    _, y = table()
    data, (member,), (keeper,) = members_of(monkeypatch, loss="plain", resample=resample)
    counts = np.bincount(y[member.train])
    sizes = {"oversample": counts, "undersample": [counts.min()] * 3, "smote": [counts.max()] * 3}[resample]
    assert [len(pool) for pool in member.pools] == list(sizes)
    for label, pool in enumerate(member.pools):
        assert set(data.y[torch.from_numpy(pool)].tolist()) == {label}
        assert not np.isin(pool, member.validation).any()
        own = data.x[member.train[y[member.train] == label]]
        assert (data.x[pool] >= own.amin(0) - 1e-5).all()
        assert (data.x[pool] <= own.amax(0) + 1e-5).all()
    # scores of nets that saw the classes equally often are corrected for it
    shares = counts / counts.sum()
    assert np.exp(keeper.shift) / np.exp(keeper.shift).sum() == pytest.approx(shares)


@settings(max_examples=20, deadline=None)
@given(counts=st.lists(st.integers(1, 12), min_size=3, max_size=5), seed=st.integers(0, 9))
def test_smote_fills_up_every_class(counts, seed):
    y = np.repeat(np.arange(len(counts)), counts)
    x = np.random.default_rng(seed).normal(size=(len(y), 2))
    rows = Rows(pd.DataFrame(x, columns=["a", "b"]), y, np.arange(len(y)), n_classes=len(counts))
    data, everything = Prepared(rows), np.arange(len(y))
    for label, count in enumerate(counts):
        made = data.add_rows(label, everything, seed)
        assert len(made) == (max(counts) - count if count > 1 else 0)  # one alone cannot be mixed
        assert (data.y[made] == label).all()


@pytest.mark.parametrize("choices", [{"resample": "smote"}, {"resample": "oversample"}, {"loss": "focal"}])
def test_images_train_with_every_loss(choices):
    x, y = images()
    choices = {"loss": "plain", "controller": None} | choices
    clf = fitted(tiny, data=(x, y), net={"augment": False}, **choices)
    assert clf.predict_proba(x).shape == (48, 3)


def squared(logits, labels, costs):
    assert costs == COSTS
    return ((torch.softmax(logits, 1) - nn.functional.one_hot(labels, 3)) ** 2).sum(1)


def test_an_own_loss_gets_every_logit():
    clf = fitted(loss=squared, controller=None)
    assert clf.history_["train_loss"].iloc[0] < 2.0


# networks


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_an_own_network_has_one_output_per_class(outputs):
    X, y = table()
    with pytest.raises(ValueError, match=r"there are 3 classes, so the last layer of the network must have 3 outputs"):
        fitted(lambda features: nn.Linear(features, outputs), data=(X, y))
    with pytest.raises(ValueError, match=r"must have 3 outputs; for \d+ rows it gave outputs of shape"):
        fitted(tiny(outputs), data=images())
    assert fitted(lambda features: nn.Linear(features, 3)).predict_proba(X).shape == (150, 3)


def test_local_weights_get_a_head_for_the_classes(tmp_path):
    torch.manual_seed(0)
    pretrained = resnet18(num_outputs=1000)
    save_file(pretrained.state_dict(), tmp_path / "weights.safetensors")
    x, y = images(24)
    net = {"weights": tmp_path / "weights.safetensors", "epochs": 1, "learning_rate": 1e-9, "views": 4}
    clf = fitted(data=(x, y), net=net)
    own = clf.model_.net[0].net
    assert own.fc.out_features == 3
    torch.testing.assert_close(own.layer1[0].conv1.weight, pretrained.layer1[0].conv1.weight, atol=1e-6, rtol=1e-4)


# saved


def test_saved_networks_of_images_are_loaded_the_same(tmp_path):
    x, y = images(24)
    clf = fitted(data=(x, y), net={"epochs": 1})
    assert np.array_equal(adacsl.load(clf.save(tmp_path / "ours")).predict_proba(x), clf.predict_proba(x))
    clf = fitted(tiny, data=(x, y))
    folder = clf.save(tmp_path / "own")
    assert np.array_equal(adacsl.load(folder, module=tiny).predict_proba(x), clf.predict_proba(x))
    with pytest.raises(ValueError, match="the saved weights do not fit"):
        adacsl.load(folder, module=lambda: tiny(4))


def test_by_default_networks_of_tables_with_k_classes_do_not_adapt():
    plain, adapted = fitted(controller="auto", cv=3), fitted(cv=3)
    assert not plain.adapted_
    assert adapted.adapted_
    np.testing.assert_array_equal(plain.oof_scores_, fitted(controller=None, cv=3).oof_scores_)
