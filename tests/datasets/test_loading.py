"""Data of all kinds: tables, folders and archives become tasks."""

import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES
from PIL import Image

from adacsl import CostMatrix
from adacsl.datasets import DataError, DataWarning, Task, load_task
from adacsl.datasets.costs import read_costs, resolve_costs


@pytest.fixture
def shop(tmp_path):
    """Return the path of a small table of payments."""
    frame = pd.DataFrame({
        "customer": ["a", "a", "b", "c", "c", "d"],
        "amount": [10.0, 0.0, 30.5, 40.0, 5.0, 6.0],
        "check": [1, 2, 3, 1, 1, 1],
        "C_FN": [1, 1, 1, 1, 1, 1],
        "channel": ["web", "shop", "web", None, "web", "shop"],
        "fraud": ["no", "yes", "no", "yes", "no", "no"],
    })  # fmt: skip
    path = tmp_path / "my shop.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_table_becomes_a_task(shop):
    task = load_task(shop, target="fraud", pos_label="yes")
    assert isinstance(task, Task)
    assert task.y.tolist() == [0, 1, 0, 1, 0, 0]
    assert list(task.X.columns) == ["customer", "amount", "check", "channel"]
    assert task.classes == ("no", "yes")
    assert task.name == "my-shop"
    assert task.source == str(shop)
    assert task.groups is None
    assert not task.images
    assert task.costs == CostMatrix(fp=6 / 4, fn=6 / 2)  # balanced
    task = load_task(shop, target="fraud", pos_label="yes", group_column="customer", drop=["check"])
    assert list(task.X.columns) == ["amount", "channel"]
    assert task.groups.tolist() == ["a", "a", "b", "c", "c", "d"]


def test_per_sample_costs_come_from_columns_and_expressions(shop):
    def load(costs, **options):
        return load_task(shop, target="fraud", pos_label="yes", costs=costs, **options)

    task = load({"fp": 2, "fn": "amount"})
    assert task.costs.fn.tolist() == [10.0, 0.0, 30.5, 40.0, 5.0, 6.0]
    assert task.costs.fp == 2
    assert "amount" in task.X  # an amount is often known beforehand
    assert task.cost_spec == CostMatrix(fp=2, fn="amount")
    assert load(CostMatrix(fp=2, fn="amount")).digest == task.digest
    task = load(CostMatrix(fp="C_FN", fn=1, tp=0.5))
    assert task.costs.fp.tolist() == [1] * 6
    assert (task.costs.fn, task.costs.tp) == (1, 0.5)
    assert "C_FN" not in task.X
    spec = {"fp": (1, 4), "fn": "0.5 * amount + check"}
    task = load(spec, drop=["check"])
    assert task.costs.fn.tolist() == [6.0, 2.0, 18.25, 21.0, 3.5, 4.0]
    assert task.costs.fp == 2
    assert task.cost_spec == CostMatrix(**spec)
    assert task.cost_spec.ranges == task.costs.ranges == {"fp": (1.0, 4.0)}
    assert "check" not in task.X
    assert task.rows([0, 1]).cost_spec == task.cost_spec
    assert load({"fp": 1, "fn": 2}).cost_spec is None
    with pytest.raises(DataError, match="no column 'amounts'; did you mean 'amount'"):
        load({"fp": 1, "fn": "2 * amounts"})


