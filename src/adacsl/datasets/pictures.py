"""Pictures from class folders and from .npz archives: JPEGs one after another, MedMNIST's arrays.

The compact credit-card table is such an archive too, and therefore read here.
"""

from __future__ import annotations

import io
import itertools
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.labels import label_name
from adacsl.datasets.errors import DataError, listed, one_line
from adacsl.datasets.images import SKIPPED_FOLDERS, Images, Size, as_images, decode_files
from adacsl.extras import requires

with requires("train"):
    import pandas as pd

JPEGS = {"jpeg", "offsets", "labels"}
MEDMNIST = {"train_images", "train_labels"}
CREDITCARD = {"V", "scale", "time", "amount_cents", "target"}


def read_folder(
    path: Path, *, image_size: Size, check: Callable[[list[str]], None], broken: list[str] | None = None
) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Read a folder with one subfolder of pictures for each class; the labels are the subfolders' names.

    What ``check`` has against these is said before thousands of pictures are decoded. A picture that cannot be read is
    an error, or left out and added to ``broken``.
    """
    check(class_folders(path))
    images = decoded(path, image_size=image_size, skip_broken=broken is not None)
    if broken is not None:
        broken += images.broken
    if images.labels is None:
        raise DataError(f"{path} holds pictures but no class folders: put them into one subfolder for each class")
    return images.pixels.transpose(0, 2, 3, 1), images.labels


def class_folders(path: Path) -> list[str]:
    """Return the names of the subfolders that may hold a class."""
    try:
        here = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
    except OSError as error:
        raise DataError(f"cannot read {path}: {one_line(error)}") from error
    return [name for name in here if not name.startswith(".") and name not in SKIPPED_FOLDERS]


def decoded(inputs: Any, *, image_size: Size, skip_broken: bool = False) -> Images:
    """Decode pictures; what is wrong with one is said in one line."""
    with _one_line():
        return as_images(inputs, image_size=image_size, skip_broken=skip_broken)


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        raise DataError(one_line(error)) from error


def read_archive(
    path: Path, *, image_size: Size = None, labels: str = "labels", broken: list[str] | None = None
) -> tuple[Any, NDArray[Any], NDArray[Any] | None]:
    """Read an .npz file of one of the three layouts: pictures or a table, labels, and groups if there are any.

    Pictures keep their size unless one is given; ``labels`` names the array of their labels in the first layout. A
    picture that cannot be read is an error, or left out and added to ``broken``.

    * ``jpeg`` (bytes of all files), ``offsets`` (N + 1), ``labels``, and optionally ``groups`` and ``names``;
    * ``train_images``, ``train_labels`` and the same for ``val`` and ``test``, which are put together; pictures that
      are the same byte for byte form a group, as published sets repeat some of them across their parts;
    * ``V``, ``scale``, ``time``, ``amount_cents``, ``target``: the credit-card table.
    """
    arrays = _load(path)
    if arrays.keys() >= JPEGS:
        return _jpegs(arrays, path, image_size, labels, broken)
    if arrays.keys() >= MEDMNIST:
        return _medmnist(arrays, path, image_size)
    if arrays.keys() >= CREDITCARD:
        frame = _creditcard(arrays)
        return frame, frame["target"].to_numpy(), None
    raise DataError(
        f"{path} holds {listed(arrays)}; expected {', '.join(sorted(JPEGS))} (pictures) or "
        f"{', '.join(sorted(MEDMNIST))} (MedMNIST)"
    )


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError) as error:
        raise DataError(f"{path} is no .npz archive of arrays, or a damaged one: {one_line(error)}") from error


def _jpegs(
    arrays: dict[str, NDArray[Any]], path: Path, image_size: Size, which: str, broken: list[str] | None
) -> tuple[Any, Any, Any]:
    offsets, labels = arrays["offsets"].astype(np.int64), arrays[which].reshape(-1)
    content, groups = arrays["jpeg"].tobytes(), arrays.get("groups")
    n = len(offsets) - 1
    lengths = {len(labels), n if groups is None else len(groups), n}
    if n < 1 or lengths != {n} or (np.diff(offsets) <= 0).any() or offsets[0] != 0 or offsets[-1] != len(content):
        raise DataError(
            f"the arrays of {path} do not belong together: {n} pictures by offsets, {len(labels)} labels, "
            f"{len(content)} bytes of JPEG; make the archive again"
        )
    called = [f" ({label_name(label)})" for label in arrays.get("names", [])]
    names = [f"picture {i + 1} of {path}{called[i] if i < len(called) else ''}" for i in range(n)]
    files = [io.BytesIO(content[start:end]) for start, end in itertools.pairwise(offsets)]
    gone: dict[int, str] | None = None if broken is None else {}
    with _one_line():
        pixels = decode_files(files, names, image_size=image_size, broken=gone)
    if gone and len(gone) == n:
        raise DataError(f"none of the {n} pictures of {path} can be read, the first: {gone[0]}")
    if broken is not None and gone:
        broken += [f"{names[i]}: {why}" for i, why in gone.items()]
        labels = np.delete(labels, list(gone))
        groups = None if groups is None else np.delete(groups, list(gone))
    return pixels, labels, groups


def _medmnist(arrays: dict[str, NDArray[Any]], path: Path, image_size: Size) -> tuple[Any, Any, Any]:
    parts = [part for part in ("train", "val", "test") if f"{part}_images" in arrays]
    absent = [f"{part}_labels" for part in parts if f"{part}_labels" not in arrays]
    if absent:
        raise DataError(f"{path} lacks {listed(absent)}")
    images = np.concatenate([arrays[f"{part}_images"] for part in parts])
    labels = np.concatenate([arrays[f"{part}_labels"] for part in parts])
    if labels.ndim == 2 and labels.shape[1] != 1:
        raise DataError(f"{path} has {labels.shape[1]} labels per picture: one is needed")
    if len(labels) != len(images):
        raise DataError(f"{path} has {len(images)} pictures but {len(labels)} labels")
    rows = np.ascontiguousarray(images).reshape(len(images), -1)
    same = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).reshape(-1)
    groups = np.unique(same, return_inverse=True)[1].astype(np.int64)
    pixels = decoded(images, image_size=image_size).pixels.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(pixels), labels.reshape(-1), groups


def _creditcard(arrays: dict[str, NDArray[Any]]) -> pd.DataFrame:
    values = arrays["V"] * float(arrays["scale"])
    frame = pd.DataFrame(values, columns=[f"V{i + 1}" for i in range(values.shape[1])])
    frame["amount"], frame["time"] = arrays["amount_cents"] / 100.0, arrays["time"]
    frame["target"] = arrays["target"].astype(np.int64)
    return frame
