"""Networks of methods: their losses, no leaks, one training for many uses; in comparisons and separately."""

import copy
import functools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from torch import nn

from adacsl import METHODS, AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier, Task, method
from adacsl.adaptive import UniformBins
from adacsl.comparison.fits import FitKey
from adacsl.comparison.jobs import run_work
from adacsl.comparison.protocol import Protocol, split_rows
from adacsl.datasets.images import resize
from adacsl.estimators.registry import needs_network
from adacsl.neural import fit
from adacsl.neural.batches import MemberBatches
from adacsl.neural.fit import smote_rows
from adacsl.neural.learner import NeuralLearner
from adacsl.torch.augmentation import Augment

QUICK = Protocol(neural=NeuralLearner(epochs=3, batch_size=32), device="cpu")
NAMES = [name for name in METHODS if needs_network(method(name))]
ADAPTED = {"loss": "weighted", "controller": "auto"}


def made_task(n=300, seed=0, *, rows=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    y = (x[:, 0] + x[:, 1] + rng.normal(size=n) > 1.3).astype(np.int64)
    frame = pd.DataFrame(x, columns=list("abcd")).assign(kind=rng.choice(["u", "v"], n))
    costs = CostMatrix(fp=1.0, fn=rng.uniform(1, 20, n)) if rows else CostMatrix(fp=1, fn=8)
    return Task("made", frame, y, costs)


def made_images(n=48):
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 4 == 0).astype(np.int64)
    x = rng.integers(0, 160, (n, 16, 16, 3)).astype(np.uint8)
    x[y == 1, :8] += 90
    return Task("images", x, y, CostMatrix(fp=1, fn=4))


def named(*names):
    return {name: method(name) for name in names}


def results(methods, task=None, *, protocol=QUICK, ratios=None, seed=0):
    """The results of a comparison of methods, by (name, ratio)."""
    task = made_task() if task is None else task
    ratios = (float(task.costs.averaged().ratio),) if ratios is None else ratios
    keys = [FitKey(task.name, ratio, name, seed) for name in methods for ratio in ratios]
    done = run_work({task.name: task}, (methods, protocol), keys)
    return {(one.fit.method, one.fit.ratio): one for one in done}


def only(result):
    (one,) = result.values()
    return one


class Trainings:
    """Records what the engine is given to train, and lets it; with ``skip`` it records only."""

    def __init__(self, train):
        self.train, self.calls, self.skip = train, [], False

    def __call__(self, net, data, members, keepers, settings, **options):
        self.calls.append((net, data, members, settings, options))
        if self.skip:
            raise SkippedError
        self.train(net, data, members, keepers, settings, **options)

    @property
    def members(self):
        return [member for call in self.calls for member in call[2]]


class SkippedError(Exception):
    """Ends a fit before its training."""


@pytest.fixture
def trained(monkeypatch):
    spy = Trainings(fit.train)
    monkeypatch.setattr(fit, "train", spy)
    return spy


@pytest.fixture
def asked(trained):
    """Return what the engine would be given to train: data, members and settings."""

    def ask(methods, task=None, **options):
        trained.skip = True
        trained.calls.clear()
        with pytest.raises(SkippedError):
            results(methods, task, **options)
        _, data, members, settings, _ = trained.calls[0]
        return data, members, settings

    return ask


# one training for many uses


@pytest.mark.parametrize(
    ("names", "ratios", "count"),
    [
        (("net", "net-bayes", "net-tuned", "net-calibrated"), (2.0, 8.0, 30.0), 1),
        (("adacsl", "net-weighted", "net-weighted-tuned"), (2.0, 8.0), 4),
        (("net-smote", "oversample", "undersample"), (2.0, 8.0), 3),
    ],
)
def test_a_training_serves_all_that_only_decide_otherwise(trained, names, ratios, count):
    result = results(named(*names), ratios=ratios)
    assert len(result) == len(names) * len(ratios)
    assert len(trained.members) == count


def test_not_adapting_is_cross_entropy_trained_once_for_all_methods(trained):
    auto = CostSensitiveClassifier(**ADAPTED, target_threshold="auto")
    result = results(named("net-bayes") | {"auto": auto}, ratios=(2.0, 8.0))
    assert len(trained.members) == 1 + 2 * 3
    plain = {member.seed: member for member in trained.members if member.controller is None}
    assert [member.weight for member in plain.values()] == [1.0]
    # whichever method is first
    again = results({"auto": auto}, ratios=(2.0, 8.0))
    for ratio in (2.0, 8.0):
        np.testing.assert_array_equal(again["auto", ratio].scores, result["auto", ratio].scores)


