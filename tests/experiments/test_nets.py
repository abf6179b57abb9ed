"""The nets of a comparison: losses against torch, no leaks, one training for many uses."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional as F

from adacsl import CostMatrix, EqualWidth, Whole
from adacsl.datasets.task import Task
from adacsl.estimators.training import Data, Member, MemberTraining, Settings, run_training
from adacsl.experiments import nets
from adacsl.experiments.cells import Cell
from adacsl.experiments.deciding import Use
from adacsl.experiments.nets import Training, run_nets, smote_batch, smote_rows
from adacsl.experiments.protocol import Protocol, make_split
from adacsl.experiments.recipes import RECIPES, Recipe
from adacsl.torch.functional import weighted_focal_loss
from adacsl.torch.tablenet import TableNet

QUICK = Protocol(epochs=3, batch_size=32, device="cpu")


def made_task(n=300, seed=0, *, rows=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    y = (x[:, 0] + x[:, 1] + rng.normal(size=n) > 1.3).astype(np.int64)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(kind=rng.choice(["u", "v"], n))
    costs = CostMatrix(fp=1.0, fn=rng.uniform(1, 20, n)) if rows else CostMatrix(fp=1, fn=8)
    return Task("made", frame, y, costs)


def made_pictures(n=48):
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 4 == 0).astype(np.int64)
    x = rng.integers(0, 160, (n, 16, 16, 3)).astype(np.uint8)
    x[y == 1, :8] += 90
    return Task("pictures", x, y, CostMatrix(fp=1, fn=4))


def plan_of(*names, ratios=(8.0,), data="made", seed=0):
    plan = {}
    for name in names:
        for ratio in ratios:
            method = RECIPES[name]
            plan.setdefault(Training.of(method, ratio), []).append(Use(Cell(data, ratio, name, seed), method.decide))
    return plan


NET_RECIPES = [name for name, method in RECIPES.items() if method.learner == "net"]


def test_one_cross_entropy_training_serves_all_ratios_and_thresholds():
    plan = plan_of("ce", "ce-bayes", "ce-tuned", "ce-calibrated", ratios=(2.0, 8.0, 30.0))
    assert len(plan) == 1
    assert len(plan_of("adacsl", "wce", ratios=(2.0, 8.0))) == 4
    assert len(plan_of("smote", "oversample", "undersample", ratios=(2.0, 8.0))) == 3


def test_every_net_method_comes_to_an_end_in_one_batch(monkeypatch):
    calls = []
    monkeypatch.setattr(
        nets, "run_training", lambda module, settings: (calls.append(module), run_training(module, settings))
    )
    task = made_task()
    split = make_split(task, QUICK, 0)
    done = list(run_nets(task, split, 0, plan_of(*NET_RECIPES), QUICK))
    assert {one.use.cell.method for one in done} == set(NET_RECIPES)
    assert len(calls) == 1
    for one in done:
        assert one.decided.scores.shape == split.test.shape
        assert np.isfinite(one.decided.scores).all()
        folds = 5 if one.use.cell.method == "adacsl-cv" else 1
        assert len(one.history) == 3 * folds
        assert {"epoch", "fold", "val_cost", "train_cost"} <= set(one.history[0])
        assert ("lambda" in one.extra) == one.use.cell.method.startswith("adacsl")


@pytest.mark.parametrize("rows", [False, True])
def test_test_labels_change_no_score(rows):
    task = made_task(rows=rows)
    split = make_split(task, QUICK, 0)
    flipped = task.y.copy()
    flipped[split.test] = 1 - flipped[split.test]
    other = Task(task.name, task.X, flipped, task.costs)
    for one, two in zip(*(run_nets(t, split, 0, plan_of(*NET_RECIPES), QUICK) for t in (task, other)), strict=True):
        assert np.array_equal(one.decided.scores, two.decided.scores), one.use.cell.method
        assert np.array_equal(one.decided.decisions, two.decided.decisions)


def test_the_kept_epoch_is_the_cheapest_on_validation_rows():
    task = made_task()
    split = make_split(task, QUICK, 0)
    for one in run_nets(task, split, 0, plan_of("ce", "ce-bayes", "ce-tuned", "wce", "adacsl"), QUICK):
        costs = [row["val_cost"] for row in one.history]
        assert one.extra["epoch"] == int(np.argmin(costs))
        # computed epoch by epoch from logits on the device; here from the probabilities that are kept
        assert one.decided.validation_cost == pytest.approx(min(costs), abs=1e-9), one.use.cell.method


def test_an_adaptive_net_is_the_one_of_the_classifier():
    """The engine of the comparison and that of AdaCSLClassifier steer the same net in the same way."""
    task = made_task()
    split = make_split(task, QUICK, 0)
    (one,) = run_nets(task, split, 0, plan_of("adacsl"), QUICK)
    data = nets._prepare(task, split, 0, smote=False)
    settings = nets._settings(task, split, QUICK, 0)
    training = Training.of(RECIPES["adacsl"], 8.0)
    controller = nets._controller(training, task.costs, False)
    net = TableNet(data.x.shape[1], 1, numeric=data.numeric, seeds=[0])
    member = Member(split.train, split.validation, controller)
    module = MemberTraining(net, Data(data.x, torch.from_numpy(data.y)), [member], settings, None)
    run_training(module, settings)
    assert [row["val_cost"] for row in module.history] == pytest.approx([row["val_cost"] for row in one.history])
    assert [row["threshold"] for row in module.history] == pytest.approx([row["threshold"] for row in one.history])
    # the classifier writes lambda after the step, the comparison the one an epoch was trained with
    assert [1.0, *(row["lambda"] for row in module.history[:-1])] == pytest.approx([r["lambda"] for r in one.history])


def watched(*names, ratio=8.0, images=False):
    """A training that has not begun, its data on the device."""
    task = made_pictures() if images else made_task()
    split = make_split(task, QUICK, 0)
    data = nets._prepare(task, split, 0, smote=True)
    methods = [RECIPES[name] if isinstance(name, str) else name for name in names]
    trainings = [Training.of(method, ratio) for method in methods]
    members = [net for t in trainings for net in nets._nets_of(t, task, split, 0, data)]
    watches = []
    for number, (method, training) in enumerate(zip(methods, trainings, strict=True)):
        use = Use.of(method, Cell(task.name, ratio, method.name, 0))
        (watch,) = nets._watch_all(use, training, [members[number]], task, split)
        watch.column = number
        watches.append(watch)
    net = TableNet(data.x.shape[1], len(members), numeric=data.numeric, dropout=0.0)
    return nets._WatchedTraining(net, data, members, watches, Settings(3, 32, 1e-3), None)


def test_losses_are_torchs_and_our_own():
    module = watched("ce", "wce", "focal", "logit-adjusted")
    module._move_data()
    batch = module._train_rows[:50]
    found = module._loss(batch)
    logits, y = module._logits(batch)[:, :, 0], module._data.y[batch]
    threshold = 1 / 9
    expected = (
        F.binary_cross_entropy_with_logits(logits[:, 0], y[:, 0])
        + F.binary_cross_entropy_with_logits(logits[:, 1], y[:, 1], weight=y[:, 1] + (1 - y[:, 1]) / 8)
        + weighted_focal_loss(logits[:, 2], y[:, 2], 1 / 8, gamma=2.0)
        + F.binary_cross_entropy_with_logits(logits[:, 3] + math.log(threshold / (1 - threshold)), y[:, 3])
    )
    torch.testing.assert_close(found, expected)


def test_balanced_members_see_both_classes_equally_often():
    module = watched("ce", "oversample", "undersample", "smote")
    module._move_data()
    module.trainer = type("T", (), {"current_epoch": 0})()
    loader = module.train_dataloader()
    passes = [torch.cat([batch for block in loader for batch in block]) for _ in range(2)]
    y = module._data.y.numpy()
    n = len(module._train_rows)
    shares = [y[passes[0][:, column]].mean() for column in range(4)]
    assert shares[0] == pytest.approx(y[module._train_rows[:, 0]].mean())
    assert shares[1:] == pytest.approx([0.5] * 3, abs=1 / n)
    # the undersampled one knows few negatives, the oversampled one all positives, SMOTE's also made ones
    negatives = {int(row) for row in passes[0][:, 2] if y[row] == 0}
    train = set(module._train_rows[:, 0].tolist())
    positives = {row for row in train if y[row] == 1}
    assert len(negatives) <= len(positives)
    assert positives <= set(passes[0][:, 1].tolist())
    assert max(passes[0][:, 3].tolist()) >= 300
    assert set(passes[0][:, 1].tolist()) <= train


def test_balanced_rows_are_drawn_anew_in_each_epoch():
    module = watched("oversample")
    module._move_data()
    module.trainer = type("T", (), {"current_epoch": 0})()
    loader = module.train_dataloader()
    first = sorted(torch.cat([b for block in loader for b in block])[:, 0].tolist())
    module.trainer.current_epoch = 1
    assert sorted(torch.cat([b for block in loader for b in block])[:, 0].tolist()) != first


def test_smote_rows_lie_between_positives():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).astype(np.float32)
    y = (np.arange(60) < 12).astype(np.int64)
    made = smote_rows(x, y, 0)
    assert len(made) == 36
    own = x[:12]
    for row in made:
        gaps = [
            np.abs((b - a) * ((row - a) @ (b - a) / ((b - a) @ (b - a))) - (row - a)).max()
            for a in own
            for b in own
            if not np.array_equal(a, b)
        ]
        assert min(gaps) < 1e-5


@pytest.mark.parametrize("positives", [0, 1, 30, 59])
def test_smote_makes_nothing_where_nothing_is_missing_or_to_mix(positives):
    x = np.zeros((60, 2), dtype=np.float32)
    assert len(smote_rows(x, (np.arange(60) < positives).astype(np.int64), 0)) == 0


def test_smote_fills_up_a_batch_of_images_with_mixtures():
    torch.manual_seed(0)
    x, y = torch.rand(20, 3, 4, 4), torch.tensor([1.0] * 4 + [0.0] * 16)
    more, labels = smote_batch(x, y)
    assert labels.sum() * 2 == len(labels) == len(more)
    assert torch.equal(more[:20], x)
    low, high = x[:4].amin(0), x[:4].amax(0)
    assert bool(((more[20:] >= low) & (more[20:] <= high)).all())
    assert smote_batch(x, torch.tensor([1.0] + [0.0] * 19))[0] is x


def test_images_train_one_net_at_a_time():
    task = made_pictures()
    quick = Protocol(epochs=1, batch_size=16, device="cpu", rotate=True)
    split = make_split(task, quick, 0)
    done = list(
        run_nets(
            task,
            split,
            0,
            plan_of("ce-bayes", "ce-tuned", "smote", "oversample", "adacsl", data="pictures", ratios=(4.0,)),
            quick,
        )
    )
    assert len(done) == 5
    assert all(np.isfinite(one.decided.scores).all() for one in done)


def test_each_use_gets_the_test_scores_of_its_own_net(monkeypatch):
    modules = []
    monkeypatch.setattr(
        nets, "run_training", lambda module, settings: (modules.append(module), run_training(module, settings))
    )
    task = made_task()
    split = make_split(task, QUICK, 0)
    methods = [Recipe("one", select="last"), Recipe("two", loss="weighted", select="last")]
    plan = {Training.of(r, 8.0): [Use.of(r, Cell("made", 8.0, r.name, 0))] for r in methods}
    done = {one.use.cell.method: one.decided.scores for one in run_nets(task, split, 0, plan, QUICK)}
    (module,) = modules
    with torch.no_grad():
        rows = torch.from_numpy(split.test)[:, None].expand(-1, 2)
        logits = module.eval()._logits(rows).mean(2).double()
    shift = math.log(1 / 8)  # T = 1/9 instead of 0.5
    np.testing.assert_allclose(done["one"], torch.sigmoid(logits[:, 0]).numpy(), atol=1e-6)
    np.testing.assert_allclose(done["two"], torch.sigmoid(logits[:, 1] + shift).numpy(), atol=1e-6)
    assert np.abs(done["one"] - done["two"]).max() > 1e-3


@pytest.mark.parametrize("views", [1, 4])
def test_test_images_are_scored_in_the_epochs_that_are_kept(views, monkeypatch):
    scored = []
    score = nets._WatchedTraining._score_test

    def spy(self, watches):
        score(self, watches)
        for watch in watches:
            self.eval()
            with torch.no_grad():
                x = self.prepare(self._data.x[torch.from_numpy(watch.test)])
                flips = [(), (2,), (3,), (2, 3)][:views]
                net = self.net.net if views == 4 else self.net
                expected = torch.stack([net(x.flip(dims) if dims else x)[:, 0] for dims in flips]).mean(0)
            torch.testing.assert_close(watch.test_logits, expected + watch.shift, rtol=1e-4, atol=1e-5)
            scored.append((watch.use.select, self.current_epoch))

    monkeypatch.setattr(nets._WatchedTraining, "_score_test", spy)
    task, few = made_pictures(), Protocol(epochs=4, batch_size=16, device="cpu", views=views)
    split = make_split(task, few, 0)
    methods = [RECIPES["adacsl"], Recipe("last", loss="weighted", adapt=Whole(), select="last")]
    uses = [Use.of(method, Cell("pictures", 4.0, method.name, 0)) for method in methods]
    best, last = run_nets(task, split, 0, {Training.of(methods[0], 4.0): uses}, few)
    costs = [row["val_cost"] for row in best.history]
    falls = [epoch for epoch, cost in enumerate(costs) if cost < min(costs[:epoch], default=math.inf)]
    assert [epoch for select, epoch in scored if select == "best"] == falls
    assert sum(select == "last" for select, _ in scored) == 1
    assert best.extra["epoch"] == falls[-1]
    assert last.extra["epoch"] == 3
    assert (len(best.decided.scores), len(last.decided.scores)) == (len(split.test),) * 2


def test_cross_fitting_images_averages_nets_that_adapt_on_their_own():
    task = made_pictures()
    quick = Protocol(epochs=1, batch_size=16, device="cpu")
    split = make_split(task, quick, 0)
    training = Training(None, "weighted", Whole(), 2, 4.0)
    (one,) = run_nets(task, split, 0, {training: [Use(Cell("pictures", 4.0, "two", 0), "bayes")]}, quick)
    assert {row["fold"] for row in one.history} == {0, 1}


def test_folds_of_a_table_share_a_controller_and_images_do_not():
    task = made_task()
    split = make_split(task, QUICK, 0)
    data = nets._prepare(task, split, 0, smote=False)
    training = Training.of(RECIPES["adacsl-cv"], 8.0)
    folds = nets._nets_of(training, task, split, 0, data)
    assert len({id(net.member.controller) for net in folds}) == 1
    held_out = np.sort(np.concatenate([net.member.validation for net in folds]))
    assert np.array_equal(held_out, np.sort(np.concatenate((split.train, split.validation))))
    assert nets._controller(Training.of(RECIPES["adacsl-bins"], 8.0), task.costs, True).partition == EqualWidth(10)


def test_row_costs_steer_with_each_ratios_own_prices():
    task = made_task(rows=True)
    split = make_split(task, QUICK, 0)
    data = nets._prepare(task, split, 0, smote=False)
    for ratio in (2.0, 40.0):
        (net,) = nets._nets_of(Training.of(RECIPES["adacsl"], ratio), task, split, 0, data)
        assert float(net.row_costs.averaged().ratio) == pytest.approx(ratio)
        assert float(net.member.controller.costs.ratio) == pytest.approx(ratio)


# variants of the adaptation, and the paper's own settings


def run_variant(method, *, task=None, protocol=QUICK, ratio=8.0, seed=0):
    task = made_task() if task is None else task
    split = make_split(task, protocol, seed)
    cell = Cell(task.name, ratio, method.name, seed)
    (one,) = run_nets(task, split, seed, {Training.of(method, ratio): [Use.of(method, cell)]}, protocol)
    return one


@pytest.mark.parametrize(("target", "number"), [("bayes", 1 / 9), ("middle", 1 / (1 + math.sqrt(8))), (0.7, 0.7)])
def test_deciding_at_t_corrected_is_deciding_at_t_prime_raw(monkeypatch, target, number):
    """scores are corrected so that T' maps to T: the same rows are positive."""
    raw = {}
    look = nets._Watch.look

    def spy(watch, logits, epoch, step):
        raw[epoch] = torch.sigmoid(logits[torch.as_tensor(watch.test)].double()).numpy()
        return look(watch, logits, epoch, step)

    monkeypatch.setattr(nets._Watch, "look", spy)
    method = Recipe("mine", loss="weighted", adapt=Whole(), target=target)
    one = run_variant(method, protocol=Protocol(epochs=8, batch_size=16, lr=0.02, device="cpu"))
    assert one.decided.threshold == pytest.approx(1 / 9)
    kept = raw[int(one.extra["epoch"])]
    clear = np.abs(kept - number) > 1e-6
    assert np.array_equal(one.decided.decisions[clear], (kept > number)[clear])
    assert 0 < one.decided.decisions.sum() < len(kept)


