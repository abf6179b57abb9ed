"""Write the pages of benchmarks/results: speed.md, tables.md and images.md (costs), statistics.md.

python -m benchmarks.publish

Speed: every ``*.json`` of the harness. Costs: ``ham10k_image.csv``, ``ham10k_lesion.csv`` and ``tables.csv``, each with
an optional ``NAME.meta.json`` that holds ``date``, ``device``, ``command`` and, where it helps, ``versions`` and
``note``; ``suite.csv`` as benchmarks/quality/suite.py writes it; the paper's Table 2. Statistics: ``cpu_power.json``
and ``recommendation_regret.json``. What is not there is marked as not measured; every interval names its method.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.publish_evidence import evidence_page

ROOT = Path(__file__).resolve().parent.parent
ORDER = (
    "cpu_threshold_search", "h200_threshold_search", "cpu_multiplier_search", "h200_multiplier_search", "cpu_loss",
    "h200_loss",
    "cpu_loss_classes", "h200_loss_classes", "cpu_import_time",
    "h200_epoch_time", "h200_crossfit_time", "cpu_crossfit_time",
    "cpu_busy_threshold_search", "cpu_busy_loss", "cpu_busy_import_time",
)  # fmt: skip

HEAD = """\
<!-- made by benchmarks/publish.py from benchmarks/results/*.json: do not edit -->

# Benchmarks

Ratios of our time to a yardstick's time, both measured in turns in one run (median over the rounds). Below 1 we are
faster. Times are medians with interquartile ranges. "Bar" is what the project demands of itself. How they are measured
is a contract, in `benchmarks/README.md`; missed bars are published like the others. Runs on a machine that other work
kept busy are shown last, under that name.
"""


def main(root: Path = ROOT) -> None:
    folder = root / "benchmarks/results"
    every = {p.stem: json.loads(p.read_text()) for p in sorted(folder.glob("*.json")) if not p.stem.endswith(".meta")}
    # those of the harness: our time beside another
    result = {name: run for name, run in every.items() if "results" in run and "ours" in next(iter(run["results"]), "")}
    runs = {name: result[name] for name in [*(n for n in ORDER if n in result), *(n for n in result if n not in ORDER)]}
    short = f"\n## In short\n\n{short_table(runs)}\n" if runs else "\nNot measured yet with this version.\n"
    (folder / "speed.md").write_text(HEAD + short + "".join(section(run, name) for name, run in runs.items()))
    studies = read_studies(folder)
    bars = all_bars(studies, runs)
    page = RESULTS_HEAD + suite_section(folder) + plain_threshold(folder)
    page += f"\n## The bars\n\n{bar_table(bars, studies)}\n{words_read(studies)}" + table_section(studies.get("tables"))
    page += bank_section(every.get("cpu_instance_costs")) + fraud_section(every.get("cpu_fraud_fit"))
    page += policy_section(every.get("cpu_policies")) + predict_section(every.get("cpu_predict_memory"))
    (folder / "tables.md").write_text(page)
    images = [image_section(name, studies.get(name)) for name in ("ham10k_image", "ham10k_lesion")]
    page = "".join([IMAGES_HEAD, paper_again(root / "docs/paper/results"), *images])
    (folder / "images.md").write_text(page)
    about = folder / "suite.meta.json"
    suite = json.loads(about.read_text()) if about.exists() else {}
    evidence = evidence_page(every.get("cpu_power"), every.get("recommendation_regret"), suite, every.get("cpu_racing"))
    (folder / "statistics.md").write_text(evidence)


# speed


def section(run: dict[str, Any], name: str) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in run["versions"].items() if v != "none")
    lines = [
        f"\n## {sentence(run['title'])}: {place(run)}{busy(name)}\n",
        f"`{run['command']}`\n",
        f"{run['date']}; {run['device']}; {versions}; {load(run)}; "
        + (f"seed {run['seed']}; " if "seed" in run else "")
        + (f"{run['note']}; " if "note" in run else "")
        + f"`benchmarks/results/{name}.json`.\n",
        "| ours | against | ours (IQR) | theirs (IQR) | ratio | of min. | bar |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {row['name']} | {row['against'].replace('(', ' (')} | {spread(row['ours'])} | {spread(row['theirs'])} "
        f"| **{shown(row['ratio'])}** | {shown(row['ratio_of_minimums'])} | {bar(row)}{recommendation(row)} |"
        for row in run["results"]
    ]
    memory = [row for row in run["results"] if "peak_bytes_per_sample" in row]
    if memory:
        lines += ["", "| peak memory beyond the input, bytes per sample | ours | theirs |", "|---|--:|--:|"]
        lines += [
            f"| {row['name']} (theirs: {row['against']}) | {row['peak_bytes_per_sample']:.0f} "
            f"| {row['their_peak_bytes_per_sample']:.0f} |"
            for row in memory
        ]
    return "\n".join(lines) + "\n"


def short_table(runs: dict[str, dict[str, Any]]) -> str:
    lines = ["| what | against | where | ratio | bar |", "|---|---|---|--:|--:|"]
    for name, run in runs.items():
        for row in run["results"]:
            seconds = row["ours"]["median_s"]
            ratio = f"{seconds:.3f} s" if "bar_seconds" in row else shown(row["ratio"])
            against = "-" if "bar_seconds" in row else row["against"]
            missed = " (missed)" if row["met"] is False else ""
            lines.append(f"| {what(run, row)} | {against} | {place(run)}{busy(name)} | {ratio}{missed} | {bar(row)} |")
    dates = sorted({run["date"] for run in runs.values()})
    lines.append(f"\nMeasured {' and '.join(dates)}; commands, spreads, versions and memory are below.")
    notes = {f"{place(run)}{busy(name)}: {run['note']}." for name, run in runs.items() if "note" in run}
    lines += [f"\n{note}" for note in sorted(notes)]
    return "\n".join(lines)


def what(run: dict[str, Any], row: dict[str, Any]) -> str:
    if "find_threshold" not in run["title"]:
        return str(row["name"])
    size = row["name"] if row["name"].startswith("n = ") else f"n = {power(run['n'])}, {row['name']}"
    return f"`find_threshold`, {size}"


def load(run: dict[str, Any]) -> str:
    before = run.get("load_at_start")
    return f"load average {'not recorded' if before is None else before} before, {run['load_average_1min']} after"


def power(n: int) -> str:
    return f"10^{len(str(n)) - 1}" if re.fullmatch(r"10*", str(n)) else f"{n:,}"


def place(run: dict[str, Any]) -> str:
    return str(run["device"]).replace(" Processor", "")


def busy(name: str) -> str:
    return " (busy machine)" if "busy" in name else ""


def sentence(title: str) -> str:
    return title if title.startswith(("find_threshold", "import")) else title[:1].upper() + title[1:]


def spread(part: dict[str, Any]) -> str:
    unit, scale = ("s", 1.0) if part["median_s"] >= 1 else ("ms", 1e3)
    middle, width = part["median_s"] * scale, (part["q3_s"] - part["q1_s"]) * scale
    digits = 0 if middle >= 100 else 1 if middle >= 10 else 2
    shown_width = f" ({width:.{digits}f})" if part["repeats"] > 1 else ""
    return f"{middle:.{digits}f}{shown_width} {unit}".replace(" ", "&nbsp;")


def shown(ratio: float) -> str:
    if ratio < 0.1:
        return f"1/{1 / ratio:,.0f}"
    return f"{ratio:.2f}" if ratio >= 1.1 or ratio < 0.9 else f"{ratio:.3f}"


def bar(row: dict[str, Any]) -> str:
    if "bar_seconds" in row:
        return f"{row['bar_seconds']:g} s"
    return "-" if row["bar"] is None else f"{row['bar']:g}"


def recommendation(row: dict[str, Any]) -> str:
    return {None: "", True: ", met", False: ", **missed**"}[row["met"]]


# costs

Rows = list[dict[str, Any]]

RESULTS_HEAD = """\
<!-- made by benchmarks/publish.py from benchmarks/results: do not edit -->

# Results

Mean costs of the methods on real tables, per-sample costs included, and the project's goals set before
measuring. Missed goals and lost comparisons are listed like the others. [Images](images.md);
times: [speed](speed.md); to measure again: the command above each table, then
`python -m benchmarks.publish`.
"""

OLDER = """
**This table was measured before the engine was rebuilt**, with networks that shared dropout, the padding of batches and
patience with those trained beside them, and with classifiers and comparisons that drew their splits from different
seeds. Now a network depends on its own samples, seed and settings alone, and a seed is the same seed everywhere: run
again, these figures will differ at random.
"""

IMAGES_HEAD = """\
<!-- made by benchmarks/publish.py from benchmarks/results: do not edit -->

# Results on images

What `AdaCSLClassifier` costs on images. "95 %" over random splits is Student's interval with the variance of Nadeau and
Bengio (2003), `(1 / splits + test rows / training rows) s^2`: training sets of different splits overlap. Bars:
[tables](tables.md#the-bars).
"""

PAPER_AGAIN = """
## The paper, run again

`python -m paper` ([results](../../docs/paper/results.md),
[does AdaCSL hold up?](../../docs/paper/does-it-hold-up.md)), ResNet-18, {splits} random splits,
k = 1, 3, 5. Excess cost of the method over AdaCSL (mean cost over the three k; below 0 it costs less), with its 95 %
interval (paired differences of the splits, variance of Nadeau and Bengio). AdaCSL weights the loss and adapts the
weights: against plain cross-entropy both contribute, against weighted cross-entropy the adaptation alone. With more
samples and fits, by lesion: [adaptation on images](claims.md).

| data, split | networks | method | excess over AdaCSL | 95 %, Nadeau and Bengio |
|---|---|---|--:|--:|
{rows}

Normalised cost, means over the splits with their 95 % intervals (Nadeau and Bengio); the paper's own figures stand
beside ours in [results](../../docs/paper/results.md):

| data, split | method | k = 1 | k = 3 | k = 5 |
|---|---|--:|--:|--:|
{costs}

`docs/paper/results/table2.csv`.

![Normalised cost of twenty methods on HAM10K, with intervals, by cost ratio.]\
(../../docs/paper/results/table2-ham10k-modern.png)
"""

AGAIN = (
    ("HAM10K", "random", "one net", "adacsl", ("net-bayes", "net-tuned", "net-weighted")),
    ("HAM10K", "random", "one net, last epoch", "adacsl-last", ("net-bayes-last", "net-weighted-last")),
    ("HAM10K", "random", "five cross-fitted", "adacsl-cv", ("net-bayes-cv", "net-tuned-cv")),
    ("HAM10K", "group", "one net", "adacsl", ("net-bayes", "net-tuned", "net-weighted")),
    ("HAM10K", "group", "one net, last epoch", "adacsl-last", ("net-bayes-last", "net-weighted-last")),
    ("HAM10K", "group", "five cross-fitted", "adacsl-cv", ("net-bayes-cv", "net-tuned-cv")),
)
"""Comparisons of the paper's modern profile: data, split, kind of networks, AdaCSL, and its competitors."""

SHOWN = (
    ("HAM10K", "random", "adacsl-cv"), ("HAM10K", "random", "adacsl"), ("HAM10K", "group", "adacsl-cv"),
    ("HAM10K", "group", "adacsl"), ("PV-D", "random", "adacsl-cv"), ("PV-D", "random", "net-bayes-cv"),
)  # fmt: skip
"""Whose costs stand there themselves."""

BEFORE = (
    " Measured before the engine was rebuilt, with scikit-learn's boosting behind `gbm-*`, and with the protocol of "
    "random splits, which has been replaced by repeated folds."
)

CROSS_FITTED = {1: 0.31, 3: 0.48, 5: 0.56}
HAM_BARS = {"single": {1: 0.36, 3: 0.53, 5: 0.61}, "cv=5": CROSS_FITTED, "cv=5 auto": CROSS_FITTED}
HAM_MODES = {"single": "one split", "cv=5": "cv=5, T' = 0.5", "cv=5 auto": 'cv=5, target_threshold="auto"'}
TABLE_BAR = 0.95
EASY = "ann_thyroid"
"""The table with the largest ratios: figures stand with and without it."""
OVERLAP = 0.25
"""Test rows over training samples (validation samples included) of splits into 65 / 15 / 20 %."""
YARDSTICK = "net-weighted-single"
MODES = {
    "net-weighted-single": "weighted cross-entropy, one split",
    "adacsl-single": "AdaCSL, one split",
    "adacsl-cv": "AdaCSL, cv=5",
    "net-weighted-cv": "weighted cross-entropy, cv=5",
    "net-bayes-cv": "cross-entropy + Bayes threshold, cv=5",
    "hgb-bayes": "gradient boosting + Bayes threshold",
}
COMMANDS = {
    "ham10k_image": "python -m benchmarks.quality.ham10k --out benchmarks/results/ham10k_image.csv",
    "ham10k_lesion": "python -m benchmarks.quality.ham10k --by-group --out benchmarks/results/ham10k_lesion.csv",
    "tables": "python -m benchmarks.quality.tables --out benchmarks/results/tables.csv",
}
TEXT_COLUMNS = ("split_by", "mode", "table")
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
         2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045)  # fmt: skip


def read_studies(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what there is of the CSV files, with what is known of how they were made."""
    studies = {}
    for name, command in COMMANDS.items():
        path, meta = folder / f"{name}.csv", folder / f"{name}.meta.json"
        if not path.exists():
            continue
        with path.open(newline="") as file:
            rows = [{k: v if k in TEXT_COLUMNS else float(v) for k, v in row.items()} for row in csv.DictReader(file)]
        if rows:
            about = json.loads(meta.read_text()) if meta.exists() else {}
            studies[name] = {"rows": rows, "about": {"command": command} | about}
    return studies


def all_bars(studies: dict[str, dict[str, Any]], runs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every bar of the project's costs and times, with what was measured or None."""
    bars = []
    rows = studies.get("ham10k_image", {}).get("rows", [])
    for mode, of_k in HAM_BARS.items():
        for k, bar in of_k.items():
            costs = pick(rows, "mean_test_cost", mode=mode, k=k)
            value = statistics.mean(costs) if costs else None
            what = f"HAM10K, normalised cost, {HAM_MODES[mode]}, k = {k}"
            bars.append({"kind": "cost", "what": what, "value": value, "bar": bar, "splits": len(costs), "needed": 3})
    tables = studies.get("tables", {}).get("rows", [])
    cells = table_cells(tables, "adacsl-cv")
    for without, some in {"": cells, f", without {EASY}": but_easy(cells)}.items():
        bars.append({
            "kind": "cost", "what": f"tables{without}, cost relative to {MODES[YARDSTICK]}: {MODES['adacsl-cv']}",
            "value": mean_ratio(some) if some else None, "bar": TABLE_BAR,
            "splits": min((len(cell) for cell in some.values()), default=0), "needed": 5,
        })  # fmt: skip
    for name, run in runs.items():
        bars += [
            {"kind": "time", "what": f"{sentence(run['title'])}: {row['name']} against {row['against']}, {place(run)}",
             "value": row["ratio"], "bar": row["bar"], "splits": None, "needed": None}
            for row in run["results"]
            if name.endswith(("_epoch_time", "_crossfit_time")) and row["bar"] is not None
        ]  # fmt: skip
    return bars


def bar_table(bars: list[dict[str, Any]], studies: dict[str, dict[str, Any]]) -> str:
    if all(bar["value"] is None for bar in bars):
        return "Not measured yet with this version."
    lines = ["| what | measured | bar | |", "|---|--:|--:|---|"]
    for bar in bars:
        value = "-" if bar["value"] is None else f"{bar['value']:.3f}"
        lines.append(f"| {bar['what']} | {value} | {bar['bar']:g} | {judged(bar)} |")
    dates = sorted({str(study["about"].get("date", "date not recorded")) for study in studies.values()})
    lines.append(
        f"\nMeans over the splits, {' and '.join(dates)}; spreads, seeds and commands: below, "
        "[images](images.md), [speed](speed.md)."
    )
    return "\n".join(lines)


def judged(bar: dict[str, Any]) -> str:
    if bar["value"] is None:
        return "not measured yet"
    if math.isnan(bar["value"]):
        return "not defined: a method costs 0 on some table"
    recommendation = "met" if bar["value"] <= bar["bar"] else "**missed**"
    few = bar["needed"] is not None and bar["splits"] < bar["needed"]
    return f"{recommendation}, but only {bar['splits']} of {bar['needed']} splits" if few else recommendation


def words_read(studies: dict[str, dict[str, Any]]) -> str:
    """Return what the bars mean, with the figures of the same files; nothing where one is missing."""
    lines = ["\nThe HAM10K settings were chosen on other splits."]
    if image := studies.get("ham10k_image", {}).get("rows"):
        fixed, auto = (pick(image, "mean_test_cost", mode=mode, k=1) for mode in ("cv=5", "cv=5 auto"))
        by_constant = [pick(image, "relative_cost", mode=mode, k=1) for mode in ("cv=5", "cv=5 auto")]
        if min(len(fixed), len(auto)) > 1:
            lines.append(
                f'At k = 1 cv=5 costs {three(fixed)} with T\' = 0.5 and {three(auto)} with `target_threshold="auto"`, '
                f"which lets "
                f"out-of-fold cost choose T' (not adapting was no candidate then); costs differ by "
                f"{statistics.stdev(fixed + auto):.2f} (sd) from split to split, so {len(auto)} splits cannot tell the "
                "two apart. (Relative to the better constant decision of each test split, by which we judged at first, "
                f"it is {three(by_constant[0])} and {three(by_constant[1])}.)"
            )
    if lesion := studies.get("ham10k_lesion", {}).get("rows"):
        one, five = (
            " / ".join(three(pick(lesion, "mean_test_cost", mode=mode, k=k)) for k in (1, 3, 5))
            for mode in ("single", "cv=5")
        )
        lines.append(
            f"With all images of a lesion in one fold, one network costs {one}, five cross-fitted ones {five}."
        )
    if tables := studies.get("tables", {}).get("rows"):
        ours, weighted = (table_cells(tables, mode) for mode in ("adacsl-cv", "net-weighted-cv"))
        lines.append(
            f"On tables the gain is cross-fitting's: weighted cross-entropy gains as much from it "
            f"({mean_ratio(weighted):.3f}; AdaCSL {mean_ratio(ours):.3f}), and most of both is won on {EASY} (without "
            f"it {mean_ratio(but_easy(weighted)):.3f} and {mean_ratio(but_easy(ours)):.3f})."
        )
    return "\n".join(lines) + "\n" if len(lines) > 1 else ""


def plain_threshold(folder: Path) -> str:
    """Say when a plain threshold does as well."""
    result = read_suite(folder)
    over = f" {result[2]}" if result is not None else ""
    return (
        "\n## When a plain threshold does as well\n\n"
        f"Often; that is what `adacsl compare` is for.{over} Much of the lead of cross-fitted networks is "
        "cross-fitting's. "
        "On images: [adaptation on images](claims.md). For boosters with early stopping adaptation saved nothing "
        "on average, so the default there is the Bayes threshold ([figures](../../docs/integrations/xgboost.md)).\n"
    )


def paper_again(folder: Path) -> str:
    """Return how the paper's methods stand to each other when run again, from its Table 2."""
    if not (folder / "table2.csv").exists():
        return ""
    with (folder / "table2.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["profile"] == "modern"]
    costs: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows:
        of = costs.setdefault((row["dataset"], row["split"], row["method"]), {})
        of.setdefault(row["seed"], []).append(float(row["normalized_cost"]))
    means = {key: {seed: statistics.mean(of) for seed, of in own.items() if len(of) == 3} for key, own in costs.items()}
    lines, splits = [], set()
    for data, split, kind, ours, rivals in AGAIN:
        for rival in rivals:
            mine, theirs = (means.get((data, split, name), {}) for name in (ours, rival))
            shared = sorted(mine.keys() & theirs.keys())
            if len(shared) < 3:
                continue
            splits.add(len(shared))
            base = statistics.mean(mine[seed] for seed in shared)
            extra = [100 * (theirs[seed] - mine[seed]) / base for seed in shared]
            mean, reach = statistics.mean(extra), corrected_reach(extra)
            ends = f"{round(mean - reach)} to {round(mean + reach)} %"
            lines.append(f"| {place_of(data, split)} | {kind} | {rival} | {round(mean)} % | {ends} |")
    shown_costs = [f"| {place_of(*place[:2])} | {place[2]} | {split_costs(rows, *place)} |" for place in SHOWN]
    many = " or ".join(map(str, sorted(splits)))
    return PAPER_AGAIN.format(splits=many, rows="\n".join(lines), costs="\n".join(shown_costs))


def place_of(data: str, split: str) -> str:
    """Return data and split in words."""
    return f"{data}, {'random by image' if split == 'random' else 'by lesion' if data == 'HAM10K' else 'by leaf'}"


def split_costs(rows: Rows, data: str, split: str, method: str) -> str:
    """Return the mean normalised costs at k = 1, 3 and 5 with their intervals, as cells of a table."""
    own = [row for row in rows if (row["dataset"], row["split"], row["method"]) == (data, split, method)]
    by_k = [[float(row["normalized_cost"]) for row in own if float(row["k"]) == k] for k in (1, 3, 5)]
    return " | ".join(with_interval(costs) if len(costs) > 2 else "-" for costs in by_k)


def with_interval(values: Sequence[float]) -> str:
    mean, reach = statistics.mean(values), corrected_reach(values)
    return f"{mean:.3f} ({max(0.0, mean - reach):.3f} to {mean + reach:.3f})"


def three(values: Sequence[float]) -> str:
    """Return a mean with three decimals."""
    return f"{statistics.mean(values):.3f}"


def read_suite(folder: Path) -> tuple[Any, Any, str] | None:
    """Return the results of the suite, their ranks and the recommendation over all tables, if it was run."""
    if not (folder / "suite.csv").exists():
        return None
    import pandas as pd  # noqa: PLC0415  the other pages need no pandas

    from adacsl.estimators.registry import METHODS  # noqa: PLC0415
    from benchmarks.quality.ranks import overall, ranks  # noqa: PLC0415

    results = pd.read_csv(folder / "suite.csv")
    ranked = ranks(results)
    return results, ranked, str(overall(ranked, simplest_first=list(METHODS)))


def suite_section(folder: Path) -> str:
    """Return the comparison of all methods on all tables, if it was run."""
    head = "\n## All methods on nine tables\n\n"
    result = read_suite(folder)
    if result is None:
        return head + "Not measured yet with this version.\n"
    results, ranked, over = result
    about = json.loads((folder / "suite.meta.json").read_text())
    means = results.groupby(["data", "method"])["normalized_cost"].mean().unstack("data")
    splits, ratios_ = results["seed"].nunique(), results.groupby("data")["ratio"].nunique().max()
    kind = f"{about['repeats']} x {about['folds']} folds" if "folds" in about else f"{splits} random splits"
    lines = [
        head,
        "The main job, `adacsl compare`, on every built-in table with its own costs, false negatives 1, 3 and 5 times "
        "as costly: "
        f"{len(results):,} fits ({len(means.columns)} tables, {ratios_} ratios, {len(means)} methods, {kind}) "
        f"in {about['wall_seconds']:.0f} s. Normalised test cost, means over ratios and splits; the cheapest of each "
        f"table in bold; -: not run there. **{over}**{'' if 'folds' in about else BEFORE}\n\n",
        f"`{about['command']}`; {about['date']}; {about['device']}; {about.get('note', 'whole tables')}; "
        "`benchmarks/results/suite.csv`.\n\n",
        f"| method | average rank | {' | '.join(means.columns)} |\n|---|--:|{'--:|' * len(means.columns)}\n",
    ]
    best = means.min()
    rank_of = dict(zip(ranked.table["method"], ranked.table["average_rank"], strict=True))
    for method in sorted(means.index, key=lambda name: rank_of.get(name, math.inf)):
        shown_costs = [cost_cell(cost, best[name]) for name, cost in means.loc[method].items()]
        rank = f"{rank_of[method]:.1f}" if method in rank_of else "-"
        lines.append(f"| {method} | {rank} | {' | '.join(shown_costs)} |\n")
    lines.append(
        f"\nFriedman's test: p = {ranked.friedman_p:.1g}; average ranks less than {ranked.critical_difference:.1f} "
        "apart do not differ significantly (Nemenyi). Recommendations by table and ratio: `adacsl compare`.\n"
    )
    return "".join(lines)


def cost_cell(cost: float, best: float) -> str:
    if math.isnan(cost):
        return "-"
    return f"**{cost:.3f}**" if cost == best else f"{cost:.3f}"


def predict_section(run: dict[str, Any] | None) -> str:
    """Return seconds and memory of predictions that are streamed, if they were measured."""
    head = "\n## Predicting tables larger than memory\n\n"
    if run is None:
        return head + "Not measured yet with this version.\n"
    lines = [
        head,
        f"`{run['command']}`: `adacsl predict` on Parquet with 20 numeric and 2 text columns; {run['date']}; "
        f"{run['device']}.\n\n| rows | file | seconds | rows per second | peak memory |\n|--:|--:|--:|--:|--:|\n",
    ]
    lines += [
        f"| {one['rows']:,} | {one['file_mb']:.0f} MB | {one['seconds']:.1f} | {one['rows_per_second']:,.0f} | "
        f"{one['peak_mb']:.0f} MB |\n"
        for one in run["tables"]
    ]
    return "".join(lines)


def bank_section(run: dict[str, Any] | None) -> str:
    """Return the savings on bank marketing, where every client has its own costs, if they were measured."""
    head = "\n## Bank marketing: each client with its own costs\n\n"
    if run is None:
        return head + "Not measured yet with this version.\n"
    lines = [
        head,
        f"`{run['command']}`; {run['date']}; {run['device']}; {len(run['splits'])} splits (seeds from 0). Savings: the "
        "share of the best constant decision's cost that is saved; higher is better.\n\n",
        "| classifier: rule | savings (mean) | lowest | highest |\n|---|--:|--:|--:|\n",
    ]
    for name, mean in run["means"].items():
        each = [split[name] for split in run["splits"]]
        lines.append(f"| {name} | {mean:.3f} | {min(each):.3f} | {max(each):.3f} |\n")
    return "".join(lines)


def fraud_section(run: dict[str, Any] | None) -> str:
    """Return seconds, memory and savings of the fits on the credit-card fraud data, if they were measured."""
    head = "\n## Credit-card fraud: 284,807 rows, each with its own costs\n\n"
    if run is None:
        return head + "Not measured yet with this version.\n"
    lines = [
        head,
        f"`{run['command']}`; {run['date']}; {run['device']}; seed 0; 75 % of the rows train. A missed fraud costs its "
        "amount, a check 5. Default settings, but target_threshold='bayes'. Savings are relative to checking nothing "
        "or "
        "everything, whichever is cheaper.\n\n",
        "| fit | seconds | peak memory | savings, each row's own threshold | savings, one threshold for all |\n",
        "|---|--:|--:|--:|--:|\n",
    ]
    lines += [
        f"| {fit['fit']} | {fit['seconds']} | {fit['peak_gigabytes']} GB | {fit['savings']:.3f} | "
        f"{fit['savings_with_one_threshold']:.3f} |\n"
        for fit in run["fits"]
    ]
    return "".join([*lines, f"\nThe data and libraries alone take {run['gigabytes_before']} GB.\n"])


def policy_section(run: dict[str, Any] | None) -> str:
    """Return how far decisions under a policy are from the best possible, if it was measured."""
    head = "\n## Reject option, capacity, prior shift: simulated data with a known distribution\n\n"
    if run is None:
        return head + "Not measured yet with this version.\n"
    barred = [case for case in run["cases"] if case["bar"] is not None]
    missed = sum(not case["met"] for case in barred)
    lines = [
        head,
        f"`{run['command']}`; {run['date']}; {run['device']}; {run['draws']} draws of {run['rows']:,} rows to learn "
        f"from and {run['fresh']:,} to decide. Expected cost per row by the true probabilities. Capacity and referral "
        "against the best possible (the same policy, decided by the true probabilities); other shares against the same "
        "method fitted to them. The logistic regression has the form of the law; LightGBM has to find it in these "
        f"rows. {missed} of {len(barred)} bars are missed.\n\n",
        "| policy | classes | learner | cost | against | more | at worst | bar |\n|---|--:|---|--:|--:|--:|--:|--:|\n",
    ]
    for case in run["cases"]:
        limit = "-" if case["bar"] is None else f"{case['bar']:.0%}{'' if case['met'] else ' (missed)'}"
        lines.append(
            f"| {case['case']} | {case['classes']} | {case['learner']} | {case['ours']:.4g} | {case['against']:.4g} "
            f"| {case['excess']:+.1%} | {case['worst']:+.1%} | {limit} |\n"
        )
    return "".join(lines)


def provenance(study: dict[str, Any], name: str) -> str:
    about, seeds = study["about"], sorted({int(row["split"]) for row in study["rows"]})
    parts = [str(about.get("date", "date not recorded")), str(about.get("device", "device not recorded"))]
    if "versions" in about:
        parts.append(", ".join(f"{k} {v}" for k, v in about["versions"].items()))
    parts.append(f"splits (seeds) {', '.join(map(str, seeds))}")
    parts += [str(about["note"])] if "note" in about else []
    return f"`{about['command']}`\n\n{'; '.join(parts)}; `benchmarks/results/{name}.csv`.\n"


def image_section(name: str, study: dict[str, Any] | None) -> str:
    how = "random by image, as in the paper" if name == "ham10k_image" else "by lesion: no lesion on two sides"
    head = f"\n## HAM10K, splits {how}\n\n"
    if study is None:
        return f"{head}Not measured yet with this version.\n"
    lines = [
        "64 x 64 pixels, ResNet-18 from local ImageNet weights. 65 / 15 / 20 % of the rows train, adapt and test; with "
        "cv=5 the first two parts do both. Costs are inverse priors, false negatives k times as costly, and "
        "normalised as the "
        "paper's: the total over the number of test rows, 1 for calling everything positive. In the second table the "
        "cost relative to the better constant decision on each test split: higher at k = 1, where two constants cost "
        "about 1 and the luckier one less." + ("" if name == "ham10k_image" else " No bar was set for these splits."),
        "",
        provenance(study, name),
        "| | k | splits | normalised cost | sd | 95 %, Nadeau and Bengio | bar |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    groups = sorted({(row["mode"], row["k"]) for row in study["rows"]}, key=lambda g: (g[0] != "single", g))
    for mode, k in groups:
        values = pick(study["rows"], "mean_test_cost", mode=mode, k=k)
        bar = HAM_BARS.get(mode, {}).get(int(k)) if name == "ham10k_image" else None
        met = "-" if bar is None else f"{bar:g}, {'met' if statistics.mean(values) <= bar else '**missed**'}"
        lines.append(f"| {HAM_MODES.get(mode, mode)} | {k:g} | {len(values)} | {mean_sd_interval(values)} | {met} |")
    lines += [
        "",
        "| | k | accuracy | relative to constant | estimated cost | test / estimated | calibration error | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for mode, k in groups:
        accuracy, relative, test, estimated, error, seconds = (
            statistics.mean(pick(study["rows"], column, mode=mode, k=k))
            for column in (
                "accuracy", "relative_cost", "mean_test_cost", "estimated_cost", "calibration_error", "seconds",
            )
        )  # fmt: skip
        ratio = f"{test / estimated:.2f}" if estimated else "-"
        costs = f"{relative:.3f} | {estimated:.3f} | {ratio}"
        lines.append(
            f"| {HAM_MODES.get(mode, mode)} | {k:g} | {accuracy:.3f} | {costs} | {error:.3f} | {seconds:.0f} |"
        )
    lines.append('\n"Test / estimated" above 1: `estimated_cost_` was too low.')
    return head + "\n".join(lines) + "\n"


def table_section(study: dict[str, Any] | None) -> str:
    head = f"\n## Tables: cost relative to {MODES[YARDSTICK]}\n\n"
    if study is None:
        return f"{head}Not measured yet with this version.\n"
    rows = study["rows"]
    modes = [mode for mode in MODES if any(row["mode"] == mode for row in rows)]
    names = list(dict.fromkeys(row["table"] for row in rows))
    cells = {mode: table_cells(rows, mode) for mode in modes}
    compared = [mode for mode in modes if mode != YARDSTICK and cells[mode]]
    if not compared:
        return f"{head}{provenance(study, 'tables')}\nNo split has both {YARDSTICK} and another method.\n"
    lines = [
        "Costs are inverse priors, false negatives k times as costly (rho = k IR). Ratio of the mean test costs over "
        "the splits "
        "both methods have, geometric mean over k and tables; below 1 is cheaper. 95 %: jackknife over the splits, its "
        "variance corrected as Nadeau and Bengio's, because training sets overlap.",
        "",
        provenance(study, "tables"),
        "| table | " + " | ".join(MODES[mode] for mode in compared) + " |",
        "|---|" + "--:|" * len(compared),
    ]
    lines += [f"| {name} | {ratios(cells, compared, lambda cell, n=name: cell[0] == n)} |" for name in names]
    lines.append(f"| **all** | {ratios(cells, compared, lambda _: True)} |")
    lines.append("| 95 %, jackknife | " + " | ".join(jackknife(cells[mode]) for mode in compared) + " |")
    if EASY in names:
        rest = {mode: but_easy(cells[mode]) for mode in compared}
        lines.append(f"| **all but {EASY}** | {ratios(rest, compared, lambda _: True)} |")
        lines.append("| 95 %, jackknife | " + " | ".join(jackknife(rest[mode]) for mode in compared) + " |")
    for k in sorted({row["k"] for row in rows}):
        lines.append(f"| all, k = {k:g} | {ratios(cells, compared, lambda cell, k=k: cell[1] == k)} |")
    lines += ["", *losses(cells, names), "", "| | seconds per fit (mean) | normalised cost (mean) |", "|---|--:|--:|"]
    for mode in modes:
        seconds, costs = pick(rows, "seconds", mode=mode), pick(rows, "normalized_cost", mode=mode)
        lines.append(f"| {MODES[mode]} | {statistics.mean(seconds):.1f} | {statistics.mean(costs):.3f} |")
    return head + "\n".join(lines) + "\n" + OLDER


Cells = dict[tuple[str, float], dict[int, tuple[float, float]]]


def table_cells(rows: Rows, mode: str) -> Cells:
    """Return, for each table and k, the costs of a method and of the yardstick on the splits that both have."""
    ours, theirs = (
        {(r["table"], r["k"], int(r["split"])): r["cost"] for r in rows if r["mode"] == m} for m in (mode, YARDSTICK)
    )
    cells: Cells = {}
    for table, k, split in sorted(ours.keys() & theirs.keys()):
        key = (table, k, split)
        cells.setdefault((table, k), {})[split] = (ours[key], theirs[key])
    return cells


def but_easy(cells: Cells) -> Cells:
    """Leave out the table with the largest ratios."""
    return {key: cell for key, cell in cells.items() if key[0] != EASY}


def mean_ratio(cells: Cells, left_out: int | None = None) -> float:
    """Return the geometric mean over cells of the ratio of mean costs; NaN where a mean is zero."""
    logs = []
    for cell in cells.values():
        pairs = [pair for split, pair in cell.items() if split != left_out]
        ours, theirs = sum(a for a, _ in pairs), sum(b for _, b in pairs)
        if not pairs:
            continue
        if ours <= 0 or theirs <= 0:
            return math.nan
        logs.append(math.log(ours / theirs))
    return math.exp(statistics.mean(logs)) if logs else math.nan


def jackknife(cells: Cells) -> str:
    splits = sorted({split for cell in cells.values() for split in cell})
    n = len(splits)
    if n < 2 or any(math.isnan(mean_ratio(cells, left_out=split)) for split in [None, *splits]):
        return "-"
    logs = [math.log(mean_ratio(cells, left_out=split)) for split in splits]
    middle, centre = math.log(mean_ratio(cells)), statistics.mean(logs)
    variance = (n - 1) / n * sum((x - centre) ** 2 for x in logs)
    reach = student(n) * math.sqrt((1 + n * OVERLAP) * variance)
    return f"{math.exp(middle - reach):.3f} to {math.exp(middle + reach):.3f}"


def ratios(cells: dict[str, Cells], modes: Sequence[str], wanted: Callable[[tuple[str, float]], bool]) -> str:
    values = [mean_ratio({key: cell for key, cell in cells[mode].items() if wanted(key)}) for mode in modes]
    return " | ".join("-" if math.isnan(value) else f"{value:.3f}" for value in values)


def losses(cells: dict[str, Cells], names: list[str]) -> list[str]:
    """Say on which tables the classifier did not win."""

    def on(mode: str, table: str) -> float:
        return mean_ratio({key: cell for key, cell in cells.get(mode, {}).items() if key[0] == table})

    lines = []
    for mode in ("adacsl-single", "adacsl-cv"):
        if cells.get(mode):
            worse = [name for name in names if on(mode, name) > 1]
            lines.append(f"- {MODES[mode]} costs more than {MODES[YARDSTICK]} on: {', '.join(worse) or 'none'}.")
    for mode in ("net-weighted-cv", "net-bayes-cv", "hgb-bayes"):
        if cells.get(mode) and cells.get("adacsl-cv"):
            cheaper = [name for name in names if on(mode, name) < on("adacsl-cv", name)]
            lines.append(f"- {MODES[mode]} is cheaper than {MODES['adacsl-cv']} on: {', '.join(cheaper) or 'none'}.")
    return lines


def pick(rows: Rows, column: str, **wanted: Any) -> list[float]:
    return [row[column] for row in rows if all(row[key] == value for key, value in wanted.items())]


def mean_sd_interval(values: list[float]) -> str:
    mean, n = statistics.mean(values), len(values)
    if n < 2:
        return f"**{mean:.3f}** | - | -"
    sd, reach = statistics.stdev(values), corrected_reach(values)
    return f"**{mean:.3f}** | {sd:.3f} | {mean - reach:.3f} to {mean + reach:.3f}"


def corrected_reach(values: Sequence[float]) -> float:
    """Return the half-width of a 95 % interval over random splits, with the variance of Nadeau and Bengio."""
    n = len(values)
    return student(n) * statistics.stdev(values) * math.sqrt(1 / n + OVERLAP)


def student(n: int) -> float:
    """Return the 97.5 % quantile of Student's t with n - 1 degrees of freedom."""
    return T_975[n - 2] if n - 2 < len(T_975) else 1.96


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to read from and write to")
    main(parser.parse_args().root)
