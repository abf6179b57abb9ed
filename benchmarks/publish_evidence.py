"""The page statistics.md: power and coverage of a comparison's statistics, and the regret of its recommendation."""

from __future__ import annotations

from typing import Any

HEAD = """\
<!-- made by benchmarks/publish.py from benchmarks/results: do not edit -->

# Power and coverage

`adacsl compare` tests every sample in repeated cross-validation and compares methods by their per-sample costs.
Intervals are those of paired costs over samples and fits
([how](../../docs/guide/compare/statistics.md)); the recommendation is the simplest method whose upper bound of excess
over the lowest cost is at most 10 %, else the lowest mean. Both are
compared with the former protocol: five random splits, the corrected variance of Nadeau and Bengio over the means of the
splits, and the simplest method without a significant difference from the lowest mean.
"""

NOT_YET = "Not measured yet with this version.\n"


def evidence_page(
    power: dict[str, Any] | None, regret: dict[str, Any] | None, suite: dict[str, Any], race: dict[str, Any] | None
) -> str:
    """Return the page from what power.py (with --racing, too), recommendation_regret.py and suite.py wrote."""
    return HEAD + simulation(power) + racing(race) + blocks(regret, suite)


def racing(run: dict[str, Any] | None) -> str:
    """Return how often a best method is called worse or stopped, with racing and without."""
    head = "\n## Racing\n\n"
    if run is None:
        return head + NOT_YET
    lines = [
        head,
        f"`{run['command']}`; {run['date']}; {run['device']}; {run['draws']} draws of each kind; "
        "`benchmarks/results/cpu_racing.json`.\n\n",
        "Costs of nine methods are drawn, nothing is trained: hard samples are hard for all methods, and the mean cost "
        "of each training varies by 2 %. Type I: how often a method whose expected cost is the lowest is called "
        "significantly worse, by a race or by the table. Best stopped: how often a race stops such a method (nominal: "
        "below 1 %). Power: share of the worse methods (1 % to 100 % above the lowest cost) that are called so. "
        "Regret: expected cost of the recommended method over the lowest, less 1. Where all nine methods are exactly "
        "equal, the table errs in more than 5 % of comparisons without racing: Holm's adjustment does not account for "
        "the choice of the lowest mean. With racing p is corrected for all pairs of methods, at some power.\n\n",
        "| methods | samples | folds | racing | type I | best stopped | power | fits run | regret of the "
        "recommendation |\n|---|--:|---|---|--:|--:|--:|--:|--:|\n",
    ]
    for row in run["rows"]:
        shares = [100 * row[name] for name in ("type I", "best stopped")]
        power = "-" if row["power"] is None else f"{100 * row['power']:.1f} %"
        lines.append(
            f"| {row['methods']} | {row['n']:,} | {row['folds']} | {row['racing']} | {shares[0]:.1f} % "
            f"| {shares[1]:.1f} % | {power} | {100 * row['fits run']:.0f} % | {row['regret, %']:.2f} % |\n"
        )
    return "".join(lines)