def test_data_in_memory_resolve_their_costs_too():
    frame = pd.DataFrame({"amount": [5.0, 7.0, 9.0], "x": [1, 2, 3]}, index=[4, 2, 9])
    task = Task.from_data(frame, [0, 1, 1], CostMatrix(fp=1, fn="amount * 2"))
    assert task.costs == CostMatrix(fp=1, fn=[10.0, 14.0, 18.0])
    assert task.cost_spec == CostMatrix(fp=1, fn="amount * 2")
    assert Task.from_data(frame.to_numpy(), [0, 1, 1], {"fp": 1, "fn": "x0"}).costs.fn.tolist() == [5, 7, 9]
    table = [[0, "amount", 1], [1, 0, 1], [1, 1, 0]]
    three = CostMatrix.from_array(table, rows="predicted", classes=["a", "b", "c"])
    task = Task.from_data(frame, ["a", "b", "c"], three)
    assert task.costs.to_array()[:, 0, 1].tolist() == [5, 7, 9]
    assert task.cost_spec == three
    with pytest.raises(DataError, match="depend on the column 'amount', but data has no columns"):
        Task.from_data(np.zeros((2, 4, 4, 3), np.uint8), [0, 1], {"fp": 1, "fn": "amount"})


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"fn": 5}, "only fn was given: give fp too, costs=\\{'fp': 1, ...\\}"),
        ({"fp": 5}, "only fp was given: give fn too, costs=\\{'fn': 1, ...\\}"),
        ({"fp": 1, "fx": 5}, "names fp, fn, tp and tn, got 'fx'"),
        ({"fp": 0, "fn": 5}, "fp must cost more than tn"),
        ({"fp": -1, "fn": 5}, "fp must cost more than tn"),
        ({"fp": 1, "fn": "5"}, "fn must be a number"),
        ({"fp": 1, "fn": "five"}, "depend on the column 'five', but the data has no columns"),
        ({"fp": 1, "fn": "5 + "}, "cannot be read"),
        ({"fp": 1, "fn": float("nan")}, "fn must be finite"),
        ("low", "'balanced', got 'low'"),
        (CostMatrix(fp=[1, 2], fn=1), "4 rows of two classes need costs"),
        (CostMatrix.from_array(1 - np.eye(3), rows="actual"), "need costs of two classes"),
    ],
)
def test_bad_costs_are_explained(costs, message):
    y, own = np.asarray([0, 0, 0, 1]), CostMatrix(fp=1, fn=7)
    assert resolve_costs(None, y) == resolve_costs("balanced", y, own=own) == CostMatrix(fp=4 / 3, fn=4)
    assert resolve_costs(None, y, own=own) == own
    with pytest.raises(DataError, match=message):
        resolve_costs(costs, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the label column of .*my shop.csv is not given: name it as target \\(--target\\); it has customer, am"),
        ({"target": "Fraud"}, "no column 'Fraud'; did you mean 'fraud'\\? \\(it has customer, amount"),
        ({"target": "fraud"}, "the positive class of column 'fraud' of .*my shop.csv is not given"),
        ({"target": "fraud", "pos_label": "1"}, "no class '1' \\(it has no: 4, yes: 2\\)"),
        ({"target": "customer"}, "has 4 classes"),
        ({"target": "C_FN"}, "one class only"),
        ({"target": "channel", "pos_label": "web", "on_error": "stop"}, "missing in 1 of 6 rows, first in row 4"),
        ({"drop": ["checks"]}, "no column 'checks'; did you mean 'check'"),
        ({"group_column": "client"}, "no column 'client'"),
        ({"group_column": "channel"}, "missing in 1 rows, first in row 4"),
        ({"costs": {"fn": "amount"}}, "only fn was given"),
        ({"costs": {"fp": 1, "fn": "customer"}}, "hold numbers.* 'a'"),
        ({"drop": ["customer", "amount", "check", "channel"]}, "no column left"),
    ],
)
def test_bad_tables_are_explained(shop, options, message):
    usual = {} if not options or "target" in options else {"target": "fraud", "pos_label": "yes"}
    with pytest.raises(DataError, match=message) as caught:
        load_task(shop, **usual, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("value", "came"), [("inf", "inf"), ("", "nan"), ("ten", "'ten'")])
def test_the_first_bad_cost_is_named(tmp_path, value, came):
    path = tmp_path / "t.csv"
    path.write_text(f"x,fee,target\n1,2.5,0\n2,{value},1\n3,4,0\n4,{value},1\n")
    with pytest.raises(DataError, match=f"t.csv: .*'fee' must .*, got {came} in row 2"):
        load_task(path, costs={"fp": 1, "fn": "fee"})
    path.write_text("x,fee,target\n1,0,0\n2,0,1\n")
    with pytest.raises(DataError, match="fn costs no more than tp for any sample"):
        load_task(path, costs={"fp": 1, "fn": "fee"})


def test_nested_columns_are_refused(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"x": [[1], [2]], "z": [1, 2], "target": [True, False]})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"column 'x' of .*t\.parquet holds values of type ndarray"):
        load_task(tmp_path / "t.parquet")
    assert load_task(tmp_path / "t.parquet", drop=["x"]).y.tolist() == [1, 0]
    pd.DataFrame({"x": [3, 1, 2], "target": [0, 1, 1]}).to_csv(tmp_path / "t.csv")
    assert list(load_task(tmp_path / "t.csv").X.columns) == ["x"]  # a column that counts the rows is not a feature
    (tmp_path / "t.csv").write_text(",x,target\n0,1,0\n9,1,1\n")  # unnamed, but not a counter
    assert list(load_task(tmp_path / "t.csv").X.columns) == ["Unnamed: 0", "x"]


