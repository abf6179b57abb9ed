"""The engine: members side by side do not touch each other, and each is what it would be alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import QuantileBins
from adacsl.adaptive.held_out import HeldOut
from adacsl.neural.epoch_selection import Keeper
from adacsl.neural.loop import make_optimizer, make_schedule, train
from adacsl.neural.members import Data, Member, Settings
from adacsl.neural.model import predict_logits
from adacsl.torch.realmlp import RealMLP
from adacsl.torch.tabular import TableNet, stack_members

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


def steered(rows, number=0, **settings):
    return Member(*rows, seed=number, fold=number, controller=AdaCSLController(COSTS), **settings)


def settings(**changes):
    usual = {"epochs": 4, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.01, "device": "cpu"}
    return Settings(**(usual | changes))


def net(members, dropout=0.0):
    return TableNet(4, len(members), dropout=dropout, seeds=[member.seed for member in members])


def keeper_of(member, data, *, select="best", patience=None, **more):
    rows = member.validation
    weight = None if data.sample_weight is None else data.sample_weight.numpy()[rows]
    held = HeldOut(rows, data.y.numpy()[rows], COSTS.rows(rows), weight=weight, last=select == "last")
    shift = float(np.log(1 / 5))  # of T' = 0.5
    return Keeper(member, held, shift=shift, patience=patience, **more)


def fit(members, data, how, *, dropout=0.0, select="best", patience=None):
    keepers = [keeper_of(member, data, select=select, patience=patience) for member in members]
    train(net(members, dropout), data, members, keepers, how)
    return keepers


def same_weights(one, other):
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


def check_same(one, other):
    """Bit for bit."""
    assert one.history == other.history
    assert same_weights(one.weights, other.weights)
    assert np.array_equal(one.held.logits, other.held.logits)
    assert np.array_equal(one.held.corrected, other.held.corrected)
    assert (one.held.best, one.held.cost, one.undone) == (other.held.best, other.held.cost, other.undone)


# alone and in company


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("select", ["best", "last"])
@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_a_member_in_company_is_the_member_alone(select, clip, dropout):
    data, pairs, how = Data(*made_up()), folds(), settings(gradient_clip=clip)
    together = fit([steered(p, k) for k, p in enumerate(pairs)], data, how, select=select, dropout=dropout)
    for k, pair in enumerate(pairs):
        (alone,) = fit([steered(pair, k)], data, how, select=select, dropout=dropout)
        check_same(together[k], alone)
    assert len({tuple(row["lambda"] for row in keeper.history) for keeper in together}) == 3  # they do differ


def averaged_fit(members, data, how):
    keepers = [keeper_of(member, data) for member in members]
    seeds = [member.seed for member in members]
    made = RealMLP(4, len(members), numeric=[0, 2], width=12, depth=2, frequencies=3, seeds=seeds)
    train(made, data, members, keepers, how)
    return keepers, made


AVERAGED = {"weight_average": 0.9, "schedule": "warm-constant"}


@pytest.mark.parametrize("every", [None, 3])
def test_a_realmlp_in_company_is_the_one_alone(every):
    data, pairs, how = Data(*made_up()), folds(), settings(**AVERAGED)
    together, _ = averaged_fit([steered(p, k, every=every) for k, p in enumerate(pairs)], data, how)
    for k, pair in enumerate(pairs):
        (alone,), _ = averaged_fit([steered(pair, k, every=every)], data, how)
        check_same(together[k], alone)


def test_epochs_are_judged_and_kept_with_averaged_weights():
    # plain gradient steps on a linear net, one batch per epoch, computed by hand
    x, y = made_up(40)
    model = torch.nn.Linear(4, 1)
    a, b = model.weight.detach().double().clone()[0], model.bias.detach().double().clone()[0]
    how = settings(
        epochs=30, batch_size=40, gradient_clip=None, learning_rate=0.5, schedule="constant", weight_average=0.7,
        optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr),
    )  # fmt: skip
    member, data = Member(np.arange(30), np.arange(30, 40)), Data(x, y)
    keeper = keeper_of(member, data, select="last")
    train(model, data, [member], [keeper], how)
    rows, labels = x[:30].double(), y[:30].double()
    mean_a, mean_b = a, b
    for step in range(30):
        slope = (torch.sigmoid(rows @ a + b) - labels) / 30
        a, b = a - 0.5 * slope @ rows, b - 0.5 * slope.sum()
        keep = min(0.7, (1 + step) / (10 + step))
        mean_a, mean_b = keep * mean_a + (1 - keep) * a, keep * mean_b + (1 - keep) * b
    assert keeper.weights["weight"][0] == pytest.approx(mean_a.float(), abs=1e-5)
    assert float(keeper.weights["bias"]) == pytest.approx(float(mean_b), abs=1e-5)
    assert model.weight[0].detach() == pytest.approx(a.float(), abs=1e-5)  # training went on from its own weights
    held = (x[30:].double() @ mean_a + mean_b).numpy()
    assert keeper.held.logits - keeper.shift == pytest.approx(held, abs=1e-4)


def test_the_rate_warms_up_and_stays():
    how = settings(schedule="warm-constant", learning_rate=0.5)
    made = RealMLP(4, numeric=[0], width=3, seeds=[0])
    optimizer = make_optimizer(made, how, fused=False)
    schedule = make_schedule(optimizer, how, 1000)
    rates = []
    for _ in range(100):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    plain, scales = (np.asarray(rates)[:, i] for i in (0, -1))
    assert plain == pytest.approx(0.5 * np.minimum(1.0, np.arange(1, 101) / 50))
    assert scales == pytest.approx(6.0 * plain)
    named = {id(p): name for name, p in made.named_parameters()}
    groups = [{named[id(p)] for p in group["params"]} for group in optimizer.param_groups]
    assert groups[-1] == {"scale"}
    assert sum(map(len, groups)) == len(named)
    assert all(group["weight_decay"] == 0 for group in optimizer.param_groups[1:])


def own_loss(logits, labels):
    return (torch.sigmoid(logits) - labels) ** 2


def different():
    """Return members that have little in common but the number of batches."""
    pairs = [(train_rows, held[: len(held) - 7 * k]) for k, (train_rows, held) in enumerate(folds())]
    y = made_up()[1].numpy()
    pools = [np.flatnonzero(y == label) for label in (0, 1)]
    pools = tuple(np.intersect1d(pool, pairs[0][0]) for pool in pools)
    shorter = (pairs[0][0][:-6], pairs[0][1])  # batches of another length, and as many
    return {
        "steered": steered(pairs[0], 0),
        "by subgroups": replace(steered(pairs[1], 1), controller=AdaCSLController(COSTS, partition=QuantileBins(3))),
        "between batches": steered(pairs[2], 2, every=3),
        "plain": Member(*pairs[0], seed=3),
        "weighted": Member(*pairs[1], seed=4, weight=0.2),
        "fewer rows": Member(*shorter, seed=5, weight=0.2),
        "net-focal": Member(*pairs[2], seed=6, weight=0.2, gamma=2.0),
        "shifted": Member(*pairs[0], seed=7, offset=-1.6),
        "own loss": Member(*pairs[1], seed=8, loss=own_loss),
        "balanced": Member(*pairs[0], seed=9, pools=pools),
        "rows of many costs": steered(pairs[2], 10, costs=CostMatrix(fp=1, fn=np.linspace(1, 9, 120))),
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_company_of_any_kind_does_not_matter(weighted):
    weight = torch.linspace(0.5, 2.0, 120) if weighted else None
    data, how = Data(*made_up(), weight), settings(gradient_clip=0.1 if weighted else 1.0)
    company = different()
    together = dict(zip(company, fit(list(company.values()), data, how, dropout=0.25), strict=True))
    for name, member in different().items():
        (alone,) = fit([member], data, how, dropout=0.25)
        check_same(together[name], alone)
    firsts = [keeper.weights["layers.0.weight"] for keeper in together.values()]
    assert not any(torch.equal(a, b) for i, a in enumerate(firsts) for b in firsts[:i])


def test_patience_is_each_keepers_own():
    data, pairs, how = Data(*made_up()), folds(), settings(epochs=25, learning_rate=0.05)

    def company():
        return [steered(pair, k) for k, pair in enumerate(pairs)]

    patience = (2, 7, None)
    members = company()
    together = [keeper_of(member, data, patience=own) for member, own in zip(members, patience, strict=True)]
    train(net(members, 0.1), data, members, together, how)
    lengths = [len(keeper.history) for keeper in together]
    assert lengths[0] < lengths[1] < lengths[2] == 25  # else this test tells nothing
    for k, (member, own) in enumerate(zip(company(), patience, strict=True)):
        alone = keeper_of(member, data, patience=own)
        train(net([member], 0.1), data, [member], [alone], how)
        check_same(together[k], alone)
        if own is not None:
            assert lengths[k] - 1 - alone.held.best == own


def test_several_keepers_of_one_member_do_not_disturb_each_other():
    data, pair, how = Data(*made_up()), folds()[0], settings(epochs=12, learning_rate=0.05)
    kinds = [{"select": "last"}, {"patience": 2}, {"unweighted": True}, {"watch": np.arange(5, 60)}]

    def look(own, kinds):
        keepers = [keeper_of(own, data, **kind) for kind in kinds]
        train(net([own]), data, [own], keepers, how)
        return keepers

    together = look(steered(pair), kinds)
    for keeper, kind in zip(together, kinds, strict=True):
        (alone,) = look(steered(pair), [kind])
        assert alone.history == keeper.history
        if "watch" in kind:
            assert alone.weights is keeper.weights is None
            assert np.array_equal(alone.watched, keeper.watched)
        else:
            check_same(keeper, alone)


def test_watched_rows_are_scored_by_the_kept_epoch():
    x, y = made_up()
    data, watch = Data(x, y), np.arange(3, 90)
    for make in (lambda: net([steered(folds()[0])]), lambda: torch.nn.Linear(4, 1)):
        for select in ("best", "last"):
            torch.manual_seed(0)
            member, made = steered(folds()[0]), make()
            keepers = [keeper_of(member, data, select=select, watch=rows) for rows in (watch, None)]
            train(made, data, [member], keepers, settings(epochs=6, learning_rate=0.1))
            watching, keeping = keepers
            like = stack_members(made, [keeping.weights]) if isinstance(made, TableNet) else made
            if like is made:
                like.load_state_dict(keeping.weights)
            expected = predict_logits(like, x[watch], device=torch.device("cpu"), batch_size=200)[:, 0]
            assert watching.watched == pytest.approx(expected.numpy(), abs=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_rows_a_member_does_not_train_on_have_no_influence(dropout):
    x, y = made_up()
    pairs, how = folds(), settings()

    def weights(data):
        members = [Member(*pair, seed=k, weight=0.2) for k, pair in enumerate(pairs)]
        return [keeper.weights for keeper in fit(members, data, how, dropout=dropout, select="last")]

    first = weights(Data(x, y))
    for k, (_, held_out) in enumerate(pairs):
        other_x, other_y = x.clone(), y.clone()
        other_x[held_out] = 50.0 * torch.randn(len(held_out), 4, generator=torch.Generator().manual_seed(k))
        other_y[held_out] = 1.0 - other_y[held_out]
        second = weights(Data(other_x, other_y))
        assert same_weights(first[k], second[k])
        assert not same_weights(first[(k + 1) % 3], second[(k + 1) % 3])


# what a member learns


def test_a_member_is_a_weighted_regression_of_its_own_rows():
    # a linear net, one full batch per step, plain gradient steps: computed by hand
    x, y = made_up(40)
    weight = torch.ones(40, dtype=torch.float64)
    weight[5:15] = 3.0
    model = torch.nn.Linear(4, 1)
    a, b = model.weight.detach().double().clone()[0], model.bias.detach().double().clone()[0]
    how = settings(
        epochs=3, batch_size=40, gradient_clip=None, learning_rate=0.5,
        optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr),
    )  # fmt: skip
    member, data = Member(np.arange(30), np.arange(30, 40), weight=1 / 5), Data(x, y, weight)
    keeper = keeper_of(member, data, select="last")
    train(model, data, [member], [keeper], how)
    rows, labels = x[:30].double(), y[:30].double()
    for step in range(3):
        p = torch.sigmoid(rows @ a + b)
        # the negatives weigh 1/5, and the mean is over samples
        slope = torch.where(labels == 1, p - 1, p / 5) * weight[:30] / 30
        lr = 0.5 * 0.5 * (1 + np.cos(np.pi * step / 3))
        a, b = a - lr * slope @ rows, b - lr * slope.sum()
    assert keeper.weights["weight"][0] == pytest.approx(a.float(), abs=1e-5)
    assert float(keeper.weights["bias"]) == pytest.approx(float(b), abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ({"weight": 0.2}, lambda z, y: F.binary_cross_entropy_with_logits(z, y, reduction="none")),
        (
            {"weight": 0.2, "gamma": 2.0},
            lambda z, y: (y - torch.sigmoid(z)).abs() ** 2 * F.binary_cross_entropy_with_logits(z, y, reduction="none"),
        ),
        ({"offset": -1.6}, lambda z, y: F.binary_cross_entropy_with_logits(z - 1.6, y, reduction="none")),
        ({"loss": own_loss}, own_loss),
    ],
    ids=["weighted", "net-focal", "shifted", "own"],
)
def test_the_loss_of_a_member_is_what_its_settings_say(kind, loss):
    x, y = made_up(40)
    model, still = torch.nn.Linear(4, 1), settings(epochs=1, batch_size=40, learning_rate=0.0)
    member, data = Member(np.arange(30), np.arange(30, 40), **kind), Data(x, y)
    keeper = keeper_of(member, data)
    train(model, data, [member], [keeper], still)
    with torch.no_grad():
        each = loss(model(x[:30])[:, 0], y[:30]) * torch.where(y[:30] == 1, 1.0, member.weight)
    assert keeper.history[0]["train_loss"] == pytest.approx(float(each.mean()), rel=1e-5)


def test_history_tells_what_an_epoch_was_trained_with_and_what_came_out():
    data, member = Data(*made_up()), steered(folds()[0])
    (keeper,) = fit([member], data, settings(epochs=3), select="last")
    first, second, third = keeper.history
    assert (first["lambda"], first["weight"]) == (1.0, pytest.approx(1 / 5))
    assert second["weight"] == pytest.approx(second["lambda"] / 5)
    assert second["lambda"] != 1.0
    assert member.controller.lambda_ not in (second["lambda"], third["lambda"])  # one step more
    y = data.y.numpy()[member.validation]
    assert third["val_cost"] == pytest.approx(COSTS.mean(y, keeper.held.logits > np.log(1 / 5)))


def test_members_may_share_a_controller():
    data, pairs = Data(*made_up()), folds()
    shared = AdaCSLController(COSTS)
    members = [Member(*pair, seed=k, fold=k, controller=shared) for k, pair in enumerate(pairs)]
    keepers = fit(members, data, settings(epochs=3))
    lambdas = [[row["lambda"] for row in keeper.history] for keeper in keepers]
    assert lambdas[0] == lambdas[1] == lambdas[2]
    assert len(shared.history) == 3  # one step per epoch, over the rows of all


def test_kept_members_side_by_side_predict_the_same():
    data = Data(*made_up())
    members = [steered(pair, k) for k, pair in enumerate(folds())]
    keepers = [keeper_of(member, data) for member in members]
    whole = net(members)
    train(whole, data, members, keepers, settings())
    chosen = stack_members(whole, [keepers[2].weights, keepers[0].weights])
    both = predict_logits(chosen, data.x, device=torch.device("cpu"), batch_size=120)
    assert both.shape == (120, 2)
    assert torch.equal(both, predict_logits(chosen, data.x, device=torch.device("cpu"), batch_size=120))
    for column, keeper in enumerate((keepers[2], keepers[0])):
        expected = keeper.held.logits - keeper.shift
        assert both[keeper.held.rows, column].numpy() == pytest.approx(expected, abs=1e-5)


def test_a_kept_state_is_a_copy_of_all_kinds_of_tensors():
    x, y = made_up()
    pictures = x[:, :3, None, None].expand(-1, -1, 5, 5).contiguous()
    made = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
        torch.nn.Linear(36, 1),
    )  # fmt: skip
    data, member = Data(pictures, y), steered(folds()[0])
    keepers = [keeper_of(member, data, select=select) for select in ("best", "last")]
    train(made, data, [member], keepers, settings(epochs=8, learning_rate=0.1))
    best, last = keepers
    assert best.held.best < last.held.best == 7
    assert {value.dtype for value in last.weights.values()} == {torch.float32, torch.int64}
    assert same_weights(last.weights, made.state_dict())  # also what was copied over epoch by epoch
    assert not same_weights(best.weights, last.weights)
    assert int(best.weights["1.num_batches_tracked"]) == 5 * (best.held.best + 1)
    with torch.no_grad():
        made[0].weight.add_(1.0)
    assert not same_weights(last.weights, made.state_dict())


def test_training_that_measured_nothing_is_refused_with_advice(monkeypatch):
    import lightning.pytorch as pl

    monkeypatch.setattr(pl.Trainer, "fit", lambda *_, **__: None)  # spawned processes leave nothing in this one
    with pytest.raises(RuntimeError, match=r"without a measured epoch in this process.*'ddp', not 'ddp_spawn'"):
        fit([steered(folds()[0])], Data(*made_up()), settings())
