"""How long a comparison takes in this checkout, against another one in the same run.

    python -m benchmarks.speed.compare_time --other /path/to/other/src --json benchmarks/results/compare_time.json

Both compare the default methods on an embedded table (and, with ``--rows``, on made-up ones of that size), on one split
of two folds, in processes of their own, in turns. Without ``--other`` only the seconds are shown.

With ``--columns`` the made-up table has so many, and the comparison is the one that a user starts: default methods and
folds, with progress. Then the seconds to its first table, the share of busy cores and the peak memory are measured too:

    python -m benchmarks.speed.compare_time --rows 100000 --columns 30 --json benchmarks/results/compare_large.json
"""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import arguments, interleave, publish, ratio_row

BAR = 1.05
WORK = """
import sys, numpy as np
from adacsl import CostMatrix, compare
rows, columns = map(int, sys.argv[1:3])
if rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns or 20))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=rows) > 1.5).astype(int)
else:
    from sklearn.datasets import load_breast_cancer
    X, y = load_breast_cancer(return_X_y=True)
    y = 1 - y
quick = {} if columns else {"repeats": 1, "folds": 2, "n_jobs": 2, "progress": False}
found = compare(X, y, CostMatrix(fp=1, fn=8), device="cpu", **quick)
assert found.failures.empty, found.failures
print(found)
"""


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--other", type=Path, help="the src folder of another checkout")
    parser.add_argument("--rows", type=int, nargs="+", default=[0], help="0: breast-cancer; else made-up rows")
    parser.add_argument("--columns", type=int, default=0, help="a default comparison of so many columns")
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[2] / "src"
    rows = []
    for count in options.rows:
        own: dict[str, Any] = {}
        works = {"ours": functools.partial(run, here, count, options.columns, own)}
        if options.other is not None:
            works["other"] = functools.partial(run, options.other.resolve(), count, options.columns, {})
        once = bool(options.columns)
        seconds = interleave(works, repeats=options.repeats or (1 if once else 3), warmup=0 if once else 1)
        size = f"{count:,} made-up rows{f' x {options.columns}' if once else ''}" if count else "breast-cancer"
        bar, theirs = (BAR, seconds["other"]) if "other" in seconds else (None, seconds["ours"])
        name = f"compare, {size}"
        rows.append(ratio_row(name, seconds["ours"], theirs, bar=bar, against=str(options.other or "itself"), **own))
    title = "a comparison by default" if options.columns else "a comparison of the default methods, two folds"
    return publish(f"{title}, {os.cpu_count()} cores", rows, options)


def run(source: Path, rows: int, columns: int, measured: dict[str, Any]) -> None:
    """Compare in a fresh process that imports adacsl from there; note what was measured."""
    path = os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", WORK, str(rows), str(columns)], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    for line in process.stderr or ():
        if columns:
            print(f"{time.perf_counter() - start:7.1f} s  {line}", end="", flush=True)
        if line.startswith("first look"):
            measured.setdefault("first_table_s", round(time.perf_counter() - start, 1))
    if process.wait():
        raise SystemExit(f"the comparison in {source} failed")
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    measured["user_s"], measured["system_s"] = round(user, 1), round(system, 1)
    measured["busy_cores"] = round((user + system) / wall / (os.cpu_count() or 1), 3)
    measured["peak_mb"] = round(after.ru_maxrss / 1024)


if __name__ == "__main__":
    raise SystemExit(main())