def test_the_caution_of_a_method_is_the_controllers():
    method = Recipe("mine", loss="weighted", adapt=Whole(), caution=2.0)
    assert nets._controller(Training.of(method, 8.0), CostMatrix(fp=1, fn=8), False).caution == 2.0


def test_the_target_sets_the_first_weight():
    costs = CostMatrix(fp=1, fn=8)
    for target, weight in (("bayes", 1.0), (0.5, 1 / 8), ("middle", 1 / math.sqrt(8)), (0.7, 3 / 7 / 8)):
        training = Training.of(Recipe("mine", loss="weighted", target=target), 8.0)
        assert nets._controller(training, costs, True).weight == pytest.approx(weight)


def test_update_and_damping_are_the_controllers():
    costs = CostMatrix(fp=1, fn=8)
    auto = Training.of(Recipe("a", loss="weighted", adapt=Whole()), 8.0)
    assert (nets._controller(auto, costs, True).update, nets._controller(auto, costs, True).damping) == (
        "exponential",
        1.0,
    )
    mine = Training.of(Recipe("a", loss="weighted", adapt=Whole(), update="odds", damping=0.3), 8.0)
    assert (nets._controller(mine, costs, True).update, nets._controller(mine, costs, True).damping) == ("odds", 0.3)
    assert mine != auto


