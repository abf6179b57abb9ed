"""Who should be in a portfolio, and how should it be stacked? Evidence on splits that no published figure uses.

    python benchmarks/portfolio_choice.py collect --out members/ --jobs 2      # every member's log-odds, once
    python benchmarks/portfolio_choice.py study members/                       # sets and strengths, on those

``collect`` cross-fits each candidate member on 75 % of a table (splits 0 to 2; the benchmark has 100 to 104) and stores
its log-odds of the rows it did not train on. ``study`` stacks them in many ways and tells what each costs on the other
25 %, relative to the stack of all members; k = 1, 3, 5 times dearer misses, inverse priors.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from peer_data import TABLES, Costs, load_cell
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, Method
from adacsl.ensemble.base_estimators import default_members
from adacsl.ensemble.fits import fit_members
from adacsl.ensemble.stacking import Fits, halfway, log_losses, stack_folds
from adacsl.fitting.rows import Rows
from adacsl.learners.stack import Stack
from adacsl.neural.learner import Net

K = (1.0, 3.0, 5.0)
FURTHER = {
    "nets-bent": {"bins": 16, "heads": 1, "width": 64},
    "nets-bent-4": {"bins": 16, "heads": 4, "width": 64},
    "nets-bent-8": {"bins": 32, "heads": 8, "width": 128},
    "tabm": {"kind": "tabm"},
    "tabm-large": {"kind": "tabm", "k": 32, "n_blocks": 3, "d_block": 256, "n_bins": 48, "d_embedding": 16},
}


def collect(table: str, split: int, out: Path, device: str) -> str:
    """Cross-fit all members on one split and store their log-odds."""
    path = out / f"{table}-{split}.npz"
    if path.exists():
        return f"{path.name}: there already"
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    cell = load_cell(table, split)
    X = pd.concat((cell.X_train, cell.X_test), ignore_index=True)
    y = np.concatenate((cell.y_train, cell.y_test))
    train, test = np.arange(len(cell.y_train)), np.arange(len(cell.y_train), len(y))
    rows = Rows(X, y, train)
    folds = rows.folds(5, None, split)
    members = default_members(images=False)
    members |= {name: Method(learner=Net(own), select="log-loss") for name, own in FURTHER.items()}
    found: dict[str, Any] = {"train": cell.y_train, "test": cell.y_test}
    for name, member in members.items():
        costs = [CostMatrix(fp=c.fp, fn=c.fn) for c in (cell.costs(k) for k in K)]
        steered = member.loss != "plain"
        member.set_params(cv=folds, random_state=split, device=device)
        try:
            fitted = fit_members((rows, costs if steered else costs[:1], test), {name: member})[name]
        except Exception as error:  # a member that fails is no reason to lose the others
            print(f"{path.name}: {name}: {error}", flush=True)
            continue
        for k, own in zip(K if steered else ("",), fitted, strict=True):
            found[f"{name}|{k}|held"], found[f"{name}|{k}|test"] = own.honest[train], own.watched
        found[f"{name}|seconds"] = fitted[0].seconds
    np.savez_compressed(path, **found)
    return f"{path.name}: {time.perf_counter() - start:.0f} s"


class Cell:
    """What the members said about one split."""

    def __init__(self, path: Path) -> None:
        self.table, self.split = path.stem.rsplit("-", 1)
        with np.load(path) as file:
            self.content = dict(file)
        self.train, self.test = self.content["train"], self.content["test"]
        self.names = [key.split("|")[0] for key in self.content if key.endswith("|seconds")]

    def columns(self, name: str, k: float) -> tuple[Any, Any]:
        """Return a member's log-odds of the training rows, by nets that did not see them, and of the test rows."""
        key = f"{name}|" if f"{name}||held" in self.content else f"{name}|{k}"
        return self.content[f"{key}|held"], self.content[f"{key}|test"]

    def costs(self, k: float) -> Costs:
        """Return inverse priors of the training labels, misses ``k`` times dearer."""
        n, positives = len(self.train), int(self.train.sum())
        return Costs(n / (n - positives), k * n / positives)

    def stacked(self, names: list[str], k: float, strength: Any) -> tuple[float, float]:
        """Return normalised test cost and test log loss of a stack."""
        both = [self.columns(name, k) for name in names]
        held, test = (np.stack(some, 1) for some in zip(*both, strict=True))
        if isinstance(strength, str) and strength.startswith("to nothing"):
            stack = shrunk_to_nothing(held, self.train, float(strength.split()[-1]))
        elif strength == "mean":
            stack = Stack(np.full(len(names), 1 / len(names)), 0.0, np.inf, 0.0)
        else:
            # without the nested stacks, which only the estimate needs
            parts = [part for _, part in stack_folds(self.train, None, 0)]
            plain = strength if strength != "halfway" else "auto"
            stack = Fits(held, self.train, None).best(parts, plain)
            if strength == "halfway":  # between log loss and cost, the default since
                cut = float(np.log(self.costs(k).fp / self.costs(k).fn))
                stakes = np.exp(np.where(self.train == 1, -cut, cut) / 2.0)
                stack = halfway(stack, Fits(held, self.train, stakes).best(parts, "auto"), cut)
        logits = stack.logits(test)
        costs = self.costs(k)
        decided = logits > np.log(costs.fp / costs.fn)
        return costs.normalized(self.test, decided), float(log_losses(logits, self.test).mean())


