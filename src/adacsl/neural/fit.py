"""Fits networks for candidates; a training that several candidates need happens once."""

from __future__ import annotations

import functools
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adacsl.adaptive.controller import AdaCSLController
from adacsl.base.extras import requires
from adacsl.costs.instance import bayes_log_odds
from adacsl.datasets.encoder import TableEncoder
from adacsl.datasets.images import resize
from adacsl.fitting.candidates import Candidate, mean_logits
from adacsl.fitting.rows import Rows
from adacsl.fitting.settings import make_controller
from adacsl.neural.checkpoints import claim_folder, identity_of
from adacsl.neural.device import alone, choose_device
from adacsl.neural.epoch_selection import Keeper
from adacsl.neural.learner import SIDE_BY_SIDE, NeuralLearner, table_sizes
from adacsl.neural.loop import train
from adacsl.neural.members import Data, Member, Settings, batch_shape
from adacsl.neural.model import NetModel, build_net, outputs_for, preparation, table_net
from adacsl.torch.tabular import stack_members

__all__ = ["Parts", "fit_networks", "smote_rows"]


SAMPLE = 500
"""Training samples whose cost is measured after each epoch, where a comparison shows it."""

FOCUS = 2.0
"""The focal loss's gamma."""

RESIZED: WeakKeyDictionary[Any, dict[int, Tensor]] = WeakKeyDictionary()
"""Images of a task, resized once for all fits of this process."""


class Parts(Protocol):
    """Where networks of an unfinished cross-fit on images are kept."""

    def read(self, training: str, fold: int) -> dict[str, Any] | None:
        """Return what was stored of a network; None where nothing was."""

    def write(self, training: str, fold: int, kept: Mapping[str, Any]) -> None:
        """Store the parts of a trained network that its candidates need."""

    def forget(self, training: str) -> None:
        """Remove the parts of a training whose results have been stored."""


@dataclass
class Training:
    """Members that one or more candidates need, with the keepers of each candidate."""

    name: str
    members: list[Member]
    net: NeuralLearner
    settings: Settings
    keepers: dict[int, list[Keeper]]  # by candidate

    @property
    def shape(self) -> Any:
        """What trainings must have in common to run jointly."""
        sizes = [len(member.train) for member in self.members]
        return repr(self.settings), repr(table_sizes(self.net.module)), batch_shape(sizes, self.settings.batch_size)


def fit_networks(candidates: Sequence[Candidate], rows: Rows, parts: Parts | None = None) -> Iterator[Candidate]:
    """Train the networks of the candidates, small ones jointly; yield each candidate as soon as it is fitted."""
    data = Prepared(rows)
    devices = {device: choose_device(device) for device in {candidate.method.device for candidate in candidates}}
    trainings: dict[str, Training] = {}
    for number, candidate in enumerate(candidates):
        key = training_key(candidate)
        if key not in trainings:
            trainings[key] = _training(key, candidate, rows, data, devices[candidate.method.device])
        trainings[key].keepers[number] = make_keepers(candidate, trainings[key], rows)
    groups = _groups(list(trainings.values()), rows)
    for place, group in enumerate(groups):
        resume = candidates[next(iter(group[0].keepers))].method.resume
        if resume is not None and len(groups) > 1:  # a folder belongs to one training
            resume = Path(resume) / f"training-{place}"
        with alone():
            _train(group, data, resume, parts)
        for training in group:
            for number, keepers in training.keepers.items():
                yield _finish(candidates[number], training, keepers, data)
            # the caller has stored the candidates before it asks for the next
            if parts is not None and len(training.members) > 1:
                parts.forget(training.name)


def training_key(candidate: Candidate) -> str:
    """Return the settings that determine a training; candidates that differ only in their decision rule share it."""
    method = candidate.method
    loss = "plain" if candidate.is_plain else candidate.loss
    own = [candidate.learner.get_params(), method.resample, loss, candidate.seed, method.device]
    own += [repr(method.cv), repr(method.validation) if isinstance(method.validation, float) else ""]
    if loss != "plain":
        controller = method.controller if candidate.adapts else None
        if isinstance(controller, str):  # "auto" where it adapts: the defaults
            controller = {}
        elif isinstance(controller, AdaCSLController):
            controller = repr(controller) + str(vars(controller))
        own += [controller, candidate.target_threshold, candidate.class_costs.to_json(), candidate.costs.n_instances]
        own += ["instance-weighted"] if candidate.instance_weighted else []
    return repr(own)