def test_all_methods_of_networks_train_jointly(trained):
    result = results(named(*NAMES))
    assert {name for name, _ in result} == set(NAMES)
    # those on one validation part are one computation, the five folds of three losses another
    assert sorted(len(call[2]) for call in trained.calls) == [9, 15]
    for (name, _), one in result.items():
        assert one.scores.shape == (60,)
        assert np.isfinite(one.scores).all()
        assert len(one.history) == 3 * (5 if name.endswith("-cv") else 1)
        assert {"epoch", "fold", "val_cost", "train_cost"} <= set(one.history[0])
        assert ("lambda" in one.metrics) == name.startswith("adacsl")


@pytest.mark.parametrize(("rows", "names"), [(False, ("net-tuned", "adacsl", "adacsl-cv")), (True, NAMES)])
def test_test_labels_change_no_score(rows, names):
    task = made_task(rows=rows)
    flipped = task.y.copy()
    tested = split_rows(task, QUICK.test, 0)[1]
    flipped[tested] = 1 - flipped[tested]
    other = Task(task.name, task.X, flipped, task.costs)
    # the split is stratified by labels: the same samples are tested
    one, two = (_results_on(t, tested, names) for t in (task, other))
    for name in names:
        assert np.array_equal(one[name][0], two[name][0]), name
        assert np.array_equal(one[name][1], two[name][1]), name


def _results_on(task, tested, names):
    """Scores and decisions of some samples, whose labels must not be used."""
    from adacsl.estimators.fit import fit_methods
    from adacsl.fitting.rows import Rows

    rest = np.setdiff1d(np.arange(len(task.y)), tested)
    ready = [(QUICK.prepare(method(name), 0), task.costs) for name in names]
    result = {}
    for number, candidate in fit_methods(ready, Rows.of_task(task, rest), watch=tested):
        made, scores = ready[number][0], candidate.watched
        result[names[number]] = scores, made.decision_.predict(1 / (1 + np.exp(-scores)), costs=task.costs.rows(tested))
    assert set(result) == set(names)
    return result


def test_test_samples_change_no_encoding_of_the_others(asked):
    task = made_task()
    rest, tested = split_rows(task, QUICK.test, 0)
    frame = task.X.copy()
    frame.loc[tested, "a"] = 1e6
    frame.loc[tested, "kind"] = "never seen"
    one, two = (asked(named("net-smote"), Task(task.name, x, task.y, task.costs))[0].x for x in (task.X, frame))
    assert len(one) > 300  # SMOTE's samples follow
    assert torch.equal(one[rest], two[rest])
    assert torch.equal(one[300:], two[300:])


def test_the_selected_epoch_is_that_of_least_validation_cost():
    for (name, _), one in results(named("net", "net-bayes", "net-tuned", "net-weighted", "adacsl")).items():
        costs = [row["val_cost"] for row in one.history]
        assert one.metrics["epoch"] == int(np.argmin(costs))
        assert one.metrics["validation_cost"] == pytest.approx(min(costs), abs=1e-9), name


def test_methods_of_a_comparison_are_classifiers_fitted_separately():
    task = made_task()
    rest, tested = split_rows(task, QUICK.test, 0)
    methods = {
        "plain": CostSensitiveClassifier(select="last"),
        "weighted": CostSensitiveClassifier(loss="weighted", select="last"),
        "adacsl": method("adacsl"),
    }
    result = results(methods)
    for name, given in methods.items():
        own = QUICK.prepare(given, 0).set_params(costs=task.costs, pos_label=1)
        own.fit(task.X.iloc[rest], task.y[rest])
        proba = own.predict_proba(task.X.iloc[tested])[:, 1]
        np.testing.assert_allclose(result[name, 8.0].scores, proba, atol=1e-6)
    assert np.abs(result["plain", 8.0].scores - result["weighted", 8.0].scores).max() > 1e-3
    clf = AdaCSLClassifier(
        task.costs, learner=clone(QUICK.neural), validation=0.15 / 0.8, random_state=0, device="cpu", pos_label=1
    ).fit(task.X.iloc[rest], task.y[rest])
    for column in ("lambda", "weight", "threshold", "val_cost"):
        assert clf.history_[column].tolist() == [row[column] for row in result["adacsl", 8.0].history]


