"""The reproduced tables beside the paper's own, as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from paper.claims import VIEW, Claim, claims, mean_over_k, summary
from paper.intervals import against, estimate
from paper.methods import ABLATIONS, PROFILES, VALIDATION_SHARES, validation_methods
from paper.plots import FEW
from paper.printed import DATASETS, METHODS, SPLIT_TITLES, TABLE_1, TITLES, normalized, title_of
from paper.sheets import Row
from paper.subgroups import PER_CLASS

NOT_RUN = "not run yet"
CORE = (
    *METHODS, "net-bayes", "net-tuned", "net-calibrated", "net-bayes-cv", "net-tuned-cv", "adacsl-cv",
    "linear-bayes", "gbm-bayes",
)  # fmt: skip
"""The paper's methods and strong baselines, in the short table of a data set."""


class Grid(NamedTuple):
    """A table of text with a title and a note."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def grids(results: dict[str, list[Row]]) -> list[Grid]:
    """Return all tables that the results are enough for."""
    result = []
    if results["table2"]:
        table = summary(results["table2"])
        result += [_overview(table), *_method_grids(table), _claim_grid(claims(results["table2"]))]
    for profile in dict.fromkeys(row["profile"] for row in results["ablations"]):
        result.append(_ablation_grid([*results["table2"], *results["ablations"]], profile))
    if results["table1"]:
        result += [_subgroup_grid(results["table1"]), _subgroup_totals(results["table1"])]
    return result


def _overview(table: pd.DataFrame) -> Grid:
    """Return the paper's AdaCSL beside ours, in all ways that were run."""
    ways = {
        "ours, paper profile": ("paper", "random", "adacsl"),
        "ours, modern": ("modern", "random", "adacsl"),
        "ours, modern, cross-fitted": ("modern", "random", "adacsl-cv"),
        "modern, cross-fitted, by group": ("modern", "group", "adacsl-cv"),
        "enlarged, cross-fitted, cautious": ("enlarged", "random", "adacsl-cv-target-bayes-cautious"),
    }
    run = set(table[["profile", "split", "method"]].itertuples(index=False, name=None))
    columns = {title: where for title, where in ways.items() if where in run}
    rows = []
    for split in ("random", "patient"):
        for dataset, k in _cases(table[table["split"] == split]):
            name = title_of(dataset) + (f", {SPLIT_TITLES[split]}" if split == "patient" else "")
            ours = (
                _entry(table, dataset, k, profile, split if usual == "random" else usual, method, count=True)
                for profile, usual, method in columns.values()
            )
            rows.append((name, str(k), _printed(dataset, k, "adacsl"), *ours))
    note = "Normalised cost: 1 is calling everything positive. In brackets 95 % intervals (corrected resampled t)."
    return Grid("overview", "AdaCSL: the paper's figures and ours", ("data", "k", "paper", *columns), rows, note)


def dataset_grid(rows: Sequence[Row], dataset: str) -> Grid | None:
    """Return the core methods of a data set in all profiles and splits beside the paper's; None where none was run."""
    own = [row for row in rows if row["dataset"] == dataset and row["method"] in CORE]
    if not own:
        return None
    table = summary(own)
    factors = sorted(table["k"].unique().tolist())
    views = sorted(
        set(table[["profile", "split", "method"]].itertuples(index=False, name=None)),
        key=lambda view: (list(PROFILES).index(view[0]), list(SPLIT_TITLES).index(view[1]), CORE.index(view[2])),
    )
    body = [
        (
            f"{profile}, {SPLIT_TITLES[split]}",
            method,
            *(_entry(table, dataset, k, profile, split, method, count=True) for k in factors),
            *(_printed(dataset, k, method) if split == "random" else "-" for k in factors),
        )
        for profile, split, method in views
    ]
    header = ("profile, split", "method", *(f"k = {k}" for k in factors), *(f"paper, k = {k}" for k in factors))
    few, runs = int(table["n"].min()), int(table["n"].max())
    note = f"Normalised cost, means of {runs if few == runs else f'{few} to {runs}'} runs with 95 % intervals."
    note += "" if few == runs else " Means of few runs are not to be compared with those of more: splits differ."
    return Grid(_slug("dataset", dataset), title_of(dataset), header, body, note)