class Prepared:
    """Features as networks take them, made once; SMOTE's samples follow behind the data's own."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.y, self.weight = rows, rows.y, rows.weight
        self.encoder: TableEncoder | None = None
        if rows.images:
            self.x = torch.from_numpy(rows.x if rows.extra is None else np.concatenate((rows.x, rows.extra)))
        else:
            # scales and categories come from samples that may be learned from; no label is looked at
            self.encoder = TableEncoder().fit(rows.to_encode(rows.use))
            self.x = torch.from_numpy(rows.encoded(self.encoder))
        self._own: dict[int, Tensor] = {}

    def at_size(self, size: int | None) -> Tensor:
        """Return the images, resized."""
        if size is None or not self.rows.images or self.x.shape[1:3] == (size, size):
            return self.x
        known = self._own if self.rows.source is None else RESIZED.setdefault(self.rows.source, {})
        if size not in known:
            known[size] = resize(self.x, size)
        return known[size]

    def add_rows(self, label: int, train: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """Append SMOTE's samples of a class to the table; return their numbers."""
        # as many as of the negatives, or of the largest class
        largest = 0 if self.rows.n_classes == 2 else int(np.bincount(self.y[train]).argmax())
        pair = train[np.isin(self.y[train], (largest, label))]
        made = smote_rows(self.x.numpy()[pair], (self.y[pair] == label).astype(np.int64), seed)
        start = len(self.y)
        self.x = torch.from_numpy(np.concatenate((self.x.numpy(), made)))
        self.y = np.concatenate((self.y, np.full(len(made), label, np.int64)))
        if self.weight is not None:
            self.weight = np.concatenate((self.weight, np.full(len(made), self.weight[train].mean())))
        return np.arange(start, len(self.y))

    def tensors(self, size: int | None) -> Data:
        """Return the data of the training loop."""
        weight = None if self.weight is None else torch.from_numpy(self.weight)
        return Data(self.at_size(size), torch.from_numpy(self.y.astype(np.float32)), weight, self.rows.n_classes)


def smote_rows(x: NDArray[np.float32], y: NDArray[np.int64], seed: int) -> NDArray[np.float32]:
    """Return SMOTE's synthetic positives that balance the classes; none where there are too few to interpolate."""
    positives, negatives = int(y.sum()), int((1 - y).sum())
    if positives < 2 or positives >= negatives:
        return x[:0]
    with requires("compare"):
        from imblearn.over_sampling import SMOTE  # noqa: PLC0415  only this method needs it
    balanced, _ = SMOTE(k_neighbors=min(5, positives - 1), random_state=seed).fit_resample(x, y)
    return np.asarray(balanced[len(x) :], dtype=np.float32)


# trainings


def _is_table_net(net: NeuralLearner, rows: Rows) -> bool:
    """Return whether networks with these settings can train side by side."""
    return not rows.images and table_sizes(net.module)[0] in SIDE_BY_SIDE


def _training(key: str, candidate: Candidate, rows: Rows, data: Prepared, device: str) -> Training:
    """Return one member per fold; folds that train side by side share a controller."""
    method = candidate.method
    net: NeuralLearner = candidate.learner
    settings = net.settings(len(candidate.folds[0][0]), images=rows.images, device=device, verbose=method.verbose)
    shared = make_training_controller(candidate, rows) if _is_table_net(net, rows) else None
    members = []
    for fold, (train_rows, held_out) in enumerate(candidate.folds):
        controller = shared or make_training_controller(candidate, rows)
        members.append(make_member(candidate, controller, train_rows, held_out, fold, rows, data))
    return Training(key, members, net, settings, {})


def make_training_controller(candidate: Candidate, rows: Rows) -> AdaCSLController:
    """Return the controller of a training, by kind of data."""
    # networks for tables are small and overshoot quickly: the exact update at half speed had the lowest cost
    usual = {"update": "exponential", "damping": 1.0} if rows.images else {"update": "odds", "damping": 0.5}
    if rows.n_classes > 2:  # one lambda per class has no other update
        usual = {"damping": 0.5}
    return make_controller(
        candidate.method.controller,
        candidate.class_costs,
        candidate.target_threshold,
        usual,
        instance_weighted=candidate.instance_weighted,
    )


def make_member(
    candidate: Candidate, controller: AdaCSLController, train_rows: NDArray[Any], held_out: NDArray[Any], fold: int,
    rows: Rows, data: Prepared | None = None,
) -> Member:  # fmt: skip
    """Return the network of one fold; synthetic samples of resampling are appended to ``data``."""
    method, seed = candidate.method, candidate.seed
    weighted = candidate.loss in ("weighted", "focal")
    base = controller.base_weight if rows.n_classes == 2 else controller.base_weights
    loss = functools.partial(method.loss, costs=candidate.class_costs) if callable(method.loss) else None
    return Member(
        train_rows, held_out, seed=seed + fold, fold=fold,
        weight=base if weighted else 1.0,
        controller=controller if weighted and candidate.adapts else None,
        costs=candidate.row_costs, every=candidate.learner.every,
        row_weights=candidate.row_weights(np.arange(len(rows.y)), rows.y),
        gamma=FOCUS if method.loss == "focal" else 0.0,
        offset=_offset(candidate) if method.loss == "logit-adjusted" else 0.0,
        loss=loss, pools=None if data is None else _pools(method.resample, train_rows, rows, data, seed),
        smote=rows.images and method.resample == "smote",
    )  # fmt: skip


