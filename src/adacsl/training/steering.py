"""Weights of the members' losses, and one step of a controller on the scores of all members it steers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adacsl.core.control import AdaptiveWeight
from adacsl.training.members import Data, Member


def weights_now(members: Sequence[Member], n_classes: int) -> Tensor:
    """Return the weight of the negatives in each member's loss; for more than two classes members x classes.

    Examples
    --------
    >>> none = np.empty(0, dtype=np.int64)
    >>> weights_now([Member(none, none, weight=0.25)], 2), weights_now([Member(none, none)], 3)
    (tensor([0.2500]), tensor([[1., 1., 1.]]))
    """
    if n_classes == 2:
        return torch.tensor([m.negative_weight for m in members], dtype=torch.float32)
    return torch.from_numpy(np.stack([m.class_weights(n_classes) for m in members]).astype(np.float32))


def offsets_of(members: Sequence[Member], n_classes: int) -> Tensor:
    """Return what is added to each member's logits in its loss: members x 1 (x classes)."""
    if n_classes == 2:
        return torch.tensor([float(m.offset) for m in members])[:, None]
    rows = [np.broadcast_to(np.asarray(m.offset, dtype=np.float32), (n_classes,)) for m in members]
    return torch.from_numpy(np.stack(rows))[:, None]


def row_weights_of(members: Sequence[Member], n: int) -> Tensor | None:
    """Return what each of n rows weighs in each member's loss, n x members; None where rows weigh the same.

    Rows behind those that a member knows were made for others.
    """
    if all(member.row_weights is None for member in members):
        return None
    weights = torch.ones(n, len(members))
    for column, member in enumerate(members):
        if member.row_weights is not None:
            weights[: len(member.row_weights), column] = torch.from_numpy(member.row_weights).float()
    return weights


def trained_with(member: Member, n_classes: int) -> dict[str, Any]:
    """Return the weights (and lambdas) of a member's loss now, for the history: one number for two classes."""
    controller = member.controller
    if n_classes == 2:
        about: dict[str, Any] = {"weight": member.negative_weight}
        return about if controller is None else about | {"lambda": controller.lambda_}
    about = {"weights": member.class_weights(n_classes).tolist()}
    return about if controller is None else about | {"lambdas": controller.lambdas.tolist()}


def step_controller(
    controller: AdaptiveWeight,
    member: Member,
    data: Data,
    logits: Tensor,
    rows: NDArray[Any],
    columns: NDArray[Any],
) -> dict[str, Any]:
    """Step a controller on the logits in these rows and columns.

    Return the cheapest threshold that it found, or for more than two classes the cheapest multipliers. ``member`` is
    one of those it steers, for the costs of each row.
    """
    device, two = data.y.device, data.n_classes == 2
    there = torch.as_tensor(rows, device=device)
    own, labels = logits[there, torch.as_tensor(columns, device=device)], data.y[there]
    step = controller.step(
        _light(torch.sigmoid(own) if two else torch.softmax(own, 1)),
        _light(labels > 0.5 if two else labels),
        costs=None if member.costs is None else member.costs.rows(rows),
        sample_weight=None if data.sample_weight is None else _light(data.sample_weight[there]),
    )
    return {"threshold": step.threshold} if two else {"multipliers": [float(m) for m in step.multipliers]}


def _light(values: Tensor) -> Any:
    """Return host values as a NumPy array, whose operations on few of them take half as long."""
    return values.numpy() if values.device.type == "cpu" else values
