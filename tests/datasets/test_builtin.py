"""Data sets with a name."""

import gzip
import hashlib
import importlib.resources
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from adacsl import CostMatrix
from adacsl.datasets import DATASETS, DataError, builtin, describe, list_datasets, load_dataset, load_task
from benchmarks.quality import german_credit

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture
def real() -> Path:
    folder = Path(os.environ.get("ADACSL_DATA") or SHARED)
    if not (folder / "german_credit.csv.gz").is_file():
        pytest.skip("the data sets are not here: name their folder in ADACSL_DATA")
    return folder


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A folder with a made german_credit.csv.gz, which the registry takes for a file of the user's."""
    path = tmp_path / "german_credit.csv.gz"
    rows = "".join(f"A{i % 3},{i},{i % 4 == 0:d}\n" for i in range(20))
    path.write_bytes(gzip.compress(f"status,amount,target\n{rows}".encode()))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    known = replace(DATASETS["german-credit"], file=path.name, sha256=digest)
    monkeypatch.setitem(builtin.DATASETS, "german-credit", known)
    return tmp_path


def test_the_embedded_data_are_scikit_learns():
    task = load_task("breast-cancer")
    X, benign = load_breast_cancer(return_X_y=True, as_frame=True)
    pd.testing.assert_frame_equal(task.X, X)
    np.testing.assert_array_equal(task.y, 1 - benign)
    assert task.costs == CostMatrix(fp=1, fn=8)
    assert task.classes == ("benign", "malignant")
    assert task.name == "breast-cancer"


def test_german_credit_comes_with_adacsl(monkeypatch, tmp_path):
    monkeypatch.delenv("ADACSL_DATA", raising=False)
    task = load_task("german-credit")
    assert (task.X.shape, int(task.y.sum()), task.classes) == ((1000, 20), 300, ("good", "bad"))
    assert task.costs == CostMatrix(fp=1, fn=5)
    assert load_task("german_credit", folder=tmp_path).digest == task.digest  # no folder is asked
    assert describe("german-credit")["where"] == "always there"
    text = task.X.select_dtypes(exclude="number")
    assert text.shape[1] == 13
    assert not text.isna().to_numpy().any()
    assert not text.apply(lambda column: column.str.fullmatch(r"A\d+")).to_numpy().any()
    assert sorted(set(text["status"])) == ["0 to 200 DM", "200 DM or more", "below 0 DM", "no account"]


def test_the_shipped_file_is_pinned_and_has_its_licence():
    folder = importlib.resources.files("adacsl.datasets") / "data"
    shipped = (folder / "german_credit.csv.gz").read_bytes()
    assert hashlib.sha256(shipped).hexdigest() == "3d84b4c0b2441bf25f1e9d1174b807f772cb24d933f1162d43463a93e2aab8fa"
    licence = (folder / "german_credit.LICENSE.txt").read_text(encoding="utf-8")
    for words in ("creativecommons.org/licenses/by/4.0", "Hofmann", "10.24432/C5NC77", "What was changed"):
        assert words in licence


@pytest.mark.data
def test_the_shipped_table_is_the_published_one_in_words(real):
    published = (real / "german_credit.csv.gz").read_bytes()
    assert german_credit.with_words(published) == gzip.decompress(german_credit.OURS.read_bytes())
    coded, ours = (pd.read_csv(file, dtype=str) for file in (real / "german_credit.csv.gz", german_credit.OURS))
    for name in coded:
        words = coded[name].map(german_credit.WORDS.get(name, {}), na_action=None)
        pd.testing.assert_series_equal(ours[name], words if name in german_credit.WORDS else coded[name])
        assert ours[name].nunique() == coded[name].nunique()  # no two codes have the same words
    with pytest.raises(ValueError, match="not the published table"):
        german_credit.with_words(published + b" ")


@pytest.mark.parametrize(("name", "load"), [("wine", load_wine), ("digits", load_digits)])
def test_embedded_data_of_many_classes(name, load):
    task = load_task(name)
    X, y = load(return_X_y=True, as_frame=True)
    pd.testing.assert_frame_equal(task.X, X)
    np.testing.assert_array_equal(task.y, y)
    assert task.costs == CostMatrix.balanced(y, classes=task.classes)
    turned = CostMatrix.from_array(1 - np.eye(len(task.classes)), rows="actual", classes=task.classes[::-1])
    assert load_task(name, costs=turned).costs == turned.aligned(task.classes)
    with pytest.raises(DataError, match=r"has (3|10) classes .*fp and fn are costs of two"):
        load_task(name, costs={"fp": 1, "fn": 8})


def test_costs_may_be_others(made):
    assert load_task("breast-cancer", costs={"fp": 2, "fn": 3}).costs == CostMatrix(fp=2, fn=3)
    y = load_task("breast-cancer").y
    assert load_task("breast-cancer", costs="balanced").costs == CostMatrix.balanced(y)
    task = load_dataset("german-credit", folder=made, costs={"fn": "amount", "fp": 1}, drop=["status"])
    assert task.costs.fn.tolist() == list(range(20))
    assert list(task.X.columns) == ["amount"]


def test_files_are_found_by_argument_or_environment(made, monkeypatch, tmp_path):
    monkeypatch.delenv("ADACSL_DATA", raising=False)
    assert load_task("german-credit", folder=made).costs == CostMatrix(fp=1, fn=5)
    monkeypatch.setenv("ADACSL_DATA", str(made))
    assert load_task("German_Credit").y.sum() == 5
    monkeypatch.setenv("ADACSL_DATA", str(tmp_path / "elsewhere"))
    assert load_task("german-credit", folder=made).y.sum() == 5  # the argument comes first


