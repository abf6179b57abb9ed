"""AdaptiveCrossEntropy, forward and backward, against torch's BCEWithLogitsLoss with pos_weight.

python benchmarks/loss.py
python benchmarks/loss.py --device cuda
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from harness import Work, arguments, interleave, publish, ratio_row
from torch import nn

from adacsl import CostMatrix
from adacsl.torch import AdaptiveCrossEntropy, AdaptiveFocalLoss

SEED = 20211114
COSTS = CostMatrix(fp=1, fn=8)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=None, help="torch's threads on the CPU")
    args = parser.parse_args()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    generator = torch.Generator().manual_seed(SEED)
    logits = torch.randn(args.n, generator=generator).to(args.device).requires_grad_()
    targets = (torch.rand(args.n, generator=generator) < 0.2).float().to(args.device)
    losses = {
        "torch": nn.BCEWithLogitsLoss(pos_weight=torch.tensor(8.0)).to(args.device),
        "adaptive": AdaptiveCrossEntropy(COSTS).to(args.device),
        "focal": AdaptiveFocalLoss(COSTS).to(args.device),
    }
    check_equal(losses["torch"], losses["adaptive"], logits, targets)
    works = {name: training_step(loss, logits, targets) for name, loss in losses.items()}
    rows: list[dict[str, Any]] = []
    for name, key, bar in (("AdaptiveCrossEntropy", "adaptive", 1.05), ("AdaptiveFocalLoss", "focal", None)):
        pair = {key: works[key], "torch": works["torch"]}
        seconds = interleave(pair, repeats=args.repeats or 201, warmup=20, device=args.device)
        against = "BCEWithLogitsLoss(pos_weight)"
        rows.append(ratio_row(name, seconds[key], seconds["torch"], bar=bar, against=against))
    title = f"forward + backward, batch of {args.n:,}"
    return publish(title, rows, args, n=args.n, seed=SEED, threads=torch.get_num_threads())


def training_step(loss: nn.Module, logits: torch.Tensor, targets: torch.Tensor) -> Work:
    def step() -> None:
        logits.grad = None
        loss(logits, targets).backward()

    return step


def check_equal(theirs: nn.Module, ours: nn.Module, logits: torch.Tensor, targets: torch.Tensor) -> None:
    """Both must do the same job: ours is theirs times the weight of the negatives, 1 / 8."""
    torch.testing.assert_close(ours(logits, targets), theirs(logits, targets) / 8)


if __name__ == "__main__":
    sys.exit(main())
