"""Pictures as tables: the features that a net trained on ImageNet sees in them, for methods that need columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from adacsl.datasets import Task
from adacsl.torch.resnet import Normalise, resnet18
from paper.engine import choose_device

BATCH = 256
SIDE = 128
"""Pictures are enlarged to this: a net of ImageNet that is not trained further sees little in small ones."""


def as_features(task: Task, weights: str, *, device: str = "auto") -> Task:
    """Return the same rows with the 512 pooled features of a ResNet-18 as columns; nothing is trained.

    Parameters
    ----------
    weights : str
        ImageNet weights of the net.
    """
    place = torch.device(choose_device(device))
    net = resnet18(weights=weights).eval().to(place)
    normalise = Normalise().to(place)
    parts = []
    with torch.inference_mode():
        for start in range(0, len(task.y), BATCH):
            pixels = torch.from_numpy(np.ascontiguousarray(task.X[start : start + BATCH])).to(place)
            images = F.interpolate(normalise(pixels.permute(0, 3, 1, 2)), size=(SIDE, SIDE), mode="bilinear")
            parts.append(net.features(images).float().cpu())
    features = torch.cat(parts).numpy()
    return replace(task, X=pd.DataFrame(features, columns=[f"feature {i}" for i in range(features.shape[1])]))


def stand_in(task: Task) -> Task:
    """Return the same rows with one column: as good as the features for planning, and much quicker."""
    return replace(task, X=pd.DataFrame({"brightness": task.X.reshape(len(task.y), -1).mean(axis=1)}))


__all__ = ["as_features", "stand_in"]
