"""Nets of a comparison: many trainings at once, each watched for every decision that will be made with it.

One training may serve several cells: cross-entropy is trained once for all cost ratios and thresholds. Each cell keeps
the scores of the epoch that was cheapest on validation data under *its own* costs and rule, so nothing is trained twice
and no weights need keeping.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adacsl.core.control import AdaptiveWeight, Update
from adacsl.core.costs import CostMatrix
from adacsl.core.partitions import Partition
from adacsl.core.thresholds import find_threshold
from adacsl.datasets.encoding import TableEncoder
from adacsl.datasets.task import Task
from adacsl.estimators.classifier import defaults_for
from adacsl.estimators.training import (
    Data,
    IndexBatches,
    Member,
    MemberTraining,
    Settings,
    choose_device,
    make_optimizer,
    member_logits,
    mix,
    run_training,
    share_of_batch,
    side_by_side,
)
from adacsl.experiments.cells import Split
from adacsl.experiments.deciding import Finished, Scored, Use, at_ratio, bayes_logit, decide
from adacsl.experiments.documents import pack, unpack
from adacsl.experiments.parts import Parts, Place
from adacsl.experiments.protocol import Protocol, make_folds
from adacsl.experiments.recipes import Loss, Recipe, Resample, Target
from adacsl.extras import requires
from adacsl.torch.augment import Augment, ChannelsFirst, FlipAverage
from adacsl.torch.resnet import Normalise, load_backbone, named_network
from adacsl.torch.tablenet import TableNet

with requires("compare"):
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F

SAMPLE = 500
"""Training rows whose cost is measured after each epoch."""

FOCUS = 2.0
"""The focal loss's gamma."""


@dataclass(frozen=True)
class Training:
    """What a recipe needs trained; recipes that differ only in how they decide share one."""

    resample: Resample | None
    loss: Loss
    adapt: Partition | None
    crossfit: int
    ratio: float | None  # None: serves all cost ratios
    target: Target = 0.5
    update: Literal["auto"] | Update = "auto"
    damping: Literal["auto"] | float = "auto"
    caution: float = 0.0
    every: int | None = None

    @staticmethod
    def of(recipe: Recipe, ratio: float) -> Training:
        """Return the training of a recipe."""
        return Training(
            recipe.resample, recipe.loss, recipe.adapt, recipe.crossfit, ratio if recipe.needs_costs_to_train else None,
            recipe.target, recipe.update, recipe.damping, recipe.caution, recipe.every,
        )  # fmt: skip

    @property
    def members(self) -> int:
        """How many nets it takes."""
        return self.crossfit or 1


@dataclass
class _Prepared:
    """Features as the nets take them: SMOTE's rows follow behind the task's own."""

    x: Tensor
    y: NDArray[np.int64]
    numeric: list[int] = field(default_factory=list)
    synthetic: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class _Net:
    """One member of the batch, and how its loss differs from plain cross-entropy."""

    member: Member
    adapts: bool = False
    gamma: float = 0.0
    offset: float = 0.0
    shifted: bool = False
    every: int | None = None
    pools: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None  # negatives and positives to draw from equally
    smote_batches: bool = False
    row_costs: CostMatrix | None = None


