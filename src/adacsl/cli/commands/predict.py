"""``adacsl predict``: probabilities, decisions and expected costs of any number of rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adacsl.cli.models import Trained, costs_of_rows, load_model
from adacsl.cli.options import FREE, Prices, Words, split_words
from adacsl.cli.rows import Piece, Rows, open_rows
from adacsl.cli.screen import PLAIN, Answer, Screen, stoppable
from adacsl.cli.writing import check_table_file, column_type, label_type, writing_table

if TYPE_CHECKING:
    from adacsl.estimators.binary import CostClassifier

RESULTS = ("probability", "decision", "expected_cost")


class _Total(NamedTuple):
    rows: int = 0
    positive: int = 0
    cost: float = 0.0


def predict(
    model: Path,
    data: str,
    *,
    out: Path = Path("predictions.parquet"),
    keep: Words = (),
    prices: Prices = FREE,
    batch_rows: int = 65_536,
    device: str = "auto",
    folder: Path | None = None,
    screen: Screen = PLAIN,
) -> Answer:
    """Predict the rows of a table or the pictures of a folder.

    Writes one row for each, in order: the probability of the positive class, the cheapest decision and what it is
    expected to cost. Tables may be larger than memory. Columns that the model does not know are ignored.

    Parameters
    ----------
    model
        Folder that `adacsl train` wrote.
    data
        CSV or Parquet file, folder of pictures, .npz archive, or a name (`adacsl data`).
    out
        File to write, .parquet or .csv; it appears when it is complete.
    keep
        Columns to copy into the output.
    batch_rows
        How many rows to hold in memory.
    device
        auto, cpu, cuda, cuda:1 or mps.
    folder
        Where the files of built-in data sets are; default: the folder that ADACSL_DATA names.
    """
    check_table_file(out)
    if out.exists() and Path(data).exists() and out.samefile(data):
        raise ValueError(f"{out} is the data to predict: give another name with --out")
    trained = load_model(model, device=device)
    spoken = prices if prices.given else trained.prices
    kept = split_words(keep)
    doubled = [name for name in kept if name in RESULTS]
    if doubled:
        raise ValueError(f"--keep {doubled[0]}: the output has a column of that name already")
    columns = [name for name in (spoken.fn_column, spoken.fp_column) if name is not None]
    rows = open_rows(
        trained.classifier, data, rows=batch_rows, extra=list(dict.fromkeys((*kept, *columns))), folder=folder
    )
    started = time.perf_counter()
    with stoppable("nothing was written; start the command again"):
        total = _write(out, trained, rows, _Plan(Path(data), kept, spoken), screen)
    return _answer(trained.classifier, total, rows.unit, out, time.perf_counter() - started)


class _Plan(NamedTuple):
    """What to bring along from the data."""

    path: Path
    kept: list[str]
    prices: Prices


def _write(out: Path, trained: Trained, rows: Rows, plan: _Plan, screen: Screen) -> _Total:
    import pyarrow as pa  # noqa: PLC0415

    classifier = trained.classifier
    known = {name: column_type(_parquet(plan.path), name) for name in plan.kept}
    if rows.unit == "pictures":
        known = {"file": pa.string()}
    columns = known | {
        "probability": pa.float64(),
        "decision": label_type(classifier.classes_),
        "expected_cost": pa.float64(),
    }
    total, started = _Total(), time.perf_counter()
    with (
        screen.progress("predicting", total=rows.total, unit=rows.unit) as advance,
        writing_table(out, columns) as write,
    ):
        for total in _predicted(classifier, rows, plan, write):
            advance(total.rows, note=f"{total.rows / (time.perf_counter() - started):,.0f} {rows.unit}/s")
    return total


def _predicted(classifier: CostClassifier, rows: Rows, plan: _Plan, write: Any) -> Iterator[_Total]:
    """Predict and write piece by piece; yield the totals so far."""
    total = _Total()
    for piece in rows.pieces:
        probability = positive_probability(classifier, piece.X)
        costs = costs_of_rows(classifier.costs_, row_prices(plan.prices, piece, str(plan.path), total.rows), len(piece))
        positive = costs.decide(probability) == 1
        expected = costs.expected(probability, positive.astype(np.int64))
        values: dict[str, Any] = {
            "probability": probability, "decision": labels_of(classifier, positive), "expected_cost": expected,
        }  # fmt: skip
        write(piece.others | values)
        total = _Total(
            total.rows + len(piece), total.positive + int(positive.sum()), total.cost + float(expected.sum())
        )
        yield total


def positive_probability(classifier: CostClassifier, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
    """Return the probability of the positive class."""
    column = int(np.flatnonzero(classifier.classes_ == classifier.positive_)[0])
    proba: np.ndarray[Any, Any] = classifier.predict_proba(X)[:, column]
    return proba


def labels_of(classifier: CostClassifier, positive: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return decisions as labels."""
    where = int(np.flatnonzero(classifier.classes_ == classifier.positive_)[0])
    labels: np.ndarray[Any, Any] = classifier.classes_[np.where(positive, where, 1 - where)]
    return labels


def row_prices(prices: Prices, piece: Piece, data: str, start: int) -> dict[str, Any]:
    """Return what was said about prices: numbers, and the columns of these rows."""
    import pandas as pd  # noqa: PLC0415

    from adacsl.datasets.prices import number_column  # noqa: PLC0415

    found: dict[str, Any] = dict(prices.known or {})
    for name, column in (("fn", prices.fn_column), ("fp", prices.fp_column)):
        if column is not None:
            what = data if start == 0 else f"{data}, from row {start + 1} on,"
            found[name] = number_column(pd.DataFrame({column: piece.others[column]}), column, what=what)
    return found


def _parquet(path: Path) -> Path | None:
    """Return the path if it is Parquet, whose columns have kinds of their own."""
    parts = any(path.glob("*.parquet")) if path.is_dir() else path.suffix.lower() in (".parquet", ".pq")
    return path if parts and path.exists() else None


def _answer(classifier: CostClassifier, total: _Total, unit: str, out: Path, seconds: float) -> Answer:
    speed = total.rows / max(seconds, 1e-9)
    mean = total.cost / total.rows if total.rows else float("nan")
    return Answer(
        {
            "out": out, "rows": total.rows, "positive": classifier.positive_, "decided_positive": total.positive,
            "expected_cost": {"total": total.cost, "mean": mean}, "seconds": round(seconds, 3),
            "rows_per_second": round(speed),
        },
        (
            f"{total.rows:,} {unit}: {total.positive:,} decided {classifier.positive_}, "
            f"expected cost {mean:.4g} each, {total.cost:.6g} in all",
            f"{seconds:.1f} s, {speed:,.0f} {unit}/s",
            f"written: {out}",
        ),
    )  # fmt: skip


__all__ = ["labels_of", "positive_probability", "predict", "row_prices"]
