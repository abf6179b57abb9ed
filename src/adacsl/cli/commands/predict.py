"""``adacsl predict``: probabilities, decisions and expected costs of any number of rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from adacsl.cli.limits import within
from adacsl.cli.models import (
    Opened,
    load_model,
    matrix_of,
    n_classes,
    open_rows,
    probability_columns,
)
from adacsl.cli.options import AS_FOUND, FREE, Files, Prices, split_words
from adacsl.cli.policies import NONE, Limits, decide, decided_labels, timed_by
from adacsl.cli.screen import PLAIN, Answer, Screen, stoppable
from adacsl.cli.writing import check_table_file, label_type, writing_table
from adacsl.core.costs import CostMatrix, unchecked_costs
from adacsl.core.labels import label_name

if TYPE_CHECKING:
    from adacsl.estimators.policy import Decisions, Policy
    from adacsl.estimators.predicting import CostClassifier


def predict(
    model: Path,
    data: str | None = None,
    *,
    out: Path = Path("predictions.parquet"),
    keep: tuple[str, ...] = (),
    prices: Prices = FREE,
    limits: Limits = NONE,
    time_column: str | None = None,
    batch_rows: Annotated[int, within(1)] = 65_536,
    device: str = "auto",
    folder: Path | None = None,
    files: Files = AS_FOUND,
    screen: Screen = PLAIN,
) -> Answer:
    """Predict the rows of a table or the pictures of a folder.

    Writes one row for each, in order: the probability of the positive class (of each class, where there are more than
    two), the cheapest decision and what it is expected to cost. Tables may be larger than memory; a capacity and
    --prior em look at all rows at once, and keep their probabilities (and what --keep names) in memory. Columns that
    the model does not know are ignored.

    Parameters
    ----------
    model
        Folder that `adacsl train` wrote.
    data
        Table (CSV, Parquet, Excel, ...), folder of pictures, .npz archive, or a name (`adacsl data`); or --sql.
    out
        File to write, .parquet or .csv; it appears when it is complete.
    keep
        Columns to copy into the output.
    time_column
        With --per: the column with the date of each row.
    batch_rows
        How many rows to hold in memory.
    device
        auto, cpu, cuda, cuda:1 or mps.
    folder
        Where the files of built-in data sets are; default: the folder that ADACSL_DATA names.

    Examples
    --------
    adacsl predict model/ new.parquet --out predictions.parquet
    adacsl predict model/ new.csv --fn "0.8 * amount" --fp 5 --keep id --out predictions.csv
    adacsl predict model/ new.csv --costs matrix.csv
    adacsl predict model/ new.csv --refer 3 --capacity 200 --per day --time-column when
    adacsl predict model/ new.csv --prior em
    adacsl predict model/ --sql "select * from loans where decided is null" --db bank.duckdb --keep id
    """
    check_table_file(out)
    if out.exists() and data is not None and Path(data).exists() and out.samefile(data):
        raise ValueError(f"{out} is the data to predict: give another name with --out")
    classifier, _, prices = load_model(model, device=device, said=prices)
    policy = limits.policy(classifier.policy, time_column)
    when = timed_by(policy)
    kept, results = split_words(keep), _results(classifier)
    doubled = [name for name in kept if name in results]
    if doubled:
        raise ValueError(f"--keep {doubled[0]}: the output has a column of that name already")
    costs = matrix_of(classifier, prices)
    extra = [*kept, *costs.columns, *([] if when is None else [when])]
    extra = list(dict.fromkeys(extra))
    opened = open_rows(classifier, data, rows=batch_rows, extra=extra, folder=folder, files=files)
    columns, unit = _columns(classifier, opened, kept, policy), opened.unit
    tally, started = _Tally(), time.perf_counter()
    with (
        stoppable("nothing was written; start the command again"),
        screen.progress("predicting", total=opened.total, unit=unit) as advance,
        writing_table(out, columns) as write,
    ):

        def seen(rows: int) -> None:
            advance(completed=rows, note=f"{rows / (time.perf_counter() - started):,.0f} {unit}/s")

        scored = _scored(classifier, opened.pieces, costs, opened.called, seen)
        for piece in _joined(list(scored)) if policy.needs_all_rows else scored:
            found = decide(classifier, piece.probability, piece.costs, policy, piece.others.get(when or ""))
            tally.add(found)
            told = {"decision": decided_labels(found), "expected_cost": found.expected}
            write(piece.others | probability_columns(classifier, found.probabilities) | told)
    return _answer(classifier, tally, opened, out, time.perf_counter() - started)


def _columns(classifier: CostClassifier, opened: Opened, kept: list[str], policy: Policy) -> dict[str, Any]:
    """Return the columns of the output and their kinds."""
    import pyarrow as pa  # noqa: PLC0415

    known = {"file": pa.string()} if opened.unit == "pictures" else {name: opened.kind(name) for name in kept}
    kinds = {name: pa.float64() for name in _results(classifier)}
    plain = policy.refer is None and policy.actions is None
    return known | kinds | {"decision": label_type(classifier.classes_) if plain else pa.string()}


def _results(classifier: CostClassifier) -> list[str]:
    return [*probability_columns(classifier), "decision", "expected_cost"]


class _Scored(NamedTuple):
    """Some rows: their probabilities, their costs, and the columns asked for besides."""

    probability: np.ndarray[Any, Any]
    costs: CostMatrix
    others: dict[str, Any]


def _scored(
    classifier: CostClassifier, pieces: Iterator[Any], costs: CostMatrix, data: str, seen: Callable[[int], None]
) -> Iterator[_Scored]:
    """Yield rows with their probabilities, piece by piece; tell how many there were."""
    done = 0
    for inputs, others in pieces:
        own = _settled(costs, inputs, others, data if done == 0 else f"{data}, from row {done + 1} on")
        probability = classifier.decision_probabilities(inputs, costs=own)
        yield _Scored(probability, own, others)
        done += len(probability)
        seen(done)


def _settled(costs: CostMatrix, inputs: Any, others: dict[str, Any], what: str) -> CostMatrix:
    """Return the costs of these rows, whose prices may depend on features and on other columns."""
    if costs.settled:
        return costs
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas

    try:
        return costs.of(inputs.assign(**others) if hasattr(inputs, "assign") else others).deciding
    except ValueError as error:
        raise DataError(f"{what}: {error}") from None


def _joined(parts: list[_Scored]) -> Iterator[_Scored]:
    """Yield all rows as one piece; nothing where there are none."""
    import pandas as pd  # noqa: PLC0415

    if not parts:
        return
    others = {name: pd.concat([pd.Series(part.others[name]) for part in parts]) for name in parts[0].others}
    costs = parts[0].costs
    if costs.n_instances is not None:
        table = np.concatenate([part.costs.to_array() for part in parts])
        cells = [[table[:, i, j] for j in range(costs.n_classes)] for i in range(costs.n_actions)]
        costs = unchecked_costs(tuple(map(tuple, cells)), costs.classes)
    yield _Scored(np.concatenate([part.probability for part in parts]), costs, others)


class _Tally:
    """How many rows there were, how many of each decision, what they are expected to cost, and what was said."""

    def __init__(self) -> None:
        self.rows, self.cost = 0, 0.0
        self.counts: Counter[str] = Counter()
        self.notes: dict[str, None] = {}
        self.prior: Any = None

    def add(self, found: Decisions) -> None:
        self.rows += len(found.actions)
        self.cost += float(found.expected.sum())
        self.counts.update(found.counts)
        self.notes |= dict.fromkeys(found.notes)
        self.prior = found.prior


def _answer(classifier: CostClassifier, tally: _Tally, opened: Opened, out: Path, seconds: float) -> Answer:
    from adacsl.datasets.leftout import left_out_in_words  # noqa: PLC0415  pandas

    rows, cost, counts, unit = tally.rows, tally.cost, dict(tally.counts), opened.unit
    left_out = {"broken": opened.broken} if opened.broken else {}
    speed, mean = rows / max(seconds, 1e-9), cost / rows if rows else float("nan")
    decided: dict[str, Any]
    if n_classes(classifier) == 2 and len(counts) <= 2:
        positives = counts.get(label_name(classifier.positive_), 0)
        decided = {"positive": classifier.positive_, "decided_positive": positives}
        told = f"{positives:,} decided {classifier.positive_}"
    else:
        decided = {"decided": counts}
        from adacsl.datasets.errors import listed  # noqa: PLC0415  pandas

        often = sorted(counts.items(), key=lambda pair: -pair[1])
        told = "decided " + listed((f"{name} {count:,}" for name, count in often if count), 5)
    if tally.notes:
        decided |= {"notes": list(tally.notes), "prior": tally.prior}
    return Answer(
        {
            "out": out, "rows": rows, **decided, **left_out,
            "expected_cost": {"total": cost, "mean": mean}, "seconds": round(seconds, 3),
            "rows_per_second": round(speed),
        },
        (
            f"{rows:,} {unit}: {told}, expected cost {mean:.4g} each, {cost:.6g} in all",
            *tally.notes,
            *left_out_in_words(left_out | {"rows": rows}),
            f"{seconds:.1f} s, {speed:,.0f} {unit}/s",
            f"written: {out}",
        ),
    )  # fmt: skip
