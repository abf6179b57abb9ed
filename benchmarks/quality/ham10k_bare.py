"""ResNet-18 on HAM10K in a bare PyTorch loop: the yardstick for epoch times, and a place to look for settings.

The images lie on the device as bytes; batches are index vectors, augmented on the device; bf16, channels-last.

    python -m benchmarks.quality.ham10k_bare                       # seconds per epoch, plain cross-entropy
    python -m benchmarks.quality.ham10k_bare --method adacsl       # the same with the adaptation between epochs
    python -m benchmarks.quality.ham10k_bare --sweep  # settings x splits x k: normalised test cost of single networks
    python -m benchmarks.quality.ham10k_bare --crossfit --only adamw-3e-4      # five folds, logits averaged
    python -m benchmarks.quality.ham10k_bare --limit 200 --epochs 1 --device cpu --processes 1     # does it run?
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adacsl import CostMatrix, find_threshold
from adacsl.torch import AdaptiveCrossEntropy, positive_logit
from adacsl.torch.augmentation import Augment
from adacsl.torch.resnet import Normalise, resnet18
from benchmarks.image_data import ImageData, cut, data_folder, load_images

SHARES = [0.65, 0.15, 0.20]


@dataclass(frozen=True)
class Settings:
    """One way to train; a sweep compares several."""

    method: str = "adacsl"  # or "net-weighted" (weighted, not adapted), "net" (plain, decided at the Bayes threshold)
    target: str = "half"  # T': "half" = 0.5, "bayes" = T, "middle" = the geometric middle of the odds
    optimizer: str = "adamw"
    lr: float = 3e-4
    weight_decay: float = 0.05
    schedule: str = "onecycle"  # or "cosine", "constant"
    batch: int = 64
    epochs: int = 15
    shift: float = 0.0
    rotate: bool = False
    views: int = 1  # 4 averages the logits of the four flips
    damping: float = 1.0


SWEEP: dict[str, Settings] = {
    "sgd-1e-2": Settings(optimizer="sgd", learning_rate=1e-2, weight_decay=5e-4),
    "sgd-3e-2": Settings(optimizer="sgd", learning_rate=3e-2, weight_decay=5e-4),
    "sgd-paper": Settings(optimizer="sgd", learning_rate=1e-2, weight_decay=1e-2, schedule="constant"),
    "adamw-1e-4": Settings(learning_rate=1e-4),
    "adamw-3e-4": Settings(),
    "adamw-1e-3": Settings(learning_rate=1e-3),
    "adamw-3e-4-turn": Settings(rotate=True, shift=1 / 16),
    "adamw-3e-4-views": Settings(views=4),
}


@dataclass
class Run:
    """What one net did: costs on the watched samples and logits, epoch by epoch, and how long it took."""

    watch_costs: list[float] = field(default_factory=list)
    watch: list[NDArray[np.float32]] = field(default_factory=list)
    test: list[NDArray[np.float32]] = field(default_factory=list)
    lambdas: list[float] = field(default_factory=list)
    train_seconds: list[float] = field(default_factory=list)
    epoch_seconds: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def best(self) -> int:
        """The epoch with the least cost on the watched samples."""
        return int(np.argmin(self.watch_costs))


class Watch(Protocol):
    """A stopwatch that is called when an epoch starts and when it ends."""

    def lap(self) -> None: ...  # noqa: D102

    def stop(self) -> None: ...  # noqa: D102


# one net


def train(
    images: Tensor,
    labels: Tensor,
    parts: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    costs: CostMatrix,
    settings: Settings,
    *,
    seed: int = 0,
    weights: Path | None = None,
    watch: Watch | None = None,
) -> Run:
    """Train one net on the first part, watch (adapt, select) the second, and score the third.

    Parameters
    ----------
    images : uint8 tensor of shape (N, H, W, 3)
        On the device. Stored so, a batch of rows is a channels-last batch without a copy.
    labels : tensor of shape (N,)
        On the device.
    parts : three arrays of row numbers
        Trained on, watched, scored.
    watch : Watch, optional
        Called when each epoch starts and ends; the scoring is outside.
    """
    device = images.device
    torch.manual_seed(seed)
    rows, watched, test = (torch.from_numpy(part).to(device) for part in parts)
    net = nn.Sequential(Normalise(), resnet18(1, weights)).to(device)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    augment = Augment(shift=settings.shift, rotate=settings.rotate)
    loss = AdaptiveCrossEntropy(costs, target_threshold=threshold(settings, costs), damping=settings.damping)
    criterion: nn.Module = nn.BCEWithLogitsLoss() if settings.method == "net" else loss.to(device)
    optimizer = make_optimizer(net, settings, fused=device.type == "cuda")
    scheduler = make_scheduler(optimizer, settings, steps=max(1, rows.numel() // settings.batch) * settings.epochs)
    targets, run = labels.float(), Run()
    for _ in range(settings.epochs):
        if watch is not None:
            watch.lap()
        start = clock(device)
        net.train()
        for index in batches(rows, settings.batch):
            with half(device):
                logits = net(augment(images[index].permute(0, 3, 1, 2)))
            value = criterion(positive_logit(logits.float()), targets[index])
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            scheduler.step()
        middle = clock(device)
        seen = predict(net, images, watched, settings.views)
        run.watch_costs.append(adapt(loss, seen, labels[watched], settings, costs))
        end = clock(device)
        if watch is not None:
            watch.stop()
        run.train_seconds.append(middle - start)
        run.epoch_seconds.append(end - start)
        run.lambdas.append(loss.controller.lambda_)
        run.watch.append(seen.cpu().numpy())
        run.test.append(predict(net, images, test, settings.views).cpu().numpy())
    return run


def threshold(settings: Settings, costs: CostMatrix) -> float:
    """Return T', the threshold this way of training decides with."""
    bayes = float(costs.threshold)
    if settings.method == "net" or settings.target == "bayes":
        return bayes
    odds = (bayes / (1.0 - bayes)) ** 0.5
    return odds / (1.0 + odds) if settings.target == "middle" else 0.5


