"""Turn benchmarks/results/*.json into docs/benchmarks.md and the table in README.md.

python benchmarks/publish.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- benchmarks: begin (made by benchmarks/publish.py) -->", "<!-- benchmarks: end -->"
ORDER = (
    "cpu_threshold_search", "h200_threshold_search", "cpu_loss", "h200_loss", "cpu_import_time",
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


def main() -> None:
    runs = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks/results").glob("*.json"))}
    names = [n for n in ORDER if n in runs] + [n for n in runs if n not in ORDER]
    page = HEAD + "".join(section(runs[name], name) for name in names)
    (ROOT / "docs/benchmarks.md").write_text(page)
    readme = ROOT / "README.md"
    text = readme.read_text()
    if BEGIN in text:
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        readme.write_text(f"{head}{BEGIN}\n{short_table({n: runs[n] for n in names})}\n{END}{tail}")


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
        f"| **{shown(row['ratio'])}** | {shown(row['ratio_of_minimums'])} | {bar(row)}{verdict(row)} |"
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
    lines.append(
        f"\nMeasured {' and '.join(dates)}; commands, spreads, versions and memory are in the docs' benchmarks page."
    )
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


def verdict(row: dict[str, Any]) -> str:
    return {None: "", True: ", met", False: ", **missed**"}[row["met"]]


if __name__ == "__main__":
    main()
