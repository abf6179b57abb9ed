"""The paper's image data sets, in the folders they are distributed in.

Nothing is downloaded: :data:`PAPER` says where each set comes from. A folder that is laid out otherwise, an image that
cannot be read and a label that contradicts itself are errors that name the file; other counts than the published ones
are a :class:`~adacsl.datasets.DataWarning`, as subsets are useful too.

The two tables of the authors' later code, the marketing campaign and the credit-card frauds, are built-in data sets:
``load_task("marketing-campaign")`` and ``load_task("creditcard-fraud")``.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl import CostMatrix, Task
from adacsl.datasets import DataError, DataWarning, read_table
from adacsl.datasets.images import as_images

PathLike = str | os.PathLike[str]
IMAGES = (".jpg", ".jpeg", ".png")
"""Suffixes of the distributed images."""


@dataclass(frozen=True)
class Published:
    """What is published about a data set of images.

    Attributes
    ----------
    name, title : str
        The name of the paper, and what the images show.
    classes : (str, str)
        The negative and the positive class.
    counts : dict
        Numbers of negative and positive images that are known, by where they are stated.
    layout : str
        The folders it is distributed in.
    source : str
        Where to get it.
    """

    name: str
    title: str
    classes: tuple[str, str]
    counts: dict[str, tuple[int, int]]
    layout: str
    source: str


HAM10K = Published(
    "HAM10K",
    "skin lesions",
    ("other", "melanoma"),
    {"published": (8_902, 1_113)},
    "HAM10000_images_part_1/ISIC_*.jpg, HAM10000_images_part_2/ISIC_*.jpg, HAM10000_metadata.csv",
    "Harvard Dataverse doi:10.7910/DVN/DBW86T, or Kaggle kmader/skin-cancer-mnist-ham10000",
)
IDC = Published(
    "IDC",
    "patches of breast tissue, 50 x 50",
    ("no IDC", "IDC"),
    {"published": (198_738, 78_786)},
    "<patient>/0/*_class0.png, <patient>/1/*_class1.png",
    "Kaggle paultimothymooney/breast-histopathology-images (Janowczyk and Madabhushi 2016)",
)
RFFD = Published(
    "RFFD",
    "photographs of faces, real or retouched by experts",
    ("fake", "real"),
    {"in the paper": (960, 960), "distributed": (960, 1_081)},
    "training_fake/*.jpg, training_real/*.jpg",
    "Kaggle ciplab/real-and-fake-face-detection (Yonsei University 2019)",
)
PVD = Published(
    "PV-D",
    "leaves of crops",
    ("diseased", "healthy"),
    {"distributed": (39_221, 15_084), "in the paper": (58_299, 27_866)},
    "<Crop>___<Disease>/*.JPG, <Crop>___healthy/*.JPG (the folders of raw/color)",
    "github.com/spMohanty/PlantVillage-Dataset (Hughes and Salathe 2015)",
)
WOLF_DOG = Published(
    "wolf-dog",
    "wolves and Eskimo dogs",
    ("dog", "wolf"),
    {"in the paper": (800, 800)},
    "wolf/*, dog/* (or husky/*), or the same below train/ and val/",
    "not distributed by the authors; ImageNet's classes n02114367 (timber wolf) and n02109961 (Eskimo dog)",
)

DIAGNOSES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
METADATA = ("lesion_id", "image_id", "dx")
DOGS = ("dog", "dogs", "husky", "huskies", "eskimo_dog", "n02109961")
WOLVES = ("wolf", "wolves", "timber_wolf", "n02114367")
PARTS = ("train", "val", "valid", "validation", "test")


def ham10000_folder(folder: PathLike, *, image_size: int = 64) -> Task:
    """Read HAM10000 as distributed: ``HAM10000_metadata.csv`` and the images in two folders, or in one.

    Positive is melanoma (``mel``); groups are lesions. Images are looked for in every folder whose name starts with
    ``HAM10000_images`` or is ``images``, and beside the metadata.
    """
    root = _folder(folder, HAM10K)
    metadata = _metadata(root)
    files = _ham10000_files(root)
    ids = metadata["image_id"].astype(str).tolist()
    absent = [name for name in ids if name not in files]
    if absent:
        raise DataError(
            f"{root} lacks {len(absent)} of the {len(ids)} images that its metadata name ({listed(absent, 3)}): "
            f"expected {HAM10K.layout}"
        )
    if len(files) > len(ids):
        extra = sorted(set(files) - set(ids))
        _warn(f"{root} holds {len(extra)} images without metadata ({listed(extra, 3)}), which are ignored", above=2)
    y = (metadata["dx"].astype(str) == "mel").to_numpy(np.int64)
    groups = metadata["lesion_id"].astype(str).to_numpy()
    return _task(HAM10K, [files[name] for name in ids], y, groups, image_size)


def idc_folder(folder: PathLike, *, image_size: int = 50) -> Task:
    """Read the IDC patches as distributed: ``<patient>/<class>/*_class<class>.png``.

    Positive is class 1, invasive ductal carcinoma; groups are patients. Kaggle's archive holds everything twice: where
    there is a folder ``IDC_regular_ps50_idx5``, that one is read. In memory 277,524 patches of 50 x 50 take 2.1 GB.
    """
    root = _folder(folder, IDC)
    root = _below(root, "IDC_regular_ps50_idx5")
    patients = _folders(root)
    if not patients:
        raise DataError(f"{root} holds no patients' folders: expected {IDC.layout}")
    files: list[Path] = []
    labels: list[int] = []
    groups: list[str] = []
    for patient in patients:
        for kind in _idc_classes(patient):
            inside = _images(kind)
            _check_idc_names(inside, kind)
            files += inside
            labels += [int(kind.name)] * len(inside)
            groups += [patient.name] * len(inside)
    return _task(IDC, files, np.asarray(labels, dtype=np.int64), np.asarray(groups), image_size)


def rffd_folder(folder: PathLike, *, per_class: int | None = None, image_size: int = 64) -> Task:
    """Read the real and fake faces as distributed: ``training_real`` and ``training_fake``.

    Positive is real, as in the paper. The paper counts 960 images of each class, the distributed set has 1,081 real
    ones: ``per_class=960`` takes the first 960 by name (which ones the paper took is not known).
    """
    root = _folder(folder, RFFD)
    for inner in ("real_and_fake_face_detection", "real_and_fake_face"):
        root = _below(root, inner)
    files = [_class_images(root / name, RFFD) for name in ("training_fake", "training_real")]
    if per_class is not None:
        if not 1 <= per_class <= min(map(len, files)):
            raise DataError(
                f"per_class must be between 1 and what {root} has ({len(files[0])} fake, {len(files[1])} real)"
            )
        files = [inside[:per_class] for inside in files]
    y = np.repeat(np.arange(2), [len(inside) for inside in files])
    return _task(RFFD, files[0] + files[1], y, None, image_size)


def plantvillage_folder(folder: PathLike, *, leaf_map: PathLike | None = None, image_size: int = 64) -> Task:
    """Read PlantVillage's colour images as distributed: one folder for each crop and disease.

    Positive is healthy. A leaf was photographed several times: groups are leaves, from the repository's
    ``leaf-map.json`` (``leaf_map``, or found in ``folder``); images that it does not know are groups of their own.
    Without the map there are no groups, and test costs will look better than they are.
    """
    top = _folder(folder, PVD)
    root = _below(_below(top, "raw"), "color")
    kinds = _folders(root)
    odd = [kind.name for kind in kinds if "___" not in kind.name]
    if not kinds or odd:
        came = f"{listed(odd, 3)} is no such folder" if odd else "it has no folders"
        raise DataError(f"{root} is not PlantVillage: {came}; expected {PVD.layout}")
    files = [(file, kind.name) for kind in kinds for file in _class_images(kind, PVD)]
    y = np.asarray([kind.endswith("___healthy") for _, kind in files], dtype=np.int64)
    present = next((path for path in (top / "leaf-map.json", root / "leaf-map.json") if path.is_file()), None)
    map_ = present if leaf_map is None else Path(leaf_map).expanduser()
    groups = None if map_ is None else _leaves(files, map_)
    return _task(PVD, [file for file, _ in files], y, groups, image_size)


def wolf_dog_folder(folder: PathLike, *, image_size: int = 64) -> Task:
    """Read wolves and dogs: folders ``wolf`` and ``dog`` (or ``husky``), or the same below ``train`` and ``val``.

    Positive is wolf, whose probability the paper's Table 1 sorts by. The paper's parts (1,200 for training, 400 for
    validation) are put together.
    """
    root = _folder(folder, WOLF_DOG)
    parts = [entry for entry in _folders(root) if entry.name.lower() in PARTS] or [root]
    files: tuple[list[Path], list[Path]] = ([], [])
    for part in parts:
        for kind, names in enumerate((DOGS, WOLVES)):
            named = [entry for entry in _folders(part) if entry.name.lower().replace(" ", "_") in names]
            if len(named) != 1:
                came = f"has {listed(entry.name for entry in _folders(part)) or 'no folders'}"
                raise DataError(f"{part} needs one folder of {names[0]} images, it {came}: expected {WOLF_DOG.layout}")
            files[kind].extend(_class_images(named[0], WOLF_DOG))
    y = np.repeat(np.arange(2), [len(inside) for inside in files])
    return _task(WOLF_DOG, files[0] + files[1], y, None, image_size)


PAPER: dict[str, tuple[Published, Callable[..., Task]]] = {
    "ham10k": (HAM10K, ham10000_folder),
    "idc": (IDC, idc_folder),
    "rffd": (RFFD, rffd_folder),
    "pv-d": (PVD, plantvillage_folder),
    "wolf-dog": (WOLF_DOG, wolf_dog_folder),
}
"""The paper's data sets: what is published about each, and the function that reads its folder."""


# what all of them share


def listed(names: Iterable[object], most: int = 8) -> str:
    """Return names for a message, the first ``most`` of them."""
    known = list(map(str, names))
    return ", ".join(known[:most]) + (f", ... ({len(known)} in all)" if len(known) > most else "")


def _task(
    known: Published,
    files: list[Path],
    y: NDArray[np.int64],
    groups: NDArray[Any] | None,
    image_size: int,
) -> Task:
    """Check the counts, decode the images, and return the task with the paper's balanced costs."""
    counts = (int((y == 0).sum()), int((y == 1).sum()))
    if not all(counts):
        raise DataError(f"{known.name} has one class only ({_both(counts, known)}): both are needed to learn from")
    if counts not in known.counts.values():
        stated = " or ".join(f"{_both(each, known)} ({where})" for where, each in known.counts.items())
        _warn(
            f"{known.name}: expected {stated}, found {_both(counts, known)}; results will not compare with the paper's",
            above=3,
        )
    try:
        pixels = as_images(files, image_size=image_size).pixels
    except (ValueError, OSError) as error:
        raise DataError(" ".join(str(error).split())) from error
    name, pixels = known.name.lower(), pixels.transpose(0, 2, 3, 1)
    return Task(name, pixels, y.astype(np.int64), CostMatrix.balanced(y), groups, known.classes, known.source)


def _both(counts: tuple[int, int], known: Published) -> str:
    return f"{counts[0]:,} {known.classes[0]} and {counts[1]:,} {known.classes[1]}"


def _warn(message: str, *, above: int) -> None:
    """Warn whoever called the loader, which is so many calls above."""
    warnings.warn(message, DataWarning, stacklevel=above + 1)


def _folder(folder: PathLike, known: Published) -> Path:
    root = Path(folder).expanduser()
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise DataError(f"{known.name}: {root} {what}, expected a folder with {known.layout}; source: {known.source}")
    return root


def _below(root: Path, name: str) -> Path:
    """Return the folder inside that an archive wraps its content in, where there is one."""
    return root / name if (root / name).is_dir() else root


def _folders(root: Path) -> list[Path]:
    skipped = (".", "__MACOSX")
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(skipped))


def _images(folder: Path) -> list[Path]:
    return sorted(
        entry for entry in folder.iterdir() if entry.suffix.lower() in IMAGES and not entry.name.startswith(".")
    )


def _class_images(folder: Path, known: Published) -> list[Path]:
    if not folder.is_dir():
        here = listed(entry.name for entry in _folders(folder.parent)) or "no folders"
        raise DataError(f"{known.name}: {folder.parent} has no folder {folder.name} (it has {here})")
    result = _images(folder)
    if not result:
        raise DataError(f"{known.name}: {folder} holds no images; expected {known.layout}")
    return result


# HAM10000


def _metadata(root: Path) -> Any:
    """Return the metadata, one row for each image."""
    path = root / "HAM10000_metadata.csv"
    if not path.is_file():
        raise DataError(f"HAM10K: {root} has no HAM10000_metadata.csv; expected {HAM10K.layout}")
    table = read_table(path)
    for column in METADATA:
        if column not in table.columns:
            raise DataError(f"{path} has no column {column!r} (it has {listed(table.columns)})")
        if table[column].isna().any():
            row = int(table[column].isna().to_numpy().argmax()) + 1
            raise DataError(f"{path} has no {column} in row {row}: every image needs one")
    unknown = sorted(set(table["dx"].astype(str)) - set(DIAGNOSES))
    if unknown:
        raise DataError(f"{path} has the diagnosis {unknown[0]!r}, expected one of {', '.join(DIAGNOSES)}")
    doubled = table["image_id"][table["image_id"].duplicated()]
    if len(doubled):
        raise DataError(f"{path} names image {doubled.iloc[0]} more than once")
    return table


def _ham10000_files(root: Path) -> dict[str, Path]:
    """Return the images by name; Kaggle's archive has some folders twice, which differ in case only."""
    places = [entry for entry in _folders(root) if re.match(r"ham10000_images|images$", entry.name.lower())]
    return {file.stem: file for place in reversed([*places, root]) for file in _images(place)}


# IDC


def _idc_classes(patient: Path) -> list[Path]:
    kinds = _folders(patient)
    odd = [kind.name for kind in kinds if kind.name not in ("0", "1")]
    if odd or not kinds:
        came = f"it has {listed(odd)}" if odd else "it has none"
        raise DataError(f"the patient's folder {patient} needs folders 0 and 1, {came}: expected {IDC.layout}")
    return kinds


def _check_idc_names(files: Sequence[Path], kind: Path) -> None:
    for file in files:
        name = re.search(r"_class(\d)$", file.stem)
        if name is None or name[1] != kind.name:
            raise DataError(
                f"{file} lies in the folder of class {kind.name}, so its name must end in _class{kind.name}"
            )


# PlantVillage


def _leaves(files: Iterable[tuple[Path, str]], path: Path) -> NDArray[Any]:
    """Return the leaf of each image by the repository's map: name of the camera's file -> "class:::leaf", ..."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        leaves = {str(name): [str(leaf) for leaf in several] for name, several in known.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DataError(f"cannot read the map of leaves {path}: expected the repository's leaf-map.json") from error
    return np.asarray([_leaf(file, kind, leaves) for file, kind in files])


def _leaf(file: Path, kind: str, leaves: dict[str, list[str]]) -> str:
    # "<uuid>___RS_HL 9893 copy.JPG" is "rs_hl 9893" in the map
    camera = file.stem.replace("_final_masked", "").split("___")[-1].split("copy")[0].strip().lower()
    known = leaves.get(camera, [])
    fitting = known if len(known) == 1 else [leaf for leaf in known if kind in leaf]
    return fitting[0] if fitting else f"{kind}/{file.name}"
