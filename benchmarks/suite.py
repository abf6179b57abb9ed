"""How long the full comparison takes: every built-in table, three cost ratios, five seeds, all methods.

The same as ``adacsl compare TABLES --ratios 1x 3x 5x --seeds 5 --out runs/suite``, with the time of each table written
down. Started again with the same --run folder it goes on where it was.

    python benchmarks/suite.py --csv benchmarks/results/suite.csv                       # all of it: a night on 2 cores
    python benchmarks/suite.py --tables german-credit telco-churn --seeds 1             # a part, to extrapolate from
    python benchmarks/suite.py --device cuda --workers 12 --csv suite.csv               # on a GPU machine
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from pathlib import Path

import pandas as pd
from _data import data_folder
from harness import metadata

from adacsl.datasets import DATASETS, load_dataset
from adacsl.experiments.comparing import compare_tasks
from adacsl.experiments.comparison import Comparison

TABLES = [name for name, about in DATASETS.items() if about.kind == "table" and name != "breast-cancer"]


def main() -> None:
    options = parse()
    tasks = [load_dataset(name, folder=data_folder()) for name in options.tables]
    # the long ones first, so that no worker waits for the last
    tasks.sort(key=lambda task: -len(task.y))
    start = time.perf_counter()
    found = compare_tasks(
        tasks, ratios=["1x", "3x", "5x"], seeds=options.seeds, methods=options.methods, folder=options.run,
        workers=options.workers, device=options.device,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    show(found, seconds)
    if options.csv is not None:
        write(found, seconds, options)


def show(found: Comparison, seconds: float) -> None:
    means = found.results.groupby(["data", "method"])["normalized_cost"].mean().unstack("data")
    print(f"{datetime.date.today()}: normalised cost, means over ratios and seeds")
    print(means.assign(rank=means.rank().mean(axis=1)).sort_values("rank").round(3).to_string())
    print(found.overall)
    print("seconds of training by table:", found.results.groupby("data")["seconds"].sum().round(0).to_dict())
    print(f"{len(found.results)} cells, {len(found.failures)} failed, in {seconds:.0f} s")


def write(found: Comparison, seconds: float, options: argparse.Namespace) -> None:
    columns = [
        "data",
        "ratio",
        "method",
        "seed",
        "cost",
        "normalized_cost",
        "accuracy",
        "validation_cost",
        "n_test",
        "seconds",
    ]
    frame: pd.DataFrame = found.results[columns]
    frame.round(5).to_csv(options.csv, index=False)
    about = metadata("cuda" if options.device.startswith("cuda") else "cpu")
    about |= {"wall_seconds": round(seconds, 1), "workers": options.workers, "failed": len(found.failures)}
    options.csv.with_suffix(".meta.json").write_text(json.dumps(about, indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--run", type=Path, help="keep every result here, and go on from there")
    parser.add_argument("--csv", type=Path, help="write one line per cell here, and metadata beside it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
