"""Run folder: sealed documents of finished fits, written once, with provenance and locks."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import math
import os
import platform
import re
import subprocess
import sys
import traceback
import uuid
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from adacsl import __version__
from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.comparison.fits import BASELINE, FitKey, FitResult, Stopped, check_result
from adacsl.costs.matrix import CostMatrix, unchecked_costs
from adacsl.storage.atomic import NoLocksError, locked, place_file, read_regular, remove_drafts, replace_file
from adacsl.storage.digests import text_digest
from adacsl.storage.documents import DamagedError, encode, unsealed
from adacsl.storage.sealed import SchemaError, SealedKind, pack, unpack

if TYPE_CHECKING:
    import pandas as pd

    from adacsl.datasets.segments import Segments

__all__ = ["ResultStore", "Scan", "Store", "StoredRun"]


SCHEMA_VERSION = 7
LARGEST = 2**30
"""Bytes of the largest document that is read: scores of a hundred million test rows fit into it."""


class StoreError(Exception):
    """A run folder cannot be used; the message is one line with the remedy."""


# documents


def _kind(name: str) -> SealedKind:
    return SealedKind(f"adacsl-{name}", SCHEMA_VERSION, LARGEST)


def document(kind: str, body: Mapping[str, Any]) -> bytes:
    """Return the content of a document of that kind."""
    return _kind(kind).content(body)


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """Return the checked content of a document.

    Raises
    ------
    DamagedError
        It is not what was written, not of this kind, no ordinary file, or too large.
    StoreError
        It cannot be read, or was written by an older or newer adacsl.
    """
    try:
        return _kind(kind).read(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}; check its permissions") from error
    except SchemaError as error:
        remedy = "update adacsl" if error.version > SCHEMA_VERSION else "choose another --out"
        raise StoreError(
            f"{path} has schema version {error.version}; adacsl {__version__} reads version {SCHEMA_VERSION}: {remedy}"
        ) from error


# files


@contextlib.contextmanager
def as_store_error(path: Path) -> Iterator[None]:
    """Turn a full disk, missing permission and the like into an error of one line."""
    try:
        yield
    except OSError as error:
        what = f"could not write {path}: {error.strerror or error}"
        raise StoreError(f"{what}; free some space, check permissions, or choose another --out") from error


def put(path: Path, content: bytes, *, replace: bool) -> bool:
    """Write a file whole or not at all; return whether this call wrote it.

    A file that is there already stays, unless ``replace``.
    """
    with as_store_error(path):
        if replace:
            replace_file(path, content)
            return True
        # a file that is there needs no room on a full disk
        return not path.exists() and place_file(path, content)


# provenance


@functools.cache
def versions() -> dict[str, str]:
    """Return the installed versions that a result depends on."""
    result = {"python": platform.python_version(), "adacsl": __version__}
    for package in ("numpy", "scikit-learn", "torch"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            result[package] = importlib.metadata.version(package)
    return result


@functools.cache
def commit() -> str | None:
    """Return the git commit of the working directory.

    Returns
    -------
    str or None
        None where there is none.

    Examples
    --------
    >>> from adacsl.comparison.store import commit
    >>> isinstance(commit(), str | None)
    True
    """
    try:
        command = ["git", "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def now() -> str:
    """Return the time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def stamped(result: FitResult, *, started: str | None = None) -> FitResult:
    """Return the result with versions, seed, device, host, commit and times; what it already has stays."""
    known: dict[str, Any] = {"versions": versions(), "seed": int(result.fit.seed)}
    known |= {"host": platform.node(), "started": started, "finished": now(), "device": _device()}
    if head := commit():
        known["commit"] = head
    return replace(result, provenance=known | result.provenance)


def _device() -> str:
    """Return the device on which torch computes in this process; a GPU without a context does not count."""
    torch: Any = sys.modules.get("torch")
    cuda = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return str(torch.cuda.get_device_name()) if cuda else "cpu"


PLAIN_NAME = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,59}")


