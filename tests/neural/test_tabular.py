"""Networks of tables with sizes to choose (TableNet, TabM, RealMLP): fitted jointly, saved, exported, resumed."""

import numpy as np
import pandas as pd
import pytest
import torch

import adacsl
from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, compare
from adacsl.estimators.artefact import read_artefact
from adacsl.integrations.tabm import BinnedTabM, find_bins
from adacsl.neural.learner import NeuralLearner, defaults_for, table_sizes

COSTS = {2: CostMatrix(fp=1, fn=5), 3: CostMatrix.from_array([[0, 2, 8], [1, 0, 6], [1, 3, 0]], rows="predicted")}
BENT = {"bins": 3, "heads": 3, "width": 12}
TABM = {"kind": "tabm", "k": 3, "d_block": 8, "n_bins": 5, "d_embedding": 3}
REALMLP = {"kind": "realmlp", "width": 12, "depth": 2, "frequencies": 3}
NETS = pytest.mark.parametrize("module", [BENT, TABM, REALMLP], ids=["tablenet", "tabm", "realmlp"])


def table(n=150, seed=0, k=2):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(int)
    frame = pd.DataFrame({
        "amount": rng.lognormal(size=n) + y, "count": rng.integers(0, 3, n), "rare": np.eye(n)[0],
        "shop": np.where(rng.random(n) < 0.3 + 0.4 * y, "web", "city"),
    })  # fmt: skip
    return frame, y if k == 2 else y + 2 * (frame["count"].to_numpy() == 2) * (1 - y)


def fitted(module, k=2, *, data=None, **settings):
    net = {"module": module, "epochs": 2} | settings.pop("net", {})
    chosen = {"cv": 3, "random_state": 1, "device": "cpu", "controller": "auto" if k == 2 else {}} | settings
    return AdaCSLClassifier(COSTS[k], learner=NeuralLearner(**net), **chosen).fit(*(data or table(k=k)))


def test_methods_compared_jointly_are_those_compared_separately():
    def run(methods, **more):
        return compare(
            *table(), COSTS[2], methods=methods, repeats=1, folds=2, neural=NeuralLearner(TABM, epochs=2), n_jobs=1,
            device="cpu", progress=False, **more,
        ).fits  # fmt: skip

    jointly = run(["net", "net-weighted", "adacsl-cv"], ratios=[20, "1x"])
    for name in ("net", "adacsl-cv"):
        for key, alone in run([name]).items():
            assert np.array_equal(alone.scores, jointly[key].scores)
            assert alone.history == jointly[key].history


def test_other_sizes_train_apart_and_differ():
    methods = [
        ("small", CostSensitiveClassifier(learner=NeuralLearner({"bins": 2}, epochs=1))),
        ("large", CostSensitiveClassifier(learner=NeuralLearner(BENT, epochs=1))),
    ]
    result = compare(*table(), COSTS[2], methods=methods, repeats=1, folds=2, n_jobs=1, device="cpu", progress=False)
    for seed in range(2):
        small, large = (one.scores for key, one in result.fits.items() if key.seed == seed)
        assert not np.array_equal(small, large)


@pytest.mark.parametrize(
    ("module", "k"), [(BENT, 2), (TABM, 2), (REALMLP, 2), (None, 3), (BENT, 3), (TABM, 3), (REALMLP, 3)]
)
def test_a_saved_net_is_loaded_the_same(module, k, tmp_path):
    clf, (X, _) = fitted(module, k, cv=2, decide="unweighted"), table(40, seed=7)
    back = adacsl.load(clf.save(tmp_path / "model"))
    assert np.array_equal(back.predict_proba(X), clf.predict_proba(X))
    assert np.array_equal(back.predict(X), clf.predict(X))
    assert back.learner.module == module
    back.save(tmp_path / "again")
    assert read_artefact(tmp_path / "again")[1] == read_artefact(tmp_path / "model")[1]


@NETS
def test_onnx(module, tmp_path):
    pytest.importorskip("onnxruntime")
    fitted(module, cv=None).export_onnx(tmp_path / "model.onnx", table()[0])  # it compares the scores itself