def test_odd_names_and_html_stay_data(tmp_path):
    path = tmp_path / "a&b <c>.csv"
    path.write_text('<b>x</b>,"y, z",target\n1,2,<i>\n3,4,ok\n')
    task = load_task(path, pos_label="<i>")
    assert list(task.X.columns) == ["<b>x</b>", "y, z"]
    assert task.classes == ("ok", "<i>")
    assert task.name == "a-b-c"


def test_names_and_paths_that_do_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"there is no file or folder brest-cancer .*did you mean 'breast-cancer'"):
        load_task("brest-cancer")
    with pytest.raises(DataError, match=r"there is no file or folder qqq\.csv .*\(breast-cancer, german-credit"):
        load_task("qqq.csv")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"cannot tell what notes\.txt is: expected a table \(.csv"):
        load_task("notes.txt")
    with pytest.raises(DataError, match="has its own labels: omit target and pos_label"):
        load_task("breast-cancer", target="x")
    (tmp_path / "breast-cancer").mkdir()
    assert load_task("breast-cancer").X.shape == (569, 30)  # a name comes before a file
    with pytest.raises(DataError, match="holds no images"):
        load_task("./breast-cancer")


# images


def save_image(path, value, size=(12, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, 0, 255 - value)).save(path)


@pytest.fixture
def pets(tmp_path):
    for i in range(3):
        save_image(tmp_path / "pets" / "cat" / f"{i}.png", 10 * i, size=(12 + i, 10))
    for i in range(2):
        save_image(tmp_path / "pets" / "dog" / f"{i}.jpg", 100)
    return tmp_path / "pets"


def test_an_image_folder_becomes_a_task(pets):
    task = load_task(pets, pos_label="cat", image_size=8)
    assert task.images
    assert task.X.shape == (5, 8, 8, 3)
    assert task.X.dtype == np.uint8
    assert task.y.tolist() == [1, 1, 1, 0, 0]
    assert task.classes == ("dog", "cat")
    assert task.X[1, 0, 0].tolist() == [10, 0, 245]
    assert load_task(pets, pos_label="cat").X.shape == (5, 64, 64, 3)
    assert load_task(pets, pos_label="dog", costs={"fp": 1, "fn": 3}).costs == CostMatrix(fp=1, fn=3)


def test_bad_image_folders_are_explained(pets, tmp_path):
    for name in ("flat", "single/cat", "three/bird", "three/cat", "three/dog"):
        save_image(tmp_path / name / "a.png", 1)
    shutil.copytree(pets, tmp_path / "broken")
    (tmp_path / "broken" / "dog" / "broken.jpg").write_bytes(b"no jpeg")
    (tmp_path / "empty").mkdir()
    columns = ({"target": "y"}, {"segments": ["y"]}, {"drop": ["y"]}, {"group_column": "y"})
    for name, options, message in (
        ("pets", {}, r"positive class of .*pets is not given \(cat: 3, dog: 2\): .* cost fn: 'cat' or 'dog'"),
        ("pets", {"pos_label": "Dog"}, "no class 'Dog'; did you mean 'dog'"),
        *(("pets", option, "holds images: columns of labels, groups") for option in columns),
        ("broken", {"pos_label": "dog", "on_error": "stop"}, r"cannot read image .*broken\.jpg"),
        ("three", {"pos_label": "dog"}, r"3 class folders \(bird, cat, dog\): state the costs"),
        ("empty", {}, "holds no images"),
        ("flat", {}, "no class folders: put them into one subfolder for each class"),
        ("single", {}, "one class only"),
    ):
        with pytest.raises(DataError, match=message):
            load_task(tmp_path / name, **options)


THREE = CostMatrix.from_array([[0, 1, 2], [3, 0, 4], [5, 6, 0]], rows="predicted", classes=["dog", "cat", "bird"])


