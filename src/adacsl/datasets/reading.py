"""One door for all data: a table, a folder of pictures, an archive or a name becomes a task."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from adacsl.datasets.builtin import DATASETS, dataset, is_builtin, own_costs, own_matrix, read_builtin
from adacsl.datasets.errors import DataError, did_you_mean, listed
from adacsl.datasets.labels import check_classes, class_labels, label_names
from adacsl.datasets.prices import Costs, said_costs, settle, worth_saying
from adacsl.datasets.tables import SUFFIXES, How, check_words, is_table, open_table, read_opened
from adacsl.datasets.task import Task, table_task, target_column
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

FOLDER_SIZE = 64
"""The side of pictures from folders, unless another is named: photographs come in many sizes."""

COLUMNS = "fn_column, fp_column, group_column, time_column, baseline_column and drop"


def load_task(
    data: str | os.PathLike[str],
    *,
    target: str | None = None,
    positive: object = None,
    costs: Costs = None,
    fn_column: str | None = None,
    fp_column: str | None = None,
    group_column: str | None = None,
    time_column: str | None = None,
    baseline_column: str | None = None,
    drop: Sequence[str] = (),
    image_size: int | tuple[int, int] | None = None,
    folder: str | os.PathLike[str] | None = None,
    check: bool = True,
    known_classes: Sequence[str] | None = None,
) -> Task:
    """Read a table, pictures or a built-in data set as a task.

    More than two classes need ``costs`` of all of them, or "balanced".

    Parameters
    ----------
    data : str or path
        * a table: ``.csv``, ``.tsv`` (also ``.gz``), ``.parquet``, or a folder of Parquet parts;
        * a folder of pictures with one subfolder for each class;
        * an ``.npz`` archive of pictures (:func:`~adacsl.datasets.pictures.read_archive`);
        * the name of a built-in data set. A name comes before a file of the same name: write ``./adult`` for that.
    target : str, optional
        The column of the labels; may be left out where it is called ``target``.
    positive : optional
        The label (class folder) whose misses cost ``fn``. May be left out where labels are 0 and 1, -1 and 1, or false
        and true. Text matches numbers: "1" means 1, 1.0 and True. Not for more than two classes.
    costs : CostMatrix, mapping, "balanced" or None
        What errors cost: a matrix (of K classes: with their names, or in sorted order), or prices by name, each a
        number, a range ``(5, 20)``, a column or an expression over columns (``{"fp": 1, "fn": "0.8 * amount + 12"}``).
        Columns that prices need stay features unless they are in ``drop``. None: the built-in data set's own costs, or
        else "balanced", the inverse priors.
    fn_column, fp_column : str, optional
        Columns with the price of each row's miss and false alarm: short for a price that is just a column.
    group_column : str, optional
        Rows with equal values are never torn apart by a split; no feature.
    time_column : str, optional
        When each row was (dates, ISO text such as 2024-03-31, or numbers): the past trains, the latest rows are tested
        on; no feature.
    baseline_column : str, optional
        What is done today about each row: labels, 0 and 1, or scores from 0 to 1 (decided at 0.5); no feature.
    drop : sequence of str
        Columns that are no features: they give the answer away, or only name the row.
    image_size : int or (height, width), optional
        Resize pictures; by default those of a folder to 64 x 64, those of an archive not at all.
    folder : path, optional
        Where the files of built-in data sets are; by default the folder that ``ADACSL_DATA`` names.
    check : bool
        Compare files of built-in data sets with their published SHA-256.
    known_classes : sequence of str, optional
        More than two classes there may be, in their order, as a model knows them: the data may lack some.

    Raises
    ------
    DataError
        One line that says what was expected, what came and what to do.

    Examples
    --------
    >>> task = load_task("breast-cancer")
    >>> task.X.shape, int(task.y.sum()), task.classes, task.costs
    ((569, 30), 212, ('benign', 'malignant'), CostMatrix(fp=1, fn=8))
    """
    table_only = bool(target or fn_column or fp_column or group_column or time_column or baseline_column or drop)
    known = dataset(str(data)) if is_builtin(data) else None
    if known is None:
        path = _existing(data)
        called, name = str(path), _name(path)
        content, labels, groups = _read(path, image_size, costs, known_classes, table_only=table_only)
    else:
        if target is not None or positive is not None:
            raise DataError(f"{data} brings its own labels: leave out target and positive")
        if table_only and known.kind == "images":
            raise DataError(f"{known.name} holds pictures: {COLUMNS} are for tables")
        called, name, target, drop = known.name, known.name, "target", (*known.left_out, *drop)
        positive, costs = (1, costs) if len(known.classes) == 2 else (None, costs or own_matrix(known))
        content, labels, groups = read_builtin(known, folder, image_size=image_size, check=check)
    source, own_classes = (called, None) if known is None else (known.source, known.classes)
    if isinstance(content, pd.DataFrame):
        task = table_task(  # errors name the file
            content, name=called, target=target, positive=positive, costs=costs, fn_column=fn_column,
            fp_column=fp_column, group_column=group_column, time_column=time_column, baseline_column=baseline_column,
            drop=drop, classes=own_classes, source=source, known_classes=known_classes,
            own=None if known is None else own_costs(known, content),
        )  # fmt: skip
        return replace(task, name=name)
    y, classes = class_labels(labels, positive, costs=costs, classes=own_classes, known=known_classes, what=called)
    said = said_costs(costs, y, classes=classes)
    settled = settle(said, y, what=called)
    return Task(name, content, y, settled, groups, classes, source, said=worth_saying(said))


def load_dataset(name: str, **options: Any) -> Task:
    """Load a data set by name, one of :data:`DATASETS`; the options are those of :func:`load_task`."""
    return load_task(dataset(name).name, **options)


def data_classes(
    data: str | os.PathLike[str], *, target: str | None = None, folder: str | os.PathLike[str] | None = None
) -> tuple[str, ...]:
    """Return the names of the classes of a table, a folder, an archive or a built-in data set, in sorted order."""
    if is_builtin(data):
        return dataset(str(data)).classes
    path = _existing(data)
    if is_table(path):
        column = target_column(table_columns(path), target, str(path))
        return label_names(read_table(path, columns=[column])[column], what=f"column {column!r} of {path}")
    from adacsl.datasets.pictures import class_folders, read_archive  # noqa: PLC0415  torch is slow to import

    if target is not None:
        raise DataError(f"{path} holds pictures: target is for tables")
    labels = class_folders(path) if path.is_dir() else read_archive(path)[1]
    if len(labels) == 0:
        raise DataError(f"{path} has no class folders: put the pictures into one subfolder for each class")
    return label_names(labels, what=str(path))


def _read(
    path: Path, image_size: int | tuple[int, int] | None, costs: Costs, known: Any, *, table_only: bool
) -> tuple[Any, Any, Any]:
    """Read a table, or a folder or an archive (which may hold a table): pictures or rows, labels and groups."""
    if is_table(path):
        return read_table(path), None, None
    from adacsl.datasets.pictures import read_archive, read_folder  # noqa: PLC0415  torch is slow to import

    archive = None if path.is_dir() else read_archive(path, image_size=image_size)
    if table_only and (archive is None or not isinstance(archive[0], pd.DataFrame)):
        raise DataError(f"{path} holds pictures: target, {COLUMNS} are for tables")
    if archive is not None:
        return archive

    def fits(names: list[str]) -> None:
        if known is None and len(names) > 1:
            check_classes(names, costs, what=str(path), kind="class folders")

    return *read_folder(path, image_size=FOLDER_SIZE if image_size is None else image_size, check=fits), None


def _existing(data: str | os.PathLike[str]) -> Path:
    path = Path(data).expanduser()
    if not path.exists():
        near = did_you_mean(data, DATASETS) or f" ({listed(DATASETS, 20)})"
        raise DataError(f"there is no file or folder {path} here, and no built-in data set of that name{near}")
    if path.is_file() and not is_table(path) and path.suffix.lower() != ".npz":
        raise DataError(
            f"cannot tell what {path} is: expected a table ({', '.join(SUFFIXES)}), an .npz archive, or a folder with "
            "one subfolder of pictures for each class"
        )
    return path


def _name(path: Path) -> str:
    """Return a short name, fit for a file name."""
    name = path.resolve().name
    for suffix in (*SUFFIXES, ".npz"):
        name = name.removesuffix(suffix)
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data"
