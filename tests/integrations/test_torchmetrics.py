"""CostMetric: equal to the costs of plain functions, in batches, in buckets, in collections."""

import warnings

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAccuracy

from adacsl import CostMatrix, find_threshold
from adacsl.integrations.torchmetrics import CostMetric
from adacsl.thresholds import find_multipliers

TWO = CostMatrix(fp=1, fn=8, tp=0.25)
THREE = CostMatrix.from_array([[0, 9, 2], [1, 0, 1], [3, 9, 0]], rows="predicted")
NAMES = {"cost", "cost_half", "cost_bayes", "cost_optimal", "threshold"}


def rows(n=600, k=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, generator=generator) if k == 2 else torch.randn(n, k, generator=generator)
    if k == 2:
        return logits, (torch.rand(n, generator=generator) < torch.sigmoid(1.5 * logits - 1)).long()
    return logits, (logits + torch.randn(n, k, generator=generator)).argmax(1)


def expected(logits, labels, costs, weight=None):
    p = torch.sigmoid(logits).numpy()
    best = find_threshold(p, labels.numpy(), costs, sample_weight=weight)
    half, bayes = (costs.mean(labels.numpy(), p > np.float32(t), sample_weight=weight) for t in (0.5, costs.threshold))
    return {"cost": bayes, "cost_half": half, "cost_bayes": bayes, "cost_optimal": best.cost, "threshold": best.value}


def values(metric):
    return {name: float(value) for name, value in metric.compute().items()}


@pytest.mark.parametrize("weighted", [False, True])
def test_costs_of_two_classes_are_those_of_plain_functions(weighted):
    logits, labels = rows()
    weight = torch.rand(600) if weighted else None
    metric = CostMetric(TWO)
    for part in torch.arange(600).split(70):
        metric.update(logits[part], labels[part], None if weight is None else weight[part])
    wanted = expected(logits, labels, TWO, None if weight is None else weight.double().numpy())
    assert values(metric) == pytest.approx(wanted, rel=1e-6)
    metric.reset()
    metric.update(logits[:50], labels[:50])
    assert values(metric) == pytest.approx(expected(logits[:50], labels[:50], TWO), rel=1e-6)


@pytest.mark.parametrize("shape", [(600, 1), (600, 2), (6, 10, 10), (6, 1, 10, 10), (6, 2, 10, 10), (6, 100, 2)])
def test_shapes_and_ignored_samples(shape):
    logits, labels = rows()
    pair = torch.stack((torch.ones(600), logits + 1), dim=1)
    spatial = shape[2:] if len(shape) > 2 and shape[1] in (1, 2) else shape[1:]
    if shape[-1] == 2 and len(shape) == 3:
        shown, y = pair.reshape(shape), labels.reshape(shape[:2])
    elif shape[1] == 2:
        shown = pair.reshape(shape[0], *shape[2:], 2).movedim(-1, 1)
        y = labels.reshape(shape[0], *shape[2:])
    else:
        shown, y = logits.reshape(shape), labels.reshape(shape[0], *(spatial if len(shape) > 2 else ()))
    skipped = torch.arange(600) % 7 == 0
    y = torch.where(skipped.reshape(y.shape), 255, y)
    metric = CostMetric(TWO, ignore_index=255)
    metric.update(shown, y)
    assert values(metric) == pytest.approx(expected(logits[~skipped], labels[~skipped], TWO), rel=1e-5)


@pytest.mark.parametrize("decide", ["bayes", "half", "tuned", 0.3])
def test_cost_is_that_of_the_chosen_rule(decide):
    logits, labels = rows()
    metric = CostMetric(TWO, decide=decide, prefix="val_")
    metric.update(logits, labels)
    result = values(metric)
    assert set(result) == {f"val_{name}" for name in NAMES}
    if isinstance(decide, str):
        column = {"bayes": "bayes", "half": "half", "tuned": "optimal"}[decide]
        assert result["val_cost"] == result[f"val_cost_{column}"]
    else:
        decided = torch.sigmoid(logits).numpy() > np.float32(0.3)
        assert result["val_cost"] == pytest.approx(TWO.mean(labels.numpy(), decided))


def test_more_scores_than_are_held_are_counted_in_buckets():
    logits, labels = rows(20_000)
    exact, counted = CostMetric(TWO), CostMetric(TWO, kept=1000)
    for part in torch.arange(20_000).split(900):
        exact.update(logits[part], labels[part])
        counted.update(logits[part], labels[part])
    assert sum(len(part) for part in counted.scores) <= 1900
    one, other = values(exact), values(counted)
    for name in ("cost", "cost_half", "cost_bayes"):
        assert other[name] == pytest.approx(one[name], rel=1e-9)  # exact
    assert one["cost_optimal"] <= other["cost_optimal"] <= 1.002 * one["cost_optimal"]
    p = torch.sigmoid(logits).numpy()
    assert TWO.mean(labels.numpy(), p > np.float32(other["threshold"])) == pytest.approx(other["cost_optimal"])


def test_k_classes():
    logits, labels = rows(900, 3)
    metric, sampled = CostMetric(THREE), CostMetric(THREE, kept=1200)
    for part in torch.arange(900).split(100):
        metric.update(logits[part], labels[part])
        sampled.update(logits[part], labels[part])
    q = torch.softmax(logits, 1).numpy()
    best = find_multipliers(q, labels.numpy(), THREE)
    result = values(metric)
    assert result["cost"] == result["cost_bayes"] == pytest.approx(THREE.mean(labels.numpy(), THREE.decide(q)))
    assert result["cost_half"] == pytest.approx(THREE.mean(labels.numpy(), q.argmax(1)))
    assert result["cost_optimal"] == pytest.approx(best.cost)
    assert [result[f"multiplier_{j}"] for j in range(3)] == pytest.approx(np.asarray(best.values).tolist(), rel=1e-6)
    few = values(sampled)
    assert sum(map(len, sampled.labels)) < 500
    for name in ("cost", "cost_half", "cost_bayes"):
        assert few[name] == pytest.approx(result[name], rel=1e-9)
    assert few["cost_optimal"] == pytest.approx(result["cost_optimal"], rel=0.3)