def test_select_is_another_use_of_the_same_training():
    best, last = RECIPES["adacsl"], Recipe("last", loss="weighted", adapt=Whole(), select="last")
    assert Training.of(best, 8.0) == Training.of(last, 8.0)
    long = Protocol(epochs=6, batch_size=16, lr=0.05, device="cpu")
    task = made_task()
    split = make_split(task, long, 0)
    uses = [Use.of(method, Cell("made", 8.0, method.name, 0)) for method in (best, last)]
    one, two = run_nets(task, split, 0, {Training.of(best, 8.0): uses}, long)
    costs = [row["val_cost"] for row in two.history]
    assert costs == [row["val_cost"] for row in one.history]
    assert two.extra["epoch"] == 5
    assert two.decided.validation_cost == pytest.approx(costs[-1])
    assert one.decided.validation_cost == pytest.approx(min(costs))


def test_patience_does_not_cut_off_a_use_that_wants_the_last_epoch():
    watch = nets._Watch.__new__(nets._Watch)
    watch.best_epoch, watch.use = 0, Use(Cell("d", 1.0, "r", 0), "bayes", "last")
    assert not watch.tired(100, 3)
    watch.use = Use(Cell("d", 1.0, "r", 0), "bayes")
    assert watch.tired(100, 3)


