"""find_multipliers against K sorts of as many floats as there are rows.

python -m benchmarks.speed.multiplier_search                              numpy, 10^6 rows, 7 classes
python -m benchmarks.speed.multiplier_search --device cuda --n 10000000   torch on a GPU
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from adacsl import CostMatrix
from adacsl.thresholds.multiclass import find_multipliers
from benchmarks.harness import Work, arguments, interleave, publish, ratio_row

SEED = 20211114


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=7)
    args = parser.parse_args()
    k = args.classes
    scores, labels, costs = draw(args.n, k)
    equal = CostMatrix.from_array(1.0 - np.eye(k), rows="predicted")
    column, sort = scores[:, 0].copy(), np.sort
    if args.device == "cuda":
        import torch  # noqa: PLC0415  the numpy run needs no torch

        scores, labels, column = (torch.from_numpy(part).cuda() for part in (scores, labels, column))
        sort = torch.sort
    works: dict[str, Work] = {
        "sorts": lambda: [sort(column) for _ in range(k)],
        "heavy-tailed costs": lambda: find_multipliers(scores, labels, costs),
        "equal costs": lambda: find_multipliers(scores, labels, equal),
        "n_standard_errors 1": lambda: find_multipliers(scores, labels, costs, n_standard_errors=1.0),
    }
    seconds = interleave(works, repeats=args.repeats or 7, warmup=1, device=args.device)
    rows = [
        ratio_row(
            name,
            seconds[name],
            seconds["sorts"],
            bar=3.0 if name != "n_standard_errors 1" else None,
            against=against(args),
        )
        for name in works
        if name != "sorts"
    ]
    return publish(f"find_multipliers, n = {args.n:,}, K = {k}", rows, args, n=args.n, classes=k, seed=SEED)


def draw(n: int, k: int) -> tuple[Any, Any, CostMatrix]:
    """Return overlapping scores in float64, labels of unequal frequency, and heavy-tailed costs."""
    rng = np.random.default_rng(SEED)
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 2.0)))
    logits = rng.standard_normal((n, k)) + rng.standard_normal(k) / 2.0
    logits[np.arange(n), labels] += 2.0
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    matrix = 3.0 * np.exp(rng.standard_normal((k, k))) * (1.0 - np.eye(k))
    return powers / powers.sum(axis=1, keepdims=True), labels, CostMatrix.from_array(matrix, rows="predicted")


def against(args: Any) -> str:
    return f"{args.classes} times {'torch.sort' if args.device == 'cuda' else 'numpy.sort'} of n float64"


if __name__ == "__main__":
    sys.exit(main())
