"""``adacsl threshold``: the cheapest cut of scores that came from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.cli.chunked import ROWS, Kept, from_row, said_once
from adacsl.cli.console import PLAIN, Answer, Screen, listing
from adacsl.cli.options import FREE, Prices, interval_text, within
from adacsl.cli.output_files import writing
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.intervals import Interval, mean_interval
from adacsl.storage.atomic import check_file
from adacsl.thresholds.search import CostCurve, cost_curve
from adacsl.thresholds.streaming import Batch, RunningMean, tune_batches
from adacsl.thresholds.uncertainty import TunedThreshold, tune_threshold

if TYPE_CHECKING:
    from adacsl.datasets.readers.base import Table
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
    batch_rows: Annotated[int, within(1)] = ROWS,
    screen: Screen = PLAIN,
) -> Answer:
    """Find the cheapest threshold of scores that any model gave.

    Prints the exact optimum with all equally cheap cuts, how sure it is, what it will cost on new rows (a threshold
    flatters the rows that chose it), and what the Bayes threshold and the constant decisions cost. Scores outside
    [0, 1] are taken as they are; they have no Bayes threshold. Tables may be larger than memory: above --batch-rows
    rows they are read in pieces, and the threshold is as exact.

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
        Write the cost of every cut to this CSV file; of a table that is read in pieces, of 65,025 cuts at most.
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
    columns = (score_column, label_column, weight_column)
    document, whole = _measured(scores, columns, positive, prices, batch_rows)
    cuts = np.asarray(whole.thresholds, np.float64)
    if curve is not None:
        _write_curve(curve, whole, cuts)
    ends = (0.0, 1.0) if document["bayes"] is not None else (cuts[1], cuts[-1])
    shown = [*_shown(document), "", *_sparkline(cuts, np.asarray(whole.costs), ends)]
    told = "every cut" if not document["in_pieces"] else "each cut between two buckets of scores"
    return Answer(document | {"curve": curve}, tuple(shown if curve is None else [*shown, f"cost of {told}: {curve}"]))


def _measured(
    path: Path, columns: tuple[str | None, str | None, str | None], positive: str | None, prices: Prices, rows: int
) -> tuple[dict[str, Any], CostCurve]:
    """Return the answer and the cost curve."""
    from adacsl.datasets.readers.formats import open_table, read_opened  # noqa: PLC0415  pandas

    known, table = prices.known, open_table(path)
    if isinstance(known, CostMatrix) and known.n_classes > 2:
        raise ValueError(
            f"a threshold parts two classes, but {prices.costs} has {known.n_classes}: "
            "adacsl train decides among them by their expected costs"
        )
    if known != "balanced" and table.exceeds(rows):
        return _in_pieces(table, columns, positive, known, rows)
    frame = read_opened(table)
    return _of_task(_task(frame, (*_guess(frame, str(path), *columns[:2]), columns[2]), str(path), positive, known))


def _task(
    frame: Any, columns: tuple[str, str, str | None], name: str, positive: str | None, known: Any,
    classes: tuple[str, ...] | None = None,
) -> Task:  # fmt: skip
    """Return labelled scores; the classes may be known already."""
    from adacsl.datasets.costs import number_column, settle_costs  # noqa: PLC0415
    from adacsl.datasets.labels import class_labels  # noqa: PLC0415  pandas
    from adacsl.datasets.task import Task  # noqa: PLC0415

    score, label, weighing = columns
    scores = number_column(frame, score, what=name, holds="a score", least=-np.inf)
    what = f"column {label!r} of {name}"
    y, classes = class_labels(frame[label], positive, costs=known, known=classes, what=what)
    if len(classes) > 2:
        raise ValueError(f"a threshold parts two classes, but {what} has {len(classes)}")
    weight = None if weighing is None else number_column(frame, weighing, what=name, holds="a weight of 0 or more")
    costs = settle_costs(known, y, table=frame, what=name, classes=classes)
    return Task(name, scores, y, costs, classes=classes, sample_weight=weight)


# tables that are read in pieces


def _in_pieces(
    table: Table, columns: tuple[str | None, str | None, str | None], positive: str | None, known: Any, rows: int
) -> tuple[dict[str, Any], CostCurve]:
    """Return what :func:`_of_task` does, of a table that is read once; scores and prices are kept in a file."""
    from adacsl.datasets.task import Task  # noqa: PLC0415  pandas

    kept, chances = Kept(), True
    classes: tuple[str, ...] = ()
    for task in _tasks(table, columns, positive, known, rows):
        kept.add(Batch(task.X, task.y, task.costs, task.sample_weight))
        classes, chances = task.classes, chances and _are_chances(task)
    if not chances:  # where they lie among each other is known when all are sorted
        all_rows = Batch.joined(kept())
        return _of_task(Task(table.name, *all_rows[:3], classes=classes, sample_weight=all_rows.weight))
    bayes, constant, size, counts = RunningMean(), np.zeros(2), 0.0, np.zeros(2, int)
    for batch in kept():
        y, costs, weight = batch.labels, batch.costs, batch.weight
        bayes.update(as_host(costs.incurred(y, costs.decide(batch.scores))), weight)
        constant += [costs.total(y, np.full(len(y), label), sample_weight=weight) for label in (0, 1)]
        size, counts = size + float(len(y) if weight is None else weight.sum()), counts + np.bincount(y, minlength=2)
    tuned, curve = tune_batches(kept)
    cut = None if costs.n_instances is not None else float(costs.threshold)
    told = _bayes(bayes.interval(), cut)
    return _document(counts, classes, tuned, size, told, constant / size) | {"in_pieces": True}, curve


