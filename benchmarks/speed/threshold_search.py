"""find_threshold against one sort of the same scores, and against the paper's loop over thresholds.

python -m benchmarks.speed.threshold_search                              numpy, 10^7 float32 scores
python -m benchmarks.speed.threshold_search --device cuda --n 100000000  torch on a GPU
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from typing import Any

import numpy as np

from adacsl import CostMatrix, find_threshold
from adacsl.thresholds import paper_grid
from benchmarks.harness import Work, arguments, interleave, publish, ratio_row

SEED = 20211114
COSTS = CostMatrix(fp=1, fn=8)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--n", type=int, default=10_000_000)
    args = parser.parse_args()
    rows, extra = on_gpu(args) if args.device == "cuda" else on_cpu(args)
    return publish(f"find_threshold, n = {args.n:,}", rows, args, n=args.n, seed=SEED, **extra)


def draw(n: int) -> tuple[Any, Any, Any, Any]:
    """Return overlapping float32 scores, int64 labels, costs of each sample, and sample weights."""
    rng = np.random.default_rng(SEED)
    labels = (rng.random(n, dtype=np.float32) < 0.2).astype(np.int64)
    logits = rng.standard_normal(n, dtype=np.float32) + 2 * labels.astype(np.float32) - 2
    scores = 1 / (1 + np.exp(-logits))
    fn = rng.lognormal(1.0, 1.0, n)
    return scores, labels, CostMatrix(fp=1, fn=fn), rng.random(n)


def on_cpu(args: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    scores, labels, single, weight = draw(args.n)
    works: dict[str, Work] = {
        "sort": lambda: np.sort(scores),
        "class-wide costs": lambda: find_threshold(scores, labels, COSTS),
        "argsort": lambda: np.argsort(scores),
        "costs of each sample": lambda: find_threshold(scores, labels, single),
        "sample weights": lambda: find_threshold(scores, labels, COSTS, sample_weight=weight),
    }
    seconds = interleave(works, repeats=args.repeats or 9, warmup=1)
    rows = []
    for name, other, bar in (
        ("class-wide costs", "sort", 4.0),
        ("costs of each sample", "argsort", 1.5),
        ("sample weights", "argsort", 1.5),
    ):
        rows.append(ratio_row(name, seconds[name], seconds[other], bar=bar, against=f"numpy.{other}"))
        rows[-1]["peak_bytes_per_sample"] = host_peak(works[name]) / args.n
        rows[-1]["their_peak_bytes_per_sample"] = host_peak(works[other]) / args.n
    return rows + against_loops(), {"peak memory": memory_lines(rows)}


def on_gpu(args: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    import torch  # noqa: PLC0415  the numpy run needs no torch

    generator = torch.Generator("cuda").manual_seed(SEED)
    labels = torch.rand(args.n, device="cuda", generator=generator) < 0.2
    scores = torch.sigmoid(torch.randn(args.n, device="cuda", generator=generator) + 2 * labels.float() - 2)
    weight = torch.rand(args.n, device="cuda", generator=generator)
    works: dict[str, Work] = {
        "sort": lambda: torch.sort(scores),
        "class-wide costs": lambda: find_threshold(scores, labels, COSTS),
        "sample weights": lambda: find_threshold(scores, labels, COSTS, sample_weight=weight),
    }
    seconds = interleave(works, repeats=args.repeats or 15, warmup=3, device="cuda")
    rows = []
    for name, bar in (("class-wide costs", 2.0), ("sample weights", None)):
        rows.append(ratio_row(name, seconds[name], seconds["sort"], bar=bar, against="torch.sort"))
        rows[-1]["peak_bytes_per_sample"] = cuda_peak(works[name]) / args.n
        rows[-1]["their_peak_bytes_per_sample"] = cuda_peak(works["sort"]) / args.n
    return rows, {"peak memory": memory_lines(rows)}


def against_loops(n: int = 100_000) -> list[dict[str, Any]]:
    """Compare with looping over thresholds: the paper's 181, and every distinct score (which is exact, like ours)."""
    scores, labels, _, _ = draw(n)
    grid = paper_grid().astype(np.float32)
    every = np.unique(scores)
    exact = find_threshold(scores, labels, COSTS)
    assert loop_over(every, scores, labels)[1] == exact.total_cost
    fast = interleave(
        {
            "ours": lambda: find_threshold(scores, labels, COSTS),
            "grid": lambda: loop_over(grid, scores, labels),
        },
        repeats=21,
    )
    slow = interleave({"loop": lambda: loop_over(every, scores, labels)}, repeats=1, warmup=0)
    return [
        ratio_row("n = 10^5", fast["ours"], fast["grid"], bar=None, against="a loop over the paper's 181 thresholds"),
        ratio_row("n = 10^5", fast["ours"], slow["loop"], bar=None, against=f"a loop over all {len(every):,} cuts"),
    ]


def loop_over(thresholds: Any, scores: Any, labels: Any) -> tuple[float, float]:
    """Return the cheapest threshold and its cost the slow and obvious way: decide, count and compare at each one."""
    positive, negative = labels == 1, labels == 0
    best, cheapest = 0.0, float("inf")
    for threshold in thresholds:
        decided = scores > threshold
        false_negatives = np.count_nonzero(positive & ~decided)
        false_positives = np.count_nonzero(negative & decided)
        cost = COSTS.fn * false_negatives + COSTS.fp * false_positives
        if cost < cheapest:
            best, cheapest = float(threshold), cost
    return best, cheapest


def host_peak(work: Work) -> int:
    """Return the most bytes of numpy memory held during one call, beyond what was there before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - before


def cuda_peak(work: Work) -> int:
    import torch  # noqa: PLC0415

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before)


def memory_lines(rows: list[dict[str, Any]]) -> str:
    return "; ".join(
        f"{row['name']} {row['peak_bytes_per_sample']:.1f} bytes per sample beyond the input "
        f"({row['against']}: {row['their_peak_bytes_per_sample']:.1f})"
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
