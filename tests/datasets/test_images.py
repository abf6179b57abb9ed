"""Image inputs: arrays, folders, files and Datasets become one array of bytes, or one clear error."""

import os

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from adacsl.datasets.images import as_images, is_images

RNG = np.random.default_rng(0)


def random_bytes(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def save(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)
    return path


@pytest.fixture
def folder(tmp_path):
    """Two classes, three images, one note."""
    root = tmp_path / "images"
    save(root / "melanoma" / "b.png", random_bytes(8, 8, 3))
    save(root / "benign" / "a.png", random_bytes(8, 8, 3))
    save(root / "benign" / "deeper" / "c.PNG", random_bytes(8, 8, 3))
    (root / "benign" / "notes.txt").write_text("x")
    return root


class Pairs(Dataset):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


# arrays


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((5, 8, 9, 3), (5, 3, 8, 9)),
        ((5, 3, 8, 9), (5, 3, 8, 9)),
        ((5, 8, 9, 1), (5, 1, 8, 9)),
        ((5, 1, 8, 9), (5, 1, 8, 9)),
        ((5, 8, 9), (5, 1, 8, 9)),
        ((5, 8, 9, 4), (5, 3, 8, 9)),
        ((5, 4, 8, 9), (5, 3, 8, 9)),
        ((1, 8, 8, 3), (1, 3, 8, 8)),
    ],
)
def test_array_layouts(shape, expected):
    x = random_bytes(*shape)
    images = as_images(x)
    assert images.pixels.shape == expected
    assert images.pixels.dtype == np.uint8
    assert images.labels is None
    assert images.names == ()
    assert np.shares_memory(images.pixels, x)
    assert is_images(x)
    if x.shape[-1] == 3:
        assert np.array_equal(images.pixels, x.transpose(0, 3, 1, 2))
    assert np.array_equal(as_images(torch.from_numpy(x)).pixels, images.pixels)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 8, 8, 3)), r"\(x \* 255\)"),
        (np.zeros((2, 8, 8, 3), dtype=np.float32), "floats in"),
        (torch.zeros(2, 3, 8, 8), "uint8"),
        (np.zeros((2, 8, 8, 3), dtype=np.int64), "astype"),
        *(
            (random_bytes(*shape), "cannot tell the channel axis")
            for shape in ((5, 3, 8, 3), (5, 1, 1, 1), (5, 7, 8, 9))
        ),
        (random_bytes(8, 8, 3), "one colour image"),
        (random_bytes(8, 8), "shape"),
        (random_bytes(0, 8, 8, 3), "at least one image"),
        (random_bytes(2, 0, 8, 3), "at least one image"),
    ],
)
def test_refused_arrays(x, message):
    with pytest.raises(ValueError, match=message):
        as_images(x)


def test_arrays_are_resized():
    x = np.full((2, 8, 8, 3), 77, dtype=np.uint8)
    assert (as_images(x, image_size=4).pixels == 77).all()
    assert as_images(x, image_size=(4, 6)).pixels.shape == (2, 3, 4, 6)
    assert as_images(x[..., 0], image_size=4).pixels.shape == (2, 1, 4, 4)
    assert np.shares_memory(as_images(x, image_size=8).pixels, x)
    for size in (0, -3, (4,), (4, 0), (4.0, 4)):
        with pytest.raises(ValueError, match="image_size must be"):
            as_images(x, image_size=size)


def test_what_is_an_image_input(tmp_path):
    assert is_images(tmp_path)
    assert is_images(str(tmp_path))
    assert is_images(["a.png", tmp_path / "b.JPG"])
    assert is_images(Pairs())
    assert is_images(np.zeros((2, 8, 8, 3)))
    assert is_images(torch.zeros(2, 8, 8, dtype=torch.uint8))
    for other in (np.zeros((4, 3)), np.zeros((2, 8, 8)), [[1.0, 2.0]], ["red", "blue"], [], None, 3):
        assert not is_images(other)


