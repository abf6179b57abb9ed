"""Rows to predict, piece by piece: tables larger than memory, folders of pictures, data sets with a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from adacsl.cli.models import takes_pictures

if TYPE_CHECKING:
    from adacsl.estimators.binary import CostClassifier

PICTURES = 512
"""How many pictures are held in memory at a time."""


class Piece(NamedTuple):
    """Some rows: what the classifier takes, and the columns that are asked for besides."""

    X: Any
    others: dict[str, Any]

    def __len__(self) -> int:
        return len(self.X)


class Rows(NamedTuple):
    """All rows in order, and how many there are where that is known."""

    pieces: Iterator[Piece]
    total: int | None
    unit: str


def open_rows(
    classifier: CostClassifier, data: str, *, rows: int, extra: Sequence[str] = (), folder: Path | None = None
) -> Rows:
    """Return the rows of ``data`` in pieces of at most ``rows``; columns that nobody asks for are not read.

    Parameters
    ----------
    classifier : CostClassifier
        Knows which columns, or which size of pictures, it needs.
    data : str
        A table, a folder of pictures, an archive or the name of a data set.
    rows : int
        How many to hold in memory.
    extra : sequence of str
        Columns beside the features: prices, identifiers.
    folder : path, optional
        Of the files of data sets with a name.
    """
    from adacsl.datasets.builtin import DATASETS  # noqa: PLC0415  pandas
    from adacsl.datasets.errors import DataError  # noqa: PLC0415
    from adacsl.datasets.tables import is_table  # noqa: PLC0415

    if rows < 1:
        raise ValueError(f"--batch-rows must be at least 1, got {rows}")
    path = Path(data).expanduser()
    named = data.lower().replace("_", "-") in DATASETS
    if not named and path.exists() and is_table(path):
        if takes_pictures(classifier):
            raise DataError(f"the model was trained on pictures, but {path} is a table: give a folder of pictures")
        return _stream(classifier, path, rows, extra)
    if takes_pictures(classifier) and extra:
        raise DataError("pictures have no columns: leave out --keep, --fn-column and --fp-column")
    if not named and path.is_dir():
        if not takes_pictures(classifier):
            raise DataError(f"the model was trained on a table, but {path} is a folder: give a CSV or Parquet file")
        return _pictures(path, min(rows, PICTURES))
    return _held(classifier, data, rows, extra, folder)


def feature_columns(classifier: CostClassifier, known: Sequence[str], data: object) -> list[str] | None:
    """Return the columns the model was trained on, all of which are there; None where it knows no names."""
    from adacsl.datasets.errors import DataError, listed  # noqa: PLC0415

    names = getattr(classifier, "feature_names_in_", None)
    if names is None:
        return None
    missing = [name for name in names if name not in known]
    if missing:
        raise DataError(
            f"{data} lacks {len(missing)} of the {len(names)} columns that the model was trained on "
            f"({listed(missing)}); it has {listed(known)}"
        )
    return [str(name) for name in names]


def _unnamed(classifier: CostClassifier, known: Sequence[str], extra: Sequence[str], data: object) -> list[str]:
    """Return the columns for a model that was trained on an array: all others, if they are as many."""
    from adacsl.datasets.errors import DataError  # noqa: PLC0415

    names = [name for name in known if name not in extra]
    if len(names) != classifier.n_features_in_:
        raise DataError(
            f"the model was trained on {classifier.n_features_in_} columns without names, but {data} has {len(names)}: "
            "give exactly these, in their order"
        )
    return names


def _stream(classifier: CostClassifier, path: Path, rows: int, extra: Sequence[str]) -> Rows:
    from adacsl.datasets.tables import count_rows, stream_table, table_columns  # noqa: PLC0415

    known = table_columns(path)
    named = feature_columns(classifier, known, path)
    features = _unnamed(classifier, known, extra, path) if named is None else named
    frames = stream_table(path, columns=list(dict.fromkeys((*features, *extra))), rows=rows)
    return Rows((_piece(frame, features, extra, named=named is not None) for frame in frames), count_rows(path), "rows")


def _piece(frame: Any, features: list[str], extra: Sequence[str], *, named: bool) -> Piece:
    table = frame[features]
    return Piece(table if named else table.to_numpy(), {name: frame[name] for name in extra})


def _held(classifier: CostClassifier, data: str, rows: int, extra: Sequence[str], folder: Path | None) -> Rows:
    """Cut a data set that is read as a whole."""
    from adacsl.datasets.errors import DataError, listed  # noqa: PLC0415
    from adacsl.datasets.reading import load_task  # noqa: PLC0415

    task = load_task(data, folder=folder)
    if task.images != takes_pictures(classifier):
        kinds = ("pictures", "a table") if takes_pictures(classifier) else ("a table", "pictures")
        raise DataError(f"the model was trained on {kinds[0]}, but {data} holds {kinds[1]}")
    total = len(task.y)
    if task.images:
        return Rows(_cut_pictures(task.X), total, "pictures")
    known = list(task.X.columns)
    absent = [name for name in extra if name not in known]
    if absent:
        raise DataError(f"{data} has no column {absent[0]!r} (it has {listed(known)})")
    named = feature_columns(classifier, known, data)
    features = _unnamed(classifier, known, extra, data) if named is None else named
    pieces = (
        _piece(task.X.iloc[i : i + rows], features, extra, named=named is not None) for i in range(0, total, rows)
    )
    return Rows(pieces, total, "rows")


def _cut_pictures(pixels: Any) -> Iterator[Piece]:
    for start in range(0, len(pixels), PICTURES):
        part = pixels[start : start + PICTURES]
        yield Piece(part, {"file": [str(start + i) for i in range(len(part))]})


def _pictures(folder: Path, rows: int) -> Rows:
    from adacsl.datasets.errors import DataError  # noqa: PLC0415
    from adacsl.datasets.images import SKIPPED_FOLDERS, SUFFIXES  # noqa: PLC0415  torch

    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") or part in SKIPPED_FOLDERS for part in path.relative_to(folder).parts)
    )
    if not files:
        raise DataError(f"{folder} holds no pictures ({', '.join(sorted(SUFFIXES))})")
    chunks = (files[i : i + rows] for i in range(0, len(files), rows))
    return Rows(
        (Piece(chunk, {"file": [path.relative_to(folder).as_posix() for path in chunk]}) for chunk in chunks),
        len(files),
        "pictures",
    )


__all__ = ["Piece", "Rows", "feature_columns", "open_rows"]
