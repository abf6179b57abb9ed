"""What AdaCSL is worth on images: every claim with an interval, 2 x 5 folds by lesion (HAM10K) or by leaf (PV-D).

ResNet-18 (ImageNet weights), 64 x 64, 12 epochs; inverse priors with misses k times dearer. One net (its cheapest
epoch, its last) and five cross-fitted ones; less validation data, wrong labels, enlarged pictures. Decisions about
every test row are kept, so that intervals count lesions and fits, and other prevalences need no new nets.

    python benchmarks/claims.py --out claims --processes 7                             # HAM10K, on a GPU
    python benchmarks/claims.py --data plantvillage_64 --parts main --out claims_pv    # PV-D
    python benchmarks/claims.py --limit 400 --epochs 1 --parts main --repeats 1 --processes 1 --device cpu --k 3
    python benchmarks/claims.py --show benchmarks/results/claims
    python benchmarks/claims.py --page docs/claims.md
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
from _data import ImageData, data_folder, load_images
from harness import metadata
from sklearn.model_selection import StratifiedGroupKFold

from adacsl import CostMatrix, Method
from adacsl.core.scores import to_probabilities
from adacsl.estimators.fitting import fit_methods
from adacsl.estimators.learners.net import Net
from adacsl.estimators.rows import Rows
from adacsl.experiments.statistics.folds import fold_interval
from adacsl.torch.augment import Augment

WEIGHTED = {"loss": "weighted"}
ADAPTED = {"loss": "weighted", "controller": "auto"}
METHODS: dict[str, dict[str, Any]] = {
    "ce": {"decide": "half"},
    "ce-bayes": {},
    "ce-tuned": {"decide": "tuned"},
    "ce-calibrated": {"decide": "calibrated"},
    "wce": WEIGHTED,
    "wce-calibrated": {**WEIGHTED, "decide": "calibrated"},
    "adacsl": ADAPTED,
    "adacsl-calibrated": {**ADAPTED, "decide": "calibrated"},
    "adacsl-bayes": {**ADAPTED, "target": "bayes", "controller": {}},
}
TRAININGS = (("ce", "ce-bayes", "ce-tuned", "ce-calibrated"), ("wce", "wce-calibrated"),
             ("adacsl", "adacsl-calibrated"), ("adacsl-bayes",))  # fmt: skip
"""Methods that share their nets."""

ONE = {"one, best": {}, "one, last": {"select": "last"}}
FIVE = {"five, best": {"cv": 5}, "five, last": {"cv": 5, "select": "last"}}
PARTS = ("main", "crossed", "validation", "noise", "enlarged")
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
    """Yield what is trained, what matters most first; plain nets serve every price."""
    splits = [(repeat, fold) for repeat in range(options.repeats) for fold in range(FOLDS)]
    middle = options.k[len(options.k) // 2]
    plain, weighted, adapted, _ = TRAININGS
    for part in options.parts:
        prices = options.k if part == "main" else [middle]
        settings = {"validation": ["0.02", "0.05", "0.15"], "noise": ["0.1", "0.2"], "enlarged": ["128"]}
        trained = TRAININGS if part in ("main", "crossed") else (plain, weighted, adapted)
        for setting in settings.get(part, [""]):
            for repeat, fold in splits:
                for methods in trained:
                    for k in [0.0] if methods is plain else prices:
                        yield Work(part, setting, repeat, fold, k, methods)


def start_worker(options: argparse.Namespace) -> None:
    """Each process reads the pictures itself."""
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
    """Train, and return the decisions of each method about the test rows."""
    data, options = SHARED["data"], SHARED["options"]
    rest, test = folds_of(data, work.repeat)[work.fold]
    seed = 10 * work.repeat + work.fold
    learned = data.labels.copy()
    if work.part == "noise":
        wrong = np.random.default_rng(seed).random(len(rest)) < float(work.setting)
        learned[rest[wrong]] = 1 - learned[rest[wrong]]
    # dermatoscopic pictures have no up or down: turn them too, and average the four flips when predicting
    size = int(work.setting) if work.part == "enlarged" else None
    net = Net(epochs=options.epochs, augment=Augment(rotate=True), views=4, weights=SHARED["weights"], image_size=size)
    share = {"validation": float(work.setting)} if work.part == "validation" else {"validation": 0.2}
    asked = []
    for form, settings in (FIVE if work.part == "crossed" else ONE).items():
        for name in work.methods:
            for k in [work.k] if work.k else (options.k if work.part == "main" else [options.k[len(options.k) // 2]]):
                made = Method(
                    learner=net, device=options.device, random_state=seed, **(share | settings | METHODS[name])
                )
                made.check_settings()
                asked.append((form, name, k, made, CostMatrix.balanced(data.labels, factor=k)))
    rows, start = Rows(data.images, learned, rest, groups=data.groups, images=True), time.perf_counter()
    found = []
    for number in fit_methods([(made, costs) for *_, made, costs in asked], rows, watch=test):
        form, name, k, made, costs = asked[number]
        decided = made.decision_.predict(to_probabilities(made.candidate_.watched))
        found.append(
            {"part": work.part, "setting": work.setting, "form": form, "method": name, "k": k,
             "repeat": work.repeat, "fold": work.fold, "cost": round(costs.mean(data.labels[test], decided), 6),
             "positive": decided}
        )  # fmt: skip
    for row in found:
        row["seconds"] = round((time.perf_counter() - start) / len(found), 1)
    return found


# what is kept: a line for each fit, and one bit for each test row of each repeat


class Decisions:
    """Decisions about all rows, by part, setting, form, method, price and repeat; and the rows themselves."""

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
        """Return what each row has cost, repeats x rows; None where a fit is missing."""
        price = CostMatrix.balanced(self.labels, factor=k)
        all_of = []
        for repeat in range(len(self.folds)):
            decided = self.bits.get(f"{part}|{setting}|{form}|{method}|{k}|{repeat}")
            if decided is None or (decided == 255).any():
                return None
            all_of.append(price.incurred(self.labels, decided))
        return np.stack(all_of)


# what it says


PAIRS = (
    ("adacsl", "wce"), ("adacsl", "ce-bayes"), ("adacsl", "ce-calibrated"), ("adacsl", "ce-tuned"),
    ("adacsl-calibrated", "ce-calibrated"), ("adacsl-bayes", "ce-bayes"), ("wce", "ce-bayes"),
    ("wce-calibrated", "ce-calibrated"), ("adacsl", "wce-calibrated"),
)  # fmt: skip


def differences(held: Decisions, ks: list[float], prevalence: float = 1.0) -> pd.DataFrame:
    """Return how much dearer one method is than another, in percent; positives count ``prevalence`` times."""
    weight = np.where(held.labels == 1, prevalence, 1.0)
    fits = held.folds + FOLDS * np.arange(len(held.folds))[:, None]
    units = np.tile(held.groups, len(fits))
    rows = []
    kinds = sorted({tuple(key.split("|")[:3]) for key in held.bits})
    for part, setting, form in kinds:
        for ours, theirs in PAIRS:
            for k in ks:
                a, b = (held.costs(part, setting, form, name, k) for name in (ours, theirs))
                if a is None or b is None:
                    continue
                base = float((b * weight).sum() / (weight.sum() * len(b)))
                found = fold_interval((a - b).ravel(), fits.ravel(), units, weight=np.tile(weight, len(fits)))
                mean, low, high = (100 * value / base for value in found)
                rows.append({"part": part, "setting": setting, "form": form, "k": k, "ours": ours, "against": theirs,
                             "prevalence": prevalence, "percent": mean, "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows)


def means(held: Decisions, ks: list[float]) -> pd.DataFrame:
    """Return the mean cost per row of every form and method."""
    rows = []
    for part, setting, form, method in sorted({tuple(key.split("|")[:4]) for key in held.bits}):
        own = {k: held.costs(part, setting, form, method, k) for k in ks}
        rows.append({"part": part, "setting": setting, "form": form, "method": method}
                    | {f"k={k:g}": math.nan if c is None else float(c.mean()) for k, c in own.items()})  # fmt: skip
    return pd.DataFrame(rows)


def show(path: Path, ks: list[float]) -> None:
    held = Decisions.load(path.with_suffix(".npz"))
    print(means(held, ks).round(4).to_string(index=False), "\n")
    found = pd.concat([differences(held, ks, prevalence) for prevalence in (1.0, 3.0, 1 / 3)], ignore_index=True)
    found.to_csv(path.with_name(f"{path.name}_differences.csv"), index=False, float_format="%.3f")
    print("in percent of the cost of the other method (below 0: cheaper), 95 % intervals over lesions and fits")
    print(found[found.prevalence == 1.0].round(1).to_string(index=False))


PAGE = """\
<!-- made by benchmarks/claims.py --page: do not edit -->
# What adaptation is worth on images

