"""HAM10K's seven diagnoses, split by lesion, under three cost matrices: AdaCSL of K classes against CE + Bayes.

ResNet-18 (ImageNet weights), 64 x 64, 12 epochs, 20 % of the lesions for the test; cost relative to the best constant
decision. Each method as one net (its cheapest epoch, its last) and as five cross-fitted networks; trainings that
several matrices or ways to decide share happen once.

    python -m benchmarks.quality.ham7 --out ham7.csv --decisions ham7.npz --processes 6      # on a GPU
    python -m benchmarks.quality.ham7 --limit 400 --epochs 1 --splits 0 --processes 1 --device cpu   # does it run?
    python -m benchmarks.quality.ham7 --show benchmarks/results/ham7.csv
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.base.scores import to_probabilities
from adacsl.estimators.fit import fit_methods
from adacsl.fitting.rows import Rows
from adacsl.neural.learner import NeuralLearner
from adacsl.torch.augmentation import Augment
from benchmarks.harness import metadata
from benchmarks.image_data import cut, data_folder, load_images
from benchmarks.quality.ham7_matrices import ham7_matrices

ADAPTED = {"loss": "weighted", "target": "bayes"}
METHODS: dict[str, dict[str, Any]] = {
    "net-argmax": {"decide": "half"},
    "net-bayes": {},
    "net-calibrated": {"decide": "calibrated"},
    "net-tuned": {"decide": "tuned"},
    "net-weighted": {"loss": "weighted", "target": "half"},
    "adacsl": {**ADAPTED, "controller": {"damping": 0.5}},
    "adacsl-cautious": {**ADAPTED, "controller": {"damping": 0.5, "n_standard_errors": 1.0}},
    "adacsl-middle": {"loss": "weighted", "target": "middle", "controller": {"damping": 0.5}},
}
FORMS: dict[str, dict[str, Any]] = {
    "one net, best epoch": {"validation": 0.2},
    "one net, last epoch": {"validation": 0.2, "select": "last"},
    "five cross-fitted": {"cv": 5},
}
MATRICES = ("medical", "balanced", "random")
BARS = {"medical": 0.445, "balanced": 0.325, "random": 0.270}
PLAIN = tuple(name for name, settings in METHODS.items() if "loss" not in settings)

SHARED: dict[str, Any] = {}


def start_worker(folder: Path, options: argparse.Namespace) -> None:
    """Each process reads the images itself."""
    data = load_images(folder / "ham10000_64.npz", options.limit, multi=True)
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    warnings.simplefilter("ignore")
    SHARED.update(data=data, weights=folder / "resnet18_imagenet_fp16.safetensors", options=options)


def run_task(task: tuple[int, tuple[str, ...], tuple[str, ...], tuple[str, ...]]) -> list[dict[str, Any]]:
    """Fit some methods of some forms under some matrices on one split; return a row and the decisions of each."""
    split, names, forms, matrices = task
    data, options = SHARED["data"], SHARED["options"]
    rest, test = cut(data.groups, [0.8, 0.2], seed=split)
    # dermatoscopic images have no up or down: turn them too, and average the four flips when predicting
    net = NeuralLearner(epochs=options.epochs, augment=Augment(rotate=True), views=4, weights=SHARED["weights"])
    by_name = ham7_matrices(data.labels[rest])
    asked = []
    for form in forms:
        for name in names:
            for matrix in matrices:
                settings = FORMS[form] | METHODS[name]
                made = CostSensitiveClassifier(learner=net, device=options.device, random_state=split, **settings)
                made.check_settings()
                asked.append((form, name, matrix, made, by_name[matrix]))
    rows = Rows(data.images, data.labels, rest, groups=data.groups, images=True, n_classes=7)
    start, result = time.perf_counter(), []
    for number in fit_methods([(made, costs) for *_, made, costs in asked], rows, watch=test):
        form, name, matrix, made, costs = asked[number]
        decided = made.decision_.predict(to_probabilities(made.candidate_.watched))
        result.append(
            {"split": split, "form": form, "method": name, "matrix": matrix} | judged(costs, data, test, decided)
        )
    for row in result:
        row["seconds"] = round((time.perf_counter() - start) / len(result), 1)
    return result


def judged(costs: CostMatrix, data: Any, test: Any, decided: Any) -> dict[str, Any]:
    truth = data.labels[test]
    return {
        "relative_cost": round(costs.normalized(truth, decided), 5), "cost": costs.mean(truth, decided),
        "accuracy": round(float(np.mean(decided == truth)), 4), "n_train": len(data.labels) - len(test),
        "n_test": len(test), "decided": decided.astype(np.uint8),
    }  # fmt: skip


def tasks(options: argparse.Namespace) -> list[Any]:
    """Return what is trained apart and is not there yet; what matters most comes first."""
    plain = tuple(name for name in options.methods if name in PLAIN)
    adapted = [(name,) for name in options.methods if name not in PLAIN]
    single, crossed = tuple(f for f in FORMS if f.startswith("one")), ("five cross-fitted",)
    made: list[Any] = []
    for names in ([plain] if plain else []) + adapted:
        groups = [MATRICES] if names == plain else [(matrix,) for matrix in MATRICES]
        made += [
            (split, names, forms, group)
            for forms in (crossed, single) for split in options.splits for group in groups
        ]  # fmt: skip
    if options.have is None:
        return made
    have = set(map(tuple, pd.read_csv(options.have)[["split", "form", "method", "matrix"]].to_numpy().tolist()))
    return [
        task for task in made
        if not all((task[0], f, m, c) in have for m in task[1] for f in task[2] for c in task[3])
    ]  # fmt: skip


# what is shown


def table(result: pd.DataFrame) -> pd.DataFrame:
    """Return the mean relative cost of each form and method under each matrix."""
    means = result.pivot_table(index=["form", "method"], columns="matrix", values="relative_cost", sort=False)
    return means[[name for name in BARS if name in means]]


def differences(result: pd.DataFrame, against: str = "net-bayes") -> pd.DataFrame:
    """Return how much more each method costs than another, in percent, with the 95 % interval over the splits.

    Test rows of two splits may be the same: the variance is the corrected one of Nadeau and Bengio (2003).
    """
    rows = []
    for (form, matrix), part in result.groupby(["form", "matrix"], sort=False):
        costs = part.pivot(index="split", columns="method", values="cost")
        share = part["n_test"].mean() / part["n_train"].mean()
        for name in costs.columns.drop(against):
            pairs = costs[[name, against]].dropna()
            d, base, j = pairs[name] - pairs[against], pairs[against].mean(), len(pairs)
            half = stats.t.ppf(0.975, j - 1) * np.sqrt((1 / j + share) * d.var()) if j > 1 else np.nan
            low, high = (d.mean() - half) / base, (d.mean() + half) / base
            rows.append(
                {"form": form, "matrix": matrix, "method": name, "splits": j, "percent": 100 * d.mean() / base,
                 "low": 100 * low, "high": 100 * high}
            )  # fmt: skip
    return pd.DataFrame(rows)


def show(result: pd.DataFrame) -> None:
    print(table(result).round(3).to_string(), "\n")
    print("against net-bayes, in percent of its cost (below 0: cheaper)")
    print(differences(result).round(1).to_string(index=False))


def main() -> None:
    options = parse()
    if options.show is not None:
        show(pd.read_csv(options.show))
        return
    todo, rows, decided = tasks(options), [], {}
    start = time.perf_counter()
    with torch.multiprocessing.get_context("spawn").Pool(
        options.processes, start_worker, (data_folder(), options)
    ) as pool:
        for part in pool.imap_unordered(run_task, todo, chunksize=1):
            for row in part:
                key = "|".join(str(row[name]) for name in ("split", "form", "method", "matrix"))
                decided[key] = row.pop("decided")
                rows.append(row)
            if options.out is not None:  # nothing finished is lost
                pd.DataFrame(rows).to_csv(options.out, index=False)
            if options.decisions is not None:
                np.savez_compressed(options.decisions, **decided)
            print(f"{len(rows)} rows, {time.perf_counter() - start:.0f} s", flush=True)
    result = pd.DataFrame(rows)
    if options.out is not None:
        about = metadata(options.device) | {"wall_seconds": round(time.perf_counter() - start, 1)}
        options.out.with_suffix(".meta.json").write_text(json.dumps(about, indent=2) + "\n")
    show(result)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--have", type=Path, help="rows of an earlier run: they are not run again")
    parser.add_argument("--decisions", type=Path)
    parser.add_argument("--show", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
