"""Images from arrays, files, class folders and .npz archives, as one array of bytes.

The compact credit-card table is such an archive too, and therefore read here.
"""

from __future__ import annotations

import io
import itertools
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch.utils.data import Dataset, IterableDataset

from adacsl.base.extras import requires
from adacsl.base.labels import label_name
from adacsl.datasets.errors import DataError, listed, one_line

with requires("train"):
    import pandas as pd


Progress = Callable[[int, int], None]
Size = int | tuple[int, int] | None
"""The side of square images, their height and width, or None: as they are."""

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
SKIPPED_FOLDERS = frozenset({"__MACOSX", "__pycache__"})
KNOWN = ", ".join(sorted(SUFFIXES))
CHANNELS = (1, 3, 4)
DECODE_CHUNK = 64


@dataclass(frozen=True)
class Images:
    """Images as bytes, with labels and names of their source.

    Attributes
    ----------
    pixels : uint8 array of shape (N, C, H, W)
        C is 1 or 3. Images that came channels-last stay so in memory: ``pixels`` is then a view of an N x H x W x C
        array.
    labels : array of shape (N,) or None
        Names of the class folders, or the labels of a Dataset.
    names : tuple of str
        File names relative to the folder; empty where there were no files.
    ignored : int
        How many files of the folder were no images (by suffix) and were left out.
    broken : tuple of str
        Images that could not be read and were left out, each with the reason.

    See Also
    --------
    as_images : Returns it.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.datasets.images import Images
    >>> Images(np.zeros((2, 3, 8, 9), dtype=np.uint8)).labels is None
    True
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[Any] | None = None
    names: tuple[str, ...] = ()
    ignored: int = 0
    broken: tuple[str, ...] = ()


def is_images(inputs: Any) -> bool:
    """Return whether this is an image input: a 4-D array, a 3-D array of bytes, a path, image files or a Dataset.

    Parameters
    ----------
    inputs : Any
        The input.

    Returns
    -------
    bool
        Whether it is.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.datasets.images import is_images
    >>> is_images(np.zeros((2, 8, 9, 3), dtype=np.uint8)), is_images(np.zeros((2, 8)))
    (True, False)
    """
    if isinstance(inputs, str | os.PathLike | Dataset):
        return True
    if _is_path_list(inputs):
        return all(Path(path).suffix.lower() in SUFFIXES for path in inputs)
    dimensions = getattr(inputs, "ndim", None)
    return dimensions == 4 or (dimensions == 3 and getattr(inputs, "dtype", None) in (np.uint8, torch.uint8))


def as_images(
    inputs: Any, *, image_size: Size = None, progress: Progress | None = None, skip_broken: bool = False
) -> Images:
    """Return images of any source as one array of bytes.

    Parameters
    ----------
    inputs : array, path, list of paths or torch Dataset
        Bytes of shape (N, H, W, C), (N, C, H, W) or (N, H, W), with C = 1, 3 or 4 (a fourth channel, alpha, is
        dropped); a folder with one subfolder per class (labels are the subfolders' names) or with images only (no
        labels); a list of image files; or a map-style Dataset of ``(image, label)`` pairs or of images: PIL images,
        tensors or arrays of bytes.
    image_size : int or (height, width), optional
        Resize to this; needed where files differ in size.
    progress : callable, optional
        Called as ``progress(done, total)`` after each file or item.
    skip_broken : bool, default False
        Leave out files that cannot be read, and name them in ``broken``, unless none can be.

    Returns
    -------
    Images
        Pixels of shape (N, C, H, W), and labels where the source has them.

    Raises
    ------
    DataError
        Where inputs are no images, or a file cannot be read.

    Notes
    -----
    Files are decoded once, by a few threads, turned by their EXIF tag and converted to RGB. Everything is held in
    memory: N * H * W * 3 bytes (10,000 images of 64 x 64: 123 MB; of 224 x 224: 1.5 GB). Arrays are not copied unless
    they are resized.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.datasets.images import as_images
    >>> as_images(np.zeros((2, 8, 9, 3), dtype=np.uint8)).pixels.shape
    (2, 3, 8, 9)
    """
    size = _size(image_size)
    if isinstance(inputs, str | os.PathLike):
        paths, labels, names, ignored = _in_folder(Path(inputs))
        return _from_files(paths, labels, names, size, progress, skip_broken, ignored)
    if isinstance(inputs, Dataset):
        return _from_dataset(inputs, size, progress)
    if _is_path_list(inputs):
        paths = [Path(path) for path in inputs]
        return _from_files(paths, [], [str(path) for path in paths], size, progress, skip_broken)
    return Images(_resized(_from_array(inputs), size))


def _is_path_list(inputs: Any) -> bool:
    listed = isinstance(inputs, list | tuple) and len(inputs) > 0
    return listed and all(isinstance(path, str | os.PathLike) for path in inputs)


def _size(image_size: Size) -> tuple[int, int] | None:
    if image_size is None:
        return None
    pair = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
    if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
        raise ValueError(f"image_size must be a positive number or (height, width), got {image_size!r}")
    return pair[0], pair[1]


# arrays


def _from_array(inputs: Any) -> NDArray[np.uint8]:
    array = inputs.detach().cpu().numpy() if isinstance(inputs, torch.Tensor) else np.asarray(inputs)
    _check_bytes(array.dtype, "images")
    if array.ndim not in (3, 4) or 0 in array.shape:
        raise ValueError(
            f"images must have shape (N, H, W, C), (N, C, H, W) or (N, H, W) with at least one image, got {array.shape}"
        )
    if array.ndim == 4:
        return _channels_first(array)
    if array.shape[2] in (3, 4):
        raise ValueError(f"shape {array.shape} looks like one colour image; for a batch of one pass x[None]")
    return array[:, None]


def _check_bytes(dtype: Any, what: str) -> None:
    if dtype == np.uint8:
        return
    advice = "convert them: x.astype('uint8')"
    if np.issubdtype(dtype, np.floating):
        advice = "multiply floats in [0, 1] by 255, round them and convert: (x * 255).round().astype('uint8')"
    raise ValueError(f"{what} must be bytes from 0 to 255 (uint8), got {dtype}; {advice}")


def _channels_first(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    first, last = array.shape[1] in CHANNELS, array.shape[3] in CHANNELS
    if first == last:
        why = "both could be channels" if first else "neither can be channels"
        raise ValueError(
            f"cannot tell the channel axis of images of shape {array.shape}: {why} (1, 3 or 4); "
            "pass (N, H, W, C) or (N, C, H, W) with C = 1 or 3 and larger sides"
        )
    images = array.transpose(0, 3, 1, 2) if last else array
    return images[:, :3] if images.shape[1] == 4 else images


def resize(pixels: torch.Tensor, size: int, *, batch: int = 512) -> torch.Tensor:
    """Return images of another size: bilinear with antialiasing, as Pillow resizes.

    Parameters
    ----------
    pixels : Tensor of shape (N, H, W, C)
        Bytes.
    size : int
        Side of the result.
    batch : int, default 512
        Images that are resized at once.

    Returns
    -------
    Tensor of shape (N, size, size, C)
        Bytes.

    Examples
    --------
    >>> import torch
    >>> from adacsl.datasets.images import resize
    >>> resize(torch.zeros(2, 8, 8, 3, dtype=torch.uint8), 4).shape
    torch.Size([2, 4, 4, 3])
    """
    parts = []
    for part in torch.split(pixels, batch):
        small = torch.nn.functional.interpolate(part.permute(0, 3, 1, 2).float(), size, mode="bilinear", antialias=True)
        parts.append(small.round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous())
    return torch.cat(parts)


def _resized(pixels: NDArray[np.uint8], size: tuple[int, int] | None) -> NDArray[np.uint8]:
    if size is None or pixels.shape[2:] == size:
        return pixels
    out = np.empty((pixels.shape[0], *size, pixels.shape[1]), dtype=np.uint8)
    for i, image in enumerate(pixels):
        resized = Image.fromarray(np.ascontiguousarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)))
        out[i] = np.asarray(resized.resize(size[::-1], Image.Resampling.LANCZOS)).reshape(out.shape[1:])
    return out.transpose(0, 3, 1, 2)


# folders and files


def _in_folder(folder: Path) -> tuple[list[Path], list[str], list[str], int]:
    """Return the images of a folder, their labels if it has class folders, their names, and how many files are none."""
    if folder.is_file():
        raise ValueError(f"{folder} is a file: give its folder, or a list of image files")
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no image folder {folder}")
    here = [entry for entry in _visible(folder) if entry.is_dir() and entry.name not in SKIPPED_FOLDERS]
    loose, ignored = _sort_out(entry for entry in _visible(folder) if not entry.is_dir())
    if here and loose:
        raise ValueError(
            f"{folder} holds both class folders ({here[0].name}, ...) and single images ({loose[0].name}, ...): "
            "move the images into class folders, or give a folder without subfolders"
        )
    if not here and not loose:
        raise ValueError(f"{folder} holds no images ({KNOWN}); {ignored} other files were ignored")
    paths, labels = loose, list[str]()
    for group in here:
        files, others = _sort_out(_walk(group))
        if not files:
            raise ValueError(f"class folder {group} holds no images ({KNOWN}): fill or remove it")
        paths, labels, ignored = paths + files, labels + [group.name] * len(files), ignored + others
    return paths, labels, [path.relative_to(folder).as_posix() for path in paths], ignored


def image_files(folder: Path) -> list[Path]:
    """Return all visible images in and below a folder, in order."""
    return sorted(_sort_out(_walk(folder))[0])


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _walk(folder: Path) -> Iterator[Path]:
    """Yield all visible files below a folder, in order; linked folders are entered once, so that loops end."""
    seen: set[str] = set()
    for root, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        if real in seen:
            folders[:] = []
            continue
        seen.add(real)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in SKIPPED_FOLDERS)
        yield from (Path(root, name) for name in sorted(files) if not name.startswith("."))


def _sort_out(files: Iterator[Path]) -> tuple[list[Path], int]:
    """Return the image files, and how many files were none."""
    result = list(files)
    images = [path for path in result if path.suffix.lower() in SUFFIXES]
    return images, len(result) - len(images)


def _from_files(
    paths: Sequence[Path], labels: Sequence[str], names: Sequence[str], size: tuple[int, int] | None,
    progress: Progress | None, skip_broken: bool, ignored: int = 0,
) -> Images:  # fmt: skip
    broken: dict[int, str] | None = {} if skip_broken else None
    called = [f"image {path}" for path in paths]
    pixels = decode_files(paths, called, image_size=size, progress=progress, broken=broken)
    if broken and len(broken) == len(paths):
        raise ValueError(f"none of {len(paths)} images can be read, the first, {paths[0]}: {broken[0]}")
    kept = [i for i in range(len(paths)) if i not in (broken or {})]
    told = tuple(f"{names[i]}: {why}" for i, why in (broken or {}).items())
    own = np.asarray([labels[i] for i in kept]) if labels else None
    return Images(pixels.transpose(0, 3, 1, 2), own, tuple(names[i] for i in kept), ignored, told)


def decode_files(
    files: Sequence[Any],
    names: Sequence[str],
    *,
    image_size: Size = None,
    progress: Progress | None = None,
    broken: dict[int, str] | None = None,
) -> NDArray[np.uint8]:
    """Decode image files, by path or as byte streams, into bytes of shape (N, H, W, 3); ``names`` are for messages.

    What cannot be read is an error, or left out where there is a dict for it: the reason, by its place.
    """
    size = _size(image_size)
    chunks = [slice(start, start + DECODE_CHUNK) for start in range(0, len(files), DECODE_CHUNK)]
    # decoding releases the interpreter lock, so threads help; in chunks, so that a bad file ends it soon
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        parts = (pool.map(lambda f, name: _tried(f, name, size), files[chunk], names[chunk]) for chunk in chunks)
        return _gathered(itertools.chain.from_iterable(parts), names, progress, broken)


def _tried(file: Any, name: str, size: tuple[int, int] | None) -> NDArray[np.uint8] | Exception:
    try:
        return _decode(file, name, size)
    except (ValueError, OSError) as error:
        return error


def _why(error: BaseException) -> str:
    # Pillow names the place of a stream in memory, which is another one each time
    return "no image" if isinstance(error, UnidentifiedImageError) else " ".join(str(error).split())


def _gathered(
    images: Iterable[NDArray[np.uint8] | Exception],
    names: Sequence[str],
    progress: Progress | None,
    broken: dict[int, str] | None = None,
) -> NDArray[np.uint8]:
    """Put images of one shape into one array."""
    out, done = np.empty(0, dtype=np.uint8), 0
    for i, image in enumerate(images):
        if isinstance(image, Exception):
            if broken is None:
                raise image
            broken[i] = _why(image.__cause__ or image)
            continue
        if done == 0:
            out = np.empty((len(names), *image.shape), dtype=np.uint8)
        if image.shape != out.shape[1:]:
            here, first = (" x ".join(map(str, shape)) for shape in (image.shape, out.shape[1:]))
            advice = "give image_size, and every image is resized to it"
            raise ValueError(f"{names[i]} is {here}, the first image {first}: {advice}")
        out[done], done = image, done + 1
        if progress is not None:
            progress(i + 1, len(names))
    return out[:done]


def _decode(file: Any, name: str, size: tuple[int, int] | None) -> NDArray[np.uint8]:
    try:
        with Image.open(file) as opened:
            if size is not None:
                # JPEGs are decoded at a fraction of their size where that still is twice what is wanted
                opened.draft("RGB", (2 * max(size), 2 * max(size)))
            return _upright(opened, size)
    except FileNotFoundError as error:
        link = " (a broken link)" if file.is_symlink() else ""
        raise FileNotFoundError(f"there is no image file {file}{link}") from error
    except Exception as error:  # decoders raise OSError, SyntaxError, struct.error, ...
        raise ValueError(f"cannot read {name}: {error}") from error


def _upright(opened: Image.Image, size: tuple[int, int] | None) -> NDArray[np.uint8]:
    """Return a PIL image as (H, W, 3) bytes, upright."""
    if opened.mode.startswith(("I", "F")):
        raise ValueError(f"it has more than 8 bits per channel (mode {opened.mode}): scale it to 8 bits first")
    upright = ImageOps.exif_transpose(opened).convert("RGB")
    if size is not None and upright.size != size[::-1]:
        upright = upright.resize(size[::-1], Image.Resampling.LANCZOS)
    return np.asarray(upright)


# datasets


def _from_dataset(dataset: Dataset[Any], size: tuple[int, int] | None, progress: Progress | None) -> Images:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise TypeError("give a map-style Dataset, one with __len__ and __getitem__: its items are read by number")
    total = len(dataset)
    if total == 0:
        raise ValueError("the Dataset is empty: give at least one item")
    labels = []

    def images() -> Iterator[NDArray[np.uint8]]:
        for i in range(total):
            image, label = _item(dataset[i])
            labels.append(label)
            yield _pixels(image, size, f"item {i}")

    pixels = _gathered(images(), [f"item {i}" for i in range(total)], progress)
    return Images(pixels.transpose(0, 3, 1, 2), _label_array(labels))


def _item(item: Any) -> tuple[Any, Any]:
    """Return image and label; a label of None says that there is none."""
    if not isinstance(item, tuple | list):
        return item, None
    if len(item) != 2:
        raise ValueError(f"the Dataset must give (image, label) pairs, got {len(item)} values per item")
    image, label = item
    return image, label.item() if isinstance(label, torch.Tensor | np.generic) else label


def _pixels(image: Any, size: tuple[int, int] | None, name: str) -> NDArray[np.uint8]:
    """Return one image of a Dataset as (H, W, C) bytes."""
    if isinstance(image, Image.Image):
        return _upright(image, size)
    if not isinstance(image, torch.Tensor | np.ndarray):
        raise TypeError(f"{name} of the Dataset is {type(image).__name__}, not a PIL image, a tensor or an array")
    array: NDArray[Any] = image.detach().cpu().numpy() if isinstance(image, torch.Tensor) else image
    if np.issubdtype(array.dtype, np.floating):
        raise ValueError(
            f"{name} of the Dataset holds floats ({array.dtype}); give bytes (uint8): omit ToTensor and "
            "Normalize (PILToTensor keeps bytes), the estimator normalises on the device"
        )
    _check_bytes(array.dtype, f"{name} of the Dataset")
    if array.ndim not in (2, 3):
        raise ValueError(f"{name} of the Dataset has shape {array.shape}, expected (C, H, W), (H, W, C) or (H, W)")
    pixels: NDArray[np.uint8] = array[None, None] if array.ndim == 2 else _channels_first(array[None])
    resized: NDArray[np.uint8] = _resized(pixels, size)[0]
    return resized.transpose(1, 2, 0)


def _label_array(labels: list[Any]) -> NDArray[Any] | None:
    missing = sum(label is None for label in labels)
    if 0 < missing < len(labels):
        raise ValueError(f"{missing} of the Dataset's {len(labels)} items have no label")
    return None if missing else np.asarray(labels)


JPEGS = {"jpeg", "offsets", "labels"}
MEDMNIST = {"train_images", "train_labels"}
CREDITCARD = {"V", "scale", "time", "amount_cents", "target"}


def read_folder(
    path: Path, *, image_size: Size, check: Callable[[list[str]], None], broken: list[str] | None = None
) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Read a folder with one subfolder of images for each class; the labels are the subfolders' names.

    ``check`` is called with these before thousands of images are decoded. An image that cannot be read is
    an error, or left out and added to ``broken``.
    """
    check(class_folders(path))
    images = decoded(path, image_size=image_size, skip_broken=broken is not None)
    if broken is not None:
        broken += images.broken
    if images.labels is None:
        raise DataError(f"{path} holds images but no class folders: put them into one subfolder for each class")
    return images.pixels.transpose(0, 2, 3, 1), images.labels