@pytest.mark.parametrize("every", [2, 5, 1000])
def test_adapting_every_so_many_batches_steps_as_often(monkeypatch, every):
    made = []
    controller = nets._controller
    monkeypatch.setattr(nets, "_controller", lambda *args: made.append(controller(*args)) or made[-1])
    method = Recipe("mine", loss="weighted", adapt=Whole(), every=every)
    one = run_variant(method)
    rows = len(make_split(made_task(), QUICK, 0).train)
    batches = 3 * math.ceil(rows / 32)
    assert len(made[0].history) == (batches - 1) // every
    assert one.history[-1]["lambda"] == made[0].lambda_
    assert one.extra["lambda"] > 0
    assert ("threshold" in one.history[-1]) == (every < batches)


def test_adapting_between_batches_measures_without_dropout_or_augmentation(monkeypatch):
    modes = []
    steer = nets._WatchedTraining._steer

    def spy(module, members, logits):
        if members:
            modes.append((module.net.training, module.prepare.training))
        return steer(module, members, logits)

    monkeypatch.setattr(nets._WatchedTraining, "_steer", spy)
    pictures = made_pictures()
    quick = Protocol(epochs=1, batch_size=8, device="cpu")
    run_variant(Recipe("mine", loss="weighted", adapt=Whole(), every=2), task=pictures, protocol=quick, ratio=4.0)
    assert modes
    assert set(modes) == {(False, False)}