def adapt(loss: AdaptiveCrossEntropy, logits: Tensor, labels: Tensor, settings: Settings, costs: CostMatrix) -> float:
    """Return the cost of the watched samples, after a step of the controller where the method has one."""
    if settings.method == "adacsl":
        return loss.adapt(logits, labels).cost
    return costs.mean(labels, torch.sigmoid(logits) > threshold(settings, costs))


def make_optimizer(net: nn.Module, settings: Settings, *, fused: bool) -> torch.optim.Optimizer:
    if settings.optimizer == "sgd":
        return torch.optim.SGD(
            net.parameters(), lr=settings.lr, momentum=0.9, weight_decay=settings.weight_decay, fused=fused
        )
    return torch.optim.AdamW(net.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=fused)


def make_scheduler(optimizer: torch.optim.Optimizer, settings: Settings, steps: int) -> Any:
    if settings.schedule == "onecycle":
        total = max(steps + 1, 10)  # fewer leave no step for the rise, which divides by zero
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.lr, total_steps=total, pct_start=0.2)
    if settings.schedule == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)


def batches(rows: Tensor, size: int) -> Iterator[Tensor]:
    """Yield shuffled row numbers; a last short batch is dropped (another one each epoch)."""
    order = rows[torch.randperm(rows.numel(), device=rows.device)]
    for start in range(0, max(1, rows.numel() - size + 1), size):
        yield order[start : start + size]


@torch.no_grad()
def predict(net: nn.Module, images: Tensor, rows: Tensor, views: int, size: int = 1024) -> Tensor:
    """Return one float32 logit per sample, averaged over flips where ``views`` is 4."""
    net.eval()
    axes: list[tuple[int, ...]] = [(), (2,), (3,), (2, 3)]
    out = []
    for index in torch.split(rows, size):
        batch = images[index].permute(0, 3, 1, 2)
        with half(images.device):
            seen = [positive_logit(net(batch.flip(a) if a else batch)).float() for a in axes[:views]]
        out.append(torch.stack(seen).mean(dim=0))
    return torch.cat(out)


