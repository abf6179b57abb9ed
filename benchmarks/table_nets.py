"""Compare small nets, scalings and training settings for cost-sensitive learning on tables.

``ADACSL_DATA=folder python benchmarks/table_nets.py`` trains every variant below on the tables of that folder and
merges the costs into ``benchmarks/results/table_nets.csv``; ``--variants default mlp`` picks some.

Protocol: stratified 70/30 splits; the training part (at most ``--rows``) is cut into five folds. For every loss five
nets train together, each on four folds, and adapt lambda and choose their epoch on the fifth. "single" is one such net
(mean over the five), "crossfit" decides on the mean of their logits. Costs are inverse priors times k (rho = k IR), per
test sample: 1 is the cost of calling everything positive.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, train_test_split

from adacsl.adaptive.controller import AdaptiveWeight
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.encoder import TableEncoder
from adacsl.torch.tabular import TableNet

RESULTS = Path(__file__).parent / "results" / "table_nets.csv"
FOLDS = 5
FACTORS = (1.0, 3.0, 5.0)
TABLES = {
    "german_credit": [],
    "marketing_campaign": ["ID"],
    "telco_churn": ["customerID"],
    "ann_thyroid": ["class3", "original_split"],
    "churn_tv_subscriptions": ["id", "C_FP", "C_FN", "C_TP", "C_TN"],
    "bank_marketing": ["duration"],
    "adult": ["original_split"],
}


@dataclass(frozen=True)
class Variant:
    """One way to build and train the net."""

    scaling: str = "both"
    bins: int = 0
    heads: int = 1
    width: int = 64
    depth: int = 2
    dropout: float = 0.1
    residual: bool = False
    lr: float = 2e-3
    weight_decay: float = 0.01
    batch: int = 128
    epochs: int = 30
    cosine: bool = False
    damping: float = 1.0


ROBUST = Variant(scaling="robust")
WIDE = Variant(scaling="quantile", width=128)
VARIANTS = {
    "mlp": Variant(scaling="standard", width=128),
    "default": Variant(weight_decay=0.1, cosine=True),
    "both": Variant(),
    "both, ramps 8": Variant(bins=8),
    "quantile wide": WIDE,
    "quantile wide, ramps 8": replace(WIDE, bins=8),
    "quantile wide, ramps 16": replace(WIDE, bins=16),
    "quantile, ramps 8": replace(WIDE, width=64, bins=8),
    "robust wide": replace(ROBUST, width=128),
    "robust": ROBUST,
    "robust, ramps 8": replace(ROBUST, bins=8),
    "robust, ramps 16": replace(ROBUST, bins=16),
    "robust, 4 heads": replace(ROBUST, heads=4),
    "robust, dropout 0": replace(ROBUST, dropout=0.0),
    "robust, dropout 0.3": replace(ROBUST, dropout=0.3),
    "robust, lr 1e-3": replace(ROBUST, lr=1e-3),
    "robust, lr 5e-3": replace(ROBUST, lr=5e-3),
    "robust, decay 0.3": replace(ROBUST, weight_decay=0.3),
    "robust, cosine": replace(ROBUST, cosine=True),
    "robust, depth 3": replace(ROBUST, depth=3),
    "robust, resnet depth 3": replace(ROBUST, depth=3, residual=True),
    "robust, batch 64": replace(ROBUST, batch=64),
    "robust, batch 256": replace(ROBUST, batch=256),
    "robust, damping 0.3": replace(ROBUST, damping=0.3),
}
ANCHOR = "hist gradient boosting"
KEY = ["variant", "method", "factor", "fit", "select"]


class Task(NamedTuple):
    """One split of one table."""

    table: str
    split: int
    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray


class Loss(NamedTuple):
    """What the members of one group minimise: ``factor`` is None for plain cross-entropy."""

    method: str
    factor: float | None


class Run(NamedTuple):
    """Logits of every epoch: out of fold (epochs, losses, n) and on test rows (epochs, losses, folds, n_test)."""

    losses: list[Loss]
    held_out: np.ndarray
    folds: list[np.ndarray]
    test: np.ndarray
    seconds: float


class Residual(TableNet):
    """The same net with skip connections around all hidden layers but the first."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits of shape (rows, members, heads)."""
        hidden = self._spread(x.unsqueeze(0) if x.ndim == 2 else x.transpose(0, 1))
        for i, layer in enumerate(self.layers):
            new = F.dropout(F.relu(layer(hidden)), self.dropout, self.training)
            hidden = new if i == 0 else hidden + new
        return self.output(hidden)


