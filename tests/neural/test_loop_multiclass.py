"""The engine with three classes: losses against torch, members alone and in company, weights of every class steered."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive.held_out import HeldOut
from adacsl.neural.checkpoints import Checkpoints
from adacsl.neural.epoch_selection import Keeper
from adacsl.neural.loop import member_losses, train
from adacsl.neural.members import Data, Member, Settings
from adacsl.neural.model import predict_logits
from adacsl.torch.tabular import TableNet, member_logits, stack_members

K = 3
COSTS = CostMatrix.from_array([[0, 2, 8], [1, 0, 6], [1, 3, 0]], rows="predicted")
WEIGHTS = np.asarray([0.5, 1.0, 2.0])
NONE = np.empty(0, dtype=np.int64)
CPU = torch.device("cpu")


def made_up(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(K, n, p=[0.5, 0.3, 0.2])
    x = rng.normal(size=(n, 4)).astype(np.float32)
    x[:, :K] += np.eye(K)[y]
    return torch.from_numpy(x), torch.from_numpy(y)


def data_of(weight=None, n=120):
    return Data(*made_up(n), weight, n_classes=K)


def folds(n=120):
    parts = np.array_split(np.random.default_rng(1).permutation(n), 3)
    return [(np.setdiff1d(np.arange(n), part), np.sort(part)) for part in parts]


def steered(rows, number=0, **settings):
    return Member(*rows, seed=number, fold=number, controller=AdaCSLController(COSTS, damping=0.5), **settings)


def settings(**changes):
    usual = {"epochs": 4, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.01, "device": "cpu"}
    return Settings(**(usual | changes))


def net(members, dropout=0.0, **sizes):
    return TableNet(4, len(members), outputs=K, dropout=dropout, seeds=[m.seed for m in members], **sizes)


def keeper_of(member, data, *, select="best", decide="bayes", **more):
    rows = member.validation
    weight = None if data.sample_weight is None else data.sample_weight.numpy()[rows]
    held = HeldOut(rows, data.y.numpy()[rows], COSTS, decide=decide, weight=weight, last=select == "last")
    return Keeper(member, held, **({"shift": -np.log(WEIGHTS)} | more))


def fit(members, data, how, *, dropout=0.0, sizes=None, **more):
    keepers = [keeper_of(member, data, **more) for member in members]
    train(net(members, dropout, **(sizes or {})), data, members, keepers, how)
    return keepers


def check_same(one, other):
    """Bit for bit."""
    assert one.history == other.history
    assert list(one.weights) == list(other.weights)
    assert all(torch.equal(value, other.weights[name]) for name, value in one.weights.items())
    assert np.array_equal(one.held.logits, other.held.logits)
    assert np.array_equal(one.held.corrected, other.held.corrected)
    assert (one.held.best, one.held.cost, one.undone) == (other.held.best, other.held.cost, other.undone)


# the loss


@given(seed=st.integers(0, 99), rows=st.integers(1, 9), heads=st.integers(1, 3), classes=st.integers(3, 6))
def test_losses_are_torchs_weighted_cross_entropies(seed, rows, heads, classes):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, 2, heads, classes, generator=generator)
    y = torch.randint(classes, (rows, 2), generator=generator)
    own = torch.rand(2, classes, generator=generator)
    result = member_losses([Member(NONE, NONE)] * 2, logits, y, own.T.gather(0, y), None)
    for i in range(2):
        each = [F.cross_entropy(logits[:, i, h], y[:, i], weight=own[i], reduction="sum") for h in range(heads)]
        assert float(result[i]) == pytest.approx(float(sum(each)) / heads, rel=1e-4, abs=1e-6)


def test_gradients_of_focal_losses_are_finite_where_the_net_is_sure():
    logits = torch.tensor([[[[60.0, 0.0, -60.0]]], [[[-60.0, 0.0, 60.0]]]], requires_grad=True)
    for gamma in (0.5, 2.0):
        member = Member(NONE, NONE, gamma=gamma)
        (slope,) = torch.autograd.grad(
            member_losses([member], logits, torch.zeros(2, 1, dtype=torch.int64), torch.ones(2, 1), None).sum(), logits
        )
        assert bool(torch.isfinite(slope).all())


def own_loss(logits, labels):
    return ((torch.softmax(logits, 1) - F.one_hot(labels, K)) ** 2).sum(1)


def focal(z, y):
    ce = F.cross_entropy(z, y, reduction="none")
    return (1 - torch.exp(-ce)) ** 2 * ce


OFFSET = np.asarray([0.3, -0.1, -0.2])


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ({}, lambda z, y: F.cross_entropy(z, y, reduction="none")),
        ({"weight": WEIGHTS}, lambda z, y: F.cross_entropy(z, y, reduction="none")),
        ({"weight": WEIGHTS, "gamma": 2.0}, focal),
        ({"offset": OFFSET}, lambda z, y: F.cross_entropy(z + torch.tensor(OFFSET), y, reduction="none")),
        ({"loss": own_loss}, own_loss),
    ],
    ids=["plain", "weighted", "net-focal", "shifted", "own"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_a_member_is_what_its_settings_say(kind, loss, weighted):
    weight = torch.linspace(0.5, 2.0, 40) if weighted else None
    data, model = data_of(weight, 40), torch.nn.Linear(4, K)
    member = Member(np.arange(30), np.arange(30, 40), **kind)
    keeper = keeper_of(member, data)
    train(model, data, [member], [keeper], settings(epochs=1, batch_size=40, learning_rate=0.0))
    x, y = data.x[:30], data.y[:30]
    each = torch.tensor(np.broadcast_to(member.weight, K)[y]) * (1.0 if weight is None else weight[:30])
    with torch.no_grad():
        each = loss(model(x), y) * each
    assert keeper.history[0]["train_loss"] == pytest.approx(float(each.mean()), rel=1e-5)


def test_a_member_is_a_weighted_regression_of_its_own_rows():
    # a linear net, one full batch per step, plain gradient steps: computed by hand
    data, model = data_of(n=40), torch.nn.Linear(4, K)
    a, b = (p.detach().double().clone() for p in (model.weight, model.bias))
    how = settings(
        epochs=3, batch_size=40, gradient_clip=None, learning_rate=0.5,
        optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr),
    )  # fmt: skip
    member = Member(np.arange(30), np.arange(30, 40), weight=WEIGHTS)
    keeper = keeper_of(member, data, select="last")
    train(model, data, [member], [keeper], how)
    rows, labels = data.x[:30].double(), data.y[:30]
    for step in range(3):
        q = torch.softmax(rows @ a.T + b, 1)
        slope = (q - F.one_hot(labels, K)) * torch.tensor(WEIGHTS)[labels][:, None] / 30
        lr = 0.5 * 0.5 * (1 + np.cos(np.pi * step / 3))
        a, b = a - lr * slope.T @ rows, b - lr * slope.sum(0)
    torch.testing.assert_close(keeper.weights["weight"].double(), a, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(keeper.weights["bias"].double(), b, atol=1e-5, rtol=1e-4)


# alone and in company


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("select", ["best", "last"])
@pytest.mark.parametrize("sizes", [{}, {"heads": 3, "bins": 4}], ids=["plain", "heads"])
def test_a_member_in_company_is_the_member_alone(select, clip, sizes):
    data, pairs, how = data_of(), folds(), settings(gradient_clip=clip)
    more = {"select": select, "dropout": 0.25, "sizes": sizes}
    together = fit([steered(p, k) for k, p in enumerate(pairs)], data, how, **more)
    for k, pair in enumerate(pairs):
        (alone,) = fit([steered(pair, k)], data, how, **more)
        check_same(together[k], alone)
    assert len({str([row["lambdas"] for row in keeper.history]) for keeper in together}) == 3  # they do differ


def row_costs():
    """Return costs of each row: missing the last class costs more and more."""
    prices = np.repeat(np.asarray([[0.0, 2, 8], [1, 0, 6], [1, 3, 0]])[None], 120, axis=0)
    prices[:, :2, 2] *= np.linspace(0.5, 3, 120)[:, None]
    return CostMatrix.from_array(prices, rows="predicted")


def different():
    """Return members that have little in common but the number of batches."""
    pairs = [(train_rows, held[: len(held) - 7 * k]) for k, (train_rows, held) in enumerate(folds())]
    y = made_up()[1].numpy()
    pools = tuple(np.intersect1d(np.flatnonzero(y == label), pairs[0][0]) for label in range(K))
    return {
        "steered": steered(pairs[0], 0),
        "cautious": replace(steered(pairs[1], 1), controller=AdaCSLController(COSTS, n_standard_errors=1.0)),
        "between batches": steered(pairs[2], 2, every=3),
        "plain": Member(*pairs[0], seed=3),
        "weighted": Member(*pairs[1], seed=4, weight=WEIGHTS),
        "fewer rows": Member(pairs[0][0][:-6], pairs[0][1], seed=5, weight=WEIGHTS),
        "net-focal": Member(*pairs[2], seed=6, weight=WEIGHTS, gamma=2.0),
        "shifted": Member(*pairs[0], seed=7, offset=OFFSET),
        "own loss": Member(*pairs[1], seed=8, loss=own_loss),
        "balanced": Member(*pairs[0], seed=9, pools=pools),
        "rows of many costs": steered(pairs[2], 10, costs=row_costs()),
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_company_of_any_kind_does_not_matter(weighted):
    weight = torch.linspace(0.5, 2.0, 120) if weighted else None
    data, how = data_of(weight), settings(gradient_clip=0.1 if weighted else 1.0)
    company = different()
    together = dict(zip(company, fit(list(company.values()), data, how, dropout=0.25), strict=True))
    for name, member in different().items():
        (alone,) = fit([member], data, how, dropout=0.25)
        check_same(together[name], alone)
    firsts = [keeper.weights["layers.0.weight"] for keeper in together.values()]
    assert not any(torch.equal(a, b) for i, a in enumerate(firsts) for b in firsts[:i])


def test_rows_a_member_does_not_train_on_have_no_influence():
    x, y = made_up()
    pairs = folds()

    def weights(*changed):
        members = [Member(*pair, seed=k, weight=WEIGHTS) for k, pair in enumerate(pairs)]
        keepers = fit(members, Data(*changed, n_classes=K), settings(), dropout=0.2, select="last")
        return [torch.cat([w.flatten().float() for w in keeper.weights.values()]) for keeper in keepers]

    first = weights(x, y)
    other_x, other_y = x.clone(), y.clone()
    other_x[pairs[0][1]] = 50.0
    other_y[pairs[0][1]] = 0
    second = weights(other_x, other_y)
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


# steering and keeping


def test_history_tells_what_an_epoch_was_trained_with_and_what_came_out():
    data, member = data_of(), steered(folds()[0])
    (keeper,) = fit([member], data, settings(epochs=3), select="last")
    first, second, third = keeper.history
    assert first["lambdas"] == first["weights"] == [1.0] * K
    for before, after in ((first, second), (second, third)):
        moved = np.asarray(before["lambdas"]) * np.asarray(before["multipliers"]) ** 0.5
        assert after["lambdas"] == pytest.approx(moved / np.exp(np.log(moved).mean()))
    assert third["weights"] == pytest.approx(third["lambdas"])
    decided = COSTS.decide(np.asarray(torch.softmax(torch.from_numpy(keeper.held.logits), 1)))
    assert third["val_cost"] == pytest.approx(COSTS.mean(data.y.numpy()[member.validation], decided))


def test_members_may_share_a_controller():
    data, shared = data_of(), AdaCSLController(COSTS)
    members = [Member(*pair, seed=k, fold=k, controller=shared) for k, pair in enumerate(folds())]
    lambdas = [[row["lambdas"] for row in keeper.history] for keeper in fit(members, data, settings(epochs=3))]
    assert lambdas[0] == lambdas[1] == lambdas[2]
    assert len(shared.history) == 3  # one step per epoch, over the rows of all


def test_costs_of_each_row_reach_the_controller():
    data, (first, *_) = data_of(), folds()
    own, same = (fit([steered(first, costs=c)], data, settings())[0].history for c in (row_costs(), None))
    assert own[0]["multipliers"] != same[0]["multipliers"]


def test_classes_that_are_absent_from_the_training_or_the_held_out_rows():
    data, y = data_of(), made_up()[1].numpy()
    rest = np.flatnonzero(y < 2)
    for pair in ((rest[20:], np.flatnonzero(y >= 1)), (np.flatnonzero(y >= 1), rest)):
        (keeper,) = fit([steered(pair)], data, settings())
        assert np.isfinite(keeper.held.logits).all()
        assert np.isfinite([row["weights"] for row in keeper.history]).all()


@pytest.mark.parametrize("decide", ["tuned", "half", "bayes"])
def test_undone_weights_and_watched_rows_are_those_of_the_kept_epoch(decide):
    data, watch = data_of(), np.arange(3, 90)
    for make in (lambda: net([steered(folds()[0])]), lambda: torch.nn.Linear(4, K)):
        torch.manual_seed(0)
        member, made = steered(folds()[0]), make()
        kinds = ({"watch": watch}, {"sample": member.train[:20], "costs": COSTS, "labels": data.y.numpy()})
        keepers = [keeper_of(member, data, decide=decide, unweighted=True, shift=0.0, **kind) for kind in kinds]
        train(made, data, [member], keepers, settings(epochs=5, learning_rate=0.1))
        watching, keeping = keepers
        best = keeping.history[keeping.held.best]
        assert keeping.undone == pytest.approx(-np.log(best["weights"]))
        assert best["train_cost"] > 0
        like = stack_members(made, [keeping.weights]) if isinstance(made, TableNet) else made
        if like is made:
            like.load_state_dict(keeping.weights)
        logits = predict_logits(like, data.x, device=CPU, batch_size=50)[:, 0].numpy()
        assert watching.watched == pytest.approx(logits[watch] + keeping.undone, abs=1e-5)
        assert keeping.held.logits == pytest.approx(logits[member.validation] + keeping.undone, abs=1e-5)


@pytest.mark.parametrize("decide", ["tuned", "bayes"])
def test_a_resumed_training_ends_where_it_would_have(decide, tmp_path):
    data, pairs = data_of(), folds()

    def run(folder, epochs):
        members = [steered(pair, k) for k, pair in enumerate(pairs)]
        keepers = [keeper_of(m, data, decide=decide, unweighted=True) for m in members]
        how = settings(epochs=epochs, schedule="constant")
        train(net(members, 0.2), data, members, keepers, how, resume=folder and Checkpoints(folder, "fit"))
        return keepers

    whole = run(None, 4)
    run(tmp_path, 2)
    for one, other in zip(run(tmp_path, 4), whole, strict=True):
        check_same(one, other)


# nets with other numbers of outputs


@pytest.mark.parametrize(("classes", "outputs"), [(3, 1), (3, 2), (3, 4), (2, 3)])
def test_a_net_for_another_number_of_classes_is_refused(classes, outputs):
    x, y = made_up()
    data = Data(x, y.clamp(max=classes - 1), n_classes=classes)
    member = Member(*folds()[0])
    costs = COSTS if classes == K else CostMatrix(fp=1, fn=5)
    held = HeldOut(member.validation, data.y.numpy()[member.validation], costs)
    wanted = "must have 3 outputs" if classes == 3 else "must have one output, or two"
    with pytest.raises(ValueError, match=rf"{classes} classes.*{wanted}.*{outputs}\)"):
        train(torch.nn.Linear(4, outputs), data, [member], [Keeper(member, held)], settings())


def test_two_outputs_are_still_one_logit():
    model, x = torch.nn.Linear(4, 2), made_up()[0]
    expected = model(x)[:, 1] - model(x)[:, 0]
    assert torch.equal(member_logits(model, x)[:, 0, 0], expected)
