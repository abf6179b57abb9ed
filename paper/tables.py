"""The reproduced tables and figures beside the paper's own: LaTeX, HTML, Markdown and pictures, from CSV files."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import stats

from adacsl.experiments.paper_figures import DATASETS, TABLE_1, TITLES, normalized
from adacsl.experiments.paper_pictures import FEW, draw_epochs, draw_methods, words_for
from adacsl.experiments.profiles import ABLATIONS, PROFILES, VALIDATION_SHARES, validation_recipes
from adacsl.experiments.sheets import Row, read_results
from adacsl.experiments.statistics import pairwise, summarise
from adacsl.experiments.subgroups import PER_CLASS
from adacsl.extras import requires

with requires("compare"):
    import pandas as pd

TEST, REST = 0.20, 0.80
"""Shares of the rows that are tested on and that are not: what the corrected intervals need."""

VIEW = ["dataset", "profile", "split"]
CONTESTS = (
    ("one net", "paper", "adacsl", ("ce", "ta", "smote", "wce")),
    ("one net", "modern", "adacsl", ("ce-bayes", "ce-tuned", "ce-calibrated", "wce", "wce-tuned", "focal")),
    ("last epoch", "modern", "adacsl-last", ("ce-bayes-last", "wce-last")),
    ("cross-fitted", "modern", "adacsl-cv", ("ce-bayes-cv", "ce-tuned-cv", "wce-cv")),
    ("no net trained", "modern", "adacsl", ("linear-bayes", "gbm-bayes", "gbm-tuned")),
    ("cross-fitted", "enlarged", "adacsl-cv-target-bayes-cautious", ("ce-bayes-cv", "ce-tuned-cv", "wce-cv")),
)
"""Whom AdaCSL has to beat: methods that had as much data, as many nets and the same selection."""

NOT_RUN = "not run yet"


# figures


def summary(rows: Sequence[Row]) -> pd.DataFrame:
    """Return mean and 95 % interval of the normalised cost by data set, profile, split, k and method.

    Intervals are those of the corrected resampled t-test (Nadeau and Bengio 2003); one run has none.
    """
    frame = pd.DataFrame(rows)
    tables = []
    for view, block in cast("Any", frame.groupby(VIEW, sort=False)):
        table = summarise(_as_results(block), measure="normalized_cost").astype({"ratio": int})
        table = table.rename(columns={"ratio": "k", "recipe": "method"})
        more = block.groupby(["k", "method"])[["cost", "accuracy"]].mean()
        about = dict(zip(VIEW, view, strict=True))
        tables.append(table.drop(columns=["data"]).join(more, on=["k", "method"]).assign(**about))
    columns = [*VIEW, "k", "method", "n", "mean", "low", "high", "cost", "accuracy"]
    return pd.concat(tables, ignore_index=True)[columns]


def _as_results(block: pd.DataFrame) -> pd.DataFrame:
    renamed = block.rename(columns={"dataset": "data", "k": "ratio", "method": "recipe"})
    return renamed.assign(n_train=REST, n_test=TEST)


class Claim(NamedTuple):
    """Whether "AdaCSL is cheapest" holds in one row: a paired test against each rival, adjusted after Holm."""

    contest: str
    dataset: str
    profile: str
    split: str
    k: int | None  # None: the mean over all k
    verdict: str  # confirmed, not confirmed, refuted or too few runs
    rival: str  # the cheapest of the others
    percent: float  # how much dearer that one is than AdaCSL
    percent_low: float
    percent_high: float
    p: float


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Test the paper's claim in every row, and for the mean over all k, which a few runs tell more about.

    Confirmed: every rival is significantly dearer than AdaCSL. Refuted: a rival is significantly cheaper. Not
    confirmed: anything between.
    """
    frame, found = pd.DataFrame(rows), []
    for contest, profile, champion, rivals in CONTESTS:
        contenders = frame[(frame["profile"] == profile) & frame["method"].isin([champion, *rivals])]
        for (dataset, split), block in cast("Any", contenders.groupby(["dataset", "split"], sort=False)):
            views: list[tuple[int | None, Any]] = [(int(k), part) for k, part in block.groupby("k", sort=False)]
            if len(views) > 1:
                views.append((None, _mean_over_k(block)))
            for k, part in views:
                if champion in set(part["method"]) and part["method"].nunique() > 1:
                    found.append(_judge(part, champion, (contest, str(dataset), profile, str(split), k)))
    return found


