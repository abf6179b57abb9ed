"""skorch: the criterion, the callback, and skorch's own features (clone, search, checkpoints, pickles)."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from skorch.callbacks import Checkpoint, EarlyStopping, LoadInitState
from torch import nn

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import UniformBins
from adacsl.integrations.sklearn import cost_scorer
from adacsl.integrations.skorch import AdaCSLCallback, AdaptiveCrossEntropy, AdaptiveSoftmaxCrossEntropy

COSTS = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")


def made_up(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 1).astype(np.float32)


def make(more=(), **settings):
    torch.manual_seed(0)
    defaults = {
        "criterion": AdaptiveCrossEntropy, "criterion__costs": COSTS, "max_epochs": 4, "lr": 0.3, "verbose": 0,
        "callbacks": [("adapt", AdaCSLCallback()), *more],
    }  # fmt: skip
    return NeuralNetBinaryClassifier(nn.Linear(4, 1), **(defaults | settings))


@pytest.fixture(scope="module")
def data():
    return made_up()


def test_the_history_is_that_of_the_controller(data):
    net = make(verbose=0).fit(*data)
    steps = net.criterion_.controller.history
    assert len(steps) == 4
    assert net.history[:, "lambda"] == [s.lambda_ for s in steps]
    assert net.history[:, "val_cost"] == [s.cost for s in steps]
    assert net.history[:, "threshold"] == [s.thresholds[0] for s in steps]
    assert float(net.criterion_.negative_weight) == pytest.approx(steps[-1].weight, rel=1e-6)
    lowest = np.minimum.accumulate([np.inf, *net.history[:-1, "val_cost"]])
    assert net.history[:, "val_cost_best"] == (np.asarray(net.history[:, "val_cost"]) < lowest).tolist()


@pytest.mark.parametrize("by_sample", [False, True])
def test_the_cost_is_that_of_the_validation_samples(data, by_sample):
    X, y = data
    _, valid = make().initialize().get_split_datasets(X, y)
    rows = np.asarray(valid.indices)
    costs = CostMatrix(fp=1, fn=np.random.default_rng(1).uniform(1, 20, len(rows))) if by_sample else COSTS
    net = make(callbacks=[AdaCSLCallback(costs=costs if by_sample else None)], max_epochs=1).fit(X, y)
    decided = costs.decide(AdaCSLController(COSTS).correct(net.predict_proba(X[rows])[:, 1]))
    assert net.history[-1, "val_cost"] == pytest.approx(costs.mean(y[rows], decided))
    if not by_sample:
        assert decided.tolist() == net.predict(X[rows]).tolist()


def test_probabilities_have_a_sigmoid(data):
    X, y = data
    net = make().fit(X, y)
    with torch.no_grad():
        logits = net.module_(torch.from_numpy(X))[:, 0]
    proba = net.predict_proba(X)
    assert proba.shape == (len(X), 2)
    np.testing.assert_allclose(proba[:, 1], torch.sigmoid(logits).numpy(), rtol=1e-5)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(net.predict(X), (logits > 0).numpy())


def make_classes(costs, outputs, **settings):
    torch.manual_seed(0)
    defaults = {"criterion": AdaptiveSoftmaxCrossEntropy, "criterion__costs": costs, "callbacks": [AdaCSLCallback()]}
    return NeuralNetClassifier(nn.Linear(4, outputs), max_epochs=3, lr=0.3, verbose=0, **(defaults | settings))


def test_two_outputs_have_a_softmax(data):
    X, y = data
    net = make_classes(COSTS, 2).fit(X, y.astype(np.int64))
    with torch.no_grad():
        expected = torch.softmax(net.module_(torch.from_numpy(X)), 1)
    np.testing.assert_allclose(net.predict_proba(X), expected.numpy(), rtol=1e-5)
    assert len(set(net.history[:, "lambda"])) == 3


def test_three_classes(data, tmp_path):
    X, y = data
    y = (y + (X[:, 1] > 1)).astype(np.int64)
    net = make_classes(THREE, 3).fit(X, y)
    steps = net.criterion_.controller.history
    assert net.history[:, "lambda_max"] == [max(step.lambdas) for step in steps]
    assert net.history[:, "val_cost"] == [step.cost for step in steps]
    decided = THREE.decide(net.criterion_.controller.correct(net.predict_proba(X)))
    assert THREE.total(y, decided) < THREE.total(y, net.predict(X))
    files = {"f_params": tmp_path / "net.pt", "f_criterion": tmp_path / "loss.pt"}
    net.save_params(**files)
    other = make_classes(THREE, 3).initialize()
    other.load_params(**files)
    assert other.criterion_.controller.history == steps
    assert torch.equal(other.criterion_.class_weights, net.criterion_.class_weights)
    other.partial_fit(X, y)
    assert len(other.criterion_.controller.history) == 6
    with pytest.raises(ValueError, match="costs of 3 classes: use NeuralNetClassifier"):
        make_classes(THREE, 3, criterion=AdaptiveCrossEntropy).fit(X, y)


def test_the_losses_are_those_of_adacsl_torch():
    from adacsl.torch import AdaptiveCrossEntropy as Reference

    logits, labels = torch.tensor([0.3, -1.0, 2.0]), torch.tensor([1.0, 0.0, 0.0])
    two = torch.stack((torch.zeros(3), logits), dim=1)
    expected = Reference(COSTS, target_threshold=0.3)(logits, labels)
    assert torch.equal(AdaptiveCrossEntropy(COSTS, target_threshold=0.3)(logits, labels), expected)
    assert torch.allclose(AdaptiveSoftmaxCrossEntropy(COSTS, target_threshold=0.3)(two, labels.long()), expected)


def test_every_second_epoch(data):
    net = make(callbacks=[AdaCSLCallback(every=2)], max_epochs=5).fit(*data)
    first, second = net.criterion_.controller.history
    lambdas = net.history[:, "lambda"]
    assert lambdas == [1.0, first.lambda_, first.lambda_, second.lambda_, second.lambda_]
    assert len(set(net.history[:, "val_cost"])) > 2


def test_an_own_controller_is_copied(data):
    controller = AdaCSLController(COSTS, partition=UniformBins(2), damping=0.5)
    net = make(callbacks=[AdaCSLCallback(controller)]).fit(*data)
    used = net.criterion_.controller
    assert used is not controller
    assert controller.history == ()
    assert used.damping == 0.5
    assert len(used.history) == 4
    net.fit(*data)
    assert len(net.criterion_.controller.history) == 4  # a new fit starts again
    net.partial_fit(*data)
    assert len(net.criterion_.controller.history) == 8  # partial_fit continues


def test_clone_pickle_and_search(data):
    X, y = data
    net = make().fit(X, y)
    again = pickle.loads(pickle.dumps(net))  # noqa: S301
    assert again.criterion_.controller.history == net.criterion_.controller.history
    again.partial_fit(X, y)
    assert len(again.criterion_.controller.history) == 8
    assert not hasattr(clone(net), "criterion_")
    grid = {"criterion__costs": [CostMatrix(fp=1, fn=1), COSTS], "callbacks__adapt__every": [1, 2]}
    search = GridSearchCV(make(max_epochs=15), grid, cv=2, scoring=cost_scorer(COSTS), error_score="raise").fit(X, y)
    assert search.best_params_["criterion__costs"] == COSTS


def test_early_stopping_on_cost(data):
    stop = EarlyStopping(monitor="val_cost", patience=2, load_best=True)
    net = make([("stop", stop)], max_epochs=50).fit(*data)
    costs = net.history[:, "val_cost"]
    assert len(costs) < 50
    assert min(costs) not in costs[-2:]


@pytest.mark.parametrize(("own", "use_safetensors"), [(False, False), (True, True)])
def test_a_checkpoint_holds_the_controller(data, tmp_path, own, use_safetensors):
    def adapting():
        return AdaCSLCallback(AdaCSLController(COSTS, damping=0.7)) if own else AdaCSLCallback()

    # safetensors cannot hold an optimiser: skorch says so
    optimizer = {"f_optimizer": None} if use_safetensors else {}
    saving = Checkpoint(dirname=tmp_path, monitor=None, use_safetensors=use_safetensors, **optimizer)
    whole = make(callbacks=[adapting()], max_epochs=6).fit(*data)
    make(callbacks=[adapting(), saving], max_epochs=3).fit(*data)
    rest = make(callbacks=[adapting(), LoadInitState(saving, use_safetensors=use_safetensors)], max_epochs=3).fit(*data)
    assert rest.criterion_.controller.history == whole.criterion_.controller.history
    assert rest.history[:, "lambda"] == whole.history[:, "lambda"]
    assert torch.equal(rest.module_.weight, whole.module_.weight)


def test_the_checkpoint_of_least_cost_is_the_last(data, tmp_path):
    saving = Checkpoint(dirname=tmp_path, monitor="val_cost_best", load_best=True)
    net = make([("save", saving)], max_epochs=12).fit(*data)
    best = int(np.argmin(net.history[:, "val_cost"]))
    assert [row["epoch"] for row in net.history if row["event_cp"]][-1] == best + 1


def test_a_history_from_before_the_callback(data):
    net = make(callbacks=[], max_epochs=1).fit(*data)
    net.set_params(callbacks=[AdaCSLCallback()])
    net.initialize_callbacks()
    net.partial_fit(*data)
    assert net.history[-1, "val_cost"] == net.criterion_.controller.history[-1].cost


def test_without_validation_data_it_is_an_error(data):
    with pytest.raises(RuntimeError, match="needs validation data, but the network has none: set train_split"):
        make(train_split=None).fit(*data)


def test_another_criterion_is_an_error(data):
    net = NeuralNetBinaryClassifier(nn.Linear(4, 1), callbacks=[AdaCSLCallback()], max_epochs=1, verbose=0)
    with pytest.raises(LookupError, match=r"the criterion is BCEWithLogitsLoss.* give criterion=AdaptiveCrossEntropy"):
        net.fit(*data)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"every": 0}, ValueError, "every must be a whole number of at least 1, got 0"),
        ({"controller": 8}, TypeError, "controller must be an AdaCSLController or a CostMatrix"),
    ],
)
def test_wrong_settings(data, settings, error, match):
    with pytest.raises(error, match=match):
        make(callbacks=[AdaCSLCallback(**settings)]).initialize()


def test_only_a_net_without_the_callback_warns(data):
    with pytest.warns(UserWarning, match="AdaptiveCrossEntropy has not been adapted"):
        make(callbacks=[]).fit(*data)
    make(callbacks=[AdaCSLCallback(every=5)]).fit(*data)


@pytest.mark.parametrize("invalid", [-100, -1, 2])
def test_labels_are_checked(data, invalid):
    X, y = data
    with pytest.raises(ValueError, match=r"targets must lie in \[0, 1\]"):
        make(train_split=None).fit(X, np.where(np.arange(len(y)) == 3, invalid, y).astype(np.float32))