def load(folder: Path, table: str, split: int, rows: int) -> Task:
    frame = pd.read_csv(folder / f"{table}.csv.gz")
    y = frame.pop("target").to_numpy()
    frame = frame.drop(columns=TABLES[table])
    parts = train_test_split(frame, y, test_size=0.3, stratify=y, random_state=split)
    X, X_test, y, y_test = parts
    if len(y) > rows:
        X, _, y, _ = train_test_split(X, y, train_size=rows, stratify=y, random_state=split)
    if len(y_test) > rows:
        X_test, _, y_test, _ = train_test_split(X_test, y_test, train_size=rows, stratify=y_test, random_state=split)
    return Task(table, split, X, y, X_test, y_test)


def train(task: Task, variant: Variant, losses: list[Loss], *, seed: int = 0) -> Run:
    """Train folds x losses as one net; every member draws its own batches from its own rows."""
    torch.manual_seed(seed)
    encoder = TableEncoder(scaling=variant.scaling).fit(task.X)
    x, x_test = (torch.from_numpy(encoder.transform(t)) for t in (task.X, task.X_test))
    y = torch.from_numpy(task.y.astype(np.float32))
    folds = [f for _, f in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(task.X, task.y)]
    rows = [torch.from_numpy(np.setdiff1d(np.arange(len(task.y)), f)) for f in folds]
    controllers = [_controller(loss, task.y, variant) for loss in losses for _ in folds]
    net = _build(variant, encoder, len(controllers), seed)
    steps = -(-min(map(len, rows)) // variant.batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=variant.lr, weight_decay=variant.weight_decay, fused=True)
    schedule = _schedule(optimizer, variant, steps)
    held_out, test, start = [], [], time.perf_counter()
    for _ in range(variant.epochs):
        _epoch(net, optimizer, schedule, x, y, rows, controllers, variant.batch, steps)
        z = _out_of_fold(net, x, folds, len(losses))
        _adapt(controllers, losses, z, folds, task.y)
        held_out.append(z)
        test.append(_predict(net, x_test).reshape(len(losses), FOLDS, -1))
    return Run(losses, np.stack(held_out), folds, np.stack(test), time.perf_counter() - start)


def _controller(loss: Loss, y: np.ndarray, variant: Variant) -> AdaptiveWeight:
    costs = CostMatrix.balanced(y, factor=loss.factor or 1.0)
    target = costs.threshold if loss.factor is None else 0.5
    return AdaptiveWeight(costs, target=target, damping=variant.damping)


def _build(variant: Variant, encoder: TableEncoder, members: int, seed: int) -> TableNet:
    kind = Residual if variant.residual else TableNet
    return kind(
        encoder.n_features_out_, members, numeric=encoder.numeric_features, bins=variant.bins, heads=variant.heads,
        width=variant.width, depth=variant.depth, dropout=variant.dropout,
        seeds=[seed * 1000 + m % FOLDS for m in range(members)],
    )  # fmt: skip


def _schedule(optimizer: torch.optim.Optimizer, variant: Variant, steps: int) -> torch.optim.lr_scheduler.LRScheduler:
    if variant.cosine:
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, variant.epochs * steps)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)


def _epoch(
    net: TableNet, optimizer: Any, schedule: Any, x: torch.Tensor, y: torch.Tensor, rows: list[torch.Tensor],
    controllers: list[AdaptiveWeight], batch: int, steps: int,
) -> None:  # fmt: skip
    net.train()
    weight = torch.tensor([c.weight for c in controllers])[:, None]
    groups = net.members // FOLDS
    orders = torch.stack([r[torch.randperm(len(r))][: steps * batch] for r in _cut(rows)], dim=1).repeat(1, groups)
    for index in orders.split(batch):
        z, t = net(x[index]), y[index][..., None]
        loss = t * F.softplus(-z) + weight * (1 - t) * F.softplus(z)
        optimizer.zero_grad()
        loss.mean(dim=(0, 2)).sum().backward()
        optimizer.step()
        schedule.step()


def _cut(rows: list[torch.Tensor]) -> list[torch.Tensor]:
    shortest = min(map(len, rows))
    return [r[torch.randperm(len(r))[:shortest]] for r in rows]


@torch.no_grad()
def _predict(net: TableNet, x: torch.Tensor) -> np.ndarray:
    net.eval()
    return torch.cat([net(part).mean(dim=2) for part in x.split(1024)]).T.numpy()


@torch.no_grad()
def _out_of_fold(net: TableNet, x: torch.Tensor, folds: list[np.ndarray], groups: int) -> np.ndarray:
    net.eval()
    longest = max(map(len, folds))
    index = torch.from_numpy(np.stack([np.resize(f, longest) for f in folds], axis=1)).repeat(1, groups)
    z = net(x[index]).mean(dim=2).numpy().reshape(longest, groups, FOLDS)
    out = np.empty((groups, len(x)), dtype=np.float32)
    for i, fold in enumerate(folds):
        out[:, fold] = z[: len(fold), :, i].T
    return out


