"""Artefacts: a folder of one JSON document and one safetensors file, complete or absent, with digests; no pickle."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from adacsl import __version__
from adacsl.storage.atomic import STAGE, alone_in, open_regular, read_regular, switch_files
from adacsl.storage.documents import DamagedError, encode, sealed, unsealed

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "adacsl-artefact"
SCHEMA_VERSION = 3
DOCUMENT = "model.json"
BEGINNING = 100
"""Within so many bytes the document of every artefact of any version names its format."""
LARGEST_DOCUMENT, LARGEST_TENSORS = 2**26, 2**34
"""Bytes that are read, and written, at most: 64 MiB and 16 GiB."""
LARGEST_EMPTY = 2**20
"""A side of a tensor without numbers is at most so long: what is computed with it has numbers."""
READS = 20
"""So often a model is looked for that others write again at the same time."""
TENSORS = re.compile(r"tensors-[0-9a-f]{16}\.safetensors")
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "C64": "<c8",
}  # fmt: skip
"""numpy's names of the kinds of numbers in a file of tensors; it has none for bfloat16 and the like."""


class ArtefactError(ValueError):
    """An artefact cannot be read or written; the message states what to do."""


class _GoneError(ArtefactError):
    """A file is missing."""


def write_artefact(
    folder: str | os.PathLike[str],
    tensors: Mapping[str, Tensor | NDArray[Any]],
    document: Mapping[str, Any],
    *,
    beside: bool = False,
) -> Path:
    """Write tensors and a JSON document as one artefact: afterwards it is complete, or nothing has changed.

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
        with alone_in(target.parent):
            _check_target(target, beside=beside)
            switch_files(target, {name: content, DOCUMENT: text}, last=DOCUMENT, stale=_holds_tensors)
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
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the numbers and the document of an artefact, after checking every byte of it.

    Numbers are numpy arrays that may be written to; those of kinds that numpy lacks (bfloat16) are tensors.

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
                raise  # another process may have written another model there in the meantime
    raise AssertionError("unreachable")


def is_artefact(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds an artefact, whole or damaged."""
    try:
        with open_regular(Path(folder) / DOCUMENT) as file:
            return FORMAT.encode() in file.read(BEGINNING)
    except (OSError, DamagedError, ValueError):
        return False


# writing


def _tensor_bytes(tensors: Mapping[str, Tensor | NDArray[Any]]) -> bytes:
    for name in tensors:
        if not isinstance(name, str) or name == "__metadata__":
            raise ArtefactError(f"tensors need a name (a str other than '__metadata__'), got {name!r}")
    dense = {name: _dense(name, value) for name, value in tensors.items()}
    try:
        if not any(map(_is_tensor, dense.values())):
            return save(dense)
        from safetensors.torch import save as save_tensors  # noqa: PLC0415  torch is there: it has made a tensor
        from torch import as_tensor  # noqa: PLC0415

        return save_tensors({name: as_tensor(value) for name, value in dense.items()})
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        kinds = ", ".join(sorted({str(tensor.dtype) for tensor in dense.values()}))
        raise ArtefactError(f"these tensors cannot be stored ({error}); their dtypes: {kinds}") from error


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _dense(name: str, value: Any) -> Any:
    """Return a dense copy on the CPU that shares memory with nothing."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return np.array(value, dtype=value.dtype.newbyteorder("="), order="C")
    if _is_tensor(value) and value.layout == sys.modules["torch"].strided:
        return value.detach().to("cpu", copy=True).contiguous()
    kind = value.dtype if isinstance(value, np.ndarray) else getattr(value, "layout", type(value).__name__)
    raise ArtefactError(f"tensor {name!r} must be a dense tensor or array of numbers, got {kind}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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


def _is_leftover(path: Path) -> bool:
    """Return whether a file may be left over from a killed process."""
    return _holds_tensors(path.name) or STAGE.fullmatch(path.name) is not None


def _holds_tensors(name: str) -> bool:
    return TENSORS.fullmatch(name) is not None


# reading


def _damaged(path: Path, what: str) -> ArtefactError:
    return ArtefactError(f"{path} is damaged ({what}): copy the model again from its source, or save it once more")


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
        raise ArtefactError(
            f"{folder} is not an adacsl model (it has no {DOCUMENT}): give the folder that save() wrote"
        )
    content = _read_bytes(path, LARGEST_DOCUMENT)
    if FORMAT.encode() not in content[:BEGINNING]:
        raise ArtefactError(f"{path} is not part of an adacsl model, or is damaged: give the folder that save() wrote")
    try:
        head = unsealed(content, FORMAT)
    except DamagedError as error:
        raise _damaged(path, str(error)) from error
    if (version := head["schema_version"]) != SCHEMA_VERSION:
        remedy = "update adacsl" if version > SCHEMA_VERSION else "train the model again"
        raise ArtefactError(
            f"{path} has schema version {version} and was written by adacsl "
            f"{str(head.get('adacsl_version'))[:20]}; adacsl {__version__} reads version {SCHEMA_VERSION}: {remedy}"
        )
    _check_structure(path, head)
    return head


def _check_structure(path: Path, head: dict[str, Any]) -> None:
    """Raise where digests are right and the structure is wrong."""
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


def _read_tensors(path: Path, entry: dict[str, Any]) -> dict[str, Any]:
    content = _read_bytes(path, entry["bytes"])
    if len(content) != entry["bytes"]:
        raise _damaged(path, f"{len(content)} bytes instead of {entry['bytes']}")
    if _sha256(content) != entry["sha256"]:
        raise _damaged(path, "its digest does not fit its content")
    try:
        result = _parsed(content)
    except Exception as error:  # right digest, wrong content: any error of the parser
        raise _damaged(path, " ".join(str(error).split())[:60] or type(error).__name__) from error
    if set(result) != set(entry["tensors"]):
        raise _damaged(path, f"it does not hold the tensors that {DOCUMENT} lists")
    if any(0 in value.shape and max(value.shape) > LARGEST_EMPTY for value in result.values()):
        raise _damaged(path, "a tensor without numbers is very long")
    return {name: result[name] for name in entry["tensors"]}


def _parsed(content: bytes) -> dict[str, Any]:
    """Return arrays by name; what numpy has no kind of number for is a tensor, and imports torch."""
    parts = dict(deserialize(content))  # type: ignore[no-untyped-call]
    foreign = [name for name, part in parts.items() if part["dtype"] not in DTYPES]
    result: dict[str, Any] = {
        name: np.frombuffer(part["data"], dtype=DTYPES[part["dtype"]]).reshape(part["shape"])
        for name, part in parts.items()
        if name not in foreign
    }
    if foreign:
        from safetensors.torch import load  # noqa: PLC0415

        tensors = load(content)
        result |= {name: tensors[name] for name in foreign}
    return result