def file_name(name: str) -> str:
    """Return a name that any file system accepts; different names stay different, also where case is ignored.

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
    return f"{readable}~{text_digest(name)[:12]}"


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


def take_lock(folder: Path, locks: contextlib.ExitStack) -> None:
    """Lock a folder, which makes this the one process that writes to it."""
    try:
        locks.enter_context(locked(folder / ".lock"))
    except BlockingIOError:
        raise StoreError(
            f"another process writes to {folder}: wait until it has ended, or choose another --out"
        ) from None
    except DamagedError:
        raise StoreError(
            f"{folder / '.lock'} is a link or not a regular file: remove it, or choose another --out"
        ) from None
    except NoLocksError as error:
        raise StoreError(f"the file system of {folder} cannot lock files: choose another --out") from error


def check_folder(path: Path) -> None:
    """Raise unless a folder is new, empty, or a run."""
    with as_store_error(path):
        if not path.exists() or (path / "run.json").exists():
            return
        if not path.is_dir():
            raise StoreError(f"{path} is a file: choose a folder for --out")
        other = next((other for other in path.iterdir() if not other.name.startswith(".")), None)
    if other is not None:
        raise StoreError(f"{path} holds other files ({other.name}, ...) and no run: choose a new or empty --out")


def remove_traces(folder: Path) -> None:
    """Remove a new folder in which no run could be opened."""
    with contextlib.suppress(OSError):
        (folder / ".lock").unlink(missing_ok=True)
        folder.rmdir()


def read_run(folder: Path) -> dict[str, Any]:
    """Return the content of run.json."""
    path = folder / "run.json"
    if not path.exists():
        raise StoreError(f"there is no run in {folder} (it has no run.json): give the --out of a comparison")
    try:
        run = read_document(path, "run")
        identity = run.get("identity")
        if not isinstance(identity, dict) or not isinstance(identity.get("data", {}), dict):
            raise DamagedError("it does not hold what the results depend on")
    except DamagedError as error:
        raise StoreError(f"{path} is damaged ({error}): restore it, or choose another --out") from error
    return run


def origin_of(identity: Mapping[str, Any], data: str) -> str:
    """Return a digest of what results on a data set depend on: its content, and the settings of the run."""
    about = identity.get("data", {}).get(data)
    digest = about.get("digest", about) if isinstance(about, dict) else about
    settings = {key: value for key, value in identity.items() if key != "data"}
    return text_digest(json.dumps(encode([data, digest, settings], "identity"), sort_keys=True))


def inside(folder: Path, path: Path) -> Path:
    """Return a path in a run folder; raise if a link on the way could lead out of it."""
    for above in path.relative_to(folder).parents:
        if (folder / above).is_symlink() and above != Path():
            raise StoreError(f"{folder / above} is a link, which may lead anywhere: remove it, or choose another --out")
    return path


def differences(known: Any, asked: Any, where: str = "") -> Iterator[str]:
    """Yield the differences; data are compared by their digests, and data that only one side has do not differ."""
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
        place = f"{where}.{key}" if where else key
        if key in known and key in asked:
            yield from differences(known[key], asked[key], place)
        elif where != "data":
            yield f"{place} is {'new' if key in asked else 'missing'}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


OUTCOMES = ("fp", "fn", "tp", "tn")


class Failure(NamedTuple):
    """Error of a fit that has no result."""

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


class StoredSplit(NamedTuple):
    """Test samples of one split, in the order of the stored scores."""

    test_rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    costs: CostMatrix
    units: NDArray[np.int64]  # number of the independent unit: the sample, its group or its duplicates


def key_to_json(fit: FitKey) -> dict[str, Any]:
    """Return a fit as JSON values."""
    return {"data": fit.data, "ratio": float(fit.ratio), "method": fit.method, "seed": int(fit.seed)}


def key_from_json(key: Mapping[str, Any]) -> FitKey:
    """Return the fit that :func:`key_to_json` wrote."""
    fit = FitKey(**key)
    wanted = (str, float, str, int)
    if not all(isinstance(value, kind) for value, kind in zip(fit, wanted, strict=True)) or not fit.ratio < math.inf:
        raise TypeError("a fit is named by two texts and two numbers")
    return fit


def stopped_from_json(body: Any) -> Stopped:
    """Return a method that was stopped, as the plan names it."""
    data, ratio, method, seeds, planned, best = body
    fit = key_from_json({"data": data, "ratio": ratio, "method": method, "seed": planned})
    if not isinstance(best, str) or not seeds or not all(isinstance(seed, int) for seed in seeds):
        raise TypeError("a method that was stopped has the splits it rests on, and the one that cost less")
    return Stopped(fit.data, fit.ratio, fit.method, tuple(seeds), planned, best)


def result_to_json(result: FitResult) -> dict[str, Any]:
    """Return a result as JSON values."""
    result = as_stored(result)
    scores, decisions = result.scores, result.decisions
    packed = np.packbits(decisions.astype(bool)) if scores.ndim == 1 else decisions.astype("<i8")
    classes = {} if scores.ndim == 1 else {"classes": scores.shape[1]}
    return {
        "fit": key_to_json(result.fit),
        "metrics": result.metrics,
        "threshold": None if result.threshold is None else float(result.threshold),
        "seconds": float(result.seconds),
        "provenance": result.provenance,
        "history": result.history,
        "scores": pack(scores),
        "decisions": pack(packed),
        **classes,
    }


def result_from_json(body: dict[str, Any]) -> FitResult:
    """Return the result that :func:`result_to_json` wrote."""
    try:
        scores, packed = unpack(body["scores"]).astype(np.float32), unpack(body["decisions"])
        if classes := body.get("classes"):
            scores, decisions = scores.reshape(-1, int(classes)), packed.astype(np.int64)
        else:
            decisions = np.unpackbits(packed, count=len(scores)).astype(bool)
        if len(decisions) != len(scores) or (not classes and len(packed) != (len(scores) + 7) // 8):
            raise ValueError(f"{len(packed)} numbers of decisions for {len(scores)} scores")
        return FitResult(
            fit=key_from_json(body["fit"]),
            metrics=dict(body["metrics"]),
            scores=scores,
            decisions=decisions,
            threshold=body["threshold"],
            history=list(body["history"]),
            seconds=body["seconds"],
            provenance=dict(body["provenance"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"its form is wrong: {str(error)[:60]}") from error


def failure_from_json(body: dict[str, Any]) -> tuple[FitKey, Failure]:
    """Return a fit and its error."""
    try:
        return key_from_json(body["fit"]), Failure(*(body[name] for name in Failure._fields))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"its form is wrong: {str(error)[:60]}") from error


def split_body(split: StoredSplit) -> dict[str, Any]:
    """Return test samples with their labels, costs and units as JSON values."""
    rows, labels = np.asarray(split.test_rows, dtype="<i8"), np.asarray(split.labels)
    units, costs = np.asarray(split.units, dtype="<i8"), split.costs
    if rows.ndim != 1 or {labels.shape, units.shape} != {rows.shape} or costs.n_instances not in (None, len(rows)):
        raise ValueError(
            f"a split needs one label and unit for each test sample and their costs, got {len(rows)} samples, "
            f"{len(labels)} labels, {len(units)} units and {costs!r}"
        )
    kind, known = "<i8" if costs.n_classes > 2 else "i1", costs.deciding
    more = {} if known is costs else {"deciding": _encode_costs(known)}
    more |= {} if np.array_equal(units, rows) else {"units": pack(units)}
    return {"test_rows": pack(rows), "labels": pack(labels.astype(kind)), **_encode_costs(costs), **more}


def stored_split(body: dict[str, Any]) -> StoredSplit:
    """Return the split that :func:`split_body` wrote."""
    rows, labels = (unpack(body[name]).astype(np.int64) for name in ("test_rows", "labels"))
    units = unpack(body["units"]).astype(np.int64) if "units" in body else rows
    costs = _decode_costs(body)
    costs = costs.decided_by(_decode_costs(body["deciding"])) if "deciding" in body else costs
    if {labels.shape, units.shape} != {rows.shape} or costs.n_instances not in (None, len(rows)):
        raise ValueError("labels, units or costs are not those of its samples")
    if len(labels) and not 0 <= labels.min() <= labels.max() < costs.n_classes:
        raise ValueError("it has labels of no class")
    return StoredSplit(rows, labels, costs, units)


def segments_body(segments: Mapping[str, Segments]) -> dict[str, Any]:
    """Return segments as JSON values, by column."""
    return {
        column: {"names": list(cut.names), "numbers": pack(cut.numbers.astype("i1"))}
        for column, cut in segments.items()
    }


def stored_segments(columns: Mapping[str, Any]) -> dict[str, Segments]:
    """Return the segments that :func:`segments_body` wrote."""
    from adacsl.datasets.segments import Segments  # noqa: PLC0415  a run needs no pandas until its end

    return {
        column: Segments(tuple(body["names"]), unpack(body["numbers"]).astype(np.int64))
        for column, body in columns.items()
    }


def _encode_costs(costs: CostMatrix) -> dict[str, Any]:
    if costs.n_classes > 2:
        return {"matrix": _encode_matrix(costs)}
    return {"costs": {name: _encode_cost(getattr(costs, name)) for name in OUTCOMES}}


def _decode_costs(body: dict[str, Any]) -> CostMatrix:
    if "matrix" in body:
        return _decode_matrix(body["matrix"])
    fp, fn, tp, tn = (_decode_cost(body["costs"][name]) for name in OUTCOMES)
    # all errors on these samples alone may be free
    return unchecked_costs(((tn, fn), (fp, tp)))


def _encode_matrix(costs: CostMatrix) -> dict[str, Any]:
    table = costs.to_array()
    return {"shape": list(table.shape), "costs": pack(table.astype("<f8")), "classes": costs.classes}


def _decode_matrix(matrix: dict[str, Any]) -> CostMatrix:
    table = unpack(matrix["costs"]).reshape(matrix["shape"])
    names = matrix["classes"] and tuple(matrix["classes"])
    if table.ndim == 2:
        return unchecked_costs(tuple(map(tuple, table.tolist())), names)
    table.flags.writeable = False
    return unchecked_costs(tuple(map(tuple, np.moveaxis(table, 0, -1))), names)


def _encode_cost(cost: Any) -> Any:
    return cost if isinstance(cost, float) else pack(as_host(cost).astype("<f8"))


def _decode_cost(cost: Any) -> Any:
    if not isinstance(cost, dict):
        return float(cost)
    vector = unpack(cost)
    vector.flags.writeable = False
    return vector


FIRST_COLUMNS = (
    *FitKey._fields,
    *("cost", "total_cost", "normalized_cost", "savings", "accuracy", "tp", "fp", "fn", "tn", "n_train", "n_test"),
)
LAST_COLUMNS = ("threshold", "seconds", "device")


class Scan(NamedTuple):
    """Content of a store when a run begins: a failed or corrupt fit is not done."""

    done: set[FitKey]
    failed: dict[FitKey, Failure]
    corrupt: dict[Path, str]  # where the damaged files lie now, and what is wrong with them
    costs: dict[FitKey, dict[str, float | None]]  # of the fits that are done: per sample, and normalised


class StoredRun(NamedTuple):
    """Content of a run: results, failures, splits, segments and plan."""

    identity: dict[str, Any]
    results: dict[FitKey, FitResult]  # in the order of the fits
    failures: dict[FitKey, Failure]
    splits: dict[tuple[str, int], StoredSplit]
    segments: dict[str, dict[str, Segments]]
    planned: frozenset[FitKey]  # the fits that are to have results
    stopped: tuple[Stopped, ...] = ()  # methods that are not run on all folds; their other fits are left out

    def only(self, fits: Container[FitKey]) -> StoredRun:
        """Return the content about some fits: a folder may hold methods and repeats of earlier runs."""
        results = {fit: result for fit, result in self.results.items() if fit in fits}
        failures = {fit: failure for fit, failure in self.failures.items() if fit in fits}
        used = {(fit.data, fit.seed) for fit in results}
        splits = {key: split for key, split in self.splits.items() if key in used}
        views = {fit[:3] for fit in results}
        stopped = tuple(each for each in self.stopped if each[:3] in views)
        return self._replace(results=results, failures=failures, splits=splits, stopped=stopped)


class ResultStore(Protocol):
    """Where a run keeps its results: a folder (:class:`Store`) or memory."""

    def scan(self) -> Scan:
        """Return the fits that are done or failed."""

    def write(self, result: FitResult) -> bool:
        """Keep the result of a fit; return whether it is new (the first one stays)."""

    def fail(self, fit: FitKey, error: BaseException | Failure) -> Failure:
        """Keep the error of a fit."""

    def write_split(self, data: str, seed: int, split: StoredSplit) -> None:
        """Keep the test samples of a split, with their labels, units and costs."""

    def write_segments(self, data: str, segments: Mapping[str, Segments]) -> None:
        """Keep the segment of each sample of a data set."""

    def write_plan(self, fits: Iterable[FitKey], stopped: Iterable[Stopped] = ()) -> None:
        """Keep the fits that are planned, and the methods that are not run on all folds."""

    def read(self, fit: FitKey) -> FitResult:
        """Return the result of a fit."""

    def read_split(self, data: str, seed: int) -> StoredSplit:
        """Return the test samples of a split."""

    def load(self) -> StoredRun:
        """Return the content of the store."""


def as_stored(result: FitResult) -> FitResult:
    """Return a result as a file would give it back: scores in single precision, decisions of one kind."""
    scores, decisions = np.asarray(result.scores, dtype=np.float32), np.asarray(result.decisions)
    if scores.ndim not in (1, 2) or decisions.shape != scores.shape[:1]:
        raise ValueError(
            f"{result.fit}: scores and decisions must be vectors of one length (or scores n x K), got shapes "
            f"{scores.shape} and {decisions.shape}"
        )
    return replace(result, scores=scores, decisions=decisions.astype(bool if scores.ndim == 1 else np.int64))


def costs_of(result: FitResult) -> dict[str, float | None]:
    """Return the cost of a result per sample, and normalised, and how long it took."""
    metrics = result.metrics
    return {"cost": metrics.get("cost"), "normalized": metrics.get("normalized_cost"), "seconds": result.seconds}


def results_frame(results: Iterable[FitResult]) -> pd.DataFrame:
    """Return a table with one row per result, in the order of the fits."""
    with requires("compare"):
        import pandas as pd  # noqa: PLC0415  a run needs no pandas until its end
    rows = []
    for result in results:
        threshold = math.nan if result.threshold is None else result.threshold
        last = {"threshold": threshold, "seconds": result.seconds, "device": result.provenance.get("device")}
        rows.append(result.fit._asdict() | result.metrics | last)
    frame = pd.DataFrame(rows, columns=None if rows else [*FIRST_COLUMNS, *LAST_COLUMNS])
    first = [name for name in FIRST_COLUMNS if name in frame]
    more = [name for name in frame if name not in {*FIRST_COLUMNS, *LAST_COLUMNS}]
    return frame[[*first, *more, *LAST_COLUMNS]].sort_values([*FitKey._fields], ignore_index=True)


def failures_frame(failures: Mapping[FitKey, Failure]) -> pd.DataFrame:
    """Return a table with one row per failed fit."""
    with requires("compare"):
        import pandas as pd  # noqa: PLC0415
    rows = [(*fit, *failure) for fit, failure in failures.items()]
    return pd.DataFrame(rows, columns=[*FitKey._fields, *Failure._fields])


class Store:
    """The run folder of one comparison, opened by ``Store.open`` or ``Store.read_only``.

    Parameters
    ----------
    folder : path
        The folder.
    locks : contextlib.ExitStack, optional
        Held while it is open for writing.

    Notes
    -----
    A file is completed and flushed beside its place, then linked to its name: a process killed at any moment leaves
    a whole file or none, and the first result of a fit is never replaced. Every file ends with a digest of itself,
    and names the digest of the data and settings it belongs to.

    Examples
    --------
    >>> Store.read_only("run").results()  # doctest: +SKIP
    """

    def __init__(self, folder: Path, *, locks: contextlib.ExitStack | None = None) -> None:
        self.folder = folder
        self._locks = locks  # None: only to be read
        self._splits: dict[tuple[str, int], StoredSplit | None] = {}
        self._checked: dict[Path, FitResult] = {}  # results that this run has read or written: not read again

    @property
    def identity(self) -> dict[str, Any]:
        """Data and settings that the results depend on, from run.json."""
        return dict(read_run(self.folder)["identity"])

    @cached_property
    def _known(self) -> dict[str, Any]:
        return self.identity

    def origins(self, data: Iterable[str]) -> dict[str, str]:
        """Return the origin of results on each of these data sets: a digest of its content and the run's settings."""
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
            the protocol. Data may be added later; present data must not differ. Methods, ratios and seeds are not
            part of it: they name the fits.

        Returns
        -------
        Store
            Close it, or use it as a context.
        """
        path = Path(os.path.realpath(folder))
        described = encode(dict(identity), "identity")
        check_folder(path)
        locks, new = contextlib.ExitStack(), not path.exists()
        try:
            with as_store_error(path):
                path.mkdir(parents=True, exist_ok=True)
                take_lock(path, locks)
                remove_drafts(path)
            store = cls(path, locks=locks)
            store._identify(described)
        except BaseException:
            locks.close()
            if new:
                remove_traces(path)
            raise
        return store

    @classmethod
    def read_only(cls, folder: str | os.PathLike[str]) -> Store:
        """Return a run folder opened for reading; also while a run writes to it.

        Parameters
        ----------
        folder : path
            The folder.

        Returns
        -------
        Store
            The opened folder.

        Raises
        ------
        StoreError
            Where it is no run folder.
        """
        read_run(Path(folder))
        return cls(Path(folder))

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
        if result := list(differences(known, identity)):
            raise StoreError(
                f"{self.folder} holds results of other data or settings ({'; '.join(result[:3])}): choose another --out"
            )
        if isinstance(known.get("data"), dict) and set(identity["data"]) - set(known["data"]):
            run["identity"] = known | {"data": known["data"] | identity["data"]}
            put(path, document("run", run), replace=True)

    # writing

    def write(self, result: FitResult) -> bool:
        """Write the result of a fit; return whether it is new (the first one stays)."""
        path, result = self._path("fits", result.fit), as_stored(stamped(result))
        body = {**self._belongs(result.fit.data), **result_to_json(result)}
        new = put(path, document("fit", body), replace=False)
        if new:
            self._checked[path] = result
        with as_store_error(path):
            self._path("failed", result.fit).unlink(missing_ok=True)
        return new

    def fail(self, fit: FitKey, error: BaseException | Failure) -> Failure:
        """Record the error of a fit; the attempts of earlier runs are counted too."""
        path = self._path("failed", fit)
        failure = (error if isinstance(error, Failure) else Failure.of(error))._replace(attempts=1, time=now())
        if path.exists():
            with contextlib.suppress(DamagedError):
                before = failure_from_json(read_document(path, "failure"))[1]
                failure = failure._replace(attempts=1 + before.attempts)
        if not self.has(fit):
            put(path, document("failure", {"fit": key_to_json(fit), **failure._asdict()}), replace=True)
        return failure

    def write_split(self, data: str, seed: int, split: StoredSplit) -> None:
        """Write the test samples of a split, with their labels, units and costs (class-wide, or of these samples)."""
        place = {**self._belongs(data), "data": data, "seed": int(seed)}
        path, content = self._split_path(data, seed), document("split", place | split_body(split))
        self._splits.pop((data, seed), None)
        with as_store_error(path):
            known = _content(path)
        if known == content:
            return
        if _is_whole(known, place):
            raise StoreError(f"seed {seed} of {data!r} was split in another way, see {path}: choose another --out")
        put(path, content, replace=True)

    def write_plan(self, fits: Iterable[FitKey], stopped: Iterable[Stopped] = ()) -> None:
        """Write the planned fits of this run and the methods that it stopped, replacing the plan of an earlier run.

        What an earlier run stopped stays, of methods that this run does not plan.
        """
        fits = sorted(fits)
        mine = {fit[:3] for fit in fits}
        with contextlib.suppress(StoreError):
            stopped = [*stopped, *(each for each in self._read_plan()[1] if each[:3] not in mine)]
        body = {"fits": [key_to_json(fit) for fit in fits], "stopped": [list(each) for each in sorted(stopped)]}
        path, content = self.folder / "plan.json", document("plan", body)
        with as_store_error(path):
            known = _content(path)
        if known != content:
            put(path, content, replace=True)

    def write_segments(self, data: str, segments: Mapping[str, Segments]) -> None:
        """Write the segment of each sample of a data set, beside those of other columns."""
        if not segments:
            return
        with contextlib.suppress(StoreError):
            segments = {**self.read_segments(data), **segments}
        body = {**self._belongs(data), "data": data, "columns": segments_body(segments)}
        path, content = self._segments_path(data), document("segments", body)
        with as_store_error(path):
            known = _content(path)
        if known != content:
            put(path, content, replace=True)

    def _belongs(self, data: str) -> dict[str, Any]:
        return {"belongs_to": origin_of(self._known, data)}

    # reading

    def has(self, fit: FitKey) -> bool:
        """Return whether a fit has a result.

        Parameters
        ----------
        fit : FitKey
            The fit.

        Returns
        -------
        bool
            Whether there is one.
        """
        return self._path("fits", fit).exists()

    def read(self, fit: FitKey) -> FitResult:
        """Return the result of a fit.

        Parameters
        ----------
        fit : FitKey
            The fit.

        Returns
        -------
        FitResult
            Its result.

        Raises
        ------
        StoreError
            Where there is none, or it is damaged.
        """
        path = self._path("fits", fit)
        if not path.exists():
            raise StoreError(f"{self.folder} has no result of {fit}: run the comparison again")
        try:
            return self._read(path)
        except DamagedError as error:
            raise StoreError(f"{path} is damaged ({error}): start the comparison again, it re-runs the fit") from error

    def scan(self) -> Scan:
        """Check every file; those that are damaged are moved to ``corrupt/`` and count as missing."""
        scan = Scan(set(), {}, {}, {})
        for path, result in self._results():
            if isinstance(result, DamagedError):
                scan.corrupt[self._set_aside(path)] = str(result)
            else:
                self._checked[path] = result
                scan.done.add(result.fit)
                scan.costs[result.fit] = costs_of(result)
        scan.failed.update((fit, failure) for fit, failure in self._failed() if fit not in scan.done)
        return scan

    def load(self) -> StoredRun:
        """Return everything that the folder holds; each file is read and checked once."""
        results, identity = self._whole_results(self._checked), self.identity
        if unknown := sorted({fit.data for fit in results} - set(identity.get("data", {}))):
            raise StoreError(
                f"{self.folder} holds results on {unknown[0]!r}, which is not in its run.json: remove them"
            )
        plan, stopped = self._read_plan()
        results = {fit: result for fit, result in results.items() if not any(each.excludes(fit) for each in stopped)}
        failures = {fit: failure for fit, failure in self._failed() if fit not in results}
        splits = {key: self.read_split(*key) for key in sorted({(fit.data, fit.seed) for fit in results})}
        segments = {name: self.read_segments(name) for name in sorted({fit.data for fit in results})}
        begun = {(fit.data, fit.ratio, fit.method) for fit in (*results, *failures) if fit.method != BASELINE}
        seeds = {data: self.seeds(data) for data, _, _ in begun}
        planned = plan | {FitKey(*view, seed) for view in begun for seed in seeds[view[0]]}
        left = frozenset(fit for fit in planned if not any(each.excludes(fit) for each in stopped))
        return StoredRun(identity, results, failures, splits, segments, left, stopped)

    def _whole_results(self, checked: Container[Path] = ()) -> dict[FitKey, FitResult]:
        """Return the results that are not damaged, in order; a warning names the first that is."""
        found = list(self._results(checked))
        damaged = [(path, result) for path, result in found if isinstance(result, DamagedError)]
        if damaged:
            path, why = damaged[0]
            text = f"{path} is damaged ({why}) and excluded{f', as {len(damaged) - 1} more are' if damaged[1:] else ''}"
            warnings.warn(f"{text}: start the comparison again, it re-runs what is missing", stacklevel=3)
        whole = [result for _, result in found if isinstance(result, FitResult)]
        return {result.fit: result for result in sorted(whole, key=lambda result: result.fit)}

    def results(self) -> pd.DataFrame:
        """Return a table of all finished fits; damaged files are left out, and a warning names the first.

        Returns
        -------
        pandas.DataFrame
            One row per fit.
        """
        return results_frame(self._whole_results().values())

    def failures(self) -> pd.DataFrame:
        """Return a table of all failed fits.

        Returns
        -------
        pandas.DataFrame
            One row per fit.
        """
        return failures_frame({fit: failure for fit, failure in self._failed() if not self.has(fit)})

    def read_split(self, data: str, seed: int) -> StoredSplit:
        """Return the split that :meth:`write_split` wrote."""
        path = self._split_path(data, seed)
        if not path.exists():
            raise StoreError(f"{self.folder} has no split of {data!r} with seed {seed}: run the comparison again")
        try:
            place = {"data": data, "seed": int(seed)}
            return stored_split(self._own(read_document(path, "split"), data, place))
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): run the comparison again") from error

    def read_plan(self) -> set[FitKey]:
        """Return the planned fits; empty without a plan."""
        return self._read_plan()[0]

    def _read_plan(self) -> tuple[set[FitKey], tuple[Stopped, ...]]:
        path = self.folder / "plan.json"
        if not path.exists():
            return set(), ()
        try:
            body = read_document(path, "plan")
            fits = {key_from_json(key) for key in body["fits"]}
            return fits, tuple(stopped_from_json(each) for each in body["stopped"])
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): run the comparison again") from error

    def seeds(self, data: str) -> set[int]:
        """Return the numbers of the splits of a data set."""
        files = (self.folder / "splits").glob("*.json")
        result = (re.fullmatch(rf"{re.escape(file_name(data))}_seed-(\d+)\.json", path.name) for path in files)
        return {int(name[1]) for name in result if name}

    def read_segments(self, data: str) -> dict[str, Segments]:
        """Return the segments of a data set by column; empty without any."""
        path = self._segments_path(data)
        if not path.exists():
            return {}
        try:
            body = self._own(read_document(path, "segments"), data, {"data": data})
            return stored_segments(body["columns"])
        except (DamagedError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error}): run the comparison again") from error

    def _read(self, path: Path) -> FitResult:
        body = read_document(path, "fit")
        result = result_from_json(body)
        if self._path("fits", result.fit) != path:
            raise DamagedError(f"it holds {result.fit}")
        self._own(body, result.fit.data)
        self._check_numbers(result)
        return result

    def _own(self, body: dict[str, Any], data: str, place: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a document after checking that it belongs to these data and settings, and is at its place."""
        if not body.items() >= self._belongs(data).items():
            raise DamagedError("it belongs to other data or settings")
        if place is not None and not body.items() >= place.items():
            raise DamagedError(f"it belongs to seed {str(body.get('seed'))[:20]} of {str(body.get('data'))[:40]!r}")
        return body

    def _check_numbers(self, result: FitResult) -> None:
        """Raise a DamagedError unless the costs of a result follow from its decisions, where the split is known."""
        key, about = (result.fit.data, result.fit.seed), self._known.get("data", {}).get(result.fit.data)
        if not isinstance(about, dict) or not isinstance(about.get("ratio"), int | float):
            return
        if key not in self._splits:
            self._splits[key] = None
            with contextlib.suppress(StoreError):  # raised when the split is needed
                self._splits[key] = self.read_split(*key)
        if (split := self._splits[key]) is not None:
            check_result(result, split, about["ratio"])

    def _results(self, checked: Container[Path] = ()) -> Iterator[tuple[Path, FitResult | DamagedError]]:
        """Yield the files of all fits with their results, or the errors of those that are damaged.

        Files that were ``checked`` before are not read again.
        """
        fits = self.folder / "fits"
        for path in (fits, *fits.glob("*"), *fits.glob("*/*")):
            inside(self.folder, path / "any")
        for path in sorted(fits.glob("*/*/*.json")):
            try:
                result: FitResult | DamagedError = self._checked[path] if path in checked else self._read(path)
            except DamagedError as error:
                result = error
            yield path, result

    def _failed(self) -> Iterator[tuple[FitKey, Failure]]:
        """Yield the fits that failed, with their errors."""
        for path in sorted((self.folder / "failed").glob("*/*/*.json")):
            with contextlib.suppress(DamagedError):  # nothing is lost: the fit is missing and runs again
                fit, failure = failure_from_json(read_document(path, "failure"))
                if self._path("failed", fit) == path:
                    yield fit, failure

    def _set_aside(self, path: Path) -> Path:
        if self._locks is None:
            return path
        target = self.folder / "corrupt" / path.relative_to(self.folder / "fits")
        target = inside(self.folder, target.with_name(f"{target.stem}.{uuid.uuid4().hex[:8]}.json"))
        inside(self.folder, path)
        with as_store_error(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        return target

    def _path(self, kind: str, fit: FitKey) -> Path:
        name = f"ratio-{ratio_name(fit.ratio)}_seed-{int(fit.seed)}.json"
        return inside(self.folder, self.folder / kind / file_name(fit.data) / file_name(fit.method) / name)

    def _split_path(self, data: str, seed: int) -> Path:
        return inside(self.folder, self.folder / "splits" / f"{file_name(data)}_seed-{int(seed)}.json")

    def _segments_path(self, data: str) -> Path:
        return inside(self.folder, self.folder / "splits" / f"{file_name(data)}_segments.json")


def _is_whole(split: bytes, place: Mapping[str, Any]) -> bool:
    """Return whether a split is undamaged, and at its place."""
    try:
        return unsealed(split, "adacsl-split").items() >= place.items()
    except DamagedError:
        return False


def _content(path: Path) -> bytes:
    """Return the content of a file; empty where it is missing or no ordinary file."""
    try:
        return read_regular(path, at_most=LARGEST)
    except (FileNotFoundError, DamagedError):
        return b""
