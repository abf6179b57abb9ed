"""Pages of the cost benchmark: ratios to the peers, losses, ranks and the full table; the details; and a picture."""

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
from benchmarks.quality.peers.summary import LEAST, Ratio, ratios_of
from benchmarks.quality.ranks import ranks


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


def write_page(
    results: Path, lines: list[dict[str, Any]], blocks: list[Block], meta: dict[str, Any], page: Path | None = None
) -> None:
    """Write the page, its details and the picture, beside the results or where ``page`` says."""
    page = page or results.with_suffix(".md")
    for path, text in zip((page, details_path(page)), pages_of(lines, blocks, meta, page.stem), strict=True):
        path.write_text(text)
    draw(ratios_of(lines, meta), page.with_suffix(".svg"))


def pages_of(lines: list[dict[str, Any]], blocks: list[Block], meta: dict[str, Any], name: str) -> tuple[str, str]:
    """Return the page and that of its details as Markdown."""
    result = {(block.table, block.costs_name): scores(block) for block in blocks}
    ours = [method for method, about in meta["methods"].items() if about["ours"]]
    kinds = {block.table: meta["tables"][block.table]["kind"] for block in blocks}
    lost = [losses(blocks, result, one, ours) for one in reversed(ours) if any(one in row for row in result.values())]
    fields = {"tables": counted(len(kinds), "table"), "methods": len(meta["methods"]), "name": name}
    parts = [
        HEAD.format(**meta | fields | {"note": meta.get("note") or limits(meta)}), fresh(meta),
        *lost[:1], against(lines, meta, name), *lost[1:],
        "## Seconds\n\n" + SECONDS, seconds(lines, meta),
        "## Ranks\n\n" + RANKS, *[ranking(result, kinds, kind, meta) for kind in (*ALL, "")],
        "## Every table\n\n" + NORMALISED, grid(result, blocks, meta, lines),
    ]  # fmt: skip
    rest = [
        DETAILS.format(name=name), "## How it was run", how(lines, meta),
        "## Intervals\n\n" + INTERVALS, details(result, meta),
    ]  # fmt: skip
    return joined(parts), joined(rest)


def limits(meta: dict[str, Any]) -> str:
    """Return the seconds and cores that each fit has."""
    once = ""
    if meta["once"]:
        once = f" {' and '.join(meta['once'])}: the first split of each table only."
    each = counted(meta["cores_per_worker"], "core")
    return f"{meta['seconds']:g} seconds for methods with a time limit, {each} of its own for each fit.{once}"


def fresh(meta: dict[str, Any]) -> str:
    """Return which tables served no choice of defaults."""
    chosen = [name for name, about in meta["tables"].items() if not about.get("fresh")]
    if not chosen:
        return "Nothing was chosen on these tables: they were added for this benchmark."
    if len(chosen) == len(meta["tables"]):
        return "Defaults of adacsl were chosen on other splits of most of these tables, never on these test samples."
    return f"Defaults of adacsl were chosen on other splits of {', '.join(chosen)}; on the other tables nothing was."


def against(lines: list[dict[str, Any]], meta: dict[str, Any], name: str) -> str:
    """Return the cost of the ensemble relative to the best peer of each row, and to each peer."""
    found = ratios_of(lines, meta)
    if not found:
        return ""
    text = f"## Cost of the ensemble relative to each peer\n\n{AGAINST}\n\n![relative cost]({name}.svg)"
    for ours in dict.fromkeys(ratio.ours for ratio in found):
        own = [ratio for ratio in found if ratio.ours == ours]
        rows = [
            [ratio.other, number(ratio.mean), span(ratio.student), span(ratio.bootstrap),
             f"{ratio.worst:.3f} ({ratio.worst_row})", f"{ratio.lower} of {ratio.rows}",
             "-" if ratio.without_thyroid is None else number(ratio.without_thyroid)]
            for ratio in own
        ]  # fmt: skip
        head = [f"`{ours}` relative to", "geometric mean", "95 %, Student", "95 %, bootstrap", "worst row",
                "rows lower", "without thyroid"]  # fmt: skip
        text += "\n\n" + markdown(head, rows)
    return text


def span(interval: tuple[float, float]) -> str:
    return "-" if not np.isfinite(interval).all() else f"{interval[0]:.3f} to {interval[1]:.3f}"