def _method_grids(table: pd.DataFrame) -> list[Grid]:
    result = []
    for (dataset, profile, split), block in cast("Any", table.groupby(VIEW, sort=False)):
        factors = sorted(block["k"].unique().tolist())
        order = PROFILES[str(profile)].order
        rows = []
        for method in sorted(set(block["method"]), key=lambda m: order.index(m) if m in order else len(order)):
            ours = (_entry(table, str(dataset), k, str(profile), str(split), method) for k in factors)
            printed = (_printed(str(dataset), k, method) for k in factors) if profile == "paper" else ()
            name = TITLES.get(method, method) if profile == "paper" else method
            rows.append((name, *ours, *printed))
        header = ("method", *(f"k = {k}" for k in factors))
        header += tuple(f"paper, k = {k}" for k in factors) if profile == "paper" else ()
        few, runs = int(block["n"].min()), int(block["n"].max())
        title = f"{title_of(str(dataset))}, profile {profile}, {SPLIT_TITLES[str(split)]}"
        some = runs if few == runs else f"{few} to {runs}"
        note = f"Normalised cost, means of {some} runs; in brackets 95 % intervals, from three runs on."
        note += "" if few == runs else " Means of few runs are not to be compared with those of more: splits differ."
        result.append(Grid(_slug("table2", dataset, profile, split), title, header, rows, note))
    return result


def _claim_grid(result: Sequence[Claim]) -> Grid:
    rows = [
        (
            *(title_of(c.dataset), c.profile, c.split, c.comparison, "all" if c.k is None else str(c.k)),
            *(c.result, c.other, _per_cent(c.percent, c.percent_low, c.percent_high), _p(c.p)),
        )
        for c in result
    ]
    header = ("data", "profile", "split", "compared", "k", "claim", "cheapest other", "its extra cost", "p")
    note = (
        "Confirmed: every other method costs significantly more (paired corrected t-tests, Holm, 5 %). Refuted: "
        "another costs significantly less. Not confirmed: neither. k = all: the mean cost over the k of each run."
    )
    return Grid("claims", 'The claim "AdaCSL costs least"', header, rows, note)


def _per_cent(mean: float, low: float, high: float) -> str:
    if not math.isfinite(mean):
        return "-"
    return f"{mean:z.0f} %" if not math.isfinite(low) else f"{mean:z.0f} % ({low:z.0f} to {high:z.0f})"


