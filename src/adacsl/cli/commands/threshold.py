"""``adacsl threshold``: the cheapest cut of scores that came from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.cli.options import FREE, Prices, interval_text
from adacsl.cli.screen import PLAIN, Answer, Screen, listing
from adacsl.cli.writing import writing
from adacsl.core.costs import CostMatrix, as_host
from adacsl.core.intervals import mean_interval
from adacsl.core.thresholds import CostCurve, cost_curve
from adacsl.core.tuning import tune_threshold
from adacsl.durable import check_file

if TYPE_CHECKING:
    from adacsl.datasets.task import Task

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
        Table (CSV, Parquet, Excel, ...) with scores and labels.
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

    Examples
    --------
    adacsl threshold scores.csv --fn 8 --fp 1
    adacsl threshold scores.parquet --score-column p --label-column fraud --fn amount --fp 5 --curve curve.csv
    """
    prices.check(required=True)
    if curve is not None:
        check_file(curve)
    task = _read(scores, (score_column, label_column, weight_column), positive, prices)
    whole = cost_curve(task.X, task.y, task.costs, sample_weight=task.sample_weight)
    cuts = np.asarray(whole.thresholds, np.float64)
    if curve is not None:
        _write_curve(curve, whole, cuts)
    document = _document(task) | {"curve": curve}
    bars = _sparkline(cuts, np.asarray(whole.costs), (0.0, 1.0) if _are_chances(task) else (cuts[1], cuts[-1]))
    shown = [*_shown(document), "", *bars]
    return Answer(document, tuple(shown if curve is None else [*shown, f"cost of every cut: {curve}"]))


def _read(path: Path, columns: tuple[str | None, str | None, str | None], positive: str | None, prices: Prices) -> Task:
    """Return labelled scores."""
    from adacsl.datasets.labels import class_labels  # noqa: PLC0415  pandas
    from adacsl.datasets.prices import number_column, settle_costs  # noqa: PLC0415
    from adacsl.datasets.tables import read_table  # noqa: PLC0415
    from adacsl.datasets.task import Task  # noqa: PLC0415

    frame, name, known = read_table(path), str(path), prices.known
    if isinstance(known, CostMatrix) and known.n_classes > 2:
        raise ValueError(
            f"a threshold parts two classes, but {prices.costs} has {known.n_classes}: "
            "adacsl train decides among them by their expected costs"
        )

    score, label = _guess(frame, name, columns[0], columns[1])
    scores = number_column(frame, score, what=name, holds="a score", least=-np.inf)
    y, classes = class_labels(frame[label], positive, costs=known, what=f"column {label!r} of {name}")
    if len(classes) > 2:
        raise ValueError(f"a threshold parts two classes, but column {label!r} of {name} has {len(classes)}")
    weight = None if columns[2] is None else number_column(frame, columns[2], what=name, holds="a weight of 0 or more")
    costs = settle_costs(known, y, table=frame, what=name, classes=classes)
    return Task(name, scores, y, costs, classes=classes, sample_weight=weight)


def _are_chances(task: Task) -> bool:
    """Tell whether scores may be probabilities."""
    return bool(task.X.min() >= 0.0 and task.X.max() <= 1.0)


def _guess(frame: Any, name: str, score: str | None, label: str | None) -> tuple[str, str]:
    """Return the columns of scores and labels: named, called so by custom, or told apart where there are two."""
    from adacsl.datasets.errors import DataError, check_column, listed  # noqa: PLC0415

    known = list(frame.columns)
    for column in (score, label):
        if column is not None:
            check_column(column, known, name)
    score = score or next((c for c in known if str(c).casefold() == "score" and c != label), None)
    label = label or next((c for c in known if str(c).casefold() == "label" and c != score), None)
    if len(known) == 2:
        if score is None and label is None:
            # scores have more different values than labels; where both have two, the scores come first
            score = max(known, key=lambda c: frame[c].nunique())
        score = score or next(c for c in known if c != label)
        label = label or next(c for c in known if c != score)
    if score is None or label is None:
        wanted = " and ".join(f"--{w}-column" for w, c in (("score", score), ("label", label)) if c is None)
        raise DataError(f"which columns of {name} hold scores and labels? Say {wanted}; it has {listed(known)}")
    return score, label