def half(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


# many networks, several processes on one device


@dataclass(frozen=True)
class Job:
    """One net of a table: which settings, costs, split and fold."""

    name: str
    settings: Settings
    k: float
    split: int
    fold: int | None = None
    by_group: bool = False

    def parts(self, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the samples to train on, to watch and to score; folds divide everything but the test samples."""
        units = groups if self.by_group else np.arange(groups.size)
        rows, watch, test = cut(units, SHARES, seed=self.split)
        if self.fold is None:
            return rows, watch, test
        rest = np.sort(np.concatenate([rows, watch]))
        folds = cut(units[rest], [0.2] * 5, seed=1000 + self.split)
        own = rest[folds[self.fold]]
        return np.setdiff1d(rest, own), own, test

    def costs(self, labels: NDArray[np.int64]) -> CostMatrix:
        """Return the paper's inverse priors, a false negative k times as costly."""
        return CostMatrix.balanced(labels, factor=self.k)


SHARED: dict[str, Any] = {}
"""What every process holds once: the images and labels on the device."""


def start_worker(data: ImageData, device: str, weights: Path | None) -> None:
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    images, labels = torch.from_numpy(data.images).to(device), torch.from_numpy(data.labels).to(device)
    SHARED.update(images=images, labels=labels, data=data, weights=weights)


def work(job: Job) -> tuple[Job, Run]:
    data, seed = SHARED["data"], 100 * job.split + (job.fold or 0)
    try:
        run = train(
            SHARED["images"], SHARED["labels"], job.parts(data.groups), job.costs(data.labels), job.settings,
            seed=seed, weights=SHARED["weights"],
        )  # fmt: skip
    except ValueError as error:  # a net that diverged: the controller refuses NaN
        run = Run(error=str(error))
    return job, run


def run_all(
    jobs: list[Job], data: ImageData, device: str, weights: Path | None, processes: int
) -> list[tuple[Job, Run]]:
    """Train all networks, several at a time; the results come back in the order of ``jobs``."""
    if processes == 1:
        start_worker(data, device, weights)
        return [work(job) for job in jobs]
    # every process gets its own copy of the images: containers often have little shared memory
    with torch.multiprocessing.get_context("spawn").Pool(processes, start_worker, (data, device, weights)) as pool:
        return list(pool.imap(work, jobs, chunksize=1))


# tables


def evaluate(
    job: Job, runs: list[Run], labels: NDArray[np.int64], groups: NDArray[np.int64], pick: str
) -> dict[str, float]:
    """Return the normalised test cost of the averaged logits, at T' and at a threshold tuned on watched samples."""
    if any(run.error for run in runs):
        return {"target": float("nan"), "tuned": float("nan")}
    costs, goal = job.costs(labels), threshold(job.settings, job.costs(labels))
    epochs = [run.best if pick == "best" else -1 for run in runs]
    test = job.parts(groups)[2]
    score = sigmoid(np.mean([run.test[e] for run, e in zip(runs, epochs, strict=True)], axis=0))
    folds = [None] if job.fold is None else list(range(5))
    watched = np.concatenate([replace(job, fold=fold).parts(groups)[1] for fold in folds])
    seen = sigmoid(np.concatenate([run.watch[e] for run, e in zip(runs, epochs, strict=True)]))
    tuned = find_threshold(seen, labels[watched], costs, target_threshold=goal).value
    return {
        "target": costs.normalized(labels[test], score > goal),
        "tuned": costs.normalized(labels[test], score > tuned),
    }


def sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    return np.where(wide >= 0, 1.0, np.exp(-np.abs(wide))) / (1.0 + np.exp(-np.abs(wide)))


def table(results: list[tuple[Job, Run]], data: ImageData, out: Path | None) -> None:
    """Print means over the splits, one line per settings, and write every cell to ``out`` as JSON lines."""
    cells: dict[tuple[str, float, int], list[tuple[Job, Run]]] = {}
    for job, run in results:
        cells.setdefault((job.name, job.k, job.split), []).append((job, run))
    rows: list[dict[str, Any]] = []
    for (name, k, split), group in cells.items():
        job, runs = group[0][0], [run for _, run in group]
        row: dict[str, Any] = {"name": name, "k": k, "split": split, "settings": asdict(job.settings)}
        for pick in ("best", "last"):
            result = evaluate(job, runs, data.labels, data.groups, pick)
            row |= {f"{pick}-{rule}": cost for rule, cost in result.items()}
        row["lambda"] = [run.lambdas[-1] for run in runs if run.lambdas]
        row["best_epoch"] = [run.best for run in runs if run.watch_costs]
        row["seconds"] = sum(sum(run.epoch_seconds) for run in runs)
        row["error"] = next((run.error for run in runs if run.error), "")
        rows.append(row)
    if out is not None:
        out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    ks = sorted({row["k"] for row in rows})
    rules = ("best-target", "last-target", "best-tuned", "last-tuned")
    print(f"normalised test cost, k = {' / '.join(f'{k:g}' for k in ks)}; best = cheapest epoch, last = no selection")
    print(f"{'settings':22s}" + "".join(f"{rule:>{8 * len(ks)}s}" for rule in rules) + "   s/net")
    for name in dict.fromkeys(row["name"] for row in rows):
        own = [row for row in rows if row["name"] == name]
        line = f"{name:22s}"
        for rule in rules:
            line += " " + "".join(f"{statistics.fmean(r[rule] for r in own if r['k'] == k):>8.3f}" for k in ks)[1:]
        print(line + f"{statistics.fmean(r['seconds'] / max(1, len(r['best_epoch'])) for r in own):>8.1f}")
    for row in rows:
        if row["error"]:
            print(f"{row['name']} k={row['k']:g} split {row['split']}: {row['error']}")


def time_epochs(job: Job, data: ImageData, device: str, weights: Path | None) -> None:
    """Print the seconds per epoch of one net alone on the device; the first epoch warms up."""
    _, run = run_all([job], data, device, weights, processes=1)[0]
    if run.error:
        raise SystemExit(run.error)
    rest: Callable[[list[float]], list[float]] = lambda seconds: seconds[1:] or seconds  # noqa: E731
    trained, whole = statistics.median(rest(run.train_seconds)), statistics.median(rest(run.epoch_seconds))
    rows = job.parts(data.groups)[0].size
    print(f"{job.settings.method}: {trained:.3f} s per epoch of {rows} images ({rows / trained:,.0f} images/s); "
          f"{whole:.3f} s with validation; first epoch {run.epoch_seconds[0]:.2f} s")  # fmt: skip
    print("normalised test cost", evaluate(job, [run], data.labels, data.groups, "best"))


# command line


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", action="store_true", help="single networks: all settings x splits x k")
    parser.add_argument("--crossfit", action="store_true", help="five folds, logits averaged")
    parser.add_argument("--only", nargs="+", choices=list(SWEEP), help="these settings instead of all")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="change settings: lr=1e-3 epochs=20")
    parser.add_argument("--method", choices=["net", "net-weighted", "adacsl"])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--k", type=float, nargs="+", default=[1.0, 3.0, 5.0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--by-group", action="store_true", help="split by lesion instead of by image")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", default="ham10000_64.npz", help="a file of the data folder")
    parser.add_argument("--weights", default="resnet18_imagenet_fp16.safetensors", help="or 'none'")
    parser.add_argument("--limit", type=int, help="this many images only")
    parser.add_argument("--out", type=Path, help="write every cell of the table here, as JSON lines")
    return parser.parse_args()