def test_select_is_another_use_of_the_same_training(trained):
    long = Protocol(neural=NeuralLearner(epochs=6, batch_size=16, learning_rate=0.05), device="cpu")
    methods = {"best": method("adacsl"), "last": CostSensitiveClassifier(**ADAPTED, select="last")}
    one, two = results(methods, protocol=long).values()
    assert len(trained.members) == 1
    costs = [row["val_cost"] for row in two.history]
    assert costs == [row["val_cost"] for row in one.history]
    assert two.metrics["epoch"] == 5
    assert two.metrics["validation_cost"] == pytest.approx(costs[-1])
    assert one.metrics["validation_cost"] == pytest.approx(min(costs))


def test_patience_does_not_end_a_use_that_needs_the_last_epoch(trained):
    # a network that learns nothing never costs less than at first
    still = Protocol(neural=NeuralLearner(epochs=7, batch_size=32, learning_rate=1e-12, patience=2), device="cpu")
    methods = {select: CostSensitiveClassifier(loss="weighted", select=select) for select in ("best", "last")}
    best, last = results(methods, protocol=still).values()
    assert len(trained.members) == 1
    assert [row["epoch"] for row in best.history] == [0, 1, 2]
    assert [row["epoch"] for row in last.history] == list(range(7))
    assert (best.metrics["epoch"], last.metrics["epoch"]) == (0, 6)


# losses


def own_loss(logits, labels, costs):
    return costs.fn * (torch.sigmoid(logits) - labels) ** 2


def test_losses_of_methods_are_settings_of_members(asked):
    """tests/neural/test_members.py compares the losses of such members with torch's."""
    methods = named("net", "net-weighted", "net-focal", "logit-adjusted")
    _, members, _ = asked(methods | {"own": CostSensitiveClassifier(loss=own_loss)})
    settings = [(member.weight, member.gamma, member.offset) for member in members]
    log_odds = math.log((1 / 9) / (1 - 1 / 9))
    assert settings[:4] == [(1.0, 0.0, 0.0), (pytest.approx(1 / 8), 0.0, 0.0), (pytest.approx(1 / 8), 2.0, 0.0),
                            (1.0, 0.0, pytest.approx(log_odds))]  # fmt: skip
    logits, labels = torch.tensor([0.3, -1.0]), torch.tensor([1.0, 0.0])
    costs = CostMatrix(fp=1, fn=8)
    assert torch.equal(members[4].loss(logits, labels), own_loss(logits, labels, costs))
    assert [member.loss for member in members[:4]] == [None] * 4


def test_own_networks_and_others_train_in_one_job(trained):
    """One job may hold both kinds; the shapes of their batches are the same."""
    methods = {
        "usual": CostSensitiveClassifier(learner=NeuralLearner(epochs=2, batch_size=32)),
        "own": CostSensitiveClassifier(learner=NeuralLearner(Line, epochs=2, batch_size=32)),
    }
    results(methods)
    assert sorted(type(call[0]).__name__ for call in trained.calls) == ["Line", "TableNet"]


