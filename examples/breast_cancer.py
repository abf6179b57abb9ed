"""Compare the test costs of plain, weighted and adaptive cross-entropy on scikit-learn's breast-cancer data.

python examples/breast_cancer.py

A malignant tumour that is overlooked costs as much as 8 needless follow-ups (fp=1, fn=8; a choice for this example, no
medical advice). 20 stratified random splits, 60 % train, 20 % validation, 20 % test. Every network has the same size,
the same start, the same batches, 60 epochs, and its last epoch is used: no epoch is selected. The validation part tunes
the threshold of "CE + tuned threshold" and steers lambda of AdaCSL; the test part is looked at once, for the table.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn

from adacsl import CostMatrix, find_threshold
from adacsl.torch import AdaptiveCrossEntropy, WeightedCrossEntropy

COSTS = CostMatrix(fp=1, fn=8)
SPLITS, EPOCHS, BATCH = 20, 60, 32
T_QUANTILE = 2.093  # Student's t, 97.5 %, 19 degrees of freedom
Part = tuple[torch.Tensor, torch.Tensor]


def main() -> None:
    torch.set_num_threads(1)  # tiny matrices: threads only get in each other's way
    start = time.perf_counter()
    features, benign = load_breast_cancer(return_X_y=True)
    labels = 1 - benign  # malignant is the positive, costly class
    rows = [one_split(features, labels, seed) for seed in range(SPLITS)]
    costs = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}
    print(f"breast cancer, {len(labels)} samples, {labels.sum()} malignant; {COSTS}; {SPLITS} splits, seeds 0 to 19")
    print_table(costs)
    print_conclusion(costs)
    print(f"({time.perf_counter() - start:.0f} s)")


def one_split(features: Any, labels: Any, seed: int) -> dict[str, float]:
    """Return the test cost per 100 patients of each method."""
    train, val, test = split(features, labels, seed)
    plain = fit(nn.BCEWithLogitsLoss(), train, val, seed)
    weighted = fit(WeightedCrossEntropy(COSTS), train, val, seed)
    adaptive = fit(AdaptiveCrossEntropy(COSTS), train, val, seed)
    tuned = find_threshold(scores(plain, val), val[1], COSTS)
    return {
        "CE at 0.5": test_cost(plain, test, 0.5),
        "CE + Bayes threshold": test_cost(plain, test, COSTS.threshold),
        "CE + tuned threshold": test_cost(plain, test, tuned.value),
        "weighted CE at 0.5": test_cost(weighted, test, 0.5),
        "AdaCSL at 0.5": test_cost(adaptive, test, 0.5),
    }


def split(features: Any, labels: Any, seed: int) -> tuple[Part, Part, Part]:
    rest_x, test_x, rest_y, test_y = train_test_split(
        features, labels, test_size=0.2, stratify=labels, random_state=seed
    )
    train_x, val_x, train_y, val_y = train_test_split(
        rest_x, rest_y, test_size=0.25, stratify=rest_y, random_state=seed
    )
    scaler = StandardScaler().fit(train_x)

    def part(x: Any, y: Any) -> Part:
        return torch.tensor(scaler.transform(x), dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    return part(train_x, train_y), part(val_x, val_y), part(test_x, test_y)


def fit(loss: nn.Module, train: Part, val: Part, seed: int) -> nn.Module:
    """Train one small network; an adaptive loss also looks at the validation part once per epoch."""
    torch.manual_seed(seed)
    x, y = train
    net = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            loss(net(x[batch]), y[batch]).backward()
            optimizer.step()
        if isinstance(loss, AdaptiveCrossEntropy):
            net.eval()
            with torch.no_grad():
                loss.adapt(net(val[0]), val[1])
            net.train()
    return net


@torch.no_grad()
def scores(net: nn.Module, part: Part) -> torch.Tensor:
    return torch.sigmoid(net(part[0]))


def test_cost(net: nn.Module, test: Part, threshold: float) -> float:
    return 100 * COSTS.mean(test[1], scores(net, test) > threshold)


def interval(values: Any) -> tuple[float, float, float]:
    """Return mean and 95 % interval over splits that share data (Nadeau and Bengio's corrected variance)."""
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    half = T_QUANTILE * spread * math.sqrt(1 / len(values) + 0.2 / 0.8)
    return mean, mean - half, mean + half


def print_table(costs: dict[str, Any]) -> None:
    ours = costs["AdaCSL at 0.5"]
    print(f"\n{'test cost per 100 patients':28} {'mean':>6}  {'95 % interval':>15}   {'AdaCSL minus this':>22}")
    for name, values in costs.items():
        mean, low, high = interval(values)
        line = f"{name:28} {mean:6.2f}  [{max(low, 0):6.2f},{high:6.2f}]"
        if values is not ours:
            extra, below, above = interval(ours - values)
            line += f"   {extra:+6.2f} [{below:+6.2f},{above:+6.2f}]"
        print(line)


def print_conclusion(costs: dict[str, Any]) -> None:
    """Print the lowest mean cost, and the methods that cost significantly more or less than AdaCSL."""
    means = {name: float(values.mean()) for name, values in costs.items()}
    cheapest = min(means, key=lambda name: means[name])
    ours = costs["AdaCSL at 0.5"]
    sure: dict[str, list[str]] = {"below": [], "above": [], "not significantly different from": []}
    for name, values in costs.items():
        if values is ours:
            continue
        _, low, high = interval(ours - values)
        sure["below" if high < 0 else "above" if low > 0 else "not significantly different from"].append(name)
    print(f"\nLowest mean: {cheapest} ({means[cheapest]:.2f}). At the 95 % level the mean cost of AdaCSL is")
    for recommendation, names in sure.items():
        print(f"  {recommendation}: {', '.join(names) or 'none'}")


if __name__ == "__main__":
    main()