def simulation(run: dict[str, Any] | None) -> str:
    """Return type I error, power, coverage and regret on drawn data, by protocol."""
    head = "\n## Simulated data with a known distribution\n\n"
    if run is None or "type I" not in run["rows"][0]:
        return head + NOT_YET
    lines = [
        head,
        f"`{run['command']}`; {run['date']}; {run['device']}; {run['draws']} draws of each kind; "
        "`benchmarks/results/cpu_power.json`.\n\n",
        "Eight methods of known true cost: two constants and logistic regressions that see more or fewer columns. Type "
        "I: how often two identical methods differ significantly (nominal: 5 %). Power: how often a worse method "
        "differs significantly from the best. Coverage: how often the 95 % interval of that difference contains the "
        "truth; of a constant: the interval of the cost of predicting everything positive. Regret: the true cost of "
        "the selected method over that of the best, less 1; in brackets the worst of all draws. Groups: four samples "
        "share features and noise, and stay in one fold.\n\n",
        "| rows | groups of | protocol | excess cost | type I | power | coverage | of a constant | half-width | regret "
        "of the recommendation | regret of the lowest mean |\n|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    ]
    truths = {(one["n"], one["groups of"]): one for one in run["extra cost, %"]}
    for row in run["rows"]:
        excess = truths[row["n"], row["groups of"]]["without two columns"]
        lines.append(
            f"| {row['n']:,} | {row['groups of']} | {row['protocol']} | {excess} % | {100 * row['type I']:.1f} % "
            f"| {100 * row['power']:.1f} % | {100 * row['coverage']:.1f} % "
            f"| {100 * row['coverage of always-positive']:.1f} % "
            f"| {row['half-width, %']:.1f} % | {regret(row, 'regret')} | {regret(row, 'regret of the lowest mean')} |\n"
        )
    lines.append("\nTrue excess cost of the methods over the best (percent):\n\n")
    names = [name for name in run["extra cost, %"][0] if name not in ("n", "groups of")]
    lines.append(f"| rows | groups of | {' | '.join(names)} |\n|--:|--:|{'--:|' * len(names)}\n")
    lines += [
        f"| {one['n']:,} | {one['groups of']} | {' | '.join(str(one[name]) for name in names)} |\n"
        for one in run["extra cost, %"]
    ]
    return "".join(lines)


def regret(row: dict[str, Any], name: str) -> str:
    return f"{row[f'{name}, %']:.1f} % ({row[f'worst {name}, %']:.0f} %)"


def blocks(run: dict[str, Any] | None, suite: dict[str, Any]) -> str:
    """Return the regret of the recommendation on real tables, block by block."""
    head = "\n## Real tables: regret of the recommendation\n\n"
    if run is None:
        return head + NOT_YET
    new, old = run["new"], run["old"]
    lines = [
        head,
        f"`{run['command']}`; {run['date']}; {run['device']}; `benchmarks/results/recommendation_regret.json`, from "
        f"`suite.npz` (row costs of {suite.get('repeats', '?')} x {suite.get('folds', '?')} folds, run on "
        f"{suite.get('date', '?')}, {suite.get('device', '?')}; {suite.get('note', 'whole tables')}) and "
        "`suite_random_splits.csv` (the old protocol, its own run).\n\n",
        f"The recommendation is made on four fifths of the rows, its choice evaluated on the fifth, over "
        f"{run['partitions']} "
        "random partitions, and divided by what the method with the lowest mean over all rows costs; the old protocol "
        "has splits in place of parts: recommendation from four, pick on the fifth. Geometric means over the blocks "
        "(tables x "
        "cost ratios). No intervals: blocks of one table share rows. The best is the best of those compared: by "
        f"default {len(run['methods'])} methods ({', '.join(run['methods'])}); the old run had 20. Among many methods "
        "the lowest mean is more often due to noise, and any rule costs more.\n\n",
        "| protocol | blocks | regret of the recommendation | worst block | regret of the lowest mean | worst block |\n"
        "|---|--:|--:|--:|--:|--:|\n",
    ]
    for name, part in (
        ("5 random splits, 20 methods, simplest without significant difference", old),
        ("row costs, methods by default, excess at most 10 %", new),
        ("the same, against the best of all methods", run["new_against_all"]),
        ("row costs, all methods, excess at most 10 %", run["all"]),
    ):
        over = part["overall"]
        lines.append(
            f"| {name} | {over['blocks']} | {over['recommendation, %']:.1f} % | {over['recommendation, worst']:.2f} x "
            f"| {over['lowest, %']:.1f} % | {over['lowest, worst']:.2f} x |\n"
        )
    lines.append(
        "\n| table | ratio | lowest cost | recommendation | lowest mean | picks of the recommendation | old "
        "recommendation |\n"
    )
    lines.append("|---|--:|---|--:|--:|---|--:|\n")
    before = {(one["data"], one["ratio"]): one for one in old["blocks"]}
    for one in sorted(new["blocks"], key=lambda block: -block["recommendation"]):
        picks = ", ".join(f"{name} ({count})" for name, count in one["picks"].items())
        then = before.get((one["data"], one["ratio"]))
        lines.append(
            f"| {one['data']} | {one['ratio']:g} | {one['best']} | {one['recommendation']:.3f} | {one['lowest']:.3f} | "
            f"{picks} | {'-' if then is None else format(then['recommendation'], '.3f')} |\n"
        )
    return "".join(lines)