def class_folders(path: Path) -> list[str]:
    """Return the names of the subfolders that may hold a class."""
    try:
        here = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
    except OSError as error:
        raise DataError(f"cannot read {path}: {one_line(error)}") from error
    return [name for name in here if not name.startswith(".") and name not in SKIPPED_FOLDERS]


def decoded(inputs: Any, *, image_size: Size, skip_broken: bool = False) -> Images:
    """Decode images; what is wrong with one is said in one line."""
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
    """Read an .npz file of one of the three layouts: images or a table, labels, and groups if there are any.

    Images keep their size unless one is given; ``labels`` names the array of their labels in the first layout. A
    image that cannot be read is an error, or left out and added to ``broken``.

    * ``jpeg`` (bytes of all files), ``offsets`` (N + 1), ``labels``, and optionally ``groups`` and ``names``;
    * ``train_images``, ``train_labels`` and the same for ``val`` and ``test``, which are put together; images that
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
        f"{path} holds {listed(arrays)}; expected {', '.join(sorted(JPEGS))} (images) or "
        f"{', '.join(sorted(MEDMNIST))} (MedMNIST)"
    )


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError) as error:
        raise DataError(f"{path} is not an .npz archive of arrays, or is damaged: {one_line(error)}") from error


def _jpegs(
    arrays: dict[str, NDArray[Any]], path: Path, image_size: Size, which: str, broken: list[str] | None
) -> tuple[Any, Any, Any]:
    offsets, labels = arrays["offsets"].astype(np.int64), arrays[which].reshape(-1)
    content, groups = arrays["jpeg"].tobytes(), arrays.get("groups")
    n = len(offsets) - 1
    lengths = {len(labels), n if groups is None else len(groups), n}
    if n < 1 or lengths != {n} or (np.diff(offsets) <= 0).any() or offsets[0] != 0 or offsets[-1] != len(content):
        raise DataError(
            f"the arrays of {path} do not belong together: {n} images by offsets, {len(labels)} labels, "
            f"{len(content)} bytes of JPEG; make the archive again"
        )
    called = [f" ({label_name(label)})" for label in arrays.get("names", [])]
    names = [f"image {i + 1} of {path}{called[i] if i < len(called) else ''}" for i in range(n)]
    files = [io.BytesIO(content[start:end]) for start, end in itertools.pairwise(offsets)]
    gone: dict[int, str] | None = None if broken is None else {}
    with _one_line():
        pixels = decode_files(files, names, image_size=image_size, broken=gone)
    if gone and len(gone) == n:
        raise DataError(f"none of the {n} images of {path} can be read, the first: {gone[0]}")
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
        raise DataError(f"{path} has {labels.shape[1]} labels per image: one is needed")
    if len(labels) != len(images):
        raise DataError(f"{path} has {len(images)} images but {len(labels)} labels")
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
