"""Model folders as the command line reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adacsl.base.labels import label_name, plain_labels
from adacsl.cli.options import AS_FOUND, FREE, Files, Prices, Source
from adacsl.costs.matrix import CostMatrix, merge_prices
from adacsl.storage.atomic import at_home, check_folder
from adacsl.storage.documents import plain

if TYPE_CHECKING:
    from adacsl.datasets.readers.base import Table
    from adacsl.datasets.task import Task
    from adacsl.estimators.classifier import CostClassifier


DIGESTS = 1000
"""So many digests of training rows are kept at most."""
OVERLAP = 0.01
"""From this share of training rows on, beyond those that repeat anyway, `evaluate` warns."""

PICTURES = 512
"""How many pictures are held in memory at a time."""


def check_model_folder(folder: Path, *, force: bool = False, option: str = "--out") -> None:
    """Refuse, before hours of training, a place where no model can be kept in the end."""
    from adacsl.estimators.artefact import is_artefact  # noqa: PLC0415

    check_folder(folder, f"give a folder for the model, {option} model/")
    if folder.is_dir() and any(folder.iterdir()) and not is_artefact(folder) and not force:
        forced = ", or --force to put the model beside them" if option == "--out" else f", {option} model/"
        raise FileExistsError(f"{folder} holds other files and no model: give a new folder{forced}")


def save_model(classifier: CostClassifier, folder: Path, notes: Mapping[str, Any], *, force: bool) -> Path:
    """Write the model and what was said when it was trained as one, all of it or nothing."""
    from adacsl.estimators.persistence import save_method  # noqa: PLC0415

    return save_method(classifier, folder, notes=plain(notes), beside=force)


def note_rows(inputs: Any, y: Any) -> dict[str, Any]:
    """Return the least digests of training rows, by which `evaluate` knows them again, and how many rows repeat.

    The least of all digests are a random sample of the rows that others can take alike.
    """
    from adacsl.datasets.duplicates import row_digests  # noqa: PLC0415  pandas

    digests = row_digests(inputs, y)
    distinct = np.unique(digests)
    return {
        "digests": [f"{digest:016x}" for digest in distinct[:DIGESTS].tolist()],
        "all": len(distinct) <= DIGESTS,
        "repeated": 1.0 - len(distinct) / len(digests),
    }


def training_share(noted: Any, inputs: Any, y: Any) -> float:
    """Return the share of rows that trained the model, as far as its notes say; 0 where so many repeat anyway."""
    from adacsl.datasets.duplicates import row_digests  # noqa: PLC0415  pandas

    if not isinstance(noted, dict) or not noted.get("digests") or not len(y):
        return 0.0
    known = np.asarray([int(digest, 16) for digest in noted["digests"]], dtype=np.uint64)
    digests = row_digests(inputs, y)
    looked_at = digests if noted.get("all") else digests[digests <= known.max()]
    share = float(np.isin(looked_at, known).mean()) if len(looked_at) else 0.0
    return share if share > float(noted.get("repeated", 0.0)) + OVERLAP else 0.0


def load_model(folder: Path, *, device: str, said: Prices = FREE) -> tuple[CostClassifier, str | None, Prices]:
    """Read a model, the column its labels came from, and the prices it was trained with, unless others are said.

    Models saved in Python have no such notes.
    """
    classifier, notes = load_with_notes(folder, device=device)
    return classifier, *said_in_training(folder, notes, said)


def load_with_notes(folder: Path, *, device: str) -> tuple[CostClassifier, dict[str, Any]]:
    """Read a model and all that was noted in training."""
    from adacsl.base.extras import requires  # noqa: PLC0415
    from adacsl.estimators.persistence import load_noted  # noqa: PLC0415

    with requires("train"):
        classifier, notes = load_noted(folder, device=device)
    return classifier, notes or {}


def said_in_training(folder: Path, notes: Mapping[str, Any], said: Prices = FREE) -> tuple[str | None, Prices]:
    """Return the column the labels came from, and the prices, unless others are said."""
    target = notes.get("target")
    try:
        noted = Prices(**notes.get("prices", {}))
        if not all(isinstance(each, float | int | str | None) for each in (target, *vars(noted).values())):
            raise TypeError("a price or a column is neither number nor text")
    except (TypeError, ValueError) as error:
        raise _unreadable(folder, str(error)[:100]) from error
    noted = FREE if noted.costs is not None else noted  # a matrix is in the model; its file may be gone
    return target, said if said.given else noted


def _unreadable(folder: Path, why: str) -> Exception:
    from adacsl.estimators.artefact import ArtefactError  # noqa: PLC0415

    return ArtefactError(f"{folder} does not say how it was trained ({why}): train it again")


# what a model takes


def takes_pictures(classifier: CostClassifier) -> bool:
    """Tell whether a model was trained on pictures."""
    return bool(getattr(classifier, "images_", False))


def check_kind(classifier: CostClassifier, data: object, *, pictures: bool) -> None:
    """Refuse pictures for a model of tables, and the other way round."""
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas

    if pictures != takes_pictures(classifier):
        told = ("pictures, but {} holds a table: give pictures", "a table, but {} holds pictures: give a table")
        raise DataError("the model was trained on " + told[pictures].format(data))


def feature_columns(
    classifier: CostClassifier, known: Sequence[str], data: object, others: Sequence[str] = ()
) -> list[str]:
    """Return the columns the model was trained on; if it knows no names, all but ``others``, where they are as many."""
    from adacsl.datasets.errors import DataError, listed  # noqa: PLC0415

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


def model_input(classifier: CostClassifier, frame: Any, columns: list[str]) -> Any:
    """Return some columns of a table in the form of the training data."""
    return frame[columns] if hasattr(classifier, "feature_names_in_") else frame[columns].to_numpy()


def load_labelled(
    classifier: CostClassifier, data: str | None, source: Source, target: str | None, spoken: Prices
) -> tuple[Task, Any]:
    """Read data with labels as the model understands them; return them, and their features as it takes them."""
    from adacsl.datasets.builtin import is_builtin  # noqa: PLC0415  pandas
    from adacsl.datasets.errors import DataError, listed  # noqa: PLC0415

    many = n_classes(classifier) > 2
    known: dict[str, Any] = {} if spoken.costs is not None and not many else {"costs": matrix_of(classifier, spoken)}
    if many:
        known["known_classes"] = class_names(classifier)
        source = replace(source, target=source.target or (None if is_builtin(data) else target))
    elif not is_builtin(data):
        positive = source.positive or str(classifier.positive_)
        source = replace(source, target=source.target or target, positive=positive)
    if hasattr(classifier, "feature_names_in_"):
        source = replace(source, drop=())  # the model knows its columns; one that was dropped need not be there
    if takes_pictures(classifier) and source.image_size is None:
        source = replace(source, image_size=classifier.image_shape_[0])
    task = source.load(data, FREE if known else spoken, **known)
    data = data or task.source
    check_kind(classifier, data, pictures=task.images)
    trained = {str(label) for label in classifier.classes_.tolist()}
    if {str(label) for label in plain_labels(task.classes)} != trained:
        raise DataError(
            f"the classes of {data} are {listed(task.classes)}, but the model was trained on {listed(sorted(trained))}"
        )
    if task.images:
        return task, task.X
    return task, model_input(classifier, task.X, feature_columns(classifier, list(task.X.columns), task.name))


# rows to predict, piece by piece: tables larger than memory, folders of pictures, data sets with a name


class Opened(NamedTuple):
    """Rows to predict."""

    pieces: Iterator[Any]
    """What the classifier takes, with the columns that are asked for besides; in order."""
    total: int | None
    """How many there are, where that is known."""
    unit: str
    """What one is called."""
    kind: Callable[[str], Any]
    """Tells the pyarrow type of a column."""
    called: str
    """What messages call the data."""
    broken: list[str]
    """Pictures that could not be read, so far."""


def open_rows(
    classifier: CostClassifier,
    data: str | None,
    *,
    rows: int,
    extra: Sequence[str] = (),
    folder: Path | None = None,
    files: Files = AS_FOUND,
) -> Opened:
    """Return the rows of ``data`` in pieces of at most ``rows``; columns that nobody asks for are not read.

    Parameters
    ----------
    classifier : CostClassifier
        Knows which columns, or which size of pictures, it needs.
    data : str, optional
        A table, a folder of pictures, an archive or the name of a data set; None where ``files`` has a query.
    rows : int
        How many to hold in memory.
    extra : sequence of str
        Columns beside the features: prices, identifiers.
    folder : path, optional
        Of the files of data sets with a name.
    files : Files
        How files are read.
    """
    from adacsl.datasets.builtin import is_builtin  # noqa: PLC0415  pandas
    from adacsl.datasets.errors import DataError  # noqa: PLC0415
    from adacsl.datasets.loading import load_task  # noqa: PLC0415
    from adacsl.datasets.readers.base import InMemory  # noqa: PLC0415
    from adacsl.datasets.readers.formats import check_words, is_table, open_table  # noqa: PLC0415

    check_words(data, files.how)  # type: ignore[arg-type]
    path = at_home(data or "")
    on_disk = data is not None and not is_builtin(data) and path.exists()
    if data is None or (on_disk and is_table(path)):
        return table_rows(classifier, open_table(None if data is None else path, **files.how), extra, rows)
    if takes_pictures(classifier) and extra:
        raise DataError("pictures have no columns: leave out --keep and prices over columns")
    if on_disk and path.is_dir():
        return _folder_rows(classifier, path, min(rows, PICTURES), files)
    many = n_classes(classifier) > 2
    known: dict[str, Any] = {"costs": classifier.costs_, "known_classes": class_names(classifier)} if many else {}
    task = load_task(data, folder=folder, on_error=files.on_error, **known)
    check_kind(classifier, data, pictures=task.images)
    if not task.images:
        return table_rows(classifier, InMemory(data, task.X), extra, rows)
    cut = _cut(task.X, [str(number) for number in range(len(task.y))], PICTURES)
    return Opened(cut, len(task.y), "pictures", _no_column, data, [])


def table_rows(classifier: CostClassifier, table: Table, extra: Sequence[str], rows: int) -> Opened:
    """Return the rows of a table that was opened; see :func:`open_rows`."""
    from adacsl.datasets.readers.base import Reading  # noqa: PLC0415  pandas

    check_kind(classifier, table.name, pictures=False)
    features = feature_columns(classifier, table.columns, table.name, extra)
    frames = table.pieces(table.wanted(list(dict.fromkeys((*features, *extra)))), rows)
    Reading(read_as=tuple(table.read_as)).warn(table.name, 0)
    return Opened(_pieces(classifier, frames, features, extra), table.n_rows, "rows", table.kind, table.name, [])


def _folder_rows(classifier: CostClassifier, path: Path, rows: int, files: Files) -> Opened:
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas
    from adacsl.datasets.images import SUFFIXES, image_files  # noqa: PLC0415  torch

    check_kind(classifier, path, pictures=True)
    found = image_files(path)
    if not found:
        raise DataError(f"{path} holds no pictures ({', '.join(sorted(SUFFIXES))})")
    names, broken = [file.relative_to(path).as_posix() for file in found], list[str]()
    pieces = _cut(found, names, rows)
    if files.on_error == "skip":
        pieces = _readable(classifier, pieces, broken)
    return Opened(pieces, len(names), "pictures", _no_column, str(path), broken)


def _pieces(
    classifier: CostClassifier, frames: Iterable[Any], features: list[str], extra: Sequence[str]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    for frame in frames:
        yield model_input(classifier, frame, features), {name: frame[name] for name in extra}


def _cut(pictures: Any, names: list[str], rows: int) -> Iterator[tuple[Any, dict[str, Any]]]:
    return ((pictures[i : i + rows], {"file": names[i : i + rows]}) for i in range(0, len(names), rows))


def _readable(classifier: CostClassifier, pieces: Iterator[Any], broken: list[str]) -> Iterator[Any]:
    """Yield the pictures that can be read, at least one; add the others to ``broken``."""
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas
    from adacsl.datasets.images import decode_files  # noqa: PLC0415  torch
    from adacsl.fitting.rows import picture_size  # noqa: PLC0415

    some = False
    for paths, others in pieces:
        gone: dict[int, str] = {}
        pixels = decode_files(paths, others["file"], image_size=picture_size(classifier), broken=gone)
        broken += [f"{others['file'][i]}: {why}" for i, why in gone.items()]
        if len(pixels):
            some = True
            yield pixels, {"file": [name for i, name in enumerate(others["file"]) if i not in gone]}
    if not some:
        raise DataError(f"none of {len(broken)} pictures can be read, the first: {broken[0]}")


def _no_column(name: str) -> Any:
    raise ValueError(f"pictures have no column {name!r}")


# what it says


def n_classes(classifier: CostClassifier) -> int:
    """Return how many classes a model decides among."""
    return int(classifier.costs_.n_classes)


def class_names(classifier: CostClassifier) -> list[str]:
    """Return the names of a model's classes, in the order of their numbers."""
    names = [label_name(label) for label in classifier.classes_]
    return names if n_classes(classifier) > 2 or classifier.positive_ == classifier.classes_[1] else names[::-1]