# folders


def test_class_folders(folder):
    images = as_images(folder)
    assert images.pixels.shape == (3, 3, 8, 8)
    assert images.labels.tolist() == ["benign", "benign", "melanoma"]
    assert set(images.labels) == {"benign", "melanoma"}
    assert images.names == ("benign/a.png", "benign/deeper/c.PNG", "melanoma/b.png")
    assert images.ignored == 1
    stored = np.asarray(Image.open(folder / "melanoma" / "b.png"))
    assert np.array_equal(images.pixels[2].transpose(1, 2, 0), stored)
    assert images.pixels.transpose(0, 2, 3, 1).flags.c_contiguous
    calls = []
    again = as_images(str(folder), progress=lambda done, total: calls.append((done, total)))
    assert np.array_equal(again.pixels, images.pixels)
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_flat_folder_has_no_labels(tmp_path):
    for name in ("b.png", "a.bmp"):
        save(tmp_path / name, random_bytes(8, 8, 3))
    (tmp_path / "list.csv").write_text("x")
    images = as_images(tmp_path)
    assert images.labels is None
    assert images.names == ("a.bmp", "b.png")
    assert images.ignored == 1


def test_hidden_files_and_mac_leftovers_are_skipped(folder):
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / ".cache").mkdir()
    (folder / "__MACOSX").mkdir()
    (folder / "benign" / "._a.png").write_bytes(b"x")
    images = as_images(folder)
    assert len(images.names) == 3
    assert images.ignored == 1


def test_links_are_followed_and_loops_end(folder, tmp_path):
    save(tmp_path / "elsewhere" / "d.png", random_bytes(8, 8, 3))
    (folder / "benign" / "linked.png").symlink_to(tmp_path / "elsewhere" / "d.png")
    (folder / "melanoma" / "more").symlink_to(tmp_path / "elsewhere")
    (folder / "melanoma" / "loop").symlink_to(folder / "melanoma")
    images = as_images(folder)
    assert images.labels.tolist() == ["benign"] * 3 + ["melanoma"] * 2
    assert "melanoma/more/d.png" in images.names


@pytest.mark.parametrize("kind", ["no image", "truncated", "16 bits", "broken link"])
def test_an_unreadable_image_is_named(folder, kind):
    path = folder / "benign" / "a.png"
    whole = path.read_bytes()
    path.unlink()
    if kind == "16 bits":
        Image.fromarray(RNG.integers(0, 65535, (8, 8), dtype=np.uint16)).save(path)
    elif kind == "broken link":
        path.symlink_to(folder / "absent.png")
    else:
        path.write_bytes(b"not an image" if kind == "no image" else whole[:60])
    message = {"16 bits": "a.png: it has more than 8 bits", "broken link": r"a.png \(a broken link\)"}
    with pytest.raises((ValueError, FileNotFoundError), match=message.get(kind, "cannot read image .*a.png")):
        as_images(folder)


def test_empty_folders(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "note.txt").write_text("x")
    with pytest.raises(ValueError, match=r"holds no images .* 1 other files"):
        as_images(tmp_path / "empty")
    (folder / "nevus").mkdir()
    with pytest.raises(ValueError, match=r"class folder .*nevus holds no images"):
        as_images(folder)


def test_missing_folder_file_and_mixture(folder):
    with pytest.raises(FileNotFoundError, match="no image folder"):
        as_images(folder / "absent")
    with pytest.raises(ValueError, match="is a file"):
        as_images(folder / "benign" / "a.png")
    save(folder / "loose.png", random_bytes(8, 8, 3))
    with pytest.raises(ValueError, match="both class folders"):
        as_images(folder)


def test_sizes(folder):
    save(folder / "melanoma" / "z.jpg", random_bytes(90, 70, 3))
    with pytest.raises(ValueError, match=r"z.jpg is 90 x 70 x 3, the first image 8 x 8 x 3: give image_size"):
        as_images(folder)
    assert as_images(folder, image_size=(6, 5)).pixels.shape == (4, 3, 6, 5)


