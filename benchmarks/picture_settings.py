"""What training settings are worth on pictures: the out-of-fold cost of five cross-fitted nets; no test row counts.

On splits that the paper's experiments do not use.

    PYTHONPATH=. python benchmarks/picture_settings.py --data pv-d --device cuda --workers 12 --csv settings.csv
    PYTHONPATH=. python benchmarks/picture_settings.py --rows 120 --epochs 1 --splits 10 --device cpu    # does it run?
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from harness import write_csv

from adacsl import Method
from adacsl.experiments.comparing import compare_tasks
from adacsl.torch.augment import Augment
from paper.figures import FACTORS
from paper.sources import find_source, find_weights, quick_task

MODERN = {"epochs": 15, "batch_size": 128, "lr": 4e-4, "weight_decay": 0.05, "optimizer": "adamw", "image_size": 64}
"""The nets of the paper's profile modern."""
TURNED = {"augment": Augment(rotate=True)}
SETTINGS: dict[str, dict[str, Any]] = {
    "flipped": {},
    "flipped, four views": {"views": 4},
    "flipped and turned": TURNED,
    "flipped and turned, four views": TURNED | {"views": 4},
    "flipped and turned, 25 epochs": TURNED | {"epochs": 25},
    "flipped, four views, enlarged to 96": {"views": 4, "image_size": 96},
    "flipped, four views, enlarged to 128": {"views": 4, "image_size": 128},
}
"""What differs from that."""
METHODS = {
    "ce-bayes-cv": Method(cv=5),
    "wce-cv": Method(loss="weighted", cv=5),
    "adacsl-cv": Method(loss="weighted", controller="auto", cv=5),
}


def main() -> None:
    options = parse()
    source = find_source(options.data)
    task = source.load(None) if options.rows is None else quick_task(source, None, rows=options.rows)
    task = replace(task, groups=None)
    factors = {float(f"{task.costs.averaged().ratio * k:.6g}"): k for k in FACTORS}
    few = {} if options.epochs is None else {"epochs": options.epochs}
    table: list[dict[str, Any]] = []
    for name in options.settings:
        found = compare_tasks(
            task, methods=[(method, METHODS[method]) for method in options.methods], ratios=list(factors),
            seeds=options.splits, net=MODERN | SETTINGS[name] | few | {"weights": find_weights(None, None)},
            device=options.device, workers=options.workers,
        )  # fmt: skip
        table += [
            {"data": source.name, "setting": name, "method": row.method, "k": factors[row.ratio], "split": row.seed,
             "out_of_fold_cost": round(row.validation_cost, 5), "seconds": round(row.seconds, 1)}
            for row in found.results.itertuples()
        ]  # fmt: skip
        if options.csv is not None:
            write_csv(table, options.csv, ("setting", "method", "k", "split"))
    frame = pd.DataFrame(table)
    by_k = frame.pivot_table(index=["setting", "method"], columns="k", values="out_of_fold_cost", sort=False)
    print(by_k.assign(all=by_k.mean(axis=1)).round(4).to_string())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="pv-d", help="one of the paper's data sets, in the folder ADACSL_DATA")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), metavar="NAME")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=["ce-bayes-cv"])
    parser.add_argument("--splits", type=int, nargs="+", default=[10, 11, 12], help="results use splits 0 to 4")
    parser.add_argument("--epochs", type=int, help="instead of the profile's")
    parser.add_argument("--rows", type=int, help="this many pictures only")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--csv", type=Path, help="write one line per setting, method, k and split here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