def draw(ratios: list[Ratio], path: Path) -> None:
    """Draw the mean ratios of the ensemble with their intervals; nothing where there are none."""
    own = [ratio for ratio in ratios if ratio.ours == ratios[0].ours][::-1]
    if not own:
        return
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    with mpl.rc_context({"svg.hashsalt": "peers", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(7.0, 0.6 + 0.28 * len(own)), layout="constrained")
        for place, ratio in enumerate(own):
            low, high = ratio.student if np.isfinite(ratio.student).all() else (ratio.mean, ratio.mean)
            axes.plot([max(low, 0.3), min(high, 2.0)], [place, place], color="#0969da", linewidth=2)
            axes.plot(ratio.mean, place, "o", color="#0969da")
        axes.axvline(1.0, color="#57606a", linewidth=1)
        axes.set_xscale("log")
        ticks = [0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_xlim(0.3, 2.0)
        axes.set_yticks(range(len(own)), [ratio.other for ratio in own])
        axes.set_xlabel(f"cost of {own[0].ours} relative to this method; 95 % interval over the tables (Student)")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


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


def grid(
    result: dict[Any, dict[str, Score]], blocks: list[Block], meta: dict[str, Any], lines: list[dict[str, Any]]
) -> str:
    """Return normalised costs of everybody on every table, the lowest in bold."""
    names = list(meta["methods"])
    failed = {(line["table"], line["method"]) for line in lines if line["error"]}
    rows = []
    for block in blocks:
        row = result[block.table, block.costs_name]
        least = min(score.cost for score in row.values())
        cells = [
            "failed" if (block.table, name) in failed else
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
    """Return the seconds of fitting and predicting, a fit counted once."""
    frame = pd.DataFrame([line for line in lines if not line["error"]])
    kinds = ["fit_seconds", "predict_seconds"]
    frame = frame.drop_duplicates(["table", "method", "split"]).astype(dict.fromkeys([*kinds, "n_test"], float))
    means = frame.groupby("method")[kinds].agg(["median", "max"])
    rows = []
    for name in meta["methods"]:
        if name in means.index:
            own: NDArray[Any] = means.loc[name].to_numpy()
            rows.append([name, meta["methods"][name]["about"], *(f"{value:.1f}" for value in own[:2]),
                         *(f"{value:.2f}" for value in own[2:])])  # fmt: skip
    return markdown(["", "what it is", "fit, median", "longest", "prediction, median", "longest"], rows)


def how(lines: list[dict[str, Any]], meta: dict[str, Any]) -> str:
    failed = sorted({(line["table"], line["method"], line["error"]) for line in lines if line["error"]})
    versions: dict[str, list[str]] = {}
    for name, about in meta["methods"].items():
        versions.setdefault(", ".join(f"{k} {v}" for k, v in about["versions"].items()), []).append(name)
    text = [
        f"- {meta['date']}, {meta['device']} (load {meta['load_average_1min']} at the end), "
        f"`{meta['command']}`, {counted(meta['workers'], 'fit')} at a time.",
        *[f"- {', '.join(names)}: {known}." for known, names in versions.items()],
        *[f"- Not run: {name}, {why}." for name, why in meta["skipped"].items()],
        *[f"- Failed: {method} on {table}: {error}." for table, method, error in failed],
    ]
    if meta["missing"]:
        text.append(f"- Not run yet, the same command does: {counted(meta['missing'], 'fit')}.")
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


HEAD = """<!-- made by python -m benchmarks.quality.peers.run --page: do not edit -->

# Cost benchmark

Which method has the lowest cost? {methods} methods, {tables}, {repeats} x {folds} stratified folds that keep duplicates
together, the same samples for all. {note}
No method sees test labels or was tuned on test samples. Rules, and how to add a method or a table:
`benchmarks/quality/peers/README.md`. "The best of the others" is chosen on the test samples, in their favour; no
interval is corrected for that choice, nor for the number of tables. All intervals and versions:
[details]({name}_details.md)."""
DETAILS = """<!-- made by python -m benchmarks.quality.peers.run --page: do not edit -->

# Cost benchmark: details

How [the benchmark]({name}.md) was run, and the interval of every cost."""
AGAINST = """Mean test cost over the splits that both finished; below 1 the ensemble costs less. A row is a table under
one set of costs. "Best single peer of each row" is an oracle: chosen on the test samples, without AutoGluon, which is a
stack itself. Intervals are over tables, the rows of a table averaged first: Student's t on the logarithms, and
percentiles of 10,000 bootstrap samples of the tables, which are too narrow with so few. The largest ratios first."""
RANKS = """By normalised cost, one table one block (its mean over costs); Friedman's test, then Nemenyi's."""
NORMALISED = """Mean cost relative to the constant baseline on the same samples; 1 saves nothing. "-": does not
apply to such tables, or was run on some of the splits only."""
INTERVALS = """95 % intervals: Student's t on paired per-sample costs of the folds, samples and fits counted
(`adacsl.comparison.statistics.fold_interval`). Those of the losses are of paired differences, these of the costs
themselves. Duplicates count as one unit of evidence."""
SECONDS = """One fit serves all costs of a table, and so do its seconds; imports are not counted. Methods without a time
limit take what they need."""
