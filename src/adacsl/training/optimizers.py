"""Optimisers, their schedule, and gradients clipped member by member."""

from __future__ import annotations

import math

import torch
from torch import nn

from adacsl.training.members import Settings


def make_optimizer(net: nn.Module, settings: Settings, *, fused: bool) -> torch.optim.Optimizer:
    """Return the optimiser; biases and norms are not decayed."""
    if callable(settings.optimizer):
        return settings.optimizer(net.parameters(), lr=settings.lr)
    trainable = [(n, p) for n, p in net.named_parameters() if p.requires_grad]
    plain = {n for n, p in trainable if n.endswith("bias") or "norm" in n or "bn" in n}
    groups = [
        {"params": [p for n, p in trainable if n not in plain], "weight_decay": settings.weight_decay},
        {"params": [p for n, p in trainable if n in plain], "weight_decay": 0.0},
    ]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr, fused=fused)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=0.9, nesterov=True, fused=fused)
    raise ValueError(f"optimizer must be 'adamw', 'sgd' or a callable, got {settings.optimizer!r}")


def make_schedule(
    optimizer: torch.optim.Optimizer, settings: Settings, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """Return the schedule of the learning rate: warm up and fall along a cosine, or stay."""
    if settings.schedule == "constant":
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    warm = min(0.15, 500 / steps) if steps > 10 else 0.0
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: warm_cosine(step / steps, warm))


def warm_cosine(progress: float, warm: float) -> float:
    """Rise linearly over the first ``warm`` of training, then fall along a cosine to zero."""
    if progress < warm:
        return (progress + 1e-3) / (warm + 1e-3)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, (progress - warm) / (1.0 - warm))))


def clip_each_member(net: nn.Module, limit: float) -> None:
    """Shorten each member's gradient to the limit: a common norm would let members feel rows they must not see."""
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    # each member's norms lie side by side: added up along the other axis, their order would depend on the company
    norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients], dim=1)
    norms = torch.linalg.vector_norm(norms, dim=1)
    scale = (limit / (norms + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
