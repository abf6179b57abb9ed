"""The page of the ensemble's benchmark at release 0.2.0, from its published results.

    python -m benchmarks.quality.ensemble --show OURS.csv PEERS.csv
    python -m benchmarks.quality.ensemble --page benchmarks/results/ensemble.md

The fits were made with the commands of that release; what fits today is benchmarks/quality/peers. The best peer of a
row is the one with the least mean cost on the *test* rows: a choice nobody could have made beforehand, in the peers'
favour.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

OWN = ("ensemble", "adacsl-net", "adacsl-boosting")


def compare(files: list[Path], ours: str = "ensemble") -> pd.DataFrame:
    """Return a line per table and k, losses first: our mean cost, the best peer's, AutoGluon's, and the ratios."""
    rows = pd.concat([pd.read_csv(file, dtype={"digest": str}) for file in files])
    digests = rows.groupby(["table", "split"])["digest"].nunique()
    if (digests > 1).any():
        raise SystemExit(f"measured on different rows: {list(digests[digests > 1].index)}")
    costs = rows.pivot(index=["table", "k", "split"], columns="method", values="normalized_cost")
    costs = costs[costs[ours].notna()]
    # a peer that failed on a split of a row is out of that row: a mean over other splits does not compare
    means = costs.groupby(["table", "k"]).agg(lambda column: column.mean(skipna=False))
    peers = means.drop(columns=[name for name in OWN if name in means])
    automl = [name for name in peers if name.startswith("autogluon")]
    result = pd.DataFrame({ours: means[ours], "splits": costs.groupby(["table", "k"]).size()})
    result["best peer"], result["its cost"] = (
        peers.drop(columns=automl).idxmin(axis=1),
        peers.drop(columns=automl).min(axis=1),
    )
    result["to best peer"] = ratio(result[ours], result["its cost"])
    if automl:
        result["AutoGluon"] = peers[automl].min(axis=1)
        result["to AutoGluon"] = ratio(result[ours], result["AutoGluon"])
        result["to best of all"] = result[["to best peer", "to AutoGluon"]].max(axis=1)
    return result.sort_values("to best peer", ascending=False)


def each_peer(files: list[Path], ours: str = "ensemble") -> pd.DataFrame:
    """Return our cost relative to each peer's, the best peer first: the gain over using it throughout."""
    rows = pd.concat([pd.read_csv(file) for file in files])
    costs = rows.pivot(index=["table", "k", "split"], columns="method", values="normalized_cost")
    means = costs[costs[ours].notna()].groupby(["table", "k"]).agg(lambda column: column.mean(skipna=False))
    ratios = {f"to {name}": ratio(means[ours], means[name]) for name in means if name not in OWN}
    return summary(pd.DataFrame(ratios)).sort_values("geometric mean", ascending=False)


def ratio(ours: pd.Series, theirs: pd.Series) -> pd.Series:
    """Divide; costs near 0 count as a thousandth of the constant decision's, so that no row decides the mean alone."""
    return ours.clip(lower=1e-3) / theirs.clip(lower=1e-3)


def summary(result: pd.DataFrame) -> pd.DataFrame:
    """Return geometric mean, worst row and rows cheaper for each kind of ratio."""
    lines = {}
    for name in [column for column in result if column.startswith("to ")]:
        known = result[name].dropna()
        lines[name] = {
            "geometric mean": np.exp(np.log(known).mean()), "worst row": known.max(),
            "rows cheaper": f"{(known < 1).sum()} of {len(known)}",
        }  # fmt: skip
    return pd.DataFrame(lines).T


def show(files: list[Path], ours: str) -> str:
    """Return the comparison as Markdown: summary, rows with losses first, what failed."""
    result = compare(files, ours)
    others = result.drop(index="ann_thyroid", level="table", errors="ignore")
    lines = [
        f"`{ours}` / peers: mean normalised test cost over the splits; below 1 ours is lower. The best peer of a row",
        "is chosen by its *test* cost (an oracle): this favours the peers.\n",
        markdown(summary(result)), "", "Without `ann_thyroid`, where the ratios are largest:\n",
        markdown(summary(others)), "", markdown(result.reset_index()), "",
    ]  # fmt: skip
    failed = pd.concat([pd.read_csv(file) for file in files]).dropna(subset="error")
    for (method, reason), rows in failed.groupby(["method", "error"]):
        lines.append(f"failed: {method}, {len(rows)} rows ({', '.join(sorted(set(rows['table'])))}): {reason}")
    return "\n".join(lines)


def page(folder: Path) -> str:
    """Return the page of the docs, from the committed results."""
    peers = folder / "ensemble_peers.csv"
    automl = compare_automl([folder / "ensemble_60s.csv", folder / "ensemble_autogluon.csv"])
    others = automl.drop(index="ann_thyroid", level="table")
    first = summary(compare([folder / "ensemble_first.csv", peers]))
    own = summary(compare([folder / "ensemble_first.csv", peers], "adacsl-net"))
    boosting = summary(compare([folder / "ensemble_first.csv", peers], "adacsl-boosting"))
    return PAGE.format(
        table=show([folder / "ensemble.csv", peers], "ensemble"),
        each=markdown(each_peer([folder / "ensemble.csv", peers])), first=markdown(first), nets=markdown(own),
        boosting=markdown(boosting), automl=markdown(automl.reset_index()), automl_mean=markdown(summary(automl)),
        automl_others=markdown(summary(others)), own=markdown(each_own(folder)),
    )  # fmt: skip


