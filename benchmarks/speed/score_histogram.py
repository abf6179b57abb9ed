"""CostHistogram, both passes in batches, against the exact search over all scores in memory: the same threshold.

python -m benchmarks.speed.score_histogram                  10^7 float32 scores
python -m benchmarks.speed.score_histogram --n 100000000    10^8
python -m benchmarks.speed.score_histogram --n 1000000000 --stream  10^9, drawn batch by batch: nothing to compare with
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from adacsl import CostHistogram, CostMatrix, find_threshold
from adacsl.thresholds import Threshold
from benchmarks.harness import Work, arguments, interleave, publish, ratio_row
from benchmarks.speed.threshold_search import COSTS, SEED, host_peak

BATCH = 1_000_000


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--stream", action="store_true", help="hold one batch at a time; no other side")
    args = parser.parse_args()
    if args.stream:
        return stream(args)
    rng = np.random.default_rng(SEED)
    scores, labels = drawn(rng, args.n)
    rows = []
    single = CostMatrix(fp=1, fn=rng.lognormal(1.0, 1.0, args.n))
    for name, costs in (("histogram, class-wide costs", COSTS), ("histogram, costs of each sample", single)):
        kept: list[float] = []
        works: dict[str, Work] = {
            "ours": partial(by_histogram, scores, labels, costs, kept),
            "theirs": partial(find_threshold, scores, labels, costs),
        }
        ours, theirs = works["ours"](), works["theirs"]()
        assert isinstance(ours, Threshold)
        assert ours == theirs or np.allclose(ours, theirs, rtol=1e-9, atol=0), (ours, theirs)  # type: ignore[arg-type]
        seconds = interleave(works, repeats=args.repeats or 5, warmup=0)
        peaks = {who: host_peak(work) / args.n for who, work in works.items()}
        rows.append(
            ratio_row(
                name,
                seconds["ours"],
                seconds["theirs"],
                bar=None,
                against="find_threshold, all in memory",
                share_looked_at_again=kept[-1],
                equal=ours == theirs,
                peak_bytes_per_sample=peaks["ours"],
                their_peak_bytes_per_sample=peaks["theirs"],
            )
        )
    note = "; ".join(
        f"{row['name']}: {row['share_looked_at_again']:.2%} looked at again, "
        f"{row['peak_bytes_per_sample']:.2f} bytes per sample ({row['their_peak_bytes_per_sample']:.1f} in memory)"
        for row in rows
    )
    return publish(f"CostHistogram, n = {args.n:,}", rows, args, n=args.n, seed=SEED, passes=note)


def drawn(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return calibrated-looking scores and their labels."""
    labels = rng.random(n, dtype=np.float32) < 0.2
    logits = rng.standard_normal(n, dtype=np.float32)
    logits += 2 * labels.astype(np.float32) - 2
    return 1 / (1 + np.exp(-logits)), labels


def stream(args: Any) -> int:
    """Find the threshold of scores that are drawn again in each pass; only the histogram's own time is counted."""
    seconds = [0.0, 0.0]

    def batches(turn: int) -> Iterator[tuple[Any, Any]]:
        for number, start in enumerate(range(0, args.n, BATCH)):
            batch = drawn(np.random.default_rng((SEED, number)), min(BATCH, args.n - start))
            begun = time.perf_counter()
            yield batch
            seconds[turn] += time.perf_counter() - begun

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    histogram = CostHistogram()
    for scores, labels in batches(0):
        histogram.update(scores, labels)
    second = histogram.second_pass(COSTS)
    for scores, labels in batches(1):
        second.update(scores, labels)
    begun = time.perf_counter()
    result = second.threshold()
    seconds[1] += time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = ratio_row(
        "histogram, drawn batch by batch, second pass against the first", [seconds[1]], [seconds[0]], bar=None,
        against="the first pass", first_pass_s=seconds[0], second_pass_s=seconds[1], threshold=result._asdict(),
        share_looked_at_again=second.share, peak_mb=peak / 1024, peak_before_mb=before / 1024,
    )  # fmt: skip
    note = f"{sum(seconds):.1f} s, {peak / 1024:.0f} MB at most ({before / 1024:.0f} MB before the first row); {result}"
    return publish(f"CostHistogram, n = {args.n:,}, streamed", [row], args, n=args.n, seed=SEED, note=note)


def by_histogram(scores: Any, labels: Any, costs: CostMatrix, kept: list[float]) -> Threshold:
    """Return the threshold from two passes in batches; keep which share was looked at again."""
    own = costs.n_instances is not None
    batches = [slice(start, start + BATCH) for start in range(0, len(scores), BATCH)]
    histogram = CostHistogram()
    for batch in batches:
        histogram.update(scores[batch], labels[batch], costs=costs.rows(batch) if own else None)
    second = histogram.second_pass(None if own else costs)
    for batch in batches:
        second.update(scores[batch], labels[batch], costs=costs.rows(batch) if own else None)
    kept.append(second.share)
    return second.threshold()


if __name__ == "__main__":
    sys.exit(main())
