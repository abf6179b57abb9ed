"""Networks trained on own loaders: as a plain loop trains, resumable, with any inputs."""

import copy

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from adacsl import AdaCSLClassifier, AdaCSLController, CostMatrix, CostSensitiveClassifier
from adacsl.neural import NeuralLearner
from adacsl.neural.loaders import split_batch

COSTS = CostMatrix(fp=1, fn=8)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")


def data(k=2, n=600, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator)
    score = x[:, 0] + x[:, 1] + 0.7 * torch.randn(n, generator=generator)
    return x, torch.bucketize(score, torch.tensor([1.2] if k == 2 else [-0.7, 0.9]))


def loaders(k=2, shuffle=True):
    x, y = data(k)
    train, validation = TensorDataset(x[:400], y[:400]), TensorDataset(x[400:], y[400:])
    return DataLoader(train, 50, shuffle=shuffle), DataLoader(validation, 64)


def net(k=2, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1 if k == 2 else k))


def classifier(costs=COSTS, module=None, **settings):
    learner = NeuralLearner(net(costs.n_classes) if module is None else module, epochs=4, learning_rate=0.02)
    return AdaCSLClassifier(costs, learner=learner, random_state=0, **settings)


def test_it_trains_as_a_plain_loop_with_the_controller():
    train, validation = loaders(shuffle=False)
    start = net()
    learner = NeuralLearner(start, epochs=4, learning_rate=0.05, schedule="constant", optimizer=torch.optim.SGD)
    clf = AdaCSLClassifier(COSTS, learner=learner, controller={"update": "exponential", "damping": 1.0}, select="last",
                           random_state=0).fit(train, validation=validation)  # fmt: skip
    model, controller = copy.deepcopy(start), AdaCSLController(COSTS)
    optimizer, trained_with = torch.optim.SGD(model.parameters(), lr=0.05), []
    x, y = (torch.cat(column) for column in zip(*validation, strict=True))
    for _ in range(4):
        trained_with.append(controller.lambda_)
        for inputs, labels in train:
            optimizer.zero_grad()
            weight = labels + (1 - labels) * controller.weight
            F.binary_cross_entropy_with_logits(model(inputs)[:, 0], labels.float(), weight=weight).backward()
            optimizer.step()
        with torch.no_grad():
            controller.step(torch.sigmoid(model(x)[:, 0]), y)
    assert clf.history_["lambda"].tolist() == pytest.approx(trained_with, rel=1e-4)
    for ours, theirs in zip(clf.net_[0].parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert len(set(trained_with)) == 4


@pytest.mark.parametrize("costs", [COSTS, THREE], ids=["two", "three"])
def test_predictions_of_a_loader(costs):
    k = costs.n_classes
    train, validation = loaders(k)
    clf = classifier(costs).fit(train, validation=validation)
    y = torch.cat([labels for _, labels in validation]).numpy()
    proba = clf.predict_proba(validation)
    assert proba.shape == (200, k)
    assert (clf.predict(validation) == costs.decide(proba[:, 1] if k == 2 else proba)).mean() > 0.99
    inputs = torch.cat([x for x, _ in validation])
    assert (clf.predict(DataLoader(inputs, 30)) == clf.predict(validation)).all()  # inputs alone
    assert (clf.predict(inputs) == clf.predict(validation)).all()  # one batch
    constant = min(costs.mean(y, np.full(200, j)) for j in range(k))
    assert costs.mean(y, clf.predict(validation)) < constant
    assert clf.estimated_cost_.low <= clf.estimated_cost_.estimate <= clf.estimated_cost_.high
    assert clf.score(validation, y) == pytest.approx(-costs.mean(y, clf.predict(validation)))
    assert len(clf.oof_scores_) == 200
    assert clf.classes_.tolist() == list(range(k))


class Named(Dataset):
    """Dict inputs, as collators make them."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"first": self.x[i, :3], "second": self.x[i, 3:], "labels": self.y[i]}


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, first, second):
        return {"logits": self.layer(torch.cat((first, second), 1))}


class Pairs:
    """No DataLoader: tuples of inputs, from what can only be iterated; its length is not known."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        for rows in torch.arange(len(self.x)).split(50):
            yield (self.x[rows, :3], self.x[rows, 3:]), self.y[rows]


class Stream(IterableDataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        return zip(self.x, self.y, strict=True)


@pytest.mark.parametrize("kind", ["mapping", "tuple", "stream"])
def test_inputs_of_any_form(kind):
    x, y = data()
    parts = (x[:400], y[:400]), (x[400:], y[400:])
    if kind == "mapping":
        train, validation = (DataLoader(Named(*part), 50) for part in parts)
    elif kind == "tuple":
        train, validation = (Pairs(*part) for part in parts)
    else:
        train, validation = (DataLoader(Stream(*part), 50) for part in parts)
    clf = classifier(module=TwoInputs if kind != "stream" else None).fit(train, validation=validation)
    assert clf.predict(validation).shape == (200,)
    assert COSTS.mean(y[400:].numpy(), clf.predict(validation)) < float((y[400:] == 0).float().mean())
    if kind == "mapping":
        batch = {name: value for name, value in next(iter(validation)).items() if name != "labels"}
        assert (clf.predict(OneBatch(batch)) == clf.predict(validation)[:50]).all()


class OneBatch:
    def __init__(self, batch):
        self.batch = batch

    def __iter__(self):
        yield self.batch


class CrashError(Exception):
    """The end of a process."""


def test_a_resumed_fit_is_the_uninterrupted_one(tmp_path):
    train, validation = loaders()
    whole = classifier().fit(train, validation=validation)

    class Stopping:
        """Ends in the third epoch."""

        epochs = 0

        def __iter__(self):
            Stopping.epochs += 1
            for number, batch in enumerate(train):
                if Stopping.epochs == 3 and number == 4:
                    raise CrashError
                yield batch

        def __len__(self):
            return len(train)

    with pytest.raises(CrashError):
        classifier(resume=tmp_path / "run").fit(Stopping(), validation=validation)
    resumed = classifier(resume=tmp_path / "run").fit(train, validation=validation)
    assert resumed.history_.equals(whole.history_)
    for ours, theirs in zip(resumed.net_[0].parameters(), whole.net_[0].parameters(), strict=True):
        assert torch.equal(ours, theirs)
    other = classifier(resume=tmp_path / "run").set_params(learner__learning_rate=0.1)
    with pytest.raises(ValueError, match=r"belongs to other|another fit|other data or settings"):
        other.fit(train, validation=validation)


def test_batches_are_not_held(monkeypatch):
    """Each batch is freed before the next but a few: what the loaders give is not collected."""
    import gc
    import weakref

    x, y = data()
    alive, most = weakref.WeakSet(), [0]

    class Counting:
        def __init__(self, rows):
            self.rows = rows

        def __iter__(self):
            for part in self.rows.split(10):
                inputs = x[part].clone()
                alive.add(inputs)
                gc.collect(0)
                most[0] = max(most[0], len(alive))
                yield inputs, y[part]

    classifier(module=net()).fit(Counting(torch.arange(400)), validation=Counting(torch.arange(400, 600)))
    assert most[0] <= 6


def test_methods_and_targets():
    train, validation = loaders()
    plain = CostSensitiveClassifier(
        COSTS, learner=NeuralLearner(net(), epochs=3, learning_rate=0.02), decide="tuned", random_state=0
    ).fit(train, validation=validation)
    assert plain.history_["lambda"].tolist() == [1.0] * 3
    auto = classifier(target_threshold="auto").fit(train, validation=validation)
    assert set(auto.target_costs_) >= {"plain", 0.5}
    assert clone(auto).fit(train, validation=validation).history_.equals(auto.history_)


def test_what_loaders_exclude_is_one_line(tmp_path):
    train, validation = loaders()
    x, y = data()
    cases = [
        (lambda: classifier().fit(train), TypeError, "a training loader needs a validation loader"),
        (lambda: classifier().fit(iter(train), validation=validation), TypeError, "X is an iterator, which is"),
        (lambda: classifier().fit(train, validation=3), TypeError, "validation must be an iterable"),
        (lambda: classifier(cv=5).fit(train, validation=validation), ValueError, "cv=5 needs all samples at once"),
        (lambda: classifier().fit(train, validation=validation, groups=y), TypeError, "groups cannot be given with"),
        (lambda: classifier().fit(x.numpy(), y.numpy(), validation=validation), TypeError, "goes with loaders"),
        (
            lambda: AdaCSLClassifier(COSTS, learner="xgboost").fit(train, validation=validation), TypeError,
            "loaders train networks",
        ),
        (lambda: classifier().set_params(costs=None).fit(train, validation=validation), TypeError, "class-wide"),
        (lambda: AdaCSLClassifier(COSTS).fit(train, validation=validation), TypeError, "need a network of your own"),
        (lambda: classifier(module=net(3)).fit(train, validation=validation), ValueError, "one output, or two"),
        (lambda: classifier(pos_label=0).fit(train, validation=validation), ValueError, "no pos_label"),
        (
            lambda: classifier().fit(train, validation=DataLoader(TensorDataset(x, y + 1), 50)), ValueError,
            "labels must be class numbers from 0 to 1, got 2",
        ),
        (
            lambda: classifier().fit(train, validation=DataLoader(TensorDataset(x, y), 50, shuffle=True)), ValueError,
            "no shuffle",
        ),
        (
            lambda: classifier().fit(train, validation=DataLoader(TensorDataset(x, y * 0), 50)), ValueError,
            "600 samples of 1 classes",
        ),
        (lambda: classifier().fit(train, validation=DataLoader(TensorDataset(x), 50)), TypeError, "each batch must be"),
    ]  # fmt: skip
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
    clf = classifier().fit(train, validation=validation)
    with pytest.raises(ValueError, match="has inputs of your own, which it cannot describe"):
        clf.save(tmp_path / "model")


def test_batches_are_split():
    x, y = torch.zeros(2, 3), torch.tensor([0, 1])
    for batch in ((x, y), [x, y], {"x": x, "label": y}):
        assert split_batch(batch)[1] is y
    assert split_batch((x,), labels=False) == (x, None)
    assert split_batch(x, labels=False)[1] is None