class Line(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.line = nn.Linear(n, 1)

    def forward(self, x):
        return self.line(x)


# balanced classes


def rows_of_an_epoch(members, epoch=0):
    """The rows that each member trains on, in order."""
    batches = MemberBatches(members, 32, lambda: epoch, filled=True, block=1)
    rows = torch.cat([batch for block in batches for batch in block]).numpy()
    return [column[column >= 0] for column in rows.T]


def test_balanced_members_see_both_classes_equally_often(asked):
    data, members, _ = asked(named("net", "oversample", "undersample", "net-smote"))
    y, plain = data.y.numpy(), members[0]
    rows = rows_of_an_epoch(members)
    shares = [y[own].mean() for own in rows]
    assert {len(own) for own in rows} == {len(plain.train)}
    assert shares[0] == pytest.approx(y[plain.train].mean())
    assert shares[1:] == pytest.approx([0.5] * 3, abs=1 / len(plain.train))
    # undersampling has few negatives, oversampling all positives, SMOTE also synthetic ones
    train = set(plain.train.tolist())
    positives = {row for row in train if y[row] == 1}
    assert len({row for row in rows[2].tolist() if y[row] == 0}) <= len(positives)
    assert positives <= set(rows[1].tolist()) <= train
    assert max(rows[3].tolist()) >= 300


def test_balanced_samples_are_drawn_again_in_each_epoch(asked):
    _, members, _ = asked(named("oversample"))
    first, second = (sorted(rows_of_an_epoch(members, epoch)[0].tolist()) for epoch in (0, 1))
    assert first != second
    assert first == sorted(rows_of_an_epoch(members, 0)[0].tolist())


def test_smote_samples_lie_between_positives():
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


def test_raw_decisions_leave_resampled_scores_as_they_are(asked):
    given = {"resample": "oversample", "select": "last"}
    result = results(
        {"raw": CostSensitiveClassifier(**given, decide="raw"), "corrected": CostSensitiveClassifier(**given)}
    )
    raw, corrected = result["raw", 8.0], result["corrected", 8.0]
    _, (member,), _ = asked({"raw": CostSensitiveClassifier(**given)})
    share = made_task().y[member.train].mean()
    assert raw.threshold == pytest.approx(0.5)
    assert corrected.threshold == pytest.approx(1 / 9)
    assert raw.metrics["epoch"] == corrected.metrics["epoch"]
    odds = raw.scores / (1 - raw.scores) * share / (1 - share)
    assert corrected.scores == pytest.approx(odds / (1 + odds), rel=1e-4)


# images


def test_images_train_one_network_at_a_time(trained):
    quick = Protocol(neural=NeuralLearner(epochs=1, batch_size=16, augment=Augment(rotate=True)), device="cpu")
    result = results(
        named("net-bayes", "net-tuned", "net-smote", "oversample", "adacsl"), made_images(), protocol=quick
    )
    assert len(result) == 5
    assert [len(call[2]) for call in trained.calls] == [1] * 4
    assert all(np.isfinite(one.scores).all() for one in result.values())


@pytest.mark.parametrize("views", [pytest.param(1, marks=pytest.mark.weekly), 4])
def test_test_images_are_scored_in_the_epochs_that_are_kept(views, trained):
    few = Protocol(neural=NeuralLearner(epochs=3, batch_size=16, views=views), device="cpu")
    methods = {"best": method("adacsl"), "last": CostSensitiveClassifier(**ADAPTED, select="last")}
    task = made_images()
    result = results(methods, task, protocol=few)
    assert len(trained.members) == 1
    costs = [row["val_cost"] for row in result["best", 4.0].history]
    assert result["best", 4.0].metrics["epoch"] == int(np.argmin(costs))
    assert result["last", 4.0].metrics["epoch"] == 2
    rest, tested = split_rows(task, few.test, 0)
    own = few.prepare(methods["best"], 0).set_params(costs=task.costs, pos_label=1).fit(task.X[rest], task.y[rest])
    proba = own.predict_proba(task.X[tested])[:, 1]
    np.testing.assert_allclose(result["best", 4.0].scores, proba, atol=1e-5)
    # four views are the mean of the net's logits over the flips
    if views == 4:
        (net,) = own.model_.net
        x = own.model_.inputs(task.X[tested])
        with torch.no_grad():
            ready = fit.preparation(own.learner).eval()(x)
            flips = [ready.flip(dims) if dims else ready for dims in ((), (2,), (3,), (2, 3))]
            expected = torch.stack([net.eval().net(flip)[:, 0] for flip in flips]).mean(0)
        np.testing.assert_allclose(own.model_.logits(task.X[tested]), expected, rtol=1e-4, atol=1e-5)


def test_cross_fitting_images_averages_networks_that_adapt_separately(trained):
    quick = Protocol(neural=NeuralLearner(epochs=1, batch_size=16), device="cpu")
    one = only(results({"two": CostSensitiveClassifier(**ADAPTED, cv=2)}, made_images(), protocol=quick))
    assert {row["fold"] for row in one.history} == {0, 1}
    assert len({id(member.controller) for member in trained.members}) == 2


def test_images_are_resized_as_pillow_does():
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3)).astype(np.uint8)
    result = resize(torch.from_numpy(pixels), 50).numpy()
    assert result.shape == (3, 50, 50, 3)
    assert result.dtype == np.uint8
    for image, small in zip(pixels, result, strict=True):
        expected = np.asarray(Image.fromarray(image).resize((50, 50), Image.Resampling.BILINEAR))
        assert np.abs(small.astype(int) - expected.astype(int)).max() <= 1


