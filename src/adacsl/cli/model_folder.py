"""Model folders as the command line reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.base.labels import plain_labels, same_label
from adacsl.cli.custom_methods import own_module
from adacsl.cli.options import COST_DEFAULTS, CostOptions, DataOptions
from adacsl.costs.matrix import CostMatrix, merge_costs
from adacsl.storage.atomic import check_folder
from adacsl.storage.documents import plain

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.estimators.classifier import CostSensitiveClassifier


DIGESTS = 1000
"""Largest number of digests of training samples that are kept."""
OVERLAP = 0.01
"""Share of training samples, beyond natural duplicates, from which on `evaluate` warns."""


def check_model_folder(folder: Path, *, force: bool = False, option: str = "--out") -> None:
    """Refuse, before hours of training, a folder where no model can be saved in the end."""
    from adacsl.estimators.artefact import is_artefact  # noqa: PLC0415

    check_folder(folder, f"give a folder for the model, {option} model/")
    if folder.is_dir() and any(folder.iterdir()) and not is_artefact(folder) and not force:
        forced = ", or --force to put the model beside them" if option == "--out" else f", {option} model/"
        raise FileExistsError(f"{folder} holds other files and no model: give a new folder{forced}")


def save_model(classifier: CostSensitiveClassifier, folder: Path, notes: Mapping[str, Any], *, force: bool) -> Path:
    """Write the model with the notes of its training, atomically."""
    from adacsl.estimators.persistence import save_method  # noqa: PLC0415

    return save_method(classifier, folder, notes=plain(notes), beside=force)


def note_rows(inputs: Any, y: Any) -> dict[str, Any]:
    """Return the smallest digests of training samples, by which `evaluate` knows them, and the share of duplicates.

    The smallest of all digests are a random subset of the samples, and the same subset of any other table.
    """
    from adacsl.datasets.duplicates import row_digests  # noqa: PLC0415  pandas

    digests = row_digests(inputs, y)
    distinct = np.unique(digests)
    return {
        "digests": [f"{digest:016x}" for digest in distinct[:DIGESTS].tolist()],
        "all": len(distinct) <= DIGESTS,
        "repeated": 1.0 - len(distinct) / len(digests),
    }


class TrainingOverlap:
    """Counter of samples that trained a model, batch by batch, by the digests of its notes."""

    def __init__(self, noted: Any) -> None:
        known = noted if isinstance(noted, dict) else {}
        self._known = np.asarray([int(digest, 16) for digest in known.get("digests") or ()], dtype=np.uint64)
        self._all, self._repeated = bool(known.get("all")), float(known.get("repeated", 0.0))
        self._looked_at, self._trained = 0, 0

    def update(self, inputs: Any, y: Any) -> None:
        """Count samples, given as features and class numbers."""
        from adacsl.datasets.duplicates import row_digests  # noqa: PLC0415  pandas

        if not len(self._known):
            return
        digests = row_digests(inputs, y)
        looked_at = digests if self._all else digests[digests <= self._known.max()]
        self._looked_at += len(looked_at)
        self._trained += int(np.isin(looked_at, self._known).sum())

    @property
    def share(self) -> float:
        """The share of samples that trained the model; 0 where it does not exceed the share of natural duplicates."""
        share = self._trained / self._looked_at if self._looked_at else 0.0
        return share if share > self._repeated + OVERLAP else 0.0


def load_model(
    folder: Path, *, device: str, given: CostOptions = COST_DEFAULTS, module: str | None = None
) -> tuple[CostSensitiveClassifier, str | None, CostOptions]:
    """Return a model, the column of its training labels, and the costs of the training unless others are given.

    Models saved in Python have no such notes.
    """
    classifier, notes = load_with_notes(folder, device=device, module=module)
    return classifier, *noted_options(folder, notes, given)


def load_with_notes(
    folder: Path, *, device: str, module: str | None = None
) -> tuple[CostSensitiveClassifier, dict[str, Any]]:
    """Return a model and the notes of its training; ``module`` is the factory of a network of one's own."""
    from adacsl.base.extras import requires  # noqa: PLC0415
    from adacsl.estimators.persistence import load_noted  # noqa: PLC0415

    with requires("train"):
        classifier, notes = load_noted(folder, device=device, module=own_module(module))
    return classifier, notes or {}


def noted_options(
    folder: Path, notes: Mapping[str, Any], given: CostOptions = COST_DEFAULTS
) -> tuple[str | None, CostOptions]:
    """Return the column of the training labels, and the costs of the training unless others are given."""
    target = notes.get("target")
    try:
        noted = CostOptions(**notes.get("costs", {}))
        if not all(isinstance(each, float | int | str | None) for each in (target, *vars(noted).values())):
            raise TypeError("a cost or a column is neither number nor text")
    except (TypeError, ValueError) as error:
        raise _unreadable(folder, str(error)[:100]) from error
    noted = COST_DEFAULTS if noted.costs is not None else noted  # a matrix is in the model; its file may be gone
    return target, given if given.given else noted