def _p(p: float) -> str:
    return "-" if not math.isfinite(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _ablation_grid(results: Sequence[Row], profile: str) -> Grid:
    groups = {"reference": ["adacsl"], "target": ["adacsl-target-bayes", "adacsl-target-middle", "adacsl-auto"]}
    for name, methods in ABLATIONS.items():
        groups.setdefault(name, []).extend(methods)
    groups["validation"] = [name for share in VALIDATION_SHARES for name in validation_methods(share)]
    groups["select"] = ["adacsl-last", "net-bayes", "net-bayes-last", "net-weighted", "net-weighted-last"]
    table = summary(results)
    table = table[(table["profile"] == profile) & (table["split"] == "random")]
    dataset = str(table["dataset"].iloc[0])
    table = table[table["dataset"] == dataset]
    factors = sorted(table["k"].unique().tolist())
    runs = table.groupby("method")["n"].min()
    extra = _against_reference(
        [r for r in results if (r["dataset"], r["profile"], r["split"]) == (dataset, profile, "random")]
    )
    rows = [
        (
            group,
            method,
            *(_entry(table, dataset, k, profile, "random", method) for k in factors),
            str(runs[method]),
            extra.get(method, "-"),
        )
        for group, names in groups.items()
        for method in names
        if method in runs.index
    ]
    header = ("question", "method", *(f"k = {k}" for k in factors), "runs", "extra cost over adacsl")
    note = (
        "Normalised cost. Last column: the mean over all k against the reference of the same runs (95 % intervals, "
        "from three runs on)."
    )
    title = f"Ablations on {dataset}, profile {profile}, random split"
    return Grid(_slug("ablations", profile), title, header, rows, note)


def _against_reference(results: Sequence[Row], reference: str = "adacsl") -> dict[str, str]:
    """Return the extra cost of each method over the reference, on the runs that both have for every k."""
    means = mean_over_k(pd.DataFrame(results))
    if reference not in set(means["method"]):
        return {}
    others = against(means, reference)
    some = others.assign(percent_low=others["percent_low"].where(others["pairs"] > FEW))
    numbers = zip(some["method"], some["percent"], some["percent_low"], some["percent_high"], strict=True)
    return {str(method): _per_cent(*three) for method, *three in numbers}


def _subgroup_grid(rows: Sequence[Row]) -> Grid:
    frame = pd.DataFrame(rows)
    runs = frame["seed"].nunique()
    printed = {line.number: line for line in TABLE_1}
    result = []
    for number, block in cast("Any", frame.groupby("bin")):
        mean, line = block.mean(numeric_only=True), printed.get(number)
        accuracies = (f"{mean[name]:.1%}" for name in ("val_acc_1", "val_acc_without", "val_acc_with"))
        losses = (f"{mean[name]:.3f}" for name in ("val_ce_without", "val_ce_with"))
        theirs = ("-", "-") if line is None else (f"{line.ce_without:.3f}", f"{line.ce_with:.3f}")
        size = f"{block['size'].sum() / runs:.1f}"
        result.append((f"{(number - 1) / 10:.1f}-{number / 10:.1f}", size, *accuracies, *losses, *theirs))
    header = (
        *("probability", "size", "acc, epoch 1", "acc without", "acc with", "CE without", "CE with"),
        *("paper: CE without", "paper: CE with"),
    )
    title = f"Table 1 on {frame['dataset'].iloc[0]} (balanced, {runs} runs), epoch 2 by subgroup"
    note = "Validation images, in the subgroup of their probability after epoch 1."
    return Grid("table1", title, header, result, note)


def _subgroup_totals(rows: Sequence[Row]) -> Grid:
    """Return what the adjustment did over all subgroups, paired over the runs."""
    frame = pd.DataFrame(rows)
    sums = frame.assign(
        ce_without=frame["val_ce_without"] * frame["size"], ce_with=frame["val_ce_with"] * frame["size"]
    ).groupby("seed")[["size", "val_cost_without", "val_cost_with", "ce_without", "ce_with"]].sum()  # fmt: skip
    better = (frame["val_ce_with"] < frame["val_ce_without"]).mean()
    cost = sums["val_cost_without"].to_numpy() - sums["val_cost_with"].to_numpy()
    ce = (sums["ce_without"] - sums["ce_with"]).to_numpy() / sums["size"].to_numpy()
    body = [
        ("subgroups with lower CE", f"{better:.0%}", "100 % (8 of 8)"),
        ("CE saved, per image", _plain_interval(ce, 4), "5.98 % in the mean of the subgroups"),
        ("cost saved, total", _plain_interval(cost, 1), "10 %, 88 to 80"),
    ]
    return Grid("table1-totals", "Table 1, all subgroups together", ("", "ours", "paper"), body)


def _plain_interval(values: np.ndarray[Any, Any], digits: int) -> str:
    n, mean, low, high, _ = estimate(values, PER_CLASS[1] / PER_CLASS[0])  # runs share images
    return f"{mean:.{digits}f}" if n < 2 else f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _cases(table: pd.DataFrame) -> list[tuple[str, int]]:
    cases = {(str(d), int(k)) for d, k in zip(table["dataset"], table["k"], strict=True)}
    order = {name: place for place, name in enumerate(DATASETS)}
    return sorted(cases, key=lambda case: (order.get(case[0], len(order)), *case))


def _entry(
    table: pd.DataFrame, dataset: str, k: int, profile: str, split: str, method: str, *, count: bool = False
) -> str:
    if (dataset, profile, split, k, method) not in table.index:
        return NOT_RUN
    entries: Any = table.loc
    row = entries[dataset, profile, split, k, method]
    n, average, low, high = row["n"], row["mean"], row["low"], row["high"]
    mean = f"{average:.3f}"
    if n == FEW:
        return f"{mean} ({FEW} runs)" if count else mean
    return mean if not math.isfinite(low) else f"{mean} ({low:.3f}-{high:.3f})"


def _printed(dataset: str, k: int, method: str) -> str:
    value = normalized(dataset, k, method)
    return "-" if value is None else f"{value:.3f}"


def _slug(*words: Any) -> str:
    return re.sub(r"[^a-z0-9]+", "-", " ".join(map(str, words)).lower()).strip("-")
