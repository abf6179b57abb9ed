"""Robustness tests: damage inputs of adacsl and count the failures.

python -m benchmarks.attacks                               all, the long form: hours on 2 cores
python -m benchmarks.attacks --short                       what CI runs
python -m benchmarks.attacks --only artefacts --seed 7     one class, other draws
python -m benchmarks.attacks --page benchmarks/results/robustness.md        no attack: the page, from the results

Results are added to benchmarks/results/attacks.json class by class: what is finished is not lost.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.attacks.page import page
from benchmarks.attacks.scoreboard import Attack, attacks, score
from benchmarks.harness import metadata

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/attacks.json"


def main() -> int:
    known = attacks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few tries of each; results are printed only")
    parser.add_argument("--only", nargs="+", choices=sorted(known), default=list(known), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the results of the long form are added")
    parser.add_argument("--page", type=Path, help="write this page from the results, and attack nothing")
    args = parser.parse_args()
    if args.page is not None:
        args.page.write_text(page(json.loads(args.json.read_text())), encoding="utf-8")
        return 0
    print(f"{'attack':28} {'tried':>7} {'failed':>7} {'seconds':>8}")
    rows = [_row(known[name], args) for name in args.only]
    return int(any(row["failed"] for row in rows))


def _row(attack: Attack, args: argparse.Namespace) -> dict[str, Any]:
    row = score(attack, short=args.short, seed=args.seed)
    print(f"{row['name']:28} {row['tried']:7,} {row['failed']:7,} {row['seconds']:8.1f}", flush=True)
    for fault in row["faults"]:
        print(f"    {fault}")
    if not args.short:
        known = json.loads(args.json.read_text()) if args.json.exists() else {"attacks": {}}
        about = metadata() | {"command": f"python -m benchmarks.attacks --only {attack.name}", "commit": _commit()}
        known["attacks"][attack.name] = row | {"about": about}
        args.json.write_text(f"{json.dumps(known, indent=1, sort_keys=True)}\n", encoding="utf-8")
    return row


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)  # noqa: S603
    return shown.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
