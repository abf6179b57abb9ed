"""Table 1 of the paper: what one adjustment does to subgroups of similar probability, from one epoch to the next."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adacsl import AdaCSLController, CostMatrix, Task
from adacsl.adaptive import UniformBins
from adacsl.datasets.images import resize
from adacsl.neural.device import choose_device
from adacsl.torch import weighted_cross_entropy
from adacsl.torch.resnet import load_backbone, named_network, normalise

COSTS = CostMatrix(fp=2, fn=2)
BINS = UniformBins(10)
PER_CLASS = (600, 200)
"""Images of each class for training and for validation: 1,200 and 400, as in the paper."""

COLUMNS = (
    *("dataset", "seed", "lambda", "bin", "size", "train_size", "val_acc_1", "val_cost_1"),
    *(
        f"{part}_{branch}"
        for branch in ("without", "with")
        for part in ("train_acc", "val_acc", "train_ce", "val_ce", "val_cost")
    ),
)


class Halves(NamedTuple):
    """Samples of a balanced task: no group is on both sides."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]


def balanced_halves(task: Task, seed: int, per_class: tuple[int, int] = PER_CLASS) -> Halves:
    """Draw equally many samples of each class for training, and for validation; groups stay on one side."""
    rng = np.random.default_rng(seed)
    groups = np.arange(len(task.y)) if task.groups is None else np.unique(task.groups, return_inverse=True)[1]
    # groups in random order, one after another
    turn = np.lexsort((rng.random(len(task.y)), rng.permutation(int(groups.max()) + 1)[groups]))
    validation = np.concatenate([turn[task.y[turn] == label][: per_class[1]] for label in (0, 1)])
    rest = turn[~np.isin(groups[turn], groups[validation])]
    train = np.concatenate([rest[task.y[rest] == label][: per_class[0]] for label in (0, 1)])
    if len(train) < 2 * per_class[0] or len(validation) < 2 * per_class[1]:
        raise ValueError(
            f"Table 1 needs {sum(per_class)} images of each class, groups kept together; {task.name} has "
            f"{int((task.y == 0).sum())} negative and {int((task.y == 1).sum())} positive ones"
        )
    return Halves(np.sort(train), np.sort(validation))


def two_epochs(
    task: Task,
    *,
    seed: int,
    weights: str | None = None,
    device: str = "auto",
    image_size: int = 50,
    per_class: tuple[int, int] = PER_CLASS,
    lr: float = 0.01,
    weight_decay: float = 0.01,
    batch_size: int = 64,
) -> list[dict[str, Any]]:
    """Train one epoch with cross-entropy, then a second one twice: as before, and with the adjusted weight.

    Returns one row for each subgroup that has validation images; an image keeps the subgroup of its probability
    after epoch 1. Both second epochs start from the same network and see the same batches.
    """
    halves = balanced_halves(task, seed, per_class)
    place = torch.device(choose_device(device))
    parts = [_part(task, part, image_size, place) for part in halves]
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        net = named_network("resnet18")
        if weights is not None:
            load_backbone(net, weights)
        net = net.to(place)
        optimizer = torch.optim.SGD(net.parameters(), lr=lr, weight_decay=weight_decay)
        _epoch(net, optimizer, *parts[0], weight=1.0, batch_size=batch_size, seed=2 * seed)
        before = [_probabilities(net, x) for x, _ in parts]
        controller = AdaCSLController(COSTS, partition=BINS)
        step = controller.step(before[1], task.y[halves.validation])
        after = {}
        for branch, weight in (("without", 1.0), ("with", step.weight)):
            own = copy.deepcopy(net)
            second = torch.optim.SGD(own.parameters(), lr=lr, weight_decay=weight_decay)
            _epoch(own, second, *parts[0], weight=weight, batch_size=batch_size, seed=2 * seed + 1)
            after[branch] = [_probabilities(own, x) for x, _ in parts]
    labels = [task.y[part] for part in halves]
    about = {"dataset": task.name, "seed": seed, "lambda": step.lambda_}
    return [about | row for row in measured(before, after, labels)]


def _part(task: Task, samples: NDArray[np.int64], size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    pixels = resize(torch.from_numpy(np.ascontiguousarray(task.X[samples])), size)
    x = normalise(pixels.permute(0, 3, 1, 2).to(device))
    return x, torch.from_numpy(task.y[samples]).float().to(device)


def _epoch(
    net: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, *, weight: float, batch_size: int, seed: int
) -> None:
    net.train()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).to(y.device)
    for batch in torch.tensor_split(order, -(-len(y) // batch_size)):
        optimizer.zero_grad()
        weighted_cross_entropy(net(x[batch]), y[batch], weight).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _probabilities(net: nn.Module, x: Tensor) -> NDArray[np.float64]:
    net.eval()
    with torch.inference_mode():
        parts = [torch.sigmoid(net(part).double().flatten()) for part in torch.split(x, 512)]
    return torch.cat(parts).cpu().numpy()


def measured(
    before: list[NDArray[np.float64]],
    after: dict[str, list[NDArray[np.float64]]],
    labels: list[NDArray[np.int64]],
) -> list[dict[str, Any]]:
    """Return accuracy, cross-entropy and cost of each subgroup with validation images."""
    train_bin, bin_ = (np.asarray(BINS(scores)) for scores in before)
    result = []
    for number in np.unique(bin_).tolist():
        train, validation = train_bin == number, bin_ == number
        row: dict[str, Any] = {"bin": number + 1, "size": int(validation.sum()), "train_size": int(train.sum())}
        row |= _quality("val", before[1][validation], labels[1][validation], "1", ("acc", "cost"))
        for branch, (on_train, on_validation) in after.items():
            row |= _quality("train", on_train[train], labels[0][train], branch, ("acc", "ce"))
            row |= _quality("val", on_validation[validation], labels[1][validation], branch, ("acc", "ce", "cost"))
        result.append(row)
    return result


def _quality(
    part: str, scores: NDArray[np.float64], y: NDArray[np.int64], when: str, wanted: tuple[str, ...]
) -> dict[str, float]:
    right = (scores > 0.5) == (y == 1)
    likely = np.where(y == 1, scores, 1.0 - scores).clip(1e-12)
    values = {
        "acc": float(right.mean()) if len(y) else float("nan"),
        "ce": float(-np.log(likely).mean()) if len(y) else float("nan"),
        "cost": float(COSTS.fp) * int((~right).sum()),  # both errors cost the same
    }
    return {f"{part}_{name}_{when}": values[name] for name in wanted}
