"""How long a comparison takes in this checkout, against another one in the same run.

    python -m benchmarks.speed.compare_time --other /path/to/other/src --json benchmarks/results/compare_time.json

Both compare all methods on an embedded table (and, with ``--rows``, on made-up ones of that size) in processes of their
own, in turns. Without ``--other`` only the seconds are printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import arguments, interleave, publish, ratio_row

BAR = 1.05
WORK = """
import sys, numpy as np
from adacsl import CostMatrix, compare
rows = int(sys.argv[1])
if rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 20))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=rows) > 1.5).astype(int)
else:
    from sklearn.datasets import load_breast_cancer
    X, y = load_breast_cancer(return_X_y=True)
    y = 1 - y
found = compare(X, y, CostMatrix(fp=1, fn=8), repeats=1, folds=2, n_jobs=2, device="cpu", progress=False)
assert found.failures.empty, found.failures
"""


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--other", type=Path, help="the src folder of another checkout")
    parser.add_argument("--rows", type=int, nargs="+", default=[0], help="0: breast-cancer; else made-up rows")
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[2] / "src"
    rows = []
    for count in options.rows:
        works = {"ours": lambda count=count: run(here, count)}
        if options.other is not None:
            works["other"] = lambda count=count: run(options.other.resolve(), count)
        seconds = interleave(works, repeats=options.repeats or 3, warmup=1)
        name = f"compare, {f'{count:,} made-up rows' if count else 'breast-cancer'}"
        bar, theirs = (BAR, seconds["other"]) if "other" in seconds else (None, seconds["ours"])
        rows.append(ratio_row(name, seconds["ours"], theirs, bar=bar, against=str(options.other or "itself")))
    return publish("a comparison of all methods, one seed, two workers", rows, options)


def run(source: Path, rows: int) -> None:
    """Compare in a fresh process that imports adacsl from there."""
    path = os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])
    subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", WORK, str(rows)], check=True, stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
