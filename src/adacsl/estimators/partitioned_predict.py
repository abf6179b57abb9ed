"""Predictions of tables in batches: into one file, or a folder of parts, each exactly once.

Each part appears whole, under its name, and records what it was made from: a killed worker leaves nothing that could be
mistaken for a result, and the same call goes on with what is missing. Parts are predicted one after another, or by any
executor that calls :func:`predict_unit` for each: on other machines, in any order, some of them twice.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adacsl import __version__
from adacsl.base.escape import visible
from adacsl.costs.matrix import CostMatrix, unchecked_costs
from adacsl.datasets.errors import DataError, listed
from adacsl.datasets.readers.arrow import PARQUET, Part, holds_parquet, open_parts, split_parquet
from adacsl.datasets.readers.base import Table, batch_name
from adacsl.datasets.readers.formats import How, open_table, table_files
from adacsl.decision.policy import Decisions, Policy, decide, ordered_labels
from adacsl.estimators.artefact import DOCUMENT
from adacsl.estimators.inputs import (
    RowBatches,
    joined_columns,
    probability_columns,
    resolved_costs,
    table_rows,
    takes_images,
)
from adacsl.estimators.persistence import load_noted
from adacsl.storage.atomic import check_folder, remove_drafts
from adacsl.storage.digests import file_digest
from adacsl.storage.documents import DamagedError, decode, encode
from adacsl.storage.sealed import SchemaError, SealedKind
from adacsl.storage.tables import label_type, writing_table

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier

LONGEST = 2000
"""Characters of an error message: a cell of data may hold millions."""


class Request(NamedTuple):
    """What is predicted for each sample, and how.

    Attributes
    ----------
    costs : CostMatrix
        The costs to decide by.
    policy : Policy
        The policy to decide by.
    keep : list of str
        Columns of the data that predictions keep.
    rows : int
        Rows to hold in memory.

    Examples
    --------
    >>> from adacsl import CostMatrix, Policy
    >>> from adacsl.estimators.partitioned_predict import Request
    >>> Request(CostMatrix(fp=1, fn=8), Policy(), keep=["id"], rows=65_536).keep
    ['id']
    """

    costs: CostMatrix
    """They may depend on columns."""
    policy: Policy
    keep: list[str]
    """Columns to copy into the output."""
    rows: int
    """Rows to hold in memory."""

    @property
    def time_column(self) -> str | None:
        """The column with the time of each row, where the policy needs it."""
        return None if self.policy.time is None else str(self.policy.time)

    @property
    def extra(self) -> list[str]:
        """Columns to read beside the features."""
        return list(dict.fromkeys([*self.keep, *self.costs.columns, *filter(None, [self.time_column])]))


def result_columns(classifier: CostSensitiveClassifier) -> list[str]:
    """Return the names of the columns that are predicted."""
    return [*probability_columns(classifier), "decision", "expected_cost"]


def output_columns(classifier: CostSensitiveClassifier, opened: RowBatches, request: Request) -> dict[str, Any]:
    """Return the columns of the output and their pyarrow types."""
    import pyarrow as pa  # noqa: PLC0415

    images = opened.unit == "images"
    known = {"file": pa.string()} if images else {name: opened.column_type(name) for name in request.keep}
    return known | dict.fromkeys(result_columns(classifier), pa.float64()) | decision_type(classifier, request.policy)


def decision_type(classifier: CostSensitiveClassifier, policy: Policy) -> dict[str, Any]:
    """Return the column of decisions and its pyarrow type: a label's, or text where a policy adds actions."""
    import pyarrow as pa  # noqa: PLC0415

    plain = policy.refer is None and policy.actions is None
    return {"decision": label_type(classifier.classes_) if plain else pa.string()}


def decision_column(decisions: Decisions) -> np.ndarray[Any, Any]:
    """Return decisions as a column: labels, or text where a policy adds actions."""
    if decisions.costs.square:
        return decisions.labels
    texts: np.ndarray[Any, Any] = np.asarray(list(decisions.counts))[decisions.actions]
    return texts


