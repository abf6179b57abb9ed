"""Loads tables, image folders and built-in data sets by path or name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from adacsl.base.extras import requires
from adacsl.datasets.builtin import DATASETS, dataset, is_builtin, own_costs, own_matrix, read_builtin
from adacsl.datasets.costs import Costs, check_costs, cost_specification, kept_specification, resolve
from adacsl.datasets.errors import DataError, did_you_mean, listed
from adacsl.datasets.labels import check_classes, class_labels, label_names, missing_labels
from adacsl.datasets.readers.base import OnError, Reading, Table, check_on_error
from adacsl.datasets.readers.formats import SUFFIXES, How, check_words, is_table, open_table, read_opened
from adacsl.datasets.task import Task, table_task, target_column
from adacsl.storage.atomic import at_home

with requires("train"):
    import pandas as pd


Size = int | tuple[int, int] | None

FOLDER_SIZE = 64
"""The default side of images from folders, which come in many sizes."""

COLUMNS = "columns of labels, groups, times, baselines and segments, or to drop,"


def load_task(
    data: str | os.PathLike[str] | None = None,
    *,
    target: str | None = None,
    pos_label: object = None,
    costs: Costs = None,
    group_column: str | None = None,
    time_column: str | None = None,
    baseline_column: str | None = None,
    segments: Sequence[str] = (),
    drop: Sequence[str] = (),
    image_size: Size = None,
    folder: str | os.PathLike[str] | None = None,
    check: bool = True,
    known_classes: Sequence[str] | None = None,
    on_error: OnError = "skip",
    **how: Unpack[How],
) -> Task:
    """Return a table, images or a built-in data set as a task.

    More than two classes need ``costs`` of all of them, or "balanced".

    Parameters
    ----------
    data : str or path, optional
        A table (``.csv``, ``.tsv``, ``.jsonl``, ``.ndjson``, also ``.gz``; ``.parquet``, ``.feather``, ``.arrow``,
        ``.xlsx`` and other workbooks; or a folder of Parquet files, see :func:`~adacsl.datasets.read_table`); a folder
        of images with one subfolder for each class; an ``.npz`` archive of images; or the name of a built-in data set.
        A name comes before a file of the same name: write ``./adult`` for that. None with ``sql``.
    target : str, optional
        The column of the labels; not needed if it is called ``target``.
    pos_label : label, optional
        The label (class folder) whose false negatives cost ``fn``. Not needed where labels are 0 and 1, -1 and 1, or
        false and true. Text matches numbers: "1" means 1, 1.0 and True. Not for more than two classes.
    costs : CostMatrix, mapping or "balanced", optional
        A matrix (of K classes: with their names, or in sorted order), or costs by name, each a number, a range ``(5,
        20)``, a column or an expression over columns (``{"fp": 1, "fn": "0.8 * amount + 12"}``). Columns that costs
        depend on stay features unless they are in ``drop``. Default: the built-in data set's own costs, or else
        "balanced", the inverse priors.
    group_column : str, optional
        Samples with equal values stay in one fold; excluded from the features.
    time_column : str, optional
        Observation times (dates, ISO text such as 2024-03-31, or numbers): the past trains, the latest samples are
        tested on; excluded from the features.
    baseline_column : str, optional
        Current decisions: labels, 0 and 1, or scores from 0 to 1 (threshold 0.5); excluded from the features.
    segments : sequence of str, default ()
        Columns by which results are also shown, such as regions; they stay features unless they are in ``drop``.
    drop : sequence of str, default ()
        Columns to exclude from the features: target leakage, identifiers.
    image_size : int or (height, width), optional
        Resize images. Default: those of a folder to 64 x 64, those of an archive not at all.
    folder : path, optional
        Where the files of built-in data sets are. Default: the folder that ``ADACSL_DATA`` names.
    check : bool, default True
        Compare files of built-in data sets with their published SHA-256.
    known_classes : sequence of str, optional
        All possible classes in their order, as of a model; the data may lack some.
    on_error : {"skip", "stop"}, default "skip"
        Rows without a label and images that cannot be read are left out with a :class:`~adacsl.datasets.DataWarning`
        and counted in ``reading`` of the task, or are an error.
    **how : Any
        How a table is read: further parameters of :func:`~adacsl.datasets.read_table`.

    Returns
    -------
    Task
        The data with labels and costs.

    Raises
    ------
    DataError
        One line with what was expected, what came and what to do.

    Examples
    --------
    >>> from adacsl.datasets import load_task
    >>> task = load_task("breast-cancer")
    >>> task.X.shape, int(task.y.sum()), task.classes, task.costs
    ((569, 30), 212, ('benign', 'malignant'), CostMatrix(fp=1, fn=8))
    """
    check_on_error(on_error)
    check_words(data, how)
    columns = (target, group_column, time_column, baseline_column, *segments, *drop)
    table_only = any(columns)
    known = dataset(str(data)) if is_builtin(data) else None
    if known is None:
        result = _read(data, how, image_size, costs, known_classes, on_error, table_only=table_only)
    else:
        if target is not None or pos_label is not None:
            raise DataError(f"{data} has its own labels: omit target and pos_label")
        if table_only and known.kind == "images":
            raise DataError(f"{known.name} holds images: {COLUMNS} are for tables")
        target, drop = "target", (*known.left_out, *drop)
        pos_label, costs = (1, costs) if len(known.classes) == 2 else (None, costs or own_matrix(known))
        result = _Found(*read_builtin(known, folder, image_size=image_size, check=check), known.name, known.name)
    called, (content, labels, groups), reading = result.called, *_labelled(result, target, on_error)
    source, own_classes = (called, None) if known is None else (known.source, known.classes)
    if isinstance(content, pd.DataFrame):
        with _counting(reading.unlabelled):
            task = table_task(  # errors name the file
                content, name=called, target=target, pos_label=pos_label, costs=costs, group_column=group_column,
                time_column=time_column, baseline_column=baseline_column, drop=drop, classes=own_classes,
                source=source, segments=segments, known_classes=known_classes,
                own=None if known is None else own_costs(known, content),
            )  # fmt: skip
    else:
        y, classes = class_labels(labels, pos_label, costs=costs, classes=own_classes, known=known_classes, what=called)
        spec = cost_specification(costs, y, classes=classes)
        resolved = resolve(spec, y, what=called)
        strange = check_costs(spec, y, given=costs is not None)
        task = Task(
            called, content, y, resolved, groups, classes, source, cost_spec=kept_specification(spec), findings=strange
        )
    reading.warn(called, len(task.y))
    return replace(task, name=result.name, reading=reading)


class _Found(NamedTuple):
    """A table, or images with labels and perhaps groups; its name in messages, and a short name."""

    content: Any
    labels: Any
    groups: Any
    called: str
    name: str
    broken: tuple[str, ...] = ()
    read_as: tuple[str, ...] = ()


def _opened(data: str | os.PathLike[str] | None, how: How) -> tuple[Table | None, str, str]:
    """Return an opened table (None: no table), the name of the data in messages, and a short name."""
    if data is None:
        table, db = open_table(None, **how), how.get("db")
        return table, table.name, "query" if db is None else _name(Path(db), Path(db).suffix)
    path = _existing(data)
    return open_table(path, **how) if is_table(path) else None, str(path), _name(path)


def _labelled(result: _Found, target: str | None, on_error: OnError) -> tuple[tuple[Any, Any, Any], Reading]:
    """Return the labelled samples and a summary of those left out; all stay where none has a label."""
    content, labels, groups, name, *_ = result
    frame = isinstance(content, pd.DataFrame)
    missing = missing_labels(content[target_column(content.columns, target, name)] if frame else pd.Series(labels))
    gone = 0 if missing.all() or on_error == "stop" else int(missing.sum())
    if gone:
        kept = np.flatnonzero(~missing.to_numpy())
        content = content.iloc[kept] if frame else content[kept]
        labels, groups = (None if rows is None else np.asarray(rows)[kept] for rows in (labels, groups))
    return (content, labels, groups), Reading(gone, result.broken, result.read_as)


@contextmanager
def _counting(gone: int) -> Iterator[None]:
    """State in errors how rows are counted, where some have been left out."""
    try:
        yield
    except DataError as error:
        if not gone or not re.search(r"\brow \d", str(error)):
            raise
        raise DataError(f"{error} (rows are counted without the {gone} that have no label)") from error


def load_dataset(name: str, **options: Any) -> Task:
    """Return a built-in data set as a task.

    Parameters
    ----------
    name : str
        One of :data:`adacsl.datasets.DATASETS`.
    **options : Any
        Parameters of :func:`load_task`.

    Returns
    -------
    Task
        The data with their default costs.

    Raises
    ------
    DataError
        Where there is no such data set, or its file is missing.

    See Also
    --------
    load_task : Also reads files.

    Examples
    --------
    >>> from adacsl.datasets import load_dataset
    >>> load_dataset("german-credit").classes
    ('good', 'bad')
    """
    return load_task(dataset(name).name, **options)


def data_classes(
    data: str | os.PathLike[str] | None = None, *, target: str | None = None, **how: Unpack[How]
) -> tuple[str, ...]:
    """Return the names of the classes of a table, a folder, an archive or a built-in data set, in sorted order."""
    check_words(data, how)
    if is_builtin(data):
        return dataset(str(data)).classes
    table, called, _ = _opened(data, how)
    if table is not None:
        column = target_column(table.columns, target, called)
        values = read_opened(table, [column])[column]
        missing = missing_labels(values)
        return label_names(values if missing.all() else values[~missing], what=f"column {column!r} of {called}")
    path = Path(called)
    from adacsl.datasets.images import class_folders, read_archive  # noqa: PLC0415  torch is slow to import

    if target is not None:
        raise DataError(f"{path} holds images: target is for tables")
    labels = class_folders(path) if path.is_dir() else read_archive(path)[1]
    if len(labels) == 0:
        raise DataError(f"{path} has no class folders: put the images into one subfolder for each class")
    return label_names(labels, what=str(path))


def _read(
    data: str | os.PathLike[str] | None, how: How, image_size: Size, costs: Costs, known: Any, on_error: OnError, *,
    table_only: bool,
) -> _Found:  # fmt: skip
    """Read a query, a table, or a folder or an archive (which may hold a table)."""
    table, called, name = _opened(data, how)
    if table is not None:
        frame = read_opened(table)
        return _Found(frame, None, None, called, name, read_as=tuple(table.read_as))
    from adacsl.datasets.images import read_archive, read_folder  # noqa: PLC0415  torch is slow to import

    path, broken = Path(called), list[str]() if on_error == "skip" else None
    archive: Any = None if path.is_dir() else read_archive(path, image_size=image_size, broken=broken)
    if table_only and (archive is None or not isinstance(archive[0], pd.DataFrame)):
        raise DataError(f"{path} holds images: {COLUMNS} are for tables")

    def fits(names: list[str]) -> None:
        if known is None and len(names) > 1:
            check_classes(names, costs, what=str(path), kind="class folders")

    if archive is None:
        size = FOLDER_SIZE if image_size is None else image_size
        archive = *read_folder(path, image_size=size, check=fits, broken=broken), None
    content, labels, groups = archive
    return _Found(content, labels, groups, called, name, tuple(broken or ()))


def _existing(data: str | os.PathLike[str]) -> Path:
    path = at_home(data)
    if not path.exists():
        near = did_you_mean(data, DATASETS) or f" ({listed(DATASETS, 20)})"
        raise DataError(f"there is no file or folder {path} here, and no built-in data set of that name{near}")
    if path.is_file() and not is_table(path) and path.suffix.lower() != ".npz":
        raise DataError(
            f"cannot tell what {path} is: expected a table ({', '.join(SUFFIXES)}), an .npz archive, or a folder with "
            "one subfolder of images for each class"
        )
    return path


def _name(path: Path, *suffixes: str) -> str:
    """Return a short name, fit for a file name."""
    name = path.resolve().name
    for suffix in (*SUFFIXES, ".npz", *suffixes):
        name = name.removesuffix(suffix)
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data"
