"""Predictions in chunks, into one file or a folder of part files.

Each part file appears whole, under its name, and says of itself what it was made from: so a killed worker leaves
nothing that could be taken for a result, and the same command goes on with what is missing.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adacsl import __version__
from adacsl.cli.console import one_line
from adacsl.cli.model_folder import Opened, load_model, probability_columns, table_rows, takes_pictures
from adacsl.cli.options import Files
from adacsl.cli.output_files import label_type, writing_table
from adacsl.cli.policy import decide, decided_labels, timed_by
from adacsl.costs.matrix import CostMatrix, unchecked_costs
from adacsl.storage.atomic import check_folder, place_file
from adacsl.storage.documents import DamagedError, decode, encode, sealed, unsealed

if TYPE_CHECKING:
    from adacsl.datasets.readers.arrow import Part
    from adacsl.datasets.readers.base import Table
    from adacsl.decision.policy import Decisions, Policy
    from adacsl.estimators.classifier import CostClassifier


class Asked(NamedTuple):
    """What is asked about each row."""

    costs: CostMatrix
    """Some prices may depend on columns."""
    policy: Policy
    kept: list[str]
    """Columns to copy into the output."""
    rows: int
    """How many to hold in memory."""

    @property
    def when(self) -> str | None:
        """The column with the time of each row, where the policy needs it."""
        return timed_by(self.policy)

    @property
    def extra(self) -> list[str]:
        """Columns to read beside the features."""
        return list(dict.fromkeys([*self.kept, *self.costs.columns, *filter(None, [self.when])]))


def result_columns(classifier: CostClassifier) -> list[str]:
    """Return the names of what is found out about a row."""
    return [*probability_columns(classifier), "decision", "expected_cost"]


def output_columns(classifier: CostClassifier, opened: Opened, asked: Asked) -> dict[str, Any]:
    """Return the columns of the output and their kinds."""
    import pyarrow as pa  # noqa: PLC0415

    known = {"file": pa.string()} if opened.unit == "pictures" else {name: opened.kind(name) for name in asked.kept}
    kinds = {name: pa.float64() for name in result_columns(classifier)}
    plain = asked.policy.refer is None and asked.policy.actions is None
    return known | kinds | {"decision": label_type(classifier.classes_) if plain else pa.string()}


class Tally:
    """How many rows there were, how many of each decision, what they are expected to cost, and what was said."""

    def __init__(self) -> None:
        self.rows, self.cost = 0, 0.0
        self.counts: Counter[str] = Counter()
        self.notes: dict[str, None] = {}
        self.prior: Any = None

    def add(self, found: Decisions) -> None:
        """Count rows that were decided."""
        told = {"cost": float(found.expected.sum()), "counts": found.counts, "notes": found.notes, "prior": found.prior}
        self.include({"rows": len(found.actions), **told})

    def include(self, told: Mapping[str, Any]) -> None:
        """Count what another tally tells."""
        self.rows, self.cost = self.rows + told["rows"], self.cost + told["cost"]
        self.counts.update(told["counts"])
        self.notes |= dict.fromkeys(told["notes"])
        self.prior = told["prior"]

    def told(self) -> dict[str, Any]:
        """Return everything."""
        return vars(self) | {"counts": dict(self.counts), "notes": list(self.notes)}


def predict_pieces(
    classifier: CostClassifier, opened: Opened, asked: Asked, write: Callable[..., None], seen: Callable[[int], None]
) -> Tally:
    """Predict and write all rows that were opened; tell how many are seen so far."""
    tally, when = Tally(), asked.when
    scored = _scored(classifier, opened, asked.costs, seen)
    for piece in _joined(list(scored)) if asked.policy.needs_all_rows else scored:
        found = decide(classifier, piece.probability, piece.costs, asked.policy, piece.others.get(when or ""))
        tally.add(found)
        told = {"decision": decided_labels(found), "expected_cost": found.expected}
        write(piece.others | probability_columns(classifier, found.probabilities) | told)
    return tally


class _Scored(NamedTuple):
    """Some rows: their probabilities, their costs, and the columns asked for besides."""

    probability: np.ndarray[Any, Any]
    costs: CostMatrix
    others: dict[str, Any]


def _scored(
    classifier: CostClassifier, opened: Opened, costs: CostMatrix, seen: Callable[[int], None]
) -> Iterator[_Scored]:
    """Yield rows with their probabilities, piece by piece; tell how many there were."""
    done, data = 0, opened.called
    for inputs, others in opened.pieces:
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


MANIFEST = "_predictions.json"
"""What all parts have in common; readers of Parquet folders pass over names that begin so."""
FORMAT, SCHEMA_VERSION = "adacsl predictions", 1
ABOUT = "adacsl"
"""Under which a part says of itself what it was made from."""
ROWS = 5_000_000
"""A Parquet file with more is cut at row groups into several parts, which are predicted side by side."""


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
    """Everything that a worker has to know, on whatever machine it is."""

    model: Path
    digest: str
    """Of the model."""
    out: Path
    identity: str
    """Digest of the manifest."""
    asked: Asked
    columns: dict[str, Any]
    """Of the output, with their kinds."""
    files: Files
    schema: Any
    """Of Parquet files, with what their folders say; None for others."""
    device: str
    version: str = __version__


class Report(NamedTuple):
    """What became of one unit."""

    name: str
    found: dict[str, Any] | None = None
    """What the rows add up to."""
    failed: str | None = None
    """Why there is no file."""
    hopeless: bool = False
    """Whether the others would fail like that, too."""


def model_digest(folder: Path) -> str:
    """Return a digest of a model: its document holds those of its other files."""
    from adacsl.estimators.artefact import DOCUMENT  # noqa: PLC0415

    return _digest(folder / DOCUMENT)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# what there is to do


def make_plan(
    classifier: CostClassifier, model: Path, data: str | None, out: Path, asked: Asked, files: Files, device: str
) -> tuple[Plan, list[Unit]]:
    """Check everything that can be checked before the first row is predicted; return what there is to do."""
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas

    path = Path(data or "").expanduser().absolute()
    if data is None or takes_pictures(classifier) or not path.exists():
        raise DataError(f"{data or 'a query'} is no table, and no folder of tables: give --out predictions.parquet")
    if asked.policy.needs_all_rows:
        raise ValueError(
            "a capacity and --prior em look at all rows at once, but a folder of predictions is decided part by part: "
            "give --out predictions.parquet without --address, or --no-policy"
        )
    out = out.expanduser().absolute()
    _check_place(out, path)
    schema, parts, table = _parts(path, files)
    # what the name of a folder says it says of the predictions below it, too
    asked = asked._replace(kept=[name for name in asked.kept if name not in parts[0][0].said])
    columns = output_columns(classifier, table_rows(classifier, table, asked.extra, asked.rows), asked)
    root = path if path.is_dir() else path.parent
    units = [Unit(_name_of(part, root), part, rows, _state(part.path)) for part, rows in parts]
    if len({unit.name for unit in units}) < len(units):
        raise DataError(f"two files of {path} would have predictions of the same name: rename one")
    digest = model_digest(model)
    identity = _write_manifest(out, digest, asked, columns, files)
    return Plan(model.expanduser().absolute(), digest, out, identity, asked, columns, files, schema, device), units


def _check_place(out: Path, data: Path) -> None:
    check_folder(out, "give a folder for the predictions, --out predictions/")
    if data.is_dir() and out.resolve().is_relative_to(data.resolve()):
        raise ValueError(f"{out} is inside the data to predict: give another folder with --out")
    if out.is_dir() and not (out / MANIFEST).exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} holds other files and no predictions: give a new folder with --out")


def _parts(path: Path, files: Files) -> tuple[Any, list[tuple[Part, int | None]], Table]:
    """Return the schema of Parquet files, all parts with their rows, and a table that says what they hold."""
    from adacsl.datasets.errors import DataError, listed  # noqa: PLC0415
    from adacsl.datasets.readers.arrow import PARQUET, Part, holds_parquet, open_parts, split_parquet  # noqa: PLC0415
    from adacsl.datasets.readers.formats import open_table, table_files  # noqa: PLC0415

    if path.suffix.lower() in PARQUET or (path.is_dir() and holds_parquet(path)):
        schema, parts = split_parquet(path, ROWS)
        return schema, parts, open_parts(str(path), [], schema)
    found, first = table_files(path) if path.is_dir() else [path], None
    for each in found:
        try:
            table = open_table(each, **files.how)
        except DataError:
            if each == path:
                raise
            continue  # who reads it says why
        first = first or table
        odd = sorted(set(first.columns) ^ set(table.columns))
        if odd:
            raise DataError(f"{each} and {first.name} differ in columns ({listed(odd)}): parts must have the same ones")
    if first is None:
        raise DataError(f"{path} holds no tables that can be read")
    return None, [(Part(each, {}), None) for each in found], first


def _open(part: Part, schema: Any, files: Files) -> Table:
    from adacsl.datasets.readers.arrow import open_parts  # noqa: PLC0415  pandas
    from adacsl.datasets.readers.formats import open_table  # noqa: PLC0415

    return open_table(part.path, **files.how) if schema is None else open_parts(str(part.path), [part], schema)


def _name_of(part: Part, root: Path) -> str:
    name = part.path.relative_to(root).as_posix()
    stem = name.removesuffix(".parquet") if part.path.suffix == ".parquet" else name
    groups = "" if part.groups is None else ".groups-{:06d}-{:06d}".format(*part.groups)
    return f"{stem}{groups}.parquet"


def _state(path: Path) -> list[int]:
    about = path.stat()
    return [about.st_size, about.st_mtime_ns]


def _write_manifest(out: Path, digest: str, asked: Asked, columns: dict[str, Any], files: Files) -> str:
    """Say what all parts have in common, or refuse a folder of which something else is said; return the digest."""
    here = {
        "model": digest, "price": asked.costs.to_dict(), "policy": asked.policy.to_dict(),
        "set of columns": {name: str(kind) for name, kind in columns.items()},
        "way to read": {name: value and str(value) for name, value in files.how.items()}, "number of rows": ROWS,
    }  # fmt: skip
    head = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "adacsl": __version__}
    path = out / MANIFEST
    place_file(path, sealed(encode(head | here, "manifest")))
    try:
        there = unsealed(path.read_bytes(), FORMAT)
    except DamagedError as error:
        raise OSError(f"{path} is damaged ({error}): give a new folder with --out") from None
    odd = [key for key, value in decode(encode(here, "")).items() if there.get(key) != value]
    if odd:
        raise ValueError(
            f"{out} holds predictions with another {odd[0]}: give a new folder with --out, or what was said"
        )
    return _digest(path)


# what is done


def finished(plan: Plan, units: Sequence[Unit]) -> dict[str, dict[str, Any]]:
    """Return what the rows of each finished part add up to, by name; refuse parts of something else."""
    there = {path.relative_to(plan.out).as_posix() for path in plan.out.rglob("[!.]*.parquet")}
    for name in sorted(there - {unit.name for unit in units}):
        raise ValueError(f"{plan.out / name} belongs to none of the files to predict: give a new folder with --out")
    done = {unit.name: found(plan, unit) for unit in units}
    return {name: told for name, told in done.items() if told is not None}


def found(plan: Plan, unit: Unit) -> dict[str, Any] | None:
    """Return what the rows of a finished part add up to; None where it is not finished."""
    from pyarrow import ArrowException  # noqa: PLC0415
    from pyarrow.parquet import read_metadata  # noqa: PLC0415

    path = plan.out / unit.name
    if not path.exists():
        return None
    try:
        about = decode(json.loads(read_metadata(path).metadata[ABOUT.encode()]))
        identity, state, told = about["identity"], about["state"], about["found"]
    except (ArrowException, OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged, or not made by adacsl predict: remove it, and start again") from None
    if identity != plan.identity or state != unit.state:
        what = "other options" if state == unit.state else f"{unit.part.path} before it was changed"
        raise ValueError(f"{path} was made from {what}: remove it, or give another folder with --out")
    return dict(told)


# doing it


def predict_unit(classifier: CostClassifier, plan: Plan, unit: Unit) -> Report:
    """Predict one part, unless that is done; what goes wrong with it is told."""
    from pyarrow import ArrowException  # noqa: PLC0415

    try:
        told = found(plan, unit)  # a worker that died may have come so far
        return Report(unit.name, _predict(classifier, plan, unit) if told is None else told)
    except (ValueError, TypeError, ArrowException, MemoryError) as error:
        return Report(unit.name, failed=f"{unit.part.path}: {one_line(error) or type(error).__name__}")
    except OSError as error:  # reading has errors of its own: nothing can be written
        return Report(unit.name, failed=one_line(error), hopeless=True)


def _predict(classifier: CostClassifier, plan: Plan, unit: Unit) -> dict[str, Any]:
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how files are read was said of the first
        table = _open(unit.part, plan.schema, plan.files)
        opened = table_rows(classifier, table, plan.asked.extra, plan.asked.rows)
    path, told = plan.out / unit.name, dict[str, Any]()
    path.parent.mkdir(parents=True, exist_ok=True)

    def about() -> dict[str, str]:
        document = {"identity": plan.identity, "input": str(unit.part.path), "state": unit.state, "found": told}
        return {ABOUT: json.dumps(encode(document, unit.name))}

    with writing_table(path, plan.columns, about) as write:
        told |= predict_pieces(classifier, opened, plan.asked, write, lambda _: None).told()
        if _state(unit.part.path) != unit.state:
            raise DataError("it has changed since the command was started: start again")
    return told


def load_for(plan: Plan, machine: str) -> CostClassifier:
    """Return the model on a worker's machine, which must see the very folders that the command saw."""
    try:
        classifier, _, _ = load_model(plan.model, device=plan.device)
        seen = model_digest(plan.model), _digest(plan.out / MANIFEST), __version__
    except (OSError, ValueError) as error:
        raise OSError(f"machine {machine}: {one_line(error)}; all must see model, data and --out") from None
    if seen != (plan.digest, plan.identity, plan.version):
        raise OSError(f"machine {machine} sees another {plan.model} or {plan.out}, or has another version of adacsl")
    return classifier
