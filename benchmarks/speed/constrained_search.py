"""find_threshold under constraints against the free search on the same scores.

python -m benchmarks.speed.constrained_search                    numpy, 10^7 float32 scores
"""

from __future__ import annotations

import argparse
import sys

from adacsl import find_threshold
from benchmarks.harness import Work, arguments, interleave, publish, ratio_row
from benchmarks.speed.threshold_search import COSTS, SEED, draw

LIMITS: dict[str, dict[str, float | None]] = {
    "recall": {"min_recall": 0.9},
    "precision": {"min_precision": 0.3},
    "FPR and positive rate": {"max_fpr": 0.3, "max_positive_rate": 0.4},
    "recall and precision": {"min_recall": 0.8, "min_precision": 0.3},
    "recall, no confidence": {"min_recall": 0.9, "confidence": None},
}


def main() -> int:
    parser: argparse.ArgumentParser = arguments(__doc__)
    parser.add_argument("--n", type=int, default=10_000_000)
    args = parser.parse_args()
    scores, labels, _, _ = draw(args.n)
    works: dict[str, Work] = {"free": lambda: find_threshold(scores, labels, COSTS)}
    for name, limits in LIMITS.items():
        works[name] = lambda limits=limits: find_threshold(scores, labels, COSTS, **limits)  # type: ignore[misc]
    seconds = interleave(works, repeats=args.repeats or 7, warmup=1)
    rows = [ratio_row(name, seconds[name], seconds["free"], bar=1.5, against="the free search") for name in LIMITS]
    return publish(f"find_threshold under constraints, n = {args.n:,}", rows, args, n=args.n, seed=SEED)


if __name__ == "__main__":
    sys.exit(main())
