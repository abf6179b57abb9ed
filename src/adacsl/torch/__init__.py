"""Losses for PyTorch, from logits, and trained networks as classifiers."""

from adacsl.base.extras import requires

with requires("torch"):
    from adacsl.torch.freeze import freeze
    from adacsl.torch.functional import weighted_cross_entropy, weighted_focal_loss
    from adacsl.torch.imbalance import (
        BalancedSoftmax,
        ClassBalancedCrossEntropy,
        CostSampler,
        LDAMLoss,
        LogitAdjustedCrossEntropy,
    )
    from adacsl.torch.losses import (
        AdaptiveCrossEntropy,
        AdaptiveFocalLoss,
        AdaptiveLoss,
        FocalLoss,
        WeightedCrossEntropy,
    )
    from adacsl.torch.samples import flat_samples, positive_logit

__all__ = [
    "AdaptiveCrossEntropy", "AdaptiveFocalLoss", "AdaptiveLoss", "BalancedSoftmax", "ClassBalancedCrossEntropy",
    "CostSampler", "FocalLoss", "LDAMLoss", "LogitAdjustedCrossEntropy", "WeightedCrossEntropy",
    "flat_samples", "freeze", "positive_logit", "weighted_cross_entropy", "weighted_focal_loss",
]  # fmt: skip
