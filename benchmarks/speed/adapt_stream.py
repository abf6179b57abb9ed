"""AdaptiveCrossEntropy.adapt on a generator of batches of pixels: time per pixel and memory.

python -m benchmarks.speed.adapt_stream --json benchmarks/results/adapt_stream.json

The batches are drawn before the clock starts (ten of a million pixels, given again and again), so that time and memory
are those of ``adapt`` alone. Each size runs in a process of its own, whose peak memory is compared with that before.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import torch

from adacsl import CostMatrix
from adacsl.torch import AdaptiveCrossEntropy
from benchmarks.harness import arguments, metadata

SEED, BATCH, DRAWN = 20211114, 1_000_000, 10
SIZES = (10_000_000, 100_000_000)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--n", type=int, default=None, help="one size, in this process")
    args = parser.parse_args()
    if args.n is not None:
        print(json.dumps(measured(args.n)))
        return 0
    rows = [in_own_process(n, args) for n in SIZES]
    for row in rows:
        print(
            f"{row['n']:>11,} pixels: {row['seconds']:7.2f} s, {row['ns_per_pixel']:5.1f} ns per pixel "
            f"({row['cpu_ns_per_pixel']:.1f} of CPU time), {row['mib']:.0f} MiB more than before"
        )
    ratio = rows[1]["cpu_ns_per_pixel"] / rows[0]["cpu_ns_per_pixel"]
    print(f"time per pixel: {ratio:.2f} times that of the smaller size (at most 2)")
    if args.json is not None:
        document = metadata() | {"batch": BATCH, "seed": SEED, "results": rows, "ratio": ratio}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(ratio > 2.0)


def in_own_process(n: int, args: argparse.Namespace) -> dict[str, Any]:
    """Return the best of a few runs, by CPU time."""
    command = [sys.executable, "-m", "benchmarks.speed.adapt_stream", "--n", str(n)]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
        for _ in range(args.repeats or 3)
    ]
    results: list[dict[str, Any]] = [json.loads(run.stdout) for run in runs]
    return sorted(results, key=lambda result: result["cpu_ns_per_pixel"])[len(results) // 2]


def measured(n: int) -> dict[str, Any]:
    """Return time and memory of one step on so many pixels."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(SEED)
    batches = []
    for _ in range(DRAWN):
        y = (torch.rand(1, 1000, 1000, generator=generator) < 0.05).float()
        batches.append((torch.randn(1, 1, 1000, 1000, generator=generator) * 1.5 + 2.0 * y[:, None] - 2.5, y))
    loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=20))
    loss.adapt(batch for batch in batches[:1])  # what is imported and allocated once
    before, start, cpu = peak(), time.perf_counter(), time.process_time()
    step = loss.adapt(batches[number % DRAWN] for number in range(n // BATCH))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "n": n, "seconds": seconds, "ns_per_pixel": 1e9 * seconds / n, "cpu_ns_per_pixel": 1e9 * cpu / n,
        "mib": (peak() - before) / 1024, "cost": step.cost, "threshold": step.threshold,
    }  # fmt: skip


def peak() -> int:
    """Return the peak memory of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
