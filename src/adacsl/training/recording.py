"""Passes through a net: which may be recorded as CUDA graphs, and with casts that are never older than the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from adacsl.integrations.lightning import pl
from adacsl.torch.augment import Augment, ChannelsFirst, FlipAverage
from adacsl.torch.resnet import Normalise, ResNet
from adacsl.torch.tablenet import TableNet


def can_record(
    net: nn.Module, parts: Sequence[nn.Module], trainer: Any, device: torch.device, options: Mapping[str, Any]
) -> bool:
    """Tell whether passes do the same work for every batch, on one GPU, with nobody looking in between.

    ``parts`` are what images go through before the net; ``options`` are the user's arguments of the trainer.
    """
    inner = net.net if isinstance(net, FlipAverage) else net
    return (
        device.type == "cuda"
        and type(inner) in (ResNet, TableNet)
        and all(type(part) in (ChannelsFirst, Augment, Normalise) for part in parts)
        and all(part.generator is None for part in parts if isinstance(part, Augment))
        and trainer.world_size == 1
        and getattr(trainer.precision_plugin, "scaler", None) is None
        and not options.keys() & {"strategy", "plugins", "detect_anomaly", "profiler"}
        and not any(map(_looks_at_gradients, trainer.callbacks))
    )


def _looks_at_gradients(callback: pl.Callback) -> bool:
    """Tell whether a callback has hooks in the middle of a pass, which a replay would leave out."""
    hooks = ("on_before_backward", "on_after_backward")
    return any(getattr(type(callback), hook) is not getattr(pl.Callback, hook) for hook in hooks)


@contextmanager
def uncached_autocast() -> Iterator[None]:
    """Cast weights anew in each step: autocast would keep its copies of them over all steps of a training step."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