class PredictionSummary:
    """The number of rows, how many got each decision, their expected cost, and notes of the policy."""

    def __init__(self) -> None:
        self.rows, self.cost = 0, 0.0
        self.counts: Counter[str] = Counter()
        self.notes: dict[str, None] = {}
        self.prior: Any = None

    def add(self, decisions: Decisions) -> None:
        """Count rows that were decided."""
        cost, counts, notes = float(decisions.expected.sum()), decisions.counts, decisions.notes
        rows = len(decisions.actions)
        self.include({"rows": rows, "cost": cost, "counts": counts, "notes": notes, "prior": decisions.prior})

    def include(self, other: Mapping[str, Any]) -> None:
        """Count what another summary holds, as a dict."""
        self.rows, self.cost = self.rows + other["rows"], self.cost + other["cost"]
        self.counts.update(other["counts"])
        self.notes |= dict.fromkeys(other["notes"])
        self.prior = other["prior"]

    def to_dict(self) -> dict[str, Any]:
        """Return everything."""
        return vars(self) | {"counts": dict(self.counts), "notes": list(self.notes)}


def predict_rows(
    classifier: CostSensitiveClassifier, opened: RowBatches, request: Request, write: Callable[..., None],
    progress: Callable[[int], None] = lambda rows: None,
) -> PredictionSummary:  # fmt: skip
    """Predict and write all rows that were opened; ``progress`` is called with how many are read so far."""
    summary, scored = PredictionSummary(), _scored(classifier, opened, request.costs, progress)
    for batch in _joined(list(scored)) if request.policy.needs_all_rows else scored:
        times = batch.others.get(request.time_column or "")
        decisions = decide(
            batch.probabilities, classifier.decision_, ordered_labels(classifier), costs=batch.costs,
            policy=request.policy, times=times,
        )  # fmt: skip
        summary.add(decisions)
        predicted = {"decision": decision_column(decisions), "expected_cost": decisions.expected}
        write(batch.others | probability_columns(classifier, decisions.probabilities) | predicted)
    return summary


class _Scored(NamedTuple):
    """Some rows: their probabilities, their costs, and their other columns."""

    probabilities: np.ndarray[Any, Any]
    costs: CostMatrix
    others: dict[str, Any]


def _scored(
    classifier: CostSensitiveClassifier, opened: RowBatches, costs: CostMatrix, progress: Callable[[int], None]
) -> Iterator[_Scored]:
    """Yield rows with their probabilities, batch by batch."""
    done = 0
    for inputs, others in opened.batches:
        table = inputs.assign(**others) if hasattr(inputs, "assign") else others
        own = resolved_costs(costs, table, batch_name(opened.name, done))
        probabilities = classifier.decision_probabilities(inputs, costs=own)
        yield _Scored(probabilities, own, others)
        done += len(probabilities)
        progress(done)


def _joined(parts: list[_Scored]) -> Iterator[_Scored]:
    """Yield all rows as one batch; nothing where there are none."""
    if not parts:
        return
    costs = parts[0].costs
    if costs.n_instances is not None:
        table = np.concatenate([part.costs.to_array() for part in parts])
        cells = [[table[:, i, j] for j in range(costs.n_classes)] for i in range(costs.n_actions)]
        costs = unchecked_costs(tuple(map(tuple, cells)), costs.classes)
    probabilities = np.concatenate([part.probabilities for part in parts])
    yield _Scored(probabilities, costs, joined_columns([part.others for part in parts]))


# a folder of parts

MANIFEST = "_predictions.json"
"""What all parts have in common; readers of Parquet folders skip names that begin so."""
FORMAT, SCHEMA_VERSION = "adacsl predictions", 1
ABOUT = "adacsl"
"""The key under which a part records what it was made from."""
ROWS = 5_000_000
"""A Parquet file with more rows is divided at row groups into several parts."""


class Unit(NamedTuple):
    """One part of the data, and the one file that its predictions go to."""

    name: str
    """Of the output file, below the folder of predictions."""
    part: Part
    rows: int | None
    """How many, where the file says so."""
    state: list[int]
    """Size and time of the last change of the input file."""


class Plan(NamedTuple):
    """Everything that a worker needs, on any machine."""

    model: Path
    digest: str
    """Of the model."""
    out: Path
    identity: str
    """Digest of the manifest."""
    request: Request
    columns: dict[str, Any]
    """Of the output, with their types."""
    how: How
    """How tables are read."""
    schema: Any
    """Of Parquet files, with the columns that their folders name; None for others."""
    device: str
    version: str = __version__


