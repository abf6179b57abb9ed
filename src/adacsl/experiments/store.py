"""The folder of a comparison: one checked file per finished cell, written once, never replaced."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix, as_host
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.documents import (
    DamagedError,
    StoreError,
    as_store_error,
    document,
    encode,
    is_whole,
    locked,
    pack,
    pack_bits,
    put,
    read_document,
    unpack,
    unpack_bits,
)
from adacsl.experiments.provenance import now, stamped, versions
from adacsl.extras import requires

if TYPE_CHECKING:
    import pandas as pd

FIRST_COLUMNS = (
    *Cell._fields,
    *("cost", "total_cost", "normalized_cost", "savings", "accuracy", "tp", "fp", "fn", "tn", "n_train", "n_test"),
)
LAST_COLUMNS = ("threshold", "seconds", "device")
PLAIN_NAME = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,59}")
PRICES = ("fp", "fn", "tp", "tn")
PATIENCE = 10.0
"""Seconds to wait for the workers of a killed run; they end by themselves within a fraction of one."""


class Failure(NamedTuple):
    """Why a cell has no result."""

    type: str
    message: str
    traceback: str = ""
    attempts: int = 1
    time: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception."""
        trace = "".join(traceback.format_exception(error))[-20_000:]
        # file names in messages may hold letters that no encoding takes
        message, trace = (text.encode("utf-8", "backslashreplace").decode() for text in (str(error), trace))
        return cls(type(error).__name__, message, trace)


class Scan(NamedTuple):
    """What a run folder holds: a failed or corrupt cell is not done."""

    done: set[Cell]
    failed: dict[Cell, Failure]
    corrupt: list[Path]  # where the damaged files lie now
    costs: dict[Cell, float]  # normalised costs of the cells that are done


class StoredSplit(NamedTuple):
    """The test rows of one seed, in the order of the stored scores."""

    test_rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    costs: CostMatrix


