"""Finished base estimators of an unfinished ensemble, kept without pickle."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import joined, part_of
from adacsl.base.extras import requires
from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.ensemble.fits import Fitted
from adacsl.estimators.artefact import ArtefactError, is_artefact, read_artefact, write_artefact
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.estimators.persistence import read_model
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.rows import Rows
from adacsl.learners.stack import number_or_array
from adacsl.neural.checkpoints import describe
from adacsl.storage.atomic import remove_stale
from adacsl.storage.digests import bind_folder, digest_of

with requires("sklearn"):
    from sklearn.base import clone


HERE_ONLY = ("device", "resume", "verbose", "trainer", "backend", "address", "gpus")
"""Where a base estimator trains, and what it shows, may change."""


def estimator_folders(
    folder: Path, estimators: Mapping[str, CostSensitiveClassifier], group: Sequence[Candidate], rows: Rows
) -> dict[str, Path]:
    """Return where each base estimator is kept, after making sure that the folder belongs to this very fit.

    Other base estimators, more time and another stack are the same fit: what is finished serves them too.
    """
    arrays = list(_arrays(rows, group[0].folds))
    levels = None
    if not rows.images:
        encoder = ColumnEncoder().fit(rows.to_encode(rows.use))
        arrays.append(rows.encoded(encoder))
        levels = encoder.to_dict()
    fit = digest_of(arrays, [levels, group[0].seed, [c.costs.to_json() for c in group]])
    bind_folder(folder, fit)
    remove_stale(folder, lambda _: False)
    return {name: folder / folder_name(name, made, fit) for name, made in estimators.items()}


def _arrays(rows: Rows, folds: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> Iterator[NDArray[Any]]:
    """Yield the arrays that identify a fit, without the columns of tables."""
    yield from (rows.y, rows.use, *(part for fold in folds for part in fold))
    if rows.images:
        yield from (part for part in (rows.x, rows.extra) if part is not None)
    if rows.weight is not None:
        yield rows.weight
    if rows.groups is not None:
        yield np.unique(rows.groups, return_inverse=True)[1]


def folder_name(name: str, made: CostSensitiveClassifier, fit: str) -> str:
    """Return a folder's name that other settings of a base estimator, and other fits, do not share."""
    settings = made.get_params()
    own: dict[str, str] = {}
    for key, value in settings.items():
        inner = any(other.startswith(f"{key}__") for other in settings)  # nested settings are listed by themselves
        if key.split("__")[-1] not in HERE_ONLY:
            own[key] = type(value).__qualname__ if inner else describe(value)
    return f"{re.sub('[^A-Za-z0-9-]', '_', name)[:40]}-{digest_of([], [fit, name, type(made).__name__, own])[:16]}"


def unfinished(folder: Path) -> Path:
    """Return where networks keep the checkpoints of a base estimator that is not finished."""
    return folder.with_name(f"{folder.name}.unfinished")


def write_estimator(folder: Path, name: str, fitted: Sequence[Fitted]) -> None:
    """Save a finished base estimator; one that has no array form is not saved, and is fitted again by a later fit."""
    if is_artefact(folder):
        return
    tensors, about = [], []
    try:
        for own in fitted:
            arrays, model = own.model.numbers()
            tensors.append({"held_out": own.held_out} | {f"model.{key}": value for key, value in arrays.items()})
            about.append(
                {
                    "shift": np.asarray(own.shift).tolist(),
                    "seconds": own.seconds,
                    "kind": own.model.kind,
                    "model": model,
                    "by_rows": own.by_rows,
                }
            )
        write_artefact(folder, joined(tensors), {"estimator": name, "kept": folder.name, "fitted": about})
    except ArtefactError as error:
        warnings.warn(f"base estimator {name!r} is fitted, but not saved: {error}", stacklevel=2)
    except ValueError:
        return
    else:
        shutil.rmtree(unfinished(folder), ignore_errors=True)


def read_estimator(folder: Path, name: str, made: CostSensitiveClassifier, device: str) -> list[Fitted] | None:
    """Return a base estimator that an earlier fit has saved; None where there is none that can be read."""
    if not folder.exists():
        return None
    try:
        tensors, document = read_artefact(folder)
        if document["kept"] != folder.name:
            raise ValueError("it belongs to other data or settings")
        return [
            _fitted(name, part_of(tensors, f"{i}."), about, made, device) for i, about in enumerate(document["fitted"])
        ]
    except Exception as error:  # whatever is wrong with it
        reason = " ".join(str(error).split())[:200]
        warnings.warn(f"base estimator {name!r} cannot be read and is fitted again: {reason}", stacklevel=2)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _fitted(
    name: str, tensors: dict[str, Any], about: dict[str, Any], made: CostSensitiveClassifier, device: str
) -> Fitted:
    net = None
    if about["kind"] == "net":
        estimator: CostSensitiveClassifier = clone(made)
        net = estimator.check_settings().set_params(weights=None)  # they are among the numbers
    own, module = part_of(tensors, "model."), getattr(net, "module", None)
    model = read_model(about["kind"], own, about["model"], net=net, module=module, device=device)
    shift = number_or_array(about["shift"])
    by_rows = float(about.get("by_rows", 0.0))
    return Fitted(name, np.asarray(tensors["held_out"]), shift, model, None, float(about["seconds"]), by_rows)