def run_nets(
    task: Task, split: Split, seed: int, plan: Mapping[Training, Sequence[Use]], protocol: Protocol,
    parts: Parts | None = None,
) -> Iterator[Finished]:  # fmt: skip
    """Train what the plan names, small nets all at once, and yield the outcome of each use.

    ``parts`` keeps the nets of a cross-fit on images, which are trained one by one, until all are there.
    """
    start = time.perf_counter()
    data = _prepare(task, split, seed, smote=any(t.resample == "smote" for t in plan), size=protocol.image_size)
    settings = _settings(task, split, protocol, seed)
    if task.images:
        for training, uses in plan.items():
            nets = _nets_of(training, task, split, seed, data)
            watches = [_watch_all(use, training, nets, task, split) for use in uses]
            place = Place(task.name, seed, repr(training))
            keeper = parts if len(nets) > 1 else None
            seconds = 0.0
            for number, net in enumerate(nets):
                own = [watch[number] for watch in watches]
                seconds += _train_or_take_up(net, own, data, settings, protocol, seed + number, keeper, place)
            for use, own in zip(uses, watches, strict=True):
                yield _finish(use, own, training, task, split, seconds / len(uses))
            if keeper is not None:  # who asked for the next result has written those before
                keeper.forget(place)
        return
    groups = {training: _nets_of(training, task, split, seed, data) for training in plan}
    watched = [
        (use, training, _watch_all(use, training, groups[training], task, split))
        for training, uses in plan.items()
        for use in uses
    ]
    nets = [net for group in groups.values() for net in group]
    _train_table_nets(nets, [w for *_, w in watched], data, settings, protocol, seed)
    # nets share the time they trained together; uses of one training share its part
    each = (time.perf_counter() - start) / sum(training.members for training in plan)
    for use, training, watch in watched:
        yield _finish(use, watch, training, task, split, each * training.members / len(plan[training]))


# data


def _prepare(task: Task, split: Split, seed: int, *, smote: bool, size: int | None = None) -> _Prepared:
    if task.images:
        return _Prepared(_pixels(task, size), task.y)
    # scales and categories come from rows that are not test; no label is looked at
    encoder = TableEncoder().fit(task.take(np.concatenate((split.train, split.validation))))
    x = encoder.transform(task.X)
    prepared = _Prepared(torch.from_numpy(x), task.y, encoder.numeric_features)
    if smote:
        made = smote_rows(x[split.train], task.y[split.train], seed)
        prepared.x = torch.from_numpy(np.concatenate((x, made)))
        prepared.y = np.concatenate((task.y, np.ones(len(made), np.int64)))
        prepared.synthetic = np.arange(len(task.y), len(prepared.y))
    return prepared


@functools.lru_cache(maxsize=4)
def _pixels(task: Task, size: int | None) -> Tensor:
    """Return the images of a task, resized once for all nets of this process."""
    pixels = torch.from_numpy(np.ascontiguousarray(task.X))
    return pixels if size is None or pixels.shape[1:3] == (size, size) else resize(pixels, size)


def resize(pixels: Tensor, size: int, *, batch: int = 512) -> Tensor:
    """Return N x H x W x C bytes as N x size x size x C bytes: bilinear with antialiasing, as Pillow resizes."""
    parts = []
    for part in torch.split(pixels, batch):
        small = F.interpolate(
            part.permute(0, 3, 1, 2).float(), size=(size, size), mode="bilinear", antialias=True, align_corners=False
        )
        parts.append(small.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous())
    return torch.cat(parts)


def smote_rows(x: NDArray[np.float32], y: NDArray[np.int64], seed: int) -> NDArray[np.float32]:
    """Return SMOTE's new positives, as many as are missing; none where it has too few to mix."""
    positives, negatives = int(y.sum()), int((1 - y).sum())
    if positives < 2 or positives >= negatives:
        return x[:0]
    with requires("compare"):
        from imblearn.over_sampling import SMOTE  # noqa: PLC0415  pictures do not need it
    balanced, _ = SMOTE(k_neighbors=min(5, positives - 1), random_state=seed).fit_resample(x, y)
    return np.asarray(balanced[len(x) :], dtype=np.float32)


