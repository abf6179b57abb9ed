"""The paper's data sets, on small made folders of exactly the published layout."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from adacsl.datasets import DataError, DataWarning
from paper.folders import PAPER, ham10000_folder, idc_folder, plantvillage_folder, rffd_folder, wolf_dog_folder

SUBSET = pytest.mark.filterwarnings("ignore::adacsl.datasets.DataWarning")  # these are not thousands of images


def image(path: Path, red: int = 0, size: tuple[int, int] = (20, 15)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (red, 50, 100)).save(path)


def reds(task) -> list[int]:
    """The order of the images, by their colour (JPEG may be off by one)."""
    return [round(int(red) / 10) * 10 for red in task.X[:, 0, 0, 0]]


# HAM10000

ROWS = [
    ("HAM_0000118", "ISIC_0027419", "bkl", "histo", 80.0, "male", "scalp"),
    ("HAM_0000118", "ISIC_0025030", "bkl", "histo", 80.0, "male", "scalp"),
    ("HAM_0002730", "ISIC_0026769", "mel", "histo", None, "female", "ear"),
    ("HAM_0001466", "ISIC_0031633", "nv", "consensus", 75.0, "male", "face"),
]
COLUMNS = ["lesion_id", "image_id", "dx", "dx_type", "age", "sex", "localization"]


def ham10000(
    root: Path, rows=ROWS, columns=COLUMNS, parts=("HAM10000_images_part_1", "HAM10000_images_part_2")
) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows, columns=COLUMNS)[columns].to_csv(root / "HAM10000_metadata.csv", index=False)
    for i, row in enumerate(rows):
        image(root / parts[i % len(parts)] / f"{row[1]}.jpg", red=10 * i)
    return root


@SUBSET
@pytest.mark.parametrize("parts", [("HAM10000_images_part_1", "HAM10000_images_part_2"), ("images",), (".",)])
def test_ham10000_is_read_in_the_order_of_its_metadata(tmp_path, parts):
    task = ham10000_folder(ham10000(tmp_path, parts=parts), image_size=16)
    assert task.X.shape == (4, 16, 16, 3)
    assert reds(task) == [0, 10, 20, 30]
    assert task.y.tolist() == [0, 0, 1, 0]
    assert task.groups.tolist() == [row[0] for row in ROWS]
    assert task.classes == ("other", "melanoma")
    assert task.costs.fp == pytest.approx(4 / 3)
    assert task.costs.fn == 4


@SUBSET
def test_ham10000_of_kaggle_has_folders_twice(tmp_path):
    root = ham10000(tmp_path)
    image(root / "ham10000_images_part_1" / "ISIC_0027419.jpg", red=0)
    image(root / "HAM10000_segmentations" / "ISIC_0027419.png", red=200)
    assert reds(ham10000_folder(root)) == [0, 10, 20, 30]


def test_ham10000_layout_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(
        DataError, match=r"HAM10K: .*nowhere does not exist, expected a folder with HAM10000_images_part_1"
    ):
        ham10000_folder(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"has no HAM10000_metadata\.csv"):
        ham10000_folder(tmp_path)
    with pytest.raises(
        DataError, match=r"HAM10000_metadata\.csv has no column 'dx' \(it has lesion_id, image_id, dx_type"
    ):
        ham10000_folder(ham10000(tmp_path / "a", columns=[c for c in COLUMNS if c != "dx"]))
    root = ham10000(tmp_path / "b")
    (root / "HAM10000_images_part_2" / "ISIC_0025030.jpg").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of the 4 images that its metadata name \(ISIC_0025030\)"):
        ham10000_folder(root)
    with pytest.raises(DataError, match="names image ISIC_0027419 more than once"):
        ham10000_folder(ham10000(tmp_path / "c", rows=[*ROWS, ROWS[0]]))
    with pytest.raises(DataError, match="diagnosis 'melanoma', expected one of akiec"):
        ham10000_folder(ham10000(tmp_path / "d", rows=[*ROWS[:3], ("H", "ISIC_1", "melanoma", "", 1, "", "")]))
    with pytest.raises(DataError, match="no lesion_id in row 4"):
        ham10000_folder(ham10000(tmp_path / "e", rows=[*ROWS[:3], (None, "ISIC_1", "nv", "", 1, "", "")]))
    with pytest.raises(DataError, match="one class only"):
        ham10000_folder(ham10000(tmp_path / "f", rows=ROWS[:2]))


@SUBSET
def test_a_corrupt_image_is_named(tmp_path):
    root = ham10000(tmp_path)
    (root / "HAM10000_images_part_1" / "ISIC_0026769.jpg").write_bytes(b"\xff\xd8 not really")
    with pytest.raises(DataError, match=r"cannot read image .*ISIC_0026769\.jpg"):
        ham10000_folder(root)


def test_other_counts_than_the_published_are_a_warning(tmp_path):
    expected = (
        r"HAM10K: expected 8,902 other and 1,113 melanoma \(published\), found 3 other and 1 melanoma; results will not"
    )
    with pytest.warns(DataWarning, match=expected) as caught:
        ham10000_folder(ham10000(tmp_path))
    assert caught[0].filename == __file__


def test_images_without_metadata_are_ignored(tmp_path):
    root = ham10000(tmp_path)
    image(root / "HAM10000_images_part_1" / "ISIC_9.jpg")
    with pytest.warns(DataWarning) as caught:
        assert len(ham10000_folder(root).y) == 4
    assert any("holds 1 images without metadata (ISIC_9)" in str(warning.message) for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)


def test_the_published_counts_are_no_warning(tmp_path, monkeypatch):
    known, load = PAPER["ham10k"]
    monkeypatch.setitem(known.counts, "published", (3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load(ham10000(tmp_path)).y) == 4


# IDC


def idc(root: Path) -> Path:
    for patient, kind, number in (("10253", 0, 1), ("10253", 0, 2), ("10253", 1, 3), ("9036", 1, 4)):
        name = f"{patient}_idx5_x{number}01_y51_class{kind}.png"
        image(root / patient / str(kind) / name, red=10 * number, size=(50, 50 - number))
    return root


@SUBSET
@pytest.mark.parametrize("inner", ["", "IDC_regular_ps50_idx5"])
def test_idc_patches_are_grouped_by_patient(tmp_path, inner):
    idc(tmp_path / inner)
    if inner:
        idc(tmp_path)  # Kaggle's archive holds everything twice
    task = idc_folder(tmp_path)
    assert task.X.shape == (4, 50, 50, 3)
    assert reds(task) == [10, 20, 30, 40]
    assert task.y.tolist() == [0, 0, 1, 1]
    assert task.groups.tolist() == ["10253", "10253", "10253", "9036"]
    assert task.classes == ("no IDC", "IDC")


def test_idc_layout_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(DataError, match="holds no patients' folders: expected <patient>/0"):
        idc_folder(tmp_path)
    root = idc(tmp_path / "a")
    (root / "9036" / "2").mkdir()
    with pytest.raises(DataError, match=r"patient's folder .*9036 needs folders 0 and 1, it has 2"):
        idc_folder(root)
    (root / "9036" / "2").rmdir()
    (root / "777").mkdir()
    with pytest.raises(DataError, match="777 needs folders 0 and 1, it has none"):
        idc_folder(root)
    (root / "777").rmdir()
    image(root / "9036" / "0" / "9036_idx5_x1_y1_class1.png")
    with pytest.raises(DataError, match=r"9036_idx5_x1_y1_class1\.png lies in the folder of class 0"):
        idc_folder(root)


# real and fake faces


def faces(root: Path) -> Path:
    for i in range(3):
        image(root / "training_real" / f"real_0000{i}.jpg", red=10 * i)
    for i, name in enumerate(("easy_1_1110", "hard_2_0001")):
        image(root / "training_fake" / f"{name}.jpg", red=100 + 10 * i)
    return root


@SUBSET
@pytest.mark.parametrize("inner", ["", "real_and_fake_face", "real_and_fake_face_detection/real_and_fake_face"])
def test_real_faces_are_positive(tmp_path, inner):
    faces(tmp_path / inner)
    task = rffd_folder(tmp_path)
    assert task.y.tolist() == [0, 0, 1, 1, 1]
    assert reds(task) == [100, 110, 0, 10, 20]
    assert task.classes == ("fake", "real")
    assert task.X.shape == (5, 64, 64, 3)


@SUBSET
def test_classes_of_faces_can_be_cut_to_one_size(tmp_path):
    task = rffd_folder(faces(tmp_path), per_class=2)
    assert reds(task) == [100, 110, 0, 10]
    for wrong in (3, 0):
        with pytest.raises(DataError, match=r"per_class must be between 1 and what .* \(2 fake, 3 real\)"):
            rffd_folder(tmp_path, per_class=wrong)


def test_face_layout_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(DataError, match=r"RFFD: .* has no folder training_fake \(it has no folders\)"):
        rffd_folder(tmp_path)
    faces(tmp_path)
    for file in (tmp_path / "training_real").iterdir():
        file.unlink()
    with pytest.raises(DataError, match="training_real holds no images"):
        rffd_folder(tmp_path)


# PlantVillage


def leaves(root: Path) -> Path:
    for i, name in enumerate(("a___RS_HL 3887.JPG", "b___RS_HL 3886 copy.JPG", "c___RS_HL 9999.JPG")):
        image(root / "Soybean___healthy" / name, red=10 * i)
    image(root / "Apple___healthy" / "d___RS_HL 3887.JPG", red=40)
    image(root / "Tomato___Target_Spot" / "e___Com.G_TgS_FL 0004.JPG", red=50)
    return root


MAP = {
    "rs_hl 3887": ["Soybean___healthy:::127.0", "Apple___healthy:::9.0"],
    "rs_hl 3886": ["Soybean___healthy:::127.0"],
    "com.g_tgs_fl 0004": ["Tomato___Target_Spot:::1.0"],
}


@SUBSET
@pytest.mark.parametrize("inner", ["", "color", "raw/color"])
def test_healthy_leaves_are_positive_and_leaves_are_groups(tmp_path, inner):
    leaves(tmp_path / inner)
    task = plantvillage_folder(tmp_path)
    assert task.groups is None
    assert task.y.tolist() == [1, 1, 1, 1, 0]
    assert reds(task) == [40, 0, 10, 20, 50]
    assert task.classes == ("diseased", "healthy")
    (tmp_path / "leaf-map.json").write_text(json.dumps(MAP))
    groups = plantvillage_folder(tmp_path).groups.tolist()
    assert groups[0] == "Apple___healthy:::9.0"
    assert groups[1] == groups[2] == "Soybean___healthy:::127.0"
    assert groups[3] == "Soybean___healthy/c___RS_HL 9999.JPG"  # not in the map: alone


def test_plantvillage_layout_errors_name_what_is_wrong(tmp_path):
    with pytest.raises(DataError, match="is not PlantVillage: it has no folders"):
        plantvillage_folder(tmp_path)
    leaves(tmp_path)
    (tmp_path / "bad.json").write_text("[1]")
    for wrong in ("bad.json", "nowhere.json"):
        with pytest.raises(DataError, match=f"cannot read the map of leaves .*{wrong}"):
            plantvillage_folder(tmp_path, leaf_map=tmp_path / wrong)
    (tmp_path / "Potato___healthy").mkdir()
    with pytest.raises(DataError, match="Potato___healthy holds no images"):
        plantvillage_folder(tmp_path)
    (tmp_path / "Potato___healthy").rmdir()
    (tmp_path / "notes").mkdir()
    with pytest.raises(DataError, match="is not PlantVillage: notes is no such folder"):
        plantvillage_folder(tmp_path)


# wolves and dogs


@SUBSET
@pytest.mark.parametrize(
    ("dog", "parts"), [("dog", ("",)), ("Husky", ("train", "val")), ("Eskimo dog", ("",)), ("n02109961", ("",))]
)
def test_wolves_are_positive(tmp_path, dog, parts):
    for i, part in enumerate(parts):
        image(tmp_path / part / "wolf" / "1.jpg", red=10 * i)
        image(tmp_path / part / dog / "1.jpg", red=100 + 10 * i)
    task = wolf_dog_folder(tmp_path)
    assert task.y.tolist() == [0] * len(parts) + [1] * len(parts)
    assert reds(task) == [100, 110][: len(parts)] + [0, 10][: len(parts)]
    assert task.classes == ("dog", "wolf")
    assert task.costs.fp == task.costs.fn == 2  # as in the paper's Table 1


def test_wolf_and_dog_layout_errors_name_what_is_wrong(tmp_path):
    image(tmp_path / "wolf" / "1.jpg")
    with pytest.raises(DataError, match="needs one folder of dog images, it has wolf: expected wolf/"):
        wolf_dog_folder(tmp_path)
    for name in ("dog", "husky"):
        image(tmp_path / name / "1.jpg")
    with pytest.raises(DataError, match="needs one folder of dog images, it has dog, husky, wolf"):
        wolf_dog_folder(tmp_path)
    with pytest.raises(DataError, match=r"wolf-dog: .*1\.jpg is a file, expected a folder"):
        wolf_dog_folder(tmp_path / "wolf" / "1.jpg")


# all of them


@pytest.mark.parametrize(
    ("load", "make", "message"),
    [
        (idc_folder, idc, "IDC: expected 198,738 no IDC and 78,786 IDC .*found 2 no IDC and 2 IDC"),
        (
            rffd_folder,
            faces,
            r"960 fake and 960 real \(in the paper\) or .*, found 2 fake and 3",
        ),
        (plantvillage_folder, leaves, "39,221 diseased and 15,084 healthy .*found 1 diseased and 4 healthy"),
    ],
)
def test_counts_are_checked(tmp_path, load, make, message):
    with pytest.warns(DataWarning, match=message):
        load(make(tmp_path))


@SUBSET
def test_broken_links_and_hidden_files(tmp_path):
    root = faces(tmp_path)
    (root / "training_real" / "._real_00000.jpg").write_bytes(b"macOS leaves such files")
    (root / "training_real" / "notes.txt").write_text("x")
    task = rffd_folder(root)
    assert len(task.y) == 5
    assert task.X.flags.c_contiguous
    assert task.X.dtype == np.uint8
    (root / "training_fake" / "gone.jpg").symlink_to(tmp_path / "nothing.jpg")
    with pytest.raises(DataError, match=r"no image file .*gone\.jpg \(a broken link\)"):
        rffd_folder(root)
