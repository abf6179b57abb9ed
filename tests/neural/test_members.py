"""The engine, with two classes and three: members trained jointly are what they are separately, and what they learn."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive import QuantileBins
from adacsl.adaptive.held_out import HeldOut
from adacsl.neural.checkpoints import Checkpoints
from adacsl.neural.epoch_selection import Keeper
from adacsl.neural.loop import make_optimizer, make_schedule, member_losses, train
from adacsl.neural.members import Data, Member, Settings
from adacsl.neural.model import predict_logits
from adacsl.torch.realmlp import RealMLP
from adacsl.torch.tabular import TableNet, member_logits, stack_members

NONE = np.empty(0, dtype=np.int64)
CPU = torch.device("cpu")
PARTS = np.array_split(np.random.default_rng(1).permutation(120), 3)
FOLDS = [(np.setdiff1d(np.arange(120), part), np.sort(part)) for part in PARTS]


class Two:
    """A problem of two classes: one output, whose weight is that of the negatives."""

    k, outputs, costs = 2, 1, CostMatrix(fp=1, fn=5)
    weight, offset, shift = 0.2, -1.6, float(np.log(1 / 5))
    lambdas = "lambda"

    @staticmethod
    def samples(n=120):
        rng = np.random.default_rng(0)
        y = (rng.random(n) < 0.3).astype(np.float32)
        x = rng.normal(size=(n, 4)).astype(np.float32)
        x[:, 0] += y
        return torch.from_numpy(x), torch.from_numpy(y)

    @staticmethod
    def loss(z, y):
        return F.binary_cross_entropy_with_logits(z.reshape(y.shape), y, reduction="none")

    @staticmethod
    def own_loss(logits, labels):
        return (torch.sigmoid(logits.reshape(labels.shape)) - labels) ** 2

    @staticmethod
    def errors(z, y):
        return torch.sigmoid(z) - y[:, None]

    @staticmethod
    def class_weight(weight, y):
        return torch.where(y == 1, 1.0, torch.tensor(weight))

    @staticmethod
    def undone(row):
        return np.log(row["weight"])


class Three:
    """A problem of three classes."""

    k, outputs = 3, 3
    costs = CostMatrix.from_array([[0, 2, 8], [1, 0, 6], [1, 3, 0]], rows="predicted")
    weight, offset = np.asarray([0.5, 1.0, 2.0]), np.asarray([0.3, -0.1, -0.2])
    shift = -np.log(weight)
    lambdas = "lambdas"

    @staticmethod
    def samples(n=120):
        rng = np.random.default_rng(0)
        y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
        x = rng.normal(size=(n, 4)).astype(np.float32)
        x[:, :3] += np.eye(3)[y]
        return torch.from_numpy(x), torch.from_numpy(y)

    @staticmethod
    def loss(z, y):
        return F.cross_entropy(z, y, reduction="none")

    @staticmethod
    def own_loss(logits, labels):
        return ((torch.softmax(logits, 1) - F.one_hot(labels, 3)) ** 2).sum(1)

    @staticmethod
    def errors(z, y):
        return torch.softmax(z, 1) - F.one_hot(y, 3)

    @staticmethod
    def class_weight(weight, y):
        return torch.tensor(np.broadcast_to(weight, 3).copy())[y]

    @staticmethod
    def undone(row):
        return -np.log(row["weights"])


PROBLEMS = pytest.mark.parametrize("problem", [Two, Three])


def data_of(problem, weight=None, n=120):
    return Data(*problem.samples(n), weight, n_classes=problem.k)


def adapted(problem, rows, number=0, *, damping=None, **settings):
    damping = (1.0 if problem is Two else 0.5) if damping is None else damping
    controller = AdaCSLController(problem.costs, damping=damping)
    return Member(*rows, seed=number, fold=number, controller=controller, **settings)


def settings(**changes):
    usual = {"epochs": 4, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.01, "device": "cpu"}
    return Settings(**(usual | changes))


def sgd(**changes):
    """Plain gradient steps on all of 40 samples at once."""
    return settings(
        batch_size=40, gradient_clip=None, learning_rate=0.5,
        optimizer=lambda parameters, lr: torch.optim.SGD(parameters, lr=lr), **changes,
    )  # fmt: skip


def net(problem, members, dropout=0.0, **sizes):
    seeds = [member.seed for member in members]
    return TableNet(4, len(members), outputs=problem.outputs, dropout=dropout, seeds=seeds, **sizes)


def keeper_of(problem, member, data, *, select="best", decide="bayes", **more):
    rows = member.validation
    weight = None if data.sample_weight is None else data.sample_weight.numpy()[rows]
    held = HeldOut(rows, data.y.numpy()[rows], problem.costs, decide=decide, weight=weight, last=select == "last")
    return Keeper(member, held, **({"shift": problem.shift} | more))


def fit(problem, members, data, how, *, dropout=0.0, sizes=None, **more):
    keepers = [keeper_of(problem, member, data, **more) for member in members]
    train(net(problem, members, dropout, **(sizes or {})), data, members, keepers, how)
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


# jointly and separately


@PROBLEMS
@pytest.mark.parametrize(
    ("select", "clip", "dropout", "sizes"),
    [("best", None, 0.0, {}), ("last", 0.05, 0.25, {}), ("best", 0.05, 0.25, {"heads": 3, "bins": 4})],
)
def test_a_member_is_the_same_jointly_and_separately(problem, select, clip, dropout, sizes):
    data, how = data_of(problem), settings(gradient_clip=clip)
    more = {"select": select, "dropout": dropout, "sizes": sizes}
    jointly = fit(problem, [adapted(problem, pair, k) for k, pair in enumerate(FOLDS)], data, how, **more)
    for k, pair in enumerate(FOLDS):
        check_same(jointly[k], *fit(problem, [adapted(problem, pair, k)], data, how, **more))
    assert len({str([row[problem.lambdas] for row in keeper.history]) for keeper in jointly}) == 3  # they do differ


def test_realmlps_with_averaged_weights_are_the_same_jointly_and_separately():
    data, how = data_of(Two), settings(weight_average=0.9, schedule="warm-constant")
    made = {"numeric": [0, 2], "width": 12, "depth": 2, "frequencies": 3}

    def averaged(*numbers):
        members = [adapted(Two, FOLDS[k], k, every=3 if k else None) for k in numbers]
        keepers = [keeper_of(Two, member, data) for member in members]
        train(RealMLP(4, len(members), seeds=numbers, **made), data, members, keepers, how)
        return keepers

    for k, keeper in enumerate(averaged(0, 1, 2)):
        check_same(keeper, *averaged(k))


def different(problem):
    """Return members that have little in common but the number of batches."""
    pairs = [(train_rows, held[: len(held) - 7 * k]) for k, (train_rows, held) in enumerate(FOLDS)]
    y = problem.samples()[1].numpy()
    pools = tuple(np.intersect1d(np.flatnonzero(y == label), pairs[0][0]) for label in range(problem.k))
    if problem is Two:
        other, own = {"partition": QuantileBins(3)}, CostMatrix(fp=1, fn=np.linspace(1, 9, 120))
    else:
        other, own = {"n_standard_errors": 1.0}, costs_of_samples()
    weight = problem.weight
    return {
        "adapted": adapted(problem, pairs[0], 0),
        "other controller": replace(adapted(problem, pairs[1], 1), controller=AdaCSLController(problem.costs, **other)),
        "between batches": adapted(problem, pairs[2], 2, every=3),
        "plain": Member(*pairs[0], seed=3),
        "weighted": Member(*pairs[1], seed=4, weight=weight),
        "fewer samples": Member(pairs[0][0][:-6], pairs[0][1], seed=5, weight=weight),
        "focal": Member(*pairs[2], seed=6, weight=weight, gamma=2.0),
        "shifted": Member(*pairs[0], seed=7, offset=problem.offset),
        "own loss": Member(*pairs[1], seed=8, loss=problem.own_loss),
        "balanced": Member(*pairs[0], seed=9, pools=pools),
        "costs of each sample": adapted(problem, pairs[2], 10, costs=own),
    }


def costs_of_samples():
    """Return costs of each sample: a false negative of the last class costs more and more."""
    costs = np.repeat(np.asarray([[0.0, 2, 8], [1, 0, 6], [1, 3, 0]])[None], 120, axis=0)
    costs[:, :2, 2] *= np.linspace(0.5, 3, 120)[:, None]
    return CostMatrix.from_array(costs, rows="predicted")


@PROBLEMS
def test_members_of_any_kind_do_not_influence_each_other(problem):
    data, how = data_of(problem, torch.linspace(0.5, 2.0, 120)), settings(gradient_clip=0.1)
    members = different(problem)
    jointly = dict(zip(members, fit(problem, list(members.values()), data, how, dropout=0.25), strict=True))
    for name, member in different(problem).items():
        check_same(jointly[name], *fit(problem, [member], data, how, dropout=0.25))
    firsts = [keeper.weights["layers.0.weight"] for keeper in jointly.values()]
    assert not any(torch.equal(a, b) for i, a in enumerate(firsts) for b in firsts[:i])


def test_patience_is_each_keepers_own():
    data, how = data_of(Two), settings(epochs=25, learning_rate=0.05)

    def look(*numbers):
        members = [adapted(Two, FOLDS[k], k) for k in numbers]
        keepers = [keeper_of(Two, m, data, patience=(2, 7, None)[k]) for k, m in zip(numbers, members, strict=True)]
        train(net(Two, members, 0.1), data, members, keepers, how)
        return keepers

    jointly = look(0, 1, 2)
    lengths = [len(keeper.history) for keeper in jointly]
    assert lengths[0] < lengths[1] < lengths[2] == 25  # else this test shows nothing
    for k, patience in enumerate((2, 7, None)):
        check_same(jointly[k], *look(k))
        if patience is not None:
            assert lengths[k] - 1 - jointly[k].held.best == patience


def test_several_keepers_of_one_member_do_not_influence_each_other():
    data, how = data_of(Two), settings(epochs=12, learning_rate=0.05)
    kinds = [{"select": "last"}, {"patience": 2}, {"unweighted": True}, {"watch": np.arange(5, 60)}]

    def look(*kinds):
        member = adapted(Two, FOLDS[0])
        keepers = [keeper_of(Two, member, data, **kind) for kind in kinds]
        train(net(Two, [member]), data, [member], keepers, how)
        return keepers

    for keeper, kind in zip(look(*kinds), kinds, strict=True):
        (alone,) = look(kind)
        if "watch" in kind:
            assert alone.history == keeper.history
            assert alone.weights is keeper.weights is None
            assert np.array_equal(alone.watched, keeper.watched)
        else:
            check_same(keeper, alone)


@PROBLEMS
def test_samples_a_member_does_not_train_on_have_no_influence(problem):
    x, y = problem.samples()

    def weights(x, y):
        members = [Member(*pair, seed=k, weight=problem.weight) for k, pair in enumerate(FOLDS)]
        data = Data(x, y, n_classes=problem.k)
        return [keeper.weights for keeper in fit(problem, members, data, settings(), dropout=0.2, select="last")]

    first = weights(x, y)
    for k, (_, held_out) in enumerate(FOLDS):
        other_x, other_y = x.clone(), y.clone()
        other_x[held_out] = 50.0 * torch.randn(len(held_out), 4, generator=torch.Generator().manual_seed(k))
        other_y[held_out] = (y[held_out] + 1) % problem.k
        second = weights(other_x, other_y)
        assert same_weights(first[k], second[k])
        assert not same_weights(first[(k + 1) % 3], second[(k + 1) % 3])


# what a member learns


@PROBLEMS
def test_a_member_is_a_weighted_regression_of_its_own_samples(problem):
    weight = torch.ones(40, dtype=torch.float64)
    weight[5:15] = 3.0
    data, model = data_of(problem, weight, 40), torch.nn.Linear(4, problem.outputs)
    a, b = (p.detach().double().clone() for p in (model.weight, model.bias))
    member = Member(np.arange(30), np.arange(30, 40), weight=problem.weight)
    keeper = keeper_of(problem, member, data, select="last")
    train(model, data, [member], [keeper], sgd(epochs=3))
    rows, labels = data.x[:30].double(), data.y[:30]
    for step in range(3):
        each = problem.class_weight(problem.weight, labels) * weight[:30] / 30  # the mean is over samples
        slope = problem.errors(rows @ a.T + b, labels) * each[:, None]
        lr = 0.5 * 0.5 * (1 + np.cos(np.pi * step / 3))
        a, b = a - lr * slope.T @ rows, b - lr * slope.sum(0)
    torch.testing.assert_close(keeper.weights["weight"].double(), a, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(keeper.weights["bias"].double(), b, atol=1e-5, rtol=1e-4)


def test_epochs_are_measured_and_selected_with_averaged_weights():
    data, model = data_of(Two, n=40), torch.nn.Linear(4, 1)
    a, b = model.weight.detach().double().clone(), model.bias.detach().double().clone()
    member = Member(np.arange(30), np.arange(30, 40))
    keeper = keeper_of(Two, member, data, select="last")
    train(model, data, [member], [keeper], sgd(epochs=30, schedule="constant", weight_average=0.7))
    rows, labels = data.x[:30].double(), data.y[:30].double()
    mean_a, mean_b = a, b
    for step in range(30):
        slope = Two.errors(rows @ a.T + b, labels) / 30
        a, b = a - 0.5 * slope.T @ rows, b - 0.5 * slope.sum()
        share = min(0.7, (1 + step) / (10 + step))
        mean_a, mean_b = share * mean_a + (1 - share) * a, share * mean_b + (1 - share) * b
    assert keeper.weights["weight"] == pytest.approx(mean_a.float(), abs=1e-5)
    assert float(keeper.weights["bias"]) == pytest.approx(float(mean_b), abs=1e-5)
    assert model.weight.detach() == pytest.approx(a.float(), abs=1e-5)  # training continued from its own weights
    held = (data.x[30:].double() @ mean_a.T + mean_b)[:, 0].numpy()
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


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_gradients_of_focal_losses_are_finite_at_extreme_logits(gamma):
    logits = torch.tensor([[[[60.0, 0.0, -60.0]]], [[[-60.0, 0.0, 60.0]]]], requires_grad=True)
    labels, weights = torch.zeros(2, 1, dtype=torch.int64), torch.ones(2, 1)
    loss = member_losses([Member(NONE, NONE, gamma=gamma)], logits, labels, weights, None).sum()
    assert bool(torch.isfinite(*torch.autograd.grad(loss, logits)).all())


@PROBLEMS
@pytest.mark.parametrize("kind", ["plain", "weighted", "focal", "shifted", "own"])
def test_the_loss_of_a_member_is_that_of_its_settings(problem, kind):
    def focal(z, y):
        each = problem.loss(z, y)
        return (1 - torch.exp(-each)) ** 2 * each

    given, loss = {
        "plain": ({}, problem.loss),
        "weighted": ({"weight": problem.weight}, problem.loss),
        "focal": ({"weight": problem.weight, "gamma": 2.0}, focal),
        "shifted": ({"offset": problem.offset}, lambda z, y: problem.loss(z + torch.tensor(problem.offset), y)),
        "own": ({"loss": problem.own_loss}, problem.own_loss),
    }[kind]
    weight = torch.linspace(0.5, 2.0, 40)
    data, model = data_of(problem, weight, 40), torch.nn.Linear(4, problem.outputs)
    member = Member(np.arange(30), np.arange(30, 40), **given)
    keeper = keeper_of(problem, member, data)
    train(model, data, [member], [keeper], settings(epochs=1, batch_size=40, learning_rate=0.0))
    x, y = data.x[:30], data.y[:30]
    with torch.no_grad():
        each = loss(model(x), y) * problem.class_weight(member.weight, y) * weight[:30]
    assert keeper.history[0]["train_loss"] == pytest.approx(float(each.mean()), rel=1e-5)


# adaptation and selection


@PROBLEMS
def test_the_history_holds_what_an_epoch_was_trained_with_and_its_result(problem):
    data, member = data_of(problem), adapted(problem, FOLDS[0])
    (keeper,) = fit(problem, [member], data, settings(epochs=3), select="last")
    first, second, third = keeper.history
    y, logits = data.y.numpy()[member.validation], keeper.held.logits
    if problem is Two:
        assert (first["lambda"], first["weight"]) == (1.0, pytest.approx(1 / 5))
        assert second["weight"] == pytest.approx(second["lambda"] / 5)
        assert second["lambda"] != 1.0
        assert member.controller.lambda_ not in (second["lambda"], third["lambda"])  # one step more
        decided = logits > np.log(1 / 5)
    else:
        assert first["lambdas"] == first["weights"] == [1.0] * 3
        for before, after in ((first, second), (second, third)):
            moved = np.asarray(before["lambdas"]) * np.asarray(before["multipliers"]) ** 0.5
            assert after["lambdas"] == pytest.approx(moved / np.exp(np.log(moved).mean()))
        assert third["weights"] == pytest.approx(third["lambdas"])
        decided = problem.costs.decide(np.asarray(torch.softmax(torch.from_numpy(logits), 1)))
    assert third["val_cost"] == pytest.approx(problem.costs.mean(y, decided))


@PROBLEMS
def test_members_may_share_a_controller(problem):
    shared = AdaCSLController(problem.costs)
    members = [Member(*pair, seed=k, fold=k, controller=shared) for k, pair in enumerate(FOLDS)]
    keepers = fit(problem, members, data_of(problem), settings(epochs=3))
    lambdas = [[row[problem.lambdas] for row in keeper.history] for keeper in keepers]
    assert lambdas[0] == lambdas[1] == lambdas[2]
    assert len(shared.history) == 3  # one step per epoch, over the samples of all


def test_costs_of_each_sample_reach_the_controller():
    own, same = (
        fit(Three, [adapted(Three, FOLDS[0], costs=c)], data_of(Three), settings(epochs=1))[0].history
        for c in (costs_of_samples(), None)
    )
    assert own[0]["multipliers"] != same[0]["multipliers"]


def test_classes_that_are_absent_from_the_training_or_the_held_out_samples():
    data = data_of(Three)
    y = data.y.numpy()
    rest = np.flatnonzero(y < 2)
    for pair in ((rest[20:], np.flatnonzero(y >= 1)), (np.flatnonzero(y >= 1), rest)):
        (keeper,) = fit(Three, [adapted(Three, pair)], data, settings())
        assert np.isfinite(keeper.held.logits).all()
        assert np.isfinite([row["weights"] for row in keeper.history]).all()


@PROBLEMS
@pytest.mark.parametrize(("decide", "select"), [("tuned", "best"), ("half", "last"), ("bayes", "best")])
def test_undone_weights_and_watched_samples_are_those_of_the_selected_epoch(problem, decide, select):
    data, watch = data_of(problem), np.arange(3, 90)
    for make in (lambda: net(problem, [adapted(problem, FOLDS[0])]), lambda: torch.nn.Linear(4, problem.outputs)):
        torch.manual_seed(0)
        member, made = adapted(problem, FOLDS[0]), make()
        kinds = ({"watch": watch}, {"sample": member.train[:20], "costs": problem.costs, "labels": data.y.numpy()})
        more = {"decide": decide, "select": select, "unweighted": True, "shift": 0.0}
        keepers = [keeper_of(problem, member, data, **more, **kind) for kind in kinds]
        train(made, data, [member], keepers, settings(epochs=5, learning_rate=0.1))
        watching, keeping = keepers
        best = keeping.history[keeping.held.best]
        assert keeping.undone == pytest.approx(problem.undone(best))
        assert best["train_cost"] > 0
        if isinstance(made, TableNet):
            made = stack_members(made, [keeping.weights])
        else:
            made.load_state_dict(keeping.weights)
        logits = predict_logits(made, data.x, device=CPU, batch_size=50)[:, 0].numpy()
        assert watching.watched == pytest.approx(logits[watch] + keeping.undone, abs=1e-5)
        assert keeping.held.logits == pytest.approx(logits[member.validation] + keeping.undone, abs=1e-5)


def test_a_resumed_training_ends_as_the_uninterrupted_one(tmp_path):
    def run(folder, epochs):
        members = [adapted(Three, pair, k) for k, pair in enumerate(FOLDS)]
        data, how = data_of(Three), settings(epochs=epochs, schedule="constant")
        keepers = [keeper_of(Three, m, data, decide="tuned", unweighted=True) for m in members]
        train(net(Three, members, 0.2), data, members, keepers, how, resume=folder and Checkpoints(folder, "fit"))
        return keepers

    whole = run(None, 4)
    run(tmp_path, 2)
    for one, other in zip(run(tmp_path, 4), whole, strict=True):
        check_same(one, other)


def test_selected_members_stacked_predict_the_same():
    data = data_of(Two)
    members = [adapted(Two, pair, k) for k, pair in enumerate(FOLDS)]
    keepers = [keeper_of(Two, member, data) for member in members]
    whole = net(Two, members)
    train(whole, data, members, keepers, settings())
    both = predict_logits(
        stack_members(whole, [keepers[2].weights, keepers[0].weights]), data.x, device=CPU, batch_size=120
    )
    assert both.shape == (120, 2)
    for column, keeper in enumerate((keepers[2], keepers[0])):
        expected = keeper.held.logits - keeper.shift
        assert both[keeper.held.rows, column].numpy() == pytest.approx(expected, abs=1e-5)


def test_selected_weights_are_copies_of_all_kinds_of_tensors():
    x, y = Two.samples()
    torch.manual_seed(4)
    images = x[:, :3, None, None].expand(-1, -1, 5, 5).contiguous()
    made = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
        torch.nn.Linear(36, 1),
    )  # fmt: skip
    data, member = Data(images, y), adapted(Two, FOLDS[0])
    best, last = keepers = [keeper_of(Two, member, data, select=select) for select in ("best", "last")]
    train(made, data, [member], keepers, settings(epochs=8, learning_rate=0.1))
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
        fit(Two, [adapted(Two, FOLDS[0])], data_of(Two), settings())


@pytest.mark.parametrize(("problem", "outputs"), [(Three, 1), (Three, 2), (Three, 4), (Two, 3)])
def test_a_net_for_another_number_of_classes_is_refused(problem, outputs):
    wanted = "must have 3 outputs" if problem is Three else "must have one output, or two"
    data, member = data_of(problem), Member(*FOLDS[0])
    with pytest.raises(ValueError, match=rf"{problem.k} classes.*{wanted}.*{outputs}\)"):
        train(torch.nn.Linear(4, outputs), data, [member], [keeper_of(problem, member, data)], settings())


def test_two_outputs_are_still_one_logit():
    model, x = torch.nn.Linear(4, 2), Two.samples()[0]
    expected = model(x)[:, 1] - model(x)[:, 0]
    assert torch.equal(member_logits(model, x)[:, 0, 0], expected)