def smote_batch(x: Tensor, y: Tensor, neighbours: int = 5) -> tuple[Tensor, Tensor]:
    """Fill up the rarer class of a batch of images with mixtures of neighbours, in pixels: the paper's baseline."""
    rare = 1.0 if float(y.mean()) < 0.5 else 0.0
    own = x[y == rare]
    missing = len(y) - 2 * len(own)
    if len(own) < 2 or missing <= 0:
        return x, y
    flat = own.flatten(1)
    distance = torch.cdist(flat, flat).fill_diagonal_(float("inf"))
    near = distance.topk(min(neighbours, len(own) - 1), largest=False).indices
    first = torch.randint(len(own), (missing,), device=x.device)
    second = near[first, torch.randint(near.shape[1], (missing,), device=x.device)]
    share = torch.rand(missing, 1, 1, 1, device=x.device)
    made = own[first] + share * (own[second] - own[first])
    return torch.cat((x, made)), torch.cat((y, torch.full((missing,), rare, device=y.device)))


def _settings(task: Task, split: Split, protocol: Protocol, seed: int) -> Settings:
    chosen = defaults_for(len(split.train), images=task.images)._asdict()
    for name in ("epochs", "batch_size", "lr", "weight_decay", "optimizer"):
        wish = getattr(protocol, name)
        chosen[name] = chosen[name] if wish == "auto" else wish
    if chosen["optimizer"] == "plain-sgd":
        chosen["optimizer"] = functools.partial(torch.optim.SGD, weight_decay=chosen["weight_decay"])
    return Settings(
        **chosen, device=choose_device(protocol.device), seed=seed,
        evaluation_batch_size=1024 if task.images else 16384, gradient_clip=None if task.images else 1.0,
    )  # fmt: skip


# nets


def _nets_of(training: Training, task: Task, split: Split, seed: int, data: _Prepared) -> list[_Net]:
    """Return one net, or one per fold."""
    costs = at_ratio(task.costs, training.ratio)
    shared = _controller(training, costs, task.images)
    if not training.crossfit:
        return [_net(training, Member(split.train, split.validation, shared), costs, data, seed, task.images)]
    rest = np.sort(np.concatenate((split.train, split.validation)))
    nets = []
    for number, (train, held_out) in enumerate(make_folds(task, rest, training.crossfit, seed)):
        # folds of small nets train side by side and are steered by all out-of-fold scores together
        controller = _controller(training, costs, task.images) if task.images else shared
        nets.append(_net(training, Member(train, held_out, controller, number), costs, data, seed, task.images))
    return nets


def _controller(training: Training, costs: CostMatrix, images: bool) -> AdaptiveWeight:
    if training.loss not in ("weighted", "focal"):
        return AdaptiveWeight(CostMatrix(fp=1, fn=1))
    # as AdaCSLClassifier has it: small nets are quick to overshoot
    update: Update = "exponential" if images else "odds"
    damping = 1.0 if images else 0.5
    return AdaptiveWeight(
        costs.averaged(),
        target=target_threshold(training.target, costs),
        partition=training.adapt,
        update=update if training.update == "auto" else training.update,
        damping=damping if training.damping == "auto" else training.damping,
        caution=training.caution,
    )


def target_threshold(target: Target, costs: CostMatrix) -> float:
    """Return T' as a number; "middle" is the geometric middle of the odds of the Bayes threshold and 0.5.

    Examples
    --------
    >>> target_threshold("bayes", CostMatrix(fp=1, fn=4)), round(target_threshold("middle", CostMatrix(fp=1, fn=4)), 4)
    (0.2, 0.3333)
    """
    if target == "bayes":
        return float(costs.averaged().threshold)
    return 1.0 / (1.0 + math.exp(-bayes_logit(costs) / 2.0)) if target == "middle" else float(target)


def _net(training: Training, member: Member, costs: CostMatrix, data: _Prepared, seed: int, images: bool) -> _Net:
    return _Net(
        member,
        adapts=training.adapt is not None,
        gamma=FOCUS if training.loss == "focal" else 0.0,
        offset={"logit-adjusted": 1.0, "shifted": -1.0}.get(training.loss, 0.0) * bayes_logit(costs),
        shifted=training.loss == "shifted",
        every=training.every,
        pools=_pools(training, member.train, data, seed, images),
        smote_batches=images and training.resample == "smote",
        row_costs=None if costs.n_instances is None else costs,
    )