def test_the_papers_threshold_adjustment_trains_through_shifted_probabilities():
    """Against the definition, step by step in probabilities: softmax, shift, and a loss with a softmax of its own."""
    torch.manual_seed(0)
    two, y = torch.randn(40, 2, dtype=torch.float64), (torch.arange(40) % 3 == 0).long()
    threshold = 1 / 9
    p = torch.softmax(two, 1)[:, 1]
    shifted = p / (threshold / (1 - threshold) * (1 - p) + p)
    expected = torch.nn.CrossEntropyLoss()(torch.stack((1 - shifted, shifted), 1), y)
    found = nets.shifted_loss(two[:, 1] - two[:, 0], y.double(), threshold)
    torch.testing.assert_close(found, expected)
    # the net that trains has this very loss
    module = watched(ta := Recipe("ta", loss="shifted"))
    module._move_data()
    batch = module._train_rows[:50]
    logits, labels = module._logits(batch)[:, 0, 0], module._data.y[batch][:, 0]
    torch.testing.assert_close(module._loss(batch), nets.shifted_loss(logits, labels, threshold))
    # shifted probabilities above 0.5 are probabilities above T
    assert bool(((shifted > 0.5) == (p > threshold)).all())
    assert ta.needs_costs_to_train
    assert run_variant(ta).decided.threshold == pytest.approx(threshold)


