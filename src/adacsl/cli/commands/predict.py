"""``adacsl predict``: probabilities, decisions and expected costs of any number of rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.cli.models import (
    class_names,
    costs_of_rows,
    labels_of,
    load_model,
    matrix_of,
    n_classes,
    open_rows,
    probability_columns,
)
from adacsl.cli.options import FREE, Prices, split_words
from adacsl.cli.screen import PLAIN, Answer, Screen, stoppable
from adacsl.cli.writing import check_table_file, label_type, writing_table
from adacsl.core.costs import CostMatrix

if TYPE_CHECKING:
    from adacsl.estimators.predicting import CostClassifier


def predict(
    model: Path,
    data: str,
    *,
    out: Path = Path("predictions.parquet"),
    keep: tuple[str, ...] = (),
    prices: Prices = FREE,
    batch_rows: int = 65_536,
    device: str = "auto",
    folder: Path | None = None,
    screen: Screen = PLAIN,
) -> Answer:
    """Predict the rows of a table or the pictures of a folder.

    Writes one row for each, in order: the probability of the positive class (of each class, where there are more than
    two), the cheapest decision and what it is expected to cost. Tables may be larger than memory. Columns that the
    model does not know are ignored.

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

    Examples
    --------
    adacsl predict model/ new.parquet --out predictions.parquet
    adacsl predict model/ new.csv --fn-column amount --keep id --out predictions.csv
    adacsl predict model/ new.csv --costs matrix.csv
    """
    check_table_file(out)
    if out.exists() and Path(data).exists() and out.samefile(data):
        raise ValueError(f"{out} is the data to predict: give another name with --out")
    classifier, _, prices = load_model(model, device=device, said=prices)
    kept, results = split_words(keep), _results(classifier)
    doubled = [name for name in kept if name in results]
    if doubled:
        raise ValueError(f"--keep {doubled[0]}: the output has a column of that name already")
    extra = [*kept, *(name for name in (prices.fn_column, prices.fp_column) if name is not None)]
    fixed = matrix_of(classifier, prices) if prices.costs is not None or n_classes(classifier) > 2 else None
    pieces, n, unit = open_rows(classifier, data, rows=batch_rows, extra=list(dict.fromkeys(extra)), folder=folder)
    columns = _columns(classifier, Path(data), kept, unit)
    total, started = np.zeros(2 + n_classes(classifier)), time.perf_counter()
    with (
        stoppable("nothing was written; start the command again"),
        screen.progress("predicting", total=n, unit=unit) as advance,
        writing_table(out, columns) as write,
    ):
        for part in _predicted(classifier, pieces, fixed or prices, data, write):
            total += part
            advance(completed=total[0], note=f"{total[0] / (time.perf_counter() - started):,.0f} {unit}/s")
    return _answer(classifier, total, unit, out, time.perf_counter() - started)


def _columns(classifier: CostClassifier, data: Path, kept: list[str], unit: str) -> dict[str, Any]:
    """Return the columns of the output and their kinds."""
    import pyarrow as pa  # noqa: PLC0415

    from adacsl.datasets.tables import column_type  # noqa: PLC0415  pandas

    known = {"file": pa.string()} if unit == "pictures" else {name: column_type(data, name) for name in kept}
    kinds = {name: pa.float64() for name in _results(classifier)}
    return known | kinds | {"decision": label_type(classifier.classes_)}


def _results(classifier: CostClassifier) -> list[str]:
    return [*probability_columns(classifier), "decision", "expected_cost"]


def _predicted(
    classifier: CostClassifier,
    pieces: Iterator[Any],
    prices: Prices | CostMatrix,
    data: str,
    write: Callable[..., None],
) -> Iterator[tuple[float, ...]]:
    """Predict and write piece by piece; yield how many rows, their expected cost, and how many of each decision."""
    done = 0
    for inputs, others in pieces:
        probability = classifier.decision_.probabilities(classifier.decision_scores(inputs))
        costs = prices
        if not isinstance(costs, CostMatrix):
            said = _row_prices(costs, others, data if done == 0 else f"{data}, from row {done + 1} on,")
            costs = costs_of_rows(classifier.costs_, said, len(probability))
        decided = classifier.decision_.of_probabilities(probability, costs=costs)
        expected = costs.expected(probability, decided)
        told = {"decision": labels_of(classifier, decided), "expected_cost": expected}
        write(others | probability_columns(classifier, probability) | told)
        done += len(probability)
        yield len(probability), float(expected.sum()), *np.bincount(decided, minlength=n_classes(classifier))


def _row_prices(prices: Prices, others: dict[str, Any], what: str) -> dict[str, Any]:
    """Return what was said about prices: numbers, and the columns of these rows."""
    import pandas as pd  # noqa: PLC0415

    from adacsl.datasets.prices import number_column  # noqa: PLC0415

    named = {name: column for name, column in (("fn", prices.fn_column), ("fp", prices.fp_column)) if column}
    columns = {name: number_column(pd.DataFrame({c: others[c]}), c, what=what) for name, c in named.items()}
    known = prices.known
    return (dict(known) if isinstance(known, Mapping) else {}) | columns


def _answer(classifier: CostClassifier, total: np.ndarray[Any, Any], unit: str, out: Path, seconds: float) -> Answer:
    rows, cost, counts = int(total[0]), float(total[1]), total[2:].astype(int).tolist()
    speed, mean = rows / max(seconds, 1e-9), cost / rows if rows else float("nan")
    decided: dict[str, Any]
    if len(counts) == 2:
        decided = {"positive": classifier.positive_, "decided_positive": counts[1]}
        told = f"{counts[1]:,} decided {classifier.positive_}"
    else:
        decided = {"decided": dict(zip(class_names(classifier), counts, strict=True))}
        from adacsl.datasets.errors import listed  # noqa: PLC0415  pandas

        often = sorted(decided["decided"].items(), key=lambda pair: -pair[1])
        told = "decided " + listed((f"{name} {count:,}" for name, count in often if count), 5)
    return Answer(
        {
            "out": out, "rows": rows, **decided,
            "expected_cost": {"total": cost, "mean": mean}, "seconds": round(seconds, 3),
            "rows_per_second": round(speed),
        },
        (
            f"{rows:,} {unit}: {told}, expected cost {mean:.4g} each, {cost:.6g} in all",
            f"{seconds:.1f} s, {speed:,.0f} {unit}/s",
            f"written: {out}",
        ),
    )  # fmt: skip
