"""Rows of tables, folders and images in batches, as a fitted classifier takes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.labels import label_name
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.builtin import is_builtin
from adacsl.datasets.errors import DataError, listed
from adacsl.datasets.labels import missing_labels
from adacsl.datasets.loading import load_task
from adacsl.datasets.readers.base import InMemory, OnError, Reading, Table, batch_name, first_warnings_only
from adacsl.datasets.readers.formats import How, check_words, is_table, open_table
from adacsl.datasets.task import COST_NAMES, Task, table_task, target_column
from adacsl.storage.atomic import at_home

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier

IMAGES_AT_ONCE = 512
"""Images that are held in memory at a time."""


# what a classifier takes, and what its numbers mean


def takes_images(classifier: CostSensitiveClassifier) -> bool:
    """Return whether a classifier was trained on images."""
    return bool(getattr(classifier, "images_", False))


def check_kind(classifier: CostSensitiveClassifier, data: object, *, images: bool) -> None:
    """Refuse images for a classifier of tables, and the other way round."""
    if images != takes_images(classifier):
        texts = ("images, but {} holds a table: give images", "a table, but {} holds images: give a table")
        raise DataError("the model was trained on " + texts[images].format(data))


def feature_columns(
    classifier: CostSensitiveClassifier, known: Sequence[str], data: object, others: Sequence[str] = ()
) -> list[str]:
    """Return the columns the classifier was trained on; if it knows no names, all but ``others``, if as many."""
    names = getattr(classifier, "feature_names_in_", None)
    if names is None:
        left = [name for name in known if name not in others]
        if len(left) != classifier.n_features_in_:
            raise DataError(
                f"the model was trained on {classifier.n_features_in_} columns without names, but {data} has "
                f"{len(left)}: give exactly these, in their order"
            )
        return left
    there = set(known)
    missing = [name for name in names if name not in there]
    if missing:
        raise DataError(
            f"{data} lacks {len(missing)} of the {len(names)} columns that the model was trained on "
            f"({listed(missing)}); it has {listed(known)}"
        )
    return [str(name) for name in names]


def model_input(classifier: CostSensitiveClassifier, frame: Any, columns: list[str]) -> Any:
    """Return some columns of a table in the form of the training data."""
    return frame[columns] if hasattr(classifier, "feature_names_in_") else frame[columns].to_numpy()


def n_classes(classifier: CostSensitiveClassifier) -> int:
    """Return the number of classes."""
    return int(classifier.costs_.n_classes)


def class_names(classifier: CostSensitiveClassifier) -> list[str]:
    """Return the names of the classes, in the order of their numbers: of two, the positive one is last."""
    names = [label_name(label) for label in classifier.classes_]
    return names if n_classes(classifier) > 2 or classifier.pos_label_ == classifier.classes_[1] else names[::-1]


def labels_of(classifier: CostSensitiveClassifier, numbers: NDArray[Any]) -> NDArray[Any]:
    """Return class numbers as labels; of two classes, 1 (or True) is the positive one."""
    order = range(n_classes(classifier))
    if len(order) == 2 and classifier.pos_label_ == classifier.classes_[0]:
        order = order[::-1]
    labels: NDArray[Any] = classifier.classes_[np.asarray(order)[numbers.astype(np.int64)]]
    return labels


def probability_columns(classifier: CostSensitiveClassifier, probability: Any = None) -> dict[str, Any]:
    """Return probabilities as the columns of a table: of the positive class, or of each of more than two."""
    if n_classes(classifier) == 2:
        return {"probability": probability}
    names = class_names(classifier)
    return {f"probability_{name}": None if probability is None else probability[:, j] for j, name in enumerate(names)}


def resolved_costs(costs: CostMatrix, table: Any, data: str) -> CostMatrix:
    """Return the costs of the rows of a table to decide by; ``costs`` may depend on its columns."""
    if costs.resolved:
        return costs
    try:
        return costs.of(table).deciding
    except ValueError as error:
        raise DataError(f"{data}: {error}") from None


# rows to predict


class RowBatches(NamedTuple):
    """Rows to predict, in batches."""

    batches: Iterator[tuple[Any, dict[str, Any]]]
    """What the classifier takes, with the other columns that were asked for; in order."""
    total: int | None
    """The number of rows, where it is known."""
    unit: str
    """What one is called."""
    column_type: Callable[[str], Any]
    """Returns the pyarrow type of a column."""
    name: str
    """What messages call the data."""
    broken: list[str]
    """Images that could not be read, so far."""


def open_rows(
    classifier: CostSensitiveClassifier,
    data: str | None,
    *,
    rows: int,
    extra: Sequence[str] = (),
    folder: Path | None = None,
    on_error: OnError = "skip",
    how: How | None = None,
) -> RowBatches:
    """Return the rows of ``data`` in batches of at most ``rows``; columns that are not needed are not read.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
        Knows which columns, or which size of images, it needs.
    data : str, optional
        A table, a folder of images, an archive or the name of a data set; None where ``how`` has a query.
    rows : int
        Rows to hold in memory.
    extra : sequence of str
        Columns beside the features: of costs, identifiers.
    folder : path, optional
        Of the files of built-in data sets.
    on_error : {"skip", "stop"}
        Whether images that cannot be read are left out, or an error.
    how : How, optional
        How tables are read.
    """
    how = How() if how is None else how
    check_words(data, how)
    if opens_as_table(data):
        return table_rows(classifier, open_table(None if data is None else at_home(data), **how), extra, rows)
    if takes_images(classifier) and extra:
        raise DataError("images have no columns: omit the columns to keep, and costs over columns")
    path = at_home(data or "")
    if not is_builtin(data) and path.is_dir():
        return _folder_rows(classifier, path, min(rows, IMAGES_AT_ONCE), on_error)
    many = n_classes(classifier) > 2
    known: dict[str, Any] = {"costs": classifier.costs_, "known_classes": class_names(classifier)} if many else {}
    task = load_task(data, folder=folder, on_error=on_error, **known)
    check_kind(classifier, data, images=task.images)
    if not task.images:
        return table_rows(classifier, InMemory(str(data), task.X), extra, rows)
    batches = _divided(task.X, [str(number) for number in range(len(task.y))], IMAGES_AT_ONCE)
    return RowBatches(batches, len(task.y), "images", _no_column, str(data), [])


def opens_as_table(data: str | os.PathLike[str] | None) -> bool:
    """Return whether data are a table on disk, or a query (None); else images or a built-in data set."""
    if data is None:
        return True
    path = at_home(data)
    return not is_builtin(str(data)) and path.exists() and is_table(path)


def table_rows(classifier: CostSensitiveClassifier, table: Table, extra: Sequence[str], rows: int) -> RowBatches:
    """Return the rows of an open table; see :func:`open_rows`."""
    check_kind(classifier, table.name, images=False)
    features = feature_columns(classifier, table.columns, table.name, extra)
    frames = table.pieces(table.wanted(list(dict.fromkeys((*features, *extra)))), rows)
    Reading(read_as=tuple(table.read_as)).warn(table.name, 0)
    batches = _of_frames(classifier, frames, features, extra)
    return RowBatches(batches, table.n_rows, "rows", table.kind, table.name, [])


def _of_frames(
    classifier: CostSensitiveClassifier, frames: Iterable[Any], features: list[str], extra: Sequence[str]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    for frame in frames:
        yield model_input(classifier, frame, features), {name: frame[name] for name in extra}


def _folder_rows(classifier: CostSensitiveClassifier, path: Path, rows: int, on_error: OnError) -> RowBatches:
    from adacsl.datasets.images import SUFFIXES, image_files  # noqa: PLC0415  torch

    check_kind(classifier, path, images=True)
    files = image_files(path)
    if not files:
        raise DataError(f"{path} holds no images ({', '.join(sorted(SUFFIXES))})")
    names, broken = [file.relative_to(path).as_posix() for file in files], list[str]()
    batches = _divided(files, names, rows)
    if on_error == "skip":
        batches = _readable(classifier, batches, broken)
    return RowBatches(batches, len(names), "images", _no_column, str(path), broken)


def _divided(images: Any, names: list[str], rows: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    return ((images[i : i + rows], {"file": names[i : i + rows]}) for i in range(0, len(names), rows))


def _readable(classifier: CostSensitiveClassifier, batches: Iterator[Any], broken: list[str]) -> Iterator[Any]:
    """Yield the images that can be read, at least one; add the others to ``broken``."""
    from adacsl.datasets.images import decode_files  # noqa: PLC0415  torch
    from adacsl.fitting.rows import size_of_images  # noqa: PLC0415

    some = False
    for paths, others in batches:
        gone: dict[int, str] = {}
        pixels = decode_files(paths, others["file"], image_size=size_of_images(classifier), broken=gone)
        broken += [f"{others['file'][i]}: {why}" for i, why in gone.items()]
        if len(pixels):
            some = True
            yield pixels, {"file": [name for i, name in enumerate(others["file"]) if i not in gone]}
    if not some:
        raise DataError(f"none of {len(broken)} images can be read, the first: {broken[0]}")


def _no_column(name: str) -> Any:
    raise ValueError(f"images have no column {name!r}")


# rows with labels


class LabelledBatch(NamedTuple):
    """Some rows with their labels."""

    X: Any
    """As the classifier takes them."""
    y: NDArray[np.int64]
    """Class numbers; of two classes, 1 is the positive one."""
    costs: CostMatrix
    groups: NDArray[Any] | None = None
    times: Any = None
    """The time of each row, where the policy needs it."""


class LabelledTable:
    """The rows of a table with their labels, in batches; it counts what has no label.

    Parameters
    ----------
    classifier : CostSensitiveClassifier
        Knows its columns and its classes.
    table : Table
    target : str, optional
        The column of the labels; may be left out where it is called ``target``.
    costs : CostMatrix or "balanced"
        To decide and to measure by; they may depend on columns. "balanced" looks at the labels of all rows.
    group_column, time_column : str, optional
        Columns of groups, and of times that a policy needs.
    drop : sequence of str
        Columns that are no features of a classifier that knows no names.
    on_error : {"skip", "stop"}
        Whether rows without a label are left out, or an error.
    """

    def __init__(
        self,
        classifier: CostSensitiveClassifier,
        table: Table,
        *,
        target: str | None,
        costs: CostMatrix | Literal["balanced"],
        group_column: str | None = None,
        time_column: str | None = None,
        drop: Sequence[str] = (),
        on_error: OnError = "skip",
    ) -> None:
        check_kind(classifier, table.name, images=False)
        self.classifier, self.table, self.costs, self.on_error = classifier, table, costs, on_error
        self.group_column, self.time_column, self.unlabelled = group_column, time_column, 0
        self.target = target_column(table.columns, target, table.name)
        cost_columns: list[str] = []
        if not isinstance(costs, str):  # decisions use predicted costs; evaluation uses observed ones, where known
            cost_columns = [*costs.columns, *(name for name in costs.hidden if name in table.columns)]
        apart = [self.target, *filter(None, (group_column,))]
        table.wanted([*apart, *filter(None, (time_column,))])
        known = [name for name in table.columns if name not in apart]
        self.features = feature_columns(classifier, known, table.name, self._no_features(known, drop, cost_columns))
        self.columns = table.wanted(
            list(dict.fromkeys((*self.features, *apart, *filter(None, (time_column,)), *cost_columns)))
        )

    def _no_features(self, known: Sequence[str], drop: Sequence[str], cost_columns: Sequence[str]) -> list[str]:
        """Return the columns that are no features of a classifier that knows no names."""
        others = [*filter(None, (self.time_column,)), *drop]
        others += [name for name in known if COST_NAMES.fullmatch(name) or name.startswith("Unnamed: ")]
        left = set(known) - set(others)
        return others if len(left) == getattr(self.classifier, "n_features_in_", 0) else [*others, *cost_columns]

    @property
    def reading(self) -> Reading:
        """What was left out so far."""
        return Reading(self.unlabelled, read_as=tuple(self.table.read_as))

    def batches(self, rows: int | None) -> Iterator[LabelledBatch]:
        """Yield so many rows at a time; None: all of them at once."""
        start = 0
        for frame in [self.table.read(self.columns)] if rows is None else self.table.pieces(self.columns, rows):
            missing = missing_labels(frame[self.target]).to_numpy()
            gone = int(missing.sum()) if self.on_error == "skip" else 0
            if gone < len(frame):
                with first_warnings_only(start):
                    task = self._task(frame[~missing] if gone else frame, batch_name(self.table.name, start))
                yield LabelledBatch(
                    model_input(self.classifier, task.X, self.features), task.y, task.costs, task.groups,
                    None if self.time_column is None else task.X[self.time_column],
                )  # fmt: skip
            start, self.unlabelled = start + len(frame), self.unlabelled + gone
        if start == self.unlabelled:
            raise DataError(f"no row of {self.table.name} has a label: fill in column {self.target!r}")
        self.reading.warn(self.table.name, start - self.unlabelled)

    def _task(self, frame: Any, name: str) -> Task:
        return table_task(
            frame, name=name, target=self.target, costs=self.costs, group_column=self.group_column,
            source=self.table.name, known_classes=class_names(self.classifier),
        )  # fmt: skip


def joined_columns(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of some batches, one below the other."""
    import pandas as pd  # noqa: PLC0415

    return {name: pd.concat([pd.Series(part[name]) for part in parts]) for name in parts[0]}