# adaptation


def test_folds_of_a_table_share_a_controller_and_hold_out_every_sample_once(asked):
    _, members, _ = asked(named("adacsl-cv"))
    assert len({id(member.controller) for member in members}) == 1
    held_out = np.sort(np.concatenate([member.validation for member in members]))
    assert np.array_equal(held_out, split_rows(made_task(), QUICK.test, 0)[0])
    for member in members:
        assert not set(member.train) & set(member.validation)


def test_per_sample_costs_adapt_with_those_of_each_ratio(asked):
    for ratio in (2.0, 40.0):
        task = made_task(rows=True)
        _, (member,), _ = asked(named("adacsl"), task, ratios=(ratio,))
        assert float(member.costs.averaged().ratio) == pytest.approx(ratio)
        own = np.sort(np.concatenate((member.train, member.validation)))  # no test sample is used
        mean = member.costs.rows(own).averaged(task.y[own])
        assert float(member.controller.costs.ratio) == pytest.approx(float(mean.ratio))


@pytest.mark.parametrize(
    ("target_threshold", "number"), [("bayes", 1 / 9), ("middle", 1 / (1 + math.sqrt(8))), (0.7, 0.7)]
)
def test_deciding_at_t_corrected_is_deciding_at_t_prime_raw(target_threshold, number):
    """Scores are corrected so that T' maps to T: the same samples are positive."""
    task = made_task()
    net = NeuralLearner(epochs=8, batch_size=16, learning_rate=0.02)
    own = CostSensitiveClassifier(
        task.costs, **ADAPTED, learner=net, target_threshold=target_threshold, random_state=0, device="cpu"
    ).fit(task.X, task.y)
    raw, proba = own.decision_scores(task.X), own.predict_proba(task.X)[:, 1]
    assert (own.target_threshold_, own.threshold_) == pytest.approx((number, number))
    clear = np.abs(raw - number) > 1e-6
    decided = own.predict(task.X) == 1
    assert np.array_equal(decided[clear], (raw > number)[clear])
    assert np.array_equal(decided[clear], (proba > 1 / 9)[clear])
    assert 0 < decided.sum() < len(raw)


def test_the_target_sets_the_first_weight(asked):
    for target_threshold, weight in (("bayes", 1.0), (0.5, 1 / 8), ("middle", 1 / math.sqrt(8)), (0.7, 3 / 7 / 8)):
        _, (member,), _ = asked({"mine": CostSensitiveClassifier(**ADAPTED, target_threshold=target_threshold)})
        assert member.negative_weight == pytest.approx(weight)
        _, (member,), _ = asked({"mine": CostSensitiveClassifier(loss="weighted", target_threshold=target_threshold)})
        assert (member.negative_weight, member.controller) == (pytest.approx(weight), None)


def test_settings_of_the_controller_are_the_methods(asked):
    def controller_of(task, **settings):
        quick = Protocol(neural=NeuralLearner(epochs=1), device="cpu")
        return asked({"mine": CostSensitiveClassifier(loss="weighted", **settings)}, task, protocol=quick)[1][
            0
        ].controller

    auto = controller_of(made_task(), controller="auto")
    assert (auto.update, auto.damping) == ("odds", 0.5)
    auto = controller_of(made_images(), controller="auto")
    assert (auto.update, auto.damping) == ("exponential", 1.0)
    mine = controller_of(made_images(), controller={"update": "odds", "damping": 0.3, "n_standard_errors": 2.0})
    assert (mine.update, mine.damping, mine.n_standard_errors) == ("odds", 0.3, 2.0)
    bins = asked(named("adacsl-bins"), made_images(), protocol=Protocol(neural=NeuralLearner(epochs=1), device="cpu"))[
        1
    ][0]
    assert bins.controller.partition == UniformBins(10)


@pytest.mark.parametrize("every", [2, 5, 1000])
def test_adapting_every_so_many_batches_steps_as_often(trained, every):
    protocol = Protocol(neural=clone(QUICK.neural).set_params(every=every), device="cpu")
    one = only(results({"mine": CostSensitiveClassifier(**ADAPTED)}, protocol=protocol))
    (member,) = trained.members
    batches = 3 * math.ceil(len(member.train) / 32)
    assert len(member.controller.history) == (batches - 1) // every
    assert one.metrics["lambda"] > 0
    assert math.isfinite(one.history[-1]["threshold"]) == (every < batches)


