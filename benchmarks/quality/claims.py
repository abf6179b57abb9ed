"""What AdaCSL is worth on images: every claim with an interval, 2 x 5 folds by lesion (HAM10K) or by leaf (PV-D).

ResNet-18 (ImageNet weights), 64 x 64, 12 epochs; inverse priors, false negatives k times as costly. One net (its
cheapest epoch, its last) and five cross-fitted ones; less validation data, wrong labels, enlarged images. Decisions
about every test row are kept, so that intervals count lesions and fits, and other prevalences need no new networks.

    python -m benchmarks.quality.claims --out claims --processes 7                             # HAM10K, on a GPU
    python -m benchmarks.quality.claims --data plantvillage_64 --parts main --out claims_pv    # PV-D
    python -m benchmarks.quality.claims --limit 400 --epochs 1 --parts main --repeats 1 --processes 1 --device cpu --k 3
    python -m benchmarks.quality.claims --show benchmarks/results/claims
    python -m benchmarks.quality.claims_page benchmarks/results/claims.md                                    # the page
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import StratifiedGroupKFold

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.base.scores import to_probabilities
from adacsl.comparison.statistics import fold_interval
from adacsl.estimators.fit import fit_methods
from adacsl.fitting.rows import Rows
from adacsl.neural.learner import NeuralLearner
from adacsl.torch.augmentation import Augment
from benchmarks.harness import metadata
from benchmarks.image_data import ImageData, data_folder, load_images

WEIGHTED = {"loss": "weighted"}
ADAPTED = {"loss": "weighted", "controller": "auto"}
METHODS: dict[str, dict[str, Any]] = {
    "net": {"decide": "half"},
    "net-bayes": {},
    "net-tuned": {"decide": "tuned"},
    "net-calibrated": {"decide": "calibrated"},
    "net-weighted": WEIGHTED,
    "net-weighted-calibrated": {**WEIGHTED, "decide": "calibrated"},
    "adacsl": ADAPTED,
    "adacsl-calibrated": {**ADAPTED, "decide": "calibrated"},
    "adacsl-bayes": {**ADAPTED, "target": "bayes", "controller": {}},
}
TRAININGS = (("net", "net-bayes", "net-tuned", "net-calibrated"), ("net-weighted", "net-weighted-calibrated"),
             ("adacsl", "adacsl-calibrated"), ("adacsl-bayes",))  # fmt: skip
"""Methods that share their networks."""

ONE = {"one, best": {}, "one, last": {"select": "last"}}
FIVE = {"five, best": {"cv": 5}, "five, last": {"cv": 5, "select": "last"}}
PARTS = ("main", "crossed", "validation", "noise", "enlarged")
EVERY_PRICE = ("main", "crossed")
FOLDS = 5


class Work(NamedTuple):
    """One training and everybody who looks at it."""

    part: str
    setting: str
    repeat: int
    fold: int
    k: float
    methods: tuple[str, ...]


SHARED: dict[str, Any] = {}


def works(options: argparse.Namespace) -> Iterator[Work]:
    """Yield what is trained, what matters most first; plain networks serve every ratio."""
    splits = [(repeat, fold) for repeat in range(options.repeats) for fold in range(FOLDS)]
    plain, weighted, adapted, _ = TRAININGS
    for part in options.parts:
        ratios = costs_for(part, options.k)
        settings = {"validation": ["0.02", "0.05", "0.15"], "noise": ["0.1", "0.2"], "enlarged": ["128"]}
        trained = TRAININGS if part in EVERY_PRICE else (plain, weighted, adapted)
        for setting in settings.get(part, [""]):
            for repeat, fold in splits:
                for methods in (some for some in trained if some[0] not in options.leave_out):
                    for k in [0.0] if methods is plain else ratios:
                        yield Work(part, setting, repeat, fold, k, methods)


def costs_for(part: str, ks: list[float]) -> list[float]:
    """Return all k, or the middle one."""
    return ks if part in EVERY_PRICE else [ks[len(ks) // 2]]


def start_worker(options: argparse.Namespace) -> None:
    """Each process reads the images itself."""
    folder = data_folder()
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    warnings.simplefilter("ignore")
    data = load_images(folder / f"{options.data}.npz", options.limit)
    SHARED.update(data=data, weights=folder / "resnet18_imagenet_fp16.safetensors", options=options)


def folds_of(data: ImageData, repeat: int) -> list[Any]:
    """Return the folds of one repeat: groups together, positives spread evenly."""
    return list(
        StratifiedGroupKFold(FOLDS, shuffle=True, random_state=repeat).split(data.labels, data.labels, data.groups)
    )


def run(work: Work) -> list[dict[str, Any]]:
    """Train, and return the decisions of each method about the test samples."""
    data, options = SHARED["data"], SHARED["options"]
    rest, test = folds_of(data, work.repeat)[work.fold]
    seed = 10 * work.repeat + work.fold
    learned = data.labels.copy()
    if work.part == "noise":
        wrong = np.random.default_rng(seed).random(len(rest)) < float(work.setting)
        learned[rest[wrong]] = 1 - learned[rest[wrong]]
    # dermatoscopic images have no up or down: turn them too, and average the four flips when predicting
    size = int(work.setting) if work.part == "enlarged" else None
    net = NeuralLearner(
        epochs=options.epochs, augment=Augment(rotate=True), views=4, weights=SHARED["weights"], image_size=size
    )
    share = {"validation": float(work.setting)} if work.part == "validation" else {"validation": 0.2}
    asked = []
    for form, settings in (FIVE if work.part == "crossed" else ONE).items():
        for name in work.methods:
            for k in (
                [work.k] if work.k else (options.k if work.part in EVERY_PRICE else [options.k[len(options.k) // 2]])
            ):
                made = CostSensitiveClassifier(
                    learner=net, device=options.device, random_state=seed, **(share | settings | METHODS[name])
                )
                made.check_settings()
                asked.append((form, name, k, made, CostMatrix.balanced(data.labels, factor=k)))
    rows, start = Rows(data.images, learned, rest, groups=data.groups, images=True), time.perf_counter()
    result = []
    for number in fit_methods([(made, costs) for *_, made, costs in asked], rows, watch=test):
        form, name, k, made, costs = asked[number]
        decided = made.decision_.predict(to_probabilities(made.candidate_.watched))
        result.append(
            {"part": work.part, "setting": work.setting, "form": form, "method": name, "k": k,
             "repeat": work.repeat, "fold": work.fold, "cost": round(costs.mean(data.labels[test], decided), 6),
             "positive": decided}
        )  # fmt: skip
    for row in result:
        row["seconds"] = round((time.perf_counter() - start) / len(result), 1)
    return result


# what is kept: a line for each fit, and one bit for each test row of each repeat


class Decisions:
    """Decisions about all samples, by part, setting, form, method, k and repeat; and the samples themselves."""

    def __init__(self, labels: Any, groups: Any, folds: Any, bits: dict[str, Any]) -> None:
        self.labels, self.groups, self.folds, self.bits = labels, groups, folds, bits

    @staticmethod
    def key(row: dict[str, Any]) -> str:
        """Return under which name decisions are kept."""
        return "|".join(str(row[name]) for name in ("part", "setting", "form", "method", "k", "repeat"))

    def put(self, row: dict[str, Any]) -> None:
        """Keep the decisions of one fit."""
        whole = self.bits.setdefault(self.key(row), np.full(len(self.labels), 255, np.uint8))
        whole[self.folds[row["repeat"]] == row["fold"]] = row["positive"]

    def save(self, path: Path) -> None:
        """Write everything into one archive."""
        np.savez_compressed(path, labels=self.labels, groups=self.groups, folds=self.folds, **self.bits)

    @classmethod
    def load(cls, path: Path) -> Decisions:
        """Read what :meth:`save` wrote."""
        with np.load(path) as file:
            held = {name: file[name] for name in file.files}
        return cls(held.pop("labels"), held.pop("groups"), held.pop("folds"), held)

    def costs(self, part: str, setting: str, form: str, method: str, k: float) -> Any:
        """Return what each sample has cost, repeats x samples; None where a fit is missing."""
        costs = CostMatrix.balanced(self.labels, factor=k)
        all_of = []
        for repeat in range(len(self.folds)):
            decided = self.bits.get(f"{part}|{setting}|{form}|{method}|{k}|{repeat}")
            if decided is None or (decided == 255).any():
                return None
            all_of.append(costs.incurred(self.labels, decided))
        return np.stack(all_of)


# what it says


PAIRS = (
    ("adacsl", "net-weighted"), ("adacsl", "net-bayes"), ("adacsl", "net-calibrated"), ("adacsl", "net-tuned"),
    ("adacsl-calibrated", "net-calibrated"), ("adacsl-bayes", "net-bayes"), ("net-weighted", "net-bayes"),
    ("net-weighted-calibrated", "net-calibrated"), ("adacsl", "net-weighted-calibrated"),
)  # fmt: skip


def extra_percent(held: Decisions, ours: Any, theirs: Any, prevalence: float = 1.0) -> tuple[float, float, float]:
    """Return by how many percent costs (repeats x rows) are above others, with the interval over groups and fits."""
    weight = np.where(held.labels == 1, prevalence, 1.0)
    base = float((theirs * weight).sum() / (weight.sum() * len(theirs)))
    fits = held.folds + FOLDS * np.arange(len(held.folds))[:, None]
    units, weights = np.tile(held.groups, len(fits)), np.tile(weight, len(fits))
    mean, low, high = fold_interval((ours - theirs).ravel(), fits.ravel(), units, weight=weights)
    return 100 * mean / base, 100 * low / base, 100 * high / base


def differences(held: Decisions, ks: list[float], prevalence: float = 1.0) -> pd.DataFrame:
    """Return how much more one method costs than another, in percent; positives count ``prevalence`` times."""
    rows = []
    kinds = sorted({tuple(key.split("|")[:3]) for key in held.bits})
    for part, setting, form in kinds:
        for ours, theirs in PAIRS:
            for k in ks:
                a, b = (held.costs(part, setting, form, name, k) for name in (ours, theirs))
                if a is None or b is None:
                    continue
                mean, low, high = extra_percent(held, a, b, prevalence)
                rows.append({"part": part, "setting": setting, "form": form, "k": k, "ours": ours, "against": theirs,
                             "prevalence": prevalence, "percent": mean, "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows)


def means(held: Decisions, ks: list[float]) -> pd.DataFrame:
    """Return the mean cost per sample of every form and method."""
    rows = []
    for part, setting, form, method in sorted({tuple(key.split("|")[:4]) for key in held.bits}):
        own = {k: held.costs(part, setting, form, method, k) for k in ks}
        rows.append({"part": part, "setting": setting, "form": form, "method": method}
                    | {f"k={k:g}": math.nan if c is None else float(c.mean()) for k, c in own.items()})  # fmt: skip
    return pd.DataFrame(rows)


def show(path: Path, ks: list[float]) -> None:
    held = Decisions.load(path.with_suffix(".npz"))
    print(means(held, ks).round(4).to_string(index=False), "\n")
    result = pd.concat([differences(held, ks, prevalence) for prevalence in (1.0, 3.0, 1 / 3)], ignore_index=True)
    result.to_csv(path.with_name(f"{path.name}_differences.csv"), index=False, float_format="%.3f")
    print("in percent of the cost of the other method (below 0: cheaper), 95 % intervals over lesions and fits")
    print(result[result.prevalence == 1.0].round(1).to_string(index=False))


def main() -> None:
    options = parse()
    if options.show is not None:
        show(options.show, options.k)
        return
    start, lines = time.perf_counter(), []
    data = load_images(data_folder() / f"{options.data}.npz", options.limit)
    folds = np.zeros((options.repeats, len(data.labels)), np.int64)
    for repeat in range(options.repeats):
        for number, (_, test) in enumerate(folds_of(data, repeat)):
            folds[repeat, test] = number
    held = Decisions(data.labels, data.groups, folds, {})
    with torch.multiprocessing.get_context("spawn").Pool(options.processes, start_worker, (options,)) as pool:
        for part in pool.imap_unordered(run, list(works(options)), chunksize=1):
            for row in part:
                held.put(row)
                lines.append({name: value for name, value in row.items() if name != "positive"})
            if len(lines) % 20 < len(part):  # nothing finished is lost
                pd.DataFrame(lines).to_csv(options.out.with_suffix(".csv"), index=False)
                held.save(options.out.with_suffix(".npz"))
            print(f"{len(lines)} lines, {time.perf_counter() - start:.0f} s", flush=True)
    pd.DataFrame(lines).to_csv(options.out.with_suffix(".csv"), index=False)
    held.save(options.out.with_suffix(".npz"))
    about = metadata(options.device) | {"wall_seconds": round(time.perf_counter() - start, 1)}
    options.out.with_suffix(".meta.json").write_text(json.dumps(about, indent=2) + "\n")
    show(options.out, options.k)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ham10000_64", choices=("ham10000_64", "plantvillage_64"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--k", type=float, nargs="+", default=[1.0, 3.0, 5.0])
    parser.add_argument("--leave-out", nargs="*", default=[], help="trainings, by their first method")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("claims"))
    parser.add_argument("--show", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
