"""Pages of the cost benchmark: losses, ranks and the full table; and the details, with intervals and seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adacsl.comparison.statistics import fold_interval
from benchmarks.quality.peers.methods import ALL
from benchmarks.quality.peers.problem import cheapest_constant, paid
from benchmarks.quality.peers.store import Block, row_costs
from benchmarks.quality.ranks import ranks

LEAST = 1e-3
"""Of the constant decision's cost: cheaper counts as this much, so that no table decides a mean of ratios alone."""


class Score(NamedTuple):
    """The cost of a method on a table, relative to the constant baseline on the same samples."""

    cost: float
    low: float
    high: float


class Excess(NamedTuple):
    """The excess cost of one method over another, in percent of the other's cost."""

    percent: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """Whether the difference is significant."""
        return "significantly more" if self.low > 0 else "significantly less" if self.high < 0 else "not significant"


def scores(block: Block) -> dict[str, Score]:
    """Return the normalised cost of everybody who finished, with an interval."""
    said = np.full(len(block.labels), cheapest_constant(block.labels, block.costs, block.n_classes))
    unit = paid(block.labels, said, block.costs).mean()
    known = {name: row_costs(block, name) for name in block.methods}
    result = {}
    for name, costs in known.items():
        if costs is not None:
            mean, low, high = fold_interval(costs, block.fits, block.units)
            result[name] = Score(mean / unit, max(low, min(0.0, costs.min())) / unit, high / unit)
    return result


def excess(block: Block, ours: str, theirs: str) -> Excess:
    """Return the excess cost of one method over another on the same samples."""
    mine, other = row_costs(block, ours), row_costs(block, theirs)
    assert mine is not None
    assert other is not None
    if not np.any(mine != other):
        return Excess(0.0, 0.0, 0.0)
    mean = other.mean() or np.nan
    return Excess(*(100 * end / mean for end in fold_interval(mine - other, block.fits, block.units)))


def pages_of(lines: list[dict[str, Any]], blocks: list[Block], meta: dict[str, Any]) -> tuple[str, str]:
    """Return the page and that of its details as Markdown."""
    result = {(block.table, block.costs_name): scores(block) for block in blocks}
    ours = [name for name, about in meta["methods"].items() if about["ours"]]
    kinds = {block.table: meta["tables"][block.table]["kind"] for block in blocks}
    parts = [
        HEAD.format(**meta | {"tables": counted(len(kinds), "table"), "methods": len(meta["methods"])}),
        *[losses(blocks, result, name, ours) for name in reversed(ours) if any(name in row for row in result.values())],
        "## Ranks\n\n" + RANKS, *[ranking(result, kinds, kind, meta) for kind in (*ALL, "")],
        "## Every table\n\n" + NORMALISED, grid(result, blocks, meta),
    ]  # fmt: skip
    rest = [
        DETAILS, "## How it was run", how(lines, meta), "## Seconds of a fit\n\n" + SECONDS, seconds(lines, meta),
        "## Intervals\n\n" + INTERVALS, details(result, meta),
    ]  # fmt: skip
    return joined(parts), joined(rest)


def joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def details_path(page: Path) -> Path:
    """Return where the details of a page stand: beside it."""
    return page.with_name(f"{page.stem}_details{page.suffix}")


def losses(blocks: list[Block], result: dict[Any, dict[str, Score]], name: str, ours: list[str]) -> str:
    """Return where one of ours costs more than the best of the others, the worst first."""
    rows, ratios = [], []
    for block in blocks:
        others = {k: v.cost for k, v in result[block.table, block.costs_name].items() if k not in ours}
        if name not in result[block.table, block.costs_name] or not others:
            continue
        rival = min(others, key=lambda one: others[one])
        cost = result[block.table, block.costs_name][name].cost
        ratios.append(max(cost, LEAST) / max(others[rival], LEAST))
        if cost > others[rival]:
            more = excess(block, name, rival)
            rows.append((ratios[-1], [block.table, block.costs_name, rival, number(others[rival]), number(cost),
                                      interval(more, "{:+.1f} %"), more.words]))  # fmt: skip
    rows.sort(key=lambda row: -row[0])
    mean = float(np.exp(np.mean(np.log(ratios))))
    text = f"## Where {name} loses\n\nIt costs more than the best of the others in {len(rows)} of {len(ratios)}; "
    text += f"its cost relative to theirs, geometric mean: {mean:.3f}."
    head = ["table", "costs", "best of the others", "its cost", f"cost of {name}", "excess (95 %)", ""]
    return text + ("\n\n" + markdown(head, [row for _, row in rows]) if rows else "")


def ranking(result: dict[Any, dict[str, Score]], kinds: dict[str, str], kind: str, meta: dict[str, Any]) -> str:
    """Return average ranks on tables of a kind (or on all), with the critical difference."""
    chosen = {key: row for key, row in result.items() if kind in ("", kinds[key[0]])}
    if not chosen or (not kind and len(set(kinds.values())) < 2):
        return ""
    results = pd.DataFrame([
        {"data": table, "ratio": float(place), "method": name, "seed": 0, "n_train": 1, "n_test": 1,
         "normalized_cost": score.cost}
        for place, ((table, _), row) in enumerate(chosen.items()) for name, score in row.items()
    ])  # fmt: skip
    entitled = [name for name, about in meta["methods"].items() if not kind or kind in about["kinds"]]
    some = [name for name in entitled if all(name in row for row in chosen.values())]
    tables = counted(len({table for table, _ in chosen}), "table")
    title = f"### {kind.capitalize() if kind else 'All kinds, those in all of them'}: {tables}\n\n"
    if len(some) < 2:
        return title + "Fewer than two methods finished all of them."
    order = ranks(results[results["method"].isin(some)])
    rows = [[row.method, f"{row.average_rank:.2f}", number(row.mean)] for row in order.table.itertuples()]
    if order.critical_difference is None:
        told = order.reason[0].upper() + order.reason[1:] + "."
    elif order.friedman_p is not None and order.friedman_p < 0.05:
        told = f"Friedman p = {order.friedman_p:.2g}; ranks {order.critical_difference:.2f} apart differ (Nemenyi)."
    else:
        told = f"Friedman p = {order.friedman_p:.2g}: no significant difference of ranks; the critical difference "
        told += f"would be {order.critical_difference:.2f} (Nemenyi)."
    return title + told + "\n\n" + markdown(["", "average rank", "mean normalised cost"], rows)


