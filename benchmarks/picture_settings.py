"""What training settings are worth on pictures: the out-of-fold cost of five cross-fitted nets; no test row counts.

On splits that the paper's experiments do not use.

    PYTHONPATH=. python benchmarks/picture_settings.py --data pv-d --device cuda --workers 12 --csv settings.csv
    PYTHONPATH=. python benchmarks/picture_settings.py --rows 120 --epochs 1 --splits 10 --device cpu    # does it run?
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from harness import write_csv

from adacsl.torch.augmentation import Augment
from paper.engine import CellResult, Job, jobs_of, run_missing
from paper.figures import FACTORS
from paper.methods import MODERN_METHODS, PROFILES, Protocol
from paper.sources import find_source, find_weights, quick_task

SETTINGS: dict[str, dict[str, Any]] = {
    "flipped": {"augment": True},
    "flipped, four views": {"augment": True, "views": 4},
    "flipped and turned": {"augment": Augment(rotate=True)},
    "flipped and turned, four views": {"augment": Augment(rotate=True), "views": 4},
    "flipped and turned, 25 epochs": {"augment": Augment(rotate=True), "epochs": 25},
    "flipped, four views, enlarged to 96": {"augment": True, "views": 4, "image_size": 96},
    "flipped, four views, enlarged to 128": {"augment": True, "views": 4, "image_size": 128},
}
"""What differs from profile modern."""


def main() -> None:
    options = parse()
    source = find_source(options.data)
    task = source.load(None) if options.rows is None else quick_task(source, None, rows=options.rows)
    protocol = PROFILES["modern"].conditions(
        upright=source.upright, weights=find_weights(None, None), device=options.device
    )
    fewer = {} if options.epochs is None else {"epochs": options.epochs}
    settings = {name: replace(protocol, net={**protocol.net, **fewer, **SETTINGS[name]}) for name in options.settings}
    tasks = {name: replace(task, name=f"setting-{number}", groups=None) for number, name in enumerate(settings)}
    factors = {float(f"{task.costs.averaged().ratio * k:.6g}"): k for k in FACTORS}
    methods = {name: MODERN_METHODS[name] for name in options.methods}
    jobs = [
        job
        for split in options.splits
        for name, conditions in settings.items()
        for job in jobs_of(tasks[name], methods, list(factors), split, conditions)
    ]
    results = run_all(jobs, {t.name: t for t in tasks.values()}, settings, options.workers)
    names = {t.name: name for name, t in tasks.items()}
    table = [
        {"data": source.name, "setting": names[r.cell.data], "method": r.cell.method, "k": factors[r.cell.ratio],
         "split": r.cell.seed, "out_of_fold_cost": round(r.metrics["validation_cost"], 5),
         "seconds": round(r.seconds, 1)}
        for r in results
    ]  # fmt: skip
    if options.csv is not None:
        write_csv(table, options.csv, ("setting", "method", "k", "split"))
    frame = pd.DataFrame(table)
    by_k = frame.pivot_table(index=["setting", "method"], columns="k", values="out_of_fold_cost", sort=False)
    print(by_k.assign(all=by_k.mean(axis=1)).round(4).to_string())


def run_all(jobs: list[Job], tasks: dict[str, Any], settings: dict[str, Protocol], workers: int) -> list[CellResult]:
    """Run the jobs and return what came of each cell."""
    identity = {"settings": {name: protocol.identity() for name, protocol in settings.items()}}
    found: list[CellResult] = []
    with tempfile.TemporaryDirectory() as folder:
        run_missing(jobs, tasks, Path(folder) / "store", identity, workers=workers, seconds=None, take=found.append)
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="pv-d", help="one of the paper's data sets, in the folder ADACSL_DATA")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), metavar="NAME")
    parser.add_argument("--methods", nargs="+", choices=list(MODERN_METHODS), default=["ce-bayes-cv"], metavar="NAME")
    parser.add_argument("--splits", type=int, nargs="+", default=[10, 11, 12], help="results use splits 0 to 4")
    parser.add_argument("--epochs", type=int, help="instead of the profile's")
    parser.add_argument("--rows", type=int, help="this many pictures only")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--csv", type=Path, help="write one line per setting, method, k and split here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
