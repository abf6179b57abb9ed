"""Built-in data sets: some come with adacsl or scikit-learn, the others are files in a folder of the user.

Nothing is downloaded. The folder is the argument ``folder``, or else the one that the environment variable
``ADACSL_DATA`` names.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.errors import DataError, did_you_mean, listed
from adacsl.datasets.readers.formats import read_table
from adacsl.storage.atomic import at_home

with requires("train"):
    import pandas as pd

FOLDER_VARIABLE = "ADACSL_DATA"
HERE = Path(__file__).with_name("data")
"""The tables that come with adacsl, each with its licence."""

BALANCED = "balanced (inverse priors)"


@dataclass(frozen=True)
class DataSet:
    """Description of a built-in data set.

    Attributes
    ----------
    name : str
        The name.
    title : str
        What it is about.
    kind : {"table", "images"}
        Tables or images.
    rows : int
        The number of samples.
    classes : tuple of str
        The negative class, and the positive one, whose false negatives cost ``fn``; or more than two, in the order of
        their numbers.
    source : str
        Where it comes from.
    licence : str
        Its licence.
    file : str or None
        The file in the data folder; None where the data come with adacsl or with scikit-learn.
    sha256 : str or None
        Digest of the file.
    costs : str
        Description of the default costs.
    left_out : tuple of str
        Columns excluded from the features: target leakage, or identifiers.
    note : str
        A remark.
    positives : int or None
        Number of positive samples, with two classes.
    own_costs : mapping or None
        The default costs by name (fp, fn, tp, tn): a number, or the column of per-sample costs.
    matrix : tuple of tuples or None
        Default costs of more than two classes, rows predicted, in the order of ``classes``.
    labels : str
        The array of an archive that holds the labels.

    Examples
    --------
    >>> from adacsl.datasets import DATASETS
    >>> DATASETS["german-credit"].rows
    1000
    """

    name: str
    title: str
    kind: Literal["table", "images"]
    rows: int
    classes: tuple[str, ...]
    source: str
    licence: str
    file: str | None = None
    sha256: str | None = None
    costs: str = BALANCED
    left_out: tuple[str, ...] = ()
    note: str = ""
    positives: int | None = None
    own_costs: Mapping[str, float | str] | None = None
    matrix: tuple[tuple[float, ...], ...] | None = None
    labels: str = "labels"


def _registry() -> dict[str, DataSet]:
    result = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    entries = {name: {key: _frozen(value) for key, value in entry.items()} for name, entry in result.items()}
    return {name: DataSet(name, **entry) for name, entry in entries.items()}


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


DATASETS: dict[str, DataSet] = _registry()


def dataset(name: str) -> DataSet:
    """Return the description of a data set; underscores and hyphens in the name are equal."""
    known = DATASETS.get(name.lower().replace("_", "-"))
    if known is None:
        raise DataError(
            f"there is no built-in data set {name!r}{did_you_mean(name, DATASETS)} ({listed(DATASETS, 20)})"
        )
    return known


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder of the data files: the argument, else ``ADACSL_DATA``.

    Parameters
    ----------
    folder : path, optional
        The folder of the data files. Default: that of the environment variable ``ADACSL_DATA``.

    Returns
    -------
    pathlib.Path or None
        None where neither is given.

    Examples
    --------
    >>> from adacsl.datasets import data_folder
    >>> data_folder("data").name
    'data'
    """
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    return None if named is None else at_home(named)


def is_builtin(name: object) -> bool:
    """Return whether this is the name of a built-in data set."""
    return isinstance(name, str) and name.lower().replace("_", "-") in DATASETS