class Watched(nn.Module):
    """A network that records how it is called: training or not, with gradients or not."""

    def __init__(self, calls):
        super().__init__()
        self.last, self.calls = nn.LazyLinear(1), calls

    def forward(self, x):
        self.calls.append((self.training, torch.is_grad_enabled()))
        return self.last(x.flatten(1))


class WatchedAugment(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, x):
        self.calls.append((self.training, torch.is_grad_enabled()))
        return x

    def __deepcopy__(self, memo):
        return self


def test_adapting_between_batches_measures_without_dropout_or_augmentation():
    net_calls, augment_calls = [], []
    settings = {"epochs": 1, "batch_size": 8, "every": 2, "augment": WatchedAugment(augment_calls)}
    task = made_images()

    def factory():
        net = Watched(net_calls)
        net.last(torch.zeros(1, 16 * 16 * 3))  # its size is known before the optimiser asks
        return net

    own = CostSensitiveClassifier(
        task.costs, **ADAPTED, learner=NeuralLearner(factory, **settings), random_state=0, device="cpu"
    )
    own.fit(task.X, task.y)
    for calls in (net_calls, augment_calls):
        assert set(calls) == {(True, True), (False, False)}
        # it is measured while training is under way, not only after it
        first = calls.index((False, False))
        assert (True, True) in calls[first:]


# conditions


def test_settings_of_networks_define_size_optimiser_schedule_and_augmentation(trained):
    sgd = functools.partial(torch.optim.SGD, weight_decay=0.02)
    plain = Protocol(
        neural=NeuralLearner(
            epochs=2, batch_size=16, learning_rate=0.01, optimizer=sgd, schedule="constant", augment=False,
            image_size=12,
        ), device="cpu",
    )  # fmt: skip
    rates = []
    watched = copy.copy(plain.neural).set_params(trainer={"callbacks": [watch_rates(rates)]})
    results(named("net"), made_images(), protocol=replace(plain, neural=watched))
    net, data, _, settings, options = trained.calls[-1]
    assert data.x.shape[1:] == (12, 12, 3)
    assert [type(part).__name__ for part in options["prepare"]] == ["ChannelsFirst", "Normalise"]
    assert rates[-1] == (torch.optim.SGD, 0.01, 0, 0.02, len(list(net.parameters())))

    watched = NeuralLearner(epochs=1, trainer={"callbacks": [watch_rates(rates)]})
    results(named("net"), made_images(), protocol=Protocol(neural=watched, device="cpu"))
    net, data, _, settings, options = trained.calls[-1]
    assert data.x.shape[1:] == (16, 16, 3)
    assert (settings.optimizer, settings.weight_decay) == ("adamw", 0.05)
    assert "Augment" in [type(part).__name__ for part in options["prepare"]]
    assert rates[-1][0] is torch.optim.AdamW
    assert rates[-1][1] < 3e-4  # the cosine has fallen


def watch_rates(rates):
    from lightning.pytorch.callbacks import LambdaCallback

    def look(trainer, module):
        (optimizer,) = trainer.optimizers
        group = optimizer.param_groups[0]
        about = (group["lr"], group.get("momentum"), group["weight_decay"], len(group["params"]))
        rates.append((type(optimizer), *about))

    return LambdaCallback(on_train_end=look)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adam"}, "optimizer must be 'adamw', 'sgd' or a callable, got 'adam'"),
        ({"schedule": "step"}, "schedule must be 'auto', 'cosine', 'constant' or 'warm-constant'"),
        ({"image_size": 4}, "image_size must be None or a side of at least 8"),
        ({"views": 2}, "views must be one of 1, 4, got 2"),
        ({"every": 0}, "every must be None or a number of batches from 1"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Protocol(neural=NeuralLearner(**settings))


def test_settings_of_networks_are_a_learner_and_no_dict():
    for make in (Protocol, lambda neural: EnsembleClassifier(neural=neural).make_learner()):
        with pytest.raises(TypeError, match=r"neural must be a NeuralLearner, such as .*, got \{'epochs': 3\}"):
            make(neural={"epochs": 3})
    assert NeuralLearner(epochs=3, patience=None).changed() == {"epochs": 3, "patience": None}
