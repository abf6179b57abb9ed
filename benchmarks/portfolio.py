"""Test costs of our estimators on the rows of portfolio_peers.py, and the table that compares them with the peers.

    python benchmarks/portfolio.py --out benchmarks/results/portfolio.csv --budget 60
    python benchmarks/portfolio.py --show benchmarks/results/portfolio.csv benchmarks/results/portfolio_peers.csv

Same tables, splits, costs and file format (peer_data.py). The best peer of a row is the one with the least mean cost on
the *test* rows: a choice nobody could have made beforehand, in the peers' favour.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from peer_data import Cell, Costs, Decide, Method, arguments, run


def portfolio(cell: Cell, costs: Costs | None, options: argparse.Namespace) -> Decide:
    from adacsl import CostMatrix, PortfolioClassifier  # noqa: PLC0415  the table needs none of it

    # by default no member depends on the costs, so one fit serves every k
    first = cell.costs(1.0)
    jobs = {"n_jobs": 1} if options.jobs > 1 else {}
    from adacsl.estimators.members import default_members  # noqa: PLC0415

    members = [name for name in default_members(images=False) if name not in options.without]
    clf = PortfolioClassifier(
        CostMatrix(fp=first.fp, fn=first.fn),
        members=members,
        budget=options.budget,
        random_state=cell.split,
        device="cpu",
        **jobs,
    )
    chances = clf.fit(cell.X_train, cell.y_train).predict_proba(cell.X_test)[:, 1]
    return lambda asked: asked.decide(chances)


def nets(cell: Cell, costs: Costs | None, options: argparse.Namespace) -> Decide:
    from adacsl import AdaCSLClassifier  # noqa: PLC0415

    return fitted(AdaCSLClassifier, cell, costs, options, cv=5)


def boosting(cell: Cell, costs: Costs | None, options: argparse.Namespace) -> Decide:
    from adacsl import AdaCSLBoostingClassifier  # noqa: PLC0415

    return fitted(AdaCSLBoostingClassifier, cell, costs, options, cv=5)


def fitted(kind: type, cell: Cell, costs: Costs | None, options: argparse.Namespace, **more: Any) -> Decide:
    import torch  # noqa: PLC0415

    from adacsl import CostMatrix  # noqa: PLC0415

    assert costs is not None
    torch.set_num_threads(options.threads)
    more |= {"device": "cpu"} if kind.__name__ == "AdaCSLClassifier" else {}
    clf = kind(CostMatrix(fp=costs.fp, fn=costs.fn), random_state=cell.split, **more)
    decisions = clf.fit(cell.X_train, cell.y_train).predict(cell.X_test)
    return lambda _: decisions


PACKAGES = ("torch", "xgboost", "lightgbm", "catboost", "adacsl")
OURS = tuple(name for name in PACKAGES if importlib.util.find_spec(name))
METHODS = {
    "portfolio": Method(portfolio, per_k=False, modules=OURS),
    "adacsl-nets": Method(nets, modules=OURS),
    "adacsl-boosting": Method(boosting, modules=OURS),
}


# the table


def compare(files: list[Path], ours: str = "portfolio") -> pd.DataFrame:
    """Return a line per table and k, losses first: our mean cost, the best peer's, AutoGluon's, and the ratios."""
    rows = pd.concat([pd.read_csv(file, dtype={"digest": str}) for file in files])
    digests = rows.groupby(["table", "split"])["digest"].nunique()
    if (digests > 1).any():
        raise SystemExit(f"measured on different rows: {list(digests[digests > 1].index)}")
    costs = rows.pivot(index=["table", "k", "split"], columns="method", values="normalized_cost")
    costs = costs[costs[ours].notna()]
    # a peer that failed on a split of a row is out of that row: a mean over other splits does not compare
    means = costs.groupby(["table", "k"]).agg(lambda column: column.mean(skipna=False))
    peers = means.drop(columns=[name for name in METHODS if name in means])
    automl = [name for name in peers if name.startswith("autogluon")]
    found = pd.DataFrame({ours: means[ours], "splits": costs.groupby(["table", "k"]).size()})
    found["best peer"], found["its cost"] = (
        peers.drop(columns=automl).idxmin(axis=1),
        peers.drop(columns=automl).min(axis=1),
    )
    found["to best peer"] = ratio(found[ours], found["its cost"])
    if automl:
        found["AutoGluon"] = peers[automl].min(axis=1)
        found["to AutoGluon"] = ratio(found[ours], found["AutoGluon"])
        found["to best of all"] = found[["to best peer", "to AutoGluon"]].max(axis=1)
    return found.sort_values("to best peer", ascending=False)


def ratio(ours: pd.Series, theirs: pd.Series) -> pd.Series:
    """Divide; costs near 0 count as a thousandth of the constant decision's, so that no row decides the mean alone."""
    return ours.clip(lower=1e-3) / theirs.clip(lower=1e-3)


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Return geometric mean, worst row and rows cheaper for each kind of ratio."""
    lines = {}
    for name in [column for column in found if column.startswith("to ")]:
        known = found[name].dropna()
        lines[name] = {
            "geometric mean": np.exp(np.log(known).mean()), "worst row": known.max(),
            "rows cheaper": f"{(known < 1).sum()} of {len(known)}",
        }  # fmt: skip
    return pd.DataFrame(lines).T


def show(files: list[Path], ours: str) -> None:
    found = compare(files, ours)
    print(f"{ours} / peers, normalised test cost, means over the splits; below 1 we are cheaper. Losses first.")
    print("The best peer of a row is chosen by its test cost, with hindsight.\n")
    for part in (summary(found), found.reset_index()):
        print(markdown(part), end="\n\n")
    failed = pd.concat([pd.read_csv(file) for file in files]).dropna(subset="error")
    for (method, reason), rows in failed.groupby(["method", "error"]):
        print(f"failed: {method}, {len(rows)} rows ({', '.join(sorted(set(rows['table'])))}): {reason}")


def markdown(frame: pd.DataFrame) -> str:
    named = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index(names="")
    lines = [list(named.columns), ["---"] * len(named.columns)]
    lines += [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in row] for row in named.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = arguments(__doc__, METHODS, "methods")
    parser.add_argument("--budget", type=float, help="seconds of PortfolioClassifier; default: its own")
    parser.add_argument("--without", nargs="+", default=[], help="members of the portfolio to leave out")
    parser.add_argument("--show", type=Path, nargs="+", help="compare these files instead of running")
    options = parser.parse_args()
    options.methods = options.methods or ["portfolio"]
    if options.show:
        show(options.show, options.methods[0])
        return
    note = "" if options.budget is None else f"budget {options.budget:g} s"
    note += f" without {', '.join(options.without)}" if options.without else ""
    run(METHODS, options, note=note)


if __name__ == "__main__":
    main()
