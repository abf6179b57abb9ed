"""The engine: members side by side do not touch each other, and the number of processes does not matter."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from adacsl import AdaCSLClassifier, AdaptiveWeight, CostMatrix
from adacsl.estimators.training import (
    Data,
    HonestScores,
    IndexBatches,
    Member,
    Settings,
    copy_all,
    predict_logits,
    select_members,
    share_of_batch,
    train,
)
from adacsl.torch.tablenet import TableNet

SCRIPT = Path(__file__).parent / "scripts" / "two_processes.py"
COSTS = CostMatrix(fp=1, fn=5)


def made_up(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(np.float32)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    x[:, 0] += y
    return torch.from_numpy(x), torch.from_numpy(y)


def folds(n=120, k=3):
    parts = np.array_split(np.random.default_rng(1).permutation(n), k)
    return [(np.setdiff1d(np.arange(n), part), np.sort(part)) for part in parts]


def member(rows, fold=0, target=0.5):
    return Member(*rows, AdaptiveWeight(COSTS, target=target), fold)


def settings(**changes):
    return Settings(**({"epochs": 4, "batch_size": 16, "lr": 0.02, "weight_decay": 0.01, "seed": 3} | changes))


def net(seeds, dropout=0.0):
    return TableNet(4, len(seeds), width=8, dropout=dropout, seeds=seeds)


def weights_of(trained, number):
    return torch.cat([p[number].detach().flatten() for _, p in sorted(trained.net.named_parameters())])


# members


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("select", ["best", "last"])
def test_a_member_in_company_is_the_member_alone(select, clip):
    x, y = made_up()
    data, pairs = Data(x, y), folds()
    how = settings(select=select, gradient_clip=clip)
    together = train(net([0, 1, 2]), data, [member(p, k) for k, p in enumerate(pairs)], how)
    for k, pair in enumerate(pairs):
        alone = train(net([k]), data, [member(pair, k)], how)
        assert weights_of(alone, 0) == pytest.approx(weights_of(together, k), abs=1e-4)
        mine = [row for row in together.history if row["fold"] == k]
        other = [row for row in alone.history if row["member"] == 0]
        for name in ("val_cost", "lambda", "weight", "threshold"):
            assert [row[name] for row in mine] == pytest.approx([row[name] for row in other], abs=1e-4)
        assert together.weights[k] == pytest.approx(alone.weights[0], abs=1e-4)
        assert together.logits[pair[1], k] == pytest.approx(alone.logits[pair[1], 0], abs=1e-4)
        assert torch.isnan(together.logits[pair[0], k]).all()


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_rows_a_member_does_not_train_on_have_no_influence(dropout):
    x, y = made_up()
    pairs = folds()
    how = settings(select="last", adapt=False)
    first = train(net([0, 1, 2], dropout), Data(x, y), [member(p, k) for k, p in enumerate(pairs)], how)
    for k, (_, held_out) in enumerate(pairs):
        other_x, other_y = x.clone(), y.clone()
        other_x[held_out] = 50.0 * torch.randn(len(held_out), 4, generator=torch.Generator().manual_seed(k))
        other_y[held_out] = 1.0 - other_y[held_out]
        second = train(
            net([0, 1, 2], dropout), Data(other_x, other_y), [member(p, i) for i, p in enumerate(pairs)], how
        )
        assert torch.equal(weights_of(first, k), weights_of(second, k))
        assert not torch.allclose(weights_of(first, (k + 1) % 3), weights_of(second, (k + 1) % 3), atol=1e-3)


def test_a_member_is_a_weighted_regression_of_its_own_rows():
    # a linear net, one full batch per step, plain gradient steps: computed by hand
    x, y = made_up(40)
    train_rows, rest = np.arange(30), np.arange(30, 40)
    weight = torch.ones(40, dtype=torch.float64)
    weight[5:15] = 3.0
    model = torch.nn.Linear(4, 1)
    a, b = model.weight.detach().double().clone()[0], model.bias.detach().double().clone()[0]
    how = settings(
        epochs=3, batch_size=40, select="last", adapt=False, gradient_clip=None,
        optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr), lr=0.5,
    )  # fmt: skip
    done = train(model, Data(x, y, weight), [member((train_rows, rest))], how)
    data, labels = x[:30].double(), y[:30].double()
    for step in range(3):
        p = torch.sigmoid(data @ a + b)
        # the negatives weigh 1/5, and the mean is over samples
        slope = torch.where(labels == 1, p - 1, p / 5) * weight[:30] / 30
        lr = 0.5 * 0.5 * (1 + np.cos(np.pi * step / 3))
        a, b = a - lr * slope @ data, b - lr * slope.sum()
    assert done.net.weight[0].detach() == pytest.approx(a.float(), abs=1e-5)
    assert float(done.net.bias.detach()) == pytest.approx(float(b), abs=1e-5)


@pytest.mark.parametrize("own_costs", [False, True])
def test_honest_scores_come_from_the_epoch_that_other_rows_chose(own_costs):
    rng = np.random.default_rng(0)
    n, rows = 40, np.arange(10, 40)
    y = (rng.random(n) < 0.4).astype(np.float32)
    weight = rng.integers(1, 4, n).astype(np.float32)
    costs = CostMatrix(fp=1, fn=rng.integers(1, 9, n).astype(float), tp=0.5) if own_costs else COSTS
    data = Data(torch.zeros(n, 1), torch.from_numpy(y), torch.from_numpy(weight), costs if own_costs else None)
    scores = HonestScores(data, [member((np.arange(10), rows), target=0.3)], torch.device("cpu"))
    epochs = torch.from_numpy(rng.normal(size=(8, n, 1)).astype(np.float32))
    for number, logits in enumerate(epochs):
        scores.look(logits, torch.full((1,), float(number)), always=False)
    by_class = [rows[y[rows] == label] for label in (0, 1)]
    halves = [np.sort(np.concatenate([part[half::2] for part in by_class])) for half in (0, 1)]
    assert sorted([*halves[0], *halves[1]]) == rows.tolist()
    for own, other in (halves, halves[::-1]):
        prices = [
            costs.rows(other).total(y[other], torch.sigmoid(e[other, 0]).numpy() > 0.3, sample_weight=weight[other])
            for e in epochs
        ]
        cheapest = int(np.argmin(prices))
        assert torch.equal(scores.logits[own, 0], epochs[cheapest, own, 0])
        assert (scores.log_weights[own, 0] == cheapest).all()
    assert torch.isnan(scores.logits[:10]).all()
    scores.look(epochs[0], torch.zeros(1), always=True)
    assert torch.equal(scores.logits[rows], epochs[0, rows])


def test_selected_members_predict_the_same():
    x, _ = made_up()
    whole = net([0, 1, 2, 3])
    part = select_members(whole, [2, 0])
    device = torch.device("cpu")
    expected = predict_logits(whole, x, device=device, batch_size=50)[:, [2, 0]]
    assert torch.equal(
        predict_logits(part, x, device=device, batch_size=7), predict_logits(part, x, device=device, batch_size=7)
    )
    assert predict_logits(part, x, device=device, batch_size=120) == pytest.approx(expected, abs=1e-6)


# batches


def batches_of(n, size, seed=None):
    batches = IndexBatches(torch.arange(n), size, None if seed is None else lambda: seed)
    return [rows for block in batches for rows in block]


@pytest.mark.parametrize(("n", "size"), [(1, 8), (8, 8), (9, 8), (17, 8), (100, 33), (65, 64)])
def test_batches_are_even_and_complete(n, size):
    for seed in (None, 0):
        batches = batches_of(n, size, seed)
        assert len(batches) == -(-n // size)
        assert sorted(torch.cat(batches).tolist()) == list(range(n))
        lengths = {len(batch) for batch in batches}
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1
    assert torch.equal(torch.cat(batches_of(n, size)), torch.arange(n))


def test_the_order_depends_on_the_seed_of_the_pass():
    assert torch.equal(torch.cat(batches_of(50, 8, 1)), torch.cat(batches_of(50, 8, 1)))
    assert not torch.equal(torch.cat(batches_of(50, 8, 1)), torch.cat(batches_of(50, 8, 2)))


@pytest.mark.parametrize(("rows", "world"), [(10, 2), (11, 4), (3, 4), (1, 2)])
def test_shares_make_up_the_batch(monkeypatch, rows, world):
    batch = torch.arange(rows)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world)
    shares = []
    for rank in range(world):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        shares.append(share_of_batch(batch))
    # the mean over the processes of (their sum * share) is the sum over the batch
    total = sum(float(part.sum()) * share for part, share in shares) / world
    assert total == pytest.approx(float(batch.sum()))
    assert all(len(part) > 0 for part, _ in shares)


# processes


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path):
    command = [sys.executable, str(SCRIPT), str(tmp_path)]
    done = subprocess.run([*command, "2"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    single = subprocess.run([*command, "1"], capture_output=True, text=True, timeout=300, check=False)
    assert single.returncode == 0, single.stderr[-3000:]
    one, first, second = (json.loads((tmp_path / name).read_text()) for name in ("1-0.json", "2-0.json", "2-1.json"))
    assert first == second
    for name in ("plain", "folds"):
        for column in ("lambda", "val_cost", "train_loss"):
            assert first[name][column] == pytest.approx(one[name][column], abs=1e-4, rel=1e-4), (name, column)
        assert first[name]["scores"] == pytest.approx(one[name]["scores"], abs=1e-3)
        assert first[name]["cost"] == pytest.approx(one[name]["cost"], abs=1e-4)
    # dropout draws other numbers in each process: as good, not the same
    assert first["default"]["cost"] == pytest.approx(one["default"]["cost"], abs=0.1)
    assert len(first["default"]["val_cost"]) == len(one["default"]["val_cost"])


def test_spawned_processes_are_refused_with_advice(monkeypatch):
    import lightning.pytorch as pl

    x, y = made_up()
    monkeypatch.setattr(pl.Trainer, "fit", lambda *_, **__: None)  # they leave nothing in the process that started them
    with pytest.raises(RuntimeError, match=r"without a measured epoch in this process.*'ddp', not 'ddp_spawn'"):
        train(net([0]), Data(x, y), [member(folds()[0])], settings())


def test_the_same_classifier_from_settings_of_the_trainer():
    x, y = made_up()
    clf = AdaCSLClassifier(COSTS, epochs=2, random_state=0).fit(x.numpy(), y.numpy())
    same = AdaCSLClassifier(COSTS, epochs=2, random_state=0, trainer={"accelerator": "cpu", "devices": 1})
    assert np.array_equal(clf.predict_proba(x.numpy()), same.fit(x.numpy(), y.numpy()).predict_proba(x.numpy()))


def test_a_kept_state_is_a_copy_of_all_kinds_of_tensors():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), torch.nn.BatchNorm2d(4))
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    places = {name: value.data_ptr() for name, value in kept.items()}
    net(torch.randn(8, 3, 5, 5)).sum().backward()
    with torch.no_grad():
        net[0].weight.add_(1.0)
    copy_all(kept, net.state_dict())
    assert {value.dtype for value in kept.values()} == {torch.float32, torch.int64}
    assert all(torch.equal(kept[name], value) for name, value in net.state_dict().items())
    assert {name: value.data_ptr() for name, value in kept.items()} == places