def _tasks(
    table: Table, columns: tuple[str | None, str | None, str | None], positive: str | None, known: Any, rows: int
) -> Iterator[Task]:
    """Yield labelled scores, so many at a time."""
    from adacsl.datasets.costs import said_costs  # noqa: PLC0415  pandas

    score, label = _guess(next(table.pieces(table.columns, rows)), table.name, *columns[:2])
    classes = _classes(table, label, positive, known, rows)
    needed = [score, label, *filter(None, columns[2:]), *said_costs(known, np.asarray([0, 1]), classes=classes).columns]
    done = 0
    for frame in table.pieces(table.wanted(list(dict.fromkeys(needed))), rows):
        with said_once(done == 0):
            task = _task(frame, (score, label, columns[2]), from_row(table.name, done), None, known, classes)
        yield task
        done += len(frame)


def _classes(table: Table, label: str, positive: str | None, known: Any, rows: int) -> tuple[str, ...]:
    """Return the two classes, as soon as two labels were seen: a table may be sorted by them."""
    import pandas as pd  # noqa: PLC0415

    from adacsl.datasets.labels import class_labels, missing_labels  # noqa: PLC0415

    seen = pd.Series(dtype=object)
    for frame in table.pieces([label], rows):
        there = frame[label][~missing_labels(frame[label])]
        seen = pd.concat((pd.Series(seen.unique(), dtype=there.dtype), there))
        numbers = pd.to_numeric(seen, errors="coerce")  # text in pieces, a number where all is read
        values = seen if numbers.isna().any() else numbers
        if values.nunique() > 1:
            break
    return class_labels(values, positive, costs=known, what=f"column {label!r} of {table.name}")[1]


# one table


def _of_task(task: Task) -> tuple[dict[str, Any], CostCurve]:
    """Return the answer about rows in memory, and the cost of every cut."""
    costs, y, weight, bayes = task.costs, task.y, task.sample_weight, None
    if _are_chances(task):
        paid = mean_interval(as_host(costs.incurred(y, costs.decide(task.X))), weight)
        bayes = _bayes(paid, float(costs.threshold) if costs.n_instances is None else None)  # None: each row's own
    constant = [costs.mean(y, np.full(len(y), label), sample_weight=weight) for label in (0, 1)]
    tuned, size = (
        tune_threshold(task.X, y, costs, sample_weight=weight),
        float(len(y) if weight is None else weight.sum()),
    )
    document = _document(np.bincount(y, minlength=2), task.classes, tuned, size, bayes, constant)
    return document | {"in_pieces": False}, cost_curve(task.X, y, costs, sample_weight=weight)


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


def _document(
    counts: Any,
    classes: tuple[str, ...],
    tuned: TunedThreshold,
    size: float,
    bayes: dict[str, Any] | None,
    constant: Any,
) -> dict[str, Any]:
    """Return the answer: of how many rows of each class, and what was found about them."""
    expected, *interval = tuned.cost or (None,)
    ends, best = list(tuned.threshold[1:]), tuned.best
    return {
        "rows": int(counts.sum()),
        "positives": int(counts[1]),
        "classes": list(classes),
        "threshold": {"value": best.value, "low": best.low, "high": best.high, "interval": ends},
        "cost": {"total": best.cost, "mean": best.cost / size, "expected": expected, "interval": interval or None},
        "bayes": bayes,
        "always_negative": float(constant[0]),
        "always_positive": float(constant[1]),
    }


def _bayes(mean: Interval, cut: float | None) -> dict[str, Any]:
    """Return what the Bayes threshold costs; scores that are no probabilities have none."""
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
        *(["read in pieces: the threshold is exact, intervals are from sums"] if found["in_pieces"] else []),
        "",
        table,
    ]


def _sparkline(cuts: NDArray[np.float64], costs: NDArray[np.float64], ends: tuple[float, float]) -> list[str]:
    """Return the cost curve as one line of bars."""
    heights = costs[np.maximum(np.searchsorted(cuts, np.linspace(*ends, WIDTH), side="right") - 1, 0)]
    span = float(heights.max() - heights.min()) or 1.0
    bars = "".join(BARS[round((h - heights.min()) / span * (len(BARS) - 1))] for h in heights)
    return ["cost by threshold", bars, f"{ends[0]:<8.4g}{ends[1]:>{WIDTH - 8}.4g}"]
