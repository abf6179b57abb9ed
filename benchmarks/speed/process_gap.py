"""How far lambda and scores of one fit are apart on 1, 2 and 4 processes.

python -m benchmarks.speed.process_gap [--rows 2000] [--epochs 40]

The batches are the same, but sums over rows are made in parts, which rounds differently; what a controller makes of
scores next to a threshold grows with the epochs. The net of one's own has no dropout, the default net has.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RANKS = Path(__file__).parents[1] / "attacks" / "ranks.py"


def fitted(processes: int, given: dict[str, Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the scores of all rows and lambda of each epoch."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(RANKS), f"{folder}/scores", str(processes), "ddp", json.dumps(given)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603
        result = np.load(f"{folder}/scores-0.npy")
    return result[: given["rows"]], result[given["rows"] :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()
    print(f"{'net':12} {'processes':>9} {'lambda apart by':>16} {'scores apart by':>16}")
    for name, more in {"own": {}, "default": {"default": True}, "default, cv": {"default": True, "cv": 5}}.items():
        given = {"rows": args.rows, "epochs": args.epochs, "batch": 64, **more}
        scores, weights = fitted(1, given)
        for processes in (2, 4):
            others, lambdas = fitted(processes, given)
            shared = min(len(weights), len(lambdas))  # patience may end elsewhere
            gap = np.abs(weights[:shared] - lambdas[:shared]).max()
            print(f"{name:12} {processes:9} {gap:16.2g} {np.abs(scores - others).max():16.2g}", flush=True)


if __name__ == "__main__":
    main()