def each_own(folder: Path) -> pd.DataFrame:
    """Return what today's ensemble costs relative to our other estimators, on the rows these were run on."""
    rows = pd.concat([pd.read_csv(folder / "ensemble_first.csv").query("method != 'ensemble'"),
                      pd.read_csv(folder / "ensemble.csv")])  # fmt: skip
    costs = rows.pivot(index=["table", "k", "split"], columns="method", values="normalized_cost").dropna()
    means = costs.groupby(["table", "k"]).mean()
    names = [name for name in means if name != "ensemble"]
    return summary(pd.DataFrame({f"to {name}": ratio(means["ensemble"], means[name]) for name in names}))


def compare_automl(files: list[Path]) -> pd.DataFrame:
    """Return a line per table and k, losses first: our mean cost and AutoGluon's, fitted in the same seconds."""
    rows = pd.concat([pd.read_csv(file, dtype={"digest": str}) for file in files])
    means = rows.pivot_table(index=["table", "k"], columns="method", values="normalized_cost")
    means["to AutoGluon"] = ratio(means["ensemble"], means["autogluon"])
    return means.sort_values("to AutoGluon", ascending=False)


PAGE = """<!-- made by benchmarks/quality/ensemble.py --page: do not edit -->

# Ensemble benchmark

Nine tables (at most 10,000 samples, card fraud 50,000), costs of inverse priors with false negatives k = 1, 3, 5 times
as costly, five splits (100 to 104) not used for any choice, 25 % for the test; cost relative to the constant
baseline. The goal set in advance was 0.88 of the best single peer in the mean and 1.01 in the worst row: **both are
missed**. The goal of 0.97 of AutoGluon, given the same time, is met, by thyroid alone.

{table}

## Against each peer

The best peer of a table is not known in advance. Against one peer used throughout:

{each}

## AutoGluon, with the same seconds

60 seconds and one core for each fit. AutoGluon 1.6.3: its default models, bagged in five folds, log loss, with
the Bayes threshold (`python -m benchmarks.quality.ensemble_peers --peers autogluon --seconds 60 --threads 1`, one core
of a 2-core AMD EPYC, the other of which was busy; CatBoost, fastai and torch installed, ray not). Ours:
`python -m benchmarks.quality.ensemble --time-limit 60 --jobs 9` without CatBoost, on one core each of an Intel Xeon
server (nine at a time). The machines differ; no ratio is corrected for it.

{automl_mean}

Without `ann_thyroid`:

{automl_others}

{automl}

## How it was run

At release 0.2.0, with the commands it had then (today's: [benchmark of peers](peers.md)), 2026-11-16:
`python -m benchmarks.quality.ensemble --without catboost --jobs 2 --threads 1 --out
benchmarks/results/ensemble.csv` (without CatBoost, as in the first run, see below; with it installed it
takes part; card fraud, splits 100, 103 and 104, on the Intel Xeon server) and
`python -m benchmarks.quality.ensemble_peers`, on 2 cores of an AMD EPYC.
This page: `python -m benchmarks.quality.ensemble --page benchmarks/results/ensemble.md`.

## The first run, and what was changed after it

On the same splits, with a stack of plain log loss (`benchmarks/results/ensemble_first.csv`; without card fraud):

{first}

Its losses were at k = 5. On *other* splits (0 to 2) of six tables, a stack halfway between log loss and cost cost 3 %
less than one of log loss, at most 0.6 % more in a row, and became the default. So the table above is the second
evaluation on its test samples, after one change chosen elsewhere.

## Our estimators alone

Cost of the current ensemble relative to each (eight tables; card fraud was not run with them). Not every row is
below 1, as was the goal:

{own}

AdaCSL networks, `AdaCSLClassifier(cv=5)`, first run:

{nets}

Boosting, `AdaCSLClassifier(cv=5)` (XGBoost), first run:

{boosting}

## Base estimators of the ensemble

Before this benchmark thirteen candidate base estimators were cross-fitted on splits 0 to 2, which it does not use, and
stacked. Two LightGBM settings, XGBoost, logistic regression, plain networks and networks with ramps cost as little as
any larger set (differences below 0.5 % in the geometric mean, without card fraud, of which one split was run). Extra
trees, AdaCSL networks and TabM added nothing **jointly with these**: they take part when named. Networks were trained
for up to sixty epochs there, and had 16 ramps; the current ones have fifteen epochs and 32 ramps. TabM had the lowest
cost of a single base estimator, and needs ten times the time of the others. scikit-learn's boosting is the fallback
where no other is installed: with logistic regression and networks it costs 2.5 % more. CatBoost could not be run there;
it takes part where it is installed.
"""


def markdown(frame: pd.DataFrame) -> str:
    named = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index(names="")
    lines = [list(named.columns), ["---"] * len(named.columns)]
    lines += [[f"{v:.4f}" if isinstance(v, float) else str(v) for v in row] for row in named.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", type=Path, nargs="+", help="compare these files")
    parser.add_argument("--page", type=Path, help="write the page from the committed results")
    options = parser.parse_args()
    if options.show:
        print(show(options.show, "ensemble"))
    if options.page:
        options.page.write_text(page(Path(__file__).parents[1] / "results"))


if __name__ == "__main__":
    main()