class Report(NamedTuple):
    """The outcome of one unit."""

    name: str
    summary: dict[str, Any] | None = None
    failed: str | None = None
    """Why there is no file."""
    hopeless: bool = False
    """Whether the others would fail like that, too."""


class FolderSummary(NamedTuple):
    """The result of :func:`~adacsl.estimators.partitioned_predict.predict_folder`.

    Attributes
    ----------
    summary : PredictionSummary
        Counts of decisions and expected costs.
    files : int
        The number of files in the folder.
    resumed : int
        How many of them an earlier call wrote.
    failed : list of str
        Parts that failed, with the reason.
    rows_now : int
        Rows predicted in this call.
    seconds : float
        Time of this call.

    See Also
    --------
    predict_folder : Returns it.

    Examples
    --------
    >>> predict_folder(model, folder, data, out, request).failed  # doctest: +SKIP
    []
    """

    summary: PredictionSummary
    files: int
    resumed: int
    """So many files were there before."""
    failed: list[str]
    """Why files are missing, each in one line."""
    rows_now: int
    """Rows that were predicted in this call."""
    seconds: float


Execute = Callable[[Plan, Sequence[Unit]], Generator[Report]]


def predict_folder(
    classifier: CostSensitiveClassifier, model: Path, data: str | None, out: Path, request: Request, *,
    how: How | None = None, device: str = "auto", execute: Execute | None = None,
    progress: Callable[[PredictionSummary, int, int | None], None] | None = None,
) -> FolderSummary:  # fmt: skip
    """Predict a table or a folder of tables into a folder, one file for each part; an interrupted call resumes.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
        The fitted classifier.
    model : path
        The folder it was loaded from: workers load it there, and its digest marks the predictions.
    data : str or None
        A table, or a folder of tables; None with ``sql`` in ``how``.
    out : path
        The folder of predictions: a new one, or one of the same model, data and request.
    request : Request
        What is predicted for each sample.
    how : dict, optional
        How tables are read: parameters of :func:`~adacsl.datasets.read_table`.
    device : str, default "auto"
        Where workers predict.
    execute : callable, optional
        ``execute(plan, units)`` yields the report of each unit. Default: one after another, here.
    progress : callable, optional
        ``progress(summary, rows, total)`` is called after each part, with the rows predicted in this call, and all.

    Returns
    -------
    FolderSummary
        Files, rows, failures and time.

    Examples
    --------
    >>> from pathlib import Path
    >>> from adacsl import Policy
    >>> from adacsl.estimators.partitioned_predict import Request, predict_folder
    >>> request = Request(model.costs_, Policy(), ["id"], 65_536)  # doctest: +SKIP
    >>> result = predict_folder(model, Path("model"), "parts/", Path("predictions"),
    ...                         request)  # doctest: +SKIP
    """
    plan, units = make_plan(classifier, model, data, out, request, how, device)
    done = finished(plan, units)
    missing, failed, summary = [unit for unit in units if unit.name not in done], list[str](), PredictionSummary()
    for known in done.values():
        summary.include(known)
    before, started, sizes = summary.rows, time.perf_counter(), [unit.rows for unit in units]
    total = None if None in sizes else sum(filter(None, sizes))
    run = _one_by_one(classifier) if execute is None or not missing else execute
    with closing(run(plan, missing)) as reports:
        for report in reports:
            if report.hopeless:
                raise OSError(f"{report.failed}; what is finished is kept in {out}")
            failed += [] if report.failed is None else [report.failed]
            if report.summary is not None:
                summary.include(report.summary)
            if progress is not None:
                progress(summary, summary.rows - before, total)
    if not failed:
        remove_drafts(plan.out)  # of workers that were killed
    seconds = time.perf_counter() - started
    return FolderSummary(summary, len(units), len(done), failed, summary.rows - before, seconds)


def _one_by_one(classifier: CostSensitiveClassifier) -> Execute:
    def execute(plan: Plan, units: Sequence[Unit]) -> Generator[Report]:
        for unit in units:
            yield predict_unit(classifier, plan, unit)

    return execute


# planning