def _mean_over_k(block: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method and seed that was run for every k."""
    wide = block.pivot_table(index=["dataset", "method", "seed"], columns="k", values="normalized_cost").dropna()
    return wide.mean(axis=1).rename("normalized_cost").reset_index().assign(k=0)


def _judge(block: pd.DataFrame, champion: str, about: tuple[str, str, str, str, int | None]) -> Claim:
    others = pairwise(_as_results(block), champion, measure="normalized_cost")
    nearest = others.sort_values("difference", kind="stable").iloc[0]
    if others["pairs"].min() < 2:
        verdict = "too few runs"
    elif (others["standing"] == "clearly cheaper").any():
        verdict = "refuted"
    else:
        verdict = "confirmed" if (others["standing"] == "clearly worse").all() else "not confirmed"
    percent, low, high, p = (float(nearest[name]) for name in ("percent", "percent_low", "percent_high", "p"))
    return Claim(*about, verdict, str(nearest["recipe"]), percent, low, high, p)


# tables


class Grid(NamedTuple):
    """A table of text with a title and a note."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def grids(results: dict[str, list[Row]]) -> list[Grid]:
    """Return all tables that the results are enough for."""
    found = []
    if results["table2"]:
        table = summary(results["table2"])
        found += [_overview(table), *_method_grids(table), _claim_grid(claims(results["table2"]))]
    for profile in dict.fromkeys(row["profile"] for row in results["ablations"]):
        found.append(_ablation_grid([*results["table2"], *results["ablations"]], profile))
    if results["table1"]:
        found += [_subgroup_grid(results["table1"]), _subgroup_totals(results["table1"])]
    return found


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
    for dataset, k in _cases(table):
        ours = (_entry(table, dataset, k, *where, count=True) for where in columns.values())
        rows.append((dataset, str(k), _printed(dataset, k, "adacsl"), *ours))
    note = "Normalised cost: 1 is calling everything positive. In brackets 95 % intervals (corrected resampled t)."
    return Grid("overview", "AdaCSL: the paper's figures and ours", ("data", "k", "paper", *columns), rows, note)


def _method_grids(table: pd.DataFrame) -> list[Grid]:
    found = []
    for (dataset, profile, split), block in cast("Any", table.groupby(VIEW, sort=False)):
        factors = sorted(block["k"].unique().tolist())
        order = PROFILES[str(profile)].methods
        rows = []
        for method in sorted(set(block["method"]), key=lambda m: order.index(m) if m in order else len(order)):
            ours = (_entry(table, str(dataset), k, str(profile), str(split), method) for k in factors)
            printed = (_printed(str(dataset), k, method) for k in factors) if profile == "paper" else ()
            name = TITLES.get(method, method) if profile == "paper" else method
            rows.append((name, *ours, *printed))
        header = ("method", *(f"k = {k}" for k in factors))
        header += tuple(f"paper, k = {k}" for k in factors) if profile == "paper" else ()
        few, runs = int(block["n"].min()), int(block["n"].max())
        title = f"{dataset}, profile {profile}, {'split by group' if split == 'group' else 'random split'}"
        some = runs if few == runs else f"{few} to {runs}"
        note = f"Normalised cost, means of {some} runs; in brackets 95 % intervals, from three runs on."
        note += "" if few == runs else " Means of few runs are not to be compared with those of more: splits differ."
        found.append(Grid(_slug("table2", dataset, profile, split), title, header, rows, note))
    return found


def _claim_grid(found: Sequence[Claim]) -> Grid:
    rows = [
        (c.dataset, c.profile, c.split, c.contest, _factor(c.k), c.verdict, c.rival, _per_cent(*c[7:10]), _p(c.p))
        for c in found
    ]
    header = ("data", "profile", "split", "contest", "k", "claim", "cheapest rival", "dearer by", "p")
    note = (
        "Confirmed: every rival is significantly dearer (paired corrected t-tests, Holm, 5 %). Refuted: a rival is "
        "significantly cheaper. Not confirmed: neither. k = all: the mean cost over the k of each run."
    )
    return Grid("claims", 'The claim "AdaCSL is cheapest", row by row', header, rows, note)


def _factor(k: int | None) -> str:
    return "all" if k is None else str(k)


def _per_cent(mean: float, low: float, high: float) -> str:
    if not math.isfinite(mean):
        return "-"
    return f"{mean:z.0f} %" if not math.isfinite(low) else f"{mean:z.0f} % ({low:z.0f} to {high:z.0f})"


def _p(p: float) -> str:
    return "-" if not math.isfinite(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _ablation_grid(results: Sequence[Row], profile: str) -> Grid:
    groups = {"reference": ["adacsl"], "target": ["adacsl-target-bayes", "adacsl-target-middle", "adacsl-auto"]}
    for name, recipes in ABLATIONS.items():
        groups.setdefault(name, []).extend(recipe.name for recipe in recipes)
    groups["validation"] = [recipe.name for share in VALIDATION_SHARES for recipe in validation_recipes(share)]
    groups["select"] = ["adacsl-last", "ce-bayes", "ce-bayes-last", "wce", "wce-last"]
    table = summary(results)
    table = table[(table["profile"] == profile) & (table["split"] == "random")]
    dataset = str(table["dataset"].iloc[0])
    table = table[table["dataset"] == dataset]
    factors = sorted(table["k"].unique().tolist())
    runs = table.groupby("method")["n"].min()
    against = _against_reference(
        [r for r in results if (r["dataset"], r["profile"], r["split"]) == (dataset, profile, "random")]
    )
    rows = [
        (
            group,
            method,
            *(_entry(table, dataset, k, profile, "random", method) for k in factors),
            str(runs[method]),
            against.get(method, "-"),
        )
        for group, methods in groups.items()
        for method in methods
        if method in runs.index
    ]
    header = ("question", "method", *(f"k = {k}" for k in factors), "runs", "dearer than adacsl")
    note = (
        "Normalised cost. Last column: the mean over all k against the reference of the same runs (95 % intervals, "
        "from three runs on)."
    )
    title = f"Ablations on {dataset}, profile {profile}, random split"
    return Grid(_slug("ablations", profile), title, header, rows, note)


def _against_reference(results: Sequence[Row], reference: str = "adacsl") -> dict[str, str]:
    """Return how much dearer each method is than the reference, on the runs that both have for every k."""
    means = _mean_over_k(pd.DataFrame(results))
    if reference not in set(means["method"]):
        return {}
    others = pairwise(_as_results(means), reference, measure="normalized_cost")
    some = others.assign(percent_low=others["percent_low"].where(others["pairs"] > FEW))
    numbers = zip(some["recipe"], some["percent"], some["percent_low"], some["percent_high"], strict=True)
    return {str(method): _per_cent(*three) for method, *three in numbers}


def _subgroup_grid(rows: Sequence[Row]) -> Grid:
    frame = pd.DataFrame(rows)
    runs = frame["seed"].nunique()
    printed = {line.number: line for line in TABLE_1}
    found = []
    for number, block in cast("Any", frame.groupby("bin")):
        mean, line = block.mean(numeric_only=True), printed.get(number)
        accuracies = (f"{mean[name]:.1%}" for name in ("val_acc_1", "val_acc_without", "val_acc_with"))
        losses = (f"{mean[name]:.3f}" for name in ("val_ce_without", "val_ce_with"))
        theirs = ("-", "-") if line is None else (f"{line.ce_without:.3f}", f"{line.ce_with:.3f}")
        size = f"{block['size'].sum() / runs:.1f}"
        found.append((f"{(number - 1) / 10:.1f}-{number / 10:.1f}", size, *accuracies, *losses, *theirs))
    header = (
        *("probability", "size", "acc, epoch 1", "acc without", "acc with", "CE without", "CE with"),
        *("paper: CE without", "paper: CE with"),
    )
    title = f"Table 1 on {frame['dataset'].iloc[0]} (balanced, {runs} runs), epoch 2 by subgroup"
    note = "Validation pictures, in the subgroup of their probability after epoch 1."
    return Grid("table1", title, header, found, note)


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
        ("CE saved, per picture", _plain_interval(ce, 4), "5.98 % in the mean of the subgroups"),
        ("cost saved, total", _plain_interval(cost, 1), "10 %, 88 to 80"),
    ]
    return Grid("table1-totals", "Table 1, all subgroups together", ("", "ours", "paper"), body)


def _plain_interval(values: np.ndarray[Any, Any], digits: int) -> str:
    mean, n = float(values.mean()), len(values)
    if n < 2:
        return f"{mean:.{digits}f}"
    spread = float(values.std(ddof=1)) * math.sqrt(1 / n + PER_CLASS[1] / PER_CLASS[0])  # runs share pictures
    half = float(stats.t.ppf(0.975, n - 1)) * spread
    return f"{mean:.{digits}f} ({mean - half:.{digits}f} to {mean + half:.{digits}f})"


def _cases(table: pd.DataFrame) -> list[tuple[str, int]]:
    cases = {(str(d), int(k)) for d, k in zip(table["dataset"], table["k"], strict=True)}
    order = {name: place for place, name in enumerate(DATASETS)}
    return sorted(cases, key=lambda case: (order.get(case[0], len(order)), *case))


def _entry(
    table: pd.DataFrame, dataset: str, k: int, profile: str, split: str, method: str, *, count: bool = False
) -> str:
    wanted = (table["dataset"] == dataset) & (table["k"] == k) & (table["profile"] == profile)
    rows = table[wanted & (table["split"] == split) & (table["method"] == method)]
    if rows.empty:
        return NOT_RUN
    row = rows.iloc[0]
    mean = f"{row['mean']:.3f}"
    if row["n"] == FEW:
        return f"{mean} ({FEW} runs)" if count else mean
    return mean if not math.isfinite(row["low"]) else f"{mean} ({row['low']:.3f}-{row['high']:.3f})"


def _printed(dataset: str, k: int, method: str) -> str:
    value = normalized(dataset, k, method)
    return "-" if value is None else f"{value:.3f}"


def _slug(*words: Any) -> str:
    return re.sub(r"[^a-z0-9]+", "-", " ".join(map(str, words)).lower()).strip("-")


# writing


LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": "$<$",
    ">": "$>$",
}


