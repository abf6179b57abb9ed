"""The folder of a comparison: one checked file per finished cell, written once, never replaced."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from adacsl.durable import DamagedError, encode, read_regular, unsealed
from adacsl.experiments import cell_documents, run_folder
from adacsl.experiments.cell_documents import Failure, StoredSplit
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.documents import LARGEST, StoreError, as_store_error, document, locked, put, read_document
from adacsl.experiments.measures import check_result
from adacsl.experiments.provenance import now, stamped, versions
from adacsl.experiments.run_folder import file_name, inside, origin_of, ratio_name, read_run
from adacsl.extras import requires

if TYPE_CHECKING:
    import pandas as pd

    from adacsl.datasets.segments import Segments

FIRST_COLUMNS = (
    *Cell._fields,
    *("cost", "total_cost", "normalized_cost", "savings", "accuracy", "tp", "fp", "fn", "tn", "n_train", "n_test"),
)
LAST_COLUMNS = ("threshold", "seconds", "device")


class Scan(NamedTuple):
    """What a run folder holds: a failed or corrupt cell is not done."""

    done: set[Cell]
    failed: dict[Cell, Failure]
    corrupt: dict[Path, str]  # where the damaged files lie now, and what is wrong with them
    costs: dict[Cell, dict[str, float | None]]  # of the cells that are done: per row, and normalised


class Store:
    """The results of one comparison: made by :meth:`open`, :meth:`read_only` or :meth:`attach`.

    Notes
    -----
    A file is completed and flushed beside its place, then linked to its name: a process killed at any moment leaves
    a whole file or none, and the first result of a cell is never replaced. Every file ends with a digest of itself,
    and names the digest of the data and settings it belongs to.
    """

    def __init__(self, folder: Path, *, locks: contextlib.ExitStack | None = None) -> None:
        self.folder = folder
        self._locks = locks  # None: only to be read
        self._splits: dict[tuple[str, int], StoredSplit | None] = {}

    @property
    def identity(self) -> dict[str, Any]:
        """What the results depend on: data and settings, as run.json says."""
        return dict(read_run(self.folder)["identity"])

    @cached_property
    def _known(self) -> dict[str, Any]:
        return self.identity

    def origins(self, data: Iterable[str]) -> dict[str, str]:
        """Return what results on each of these data sets belong to: a digest of its rows and the run's settings."""
        return {name: origin_of(self._known, name) for name in data}

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
        run_folder.check_folder(path)
        locks, new = contextlib.ExitStack(), not path.exists()
        try:
            with as_store_error(path):
                path.mkdir(parents=True, exist_ok=True)
                run_folder.take_lock(path, locks)
                run_folder.await_workers(path)
                run_folder.remove_drafts(path)
            store = cls(path, locks=locks)
            store._identify(described)
        except BaseException:
            locks.close()
            if new:
                run_folder.remove_traces(path)
            raise
        return store

    @classmethod
    def read_only(cls, folder: str | os.PathLike[str]) -> Store:
        """Open a run folder to look at its results; also while a run writes to it."""
        read_run(Path(folder))
        return cls(Path(folder))

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

    def __exit__(self, *error: object) -> None:
        self.close()

    def _identify(self, identity: dict[str, Any]) -> None:
        path = self.folder / "run.json"
        if not path.exists():
            put(path, document("run", {"identity": identity, "created": now(), "versions": versions()}), replace=True)
            return
        run = read_run(self.folder)
        known = run["identity"]
        if found := list(run_folder.differences(known, identity)):
            raise StoreError(
                f"{self.folder} holds results of other data or settings ({'; '.join(found[:3])}): choose another --out"
            )
        if isinstance(known.get("data"), dict) and set(identity["data"]) - set(known["data"]):
            run["identity"] = known | {"data": known["data"] | identity["data"]}
            put(path, document("run", run), replace=True)

    # writing

    def write(self, result: CellResult) -> bool:
        """Write the result of a cell; tell whether it is new (the first one stays)."""
        path = self._path("cells", result.cell)
        body = {**self._belongs(result.cell.data), **cell_documents.cell_body(stamped(result))}
        new = put(path, document("cell", body), replace=False)
        with as_store_error(path):
            self._path("failed", result.cell).unlink(missing_ok=True)
        return new

    def fail(self, cell: Cell, error: BaseException | Failure) -> Failure:
        """Record why a cell has no result; the attempts of earlier runs are counted too."""
        path = self._path("failed", cell)
        failure = (error if isinstance(error, Failure) else Failure.of(error))._replace(attempts=1, time=now())
        if path.exists():
            with contextlib.suppress(DamagedError):
                before = cell_documents.failed_cell(read_document(path, "failure"))[1]
                failure = failure._replace(attempts=1 + before.attempts)
        if not self.has(cell):
            put(path, document("failure", {"cell": cell_documents.cell_key(cell), **failure._asdict()}), replace=True)
        return failure

    def write_split(self, data: str, seed: int, split: StoredSplit) -> None:
        """Write which rows a split tests on, with their labels, units and costs (class-wide, or of these rows)."""
        place = {**self._belongs(data), "data": data, "seed": int(seed)}
        path, content = self._split_path(data, seed), document("split", place | cell_documents.split_body(split))
        self._splits.pop((data, seed), None)
        with as_store_error(path):
            known = _content(path)
        if known == content:
            return
        if _is_whole(known, place):
            raise StoreError(f"seed {seed} of {data!r} was split in another way, see {path}: choose another --out")
        put(path, content, replace=True)

    def write_plan(self, cells: Iterable[Cell]) -> None:
        """Write which cells this run is to have results of, in the place of the plan of an earlier run."""
        names = [cell_documents.cell_key(cell) for cell in sorted(cells)]
        path, content = self.folder / "plan.json", document("plan", {"cells": names})
        with as_store_error(path):
            known = _content(path)
        if known != content:
            put(path, content, replace=True)

    def write_segments(self, data: str, segments: Mapping[str, Segments]) -> None:
        """Write which segment each row of a data set belongs to, beside what is known of other columns."""
        if not segments:
            return
        with contextlib.suppress(StoreError):
            segments = {**self.read_segments(data), **segments}
        body = {**self._belongs(data), "data": data, "columns": cell_documents.segments_body(segments)}
        path, content = self._segments_path(data), document("segments", body)
        with as_store_error(path):
            known = _content(path)
        if known != content:
            put(path, content, replace=True)

    def _belongs(self, data: str) -> dict[str, Any]:
        return {"origin": origin_of(self._known, data)}

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
        scan = Scan(set(), {}, {}, {})
        for path, result in self._results():
            if isinstance(result, DamagedError):
                scan.corrupt[self._set_aside(path)] = str(result)
            else:
                scan.done.add(result.cell)
                cost, normalized = (result.metrics.get(name) for name in ("cost", "normalized_cost"))
                scan.costs[result.cell] = {"cost": cost, "normalized": normalized}
        scan.failed.update((cell, failure) for cell, failure in self._failed() if cell not in scan.done)
        return scan

    def results(self) -> pd.DataFrame:
        """Return one row per finished cell; damaged files are left out, and a warning names the first."""
        with requires("compare"):
            import pandas as pd  # noqa: PLC0415  - a run needs no pandas until its end
        found = list(self._results())
        damaged = [(path, result) for path, result in found if isinstance(result, DamagedError)]
        if damaged:
            path, why = damaged[0]
            told = f"{path} is damaged ({why}) and left out{f', as {len(damaged) - 1} more are' if damaged[1:] else ''}"
            warnings.warn(f"{told}: start the comparison again, it re-runs what is missing", stacklevel=2)
        rows = [cell_documents.result_row(result) for _, result in found if isinstance(result, CellResult)]
        frame = pd.DataFrame(rows, columns=None if rows else [*FIRST_COLUMNS, *LAST_COLUMNS])
        first = [name for name in FIRST_COLUMNS if name in frame]
        more = [name for name in frame if name not in {*FIRST_COLUMNS, *LAST_COLUMNS}]
        return frame[[*first, *more, *LAST_COLUMNS]].sort_values([*Cell._fields], ignore_index=True)

    def failures(self) -> pd.DataFrame:
        """Return one row per failed cell."""
        with requires("compare"):
            import pandas as pd  # noqa: PLC0415
        rows = [(*cell, *failure) for cell, failure in self._failed() if not self.has(cell)]
        return pd.DataFrame(rows, columns=[*Cell._fields, *Failure._fields])

    def read_split(self, data: str, seed: int) -> StoredSplit:
        """Return what :meth:`write_split` wrote."""
        path = self._split_path(data, seed)
        if not path.exists():
            raise StoreError(f"{self.folder} has no split of {data!r} with seed {seed}: run the comparison again")
        try:
            place = {"data": data, "seed": int(seed)}
            return cell_documents.stored_split(self._own(read_document(path, "split"), data, place))
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): run the comparison again") from error

    def read_plan(self) -> set[Cell]:
        """Return what :meth:`write_plan` wrote; nothing where it did not (adacsl 0.2 wrote no plan)."""
        path = self.folder / "plan.json"
        if not path.exists():
            return set()
        try:
            return {cell_documents.cell_of(key) for key in read_document(path, "plan")["cells"]}
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): run the comparison again") from error

    def seeds(self, data: str) -> set[int]:
        """Return the numbers of the splits of a data set."""
        files = (self.folder / "splits").glob("*.json")
        found = (re.fullmatch(rf"{re.escape(file_name(data))}_seed-(\d+)\.json", path.name) for path in files)
        return {int(name[1]) for name in found if name}

    def read_segments(self, data: str) -> dict[str, Segments]:
        """Return what :meth:`write_segments` wrote, by column; nothing where it did not."""
        path = self._segments_path(data)
        if not path.exists():
            return {}
        try:
            body = self._own(read_document(path, "segments"), data, {"data": data})
            return cell_documents.stored_segments(body["columns"])
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): run the comparison again") from error

    def _read(self, path: Path) -> CellResult:
        body = read_document(path, "cell")
        result = cell_documents.cell_result(body)
        if self._path("cells", result.cell) != path:
            raise DamagedError(f"it holds {result.cell}")
        self._own(body, result.cell.data)
        self._check_numbers(result)
        return result

    def _own(self, body: dict[str, Any], data: str, place: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a document that belongs to these data and settings, and is at its place."""
        if not body.items() >= self._belongs(data).items():
            raise DamagedError("it belongs to other data or settings")
        if place is not None and not body.items() >= place.items():
            raise DamagedError(f"it belongs to seed {str(body.get('seed'))[:20]} of {str(body.get('data'))[:40]!r}")
        return body

    def _check_numbers(self, result: CellResult) -> None:
        """Compare what a result says it cost with its decisions, where the split is known."""
        key, about = (result.cell.data, result.cell.seed), self._known.get("data", {}).get(result.cell.data)
        if not isinstance(about, dict) or not isinstance(about.get("ratio"), int | float):
            return
        if key not in self._splits:
            self._splits[key] = None
            with contextlib.suppress(StoreError):  # said when somebody needs it
                self._splits[key] = self.read_split(*key)
        if (split := self._splits[key]) is not None:
            check_result(result, split, about["ratio"])

    def _results(self) -> Iterator[tuple[Path, CellResult | DamagedError]]:
        """Go through the files of all cells: results, and what is wrong with those that are damaged."""
        cells = self.folder / "cells"
        for path in (cells, *cells.glob("*"), *cells.glob("*/*")):
            inside(self.folder, path / "any")
        for path in sorted(cells.glob("*/*/*.json")):
            try:
                found: CellResult | DamagedError = self._read(path)
            except DamagedError as error:
                found = error
            yield path, found

    def _failed(self) -> Iterator[tuple[Cell, Failure]]:
        """Go through the records of cells that failed."""
        for path in sorted((self.folder / "failed").glob("*/*/*.json")):
            with contextlib.suppress(DamagedError):  # nothing is lost: the cell is missing and runs again
                cell, failure = cell_documents.failed_cell(read_document(path, "failure"))
                if self._path("failed", cell) == path:
                    yield cell, failure

    def _set_aside(self, path: Path) -> Path:
        if self._locks is None:
            return path
        target = self.folder / "corrupt" / path.relative_to(self.folder / "cells")
        target = inside(self.folder, target.with_name(f"{target.stem}.{uuid.uuid4().hex[:8]}.json"))
        inside(self.folder, path)
        with as_store_error(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        return target

    def _path(self, kind: str, cell: Cell) -> Path:
        name = f"ratio-{ratio_name(cell.ratio)}_seed-{int(cell.seed)}.json"
        return inside(self.folder, self.folder / kind / file_name(cell.data) / file_name(cell.method) / name)

    def _split_path(self, data: str, seed: int) -> Path:
        return inside(self.folder, self.folder / "splits" / f"{file_name(data)}_seed-{int(seed)}.json")

    def _segments_path(self, data: str) -> Path:
        return inside(self.folder, self.folder / "splits" / f"{file_name(data)}_segments.json")


def _is_whole(split: bytes, place: Mapping[str, Any]) -> bool:
    """Tell whether a split is what was written, for this place."""
    try:
        return unsealed(split, "adacsl-split").items() >= place.items()
    except DamagedError:
        return False


def _content(path: Path) -> bytes:
    """Return what lies there, nothing where it is missing or no ordinary file."""
    try:
        return read_regular(path, at_most=LARGEST)
    except (FileNotFoundError, DamagedError):
        return b""


__all__ = ["Failure", "Scan", "Store", "StoreError", "StoredSplit", "file_name", "ratio_name"]
