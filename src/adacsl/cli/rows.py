"""Rows to predict, piece by piece: tables larger than memory, folders of pictures, data sets with a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adacsl.cli.models import check_kind, feature_columns, model_input, takes_pictures

if TYPE_CHECKING:
    from adacsl.estimators.predicting import CostClassifier

PICTURES = 512
"""How many pictures are held in memory at a time."""


def open_rows(
    classifier: CostClassifier, data: str, *, rows: int, extra: Sequence[str] = (), folder: Path | None = None
) -> tuple[Iterator[Any], int | None, str]:
    """Return the rows of ``data`` in order, in pieces of at most ``rows``; how many there are; and what one is called.

    A piece is what the classifier takes, with the columns that are asked for besides. Columns that nobody asks for are
    not read.

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
    from adacsl.datasets.builtin import is_builtin  # noqa: PLC0415  pandas
    from adacsl.datasets.errors import DataError, check_column  # noqa: PLC0415
    from adacsl.datasets.reading import load_task  # noqa: PLC0415
    from adacsl.datasets.tables import count_rows, is_table, stream_table, table_columns  # noqa: PLC0415

    if rows < 1:
        raise ValueError(f"--batch-rows must be at least 1, got {rows}")
    path = Path(data).expanduser()
    on_disk = not is_builtin(data) and path.exists()
    if on_disk and is_table(path):
        check_kind(classifier, data, pictures=False)
        features = feature_columns(classifier, table_columns(path), data, extra)
        frames = stream_table(path, columns=list(dict.fromkeys((*features, *extra))), rows=rows)
        return _pieces(classifier, frames, features, extra), count_rows(path), "rows"
    if takes_pictures(classifier) and extra:
        raise DataError("pictures have no columns: leave out --keep, --fn-column and --fp-column")
    if on_disk and path.is_dir():
        check_kind(classifier, data, pictures=True)
        return _picture_files(path, min(rows, PICTURES))
    task = load_task(data, folder=folder)
    check_kind(classifier, data, pictures=task.images)
    total = len(task.y)
    if task.images:
        return _cut_pictures(task.X), total, "pictures"
    for name in extra:
        check_column(name, task.X.columns, data)
    features = feature_columns(classifier, list(task.X.columns), data, extra)
    cut = (task.X.iloc[i : i + rows] for i in range(0, total, rows))
    return _pieces(classifier, cut, features, extra), total, "rows"


def _pieces(
    classifier: CostClassifier, frames: Iterable[Any], features: list[str], extra: Sequence[str]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    for frame in frames:
        yield model_input(classifier, frame, features), {name: frame[name] for name in extra}


def _cut_pictures(pixels: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    for start in range(0, len(pixels), PICTURES):
        part = pixels[start : start + PICTURES]
        yield part, {"file": [str(start + i) for i in range(len(part))]}


def _picture_files(folder: Path, rows: int) -> tuple[Iterator[Any], int, str]:
    from adacsl.datasets.errors import DataError  # noqa: PLC0415
    from adacsl.datasets.images import SUFFIXES, image_files  # noqa: PLC0415  torch

    files = image_files(folder)
    if not files:
        raise DataError(f"{folder} holds no pictures ({', '.join(sorted(SUFFIXES))})")
    chunks = (files[i : i + rows] for i in range(0, len(files), rows))
    named = ((chunk, {"file": [path.relative_to(folder).as_posix() for path in chunk]}) for chunk in chunks)
    return named, len(files), "pictures"
