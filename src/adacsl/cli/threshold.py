"""``adacsl threshold``: the cost-optimal threshold of the scores of any model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.cli.console import PLAIN, Answer, Screen, listing
from adacsl.cli.options import (
    BATCH_ROWS,
    CONSTRAINT_DEFAULTS,
    COST_DEFAULTS,
    BatchRows,
    ConstraintOptions,
    CostOptions,
    interval_text,
)
from adacsl.storage.atomic import check_file
from adacsl.storage.tables import writing
from adacsl.thresholds.search import CostCurve, Threshold
from adacsl.thresholds.streaming import Batch, ThresholdSummary, summarize_thresholds

if TYPE_CHECKING:
    from adacsl.datasets.scores import ScoredTable
    from adacsl.thresholds.constraints import Certified


BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60


def threshold(
    scores: Path,
    *,
    score_column: str | None = None,
    label_column: str | None = None,
    weight_column: str | None = None,
    pos_label: str | None = None,
    cost_options: CostOptions = COST_DEFAULTS,
    constraint_options: ConstraintOptions = CONSTRAINT_DEFAULTS,
    curve: Path | None = None,
    html: Path | None = None,
    batch_rows: BatchRows = BATCH_ROWS,
    screen: Screen = PLAIN,
) -> Answer:
    """Find the cost-optimal threshold of the scores of any model.

    Prints the exact optimum with its interval of equal cost, a confidence interval, the expected cost on new samples
    (corrected for the selection of the threshold), and the costs of the Bayes threshold and the constant baselines.
    Scores outside [0, 1] are used as they are; they have no Bayes threshold. Tables may be larger than memory; the
    answer does not depend on --batch-rows. With constraints such as --min-recall, all rows are held in memory.

    Parameters
    ----------
    scores
        Table (CSV, Parquet, Excel, ...) with scores and labels.
    score_column
        Column of the scores. Default: `score`, or a guess where there are two columns.
    label_column
        Column of the labels. Default: `label`, or a guess where there are two columns.
    weight_column
        Column of the sample weights.
    pos_label
        Label of the positive class; default: 1 or true where the labels are 0/1, -1/1 or false/true.
    curve
        Write the cost of every candidate threshold to this CSV file; of more than 200,000 rows at most 65,025.
    html
        Write a report: the cost of every threshold, errors in cost, calibration, and sliders for other costs. Needs
        probabilities, and memory for all rows.
    batch_rows
        Number of rows held in memory.

    Examples
    --------
    adacsl threshold scores.csv --fn 8 --fp 1
    adacsl threshold scores.csv --fn 8 --fp 1 --html scores.html
    adacsl threshold scores.csv --fn 8 --fp 1 --min-recall 0.9 --confidence 0.95
    adacsl threshold scores.parquet --score-column p --label-column fraud --fn amount --fp 5 --curve curve.csv
    """
    cost_options.check(required=True)
    limits = constraint_options.given
    constraint_options.check(weights=None if weight_column is None else "--weight-column")
    if curve is not None:
        check_file(curve)
    if html is not None:
        check_file(html)
        if weight_column is not None:
            raise ValueError("--html takes no --weight-column: leave one of them out")
    from adacsl.datasets.scores import ScoredTable  # noqa: PLC0415  pandas

    table = ScoredTable(
        scores, costs=cost_options.known, score=score_column, label=label_column, weight=weight_column,
        pos_label=pos_label, rows=batch_rows,
    )  # fmt: skip
    constrained = None if limits is None else _constrained(table, limits)  # all rows at once; before what takes longer
    summary = summarize_thresholds(table.batches())
    cuts = np.asarray(summary.curve.thresholds, np.float64)
    if curve is not None:
        _write_curve(curve, summary.curve, cuts)
    ends = (0.0, 1.0) if summary.bayes_cost is not None else (cuts[1], cuts[-1])
    shown = [*_shown(summary, table, constrained), "", *_sparkline(cuts, np.asarray(summary.curve.costs), ends)]
    shown += [] if curve is None else [f"cost of {len(cuts):,} candidate thresholds: {curve}"]
    if html is not None:
        _write_report(html, table, str(scores), limits)
        shown.append(f"written: {html}")
    document = _document(summary, table) | {"curve": curve, "report": html}
    if constrained is not None and limits is not None:
        best, known = constrained
        certified = {name: each._asdict() for name, each in known.items()}
        document["constrained"] = {**best._asdict(), "confidence": limits["confidence"], "constraints": certified}
    return Answer(document, tuple(shown))


def _constrained(table: ScoredTable, limits: dict[str, Any]) -> tuple[Threshold, dict[str, Certified]]:
    """Return the cost-optimal threshold that meets constraints, and what is known of them."""
    from adacsl.thresholds.constraints import Constraints, counts_of  # noqa: PLC0415
    from adacsl.thresholds.search import find_threshold  # noqa: PLC0415

    whole = Batch.joined(list(table.batches()))
    best = find_threshold(whole.scores, whole.labels, whole.costs, sample_weight=whole.weight, **limits)
    counts = counts_of(np.asarray(whole.scores), whole.labels == 1, whole.weight, np.asarray([best.value]))
    counts = counts._replace(false_negatives=counts.false_negatives[0], false_positives=counts.false_positives[0])
    return best, Constraints(**limits).certified(counts)


def _write_report(path: Path, table: ScoredTable, name: str, limits: dict[str, Any] | None) -> None:
    from adacsl.report.scores import report_scores  # noqa: PLC0415  plotly only for those who look

    every, classes = Batch.joined(list(table.batches())), np.asarray(table.classes, dtype=object)
    report_scores(
        every.scores, classes[every.labels], every.costs, path, pos_label=classes[1], title=f"Scores of {name}",
        constraints=limits,
    )  # fmt: skip


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


def _shown(summary: ThresholdSummary, scores: ScoredTable, constrained: Any = None) -> list[Any]:
    best, expected, bayes = summary.tuned.best, summary.tuned.cost, summary.bayes_cost
    table = listing("", right=("score >", "mean cost", "95 % interval"))
    table.add_row("optimum on these samples", f"{best.value:.4g}", f"{summary.best_cost:.4g}", "")
    if expected is not None:
        table.add_row("  expected on new samples", "", f"{expected.estimate:.4g}", interval_text(*expected[1:]))
    if constrained is not None:
        table.add_row("optimum under the constraints", f"{constrained[0].value:.4g}", f"{constrained[0].cost:.4g}", "")
    if bayes is not None:
        where = "per sample" if summary.bayes_threshold is None else f"{summary.bayes_threshold:.4g}"
        table.add_row("Bayes threshold", where, f"{bayes.estimate:.4g}", interval_text(*bayes[1:]))
    for label, cost in zip(("negative", "positive"), summary.constant_costs, strict=True):
        table.add_row(f"always {label}", "", f"{cost:.4g}", "")
    low, high = summary.tuned.threshold[1:]
    from adacsl.decision.rule import describe_certified  # noqa: PLC0415  scikit-learn

    met = [] if constrained is None else [describe_certified(name, each) for name, each in constrained[1].items()]
    return [
        f"{summary.n_samples} samples, {summary.n_positives} of them positive ({scores.classes[1]})",
        f"cost-optimal threshold {best.value:.6g}: all from {best.low:.6g} to {best.high:.6g} cost the same",
        f"95 % interval of the threshold: {low:.4g} to {high:.4g}",
        *met,
        "",
        table,
    ]


def _sparkline(cuts: NDArray[np.float64], costs: NDArray[np.float64], ends: tuple[float, float]) -> list[str]:
    """Return the cost curve as one line of bars."""
    heights = costs[np.maximum(np.searchsorted(cuts, np.linspace(*ends, WIDTH), side="right") - 1, 0)]
    span = float(heights.max() - heights.min()) or 1.0
    bars = "".join(BARS[round((h - heights.min()) / span * (len(BARS) - 1))] for h in heights)
    return ["cost by threshold", bars, f"{ends[0]:<8.4g}{ends[1]:>{WIDTH - 8}.4g}"]