def list_datasets(folder: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Return a description of all data sets, with their places and whether they are present.

    Parameters
    ----------
    folder : path, optional
        The folder of the data files. Default: that of the environment variable ``ADACSL_DATA``.

    Returns
    -------
    list of dict
        One description per data set, see :func:`describe`.

    Examples
    --------
    >>> from adacsl.datasets import list_datasets
    >>> "german-credit" in [known["name"] for known in list_datasets()]
    True
    """
    return [describe(name, folder=folder) for name in DATASETS]


def describe(name: str, *, folder: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Return the description of a data set as plain values, for a table or JSON.

    Parameters
    ----------
    name : str
        One of :data:`adacsl.datasets.DATASETS`.
    folder : path, optional
        The folder of the data files. Default: that of the environment variable ``ADACSL_DATA``.

    Returns
    -------
    dict
        Title, number of samples, classes, costs, source, licence and place.

    Raises
    ------
    DataError
        Where there is no such data set.

    Examples
    --------
    >>> from adacsl.datasets import describe
    >>> describe("german-credit")["rows"]
    1000
    """
    known, here = dataset(name), data_folder(folder)
    path = here / known.file if here is not None and known.file is not None else None
    present = known.file is None or (path is not None and path.is_file())
    where = "always there" if known.file is None else str(path)
    apart = ("classes", "costs", "left_out", "own_costs", "matrix", "labels")
    pair = {"negative": known.classes[0], "positive": known.classes[1]}
    return {key: value for key, value in asdict(known).items() if key not in apart} | {
        **(pair if len(known.classes) == 2 else {"classes": list(known.classes)}),
        "costs": known.costs,
        "left_out": list(known.left_out),
        "present": present,
        "where": where if present else f"put {known.file} into {here or FOLDER_VARIABLE}: {known.source}",
    }


def read_builtin(
    known: DataSet, folder: str | os.PathLike[str] | None, *, image_size: int | tuple[int, int] | None, check: bool
) -> tuple[Any, Any, Any]:
    """Read a data set: its table, or its images with their labels and groups."""
    if known.file is None:
        return _embedded(known.name), None, None
    path = _checked_file(known, folder, check=check)
    if path.suffix != ".npz":
        return read_table(path), None, None
    from adacsl.datasets.images import read_archive  # noqa: PLC0415  it needs torch, which is slow to import

    return read_archive(path, image_size=image_size, labels=known.labels)


def own_costs(known: DataSet, frame: pd.DataFrame) -> CostMatrix | None:
    """Return the default costs of a data set."""
    costs = (known.own_costs or {}).items()
    named = {name: frame[cost].to_numpy(np.float64) if isinstance(cost, str) else cost for name, cost in costs}
    return CostMatrix(**named) if named else None


def own_matrix(known: DataSet) -> CostMatrix | Literal["balanced"]:
    """Return the default costs of a data set of more than two classes."""
    if known.matrix is None:
        return "balanced"
    return CostMatrix.from_array(known.matrix, rows="predicted", classes=known.classes)


def _embedded(name: str) -> pd.DataFrame:
    """Return a table that comes with adacsl, or else with scikit-learn."""
    if (own := HERE / f"{name.replace('-', '_')}.csv.gz").is_file():
        return read_table(own)
    with requires("sklearn"):
        from sklearn import datasets  # noqa: PLC0415

    frame: pd.DataFrame = getattr(datasets, f"load_{name.replace('-', '_')}")(as_frame=True).frame
    # scikit-learn calls benign 1
    return frame.assign(target=1 - frame["target"]) if name == "breast-cancer" else frame


def _checked_file(known: DataSet, folder: str | os.PathLike[str] | None, *, check: bool) -> Path:
    """Return the path of a data set's file, checked to be there and, on request, to be the published one."""
    here = data_folder(folder)
    if here is None:
        raise DataError(
            f"{known.name} is not part of adacsl: put {known.file} into a folder and name that folder, here or in the "
            f"environment variable {FOLDER_VARIABLE}; source: {known.source}"
        )
    path = here / (known.file or "")
    if not path.is_file():
        raise DataError(f"there is no {known.file} in {here}: put it there, or name another folder; {known.source}")
    if check and (digest := _digest(path)) != known.sha256:
        raise DataError(
            f"{path} is not the file adacsl knows as {known.name}: its SHA-256 starts with {digest[:12]}, expected "
            f"{(known.sha256 or '')[:12]}; get it again, or pass check=False to use it anyway"
        )
    return path


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