def _write_curve(path: Path, curve: CostCurve, cuts: NDArray[np.float64]) -> None:
    import pandas as pd  # noqa: PLC0415

    names = ("threshold", "total_cost", "false_negative_cost", "false_positive_cost")
    columns = (cuts, curve.costs, curve.false_negatives, curve.false_positives)
    with writing(path) as draft:
        pd.DataFrame(dict(zip(names, columns, strict=True))).to_csv(draft, index=False)


def _document(task: Task) -> dict[str, Any]:
    costs, y, weight = task.costs, task.y, task.sample_weight
    tuned = tune_threshold(task.X, y, costs, sample_weight=weight)
    value, low, high = tuned.best.value, tuned.best.low, tuned.best.high
    ends = list(tuned.threshold[1:])
    mean = tuned.best.cost / float(len(y) if weight is None else weight.sum())
    expected, *interval = tuned.cost or (None,)
    return {
        "rows": len(y),
        "positives": int(y.sum()),
        "classes": list(task.classes),
        "threshold": {"value": value, "low": low, "high": high, "interval": ends},
        "cost": {"total": tuned.best.cost, "mean": mean, "expected": expected, "interval": interval or None},
        "bayes": _bayes(task) if _are_chances(task) else None,
        "always_negative": costs.mean(y, np.zeros(len(y), int), sample_weight=weight),
        "always_positive": costs.mean(y, np.ones(len(y), int), sample_weight=weight),
    }


def _bayes(task: Task) -> dict[str, Any]:
    """Return what the Bayes threshold costs; scores that are no probabilities have none."""
    costs = task.costs
    mean = mean_interval(as_host(costs.incurred(task.y, costs.decide(task.X))), task.sample_weight)
    cut = float(costs.threshold) if costs.n_instances is None else None  # each row has its own
    return {"threshold": cut, "mean": mean.estimate, "interval": list(mean[1:])}


def _shown(found: dict[str, Any]) -> list[Any]:
    cut, cost, bayes = found["threshold"], found["cost"], found["bayes"]
    table = listing("", right=("score >", "cost per row", "95 % interval"))
    table.add_row("cheapest, on these rows", f"{cut['value']:.4g}", f"{cost['mean']:.4g}", "")
    if cost["expected"] is not None:
        table.add_row("  expected on new rows", "", f"{cost['expected']:.4g}", interval_text(*cost["interval"]))
    if bayes is not None:
        where = "by row" if bayes["threshold"] is None else f"{bayes['threshold']:.4g}"
        table.add_row("Bayes threshold", where, f"{bayes['mean']:.4g}", interval_text(*bayes["interval"]))
    for label in ("negative", "positive"):
        table.add_row(f"always {label}", "", f"{found[f'always_{label}']:.4g}", "")
    return [
        f"{found['rows']} rows, {found['positives']} of them positive ({found['classes'][1]})",
        f"cheapest threshold {cut['value']:.6g}: "
        f"every cut from {cut['low']:.6g} up to {cut['high']:.6g} costs the same",
        f"95 % interval of the threshold: {cut['interval'][0]:.4g} to {cut['interval'][1]:.4g}",
        "",
        table,
    ]


def _sparkline(cuts: NDArray[np.float64], costs: NDArray[np.float64], ends: tuple[float, float]) -> list[str]:
    """Return the cost curve as one line of bars."""
    heights = costs[np.maximum(np.searchsorted(cuts, np.linspace(*ends, WIDTH), side="right") - 1, 0)]
    span = float(heights.max() - heights.min()) or 1.0
    bars = "".join(BARS[round((h - heights.min()) / span * (len(BARS) - 1))] for h in heights)
    return ["cost by threshold", bars, f"{ends[0]:<8.4g}{ends[1]:>{WIDTH - 8}.4g}"]