def grid(result: dict[Any, dict[str, Score]], blocks: list[Block], meta: dict[str, Any]) -> str:
    """Return normalised costs of everybody on every table, the lowest in bold."""
    names = list(meta["methods"])
    rows = []
    for block in blocks:
        row = result[block.table, block.costs_name]
        least = min(score.cost for score in row.values())
        cells = [
            "failed" if name in block.methods and name not in row else
            "-" if name not in row else
            f"**{number(row[name].cost)}**" if row[name].cost == least else number(row[name].cost)
            for name in names
        ]  # fmt: skip
        rows.append([f"{block.table} ({block.costs_name})", str(len(np.unique(block.rows))), *cells])
    return markdown(["table (costs)", "rows", *names], rows)


def details(result: dict[Any, dict[str, Score]], meta: dict[str, Any]) -> str:
    """Return the interval of every cost."""
    names = list(meta["methods"])
    rows = [
        [f"{table} ({costs})", *(interval(row[name], "{:.3f}") if name in row else "-" for name in names)]
        for (table, costs), row in result.items()
    ]
    return markdown(["table (costs)", *names], rows)


def seconds(lines: list[dict[str, Any]], meta: dict[str, Any]) -> str:
    frame = pd.DataFrame([line for line in lines if not line["error"]])
    frame = frame.astype({"seconds": float, "cpu_seconds": float})
    means = frame.groupby("method")[["cpu_seconds", "seconds"]].agg(["median", "max"])
    rows = []
    for name in meta["methods"]:
        if name in means.index:
            own: NDArray[Any] = means.loc[name].to_numpy()
            rows.append([name, meta["methods"][name]["about"], *(f"{value:.1f}" for value in own)])
    return markdown(["", "what it is", "processor, median", "longest", "on the wall, median", "longest"], rows)


def how(lines: list[dict[str, Any]], meta: dict[str, Any]) -> str:
    failed = sorted({(line["table"], line["method"], line["error"]) for line in lines if line["error"]})
    versions: dict[str, list[str]] = {}
    for name, about in meta["methods"].items():
        versions.setdefault(", ".join(f"{k} {v}" for k, v in about["versions"].items()), []).append(name)
    text = [
        f"- {meta['date']}, {meta['device']} (load {meta['load_average_1min']} at the end), "
        f"`{meta['command']}`, one core for each method.",
        *[f"- {', '.join(names)}: {known}." for known, names in versions.items()],
        *[f"- Not run: {name}, {why}." for name, why in meta["skipped"].items()],
        *[f"- Failed: {method} on {table}: {error}." for table, method, error in failed],
    ]
    if meta["missing"]:
        text.append(f"- Not run yet, the same command does: {', '.join(meta['missing'])}.")
    abouts = {name: about["about"] for name, about in meta["tables"].items() if any(x["table"] == name for x in lines)}
    return "\n".join(text) + "\n\n" + markdown(["table", "what the costs are"], [[k, v] for k, v in abouts.items()])


def counted(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


def number(value: float) -> str:
    return f"{value:.3f}"


def interval(result: tuple[float, float, float], form: str) -> str:
    if not np.isfinite(result).all():
        return "the other costs nothing"
    return f"{form.format(result[0])} ({form.format(result[1])} to {form.format(result[2])})"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


HEAD = """<!-- made by benchmarks/quality/peers/run.py --page: do not edit -->

# Cost benchmark

Which method has the lowest cost? {methods} methods, {tables}, {repeats} x {folds} stratified folds that keep duplicates
together; the same samples, one core and {seconds:g} processor seconds for each method with a time limit. No method sees
test labels or was tuned on test samples. Rules, and how to add a method or a table:
`benchmarks/quality/peers/README.md`. The losses of adacsl come first. "The best of the others" is chosen on the test
samples, in their favour; no interval is corrected for that choice, nor for the number of tables. All intervals, times,
versions and costs: [details](peers_details.md)."""
DETAILS = """<!-- made by benchmarks/quality/peers/run.py --page: do not edit -->

# Cost benchmark: details

How [the benchmark](peers.md) was run, how long fits took, and the interval of every cost."""
RANKS = """By normalised cost, one table one block (its mean over costs); Friedman's test, then Nemenyi's."""
NORMALISED = """Mean cost relative to the constant baseline on the same samples; 1 saves nothing. "-": does not
apply to such tables."""
INTERVALS = """95 % intervals: Student's t on paired per-sample costs of the folds, samples and fits counted
(`adacsl.comparison.statistics.fold_interval`). Those of the losses are of paired differences, these of the costs
themselves. Duplicates count as one unit of evidence."""
SECONDS = """Fit and prediction. Limits are kept by processor seconds; those on the wall show how busy the machine was.
Methods without a time limit take what they need; the longest fits include what is imported late."""