def test_absent_data_name_the_remedy(tmp_path, monkeypatch):
    monkeypatch.delenv("ADACSL_DATA", raising=False)
    with pytest.raises(DataError, match=r"adult is not part of adacsl: put adult\.csv\.gz into .* ADACSL_DATA; .*UCI"):
        load_task("adult")
    with pytest.raises(DataError, match=r"there is no adult\.csv\.gz in .*: put it there.*UCI Adult"):
        load_task("adult", folder=tmp_path)
    with pytest.raises(DataError, match="no built-in data set 'adlt'; did you mean 'adult'"):
        load_dataset("adlt")
    with pytest.raises(DataError, match="no built-in data set 'zzz' \\(breast-cancer"):
        describe("zzz")


def test_another_file_of_the_same_name_is_refused(made):
    path = made / "german_credit.csv.gz"
    path.write_bytes(gzip.compress(b"x,target\n1,0\n2,1\n"))
    with pytest.raises(
        DataError, match=r"german_credit\.csv\.gz is not the file adacsl knows as german-credit.*check=F"
    ):
        load_task("german-credit", folder=made)
    assert load_task("german-credit", folder=made, check=False).y.tolist() == [0, 1]
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        load_task("german-credit", folder=made, check=False)


def test_the_list_names_present_and_absent_data(made, monkeypatch):
    result = {entry["name"]: entry for entry in list_datasets(made)}
    assert list(result) == list(DATASETS)
    assert result["breast-cancer"]["present"]
    assert result["german-credit"]["where"] == str(made / "german_credit.csv.gz")
    assert not result["adult"]["present"]
    assert re.search(r"put adult\.csv\.gz into .*: UCI Adult", result["adult"]["where"])
    monkeypatch.delenv("ADACSL_DATA", raising=False)
    result = {entry["name"]: entry for entry in list_datasets()}
    here = [name for name, entry in result.items() if entry["present"]]
    assert here == ["breast-cancer", "wine", "digits"]  # german-credit is a file of the user here
    assert "ADACSL_DATA" in result["adult"]["where"]


def test_descriptions_are_plain_values():
    known = describe("churn_tv")
    assert (known["rows"], known["positives"], known["positive"]) == (9379, 449, "left")
    assert known["left_out"] == ["id", "C_FP", "C_FN", "C_TP", "C_TN"]
    assert all(isinstance(value, str | int | list | None) for value in known.values())


def test_the_registry_is_complete():
    for known in DATASETS.values():
        assert known.title
        assert known.source
        assert known.licence
        assert (known.positives is None) == (len(known.classes) > 2)
        assert known.positives is None or 0 < known.positives < known.rows
        assert known.matrix is None or np.shape(known.matrix) == (len(known.classes),) * 2
        assert (known.file is None) == (known.sha256 is None)
        assert known.sha256 is None or re.fullmatch("[0-9a-f]{64}", known.sha256)
        assert re.fullmatch("[a-z0-9-]+", known.name)


GIVE_AWAYS = {"target", "class3", "original_split", "duration", "ID", "id", "customerID", "Z_CostContact", "Z_Revenue"}


@pytest.mark.data
@pytest.mark.parametrize("name", DATASETS)
def test_real_files_are_as_in_the_registry(real, name):
    known, task = DATASETS[name], load_task(name, folder=real)
    assert len(task.y) == known.rows
    assert known.positives in (None, int(task.y.sum()))
    assert np.unique(task.y).tolist() == list(range(len(known.classes)))
    assert task.classes == known.classes
    assert task.images == (known.kind == "images")
    if known.kind == "table":
        assert not GIVE_AWAYS & set(task.X.columns)
        assert not any(column.startswith("C_") for column in task.X.columns)
    elif name != "pneumoniamnist":
        assert task.X.shape[1:] == (64, 64, 3)
        kinds = pd.Series(task.y).groupby(task.groups).nunique()
        assert kinds.max() == 1  # a lesion, images of one plant: one label
    if name == "ham10k-7":
        table = task.costs.to_frame()
        assert task.costs.classes == task.classes == ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
        assert np.bincount(task.y).tolist() == [327, 514, 1099, 115, 1113, 6705, 142]
        assert table.loc["nv", "mel"] == table.max(axis=None) > table.loc["nv", "bcc"] > table.loc["nv", "akiec"] > 1
        assert table.loc["mel", "nv"] == 1 > table.loc["bkl", "nv"] > 0
    elif name == "churn-tv":
        raw = pd.read_csv(real / "churn_tv_subscriptions.csv.gz")
        for cost in ("fp", "fn", "tp", "tn"):
            np.testing.assert_array_equal(getattr(task.costs, cost), raw[f"C_{cost.upper()}"])
    elif name == "creditcard-fraud":
        np.testing.assert_array_equal(task.costs.fn, task.X["amount"])
        assert task.costs.fn[task.y == 1].sum() == pytest.approx(60_127.97)


def test_the_page_lists_what_the_registry_holds():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "compare" / "data.md").read_text(encoding="utf-8")
    lines = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")]
    rows = {name.strip().strip("`"): cells for cells in lines for name in cells[0].split(",")}
    for known in DATASETS.values():
        cells = rows[known.name]
        assert f"{known.rows:,}" in cells[2]
        assert (f"{len(known.classes)}" if known.positives is None else f"{known.positives:,}") in cells[3]