def _offset(candidate: Candidate) -> Any:
    """Return the offset of logit adjustment: log-odds of the Bayes threshold, or minus the log costs of K classes."""
    costs = candidate.class_costs
    return float(bayes_log_odds(costs)) if costs.n_classes == 2 else -np.log(costs.class_weights())


def _pools(
    resample: str | None, train: NDArray[np.int64], rows: Rows, data: Prepared, seed: int
) -> tuple[NDArray[np.int64], ...] | None:
    """Return the samples of each class that a balanced training draws from, equally often."""
    if resample is None or (rows.images and resample == "smote"):
        return None
    labels = np.unique(rows.y[train])
    pools = [train[rows.y[train] == label] for label in labels]
    if resample == "undersample":
        rng = np.random.default_rng(seed)
        fewest = min(map(len, pools))
        pools = [rng.permutation(pool)[:fewest] for pool in pools]
    elif resample == "smote":
        pools = [np.concatenate((p, data.add_rows(label, train, seed))) for label, p in zip(labels, pools, strict=True)]
    return tuple(pools)


def make_keepers(candidate: Candidate, training: Training, rows: Rows) -> list[Keeper]:
    """Return what keeps this candidate's epochs, one keeper per member."""
    method = candidate.method
    patience = training.net.patience_for(len(candidate.folds[0][0]), images=rows.images)
    shift = candidate.shift(rows.y)
    keepers = []
    for member in training.members:
        sample = np.empty(0, dtype=np.int64)
        if candidate.watch is not None:
            # the cost on some training samples is shown beside it; on few where they are images, which take long
            size = SAMPLE if rows.images else max(len(member.validation), SAMPLE)
            sample = np.sort(np.random.default_rng(0).permutation(member.train)[:size])
        keepers.append(
            Keeper(
                member,
                candidate.hold_out(rows, member.validation),
                shift=shift + candidate.offsets(np.concatenate((member.validation, sample))),
                unweighted=method.decide == "unweighted",
                patience=patience,
                watch=candidate.watch,
                sample=sample,
                costs=candidate.costs,
                labels=rows.y,
            )
        )
    return keepers


# training


def _groups(trainings: list[Training], rows: Rows) -> list[list[Training]]:
    """Return trainings that run jointly: table networks whose batches have the same shape."""
    groups: dict[Any, list[Training]] = {}
    for training in trainings:
        shape = training.shape if _is_table_net(training.net, rows) else training.name
        groups.setdefault(shape, []).append(training)
    return list(groups.values())


def _train(group: Sequence[Training], data: Prepared, resume: Any, parts: Parts | None) -> None:
    """Train all members of a group: together where the network can hold many, else one after another."""
    training = group[0]
    tensors = data.tensors(training.net.image_size)
    members = [member for t in group for member in t.members]
    identity = functools.cache(functools.partial(identity_of, tensors, members, training, data.encoder))
    folder = None if resume is None else claim_folder(Path(resume), identity())
    fit = functools.partial(train, identity=identity)
    start = time.perf_counter()
    if _is_table_net(training.net, data.rows):
        keepers = [keeper for t in group for own in t.keepers.values() for keeper in own]
        numeric = [] if data.encoder is None else data.encoder.numeric_features
        seeds = [member.seed for member in members]
        kind, sizes = table_sizes(training.net.module)
        sizes = {"outputs": outputs_for(data.rows.n_classes), **sizes}
        table = table_net(kind)(tensors.x.shape[1], len(members), numeric=numeric, seeds=seeds, **sizes)
        fit(table, tensors, members, keepers, training.settings, resume=folder and folder.part("together"))
        # the time of a joint training is shared by its networks, that of a network by its keepers
        each = (time.perf_counter() - start) / len(members)
        for keeper in keepers:
            keeper.seconds = each
        return
    for number, member in enumerate(training.members):
        keepers = [own[number] for own in training.keepers.values()]
        alone = functools.partial(fit, resume=folder and folder.part(f"member-{number}"))
        _train_or_take_up(training, member, keepers, tensors, data, alone, parts)