def make_plan(
    classifier: CostSensitiveClassifier,
    model: Path,
    data: str | None,
    out: Path,
    request: Request,
    how: How | None,
    device: str,
) -> tuple[Plan, list[Unit]]:
    """Check everything that can be checked before the first row is predicted; return the plan."""
    path, how = Path(data or "").expanduser().absolute(), How() if how is None else how
    if data is None or takes_images(classifier) or not path.exists():
        raise DataError(
            f"{data or 'a query'} is neither a table nor a folder of tables: write its predictions "
            "to one file, such as "
            "predictions.parquet"
        )
    if request.policy.needs_all_rows:
        raise ValueError(
            "a capacity and an estimated prior look at all rows at once, but a folder of predictions is decided part "
            "by part: write one file, such as predictions.parquet, or predict without the policy"
        )
    out = out.expanduser().absolute()
    _check_place(out, path)
    schema, parts, table = _parts(path, how)
    # the columns that a folder's name holds are in the names of the folders of predictions, too
    request = request._replace(keep=[name for name in request.keep if name not in parts[0][0].said])
    columns = output_columns(classifier, table_rows(classifier, table, request.extra, request.rows), request)
    root = path if path.is_dir() else path.parent
    units = [Unit(_name_of(part, root), part, rows, _state(part.path)) for part, rows in parts]
    if len({unit.name for unit in units}) < len(units):
        raise DataError(f"two files of {path} would have predictions of the same name: rename one")
    digest = model_digest(model)
    identity = _write_manifest(out, digest, request, columns, how)
    return Plan(model.expanduser().absolute(), digest, out, identity, request, columns, how, schema, device), units


def _check_place(out: Path, data: Path) -> None:
    check_folder(out, "give a folder for the predictions, such as predictions/")
    if data.is_dir() and out.resolve().is_relative_to(data.resolve()):
        raise ValueError(f"{out} is inside the data to predict: give another folder")
    if out.is_dir() and not (out / MANIFEST).exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} holds other files and no predictions: give a new folder")


def _parts(path: Path, how: How) -> tuple[Any, list[tuple[Part, int | None]], Table]:
    """Return the schema of Parquet files, all parts with their rows, and a table with their columns."""
    files, first = table_files(path) if path.is_dir() else [path], None
    if all(each.suffix.lower() in PARQUET for each in files) and (path.is_file() or holds_parquet(path)):
        schema, parts = split_parquet(path, ROWS)
        return schema, parts, open_parts(str(path), [], schema)
    for each in files:
        try:
            table = open_table(each, **how)
        except DataError:
            if each == path:
                raise
            continue  # the reader raises with the reason
        first = first or table
        odd = sorted(set(first.columns) ^ set(table.columns))
        if odd:
            raise DataError(f"{each} and {first.name} differ in columns ({listed(odd)}): parts must have the same ones")
    if first is None:
        raise DataError(f"{path} holds no tables that can be read")
    return None, [(Part(each, {}), None) for each in files], first


def _open(part: Part, schema: Any, how: How) -> Table:
    return open_table(part.path, **how) if schema is None else open_parts(str(part.path), [part], schema)


def _name_of(part: Part, root: Path) -> str:
    name = part.path.relative_to(root).as_posix()
    stem = name.removesuffix(".parquet") if part.path.suffix == ".parquet" else name
    groups = "" if part.groups is None else ".groups-{:06d}-{:06d}".format(*part.groups)
    return f"{stem}{groups}.parquet"


def _state(path: Path) -> list[int]:
    about = path.stat()
    return [about.st_size, about.st_mtime_ns]


def model_digest(folder: Path) -> str:
    """Return a digest of a model: its document holds those of its other files."""
    return file_digest(folder / DOCUMENT)


def _write_manifest(out: Path, digest: str, request: Request, columns: dict[str, Any], how: How) -> str:
    """Write the manifest of all parts, or raise where the folder holds other predictions; return the digest."""
    here = {
        "model": digest, "cost matrix": request.costs.to_dict(), "policy": request.policy.to_dict(),
        "set of columns": {name: str(kind) for name, kind in columns.items()},
        "way to read": {name: str(value) for name, value in how.items() if value is not None}, "number of rows": ROWS,
    }  # fmt: skip
    path, kind = out / MANIFEST, SealedKind(FORMAT, SCHEMA_VERSION)
    kind.write(path, here | {"adacsl": __version__}, replace=False)
    try:
        there = kind.read(path)
    except SchemaError as error:
        raise OSError(f"{path}: {error}; give a new folder") from None
    except DamagedError as error:
        raise OSError(f"{path} is damaged ({error}): give a new folder") from None
    odd = [key for key, value in decode(encode(here, "")).items() if there.get(key) != value]
    if odd:
        raise ValueError(f"{out} holds predictions with another {odd[0]}: give a new folder, or the same options")
    return file_digest(path)