def test_several_labels_are_a_sum_of_independent_problems():
    logits, first = rows()
    second = (torch.randn(600, generator=torch.Generator().manual_seed(3)) > 0.4).long()
    z, y = torch.stack((logits, -logits), 1), torch.stack((first, second), 1)
    y[::5, 1] = -100
    costs = [TWO, CostMatrix(fp=3, fn=1)]
    for kept in (10_000, 100):
        metric = CostMetric(costs, ignore_index=-100, kept=kept)
        for part in torch.arange(600).split(90):
            metric.update(z[part], y[part])
        known = y[:, 1] >= 0
        one = expected(z[:, 0], y[:, 0], costs[0])
        other = expected(z[known, 1], y[known, 1], costs[1])
        result = values(metric)
        for name in ("cost", "cost_half", "cost_bayes"):
            assert result[name] == pytest.approx(one[name] + other[name], rel=1e-6)
        tolerance = 1e-6 if kept == 10_000 else 0.05
        assert result["cost_optimal"] == pytest.approx(one["cost_optimal"] + other["cost_optimal"], rel=tolerance)
        assert result["threshold_0"] == pytest.approx(one["threshold"], rel=tolerance)


def test_in_a_collection_beside_others():
    logits, labels = rows()
    collection = MetricCollection([CostMetric(TWO), BinaryAccuracy()], prefix="val_")
    collection.update(logits, labels)
    result = collection.compute()
    assert {f"val_{name}" for name in NAMES} | {"val_BinaryAccuracy"} == set(result)
    assert float(result["val_cost"]) == pytest.approx(expected(logits, labels, TWO)["cost"])
    # the value of a batch, without forgetting the others
    metric = CostMetric(TWO)
    now = metric(logits[:100], labels[:100])
    metric(logits[100:], labels[100:])
    assert float(now["cost"]) == pytest.approx(expected(logits[:100], labels[:100], TWO)["cost"])
    assert values(metric) == pytest.approx(expected(logits, labels, TWO), rel=1e-6)


def test_probabilities_in_place_of_logits():
    logits, labels = rows()
    one, other, pair = CostMetric(TWO), CostMetric(TWO, from_logits=False), CostMetric(TWO, from_logits=False)
    one.update(logits, labels)
    p = torch.sigmoid(logits)
    other.update(p, labels)
    pair.update(torch.stack((1 - p, p), 1), labels)
    assert values(other) == pytest.approx(values(one), rel=1e-5)
    assert values(pair) == pytest.approx(values(one), rel=1e-5)
    with pytest.raises(ValueError, match="from_logits=False needs probabilities"):
        other.update(logits, labels)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CostMetric(8), TypeError, "costs must be a CostMatrix"),
        (lambda: CostMetric(CostMatrix(fp=1, fn=[1.0, 2.0])), ValueError, "class-wide"),
        (lambda: CostMetric([TWO, THREE]), ValueError, "of two classes each"),
        (lambda: CostMetric([]), ValueError, "must not be empty"),
        (lambda: CostMetric(TWO, decide="best"), ValueError, "decide must be one of 'bayes', 'half', 'tuned' or a thr"),
        (lambda: CostMetric(THREE, decide=0.5), ValueError, "decide must be one of 'bayes', 'half', 'tuned', got 0.5"),
        (lambda: CostMetric(TWO, ignore_index="x"), TypeError, "ignore_index must be a whole number"),
    ],
)
def test_wrong_settings(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_nothing_to_measure_is_one_line():
    metric = CostMetric(TWO, ignore_index=-100)
    metric.update(torch.zeros(3), torch.full((3,), -100))
    with pytest.raises(ValueError, match="there are no samples"):
        metric.compute()


def test_early_stopping_on_the_cost_without_an_adaptive_loss(tmp_path):
    import lightning.pytorch as pl

    X, y = torch.randn(300, 4), (torch.rand(300) < 0.3).long()

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.val = torch.nn.Linear(4, 1), CostMetric(TWO, prefix="val_")

        def training_step(self, batch, _):
            return torch.nn.functional.binary_cross_entropy_with_logits(self.net(batch[0])[:, 0], batch[1].float())

        def validation_step(self, batch, _):
            self.val.update(self.net(batch[0]), batch[1])

        def on_validation_epoch_end(self):
            self.log_dict(self.val.compute())
            self.val.reset()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.1)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), 100)
    stop = pl.callbacks.EarlyStopping(monitor="val_cost", patience=2)
    best = pl.callbacks.ModelCheckpoint(tmp_path, monitor="val_cost")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(
            max_epochs=15, accelerator="cpu", logger=False, callbacks=[stop, best], enable_progress_bar=False,
            enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(Model(), loader, loader)
        tested = trainer.validate(Model(), loader, verbose=False)[0]
    assert {f"val_{name}" for name in NAMES} <= set(tested)
    assert best.best_model_score == stop.best_score


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("costs", [TWO, THREE], ids=["two", "three"])
def test_on_a_gpu(costs):
    logits, labels = rows(600, costs.n_classes)
    ours, theirs = CostMetric(costs, kept=100), CostMetric(costs, kept=100).cuda()
    ours.update(logits, labels)
    theirs.update(logits.cuda(), labels.cuda())
    assert values(theirs) == pytest.approx(values(ours), rel=1e-4)
