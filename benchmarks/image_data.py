"""Image data for the benchmarks, from the folder named by ADACSL_DATA or from ../shared/data beside the project."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ImageData(NamedTuple):
    """Images with their labels, and the groups that are not split across folds."""

    images: NDArray[np.uint8]  # N x H x W x 3
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]


def data_folder() -> Path:
    """Return the folder of the data sets, or end with a line that says how to name it."""
    named = os.environ.get("ADACSL_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        raise SystemExit(f"there is no data folder {folder}: set ADACSL_DATA to the folder that holds ham10000_64.npz")
    return folder


def load_images(path: Path, limit: int | None = None, *, multi: bool = False) -> ImageData:
    """Decode an image set stored as one run of JPEG bytes; ``limit`` takes that many at random, the same each time.

    ``multi`` takes the original classes instead of two.
    """
    with np.load(path) as file:
        content, offsets = file["jpeg"].tobytes(), file["offsets"].astype(np.int64)
        labels = file["labels_multi" if multi else "labels"].astype(np.int64)
        groups = np.unique(file["groups"], return_inverse=True)[1].astype(np.int64)
    rows = np.arange(labels.size) if limit is None else np.random.default_rng(0).permutation(labels.size)[:limit]
    images = np.stack([_decode(content[offsets[i] : offsets[i + 1]]) for i in rows])
    return ImageData(images, labels[rows], groups[rows])


def _decode(jpeg: bytes) -> NDArray[np.uint8]:
    from PIL import Image  # noqa: PLC0415  benchmarks of tables, some in other environments, do without it

    return np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))


def cut(units: NDArray[np.int64], shares: list[float], seed: int) -> list[NDArray[np.int64]]:
    """Divide row numbers at random in these shares; rows of one unit stay together.

    Give ``np.arange(n)`` for a split by image, the groups for a split by group.
    """
    distinct = np.random.default_rng(seed).permutation(np.unique(units))
    place = np.empty(int(units.max()) + 1, dtype=np.int64)
    place[distinct] = np.arange(distinct.size)
    order = np.argsort(place[units], kind="stable")
    wanted = np.rint(np.cumsum(shares)[:-1] * units.size).astype(np.int64)
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(place[units][order])), [units.size]])
    bounds = starts[np.abs(starts[:, None] - wanted[None, :]).argmin(axis=0)]
    return [np.sort(part) for part in np.split(order, bounds)]