def _pools(
    training: Training, train: NDArray[np.int64], data: _Prepared, seed: int, images: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the rows a balanced training draws from: equally many of each, as many as others see."""
    if training.resample is None or (images and training.resample == "smote"):
        return None
    negatives, positives = (train[data.y[train] == label] for label in (0, 1))
    if training.resample == "undersample":
        rng = np.random.default_rng(seed)
        fewest = min(len(negatives), len(positives))
        negatives, positives = (rng.permutation(rows)[:fewest] for rows in (negatives, positives))
    elif training.resample == "smote":
        positives = np.concatenate((positives, data.synthetic))
    return negatives, positives


def _train_table_nets(
    nets: Sequence[_Net], watches: Sequence[Sequence[_Watch]], data: _Prepared, settings: Settings,
    protocol: Protocol, seed: int,
) -> None:  # fmt: skip
    numbers = {id(net): number for number, net in enumerate(nets)}
    flat = [watch for group in watches for watch in group]
    for watch in flat:
        watch.column = numbers[id(watch.net)]
    seeds = [seed + net.member.fold for net in nets]
    table = TableNet(data.x.shape[1], len(nets), numeric=data.numeric, seeds=seeds)
    run_training(_WatchedTraining(table, data, nets, flat, settings, None, protocol.schedule), settings)


def _train_image_net(
    net: _Net, watches: Sequence[_Watch], data: _Prepared, settings: Settings, protocol: Protocol, seed: int
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = named_network("resnet18")
    if protocol.weights is not None:
        load_backbone(module, protocol.weights)
    module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if protocol.views == 4:
        module = FlipAverage(module)
    augment = [Augment(rotate=protocol.rotate)] if protocol.augment else []
    prepare = nn.Sequential(ChannelsFirst(), *augment, Normalise())
    with _tuned_convolutions():
        run_training(_WatchedTraining(module, data, [net], watches, settings, prepare, protocol.schedule), settings)


def _train_or_take_up(
    net: _Net, watches: Sequence[_Watch], data: _Prepared, settings: Settings, protocol: Protocol, seed: int,
    parts: Parts | None, place: Place,
) -> float:  # fmt: skip
    """Train a net, or give its watches what an earlier run has kept of it; return the seconds it took."""
    kept = None if parts is None else parts.read(place, net.member.fold)
    if kept is None or not _take_up(watches, kept):
        start = time.perf_counter()
        _train_image_net(net, watches, data, settings, protocol, seed)
        kept = _part(watches, time.perf_counter() - start)
        if parts is not None:
            parts.write(place, net.member.fold, kept)
    return float(kept["seconds"])


@contextlib.contextmanager
def _tuned_convolutions() -> Iterator[None]:
    """Let a GPU try which convolution is fastest: all batches are of (nearly) the same shape."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


class _BalancedBatches(IndexBatches):
    """Batches where some columns are drawn anew in each pass, as many negatives as positives."""

    def __init__(self, *args: Any, pools: dict[int, tuple[Tensor, Tensor]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.pools = pools

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        if self.pools and self.seed_of_pass is not None:
            generator = torch.Generator().manual_seed(mix(self.seed_of_pass(), 1))
            self.rows = self.rows.clone()
            for column, (negatives, positives) in self.pools.items():
                half = len(self.rows) // 2
                drawn = (_draw(positives, half, generator), _draw(negatives, len(self.rows) - half, generator))
                self.rows[:, column] = torch.cat(drawn).to(self.rows.device)
        return super().__iter__()


def _draw(pool: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return rows of a pool in random order; each is taken again only after all others were."""
    rounds = math.ceil(count / len(pool))
    return torch.cat([pool[torch.randperm(len(pool), generator=generator)] for _ in range(rounds)])[:count]


class _WatchedTraining(MemberTraining):
    """Members with losses of their own; what an epoch is worth is for the watches to say."""

    _gamma: Tensor
    _offset: Tensor
    _through: Tensor

    def __init__(
        self, net: nn.Module, data: _Prepared, nets: Sequence[_Net], watches: Sequence[_Watch],
        settings: Settings, prepare: nn.Module | None, schedule: str = "cosine",
    ) -> None:  # fmt: skip
        rows = Data(data.x, torch.from_numpy(data.y.astype(np.float32)))
        super().__init__(net, rows, [n.member for n in nets], settings, prepare)
        self._nets, self._watches = list(nets), list(watches)
        self.register_buffer("_gamma", torch.tensor([n.gamma for n in nets]), persistent=False)
        self.register_buffer("_offset", torch.tensor([n.offset for n in nets]), persistent=False)
        self._focal, self._shifted = any(n.gamma for n in nets), any(n.offset for n in nets)
        self.register_buffer("_through", torch.tensor([n.shifted for n in nets]), persistent=False)
        self._any_through = any(n.shifted for n in nets)
        self._constant_lr = schedule == "constant"
        self._batches_seen = 0
        self._between: dict[int, dict[str, float]] = {}  # where controllers that step between batches are
        # images take long to score: a net on its own scores the test rows of the epochs that are kept, and no others
        self._scores_test_later = prepare is not None
        looked_at: list[list[NDArray[np.int64]]] = [[] for _ in nets]
        for watch in watches:
            test = watch.test[:0] if self._scores_test_later else watch.test
            looked_at[watch.column] = [watch.validation, test, watch.sample]
        self._validation_rows = side_by_side([np.concatenate(parts) for parts in looked_at])

    def on_fit_start(self) -> None:
        """Move the data to the device, once."""
        self._move_data()
        for watch in self._watches:
            watch.move(self._known.y.device)

    def train_dataloader(self) -> Any:
        """Return shuffled batches of row numbers, balanced where a member wants them so."""
        pools = {
            number: (torch.from_numpy(net.pools[0]), torch.from_numpy(net.pools[1]))
            for number, net in enumerate(self._nets)
            if net.pools is not None
        }
        plain = super().train_dataloader()
        size = self._settings.batch_size
        return _BalancedBatches(plain.rows, size, plain.seed_of_pass, block=plain.block, pools=pools)

    def configure_optimizers(self) -> Any:
        """Return the optimiser with its schedule, or with a learning rate that stays."""
        if not self._constant_lr:
            return super().configure_optimizers()
        optimizer = make_optimizer(self.net, self._settings, fused=self._can_record())
        steady = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": steady, "interval": "step"}}

    def _can_record(self) -> bool:
        return super()._can_record() and not self._nets[0].smote_batches  # whose batches differ in size

    def _loss(self, batch: Tensor) -> Tensor:
        rows, share = share_of_batch(batch)
        y = self._data.y[rows]
        if self._nets[0].smote_batches:
            logits, y = self._smote_logits(rows)
        else:
            logits = self._logits(rows)
        weight = torch.lerp(self.negative_weight, self._one, y)[:, :, None]
        y = y[:, :, None].expand_as(logits)
        shifted = logits + self._offset[:, None] if self._shifted else logits
        if self._any_through:
            shifted = torch.where(self._through[:, None], 2.0 * torch.sigmoid(shifted) - 1.0, shifted)
        losses = F.binary_cross_entropy_with_logits(shifted, y, weight=weight.expand_as(logits), reduction="none")
        if self._focal:
            # (1 - p)^gamma for positives, p^gamma for negatives
            losses = losses * torch.exp(self._gamma[:, None] * F.logsigmoid((1.0 - 2.0 * y) * logits))
        return losses.sum() * (share / (len(y) * logits.shape[2]))

    def _smote_logits(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        x = self._data.x[rows[:, 0]]
        x, y = smote_batch(x if self.prepare is None else self.prepare(x), self._data.y[rows[:, 0]])
        return member_logits(self.net, x).float(), y[:, None]

    def on_validation_epoch_end(self) -> None:
        """Steer what adapts, and let every watch look at the epoch."""
        logits = self._gathered_logits()
        self._losses.clear()
        steps = self._steer([n for n in self._nets if n.adapts and n.every is None], logits)
        for net in self._nets:
            if net.every is not None:
                controller = net.member.controller
                steps[id(controller)] = self._between.get(id(controller), {}) | {"lambda": controller.lambda_}
        kept = []
        for watch in self._watches:
            step = steps.get(id(watch.net.member.controller))
            if watch.look(logits[:, watch.column], self.current_epoch, step):
                kept.append(watch)
        if self._scores_test_later:
            self._score_test([watch for watch in kept if watch.use.select == "best"])
        else:
            for watch in kept:
                watch.keep_test(logits[watch.test_rows, watch.column])
        self.negative_weight.copy_(self._weights_now())
        patience = self._settings.patience
        if patience is not None and all(watch.tired(self.current_epoch, patience) for watch in self._watches):
            self.trainer.should_stop = True

    def on_train_end(self) -> None:
        """Score the test rows with the last epoch's net, for those who want it."""
        if self._scores_test_later:
            self._score_test([watch for watch in self._watches if watch.use.select == "last"])
        super().on_train_end()

    def _score_test(self, watches: Sequence[_Watch]) -> None:
        """Let these watches, of one net, keep the test scores of the net as it is."""
        if not watches:
            return
        rows = torch.from_numpy(watches[0].test).to(self._data.y.device)
        before = self.training
        self.eval()
        with torch.no_grad(), self.trainer.precision_plugin.forward_context():
            parts = torch.split(rows[:, None], self._settings.evaluation_batch_size)
            logits = torch.cat([self._logits(part).mean(2)[:, 0] for part in parts])
        self.train(before)
        for watch in watches:
            watch.keep_test(logits)

    def _before_batch(self) -> None:
        """Step the controllers whose turn it is after so many batches."""
        due = [n for n in self._nets if n.every is not None and self._batches_seen and not self._batches_seen % n.every]
        self._batches_seen += 1
        if not due:
            return
        self.eval()
        with torch.no_grad():
            rows = side_by_side([n.member.validation for n in self._nets]).to(self._data.y.device)
            logits = torch.zeros(len(self._data.y), len(self._nets), device=rows.device)
            for part in torch.split(rows, self._settings.evaluation_batch_size):
                logits.scatter_(0, part, self._logits(part).mean(2))
            self._between |= self._steer(due, logits.to(self._known.y.device))
        self.train()
        self.negative_weight.copy_(self._weights_now())

    def _steer(self, nets: Sequence[_Net], logits: Tensor) -> dict[int, dict[str, float]]:
        """Step every controller of these nets, once, on the scores of all members it steers."""
        steps = {}
        scores = torch.sigmoid(logits)
        adapting = {id(n.member.controller): n.member.controller for n in nets}
        for key, controller in adapting.items():
            own = [(i, n) for i, n in enumerate(self._nets) if n.member.controller is controller]
            rows = np.concatenate([n.member.validation for _, n in own])
            columns = np.repeat([i for i, _ in own], [len(n.member.validation) for _, n in own])
            there = torch.as_tensor(rows, device=scores.device)
            used, costs = controller.lambda_, own[0][1].row_costs
            step = controller.step(
                scores[there, torch.as_tensor(columns, device=scores.device)],
                self._known.y[there],
                costs=None if costs is None else costs.rows(rows),
            )
            actual = sum(t * n for t, n in zip(step.thresholds, step.sizes, strict=True)) / sum(step.sizes)
            steps[key] = {"lambda": used, "threshold": actual}
        return steps


def shifted_loss(logits: Tensor, targets: Tensor, threshold: float) -> Tensor:
    r"""Return the loss of the paper's threshold adjustment (TA), as its published notebook has it.

    The probability is shifted so that the Bayes threshold T becomes 0.5, and trained through the shift. The shifted
    probabilities go to a loss that applies a softmax to them again, so it never sees a logit outside [-1, 1]:

    .. math:: p' = \frac{p}{p + \frac{T}{1 - T} (1 - p)}, \qquad
       L = \mathrm{CE}(\mathrm{softmax}(1 - p', p'), y) = \mathrm{BCE}(\sigma(2 p' - 1), y)
    """
    shift = math.log(threshold) - math.log1p(-threshold)
    return F.binary_cross_entropy_with_logits(2.0 * torch.sigmoid(logits - shift) - 1.0, targets)


class _Watch:
    """Keeps the scores of one epoch: the cheapest on validation rows under one use's costs and rule, or the last."""

    def __init__(self, use: Use, net: _Net, costs: CostMatrix, shift: float, task: Task, split: Split) -> None:
        self.use, self.net, self.shift, self.column = use, net, shift, 0
        self.validation, self.test = net.member.validation, split.test
        # the cost on training rows is shown beside it: some of them are enough, and of images, which take long, few
        size = SAMPLE if task.images else max(len(self.validation), SAMPLE)
        self.sample = np.sort(np.random.default_rng(0).permutation(net.member.train)[:size])
        self.costs = costs
        self.labels = task.y
        self.best_cost, self.best_epoch = math.inf, -1
        self.history: list[dict[str, Any]] = []
        self.validation_logits, self.test_logits = torch.empty(0), torch.empty(0)

    def move(self, device: torch.device) -> None:
        """Prepare the rows it looks at on the training device."""
        self._parts = {}
        for name, rows in (("validation", self.validation), ("sample", self.sample)):
            costs, y = self.costs.rows(rows), self.labels[rows] == 1
            stakes = costs.incurred(y, np.ones(len(rows), int)) - costs.incurred(y, np.zeros(len(rows), int))
            half = self.use.decide in ("half", "raw")
            cut = np.asarray(0.5) if half else np.asarray(costs.threshold, dtype=np.float64)
            cut = np.broadcast_to(cut, len(rows)).clip(1e-300, 1.0 - 1e-16)
            self._parts[name] = (
                torch.as_tensor(rows, device=device),
                torch.as_tensor(stakes, dtype=torch.float64 if device.type != "mps" else torch.float32, device=device),
                torch.as_tensor(np.log(cut) - np.log1p(-cut), dtype=torch.float32, device=device),
                float(np.sum(costs.incurred(y, np.zeros(len(rows), int)))),
            )
        self.test_rows = torch.as_tensor(self.test, device=device)
        self._positive = torch.as_tensor(self.labels[self.validation], device=device)

    def look(self, logits: Tensor, epoch: int, step: dict[str, float] | None) -> bool:
        """Measure an epoch, keep its validation scores if it is the cheapest so far, and tell whether it is."""
        logits = logits + self.shift
        cost, cut = self._validation_cost(logits)
        row = {
            "epoch": epoch,
            "fold": self.net.member.fold,
            "val_cost": cost,
            "train_cost": self._cost("sample", logits, cut),
        }
        self.history.append(row | (step or {}))
        better = cost < self.best_cost or self.use.select == "last"
        if better:
            self.best_cost, self.best_epoch = cost, epoch
            self.validation_logits = logits[self._parts["validation"][0]].cpu()
        return better

    def keep_test(self, logits: Tensor) -> None:
        """Keep the test rows' scores of the epoch that was kept."""
        self.test_logits = (logits + self.shift).cpu()

    def tired(self, epoch: int, patience: int) -> bool:
        """Tell whether nothing got better for a long time."""
        return self.use.select == "best" and epoch - self.best_epoch >= patience

    def _validation_cost(self, logits: Tensor) -> tuple[float, float | None]:
        if self.use.decide != "tuned":
            return self._cost("validation", logits, None), None
        rows = self._parts["validation"][0]
        costs = self.costs.rows(self.validation)
        found = find_threshold(
            torch.sigmoid(logits[rows]), self._positive, costs, target=float(costs.averaged().threshold)
        )
        value = min(max(float(found.value), 1e-30), 1.0 - 1e-7)
        return found.cost / len(self.validation), math.log(value) - math.log1p(-value)

    def _cost(self, part: str, logits: Tensor, cut: float | None) -> float:
        rows, stakes, cuts, base = self._parts[part]
        positive = logits[rows] > (cuts if cut is None else cut)
        return (base + float((stakes * positive).sum())) / len(rows)


def _part(watches: Sequence[_Watch], seconds: float) -> dict[str, Any]:
    """Return what a trained net is needed for: what each watch has kept of it."""
    kept = {
        _name(watch.use): {
            "cost": watch.best_cost, "epoch": watch.best_epoch, "history": watch.history,
            "validation": pack(watch.validation_logits.float().numpy()),
            "test": pack(watch.test_logits.float().numpy()),
        }
        for watch in watches
    }  # fmt: skip
    return {"seconds": seconds, "watches": kept}


def _take_up(watches: Sequence[_Watch], part: dict[str, Any]) -> bool:
    """Give each watch what it kept when the net was trained; tell whether all were there."""
    if any(_name(watch.use) not in part["watches"] for watch in watches):
        return False
    for watch in watches:
        kept = part["watches"][_name(watch.use)]
        watch.best_cost, watch.best_epoch, watch.history = kept["cost"], kept["epoch"], kept["history"]
        watch.validation_logits, watch.test_logits = (torch.from_numpy(unpack(kept[k])) for k in ("validation", "test"))
    return True


def _name(use: Use) -> str:
    return f"{use.cell.method} {use.cell.ratio!r} {use.decide} {use.select}"


def _watch_all(use: Use, training: Training, nets: Sequence[_Net], task: Task, split: Split) -> list[_Watch]:
    costs = at_ratio(task.costs, use.cell.ratio)
    shift = 0.0 if use.decide == "raw" else _shift(training, costs, task, split)
    return [_Watch(use, net, costs, shift, task, split) for net in nets]


def _shift(training: Training, costs: CostMatrix, task: Task, split: Split) -> float:
    """Return what turns the logits of a training into those of the probability."""
    if training.resample is not None:
        share = float(task.y[split.train].mean())
        return math.log(share) - math.log1p(-share)
    if training.loss in ("plain", "shifted"):  # what the shifted loss trains for is undone by deciding at T
        return 0.0
    target = target_threshold(training.target, costs)
    return bayes_logit(costs) - (math.log(target) - math.log1p(-target))


def _finish(
    use: Use, watches: Sequence[_Watch], training: Training, task: Task, split: Split, seconds: float
) -> Finished:
    """Decide with the mean of the nets' logits."""
    costs = watches[0].costs
    rows = np.concatenate([watch.validation for watch in watches])
    held_out = torch.cat([watch.validation_logits for watch in watches])
    mean = torch.stack([watch.test_logits for watch in watches]).double().mean(0)
    validation = Scored(torch.sigmoid(held_out.double()).numpy(), task.y[rows], costs.rows(rows))
    test = Scored(torch.sigmoid(mean).numpy(), task.y[split.test], costs.rows(split.test))
    extra = {"epoch": float(np.mean([watch.best_epoch for watch in watches]))}
    if training.adapt is not None:
        chosen = [watch.history[watch.best_epoch]["lambda"] for watch in watches]
        extra["lambda"] = math.exp(float(np.mean(np.log(chosen))))
    history = [row for watch in watches for row in watch.history]
    return Finished(use, decide(use.decide, test, validation), history, extra, seconds)
