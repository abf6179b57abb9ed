"""The full comparison: every built-in table, three cost ratios, 2 x 5 folds, all methods; and how long it takes.

The same as ``adacsl compare TABLES --ratios 1x 3x 5x --all``, but that large tables are cut (``--max-rows``, a random
part with the same share of positives; card fraud, whose positives are rare, to five times as many) and that methods
that take long are left to the small ones (``--small-only``). The first repeat is written before the second begins.
Beside NAME.csv, one line per cell, lie NAME.meta.json and NAME.npz: the decisions about every sample, from which
benchmarks/quality/recommendation_regret.py makes its intervals.

    python -m benchmarks.quality.suite --device cuda --n-jobs 14 --csv benchmarks/results/suite.csv  # on a GPU machine
    python -m benchmarks.quality.suite --tables german-credit telco-churn --repeats 1 --folds 2 --methods logistic
    net-weighted
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
import time
from pathlib import Path

import pandas as pd
from sklearn.model_selection import train_test_split

from adacsl.comparison.compare import compare_tasks
from adacsl.comparison.result import Comparison
from adacsl.datasets import DATASETS, Task, load_dataset
from adacsl.estimators.registry import choose_methods
from adacsl.learners.boosting_libraries import installed_library
from benchmarks.harness import metadata
from benchmarks.image_data import data_folder
from benchmarks.quality.suite_rows import save_rows

SMALL = 10_000
"""Rows: up to so many a table is small, and not cut."""
TABLES = [
    name
    for name, about in DATASETS.items()
    if about.kind == "table" and len(about.classes) == 2 and name != "breast-cancer"
]
LARGE = [name for name in TABLES if DATASETS[name].rows > SMALL]
RARE = "creditcard-fraud"
COLUMNS = [
    "data", "ratio", "method", "seed", "cost", "normalized_cost", "accuracy", "validation_cost", "n_train", "n_test",
    "seconds",
]  # fmt: skip
"""What benchmarks/publish.py and benchmarks/quality/recommendation_regret.py read, and a little more."""


def main() -> None:
    options = parse()
    tasks = [cut(load_dataset(name, folder=data_folder()), options.max_rows) for name in options.tables]
    with tempfile.TemporaryDirectory() as scratch:
        folder, start = options.run or Path(scratch), time.perf_counter()
        for repeats in range(1, options.repeats + 1):
            result = compared(tasks, repeats, folder, options)
            seconds = time.perf_counter() - start
            show(result, seconds)
            if options.csv is not None:
                write(result, seconds, repeats, options)


def cut(task: Task, most: int) -> Task:
    """Return a random part of a table that is too large."""
    most *= 5 if task.name == RARE else 1
    if task.name not in LARGE or len(task.y) <= most:
        return task
    kept, _ = train_test_split(range(len(task.y)), train_size=most, stratify=task.y, random_state=0)
    return task.rows(sorted(kept))


def compared(tasks: list[Task], repeats: int, folder: Path, options: argparse.Namespace) -> list[Comparison]:
    """Run what the folder lacks: small tables with all methods, large ones with those that do not take long."""
    every = options.methods or [name for name in choose_methods("all") if name != installed_library()]
    every = [name for name in every if name not in options.without]
    quick = [name for name in every if name not in options.small_only]
    # the long ones first, so that no worker waits for the last
    tasks = sorted(tasks, key=lambda task: -len(task.y))
    result = []
    for kind, some, methods in (
        ("large", [task for task in tasks if task.name in LARGE], quick),
        ("small", [task for task in tasks if task.name not in LARGE], every),
    ):
        if some and methods:
            result.append(compare_tasks(
                some, ratios=["1x", "3x", "5x"], repeats=repeats, folds=options.folds, methods=methods,
                folder=folder / kind, n_jobs=options.n_jobs, device=options.device,
            ))  # fmt: skip
    return result


def show(result: list[Comparison], seconds: float) -> None:
    results = pd.concat([one.results for one in result])
    means = results.groupby(["data", "method"])["normalized_cost"].mean().unstack("data")
    print(f"{datetime.date.today()}: normalised cost, means over ratios and splits")
    print(means.assign(rank=means.rank().mean(axis=1)).sort_values("rank").round(3).to_string())
    print("seconds of training by table:", results.groupby("data")["seconds"].sum().round(0).to_dict())
    print("seconds of training by method:", results.groupby("method")["seconds"].sum().round(0).to_dict())
    failed = pd.concat([one.failures for one in result])
    print(f"{len(results)} cells, {len(failed)} failed, in {seconds:.0f} s", flush=True)
    if len(failed):
        print(failed.drop_duplicates("message").to_string(max_colwidth=100))


def write(result: list[Comparison], seconds: float, repeats: int, options: argparse.Namespace) -> None:
    results = pd.concat([one.results for one in result])
    results[COLUMNS].sort_values(COLUMNS[:4]).round(5).to_csv(options.csv, index=False)
    save_rows(result, options.csv.with_suffix(".npz"), options.folds)
    about = metadata("cuda" if options.device.startswith("cuda") else "cpu")
    about |= {
        "wall_seconds": round(seconds, 1), "n_jobs": options.n_jobs, "repeats": repeats, "folds": options.folds,
        "failed": sum(len(one.failures) for one in result), "note": note(result, options),
    }  # fmt: skip
    options.csv.with_suffix(".meta.json").write_text(json.dumps(about, indent=2) + "\n")


def note(result: list[Comparison], options: argparse.Namespace) -> str:
    """Say what was cut or left out."""
    most = options.max_rows
    parts = [f"tables of more than {SMALL:,} rows cut to {most:,}, {RARE} to {5 * most:,}, at random and stratified"]
    large = {name for one in result for name in one.facts["data"] if name in LARGE}
    if large and options.small_only:
        parts.append(f"{' and '.join(options.small_only)} only on tables up to {SMALL:,} rows")
    parts += [f"gbm-* are {installed_library()}"] if installed_library() else []
    return "; ".join([*parts, *([f"without {', '.join(options.without)}"] if options.without else [])])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--methods", nargs="+", help="default: all, but the booster that gbm-bayes is anyway")
    parser.add_argument("--without", nargs="+", default=[], help="methods to leave out")
    parser.add_argument(
        "--small-only", nargs="*", default=["ensemble", "metacost", "gbm-bayes-cv"], help="left to the small tables"
    )
    parser.add_argument("--max-rows", type=int, default=12_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--run", type=Path, help="keep every result here, and go on from there")
    parser.add_argument("--csv", type=Path, help="write one line per cell here, metadata and decisions beside it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