def _unreadable(folder: Path, why: str) -> Exception:
    from adacsl.estimators.artefact import ArtefactError  # noqa: PLC0415

    return ArtefactError(f"{folder} has unreadable notes of its training ({why}): train it again")


def check_positive(classifier: CostSensitiveClassifier, pos_label: str | None) -> None:
    """Refuse a positive class that is not the model's."""
    from adacsl.datasets.errors import DataError, listed  # noqa: PLC0415  pandas
    from adacsl.estimators.inputs import class_names, n_classes  # noqa: PLC0415

    names = class_names(classifier)
    if pos_label is None or (n_classes(classifier) == 2 and same_label(pos_label, names[1])):
        return
    if n_classes(classifier) > 2:
        raise DataError(f"--pos-label is for two classes, but the model has {len(names)} classes: omit it")
    if not any(same_label(pos_label, name) for name in names):
        raise DataError(f"the model has no class {pos_label!r} (it has {listed(names)})")
    raise DataError(f"the positive class of the model is {names[1]!r}, not {pos_label!r}: omit --pos-label")


def load_labelled(
    classifier: CostSensitiveClassifier,
    data: str | None,
    source: DataOptions,
    target: str | None,
    cost_options: CostOptions,
) -> tuple[Task, Any]:
    """Return labelled data with the classes of the model, and its inputs."""
    from adacsl.datasets.builtin import is_builtin  # noqa: PLC0415  pandas
    from adacsl.datasets.errors import DataError, listed  # noqa: PLC0415
    from adacsl.estimators.inputs import check_kind, class_names, feature_columns, model_input, n_classes, takes_images  # noqa: PLC0415

    many, known = n_classes(classifier) > 2, dict[str, Any]()
    if many or cost_options.costs is None:
        known["costs"] = decision_costs(classifier, cost_options)
    if not is_builtin(data):
        check_positive(classifier, source.pos_label)
    if many:
        known["known_classes"] = class_names(classifier)
        source = replace(source, target=source.target or (None if is_builtin(data) else target))
    elif not is_builtin(data):
        source = replace(source, target=source.target or target, pos_label=str(classifier.pos_label_))
    if hasattr(classifier, "feature_names_in_"):
        source = replace(source, drop=())  # the model knows its columns; one that was dropped need not be there
    if takes_images(classifier) and source.image_size is None:
        source = replace(source, image_size=classifier.image_shape_[0])
    task = source.load(data, COST_DEFAULTS if known else cost_options, **known)
    data = data or task.source
    check_kind(classifier, data, images=task.images)
    trained = {str(label) for label in classifier.classes_.tolist()}
    if {str(label) for label in plain_labels(task.classes)} != trained:
        raise DataError(
            f"the classes of {data} are {listed(task.classes)}, but the model was trained on "
            f"{listed(sorted(trained))}: "
            "give data with the same classes"
        )
    if task.images:
        return task, task.X
    return task, model_input(classifier, task.X, feature_columns(classifier, list(task.X.columns), task.name))


def _without_learned(cost_options: Mapping[str, Any], own: CostMatrix) -> dict[str, Any]:
    """Return costs by name, without those that the model has learned to predict."""
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas

    learned = {name: cost for name, cost in cost_options.items() if getattr(cost, "learns", False)}
    for name, cost in learned.items():
        if not set(cost.hidden) <= set(own.hidden):
            raise DataError(
                f"the model cannot predict the cost {cost.cost.text!r}: train it with --{name} "
                f"'model({cost.cost.text})'"
            )
    return {name: cost for name, cost in cost_options.items() if name not in learned}


def decision_costs(classifier: CostSensitiveClassifier, given: CostOptions) -> CostMatrix:
    """Return the costs to decide by, in the order of the model's classes: its own, unless others are given.

    They may depend on columns: ``of(table)`` makes them those of its rows.
    """
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas
    from adacsl.estimators.inputs import class_names, n_classes  # noqa: PLC0415
    from adacsl.fitting.rows import missing_costs  # noqa: PLC0415

    own: CostMatrix = getattr(classifier, "cost_spec_", None) or classifier.costs_
    matrix = given.known
    missing = missing_costs(classifier, matrix if isinstance(matrix, Mapping) else {}) if given.costs is None else []
    if missing:
        options = " ".join(f"--{name} NAME" for name in missing)
        raise DataError(
            f"the model was fitted with per-sample {' and '.join(missing)}: name the column, {options}, or give one "
            f"cost for all samples, --{missing[0]} {getattr(classifier.costs_, missing[0]):.4g} (the mean in training)"
        )
    if not given.given:
        return own
    if isinstance(matrix, Mapping) and n_classes(classifier) == 2:
        return merge_costs(_without_learned(matrix, own), own).checked()
    if not isinstance(matrix, CostMatrix):
        raise DataError(
            f"the model decides among {n_classes(classifier)} classes: other costs need a matrix, --costs matrix.csv"
        )
    aligned = matrix.aligned(class_names(classifier))
    if not aligned.square:
        raise DataError(
            f"{given.costs} has other actions than the classes of the model: give a row for each "
            f"class, or the actions with --actions"
        )
    return aligned
