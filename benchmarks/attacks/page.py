"""The scoreboard as a page."""

from __future__ import annotations

from typing import Any

HEAD = """\
<!-- made by python -m benchmarks.attacks --page benchmarks/results/robustness.md: do not edit -->

# Robustness tests

Attempts to make adacsl lose work, run code of untrusted files, accept damaged files or show a traceback, and the number
of failures; the goal is 0 in every row. The long form is `python -m benchmarks.attacks`; a short form of every class is
part of the tests. What is *not* guaranteed: [security](../../SECURITY.md).

| test | tried | failed | what counts as failed, and what was tried |
|---|--:|--:|---|
"""


def page(results: dict[str, Any]) -> str:
    """Return the page: the table, faults in full, and where and when each row was made."""
    rows = [results["attacks"][name] for name in sorted(results["attacks"])]
    table = "".join(f"| `{row['name']}` | {row['tried']:,} | {row['failed']:,} | {row['what']} |\n" for row in rows)
    total = f"| **all** | **{sum(r['tried'] for r in rows):,}** | **{sum(r['failed'] for r in rows):,}** | |\n"
    faults = "".join(f"- `{row['name']}`: {fault}\n" for row in rows for fault in row["faults"])
    failures = f"\n## Failures\n\n{faults}" if faults else ""
    return HEAD + table + total + failures + "\n## When and where\n\n" + "".join(_made(row) for row in rows)


def _made(row: dict[str, Any]) -> str:
    about = row["about"]
    where = f"{about['date']}, {about['device']}, Python {about['versions']['python']}, commit {about['commit']}"
    return f"- `{about['command']}`, seed {row['seed']}: {row['seconds']:,} s, {where}\n"