def _train_or_take_up(
    training: Training, member: Member, keepers: Sequence[Keeper], tensors: Data, data: Prepared,
    fit: Callable[..., None], parts: Parts | None,
) -> None:  # fmt: skip
    """Train a network, or restore its keepers from what an earlier run stored."""
    keep = parts if len(training.members) > 1 else None
    kept = None if keep is None else keep.read(training.name, member.fold)
    names = [_use(keeper) for keeper in keepers]
    if kept is not None and all(name in kept for name in names):
        for name, keeper in zip(names, keepers, strict=True):
            keeper.load_state_dict(kept[name])
        return
    start = time.perf_counter()
    with alone():
        torch.manual_seed(member.seed)
        bins = learned_bins(training.net, data, member.train)
        outputs = outputs_for(data.rows.n_classes)
        net = build_net(training.net, tensors.x.shape[1], outputs, images=data.rows.images, bins=bins)
    prepare = preparation(training.net) if data.rows.images else None
    try:
        fit(net, tensors, [member], keepers, training.settings, prepare=prepare)
    except (RuntimeError, ValueError, AssertionError):
        if prepare is not None:
            check_takes_images(net, prepare, tensors.x)
        raise
    for keeper in keepers:
        keeper.seconds = time.perf_counter() - start
    if keep is not None:
        keep.write(training.name, member.fold, {n: k.state_dict() for n, k in zip(names, keepers, strict=True)})


def learned_bins(settings: NeuralLearner, data: Prepared, rows: NDArray[np.int64]) -> dict[str, Tensor] | None:
    """Return the bins of a TabM's numbers from its training samples; None for other networks."""
    kind, sizes = table_sizes(settings.module)
    if data.encoder is None or kind != "tabm":
        return None
    from adacsl.integrations.tabm import find_bins  # noqa: PLC0415  only this network needs the packages

    return find_bins(data.x[torch.from_numpy(rows)], data.encoder.numeric_features, sizes["n_bins"])


def check_takes_images(net: nn.Module, prepare: nn.Module, x: Tensor) -> None:
    """Raise in one line where a network cannot take images N x H x W x C of these channels and this size."""
    device = next((weight.device for weight in net.parameters()), torch.device("cpu"))
    try:
        with torch.no_grad():
            net.eval()(prepare.to(device).eval()(x[:2].to(device)))
    except (RuntimeError, ValueError, AssertionError) as error:
        height, width = x.shape[1:3]
        raise ValueError(
            f"the network cannot take images of {height} x {width} pixels and three channels (grey images have three "
            "equal ones): give a network of three input channels and, if it takes images of one size only, that size, "
            f"such as NeuralLearner(image_size=224): {' '.join(str(error).split())}"
        ) from error


def _use(keeper: Keeper) -> str:
    """Return the selection criterion of a keeper as text: keepers with the same criterion keep the same epoch."""
    held = keeper.held
    return f"{held.decide} {held.last} {held.by_loss} {hashlib.sha256(held.costs.to_json().encode()).hexdigest()[:16]}"


def _finish(candidate: Candidate, training: Training, keepers: Sequence[Keeper], data: Prepared) -> Candidate:
    note_epochs(candidate, training, keepers, data.rows.n_classes)
    if candidate.watch is not None:
        candidate.watched = mean_logits([np.asarray(keeper.watched) for keeper in candidate.deciding(keepers)])
        return candidate
    candidate.model = kept_model(training.net, candidate.deciding(keepers), data, candidate.method.device)
    return candidate


def note_epochs(candidate: Candidate, training: Training, keepers: Sequence[Keeper], n_classes: int) -> None:
    """Set the kept epochs, the history and the seconds of a candidate."""
    candidate.held = [keeper.held for keeper in keepers]
    candidate.history = [row for keeper in keepers for row in keeper.history]
    candidate.seconds = sum(keeper.seconds for keeper in keepers) / len(training.keepers)
    candidate.extra = {"epoch": float(np.mean([keeper.held.best for keeper in keepers]))}
    if candidate.adapts and training.members[0].controller is not None and n_classes == 2:
        chosen = [keeper.history[keeper.held.best]["lambda"] for keeper in keepers]
        candidate.extra["lambda"] = math.exp(float(np.mean(np.log(chosen))))


def kept_model(settings: NeuralLearner, keepers: Sequence[Keeper], data: Prepared, device: str) -> NetModel:
    """Return the model of the kept epochs."""
    states = [keeper.weights or {} for keeper in keepers]
    features, outputs = data.x.shape[1], outputs_for(data.rows.n_classes)
    kind, sizes = table_sizes(settings.module)
    if data.encoder is not None and kind in SIDE_BY_SIDE:
        like = table_net(kind)(features, numeric=data.encoder.numeric_features, outputs=outputs, seeds=[0], **sizes)
        net: nn.Module = stack_members(like, states)
    else:
        images = data.rows.images
        net = nn.ModuleList(build_net(settings, features, outputs, images=images, bins=own) for own in states)
        for one, state in zip(net, states, strict=True):
            one.load_state_dict(state)
    return NetModel(net, settings, data.encoder, [keeper.undone for keeper in keepers], device, outputs)
