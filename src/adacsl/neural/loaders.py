"""Networks trained on the user's loaders: any iterable of (inputs, labels), never all in memory.

The loop, the selection of epochs, adaptation and checkpoints are those of :mod:`adacsl.neural.loop`; batches come from
the loaders, and only the logits and labels of the validation samples are held.
"""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adacsl.fitting.candidates import Candidate, mean_logits
from adacsl.fitting.rows import Rows, is_loader
from adacsl.neural.checkpoints import claim_folder, identity_of
from adacsl.neural.device import alone, choose_device
from adacsl.neural.epoch_selection import Keeper
from adacsl.neural.fit import (
    Training,
    make_keepers,
    make_member,
    make_training_controller,
    note_epochs,
    training_key,
)
from adacsl.neural.learner import NeuralLearner
from adacsl.neural.loop import MemberTraining, make_optimizer, make_schedule, member_losses, run
from adacsl.neural.members import Data, Member, Settings, mix
from adacsl.torch.tabular import member_logits

NO_ROWS = np.empty(0, dtype=np.int64)


def check_loader(name: str, loader: Any) -> None:
    """Raise unless a loader can be iterated again and again."""
    if not isinstance(loader, Iterable) or isinstance(loader, str | bytes | Mapping):
        raise TypeError(
            f"{name} must be an iterable of (inputs, labels), such as a DataLoader, got {type(loader).__name__}"
        )
    if isinstance(loader, Iterator):
        raise TypeError(
            f"{name} is an iterator, which is empty after one epoch: give a DataLoader, or an object whose __iter__ "
            "starts again"
        )


def split_batch(batch: Any, *, labels: bool = True) -> tuple[Any, Any]:
    """Return the inputs and the labels of a batch: (inputs, labels), or a mapping with "labels".

    Examples
    --------
    >>> inputs, labels = split_batch({"ids": torch.zeros(2, 3), "labels": torch.tensor([0, 1])})
    >>> list(inputs), labels.tolist()
    (['ids'], [0, 1])
    """
    if isinstance(batch, Mapping):
        inputs = {name: value for name, value in batch.items() if name not in ("labels", "label")}
        given = batch.get("labels", batch.get("label"))
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, given = batch
    elif labels or (isinstance(batch, tuple | list) and len(batch) != 1):
        raise TypeError(
            "each batch must be (inputs, labels), or a mapping with 'labels'; inputs may be a tensor, a tuple or a "
            f"mapping, got {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, tuple | list) else "")
        )
    else:
        inputs, given = batch[0] if isinstance(batch, tuple | list) else batch, None
    if labels and given is None:
        raise TypeError("each batch must bring its labels: (inputs, labels), or a mapping with 'labels'")
    return inputs, given


def call_net(net: nn.Module, inputs: Any) -> Any:
    """Return the outputs of a network: mappings are passed by name, tuples by position."""
    if isinstance(inputs, Mapping):
        out = net(**inputs)
    elif isinstance(inputs, tuple | list):
        out = net(*inputs)
    else:
        out = net(inputs)
    return out.get("logits", out) if isinstance(out, Mapping) else getattr(out, "logits", out)


def read_labels(labels: Any, n_classes: int) -> Tensor:
    """Return class numbers (n,) as int64, or raise."""
    values = torch.as_tensor(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"labels must be class numbers, one for each sample, got shape {tuple(values.shape)}")
    numbers = values.long()
    strange = (numbers < 0) | (numbers >= n_classes) | (numbers != values)
    if bool(strange.any()):
        raise ValueError(f"labels must be class numbers from 0 to {n_classes - 1}, got {values[strange][0].item():g}")
    return numbers