class Store:
    """The results of one comparison: made by :meth:`open`, :meth:`read_only` or :meth:`attach`.

    Notes
    -----
    A file is completed and flushed beside its place, then linked to its name: a process killed at any moment leaves
    a whole file or none, and the first result of a cell is never replaced. Every file ends with a digest of itself.
    """

    def __init__(self, folder: Path, *, locks: contextlib.ExitStack | None = None) -> None:
        self.folder = folder
        self._locks = locks  # None: only to be read

    @property
    def identity(self) -> dict[str, Any]:
        """What the results depend on: data and settings, as run.json says."""
        identity: dict[str, Any] = _read_run(self.folder)["identity"]
        return identity

    # opening

    @classmethod
    def open(cls, folder: str | os.PathLike[str], identity: Mapping[str, Any]) -> Store:
        """Open a run folder for writing, or make it; one process at a time.

        Parameters
        ----------
        folder : path
            New, empty, or a run with the same identity.
        identity : mapping
            JSON values that results depend on: ``{"data": {name: {"digest": ..., ...}}, ...}`` and the settings of
            the protocol. Data may be added later; what is there already must not differ. Methods, ratios and seeds are
            no part of it: they name the cells.
        """
        path = Path(os.path.realpath(folder))
        described = encode(dict(identity), "identity")
        _check_folder(path)
        locks, new = contextlib.ExitStack(), not path.exists()
        try:
            with as_store_error(path):
                path.mkdir(parents=True, exist_ok=True)
                _take_lock(path, locks)
                _await_workers(path)
                _clean(path)
            store = cls(path, locks=locks)
            store._identify(described)
        except BaseException:
            locks.close()
            if new:
                _remove_traces(path)
            raise
        return store

    @classmethod
    def read_only(cls, folder: str | os.PathLike[str]) -> Store:
        """Open a run folder to look at its results; also while a run writes to it."""
        path = Path(folder)
        _read_run(path)
        return cls(path)

    @classmethod
    def attach(cls, folder: str | os.PathLike[str]) -> Store:
        """Open a run folder in a worker of the process that holds it; the next run waits until it has ended."""
        path, locks = Path(folder), contextlib.ExitStack()
        with as_store_error(path):
            locks.enter_context(locked(path / ".workers", shared=True))
        return cls(path, locks=locks)

    def close(self) -> None:
        """Let other processes open the folder."""
        if self._locks is not None:
            self._locks.close()
            self._locks = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _identify(self, identity: dict[str, Any]) -> None:
        path = self.folder / "run.json"
        if not path.exists():
            body = {"identity": identity, "created": now(), "versions": versions()}
            put(path, document("run", body), replace=True)
            return
        run = _read_run(self.folder)
        known = run["identity"]
        if differences := list(_differences(known, identity)):
            raise StoreError(
                f"{self.folder} holds results of other data or settings ({'; '.join(differences[:3])}): "
                "choose another --out"
            )
        if isinstance(known.get("data"), dict) and set(identity["data"]) - set(known["data"]):
            run["identity"] = known | {"data": known["data"] | identity["data"]}
            put(path, document("run", run), replace=True)

    # writing

    def write(self, result: CellResult) -> bool:
        """Write the result of a cell; tell whether it is new (the first one stays)."""
        path = self._path("cells", result.cell)
        content = document("cell", _cell_body(stamped(result)))
        new = put(path, content, replace=False)
        with as_store_error(path):
            self._path("failed", result.cell).unlink(missing_ok=True)
        return new

    def fail(self, cell: Cell, error: BaseException | Failure) -> Failure:
        """Record why a cell has no result; the attempts of earlier runs are counted too."""
        failure = error if isinstance(error, Failure) else Failure.of(error)
        path = self._path("failed", cell)
        before = _read_failure(path)
        failure = failure._replace(attempts=1 + (before.attempts if before else 0), time=now())
        if not self.has(cell):
            put(path, document("failure", {"cell": _cell_key(cell), **failure._asdict()}), replace=True)
        return failure

    def write_split(
        self, data: str, seed: int, test_rows: NDArray[Any], labels: NDArray[Any], costs: CostMatrix
    ) -> None:
        """Write which rows a seed tests on, with their labels and costs (class-wide, or of these rows)."""
        rows, labels = np.asarray(test_rows, dtype="<i8"), np.asarray(labels)
        if rows.ndim != 1 or labels.shape != rows.shape or costs.n_instances not in (None, len(rows)):
            raise ValueError(
                f"a split needs one label for each test row and costs of these rows, got {len(rows)} rows, "
                f"{len(labels)} labels and {costs!r}"
            )
        prices = {name: _encode_cost(getattr(costs, name)) for name in PRICES}
        body = {"data": data, "seed": int(seed), "test_rows": pack(rows), "labels": pack(labels.astype("i1"))}
        content = document("split", body | {"costs": prices})
        path = self._split_path(data, seed)
        if put(path, content, replace=False):
            return
        with as_store_error(path):
            known = path.read_bytes()
        if known != content and is_whole(known):
            raise StoreError(f"seed {seed} of {data!r} was split in another way, see {path}: choose another --out")
        if known != content:
            put(path, content, replace=True)

    # reading

    def has(self, cell: Cell) -> bool:
        """Tell whether a cell has a result."""
        return self._path("cells", cell).exists()

    def read(self, cell: Cell) -> CellResult:
        """Return the result of a cell."""
        path = self._path("cells", cell)
        if not path.exists():
            raise StoreError(f"{self.folder} has no result of {cell}: run the comparison again")
        try:
            return self._read(path)
        except DamagedError as error:
            raise StoreError(f"{path} is damaged ({error}): start the comparison again, it re-runs the cell") from error

    def scan(self) -> Scan:
        """Check every file; those that are damaged are moved to ``corrupt/`` and count as missing."""
        scan = Scan(set(), {}, [], {})
        for path, result in self._results():
            if result is None:
                scan.corrupt.append(self._set_aside(path))
            else:
                scan.done.add(result.cell)
                scan.costs[result.cell] = result.metrics.get("normalized_cost", math.nan)
        scan.failed.update(self._failed(scan.done))
        return scan

    def results(self) -> pd.DataFrame:
        """Return one row per finished cell; damaged files are left out."""
        with requires("compare"):
            import pandas as pd  # noqa: PLC0415  - a run needs no pandas until its end
        rows = [_row(result) for _, result in self._results() if result is not None]
        frame = pd.DataFrame(rows, columns=None if rows else [*FIRST_COLUMNS, *LAST_COLUMNS])
        first = [name for name in FIRST_COLUMNS if name in frame]
        more = [name for name in frame if name not in {*FIRST_COLUMNS, *LAST_COLUMNS}]
        return frame[[*first, *more, *LAST_COLUMNS]].sort_values([*Cell._fields], ignore_index=True)

    def failures(self) -> pd.DataFrame:
        """Return one row per failed cell."""
        with requires("compare"):
            import pandas as pd  # noqa: PLC0415
        rows = [(*cell, *failure) for cell, failure in self._failed(set()).items() if not self.has(cell)]
        return pd.DataFrame(rows, columns=[*Cell._fields, *Failure._fields])

    def read_split(self, data: str, seed: int) -> StoredSplit:
        """Return what :meth:`write_split` wrote."""
        path = self._split_path(data, seed)
        if not path.exists():
            raise StoreError(f"{self.folder} has no split of {data!r} with seed {seed}: run the comparison again")
        try:
            body = read_document(path, "split")
            rows, labels = (unpack(body[name]).astype(np.int64) for name in ("test_rows", "labels"))
            fp, fn, tp, tn = (_decode_cost(body["costs"][name]) for name in PRICES)
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): run the comparison again") from error
        # past the checks of CostMatrix: all errors on these rows alone may be free
        return StoredSplit(rows, labels, CostMatrix._unchecked(((tn, fn), (fp, tp))))

    def _read(self, path: Path) -> CellResult:
        result = _cell_result(read_document(path, "cell"))
        if self._path("cells", result.cell) != path:
            raise DamagedError(f"it holds {result.cell}")
        return result

    def _results(self) -> Iterator[tuple[Path, CellResult | None]]:
        """Go through the files of all cells; None where one is damaged."""
        for path in sorted((self.folder / "cells").glob("*/*/*.json")):
            try:
                result = self._read(path)
            except DamagedError:
                yield path, None
            else:
                yield path, result

    def _failed(self, done: set[Cell]) -> dict[Cell, Failure]:
        failed = {}
        for path in sorted((self.folder / "failed").glob("*/*/*.json")):
            with contextlib.suppress(DamagedError):  # nothing is lost: the cell is missing and runs again
                cell, failure = _failure(read_document(path, "failure"))
                if cell not in done:
                    failed[cell] = failure
        return failed

    def _set_aside(self, path: Path) -> Path:
        if self._locks is None:
            return path
        target = self.folder / "corrupt" / path.relative_to(self.folder / "cells")
        target = target.with_name(f"{target.stem}.{uuid.uuid4().hex[:8]}.json")
        with as_store_error(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        return target

    def _path(self, kind: str, cell: Cell) -> Path:
        name = f"ratio-{ratio_name(cell.ratio)}_seed-{int(cell.seed)}.json"
        return self.folder / kind / file_name(cell.data) / file_name(cell.method) / name

    def _split_path(self, data: str, seed: int) -> Path:
        return self.folder / "splits" / f"{file_name(data)}_seed-{int(seed)}.json"


# names


def file_name(name: str) -> str:
    """Return a name that any file system takes; different names stay different, also where case does not count.

    Examples
    --------
    >>> file_name("breast-cancer")
    'breast-cancer'
    >>> file_name("../Größe")
    'gr-e~f6d077af062c'
    """
    if PLAIN_NAME.fullmatch(name):
        return name
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return f"{readable}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def ratio_name(ratio: float) -> str:
    """Return a cost ratio as a part of a file name, exactly.

    Examples
    --------
    >>> ratio_name(8.0), ratio_name(0.1 + 0.2)
    ('8', '0.30000000000000004')
    """
    ratio = float(ratio)
    if not math.isfinite(ratio):
        raise ValueError(f"a cost ratio must be finite, got {ratio}")
    return f"{ratio:g}" if float(f"{ratio:g}") == ratio else repr(ratio)


# one process at a time


def _take_lock(folder: Path, locks: contextlib.ExitStack) -> None:
    try:
        locks.enter_context(locked(folder / ".lock"))
    except BlockingIOError:
        raise StoreError(
            f"another process writes to {folder}: wait until it has ended, or choose another --out"
        ) from None


def _await_workers(folder: Path) -> None:
    """Wait for the workers of a run that was killed: what they write last is whole and counts."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with locked(folder / ".workers"):
                return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"workers of an earlier run still write to {folder}: end them, or choose another --out"
                ) from None
            time.sleep(0.02)


def _check_folder(path: Path) -> None:
    with as_store_error(path):
        if not path.exists() or (path / "run.json").exists():
            return
        if not path.is_dir():
            raise StoreError(f"{path} is a file: choose a folder for --out")
        other = next((other for other in path.iterdir() if not other.name.startswith(".")), None)
    if other is not None:
        raise StoreError(f"{path} holds other files ({other.name}, ...) and no run: choose a new or empty --out")


def _clean(folder: Path) -> None:
    """Remove what killed processes had not finished."""
    for draft in list(folder.rglob(".*.draft")):
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def _remove_traces(folder: Path) -> None:
    """Undo a folder that could not become a run."""
    with contextlib.suppress(OSError):
        for name in (".lock", ".workers"):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


# identity


def _read_run(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    if not path.exists():
        raise StoreError(f"there is no run in {folder} (it has no run.json): give the --out of a comparison")
    try:
        run = read_document(path, "run")
    except DamagedError as error:
        raise StoreError(f"{path} is damaged ({error}): restore it, or choose another --out") from error
    return run


def _differences(known: Any, asked: Any, where: str = "") -> Iterator[str]:
    """Say what differs; data are compared by their digests, and those that only one side has do not differ."""
    if where.startswith("data."):
        known, asked = (side.get("digest", side) if isinstance(side, dict) else side for side in (known, asked))
        if known != asked:
            yield f"digest of {where.removeprefix('data.')!r} differs"
        return
    if not isinstance(known, dict) or not isinstance(asked, dict):
        if known != asked:
            yield f"{where} was {_short(known)}, is {_short(asked)}"
        return
    for key in known | asked:
        inside = f"{where}.{key}" if where else key
        if key in known and key in asked:
            yield from _differences(known[key], asked[key], inside)
        elif where != "data":
            yield f"{inside} is {'new' if key in asked else 'missing'}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# cells, failures and costs as JSON


def _cell_key(cell: Cell) -> dict[str, Any]:
    return {"data": cell.data, "ratio": float(cell.ratio), "method": cell.method, "seed": int(cell.seed)}


def _cell_body(result: CellResult) -> dict[str, Any]:
    scores, decisions = np.asarray(result.scores, dtype="<f4"), np.asarray(result.decisions, dtype=bool)
    if scores.ndim != 1 or scores.shape != decisions.shape:
        raise ValueError(
            f"{result.cell}: scores and decisions must be vectors of one length, got shapes {scores.shape} "
            f"and {decisions.shape}"
        )
    return {
        "cell": _cell_key(result.cell),
        "metrics": result.metrics,
        "threshold": None if result.threshold is None else float(result.threshold),
        "seconds": float(result.seconds),
        "provenance": result.provenance,
        "history": result.history,
        "scores": pack(scores),
        "decisions": pack_bits(decisions),
    }


def _cell_result(body: dict[str, Any]) -> CellResult:
    try:
        result = CellResult(
            cell=Cell(**body["cell"]),
            metrics=dict(body["metrics"]),
            scores=unpack(body["scores"]).astype(np.float32),
            decisions=unpack_bits(body["decisions"]),
            threshold=body["threshold"],
            history=list(body["history"]),
            seconds=body["seconds"],
            provenance=dict(body["provenance"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"its form is wrong: {str(error)[:60]}") from error
    if len(result.scores) != len(result.decisions):
        raise DamagedError(f"{len(result.scores)} scores but {len(result.decisions)} decisions")
    return result


def _row(result: CellResult) -> dict[str, Any]:
    threshold = math.nan if result.threshold is None else result.threshold
    known = {"threshold": threshold, "seconds": result.seconds, "device": result.provenance.get("device")}
    return result.cell._asdict() | result.metrics | known


def _failure(body: dict[str, Any]) -> tuple[Cell, Failure]:
    try:
        return Cell(**body["cell"]), Failure(*(body[name] for name in Failure._fields))
    except (KeyError, TypeError) as error:
        raise DamagedError(f"its form is wrong: {str(error)[:60]}") from error


def _read_failure(path: Path) -> Failure | None:
    try:
        return _failure(read_document(path, "failure"))[1] if path.exists() else None
    except DamagedError:
        return None


def _encode_cost(cost: Any) -> Any:
    return cost if isinstance(cost, float) else pack(as_host(cost).astype("<f8"))


def _decode_cost(cost: Any) -> Any:
    if not isinstance(cost, dict):
        return float(cost)
    vector = unpack(cost)
    vector.flags.writeable = False
    return vector


__all__ = ["Failure", "Scan", "Store", "StoreError", "StoredSplit", "file_name", "ratio_name"]