def shrunk_to_nothing(columns: Any, labels: Any, strength: float) -> Stack:
    """Return the usual stack, whose weights are shrunk towards 0 instead of towards equality."""
    limit = float(np.log(2.0 * len(labels)))
    model = LogisticRegression(C=strength, solver="newton-cholesky").fit(np.clip(columns, -limit, limit), labels)
    return Stack(model.coef_[0], float(model.intercept_[0]), limit, strength)


def study(folder: Path, sets: dict[str, list[str]], strengths: list[Any], jobs: int) -> pd.DataFrame:
    """Return what each set and strength costs."""
    cells = [Cell(path) for path in sorted(folder.glob("*.npz"))]
    asked = [(cell, k, name, strength) for cell in cells for k in K for name in sets for strength in strengths]

    def one(cell: Cell, k: float, name: str, strength: Any) -> dict[str, Any]:
        names = [member for member in sets[name] if member in cell.names]
        cost, loss = cell.stacked(names, k, strength)
        about = {"table": cell.table, "split": cell.split, "k": k, "set": name, "strength": str(strength)}
        return about | {"cost": cost, "loss": loss}

    return pd.DataFrame(joblib.Parallel(jobs)(joblib.delayed(one)(*some) for some in asked))


def summary(frame: pd.DataFrame, reference: tuple[str, Any]) -> pd.DataFrame:
    """Return the geometric mean over tables and k of the cost (mean of splits) relative to a reference."""
    means = frame.groupby(["table", "k", "set", "strength"])[["cost", "loss"]].mean().unstack(["set", "strength"])
    ratios = {kind: means[kind].div(means[kind][reference], axis=0) for kind in ("cost", "loss")}
    table = pd.DataFrame({
        "cost": np.exp(np.log(ratios["cost"]).mean()), "worst": ratios["cost"].max(),
        "dearer rows": (ratios["cost"] > 1).sum(), "log loss": np.exp(np.log(ratios["loss"]).mean()),
    })  # fmt: skip
    return table.sort_values("cost")


def main() -> None:
    """Collect, or study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("collect", "study"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    if args.what == "collect":
        args.folder.mkdir(parents=True, exist_ok=True)
        asked = list(itertools.product(reversed(args.tables), args.splits))
        work = (joblib.delayed(collect)(table, split, args.folder, args.device) for table, split in asked)
        for line in joblib.Parallel(args.jobs, return_as="generator_unordered")(work):
            print(line, flush=True)
        return
    cells = [Cell(path) for path in sorted(args.folder.glob("*.npz"))]
    everybody = [name for name in cells[0].names if all(name in cell.names for cell in cells)]
    small = ["logistic", "lightgbm", "lightgbm-shallow", "nets"]
    sets = {"all": everybody, "small": small} | {name: [name] for name in everybody}
    sets |= {f"all without {name}": [m for m in everybody if m != name] for name in everybody}
    sets |= {f"small and {name}": [*small, name] for name in everybody if name not in small}
    show(study(args.folder, sets, ["auto"], args.jobs), ("all", "auto"))
    sets = {name: sets[name] for name in ("all", "small")}
    tried = [
        "auto",
        "halfway",
        "mean",
        0.001,
        0.01,
        0.1,
        1.0,
        10.0,
        "to nothing 0.05",
        "to nothing 0.2",
        "to nothing 1",
    ]
    show(study(args.folder, sets, tried, args.jobs), ("all", "auto"))
    seconds = [{name: float(cell.content[f"{name}|seconds"]) for name in cell.names} for cell in cells]
    print(pd.DataFrame(seconds, index=[cell.table for cell in cells]).groupby(level=0).mean().round(1).T.to_string())


def show(frame: pd.DataFrame, reference: tuple[str, Any]) -> None:
    """Print a study, by all tables and without the one where gains are largest."""
    print(summary(frame, reference).to_string(), "\n")
    print(summary(frame[frame["table"] != "ann_thyroid"], reference)["cost"].to_string(), "\n")


if __name__ == "__main__":
    main()