def test_raw_decisions_leave_resampled_scores_as_they_are():
    raw = run_variant(Recipe("raw", resample="oversample", decide="raw", select="last"))
    corrected = run_variant(Recipe("corrected", resample="oversample", select="last"))
    share = made_task().y[make_split(made_task(), QUICK, 0).train].mean()
    assert raw.decided.threshold == 0.5
    assert raw.extra["epoch"] == corrected.extra["epoch"]
    odds = raw.decided.scores / (1 - raw.decided.scores) * share / (1 - share)
    assert corrected.decided.scores == pytest.approx(odds / (1 + odds), rel=1e-4)


def test_images_are_resized_as_pillow_does():
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3)).astype(np.uint8)
    found = nets.resize(torch.from_numpy(pixels), 50).numpy()
    assert found.shape == (3, 50, 50, 3)
    assert found.dtype == np.uint8
    for image, small in zip(pixels, found, strict=True):
        expected = np.asarray(Image.fromarray(image).resize((50, 50), Image.Resampling.BILINEAR))
        assert np.abs(small.astype(int) - expected.astype(int)).max() <= 1


def test_the_protocol_decides_about_size_optimiser_schedule_and_augmentation(monkeypatch):
    seen = []
    monkeypatch.setattr(
        nets, "run_training", lambda module, settings: (seen.append((module, settings)), run_training(module, settings))
    )
    plain = Protocol(
        epochs=2, batch_size=16, lr=0.01, optimizer="plain-sgd", weight_decay=0.02, schedule="constant", augment=False,
        image_size=12, device="cpu",
    )  # fmt: skip
    run_variant(RECIPES["ce"], task=made_pictures(), protocol=plain, ratio=4.0)
    module, settings = seen[-1]
    assert module._data.x.shape[1:] == (12, 12, 3)
    assert [type(part).__name__ for part in module.prepare] == ["ChannelsFirst", "Normalise"]
    optimizer = module.trainer.optimizers[0]
    assert type(optimizer) is torch.optim.SGD
    (group,) = optimizer.param_groups
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.01, 0, 0.02)
    assert len(group["params"]) == len(list(module.net.parameters()))

    run_variant(RECIPES["ce"], task=made_pictures(), protocol=Protocol(epochs=1, device="cpu"), ratio=4.0)
    module, settings = seen[-1]
    assert module._data.x.shape[1:] == (16, 16, 3)
    assert settings.optimizer == "adamw"
    assert settings.weight_decay == 0.05
    assert "Augment" in [type(part).__name__ for part in module.prepare]
    assert module.trainer.optimizers[0].param_groups[0]["lr"] < 3e-4  # the cosine has fallen


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adam"}, "optimizer must be one of auto, adamw, sgd, plain-sgd, got 'adam'"),
        ({"schedule": "step"}, "schedule must be one of cosine, constant"),
        ({"image_size": 4}, "image_size must be None or a side of at least 8"),
        ({"views": 2}, "views must be 1 or 4, got 2"),
    ],
)
def test_protocols_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Protocol(**settings)


def test_what_the_test_rows_hold_changes_no_encoding_of_the_others():
    task = made_task()
    split = make_split(task, QUICK, 0)
    frame = task.X.copy()
    frame.loc[split.test, "a"] = 1e6
    frame.loc[split.test, "kind"] = "never seen"
    others = np.concatenate((split.train, split.validation))
    one, two = (nets._prepare(Task(task.name, x, task.y, task.costs), split, 0, smote=True) for x in (task.X, frame))
    assert torch.equal(one.x[others], two.x[others])
    assert torch.equal(one.x[one.synthetic], two.x[two.synthetic])