def to_latex(grid: Grid) -> str:
    """Return a table for ``booktabs``."""
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{_tex(grid.title)}. {_tex(grid.note)}}}".replace(". }", ".}"),
        rf"\label{{tab:{grid.name}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(grid.header) - 1)}}}",
        r"\toprule",
        " & ".join(map(_tex, grid.header)) + r" \\",
        r"\midrule",
        *(" & ".join(map(_tex, row)) + r" \\" for row in grid.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def to_markdown(grid: Grid) -> str:
    """Return a table for the documentation."""
    cells = [grid.header, ("---",) * len(grid.header), *grid.rows]
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in cells]
    return "\n".join([f"**{grid.title}**", "", *lines, *(("", grid.note) if grid.note else ())]) + "\n"


def to_html(grids_: Iterable[Grid], pictures: Sequence[Path]) -> str:
    """Return one page that needs no other file."""
    parts = []
    for grid in grids_:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in grid.header)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in grid.rows)
        parts.append(
            f'<section id="{html.escape(grid.name)}"><h2>{html.escape(grid.title)}</h2><div class="wide"><table><thead>'
            f"<tr>{head}</tr></thead><tbody>{body}</tbody></table></div><p>{html.escape(grid.note)}</p></section>"
        )
    for picture in pictures:
        content = base64.b64encode(picture.read_bytes()).decode()
        words = html.escape(words_for(picture))
        image = f'<img src="data:image/png;base64,{content}" alt="{words}">'
        parts.append(f"<figure>{image}<figcaption>{words}</figcaption></figure>")
    return PAGE.replace("BODY", "\n".join(parts))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>The paper, reproduced</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.3rem .8rem;border-bottom:1px solid #8886;text-align:left;white-space:nowrap}img{max-width:100%}
