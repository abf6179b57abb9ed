"""A network and loaders of one's own on PneumoniaMNIST: cost on the official test part, five seeds.

python -m benchmarks.quality.pneumonia --json benchmarks/results/pneumonia.json

The data are ``pneumoniamnist.npz`` of the folder ADACSL_DATA, with their official split: a small convolutional network
is trained on the training part through a DataLoader with its own augmentation, adapted, selected and tuned on the
validation part, and its decisions are charged on the test part, which nothing else looks at. The baseline is plain
cross-entropy decided at the Bayes threshold, without calibration. "tuned" is the same network at the threshold that is
cheapest on the validation part. Every method sees the same batches of the same seeds.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, find_threshold
from adacsl.neural import NeuralLearner
from benchmarks.harness import arguments, metadata
from benchmarks.image_data import data_folder

RATIOS = {"fn 8, fp 1": CostMatrix(fp=1, fn=8), "fn 1, fp 8": CostMatrix(fp=8, fn=1)}
METHODS = ("plain, Bayes threshold", "plain, tuned", "AdaCSL")


class Radiographs(Dataset[tuple[Tensor, Tensor]]):
    """Grey images of one part, moved by up to two pixels and changed in brightness while training."""

    def __init__(self, images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], *, augment: bool) -> None:
        self.images = torch.from_numpy(images).float()[:, None] / 255.0
        self.labels, self.augment = torch.from_numpy(labels.reshape(-1).astype(np.int64)), augment

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = self.images[index]
        if self.augment:
            down, right = torch.randint(-2, 3, (2,)).tolist()
            image = image.roll((down, right), (1, 2)) * (1.0 + 0.2 * (torch.rand(()) - 0.5))
        return (image - 0.57) / 0.17, self.labels[index]


def network() -> nn.Module:
    """Return a small convolutional network with one output."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1),
    )  # fmt: skip


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    with np.load(data_folder() / "pneumoniamnist.npz") as file:
        parts = {
            part: Radiographs(file[f"{part}_images"], file[f"{part}_labels"], augment=part == "train")
            for part in ("train", "val", "test")
        }
    results: list[dict[str, Any]] = []
    for name, costs in RATIOS.items():
        for seed in range(args.seeds):
            for method, cost in fits(parts, costs, seed, args.epochs).items():
                results.append({"costs": name, "seed": seed, "method": method, "cost": cost})
                print(f"{name}, seed {seed}: {method:24} {cost:.4f}", flush=True)
    rows = list(summary(results))
    for row in rows:
        print(
            f"{row['costs']}: {row['method']:24} {row['mean']:.4f} (sd {row['sd']:.4f})  "
            f"{row['change']:+.1%} of the baseline, cheaper in {row['cheaper']} of {args.seeds} seeds"
        )
    if args.json is not None:
        document = metadata() | {"epochs": args.epochs, "seeds": args.seeds, "results": results, "summary": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def fits(parts: dict[str, Radiographs], costs: CostMatrix, seed: int, epochs: int) -> dict[str, float]:
    """Return the mean cost of each method on the test part."""
    train = DataLoader(parts["train"], 64, shuffle=True)
    validation, test = (DataLoader(parts[part], 256) for part in ("val", "test"))
    known, true = parts["val"].labels.numpy(), parts["test"].labels.numpy()
    learner = NeuralLearner(network, epochs=epochs, learning_rate=1e-3)
    settings: dict[str, Any] = {"learner": learner, "random_state": seed, "device": "cpu"}
    plain = CostSensitiveClassifier(costs, decide="bayes", **settings).fit(train, validation=validation)
    scores, cut = plain.predict_proba(test)[:, 1], find_threshold(plain.predict_proba(validation)[:, 1], known, costs)
    adapted = AdaCSLClassifier(costs, **settings).fit(train, validation=validation)
    decided = (plain.predict(test), (scores > cut.value).astype(int), adapted.predict(test))
    return {method: costs.mean(true, labels) for method, labels in zip(METHODS, decided, strict=True)}


def summary(results: list[dict[str, Any]]) -> Any:
    """Yield the mean over the seeds, and the change against the baseline of the same seeds."""
    for name in RATIOS:
        own = {
            method: [row["cost"] for row in results if (row["costs"], row["method"]) == (name, method)]
            for method in METHODS
        }
        base = own[METHODS[0]]
        for method, costs in own.items():
            yield {
                "costs": name, "method": method, "mean": statistics.mean(costs), "sd": statistics.stdev(costs),
                "change": statistics.mean(costs) / statistics.mean(base) - 1.0,
                "cheaper": sum(a < b for a, b in zip(costs, base, strict=True)),
            }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
