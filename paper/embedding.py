"""Images as tables: their features in a network trained on ImageNet, for methods that need columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from adacsl import Task
from adacsl.neural.device import choose_device
from adacsl.torch.resnet import Normalise, resnet18

BATCH = 256
SIDE = 128
"""Images are enlarged to this: an ImageNet network that is not trained further sees little in small ones."""


def as_features(task: Task, weights: str, *, device: str = "auto") -> Task:
    """Return the same samples with the 512 pooled features of a ResNet-18 as columns; nothing is trained.

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
    """Return the same samples with one column: as good as the features for planning, and much quicker."""
    return replace(task, X=pd.DataFrame({"brightness": task.X.reshape(len(task.y), -1).mean(axis=1)}))
