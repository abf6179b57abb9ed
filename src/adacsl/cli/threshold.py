"""``adacsl threshold``: the cost-optimal threshold of scores that any model gave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.cli.console import PLAIN, Answer, Screen, listing
from adacsl.cli.options import BATCH_ROWS, FREE, Prices, interval_text, within
from adacsl.storage.atomic import check_file
from adacsl.storage.tables import writing
from adacsl.thresholds.search import CostCurve
from adacsl.thresholds.streaming import ThresholdSummary, summarize_thresholds

if TYPE_CHECKING:
    from adacsl.datasets.scores import ScoredTable


BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60


def threshold(
    scores: Path,
    *,
    score_column: str | None = None,
    label_column: str | None = None,
    weight_column: str | None = None,
    pos_label: str | None = None,
    prices: Prices = FREE,
    curve: Path | None = None,
    batch_rows: Annotated[int, within(1)] = BATCH_ROWS,
    screen: Screen = PLAIN,
) -> Answer:
    """Find the cheapest threshold of scores that any model gave.

    Prints the exact optimum with all equally cheap cuts, how sure it is, what it will cost on new rows (a threshold
    flatters the rows that chose it), and what the Bayes threshold and the constant decisions cost. Scores outside
    [0, 1] are taken as they are; they have no Bayes threshold. Tables may be larger than memory; the answer does not
    depend on --batch-rows.

    Parameters
    ----------
    scores
        Table (CSV, Parquet, Excel, ...) with scores and labels.
    score_column
        Column of the scores. Default: `score`, or a guess where there are two columns.
    label_column
        Column of the labels. Default: `label`, or a guess where there are two columns.
    weight_column
        Column that says how much each row counts.
    pos_label
        Label of the positive class; 0/1, -1/1 and false/true need no naming.
    curve
        Write the cost of every cut to this CSV file; of more than 200,000 rows, of 65,025 cuts at most.
    batch_rows
        How many rows to hold in memory.

    Examples
    --------
    adacsl threshold scores.csv --fn 8 --fp 1
    adacsl threshold scores.parquet --score-column p --label-column fraud --fn amount --fp 5 --curve curve.csv
    """
    prices.check(required=True)
    if curve is not None:
        check_file(curve)
    from adacsl.datasets.scores import ScoredTable  # noqa: PLC0415  pandas

    table = ScoredTable(
        scores, costs=prices.known, score=score_column, label=label_column, weight=weight_column, pos_label=pos_label,
        rows=batch_rows,
    )  # fmt: skip
    summary = summarize_thresholds(table.batches())
    cuts = np.asarray(summary.curve.thresholds, np.float64)
    if curve is not None:
        _write_curve(curve, summary.curve, cuts)
    ends = (0.0, 1.0) if summary.bayes_cost is not None else (cuts[1], cuts[-1])
    shown = [*_shown(summary, table), "", *_sparkline(cuts, np.asarray(summary.curve.costs), ends)]
    shown += [] if curve is None else [f"cost of {len(cuts):,} cuts: {curve}"]
    return Answer(_document(summary, table) | {"curve": curve}, tuple(shown))


def _write_curve(path: Path, curve: CostCurve, cuts: NDArray[np.float64]) -> None:
    import pandas as pd  # noqa: PLC0415

    names = ("threshold", "total_cost", "false_negative_cost", "false_positive_cost")
    columns = (cuts, curve.total_costs, curve.false_negatives, curve.false_positives)
    with writing(path) as draft:
        pd.DataFrame(dict(zip(names, columns, strict=True))).to_csv(draft, index=False)


def _document(summary: ThresholdSummary, table: ScoredTable) -> dict[str, Any]:
    best, bayes = summary.tuned.best, summary.bayes_cost
    expected, *interval = summary.tuned.cost or (None,)
    return {
        "rows": summary.n_samples,
        "positives": summary.n_positives,
        "classes": list(table.classes),
        "threshold": {
            "value": best.value, "low": best.low, "high": best.high, "interval": list(summary.tuned.threshold[1:])
        },
        "cost": {
            "total": best.total_cost, "mean": summary.best_cost, "expected": expected, "interval": interval or None
        },
        "bayes": None if bayes is None else {
            "threshold": summary.bayes_threshold, "mean": bayes.estimate, "interval": list(bayes[1:])
        },
        "always_negative": summary.constant_costs[0],
        "always_positive": summary.constant_costs[1],
    }  # fmt: skip


def _shown(summary: ThresholdSummary, scores: ScoredTable) -> list[Any]:
    best, expected, bayes = summary.tuned.best, summary.tuned.cost, summary.bayes_cost
    table = listing("", right=("score >", "cost per row", "95 % interval"))
    table.add_row("cheapest, on these rows", f"{best.value:.4g}", f"{summary.best_cost:.4g}", "")
    if expected is not None:
        table.add_row("  expected on new rows", "", f"{expected.estimate:.4g}", interval_text(*expected[1:]))
    if bayes is not None:
        where = "by row" if summary.bayes_threshold is None else f"{summary.bayes_threshold:.4g}"
        table.add_row("Bayes threshold", where, f"{bayes.estimate:.4g}", interval_text(*bayes[1:]))
    for label, cost in zip(("negative", "positive"), summary.constant_costs, strict=True):
        table.add_row(f"always {label}", "", f"{cost:.4g}", "")
    low, high = summary.tuned.threshold[1:]
    return [
        f"{summary.n_samples} rows, {summary.n_positives} of them positive ({scores.classes[1]})",
        f"cheapest threshold {best.value:.6g}: every cut from {best.low:.6g} up to {best.high:.6g} costs the same",
        f"95 % interval of the threshold: {low:.4g} to {high:.4g}",
        "",
        table,
    ]


def _sparkline(cuts: NDArray[np.float64], costs: NDArray[np.float64], ends: tuple[float, float]) -> list[str]:
    """Return the cost curve as one line of bars."""
    heights = costs[np.maximum(np.searchsorted(cuts, np.linspace(*ends, WIDTH), side="right") - 1, 0)]
    span = float(heights.max() - heights.min()) or 1.0
    bars = "".join(BARS[round((h - heights.min()) / span * (len(BARS) - 1))] for h in heights)
    return ["cost by threshold", bars, f"{ends[0]:<8.4g}{ends[1]:>{WIDTH - 8}.4g}"]
