"""How long imports take in fresh interpreters: `import adacsl`, loading a saved model, predicting 1,000 rows.

python -m benchmarks.speed.import_time

Each is measured beside a reference in the same round: numpy alone; pandas and scikit-learn, which tables and
estimators need; torch with these two. The figures are CPU seconds (user and system), which depend
little on what else runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import arguments, publish, ratio_row

BAR = 0.2
LIBRARIES = "import pandas, sklearn.linear_model"
LOAD = "import sys, adacsl; adacsl.load(sys.argv[1])"
PREDICT = "import sys; from adacsl.cli.app import run; sys.exit(run(['predict', *sys.argv[1:]]))"
COSTS = ["--fn", "5", "--fp", "1"]
REFERENCES = {
    "import numpy": ["-c", "import numpy"],
    "import pandas and scikit-learn": ["-c", LIBRARIES],
    "import pandas, scikit-learn and torch": ["-c", f"{LIBRARIES}, torch"],
}
METHODS = {"logistic": ("logistic", 2.0), "a network": ("net", 1.5)}
"""Methods by what is shown, and how many times its reference a model of each may take to predict."""


def main() -> int:
    args = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as place:
        ours, against, bars = works(Path(place))
        seconds: dict[str, list[float]] = {name: [] for name in (*REFERENCES, *ours)}
        for turn in range((args.repeats or 9) + 1):
            for name, command in (REFERENCES | ours).items():
                spent = cpu_seconds(command)
                if turn:  # the first ones fill the caches of the file system
                    seconds[name].append(spent)
    rows = [
        ratio_row(name, seconds[name], seconds[against[name]], bar=bars.get(name), against=against[name])
        for name in ours
    ]
    rows[0] |= {"bar_seconds": BAR, "met": rows[0]["ours"]["median_s"] <= BAR}
    return publish("Imports in fresh interpreters, CPU seconds", rows, args, torch_imported=False)


def works(place: Path) -> tuple[dict[str, list[str]], dict[str, str], dict[str, float]]:
    """Return what is measured, by name: the command, its reference, and its bar where it has one."""
    from adacsl.datasets import load_task  # noqa: PLC0415

    task, rows = load_task("german-credit"), place / "rows.csv"
    task.X.assign(target=task.y).to_csv(rows, index=False)
    commands, against, bars = {"import adacsl": ["-c", without("torch", "import adacsl")]}, {}, {}
    against["import adacsl"] = "import numpy"
    for (shown, (method, bar)), unused in zip(METHODS.items(), ("torch", "lightning"), strict=True):
        model, out = place / method, place / f"{method}.parquet"
        train = ["train", rows, "--pos-label", "1", *COSTS, "--method", method, "--out", model, "--quiet"]
        cpu_seconds(["-m", "adacsl.cli", *map(str, train)])
        reference = (
            "import pandas, scikit-learn and torch" if unused == "lightning" else "import pandas and scikit-learn"
        )
        for name, code, words in (
            (f"load: {shown}", without(unused, LOAD), [model]),
            (f"adacsl predict, 1,000 rows: {shown}", PREDICT, [model, rows, "--out", out]),
        ):
            commands[name], against[name] = ["-c", code, *map(str, words)], reference
        bars[f"adacsl predict, 1,000 rows: {shown}"] = bar
    return commands, against, bars


def without(module: str, code: str) -> str:
    """Return code that fails where it has imported a module."""
    return f"{code}\nimport sys\nassert {module!r} not in sys.modules"


def cpu_seconds(words: Sequence[str]) -> float:
    """Return the CPU seconds of one new interpreter."""
    before = os.times()
    subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)  # noqa: S603
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


if __name__ == "__main__":
    sys.exit(main())