def test_three_class_folders_become_a_task(pets):
    save_image(pets / "bird" / "a.png", 50)
    task = load_task(pets, costs=THREE, image_size=8)
    assert task.X.shape == (6, 8, 8, 3)
    assert (task.classes, task.y.tolist()) == (("bird", "cat", "dog"), [0, 1, 1, 1, 2, 2])
    assert task.costs == THREE.aligned(task.classes)
    (pets / "dog" / "broken.jpg").write_bytes(b"no jpeg")  # not reached: folders are compared with the matrix first
    (pets / "fish").mkdir()
    with pytest.raises(DataError, match=r"4 class folders \(bird, .*\): the cost matrix has no column for 'fish'"):
        load_task(pets, costs=THREE)


def test_a_table_of_three_classes_becomes_a_task(tmp_path):
    path = tmp_path / "animals.csv"
    path.write_text("legs,kind\n2,bird\n4,dog\n4,cat\n2,bird\n", encoding="utf-8")
    task = load_task(path, target="kind", costs=THREE)
    assert (task.classes, task.y.tolist(), task.name) == (("bird", "cat", "dog"), [0, 2, 1, 0], "animals")
    assert task.costs == THREE.aligned(task.classes)
    assert load_task(path, target="kind", costs="balanced").costs.to_array()[1].tolist() == [2, 0, 4]
    with pytest.raises(DataError, match=r"column 'kind' of .*animals\.csv has 3 classes .*: state the costs"):
        load_task(path, target="kind")
    with pytest.raises(DataError, match=r"has 3 classes .*, but fp and fn are costs of two"):
        load_task(path, target="kind", costs={"fp": 1, "fn": "legs"})


@given(
    st.lists(
        st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"]), min_size=1), min_size=2, max_size=5
    )
    .map(lambda names: [name.strip() for name in names])
    .filter(lambda names: all(names) and len(set(names)) == len(names) and not set(names) & set(STR_NA_VALUES))
)
def test_matrices_survive_a_file(names):
    rng = np.random.default_rng(0)
    table = rng.random((len(names), len(names))) + 1 - 2 * np.eye(len(names))
    costs = CostMatrix.from_array(table, rows="predicted", classes=names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matrix.csv"
        costs.to_frame().iloc[::-1].to_csv(path)
        assert read_costs(path).aligned(names) == costs
        path.write_text("predicted,01,02,1.50\n01,0,1,2\n1.50,3,4,0\n02,5,0,6\n")  # names that are numbers
        assert read_costs(path).aligned([1, 1.5, 2]).to_array().tolist() == [[0, 2, 1], [3, 0, 4], [5, 6, 0]]


def jpegs(n=5, size=16):
    rng = np.random.default_rng(0)
    files = []
    for _ in range(n):
        buffer = io.BytesIO()
        colour = tuple(int(c) for c in rng.integers(0, 256, 3))
        Image.new("RGB", (size, size), colour).save(buffer, "JPEG", quality=95)
        files.append(np.frombuffer(buffer.getvalue(), dtype=np.uint8))
    return {
        "jpeg": np.concatenate(files),
        "offsets": np.cumsum([0, *map(len, files)]).astype(np.uint32),
        "labels": (np.arange(n) % 2).astype(np.uint8),
        "groups": np.arange(n) // 2,
        "names": np.asarray([f"ISIC_{i}" for i in range(n)], dtype="S8"),
    }


def test_an_archive_of_jpegs_becomes_a_task(tmp_path):
    arrays = jpegs(600)
    np.savez(tmp_path / "skin.npz", **arrays)
    task = load_task(tmp_path / "skin.npz")
    assert task.X.shape == (600, 16, 16, 3)
    assert task.X.flags.c_contiguous
    assert task.y.tolist() == arrays["labels"].tolist()
    assert task.groups.tolist() == arrays["groups"].tolist()
    for i in (0, 255, 256, 599):
        a, b = arrays["offsets"][i : i + 2]
        expected = np.asarray(Image.open(io.BytesIO(arrays["jpeg"][a:b].tobytes())))
        np.testing.assert_array_equal(task.X[i], expected)
    assert load_task(tmp_path / "skin.npz", image_size=8, pos_label="0").X.shape == (600, 8, 8, 3)
    assert load_task(tmp_path / "skin.npz", pos_label="0").y.tolist() == (1 - arrays["labels"]).tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(4, np.uint8)}, "do not belong together: 5 images by offsets, 4 labels"),
        ({"groups": np.zeros(4)}, "do not belong together"),
        ({"jpeg": np.zeros(10, np.uint8)}, "do not belong together: .* 10 bytes"),
        ({"labels": np.arange(5)}, "has 5 classes"),
        ({"offsets": None}, "holds jpeg, labels, groups, names; expected jpeg, labels, offsets"),
    ],
)
def test_bad_archives_are_explained(tmp_path, change, message):
    arrays = {name: array for name, array in (jpegs() | change).items() if array is not None}
    np.savez(tmp_path / "skin.npz", **arrays)
    with pytest.raises(DataError, match=message):
        load_task(tmp_path / "skin.npz")


