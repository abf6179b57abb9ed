"""AdaptiveCrossEntropy, forward and backward, against torch's BCEWithLogitsLoss with pos_weight.

python -m benchmarks.speed.loss
python -m benchmarks.speed.loss --device cuda
python -m benchmarks.speed.loss --classes 10      against CrossEntropyLoss(weight=...)
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch
from torch import nn

from adacsl import CostMatrix
from adacsl.torch import AdaptiveCrossEntropy, AdaptiveFocalLoss
from benchmarks.harness import Work, arguments, interleave, publish, ratio_row

SEED = 20211114
COSTS = CostMatrix(fp=1, fn=8)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=None, help="torch's threads on the CPU")
    parser.add_argument("--classes", type=int, default=2)
    args = parser.parse_args()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    logits, targets, losses, against = (two_classes if args.classes == 2 else many_classes)(args)
    check_equal(losses["torch"], losses["adaptive"], logits, targets)
    works = {name: training_step(loss, logits, targets) for name, loss in losses.items()}
    rows: list[dict[str, Any]] = []
    for name, key, bar in (("AdaptiveCrossEntropy", "adaptive", 1.05), ("AdaptiveFocalLoss", "net-focal", None)):
        pair = {key: works[key], "torch": works["torch"]}
        seconds = interleave(pair, repeats=args.repeats or 201, warmup=20, device=args.device)
        rows.append(ratio_row(name, seconds[key], seconds["torch"], bar=bar, against=against))
    title = f"forward + backward, batch of {args.n:,}" + (f", {args.classes} classes" if args.classes > 2 else "")
    return publish(title, rows, args, n=args.n, seed=SEED, threads=torch.get_num_threads())


def two_classes(args: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor, dict[str, nn.Module], str]:
    generator = torch.Generator().manual_seed(SEED)
    logits = torch.randn(args.n, generator=generator).to(args.device).requires_grad_()
    targets = (torch.rand(args.n, generator=generator) < 0.2).float().to(args.device)
    losses: dict[str, nn.Module] = {
        "torch": nn.BCEWithLogitsLoss(pos_weight=torch.tensor(8.0)),
        "adaptive": AdaptiveCrossEntropy(COSTS),
        "net-focal": AdaptiveFocalLoss(COSTS),
    }
    return logits, targets, {k: loss.to(args.device) for k, loss in losses.items()}, "BCEWithLogitsLoss(pos_weight)"


def many_classes(args: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor, dict[str, nn.Module], str]:
    generator, k = torch.Generator().manual_seed(SEED), args.classes
    logits = torch.randn(args.n, k, generator=generator).to(args.device).requires_grad_()
    targets = torch.randint(0, k, (args.n,), generator=generator).to(args.device)
    matrix = (1.0 + torch.rand(k, k, generator=generator) * 9.0) * (1.0 - torch.eye(k))
    costs = CostMatrix.from_array(matrix.numpy(), rows="predicted")
    losses: dict[str, nn.Module] = {
        "torch": nn.CrossEntropyLoss(weight=torch.tensor(costs.class_weights(), dtype=torch.float32)),
        "adaptive": AdaptiveCrossEntropy(costs, target_threshold="half"),
        "net-focal": AdaptiveFocalLoss(costs, target_threshold="half"),
    }
    return logits, targets, {k: loss.to(args.device) for k, loss in losses.items()}, "CrossEntropyLoss(weight)"


def training_step(loss: nn.Module, logits: torch.Tensor, targets: torch.Tensor) -> Work:
    def step() -> None:
        logits.grad = None
        loss(logits, targets).backward()

    return step


def check_equal(theirs: Any, ours: nn.Module, logits: torch.Tensor, targets: torch.Tensor) -> None:
    """Both must do the same job: ours is theirs times the weight of the negatives, 1 / 8, or the mean weight."""
    scale = 1 / 8 if targets.is_floating_point() else theirs.weight[targets].mean()
    torch.testing.assert_close(ours(logits, targets), theirs(logits, targets) * scale, rtol=1e-4, atol=0.0)


if __name__ == "__main__":
    sys.exit(main())