# finished parts


def finished(plan: Plan, units: Sequence[Unit]) -> dict[str, dict[str, Any]]:
    """Return the summary of each finished part, by name; raise where a part belongs to something else."""
    there = {path.relative_to(plan.out).as_posix() for path in plan.out.rglob("[!.]*.parquet")}
    for name in sorted(there - {unit.name for unit in units}):
        raise ValueError(f"{plan.out / name} belongs to none of the files to predict: give a new folder")
    done = {unit.name: summary_of(plan, unit) for unit in units}
    return {name: summary for name, summary in done.items() if summary is not None}


def summary_of(plan: Plan, unit: Unit) -> dict[str, Any] | None:
    """Return the summary of a finished part; None where it is not finished."""
    from pyarrow import ArrowException  # noqa: PLC0415
    from pyarrow.parquet import read_metadata  # noqa: PLC0415

    path = plan.out / unit.name
    if not path.exists():
        return None
    try:
        about = decode(json.loads(read_metadata(path).metadata[ABOUT.encode()]))
        identity, state, summary = about["identity"], about["state"], about["summary"]
    except (ArrowException, OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged, or not made by adacsl predict: remove it, and start again") from None
    if identity != plan.identity or state != unit.state:
        what = "other options" if state == unit.state else f"{unit.part.path} before it was changed"
        raise ValueError(f"{path} was made from {what}: remove it, or give another folder")
    return dict(summary)


# predicting


def predict_unit(classifier: CostSensitiveClassifier, plan: Plan, unit: Unit) -> Report:
    """Predict one part, unless that is done; errors are part of the report."""
    from pyarrow import ArrowException  # noqa: PLC0415

    try:
        known = summary_of(plan, unit)  # a worker that died may have finished it
        return Report(unit.name, _predict(classifier, plan, unit) if known is None else known)
    except (ValueError, TypeError, ArrowException, MemoryError) as error:
        return Report(unit.name, failed=f"{unit.part.path}: {message_of(error)}")
    except OSError as error:  # readers raise their own errors: the folder cannot be written
        return Report(unit.name, failed=message_of(error), hopeless=True)


def message_of(error: BaseException) -> str:
    """Return the message of an error in one line that a terminal can show."""
    line = visible(" ".join(str(error).split())) or type(error).__name__
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def _predict(classifier: CostSensitiveClassifier, plan: Plan, unit: Unit) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about reading were shown for the first part
        table = _open(unit.part, plan.schema, plan.how)
        opened = table_rows(classifier, table, plan.request.extra, plan.request.rows)
    path, summary = plan.out / unit.name, dict[str, Any]()
    path.parent.mkdir(parents=True, exist_ok=True)

    def about() -> dict[str, str]:
        document = {"identity": plan.identity, "input": str(unit.part.path), "state": unit.state, "summary": summary}
        return {ABOUT: json.dumps(encode(document, unit.name))}

    with writing_table(path, plan.columns, about) as write:
        summary |= predict_rows(classifier, opened, plan.request, write).to_dict()
        if _state(unit.part.path) != unit.state:
            raise DataError("it has changed since the command was started: start again")
    return summary


def load_for(plan: Plan, machine: str) -> CostSensitiveClassifier:
    """Return the model on a worker's machine, which must see the very folders that the first machine saw."""
    try:
        classifier, _ = load_noted(plan.model, device=plan.device)
        seen = model_digest(plan.model), file_digest(plan.out / MANIFEST), __version__
    except (OSError, ValueError) as error:
        raise OSError(f"machine {machine}: {message_of(error)}; all must see model, data and --out") from None
    if seen != (plan.digest, plan.identity, plan.version):
        raise OSError(f"machine {machine} sees another {plan.model} or {plan.out}, or has another version of adacsl")
    return classifier
