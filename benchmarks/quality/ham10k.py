"""AdaCSLClassifier on HAM10K (64 x 64, pretrained ResNet-18): the normalised test cost of one net and of cv=5.

Random or lesion-wise 65 / 15 / 20 splits, costs = inverse priors, a false negative k = 1, 3, 5 times as costly, as in
the paper.

    python -m benchmarks.quality.ham10k --out cells.csv                      # random splits, as the paper's
    python -m benchmarks.quality.ham10k --by-group --out cells.csv           # no lesion on both sides
    python -m benchmarks.quality.ham10k --limit 300 --set net__epochs=1 --splits 0 --k 1 --processes 1  # does it run?
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.neural import NeuralLearner
from adacsl.torch.augmentation import Augment
from benchmarks.harness import write_csv
from benchmarks.image_data import ImageData, cut, data_folder, load_images

CROSS_FIT = {1: 0.31, 3: 0.48, 5: 0.56}
BARS = {"single": {1: 0.36, 3: 0.53, 5: 0.61}, "cv=5": CROSS_FIT, "cv=5 auto": CROSS_FIT}


@dataclass(frozen=True)
class Cell:
    """One classifier: which costs, which split, one net or five folds."""

    mode: str
    k: float
    split: int
    by_group: bool
    device: str
    changes: dict[str, Any]


SHARED: dict[str, Any] = {}


def start_worker(folder: Path, limit: int | None) -> None:
    """Each process reads the images itself: handed over, they would come to one process after the other."""
    data, weights = load_images(folder / "ham10000_64.npz", limit), folder / "resnet18_imagenet_fp16.safetensors"
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    warnings.simplefilter("ignore")
    SHARED.update(data=data, weights=weights)


def run_cell(cell: Cell) -> dict[str, Any]:
    """Fit on everything but the test samples and return the test costs."""
    data: ImageData = SHARED["data"]
    units = data.groups if cell.by_group else np.arange(data.labels.size)
    rows, watch, test = cut(units, [0.65, 0.15, 0.20], seed=cell.split)
    rest = np.concatenate((rows, watch))
    costs = CostMatrix.balanced(data.labels, factor=cell.k)
    # dermatoscopic images have no up or down: turn them too, and average the four flips when predicting
    net = {"augment": Augment(rotate=True), "views": 4, "weights": SHARED["weights"]}
    clf = AdaCSLClassifier(costs, learner=NeuralLearner(**net), device=cell.device, random_state=cell.split).set_params(
        **cell.changes
    )
    start = time.perf_counter()
    if cell.mode == "single":
        clf.set_params(validation=(data.images[watch], data.labels[watch])).fit(data.images[rows], data.labels[rows])
    else:
        groups = data.groups[rest] if cell.by_group else None
        clf.set_params(cv=5)
        if cell.mode == "cv=5 auto":
            clf.set_params(target_threshold="auto")  # when it was measured, without the candidate that does not adapt
        clf.fit(data.images[rest], data.labels[rest], groups=groups)
    seconds = time.perf_counter() - start
    truth = data.labels[test]
    decided = clf.decision_scores(data.images[test]) > clf.threshold_
    return {
        "split_by": "lesion" if cell.by_group else "image",
        "mode": cell.mode,
        "k": cell.k,
        "split": cell.split,
        "relative_cost": round(costs.normalized(truth, decided), 5),
        "accuracy": round(float(np.mean(decided == truth)), 5),
        # the paper's normalised cost: with inverse priors, calling everything positive costs 1 per row
        "mean_test_cost": round(costs.mean(truth, decided), 5),
        "target": round(clf.target_threshold_, 4),
        "estimated_cost": round(clf.estimated_cost_.estimate, 5),
        "calibration_error": round(clf.calibration_error_, 5),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    options = parse()
    folder = data_folder()
    # the long ones first, so that no process waits for the last
    changes = {name: json.loads(value) for name, value in (change.split("=", 1) for change in options.set)}
    cells = [
        Cell(mode, k, split, options.by_group, options.device, changes)
        for mode in ("cv=5 auto", "cv=5", "single")
        if mode in options.modes
        for split in options.splits
        for k in options.k
    ]
    start = time.perf_counter()
    if options.processes == 1:
        start_worker(folder, options.limit)
        results = collect(map(run_cell, cells), options.out)
    else:
        workers = (options.processes, start_worker, (folder, options.limit))
        with torch.multiprocessing.get_context("spawn").Pool(*workers) as pool:
            results = collect(pool.imap_unordered(run_cell, cells, chunksize=1), options.out)
    print(f"{len(cells)} classifiers in {time.perf_counter() - start:.0f} s, {options.processes} at a time")
    show(results)


def collect(results: Iterable[dict[str, Any]], path: Path | None) -> list[dict[str, Any]]:
    """Take results as they come and write all there are each time: nothing finished is lost."""
    done: list[dict[str, Any]] = []
    for result in results:
        done.append(result)
        print(result)
        if path is not None:
            write_csv(done, path, ("mode", "k", "split"))
    return done


def show(results: list[dict[str, Any]]) -> None:
    print(f"{datetime.date.today()}, {device_name()}, torch {torch.__version__}: mean (sd) over the splits")
    for mode in dict.fromkeys(r["mode"] for r in results):
        for k in sorted({r["k"] for r in results}):
            costs = [r["mean_test_cost"] for r in results if r["mode"] == mode and r["k"] == k]
            spread = statistics.stdev(costs) if len(costs) > 1 else float("nan")
            bar = BARS[mode].get(int(k))
            print(f"{mode:8s} k={k:g}  {statistics.mean(costs):.3f} ({spread:.3f})  n={len(costs)}  bar {bar}")


def device_name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    # the settings were chosen on splits 0 and 1
    parser.add_argument(
        "--splits", type=int, nargs="+", default=[10, 11, 12, 13, 14, 15], help="numbers (seeds) of the splits"
    )
    parser.add_argument("--k", type=float, nargs="+", default=[1, 3, 5])
    parser.add_argument("--modes", nargs="+", choices=list(BARS), default=["single", "cv=5"])
    parser.add_argument("--by-group", action="store_true", help="split by lesion instead of by image")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=JSON", help="other settings, as net__epochs=30")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=int, help="this many images only")
    parser.add_argument("--out", type=Path, help="write one line per classifier here, as CSV")
    return parser.parse_args()


if __name__ == "__main__":
    main()