def changed(settings: Settings, args: argparse.Namespace) -> Settings:
    """Apply the command line's changes to one row of the sweep."""
    changes: dict[str, Any] = {}
    for assignment in args.set:
        name, _, text = assignment.partition("=")
        kind = type(getattr(settings, name))
        changes[name] = text in ("1", "true", "True") if kind is bool else kind(text)
    changes |= {name: getattr(args, name) for name in ("method", "epochs") if getattr(args, name) is not None}
    return replace(settings, **changes)


def main() -> None:
    args = parse()
    folder = data_folder()
    weights = None if args.weights == "none" else folder / args.weights
    data = load_images(folder / args.data, args.limit)
    names = args.only or (list(SWEEP) if args.sweep else ["adamw-3e-4"])
    if not (args.sweep or args.crossfit):
        plain = changed(replace(SWEEP[names[0]], method="net"), args)
        time_epochs(Job("bare", plain, args.k[0], 0, by_group=args.by_group), data, args.device, weights)
        return
    jobs = [
        Job(name, changed(SWEEP[name], args), k, split, fold, args.by_group)
        for name in names
        for k in args.k
        for split in range(args.splits)
        for fold in (range(5) if args.crossfit else [None])
    ]
    start = time.perf_counter()
    results = run_all(jobs, data, args.device, weights, args.processes)
    print(f"{len(jobs)} networks in {time.perf_counter() - start:.0f} s, {args.processes} at a time")
    table(results, data, args.out)


if __name__ == "__main__":
    main()
