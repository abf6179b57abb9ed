"""Saves and loads fitted classifiers without pickle."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from adacsl import __version__
from adacsl.adaptive.controller import AdaptiveWeight, check_targets
from adacsl.base.arrays import part_of
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import Policy
from adacsl.decision.rule import Decision
from adacsl.ensemble.classifier import Portfolio, PortfolioClassifier
from adacsl.estimators.adacsl import AdaCSLBoostingClassifier, AdaCSLClassifier, AdaptiveCostClassifier
from adacsl.estimators.classifier import Method
from adacsl.estimators.fit import PLAIN
from adacsl.fitting.settings import settings_of
from adacsl.learners.boosting import Booster, BoosterModel
from adacsl.learners.constant import Constant
from adacsl.learners.sklearn import EstimatorModel
from adacsl.learners.stack import StackModel
from adacsl.metrics.bins import EqualWidth, Quantile, Whole
from adacsl.metrics.intervals import Interval
from adacsl.neural.learner import Net
from adacsl.neural.loop import choose_device
from adacsl.neural.model import NetModel
from adacsl.storage.atomic import open_regular, read_regular, sync_folder, write_file
from adacsl.storage.documents import DamagedError, encode, sealed, unsealed

FORMAT = "adacsl-artefact"
SCHEMA_VERSION = 1
DOCUMENT = "model.json"
BEGINNING = 100
"""Within so many bytes the document of every artefact of any version names its format."""
LARGEST_DOCUMENT, LARGEST_TENSORS = 2**26, 2**34
"""Bytes that are read, and written, at most: 64 MiB and 16 GiB."""
LARGEST_EMPTY = 2**20
"""A side of a tensor without numbers is at most so long: what is computed with it has numbers."""
READS = 20
"""So often a model is looked for that others write anew at the same time."""
TENSORS = re.compile(r"tensors-[0-9a-f]{16}\.safetensors")
STAGE = re.compile(r"\.adacsl-[0-9a-f]{12}\.tmp")


class ArtefactError(ValueError):
    """An artefact cannot be read or written; the message says what to do."""


class _GoneError(ArtefactError):
    """A file is missing."""


def write_artefact(
    folder: str | os.PathLike[str],
    tensors: Mapping[str, Tensor | np.ndarray[Any, Any]],
    document: Mapping[str, Any],
    *,
    beside: bool = False,
) -> Path:
    """Write tensors and a JSON document as one artefact: either all of it is there afterwards, or nothing has changed.

    Parameters
    ----------
    folder : path
        New, empty, or an artefact, which is replaced; anything else is an error. Other files in it are left alone.
    tensors : mapping of str to Tensor or array
        Numbers of any shape and layout, on any device. Tensors that share memory are stored apart.
    document : mapping
        JSON values: str keys, str, bool, None, int, float (NaN and infinities too), lists and dicts of these. Tuples
        come back as lists, numpy scalars as Python numbers; the order of keys is kept.
    beside : bool, default False
        Write into a folder that holds other files, too, unless one of them is a ``model.json`` of somebody else's.

    Returns
    -------
    Path
        The folder, links resolved.

    Notes
    -----
    The new files are completed and flushed to disk in a temporary folder. A new target is that folder, renamed. In an
    existing one the switch is the one renaming of ``model.json``, which names its tensor file by content: a process
    killed at any moment leaves the old model or the new one, never a mixture. Who writes at the same time waits (where
    the system can lock folders); the last one's model stays.
    """
    target = Path(os.path.realpath(folder))
    try:
        payload = encode(dict(document), "document")
    except TypeError as error:
        raise ArtefactError(str(error)) from None
    content = _tensor_bytes(tensors)
    name = f"tensors-{_sha256(content)[:16]}.safetensors"
    entry = {"sha256": _sha256(content), "bytes": len(content), "tensors": list(tensors)}
    head = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "adacsl_version": __version__}
    text = sealed(head | {"files": {name: entry}, "document": payload})
    if len(text) > LARGEST_DOCUMENT or len(content) > LARGEST_TENSORS:
        raise ArtefactError(
            f"{target} would be too large: at most {LARGEST_DOCUMENT:,} bytes of text and {LARGEST_TENSORS:,} of "
            f"numbers are read again, got {len(text):,} and {len(content):,}"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent):
            _check_target(target, beside=beside)
            _write(target, name, {name: content, DOCUMENT: text})
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArtefactError(
            f"could not write {target}: {reason}; nothing was changed there, free space or choose another folder"
        ) from error
    return target


def artefact_digest(folder: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of an artefact: of its document, which holds the digests of its other files."""
    return str(_read_document(Path(folder))["sha256"])


