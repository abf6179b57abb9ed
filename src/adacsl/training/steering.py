"""One step of a controller, on the scores of all members it steers."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from adacsl.core.control import AdaptiveWeight
from adacsl.training.members import Data, Member


def step_controller(
    controller: AdaptiveWeight,
    member: Member,
    data: Data,
    logits: Tensor,
    rows: NDArray[Any],
    columns: NDArray[Any],
) -> float:
    """Step a controller on the logits in these rows and columns; return the cheapest threshold that it found.

    ``member`` is one of those it steers, for the costs of each row.
    """
    device = data.y.device
    there = torch.as_tensor(rows, device=device)
    step = controller.step(
        _light(torch.sigmoid(logits[there, torch.as_tensor(columns, device=device)])),
        _light(data.y[there] > 0.5),
        costs=None if member.costs is None else member.costs.rows(rows),
        sample_weight=None if data.sample_weight is None else _light(data.sample_weight[there]),
    )
    return step.threshold


def _light(values: Tensor) -> Any:
    """Return host values as a NumPy array, whose operations on few of them take half as long."""
    return values.numpy() if values.device.type == "cpu" else values