def test_a_broken_image_of_an_archive_is_named(tmp_path):
    arrays = jpegs()
    a, b = arrays["offsets"][2:4]
    arrays["jpeg"][a:b] = 0
    np.savez(tmp_path / "skin.npz", **arrays)
    with pytest.raises(DataError, match=r"cannot read image 3 of .*skin\.npz \(ISIC_2\)"):
        load_task(tmp_path / "skin.npz", on_error="stop")
    with pytest.warns(DataWarning, match=r"1 images cannot be read and are excluded \(image 3 of .*ISIC_2"):
        task = load_task(tmp_path / "skin.npz")
    assert (len(task.X), task.y.tolist(), task.groups.tolist()) == (4, [0, 1, 1, 0], [0, 0, 1, 2])
    np.savez(tmp_path / "skin.npz", **jpegs())
    with pytest.raises(DataError, match="holds images"):
        load_task(tmp_path / "skin.npz", target="y")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 nor this", "objects"])
def test_a_damaged_archive_is_named(tmp_path, content):
    path = tmp_path / "x.npz"
    if content == "objects":  # would need pickle, which may run anything
        np.savez(path, jpeg=np.asarray([{}, []], dtype=object))
    else:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.npz is not an \.npz archive of arrays"):
        load_task(path)


def medmnist(**change):
    images = np.random.default_rng(0).integers(0, 256, (6, 28, 28), dtype=np.uint8)
    images[5] = images[0]
    arrays = {
        "train_images": images[:3], "train_labels": np.asarray([[0], [1], [1]]),
        "val_images": images[3:5], "val_labels": np.asarray([[1], [0]]),
        "test_images": images[5:], "test_labels": np.asarray([[0]]),
    }  # fmt: skip
    return {name: array for name, array in (arrays | change).items() if array is not None}


def test_medmnist_archives_are_read_and_repeated_images_are_groups(tmp_path):
    np.savez(tmp_path / "m.npz", **medmnist())
    task = load_task(tmp_path / "m.npz")
    assert task.X.shape == (6, 28, 28, 1)
    assert task.y.tolist() == [0, 1, 1, 1, 0, 0]
    assert task.groups[5] == task.groups[0]
    assert len(set(task.groups.tolist())) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"val_labels": None}, "lacks val_labels"),
        ({"val_labels": np.asarray([[1]])}, "6 images but 5 labels"),
        ({f"{p}_labels": np.zeros((n, 14), int) for p, n in (("train", 3), ("val", 2), ("test", 1))}, "14 labels per"),
        ({f"{p}_images": np.zeros((n, 8, 8)) for p, n in (("train", 3), ("val", 2), ("test", 1))}, "must be bytes"),
    ],
)
def test_bad_medmnist_archives_are_explained(tmp_path, change, message):
    np.savez(tmp_path / "m.npz", **medmnist(**change))
    with pytest.raises(DataError, match=message):
        load_task(tmp_path / "m.npz")


def test_the_creditcard_archive_is_a_table(tmp_path):
    np.savez(
        tmp_path / "cards.npz", V=np.asarray([[10000, -5000], [1, 2], [3, 4]], np.int32), scale=1e-4,
        time=np.arange(3), amount_cents=np.asarray([150, 2000, 5]), target=np.asarray([0, 1, 0], np.uint8),
    )  # fmt: skip
    task = load_task(tmp_path / "cards.npz", costs={"fp": 1, "fn": "amount"}, drop=["time"])
    assert list(task.X.columns) == ["V1", "V2", "amount"]
    assert task.X.iloc[0].tolist() == [1.0, -0.5, 1.5]
    assert task.costs.fn.tolist() == [1.5, 20.0, 0.05]