</style></head><body><h1>The paper, reproduced</h1>
BODY
</body></html>
"""


def write_pictures(results: dict[str, list[Row]], folder: Path) -> list[Path]:
    """Draw Table 2 and Figure 1 as PNG files and return their paths; none where matplotlib is missing."""
    made = draw_methods(summary(results["table2"]), folder) if results["table2"] else []
    return made + (draw_epochs(results["figure1"], folder) if results["figure1"] else [])


def write_report(results: Path, folder: Path) -> list[Path]:
    """Write LaTeX tables, Figure 1 and one HTML page from the CSV files of a folder; return their paths."""
    found = read_results(results)
    tables = grids(found)
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for part in ("table1", "table2", "ablations"):
        own = [grid for grid in tables if _part(grid) == part]
        if own:
            path = folder / f"{part}.tex"
            path.write_text("\n".join(to_latex(grid) for grid in own), encoding="utf-8")
            made.append(path)
    pictures = write_pictures(found, folder)
    page = folder / "paper.html"
    page.write_text(to_html(tables, pictures), encoding="utf-8")
    return [*made, *pictures, page]


def _part(grid: Grid) -> str:
    return next((part for part in ("table1", "ablations") if grid.name.startswith(part)), "table2")


__all__ = [
    "CONTESTS",
    "Claim",
    "Grid",
    "claims",
    "grids",
    "summary",
    "to_html",
    "to_latex",
    "to_markdown",
    "write_pictures",
    "write_report",
]
