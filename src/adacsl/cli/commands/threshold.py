"""``adacsl threshold``: the cheapest cut of scores that came from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.cli.options import FREE, Prices, interval_text
from adacsl.cli.screen import PLAIN, Answer, Screen
from adacsl.cli.writing import writing
from adacsl.core.costs import CostMatrix, as_host
from adacsl.core.intervals import Interval
from adacsl.core.thresholds import CostCurve, cost_curve
from adacsl.durable import check_file

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 60


def threshold(
    scores: Path,
    *,
    score_column: str | None = None,
    label_column: str | None = None,
    weight_column: str | None = None,
    positive: str | None = None,
    prices: Prices = FREE,
    curve: Path | None = None,
    screen: Screen = PLAIN,
) -> Answer:
    """Find the cheapest threshold of scores that any model gave.

    Prints the exact optimum with all equally cheap cuts, how sure it is, what it will cost on new rows (a threshold
    flatters the rows that chose it), and what the Bayes threshold and the constant decisions cost. Scores outside
    [0, 1] are taken as they are; they have no Bayes threshold.

    Parameters
    ----------
    scores
        CSV or Parquet file with scores and labels.
    score_column
        Column of the scores. Default: `score`, or a guess where there are two columns.
    label_column
        Column of the labels. Default: `label`, or a guess where there are two columns.
    weight_column
        Column that says how much each row counts.
    positive
        Label of the positive class; 0/1, -1/1 and false/true need no naming.
    curve
        Write the cost of every cut to this CSV file.
    """
    from adacsl.datasets.tables import read_table  # noqa: PLC0415  pandas

    prices.check(required=True)
    if curve is not None:
        check_file(curve)
    rows = _rows(read_table(scores), str(scores), (score_column, label_column, weight_column), positive, prices)
    found = _tune(rows)
    whole = cost_curve(rows.scale.inner, rows.labels, rows.costs, sample_weight=rows.weight)
    if curve is not None:
        _write_curve(curve, whole, rows)
    return Answer(_document(rows, found, curve), tuple(_shown(rows, found, whole, curve)))


class _Scale(NamedTuple):
    """Scores as numbers in [0, 1]: themselves if they are such, else their ranks."""

    scores: NDArray[np.float64]
    inner: NDArray[np.float64]
    distinct: NDArray[np.float64] | None  # the scores by rank, where ranks stand for them

    def outer(self, inner: float) -> float:
        """Return the score that a number in [0, 1] stands for: for ranks, the highest that is not above it."""
        if self.distinct is None:
            return inner
        below = int(np.floor(inner * (len(self.distinct) + 1) + 1e-9))
        return float(self.distinct[min(max(below, 1), len(self.distinct)) - 1])

    def middle(self, low: float, high: float) -> float:
        """Return a threshold between two neighbouring scores."""
        return low if low == high else low / 2.0 + high / 2.0


class _Rows(NamedTuple):
    scale: _Scale
    labels: NDArray[np.int64]
    classes: tuple[str, str]
    costs: CostMatrix
    weight: NDArray[np.float64] | None


class _Found(NamedTuple):
    value: float
    low: float
    high: float
    interval: Interval
    total: float
    here: float
    expected: Interval | None
    bayes: float | None  # None: each row has its own, or the scores are no probabilities
    bayes_cost: Interval | None
    constants: tuple[float, float]  # always negative, always positive


def _rows(
    frame: Any, name: str, columns: tuple[str | None, str | None, str | None], positive: str | None, prices: Prices
) -> _Rows:
    from adacsl.datasets.labels import binary_labels  # noqa: PLC0415
    from adacsl.datasets.prices import number_column, settle_costs  # noqa: PLC0415

    score, label = _guess(frame, name, columns[0], columns[1])
    values = number_column(frame, score, what=name, holds="a score", least=-np.inf)
    y, classes = binary_labels(frame[label], positive, what=f"column {label!r} of {name}")
    fn, fp = (number_column(frame, c, what=name) if c else None for c in (prices.fn_column, prices.fp_column))
    costs = settle_costs(prices.known, y, fn=fn, fp=fp)
    weight = None if columns[2] is None else number_column(frame, columns[2], what=name)
    return _Rows(_scaled(values), y, classes, costs, weight)


def _guess(frame: Any, name: str, score: str | None, label: str | None) -> tuple[str, str]:
    """Return the columns of scores and labels: named, called so by custom, or told apart where there are two."""
    from adacsl.datasets.errors import DataError, check_column, listed  # noqa: PLC0415

    known = list(frame.columns)
    for column in (score, label):
        if column is not None:
            check_column(column, known, name)
    score = score or next((c for c in known if str(c).casefold() == "score" and c != label), None)
    label = label or next((c for c in known if str(c).casefold() == "label" and c != score), None)
    if len(known) == 2 and (score is None or label is None):
        if score is None and label is None:
            # scores have more different values than labels; where both have two, the scores come first
            score = max(known, key=lambda c: frame[c].nunique())
        other = score or label
        rest = known[1] if known[0] == other else known[0]
        score, label = score or rest, label or rest
    if score is None or label is None:
        wanted = " and ".join(f"--{w}-column" for w, c in (("score", score), ("label", label)) if c is None)
        raise DataError(f"which columns of {name} hold scores and labels? Say {wanted}; it has {listed(known)}")
    return score, label


def _scaled(scores: NDArray[np.float64]) -> _Scale:
    if scores.min() >= 0.0 and scores.max() <= 1.0:
        return _Scale(scores, scores, None)
    distinct, rank = np.unique(scores, return_inverse=True)
    return _Scale(scores, np.asarray((rank + 1.0) / (len(distinct) + 1.0), np.float64), distinct)


def _tune(rows: _Rows) -> _Found:
    from adacsl.cli.tuned import mean_cost, tune_threshold  # noqa: PLC0415

    scale, costs = rows.scale, rows.costs
    tuned = tune_threshold(scale.inner, rows.labels, costs, sample_weight=rows.weight)
    low, high = scale.outer(tuned.best.low), scale.outer(tuned.best.high)
    value = tuned.best.value if scale.distinct is None else scale.middle(low, high)
    constants = [
        costs.mean(rows.labels, np.full(len(rows.labels), label), sample_weight=rows.weight) for label in (0, 1)
    ]
    bayes_cost = None
    if scale.distinct is None:
        bayes_cost = mean_cost(as_host(costs.incurred(rows.labels, costs.decide(scale.inner))), rows.weight)
    weight = float(len(rows.labels) if rows.weight is None else rows.weight.sum())
    return _Found(
        value, low, high,
        Interval(value, scale.outer(tuned.threshold.low), scale.outer(tuned.threshold.high)),
        tuned.best.cost, tuned.best.cost / weight, tuned.cost,
        float(costs.threshold) if scale.distinct is None and costs.n_instances is None else None,
        bayes_cost, (constants[0], constants[1]),
    )  # fmt: skip


def _write_curve(path: Path, curve: CostCurve, rows: _Rows) -> None:
    import pandas as pd  # noqa: PLC0415

    cuts = np.asarray(curve.thresholds, dtype=np.float64)
    if rows.scale.distinct is not None:
        cuts = np.concatenate(([np.nextafter(rows.scale.distinct[0], -np.inf)], rows.scale.distinct))
    table = pd.DataFrame(
        {
            "threshold": cuts,
            "total_cost": curve.costs,
            "false_negative_cost": curve.false_negatives,
            "false_positive_cost": curve.false_positives,
        }
    )
    with writing(path) as draft:
        table.to_csv(draft, index=False)


def _document(rows: _Rows, found: _Found, curve: Path | None) -> dict[str, Any]:
    return {
        "rows": len(rows.labels),
        "positives": int(rows.labels.sum()),
        "classes": list(rows.classes),
        "threshold": {"value": found.value, "low": found.low, "high": found.high, "interval": list(found.interval[1:])},
        "cost": {
            "total": found.total,
            "mean": found.here,
            "expected": None if found.expected is None else found.expected.estimate,
            "interval": None if found.expected is None else list(found.expected[1:]),
        },
        "bayes": None
        if found.bayes_cost is None
        else {"threshold": found.bayes, "mean": found.bayes_cost.estimate, "interval": list(found.bayes_cost[1:])},
        "always_negative": found.constants[0],
        "always_positive": found.constants[1],
        "curve": curve,
    }


def _shown(rows: _Rows, found: _Found, curve: CostCurve, path: Path | None) -> list[Any]:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table("", box=None, pad_edge=False)
    for heading in ("score >", "cost per row", "95 % interval"):
        table.add_column(heading, justify="right")
    table.add_row("cheapest, on these rows", f"{found.value:.4g}", f"{found.here:.4g}", "")
    if found.expected is not None:
        table.add_row("  expected on new rows", "", f"{found.expected.estimate:.4g}", interval_text(found.expected))
    if found.bayes_cost is not None:
        bayes = "by row" if found.bayes is None else f"{found.bayes:.4g}"
        table.add_row("Bayes threshold", bayes, f"{found.bayes_cost.estimate:.4g}", interval_text(found.bayes_cost))
    for label, cost in zip(("negative", "positive"), found.constants, strict=True):
        table.add_row(f"always {label}", "", f"{cost:.4g}", "")
    positives = int(rows.labels.sum())
    lines: list[Any] = [
        f"{len(rows.labels)} rows, {positives} of them positive ({rows.classes[1]})",
        f"cheapest threshold {found.value:.6g}: every cut from {found.low:.6g} up to {found.high:.6g} costs the same",
        f"95 % interval of the threshold: {found.interval.low:.4g} to {found.interval.high:.4g}",
        "",
        table,
        "",
        *_sparkline(rows, curve),
    ]
    if path is not None:
        lines.append(Text(f"cost of every cut: {path}"))
    return lines


def _sparkline(rows: _Rows, curve: CostCurve) -> list[str]:
    """Return the cost curve as one line of bars."""
    cuts, costs = np.asarray(curve.thresholds, np.float64), np.asarray(curve.costs)
    if rows.scale.distinct is not None:
        cuts = np.concatenate(([rows.scale.distinct[0]], rows.scale.distinct))
    low, high = (0.0, 1.0) if rows.scale.distinct is None else (float(cuts[0]), float(cuts[-1]))
    at = np.searchsorted(cuts, np.linspace(low, high, WIDTH), side="right") - 1
    heights = costs[np.maximum(at, 0)]
    span = float(heights.max() - heights.min()) or 1.0
    bars = "".join(BARS[round((h - heights.min()) / span * (len(BARS) - 1))] for h in heights)
    return ["cost by threshold", bars, f"{low:<8.4g}{high:>{WIDTH - 8}.4g}"]


__all__ = ["threshold"]
