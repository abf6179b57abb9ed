"""How long `import adacsl` takes in a fresh interpreter, and that it brings no torch along.

python -m benchmarks.speed.import_time
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.harness import arguments, publish, ratio_row

CODE = """
import sys, time
start = time.perf_counter()
import {module}
print(time.perf_counter() - start, "torch" in sys.modules)
"""
BAR = 0.2


def main() -> int:
    args = arguments(__doc__).parse_args()
    fresh("adacsl"), fresh("numpy")  # the first ones fill the caches of the file system
    ours, numpy = [], []
    for _ in range(args.repeats or 15):
        ours.append(fresh("adacsl"))
        numpy.append(fresh("numpy"))
    row = ratio_row("import adacsl", ours, numpy, bar=None, against="import numpy alone")
    row |= {"bar_seconds": BAR, "met": row["ours"]["median_s"] <= BAR}
    return publish(f"import adacsl in fresh interpreters (bar: {BAR} s, no torch)", [row], args, torch_imported=False)


def fresh(module: str) -> float:
    """Return the seconds one import takes in a new interpreter."""
    command = [sys.executable, "-c", CODE.format(module=module)]
    seconds, torch = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603
    if torch == "True":
        raise AssertionError(f"import {module} imported torch")
    return float(seconds)


if __name__ == "__main__":
    sys.exit(main())