def _adapt(
    controllers: list[AdaptiveWeight], losses: list[Loss], z: np.ndarray, folds: list[np.ndarray], y: np.ndarray
) -> None:
    for g, loss in enumerate(losses):
        if loss.method == "adacsl":
            for i, fold in enumerate(folds):
                controllers[g * FOLDS + i].step(_sigmoid(z[g, fold]), y[fold])


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z.astype(np.float64)))


def judge(task: Task, run: Run) -> Iterator[dict[str, Any]]:
    """Compare ways to use the recorded epochs: one net or all five, the best epoch of each or the last."""
    for g, loss in enumerate(run.losses):
        for factor in FACTORS if loss.factor is None else (loss.factor,):
            costs = CostMatrix.balanced(task.y, factor=factor)
            target = costs.threshold if loss.factor is None else 0.5
            best = _fold_costs(run, g, task.y, costs, target).argmin(axis=0)
            for select, epochs in (("best", best), ("last", np.full(FOLDS, len(run.test) - 1))):
                row = {"table": task.table, "method": loss.method, "factor": factor, "select": select}
                for fit, cost in _uses(task, run, g, epochs, costs, target):
                    yield row | {"fit": fit, "cost": cost, "epoch": epochs.mean() + 1}


def _fold_costs(run: Run, g: int, y: np.ndarray, costs: CostMatrix, target: float) -> np.ndarray:
    decisions = _sigmoid(run.held_out[:, g]) > target
    return np.asarray([[costs.mean(y[f], d[f].astype(int)) for f in run.folds] for d in decisions])


def _uses(
    task: Task, run: Run, g: int, epochs: np.ndarray, costs: CostMatrix, target: float
) -> Iterator[tuple[str, float]]:
    members = [run.test[epoch, g, i] for i, epoch in enumerate(epochs)]

    def cost(z: np.ndarray) -> float:
        return costs.mean(task.y_test, (_sigmoid(z) > target).astype(int))

    yield "single", float(np.mean([cost(z) for z in members]))
    yield "crossfit", cost(np.mean(members, axis=0))


def boosting(task: Task) -> Iterator[dict[str, Any]]:
    """Gradient boosting with the Bayes threshold: the anchor."""
    X, X_test = (t.copy() for t in (task.X, task.X_test))
    for name in X.columns[[not pd.api.types.is_numeric_dtype(d) for d in X.dtypes]]:
        levels = X[name].value_counts().index[:200]
        for t in (X, X_test):
            t[name] = pd.Categorical(t[name].where(t[name].isin(levels)), categories=levels)
    model = HistGradientBoostingClassifier(
        categorical_features="from_dtype", max_iter=100, learning_rate=0.06, early_stopping=False, random_state=0
    ).fit(X, task.y)
    p = model.predict_proba(X_test)[:, 1]
    for factor in FACTORS:
        costs = CostMatrix.balanced(task.y, factor=factor)
        row = {"table": task.table, "method": "ce", "factor": factor, "select": "last", "fit": "single", "epoch": 0.0}
        yield row | {"cost": costs.mean(task.y_test, costs.decide(p))}


def measure(name: str, options: argparse.Namespace) -> pd.DataFrame:
    """Return one row per loss and use, one column per table."""
    losses = [Loss("ce", None), *(Loss(m, k) for k in options.factors for m in ("weighted", "adacsl"))]
    rows: list[dict[str, Any]] = []
    for table in options.tables:
        for split in options.splits:
            task = load(Path(os.environ["ADACSL_DATA"]), table, split, options.rows)
            rows += boosting(task) if name == ANCHOR else judge(task, train(task, VARIANTS[name], losses, seed=split))
    frame = pd.DataFrame(rows).assign(variant=name)
    wide = frame.pivot_table("cost", KEY, "table", aggfunc="mean")
    wide["best epoch"] = frame.groupby(KEY)["epoch"].mean()
    return wide.reset_index()


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Return geometric means over tables of costs relative to the plain MLP with weighted CE, one net, best epoch."""
    tables = [t for t in TABLES if t in results]
    base = results.query("variant == 'mlp' and method == 'weighted' and fit == 'single' and select == 'best'")
    known = results[results["factor"].isin(base["factor"])]
    logs = np.log(known.set_index(KEY)[tables]) - np.log(base.set_index("factor")[tables])
    return np.exp(logs.mean(axis=1).groupby(["variant", "method", "fit", "select"]).mean()).unstack("variant").round(3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="*", default=[ANCHOR, *VARIANTS])
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--splits", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--factors", type=float, nargs="*", default=[3.0], help="k of the weighted losses")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.variants:
        start = time.perf_counter()
        results = measure(name, options)
        if options.out.exists():
            before = pd.read_csv(options.out)
            results = pd.concat((before[before["variant"] != name], results))
        results.to_csv(options.out, index=False, float_format="%.4f")
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    with pd.option_context("display.width", 250, "display.max_columns", 50):
        print(summary(results).T)


if __name__ == "__main__":
    main()