def read_artefact(
    folder: str | os.PathLike[str], *, digest: str | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors (on the CPU) and the document of an artefact, after checking every byte of it.

    Nothing that is read is executed. The digests find damage, not forgery: who can write the folder can also write
    digests, so take artefacts from sources you trust as you would any model. Files that the artefact does not list
    are not looked at.

    Parameters
    ----------
    folder : path
        As :func:`write_artefact` left it.
    digest : str, optional
        What :func:`artefact_digest` has returned before: only that very artefact is read.

    Raises
    ------
    ArtefactError
        No artefact, a damaged or incomplete one, one of a newer adacsl, or another one than asked for.
    """
    folder = Path(folder)
    for left in reversed(range(READS)):
        head = _read_document(folder)
        if digest not in (None, head["sha256"]):
            raise ArtefactError(
                f"{folder} holds another model than the one asked for: its digest is {head['sha256'][:12]}, not "
                f"{str(digest)[:12]}"
            )
        ((name, entry),) = head["files"].items()
        try:
            return _read_tensors(folder / name, entry), head["document"]
        except _GoneError:
            if not left or _read_document(folder)["files"] == head["files"]:
                raise  # nobody has put another model there in the meantime
    raise AssertionError("unreachable")


def is_artefact(folder: str | os.PathLike[str]) -> bool:
    """Tell whether a folder holds an artefact, whole or damaged."""
    try:
        with open_regular(Path(folder) / DOCUMENT) as file:
            return FORMAT.encode() in file.read(BEGINNING)
    except (OSError, DamagedError, ValueError):
        return False


# writing


def _tensor_bytes(tensors: Mapping[str, Tensor | np.ndarray[Any, Any]]) -> bytes:
    for name in tensors:
        if not isinstance(name, str) or name == "__metadata__":
            raise ArtefactError(f"tensors need a name (a str other than '__metadata__'), got {name!r}")
    plain = {name: _plain(name, value) for name, value in tensors.items()}
    try:
        return safetensors.torch.save(plain)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        kinds = ", ".join(sorted({str(tensor.dtype) for tensor in plain.values()}))
        raise ArtefactError(f"these tensors cannot be stored ({error}); their dtypes: {kinds}") from error


def _plain(name: str, value: Tensor | np.ndarray[Any, Any]) -> Tensor:
    """Return a dense copy on the CPU that shares memory with nothing."""
    if isinstance(value, Tensor) and value.layout == torch.strided:
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("="), order="C"))
    kind = value.dtype if isinstance(value, np.ndarray) else getattr(value, "layout", type(value).__name__)
    raise ArtefactError(f"tensor {name!r} must be a dense tensor or array of numbers, got {kind}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until nobody else writes to models in a folder, and keep others out.

    The lock is the kernel's and ends with the process, however that ends. Without locks: one at a time, please.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ImportError, OSError):
            import fcntl  # noqa: PLC0415  not every system has it

            handle = os.open(folder, os.O_RDONLY)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _check_target(target: Path, *, beside: bool) -> None:
    if not target.exists() or is_artefact(target):
        return
    if not target.is_dir():
        raise ArtefactError(f"{target} is a file: give a folder to write to")
    try:
        others = [path.name for path in target.iterdir() if not _is_leftover(path)]
    except OSError as error:
        raise ArtefactError(f"could not look into {target}: {error.strerror}; choose another folder") from error
    if DOCUMENT in others or (others and not beside):
        first = DOCUMENT if DOCUMENT in others else others[0]
        raise ArtefactError(
            f"{target} holds other files ({first}, ...) and no adacsl model: give a new or an empty folder"
        )


def _write(target: Path, name: str, files: Mapping[str, bytes]) -> None:
    """Complete the files in a folder of their own, then bring them into the target."""
    # inside a folder that exists: it may be a mount point, and renames do not cross file systems
    stage = (target if target.exists() else target.parent) / f".adacsl-{uuid.uuid4().hex[:12]}.tmp"
    try:
        stage.mkdir()
        for own, content in files.items():
            write_file(stage / own, content)
        sync_folder(stage)
        _commit(stage, target, name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _commit(stage: Path, target: Path, name: str) -> None:
    if not target.exists():
        stage.rename(target)
        sync_folder(target.parent)
        return
    known = (target / name).exists()
    (stage / name).replace(target / name)
    try:
        (stage / DOCUMENT).replace(target / DOCUMENT)
    except OSError:
        if not known:
            (target / name).unlink(missing_ok=True)
        raise
    sync_folder(target)
    _clean(target, keep=name)


def _is_leftover(path: Path) -> bool:
    """Tell whether a killed process of ours may have left this."""
    return TENSORS.fullmatch(path.name) is not None or STAGE.fullmatch(path.name) is not None


def _clean(target: Path, keep: str) -> None:
    """Remove the tensors of the replaced model and what killed processes left."""
    for path in [path for path in target.iterdir() if _is_leftover(path) and path.name != keep]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


# reading


def _damaged(path: Path, what: str) -> ArtefactError:
    return ArtefactError(f"{path} is damaged ({what}): copy the model again from its source, or save it anew")


def _read_bytes(path: Path, at_most: int) -> bytes:
    try:
        return read_regular(path, at_most=at_most)
    except DamagedError as error:
        raise _damaged(path, str(error)) from error
    except FileNotFoundError as error:
        raise _GoneError(f"{path} is missing: copy the whole folder of the model again") from error
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror or error}; check its permissions") from error


def _read_document(folder: Path) -> dict[str, Any]:
    """Return the checked content of model.json."""
    path = folder / DOCUMENT
    if not folder.is_dir():
        raise ArtefactError(f"there is no model folder {folder}: give the folder that save() wrote")
    if not os.path.lexists(path):
        raise ArtefactError(f"{folder} is no adacsl model (it has no {DOCUMENT}): give the folder that save() wrote")
    content = _read_bytes(path, LARGEST_DOCUMENT)
    if FORMAT.encode() not in content[:BEGINNING]:
        raise ArtefactError(f"{path} belongs to no adacsl model, or is damaged: give the folder that save() wrote")
    try:
        head = unsealed(content, FORMAT)
    except DamagedError as error:
        raise _damaged(path, str(error)) from error
    if head["schema_version"] > SCHEMA_VERSION:
        raise ArtefactError(
            f"{path} has schema version {head['schema_version']} and was written by adacsl "
            f"{str(head.get('adacsl_version'))[:20]}; adacsl {__version__} reads up to version {SCHEMA_VERSION}: "
            "update adacsl"
        )
    _check_structure(path, head)
    return head


def _check_structure(path: Path, head: dict[str, Any]) -> None:
    """Refuse a document with right digests and a wrong form: made by hand, or by a fault of ours."""
    files = head.get("files")
    if not isinstance(head.get("document"), dict) or not isinstance(files, dict):
        raise _damaged(path, "it lacks its files or its document")
    for name, entry in files.items():
        # a file of the folder itself: a name such as ../other must not lead elsewhere
        if not TENSORS.fullmatch(name) or not isinstance(entry, dict) or set(entry) != {"sha256", "bytes", "tensors"}:
            raise _damaged(path, f"it lists {name[:40]!r} wrongly")
        names, size = entry["tensors"], entry["bytes"]
        named = isinstance(names, list) and all(isinstance(own, str) for own in names)
        if type(size) is not int or not 0 <= size <= LARGEST_TENSORS or not named or len(set(names)) < len(names):
            raise _damaged(path, f"it lists the content of {name} wrongly")
        if not isinstance(entry["sha256"], str) or not name.startswith(f"tensors-{entry['sha256'][:16]}."):
            raise _damaged(path, f"the digest of {name} is another")
    if len(files) != 1:
        raise _damaged(path, f"it lists {len(files)} files instead of one")


def _read_tensors(path: Path, entry: dict[str, Any]) -> dict[str, Tensor]:
    content = _read_bytes(path, entry["bytes"])
    if len(content) != entry["bytes"]:
        raise _damaged(path, f"{len(content)} bytes instead of {entry['bytes']}")
    if _sha256(content) != entry["sha256"]:
        raise _damaged(path, "its digest does not fit its content")
    try:
        found = safetensors.torch.load(content)
    except Exception as error:  # right digest, wrong content: whatever the parser says
        raise _damaged(path, " ".join(str(error).split())[:60] or type(error).__name__) from error
    if set(found) != set(entry["tensors"]):
        raise _damaged(path, f"it does not hold the tensors that {DOCUMENT} lists")
    if any(not tensor.numel() and max(tensor.shape) > LARGEST_EMPTY for tensor in found.values()):
        raise _damaged(path, "a tensor without numbers is very long")
    return {name: found[name] for name in entry["tensors"]}


MOST_FEATURES = 2**23
"""Columns that a model may have, and pixels on a side."""
LARGEST_LABEL = 2**12
"""Bytes of a label that may be kept for longer ones: each decision takes so many."""
LABELS = "biufUO"
"""Kinds of numpy's dtypes that labels may have."""


def read_labels(about: Mapping[str, Any], n_classes: int) -> NDArray[Any]:
    """Return the labels of the classes, as many as there are, all different."""
    kind, values = np.dtype(str(about["dtype"])), list(about["values"])
    if kind.kind not in LABELS:
        raise ValueError(f"labels are no {str(kind)[:20]}")
    if not all(isinstance(value, bool | int | float | str) for value in values) or len(set(values)) < len(values):
        raise ValueError("labels are different texts or numbers")
    if len(values) != n_classes:
        raise ValueError(f"{len(values)} classes, but costs of {n_classes}")
    return np.asarray(values, dtype=str if kind.kind == "U" and kind.itemsize > LARGEST_LABEL else kind)


def read_cost_names(names: Any) -> tuple[str, ...]:
    """Return which costs differed between samples."""
    if not isinstance(names, list) or not set(names) <= {"fp", "fn", "tp", "tn"}:
        raise ValueError("costs of each sample are some of fp, fn, tp and tn")
    return tuple(names)


def read_whole(name: str, value: Any) -> int:
    """Return a number of columns, or of pixels."""
    if type(value) is not int or not 1 <= value <= MOST_FEATURES:
        raise ValueError(f"{name} must be a whole number from 1 to {MOST_FEATURES}")
    return value


def read_names(names: Sequence[Any], n_features: int) -> NDArray[Any]:
    """Return the names of the columns, one for each."""
    if len(names) != n_features or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{n_features} columns need as many names")
    return np.asarray(names, dtype=object)


def check_elsewhere(settings: Mapping[str, Any], here_only: Sequence[str]) -> None:
    """Refuse settings that no model brings with it: where to compute, what to read and to write."""
    if found := [name for name in here_only if name in settings]:
        raise ValueError(f"a saved model has no {found[0]}")


def check_classes(about: Any, n_classes: int) -> None:
    """Refuse a model whose parts speak of another number of classes, before memory is taken for them."""
    for part in _parts(about):
        for name in ("n_classes", "outputs"):
            if part.get(name, n_classes) != n_classes or isinstance(part.get(name), bool):
                raise ValueError(f"{name} is not {n_classes}, the number of classes")


def _parts(about: Any) -> Iterator[dict[str, Any]]:
    if isinstance(about, dict):
        yield about
        about = [inner for name, inner in about.items() if name != "frequencies"]  # whose names are those of levels
    for inner in about if isinstance(about, list) else ():
        yield from _parts(inner)


def check_predicts(method: Any, about: Any) -> None:
    """Refuse a model that cannot say anything about two plain rows, one of them empty where it takes gaps.

    The net of pictures is taken at its word: its weights have the shapes that they must have.
    """
    if method.images_:
        return
    found = method.decision_probabilities(plain_rows(method, about))
    wanted = (2, len(method.classes_)) if len(method.classes_) > 2 else (2,)
    if found.shape != wanted or not ((found >= 0) & (found <= 1)).all():
        raise ValueError("it predicts no probabilities")


def plain_rows(method: Any, about: Any) -> Any:
    """Return two rows of the columns that a model was trained on."""
    encoders = [part["columns"] for part in _parts(about) if "columns" in part and "format" in part]
    names = getattr(method, "feature_names_in_", None)
    if not encoders:
        rows = np.zeros((2, method.n_features_in_))
        return rows if names is None else pd.DataFrame(rows, columns=names)
    if len(encoders[0]) != method.n_features_in_:
        raise ValueError(f"{len(encoders[0])} columns are described, and {method.n_features_in_} announced")
    columns = [_plain_column(rule) for rule in encoders[0]]
    if names is None:
        return np.stack(columns, axis=1)
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def _plain_column(rule: Mapping[str, Any] | None) -> NDArray[Any]:
    kind = None if rule is None else rule["kind"]
    if kind == "category":
        return np.asarray([None, "?"], dtype=object)
    return np.asarray([None, "1970-01-02" if kind == "date" else 0.0 if kind == "number" else None], dtype=object)


CLASSIFIERS = (AdaCSLClassifier, AdaCSLBoostingClassifier, AdaptiveCostClassifier, PortfolioClassifier)
KINDS = {kind.__name__: kind for kind in (Method, *CLASSIFIERS)}
MODELS: dict[str, Any] = {"boosters": BoosterModel, "estimators": EstimatorModel}
OUT_OF_FOLD, REFERENCE = "oof_scores", "reference_scores"
HERE_ONLY = ("costs", "policy", "device", "resume", "verbose", "trainer", "weights")
"""Settings of this machine; the costs are kept as fitted, the policy as a part of its own."""
NESTED: dict[str, Any] = {kind.__name__: kind for kind in (dict, Net, Booster, Portfolio)}
PARTITIONS = {kind.__name__: kind for kind in (Whole, EqualWidth, Quantile)}


def save_method(
    method: Method, folder: str | Path, *, notes: dict[str, Any] | None = None, beside: bool = False
) -> Path:
    """Write a fitted method; see :meth:`Method.save`.

    ``notes`` are plain values to be kept with it, part of the same document; ``beside`` is that of
    :func:`~adacsl.estimators.persistence.write_artefact`.
    """
    tensors, document = _numbers(method)
    return write_artefact(folder, tensors, document | ({} if notes is None else {"notes": notes}), beside=beside)


def _numbers(method: Method) -> tuple[dict[str, Any], dict[str, Any]]:
    kind = type(method).__name__
    if kind not in KINDS:
        raise ArtefactError(f"{kind} cannot be saved: it is not one of {', '.join(KINDS)}")
    try:
        arrays, about = method.model_.numbers()
    except ValueError as error:
        raise ArtefactError(str(error)) from None
    tensors = {f"model.{name}": value for name, value in arrays.items()}
    if hasattr(method, "oof_scores_"):
        tensors[OUT_OF_FOLD] = np.ascontiguousarray(method.oof_scores_)
    if hasattr(method, "reference_scores_"):
        tensors[REFERENCE] = np.ascontiguousarray(method.reference_scores_)
    document = _describe(method, kind) | {"model": about}
    return tensors, document


def load(folder: str | Path, *, module: Any = None, device: str = "auto") -> Method:
    """Read a method that its ``save`` wrote.

    Parameters
    ----------
    folder : path
        The artefact.
    module : nn.Module or callable, optional
        The net or factory it was trained with, where that was not one of adacsl's own: code is never stored.
    device : str, default "auto"
        Where to predict.
    """
    return load_noted(folder, module=module, device=device)[0]


def load_noted(
    folder: str | Path, *, module: Any = None, device: str = "auto", digest: str | None = None
) -> tuple[Method, dict[str, Any] | None]:
    """Read a method, and the notes that were kept with it; arguments are those of :func:`load`.

    With a ``digest``, that of :func:`~adacsl.estimators.persistence.artefact_digest`, no other model is read.
    """
    if not isinstance(folder, str | PathLike):
        raise TypeError(f"folder must be the path of a saved classifier, got {folder!r}")
    choose_device(device)  # says so where it is absent
    tensors, document = read_artefact(Path(folder), digest=digest)
    kind, notes = document.get("kind"), document.get("notes")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ArtefactError(f"{folder} holds {str(kind)[:40]!r}, not a classifier of adacsl")
    try:
        if not isinstance(notes, dict | None):
            raise TypeError("its notes are none")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # what is wrong is refused
            method = _rebuild(tensors, document, module, device)
            check_predicts(method, document["model"])
    except (ArtefactError, ImportError):
        raise
    except Exception as error:  # right digests, wrong content: whatever libraries say about it
        raise ArtefactError(f"{folder} is not a complete classifier ({_told(error)}); save it again") from error
    return method, notes


def _told(error: Exception) -> str:
    """Return what an error says in one line that any terminal shows."""
    line = " ".join(f"{str(error) or type(error).__name__:.1000}".split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:300]


def _describe(method: Method, kind: str) -> dict[str, Any]:
    params = {k: v for k, v in method.get_params(deep=False).items() if k not in HERE_ONLY}
    plain = {k: v for k, v in params.items() if v is None or isinstance(v, bool | int | float | str)}
    if "members" in params:
        plain["members"] = params["members"] if _is_plain(params["members"]) else None
    nested = {k: _inside(k, params[k]) for k in (*method.NESTED, "learner") if k in params and k not in plain}
    fitted: dict[str, Any] = {}
    if hasattr(method, "estimated_cost_"):
        fitted = {"estimated_cost": list(method.estimated_cost_), "calibration_error": method.calibration_error_}
    if hasattr(method, "saving_"):
        fitted["saving"] = list(method.saving_)
    if method.policy is not None:
        fitted["policy"] = method.policy.to_dict()
    if hasattr(method, "leaderboard_"):
        fitted["leaderboard"] = method.leaderboard_.to_dict(orient="list")
    return fitted | {
        "kind": kind,
        "params": plain,
        "nested": nested,
        "learner": method.model_.kind,
        "costs": method.costs_.to_dict(),
        "said_costs": said.to_dict() if (said := getattr(method, "said_costs_", None)) else None,
        "sample_costs": list(getattr(method, "sample_costs_", ())),
        "decision": method.decision_.to_dict(),
        "classes": {"dtype": method.classes_.dtype.str, "values": method.classes_.tolist()},
        # more than two classes have none
        "positive": next(iter(np.flatnonzero(method.classes_ == method.positive_).tolist()), None),
        "target": method.target_,
        "adapted": method.adapted_,
        "target_costs": list(method.target_costs_.items()),
        "history": method.history_.to_dict(orient="list"),
        "image_shape": list(method.image_shape_) if method.images_ else None,
        "n_features_in": method.n_features_in_,
        "feature_names_in": getattr(method, "feature_names_in_", np.asarray([])).tolist(),
        "left_out": list(getattr(method, "left_out_", ())),
        "times": getattr(method, "times_", ""),
    }


def _inside(name: str, value: Any) -> dict[str, Any]:
    """Return settings that travel as one value: what they are of, and those that are plain values."""
    if isinstance(value, AdaptiveWeight):
        value = settings_of(value)
    kind = "Net" if name == "net" else type(value).__name__
    if kind not in NESTED:
        return {"kind": None, "settings": {}}  # an estimator of another kind, which cannot be told in plain values
    given = dict(value) if isinstance(value, dict) else value.get_params(deep=False)
    usual = {} if kind == "dict" else NESTED[kind]().get_params()
    plain = {k: v for k, v in given.items() if k not in HERE_ONLY and _is_plain(v) and (k, v) not in usual.items()}
    if not _is_plain(given.get("members")):
        plain["members"] = None
    part = given.get("partition")
    if type(part).__name__ in PARTITIONS:
        plain["partition"] = {"kind": type(part).__name__, **vars(part)}
    return {"kind": kind, "settings": plain}


def _is_plain(value: Any) -> bool:
    try:
        encode(value, "")
    except TypeError:
        return False
    return True


def _nested(about: dict[str, Any]) -> Any:
    """Return the settings that :func:`_inside` described."""
    if about["kind"] is None:
        return None
    settings = dict(about["settings"])
    check_elsewhere(settings, HERE_ONLY)
    if settings.get("partition"):
        part = dict(settings["partition"])
        settings["partition"] = PARTITIONS[part.pop("kind")](**part)
    return NESTED[about["kind"]](**settings)


def _rebuild(tensors: dict[str, Any], document: dict[str, Any], module: Any, device: str) -> Method:
    costs = CostMatrix.from_dict(document["costs"])
    check_classes(document["model"], costs.n_classes)
    said = CostMatrix.from_dict(document["said_costs"]) if document.get("said_costs") else None
    method = _unfitted(document, costs if said is None else _forgotten(said), device)
    method.costs_, method.said_costs_ = costs, said
    method.sample_costs_ = read_cost_names(document.get("sample_costs", []))
    method.decision_ = Decision.from_dict(document["decision"], costs)
    method.classes_ = read_labels(document["classes"], costs.n_classes)
    method.positive_ = None if costs.n_classes > 2 else method.classes_[[0, 1].index(document["positive"])]
    method.target_ = _target(document["target"], costs)
    method.adapted_ = bool(document["adapted"])
    method.target_costs_ = {t if t == PLAIN else _target(t, costs): float(c) for t, c in document["target_costs"]}
    method.history_ = pd.DataFrame(document["history"])
    method.n_features_in_ = read_whole("n_features_in", document["n_features_in"])
    if document["feature_names_in"]:
        method.feature_names_in_ = read_names(document["feature_names_in"], method.n_features_in_)
    method.left_out_ = tuple(str(name) for name in document.get("left_out", ()))
    method.times_ = str(document.get("times", ""))
    method.images_ = document["image_shape"] is not None
    if method.images_:
        method.image_shape_ = tuple(read_whole("image_shape", side) for side in document["image_shape"])
    if "estimated_cost" in document:
        method.estimated_cost_ = Interval(*map(float, document["estimated_cost"]))
        method.calibration_error_ = float(document["calibration_error"])
        method.oof_scores_ = tensors[OUT_OF_FOLD].numpy()
    if "saving" in document:
        method.saving_ = Interval(*map(float, document["saving"]))
    if REFERENCE in tensors:
        method.reference_scores_ = tensors[REFERENCE].numpy()
    if "policy" in document:
        method.policy = Policy.from_dict(document["policy"])
    if "leaderboard" in document:
        method.leaderboard_ = pd.DataFrame(document["leaderboard"])
    method.model_ = _model(method, tensors, document, module, device)
    return method


def _target(saved: Any, costs: CostMatrix) -> float | str:
    """Return a target as it was: a number, or a word of more than two classes."""
    return check_targets(saved, costs) if costs.n_classes > 2 else float(saved)


def _forgotten(said: CostMatrix) -> CostMatrix:
    """Return costs as a setting: prices that were learned are to be learned anew by another fit."""
    return said.made(lambda recipe, *_: recipe.forgotten() if hasattr(recipe, "forgotten") else recipe)


def _unfitted(document: dict[str, Any], costs: CostMatrix, device: str) -> Method:
    kind = KINDS[document["kind"]]
    check_elsewhere(document["params"], HERE_ONLY)
    given = document["params"] | ({"estimator": None} if kind is AdaptiveCostClassifier else {})
    here = {"device": device} if kind in (Method, AdaCSLClassifier, PortfolioClassifier) else {}
    nested = {name: _nested(about) for name, about in document["nested"].items()}
    unfitted: Method = kind(costs=costs, **(given | nested | here))
    return unfitted


def _model(method: Method, tensors: dict[str, Any], document: dict[str, Any], module: Any, device: str) -> Any:
    net = None
    if document["learner"] == "nets":
        name = "net" if isinstance(method, AdaCSLClassifier) else "learner"
        net = getattr(method, name) if isinstance(getattr(method, name), Net) else Net()
        method.set_params(**{name: net})
    own = part_of(tensors, "model.")
    return read_model(document["learner"], own, document["model"], net=net, module=module, device=device)


def read_model(
    kind: str, tensors: dict[str, Any], about: dict[str, Any], *, net: Net | None = None, module: Any = None,
    device: str = "auto",
) -> Any:  # fmt: skip
    """Return a model of any kind from what its ``numbers`` gave.

    ``net`` are the settings of nets, where they are known; ``module`` and ``device`` are those of :func:`load`.
    """
    if kind == "nets":
        return NetModel.from_numbers(tensors, about, net or Net(), module=module, device=device)
    if kind == "stack":
        return StackModel.from_numbers(tensors, about, functools.partial(read_model, module=module, device=device))
    if kind == "constant":
        return Constant()
    return MODELS[kind].from_numbers({name: tensor.numpy() for name, tensor in tensors.items()}, about)