HAM10K (10,015 pictures of 7,470 skin lesions, melanoma against the rest), 64 x 64, pretrained ResNet-18, 12 epochs,
two repeats of five folds **by lesion**; inverse priors, a miss k times dearer. 20 % of the training lesions adapt,
select, calibrate and tune. All methods of a fold see the same rows; plain nets are trained once for all ways to decide.
Every difference has a 95 % interval of the paired costs, which counts lesions and fits (`python benchmarks/power.py`
shows what it sees). Many comparisons stand here: of twenty intervals one leaves out 0 by chance.

## In short
"""

SHORT: tuple[tuple[str, tuple[tuple[str, str, str, float, str, str], ...]], ...] = (
    (
        "In the last epoch, without choosing one, AdaCSL costs less",
        (
            ("main", "", "one, last", 3.0, "adacsl", "ce-bayes"),
            ("main", "", "one, last", 3.0, "adacsl", "wce"),
            ("main", "", "one, last", 5.0, "adacsl", "ce-calibrated"),
        ),
    ),
    (
        "There calibration does as much for a weighted net",
        (
            ("main", "", "one, last", 3.0, "adacsl", "wce-calibrated"),
            ("main", "", "one, last", 5.0, "adacsl", "wce-calibrated"),
        ),
    ),
    (
        "In the epoch that costs least on validation rows, one net is not told apart from its rivals",
        (("main", "", "one, best", 3.0, "adacsl", "ce-bayes"), ("main", "", "one, best", 3.0, "adacsl", "wce")),
    ),
    (
        "Five cross-fitted nets gain by it, a little",
        (
            ("crossed", "", "five, best", 3.0, "adacsl-bayes", "ce-bayes"),
            ("crossed", "", "five, best", 3.0, "adacsl", "wce"),
            ("crossed", "", "five, last", 3.0, "adacsl-calibrated", "ce-calibrated"),
        ),
    ),
    (
        "With 2 % of the lesions to adapt on, it costs more than a fixed weight; with 15 % it does not",
        (
            ("validation", "0.02", "one, best", 3.0, "adacsl", "wce"),
            ("validation", "0.15", "one, best", 3.0, "adacsl", "wce"),
        ),
    ),
    (
        "With a tenth of all labels wrong hardly any method beats a constant one, and adapting hurts the last epoch",
        (("noise", "0.1", "one, last", 3.0, "adacsl", "wce"),),
    ),
)
"""What the table says, and the comparisons that say it: read before these sentences are changed."""


LABELS = {
    "main": "one net",
    "crossed": "five cross-fitted nets",
    "validation": "less to adapt on",
    "noise": "wrong labels",
}


def page(path: Path, ks: list[float]) -> str:
    """Return everything as a page of the documentation."""
    held, about = Decisions.load(path.with_suffix(".npz")), json.loads(path.with_suffix(".meta.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    costs, found = means(held, ks), differences(held, ks)
    source = f"{about['device']}; {versions}; `{about['command']}`; `benchmarks/results/{path.name}.csv`"
    parts = [PAGE, *_short(found), f"\n{about['date']}; {source}.\n"]
    for part, title in LABELS.items():
        own = costs[costs["part"] == part]
        if own.empty:
            continue
        parts.append(f"\n## {title[0].upper()}{title[1:]}\n\nCost per picture (1: calling everything melanoma):\n")
        parts.append(_table(own.drop(columns="part").dropna(axis=1, how="all"), 3))
        parts.append("\nPercent dearer than the other method (below 0: cheaper):\n")
        parts.append(_table(_judged(found[found["part"] == part]), 1))
    shifted = [differences(held, ks, times) for times in (3.0, 1 / 3)]
    chosen = pd.concat([frame[(frame["part"] == "main") & (frame["k"] == ks[len(ks) // 2])] for frame in shifted])
    parts.append(
        "\n## Another prevalence where it is used\n\nThe same decisions, positives 3 times as frequent, or 1/3:\n"
    )
    parts.append(_table(_judged(chosen, ("prevalence",)), 1))
    return "\n".join(parts) + "\n"


def _short(found: pd.DataFrame) -> Iterator[str]:
    for sentence, said in SHORT:
        words = []
        for part, setting, form, k, ours, against in said:
            chosen = (
                (found["part"] == part) & (found["setting"] == setting) & (found["form"] == form) & (found["k"] == k)
            )
            row = found[chosen & (found["ours"] == ours) & (found["against"] == against)].iloc[0]
            place = f"{form}, {setting}, " if setting else f"{form}, "
            words.append(
                f"{ours} against {against}, {place}k = {k:g}: {row.percent:+.1f} % ({row.low:.1f} to {row.high:.1f})"
            )
        yield f"- **{sentence}**: {'; '.join(words)}."


def _judged(found: pd.DataFrame, more: tuple[str, ...] = ()) -> pd.DataFrame:
    sure = np.where(found["high"] < 0, "cheaper", np.where(found["low"] > 0, "**dearer**", "not told apart"))
    named = {"ours": "method", "low": "from", "high": "to"}
    columns = ["setting", "form", "k", *more, "method", "against", "percent", "from", "to", "found"]
    return found.rename(columns=named).assign(found=sure)[columns]


def _table(frame: pd.DataFrame, digits: int) -> str:
    frame = frame.loc[:, [name for name in frame if not (frame[name] == "").all()]]
    rows = [[f"{v:.{digits}f}" if isinstance(v, float) and name != "k" else f"{v:g}" if name == "k" else str(v)
             for name, v in zip(frame.columns, row, strict=True)] for row in frame.itertuples(index=False)]  # fmt: skip
    lines = [list(map(str, frame.columns)), ["---"] * frame.shape[1], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    options = parse()
    if options.show is not None:
        show(options.show, options.k)
        return
    if options.page is not None:
        options.page.write_text(page(Path(__file__).parent / "results" / "claims", options.k))
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
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("claims"))
    parser.add_argument("--show", type=Path)
    parser.add_argument("--page", type=Path, help="write benchmarks/results/claims.* as a page of the documentation")
    return parser.parse_args()


if __name__ == "__main__":
    main()