def labels_of(classifier: CostClassifier, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return class numbers as labels; of two classes, 1 (or True) is the positive one."""
    order = range(n_classes(classifier))
    if len(order) == 2 and classifier.positive_ == classifier.classes_[0]:
        order = order[::-1]
    labels: np.ndarray[Any, Any] = classifier.classes_[np.asarray(order)[numbers.astype(np.int64)]]
    return labels


def probability_columns(classifier: CostClassifier, probability: Any = None) -> dict[str, Any]:
    """Return probabilities as the columns of a table: of the positive class, or of each of more than two."""
    if n_classes(classifier) == 2:
        return {"probability": probability}
    names = class_names(classifier)
    return {f"probability_{name}": None if probability is None else probability[:, j] for j, name in enumerate(names)}


def _said_anew(prices: Mapping[str, Any], own: CostMatrix) -> dict[str, Any]:
    """Return prices but those the model has learned to predict."""
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas

    learned = {name: price for name, price in prices.items() if getattr(price, "learns", False)}
    for name, price in learned.items():
        if not set(price.hidden) <= set(own.hidden):
            raise DataError(
                f"the model has not learned to predict the price {price.price.text!r}: train it with --{name} "
                f"'model({price.price.text})'"
            )
    return {name: price for name, price in prices.items() if name not in learned}


def matrix_of(classifier: CostClassifier, said: Prices) -> CostMatrix:
    """Return the costs to decide by, in the order of the model's classes: its own, unless others are said.

    Some prices may depend on columns: ``of(table)`` makes them those of its rows.
    """
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas
    from adacsl.fitting.rows import missing_costs  # noqa: PLC0415

    own: CostMatrix = getattr(classifier, "said_costs_", None) or classifier.costs_
    matrix = said.known
    if (
        missing := missing_costs(classifier, matrix if isinstance(matrix, Mapping) else {})
        if said.costs is None
        else []
    ):
        options = " ".join(f"--{name} NAME" for name in missing)
        raise DataError(
            f"the model was fitted with {' and '.join(missing)} of each row: say which column holds it, {options}, or "
            f"one cost for all rows, --{missing[0]} {getattr(classifier.costs_, missing[0]):.4g} (the mean in training)"
        )
    if not said.given:
        return own
    if isinstance(matrix, Mapping) and n_classes(classifier) == 2:
        return merge_prices(_said_anew(matrix, own), own).checked()
    if not isinstance(matrix, CostMatrix):
        raise DataError(
            f"the model decides among {n_classes(classifier)} classes: other prices need a matrix, --costs matrix.csv"
        )
    aligned = matrix.aligned(class_names(classifier))
    if not aligned.square:
        raise DataError(f"{said.costs} has other actions than the model's classes; it decides among these")
    return aligned