def test_exif_orientation_is_honoured(tmp_path):
    upright = np.zeros((16, 8, 3), dtype=np.uint8)
    upright[:8] = 255
    turned = Image.fromarray(np.rot90(upright, 1).copy())
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn by 90 degrees clockwise to view"
    turned.save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(as_images(tmp_path).pixels[0].transpose(1, 2, 0), upright)


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK"])
def test_every_8_bit_mode_becomes_rgb(tmp_path, mode):
    suffix = "tiff" if mode == "CMYK" else "png"
    Image.fromarray(random_bytes(8, 8, 3)).convert(mode).save(tmp_path / f"a.{suffix}")
    assert as_images(tmp_path).pixels.shape == (1, 3, 8, 8)


def test_list_of_files(folder):
    paths = [folder / "melanoma" / "b.png", str(folder / "benign" / "a.png")]
    images = as_images(paths)
    assert images.labels is None
    assert images.names == tuple(map(str, paths))
    assert np.array_equal(images.pixels, as_images(folder).pixels[[2, 0]])
    with pytest.raises(FileNotFoundError, match=r"absent.png"):
        as_images([*paths, folder / "absent.png"])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_odd_names(tmp_path):
    save(tmp_path / "größe 50%" / "новый\nfile.png", random_bytes(4, 4, 3))
    assert as_images(tmp_path).labels.tolist() == ["größe 50%"]


# Datasets


def test_dataset_of_every_kind_of_image():
    x = random_bytes(4, 8, 8, 3)
    items = Pairs(
        (Image.fromarray(x[0]), 1),
        (torch.from_numpy(x[1]).permute(2, 0, 1), torch.tensor(0)),
        (x[2], np.int64(1)),
        (x[3].transpose(2, 0, 1), 0),
    )
    calls = []
    images = as_images(items, progress=lambda done, total: calls.append(done))
    assert np.array_equal(images.pixels, x.transpose(0, 3, 1, 2))
    assert images.labels.tolist() == [1, 0, 1, 0]
    assert calls == [1, 2, 3, 4]


def test_dataset_of_grey_images_names_and_no_labels():
    x = random_bytes(3, 8, 8)
    assert as_images(Pairs(*x)).labels is None
    assert as_images(Pairs(*x)).pixels.shape == (3, 1, 8, 8)
    assert as_images(Pairs((x[0], "cat"), (x[1], "dog"))).labels.tolist() == ["cat", "dog"]
    assert as_images(Pairs(*x), image_size=4).pixels.shape == (3, 1, 4, 4)
    tensors = TensorDataset(torch.from_numpy(random_bytes(3, 3, 8, 8)), torch.tensor([0, 1, 0]))
    assert as_images(tensors).labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (type("Stream", (IterableDataset,), {"__iter__": lambda self: iter(())})(), "map-style"),
        (Pairs(("a.png", 1)), "item 0 of the Dataset is str"),
        (Pairs(), "is empty"),
        (Pairs((torch.zeros(3, 8, 8), 1)), "omit ToTensor"),
        (Pairs((torch.zeros(3, 8, 8, dtype=torch.int64), 1)), "uint8"),
        (Pairs((random_bytes(8), 1)), "expected"),
        (Pairs((random_bytes(8, 8, 3), 1, 2)), "3 values per item"),
        (Pairs((random_bytes(8, 8, 3), 1), random_bytes(8, 8, 3)), "have no label"),
        (Pairs((random_bytes(8, 8, 3), 1), (random_bytes(9, 8, 3), 1)), "item 1 is 9 x 8 x 3"),
        (Pairs((random_bytes(7, 8, 9), 1)), "cannot tell the channel axis"),
    ],
)
def test_refused_datasets(dataset, message):
    with pytest.raises((ValueError, TypeError), match=message):
        as_images(dataset)
