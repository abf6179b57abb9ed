"""Losses for PyTorch, from logits, and trained networks as classifiers."""

from adacsl.base.extras import requires

with requires("torch"):
    from adacsl.torch.freeze import freeze
    from adacsl.torch.functional import positive_logit, weighted_cross_entropy, weighted_focal_loss
    from adacsl.torch.losses import (
        AdaptiveCrossEntropy,
        AdaptiveFocalLoss,
        AdaptiveLoss,
        FocalLoss,
        WeightedCrossEntropy,
    )

__all__ = [
    "AdaptiveCrossEntropy", "AdaptiveFocalLoss", "AdaptiveLoss", "FocalLoss", "WeightedCrossEntropy",
    "freeze", "positive_logit", "weighted_cross_entropy", "weighted_focal_loss",
]  # fmt: skip