@pytest.mark.parametrize(("module", "k"), [(BENT, 3), (TABM, 2), (REALMLP, 2)])
def test_a_crashed_fit_is_resumed(module, k, tmp_path):
    import lightning.pytorch as pl

    class Stop(pl.Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            if trainer.current_epoch == 2:
                raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fitted(module, k, cv=2, net={"epochs": 4, "trainer": {"callbacks": [Stop()]}}, resume=tmp_path)
    resumed, whole = (fitted(module, k, cv=2, net={"epochs": 4}, resume=folder) for folder in (tmp_path, None))
    assert resumed.history_.equals(whole.history_)
    assert np.array_equal(resumed.oof_scores_, whole.oof_scores_)
    with pytest.raises(ValueError, match="belong to other data or settings"):
        fitted(module | {"dropout": 0.2}, k, cv=2, net={"epochs": 4}, resume=tmp_path)


def test_bins_come_from_the_training_samples_of_the_fold():
    X, _ = table()
    folds = [(np.arange(50, 150), np.arange(50)), (np.arange(100), np.arange(100, 150))]
    clf = fitted(TABM, cv=folds)
    x, numeric = torch.from_numpy(clf.encoder_.transform(X)), clf.encoder_.numeric_features
    for net, (rows, _) in zip(clf.net_, folds, strict=True):
        bins = find_bins(x[rows], numeric, 5)
        assert torch.equal(net.borders, bins["borders"])
        assert torch.equal(net.numeric, bins["numeric"])
    # the column with a single value has one bin at most: it is taken as it is
    assert len(clf.net_[0].numeric) == len(numeric) - 1


@pytest.mark.parametrize("columns", [["shop"], ["amount"]])
@pytest.mark.parametrize("module", ["tabm", REALMLP])
def test_tables_without_numbers_and_of_numbers_only(module, columns):
    X, y = table()
    clf = fitted(module, data=(X[columns], y), cv=None, net={"epochs": 1})
    assert np.isfinite(clf.decision_scores(X[columns])).all()


def test_tabm_does_not_rise_beyond_its_last_border():
    net = BinnedTabM(1, torch.tensor([0]), torch.tensor([[0.0, 1.0, 1.0 + 1e-6]]), **table_sizes("tabm")[1]).eval()
    with torch.no_grad():
        assert torch.equal(net(torch.tensor([[3.0]])), net(torch.tensor([[1.0 + 1e-6]])))


def test_realmlp_learns_from_costs_of_each_sample():
    X, y = table()

    def scores(fn):
        clf = CostSensitiveClassifier(
            COSTS[2], learner=NeuralLearner(REALMLP, epochs=2), loss="instance-weighted", cv=3,
            random_state=0, device="cpu",
        )  # fmt: skip
        return clf.fit(X, y, fn=fn).oof_scores_

    amounts = X["amount"].to_numpy()
    assert not np.array_equal(scores(amounts), scores(amounts[::-1].copy()))


@pytest.mark.parametrize(("n", "steps"), [(100, 2000), (455, 2000), (3440, 1000), (8400, 1000)])
def test_small_tables_get_enough_steps(n, steps):
    chosen = defaults_for(n, images=False, kind="realmlp")
    batches = -(-n // chosen["batch_size"])
    assert chosen["epochs"] * batches >= steps
    assert chosen["epochs"] >= 40
    assert NeuralLearner("realmlp").settings(n, images=False, device="cpu", verbose=False).epochs == chosen["epochs"]


def test_settings_of_realmlp_are_its_own():
    made = NeuralLearner("realmlp").settings(5000, images=False, device="cpu", verbose=False)
    assert (made.schedule, made.weight_average, made.learning_rate) == ("warm-constant", 0.995, 0.015)
    usual = NeuralLearner().settings(5000, images=False, device="cpu", verbose=False)
    assert (usual.schedule, usual.weight_average, usual.learning_rate) == ("cosine", 0.0, 2e-3)
    chosen = NeuralLearner("realmlp", schedule="cosine", learning_rate=1e-3)
    assert chosen.settings(5000, images=False, device="cpu", verbose=False).schedule == "cosine"


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ({"bin": 3}, "module has no size 'bin': tablenet has bins, heads, width, depth, dropout"),
        ({"kind": "tabm", "heads": 3}, "module has no size 'heads': tabm has k, n_blocks, d_block"),
        ({"kind": "forest"}, "module has no size 'kind': kind is one of tablenet, realmlp, tabm"),
        ({"kind": "realmlp", "sigma": 0}, "sigma must be a number above 0"),
        ({"kind": "realmlp", "depth": 0}, "depth must be a whole number of at least 1"),
        ({"bins": 2.5}, "bins must be a whole number of at least 0"),
        ({"kind": "tabm", "n_bins": 1}, "n_bins must be a whole number of at least 2"),
        ({"dropout": 1}, "dropout must be at least 0 and below 1"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(module, line):
    with pytest.raises(ValueError, match=line):
        fitted(module)


@NETS
def test_images_are_refused(module):
    images = np.random.default_rng(0).integers(0, 255, (30, 16, 16, 3)).astype(np.uint8)
    with pytest.raises(TypeError, match="is a network for tables, but X holds images"):
        fitted(module, data=(images, np.arange(30) % 3 == 0), cv=None)