def moved(inputs: Any, device: Any) -> Any:
    """Return inputs on a device, whatever they are made of."""
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, Mapping):
        return {name: moved(value, device) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return type(inputs)(moved(value, device) for value in inputs)
    return inputs


class SeededLoader:
    """Batches of a loader; each epoch starts from a seed of its own, so that a resumed run repeats it."""

    def __init__(self, loader: Any, seed: int, epoch: Callable[[], int]) -> None:
        self.loader, self.seed, self.epoch = loader, seed, epoch

    def __iter__(self) -> Iterator[Any]:
        epoch = self.epoch()
        torch.manual_seed(mix(self.seed + 1, epoch))
        holders: list[Any] = [self.loader, getattr(self.loader, "sampler", None), getattr(self.loader, "dataset", None)]
        for holder in holders:
            if hasattr(holder, "set_epoch"):
                holder.set_epoch(epoch)
        yield from self.loader


class LoaderTraining(MemberTraining):
    """Trains one network on batches of a loader; measures and keeps epochs as :class:`MemberTraining` does."""

    def __init__(
        self,
        net: nn.Module,
        train: Any,
        validation: Any,
        data: Data,
        member: Member,
        keepers: Sequence[Keeper],
        settings: Settings,
        identity: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(net, data, [member], keepers, settings, None, identity)
        self._train, self._validation, self._seen = train, validation, 0
        self._first: int | None = 0  # the epoch to begin with, until it has begun

    def setup(self, stage: str) -> None:
        """Raise with several processes, which would all see the same batches."""
        if self.trainer.world_size > 1:
            raise ValueError(
                "loaders of one's own train in one process: leave devices and strategy out, or train with Lightning "
                "and adacsl.integrations.lightning.AdaCSLCallback"
            )

    def train_dataloader(self) -> Any:
        """Return the training batches."""

        def epoch() -> int:
            # Lightning fetches the first batch of a resumed run before it counts up the epoch
            return self.current_epoch if self._first is None else self._first

        return SeededLoader(self._train, self._members[0].seed, epoch)

    def val_dataloader(self) -> Any:
        """Return the validation batches."""
        return self._validation

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Move inputs and labels."""
        inputs, labels = split_batch(batch)
        return moved(inputs, device), read_labels(labels, self._data.n_classes).to(device)

    def configure_optimizers(self) -> Any:
        """AdamW or SGD with a schedule per step, or per epoch where the number of batches is not known."""
        settings = self._settings
        optimizer = make_optimizer(self.net, settings, fused=False)
        try:
            self._batches: int | None = len(self._train)
        except TypeError:
            self._batches = None
        steps = settings.epochs * (self._batches or 1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": make_schedule(optimizer, settings, steps)}}

    def forward(self, inputs: Any) -> Tensor:
        """Return logits, batch x 1 x 1 (x classes, for more than two)."""
        call: Any = functools.partial(call_net, self.net)
        return member_logits(call, inputs, self._data.n_classes)

    def on_train_epoch_start(self) -> None:
        """Note that an epoch has begun; the loader starts each one from its seed."""
        self._first = None

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there."""
        super().on_load_checkpoint(checkpoint)
        self._first = int(checkpoint["epoch"]) + 1

    def training_step(self, batch: tuple[Any, Tensor], batch_idx: int) -> None:  # type: ignore[override]
        """Take one optimiser step."""
        optimizer: Any = self.optimizers()
        schedule: Any = self.lr_schedulers()
        self._adapt_between_batches()
        inputs, labels = batch
        logits = self(inputs).float()
        if len(logits) != len(labels):
            raise ValueError(f"the network gave {len(logits)} outputs for {len(labels)} labels")
        y = labels.to(self._data.y.dtype)[:, None]
        weight = self._weight_of(y) / len(y)
        offset = self._offset if self._has_offsets else None
        optimizer.zero_grad()
        loss = member_losses(self._members, logits, y, weight, offset)
        self.manual_backward(loss.sum())
        if self._settings.gradient_clip is not None:
            self.clip_gradients(optimizer, self._settings.gradient_clip, "norm")
        optimizer.step()
        if self._batches is not None:
            schedule.step()
        self._losses.append(loss.detach())

    def on_train_epoch_end(self) -> None:
        """Move a schedule that counts epochs."""
        if self._batches is None:
            schedule: Any = self.lr_schedulers()
            schedule.step()

    def _can_record(self) -> bool:
        return False

    def on_validation_epoch_start(self) -> None:
        """Start again."""
        super().on_validation_epoch_start()
        self._seen = 0

    def validation_step(self, batch: tuple[Any, Tensor], batch_idx: int) -> None:  # type: ignore[override]
        """Keep the logits, and make sure that the samples come in the order of the first pass."""
        inputs, labels = batch
        rows = torch.arange(self._seen, self._seen + len(labels), device=labels.device)
        self._seen += len(labels)
        known = self._data.y
        if self._seen > len(known) or not torch.equal(known[rows], labels.to(known.dtype)):
            raise ValueError(
                "the validation loader gave other labels, or another order, than before: no shuffle and no random "
                "sampling there"
            )
        self._collected.append((rows[:, None], self(inputs).float().mean(2)))

    def on_validation_epoch_end(self) -> None:
        """Measure, keep and adapt."""
        if self._seen != len(self._data.y):
            raise ValueError(
                f"the validation loader gave {self._seen} samples, and {len(self._data.y)} before: it has to give the "
                "same ones each time"
            )
        super().on_validation_epoch_end()


class LoaderModel:
    """A network whose inputs come from loaders.

    Parameters
    ----------
    net : nn.ModuleList
        The trained network.
    undone : list of float, or of lists of K float
        What is added to the logits: the log of the weight, where it is undone.
    device : str
        Where to predict.
    n_classes : int
        How many classes there are.
    """

    kind = "loaders"
    encoder = None

    def __init__(self, net: nn.ModuleList, undone: list[Any], device: str, n_classes: int) -> None:
        self.net, self.undone, self.device, self.n_classes = net, undone, device, n_classes
        self.net.requires_grad_(False).eval()

    def logits(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the logits of all samples of a loader, or of one batch of inputs: n, or n x K."""
        device, net = torch.device(choose_device(self.device, warn=False)), self.net[0]
        batches = X if is_loader(X) else [X]
        net.to(device).eval()
        call: Any = functools.partial(call_net, net)
        parts = []
        with torch.inference_mode():
            for batch in batches:
                inputs = split_batch(batch, labels=False)[0] if batches is X else batch
                parts.append(member_logits(call, moved(inputs, device), self.n_classes).float().mean(2)[:, 0].cpu())
        net.to("cpu")
        if not parts:
            raise ValueError("the loader gave no batches: there is nothing to predict")
        return mean_logits([torch.cat(parts).numpy().astype(np.float64) + np.asarray(self.undone[0])])

    def numbers(self) -> Any:
        """Raise: without knowing the inputs the classifier cannot be saved."""
        raise ValueError(
            "a classifier that was fitted on loaders has inputs of your own, which it cannot describe: save the "
            "network, torch.save(clf.net_[0].state_dict(), path), and decide by clf.threshold_"
        )


def fit_on_loaders(candidates: Sequence[Candidate], rows: Rows, train: Any, validation: Any) -> Iterator[Candidate]:
    """Train a network for each candidate that needs another one; yield each candidate with its model.

    Parameters
    ----------
    candidates : sequence of Candidate
        Their held-out samples are those of the validation loader.
    rows : Rows
        The labels of the validation loader, without features.
    train, validation : iterables of (inputs, labels)
        Each pass over the training loader is an epoch.
    """
    trainings: dict[str, Training] = {}
    for number, candidate in enumerate(candidates):
        key = training_key(candidate)
        if key not in trainings:
            trainings[key] = _training(key, candidate, rows)
        trainings[key].keepers[number] = make_keepers(candidate, trainings[key], rows)
    for place, training in enumerate(trainings.values()):
        method = candidates[next(iter(training.keepers))].method
        folder = None if method.resume is None else Path(method.resume)
        if folder is not None and len(trainings) > 1:
            folder = folder / f"training-{place}"
        with alone():
            net = _train(training, rows, train, validation, folder)
        for number, keepers in training.keepers.items():
            yield _finish(candidates[number], training, keepers, net, rows)


def _training(key: str, candidate: Candidate, rows: Rows) -> Training:
    learner: NeuralLearner = candidate.learner
    settings = learner.settings(
        len(rows.y), images=True, device=choose_device(candidate.method.device), verbose=candidate.method.verbose
    )
    member = make_member(candidate, make_training_controller(candidate, rows), NO_ROWS, np.arange(len(rows.y)), 0, rows)
    return Training(key, [member], learner, settings, {})


def _train(training: Training, rows: Rows, train: Any, validation: Any, folder: Path | None) -> nn.Module:
    """Train the network of one training, from its last checkpoint if there is one."""
    member, settings = training.members[0], training.settings
    keepers = [own[0] for own in training.keepers.values()]
    kind = torch.float32 if rows.n_classes == 2 else torch.int64
    data = Data(torch.zeros(0), torch.from_numpy(rows.y).to(kind), None, rows.n_classes)
    start = time.perf_counter()
    with alone():
        torch.manual_seed(member.seed)
        net = make_net(training.net)
    identity = functools.cache(functools.partial(identity_of, data, training.members, training, None))
    resume = None if folder is None else claim_folder(folder, identity()).part("together")
    module = LoaderTraining(net, train, validation, data, member, keepers, settings, identity)
    run(module, keepers, settings, resume=resume)
    for keeper in keepers:
        keeper.seconds = time.perf_counter() - start
    return net


def _finish(
    candidate: Candidate, training: Training, keepers: Sequence[Keeper], net: nn.Module, rows: Rows
) -> Candidate:
    note_epochs(candidate, training, keepers, rows.n_classes)
    kept = copy.deepcopy(net)
    kept.load_state_dict(keepers[0].weights or {})
    undone = [keeper.undone for keeper in keepers]
    candidate.model = LoaderModel(nn.ModuleList([kept]), undone, candidate.method.device, rows.n_classes)
    return candidate


def make_net(learner: NeuralLearner) -> nn.Module:
    """Return the user's network: a copy, or what a factory makes."""
    module = learner.module
    if not isinstance(module, nn.Module) and not callable(module):
        raise TypeError(
            f"loaders need a network of your own, NeuralLearner(module) or a factory without arguments, got {module!r}"
        )
    net = copy.deepcopy(module) if isinstance(module, nn.Module) else module()
    if not isinstance(net, nn.Module):
        raise TypeError(f"module must be an nn.Module or a callable that returns one, got {type(net).__name__}")
    return net


def validation_labels(validation: Any, n_classes: int) -> NDArray[np.int64]:
    """Return the labels of a validation loader, in its order."""
    check_loader("validation", validation)
    parts = [read_labels(split_batch(batch)[1], n_classes) for batch in validation]
    labels = torch.cat(parts).cpu().numpy() if parts else NO_ROWS
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"the validation loader has {len(labels)} samples of {len(np.unique(labels))} classes: adapting and tuning "
            "need at least two classes"
        )
    return labels
