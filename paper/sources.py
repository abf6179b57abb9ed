"""The paper's data sets: where they may lie, and a few made-up images where none is at hand."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adacsl import CostMatrix, Task
from adacsl.datasets import DATASETS, DataError, data_folder, load_dataset
from paper.folders import PAPER

WEIGHTS = "resnet18_imagenet_fp16.safetensors"
"""The file of the pretrained backbone, looked for in the data folder."""


@dataclass(frozen=True)
class Source:
    """One of the paper's data sets, and where it may lie in a data folder.

    Parameters
    ----------
    name : str
        As in the paper.
    known : str
        Its key in :data:`paper.folders.PAPER`.
    archive : str, optional
        The built-in data set that holds it in one file.
    folders : tuple of str
        Names of folders with the distributed files.
    upright : bool
        Whether images have an up and a down.
    image_size : int, optional
        Pixels on a side that the distributed images are read at; default: what their reader takes.
    patients : bool
        Whether the groups are patients, so that one can be left out at a time.
    aliases : tuple of str
        Other names for the command line.
    """

    name: str
    known: str
    archive: str | None
    folders: tuple[str, ...]
    upright: bool
    aliases: tuple[str, ...] = ()
    image_size: int | None = None
    patients: bool = False

    def place(self, folder: Path | None) -> Path | None:
        """Return the file or folder that holds the data, if there is one."""
        if folder is None:
            return None
        file = None if self.archive is None else DATASETS[self.archive].file
        places = [folder / name for name in (*((file,) if file else ()), *self.folders)]
        return next((place for place in places if place.exists()), None)

    def load(self, folder: str | os.PathLike[str] | None) -> Task:
        """Read the data as a task called ``name``, with inverse class frequencies as costs."""
        here = data_folder(folder)
        place = self.place(here)
        published, reader = PAPER[self.known]
        if place is None:
            file = "" if self.archive is None else f"the file {DATASETS[self.archive].file}, or "
            where = f"there is no {self.name} in {here}" if here else f"{self.name} needs a folder of data, --data DIR"
            raise DataError(
                f"{where}: expected {file}a folder {self.folders[0]} with {published.layout}; get it from "
                f"{published.source}"
            )
        if place.is_file() and self.archive is not None:
            task = load_dataset(self.archive, folder=here)
        else:
            options: dict[str, Any] = {"per_class": 960} if self.known == "rffd" else {}
            options |= {} if self.image_size is None else {"image_size": self.image_size}
            task = reader(place, **options)
        return replace(task, name=self.name, costs=CostMatrix.balanced(task.y))


SOURCES = {
    source.name: source
    for source in (
        Source("HAM10K", "ham10k", "ham10000", ("ham10k", "HAM10000", "ham10000"), False, ("ham10000",)),
        Source("IDC", "idc", None, ("idc", "IDC", "IDC_regular_ps50_idx5"), False, patients=True),
        Source("RFFD", "rffd", None, ("rffd", "RFFD", "real_and_fake_face"), True, image_size=128),
        Source("PV-D", "pv-d", "plantvillage", ("pv-d", "pvd", "PlantVillage"), True, ("pvd", "plantvillage")),
    )
}
MADE_UP = Source("made-up", "ham10k", None, (), False)
"""Synthetic images, for a quick run where there are no data."""
WOLF_DOG = Source("wolf-dog", "wolf-dog", None, ("wolf-dog", "wolf_dog"), True)


def find_source(name: str) -> Source:
    """Return a data set of the paper by name; case does not count."""
    for source in SOURCES.values():
        if name.lower() in (source.name.lower(), *source.aliases):
            return source
    known = [source.name.lower() for source in SOURCES.values()]
    near = [f"; did you mean {close!r}?" for close in difflib.get_close_matches(name.lower(), known, n=1)]
    raise DataError(f"the paper has no data set {name!r}{''.join(near)} (it has {', '.join(known)})")


def present_sources(folder: str | os.PathLike[str] | None) -> list[Source]:
    """Return the paper's data sets that are in a folder."""
    here = data_folder(folder)
    return [source for source in SOURCES.values() if source.place(here) is not None]


def find_weights(weights: str | os.PathLike[str] | None, folder: str | os.PathLike[str] | None) -> str | None:
    """Return the file of the pretrained backbone: the one named, or the one in the data folder."""
    if weights is not None:
        if not Path(weights).is_file():
            raise DataError(f"there is no file {weights} of weights: give the ImageNet weights of a ResNet-18")
        return str(weights)
    here = data_folder(folder)
    return str(here / WEIGHTS) if here is not None and (here / WEIGHTS).is_file() else None


def quick_task(source: Source, folder: str | os.PathLike[str] | None, *, size: int = 120) -> Task:
    """Return a few hundred images: a part of a data set, or made-up ones."""
    if source is MADE_UP:
        return made_task(size)
    task = source.load(folder)
    rng = np.random.default_rng(0)
    share = max(size // 5, round(size * float(task.y.mean())))  # positives enough for every split
    chosen = [
        rng.permutation(np.flatnonzero(task.y == label))[:count] for label, count in ((0, size - share), (1, share))
    ]
    kept = np.sort(np.concatenate(chosen))
    groups = None if task.groups is None else task.groups[kept]
    return Task(task.name, task.X[kept], task.y[kept], CostMatrix.balanced(task.y[kept]), groups, task.classes)


def made_task(size: int = 120, *, side: int = 16) -> Task:
    """Return made-up images: noise, with a bright spot in most of the positives and some of the negatives."""
    rng = np.random.default_rng(0)
    y = (np.arange(size) % 4 == 0).astype(np.int64)
    pixels = rng.normal(90.0, 30.0, (size, side, side, 3))
    spot = rng.random(size) < np.where(y == 1, 0.9, 0.15)
    top, left = rng.integers(0, side - 8, (2, size))
    for i in np.flatnonzero(spot):
        pixels[i, top[i] : top[i] + 8, left[i] : left[i] + 8] += 110.0
    images = pixels.clip(0, 255).astype(np.uint8)
    return Task("made-up", images, y, CostMatrix.balanced(y), groups=np.arange(size) // 2, source="made up")
